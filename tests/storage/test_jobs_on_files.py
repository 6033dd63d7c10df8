"""Jobs on files: kept permissions, irreplaceable targets, concurrent jobs, left-overs.

`tests/storage/test_faults.py` kills the jobs at each call.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest
from systems import (
    IS_ROOT,
    needs_links,
    needs_locks_of_makers,
    needs_modes,
    needs_replaced_open_files,
)

import extarray as xa
from extarray.common import system
from extarray.maintenance.group_files import left_folders, making_folder, remove_left_folders
from extarray.storage import filesystem, lock, names

OLD = np.arange(12, dtype="i4").reshape(3, 4)
NEW = OLD[:2] * 10
OTHER = 4321
as_root = pytest.mark.skipif(not IS_ROOT, reason="gives files to another user")


def make(path, values=OLD):
    with xa.create(path, values.shape, values.dtype, chunks=2) as array:
        array[...] = values


def packed(path, values):
    """Make a packed file with an array that exists nowhere else."""
    make(path.with_name("source"), values)
    with xa.open(path.with_name("source")) as array:
        xa.pack(array, path, progress=False)
    for suffix in (".xmd", ".xta"):
        path.with_name(f"source{suffix}").unlink()
    return path


def elements(path):
    with xa.open(path) as array:
        return array[...]


def create(folder):
    xa.from_array(NEW, folder / "a", overwrite=True).close()


def add_axis(folder):
    with xa.open(folder / "a", "r+") as array:
        array.add_axis()


def rechunk(folder):
    xa.rechunk(folder / "a", chunks=(3, 1), in_place=True, progress=False).close()


def unpack(folder):
    xa.unpack(folder / "new.xap", folder / "a", overwrite=True, progress=False)


def pack(folder):
    xa.pack(xa.from_array(NEW), folder / "a.xap", overwrite=True, progress=False)


def set_attrs(folder):
    with xa.open_group(folder, "r+") as group:
        group.attrs["title"] = "new"


def to_dataset(folder):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("extarray.interop.xarray")  # adds the method to datasets
    xarray.Dataset(attrs={"title": "new"}).extarray.to_extarray(folder, mode="a")


def dataset(mode, values=NEW):
    def to_group(folder):
        xarray = pytest.importorskip("xarray")
        pytest.importorskip("extarray.interop.xarray")
        new = xarray.Dataset({"a": (("y", "x"), values)}, attrs={"title": "new"})
        new.extarray.to_extarray(folder / "set", mode=mode)

    return to_group


def group_over(folder):
    """Import a whole file over a group."""
    pytest.importorskip("h5py")
    xa.to_hdf5(xa.from_array(NEW), folder / "new.h5", "a", overwrite=True, progress=False)
    xa.from_hdf5(folder / "new.h5", path=folder / "set", overwrite=True, progress=False).close()
    (folder / "new.h5").unlink()


def export(call, name, *part, values=NEW, overwrite=True):
    def to_file(folder):
        pytest.importorskip(NEEDS.get(call, "numpy"))
        getattr(xa, call)(
            xa.from_array(values), folder / name, *part, overwrite=overwrite, progress=False
        )

    return to_file


def write_back(folder):
    pytest.importorskip("h5py")
    mapped = xa.map_hdf5(folder / "a.h5", "x")
    mapped[0] = 77
    mapped.write_back()


def save_group(call, name):
    def to_file(folder):
        pytest.importorskip(NEEDS[call])
        with xa.open_group(folder / "inner", "w-") as group:
            group["x"] = NEW
            getattr(xa, call)(group, folder / name, overwrite=True, progress=False)

    return to_file


NEEDS = {
    "to_geotiff": "rasterio",
    "to_tiff": "tifffile",
    "to_hdf5": "h5py",
    "to_netcdf": "netCDF4",
    "to_mat": "scipy",
    "to_fits": "astropy",
}
# Files of other formats, and the name of an array in them.
FILES = {
    "to_npz": ("a.npz", "x"),
    "to_hdf5": ("a.h5", "x"),
    "to_netcdf": ("a.nc", "x"),
    "to_mat": ("a.mat", "x"),
    "to_fits": ("a.fits", "x"),
}
PAIR = ("a.xmd", "a.xta")
SET = ("set/a.xmd", "set/a.xta", "set/dataset.json")
JOBS = {
    "create": (create, PAIR),
    "add an axis": (add_axis, ("a.xmd",)),
    "rechunk in place": (rechunk, PAIR),
    "unpack": (unpack, PAIR),
    "pack": (pack, ("a.xap",)),
    "attributes": (set_attrs, ("dataset.json",)),
    "attributes of a dataset": (to_dataset, ("dataset.json",)),
    "dataset, replaced": (dataset("w"), SET),
    "dataset, with others": (dataset("a", OLD * 10), SET),
    "group, imported": (group_over, ("set/a.xmd", "set/a.xta")),
    "to_npy": (export("to_npy", "a.npy"), ("a.npy",)),
    "to_geotiff": (export("to_geotiff", "a.tif"), ("a.tif",)),
    "to_tiff": (export("to_tiff", "a.tif"), ("a.tif",)),
    "to_envi": (export("to_envi", "a.hdr"), ("a.hdr", "a.img")),
    **{call: (export(call, *file), file[:1]) for call, file in FILES.items()},
    "to_npz, one more": (export("to_npz", "a.npz", "y"), ("a.npz",)),
    "to_hdf5, one more": (export("to_hdf5", "a.h5", "y"), ("a.h5",)),
    "to_netcdf, one more": (export("to_netcdf", "a.nc", "y"), ("a.nc",)),
    "to_mat, one more": (export("to_mat", "a.mat", "y"), ("a.mat",)),
    "to_fits, one more": (export("to_fits", "a.fits", "y"), ("a.fits",)),
    "to_hdf5, a group": (save_group("to_hdf5", "a.h5"), ("a.h5",)),
    "to_netcdf, a group": (save_group("to_netcdf", "a.nc"), ("a.nc",)),
    "write_back": (write_back, ("a.h5",)),
}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the targets that the jobs replace."""
    folder = tmp_path / "folder"
    folder.mkdir()
    packed(folder / "new.xap", NEW)
    make(folder / "a")
    xa.pack(xa.from_array(OLD), folder / "a.xap", progress=False)
    with xa.open_group(folder, "r+") as group:
        group.attrs["title"] = "old"
    for call, name in (("to_npy", "a.npy"), ("to_envi", "a.hdr")):
        getattr(xa, call)(xa.from_array(OLD), folder / name, progress=False)
    return folder


