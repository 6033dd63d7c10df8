"""Shrinking: parts cut off are gone for good, and their space is given back."""

from __future__ import annotations

import contextlib
import contextvars
import signal
import threading

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases, sides
from systems import needs_proc, needs_reports_of_holes, reports_holes

import extarray as xa
from extarray._core._mapping import Counter
from extarray.array import resizing
from extarray.storage.filesystem import File

FILLS = [0, 7]


def disk_bytes(array) -> int:
    """Return the bytes on the disk; pages written through a mapping count once they are there."""
    array.flush()
    return array.info()["disk_bytes"]


@given(case=cases(min_ndim=1), data=st.data())
def test_what_was_cut_off_comes_back_as_the_fill_value(factory, case, data):
    with built(factory, case) as (array, model):
        axis = data.draw(st.integers(0, array.ndim - 1))
        side = data.draw(sides)
        by = data.draw(st.integers(0, model.shape[axis]))
        more = data.draw(st.integers(0, 9))
        for one in (array, model):
            one.shrink(axis, by, side)
        assert_same(array[...], model.data)
        for one in (array, model):
            one.extend(axis, more, side)
        assert_same(array[...], model.data)
        assert array.grid == model.grid


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("side", ["end", "start"])
def test_chunks_give_their_space_back(place, engine, side, fill):
    chunk = 2**16
    options = {"chunks": (2, 2**15), "fill_value": fill, "engine": engine, "sparse": False}
    with xa.create(place / "a", (16, 2**16), "u1", **options) as array:
        array[...] = 1
        full = disk_bytes(array)
        assert full >= 16 * chunk
        length = array.info()["file_bytes"]
        array.shrink(0, 13, side)  # leaves a chunk and a half
        assert disk_bytes(array) <= full - 12 * chunk
        assert array.info()["file_bytes"] == length, "a reader may have it mapped"
        assert (array[...] == 1).all()
        array.extend(0, 13, side)
        assert disk_bytes(array) >= 16 * chunk, "there is space again, before anything is written"
        kept = array[13:] if side == "start" else array[:3]
        new = array[:13] if side == "start" else array[3:]
        assert (kept == 1).all()
        assert (new == fill).all()


@needs_proc
def test_memory_gives_its_space_back(forked):
    forked("""
import numpy as np, extarray as xa
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
before = resident()
array = xa.zeros((64, 2**20), "u1", chunks=(1, 2**20))
array[...] = 1
assert resident() - before > 60_000
array.shrink(0, 60)
assert resident() - before < 20_000
array.extend(0, 60)
assert not array[4:].any() and array[:4].all()
""")


@pytest.mark.parametrize("fill", FILLS)
def test_rolling_window(place, engine, fill):
    """Appending at one end and shrinking at the other takes bounded space for ever."""
    row = 2**14
    options = {"chunks": (4, row), "fill_value": fill, "engine": engine}
    with xa.create(place / "a", (0, row), "i4", **options) as array:
        most = 0
        for step in range(60):
            array.append(np.full((3, row), step, "i4"))
            if step >= 4:
                array.shrink(0, 3, side="start")
            if step % 10 == 9:
                most = max(most, disk_bytes(array))
                assert (array[:, 0] == np.arange(step - 3, step + 1).repeat(3)).all()
                assert array.origin == (-3 * max(0, step - 3), 0)
        assert array.info()["segments"] == 1
        assert most <= 8 * 4 * row * 4 or not reports_holes()


