"""Figure 6.4.1 of the thesis."""

from __future__ import annotations

from . import static_access
from .candidates import FILE, HDF5, HDF5_CACHE, MEMORY, OURS
from .harness import Report, Verdict, Work

TITLE = "Thesis, figure 6.4.1: access to static arrays, chunked"
PAPER = (
    "As figure 3.5.1, with chunks found by the O2-tree: the conventional array was faster "
    "again. (The file and HDF5 are ours to add.)"
)


def run(work: Work) -> Report:
    return static_access.run(work, (OURS, HDF5, HDF5_CACHE, FILE, MEMORY))


def judge(report: Report) -> list[Verdict]:
    return static_access.judge(report, OURS)
