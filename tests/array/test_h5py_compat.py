"""Habits of h5py's users, and libraries that take arrays."""

from __future__ import annotations

import itertools
import multiprocessing

import numpy as np
import pytest
from compare import assert_same, assert_same_outcome
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases, selections
from streaming import small_boxes

import extarray as xa


def inside(strategy, shape):
    """Draw selections inside the bounds, even where an axis has length 0."""
    empty = np.empty(shape, "V1")

    def is_possible(selection):
        try:
            return empty[selection] is not None
        except IndexError:
            return False

    return strategy(shape).filter(is_possible)


# -- h5py: growth --------------------------------------------------------------------------------


@given(case=cases(min_ndim=1), data=st.data())
def test_resize_of_one_axis(factory, case, data):
    with built(factory, case) as (array, model):
        axis = data.draw(st.integers(0, array.ndim - 1))
        n = array.shape[axis] + data.draw(st.integers(0, 5))
        array.resize(n, axis=data.draw(st.sampled_from([axis, axis - array.ndim])))
        model.extend(axis, n - model.shape[axis])
        assert array.shape == model.shape
        assert array.grid == model.grid
        assert_same(array[...], model.data)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((5, 2), xa.AxisError, "axis 2 is out of bounds for array of dimension 2"),
        (((5, 3), 0), xa.ShapeError, r"cannot resize axis 0 to \(5, 3\); give a single extent"),
        (("5", 0), xa.ArgumentTypeError, "shape must be an int"),
        ((5, 0.5), xa.ArgumentTypeError, "axis must be an int"),
        ((5,), xa.ShapeError, "the array has 2 axes"),
    ],
)
def test_resize_that_is_not_possible(memory, arguments, error, message):
    with memory.array((4, 3)) as array:
        with pytest.raises(error, match=message):
            array.resize(*arguments)
        assert array.shape == (4, 3)


def test_maxshape_has_no_limits(factory):
    for shape in [(), (3,), (0, 4, 2)]:
        with factory.array(shape) as array:
            assert array.maxshape == (None,) * len(shape)


# -- h5py: read_direct, write_direct -------------------------------------------------------------


@given(case=cases(), data=st.data())
def test_read_direct(factory, case, data):
    with built(factory, case) as (array, model):
        selection = data.draw(inside(selections, array.shape))
        expected = np.asarray(model.data[selection])
        dest = sample(case.dtype, (2, *expected.shape), seed=1)
        wanted = dest.copy()
        wanted[1] = model.data[selection]
        array.read_direct(dest, selection, np.s_[1])
        assert_same(dest, wanted)


@given(case=cases(), data=st.data())
def test_write_direct(factory, case, data):
    with built(factory, case) as (array, model):
        selection = data.draw(inside(selections, array.shape))
        source = sample(case.dtype, (2, *np.shape(model.data[selection])), seed=1)
        array.write_direct(source, np.s_[1], selection)
        model.data[selection] = source[1]
        assert_same(array[...], model.data)


def test_direct_of_everything(factory):
    with factory.array((4, 3), "i4", chunks=2) as array:
        array.write_direct(np.arange(12).reshape(4, 3))
        dest = np.empty((4, 3), order="F")
        assert array.read_direct(dest) is None
        assert dest.tolist() == np.arange(12).reshape(4, 3).tolist()


@pytest.mark.parametrize(
    ("dtype", "source_sel", "dest_sel"),
    [
        ("f8", np.s_[0], np.s_[:]),  # broadcast one row to all rows
        ("i2", np.s_[:2], np.s_[2:]),  # an assignment may cast lossily
        ("f4", np.s_[1:3, 0], np.s_[[3, 0], 1]),
        ("f4", np.s_[1, 2], np.s_[1, 1]),
        ("f4", np.s_[1, 2], None),
        ("f4", np.s_[:], np.s_[:, ::-1]),
        ("f4", np.s_[:0], np.s_[4:]),
        ("f4", np.s_[:2], np.s_[:3]),  # shapes do not fit
        ("f4", np.s_[4], None),  # out of bounds
    ],
)
def test_read_direct_is_an_assignment(factory, dtype, source_sel, dest_sel):
    data = np.linspace(0, 100, 12).reshape(4, 3)
    with factory.array((4, 3), "f8", chunks=2) as array:
        array[...] = data
        ours, expected = np.zeros((4, 3), dtype), np.zeros((4, 3), dtype)
        place = ... if dest_sel is None else dest_sel
        assert_same_outcome(
            lambda: array.read_direct(ours, source_sel, dest_sel),
            lambda: expected.__setitem__(place, data[source_sel]),
        )
        assert_same(ours, expected)


