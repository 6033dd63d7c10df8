"""Claim 26: multidimensional analysis of growing tables profits."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from extarray.apps.cube import Cube

from ..sizes import Unsupported
from .candidates import FILE, HDF5, OURS, ZARR, make
from .harness import Chart, Report, Verdict, Work, above, columns, generator, seconds, span, verdict

TITLE = "Claim 26: a cube of sales by item, store and day, which grows"
PAPER = (
    "The cube of sales of a data warehouse grows by items, stores and days; it was not "
    "measured. (Made sales, in `extarray.apps.cube`.)"
)
DAYS = {"tiny": 6, "small": 40, "full": 730}
ITEMS, STORES, ROWS = 200, 20, 2000
AXES = {"item": "U8", "store": "U8", "day": "M8[D]"}


def run(work: Work) -> Report:
    if find_spec("pandas") is None:
        raise Unsupported("pandas is not installed")
    import pandas as pd

    days = [table(day) for day in range(work.choose(DAYS))]
    sales = pd.concat([pd.DataFrame(day) for day in days], ignore_index=True)

    def months(labels: np.ndarray) -> np.ndarray:
        return labels.astype("M8[M]")

    def filled() -> float:
        with Cube.create(work.new() / "cube", AXES, "f8", chunks=(64, 8, 32)) as cube:
            return seconds(lambda: [cube.add(day, "sold") for day in days])

    with Cube.create(work.new() / "cube", AXES, "f8", chunks=(64, 8, 32)) as cube:
        for day in days:
            cube.add(day, "sold")
        month = sales["day"].astype("M8[s]").dt.to_period("M")
        item, store = sales["item"].iloc[-1], sales["store"].iloc[-1]
        one = {"item": item, "store": store}
        here = (sales["item"] == item) & (sales["store"] == store)
        queries = {
            "by store and month": (
                lambda: cube.roll_up("store", day=months),
                lambda: sales.groupby(["store", month])["sold"].sum(),
            ),
            "by item": (lambda: cube.roll_up("item"), lambda: sales.groupby("item")["sold"].sum()),
            "days of a cell": (
                lambda: cube.slice(**one),
                lambda: sales[here].groupby("day")["sold"].sum(),
            ),
        }
        found = []
        for ours, theirs in queries.values():
            assert np.isclose(ours().values.sum(), theirs().sum())
            runs = {"the cube": lambda f=ours: seconds(f), "pandas": lambda f=theirs: seconds(f)}
            found.append({n: 1e3 * t for n, t in work.least(runs, 3).items()})
        shape = cube.shape
    asked = Chart("queries", "", list(queries), "ms", columns(found))
    growing = work.least({name: grown(work, name, shape) for name in (OURS, FILE, HDF5, ZARR)})
    parts = ["growth by an item, a store and a day at a time, and a cell"]
    stored = Chart(
        "storage alone", "", parts, "seconds", {n: [float(t)] for n, t in growing.items()}
    )
    return Report([asked, stored], facts={"rows": len(sales)})


def judge(report: Report) -> list[Verdict]:
    asked, stored = report.charts
    ratios = {name: stored.ratio(name, OURS)[0] for name in stored.lines if name != OURS}
    quicker = asked.ratio("pandas", "the cube")
    said = ", ".join(f"{name} {ratio:.0f}" for name, ratio in ratios.items())
    why = (
        f"Times as long as ours: growth on all axes {said}; queries of {report.facts['rows']} "
        f"rows in pandas {span(quicker)}. The cube reads empty cells, too: thin tables do not "
        "profit."
    )
    return [verdict(26, above([*ratios.values(), *quicker]), why)]


def table(day: int) -> dict[str, np.ndarray]:
    """Return the sales of a day; items and stores are added over time."""
    rng = generator(day)
    items = min(ITEMS, 20 + 4 * day)
    return {
        "item": np.array([f"i{i}" for i in rng.integers(0, items, ROWS)]),
        "store": np.array([f"s{i}" for i in rng.integers(0, min(STORES, 2 + day // 6), ROWS)]),
        "day": np.full(ROWS, np.datetime64("2024-01-01") + day),
        "sold": rng.integers(1, 20, ROWS).astype(float),
    }


def grown(work: Work, name: str, shape: tuple[int, ...]):
    """Return a run that grows a candidate to a shape, index by index, writing a cell each time."""

    def run() -> float:
        array = make(name, work.new(), (1, 1, 1), (64, 8, 32))
        try:
            return seconds(lambda: grow(array))
        finally:
            array.close()

    def grow(array) -> None:
        for step in range(1, max(shape)):
            for axis, extent in enumerate(shape):
                if step < extent:
                    array.grow(axis, 1)
            array.array[tuple(n - 1 for n in array.shape)] = 1.0

    return run
