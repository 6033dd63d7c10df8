"""CSV: types that hold every entry, rows in bounded memory, damage."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray.formats import tables


@pytest.fixture
def written(tmp_path):
    def write(text, name="t.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        return tmp_path / name

    return write


@pytest.fixture(params=[tables._ROWS, 1, 2])
def rows_at_once(request, monkeypatch):
    """Let entries be looked at in portions, so that types change between them."""
    monkeypatch.setattr(tables, "_ROWS", request.param)


def column(written, *entries):
    return xa.from_csv(written("x,n\n" + "".join(f"{e},1\n" for e in entries)), "x")


NAN, NAT = math.nan, np.datetime64("NaT")


@pytest.mark.parametrize(
    ("entries", "dtype", "values"),
    [
        (["1", "-2", " 3"], "i8", [1, -2, 3]),
        (["1", "9223372036854775808"], "u8", [1, 2**63]),
        (["-1", "9223372036854775808"], "U19", ["-1", "9223372036854775808"]),
        (["1", "18446744073709551616"], "U20", ["1", "18446744073709551616"]),
        (["1", "", "NA"], "f8", [1, NAN, NAN]),
        (["9007199254740992", ""], "f8", [2**53, NAN]),
        (["9007199254740993", ""], "U16", ["9007199254740993", ""]),
        (["9007199254740993", "0.5"], "U16", ["9007199254740993", "0.5"]),
        (["1", "2.5", "-1e-3", "inf", "nan"], "f8", [1, 2.5, -1e-3, math.inf, NAN]),
        (["1.5", "1e999"], "U5", ["1.5", "1e999"]),
        (["1.5", "1e-400"], "U6", ["1.5", "1e-400"]),
        (["-0.0", "0e7"], "f8", [-0.0, 0]),
        (["9007199254740993.0"], "U18", ["9007199254740993.0"]),
        (["9007199254740992.0", "1.2345678901234567e+20"], "f8", [2**53, 1.2345678901234567e20]),
        (["1" * 5000], "U5000", ["1" * 5000]),
        (["1", "x"], "U1", ["1", "x"]),
        (["007", "12"], "U3", ["007", "12"]),
        (["1_000", "2"], "U5", ["1_000", "2"]),
        (["NA", "AT", ""], "U2", ["NA", "AT", ""]),
        (["true", "False"], "?", [True, False]),
        (["true", ""], "U4", ["true", ""]),
        (["true", "1"], "U4", ["true", "1"]),
        (["2024-05-01", "", "1999-12-31"], "M8[D]", ["2024-05-01", NAT, "1999-12-31"]),
        (["2024-05-01 10:00", "2024-05-01"], "M8[s]", ["2024-05-01T10:00", "2024-05-01"]),
        (["2024-05-01T10:00:00.25Z"], "M8[ms]", ["2024-05-01T10:00:00.250"]),
        (["2024-05-01T10:00:00.1234567"], "M8[ns]", ["2024-05-01T10:00:00.1234567"]),
        (["1066-05-01T10:00:00.1234567"], "U27", ["1066-05-01T10:00:00.1234567"]),
        (["2024-05-01T10:00+02:00"], "U22", ["2024-05-01T10:00+02:00"]),
        (["2024-02-30"], "U10", ["2024-02-30"]),
        (["2024", "2024-05-01"], "U10", ["2024", "2024-05-01"]),
        (["now"], "U3", ["now"]),
        (["", ""], "f8", [NAN, NAN]),
        (["\u00e4\u4e2d", "b"], "U2", ["\u00e4\u4e2d", "b"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_type_holds_every_entry(written, rows_at_once, entries, dtype, values):
    for order in (1, -1):
        a = column(written, *entries[::order])
        assert a.dtype == dtype
        np.testing.assert_array_equal(a[...], np.array(values[::order], dtype))


def test_records_grow(written, tmp_path):
    file = written('day,shop,amount\n2024-05-01,Graz,3\n2024-05-02,"Bern, ""A""",4\n')
    with xa.from_csv(file, path=tmp_path / "sales", compression="zlib") as sales:
        assert sales.dims == ("row",)
        assert sales["shop"].tolist() == ["Graz", 'Bern, "A"']
        sales.append(np.array([("2024-05-03", "Wien", 5)], sales.dtype))
        assert sales.lazy["amount"].sum() == 12


def test_a_group_is_a_dataset(written, tmp_path):
    xr = pytest.importorskip("xarray")
    file = written("day,amount\n2024-05-01,3\n2024-05-02,4.5\n")
    with xa.from_csv(file, path=tmp_path / "g", as_group=True) as group:
        assert list(group) == ["amount", "day"]
    with xr.open_dataset(tmp_path / "g", engine="extarray") as found:
        assert found.amount.dims == ("row",)
        assert found.amount.values.tolist() == [3, 4.5]
    with pytest.raises(xa.ArgumentError, match="give path, and no column"):
        xa.from_csv(file, as_group=True)


