"""Checksums of chunks always match the written elements, or are marked as in doubt."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading

import format_reader
import injected
import numpy as np
import pytest
from engines import ENGINES
from hypothesis import given, settings
from hypothesis import strategies as st
from systems import needs_replaced_open_files

import extarray as xa
from extarray.array import growth, life, resizing
from extarray.errors import StorageError
from extarray.storage import checksums, commits, file_store
from extarray.storage.filesystem import File


def create(path, shape=(6, 7), dtype="<i4", chunks=(2, 3), **options):
    return xa.create(path, shape, dtype, chunks=chunks, checksum=True, **options)


def holds(path, in_doubt=False):
    """Tell whether all sums match, and the files mark them as in doubt or not."""
    return format_reader.wrong_sums(path) == ([], in_doubt)


@pytest.fixture
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sums")


WAYS = st.sampled_from(
    ["element", "slice", "list", "mask", "append", "extend", "shrink", "chunk", "flush", "reopen"]
)


@given(
    ways=st.lists(WAYS, max_size=14),
    seed=st.integers(0, 999),
    order=st.sampled_from("CFZH"),
    engine=st.sampled_from(ENGINES),
    fill=st.sampled_from([0, 7]),
    sparse=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_sums_fit_whatever_was_written(tmp_path_factory, ways, seed, order, engine, fill, sparse):
    path = tmp_path_factory.mktemp("sums") / "a"
    rng = np.random.default_rng(seed)
    a = create(path, order=order, engine=engine, fill_value=fill, sparse=sparse)
    model = np.full(a.shape, fill, "i4")
    viewed = False
    for number, way in enumerate(ways, 1):
        axis, side = int(rng.integers(2)), str(rng.choice(["end", "start"]))
        by = int(rng.integers(1, 5))
        if way == "append" or way == "extend":
            shape = [by if j == axis else n for j, n in enumerate(model.shape)]
            new = np.full(shape, number if way == "append" else fill, "i4")
            if way == "append":
                a.append(new, axis, side)
            else:
                a.extend(axis, by, side)
            model = np.concatenate([model, new] if side == "end" else [new, model], axis)
        elif way == "shrink":
            by = min(by, model.shape[axis])
            a.shrink(axis, by, side)
            n = model.shape[axis]
            model = np.take(model, range(by, n) if side == "start" else range(n - by), axis)
        elif way == "flush":
            a.flush()
            assert holds(path, in_doubt=viewed)
        elif way == "reopen":
            a.close()
            assert holds(path)
            viewed = False
            a = xa.open(path, "r+", engine=engine)
        elif model.size == 0:
            continue
        elif way == "chunk":
            index = [int(rng.integers(n)) for n in a.grid]
            view = a.chunk(index)
            viewed = True
            if view.flags.writeable:  # read-only for orders Z and H at a bound inside a chunk
                view[...] = number
                model = a[...]
            del view
        else:
            i, j = (int(rng.integers(n)) for n in model.shape)
            key = {"element": (i, j), "slice": np.s_[i:, :j], "list": ([i, 0], [j, 0])}.get(
                way, rng.random(model.shape) < 0.3
            )
            a[key] = model[key] = number
    np.testing.assert_array_equal(a[...], model)
    a.close()
    assert holds(path)
    np.testing.assert_array_equal(format_reader.read(path)[0], model)


def test_the_files_say_so_before_anything_is_written(path):
    a = create(path)
    assert holds(path, in_doubt=True)  # before the first flush
    a.flush()
    assert holds(path)
    a.extend(0, 20)
    a.attrs["unit"] = "mm"
    assert holds(path)  # growth writes no elements
    a[3, 3] = 5
    wrong, in_doubt = format_reader.wrong_sums(path)
    assert (wrong, in_doubt) == ([4], True)
    a.close()
    assert holds(path)


def test_a_chunk_with_a_view_is_in_doubt_until_the_end(path):
    with create(path) as a:
        view = a.chunk((1, 1))
        a.flush()
        assert holds(path, in_doubt=True)
        view[...] = 3
        a.flush()
        assert holds(path, in_doubt=True)
        view[...] = 4
    assert holds(path)


def test_the_table_grows(path):
    with create(path, (1,), "u1", chunks=1) as a:
        for n in (1000, 30, 3000, 9000):
            a.append((np.arange(n) % 251 + 1).astype("u1"))
            a.flush()
            assert a._store.now.sums.extents == sorted(set(a._store.now.sums.extents))
        a[::1000] = 255
    assert len(a._store.now.sums.extents) == 4
    assert holds(path)


@pytest.mark.slow
def test_a_killed_writer_leaves_doubt(path, forked):
    code = """
import os, sys
import extarray as xa
a = xa.open(sys.argv[1], "r+")
a[0, 0] = 77
os._exit(9)
"""
    with create(path) as a:
        a[...] = 1
    with pytest.raises(AssertionError, match="exit status 9"):
        forked(code, path)
    assert format_reader.wrong_sums(path) == ([0], True)
    with xa.open(path, "r+") as a:
        a[5, 6] = 8
        a.append(np.ones((3, 7), "i4"))
    # Nobody knows what else the dead writer wrote.
    assert format_reader.wrong_sums(path) == ([0], True)


@pytest.mark.slow
def test_sums_of_what_a_dead_writer_appended_do_not_come_back(path, forked):
    code = """
