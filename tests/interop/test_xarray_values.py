"""Dates and packed numbers of xarray read back unchanged, or the call is refused."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extarray as xa

xr = pytest.importorskip("xarray", minversion="2025.1")
cftime = pytest.importorskip("cftime")
pytest.importorskip("dask.array")

import extarray.interop.xarray  # noqa: E402

DAYS = "days since 2000-01-01"
HALVES = {"dtype": "u1", "scale_factor": 0.5, "_FillValue": 255}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "folder"


@pytest.fixture(params=["folder", "array", "dask"])
def write(request, tmp_path):
    """Return a writer of a variable "v" along "x", to a folder or an array, and its reader."""

    class Written:
        path = tmp_path / "written"

        def __call__(self, values, **options):
            array = xr.DataArray(values, dims="x", name="v")
            if request.param == "dask":
                array = array.chunk(x=1)
            if request.param == "array":
                array.extarray.to_extarray(self.path, **options)
            else:
                array.to_dataset().extarray.to_extarray(self.path, **options)

        def read(self):
            with xr.open_dataset(self.path, engine="extarray") as ds:
                return ds["v" if "v" in ds else "written"].values

    return Written()


def dates(*texts, unit="ns"):
    return np.array(texts, f"M8[{unit}]")


def timed(labels, values=None, **attrs):
    values = np.arange(len(labels)) if values is None else values
    return xr.Dataset({"v": ("time", values, attrs)}, {"time": labels})


def times_in(folder, **options):
    with xr.open_dataset(folder, engine="extarray", **options) as ds:
        return ds.time.values


def refused(call, *words):
    """Check that a call raises an error of the family whose message has these words."""
    with pytest.raises(xa.ExtArrayError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


# -- times ---------------------------------------------------------------------------------------


def test_dates_of_a_finer_unit_are_refused_until_the_unit_is_finer(folder):
    """The message names the place, both values and the remedy."""
    first, more = timed(dates("2000-01-01")), timed(dates("2000-01-02", "2000-01-02T06"))
    first.extarray.to_extarray(folder, encoding={"time": {"units": DAYS}})
    refused(
        lambda: more.extarray.to_extarray(folder, append_dim="time"),
        "'time'",
        DAYS,
        "2000-01-02T06:00:00.000000000 at index (1,) would become 2000-01-02T00:00:00.000000000",
        "encoding={'time': {'units': 'seconds since ...'",
    )
    assert times_in(folder).tolist() == dates("2000-01-01").tolist()
    with xr.open_dataset(folder, engine="extarray") as ds:
        time = ds[["time"]].load()
    units = {"units": "seconds since 2000-01-01", "dtype": "int64"}
    time.extarray.to_extarray(folder, mode="a", encoding={"time": units})
    more.extarray.to_extarray(folder, append_dim="time")
    assert times_in(folder).tolist() == dates("2000-01-01", *more.time.values).tolist()


@pytest.mark.parametrize("side", ["end", "start"])
def test_the_stored_unit_wins_over_that_of_the_dataset(folder, side):
    """Datasets opened from files of single days have a unit each."""
    first, more = timed(dates("2000-01-03")), timed(dates("2000-01-02"))
    first.extarray.to_extarray(folder, encoding={"time": {"units": DAYS}})
    more.time.encoding = {"units": "hours since 2000-01-02", "dtype": "int32"}
    more.extarray.to_extarray(folder, append_dim="time", side=side)
    want = ["2000-01-03", "2000-01-02"][:: 1 if side == "end" else -1]
    assert times_in(folder).tolist() == dates(*want).tolist()
    with xa.open(folder / "time") as a:
        assert a[...].tolist() == [2, 1][:: 1 if side == "end" else -1]
        assert a.attrs["units"] == DAYS


@pytest.mark.parametrize("model", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_a_group_of_a_netcdf_file_takes_dates_of_other_files(tmp_path, folder, model):
    """netCDF4 reads the dates of the files as the oracle."""
    netcdf4 = pytest.importorskip("netCDF4")
    for day, units in (("1", "hours since 1900-01-01"), ("2", "hours since 2000-01-02")):
        timed(dates(f"2000-01-0{day}T06", f"2000-01-0{day}T12")).to_netcdf(
            tmp_path / day, format=model, encoding={"time": {"units": units, "dtype": "int32"}}
        )
    xa.from_netcdf(tmp_path / "1", path=folder).close()
    with xr.open_dataset(tmp_path / "2") as more:
        more.extarray.to_extarray(folder, append_dim="time")
    want = []
    for day in "12":
        with netcdf4.Dataset(tmp_path / day) as file:
            time = file["time"]
            want += netcdf4.num2date(time[:], time.units, only_use_cftime_datetimes=False).tolist()
    assert times_in(folder).astype("M8[us]").tolist() == want


def test_a_dataset_that_was_opened_without_decoding(tmp_path, folder):
    """The dataset's numbers have the unit in its attributes, not that of the stored array."""
    timed(dates("2000-01-01")).extarray.to_extarray(folder, encoding={"time": {"units": DAYS}})
    raw = timed(np.array([48]))
    raw.time.attrs["units"] = "hours since 2000-01-01"
    raw.extarray.to_extarray(folder, append_dim="time")
    assert times_in(folder).tolist() == dates("2000-01-01", "2000-01-03").tolist()
    refused(
        lambda: timed(np.array([5])).extarray.to_extarray(folder, append_dim="time"),
        "5 at index (0,) would become 2000-01-06",
        "give dates",
    )


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian", "standard"])
def test_dates_of_cftime(folder, calendar):
    def at(*days):
        return timed(
            [cftime.datetime(2000, 1, int(d), int(d % 1 * 24), calendar=calendar) for d in days]
        )

    at(1, 2).extarray.to_extarray(folder)
    at(4).extarray.to_extarray(folder, append_dim="time")
    refused(lambda: at(5.25).extarray.to_extarray(folder, append_dim="time"), "06:00:00")
    other = "all_leap" if calendar != "all_leap" else "noleap"
    more = timed([cftime.datetime(2000, 1, 5, calendar=other)])
    refused(lambda: more.extarray.to_extarray(folder, append_dim="time"), "'time'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # standard dates may decode to either type
        got = times_in(folder)
    if got.dtype.kind == "M":
        assert got.tolist() == dates("2000-01-01", "2000-01-02", "2000-01-04").tolist()
    else:
        assert got.tolist() == at(1, 2, 4).time.values.tolist()


def test_dates_beyond_nanoseconds_are_not_folded(folder):
    """Year 3000 must not become 2415 (2**64 ns earlier), with seconds stored or given."""
    timed(dates("2000-01-01")).extarray.to_extarray(folder)
    more = timed(dates("3000-01-01", unit="s"))
    refused(lambda: more.extarray.to_extarray(folder, append_dim="time"), "cannot be stored as")
    days = timed(dates("2000-01-01"))
    days.extarray.to_extarray(folder, mode="w", encoding={"time": {"units": DAYS}})
    more.extarray.to_extarray(folder, append_dim="time")
    with pytest.warns(xr.SerializationWarning):  # decodes to objects of cftime
        got = times_in(folder)
    assert [str(date) for date in got] == ["2000-01-01 00:00:00", "3000-01-01 00:00:00"]


@pytest.mark.parametrize(
    ("encoding", "last"),
    [
        ({"dtype": "i2", "units": "minutes since 2000-01-01"}, "2000-02-01"),
        ({"dtype": "i2", "units": DAYS}, "2100-01-01"),
        ({"dtype": "i4", "units": DAYS}, "NaT"),
        ({"dtype": "i2", "units": DAYS, "_FillValue": 7}, "2000-01-08"),
        ({"dtype": "f4", "units": DAYS}, "2000-01-01T00:00:01.5"),
    ],
)
def test_an_encoding_that_cannot_hold_the_times(write, encoding, last):
    """A refused first write leaves nothing, and a refused append leaves the array unchanged."""
    bad = dates("2000-01-02", last)
    if "_FillValue" not in encoding:
        refused(lambda: write(bad, encoding={"v": encoding}), "give another encoding={'v'")
        assert not list(write.path.parent.iterdir())
    write(dates("2000-01-02"), encoding={"v": encoding})
    refused(lambda: write(bad, append_dim="x"), "at index (1,)")
    assert write.read().tolist() == dates("2000-01-02").tolist()


def test_fractions_in_floating_point_units(write):
    encoding = {"v": {"dtype": "f8", "units": DAYS}}
    write(dates("2000-01-01T06", "NaT"), encoding=encoding)
    write(dates("2000-01-02T18", "NaT"), append_dim="x")
    third = dates("2024-05-01T00:00:00.123456789")  # lies between two floats
    refused(lambda: write(third, append_dim="x"), "would become")
    write(third, append_dim="x", casting="same_kind")
    got = write.read()
    np.testing.assert_array_equal(got[:4], dates("2000-01-01T06", "NaT", "2000-01-02T18", "NaT"))
    assert 0 < abs(got[4] - third[0]) < np.timedelta64(1, "us")


def test_what_a_unit_cannot_say_is_cut_if_it_is_asked_for(write):
    """Dates are rounded down to days, as by NumPy's cast."""
    encoding = {"v": {"units": DAYS, "_FillValue": -1, "dtype": "i4"}}
    write(dates("2000-01-01"), encoding=encoding)
    write(dates("2000-01-02T18", "1999-12-30T18", "NaT"), append_dim="x", casting="unsafe")
    want = dates("2000-01-01", "2000-01-02", "1999-12-30", "NaT")
    np.testing.assert_array_equal(write.read(), want)


def test_time_differences(folder):
    def lead(*hours):
        return timed(np.array(hours, "m8[h]").astype("m8[ns]"))

    lead(24).extarray.to_extarray(folder, encoding={"time": {"units": "days"}})
    lead(48).extarray.to_extarray(folder, append_dim="time")
    refused(lambda: lead(54).extarray.to_extarray(folder, append_dim="time"), "would become 172800")
    lead(48).assign(v=("time", [7])).extarray.to_extarray(folder, region="auto")
    with xr.open_dataset(folder, engine="extarray", decode_timedelta=True) as ds:
        assert ds.time.values.tolist() == lead(24, 48).time.values.tolist()
        assert ds.v.values.tolist() == [0, 7]


@pytest.mark.invariant("I13")
def test_bounds_of_times_have_the_unit_of_the_times(folder):
    """The CF conventions ask for no units of bounds."""

    def day(n):
        ds = timed(dates(f"2000-01-0{n}")).assign(
            b=(("time", "edge"), dates(f"2000-01-0{n}", f"2000-01-0{n + 1}").reshape(1, 2))
        )
        ds.time.attrs["bounds"] = "b"
        ds.time.encoding["units"] = "hours since 2000-01-01"
        return ds

    day(1).extarray.to_extarray(folder)
    with xa.open(folder / "b") as a:
        assert "units" not in a.attrs
    more = day(2)
    more.time.encoding["units"] = DAYS
    more.extarray.to_extarray(folder, append_dim="time")
    with xr.open_dataset(folder, engine="extarray") as ds:
        assert ds.b[1].values.tolist() == day(2).b[0].values.tolist()


@pytest.mark.parametrize("region", ["auto", {"time": slice(1, 2)}])
def test_regions_are_compared_before_they_are_written(folder, region):
    whole = timed(dates("2000-01-01", "2000-01-02"), [1.0, 2.0]).assign(
        a=("time", [1.0, 2.0]), t=("time", dates("2000-01-01", "2000-01-02"))
    )
    encoding = {"v": HALVES, "t": {"units": DAYS}}
    whole.extarray.to_extarray(folder, encoding=encoding)
    part = whole.isel(time=[1])
    (part.assign(v=part.v + 0.5)).extarray.to_extarray(folder, region=region)
    for bad in (
        part.assign(a=part.a + 7, v=part.v + 1000),
        part.assign(a=part.a + 7, t=part.t + np.timedelta64(1, "h")),
        part.assign(a=part.a + 7, v=part.v + 1000).chunk(time=1),
    ):
        refused(lambda bad=bad: bad.extarray.to_extarray(folder, region=region), "at index (0,)")
    with xr.open_dataset(folder, engine="extarray") as ds:
        assert (ds.v.values.tolist(), ds.a.values.tolist()) == ([1, 2.5], [1, 2])
        assert ds.t.values.tolist() == whole.t.values.tolist()


# -- packed numbers ------------------------------------------------------------------------------


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("casting", [None, "safe", "same_kind"])
@pytest.mark.parametrize("value", [1e6, -5.0, 127.5, np.inf, -0.3])
def test_packed_values_do_not_wrap(write, value, casting):
    """Stored as uint8, 127.5 would be 255, the missing value."""
    write(np.array([1.0, np.nan]), encoding={"v": HALVES})
    refused(
        lambda: write(np.array([2.0, value]), append_dim="x", casting=casting),
        f"{value} at index (1,) would become",
        "uint8 (",
        "scale_factor=0.5",
    )
    np.testing.assert_array_equal(write.read(), [1, np.nan])
    write(np.array([2.2, np.nan, 0]), append_dim="x", casting=casting)
    np.testing.assert_array_equal(write.read(), [1, np.nan, 2, np.nan, 0])


def test_packed_values_wrap_if_it_is_asked_for(write):
    write(np.array([1.0]), encoding={"v": HALVES})
    write(np.array([129.0, 2.0]), append_dim="x", casting="unsafe")
    assert write.read()[2] == 2


def test_integers_are_packed(write):
    encoding = {"dtype": "i2", "scale_factor": 2, "add_offset": 1, "_FillValue": -1}
    write(np.array([1, 5]), encoding={"v": encoding})
    write(np.array([7, 9], "i1"), append_dim="x")
    assert write.read().tolist() == [1, 5, 7, 9]


def test_no_value_stands_for_a_missing_one(write):
    encoding = {"v": {"dtype": "u1", "scale_factor": 0.5}}
    with pytest.warns(xr.SerializationWarning, match="without any _FillValue"):
        write(np.array([1.0]), encoding=encoding)
    refused(lambda: write(np.array([np.nan]), append_dim="x"), "nan at index (0,)")
    write(np.array([3]), append_dim="x")
    assert write.read().tolist() == [1, 3]
    shutil.rmtree(write.path) if write.path.is_dir() else None
    with pytest.warns(xr.SerializationWarning):
        refused(lambda: write(np.array([np.nan]), encoding=encoding, mode="w"), "nan at index (0,)")


def test_files_whose_packing_changes_from_day_to_day(tmp_path, folder):
    """Values stay within half a step of the stored packing, or are refused."""
    pytest.importorskip("netCDF4")
    rng = np.random.default_rng(0)
    days = []
    for day, (low, high) in enumerate([(270, 300), (275, 298), (250, 310)], 1):
        kelvin = rng.uniform(low, high, (1, 50))
        scale = (high - low) / 65000
        packing = {"dtype": "i2", "scale_factor": scale, "add_offset": (high + low) / 2}
        ds = xr.Dataset({"t": (("time", "x"), kelvin)}, {"time": dates(f"2000-01-0{day}")})
        ds.to_netcdf(tmp_path / f"{day}.nc", encoding={"t": {**packing, "_FillValue": -32767}})
        days.append(xr.open_dataset(tmp_path / f"{day}.nc"))
    days[0].extarray.to_extarray(folder)
    days[1].extarray.to_extarray(folder, append_dim="time")
    step = 30 / 65000
    refused(lambda: days[2].extarray.to_extarray(folder, append_dim="time"), "'t'", "scale_factor")
    with xr.open_dataset(folder, engine="extarray") as ds:
        want = np.concatenate([days[0].t.values, days[1].t.values])
        assert ds.t.shape == want.shape
        assert np.abs(ds.t.values - want).max() <= step * 0.501
    with xa.open(folder / "t") as a:
        assert a.dtype == "i2"
        assert a.attrs["scale_factor"] == step
    for ds in days:
        ds.close()


@pytest.mark.parametrize("fill", [None, np.uint8(255), np.int8(-1)])
def test_unsigned_values_in_signed_bytes(tmp_path, folder, fill):
    """Satellite files do this; netCDF4 reads the file as the oracle."""
    netcdf4 = pytest.importorskip("netCDF4")
    with netcdf4.Dataset(tmp_path / "u.nc", "w") as file:
        file.createDimension("x", 2)
        v = file.createVariable("v", "i1", ("x",), fill_value=None if fill is None else np.int8(-1))
        v.setncatts({"_Unsigned": "true", "scale_factor": np.float32(0.5)})
        v[:] = [10, 100]
    xa.from_netcdf(tmp_path / "u.nc", path=folder).close()
    more = xr.Dataset({"v": ("x", np.array([120.0, 64.0], "f4"))})
    more.extarray.to_extarray(folder, append_dim="x")
    with xr.open_dataset(folder, engine="extarray") as ds:
        assert ds.v.values.tolist() == [10, 100, 120, 64]
    with xa.open(folder / "v") as a:
        assert a[2:].tolist() == [240 - 256, 128 - 256]
    refused(lambda: (more * 2).extarray.to_extarray(folder, append_dim="x"), "240.0 at index (0,)")


def test_integers_that_a_float_rounds(write):
    write(np.array([1.0]))
    for casting in (None, "safe"):
        refused(
            lambda casting=casting: write(np.array([2**53 + 1]), append_dim="x", casting=casting),
            "9007199254740993 at index (0,) would become 9007199254740992.0",
        )
    write(np.array([2**53, -(2**63)]), append_dim="x")
    refused(lambda: write(np.array([2**63 - 1]), append_dim="x"), "cannot be stored as")
    refused(lambda: write(np.array([2**64 - 1], "u8"), append_dim="x"), "cannot be stored as")
    write(np.array([2**63], "u8"), append_dim="x")
    assert write.read().tolist() == [1, 2.0**53, -(2.0**63), 2.0**63]


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (np.array([1], "u8"), np.array([-1])),
        (np.array([1]), np.array([2**63], "u8")),
        (np.array(["a"]), np.array([1])),
        (np.array(["a"]), np.array([b"a"])),
        (np.array([b"a"]), np.array(["a"])),
        (np.array([1.0]), np.array(["a"])),
        (np.array([1]), dates("2000")),
        (dates("2000"), np.array([1])),
        (dates("2000"), np.array([1], "m8[ns]")),
        (np.array([True]), np.array([2])),
        (np.array([1j]), np.array([2**53 + 1])),
    ],
    ids=lambda x: f"{x.dtype}",
)
def test_values_of_another_kind(write, first, more):
    write(first)
    refused(lambda: write(more, append_dim="x"), "cannot write")
    assert write.read().tolist() == first.tolist()


