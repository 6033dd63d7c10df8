"""Growth: nothing moves, no reader sees half of a change, and new parts hold the fill value."""

from __future__ import annotations

import datetime as dt
import threading

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from model import Model, sample
from strategies import Growth, built, cases

import extarray as xa
from extarray.storage.filesystem import File


def stored_bytes(array) -> bytes:
    """Return the allocated part of the file; without a writer a seal follows it."""
    data = array.path.with_name(array.path.name + ".xta").read_bytes()
    return data[: array.info()["allocated_bytes"]]


@pytest.mark.invariant("I1")
@given(case=cases(min_ndim=1, cuts=False), data=st.data())
def test_growth_never_moves_a_byte(disk, case, data):
    with built(disk, case) as (array, _):
        before = stored_bytes(array)
        axis = data.draw(st.integers(0, array.ndim - 1))
        by = data.draw(st.integers(1, 6))
        array.extend(axis, by)
        after = stored_bytes(array)
        assert len(after) >= len(before)
        assert after[: len(before)] == before


@given(case=cases(min_ndim=1))
def test_grid_follows_the_shape(factory, case):
    with built(factory, case) as (array, model):
        assert array.shape == model.shape
        assert array.grid == array.axial.grid == model.grid
        info = array.info()
        assert info["segments"] == sum(len(array.axial.records(j)[0]) for j in range(array.ndim))
        chunk_bytes = int(np.prod(array.chunks)) * array.itemsize
        assert info["allocated_bytes"] == model.replay.size * chunk_bytes
        assert info["logical_bytes"] == array.nbytes == model.data.nbytes


def test_growth_inside_a_chunk_adds_no_segment(factory):
    with factory.array((3, 3), "i4", chunks=(4, 4), fill_value=9) as array:
        array[...] = expected = sample("i4", (3, 3))
        allocated = array.info()["allocated_bytes"]
        array.extend(1, 1)
        array.extend(0, 1)
        assert array.shape == (4, 4)
        assert array.grid == (1, 1)
        assert array.info()["segments"] == 1
        assert array.info()["allocated_bytes"] == allocated
        assert_same(array[:3, :3], expected)
        assert (array[3] == 9).all()
        assert (array[:, 3] == 9).all()
        array.extend(1, 1)
        assert array.grid == (1, 2)
        assert array.info()["segments"] == 2


def test_growth_inside_a_chunk_does_not_interrupt(factory):
    """Axis 0 grows, then axis 1 inside its chunk, then axis 0 again: one record."""
    with factory.array((2, 3), "u1", chunks=(2, 4)) as array:
        array.extend(0, 2)
        array.extend(1, 1)
        array.extend(0, 2)
        assert array.grid == (3, 1)
        assert array.info()["segments"] == 1
        array.extend(1, 2)
        array.extend(0, 0)
        array.extend(1, 6)
        assert array.grid == (3, 3)
        assert array.info()["segments"] == 2
        assert array.axial.records(1)[0].tolist() == [1]


def test_arguments_of_extend(factory):
    with factory.array((2, 3), "u1", chunks=2) as array:
        assert array.extend(1, 4) is None
        assert array.shape == (2, 7)
        array.extend(axis=0, by=1)
        assert array.shape == (3, 7)
        array.extend(-1, 1)
        assert array.shape == (3, 8)
        array.extend(np.int64(0), np.uint8(2))
        assert array.shape == (5, 8)
        array.extend(0, 0)
        assert array.shape == (5, 8)


def test_nothing_returned(factory):
    with factory.array((2, 3), "u1", chunks=2) as array:
        assert array.append(np.zeros((1, 3), "u1")) is None
        assert array.resize((4, 5)) is None
        assert array.shape == (4, 5)


@given(case=cases(min_ndim=1, max_ndim=3), data=st.data())
def test_resize_is_growth_of_each_axis_in_order(factory, case, data):
    with built(factory, case) as (array, model):
        shape = tuple(n + data.draw(st.sampled_from([0, 1, 3])) for n in model.shape)
        array.resize(shape)
        model.resize(shape)
        assert_same(array[...], model.data)
        for axis in range(array.ndim):
            records = zip(*(part.tolist() for part in array.axial.records(axis)), strict=True)
            assert list(records) == model.replay.records(axis)


