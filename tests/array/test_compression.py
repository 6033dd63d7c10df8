"""The keyword `compression`, wherever an array comes to the disk."""

from __future__ import annotations

import numpy as np
import pytest
from systems import disk_bytes

import extarray as xa
from extarray.array import filling
from extarray.common.limits import limits
from extarray.errors import ArgumentError, ArgumentTypeError, DTypeError
from extarray.maintenance.execute import Mover

h5py, zarr = map(pytest.importorskip, ("h5py", "zarr"))

X = np.arange(24 * 32, dtype="f4").reshape(24, 32)


def codec(a):
    """Return the codec of an array, and whether all of its chunks are frozen."""
    frozen = a._store.now.frozen
    if frozen is None:
        return None, False
    return str(frozen.codec), len(frozen.frozen(0, a.axial.size)) == a.axial.size


@pytest.fixture
def source(tmp_path):
    with xa.from_array(
        X, tmp_path / "source", chunks=8, compression="lz4:shuffle", freeze="close"
    ) as a:
        yield a


def _from_npy(path, tmp_path, **options):
    np.save(tmp_path / "x.npy", X)
    return xa.from_npy(tmp_path / "x.npy", path=path, chunks=8, **options)


def _fromfile(path, tmp_path, **options):
    X.tofile(tmp_path / "x.raw")
    return xa.fromfile(tmp_path / "x.raw", "f4", shape=(-1, 32), path=path, chunks=8, **options)


def _in_place(path, source, **options):
    source.copy(path).close()
    return xa.rechunk(path, chunks=5, in_place=True, **options)


def _in_group(path, **options):
    with xa.open_group(path, "w") as group:
        group.create("inner/a", X.shape, "f4", chunks=8, **options)[...] = X
    return xa.open(path / "inner/a")


WAYS = {
    "from_array": lambda path, source, tmp, **how: xa.from_array(X, path, 8, **how),
    "from_array of ours": lambda path, source, tmp, **how: xa.from_array(source, path, 8, **how),
    "copy": lambda path, source, tmp, **how: source.copy(path, **how),
    "repack": lambda path, source, tmp, **how: source.repack(path, **how),
    "rechunk": lambda path, source, tmp, **how: source.rechunk(5, path, **how),
    "rechunk of a view": lambda path, source, tmp, **how: xa.rechunk(
        source.lazy[:, :], path, chunks=5, **how
    ),
    "rechunk in place": lambda path, source, tmp, **how: _in_place(path, source, **how),
    "from_npy": lambda path, source, tmp, **how: _from_npy(path, tmp, **how),
    "fromfile": lambda path, source, tmp, **how: _fromfile(path, tmp, **how),
    "group": lambda path, source, tmp, **how: _in_group(path, **how),
}
KEPT = {"copy", "repack", "rechunk", "rechunk of a view", "rechunk in place"}


@pytest.mark.parametrize("way", WAYS)
def test_all_chunks_are_frozen_in_the_end(source, tmp_path, way):
    with WAYS[way](tmp_path / "b", source, tmp_path, compression="zlib:6:shuffle") as b:
        assert codec(b) == ("zlib:6:shuffle", True)
        np.testing.assert_array_equal(b[...], X)
    with xa.open(b.path, verify="read") as b:
        np.testing.assert_array_equal(b[...], X)
    assert xa.check(b.path, data=True).ok


@pytest.mark.parametrize("way", WAYS)
def test_copies_keep_the_codec_unless_told_otherwise(source, tmp_path, way):
    with WAYS[way](tmp_path / "b", source, tmp_path) as b:
        assert codec(b) == (("lz4:shuffle", True) if way in KEPT else (None, False))
        if way in KEPT:
            assert b._store.now.frozen.policy == "close"
    with WAYS[way](tmp_path / "c", source, tmp_path, compression=None) as c:
        assert codec(c) == (None, False) and not (tmp_path / "c.xtz").exists()
        np.testing.assert_array_equal(c[...], X)


def test_copies_in_memory_are_not_compressed(source):
    for made in (source.copy(), source.rechunk(5), xa.create(None, like=source)):
        assert made.shape == X.shape and codec(made) == (None, False)


