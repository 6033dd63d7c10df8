"""Interrupts, failures and full disks at bad moments lose nothing and show nothing."""

import _thread
import contextlib
import errno
import os
import shutil

import numpy as np
import pytest
from systems import needs_reports_of_holes

import extarray as xa
from extarray.storage import memory
from extarray.storage.commits import Committer
from extarray.storage.filesystem import File


def failing(monkeypatch, name, times=1):
    """Make a call of open files fail with EIO, a number of times."""
    real, left = getattr(File, name), [times]

    def fail(*args):
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*args)

    monkeypatch.setattr(File, name, fail)
    return left


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_rows_of_a_killed_append_never_show(tmp_path, engine):
    """Kill an append to a sealed array, then open, close, open and grow it."""
    path, copy = tmp_path / "a", tmp_path / "b"
    xa.create(path, (3, 4), "i4", chunks=(8, 4), engine=engine).close()
    array = xa.open(path, "r+", engine=engine)
    commit = array._store.commit

    def killed(*args):
        for suffix in (".xmd", ".xta"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        return commit(*args)

    array._store.commit = killed
    array.append(np.full((2, 4), 99, "i4"))
    array.close()
    xa.open(copy, "r+", engine=engine).close()
    with xa.open(copy, "r+", engine=engine) as left:
        assert left.shape == (3, 4)
        left.extend(0, 2)
        assert not left[...].any()


def test_failed_append_then_close_and_growth(tmp_path, monkeypatch):
    path = tmp_path / "a"
    with xa.create(path, (3, 4), "i4", chunks=(8, 4)) as array:

        def fail(*args):
            raise OSError(errno.ENOSPC, "no space")

        with monkeypatch.context() as patch:
            patch.setattr(array._store, "commit", fail)
            with pytest.raises(OSError, match="no space"):
                array.append(np.full((2, 4), 99, "i4"))
    with xa.open(path, "r+") as array:
        array.extend(0, 3)
        assert not array[...].any()


def test_unseal_that_fails_leaves_an_array_that_opens(tmp_path, monkeypatch):
    path = tmp_path / "a"
    with xa.create(path, (2, 2), "i4", chunks=2) as array:
        array[...] = 7
    array = xa.open(path, "r+")
    with monkeypatch.context() as patch:
        failing(patch, "write")
        with pytest.raises(xa.StorageError):
            array.extend(0, 4)
    array.close()
    with xa.open(path) as array:
        assert (array[...] == 7).all()


def test_failed_commit_at_a_new_extent_of_the_log(tmp_path, monkeypatch):
    """A retry must not write the log's new extent over what lies behind it."""
    path = tmp_path / "a"
    with xa.create(path, (1, 1), "i4", chunks=1) as array:
        while array.axial.segments < 64:
            array.extend(array.axial.segments % 2, 1)
        real = Committer.write_superblock
        with monkeypatch.context() as patch:

            def fail(self, state):
                raise OSError(errno.EIO, "input/output error")

            patch.setattr(Committer, "write_superblock", fail)
            with pytest.raises(xa.StorageError):
                array.extend(array.axial.segments % 2, 1)
        assert Committer.write_superblock is real
        array.attrs["text"] = "y" * 3000
        for _ in range(10):
            array.extend(array.axial.segments % 2, 1)
        shape = array.shape
    with xa.open(path) as array:
        assert array.shape == shape
        assert array.attrs["text"] == "y" * 3000


def test_interrupt_when_all_was_done_keeps_the_growth(tmp_path, monkeypatch):
    path = tmp_path / "a"
    with xa.create(path, (2, 2), "i4", chunks=2) as array:
        commit = array._store.commit

        def interrupted(*args):
            commit(*args)
            raise KeyboardInterrupt

        monkeypatch.setattr(array._store, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            array.append(np.ones((4, 2), "i4"))
        assert array.shape == (6, 2)
        monkeypatch.undo()
    with xa.open(path) as array:
        assert array.shape == (6, 2)
        assert array[2:].all()


@needs_reports_of_holes
@pytest.mark.parametrize("growth", ["exact", ("linear", 40)])
@pytest.mark.parametrize("place", ["fill", "extend", "exceeds_disk"])
@pytest.mark.parametrize("sparse", [False, True])
def test_an_interrupted_growth_gives_its_room_back(tmp_path, monkeypatch, growth, place, sparse):
    """The room that the growth policy takes ahead is given back, too."""
    path = tmp_path / "a"
    options = {"fill_value": 9, "growth": growth, "sparse": sparse}
    with xa.create(path, (3,), "u1", chunks=(1 << 14,), **options) as array:
        array[...] = 5
        file = array._store.now.data
        before = file.length, file.disk_bytes()
        real, calls = getattr(File, place), []

        def interrupted(*args):
            calls.append(args)
            real(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(File, place, interrupted)
            with contextlib.suppress(KeyboardInterrupt):
                array.extend(0, 1 << 14)
        if calls:
            assert file.length == before[0] and file.disk_bytes() <= before[1]
            assert array.shape == (3,) and array.grid == (1,)
            array.extend(0, 1 << 14)
        assert len(array) == 3 + (1 << 14)
        assert (array[:3] == 5).all() and (array[3:] == 9).all()


@pytest.mark.parametrize("growth", ["exact", ("linear", 40)])
def test_an_interrupted_growth_in_memory_gives_its_room_back(monkeypatch, growth):
    array = xa.create(None, (3,), "u1", chunks=(1 << 14,), fill_value=9, growth=growth)
    array[...] = 5
    run = memory.run_in_shares

    def interrupted(*args):
        run(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(memory, "run_in_shares", interrupted)
        with pytest.raises(KeyboardInterrupt):
            array.extend(0, 1 << 14)
    assert array.shape == (3,) and array.grid == (1,)
    assert array._store._used == 1 << 14
    array.extend(0, 1 << 14)
    assert (array[:3] == 5).all() and (array[3:] == 9).all()


def test_sums_that_cannot_be_put_in_doubt(tmp_path, monkeypatch):
    """The failure is not reported as one to make room."""
    with xa.create(tmp_path / "a", (3,), "u1", fill_value=9, checksum=True) as array:
        array.flush()
        with monkeypatch.context() as patch:
            failing(patch, "write")
            with pytest.raises(xa.StorageError, match="cannot mark the checksums of"):
                array.extend(0, 1 << 20)
        array.extend(0, 1 << 20)


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt])
def test_threads_that_cannot_be_started(monkeypatch, error, begins):
    """A large transfer is done as a whole if no thread or memory is available.

    Afterwards, and after an interrupt, no thread is left that moves elements.
    """
    values = np.arange(2**22, dtype="f8").reshape(2048, 2048)
    array = xa.zeros(values.shape, chunks=256)
    real, calls = _thread.start_new_thread, []

    def fail_at_the_second(function, arguments):
        calls.append(function)
        if len(calls) == 1 or begins:
            real(function, arguments)
        if len(calls) == 2:
            raise error("can't start new thread")

    with xa.config.set(threads=4), monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", fail_at_the_second)
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                array[...] = values
        else:
            array[...] = values
    assert len(calls) == 2
    assert (array[...] == values).all()
    for late in calls:  # a late thread finds nothing to do
        late()
    assert (array[...] == values).all()


def test_queries_whose_threads_cannot_be_started(monkeypatch):
    array = xa.zeros((64, 2**16), chunks=(1, 2**13))
    array[...] = np.arange(64)[:, None]
    out = np.empty((64, 2**16))

    def fail(*args):
        raise MemoryError

    with xa.config.set(threads=4), monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", fail)
        array.read((np.arange(64)[::-1],), out=out)
    assert (out == np.arange(64)[::-1, None]).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["...", "[0, 1]"], ids=["box", "list"])
@pytest.mark.parametrize("way", ["read", "write"])
def test_an_interrupt_ends_a_large_transfer_between_two_parts(forked, key, way):
    """The transfer does not go on to the end: the first part is done, the next not begun."""
    forked(
        """
import _thread, functools, signal, sys
import numpy as np
import extarray as xa

signal.signal(signal.SIGINT, signal.default_int_handler)
# The first thread that is to be started is none, but a signal; and no code of Python's runs that
# would see it before the core looks.
interrupt = functools.partial(max, signal.SIGINT, key=_thread.interrupt_main)
key, way = eval(sys.argv[1]), sys.argv[2]
n = 130  # of a MiB, twice: more than is moved at once
xa.config.threads = 2
array = xa.zeros((2, n), f"V{2**20}", chunks=(1, 1))
values = np.ones((2, 2**20), "u1").view(array.dtype)
many = np.lib.stride_tricks.as_strided(values, (2, n), (2**20, 0))
_thread.start_new_thread = interrupt
try:
    if way == "write":
        array[key] = many
    else:
        array.read(key, out=many)
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("not interrupted")
if way == "write":
    assert bytes(array[0, -1]) == bytes(array[0, 0]) == b"\1" * 2**20
    assert bytes(array[1, 0]) == bytes(array[1, -1]) == bytes(2**20)
else:
    assert bytes(values[0]) == bytes(2**20) and bytes(values[1]) == b"\1" * 2**20
""",
        key,
        way,
    )


def test_a_value_that_closes_or_grows_while_it_is_stored():
    array = xa.zeros((2, 2), chunks=2)

    class Grows:
        def __float__(self):
            array.extend(0, 2000)
            return 5.0

    array[1, 1] = Grows()
    assert array[1, 1] == 5


def test_a_copy_that_fails_leaves_no_files(tmp_path):
    class Source:
        shape, dtype = (4,), np.dtype("f8")

        def __getitem__(self, box):
            raise RuntimeError("source is gone")

    with pytest.raises(RuntimeError, match="gone"):
        xa.from_array(Source(), tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_append_of_a_view_of_the_chunk_that_it_extends():
    array = xa.zeros((5,), "i4", chunks=16, order="Z")
    array[...] = np.arange(5)
    array.append(array.chunk((0,))[:8])
    assert array[...].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 0, 0]
