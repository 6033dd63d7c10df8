"""Readers that have not refreshed, while holes do not hold the fill value.

From a part that was cut off they read old values or the fill value, never the zeros of a hole; and
its space is still freed.
"""

from __future__ import annotations

import contextlib
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import fancy_selections, selections, sides
from systems import needs_fork

import extarray as xa
from extarray.format.constants import CUTS_BYTES, LIVE_SLOTS
from extarray.format.header import decode_header
from extarray.storage.commits import Committer
from extarray.storage.following import Follower
from extarray.storage.pair import PASSED_ON

FILL = -7
OLD, NEW = 1000, 5000  # distinct sources


@st.composite
def steps(draw):
    """Growth and cuts of two axes: (axis, by, side)."""
    by = st.integers(-4, 3).filter(bool)
    return draw(st.lists(st.tuples(st.integers(0, 1), by, sides), min_size=1, max_size=6))


@settings(max_examples=settings().max_examples // 2)
@given(
    chunks=st.sampled_from([(2, 2), (1, 3), (4, 1)]),
    order=st.sampled_from("CFZH"),
    before=steps(),
    after=steps(),
    data=st.data(),
)
def test_selections(disk, chunks, order, before, after, data):
    """Elements always inside the bounds are intact; the rest is old, or the fill value."""
    options = {"chunks": chunks, "order": order, "fill_value": FILL}
    with disk.array((6, 5), "i4", **options) as array:
        for axis, by, side in before:
            move(array, axis, by, side)
        values = np.arange(OLD, OLD + array.size, dtype="i4").reshape(array.shape)
        array[...] = values
        with disk.open(array) as reader:
            kept = np.ones(values.shape, bool)
            for axis, by, side in after:
                move(array, axis, by, side)
                inside = np.zeros(values.shape, bool)
                low = np.subtract(reader.origin, array.origin)
                high = np.maximum(low + array.shape, 0)
                inside[tuple(map(slice, np.maximum(low, 0), high))] = True
                kept &= inside
                array[...] = np.where(np.asarray(array) == FILL, NEW, array)
                for kind in (selections, fancy_selections):
                    selection = data.draw(kind(values.shape), label="selection")
                    try:
                        old = values[selection]
                    except IndexError:  # an axis without elements
                        continue
                    got = reader[selection]
                    assert np.shape(got) == np.shape(old)
                    same = got == old
                    assert np.all(same | ~kept[selection])
                    assert np.all(same | np.isin(got, [FILL, NEW]))
            assert np.all(np.isin(reader[...], [FILL, NEW]) | (reader[...] == values))
            total = reader.sum()
            assert total == reader[...].sum()
            reader.refresh()
            assert np.array_equal(reader[...], array[...])


def move(array, axis, by, side):
    """Grow or shrink an axis, as far as possible."""
    if by > 0:
        array.extend(axis, by, side)
    else:
        array.shrink(axis, min(-by, array.shape[axis]), side)


RECORD = np.dtype([("a", "<i2"), ("b", "<f4", (2,))])


def test_fields_casts_and_views(disk):
    fill = np.array((-1, (0.5, 1.5)), RECORD)[()]
    values = np.zeros(9, RECORD)
    values["a"], values["b"] = 3, 4
    with disk.array(9, RECORD, chunks=2, fill_value=fill) as array:
        array[...] = values
        with disk.open(array) as reader:
            array.shrink(0, 3)
            expected = values.copy()
            # The bounds end inside a chunk, whose other element is old.
            expected[6:] = fill
            for selection in ("a", "b", ["a", "b"], [8, 0]):
                got = reader[selection]
                assert np.array_equal(got, expected[selection]), selection
            assert np.array_equal(reader.lazy[::-2][...], expected[::-2])
            assert np.array_equal(reader.lazy[::-2][[0, 1]], expected[::-2][[0, 1]])
    with disk.array((8, 4), "f8", chunks=(2, 4), fill_value=np.nan) as array:
        array[...] = 1
        with disk.open(array) as reader:
            array.shrink(0, 4, "start")
            expected = np.ones((8, 4))
            expected[:4] = np.nan
            out = np.zeros((8, 4), "f4")
            reader.read(out=out)
            for got in (out, reader.astype("f4")[...], reader.copy()[...], np.asarray(reader)):
                assert np.array_equal(got, expected, equal_nan=True)
            assert np.nansum(reader) == 16
            assert np.isnan((reader + 1)[:4]).all()
            assert np.isnan(reader[0, 0])
            assert reader[7, 3] == 1
            assert reader._peek((slice(0, 2), slice(0, 4))) is None


@pytest.mark.invariant("I8")
def test_a_fill_value_of_zero_costs_nothing(disk):
    with disk.array((8, 4), chunks=(2, 4)) as array, disk.open(array) as reader:
        array.shrink(0, 4)
        assert array._store.now.cuts is reader._store.now.cuts is None
        assert array._store.now.read_cuts() == 0
    with disk.array((8, 4), chunks=(2, 4), fill_value=1) as array:
        array.shrink(0, 4)
        array.shrink(0, 1)  # frees no whole chunk
        assert array._store.now.read_cuts() == 1


def test_the_number_goes_on_with_the_next_writer(path):
    xa.create(path, (8, 4), chunks=(2, 4), fill_value=1).close()
    for n in range(1, 4):
        with xa.open(path, "r+") as array:
            array.shrink(0, 2)
            assert array._store.now.read_cuts() == n


def test_a_count_that_was_passed_on_is_taken_as_it_stands(disk):
    """A writer that died before another file took the name leaves the mark, but no cut."""
    with disk.array((6,), "i4", chunks=(2,), fill_value=FILL) as array:
        array[...] = np.arange(6)
        array.shrink(0, 1)
        array.close()
        metadata = f"{array.path}.xmd"
        with open(metadata, "r+b") as file:
            header = decode_header(file.read(4096))
            file.seek(header.cuts_offset)
            count = int.from_bytes(file.read(CUTS_BYTES), "little")
            file.seek(header.cuts_offset)
            file.write((count | PASSED_ON).to_bytes(CUTS_BYTES, "little"))
        with disk.open(array) as reader:
            with open(metadata, "r+b") as file:  # during a commit, with no whole state
                for slot in LIVE_SLOTS:
                    file.seek(header.superblock_offset(slot))
                    file.write(bytes(64))
            for _ in range(2):
                np.testing.assert_array_equal(reader[...], np.arange(5))


def test_a_reader_that_knew_the_cut_before_the_holes(disk):
    """The reader refreshes between the commit and the first hole: all that it knows is intact."""
    with disk.array((8, 4), "i4", chunks=(2, 4), fill_value=FILL) as array:
        array[...] = OLD
        with disk.open(array) as reader:
            begin = Committer.begin_cut

            def refresh_first(store):
                assert reader.refresh()
                begin(store)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Committer, "begin_cut", refresh_first)
                array.shrink(0, 4)
            assert (reader[...] == OLD).all()
            assert reader.shape == (4, 4)
            array.extend(0, 4)
            assert reader.refresh()
            array[4:] = NEW
            assert (reader[4:] == NEW).all()
            assert reader[5, 1] == NEW


