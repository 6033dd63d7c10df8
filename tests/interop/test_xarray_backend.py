"""xarray's own tests of backends, with arrays in place of netCDF files."""

from __future__ import annotations

import asyncio
import inspect

import pytest

# xarray's tests need a newer xarray than the oldest that the backend supports.
xr = pytest.importorskip("xarray", minversion="2026.9")

from xarray.tests.conftest import time_unit, use_dask  # noqa: E402, F401 (fixtures)
from xarray.tests.test_backends import CFEncodedBase, DatasetIOBase  # noqa: E402

import extarray.interop.xarray  # noqa: E402, F401 (the accessors)

#: Tests that do not apply, with reasons.
SKIPPED = {
    "test_write_store": "stores are for reading: datasets are written by the accessor",
    "test_encoding_unlimited_dims": "every dimension is unlimited, and none is marked",
    "test_encoding_kwarg_fixed_width_string": "there are no arrays of single characters: texts and "
    "byte strings are stored as they are",
    "test_roundtrip_stringdtype_nulls": "missing texts come back as missing, not as empty ones",
    "test_roundtrip_string_with_fill_value_nchar": "it is supported here: see test_xarray_texts.py",
    "test_roundtrip_empty_vlen_string_array": "texts have a fixed size, and come back as such",
}


class TestDatasetFolder(CFEncodedBase):
    """A dataset in a folder of arrays."""

    engine = "extarray"
    file_format = "NETCDF4"  # runs the tests with unsigned bytes

    @pytest.fixture(autouse=True)
    def skip(self, request):
        reason = SKIPPED.get(request.function.__name__)
        if reason is not None:
            pytest.skip(reason)

    def save(self, dataset, path, **kwargs):
        dataset.extarray.to_extarray(path, **kwargs)

    def test_load_async(self):
        # Runs without pytest's plugin for coroutines.
        asyncio.run(super().test_load_async())


def test_the_tests_that_are_skipped_exist():
    assert sorted(set(SKIPPED) - {name for name, _ in inspect.getmembers(CFEncodedBase)}) == []


def test_the_mixin_is_run():
    tests = [name for name, _ in inspect.getmembers(DatasetIOBase) if name.startswith("test_")]
    assert len(tests) > 30
    assert all(hasattr(TestDatasetFolder, name) for name in tests)