import os, sys
import extarray as xa, numpy as np
a = xa.create(sys.argv[1], (2,), "u1", chunks=1, checksum=True)
a.flush()
with open(sys.argv[1] + ".xmd", "rb") as file:
    before = file.read()
a.append(np.full(9, 7, "u1"))
a.flush()
with open(sys.argv[1] + ".xmd", "r+b") as file:
    for start, stop in ((4096, 6144), (8192, 11264)):      # the superblocks, as before
        file.seek(start)
        file.write(before[start:stop])
os._exit(9)
"""
    with pytest.raises(AssertionError, match="exit status 9"):
        forked(code, path)
    with xa.open(path, "r+") as a:
        assert a.shape == (2,)
        a.extend(0, 9)
    assert holds(path)


@pytest.mark.slow
def test_threads_that_write_while_another_flushes(path):
    with create(path, (8, 256), "u2", chunks=(1, 16)) as a:
        done = threading.Event()

        def write(row):
            value = 0
            while not done.is_set():
                value += 1
                a[row] = value % 60000

        threads = [threading.Thread(target=write, args=(row,)) for row in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(30):
            a.flush()
        done.set()
        for thread in threads:
            thread.join(60)
        a.flush()
        assert holds(path)


def test_no_space_for_sums_leaves_doubt(path, monkeypatch):
    a = create(path)
    a[...] = 1

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(a._store.now.sums, "renew", full)
        with pytest.raises(StorageError, match="cannot write the checksums"):
            a.flush()
    assert format_reader.wrong_sums(path)[1]
    a.close()
    assert holds(path)


def test_doubt_is_noted_anew_after_it_could_not_be_cleared(path, monkeypatch):
    """The note may be cleared on the disk although the system reports a failure."""
    real = File.datasync

    def fail(file):
        if file.name.endswith(".xmd") and not format_reader.wrong_sums(path)[1]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(file)

    with create(path) as a:
        a[...] = 1
        with monkeypatch.context() as patch:
            patch.setattr(File, "datasync", fail)
            with pytest.raises(OSError, match="Input/output"):
                a.flush()
        a[0, 0] = 2
        assert format_reader.wrong_sums(path)[1]
    assert holds(path)


@pytest.mark.slow
@injected.needs_no_tracing
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.flush(),
        lambda a: a.append(np.ones((2, 7), "i4")),
        lambda a: a.extend(0, 3),
        lambda a: a.shrink(0, 3),
        lambda a: a.resize((9, 3)),
    ],
    ids=["flush", "append", "extend", "shrink", "resize"],
)
def test_an_interrupt_at_every_place(scratch, change):
    path = scratch / "scene"
    modules = (checksums, commits, file_store, growth, life, resizing)
    for number in itertools.count(1):
        with create(path, fill_value=3, overwrite=True) as a:
            a[...] = 1
            a.shrink(0, 1)
        a = xa.open(path, "r+")
        a[0, :5] = 2
        with (
            contextlib.suppress(KeyboardInterrupt),
            injected.interrupted(number, *modules) as interrupt,
        ):
            change(a)
        a.close()
        assert holds(path), f"{number}, {interrupt.place}"
        if not interrupt.place:
            break
    assert number > 20


def test_copies_keep_checksums_and_memory_has_none(path, tmp_path):
    with create(path) as a:
        a[...] = 3
        assert a.info()["checksum"] is True
        for number, new in enumerate([a.copy(tmp_path / "b0"), a.repack(tmp_path / "b1")]):
            assert new.info()["checksum"] is True
            new.close()
            assert holds(tmp_path / f"b{number}")
        with a.copy(tmp_path / "c", checksum=False) as new:
            assert new.info()["checksum"] is False
        np.testing.assert_array_equal(a.copy()[...], a[...])
        with pytest.raises(ValueError, match="give a path"):
            a.copy(checksum=True)
    with xa.from_array([1, 2], tmp_path / "d", checksum=True) as new:
        assert new.info()["checksum"] is True
    assert holds(tmp_path / "d")


@pytest.mark.parametrize("make", [xa.zeros, xa.ones, xa.empty, lambda n, **kw: xa.full(n, 2, **kw)])
def test_every_function_of_creation_takes_it(make, path):
    make(4, path=path, checksum=True).close()
    assert holds(path)
    with pytest.raises(ValueError, match="give a path"):
        make(4, checksum=True)


def test_nothing_of_it_without_the_flag(path):
    with xa.create(path, (4,)) as a:
        a[...] = 1
        assert a._store.now.sums is None
    with pytest.raises(ValueError, match="no checksums"):
        format_reader.wrong_sums(path)


@needs_replaced_open_files
@pytest.mark.thread_unsafe(reason="its file is that of the session")
def test_a_chunk_that_was_written_very_far_away(folder):
    """The table takes space only for its sums, even after another axis and another writer."""
    path, far = folder / "far", 2**22
    with create(path, sparse=True) as array:
        array[...] = 3
        array.extend(0, far)
        array[-1] = 5
        array.flush()
        array.add_axis()
        array[0, 0, 0] = 4
        array.flush()
    with xa.open(path, "r+") as array:
        array[0, 1] = 2
        assert array[0, :3, 0].tolist() == [4, 2, 3]
    assert xa.check(path).ok
    assert os.path.getsize(f"{path}.xmd") > far
    assert sum(os.stat(f"{path}{end}").st_blocks for end in (".xmd", ".xta")) < 1000
