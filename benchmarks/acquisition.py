"""A camera: frames are appended one at a time; how long does the longest append take?

``python -m benchmarks.acquisition`` prints throughput and latencies beside those of other packages,
and names packages that are not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from extarray.common.system import write_at

from .apart import Missing, apart, load, markdown, versions

#: Bounds of the histogram, in milliseconds.
BOUNDS = (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100)
PACKAGES = (
    "extarray", "numpy", "h5py", "zarr", "zarrs", "tensorstore", "acquire-zarr", "ome-writers"
)  # fmt: skip
CHUNKS = (16, 256, 256)


@dataclass(frozen=True)
class Job:
    """The task of all candidates: write `n` uint16 frames of a shape to a file in a folder."""

    n: int
    frame: tuple[int, int]
    folder: str

    @property
    def chunks(self) -> tuple[int, int, int]:
        return (CHUNKS[0], min(CHUNKS[1], self.frame[0]), min(CHUNKS[2], self.frame[1]))

    def frames(self) -> np.ndarray:
        """Some frames, used over and over."""
        return np.random.default_rng(0).integers(0, 2**16, (8, *self.frame), np.uint16)


class Sink:
    """A way to write frames: create it for a job, `append` each frame, `close`, and `read` one."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.path = os.path.join(job.folder, "data")

    def append(self, i: int, frame: np.ndarray) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """End the acquisition."""

    def read(self, i: int) -> np.ndarray:
        """Return a frame of the file after `close`."""
        raise NotImplementedError


class Plain(Sink):
    """pwrite to a plain file, at the system's speed."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT)

    def append(self, i: int, frame: np.ndarray) -> None:
        write_at(self.fd, frame.data, i * frame.nbytes)

    def close(self) -> None:
        os.close(self.fd)

    def read(self, i: int) -> np.ndarray:
        return np.memmap(self.path, np.uint16, "r", shape=(self.job.n, *self.job.frame))[i]


class Memmap(Plain):
    """np.memmap, which has to know the size in advance."""

    def __init__(self, job: Job) -> None:
        Sink.__init__(self, job)
        shape = (job.n, *job.frame)
        self.map = np.lib.format.open_memmap(self.path, "w+", np.uint16, shape)

    def append(self, i: int, frame: np.ndarray) -> None:
        self.map[i] = frame

    def close(self) -> None:
        del self.map

    def read(self, i: int) -> np.ndarray:
        return np.load(self.path, mmap_mode="r")[i]


class Ours(Sink):
    """extarray, one append per frame."""

    chunks: Any = None
    options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        import extarray as xa

        shape = (0, *job.frame)
        chunks = job.chunks if self.chunks is CHUNKS else self.chunks
        self.array = xa.create(self.path, shape, np.uint16, chunks=chunks, **self.options)

    def append(self, i: int, frame: np.ndarray) -> None:
        self.array.append(frame[None])

    def close(self) -> None:
        self.array.close()

    def read(self, i: int) -> np.ndarray:
        import extarray as xa

        with xa.open(self.path) as array:
            return array[i]


def ours(given: Any = None, **given_options: Any) -> type[Ours]:
    """Return a candidate with given chunks and options."""

    class Given(Ours):
        chunks = given
        options = given_options

    return Given


class HDF5(Sink):
    """h5py: resize, then assign."""

    cache: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        import h5py

        self.file = h5py.File(self.path, "w", libver="latest", locking=False, **self.cache)
        self.set = self.file.create_dataset(
            "a", (0, *job.frame), np.uint16, chunks=job.chunks, maxshape=(None, *job.frame)
        )

    def append(self, i: int, frame: np.ndarray) -> None:
        self.set.resize(i + 1, axis=0)
        self.set[i] = frame

    def close(self) -> None:
        self.file.close()

    def read(self, i: int) -> np.ndarray:
        import h5py

        with h5py.File(self.path) as file:
            return file["a"][i]


class HDF5Cache(HDF5):
    """h5py with a cache larger than the data."""

    cache = {"rdcc_nbytes": 2**31, "rdcc_nslots": 100_003}  # noqa: RUF012


class Zarr(Sink):
    """zarr: resize, then assign; without compression."""

    pipeline: str | None = None

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        import zarr

        if self.pipeline is not None:
            import zarrs

            assert zarrs
            zarr.config.set({"codec_pipeline.path": self.pipeline})
        self.array = zarr.create_array(
            self.path, shape=(0, *job.frame), chunks=self.grid, dtype=np.uint16, compressors=None
        )

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.job.chunks

    def append(self, i: int, frame: np.ndarray) -> None:
        self.array.resize((i + 1, *self.job.frame))
        self.array[i] = frame

    def read(self, i: int) -> np.ndarray:
        import zarr

        return zarr.open_array(self.path)[i]


class ZarrFrames(Zarr):
    """zarr with one chunk per frame."""

    @property
    def grid(self) -> tuple[int, int, int]:
        return (1, *self.job.frame)


class Zarrs(ZarrFrames):
    """zarr with zarrs' pipeline, one chunk per frame."""

    pipeline = "zarrs.ZarrsCodecPipeline"


