"""Stores of Zarr 2 and 3 made by zarr-python: codecs, keys, orders, shards, stores."""

from __future__ import annotations

import numpy as np
import pytest
from compare import same_values

import extarray as xa

zarr = pytest.importorskip("zarr")

X = np.random.default_rng(0).integers(0, 100, (13, 17))

pytestmark = [
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
    pytest.mark.filterwarnings("ignore:.*Zarr format 3 spec.*"),
    pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification.*"),
]


def agrees(store, made, **options):
    """Require that we and zarr read the same, and that zarr reads our copy alike."""
    want = np.asarray(made[...])
    a = xa.from_zarr(store)
    assert (a.dtype.newbyteorder("="), a.shape) == (want.dtype.newbyteorder("="), want.shape)
    assert same_values(a[...].astype(want.dtype), want)
    copy = store.with_name("copy.zarr")
    xa.to_zarr(a, copy, **options)
    again = zarr.open_array(copy, mode="r")
    assert same_values(np.asarray(again[...]).astype(want.dtype), want)
    assert {k: v for k, v in again.attrs.items() if k != "_ARRAY_DIMENSIONS"} == dict(made.attrs)
    return a


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store.zarr"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u8", ">i4", ">f8", "f2", "c16", "M8[ns]", "m8[s]", "M8[D]", "S3", "U2"]
)
@pytest.mark.parametrize("packed", [True, False])
def test_types(store, version, dtype, packed):
    options = {} if packed else {"compressors": None}
    x = (X.astype("i8") if dtype[0] in "mM" else X).astype(dtype)
    made = zarr.create_array(store, data=x, chunks=(5, 6), zarr_format=version, **options)
    agrees(store, made, zarr_format=version)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((7, 5), {"chunks": (3, 5), "fill_value": np.nan, "dtype": "f4"}),
        ((7, 5), {"chunks": (3, 5), "fill_value": 9, "dtype": "i4"}),
        ((0, 5), {"chunks": (1, 5), "dtype": "f4"}),
        ((), {"dtype": "f8", "fill_value": 2.5}),
        ((3,), {"chunks": (2,), "dtype": [("a", "i4"), ("b", "f8")]}),
        ((4, 4), {"chunks": (9, 9), "dtype": "u1"}),
    ],
    ids=["nan", "nine", "empty", "scalar", "records", "a chunk that is larger"],
)
def test_what_was_never_written(store, version, shape, options):
    dtype = np.dtype(options["dtype"])
    given = {**options, "dtype": dtype, "shape": shape, "zarr_format": version}
    made = zarr.create_array(store, **given)
    a = agrees(store, made, zarr_format=version)
    fill = options.get("fill_value", np.zeros((), dtype)[()])
    assert same_values(np.asarray(a.fill_value), np.asarray(fill, dtype))


def codecs_of_2():
    numcodecs = pytest.importorskip("numcodecs")
    return {
        "F": {"order": "F"},
        "F, plain": {"order": "F", "compressors": None},
        "slashes": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
        "dots": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
        "delta": {"filters": [numcodecs.Delta("i4")]},
        "zlib": {"compressors": numcodecs.Zlib(3)},
        "shuffled": {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.LZ4()},
    }


@pytest.mark.parametrize("name", ["F", "F, plain", "slashes", "dots", "delta", "zlib", "shuffled"])
def test_codecs_and_keys_of_zarr_2(store, name):
    options = codecs_of_2()[name]
    made = zarr.create_array(store, data=X.astype("i4"), chunks=(5, 6), zarr_format=2, **options)
    agrees(store, made)


def codecs_of_3():
    codecs = zarr.codecs
    return {
        "keys of Zarr 2": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
        "dots": {"chunk_key_encoding": {"name": "default", "separator": "."}, "compressors": None},
        "shards": {"shards": (10, 12)},
        "plain shards": {"shards": (10, 12), "compressors": None},
        "transposed": {"filters": [codecs.TransposeCodec(order=(1, 0))], "compressors": None},
        "sums": {"compressors": [codecs.Crc32cCodec()]},
        "gzip": {"compressors": [codecs.GzipCodec()]},
        "two": {"compressors": [codecs.GzipCodec(), codecs.Crc32cCodec()]},
        "big": {"serializer": codecs.BytesCodec(endian="big"), "compressors": None},
        "big, packed": {"serializer": codecs.BytesCodec(endian="big")},
    }


