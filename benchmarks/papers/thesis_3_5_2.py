"""Figure 3.5.2 of the thesis."""

from __future__ import annotations

from . import histories
from .candidates import ELEMENTS_MEMORY, MEMORY
from .harness import Report, Verdict, Work, above, span, verdict

TITLE = "Thesis, figure 3.5.2: growth with accesses in between, in memory, element by element"
PAPER = (
    "Arrays of 2, 3 and 4 dimensions grow 15, 7 and 4 times, with 1000 random accesses in "
    "between: the extendible one was far cheaper, as nothing is copied."
)


def run(work: Work) -> Report:
    return Report(histories.compare(work, (ELEMENTS_MEMORY, MEMORY)))


def judge(report: Report) -> list[Verdict]:
    total, growth, access = (chart.ratio(MEMORY, ELEMENTS_MEMORY) for chart in report.charts)
    why = (
        f"Reallocating NumPy's array takes {span(total)} times as long: {span(growth)} times for "
        f"the growths, {span(access)} for the accesses."
    )
    return [verdict(2, above(total, 2), why)]
