"""Files of other formats change as a whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import os
import shutil

import numpy as np
import preload
import pytest
from systems import needs_blocks, needs_links, needs_replaced_open_files

import extarray as xa

h5py = pytest.importorskip("h5py")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.h5"


@pytest.fixture
def watched(shim, tmp_path, scratch):
    """Return the environment of a process whose files in a separate folder are watched."""
    return preload.environment(shim, scratch, tmp_path / "control")


JOBS = {
    # In parts: processes of a run take one each.
    "HDF5": ["HDF5, written back", "HDF5, resized"],
    "HDF5 anew": ["HDF5, made anew", "HDF5, overwritten"],
    "netCDF": ["netCDF, written back", "netCDF, grown"],
    "netCDF anew": ["netCDF, made anew", "netCDF, added"],
    "netCDF 3": ["netCDF 3, grown", "netCDF 3, added", "netCDF, overwritten"],
    "others": ["HDF5, added", "MATLAB 7.3, added", "MATLAB 7.3, overwritten", "npz, added"],
    "Zarr": ["MATLAB 5, overwritten", "Zarr, overwritten", "Zarr, added"],
}


@pytest.mark.slow
@pytest.mark.parametrize("which", JOBS)
@pytest.mark.parametrize("kind", ["kills", "faults"])
def test_each_call_to_the_system_is_the_last_or_fails(script, watched, kind, which):
    for name in ("netCDF4", "scipy", "xarray", "zarr"):
        pytest.importorskip(name)
    code = "import replacing, sys; replacing.main(sys.argv[1:])"
    found = script(code, kind, *JOBS[which], env=watched, timeout=280)
    assert int(found.split()[-2]) > 15 * len(JOBS[which])


# -- full disks ------------------------------------------------------------------------------------

FULL = """
import errno, os, sys
import fulldisk, h5py, numpy as np
import extarray as xa
folder, job, room = sys.argv[1], sys.argv[2], int(sys.argv[3])
fulldisk.mount(folder, 2**24)
path = f"{folder}/file.h5"
old = np.arange(40000.0).reshape(200, 200)
rng = np.random.default_rng(0)
# 4 MB, which nothing compresses.
big = xa.from_array(rng.random((1000, 500)), chunks=(100, 100), attrs={"unit": "mm"})
bare = xa.from_array(big[...])

def hdf5(path, **options):
    with h5py.File(path, "w") as f:
        f["keep"] = np.arange(1000)
        f.create_dataset("level", data=old, **options)
        f["level"].attrs["unit"] = "mm"

def hdf5_all(path):
    with h5py.File(path, "r") as f:
        assert f["keep"][...].tolist() == list(range(1000)) and f["level"].attrs["unit"] == "mm"
        assert sorted(f) == ["keep", "level"], sorted(f)
        return f["level"][...]

def netcdf(path, model="NETCDF4"):
    import netCDF4
    with netCDF4.Dataset(path, "w", format=model) as d:
        d.createDimension("t"), d.createDimension("x", 200)
        d.createVariable("keep", "i4", ("x",))[:] = 7
        d.createVariable("level", "f8", ("t", "x"))[:] = old

def netcdf_all(path):
    import netCDF4
    with netCDF4.Dataset(path) as d:
        assert (d["keep"][...] == 7).all() and set(d.variables) == {"keep", "level"}
        return np.asarray(d["level"][...])

def mat(path):
    xa.to_mat(xa.from_array(np.arange(1000)), path, "keep", version="7.3")
    xa.to_mat(xa.from_array(old), path, "level", version="7.3")

def mat_all(path):
    with h5py.File(path, "r") as f:
        assert sorted(f) == ["keep", "level"]
        return f["level"][...].T

def grown(m, axis=0):
    m.append(rng.random((2000, 200)), 0) if axis == 0 else m.append(rng.random((200, 2000)), 1)
    m[0] = 5
    return m.write_back

