"""Pyramids: levels that grow with their array; NumPy computes them anew as the oracle."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from injected import at_every_place, needs_no_tracing

import extarray as xa
from extarray.array import growth, pyramid, resizing
from extarray.array.pyramid import halved

RNG = np.random.default_rng(7)


def numbers(*shape, dtype="u2"):
    return RNG.integers(0, 60_000, shape).astype(dtype)


def means(x, axes, first):
    """Return the rounded means of pairs; `first` counts the elements before index 0."""
    x = x.astype("f8")
    for axis in axes:
        pair = (np.arange(x.shape[axis]) + first[axis]) // 2
        pair -= first[axis] // 2
        n = int(pair.max(initial=-1)) + 1
        sums = np.zeros((n, *np.moveaxis(x, axis, 0).shape[1:]))
        np.add.at(sums, pair, np.moveaxis(x, axis, 0))
        counts = np.bincount(pair, minlength=n).reshape(-1, *[1] * (x.ndim - 1))
        x = np.moveaxis(sums / np.maximum(counts, 1), 0, axis)
    return np.rint(x)


def check(p, axes=(1, 2)):
    """Compare each level with the one above."""
    above, first = p.array[...], [-o for o in p.array.origin]
    for level in p.levels:
        wanted = means(above, axes, first)
        assert level.shape == wanted.shape
        np.testing.assert_array_equal(level[...], wanted)
        above = level[...]
        first = [n // 2 if j in axes else n for j, n in enumerate(first)]


# -- elements ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i2", "f4"])
@pytest.mark.parametrize("missing", [[0], [0, 1], [7, 0]])
def test_no_mean_is_taken_for_a_missing_element(dtype, missing):
    marks = [np.dtype(dtype).type(each) for each in missing]
    found = halved(np.array([[-5, 5, 0, 0, -5, 0]], dtype), [1], missing=marks)
    assert found[0, 0] not in marks and 0 <= found[0, 0] <= 2
    assert found[0, 1] in marks and found[0, 2] == -5


@pytest.mark.parametrize("axes", [(1, 1), (1, -1), 1.5, ()])
def test_axes_are_some_axes_each_once(axes):
    with pytest.raises(xa.ExtArrayError):
        xa.pyramid(xa.zeros((4, 4)), levels=1, axes=axes)


def test_an_axis_may_be_an_integer_of_numpy():
    assert xa.pyramid(xa.zeros((4, 4)), levels=1, axes=np.int64(1)).levels[0].shape == (4, 2)


@given(st.sampled_from(["u1", "i2", "u4", "f4", "f8", "c8"]), st.integers(1, 7), st.integers(1, 7))
def test_means_are_those_of_numpy(dtype, n, m):
    x = (RNG.integers(-90 if dtype[0] != "u" else 0, 120, (n, m))).astype(dtype)
    padded = np.full((n + n % 2, m + m % 2), np.nan, "c16")
    padded[:n, :m] = x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        wanted = np.nanmean(padded.reshape(-(-n // 2), 2, -(-m // 2), 2), axis=(1, 3))
    wanted = wanted if dtype[0] == "c" else wanted.real
    got = halved(x, (0, 1))
    assert got.dtype == dtype
    if dtype[0] in "ui":
        np.testing.assert_array_equal(got, np.rint(wanted))
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_missing_elements_do_not_count():
    x = np.array([[1, np.nan, np.nan], [3, 5, np.nan]], "f4")
    np.testing.assert_array_equal(halved(x, (0, 1)), [[3, np.nan]])
    y = np.array([[1, -9, -9], [3, 5, -9]], "i2")
    np.testing.assert_array_equal(halved(y, (0, 1), missing=[np.int16(-9)]), [[3, -9]])
    a = xa.from_array(y, attrs={"_FillValue": -9})
    with xa.pyramid(a, levels=1) as p:
        np.testing.assert_array_equal(p.levels[0][...], [[3, -9]])
        assert p.levels[0].attrs["_FillValue"] == -9


@pytest.mark.parametrize("dtype", ["?", "i8", "S3", "M8[s]"])
def test_other_elements_are_the_first_ones(dtype):
    x = np.arange(15).reshape(3, 5).astype(dtype)
    with xa.pyramid(xa.from_array(x), levels=1) as p:
        np.testing.assert_array_equal(p.levels[0][...], x[::2, ::2])


def test_nearest_keeps_labels():
    x = numbers(5, 6)
    with xa.pyramid(xa.from_array(x), levels=2, how="nearest") as p:
        np.testing.assert_array_equal(p.levels[1][...], x[::4, ::4])


# -- growth --------------------------------------------------------------------------------------


@given(st.data())
def test_levels_follow_growth_and_cuts_of_any_axis(data):
    a = xa.create(None, (0, 5, 7), "u2", dims=("t", "y", "x"), chunks=(2, 4, 4))
    p = xa.pyramid(a, levels=2)
    for _ in range(data.draw(st.integers(1, 8))):
        axis, n = data.draw(st.integers(0, 2)), data.draw(st.integers(1, 6))
        side = data.draw(st.sampled_from(["start", "end"]))
        if data.draw(st.booleans()):
            a.append(numbers(*a.shape[:axis], n, *a.shape[axis + 1 :]), axis, side)
            if data.draw(st.booleans()):
                continue
        else:
            a.shrink(axis, min(n, a.shape[axis]), side)
        p.update()
        check(p)
    p.update()
    check(p)
    assert not p.update()


def test_only_what_is_new_is_computed(monkeypatch):
    a = xa.create(None, (0, 8, 8), "u2", dims=("t", "y", "x"), chunks=(1, 8, 8))
    p = xa.pyramid(a, levels=2)
    a.append(numbers(20, 8, 8))
    p.update()
    counted = []
    once = pyramid.halved
    monkeypatch.setattr(
        pyramid, "halved", lambda x, *args: counted.append(x.shape) or once(x, *args)
    )
    a.append(numbers(1, 8, 8))
    assert p.update()
    assert counted == [(1, 8, 8), (1, 4, 4)]
    check(p)


def test_changes_are_taken_up_when_asked_for():
    a = xa.from_array(numbers(6, 8))
    p = xa.pyramid(a, levels=2)
    a[...] = numbers(6, 8)
    assert not p.update()
    assert p.update(whole=True)
    check(p, (0, 1))


@given(st.lists(st.integers(1, 9), max_size=6), st.sampled_from([("z",), ("z", "y", "x")]))
def test_frames_of_a_recording(steps, axes):
    """The axis z is one of those for which frames stand: a level has fewer frames."""
    dims, split = ("frame", "y", "x"), {"frame": {"t": -1, "c": 3, "z": 5}}
    a = xa.create(None, (0, 4, 6), "u2", dims=dims, split=split)
    p = xa.pyramid(a, levels=2, axes=axes)
    for n in steps:
        a.append(numbers(n, 4, 6))
        p.update()
    above, length = a, 5
    for level in p.levels:
        whole = np.full(above.lazy.split().shape, np.nan)
        flat = whole.reshape(-1, *above.shape[1:])
        flat[: len(above)] = above[...]
        half = -(-length // 2)
        pad = [(0, half * 2 - n if j == 2 else 0) for j, n in enumerate(whole.shape)]
        whole = np.pad(whole, pad, constant_values=np.nan)
        t, c, _, y, x = whole.shape
        blocks = whole.reshape(t, c, half, 2, y, x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            if "y" in axes:
                by_y = np.full((t, c, half, 2, y + y % 2, x + x % 2), np.nan)
                by_y[..., :y, :x] = blocks
                by_y = by_y.reshape(t, c, half, 2, -(-y // 2), 2, -(-x // 2), 2)
                wanted = np.nanmean(by_y, axis=(3, 5, 7))
            else:
                wanted = np.nanmean(blocks, axis=3)
        got = level.lazy.split()
        assert got.shape == wanted.shape and got.dims == ("t", "c", "z", "y", "x")
        has_come = ~np.isnan(wanted)
        np.testing.assert_array_equal(got[...][has_come], np.rint(wanted[has_come]))
        above, length = level, half


def test_readers_beside_the_recording(tmp_path):
    with xa.create(tmp_path / "a", (0, 6, 8), "u2", dims=("t", "y", "x"), chunks=(1, 6, 8)) as a:
        a.append(numbers(3, 6, 8))
        with xa.open(tmp_path / "a") as reader, xa.pyramid(reader, levels=2) as p:
            check(p)
            with xa.pyramid(xa.open(tmp_path / "a"), mode="r") as seen:
                assert len(seen.levels) == 2 and seen.levels[0].mode == "r"
                with pytest.raises(xa.errors.ReadOnlyError, match="mode='r\\+'"):
                    seen.update()
                a.append(numbers(2, 6, 8))
                assert p.update() and seen.refresh()
                check(seen)
                seen.array.close()


# -- kills ---------------------------------------------------------------------------------------


@needs_no_tracing
@pytest.mark.slow
def test_an_update_that_is_killed_is_taken_up_by_the_next(tmp_path):
    a = xa.create(tmp_path / "a", (2, 5, 7), "u2", dims=("t", "y", "x"), chunks=(1, 4, 4))
    a[...] = numbers(2, 5, 7)
    p = xa.pyramid(a, levels=2)
    a.append(numbers(3, 5, 7))
    a.append(numbers(5, 4, 7), axis="y")
    a.append(numbers(5, 9, 3), axis="x", side="start")
    folder = tmp_path / "a.pyramid"
    states = []

    def look(place):
        state = {file.name: file.read_bytes() for file in folder.iterdir()}
        if not states or state != states[-1]:
            states.append(state)

    with at_every_place(look, pyramid, growth, resizing):
        p.update()
    check(p)
    wanted = [level[...] for level in p.levels]
    p.close()
    assert len(states) > 10
    for state in states:
        shutil.rmtree(folder)
        folder.mkdir()
        for name, content in state.items():
            (folder / name).write_bytes(content)
        with xa.pyramid(a, mode="r+") as again:
            again.update()
            for level, x in zip(again.levels, wanted, strict=True):
                np.testing.assert_array_equal(level[...], x)
    a.close()


# -- files and arguments -------------------------------------------------------------------------


def test_levels_are_opened_again(tmp_path):
    with xa.create(tmp_path / "a", (600, 800), "u1", compression="zlib") as a:
        a[...] = numbers(600, 800, dtype="u1")
        with xa.pyramid(a) as p:
            assert [level.shape for level in p.levels] == [(300, 400), (150, 200)]
            assert p.axes == (0, 1) and p.how == "mean"
            assert "levels (300, 400), (150, 200)" in repr(p)
        with xa.pyramid(a, levels=2, how="mean", axes=(-2, -1)) as p:
            check(p, (0, 1))
            with pytest.raises(xa.LockedError):
                xa.pyramid(a)
        with pytest.raises(xa.errors.ClosedError):
            p.update()
        with pytest.raises(xa.errors.ArgumentError, match="has levels=2; leave that out"):
            xa.pyramid(a, levels=3)
        with pytest.raises(xa.errors.ArgumentError, match="has how='mean'"):
            xa.pyramid(a, how="nearest")
        with xa.pyramid(a, levels=1, how="nearest", overwrite=True) as p:
            np.testing.assert_array_equal(p.levels[0][...], a[::2, ::2])
        assert xa.check(tmp_path / "a.pyramid" / "1", data=True).ok


def test_levels_of_another_array_are_refused(tmp_path):
    for _ in range(2):
        with xa.create(tmp_path / "a", (8, 8), overwrite=True) as a:
            pass
        if not (tmp_path / "a.pyramid").exists():
            xa.pyramid(xa.open(tmp_path / "a"), levels=1).close()
    with xa.open(tmp_path / "a") as a:
        with pytest.raises(xa.errors.ArgumentError, match="overwrite=True"):
            xa.pyramid(a)
        xa.pyramid(a, levels=1, overwrite=True).close()
        xa.pyramid(a).close()


def test_what_is_refused(tmp_path):
    a = xa.from_array(numbers(4, 4), path=tmp_path / "a", dims=("y", "x"))
    with pytest.raises(xa.errors.MissingError, match="mode='a'"):
        xa.pyramid(a, mode="r")
    with pytest.raises(xa.errors.ArgumentError, match="at least 1"):
        xa.pyramid(a, levels=0)
    with pytest.raises(xa.errors.AxisError):
        xa.pyramid(a, axes="z")
    with pytest.raises(xa.errors.ArgumentError, match="one axis at least"):
        xa.pyramid(a, axes=[])
    with pytest.raises(xa.errors.ArgumentTypeError, match="copy a view first"):
        xa.pyramid(a.lazy[1:])
    (tmp_path / "taken").write_text("")
    with pytest.raises(xa.errors.ExistsError, match="no pyramid"):
        xa.pyramid(a, tmp_path / "taken", overwrite=True)
    with pytest.raises(xa.errors.ArgumentError, match="mode='a'"):
        xa.pyramid(xa.ones((2, 2)), mode="r")
    a.close()
    dims, split = ("frame", "y", "x"), {"frame": {"c": 3, "z": -1}}
    b = xa.create(None, (6, 4, 4), dims=dims, split=split)
    with pytest.raises(xa.errors.ArgumentError, match="no length but the first"):
        xa.pyramid(b, axes="z")
    with pytest.raises(xa.errors.ArgumentError, match="name the one of these"):
        xa.pyramid(b, axes="frame")
    c = xa.create(None, (6, 4, 4), dims=dims, split={"frame": {"t": -1, "z": 3}})
    p = xa.pyramid(c, axes=("z", "y"), levels=1)
    c.append(np.ones((3, 4, 4)), side="start")
    with pytest.raises(xa.errors.ArgumentError, match="moves all of its frames"):
        p.update()


def test_levels_of_packed_numbers_are_packed():
    a = xa.create(None, (4, 4), "i2", attrs={"scale_factor": 0.5, "add_offset": 3, "BLANK": -1})
    attrs = dict(xa.pyramid(a, levels=1).levels[0].attrs)
    del attrs["pyramid"]
    assert attrs == dict(a.attrs)


@pytest.mark.parametrize("names", [("Y", "X"), None])
def test_axes_with_other_names_are_told(names):
    a = xa.create(None, (4, 4), dims=("y", "x"))
    p = xa.pyramid(a, levels=1)
    a.dims = names
    with pytest.raises(xa.errors.ArgumentError, match="names again"):
        p.update()
    a.dims = ("y", "x")
    assert not p.update()
