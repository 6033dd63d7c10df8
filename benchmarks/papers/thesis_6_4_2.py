"""Figure 6.4.2 of the thesis."""

from __future__ import annotations

from . import histories
from .candidates import ELEMENTS_MEMORY, MEMORY, OURS_MEMORY
from .harness import Report, Work, above, span, verdict

TITLE = "Thesis, figure 6.4.2: growth with accesses in between, in memory, chunked"
PAPER = (
    "As figure 3.5.2, with chunks: far cheaper than the conventional array, and than the "
    "extendible array without chunks, whose every growth makes a record. Sides of 8, 16 and 32 "
    "were tried; only 32 was reported."
)


def run(work: Work) -> Report:
    charts = histories.compare(work, (OURS_MEMORY, ELEMENTS_MEMORY, MEMORY))
    chunked = charts[0].ratio(MEMORY, OURS_MEMORY)
    plain = charts[0].ratio(ELEMENTS_MEMORY, OURS_MEMORY)
    sides = histories.sides(work, (1, 8, 16, 32))
    gain = [line[0] / min(line[1:]) for line in sides.lines.values()]
    return Report(
        [*charts, sides],
        [
            verdict(
                2,
                above(chunked, 2),
                f"Reallocating takes {span(chunked)} times as long as chunks.",
            ),
            verdict(
                4,
                above([*plain, *gain]),
                f"Chunks of one element take {span(plain)} times as long as the usual ones, and "
                f"{span(gain)} times as long as the best side. Tables in place of searches, and "
                "few records at either size, leave the difference to the pages that a chunk "
                "keeps together.",
            ),
        ],
    )
