"""Figure 6.4.2 of the thesis."""

from __future__ import annotations

from . import histories
from .candidates import ELEMENTS_MEMORY, MEMORY, OURS_MEMORY
from .harness import Report, Verdict, Work, above, span, verdict

TITLE = "Thesis, figure 6.4.2: growth with accesses in between, in memory, chunked"
PAPER = (
    "As figure 3.5.2, with chunks of 32 an axis: far cheaper than the conventional array, and "
    "than the extendible one without chunks."
)


def run(work: Work) -> Report:
    charts = histories.compare(work, (OURS_MEMORY, ELEMENTS_MEMORY, MEMORY))
    return Report([*charts, histories.sides(work, (1, 8, 16, 32))])


def judge(report: Report) -> list[Verdict]:
    total, *_, sides = report.charts
    chunked = total.ratio(MEMORY, OURS_MEMORY)
    plain = total.ratio(ELEMENTS_MEMORY, OURS_MEMORY)
    gain = [line[0] / min(line[1:]) for line in sides.lines.values()]
    return [
        verdict(2, above(chunked, 2), f"Reallocating takes {span(chunked)} times as long."),
        verdict(
            4,
            above([*plain, *gain]),
            f"Chunks of one element take {span(plain)} times as long as the usual ones, and "
            f"{span(gain)} times as long as the best side: records are found in tables.",
        ),
    ]
