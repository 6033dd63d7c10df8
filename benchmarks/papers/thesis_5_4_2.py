"""Figure 5.4.2 of the thesis."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa
from extarray.grid.order import positions

from .harness import (
    Chart,
    Report,
    Verdict,
    Work,
    above,
    below,
    columns,
    each,
    every,
    generator,
    nbytes_of,
    span,
    verdict,
)

TITLE = "Thesis, figure 5.4.2: orders of the elements in a chunk"
PAPER = (
    "Random accesses between growths: row-major order in chunks won against the Hilbert "
    "curve, the more so in 3 dimensions."
)
ORDERS = {"C": "row-major", "F": "column-major", "Z": "Morton", "H": "Hilbert"}
SIZES = {"tiny": {2: (64, 16), 3: (16, 4)}, "small": {2: (1024, 64), 3: (128, 16)}}
SIZES["full"] = {2: (8192, 64), 3: (512, 16)}
COUNT = {"tiny": 20, "small": 300, "full": 2000}


def run(work: Work) -> Report:
    charts = []
    sizes = work.choose(SIZES).items()
    work.need(max(len(ORDERS) * nbytes_of((side,) * k, chunk) for k, (side, chunk) in sizes))
    work.note(f"Here: {' and '.join(f'{side}^{k}' for k, (side, _) in sizes)} doubles.")
    for ndim in (2, 3):
        side, chunk = work.choose(SIZES)[ndim]
        loads = list(kinds(side, chunk, ndim, work.choose(COUNT)))
        arrays = {
            word: grown(work.new(), order, side, chunk, ndim) for order, word in ORDERS.items()
        }
        found = []
        for _, keys in loads:
            runs = {
                word: partial(each, [partial(array.read, key) for key in keys])
                for word, array in arrays.items()
            }
            times = work.least(runs, 3 * work.rounds)
            found.append({word: 1e6 * time / len(keys) for word, time in times.items()})
        for array in arrays.values():
            array.close()
        work.clear()
        names = [name for name, _ in loads]
        charts.append(Chart(f"{ndim} axes", "read", names, "µs a read", columns(found)))
    return Report(charts)


def judge(report: Report) -> list[Verdict]:
    random, *_ = zip(*(chart.ratio("Hilbert", "row-major") for chart in report.charts), strict=True)
    around = [chart.ratio("Hilbert", "row-major")[1:3] for chart in report.charts]
    apart = {order: f"{distance((64, 64), order):.3g}" for order in "CZH"}
    why = (
        f"The Hilbert curve takes {span(random)} times as long as row-major order for an element, "
        f"{span(np.concatenate(around))} times for a neighbourhood: in the page cache runs are "
        "moved at once, and curves save pages of a disk alone. Neighbours in a chunk of 64 x 64 "
        f"lie {apart['C']} elements apart in row-major order, {apart['Z']} in Morton's and "
        f"{apart['H']} along the curve."
    )
    better = every([found for some in around for found in below(some)])
    return [verdict(10, [every(above(random)), better], why)]


def distance(chunks: tuple[int, ...], order: str) -> float:
    """Return the mean distance in memory, in elements, between neighbours along an axis.

    The thesis asks for the curve with the least (section 10.2).  Row-major, column-major and Morton
    order have the same, and Hilbert's a larger one.
    """
    places = np.asarray(positions(chunks, order)).reshape(chunks)
    steps = [np.abs(np.diff(places, axis=axis)).ravel() for axis in range(len(chunks))]
    return float(np.concatenate(steps).mean())


def grown(path: Path, order: str, side: int, chunk: int, ndim: int) -> xa.ExtArray:
    """Return a filled array that has grown along its axes in turn."""
    array = xa.create(path / "a", (chunk,) * ndim, chunks=(chunk,) * ndim, order=order)
    for _, axis in itertools.product(range(side // chunk - 1), range(ndim)):
        array.extend(axis, chunk)
    array[...] = np.arange(float(array.size)).reshape(array.shape)
    return array


def kinds(side: int, chunk: int, ndim: int, n: int) -> list[tuple[str, list[Any]]]:
    """Return the kinds of reads, at random places."""
    rng = generator(ndim)

    def boxes(extent: int) -> list[Any]:
        starts = rng.integers(0, side - extent + 1, (n, ndim)).tolist()
        return [tuple(slice(i, i + extent) for i in start) for start in starts]

    points = list(map(tuple, rng.integers(0, side, (n, ndim)).tolist()))
    planes = rng.integers(0, side, max(2, n // 30)).tolist()
    return [
        ("an element", points),
        ("3 an axis", boxes(3)),
        (f"{chunk // 2} an axis", boxes(chunk // 2)),
        ("one index of axis 0", planes),
        ("one of the last axis", [(..., i) for i in planes]),
    ]
