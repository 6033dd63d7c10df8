"""Appends at both ends, regions, and delayed writes, with xarray itself as the oracle."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

import extarray as xa

xr = pytest.importorskip("xarray", minversion="2025.1")
dask = pytest.importorskip("dask")
pytest.importorskip("dask.array")

import extarray.interop.xarray  # noqa: E402
from extarray.interop import xarray_tasks  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "folder"


def weather(first, n=2, scale=1.0):
    days = np.datetime64("2024-05-01", "ns") + np.arange(first, first + n) * np.timedelta64(1, "D")
    wind = np.arange(n * 3, dtype="f4").reshape(n, 3) * scale + 100 * first
    return xr.Dataset(
        {"wind": (("time", "x"), wind), "rain": ("time", np.arange(first, first + n))},
        {"time": days, "x": [10, 20, 30], "area": ("x", [1.0, 2.0, 3.0])},
    )


def stored(path):
    with xr.open_dataset(path, engine="extarray") as ds:
        return ds.load()


def joined(parts):
    options = {"data_vars": "minimal"} if isinstance(parts[0], xr.Dataset) else {}
    return xr.concat(parts, "time", coords="minimal", compat="override", **options)


def whole_or_wind(kind, ds):
    return ds if kind == "folder" else ds.wind


def shown(kind, path):
    return stored(path) if kind == "folder" else stored(path).wind


KINDS = pytest.mark.parametrize("kind", ["folder", "array"])
CHUNKED = pytest.mark.parametrize("chunked", [False, True])


def same(got, want):
    xr.testing.assert_equal(got, want)


# -- at the start --------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@KINDS
@CHUNKED
def test_appends_at_both_ends(kind, chunked, tmp_path):
    path = tmp_path / "path"
    parts = {day: whole_or_wind(kind, weather(day, n)) for day, n in ((0, 3), (3, 2), (5, 4))}
    if chunked:
        parts = {day: part.chunk(time=2) for day, part in parts.items()}
    parts[3].extarray.to_extarray(path, 2)
    parts[0].extarray.to_extarray(path, append_dim="time", side="start")
    parts[5].extarray.to_extarray(path, append_dim="time")
    want = joined([parts[0], parts[3], parts[5]])
    same(shown(kind, path), want)
    weather_before = whole_or_wind(kind, weather(-2))
    weather_before.extarray.to_extarray(path, append_dim="time", side="start")
    assert shown(kind, path).sizes["time"] == 11
    same(shown(kind, path).isel(time=slice(2, None)), want)


def test_a_start_that_did_not_end(folder):
    weather(3).extarray.to_extarray(folder)
    with xa.open(folder / "wind", "r+") as a:
        a.append(np.full((2, 3), 77, "f4"), side="start")
    for first, n in ((2, 1), (0, 2)):
        with pytest.warns(UserWarning, match="disagree"):
            weather(first, n).extarray.to_extarray(folder, append_dim="time", side="start")
    with xa.open(folder / "wind") as a:
        assert a[:, 0].tolist() == [0, 3, 200, 300, 303]
    same(
        stored(folder),
        joined([weather(0), weather(2, 1), weather(3)]),
    )


@KINDS
def test_a_start_that_fails_leaves_everything(kind, tmp_path):
    path = tmp_path / "path"
    whole_or_wind(kind, weather(3)).extarray.to_extarray(path)
    before = shown(kind, path)

    def fail(block):
        raise RuntimeError("no more")

    more = whole_or_wind(kind, weather(0).chunk(time=1))
    wind = weather(0).chunk(time=1).wind
    bad = wind.copy(data=wind.data.map_blocks(fail, dtype="f4", meta=np.empty((0, 0), "f4")))
    more = more.assign(wind=bad) if kind == "folder" else bad
    for side in ("start", "end"):
        with pytest.raises(RuntimeError, match="no more"):
            more.extarray.to_extarray(path, append_dim="time", side=side)
        xr.testing.assert_identical(shown(kind, path), before)


@pytest.mark.slow
@pytest.mark.process
def test_killed_in_the_midst_no_array_has_grown(folder, tmp_path):
    weather(0).extarray.to_extarray(folder)
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys\n"
        "import dask, dask.array as da, numpy as np, xarray as xr\n"
        "import extarray.interop.xarray\n"
        "def die(block):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "ds = xr.open_dataset(sys.argv[1], engine='extarray').load()\n"
        "bad = da.zeros((2, 3), dtype='f4').map_blocks(\n"
        "    die, dtype='f4', meta=np.empty((0, 0), 'f4'))\n"
        "days = {'end': 2, 'start': -2}[sys.argv[2]]\n"
        "ds['time'] = ds.time + np.timedelta64(days, 'D')\n"
        "ds['wind'] = ds.wind.copy(data=bad)\n"
        "ds.extarray.to_extarray(sys.argv[1], append_dim='time', side=sys.argv[2])\n"
    )
    before = stored(folder)
    for side in ("end", "start"):
        done = subprocess.run([sys.executable, program, folder, side], check=False)
        assert done.returncode == -9
        xr.testing.assert_identical(stored(folder), before)
        for path in folder.glob("*.xmd"):
            assert xa.check(path).ok


@pytest.mark.slow
@pytest.mark.process
def test_readers_never_see_one_variable_longer_than_another(folder, tmp_path):
    weather(0, 1).extarray.to_extarray(folder)
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "import extarray as xa\n"
        "names = ('wind', 'rain', 'time')\n"
        "arrays = [xa.open(f'{sys.argv[1]}/{name}') for name in names]\n"
        "print('ready', flush=True)\n"
        "seen = set()\n"
        "while max(seen, default=0) < 41:\n"
        "    xa.refresh(arrays)\n"
        "    extents = {a.shape[0] for a in arrays}\n"
        "    assert len(extents) == 1, extents\n"
        "    seen |= extents\n"
        "    n = extents.pop()\n"
        "    assert len(set(arrays[2][...].tolist())) == n\n"
    )
    with subprocess.Popen([sys.executable, program, folder], stdout=subprocess.PIPE) as reader:
        assert reader.stdout.readline() == b"ready\n"
        for n in range(1, 21):
            weather(n, 1).extarray.to_extarray(folder, append_dim="time")
            weather(-n, 1).extarray.to_extarray(folder, append_dim="time", side="start")
        assert reader.wait(60) == 0


# -- regions -------------------------------------------------------------------------------------


@KINDS
@CHUNKED
@pytest.mark.parametrize("asked", ["slices", "negative", "auto", "auto along one"])
def test_regions(kind, chunked, asked, tmp_path):
    path = tmp_path / "path"
    whole = weather(0, 6)
    whole_or_wind(kind, whole).extarray.to_extarray(path, 2)
    new = whole.isel(time=slice(2, 5), x=slice(1, 3)) + 50
    new = new.assign(rain=new.rain.isel())
    region = {
        "slices": {"time": slice(2, 5), "x": slice(1, 3)},
        "negative": {"time": slice(-4, -1), "x": slice(1, None)},
        "auto": "auto",
        "auto along one": {"time": "auto", "x": slice(1, 3)},
    }[asked]
    part = whole_or_wind(kind, new)
    part = part.chunk(time=2) if chunked else part
    part = part.transpose("x", "time")
    part.extarray.to_extarray(path, region=region)
    want = whole.copy(deep=True)
    want.wind[2:5, 1:3] = new.wind
    want.rain[2:5] = new.rain
    same(shown(kind, path), whole_or_wind(kind, want))


@pytest.mark.parametrize("region", ["auto", {"time": slice(1, 3)}, {"time": "auto"}])
def test_a_region_is_what_zarr_makes_of_it(region, folder, tmp_path):
    """xarray's own writer to zarr, with the same arguments, is the oracle."""
    pytest.importorskip("zarr")
    whole, new = weather(0, 5), weather(1, 2, scale=-7)[["wind", "rain"]].drop_vars(["area", "x"])
    whole.to_zarr(tmp_path / "zarr", consolidated=False, zarr_format=2)
    new.to_zarr(tmp_path / "zarr", region=region, consolidated=False)
    whole.extarray.to_extarray(folder)
    new.extarray.to_extarray(folder, region=region)
    with xr.open_zarr(tmp_path / "zarr", consolidated=False) as want:
        same(stored(folder), want.load())


