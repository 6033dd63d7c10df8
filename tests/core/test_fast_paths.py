"""Each fast path agrees with the general path, or with the chunks themselves.

`assembled` and `scattered` stand for the general path: they know only where an element lies in its
chunk, and move one element at a time.
"""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same, assert_same_outcome
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases, selections

import extarray as xa
from extarray.grid.order import positions


def assembled(array, offset) -> np.ndarray:
    """Collect all elements from the stored chunks; the grid has `offset` elements before them."""
    whole = np.empty(array.shape, array.dtype)
    place = positions(array.chunks, array.order).reshape(array.chunks)
    for index, view in array.chunk_views():
        low = [i * c - b for i, c, b in zip(index, array.chunks, offset, strict=True)]
        inside = [slice(max(0, i), i + c) for i, c in zip(low, array.chunks, strict=True)]
        target = whole[(*inside, ...)]
        if array.order in "ZH":
            view = view[place.ravel()].reshape(place.shape)
            firsts = [s.start - i for s, i in zip(inside, low, strict=True)]
            part = (slice(i, i + n) for i, n in zip(firsts, target.shape, strict=True))
            view = view[(*part, ...)]
        target[...] = view
    return whole


def scattered(array, selection, values) -> None:
    """Write element by element."""
    numbers = np.arange(array.size).reshape(array.shape)[selection]
    values = np.broadcast_to(values, np.shape(numbers))
    for at in np.ndindex(np.shape(numbers)):
        array.write(np.unravel_index(int(numbers[at]), array.shape), values[at])


def assert_stored_alike(array, other) -> None:
    """Compare every chunk of two arrays; for "Z" and "H" also outside the bounds."""
    for (_, view), (_, expected) in zip(array.chunk_views(), other.chunk_views(), strict=True):
        assert_same(view.copy(), expected.copy())


@given(case=cases(), data=st.data())
def test_reads_agree_with_the_chunks(factory, case, data):
    with built(factory, case) as (array, model):
        expected = assembled(array, model.offset)
        assert_same(array[...], expected)
        for _ in range(3):
            selection = data.draw(selections(array.shape))
            try:
                part = expected[selection]
            except IndexError:
                continue
            assert_same(array[selection], part)


@pytest.mark.slow
@given(case=cases(max_ndim=3), data=st.data())
def test_writes_agree_with_writing_element_by_element(factory, case, data):
    """No other byte changes."""
    with built(factory, case) as (array, model), built(factory, case) as (other, _):
        selection = data.draw(selections(array.shape))
        try:
            values = sample(case.dtype, np.shape(model.data[selection]), 4)
        except IndexError:
            return
        array[selection] = values
        scattered(other, selection, values)
        assert_stored_alike(array, other)
        assert_same(assembled(array, model.offset), array[...])


scalars = st.sampled_from(
    [
        "?", "i1", "u2", "i4", "u8", ">i2", ">u8", "f2", "f4", "f8", ">f8", "g", "c8", ">c16", "S3",
        "U2", ">U2", "V5", "M8[s]", ">m8[D]", [("x", "u1"), ("y", ">f4")],
    ]
)  # fmt: skip


@given(
    case=cases(dtypes=scalars.map(np.dtype), min_ndim=1, max_ndim=3),
    data=st.data(),
)
def test_scalar_reads(factory, case, data):
    """`a[i, j]` with Python ints, with NumPy integers, by `read`, and out of a slice."""
    with built(factory, case) as (array, model):
        if model.data.size == 0:
            return
        for _ in range(3):
            index = tuple(data.draw(st.integers(-n, n - 1)) for n in model.shape)
            fast = array[index]
            assert_same(fast, model.data[index])
            assert_same(fast, array[tuple(map(np.int64, index))])
            assert_same(fast, array.read(index)[()])
            assert_same(fast, array[(*index, None)][0])
            assert_same(fast, array[(*index, ...)][()])
            if array.ndim == 1:
                assert_same(fast, array[index[0]])


