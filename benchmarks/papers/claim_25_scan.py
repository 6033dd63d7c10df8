"""Claim 25: no out-of-core transposition is needed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

import extarray as xa

from .harness import Chart, Report, Verdict, Work, above, below, seconds, span, verdict

TITLE = "Claim 25: zones in either order, without a transposition on the disk"
PAPER = (
    "A program that wants its zone in column-major order needs no transposed copy on the disk "
    "(DRX-MP). It was not measured."
)
SIDE = {"tiny": 64, "small": 3072, "full": 16_384}
CHUNK = 64


def run(work: Work) -> Report:
    n = work.choose(SIDE)
    work.need(2 * 8 * n * n, 2 * 8 * n * n)
    path = work.new() / "a"
    chunk = min(CHUNK, n // 4)
    with xa.create(path, (n // 2, n // 2), chunks=chunk) as array:
        array.extend(1, n // 2)
        array.extend(0, n // 2)
        for row in range(0, n, chunk):
            array[row : row + chunk] = np.arange(float(n)) + row
        zone = (slice(0, n // 2), slice(0, n))
        c = np.empty((n // 2, n))
        f = np.empty((n // 2, n), order="F")

        def by_address(out: np.ndarray) -> None:
            for part in array.iter_chunks(zone):
                array.read(part, out=out[part])

        def converted() -> float:
            target = work.new() / "t"
            start = seconds(partial(convert, array, target))
            with xa.open(target) as other:
                read = seconds(lambda: other.read((zone[1], zone[0]), out=f.T))
            remove(target)
            return start + read

        runs = {
            "rows in C order": lambda: seconds(lambda: array.read(zone, out=c)),
            "rows in Fortran order": lambda: seconds(lambda: array.read(zone, out=f)),
            "chunk by chunk, by address, C": lambda: seconds(lambda: by_address(c)),
            "chunk by chunk, by address, Fortran": lambda: seconds(lambda: by_address(f)),
            "transposed on the disk, then read": converted,
        }
        found = work.least(runs)
        assert np.array_equal(c, f)
    names = list(found)
    chart = Chart(
        f"half of {n} x {n} float64",
        "",
        names,
        "seconds",
        {"extarray": [float(found[x]) for x in names]},
    )
    return Report([chart])


def judge(report: Report) -> list[Verdict]:
    c, f, *scans, transposed = report.charts[0].lines["extarray"]
    why = (
        f"A zone in Fortran order takes {f / c:.1f} times as long as in C order; a transposed copy "
        f"on the disk {transposed / f:.1f} times as long as reading across; a scan chunk by chunk "
        f"{span([scan / c for scan in scans])} times as long as one read."
    )
    return [verdict(25, [*above(transposed / f, 1.5), *below(f / c, 3)], why)]


def convert(array: xa.ExtArray, target: Path) -> None:
    chunks = array.chunks[::-1]
    xa.rechunk(array, target, chunks=chunks, axes=(1, 0), progress=False).close()


def remove(path: Path) -> None:
    for suffix in (".xmd", ".xta"):
        path.with_suffix(suffix).unlink()
