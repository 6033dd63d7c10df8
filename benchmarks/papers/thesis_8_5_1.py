"""Figure 8.5.1 of the thesis."""

from __future__ import annotations

from . import ranks
from .harness import Report, Work, above, below, every, span, unmeasured, verdict

TITLE = "Thesis, figure 8.5.1: transfer rate of parallel reads"
PAPER = (
    "5000^3 random doubles on a cluster, PEXTA, DRA and parallel HDF5, cut along chunks and "
    "not: aligned DRA was fastest, aligned PEXTA a little behind, as each process builds its "
    "trees; reads over several buffer sizes and numbers of processes, of which the figures are "
    "lost."
)


def run(work: Work) -> Report:
    found = ranks.zones(work)
    charts = ranks.rates(work, found, "read")
    aligned, unaligned = charts
    rivals = [name for name in ("DRA", "parallel HDF5") if aligned.has(name)]
    plain = span(aligned.ratio("extarray", "pread and pwrite"))
    why = f"Aligned reads of extarray have {plain} times the rate of plain `pread` of as many bytes"
    for name in rivals:
        why += f", and {span(aligned.ratio('extarray', name))} times that of {name}"
    why += (
        f"; unaligned ones {span(unaligned.ratio('extarray', 'extarray, MPI-IO'))} times "
        "that of our own MPI-IO."
    )
    if "DRA" not in rivals:
        return Report(charts, [unmeasured(13, "DRA is not installed.", why)])
    ratio = aligned.ratio("extarray", "DRA")
    return Report(charts, [verdict(13, [every(below(ratio)), every(above(ratio, 0.5))], why)])
