"""Views of chunks: without a copy, inside the bounds, and never left without memory."""

from __future__ import annotations

import gc
import math
from pathlib import Path

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import Index, built, cases
from systems import needs_proc, needs_space_for_holes

import extarray as xa
from extarray.common import system


@given(case=cases(orders=st.sampled_from("CF")), data=st.data())
def test_chunks_are_the_parts_of_the_array(factory, case, data):
    with built(factory, case) as (array, model):
        for index in np.ndindex(*model.grid):
            assert_same(np.array(array.chunk(index)), np.array(model.chunk(index)))
        if model.data.size:
            index = tuple(data.draw(st.integers(0, n - 1)) for n in model.grid)
            values = sample(case.dtype, model.chunk(index).shape, 8)
            array.chunk(index)[...] = values
            model.chunk(index)[...] = values
            assert_same(array[...], model.data)


@given(case=cases(orders=st.sampled_from("ZH")))
def test_chunks_in_a_curves_order_are_whole(factory, case):
    """The view is 1-d, in stored order, and has each of the chunk's elements once."""
    with built(factory, case) as (array, model):
        size = math.prod(array.chunks)
        for index in np.ndindex(*model.grid):
            stored = array.chunk(index)
            assert stored.shape == (size,)
            inside = model.chunk(index)
            if inside.size == size:
                expected = sorted(element.tobytes() for element in inside.ravel())
                if case.dtype.char != "g":  # long double: the padding may differ
                    assert sorted(element.tobytes() for element in stored) == expected


@pytest.mark.parametrize("order", ["C", "F", "Z", "H"])
def test_views_share_memory(factory, order):
    with factory.array((5, 4), "i4", chunks=(4, 4), order=order) as array:
        view = array.chunk((0, 0))
        again = array.chunk((0, 0))
        assert np.shares_memory(view, again)
        assert not np.shares_memory(view, array.chunk((1, 0)))
        view[...] = 6
        assert (again == 6).all()
        assert (array[:4] == 6).all()
        assert not array[4:].any()
        array[...] = 8
        assert (view == 8).all()
        assert view.dtype == array.dtype


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_and_clipping(factory, order):
    with factory.array((5, 7), "i2", chunks=(4, 3), order=order) as array:
        whole = array.chunk((0, 0))
        assert whole.shape == (4, 3)
        assert whole.flags[f"{order}_CONTIGUOUS"]
        assert array.chunk((1, 0)).shape == (1, 3)
        assert array.chunk((1, 2)).shape == (1, 1)
        assert array.chunk((1, 2)).strides == whole.strides
        clipped = array.chunk((0, 2))
        clipped[...] = 4
        array.extend(1, 2)
        assert clipped.shape == (4, 1), "a view keeps the bounds that it was made with"
        assert array.chunk((0, 2)).shape == (4, 3)
        assert not array[:, 7:].any()


def test_a_view_of_a_hole(factory):
    with factory.array((8,), "i4", chunks=4, sparse=True, fill_value=3) as array:
        view = array.chunk((1,))
        assert view.tolist() == [3] * 4
        view[...] = 9
        assert array[...].tolist() == [3] * 4 + [9] * 4


def test_writable_in_r_plus_only(disk):
    with disk.array((4,), "i4", chunks=2) as array:
        assert array.chunk((0,)).flags.writeable
        assert all(view.flags.writeable for _, view in array.chunk_views())
        with disk.open(array) as reader:
            for view in (reader.chunk((0,)), *(view for _, view in reader.chunk_views())):
                assert not view.flags.writeable
                with pytest.raises(ValueError, match="read-only"):
                    view[...] = 1
                with pytest.raises(ValueError, match="WRITEABLE"):
                    view.flags.writeable = True


def test_views_outlive_growth(factory):
    """Growth neither moves nor unmaps the memory that a view shows."""
    with factory.array((4, 4), "i4", chunks=(2, 2), fill_value=1) as array:
        views = dict(array.chunk_views())
        places = {index: view.ctypes.data for index, view in views.items()}
        for axis in (0, 1) * 20:
            array.extend(axis, 7)
        array.extend(0, 100_000)
        for number, (index, view) in enumerate(views.items()):
            if system.MAPS_FREELY or factory.engine != "mmap":
                assert array.chunk(index).ctypes.data == places[index]
            view[...] = number
            assert (array[tuple(slice(2 * i, 2 * i + 2) for i in index)] == number).all()


