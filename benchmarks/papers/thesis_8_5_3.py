"""Figure 8.5.3 of the thesis."""

from __future__ import annotations

from . import ranks
from .harness import Chart, Report, Work, above, every, span, unmeasured, verdict

TITLE = "Thesis, figure 8.5.3: writes after growth on all axes in turn"
PAPER = (
    "A cube of 3 dimensions grows by 2 on its axes in turn while a parallel program computes; "
    "at the end of the session it is written back, and the next one reads it again. PEXTA was "
    "far below parallel HDF5 and DRA: its old chunks stay, theirs are shuffled anew. (HDF5 "
    "moves no chunk; DRA does.)"
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
    last = charts[-1]
    rivals = [name for name in last.lines if not name.startswith(("extarray", "pread"))]
    ratios = {name: last.ratio(name, "extarray") for name in rivals}
    why = "; ".join(f"{name} takes {span(some)} times as long" for name, some in ratios.items())
    floor = span(last.ratio("pread and pwrite", "extarray"))
    why += f". Plain writes of as many bytes, which grow nothing, take {floor} of ours."
    claimed = [name for name in ("DRA", "parallel HDF5") if name in ratios]
    if len(claimed) < 2:
        lacking = "DRA or parallel HDF5, which could be as cheap, is not installed."
        return Report(charts, [unmeasured(15, lacking, why)])
    held = [every(above(ratios[name], 2)) for name in claimed]
    return Report(charts, [verdict(15, held, why)])