def test_what_direct_refuses(memory):
    with memory.array((4, 3)) as array:
        with pytest.raises(xa.ArgumentTypeError, match="dest must be a NumPy array, not list"):
            array.read_direct([0])
        frozen = np.zeros((4, 3))
        frozen.flags.writeable = False
        with pytest.raises(xa.ReadOnlyError):
            array.read_direct(frozen)
        with pytest.raises(xa.ShapeError, match="could not broadcast"):
            array.write_direct(np.zeros((3, 3)))


def test_write_direct_takes_lists_and_arrays_of_ours(memory):
    with memory.array((4, 3)) as array, memory.array((4, 3), fill_value=5) as other:
        array.write_direct([[1, 2, 3], [4, 5, 6]], 1, np.s_[0])
        array.write_direct(other, np.s_[:, 0], np.s_[:, 2])
        assert array[:2].tolist() == [[4, 5, 5], [0, 0, 5]]


# -- h5py: chunks that meet a selection ----------------------------------------------------------


@st.composite
def regions(draw, shape):
    """Draw integers and slices of step 1."""
    entries = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        low, high = sorted([draw(st.integers(-n, n)), draw(st.integers(-n, n))])
        limits = st.sampled_from([slice(low, high), slice(low, None), slice(None, high, 1)])
        entries.append(draw(limits | st.integers(-n, n - 1) if n else limits))
    if draw(st.booleans()):
        entries.insert(draw(st.sampled_from([0, len(entries)])), Ellipsis)
    return entries[0] if len(entries) == 1 and draw(st.booleans()) else tuple(entries)


