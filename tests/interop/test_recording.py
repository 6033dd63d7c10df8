"""Recordings: frames in one array, with numbers and notes that come with each of them."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scratch import new_folder

import extarray as xa
from extarray.interop.recording import NOTES, Recording, labels, steps

SHAPE = (2, 3)


def frame(i):
    return np.full(SHAPE, i, "u2")


def notes(group):
    return [json.loads(line) for line in bytes(group[NOTES][...]).splitlines()]


@pytest.mark.slow
@given(data=st.data())
def test_any_order_of_frames_reads_as_in_numpy(data):
    lengths = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    names = dict(zip("tcz", lengths, strict=False))
    has_end = data.draw(st.booleans())
    index = st.tuples(*(st.integers(0, n - 1) for n in lengths))
    path = new_folder() / "run"
    whole = np.zeros(lengths, "u2")
    known = np.full(lengths, math.nan)
    count = 0
    with Recording(path, names if has_end else {**names, "t": None}, SHAPE, "u2") as recording:
        for i in range(data.draw(st.integers(1, 6))):
            at = data.draw(index)
            number = data.draw(st.none() | st.floats(allow_nan=False))
            place = recording.place(at)
            if data.draw(st.booleans()):
                recording.write(place, frame(i + 1), {} if number is None else {"gain": number})
                whole[at] = i + 1
                known[at] = known[at] if number is None else number
            else:
                recording.skip(place + 1)
            count = max(count, place + 1)
    block = math.prod(lengths[1:])
    came = -(-count // block)
    with xa.open_group(path) as group:
        frames = group["frames"]
        assert len(frames) == count
        view = frames.lazy.split() if len(lengths) > 1 else frames
        assert view.dims == (*names, "y", "x")
        np.testing.assert_array_equal(view[...][..., 0, 0], whole[:came])
        if "gain" in group:
            np.testing.assert_array_equal(group["gain"][...], known.ravel()[:count])
            assert group["gain"].shape == (count,)
        else:
            assert np.isnan(known).all()
    shutil.rmtree(path.parent)


def test_a_frame_and_what_is_known_of_it_come_in_one_commit(path, monkeypatch):
    with Recording(path, {"t": None, "c": 2}, SHAPE, "u2") as recording:
        recording.write(0, frame(1), {"time": 0.5, "label": "a"})
        readers = [xa.open(path / name) for name in ("frames", "time", NOTES)]
        with monkeypatch.context() as patch:
            # The last step of the commit.
            patch.setattr(recording, "_add_note", lambda note: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                recording.write(1, frame(2), {"time": 1.5, "label": "b"})
        assert len(recording.frames) == len(recording.group["time"]) == 1
        assert not xa.refresh(readers)
        recording.write(2, frame(2), {"time": 1.5, "label": "b"})
        assert xa.refresh(readers)
        assert [len(reader) for reader in readers[:2]] == [3, 3]
        assert readers[1][...].tolist()[::2] == [0.5, 1.5]
        assert [note["label"] for note in notes(recording.group)] == ["a", "b"]
        for reader in readers:
            reader.close()


def test_values_that_are_no_numbers_are_notes(path):
    with Recording(path, {"t": None}, SHAPE, "u2") as recording:
        recording.write(0, frame(1))
        recording.write(1, frame(2), {"on": True, "gain": np.float32(0.5), "a/b": 1, "t": 2})
        recording.write(2, frame(3), {"gain": "high", "Gain": 3, "big": 2**60 + 1, "n": 2**60})
        with pytest.warns(xa.LossyWarning, match=r"'lens' of frame 3 .* <object"):
            recording.write(3, frame(4), {"lens": object(), "n": 1})
    with xa.open_group(path) as group:
        assert sorted(group) == ["frames", "gain", "n", "notes"]
        np.testing.assert_array_equal(group["gain"][...], [math.nan, 0.5, math.nan, math.nan])
        np.testing.assert_array_equal(group["n"][...], [math.nan, math.nan, 2**60, 1])
        assert notes(group) == [
            {"frame": 1, "on": True, "a/b": 1, "t": 2},
            {"frame": 2, "gain": "high", "Gain": 3, "big": 2**60 + 1},
        ]
        assert len(group["frames"]) == 4


def test_xarray_shows_frames_and_numbers_along_the_same_axes(path):
    xr = pytest.importorskip("xarray")
    coords = {"c": labels("c", ["red", "green"]), "gain": labels("c", [1.0, 2.0])}
    with Recording(path, {"t": None, "c": 2}, SHAPE, "u2", coords=coords) as recording:
        for i in range(3):
            recording.write(i, frame(i + 1), {"time": i / 2, "gain": 3})
        assert [note["gain"] for note in notes(recording.group)] == [3, 3, 3]
    with xr.open_dataset(path, engine="extarray") as ds:
        assert ds["frames"].dims == ("t", "c", "y", "x")
        assert ds["frames"].values[..., 0, 0].tolist() == [[1, 2], [3, 0]]
        np.testing.assert_array_equal(ds["time"], [[0, 0.5], [1, np.nan]])
        assert ds["frames"].sel(c="green").values[0, 0, 0] == 2
        assert ds["gain"].values.tolist() == [1, 2]


def test_what_is_skipped_takes_no_space(path):
    with Recording(path, {"t": None, "c": 2}, (64, 64), "u2") as recording:
        recording.skip(1000)
        recording.write(1000, np.ones((64, 64), "u2"), {"time": 1})
        recording.frames.flush()
        assert recording.frames.info()["disk_bytes"] < 200_000
        assert recording.group["time"].shape == (1001,)


def test_an_axis_without_an_end_gets_its_labels_at_the_end(path):
    coords = {"x": steps("x", 3, 0.5, unit="micrometer"), "c": labels("c", ["red", "green"])}
    with Recording(path, {"t": None, "c": 2}, SHAPE, "u2", coords=coords) as recording:
        recording.label_steps("t", 2.0, 1.0, "second")
        for i in range(5):
            recording.write(i, frame(i))
    with xa.open(path / "frames") as frames:
        found = frames.attrs["coords"]
        assert found["t"]["data"].tolist() == [1, 3, 5]
        assert found["t"]["attrs"] == {"units": "s"}
        assert found["x"]["data"].tolist() == [0, 0.5, 1]
        assert found["x"]["attrs"] == {"units": "µm"}
        assert found["c"]["data"].tolist() == ["red", "green"]


@pytest.mark.slow
def test_a_recording_that_nobody_closed_has_its_frames(path, script):
    code = (
        "import os, sys, numpy as np\n"
        "from extarray.interop.recording import Recording\n"
        "r = Recording(sys.argv[1], {'t': None, 'c': 2}, (2, 3), 'u2')\n"
        "for i in range(3):\n"
        "    r.write(i, np.full((2, 3), i, 'u2'), {'time': i})\n"
        "os._exit(0)\n"
    )
    script(code, path)
    with xa.open_group(path) as group:
        assert group["frames"].lazy.split()[..., 0, 0].tolist() == [[0, 1], [2, 0]]
        assert group["time"][...].tolist() == [0, 1, 2]


def test_what_cannot_be_recorded_is_refused(path):
    with pytest.raises(xa.ArgumentError, match="only the first axis may be without an end"):
        Recording(path, {"c": 2, "t": None}, SHAPE, "u2")
    with pytest.raises(xa.ArgumentError, match="'frame' is the name of the axis of all frames"):
        Recording(path, {"t": None, "frame": 2}, SHAPE, "u2")
    with Recording(path, {"t": None, "c": 2}, SHAPE, "u2") as recording:
        assert repr(recording) == f"<Recording '{path}': t=None, c=2, 0 frames>"
        with pytest.raises(xa.ArgumentError, match=r"'t': 0, 'c': 2.*length of 2"):
            recording.place((0, 2))
        with pytest.raises(xa.ShapeError, match=r"shape \(3, 2\).*\(2, 3\)"):
            recording.write(0, np.zeros((3, 2), "u2"), {"gain": 1})
        assert "gain" not in recording.group
        with pytest.raises(xa.ExistsError):
            Recording(path, {"t": None}, SHAPE, "u2")
    with pytest.raises(xa.ClosedError, match="is closed"):
        recording.write(0, frame(1))
    with Recording(path, {"t": None}, SHAPE, "u2", overwrite=True) as other:
        assert other.frames.dims == ("t", "y", "x")
    assert recording.frames.dims == ("t", "y", "x")
    recording.close()


def test_frames_of_another_kind_are_refused_also_in_the_place_of_one(tmp_path):
    with Recording(tmp_path / "run", {"t": None}, SHAPE, "u2") as recording:
        recording.write(0, frame(3))
        for place in (0, 1):
            with pytest.raises(xa.errors.CastingError, match="astype"):
                recording.write(place, np.full(SHAPE, -0.5), {"gain": 1.0})
        assert recording.frames[...].tolist() == [frame(3).tolist()]
        assert list(recording.group) == ["frames"]
