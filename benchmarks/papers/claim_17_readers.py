"""Claim 17: a program from outside that grows the array disturbs no reader."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import extarray as xa

from .harness import Chart, Report, Verdict, Work, verdict

TITLE = "Claim 17: readers while a writer grows the array"
PAPER = (
    "A program outside extends the file while the parallel program runs, which is not "
    "disturbed. It was not measured."
)
SECONDS = {"tiny": 0.5, "small": 5.0, "full": 20.0}
#: Grows along both axes up to a thousand times a second; each element holds its row.
WRITER = """
import os, sys, time
import numpy as np
import extarray as xa
with xa.open(sys.argv[1], "r+") as a:
    growths = 0
    print("ready", flush=True)
    while not os.path.exists(sys.argv[2]):
        rows, columns = a.shape
        if growths % 2 and columns < 600:
            a.append(np.arange(float(rows))[:, None] + np.zeros(4), axis=1)
        else:
            a.append(np.arange(rows, rows + 4.0)[:, None] + np.zeros(columns))
        growths += 1
        time.sleep(0.001)
    print(growths, flush=True)
"""


def run(work: Work) -> Report:
    work.need(1000 * work.choose(SECONDS) * 4 * 8 * 600)
    path, stop = work.new() / "a", work.folder / "stop"
    with xa.create(path, (64, 64), chunks=16) as array:
        array[...] = np.arange(64.0)[:, None]
    before = read(path, work.choose(SECONDS) / 2)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(stop)], stdout=subprocess.PIPE, text=True
    )
    try:
        writer.stdout.readline()
        during = read(path, work.choose(SECONDS))
    finally:
        stop.touch()
        growths = int(writer.communicate(timeout=60)[0])
    lines = {
        name: [found[key] for key in ("median", "p99", "most")]
        for name, found in (("alone", before), ("while it grows", during))
    }
    chart = Chart(
        "a read of 16 x 16 after a refresh", "", ["median", "99 %", "slowest"], "µs", lines
    )
    counted = {key: during[key] for key in ("reads", "wrong", "errors", "rows", "columns")}
    return Report([chart], facts={"growths": growths, **counted})


def judge(report: Report) -> list[Verdict]:
    (chart,) = report.charts
    facts = report.facts
    median, _, most = chart.ratio("while it grows", "alone")
    why = (
        f"While a writer made {facts['growths']:,} growths, up to {facts['rows']} x "
        f"{facts['columns']}, a reader read {facts['reads']:,} times: {facts['wrong']} wrong "
        f"elements, {facts['errors']} errors. The median read takes {median:.1f} times as long, "
        f"the slowest {most:.0f} times: both share two cores, no lock."
    )
    return [verdict(17, [facts["wrong"] == 0, facts["errors"] == 0], why)]


def read(path: Path, seconds: float) -> dict[str, float]:
    """Refresh and read random boxes for a while, always including the newest row and column."""
    rng = np.random.default_rng(1)
    times, wrong, errors = [], 0, 0
    with xa.open(path) as array:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            i, j = (int(rng.integers(0, n - 15)) for n in array.shape)
            start = time.perf_counter()
            try:
                array.refresh()
                values = array[i : i + 16, j : j + 16]
            except xa.ExtArrayError:
                errors += 1
                continue
            times.append(time.perf_counter() - start)
            wrong += int((values != np.arange(i, i + 16.0)[:, None]).sum())
        rows, columns = array.shape
    return {
        "median": 1e6 * float(np.median(times)),
        "p99": 1e6 * float(np.percentile(times, 99)),
        "most": 1e6 * max(times),
        "reads": len(times),
        "wrong": wrong,
        "errors": errors,
        "rows": rows,
        "columns": columns,
    }
