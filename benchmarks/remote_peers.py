"""Formats that can be read over HTTP: how each is written, and opened at a URL.

Each reader is set up as its users are told to, with nothing left in a cache by an earlier one.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

#: Bytes of a page of the paged HDF5 file, and of what fsspec keeps for it.
PAGE, PAGES = 1 << 20, 64 << 20
NAME = "x"


@dataclass(frozen=True)
class Data:
    """A float32 array that grew along its three axes in turn, chunk by chunk."""

    folder: str
    chunks: tuple[int, int, int] = (19, 27, 60)
    grid: tuple[int, int, int] = (12, 10, 6)
    start: tuple[int, int, int] = (5, 4, 3)  # in chunks
    shard: tuple[int, int, int] = (4, 2, 3)  # likewise
    compress: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n * c for n, c in zip(self.grid, self.chunks, strict=True))

    def make(self) -> np.ndarray:
        """Return waves with some noise, and nothing over land: zstd leaves a third."""
        random = np.random.default_rng(0)
        t, y, x = np.ogrid[tuple(slice(0, n) for n in self.shape)]
        sea = np.cos(y / 23) + np.cos(x / 31 + y / 47) > -0.7
        field = 15 + 10 * np.cos(y / 60) * np.sin(x / 50 + t / 17) + np.cos(t / 6)
        field = field + random.normal(0, 0.05, self.shape)
        # Sensors resolve steps, here of 1/1024.
        return np.where(sea, np.round(field * 1024) / 1024, -1e34).astype("f4")

    @property
    def truth(self) -> np.ndarray:
        return np.load(os.path.join(self.folder, "truth.npy"), mmap_mode="r")

    def growths(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the first part of the array, as axis -1, and then each axis with what it gains."""
        values = self.truth
        now = [n * c for n, c in zip(self.start, self.chunks, strict=True)]
        yield -1, values[tuple(map(slice, now))]
        axis = 0
        while tuple(now) != self.shape:
            if now[axis] < self.shape[axis]:
                part = [slice(n) for n in now]
                part[axis] = slice(now[axis], now[axis] + self.chunks[axis])
                now[axis] += self.chunks[axis]
                yield axis, values[tuple(part)]
            axis = (axis + 1) % 3


@dataclass(frozen=True)
class Format:
    """A library's ways to write the array to a path, and to open it at a URL with brackets."""

    write: Callable[[Data, str], None]
    open: Callable[[str], Any]


# -- extarray --------------------------------------------------------------------------------------


def write_pair(data: Data, path: str) -> None:
    import extarray as xa

    growths = data.growths()
    _, first = next(growths)
    with xa.create(path, first.shape, "f4", chunks=data.chunks, dims=("t", "y", "x")) as array:
        array[...] = first
        for axis, part in growths:
            array.append(part, axis=axis)


def write_pack(data: Data, path: str, **options: Any) -> None:
    import extarray as xa

    codec = "zstd:1:shuffle" if data.compress else None
    write_pair(data, path + "-grown")
    with xa.open(path + "-grown") as array:
        xa.pack(array, path + ".xap", compression=codec, **options)
    for suffix in (".xmd", ".xta"):
        os.remove(path + "-grown" + suffix)


@contextmanager
def open_ours(url: str) -> Iterator[Any]:
    import extarray as xa

    with xa.open(url) as array:
        yield array


@contextmanager
def open_pack(url: str) -> Iterator[Any]:
    with open_ours(url + ".xap") as array:
        yield array


# -- zarr ------------------------------------------------------------------------------------------


def zarr_options(data: Data, sharded: bool) -> dict[str, Any]:
    from zarr.codecs import BloscCodec

    codec = BloscCodec(cname="zstd", clevel=1, shuffle="shuffle") if data.compress else None
    options = {"shape": data.shape, "dtype": "f4", "chunks": data.chunks, "compressors": codec}
    if sharded:
        options["shards"] = tuple(n * c for n, c in zip(data.shard, data.chunks, strict=True))
    return options


def write_zarr(data: Data, path: str, sharded: bool = False) -> None:
    import zarr

    array = zarr.create_array(path, **zarr_options(data, sharded))
    array[...] = data.truth


@contextmanager
def open_zarr(url: str) -> Iterator[Any]:
    import zarr
    from obstore.store import HTTPStore
    from zarr.storage import ObjectStore

    store = HTTPStore(url, client_options={"allow_http": True})
    yield zarr.open_array(ObjectStore(store, read_only=True), mode="r", zarr_format=3)


def write_icechunk(data: Data, path: str) -> None:
    import icechunk
    import zarr

    icechunk.set_logs_filter("error")  # it warns of concurrent commits
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(path))
    session = repository.writable_session("main")
    array = zarr.create_array(session.store, name=NAME, **zarr_options(data, False))
    array[...] = data.truth
    session.commit("all of it")


@contextmanager
def open_icechunk(url: str) -> Iterator[Any]:
    import icechunk
    import zarr
    from icechunk import http_storage  # since version 2

    repository = icechunk.Repository.open(http_storage(url))
    session = repository.readonly_session("main")
    yield zarr.open_array(session.store, path=NAME, mode="r")


# -- HDF5 ------------------------------------------------------------------------------------------


def hdf5_options(data: Data) -> dict[str, Any]:
    if not data.compress:
        return {"chunks": data.chunks}
    import hdf5plugin

    return {"chunks": data.chunks, "shuffle": True, **hdf5plugin.Zstd(1)}