def test_a_value_that_means_missing_is_refused(write):
    write(np.array([1.5, np.nan]), encoding={"v": {"_FillValue": -9.0}})
    refused(lambda: write(np.array([-9.0]), append_dim="x"), "-9.0 at index (0,) would become nan")
    refused(lambda: write(np.array([-9]), append_dim="x"), "-9 at index (0,) would become nan")
    write(np.array([np.nan, 3]), append_dim="x")
    np.testing.assert_array_equal(write.read(), [1.5, np.nan, np.nan, 3])


def test_whole_numbers_with_gaps(write):
    write(np.array([1.0, np.nan]), encoding={"v": {"dtype": "i2", "_FillValue": -1}})
    refused(lambda: write(np.array([1.5]), append_dim="x"), "1.5 at index (0,) would become 2.0")
    write(np.array([7, 8]), append_dim="x")
    write(np.array([np.nan, 9.0]), append_dim="x")
    np.testing.assert_array_equal(write.read(), [1, np.nan, 7, 8, np.nan, 9])


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ([1e300], {"dtype": "f4"}),
        ([1.5], {"dtype": "i4"}),
        ([2.0**40], {"dtype": "i4", "_FillValue": -1}),
        ([300], {"dtype": "u1"}),
        ([2**24 + 1], {"dtype": "f4"}),
        ([1000.0], {"dtype": "i1", "scale_factor": 0.1, "_FillValue": -128}),
    ],
)
@pytest.mark.filterwarnings("ignore:saving variable v with floating point data")
def test_a_first_write_whose_encoding_cannot_hold_the_values(write, values, encoding):
    refused(lambda: write(np.array(values), encoding={"v": encoding}), "encoding={'v': {...}}")
    assert not list(write.path.parent.iterdir())


