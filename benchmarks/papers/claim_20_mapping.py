"""Claim 20: mapping HDF5 and netCDF in and out is cheap enough to grow their arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa

from ..sizes import Unsupported
from .harness import Chart, Report, Verdict, Work, below, nbytes_of, seconds, verdict

TITLE = "Claim 20: HDF5 and netCDF mapped, extended, written back"
PAPER = (
    "HDF5 and netCDF, said to extend slowly or one axis alone, are mapped into an extendible "
    "array, extended, and written back. Nothing was measured."
)
SIDE = {"tiny": 32, "small": 128, "full": 768}
BY = 8


def run(work: Work) -> Report:
    n = work.choose(SIDE)
    # The data exist in the file, in our array or in memory, and again in the file written back.
    one = nbytes_of((n, n, n + BY), 32)
    work.need(3 * one, 2 * one)
    steps: dict[str, dict[str, float]] = {}
    for name, module, measure in (("HDF5", "h5py", hdf5), ("netCDF-4", "netCDF4", netcdf)):
        if find_spec(module) is None:
            work.note(f"{name} takes no part: {module} is not installed.")
            continue
        steps[name] = measure(work, n)
    if not steps:
        raise Unsupported("neither h5py nor netCDF4 is installed")
    parts = ["map", "extend", "write back", "extended in place"]
    lines = {name: [found[part] for part in parts] for name, found in steps.items()}
    chart = Chart(f"{n}^3 float64, {BY} planes more on the last axis", "", parts, "seconds", lines)
    return Report([chart])


def judge(report: Report) -> list[Verdict]:
    (chart,) = report.charts
    ratios = {name: sum(line[:3]) / line[3] for name, line in chart.lines.items()}
    said = " and ".join(f"{ratio:.0f} times for {name}" for name, ratio in ratios.items())
    why = (
        f"It takes longer than extending the dataset in place: {said}, as all of it is read in "
        "and out. Both libraries extend any axis today; mapping pays for many growths, and for "
        "datasets of fixed bounds."
    )
    return [verdict(20, below(list(ratios.values()), 2), why)]


def mapped(made: Callable[[], xa.MappedArray], planes: np.ndarray) -> dict[str, float]:
    """Return the seconds of mapping, of a growth, and of writing back with the new planes."""
    found: list[xa.MappedArray] = []
    times = {"map": seconds(lambda: found.append(made()))}
    (array,) = found
    old = array.shape[2]
    times["extend"] = seconds(lambda: array.extend(2, BY))

    def back() -> None:
        array[:, :, old:] = planes
        array.write_back(progress=False)

    times["write back"] = seconds(back)
    array.close()
    return times


def hdf5(work: Work, n: int) -> dict[str, float]:
    import h5py

    planes = np.ones((n, n, BY))

    def make(path: Path) -> h5py.File:
        file = h5py.File(path, "w", libver="latest")
        data = file.create_dataset("a", (n, n, n), "f8", chunks=(32,) * 3, maxshape=(None,) * 3)
        data[...] = np.arange(float(n))
        return file

    def ours() -> list[float]:
        with make(work.new() / "a.h5") as file:
            times = mapped(lambda: xa.map_hdf5(file["a"], progress=False), planes)
            assert file["a"].shape == (n, n, n + BY) and (file["a"][0, 0, -BY:] == 1).all()
        return list(times.values())

    def theirs() -> float:
        with make(work.new() / "a.h5") as file:

            def extend() -> None:
                file["a"].resize(n + BY, 2)
                file["a"][:, :, n:] = planes

            return seconds(extend)

    return combined(work, ours, theirs)


def netcdf(work: Work, n: int) -> dict[str, float]:
    import netCDF4

    planes = np.ones((n, n, BY))

    def make(path: Path) -> netCDF4.Dataset:
        file = netCDF4.Dataset(path, "w")
        for name in "xyz":
            file.createDimension(name, None)
        variable = file.createVariable("a", "f8", tuple("xyz"), chunksizes=(32,) * 3)
        variable[...] = np.broadcast_to(np.arange(float(n)), (n, n, n))
        return file

    def ours() -> list[float]:
        with make(work.new() / "a.nc") as file:
            times = mapped(lambda: xa.map_netcdf(file["a"], progress=False), planes)
            assert file["a"].shape == (n, n, n + BY) and (file["a"][0, 0, -BY:] == 1).all()
        return list(times.values())

    def theirs() -> float:
        with make(work.new() / "a.nc") as file:

            def extend() -> None:
                file["a"][:, :, n : n + BY] = planes

            return seconds(extend)

    return combined(work, ours, theirs)


def combined(
    work: Work, ours: Callable[[], list[float]], theirs: Callable[[], float]
) -> dict[str, float]:
    def alone(run: Callable[[], Any]) -> Any:
        try:
            return run()
        finally:
            work.clear()

    found = work.least({"ours": partial(alone, ours), "theirs": partial(alone, theirs)})
    names = ("map", "extend", "write back")
    times = dict(zip(names, found["ours"].tolist(), strict=True))
    return {**times, "extended in place": float(found["theirs"])}
