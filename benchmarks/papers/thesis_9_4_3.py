"""Figure 9.4.3 of the thesis."""

from __future__ import annotations

import os

from .harness import Chart, Report, Work, unmeasured
from .spectral import on_ranks, room

TITLE = "Thesis, figure 9.4.3: speed-up of the endmember methods"
PAPER = (
    "Speed-up over the serial code on 20 to 180 processes: with GA, PPI and AMEE were nearly "
    "linear. No numbers survive."
)
SIZES = {"tiny": (24, 20, 10, 4), "small": (192, 128, 145, 14), "full": (2048, 614, 224, 16)}
RANKS = {"tiny": (1, 2), "small": (1, 2, 4), "full": (1, 2, 4)}


def measured(work: Work) -> dict[int, dict[str, float]]:
    *shape, classes = work.choose(SIZES)
    work.need(*room(tuple(shape), classes))
    rounds = 1 if work.scale == "tiny" else 2
    return {
        n: on_ranks(work.folder.parent, tuple(shape), classes, n, rounds)
        for n in work.choose(RANKS)
    }


def run(work: Work) -> Report:
    found = measured(work)
    ranks = list(found)
    lines = {name: [found[1][name] / found[n][name] for n in ranks] for name in found[1]}
    lines["linear"] = [float(n) for n in ranks]
    chart = Chart("speed-up over one rank", "ranks", ranks, "times", lines, log=False)
    two = {name: line[1] for name, line in lines.items() if name != "linear"}
    cores = os.cpu_count() or 1
    words = ", ".join(f"{name} {gain:.2f}" for name, gain in two.items())
    why = (
        f"On 2 ranks, of {cores} cores that others used too: {words}. More ranks than cores "
        "gain nothing."
    )
    return Report([chart], [unmeasured(23, "180 processes are not here to be tried.", why)])
