"""Other software reads chunks over HTTP, by references to packed files and pairs."""

from __future__ import annotations

import http.server
import json
import re
import threading

import numpy as np
import pytest
from served import needs_obstore, served

import extarray as xa
from extarray.common.limits import limits

fsspec = pytest.importorskip("fsspec")
zarr = pytest.importorskip("zarr")
pytest.importorskip("aiohttp")

X = np.arange(1, 57, dtype=">i2").reshape(8, 7)


class _Ranges(http.server.SimpleHTTPRequestHandler):
    """Serves ranges of the files of a folder."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        try:
            with open(self.translate_path(self.path), "rb") as file:
                data = file.read()
        except OSError:
            self.send_error(404)
            return
        first, last = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
        body = data[int(first) : int(last) + 1]
        self.server.asked.append((self.path, len(body)))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve the folder of the test; yield its URL and the list of requests."""
    monkeypatch.chdir(tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Ranges) as found:
        found.asked = []
        found.daemon_threads = True
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}", found.asked
        found.shutdown()
        thread.join()


def by_zarr(refs, zarr_format=2, name=None):
    """Read with zarr, by references that went through JSON."""
    refs = json.loads(json.dumps(refs))
    fs = fsspec.filesystem(
        "reference",
        fo=refs,
        remote_protocol="http",
        remote_options={"asynchronous": True},
        asynchronous=True,
        skip_instance_cache=True,
    )
    store = zarr.storage.FsspecStore(fs, read_only=True, path="")
    if name is None:
        return zarr.open_array(store, mode="r", zarr_format=zarr_format)[...]
    return zarr.open_group(store, mode="r", zarr_format=zarr_format)[name][...]


def scene(path, **options):
    a = xa.create(path, (4, 7), X.dtype, chunks=(2, 3), **options)
    a.extend(0, 4, "start")
    a[...] = X
    return a


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("order", ["address", "hilbert", 1])
def test_a_packed_file_is_read_from_a_server(server, tmp_path, order, zarr_format):
    url, asked = server
    with scene(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "a.xap", order=order)
    with xa.open(tmp_path / "a.xap") as a:
        refs = a.to_kerchunk(zarr_format=zarr_format, url=f"{url}/a.xap")
    (tmp_path / "a.xta").unlink()
    np.testing.assert_array_equal(by_zarr(refs, zarr_format), X)
    assert {path for path, _ in asked} == {"/a.xap"}
    assert sum(size for _, size in asked) == 12 * 12


@pytest.mark.parametrize("name", ["live", "live.xta", "live.xmd"])
def test_a_pair_is_read_from_a_server(server, tmp_path, name):
    url, asked = server
    with scene(tmp_path / "live") as a:
        refs = a.to_kerchunk(url=f"{url}/{name}?token=1")
    assert refs["refs"]["0.0"][0] == f"{url}/live.xta?token=1"
    np.testing.assert_array_equal(by_zarr(refs), X)
    assert {path for path, _ in asked} == {"/live.xta?token=1"}


@pytest.mark.parametrize("packed", [None, "address", "morton"])
def test_a_group_is_read_from_a_server(server, tmp_path, packed):
    url, _ = server
    with xa.open_group(tmp_path / "g", "w") as g:
        g["north/wind"] = X
        a = g.create("south", (4, 4), "f4", chunks=(2, 2))
        a[...] = 3
        a.extend(1, 2)
        refs = g.to_kerchunk(url=f"{url}/g/")
        if packed:
            xa.pack(g, tmp_path / "g.xap", order=packed)
    if packed:
        with xa.open_group(tmp_path / "g.xap") as g:
            refs = g.to_kerchunk(url=f"{url}/g.xap")
    np.testing.assert_array_equal(by_zarr(refs, name="north/wind"), X)
    np.testing.assert_array_equal(by_zarr(refs, name="south"), [[3, 3, 3, 3, 0, 0]] * 4)


# -- references made where the files are not -------------------------------------------------------