def test_a_first_write_rounds_to_the_floats_that_are_asked_for(write):
    values = np.array([0.1, np.inf, np.nan])
    write(values, encoding={"v": {"dtype": "f4"}})
    np.testing.assert_array_equal(write.read(), values.astype("f4"))


@pytest.mark.parametrize("mode", ["w", "a"])
def test_what_is_replaced_stays_where_values_do_not_fit(folder, mode):
    """Variables that fit and come first are not replaced, either."""
    first = xr.Dataset({"a": ("x", [1.0]), "v": ("x", [1.0])})
    first.extarray.to_extarray(folder)
    names = sorted(path.name for path in folder.iterdir())
    bad = xr.Dataset({"a": ("x", [2.0]), "b": ("x", [2.0]), "v": ("x", [1e6])})
    refused(lambda: bad.extarray.to_extarray(folder, mode=mode, encoding={"v": HALVES}), "'v'")
    assert sorted(path.name for path in folder.iterdir()) == names
    with xr.open_dataset(folder, engine="extarray") as ds:
        xr.testing.assert_identical(ds.load(), first)


# -- labels and attributes -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "array"])
@pytest.mark.parametrize("units", [None, DAYS])
def test_a_label_is_appended_once(tmp_path, kind, units):
    """Appending a day twice is a mistake, unless ``verify_integrity=False``."""
    path = tmp_path / kind

    def write(*days, **options):
        ds = timed(dates(*days))
        (ds if kind == "folder" else ds.v).extarray.to_extarray(path, **options)

    write("2000-01-01", "2000-01-02", encoding=units and {"time": {"units": units}})
    again = ["2000-01-03", "2000-01-02"]
    for side in ("end", "start"):
        options = {"append_dim": "time", "side": side}
        refused(lambda options=options: write(*again, **options), "2000-01-02", "already exists")
        refused(
            lambda options=options: write("2000-01-05", "2000-01-05", **options),
            "2000-01-05T00:00:00.000000000 is given twice",
            "verify_integrity=False",
        )
    write(*again, append_dim="time", verify_integrity=False)
    with xr.open_dataset(path, engine="extarray") as ds:
        days = [str(day)[:10] for day in ds.time.values]
    assert days == ["2000-01-01", "2000-01-02", "2000-01-03", "2000-01-02"]
    refused(lambda: write("2000-01-09", mode="w", verify_integrity=False), "requires append_dim")