@pytest.fixture(params=JOBS)
def job(request, folder):
    """Return a job in the folder, and the files that it replaces."""
    call, replaced = JOBS[request.param]
    if replaced == SET[: len(replaced)]:
        dataset("w-", OLD)(folder)
    elif not (folder / replaced[0]).exists():
        first = "to_hdf5" if call is write_back else request.param.partition(",")[0]
        file = FILES.get(first, replaced)
        export(first, *file, values=OLD, overwrite=False)(folder)
    return call, [folder / name for name in replaced]


# -- permissions -----------------------------------------------------------------------------------


@needs_modes
@pytest.mark.invariant("I14")
def test_what_replaces_a_file_keeps_its_permissions(job, folder):
    call, replaced = job
    for file in replaced:
        if IS_ROOT:
            os.chown(file, OTHER, OTHER + 1)
        os.chmod(file, 0o640)
        tell_of_attributes(file)
    before = [(os.stat(file), attributes(file)) for file in replaced]
    call(folder)
    for file, (about, own) in zip(replaced, before, strict=True):
        now = file.stat()
        assert now.st_ino != about.st_ino, "it was written to, and not replaced"
        assert stat.S_IMODE(now.st_mode) == 0o640
        assert (now.st_uid, now.st_gid) == (about.st_uid, about.st_gid)
        assert attributes(file) == own


