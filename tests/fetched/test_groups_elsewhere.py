"""Groups on a web server: packed files, and folders that have an index."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import needs_obstore, served

import extarray as xa
from extarray.errors import CorruptError, FormatError, MissingError, ReadOnlyError, VariableError
from extarray.format.index import INDEX_NAME, decode_index, encode_index

pytestmark = needs_obstore

X = np.arange(24.0).reshape(4, 6)


@pytest.fixture
def folder(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["wind"] = X
        g["north/level"] = X[0]
        g.create_group("empty")
        g.attrs["title"] = "all"
        g["north"].attrs["title"] = "north"
        xa.pack(g, tmp_path / "g.xap")
    xa.index_group(tmp_path / "g")
    return tmp_path


@pytest.fixture
def web(folder):
    with served(folder) as server:
        yield server


@pytest.mark.parametrize("name", ["g", "g.xap"])
def test_a_group_is_read_like_any_other(web, name):
    with xa.open_group(web.url(name)) as g:
        assert len(web.requests) == 1
        assert list(g) == ["empty", "north", "wind"]
        assert "north/level" in g
        assert dict(g.attrs) == {"title": "all"}
        assert dict(g["north"].attrs) == {"title": "north"}
        assert g["north"].path.name == "north"
        np.testing.assert_array_equal(g["wind"], X)
        np.testing.assert_array_equal(g["north/level"], X[0])
        np.testing.assert_array_equal(g["north"]["level"], X[0])
        assert [key for key, _ in g.walk()] == ["empty", "north", "north/level", "wind"]
        assert "level  (6,)" in repr(g)
        with pytest.raises(VariableError):
            g["nothing"]
        for act in (
            lambda: g.create("x", 3),
            lambda: g.__delitem__("wind"),
            lambda: g.move("wind", "b"),
        ):
            with pytest.raises(ReadOnlyError):
                act()
        with pickle.loads(pickle.dumps(g)) as again:
            np.testing.assert_array_equal(again["wind"], X)


def test_members_have_urls(web):
    for name in ("g/wind", "g.xap/wind", "g.xap/north/level"):
        with xa.open(web.url(name)) as a:
            np.testing.assert_array_equal(a[...], X[0] if name.endswith("level") else X)
    with xa.open_group(web.url("g.xap/north")) as g:
        np.testing.assert_array_equal(g["level"], X[0])


def test_a_packed_group_of_many_arrays_is_listed_by_one_request(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        for n in range(20):
            g[f"a{n}"] = np.full((100, 100), n, "i4")
        xa.pack(g, tmp_path / "g.xap")
    with served(tmp_path) as web, xa.open_group(web.url("g.xap")) as g:
        assert len(g) == 20
        assert len(web.requests) == 1
        assert int(g["a3"][99, 99]) == 3
        assert len(web.requests) <= 3


def test_groups_on_the_disk_keep_their_index(folder):
    with xa.open_group(folder / "g", "r+") as g:
        g.create("rain", 3)
        g["north/new"] = X
        g.move("wind", "air/wind")
        del g["north/level"]
        g.create_group("south")
        g["south"].attrs["n"] = 1
    with xa.open_group(folder / "g/north", "r+") as g:
        g.create("deep/er", 3)
    found = decode_index((folder / "g" / INDEX_NAME).read_bytes())
    assert sorted(found.arrays) == ["air/wind", "north/deep/er", "north/new", "rain"]
    assert set(found.groups) == {"", "empty", "north", "north/deep", "air", "south"}
    assert json.loads(found.groups["south"])["attrs"] == {"n": 1}


def test_datasets_of_xarray_keep_it(folder):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("extarray.interop.xarray")
    ds = xr.Dataset({"t": (("x",), np.arange(3.0))})
    ds.extarray.to_extarray(folder / "g", mode="w")
    found = decode_index((folder / "g" / INDEX_NAME).read_bytes())
    with xa.open_group(folder / "g") as g:
        assert sorted(found.arrays) == sorted(key for key, a in g.walk() if hasattr(a, "shape"))


def test_an_index_may_be_outdated_or_damaged_or_missing(web, folder):
    name = folder / "g" / INDEX_NAME
    with xa.open_group(web.url("g")) as g:
        for suffix in (".xmd", ".xta"):
            os.unlink(folder / f"g/wind{suffix}")
        with pytest.raises(MissingError, match="the index is outdated"):
            g["wind"]
        np.testing.assert_array_equal(g["north/level"], X[0])
    text = name.read_text()
    name.write_text(text.replace("level", "lovel"))
    with pytest.raises(CorruptError, match="damaged"):
        xa.open_group(web.url("g"))
    name.write_text(text[:50])
    with pytest.raises(FormatError, match=INDEX_NAME):
        xa.open_group(web.url("g"))
    name.unlink()
    with pytest.raises(MissingError, match="index_group"):
        xa.open_group(web.url("g"))
    with pytest.raises(ReadOnlyError, match="copy it to a file"):
        xa.open_group(web.url("g"), "r+")
    with pytest.raises(MissingError):
        xa.index_group(folder / "nothing")


@given(st.binary(max_size=40), st.integers(0, 300))
def test_hostile_indexes_are_refused(junk, at):
    whole = encode_index(["a", "b/c"], {"": None, "b": b'{"attrs": {}}'})
    data = whole[:at] + junk + whole[at + len(junk) :]
    try:
        found = decode_index(data)
    except FormatError:
        return
    assert sorted(found.arrays) == ["a", "b/c"]


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/a", "", "a\\b", "a//b", ".."])
def test_names_stay_in_the_group(name):
    with pytest.raises(FormatError):
        decode_index(encode_index([name], {"": None}))
    if name:
        with pytest.raises(FormatError):
            decode_index(encode_index([], {name: None}))
