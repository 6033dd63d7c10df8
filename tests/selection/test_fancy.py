"""Masks, arrays of indices, lists and names of fields: reads and writes equal NumPy's."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from compare import assert_same, assert_same_outcome
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases, fancy_selections, index_arrays, masks

import extarray as xa
from extarray._core._lists import in_bounds
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.selection import execution

pytestmark = pytest.mark.filterwarnings("ignore:Out of bound index found:DeprecationWarning")


def copy_of(model, selection):
    """Return NumPy's result as a copy in C order; scalars stay scalars."""
    result = model[selection]
    return np.array(result, order="C") if isinstance(result, np.ndarray) else result


@pytest.mark.slow
@given(case=cases(), data=st.data())
def test_reads_equal_numpys(factory, case, data):
    with built(factory, case) as (array, model):
        for _ in range(4):
            selection = data.draw(fancy_selections(model.shape), label="selection")
            if not assert_same_outcome(
                lambda s=selection: array[s], lambda s=selection: copy_of(model.data, s)
            ):
                continue
            expected = np.asarray(model.data[selection], case.dtype)
            order = data.draw(st.sampled_from("CF"))
            got = array.read(selection, order=order)
            assert_same(got, expected)
            assert got.flags[f"{order}_CONTIGUOUS"]
            out = np.zeros((*expected.shape, 2), expected.dtype)[..., 1]
            assert array.read(selection, out=out) is out
            assert_same(out, expected)


@pytest.mark.slow
@given(case=cases(), data=st.data())
def test_writes_equal_numpys(factory, case, data):
    """If an element is selected twice, the last value stays."""
    with built(factory, case) as (array, model):
        for _ in range(4):
            selection = data.draw(fancy_selections(model.shape), label="selection")
            shape: tuple[int, ...] = ()
            with contextlib.suppress(IndexError):
                shape = np.shape(model.data[selection])
            values = data.draw(values_for(shape, case.dtype), label="values")
            assert_same_outcome(
                lambda s=selection, v=values: array.__setitem__(s, v),
                lambda s=selection, v=values: model.data.__setitem__(s, v),
            )
            assert_same(array[...], model.data)


@st.composite
def values_for(draw, shape, dtype):
    """Draw values that mostly broadcast to a shape."""
    sides = [draw(st.sampled_from([n, n, n, 1])) for n in shape]
    if 0 not in shape:
        sides = sides[draw(st.sampled_from([0, 0, len(sides), 1])) :]
    sides = [1] * draw(st.sampled_from([0, 0, 0, 1])) + sides
    # (If nothing is selected, NumPy's message about values that do not fit depends on the index.)
    if sides and 0 not in shape and draw(st.integers(0, 9)) == 9:
        sides[draw(st.integers(0, len(sides) - 1))] += 1
    values = sample(dtype, tuple(sides), seed=draw(st.integers(0, 99)))
    if values.ndim and draw(st.booleans()):
        values = np.repeat(values, 2, axis=-1)[..., ::-2]
    return values


@given(
    limit=st.sampled_from([1, 100, 1000, 10**5]),
    case=cases(dtypes=st.sampled_from([np.dtype("f8"), np.dtype("i4")]), max_ndim=3),
    data=st.data(),
)
def test_bounded_memory_makes_no_difference(factory, limit, case, data):
    """`max_memory` cuts tables and casts into parts; the result is that of a single part."""
    with built(factory, case) as (array, model), xa.config.set(max_memory=limit):
        selection = data.draw(fancy_selections(array.shape))
        try:
            expected = np.asarray(model.data[selection], case.dtype)
        except IndexError:
            return
        assert_same(array.read(selection), expected)
        out = np.zeros(expected.shape, "c16")
        assert_same(array.read(selection, out=out), expected.astype("c16"))
        values = sample("i2", expected.shape, 4)
        for value in (values, values.astype(case.dtype)):
            array[selection] = value
            model.data[selection] = value
            assert_same(array[...], model.data)


