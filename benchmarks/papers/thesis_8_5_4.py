"""Figure 8.5.4 of the thesis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from extarray.apps.matrix_product import multiply

from . import sessions
from .harness import Report, Verdict, Work, generator, nbytes_of

TITLE = "Thesis, figure 8.5.4: matrix product with growing factors"
PAPER = (
    "PEXTA beside parallel HDF5 and DRA, 1000 to 7000 rows and columns, while a program outside "
    "extends the factors by 1 to 100 at a time; no figures survive."
)
PANEL = 256
SIZES = {
    "tiny": [24, 40, 50],
    "small": [384, 768, 1152, 1536],
    "full": list(range(1000, 8001, 1000)),
}
CHUNKS = {"a": (32, 32), "b": (32, 32), "c": (32, 32)}


class Application(sessions.Application):
    """C = A B: each rank multiplies its rows of A by all of B, in panels."""

    GROWN = READ = ("a", "b")
    OWN = ("c",)
    CHUNKS = CHUNKS
    SIZES = SIZES

    def __init__(self, scale: str) -> None:
        super().__init__(scale)
        n = self.bounds[-1]
        self.factors = dict(zip("ab", generator(1).random((2, n, n)), strict=True))

    def part(self, name: str, box: sessions.Box) -> Any:
        return self.factors[name][box]

    def session(self, arrays: Mapping[str, Any], bound: int) -> None:
        left, right, product = (arrays[name] for name in "abc")
        product.reach((bound, bound))
        for array in (left, product):
            array.distribute("block", (product.comm.size, 1))
        rows = product.zone()[0]
        mine = left[rows]
        total = np.zeros((rows.stop - rows.start, bound))
        for start in range(0, bound, PANEL):
            panel = slice(start, min(start + PANEL, bound))
            total += mine[:, panel] @ right[panel]
        product.write(rows, total)

    def together(self, arrays: Mapping[str, Any], bound: int) -> None:
        """Do the same by `extarray.apps`, which keeps the results of earlier sessions."""
        left, right, product = (arrays[name].array for name in "abc")
        multiply(product, left, right)

    def expected(self, bound: int) -> dict[str, np.ndarray]:
        a, b = (self.factors[name][:bound, :bound] for name in "ab")
        return {"a": a, "b": b, "c": a @ b}


def run(work: Work) -> Report:
    n = work.choose(SIZES)[-1]
    # The factors in the memory of each rank and outside; files, one of which is being rewritten.
    work.need(4 * nbytes_of((n, n), 32), 2 * 5 * nbytes_of((n, n), 1))
    names = (sessions.OURS, sessions.OURS_MPI_IO, sessions.FILE, sessions.HDF5, sessions.APPS)
    return sessions.report(work, __name__, "rows and columns", names)


def judge(report: Report) -> list[Verdict]:
    return sessions.judge(report)
