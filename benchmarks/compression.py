"""Compressed arrays that grow, beside h5py, zarr and Blosc2: the same codec, filter and chunks.

``python -m benchmarks.compression`` prints a table for each size of chunk: times of the others in
units of ours (of another library's with ``--unit``), so that less than 1 is faster than ours.  All
have zstd of level 1 after a shuffle of bytes, and one thread.  The libraries take turns, line by
line and round by round, and the fastest round counts; what is read is compared with what was
written, untimed.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .apart import load, markdown, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CACHE = 64 << 20  # bytes of decoded chunks that each library may keep
LEVEL = 1
ENOUGH = 2.0  # seconds; what takes longer is measured once
THREAD = "threads"


# -- libraries -------------------------------------------------------------------------------------


class Library(ABC):
    """An array on disk of one library; the least that all of them can do.

    Parameters
    ----------
    path : str
        Of the file or folder.
    """

    name: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()

    def __init__(self, path: str) -> None:
        self.path = path
        self.array: Any = None

    @abstractmethod
    def create(self, shape: tuple[int, ...], dtype: str, chunks: tuple[int, ...]) -> None:
        """Create the array."""

    @abstractmethod
    def open(self, mode: str) -> None:
        """Open the array."""

    def grow(self, shape: tuple[int, ...]) -> None:
        self.array.resize(shape)

    def close(self) -> None:
        self.array = None

    @property
    def bytes_on_disk(self) -> int:
        parent, name = os.path.split(self.path)
        found = [os.path.join(parent, one) for one in os.listdir(parent) if one.startswith(name)]
        nested = [Path(one).rglob("*") for one in found]
        return sum(os.stat(one).st_blocks * 512 for part in [found, *nested] for one in part)


class Ours(Library):
    name = "extarray"
    modules = ("extarray",)
    options: ClassVar[dict[str, Any]] = {"freeze": "behind"}

    def create(self, shape: tuple[int, ...], dtype: str, chunks: tuple[int, ...]) -> None:
        import extarray as xa

        options = dict(self.options)
        if options:
            options["compression"] = xa.Codec("zstd", level=LEVEL, filter="shuffle")
        self.array = xa.create(self.path, shape, dtype, chunks=chunks, **options)

    def open(self, mode: str) -> None:
        import extarray as xa

        self.array = xa.open(self.path, mode)

    def grow(self, shape: tuple[int, ...]) -> None:
        for axis, (old, new) in enumerate(zip(self.array.shape, shape, strict=True)):
            if new > old:
                self.array.extend(axis, new - old)

    def close(self) -> None:
        if self.array is not None:
            self.array.close()
        self.array = None


class Uncompressed(Ours):
    name = "uncompressed"
    options: ClassVar[dict[str, Any]] = {}


class OfH5py(Library):
    """HDF5's newest file format, without locks."""

    name = "h5py"
    modules = ("h5py", "hdf5plugin")

    def _file(self, mode: str) -> Any:
        import h5py

        options = {"rdcc_nbytes": CACHE, "rdcc_nslots": 100_003}
        return h5py.File(self.path, mode, libver="latest", locking=False, **options)

    def filters(self) -> dict[str, Any]:
        import hdf5plugin

        return {"shuffle": True, **hdf5plugin.Zstd(clevel=LEVEL)}

    def create(self, shape: tuple[int, ...], dtype: str, chunks: tuple[int, ...]) -> None:
        most = (None,) * len(shape)
        options = self.filters()
        file = self._file("w")
        self.array = file.create_dataset("a", shape, dtype, chunks=chunks, maxshape=most, **options)

    def open(self, mode: str) -> None:
        importlib.import_module("hdf5plugin")
        self.array = self._file(mode)["a"]

    def close(self) -> None:
        if self.array is not None:
            self.array.file.close()
        self.array = None


class OfH5pyBlosc2(OfH5py):
    name = "h5py, Blosc2"

    def filters(self) -> dict[str, Any]:
        import hdf5plugin

        kind = hdf5plugin.Blosc2
        return dict(kind(cname="zstd", clevel=LEVEL, filters=kind.SHUFFLE))


class OfZarr(Library):
    """zarr keeps no decoded chunks."""

    name = "zarr"
    modules = ("zarr",)
    shards = 0  # chunks along each axis of a shard

    def create(self, shape: tuple[int, ...], dtype: str, chunks: tuple[int, ...]) -> None:
        import zarr
        from zarr.codecs import BloscCodec

        codec = BloscCodec(cname="zstd", clevel=LEVEL, shuffle="shuffle")
        shards = tuple(self.shards * n for n in chunks) if self.shards else None
        options = {"shape": shape, "dtype": dtype, "chunks": chunks, "shards": shards}
        self.array = zarr.create_array(self.path, compressors=codec, **options)

    def open(self, mode: str) -> None:
        import zarr

        self.array = zarr.open_array(self.path, mode=mode)


