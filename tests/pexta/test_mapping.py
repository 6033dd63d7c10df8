"""Arrays mapped from HDF5 and netCDF, by the thesis's names."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa
from extarray import pexta


def test_a_dataset_is_mapped_extended_and_written(tmp_path):
    h5py = pytest.importorskip("h5py")
    x = np.arange(12.0).reshape(3, 4)
    with h5py.File(tmp_path / "file.h5", "w") as f:
        f["fixed"], f["other"] = x, x
        for name in ("fixed", "growing"):
            if name == "growing":
                f.create_dataset(name, data=x, maxshape=(None, None))
            array = pexta.hdfmap(f[name])
            array.extend(0, 1, side="start")
            array.extend(1, 2)
            array[0] = 9
            with pytest.raises(xa.ArgumentError, match="'?/?other"):
                pexta.hdfwrite(array, f["other"])
            dataset = pexta.hdfwrite(array, f[name])
            assert dataset == f[name] and np.array_equal(dataset[...], array[...])
            array[1, 1] = 7
            assert pexta.hdfwrite(array, dataset)[1, 1] == 7
        with pytest.raises(xa.ArgumentTypeError):
            pexta.hdfwrite(xa.zeros((2,)), f["other"])


def test_a_variable_is_mapped_extended_and_written(tmp_path):
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset(tmp_path / "file.nc", "w") as d:
        d.createDimension("time")
        d.createDimension("x", 2)
        rain = d.createVariable("rain", "i4", ("time", "x"))
        other = d.createVariable("other", "i4", ("time", "x"))
        rain[:1] = [[1, 2]]
        array = pexta.netcdfmap(rain[...], d, "rain")
        array.extend("time", 1)
        array[1] = [3, 4]
        for wrong in (other, 1, "other", 5, "none"):
            with pytest.raises(xa.ArgumentError):
                pexta.netcdfwrite(array, wrong)
        pexta.netcdfwrite(array, 0)
        assert rain[...].tolist() == [[1, 2], [3, 4]]
