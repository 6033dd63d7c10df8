"""Elements from objects that can be sliced: read block by block, all or nothing."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa


class Sliced:
    """A stand-in for a library's dataset; it records the reads."""

    def __init__(self, x, chunks=None, fails_at=None):
        self.x = np.asarray(x)
        self.shape, self.dtype = self.x.shape, self.x.dtype
        if chunks is not None:
            self.chunks = chunks
        self.fails_at = fails_at
        self.read = []

    def __getitem__(self, key):
        if len(self.read) == self.fails_at:
            raise OSError("no more")
        self.read.append(key)
        return self.x[key]


@pytest.mark.parametrize("axis", [0, 1])
def test_append_reads_blocks(factory, axis):
    x = np.arange(60.0).reshape(6, 10)
    source = Sliced(x)
    with factory.array((6, 10), chunks=(2, 2)) as a, xa.config.set(max_memory=64):
        a[...] = -x
        a.append(source, axis)
        np.testing.assert_array_equal(a[...], np.concatenate([-x, x], axis))
    assert len(source.read) > 1
    assert max(x[key].nbytes for key in source.read) <= 64


@pytest.mark.parametrize("chunks", [(3, 5), ((3, 3), (5, 5))])
def test_blocks_are_those_of_the_source(chunks):
    x = np.arange(60.0).reshape(6, 10)
    for take in (lambda s: xa.from_array(s, chunks=(2, 2)), lambda s: empty(s).append(s)):
        source = Sliced(x, chunks)
        with xa.config.set(max_memory=8 * 15):
            take(source)
        read = [k for k in source.read if k != np.s_[0:1, 0:1]]  # one element is read for the dtype
        assert [(k[0].start, k[1].start) for k in read] == [(0, 0), (0, 5), (3, 0), (3, 5)]


def empty(source):
    return xa.zeros((0, *source.shape[1:]), source.dtype, chunks=(2, 2))


@pytest.mark.parametrize("chunks", [None, (3,), (0, 5), "auto", ((), ())])
def test_chunks_that_say_nothing(chunks):
    x = np.arange(60.0).reshape(6, 10)
    a = empty(x)
    a.append(Sliced(x, chunks))
    np.testing.assert_array_equal(a[...], x)


def test_a_source_that_fails_changes_nothing(factory):
    x = np.arange(60.0).reshape(6, 10)
    with factory.array((6, 10), chunks=(4, 4)) as a, xa.config.set(max_memory=64):
        a[...] = x
        with pytest.raises(OSError, match="no more"):
            a.append(Sliced(x, fails_at=3))
        np.testing.assert_array_equal(a[...], x)
        a.extend(0, 6)
        assert not a[6:].any()


def test_a_source_that_gives_another_shape():
    source = Sliced(np.ones((6, 10)))
    source.x = source.x[:, :3]
    a = xa.zeros((6, 10))
    with pytest.raises(xa.ShapeError, match="returned shape"):
        a.append(source)
    assert a.shape == (6, 10)


class Meddler(Sliced):
    """Changes the array while it is being appended to it."""

    def __init__(self, act):
        super().__init__(np.ones((2, 3)))
        self.act = act

    def __getitem__(self, key):
        self.act()
        return super().__getitem__(key)


def test_an_array_does_not_grow_within_an_append(factory):
    with factory.array((2, 3), chunks=(2, 2)) as a:
        with pytest.raises(xa.ArgumentError, match="during an append"):
            a.append(Meddler(lambda: a.extend(1, 1)))
        assert a.shape == (2, 3)
        a.append(np.ones((2, 3)))
        assert a.shape == (4, 3)


def test_an_array_that_is_closed_within_an_append(disk):
    a = disk.create((3, 3), chunks=(2, 2))
    a[...] = 7
    with pytest.raises(xa.ClosedError):
        a.append(Meddler(a.close))
    with disk.open(a, "r+") as again:
        assert again.shape == (3, 3)
        again.extend(0, 2)
        assert (again[:3] == 7).all()
        assert not again[3:].any()


def test_from_array_takes_the_options_of_create(path):
    source = Sliced(np.ones((2, 3)))
    options = {"fill_value": 5, "attrs": {"unit": "K"}, "dims": ("y", "x"), "overwrite": True}
    for _ in range(2):
        with xa.from_array(source, path, **options) as a:
            a.extend(0, 1)
            np.testing.assert_array_equal(a[...], [[1] * 3, [1] * 3, [5] * 3])
            assert dict(a.attrs) == {"unit": "K", "dims": ["y", "x"]}


# -- properties of datasets -----------------------------------------------------------------------


@pytest.fixture
def hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        yield file


def test_a_dataset_of_h5py_keeps_what_it_says(hdf5, place):
    x = np.arange(60, dtype="f4").reshape(10, 6)
    dataset = hdf5.create_dataset("t", data=x, chunks=(4, 3), fillvalue=-9)
    dataset.attrs.update({"unit": "K", "levels": np.arange(3, dtype="i2"), "scale": np.float32(2)})
    dataset.attrs["other"] = dataset.ref  # attributes cannot hold references
    dataset.dims[0].label = "time"
    hdf5["band"] = np.arange(6)
    hdf5["band"].make_scale()
    dataset.dims[1].attach_scale(hdf5["band"])
    with xa.from_array(dataset, place / "a") as a:
        np.testing.assert_array_equal(a[...], x)
        assert (a.chunks, a.fill_value, a.dims) == ((4, 3), -9, ("time", "band"))
        assert a.attrs["unit"] == "K"
        assert a.attrs["scale"] == 2
        assert a.attrs["levels"].dtype == np.int16
        assert set(a.attrs) == {"unit", "levels", "scale", "dims"}
        a.extend("time", 1)
        assert (a[10] == -9).all()
    options = {"chunks": (5, 6), "fill_value": 1, "attrs": {}, "dims": ("a", "b")}
    with xa.from_array(dataset, place / "a", overwrite=True, **options) as a:
        assert (a.chunks, a.fill_value, a.dims) == ((5, 6), 1, ("a", "b"))
        assert set(a.attrs) == {"dims"}


def test_a_dataset_without_chunks_and_names(hdf5):
    x = np.arange(60).reshape(10, 6)
    hdf5["t"] = x
    hdf5["t"].dims[0].label = "time"  # the other axis stays unnamed
    a, b = xa.from_array(hdf5["t"]), xa.from_array(x)
    assert (a.chunks, a.fill_value, a.dims, dict(a.attrs)) == (b.chunks, 0, None, {})
    large = hdf5.create_dataset("large", (100, 100), "f8", chunks=(100, 100))
    with xa.config.set(max_memory=8 * 100 * 99):
        assert xa.from_array(large).chunks == xa.zeros((100, 100)).chunks


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_of_zarr_keeps_what_it_says(tmp_path, place, version):
    zarr = pytest.importorskip("zarr")
    names = {"dimension_names": ("y", "x")} if version == 3 else {}
    z = zarr.create_array(
        tmp_path / "z",
        shape=(10, 6),
        dtype="i4",
        chunks=(4, 3),
        fill_value=7,
        zarr_format=version,
        **names,
    )
    z.attrs["unit"] = "K"
    if version == 2:
        z.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    with xa.from_array(z, place / "a") as a:
        assert (a.chunks, a.fill_value, a.dims) == ((4, 3), 7, ("y", "x"))
        assert dict(a.attrs) == {"unit": "K", "dims": ["y", "x"]}
        assert (a[...] == 7).all()