def tell_of_attributes(file):
    try:
        os.setxattr(file, "user.note", b"mine")
        # ACL version 2: the owner reads and writes, another user reads, all others have no access.
        entries = [(0x01, 6, -1), (0x02, 4, 99), (0x04, 4, -1), (0x10, 4, -1), (0x20, 0, -1)]
        rows = np.array(
            [(tag, may, who & 0xFFFFFFFF) for tag, may, who in entries], "<u2, <u2, <u4"
        )
        os.setxattr(file, "system.posix_acl_access", b"\2\0\0\0" + rows.tobytes())
    except (OSError, AttributeError):
        pass  # no such attributes on this system or file system


def attributes(file):
    if not hasattr(os, "listxattr"):
        return {}
    return {key: os.getxattr(file, key) for key in os.listxattr(file)}


def zarr_array(folder, values, name="z"):
    xa.to_zarr(xa.from_array(values), folder / name, overwrite=True, progress=False)


def group(folder, values, name="z"):
    with xa.open_group(folder / name, "w") as group:
        group["a"] = values


@pytest.mark.parametrize("make", [zarr_array, group])
def test_a_folder_that_replaces_another_keeps_its_permissions(tmp_path, make):
    if make is zarr_array:
        pytest.importorskip("zarr")
    make(tmp_path, OLD)
    if IS_ROOT:
        os.chown(tmp_path / "z", OTHER, OTHER)
    os.chmod(tmp_path / "z", 0o2750)
    before = os.stat(tmp_path / "z")
    make(tmp_path, NEW)
    now = os.stat(tmp_path / "z")
    assert now.st_ino != before.st_ino
    assert (now.st_mode, now.st_uid, now.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@needs_links
def test_a_link_to_a_zarr_store_stays_a_link(tmp_path):
    pytest.importorskip("zarr")
    zarr_array(tmp_path, OLD)
    (tmp_path / "z").rename(tmp_path / "store")
    (tmp_path / "z").symlink_to("store")
    zarr_array(tmp_path, NEW)
    assert (tmp_path / "z").is_symlink()
    assert (xa.from_zarr(tmp_path / "store", progress=False)[...] == NEW).all()
    assert sorted(os.listdir(tmp_path)) == ["store", "z"]


@as_root
def test_a_group_that_cannot_be_kept_gains_no_rights(folder, monkeypatch):
    """The new file's group gains no rights of the old file's group."""
    for name in PAIR:
        os.chown(folder / name, -1, OTHER)
        os.chmod(folder / name, 0o640)

    def refuse(fd, user, group):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refuse)
    create(folder)
    for name in PAIR:
        about = (folder / name).stat()
        assert (about.st_gid, stat.S_IMODE(about.st_mode)) == (os.getegid(), 0o600)


def test_passes_of_a_rechunk_in_place_are_as_private_as_the_array(folder):
    for name in PAIR:
        os.chmod(folder / name, 0o600)
    seen = set()

    def look(done, total):
        for file in folder.glob("a.rechunk-*"):
            seen.add(stat.S_IMODE(file.stat().st_mode))

    xa.rechunk(folder / "a", chunks=(3, 1), in_place=True, progress=look).close()
    assert seen == {0o600}


@needs_replaced_open_files
def test_what_moves_keeps_its_own_permissions(folder):
    """As `mv` does."""
    make(folder / "b", NEW)
    for name in PAIR:
        os.chmod(folder / name, 0o644)
        os.chmod(folder / name.replace("a", "b", 1), 0o600)
    command = [sys.executable, "-m", "extarray", "mv", folder / "b", folder / "a", "--overwrite"]
    subprocess.run(command, check=True, timeout=100)
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in PAIR} == {0o600}
    assert (elements(folder / "a") == NEW).all()


# -- irreplaceable targets -------------------------------------------------------------------------


