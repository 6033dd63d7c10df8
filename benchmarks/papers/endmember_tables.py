"""Accuracies and times of PPI, N-FINDR and AMEE, with the storage exchanged."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import Any

import extarray as xa

from .candidates import HDF5, HDF5_CACHE, OURS
from .harness import Chart, Report, Verdict, Work, columns, seconds, span, unmeasured
from .spectral import METHODS, judge, made, room

MEMORY = "NumPy, in memory"


def measure(work: Work, shape: tuple[int, int, int], classes: int) -> Report:
    """Run the three methods on a synthetic scene in our files, in HDF5 and in memory."""
    work.need(*room(shape, classes))
    work.note(f"Made: {' x '.join(map(str, shape))}, {classes} classes.")
    scene = made(*shape, classes)
    chunks = (32, 32, shape[2])
    with ExitStack() as stack:
        sources: dict[str, Any] = {
            OURS: stack.enter_context(xa.from_array(scene.data, work.new() / "a", chunks=chunks)),
            MEMORY: scene.data,
        }
        if find_spec("h5py"):
            import h5py

            path = work.new() / "a.h5"
            with h5py.File(path, "w") as file:
                file.create_dataset("a", data=scene.data, chunks=chunks, maxshape=(None,) * 3)
            for name, cache in ((HDF5, 2**20), (HDF5_CACHE, 2**30)):
                sources[name] = stack.enter_context(h5py.File(path, rdcc_nbytes=cache))["a"]
        else:
            work.note("HDF5 takes no part: h5py is not installed.")
        times, found = [], []
        for method in METHODS.values():
            runs = {n: partial(seconds, partial(method, a, classes)) for n, a in sources.items()}
            times.append(work.least(runs))
            endmembers = method(sources[OURS], classes).endmembers
            same = all(
                (method(a, classes).endmembers == endmembers).all() for a in sources.values()
            )
            assert same, "the storage changes the result"
            found.append(judge(sources[OURS], scene, endmembers))
    names = list(METHODS)
    right = {
        "pixels": [100 * one.pixels for one in found],
        "sizes of classes": [100 * one.histogram for one in found],
    }
    angles = {"mean angle to the spectra": [one.angle for one in found]}
    charts = [
        Chart("accuracy in the made scene", "", names, "%", right, log=False),
        Chart("endmembers", "", names, "radians", angles),
        Chart("time", "", names, "seconds", columns(times)),
    ]
    work.note(
        "The thesis's accuracy is, as far as its tables tell, that of the sizes of classes, "
        "`hyperspectral.accuracy(...).histogram`: whichever pixels have them."
    )
    return Report(charts)


def judge_storage(report: Report) -> list[Verdict]:
    """Give the figures of claim 21."""
    time = report.charts[-1]
    if not time.has(HDF5):
        return [unmeasured(21, "h5py is not installed.", "")]
    serial, cached, memory = (span(time.ratio(name, OURS)) for name in (HDF5, HDF5_CACHE, MEMORY))
    why = (
        f"Serial HDF5 takes {serial} times as long as extarray, {cached} with a large cache, and "
        f"NumPy's memory {memory}: computing takes most of it."
    )
    return [unmeasured(21, "Parallel HDF5 is not in h5py's wheel.", why)]
