"""Figure 6.4.5 of the thesis."""

from __future__ import annotations

from . import orders_of_access
from .candidates import FILE, OURS
from .harness import Report, Verdict, Work, below, verdict

TITLE = "Thesis, figure 6.4.5: all elements in the order of storage"
PAPER = (
    "All elements of files that have grown, in the order of storage: chunks were slightly "
    "dearer than the conventional array."
)


def run(work: Work) -> Report:
    return Report(orders_of_access.compare(work, 2))


def judge(report: Report) -> list[Verdict]:
    warm, cold = (chart.ratio(OURS, FILE)[0] for chart in report.charts)
    why = (
        f"Rows of a square take chunks {warm:.1f} times as long as a C-ordered file from the "
        f"page cache, {cold:.1f} times from the disk."
    )
    why += orders_of_access.beside_hdf5(report.charts)
    return [verdict(9, below([warm, cold], 2), why)]
