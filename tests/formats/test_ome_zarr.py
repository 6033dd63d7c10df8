"""Images of OME-Zarr: what ome-zarr reads, and what ome-zarr-models finds valid."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import extarray as xa
from extarray.cli import main

zarr = pytest.importorskip("zarr", minversion="3.1")

X = np.random.default_rng(5).integers(0, 4000, (2, 3, 4, 20, 32)).astype("u2")
COORDS = {
    "t": {"dims": ["t"], "data": [0.0, 2.5], "attrs": {"units": "s"}},
    "c": {"dims": ["c"], "data": ["DAPI", "GFP", "Cy5"]},
    "z": {"dims": ["z"], "data": [10.0, 12.0, 14.0, 16.0], "attrs": {"units": "micrometer"}},
    "y": {"dims": ["y"], "data": np.arange(20) * 0.25, "attrs": {"units": "µm"}},
    "x": {"dims": ["x"], "data": np.arange(32) * 0.25 - 1, "attrs": {"units": "µm"}},
}
AXES = [
    {"name": "t", "type": "time", "unit": "second"},
    {"name": "c", "type": "channel"},
    {"name": "z", "type": "space", "unit": "micrometer"},
    {"name": "y", "type": "space", "unit": "micrometer"},
    {"name": "x", "type": "space", "unit": "micrometer"},
]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cells.ome.zarr"


def cells(**attrs):
    return xa.from_array(X, dims=tuple("tczyx"), attrs={"coords": COORDS, **attrs})


def halves(x):
    """Return the rounded means of 2 by 2 elements of the last axes."""
    y, n = x.shape[-2] // 2, x.shape[-1] // 2
    return np.rint(x.reshape(*x.shape[:-2], y, 2, n, 2).mean(axis=(-3, -1)))


def node(file):
    """Return an image as ome-zarr reads it."""
    pytest.importorskip("ome_zarr")
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    (found,) = Reader(parse_url(file))()
    return found


def check_valid(group):
    """Let ome-zarr-models check a group."""
    models = pytest.importorskip("ome_zarr_models.v05")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return models.Image.from_zarr(group)


# -- writing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"compressors": None}, {"shards": (1, 1, 4, 20, 32), "chunks": (1, 1, 1, 5, 8)}],
)
def test_what_ome_zarr_reads(file, options):
    xa.to_ome_zarr(cells(), file, levels=2, **options)
    found = node(file)
    np.testing.assert_array_equal(found.data[0], X)
    np.testing.assert_array_equal(found.data[1], halves(X))
    np.testing.assert_array_equal(found.data[2], halves(halves(X)))
    assert found.metadata["axes"] == AXES
    assert found.metadata["channel_names"] == ["DAPI", "GFP", "Cy5"]
    assert found.metadata["name"] == "cells"
    scales = [steps[0]["scale"] for steps in found.metadata["coordinateTransformations"]]
    assert scales == [[2.5, 1, 2, s, s] for s in (0.25, 0.5, 1.0)]
    places = [steps[1]["translation"] for steps in found.metadata["coordinateTransformations"]]
    assert places == [[0, 0, 10, s, s - 1] for s in (0, 0.125, 0.375)]


def test_what_ome_zarr_models_finds_valid(file):
    xa.to_ome_zarr(cells(), file, levels=1)
    image = check_valid(zarr.open_group(file, mode="r"))
    assert image.ome_zarr_version == "0.5"
    assert [d.path for d in image.datasets[0]] == ["0", "1"]
    models = pytest.importorskip("ome_zarr_models.common.omero")
    rendering = zarr.open_group(file, mode="r").attrs["ome"]["omero"]
    assert len(models.Omero(**rendering).channels) == 3
    assert rendering["channels"][0]["window"]["max"] == 65535


@pytest.mark.parametrize(
    ("dims", "wanted"),
    [
        (None, "tczyx"),
        (("x", "y", "c", "z", "t"), "tczyx"),
        (("time", "channel", "Z", "Y", "X"), ("time", "channel", "Z", "Y", "X")),
        (("t", "angle", "z", "y", "x"), ("t", "angle", "z", "y", "x")),
        (("t", "z", "y", "x", "s"), ("t", "s", "z", "y", "x")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*the order of the axes:extarray.errors.LossyWarning")
def test_axes_are_written_in_their_order(file, dims, wanted):
    xa.to_ome_zarr(xa.from_array(X, dims=dims, chunks=(1, 2, 2, 7, 9)), file, levels=1)
    group = zarr.open_group(file, mode="r")
    check_valid(group)
    assert [axis["name"] for axis in group.attrs["ome"]["multiscales"][0]["axes"]] == [*wanted]
    order = range(5) if dims is None else [dims.index(name) for name in wanted]
    np.testing.assert_array_equal(group["0"][...], X.transpose(order))
    found = xa.from_ome_zarr(file)
    assert found.dims == tuple(wanted)
    np.testing.assert_array_equal(found[...], X.transpose(order))


@pytest.mark.parametrize("ndim", [2, 3, 4])
def test_fewer_axes_without_names(file, ndim):
    x = X[(0,) * (5 - ndim)]
    xa.to_ome_zarr(xa.from_array(x), file)
    assert xa.from_ome_zarr(file).dims == tuple("czyx" if ndim == 4 else "tczyx"[-ndim:])
    check_valid(zarr.open_group(file, mode="r"))


def test_a_recording_is_written_with_its_axes(file, path):
    with xa.create(
        path,
        (0, 20, 32),
        "u2",
        dims=("frame", "y", "x"),
        split={"frame": {"t": -1, "c": 3, "z": 4}},
    ) as a:
        a.append(X.reshape(-1, 20, 32)[:-5])
        a.attrs["coords"] = {key: form for key, form in COORDS.items() if key != "t"}
        xa.to_ome_zarr(a, file)
    found = xa.from_ome_zarr(file)
    assert found.dims == tuple("tczyx")
    wanted = X.copy()
    wanted.reshape(-1, 20, 32)[-5:] = 0
    np.testing.assert_array_equal(found[...], wanted)
    assert found.attrs["coords"]["c"]["data"].tolist() == ["DAPI", "GFP", "Cy5"]


def test_a_part_and_other_ways_to_halve(file):
    options = {"selection": np.s_[0, 1], "levels": 2, "axes": ["z", "x"], "how": "nearest"}
    with pytest.warns(xa.LossyWarning, match="coordinate 't'; coordinate 'c'"):
        xa.to_ome_zarr(cells(), file, **options)
    group = zarr.open_group(file, mode="r")
    np.testing.assert_array_equal(group["2"][...], X[0, 1, ::4, :, ::4])
    about = group.attrs["ome"]["multiscales"][0]
    assert about["type"] == "nearest" and len(about["axes"]) == 3
    assert about["datasets"][1]["coordinateTransformations"][0]["scale"] == [4, 0.25, 0.5]


def test_levels_down_to_a_small_picture(file):
    xa.to_ome_zarr(xa.from_array(np.ones((3, 600, 1000), "u1"), dims=("c", "y", "x")), file)
    shapes = [array.shape for _, array in sorted(zarr.open_group(file, mode="r").arrays())]
    assert shapes == [(3, 600, 1000), (3, 300, 500), (3, 150, 250)]


def test_missing_elements_do_not_count_in_levels(file):
    x = np.array([[1, -9, -9], [3, 5, -9]], "i2")
    xa.to_ome_zarr(xa.from_array(x, dims=("y", "x"), attrs={"_FillValue": -9}), file, levels=1)
    np.testing.assert_array_equal(xa.from_ome_zarr(file, level=1)[...], [[3, -9]])


def test_levels_in_small_steps(file):
    x = np.random.default_rng(1).integers(0, 255, (64, 96)).astype("u1")
    with xa.config.set(max_memory=1 << 12):
        xa.to_ome_zarr(xa.from_array(x, chunks=(16, 16)), file, levels=2)
    np.testing.assert_array_equal(xa.from_ome_zarr(file, level=2)[...], halves(halves(x)))


def test_what_cannot_be_said_is_named(file):
    a = cells()
    coords = {
        "t": {"dims": ["t"], "data": [0.0, 1.0]},
        "z": {"dims": ["z"], "data": [0.0, 1.0, 3.0, 4.0]},
        "y": {"dims": ["y"], "data": np.arange(20)[::-1]},
        "when": {"dims": ["t"], "data": ["a", "b"]},
        "c": {"dims": ["c"], "data": [405, 488, 640]},
    }
    a.attrs["coords"] = coords
    with pytest.warns(xa.LossyWarning) as warned:
        xa.to_ome_zarr(a, file)
    (message,) = {str(each.message) for each in warned}
    for part in ("'z', whose steps differ", "'y', which does not increase", "'when'", "as text"):
        assert part in message
    assert "'t'" not in message
    assert xa.from_ome_zarr(file).attrs["coords"]["c"]["data"].tolist() == ["405", "488", "640"]


def test_what_is_refused(file, tmp_path):
    with pytest.raises(xa.errors.ShapeError, match="2 to 5 axes"):
        xa.to_ome_zarr(xa.ones(5), file)
    with pytest.raises(xa.errors.ArgumentError, match="name them so with a.dims"):
        xa.to_ome_zarr(xa.create(None, (2, 3), dims=("lat", "lon")), file)
    with pytest.raises(xa.errors.ArgumentError, match="name them so with a.dims"):
        xa.to_ome_zarr(xa.create(None, (2, 3, 4, 5), dims=("a", "b", "y", "x")), file)
    with pytest.raises(xa.errors.ArgumentError, match="does not have 9 smaller levels"):
        xa.to_ome_zarr(cells(), file, levels=9)
    with pytest.raises(xa.errors.ArgumentError, match="no axis 'q'"):
        xa.to_ome_zarr(cells(), file, axes="q")
    with pytest.raises(xa.errors.ArgumentError, match="zarr cannot create"):
        xa.to_ome_zarr(cells(), file, colour="blue")
    with pytest.raises(xa.errors.ArgumentError, match="give its path"):
        xa.to_ome_zarr(cells(), "s3://bucket/cells.ome.zarr")
    assert not list(tmp_path.iterdir())
    xa.to_ome_zarr(cells(), file)
    with pytest.raises(xa.errors.ExistsError, match="overwrite=True"):
        xa.to_ome_zarr(cells(), file)
    xa.to_ome_zarr(xa.ones((2, 3)), file, overwrite=True)
    assert xa.from_ome_zarr(file).shape == (2, 3)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a").write_text("")
    with pytest.raises(xa.errors.ExistsError, match="not a Zarr store"):
        xa.to_ome_zarr(cells(), tmp_path / "other", overwrite=True)


# -- reading -------------------------------------------------------------------------------------


def test_facts_come_back(file):
    xa.to_ome_zarr(cells(lens="63x", name="cells of mice"), file, levels=1)
    found = xa.from_ome_zarr(file, chunks=(1, 1, 2, 10, 10))
    np.testing.assert_array_equal(found[...], X)
    assert found.dims == tuple("tczyx") and found.chunks == (1, 1, 2, 10, 10)
    assert found.attrs["lens"] == "63x" and found.attrs["name"] == "cells of mice"
    coords = found.attrs["coords"]
    for key, form in COORDS.items():
        np.testing.assert_array_equal(coords[key]["data"], form["data"])
        assert coords[key].get("attrs", {}).get("units") == (
            None if key == "c" else "s" if key == "t" else "µm"
        )
    rendering = found.attrs["omero"]
    rendering["channels"][1]["color"] = "123456"
    found.attrs["omero"] = rendering
    xa.to_ome_zarr(found, file, levels=1, overwrite=True)
    again = xa.from_ome_zarr(file, level=1)
    assert again.attrs["omero"]["channels"][1]["color"] == "123456"
    assert again.attrs["coords"]["x"]["data"][:2].tolist() == [-0.875, -0.375]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_images_that_ome_zarr_wrote(file, version):
    pytest.importorskip("ome_zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of its own
        from ome_zarr.format import format_from_version
        from ome_zarr.writer import write_image
    fmt = format_from_version(version)
    group = zarr.open_group(file, mode="w", zarr_format=fmt.zarr_format)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_image(X, group, axes="tczyx", scale_factors=[2], fmt=fmt)
    found = xa.from_ome_zarr(file)
    assert found.dims == tuple("tczyx")
    np.testing.assert_array_equal(found[...], X)
    small = xa.from_ome_zarr(file, level=1)
    assert small.shape[-2:] == (10, 16)
    np.testing.assert_allclose(np.diff(small.attrs["coords"]["x"]["data"]), 2.0)


def test_all_levels_as_a_group(file, tmp_path):
    xa.to_ome_zarr(cells(), file, levels=2)
    with xa.from_ome_zarr(file, level=None, path=tmp_path / "levels") as g:
        assert [a.shape[-2:] for a in (g["0"], g["1"], g["2"])] == [(20, 32), (10, 16), (5, 8)]
    with pytest.raises(xa.errors.ArgumentError, match="give its path"):
        xa.from_ome_zarr(file, level=None)
    with pytest.raises(xa.errors.ArgumentError, match="levels are 0 to 2"):
        xa.from_ome_zarr(file, level=3)


def plate(file):
    """Make a plate with one well of two fields."""
    group = zarr.open_group(file, mode="w", zarr_format=3)
    wells = [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}]
    group.attrs["ome"] = {"version": "0.5", "plate": {"wells": wells}}
    well = group.require_group("A/1")
    images = [{"path": "0"}, {"path": "1"}]
    well.attrs["ome"] = {"version": "0.5", "well": {"images": images}}
    return ["A/1/0", "A/1/1"]


def series(file):
    """Make a store as bioformats2raw does."""
    group = zarr.open_group(file, mode="w", zarr_format=3)
    group.attrs["ome"] = {"version": "0.5", "bioformats2raw.layout": 3}
    return ["0", "1"]


def listed_series(file):
    group = zarr.open_group(file, mode="w", zarr_format=3)
    group.attrs["ome"] = {"version": "0.5", "bioformats2raw.layout": 3}
    names = ["first", "second"]
    group.require_group("OME").attrs["ome"] = {"version": "0.5", "series": names}
    return names


@pytest.mark.parametrize("make", [plate, series, listed_series])
def test_several_images_in_a_store(file, tmp_path, make):
    names = make(file)
    for number, name in enumerate(names):
        xa.to_ome_zarr(xa.from_array(X[0, 0] + number), file / name)
    for error in (lambda: xa.from_ome_zarr(file), lambda: xa.from_ome_zarr(file, "B/2/0")):
        with pytest.raises(xa.errors.VariableError, match=f"'{names[0]}', '{names[1]}'"):
            error()
    np.testing.assert_array_equal(xa.from_ome_zarr(file, names[1])[...], X[0, 0] + 1)
    with xa.from_ome_zarr(file, path=tmp_path / "all") as g:
        for number, name in enumerate(names):
            np.testing.assert_array_equal(g[name][...], X[0, 0] + number)


def test_labels_have_a_name(file):
    xa.to_ome_zarr(cells(), file)
    group = zarr.open_group(file, mode="a")
    group.require_group("labels").attrs["ome"] = {"version": "0.5", "labels": ["nuclei"]}
    xa.to_ome_zarr(xa.from_array(X[0, 0]), file / "labels" / "nuclei", how="nearest")
    np.testing.assert_array_equal(xa.from_ome_zarr(file, "labels/nuclei")[...], X[0, 0])
    np.testing.assert_array_equal(xa.from_ome_zarr(file)[...], X)


def changed(file, **entries):
    """Change entries of the metadata of an image."""
    text = json.loads((file / "zarr.json").read_text())
    text["attributes"]["ome"].update(entries)
    (file / "zarr.json").write_text(json.dumps(text))


def test_transformations_of_all_levels_come_last(file):
    xa.to_ome_zarr(cells(), file, levels=0)
    said = zarr.open_group(file, mode="r").attrs["ome"]["multiscales"]
    said[0]["coordinateTransformations"] = [
        {"type": "scale", "scale": [1, 1, 1, 2, 2]},
        {"type": "translation", "translation": [0, 0, 0, 0, 5]},
    ]
    changed(file, multiscales=said)
    x = xa.from_ome_zarr(file).attrs["coords"]["x"]["data"]
    np.testing.assert_allclose(x, (np.arange(32) * 0.25 - 1) * 2 + 5)


def test_metadata_that_are_not_as_the_specification_says(file):
    xa.to_ome_zarr(cells(), file, levels=0)
    said = zarr.open_group(file, mode="r").attrs["ome"]["multiscales"]
    changed(file, version="0.9")
    with pytest.raises(xa.errors.FormatError, match="0.1 to 0.5"):
        xa.from_ome_zarr(file)
    changed(file, version="0.5", multiscales=[{**said[0], "axes": said[0]["axes"][1:]}])
    with pytest.raises(xa.errors.FormatError, match="axes"):
        xa.from_ome_zarr(file)
    changed(file, multiscales=[{**said[0], "datasets": [{"path": "7"}]}])
    with pytest.raises(xa.errors.FormatError, match="'7'"):
        xa.from_ome_zarr(file)
    changed(file, multiscales=[])
    with pytest.raises(xa.errors.FormatError, match="no levels"):
        xa.from_ome_zarr(file)
    steps = [{"type": "scale", "path": "elsewhere"}, {"type": "affine"}]
    dataset = {"path": "0", "coordinateTransformations": steps}
    changed(file, multiscales=[{**said[0], "datasets": [dataset]}])
    with pytest.warns(xa.LossyWarning, match="elsewhere.*'affine'"):
        np.testing.assert_array_equal(xa.from_ome_zarr(file)[...], X)


def test_other_zarr_stores_are_left_to_from_zarr(tmp_path):
    xa.to_zarr(xa.ones((2, 3)), tmp_path / "a.zarr")
    with pytest.raises(xa.errors.FormatError, match="from_zarr reads it"):
        xa.from_ome_zarr(tmp_path / "a.zarr")
    xa.to_zarr(xa.ones((2, 3)), tmp_path / "b.zarr", "inner")
    with pytest.raises(xa.errors.FormatError, match="from_zarr reads its arrays"):
        xa.from_ome_zarr(tmp_path / "b.zarr")
    with pytest.raises(xa.errors.MissingError):
        xa.from_ome_zarr(tmp_path / "c.zarr")


# -- the command line ----------------------------------------------------------------------------


def test_commands(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with cells() as a:
        a.copy("cells").close()
    assert main(["export", "cells", "cells.ome.zarr", "-o", "levels=1"]) == 0
    check_valid(zarr.open_group("cells.ome.zarr", mode="r"))
    assert main(["import", "cells.ome.zarr", "again"]) == 0
    with xa.open("again") as b:
        np.testing.assert_array_equal(b[...], X)
        assert b.dims == tuple("tczyx")
    assert main(["import", "cells.ome.zarr", "small", "-o", "level=1"]) == 0
    assert xa.open("small").shape == (2, 3, 4, 10, 16)
    assert main(["import", "--all", "cells.ome.zarr", "levels"]) == 0
    assert xa.open("levels/1").shape == (2, 3, 4, 10, 16)
    assert main(["convert", "cells.ome.zarr", "other.ome.zarr", "-o", "levels=2"]) == 0
    found = zarr.open_group("other.ome.zarr", mode="r")
    assert found.attrs["ome"]["multiscales"][0]["name"] == "cells"
    assert found["2"].shape == (2, 3, 4, 5, 8)


def test_levels_of_packed_numbers_are_packed(tmp_path):
    attrs = {"scale_factor": 0.5, "add_offset": 3.0}
    name = tmp_path / "a.ome.zarr"
    xa.to_ome_zarr(xa.from_array(np.ones((4, 4), "i2"), attrs=attrs), name, levels=1)
    for level in (0, 1):
        assert xa.from_ome_zarr(name, level=level).attrs.items() >= attrs.items()


def test_names_of_channels_stay_where_levels_have_fewer(tmp_path):
    names = {"dims": ["c"], "data": ["a", "b", "d"]}
    a = xa.from_array(np.ones((3, 4, 4)), dims=("c", "y", "x"), attrs={"coords": {"c": names}})
    name = tmp_path / "a.ome.zarr"
    xa.to_ome_zarr(a, name, levels=1, axes=("c", "y", "x"))
    found = xa.from_ome_zarr(name).attrs["coords"]["c"]["data"]
    assert found.tolist() == names["data"]