def pipe(path):
    os.mkfifo(path)
    return stat.S_ISFIFO


def device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("makes a device")
    return stat.S_ISCHR


def inner_folder(path):
    path.mkdir()
    return stat.S_ISDIR


@pytest.mark.invariant("I14")
@pytest.mark.parametrize("kind", [pipe, device, inner_folder])
@pytest.mark.parametrize("linked", [False, pytest.param(True, marks=needs_links)])
@pytest.mark.parametrize(
    "name", ["create", "unpack", "pack", "to_npy", "to_geotiff", "to_tiff", "to_envi", *FILES]
)
def test_what_is_no_regular_file_is_refused(folder, name, kind, linked):
    call, replaced = JOBS[name]
    pytest.importorskip(NEEDS.get(name, "numpy"))
    place = folder / "odd"
    is_kind = kind(place)
    for file in replaced:
        (folder / file).unlink(missing_ok=True)
        if linked:
            (folder / file).symlink_to(place)
        else:
            kind(folder / file)
    before = sorted(os.listdir(folder))
    with pytest.raises(xa.errors.ExistsError, match="which a file cannot replace"):
        call(folder)
    assert is_kind(place.stat().st_mode)
    assert all(is_kind((folder / file).stat().st_mode) for file in replaced)
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("name", PAIR)
def test_a_move_replaces_nothing_but_a_file(folder, name):
    make(folder / "b", NEW)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused = pytest.raises(xa.errors.ExistsError, match="a pipe, which a file cannot replace")
    with xa.open(folder / "b", "r+") as b, refused:
        b._store.move(folder / "a", True)
    assert stat.S_ISFIFO((folder / name).stat().st_mode)
    assert (elements(folder / "b") == NEW).all()


@as_root
@pytest.mark.parametrize("name", ["create", "unpack", "pack", "to_npy", "to_envi", *FILES])
def test_links_of_others_are_not_followed_where_all_may_write(tmp_path, folder, name):
    call, replaced = JOBS[name]
    precious = tmp_path / "precious"
    if name in FILES:
        export(name, *FILES[name], values=OLD)(folder)
        (folder / replaced[0]).rename(precious)
        (folder / replaced[0]).touch()
    else:
        precious.write_bytes(b"mine")
    before = precious.read_bytes()
    os.chmod(folder, 0o1777)
    os.chown(folder, OTHER + 1, -1)
    for file in replaced:
        (folder / file).unlink()
        (folder / file).symlink_to(precious)
        os.lchown(folder / file, OTHER, OTHER)
    with pytest.raises(xa.errors.AccessError, match="link of another user"):
        call(folder)
    assert precious.read_bytes() == before
    os.chmod(folder, 0o755)  # no other user can have put it there
    for file in replaced:
        os.lchown(folder / file, os.geteuid(), -1)
    if name in ("pack", "to_npy", *FILES):
        call(folder)
        assert precious.read_bytes() != before
        assert (folder / replaced[0]).is_symlink()


FOLDERS = {
    "dataset, replaced": dataset("w"),
    "dataset, with others": dataset("a", OLD * 10),
    "group, imported": group_over,
    "group, emptied": lambda folder: group(folder, NEW, "set"),
    "to_zarr": lambda folder: zarr_array(folder, NEW, "set"),
}


@as_root
@pytest.mark.parametrize("name", FOLDERS)
def test_links_of_others_to_folders_are_not_followed_where_all_may_write(folder, name):
    if name == "to_zarr":
        pytest.importorskip("zarr")
        zarr_array(folder, OLD, "precious")
    else:
        dataset("w-", OLD)(folder)
        (folder / "set").rename(folder / "precious")
    os.mkdir(folder / "shared")
    os.chmod(folder / "shared", 0o1777)
    os.chown(folder / "shared", OTHER + 1, -1)
    (folder / "shared" / "set").symlink_to(folder / "precious")
    os.lchown(folder / "shared" / "set", OTHER, OTHER)
    before = {file: file.read_bytes() for file in (folder / "precious").rglob("*.*")}
    with pytest.raises(xa.errors.AccessError, match="link of another user"):
        FOLDERS[name](folder / "shared")
    assert {file: file.read_bytes() for file in (folder / "precious").rglob("*.*")} == before
    os.lchown(folder / "shared" / "set", os.geteuid(), -1)
    FOLDERS[name](folder / "shared")
    assert {file: file.read_bytes() for file in (folder / "precious").rglob("*.*")} != before