numbers = st.one_of(
    st.integers(-(2**65), 2**65),
    st.integers(-3, 300),
    st.booleans(),
    st.floats(),
    st.complex_numbers(),
    st.sampled_from(["7", "text", b"7", None, [3], [1, 2], (1,), (1, 2.0), [], object()]),
    st.builds(lambda spec: sample(spec, ())[()], scalars),
    st.builds(lambda spec: sample(spec, ()), scalars),
    st.builds(lambda spec: sample(spec, (1,)), scalars),
)


@given(dtype=scalars.map(np.dtype), value=numbers, order=st.sampled_from("CFZ"))
@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning",
    "ignore::numpy.exceptions.ComplexWarning",
    "ignore::DeprecationWarning",
)
def test_scalar_writes(factory, dtype, value, order):
    """Any value gives NumPy's result or error, and no neighbour changes."""
    with factory.array((3, 3), dtype, chunks=(2, 2), order=order) as array:
        array[...] = expected = sample(dtype, (3, 3))
        before = expected.copy()
        done = assert_same_outcome(
            lambda: array.__setitem__((1, -2), value),
            lambda: expected.__setitem__((1, -2), value),
            words=False,
        )
        # NumPy may leave half a value when it fails; the array stays as it was.
        assert_same(array[...], expected if done else before)


@pytest.mark.thread_unsafe  # examples write to one array, and compare all of it
@given(
    dtype=st.sampled_from(["u1", "i2", "f4", "f8", "c16", "V3", "V24"]),
    start=st.tuples(*[st.integers(0, 12)] * 3),
    size=st.tuples(*[st.integers(0, 20)] * 3),
    step=st.tuples(*[st.sampled_from([1, 1, 1, 2, -1])] * 3),
    order=st.sampled_from("CFZH"),
    data=st.data(),
)
def test_small_boxes(small_boxes, dtype, start, size, step, order, data):
    """Reads and writes of boxes that lie in one chunk, touch several, or fill chunks exactly."""
    array, expected = small_boxes(np.dtype(dtype), order)
    box = tuple(
        slice(*((i, i + n, s) if s > 0 else (i + n, i, s)))
        for i, n, s in zip(start, size, step, strict=True)
    )
    assert_same(array[box], expected[box].copy())
    layout = data.draw(st.permutations(range(3)))
    shape = expected[box].shape
    out = np.empty([shape[axis] for axis in layout], dtype).transpose(np.argsort(layout))
    assert_same(array.read(box, out=out), expected[box].copy())
    out[...] = sample(dtype, shape, seed=sum(start))
    array[box] = out
    expected[box] = out
    assert_same(array[...], expected)


@pytest.fixture(scope="module")
def small_boxes(factory):
    """Make arrays of 24³ elements in chunks of 8 × 4 × 6, once for each dtype and order."""
    made = {}

    def get(dtype, order):
        if (dtype, order) not in made:
            array = factory.create((24, 24, 12), dtype, chunks=(8, 4, 6), order=order)
            expected = sample(dtype, (24, 24, 24))
            array.extend(2, 5)
            array.extend(2, 7)
            array[...] = expected
            made[dtype, order] = array, expected
        return made[dtype, order]

    yield get
    for array, _ in made.values():
        array.close()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f8", "f4", "u2", "V24"])
