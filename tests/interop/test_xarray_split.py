"""Recordings whose frames are several axes, as xarray sees them."""

from __future__ import annotations

import pickle
from importlib.util import find_spec

import numpy as np
import pytest

import extarray as xa

xr = pytest.importorskip("xarray")

import extarray.interop.xarray  # noqa: E402

SPLIT = {"frame": {"t": -1, "c": 3, "z": 5}}


def frames(n):
    return np.arange(1, n * 24 + 1, dtype="u2").reshape(n, 4, 6)


def padded(x, fill=0):
    late = -len(x) % 15
    whole = np.concatenate([x, np.full((late, *x.shape[1:]), fill, x.dtype)])
    return whole.reshape(-1, 3, 5, *x.shape[1:])


@pytest.fixture
def recording(path):
    coords = {
        "channel": {"dims": ["c"], "data": ["red", "green", "blue"]},
        "exposure": {"dims": ["frame"], "data": np.arange(40.0)},
        "number": {"dims": ["frame"], "data": np.arange(40)},
        "x": np.arange(6) / 2,
        "t": np.arange(100) * 10.0,
        "z": [1, 2],
    }
    with xa.create(
        path, (0, 4, 6), "u2", dims=("frame", "y", "x"), split=SPLIT, attrs={"coords": coords}
    ) as a:
        a.append(frames(40))
        yield a


def test_a_recording_has_five_dimensions(recording):
    x = padded(frames(40))
    recording.flush()
    with pytest.warns(UserWarning, match="'z' has 2 values for 5 elements"):
        ds = xr.open_dataset(recording.path, engine="extarray")
    with ds:
        v = ds["scene"]
        assert v.dims == ("t", "c", "z", "y", "x")
        assert "split" not in v.attrs
        assert v.encoding["chunks"] == (1, 1, 1, 4, 6)
        np.testing.assert_array_equal(v[1, 1, 1].values, x[1, 1, 1])
        np.testing.assert_array_equal(v[:, ::-1, [0, 4], 1].values, x[:, ::-1, [0, 4], 1])
        points = {"t": ("p", [0, 2]), "z": ("p", [1, 3]), "x": ("p", [5, 0])}
        np.testing.assert_array_equal(
            v.isel({d: xr.Variable(*i) for d, i in points.items()}).transpose("p", "c", "y"),
            x[[0, 2], :, [1, 3], :, [5, 0]],
        )
        assert pickle.loads(pickle.dumps(v)).identical(v)
        np.testing.assert_array_equal(v.values, x)
        np.testing.assert_array_equal(v.sel(t=10.0, x=1.5).channel, ["red", "green", "blue"])
        assert ds["exposure"].dims == ("t", "c", "z")
        np.testing.assert_array_equal(ds["exposure"], padded(np.arange(40.0), np.nan))
        np.testing.assert_array_equal(ds["number"], padded(np.arange(40.0), np.nan))
        assert "z" not in ds.coords
        assert ds.sizes == {"t": 3, "c": 3, "z": 5, "y": 4, "x": 6}
        chunked = v.chunk({}) if find_spec("dask") else v
        assert int(chunked.sum()) == int(x.astype("i8").sum())


def test_a_dataset_keeps_what_it_opened(recording):
    recording.attrs["coords"] = {}
    recording.flush()
    with xr.open_dataset(recording.path, engine="extarray") as ds:
        recording.append(frames(9))
        recording.append(np.ones((3, *recording.shape[1:]), "u2"), side="start")
        recording.flush()
        assert ds.sizes["t"] == 3
        np.testing.assert_array_equal(ds["scene"].values, padded(frames(40)))


