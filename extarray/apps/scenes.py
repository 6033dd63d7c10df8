"""A hyperspectral scene that arrives in pieces, and their order of arrival."""

from __future__ import annotations

import importlib.util
import itertools
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray import ArgumentError, MissingError
from extarray.common.extras import missing, require

__all__ = ["AXES", "Arrival", "Mosaic", "Scene", "default_path", "load", "schedule"]

#: Names of a scene's axes.
AXES = ("rows", "columns", "bands")

_INDIAN_PINES = "Indian_pines_corrected.npy"


class Scene(NamedTuple):
    """A hyperspectral scene."""

    title: str
    data: NDArray[Any]  # (rows, columns, bands)
    path: Path
    credit: str  # empty if unknown
    composite: tuple[int, int, int]  # bands to show as red, green and blue
    composite_title: str


class Arrival(NamedTuple):
    """A swath of rows or columns, or a block of bands: ``start:stop`` along one axis."""

    axis: int
    start: int
    stop: int


def default_path() -> Path:
    """Return the file of AVIRIS Indian Pines in the installed package `tensorly`.

    Find the package without importing it: it would import SciPy, and the demo needs one of its
    files.
    """
    spec = importlib.util.find_spec("tensorly")
    if spec is None:
        raise missing("tensorly", "demo", "the demo's own scene (--scene FILE takes another)")
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, "datasets", "data", _INDIAN_PINES)
        if path.is_file():
            return path
    raise MissingError(
        f"the installed tensorly has no datasets/data/{_INDIAN_PINES}; "
        "install tensorly 0.9 or newer, or give a scene with --scene FILE"
    )


def load(path: str | os.PathLike[str] | None = None, variable: str | None = None) -> Scene:
    """Read a scene from a .npy, .npz or .mat (version 4 to 7.2) file; by default Indian Pines.

    `variable` names the array, if the file holds several with three axes.  The data are
    C-contiguous, in the byte order of the file.
    """
    given = default_path() if path is None else Path(path)
    if not given.is_file():
        raise MissingError(f"cannot open the scene {str(given)!r}: no such file")
    data = np.ascontiguousarray(_check(_read(given, variable), given))
    if given.name == _INDIAN_PINES:
        return Scene(
            title="AVIRIS Indian Pines",
            data=data,
            path=given,
            credit=(
                "Baumgardner, Biehl and Landgrebe (2015), 220 Band AVIRIS Hyperspectral Image "
                "Data Set: June 12, 1992 Indian Pine Test Site 3, doi:10.4231/R7RX991C, CC BY 3.0"
            ),
            # About 870, 660 and 550 nm: the near-infrared plateau of green leaves, the absorption
            # of chlorophyll, and the green peak between its two absorptions.
            composite=(50, 26, 15),
            composite_title="near infrared, red and green as red, green and blue",
        )
    bands = data.shape[2]
    shown = (3 * bands // 4, bands // 2, bands // 4)
    return Scene(
        title=given.name,
        data=data,
        path=given,
        credit="",
        composite=shown,
        composite_title=f"bands {shown[0]}, {shown[1]} and {shown[2]} as red, green and blue",
    )


def _read(path: Path, variable: str | None) -> NDArray[Any]:
    """Return the array that the file holds, or the named one of several."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            if variable is not None:
                raise ArgumentError(
                    f"{str(path)!r} holds a single unnamed array; leave out --variable"
                )
            data: NDArray[Any] = np.load(path, allow_pickle=False)
            return data
        if suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return _choose({name: archive[name] for name in archive.files}, path, variable)
        if suffix == ".mat":
            io = require("scipy.io", "demo", f"reading {path.name}")
            return _choose(io.loadmat(path), path, variable)
    except NotImplementedError:
        raise ArgumentError(
            f"cannot read {str(path)!r}: a MATLAB 7.3 file, which is HDF5; "
            "save it as version 7 (save -v7), or as .npy"
        ) from None
    except (ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"cannot read {str(path)!r}: {error}") from error
    raise ArgumentError(f"cannot read {str(path)!r}: a scene is a .npy, .npz or .mat file")


def _choose(arrays: dict[str, Any], path: Path, variable: str | None) -> NDArray[Any]:
    cubes = {
        name: value
        for name, value in arrays.items()
        if isinstance(value, np.ndarray) and value.ndim == 3
    }
    names = ", ".join(sorted(cubes)) or "none"
    if variable is not None:
        if variable not in cubes:
            raise ArgumentError(
                f"{str(path)!r} has no variable {variable!r} with three axes; it has: {names}"
            )
        return cubes[variable]
    if len(cubes) != 1:
        raise ArgumentError(
            f"{str(path)!r} must hold one array with three axes, but it has: {names}"
            + ("; choose with --variable NAME" if cubes else "")
        )
    return next(iter(cubes.values()))


def _check(data: NDArray[Any], path: Path) -> NDArray[Any]:
    if data.ndim != 3 or 0 in data.shape:
        raise ArgumentError(
            f"{str(path)!r} has shape {data.shape}; a scene must be (rows, columns, bands)"
        )
    if data.dtype.kind not in "iuf":
        raise ArgumentError(
            f"{str(path)!r} has data type {data.dtype}; a scene must have real numbers"
        )
    return data


def schedule(
    shape: Sequence[int], counts: Sequence[int], rng: np.random.Generator
) -> list[Arrival]:
    """Cut each axis into pieces of different sizes, and shuffle all pieces.

    An axis gets about as many pieces as `counts` says, and at most its extent.  One piece of each
    axis comes first: only then do elements exist.
    """
    pieces: list[list[Arrival]] = []
    for axis, (extent, count) in enumerate(zip(shape, counts, strict=True)):
        count = min(extent, count)
        # Cuts at equal distances, each moved by up to half of one; cuts that meet become one.
        steps = np.arange(1, count) + rng.uniform(-0.5, 0.5, count - 1)
        cuts = np.unique(np.rint(steps * extent / count).astype(int).clip(1, extent - 1))
        bounds = [0, *cuts.tolist(), extent] if count > 1 else [0, extent]
        pieces.append([Arrival(axis, *ends) for ends in itertools.pairwise(bounds)])
        rng.shuffle(pieces[-1])
    rest = [arrival for some in pieces for arrival in some[1:]]
    rng.shuffle(rest)
    return [some[0] for some in pieces] + rest


class Mosaic:
    """The rows, columns and bands of the scene that an array holds, in the array's order.

    The array grows at the ends of its axes, but pieces of the scene arrive in any order: the array
    holds them in their order of arrival, and a mosaic maps back.  For each axis, `pieces` lists the
    (start, stop) of arrived pieces in order; as lists they are JSON.
    """

    def __init__(self, pieces: Sequence[Sequence[Sequence[int]]] = ((), (), ())) -> None:
        self.pieces = [[[int(start), int(stop)] for start, stop in axis] for axis in pieces]

    def add(self, arrival: Arrival) -> None:
        """Note that a piece has arrived."""
        self.pieces[arrival.axis].append([arrival.start, arrival.stop])

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of all pieces that have arrived."""
        return tuple(sum(stop - start for start, stop in axis) for axis in self.pieces)

    def indices(self, axis: int) -> NDArray[np.int64]:
        """Return the index in the scene of each index of the array."""
        parts = [np.arange(start, stop) for start, stop in self.pieces[axis]]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def expected(self, scene: NDArray[Any], box: Sequence[slice]) -> NDArray[Any]:
        """Return the expected content of a box of the array: a copy, cut from the scene."""
        chosen = (self.indices(axis)[part] for axis, part in enumerate(box))
        return scene[np.ix_(*chosen)]