@pytest.mark.parametrize("side", [16, 32, 64])
def test_large_transfers(factory, dtype, side):
    """Larger than the caches, where stores may bypass them, at every alignment."""
    shape = (100, 130, 90)
    expected = sample(dtype, shape)
    with factory.array((side, *shape[1:]), dtype, chunks=side) as array:
        array[...] = expected[:side]
        array.append(expected[side:])
        assert_same(array[...], expected)
        for offset in (0, 1, 3, 8):
            out = np.zeros(expected.nbytes + 64, "u1")[offset:]
            if np.dtype(dtype).alignment > 1 and offset % np.dtype(dtype).alignment:
                out = np.frombuffer(out, dtype, expected.size).reshape(shape)
            else:
                out = out[: expected.nbytes].view(dtype).reshape(shape)
            assert_same(array.read(out=out), expected)
            part = out[3:, offset:, 1:]
            assert_same(
                array.read((slice(3, None), slice(offset, None), slice(1, None)), out=part),
                expected[3:, offset:, 1:].copy(),
            )
        assert_same(array.read(order="F"), expected)
        assert_same(array[::4, ::4, ::4], expected[::4, ::4, ::4].copy())
        assert_same(array[:, 7], expected[:, 7].copy())
        assert_same(array[:, :, 7], expected[:, :, 7].copy())


def test_more_chunks_along_an_axis_than_a_small_plan_holds(factory):
    with factory.array((0, 70), "u2", chunks=(1, 1)) as array:
        array.append(sample("u2", (60, 70)))
        expected = sample("u2", (60, 70))
        assert_same(array[...], expected)
        assert_same(array[5:55, ::-1], expected[5:55, ::-1].copy())
        array[::2] = expected[1::2]
        expected[::2] = expected[1::2]
        assert_same(array[...], expected)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("width", [33, 64, 100, 2100])
def test_rows_across_many_chunks(factory, width, sparse):
    """Each kind of piece: copied in registers of every width, or by memcpy; cut at both ends."""
    shape = (6, 70 * width)
    expected = sample("u1", shape)
    with factory.array(shape, "u1", chunks=(4, width), sparse=sparse) as array:
        array[2:5, width - 1 : -7] = expected[2:5, width - 1 : -7]
        array[...] = expected
        for cut in (0, 1, 15, 16, 31, 40, 63, 99):
            box = (slice(1, 6), slice(cut, shape[1] - 2 * cut))
            assert_same(array[box], expected[box].copy())
            expected[box] = expected[box][::-1].copy()
            array[box] = expected[box]
            assert_same(array[...], expected)


@pytest.mark.parametrize("chunks", [(64, 96), (20, 1100), (3, 5)])
def test_large_lists_of_rows(factory, chunks):
    """Rows of a list are runs, which bypass the caches if they are long, or blocks of few bytes."""
    shape = (2000, 1100)
    expected = sample("f8", shape)
    rows = np.random.default_rng(0).permutation(2000)[:1500]
    rows[700:703] = rows[:3]  # the last one counts in writes
    with factory.array(shape, "f8", chunks=chunks) as array:
        array[...] = expected
        assert_same(array[rows], expected[rows])
        values = expected[rows][::-1].copy()
        array[rows] = values
        expected[rows] = values
        assert_same(array[...], expected)


