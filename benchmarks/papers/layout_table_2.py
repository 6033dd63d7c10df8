"""Table 2 of the layout paper."""

from __future__ import annotations

from . import conversions
from .harness import Report, Verdict, Work

TITLE = "Layout paper, table 2: reading across chunks or changing them first"
PAPER = (
    "32768 x 32768 doubles, stored by rows, on 1 and 2 processes: conversions cost alike for "
    "all blocks, and one read pays for them from 512 x 256 on."
)


def run(work: Work) -> Report:
    side = work.choose(conversions.SIDES) // 2
    return conversions.report(work, side, (1, 2), with_squares=True)


def judge(report: Report) -> list[Verdict]:
    return conversions.judge(report)
