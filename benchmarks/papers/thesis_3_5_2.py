"""Figure 3.5.2 of the thesis."""

from __future__ import annotations

from . import histories
from .candidates import ELEMENTS_MEMORY, MEMORY
from .harness import Report, Work, above, span, verdict

TITLE = "Thesis, figure 3.5.2: growth with accesses in between, in memory, element by element"
PAPER = (
    "Arrays of 2, 3 and 4 dimensions grow 15, 7 and 4 times along random axes, with 1000 "
    "random accesses in between. The extendible array was far cheaper, as the conventional one "
    "is copied at each growth."
)


def run(work: Work) -> Report:
    charts = histories.compare(work, (ELEMENTS_MEMORY, MEMORY))
    ratios = charts[0].ratio(MEMORY, ELEMENTS_MEMORY)
    why = (
        f"Reallocating NumPy's array takes {span(ratios)} times as long as growing ours: "
        f"{span(charts[1].ratio(MEMORY, ELEMENTS_MEMORY))} times for the growths, and "
        f"{span(charts[2].ratio(MEMORY, ELEMENTS_MEMORY))} times for the accesses."
    )
    return Report(charts, [verdict(2, above(ratios, 2), why)])