@pytest.mark.slow
@given(case=cases(min_ndim=1), data=st.data())
def test_only_what_is_selected_is_written(factory, case, data):
    """Every chunk, also outside the bounds, is as if written element by element."""
    with built(factory, case) as (array, model), built(factory, case) as (other, _):
        selection = data.draw(fancy_selections(model.shape))
        try:
            numbers = np.arange(array.size).reshape(array.shape)[selection]
        except IndexError:
            return
        values = sample(case.dtype, np.shape(numbers), 4)
        array[selection] = values
        for at in np.ndindex(np.shape(numbers)):
            other.write(np.unravel_index(int(numbers[at]), array.shape), values[at])
        for (_, view), (_, expected) in zip(array.chunk_views(), other.chunk_views(), strict=True):
            assert_same(view.copy(), expected.copy())


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "F", "Z", "H"])
@pytest.mark.parametrize("dtype", ["u1", "f8", "c16", "S3", "S33"])
def test_many_points(factory, order, dtype):
    """Enough to sort the tables by digits, over chunks of several kilobytes."""
    rng = np.random.default_rng(3)
    shape = (90, 70, 50)
    with factory.array((60, 70, 30), dtype, chunks=(32, 16, 9), order=order) as array:
        array.extend(2, 20)
        array.extend(0, 30)
        expected = sample(dtype, shape)
        array[...] = expected
        points = tuple(rng.integers(-n, n, 5000) for n in shape)
        assert_same(array[points], expected[points])
        few = tuple(index[:100] for index in points)
        values = sample(dtype, (100,), 9)
        array[few] = values
        expected[few] = values
        rows, columns = rng.integers(0, 50, 20), rng.permutation(70)[:33]
        for selection in [
            np.s_[:, columns],
            np.s_[:, :, rows],
            np.s_[rows, :, rows],
            np.s_[rows, ::-2],
            np.ix_(rows, columns, rows),
            rng.random(shape) < 0.3,
            np.s_[:, rng.random(shape[1:]) < 0.02],
            np.s_[rng.random(shape[:2]) < 0.9, ::3],
        ]:
            assert_same(array[selection], expected[selection].copy())
        mask = rng.random(shape) < 0.01
        values = sample(dtype, (int(mask.sum()),), 5)
        array[mask] = values
        expected[mask] = values
        array[rows, 3:5] = expected[rows, 3:5] = expected[0, 0, 0]
        assert_same(array[...], expected)


@pytest.mark.parametrize("order", ["C", "F", "Z"])
@pytest.mark.parametrize("dtype", ["i2", "S5"])
def test_points_that_lie_unevenly_in_memory(factory, order, dtype):
    """Rows with gaps, columns first, and one row for all, on the user's side."""
    rng = np.random.default_rng(4)
    with factory.array((40, 50), dtype, chunks=(9, 7), order=order) as array:
        array[...] = data = sample(dtype, (40, 50))
        points = rng.integers(-40, 40, (30, 60)), rng.integers(-50, 50, (30, 60))
        for out in (
            np.zeros((30, 100), dtype)[:, :60],
            np.zeros((60, 30), dtype).T,
            np.zeros((30, 60), dtype)[::-1, ::-1],
            np.zeros((90, 180), dtype)[::3, ::-3],
        ):
            array.read(points, out=out)
            assert_same(out.copy(), data[points])
            assert_same(
                array.read((points[0], points[1][:, 5:6]), out=out),
                data[points[0], points[1][:, 5:6]],
            )
        for values in (sample(dtype, 60, 3), sample(dtype, (30, 1), 4), sample(dtype, (), 5)):
            array[points] = values
            data[points] = values
            assert_same(array[...], data)


@pytest.mark.parametrize("order", ["C", "F", "Z"])
@pytest.mark.parametrize("density", [0.004, 0.05, 0.0625, 0.07, 0.6, 1.0])
def test_masks_sparse_and_dense(factory, order, density):
    """Rows longer than a block, parts of rows, steps; on all axes, and on some between others."""
    rng = np.random.default_rng(7)
    with factory.array((3, 4, 1500), "i4", chunks=(2, 3, 100), order=order) as array:
        array.extend(2, 333, side="start")
        array.extend(0, 2, side="start")
        data = rng.integers(1, 99, array.shape, "i4")
        array[...] = data
        for mask, index in (
            (rng.random(data.shape) < density, ()),
            (rng.random((4, 2 * 1833))[:, ::-2] < density, (slice(None),)),
            (rng.random(1833) < density, (slice(1, 4), 2)),
        ):
            assert_same(array[(*index, mask)], data[(*index, mask)].copy())
            values = -np.arange(data[(*index, mask)].size, dtype="i4").reshape(
                data[(*index, mask)].shape
            )
            array[(*index, mask)] = data[(*index, mask)] = values
            assert_same(array[...], data)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_makes_no_difference(factory, threads):
    expected = sample("c16", (200, 220, 60))
    rows = np.random.default_rng(1).permutation(200)
    mask = expected.real > -0.5
    with (
        factory.array(expected.shape, "c16", chunks=(64, 48, 32)) as array,
        xa.config.set(threads=threads),
    ):
        array[rows] = expected[rows]
        assert_same(array[rows], expected[rows])
        assert_same(array[mask], expected[mask])
        if array._is_mapped:
            array[mask] = 7
            expected[mask] = 7
            assert_same(array[...], expected)


