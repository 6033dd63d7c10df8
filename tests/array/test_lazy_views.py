"""Lazy views, with NumPy's views and the places of elements as the oracle."""

from __future__ import annotations

import copy
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
from extarray.array.lazy import LazyView
from extarray.grid.tiles import tiles
from extarray.streaming.operands import chunks_of

numeric = st.sampled_from([np.dtype(d) for d in ["i4", "f8", ">i2", "u1"]])


# -- reading and writing -------------------------------------------------------------------------


@pytest.mark.slow
@given(case=cases(max_ndim=3), data=st.data())
def test_a_view_reads_as_numpys(factory, case, data):
    with built(factory, case) as (array, model):
        view, places = data.draw(chains(array.lazy[...], everywhere(array.shape)))
        expected = elements(model.data, places)
        assert isinstance(view, LazyView)
        assert view.base is array
        assert (view.shape, view.ndim, view.size) == (places.shape, places.ndim, places.size)
        assert (view.dtype, view.nbytes) == (expected.dtype, expected.nbytes)
        assert len(view.chunks) == view.ndim
        assert_same(view.read(), expected)
        assert_same(view[...], expected[...])
        assert view.read(order="F").flags.f_contiguous
        out = np.empty(view.shape[::-1], view.dtype).T
        assert view.read(out=out) is out
        assert_same(out, expected)
        for kind in (selections, fancy_selections):
            key = data.draw(kind(view.shape))
            assert_same_outcome(lambda key=key: view[key], lambda key=key: expected[key])


@pytest.mark.slow
@given(case=cases(max_ndim=3), data=st.data())
def test_a_view_writes_through(factory, case, data):
    with built(factory, case) as (array, model):
        view, places = data.draw(chains(array.lazy[...], everywhere(array.shape), writable=True))
        expected = elements(model.data, places)
        key = data.draw(st.one_of(selections(view.shape), fancy_selections(view.shape)))
        try:
            shape = expected[key].shape
        except IndexError:
            shape = ()
        if shape and data.draw(st.booleans()):
            shape = data.draw(st.sampled_from([shape[1:], (1, *shape)]))
        value = sample(case.dtype, shape, seed=9)
        if data.draw(st.booleans()):
            value = xa.from_array(value)

        def change(x):
            x[key] = value if x is view else np.asarray(value)

        assert_same_outcome(lambda: change(view), lambda: change(expected))
        model.data.reshape(-1)[places] = expected
        assert_same(array[...], model.data)


@given(case=cases(numeric, min_ndim=1, max_ndim=3), data=st.data())
def test_overlapping_views(factory, case, data):
    """NumPy's views, which share memory, are the oracle."""
    with built(factory, case) as (array, model):
        steps = [slice(None), slice(None, None, -1)]
        a, x = array.lazy[...], model.data
        if array.ndim > 1 and data.draw(st.booleans()):
            half = slice(0, min(array.shape[:2]))
            a, x = a.lazy[half, half], x[half, half]
            u, y = a.swapaxes(0, 1), x.swapaxes(0, 1)
        else:
            u, y = a, x
        key = tuple(data.draw(st.sampled_from(steps)) for _ in a.shape)
        u, y = u.lazy[key], y[key]
        if a.ndim and data.draw(st.booleans()):
            some = st.sampled_from([slice(None, -1), slice(1, None), slice(1), slice(-1, None)])
            one, other = data.draw(some), data.draw(some)
            a, x, u, y = a.lazy[one], x[one], u.lazy[other], y[other]
        way = data.draw(st.sampled_from(["view", "array", "add", "add to", "copyto"]))
        with small_boxes(), np.errstate(all="ignore"):
            if way == "view":
                assert_same_outcome(lambda: a.write(..., u), lambda: x.__setitem__(..., y))
            elif way == "array" and a.base is array and a.shape == array.shape:
                assert_same_outcome(
                    lambda: array.__setitem__(..., u), lambda: model.data.__setitem__(..., y)
                )
            elif way == "add to":
                if x.shape == y.shape:
                    a += u
                    x += y
            elif way == "copyto":
                if x.shape == y.shape:
                    np.copyto(a, u)
                    np.copyto(x, y)
            elif x.shape == y.shape:
                assert np.add(a, u, out=u) is u
                np.add(x, y, out=y)
        assert_same(array[...], model.data)


