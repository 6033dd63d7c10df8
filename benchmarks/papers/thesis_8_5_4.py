"""Figure 8.5.4 of the thesis."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import extarray as xa
from extarray.apps.matrix_product import multiply

from .candidates import make
from .harness import Report, Work, generator, nbytes_of
from .stages import INCREMENTAL, NAMES, Storage, increments, report, timed

TITLE = "Thesis, figure 8.5.4: matrix product with growing factors"
PAPER = (
    "C = A B with all three on disk, of 1000 to 7000 rows and columns, while a program from "
    "outside extends the factors by 1 to 100 at a time: PEXTA beside parallel HDF5 and DRA, "
    "which are said to carry the overhead of reorganising. No figures survive. (By one process "
    "here, row by row of panels, the storage exchanged; the conventional file stands for DRA.)"
)
SIZES = {"tiny": [24, 40], "small": [256, 512, 768], "full": list(range(1000, 7001, 1000))}
PANEL = 256
CHECKED = "A row of the product is compared with NumPy's at every bound."


def factors(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(1)
    a, b = rng.random((2, n, n))
    return a, b


def stored(work: Work, name: str) -> Callable[[], np.ndarray]:
    """Return a candidate's run: at each size grow the factors, write the new part, multiply."""
    sizes = work.choose(SIZES)
    a, b = factors(sizes[-1])

    def run() -> np.ndarray:
        arrays = [Storage(make(name, work.new(), (sizes[0], sizes[0]))) for _ in range(3)]
        try:
            return timed(arrays, stages(*arrays))
        finally:
            for array in arrays:
                array.peer.close()
            work.clear()

    def stages(left: Storage, right: Storage, product: Storage) -> Iterator[None]:
        rng = generator(2)
        for array, values in ((left, a), (right, b)):
            array.write(..., values[: sizes[0], : sizes[0]])
        for n in sizes:
            for by in increments(left.shape[0], n, rng):
                old = left.shape[0]
                for array, values in ((left, a), (right, b)):
                    array.append(values[old : old + by, :old], 0)
                    array.append(values[: old + by, old : old + by], 1)
                for axis in (0, 1):
                    product.extend(axis, by)
            whole = right[...]
            for start in range(0, n, PANEL):
                rows = slice(start, min(start + PANEL, n))
                product.write(rows, left[rows] @ whole)
            yield
            np.testing.assert_allclose(product[n // 2], a[n // 2, :n] @ b[:n, :n])

    return run


def incremental(work: Work) -> np.ndarray:
    """Do the same with `extarray.apps.matrix_product`, which keeps earlier results."""
    sizes = work.choose(SIZES)
    a, b = factors(sizes[-1])
    folder = work.new()
    times = []
    with (
        xa.create(folder / "a", (0, 0), chunks=32) as left,
        xa.create(folder / "b", (0, 0), chunks=32) as right,
        xa.create(folder / "c", (0, 0), chunks=32) as product,
    ):
        rng = generator(2)
        for n in sizes:
            start = time.perf_counter()
            for by in increments(left.shape[0], n, rng):
                old = left.shape[0]
                for array, values in ((left, a), (right, b)):
                    array.append(values[old : old + by, :old], 0)
                    array.append(values[: old + by, old : old + by], 1)
            grown = time.perf_counter()
            multiply(product, left, right)
            times.append([grown - start, 0.0, time.perf_counter() - grown])
            np.testing.assert_allclose(product[n // 2], a[n // 2, :n] @ b[:n, :n])
    return np.array(times)


def run(work: Work) -> Report:
    n = work.choose(SIZES)[-1]
    # The factors in memory, and in files with the product; one of the three is being rewritten.
    work.need(4 * nbytes_of((n, n), 32), 4 * nbytes_of((n, n), 1))
    runs = {name: stored(work, name) for name in NAMES}
    runs[INCREMENTAL] = partial(incremental, work)
    return report(work, "rows and columns", work.choose(SIZES), runs, "a product", CHECKED)