def test_regions_behind_a_start_that_moved(folder):
    weather(2, 3).extarray.to_extarray(folder)
    weather(0).extarray.to_extarray(folder, append_dim="time", side="start")
    (weather(1, 2) * 2).extarray.to_extarray(folder, region={"time": slice(1, 3)})
    assert stored(folder).rain.values.tolist() == [0, 2, 4, 3, 4]


def test_a_region_has_coordinates_of_its_own(folder, path):
    ds = weather(0, 4)
    ds.extarray.to_extarray(folder)
    weather(10).extarray.to_extarray(folder, region={"time": slice(2, 4)})
    want = joined([weather(0), weather(10)])
    same(stored(folder), want)
    ds.wind.extarray.to_extarray(path)  # an array keeps coordinates as attributes
    with pytest.raises(xa.ArgumentError, match="'time' differs from the stored one"):
        weather(10).wind.extarray.to_extarray(path, region={"time": slice(2, 4)})
    weather(10).wind.drop_vars("time").extarray.to_extarray(path, region={"time": slice(2, 4)})
    with xa.open(path) as a:
        assert a[:, 0].tolist() == [0, 3, 1000, 1003]


def test_a_region_beside_a_writer(path):
    """A region takes no lock: one process extends while others fill."""
    weather(0, 2).wind.extarray.to_extarray(path)
    with xa.open(path, "r+") as a:
        weather(5, 1).wind.drop_vars("time").extarray.to_extarray(path, region={"time": slice(1)})
        assert a[:, 0].tolist() == [500, 3]