def test_views_that_share_nothing_are_not_copied(memory):
    with memory.array((2000, 500), chunks=(100, 100)) as array:
        array[...] = 1
        odd, even = array.lazy[1::2], array.lazy[::2]
        left, right = array.lazy[:, :250], array.lazy[:, 250:]
        with xa.config.set(max_memory=2**18, max_result=2**18, warn_result=2**18):
            odd += even
            left[...] = right
            array[:, 250:] = left
            even += even
            with pytest.raises(xa.ResultError, match="shares elements"):
                odd += array.lazy[999::-1]
            array.lazy[::2] += 1
        expected = np.ones((2000, 500))
        expected[1::2] = 2
        expected[::2] = 3
        assert_same(array[...], expected)


def test_what_is_assigned_is_what_was_there(factory):
    data = np.arange(600.0).reshape(30, 20)
    with factory.array((30, 20), chunks=(7, 8)) as array, xa.config.set(max_memory=512):
        array[...] = data
        for value in (
            lambda x: x,
            lambda x: x.astype("f4"),
            lambda x: (x.lazy if isinstance(x, xa.ExtArray) else x)[::-1].astype("f4"),
        ):
            array[::-1] = value(array)
            data[::-1] = value(data).copy()
            assert_same(array[...], data)
            array.lazy[:, ::-1] = value(array)
            data[:, ::-1] = value(data).copy()
            assert_same(array[...], data)
        array[:, 5] = array.lazy[0, :1]
        array[3] = array.flat[:20]
        array[[4, 5]] = array.lazy[[5, 4]]
        data[:, 5] = data[0, 0]
        data[3] = data.flat[:20]
        data[[4, 5]] = data[[5, 4]]
        assert_same(array[...], data)


@pytest.mark.parametrize("axis", [None, 0, -1, ()])
def test_squeezed_without_axes(axis):
    a = xa.full((), 7)
    view = np.squeeze(a, axis=axis)
    assert isinstance(view, LazyView)
    assert (view.shape, int(view)) == (np.squeeze(np.array(7), axis=axis).shape, 7)


@pytest.mark.parametrize("dtype", ["S3", "U3", "M8[s]", "f8", [("t", "S2")]])
def test_an_element_of_any_dtype_is_assigned(factory, dtype):
    """Assigning to a single element counts, too: NumPy converts scalars differently from arrays."""
    data = sample(np.dtype(dtype), (3,), 1)
    with factory.array((3,), data.dtype) as array:
        array[...] = data
        lone = array.lazy[2]
        array[0] = lone
        array[1] = lone.astype(dtype)
        assert_same(array[...], data[[2, 2, 2]])


# -- NumPy's functions ---------------------------------------------------------------------------

