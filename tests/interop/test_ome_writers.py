"""The backend of ome-writers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import extarray as xa

ome_writers = pytest.importorskip("ome_writers", reason="needs ome-writers")
bridge = pytest.importorskip("extarray.interop.ome_writers")

ORDERS = ["acquisition", ["z", "c", "t", "y", "x"], ["c", "t", "z", "y", "x"]]


def dimensions(positions=None, **sizes):
    """Return dimensions of (t, c, z, y, x), with positions in their place."""
    sizes = {"t": 2, "p": positions, "c": ["red", "green"], "z": 3, **sizes, "y": 4, "x": 6}
    dims = ome_writers.dims_from_standard_axes({n: v for n, v in sizes.items() if v != []})
    for dim in dims:
        dim.scale = {"t": 2.0, "z": 0.5, "y": 0.1, "x": 0.1}.get(dim.name)
    return dims


def settings(path, dims, **options):
    options = {"dtype": "uint16", **options}
    return bridge.ExtArraySettings(root_path=path, dimensions=dims, **options)


def write(stream, count, **about):
    for i in range(count):
        known = {name: value * i for name, value in about.items()} or None
        stream.append(np.full((4, 6), i + 1, "u2"), frame_metadata=known)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("t", [2, None])
def test_a_stream_is_an_array_of_all_its_axes(path, order, t):
    dims = dimensions(["A", "B"], t=t)
    order = order if order == "acquisition" else ["p", *order]
    with ome_writers.create_stream(settings(path, dims, storage_order=order)) as stream:
        view = stream.view(dynamic_shape=False)
        arrays = stream._backend.get_arrays()
        assert not np.asarray(arrays[0][...]).any()
        write(stream, 24)
        whole = np.arange(1, 25).reshape(2, 2, 2, 3)
        for p, array in enumerate(arrays):
            axes = "tcz" if order == "acquisition" else order[1:-2]
            expected = whole[:, p].transpose(*("tcz".index(axis) for axis in axes))
            assert array.dtype == "u2"
            assert array.shape == (*expected.shape, 4, 6)
            np.testing.assert_array_equal(array[..., 0, 0], expected)
        if t:
            np.testing.assert_array_equal(view[1, 1, 0, 2], np.full((4, 6), whole[1, 1, 0, 2]))
    np.testing.assert_array_equal(stream._backend.get_arrays()[1][0, 0, 0], arrays[1][0, 0, 0])
    with xa.open(path / "frames") as frames:
        found = frames.lazy.split()
        assert found.dims == ("t", "p", "c", "z", "y", "x")
        np.testing.assert_array_equal(found[..., 3, 5], whole)


def test_names_sizes_and_units_are_coordinates(path):
    places = [ome_writers.Position(name="A", x_coord=1.5, plate_row="A", plate_column="1")]
    places += [ome_writers.Position(name="B", plate_row="B", plate_column="1")]
    dims = dimensions(places, t=None)
    dims[2].coords[1].color = "red"
    with ome_writers.create_stream(settings(path, dims, compression="blosc-lz4")) as stream:
        stream.set_global_metadata("mine", {"lens": {"na": 1.4}})
        write(stream, 13)
    stream.set_global_metadata("late", {"a": 1})
    with xa.open_group(path) as group:
        frames = group["frames"]
        assert frames.compression == xa.Codec("lz4", filter="shuffle")
        coords = {name: form["data"].tolist() for name, form in frames.attrs["coords"].items()}
        assert coords.pop("y") == pytest.approx([0, 0.1, 0.2, 0.3])
        assert coords.pop("x") == pytest.approx(np.arange(6) / 10)
        x_coord = coords.pop("x_coord")
        assert x_coord[0] == 1.5 and np.isnan(x_coord[1])
        assert coords == {
            "t": [0, 2],
            "p": ["A", "B"],
            "plate_row": ["A", "B"],
            "plate_column": ["1", "1"],
            "c": ["red", "green"],
            "color": ["", "red"],
            "z": [0, 0.5, 1],
        }
        units = {name: form.get("attrs") for name, form in frames.attrs["coords"].items()}
        assert units["z"] == {"units": "µm"} and units["t"] == {"units": "s"}
        assert group.attrs["mine"] == {"lens": {"na": 1.4}} and group.attrs["late"] == {"a": 1}
        assert group.attrs["ome_writers"]["dimensions"][0]["scale"] == 2.0
    assert stream.get_metadata()["late"] == {"a": 1}


def test_what_is_known_of_frames_comes_with_them(path):
    with ome_writers.create_stream(settings(path, dimensions([], t=None))) as stream:
        write(stream, 2)
        stream.skip(frames=3)
        write(stream, 2, delta_t=0.5, note="x")
    with xa.open_group(path) as group:
        expected = [1, 2, 0, 0, 0, 1, 2]
        assert group["frames"][:, 0, 0].tolist() == expected
        np.testing.assert_array_equal(group["delta_t"][...], [np.nan] * 5 + [0, 0.5])
        assert bytes(group["notes"][...]).splitlines()[1] == b'{"frame": 6, "note": "x"}'


def test_a_reader_sees_each_frame_when_it_is_whole(path):
    stream = ome_writers.create_stream(settings(path, dimensions([], t=None)))
    with stream, xa.open(path / "frames") as reader:
        for i in range(1, 8):
            stream.append(np.full((4, 6), i, "u2"))
            assert reader.refresh()
            assert reader.lazy.split()[...].ravel()[:: 4 * 6][:i].tolist() == [*range(1, i + 1)]


@pytest.mark.parametrize("sizes", [{"y": 4, "x": 6}, {"t": None, "y": 4, "x": 6}])
def test_streams_of_few_axes(path, sizes):
    dims = ome_writers.dims_from_standard_axes(sizes)
    with ome_writers.create_stream(settings(path, dims)) as stream:
        (array,) = stream._backend.get_arrays()
        assert array.shape == (1,) * (len(sizes) - 2) + (4, 6)
        assert not np.asarray(array[...]).any()
        write(stream, 1)
        assert (np.asarray(array[...]) == 1).all()
    with xa.open(path / "frames") as frames:
        assert frames.dims == ("t" if "t" in sizes else "frame", "y", "x")


def test_settings_survive_what_pymmcore_plus_does_to_them(path):
    """It makes settings of its own of a dict, and adds the dimensions of the sequence."""
    made = bridge.ExtArraySettings(root_path=str(path), overwrite=True)
    again = ome_writers.AcquisitionSettings.model_validate(
        {**made.model_dump(), "dimensions": dimensions([]), "dtype": "uint16"}
    )
    with ome_writers.create_stream(again) as stream:
        write(stream, 12)
    assert xa.open_group(path)["frames"].shape == (12, 4, 6)
    assert made.model_dump(mode="json")["format"]["backend"] == "extarray"


def test_existing_files_are_replaced_only_if_asked(path):
    given = settings(path, dimensions([]))
    for value in (1, 2):
        if value == 2:
            with pytest.raises(FileExistsError):
                ome_writers.create_stream(given)
            given = given.model_copy(update={"overwrite": True})
        with ome_writers.create_stream(given) as stream:
            for _ in range(12):
                stream.append(np.full((4, 6), value, "u2"))
    assert xa.open_group(path)["frames"][0, 0, 0] == 2


def test_what_cannot_be_done_is_refused(path):
    with pytest.raises(NotImplementedError, match=r"compression 'lzw'; give one of \['none'"):
        ome_writers.create_stream(settings(path, dimensions([]), compression="lzw"))
    with pytest.raises(NotImplementedError, match="no root_path"):
        ome_writers.create_stream(settings("", dimensions([])))
    backend = bridge.ExtArrayBackend()
    backend.finalize()
    with pytest.raises(RuntimeError, match="call prepare first"):
        backend.write(0, (0,), np.zeros((4, 6)))
    stream = ome_writers.create_stream(settings(path, dimensions([])))
    with stream, pytest.raises(xa.ShapeError):
        stream.append(np.zeros((6, 4), "u2"))
    with pytest.raises(RuntimeError, match="is closed; make a new stream"):
        stream.append(np.zeros((4, 6), "u2"))


def test_chunks_of_a_frame_are_those_of_the_settings(path):
    dims = dimensions([])
    dims[-1].chunk_size = 3
    dims[-1].scale = 0
    with ome_writers.create_stream(settings(path, dims)) as stream:
        write(stream, 1)
    frames = xa.open_group(path)["frames"]
    assert frames.chunks == (1, 4, 3)
    # pymmcore-plus gives 0 for the size of a pixel that it does not know.
    assert "x" not in frames.attrs["coords"] and "y" in frames.attrs["coords"]


def test_chunk_sizes_that_cannot_be_kept_are_named(path):
    dims = dimensions([])
    dims[0].chunk_size, dims[1].chunk_size = 4, 1
    with pytest.warns(UserWarning, match=r"the chunk sizes \{'t': 4\} are ignored"):
        stream = ome_writers.create_stream(settings(path, dims))
    stream.close()


def test_frames_go_to_their_places_in_any_order(path):
    dims = dimensions(["A", "B"])
    with ome_writers.create_stream(settings(path, dims)) as stream:
        places = [*itertools.product(range(2), range(2), range(2), range(3))]
        for i in np.random.default_rng(1).permutation(len(places)):
            t, p, c, z = places[i]
            stream._backend.write(p, (t, c, z), np.full((4, 6), i + 1, "u2"))
    assert xa.open_group(path)["frames"][:, 0, 0].tolist() == [*range(1, 25)]
