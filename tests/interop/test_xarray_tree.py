"""Groups as xarray's trees: written, opened, packed, and refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

import extarray as xa
from extarray import errors

xr = pytest.importorskip("xarray")
import extarray.interop.xarray  # noqa: E402


@pytest.fixture
def tree():
    time = np.array(["2024-05-01", "2024-05-02"], "M8[ns]")
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"scale": ((), 2.5)}, {"time": time}, {"title": "masts"}),
            "/north": xr.Dataset({"wind": (("time", "x"), np.arange(6.0).reshape(2, 3))}),
            "/north/raw": xr.Dataset({"count": ("time", [1, 2])}, attrs={"unit": "1"}),
            "/empty": xr.Dataset(),
        }
    )


def test_a_tree_comes_back(tree, tmp_path):
    tree.extarray.to_extarray(tmp_path / "t")
    with xr.open_datatree(tmp_path / "t", engine="extarray") as found:
        assert found.identical(tree)
    with xr.open_datatree(tmp_path / "t", engine="extarray", group="north/raw") as found:
        assert found.identical(xr.DataTree(tree["north/raw"].to_dataset(inherit=False)))
    groups = xr.open_groups(tmp_path / "t", engine="extarray")
    assert sorted(groups) == ["/", "/empty", "/north", "/north/raw"]
    for dataset in groups.values():
        dataset.close()
    with xa.open_group(tmp_path / "t") as g:
        assert g["north/wind"].dims == ("time", "x")
        assert dict(g.attrs) == {"title": "masts"}


def test_a_packed_tree_is_opened_in_place(tree, tmp_path):
    tree.extarray.to_extarray(tmp_path / "t")
    with xa.open_group(tmp_path / "t") as g:
        xa.pack(g, tmp_path / "t.xap")
        xa.pack(g["north/wind"], tmp_path / "wind.xap")
    with xr.open_datatree(tmp_path / "t.xap") as found:
        assert found.identical(tree)
    with xr.open_dataset(tmp_path / "t.xap") as found:
        assert found.identical(tree.to_dataset())
    with xr.open_dataset(tmp_path / "t.xap" / "north", engine="extarray") as found:
        assert found.identical(tree["north"].to_dataset(inherit=False))
    with xr.open_dataset(tmp_path / "wind.xap") as found:
        assert np.array_equal(found.wind, tree["north/wind"])


def test_any_group_opens_as_a_tree(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["a/b"] = np.arange(3)
        g.create_group("c")
    with xr.open_datatree(tmp_path / "g", engine="extarray", chunks={}) as found:
        assert sorted(found.children) == ["a", "c"]
        assert found["a/b"].sum().compute() == 3
    with pytest.raises(errors.MissingError):
        xr.open_datatree(tmp_path / "none", engine="extarray")


def test_arrays_of_all_nodes_grow_together(tree, tmp_path):
    tree.extarray.to_extarray(tmp_path / "t", chunks={"time": 1, "x": 2})
    with xa.open_group(tmp_path / "t", "r+") as g:
        assert g["north/wind"].chunks == (1, 2)
        g.extend("time", 3)
    with xr.open_datatree(tmp_path / "t", engine="extarray") as found:
        assert {node.sizes["time"] for node in found.subtree if "time" in node.sizes} == {5}


def test_modes_and_options(tree, tmp_path):
    tree.extarray.to_extarray(tmp_path / "t", encoding={"/north": {"wind": {"dtype": "f4"}}})
    with xa.open_group(tmp_path / "t") as g:
        assert g["north/wind"].dtype == "f4"
    with pytest.raises(errors.ExistsError):
        tree.extarray.to_extarray(tmp_path / "t")
    smaller = xr.DataTree.from_dict({"/": xr.Dataset({"a": ("x", [1])})})
    smaller.extarray.to_extarray(tmp_path / "t", mode="w")
    with xr.open_datatree(tmp_path / "t", engine="extarray") as found:
        assert found.identical(smaller)
    for options in ({"mode": "a"}, {"encoding": {"/none": {}}}, {"chunks": {"none": 1}}):
        with pytest.raises(errors.ArgumentError):
            tree.extarray.to_extarray(tmp_path / "other", **options)
    assert os.listdir(tmp_path) == ["t"]


def test_what_fails_leaves_nothing(tree, tmp_path):
    tree["north"] = xr.DataTree(xr.Dataset({"bad": ("y", np.array([object()]))}))
    with pytest.raises((TypeError, ValueError)):
        tree.extarray.to_extarray(tmp_path / "t")
    hostile = xr.DataTree.from_dict({"/": xr.Dataset()})
    hostile.children = {"..": xr.DataTree(xr.Dataset({"a": ("x", [1])}))}
    with pytest.raises(errors.ArgumentError):
        hostile.extarray.to_extarray(tmp_path / "t")
    assert os.listdir(tmp_path) == []
