"""A cube of sales compared with pandas: a made-up table, or the file in EXTARRAY_SALES.

The file is Online Retail (II) of the UCI Machine Learning Repository, as Parquet or CSV: its
columns StockCode, Country, InvoiceDate and Quantity become item, store, day and sold.
"""

from __future__ import annotations

import contextlib
import os
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray.apps.cube import Cube, Totals

pd = pytest.importorskip("pandas")

AXES = {"item": "U16", "store": "U32", "day": "M8[D]"}


def months(days):
    return days.astype("M8[M]")


@pytest.fixture(scope="module")
def sales():
    """Return rows in the order of time, in which items and stores turn up one by one."""
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
        assert (grown >= 0).all() and (grown[1:].sum(0) > 0).all()  # all grow more than once
        assert (grown > 0).sum() > 3
    with Cube.open(path) as opened:
        yield opened


def sums(sales, keys):
    return sales.groupby(keys)["sold"].sum()


def same(totals, expected):
    """Compare non-zero totals with a grouped Series: a cube has zeros where a table has no row."""
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


# -- round trips ---------------------------------------------------------------------------------


def made(path, axes=AXES, dtype="i8", **options):
    return Cube.create(path, axes, dtype, **options)


def line(sold, item="a", store="x", day="2024-05-05"):
    n = len(sold)
    columns = {"item": item, "store": store, "day": day}
    return {**{k: v if isinstance(v, list) else [v] * n for k, v in columns.items()}, "sold": sold}


def by(cube, axis, **options):
    """Return totals by an axis, as a dict."""
    totals = cube.roll_up(axis, **options)
    return dict(zip(totals.labels[axis].tolist(), totals.values.tolist(), strict=True))


def everything(cube):
    """Return everything that the files of a cube hold."""
    return {
        name: (array.dtype, array.shape, array[...].tolist(), dict(array.attrs))
        for name, array in cube.group.arrays()
    }


def test_longer_labels_are_not_cut(tmp_path):
    with made(tmp_path / "a", {"item": "U9", "store": "S1", "day": "M8[D]"}) as cube:
        cube.add(line([1], "printer A"), "sold")
        cube.add(line([2, 4], ["printer A4", "printer A3"], ["xy", "xz"]), "sold")
        assert by(cube, "item") == {"printer A": 1, "printer A4": 2, "printer A3": 4}
        assert by(cube, "store") == {b"x": 1, b"xy": 2, b"xz": 4}
        assert cube.slice(item="printer A4", store="xy").values.tolist() == [2]
        with pytest.raises(KeyError, match="no label 'printer A4 '"):
            cube.slice(item="printer A4 ")
    with Cube.open(tmp_path / "a") as cube:
        assert by(cube, "item") == {"printer A": 1, "printer A4": 2, "printer A3": 4}
        assert cube.labels("item").dtype == "U10"


@pytest.mark.parametrize(
    ("dtype", "labels", "wider"),
    [
        ("i1", [1, 300], "i2"),
        ("i1", [-1, 2**63 - 1], "i8"),
        ("u1", [3, -1], "i1"),
        ("u1", [200, -1], "i2"),
        ("i8", [5, 2**64 - 1], "u8"),
        ("i4", [1, 2.5], "f8"),
        ("i4", [1.0, np.nan, 3.0], "i4"),
        ("f4", [0.5, 0.1], "f8"),
        ("bool", [True, False], "bool"),
        ("U", ["", "a", "Århus"], "U5"),
    ],
)
def test_axes_become_wide_enough_for_labels(tmp_path, dtype, labels, wider):
    n = len(labels)
    with made(tmp_path / "a", {"key": dtype}) as cube:
        cube.add({"key": labels[:1], "n": [1]}, "n")
        cube.add({"key": labels, "n": range(n)}, "n")
        assert cube.labels("key").dtype == wider
        expected = pd.DataFrame({"key": labels, "n": range(n)}).groupby("key")["n"].sum().to_dict()
        expected[labels[0]] += 1
        assert by(cube, "key") == expected


def test_the_order_of_bytes_stays(tmp_path):
    with made(tmp_path / "a", {"k": ">i4", "l": ">U3"}, ">i8", aggs=["min"]) as cube:
        for _ in range(2):
            cube.add({"k": [1, 2], "l": ["a", "b"], "n": [3, 4]}, "n")
        assert cube.cells.dtype == ">i8" and cube.labels("k").dtype == ">i4"
        assert by(cube, "k") == {1: 6, 2: 8} and by(cube, "l", agg="min") == {"a": 3, "b": 4}


