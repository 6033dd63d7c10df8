"""Figure 3.5.1 of the thesis."""

from __future__ import annotations

from . import static_access
from .candidates import ELEMENTS_MEMORY, MEMORY
from .harness import Report, Work

TITLE = "Thesis, figure 3.5.1: access to static arrays in memory, element by element"
PAPER = (
    "10^9 cells in 2 to 7 dimensions, 1000 random accesses each: the extendible array, mapped "
    "element by element by axial vectors with binary search, beside the conventional one. The "
    "conventional array was faster, and the extendible one's cost rose strongly with the "
    "number of axes."
)


def run(work: Work) -> Report:
    return static_access.run(work, (ELEMENTS_MEMORY, MEMORY), ELEMENTS_MEMORY)