REFUSED = {
    "both": ({"region": "auto", "append_dim": "time"}, "either append_dim"),
    "mode": ({"region": "auto", "mode": "w"}, "mode cannot be combined with region"),
    "chunks": ({"region": "auto", "chunks": 2}, "chunks cannot be combined with region"),
    "timeout": ({"region": "auto", "timeout": 2}, "requires append_dim"),
    "side": ({"side": "start"}, "requires append_dim"),
    "no side": ({"append_dim": "time", "side": "middle"}, "side 'middle' is not valid"),
    "word": ({"region": "all"}, "region 'all' is not valid"),
    "no dict": ({"region": 3}, "region must be a dict"),
    "nothing": ({"region": {}}, "names no dimension"),
    "index": ({"region": {"time": 3}}, "must be a slice"),
    "step": ({"region": {"time": slice(0, 4, 2)}}, "has step 2"),
    "labels": ({"region": {"time": slice("a", "b")}}, "not of labels"),
    "dimension": ({"region": {"lon": slice(2)}}, "'lon', which is not a dimension"),
    "size": ({"region": {"time": slice(1)}}, "the region selects 1 of 4 elements along 'time'"),
    "beyond": ({"region": {"time": slice(3, 5)}}, "selects 1 of 4 elements along 'time'"),
    "later": ({"compute": "no"}, "compute"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
@KINDS
def test_options_that_are_not_possible(kind, options, words, tmp_path):
    path = tmp_path / "path"
    whole_or_wind(kind, weather(0, 4)).extarray.to_extarray(path)
    before = shown(kind, path)
    with pytest.raises((xa.ArgumentError, xa.ArgumentTypeError, xa.ShapeError), match=words):
        whole_or_wind(kind, weather(1)).extarray.to_extarray(path, **options)
    xr.testing.assert_identical(shown(kind, path), before)


CHANGED = {
    "a new variable": (lambda ds: ds.assign(snow=("time", [1, 2])), "cannot write 'snow'"),
    "labels": (lambda ds: ds.assign_coords(time=ds.time + np.timedelta64(1, "ns")), "no label"),
    "order": (lambda ds: ds.isel(time=[1, 0]), "not contiguous"),
    "no labels": (lambda ds: ds.drop_vars(["time", "x"]), "requires dimension coordinates"),
    "another": (lambda ds: ds.assign(area=ds.area + 1).drop_vars("x"), "'area' differs"),
    "dimensions": (lambda ds: ds.assign(rain=("x", [1, 2, 3])), "'rain'"),
    "values": (lambda ds: ds.assign(wind=ds.wind.astype("f8") + 1e-9), "without loss"),
}


@pytest.mark.parametrize(("change", "words"), CHANGED.values(), ids=CHANGED)
def test_regions_that_do_not_fit(change, words, folder):
    weather(0, 4).extarray.to_extarray(folder)
    before = stored(folder)
    with pytest.raises(xa.ExtArrayError, match=words):
        change(weather(1)).extarray.to_extarray(folder, region="auto")
    xr.testing.assert_identical(stored(folder), before)


def test_nothing_is_there(folder, path):
    with pytest.raises(FileNotFoundError, match="write a region of"):
        weather(0).extarray.to_extarray(folder, region="auto")
    with pytest.raises(FileNotFoundError, match="write a region of"):
        weather(0).wind.extarray.to_extarray(path, region="auto")


# -- delayed writes ------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@KINDS
@CHUNKED
def test_what_is_written_later(kind, chunked, tmp_path):
    """Files and bounds appear at once; the elements of dask's arrays come with `compute`."""
    path = tmp_path / "path"
    first, more, third = (whole_or_wind(kind, weather(day)) for day in (0, 2, 1))
    late = [ds.chunk(time=1) if chunked else ds for ds in (first, more, third)]

    delayed = late[0].extarray.to_extarray(path, compute=False)
    assert dask.is_dask_collection(delayed)
    got = shown(kind, path)
    assert got.sizes == first.sizes
    assert (got.time == first.time).all()
    if chunked and kind == "array":
        assert np.isnan(got).all()
    assert delayed.compute() is None
    same(shown(kind, path), first)

    delayed = late[1].extarray.to_extarray(path, append_dim="time", compute=False)
    assert shown(kind, path).sizes["time"] == 4
    delayed.compute()
    want = joined([first, more])
    same(shown(kind, path), want)

    before = whole_or_wind(kind, weather(-3, 3))
    delayed = before.chunk(time=2).extarray.to_extarray(
        path, append_dim="time", side="start", compute=False
    )
    late[2].extarray.to_extarray(path, region="auto", compute=False).compute()
    delayed.compute()
    want = joined([before, first, more])
    want = want.copy(deep=True)
    wind = want.wind if kind == "folder" else want
    wind[4:6] = weather(1).wind.values
    if kind == "folder":
        want.rain[4:6] = [1, 2]
    same(shown(kind, path), want)


def test_a_frame_that_regions_fill(folder):
    """As with zarr: make an array without elements, then fill it part by part."""
    whole = weather(0, 6)
    whole.chunk(time=2).extarray.to_extarray(folder, compute=False)
    for n in range(0, 6, 2):
        whole.isel(time=slice(n, n + 2)).extarray.to_extarray(folder, region="auto")
    same(stored(folder), whole)


def test_later_casts_are_looked_at_where_they_are_made(folder):
    weather(0).extarray.to_extarray(folder)
    bad = weather(2).chunk(time=1)
    bad["wind"] = bad.wind.astype("f8") + 1e-9
    delayed = bad.extarray.to_extarray(folder, append_dim="time", compute=False)
    with pytest.raises(xa.CastingError, match="without loss"):
        delayed.compute()
    assert stored(folder).wind[2:].isnull().all()  # labelled, but still to be written
    delayed = bad.extarray.to_extarray(folder, region="auto", compute=False, casting="same_kind")
    delayed.compute()
    assert np.allclose(stored(folder).wind[2:], bad.wind)


# -- on a cluster --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(shared_memory):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.Client(processes=True, **options) as client:
        yield client


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.filterwarnings("default")  # distributed warns
@KINDS
def test_workers_write(cluster, kind, tmp_path, monkeypatch):
    """The client extends and the workers fill: computed blocks do not come back to it."""
    path, notes = tmp_path / "path", tmp_path / "notes"
    notes.mkdir()

    def compute(block, folder, fail):  # pickled by value, as workers cannot import this module
        import os
        from pathlib import Path

        if fail:
            raise RuntimeError("no more")
        Path(folder, f"{os.getpid()}").touch()
        return block

    def noted(day, n=4, fail=False):
        ds = weather(day, n).chunk(time=1)
        wind = ds.wind.data.map_blocks(
            compute, str(notes), fail, dtype="f4", meta=np.empty((0, 0), "f4")
        )
        return whole_or_wind(kind, ds.assign(wind=(("time", "x"), wind)))

    def refuse(target, key, values):
        raise AssertionError("the client writes")

    monkeypatch.setattr(xarray_tasks._Target, "__setitem__", refuse)
    noted(0).extarray.to_extarray(path, 3)
    noted(4).extarray.to_extarray(path, append_dim="time")
    noted(-4).extarray.to_extarray(path, append_dim="time", side="start")
    want = whole_or_wind(kind, weather(-4, 4))
    parts = [want, *(whole_or_wind(kind, weather(n, 4)) for n in (0, 4))]
    want = joined(parts)
    same(shown(kind, path), want)
    for side in ("start", "end"):
        with pytest.raises(RuntimeError, match="no more"):
            noted(20, fail=True).extarray.to_extarray(path, append_dim="time", side=side)
        same(shown(kind, path), want)
    with pytest.raises(RuntimeError, match="no more"):
        noted(0, fail=True).extarray.to_extarray(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("new*"))
    noted(0).extarray.to_extarray(path, region="auto", compute=False).compute()
    noted(0).extarray.to_extarray(path, region="auto")
    same(shown(kind, path), want)
    with pytest.raises(RuntimeError, match="no more"):
        noted(0, fail=True).extarray.to_extarray(path, mode="w")
    same(shown(kind, path), want)
    others = set(os.listdir(tmp_path)), set(notes.iterdir())
    for note in notes.iterdir():
        note.unlink()
    noted(0).extarray.to_extarray(path, mode="w")
    same(shown(kind, path), want.isel(time=slice(4, 8)))
    assert (set(os.listdir(tmp_path)), set(notes.iterdir())) == others
    pids = {int(note.name) for note in notes.iterdir()}
    assert os.getpid() not in pids
    assert pids
    assert xa.check(path / "wind" if kind == "folder" else path).ok


@pytest.mark.parametrize("side", ["start", "end"])
def test_a_late_task_of_a_write_that_was_taken_back_writes_nothing(tmp_path, side):
    """The late task finds its elements gone, and writes to no others."""
    with xa.from_array(np.arange(6), tmp_path / "a", chunks=2) as a:
        a.extend(0, 3, side=side)
        key = (slice(1, 2),) if side == "start" else (slice(7, 8),)
        message = pickle.dumps(xarray_tasks._Target(a))
        a.shrink(0, 3, side=side)
        late = pickle.loads(message)
        with pytest.raises(xa.errors.BoundsError, match="rolled back"):
            late[key] = 22
        np.testing.assert_array_equal(a[...], np.arange(6))


def test_a_task_on_another_host_brings_what_it_wrote_to_the_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(xa.ExtArray, "flush", lambda a: flushed.append(a[...].tolist()))
    with xa.create(tmp_path / "a", 4, "i4") as a:
        data = pickle.dumps(xarray_tasks._Target(a))
        pickle.loads(data)[(slice(0, 1),)] = 1
        monkeypatch.setattr(xarray_tasks, "host_name", lambda: "elsewhere")
        pickle.loads(data)[(slice(1, 3),)] = 2
    assert flushed == [[1, 2, 2, 0]]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.filterwarnings("default")  # distributed warns
@pytest.mark.parametrize("side", ["start", "end"])
def test_a_late_task_does_not_write_into_the_next_attempt(cluster, tmp_path, side, monkeypatch):
    """The late task finds the elements of another append in its place."""
    path = tmp_path / "a"
    first = xr.DataArray(np.zeros((2, 3)), dims=("y", "x"))
    first.extarray.to_extarray(path, 2)
    messages, seen = [], []
    write_now = xarray_tasks._stored

    def noted(parts, compute):
        messages.append(pickle.dumps(xarray_tasks._Target(parts[0].array, parts[0].token)))
        with xa.open(path) as a:  # readers' view
            seen.append((a.shape, xarray_tasks.BEING_FILLED in a.attrs))
        with xr.open_dataarray(path) as shown:
            seen.append(shown.attrs)
        if len(messages) == 1:
            raise RuntimeError("no more")
        # The second attempt is under way now, in the place of the first one.
        for message, value in zip(messages, (22, 33), strict=True):
            key = (slice(0, 1) if side == "start" else slice(2, 3), slice(0, 3))
            refused = pytest.raises(xa.errors.ArgumentError, match="rolled back")
            with refused if value == 22 else nullcontext():
                pickle.loads(message)[key] = value
        with xa.open(path) as a:
            seen.append(a[key].tolist())
        return write_now(parts, compute)

    monkeypatch.setattr(xarray_tasks, "_stored", noted)
    more = (first + 1).chunk(y=1)
    with pytest.raises(RuntimeError, match="no more"):
        more.extarray.to_extarray(path, append_dim="y", side=side)
    with xa.open(path) as a:
        assert (a.shape, set(a.attrs)) == ((2, 3), {"dims", "_FillValue"})
    more.extarray.to_extarray(path, append_dim="y", side=side)
    assert seen == [((4, 3), True), {}, ((4, 3), True), {}, [[33.0] * 3]]
    with xa.open(path) as a:
        assert a[...].sum() == 6
        assert set(a.attrs) == {"dims", "_FillValue"}
        for message in messages:
            with pytest.raises(xa.errors.ArgumentError, match="has ended"):
                pickle.loads(message)[tuple(slice(0, n) for n in a.shape)] = 1
