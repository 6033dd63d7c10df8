"""Figure 6.4.5 of the thesis."""

from __future__ import annotations

from . import orders_of_access
from .candidates import FILE, OURS
from .harness import Report, Work, below, verdict

TITLE = "Thesis, figure 6.4.5: all elements in the order of storage"
PAPER = (
    "All elements of arrays in files that have grown arbitrarily, in the order of their "
    "storage: the chunked array was slightly dearer than the conventional one."
)


def run(work: Work) -> Report:
    charts = orders_of_access.compare(work, 2)
    warm, cold = (chart.ratio(OURS, FILE)[0] for chart in charts)
    why = (
        f"Rows of a square take chunks {warm:.2f} times as long as a C-ordered file from the "
        f"page cache, and {cold:.2f} times from the disk."
    )
    why += orders_of_access.beside_hdf5(charts)
    return Report(charts, [verdict(9, below([warm, cold], 2), why)])
