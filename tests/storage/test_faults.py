"""Failing system calls, kills, interrupts and power cuts, in separate processes.

The numbers are small here; environment variables raise them: EXTARRAY_TEST_KILLS,
EXTARRAY_TEST_INTERRUPTS, EXTARRAY_TEST_POWER_CUTS (runs of about a hundred each).
"""

from __future__ import annotations

import os

import preload
import pytest
from killed_jobs import JOBS

pytestmark = pytest.mark.slow

LONGEST = 280  # seconds


def number(variable: str, usual: int) -> int:
    return int(os.environ.get(variable, usual))


@pytest.fixture
def watched(shim, tmp_path):
    """Return the environment of a process whose files in a separate folder are watched."""
    folder = tmp_path / "watched"
    folder.mkdir()
    return preload.environment(shim, folder, tmp_path / "control")


@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_each_call_to_the_system_fails_once(script, watched, engine):
    found = script(
        "import faults, sys; faults.main(sys.argv[1:])", engine, env=watched, timeout=LONGEST
    )
    assert int(found.split()[-2]) > 800


def test_reads_of_pending_states_that_fall_short(script, watched):
    script("import short_reads; short_reads.main()", env=watched, timeout=LONGEST)


def test_kills(script, watched):
    kills = number("EXTARRAY_TEST_KILLS", 100)
    seed = os.getpid()
    script("import kills, sys; kills.main(sys.argv[1:])", kills, seed, env=watched, timeout=LONGEST)


@pytest.mark.parametrize("name", JOBS)
def test_kills_in_jobs_on_files(script, watched, name):
    code = "import killed_jobs, sys; killed_jobs.main(sys.argv[1:])"
    found = script(code, name, env=watched, timeout=LONGEST)
    assert int(found.split()[-2]) > 10


def test_kills_where_nothing_is_watched(script):
    script("import kills; kills.main(['10'])")


def test_interrupts(script):
    interrupts = number("EXTARRAY_TEST_INTERRUPTS", 300)
    seed = os.getpid()
    script(
        "import interrupts, sys; interrupts.main(sys.argv[1:])", interrupts, seed, timeout=LONGEST
    )


def test_losses_of_power(script, watched):
    runs = number("EXTARRAY_TEST_POWER_CUTS", 8)
    seed = os.getpid()
    script("import power, sys; power.main(sys.argv[1:])", runs, seed, env=watched, timeout=LONGEST)


def test_the_watch_sees_what_happens(script, watched):
    """Check the means of the tests above: a fault, a half write and a record."""
    script(
        """
import os, preload, sys, tempfile
control = preload.Control()
path = os.environ["PRELOAD_FOLDER"] + "/file"
fd = os.open(path, os.O_RDWR | os.O_CREAT)
with control.fault(2, preload.FAULTS["ENOSPC"]) as fired:
    assert os.pwrite(fd, b"first", 0) == 5 and not fired()
    try:
        os.pwrite(fd, b"second", 0)
    except OSError as error:
        assert error.errno == 28 and fired() and control.name == "pwrite"
with control.fault(1, preload.FAULTS["half"]):
    assert os.pwrite(fd, bytes(64), 0) == 32
with tempfile.TemporaryFile() as log:
    control.record(log.fileno())
    os.pwrite(fd, b"data", 7)
    os.rename(path, path + "2")
    control.record(-1)
    log.seek(0)
    write, rename = preload.events(log.read())
assert (write.name, write.offset, write.data) == ("pwrite", 7, b"data")
assert rename.data.decode().split("\\0")[:2] == [path, path + "2"]
""",
        env=watched,
    )