@needs_links
def test_attributes_are_not_written_through_a_link_out_of_the_group(tmp_path, folder):
    precious = tmp_path / "precious"
    precious.write_text('{"attrs": {}}')
    (folder / "dataset.json").unlink()
    (folder / "dataset.json").symlink_to(precious)
    with pytest.raises(xa.errors.ArgumentError, match="leads out of the group"):
        set_attrs(folder)
    assert precious.read_text() == '{"attrs": {}}'


# -- concurrent jobs -------------------------------------------------------------------------------


@pytest.mark.invariant("I14")
def test_of_two_that_unpack_to_one_path_one_succeeds(tmp_path):
    """The second runs entirely within the first, and removes nothing of it."""
    source = packed(tmp_path / "a.xap", OLD)
    others = []

    def in_between(done, total):
        if not others:
            others.append(1)
            xa.unpack(source, tmp_path / "b", progress=False)

    with pytest.raises(xa.errors.ExistsError):
        xa.unpack(source, tmp_path / "b", progress=in_between)
    assert sorted(os.listdir(tmp_path)) == ["a.xap", "b.xmd", "b.xta"]
    assert (elements(tmp_path / "b") == OLD).all()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
def test_many_unpack_to_one_path(tmp_path, overwrite):
    sources = [packed(tmp_path / "0.xap", OLD)]
    xa.unpack(sources[0], tmp_path / "b", progress=False)
    with xa.open(tmp_path / "b", "r+") as array:  # a later state of the same array
        array.resize(NEW.shape)
        array[...] = NEW
        xa.pack(array, tmp_path / "1.xap", progress=False)
    sources.append(tmp_path / "1.xap")
    for _ in range(20):
        if not overwrite:
            for suffix in (".xmd", ".xta"):
                (tmp_path / f"b{suffix}").unlink()
        ready, go = os.pipe()
        children = []
        for number in range(4):
            pid = os.fork()
            if not pid:
                os.close(go)
                os.read(ready, 1)
                try:
                    xa.unpack(
                        sources[number % 2], tmp_path / "b", overwrite=overwrite, progress=False
                    )
                    os._exit(0)
                except (xa.errors.ExistsError, xa.LockedError):
                    os._exit(3)
                except BaseException as error:
                    print(repr(error), file=sys.stderr, flush=True)
                    os._exit(1)
            children.append(pid)
        os.close(ready)
        os.close(go)
        ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        assert set(ended) <= {0, 3}
        assert ended.count(0) == 1 or (overwrite and 0 in ended)
        found = elements(tmp_path / "b")
        assert np.array_equal(found, OLD) or np.array_equal(found, NEW)
        assert sorted(os.listdir(tmp_path)) == ["0.xap", "1.xap", "b.xmd", "b.xta"]


def test_readers_see_the_old_array_while_a_copy_of_it_is_unpacked_over_it(tmp_path):
    """Array and copy share a uuid, so unfinished data could be taken for the old array's."""
    make(tmp_path / "a", NEW)
    with xa.open(tmp_path / "a", "r+") as array:
        xa.pack(array, tmp_path / "a.xap", progress=False)
        array.resize(OLD.shape)
        array[...] = OLD
    seen = []

    def look(done, total):
        seen.append(np.array_equal(elements(tmp_path / "a"), OLD))

    xa.unpack(tmp_path / "a.xap", tmp_path / "a", overwrite=True, progress=look)
    assert seen
    assert all(seen)
    assert (elements(tmp_path / "a") == NEW).all()


