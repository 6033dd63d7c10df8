"""The pages of a run: the claims judged, and a page an experiment with plots and tables."""

from __future__ import annotations

import importlib
import io
import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import EXPERIMENTS
from .candidates import (
    ELEMENTS,
    ELEMENTS_MEMORY,
    FILE,
    HDF5,
    HDF5_CACHE,
    MEMORY,
    NETCDF,
    OURS,
    OURS_MEMORY,
    ZARR,
)
from .claims import CLAIMS
from .harness import Chart, Holds, Report, Verdict

#: Colours by Okabe and Ito, and a grey, that colour-blind readers can tell apart.
PALETTE = (
    *("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#585858"),
)
#: Marks of points, as different as can be.
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">", "*", "p", "h", "d")

#: Each candidate has one colour and one mark in all plots; other lines take what is left.
STYLES = {
    OURS: (PALETTE[0], "o"),
    OURS_MEMORY: (PALETTE[0], "o"),
    "tables (extarray)": (PALETTE[0], "o"),
    ELEMENTS: (PALETTE[4], "D"),
    ELEMENTS_MEMORY: (PALETTE[4], "D"),
    "extarray, MPI-IO": (PALETTE[4], "P"),
    MEMORY: (PALETTE[7], "X"),
    FILE: (PALETTE[6], "v"),
    HDF5: (PALETTE[1], "s"),
    HDF5_CACHE: (PALETTE[5], "<"),
    NETCDF: (PALETTE[2], "^"),
    ZARR: (PALETTE[3], "p"),
}

#: Lines of ours, of which a table shows the others as multiples.
BASES = ("extarray", OURS_MEMORY, ELEMENTS_MEMORY, "tables (extarray)", "the cube")

#: With more places along a named axis, a table has the first, the middle and the last one.
ROWS = 3

#: A page tells a load above this.
BUSY = 2.0

#: The page of the claims.
INDEX = "index.md"

#: The figures of all pages, beside their pictures.
RESULTS = "results.json"


def unit_of(value: float) -> str:
    """Return a number with two digits, without an exponent if possible."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.1e}")
    if 1e-4 <= abs(rounded) < 1e6:
        digits = max(0, 1 - int(f"{rounded:e}".partition("e")[2]))
        return f"{rounded:,.{digits}f}"
    return f"{value:.1e}"


def table(chart: Chart) -> list[str]:
    """Return a chart as a table of a few rows, first and last ones included, below its title.

    Beside a line of ours, the others are multiples of it.
    """
    first, *others = chart.lines
    base = chart.lines[first] if first in BASES and others else None

    def cell(name: str, i: int) -> str:
        value = chart.lines[name][i]
        if value is None:
            return "–"
        if base is None or name == first:
            return unit_of(value)
        return "–" if base[i] is None else f"{unit_of(value / base[i])}×"

    n = len(chart.xs)
    shown = (
        range(n) if n <= ROWS or not chart.x else sorted({round(k * (n - 1) / 2) for k in range(3)})
    )
    rows = [
        [chart.x, *chart.lines],
        *([str(chart.xs[i]), *(cell(name, i) for name in chart.lines)] for i in shown),
    ]
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    about = f"{chart.title[:1].upper()}{chart.title[1:]}, {chart.unit}"
    if base is not None:
        about += f"; ×: times {first}"
    return [f"{about}:", "", head, f"|---|{'---:|' * len(chart.lines)}", *body]


def draw(charts: Sequence[Chart], path: Path) -> None:
    """Draw charts side by side to a file; the same figures give the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(len(charts), 2)
    down = -(-len(charts) // across)
    names = list(dict.fromkeys(name for chart in charts for name in chart.lines))
    styles = styles_of(names)
    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "extarray", "font.size": 9}):
        figure = Figure(figsize=(4.6 * across, 3.2 * down + 0.5), layout="constrained")
        places = figure.subplots(down, across, squeeze=False).reshape(-1)
        handles: dict[str, Any] = {}
        for place, chart in zip(places, charts, strict=False):
            handles |= _plot(place, chart, styles)
        known = [name for name in names if name in handles]
        lines = [handles[name] for name in known]
        if len(charts) < len(places):  # the last place is free
            places[-1].set_axis_off()
            places[-1].legend(lines, known, loc="center")
        else:
            figure.legend(lines, known, loc="outside lower center", ncols=4, fontsize=8)
        figure.savefig(text, format="svg", metadata={"Date": None})

    # A tenth of a point is fine enough, and saves half of the bytes.
    def shorter(tag: re.Match[str]) -> str:
        return re.sub(r"(\.\d)\d+", r"\1", tag[0])

    short = re.sub(r"<[^>]*>", shorter, text.getvalue())
    path.write_text(re.sub(r"\n\s+", "\n", short), encoding="utf-8")


