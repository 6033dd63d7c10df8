"""Any number of processes write elements inside the bounds, beside a committing writer."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from systems import needs_replaced_open_files

import extarray as xa


def elements(path, **options):
    return xa.open(path, "r+", share="elements", **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a"


def start(code, *args):
    """Start a process that reports when it is ready, and then waits for a line."""
    code = "import sys\nimport extarray as xa\n" + textwrap.dedent(code)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def go(process):
    process.stdin.write("\n")
    process.stdin.close()


def finish(process):
    out = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0
    return out


WRITE_COLUMNS = """
    a = xa.open(sys.argv[1], "r+", share="elements")
    print("ready", flush=True)
    sys.stdin.readline()
    n = int(sys.argv[2])
    a[:, n::3] = n + 1
    a.flush()
    a.close()
"""


@pytest.mark.invariant("I9")
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("order", ["C", "Z"])
@pytest.mark.parametrize("sparse", [False, True])
def test_processes_write_into_the_same_chunks(path, order, sparse):
    """All at once, beside a lone writer that grows the array."""
    with xa.create(path, (64, 60), "i2", chunks=16, order=order, sparse=sparse) as owner:
        workers = [start(WRITE_COLUMNS, path, n) for n in range(3)]
        for worker in workers:
            go(worker)
        for _ in range(20):
            owner.append(np.full((3, 60), 9, "i2"))
        for worker in workers:
            finish(worker)
        want = np.vstack([np.tile([1, 2, 3], (64, 20)), np.full((60, 60), 9)])
        assert (owner[...] == want).all()
        owner.flush()
    with xa.open(path) as a:
        assert (a[...] == want).all()
    assert xa.check(path, data=True).ok


@pytest.mark.slow
@pytest.mark.process
def test_growth_by_the_owner_is_taken_up(path):
    with xa.create(path, (4, 4), "i4", chunks=(3, 2)) as owner:
        worker = start(
            """
            a = xa.open(sys.argv[1], "r+", share="elements")
            print("ready", flush=True)
            sys.stdin.readline()
            before = a.shape
            assert a.refresh() and not a.refresh()
            a[-1] = 7
            print(before, a.shape, a.origin)
            """,
            path,
        )
        owner.extend(0, 5)
        owner.extend(1, 3, "start")
        go(worker)
        assert finish(worker) == "(4, 4) (9, 7) (0, 3)\n"
        assert owner[-1].tolist() == [7] * 7
        assert not owner[:-1].any()


@needs_replaced_open_files
def test_an_axis_more_is_taken_up(path):
    with xa.create(path, (4,), "i4", chunks=3, checksum=True) as owner:
        owner[...] = 1
        data = pickle.dumps(owner)
        with pickle.loads(data) as worker:
            owner.add_axis()
            owner.extend(0, 2)
            assert worker.refresh()
            worker[2, 1] = 5
            assert owner[...].tolist() == [[1] * 4, [0] * 4, [0, 5, 0, 0]]


@pytest.mark.slow
@pytest.mark.process
def test_a_killed_worker_loses_its_own_block_only(path):
    with xa.create(path, (300, 100), "i4", chunks=(7, 9)) as owner:
        worker = start(
            """
            a = xa.open(sys.argv[1], "r+", share="elements")
            a[:100] = 1
            print("ready", flush=True)
            while True:
                a[100:200] = 2
            """,
            path,
        )
        owner[200:] = 3
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdin.close()
        worker.stdout.close()
        got = owner[...]
        assert (got[:100] == 1).all() and (got[200:] == 3).all()
        assert np.isin(got[100:200], [0, 2]).all()
        owner.append(np.full((1, 100), 4))
    assert xa.check(path).ok
    with xa.open(path, "r+") as again:  # no lock is left
        assert again.shape == (301, 100)


CHANGES = {
    "append to": lambda a: a.append(np.zeros((1, 4))),
    "extend": lambda a: a.extend(0, 1),
    "resize": lambda a: a.resize((9, 9)),
    "shrink": lambda a: a.shrink(0, 1),
    "reserve room for": lambda a: a.reserve((9, 9)),
    "add an axis to": lambda a: a.add_axis(),
    "change the growth policy of": lambda a: setattr(a, "growth", "cubical"),
    "change the attributes of": lambda a: a.attrs.__setitem__("x", 1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_only_elements_are_written(path, what):
    xa.zeros((4, 4), path=path).close()
    before = path.with_suffix(".xmd").read_bytes()
    with elements(path) as a:
        with pytest.raises(xa.ReadOnlyError, match=rf"{what} .*share='elements'.*refresh\(\)"):
            CHANGES[what](a)
        with pytest.raises(xa.ReadOnlyError):
            a.dims = ("y", "x")
        with pytest.raises(xa.ReadOnlyError, match="elements"), xa.commit([a]):
            pass
        with pytest.raises(xa.ReadOnlyError, match="elements"):
            xa.rechunk(a, chunks=(2, 2), in_place=True)
        a[...] = 1
        assert a.shape == (4, 4)
    assert path.with_suffix(".xmd").read_bytes() == before


def test_the_files_stay_as_they_are_but_for_the_elements(path):
    """Only bytes of elements change; seal, metadata and space belong to the owner."""
    with xa.create(path, (5, 7), "u1", chunks=(4, 4)) as a:
        a[...] = 1
    names = [path.with_suffix(s) for s in (".xmd", ".xta")]
    before = [np.frombuffer(name.read_bytes(), "u1") for name in names]
    with elements(path) as a:
        a[2:5, 3] = 9
        a[[0, 1], [6, 2]] = 9
        a.flush()
    after = [np.frombuffer(name.read_bytes(), "u1") for name in names]
    assert (before[0] == after[0]).all()
    changed = np.flatnonzero(before[1] != after[1])
    assert len(changed) == 5
    assert (after[1][changed] == 9).all()


def test_arguments(path):
    xa.zeros((4, 4), path=path).close()
    with pytest.raises(xa.ArgumentError, match="share='elements' cannot use a memory map"):
        elements(path, engine="mmap")
    with pytest.raises(xa.ArgumentError, match="share='elements' is for writers"):
        xa.open(path, share="elements")
    with pytest.raises(TypeError, match="share must be True or False"):
        xa.open(path, "r+", share="rows")
    with elements(path) as a, elements(path, durability="commit") as b:
        assert a.mode == b.mode == "r+"
        assert a.info()["engine"] == "pread"
        a[0], b[1] = 1, 2
        assert a[:2].tolist() == [[1] * 4, [2] * 4]
        a += 1
        np.add(a, 1, out=a)
        a.lazy[2:, 1] = 5
        assert b[:, 1].tolist() == [3, 4, 5, 5]
        with pytest.raises(IndexError):
            a[4] = 1


def test_views_of_chunks_are_read_only(path):
    """A cut by the owner makes holes: nobody may store to those through a mapping."""
    with xa.create(path, (4, 4), "i4", chunks=2) as owner, elements(path) as a:
        owner[...] = 5
        view = a.chunk((0, 0))
        assert view.tolist() == [[5, 5]] * 2
        assert not view.flags.writeable


@pytest.mark.parametrize("fill", [0, 7])
def test_cuts_by_the_owner(path, fill):
    """Writes to elements already cut off are lost, and harmless."""
    owner = xa.create(path, (512, 64), "i8", chunks=64, fill_value=fill)
    with owner, elements(path) as a:
        owner.shrink(0, 256)
        a[...] = 3
        assert (a[:256] == 3).all()
        assert np.isin(a[256:], [3, fill]).all()
        assert (owner[...] == 3).all()
        assert a.refresh() and a.shape == (256, 64)
        owner.extend(0, 100)
        assert (owner[256:] == fill).all()
    assert xa.check(path).ok


@needs_replaced_open_files
def test_replaced_files_are_noticed(path):
    xa.zeros((4,), path=path).close()
    with elements(path) as a:
        xa.create(path, (5,), overwrite=True).close()
        with pytest.raises(xa.ReplacedError):
            a.refresh()
        assert a.refresh(on_replaced="reopen")
        a[...] = 1
        assert a.shape == (5,)
        with pytest.raises(xa.ReadOnlyError, match="share='elements'"):
            a.extend(0, 1)
    assert xa.open(path)[...].tolist() == [1] * 5


@pytest.mark.process
def test_a_forked_child_reads(path):
    xa.zeros((4,), path=path).close()
    with elements(path) as a:
        a[0] = 1
        pid = os.fork()
        if not pid:
            try:
                a[1] = 1
            except xa.ReadOnlyError as error:
                os._exit(0 if re.search("forked", str(error)) and a[0] == 1 else 2)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        a[1] = 2
        assert a[...].tolist() == [1, 2, 0, 0]


# -- checksums -----------------------------------------------------------------------------------


def in_doubt(path):
    return any("in doubt" in problem.what for problem in xa.check(path, data=True).problems)


@pytest.mark.parametrize("fill", [0, 7])
def test_checksums_are_in_doubt_from_the_first_write_on(path, fill):
    with xa.create(path, (10, 10), "i4", chunks=4, checksum=True, fill_value=fill) as owner:
        owner[...] = 1
    with elements(path) as a:
        assert (a[...] == 1).all()
        assert not in_doubt(path)
        a[3, 5] = 2
        assert in_doubt(path)
    with xa.open(path, "r+") as owner:  # it does not know the changed chunks
        owner[0] = 3
        owner.copy()
        owner.flush()
        assert in_doubt(path)
        owner[3, 4] = 4
    assert in_doubt(path)
    xa.check(path, data=True, repair=True, force=True)
    assert not in_doubt(path)
    with xa.open(path, verify="read") as a:
        assert a[3, 4:6].tolist() == [4, 2]


def test_the_doubt_comes_again_after_a_repair(path):
    xa.create(path, (10,), "i4", chunks=4, checksum=True).close()
    with elements(path) as a:
        a[1] = 2
        xa.check(path, data=True, repair=True, force=True)
        assert not in_doubt(path)
        a[1] = 3
        assert in_doubt(path)


def test_beside_a_writer_that_keeps_checksums(path):
    """Others' writes would break the owner's sums, unless pickling has told it of others."""
    with xa.create(path, (10, 10), "i4", chunks=4, checksum=True) as owner:
        owner[...] = 1
        owner.flush()
        with elements(path) as a:
            assert a[0, 0] == 1
            with pytest.raises(xa.LockedError, match="maintains its checksums"):
                a[0, 0] = 2
        assert not in_doubt(path)
        with pickle.loads(pickle.dumps(owner)) as a:
            a[0, 1] = 5
            owner[0, 0] = 6
            owner.flush()
            assert in_doubt(path)
            assert owner.copy()[0, :2].tolist() == [6, 5]
            a[0, 2] = 7
    assert in_doubt(path)
    with xa.open(path, verify="read") as a:
        assert a[0, :3].tolist() == [6, 5, 7]