EXPRESSIONS = {
    "sum": lambda v: v.sum(),
    "mean": lambda v: v.mean(axis=0),
    "std": lambda v: v.std(axis=-1),
    "max": lambda v: v.max(axis=1, keepdims=True),
    "argmin": lambda v: v.argmin(),
    "+": lambda v: v + v,
    "1 -": lambda v: 1 - v,
    "sqrt": lambda v: np.sqrt(abs(v)),
    "==": lambda v: v == 3,
    "@": lambda v: v @ v.T,
    "dot": lambda v: np.dot(v.T, v),
    "cumsum": lambda v: np.cumsum(v, axis=0),
    "where": lambda v: np.where(v > 5, v, 0),
    "concatenate": lambda v: np.concatenate([v, v.T[:, :1].T]),
    "median": lambda v: np.median(v, axis=0),
    "sort": lambda v: np.sort(v, axis=0),
    "unique": lambda v: np.unique(v),
    "asarray": lambda v: np.asarray(v, "f4"),
    "astype": lambda v: np.asarray(v.astype("f4").sum(axis=0)),
    "take": lambda v: v.take([0, 5, -1]),
    "ravel": lambda v: v.ravel(),
    "flat": lambda v: np.array(list(v.flat)),
    "len": lambda v: len(v),
    "list": lambda v: np.array(list(v)),
    "in": lambda v: 7 in v,
    "reshape": lambda v: v.reshape(-1),
    "copy": lambda v: v.copy(),
    "copy of copy": lambda v: copy.deepcopy(v),
    "tolist": lambda v: v.tolist(),
    "float": lambda v: float(v.T[0, 0]),
    "fft": lambda v: np.fft.fft(v, axis=0),
    "einsum": lambda v: np.einsum("ij,kj->ik", v, v),
    "diagonal": lambda v: v.diagonal(),
    "kron": lambda v: np.kron(v, v),
    "by a mask of itself": lambda v: v[v > 7],
    "dlpack": lambda v: np.from_dlpack(v),
}
VIEWS = {
    "all": (lambda a: a.lazy[...], lambda x: x[...]),
    "T": (lambda a: a.lazy[...].T, lambda x: x.T),
    "strided": (lambda a: a.lazy[1:9:2, ::-1], lambda x: x[1:9:2, ::-1]),
    "list": (lambda a: a.lazy[[3, 0, 8, 4]], lambda x: x[[3, 0, 8, 4]]),
    "transposed list": (lambda a: a.lazy[:, [5, 0, 1]].T, lambda x: x[:, [5, 0, 1]].T),
    "broadcast": (
        lambda a: np.broadcast_to(a.lazy[2, 1:], (3, 6)),
        lambda x: np.broadcast_to(x[2, 1:], (3, 6)),
    ),
}


@pytest.fixture(scope="module")
def pair(memory):
    """Yield an array and its elements, which no test changes."""
    data = np.random.default_rng(4).integers(-9, 20, (9, 7)).astype("f8")
    with memory.array((9, 4), chunks=(4, 2)) as array:
        array.extend(1, 3)
        array[...] = data
        yield array, data


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_functions_of_a_view(pair, view, expression):
    expected = expression(view[1](pair[1]))
    with small_boxes():
        got = expression(view[0](pair[0]))
    if isinstance(expected, (np.ndarray, np.generic)):
        assert_close(np.asarray(got), np.asarray(expected), pair[1])
    else:
        assert got == expected


@pytest.mark.parametrize("kind", list(VIEWS)[:-1])
def test_a_view_as_output(factory, kind):
    data = np.arange(63.0).reshape(9, 7)
    with factory.array((9, 7), chunks=(4, 3)) as array:
        array[...] = data
        ours, numpys = VIEWS[kind]
        v, w = ours(array), numpys(data).copy()
        with small_boxes():
            v *= 2
            v -= w[::-1]
            np.sqrt(abs(v), out=v, where=w > 20)
            np.cumsum(v, axis=0, out=v)
            np.clip(v, 3, 900, out=v)
            np.add.at(v, ([0, 0, 1], [1, 1, 2]), 5)
            np.put(v, [0, -1], 77)
            v.sort(axis=0)
            v.flat[2:4] = [8, 9]
        w = w * 2 - w[::-1]
        np.sqrt(abs(w), out=w, where=numpys(data) > 20)
        np.cumsum(w, axis=0, out=w)
        np.clip(w, 3, 900, out=w)
        np.add.at(w, ([0, 0, 1], [1, 1, 2]), 5)
        np.put(w, [0, -1], 77)
        w.sort(axis=0)
        w.flat[2:4] = [8, 9]
        np.testing.assert_allclose(v[...], w)
        places = numpys(everywhere((9, 7)))
        data.reshape(-1)[places] = w
        np.testing.assert_allclose(array[...], data)


