"""Zarr 2 and 3: stores, groups, shards and compression, names of axes, values that JSON lacks."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import extarray as xa
from extarray import errors

zarr = pytest.importorskip("zarr")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store.zarr"


@pytest.mark.parametrize("form", [2, 3])
def test_names_of_axes_and_attributes(store, form):
    attrs = {"unit": "mm", "list": [1, "a", None], "deep": {"x": 1.5}}
    a = xa.from_array(np.ones((2, 3)), dims=("y", "x"), attrs=attrs, fill_value=-1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", xa.LossyWarning)
        xa.to_zarr(a, store, zarr_format=form)
    z = zarr.open(store)
    assert z.metadata.zarr_format == form and z.fill_value == -1
    names = {2: z.attrs.get("_ARRAY_DIMENSIONS"), 3: getattr(z.metadata, "dimension_names", None)}
    assert tuple(names[form]) == ("y", "x")
    b = xa.from_zarr(store)
    assert b.dims == ("y", "x") and b.fill_value == -1
    assert {k: b.attrs[k] for k in attrs} == attrs
    # xarray, which stores axis names like this in Zarr 2, reads the fill value as missing.
    more = {"_FillValue"} if form == 2 else set()
    assert set(b.attrs) - {"dims"} == set(attrs) | more
    assert b.attrs.get("_FillValue", -1) == -1


def test_what_json_does_not_have_is_named(store):
    attrs = {"nan": np.nan, "bytes": b"x", "gain": np.float32(1), "codes": np.arange(2)}
    with pytest.warns(xa.LossyWarning) as caught:
        xa.to_zarr(xa.from_array([1, 2], attrs=attrs), store)
    assert all(repr(name) in str(caught[0].message) for name in attrs)


@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("fill", [None, 0, 7])
def test_chunks_that_were_never_written(store, form, fill):
    z = zarr.create_array(
        store, shape=(5, 7), chunks=(2, 3), dtype="i2", fill_value=fill, zarr_format=form
    )
    z[:2, :3] = 1
    a = xa.from_zarr(store, chunks=(2, 3))
    assert np.array_equal(a[...], z[...]) and a.fill_value == (fill or 0)


def test_a_chunk_that_the_disk_takes_in_part_is_an_error(store):
    """One call may write less than asked, and report that only by its result."""
    a = xa.from_array(np.ones((64, 512)), chunks=(64, 512))
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        with pytest.raises(xa.StorageError):
            xa.to_zarr(a, store, compressors=None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not store.exists()
    xa.to_zarr(a, store, compressors=None)
    assert (zarr.open(store)[...] == 1).all()


def test_shards_and_compression(store, tmp_path):
    x = np.arange(64 * 64, dtype="i4").reshape(64, 64)
    z = zarr.create_array(
        store,
        shape=x.shape,
        dtype="i4",
        chunks=(16, 16),
        shards=(32, 64),
        compressors=zarr.codecs.GzipCodec(),
        dimension_names=("y", None),
    )
    z[...] = x
    a = xa.from_zarr(z)
    assert np.array_equal(a[...], x) and a.chunks == (32, 64) and a.dims == ("y", "dim_1")
    xa.to_zarr(
        a,
        tmp_path / "again.zarr",
        chunks=(16, 16),
        shards=(32, 32),
        compressors=zarr.codecs.BloscCodec(cname="zstd"),
    )
    again = zarr.open(tmp_path / "again.zarr")
    assert again.shards == (32, 32) and np.array_equal(again[...], x)


def test_packed_numbers(store):
    z = zarr.create_array(store, shape=(3,), dtype="i2", attributes={
        "scale_factor": 0.5, "add_offset": 10, "_FillValue": -1,
    })  # fmt: skip
    z[...] = [5, 7, -1]
    assert xa.from_zarr(store)[...].tolist() == [5, 7, -1]
    values = xa.from_zarr(store, mask_and_scale=True)
    np.testing.assert_array_equal(values[...], np.array([12.5, 13.5, np.nan], "f4"))
    assert not {"scale_factor", "add_offset", "_FillValue"} & set(values.attrs)


def test_arrays_in_a_group(store):
    a = xa.from_array([[1, 2], [3, 4]])
    for name in ("level", "run/a", "run/deep/b"):
        xa.to_zarr(a, store, name)
    assert xa.file_formats()["zarr"].names(store) == ["level", "run/a", "run/deep/b"]
    with pytest.raises(xa.VariableError, match="'run/a'"):
        xa.from_zarr(store, "run")
    with pytest.raises(xa.VariableError, match="'level'"):
        xa.from_zarr(store)
    with pytest.raises(xa.ExistsError, match="an array cannot replace"):
        xa.to_zarr(a, store, "run", overwrite=True)
    with pytest.raises(xa.ExistsError, match="an array cannot replace"):
        xa.to_zarr(a, store, overwrite=True)
    group = zarr.open_group(store)["run"]
    assert xa.from_zarr(group, "deep/b")[...].tolist() == [[1, 2], [3, 4]]
    xa.to_zarr(a, group, "c")
    assert "c" in zarr.open_group(store)["run"]


def test_a_store_in_memory(recwarn):
    store = zarr.storage.MemoryStore()
    a = xa.from_array(np.arange(12.0).reshape(3, 4), chunks=(1, 4))
    xa.to_zarr(a, store, "run/level", compressors=None)
    xa.to_zarr(xa.from_array(a * 2), store, "other")
    assert np.array_equal(xa.from_zarr(store, "run/level")[...], a[...])
    with pytest.raises(xa.ExistsError):
        xa.to_zarr(a, store, "other")
    xa.to_zarr(a, store, "other", overwrite=True)
    assert np.array_equal(xa.from_zarr(store, "other")[...], a[...])
    bare = zarr.storage.MemoryStore()
    xa.to_zarr(a, bare)
    assert np.array_equal(xa.from_zarr(bare)[...], a[...])


def test_what_zarr_does_not_take(store):
    a = xa.zeros((2, 2))
    with pytest.raises(xa.ArgumentError, match="use 2 or 3"):
        xa.to_zarr(a, store, zarr_format=4)
    with pytest.raises(xa.ArgumentError):
        xa.to_zarr(a, store, compressors="no such thing")
    with pytest.raises(xa.DTypeError):
        xa.to_zarr(xa.zeros((2,), "g"), store)
    assert not store.exists()
    zarr.create_array(store, shape=(2,), dtype=str)
    with pytest.raises(xa.DTypeError, match="no fixed size"):
        xa.from_zarr(store)


@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("kind", ["<f8", ">f4", "i1", "c8", "?"])
@pytest.mark.parametrize("chunks", [(5, 7), (400, 3), (1, 1)])
def test_files_without_compression_are_as_zarr_writes_them(tmp_path, form, kind, chunks):
    x = np.zeros((21, 17))
    x[6:13, 3:9] = np.arange(42).reshape(7, 6)
    x = x.astype(kind)
    a = xa.create(None, x.shape, kind, chunks=chunks)
    a[...] = x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xa.to_zarr(a, tmp_path / "ours", zarr_format=form, compressors=None)
        own = tuple(min(c, n) for c, n in zip(chunks, x.shape, strict=True))
        z = zarr.create_array(
            tmp_path / "theirs", data=x, chunks=own, zarr_format=form, compressors=None
        )
    assert np.array_equal(zarr.open(tmp_path / "ours")[...], x) and z.dtype == kind

    def files(name):
        paths = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        return {str(p.relative_to(tmp_path / name)): p.read_bytes() for p in paths}

    ours, theirs = files("ours"), files("theirs")
    about = {"zarr.json", ".zarray", ".zattrs"}
    assert set(ours) - about == set(theirs) - about
    assert all(ours[name] == theirs[name] for name in set(ours) - about)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "chunks", [(40, 50), (256, 128), (300, 50)], ids=["small", "large", "whole"]
)
def test_files_of_chunks_are_read_and_written_as_they_are(tmp_path, chunks, zarr_format):
    x = np.random.default_rng(0).random((300, 200)).astype(">f8")
    x[:40] = -1
    z = zarr.create_array(
        tmp_path / "z",
        shape=x.shape,
        dtype=x.dtype,
        chunks=chunks,
        compressors=None,
        fill_value=-1,
        zarr_format=zarr_format,
    )
    z[:, :150] = x[:, :150]  # there are no files of other chunks
    x[:, 150:] = -1
    with xa.from_zarr(tmp_path / "z", path=tmp_path / "a") as a:
        assert a.dtype == zarr.open(tmp_path / "z").dtype and np.array_equal(a[...], x)
        xa.to_zarr(a, tmp_path / "copy", compressors=None, zarr_format=zarr_format)
    assert np.array_equal(zarr.open(tmp_path / "copy")[...], x)
    parts = [f for f in (tmp_path / "z").rglob("*") if f.name[-1].isdigit() and f.is_file()]
    os.truncate(parts[0], 100)
    with pytest.raises(errors.FormatError):
        xa.from_zarr(tmp_path / "z")
