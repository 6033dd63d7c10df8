"""Figure 8.5.1 of the thesis."""

from __future__ import annotations

from . import ranks
from .harness import Report, Verdict, Work, above, below, every, span, unmeasured, verdict

TITLE = "Thesis, figure 8.5.1: transfer rate of parallel reads"
PAPER = (
    "Reads of 5000^3 doubles on a cluster: DRA was fastest if aligned with the chunks, PEXTA "
    "a little behind; the figures are lost."
)


def run(work: Work) -> Report:
    return Report(ranks.rates(work, ranks.zones(work), "read"))


def judge(report: Report) -> list[Verdict]:
    aligned, unaligned = report.charts
    rivals = [name for name in ("DRA", "parallel HDF5") if aligned.has(name)]
    said = [
        f"{span(aligned.ratio('extarray', name))} times the rate of {name}"
        for name in ("pread and pwrite", *rivals)
    ]
    why = (
        f"Aligned reads have {', '.join(said)}; unaligned ones "
        f"{span(unaligned.ratio('extarray', 'extarray, MPI-IO'))} times that of our own MPI-IO."
    )
    if "DRA" not in rivals:
        return [unmeasured(13, "DRA is not here.", why)]
    ratio = aligned.ratio("extarray", "DRA")
    return [verdict(13, [every(below(ratio)), every(above(ratio, 0.5))], why)]
