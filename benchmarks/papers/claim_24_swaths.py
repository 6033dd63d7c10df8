"""Claim 24: results follow arriving swaths nearly in real time."""

from __future__ import annotations

import time

import numpy as np

import extarray as xa
from extarray.apps import hyperspectral

from .harness import Chart, Report, Verdict, Work, below, span, verdict
from .spectral import made, room

TITLE = "Claim 24: from an arriving swath to updated results"
PAPER = (
    "Results follow arriving swaths nearly in real time; it was not measured. (Kept up by "
    "`extarray.apps.hyperspectral.Growing`.)"
)
SIZES = {"tiny": (40, 16, 10, 4), "small": (320, 128, 100, 8), "full": (4096, 512, 200, 12)}
SWATH = 8


def run(work: Work) -> Report:
    rows, across, bands, classes = work.choose(SIZES)
    work.need(*room((rows, across, bands), classes))
    scene = made(rows, across, bands, classes).data
    first = rows // 4
    latency, anew, marks = [], [], []
    path = work.new() / "a"
    with xa.create(path, (first, across, bands), chunks=(SWATH, 32, bands)) as writer:
        writer[...] = scene[:first]
        with xa.open(path) as reader:
            live = hyperspectral.Growing(reader, classes)
            for row in range(first, rows - SWATH + 1, SWATH):
                start = time.perf_counter()
                writer.append(scene[row : row + SWATH])
                reader.refresh()
                assert live.update()
                latency.append(time.perf_counter() - start)
                if len(latency) % max(1, rows // SWATH // 6) == 0:
                    start = time.perf_counter()
                    hyperspectral.pct(reader, classes)
                    hyperspectral.nfindr(reader, classes, seed=1)
                    anew.append(time.perf_counter() - start)
                    marks.append(len(latency) - 1)
            known = np.cov(scene[: live.shape[0]].reshape(-1, bands).T)
            assert np.allclose(live.covariance, known), "the covariance is wrong"
    lines = {
        "swath appended, results updated": [latency[i] for i in marks],
        "all computed anew": anew,
    }
    at = [first + SWATH * (i + 1) for i in marks]
    chart = Chart(f"swaths of {SWATH} rows", "rows so far", at, "seconds", lines)
    first_ones = np.median(latency[: max(1, len(latency) // 4)])
    facts = {
        "median": float(np.median(latency)),
        "most": max(latency),
        "rise": float(latency[-1] / first_ones),
    }
    return Report([chart], facts=facts)


def judge(report: Report) -> list[Verdict]:
    (chart,) = report.charts
    median, most, rise = (report.facts[name] for name in ("median", "most", "rise"))
    anew = chart.ratio("all computed anew", "swath appended, results updated")
    why = (
        f"Results are up to date {1e3 * median:.0f} ms after a swath in the median, "
        f"{1e3 * most:.0f} ms at most; all anew takes {span(anew)} times as long. The last swath "
        f"takes {rise:.1f} times as long as the first ones."
    )
    return [verdict(24, [*below(median), *below(rise, 3)], why)]