@pytest.mark.parametrize(
    "name",
    ["keys of Zarr 2", "dots", "shards", "plain shards", "transposed", "sums", "gzip", "two", "big"]
    + ["big, packed"],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_codecs_and_keys_of_zarr_3(store, name, sparse):
    """Unwritten chunks have no file, and no place in a shard."""
    options = codecs_of_3()[name]
    given = {"shape": X.shape, "dtype": "i4", "chunks": (5, 6), "zarr_format": 3, **options}
    made = zarr.create_array(store, fill_value=-1, **given)
    if sparse:
        made[6:9, 2:11] = X[6:9, 2:11]
    else:
        made[...] = X
    agrees(store, made)


@pytest.mark.parametrize("version", [2, 3])
def test_attributes(store, version):
    attrs = {"a": [1, {"b": None}], "n": None, "u": "ä", "t": True, "x": 1.5, "empty": {}}
    options = {"chunks": (5, 6), "zarr_format": version, "attributes": attrs}
    a = agrees(store, zarr.create_array(store, data=X, **options), zarr_format=version)
    assert {name: a.attrs[name] for name in attrs} == attrs


def test_names_of_some_axes(store):
    made = zarr.create_array(store, data=X, chunks=(5, 6), dimension_names=("y", None))
    assert agrees(store, made).dims[0] == "y"


@pytest.mark.parametrize("version", [2, 3])
def test_texts_of_variable_length_are_refused(store, version):
    zarr.create_array(store, shape=(3,), dtype=str, chunks=(2,), zarr_format=version)
    with pytest.raises(xa.DTypeError, match="no fixed size"):
        xa.from_zarr(store)


@pytest.mark.parametrize("version", [2, 3])
def test_groups_with_their_metadata_together(store, version):
    root = zarr.create_group(store, zarr_format=version)
    root.create_group("a/b")
    root["a/b"].create_array("x", data=X, chunks=(5, 6))
    root.create_array("y", data=X * 2, chunks=(13, 17))
    zarr.consolidate_metadata(store, zarr_format=version)
    assert same_values(xa.from_zarr(store, "a/b/x")[...], X)
    assert same_values(xa.from_zarr(root["y"])[...], X * 2)
    for name in ("a", "z", "a/b/x/0", "../store.zarr/y"):
        with pytest.raises(xa.ExtArrayError):
            xa.from_zarr(store, name)


@pytest.mark.parametrize("version", [2, 3])
def test_stores_that_are_no_folder(tmp_path, version):
    memory, options = zarr.storage.MemoryStore(), {"chunks": (5, 6), "zarr_format": version}
    assert same_values(xa.from_zarr(zarr.create_array(memory, data=X, **options))[...], X)
    assert same_values(xa.from_zarr(memory)[...], X)
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as packed:
        assert same_values(xa.from_zarr(zarr.create_array(packed, data=X, **options))[...], X)
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="r") as packed:
        assert same_values(xa.from_zarr(packed)[...], X)


def test_damaged_stores_are_refused(store):
    zarr.create_array(store, data=X, chunks=(13, 17), zarr_format=3)
    chunk, meta = store / "c" / "0" / "0", store / "zarr.json"
    whole, text = chunk.read_bytes(), meta.read_text()
    for data in (b"", whole[:-1], whole[: len(whole) // 2], b"\0" * len(whole)):
        chunk.write_bytes(data)
        with pytest.raises(xa.ExtArrayError):
            xa.from_zarr(store)
    chunk.write_bytes(whole)
    for bad in ("", "{", text.replace('"int64"', '"int65"'), text.replace("17", "-17", 1)):
        meta.write_text(bad)
        with pytest.raises(xa.ExtArrayError):
            xa.from_zarr(store)
    meta.write_text(text)
    assert same_values(xa.from_zarr(store)[...], X)
