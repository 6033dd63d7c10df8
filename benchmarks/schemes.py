"""Allocation schemes: growth policies, orders in a chunk, growing and shrinking in turn.

``python -m benchmarks.schemes`` prints a table for each; other libraries have nothing like them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain

import numpy as np

import extarray as xa
from extarray.common.choices import ORDERS
from extarray.grid.order import positions

from .suites.bench_policy import best, shown
from .suites.bench_policy import table as policies
from .suites.common import generator
from .turns import best_times

PAGE = 4096
Box = tuple[slice, ...]


def markdown(title: str, head: list[str], rows: Iterator[list[str]]) -> str:
    lines = (f"| {' | '.join(cells)} |" for cells in chain([head, ["---"] * len(head)], rows))
    return "\n".join([f"**{title}**", "", *lines, ""])


# -- orders in a chunk -----------------------------------------------------------------------------


def boxes(shape: tuple[int, ...], side: int, n: int) -> list[Box]:
    """Return boxes of `side` elements along each axis, at random places."""
    starts = generator().integers(0, np.array(shape) - side + 1, (n, len(shape))).tolist()
    return [tuple(slice(i, i + side) for i in start) for start in starts]


def pages(chunk: tuple[int, ...], order: str, side: int, itemsize: int, n: int = 300) -> float:
    """Return the mean number of a chunk's pages that a box in it meets."""
    places = positions(chunk, order).reshape(chunk) * itemsize // PAGE
    return float(np.mean([np.unique(places[box]).size for box in boxes(chunk, side, n)]))


def orders(side: int = 2048, chunk: int = 256, ndim: int = 2) -> str:
    """Return a table of reads from an array in each order of the elements in a chunk.

    Times are of elements, boxes, rows and columns at random places, and of the whole array; pages
    are those of a chunk that a box inside it meets.
    """
    shape, chunks = (side,) * ndim, (chunk,) * ndim
    small = max(2, chunk // 8)
    places = generator().integers(0, side, 50).tolist()
    selections = {
        "an element": [tuple(part.start for part in box) for box in boxes(shape, 1, 1000)],
        "3 an axis": boxes(shape, 3, 200),
        f"{small} an axis": boxes(shape, small, 200),
        "a row": places,
        "a column": [(..., i) for i in places],
    }
    columns = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        arrays = {}
        for order in ORDERS:
            path = os.path.join(folder, order)
            array = xa.create(path, shape, "f8", chunks=chunks, order=order)
            arrays[order] = stack.enter_context(array)
            array[...] = np.arange(side**ndim).reshape(shape)
        for name, some in selections.items():
            columns[name] = column(
                {order: partial(read_each, a, some) for order, a in arrays.items()}, len(some)
            )
        out = np.ones(shape)
        columns["all"] = column({order: partial(a.read, out=out) for order, a in arrays.items()})
    for extent in (3, small):
        columns[f"pages of {extent} an axis"] = {
            order: f"{pages(chunks, order, extent, 8):.1f}" for order in ORDERS
        }
    rows = ([order, *(cells[order] for cells in columns.values())] for order in ORDERS)
    title = f"{ndim} axes of {side} float64 in chunks of {chunk}: microseconds a read, and pages"
    return markdown(title, ["order", *columns], rows)


def read_each(array: xa.ExtArray, selections: list[object]) -> None:
    for selection in selections:
        array[selection]


def column(calls: dict[str, Callable[[], object]], per: int = 1) -> dict[str, str]:
    """Return the microseconds of calls that take turns."""
    return {name: f"{1e6 * time / per:.3g}" for name, time in best_times(calls, 15).items()}


# -- growing and shrinking in turn -----------------------------------------------------------------


def changes(n: int, ndim: int) -> Iterator[tuple[bool, int, int, str]]:
    """Yield random changes of bounds: whether to grow, axis, elements, side; growth wins slowly."""
    random = generator()
    for _ in range(n):
        by = int(random.integers(1, 100))
        side = "start" if random.random() < 0.25 else "end"
        yield random.random() < 0.55, int(random.integers(ndim)), by, side


def interleaved(n: int = 400, ndim: int = 2, chunk: int = 32, parts: int = 4) -> str:
    """Return a table of the used shares of grid and disk, while bounds move out and in.

    The share of the grid counts chunks that were given back; the disk has none of these.
    """
    head = ["policy", "changes", "bounds", "segments", "of the grid", "of the disk", "a change, µs"]

    def rows() -> Iterator[list[str]]:
        for policy in ("exact", ("linear", 4), "doubling", "cubical"):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "a")
                shape, chunks = (8 * chunk,) * ndim, (chunk,) * ndim
                with xa.create(path, shape, "f8", chunks=chunks, growth=policy) as array:
                    yield from history(array, shown(policy))

    def history(array: xa.ExtArray, policy: str) -> Iterator[list[str]]:
        steps = list(changes(n, array.ndim))
        size = -(-n // parts)
        for start in range(0, n, size):
            seconds = best(partial(change, array, steps[start : start + size]), 1)
            facts = array.info()
            on_disk = os.stat(f"{array.path}.xta").st_blocks * 512
            yield [
                policy,
                str(min(start + size, n)),
                " × ".join(map(str, array.shape)),
                str(facts["segments"]),
                f"{100 * facts['utilisation']:.0f} %",
                f"{100 * array.nbytes / on_disk:.0f} %",
                f"{1e6 * seconds / size:.0f}",
            ]

    def change(array: xa.ExtArray, steps: list[tuple[bool, int, int, str]]) -> None:
        for grows, axis, by, side in steps:
            if grows:
                array.extend(axis, by, side)
            else:
                array.shrink(axis, min(by, array.shape[axis] - 1), side)

    return markdown(f"Growing and shrinking, chunks of {chunk} an axis", head, rows())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("policies", "orders", "interleaved"))
    chosen = parser.parse_args().only
    tables = {
        "policies": (policies,),
        "orders": (orders, partial(orders, 160, 32, 3)),
        "interleaved": (interleaved,),
    }
    for table in chain.from_iterable(tables[name] for name in tables if chosen in (None, name)):
        print(table(), end="\n\n")


if __name__ == "__main__":
    main()
