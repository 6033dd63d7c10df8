"""Datasets and trees replace others, or join others, in one step, while others use them."""

from __future__ import annotations

import os

import numpy as np
import preload
import pytest
from systems import IS_POSIX, needs_exchange, needs_replaced_open_files, replaces_open_files

import extarray as xa
from extarray.maintenance import group_files

xr = pytest.importorskip("xarray")
import extarray.interop.xarray  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "weather"


def weather(first, **attrs):
    return xr.Dataset(
        {"wind": ("t", first + np.arange(3.0)), "rain": ("t", first * np.ones(3))},
        {"t": first + np.arange(3)},
        {"first": first, **attrs},
    )


def found(folder):
    with xr.open_dataset(folder, engine="extarray") as dataset:
        return dataset.load()


@pytest.fixture
def watched(shim, tmp_path, scratch):
    """Return the environment of a process whose file calls in one folder are watched."""
    return preload.environment(shim, scratch, tmp_path / "control")


JOBS = ["dataset, replaced", "dataset, with others", "dataset, added to", "tree, replaced"]


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("kind", ["kills", "faults"])
def test_each_call_to_the_system_is_the_last_or_fails(script, watched, kind, job):
    for name in ("h5py", "netCDF4", "scipy", "zarr"):
        pytest.importorskip(name)
    code = "import replacing, sys; replacing.main(sys.argv[1:])"
    assert int(script(code, kind, job, env=watched, timeout=280).split()[-2]) > 100


@needs_exchange
@pytest.mark.parametrize("mode", ["w", "a"])
def test_all_variables_change_at_once(folder, mode, monkeypatch):
    """A reader finds one whole dataset at any moment, never parts of two."""
    weather(0).extarray.to_extarray(folder)
    seen = []
    swap = group_files.exchange

    def look(*names):
        seen.append(found(folder))
        done = swap(*names)
        seen.append(found(folder))
        return done

    monkeypatch.setattr(group_files, "exchange", look)
    weather(50).extarray.to_extarray(folder, mode=mode)
    assert len(seen) == 2
    xr.testing.assert_identical(seen[0], weather(0))
    xr.testing.assert_identical(seen[1], weather(50))
    assert os.listdir(folder.parent) == [folder.name]


def test_a_new_dataset_has_its_name_when_it_is_complete(folder):
    dask = pytest.importorskip("dask.array")

    def look(block):
        assert not folder.exists()
        return block

    lazy = dask.zeros(3, chunks=1).map_blocks(look, dtype="f8", meta=np.empty(0))
    weather(0).assign(snow=("t", lazy)).extarray.to_extarray(folder)
    assert set(found(folder).data_vars) == {"wind", "rain", "snow"}


@pytest.mark.parametrize("mode", ["w", "a"])
def test_what_else_is_in_the_folder_stays(folder, mode):
    """Other files, groups and links keep their inodes: those who have them open notice nothing."""
    weather(0).extarray.to_extarray(folder)
    weather(1).extarray.to_extarray(folder / "north")
    (folder / "notes.txt").write_text("hello")
    (folder / "plots").mkdir()
    (folder / "plots" / "a.png").write_bytes(b"png")
    before = (folder / "notes.txt").stat().st_ino
    if IS_POSIX:
        (folder / "latest").symlink_to("notes.txt")
        (folder / "plots").chmod(0o750)
        folder.chmod(0o770)
    with xa.open(folder / "north" / "wind", "r+") as wind:
        weather(50).drop_vars("rain").extarray.to_extarray(folder, mode=mode)
        wind[0] = 99
        wind.append([7.0])
    expected = weather(50) if mode == "w" else weather(50).assign(rain=weather(0).rain.variable)
    xr.testing.assert_identical(found(folder), expected.drop_vars("rain" if mode == "w" else []))
    with xa.open(folder / "north" / "wind") as wind:
        assert wind[...].tolist() == [99, 2, 3, 7]
    assert (folder / "notes.txt").stat().st_ino == before
    assert (folder / "notes.txt").stat().st_nlink == 1
    assert (folder / "plots" / "a.png").read_bytes() == b"png"
    if IS_POSIX:
        assert os.readlink(folder / "latest") == "notes.txt"
        assert (folder / "plots").stat().st_mode & 0o777 == 0o750
        assert folder.stat().st_mode & 0o777 == 0o770
    if not replaces_open_files():  # a removed file that is open keeps a folder, up to the next call
        weather(50).extarray.to_extarray(folder, mode=mode)
    assert os.listdir(folder.parent) == [folder.name]