class ZarrBuffered(Zarr):
    """zarr, with frames buffered by hand until chunks are full."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.buffer = np.empty((job.chunks[0], *job.frame), np.uint16)
        self.n = 0

    def append(self, i: int, frame: np.ndarray) -> None:
        self.buffer[self.n] = frame
        self.n += 1
        if self.n == len(self.buffer):
            self.flush(i + 1)

    def flush(self, n: int) -> None:
        self.array.resize((n, *self.job.frame))
        self.array[n - self.n : n] = self.buffer[: self.n]
        self.n = 0

    def close(self) -> None:
        if self.n:
            self.flush(self.job.n)


class TensorStore(ZarrBuffered):
    """TensorStore's zarr3 driver, with frames buffered by hand until chunks are full."""

    def __init__(self, job: Job) -> None:
        Sink.__init__(self, job)
        self.buffer = np.empty((job.chunks[0], *job.frame), np.uint16)
        self.n = 0
        self.store = self.opened(create=True)

    def opened(self, **options: Any) -> Any:
        import tensorstore as ts

        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": self.path},
            "context": {"file_io_sync": False, "file_io_mode": {"mode": "memmap"}},
        }
        if options:
            grid = {"name": "regular", "configuration": {"chunk_shape": self.job.chunks}}
            metadata = {"shape": [0, *self.job.frame], "data_type": "uint16", "chunk_grid": grid}
            spec["metadata"] = metadata
        return ts.open(spec, **options).result()

    def flush(self, n: int) -> None:
        self.store = self.store.resize(exclusive_max=[n, *self.job.frame]).result()
        self.store[n - self.n : n].write(self.buffer[: self.n]).result()
        self.n = 0

    def read(self, i: int) -> np.ndarray:
        return self.opened()[i].read().result()


