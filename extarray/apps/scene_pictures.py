"""Draw a scene that has arrived in pieces: its colours, its materials, their places."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import extarray as xa
from extarray import ArgumentError, ExtArrayError
from extarray.apps import hyperspectral
from extarray.apps.hyperspectral_blocks import Spectra
from extarray.apps.scenes import Mosaic, Scene
from extarray.common.extras import command_for, require
from extarray.plot import composite

__all__ = ["Unmixing", "draw_composite", "draw_unmixing", "unmix"]

_MOST = 8  # endmembers: a picture shows no more
_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#56b4e9", "#e69f00", "#585858", "#000000"),
)
_MARKS = ("o", "s", "^", "D", "v", "X", "P", "p")


class Unmixing(NamedTuple):
    """Materials of a scene as stored, and facts about the search."""

    endmembers: NDArray[np.float64]  # (p, bands)
    positions: NDArray[np.int64]  # (p, 2)
    abundances: NDArray[np.float64]  # (rows, columns, p)
    estimate: int  # estimated number of endmembers
    error: float  # root mean square of the scene that they leave, relative to the scene's own
    ranks: int
    seconds: float


# -- analysis --------------------------------------------------------------------------------------


def unmix(path: Path, ranks: int | None = None, limit: float = 60.0) -> Unmixing:
    """Find the endmembers of the array at a path, and their abundances, on `ranks` ranks.

    None: two ranks if MPI is installed.  Raises an `ArgumentError` if the scene cannot be unmixed,
    and another `ExtArrayError` if the ranks do not end within `limit` seconds.
    """
    launcher = _launcher()
    if ranks is None:
        ranks = 1 if launcher is None else 2
    if ranks == 1:
        with xa.open(path) as a:
            return _analyse(a, time.perf_counter())
    if launcher is None:
        raise ArgumentError(
            f"{ranks} ranks need mpi4py and its MPI library; install them with: "
            + command_for("mpi4py", "mpich")
        )
    with tempfile.TemporaryDirectory() as folder:
        task = json.dumps([os.fspath(path), os.fspath(Path(folder, "found.npz"))])
        # Import the same modules as here, whatever the working directory.
        code = f"import sys; sys.path[:] = {sys.path!r}; import {__name__} as m; m.main({task!r})"
        command = [launcher, "-n", str(ranks), sys.executable, "-m", "mpi4py", "-c", code]
        # The ranks share the processors; threads of their own would wait for each other.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
                env={**os.environ, **threads},
            )
        except subprocess.TimeoutExpired:
            raise ExtArrayError(f"{ranks} ranks did not finish in {limit:g} s") from None
        if not Path(folder, "found.npz").exists():
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
            raise ExtArrayError(f"{ranks} ranks under {launcher} failed: {lines[-1]}")
        with np.load(Path(folder, "found.npz")) as found:
            if "refused" in found:
                raise ArgumentError(str(found["refused"]))
            values = {name: found[name] for name in Unmixing._fields}
    for name in Unmixing._fields[3:]:
        values[name] = values[name].item()
    return Unmixing(**values)


def main(task: str) -> None:
    """Unmix on all ranks; each rank runs this, with the task of `unmix` in JSON."""
    path, result = json.loads(task)
    began = time.perf_counter()
    comm = require("mpi4py.MPI", "mpi").COMM_WORLD
    try:
        with xa.open(path, "r", comm=comm) as a:
            found: dict[str, Any] = _analyse(a, began)._asdict()
    except ArgumentError as error:
        found = {"refused": str(error)}
    if comm.rank == 0:
        np.savez(result, **found)


def _launcher() -> str | None:
    """Return mpiexec, preferably this environment's: another may start another MPI library."""
    if find_spec("mpi4py") is None:
        return None
    here = Path(sys.executable).with_name("mpiexec")
    return os.fspath(here) if here.exists() else shutil.which("mpiexec")


def _analyse(a: Any, began: float) -> Unmixing:
    """Unmix a scene; every rank gets the result."""
    spectra = Spectra(a)  # keeps its moments for all steps
    estimate = hyperspectral.hysime(spectra)
    p = min(max(estimate, 2), _MOST, a.shape[2])
    found = hyperspectral.nfindr(spectra, p)
    amounts = np.asarray(hyperspectral.abundances(spectra, found.endmembers, "fcls"))
    left = total = 0.0
    for row in range(a.shape[0]):
        there = np.isfinite(amounts[row, :, 0])  # pixels with data
        data = a[row].astype(np.float64)[there]
        left += float(((data - amounts[row, there] @ found.endmembers) ** 2).sum())
        total += float((data**2).sum())
    comm = getattr(a, "comm", None)
    return Unmixing(
        found.endmembers,
        found.positions,
        amounts,
        estimate,
        (left / total) ** 0.5,
        1 if comm is None else comm.size,
        time.perf_counter() - began,
    )