def test_resize_is_one_commit(disk):
    """An axis that cannot grow stops the others; a reader sees all of the change or nothing."""
    with disk.array((2, 2), "u1", chunks=2) as array, disk.open(array) as reader:
        array[...] = 5
        with pytest.raises(xa.ExtArrayError):
            array.resize((4, 2**62))
        assert array.shape == (2, 2)
        assert not reader.refresh()
        array.resize((4, 6))
        assert reader.shape == (2, 2)
        assert reader.refresh()
        assert reader.shape == (4, 6)
        assert not reader.refresh()
        assert (reader[:2, :2] == 5).all()


def test_resize_takes_numpys_shapes(factory):
    with factory.array((2,), "u1", chunks=2) as array:
        array.resize([np.int64(5)])
        assert array.shape == (5,)
        array.resize((5,))
        assert array.shape == (5,)
    with factory.array((), "u1") as array:
        array.resize(())
        assert array.shape == ()


def test_append_casts_by_same_kind(factory):
    with factory.array((0, 3), "f4", chunks=(2, 2)) as array:
        array.append([[1, 2, 3]])
        array.append(np.array([[4, 5, 6]], "f8"))
        array.append(np.array([[7, 8, 9]], ">i2"))
        array.append(np.array([[True, False, True]]))
        expected = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 0, 1]]
        assert_same(array[...], np.array(expected, "f4"))
        for bad in (np.ones((1, 3), "c8"), np.array([["1", "2", "3"]]), [[None, 1, 2]]):
            with pytest.raises(xa.CastingError, match="same_kind"):
                array.append(bad)
        assert array.shape == (4, 3)


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("u1", [1]),
        ("?", [1, 0]),
        ("i4", []),
        ("S3", ["ab"]),
        ("M8[s]", ["2025-01-01"]),
        ("M8[s]", [dt.datetime(2025, 1, 1)]),
        ([("a", "i4"), ("b", "f4")], [(1, 2.0)]),
    ],
)
def test_append_takes_lists_as_assignment_does(memory, dtype, data):
    with memory.array((0,), dtype) as array, memory.array((len(data),), dtype) as assigned:
        assigned[...] = data
        array.append(data)
        assert_same(array[...], assigned[...])


def test_append_of_lists_that_do_not_fit(memory):
    with memory.array((0,), "i1") as array:
        with pytest.raises(OverflowError):
            array.append([300])
        for bad in ([1.5], [1j], ["1"], [None]):
            with pytest.raises(xa.CastingError, match="same_kind"):
                array.append(bad)
        assert array.shape == (0,)


def test_append_checks_what_a_source_gives(memory):
    class Source:
        shape = (3,)
        dtype = np.dtype("f8")

        def __getitem__(self, key):
            return np.full(3, 1j)[key]

    class Foreign:
        """A stand-in for a tensor of torch: its dtype is not NumPy's."""

        shape = (3,)
        dtype = "float64"

        def __getitem__(self, key):
            raise AssertionError

        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    with memory.array((0,), "f8") as array:
        with pytest.raises(xa.CastingError, match="complex128"):
            array.append(Source())
        assert array.shape == (0,)
        array.append(Foreign())
        assert_same(array[...], np.arange(3.0))


def test_append_along_each_axis(factory):
    with factory.array((2, 3), "i4", chunks=(2, 2)) as array:
        model = Model((2, 3), "i4", (2, 2))
        for axis, shape in [(0, (3, 3)), (1, (5, 1)), (-1, (5, 4)), (0, (0, 8)), (0, (1, 8))]:
            data = sample("i4", shape, seed=axis + 1)[::-1]
            array.append(data, axis=axis)
            model.append(data, axis)
            assert_same(array[...], model.data)


def test_append_an_array_to_itself(factory):
    with factory.array((3, 2), "i4", chunks=2) as array:
        array[...] = expected = sample("i4", (3, 2))
        array.append(array)
        array.append(array.chunk((0, 0)))
        assert_same(array[...], np.concatenate([expected, expected, expected[:2]]))


def test_append_to_a_part_filled_chunk_replaces_the_fill_value(factory):
    with factory.array((1,), "i4", chunks=8, fill_value=-1) as array:
        array.append([1, 2])
        array.extend(0, 2)
        array.append([3])
        assert array[...].tolist() == [-1, 1, 2, -1, -1, 3]