@given(case=cases(), order=st.sampled_from(["address", "grid"]), data=st.data())
def test_chunks_of_a_selection(factory, case, order, data):
    """Each element of the selection lies in one part, and each part in one chunk."""
    with built(factory, case) as (array, model):
        selection = data.draw(inside(regions, array.shape))
        counts = np.zeros(model.shape, int)
        indices = []
        for part in array.iter_chunks(selection, order=order):
            assert_same(array[part], model.data[part])
            counts[part] += 1
            assert counts[part].size > 0
            edges = [(s.start + b, s.stop - 1 + b) for s, b in zip(part, model.offset, strict=True)]
            low = tuple(a // c for (a, _), c in zip(edges, array.chunks, strict=True))
            high = tuple(b // c for (_, b), c in zip(edges, array.chunks, strict=True))
            assert low == high
            indices.append(low)
        expected = np.zeros(model.shape, int)
        expected[selection] = 1
        assert (counts == expected).all()
        key = array.axial.address if order == "address" else None
        assert indices == sorted(indices, key=key)


def test_chunks_of_a_selection_as_h5py_gives_them(memory, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file, memory.array((10, 7), chunks=(4, 3)) as array:
        dataset = file.create_dataset("x", (10, 7), "f8", chunks=(4, 3))
        for sel in [np.s_[1:9, 2:7], np.s_[:, :], np.s_[3, 0:5], np.s_[2:3, 4:5]]:
            assert list(array.iter_chunks(sel)) == list(dataset.iter_chunks(sel))
        assert list(array.iter_chunks(...)) == list(dataset.iter_chunks())
        assert list(array.iter_chunks()) == list(dataset.iter_chunks())


@pytest.mark.parametrize(
    ("selection", "error", "message"),
    [
        (np.s_[::2], xa.SelectionError, "has a step"),
        (np.s_[::-1], xa.SelectionError, "has a step"),
        (4, xa.BoundsError, "index 4 is out of bounds for axis 0 with size 4"),
        (np.s_[0, -4], xa.BoundsError, "index -4 is out of bounds for axis 1 with size 3"),
        (np.s_[0, 0, 0], xa.BoundsError, "too many indices for array: array is 2-dimensional"),
        (np.s_[..., ...], xa.SelectionError, "single ellipsis"),
        (np.s_[None, 0], xa.SelectionError, "None does not select a region"),
        ("grid", xa.SelectionError, "'grid' does not select a region"),
        (np.s_[[0, 1], None], xa.SelectionError, r"\[0, 1\] does not select a region"),
    ],
)
def test_what_is_no_region(memory, selection, error, message):
    with memory.array((4, 3)) as array, pytest.raises(error, match=message):
        array.iter_chunks(selection)


# -- libraries that take arrays -------------------------------------------------------------------


def test_matplotlib_sees_columns():
    """matplotlib takes anything but an ndarray or an object with `to_numpy` for a list of rows."""
    cbook = pytest.importorskip("matplotlib.cbook")
    x = np.arange(12.0).reshape(4, 3)
    a = xa.from_array(x, chunks=2)
    for ours in (a, a.lazy[...], a.astype("f8")):
        np.testing.assert_array_equal(ours.to_numpy(), x)
        np.testing.assert_array_equal(cbook._reshape_2D(ours, "x"), x.T)


# -- libraries that take views of chunks ---------------------------------------------------------


@pytest.fixture
def filled(factory):
    with factory.array((10, 6), "f4", chunks=(4, 3)) as array:
        array[...] = np.arange(60).reshape(10, 6)
        yield array


def test_views_have_the_buffer_protocol(filled):
    view = memoryview(filled.chunk((0, 1)))
    assert view.shape == (4, 3)
    assert view.format == "f"
    view[0, 0] = -1.0
    assert filled[0, 3] == -1
    del filled
    assert view[1, 2] == 11


@pytest.mark.thread_unsafe(reason="changes the array of a fixture")
def test_views_have_dlpack(filled):
    shared = np.from_dlpack(filled.chunk((2, 0)))
    assert shared.tolist() == filled[8:, :3].tolist()
    filled[9, 2] = -1
    filled.close()
    assert shared[1, 2] == -1, "the memory stays"


def test_views_in_torch(filled):
    torch = pytest.importorskip("torch")
    for convert in (torch.from_numpy, torch.from_dlpack, torch.as_tensor):
        tensor = convert(filled.chunk((1, 1)))
        assert tensor.tolist() == filled[4:8, 3:].tolist()
        tensor += 1
        assert tensor.tolist() == filled[4:8, 3:].tolist()


def test_arrays_in_torch(filled):
    torch = pytest.importorskip("torch")
    for convert in (torch.as_tensor, torch.tensor, torch.from_dlpack):
        tensor = convert(filled)
        assert tensor.dtype == torch.float32
        assert tensor.tolist() == filled[...].tolist()
        tensor[0, 0] = -1
        assert filled[0, 0] == 0, "a copy"


def test_views_in_numba(filled):
    numba = pytest.importorskip("numba")

    @numba.njit
    def total(x):
        result = 0.0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                result += x[i, j]
        return result

    found = sum(total(view) for _, view in filled.chunk_views())
    assert found == sum(range(60))


@pytest.mark.parametrize("types", [["f8(f8, f8)"], []])
def test_ufuncs_of_numba(types):
    """Ufuncs of Numba write to wrong places of a strided output, such as a lone column."""
    numba = pytest.importorskip("numba")
    line = numba.vectorize(types)(lambda x, y: 2 * x + y)
    values = np.arange(90.0).reshape(10, 9)
    a = xa.from_array(values, chunks=(10, 8))
    out = xa.from_array(values, chunks=(4, 3))
    with small_boxes(2048):
        np.testing.assert_array_equal(line(a, a), 3 * values)
        assert line(a, 1, out=out) is out
        np.testing.assert_array_equal(out, 2 * values + 1)
        line(a, a, out=a)
        np.testing.assert_array_equal(a, 3 * values)


# -- arrays as sources for machine learning -------------------------------------------------------


@pytest.fixture(params=["disk", "memory"])
def source(request, path):
    with xa.create(path if request.param == "disk" else None, (10, 6), "f4", chunks=3) as array:
        array[...] = np.arange(60).reshape(10, 6)
        yield array


def loader_batches(torch, dataset, **options):
    return list(torch.utils.data.DataLoader(dataset, batch_size=4, **options))


def assert_batches(batches, expected):
    got = np.concatenate([batch.numpy() for batch in batches])
    assert_same(got, expected)


def test_a_torch_dataset(source):
    torch = pytest.importorskip("torch")
    assert_batches(loader_batches(torch, source), source[...])
    x, y = zip(*loader_batches(torch, torch.utils.data.StackDataset(source, source)), strict=True)
    assert_batches(x, source[...])
    assert_batches(y, source[...])
    random = loader_batches(torch, source, shuffle=True)
    assert sorted(row[0] for batch in random for row in batch.tolist()) == list(range(0, 60, 6))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_torch_dataset_of_workers(source, method):
    torch = pytest.importorskip("torch")
    context = multiprocessing.get_context(method)
    options = {"num_workers": 1 + (method == "fork"), "multiprocessing_context": context}
    assert_batches(loader_batches(torch, source, **options), source[...])
    source[0, 0] = 7  # the array is still the writer


@pytest.mark.sampled(1)
def test_partial_fit(source):
    pytest.importorskip("sklearn")
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().partial_fit(source)
    assert scaler.mean_.tolist() == source[...].mean(axis=0).tolist()
    parts = StandardScaler()
    for rows in source.iter_chunks(np.s_[:, 0]):
        parts.partial_fit(source[rows[0]])
    assert np.allclose(parts.var_, scaler.var_)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_memory")  # joblib asks for shared memory with any backend
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_estimators_in_workers(source, backend):
    pytest.importorskip("sklearn")
    import joblib
    from sklearn.preprocessing import StandardScaler

    def mean(array, low, high):
        return StandardScaler().partial_fit(array[low:high]).mean_[0]

    with joblib.parallel_config(backend=backend, n_jobs=2):
        means = joblib.Parallel()(
            joblib.delayed(mean)(source, low, high) for low, high in itertools.pairwise([0, 4, 10])
        )
    assert means == [9.0, 39.0]
