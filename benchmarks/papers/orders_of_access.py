"""Read all of an array in the order of its storage, and in others; cold and warm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

import extarray as xa

from ..peers import installed
from .candidates import FILE, HDF5, OURS, side
from .harness import Chart, Work, columns, drop, nbytes_of, seconds, span

SIDES = {
    "tiny": {2: 128, 3: 32},
    "small": {2: 4096, 3: 256},
    "full": {2: 31_616, 3: 992},
}


def make(work: Work, ndim: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """Make the same elements in our chunks, after growths, in a conventional file, and in HDF5.

    Return a function that opens each.
    """
    n, chunk = work.choose(SIDES)[ndim], side(ndim)
    ours = xa.create(folder / "a", (n // 4,) * ndim, chunks=(chunk,) * ndim)
    for _, axis in itertools.product(range(3), range(ndim)):
        ours.extend(axis, n // 4)
    file = open_memmap(folder / "a.npy", "w+", "f8", (n,) * ndim)
    for row in range(0, n, chunk):
        part = slice(row, row + chunk)
        values = np.arange(float(n ** (ndim - 1) * chunk)).reshape(chunk, *(n,) * (ndim - 1)) + row
        ours[part] = file[part] = values
    ours.close()
    del file
    opening: dict[str, Callable[[], Any]] = {
        OURS: lambda: xa.open(folder / "a"),
        FILE: lambda: np.load(folder / "a.npy", mmap_mode="r"),
    }
    if installed("h5py"):
        import h5py

        with (
            h5py.File(folder / "a.h5", "w", libver="latest") as made,
            xa.open(folder / "a") as ours,
        ):
            data = made.create_dataset(
                "a", (n,) * ndim, "f8", chunks=(chunk,) * ndim, maxshape=(None,) * ndim
            )
            for row in range(0, n, chunk):
                data[row : row + chunk] = ours[row : row + chunk]
        opening[HDF5] = lambda: h5py.File(folder / "a.h5", rdcc_nbytes=64 << 20)["a"]
    return opening


def scan(opened: Any, axis: int, extent: int) -> None:
    """Read planes across an axis, one after the other, copying each."""
    plane: list[Any] = [slice(None)] * opened.ndim
    for i in range(0, opened.shape[axis], extent):
        plane[axis] = slice(i, i + extent)
        np.array(opened[tuple(plane)])


def close(opened: Any) -> None:
    if hasattr(opened, "file"):
        opened.file.close()
    elif hasattr(opened, "close"):
        opened.close()


def compare(work: Work, ndim: int) -> list[Chart]:
    """Chart times of a scan across each axis, from the page cache and from the disk."""
    work.need(3 * nbytes_of((work.choose(SIDES)[ndim],) * ndim, side(ndim)))
    work.note(f"Here: {work.choose(SIDES)[ndim]}^{ndim} doubles.")
    folder = work.new()
    opening = make(work, ndim, folder)
    warm, cold = [], []
    n = work.choose(SIDES)[ndim]

    def timed(name: str, axis: int, is_cold: bool) -> float:
        if is_cold:
            drop(folder)
        opened = opening[name]()
        try:
            return seconds(lambda: scan(opened, axis, n // 32))
        finally:
            close(opened)

    for axis in range(ndim):
        for found, is_cold in ((warm, False), (cold, True)):
            runs = {name: lambda a=(name, axis, is_cold): timed(*a) for name in opening}
            found.append(work.least(runs, 1 if is_cold else 0))
    names = [f"axis {j}" for j in range(ndim)]
    return [
        Chart(f"{ndim} axes, {state}", "planes across", names, "seconds", columns(found))
        for state, found in (("warm", warm), ("cold", cold))
    ]


def beside_hdf5(charts: Sequence[Chart]) -> str:
    """Return a sentence that has the scans beside those of HDF5, losses included."""
    if not charts[0].has(HDF5):
        return ""
    warm, cold = (span(chart.ratio(OURS, HDF5)) for chart in charts)
    return f" Of HDF5's time they take {warm}, and {cold} from the disk."
