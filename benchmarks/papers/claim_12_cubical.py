"""Claim 12: cubical growth saves time."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

import extarray as xa

from .candidates import places
from .harness import Chart, Report, Work, below, each, generator, verdict

TITLE = "Claim 12: cubical growth beside plain growth"
PAPER = (
    "Section 5.3 of the thesis: after each growth of one axis the others follow, in turn, "
    "until the grid is a cube of chunks again, which is said to save time and to shrink the "
    "tree; lemma 4.3.1 of the same thesis finds that it makes the most records."
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
        "see the axis",
        {"plain": found["exact"], "cubical": found["cubical"]},
    )
    segments, _, grow, read, _ = np.divide(found["cubical"], found["exact"])
    why = (
        f"Cubical growth makes {segments:.2f} times as many segments, and of what is allocated "
        f"{found['cubical'][1]:.0f} % is used (plain: {found['exact'][1]:.0f} %). A growth "
        f"takes {grow:.2f} times as long, an element {read:.2f} times: a table finds a record "
        "at the same cost, however many there are."
    )
    return Report([chart], [verdict(12, below([grow, read]), why)])