@pytest.mark.parametrize("fewer", [False, True])
def test_parts_of_a_mask_on_threads(factory, monkeypatch, fewer):
    monkeypatch.setattr(execution, "_CACHED", 2000)
    monkeypatch.setattr(limits, "share_bytes", 4096)
    numbers = []

    def together(calls, stop):
        numbers.append(len(calls))
        run_together(calls, stop)

    monkeypatch.setattr(execution, "run_together", together)
    rng = np.random.default_rng(2)
    shape = (5, 40, 30)
    expected = sample("f4", shape)
    mask, flat = rng.random(shape) < 0.7, rng.random(shape[1:]) < 0.7
    with (
        factory.array(shape, "f4", chunks=(4, 8, 8)) as array,
        xa.config.set(threads=3, **({"max_memory": 9000} if fewer else {})),
    ):
        array[...] = expected
        for index in (mask, (slice(None), flat), (slice(4, None, -1), flat), (2, flat)):
            assert_same(array[index], expected[index].copy())
            array[index] = expected[index] = sample("f4", expected[index].shape, 4)
            assert_same(array[...], expected)
            array[index] = expected[index] = sample("i2", expected[index].shape, 5)
            assert_same(array[...], expected)
        if array._is_mapped:
            assert max(numbers) == (2 if fewer else 3)


