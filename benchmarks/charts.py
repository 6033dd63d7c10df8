"""Draw the results of `compare.py`: our times beside NumPy's, and beside those of each library.

    python -m benchmarks.charts figures.json FOLDER

writes ``performance-numpy.svg`` and ``performance-libraries.svg``.  Losses have their own colour in
both.  Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from .peers import LIBRARIES
from .sizes import DASK, OURS

#: Keep text as text, and make drawings of the same figures the same bytes.
STYLE = {
    "font.size": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "extarray",
    "font.family": "DejaVu Sans",
}
AHEAD, BEHIND = "#2f6fab", "#d1661d"
#: Titles of the groups that have ratios to NumPy, in two columns of panels.
COLUMNS = (
    {
        "scalar": "one element",
        "slab": "slabs and planes",
        "layout": "to other chunks, in a fresh file",
    },
    {
        "box": "small boxes",
        "fancy": "selections by arrays",
        "compute": "computing",
        "create": "first write",
    },
)
#: Markers of the chunks' sides, in order; rows that differ only in the side share a line.
MARKERS = ("o", "s", "^", "D")

#: group -> case -> candidate -> results, as stored by `compare.py --json`.
Stored = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]


def main(arguments: list[str] | None = None) -> None:
    """Draw both charts from a file of results into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="what `compare.py --json` has written")
    parser.add_argument("folder", type=Path, help="where the charts go")
    options = parser.parse_args(arguments)
    results = json.loads(options.results.read_text(encoding="utf-8"))["results"]
    with mpl.rc_context(STYLE):
        for name, draw in (("numpy", beside_numpy), ("libraries", beside_libraries)):
            path = options.folder / f"performance-{name}.svg"
            draw(results).savefig(path, metadata={"Date": None}, bbox_inches="tight")


def beside_numpy(results: Stored) -> Figure:
    """Draw our times over NumPy's: a panel per group, a line per case, a dot per chunk shape."""
    panels = [
        [(title, lines(results[g])) for g, title in titles.items() if results.get(g)]
        for titles in COLUMNS
    ]
    panels = [column for column in panels if column]
    heights = [[len(cases) + 2.5 for _, cases in column] for column in panels]
    tall = max(sum(column) for column in heights)
    figure = Figure(figsize=(5.2 * len(panels), 0.17 * tall + 0.8))
    for number, (column, sizes) in enumerate(zip(panels, heights, strict=True)):
        top = 1.0
        for (title, cases), size in zip(column, sizes, strict=True):
            bottom = top - size / tall
            inside = (size - 2.5) / tall
            left = (number + 0.46) / len(panels)
            axes = figure.add_axes((left, bottom + 1.2 / tall, 0.5 / len(panels), inside))
            panel(axes, title, cases)
            top = bottom
    figure.legend(handles=legend(results), loc="upper center", bbox_to_anchor=(0.5, 0), ncols=4)
    return figure


def lines(cases: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the ratios to NumPy by case without chunks, then by chunks and engine."""
    found: dict[str, dict[str, Any]] = {}
    for case, row in cases.items():
        name, chunks = split(case)
        for engine in OURS:
            if (value := ratio(row.get(engine))) is not None:
                found.setdefault(name, {})[chunks, engine] = value
    return found


def split(case: str) -> tuple[str, str]:
    """Return a case's name and its chunks: ``"read all, 64³"`` has some, ``"a.sum()"`` has none."""
    match = re.fullmatch(r"(.*), (\d+[²³])", case)
    return (match[1], match[2]) if match else (case, "")


def ratio(outcome: Mapping[str, Any] | None) -> float | None:
    """Return a time over NumPy's; None if one is missing."""
    if not outcome or not outcome.get("median") or not outcome.get("reference"):
        return None
    return outcome["median"] / outcome["reference"]


def panel(axes: Axes, title: str, cases: Mapping[str, Mapping[tuple[str, str], float]]) -> None:
    """Draw the lines of a group."""
    kinds = list(dict.fromkeys(chunks for case in cases.values() for chunks, _ in case))
    for line, case in enumerate(cases.values()):
        for (chunks, engine), value in case.items():
            colour = AHEAD if value <= 1 else BEHIND
            inner = colour if engine == OURS[0] else "white"
            marker = marker_of(chunks, kinds)
            axes.plot(value, line, marker, ms=4, mfc=inner, mec=colour, mew=0.8, ls="none")
    axes.axvline(1, color="0.3", lw=0.8)
    axes.set_xscale("log")
    axes.set_xlim(0.1, 1000)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_yticks(range(len(cases)), list(cases))
    axes.set_title(title, loc="left", fontsize=8, fontweight="bold")
    scale(axes)


def marker_of(chunks: str, kinds: Sequence[str]) -> str:
    return MARKERS[kinds.index(chunks) % len(MARKERS)]


def legend(results: Stored) -> list[Line2D]:
    """Return the entries that explain the dots."""
    kinds = [k for k in dict.fromkeys(split(case)[1] for case in results.get("slab", {})) if k]

    def dot(label: str, marker: str, face: str, edge: str) -> Line2D:
        return Line2D([], [], marker=marker, ls="none", ms=4, mfc=face, mec=edge, label=label)

    return [
        dot("faster than NumPy", "o", AHEAD, AHEAD),
        dot("slower than NumPy", "o", BEHIND, BEHIND),
        dot("engine mmap", "o", "0.4", "0.4"),
        dot("engine pread", "o", "white", "0.4"),
        *(dot(f"chunks of {k}", marker_of(k, kinds), "0.4", "0.4") for k in kinds),
    ]


def beside_libraries(results: Stored) -> Figure:
    """Draw the time of each library over ours (engine mmap): a column per library."""
    names = [n for n in LIBRARIES if n not in DASK and any(times(results, n))]
    figure = Figure(figsize=(1.25 * len(names) + 1, 4.2))
    axes = figure.add_subplot()
    for column, name in enumerate(names):
        values = sorted(times(results, name))
        lost = sum(value < 1 for value in values)
        for place, value in enumerate(values):
            # Spread dots sideways, so that equal ones are visible.
            x = column + 0.6 * ((place * 0.618) % 1 - 0.5)
            colour = AHEAD if value >= 1 else BEHIND
            axes.plot(x, value, "o", ms=3, mfc=colour, mec="none", alpha=0.8)
        axes.annotate(
            f"{lost} of {len(values)}\nfaster than ours",
            (column, 0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            color=BEHIND if lost else "0.4",
            fontsize=7,
        )
    axes.axhline(1, color="0.3", lw=0.8)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.5) / 4, high)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("time of the library / time of extarray, mmap")
    scale(axes, axis="y")
    return figure


def times(results: Stored, name: str) -> list[float]:
    """Return a library's times over ours, for all cases that have both."""
    found = []
    for cases in results.values():
        for row in cases.values():
            ours, theirs = row.get(OURS[0], {}), row.get(name, {})
            if ours.get("median") and theirs.get("median"):
                # Ratios to NumPy's times in the same turns cancel differences between two batches.
                noise = (ours.get("reference") or 1) / (theirs.get("reference") or 1)
                found.append(theirs["median"] / ours["median"] * noise)
    return found


def scale(axes: Axes, axis: str = "x") -> None:
    """Give a logarithmic axis plain numbers, and grid lines behind the dots."""
    one = axes.xaxis if axis == "x" else axes.yaxis
    one.set_major_locator(LogLocator(numticks=12))
    one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    one.set_minor_formatter(NullFormatter())
    axes.grid(True, axis=axis, color="0.88", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
