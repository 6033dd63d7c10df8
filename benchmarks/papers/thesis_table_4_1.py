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
from .harness import Chart, Report, Work, below, every, span, verdict

TITLE = "Thesis, table 4.1: costs of the mapping"
PAPER = (
    "An address and its inverse take O(k + log N) by axial vectors and by the O2-tree, of "
    "elements or of chunks, against O(k) of a conventional array; the records take O(k^2 "
    "N^(1/k)), as worst with growth on all axes in turn. The tree is credited with speed, and "
    "was not measured."
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
    tables, tree, vectors = (charts[0].lines[name] for name in (OURS, TREE, SEARCHED))
    slower = np.divide(tree, vectors)
    steps_fit = np.divide(counted, formula)
    per_record = [found[k][-1][OURS]["bytes"] / segments[-1] / (8 * (k + 3)) for k in RANKS]
    rise = [line[-1] / line[0] for line in (tables, vectors)]
    return Report(
        charts,
        [
            verdict(
                6,
                [every(below(slower))],
                f"An address takes the O2-tree {span(slower)} times as long as binary search in "
                "the axial vectors that it stands for, on equal histories, and "
                f"{span(np.divide(tree, tables))} times as long as a table of 4 bytes a chunk "
                "index.",
            ),
            verdict(
                7,
                [bool(((steps_fit > 0.4) & (steps_fit < 1.6)).all()), *below(max(per_record), 2)],
                f"Counted steps of a binary search are {span(steps_fit)} of k + k log2(E / k). "
                f"A record takes {span(per_record)} of the table's k + 3 words, with the "
                f"tables. From {segments[0]} to {segments[-1]} segments the time of an address "
                f"rises {rise[1]:.0f}-fold by binary search, and {rise[0]:.0f}-fold by our "
                "tables, whose cost is O(k); the rise is that of memory that no cache holds.",
            ),
        ],
    )


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