GROWTHS = [
    ("exact", False),
    ("exact", True),
    (("linear", 4), True),
    (("exponential", 1.5), False),
    ("doubling", True),
    ("cubical", False),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "engine", "fill", "growth", "sparse"),
    # Each growth meets every pair of the other parameters, in half of their combinations.
    [
        (("folder", "tmpfs")[p], ("mmap", "pread")[e], FILLS[(p + e + number) % 2], *growth)
        for number, growth in enumerate(GROWTHS)
        for p in (0, 1)
        for e in (0, 1)
    ],
    indirect=["place", "engine"],
)
def test_window_that_rolls_along_two_axes(place, engine, fill, sparse, growth):
    """Chunks beside the window take no space, however the window gets its own."""
    chunk = 20  # 3200 bytes: never a whole number of pages
    options = {"chunks": chunk, "fill_value": fill, "sparse": sparse, "growth": growth}
    with xa.create(place / "a", (80, 80), "f8", engine=engine, **options) as array:
        model = np.full((80, 80), float(fill))
        spaces = []
        for step in range(60):
            for axis in 0, 1:
                row = np.full((30, 80) if axis == 0 else (80, 30), step + 1.0)
                array.append(row, axis)
                array.shrink(axis, 30, side="start")
                model = np.delete(np.append(model, row, axis), range(30), axis)
            if step % 20 == 19:
                spaces.append(disk_bytes(array))
                assert_same(array[...], model)
        array.extend(0, 25, side="start")  # into parts left behind, or never given space
        array.extend(1, 200)
        array.extend(1, 200, side="start")
        wanted = np.full((105, 480), float(fill))
        wanted[25:, 200:280] = model
        assert_same(array[...], wanted)
    with xa.open(place / "a") as reader:
        assert_same(reader[...], wanted)
    # The window has 6 x 6 chunks of 3200 bytes; policies add rows to it.
    assert max(spaces) < 3 * 36 * 4096


@pytest.mark.invariant("I7")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("chunk", [64, 750])
def test_small_chunks_give_whole_pages_back(place, engine, chunk):
    with xa.create(place / "a", (0,), "f8", chunks=chunk, engine=engine) as array:
        for step in range(300):
            array.append(np.full(chunk, float(step)))
            if step >= 5:
                array.shrink(0, chunk, side="start")
        assert (array[...].reshape(-1, chunk) == np.arange(295.0, 300)[:, None]).all()
        assert disk_bytes(array) <= 6 * 8 * chunk + 3 * 4096


@needs_reports_of_holes
def test_small_chunks_between_others_are_not_looked_at_one_by_one(disk, monkeypatch):
    looked_at = []
    look = resizing._with_unneeded
    monkeypatch.setattr(
        resizing, "_with_unneeded", lambda *args: looked_at.append(args) or look(*args)
    )
    with disk.array((1000, 4), "f8", chunks=(1, 2), fill_value=1) as array:
        array.shrink(1, 2)
        assert len(looked_at) == 1, "the last chunk of the file has no neighbour"
        before = array.info()["disk_bytes"]
        array.shrink(0, 990, "start")
        assert array.info()["disk_bytes"] < before
        array.extend(0, 990, "start")
        array.extend(1, 2)
        assert (array[...] == 1).all()


@pytest.mark.slow
def test_memory_of_small_chunks_rolls_on(freeing):
    code = """
import numpy as np, extarray as xa
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
array = xa.zeros((0,), "f8", chunks=750)
before = resident()
for step in range(2000):
    array.append(np.full(750, 1.0))
    if step >= 5:
        array.shrink(0, 750, side="start")
assert resident() - before < 4_000, resident() - before
"""
    freeing(code)


def test_growth_into_what_was_reserved_reads_nothing(place, monkeypatch):
    """A cut elsewhere does not matter to whole chunks."""
    with xa.create(place / "a", (10, 400), "f8", chunks=(10, 20), sparse=True) as array:
        array.reserve((1000, 400))
        array.shrink(1, 1)
        before = array.info()["disk_bytes"]
        read = []
        monkeypatch.setattr(type(array), "_read_box", lambda self, *box: read.append(box))
        array.extend(0, 300)
        assert not read
        assert array.info()["disk_bytes"] == before
    with xa.open(place / "a") as array:
        assert not array[...].any()


