"""Figure 8.5.3 of the thesis."""

from __future__ import annotations

from . import ranks
from .harness import Chart, Report, Verdict, Work, above, every, span, unmeasured, verdict

TITLE = "Thesis, figure 8.5.3: writes after growth on all axes in turn"
PAPER = (
    "A cube grows by 2 on its axes in turn and is written back: PEXTA was far below parallel "
    "HDF5 and DRA, said to shuffle old chunks. (DRA does.)"
)


def run(work: Work) -> Report:
    found = ranks.growths(work)
    charts = []
    scale = ranks.SCALES[work.scale]
    for shape, _, by in scale.growths:
        size = "x".join(map(str, shape))
        lines = ranks.grown(found, f"{scale.times} growths from {size}")
        title = f"{scale.times} growths by {by} from {size}, each with its write"
        charts.append(Chart(title, "ranks", list(found.tables), "seconds", lines))
    return Report(charts)


def judge(report: Report) -> list[Verdict]:
    last = report.charts[-1]
    rivals = [name for name in last.lines if not name.startswith(("extarray", "pread"))]
    ratios = {name: last.ratio(name, "extarray") for name in rivals}
    said = "; ".join(f"{name} {span(some)}" for name, some in ratios.items())
    floor = span(last.ratio("pread and pwrite", "extarray"))
    why = f"Times as long as ours: {said}; plain writes of as many bytes {floor}."
    claimed = [name for name in ("DRA", "parallel HDF5") if name in ratios]
    if len(claimed) < 2:
        return [unmeasured(15, "DRA or parallel HDF5 is not here.", why)]
    return [verdict(15, [every(above(ratios[name], 2)) for name in claimed], why)]
