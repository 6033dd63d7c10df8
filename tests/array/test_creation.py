"""create, zeros, ones, full, empty, from_array, copy; the choice of chunks; fill values."""

from __future__ import annotations

import math
import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases
from systems import needs_proc, needs_space_for_holes

import extarray as xa
from extarray.common import system
from extarray.common.limits import limits
from extarray.grid.chunking import choose_chunks


@pytest.fixture(params=["disk", "memory"])
def place(request, path):
    return path if request.param == "disk" else None


def test_every_property(path):
    options = {"dtype": ">u2", "chunks": (3, 4), "fill_value": 7, "order": "F", "attrs": {"a": 1}}
    with xa.create(path, shape=(5, 6), **options) as array:
        assert array.shape == (5, 6)
        assert array.dtype == np.dtype(">u2")
        assert (array.ndim, array.size, array.itemsize, array.nbytes) == (2, 30, 2, 60)
        assert array.chunks == (3, 4)
        assert array.grid == (2, 2)
        assert array.order == "F"
        assert array.fill_value == 7
        assert type(array.fill_value) is np.uint16
        assert array.mode == "r+"
        assert array.closed is False
        assert array.path == path
        assert dict(array.attrs) == {"a": 1}
        for name in ("shape", "dtype", "chunks", "grid", "order", "fill_value", "mode", "path"):
            with pytest.raises(AttributeError):
                setattr(array, name, None)
    assert array.closed is True
    with xa.open(path) as array:
        assert array.mode == "r"
        assert array.order == "F"
        assert array.fill_value == 7
        assert (array[...] == 7).all()


def test_in_memory():
    with xa.create(None, shape=(4, 3), dtype="f8") as array:
        assert isinstance(array, xa.ExtArray)
        assert array.path is None
        assert array.mode == "r+"
        array.extend(0, 10**5)
        array[-1] = 5
        assert array[-1].tolist() == [5, 5, 5]
        array.flush()


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (xa.zeros, 0),
        (xa.ones, 1),
        (lambda shape, **options: xa.full(shape, 2.5, **options), 2.5),
    ],
    ids=["zeros", "ones", "full"],
)
def test_values_go_on_with_growth(place, make, value):
    with make((2, 3), path=place, chunks=(2, 2), order="F") as array:
        assert array.dtype == np.float64
        assert array.fill_value == value
        assert array.order == "F"
        assert array.chunks == (2, 2)
        array.extend(1, 4)
        array.append(np.full((1, 7), 9.0))
        array.extend(0, 1)
        expected = np.full((4, 7), float(value))
        expected[2] = 9
        assert_same(array[...], expected)


def test_empty(place):
    with xa.empty((2, 3), "i2", path=place) as array:
        assert array.shape == (2, 3)
        assert array.dtype == np.int16
        array[...] = 3
        array.extend(0, 1)
        assert array[:2].tolist() == [[3] * 3] * 2


@pytest.mark.parametrize("make", [xa.zeros, xa.ones, xa.empty])
def test_numpys_arguments(make):
    with make(3, "i4") as array:
        assert array.shape == (3,)
        assert array.dtype == np.int32
    with make((), dtype=bool) as array:
        assert array.shape == ()
    with make([2, np.int64(3)]) as array:
        assert array.shape == (2, 3)


def test_full_takes_the_dtype_of_its_value():
    for value in (1, 2.5, True, 1j, np.float32(2), "abc", b"ab", np.datetime64("2001-01-01")):
        with xa.full((2,), value) as array:
            assert array.dtype == np.full((2,), value).dtype
            assert_same(array[...], np.full((2,), value))
    with xa.full((2,), 3.7, "i4") as array:
        assert_same(array[...], np.full((2,), 3.7, "i4"))


@given(case=cases(), chunks=st.none() | st.integers(1, 5))
def test_from_array(memory, case, chunks):
    values = sample(case.dtype, case.shape)[..., ::-1] if case.shape else sample(case.dtype, ())
    with xa.from_array(values, chunks=chunks) as array:
        assert_same(array[...], values.copy())
        assert array.dtype == case.dtype
        if chunks is not None:
            assert array.chunks == (chunks,) * values.ndim


