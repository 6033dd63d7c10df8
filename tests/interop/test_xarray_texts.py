"""Texts that xarray writes: longer ones in appends."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extarray as xa
from extarray.common.limits import limits

xr = pytest.importorskip("xarray")

import extarray.interop.xarray  # noqa: E402

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\uffff"), max_size=7)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "stations"


def stations(names):
    names = np.array(names, "U") if names else np.empty(0, "U1")
    coded = ("station", np.char.encode(names, "utf-8"))
    height = ("station", np.arange(len(names)))
    return xr.Dataset({"height": height}, {"station": names, "code": coded})


def shown(path):
    with xr.open_dataset(path, engine="extarray") as found:
        return found.load()


def test_an_append_widens_labels(folder):
    stations(["ab", "c"]).extarray.to_extarray(folder)
    before = xr.open_dataset(folder, engine="extarray")
    with before:
        stations(["longer", "d"]).extarray.to_extarray(folder, append_dim="station")
        assert before["station"].values.tolist() == ["ab", "c"]
    stations(["first of all"]).extarray.to_extarray(folder, append_dim="station", side="start")
    found = shown(folder)
    assert found["station"].values.tolist() == ["first of all", "ab", "c", "longer", "d"]
    assert found["height"].values.tolist() == [0, 0, 1, 0, 1]
    assert found["code"].dtype == "S12" and found["station"].dtype == "U12"
    assert not any(xa.check(path).problems for path in folder.glob("*.xmd"))


def test_texts_of_a_single_array_and_its_labels(path):
    def one(names):
        names = np.array(names)
        return xr.DataArray(names, {"x": names}, ["x"], "one")

    one(["ab"]).extarray.to_extarray(path)
    one(["cdef"]).extarray.to_extarray(path, append_dim="x")
    with xr.open_dataarray(path, engine="extarray") as found:
        assert found.values.tolist() == found["x"].values.tolist() == ["ab", "cdef"]


def test_wide_dtypes_of_short_texts_widen_nothing(folder):
    stations(["abc"]).extarray.to_extarray(folder)
    wide = stations(["d"])
    wide["station"] = wide["station"].astype("U99")
    wide.extarray.to_extarray(folder, append_dim="station")
    assert shown(folder)["station"].dtype == "U3"


def test_rules_of_casting_apply_to_the_present_width(folder):
    stations(["ab"]).extarray.to_extarray(folder)
    for rule in ("no", "equiv", "safe"):
        with pytest.raises(xa.CastingError, match=f"under the rule '{rule}'"):
            stations(["cdef"]).extarray.to_extarray(folder, append_dim="station", casting=rule)
    assert shown(folder).sizes == {"station": 1}


def test_large_arrays_are_left_as_they_are(folder, monkeypatch):
    stations(["ab"]).extarray.to_extarray(folder)
    monkeypatch.setattr(limits, "widened_bytes", 3)
    with pytest.raises(xa.CastingError, match=r"rechunk\(dtype="):
        stations(["cdef"]).extarray.to_extarray(folder, append_dim="station")
    assert shown(folder).sizes == {"station": 1}


def named(names, dtype=object):
    return xr.Dataset({"name": ("station", np.array(names, dtype))})


def as_read(path):
    """Return the names with None for missing ones, and the text that stands for these."""
    name = shown(path)["name"]
    texts = name.values.astype(object)
    texts[xr.core.duck_array_ops.isnull(texts)] = None
    return texts.tolist(), name.encoding.get("missing_value")


@pytest.mark.parametrize(
    "dtype",
    [object, np.dtypes.StringDType(na_object=None), np.dtypes.StringDType(na_object=np.nan)],
)
def test_missing_texts_are_not_empty(folder, dtype):
    gap = None if dtype is object else dtype.na_object
    named(["ab", gap, ""], dtype).extarray.to_extarray(folder)
    assert as_read(folder) == (["ab", None, ""], "\uffff")
    with xa.open(folder / "name", mode="r+") as array:
        array.extend(0, by=1)
    assert as_read(folder)[0] == ["ab", None, "", None]


@pytest.mark.parametrize("side", ["end", "start"])
def test_the_first_missing_text_may_come_in_an_append(folder, side):
    named(["ab", ""]).extarray.to_extarray(folder)
    assert shown(folder)["name"].dtype == "U2"
    named([None]).extarray.to_extarray(folder, append_dim="station", side=side)
    named(["cde", None]).extarray.to_extarray(folder, append_dim="station")
    first = ["ab", "", None] if side == "end" else [None, "ab", ""]
    assert as_read(folder) == ([*first, "cde", None], "\uffff")
    named([None, "z"]).extarray.to_extarray(folder, region={"station": slice(3, 5)})
    assert as_read(folder)[0] == [*first, None, "z"]


def test_byte_strings_and_characters_may_be_missing(tmp_path):
    folder = tmp_path / "bytes"
    named([b"ab", None, b""]).extarray.to_extarray(folder)
    named([None, b"cde"]).extarray.to_extarray(folder, append_dim="station")
    assert as_read(folder) == ([b"ab", None, b"", None, b"cde"], b"\xff")
    folder = tmp_path / "characters"
    coded = {"name": {"dtype": "S1"}}
    named(["ä", None, ""]).extarray.to_extarray(folder, encoding=coded)
    named([None, "büc"]).extarray.to_extarray(folder, append_dim="station")
    assert as_read(folder) == (["ä", None, "", None, "büc"], "\uffff")
    coded = {"name": {"dtype": "S1", "_FillValue": b"X"}}
    named(["ä", None, ""]).extarray.to_extarray(tmp_path / "marked", encoding=coded)
    assert as_read(tmp_path / "marked")[0] == ["ä", None, ""]
    assert shown(tmp_path / "marked")["name"].encoding["_FillValue"] == "X"
    coded = {"name": {"_FillValue": b"\xff"}}
    with pytest.raises(xa.ArgumentError, match="cannot stand for missing texts of 'name'"):
        named(["ä", None, ""]).extarray.to_extarray(tmp_path / "no", encoding=coded)


def test_labels_of_a_single_array_may_be_missing(path):
    def one(names):
        names = np.array(names, object)
        return xr.DataArray(names, {"x": names}, ["x"], "one")

    one(["a", "b"]).extarray.to_extarray(path)
    one(["cd", None]).extarray.to_extarray(path, append_dim="x")
    with xr.open_dataarray(path, engine="extarray") as found:
        for texts in (found, found["x"]):
            assert texts.values[:3].tolist() == ["a", "b", "cd"]
            assert texts.isnull().values.tolist() == [False] * 3 + [True]


def test_a_text_that_stands_for_missing_ones_is_no_other(tmp_path):
    both = named(["a", "\uffff", None])
    with pytest.raises(xa.CastingError, match="also one of the texts"):
        both.extarray.to_extarray(tmp_path / "new")
    other = {"name": {"missing_value": "n/a"}}
    both.extarray.to_extarray(tmp_path / "other", encoding=other)
    assert as_read(tmp_path / "other") == (["a", "\uffff", None], "n/a")
    with pytest.raises(xa.CastingError, match="stands for a missing text"):
        named(["n/a"]).extarray.to_extarray(tmp_path / "other", append_dim="station")
    with pytest.raises(xa.CastingError, match="would become nan"):
        named(["n/a"], "U").extarray.to_extarray(tmp_path / "new", encoding=other)

    named(["a", "\uffff"]).extarray.to_extarray(tmp_path / "old")
    with pytest.raises(xa.CastingError, match="set its attribute 'missing_value'"):
        named([None]).extarray.to_extarray(tmp_path / "old", append_dim="station")
    with pytest.raises(xa.CastingError, match="no text of the array stands for a missing one"):
        named([None]).extarray.to_extarray(tmp_path / "old", region={"station": slice(0, 1)})
    assert as_read(tmp_path / "old") == (["a", "\uffff"], None)


def test_a_long_text_stands_for_missing_ones_before_any_is(folder):
    named(["a", "miss"]).extarray.to_extarray(
        folder, encoding={"name": {"missing_value": "missing"}}
    )
    named([None]).extarray.to_extarray(folder, append_dim="station")
    assert as_read(folder) == (["a", "miss", None], "missing")


def test_texts_and_byte_strings_with_gaps_are_refused(folder):
    with pytest.raises(xa.ArgumentError, match="decode the byte strings"):
        named(["a", b"b", None]).extarray.to_extarray(folder)


def test_a_dask_array_of_texts_may_have_gaps(folder):
    pytest.importorskip("dask.array")
    with pytest.warns(xr.SerializationWarning, match="'name' is a dask array with dtype=object"):
        named(["a", None]).chunk(station=1).extarray.to_extarray(folder)
    assert as_read(folder)[0] == ["a", None]


@pytest.mark.parametrize("form", ["netcdf", "zarr"])
def test_missing_texts_in_other_formats(tmp_path, form):
    pytest.importorskip({"netcdf": "netCDF4"}.get(form, form))
    engine = {"netcdf": "netcdf4"}.get(form, form)
    named(["ab", None, ""]).extarray.to_extarray(tmp_path / "ours")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # texts are no part of Zarr 3 yet, nor growth of netCDF
        with xa.open(tmp_path / "ours" / "name") as array:
            getattr(xa, f"to_{form}")(array, tmp_path / "theirs", "name")
        with xr.open_dataset(tmp_path / "theirs", engine=engine) as found:
            assert found["name"].isnull().values.tolist() == [False, True, False]
        back = getattr(xa, f"from_{form}")(tmp_path / "theirs", "name", path=tmp_path / "name")
    back.close()
    assert as_read(tmp_path / "name") == (["ab", None, ""], "\uffff")


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.none() | WORDS, min_size=1, max_size=4), min_size=1, max_size=5))
def test_any_appends_of_missing_texts(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("texts") / "d"
    named(["", *parts[0]]).extarray.to_extarray(folder)
    for names in parts[1:]:
        named(names).extarray.to_extarray(folder, append_dim="station")
    assert as_read(folder)[0] == ["", *(name for names in parts for name in names)]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=5))
def test_appends_as_xarray_concatenates(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("texts") / "d"
    stations(parts[0]).extarray.to_extarray(folder)
    for names in parts[1:]:
        stations(names).extarray.to_extarray(folder, append_dim="station", verify_integrity=False)
    expected = xr.concat([stations(names) for names in parts], "station")
    found = shown(folder)
    for name in ("station", "code", "height"):
        assert found[name].values.tolist() == expected[name].values.tolist()
