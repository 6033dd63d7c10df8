"""`config.mapped_memory` bounds the resident parts of mapped files in long operations."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from peaks import FREED_AT_ONCE

import extarray as xa

pytestmark = pytest.mark.slow

SIDE = 1 << 11  # the array has 32 MiB of float64

PEAK = """
import sys
import extarray as xa
from extarray.streaming import blocks

def resident():
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10

path, bound, work, threads = sys.argv[1:]
xa.config.threads = int(threads)
xa.config.mapped_memory = bound or None
# Modules that are imported when they are first used take memory, too.
with xa.rechunk(xa.zeros((4, 4)), path + "-small", chunks=2) as small:
    small.copy().sum(axis=0)
with xa.open(path, engine="mmap") as a:
    a[:1].sum()
    before = resident()
    if work == "rechunk":
        # By bands that lie together in both files: a huge page of the system's cache is mapped as
        # a whole, and a band that needs a little of each maps the file.
        xa.rechunk(a, path + "-new", chunks=(16, 1 << 11), max_memory="4 MiB", verify=True).close()
    elif work == "copy":
        with xa.config.set(max_memory="4 MiB"):
            a.copy(path + "-new").close()
    else:
        a.sum(axis=0)
    print(resident() - before)
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("mapped") / "a"
    with xa.create(path, (SIDE, SIDE), "f8", chunks=(64, 64)) as a:
        a[...] = np.arange(SIDE)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell, or give back")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", ["rechunk", "copy", "sum"])
def test_the_resident_set_stays_near_the_bound(stored, script, work, threads):
    def peak(bound):
        for name in ("a-new", "a-small"):
            for suffix in (".xmd", ".xta"):
                stored.with_name(name + suffix).unlink(missing_ok=True)
        return int(
            script(
                PEAK,
                stored,
                bound,
                work,
                threads,
                env=[("ASAN_OPTIONS", FREED_AT_ONCE["ASAN_OPTIONS"])],
            )
        )

    unbounded = peak("")
    assert unbounded > 0.9 * SIDE * SIDE * 8
    assert peak("1 MiB") < 0.6 * unbounded


def test_nothing_is_lost(tmp_path):
    values = np.arange(600 * 700.0).reshape(600, 700)
    with (
        xa.config.set(mapped_memory=1),
        xa.from_array(values, tmp_path / "a", chunks=(50, 60)) as a,
        xa.from_array(values, chunks=(50, 60)) as m,  # in memory: only this process has it
    ):
        a += 1
        m += 1
        assert np.sum(a) == np.sum(m) == (values + 1).sum()
        with xa.rechunk(a, tmp_path / "b", chunks=(600, 3), max_memory="1 MiB") as b:
            np.testing.assert_array_equal(b[...], values + 1)
        np.testing.assert_array_equal(m[...], values + 1)


@pytest.mark.parametrize("value", [0, -1, "0 MiB", "much", True])
def test_what_is_no_bound_is_refused(value):
    with pytest.raises((xa.ArgumentError, xa.ArgumentTypeError)):
        xa.config.mapped_memory = value
    assert xa.config.mapped_memory is None
