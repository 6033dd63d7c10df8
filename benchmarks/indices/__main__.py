"""Measure the structures: ``python -m benchmarks.indices``."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..turns import best_times
from .structures import COMPILED, Library, Structure, Tables

OURS = "tables (extarray)"
#: Look-ups in one call: all structures get the same ones, at random places.
LOOKUPS = 20_000

Maker = Callable[[Sequence[int], np.ndarray, np.ndarray], Structure]


def history(ndim: int, segments: int, by: int = 1) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Return growths by `by` chunks that give `segments` segments: first grid, axes, and chunks.

    The axes take turns, the last one first.  If their product would not fit 63 bits, axes from the
    third on grow less often, evenly spread.
    """
    growths = segments - 1
    small = growths // ndim
    if ndim > 2:
        room = 2**61 / (by * growths / 2 + 1) ** 2
        small = min(small, int(room ** (1 / (ndim - 2)) - 1) // by)
    times = np.full(ndim, small)
    times[:2] = (growths - small * (ndim - 2)) // 2
    times[1] += growths - times.sum()
    axes = np.repeat(np.arange(ndim), times)
    rates = np.maximum(times, times[1] * (np.arange(ndim) < 2))  # the first two alternate
    when = np.concatenate([(np.arange(n) + 1 - j / ndim) / rates[j] for j, n in enumerate(times)])
    return [1] * ndim, axes[np.argsort(when, kind="stable")], np.full(growths, by, np.int64)


def measure(
    makers: Mapping[str, Maker], ndim: int, segments: int, chunks: int = 1, lookups: int = LOOKUPS
) -> dict[str, dict[str, float]]:
    """Return seconds of a growth, an address and an index, and bytes, by structure."""
    grid, axes, by = history(ndim, segments, chunks)
    final = grid + np.bincount(axes, by, ndim).astype(np.int64)
    made, result = {}, {}
    for name, make in makers.items():
        start = time.perf_counter()
        made[name] = make(grid, axes, by)
        grown = (time.perf_counter() - start) / len(axes)
        result[name] = {"growth": grown, "bytes": float(made[name].nbytes)}
    indices = np.random.default_rng(segments).integers(0, final, (lookups, ndim))
    addresses = made[OURS].addresses(indices)
    for name, one in made.items():
        np.testing.assert_array_equal(one.addresses(indices), addresses, name)
        np.testing.assert_array_equal(one.indices(addresses), indices, name)
    for kind, given in (("addresses", indices), ("indices", addresses)):
        calls = {name: partial(getattr(one, kind), given) for name, one in made.items()}
        for name, seconds in best_times(calls).items():
            result[name][kind] = seconds / lookups
    return result


def makers(libraries: Mapping[str, Library]) -> dict[str, Maker]:
    """Return all structures by description, ours first."""
    return {OURS: Tables, **{COMPILED[name]: one.grown for name, one in libraries.items()}}


COLUMNS = {
    "addresses": ("F*: nanoseconds an address", 1e9),
    "indices": ("The inverse: nanoseconds an index", 1e9),
    "growth": ("Nanoseconds a growth, in one call (ours: a log that is replayed)", 1e9),
    "bytes": ("Bytes a segment", 1.0),
}


def tables(
    made: Mapping[str, Maker],
    ranks: Sequence[int],
    segments: Sequence[int],
    chunks: int = 1,
    lookups: int = LOOKUPS,
) -> Iterator[str]:
    """Yield a Markdown table for each of `COLUMNS`: a row for each rank and number of segments.

    Figures better than the package's own are bold.
    """
    found = {(k, n): measure(made, k, n, chunks, lookups) for k in ranks for n in segments}
    for column, (title, unit) in COLUMNS.items():
        lines = [f"**{title}**", "", f"| axes | segments | {' | '.join(made)} |"]
        lines += [f"| --- | --- |{' --- |' * len(made)}"]
        for (k, n), result in found.items():
            ours = result[OURS][column]
            cells = []
            for name in made:
                value = result[name][column]
                text = f"{value * unit / (n if column == 'bytes' else 1):.3g}"
                cells.append(f"**{text}**" if value < ours else text)
            lines.append(f"| {k} | {n:,} | {' | '.join(cells)} |")
        yield "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4, 5, 6, 7])
    parser.add_argument("--most", type=int, default=10**6, help="segments (default: 1000000)")
    parser.add_argument("--by", type=int, default=1, help="chunks of a growth (default: 1)")
    options = parser.parse_args()
    segments = [10**e for e in range(1, 7) if 10**e <= options.most]
    with tempfile.TemporaryDirectory() as folder:
        made = makers({name: Library(name, Path(folder)) for name in COMPILED})
        for table in tables(made, options.ranks, segments, options.by):
            print(table)


if __name__ == "__main__":
    main()
