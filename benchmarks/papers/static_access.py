"""Random access to arrays that do not grow, in 2 to 7 dimensions, beside conventional arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from .candidates import (
    ELEMENTS_MEMORY,
    FILE,
    IN_MEMORY,
    MEMORY,
    fill,
    get_each,
    make,
    places,
    side,
)
from .harness import (
    Chart,
    Report,
    Verdict,
    Work,
    above,
    columns,
    every,
    generator,
    nbytes_of,
    seconds,
    span,
    verdict,
)

CELLS = {"tiny": 10_000, "small": 10_000_000, "full": 1_000_000_000}
ACCESSES = 1000
RANKS = range(2, 8)


def run(work: Work, names: Sequence[str]) -> Report:
    """Time reads of elements one by one, and of the same elements in one selection."""
    single, together = [], []
    sizes = {ndim: (round(work.choose(CELLS) ** (1 / ndim)),) * ndim for ndim in RANKS}
    work.need(
        *(most(sizes, [n for n in names if (n in IN_MEMORY) == here]) for here in (False, True))
    )
    work.note(f"Here: {work.choose(CELLS):,} cells.")
    for ndim, bounds in sizes.items():
        keys = places(bounds, ACCESSES, generator(ndim))
        points = tuple(np.transpose(keys))
        arrays = {name: make(name, work.new(), bounds, growable=False) for name in names}
        for array in arrays.values():
            fill(array, bounds, generator())
        expected = arrays[names[-1]].pick(points)
        assert all((array.pick(points) == expected).all() for array in arrays.values())
        rounds = 2 * work.rounds

        def timed(call, arrays=arrays, rounds=rounds):
            runs = {n: partial(seconds, partial(call, a)) for n, a in arrays.items()}
            return {n: 1e9 * s / ACCESSES for n, s in work.least(runs, rounds).items()}

        single.append(timed(partial(get_each, keys=keys)))
        together.append(timed(lambda array, points=points: array.pick(points)))
        for array in arrays.values():
            array.close()
        del arrays, array, timed  # frees their files
        work.clear()
    charts = [
        Chart(title, "axes", list(RANKS), "ns an element", columns(found))
        for title, found in (("one by one", single), ("1000 in one selection", together))
    ]
    return Report(charts)


def judge(report: Report, ours: str) -> list[Verdict]:
    """Judge claim 1."""
    one, many = report.charts
    against = [MEMORY, *([FILE] if one.has(FILE) else [])]
    dearer = [every(above(chart.ratio(ours, name))) for chart in report.charts for name in against]
    rises = one.lines[ours][-1] / one.lines[ours][0]
    usual = one.lines[MEMORY][-1] / one.lines[MEMORY][0]
    said = "; ".join(
        f"{name}: an element {span(one.ratio(ours, name))}, one of 1000 selected together "
        f"{span(many.ratio(ours, name))}"
        for name in against
    )
    why = (
        f"Times as long as {said}. From 2 to 7 axes the time rises {rises:.1f}-fold, NumPy's "
        f"{usual:.1f}-fold: nothing is searched."
    )
    return [verdict(1, [*dearer, *above(rises / usual)], why)]


def most(sizes: Mapping[int, Sequence[int]], names: Sequence[str]) -> float:
    """Return the peak bytes of all these candidates' arrays with equally many axes."""
    plain = (FILE, MEMORY, ELEMENTS_MEMORY)
    return max(
        sum(nbytes_of(bounds, 1 if name in plain else side(ndim)) for name in names)
        for ndim, bounds in sizes.items()
    )
