"""A cube of sales beside pandas: a made table, or the file that EXTARRAY_SALES names.

The file is Online Retail (II) of the UCI Machine Learning Repository, as Parquet or CSV: its
columns StockCode, Country, InvoiceDate and Quantity become item, store, day and sold.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import extarray as xa
from extarray.apps.cube import Cube, Totals

pd = pytest.importorskip("pandas")

AXES = {"item": "U16", "store": "U32", "day": "M8[D]"}


def months(days):
    return days.astype("M8[M]")


@pytest.fixture(scope="module")
def sales():
    """Rows in the order of time, in which items and stores turn up one by one."""
    path = os.environ.get("EXTARRAY_SALES")
    if path:
        table = pd.read_parquet(path) if path.endswith(".parquet") else pd.read_csv(path)
        columns = {"StockCode": "item", "Country": "store", "InvoiceDate": "day"}
        table = table.rename(columns={**columns, "Quantity": "sold"})[[*AXES, "sold"]]
        table["day"] = pd.to_datetime(table["day"]).dt.floor("D")
        return table.sort_values("day", kind="stable", ignore_index=True)
    rng = np.random.default_rng(4)
    n = 3000
    time = np.sort(rng.integers(0, 100, n))
    return pd.DataFrame(
        {
            "item": [f"i{i}" for i in rng.integers(0, 5 + time, n)],
            "store": np.array(["Bonn", "Lyon", "Porto", "Århus"])[rng.integers(0, 1 + time // 26)],
            "day": np.datetime64("2024-01-20") + time,
            "sold": rng.integers(-3, 20, n),
        }
    )


@pytest.fixture(scope="module")
def cube(sales, tmp_path_factory):
    path = tmp_path_factory.mktemp("cube") / "sales"
    with Cube.create(path, AXES, "i8", chunks=(64, 8, 32)) as made:
        shapes = [made.shape]
        for part in np.array_split(np.arange(len(sales)), 7):
            made.add(sales.iloc[part], "sold")
            shapes.append(made.shape)
        grown = np.diff(shapes, axis=0)
        assert (grown >= 0).all() and (grown[1:].sum(0) > 0).all()  # every axis, more than once
        assert (grown > 0).sum() > 3
    with Cube.open(path) as opened:
        yield opened


def sums(sales, keys):
    return sales.groupby(keys)["sold"].sum()


def same(totals, expected):
    """Compare what is not zero with a grouped Series: a cube has zeros where a table has no row."""
    found = totals.to_pandas()
    if found.ndim == 2:
        found = found.stack()
    found, expected = found[found != 0].sort_index(), expected[expected != 0].sort_index()
    assert found.index.tolist() == expected.index.tolist()
    assert found.tolist() == expected.tolist()


def test_cells_are_the_groups_of_all_keys(cube, sales):
    assert cube.axes == tuple(AXES)
    assert cube.shape == tuple(sales[name].nunique() for name in AXES)
    same(cube.slice(), sums(sales, [*AXES]))


@pytest.mark.parametrize(
    "keep", [("item",), ("store",), ("day",), ("day", "item"), ("item", "store")]
)
def test_axes_are_summed(cube, sales, keep):
    totals = cube.roll_up(*keep)
    assert list(totals.labels) == list(keep)
    same(totals, sums(sales, list(keep)))


def test_everything_is_summed(cube, sales):
    totals = cube.roll_up()
    assert totals.values == sales["sold"].sum() and totals.labels == {}


def test_labels_are_grouped(cube, sales):
    month = sales["day"].dt.to_period("M").dt.to_timestamp().rename("day")
    same(cube.roll_up(day=months), sums(sales, month))
    same(cube.roll_up("store", day=months), sums(sales, ["store", month]))
    first = sales["item"].str[:2].rename("item")
    same(
        cube.roll_up(item=lambda items: items.astype("U2"), day=months), sums(sales, [first, month])
    )


def test_a_slice_is_what_a_query_finds(cube, sales):
    store, day = sales["store"].iloc[0], sales["day"].iloc[len(sales) // 2]
    same(cube.slice(store=store), sums(sales[sales["store"] == store], ["item", "day"]))
    here = sales[(sales["store"] == store) & (sales["day"] == day)]
    same(cube.slice(store=store, day=str(day.date())), sums(here, "item"))
    items = sales["item"].iloc[[0, 5, len(sales) - 1]].tolist()
    same(cube.slice(item=items), sums(sales[sales["item"].isin(items)], [*AXES]))
    late = sales[sales["day"] >= day]
    where = {"day": lambda days: days >= np.datetime64(day)}
    same(cube.roll_up("store", where=where), sums(late, "store"))


def test_a_pivot_is_that_of_pandas(cube, sales):
    found = cube.roll_up("item", "store").to_pandas().sort_index(axis=0).sort_index(axis=1)
    expected = sales.pivot_table("sold", "item", "store", aggfunc="sum", fill_value=0)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_column_type=False)


def test_an_open_cube_takes_more(tmp_path):
    path = tmp_path / "sales"
    table = {"item": ["a"], "store": ["x"], "day": ["2024-05-05"], "sold": [1]}
    with Cube.create(path, AXES) as cube:
        cube.add(table, "sold")
    with Cube.open(path, "r+") as cube:
        cube.add({**table, "item": ["b"]}, "sold")
        cube.add({name: [] for name in table}, "sold")
        cube.add(table, "sold")
        assert cube.shape == (2, 1, 1)
        assert cube.cells.dtype == float
        assert cube.roll_up("item").to_pandas().to_dict() == {"a": 2.0, "b": 1.0}


def test_what_is_not_there_is_refused(cube):
    with pytest.raises(KeyError, match="no axis"):
        cube.roll_up("colour")
    with pytest.raises(KeyError, match="no axis"):
        cube.slice(colour="red")
    with pytest.raises(KeyError, match="axis 'store' has no label 'Atlantis'"):
        cube.slice(store="Atlantis")


def test_totals_of_three_axes_have_an_index_of_three():
    labels = {name: np.arange(2) for name in "abc"}
    totals = Totals(labels, np.arange(8).reshape(2, 2, 2))
    assert totals.to_pandas()[1, 0, 1] == 5


def test_a_reader_sees_the_axes_grow_together(tmp_path):
    with Cube.create(tmp_path / "a", AXES) as cube, Cube.open(tmp_path / "a") as reader:
        cube.add(
            {"item": ["a", "b"], "store": ["x", "y"], "day": ["2024-05-05"] * 2, "sold": [1, 2]},
            "sold",
        )
        xa.refresh([array for _, array in reader.group.arrays()])
        assert {name: reader.group[name].shape[0] for name in AXES} == {
            "item": 2,
            "store": 2,
            "day": 1,
        }
        assert reader.cells.shape == (2, 2, 1)