growing = {"maxshape": (None, None), "chunks": (50, 50), "compression": "gzip"}
MAKE, LOOK, CALL = {
    "HDF5, resized": (lambda: hdf5(path, **growing), hdf5_all,
                      lambda: grown(xa.map_hdf5(path, "level"), 1)),
    "HDF5, made anew": (lambda: hdf5(path), hdf5_all, lambda: grown(xa.map_hdf5(path, "level"))),
    "HDF5, overwritten": (lambda: hdf5(path), hdf5_all,
                          lambda: lambda: xa.to_hdf5(big, path, "level", overwrite=True)),
    "HDF5, compressed": (lambda: hdf5(path), hdf5_all, lambda: lambda: xa.to_hdf5(
                          big, path, "level", overwrite=True, compression="gzip")),
    "netCDF, grown": (lambda: netcdf(path), netcdf_all,
                      lambda: grown(xa.map_netcdf(path, "level"))),
    "netCDF, made anew": (lambda: netcdf(path), netcdf_all,
                          lambda: grown(xa.map_netcdf(path, "level"), 1)),
    "netCDF, added": (lambda: netcdf(path), netcdf_all,
                      lambda: lambda: xa.to_netcdf(big, path, "new", compression="zlib")),
    "netCDF 3, grown": (lambda: netcdf(path, "NETCDF3_CLASSIC"), netcdf_all,
                        lambda: grown(xa.map_netcdf(path, "level"))),
    "netCDF 3, added": (lambda: netcdf(path, "NETCDF3_CLASSIC"), netcdf_all,
                        lambda: lambda: xa.to_netcdf(big, path, "new")),
    "MATLAB 7.3, overwritten": (lambda: mat(path), mat_all,
                                lambda: lambda: xa.to_mat(bare, path, "level", overwrite=True)),
}[job]

MAKE()
assert np.array_equal(LOOK(path), old)
call = CALL()
left = os.statvfs(folder)
with open(f"{folder}/ballast", "wb") as ballast:
    ballast.write(bytes(max(0, left.f_bavail * left.f_frsize - room)))
for _ in range(2):
    try:
        call()
    except xa.StorageError as error:
        assert error.errno == errno.ENOSPC, repr(error)
        assert error.filename == path or path in str(error), repr(error)
        assert ".new" not in str(error), repr(error)
    else:
        raise AssertionError("the disk is full")
    assert np.array_equal(LOOK(path), old)
    assert sorted(os.listdir(folder)) == ["ballast", "file.h5"]
os.truncate(f"{folder}/ballast", 0)
call()
if "added" not in job:
    assert LOOK(path).size > old.size
assert sorted(os.listdir(folder)) == ["ballast", "file.h5"]
print("alive")
"""
FULL_JOBS = [
    "HDF5, resized",
    "HDF5, made anew",
    "HDF5, overwritten",
    "HDF5, compressed",
    "netCDF, grown",
    "netCDF, made anew",
    "netCDF, added",
    "netCDF 3, grown",
    "netCDF 3, added",
    "MATLAB 7.3, overwritten",
]


@pytest.mark.slow
@pytest.mark.parametrize("room", [4096, 400_000, 1_500_000])
@pytest.mark.parametrize("job", FULL_JOBS)
def test_a_full_disk_leaves_a_file_as_it_was(private_mount, script, tmp_path, job, room):
    if "netCDF" in job:
        pytest.importorskip("netCDF4")
    folder = tmp_path / "full"
    folder.mkdir()
    assert script(FULL, folder, job, room, prefix=private_mount).split()[-1] == "alive"


IN_PLACE = """
import errno, os, sys
import fulldisk, numpy as np
import extarray as xa
folder, kind, room = sys.argv[1], sys.argv[2], int(sys.argv[3])
fulldisk.mount(folder, 2**24)
path = f"{folder}/file"
old = np.arange(40000.0).reshape(200, 200)
new = np.random.default_rng(0).random((200, 2000))
if kind == "netCDF":
    import netCDF4
    f = netCDF4.Dataset(path, "w")
    f.createDimension("t"), f.createDimension("x", 200)
    f.createVariable("level", "f8", ("t", "x"))[:] = old
    f.sync()
    m = xa.map_netcdf(f, "level")
    m.append(new.T)
else:
    import h5py
    f = h5py.File(path, "w")
    f.create_dataset("level", data=old, maxshape=(None, None), chunks=(50, 50),
                     compression="gzip" if kind == "compressed" else None)
    f.flush()
    m = xa.map_hdf5(f, "level")
    m.append(new, 1)
def call():
    if kind == "export":
        xa.to_hdf5(xa.from_array(new), f, "level", overwrite=True)
    else:
        m.write_back()
left = os.statvfs(folder)
with open(f"{folder}/ballast", "wb") as ballast:
    ballast.write(bytes(max(0, left.f_bavail * left.f_frsize - room)))
try:
    call()