def test_from_array_to_disk(path):
    values = sample("f4", (30, 40)).T
    with xa.from_array(values, path=path, chunks=(7, 9)) as array:
        array.append(values[:2])
    with xa.open(path) as array:
        assert_same(array[...], np.concatenate([values, values[:2]]))


@pytest.mark.parametrize("value", ["no", "", 2, None, [], np.array([True])])
@pytest.mark.parametrize("name", ["overwrite", "sparse", "checksum"])
def test_flags_are_true_or_false(path, name, value):
    xa.ones((2, 3), path=path).close()
    with pytest.raises(xa.ArgumentTypeError, match=f"{name} must be True or False, not"):
        xa.create(path, (3,), **{"overwrite": True, name: value})
    with xa.open(path) as array:
        assert array.sum() == 6


@pytest.mark.parametrize(
    "place, reason",
    [
        ("x.xmd.xta", "two suffixes"),
        ("x.xta.xta", "two suffixes"),
    ],
)
def test_paths_that_are_none(place, reason):
    for act in (lambda: xa.create(place, (3,)), lambda: xa.open(place)):
        with pytest.raises(xa.ArgumentError, match=reason):
            act()


@pytest.mark.parametrize("act", [lambda url: xa.create(url, (3,)), lambda url: xa.open(url, "r+")])
@pytest.mark.parametrize("url", ["s3://bucket/x", "file:///tmp/x", "https://me:pass@host/x?a=b"])
def test_nothing_is_written_at_a_url(url, act):
    if not url.startswith("file:"):
        pytest.importorskip("obstore")
    with pytest.raises(xa.ReadOnlyError, match="upload it") as found:
        act(url)
    assert "pass" not in str(found.value)


@needs_proc
def test_folders_in_which_no_file_can_be_made():
    with pytest.raises(FileNotFoundError, match="cannot create files in this folder"):
        xa.create("/proc/x", (3,))


@pytest.mark.parametrize("text", ["x.npy", b"x", Path("x.npy")])
def test_from_array_of_a_name(text):
    with pytest.raises(xa.ArgumentTypeError, match="open a file with its library first"):
        xa.from_array(text)


def test_from_array_of_a_mapping():
    with pytest.raises(xa.ArgumentTypeError, match="give one of its members"):
        xa.from_array({"a": np.ones(3)})


def test_from_array_of_what_is_no_array(place):
    with xa.from_array([[1, 2], [3, 4]], path=place) as array:
        assert_same(array[...], np.array([[1, 2], [3, 4]]))
    with xa.from_array(5.5) as array:
        assert_same(array[...], np.array(5.5))
    with pytest.raises(TypeError):
        xa.from_array([object()])


class Foreign:
    """A stand-in for h5py, zarr or netCDF4: shape, dtype and slices of limited size."""

    def __init__(self, values, limit):
        self.values, self.limit, self.shape, self.dtype = values, limit, values.shape, values.dtype

    def __getitem__(self, selection):
        part = self.values[selection]
        assert part.nbytes <= self.limit
        return part


@pytest.mark.parametrize("shape", [(50, 30), (0, 4), (1,), (), (7, 1, 9)])
def test_from_a_foreign_array_in_bounded_memory(shape):
    values = sample("f4", shape)
    with (
        xa.config.set(max_memory=400),
        xa.from_array(Foreign(values, 400), chunks=5 if len(shape) < 3 else 3) as array,
    ):
        assert_same(array[...], values)


@given(case=cases(), chunks=st.none() | st.integers(1, 5))
def test_copy(factory, case, chunks):
    with built(factory, case) as (array, model):
        array.attrs["a"] = [1]
        with array.copy(chunks=chunks) as copy:
            assert copy.path is None
            assert_same(copy[...], model.data)
            assert_same(copy.fill_value, array.fill_value)
            assert copy.order == array.order
            assert copy.chunks == (array.chunks if chunks is None else (chunks,) * array.ndim)
            assert dict(copy.attrs) == {"a": [1]}
            if array.size:
                assert copy.info()["segments"] == 1
                copy[...] = np.zeros((), case.dtype)
                assert_same(array[...], model.data)