@needs_obstore
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["a b.xap", "h.xap", "g.xap/north/wind", "live", "g/north/wind"])
def test_references_name_the_url_that_was_opened(tmp_path, name, zarr_format):
    with scene(tmp_path / "live") as a, xa.open_group(tmp_path / "g", "w") as g:
        xa.pack(a, tmp_path / "a b.xap")
        xa.pack(a, tmp_path / "h.xap", order="hilbert")
        g["north/wind"] = a
        xa.pack(g, tmp_path / "g.xap")
    with served(tmp_path) as web:
        file = web.url(name.partition("/north")[0] if ".xap" in name else f"{name}.xta")
        file = file.replace(" ", "%20")
        with xa.open(web.url(name)) as a:
            refs = a.to_kerchunk(zarr_format=zarr_format)
            other = a.to_kerchunk(url="s3://bucket/other")
        assert {ref[0] for ref in refs["refs"].values() if isinstance(ref, list)} == {file}
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), X)
    renamed = {ref[0] for ref in other["refs"].values() if isinstance(ref, list)}
    assert renamed == {f"s3://bucket/other{'' if '.xap' in name else '.xta'}"}


@needs_obstore
@pytest.mark.parametrize("name", ["g", "g.xap"])
def test_references_to_a_group_that_was_opened_at_a_url(tmp_path, name):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["north/wind"] = X
        g["south"] = X[:3]
        xa.pack(g, tmp_path / "g.xap", order="hilbert")
    xa.index_group(tmp_path / "g")
    with served(tmp_path) as web, xa.open_group(web.url(name)) as g:
        for refs in (g.to_kerchunk(), g.to_kerchunk(url=web.url(name))):
            np.testing.assert_array_equal(by_zarr(refs, name="north/wind"), X)
            np.testing.assert_array_equal(by_zarr(refs, name="south"), X[:3])


@needs_obstore
def test_references_have_no_secrets(tmp_path):
    with scene(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "a.xap")
    with served(tmp_path) as web:
        signed = web.url("a.xap") + "?X-Amz-Signature=hidden"
        with xa.open(signed) as a:
            with pytest.raises(xa.ArgumentError, match="url=") as error:
                a.to_kerchunk()
            assert "hidden" not in str(error.value)
            refs = a.to_kerchunk(url=signed)
        np.testing.assert_array_equal(by_zarr(refs), X)
        with xa.open(web.url("a").replace("http://", "http://me:hidden@")) as a:
            refs = a.to_kerchunk()
        assert "hidden" not in json.dumps(refs)
        np.testing.assert_array_equal(by_zarr(refs), X)
    memory = pytest.importorskip("obstore.store").MemoryStore()
    memory.put("a.xap", (tmp_path / "a.xap").read_bytes())
    with xa.open((memory, "a.xap")) as a:
        with pytest.raises(xa.ArgumentError, match="url="):
            a.to_kerchunk()
        assert a.to_kerchunk(url="s3://b/a.xap")["refs"]["0.0"][0] == "s3://b/a.xap"


def test_xarray_reads_a_group_from_a_server(server, tmp_path):
    xr = pytest.importorskip("xarray")
    url, _ = server
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("time", 8, "i8", dims=["time"])[:] = range(8)
        g.create("wind", (4, 7), "f4", dims=["time", "x"], chunks=(2, 3)).extend("time", 4)
        g["wind"][...] = X
        xa.pack(g, tmp_path / "g.xap", order="hilbert")
    with xa.open_group(tmp_path / "g.xap") as g:
        (tmp_path / "g.json").write_text(json.dumps(g.to_kerchunk(url=f"{url}/g.xap")))
    options = {
        "fo": str(tmp_path / "g.json"),
        "remote_protocol": "http",
        "remote_options": {"asynchronous": True},
        "asynchronous": True,
    }
    with xr.open_dataset("reference://", engine="zarr", storage_options=options) as ds:
        np.testing.assert_array_equal(ds.wind.sel(time=[2, 7]).values, X[[2, 7]])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dims", [None, ("y", "x")])
