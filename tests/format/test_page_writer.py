"""A writer built from the format pages leaves whole arrays, which the package then extends."""

import json
from itertools import islice

import format_reader
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import extarray as xa

pytest.importorskip("fcntl", reason="the second writer calls POSIX")
from format_writer import Writer, commit_together

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

steps = st.lists(
    st.tuples(
        st.sampled_from(["grow", "grow", "cut", "put", "attrs", "flush", "reopen", "package"]),
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=12,
)


def grown(model, axis, side, by):
    """Return the model with `by` more zeros on a side of an axis."""
    widths = [(0, 0)] * model.ndim
    widths[axis] = (by, 0) if side else (0, by)
    return np.pad(model, widths)


def without(model, axis, side, by):
    """Return the model without `by` elements on a side of an axis."""
    n = model.shape[axis]
    return np.take(model, range(by, n) if side else range(n - by), axis)


def check(path, model, attrs):
    """Assert that the package and the second reader find the model, and nothing to repair."""
    assert [p for p in xa.check(path).problems if p.severity != "note"] == []
    values, found = format_reader.read(path)
    assert np.array_equal(values, model)
    assert found == attrs
    with xa.open(path) as array:
        assert np.array_equal(array[...], model)
        assert dict(array.attrs) == attrs


@pytest.mark.slow
@given(steps=steps, order=st.sampled_from("CFZH"))
@QUICK
def test_what_the_second_writer_leaves(tmp_path_factory, steps, order):
    path = tmp_path_factory.mktemp("written") / "a"
    xa.create(path, (2, 3), "<i4", chunks=(2, 2), order=order).close()
    model, attrs, writer = np.zeros((2, 3), "<i4"), {}, Writer(path)
    for n, (step, axis, side, by) in enumerate(steps, 1):
        if step == "grow":
            writer.grow(axis, side, by)
            model = grown(model, axis, side, by)
        elif step == "cut":
            by = min(by, model.shape[axis])
            writer.cut(axis, side, by)
            model = without(model, axis, side, by)
        elif step == "put":
            for index in np.ndindex(*model.shape):
                model[index] = n * 100 + sum(index)
                writer.put(index, model[index].tobytes())
        elif step == "attrs":
            attrs = {"step": n, "text": "x" * by}
            writer.set_attrs(json.dumps(attrs).encode())
        elif step == "flush":
            writer.flush()
        elif step == "reopen":
            writer.close()
            writer = Writer(path)
        else:
            writer.close()
            check(path, model, attrs)
            with xa.open(path, "r+") as array:
                array.extend(axis, by, "start" if side else "end")
                array.attrs["step"] = attrs["step"] = n
            model = grown(model, axis, side, by)
            writer = Writer(path)
    writer.close()
    check(path, model, attrs)


def test_many_segments(tmp_path):
    path = tmp_path / "a"
    xa.create(path, (1, 1), "|u1", chunks=(1, 1)).close()
    writer = Writer(path)
    for n in range(30):
        writer.grow(n % 2, 0, 1)
    assert len(writer.extents) == 3
    writer.close()
    check(path, np.zeros((16, 16), "u1"), {})


def test_it_holds_the_lock(tmp_path):
    path = tmp_path / "a"
    xa.create(path, (1,), "|u1").close()
    writer = Writer(path)
    with pytest.raises(xa.LockedError):
        xa.open(path, "r+")
    writer.close()
    xa.open(path, "r+").close()


@pytest.mark.parametrize("torn", [False, True])
def test_a_writer_that_dies(tmp_path, torn):
    """After a flush, with or without the superblock written last."""
    path = tmp_path / "a"
    xa.create(path, (2, 2), "<i4", chunks=(2, 2)).close()
    writer = Writer(path)
    writer.grow(0, 0, 3)
    writer.put((4, 1), b"\7\0\0\0")
    writer.flush()
    writer.grow(1, 1, 1)
    if torn:
        place = format_reader.superblock_place(writer.header, writer.sequence % 2)
        with path.with_suffix(".xmd").open("r+b") as xmd:
            xmd.seek(place + 8)
            xmd.write(b"torn")
    model = np.zeros((5, 2 if torn else 3), "<i4")
    model[4, -1] = 7
    with xa.open(path) as array:
        assert np.array_equal(array[...], model)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("step", range(10))
def test_a_commit_of_several_arrays(tmp_path, step, again):
    """Wherever the commit stops, it counts for all arrays or for none, and the package goes on."""
    (tmp_path / "ä b").mkdir()
    paths = [tmp_path / "one", tmp_path / "ä b" / "two", tmp_path / "three"]
    for path in paths:
        xa.create(path, (2, 2), "<i4", chunks=(2, 2)).close()
    writers = [Writer(path) for path in paths]
    for writer in writers:
        writer.grow(0, 0, 3, commit=False)
    decided = True in [*islice(commit_together(b"a group of three", *writers), step)]
    for writer in writers:
        writer.die()
    rows = 5 if decided else 2
    for path in paths:
        assert format_reader.read(path)[0].shape == (rows, 2)
        with xa.open(path) as array:
            assert array.shape == (rows, 2)
    arrays = [xa.open(path, "r+") for path in reversed(paths)]
    if again:
        with xa.commit(arrays):
            for array in arrays:
                array.append(np.full((1, 2), 9))
    for array in arrays:
        array.close()
    model = np.zeros((rows + again, 2), "<i4")
    model[rows:] = 9
    for path in paths:
        check(path, model, {})
