"""Mapped files that grow under loads, and mapped files that the system does not cut."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import warnings

import numpy as np
import pytest
from engines import ENGINES

import extarray as xa
from extarray._core._mapping import Region, write_views
from extarray.common import system
from extarray.errors import StorageError
from extarray.format.constants import SEAL_BYTES
from extarray.storage import commits, space
from extarray.storage.filesystem import File

pytestmark = pytest.mark.skipif("mmap" not in ENGINES, reason="needs the engine mmap")


def rows(n, value):
    return np.full((n, 8), value, "i8")


def test_loads_beside_growth(path):
    """What is mapped stays mapped at every moment, in lengths of all kinds."""
    with (
        xa.create(path, (1, 8), "i8", chunks=(1, 8), engine="mmap") as a,
        xa.open(path, engine="mmap") as b,
    ):
        a[0] = 7
        views = [a.chunk((0, 0)), b.chunk((0, 0))]
        ended, wrong = threading.Event(), []

        def load():
            while not ended.is_set():
                wrong.extend(view.copy() for view in views if not (view == 7).all())

        thread = threading.Thread(target=load)
        thread.start()
        try:
            for i in range(60):
                a.append(rows(1 + i**2 % 97, i))
                b.refresh()
                views.append(b.chunk((0, 0)))
                assert (b[-1] == i).all()
        finally:
            ended.set()
            thread.join()
        assert not wrong
        np.testing.assert_array_equal(a[...], b[...])
        views[0][...] = 8
        assert all((view == 8).all() for view in views)


def test_a_region_shows_what_its_file_gains(path):
    with File.open(str(path), os.O_RDWR | os.O_CREAT) as fd:
        unit, region = 1 << 16, None
        for length in (1, 100, unit, unit + 1, 3 * unit, 3 * unit + 5):
            os.ftruncate(fd, length)
            if region is None or not region.shows_up_to(length):
                region = Region.file(fd, length, True, True)
            assert region.shows_up_to(length)
            assert region.mapped
        assert not region.shows_up_to(1 << 50)
        assert write_views(fd) == 0


@pytest.mark.skipif(system.MAPS_FREELY, reason="a mapping reaches beyond the end of its file here")
def test_no_view_of_what_the_file_lacks(path):
    with File.open(str(path), os.O_RDWR | os.O_CREAT) as fd:
        os.ftruncate(fd, 1 << 16)
        with pytest.raises(OSError, match="less than"):
            Region.file(fd, 1 << 17, False, True)


def test_a_file_is_cut_under_views_or_closed_without_seal(path, tmp_path):
    """Whatever the system allows: nobody doubts the elements, and the next writer goes on."""
    a = xa.create(path, (4, 8), "i8", chunks=(4, 8), sparse=True, engine="mmap")
    with xa.open(path, engine="mmap") as b:
        a.append(rows(4000, 5))
        b.refresh()
        assert (b[4:] == 5).all()
        a.close()
        go_on(path, tmp_path, b)


READER = """
import sys
import extarray as xa
with xa.open(sys.argv[1], engine="mmap") as array:
    view = array.chunk((1, 0))
    print(len(array), flush=True)
    sys.stdin.readline()
    array.refresh()
    assert (view == 5).all() and (array[4:4004] == 5).all() and (array[4004:] == 6).all()
    print(len(array), flush=True)
"""


def test_another_process_has_the_file_mapped(forked, path):
    """Space that a writer has taken ahead is cut off when it closes, or when the next one does."""
    data = path.with_suffix(".xta")
    options = {"chunks": (4, 8), "sparse": True, "engine": "mmap"}
    with xa.create(path, (4, 8), "i8", **options) as a:
        a.append(rows(4000, 5))
        long = data.stat().st_size
        with forked.start(READER, path) as reader:
            assert reader.stdout.readline() == "4004\n"
            a.append(rows(9, 6))
            a.close()
            assert (data.stat().st_size < long) == system.MAPS_FREELY
            assert xa.check(path).ok
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == "4013\n"
            assert reader.wait(250) == 0
    with xa.open(path, "r+", engine="mmap") as a:
        a.append(rows(1, 6))
    assert data.stat().st_size < long
    assert xa.check(path).ok
    with xa.open(path) as a:
        assert (a[4:4004] == 5).all()
        assert (a[4004:] == 6).all()
        assert len(a) == 4014


@pytest.fixture
def uncut(monkeypatch):
    """Let files behave as if somebody had them mapped, on a system that then does not cut them."""
    truncate = File.truncate

    def refuse(self, length):
        if self.name.endswith(".xta") and length < self.length:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        truncate(self, length)

    monkeypatch.setattr(File, "truncate", refuse)
    monkeypatch.setattr(system, "MAPS_FREELY", False)
    for module in (commits, space):
        monkeypatch.setattr(module, "MAPS_FREELY", False)


def test_files_that_stay_long(path, tmp_path, uncut):
    a = xa.create(path, (4, 8), "i8", chunks=(4, 8), sparse=True, engine="mmap")
    with xa.open(path, engine="mmap") as b:
        a.append(rows(4000, 5))
        a.append(rows(1, 5))
        a.close()
        data = path.with_suffix(".xta")
        assert data.stat().st_size > 4005 * 64 + SEAL_BYTES
        b.refresh()
        go_on(path, tmp_path, b)


def go_on(path, tmp_path, reader):
    """Read an array that was closed, copy its files, write on."""
    n, copy = len(reader), tmp_path / "copy"
    for suffix in (".xmd", ".xta"):
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in (path, copy):
            with xa.open(name) as c:
                assert (c[4:] == 5).all()
            assert xa.check(name).ok
            with xa.open(name, "r+", engine="mmap") as c:
                c.append(rows(9, 6))
                c.extend(0, 3)
            with xa.open(name) as c:
                assert (c[4:n] == 5).all()
                assert (c[n : n + 9] == 6).all()
                assert (c[n + 9 :] == 0).all()
    reader.refresh()
    assert len(reader) == n + 12


def test_a_growth_that_fails_leaves_zeros_in_a_file_that_stays_long(path, uncut, monkeypatch):
    with xa.create(path, (4, 8), "i8", chunks=(4, 8), sparse=True, engine="mmap") as a:
        a[...] = 1

        def fail(*args):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            write = File.write

            def then_fail(self, data, offset):
                write(self, data, offset)
                if self.name.endswith(".xmd"):
                    fail()

            patch.setattr(File, "write", then_fail)
            with pytest.raises(StorageError):
                a.append(rows(100, 9))
        a.extend(0, 200)
        assert (a[:4] == 1).all()
        assert (a[4:] == 0).all()
