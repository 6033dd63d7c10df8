"""Reads, writes and growths on several ranks, as measured by `benchmarks.parallel`."""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .. import parallel
from ..launching import started
from ..sizes import Unsupported
from .harness import Chart, Work, nbytes_of

#: Candidates of `benchmarks.parallel`, and their names here.
NAMES = {
    "ours": "extarray",
    "ours_mpi_io": "extarray, MPI-IO",
    "conventional": "conventional, mapped",
    "hdf5": "parallel HDF5",
    "pnetcdf": "PnetCDF",
    "dra": "DRA",
    "plain": "pread and pwrite",
}
_GROWTHS = (((12, 12, 12), 12, 12), ((96, 96, 96), 32, 16))
SCALES = {
    "tiny": parallel.SCALES["quick"],
    "small": parallel.Scale((192, 192, 192), (32,), _GROWTHS, 12),
    "full": parallel.SCALES["full"],
}
RANKS = {"tiny": (1, 2), "small": (1, 2, 4), "full": (1, 2, 4)}


@dataclass(frozen=True)
class Measured:
    """Least seconds by number of ranks, line and candidate, and the participants."""

    tables: dict[int, parallel.Table]
    told: tuple[str, ...]


@functools.cache
def measure(kind: str, scale: str, folder: Path) -> Measured:
    """Measure the lines of zones or of growths on some numbers of ranks."""
    lines = {"zones": parallel.zones, "growths": parallel.growths}[kind]
    rounds = 1 if scale == "tiny" else 2
    told = io.StringIO()
    tables = {}
    for ranks in RANKS[scale]:
        with ExitStack() as stack, contextlib.redirect_stdout(told):
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            workers = started(tuple(NAMES), ranks, place, stack)
            if "ours" not in workers:
                raise Unsupported("MPI is not installed")
            tables[ranks] = {
                line: {name: min(seconds) for name, seconds in found.items()}
                for line, found in lines(workers, SCALES[scale], rounds)
            }
    return Measured(tables, tuple(dict.fromkeys(told.getvalue().splitlines())))


def zones(work: Work) -> Measured:
    work.need(len(NAMES) * SCALES[work.scale].nbytes)
    work.note(f"Here: {SCALES[work.scale].shape[0]}^3 doubles.")
    return _noted(work, measure("zones", work.scale, work.folder.parent))


def growths(work: Work) -> Measured:
    scale = SCALES[work.scale]
    turns = -(-scale.times // 3)
    finals = [[n + by * turns for n in shape] for shape, _, by in scale.growths]
    work.need(2 * len(NAMES) * max(nbytes_of(final, 1) for final in finals))
    # Each run sums its growths; the least sum counts.
    return _noted(work, measure("growths", work.scale, work.folder.parent))


def _noted(work: Work, found: Measured) -> Measured:
    missing = [line.partition(":")[0] for line in found.told if "not found" in line]
    if missing:
        work.note(f"Not installed here: {', '.join(NAMES.get(name, name) for name in missing)}.")
    return found


def rates(work: Work, found: Measured, action: str) -> list[Chart]:
    """Chart the bytes per second of an action, aligned with the chunks and not."""
    scale = SCALES[work.scale]
    charts = []
    for kind, cut in (("aligned", 0), ("unaligned", 8)):
        nbytes = scale.nbytes
        if cut:
            nbytes = 8
            for n in scale.shape:
                nbytes *= n - cut
        line = f"{action}, {scale.chunks[-1]}³, {kind}"
        lines = _lines(found, line, lambda seconds, nbytes=nbytes: nbytes / seconds / 1e9)
        charts.append(Chart(f"{action}s, {kind}", "ranks", list(found.tables), "GB/s", lines))
    return charts


def grown(found: Measured, line: str) -> dict[str, Sequence[float | None]]:
    return _lines(found, line, lambda seconds: seconds)


def _lines(found, line, change):
    tables = found.tables.values()
    return {
        title: [change(table[line][name]) if name in table[line] else None for table in tables]
        for name, title in NAMES.items()
        if any(name in table[line] for table in tables)
    }