@pytest.mark.parametrize(
    "make",
    [
        lambda a, **how: xa.create(None, 3, **how),
        lambda a, **how: xa.zeros(3, **how),
        lambda a, **how: xa.ones(3, **how),
        lambda a, **how: xa.empty(3, **how),
        lambda a, **how: xa.full(3, 1, **how),
        lambda a, **how: xa.from_array(X, **how),
        lambda a, **how: a.copy(**how),
        lambda a, **how: a.rechunk(5, **how),
        lambda a, **how: _from_npy(None, a.path.parent, **how),
        lambda a, **how: _fromfile(None, a.path.parent, **how),
    ],
)
def test_arrays_in_memory_refuse_a_codec_by_name(source, make):
    with pytest.raises(ArgumentError, match="compression needs files; give a path"):
        make(source, compression="zlib")


@pytest.mark.parametrize("make", [xa.zeros, xa.ones, xa.empty])
def test_arrays_of_one_value(tmp_path, make):
    with make((4, 6), path=tmp_path / "a", compression="gzip") as a:
        assert str(a._store.now.frozen.codec) == "zlib"
    with xa.full((4, 6), 7, path=tmp_path / "b", compression=xa.Codec("lz4", 3)) as b:
        assert str(b._store.now.frozen.codec) == "lz4:3"


def test_likeness(source, tmp_path):
    with xa.create(tmp_path / "b", like=source) as b:
        assert (str(b._store.now.frozen.codec), b._store.now.frozen.policy) == (
            "lz4:shuffle",
            "close",
        )
    with xa.create(tmp_path / "c", like=source.lazy[3:], compression="zlib") as c:
        assert str(c._store.now.frozen.codec) == "zlib"
    with xa.from_array(X, tmp_path / "d", like=source, compression=None) as d:
        assert codec(d) == (None, False)
    with xa.from_array(X, tmp_path / "e", like=source) as e:
        assert codec(e) == ("lz4:shuffle", True)


def test_packs_keep_the_codec_unless_told_otherwise(source, tmp_path):
    xa.pack(source, tmp_path / "a.xap")
    with xa.open(tmp_path / "a.xap") as a:
        assert str(a.compression) == "lz4:shuffle"
        np.testing.assert_array_equal(a[...], X)
        xa.pack(a, tmp_path / "b.xap")
        xa.pack(a, tmp_path / "c.xap", compression=None)
    with xa.open(tmp_path / "b.xap") as b, xa.open(tmp_path / "c.xap") as c:
        assert (str(b.compression), c.compression) == ("lz4:shuffle", None)
        np.testing.assert_array_equal(b[...], X)
        np.testing.assert_array_equal(c[...], X)
    source.compression = None
    xa.pack(source, tmp_path / "d.xap")
    with xa.open_group(tmp_path / "group", "w") as group:
        group.create("raw", X.shape, "f4", chunks=8)[...] = X
        group.create("frozen", X.shape, "f4", chunks=8, compression="zlib")[...] = X
        xa.pack(group, tmp_path / "e.xap")
    with xa.open(tmp_path / "d.xap") as d, xa.open_group(tmp_path / "e.xap") as e:
        assert (d.compression, e["raw"].compression) == (None, None)
        assert str(e["frozen"].compression) == "zlib"
        np.testing.assert_array_equal(d[...], X)
        np.testing.assert_array_equal(e["frozen"][...], X)


@pytest.mark.parametrize("compression", ["zstd:5:shuffle", None])
def test_copies_of_packed_arrays_keep_their_codec(source, tmp_path, compression):
    pytest.importorskip("backports.zstd")
    xa.pack(source, tmp_path / "a.xap", compression=compression)
    with xa.open(tmp_path / "a.xap") as packed, packed.copy(tmp_path / "b") as b:
        np.testing.assert_array_equal(b[...], X)
        assert codec(b) == (compression, compression is not None)


