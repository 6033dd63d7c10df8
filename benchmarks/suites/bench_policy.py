"""Growth policies: segments, storage and time of an array whose axes grow by a chunk in turn.

Other libraries have nothing like it.  ``python -m benchmarks.suites.bench_policy`` prints the
table.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import extarray as xa
from extarray.common.formatting import Info
from extarray.grid.policy import GrowthPolicy

POLICIES = (
    "exact",
    ("linear", 4),
    ("linear", 16),
    ("exponential", 1.25),
    ("exponential", 2.0),
    "doubling",
    "cubical",
)
#: (axes, steps of each): the array becomes a cube.
CUBES = ((2, 300), (3, 40))
CHUNK = 8


def shown(policy: GrowthPolicy) -> str:
    return policy if isinstance(policy, str) else f"{policy[0]} {policy[1]}"


@contextmanager
def grown(policy: GrowthPolicy, ndim: int, steps: int) -> Iterator[xa.ExtArray]:
    """Yield a sparse array that has grown from one chunk by `steps` on each axis, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        chunks = (CHUNK,) * ndim
        with xa.create(path, chunks, "f4", chunks=chunks, sparse=True, growth=policy) as array:
            for _, axis in itertools.product(range(steps - 1), range(ndim)):
                array.extend(axis, CHUNK)
            yield array


class Policies:
    """asv: the effects of each policy on the same growth."""

    params = ([shown(policy) for policy in POLICIES], [ndim for ndim, _ in CUBES])
    param_names = ("policy", "ndim")

    def track_segments(self, policy: str, ndim: int) -> int:
        """Return the number of the array's segments."""
        return int(self._facts(policy, ndim)["segments"])

    def track_utilisation(self, policy: str, ndim: int) -> float:
        """Return the share of the allocated space that lies inside the bounds."""
        return 100 * float(self._facts(policy, ndim)["utilisation"])

    def _facts(self, policy: str, ndim: int) -> Info:
        chosen = dict(zip(self.params[0], POLICIES, strict=True))[policy]
        with grown(chosen, ndim, dict(CUBES)[ndim]) as array:
            return array.info()


Policies.track_segments.unit = "segments"
Policies.track_utilisation.unit = "%"


def best(run: Callable[[], object], n: int = 5) -> float:
    """Return the least time of a few runs, in seconds."""
    times = []
    for _ in range(n):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def table(cubes: tuple[tuple[int, int], ...] = CUBES) -> str:
    """Return the table, as Markdown.

    The time of growth is that of all steps; the time of access is for 1,000 elements at random
    places, and for a plane across the last axis, which meets the most segments.
    """
    rows = [
        "| axes, grid | policy | segments | utilisation | a step | 1,000 elements | a plane |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (ndim, steps), policy in itertools.product(cubes, POLICIES):
        start = time.perf_counter()
        with grown(policy, ndim, steps) as array:
            step = (time.perf_counter() - start) / (ndim * steps)
            facts = array.info()
            array[...] = 1  # no holes
            places = np.random.default_rng(1).integers(0, steps * CHUNK, (1000, ndim)).tolist()
            keys = [tuple(place) for place in places]
            elements = best(lambda keys=keys, array=array: [array[key] for key in keys])
            plane = best(lambda array=array: array[..., 5])
        rows.append(
            f"| {ndim}, {steps}{'²³'[ndim - 2]} | {shown(policy)} | {facts['segments']} "
            f"| {100 * facts['utilisation']:.0f} % | {1e6 * step:.1f} µs | {1e6 * elements:.0f} µs "
            f"| {1e6 * plane:.0f} µs |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