@pytest.mark.parametrize(
    ("axes", "label"),
    [
        ({"k": "U8"}, 85123),
        ({"k": "U8"}, b"a"),
        ({"k": "U8"}, "a\0"),
        ({"k": "U8"}, ["a"]),
        ({"k": "S8"}, "Århus"),
        ({"k": "i8"}, "5"),
        ({"k": "i8"}, 1 + 2j),
        ({"k": "bool"}, 1),
        ({"k": "M8[D]"}, "2024-05-05T12"),
        ({"k": "M8[D]"}, "2024-05-05T00Z"),
        ({"k": "M8[D]"}, pd.Timestamp("2024-05-05 00:00", tz="Asia/Kolkata")),
        ({"k": "M8[D]"}, pd.Timestamp("2024-05-05 00:00:00.000000001")),
        ({"k": "M8[D]"}, pd.Period("2024-05", "M")),
        ({"k": "M8[D]"}, "spring"),
        ({"k": "M8[D]"}, ""),
        ({"k": "M8[ns]"}, np.datetime64("3000-01-01")),
        ({"k": "M8[D]"}, 19848),
        ({"k": "m8[D]"}, np.timedelta64(1, "h")),
    ],
)
def test_labels_that_an_axis_would_change_are_refused(tmp_path, axes, label):
    with made(tmp_path / "a", axes) as cube:
        for column in ([label], pd.Series([label, None], dtype=object)):
            with pytest.raises(xa.errors.DTypeError, match="'k'"):
                cube.add({"k": column, "n": [1] * len(column)}, "n")
        assert cube.shape == (0,) and not len(cube.labels("k"))


def test_columns_of_other_units_are_the_same_days(tmp_path):
    days = ["2024-05-05", "2024-06-01"]
    with made(tmp_path / "a", {"day": "M8[D]"}) as cube:
        for column in (
            days,
            np.array(days, "M8[s]"),
            pd.Series(days, dtype="datetime64[ns]"),
            pd.Series(days).astype("category"),
            [pd.Timestamp(day) for day in days],
            [pd.Timestamp(days[0]).date(), np.datetime64("2024-06", "M")],
        ):
            cube.add({"day": column, "n": [1, 10]}, "n")
        assert cube.labels("day").tolist() == np.array(days, "M8[D]").tolist()
        assert cube.slice().values.tolist() == [6, 60]


@pytest.mark.parametrize(
    ("dtype", "labels"),
    [
        ("U8", ["b", None, "nan", "", None, "b"]),
        ("U8", ["b", float("nan"), "nan", pd.NA, "a", "b"]),
        ("U8", pd.Series(["b", None, "a", "nan", None, "b"], dtype="string")),
        ("U8", np.ma.masked_array(["b", "a", "c", "nan", "a", "b"], [0, 1, 0, 0, 1, 0])),
        ("i4", pd.Series([0, pd.NA, 3, 0, -1, pd.NA], dtype="Int64")),
        ("i4", [0.0, np.nan, 3.0, 0.0, -1.0, np.nan]),
        ("f8", [0.5, np.nan, np.inf, 0.5, -np.inf, np.nan]),
        ("M8[D]", ["2024-05-05", None, "2024-05-07", pd.NaT, np.nan, "2024-05-05"]),
        ("M8[D]", pd.Series(["2024-05-05", None] * 3, dtype="datetime64[us]")),
        ("m8[h]", np.array([5, "NaT"] * 3, "m8[h]")),
    ],
)
def test_missing_labels_are_left_out_or_a_group(tmp_path, dtype, labels):
    other = ["x", "y", "x", "y", "x", None]
    n = [1, 2, 4, 8, 16, 32]
    plain = labels
    if isinstance(labels, np.ma.MaskedArray):
        plain = labels.astype(object).filled(np.array(None))
    if dtype == "M8[D]":
        plain = pd.to_datetime(pd.Series(plain))
    rows = pd.DataFrame({"k": plain, "other": other, "n": n})
    for dropna in (True, False):
        with made(tmp_path / f"{dropna}", {"k": dtype, "other": "U1"}) as cube:
            cube.add({"k": labels, "other": other, "n": n}, "n", dropna=dropna)
            cube.add({"k": labels, "other": other, "n": n}, "n", dropna=dropna)
            expected = 2 * rows.groupby(["k", "other"], dropna=dropna)["n"].sum()
            assert np.count_nonzero(cube.slice().values) == len(expected)
            for key, total in expected.items():
                one = cube.slice(k=key[0], other=key[1]).values.item()
                assert one == total, (key, one, total)
            texts = [label for label in cube.labels("k") if label == "nan"]
            assert texts == ["nan"] * (rows["k"] == "nan").sum()
            groups = cube.roll_up(k=lambda k: np.full(len(k), 7)).to_pandas()
            by_seven = rows.assign(k=rows["k"].notna().map({True: 7.0, False: np.nan}))
            if dropna:
                by_seven = by_seven.dropna()
            expected = 2 * by_seven.groupby("k", dropna=False)["n"].sum()
            assert groups.tolist() == expected.tolist()
            if not dropna:
                assert cube.shape == (rows["k"].nunique() + 1, 3)
                assert pd.isna(cube.labels("k")).sum() == pd.isna(groups.index).sum() == 1
                assert list(cube.roll_up(where={"k": None}).values.shape) == []
                present = cube.roll_up(where={"k": lambda k: np.ones(len(k), bool)}).values
                assert present + cube.roll_up(where={"k": None}).values == 2 * sum(n)
        with Cube.open(tmp_path / f"{dropna}") as again:
            assert pd.isna(again.labels("k")).any() == (not dropna)


