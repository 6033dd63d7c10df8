"""Table 4.1 of the thesis, and the structures behind it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import extarray as xa

from ..indices.__main__ import OURS, history, makers, measure
from ..indices.build import compiler
from ..indices.structures import COMPILED, Library
from ..sizes import Unsupported
from .harness import Chart, Report, Verdict, Work, below, every, span, verdict

TITLE = "Thesis, table 4.1: costs of the mapping"
PAPER = (
    "An address and its inverse take O(k + log N) by axial vectors and by the O2-tree, and "
    "the records O(k^2 N^(1/k)) of storage; the tree's speed was not measured."
)
SEGMENTS = {
    "tiny": [10, 100],
    "small": [10, 100, 1000, 10_000, 100_000],
    "full": [10, 100, 1000, 10_000, 100_000, 1_000_000],
}
RANKS = (2, 3, 4)
SEARCHED, TREE = COMPILED["axial_vectors"], COMPILED["o2_tree"]


def run(work: Work) -> Report:
    if compiler() is None:
        raise Unsupported("the structures of the literature are C, and there is no compiler")
    segments = work.choose(SEGMENTS)
    libraries = {name: Library(name, work.new()) for name in COMPILED}
    made = makers(libraries)
    found = {k: [measure(made, k, n, lookups=5000) for n in segments] for k in RANKS}
    charts = []
    for column, title in (("addresses", "address"), ("indices", "inverse")):
        lines = {name: [1e9 * one[name][column] for one in found[3]] for name in made}
        charts.append(Chart(f"{title}, 3 axes", "segments", segments, "ns", lines))
    counted = [steps(3, n) for n in segments]
    formula = [3 + 3 * math.log2(max(2, n / 3)) for n in segments]
    charts.append(
        Chart(
            "searching axial vectors, 3 axes",
            "segments",
            segments,
            "steps",
            {"counted": counted, "k + k log2(E / k)": formula},
            log=False,
        )
    )
    sizes = {f"{k} axes, in memory": [one[OURS]["bytes"] for one in found[k]] for k in RANKS}
    sizes |= {
        f"{k} axes, in the file": [
            metadata(k, n, work.new()) if n <= 1000 else None for n in segments
        ]
        for k in (2, 4)
    }
    sizes["8 (k + 3) E, k = 4"] = [8.0 * 7 * n for n in segments]
    charts.append(Chart("storage of the records", "segments", segments, "bytes", sizes))
    return Report(charts)


def judge(report: Report) -> list[Verdict]:
    address, _, searches, sizes = report.charts
    tables, tree, vectors = (address.lines[name] for name in (OURS, TREE, SEARCHED))
    slower = np.divide(tree, vectors)
    fit = np.divide(*searches.lines.values())
    per_record = [
        sizes.lines[f"{k} axes, in memory"][-1] / sizes.xs[-1] / (8 * (k + 3)) for k in RANKS
    ]
    rise = [line[-1] / line[0] for line in (tables, vectors)]
    return [
        verdict(
            6,
            [every(below(slower))],
            f"An address takes the O2-tree {span(slower)} times as long as binary search in the "
            f"axial vectors, and {span(np.divide(tree, tables))} times as long as our tables.",
        ),
        verdict(
            7,
            [bool(((fit > 0.4) & (fit < 1.6)).all()), *below(max(per_record), 2)],
            f"A binary search takes {span(fit)} of the formula's steps, a record "
            f"{span(per_record)} of its k + 3 words. Up to {address.xs[-1]} segments the time "
            f"rises {rise[1]:.0f}-fold by binary search, {rise[0]:.0f}-fold by our tables, which "
            "caches no longer hold.",
        ),
    ]


def steps(ndim: int, segments: int) -> float:
    """Return the comparisons of a binary search in the vectors of all axes, for a random chunk."""
    _, axes, _ = history(ndim, segments)
    records = np.bincount(axes[np.flatnonzero(np.diff(axes, prepend=-1))], minlength=ndim) + 1
    return float(sum(math.ceil(math.log2(n + 1)) for n in records))


def metadata(ndim: int, segments: int, folder: Path) -> float:
    """Return the bytes of `.xmd` that growths of one chunk on all axes in turn have added."""
    path = folder / "a"
    with xa.create(path, (1,) * ndim, "u1", chunks=1, sparse=True, growth="exact") as array:
        first = path.with_suffix(".xmd").stat().st_size
        for number in range(segments - 1):
            array.extend(number % ndim, 1)
        array.flush()
        return float(max(1, path.with_suffix(".xmd").stat().st_size - first))