except xa.StorageError as error:
    assert error.errno == errno.ENOSPC, repr(error)
else:
    raise AssertionError("the disk is full")
assert np.array_equal(f["level"][...], old), f["level"].shape
if kind == "netCDF":
    f.sync()
else:
    f.flush()
    assert list(f) == ["level"], list(f)
os.truncate(f"{folder}/ballast", 0)
call()
assert f["level"][...].size == (new.size if kind == "export" else old.size + new.size)
before = os.stat(path)
f.close()
assert os.stat(path).st_blocks * 512 <= os.stat(path).st_size + 8192, os.stat(path)
print("alive")
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 300_000, 2_000_000])
@pytest.mark.parametrize("kind", ["plain", "compressed", "export", "netCDF"])
def test_a_full_disk_leaves_an_open_file_as_it_was(private_mount, script, tmp_path, kind, room):
    """The file changes in place, once all of the space has been found."""
    if kind == "netCDF":
        pytest.importorskip("netCDF4")
    folder = tmp_path / "full"
    folder.mkdir()
    assert script(IN_PLACE, folder, kind, room, prefix=private_mount).split()[-1] == "alive"


EXPORTS = """
import errno, os, sys
import fulldisk, numpy as np
import extarray as xa
folder, call, name, options = sys.argv[1], sys.argv[2], sys.argv[3], eval(sys.argv[4])
fulldisk.mount(folder, 2**22)
path = f"{folder}/{name}"
old = xa.from_array(np.arange(12, dtype="u1").reshape(1, 3, 4))
new = xa.from_array(np.random.default_rng(0).integers(0, 255, (3, 300, 300), "u1"))
def export(a):
    part = () if "b" in name else ("x",)
    getattr(xa, call)(a, path, *part, overwrite=True, progress=False, **options)
def content():
    return {n: open(f"{folder}/{n}", "rb").read() for n in os.listdir(folder) if n != "ballast"}
export(old)
before = content()
for room in (0, 4096, 120_000, 260_000, 268_000):
    left = os.statvfs(folder)
    with open(f"{folder}/ballast", "wb") as ballast:
        ballast.write(bytes(max(0, left.f_bavail * left.f_frsize - room)))
    try:
        export(new)
    except xa.StorageError as error:
        assert error.errno == errno.ENOSPC, repr(error)
        assert ".new" not in str(error), repr(error)
    else:
        raise AssertionError("the disk is full")
    assert content() == before
    os.unlink(f"{folder}/ballast")
export(new)
assert sum(map(len, content().values())) >= new.nbytes
print("alive")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "name", "options"),
    [
        ("to_geotiff", "b.tif", {}),
        ("to_geotiff", "b.tif", {"compress": "lzw"}),
        ("to_geotiff", "b.tif", {"compress": "deflate", "tiled": True}),
        ("to_tiff", "b.tif", {}),
        ("to_tiff", "b.tif", {"compression": "zlib", "ome": True}),
        ("to_envi", "b.hdr", {}),
        ("to_npy", "b.npy", {}),
        ("to_npz", "a.npz", {}),
        ("to_fits", "a.fits", {}),
        ("to_mat", "a.mat", {}),
        ("to_hdf5", "a.h5", {}),
        ("to_netcdf", "a.nc", {}),
    ],
)
def test_an_export_to_a_full_disk(private_mount, script, tmp_path, call, name, options):
    needs = {"geotiff": "rasterio", "netcdf": "netCDF4", "fits": "astropy", "mat": "scipy"}
    needs["tiff"] = "tifffile"
    pytest.importorskip(needs.get(call.removeprefix("to_"), "h5py"))
    folder = tmp_path / "full"
    folder.mkdir()
    said = script(EXPORTS, folder, call, name, repr(options), prefix=private_mount)
    assert said.split()[-1] == "alive"


@pytest.mark.parametrize("kind", ["hdf5", "netcdf"])
def test_a_limit_of_the_size_of_files(script, tmp_path, kind):
    pytest.importorskip("netCDF4")
    script(
        """
import errno, os, resource, sys
import numpy as np
import extarray as xa
path, kind = sys.argv[1:]
write = getattr(xa, f"to_{kind}")
write(xa.from_array(np.arange(6.0)), path, "keep")
before = open(path, "rb").read()
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
try:
    write(xa.zeros((500, 1000)), path, "level")
except xa.StorageError as error:
    assert error.errno == errno.EFBIG, repr(error)
