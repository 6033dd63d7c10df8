"""Figure 9.4.4 of the thesis."""

from __future__ import annotations

from .harness import Chart, Report, Work, unmeasured
from .thesis_9_4_3 import measured

TITLE = "Thesis, figure 9.4.4: times of the endmember methods"
PAPER = (
    "Times of the same runs on 20 to 180 processes, GA with PEXTA beside MPI with parallel "
    "HDF5; no numbers survive. Input and output are not told apart."
)


def run(work: Work) -> Report:
    found = measured(work)
    ranks = list(found)
    lines = {name: [found[n][name] for n in ranks] for name in found[1]}
    chart = Chart("time", "ranks", ranks, "seconds", lines)
    share = max(
        found[1]["reading alone"] / found[1][name] for name in found[1] if name != ("reading alone")
    )
    best = {name: min(ranks, key=lambda n: found[n][name]) for name in found[1]}
    why = (
        (
            f"Reading the scene takes at most {100 * share:.0f} % of a method's time on one rank; "
            "the least time is "
        )
        + ", ".join(f"with {n} ranks for {name}" for name, n in best.items())
        + "."
    )
    return Report([chart], [unmeasured(23, "180 processes are not here to be tried.", why)])
