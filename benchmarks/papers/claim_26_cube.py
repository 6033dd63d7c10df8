"""Claim 26: multidimensional analysis of growing tables profits."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from extarray.apps.cube import Cube

from ..sizes import Unsupported
from .candidates import FILE, HDF5, OURS, ZARR, make
from .harness import Chart, Report, Work, above, columns, generator, seconds, verdict

TITLE = "Claim 26: a cube of sales by item, store and day, which grows"
PAPER = (
    "Chapters 1 and 10 of the thesis name the cube QTY(item, store, day) of a data warehouse, "
    "which grows by items, stores and days. It was not measured. (Made sales here; the cube is "
    "`extarray.apps.cube`, and beside it pandas with the table itself. Storage alone: the same "
    "growths and cells in other files.)"
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

    def collected() -> float:
        return seconds(lambda: [pd.concat([pd.DataFrame(day) for day in days[:n]]) for n in marks])

    marks = np.unique(np.linspace(1, len(days), 5).astype(int)).tolist()
    loads = work.least({"the cube": filled, "pandas, concatenated 5 times": collected}, 1)
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
    ratios = {name: growing[name] / growing[OURS] for name in growing if name != OURS}
    quicker = asked.ratio("pandas", "the cube")
    words = ", ".join(f"{name} {ratio:.0f}" for name, ratio in ratios.items())
    asked_words = ", ".join(f"{n} {r:.1f}" for n, r in zip(queries, quicker, strict=True))
    why = (
        f"Growth on all axes takes these times as long elsewhere: {words}. Queries take pandas, "
        f"which holds the {len(sales)} rows in memory, these times as long as the cube: "
        f"{asked_words}. (Loading took {float(loads['the cube']):.1f} s.) A dense cube reads "
        "all of its cells, also empty ones: it profits where cells are many and queries go "
        "along an axis, not where the table is thin."
    )
    return Report(
        [asked, stored],
        [verdict(26, above([*ratios.values(), *quicker]), why)],
    )


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
