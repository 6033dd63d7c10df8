"""Axis names work wherever an axis is an argument, like the numbers that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa
from extarray.plot import growth_map

DIMS = ("time", "y", "x")


@pytest.fixture
def named():
    return xa.from_array(np.arange(24.0).reshape(2, 3, 4), chunks=(1, 2, 2), dims=DIMS)


class TestChanges:
    @pytest.mark.thread_unsafe(reason="changes the array of a fixture")
    def test_growth_takes_names(self, named):
        other = xa.from_array(named[...])
        for a, time, y, x in ((named, *DIMS), (other, 0, 1, 2)):
            a.extend(time, 1)
            a.append(np.ones((3, 3, 2)), axis=x)
            a.append(np.ones((3, 1, 6)), axis=y, side="start")
            a.shrink(time, 1, side="start")
            a.resize(5, axis=y)
        assert (named[...] == other[...]).all()

    def test_a_writer_that_shares_takes_names(self, tmp_path):
        xa.create(tmp_path / "a", (2, 3), dims=("y", "x")).close()
        with xa.open(tmp_path / "a", "r+", share=True) as a:
            a.append(np.ones((2, 1)), axis="x")
            a.extend("y", 1)
            assert a.shape == (3, 4)

    @pytest.mark.thread_unsafe(reason="changes the array of a fixture")
    def test_what_arrives_at_a_name(self, named):
        news = named.follow("x", timeout=0)
        named.append(np.ones((2, 3, 1)), axis="x")
        ((selection, data),) = news
        assert selection[2] == slice(4, 5)
        assert (data == 1).all()

    def test_rechunk_permutes_by_names(self, named):
        turned = xa.rechunk(named, axes=("x", "time", "y"))
        assert turned.dims == ("x", "time", "y")
        assert (turned[...] == named[...].transpose(2, 0, 1)).all()
        assert xa.rechunk_plan(named, axes=("x", 0, "y")).shape == (4, 2, 3)
        with pytest.raises(xa.ArgumentTypeError, match="not the string 'xy'"):
            xa.rechunk(named, axes="xy")
        with pytest.raises(xa.ArgumentTypeError, match="are unnamed"):
            xa.rechunk_plan((2, 3), axes=("y", "x"))

    @pytest.mark.thread_unsafe(reason="changes the array of a fixture")
    def test_sort_and_partition(self, named):
        expected = named[...]
        named.sort("y")
        expected.sort(1)
        named.partition(0, axis="x")
        expected.partition(0, axis=2)
        assert (named[...] == expected).all()


CALLS = [
    ("mean", lambda a, time, y, x: a.mean(axis=y)),
    ("sum by position", lambda a, time, y, x: a.sum(time)),
    ("several", lambda a, time, y, x: np.std(a, axis=(y, time), keepdims=True)),
    ("a list of names and numbers", lambda a, time, y, x: np.flip(a, [x, -2])),
    ("median", lambda a, time, y, x: np.median(a, x)),
    ("quantile", lambda a, time, y, x: np.quantile(a, 0.3, axis=(x, y))),
    ("argmax", lambda a, time, y, x: a.argmax(y)),
    ("cumsum", lambda a, time, y, x: a.cumsum(x)),
    ("sort", lambda a, time, y, x: np.sort(a, y)),
    ("concatenate", lambda a, time, y, x: np.concatenate([a, a], axis=time)),
    ("append", lambda a, time, y, x: np.append(a, a, x)),
    ("take", lambda a, time, y, x: a.take([0, -1], axis=x)),
    ("compress", lambda a, time, y, x: a.compress([True, False], time)),
    ("swapaxes", lambda a, time, y, x: a.swapaxes(x, time)[...]),
    ("moveaxis", lambda a, time, y, x: np.moveaxis(a, (x, time), (0, 1))[...]),
    ("transpose", lambda a, time, y, x: a.transpose(x, y, time)[...]),
    ("diagonal", lambda a, time, y, x: a.diagonal(0, y, x)),
    ("apply_along_axis", lambda a, time, y, x: np.apply_along_axis(np.ptp, y, a)),
    ("apply_over_axes", lambda a, time, y, x: np.apply_over_axes(np.sum, a, [time, x])),
    ("rot90", lambda a, time, y, x: np.rot90(a, 1, (y, x))),
    ("fft", lambda a, time, y, x: np.fft.fft(a, axis=y)),
    ("norm", lambda a, time, y, x: np.linalg.norm(a, axis=x)),
    ("reduce", lambda a, time, y, x: np.add.reduce(a, axis=(x, time))),
    ("accumulate", lambda a, time, y, x: np.maximum.accumulate(a, x)),
    ("reduceat", lambda a, time, y, x: np.add.reduceat(a, [0, 2], y)),
    ("order is no axis", lambda a, time, y, x: np.ravel(a, "F")),
]


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
class TestFunctions:
    def test_names_are_numbers(self, named, call):
        expected = call(named[...], 0, 1, 2)
        np.testing.assert_allclose(call(named, *DIMS), expected)

    def test_of_what_reads_late(self, named, call):
        expected = call(named[...].transpose(2, 0, 1), 1, 2, 0)
        for late in (named.transpose("x", "time", "y"), named.T.transpose(0, 2, 1).astype("f8")):
            np.testing.assert_allclose(call(late, *DIMS), expected)


class TestErrors:
    @pytest.mark.parametrize(
        "call",
        [
            lambda a: a.extend("z", 1),
            lambda a: a.append(np.ones((2, 3, 1)), axis="z"),
            lambda a: a.mean(axis="z"),
            lambda a: a.mean(axis=("y", "z")),
            lambda a: np.add.reduce(a, axis="z"),
            lambda a: a.T.sum("z"),
            lambda a: a.sort("z"),
            lambda a: xa.rechunk(a, axes=("x", "y", "z")),
        ],
    )
    def test_a_wrong_name_lists_the_names(self, named, call):
        with pytest.raises(xa.AxisError, match="no axis is named 'z'; the axes are") as caught:
            call(named)
        assert all(repr(name) in str(caught.value) for name in DIMS)
        assert isinstance(caught.value, np.exceptions.AxisError)

    @pytest.mark.parametrize(
        "call", [lambda a: a.extend("x", 1), lambda a: a.sum("x"), lambda a: a.sort("x")]
    )
    def test_axes_without_names(self, call):
        with pytest.raises(xa.ArgumentTypeError, match="'x': the axes are unnamed"):
            call(xa.zeros((2, 3)))

    def test_the_axes_of_a_result_have_numbers(self, named):
        with pytest.raises(TypeError):
            np.expand_dims(named, "x")


class TestGrowthMap:
    @pytest.mark.slow
    def test_labels_are_the_names(self, named):
        pytest.importorskip("matplotlib")
        figure = growth_map(named, at={"time": 1})
        (ax,) = figure.axes
        assert (ax.get_ylabel(), ax.get_xlabel()) == ("y", "x")
        labels = {ax.get_xlabel() for ax in growth_map(named, axis="x").axes}
        assert "y" in labels
        assert "x" not in labels
        figure = growth_map(named, at={0: 1}, names=("a", "b", "c"))
        assert figure.axes[0].get_xlabel() == "c"
        with pytest.raises(xa.AxisError, match="the axes are"):
            growth_map(named, at={"z": 1})

    @pytest.mark.parametrize("make", [lambda a: a.lazy[1:], lambda a: a.T, lambda a: a[...]])
    def test_what_has_no_chunks_says_so(self, named, make):
        pytest.importorskip("matplotlib")
        with pytest.raises(xa.ArgumentTypeError, match="no chunks of its own"):
            growth_map(make(named))