@pytest.mark.process
@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_a_killed_call_leaves_is_removed_by_the_next(folder, monkeypatch, moment):
    """Links to foreign files in the folder go, too, but files that others put there stay."""
    weather(0).extarray.to_extarray(folder)
    (folder / "plots").mkdir()
    (folder / "plots" / "a.png").write_bytes(b"png")
    swap = group_files.exchange

    def killed(*names):
        if moment == "after":
            swap(*names)
        os._exit(9)

    for _ in range(2):
        pid = os.fork()
        if not pid:
            monkeypatch.setattr(group_files, "exchange", killed)
            weather(50).extarray.to_extarray(folder, mode="a")
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
        assert len(list(folder.parent.iterdir())) == 2
    (left,) = group_files.left_folders(os.fspath(folder))
    note = os.path.join(left, "plots", "note.txt")
    with open(note, "w") as file:
        file.write("mine")
    assert group_files.remove_left_folders([left]) == []
    os.unlink(note)
    weather(70).extarray.to_extarray(folder, mode="a")
    xr.testing.assert_identical(found(folder), weather(70))
    assert (folder / "plots" / "a.png").read_bytes() == b"png"
    assert os.listdir(folder.parent) == [folder.name]


@needs_replaced_open_files
def test_what_others_make_meanwhile_stays(folder, monkeypatch):
    """Files made while the two folders change places are kept."""
    weather(0).extarray.to_extarray(folder)
    weather(1).extarray.to_extarray(folder / "north")
    swap = group_files.exchange

    def interrupted(*names):
        xa.from_array([1, 2], folder / "mine").close()
        xa.from_array([3, 4], folder / "north" / "mine").close()
        xa.from_array([5, 6], folder / "north" / "wind", overwrite=True).close()
        weather(2).extarray.to_extarray(folder / "south")
        return swap(*names)

    monkeypatch.setattr(group_files, "exchange", interrupted)
    weather(50).extarray.to_extarray(folder, mode="w")
    monkeypatch.undo()
    with xa.open_group(folder) as group:
        names = {name for name, item in group.walk() if isinstance(item, xa.ExtArray)}
        assert names == {
            *("wind", "rain", "t", "mine"),
            *(f"north/{name}" for name in ("wind", "rain", "t", "mine")),
            *(f"south/{name}" for name in ("wind", "rain", "t")),
        }
        assert group["mine"][...].tolist() == [1, 2]
        assert group["north/mine"][...].tolist() == [3, 4]
        assert group["north/wind"][...].tolist() == [5, 6]
    xr.testing.assert_identical(found(folder)[["wind", "rain"]], weather(50))


def in_place(how, folder, monkeypatch):
    if how == "at work in it":
        monkeypatch.chdir(folder)
    elif how == "no links":

        def refuse(*names):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(group_files, "link", refuse)
    elif how == "a folder that stays":
        monkeypatch.setattr(os, "access", lambda *args, **options: False)