def test_a_write_that_makes_no_progress(script, watched):
    """Such a write ends in an input/output error, not in an endless loop."""
    script(
        """
import errno, os, preload
import extarray as xa
control = preload.Control()
with xa.create(os.environ["PRELOAD_FOLDER"] + "/a", 64, "u1", chunks=64, engine="pread") as array:
    for key in (slice(None), [3, 5]):
        with control.fault(1, preload.NOTHING_DONE) as fired:
            try:
                array[key] = 7
            except xa.StorageError as error:
                assert error.errno == errno.EIO and fired() and control.name == "pwrite"
            else:
                raise AssertionError("an error was expected")
    array[...] = 7
    assert (array[...] == 7).all()
""",
        env=watched,
        timeout=250,
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_other_threads_run_while_space_is_given_and_taken(script, watched, sparse):
    """System calls for disk space let another thread run before they return."""
    script(
        """
import os, preload, sys, threading, time
import extarray as xa
control = preload.Control()
sparse = sys.argv[1] == "True"
path = os.environ["PRELOAD_FOLDER"] + "/a"
array = xa.create(path, 2**20, "u1", chunks=2**16, sparse=sparse)
array[...] = 1

def release():
    while not control.fired:
        time.sleep(0.001)
    control.release()

def waits(call, *args):
    with control.fault(1, preload.WAIT) as fired:
        thread = threading.Thread(target=release)
        thread.start()
        call(*args)
        assert fired(), call
        thread.join()

waits(array.shrink, 0, 2**19)
waits(array.extend, 0, 2**19)
if sparse:
    array.extend(0, 2**16)
    waits(array.chunk, (16,))
""",
        sparse,
        env=watched,
        timeout=250,
    )


def test_a_view_of_a_hole_where_the_file_system_gives_no_space_ahead(script, watched, engine):
    """Making the view writes nothing to the chunk: that could undo writes by others."""
    script(
        """
import errno, os, preload, sys, tempfile
import extarray as xa
control = preload.Control()
path = os.environ["PRELOAD_FOLDER"] + "/a"
n = 2**16
array = xa.create(path, 4 * n, "u1", chunks=n, sparse=True, engine=sys.argv[1])
array[n : n + 8] = 1
array.chunk((0,))  # has the file mapped
with tempfile.TemporaryFile() as log, control.fault(1, errno.EOPNOTSUPP) as fired:
    control.record(log.fileno())
    try:
        view = array.chunk((2,))
    except xa.StorageError as error:  # Linux before 5.14
        assert error.errno == errno.EOPNOTSUPP and "use read and write" in str(error)
        view = None
    control.record(-1)
    assert fired() and control.name == "fallocate"
    log.seek(0)
    assert not list(preload.events(log.read()))
if view is not None:
    assert not view.any()
    view[5:7] = 3
    array[2 * n] = 4
    assert view[:8].tolist() == [4, 0, 0, 0, 0, 3, 3, 0] == array[2 * n : 2 * n + 8].tolist()
    assert os.stat(path + ".xta").st_blocks * 512 >= 2 * n
""",
        engine,
        env=watched,
        timeout=250,
    )


def test_a_system_without_space_ahead_and_locks_of_ranges(script, watched, engine):
    """Like macOS, without `fallocate` and without range locks on open files."""
    script(
        """
import os, preload, sys
import numpy as np
import extarray as xa
from extarray.common.limits import limits
limits.has_range_locks = False
control = preload.Control()
path = os.environ["PRELOAD_FOLDER"] + "/a"
with control.fault(1, preload.NO_SPACE) as fired:
    for sparse in (False, True):
        a = xa.create(path, (3, 50), "i4", chunks=(2, 16), fill_value=7, sparse=sparse,
                      checksum=True, engine=sys.argv[1], overwrite=True)
        model = np.full((3, 50), 7, "i4")
        reader = xa.open(path, engine=sys.argv[1])
        for step in range(30):
            axis, side = step % 2, ("end", "start")[step % 3 == 1]
            if step % 5 == 4:
                a.shrink(axis, 2, side=side)
                cut = slice(2, None) if side == "start" else slice(None, -2)
                model = model[(slice(None),) * axis + (cut,)]
            else:
                a.extend(axis, 3, side=side)
                width = [(0, 0), (0, 0)]
                width[axis] = (3, 0) if side == "start" else (0, 3)
                model = np.pad(model, width, constant_values=7)
            a[step % len(model), ::3] = step
            model[step % len(model), ::3] = step
            assert np.array_equal(a[...], model)
            assert reader.refresh() and np.array_equal(reader[...], model)
        a.reserve((40, 200))
        b = xa.rechunk(a, f"{path}{sparse}", chunks=(5, 5))
        assert np.array_equal(b[...], model)
        b.close(), reader.close(), a.close()
        with xa.open(path, "r+", engine=sys.argv[1]) as a:
            a.append(model[:1])
            assert np.array_equal(a[:-1], model) and np.array_equal(a[-1], model[0])
        assert xa.check(path, data=True).ok
    assert fired()
""",
        engine,
        env=watched,
        timeout=250,
    )
