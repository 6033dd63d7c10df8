"""Orders of the elements in a chunk: requirements of a new one; an unknown one is refused."""

from __future__ import annotations

import numpy as np
import pytest
from orders import NEW, new_orders, stored

import extarray as xa
from extarray import errors
from extarray.common.choices import ORDERS
from extarray.grid import order


@pytest.mark.parametrize("engine", ["mmap", "pread", None])
@pytest.mark.parametrize("name", NEW)
def test_a_new_order_needs_no_more_than_its_entries(tmp_path, name, engine):
    path = None if engine is None else tmp_path / "a"
    with new_orders(), xa.create(path, (3, 5), "i4", chunks=(3, 4), order=name) as a:
        model = np.arange(15, dtype="i4").reshape(3, 5)
        a[...] = model
        a.append(model[:, :2] + 100, axis=1)
        model = np.concatenate([model, model[:, :2] + 100], axis=1)
        a.extend(0, 1)
        model = np.concatenate([model, np.zeros((1, 7), "i4")])
        a[3, 1::2] = model[3, 1::2] = [7, 8, 9]
        a[model % 5 == 3] = model[model % 5 == 3] = -1
        a[[0, 2], 3] = model[[0, 2], 3] = [70, 90]
        assert np.array_equal(a[...], model)
        assert np.array_equal(a[1:, ::-2], model[1:, ::-2])
        assert np.array_equal(a[[3, 0]], model[[3, 0]]) and a[3, 5] == model[3, 5]
        assert np.array_equal(a.copy(order="C")[...], model)
        chunks = np.zeros((2, 2, 3, 4), "i4")
        whole = chunks.transpose(0, 2, 1, 3).reshape(6, 8)
        whole[:4, :7] = model
        chunks = whole.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
        if path is not None:
            file = np.fromfile(f"{path}.xta", "i4", a.axial.size * 12).reshape(-1, 12)
            for index in np.ndindex(2, 2):
                address = int(a.axial.addresses(np.array([index]))[0])
                assert np.array_equal(file[address], stored(chunks[index], name))
            a.close()
            with xa.open(path, engine=engine) as b:
                assert b.order == name and np.array_equal(b[...], model)


@pytest.mark.parametrize("name, at", [("P", 0), ("Q", 1)])
def test_a_chunk_in_a_new_order_widens_where_its_elements_stay(name, at):
    with new_orders():
        a = xa.create(None, (1, 4), "i4", chunks=(1, 4), order=name)
        a[0] = [1, 2, 3, 4]
        b = a.copy(order=name)
        if name == "P":  # the order runs backwards: old elements would come last
            with pytest.raises(errors.ChunksError, match="would move"):
                a.add_axis(at, chunk=2)
        else:
            a.add_axis(at, chunk=2)
            assert a.chunks == (1, 2, 4) and a[0, 0].tolist() == [1, 2, 3, 4]
        b.add_axis(at)
        assert b.ravel().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
def test_an_order_that_is_unknown_is_never_taken_for_another(tmp_path, shape):
    """A file that names such an order, as other versions may write, is refused."""
    path = tmp_path / "a"
    with new_orders():
        xa.create(path, shape, "i4", chunks=(2, 3), order="P").close()
    with pytest.raises(errors.CorruptError):
        xa.open(path)
    with new_orders(), pytest.MonkeyPatch.context() as patch:
        patch.delitem(order._KEYS, "P")
        patch.setattr(order, "ORDERS", ORDERS)
        with pytest.raises(errors.ArgumentError, match="unknown order 'P'"):
            xa.open(path)
