"""Figure 9.4.4 of the thesis."""

from __future__ import annotations

from .harness import Chart, Report, Verdict, Work, unmeasured
from .thesis_9_4_3 import measured

TITLE = "Thesis, figure 9.4.4: times of the endmember methods"
PAPER = "Times of the same runs, GA with PEXTA beside MPI with parallel HDF5; the figures are lost."


def run(work: Work) -> Report:
    found = measured(work)
    ranks = list(found)
    lines = {name: [found[n][name] for n in ranks] for name in found[1]}
    chart = Chart("time", "ranks", ranks, "seconds", lines)
    return Report([chart])


def judge(report: Report) -> list[Verdict]:
    lines = dict(report.charts[0].lines)
    reading = lines.pop("reading alone")[0]
    share = max(reading / line[0] for line in lines.values())
    why = f"On one rank reading takes at most {100 * share:.0f} % of a method's time."
    return [unmeasured(23, "180 processes are not here.", why)]