def test_codecs_of_h5py(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        wanted = {
            "zlib:4:shuffle": {"compression": "gzip", "shuffle": True, "fletcher32": True},
            "zlib:9": {"compression": "gzip", "compression_opts": 9},
            None: {},
            "none that we have": {"compression": "lzf"},
        }
        for number, (name, options) in enumerate(wanted.items()):
            dataset = file.create_dataset(f"x{number}", data=X, **options)
            with xa.create(tmp_path / f"a{number}", like=dataset) as a:
                encoding = a._store.now.header.encoding.get("codec")
                assert encoding == (None if number > 1 else name)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_codecs_of_zarr(tmp_path, zarr_format):
    from numcodecs import LZ4, Blosc, Zlib

    of_two = {"zlib:7": Zlib(7), "lz4": LZ4(), "zstd:4:bitshuffle": Blosc("zstd", 4, 2)}
    of_three = {
        "zlib:7": zarr.codecs.GzipCodec(level=7),
        "lz4:shuffle": zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"),
        None: None,
    }
    for number, (name, codecs) in enumerate((of_two if zarr_format == 2 else of_three).items()):
        z = zarr.create_array(
            zarr.storage.MemoryStore(), data=X, compressors=codecs, zarr_format=zarr_format
        )
        with xa.create(tmp_path / f"a{number}", like=z) as a:
            assert a._store.now.header.encoding.get("codec") == name


def test_a_copy_with_checksums_is_compressed(tmp_path):
    with xa.from_array(X, tmp_path / "a", checksum=True) as a:
        a.copy(tmp_path / "b", compression="zlib").close()
    assert xa.check(tmp_path / "b", data=True).ok
    with xa.open(tmp_path / "b", verify="read") as b:
        assert b.info()["checksum"]
        np.testing.assert_array_equal(b[...], X)


def test_an_interrupted_rechunk_of_another_codec_is_not_taken_for_this_one(source, tmp_path):
    xa.rechunk(source, tmp_path / "b", chunks=5, compression="zlib", resume=True).close()
    xa.rechunk(source, tmp_path / "b", chunks=5, compression="gzip", resume=True).close()  # same
    with pytest.raises(FileExistsError):
        xa.rechunk(source, tmp_path / "b", chunks=5, compression="lz4", resume=True)


def rounded(x, bits):
    """Return floats of so many bits of the mantissa, the nearest ones."""
    if x.dtype.kind == "c":
        return rounded(x.real, bits) + 1j * rounded(x.imag, bits)
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(mantissa, bits + 1)), exponent - bits - 1).astype(x.dtype)


class Slices:
    """An object with shape, dtype and slicing."""

    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, key):
        return self.x[key]


def _of_hdf5(x, path, **how):
    with h5py.File(path.parent / "x.h5", "w") as file:
        return xa.from_hdf5(file.create_dataset("x", data=x, chunks=True), path=path, **how)


@pytest.mark.parametrize("dtype", ["f4", ">f8", "c8"])
@pytest.mark.parametrize(
    "bring",
    [
        xa.from_array,
        lambda x, path, **how: xa.from_array(Slices(x), path, **how),
        lambda x, path, **how: xa.from_array(xa.from_array(x, chunks=(4, 9)), path, 5, **how),
        lambda x, path, **how: xa.from_array(x, path, sparse=True, compression="zlib", **how),
        lambda x, path, **how: xa.from_array(xa.from_array(x).T, path, **how).T,
        lambda x, path, **how: xa.from_array(x).copy(path, 5, **how),
        _of_hdf5,
    ],
    ids=["ndarray", "slices", "ours", "sparse", "view", "copy", "hdf5"],
)
def test_floats_are_rounded_once_where_they_come_in(tmp_path, bring, dtype):
    x = np.random.default_rng(5).normal(0, 1e3, (20, 30)).astype(dtype)
    if dtype == "c8":
        x = (x + 1j * x[::-1]).astype(dtype)
    given = x.copy()
    a = bring(x, tmp_path / "a", significant_bits=6)
    np.testing.assert_array_equal(a[...], rounded(x, 6))
    np.testing.assert_array_equal(x, given)
    base = getattr(a, "base", a)
    base[0, 0] = x[0, 0]  # no lasting property of the array
    assert base[0, 0] == x[0, 0]
    base.close()


def test_missing_elements_are_not_rounded():
    x = np.array([1.1, -9999, 1e20, 3.3, np.nan, np.inf, 7777], "f4")
    attrs = {"missing_value": np.float32(1e20), "nodata": -9999}
    a = xa.from_array(x, attrs=attrs, fill_value=7777, significant_bits=2)
    np.testing.assert_array_equal(
        a[...], np.array([1, -9999, 1e20, 3.5, np.nan, np.inf, 7777], "f4")
    )


@pytest.mark.parametrize(
    ("dtype", "bits", "error", "words"),
    [
        ("i4", 7, DTypeError, "significant_bits rounds floats of 2, 4 or 8 bytes, not int32"),
        ("f4", 0, ArgumentError, "significant_bits must be 1 to 23, not 0"),
        ("f8", 53, ArgumentError, "must be 1 to 52"),
        ("f8", 2.5, ArgumentTypeError, "significant_bits must be an int"),
    ],
)
def test_bits_that_elements_do_not_have(tmp_path, dtype, bits, error, words):
    x = np.zeros((6, 8), dtype)
    for bring in (
        xa.from_array,
        lambda x, path, **how: xa.from_array(x).copy(path, **how),
        _of_hdf5,
    ):
        with pytest.raises(error, match=words):
            bring(x, tmp_path / "a", significant_bits=bits)
        assert not (tmp_path / "a.xmd").exists()


