"""Figure 8.5.6 of the thesis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from extarray.apps.lattice_boltzmann import WEIGHTS, Cavity

from . import sessions
from .harness import Report, Verdict, Work, nbytes_of

TITLE = "Thesis, figure 8.5.6: Lattice-Boltzmann flow in a cavity on a growing grid"
PAPER = (
    "PEXTA beside parallel HDF5 and DRA, a square cavity of 500 to 16000 nodes a side, whose grid "
    "a program outside extends; no figures survive."
)
STEPS = {"tiny": 3, "small": 5, "full": 20}
SIZES = {
    "tiny": [12, 20, 30],
    "small": [128, 256, 384, 512],
    "full": [500, 1000, 2000, 4000, 8000, 12_000, 14_000, 16_000],
}
CHUNKS = {"now": (9, 32, 32), "after": (9, 32, 32)}


class Application(sessions.Application):
    """`extarray.apps.lattice_boltzmann`; each rank advances its rows, and reads one row more."""

    GROWN = ("now", "after")
    CHUNKS = CHUNKS
    SIZES = SIZES

    def __init__(self, scale: str) -> None:
        super().__init__(scale)
        self.order = self.GROWN

    def shape(self, name: str, bound: int) -> tuple[int, ...]:
        return (9, bound, bound)

    def part(self, name: str, box: sessions.Box) -> Any:
        """Return fluid at rest."""
        return np.broadcast_to(WEIGHTS[:, None, None], [s.stop - s.start for s in box])

    def session(self, arrays: Mapping[str, Any], bound: int) -> None:
        cavity = Cavity(*(arrays[name] for name in self.order), viscosity=0.1, lid=0.1)
        cavity.run(STEPS[self.scale])
        if STEPS[self.scale] % 2:  # the arrays have changed places
            self.order = self.order[::-1]


def run(work: Work) -> Report:
    n = work.choose(SIZES)[-1]
    one = nbytes_of((9, n, n), (9, 32, 32))
    work.need(3 * one, 3 * one)  # two files and a larger copy of one; in memory, to compare
    names = (sessions.OURS, sessions.OURS_MPI_IO, sessions.FILE)
    return sessions.report(work, __name__, "nodes a side", names)


def judge(report: Report) -> list[Verdict]:
    return sessions.judge(report)