class AcquireZarr(Sink):
    """acquire-zarr, which writes full chunks in its own threads."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        import acquire_zarr as aqz

        kinds = (aqz.DimensionType.TIME, aqz.DimensionType.SPACE, aqz.DimensionType.SPACE)
        dimensions = [
            aqz.Dimension(
                name=name, kind=kind, array_size_px=size, chunk_size_px=chunk, shard_size_chunks=1
            )
            for name, kind, size, chunk in zip(
                "tyx", kinds, (0, *job.frame), job.chunks, strict=True
            )
        ]
        array = aqz.ArraySettings(
            output_key="a", data_type=aqz.DataType.UINT16, dimensions=dimensions
        )
        self.stream = aqz.ZarrStream(
            aqz.StreamSettings(store_path=self.path, arrays=[array], overwrite=True)
        )

    def append(self, i: int, frame: np.ndarray) -> None:
        self.stream.append(frame[None])

    def close(self) -> None:
        self.stream.close()

    def read(self, i: int) -> np.ndarray:
        import zarr

        return zarr.open_group(self.path, mode="r")["a"][i]


class OmeWriters(Sink):
    """ome-writers, through one of its backends."""

    backend = ""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        import ome_writers as ow

        y, x = job.frame
        self.path += ".ome.zarr"
        settings = ow.AcquisitionSettings(
            root_path=self.path,
            dimensions=[
                ow.Dimension(name="t", count=job.n, chunk_size=job.chunks[0], type="time"),
                ow.Dimension(name="y", count=y, chunk_size=job.chunks[1], type="space"),
                ow.Dimension(name="x", count=x, chunk_size=job.chunks[2], type="space"),
            ],
            dtype="uint16",
            format={"name": "ome-zarr", "backend": self.backend},
            overwrite=True,
        )
        self.stream = ow.create_stream(settings)

    def append(self, i: int, frame: np.ndarray) -> None:
        self.stream.append(frame)

    def close(self) -> None:
        self.stream.close()

    def read(self, i: int) -> np.ndarray:
        import zarr

        group = zarr.open_group(self.path, mode="r")
        return (group["0"] if isinstance(group, zarr.Group) else group)[i]


class OmeTensorStore(OmeWriters):
    """ome-writers with TensorStore."""

    backend = "tensorstore"


class OmeAcquire(OmeWriters):
    """ome-writers with acquire-zarr."""

    backend = "acquire-zarr"


SINKS: dict[str, Callable[[Job], Sink]] = {
    "pwrite to a plain file": Plain,
    "np.memmap of known size": Memmap,
    "extarray": ours(),
    "extarray, (16, 256, 256)": ours(CHUNKS),
    "extarray, (64, 128, 128)": ours((64, 128, 128)),
    "extarray, sparse": ours(sparse=True),
    "extarray, pread": ours(engine="pread"),
    "h5py": HDF5,
    "h5py, cache": HDF5Cache,
    "zarr": Zarr,
    "zarr, a chunk a frame": ZarrFrames,
    "zarr, a chunk a frame, zarrs": Zarrs,
    "zarr, frames kept by hand": ZarrBuffered,
    "TensorStore, frames kept by hand": TensorStore,
    "acquire-zarr": AcquireZarr,
    "ome-writers, TensorStore": OmeTensorStore,
    "ome-writers, acquire-zarr": OmeAcquire,
}


@dataclass(frozen=True)
class Latencies:
    """Seconds of each append, and of all appends with `close`."""

    appends: np.ndarray
    seconds: float

    @property
    def rate(self) -> float:
        """Frames per second."""
        return len(self.appends) / self.seconds

    def at(self, percent: float) -> float:
        """Return a percentile, in milliseconds."""
        return float(np.percentile(self.appends, percent)) * 1e3

    def histogram(self) -> list[int]:
        """Return the number of appends between neighbouring bounds in milliseconds."""
        edges = np.array([0, *BOUNDS, np.inf]) / 1e3
        return [int(n) for n in np.histogram(self.appends, edges)[0]]


def acquire(name: str, job: Job) -> Latencies:
    """Write all frames twice, and time the second run.

    A virtual machine may have returned free memory to its host; the first run that takes it back
    pays for later runs, too.  The first run also loads modules.
    """
    frames = job.frames()
    clock = time.perf_counter
    for _ in range(2):
        shutil.rmtree(job.folder, ignore_errors=True)
        os.makedirs(job.folder)
        sink = SINKS[name](job)
        appends = np.empty(job.n)
        begun = clock()
        for i in range(job.n):
            start = clock()
            sink.append(i, frames[i % len(frames)])
            appends[i] = clock() - start
        sink.close()
        result = Latencies(appends, clock() - begun)
    for i in (0, job.n // 2, job.n - 1):
        if not np.array_equal(sink.read(i), frames[i % len(frames)]):
            raise AssertionError(f"frame {i} is not what was written")
    return result


def best(results: list[Latencies | Missing]) -> Latencies | Missing:
    """Return the round with the least noise: the one with the shortest longest append."""
    found = [one for one in results if isinstance(one, Latencies)]
    return min(found, key=lambda one: one.at(100)) if found else results[0]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.acquisition")
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--shape", type=int, nargs=2, default=(1024, 1024), metavar=("Y", "X"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="candidates whose names have one of these")
    parser.add_argument("--folder", help="where the files go; a fresh one in the temporary folder")
    parser.add_argument("--json", help="write all latencies, in seconds, to this file")
    options = parser.parse_args(arguments)
    names = [n for n in SINKS if not options.only or any(some in n for some in options.only)]
    results: dict[str, list[Latencies | Missing]] = {name: [] for name in names}
    folder = tempfile.mkdtemp(dir=options.folder)
    try:
        job = Job(options.frames, tuple(options.shape), os.path.join(folder, "job"))
        for _ in range(options.rounds):
            for name in names:
                results[name].append(apart(acquire, name, job))
                shutil.rmtree(job.folder, ignore_errors=True)
                if hasattr(os, "sync"):  # not on Windows
                    os.sync()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{job.n} frames of {job.frame} uint16, one at a time; {load()}; {versions(*PACKAGES)}\n")
    rows, bins = [], []
    for name, rounds in results.items():
        one = best(rounds)
        if isinstance(one, Missing):
            rows.append([name, one.text, "", "", "", ""])
            continue
        rate = max(r.rate for r in rounds if isinstance(r, Latencies))
        figures = [one.at(50), one.at(99), one.at(99.9), one.at(100)]
        rows.append([name, f"{rate:.0f}", *(f"{figure:.2f}" for figure in figures)])
        bins.append([name, *(str(n or "") for n in one.histogram())])
    head = ["", "frames/s", "median ms", "99 %", "99.9 %", "longest"]
    print(markdown(head, rows), "\n\nAppends by milliseconds:\n", sep="")
    print(markdown(["", *(f"≤ {bound:g}" for bound in BOUNDS), f"> {BOUNDS[-1]}"], bins))
    if options.json:
        stored = {
            name: [vars(r) if isinstance(r, Missing) else r.appends.tolist() for r in rounds]
            for name, rounds in results.items()
        }
        Path(options.json).write_text(json.dumps(stored))


if __name__ == "__main__":
    main()