VIEWS = """
import sys
import fulldisk
import numpy as np, extarray as xa
folder, kind = sys.argv[1:]
fulldisk.mount(folder, "2m")
array = xa.create(f"{folder}/a", (16, 2**15), "u1", chunks=(1, 2**15), order=kind)
array[...] = 1
view = array.chunk((15, 0))
part = view[:10]
del view
array.shrink(0, 8)
fulldisk.fill(folder)
assert (part == 1).all()
part[...] = 5
if kind in "ZH":
    view = array.chunk((15, 0))
    assert not view.flags.writeable and (view[:10] == 5).all()
    del view
del part
before = array.info()["disk_bytes"]
array.shrink(0, 1)
assert array.info()["disk_bytes"] <= before - 9 * 2**15, "now all of it is given back"
array.close()
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", ["C", "Z"])
def test_views_of_what_was_cut_off_have_their_space(script, tmp_path, private_mount, order):
    script(VIEWS, tmp_path, order, prefix=private_mount)


def test_a_view_of_one_writer_keeps_no_space_that_another_uses_again(path):
    xa.create(path, (8, 1024), "i4", chunks=(1, 1024)).close()
    with xa.open(path, "r+", share=True) as one, xa.open(path, "r+", share=True) as other:
        one[...] = 1
        view = one.chunk((0, 0))
        one.shrink(0, 4)
        other.refresh()
        one.attrs["step"] = 1
        other.append(np.full((4, 1024), 5, "i4"))
        del view
        one.refresh()
        one.shrink(0, 1)
        other.refresh()
        one.attrs["step"] = 2
        other.refresh()
        assert_same(other[:, 0], np.array([1, 1, 1, 1, 5, 5, 5], "i4"))


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(("cut", "grown"), [("start", "end"), ("end", "start")])
def test_a_block_that_cuts_all_off_and_grows_can_be_rolled_back(factory, fill, cut, grown):
    with factory.array((3, 4), "i4", chunks=(4, 2), fill_value=fill) as array:
        array[...] = expected = sample("i4", (3, 4))
        with contextlib.suppress(KeyError), xa.commit([array]):
            array.shrink(0, 3, cut)
            array.extend(0, 1, grown)
            assert_same(array[...], np.full((1, 4), fill, "i4"))
            raise KeyError
        assert_same(array[...], expected)


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("close", [False, True])
def test_checksums_of_space_that_is_given_back_late(path, engine, fill, close):
    size = 2**20  # so large that no neighbour is given back with it
    options = {"chunks": (1, size), "checksum": True, "fill_value": fill, "engine": engine}
    with xa.create(path, (6, size), "u1", **options) as array:
        array[...] = 1
        view = array.chunk((0, 0))
        array.shrink(0, 3)
        del view
        if not close:
            array.flush()
            array.shrink(0, 1)
    assert xa.check(path, data=True).ok


def test_a_failed_append_in_memory_keeps_no_memory(freeing):
    freeing("""
import numpy as np, extarray as xa
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
class Source:
    shape, dtype = (2**25, 2), np.dtype("u1")
    def __getitem__(self, key):
        raise KeyError
array = xa.zeros((4, 2), "u1")
before = resident()
for _ in range(2):
    try:
        array.append(Source())
    except KeyError:
        pass
assert resident() - before < 8_000, resident() - before
array.extend(0, 10)
assert not array[...].any()
""")


@pytest.mark.parametrize("order", ["Z", "H"])
def test_no_view_writes_outside_the_bounds(factory, order):
    with factory.array((3,), "f8", chunks=4, order=order) as array:
        view = array.chunk((0,))
        assert view.shape == (4,)
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 9
        array.reserve((8,))
        with pytest.raises(ValueError, match="read-only"):
            array.chunk((1,))[...] = 9
        array.extend(0, 1)
        array.chunk((0,))[...] = 9
        array.extend(0, 4)
        assert (array[...] == [9] * 4 + [0] * 4).all()


KILLED = """
import os, signal, sys
import extarray as xa
path, engine, side = sys.argv[1:]
array = xa.open(path, mode="r+", engine=engine)
array.shrink(0, 5, side)
array.shrink(1, 3, side)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("side", ["end", "start"])
@pytest.mark.parametrize("sparse", [False, True])
def test_killed_after_shrinking(forked, path, engine, side, sparse, fill):
    values = sample("i4", (9, 8))
    with xa.create(path, (9, 8), "i4", chunks=(2, 3), fill_value=fill, sparse=sparse) as array:
        array[...] = values
    status, *_ = forked.run(KILLED, path, engine, side)
    assert status == -signal.SIGKILL
    kept = values[5:, 3:] if side == "start" else values[:4, :5]
    with xa.open(path, mode="r+", engine=engine) as array:
        assert_same(array[...], kept)
        array.extend(0, 6, side)
        array.extend(1, 4, side)
        expected = np.full((10, 9), fill, "i4")
        expected[(np.s_[6:, 4:] if side == "start" else np.s_[:4, :5])] = kept
        assert_same(array[...], expected)


