"""Figure 6.4.1 of the thesis."""

from __future__ import annotations

from . import static_access
from .candidates import FILE, HDF5, HDF5_CACHE, MEMORY, OURS
from .harness import Report, Work

TITLE = "Thesis, figure 6.4.1: access to static arrays, chunked"
PAPER = (
    "As figure 3.5.1, with chunks, which the O2-tree finds. The conventional array was faster "
    "again, and the cost depended strongly on the number of axes. (The thesis has no file "
    "here; the file and HDF5 stand beside for today's reader. A chunk has 32 elements an axis, "
    "and at most 32768 in all.)"
)


def run(work: Work) -> Report:
    return static_access.run(work, (OURS, HDF5, HDF5_CACHE, FILE, MEMORY))
