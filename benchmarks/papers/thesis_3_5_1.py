"""Figure 3.5.1 of the thesis."""

from __future__ import annotations

from . import static_access
from .candidates import ELEMENTS_MEMORY, MEMORY
from .harness import Report, Verdict, Work

TITLE = "Thesis, figure 3.5.1: access to static arrays in memory, element by element"
PAPER = (
    "1000 random accesses to 10^9 cells in 2 to 7 dimensions: the conventional array was "
    "faster, and the extendible one's cost rose strongly with the axes."
)


def run(work: Work) -> Report:
    return static_access.run(work, (ELEMENTS_MEMORY, MEMORY))


def judge(report: Report) -> list[Verdict]:
    return static_access.judge(report, ELEMENTS_MEMORY)