def test_nobody_has_a_missing_label_that_never_came(tmp_path):
    with made(tmp_path / "a") as cube:
        cube.add(line([1]), "sold")
        for nothing in (None, np.nan, pd.NA):
            with pytest.raises(KeyError, match="no label None"):
                cube.slice(store=nothing)


def test_missing_quantities_count_for_nothing(tmp_path):
    rows = line([1.0, None, np.nan, 4.0, pd.NA], ["a", "a", "b", "c", "c"])
    for n, sold in enumerate([rows["sold"], pd.Series([1, None, None, 4, None], dtype="Int64")]):
        with made(tmp_path / f"{n}", aggs=["mean", "min"]) as cube:
            cube.add({**rows, "sold": sold}, "sold")
            assert cube.cells.dtype == "i8"
            assert by(cube, "item") == {"a": 1, "b": 0, "c": 4}  # b: as in pandas, it has a row
            assert by(cube, "item", agg="count") == {"a": 1, "b": 0, "c": 1}
            means = cube.roll_up("item", agg="mean").to_pandas()
            assert means.isna().tolist() == [False, True, False] and means["c"] == 4


@pytest.mark.parametrize(
    ("dtype", "loads", "wider", "total"),
    [
        ("i8", [[1], [0.5, 0.25]], "f8", 1.75),
        ("i8", [[1], [1.0, 2.0]], "i8", 4),
        ("i8", [[1], [np.inf]], "f8", np.inf),
        ("i1", [[100], [100]], "i2", 200),
        ("i1", [[100], [2**40]], "i8", 2**40 + 100),
        ("u1", [[200], [-3]], "u1", 197),
        ("u1", [[200], [-300]], "i2", -100),
        ("i8", [[2**62], [2**62, 2**62]], "u8", 3 * 2**62),
        ("i8", [[2**63 - 1], [2**63 - 1, -(2**63)]], "i8", 2**63 - 2),
        ("u8", [[2**64 - 1]], "u8", 2**64 - 1),
        ("u8", [[3], [-5]], "i8", -2),
        ("i4", [[True, True, False]], "i4", 2),
        ("f8", [[2**53 - 1], [-1]], "f8", 2**53 - 2),
        ("f4", [[0.1]], "f4", np.float32(0.1)),
        ("f4", [[2**24]], "f8", 2**24),
        ("f4", [[1e300]], "f8", 1e300),
        ("f2", [[1e5]], "f8", 1e5),
        ("i8", [[1], [2j]], "c16", 1 + 2j),
        ("f8", [[0.5], [pd.NA, 2**53]], None, None),
        ("f8", [[2**53 + 1]], None, None),
        ("f8", [[2**53 - 1], [1]], None, None),
        ("i8", [[2**53 + 1], [0.5]], None, None),
        ("i8", [[1], [2**53 + 1, 0.5]], None, None),
        ("i8", [[2**63 - 1, 2**63 - 1, 2**63 - 1]], None, None),
        ("i8", [[-(2**63)], [-1]], None, None),
        ("i8", [[10**30]], None, None),
        ("f8", [[1e308], [1e308]], None, None),
        ("f8", [[1e308, 1e308]], None, None),
    ],
)
def test_sums_are_right_or_refused(tmp_path, dtype, loads, wider, total):
    with made(tmp_path / "a", {"k": "U1"}, dtype) as cube:
        cube.add({"k": ["b"], "n": [1]}, "n")
        for n in loads[:-1]:
            cube.add({"k": ["a"] * len(n), "n": n}, "n")
        before = everything(cube)
        last = {"k": ["a", *"a" * (len(loads[-1]) - 1), "c"], "n": [*loads[-1], 0]}
        if wider is None:
            with pytest.raises(OverflowError):
                cube.add(last, "n")
            assert everything(cube) == before and cube.labels("k").tolist() != ["b", "a", "c"]
            return
        cube.add(last, "n")
        assert cube.cells.dtype == wider
        assert by(cube, "k") == {"b": 1, "a": total, "c": 0}


