"""Arrays as stores of Zarr, read by zarr, xarray and dask, with NumPy as the oracle."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from systems import HAS_LONG_DOUBLES, needs_replaced_open_files

import extarray as xa

zarr = pytest.importorskip("zarr", minversion="3.1")

DTYPES = [
    *[
        "?",
        "i1",
        "<u2",
        ">i4",
        "<f2",
        ">f8",
        "<c16",
        "S3",
        "<U3",
        ">U3",
        "V4",
        "<M8[25s]",
        "m8[ns]",
    ],
    [("a", "<i4"), ("b", "<f8")],
]


def read(a, **options):
    return zarr.open_array(a.as_zarr_store(**options), mode="r")[...]


def filled(path, shape=(7, 5), dtype="f8", chunks=(3, 2), **options):
    a = xa.create(path, shape, dtype, chunks=chunks, **options)
    a[...] = np.arange(a.size).reshape(shape)
    return a


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_bytes_are_those_of_the_array(dtype, order):
    dtype = np.dtype(dtype)
    if dtype.kind == "U":
        x = np.arange(35).astype(dtype).reshape(7, 5)
    else:
        x = np.random.default_rng(3).integers(0, 2, 35 * dtype.itemsize, np.uint8)
        x = x.view(dtype).reshape(7, 5)
    a = xa.create(None, x.shape, dtype, chunks=(3, 2), order=order)
    a[...] = x
    y = read(a)
    assert y.shape == x.shape
    assert y.tobytes() == x.astype(y.dtype).tobytes()


@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_files_of_both_engines(tmp_path, engine):
    filled(tmp_path / "a", order="F").close()
    with xa.open(tmp_path / "a", engine=engine) as a:
        np.testing.assert_array_equal(read(a), np.arange(35.0).reshape(7, 5))


@pytest.mark.parametrize("order", ["C", "F"])
def test_compressed_chunks_are_decoded(tmp_path, order):
    filled(tmp_path / "a", shape=(70, 50), chunks=(30, 20), order=order).close()
    with xa.open(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "a.xap", compression="zstd:bitshuffle")
    with xa.open(tmp_path / "a.xap") as a:
        np.testing.assert_array_equal(read(a), np.arange(3500.0).reshape(70, 50))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("codec", ["zlib", "lz4:bitshuffle"])
def test_frozen_chunks_are_decoded_while_the_array_grows(tmp_path, codec, order):
    options = {"chunks": (30, 20), "order": order, "compression": codec, "freeze": "never"}
    with (
        filled(tmp_path / "a", (70, 50), **options) as writer,
        xa.open(tmp_path / "a") as reader,
    ):
        x = writer[...]
        stores = [a.as_zarr_store() for a in (writer, reader)]
        before = [zarr.open_array(store, mode="r") for store in stores]
        for step in range(6):
            if step % 3 == 2:
                writer.thaw()
            else:
                writer.freeze()
            writer.flush()
            for z in before:
                np.testing.assert_array_equal(z[...], x[:70, :50])
            for store in stores:
                np.testing.assert_array_equal(zarr.open_array(store, mode="r")[...], x)
            more = x[:7] + step
            writer.append(more)
            x = np.vstack([x, more])
            writer.extend(1, 3)
            x = np.pad(x, ((0, 0), (0, 3)))


IN_ZARR = {
    "zstd": ["zstd"],
    "zstd:9:shuffle": ["numcodecs.shuffle", "zstd"],
    "auto": ["numcodecs.shuffle", "zstd"],
    "zlib": ["numcodecs.zlib"],
    "zlib:shuffle": ["numcodecs.shuffle", "numcodecs.zlib"],
    "lz4": [],
    "zstd:bitshuffle": [],
}


def codecs_of(z):
    steps = [step.to_dict() for step in (*z.filters, *z.compressors)]
    return [step for step in steps if step["name"] != "transpose"]


def names_of(z):
    return [step["name"] for step in codecs_of(z)]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("codec", IN_ZARR)
@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_values_in_the_codec_of_the_array_while_it_grows(tmp_path, codec, order):
    options = {"chunks": (30, 20), "order": order, "compression": codec, "freeze": "never"}
    with (
        filled(tmp_path / "a", (70, 50), **options) as writer,
        xa.open(tmp_path / "a") as reader,
    ):
        x = writer[...]
        stores = [a.as_zarr_store(encoded=True) for a in (writer, reader)]
        before = [zarr.open_array(store, mode="r") for store in stores]
        for step in range(7):
            if step == 2:
                writer.thaw()
            elif step == 4:
                writer.compression = "zlib:1"
            elif step == 5:
                writer.repack()
            else:
                writer.freeze()
            writer.flush()
            for z in before:
                np.testing.assert_array_equal(z[...], x[:70, :50])
            for store in stores:
                z = zarr.open_array(store, mode="r")
                assert names_of(z) == IN_ZARR[codec]
                np.testing.assert_array_equal(z[...], x)
            writer[:9, 7] = x[:9, 7] = step
            more = x[:7] + step
            writer.append(more)
            x = np.vstack([x, more])
            writer.extend(1, 3)
            x = np.pad(x, ((0, 0), (0, 3)))


@pytest.mark.parametrize("codec", ["zstd", "zlib:shuffle"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_any_elements_in_a_codec(tmp_path, dtype, codec):
    dtype = np.dtype(dtype)
    x = np.zeros((70, 50), dtype)
    if dtype.kind == "U":
        x[:33, 11:] = np.arange(33 * 39).reshape(33, 39) % 77
    else:
        some = np.random.default_rng(3).integers(0, 2, 33 * 39 * dtype.itemsize, np.uint8)
        x[:33, 11:] = some.view(dtype).reshape(33, 39)
    x[60:] = x[20, 20]  # chunks of one element, and of the fill value
    with xa.from_array(x, path=tmp_path / "a", chunks=10, compression=codec) as a:
        a.freeze()
        xa.pack(a, tmp_path / "a.xap", compression=codec)
        with xa.open(tmp_path / "a.xap") as b:
            for one in (a, b):
                z = zarr.open_array(one.as_zarr_store(encoded=True), mode="r")
                assert len(codecs_of(z)) == 1 + ("shuffle" in codec and dtype.itemsize > 1)
                y = z[...]
                assert y.tobytes() == x.astype(y.dtype).tobytes()


def test_whole_frozen_chunks_are_handed_out_as_they_are(tmp_path):
    decode = pytest.importorskip("numcodecs").Zstd().decode
    options = {"chunks": (30, 20), "compression": "zstd:9", "freeze": "never"}
    with xa.create(tmp_path / "a", (70, 50), "i8", **options) as a:
        a[...] = np.add.outer(np.arange(70), np.arange(50)) % 9
        store = a.as_zarr_store(encoded=True)
        raw = run(store.get("c/0/0")).to_bytes()
        a.resize((65, 50))
        assert a.freeze() == 9
        a.flush()
        log = (tmp_path / "a.xtz").read_bytes()
        for key in ("c/0/0", "c/1/1"):
            found = run(store.get(key)).to_bytes()
            assert found in log
            assert run(store.getsize(key)) == len(found) < 1200
        assert run(store.get("c/0/0")).to_bytes() == raw  # encoded anew by the same codec
        # Elements that were cut off do not come back outside the bounds.
        edge = np.frombuffer(decode(run(store.get("c/2/0")).to_bytes()), "i8").reshape(30, 20)
        np.testing.assert_array_equal(edge[:5], a[60:, :20])
        assert not edge[5:].any()
        assert run(store.get("c/3/0")) is None
        codec = {"name": "zstd", "configuration": {"level": 9, "checksum": False}}
        z = zarr.open_array(store, mode="r")
        assert codecs_of(z) == [codec]
    with pytest.raises(xa.errors.ClosedError):
        z[0]


def test_copies_by_zarr_keep_the_codec(tmp_path):
    x = np.add.outer(np.arange(70), np.arange(50)) % 9
    with xa.from_array(x, path=tmp_path / "a", chunks=(30, 20), compression="zstd:9") as a:
        z = zarr.open_array(a.as_zarr_store(encoded=True), mode="r")
        copy = zarr.from_array(tmp_path / "copy.zarr", data=z)
        assert codecs_of(copy) == codecs_of(z)
        np.testing.assert_array_equal(copy[...], x)


def test_large_chunks_in_a_codec(tmp_path):
    x = np.add.outer(np.arange(300), np.arange(400)) % 99
    with xa.from_array(x, path=tmp_path / "a", chunks=(300, 200), compression="zstd") as a:
        a.freeze()
        np.testing.assert_array_equal(read(a, encoded=True), x)


def test_damage_shows_in_a_codec(tmp_path):
    x = np.add.outer(np.arange(70), np.arange(50)) % 9
    xa.from_array(x, path=tmp_path / "a", chunks=(30, 20), compression="zstd").close()
    with open(tmp_path / "a.xtz", "r+b") as file:
        file.seek(64 + 40)
        file.write(b"damage")
    with xa.open(tmp_path / "a") as a:
        z = zarr.open_array(a.as_zarr_store(encoded=True), mode="r")
        with pytest.raises(xa.errors.ChecksumError, match=r"a\.xtz'; its elements are"):
            z[...]


def test_arrays_without_a_codec_are_shown_as_elements(tmp_path):
    with filled(tmp_path / "a") as a:
        store = a.as_zarr_store(encoded=True)
        assert codecs_of(zarr.open_array(store, mode="r")) == []
        assert store == a.as_zarr_store()
        a.compression = "zlib"  # later codecs change no store
        np.testing.assert_array_equal(zarr.open_array(store, mode="r")[...], a[...])
        assert store != a.as_zarr_store(encoded=True)
    assert names_of(zarr.open_array(filled(None).as_zarr_store(encoded=True), mode="r")) == []


@pytest.mark.parametrize("shape", [(), (0,), (4, 0, 3), (1, 1, 1), (5, 6, 7)], ids=str)
def test_shapes(shape):
    x = np.arange(float(np.prod(shape))).reshape(shape)
    a = xa.from_array(x, chunks=2)
    np.testing.assert_array_equal(read(a), x)


def test_large_chunks_are_read_in_threads():
    x = np.random.default_rng(0).random((600, 500))
    np.testing.assert_array_equal(read(xa.from_array(x, chunks=(256, 256))), x)


def test_growth_is_seen_by_who_opens_again(tmp_path):
    writer = filled(tmp_path / "a")
    reader = xa.open(tmp_path / "a")
    store, still = reader.as_zarr_store(), xa.open(tmp_path / "a").as_zarr_store(follow=False)
    before = zarr.open_array(store, mode="r")
    for axis in (1, 0, 1):
        writer.extend(axis, 4)
    x = np.arange(writer.size).reshape(writer.shape)
    writer[...] = x
    writer.flush()
    after = zarr.open_array(store, mode="r")
    assert after.shape == writer.shape == (11, 13)
    np.testing.assert_array_equal(after[...], x)
    np.testing.assert_array_equal(before[...], x[:7, :5])
    assert zarr.open_array(still, mode="r").shape == (7, 5)
    writer.close()
    reader.close()


def test_growth_at_the_start_keeps_what_keys_mean():
    a = filled(None)
    store = a.as_zarr_store()
    before = zarr.open_array(store, mode="r")
    a.extend(0, 6, "start")
    a[:6] = -1
    np.testing.assert_array_equal(before[...], np.arange(35.0).reshape(7, 5))
    with pytest.raises(xa.errors.ArgumentError, match="start of an axis"):
        zarr.open_array(store, mode="r")
    np.testing.assert_array_equal(read(a), a[...])


def test_what_was_cut_off_reads_as_the_fill_value():
    a = filled(None, fill_value=-2)
    z = zarr.open_array(a.as_zarr_store(), mode="r")
    a.resize((2, 5))
    x = np.full((7, 5), -2.0)
    x[:2] = np.arange(10).reshape(2, 5)
    assert (z[3:] == -2).all()
    np.testing.assert_array_equal(z[:2], x[:2])


@needs_replaced_open_files
def test_a_new_axis_is_refused(tmp_path):
    a = filled(tmp_path / "a")
    store = a.as_zarr_store()
    z = zarr.open_array(store, mode="r")
    a.add_axis(0)
    with pytest.raises(xa.errors.ShapeError, match="gained an axis"):
        z[0]
    with pytest.raises(xa.errors.ShapeError, match="gained an axis"):
        zarr.open_array(store, mode="r")
    a.close()


def test_sparse_holes_read_as_the_fill_value(tmp_path):
    with xa.create(tmp_path / "a", (100, 100), "f8", chunks=10, sparse=True) as a:
        a[15, 15] = 3
        x = np.zeros((100, 100))
        x[15, 15] = 3
        np.testing.assert_array_equal(read(a), x)


@pytest.mark.parametrize("order", ["Z", "H"])
def test_orders_that_zarr_lacks_are_refused(order):
    a = xa.create(None, (4, 4), chunks=(2, 2), order=order)
    with pytest.raises(xa.errors.ArgumentError, match=f"order '{order}'"):
        a.as_zarr_store()
    np.testing.assert_array_equal(read(a.copy(order="C")), a[...])


def test_a_start_within_a_chunk_is_refused():
    a = xa.create(None, (4, 4), chunks=(2, 2))
    a.extend(1, 3, "start")
    with pytest.raises(xa.errors.ArgumentError, match="along axis 1 is number 1 in a chunk of 2"):
        a.as_zarr_store()


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize(
    "dtype",
    [
        [("a", ">i4"), ("b", ">f8")],
        np.dtype([("a", "i1"), ("b", "f8")], align=True),
        *("g" * HAS_LONG_DOUBLES),
    ],
    ids=str,
)
def test_elements_that_zarr_lacks_are_refused(dtype):
    a = xa.create(None, (2,), dtype)
    with pytest.raises(xa.errors.DTypeError, match="as Zarr"):
        a.as_zarr_store()


def test_arguments_and_closed_arrays():
    a = filled(None)
    with pytest.raises(xa.errors.ArgumentTypeError, match="str, not int"):
        a.as_zarr_store(3)
    with pytest.raises(xa.errors.ArgumentError, match="not a path"):
        a.as_zarr_store("a/../b")
    with pytest.raises(xa.errors.ArgumentTypeError):
        a.as_zarr_store(follow="no")
    with pytest.raises(xa.errors.ArgumentTypeError):
        a.as_zarr_store(encoded="no")
    a.close()
    with pytest.raises(xa.errors.ClosedError):
        a.as_zarr_store()
    with pytest.raises(xa.errors.ClosedError):
        a.to_kerchunk()


def test_metadata():
    a = filled(None, attrs={"unit": "mm", "n": np.float32(2), "v": np.arange(2)}, dims=("y", "x"))
    z = zarr.open_array(a.as_zarr_store(), mode="r")
    assert z.metadata.dimension_names == ("y", "x")
    assert dict(z.attrs) == {"unit": "mm", "n": 2.0, "v": [0, 1]}
    assert z.chunks == (3, 2)
    assert zarr.open_array(xa.full(3, -1).as_zarr_store(), mode="r").fill_value == -1
    a.attrs["raw"] = b"abc"
    with pytest.warns(xa.errors.LossyWarning, match="raw"):
        store = a.as_zarr_store()
    assert "raw" not in zarr.open_array(store, mode="r").attrs


def test_nothing_can_be_written():
    store = filled(None).as_zarr_store()
    assert store.read_only
    assert not store.supports_writes
    with pytest.raises(ValueError, match=r"read-only|written"):
        zarr.open_array(store, mode="r")[0] = 1
    with pytest.raises(xa.errors.ReadOnlyError):
        store.with_read_only(False)
    with pytest.raises(ValueError, match=r"read-only|written"):
        zarr.create_array(store, name="b", shape=(2,), dtype="f8")


def gathered(iterator):
    async def gather():
        return [each async for each in iterator]

    return run(gather())


def run(coroutine):
    return zarr.core.sync.sync(coroutine)


def test_keys():
    store = filled(None).as_zarr_store("run/c")
    keys = gathered(store.list())
    assert len(keys) == len(set(keys)) == 3 + 9
    assert {"zarr.json", "run/zarr.json", "run/c/zarr.json", "run/c/c/2/2"} < set(keys)
    assert all(run(store.exists(key)) for key in keys)
    assert all(run(store.getsize(k)) == 48 for k in keys if "json" not in k)
    for prefix in ["", "run", "run/", "run/c", "run/c/c", "run/c/c/1"]:
        inside = prefix.strip("/") + "/" if prefix else ""
        wanted = {k[len(inside) :].partition("/")[0] for k in keys if k.startswith(inside)}
        found = gathered(store.list_dir(prefix))
        assert sorted(found) == sorted(wanted)
    assert set(gathered(store.list_prefix("run/c/c/1"))) == {f"run/c/c/1/{j}" for j in range(3)}
    strange = ["run/c/c/3/0", "run/c/c/0", "run/c/c/00/0", "run/c/c/-1/0", "c/0/0", "c", "x.json"]
    for key in [*strange, "run/c/c/²/0", "run/c/c/a/b", ".zarray", "run/c/c/"]:
        assert not run(store.exists(key)), key
        assert run(store.get(key)) is None, key


def test_ranges():
    store = filled(None).as_zarr_store()
    module = zarr.abc.store
    whole = run(store.get("c/0/0")).to_bytes()
    assert whole == store.get_sync("c/0/0").to_bytes()
    assert whole == np.arange(35.0).reshape(7, 5)[:3, :2].tobytes()
    ranges = {
        module.RangeByteRequest(8, 24): whole[8:24],
        module.OffsetByteRequest(40): whole[40:],
        module.SuffixByteRequest(8): whole[-8:],
        module.SuffixByteRequest(100): whole,
    }
    found = run(
        store.get_partial_values(
            zarr.core.buffer.default_buffer_prototype(), [("c/0/0", each) for each in ranges]
        )
    )
    assert [each.to_bytes() for each in found] == list(ranges.values())


def test_stores_in_other_processes(tmp_path):
    a = filled(tmp_path / "a")
    store = a.as_zarr_store()
    assert store == a.as_zarr_store()
    assert store != a.as_zarr_store("a")
    other = pickle.loads(pickle.dumps(store))
    assert other == store
    np.testing.assert_array_equal(zarr.open_array(other, mode="r")[...], a[...])
    a.close()


def test_xarray():
    xr = pytest.importorskip("xarray")
    a = filled(None, dims=("y", "x"), attrs={"unit": "mm"})
    ds = xr.open_zarr(a.as_zarr_store("scene"), consolidated=False)
    assert ds.scene.dims == ("y", "x")
    assert ds.scene.attrs == {"unit": "mm"}
    np.testing.assert_array_equal(ds.scene[1:6:2].values, a[1:6:2])


def test_dask():
    da = pytest.importorskip("dask.array")
    a = filled(None)
    x = da.from_zarr(a.as_zarr_store())
    assert x.chunks == ((3, 3, 1), (2, 2, 1))
    np.testing.assert_array_equal(x.compute(), a[...])


def test_groups(tmp_path):
    xr = pytest.importorskip("xarray")
    with xa.open_group(tmp_path / "g", "w") as g:
        g.attrs["title"] = "north"
        time = g.create("time", shape=3, dtype="i8", dims=["time"])
        wind = g.create("wind", shape=(3, 2), chunks=(2, 2), dims=["time", "x"])
        deep = g.create("run/level", shape=2)
        time[...], wind[...], deep[...] = [5, 6, 7], np.arange(6).reshape(3, 2), [1, 2]
        store = g.as_zarr_store()
        z = zarr.open_group(store, mode="r")
        assert sorted(z.keys()) == ["run", "time", "wind"]
        assert dict(z.attrs) == {"title": "north"}
        np.testing.assert_array_equal(z["run/level"][...], [1, 2])
        ds = xr.open_zarr(store, consolidated=False)
        assert list(ds.coords) == ["time"]
        np.testing.assert_array_equal(ds.wind.sel(time=6).values, [2, 3])
        g.extend("time", 2)
        assert zarr.open_group(store, mode="r")["wind"].shape == (5, 2)
        kerchunk = g.to_kerchunk()["refs"]
        assert json.loads(kerchunk[".zattrs"]) == {"title": "north"}
        assert "run/level/0" in kerchunk


# -- manifests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("packed", [False, True])
def test_references_lead_to_the_chunks(tmp_path, order, zarr_format, packed):
    fsspec = pytest.importorskip("fsspec")
    a = filled(tmp_path / "a", dtype=">i4", order=order, dims=("y", "x"), attrs={"unit": "mm"})
    a.extend(0, 3, "start")
    a.extend(1, 2)
    x = np.arange(a.size).reshape(a.shape)
    a[...] = x
    a.close()
    path = tmp_path / "a"
    if packed:
        path = tmp_path / "a.xap"
        xa.pack(xa.open(tmp_path / "a"), path)
    with xa.open(path) as a:
        refs = json.loads(json.dumps(a.to_kerchunk(zarr_format=zarr_format)))
    fs = fsspec.filesystem("reference", fo=refs)
    names = {2: ".zarray", 3: "zarr.json"}
    about = json.loads(fs.cat(names[zarr_format]))
    assert about["shape"] == [10, 7]
    key = {2: "1.0", 3: "c/1/0"}[zarr_format]
    assert fs.cat(key) == x[3:6, :2].astype(">i4").tobytes(order)
    asynchronous = fsspec.filesystem("reference", fo=refs, asynchronous=True)
    store = zarr.storage.FsspecStore(asynchronous, read_only=True, path="")
    z = zarr.open_array(store, mode="r", zarr_format=zarr_format)
    np.testing.assert_array_equal(z[...], x)
    assert z.attrs["unit"] == "mm"
    if zarr_format == 2:
        assert z.attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]
    else:
        assert z.metadata.dimension_names == ("y", "x")


def test_xarray_finds_groups_in_groups_of_references(tmp_path):
    xr = pytest.importorskip("xarray")
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("time", 4, "i8", dims=["time"])[:] = [1, 2, 4, 8]
        g.create("north/wind", (4, 3), "f8", dims=["time", "x"], chunks=2)[...] = 5
        options = {"fo": g.to_kerchunk()}
    with xr.open_datatree("reference://", engine="zarr", storage_options=options) as tree:
        assert tree.time.values.tolist() == [1, 2, 4, 8]
        assert tree["north"].wind.values.sum() == 60


def test_references_of_memory_are_refused(tmp_path):
    with pytest.raises(xa.errors.ArgumentError, match="in memory"):
        filled(None).to_kerchunk()
    with filled(tmp_path / "a") as a, pytest.raises(xa.errors.ArgumentError, match="2 or 3"):
        a.to_kerchunk(zarr_format=1)
