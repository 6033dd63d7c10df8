"""Reads of uncached data: seconds, and bytes that the disk delivers.

``python -m benchmarks.cold`` prints both beside other libraries, and the speed of the disk itself.
As root it drops the system's cache before each read.  Otherwise, or with --own, it makes the system
forget only its own files, which disturbs no other program.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .apart import Missing, apart, load, markdown, versions

PACKAGES = ("extarray", "numpy", "h5py", "zarr", "zarrs", "tensorstore", "blosc2")
CACHES = Path("/proc/sys/vm/drop_caches")
PIECE = 1 << 21


# -- the disk --------------------------------------------------------------------------------------


def forget(folder: str, own: bool) -> None:
    """Remove the files in a folder from the system's cache."""
    os.sync()
    for place, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(place, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
    if not own:
        CACHES.write_text("1")


def delivered() -> int:
    """Return the bytes that the disk has delivered to this process, read-ahead included."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["read_bytes"])


def direct(path: str) -> float:
    """Return the bytes per second of reading a file from its start, past the system's cache."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECT", 0))
    try:
        with mmap.mmap(-1, 4 * PIECE) as buffer:
            start, done = time.perf_counter(), 0
            while n := os.preadv(fd, [buffer], done):
                done += n
            return done / (time.perf_counter() - start)
    finally:
        os.close(fd)


# -- reads -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """A cube of float64 in cubic chunks."""

    side: int
    chunk: int
    folder: str
    own: bool  # only these files are dropped from the cache

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.side,) * 3

    @property
    def chunks(self) -> tuple[int, int, int]:
        return (self.chunk,) * 3

    def slabs(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the elements in slabs, one chunk thick along axis 0."""
        numbers = np.random.default_rng(0)
        for i in range(0, self.side, self.chunk):
            yield slice(i, i + self.chunk), numbers.random((self.chunk, self.side, self.side))

    def reads(self) -> dict[str, list[Any]]:
        """Return the names of reads, each with its selections."""
        random = np.random.default_rng(3)
        n, c = self.side, self.chunk
        cut = lambda corner, by: tuple(slice(i, i + by) for i in corner)  # noqa: E731
        corners = random.integers(0, n - c + 1, (40, 3)).tolist()
        whole = (random.integers(0, n // c, (40, 3)) * c).tolist()
        few = max(1, c // 6)
        return {
            "300 scattered elements": [tuple(i) for i in random.integers(0, n, (300, 3)).tolist()],
            f"40 boxes of {few}³": [cut(corner, few) for corner in corners],
            f"40 boxes of {c}³": [cut(corner, c) for corner in corners],
            "40 whole chunks": [cut(corner, c) for corner in whole],
            "a plane across axis 0": [np.s_[n // 5]],
            "a plane across axis 1": [np.s_[:, n // 5]],
            "a plane across axis 2": [np.s_[:, :, n // 5]],
            "[::4, ::4, ::4]": [np.s_[::4, ::4, ::4]],
            "everything": [np.s_[...]],
        }


# -- libraries -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Store:
    """A library's ways to write the cube and to open it with brackets."""

    write: Callable[[Data, str], None]
    open: Callable[[str], Any]
    same_as: str = ""  # name of the candidate whose file it reads
    options: dict[str, Any] = field(default_factory=dict)


def write_ours(data: Data, path: str) -> None:
    import extarray as xa

    with xa.create(path, data.shape, np.float64, chunks=data.chunks) as array:
        for part, block in data.slabs():
            array[part] = block


@contextmanager
def open_ours(path: str, **options: Any) -> Iterator[Any]:
    import extarray as xa

    with xa.open(path, **options) as array:
        yield array


def write_npy(data: Data, path: str) -> None:
    array = np.lib.format.open_memmap(path + ".npy", "w+", np.float64, data.shape)
    for part, block in data.slabs():
        array[part] = block


@contextmanager
def open_npy(path: str) -> Iterator[Any]:
    array = np.load(path + ".npy", mmap_mode="r")

    class Copies:
        def __getitem__(self, selection: Any) -> np.ndarray:
            return np.array(array[selection])

    yield Copies()


def write_hdf5(data: Data, path: str) -> None:
    import h5py

    with h5py.File(path, "w", libver="latest") as file:
        array = file.create_dataset("a", data.shape, np.float64, chunks=data.chunks)
        for part, block in data.slabs():
            array[part] = block


@contextmanager
def open_hdf5(path: str, **options: Any) -> Iterator[Any]:
    import h5py

    with h5py.File(path, **options) as file:
        yield file["a"]


def write_zarr(data: Data, path: str) -> None:
    import zarr

    array = zarr.create_array(
        path, shape=data.shape, chunks=data.chunks, dtype=np.float64, compressors=None
    )
    for part, block in data.slabs():
        array[part] = block


@contextmanager
def open_zarr(path: str, pipeline: str = "") -> Iterator[Any]:
    import zarr

    if pipeline:
        import zarrs

        assert zarrs
        zarr.config.set({"codec_pipeline.path": pipeline})
    yield zarr.open_array(path, mode="r")


@contextmanager
def open_tensorstore(path: str) -> Iterator[Any]:
    import tensorstore as ts

    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": path},
        "context": {
            "cache_pool": {"total_bytes_limit": 2**31},
            "file_io_mode": {"mode": "memmap"},
        },
        "recheck_cached_data": "open",
    }
    array = ts.open(spec).result()

    class Results:
        def __getitem__(self, selection: Any) -> np.ndarray:
            return array[selection].read().result()

    yield Results()