def styles_of(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the colour and the mark of each line of a figure."""
    found = {name: STYLES[name] for name in names if name in STYLES}
    used = [set(part) for part in zip(*found.values(), strict=True)] or [set(), set()]
    colours, marks = (
        itertools.cycle([one for one in every if one not in taken] or every)
        for every, taken in zip((PALETTE, MARKERS), used, strict=True)
    )
    others = [name for name in names if name not in found]
    return found | {name: (next(colours), next(marks)) for name in others}


def _plot(place: Any, chart: Chart, styles: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Draw a chart; return its lines by name."""
    numeric = all(isinstance(x, (int, float)) for x in chart.xs)
    xs = list(chart.xs) if numeric else list(range(len(chart.xs)))
    handles = {}
    for name, values in chart.lines.items():
        known = [(x, y) for x, y in zip(xs, values, strict=True) if y is not None]
        if known:
            points = list(zip(*known, strict=True))
            colour, mark = styles[name]
            # No way leads from one name to the next.
            style = {"color": colour, "marker": mark, "ms": 4, "lw": 1 if numeric else 0}
            (handles[name],) = place.plot(*points, alpha=0.85, **style)
    ys = [y for line in chart.lines.values() for y in line if y is not None]
    if chart.log and all(y > 0 for y in ys):
        place.set_yscale("log")
        _number(place.yaxis)
    if numeric and min(xs) > 0 and max(xs) / min(xs) > 20:
        place.set_xscale("log")
        _number(place.xaxis)
    if len(xs) < 12:
        names = list(map(_plain if numeric else str, chart.xs))
        turned = {"rotation": 40, "ha": "right"} if sum(map(len, names)) > 40 else {}
        place.set_xticks(xs, names, **turned)
    place.set(title=chart.title, xlabel=chart.x, ylabel=chart.unit)
    place.minorticks_off()
    place.grid(alpha=0.3)
    return handles


def _number(axis: Any) -> None:
    """Give a logarithmic axis some ticks with plain numbers, however short it is."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    low, high = axis.get_view_interval()
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    # The fewest digits that give three numbers.
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        ticks = [d * 10.0**e for e in decades for d in digits if low <= d * 10.0**e <= high]
        if len(ticks) >= 3:
            break
    else:
        digits = 1 - math.floor(math.log10(high - low))
        ticks = sorted({round(low + (high - low) * k / 4, digits) for k in range(1, 4)})
    axis.set_major_locator(FixedLocator(ticks[:: -(-len(ticks) // 8)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))


def _plain(value: float) -> str:
    """Return a number without an exponent, if it is not too long."""
    text = f"{value:,.10g}"
    return text if len(text) <= 9 else f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-")


def title(name: str) -> str:
    """Return the title of an experiment."""
    found: str = importlib.import_module(f"{__package__}.{name}").TITLE
    return found


def page(name: str, report: Report, link: str) -> list[str]:
    """Return the Markdown of an experiment."""
    experiment = importlib.import_module(f"{__package__}.{name}")
    lines = [f"# {title(name)}", "", f"**The papers.** {experiment.PAPER}", ""]
    for found in report.verdicts:
        lines += [f"**Claim {found.claim}: {found.holds}.** {found.why}", ""]
    if report.charts:
        about = "; ".join(dict.fromkeys(chart.title for chart in report.charts))
        lines += [f"![{about}]({link}/{name}.svg)", "", *table(report.charts[0]), ""]
    for note in report.notes:
        lines += [note, ""]
    if report.load > BUSY:
        lines += [f"The load was {report.load:.0f}: compare with care.", ""]
    return lines


def judged(reports: Mapping[str, Report]) -> list[str]:
    """Return the table of all claims."""
    rows = ["| | claim | holds | where |", "|---|---|---|---|"]
    for number, claim in CLAIMS.items():
        found = found_for(number, reports)
        links = dict.fromkeys(f"[{brief(name)}]({name}.md)" for name, _ in found)
        holds = joined([holds for _, holds in found])
        rows.append(f"| {number} | {claim} | {holds} | {', '.join(links) or '–'} |")
    return rows


def rejudged(name: str, report: Report) -> Report:
    """Return a report with the verdicts that its figures give."""
    if not report.charts:
        return report
    experiment = importlib.import_module(f"{__package__}.{name}")
    return replace(report, verdicts=experiment.judge(report))


def counted(reports: Mapping[str, Report]) -> str:
    """Return how many claims hold, in a sentence."""
    found = Counter(joined([h for _, h in found_for(n, reports)]) for n in CLAIMS)
    return (
        f"Of {len(CLAIMS)} claims {found['yes']} hold, {found['in part']} in part, "
        f"{found['no']} do not; {found['undecided']} are within the noise, and "
        f"{found['not measured']} need what is not here."
    )


def found_for(number: int, reports: Mapping[str, Report]) -> list[tuple[str, Holds]]:
    """Return the verdicts on a claim, with the experiments that found them."""
    return [
        (name, verdict.holds)
        for name, report in reports.items()
        for verdict in report.verdicts
        if verdict.claim == number
    ]


def short(name: str) -> str:
    """Return the title of an experiment without its subject."""
    return title(name).partition(":")[0]


def brief(name: str) -> str:
    """Return the figure, the table or the claim of an experiment, in few words."""
    found = short(name).replace("Thesis, ", "").replace(" paper,", "")
    return found[:1].upper() + found[1:]


def joined(found: Sequence[Holds]) -> Holds:
    """Return one word for several verdicts on a claim."""
    known = {holds for holds in found if holds != "not measured"}
    if not known:
        return "not measured"
    return known.pop() if len(known) == 1 else "in part"


def load(pictures: Path) -> dict[str, Report]:
    """Return the reports from which a page was written."""
    path = pictures / RESULTS
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Report(
            [Chart(**chart) for chart in one.pop("charts")],
            [Verdict(**verdict) for verdict in one.pop("verdicts")],
            **one,
        )
        for name, one in found.items()
        if name in EXPERIMENTS
    }


def write(
    folder: Path,
    pictures: Path,
    head: Sequence[str],
    reports: Mapping[str, Report],
    drawn: Container[str] = (),
) -> None:
    """Write the pages, the figures, and those pictures that are not drawn already."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures.mkdir(parents=True, exist_ok=True)
    ordered = {name: reports[name] for name in EXPERIMENTS if name in reports}
    plain = {name: asdict(report) for name, report in ordered.items()}
    text = json.dumps(plain, indent=1, default=float, ensure_ascii=False)
    (pictures / RESULTS).write_text(text + "\n", encoding="utf-8")
    link = Path(os.path.relpath(pictures, folder)).as_posix()
    for name, report in ordered.items():
        if report.charts and name not in drawn:
            draw(report.charts, pictures / f"{name}.svg")
        save(folder / f"{name}.md", page(name, report, link))
    pages = ["```{toctree}", ":hidden:", *ordered, "```"]
    save(folder / INDEX, [*head, "", counted(ordered), "", *judged(ordered), "", *pages])


def save(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