def test_variables_of_a_folder_are_split_together(tmp_path):
    with xa.open_group(tmp_path / "run", "w") as g:
        a = g.create("movie", (0, 4, 6), "u2", dims=("frame", "y", "x"), split=SPLIT)
        times = g.create("exposure", (0,), "f4", dims=("frame",))
        a.append(frames(15))
        times.append(np.arange(15, dtype="f4"))
    with xr.open_dataset(tmp_path / "run", engine="extarray") as ds:
        assert ds["movie"].dims == ("t", "c", "z", "y", "x")
        np.testing.assert_array_equal(ds["exposure"].values, padded(np.arange(15, dtype="f4")))
        ds.load()
    with xa.open(tmp_path / "run" / "exposure", "r+") as times:
        times.attrs["split"] = {"frame": {"c": 3, "t": -1}}
    with pytest.raises(xa.errors.ArgumentError, match="the same attribute 'split'"):
        xr.open_dataset(tmp_path / "run", engine="extarray")


def test_another_attribute_of_the_name_is_one_like_all_others(path):
    with xa.create(path, (2, 3), dims=("y", "x"), attrs={"split": "by hand"}):
        pass
    with xr.open_dataset(path, engine="extarray") as ds:
        assert ds["scene"].attrs == {"split": "by hand"}
        assert ds["scene"].dims == ("y", "x")


def test_labels_that_no_float_holds_are_left_out_beside_missing_ones(path):
    coords = {
        "large": {"dims": ["frame"], "data": [2**53 + 1] * 20},
        "small": {"dims": ["frame"], "data": [2**53] * 20},
    }
    dims, attrs = ("frame", "y", "x"), {"coords": coords}
    with xa.create(path, (0, 4, 6), "u2", dims=dims, split=SPLIT, attrs=attrs) as a:
        a.append(frames(20))
    with pytest.warns(UserWarning, match="'large' is left out: a float does not hold"):
        ds = xr.open_dataset(path, engine="extarray")
    with ds:
        assert [*ds.coords] == ["small"]
        assert ds["small"].count() == 20 and ds["small"].max() == 2**53


def test_appends_along_an_axis_of_a_split_name_the_way(path):
    coords = {
        "channel": {"dims": ["c"], "data": ["red", "green", "blue"]},
        "number": {"dims": ["frame"], "data": np.arange(45)},
    }
    dims, attrs = ("frame", "y", "x"), {"coords": coords}
    with xa.create(path, (0, 4, 6), "u2", dims=dims, split=SPLIT, attrs=attrs) as a:
        a.append(frames(45))
    with xr.open_dataset(path, engine="extarray") as ds:
        new = ds["scene"].isel(t=[0]).load()
    for update, way in (
        ({"append_dim": "t"}, "append_dim='frame'"),
        ({"region": {"t": slice(0, 1)}}, r"region=\{'frame': slice"),
    ):
        with pytest.raises(xa.ArgumentError, match=rf"stack\(frame=\['t', 'c', 'z'\].*{way}"):
            new.extarray.to_extarray(path, **update)
    flat = new.drop_vars("channel").stack(frame=["t", "c", "z"], create_index=False)
    flat.coords["number"] = flat.coords["number"] + 45
    flat.extarray.to_extarray(path, append_dim="frame")
    with xr.open_dataset(path, engine="extarray") as ds:
        np.testing.assert_array_equal(ds["scene"][3].values, new[0].values)
        np.testing.assert_array_equal(ds["number"].values.ravel(), np.arange(60))
        np.testing.assert_array_equal(ds["channel"].values, coords["channel"]["data"])


def test_appends_along_an_axis_of_a_split_in_a_folder(tmp_path):
    with xa.open_group(tmp_path / "run", "w") as g:
        g.create("movie", (15, 4, 6), "u2", dims=("frame", "y", "x"), split=SPLIT)
        g.create("exposure", (15,), "f4", dims=("frame",))
    with xr.open_dataset(tmp_path / "run", engine="extarray") as ds:
        new = ds.load()
    with pytest.raises(xa.ArgumentError, match="append_dim='frame'"):
        new.extarray.to_extarray(tmp_path / "run", append_dim="t")
    new = new.stack(frame=["t", "c", "z"], create_index=False)
    new.extarray.to_extarray(tmp_path / "run", append_dim="frame")
    with xr.open_dataset(tmp_path / "run", engine="extarray") as ds:
        assert ds.sizes == {"t": 2, "c": 3, "z": 5, "y": 4, "x": 6}
