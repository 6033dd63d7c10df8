"""A camera: frames are appended one at a time; how long does the longest append take?

``python -m benchmarks.acquisition`` prints throughput and latencies beside those of other packages,
for frames of 1 to 8 MiB, in memory that this machine has just used and in memory that it has given
back to its host, and names packages that are not installed.
"""

from __future__ import annotations

import argparse
import importlib
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

#: Frames of a number of MiB.
SHAPES = {1: (1024, 512), 2: (1024, 1024), 4: (2048, 1024), 8: (2048, 2048)}
#: Seconds in which a guest gives free memory back to its host: Linux looks every two seconds, and
#: gives back a part of what is free each time.
REST = 8.0
#: Bytes that all frames of a run take at most.
MOST_BYTES = 5 << 28
MEMORY = {
    "used": "in memory that was just used",
    "given-back": "in memory that the guest has given back to its host, if it does",
}
#: Bounds of the histogram, in milliseconds.
BOUNDS = (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100)
PACKAGES = (
    "extarray", "numpy", "h5py", "zarr", "zarrs", "tensorstore", "acquire-zarr", "ome-writers"
)  # fmt: skip
CHUNKS = (16, 256, 256)
FRAME = "a chunk a frame"


@dataclass(frozen=True)
class Job:
    """The task of all candidates: write `n` uint16 frames of a shape to a file in a folder.

    `rest` is None if memory that the first run has used is to be used again; otherwise these are
    the seconds in which the host may take free memory back.  With `cpu`, the process's time on
    processors counts.
    """

    n: int
    frame: tuple[int, int]
    folder: str
    rest: float | None = None
    cpu: bool = False

    @property
    def nbytes(self) -> int:
        return self.n * self.frame[0] * self.frame[1] * 2

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
        chunks = (1, *job.frame) if self.chunks is FRAME else self.chunks
        chunks = job.chunks if chunks is CHUNKS else chunks
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
            "a", (0, *job.frame), np.uint16, chunks=self.grid, maxshape=(None, *job.frame)
        )

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.job.chunks

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

        importlib.import_module(self.backend.replace("-", "_"))  # it raises ValueError without it
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