def test_labels_that_are_missing_are_no_repetition(folder):
    timed(np.array([1.0, np.nan])).extarray.to_extarray(folder)
    timed(np.array([np.nan, 2.0, np.nan])).extarray.to_extarray(folder, append_dim="time")
    np.testing.assert_array_equal(times_in(folder), [1, np.nan, np.nan, 2, np.nan])
    refused(lambda: timed([1]).extarray.to_extarray(folder, append_dim="time"), "label 1 ")


@pytest.mark.parametrize("kind", ["folder", "array"])
@pytest.mark.parametrize(
    ("key", "stored", "new"),
    [
        ("units", "mm/day", "kg m-2 s-1"),
        ("positive", "up", "down"),
        ("flag_values", np.array([0, 1]), np.array([1, 0])),
        ("flag_meanings", "land sea", "sea land"),
    ],
)
def test_attributes_that_give_numbers_another_meaning(tmp_path, kind, key, stored, new):
    path = tmp_path / kind

    def write(day, attrs, **options):
        ds = timed(dates(day), [1.0], **attrs)
        (ds if kind == "folder" else ds.v).extarray.to_extarray(path, **options)

    write("2000-01-01", {key: stored, "history": "a"})
    write("2000-01-02", {key: stored, "history": "b"}, append_dim="time")
    write("2000-01-03", {}, append_dim="time")
    for options in ({"append_dim": "time"}, {"region": "auto"}):
        day = "2000-01-02" if "region" in options else "2000-01-04"
        with pytest.raises(xa.ArgumentError, match=f"{key!r}.*combine_attrs='override'"):
            write(day, {key: new}, **options)
        write(day, {key: new}, **options, combine_attrs="override")
    with xa.open(path / "v" if kind == "folder" else path) as a:
        assert len(a) == 4
        np.testing.assert_array_equal(a.attrs[key], stored)
        assert a.attrs["history"] == "a"
    refused(
        lambda: write("2000-01-09", {}, mode="w", combine_attrs="override"), "requires append_dim"
    )
    refused(lambda: write("2000-01-09", {}, append_dim="time", combine_attrs="drop"), "override")


