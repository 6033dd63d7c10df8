"""The program outside: it makes the arrays that ranks work on, and grows them meanwhile.

It gets orders as lines of JSON, and answers each with a line.  It has nothing to do with MPI.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa

from .harness import generator

Box = tuple[slice, ...]
Part = Callable[[Box], Any]


def increments(start: int, stop: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield random growths of 1 to 100, as the thesis has them, up to a bound."""
    while start < stop:
        by = min(int(rng.integers(1, 101)), stop - start)
        yield by
        start += by


def boxes_of_growth(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, Box]]:
    """Yield each axis that grows, with the new box at the bounds of that moment."""
    bounds = list(old)
    for axis, extent in enumerate(new):
        if extent > bounds[axis]:
            box = [slice(0, n) for n in bounds]
            box[axis] = slice(bounds[axis], extent)
            bounds[axis] = extent
            yield axis, tuple(box)


class Ours:
    """An array of ours, which others may read or fill while it grows."""

    def __init__(self, path: Path, shape: Sequence[int], chunks: Sequence[int], part: Part) -> None:
        self.array = xa.create(path, shape, chunks=chunks)
        self.array[...] = part(tuple(slice(0, n) for n in shape))
        self.close = self.array.close

    def grow(self, shape: Sequence[int], part: Part) -> None:
        for axis, box in boxes_of_growth(self.array.shape, shape):
            self.array.append(part(box), axis)

    def read(self, box: Box) -> np.ndarray:
        return self.array[box]

    @staticmethod
    def of_ranks(path: Path) -> np.ndarray:
        """Return the elements of an array that the ranks have made."""
        with xa.open(path) as array:
            return array[...]


class Conventional:
    """A row-major file: each growth makes a larger one, copies, and takes the old one's name away.

    A second file tells which is the newest.  Who writes holds the lock.
    """

    def __init__(self, path: Path, shape: Sequence[int], chunks: Sequence[int], part: Part) -> None:
        self.path, self.number = path, 0
        self.values = np.memmap(f"{path}.0", "f8", "w+", shape=tuple(shape))
        self.values[...] = part(tuple(slice(0, n) for n in shape))
        self.lock = open(f"{path}.lock", "w")  # noqa: SIM115 (close does)
        self._tell()

    def _tell(self) -> None:
        fresh = self.path.with_suffix(".fresh")
        fresh.write_text(json.dumps([self.number, self.values.shape]))
        fresh.replace(f"{self.path}.newest")

    def grow(self, shape: Sequence[int], part: Part) -> None:
        import fcntl

        fcntl.flock(self.lock, fcntl.LOCK_EX)
        old = self.values
        self.number += 1
        self.values = np.memmap(f"{self.path}.{self.number}", "f8", "w+", shape=tuple(shape))
        self.values[tuple(map(slice, old.shape))] = old
        for _, box in boxes_of_growth(old.shape, shape):
            self.values[box] = part(box)
        self._tell()
        os.unlink(f"{self.path}.{self.number - 1}")  # ranks that have it open keep it
        fcntl.flock(self.lock, fcntl.LOCK_UN)

    def read(self, box: Box) -> np.ndarray:
        return np.array(self.values[box])

    @staticmethod
    def of_ranks(path: Path) -> np.ndarray:
        number, shape = json.loads(Path(f"{path}.newest").read_text())
        return np.fromfile(f"{path}.{number}", "f8").reshape(shape)

    def close(self) -> None:
        self.lock.close()


class OneWriterHDF5:
    """A dataset of HDF5 in its mode of a single writer and many readers (SWMR)."""

    def __init__(self, path: Path, shape: Sequence[int], chunks: Sequence[int], part: Part) -> None:
        import h5py

        self.file = h5py.File(f"{path}.h5", "w", libver="latest")
        self.data = self.file.create_dataset(
            "a", shape, "f8", chunks=tuple(chunks), maxshape=(None,) * len(shape)
        )
        self.data[...] = part(tuple(slice(0, n) for n in shape))
        self.file.swmr_mode = True
        self.close = self.file.close

    def grow(self, shape: Sequence[int], part: Part) -> None:
        old = self.data.shape
        self.data.resize(shape)
        for _, box in boxes_of_growth(old, shape):
            self.data[box] = part(box)
        self.data.flush()

    def read(self, box: Box) -> np.ndarray:
        return self.data[box]

    @staticmethod
    def of_ranks(path: Path) -> np.ndarray:
        import h5py

        found = []
        for each in sorted(path.parent.glob(f"{path.name}-*.h5")):
            with h5py.File(each) as file:
                found.append(file["a"][...])
        return np.concatenate(found)


class Program:
    """The orders, by name."""

    arrays: dict[str, Any]

    def make(self, module: str, scale: str, kind: str, folder: str) -> None:
        """Make the arrays of an application at their first bounds."""
        self.application = importlib.import_module(module).Application(scale)
        self.folder = Path(folder)
        self.kind = {each.__name__: each for each in (Ours, Conventional, OneWriterHDF5)}[kind]
        self.bound = self.application.bounds[0]
        self.rng = generator(2)
        self.arrays = {
            name: self.kind(
                self.folder / name,
                self.application.shape(name, self.bound),
                self.application.CHUNKS[name],
                self._part(name),
            )
            for name in self.application.GROWN
        }

    def _part(self, name: str) -> Part:
        return lambda box: self.application.part(name, box)

    def grow(self, bound: int) -> float:
        """Grow all arrays by random increments; return the seconds."""
        start = time.perf_counter()
        for by in increments(self.bound, bound, self.rng):
            self.bound += by
            for name, array in self.arrays.items():
                array.grow(self.application.shape(name, self.bound), self._part(name))
        return time.perf_counter() - start

    def check(self, bound: int) -> None:
        """Compare all elements with those that NumPy computes in memory, in this process alone."""
        for name, expected in self.application.expected(bound).items():
            box = tuple(slice(0, n) for n in expected.shape)
            if name in self.arrays:
                found = self.arrays[name].read(box)
            else:
                found = self.kind.of_ranks(self.folder / name)[box]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=name)

    def close(self) -> None:
        for array in self.arrays.values():
            array.close()


def main() -> None:
    program = Program()
    for line in sys.stdin:
        what, arguments = json.loads(line)
        print(json.dumps(getattr(program, what)(*arguments)), flush=True)
