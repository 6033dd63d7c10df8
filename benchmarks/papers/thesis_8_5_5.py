"""Figure 8.5.5 of the thesis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from extarray.apps.lennard_jones import System, pair_forces

from .candidates import make
from .harness import Report, Work, generator, nbytes_of
from .stages import NAMES, Storage, increments, report, timed

TITLE = "Thesis, figure 8.5.5: Lennard-Jones molecular dynamics with a growing matrix of forces"
PAPER = (
    "The matrix of the forces between 500 to 16000 particles grows during the computation: "
    "PEXTA beside parallel HDF5 and DRA; no figures survive, nor cut-off, density and time "
    "step. (By `extarray.apps.lennard_jones`, one process, the storage exchanged.)"
)
CHECKED = "The forces on two particles are compared with NumPy's at every bound."
SIZES = {
    "tiny": [10, 20],
    "small": [100, 200, 300, 400],
    "full": [500, 1000, 2000, 4000, 8000, 12_000, 14_000, 16_000],
}
STEPS = 3


def stored(work: Work, name: str) -> Callable[[], np.ndarray]:
    sizes = work.choose(SIZES)
    side = round(sizes[-1] ** (1 / 3)) + 1
    grid = np.stack(np.meshgrid(*[np.arange(float(side))] * 3), -1).reshape(-1, 3)
    places = 1.1 * grid + generator().normal(0, 0.01, grid.shape)

    def run() -> np.ndarray:
        forces = Storage(make(name, work.new(), (sizes[0], sizes[0], 3), (32, 32, 3)))
        try:
            return timed([forces], stages(forces))
        finally:
            forces.peer.close()
            work.clear()

    def stages(forces: Any) -> Iterator[None]:
        rng = generator(2)
        system = System(forces, positions=places[: sizes[0]])
        for n in sizes:
            for by in increments(len(system.positions), n, rng):
                old = len(system.positions)
                system.add(places[old : old + by])
            system.run(STEPS, 0.001)
            yield
            expected, _ = pair_forces(system.positions, slice(0, 2))
            np.testing.assert_allclose(forces[0:2], expected)

    return run


def run(work: Work) -> Report:
    n = work.choose(SIZES)[-1]
    work.need(2 * nbytes_of((n, n, 3), (32, 32, 3)))  # the old one and the new one
    runs = {name: stored(work, name) for name in NAMES}
    return report(work, "particles", work.choose(SIZES), runs, "the dynamics", CHECKED)