@pytest.mark.parametrize(("room", "passes"), [(None, 2), (2 * (3 * 8 + 12), 3), (1, 5)])
def test_columns_of_a_group_are_read_together(
    written, tmp_path, monkeypatch, room, passes, rows_at_once
):
    """The first pass finds types; then as many columns are read at once as fit into memory."""
    file = written("a,b,c,d\n1,x,true,0.5\n2,y,false,\n3,z,true,2\n")
    begun, rows = [], tables._Table.rows
    monkeypatch.setattr(tables._Table, "rows", lambda table: (begun.append(1), rows(table))[1])
    with xa.config.set(max_memory=room or xa.config.max_memory):
        group = xa.from_csv(file, path=tmp_path / "g", as_group=True)
    with group:
        assert len(begun) == passes
        assert group["a"][...].tolist() == [1, 2, 3]
        assert group["b"][...].tolist() == ["x", "y", "z"]
        assert group["c"][...].tolist() == [True, False, True]
        np.testing.assert_array_equal(group["d"][...], [0.5, NAN, 2])


def test_a_group_of_a_table_that_changes_meanwhile(written, tmp_path, monkeypatch):
    file = written("a,b\n1,x\n2,y\n")
    survey = tables._Table.survey
    for text in ("a,b\n1,x\n", "a,b\n1,x\n2,y\n3,z\n", 'a,b\n1,"x\n'):

        def surveyed(table, text=text):
            found = survey(table)
            file.write_text(text)
            return found

        monkeypatch.setattr(tables._Table, "survey", surveyed)
        file.write_text("a,b\n1,x\n2,y\n")
        with pytest.raises(xa.FormatError, match=r"t\.csv"):
            xa.from_csv(file, path=tmp_path / "g", as_group=True)
        assert not (tmp_path / "g").exists()


def test_other_forms(written):
    assert xa.from_csv(written("a\tb\r\n1\t2\r\n\r\n", "t.TSV")).dtype.names == ("a", "b")
    assert xa.from_csv(written("\ufeffa;b\n1;2"), "a", delimiter=";")[...].tolist() == [1]
    plain = xa.from_csv(written("1,x\n2,y\n"), header=False)
    assert plain.dtype.names == ("column_0", "column_1") and plain[1].tolist() == (2, "y")
    assert xa.from_csv(written("a,b\n")).shape == (0,)
    np.testing.assert_array_equal(xa.from_csv(written("a\n1\n\n3\n"), "a")[...], [1, NAN, 3])
    assert xa.from_csv(written("a,b\n1,2\n\n3,4\n")).shape == (2,)
    assert xa.from_csv(written('a,b\n"x\ny",1\n'), "a")[0] == "x\ny"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("a,b\n1\n", xa.FormatError, "line 2: 1 entries, where the first row has 2"),
        ("a,b\n1,2\n1,2,3\n", xa.FormatError, "line 3: 3 entries"),
        ("a,a\n1,2\n", xa.FormatError, "'a' twice"),
        ("", xa.FormatError, "has no rows"),
        ("a\n\0\n", xa.FormatError, "zero characters"),
        ('a\n"x\n', xa.FormatError, "CSV"),
        ("a\n" + "x" * 200_000, xa.FormatError, "field larger than field limit"),
    ],
    ids=["short", "long", "names", "empty", "zeros", "quote", "field"],
)
def test_damage(written, tmp_path, text, error, words):
    with pytest.raises(error, match=words):
        xa.from_csv(written(text), path=tmp_path / "a")
    assert [each.name for each in tmp_path.iterdir()] == ["t.csv"]


def test_what_is_no_text(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a\n\xff\n")
    with pytest.raises(xa.FormatError, match="utf-8"):
        xa.from_csv(tmp_path / "t.csv")
    with pytest.raises(xa.MissingError):
        xa.from_csv(tmp_path / "none.csv")
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(xa.VariableError, match="a, b|'a', 'b'"):
        xa.from_csv(tmp_path / "t.csv", "c")
    with pytest.raises(xa.ArgumentTypeError, match="delimiter"):
        xa.from_csv(tmp_path / "t.csv", delimiter=", ")


def test_a_text_that_would_blow_up_a_table(written):
    file = written("a\n" + "x" * 100_000 + "\n" + "y\n" * 100_000)
    with pytest.raises(xa.ResultError):
        xa.from_csv(file, max_result="100 MiB")


entries = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(repr),
    st.dates().map(str),
    st.datetimes().map(str),
    st.sampled_from(["", "NA", "nan", "true", "False", "007", "1e5", "-0", "+1", ".5", "5."]),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3),
)


@given(rows=st.lists(st.tuples(entries, entries), min_size=1, max_size=12))
def test_no_entry_changes_its_meaning(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("csv") / "t.csv"
    with open(file, "w", encoding="utf-8", newline="") as f:
        csv.writer(f).writerows([("a", "b"), *rows])
    table = xa.from_csv(file)
    assert len(table) == len(rows)
    for j, name in enumerate("ab"):
        for value, (*row,) in zip(table[name], rows, strict=True):
            entry = row[j]
            if table.dtype[name].kind == "U":
                assert value == entry
            elif entry in tables._MISSING:
                assert value != value
            elif table.dtype[name].kind == "b":
                assert bool(value) == tables._TRUTHS[entry]
            elif table.dtype[name].kind == "M":
                assert value == np.datetime64(entry.removesuffix("Z"))
            else:
                assert value == float(entry) and (
                    not tables._WHOLE.fullmatch(entry) or int(value) == int(entry)
                )
