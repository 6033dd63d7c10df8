"""Queries of a cube of sales, beside pandas on its rows and NumPy on its cells.

``python -m benchmarks.cube`` prints milliseconds, and our time over theirs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa
from extarray.apps.cube import Cube

AXES = {"item": "U8", "store": "U8", "day": "M8[D]"}
START = np.datetime64("2024-01-01")
QUERIES = (
    "days of a cell",
    "by item",
    "by store",
    "by day",
    "by store and month",
    "by item, January",
)


def months(days: np.ndarray) -> np.ndarray:
    return days.astype("M8[M]")


def table(shape: Sequence[int], n: int) -> dict[str, np.ndarray]:
    """Return random rows; the first ones contain every label."""
    rng = np.random.default_rng(1)
    item, store, day = (
        np.concatenate([np.arange(extent), rng.integers(0, extent, n)])[: max(n, extent)]
        for extent in shape
    )
    return {
        "item": np.array([f"i{i}" for i in item]),
        "store": np.array([f"s{i}" for i in store]),
        "day": START + day,
        "sold": rng.integers(1, 20, n),
    }


def queries(
    cube: Cube, rows: Any, cells: np.ndarray
) -> dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]]:
    """Return for each query our call, pandas' and NumPy's."""
    item, store = rows["item"].iloc[-1], rows["store"].iloc[-1]
    i, j = cube.labels("item").tolist().index(item), cube.labels("store").tolist().index(store)
    month = rows["day"].astype("M8[s]").dt.to_period("M")
    days = cube.labels("day")
    _, firsts = np.unique(months(days), return_index=True)
    january = np.flatnonzero(months(days) == START.astype("M8[M]"))

    def by(*keys: Any, some: Any = slice(None)) -> Any:
        return rows[some].groupby(list(keys), observed=True)["sold"].sum()

    return dict(
        zip(
            QUERIES,
            (
                (
                    lambda: cube.slice(item=item, store=store),
                    lambda: by("day", some=(rows["item"] == item) & (rows["store"] == store)),
                    lambda: cells[i, j].copy(),
                ),
                (lambda: cube.roll_up("item"), lambda: by("item"), lambda: cells.sum((1, 2))),
                (lambda: cube.roll_up("store"), lambda: by("store"), lambda: cells.sum((0, 2))),
                (lambda: cube.roll_up("day"), lambda: by("day"), lambda: cells.sum((0, 1))),
                (
                    lambda: cube.roll_up("store", day=months),
                    lambda: by("store", month),
                    lambda: np.add.reduceat(cells.sum(0), firsts, 1),
                ),
                (
                    lambda: cube.roll_up("item", where={"day": slice("2024-01", "2024-01")}),
                    lambda: by("item", some=month == "2024-01"),
                    lambda: cells[:, :, january[0] : january[-1] + 1].sum((1, 2)),
                ),
            ),
            strict=True,
        )
    )


def least(
    candidates: Sequence[Callable[[], Any]], rounds: int, clock: Callable[[], float]
) -> list[float]:
    """Return the least milliseconds of each candidate; they take turns."""
    found = [float("inf")] * len(candidates)
    for _ in range(rounds):
        for k, candidate in enumerate(candidates):
            start = clock()
            candidate()
            found[k] = min(found[k], 1e3 * (clock() - start))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    import pandas as pd

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", type=int, nargs=3, default=(2000, 50, 365))
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu", action="store_true", help="processor time, of one thread")
    given = parser.parse_args(arguments)
    clock = time.process_time if given.cpu else time.perf_counter
    rows = pd.DataFrame(table(given.shape, given.rows))
    categories = rows.astype({"item": "category", "store": "category"})
    with (
        tempfile.TemporaryDirectory() as folder,
        xa.config.set(threads=1 if given.cpu else xa.config.threads),
        Cube.create(Path(folder) / "sales", AXES, "i8") as cube,
    ):
        start = time.perf_counter()
        cube.add(rows, "sold")
        print(
            f"{cube.shape} cells of {len(rows)} rows, loaded in {time.perf_counter() - start:.1f} s"
        )
        print()
        print("| query | ours, ms | pandas | ratio | NumPy, in memory | ratio |")
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        for name, candidates in queries(cube, categories, cube.cells[...]).items():
            totals, expected, cells = (candidate() for candidate in candidates)
            assert totals.values.sum() == expected.sum() == cells.sum()
            ours, pandas, numpy = least(candidates, given.rounds, clock)
            print(
                f"| {name} | {ours:.2f} | {pandas:.2f} | {ours / max(pandas, 1e-6):.2f} "
                f"| {numpy:.2f} | {ours / max(numpy, 1e-6):.2f} |"
            )


if __name__ == "__main__":
    main()
