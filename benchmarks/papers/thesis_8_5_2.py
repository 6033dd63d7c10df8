"""Figure 8.5.2 of the thesis."""

from __future__ import annotations

from . import ranks
from .harness import Report, Verdict, Work, unmeasured

TITLE = "Thesis, figure 8.5.2: transfer rate of parallel writes"
PAPER = "As figure 8.5.1, for writes, which beat reads as processes rise; the figures are lost."


def run(work: Work) -> Report:
    found = ranks.zones(work)
    reads, _ = ranks.rates(work, found, "read")
    last = {name: line[-1] for name, line in reads.lines.items()}
    return Report(ranks.rates(work, found, "write"), facts={"reads": last})


def judge(report: Report) -> list[Verdict]:
    writes, reads = report.charts[0], report.facts["reads"]
    said = ", ".join(
        f"{name} {line[-1] / reads[name]:.2f}"
        for name, line in writes.lines.items()
        if name in reads and name != "pread and pwrite"
    )
    why = f"Aligned, over the rate of reads: {said}. A cluster's file servers are not here."
    return [unmeasured(14, f"{writes.xs[-1]} ranks are not many.", why)]
