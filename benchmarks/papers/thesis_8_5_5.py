"""Figure 8.5.5 of the thesis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from extarray.apps.lennard_jones import System

from . import sessions
from .harness import Report, Verdict, Work, generator, nbytes_of

TITLE = "Thesis, figure 8.5.5: Lennard-Jones molecular dynamics with a growing matrix of forces"
PAPER = (
    "PEXTA beside parallel HDF5 and DRA, 500 to 16000 particles, while a program outside extends "
    "the matrix of their forces; no figures survive."
)
STEPS = 3
SIZES = {
    "tiny": [10, 20, 30],
    "small": [200, 400, 600, 800, 1000],
    "full": [500, 1000, 2000, 4000, 8000, 12_000, 14_000, 16_000],
}
CHUNKS = {"forces": (32, 32, 3)}


class Application(sessions.Application):
    """`extarray.apps.lennard_jones`; each rank writes its rows of the matrix at each step."""

    GROWN = ("forces",)
    CHUNKS = CHUNKS
    SIZES = SIZES

    def __init__(self, scale: str) -> None:
        super().__init__(scale)
        side = round(self.bounds[-1] ** (1 / 3)) + 1
        grid = np.stack(np.meshgrid(*[np.arange(float(side))] * 3), -1).reshape(-1, 3)
        self.places = 1.1 * grid + generator().normal(0, 0.01, grid.shape)
        self.velocities = np.zeros((0, 3))

    def shape(self, name: str, bound: int) -> tuple[int, ...]:
        return (bound, bound, 3)

    def part(self, name: str, box: sessions.Box) -> Any:
        return np.zeros([s.stop - s.start for s in box])

    def session(self, arrays: Mapping[str, Any], bound: int) -> None:
        speeds = np.zeros((bound, 3))
        speeds[: len(self.velocities)] = self.velocities
        system = System(arrays["forces"], positions=self.places[:bound], velocities=speeds)
        system.run(STEPS, 0.001)
        self.places[:bound], self.velocities = system.positions, system.velocities


def run(work: Work) -> Report:
    n = work.choose(SIZES)[-1]
    one = nbytes_of((n, n, 3), (32, 32, 3))
    work.need(2 * one, 2 * one)  # a file and its larger copy; in memory, to compare
    names = (sessions.OURS, sessions.OURS_MPI_IO, sessions.FILE)
    return sessions.report(work, __name__, "particles", names)


def judge(report: Report) -> list[Verdict]:
    return sessions.judge(report)