@pytest.mark.parametrize("fill", [0, 7])
def test_chunks_that_a_packed_file_leaves_out_are_read(server, tmp_path, zarr_format, dims, fill):
    url, asked = server
    x = X.copy()
    x[2:6] = fill
    with scene(tmp_path / "a", dims=dims, fill_value=fill) as a:
        a[2:6] = fill
        xa.pack(a, tmp_path / "a.xap", order="morton")
    with xa.open(tmp_path / "a.xap") as a:
        refs = a.to_kerchunk(zarr_format=zarr_format, url=f"{url}/a.xap")
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), x)
        assert len(asked) == 6
        if zarr_format == 2 and dims:  # zarr takes the fill value for missing elements
            with (
                xa.config.set(max_memory=6 * 12 - 1),
                pytest.raises(xa.ArgumentError, match="zarr_format=3"),
            ):
                a.to_kerchunk()


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("codec", ["zstd", "zstd:9:shuffle", "zlib", "zlib:shuffle"])
def test_zarr_decodes_compressed_chunks(server, tmp_path, codec, zarr_format):
    url, asked = server
    x = np.add.outer(np.arange(60) // 3, np.arange(90) // 7).astype("f4")
    x[:20, :30], x[20:40, :30] = 7, 0
    with xa.from_array(x, tmp_path / "a", chunks=(20, 30), dims=["y", "x"]) as a:
        xa.pack(a, tmp_path / "a.xap", order="hilbert", compression=codec)
    with xa.open(tmp_path / "a.xap") as a:
        refs = a.to_kerchunk(zarr_format=zarr_format, url=f"{url}/a.xap")
    np.testing.assert_array_equal(by_zarr(refs, zarr_format), x)
    assert len(asked) == 7  # the others, of one value, are in the references
    assert all(n < 1200 for _, n in asked)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_decodes_parts_of_chunks_as_one_stream(server, tmp_path, zarr_format):
    x = np.add.outer(np.arange(3000) // 3, np.arange(90) // 7).astype("f4")
    with xa.from_array(x, tmp_path / "a", chunks=(3000, 45)) as a:
        xa.pack(a, tmp_path / "a.xap", compression="zstd")
        xa.pack(a, tmp_path / "b.xap", compression="zstd:shuffle")
    with xa.open(tmp_path / "a.xap") as a:
        refs = a.to_kerchunk(zarr_format=zarr_format, url=f"{server[0]}/a.xap")
    np.testing.assert_array_equal(by_zarr(refs, zarr_format), x)
    with (
        xa.open(tmp_path / "b.xap") as a,
        pytest.raises(xa.ArgumentError, match="for chunks of up to 256 KiB"),
    ):
        a.to_kerchunk()
    y = x[:800].repeat(10, axis=1)
    with xa.from_array(y, tmp_path / "c", chunks=(800, 450), compression="zstd") as a:
        assert {one.scatters for one in a._store.now.frozen.stored(np.arange(2))} == {True}
        with pytest.raises(xa.ArgumentError, match="for chunks of up to 256 KiB"):
            a.to_kerchunk()
        np.testing.assert_array_equal(a[...], y)


@pytest.mark.parametrize("codec", ["lz4", "zstd:bitshuffle", "zstd"])
def test_what_zarr_does_not_decode_is_refused(tmp_path, codec):
    x = np.add.outer(np.arange(60) // 3, np.arange(90) // 7).astype("i4")
    if codec == "zstd":  # one chunk stays raw
        x[:20, :30] = np.random.default_rng(0).integers(-(2**31), 2**31, (20, 30))
    with xa.from_array(x, tmp_path / "a", chunks=(20, 30)) as a:
        xa.pack(a, tmp_path / "a.xap", compression=codec)
    with (
        xa.open(tmp_path / "a.xap") as a,
        pytest.raises(xa.ArgumentError, match="pack the array without compression"),
    ):
        a.to_kerchunk()


def test_a_url_is_text(tmp_path):
    with scene(tmp_path / "a") as a, pytest.raises(xa.ArgumentTypeError, match="url must be"):
        a.to_kerchunk(url=tmp_path)


# -- chunks that are frozen ------------------------------------------------------------------------

GROWN = np.add.outer(np.arange(70) // 3, np.arange(90) // 7).astype("f4")
GROWN[:20, :30], GROWN[20:40, :30] = 7, 0


def grown(path, codec):
    a = xa.create(path, (40, 90), "f4", chunks=(20, 30), compression=codec, freeze="never")
    a[...] = GROWN[:40]
    a.freeze()
    a.append(GROWN[40:])
    return a


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("codec", ["zstd", "zstd:9:shuffle", "zlib", "zlib:shuffle"])
def test_zarr_decodes_frozen_chunks(server, tmp_path, codec, zarr_format):
    url, asked = server
    with grown(tmp_path / "a", codec) as a:
        with pytest.raises(xa.ArgumentError, match=r"freeze all chunks alike with a.freeze\(\)"):
            a.to_kerchunk()
        a.freeze()
        refs = a.to_kerchunk(zarr_format=zarr_format, url=f"{url}/a")
        a.flush()  # makes holes
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), GROWN)
        assert {path for path, _ in asked} == {"/a.xtz"}
        assert len(asked) == 10  # the others, of one value, are in the references
        a[1, 1] = -1  # blobs stay where they are
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), GROWN)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_raw_chunks_and_chunks_that_did_not_shrink_are_read(server, tmp_path, zarr_format):
    url, asked = server
    x = np.random.default_rng(0).integers(0, 2**63, (40, 60))
    with xa.create(
        tmp_path / "a", x.shape, x.dtype, chunks=20, compression="zlib", freeze="never"
    ) as a:
        a[...] = x
        a[20:, 20:] = 0
        refs = a.to_kerchunk(zarr_format=zarr_format, url=f"{url}/a")
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), a[...])
        assert {path for path, _ in asked} == {"/a.xta"}
        a.freeze()
        for value in range(limits.rewrites + 1):  # the last one thaws it
            a[0, 0] = value
        refs = a.to_kerchunk(zarr_format=zarr_format, url=f"{url}/a")
        asked.clear()
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), a[...])
        assert {path for path, _ in asked} == {"/a.xta", "/a.xtz"}


