"""Claim 5: the time of an access does not suffer from growth."""

from __future__ import annotations

from functools import partial

import numpy as np

import extarray as xa

from .candidates import places
from .harness import Chart, Report, Verdict, Work, below, columns, each, generator, span, verdict

TITLE = "Claim 5: one access after more and more growths"
PAPER = (
    "An access costs the same whatever has grown, by a search of the axial vectors in O(k log E)."
)
SEGMENTS = {
    "tiny": [1, 10],
    "small": [1, 10, 100, 1000, 10_000],
    "full": [1, 10, 100, 1000, 10_000, 100_000],
}
CHUNK = 4


def run(work: Work) -> Report:
    segments = work.choose(SEGMENTS)
    side = CHUNK * max(segments[-1] // 2, 4)
    found = []
    keys = places((side, side), 1000, generator())
    rng = generator(1)
    boxes = [
        tuple(slice(i, i + 4 * CHUNK) for i in start)
        for start in rng.integers(0, side - 4 * CHUNK, (200, 2)).tolist()
    ]
    for n in segments:
        path = work.new() / "a"
        with xa.create(
            path, (CHUNK, CHUNK), "u1", chunks=CHUNK, growth="exact", sparse=True
        ) as array:
            ends = np.linspace(CHUNK, side, n // 2 + 1 if n > 1 else 2).astype(int)
            for end in ends[1:]:
                for axis in (0, 1):
                    array.extend(axis, int(end) - array.shape[axis])
            runs = {
                "an element": partial(each, [partial(array.__getitem__, key) for key in keys]),
                "a box of 16 x 16": partial(
                    each, [partial(array.__getitem__, box) for box in boxes]
                ),
            }
            times = work.least(runs, 5 * work.rounds)
            counts = {"an element": len(keys), "a box of 16 x 16": len(boxes)}
            found.append({name: 1e9 * time / counts[name] for name, time in times.items()})
    chart = Chart("after growths", "growths", segments, "ns an access", columns(found))
    return Report([chart])


def judge(report: Report) -> list[Verdict]:
    (chart,) = report.charts
    rises = [max(line) / line[0] for line in chart.lines.values()]
    why = (
        f"From {chart.xs[0]} to {chart.xs[-1]} growths the time of an access rises {span(rises)}"
        "-fold: it looks up a table, which caches no longer hold."
    )
    return [verdict(5, below(rises, 1.5), why)]