def test_copy_to_disk_and_back(factory, path):
    with factory.array((5, 6), "u2", chunks=4) as array:
        array[...] = expected = sample("u2", (5, 6))
        with array.copy(path) as copy:
            assert copy.path == path
            assert copy.mode == "r+"
            assert_same(copy[...], expected)
        with pytest.raises(xa.ExistsError):
            array.copy(path)
    with xa.open(path) as reader, reader.copy() as again:
        assert_same(again[...], expected)
        again.append(expected)


@pytest.mark.parametrize("order", "CFZHAK")
def test_copy_in_an_order(factory, order):
    with factory.array((5, 6), "u2", chunks=4, order="F") as array:
        array[...] = expected = sample("u2", (5, 6))
        with array.copy(order=order) as copy:
            assert copy.order == ("F" if order in "AK" else order)
            assert_same(copy[...], expected)


@pytest.mark.parametrize("order", "CFAK")
def test_an_order_is_no_path_of_a_copy(tmp_path, monkeypatch, order):
    """As in ``ndarray.copy("F")``, "F" is an order; a file of this name needs a path."""
    monkeypatch.chdir(tmp_path)
    array = xa.zeros(3)
    with pytest.raises(xa.errors.ArgumentError, match=rf'order=\'{order}\'.*path="./{order}"'):
        array.copy(order)
    assert not any(tmp_path.iterdir())
    array.copy(f"./{order}").close()
    assert (tmp_path / f"{order}.xmd").exists()


def test_numpy_copies_into_memory():
    array = xa.from_array(sample("i4", (3, 4)))
    for got in (np.copy(array), np.copy(array, order="F"), np.array(array, order="F")):
        assert_same(np.ascontiguousarray(got), array[...])
    assert np.copy(array, order="F").flags.f_contiguous


# Chunks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "chunks", "expected"),
    [
        ((5, 6), 3, (3, 3)),
        ((5, 6), (3, 4), (3, 4)),
        ((5, 6), [np.int64(3), 4], (3, 4)),
        ((5, 6), (100, 1), (100, 1)),
        ((5,), np.uint8(2), (2,)),
        ((), (), ()),
        ((), 4, ()),
        ((0, 0), 7, (7, 7)),
    ],
)
def test_chunks_as_given(memory, shape, chunks, expected):
    with memory.array(shape, "u1", chunks=chunks) as array:
        assert array.chunks == expected
        array[...] = 1
        assert (array[...] == 1).all()


@given(
    shape=st.lists(st.sampled_from([0, 1, 2, 10, 100, 217, 5000, 10**6, 2**40]), max_size=6),
    itemsize=st.sampled_from([1, 2, 8, 16, 100, 5000]),
)
def test_chosen_chunks(shape, itemsize):
    """At most 1 MiB, at least 256 KiB unless the sides of the chunk leave no choice."""
    chunks = choose_chunks(tuple(shape), itemsize)
    total = math.prod(shape) * itemsize
    size = math.prod(chunks) * itemsize
    assert all(side >= 1 for side in chunks)
    assert size <= 2**20
    if shape and total > 2**20:
        assert size >= 2**17
    if len(shape) > 1 or itemsize <= 4096:
        for side, n in zip(chunks, shape, strict=True):
            if n < 2 and len(shape) <= 4 and not 0 < total < 2**17:
                assert side > 1, "an axis of length 0 or 1 is one that will grow"


@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 48, 217]), max_size=5),
    itemsize=st.sampled_from([1, 2, 8, 16, 100]),
)
def test_chosen_chunks_of_small_arrays(shape, itemsize):
    """One chunk of at most four times the array's size, or 1 KiB."""
    total = math.prod(shape) * itemsize
    if 4 * total <= 2**19:
        chunks = choose_chunks(tuple(shape), itemsize)
        assert all(side >= n for side, n in zip(chunks, shape, strict=True))
        assert math.prod(chunks) * itemsize <= max(4 * total, 1024)
        grows = [side for side, n in zip(chunks, shape, strict=True) if n == 1]
        assert not grows or max(grows) > 1, "an axis of length 1 is one that will grow"