def test_a_reader_whose_array_was_regrown(disk):
    """Between its look at the bounds and the copy, that part is cut and regrown."""
    with disk.array((8, 4), "i4", chunks=(2, 4), fill_value=FILL) as array:
        array[...] = OLD
        with disk.open(array) as reader:
            array.shrink(0, 4)
            look = Follower.inner_box
            looks = []

            def cut_and_grow(store, axial):
                found = look(store, axial)
                looks.append(found)
                if len(looks) < 4:
                    array.shrink(0, 2)
                    array.extend(0, 4)
                    array.shrink(0, 2)
                return found

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Follower, "inner_box", cut_and_grow)
                got = reader[...]
            assert np.isin(got, [OLD, FILL]).all()
            assert (got[:2] == OLD).all()
            assert len(looks) >= 4


@needs_fork
def test_a_forked_child(path, engine):
    """The child still knows elements that the parent cuts off after the fork."""
    with xa.create(path, (8, 4), "i4", chunks=(2, 4), fill_value=FILL, engine=engine) as array:
        array[...] = OLD
        ready, done = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.read(ready, 1)
                got = array[...]
                status = 0 if (got[:4] == OLD).all() and (got[4:] == FILL).all() else 2
            finally:
                os._exit(status)
        array.shrink(0, 4)
        os.write(done, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os.close(ready)
        os.close(done)


WRITER = """
import sys
import numpy as np
import extarray as xa
path, engine = sys.argv[1:]
row = 1024
with xa.create(path, (8, row), chunks=(4, row), fill_value=np.nan, engine=engine) as array:
    array[...] = np.arange(1.0, 9)[:, None]
    print("ready", flush=True)
    most = 0
    for step in range(400):
        first = array.shape[0] - array.origin[0]  # rows that there have been
        array.append(np.broadcast_to(np.arange(first + 1.0, first + 6)[:, None], (5, row)))
        array.shrink(0, 5, side="start")
        if step % 7 == 0:
            array.extend(0, 9, side="start")
            assert np.isnan(array[:9]).all()
            array.shrink(0, 9, side="start")
        if step % 20 == 0:
            array.flush()
            most = max(most, array.info()["disk_bytes"])
    assert most <= 12 * 4 * row * 8, most
    assert array.info()["file_bytes"] >= 400 * 5 * row * 8
    print("done", flush=True)
"""

READER = """
import sys
import numpy as np
import extarray as xa
path, engine, seed = sys.argv[1:]
rng = np.random.default_rng(int(seed))
reads = 0
with xa.open(path, engine=engine) as array:
    print("ready", flush=True)
    while True:
        n, row = array.shape
        rows = np.arange(n) - array.origin[0] + 1.0  # the values, by where index 0 was at first
        for _ in range(6):
            i, k = sorted(rng.integers(0, n, 2))
            some = rng.integers(0, n, 5)
            for got, expected in (
                (array[...], rows[:, None]),
                (array[i : k + 1, ::7], rows[i : k + 1, None]),
                (array[int(i), 3], rows[i]),
                (array[some], rows[some, None]),
                (array[some, some], rows[some]),
                (array.max(axis=1), rows),
            ):
                wrong = ~(np.isnan(got) | (got == expected))
                assert not wrong.any(), (np.asarray(got)[wrong], array.origin)
            reads += 1
        if not array.refresh() and reads > 60:
            break
print(reads)
"""


@pytest.mark.slow
def test_a_rolling_window_of_nan(script, place, engine):
    """Other processes read old values and NaN; the window stays in bounded space."""
    writer = script.start(WRITER, place / "a", engine)
    processes = [writer]
    try:
        assert writer.stdout.readline() == "ready\n"
        readers = [
            script.start(READER, place / "a", how, n) for n, how in enumerate(("mmap", "pread"))
        ]
        processes += readers
        for reader in readers:
            out, _ = reader.communicate(timeout=250)
            assert reader.returncode == 0
            assert int(out.split()[-1]) > 60
        out, _ = writer.communicate(timeout=250)
        assert (writer.returncode, out) == (0, "done\n")
    finally:
        for process in processes:
            process.kill()
            process.wait(timeout=250)
            process.stdout.close()
            process.stdin.close()


@pytest.mark.sampled(1)
def test_threads_of_the_writer(factory):
    """During cuts by another thread they read old values, fill values, or a clear error."""
    with factory.array((64, 2**13), "i4", chunks=(8, 2**13), fill_value=FILL) as array:
        array[...] = OLD
        seen = set()
        stop = threading.Event()

        def read():
            while not stop.is_set():
                with contextlib.suppress(xa.BoundsError):
                    seen.update(np.unique(array[...]).tolist(), np.unique(array[[1, 3]]).tolist())

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for n in range(40):
                array.shrink(0, 24, "start" if n % 2 else "end")
                array.extend(0, 24, "start" if n % 2 else "end")
                array[...] = OLD
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert seen <= {OLD, FILL}