REFUSED = {
    "transpose": lambda x: np.transpose(x, (0, 0)),
    "transpose of more": lambda x: x.transpose(0, 1, 2),
    "swapaxes": lambda x: np.swapaxes(x, 0, 2),
    "moveaxis": lambda x: np.moveaxis(x, 0, (0, 1)),
    "matrix_transpose": lambda x: x[0].mT if isinstance(x, np.ndarray) else x.lazy[0].mT,
    "expand_dims": lambda x: np.expand_dims(x, 4),
    "expand_dims twice": lambda x: np.expand_dims(x, (0, 0)),
    "squeeze": lambda x: np.squeeze(x, 0),
    "squeeze of no axis": lambda x: np.squeeze(x, 5),
    "broadcast_to": lambda x: np.broadcast_to(x, (9, 8)),
    "broadcast_to less": lambda x: np.broadcast_to(x, 7),
    "len": lambda x: len(x.T[0, 0] if isinstance(x, np.ndarray) else x.lazy[0, 0]),
    "delete": lambda x: x.__delitem__(0),
    "write text": lambda x: x.__setitem__((0, 0), "x"),
    "write a sequence": lambda x: x.__setitem__((0, 0), [1, 2]),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED.keys())
def test_what_numpy_refuses(pair, call):
    array, data = pair
    with pytest.raises(Exception) as expected:  # noqa: PT011 -- whatever it is
        call(data)
    with pytest.raises(expected.type):
        call(array.lazy[...])


@pytest.mark.parametrize(
    "key",
    [([0, 1], [1, 2]), [[0, 1], [2, 3]], np.eye(9, 7, dtype=bool), (0, [1, 2], [0, 1])],
    ids=["points", "an array of two axes", "a mask of two axes", "with an integer"],
)
def test_points_give_no_view(pair, key):
    if isinstance(key, tuple) and key[0] == 0:
        key = key[1:]
    with pytest.raises(xa.SelectionError, match="cannot be a view"):
        pair[0].lazy[key]


def test_an_index_of_one_axis_each_gives_a_view(pair):
    array, data = pair
    key = np.ix_([3, 1], [True, False] * 3 + [True])
    assert_same(array.lazy[key][...], data[key])
    assert_same(array.lazy[data[:, 0] > 5, 1:].T[...], data[data[:, 0] > 5, 1:].T)
    assert_same(array.lazy[[]][...], data[[]])
    assert_same(array.lazy[:, []].T.lazy[:, 2:][...], data[:, []].T[:, 2:])


#: Ways to a view of a whole array.
TURNS = {
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "transpose": lambda x: x.transpose(1, 0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "np.transpose": np.transpose,
    "np.matrix_transpose": np.matrix_transpose,
    "np.swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "np.moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "np.expand_dims": lambda x: np.expand_dims(x, 1),
    "np.squeeze": np.squeeze,
}


@pytest.mark.thread_unsafe(reason="changes the array of a fixture")
@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS.keys())
def test_a_turned_array_writes_through(pair, turn):
    array, data = pair
    v, w = turn(array), turn(data)
    assert isinstance(v, LazyView)
    assert v.base is array
    v[1:] = w[1:] = 4
    v += 1
    w += 1
    assert_same(v[...], w)
    assert_same(array[...], data)


def test_a_broadcast_array_is_read_late(pair):
    array, data = pair
    view = np.broadcast_to(array, (2, *data.shape))
    array[0] = data[0] = 5
    assert_same(view[...], np.broadcast_to(data, view.shape))
    with pytest.raises(xa.errors.ReadOnlyError, match="more than once"):
        view[0] = 1


def test_turning_reads_nothing(path):
    with xa.create(path, (2**20, 2**20), chunks=512, sparse=True) as array:
        array[3, 5] = 7
        assert array.T[5, :4].tolist() == [0, 0, 0, 7]
    with pytest.raises(xa.errors.ClosedError):
        array.T  # noqa: B018


def test_what_is_no_view_is_a_copy(pair):
    array, data = pair
    for function in (
        lambda x: x[:2],
        lambda x: x.reshape(-1),
        lambda x: x.ravel(),
        lambda x: x.flatten(),
        lambda x: x.T.copy(),
        lambda x: x.astype("f4").T,
    ):
        got, expected = function(array), function(data)
        assert type(got) is np.ndarray
        got[...] = 0
        assert_same(array[...], data)
        assert got.shape == expected.shape