def test_a_small_array_takes_little(path):
    with xa.create(path, (1, 48), "f8") as array:
        array[...] = 1
    assert os.path.getsize(f"{path}.xta") <= 4 * 384 + 32
    assert os.path.getsize(f"{path}.xmd") <= 16 << 10


@pytest.mark.parametrize("ndim", range(33))
def test_metadata_of_a_fresh_array_are_small(path, ndim):
    with xa.create(path, (2,) * ndim, "u1", chunks=1, sparse=True):
        assert os.path.getsize(f"{path}.xmd") <= 16 << 10


def test_chosen_chunks_are_balanced():
    for shape in [(4000,) * 2, (512,) * 3, (64,) * 4, (512, 217, 204)]:
        with xa.create(None, shape=shape, dtype="f4", sparse=True) as array:
            assert max(array.chunks) <= 4 * min(array.chunks)


def test_chosen_chunks_depend_on_nothing_else(path):
    shape = (300, 0, 1)
    with xa.create(path, shape=shape, dtype="f4") as array, xa.zeros(shape, "f4") as other:
        assert array.chunks == other.chunks


# Fill values -------------------------------------------------------------------------------------

FILLS = {
    "nan": ("f8", np.nan),
    "minus infinity": ("f4", -np.inf),
    "NaT": ("M8[s]", np.datetime64("NaT", "s")),
    "date text": ("M8[D]", "2001-02-03"),
    "duration": ("m8[h]", 5),
    "text": ("U4", "äb"),
    "text too long": ("S2", b"abc"),
    "true": ("?", True),
    "integer": (">i8", -(2**63)),
    "complex": ("c8", 1 + 2j),
    "cast": ("f4", 3),
    "tuple": ([("x", "i4"), ("y", "S2")], (3, b"z")),
    "sub-array": ([("x", "f4", (2,))], ([1, 2],)),
    "structured": ([("x", "i4")], np.array((5,), [("x", "i4")])),
    "0-d array": ("i4", np.array(6)),
}


@pytest.mark.parametrize(("dtype", "value"), FILLS.values(), ids=FILLS.keys())
@pytest.mark.parametrize("sparse", [False, True])
def test_fill_value(factory, dtype, value, sparse):
    expected = np.empty((3, 5), dtype)
    expected[...] = value
    with factory.array((2, 3), dtype, chunks=2, fill_value=value, sparse=sparse) as array:
        assert_same(array[...], expected[:2, :3])
        assert_same(array.fill_value, expected[0, 0])
        array.resize((3, 5))
        assert_same(array[...], expected)


def test_zero_by_default(memory):
    for dtype in ("i4", "S3", "U2", "M8[s]", "?", [("x", "f4")]):
        with memory.array((2,), dtype) as array:
            assert_same(array.fill_value, np.zeros((), dtype)[()])


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("dtype", ["g", "G", ">g", ">G", [("a", "i1"), ("b", "g", (2,))]], ids=str)
def test_zero_of_a_long_double_has_no_other_bytes(path, dtype):
    """NumPy leaves old memory in the padding of the number, which would get into the file."""
    long = np.longdouble(0)
    value = ((0, [long, long]),) if isinstance(dtype, list) else (long,)
    with xa.create(path, (2**20,), dtype, fill_value=value[0], sparse=True) as array:
        assert array.info()["disk_bytes"] < 2**20
    assert not any(xa.open(path)._store.now.header.fill)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("i4", "text"), ("u1", 300), ("u1", -1), ("f8", [1, 2]), ("i4", None), ("M8[s]", "never")],
)
def test_fill_values_that_cannot_be(dtype, value):
    with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
        xa.create(None, shape=(2,), dtype=dtype, fill_value=value)
    assert isinstance(caught.value, xa.ExtArrayError)
    assert "fill_value" in str(caught.value)