else:
    raise AssertionError("the file is too large")
assert open(path, "rb").read() == before
""",
        tmp_path / "file",
        kind,
    )


# -- beside other processes ------------------------------------------------------------------------


def filled(file):
    with h5py.File(file, "w") as f:
        f["level"] = np.arange(12.0).reshape(3, 4)
        f["keep"] = [1, 2]


def test_whoever_reads_a_file_goes_on_with_the_old_one(file, forked):
    filled(file)
    m = xa.map_hdf5(file, "level")
    m[0, 0] = 77
    child = forked.start(
        "import h5py, sys\n"
        "f = h5py.File(sys.argv[1], 'r'); print('open', flush=True)\n"
        "input(); print(f['level'][0, 0])",
        file,
    )
    with child:
        assert child.stdout.readline() == "open\n"
        m.write_back()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "0.0\n"
    with h5py.File(file) as f:
        assert f["level"][0, 0] == 77 and f["keep"][...].tolist() == [1, 2]


def test_a_file_that_somebody_writes_to_is_left_alone(file, forked):
    pytest.importorskip("netCDF4")
    filled(file)
    m = xa.map_hdf5(file, "level")
    m[0, 0] = 77
    child = forked.start(
        "import h5py, sys\n"
        "f = h5py.File(sys.argv[1], 'r+'); print('open', flush=True)\n"
        "input(); f['keep'][0] = 5; f.close(); print('closed', flush=True)",
        file,
    )
    with child:
        assert child.stdout.readline() == "open\n"
        for call in (
            m.write_back,
            lambda: xa.to_hdf5(xa.zeros(3), file, "new"),
            lambda: xa.to_netcdf(xa.zeros(3), file, "new"),
        ):
            with pytest.raises(xa.LockedError, match="has it open for writing") as caught:
                call()
            assert caught.value.filename == str(file)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "closed\n"
    m.write_back()
    with h5py.File(file) as f:
        assert f["keep"][0] == 5 and f["level"][0, 0] == 77 and sorted(f) == ["keep", "level"]


@needs_replaced_open_files
def test_two_at_once_lose_nothing(file, forked):
    """Two processes add datasets; one at a time may, and the other gets an error."""
    filled(file)
    code = """
import sys
import extarray as xa
for number in range(6):
    while True:
        try:
            xa.to_hdf5(xa.full((3,), number), sys.argv[1], f"{sys.argv[2]}{number}")
            break
        except (xa.LockedError, xa.StorageError) as error:
            assert isinstance(error, xa.LockedError), repr(error)
