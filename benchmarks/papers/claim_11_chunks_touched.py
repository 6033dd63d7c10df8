"""Claim 11: formula 5.2.2 predicts how many chunks a query touches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

import extarray as xa

from .harness import (
    Chart,
    Report,
    Verdict,
    Work,
    below,
    columns,
    each,
    generator,
    nbytes_of,
    verdict,
)

TITLE = "Claim 11: the chunks that queries touch, and the best chunk shape"
PAPER = (
    "A query of shape A touches on average the product of (A_i - 1) / c_i + 1 chunks of shape "
    "c (5.2.2), more than that of ceil(A_i / c_i) (5.2.1)."
)
SIDE = {"tiny": 64, "small": 2048, "full": 8192}
COUNT = {"tiny": 30, "small": 400, "full": 2000}
#: Chunks of the same number of elements, and the queries, as shares of the side.
SHAPES = [(1024, 4), (256, 16), (64, 64), (16, 256), (4, 1024)]
QUERIES = [((256, 16), 0.6), ((16, 64), 0.4)]


def run(work: Work) -> Report:
    side = work.choose(SIDE)
    work.need(nbytes_of((side, side), 1))
    scale = max(1, 2048 // side) if side < 2048 else 1
    shapes = [tuple(max(1, n // scale) for n in shape) for shape in SHAPES]
    queries = [(tuple(max(1, n // scale) for n in query), weight) for query, weight in QUERIES]
    rng = generator()
    boxes = list(drawn(side, queries, work.choose(COUNT), rng))
    found, times = [], []
    for shape in shapes:
        counted = float(np.mean([touched(box, shape) for box in boxes]))
        found.append(
            {"counted": counted, "5.2.2": exact(queries, shape), "5.2.1": average(queries, shape)}
        )
        with xa.create(work.new() / "a", (side, side), chunks=shape) as array:
            array[...] = 1.0
            run = partial(each, [partial(array.read, box) for box in boxes])
            times.append({"a query": 1e6 * work.least({"": run}, 3 * work.rounds)[""] / len(boxes)})
        work.clear()
    names = [" x ".join(map(str, shape)) for shape in shapes]
    counts = Chart("chunks that a query touches", "chunk", names, "chunks", columns(found))
    clock = Chart("by the clock, warm", "chunk", names, "µs a query", columns(times))
    advice = xa.advise_chunks((side, side), access=queries, block_bytes=8 * math.prod(shapes[0]))
    return Report([counts, clock], facts={"advice": " x ".join(map(str, advice))})


def judge(report: Report) -> list[Verdict]:
    counts, clock = report.charts
    error, rough = (abs(counts.ratio(name, "counted") - 1).max() for name in ("5.2.2", "5.2.1"))
    times = clock.lines["a query"]
    by_formula, by_clock = (int(np.argmin(line)) for line in (counts.lines["5.2.2"], times))
    loss = times[by_formula] / times[by_clock]
    why = (
        f"5.2.2 is within {100 * error:.0f} % of the count, 5.2.1 within {100 * rough:.0f} %. The "
        f"formula chooses {clock.xs[by_formula]}, the clock {clock.xs[by_clock]}: the former takes "
        f"{loss:.2f} times as long. `xa.advise_chunks`, which tries all shapes, gives "
        f"{report.facts['advice']}."
    )
    return [verdict(11, [bool(error < 0.1), *below(loss, 1.15)], why)]


def drawn(side, queries, n, rng):
    """Yield boxes at random places, with frequencies given by their weights."""
    kinds = rng.choice(len(queries), n, p=[weight for _, weight in queries])
    for kind in kinds:
        query = queries[kind][0]
        starts = [int(rng.integers(0, side - extent + 1)) for extent in query]
        yield tuple(slice(i, i + extent) for i, extent in zip(starts, query, strict=True))


def touched(box: Sequence[slice], chunk: Sequence[int]) -> int:
    return math.prod((s.stop - 1) // c - s.start // c + 1 for s, c in zip(box, chunk, strict=True))


def exact(queries, chunk: Sequence[int]) -> float:
    """Formula 5.2.2."""
    return sum(
        p * math.prod((a - 1) / c + 1 for a, c in zip(q, chunk, strict=True)) for q, p in queries
    )


def average(queries, chunk: Sequence[int]) -> float:
    """Formula 5.2.1."""
    return sum(p * math.prod(-(-a // c) for a, c in zip(q, chunk, strict=True)) for q, p in queries)
