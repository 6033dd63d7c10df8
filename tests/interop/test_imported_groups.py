"""Groups of files of other formats in xarray: as xarray reads the files themselves."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa

xr = pytest.importorskip("xarray", minversion="2025.1")

import extarray.interop.xarray  # noqa: E402, F401


@pytest.mark.parametrize("chunked", [False, True])
def test_text_that_was_never_written_is_empty(tmp_path, chunked):
    words = np.array(["a", "bb"])
    ds = xr.Dataset({"s": ("x", words), "b": ("x", words.astype("S2")), "n": ("x", [1, 2])})
    ds["t"] = "x", np.array(["2024-05-01", "2024-05-02"], "M8[ns]")
    if chunked:
        pytest.importorskip("dask.array")
        ds = ds.chunk({"x": 1})
    ds.extarray.to_extarray(tmp_path / "d")
    with xa.open_group(tmp_path / "d", "r+") as g:
        g.extend("x", 1)
        assert g["s"][...].tolist() == ["a", "bb", ""]
        assert g["b"][...].tolist() == [b"a", b"bb", b""]
        assert g["n"][...].tolist() == [1, 2, 0]
        assert np.isnat(g["t"][2])
    with xr.open_dataset(tmp_path / "d", engine="extarray") as back:
        assert back["s"].values.tolist() == ["a", "bb", ""]