def test_sparse_takes_no_space(disk):
    for sparse, limit in ((True, 2**20), (False, 2**30)):
        with disk.array((2**22,), "u1", chunks=2**16, sparse=sparse) as array:
            info = array.info()
            assert info["sparse"] is sparse
            assert info["file_bytes"] >= 2**22
            assert info["disk_bytes"] < limit
            assert sparse or info["disk_bytes"] >= 2**22


@needs_space_for_holes
def test_elements_here_and_there_take_space_for_their_chunks_alone(disk):
    places = np.arange(30) * 2**23 + 5
    with disk.array((2**28,), "u1", chunks=2**16, sparse=True) as array:
        before = array.info()["disk_bytes"]
        array[places] = 7
        for first in (places[:10] + 2**22).tolist():
            array.chunk((first // 2**16,))[...] = 7
        assert array.info()["disk_bytes"] - before <= 40 * (2**16 + 2 * 2**12)


# Description -------------------------------------------------------------------------------------


def test_info(factory):
    options = {"chunks": (2, 2), "fill_value": 3, "order": "F", "sparse": False}
    with factory.array((3, 5), "i4", **options) as array:
        array.extend(1, 4)
        array.extend(0, 2)
        info = array.info()
        assert isinstance(info, dict)
        expected = {
            "path": str(array.path) if factory.on_disk else None,
            "shape": (5, 9),
            "dtype": array.dtype,
            "chunks": (2, 2),
            "grid": (3, 5),
            "origin": (0, 0),
            "offset": (0, 0),
            "order": "F",
            "fill_value": 3,
            "engine": factory.engine,
            "mode": "r+",
            "segments": 3,
            "records": (2, 1),
            "logical_bytes": 5 * 9 * 4,
            "allocated_bytes": 15 * 16,
            "utilisation": 45 / 60,
        }
        if factory.on_disk:
            metadata, data = (Path(f"{array.path}{suffix}").stat() for suffix in (".xmd", ".xta"))
            expected |= {
                "sparse": False,
                "file_bytes": data.st_size,
                "disk_bytes": system.disk_bytes(data, f"{array.path}.xta"),
                "metadata_bytes": metadata.st_size,
            }
            assert len(bytes.fromhex(info["uuid"])) == 16
        else:
            expected |= {"file_bytes": 0, "disk_bytes": 0, "metadata_bytes": 0}
        assert {key: info[key] for key in expected} == expected
        table = str(info)
        for text in ("(5, 9)", "segments", "75.0 %", "allocated"):
            assert text in table


def test_repr(factory):
    with factory.array((3, 5), ">i4", chunks=(2, 2)) as array:
        text = repr(array)
        assert "ExtArray" in text
        assert "(3, 5)" in text
        assert ">i4" in text or "int32" in text
        if factory.on_disk:
            assert array.path.name in text
        array.close()
        assert "closed" in repr(array)


@pytest.mark.parametrize("chunks", [np.int64(2), np.array(2)])
def test_one_extent_of_a_chunk_serves_all_axes(chunks):
    assert xa.zeros((5, 6), chunks=chunks).chunks == (2, 2)


def test_from_array_tells_how_far_it_has_come(monkeypatch):
    class Blocks:
        """A source that gives elements block by block, as other libraries do."""

        shape, dtype = (64, 64), np.dtype("f8")

        def __getitem__(self, key):
            return np.ones(self.shape)[key]

    monkeypatch.setattr(limits, "progress_bytes", 1 << 13)
    ours = xa.ones((64, 64), chunks=16)
    memory = np.ones((64, 64)), ours.astype("i4"), np.ma.ones((64, 64))
    for source in (Blocks(), ours, xa.ones((64, 64)).lazy[:, ::-1], *memory):
        told = Mock()
        with xa.config.set(max_memory=1 << 14):
            made = xa.from_array(source, chunks=16, progress=told)
        assert (made[...] == 1).all()
        done = [call.args for call in told.call_args_list]
        assert done == sorted(done)
        assert len(done) > 1
        assert {total for _, total in done} == {made.nbytes} == {done[-1][0]}
    with pytest.raises(xa.ArgumentTypeError, match="progress must be True"):
        xa.from_array([1.0], progress="loud")
