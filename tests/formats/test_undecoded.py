"""Compressed chunks that go between files of other formats and arrays as they are."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import extarray as xa
from extarray.errors import ChecksumError, FormatError
from extarray.format.blobs import FILL
from extarray.formats.undecoded import left_of

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
pytest.importorskip("lz4")  # of the extra that has zstd, too
numcodecs = pytest.importorskip("numcodecs")

CHUNKS = (16, 24)
SHAPE = (50, 70)  # cut chunks along both axes
GRID = [(i, j) for i in range(4) for j in range(3)]
WHOLE = [(i, j) for i, j in GRID if i < 3 and j < 2]
X = np.cumsum(np.random.default_rng(3).integers(-4, 5, SHAPE), axis=0).astype("f4")
# As no encoder here does it unasked, so the same bytes were not encoded anew.
LEVEL = 9


def of_array(a, index):
    """Return the payload of a chunk of an array; None: raw, or the fill value."""
    blobs = a._store.now.frozen or a._store.blobs
    first = np.array(a._store.now.state.offset) // a.chunks
    address = a.axial.addresses((first + index).reshape(1, -1))[0]
    found = blobs.payload(int(address))
    return None if found is None else bytes(found.payload)


def of_hdf5(dataset, index):
    mask, payload = dataset.id.read_direct_chunk(
        tuple(i * c for i, c in zip(index, dataset.chunks, strict=True))
    )
    assert not mask
    return payload


def of_zarr(array, index):
    place = array.store_path / array.metadata.encode_chunk_key(index)
    return zarr.core.sync.sync(place.get()).to_bytes()


def imported(how, *args, **options):
    """Import with the chunks of the file, though they are small."""
    return how(*args, **{"chunks": CHUNKS, **options})


def grows(a, x):
    """Require that an array has some elements, also in its files, and grows like any other."""
    path, more = a.path, np.full((5, 6), 3, x.dtype)
    with a:
        np.testing.assert_array_equal(a[...], x)
        a.append(x[:3])
        a.extend(1, 40)
        a[20:25, 10:16] = more
    want = np.full((SHAPE[0] + 3, SHAPE[1] + 40), 0, x.dtype)
    want[:, : SHAPE[1]] = np.concatenate([x, x[:3]])
    want[20:25, 10:16] = more
    with xa.open(path, verify="read") as a:
        np.testing.assert_array_equal(a[...], want)
    assert xa.check(path).ok


# -- HDF5 ------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.h5"


def make(file, x=X, level=LEVEL, **options):
    options = {"compression": "gzip", "compression_opts": level, "chunks": CHUNKS, **options}
    with h5py.File(file, "w") as f:
        f.create_dataset("x", data=x, **options)


@pytest.mark.parametrize("kind", ["<f4", ">f8", "i2", "u1", "?", "c8"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_chunks_of_hdf5_are_taken_over(file, tmp_path, kind, shuffle):
    x = X.astype(kind)
    make(file, x, shuffle=shuffle)
    asked = "gzip:shuffle" if shuffle else "gzip"
    a = imported(xa.from_hdf5, file, "x", path=tmp_path / "a", compression=asked)
    assert a.dtype == x.dtype
    with h5py.File(file) as f:
        assert [of_array(a, index) for index in GRID] == [of_hdf5(f["x"], i) for i in GRID]
    grows(a, x)


def test_a_filter_that_is_free_agrees_with_any(file, tmp_path):
    make(file, shuffle=True)
    codec = xa.Codec("zlib", 1, "auto")
    with (
        imported(xa.from_hdf5, file, "x", path=tmp_path / "a", compression=codec) as a,
        h5py.File(file) as f,
    ):
        assert all(of_array(a, index) == of_hdf5(f["x"], index) for index in GRID)


def test_zstd_of_hdf5_needs_no_plugin(file, tmp_path):
    codec = numcodecs.Zstd(LEVEL)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(CHUNKS)
    properties.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (LEVEL,))
    x = X[:48, :48]
    with h5py.File(file, "w") as f:
        space = h5py.h5s.create_simple(x.shape)
        made = h5py.h5d.create(f.id, b"x", h5py.h5t.NATIVE_FLOAT, space, properties)
        for i in range(0, 48, CHUNKS[0]):
            for j in range(0, 48, CHUNKS[1]):
                chunk = np.ascontiguousarray(x[i : i + CHUNKS[0], j : j + CHUNKS[1]])
                made.write_direct_chunk((i, j), codec.encode(chunk))
        with imported(xa.from_hdf5, f, "x", path=tmp_path / "a", compression="zstd") as a:
            np.testing.assert_array_equal(a[...], x)
            assert of_array(a, (1, 1)) == of_hdf5(f["x"], (1, 1))


def test_chunks_of_netcdf_are_taken_over(tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    with netcdf.Dataset(file, "w") as f:
        for name, n in zip("yx", SHAPE, strict=True):
            f.createDimension(name, n)
        options = {"compression": "zlib", "complevel": LEVEL, "shuffle": True}
        made = f.createVariable("v", "f4", ("y", "x"), chunksizes=CHUNKS, fill_value=0, **options)
        made[...] = X
    with h5py.File(file) as f:
        stored = [of_hdf5(f["v"], index) for index in GRID]
    a = imported(xa.from_netcdf, file, "v", path=tmp_path / "a", compression="zlib:shuffle")
    assert [of_array(a, index) for index in GRID] == stored
    grows(a, X)


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ({"shuffle": True}, {"compression": "zlib"}),
        ({}, {"compression": "zlib:shuffle"}),
        ({}, {"compression": "zstd"}),
        ({}, {"compression": "zlib", "chunks": (8, 24)}),
        ({"fletcher32": True}, {"compression": "zlib"}),
        ({}, {"compression": "zlib", "significant_bits": 23}),
        ({"compression": "lzf", "compression_opts": None}, {"compression": "zlib"}),
    ],
)
def test_what_does_not_agree_is_encoded(file, tmp_path, stored, asked):
    make(file, **stored)
    with (
        imported(xa.from_hdf5, file, "x", path=tmp_path / "a", **asked) as a,
        h5py.File(file) as f,
    ):
        np.testing.assert_array_equal(a[...], X)
        assert str(a._store.now.frozen.codec) == asked["compression"]
        assert of_array(a, (0, 0)) not in (None, of_hdf5(f["x"], (0, 0)))


def test_unpacked_numbers_are_encoded(file, tmp_path):
    make(file, X.astype("i2"))
    with h5py.File(file, "r+") as f:
        f["x"].attrs["scale_factor"] = np.float32(0.5)
    path = tmp_path / "a"
    with imported(xa.from_hdf5, file, "x", path=path, compression="zlib", mask_and_scale=True) as a:
        np.testing.assert_array_equal(a[...], X / 2)


def test_chunks_never_written_have_the_fill_value(file, tmp_path):
    with h5py.File(file, "w") as f:
        made = f.create_dataset("x", SHAPE, "f4", chunks=CHUNKS, compression="gzip", fillvalue=7)
        made[:16, :24] = X[:16, :24]
        made[16:32, :24] = 7  # written, but of the fill value
        want = made[...]
    with imported(xa.from_hdf5, file, "x", path=tmp_path / "a", compression="zlib") as a:
        np.testing.assert_array_equal(a[...], want)
        words = a._store.now.frozen.entries(np.arange(a.axial.size))
        assert (words == FILL).sum() == len(GRID) - 1


def test_what_lies_outside_the_bounds_does_not_show_when_they_move(file, tmp_path):
    make(file)
    dirty = np.full(CHUNKS, 9, "f4")
    with h5py.File(file, "r+") as f:
        f["x"].id.write_direct_chunk((0, 48), zlib.compress(dirty.tobytes()))
        want = f["x"][...]
    a = imported(xa.from_hdf5, file, "x", path=tmp_path / "a", compression="zlib")
    grows(a, want)


def test_damaged_chunks_are_not_taken_over(file, tmp_path):
    make(file)
    with h5py.File(file, "r+") as f:
        payload = bytearray(of_hdf5(f["x"], (1, 1)))
        payload[len(payload) // 2] ^= 0xFF
        f["x"].id.write_direct_chunk((16, 24), bytes(payload))
        with pytest.raises(OSError, match="filter"):
            f["x"][...]
    with pytest.raises(FormatError):
        imported(xa.from_hdf5, file, "x", path=tmp_path / "a", compression="zlib")
    assert [p.name for p in tmp_path.iterdir()] == ["file.h5"]


def test_payloads_that_only_their_library_reads_are_encoded(file, tmp_path):
    make(file)
    with h5py.File(file, "r+") as f:
        longer = of_hdf5(f["x"], (1, 1)) + bytes(7)  # HDF5 does not look at what follows a stream
        f["x"].id.write_direct_chunk((16, 24), longer)
        f["x"].id.write_direct_chunk((0, 0), X[:16, :24].tobytes(), filter_mask=1)
        np.testing.assert_array_equal(f["x"][...], X)
        with imported(xa.from_hdf5, f["x"], path=tmp_path / "a", compression="zlib") as a:
            np.testing.assert_array_equal(a[...], X)
            assert of_array(a, (2, 1)) == of_hdf5(f["x"], (2, 1))


def test_what_would_hardly_shrink_stays_raw(file, tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (32, 48), np.uint8)
    x[16:, :24] = 5
    make(file, x)
    with imported(xa.from_hdf5, file, "x", path=tmp_path / "a", compression="zlib") as a:
        np.testing.assert_array_equal(a[...], x)
        assert of_array(a, (0, 0)) == x[:16, :24].tobytes()
        assert of_array(a, (1, 0)) == b"\5"


# -- Zarr ------------------------------------------------------------------------------------------

ZSTD, ZLIB = numcodecs.Zstd(LEVEL), numcodecs.Zlib(LEVEL)
OF_ZARR = {
    "3, zstd": ("zstd", lambda: {"compressors": zarr.codecs.ZstdCodec(level=LEVEL)}),
    "3, zstd with checksum": (
        "zstd",
        lambda: {"compressors": zarr.codecs.ZstdCodec(level=LEVEL, checksum=True)},
    ),
    "3, shuffle": (
        "zlib:shuffle",
        lambda: {
            "compressors": [
                zarr.codecs.numcodecs.Shuffle(elementsize=4),
                zarr.codecs.numcodecs.Zlib(level=LEVEL),
            ]
        },
    ),
    "2, zlib": ("zlib", lambda: {"zarr_format": 2, "compressors": ZLIB}),
    "2, shuffle": (
        "zstd:auto",
        lambda: {"zarr_format": 2, "filters": [numcodecs.Shuffle(4)], "compressors": ZSTD},
    ),
}


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
@pytest.mark.parametrize("case", OF_ZARR)
@pytest.mark.parametrize("kind", ["<f4", ">i4"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_chunks_of_zarr_are_taken_over(tmp_path, case, kind, in_memory):
    asked, options = OF_ZARR[case]
    x = X.astype(kind)
    store = zarr.storage.MemoryStore() if in_memory else tmp_path / "s.zarr"
    z = zarr.create_array(store, shape=SHAPE, dtype=kind, chunks=CHUNKS, **options())
    z[...] = x
    a = imported(xa.from_zarr, store, path=tmp_path / "a", compression=asked)
    assert all(of_array(a, index) == of_zarr(z, index) for index in GRID)
    grows(a, x)


@pytest.mark.parametrize(
    "options",
    [
        {"compressors": zarr.codecs.GzipCodec(level=LEVEL)},
        {"compressors": [zarr.codecs.ZstdCodec(level=LEVEL), zarr.codecs.Crc32cCodec()]},
        {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
        {"shards": (32, 48)},
        {"zarr_format": 2, "order": "F", "compressors": ZSTD},
        {"zarr_format": 2, "filters": [numcodecs.Delta("f4")], "compressors": ZSTD},
        {"zarr_format": 2, "filters": [numcodecs.Shuffle(8)], "compressors": ZSTD},
    ],
    ids=["gzip", "crc32c", "transposed", "shards", "order F", "delta", "other elements"],
)
def test_what_does_not_agree_in_zarr_is_encoded(tmp_path, options):
    store = tmp_path / "s.zarr"
    z = zarr.create_array(store, shape=SHAPE, dtype="f4", chunks=CHUNKS, **options)
    z[...] = X
    for asked in ("zlib", "zstd:auto"):
        with imported(
            xa.from_zarr, store, path=tmp_path / "a", compression=asked, overwrite=True
        ) as a:
            np.testing.assert_array_equal(a[...], X)


def test_a_chunk_of_zarr_that_lost_its_end(tmp_path):
    store = tmp_path / "s.zarr"
    z = zarr.create_array(
        store, shape=SHAPE, dtype="f4", chunks=CHUNKS, compressors=zarr.codecs.ZstdCodec()
    )
    z[...] = X
    name = store / z.metadata.encode_chunk_key((1, 1))
    name.write_bytes(name.read_bytes()[:-3])
    with pytest.raises(FormatError):
        imported(xa.from_zarr, store, path=tmp_path / "a", compression="zstd")
    assert not list(tmp_path.glob("a*"))


# -- given back ------------------------------------------------------------------------------------


@pytest.fixture(params=["pair", "pack"])
def source(request, tmp_path):
    codec = "zlib:9:shuffle"
    with xa.from_array(X, tmp_path / "a", CHUNKS, compression=codec, dims=("y", "x")) as a:
        if request.param == "pack":
            xa.pack(a, tmp_path / "a.xap", compression=codec)
    with xa.open(tmp_path / ("a.xap" if request.param == "pack" else "a")) as a:
        yield a


def test_chunks_are_given_back_to_hdf5(source, file):
    xa.to_hdf5(source, file, "x", compression="gzip", compression_opts=1, shuffle=True)
    with h5py.File(file, "r+") as f:
        np.testing.assert_array_equal(f["x"][...], X)
        assert all(of_hdf5(f["x"], index) == of_array(source, index) for index in WHOLE)
        f["x"].resize((60, 90))
        assert not f["x"][50:].any() and not f["x"][:, 70:].any()


@pytest.mark.parametrize("unlimited", [None, "y"])
def test_chunks_are_given_back_to_netcdf(source, tmp_path, unlimited):
    netcdf = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    options = {"compression": "zlib", "complevel": 1, "shuffle": True}
    xa.to_netcdf(source, file, "v", unlimited=unlimited, **options)
    stored = [of_array(source, index) for index in WHOLE]
    with netcdf.Dataset(file) as f:
        np.testing.assert_array_equal(f["v"][...], X)
        assert f["v"].filters()["shuffle"] and f["v"].filters()["complevel"] == 1
    with h5py.File(file) as f:
        assert [of_hdf5(f["v"], index) for index in WHOLE] == stored


def test_a_whole_file_there_and_back(file, tmp_path):
    with h5py.File(file, "w") as f:
        for name, x in (("run/x", X), ("y", X[:40] * 2)):
            f.create_dataset(name, data=x, chunks=(40, 48), compression="gzip", compression_opts=9)
    back = tmp_path / "back.h5"
    with xa.from_hdf5(file, path=tmp_path / "group", compression="gzip") as group:
        xa.to_hdf5(group, back, compression="gzip")
    with h5py.File(file) as f, h5py.File(back) as g:
        for name in ("run/x", "y"):
            np.testing.assert_array_equal(g[name][...], f[name][...])
            assert of_hdf5(g[name], (0, 0)) == of_hdf5(f[name], (0, 0))


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
@pytest.mark.parametrize("form", [2, 3])
def test_chunks_are_given_back_to_zarr(source, tmp_path, form):
    store = tmp_path / "s.zarr"
    if form == 2:
        options = {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zlib(1)}
    else:
        kinds = zarr.codecs.numcodecs
        options = {"compressors": [kinds.Shuffle(elementsize=4), kinds.Zlib(level=1)]}
    xa.to_zarr(source, store, zarr_format=form, **options)
    z = zarr.open(store, mode="r")
    np.testing.assert_array_equal(z[...], X)
    assert all(of_zarr(z, index) == of_array(source, index) for index in WHOLE)


def test_other_codecs_selections_and_raw_chunks_are_encoded(source, file, tmp_path):
    xa.to_hdf5(source, file, "other", compression="gzip", compression_opts=1)
    xa.to_hdf5(source, file, "raw")
    how = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
    xa.to_hdf5(source, file, "part", selection=np.s_[1:, :], **how)
    xa.to_hdf5(source, file, "chunks", chunks=(8, 8), **how)
    with h5py.File(file) as f:
        for name, want in (("other", X), ("raw", X), ("part", X[1:]), ("chunks", X)):
            np.testing.assert_array_equal(f[name][...], want)


@pytest.mark.parametrize("n", [16, 5])
def test_arrays_that_grew_at_the_start_and_were_thawed(file, tmp_path, n):
    with xa.from_array(X, tmp_path / "a", chunks=CHUNKS, compression="zlib:9") as a:
        a.append(X[:n], side="start")
        a[20, 30] = -1
        want = np.concatenate([X[:n], X])
        want[20, 30] = -1
        xa.to_hdf5(a, file, "x", compression="gzip", compression_opts=1)
        with h5py.File(file) as f:
            np.testing.assert_array_equal(f["x"][...], want)
            is_same = n == 16 and of_hdf5(f["x"], (2, 0)) == of_array(a, (2, 0))
        assert is_same == (n == 16)


def test_chunks_in_parts_are_encoded(file, tmp_path):
    x = np.arange(512 * 300, dtype="f4").reshape(512, 300)
    with xa.from_array(x, tmp_path / "a", chunks=(512, 300), compression="zlib") as a:
        xa.to_hdf5(a, file, "x", compression="gzip")
    with h5py.File(file) as f:
        np.testing.assert_array_equal(f["x"][...], x)


def test_a_damaged_blob_is_not_given_back(file, tmp_path):
    path = tmp_path / "a"
    with xa.from_array(X, path, chunks=CHUNKS, compression="zlib:9") as a:
        at = a._store.now.frozen.place_of_blob(0)
    name = path.with_suffix(".xtz")
    data = bytearray(name.read_bytes())
    data[at + 60] ^= 1
    name.write_bytes(data)
    with xa.open(path) as a, pytest.raises(ChecksumError, match="chunk 0"):
        xa.to_hdf5(a, file, "x", compression="gzip")
    assert not file.exists()


def test_there_and_back(file, tmp_path):
    make(file, shuffle=True)
    back = tmp_path / "back.h5"
    with imported(xa.from_hdf5, file, "x", path=tmp_path / "a", compression="gzip:shuffle") as a:
        xa.to_hdf5(a, back, "x", compression="gzip", shuffle=True)
    with h5py.File(file) as f, h5py.File(back) as g:
        np.testing.assert_array_equal(g["x"][...], X)
        assert all(of_hdf5(f["x"], index) == of_hdf5(g["x"], index) for index in WHOLE)


def test_parts_that_are_left():
    done = np.zeros((3, 2), bool)
    done[1, 0] = True
    seen = np.zeros((7, 5), int)
    for box in left_of([(slice(0, 5), slice(0, 5)), (slice(5, 7), slice(0, 5))], (3, 3), done):
        seen[box] += 1
    want = np.ones((7, 5), int)
    want[3:6, :3] = 0
    np.testing.assert_array_equal(seen, want)