@pytest.mark.parametrize("checksum", [False, True])
def test_an_array_with_another_uuid_is_whole(tmp_path, checksum):
    with xa.create(tmp_path / "a", (3, 4), "i4", chunks=2, checksum=checksum) as array:
        array[...] = OLD
        array.attrs["title"] = "a"
        array.append(OLD)
    with xa.open(tmp_path / "a", "r+") as array:
        uuid = array._store.now.header.uuid
        array._store.renew_uuid()
        assert array._store.now.header.uuid != uuid
        assert (elements(tmp_path / "a") == np.vstack([OLD, OLD])).all()
    assert xa.check(tmp_path / "a", data=True).ok
    assert not [p for p in xa.check(tmp_path / "a").problems if p.severity != "note"]
    with xa.open(tmp_path / "a", "r+") as array:
        array.append(OLD)
        assert (array[...] == np.vstack([OLD] * 3)).all()
        assert array.attrs["title"] == "a"


def test_a_move_onto_a_name_that_is_taken_meanwhile_takes_nothing(tmp_path, monkeypatch):
    make(tmp_path / "a")
    plain = names.publish

    def publish(fresh, name, overwrite):
        if name == str(tmp_path / "b.xta"):
            (tmp_path / "b.xta").write_bytes(b"of another")
        plain(fresh, name, overwrite)

    monkeypatch.setattr(names, "publish", publish)
    with xa.open_group(tmp_path, "r+") as group, pytest.raises(FileExistsError):
        group.move("a", "b")
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta", "b.xta"]
    assert (tmp_path / "b.xta").read_bytes() == b"of another"
    assert (elements(tmp_path / "a") == OLD).all()


def test_a_move_is_refused_where_there_are_no_links(tmp_path, monkeypatch):
    def refuse(*names, **options):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    make(tmp_path / "a")
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "symlink", refuse)
    with xa.open_group(tmp_path, "r+") as group:
        with pytest.raises(xa.errors.StorageError, match="does not support hard links"):
            group.move("a", "b")
        assert (group["a"][...] == OLD).all()
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]


# -- left-overs ------------------------------------------------------------------------------------


@pytest.mark.process
def test_what_killed_creations_leave_is_removed_by_the_next(tmp_path):
    """Otherwise full copies would pile up until someone opens the array for writing."""
    make(tmp_path / "a")
    for _ in range(3):
        pid = os.fork()
        if not pid:
            names._next_looks.clear()  # as in a new process
            xa.from_array(np.ones((50, 50)), tmp_path / "a", overwrite=True, progress=kill)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        assert len(list(tmp_path.iterdir())) == 4
    assert (elements(tmp_path / "a") == OLD).all()
    names._next_looks.clear()
    make_over = xa.from_array(NEW, tmp_path / "a", overwrite=True)
    make_over.close()
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]


def kill(*told):
    os.kill(os.getpid(), signal.SIGKILL)


