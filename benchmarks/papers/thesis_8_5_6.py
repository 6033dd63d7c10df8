"""Figure 8.5.6 of the thesis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from extarray.apps.lattice_boltzmann import WEIGHTS, Cavity

from .candidates import make
from .harness import Report, Work, generator, nbytes_of
from .stages import NAMES, Storage, increments, report, timed

TITLE = "Thesis, figure 8.5.6: Lattice-Boltzmann flow in a cavity on a growing grid"
PAPER = (
    "The grid of a lid-driven square cavity of 500^2 to 16000^2 nodes grows during the "
    "simulation: PEXTA beside parallel HDF5 and DRA; no figures survive, nor the lattice and "
    "the Reynolds number. (By `extarray.apps.lattice_boltzmann`, D2Q9, one process, the "
    "storage exchanged.)"
)
CHECKED = "At every bound the mass is kept, and the lid drags the fluid along."
SIZES = {
    "tiny": [12, 20],
    "small": [64, 128, 192, 256],
    "full": [500, 1000, 2000, 4000, 8000, 12_000, 14_000, 16_000],
}
STEPS = {"tiny": 2, "small": 5, "full": 20}


def stored(work: Work, name: str) -> Callable[[], np.ndarray]:
    sizes = work.choose(SIZES)

    def run() -> np.ndarray:
        arrays: list[Any] = [
            Storage(make(name, work.new(), (9, sizes[0], sizes[0]), (9, 32, 32))) for _ in "ab"
        ]
        try:
            return timed(arrays, stages(*arrays))
        finally:
            for array in arrays:
                array.peer.close()
            work.clear()

    def stages(now: Any, after: Any) -> Iterator[None]:
        rng = generator(2)
        rest = np.broadcast_to(WEIGHTS[:, None, None], (9, sizes[0], sizes[0]))
        for array in (now, after):
            array.write(..., rest)
        cavity = Cavity(now, after, viscosity=0.1, lid=0.1)
        for n in sizes:
            for by in increments(cavity.shape[0], n, rng):
                cavity.grow(by, by)
            cavity.run(work.choose(STEPS))
            yield
            density, velocity = cavity.fields()
            assert np.isclose(density.sum(), n * n), "mass is lost"
            assert (velocity[1, 0, 2:-2] > 0).all(), "the lid drags nothing along"

    return run


def run(work: Work) -> Report:
    n = work.choose(SIZES)[-1]
    work.need(3 * nbytes_of((9, n, n), (9, 32, 32)))  # two, one of which is being rewritten
    runs = {name: stored(work, name) for name in NAMES}
    return report(work, "nodes a side", work.choose(SIZES), runs, "the simulation", CHECKED)
