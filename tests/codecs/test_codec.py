"""Codecs as users name them."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import extarray as xa
from extarray import Codec
from extarray.codecs.codec import CodecId, FilterId

h5py = pytest.importorskip("h5py")
numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr")

ALL = [
    Codec("zstd"),
    Codec("zstd", level=-3),
    Codec("zstd", level=5, filter="auto"),
    Codec("lz4", filter="bitshuffle"),
    Codec("zlib", 9, "shuffle"),
]


@pytest.mark.parametrize("codec", ALL, ids=str)
def test_repr_str_and_pickle_give_it_back(codec):
    assert eval(repr(codec), {"Codec": Codec}) == codec
    assert Codec.parse(str(codec)) == codec
    for found in (pickle.loads(pickle.dumps(codec)), copy.deepcopy(codec), Codec.parse(codec)):
        assert found == codec and hash(found) == hash(codec)


def test_codecs_do_not_change():
    with pytest.raises(AttributeError):
        Codec("zstd").level = 3


def named(value):
    return value if isinstance(value, str) else None


def hdf5(number, *options):
    """A filter as hdf5plugin's classes describe themselves."""
    return SimpleNamespace(filter_id=number, filter_options=options)


@pytest.mark.parametrize(
    "given, expected",
    [
        (None, None),
        ("zstd", Codec("zstd")),
        ("zstd:3", Codec("zstd", 3)),
        ("zstd:shuffle:3", Codec("zstd", 3, "shuffle")),
        ("lz4", Codec("lz4")),
        ("auto", Codec("zstd", filter="auto")),
        ("auto:5", Codec("zstd", 5, "auto")),
        ("gzip", Codec("zlib")),
        (4, Codec("zlib", 4)),
        (np.int64(4), Codec("zlib", 4)),
        (h5py.filters.Gzip(5), Codec("zlib", 5)),
        (hdf5(32015, 7), Codec("zstd", 7)),
        (hdf5(32004, 0), Codec("lz4")),
        (hdf5(32001, 0, 0, 0, 0, 5, 1, 5), Codec("zstd", 5, "shuffle")),
        (hdf5(32026, 0, 0, 0, 0, 5, 2, 1), Codec("lz4", filter="bitshuffle")),
        (hdf5(32008, 0, 3, 6), Codec("zstd", 6, "bitshuffle")),
        (hdf5(32008, 0, 2), Codec("lz4", filter="bitshuffle")),
        (zarr.codecs.ZstdCodec(level=2), Codec("zstd", 2)),
        ([zarr.codecs.GzipCodec(level=3)], Codec("zlib", 3)),
        (
            zarr.codecs.BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle"),
            Codec("zstd", 3, "bitshuffle"),
        ),
        (zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"), Codec("lz4", filter="shuffle")),
        (zarr.codecs.BloscCodec(cname="zlib", shuffle="noshuffle"), Codec("zlib", 5)),
        (numcodecs.Zstd(level=4), Codec("zstd", 4)),
        (numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE), Codec("lz4", filter="shuffle")),
        (numcodecs.LZ4(), Codec("lz4")),
        ({"name": "zstd", "configuration": {"level": 0, "checksum": False}}, Codec("zstd", 0)),
    ],
    ids=named,
)
def test_what_users_of_other_libraries_give_is_translated(given, expected):
    assert Codec.parse(given) == expected


@pytest.mark.parametrize(
    "given, error, match",
    [
        ("lzf", xa.errors.ArgumentError, "no codec 'lzf'; possible are 'auto', 'zstd', 'lz4'"),
        ("zstd:delta", xa.errors.ArgumentError, "no filter 'delta'; possible are None, 'shuffle'"),
        ("zstd:3:4", xa.errors.ArgumentError, "two levels"),
        ("zstd:auto:shuffle", xa.errors.ArgumentError, "two filters"),
        ("zstd:23", xa.errors.ArgumentError, "'zstd' has the levels -7 to 22, not 23"),
        ("lz4:0", xa.errors.ArgumentError, "'lz4' has the levels 1 to 12, not 0"),
        (11, xa.errors.ArgumentError, "'zlib' has the levels 0 to 9, not 11"),
        (True, xa.errors.ArgumentTypeError, "compression=True is no codec"),
        (1.5, xa.errors.ArgumentTypeError, "compression=1.5 is no codec"),
        (["zstd", "lz4"], xa.errors.ArgumentError, "2 are given"),
        (hdf5(32000), xa.errors.ArgumentError, "no codec for HDF5's filter 32000"),
        (numcodecs.BZ2(), xa.errors.ArgumentError, "no codec for zarr's 'bz2'"),
        ({}, xa.errors.ArgumentError, "no codec for zarr's 'None'"),
    ],
    ids=named,
)
def test_what_has_no_equal_is_refused(given, error, match):
    with pytest.raises(error, match=match):
        Codec.parse(given)


def test_arguments_of_other_types_are_refused():
    with pytest.raises(xa.errors.ArgumentTypeError, match="named by a str"):
        Codec(3)
    for level in ("3", True, np.True_, 3.0, np.arange(3)):
        with pytest.raises(xa.errors.ArgumentTypeError, match="level of a codec must be an int"):
            Codec("zstd", level)
    assert Codec("zstd", np.int16(3)) == Codec("zstd", 3)


def test_numbers_of_the_format():
    assert [(int(i), i.name) for i in CodecId] == [
        (0, "RAW"), (1, "CONSTANT"), (2, "ZSTD"), (3, "LZ4"), (5, "ZLIB"), (65535, "NAMED"),
    ]  # fmt: skip
    assert [(int(i), i.name) for i in FilterId] == [(0, "NONE"), (1, "SHUFFLE"), (2, "BITSHUFFLE")]
    assert Codec("zlib").id == 5 and Codec("zlib").filter_id == 0
    assert Codec("auto").filter_id is None
