"""OME-TIFF, ImageJ stacks and pages of other kinds: tifffile says what is in the files."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peaks import peaks

import extarray as xa
from extarray import cli
from extarray.formats import tiff as module
from extarray.formats import transfer
from extarray.formats.registry import format_of

tifffile = pytest.importorskip("tifffile")
imagecodecs = pytest.importorskip("imagecodecs")

FILES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.tif"


def numbers(shape, dtype="u2"):
    return np.random.default_rng(1).integers(0, 200, shape).astype(dtype)


def quiet_save(a, file, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xa.errors.LossyWarning)
        xa.to_tiff(a, file, overwrite=True, progress=False, **options)


def labelled(dim, data, unit=None):
    return {"dims": [dim], "data": data, **({"attrs": {"units": unit}} if unit else {})}


def coordinate(a, name):
    form = a.attrs["coords"][name]
    return form["data"].tolist(), form.get("attrs", {}).get("units")


# -- elements ------------------------------------------------------------------------------------


LAYOUTS = [
    {},
    {"compression": "zlib", "rowsperstrip": 7},
    {"compression": "lzw", "predictor": True},
    {"compression": "zstd"},
    {"tile": (16, 32)},
    {"tile": (32, 16), "compression": "zlib"},
    {"rowsperstrip": 3},
    {"byteorder": ">"},
    {"byteorder": ">", "compression": "zlib", "predictor": True},
    {"bigtiff": True},
    {"imagej": True},
    {"ome": True, "metadata": {"axes": "TZYX"}},
    {"ome": True, "metadata": {"axes": "TZYX"}, "compression": "zlib", "tile": (16, 16)},
    {"planarconfig": "separate", "tile": (16, 16)},
    {"bitspersample": 12},
]


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
@pytest.mark.sampled(6)
def test_files_of_every_layout_are_read(file, options):
    x = numbers((3, 4, 40, 50))
    tifffile.imwrite(file, x, photometric="minisblack", **options)
    for chunks in (None, (2, 3, 7, 30)):
        a = xa.from_tiff(file, chunks=chunks)
        assert a.dtype == "u2" and a.dtype.isnative and np.array_equal(a[...], x)


@pytest.mark.parametrize(
    "options",
    [{}, {"tile": (16, 16)}, {"compression": "jpeg", "tile": (16, 16)}, {"compression": "zlib"}],
    ids=str,
)
def test_samples_of_pixels(file, options):
    x = numbers((5, 40, 56, 3), "u1")
    tifffile.imwrite(file, x, photometric="rgb", **options)
    a = xa.from_tiff(file)
    assert a.dims == ("dim_0", "y", "x", "s") and np.array_equal(a[...], tifffile.imread(file))
    planes = np.moveaxis(x, -1, 1)
    if "jpeg" not in options.values():
        tifffile.imwrite(file, planes, photometric="rgb", planarconfig="separate", **options)
        a = xa.from_tiff(file)
        assert a.dims == ("dim_0", "s", "y", "x") and np.array_equal(a[...], planes)


@FILES
@given(data=st.data())
def test_what_tifffile_reads_is_what_was_written(file, data):
    lead = data.draw(st.lists(st.sampled_from("tcz"), max_size=3, unique=True))
    dims = [*lead, "y", "x"]
    samples = data.draw(st.sampled_from(["", "first", "last"]))
    if samples:
        dims.insert(len(lead) if samples == "first" else len(dims), "s")
    extents = st.sampled_from([1, 2, 3, 17])
    shape = tuple(data.draw(extents) for _ in dims)
    ome = data.draw(st.booleans())
    kinds = ["?", "u1", "i2", ">u2", "f4", "c8"] + ([] if ome else ["f2", "i8"])
    x = numbers(shape, "u1").astype(data.draw(st.sampled_from(kinds)))
    options = data.draw(
        st.sampled_from(
            [{}, {"compression": "zlib"}, {"tile": (16, 16)}, {"byteorder": ">"}]
            + [{"tile": (16, 16), "compression": "lzw"}, {"bigtiff": True}]
        )
    )
    if x.dtype == "?" and "s" in dims:
        x = x.astype("u1")
    a = xa.from_array(x, dims=dims, chunks=tuple(data.draw(extents) for _ in dims))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "_STEP_BYTES", 64)
        quiet_save(a, file, ome=ome, **options)
    with tifffile.TiffFile(file) as f:
        (series,) = f.series
        assert series.kind == ("ome" if ome else "shaped")
        letters = "".join(d.upper() for d, n in zip(dims, shape, strict=True) if n > 1 or d in "yx")
        found = dict(zip(series.axes, series.shape, strict=True))
        assert "".join(d for d in series.axes if found[d] > 1 or d in "YX") == letters
        kept = x.reshape([n for d, n in zip(dims, shape, strict=True) if n > 1 or d in "yx"])
        assert np.array_equal(series.asarray().reshape(kept.shape), kept)
        assert series.dtype == x.dtype.newbyteorder("=")
        assert f.is_bigtiff == ("bigtiff" in options) and f.byteorder == options.get(
            "byteorder", "<"
        )
        assert f.pages[0].is_tiled == ("tile" in options)
    b = xa.from_tiff(file, chunks=a.chunks if a.shape == series.shape else None)
    assert np.array_equal(b[...].reshape(kept.shape), kept)


@FILES
@given(data=st.data())
def test_a_hyperstack_of_imagej(file, data):
    dims = [*data.draw(st.lists(st.sampled_from("tcz"), max_size=3, unique=True)), "y", "x"]
    shape = tuple(data.draw(st.sampled_from([1, 2, 5])) for _ in dims)
    x = numbers(shape, data.draw(st.sampled_from(["u1", "u2", "f4", "i2"])))
    quiet_save(xa.from_array(x, dims=dims), file, imagej=True)
    with tifffile.TiffFile(file) as f:
        assert f.is_imagej and f.byteorder == ">"
        said = f.imagej_metadata
        for dim, key in (("t", "frames"), ("c", "channels"), ("z", "slices")):
            assert said.get(key, 1) == (shape[dims.index(dim)] if dim in dims else 1)
        order = [dims.index(d) for d in "tzcyx" if d in dims]
        assert np.array_equal(f.asarray().reshape(x.transpose(order).shape), x.transpose(order))


def test_axes_in_any_order(file):
    x = numbers((4, 5, 2, 3))
    xa.to_tiff(xa.from_array(x, dims=("y", "x", "c", "t"), chunks=(2, 2, 1, 2)), file, ome=True)
    with tifffile.TiffFile(file) as f:
        assert f.series[0].axes == "CTYX"
        assert np.array_equal(f.asarray(), x.transpose(2, 3, 0, 1))
    a = xa.from_array(x, dims=("y", "x", "c", "t"))
    with pytest.raises(xa.ArgumentError, match=r"np.transpose\(a, \(2, 3, 0, 1\)\)"):
        xa.to_tiff(a, file, overwrite=True, tile=(16, 16))
    xa.to_tiff(np.transpose(a, (2, 3, 0, 1)), file, overwrite=True, tile=(16, 16))
    assert np.array_equal(tifffile.imread(file), x.transpose(2, 3, 0, 1))


def test_axes_of_one_element_stay_on_demand(file):
    tifffile.imwrite(file, numbers((4, 5)), ome=True)
    a = xa.from_tiff(file)
    assert a.dims == ("y", "x")
    with xa.from_tiff(file, squeeze=False) as a:
        assert a.dims == ("t", "z", "c", "y", "x") and a.shape == (1, 1, 1, 4, 5)
        a.append(a[...], axis="t")


def test_large_pages_are_compressed_in_tiles(file):
    x = numbers((700, 600), "f4")
    with xa.config.set(max_memory="8 MiB"):
        xa.to_tiff(xa.from_array(x), file, compression="zlib")
    with tifffile.TiffFile(file) as f:
        assert f.pages[0].tile == (512, 512) and np.array_equal(f.asarray(), x)


def test_elements_beyond_4_gib_are_bigtiff():
    for nbytes, is_big in ((1 << 32) - 1, True), (1 << 31, False):
        assert module._settings(nbytes, "plain", None, {})["bigtiff"] is is_big
    with pytest.raises(xa.ArgumentError, match="4 GiB"):
        module._settings(1 << 33, "imagej", None, {})


# -- facts ---------------------------------------------------------------------------------------


def test_lengths_channels_and_times_of_ome(file, tmp_path):
    said = {
        "axes": "TCZYX",
        "Name": "cells",
        "Description": "two channels",
        "PhysicalSizeX": 0.065,
        "PhysicalSizeXUnit": "µm",
        "PhysicalSizeY": 65.0,
        "PhysicalSizeYUnit": "nm",
        "PhysicalSizeZ": 0.3,
        "TimeIncrement": 1.5,
        "TimeIncrementUnit": "min",
        "Channel": {"Name": ["DAPI", "GFP"]},
        "MapAnnotation": {"stain": "Höchst <1>"},
    }
    tifffile.imwrite(file, numbers((3, 2, 4, 5, 6)), ome=True, metadata=said)
    a = xa.from_tiff(file)
    assert a.dims == ("t", "c", "z", "y", "x")
    assert coordinate(a, "x") == ((np.arange(6) * 0.065).tolist(), "µm")
    assert coordinate(a, "y") == ([0.0, 65.0, 130.0, 195.0, 260.0], "nm")
    assert coordinate(a, "z")[1] == "µm"
    assert coordinate(a, "t") == ([0.0, 1.5, 3.0], "min")
    assert coordinate(a, "c") == (["DAPI", "GFP"], None)
    assert (a.attrs["name"], a.attrs["description"]) == ("cells", "two channels")
    assert a.attrs["stain"] == "Höchst <1>" and "Höchst" in a.attrs["ome_xml"]
    del a.attrs["ome_xml"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xa.to_tiff(a, tmp_path / "copy.ome.tif")
        b = xa.from_tiff(tmp_path / "copy.ome.tif")
    del b.attrs["ome_xml"]
    assert str(b.attrs) == str(a.attrs)
    pixels = tifffile.xml2dict(tifffile.tiffcomment(tmp_path / "copy.ome.tif"))["OME"]["Image"]
    pixels = pixels["Pixels"]
    for key in ("PhysicalSizeX", "PhysicalSizeXUnit", "PhysicalSizeYUnit", "PhysicalSizeZ"):
        assert pixels[key] == said.get(key, "µm"), key
    assert [each["Name"] for each in pixels["Channel"]] == ["DAPI", "GFP"]
    assert (pixels["TimeIncrement"], pixels["TimeIncrementUnit"]) == (1.5, "min")
    part = a.lazy[1:, 0, ::2, 1:, ::-1]
    with pytest.warns(xa.LossyWarning, match="'x', which does not increase") as caught:
        xa.to_tiff(part, tmp_path / "part.ome.tif")
    assert "the start 65 of coordinate 'y'" in str(caught[0].message)
    text = tifffile.tiffcomment(tmp_path / "part.ome.tif")
    assert 'PhysicalSizeZ="0.6"' in text and "PhysicalSizeX=" not in text
    assert text.count("DeltaT=") == 4 and 'DeltaT="3.0"' in text


@pytest.mark.slow
def test_xarray_shows_lengths_with_their_units(file, tmp_path):
    xarray = pytest.importorskip("xarray")
    said = {"axes": "CYX", "PhysicalSizeX": 0.5, "Channel": {"Name": ["DAPI", "GFP"]}}
    tifffile.imwrite(file, numbers((2, 4, 5)), ome=True, metadata=said)
    xa.from_tiff(file, path=tmp_path / "a").close()
    with xarray.open_dataarray(tmp_path / "a", engine="extarray") as d:
        assert d.sel(c="GFP", x=1.5).shape == (4,) and d.x.attrs["units"] == "µm"


def test_the_metadata_of_imagej(file, tmp_path):
    x = numbers((3, 4, 2, 5, 6))
    said = {
        "axes": "TZCYX",
        "spacing": 0.3,
        "unit": "um",
        "finterval": 2.5,
        "mode": "composite",
        "min": 3.0,
        "max": 250.0,
        "Ranges": (0.0, 100.0, 5.0, 255.0),
        "Info": "two lines\nof text",
        "LUTs": [np.tile(np.arange(256, dtype="u1"), (3, 1))] * 2,
        "Labels": ["DAPI", "GFP"] * 12,
    }
    tifffile.imwrite(file, x, imagej=True, resolution=((200, 13), (200, 13)), metadata=said)
    a = xa.from_tiff(file)
    assert a.dims == ("t", "z", "c", "y", "x")
    assert coordinate(a, "x") == ((np.arange(6) * 0.065).tolist(), "µm")
    assert coordinate(a, "z") == ((np.arange(4) * 0.3).tolist(), "µm")
    assert coordinate(a, "t") == ([0.0, 2.5, 5.0], "s") and coordinate(a, "c")[0] == ["DAPI", "GFP"]
    assert [*a.attrs["Ranges"]] == [0, 100, 5, 255] and a.attrs["Info"] == said["Info"]
    assert (a.attrs["mode"], a.attrs["min"], a.attrs["max"]) == ("composite", 3, 250)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xa.to_tiff(a, tmp_path / "copy.tif", imagej=True)
    with tifffile.TiffFile(file) as f, tifffile.TiffFile(tmp_path / "copy.tif") as g:
        one, other = f.imagej_metadata, g.imagej_metadata
        assert one.keys() == other.keys()
        for key in one:
            assert np.array_equal(one[key], other[key]), key
        for tag in ("XResolution", "YResolution"):
            assert f.pages[0].tags[tag].value == g.pages[0].tags[tag].value
        assert np.array_equal(g.asarray(), x)


def test_labels_of_planes_and_what_imagej_cannot_hold(file):
    labels = [f"plane {j}" for j in range(4)]
    tifffile.imwrite(
        file, numbers((2, 2, 5, 6)), imagej=True, metadata={"axes": "ZCYX", "Labels": labels}
    )
    a = xa.from_tiff(file)
    assert a.attrs["Labels"] == labels and "coords" not in a.attrs
    a.attrs.update(Überschrift="x", list=[1], Ranges=[1.0], note="ok")
    a.attrs["coords"] = {
        "x": labelled("x", [0, 1, 4, 9, 16, 25], "mm"),
        "z": labelled("z", [0, 1], "s"),
        "y": labelled("y", np.arange(5) * 0.1, "mm"),
        "place": labelled("y", np.arange(5)),
    }
    with pytest.warns(xa.LossyWarning) as caught:
        xa.to_tiff(a, file, imagej=True, overwrite=True)
    text = str(caught[0].message)
    for words in ("'Überschrift'", "'list'", "'Ranges'", "'x', whose steps differ", "'place'"):
        assert words in text
    assert "ImageJ has one for all" in text and "'note'" not in text
    with tifffile.TiffFile(file) as f:
        assert f.imagej_metadata["note"] == "ok" and f.imagej_metadata["Labels"] == labels


def test_attributes_of_other_files_are_json(file, tmp_path):
    x = numbers((3, 4, 5))
    tifffile.imwrite(file, x, photometric="minisblack", metadata={"axes": "TYX", "gain": 0.5})
    a = xa.from_tiff(file)
    assert a.dims == ("t", "y", "x") and a.attrs == {"dims": ["t", "y", "x"], "gain": 0.5}
    a.attrs.update(unit="mm", codes=np.array([1, 2], "i2"), resolution=[300, 150])
    a.attrs["resolution_unit"] = "inch"
    xa.to_tiff(a, tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as f:
        assert f.shaped_metadata[0]["unit"] == "mm" and f.shaped_metadata[0]["codes"] == [1, 2]
        assert f.pages[0].tags["XResolution"].value == (300, 1)
    b = xa.from_tiff(tmp_path / "b.tif")
    assert (b.attrs["gain"], b.attrs["resolution"]) == (0.5, [300, 150])
    tifffile.imwrite(file, x[0], description="a text", metadata=None, software="tool 2")
    c = xa.from_tiff(file)
    assert (c.attrs["ImageDescription"], c.attrs["Software"]) == ("a text", "tool 2")


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_attributes_that_are_nested_too_deeply(file, opens, closes):
    def written(levels):
        deep = f"{opens * levels}1{closes * levels}"
        text = f'{{"shape": [2, 3], "kept": 1, "deep": {deep}}}'
        tifffile.imwrite(file, np.ones((2, 3), "u1"), description=text, metadata=None)
        return file

    for levels in (101, 600):
        with pytest.warns(xa.LossyWarning, match="attribute 'deep'.*are nested"):
            a = xa.from_tiff(written(levels))
        assert a.attrs == {"dims": ["y", "x"], "kept": 1}
    with pytest.raises(xa.FormatError, match="recursion"):
        xa.from_tiff(written(sys.getrecursionlimit() * 5))


def test_steps_are_even_as_far_as_their_labels_are_exact(file):
    uneven, coarse = 1e9 + np.array([0, 1, 2.5]), np.float32(1000) + np.arange(3, dtype="f4") / 10
    a = xa.from_array(np.ones((3, 3), "f4"), dims=("y", "x"))
    a.attrs["coords"] = {"x": labelled("x", uneven, "mm"), "y": labelled("y", coarse, "mm")}
    with pytest.warns(xa.LossyWarning, match="'x', whose steps differ") as caught:
        xa.to_tiff(a, file, ome=True)
    assert "'y', whose" not in str(caught[0].message)
    with pytest.warns(xa.LossyWarning, match="'x', whose steps differ"):
        xa.to_tiff(a, file, imagej=True, overwrite=True)


def test_ratios_that_no_tag_holds_stay_attributes(file):
    a = xa.from_array(np.ones((2, 3), "u1"), dims=("y", "x"))
    a.attrs.update(resolution=[1e-12, 1e-12], resolution_unit="inch")
    xa.to_tiff(a, file)
    assert xa.from_tiff(file).attrs["resolution"] == [1e-12, 1e-12]


def test_what_is_lost_is_named(file):
    coords = {"x": labelled("x", np.arange(3.0))}
    a = xa.from_array(
        np.ones((2, 3)), dims=("north", "x"), attrs={"coords": coords}, fill_value=5.0
    )
    with pytest.raises(xa.ArgumentError, match="name them so with a.dims"):
        xa.to_tiff(a, file)
    a.dims = ("y", "x")
    with pytest.warns(xa.LossyWarning) as caught:
        xa.to_tiff(a, file)
    for words in ("the fill value", "coordinate 'x', which needs ome=True"):
        assert words in str(caught[0].message)


def test_long_axes_have_no_labels(file):
    x = np.zeros((2, 70_000), "u1")
    said = {"axes": "YX", "PhysicalSizeX": 0.25, "PhysicalSizeY": 0.25}
    tifffile.imwrite(file, x, ome=True, metadata=said)
    with pytest.warns(xa.LossyWarning, match=r"the size 0.25 µm of its elements along 'x'"):
        a = xa.from_tiff(file)
    assert list(a.attrs["coords"]) == ["y"]


@pytest.mark.parametrize("unit", ["furlong", "Å", "", "micrometers"])
def test_units(file, unit):
    a = xa.from_array(
        np.ones((2, 3)), dims=("y", "x"), attrs={"coords": {"x": labelled("x", [0, 2, 4], unit)}}
    )
    quiet_save(a, file, ome=True)
    wanted = {"furlong": "reference frame", "": "reference frame", "micrometers": "µm"}
    assert f'PhysicalSizeXUnit="{wanted.get(unit, unit)}"' in tifffile.tiffcomment(file)
    b = xa.from_tiff(file)
    assert coordinate(b, "x") == (
        [0, 2, 4],
        {"furlong": None, "": None}.get(unit, wanted.get(unit, unit)),
    )


# -- series and levels ---------------------------------------------------------------------------


def series_of(file, **options):
    x, y = numbers((3, 4, 5)), numbers((6, 7), "f4")
    with tifffile.TiffWriter(file, **options) as f:
        f.write(
            x, photometric="minisblack", metadata={"axes": "ZYX", "Name": "cells", "name": "cells"}
        )
        f.write(
            y, photometric="minisblack", metadata={"axes": "YX", "Name": "label", "name": "label"}
        )
    return x, y


@pytest.mark.parametrize("ome", [True, False])
def test_series_are_chosen_or_a_group(file, tmp_path, ome, capsys):
    x, y = series_of(file, ome=ome)
    assert np.array_equal(xa.from_tiff(file, "label")[...], y)
    assert np.array_equal(xa.from_tiff(file, 0)[...], x)
    with pytest.raises(xa.VariableError, match="name a series: the names are 'cells', 'label'"):
        xa.from_tiff(file)
    with pytest.raises(xa.VariableError, match="no series 2"):
        xa.from_tiff(file, 2)
    with xa.from_tiff(file, path=tmp_path / "group") as group:
        assert np.array_equal(group["cells"][...], x) and group["label"].dims == ("y", "x")
        assert np.array_equal(group["label"][...], y)
    assert cli.main(["import", f"{file}:/label", str(tmp_path / "a")]) == 0
    assert cli.main(["import", "--all", str(file), str(tmp_path / "b")]) == 0
    with xa.open(tmp_path / "a") as a, xa.open_group(tmp_path / "b") as group:
        assert np.array_equal(a[...], y) and sorted(group) == ["cells", "label"]
    assert cli.main(["import", str(file), str(tmp_path / "c")]) == 1
    assert "name a series" in capsys.readouterr().err


def test_levels_of_a_pyramid(file):
    x = numbers((2, 64, 96))
    with tifffile.TiffWriter(file, ome=True) as f:
        options = {"tile": (16, 16), "photometric": "minisblack"}
        f.write(x, subifds=2, metadata={"axes": "ZYX", "PhysicalSizeX": 0.5}, **options)
        f.write(x[:, ::2, ::2], subfiletype=1, **options)
        f.write(x[:, ::4, ::4], subfiletype=1, **options)
    for level in range(3):
        step = 2**level
        a = xa.from_tiff(file, level=level)
        assert np.array_equal(a[...], x[:, ::step, ::step])
        assert coordinate(a, "x")[0][:3] == [0, 0.5 * step, step]
    with pytest.raises(xa.ArgumentError, match=r"3 levels, of shapes \(2, 64, 96\), .* not 3"):
        xa.from_tiff(file, level=3)
    with pytest.raises(xa.ArgumentTypeError):
        xa.from_tiff(file, level="1")


def halves(x, axes):
    """Return the means of 2 by 2 elements, the last ones repeated where the number is odd."""
    y = np.pad(x, [(0, n % 2 if j in axes else 0) for j, n in enumerate(x.shape)], mode="edge")
    y = y.astype("f8")
    for axis in axes:
        one, other = (y.take(range(k, y.shape[axis], 2), axis) for k in range(2))
        y = (one + other) / 2
    return (np.rint(y) if x.dtype.kind == "u" else y).astype(x.dtype)


@pytest.mark.parametrize(
    ("dims", "shape", "dtype"),
    [
        (("y", "x"), (70, 101), "u2"),
        (("z", "y", "x"), (3, 64, 33), "f4"),
        (("t", "y", "x", "s"), (2, 50, 60, 3), "u1"),
        (("s", "y", "x"), (3, 50, 60), "u1"),
        (("c", "y", "x"), (2, 40, 40), "?"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}], ids=str)
def test_pyramids_are_written(file, dims, shape, dtype, options):
    x = numbers(shape, dtype)
    axes = dims.index("y"), dims.index("x")
    xa.to_tiff(xa.from_array(x, dims=dims), file, ome=True, tile=(16, 32), pyramid=2, **options)
    with tifffile.TiffFile(file) as f:
        (series,) = f.series
        assert len(series.levels) == 3 and series.keyframe.tile == (16, 32)
        for number, level in enumerate(series.levels):
            assert level.dtype == x.dtype and np.array_equal(level.asarray(), x)
            assert np.array_equal(xa.from_tiff(file, level=number)[...], x)
            x = x[:, ::2, ::2] if dtype == "?" else halves(x, axes)


def multi(tmp_path):
    """Make an OME-TIFF of two files, each with two planes."""
    x = numbers((4, 20, 30))
    names = [tmp_path / f"part{j}.ome.tif" for j in range(2)]
    ids = [f"urn:uuid:{j}{'0' * 7}-0000-0000-0000-000000000000" for j in range(2)]
    data = "".join(
        f'<TiffData IFD="{j % 2}" FirstZ="{j}" PlaneCount="1">'
        f'<UUID FileName="{names[j // 2].name}">'
        f"{ids[j // 2]}</UUID></TiffData>"
        for j in range(4)
    )
    for j, name in enumerate(names):
        text = (
            '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
            f'UUID="{ids[j]}"><Image ID="Image:0" Name="both"><Pixels ID="Pixels:0" '
            'DimensionOrder="XYZCT" Type="uint16" SizeX="30" SizeY="20" SizeZ="4" SizeC="1" '
            f'SizeT="1"><Channel ID="Channel:0" SamplesPerPixel="1"/>{data}</Pixels></Image></OME>'
        )
        with tifffile.TiffWriter(name) as f:
            for k in range(2):
                f.write(
                    x[2 * j + k],
                    description=text if k == 0 else None,
                    metadata=None,
                    compression="zlib" if j else None,
                )
    return x, names


def test_planes_in_several_files(tmp_path):
    x, names = multi(tmp_path)
    a = xa.from_tiff(names[0])
    assert a.dims == ("z", "y", "x") and np.array_equal(a[...], x)
    names[1].unlink()
    with pytest.warns(xa.LossyWarning, match=r"part1.ome.tif.*2 of its 4 planes"):
        a = xa.from_tiff(names[0], path=tmp_path / "a")
    with a:
        assert np.array_equal(a[:2], x[:2]) and not a[2:].any() and a.info()["sparse"]


# -- files that cannot be read or written --------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}, {"ome": True}, {"imagej": True}])
def test_a_file_that_is_cut_off_is_refused(file, path, tmp_path, options):
    x = numbers((5, 30, 40))
    tifffile.imwrite(file, x, photometric="minisblack", **options)
    good = file.read_bytes()
    for end in (0, 3, 8, 60, 500, len(good) // 2, len(good) - 200):
        file.write_bytes(good[:end])
        try:
            with xa.from_tiff(file) as a:  # ImageJ's elements stand before the list of pages
                assert options == {"imagej": True} and np.array_equal(a[...], x)
            continue
        except xa.FormatError:
            pass
        with pytest.raises(xa.FormatError):
            xa.from_tiff(file, path=path)
        assert [p.name for p in tmp_path.iterdir()] == [file.name]


def test_tifffile_complains_to_nobody_else(file, caplog, capsys):
    tifffile.imwrite(file, numbers((5, 30, 40)), photometric="minisblack", compression="zlib")
    data = bytearray(file.read_bytes())
    file.write_bytes(data[: len(data) // 2])
    before = list(logging.getLogger("tifffile").handlers)
    with pytest.raises(xa.FormatError):
        xa.from_tiff(file)
    assert logging.getLogger("tifffile").handlers == before and not capsys.readouterr().err


def test_a_compressed_segment_that_is_damaged(file):
    tifffile.imwrite(file, numbers((40, 50)), compression="zlib")
    with tifffile.TiffFile(file) as f:
        place = f.pages[0].dataoffsets[0]
    data = bytearray(file.read_bytes())
    data[place : place + 8] = b"\xff" * 8
    file.write_bytes(data)
    with pytest.raises(xa.FormatError):
        xa.from_tiff(file)


def test_a_package_that_is_missing_is_named(file, tmp_path, monkeypatch):
    tifffile.imwrite(file, numbers((40, 50)), compression="lzw")
    error = ValueError("<COMPRESSION.LZW: 5> requires the 'imagecodecs' package")

    def decode(self):
        def fail(*args, **options):
            raise error

        return fail

    with monkeypatch.context() as patch:
        patch.setattr(tifffile.TiffPage, "decode", property(decode))
        with pytest.raises(xa.MissingExtraError, match="pip install imagecodecs"):
            xa.from_tiff(file)
    with monkeypatch.context() as patch:

        def write(*args, **options):
            raise error

        patch.setattr(tifffile.TiffWriter, "write", write)
        with pytest.raises(xa.MissingExtraError, match="pip install imagecodecs"):
            xa.to_tiff(xa.zeros((2, 2)), tmp_path / "b.tif", compression="lzw")
    monkeypatch.setitem(sys.modules, "tifffile", None)
    for call in (lambda: xa.from_tiff(file), lambda: xa.to_tiff(xa.zeros((2, 2)), "b.tif")):
        with pytest.raises(xa.MissingExtraError, match="pip install tifffile"):
            call()


@pytest.mark.parametrize(
    ("a", "options", "error", "words"),
    [
        (xa.zeros(3), {}, xa.ShapeError, "at least 2 axes"),
        (xa.zeros((2, 0)), {}, xa.ShapeError, "one element"),
        (xa.zeros((1,) * 6), {"ome": True}, xa.ShapeError, "at most 5"),
        (xa.zeros((2, 2), "S3"), {}, xa.DTypeError, "uint8"),
        (xa.zeros((2, 2), "i8"), {"ome": True}, xa.DTypeError, "OME-TIFF"),
        (xa.zeros((2, 2), "f8"), {"imagej": True}, xa.DTypeError, "ImageJ"),
        (xa.zeros((2, 2), "u1"), {"imagej": True, "ome": True}, xa.ArgumentError, "leave out"),
        (xa.zeros((2, 2), "u1"), {"imagej": True, "tile": (16, 16)}, xa.ArgumentError, "ome=True"),
        (xa.zeros((2, 2), "u1"), {"imagej": True, "bigtiff": True}, xa.ArgumentError, "4 GiB"),
        (xa.zeros((2, 2), "u1"), {"compression": "nosuch"}, xa.ArgumentError, "tifffile cannot"),
        (xa.zeros((2, 2), "u1"), {"tile": (5, 5)}, xa.ArgumentError, "tile"),
        (xa.zeros((2, 2), "u1"), {"pyramid": 1}, xa.ArgumentError, "ome=True"),
        (xa.zeros((2, 2), "u1"), {"pyramid": 2, "ome": True}, xa.ArgumentError, "2 levels"),
        (xa.zeros((2, 2), "u1"), {"pyramid": "1"}, xa.ArgumentTypeError, "number of levels"),
        (xa.zeros((2, 2), "u1"), {"nosuch": 1}, xa.ArgumentError, "nosuch"),
        (xa.zeros((2, 2), "u1"), {"metadata": {}}, xa.ArgumentError, "'metadata'"),
        (xa.zeros((2, 2), "u1"), {"byteorder": "x"}, xa.ArgumentError, "byteorder"),
    ],
)
def test_what_a_file_cannot_be(file, tmp_path, a, options, error, words):
    with pytest.raises(error, match=words):
        xa.to_tiff(a, file, **options)
    assert not os.listdir(tmp_path)


def test_axes_that_ome_does_not_have(file):
    a = xa.from_array(np.ones((2, 3, 4), "u1"), dims=("angle", "y", "x"))
    with pytest.raises(xa.ArgumentError, match="'angle'"):
        xa.to_tiff(a, file, ome=True)
    with pytest.warns(xa.LossyWarning, match="the names of the axes"):
        xa.to_tiff(a, file)
    with tifffile.TiffFile(file) as f:
        assert f.series[0].axes == "QYX"
    twice = xa.from_array(np.ones((2, 3, 4, 5), "u1"), dims=("c", "channel", "y", "x"))
    with pytest.raises(xa.ArgumentError, match="would be C"):
        xa.to_tiff(twice, file, overwrite=True)


@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}], ids=str)
def test_a_failure_of_a_write_leaves_nothing(file, tmp_path, monkeypatch, options):
    a = xa.from_array(numbers((9, 40, 50)), chunks=(1, 40, 50))
    steps = itertools.count()

    def add(self, nbytes):
        if next(steps) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(transfer, "_STEP_BYTES", 64)
    monkeypatch.setattr(transfer.Progress, "add", add)
    with pytest.raises(KeyboardInterrupt):
        xa.to_tiff(a, file, **options)
    assert not os.listdir(tmp_path)


def test_an_error_in_the_thread_of_tifffile_is_raised(file, tmp_path, monkeypatch):
    def encode_chunks(*args, **options):
        raise OSError(28, "No space left on device")
        yield

    a = xa.from_array(numbers((9, 40, 50)), chunks=(1, 40, 50))
    monkeypatch.setattr(module, "_try", lambda *args: None)
    monkeypatch.setattr(tifffile.tifffile, "encode_chunks", encode_chunks)
    with pytest.raises(xa.StorageError, match="No space left"):
        xa.to_tiff(a, file, compression="zlib")
    assert not os.listdir(tmp_path)


# -- choice of the format ------------------------------------------------------------------------


@pytest.mark.slow
def test_rasters_with_a_place_are_geotiff(file, tmp_path, capsys):
    rasterio = pytest.importorskip("rasterio")
    x = numbers((2, 20, 30))
    tifffile.imwrite(file, x, photometric="minisblack")
    assert format_of(file).name == "tiff" and format_of(tmp_path / "none.tif").name == "tiff"
    assert cli.main(["import", str(file), str(tmp_path / "a")]) == 0
    assert "GeoTIFF" not in capsys.readouterr().err
    with xa.open(tmp_path / "a") as a:
        assert a.dims == ("dim_0", "y", "x")
    attrs = {"crs": "EPSG:32618", "transform": [10.0, 0.0, 500.0, 0.0, -10.0, 900.0]}
    for options in ({}, {"BIGTIFF": "YES"}, {"ENDIANNESS": "BIG"}):
        geographic = xa.from_array(x, attrs=attrs)
        xa.to_geotiff(geographic, tmp_path / "geo.tif", overwrite=True, **options)
        assert format_of(tmp_path / "geo.tif").name == "geotiff"
    assert cli.main(["import", str(tmp_path / "geo.tif"), str(tmp_path / "b")]) == 0
    assert "GeoTIFF" in capsys.readouterr().err
    with xa.open(tmp_path / "b") as b:
        assert b.dims == ("band", "y", "x") and "transform" in b.attrs
    command = ["import", "--format", "tiff", str(tmp_path / "geo.tif"), str(tmp_path / "c")]
    assert cli.main(command) == 0
    assert "GeoTIFF" not in capsys.readouterr().err.replace("geo.tif", "")
    for name, form in (("b", "geotiff"), ("a", "tiff")):
        assert cli.main(["export", str(tmp_path / name), str(tmp_path / f"{name}2.tif")]) == 0
        assert format_of(tmp_path / f"{name}2.tif").name == form
    with rasterio.open(tmp_path / "b2.tif") as f:
        assert f.transform.c == 500 and np.array_equal(f.read(), x)
    assert np.array_equal(tifffile.imread(tmp_path / "a2.tif"), x)


def test_the_commands(file, tmp_path, capsys):
    x = numbers((2, 3, 20, 30))
    with xa.create(tmp_path / "a", x.shape, x.dtype, dims=("t", "c", "y", "x")) as a:
        a[...] = x
    target = str(tmp_path / "b.ome.tif")
    command = ["export", str(tmp_path / "a"), target]
    assert cli.main([*command, "-o", "compression=zlib", "-o", "tile=16,16"]) == 0
    with tifffile.TiffFile(target) as f:
        assert f.is_ome and f.series[0].axes == "TCYX" and f.pages[0].tile == (16, 16)
        assert np.array_equal(f.asarray(), x)
    assert cli.main(["export", str(tmp_path / "a"), str(file), "-o", "imagej=true"]) == 0
    with tifffile.TiffFile(file) as f:
        assert f.is_imagej
    assert cli.main(["import", target, str(tmp_path / "c"), "-o", "squeeze=false"]) == 0
    with xa.open(tmp_path / "c") as c:
        assert {*c.dims} == {*"tczyx"}
    assert cli.main(["import", target, str(tmp_path / "d"), "-o", "level=5"]) == 2
    assert "1 levels" in capsys.readouterr().err


# -- OME-XML ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ome_xml_is_valid(file):
    """The classes of `ome-types` are those of the schema, and refuse what it does not have."""
    ome_types = pytest.importorskip("ome_types")
    attrs = {
        "name": "cells & <nuclei>",
        "description": "two\nlines",
        "acquisition_date": "2024-05-01T12:00:00",
        "stain": "DAPI",
        "gain": 0.5,
        "coords": {
            "x": labelled("x", np.arange(5) * 0.065, "µm"),
            "t": labelled("t", [0.0, 1.0, 4.0], "min"),
            "c": labelled("c", np.array(["DAPI", "GFP"])),
        },
    }
    a = xa.from_array(numbers((3, 2, 4, 5)), dims=("t", "c", "y", "x"), attrs=attrs)
    quiet_save(a, file, ome=True)
    (image,) = ome_types.from_tiff(str(file)).images
    assert (image.name, image.description) == (attrs["name"], attrs["description"])
    assert image.pixels.physical_size_x == 0.065 and image.pixels.physical_size_x_unit.value == "µm"
    assert [each.name for each in image.pixels.channels] == ["DAPI", "GFP"]
    assert [p.delta_t for p in image.pixels.planes if p.the_c == 0] == [0, 1, 4]
    assert image.acquisition_date.year == 2024


# -- memory --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_is_bounded_for_one_large_page(tmp_path, freeing):
    setup = f"""
import numpy as np, tifffile, extarray as xa
xa.config.max_memory = "8 MiB"
xa.config.threads = 2
a = xa.create({str(tmp_path / "source")!r}, (4096, 8192), "u2", chunks=(256, 512))
folder = {str(tmp_path)!r}
small = xa.zeros((600, 600), "u2", chunks=(200, 300))
for options in ({{}}, {{"compression": "zlib"}}, {{"tile": (256, 256), "ome": True, "pyramid": 1}}):
    xa.to_tiff(small, folder + "/small.tif", overwrite=True, **options)
    xa.from_tiff(folder + "/small.tif")
"""
    calls = []
    for name, options in (
        ("a", "{}"),
        ("b", "{'compression': 'zlib'}"),
        ("c", "{'tile': (256, 256), 'ome': True, 'pyramid': 2}"),
    ):
        file = f"folder + '/{name}.tif'"
        calls.append(f"xa.to_tiff(a, {file}, **{options})")
        calls.append(f"xa.from_tiff({file}, path=folder + '/{name}').close()")
    for call, peak in peaks(freeing, setup, calls, ["numpy", "tifffile"]).items():
        assert peak < 24, call  # of 64 MiB