def test_indexers_of_a_view(pair):
    array, data = pair
    v, w = array.lazy[::-1, 1:], data[::-1, 1:]
    assert_same(v.oindex[[0, 2], [1, 3]], w[np.ix_([0, 2], [1, 3])])
    assert_same(v.vindex[[0, 2], [1, 3]], w[[0, 2], [1, 3]])
    assert_same(v.get_mask_selection(w > 3), w[w > 3])
    assert v.chunks == (4, 2)
    first = (len(data) - 1) % 4 + 1  # rows of the first block: the view begins with the last chunk
    assert_same(v.blocks[1, 0], w[first : first + 4, 0:1])


# -- refused writes ------------------------------------------------------------------------------


def test_elements_that_occur_twice_are_read_only(factory):
    with factory.array((4, 3), chunks=(2, 2)) as array:
        for view in (np.broadcast_to(array.lazy[0], (2, 3)), array.lazy[[1, -3]]):
            assert view.shape == (2, 3)
            with pytest.raises(xa.ReadOnlyError, match="more than once"):
                view[0] = 1
            with pytest.raises(xa.ReadOnlyError, match="more than once"):
                view += 1
        assert not array[...].any()
        np.broadcast_to(array.lazy[...], (1, 4, 3))[0, 0] = 1
        assert array[0].all()


def test_a_new_axis_takes_the_last_value(memory):
    with memory.array((3,), "i4") as array:
        array.lazy[None][[0, 0]] = [[1, 2, 3], [4, 5, 6]]
        assert array[...].tolist() == [4, 5, 6]


def test_an_array_that_is_read_only_or_closed(disk):
    array = disk.create((4, 3), chunks=(2, 2))
    reader = disk.open(array)
    view = reader.lazy[1:]
    with pytest.raises(xa.ReadOnlyError, match="opened with mode 'r'"):
        view[0] = 1
    with pytest.raises(xa.ReadOnlyError, match="opened with mode 'r'"):
        view += 1
    reader.close()
    array.close()
    for call in (lambda: view[0], lambda: view.sum(), lambda: view.write(0, 1), view.to_dask):
        with pytest.raises(xa.ClosedError):
            call()
    with pytest.raises(xa.ClosedError):
        reader.lazy[...]


def test_options_of_read(pair):
    view = pair[0].lazy[1:3]
    with pytest.raises(xa.ArgumentError, match="order"):
        view.read(order="K")
    with pytest.raises(xa.ArgumentTypeError):
        view.read(out=[1])
    with pytest.raises(xa.ShapeError):
        view.read(out=np.empty(3))
    with pytest.raises(xa.CastingError):
        view.read(out=np.empty((2, 7), int))
    out = np.empty((2, 7), "f4")
    assert_same(view.read(..., out), pair[1][1:3].astype("f4"))


# -- the base array ------------------------------------------------------------------------------


def test_a_view_does_not_grow(factory):
    with factory.array((4, 3), chunks=(3, 2)) as array:
        view = array.lazy[::-1]
        array.extend(0, 5)
        array.extend(1, 5)
        array[...] = np.arange(72).reshape(9, 8)
        assert view.shape == (4, 3)
        assert_same(view[...], np.arange(72.0).reshape(9, 8)[3::-1, :3])
        array.append(view.lazy[:, :1].T.lazy[:, [0, 1, 2, 3, 3, 3, 3, 3]], axis=0)
        assert array[9].tolist() == [24, 16, 8, 0, 0, 0, 0, 0]


def test_bounds_that_have_moved_in(memory):
    with memory.array((4, 3), chunks=(3, 2)) as array:
        view, inner = array.lazy[::-1], array.lazy[1:2, :2]
        array.resize((2, 3))
        for call in (lambda: view[0], view.sum, lambda: view.write(0, 1)):
            with pytest.raises(xa.BoundsError, match="some elements of the view are gone"):
                call()
        assert inner[...].tolist() == [[0, 0]]


