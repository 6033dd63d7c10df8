"""Packed files: reads of an array in one, beside reads of its pair of files.

``python -m benchmarks.suites.bench_packed`` prints the table.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import extarray as xa

#: Side of a square of float64, and of its chunks.
SIDE, CHUNK = 2500, 256
ENGINES = ("mmap", "pread")
#: At least this share of the pair's speed.
BAR = 0.95

Action = Callable[[xa.ExtArray, np.ndarray], object]


def elements(array: xa.ExtArray, out: np.ndarray) -> None:
    n = len(array)
    for i in range(2000):
        array[i * 7 % n, i * 11 % n]


ACTIONS: dict[str, Action] = {
    "read all": lambda array, out: array.read(out=out),
    "read a column": lambda array, out: array[:, 5:9],
    "read boxes": lambda array, out: [array[i : i + 64, i : i + 64] for i in range(0, 640, 64)],
    "read rows": lambda array, out: array[np.arange(0, len(array), 7)],
    "2000 elements": elements,
}


@contextmanager
def stored(side: int = SIDE, chunk: int = CHUNK) -> Iterator[tuple[str, str]]:
    """Yield the paths of an array with a history, and of its packed file; in the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        path, packed = os.path.join(folder, "a"), os.path.join(folder, "a.xap")
        half = side // 2
        with xa.create(path, (half, half), chunks=chunk) as array:
            for axis in (1, 0):
                array.extend(axis, side - half, "start" if axis else "end")
            array[...] = np.random.default_rng(1).random((side, side))
            xa.pack(array, packed)
        yield path, packed


def seconds(paths: tuple[str, str], action: str, engine: str, n: int = 30) -> list[float]:
    """Return the median seconds of an action on each of two arrays, in turn."""
    with xa.open(paths[0], engine=engine) as pair, xa.open(paths[1], engine=engine) as packed:
        out = np.zeros(pair.shape)
        times: list[list[float]] = [[], []]
        for turn in range(n + 1):
            for j, array in sorted(enumerate((pair, packed)), reverse=bool(turn % 2)):
                start = time.perf_counter()
                ACTIONS[action](array, out)
                if turn:  # the first one maps the pages
                    times[j].append(time.perf_counter() - start)
    return [float(np.median(each)) for each in times]


class Packed:
    """asv: the pair's time over that of the packed file, for each engine."""

    params = (list(ACTIONS), list(ENGINES))
    side = SIDE
    param_names = ("action", "engine")

    def setup(self, action: str, engine: str) -> None:
        self.place = stored(self.side)
        self.paths = self.place.__enter__()

    def teardown(self, action: str, engine: str) -> None:
        self.place.__exit__(None, None, None)

    def track_ratio(self, action: str, engine: str) -> float:
        """Return the speed of a packed file as a share of the pair's."""
        pair, packed = seconds(self.paths, action, engine)
        return pair / packed


Packed.track_ratio.unit = "of the pair's speed"


def table(side: int = SIDE, chunk: int = CHUNK, n: int = 30) -> str:
    """Return the table, as Markdown."""
    rows = [f"| {side}² float64, chunks of {chunk}² | engine | pair | packed | ratio |"]
    rows.append("| --- | --- | --- | --- | --- |")
    with stored(side, chunk) as paths:
        for action in ACTIONS:
            for engine in ENGINES:
                pair, packed = seconds(paths, action, engine, n)
                times = f"{1e3 * pair:.2f} ms | {1e3 * packed:.2f} ms"
                rows.append(f"| {action} | `{engine}` | {times} | {pair / packed:.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
