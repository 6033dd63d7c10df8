"""Hyperspectral analysis of synthetic scenes: the truth, and the results of the methods.

As a program of several ranks it times the methods, see `main`.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import extarray as xa
from extarray.apps import hyperspectral

from ..hyperspectral import Scene, synthetic
from ..sizes import Unsupported
from .harness import generator

ROOT = Path(__file__).resolve().parents[2]
SKEWERS = 1000

Method = Callable[[Any, int], Any]
METHODS: dict[str, Method] = {
    "PPI": lambda a, p: hyperspectral.ppi(a, SKEWERS, seed=1, p=p, min_angle=0.05),
    "N-FINDR": lambda a, p: hyperspectral.nfindr(a, p, seed=1),
    "AMEE": lambda a, p: hyperspectral.amee(a, p, (3, 5), min_angle=0.05),
}


def made(rows: int, columns: int, bands: int, classes: int) -> Scene:
    """Mix a scene of fields of one class each: a pixel belongs to the nearest of some centres."""
    centres = generator().random((4 * classes, 2)) * (rows, columns)
    grid = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), -1)
    nearest = ((grid[:, :, None] - centres) ** 2).sum(-1).argmin(-1)
    return synthetic("made", nearest % classes + 1, bands)


def room(shape: tuple[int, int, int], classes: int) -> tuple[int, int]:
    """Return the bytes of disk and of memory that an experiment with such a scene takes."""
    rows, columns, bands = shape
    # The scene as u2 a few times, with scores; and as float64, with the distances to all centres.
    pixels = rows * columns
    return 4 * 2 * pixels * bands, 8 * pixels * (2 * bands + 16 * classes)


class Found(NamedTuple):
    """A method's results: accuracies from 0 to 1, and the mean spectral angle."""

    pixels: float
    histogram: float
    angle: float


def judge(a: Any, scene: Scene, endmembers: np.ndarray) -> Found:
    """Compare with the truth: by pixels, by the sizes of classes alone, and by spectra."""
    matching = hyperspectral.match(endmembers, scene.spectra)
    classes = np.unique(scene.truth)
    labels = hyperspectral.classify(a, endmembers[matching.order], classes=classes)[...]
    right = hyperspectral.accuracy(labels, scene.truth)
    return Found(right.overall, right.histogram, float(matching.angles.mean()))


@functools.cache
def on_ranks(
    parent: Path, shape: tuple[int, int, int], classes: int, ranks: int, rounds: int
) -> dict[str, float]:
    """Return the least seconds of each method and of reading alone, on some ranks."""
    mpiexec = Path(sysconfig.get_path("scripts"), "mpiexec")
    if not mpiexec.exists():
        raise Unsupported("MPI is not installed")
    program = (
        f"import sys; sys.path.append({str(ROOT)!r}); from benchmarks.papers.spectral "
        "import main; main()"
    )
    with tempfile.TemporaryDirectory(prefix="extarray-papers-", dir=parent) as folder:
        xa.from_array(
            made(*shape, classes).data, Path(folder) / "a", chunks=(32, 32, shape[2])
        ).close()
        command = [mpiexec, "-n", ranks, sys.executable, "-m", "mpi4py", "-c", program]
        done = subprocess.run(
            [*map(str, command), folder, str(classes), str(rounds)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return json.loads((Path(folder) / "seconds.json").read_text())


def main() -> None:
    """Time the methods on all ranks: FOLDER CLASSES ROUNDS."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    folder, classes, rounds = Path(sys.argv[1]), *map(int, sys.argv[2:])
    seconds: dict[str, float] = {}
    with xa.open(folder / "a", comm=comm) as a:
        runs = {name: functools.partial(method, a, classes) for name, method in METHODS.items()}
        runs["reading alone"] = a.read_zone
        for _ in range(rounds):
            for name, run in runs.items():
                comm.Barrier()
                start = time.perf_counter()
                run()
                comm.Barrier()
                took = comm.bcast(time.perf_counter() - start)
                seconds[name] = min(seconds.get(name, took), took)
    if not comm.rank:
        (folder / "seconds.json").write_text(json.dumps(seconds))