def test_the_same_elements_after_growth_at_a_start(factory):
    data = sample("i4", (4, 3))
    with factory.array((4, 3), "i4", chunks=(3, 2)) as array:
        array[...] = data
        views = [array.lazy[1:, ::-1].T, array.lazy[[3, 1]], array.lazy[2]]
        array.append(np.zeros((5, 3), "i4"), side="start")
        array.shrink(1, 1, side="start")
        expected = [data[1:, ::-1].T, data[[3, 1]], data[2]]
        for view in views:
            with pytest.raises(xa.BoundsError, match="some elements of the view are gone"):
                view[...]
        array.append(data[:, :1].repeat(9, 0)[:9], axis=1, side="start")
        array[5:, 0] = data[:, 0]
        for view, elements in zip(views, expected, strict=True):
            assert_same(view[...], elements)


def test_a_pickled_view_shows_the_same_elements(disk):
    with disk.array((20,), "i4", chunks=(4,)) as array:
        array[...] = np.arange(20)
        with disk.open(array) as reader:
            text = pickle.dumps(reader.lazy[10:13])
            array.append([-1, -2, -3], side="start")
            array.flush()
            again = pickle.loads(text)
            assert again[...].tolist() == [10, 11, 12]
            again.base.close()


@given(case=cases(min_ndim=1, max_ndim=3), data=st.data())
def test_streaming_goes_by_the_chunks(factory, case, data):
    """Each box of a view, or of an array that grew at its start, lies in one chunk."""
    with built(factory, case) as (array, _):
        steps = data.draw(st.tuples(*[st.sampled_from([1, -1])] * array.ndim))
        starts = data.draw(st.tuples(*[st.integers(0, 3)] * array.ndim))
        view = array.lazy[tuple(map(slice, starts, [None] * array.ndim, [None] * array.ndim))]
        view = view.lazy[tuple(slice(None, None, step) for step in steps)].T
        for source in (array, view):
            seen = np.zeros(source.shape, int)
            for box in tiles(source.shape, chunks_of(source), array.itemsize, limit=1 << 10):
                seen[box] += 1
                if array._peek(tuple(slice(0, 1) for _ in array.shape)) is not None:
                    small = all(
                        s.stop - s.start <= c for s, c in zip(box, source.chunks, strict=True)
                    )
                    assert source._peek(box) is not None or not small
            assert (seen == 1).all()


def test_names_of_axes(memory):
    with memory.array((4, 3, 2), dims=("y", "x", "band")) as array:
        view = array.lazy[0].T
        assert view.dims == ("band", "x")
        assert np.expand_dims(view, 0).dims is None
        assert array.lazy[:, [1, 0], 0].dims == ("y", "x")
        array.dims = None
        assert view.dims is None


def test_fields(memory):
    dtype = np.dtype([("x", "i4"), ("y", ">f4", (2,)), ("z", "S3")])
    data = sample(dtype, (5, 4), seed=3)
    with memory.array((5, 4), dtype, chunks=(2, 2)) as array:
        array[...] = data
        v, w = array.lazy[::-2].T, data[::-2].T
        for name in ("x", "y", ["z", "x"]):
            assert_same(v[name], w[name])
        v["y"] = 5
        w["y"] = 5
        v["x"] = array.lazy[:3].T["x"] + 1
        w["x"] = data[:3].T["x"] + 1
        v[["z", "x"]] = v[["z", "x"]][::-1]
        w[["z", "x"]] = w[["z", "x"]][::-1].copy()
        assert_same(array[...], data)
        b = np.broadcast_to(array.lazy[0, :1], (3,))
        assert_same(b["y"], np.broadcast_to(data[0, :1], (3,))["y"])


def test_one_chunk_is_seen_without_a_copy(memory):
    with memory.array((6, 4), chunks=(3, 4)) as array:
        view = np.expand_dims(array.lazy[::-1, ::2].T, 1)
        block = view._peek((slice(0, 2), slice(0, 1), slice(0, 3)), True)
        block[...] = np.arange(6).reshape(2, 1, 3)
        assert_same(view[:, :, :3], np.arange(6.0).reshape(2, 1, 3))
        assert np.shares_memory(block, array.chunk((1, 0)))


# -- other libraries, other processes ------------------------------------------------------------


