"""Figure 6.4.4 of the thesis."""

from __future__ import annotations

import os

import numpy as np

import extarray as xa

from .harness import Chart, Report, Verdict, Work, generator, verdict

TITLE = "Thesis, figure 6.4.4: storage utilisation"
PAPER = (
    "After random growths to 10^9 elements, in chunks of 32 an axis, 80 to 90 % of the "
    "allocated storage is used."
)
CELLS = {"tiny": 30_000, "small": 10_000_000, "full": 1_000_000_000}
HISTORIES = {"tiny": 2, "small": 10, "full": 20}
RANKS = (2, 3, 4)
AT_THOUSAND = "the formula at 10^9"


def run(work: Work) -> Report:
    work.need(2 * 8 * work.choose(CELLS))  # plus the excess of the last growth, in whole chunks
    formula, disk = [], []
    for ndim in RANKS:
        used = [grow(work, ndim, seed) for seed in range(work.choose(HISTORIES))]
        for line, values in zip((formula, disk), zip(*used, strict=True), strict=True):
            line.append(100 * float(np.mean(values)))
    thousand = [expected(10**9, ndim) for ndim in RANKS]
    lines = {"the formula": formula, "blocks of the disk": disk, AT_THOUSAND: thousand}
    chart = Chart("in the mean over random growths", "axes", RANKS, "% used", lines, log=False)
    return Report([chart], facts={"cells": work.choose(CELLS)})


def judge(report: Report) -> list[Verdict]:
    (chart,) = report.charts
    formula, disk, thousand = (
        ", ".join(f"{value:.0f}" for value in line) for line in chart.lines.values()
    )
    why = (
        f"In 2, 3 and 4 dimensions {formula} % are used at {report.facts['cells']:.0e} elements "
        f"(blocks of the disk: {disk} %), and {thousand} % at 10^9, by bounds at random in the "
        "last chunk."
    )
    inside = [80 <= value <= 90 for value in chart.lines[AT_THOUSAND]]
    return [verdict(8, inside, why)]


def grow(work: Work, ndim: int, seed: int) -> tuple[float, float]:
    """Return used over allocated bytes, by the formula and on the disk, after random growths."""
    rng = generator(seed)
    side = round(work.choose(CELLS) ** (1 / ndim))
    path = work.new() / "a"
    bounds = [max(1, side // 4)] * ndim
    with xa.create(path, bounds, chunks=(32,) * ndim, growth="exact") as array:
        while np.prod(array.shape, dtype=float) < side**ndim:
            array.extend(int(rng.integers(ndim)), int(rng.integers(1, max(2, side // 8))))
        formula = array.size / np.prod([-(-n // 32) * 32 for n in array.shape], dtype=float)
        array.flush()
        on_disk = os.stat(f"{path}.xta").st_blocks * 512
        nbytes = array.nbytes
    for suffix in (".xmd", ".xta"):
        path.with_suffix(suffix).unlink()
    return formula, nbytes / on_disk


def expected(cells: int, ndim: int) -> float:
    """Return the percentage used, averaged over all bounds in the last chunk."""
    chunks = -(-round(cells ** (1 / ndim)) // 32)
    bounds = np.arange(32 * (chunks - 1) + 1, 32 * chunks + 1)
    return 100 * float(bounds.mean() / (32 * chunks)) ** ndim