# -- pictures --------------------------------------------------------------------------------------


def draw_composite(
    stored: NDArray[Any], mosaic: Mosaic, scene: Scene, bands: Sequence[int], title: str, path: Path
) -> None:
    """Draw three bands as colours, in the order of arrival, as stored, and in the scene's order."""
    figures = require("matplotlib.figure", "demo", "extarray demo")
    places = [int(np.flatnonzero(mosaic.indices(2) == band)[0]) for band in bands]
    colours = stored[:, :, places]
    height, width = colours.shape[:2]
    figure = figures.Figure(
        figsize=(11.0, min(11.0, 1.0 + 5.0 * height / width)), layout="constrained"
    )
    left, right = figure.subplots(1, 2)
    composite(colours, (0, 1, 2), left, title="in the order of arrival, as stored")
    ordered = colours[_places(mosaic, 0)][:, _places(mosaic, 1)]
    composite(ordered, (0, 1, 2), right, title="in the order of the scene")
    figure.suptitle(f"{scene.title}: {title}", fontsize=11)
    _give_credit(figure, scene)
    figure.savefig(path, dpi=110)


def draw_unmixing(found: Unmixing, mosaic: Mosaic, scene: Scene, out: Path) -> list[Path]:
    """Draw the spectra of the endmembers and the maps of their abundances; return the files."""
    figures = require("matplotlib.figure", "demo", "extarray demo")
    paths = [out / "endmembers.png", out / "abundances.png"]
    rows, columns = mosaic.indices(0), mosaic.indices(1)
    names = [f"row {rows[i]}, column {columns[j]}" for i, j in found.positions.tolist()]

    p = len(found.endmembers)
    figure = figures.Figure(figsize=(9.0, 4.8), layout="constrained")
    axes = figure.subplots()
    for k, spectrum in enumerate(found.endmembers[:, _places(mosaic, 2)]):
        every = max(1, len(spectrum) // 12)
        axes.plot(
            spectrum,
            color=_COLOURS[k],
            marker=_MARKS[k],
            markersize=5,
            markevery=(k * every // p, every),  # beside each other, not on top
            label=f"{k + 1}: {names[k]}",
            linewidth=1.4,
        )
    axes.set(xlabel="band", ylabel="value", title=f"{scene.title}: the purest pixels, by N-FINDR")
    axes.set_xlim(0, max(1, found.endmembers.shape[1] - 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False, ncols=2)
    _give_credit(figure, scene)
    figure.savefig(paths[0], dpi=110)

    wide = min(p, 4)
    high = -(-p // wide)
    shape = found.abundances.shape
    figure = figures.Figure(
        figsize=(2.7 * wide + 1, min(12.0, high * (0.4 + 2.6 * shape[0] / shape[1]) + 0.7)),
        layout="constrained",
    )
    panels = figure.subplots(high, wide, squeeze=False).reshape(-1)
    ordered = found.abundances[_places(mosaic, 0)][:, _places(mosaic, 1)]
    for k, panel in enumerate(panels):
        panel.set_axis_off()
        if k < p:
            image = panel.imshow(ordered[:, :, k], cmap="viridis", vmin=0, vmax=1)
            panel.set_title(f"{k + 1}: {names[k]}", fontsize=9, color=_COLOURS[k])
    figure.colorbar(image, ax=panels.tolist(), shrink=0.8, label="abundance")
    figure.suptitle(f"{scene.title}: how much of each there is in a pixel", fontsize=11)
    _give_credit(figure, scene)
    figure.savefig(paths[1], dpi=110)
    return paths


def _places(mosaic: Mosaic, axis: int) -> NDArray[np.int64]:
    """Return the place in the array of each index of the scene."""
    places: NDArray[np.int64] = np.argsort(mosaic.indices(axis))
    return places


def _give_credit(figure: Any, scene: Scene) -> None:
    if scene.credit:
        figure.supxlabel(scene.credit, fontsize=6.5, color="#555555")
