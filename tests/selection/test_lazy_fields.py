"""Views of fields, ``a.lazy["v"]``: NumPy's views of fields are the oracle."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa

DTYPE = np.dtype(
    [("v", "f4"), ("p", [("u", "i2"), ("q", [("w", "f8"), ("b", "?")])]), ("s", "u1", (3,))]
)
ALIGNED = np.dtype([("a", "u1"), ("v", ">f8"), ("p", [("u", "u1"), ("w", "i4")])], align=True)


def records(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 2, (*shape, dtype.itemsize), dtype="u1")
    return np.ascontiguousarray(raw).view(dtype)[..., 0]


@pytest.fixture(params=["memory", "files", "pread"])
def made(request, path):
    """An array of records, and the same as a NumPy array."""
    x = records(DTYPE, (7, 5))
    target = None if request.param == "memory" else path
    with xa.from_array(x, target, chunks=(3, 2)) as a:
        if request.param == "pread":
            a.close()
            with xa.open(path, "r+", engine="pread") as b:
                yield b, x
        else:
            yield a, x


def same(a, x):
    got = a[...]
    assert got.dtype == x.dtype
    assert got.tobytes() == x.tobytes()


KEYS = {
    "all": ...,
    "rows": slice(2, 5),
    "back": (slice(None, None, -2), 1),
    "element": (2, 3),
    "points": ([0, 3], [1, 1]),
    "mask": np.arange(35).reshape(7, 5) % 3 == 0,
    "new": (None, 1),
}
PATHS = {"v": ["v"], "u": ["p", "u"], "b": ["p", "q", "b"], "record": ["p"], "inner": ["p", "q"]}


def view_of(a, x, names):
    view, want = a, x
    for name in names:
        view, want = view.lazy[name], want[name]
    return view, want


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("names", PATHS.values(), ids=PATHS)
def test_reading_and_writing(made, names, key):
    a, x = made
    view, want = view_of(a, x, names)
    assert (view.dtype, view.shape) == (want.dtype, want.shape)
    assert type(view[key]) is type(want[key])
    np.testing.assert_array_equal(view[key], want[key])
    new = records(want.dtype, np.shape(want[key]), seed=1)
    view[key] = new
    want[key] = new
    same(a, x)


def test_through_the_brackets_of_lazy(made):
    a, x = made
    a.lazy["v"][2:5] = 7
    x["v"][2:5] = 7
    a.lazy["v"] = 2 * a.lazy["v"]
    x["v"] = 2 * x["v"]
    a.lazy["v", 1:3] = 1
    x["v"][1:3] = 1
    a.lazy[4:, "p"].lazy["u"] += 3
    x["p"]["u"][4:] += 3
    np.add(a.lazy["v"], 1, out=a.lazy["v"])
    x["v"] += 1
    a.lazy["v"] = a.lazy["p"].lazy["u"]
    x["v"] = x["p"]["u"]
    a.lazy["v"].T[1] = np.arange(7)
    x["v"].T[1] = np.arange(7)
    a.lazy["v"] = a.lazy["v"].lazy[::-1]
    x["v"] = x["v"][::-1].copy()
    for row in a.lazy["v"].lazy:
        row[0] = row[1] + 1
    x["v"][:, 0] = x["v"][:, 1] + 1
    same(a, x)


def test_masked_values_are_refused_as_for_the_array(made):
    a, x = made
    for target in (a, a.lazy):
        with pytest.raises(xa.ArgumentError, match="masked values in a field"):
            target["v"] = np.ma.array(x["v"], mask=x["v"] == 0)
    same(a, x)


@pytest.mark.parametrize("names", [["v", "p"], ["p", "v"], ["s", "v"], ["v"]])
def test_several_names(made, names):
    """The view has records of these fields, like `a[names]`; writes leave all other bytes alone."""
    a, x = made
    view, want = a.lazy[names], x[names]
    assert view.dtype == want.dtype
    np.testing.assert_array_equal(view[1:, ::2], want[1:, ::2])
    assert view[2, 3] == want[2, 3]
    for key, new in (
        (slice(1, 4), x[4:7]),
        ((2, 3), x[0, 0]),
        (..., x[::-1].copy()),
    ):
        view[key] = new[names]
        for name in names:
            x[name][key] = new[name]
        same(a, x)
    view[:] = xa.from_array(x[::-1].copy()).lazy[names]
    want[:] = x[::-1][names].copy()
    same(a, x)
    assert a.lazy[1:3, "v", "p"].dtype == x[["v", "p"]].dtype


def test_other_bytes_stay(path):
    """Writers of different fields harm neither each other nor the bytes between fields."""
    x = records(ALIGNED, (4, 3))
    with xa.from_array(x, path, chunks=(4, 3)) as a:
        raw = np.fromfile(f"{path}.xta", "u1")
        a.lazy[["a", "p"]][...] = np.zeros((4, 3), x.dtype)[["a", "p"]]
        a.flush()
        now = np.fromfile(f"{path}.xta", "u1")
        own = np.zeros(ALIGNED.itemsize, bool)
        inner, offset = ALIGNED.fields["p"]
        own[0] = own[offset : offset + inner.itemsize] = True
        owns = np.resize(own, x.nbytes)
        assert (now[: x.nbytes][~owns] == raw[: x.nbytes][~owns]).all()
        assert not a["a"].any()
        assert not a["p"]["w"].any()


@given(data=st.data())
def test_any_index_of_any_field(data):
    """A view of a view of a field, and writes through it."""
    x = records(DTYPE, (6, 4))
    a = xa.from_array(x, chunks=(4, 3))
    starts = st.integers(-7, 7) | st.none()
    cuts = st.builds(slice, starts, starts, st.integers(-3, 3).filter(bool))
    view, want = view_of(a, x, data.draw(st.sampled_from(list(PATHS.values()))))
    for _ in range(2):
        key = data.draw(st.tuples(*[cuts] * want.ndim))
        view, want = view.lazy[key], want[key]
        if data.draw(st.booleans()):
            view, want = view.T, want.T
    np.testing.assert_array_equal(view[...], want)
    new = records(want.dtype, want.shape, seed=2)
    view[...] = new
    want[...] = new
    assert a[...].tobytes() == x.tobytes()


def test_functions_and_copies(made, tmp_path):
    a, x = made
    view, want = a.lazy["v"], x["v"]
    assert view.sum() == want.sum()
    np.testing.assert_array_equal(np.sqrt(view), np.sqrt(want))
    np.testing.assert_array_equal(view + 1, want + 1)
    np.testing.assert_array_equal(np.asarray(view), want)
    np.testing.assert_array_equal(view.astype("f8")[...], want.astype("f8"))
    for copy in (xa.from_array(view), xa.from_array(view, tmp_path / "copy")):
        assert copy.dtype == "f4"
        np.testing.assert_array_equal(copy[...], want)
        copy.close()
    xa.rechunk(view, tmp_path / "other", chunks=(2, 5), axes=(1, 0)).close()
    with xa.open(tmp_path / "other") as other:
        np.testing.assert_array_equal(other[...], want.T)
    again = pickle.loads(pickle.dumps(view))
    np.testing.assert_array_equal(again[...], want)
    again.base.close()


def test_the_fill_value_is_that_of_the_field(tmp_path):
    dtype = np.dtype([("k", "i2"), ("v", "f4")])
    a = xa.create(None, (2, 2), dtype, fill_value=(3, 1.5))
    assert a.lazy["v"].fill_value == 1.5
    assert a.lazy[...].fill_value == a.fill_value
    a.lazy["v"][0] = 7
    assert a[...].tolist() == [[(3, 7), (3, 7)], [(3, 1.5), (3, 1.5)]]
    xa.rechunk(a.lazy["v"], tmp_path / "v").close()
    with xa.open(tmp_path / "v", "r+") as v:
        v.extend(0, 1)
        assert v[...].tolist() == [[7, 7], [1.5, 1.5], [1.5, 1.5]]


def test_views_of_different_fields_are_not_the_same(path, tmp_path):
    """Caches that identify views by their elements distinguish fields."""
    dask = pytest.importorskip("dask.base")
    with xa.from_array(records(DTYPE, (7, 5)), path) as a:
        views = [a.lazy[...], a.lazy["v"], a.lazy["p"], a.lazy[["v"]]]
        assert len({dask.tokenize(view) for view in views}) == 4
        xa.rechunk(a.lazy["v"], tmp_path / "v").close()
        xa.rechunk(a.lazy["v"], tmp_path / "v", resume=True).close()
        with pytest.raises(xa.ExtArrayError):
            xa.rechunk(a.lazy["p"].lazy["u"], tmp_path / "v", resume=True)


def test_a_view_of_a_field_stays_with_its_elements(made):
    a, x = made
    view = a.lazy["v"]
    a.extend(0, 2, side="start")
    np.testing.assert_array_equal(view[...], x["v"])
    assert a.lazy["v"].shape == (9, 5)


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        ("z", xa.FieldError, "no field of name z"),
        (["v", "z"], xa.FieldError, "no field of name z"),
        (["v", "v"], xa.ArgumentError, "v"),
        ("s", xa.ArgumentError, r"array of shape \(3,\) in each record"),
    ],
)
def test_what_gives_no_view(key, error, words):
    a = xa.from_array(records(DTYPE, (3, 2)))
    with pytest.raises(error, match=words):
        a.lazy[key]
    with pytest.raises(IndexError):
        xa.zeros(3).lazy["v"]
    with pytest.raises(IndexError):
        a.lazy["v"].lazy["v"]


def test_a_view_says_of_what_it_is():
    a = xa.from_array(records(DTYPE, (3, 2)))
    assert "shape (3, 2), dtype float32, of" in repr(a.lazy["v"])
