"""Figure 8.5.2 of the thesis."""

from __future__ import annotations

from . import ranks
from .harness import Report, Work, unmeasured

TITLE = "Thesis, figure 8.5.2: transfer rate of parallel writes"
PAPER = "As figure 8.5.1, with writes, of which the figures are lost, too."


def run(work: Work) -> Report:
    found = ranks.zones(work)
    charts = ranks.rates(work, found, "write")
    reads, _ = ranks.rates(work, found, "read")
    writes = charts[0]
    names = [name for name in writes.lines if reads.has(name) and name != "pread and pwrite"]
    last = {name: writes.lines[name][-1] / reads.lines[name][-1] for name in names}
    each = "; ".join(f"{name} {ratio:.2f}" for name, ratio in last.items())
    why = (
        f"On {writes.xs[-1]} ranks writes have these parts of the rate of reads: {each}. The "
        "files are in the page cache: a cluster's file servers, which made the difference, "
        "are not here."
    )
    return Report(charts, [unmeasured(14, f"{writes.xs[-1]} ranks are not many.", why)])