# -- random values -------------------------------------------------------------------------------

UNITS = {
    "days": "D",
    "hours": "h",
    "minutes": "m",
    "seconds": "s",
    "milliseconds": "ms",
    "microseconds": "us",
}
FIRST = np.datetime64("1999-12-30", "ns")


@st.composite
def pieces(draw):
    """Draw values of one kind in pieces, an encoding of the first, and its resolution."""
    kind = draw(st.sampled_from(["M8", "m8", "cftime", "packed", "whole", "float"]))
    dtype = draw(st.sampled_from(["u1", "i2", "i4", "i8", "f4", "f8"]))
    lengths = draw(st.lists(st.integers(1, 3), min_size=2, max_size=3))
    # Draw whole numbers of a unit, which is often the encoding's.
    unit = draw(st.sampled_from([*UNITS]))
    numbers = draw(
        st.lists(st.integers(-40, 400), min_size=sum(lengths), max_size=sum(lengths), unique=True)
    )
    missing = draw(st.sets(st.integers(0, sum(lengths) - 1), max_size=1))
    encoding = {"dtype": dtype}
    if draw(st.booleans()):
        encoding["_FillValue"] = np.dtype(dtype).type(draw(st.integers(0, 100)))
    step = 0.0
    if kind in ("M8", "m8", "cftime"):
        encoding["units"] = draw(st.sampled_from([*UNITS]))
        if kind != "m8":
            encoding["units"] += " since " + draw(st.sampled_from(["1999-12-30", "2000-01-01T12"]))
        values = np.array(numbers).astype(f"m8[{UNITS[unit]}]")
        values = values.astype("m8[ns]")
        if kind == "cftime":
            calendar = draw(st.sampled_from(["noleap", "360_day", "julian"]))
            begin = cftime.datetime(1999, 12, 30, calendar=calendar)
            values = np.array(
                [begin + dt.timedelta(microseconds=int(v) // 1000) for v in values.view("i8")]
            )
            missing = set()
        else:
            values = values + FIRST if kind == "M8" else values
            values[list(missing)] = "NaT"
    else:
        values = np.array(numbers) * draw(st.sampled_from([1.0, 0.5, 0.1, 1e4]))
        if kind == "packed":
            step = draw(st.sampled_from([0.1, 0.5, 3.0]))
            encoding |= {"scale_factor": step, "add_offset": draw(st.sampled_from([0.0, 100.0]))}
        if kind == "whole":
            values = np.array(numbers) * draw(st.sampled_from([1, 2**40 + 1]))
        else:
            values[list(missing)] = np.nan
        if kind == "float" and dtype == "f4":
            values = values.astype("f4")
    cuts = np.cumsum(lengths)[:-1]
    return kind, np.split(values, cuts), encoding, step


def as_read(kind, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xr.open_dataset(path, engine="extarray", decode_timedelta=kind == "m8") as ds:
            return ds.v.values


def agree(got, want, step):
    if want.dtype.kind in "mMO":
        return got.shape == want.shape and np.array_equal(
            got.astype(want.dtype), want, equal_nan=want.dtype.kind != "O"
        )
    return got.shape == want.shape and np.allclose(
        got.astype("f8"), want.astype("f8"), rtol=1e-6 if step else 0, atol=step / 2, equal_nan=True
    )


@pytest.mark.invariant("I13")
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(pieces(), st.booleans(), st.sampled_from(["end", "start"]), st.booleans())
def test_pieces_read_as_they_were_given_or_are_refused(case, is_array, side, late):
    """`numpy.concatenate` of the accepted pieces is the oracle."""
    kind, parts, encoding, step = case
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(temporary, "v")
        taken = None
        for part in parts:
            array = xr.DataArray(part, dims="x", name="v")
            array = array.chunk(x=2) if late and part.dtype.kind != "O" else array
            new = array if is_array else array.to_dataset()
            try:
                if taken is None:
                    new.extarray.to_extarray(path, encoding={"v": encoding})
                    taken = part
                else:
                    new.extarray.to_extarray(path, append_dim="x", side=side)
                    taken = np.concatenate([part, taken] if side == "start" else [taken, part])
            except xa.ExtArrayError:
                assert taken is not None or not list(Path(temporary).iterdir())
            if taken is not None:
                assert agree(as_read(kind, path), taken, step), (as_read(kind, path), taken)
