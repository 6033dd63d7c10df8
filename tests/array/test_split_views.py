"""Views in which one axis is several, with NumPy's reshape of the elements as the oracle."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from compare import assert_same, assert_same_outcome
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases, fancy_selections, selections
from streaming import assert_close, small_boxes
from views import chains, elements, everywhere

import extarray as xa
from extarray.array.split import filled_up

numeric = st.sampled_from([np.dtype(d) for d in ["i4", "f8", ">i2", "u1"]])


def reshaped(x, axis, lengths, fill):
    """Return the elements with an axis split, filled up behind their end."""
    late = np.prod(lengths, dtype=int) - x.shape[axis]
    whole = np.empty((*x.shape[:axis], x.shape[axis] + late, *x.shape[axis + 1 :]), x.dtype)
    whole[...] = fill
    whole[(slice(None),) * axis + (slice(x.shape[axis]),)] = x
    return whole.reshape(*x.shape[:axis], *lengths, *x.shape[axis + 1 :])


@st.composite
def splits(draw, view, data, fill):
    """Draw a split of an axis, and the elements of it."""
    axis = draw(st.integers(0, view.ndim - 1))
    n = view.shape[axis]
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    block = int(np.prod(lengths))
    place = draw(st.integers(0, len(lengths)))
    complete = draw(st.booleans())
    given = [*lengths[:place], -1, *lengths[place:]]
    found = [*lengths[:place], n // block if complete else -(-n // block), *lengths[place:]]
    if complete:
        data = data[(slice(None),) * axis + (slice(int(np.prod(found))),)]
    elif draw(st.booleans()):
        given = found = [m + 1 for m in found]  # with room for more
    names = dict(zip("tczpq", given, strict=False))
    if axis == 0 and draw(st.booleans()):
        axis = -view.ndim
    v = view.lazy.split(axis, complete=complete, **names)
    return v, reshaped(data, axis % view.ndim, found, fill)


@pytest.mark.slow
@given(case=cases(min_ndim=1, max_ndim=3), data=st.data())
def test_a_split_reads_as_numpys_reshape(factory, case, data):
    with built(factory, case) as (array, model):
        view, places = array.lazy[...], everywhere(array.shape)
        if data.draw(st.booleans()):
            view, places = data.draw(chains(view, places))
        x = elements(model.data, places)
        if not view.ndim:
            return
        view, x = data.draw(splits(view, x, array.fill_value))
        if data.draw(st.booleans()) and view.ndim < 5:
            view, x = data.draw(splits(view, x, array.fill_value))
        assert view.base is array
        assert (view.shape, view.dtype, view.nbytes) == (x.shape, x.dtype, x.nbytes)
        assert len(view.chunks) == view.ndim
        more, places = data.draw(chains(view, everywhere(x.shape)))
        y = elements(x, places)
        assert_same(more[...], y[...])
        assert more.read(order="F").flags.f_contiguous
        out = np.empty(more.shape[::-1], more.dtype).T
        assert_same(more.read(out=out), y)
        for one, expected in ((view, x), (more, y)):
            for kind in (selections, fancy_selections):
                key = data.draw(kind(one.shape))
                assert_same_outcome(lambda: one[key], lambda: expected[key])  # noqa: B023
        assert_same(pickle.loads(pickle.dumps(view))[...], x)
        with small_boxes():
            assert_same(np.array(view.lazy[::-1]), x[::-1])


@pytest.mark.slow
@given(case=cases(min_ndim=1, max_ndim=3), data=st.data())
def test_a_split_writes_through_or_not_at_all(factory, case, data):
    with built(factory, case) as (array, model):
        view, places = data.draw(splits(array.lazy[...], everywhere(array.shape), -1))
        view, places = data.draw(chains(view, places, writable=True))
        key = data.draw(st.one_of(selections(view.shape), fancy_selections(view.shape)))
        try:
            chosen = places[key]
        except IndexError:
            return
        value = sample(case.dtype, np.shape(chosen), seed=9)
        if (np.asarray(chosen) < 0).any():
            with pytest.raises(xa.errors.BoundsError, match="has come"):
                view[key] = value
        else:
            view[key] = value
            model.data.reshape(-1)[chosen] = value
        assert_same(array[...], model.data)


@given(case=cases(numeric, min_ndim=1, max_ndim=3), data=st.data())
def test_functions_go_through_a_split(factory, case, data):
    with built(factory, case) as (array, model), small_boxes(), np.errstate(all="ignore"):
        view, x = data.draw(splits(array.lazy[...], model.data, array.fill_value))
        assert_close(np.add.reduce(view.astype("f8")), np.add.reduce(x.astype("f8")))
        assert_same(xa.from_array(view)[...], x)
        before = model.data.copy()
        if x.size <= array.size:
            view += 1
            assert_same(view[...], (x + 1).astype(x.dtype))
        else:
            with pytest.raises(xa.errors.BoundsError):
                view += 1
            assert_same(array[...], before)


def frames(n, y=4, x=6):
    return np.arange(n * y * x, dtype="u2").reshape(n, y, x)


def recorded(n, **options):
    a = xa.create(None, (0, 4, 6), "u2", dims=("frame", "y", "x"), **options)
    for frame in frames(n):
        a.append(frame[None])
    return a


def test_names_and_parts():
    a = recorded(40, chunks=(1, 4, 3))
    v = a.lazy.split("frame", t=-1, c=3, z=5)
    assert (v.shape, v.chunks) == ((3, 3, 5, 4, 6), (1, 1, 1, 4, 3))
    assert v.dims == ("t", "c", "z", "y", "x")
    assert v.T.dims == ("x", "y", "z", "c", "t")
    assert v.sum(axis="z").shape == (3, 3, 4, 6)
    assert v.lazy.split("x", i=-1, j=2).dims == ("t", "c", "z", "y", "i", "j")
    assert recorded(2, chunks=(6, 4, 6)).lazy.split(0, t=2, c=3, z=5).chunks[:3] == (1, 1, 5)
    assert recorded(2, chunks=(60, 4, 6)).lazy.split(0, t=9, c=3, z=5).chunks[:3] == (4, 3, 5)
    assert xa.from_array(np.zeros((6, 2))).lazy.split(0, t=-1, c=3).dims is None
    assert "with axis 0 split into t=3, c=3, z=5" in repr(v)
    assert "(3, 3, 5, 4, 6)" in v._repr_html_()


def test_frames_and_elements():
    """A frame and an element have ways of their own."""
    a = recorded(40)
    x = reshaped(frames(40), 0, (3, 3, 5), 0)
    v = a.lazy.split("frame", t=-1, c=3, z=5)
    for t in range(-3, 3):
        assert_same(v[t, 1, -2], x[t, 1, -2])
        assert_same(v[t, -1, 4, 2, 3], x[t, -1, 4, 2, 3])
    out = np.zeros((4, 6), "u2")
    assert v.read((2, 0, 1), out=out) is out
    assert_same(out, x[2, 0, 1])
    v[0, 1, 2] = 7
    v[0, 1, 3, 2, 1] = 8
    assert (a[7] == 7).all()
    assert a[8, 2, 1] == 8
    for key in ((2, 2, 0), (2, 2, 0, 1, 1)):
        with pytest.raises(IndexError, match=r"element 40 of axis 'frame', which has 40"):
            v[key] = 1
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        v[3, 0, 0]


@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_split_shows_the_same_elements_after_growth(axis, side):
    a = recorded(40)
    v = a.lazy.split("frame", t=-1, c=3, z=5)
    x = v[...]
    shape = list(a.shape)
    shape[axis] = 3
    a.append(np.ones(shape, "u2"), axis=axis, side=side)
    assert_same(v[...], x)
    assert_same(v[1, 1, 1], x[1, 1, 1])
    assert_same(v[:, 0, ::2], x[:, 0, ::2])
    assert a.lazy.split("frame", t=-1, c=3, z=5).shape[3:] == a.shape[1:]
    a.shrink(axis, 3, side="end" if side == "start" else "start")
    with pytest.raises(IndexError, match="make a new view"):
        v[...]


def test_what_has_not_come_is_not_written_in_part():
    a = recorded(40)
    v = a.lazy.split("frame", t=-1, c=3, z=5)
    before = a[...]

    def refused(write):
        with pytest.raises(xa.errors.BoundsError, match="append it"):
            write()
        assert_same(a[...], before)

    refused(lambda: v.write(..., 1))
    refused(lambda: v.write(slice(1, None), xa.ones((4, 6))))
    refused(lambda: v.write(v[...] < 9000, 1))
    refused(lambda: np.add(v, 1, out=v))
    refused(lambda: v.lazy[:, 1:].write(..., v.lazy[:, :2]))
    refused(lambda: v.lazy.split("z", p=-1, q=5).write((2, 2), 0))
    v.write(v[...] > 0, 1)
    assert (a[...].ravel()[1:] == 1).all()


def test_what_cannot_be_split():
    a = recorded(40)
    split = a.lazy.split
    for lengths in ({}, {"t": 0}, {"t": -2}, {"t": -1, "c": -1}, {"t": 2, "c": 3}):
        with pytest.raises(xa.errors.ArgumentError, match=r"cannot split axis 'frame'"):
            split("frame", **lengths)
    with pytest.raises(TypeError, match="length of 't'"):
        split("frame", t=1.5)
    with pytest.raises(ValueError, match="duplicate names"):
        split("frame", t=-1, y=2)
    with pytest.raises(ValueError, match=r"complete=True .* has none"):
        split("frame", t=40, complete=True)
    with pytest.raises(TypeError, match="complete"):
        split("frame", t=-1, complete=1.5)
    with pytest.raises(IndexError, match="3"):
        split(3, t=-1)
    with pytest.raises(ValueError, match="'frames'"):
        split("frames", t=-1)
    with pytest.raises(ValueError, match="names no axis"):
        split(t=-1, c=3)
    with pytest.raises(ValueError, match="no split of its own"):
        split()


def test_lists_of_indices_take_bounded_memory():
    a = xa.create(None, (300_000, 2), "u1", chunks=(4096, 2))
    a[...] = np.arange(600_000).reshape(-1, 2) % 251
    v = a.lazy.split(0, t=-1, c=3, z=7).transpose(2, 1, 0, 3)
    x = reshaped(a[...], 0, (v.shape[2], 3, 7), 0).transpose(2, 1, 0, 3)
    out = np.empty(v.shape, "u1")
    with xa.config.set(max_memory=1 << 20):
        v.read(out=out)
        tracemalloc.start()
        try:
            v.read(out=out)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 4 << 20
    assert_same(out, x)


def test_fields_of_records():
    record = np.dtype([("a", "i4"), ("b", "f8", (2,))])
    x = sample(record, (7, 3), seed=1)
    a = xa.from_array(x)
    a.append(x[:1])
    v = a.lazy.split(0, t=-1, c=3)
    padded = reshaped(a[...], 0, (3, 3), np.zeros((), record))
    assert_same(v["b"], padded["b"])
    assert_same(v[[0, -1], :, [0, 2], "b"], padded[[0, -1], :, [0, 2]]["b"])
    assert_same(v.lazy["a"][:, 1], padded["a"][:, 1])
    v.lazy[:2, "a"].write(..., 5)
    assert (a["a"][:6] == 5).all()
    assert_same(a["b"], np.concatenate([x, x[:1]])["b"])


def test_an_array_says_how_it_is_split(path):
    split = {"frame": {"t": -1, "c": 3, "z": np.int64(5)}}
    with xa.create(path, (0, 4, 6), "u2", dims=("frame", "y", "x"), split=split) as a:
        assert a.chunks == (1, 4, 6)
        assert a.attrs["split"] == split
        a.append(frames(40))
    with xa.open(path) as a:
        v = a.lazy.split()
        assert v.dims == ("t", "c", "z", "y", "x")
        assert_same(v[...], reshaped(frames(40), 0, (3, 3, 5), 0))
        assert a.lazy.split(complete=True).shape == (2, 3, 5, 4, 6)
        assert a.lazy[:20, 1:].lazy.split().shape == (2, 3, 5, 3, 6)
        assert xa.create(None, like=a).lazy.split().shape == v.shape
    both = {"frame": {"t": -1, "c": 2}, "x": {"i": 3, "j": 2}}
    a = xa.create(None, (3, 4, 6), dims=("frame", "y", "x"), split=both)
    assert a.chunks[0] == a.chunks[2] == 1
    assert a.lazy.split().dims == ("t", "c", "y", "i", "j")
    assert a.lazy.split(complete=True).shape == (1, 2, 4, 3, 2)


@pytest.mark.parametrize(
    ("split", "error"),
    [
        (["frame"], TypeError),
        ({"frame": 3}, TypeError),
        ({"frame": {}}, TypeError),
        ({"frame": {"t": 1.5}}, TypeError),
        ({"frames": {"t": -1}}, ValueError),
        ({"frame": {"t": -1, "c": -1}}, ValueError),
        ({"frame": {"t": 0}}, ValueError),
        ({"frame": {"t": -1, "x": 2}}, ValueError),
    ],
)
def test_what_no_array_is_made_with(path, split, error):
    with pytest.raises(error, match=r"split|names"):
        xa.create(path, (0, 4, 6), dims=("frame", "y", "x"), split=split)
    assert not path.with_suffix(".xmd").exists()
    with pytest.raises(ValueError, match="with dims"):
        xa.create(path, (0, 4, 6), split={"frame": {"t": -1}})


RECORDING = """
import sys
import numpy as np
import extarray as xa
split = {"frame": {"t": -1, "c": 3, "z": 2}}
with xa.create(sys.argv[1], (0, 64, 64), "u2", dims=("frame", "y", "x"), split=split) as a:
    for i in range(1, 10**6):
        a.append(np.full((1, 64, 64), i % 60000 + 1, "u2"))
        print(i, flush=True)
