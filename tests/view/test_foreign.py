"""Files of other formats on show, written by other libraries; and the tree of what there is."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems import needs_replaced_open_files
from viewing import until

import extarray as xa
from extarray.common.limits import limits
from extarray.view import exhibits
from extarray.view.exhibits import Gallery
from extarray.view.planes import Span, can_be_whole, read_plane

DATA = np.random.default_rng(0).standard_normal((5, 40, 50)).astype("f4")


def write_npy(path):
    np.save(path, DATA)


def write_fortran(path):
    np.save(path, np.asfortranarray(DATA))


def write_npz(path):
    np.savez_compressed(path, only=DATA)


def write_hdf5(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as f:
        f.create_dataset("run 1/<b>", data=DATA, chunks=(2, 16, 16), compression="gzip")


def write_netcdf(path):
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(path, "w") as f:
        for name, n in zip("tyx", DATA.shape, strict=True):
            f.createDimension(name, n)
        f.createVariable("inner/v", "f4", ("t", "y", "x"), zlib=True)[:] = DATA
        f.createVariable("inner/y", "f8", ("y",))[:] = np.arange(40) / 4


def write_zarr(path):
    zarr = pytest.importorskip("zarr")
    zarr.create_group(path).create_array("deep/er/img", data=DATA, chunks=(1, 20, 20))


def write_tiff(path):
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    tifffile.imwrite(path, DATA, compression="zlib", tile=(16, 16))


def write_fits(path):
    fits = pytest.importorskip("astropy.io.fits")
    fits.writeto(path, DATA)


def write_mat(path):
    pytest.importorskip("scipy.io").savemat(path, {"m": DATA})


WRITERS = {
    "x.npy": write_npy,
    "f.npy": write_fortran,
    "x.npz": write_npz,
    "x.h5": write_hdf5,
    "x.nc": write_netcdf,
    "x.zarr": write_zarr,
    "x.tif": write_tiff,
    "x.fits": write_fits,
    "x.mat": write_mat,
}


@contextlib.contextmanager
def only(path, ndim=3):
    """Open the exhibit with so many axes."""
    with contextlib.closing(Gallery(path)) as gallery:
        names = [e["name"] for e in gallery.tree()["arrays"] if len(e["shape"]) == ndim]
        with gallery.exhibit(names[0]) as exhibit:
            yield gallery, names[0], exhibit


@pytest.mark.parametrize("file", WRITERS)
def test_planes_and_code_of_each_format(tmp_path, file):
    WRITERS[file](tmp_path / file)
    with only(tmp_path / file) as (gallery, name, exhibit):
        info = gallery.describe(name, exhibit)
        assert info["shape"] == [5, 40, 50]
        assert not info["has_growth"]
        array = exhibit.array
        for rows, columns, at in [
            (Span(1, 0, 40, 100), Span(2, 3, 33, 100), (4, 0, 0)),
            (Span(2, 0, 50, 10), Span(0, 0, 5, 3), (0, 7, 0)),
        ]:
            plane = read_plane(array, at, rows, columns, exhibit.choices()[0], seconds=5)
            index = list(at)
            for span in (rows, columns):
                index[span.axis] = slice(span.start, span.stop, span.step(0))
            want = DATA[tuple(index)]
            np.testing.assert_array_equal(
                plane.values, want.T if rows.axis > columns.axis else want
            )
    # HDF5 opens no file with its lock that the process has open without.
    made = {}
    exec("\n".join(info["code"]), made)
    shown = np.asarray(made["a"][3, :, 10:20])
    np.testing.assert_array_equal(shown, DATA[3, :, 10:20])
    for each in made.values():  # files that the code has opened
        if hasattr(each, "file") or hasattr(each, "group"):
            with contextlib.suppress(Exception):
                (each.file if hasattr(each, "file") else each.group().parent).close()


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mapped")
    write_npy(folder / "c.npy")
    write_fortran(folder / "f.npy")
    with contextlib.ExitStack() as stack:
        galleries = [
            stack.enter_context(contextlib.closing(Gallery(folder / n))) for n in ("c.npy", "f.npy")
        ]
        yield [
            stack.enter_context(g.exhibit(n)).array
            for g, n in zip(galleries, ("c.npy", "f.npy"), strict=True)
        ]


@st.composite
def selections(draw):
    items = []
    for n in DATA.shape:
        if draw(st.booleans()):
            items.append(draw(st.integers(0, n - 1)))
        else:
            start, stop = sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n))))
            items.append(slice(start, stop, draw(st.integers(1, 9))))
    return tuple(items)


@given(selections())
def test_any_selection_of_a_mapped_file_is_what_numpy_reads(mapped, selection):
    for array in mapped:
        np.testing.assert_array_equal(array[selection], DATA[selection])


def test_labels_come_from_the_file(tmp_path):
    write_netcdf(tmp_path / "x.nc")
    with only(tmp_path / "x.nc") as (gallery, name, exhibit):
        labels = gallery.coordinates(name, exhibit)
        assert labels[1].texts([0, 3]) == ["0", "0.75"]
        assert (labels[0], labels[2]) == (None, None)


@pytest.fixture
def packed(tmp_path):
    """Write a netCDF file of packed numbers."""
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "x.nc", "w") as f:
        f.set_auto_maskandscale(False)
        f.createDimension("lat", 3)
        f.createDimension("lon", 4)
        scaled = f.createVariable("scaled", "i2", ("lat", "lon"), fill_value=-9)
        scaled.setncatts({"scale_factor": 0.01, "add_offset": 273.15})
        unsigned = f.createVariable("unsigned", "i1", ("lat", "lon"))
        unsigned.setncatts({"_Unsigned": "true"})
        gaps = f.createVariable("gaps", "f4", ("lat", "lon"))
        gaps.setncatts({"missing_value": np.float32(-9)})
        plain = f.createVariable("plain", "i2", ("lat", "lon"), fill_value=-9)
        for each in (scaled, unsigned, gaps, plain):
            each.set_auto_maskandscale(False)
            each[:] = np.arange(-10, 2).reshape(3, 4)
        lat = f.createVariable("lat", "i2", ("lat",))
        lat.setncatts({"scale_factor": 0.5, "units": "degrees_north"})
        lat.set_auto_maskandscale(False)
        lat[:] = [20, 21, 22]
    return tmp_path / "x.nc"


@pytest.mark.parametrize("name", ["scaled", "unsigned", "gaps"])
def test_packed_numbers_are_the_values_that_xarray_shows(packed, name):
    xarray = pytest.importorskip("xarray")
    own = packed.with_name("own")
    xa.from_netcdf(packed, name, path=own).close()
    for path in (f"{packed}:/{name}", own):
        with only(path, 2) as (gallery, shown, exhibit):
            value, stored = exhibit.choices()
            array = exhibit.array
            with xarray.open_dataset(packed) as dataset:
                wanted = dataset[name].values
            for index in [(slice(None), slice(None)), (2, slice(1, 4, 2)), (0, 2)]:
                found = value.read(array, index)
                np.testing.assert_allclose(found, wanted[index], rtol=1e-6)
            np.testing.assert_equal(value.value(array, (0, 2)), found[()])
            assert stored.value(array, (0, 1)) == -9
            labels = [choice["label"] for choice in gallery.describe(shown, exhibit)["choices"]]
            assert labels == ["", "stored"]


def test_a_fill_value_alone_packs_nothing(packed):
    with only(f"{packed}:/plain", 2) as (gallery, name, exhibit):
        (choice,) = exhibit.choices()
        assert choice.dtype == np.int16
        assert gallery.coordinates(name, exhibit)[0].texts([1]) == ["10.5"]


@needs_replaced_open_files
def test_a_file_that_is_written_again_is_opened_again(tmp_path):
    write_npy(tmp_path / "x.npy")
    with only(tmp_path / "x.npy") as (_, _, exhibit):
        known = exhibit.refresh()
        assert exhibit.refresh() == known
        np.save(tmp_path / "x.npy", np.arange(12.0).reshape(3, 4))
        assert until(lambda: exhibit.refresh() != known)
        assert exhibit.array[2, 3] == 11
        os.remove(tmp_path / "x.npy")
        with pytest.raises(xa.MissingError, match="deleted or moved"):
            until(lambda: exhibit.refresh() is None)
        assert exhibit.array[2, 3] == 11


def write_unsigned(path):
    pytest.importorskip("astropy.io.fits").writeto(path, UNSIGNED)


def write_big_endian(path):
    pytest.importorskip("tifffile").imwrite(path, UNSIGNED, byteorder=">")


UNSIGNED = np.arange(60_000, 62_000, dtype="u2").reshape(5, 20, 20)
MAPPED = {"x.npy": write_npy, "x.fits": write_unsigned, "x.tif": write_big_endian}


@pytest.mark.parametrize("file", ["x.fits", "x.tif"])
def test_mapped_elements_that_are_converted(tmp_path, file):
    MAPPED[file](tmp_path / file)
    with only(tmp_path / file) as (_, _, exhibit):
        for index in [(4, slice(None), 7), (slice(0, 5, 3), slice(3, 20, 4), slice(19)), (1, 2, 3)]:
            np.testing.assert_array_equal(exhibit.array[index], UNSIGNED[index])


@needs_replaced_open_files
@pytest.mark.parametrize("file", MAPPED)
def test_a_file_that_becomes_shorter_is_an_error_and_no_crash(tmp_path, file):
    MAPPED[file](tmp_path / file)
    with only(tmp_path / file) as (_, _, exhibit):
        os.truncate(tmp_path / file, 200)
        with pytest.raises(xa.ClosedError, match="shorter"):
            exhibit.array[4, :, 5]


@needs_replaced_open_files
@pytest.mark.parametrize("file", ["x.npy", "x.h5", "x.nc", "x.tif", "x.fits"])
def test_a_deleted_file_still_has_its_elements(tmp_path, file):
    WRITERS[file](tmp_path / file)
    with only(tmp_path / file) as (_, _, exhibit):
        os.remove(tmp_path / file)
        np.testing.assert_array_equal(exhibit.array[3, :, 7], DATA[3, :, 7])


def test_a_deleted_store_is_an_error_and_not_zero(tmp_path):
    write_zarr(tmp_path / "x.zarr")
    with only(tmp_path / "x.zarr") as (_, _, exhibit):
        shutil.rmtree(tmp_path / "x.zarr" / "deep")
        with pytest.raises(xa.MissingError, match="deleted or moved"):
            exhibit.array[3, :, 7]


@contextlib.contextmanager
def written_anew(path):
    """Yield an HDF5 file to change, which then takes the place of another."""
    h5py = pytest.importorskip("h5py")
    shutil.copy(path, f"{path}.new")
    with h5py.File(f"{path}.new", "r+") as f:
        yield f
    os.replace(f"{path}.new", path)


@needs_replaced_open_files
def test_the_tree_follows_groups_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(exhibits, "_LOOK", 0)
    monkeypatch.setattr(exhibits, "_SHARE", 0)
    write_hdf5(tmp_path / "x.h5")
    with contextlib.closing(Gallery(tmp_path / "x.h5")) as gallery:
        tree = gallery.tree()
        assert [e["name"] for e in tree["arrays"]] == ["run 1/<b>"]
        assert gallery.tree(tree["tree"]) is None
        # As by another process, since HDF5 shares a file that one process opens twice.
        with written_anew(tmp_path / "x.h5") as f:
            f["run 2/more"] = [1, 2]
            f["run 2"].attrs["who"] = "<i>me</i>"
        tree = until(lambda: gallery.tree(tree["tree"]))
        assert [e["name"] for e in tree["arrays"]] == ["run 1/<b>", "run 2/more"]
        assert {g["name"]: g["attrs"] for g in tree["groups"]}["run 2"] == ["who: '<i>me</i>'"]
        with written_anew(tmp_path / "x.h5") as f:
            del f["run 1"]
        tree = until(lambda: gallery.tree(tree["tree"]))
        assert [e["name"] for e in tree["arrays"]] == ["run 2/more"]


SWMR = """
import sys, h5py
with h5py.File(sys.argv[1], "w", libver="latest") as f:
    x = f.create_dataset("x", (3, 4), "f4", maxshape=(None, 4), chunks=(2, 4))
    f.swmr_mode = True
    for n, _ in enumerate(iter(lambda: print(flush=True) or sys.stdin.readline().strip(), "")):
        x.resize(4 + n, 0)
        x[3 + n] = n + 1
        x.flush()
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_file_that_a_process_writes_in_swmr_mode(tmp_path):
    pytest.importorskip("h5py")
    command = [sys.executable, "-c", SWMR, os.fspath(tmp_path / "x.h5")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as writer:
        writer.stdout.readline()
        with only(tmp_path / "x.h5", 2) as (_, _, exhibit):
            known = exhibit.refresh()
            assert exhibit.array.shape == (3, 4)
            writer.stdin.write("more\n")
            writer.stdin.flush()
            writer.stdout.readline()
            until(lambda: exhibit.refresh() != known)
            assert exhibit.array.shape == (4, 4)
            np.testing.assert_array_equal(exhibit.array[3, :], 4 * [1])
        writer.communicate("\n", timeout=60)
    assert writer.returncode == 0


CHANGE = """
import sys, h5py
with h5py.File(sys.argv[1], "r+") as f:
    f["more"] = [1, 2]
"""


@pytest.mark.process
def test_others_can_write_a_file_on_show(tmp_path, script):
    h5py = pytest.importorskip("h5py")  # loaded before, with its locks
    write_hdf5(tmp_path / "x.h5")
    with only(tmp_path / "x.h5") as (_, _, exhibit):
        exhibit.array[0, 0, 0]
        script(CHANGE, tmp_path / "x.h5")
    # This process has the file open with its lock.
    with h5py.File(tmp_path / "x.h5") as f, only(tmp_path / "x.h5") as (_, _, exhibit):
        assert list(f) == ["more", "run 1"]
        assert exhibit.array[2, 3, 4] == DATA[2, 3, 4]


def test_the_tree_follows_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(exhibits, "_LOOK", 0)
    monkeypatch.setattr(exhibits, "_SHARE", 0)
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("one", (2, 3)).close()
        with contextlib.closing(Gallery(tmp_path / "g")) as gallery:
            first = gallery.tree()
            assert first["arrays"] == [{"name": "one", "shape": [2, 3], "dtype": "float64"}]
            g.create("deep/two", (4,), "u1").close()
            g["deep"].attrs["note"] = 3
            second = gallery.tree(first["tree"])
            assert [e["name"] for e in second["arrays"]] == ["deep/two", "one"]
            assert second["groups"] == [{"name": "deep", "attrs": ["note: 3"]}]
            with xa.open(tmp_path / "g" / "one", "r+") as a:
                a.extend(0, 5)
            third = until(lambda: gallery.tree(second["tree"]))
            assert third["arrays"][1]["shape"] == [7, 3]
            del g["deep"]
            fourth = until(lambda: gallery.tree(third["tree"]))
            assert [e["name"] for e in fourth["arrays"]] == ["one"]


def test_several_paths_have_names_of_their_own(tmp_path):
    (tmp_path / "other").mkdir()
    write_npy(tmp_path / "x.npy")
    np.save(tmp_path / "other" / "x.npy", DATA[0])
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("one", (2, 3)).close()
    paths = [tmp_path / "x.npy", tmp_path / "other" / "x.npy", tmp_path / "g"]
    with contextlib.closing(Gallery(*paths)) as gallery:
        assert gallery.names() == ["x.npy", "x.npy (2)", "g/one"]
        assert [e["shape"] for e in gallery.tree()["arrays"]] == [[5, 40, 50], [40, 50], [2, 3]]
        with gallery.exhibit("x.npy (2)") as exhibit:
            np.testing.assert_array_equal(exhibit.array[3, :], DATA[0, 3])


def test_a_part_of_a_file_hides_the_rest(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["a/b/c"], f["a/d"], f["ab"] = [1], [2], [3]
    with contextlib.closing(Gallery(f"{tmp_path / 'x.h5'}:/a")) as gallery:
        assert gallery.names() == ["a/b/c", "a/d"]
        for name in ("ab", "/ab", "a/../ab", "x.h5"):
            with pytest.raises(xa.MissingError), gallery.exhibit(name):
                pass
    with contextlib.closing(Gallery(f"{tmp_path / 'x.h5'}:/a/d")) as gallery:
        assert not gallery.is_folder
    with pytest.raises(xa.MissingError, match="no 'q'.*'a/b/c'"):
        Gallery(f"{tmp_path / 'x.h5'}:/q")


def test_links_of_a_store_lead_nowhere_else(tmp_path):
    zarr = pytest.importorskip("zarr")
    write_zarr(tmp_path / "x.zarr")
    zarr.create_array(tmp_path / "secret", data=DATA)
    try:
        (tmp_path / "x.zarr" / "link").symlink_to(tmp_path / "secret")
    except OSError:
        pytest.skip("no links here")
    with contextlib.closing(Gallery(tmp_path / "x.zarr")) as gallery:
        assert gallery.names() == ["deep/er/img"]


def test_files_that_cannot_be_shown_say_why(tmp_path, monkeypatch):
    (tmp_path / "x.raw").write_bytes(bytes(8))
    with pytest.raises(xa.ArgumentError, match="shape and dtype"):
        Gallery(tmp_path / "x.raw")
    (tmp_path / "notes.txt").write_text("private")
    with pytest.raises(xa.ArgumentError, match="cannot infer a format"):
        Gallery(tmp_path / "notes.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(xa.MissingError, match="no array in this folder"):
        Gallery(tmp_path / "empty")
    write_npz(tmp_path / "x.npz")
    monkeypatch.setattr(limits, "plane_bytes", 1000)
    with contextlib.closing(Gallery(tmp_path / "x.npz")) as gallery:
        assert "extarray import" in gallery.tree()["arrays"][0]["error"]


def test_the_first_picture_reads_few_pieces(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("a", (4096, 4096), "f8", chunks=(512, 512))  # no element is written
    with contextlib.closing(Gallery(tmp_path / "x.h5")) as gallery, gallery.exhibit("a") as exhibit:
        array, spans = exhibit.array, (Span(0, 0, 4096, 512), Span(1, 0, 4096, 512))
        read, pieces = array._source.read, []
        array._source.read = lambda box: pieces.append(box) or read(box)
        plane = read_plane(array, (0, 0), *spans, exhibit.choices()[0], seconds=0)
        assert len(pieces) <= array.coarsest == 16
        assert plane.values.size <= 16
        assert can_be_whole(array, *spans, exhibit.choices()[0])
        monkeypatch.setattr(limits, "plane_bytes", 1 << 20)
        some = [span._replace(stop=300) for span in spans]
        assert can_be_whole(array, *some, exhibit.choices()[0])
        assert not can_be_whole(array, *spans, exhibit.choices()[0])
