"""Table 4 of the layout paper."""

from __future__ import annotations

from . import conversions
from .harness import Report, Verdict, Work

TITLE = "Layout paper, table 4: the same on another cluster"
PAPER = (
    "65536 x 65536 doubles on 1, 2 and 4 processes: one read paid from 256 x 512, 32 x 4096 "
    "and 128 x 1024 on."
)


def run(work: Work) -> Report:
    return conversions.report(work, work.choose(conversions.SIDES), (1, 2, 4))


def judge(report: Report) -> list[Verdict]:
    return conversions.judge(report)
