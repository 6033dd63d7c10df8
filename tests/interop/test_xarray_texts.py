"""Texts that xarray writes: longer ones in appends."""

from __future__ import annotations

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
