"""Figure 6.4.6 of the thesis."""

from __future__ import annotations

from . import orders_of_access
from .candidates import FILE, OURS
from .harness import Report, Verdict, Work, below, verdict

TITLE = "Thesis, figure 6.4.6: all elements in another order than that of storage"
PAPER = (
    "In another order than that of storage the conventional array's cost rose much, the "
    "chunked one's hardly."
)


def run(work: Work) -> Report:
    return Report(orders_of_access.compare(work, 3))


def judge(report: Report) -> list[Verdict]:
    charts = report.charts
    rises = {
        name: [max(line) / line[0] for line in (chart.lines[name] for chart in charts)]
        for name in charts[0].lines
    }
    said = ", ".join(f"{name} {warm:.1f} ({cold:.1f})" for name, (warm, cold) in rises.items())
    why = f"Time along the worst axis over the first one, warm (cold): {said}."
    why += orders_of_access.beside_hdf5(charts)
    holds = [
        found
        for mine, other in zip(rises[OURS], rises[FILE], strict=True)
        for found in below(mine, max(1.5, other))
    ]
    return [verdict(9, holds, why)]