@pytest.mark.parametrize("fill", FILLS)
def test_a_reader_that_has_not_refreshed(disk, fill):
    """The reader finds old elements or the fill value where the array was cut."""
    values = np.arange(1000, 1000 + 60, dtype="i4").reshape(10, 6)
    with disk.array((10, 6), "i4", chunks=(2, 2), fill_value=fill) as array:
        array[...] = values
        with disk.open(array) as reader:
            for axis, by, side in ((0, 3, "end"), (1, 1, "start"), (0, 2, "start"), (1, 5, "end")):
                array.shrink(axis, by, side)
                low, high = -np.array(array.origin), -np.array(array.origin) + array.shape
                inside = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
                for got in (reader[...], reader[[0, 9, 4]], reader[::-1, 1::2]):
                    assert set(got.ravel().tolist()) <= {fill, *range(1000, 1060)}
                assert_same(reader[...][inside], values[inside])
                seen = reader[...]
                assert ((seen == values) | (seen == fill)).all()
            assert reader.refresh()
            assert_same(reader[...], array[...])


@pytest.mark.parametrize("side", ["end", "start"])
def test_elements_that_lie_on_two_pages_are_cut_off_as_a_whole(disk, side):
    with disk.array((1200, 2), "V13", chunks=(1, 2)) as array:
        array[...] = b"?" * 13
        with disk.open(array) as reader:
            array.shrink(0, 1000, side)
            assert set(reader[...].ravel().tolist()) == {b"?" * 13, bytes(13)}


def test_nothing_is_cut_by_a_mode_that_cannot_write(disk):
    with disk.array((4, 3)) as array:
        array.flush()
        with disk.open(array) as reader:
            for call in (lambda: reader.shrink(0, 1), lambda: reader.reserve((9, 9))):
                with pytest.raises(xa.ReadOnlyError, match="opened with mode 'r'"):
                    call()


@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_a_cut_is_on_the_disk_before_anything_is_destroyed(path, engine, monkeypatch):
    """Otherwise a loss of power could bring back the old bounds without their elements."""
    events = []

    def noting(name, function):
        def note(*args):
            events.append(name)
            return function(*args)

        monkeypatch.setattr(File, name, note)

    for name in ("datasync", "punch", "reserve", "zero"):
        noting(name, getattr(File, name))
    options = {"chunks": (2, 4), "engine": engine, "sparse": False}
    with xa.create(path, (8, 4), "i4", **options) as array:
        array[...] = 1
        array.flush()
        events.clear()
        array.shrink(0, 1)
        assert events == []
        array.extend(0, 1)
        assert events == ["datasync"]
        assert not array[7].any()
        events.clear()
        array.shrink(0, 4)
        assert events == ["datasync", "punch"]
        array.extend(0, 4)
        assert events[2:] == ["reserve", "zero"], "once is enough"


# -- failures half way, and concurrent changes --------------------------------------------------


def test_room_that_is_not_to_be_had(factory):
    with factory.array((4,), "i4", chunks=(4,)) as array:
        array[...] = 1
        for shape in ((2**61,), (2**63 - 2,)):
            with pytest.raises(xa.LimitError):
                array.reserve(shape)
        assert array.grid == array.axial.grid == (1,)
        array.extend(0, 1)
        assert array[...].tolist() == [1, 1, 1, 1, 0]
        if factory.on_disk:
            array.flush()
            with factory.open(array) as reader:
                assert reader.shape == (5,)


def test_extents_near_the_limit_are_refused_before_anything_counts(factory):
    with factory.array((0, 5), "i1", chunks=(1, 2**40), sparse=True) as array:
        array.extend(1, 2**62, side="start")
        for call in (
            lambda: array.extend(1, 2**62, side="start"),
            lambda: array.extend(1, 2**62),
        ):
            with pytest.raises(xa.LimitError):
                call()
        assert array.shape == (0, 2**62 + 5)
        assert array.grid == array.axial.grid