def test_chunks_that_are_yet_to_be_frozen_are_refused(server, tmp_path):
    url, _ = server
    options = {"chunks": (20, 30), "compression": "zlib", "freeze": "close"}
    with xa.create(tmp_path / "a", GROWN.shape, "f4", **options) as a:
        a[...] = GROWN
        with pytest.raises(xa.ArgumentError, match="are not compressed yet"):
            a.to_kerchunk()
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(by_zarr(a.to_kerchunk(url=f"{url}/a")), GROWN)


def test_codecs_that_zarr_lacks_are_refused_for_frozen_chunks(tmp_path):
    with grown(tmp_path / "a", "lz4") as a:
        a.freeze()
        with pytest.raises(xa.ArgumentError, match="pack the array without compression"):
            a.to_kerchunk()


def test_groups_with_frozen_chunks(server, tmp_path):
    url, _ = server
    with xa.open_group(tmp_path / "g", "w") as g:
        g["plain"] = X
    with grown(tmp_path / "g" / "live", "zlib") as a:
        a.freeze()
    with xa.open_group(tmp_path / "g") as g:
        refs = g.to_kerchunk(url=f"{url}/g/")
    np.testing.assert_array_equal(by_zarr(refs, name="live"), GROWN)
    np.testing.assert_array_equal(by_zarr(refs, name="plain"), X)


@needs_obstore
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_frozen_chunks_elsewhere(tmp_path, zarr_format):
    with grown(tmp_path / "a", "zstd") as a, served(tmp_path) as web, xa.open(web.url("a")) as b:
        with pytest.raises(xa.ArgumentError, match=r"with a.freeze\(\)"):
            b.to_kerchunk()
        a.thaw()
        refs = b.to_kerchunk(zarr_format=zarr_format)
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), GROWN)
        a.freeze()
        a.flush()
        refs = b.to_kerchunk(zarr_format=zarr_format)
        assert refs["refs"]["2.2" if zarr_format == 2 else "c/2/2"][0] == web.url("a.xtz")
        web.forget()
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), GROWN)
        assert {request.path for request in web.requests} == {"/a.xtz"}
        for value in range(limits.rewrites + 1):  # the last one thaws it
            a[1, 1] = value
        with pytest.raises(xa.ArgumentError, match="freeze"):
            b.to_kerchunk()
        refs = b.to_kerchunk(url="s3://bucket/other") if a.freeze() else None
        assert refs["refs"]["2.2"][0] == "s3://bucket/other.xtz"


@needs_obstore
def test_chunks_elsewhere_that_are_yet_to_be_frozen_are_refused(tmp_path):
    options = {"chunks": (20, 30), "compression": "zlib", "freeze": "close"}
    with served(tmp_path) as web:
        with xa.create(tmp_path / "a", GROWN.shape, "f4", **options) as a:
            a[...] = GROWN
            with (
                xa.open(web.url("a")) as b,
                pytest.raises(xa.ArgumentError, match="are not compressed yet"),
            ):
                b.to_kerchunk()
        with xa.open(web.url("a")) as b:
            np.testing.assert_array_equal(by_zarr(b.to_kerchunk()), GROWN)


@needs_obstore
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("codec", ["zstd:shuffle", "zlib"])
def test_compressed_packed_files_elsewhere(tmp_path, codec, zarr_format):
    with xa.from_array(GROWN, tmp_path / "a", chunks=(20, 30)) as a:
        xa.pack(a, tmp_path / "a.xap", order="hilbert", compression=codec)
    with served(tmp_path) as web, xa.open(web.url("a.xap")) as b:
        web.forget()
        refs = b.to_kerchunk(zarr_format=zarr_format)
        assert not web.requests  # the end of the file has all
        np.testing.assert_array_equal(by_zarr(refs, zarr_format), GROWN)