def test_a_whole_file_is_compressed(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["inner/x"] = X
        file["n"] = np.arange(5)
    with xa.from_hdf5(tmp_path / "x.h5", path=tmp_path / "a", compression="zlib") as group:
        for name, values in {"inner/x": X, "n": np.arange(5)}.items():
            assert str(group[name]._store.now.frozen.codec) == "zlib"
            np.testing.assert_array_equal(group[name][...], values)
    with xa.open(tmp_path / "a/inner/x") as a:
        assert codec(a) == ("zlib", True)


def test_a_whole_file_is_not_rounded(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = X
    with pytest.raises(ArgumentError, match="coordinates too; name a single array"):
        xa.from_hdf5(tmp_path / "x.h5", path=tmp_path / "a", significant_bits=7)


def test_rounded_floats_compress(tmp_path):
    x = np.random.default_rng(6).normal(280, 5, (200, 200)).astype("f4")
    sizes = []
    for bits in (None, 7):
        path = tmp_path / f"a{bits}"
        xa.from_array(x, path, compression="zlib:4:shuffle", significant_bits=bits).close()
        sizes.append(path.with_suffix(".xtz").stat().st_size)
    assert sizes[1] < sizes[0] / 2


# -- how compressed arrays are shown -------------------------------------------------------------


def stored_bytes(path):
    return sum(disk_bytes(f"{path}{suffix}") for suffix in (".xta", ".xtz"))


def test_facts_tell_disk_usage_and_frozen_chunks(tmp_path):
    x = np.arange(256 * 256, dtype="i4").reshape(256, 256)
    path = tmp_path / "a"
    with xa.create(
        path, (0, 256), "i4", chunks=(64, 128), compression="zlib:1", freeze="close"
    ) as a:
        a.append(x)
        facts = a.info()
        assert facts["frozen_chunks"] == 0 and facts["freeze"] == "close"
        assert facts["stored_bytes"] == facts["disk_bytes"] == stored_bytes(path) >= x.nbytes
        assert "hollow" not in str(facts)
    with xa.open(path, "r+") as a:
        facts = a.info()
        assert facts["frozen_chunks"] == 8 and facts["compression"] == "zlib:1"
        assert facts["stored_bytes"] == facts["disk_bytes"] == stored_bytes(path) < x.nbytes // 2
        assert facts["ratio"] == x.nbytes / facts["stored_bytes"]
        assert facts["file_bytes"] >= x.nbytes
        assert "hollow: `extarray copy`" in str(facts) and "frozen chunks    8" in str(facts)
        assert ", zlib:1, '" in repr(a)
        told = f"on disk, zlib:1, ratio {facts['ratio']:.2f}, 8 of 8 chunks frozen)"
        assert told in a._repr_html_()
        for value in range(limits.rewrites + 1):  # the last one thaws it
            a[0, 0] = value
        assert a.info()["frozen_chunks"] == 7


def test_arrays_without_compression_are_shown_as_ever(tmp_path):
    with xa.from_array(X, tmp_path / "a") as a:
        facts = a.info()
        assert not {"compression", "frozen_chunks", "freeze", "ratio", "stored_bytes"} & set(facts)
        assert "frozen" not in a._repr_html_() and "hollow" not in str(facts)


# -- freezing while an array is filled -----------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "bring", ["ndarray", "slices", "ours", "copy", "rechunk", "hdf5", "xarray"]
)
def test_chunks_are_frozen_as_they_become_whole(tmp_path, monkeypatch, bring, order):
    x = np.arange(100 * 90 * 80, dtype="f4").reshape(100, 90, 80) // 7
    monkeypatch.setattr(limits, "unfrozen_bytes", 1 << 17)
    monkeypatch.setattr(limits, "unfreed_bytes", 1 << 18)
    monkeypatch.setattr(limits, "progress_bytes", 1 << 18)
    batches = []
    freeze = filling.freeze_chosen

    def freeze_chosen(array, addresses):
        done = freeze(array, addresses)
        batches.append((done, len(addresses)))
        return done

    monkeypatch.setattr(filling, "freeze_chosen", freeze_chosen)
    how = {"compression": "zlib:1:shuffle", "progress": lambda done, total: None}
    path = tmp_path / "a"
    if bring in ("ours", "copy", "rechunk"):
        source = xa.create(None, x.shape, "f4", chunks=(9, 90, 7), order=order)
        source[...] = x
    with xa.config.set(max_memory=1 << 20):
        match bring:
            case "ndarray":
                a = xa.from_array(np.asarray(x, order=order), path, (30, 30, 20), **how)
            case "slices":
                a = xa.from_array(Slices(np.asarray(x, order=order)), path, (30, 30, 20), **how)
            case "ours":
                a = xa.from_array(source, path, (30, 30, 20), **how)
            case "copy":
                a = source.copy(path, (30, 30, 20), order=order, **how)
            case "rechunk":
                a = xa.rechunk(source, path, chunks=(30, 30, 20), max_memory="1 MiB", **how)
            case "hdf5":
                a = _of_hdf5(x, path, **how) if order == "C" else _of_npy_in_f(x, path, **how)
            case "xarray":
                a = _by_xarray(x, path, order)
    with a:
        assert codec(a) == ("zlib:1:shuffle", True)
        np.testing.assert_array_equal(a[...], x)
        assert sum(done for done, _ in batches) > a.axial.size // 2
        assert all(done == asked for done, asked in batches)
    assert xa.check(path, data=True).ok


def _of_npy_in_f(x, path, **how):
    np.save(path.parent / "x.npy", np.asfortranarray(x))
    return xa.from_npy(path.parent / "x.npy", path=path, chunks=(30, 30, 20), **how)


def _by_xarray(x, path, order):
    xr = pytest.importorskip("xarray")
    import extarray.interop.xarray  # noqa: F401

    array = xr.DataArray(np.asarray(x, order=order), name="a")
    how = {"compression": "zlib:1:shuffle", "chunks": (30, 30, 20)}
    array.extarray.to_extarray(path, encoding={"a": how})
    return xa.open(path)


def test_a_failure_while_chunks_are_frozen_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "unfrozen_bytes", 1 << 10)

    def freeze_chosen(array, addresses):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(filling, "freeze_chosen", freeze_chosen)
    np.save(tmp_path / "x.npy", np.zeros((40, 4000)))
    for bring in (
        lambda path: xa.from_array(np.zeros((40, 40)), path, 8, compression="zlib"),
        lambda path: xa.from_array(np.zeros((40, 40)), chunks=9).copy(path, compression="zlib"),
        lambda path: xa.from_npy(tmp_path / "x.npy", path=path, chunks=8, compression="zlib"),
    ):
        with pytest.raises(OSError, match="No space left"):
            bring(tmp_path / "a")
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.parametrize("stop", [1, 5, 11])
def test_an_interrupted_rechunk_goes_on_with_frozen_chunks(tmp_path, monkeypatch, stop):
    monkeypatch.setattr(limits, "unfrozen_bytes", 1)
    x = np.arange(64 * 64).reshape(64, 64)
    source = xa.from_array(x, chunks=(1, 64))
    how = {"chunks": (64, 1), "max_memory": 8 * 64 * 8, "compression": "zlib"}
    moved, move = [], Mover.move

    def stopped(self, template):
        if len(moved) == stop:
            raise KeyboardInterrupt
        moved.append(template)
        yield from move(self, template)

    with monkeypatch.context() as patch:
        patch.setattr(Mover, "move", stopped)
        with pytest.raises(KeyboardInterrupt):
            xa.rechunk(source, tmp_path / "a", **how)
    with xa.rechunk(source, tmp_path / "a", resume=True, **how) as a:
        assert codec(a) == ("zlib", True)
        np.testing.assert_array_equal(a[...], x)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.xmd", "a.xta", "a.xtz"]
    assert xa.check(tmp_path / "a", data=True).ok


@pytest.mark.parametrize("x", [np.float64(5), np.zeros((0, 3)), np.array(["a", "bcd"])])
def test_arrays_without_axes_or_elements_and_texts(tmp_path, monkeypatch, x):
    monkeypatch.setattr(limits, "unfrozen_bytes", 1)
    with xa.from_array(x, tmp_path / "a", compression="zlib") as a:
        np.testing.assert_array_equal(a[...], x)
        assert a.info()["frozen_chunks"] == a.axial.size
    with xa.open(tmp_path / "a") as a, a.copy(tmp_path / "b") as b:
        np.testing.assert_array_equal(b[...], x)


def test_a_raw_array_in_the_place_of_a_compressed_one(tmp_path):
    xa.from_array(X, tmp_path / "a", compression="zlib").close()
    xa.from_array(X + 1, tmp_path / "a", overwrite=True).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.xmd", "a.xta"]
    xa.from_array(X, tmp_path / "a", overwrite=True, compression="zlib").close()
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a[...], X)