class Failing:
    """Data whose conversion fails."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no data")


@pytest.mark.invariant("I5")
def test_a_failed_append_changes_nothing(factory):
    with factory.array((2, 3), "i4", chunks=2, fill_value=4) as array:
        for bad, error in [(Failing(), RuntimeError), (np.ones((1, 2), "i4"), xa.ShapeError)]:
            with pytest.raises(error):
                array.append(bad)
        assert array.shape == (2, 3)
        array.extend(0, 2)
        assert (array[...] == 4).all()


@pytest.mark.invariant("I5")
def test_readers_see_whole_appends_only(disk):
    """Rows are numbered in order; a polling reader sees only numbered rows."""
    rounds = 300
    with disk.array((0, 3), "i4", chunks=(4, 2), fill_value=-1) as array:
        seen, problems = [], []

        def poll():
            with disk.open(array) as reader:
                while not problems and (not seen or seen[-1] < rounds):
                    reader.refresh()
                    rows = reader[...]
                    seen.append(len(rows))
                    wanted = np.repeat(np.arange(len(rows))[:, None], 3, axis=1)
                    if not (rows == wanted).all():
                        problems.append(rows)

        thread = threading.Thread(target=poll)
        thread.start()
        for row in range(rounds):
            array.append(np.full((1, 3), row, "i4"))
        thread.join()
        assert not problems
        assert seen[-1] == rounds


def test_refresh_finds_growth_and_nothing_else(disk):
    with disk.array((2, 2), "f8", chunks=2) as array, disk.open(array) as reader:
        assert reader.refresh() is False
        array[...] = 3
        assert (reader[...] == 3).all(), "elements need no refresh"
        array.extend(1, 3)
        assert reader.shape == (2, 2)
        with pytest.raises(xa.BoundsError):
            reader[0, 2]
        assert reader.refresh() is True
        assert reader.shape == (2, 5)
        assert reader.grid == (1, 3)
        assert_same(reader[...], array[...])
        array.extend(0, 5)
        array.extend(1, 5)
        assert reader.refresh() is True
        assert_same(reader[...], array[...])
        assert reader.refresh() is False
        assert array.refresh() is False


def test_refresh_in_memory(memory):
    with memory.array((2,), chunks=2) as array:
        array.extend(0, 5)
        assert array.refresh() is False


def test_many_growths_of_every_axis(factory):
    """300 appends keep records, addresses and elements right, at once and after reopening."""
    model = Model((1, 1, 1), "u2", (2, 3, 1))
    with factory.array((1, 1, 1), "u2", chunks=(2, 3, 1)) as array:
        for step in range(100):
            Growth(axis=step % 3, by=1 if step % 7 else 2, seed=step).apply(array, model)
        assert_same(array[...], model.data)
        if factory.on_disk:
            array.close()
            with factory.open(array, mode="r+") as again:
                assert_same(again[...], model.data)
                Growth(axis=1, by=4, seed=1).apply(again, model)
                assert_same(again[...], model.data)


@pytest.mark.invariant("I3")
def test_a_commit_writes_the_same_after_a_long_history(disk, monkeypatch):
    written, write = [], File.write

    def counted(self, data, offset):
        written[-1] += memoryview(data).nbytes
        return write(self, data, offset)

    with disk.array((1, 1), "u1", chunks=(1, 1), sparse=True) as array:
        monkeypatch.setattr(File, "write", counted)
        for step in range(1200):
            written.append(0)
            array.extend(step % 2, 1)
        assert array.axial.segments == 1200
        assert max(written[-100:]) <= max(written[:10]) < 1000


@pytest.mark.invariant("I8")
def test_zeros_are_free_and_other_values_are_not(disk):
    new = 62 * 2**16
    for fill_value in (0, 1):
        with disk.array(
            (2, 2**16), "u1", chunks=(1, 2**16), sparse=True, fill_value=fill_value
        ) as array:
            before = array.info()["disk_bytes"]
            array.extend(0, 62)
            taken = array.info()["disk_bytes"] - before
            assert taken >= new if fill_value else taken < 2**16
            assert (array[2:] == fill_value).all()


@pytest.mark.parametrize("fill_value", [0, 3.5, np.nan])
def test_growth_of_every_axis_from_length_zero(factory, fill_value):
    with factory.array((0, 0, 0), "f8", chunks=(2, 2, 2), fill_value=fill_value) as array:
        for axis in (1, 0, 2, 0, 1):
            array.extend(axis, 3)
        assert array.shape == (6, 6, 3)
        assert_same(array[...], np.full((6, 6, 3), fill_value, "f8"))


@pytest.mark.parametrize("side", ["end", "start"])
def test_a_change_by_nothing_is_no_commit(disk, side):
    with disk.array((3, 2), "i4", chunks=(2, 2)) as array, disk.open(array) as reader:
        array.extend(0, 0, side)
        array.append(np.empty((3, 0), "i4"), 1, side)
        array.shrink(1, 0, side)
        array.resize(array.shape)
        assert not reader.refresh()
