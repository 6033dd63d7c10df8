"""Claim 22: which method finds endmembers best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..sizes import Unsupported
from . import accuracies
from .harness import Chart, Report, Verdict, Work, columns

TITLE = "Claim 22: endmembers of other scenes"
PAPER = (
    "AMEE found endmembers best, then PPI, then N-FINDR. (Other scenes: of KSC's layout, and "
    "real ones.)"
)


def run(work: Work) -> Report:
    if work.data is None:
        raise Unsupported("--data names no folder of scenes")
    found = accuracies.printed(work.data, work.scale == "full")
    names = [name for name in found if name not in ("Botswana", "Salinas")]
    if not names:
        raise Unsupported(f"{work.data} has no other scene")
    return accuracies.added(work, charted(found, names), names)


def charted(found: Mapping[str, accuracies.Section], names: Sequence[str]) -> Report:
    """Chart the right pixels and the angles by scenes, and show angles beside published ones."""
    right = [accuracies.pixels(found[name]) for name in names]
    charts = [
        Chart("pixels right", "", names, "%", columns(right), log=False),
        Chart(
            "mean angle to the spectra",
            "",
            names,
            "degrees",
            {m: [found[name].value(m, 3) for name in names] for m in accuracies.METHODS},
            log=False,
        ),
    ]
    beside = [found[name].text.partition("\n\nAngles between")[1:] for name in names]
    return Report(charts, notes=["".join(part).strip() for part in beside if part[0]])


def judge(report: Report) -> list[Verdict]:
    return accuracies.judge(report)