@pytest.mark.parametrize("large", [2**53 + 1, -(2**63)])
def test_other_cells_are_exact_when_fractions_make_them_wider(tmp_path, large):
    with made(tmp_path / "a", {"k": "U1"}) as cube:
        cube.add({"k": ["a"], "n": [large]}, "n")
        before = everything(cube)
        with pytest.raises(OverflowError, match=r"2\*\*53 beside fractions"):
            cube.add({"k": ["b"], "n": [0.5]}, "n")
        assert everything(cube) == before


@pytest.mark.parametrize(
    "change",
    [
        {"item": [1, 2]},
        {"day": ["2024-05-05", "spring"]},
        {"sold": ["one", "two"]},
        {"sold": [1]},
        {"sold": [[1, 2], [3, 4]]},
        {"sold": np.ones((2, 2))},
        {"sold": np.array(["2024", "2025"], "M8[Y]")},
        {"sold": [1, 2**64]},
        {"store": ["new", ["x"]]},
    ],
)
def test_after_an_error_a_cube_is_as_before(tmp_path, change):
    with made(tmp_path / "a", aggs=["min"]) as cube:
        cube.add(line([1, 2]), "sold")
        before = everything(cube)
        for _ in range(2):
            with pytest.raises((ValueError, TypeError, OverflowError)):
                cube.add({**line([3, 4], ["new", "longer" * 9]), **change}, "sold")
            assert everything(cube) == before
        cube.add(line([3, 4], ["new", "longer" * 9]), "sold")
        assert cube.roll_up().values == 10


def test_a_load_that_cannot_be_stored_is_taken_back(tmp_path, monkeypatch):
    commit = xa.commit

    @contextlib.contextmanager
    def failing(arrays):
        with commit(arrays):
            yield
            raise OSError("no space")

    with made(tmp_path / "a", aggs=["count", "max"]) as cube:
        cube.add(line([1, 2], ["a", "b"]), "sold")
        before = everything(cube)
        for row in (line([5, 6], ["a", "c"]), line([5], "a"), line([2**40], "a")):
            with monkeypatch.context() as patch:
                patch.setattr(xa, "commit", failing)
                with pytest.raises(OSError, match="no space"):
                    cube.add(row, "sold")
            assert everything(cube) == before
        cube.add(line([5, 6], ["a", "c"]), "sold")
        assert by(cube, "item") == {"a": 6, "b": 2, "c": 6}
        assert by(cube, "item", agg="max") == {"a": 5, "b": 2, "c": 6}


def test_a_reader_follows_growth_and_wider_types(tmp_path):
    with (
        made(tmp_path / "a", dtype="i1", aggs=["mean"]) as cube,
        Cube.open(tmp_path / "a") as reader,
    ):
        assert reader.roll_up().values == 0 and not reader.refresh()
        for rows in (
            line([1, 2], ["a", "b"]),
            line([3], "a"),
            line([1000], "a longer item than any before"),
            line([0.5, 0.25], ["b", "c"], "another store"),
            line([7], "d"),
        ):
            cube.add(rows, "sold", dropna=False)
            assert reader.refresh() or rows["sold"] == [3]
            assert by(reader, "item") == by(cube, "item")
            assert by(reader, "store", agg="mean") == by(cube, "store", agg="mean")
            assert reader.labels("item").tolist() == cube.labels("item").tolist()
        cube.add(line([1], [None]), "sold", dropna=False)
        reader.refresh()
        assert by(reader, "item")[None] == 1
        assert reader.roll_up().values == 1014.75
        assert not cube.refresh()
        with pytest.raises(xa.errors.ReadOnlyError):
            reader.add(line([1]), "sold")


