"""Growth and first touches: the workload of the thesis of Nimako, section 6.4.3.

A random axis grows by one; then two elements are written, and two read, at random places.  This
repeats until the array has a given number of elements.  Almost every access is the first to its
page: first accesses are also counted separately.  ``python -m benchmarks.growing`` prints times
beside h5py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .apart import Missing, apart, load, markdown, versions

SIDE = 32  # side of the chunks, and of the array at the start
PAGE = 4096 // 8  # elements
CANDIDATES = ("extarray", "extarray, sparse", "extarray, pread", "h5py", "h5py, cache")


@dataclass(frozen=True)
class Course:
    """Seconds of each growth and of each access, in order.

    `is_first` marks the first access to a page of a chunk.
    """

    growths: np.ndarray
    accesses: np.ndarray
    is_first: np.ndarray

    @property
    def seconds(self) -> float:
        return float(self.growths.sum() + self.accesses.sum())

    @property
    def slope(self) -> float:
        """The median time of the last tenth of the steps over that of the first tenth."""
        n = max(1, len(self.growths) // 10)
        steps = self.growths + self.accesses.reshape(-1, 4).sum(axis=1)
        return float(np.median(steps[-n:]) / np.median(steps[:n]))


def opened(name: str, ndim: int, path: str, stack: ExitStack) -> tuple[Any, Any]:
    """Return an array of a library, and a function that grows one of its axes by one."""
    shape = chunks = (SIDE,) * ndim
    if name.startswith("h5py"):
        import h5py

        cache = {"rdcc_nbytes": 2**31, "rdcc_nslots": 100_003} if "cache" in name else {}
        file = stack.enter_context(h5py.File(path, "w", libver="latest", locking=False, **cache))
        data = file.create_dataset("a", shape, "f8", chunks=chunks, maxshape=(None,) * ndim)
        return data, lambda axis: data.resize(data.shape[axis] + 1, axis=axis)
    import extarray as xa

    options = {"sparse": True} if "sparse" in name else {}
    engine = "pread" if "pread" in name else "mmap"
    array = stack.enter_context(
        xa.create(path, shape, "f8", chunks=chunks, engine=engine, **options)
    )
    return array, lambda axis: array.extend(axis, 1)


def page_of(place: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chunk indices of an element, and the number of its page in the chunk."""
    within = 0
    for index in place:
        within = within * SIDE + index % SIDE
    return (*(index // SIDE for index in place), within // PAGE)


def grown(
    name: str, ndim: int, limit: int, patience: float, folder: str, cpu: bool
) -> Course | Missing:
    """Run the workload, in the same order for each library, and check the elements read."""
    os.makedirs(folder)
    numbers = np.random.default_rng(1)
    clock = time.thread_time if cpu else time.perf_counter
    growths: list[float] = []
    accesses: list[float] = []
    is_first: list[bool] = []
    pages = {(0,) * (ndim + 1)}
    known: dict[tuple[int, ...], float] = {}
    with ExitStack() as stack:
        array, grow = opened(name, ndim, os.path.join(folder, "data"), stack)
        bounds, begun = [SIDE] * ndim, time.perf_counter()
        array[(0,) * ndim], array[(0,) * ndim]  # the first access loads modules
        while math.prod(bounds) < limit:
            axis = int(numbers.integers(ndim))
            places = [tuple(map(int, p)) for p in numbers.integers(0, bounds, (4, ndim))]
            start = clock()
            grow(axis)
            growths.append(clock() - start)
            bounds[axis] += 1
            for page in map(page_of, places):
                is_first.append(page not in pages)
                pages.add(page)
            for place in places[:2]:
                start = clock()
                array[place] = 1.5
                accesses.append(clock() - start)
                known[place] = 1.5
            for place in places[2:]:
                start = clock()
                value = array[place]
                accesses.append(clock() - start)
                if value != known.get(place, 0.0):
                    raise AssertionError(f"{value} at {place}")
            if time.perf_counter() - begun > patience:
                return Missing(f"at {math.prod(bounds):.1e} elements after {patience:.0f} s")
    return Course(np.array(growths), np.array(accesses), np.array(is_first))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.growing")
    parser.add_argument("--elements", type=float, default=1e7, help="at the end")
    parser.add_argument("--ndim", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for a candidate")
    parser.add_argument(
        "--cpu", action="store_true", help="count processor time: others use the machine"
    )
    parser.add_argument("--folder", help="where the files go")
    parser.add_argument("--json", help="write the figures of all rounds to this file")
    options = parser.parse_args(arguments)
    stored: dict[str, dict[str, list[Any]]] = {}
    print(f"To {options.elements:.0e} float64; {load()}; {versions('extarray', 'numpy', 'h5py')}")
    for ndim in options.ndim:
        rounds: dict[str, list[Course | Missing]] = {name: [] for name in CANDIDATES}
        for _ in range(options.rounds):
            for name in CANDIDATES:
                folder = tempfile.mkdtemp(dir=options.folder)
                place = os.path.join(folder, "job")
                try:
                    limit = max(int(options.elements), (SIDE + 4) ** ndim)
                    work = (name, ndim, limit, options.patience, place, options.cpu)
                    rounds[name].append(apart(grown, *work))
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
        print(f"\n{ndim} axes, chunks of {' × '.join([str(SIDE)] * ndim)}:\n\n{shown(rounds)}")
        stored[str(ndim)] = {
            name: [one.text if isinstance(one, Missing) else one.seconds for one in some]
            for name, some in rounds.items()
        }
    if options.json:
        Path(options.json).write_text(json.dumps(stored))


def shown(rounds: dict[str, list[Course | Missing]]) -> str:
    """Return a table of the fastest rounds."""
    rows = []
    for name, some in rounds.items():
        found = [one for one in some if isinstance(one, Course)]
        if not found:
            rows.append([name, str(getattr(some[0], "text", "")), *[""] * 7])
            continue
        best = min(found, key=lambda one: one.seconds)
        us = best.accesses * 1e6
        first = us[best.is_first].mean()
        figures = [np.mean(best.growths) * 1e6, first, us.mean(), *np.percentile(us, (50, 99, 100))]
        cells = [f"{best.seconds:.3f}", *(f"{figure:.3g}" for figure in figures)]
        rows.append([name, *cells, f"{best.slope:.2f}"])
    head = [
        "",
        "seconds",
        "a growth, µs",
        "a first touch, µs",
        "an access, µs",
        "median",
        "99 %",
        "longest",
        "last / first tenth",
    ]
    return markdown(head, rows)


if __name__ == "__main__":
    main()