def write_blosc2(data: Data, path: str) -> None:
    import blosc2

    array = blosc2.empty(
        data.shape, np.float64, chunks=data.chunks, urlpath=path, cparams={"clevel": 0}
    )
    for part, block in data.slabs():
        array[part] = block


@contextmanager
def open_blosc2(path: str) -> Iterator[Any]:
    import blosc2

    yield blosc2.open(path, mode="r", mmap_mode="r")


CACHE = {"rdcc_nbytes": 2**31, "rdcc_nslots": 100_003}
STORES = {
    "extarray": Store(write_ours, open_ours, options={"engine": "mmap"}),
    "extarray, pread": Store(write_ours, open_ours, "extarray", {"engine": "pread"}),
    "np.load": Store(write_npy, open_npy),
    "h5py": Store(write_hdf5, open_hdf5),
    "h5py, cache": Store(write_hdf5, open_hdf5, "h5py", CACHE),
    "zarr": Store(write_zarr, open_zarr),
    "zarr, zarrs": Store(write_zarr, open_zarr, "zarr", {"pipeline": "zarrs.ZarrsCodecPipeline"}),
    "TensorStore": Store(write_zarr, open_tensorstore, "zarr"),
    "Blosc2": Store(write_blosc2, open_blosc2),
}


def path_of(name: str, data: Data) -> str:
    return os.path.join(data.folder, (STORES[name].same_as or name).replace(" ", "-"))


def written(name: str, data: Data) -> bool:
    """Write the file that a candidate reads, unless it exists."""
    path = path_of(name, data)
    if not os.path.exists(path + ".done"):
        STORES[name].write(data, path)
        Path(path + ".done").touch()
    return True


def measured(name: str, data: Data, read: str) -> tuple[float, int]:
    """Return a read's seconds, without opening, and the bytes that the disk delivered."""
    selections = data.reads()[read]
    with STORES[name].open(path_of(name, data), **STORES[name].options) as array:
        array[0, 0, 0]  # the first read loads modules
        forget(data.folder, data.own)
        before, start = delivered(), time.perf_counter()
        for selection in selections:
            array[selection]
        return time.perf_counter() - start, delivered() - before


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.cold")
    parser.add_argument("--side", type=int, default=512, help="elements along each axis")
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--only", nargs="+", help="candidates whose names have one of these")
    parser.add_argument("--case", nargs="+", help="reads whose names have one of these")
    parser.add_argument("--folder", help="where the files go: on a disk, and not in memory")
    parser.add_argument("--own", action="store_true", help="forget these files alone, as root too")
    parser.add_argument("--json", help="write the figures of all rounds to this file")
    options = parser.parse_args(arguments)
    names = [n for n in STORES if not options.only or any(some in n for some in options.only)]
    folder = tempfile.mkdtemp(dir=options.folder)
    own = options.own or not os.access(CACHES, os.W_OK)
    data = Data(options.side, options.chunk, folder, own)
    reads = [
        read
        for read in data.reads()
        if not options.case or any(some in read for some in options.case)
    ]
    found: dict[str, dict[str, list[tuple[float, int]]]] = {read: {} for read in reads}
    absent: dict[str, str] = {}
    try:
        for name in names:
            if isinstance(outcome := apart(written, name, data), Missing):
                absent[name] = outcome.text
        for read in reads:
            for _ in range(options.rounds):
                for name in names:
                    if name in absent:
                        continue
                    outcome = apart(measured, name, data, read)
                    if isinstance(outcome, Missing):
                        absent[name] = outcome.text
                    else:
                        found[read].setdefault(name, []).append(outcome)
        limit = disk(data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    how = "its own files forgotten" if own else "the cache dropped"
    print(
        f"{data.side}³ float64 in chunks of {data.chunk}³, {how}; {load()}; {versions(*PACKAGES)}\n"
        f"The disk reads {limit / 1e6:.0f} MB/s past the cache.\n"
    )
    shown = [name for name in names if name not in absent]
    for title, which, scale in (("Milliseconds", 0, 1e3), ("Megabytes delivered", 1, 1e-6)):
        rows = [
            [read, *(f"{middle(times[name], which) * scale:.3g}" for name in shown)]
            for read, times in found.items()
        ]
        print(f"{title}:\n\n{markdown(['', *shown], rows)}\n")
    for name, text in absent.items():
        print(f"- {name}: {text}")
    if options.json:
        Path(options.json).write_text(json.dumps(found))


def disk(data: Data) -> float:
    """Return the bytes per second that the disk delivers of the largest file."""
    files = [path for path in Path(data.folder).rglob("*") if path.is_file()]
    forget(data.folder, data.own)
    return direct(str(max(files, key=lambda path: path.stat().st_size))) if files else 0.0


def middle(figures: list[tuple[float, int]], which: int) -> float:
    return float(np.median([figure[which] for figure in figures]))


if __name__ == "__main__":
    main()