@needs_reports_of_holes  # other files are read to their end
@pytest.mark.parametrize(("share", "checksum"), [(False, False), (False, True), (True, False)])
def test_a_cut_of_more_chunks_than_can_be_looked_up(path, engine, share, checksum):
    rows = 2**35
    xa.create(path, (4, 6), "u2", chunks=(2, 3), sparse=True, checksum=checksum).close()
    with xa.open(path, "r+", share=share, engine=engine) as array:
        array[...] = 7
        array.extend(0, rows, side="start")
        array.extend(1, 6)
        array.shrink(1, 3)
        array.shrink(0, rows - 2, side="start")
        array.extend(0, rows)
        assert array.shape == (rows + 6, 9)
        expected = np.pad(np.full((4, 6), 7), ((2, 0), (0, 3)))
        np.testing.assert_array_equal(array[:6], expected)
        array.shrink(0, rows)
        array.extend(0, rows)
        array.extend(0, rows, side="start")
        np.testing.assert_array_equal(array[rows : rows + 6], expected)
        np.testing.assert_array_equal(array[[0, rows - 1, rows + 6, -1]], 0)
    assert xa.check(path).ok


@needs_reports_of_holes
@pytest.mark.parametrize("in_block", [False, True])
def test_a_cut_of_very_many_runs(path, engine, in_block):
    """Each column of the last segment is a run, but few needed chunks lie between them."""
    with xa.create(path, (4, 4), "u1", chunks=(1, 2), sparse=True, engine=engine) as array:
        array[...] = 7
        array.resize((2**20, 2**21))
        array[-6:-2, -3:] = 5
        with xa.commit([array]) if in_block else contextlib.nullcontext():
            array.resize((3, 3))
        assert_same(array[...], np.full((3, 3), 7, "u1"))
        array.resize((2**20, 2**21))
        assert_same(array[:5, :5], np.pad(np.full((3, 3), 7, "u1"), (0, 2)))
        assert not array[-6:, -3:].any()
    assert xa.check(path).ok


LONG_AXES = {
    "at once": ((0, 10**6), [(1, 5)]),
    "first the long one": ((0, 10**6), [(0, 5), (1, 5)]),
    "first the empty one": ((0, 10**6), [(1, 0), (1, 5)]),
    "the other way round": ((10**6, 0), [(5, 1)]),
    "beside chunks that there were": ((1, 10**5), [(80, 5)]),
}


@pytest.mark.parametrize("way", LONG_AXES.values(), ids=LONG_AXES)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("checksum", [False, True])
def test_an_extent_that_never_had_a_chunk_takes_no_space(path, engine, fill, checksum, way):
    start, steps = way
    options = {"chunks": (1, 1000) if start[0] < 2 else (1000, 1), "fill_value": fill}
    with xa.create(
        path, start, "u1", engine=engine, sparse=False, checksum=checksum, **options
    ) as array:
        before = disk_bytes(array)
        for step in steps:
            array.resize(step)
        assert disk_bytes(array) <= before + 80 * 4096 or not reports_holes()
        expected = np.full(steps[-1], fill, "u1")
        assert_same(array[...], expected)
        array[-1, -1] = expected[-1, -1] = 5
        shape = tuple(n + 9 * c for n, c in zip(steps[-1], array.chunks, strict=True))
        array.resize(shape)  # new parts have their space, and the fill value
        grown = np.full(shape, fill, "u1")
        grown[tuple(map(slice, expected.shape))] = expected
        assert_same(array[...], grown)
        assert disk_bytes(array) >= grown.nbytes
    assert xa.check(path, data=checksum).ok
    with xa.open(path) as array:
        assert_same(array[...], grown)


def test_an_unseal_that_fails_is_made_up_for(path, engine, monkeypatch):
    """The seal at the end of a file must not become elements."""
    with xa.create(path, (6,), "i4", chunks=(4,)) as array:
        array[...] = 1
    with xa.open(path, mode="r+", engine=engine) as array:
        with monkeypatch.context() as patch:

            def fail(file):
                raise OSError(5, "input/output error")

            patch.setattr(File, "datasync", fail)
            with pytest.raises(xa.StorageError):
                array.append([5])
        array.extend(0, 10)
        assert array[...].tolist() == [1] * 6 + [0] * 10


@pytest.mark.parametrize("side", ["end", "start"])
def test_values_whose_conversion_shrinks_the_array(factory, side):
    class Shrinking:
        def __array__(self, dtype=None, copy=None):
            array.shrink(0, 90, side)
            return np.full(100, 5)

    with factory.array((100,), "i8", chunks=(10,)) as array:
        array[...] = np.arange(100)
        array[...] = Shrinking()
        assert_same(array[...], np.full(10, 5))
        array.extend(0, 90, side)
        assert np.count_nonzero(array[...]) == 10