def test_arrays_that_were_refreshed_alone_give_no_totals(tmp_path):
    with made(tmp_path / "a") as cube, Cube.open(tmp_path / "a") as reader:
        cube.add(line([1]), "sold")
        reader.cells.refresh()
        with pytest.raises(ValueError, match="refresh"):
            reader.roll_up("item")
        reader.refresh()
        assert by(reader, "item") == {"a": 1}


# -- totals of rows ------------------------------------------------------------------------------

AGGS = ["sum", "mean", "count", "min", "max"]


@pytest.fixture(scope="module")
def full(sales, tmp_path_factory):
    """Yield a cube with all totals, in small cells that become wider; and its rows."""
    rows = sales.assign(sold=sales["sold"].astype("Int64"))
    rows.loc[rows.index % 7 == 0, "sold"] = pd.NA
    path = tmp_path_factory.mktemp("full") / "sales"
    with Cube.create(path, AXES, "i1", aggs=AGGS, chunks=16) as made:
        for part in np.array_split(np.arange(len(rows)), 5):
            made.add(rows.iloc[part], "sold")
        yield made, rows


def compare(found, expected):
    """Compare totals by one axis with those of pandas: NaN where there is no row."""
    found = found.to_pandas().sort_index()
    assert found.index.tolist() == expected.index.tolist()
    np.testing.assert_allclose(found.to_numpy(float), expected.to_numpy(float, na_value=np.nan))


