"""Recordings of sequences of useq-schema."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scratch import new_folder

import extarray as xa

useq = pytest.importorskip("useq", reason="needs useq-schema")
bridge = pytest.importorskip("extarray.interop.useq")

SLICES = {"range": 2, "step": 1}
GRID = {"rows": 1, "columns": 2}


@st.composite
def positions(draw):
    found = []
    for i in range(draw(st.integers(1, 3))):
        own = {}
        if draw(st.booleans()):
            own["z_plan"] = {"range": draw(st.integers(1, 3)), "step": 1}
        if draw(st.booleans()):
            own["grid_plan"] = GRID
        found.append({"x": i, "y": -i, "sequence": own or None})
    return found


@st.composite
def sequences(draw):
    """Draw sequences: uneven ones, with frames left out, and with positions that differ."""
    plans = {
        "time_plan": st.just({"interval": 1, "loops": 3}),
        "z_plan": st.just(SLICES),
        "grid_plan": st.just(GRID),
        "stage_positions": positions(),
        "channels": st.lists(
            st.fixed_dictionaries({"acquire_every": st.integers(1, 2), "do_stack": st.booleans()}),
            min_size=1,
            max_size=2,
        ),
    }
    order = "".join(draw(st.permutations("tpgcz")))
    given = {name: draw(plan) for name, plan in plans.items() if draw(st.booleans())}
    for i, channel in enumerate(given.get("channels", [])):
        channel["config"] = "AB"[i]
    try:
        with warnings.catch_warnings():
            # It tells of orders that may not be intended.
            warnings.simplefilter("ignore")
            return useq.MDASequence(axis_order=order, **given)
    except ValueError:
        assume(False)


@pytest.mark.slow
@given(sequence=sequences())
def test_frames_of_any_sequence_are_where_their_events_are(sequence):
    lengths = bridge.lengths_of(sequence)
    assume(lengths)
    assert list(lengths) == [axis for axis in sequence.axis_order if axis in lengths]
    path = new_folder() / "run"
    whole = np.zeros([*lengths.values()], "u4")
    with bridge.record(sequence, path, (2, 3), "u4") as recording:
        for i, event in enumerate(sequence):
            at = tuple(event.index.get(axis, 0) for axis in lengths)
            assert not whole[at]
            whole[at] = i + 1
            recording.append(np.full((2, 3), i + 1, "u4"), event, number=i + 1)
    with xa.open_group(path) as group:
        frames, numbers = group["frames"], group["number"]
        view = frames.lazy.split() if len(lengths) > 1 else frames
        assert view.dims == (*lengths, "y", "x")
        found = view[...][..., 0, 0]
        np.testing.assert_array_equal(found, whole[: len(found)])
        assert not whole[len(found) :].any()
        np.testing.assert_array_equal(np.nan_to_num(numbers[...]), frames[:, 0, 0])
    shutil.rmtree(path.parent)


def test_what_a_sequence_says_labels_the_axes(path):
    sequence = useq.MDASequence(
        axis_order="ptcz",
        stage_positions=[{"x": 1, "y": 2, "name": "left"}, (3, 4, 5)],
        time_plan={"interval": 2, "loops": 3},
        channels=["DAPI", "GFP"],
        z_plan=SLICES,
        keep_shutter_open_across="z",
    )
    with bridge.record(sequence, path, (2, 3), "u2", pixel_size=0.5, compression="zstd") as made:
        assert made.frames.compression is not None
        attrs = made.frames.attrs
        assert attrs["split"] == {"frame": {"p": -1, "t": 3, "c": 2, "z": 3}}
        coords = {name: form["data"].tolist() for name, form in attrs["coords"].items()}
        assert np.isnan(coords.pop("z_coord")[0])
        assert coords == {
            "p": ["left", "1"],
            "x_coord": [1, 3],
            "y_coord": [2, 4],
            "t": [0, 2, 4],
            "c": ["DAPI", "GFP"],
            "z": [-1, 0, 1],
            "y": [0, 0.5],
            "x": [0, 0.5, 1],
        }
        assert useq.MDASequence(**made.group.attrs["useq"]) == sequence


def test_a_time_without_an_end_goes_on(path):
    sequence = useq.MDASequence(time_plan={"interval": 0, "duration": 9}, channels=["a", "b"])
    assert bridge.lengths_of(sequence) == {"t": None, "c": 2}
    with bridge.record(sequence, path, (2, 3), "u2") as recording:
        for t in range(4):
            recording.append(np.full((2, 3), t, "u2"), useq.MDAEvent(index={"t": t, "c": 1}))
        assert recording.frames.lazy.split()[:, 1, 0, 0].tolist() == [0, 1, 2, 3]


def test_no_camera_and_frames_of_other_shapes(path):
    sequence = useq.MDASequence(channels=["a"])
    with pytest.raises(xa.errors.ArgumentError, match="cameras"):
        bridge.record(sequence, path, (2, 3), "u2", cameras=0)
    with pytest.raises(xa.errors.ShapeError, match="rows and columns"):
        bridge.record(sequence, path, (2, 3, 4), "u2")


def test_several_cameras_are_an_axis(path):
    sequence = useq.MDASequence(channels=["a", "b"])
    with bridge.record(sequence, path, (2, 3), "u2", cameras=2) as recording:
        for i, event in enumerate(sequence):
            for cam in range(2):
                own = event.model_copy(update={"index": {**event.index, "cam": cam}})
                recording.append(np.full((2, 3), 10 * i + cam, "u2"), own)
        view = recording.frames.lazy.split()
        assert view.dims == ("c", "cam", "y", "x")
        assert view[..., 0, 0].tolist() == [[0, 1], [10, 11]]
    recording = bridge.record(sequence, path, (2, 3), "u2", overwrite=True)
    message = r"'c': 1, 'cam': 1.*has the axes c; give"
    with recording, pytest.raises(xa.ArgumentError, match=message):
        recording.append(np.zeros((2, 3), "u2"), own)


def test_events_that_cannot_be_told_apart_are_refused(path):
    plan = {"interval": 1, "loops": 2}
    places = [{"x": 0, "y": 0, "sequence": {"time_plan": plan}}, {"x": 1, "y": 1}]
    sequence = useq.MDASequence(axis_order="tp", time_plan=plan, stage_positions=places)
    with pytest.raises(xa.ArgumentError, match=r"several events at \{'p': 0, 't': 0\}"):
        bridge.record(sequence, path, (2, 3), "u2")
    endless = sequence.replace(time_plan={"interval": 0, "duration": 9})
    with pytest.raises(xa.ArgumentError, match="without an end"):
        bridge.lengths_of(endless)
    with pytest.raises(xa.ArgumentTypeError, match="cannot record a list"):
        bridge.lengths_of([])
    assert not path.exists()