@pytest.mark.parametrize("how", ["at work in it", "no links", "a folder that stays"])
def test_a_folder_that_keeps_its_place(folder, how, monkeypatch):
    weather(0).extarray.to_extarray(folder)
    (folder / "notes.txt").write_text("hello")
    inode = folder.stat().st_ino
    in_place(how, folder, monkeypatch)
    weather(50).drop_vars("rain").extarray.to_extarray(folder, mode="w")
    xr.testing.assert_identical(found(folder), weather(50).drop_vars("rain"))
    weather(70)[["rain"]].extarray.to_extarray(folder, mode="a")
    assert found(folder).rain.values.tolist() == [70] * 3 and found(folder).first == 70
    assert folder.stat().st_ino == inode
    assert sorted(os.listdir(folder)) == sorted(
        [
            "dataset.json",
            "notes.txt",
            *(f"{n}.{e}" for n in ["rain", "t", "wind"] for e in ("xmd", "xta")),
        ]
    )
    assert os.listdir(folder.parent) == [folder.name]


@needs_replaced_open_files
@pytest.mark.parametrize("mode", ["w", "a"])
def test_arrays_that_somebody_writes_to_are_not_replaced(folder, mode, forked):
    weather(0).extarray.to_extarray(folder)
    child = forked.start(
        "import extarray as xa, sys\n"
        "with xa.open(sys.argv[1], 'r+') as a:\n"
        "    print('open', flush=True); input(); a.append([9.0])\n"
        "print('closed', flush=True)",
        folder / "rain",
    )
    with child:
        assert child.stdout.readline() == "open\n"
        with pytest.raises(xa.LockedError):
            weather(50).extarray.to_extarray(folder, mode=mode)
        xr.testing.assert_identical(found(folder), weather(0))
        if mode == "a":  # somebody may write to arrays that stay
            weather(0).drop_vars("rain").extarray.to_extarray(folder, mode="a")
        assert os.listdir(folder.parent) == [folder.name]
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "closed\n"
    with xa.open(folder / "rain") as rain:
        assert rain[...].tolist() == [0, 0, 0, 9]


@pytest.mark.parametrize("what", ["dataset", "tree"])
def test_a_group_that_is_open_elsewhere(folder, what):
    """Open writers block the call; open readers keep the old arrays, and find the new ones."""

    def write(first):
        if what == "tree":
            xr.DataTree(weather(first)).extarray.to_extarray(folder, mode="w")
        else:
            weather(first).extarray.to_extarray(folder, mode="w")

    write(0)
    with xa.open_group(folder, "r+") as group:
        group["wind"][0] = 5
        with pytest.raises(xa.LockedError):
            write(50)
        assert group["wind"][...].tolist() == [5, 1, 2]
    with xa.open_group(folder) as group:
        wind = group["wind"]
        write(50)
        assert wind[...].tolist() == [5, 1, 2]
        del wind
        assert group["wind"][...].tolist() == [50, 51, 52]


@pytest.mark.parametrize("mode", ["w", "a"])
def test_tasks_write_later_to_arrays_that_have_moved(folder, mode):
    dask = pytest.importorskip("dask.array")
    weather(0).extarray.to_extarray(folder)
    lazy = weather(50).assign(wind=("t", dask.arange(3.0, chunks=1)))
    later = lazy.extarray.to_extarray(folder, mode=mode, compute=False)
    assert found(folder).rain.values.tolist() == [50] * 3
    assert np.isnan(found(folder).wind.values).all()
    later.compute()
    xr.testing.assert_identical(found(folder), lazy.compute())


def test_a_replacement_that_fails_leaves_the_old_dataset(folder):
    dask = pytest.importorskip("dask.array")
    weather(0).extarray.to_extarray(folder)

    def fail(block):
        raise RuntimeError("no more")

    bad = dask.zeros(3).map_blocks(fail, dtype="f8", meta=np.empty(0))
    for mode in ("w", "a"):
        with pytest.raises(RuntimeError, match="no more"):
            weather(50).assign(zzz=("t", bad)).extarray.to_extarray(folder, mode=mode)
        xr.testing.assert_identical(found(folder), weather(0))
    assert os.listdir(folder.parent) == [folder.name]