@pytest.mark.parametrize("agg", AGGS)
def test_totals_of_rows_are_those_of_pandas(full, agg):
    cube, rows = full
    for name in AXES:
        compare(cube.roll_up(name, agg=agg), rows.groupby(name)["sold"].agg(agg))
    month = rows["day"].dt.to_period("M").dt.to_timestamp().rename("day")
    compare(cube.roll_up(day=months, agg=agg), rows.groupby(month)["sold"].agg(agg))
    day = rows["day"].iloc[len(rows) // 2]
    late = rows[rows["day"] >= day]
    where = {"day": slice(np.datetime64(day), None)}
    compare(
        cube.roll_up("item", where={**where, "item": list(late["item"].unique())}, agg=agg),
        late.groupby("item")["sold"].agg(agg),
    )
    pivot = rows.pivot_table("sold", "item", "day", aggfunc=agg, dropna=False).astype(float)
    found = cube.roll_up("item", "day", agg=agg).to_pandas().sort_index().sort_index(axis=1)
    pivot = pivot.reindex(index=found.index, columns=found.columns)
    if agg in ("sum", "count"):
        pivot = pivot.fillna(0)
    np.testing.assert_allclose(found.to_numpy(float), pivot.to_numpy())
    everything = cube.roll_up(agg=agg).values
    np.testing.assert_allclose(float(everything), float(rows["sold"].agg(agg)))


@pytest.mark.parametrize("agg", AGGS)
def test_totals_do_not_depend_on_the_pieces(full, agg, monkeypatch):
    cube, _ = full
    groups = {"item": lambda items: items.astype("U2"), "day": months}
    where = {"item": lambda items: np.arange(len(items)) % 3 > 0}
    expected = cube.roll_up("store", agg=agg, where=where, **groups)
    monkeypatch.setattr("extarray.apps.cube._PARTIAL", 4096)
    found = cube.roll_up("store", agg=agg, where=where, **groups)
    np.testing.assert_array_equal(found.values, expected.values)


def test_a_cube_of_sums_answers_nothing_else(cube):
    for agg in AGGS[1:]:
        with pytest.raises(ValueError, match=rf"aggs=\['{agg}'\]"):
            cube.roll_up("item", agg=agg)
    with pytest.raises(ValueError, match="agg must be one of"):
        cube.roll_up("item", agg="median")


def test_least_and_greatest_stay_exact(tmp_path):
    with made(tmp_path / "a", {"k": "U1", "l": "U1"}, aggs=["min", "max"]) as cube:
        big = 2**60 + 1
        cube.add({"k": ["a", "a", "b"], "l": ["x", "x", "y"], "n": [big, 3, big]}, "n")
        cube.add({"k": ["a"], "l": ["x"], "n": [2**63 + 1]}, "n")
        assert cube.roll_up("k", agg="max").values.tolist() == [2**63 + 1, big]
        assert cube.roll_up("k", agg="min").values.tolist() == [3, big]
        table = cube.slice(agg="min").values
        assert table.dtype == object and table.tolist() == [[3, None], [None, big]]
        assert by(cube, "l", where={"k": "b"}, agg="min") == {"x": None, "y": big}
        with pytest.raises(TypeError, match="complex"):
            cube.add({"k": ["a"], "l": ["x"], "n": [1j]}, "n")


def test_a_total_beyond_its_type_is_refused(tmp_path):
    with made(tmp_path / "a", {"k": "U1"}) as cube:
        cube.add({"k": list("abcd"), "n": [2**62, 2**62, 2**62, -(2**62)]}, "n")
        with pytest.raises(OverflowError, match="exceeds 64 bits"):
            cube.roll_up()
        with pytest.raises(OverflowError, match="exceeds 64 bits"):
            cube.roll_up(k=lambda k: k == "d")
        assert cube.roll_up(where={"k": ["a", "c", "d"]}).values == 2**62
        assert by(cube, "k") == {"a": 2**62, "b": 2**62, "c": 2**62, "d": -(2**62)}
        del cube.cells.attrs["bits"]  # as in cubes of earlier versions
        with pytest.raises(OverflowError, match="exceeds 64 bits"):
            cube.roll_up()
        cube.add({"k": ["a"], "n": [1]}, "n")
        assert cube.roll_up(where={"k": ["a", "c", "d"]}).values == 2**62 + 1


def test_sums_of_narrow_cells_are_as_wide_as_those_of_numpy(tmp_path):
    for dtype in ("i1", "u2", "i4", "f2", "f4"):
        with made(tmp_path / dtype, {"k": "i8"}, dtype) as cube:
            cube.add({"k": range(1000), "n": [100] * 1000}, "n")
            assert cube.cells.dtype == dtype and cube.roll_up().values == 100_000


# -- where ---------------------------------------------------------------------------------------


def test_slices_of_labels_are_those_of_pandas(cube, sales):
    daily = sales.groupby("day")["sold"].sum()
    first, last = daily.index[[0, -1]].strftime("%Y-%m-%d")
    for start, stop in (
        (first, last),
        (first[:7], first[:7]),
        (None, first[:7]),
        (first[:4], last[:4]),
        (last, first),
        (first, None),
        (pd.Timestamp(first), pd.Timestamp(last) - pd.Timedelta("1h")),
    ):
        found = cube.roll_up("day", where={"day": slice(start, stop)})
        same(found, daily.loc[start:stop])
    items = sales.groupby("item")["sold"].sum()
    a, b = sorted(items.index)[1:9:7]
    same(cube.roll_up("item", where={"item": slice(a, b)}), items.loc[a:b])
    longer = f"{b} and longer"
    same(cube.roll_up("item", where={"item": slice(a, longer)}), items.loc[a:longer])


def test_a_selection_that_means_something_else_is_refused(cube):
    with pytest.raises(ValueError, match=r"use slice\('2024-01', '2024-01'\)"):
        cube.slice(day="2024-02")
    with pytest.raises(ValueError, match=r"use slice"):
        cube.slice(day=["2024-02-03", np.datetime64("2024-02")])
    with pytest.raises(ValueError, match="cannot have a step"):
        cube.slice(day=slice("2024-02-03", None, 2))
    with pytest.raises(ValueError, match="must return a bool"):
        cube.slice(day=lambda days: [1, 2])
    with pytest.raises(ValueError, match="must return one for each"):
        cube.roll_up(day=lambda days: days[1:])
    with pytest.raises(TypeError, match="'item'"):
        cube.slice(item=5)
    with pytest.raises(ValueError, match="either kept or grouped"):
        cube.roll_up("day", day=months)


def test_selections_are_of_all_kinds(cube, sales):
    items = sales["item"].iloc[[0, 5, 5]].tolist()
    expected = cube.slice(item=items)
    assert len(expected.labels["item"]) == len({*items})
    for some in ({*items}, np.array(items), pd.Index(items), tuple(items)):
        np.testing.assert_array_equal(cube.slice(item=some).values, expected.values)
    assert cube.roll_up("day", where={"item": []}).values.sum() == 0
    assert cube.roll_up(where={"item": []}, item=lambda items: items).values.shape == (0,)


def test_groups_may_be_lists_with_gaps(cube, sales):
    def kinds(items):
        return [None if item.endswith("1") else len(item) for item in items.tolist()]

    found = cube.roll_up(item=kinds)
    expected = sales.assign(item=kinds(sales["item"])).groupby("item", dropna=False)["sold"].sum()
    assert found.labels["item"].tolist() == [*expected.index[:-1], None]
    assert found.values.tolist() == expected.tolist()


def test_a_roll_up_reads_no_more_than_it_needs(full):
    cube, rows = full
    item, store = rows["item"].iloc[-1], rows["store"].iloc[-1]
    arrays = [cube.cells, cube.group["count"], cube.group["max"]]
    days = cube.shape[2]

    def read(**options):
        with contextlib.ExitStack() as stack:
            logs = [stack.enter_context(array.record_access()) for array in arrays]
            cube.roll_up("day", **options)
        return [sum(np.prod(box) * n for box, n in log.access) for log in logs]

    assert read(where={"item": item, "store": store}) == [days, 0, 0]
    assert read(where={"item": item, "store": store}, agg="mean") == [days, days, 0]
    assert read(where={"item": item, "store": store}, agg="max") == [0, 2 * days, days]
    some = list(rows["item"].unique()[:20:5])
    assert read(where={"item": some}) == [4 * cube.shape[1] * days, 0, 0]
    assert read() == [cube.cells.size, 0, 0]


# -- creation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "options"),
    [
        ({}, {}),
        ({"cells": "U1"}, {}),
        ({"count": "U1"}, {}),
        ({"a": "O"}, {}),
        ({"a": "M8"}, {}),
        ({"a": "c16"}, {}),
        ({"a": "U1"}, {"dtype": "U3"}),
        ({"a": "U1"}, {"dtype": "bool"}),
        ({"a": "U1"}, {"chunks": (1, 2)}),
        ({"a": "U1"}, {"aggs": ["median"]}),
        ({"a": "U1"}, {"aggs": "mean"}),
        ({"a": "U1"}, {"aggs": ["min"], "dtype": complex}),
        ({"a/..": "U1"}, {}),
    ],
)
def test_a_cube_that_cannot_be_leaves_nothing(tmp_path, axes, options):
    with pytest.raises(xa.errors.ExtArrayError):
        Cube.create(tmp_path / "a", axes, **options)
    assert not (tmp_path / "a").exists()


