"""Table 3 of the layout paper."""

from __future__ import annotations

from . import conversions
from .harness import Report, Verdict, Work

TITLE = "Layout paper, table 3: the same on 4 processes"
PAPER = "65536 x 65536 doubles on 4 processes: one read paid from 256 x 512 on."


def run(work: Work) -> Report:
    return conversions.report(work, work.choose(conversions.SIDES), (4,))


def judge(report: Report) -> list[Verdict]:
    return conversions.judge(report)