PLAIN = "pwrite to a plain file"
SINKS: dict[str, Callable[[Job], Sink]] = {
    PLAIN: Plain,
    "np.memmap of known size": Memmap,
    "extarray": ours(),
    "extarray, a chunk a frame": ours(FRAME),
    "extarray, a chunk a frame, sparse": ours(FRAME, sparse=True),
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
    clock = time.process_time if job.cpu else time.perf_counter
    for is_timed in (False, True):
        shutil.rmtree(job.folder, ignore_errors=True)
        os.makedirs(job.folder)
        if is_timed and job.rest is not None:
            give_back(job)
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


def give_back(job: Job) -> None:
    """Free more memory than the job needs, in large blocks, and let the host take it back.

    A guest gives whole blocks of free memory back, of 2 MiB here, and the host has to find and
    clear others when they are touched again.  Where there is no such host, nothing changes.
    """
    block = np.ones(1 << 21, np.uint8)
    path = os.path.join(job.folder, "freed")
    with open(path, "wb", buffering=0) as file:
        n = job.nbytes * 5 // 4 // block.nbytes + 1
        file.writelines([block] * n)
    os.remove(path)
    assert job.rest is not None
    time.sleep(job.rest)


def best(results: list[Latencies | Missing]) -> Latencies | Missing:
    """Return the round with the least noise: the one with the shortest longest append."""
    found = [one for one in results if isinstance(one, Latencies)]
    return min(found, key=lambda one: one.at(100)) if found else results[0]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.acquisition")
    parser.add_argument("--frames", type=int, default=600, help="fewer if they take 1.25 GiB")
    parser.add_argument(
        "--mib", type=int, nargs="+", choices=SHAPES, default=[2], help="sizes of frames"
    )
    parser.add_argument("--shape", type=int, nargs=2, metavar=("Y", "X"), help="instead of --mib")
    parser.add_argument("--memory", nargs="+", choices=MEMORY, default=[*MEMORY])
    parser.add_argument("--rest", type=float, default=REST, help="seconds for giving memory back")
    parser.add_argument("--cpu", action="store_true", help="count the time on processors")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="candidates whose names have one of these")
    parser.add_argument("--folder", help="where the files go; a fresh one in the temporary folder")
    parser.add_argument("--json", help="write all latencies, in seconds, to this file")
    options = parser.parse_args(arguments)
    shapes = [tuple(options.shape)] if options.shape else [SHAPES[n] for n in options.mib]
    names = [n for n in SINKS if not options.only or any(some in n for some in options.only)]
    folder = tempfile.mkdtemp(dir=options.folder)
    stored: dict[str, dict[str, list[Any]]] = {}
    print(f"{load()}; {versions(*PACKAGES)}\n")
    try:
        for shape in shapes:
            n = max(1, min(options.frames, MOST_BYTES // (shape[0] * shape[1] * 2)))
            for memory in options.memory:
                rest = options.rest if memory == "given-back" else None
                job = Job(n, shape, os.path.join(folder, "job"), rest, options.cpu)
                results = rounds(job, names, options.rounds)
                print(report(job, memory, results), "\n", sep="")
                stored[f"{shape[0]} x {shape[1]}, {memory}"] = {
                    name: [vars(r) if isinstance(r, Missing) else r.appends.tolist() for r in found]
                    for name, found in results.items()
                }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        Path(options.json).write_text(json.dumps(stored))


def rounds(job: Job, names: list[str], n: int) -> dict[str, list[Latencies | Missing]]:
    """Let the candidates do a job in turn, `n` times."""
    results: dict[str, list[Latencies | Missing]] = {name: [] for name in names}
    for _ in range(n):
        for name in names:
            results[name].append(apart(acquire, name, job))
            shutil.rmtree(job.folder, ignore_errors=True)
            if hasattr(os, "sync"):  # not on Windows
                os.sync()
    return results


def report(job: Job, memory: str, results: dict[str, list[Latencies | Missing]]) -> str:
    """Return the tables of a job, and the goals that it misses."""
    plain = [r.seconds for r in results.get(PLAIN, ()) if isinstance(r, Latencies)]
    rows, bins, missed = [], [], []
    for name, found in results.items():
        one = best(found)
        if isinstance(one, Missing):
            rows.append([name, one.text, "", "", "", "", ""])
            continue
        seconds = min(r.seconds for r in found if isinstance(r, Latencies))
        figures = [one.at(50), one.at(99), one.at(99.9), one.at(100)]
        ratio = f"{seconds / min(plain):.2f}" if plain else "–"
        rate = f"{job.n / seconds:.0f}" if seconds else "–"
        rows.append([name, rate, ratio, *(f"{figure:.2f}" for figure in figures)])
        bins.append([name, *(str(n or "") for n in one.histogram())])
        if name.startswith("extarray"):
            if plain and seconds > 1.1 * min(plain):
                missed.append(f"- {name}: {ratio} of the time of pwrite, more than 1.1")
            if one.at(99.9) > 10 * one.at(50):
                missed.append(f"- {name}: 99.9 % of appends take up to {one.at(99.9):.2f} ms, more "
                              f"than ten times {one.at(50):.2f} ms")  # fmt: skip
    clock = "on processors" if job.cpu else "by the clock"
    head = ["", "frames/s", "of pwrite", "median ms", "99 %", "99.9 %", "longest"]
    bounds = ["", *(f"≤ {bound:g}" for bound in BOUNDS), f"> {BOUNDS[-1]}"]
    return "\n".join(
        [
            f"{job.n} frames of {job.frame} uint16, one at a time, {MEMORY[memory]}; time {clock}:",
            "",
            markdown(head, rows),
            "",
            "Appends by milliseconds:",
            "",
            markdown(bounds, bins),
            *(["", "Goals that are missed:", "", *missed] if missed else []),
        ]
    )


if __name__ == "__main__":
    main()