def test_a_group_that_is_no_cube_is_refused(tmp_path):
    with xa.open_group(tmp_path / "a", "w") as group:
        group.create("cells", (2, 2))
    with pytest.raises(ValueError, match="not a cube"):
        Cube.open(tmp_path / "a")


@pytest.mark.slow
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "bb", "", None]),
                st.one_of(st.none(), st.integers(-3, 300)),
                st.one_of(st.none(), st.integers(-(2**40), 2**40), st.sampled_from([0.5, -0.25])),
            ),
            max_size=8,
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_any_loads_are_those_of_pandas(loads, dropna):
    rows = pd.DataFrame([row for load in loads for row in load], columns=["k", "n", "v"])
    rows = rows.astype({"k": object, "n": "Int64", "v": "Float64"})
    with (
        tempfile.TemporaryDirectory() as folder,
        Cube.create(f"{folder}/a", {"k": "U1", "n": "i1"}, "i1", aggs=AGGS, chunks=2) as cube,
    ):
        for load in loads:
            columns = list(zip(*load, strict=True)) or [[], [], []]
            cube.add(dict(zip("knv", columns, strict=True)), "v", dropna=dropna)
        for agg in AGGS:
            expected = rows.groupby(["k", "n"], dropna=dropna)["v"].agg(agg)
            found = cube.slice(agg=agg)
            if agg == "count":
                assert found.values.sum() == expected.sum()
            for (k, n), total in expected.items():
                one = cube.slice(k=k, n=n, agg=agg).values.item()
                assert (pd.isna(one) and pd.isna(total)) or one == pytest.approx(total, rel=1e-12)