@pytest.mark.parametrize("density", [0, 0.01, 0.06, 0.065, 0.9, 1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_true_places_are_found_on_threads(memory, monkeypatch, density, order):
    monkeypatch.setattr(limits, "share_bytes", 1000)
    x = sample("i4", (7, 30, 20))
    mask = np.asarray(np.random.default_rng(0).random(x.shape) < density, order=order)
    with memory.array(x.shape, "i4", chunks=8) as array, xa.config.set(threads=3):
        array[...] = x
        assert_same(array[mask], x[mask])
        assert_same(array[mask[:, 0, 0]], x[mask[:, 0, 0]])


# -- masks that are arrays of ours ---------------------------------------------------------------


@given(case=cases(min_ndim=1, max_ndim=3), data=st.data())
def test_a_mask_may_be_an_array_of_ours(factory, case, data):
    with built(factory, case) as (array, model):
        rank = data.draw(st.integers(1, array.ndim))
        mask = data.draw(masks(array.shape[:rank]))
        ours = xa.from_array(mask, chunks=data.draw(st.integers(1, 4)))
        with xa.config.set(max_memory=data.draw(st.sampled_from([10**6, 50]))):
            assert_same(array[ours], model.data[mask].copy())
            assert_same(array[ours, ...], model.data[mask, ...].copy())
            array[ours] = value = sample(case.dtype, (), 3)
            model.data[mask] = value
            assert_same(array[...], model.data)


def test_an_array_of_ours_as_indices(factory):
    with factory.array((6, 4), "i4", chunks=(2, 3)) as array:
        array[...] = expected = sample("i4", (6, 4))
        indices = xa.from_array([[5, 0], [-1, 2]], chunks=1)
        assert_same(array[indices], expected[np.asarray(indices)])
        assert_same(array[0, indices[1]], expected[0, [-1, 2]])
        wrong = xa.ones((5, 4), "?", chunks=2)
        assert_same_outcome(lambda: array[wrong], lambda: expected[np.ones((5, 4), bool)])


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_memory", ["1 MiB", 100])
def test_values_that_overlap_the_array(factory, max_memory):
    with (
        factory.array((7, 6), "i4", chunks=(2, 3)) as array,
        xa.config.set(max_memory=max_memory),
    ):
        array[...] = sample("i4", (7, 6))
        rows = [6, 5, 4, 3, 2, 1, 0]
        expected = array[...]
        expected[rows] = expected.copy()
        array[rows] = array
        assert_same(array[...], expected)
        view = array.chunk((0, 0))
        expected[[0, 1], :3] = view[::-1].copy()
        array[[0, 1], :3] = view[::-1]
        assert_same(array[...], expected)
        array.read(([1, 0], slice(3)), out=view)
        expected[:2, :3] = expected[[1, 0], :3]
        assert_same(array[...], expected)
        other = xa.from_array(expected[::-1].astype("f4"), chunks=(3, 1))
        array[rows] = other
        expected[rows] = expected[::-1].astype("f4")
        assert_same(array[...], expected)


def test_what_no_memory_can_hold_is_not_made(factory):
    """A mask with few true places, points far apart: small results from arrays of any size."""
    if not factory.on_disk:
        pytest.skip("the array would be larger than memory")
    with factory.array((2**20, 2**18), "f8", chunks=(2**9, 2**9), sparse=True) as array:
        far = (np.array([0, 2**20 - 1, 5]), np.array([2**18 - 1, 0, -1]))
        array[far] = [1, 2, 3]
        assert array[far].tolist() == [1, 2, 3]
        assert array[far[0], -1].tolist() == [1, 0, 3]
        rows = np.zeros(2**20, bool)
        rows[[5, 2**19]] = True
        assert array[rows, -1].tolist() == [3, 0]


# -- fields --------------------------------------------------------------------------------------

RECORD = np.dtype(
    {
        "names": ["a", "b", "c"],
        "formats": ["u1", (">f4", (2,)), [("p", "i2"), ("q", "i8")]],
        "offsets": [0, 3, 12],
        "itemsize": 25,
    }
)


@given(case=cases(dtypes=st.just(RECORD), max_ndim=3), data=st.data())
def test_fields_equal_numpys(factory, case, data):
    with built(factory, case) as (array, model):
        for name in data.draw(st.permutations(["a", "b", "c"])):
            assert_same(array[name], model.data[name].copy())
            out = np.zeros(array[name].shape, array[name].dtype).T.copy().T
            assert_same(array.read(name, out=out), model.data[name])
            dtype = model.data[name].dtype
            shape = model.data[name].shape
            values = data.draw(values_for(shape, dtype))
            assert_same_outcome(
                lambda n=name, v=values: array.__setitem__(n, v),
                lambda n=name, v=values: model.data.__setitem__(n, v),
            )
            assert_same(array[...], model.data)
        for names in (["c", "a"], ["b"]):
            got, expected = array[names], model.data[names]
            assert got.dtype == expected.dtype
            assert_same(got, expected.copy())
        pair = sample([("x", "i4"), ("y", "u1")], model.shape, 5)
        pair = pair.astype([("x", RECORD["c"]), ("y", "u1")]) if not pair.size else pair
        with contextlib.suppress(ValueError, TypeError):
            model.data[["a"]] = pair[["y"]]
            array[["a"]] = pair[["y"]]
            assert_same(array[...], model.data)


@pytest.mark.parametrize("order", ["C", "F", "Z", "H"])
def test_a_field_is_written_alone(factory, order):
    """No byte beside the field changes: not other fields, not padding."""
    with factory.array((5, 6), RECORD, chunks=(3, 4), order=order) as array:
        array[...] = sample(RECORD, (5, 6))
        raw = f"V{RECORD.itemsize}"  # copies of records omit padding
        before = {index: view.view(raw).tobytes() for index, view in array.chunk_views()}
        array["b"] = [[1.5, 2.5]]
        inside = np.zeros(RECORD.itemsize, bool)
        inside[3:11] = True
        for index, view in array.chunk_views():
            old = np.frombuffer(before[index], "u1").reshape(-1, RECORD.itemsize)
            new = np.frombuffer(view.view(raw).tobytes(), "u1").reshape(-1, RECORD.itemsize)
            assert (old[:, ~inside] == new[:, ~inside]).all()
        assert (array["b"] == [1.5, 2.5]).all()


def test_names_that_are_no_field(factory):
    with factory.array((3,), RECORD, chunks=2) as array:
        expected = np.zeros(3, RECORD)
        assert_same_outcome(lambda: array["z"], lambda: expected["z"])
        assert_same_outcome(lambda: array[["a", "z"]], lambda: expected[["a", "z"]], words=False)
        assert_same_outcome(lambda: array[["a", "a"]], lambda: expected[["a", "a"]])
        assert_same_outcome(lambda: array[("a",)], lambda: expected[("a",)])
        assert_same_outcome(lambda: array.__setitem__("z", 1), lambda: expected.__setitem__("z", 1))
        with pytest.raises(KeyError, match="no field of name z"):
            array["z"]


# -- errors --------------------------------------------------------------------------------------

WRONG = {
    "far": [0, 4],
    "far below": [-5],
    "far in the middle": (slice(None), [[0, 1], [3, 2]]),
    "far integer": (4, [0, 1]),
    "huge": [2**70],
    "shapes": ([0, 1], [0, 1, 2]),
    "floats": [1.0],
    "empty floats": np.array([]),
    "object": object(),
    "ragged": [[0], [1, 2]],
    "too many": ([0], [0], [0]),
    "two ellipses": (..., [0], ...),
    "mask too short": np.ones(3, bool),
    "mask of another shape": np.ones((3, 4), bool),
    "mask of rank 3": np.ones((4, 3, 1), bool),
    "mask and array": (np.array([True, False, True, False]), [0, 1, 2]),
    "False and array": (False, [0, 1]),
    "text": (["x"], 0),
    "dimensions": (np.zeros((1,) * 40, int), *[None] * 40),
}


@pytest.mark.parametrize("selection", WRONG.values(), ids=WRONG.keys())
def test_errors_are_numpys(factory, selection):
    with factory.array((4, 3), "i4", chunks=(2, 2)) as array:
        expected = np.zeros((4, 3), "i4")
        got = assert_same_outcome(lambda: array[selection], lambda: expected[selection])
        assert not got
        with pytest.raises(xa.ExtArrayError):
            array[selection] = 1
        assert not array[...].any()


@given(data=st.data())
def test_indices_out_of_bounds(memory, data):
    """Indices out of bounds are found before anything is written."""
    with memory.array((4, 3), "i4", chunks=(2, 2)) as array:
        expected = np.zeros((4, 3), "i4")
        bad = data.draw(st.sampled_from([4, -5, 2**40, -(2**62)]))
        rows = data.draw(index_arrays(4, (3,)).map(list))
        rows[data.draw(st.integers(0, 2))] = bad
        assert_same_outcome(lambda: array[rows], lambda: expected[rows])
        assert_same_outcome(
            lambda: array.__setitem__(rows, 1), lambda: expected.__setitem__(rows, 1)
        )
        assert not array[...].any()


VALUES = {
    "rows": ([0, 1], [1, 2]),
    "points": (([0, 1], [0, 1]), [1, 2, 3]),
    "mask": (np.eye(4, 3, dtype=bool), [1, 2]),
    "mask of rank 2": (np.eye(4, 3, dtype=bool), [[1, 2, 3]]),
    "empty mask": (np.zeros((4, 3), bool), [1, 2]),
    "mask of rows": (np.array([True, False, True, False]), np.ones((3, 3))),
}


@pytest.mark.parametrize(("selection", "value"), VALUES.values(), ids=VALUES.keys())
def test_values_that_do_not_fit(factory, selection, value):
    with factory.array((4, 3), "i4", chunks=(2, 2)) as array:
        expected = np.zeros((4, 3), "i4")
        assert not assert_same_outcome(
            lambda: array.__setitem__(selection, value),
            lambda: expected.__setitem__(selection, value),
        )
        assert not array[...].any()


def test_read_only_and_closed(disk):
    with disk.array((4, 3), "i4", chunks=(2, 2)) as array, disk.open(array) as reader:
        array[[0, 3]] = 5
        assert reader[[0, 3]].sum() == 30
        with pytest.raises(xa.ReadOnlyError):
            reader[[0]] = 1
        with pytest.raises(xa.ReadOnlyError):
            reader[reader[...] == 5] = 1
        reader.close()
        with pytest.raises(xa.ClosedError):
            reader[[0]]


def test_an_index_that_closes_the_array(disk):
    """The conversion of an index may run any code."""
    with disk.array((4, 3), "i4", chunks=(2, 2)) as array:

        class Closes:
            def __array__(self, dtype=None, copy=None):
                array.close()
                return np.array([0, 1])

        with pytest.raises(xa.ClosedError):
            array[Closes()]


@pytest.mark.parametrize("extent", [1, 2, 7, 2**31, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1])
def test_indices_at_the_bounds(extent):
    ends = (0, extent, -extent, 2**62, -(2**62), 2**63 - 1, -(2**63))
    for index in {end + near for end in ends for near in (-1, 0, 1)}:
        if not -(2**63) <= index < 2**63:
            continue
        for place in (0, 4, 8):
            indices = np.zeros((3, 3), np.intp)
            indices.flat[place] = index
            for array in (indices, indices.T):
                assert in_bounds(array, extent) == (-extent <= index < extent)


@pytest.mark.parametrize(
    "index", [2**63, 2**64 - 1, 2**64, 2**70, -(2**63) - 1, np.uint64(2**64 - 1)]
)
def test_integers_larger_than_indices(factory, index):
    with factory.array((10,), "i4", chunks=3) as array:
        for call in (
            lambda: array.vindex[index],
            lambda: array.oindex[index],
            lambda: array.get_coordinate_selection((index,)),
            lambda: array.set_coordinate_selection((index,), 5),
            lambda: array.set_orthogonal_selection((index,), 5),
        ):
            with pytest.raises(xa.BoundsError, match="out of bounds"):
                call()
        assert not array[...].any()


@pytest.mark.parametrize("share", [0.01, 0.6])
@pytest.mark.parametrize("extra", [30, 40, 60])
def test_masks_of_more_axes_than_arrays_have(factory, share, extra):
    """A view, and so its mask, may have 64 axes."""
    rng = np.random.default_rng(1)
    data = rng.integers(1, 99, (20, 30, 10), "i4")
    mask = rng.random(data.shape) < share
    with factory.array(data.shape, "i4", chunks=(7, 8, 9)) as array:
        array[...] = data
        index = (..., *(None,) * extra)
        for given in (
            mask[index],
            np.asfortranarray(mask)[index],
            mask[::-1, :, ::-1].copy()[::-1, :, ::-1][index],
        ):
            view = array.lazy[index]
            assert_same(view[given], data[mask])
            view[given] = -data[mask]
            data[mask] *= -1
            assert_same(array[...], data)


# -- indices that change while they are used -----------------------------------------------------


class Values:
    """Values whose conversion runs code, after the index was examined."""

    def __init__(self, change):
        self.change = change

    def __array__(self, dtype=None, copy=None):
        self.change()
        return np.array(7, dtype)


@pytest.mark.parametrize("shown", [1, -1])
@pytest.mark.parametrize("max_memory", [10, 10**6])
@pytest.mark.parametrize("ours", [False, True])
def test_a_mask_that_changes(factory, ours, max_memory, shown):
    """The counted elements are selected, or an error says why not."""
    mask = np.arange(400) % 3 == 0
    given = xa.from_array(mask, chunks=7) if ours else mask.copy()
    with factory.array((400,), "i4", chunks=(9,)) as array, xa.config.set(max_memory=max_memory):
        target = array if shown == 1 else array.lazy[::-1]
        for changed in (True, False):
            given[...] = mask

            def change(changed=changed):
                given[...] = changed

            if max_memory < 400:
                with pytest.raises(xa.SelectionError, match="a mask changed during use"):
                    target[given] = Values(change)
                continue
            array[...] = 0
            target[given] = Values(change)
            assert_same(target[...], np.where(mask, 7, 0).astype("i4"))


def test_indices_that_change(factory):
    with factory.array((40, 40), "i4", chunks=(9, 7)) as array:
        for far in (40, -41, 10**15, -(2**63)):
            indices = np.arange(30)

            def change(indices=indices, far=far):
                indices[11] = far

            with pytest.raises(xa.BoundsError, match="changed during use"):
                array[indices, indices[::-1]] = Values(change)
        assert not array[...].any()


@pytest.mark.parametrize("count", [4000, 4095, 4096, 4100, 4200])
def test_a_mask_that_is_true_at_one_end(count):
    """Even the half with all true places may have slightly more than fit into the tables."""
    mask = np.zeros(60_000, bool)
    mask[:count] = True
    values = np.arange(60_000)
    with xa.from_array(values, chunks=10**5) as array, xa.config.set(max_memory=2**17):
        np.testing.assert_array_equal(array[mask], values[mask])
        array[mask] = 3
        values[mask] = 3
        np.testing.assert_array_equal(array, values)


@pytest.mark.slow
def test_a_mask_that_another_thread_changes(forked):
    """The process must not crash."""
    code = """
import threading, time
import numpy as np, extarray as xa

mask, array = np.zeros(200_000, bool), xa.zeros(200_000, "i8")
done = False

def change():
    while not done:
        mask[:] = True
        mask[:] = False

thread = threading.Thread(target=change)
thread.start()
end = time.monotonic() + 1
try:
    while time.monotonic() < end:
        for max_memory in (2**20, 2**17):
            with xa.config.set(max_memory=max_memory):
                try:
                    array[mask] = array[mask][:1].sum()
                except xa.SelectionError:
                    pass
finally:
    done = True
    thread.join()
print("whole")
"""
    assert forked(code).strip() == "whole"


# -- indices that share elements with the target -------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("max_memory", [10, 200, 10**6])
def test_a_mask_that_is_a_view_of_what_is_written(factory, max_memory):
    expected = np.random.default_rng(4).random((30, 30)) < 0.5
    masks = {
        "reversed": (lambda x: x.lazy[::-1], lambda x: x[::-1]),
        "transposed": (lambda x: x.lazy[...].T, lambda x: x.T),
        "itself": (lambda x: x, lambda x: x),
        "a row": (lambda x: x.lazy[::-1, 3], lambda x: x[::-1, 3]),
    }
    with factory.array((30, 30), "?", chunks=(4, 7)) as array:
        for view, numpys in masks.values():
            for value in (False, True):
                array[...] = expected
                model = expected.copy()
                model[numpys(model).copy()] = value
                with xa.config.set(max_memory=max_memory):
                    array[view(array)] = value
                assert_same(array[...], model)
                # The same on a view.
                array[...] = expected
                model = expected.copy()
                model[::-1][numpys(model).copy()] = value
                with xa.config.set(max_memory=max_memory):
                    array.lazy[::-1][view(array)] = value
                assert_same(array[...], model)
        array[...] = expected
        model = expected.copy()
        values = np.arange(model.sum()) % 2 == 0
        model[model[::-1].copy()] = values
        with xa.config.set(max_memory=max_memory):
            array[array.lazy[::-1]] = values
        assert_same(array[...], model)


@pytest.mark.parametrize("max_memory", [10, 10**6])
def test_indices_that_are_a_view_of_what_is_written(factory, max_memory):
    with factory.array((40,), np.intp, chunks=(40,)) as array:
        array[...] = expected = np.random.default_rng(2).permutation(40)
        expected = expected.copy()
        expected[expected.copy()] = np.arange(40)[::-1]
        with xa.config.set(max_memory=max_memory):
            array[array.chunk((0,))] = np.arange(40)[::-1]
        assert_same(array[...], expected)


# -- arrays of ours as values --------------------------------------------------------------------


@given(case=cases(), data=st.data())
def test_an_array_of_ours_is_assigned(factory, case, data):
    """Assign our arrays and views, of other dtypes, with leading axes, in little memory."""
    with built(factory, case) as (array, model):
        selection = data.draw(fancy_selections(model.shape))
        with contextlib.suppress(IndexError):
            shape = np.shape(model.data[selection])
            lead = data.draw(st.sampled_from([(), (1,), (1, 1)]))
            values = sample(
                data.draw(st.sampled_from([case.dtype, "i1", "f8"])), (*lead, *shape), 6
            )
            ours = xa.from_array(values, chunks=data.draw(st.integers(1, 4)))
            late = data.draw(st.sampled_from([ours, ours.lazy[...], ours.astype(ours.dtype)]))
            with xa.config.set(max_memory=data.draw(st.sampled_from([10**6, 50]))):
                assert_same_outcome(
                    lambda: array.__setitem__(selection, late),
                    lambda: model.data.__setitem__(selection, values),
                )
            assert_same(array[...], model.data)
