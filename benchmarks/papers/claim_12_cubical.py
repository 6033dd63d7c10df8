"""Claim 12: cubical growth saves time."""

from __future__ import annotations

import time
from functools import partial

import extarray as xa

from .candidates import places
from .harness import Chart, Report, Verdict, Work, below, each, generator, verdict

TITLE = "Claim 12: cubical growth beside plain growth"
PAPER = (
    "After each growth of an axis the others follow until the grid is a cube again, said to "
    "save time (5.3), yet to make the most records (4.3.1)."
)
STEPS = {"tiny": 6, "small": 40, "full": 100}
CHUNK = 8


def run(work: Work) -> Report:
    found: dict[str, list[float]] = {}
    for policy in ("exact", "cubical"):
        rng = generator(3)
        path = work.new() / "a"
        chunks = (CHUNK,) * 3
        with xa.create(path, chunks, "f4", chunks=chunks, growth=policy, sparse=True) as array:
            start = time.perf_counter()
            for _ in range(work.choose(STEPS)):
                array.extend(int(rng.integers(3)), CHUNK)
            grown = time.perf_counter() - start
            keys = places(array.shape, 1000, generator())
            reads = partial(each, [partial(array.__getitem__, key) for key in keys])
            read = work.least({"": reads}, 5 * work.rounds)[""]
            facts = array.info()
            found[policy] = [
                facts["segments"],
                facts["utilisation"] * 100,
                1e6 * grown / work.choose(STEPS),
                1e9 * float(read) / len(keys),
                path.with_suffix(".xmd").stat().st_size,
            ]
    names = ["segments", "% used", "µs a growth", "ns an element", "bytes of .xmd"]
    chart = Chart(
        "random growths by a chunk, 3 axes",
        "",
        names,
        "each in its unit",
        {"plain": found["exact"], "cubical": found["cubical"]},
    )
    return Report([chart])


def judge(report: Report) -> list[Verdict]:
    (chart,) = report.charts
    segments, _, grow, read, _ = chart.ratio("cubical", "plain")
    used = [line[1] for line in chart.lines.values()]
    why = (
        f"It makes {segments:.1f} times as many segments, and {used[1]:.0f} % of the storage is "
        f"used (plain: {used[0]:.0f} %). A growth takes {grow:.1f} times as long, an element "
        f"{read:.2f} times."
    )
    return [verdict(12, below([grow, read]), why)]
