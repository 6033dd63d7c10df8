"""Values keep their meaning in other formats: fill values, missing values, packing, bits of NaN."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file"


# -- fill values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("U3", "äb"), ("S3", b"ab"), ("?", True), ("M8[s]", "NaT"), ("m8[D]", 3), ("M8[ns]", 7)],
)
def test_a_fill_value_of_any_kind_goes_through_hdf5(file, dtype, fill, recwarn):
    pytest.importorskip("h5py")
    a = xa.create(None, 1, dtype, fill_value=np.array(fill, dtype)[()])
    xa.to_hdf5(a, file, "x")
    b = xa.from_hdf5(file, "x")
    b.extend(0, 1)
    assert b.dtype == a.dtype
    expected = np.full(2, fill, dtype)
    assert np.array_equal(b[...].view(f"V{a.itemsize}"), expected.view(f"V{a.itemsize}"))
    assert not recwarn.list