class OfZarrShards(OfZarr):
    name = "zarr, shards"
    shards = 3


class OfBlosc2(Library):
    """One contiguous frame, with the blocks that Blosc2 chooses; it keeps no decoded chunks."""

    name = "Blosc2"
    modules = ("blosc2",)

    def create(self, shape: tuple[int, ...], dtype: str, chunks: tuple[int, ...]) -> None:
        import blosc2

        how = {"codec": blosc2.Codec.ZSTD, "clevel": LEVEL, "filters": [blosc2.Filter.SHUFFLE]}
        self.array = blosc2.empty(
            shape,
            dtype=np.dtype(dtype),
            chunks=chunks,
            urlpath=self.path,
            mode="w",
            contiguous=True,
            cparams={**how, "nthreads": 1},
            dparams={"nthreads": 1},
        )

    def open(self, mode: str) -> None:
        import blosc2

        self.array = blosc2.open(self.path, mode="a" if mode == "r+" else mode)


LIBRARIES: tuple[type[Library], ...] = (
    Ours, Uncompressed, OfH5py, OfH5pyBlosc2, OfZarr, OfZarrShards, OfBlosc2,
)  # fmt: skip


@contextmanager
def one_thread(libraries: list[type[Library]]) -> Iterator[None]:
    """Let each library use one thread, as far as it can be told; our freezer has its own."""
    import extarray as xa

    with ExitStack() as stack:
        for name, value in (("threads", 1), ("chunk_cache", CACHE)):
            stack.callback(setattr, xa.config, name, getattr(xa.config, name))
            setattr(xa.config, name, value)
        os.environ.setdefault("BLOSC_NTHREADS", "1")  # of hdf5plugin
        if any(issubclass(one, OfZarr) for one in libraries):
            import zarr
            from numcodecs import blosc

            stack.callback(blosc.set_nthreads, blosc.set_nthreads(1))
            stack.enter_context(zarr.config.set({"threading.max_workers": 1}))
            stack.enter_context(zarr.config.set({"async.concurrency": 1}))
        yield


# -- lines -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """What is measured.

    Attributes
    ----------
    shape : tuple of int
        Of the cube at the end, float32.
    chunks : tuple of int
    planes : int
        How many are appended on each axis, and read.
    frames : tuple of int
        Frames (0: none are measured), rows and columns of the camera, uint16.
    frame_chunks : tuple of int
    many : int
        Boxes, elements and growths.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    planes: int = 8
    frames: tuple[int, ...] = (96, 512, 512)
    frame_chunks: tuple[int, ...] = (16, 64, 64)
    many: int = 200