def write_hdf5(data: Data, path: str) -> None:
    import h5py

    growths = data.growths()
    _, first = next(growths)
    with h5py.File(path + ".h5", "w", libver="latest") as file:
        array = file.create_dataset(
            NAME, first.shape, "f4", maxshape=(None,) * 3, **hdf5_options(data)
        )
        array[...] = first
        for axis, part in growths:
            start = array.shape[axis]
            array.resize(start + part.shape[axis], axis)
            array[tuple(slice(start, None) if i == axis else slice(None) for i in range(3))] = part


def write_paged(data: Data, path: str) -> None:
    import h5py

    how = {"libver": "latest", "fs_strategy": "page", "fs_page_size": PAGE}
    with h5py.File(path + ".h5", "w", **how) as file:
        file.create_dataset(NAME, data=data.truth, **hdf5_options(data))


@contextmanager
def open_hdf5(url: str, paged: bool = False) -> Iterator[Any]:
    import fsspec
    import h5py
    import hdf5plugin

    assert hdf5plugin
    web = fsspec.filesystem("http", skip_instance_cache=True)
    how = {"cache_type": "blockcache", "block_size": PAGE} if paged else {}
    kept = {"page_buf_size": PAGES, "rdcc_nbytes": PAGES} if paged else {}
    with web.open(url + ".h5", **how) as file, h5py.File(file, "r", **kept) as opened:
        yield opened[NAME]


def write_kerchunk(data: Data, path: str) -> None:
    from kerchunk.hdf import SingleHdf5ToZarr

    write_hdf5(data, path)
    name = os.path.basename(path) + ".h5"
    with open(path + ".h5", "rb") as file:
        references = SingleHdf5ToZarr(file, "{{u}}/" + name, inline_threshold=0).translate()
    references["templates"] = {"u": ""}  # the folder's URL, which readers give
    with open(path + ".json", "w", encoding="utf-8") as file:
        json.dump(references, file)


@contextmanager
def open_kerchunk(url: str) -> Iterator[Any]:
    import fsspec
    import zarr
    from zarr.storage import FsspecStore

    web = fsspec.filesystem(
        "reference",
        fo=url + ".json",
        template_overrides={"u": url.rpartition("/")[0]},
        target_protocol="http",
        remote_protocol="http",
        remote_options={"asynchronous": True},
        asynchronous=True,
        skip_instance_cache=True,
    )
    yield zarr.open_group(FsspecStore(web, read_only=True), mode="r", zarr_format=2)[NAME]


# -- GeoTIFF ---------------------------------------------------------------------------------------


def write_cog(data: Data, path: str) -> None:
    """Write a plane of the first axis as a band, in tiles of about a chunk's bytes."""
    import rasterio
    import rasterio.shutil
    from rasterio.errors import NotGeoreferencedWarning

    warnings.simplefilter("ignore", NotGeoreferencedWarning)
    n, height, width = data.shape
    side = 16 * max(1, round(np.prod(data.chunks) ** 0.5 / 16))
    more = {"compress": "ZSTD", "predictor": 3} if data.compress else {}
    how = {"tiled": True, "blockxsize": side, "blockysize": side, "interleave": "band", **more}
    plain = path + "-plain.tif"
    with rasterio.open(
        plain, "w", "GTiff", width, height, n, dtype="float32", bigtiff="yes"
    ) as file:
        file.write(data.truth)
    rasterio.shutil.copy(plain, path + ".tif", "GTiff", copy_src_overviews=True, **how)
    os.remove(plain)


class Bands:
    """The bands of an image as the first axis of an array."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.shape = (file.count, file.height, file.width)

    def __getitem__(self, selection: Any) -> np.ndarray:
        from rasterio.windows import Window

        given = () if selection is Ellipsis else np.index_exp[selection]
        given += (slice(None),) * (3 - len(given))
        (b, _), (y, bottom), (x, right) = bounds = [
            k.indices(n)[:2] if isinstance(k, slice) else (k, k + 1)
            for k, n in zip(given, self.shape, strict=True)
        ]
        found = self._file.read(
            range(b + 1, bounds[0][1] + 1), window=Window(x, y, right - x, bottom - y)
        )
        return found[tuple(slice(None) if isinstance(k, slice) else 0 for k in given)]


@contextmanager
def open_cog(url: str) -> Iterator[Any]:
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    warnings.simplefilter("ignore", NotGeoreferencedWarning)
    how = {
        "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
        "GDAL_HTTP_MERGE_CONSECUTIVE_RANGES": "YES",
        "GDAL_INGESTED_BYTES_AT_OPEN": 1 << 16,
        "GDAL_NUM_THREADS": "ALL_CPUS",
    }
    with rasterio.Env(**how), rasterio.open(f"/vsicurl/{url}.tif") as file:
        yield Bands(file)


#: Ours; the last ones have an order that suits reading.
PACK, PAIR, MORTON, HILBERT = OURS = (
    "extarray",
    "extarray, pair",
    "extarray, morton",
    "extarray, hilbert",
)
ZARR, SHARDS, ICECHUNK, KERCHUNK = RIVALS = ("zarr", "zarr, shards", "icechunk", "kerchunk")

FORMATS = {
    PACK: Format(write_pack, open_pack),
    PAIR: Format(write_pair, open_ours),
    MORTON: Format(partial(write_pack, order="morton"), open_pack),
    HILBERT: Format(partial(write_pack, order="hilbert"), open_pack),
    ZARR: Format(write_zarr, open_zarr),
    SHARDS: Format(partial(write_zarr, sharded=True), open_zarr),
    ICECHUNK: Format(write_icechunk, open_icechunk),
    KERCHUNK: Format(write_kerchunk, open_kerchunk),
    "h5py": Format(write_hdf5, open_hdf5),
    "h5py, paged": Format(write_paged, partial(open_hdf5, paged=True)),
    "COG": Format(write_cog, open_cog),
}
