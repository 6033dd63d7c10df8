"""Claim 22: which method finds endmembers best."""

from __future__ import annotations

from ..sizes import Unsupported
from . import accuracies
from .harness import Report, Work

TITLE = "Claim 22: endmembers of other scenes"
PAPER = (
    "AMEE found endmembers best, as it looks at neighbours, then PPI, then N-FINDR, on "
    "Botswana and Salinas; no results are reported of KSC. (Scenes of KSC's layout, and real "
    "ones.)"
)


def run(work: Work) -> Report:
    if work.data is None:
        raise Unsupported("--data names no folder of scenes")
    found = accuracies.printed(work.data, work.scale == "full")
    names = [name for name in found if name not in ("Botswana", "Salinas")]
    if not names:
        raise Unsupported(f"{work.data} has no other scene")
    texts = [found[name].text for name in names]
    return Report(verdicts=[accuracies.judged(found, names)], notes=texts)