"""


@pytest.mark.process
@pytest.mark.slow
def test_readers_and_kills_find_whole_frames(path, script):
    """A reader beside a recording sees a frame whole or not at all; a kill loses none."""
    process = script.start(RECORDING, path)
    told = 0
    try:
        assert int(process.stdout.readline()) == 1
        with xa.open(path) as a:
            while told < 200:
                told = int(process.stdout.readline())
                a.refresh()
                v = a.lazy.split()
                assert v.shape == (-(-len(a) // 6), 3, 2, 64, 64)
                last = v[-1].reshape(6, -1)
                assert (last == last[:, :1]).all()
                first = 6 * len(v) - 5
                came = len(a) - first + 1
                assert last[:, 0].tolist() == [*range(first + 1, len(a) + 2), *[0] * (6 - came)]
    finally:
        process.kill()
        rest = process.communicate()[0].splitlines()
        told = int(rest[-1]) if rest else told
    with xa.open(path, "r+") as a:
        assert len(a) in (told, told + 1)
        assert (a[...] == np.arange(2, len(a) + 2)[:, None, None]).all()
        a.append(np.zeros((1, 64, 64), "u2"))


def test_copies_keep_the_labels_of_a_split(path):
    coords = {
        "exposure": {"dims": ["frame"], "data": np.arange(40.0)},
        "few": {"dims": ["frame"], "data": np.arange(39)},
        "channel": {"dims": ["c"], "data": ["r", "g", "b"]},
        "y": np.arange(4.0),
    }
    a = recorded(40)
    a.attrs.update(coords=coords, transform=[10, 0, 300, 0, -10, 900])
    a.attrs["split"] = {"frame": {"t": -1, "c": 3, "z": 5}}
    a.append(np.ones((40, 4, 2), "u2"), axis="x", side="start")
    v = a.lazy.split().lazy[1:, ..., 1:3]
    with pytest.warns(xa.errors.LossyWarning, match="coordinate 'few'"):
        copy = xa.rechunk(v, None)
    assert_same(copy[...], v[...])
    assert copy.dims == ("t", "c", "z", "y", "x")
    assert "split" not in copy.attrs
    assert copy.attrs["transform"] == [10, 0, 290, 0, -10, 900]
    kept = copy.attrs["coords"]
    assert set(kept) == {"exposure", "channel", "y"}
    assert kept["exposure"]["dims"] == ["t", "c", "z"]
    expected = reshaped(np.arange(40.0), 0, (3, 3, 5), np.nan)[1:]
    np.testing.assert_array_equal(kept["exposure"]["data"], expected)
    assert kept["y"]["dims"] == ["y"]


def test_labels_that_no_float_holds_are_not_filled_up():
    with pytest.raises(ValueError, match="float"):
        filled_up(np.array([2**53 + 1, 2**53 + 3]), 0, (1, 3))
    assert filled_up(np.array([1, 2]), 0, (1, 3))[0, :2].tolist() == [1, 2]