def test_a_copy_is_no_file(path):
    view = xa.from_array(sample("i2", (3, 4), 1)).T
    for text in (path, str(path)):
        with pytest.raises(xa.ArgumentError, match=r"is an order.*extarray\.rechunk\(view, path\)"):
            view.copy(text)
    for order in ("c", None, "K"):
        assert type(view.copy(order)) is np.ndarray
    with xa.rechunk(view, path, progress=False) as array:
        assert_same(array[...], view[...])


def test_pickle(factory):
    data = np.arange(12.0).reshape(4, 3)
    with factory.array((4, 3), chunks=(3, 2)) as array:
        array[...] = data
        view = pickle.loads(pickle.dumps(array.lazy[::-1, [2, 0]].T))
        assert_same(view[...], data[::-1, [2, 0]].T)
        view.base.close()


def test_dask(pair):
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    array, data = pair
    v, w = array.lazy[1:, ::-1].T, data[1:, ::-1].T
    with dask.config.set(scheduler="synchronous"):
        for graph in (v.to_dask(), da.from_array(v), da.asarray(v), v.to_dask(chunks=(2, 3))):
            assert isinstance(graph, da.Array)
            assert_same(graph.compute(), w)
        assert_same((v + da.ones(w.shape)).compute(), w + 1)
    tokens = {dask.base.tokenize(x) for x in (v, v.T, v.lazy[1:], array, array.lazy[[1, 2]])}
    assert len(tokens) == 5


def test_the_array_api(pair):
    array, data = pair
    v, w = array.lazy[2:].T, data[2:].T
    xp = v.__array_namespace__()
    assert v.device == "cpu"
    assert_same(np.asarray(xp.permute_dims(v, (1, 0))), w.T)
    assert_same(np.asarray(xp.sum(v, axis=0)), w.sum(axis=0))
    assert_same(np.asarray(xp.asarray(v)), w)


def test_text(memory):
    with memory.array((4, 3)) as array:
        text = repr(array.lazy[0])
        assert text == f"<extarray.LazyView: shape (3,) of {array!r}>"
        with pytest.raises(TypeError, match="iteration over a 0-d array"):
            iter(array.lazy[0, 0])


# -- memory --------------------------------------------------------------------------------------


def peak(call) -> int:
    """Return the peak of the memory that a call allocates."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_is_bounded(disk):
    with disk.array((1500, 1200), "f8", chunks=(200, 100)) as array, disk.array((1200,)) as row:
        array[...] = 2
        v = array.lazy[::-1].T
        limit = 2**20
        target = xa.zeros((1200, 1500))

        def mask(x):
            x[x > 2] = 1

        def copy_to_other():
            target.lazy[...][...] = v

        def narrow():
            v[...] = np.broadcast_to(row.lazy[:, None], v.shape)

        def repeated():
            np.broadcast_to(row.lazy[...], (10**6, 1200)).lazy[5].sum()

        with xa.config.set(max_memory=limit):
            for call in (
                lambda: v.sum(),
                lambda: v.std(axis=0),
                lambda: np.add(v, 1, out=v),
                lambda: mask(v),
                lambda: np.multiply(v, v.astype("f4"), out=array.lazy[::-1].T),
                copy_to_other,
                narrow,
                repeated,
            ):
                assert peak(call) < 3 * limit
        assert (target[...] == 1).all()
        assert not array[...].any()


def test_iteration_gives_rows_that_write_through():
    model = np.arange(24).reshape(4, 3, 2)
    a = xa.from_array(model, chunks=2)
    assert len(a.lazy) == 4
    for row, expected in zip(a.lazy, model, strict=True):
        row[:] += 1
        expected[:] += 1
    for row, expected in zip(a.lazy[1:, ::-1].lazy, model[1:, ::-1], strict=True):
        row[0] = 0
        expected[0] = 0
    np.testing.assert_array_equal(a[...], model)
    for element in xa.from_array([1, 2]).lazy:
        assert element.shape == ()
    scalar = xa.from_array(np.array(1.0))
    for use in (iter, len):
        with pytest.raises(TypeError):
            use(scalar.lazy)