@needs_space_for_holes
def test_views_outlive_the_window(disk):
    """A file that outgrows its mapping is mapped anew; old views and new reads share the memory."""
    with disk.array((100,), "u1", chunks=2**20, sparse=True) as array, disk.open(array) as reader:
        views = array.chunk((0,)), reader.chunk((0,))
        array.extend(0, 2**38)
        array[-1] = 3
        assert reader.refresh()
        assert reader[-1] == array[-1] == 3
        views[0][5] = 7
        array[6] = 8
        assert reader[5:7].tolist() == array[5:7].tolist() == views[1][5:7].tolist() == [7, 8]
        assert array.chunk((0,))[5] == 7


@pytest.mark.sampled(1)
def test_views_outlive_the_array(factory):
    array = factory.create((600, 500), "f8", chunks=(600, 500))
    array[...] = expected = sample("f8", (600, 500))
    view = array.chunk((0, 0))
    column = view[:, 3]
    array.close()
    assert_same(np.array(view), expected)
    del array, view
    gc.collect()
    assert_same(np.array(column), expected[:, 3])


@pytest.mark.sampled(1)
@needs_proc
def test_the_mapping_lives_as_long_as_its_last_view(disk):
    def mapped():
        return array_path in Path("/proc/self/maps").read_text()

    array = disk.create((100,), "f8", chunks=10)
    array_path = f"{array.path}.xta"
    view = array.chunk((3,))
    part = view[2:]
    array.close()
    del array, view
    gc.collect()
    assert mapped()
    del part
    gc.collect()
    assert not mapped()


def test_views_of_a_reader_outlive_it(disk):
    with disk.array((4,), "i4", chunks=4) as array:
        reader = disk.open(array)
        view = reader.chunk((0,))
        reader.close()
        del reader
        array[...] = 7
        assert view.tolist() == [7] * 4


@given(case=cases(orders=st.sampled_from("CF")))
def test_iteration_over_chunks(factory, case):
    with built(factory, case) as (array, model):
        held = [index for index in np.ndindex(*model.grid) if model.chunk(index).size]
        by_address = dict(array.chunk_views())
        assert list(by_address) == sorted(held, key=array.axial.address)
        by_grid = dict(array.chunk_views(order="grid"))
        assert list(by_grid) == held
        assert array.nchunks == len(held)
        assert array.fillvalue == array.fill_value or array.fillvalue != array.fillvalue
        for index, view in (*by_address.items(), *by_grid.items()):
            assert all(type(i) is int for i in index)
            assert_same(np.array(view), np.array(model.chunk(index)))


def test_iteration_is_by_address_unless_asked(memory):
    with memory.array((1, 1), "u1", chunks=1) as array:
        for axis in (1, 0, 1):
            array.extend(axis, 1)
        default = [index for index, _ in array.chunk_views()]
        assert default == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
        assert default == [index for index, _ in array.chunk_views(order="address")]
        with pytest.raises(xa.ArgumentError, match="order"):
            array.chunk_views(order="C")


@pytest.mark.parametrize("index", [(2, 0), (0, 3), (-1, 0), (2**62, 0)])
def test_no_such_chunk(factory, index):
    with factory.array((4, 5), chunks=2) as array, pytest.raises(xa.BoundsError):
        array.chunk(index)


@pytest.mark.parametrize("kind", [np.int8, np.uint64, Index])
def test_chunk_index_of_every_integer_kind(factory, kind):
    with factory.array((4, 5), chunks=2) as array:
        array[2:, 2:4] = 7
        assert (array.chunk((kind(1), kind(1))) == 7).all()
        assert array.chunk([kind(1), 2]).shape == (2, 1)
        assert array.axial.address((kind(1), 2)) == 5


@pytest.mark.parametrize("index", [(), (0,), (0, 0, 0)])
def test_chunk_index_of_wrong_length(factory, index):
    with factory.array((4, 5), chunks=2) as array:
        with pytest.raises((ValueError, IndexError)) as caught:
            array.chunk(index)
        assert isinstance(caught.value, xa.ExtArrayError)


@pytest.mark.parametrize("index", [(0.0, 1), ("0", 0), (slice(1), 0), (True, 0), (None, 0)])
def test_chunk_index_of_another_kind(factory, index):
    with factory.array((4, 5), chunks=2) as array:
        with pytest.raises((TypeError, IndexError)) as caught:
            array.chunk(index)
        assert isinstance(caught.value, xa.ExtArrayError)


def test_chunk_of_rank_zero(factory):
    with factory.array((), "f8", fill_value=2.5) as array:
        view = array.chunk(())
        assert view.shape == ()
        view[...] = 4.5
        assert array[()] == 4.5
        assert [index for index, _ in array.chunk_views()] == [()]
