"""Writers that share an array whose chunks may be frozen."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import shutil
import signal
import time
import traceback
from pathlib import Path

import frozen_reader
import numpy as np
import pytest
from frozen_chunks import all_addresses, create, elements, freeze, make, opened, table
from injected import at_every_place, interrupted, needs_no_tracing, places_of_change
from lost_pages import Disk

import extarray as xa
from extarray.array import writers as policies
from extarray.array.life import let_go
from extarray.common.limits import limits
from extarray.errors import ArgumentError, CorruptError, LockedError, StorageError
from extarray.storage import commits, frozen, frozen_blobs, frozen_words, lock, sharing, space
from extarray.storage.filesystem import File
from extarray.storage.frozen import FrozenTable

pytestmark = pytest.mark.skipif(not limits.has_range_locks, reason="needs locks that Linux has")

SUFFIXES = (".xmd", ".xta", ".xtz")
VALUES = np.arange(1, 121, dtype="i4").reshape(10, 12)
CHUNKS = (4, 5)


def share(path, engine="mmap", **options):
    return xa.open(path, "r+", share=True, engine=engine, **options)


def die(array):
    """Do to an open array what the death of its process does."""
    array._store.writers.ticket = 0
    array._store.now.close()
    let_go(array)


def n_frozen(array):
    return table(array).count(array.axial.size)


@pytest.fixture
def whole(path):
    """Return the path of an array that is all frozen."""
    make(path, VALUES)
    return path


# -- elements, growth, cuts ------------------------------------------------------------------------


@pytest.mark.parametrize("engines", [("mmap", "mmap"), ("mmap", "pread"), ("pread", "pread")])
@pytest.mark.parametrize("fill", [0, 7])
@pytest.mark.parametrize("sparse", [False, True])
def test_changes_of_two_writers(path, engines, fill, sparse):
    options = {"fill_value": fill, "sparse": sparse, "compression": "zlib"}
    with xa.create(path, VALUES.shape, "i4", chunks=CHUNKS, **options) as a:
        a[...] = VALUES
    model = VALUES.copy()
    with (
        share(path, engines[0]) as one,
        share(path, engines[1], durability="commit") as two,
        xa.open(path) as reader,
    ):
        assert n_frozen(one) == n_frozen(two) == one.axial.size == 9

        def agree():
            for array in (one, two, reader):
                array.refresh()
                np.testing.assert_array_equal(array[...], model)

        one[3:9, 1:4] = model[3:9, 1:4] = 50
        two[8, 11] = model[8, 11] = 51
        two[[0, 3], [0, 2]] = model[[0, 3], [0, 2]] = 52
        agree()
        assert n_frozen(one) == 9 - 4
        two.shrink(0, 9)
        one.extend(0, 6)  # beside the rest of chunks that were frozen, and over others
        model = np.vstack([model[:1], np.full((6, 12), fill)])
        agree()
        one.append(VALUES)
        two.append(VALUES[:3] + 1, side="start")
        model = np.vstack([VALUES[:3] + 1, model, VALUES])
        agree()
        two.resize((5, 20))
        model = np.pad(model[:5], ((0, 0), (0, 8)), constant_values=fill)
        one.attrs["a"] = 1
        one[...] = model = model + 1
        two.flush()
        agree()
        two.thaw()
        assert not n_frozen(two)
    with xa.open(path, "r+") as a:
        np.testing.assert_array_equal(a[...], model)
    found, attrs = frozen_reader.read(path)
    np.testing.assert_array_equal(found, model)
    assert attrs == {"a": 1}
    with xa.open(path) as a:
        assert n_frozen(a) == a.axial.size
    assert xa.check(path, data=True).ok


def test_a_shrink_by_one_and_a_write_by_the_other(whole):
    """The other one still knows the elements that were cut off, and thaws their chunk."""
    with share(whole) as one, share(whole) as two:
        one.shrink(0, 6)
        two[9, 0] = 5  # of no element that counts
        assert n_frozen(one) == 8
        one.extend(0, 6)
        assert not one[4:].any()
        two[9, 5] = 6  # of an element that counts again
        assert one[9].tolist() == two[9].tolist() == [0] * 5 + [6] + [0] * 6
        np.testing.assert_array_equal(one[:4], VALUES[:4])


@pytest.mark.parametrize("shared", [False, True])
def test_no_reader_meets_a_hole_where_frozen_chunks_are_cut_and_grow_again(
    path, monkeypatch, shared
):
    """A reader that knows neither the cut nor the growth finds old elements, or the fill value."""
    make(path, np.full((64, 32), 5, "i4"), chunks=(32, 32), fill_value=9)
    store = FrozenTable.store_live
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(xa.open(path, "r+", share=shared))
        if shared:
            stack.enter_context(share(path))  # it does not know the cut: nothing is given back
        reader = stack.enter_context(xa.open(path))
        writer.shrink(0, 40)

        def look(*args, **options):
            store(*args, **options)
            seen.append(reader[...])

        seen = []
        monkeypatch.setattr(FrozenTable, "store_live", look)
        writer.extend(0, 40)
        monkeypatch.undo()
        assert seen
        for values in seen:
            assert set(np.unique(values).tolist()) <= {5, 9}
        assert (writer[24:] == 9).all()


def test_writers_of_elements_beside_them(whole):
    with xa.open(whole, "r+", share="elements") as worker, share(whole) as one, share(whole) as two:
        worker[0, 0], one[0, 1], two[0, 2] = 60, 61, 62
        two.append(VALUES)
        assert worker.refresh()
        worker[15, 0] = 63
        assert one[0, :4].tolist() == two[0, :4].tolist() == [60, 61, 62, 4]
        assert one.refresh()
        assert one[15, 0] == 63


def test_a_forked_child_reads(whole, forked_child):
    with share(whole) as one:
        one[0, 0] = 9

        def read():
            assert one[0].tolist() == [9, *VALUES[0, 1:]]
            np.testing.assert_array_equal(one[1:], VALUES[1:])

        forked_child(read)
        one[1, 0] = 8
        assert one[1, 0] == 8


@pytest.fixture
def forked_child():
    def run(function):
        pid = os.fork()
        if not pid:
            try:
                function()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    return run


# -- what cannot be --------------------------------------------------------------------------------


def test_what_replaces_metadata_or_freezes_is_refused(whole, tmp_path):
    make(tmp_path / "b", VALUES)
    with share(whole) as one, xa.open(tmp_path / "b", "r+") as b:
        for what in (
            one.freeze,
            one.repack,
            lambda: one.add_axis(0),
            lambda: setattr(one, "compression", None),
            lambda: xa.commit([one, b]).__enter__(),
        ):
            with pytest.raises(ArgumentError, match="while writers share it; open it alone"):
                what()
        with pytest.raises(LockedError):
            xa.open(whole, "r+")
        np.testing.assert_array_equal(one[...], VALUES)


def test_a_table_is_mended_by_the_first_of_them_alone(whole, monkeypatch):
    """A later one finds words that others change just now, and looks at none of them."""
    looks = []
    real = FrozenTable._look_through
    monkeypatch.setattr(
        FrozenTable,
        "_look_through",
        lambda self, *args: looks.append(self._pair.mode) or real(self, *args),
    )
    with share(whole) as one:
        assert len(looks) == 1
        with share(whole):
            assert len(looks) == 1
        die(one)
    with share(whole), xa.open(whole):
        assert len(looks) == 3


def test_a_damaged_block_stops_commits(whole):
    with share(whole) as one, share(whole) as two:
        at, _ = FrozenTable.block_of(one._store.now)
        before = one._store.now.metadata.read(512, at)
        one._store.now.metadata.write(b"\xff" * 64, at + 64)
        with pytest.raises(CorruptError):
            two.append(VALUES)
        one._store.now.metadata.write(before, at)
        two.append(VALUES)
        np.testing.assert_array_equal(two[...], np.vstack([VALUES, VALUES]))


# -- the table -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_room_of_the_table_comes_before_the_commit(path, monkeypatch, fails):
    """Others take it up, committed or not, and put nothing else there."""
    model = np.arange(1, 1001)
    with xa.create(path, 1000, "i8", chunks=1, compression="zlib") as a:
        a[...] = model
    with share(path) as one, share(path) as two, xa.open(path) as reader:
        one.extend(0, 1)
        two.extend(0, 1)
        model = np.pad(model, (0, 2))
        if fails:
            monkeypatch.setattr(one._store, "commit", fail)
            with pytest.raises(StorageError):
                one.extend(0, 3000)
            monkeypatch.undo()
        else:
            one.extend(0, 3000)
            model = np.pad(model, (0, 3000))
        assert len(table(one).extents) == 3
        two.attrs["long"] = "x" * 70_000
        assert table(two).regions == table(one).regions
        two.extend(0, 7000)
        model = np.pad(model, (0, 7000))
        one.attrs["longer"] = "y" * 90_000
        reader.refresh()
        assert table(one).regions == table(two).regions == table(reader).regions
        one.refresh()
        one[-1000:] = model[-1000:] = 6
        np.testing.assert_array_equal(two[...], model)
    with xa.open(path, "r+") as a, xa.open(path) as reader:
        a.freeze()
        a.flush()
        assert n_frozen(reader) == n_frozen(a) == a.axial.size
        for array in (a, reader):
            np.testing.assert_array_equal(array[...], model)
    assert dict(xa.open(path).attrs) == {"long": "x" * 70_000, "longer": "y" * 90_000}
    assert xa.check(path, data=True).ok


def fail(*args):
    raise StorageError(5, "it fails")


def test_the_last_to_leave_keeps_the_room_that_another_made(path):
    with xa.create(path, 1000, "i8", chunks=1, compression="zlib") as a:
        a[...] = 1
    one, two = share(path), share(path)
    two.refresh()
    one.extend(0, 3000)
    regions = table(one).regions
    one.close()
    two.close()
    with xa.open(path) as a:
        assert table(a).regions == regions
        assert len(regions) == 3


def test_a_flush_brings_what_a_dead_writer_has_frozen(path, monkeypatch):
    make(path, VALUES)
    a = xa.open(path, "r+")
    a[0, :5] = 9
    a.append(VALUES)
    freeze(a, all_addresses(a))
    expected = elements(a)
    die(a)
    synced = []
    datasync = File.datasync
    monkeypatch.setattr(
        File, "datasync", lambda file: synced.append(file.name[-4:]) or datasync(file)
    )
    with share(path) as one, share(path) as two:
        two[0, 0] = expected[0, 0] = 1
        synced.clear()
        two.flush()
        assert {".xta", ".xtz", ".xmd"} <= set(synced)
        assert synced.index(".xtz") < synced.index(".xmd")
        # The next writer that is alone lets durable words follow, and makes holes.
        durable, holes = table(one).durable(all_addresses(one)), []
        assert (durable != table(one).entries(all_addresses(one))).any()
        monkeypatch.setattr(File, "punch", lambda *args: holes.append(args))
        one.flush()
        assert np.array_equal(table(two).durable(all_addresses(one)), durable)
        assert not holes
        np.testing.assert_array_equal(one[...], expected)
    np.testing.assert_array_equal(opened(path), expected)


# -- kills -----------------------------------------------------------------------------------------


def work(path, engine="mmap"):
    """Change an array as one of its writers; yield its elements after each step."""
    model = VALUES.copy()
    with share(path, engine) as a:
        yield model
        a[2:6, 3:8] = 99
        model = model.copy()
        model[2:6, 3:8] = 99
        yield model
        a.flush()
        yield model
        a.append(VALUES)
        model = np.vstack([model, VALUES])
        yield model
        a.shrink(0, 7, side="start")
        model = model[7:]
        yield model
        a.extend(0, 9, side="start")
        model = np.vstack([np.zeros((9, 12), "i4"), model])
        yield model
        a.attrs["n"] = 1
        a[9:, 8] = 98
        model = model.copy()
        model[9:, 8] = 98
        yield model
        a.thaw()
    yield model


@pytest.mark.slow
@needs_no_tracing
@pytest.mark.parametrize("engine", ["mmap", "pread"])
@pytest.mark.invariant("I15")
def test_a_kill_at_every_place_loses_nothing_of_the_others(path, tmp_path, engine):
    modules = (frozen, frozen_blobs, frozen_words, commits, space, sharing, policies, lock)
    make(tmp_path / "kept", VALUES)
    make(tmp_path / "model", VALUES)
    states = [VALUES, *work(tmp_path / "model")]
    progress = os.memfd_create("progress")

    def begin():
        for suffix in SUFFIXES:
            shutil.copy(tmp_path / f"kept{suffix}", f"{path}{suffix}")
        os.pwrite(progress, bytes(1), 0)
        other = share(path, engine)
        other.attrs["other"] = 0
        return other

    def run():
        for step, _ in enumerate(work(path, engine)):
            os.pwrite(progress, bytes([step + 1]), 0)

    def state():
        return [os.pread(progress, 1, 0), *(Path(f"{path}{s}").read_bytes() for s in SUFFIXES)]

    with begin():
        numbers = places_of_change(run, state, *modules)
    for number in numbers:
        other = begin()
        pid = os.fork()
        if not pid:
            seen = 0

            def kill(place, last=number):
                nonlocal seen
                seen += 1
                if seen == last:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                with at_every_place(kill, *modules):
                    run()
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(pid, 0)[1]
        assert status == 0 or os.WIFSIGNALED(status)
        done = os.pread(progress, 1, 0)[0]
        other.refresh()
        found = other[...]
        same = np.zeros(found.shape, bool)
        for state in states[done : done + 2]:
            if state.shape == found.shape:
                same |= state == found
        assert same.all(), (number, done)
        other[0] = found[0] = 3  # also where the other one has begun to thaw
        other.append(VALUES)
        other.extend(0, 6)
        found = np.vstack([found, VALUES, np.zeros((6, 12), "i4")])
        np.testing.assert_array_equal(other[...], found, f"{number}, {done}")
        other.close()
        with xa.open(path, "r+") as a:
            np.testing.assert_array_equal(a[...], found)
            freeze(a, all_addresses(a))
            a.flush()
            assert n_frozen(a) == a.axial.size
            np.testing.assert_array_equal(a[...], found)
    assert status == 0 and len(numbers) > 30


@pytest.mark.slow
@needs_no_tracing
def test_an_interrupt_at_every_place_leaves_no_lock(path):
    modules = (frozen, frozen_blobs, frozen_words, sharing, lock)
    for number in itertools.count(1, 11):
        make(path, VALUES, overwrite=True)
        one, two = share(path), share(path)
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupted(number, *modules) as interrupt,
        ):
            one[2:6, 3:8] = 99
            one.shrink(0, 7)
            one.extend(0, 7)
        two.refresh()
        found = two[...]
        two[...] = found + 1
        two.append(VALUES)
        one.refresh()
        expected = np.vstack([found + 1, VALUES])
        np.testing.assert_array_equal(one[...], expected, interrupt.place)
        one.close()
        two.close()
        np.testing.assert_array_equal(opened(path), expected)
        if not interrupt.place:
            break
    assert number > 100


# -- power cuts ------------------------------------------------------------------------------------


# These copies have no writer's seal, and holes where chunks are frozen.
@pytest.mark.filterwarnings("ignore::extarray.errors.RecoveryWarning")
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mmap", "pread"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.invariant("I15")
def test_power_cuts_lose_nothing_that_was_flushed(path, tmp_path, monkeypatch, seed, engine):
    """Any page changed since the last synchronization of its file may be old or new."""
    rng = np.random.default_rng(seed)
    shape, chunks = (16, 16, 64), (8, 8, 32)
    for run in range(4):
        disk = Disk(path, monkeypatch)
        model = rng.integers(1, 50, shape).astype("f4")
        with create(path, shape, "f4", chunks=chunks, engine=engine, overwrite=True) as a:
            a[...] = model
            freeze(a, rng.permutation(a.axial.size)[:12])
            a.flush()
            a[:8, :8] = model[:8, :8] = 60
            freeze(a, all_addresses(a)[:4])
            if run % 2:
                die(a)  # with words that are not durable
        allowed = [model.copy()]
        writers = [share(path, engine) for _ in range(2)]
        for _ in range(int(rng.integers(5, 25))):
            writer = writers[rng.integers(2)]
            kind = rng.integers(0, 7)
            if kind == 0:
                writer.flush()
                allowed = []
            elif kind == 6:
                writer.shrink(0, 8)
                writers[0].extend(0, 8)  # whole chunks, which nobody thaws
                model[8:] = 0
                writers[1].flush()
                allowed = []
            elif kind == 1:
                writer.attrs["n"] = int(rng.integers(99))
            else:
                edges = [sorted(map(int, rng.integers(0, n + 1, 2))) for n in shape]
                key = tuple(slice(*edge) for edge in edges)
                values = rng.integers(1, 50, [k.stop - k.start for k in key]).astype("f4")
                writer[key] = values
                model[key] = values
            allowed.append(model.copy())
        for cut in range(5):
            target = tmp_path / f"cut{run}-{cut}"
            disk.cut(rng, target)
            with xa.open(target) as reader:
                found = elements(reader)
            same = np.zeros(shape, bool)
            for state in allowed:
                same |= found == state
            # Nothing was flushed since the first states, of which any may be there.
            assert same.all(), f"run {run}, cut {cut}: {np.argwhere(~same).tolist()[:5]}"
            with share(target, engine) as one, share(target, engine) as two:
                np.testing.assert_array_equal(one[...], found)
                two[0, 0, 0] = found[0, 0, 0] = 70
                np.testing.assert_array_equal(one[...], found)
            with xa.open(target, "r+", engine=engine) as alone:
                np.testing.assert_array_equal(alone[...], found)
            for suffix in disk.synced:
                os.unlink(f"{target}{suffix}")
        for writer in writers:
            writer.close()
        monkeypatch.undo()


# -- coming and going ------------------------------------------------------------------------------

N, C = 24, 256  # chunks, and elements of each, that are never cut off


def come_and_go(path, k, engine, told, seed):
    """Write rising numbers to every fourth element, as one of several writers, until killed."""
    rng = np.random.default_rng(seed)
    n = told[k]
    while True:
        with share(path, engine, timeout=60) as a:
            for _ in range(rng.integers(1, 5)):
                n += 1
                told[k + 4] = n
                a[k::4] = n
                told[k] = n
                assert (a[k::4] == n).all()
                some = int(rng.integers(1, 2 * C))
                what = rng.integers(6)
                if what == 0:
                    a.extend(0, some)
                    end = a.shape[0]
                    first = end - some + (k - end + some) % 4
                    assert not a[first:end:4].any()
                elif what == 1:
                    a.refresh()
                    # The others may have cut off as much before this one's turn.
                    with contextlib.suppress(xa.ShapeError, ArgumentError):
                        a.resize((max(N * C, a.shape[0] - some),))
                elif what == 2:
                    a.append(np.zeros(some, "i4"))
                elif what == 3:
                    a.flush()
        time.sleep(rng.random() * 0.03)


def freeze_when_alone(path, engine, told, seed):
    """Open the array alone time and again, which freezes what the others have left."""
    while True:
        with xa.open(path, "r+", timeout=60, engine=engine) as a:
            told[8] += 1
            a[3::4] = told[8]
        time.sleep(0.01)


def start(function, *args):
    """Run a function in a forked process; return its number."""
    pid = os.fork()
    if not pid:
        try:
            function(*args)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mmap", "pread"])
@pytest.mark.invariant("I15")
def test_they_come_and_go_between_freezes_and_kills(path, engine):
    with xa.create(path, N * C, "i4", chunks=C, compression="zlib", engine=engine) as a:
        a[...] = 0
    told = np.frombuffer(mmap.mmap(-1, 9 * 8), "i8")  # numbers written, begun, and of freezes
    seeds = itertools.count()
    pids = {k: start(come_and_go, path, k, engine, told, next(seeds)) for k in range(3)}
    pids[3] = start(freeze_when_alone, path, engine, told, 0)
    rng = np.random.default_rng(1)
    lowest, kills = [0] * 4, 0
    try:
        with xa.open(path, engine=engine) as reader:
            while kills < 12 or told[8] < 6:
                before = told.copy()
                reader.refresh()
                values = reader[: N * C]
                for k in range(4):
                    low = values[k::4].min()
                    assert low >= max(lowest[k], before[k] if k < 3 else 0)
                    assert k == 3 or values[k::4].max() <= told[k + 4]
                    lowest[k] = low
                if rng.random() < 0.2:
                    k = int(rng.integers(3))
                    os.kill(pids[k], signal.SIGKILL)
                    assert os.waitpid(pids[k], 0)[1] == signal.SIGKILL
                    kills += 1
                    pids[k] = start(come_and_go, path, k, engine, told, next(seeds))
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        assert {os.waitpid(pid, 0)[1] for pid in pids.values()} == {signal.SIGKILL}
    with xa.open(path, "r+") as a:
        values = a[: N * C]
        for k in range(3):
            assert np.isin(values[k::4], [told[k], told[k + 4]]).all()
        rows = a.shape[0]
        a.extend(0, 5 * C)
        assert not a[rows:].any()
        values = a[...]
    with xa.open(path) as a:
        assert n_frozen(a) == a.axial.size
        np.testing.assert_array_equal(a[...], values)
    assert xa.check(path, data=True).ok
