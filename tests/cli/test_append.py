"""``extarray append`` into arrays with labels and packed numbers, against netCDF4."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import extarray as xa

pytest.importorskip("click")
netcdf4 = pytest.importorskip("netCDF4")

from extarray.cli import main  # noqa: E402

FIRST = ("2024-01-01", 0.01, 280.0)


def file_of(path, day, scale, offset, **units):
    """Write two times of a day, in hours since its beginning, and packed temperatures."""
    with netcdf4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        for name, dims, dtype in (
            ("time", ("time",), "i4"),
            ("x", ("x",), "f4"),
            ("t2m", ("time", "x"), "i2"),
            ("rain", ("time",), "f4"),
        ):
            fill = -32767 if name == "t2m" else None
            file.createVariable(name, dtype, dims, fill_value=fill)
        file["time"].units = f"hours since {day}"
        file["t2m"].setncatts({"scale_factor": scale, "add_offset": offset, "units": "K"})
        file["rain"].units = "mm"
        for name, unit in units.items():
            file[name].units = unit
        file["time"][:] = [0, 6]
        file["x"][:] = [1, 2, 3]
        file["t2m"][:] = np.ma.masked_equal([[281.5, 282, 283], [281, 280, 0]], 0)
        file["rain"][:] = [1, 2]
    return path


def said(path):
    """Return the dates and the temperatures that netCDF4 reads from a file."""
    with netcdf4.Dataset(path) as file:
        time = file["time"]
        dates = netcdf4.num2date(time[:], time.units, only_use_cftime_datetimes=False)
        return np.array(dates, "M8[ns]"), file["t2m"][:].filled(np.nan)


@pytest.fixture
def days(tmp_path):
    return [
        file_of(tmp_path / "1.nc", *FIRST),
        file_of(tmp_path / "2.nc", "2024-01-02", 0.02, 270.0),
    ]


@pytest.fixture
def group(days, tmp_path):
    xa.from_netcdf(days[0], path=tmp_path / "group").close()
    return tmp_path / "group"


def raw(group):
    with xa.open_group(group) as g:
        return {name: a[...].tolist() for name, a in g.arrays()}


def append(*words):
    return main(["append", *map(str, words)])


@pytest.mark.parametrize("side", ["end", "start"])
def test_all_that_shares_the_axis_grows(group, days, side):
    """Appended elements get the stored packing and the stored unit of dates."""
    xr = pytest.importorskip("xarray")
    assert append(group / "t2m", f"{days[1]}:/t2m", "--axis", "time", "--side", side) == 0
    want = [said(path) for path in days][:: 1 if side == "end" else -1]
    with xr.open_dataset(group, engine="extarray") as ds:
        np.testing.assert_array_equal(ds.time, np.concatenate([dates for dates, _ in want]))
        np.testing.assert_allclose(ds.t2m, np.concatenate([x for _, x in want]), atol=0.005)
        assert ds.rain.values.tolist() == [1, 2, 1, 2]
    with xa.open(group / "t2m") as a:
        assert (a.dtype, a.attrs["scale_factor"]) == ("i2", 0.01)


@pytest.mark.parametrize("is_group", [True, False])
def test_arrays_of_others_are_appended_as_files_are(group, days, tmp_path, is_group):
    """One of the target arrays keeps its labels in attributes."""
    xr = pytest.importorskip("xarray")
    more, target = tmp_path / "more", group / "t2m"
    if is_group:
        xa.from_netcdf(days[1], path=more).close()
        more = more / "t2m"
    else:
        target = tmp_path / "one" / "t2m"
        target.parent.mkdir()
        xa.from_netcdf(days[0], "t2m", path=target).close()
        xa.from_netcdf(days[1], "t2m", path=more).close()
    assert append(target, more, "--axis", "time") == 0
    with xr.open_dataset(group if is_group else target, engine="extarray") as ds:
        want = [said(path) for path in days]
        np.testing.assert_array_equal(ds.time, np.concatenate([dates for dates, _ in want]))
        np.testing.assert_allclose(ds.t2m, np.concatenate([x for _, x in want]), atol=0.005)


def test_without_xarray_what_is_stored_alike_grows(group, days, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    more = file_of(tmp_path / "more.nc", *FIRST)
    before = raw(group)
    assert append(group / "rain", f"{more}:/rain", "--axis", "time") == 0
    after = raw(group)
    for name in ("time", "t2m", "rain"):
        assert after[name] == 2 * before[name]
    assert after["x"] == before["x"]


REFUSED = {
    "a label that is there": (("2024-01-01", 0.01, 280.0), {}, "already exists"),
    "a packing that cannot hold it": (("2024-01-02", 1.0, 0.0), {}, None),
    "units": (("2024-01-02", 0.01, 280.0), {"rain": "inch"}, "'inch'"),
    "other arrays": (("2024-01-02", 0.01, 280.0), {}, "has no data for it"),
}


@pytest.mark.parametrize(("case", "units", "words"), REFUSED.values(), ids=REFUSED)
def test_what_differs_is_refused(group, tmp_path, capsys, case, units, words):
    pytest.importorskip("xarray")
    more = file_of(tmp_path / "more.nc", *case, **units)
    before = raw(group)
    if words is None:
        with netcdf4.Dataset(more, "a") as file:
            file["t2m"][0, 0] = 20_000
        words = "20000.0 at index (0, 0) would become"
    if words == "has no data for it":
        with netcdf4.Dataset(more, "a") as file:
            file.renameVariable("rain", "snow")
    assert append(group / "t2m", f"{more}:/t2m", "--axis", "time") != 0
    assert words in capsys.readouterr().err
    assert raw(group) == before


@pytest.mark.parametrize(
    ("case", "word"),
    [(("2024-01-02", 0.01, 280.0), "'units'"), (("2024-01-01", 0.02, 280.0), "'scale_factor'")],
)
def test_without_xarray_nothing_is_converted(group, tmp_path, capsys, monkeypatch, case, word):
    monkeypatch.setitem(sys.modules, "xarray", None)
    more = file_of(tmp_path / "more.nc", *case)
    before = raw(group)
    assert append(group / "t2m", f"{more}:/t2m", "--axis", "time") == 1
    message = capsys.readouterr().err
    assert word in message
    assert "pip install xarray" in message
    assert raw(group) == before


def test_without_xarray_labels_in_attributes_do_not_grow(days, tmp_path, capsys, monkeypatch):
    xa.from_netcdf(days[0], "t2m", path=tmp_path / "one").close()
    monkeypatch.setitem(sys.modules, "xarray", None)
    assert append(tmp_path / "one", f"{days[1]}:/t2m") == 1
    assert "labels ('time',)" in capsys.readouterr().err
    with xa.open(tmp_path / "one") as a:
        assert a.shape == (2, 3)


@pytest.mark.parametrize("has_xarray", [True, False])
def test_elements_alone_are_refused_where_others_have_the_axis(
    group, tmp_path, capsys, monkeypatch, has_xarray
):
    if has_xarray:
        pytest.importorskip("xarray")
    else:
        monkeypatch.setitem(sys.modules, "xarray", None)
    np.save(tmp_path / "x.npy", np.zeros((1, 3), "i2"))
    before = raw(group)
    assert append(group / "t2m", tmp_path / "x.npy", "--axis", "time") != 0
    assert "'rain' also has this axis" in capsys.readouterr().err
    assert raw(group) == before


def test_arrays_that_only_lie_in_one_folder_grow_alone(tmp_path):
    for name in "ab":
        xa.from_array(np.arange(3), tmp_path / name, dims=["time"]).close()
    np.save(tmp_path / "x.npy", [7])
    assert append(tmp_path / "a", tmp_path / "x.npy") == 0
    with xa.open(tmp_path / "a") as a, xa.open(tmp_path / "b") as b:
        assert (a[...].tolist(), b.shape) == ([0, 1, 2, 7], (3,))


def test_axes_are_put_in_order_by_their_names(tmp_path):
    """Axes are reordered even if the shapes agree without that."""
    pytest.importorskip("xarray")
    x = np.arange(4).reshape(2, 2)
    xa.from_array(x, tmp_path / "a", dims=["y", "x"]).close()
    xa.from_array(x, tmp_path / "b", dims=["x", "y"]).close()
    assert append(tmp_path / "a", tmp_path / "b") == 0
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a, np.concatenate([x, x.T]))