@pytest.mark.invariant("I12")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("side", [5, 23, 32])
def test_first_writes_of_whole_chunks(factory, side, order, sparse):
    """Small neighbours in the file are joined; chunks written before stay."""
    n = max(2, 48 // side)
    expected = sample("f8", (side * n,) * 3)
    chunks, half = (side,) * 3, side * (n // 2)
    with factory.array((half,) * 3, "f8", chunks=chunks, order=order, sparse=sparse) as array:
        array[side:, :, -side:] = expected[side:half, :half, half - side : half]
        array[...] = expected[:half, :half, :half]
        for axis in (2, 0, 1):
            new = [slice(m) for m in array.shape]
            new[axis] = slice(half, None)
            array.append(expected[tuple(new)], axis)
            assert_same(array[...], expected[tuple(slice(m) for m in array.shape)].copy())
        array[side + 1 :] = expected[: -side - 1]  # writes the first chunks in part
        array[:, :side] = 7
        expected[side + 1 :] = expected[: -side - 1].copy()
        expected[:, :side] = 7
        assert_same(array[...], expected)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunk", [20_000, 1 << 16, 700_001, 1 << 20, 1_500_000])
def test_first_writes_beyond_the_largest_pages(path, chunk, threads):
    """Writes end at page boundaries, which need not be chunk boundaries."""
    n = -(-9_000_000 // chunk) * chunk
    values = np.arange(n, dtype="u4").astype("u1")
    order = [slice(3 * chunk, n - chunk), slice(0, 3 * chunk), slice(n - chunk, n)]
    with xa.config.set(threads=threads), xa.create(path, (n,), "u1", chunks=chunk) as a:
        a.write(order[0], values[order[0]])
        a.write(order[1], values[order[1]][::-1])
        a.write(order[2], values[order[2]])
    values[order[1]] = values[order[1]][::-1].copy()
    with open(f"{path}.xta", "rb") as file:
        assert file.read(n) == values.tobytes()


@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_first_writes_of_neighbours_in_several_segments(path, engine):
    values = np.random.default_rng(0).random((6, 160, 160))
    with xa.create(path, (2, 80, 80), "f8", chunks=(1, 40, 40), engine=engine) as a:
        a.extend(1, 40)
        a.extend(2, 80)
        a.extend(0, 4)
        a.extend(1, 40)
        a[...] = values
        assert_same(a[...], values)
    with xa.open(path) as a:
        assert_same(a[...], values)


@pytest.mark.parametrize("dtype", ["f8", "i2"])
@pytest.mark.parametrize("order", "CZ")
def test_elements_and_boxes_in_holes(path, engine, dtype, order):
    """Elements of a sparse array go to the same places through the file and the mapping."""
    numbers = np.random.default_rng(7)
    model = np.zeros((60, 300), dtype)
    options = {"chunks": (8, 64), "sparse": True, "order": order, "engine": engine}
    with xa.create(path, model.shape, dtype, **options) as array:
        with xa.open(path, engine=engine) as reader:
            for step in range(1, 600):
                i, j = (int(numbers.integers(n)) for n in model.shape)
                place = (i, j) if step % 5 else np.s_[i : i + 2, j : j + 70]
                array[place] = model[place] = step
                assert_same(reader[place], model[place])
            assert_same(reader[...], model)
        assert_same(array[...], model)
    with xa.open(path) as array:
        assert_same(array[...], model)


@given(
    limit=st.sampled_from([1, 100, 4096, 10**6]),
    case=cases(dtypes=st.sampled_from([np.dtype("f8"), np.dtype("i4")]), max_ndim=3),
    data=st.data(),
)
def test_casts_in_bounded_memory(factory, limit, case, data):
    """`max_memory` cuts a cast into blocks; the result is that of a single block."""
    with built(factory, case) as (array, model), xa.config.set(max_memory=limit):
        selection = data.draw(selections(array.shape))
        try:
            expected = np.asarray(model.data[selection])
        except IndexError:
            return
        out = np.zeros(expected.shape, "c16")
        assert_same(array.read(selection, out=out), expected.astype("c16"))
        values = sample("i2", expected.shape[1:], 4)
        array[selection] = values
        model.data[selection] = values
        assert_same(array[...], model.data)


@given(
    cuts=st.lists(st.integers(0, 2), min_size=1, max_size=5),
    box=st.tuples(*[st.tuples(st.integers(0, 6), st.integers(0, 6))] * 3),
)
def test_affine_sub_boxes(memory, cuts, box):
    """A box of whole chunks across any records has each chunk at its address."""
    with memory.array((2, 2, 2), "i8", chunks=1) as array:
        for axis in cuts:
            array.extend(axis, 2)
        for index, view in array.chunk_views():
            view[...] = array.axial.address(index)
        window = tuple(slice(min(pair), max(pair)) for pair in box)
        got = array[window]
        for at in np.ndindex(got.shape):
            index = tuple(i + s.start for i, s in zip(at, window, strict=True))
            assert got[at] == array.axial.address(index)
