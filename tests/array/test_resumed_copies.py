"""Copies of arrays elsewhere that were interrupted, and go on where they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from served import needs_obstore

import extarray as xa
from extarray.common.limits import limits
from extarray.errors import ExistsError

X = np.random.default_rng(5).normal(size=(64, 32, 16)).astype("f4")


class StopError(Exception):
    """Raised by the test in the midst of a copy."""


def stops_at(share):
    def progress(done, total):
        if done >= share * total:
            raise StopError

    return progress


@pytest.fixture
def place():
    from obstore.store import MemoryStore

    return MemoryStore(), "scene"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(limits, "journal_interval", 0.0)
    monkeypatch.setattr(limits, "progress_interval", 0.0)
    with xa.config.set(max_memory=32 << 10, threads=1):
        yield


def fetched(a):
    return a.info()["fetched_bytes"]


@needs_obstore
def test_a_copy_from_a_bucket_goes_on(place, tmp_path, capfd):
    a = xa.from_array(X, chunks=(4, 8, 16))
    p = xa.publish(a, place)
    with xa.open(place) as b, pytest.raises(StopError):
        b.copy(tmp_path / "here", progress=stops_at(0.6))
    assert not (tmp_path / "here.xmd").exists()
    p.clean(older_than=0)  # changes nothing but the head
    with xa.open(place) as b:
        before = fetched(b)
        with b.copy(tmp_path / "here") as c:
            np.testing.assert_array_equal(c[...], X)
        assert fetched(b) - before < 0.6 * X.nbytes
        assert "copy continues the earlier work" in capfd.readouterr().err
        with pytest.raises(ExistsError):
            b.copy(tmp_path / "here")
    assert sorted(os.listdir(tmp_path)) == ["here.xmd", "here.xta"]


@needs_obstore
@pytest.mark.parametrize("change", ["elements", "array", "arguments", "asked"])
def test_a_copy_of_something_else_begins_anew(place, tmp_path, capfd, change):
    a = xa.from_array(X, chunks=(4, 8, 16))
    p = xa.publish(a, place)
    with xa.open(place) as b, pytest.raises(StopError):
        b.copy(tmp_path / "here", progress=stops_at(0.5))
    options = {}
    if change == "elements":
        a[0, 0, 0] = 7
        p.update(compare=True)
    elif change == "array":
        a = xa.from_array(X + 1, chunks=(4, 8, 16))
        place = place[0], "other"
        xa.publish(a, place)
    elif change == "arguments":
        options["checksum"] = True
    else:
        options["resume"] = False
    with xa.open(place) as b, b.copy(tmp_path / "here", **options) as c:
        np.testing.assert_array_equal(c[...], a[...])
    assert ("copy begins anew" in capfd.readouterr().err) == (change != "asked")
    assert sorted(os.listdir(tmp_path)) == ["here.xmd", "here.xta"]


def test_local_copies_go_on_if_asked(tmp_path):
    with xa.from_array(X, tmp_path / "a", (4, 8, 16)) as a:
        with pytest.raises(StopError):
            a.copy(tmp_path / "b", progress=stops_at(0.5))
        assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]
        with pytest.raises(StopError):
            a.copy(tmp_path / "b", resume=True, progress=stops_at(0.5))
        told = []
        with a.copy(tmp_path / "b", resume=True, progress=lambda *n: told.append(n)) as b:
            np.testing.assert_array_equal(b[...], X)
        assert told[0][0] >= 0.4 * X.nbytes
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta", "b.xmd", "b.xta"]


KILLED = """
import os, signal, sys
import extarray as xa
from extarray.common.limits import limits
limits.journal_interval = limits.progress_interval = 0.0

def progress(done, total):
    if done >= float(sys.argv[3]) * total:
        os.kill(os.getpid(), signal.SIGKILL)

with xa.config.set(max_memory=32 << 10, threads=1), xa.open(sys.argv[1]) as a:
    a.copy(sys.argv[2], resume=True, progress=progress)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no process can be killed")
def test_killed_copies_go_on(tmp_path):
    with xa.from_array(X, tmp_path / "a", (4, 8, 16)):
        pass
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        words = [KILLED, str(tmp_path / "a"), str(tmp_path / "b"), str(share)]
        found = subprocess.run([sys.executable, "-c", *words], timeout=60, check=False)
        assert found.returncode == -signal.SIGKILL
    told = []
    with (
        xa.open(tmp_path / "a") as a,
        a.copy(tmp_path / "b", resume=True, progress=lambda *n: told.append(n)) as b,
    ):
        np.testing.assert_array_equal(b[...], X)
    assert told[0][0] >= 0.7 * X.nbytes
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta", "b.xmd", "b.xta"]
