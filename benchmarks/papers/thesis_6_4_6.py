"""Figure 6.4.6 of the thesis."""

from __future__ import annotations

from . import orders_of_access
from .candidates import FILE, HDF5, OURS
from .harness import Report, Work, below, verdict

TITLE = "Thesis, figure 6.4.6: all elements in another order than that of storage"
PAPER = (
    "The same, with an access order that is not that of storage: the conventional array's cost "
    "rose much, the chunked one's hardly."
)


def run(work: Work) -> Report:
    charts = orders_of_access.compare(work, 3)
    rises = {
        name: [max(line) / line[0] for line in (chart.lines[name] for chart in charts)]
        for name in charts[0].lines
    }
    ours, theirs = rises[OURS], rises[FILE]
    why = (
        f"From the best axis to the worst the time rises {ours[0]:.1f}-fold with chunks and "
        f"{theirs[0]:.1f}-fold with a C-ordered file in the page cache, and {ours[1]:.1f}- and "
        f"{theirs[1]:.1f}-fold from the disk."
    )
    why += orders_of_access.beside_hdf5(charts)
    if HDF5 in rises:
        why += f" HDF5, chunked as well: {rises[HDF5][0]:.1f} and {rises[HDF5][1]:.1f}."
    holds = [
        found
        for mine, other in zip(ours, theirs, strict=True)
        for found in below(mine, max(1.5, other))
    ]
    return Report(charts, [verdict(9, holds, why)])