class Measured:
    """The lines of one library: each yields names and seconds."""

    def __init__(self, library: type[Library], sizes: Sizes, folder: str) -> None:
        self.kind, self.sizes, self.folder = library, sizes, folder
        self.rng = np.random.default_rng(5)

    def fresh(self) -> Library:
        """Return an array that is to be created, in the place of the one before."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        return self.kind(os.path.join(self.folder, "a"))

    def written(self, cube: np.ndarray) -> Iterator[tuple[str, float]]:
        one, sizes = self.fresh(), self.sizes
        with _timed() as seconds:
            one.create(cube.shape, "f4", sizes.chunks)
            one.array[...] = cube
            one.close()
        yield "write all", seconds()

    def planes(self, cube: np.ndarray) -> Iterator[tuple[str, float]]:
        """Append planes on three axes in turn, and close."""
        one, sizes = self.fresh(), self.sizes
        shape = [n - sizes.planes for n in cube.shape]
        one.create(tuple(shape), "f4", sizes.chunks)
        one.array[...] = np.ascontiguousarray(cube[tuple(slice(0, n) for n in shape)])
        steps = []
        for k in range(3 * sizes.planes):
            shape[k % 3] += 1
            box = [slice(0, n) for n in shape]
            box[k % 3] = slice(shape[k % 3] - 1, shape[k % 3])
            # Blosc2 takes contiguous values only.
            steps.append((tuple(shape), tuple(box), np.ascontiguousarray(cube[tuple(box)])))
        with _timed() as seconds:
            for grown, box, values in steps:
                one.grow(grown)
                one.array[box] = values
        yield "append planes", seconds() / (3 * sizes.planes)
        with _timed() as closing:
            one.close()
        yield "append planes, close", (seconds() + closing()) / (3 * sizes.planes)
        one.open("r")
        np.testing.assert_array_equal(one.array[...], cube)
        one.close()

    def camera(self, film: np.ndarray) -> Iterator[tuple[str, float]]:
        """Append frames one at a time, and close."""
        one, sizes = self.fresh(), self.sizes
        one.create((0, *film.shape[1:]), "u2", sizes.frame_chunks)
        with _timed() as seconds:
            for n, frame in enumerate(film):
                one.grow((n + 1, *film.shape[1:]))
                one.array[n] = frame
        yield "append frames", seconds() / len(film)
        with _timed() as closing:
            one.close()
        yield "append frames, close", (seconds() + closing()) / len(film)
        yield "bytes of frames", float(one.bytes_on_disk)
        one.open("r")
        np.testing.assert_array_equal(one.array[::7], film[::7])
        one.close()

    def growth(self) -> Iterator[tuple[str, float]]:
        one, sizes = self.fresh(), self.sizes
        shape = list(sizes.chunks)
        one.create(tuple(shape), "f4", sizes.chunks)
        with _timed() as seconds:
            for n in range(sizes.many):
                shape[n % 3] += 1
                one.grow(tuple(shape))
        yield "growth alone", seconds() / sizes.many
        one.close()

    def prepare(self, cube: np.ndarray) -> None:
        """Write the array that is read from then on."""
        one = self.fresh()
        one.create(cube.shape, "f4", self.sizes.chunks)
        one.array[...] = cube
        one.close()
        self.one = one

    def bytes_on_disk(self) -> float:
        return float(self.one.bytes_on_disk)

    def reads(self, cube: np.ndarray) -> Iterator[tuple[str, float]]:
        """Read through objects that have nothing decoded yet, but for the last line."""
        sizes = self.sizes
        with self.opened("r") as array:
            with _timed() as seconds:
                found = array[...]
            yield "read all", seconds()
            np.testing.assert_array_equal(found, cube)
        rng = np.random.default_rng(3)
        for axis in range(3):
            n = min(4, cube.shape[axis] // sizes.chunks[axis])
            places = sizes.chunks[axis] * rng.permutation(cube.shape[axis] // sizes.chunks[axis])
            some = [(slice(None),) * axis + (int(place),) for place in places[:n]]
            yield f"planes, axis {axis}", self.each(some, cube)
        low = [rng.integers(0, n - 16, sizes.many) for n in cube.shape]
        boxes = [tuple(slice(int(q), int(q) + 16) for q in at) for at in zip(*low, strict=True)]
        yield "boxes of 16³", self.each(boxes[: sizes.many // 5], cube)
        points = [tuple(int(q) for q in at) for at in zip(*low, strict=True)]
        yield "elements", self.each(points, cube)
        first = [int(n) for n in np.array(sizes.chunks) * (np.array(cube.shape) > sizes.chunks)]
        near = [
            tuple(q + int(d) for q, d in zip(first, rng.integers(0, sizes.chunks), strict=True))
            for _ in range(sizes.many)
        ]
        yield "elements again", self.each(near, cube, warm=True)

    def each(self, places: list[Any], cube: np.ndarray, warm: bool = False) -> float:
        """Return the seconds for one of the selections."""
        with self.opened("r") as array:
            if warm:
                for place in places:
                    array[place]
            with _timed() as seconds:
                for place in places:
                    array[place]
            np.testing.assert_array_equal(array[places[-1]], cube[places[-1]])
        return seconds() / len(places)

    def rewritten(self, cube: np.ndarray) -> Iterator[tuple[str, float]]:
        """Write boxes into what is compressed: the same ones again, so that all stays right."""
        sizes, n = self.sizes, max(1, self.sizes.many // 5)
        low = [self.rng.integers(0, size - 16, n) for size in cube.shape]
        boxes = [tuple(slice(int(q), int(q) + 16) for q in at) for at in zip(*low, strict=True)]
        parts = [np.ascontiguousarray(cube[box]) for box in boxes]
        self.one.open("r+")
        with _timed() as seconds:
            for box, part in zip(boxes, parts, strict=True):
                self.one.array[box] = part
        yield "boxes written", seconds() / n
        with _timed() as closing:
            self.one.close()
        yield "boxes written, close", (seconds() + closing()) / n
        sides = zip(sizes.chunks, cube.shape, strict=True)
        whole = tuple(slice(0, chunk * (size // (2 * chunk))) for chunk, size in sides)
        part = np.ascontiguousarray(cube[whole])
        self.one.open("r+")
        with _timed() as seconds:
            self.one.array[whole] = part
            self.one.close()
        yield "whole chunks written, close", seconds()
        with self.opened("r") as array:
            np.testing.assert_array_equal(array[...], cube)

    @contextmanager
    def opened(self, mode: str) -> Iterator[Any]:
        self.one.open(mode)
        try:
            yield self.one.array
        finally:
            self.one.close()


@contextmanager
def _timed() -> Iterator[Callable[[], float]]:
    """Measure the seconds of a block; call what is given to get them."""
    end = 0.0
    start = time.perf_counter()
    yield lambda: end - start
    end = time.perf_counter()


# -- tables ----------------------------------------------------------------------------------------


def measured_values(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return float32 values like measured ones: smooth, with noise, rounded to hundredths."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, n / 30, n) for n in shape), indexing="ij", sparse=True)
    smooth = 280 + 10 * sum(np.sin(axis + k) for k, axis in enumerate(axes))
    return (smooth + rng.normal(0, 0.05, shape)).astype("f4").round(2)


def film_of(shape: tuple[int, ...]) -> np.ndarray:
    """Return frames of a camera: counts of photons on a few blurred spots."""
    rng = np.random.default_rng(1)
    y, x = (np.linspace(0, 6, n) for n in shape[1:])
    mean = 100 + 40 * np.outer(np.sin(y) ** 2, np.cos(x) ** 2)
    return rng.poisson(mean, shape).astype("u2")


def measure(
    libraries: list[type[Library]], sizes: Sizes, rounds: int, folder: str
) -> dict[str, dict[str, float]]:
    """Return the figures of each library by line: the least of all rounds."""
    cube, film = measured_values(sizes.shape), film_of(sizes.frames)
    sides = {
        one.name: Measured(one, sizes, os.path.join(folder, f"{k}"))
        for k, one in enumerate(libraries)
    }
    found: dict[str, dict[str, float]] = {name: {} for name in sides}

    def run(line: Callable[[Measured], Iterator[tuple[str, float]]]) -> None:
        left = dict(sides)
        for _ in range(rounds):
            for name, side in list(left.items()):
                start = time.perf_counter()
                for what, figure in line(side):
                    found[name][what] = min(found[name].get(what, math.inf), figure)
                if time.perf_counter() - start > ENOUGH:
                    del left[name]

    run(lambda side: side.written(cube))
    run(lambda side: side.planes(cube))
    if sizes.frames[0]:
        run(lambda side: side.camera(film))
    run(lambda side: side.growth())
    for name, side in sides.items():
        side.prepare(cube)
        found[name]["bytes on the disk"] = side.bytes_on_disk()
    run(lambda side: side.reads(cube))
    run(lambda side: side.rewritten(cube))
    return found


def table(found: dict[str, dict[str, float]], unit: str) -> str:
    """Return the figures of one library, and those of the others over them."""
    names = list(found)
    rows = []
    for line, base in found[unit].items():
        cells = [line, _shown(line, base)]
        cells += [f"{found[name][line] / base:.2g}" for name in names if name != unit]
        rows.append(cells)
    return markdown(["", unit, *(name for name in names if name != unit)], rows)


def _shown(line: str, figure: float) -> str:
    if line.startswith("bytes"):
        return f"{figure / 1e6:.1f} MB"
    return f"{figure * 1e3:.3g} ms" if figure > 1e-3 else f"{figure * 1e6:.3g} µs"


def goals(found: dict[str, dict[str, float]], scaling: dict[str, float]) -> list[str]:
    """Return what misses its goal."""
    ours = found[Ours.name]
    others = {n: f for n, f in found.items() if n not in (Ours.name, Uncompressed.name)}
    missed = []

    def judge(line: str, figure: float, most: float, of: str) -> None:
        if figure > most:
            missed.append(f"{line}: {figure:.2f} of {of}, goal {most}")

    missed += [
        f"{line} by two threads: {scaling[line]:.2f} of one thread, goal 1.7"
        for line in ("one read", "boxes")
        if scaling[line] < 1.7
    ]
    raw = found.get(Uncompressed.name)
    if raw and "append frames" in raw:
        judge("append frames", ours["append frames"] / raw["append frames"], 1.6, "uncompressed")
    for line in ("read all", "planes, axis 0", "planes, axis 1", "planes, axis 2"):
        for name, most in (("h5py", 1.0), ("h5py, Blosc2", 1.0), ("Blosc2", 1.5)):
            if name in others:
                judge(line, ours[line] / others[name][line], most, name)
    judge("elements again", ours["elements again"] * 1e6, 1.0, "a microsecond")
    for line in ("boxes written", "boxes written, close"):
        if "h5py" in others:
            judge(line, ours[line] / others["h5py"][line], 3.0, "h5py")
    if others:
        best = min(one["bytes on the disk"] for one in others.values())
        judge("bytes on the disk", ours["bytes on the disk"] / best, 1.03, "the least")
    return missed


def two_threads(sizes: Sizes, rounds: int, folder: str) -> dict[str, float]:
    """Return how many times as fast two threads decode everything, in one read and box by box.

    Beside them, in turns: zstd alone, which decodes as many frames of as many bytes.
    """
    import extarray as xa

    cube = measured_values(sizes.shape)
    side = Measured(Ours, sizes, os.path.join(folder, "threads"))
    side.prepare(cube)
    zstd = importlib.import_module(
        "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    )
    n = math.prod(sizes.chunks)
    frames = [
        zstd.compress(cube.reshape(-1)[at : at + n].view("u1").reshape(-1, 4).T.tobytes(), LEVEL)
        for at in range(0, cube.size, n)
    ]
    starts = itertools.product(*(range(0, cube.shape[j], sizes.chunks[j]) for j in range(2)))
    boxes = [
        tuple(slice(at, at + side) for at, side in zip(start, sizes.chunks[:2], strict=True))
        for start in starts
    ]

    def one_read(threads: int) -> float:
        xa.config.threads = threads
        try:
            with side.opened("r") as array, _timed() as seconds:
                array[...]
        finally:
            xa.config.threads = 1
        return seconds()

    def boxes_read(threads: int) -> float:
        with side.opened("r") as array:

            def read(first: int) -> None:
                for box in boxes[first::2]:
                    array[box]

            return _together([partial(read, first) for first in range(2)], threads)

    def alone(threads: int) -> float:
        def decode(first: int) -> None:
            for frame in frames[first::2]:
                zstd.decompress(frame)

        return _together([partial(decode, first) for first in range(2)], threads)

    lines = {"one read": one_read, "boxes": boxes_read, "zstd alone": alone}
    best = {(name, threads): math.inf for name in lines for threads in (1, 2)}
    for _ in range(rounds):
        for name, threads in best:
            best[name, threads] = min(best[name, threads], lines[name](threads))
    return {name: best[name, 1] / best[name, 2] for name in lines}


def _together(calls: list[Callable[[], object]], threads: int) -> float:
    """Return the seconds of two calls, made one after the other or by two threads."""
    if threads == 1:
        with _timed() as seconds:
            for call in calls:
                call()
        return seconds()
    other = threading.Thread(target=calls[1])
    with _timed() as seconds:
        other.start()
        calls[0]()
        other.join()
    return seconds()


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.compression")
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--unit", default=Ours.name, help="the library whose figures are 1")
    parser.add_argument("--only", nargs="+", help="names of libraries")
    parser.add_argument("--small", action="store_true", help="tiny sizes: does all still run?")
    parser.add_argument("--folder", help="where the files go")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(arguments)
    if options.small:
        cases = [Sizes((36, 40, 44), (8, 10, 12), 2, (20, 32, 32), (8, 16, 16), 10)]
    else:
        shape = (198, 224, 308)
        cases = [Sizes(shape, (20, 24, 32)), Sizes(shape, (40, 48, 64), frames=(0, 1, 1))]
    libraries = []
    for one in LIBRARIES:
        if options.only and one.name not in options.only and one is not Ours:
            continue
        try:
            for module in one.modules:
                importlib.import_module(module)
        except ImportError as error:
            print(f"{one.name}: not installed: {error.name}")
            continue
        libraries.append(one)
    names = ("extarray", "numpy", "h5py", "hdf5plugin", "zarr", "numcodecs", "blosc2")
    print(f"{load()}; {versions(*names)}")
    stored = {}
    for sizes in cases:
        folder = tempfile.mkdtemp(dir=options.folder)
        try:
            with one_thread(libraries):
                found = measure(libraries, sizes, options.rounds, folder)
                scaling = two_threads(sizes, options.rounds, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        nbytes = 4 * math.prod(sizes.chunks)
        print(f"\nChunks of {nbytes / 1024:.0f} KiB:\n\n{table(found, options.unit)}\n", flush=True)
        told = ", ".join(f"{name} {times:.2f}" for name, times in scaling.items())
        print(f"Two threads decode everything faster than one by a factor of: {told}.")
        for line in goals(found, scaling):
            print(f"Missed: {line}")
        stored["×".join(map(str, sizes.chunks))] = {**found, THREAD: scaling}
    if options.json:
        Path(options.json).write_text(json.dumps(stored))


if __name__ == "__main__":
    main()