print("done", flush=True)
"""
    children = [forked.start(code, file, name) for name in "ab"]
    for child in children:
        with child:
            assert child.stdout.readline() == "done\n"
    with h5py.File(file) as f:
        assert sorted(f) == sorted(
            ["keep", "level", *(f"{name}{number}" for name in "ab" for number in range(6))]
        )


def test_a_file_that_was_changed_meanwhile_is_not_replaced(file):
    """The other program takes no locks."""
    filled(file)

    def change(done, total):
        if not done:
            return
        with open(file, "r+b") as stream:
            stream.seek(0, os.SEEK_END)
            stream.write(b"more")

    with pytest.raises(xa.StorageError, match="was changed in the meantime"):
        xa.to_hdf5(xa.zeros((3, 4)), file, "new", progress=change)
    assert file.read_bytes().endswith(b"more")
    assert os.listdir(file.parent) == [file.name]


def test_a_file_that_this_process_has_open_changes_in_place(file):
    filled(file)
    m = xa.map_hdf5(file, "level")
    m[0, 0] = 77
    m.append([[9, 9, 9, 9]])
    inode = file.stat().st_ino
    with h5py.File(file, "r+") as f:
        m.write_back()
        xa.to_hdf5(xa.zeros(3), file, "new")
        assert f["level"][0, 0] == 77 and f["new"].shape == (3,)
        f["keep"][0] = 8
    assert file.stat().st_ino == inode
    with h5py.File(file) as f:
        assert f["keep"][0] == 8 and f["level"].shape == (4, 4) and f["new"].shape == (3,)
        m[1, 1] = 50
        assert m.write_back() > 0
        assert f["level"][1, 1] == 5  # a reader keeps the old file
    with h5py.File(file) as f:
        assert f["level"][1, 1] == 50


def test_a_file_is_left_alone_where_nothing_changed(file):
    filled(file)
    m = xa.map_hdf5(file, "level")
    before = file.stat()
    assert m.write_back() == 0 and file.stat() == before
    file.unlink()
    with pytest.raises(xa.MissingError):
        m.write_back()


def test_a_dataset_behind_a_link_to_another_file(file, tmp_path):
    filled(file)
    with h5py.File(tmp_path / "index.h5", "w") as f:
        f["there"] = h5py.ExternalLink("file.h5", "/level")
    before = (tmp_path / "index.h5").read_bytes()
    m = xa.map_hdf5(tmp_path / "index.h5", "there")
    m.append([[9, 9, 9, 9]])
    m.write_back()
    assert (tmp_path / "index.h5").read_bytes() == before
    with h5py.File(tmp_path / "index.h5") as f:
        assert f["there"].shape == (4, 4)
    assert sorted(os.listdir(tmp_path)) == ["file.h5", "index.h5"]


def test_a_virtual_dataset_is_written_where_its_elements_are(file, tmp_path):
    filled(file)
    layout = h5py.VirtualLayout((3, 4), "f8")
    layout[...] = h5py.VirtualSource(file, "level", (3, 4))
    with h5py.File(tmp_path / "view.h5", "w") as f:
        f.create_virtual_dataset("level", layout)
    m = xa.map_hdf5(tmp_path / "view.h5", "level")
    m[2, 3] = 70
    m.write_back()
    with h5py.File(file) as f:
        assert f["level"][2, 3] == 70


@needs_links
def test_a_link_to_a_file_stays_one(file, tmp_path):
    filled(file)
    link = tmp_path / "link"
    link.symlink_to(file)
    xa.to_hdf5(xa.zeros(3), link, "new")
    assert link.is_symlink()
    with h5py.File(file) as f:
        assert sorted(f) == ["keep", "level", "new"]


@needs_blocks
def test_holes_of_a_file_stay_holes(file):
    """The changed copy takes no more space than the file."""
    space = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    with h5py.File(file, "w") as f:
        shape = h5py.h5s.create_simple((1 << 25,))
        h5py.h5d.create(f.id, b"sparse", h5py.h5t.NATIVE_DOUBLE, shape, space)
    if file.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("the file system has no holes")
    xa.to_hdf5(xa.from_array([1, 2]), file, "new")
    assert file.stat().st_size > 1 << 28 and file.stat().st_blocks * 512 < 1 << 20
    with h5py.File(file) as f:
        assert f["new"][...].tolist() == [1, 2] and f["sparse"].shape == (1 << 25,)


def test_an_export_that_fails_takes_its_scales_back(file, monkeypatch):
    """In an open file, a failed export leaves neither the dataset nor its scales."""
    filled(file)
    a = xa.from_array(
        np.ones((2, 3)),
        dims=("y", "x"),
        attrs={"coords": {"y": {"dims": ["y"], "origin": [0], "data": [1, 2]}}},
    )
    with h5py.File(file, "r+") as f:

        def fail(self, name):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(h5py.Dataset, "make_scale", fail)
        with pytest.raises(xa.StorageError, match="No space left"):
            xa.to_hdf5(a, f, "level", overwrite=True)
        monkeypatch.undo()
        assert sorted(f) == ["keep", "level"] and f["level"].shape == (3, 4)
        xa.to_hdf5(a, f, "level", overwrite=True)
        assert sorted(f) == ["keep", "level", "y"] and f["level"].dims[0][0].name == "/y"


def test_a_member_of_a_zarr_group_is_seen_when_it_is_complete(tmp_path):
    zarr = pytest.importorskip("zarr")
    where = tmp_path / "store"
    group = zarr.open_group(where, mode="w")
    group.create_array("inner/keep", data=np.arange(3))
    seen = []

    def look(done, total):
        seen.append(sorted(name for name, _ in zarr.open_group(where).members(max_depth=None)))

    xa.to_zarr(xa.zeros((4, 5)), where, "inner/a/new", progress=look)
    assert seen and set(map(tuple, seen)) == {("inner", "inner/keep")}
    found = dict(zarr.open_group(where).members(max_depth=None))
    assert sorted(found) == ["inner", "inner/a", "inner/a/new", "inner/keep"]
    assert found["inner/a/new"].shape == (4, 5)
    assert os.listdir(tmp_path) == ["store"]
    shutil.rmtree(where)