QUERIES = {
    "list": np.s_[[1, -1], :],
    "progression": np.s_[::-2, [1, 4]],
    "mask": np.arange(20).reshape(4, 5) % 7 == 1,
    "many": np.arange(20).reshape(4, 5) % 3 > 0,
    "points": np.s_[[0, 3, -2], [4, 0, 2]],
}


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("given_back", [False, True])
def test_queries_whose_values_grow_the_array_at_its_start(factory, kind, given_back):
    """The write goes to the elements that the indices meant before the growth."""
    key = QUERIES[kind]

    class Growing:
        def __array__(self, dtype=None, copy=None):
            array.extend(0, 3, side="start")
            array.extend(1, 1, side="start")
            array.extend(0, 2)
            if given_back:
                array.shrink(0, 1, side="start")
            return np.array(7, "i4")

    with factory.array((4, 5), "i4", chunks=(2, 2)) as array:
        array[...] = expected = np.arange(20, dtype="i4").reshape(4, 5)
        array[key] = Growing()
        expected[key] = 7
        first = 2 if given_back else 3
        assert_same(array[first : first + 4, 1:], expected)
        assert array[...].sum() == expected.sum()


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("side", ["end", "start"])
def test_queries_whose_values_cut_the_array(factory, kind, side):
    """The assignment comes first, even if growth restores the number of elements."""

    class Shrinking:
        def __array__(self, dtype=None, copy=None):
            array.shrink(0, 1, side)
            if side == "start":
                array.extend(0, 2)
            return np.array(7, "i4")

    with factory.array((4, 5), "i4", chunks=(2, 2)) as array:
        array[...] = 1
        expected = np.ones((4, 5), "i4")
        expected[QUERIES[kind]] = 7
        expected = expected[:-1] if side == "end" else np.vstack([expected[1:], np.zeros((2, 5))])
        array[QUERIES[kind]] = Shrinking()
        assert_same(array[...], expected.astype("i4"))


@pytest.mark.parametrize("key", [np.s_[60:70], [60, 65]], ids=["box", "list"])
def test_a_cut_while_a_write_waits_for_the_disk(disk, monkeypatch, key):
    """The write stores nothing to chunks whose space was given back."""
    with disk.array((100,), "u1", chunks=(10,), checksum=True) as array:
        array[...] = 1
        array.flush()
        doubt = array._store.now.sums.doubt

        def cutting():
            monkeypatch.undo()
            doubt()
            thread = threading.Thread(target=array.shrink, args=(0, 50))
            thread.start()
            thread.join()

        monkeypatch.setattr(array._store.now.sums, "doubt", cutting)
        array[key] = 7
        assert array.shape == (50,)
        array.extend(0, 50)
        assert array[...].tolist() == [1] * 50 + [0] * 50


def test_an_index_that_shifts_the_others(factory):
    class Growing:
        def __index__(self):
            array.extend(1, 3, side="start")
            return 2

    with factory.array((4, 5), "i4", chunks=(2, 2)) as array:
        array[...] = np.arange(20).reshape(4, 5)
        assert array[0 : Growing(), 1].tolist() == [1, 6]


def test_threads_that_read_while_the_start_shrinks(factory):
    """Readers get the elements or, in time, an error."""
    n = 1 << 20
    with (
        factory.array((n,), "i4", chunks=(1 << 12,)) as array,
        xa.config.set(max_memory=1 << 16),
    ):
        array[...] = np.arange(n)
        results = []

        def read():
            out = np.empty(n, "f8")
            try:
                results.append(array.read(..., out=out).sum())
            except xa.BoundsError:
                results.append(None)
            except xa.ShapeError:  # the rest was cut off before the read began
                results.append(len(array))

        thread = threading.Thread(target=contextvars.copy_context().run, args=(read,))
        thread.start()
        array.shrink(0, n - 10, side="start")
        thread.join()
        assert results in ([None], [n * (n - 1) / 2], [10])


@pytest.mark.parametrize("mapped", [True, False])
def test_the_number_of_cuts_is_read_in_the_order_of_the_format(tmp_path, mapped):
    """The lowest byte comes first, whatever the byte order of the host."""
    path = tmp_path / "numbers"
    path.write_bytes(bytes(8) + (0x0102030405060708).to_bytes(8, "little"))
    with path.open("rb") as file:
        assert Counter.file(file.fileno(), 8, mapped).value == 0x0102030405060708
