"""Figure 9.4.3 of the thesis."""

from __future__ import annotations

from .harness import Chart, Report, Verdict, Work, unmeasured
from .spectral import on_ranks, room

TITLE = "Thesis, figure 9.4.3: speed-up of the endmember methods"
PAPER = (
    "On 20 to 180 processes the speed-up of PPI and AMEE was nearly linear; the figures are lost."
)
SIZES = {"tiny": (24, 20, 10, 4), "small": (192, 128, 145, 14), "full": (2048, 614, 224, 16)}
RANKS = {"tiny": (1, 2), "small": (1, 2, 4), "full": (1, 2, 4)}


def measured(work: Work) -> dict[int, dict[str, float]]:
    *shape, classes = work.choose(SIZES)
    work.need(*room(tuple(shape), classes))
    work.note(f"Here: {' x '.join(map(str, shape))}, {classes} classes.")
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
    return Report([chart])


def judge(report: Report) -> list[Verdict]:
    lines = report.charts[0].lines
    said = ", ".join(f"{name} {line[1]:.1f}" for name, line in lines.items() if name != "linear")
    why = f"On 2 ranks, a core each: {said}. More ranks than cores gain nothing."
    return [unmeasured(23, "180 processes are not here.", why)]