def check_folder(folder, *options):
    command = [sys.executable, "-m", "extarray", "check", folder, "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    return json.loads(done.stdout)


@pytest.mark.invariant("I14")
@needs_locks_of_makers
def test_check_finds_what_every_kind_of_job_has_left(tmp_path):
    make(tmp_path / "a")
    make(tmp_path / "b.rechunk-1")
    left = ["a.xmd.0123456789ab.new", "c.tif.0123456789ab.new", "dataset.json.0123456789ab.new"]
    for name in left:
        (tmp_path / name).write_bytes(b"rubbish")
    (tmp_path / ".d.zarr.0123456789ab.new").mkdir()
    (tmp_path / ".d.zarr.0123456789ab.new" / "zarr.json").write_bytes(b"{}")
    told = check_folder(tmp_path)
    found = {problem["file"] for report in told for problem in report["problems"]}
    everything = [*left, ".d.zarr.0123456789ab.new", "b.rechunk-1.xmd", "b.rechunk-1.xta"]
    assert found == {str(tmp_path / name) for name in everything}
    check_folder(tmp_path, "--repair")
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta", "b.rechunk-1.xmd", "b.rechunk-1.xta"]


@pytest.mark.invariant("I14")
@needs_locks_of_makers
def test_the_next_job_removes_what_is_nobodys_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "a.npy.0123456789ab.new").write_bytes(b"rubbish")
    (tmp_path / "a.npy.new").write_bytes(b"of a user")
    (tmp_path / "b.npy.0123456789ab.new").write_bytes(b"of another name")
    with names.making_file(str(tmp_path / "a.npy"), False) as file:  # a job in progress
        file.write(b"half", 0)
        names._next_looks.clear()
        xa.to_npy(xa.from_array(OLD), tmp_path / "a.npy", progress=False)
        assert sorted(os.listdir(tmp_path)) == sorted(
            ["a.npy", "a.npy.new", "b.npy.0123456789ab.new", os.path.basename(file.name)]
        )
        (tmp_path / "a.npy").unlink()
    assert (tmp_path / "a.npy").read_bytes() == b"half"


def test_others_may_replace_a_file_that_has_just_got_its_name(tmp_path, monkeypatch):
    """The file's maker still has it open and locked."""
    plain, told = names.publish, []

    def publish(fresh, name, overwrite):
        plain(fresh, name, overwrite)
        file = filesystem.File.open(name, os.O_RDWR)
        told.append((lock.is_held(file), lock.begin_replacing(file)))
        file.close()

    monkeypatch.setattr(names, "publish", publish)
    xa.to_npy(xa.from_array(OLD), tmp_path / "a.npy", progress=False)
    assert told == [(lock.can_tell() and system.WHOLE_LOCKS_APART, True)]


@pytest.mark.invariant("I14")
def test_data_that_an_array_needs_are_no_left_over(tmp_path):
    """Such data remain after a crash between naming the two files, however long ago."""
    make(tmp_path / "a")
    with xa.open(tmp_path / "a") as array:
        fresh = filesystem.fresh_name(f"{tmp_path / 'a'}.xta", array._store.now.header.uuid)
    os.replace(tmp_path / "a.xta", fresh)
    os.utime(fresh, (0, 0))
    assert names.remove_left_files([fresh]) == []
    (tmp_path / "a.xmd").rename(tmp_path / "b.xmd")
    shutil.copy(tmp_path / "b.xmd", tmp_path / "a.xmd")
    (tmp_path / "a.xmd").write_bytes(b"damaged")  # its owner is unknown until a repair
    assert names.remove_left_files([fresh]) == []
    (tmp_path / "b.xmd").replace(tmp_path / "a.xmd")
    assert (elements(tmp_path / "a") == OLD).all()


def test_folders_of_zarr_in_the_making_are_known_and_locked(tmp_path):
    with making_folder(str(tmp_path / "a.zarr")) as fresh:
        with open(os.path.join(fresh, "zarr.json"), "w") as file:
            file.write("{}")
        left = left_folders(folder=str(tmp_path))
        assert left == [fresh]
        assert remove_left_folders(left) == []
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("name", ["img", "hdr"])
def test_an_image_that_cannot_be_replaced_stays(folder, monkeypatch, name):
    plain = names.publish

    def publish(fresh, other, overwrite):
        if other.endswith(name):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        plain(fresh, other, overwrite)

    monkeypatch.setattr(names, "publish", publish)
    with pytest.raises(xa.errors.StorageError):
        xa.to_envi(xa.from_array(OLD.T * 10), folder / "a.hdr", overwrite=True, progress=False)
    assert not list(folder.glob("*.new"))
    if name == "img":
        assert (xa.from_envi(folder / "a.hdr", progress=False)[...][..., 0] == OLD).all()
    else:  # with the new elements, the old header would be wrong
        assert not (folder / "a.hdr").exists()
