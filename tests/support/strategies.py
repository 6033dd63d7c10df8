"""Hypothesis strategies, all of which shrink to one chunk, one growth, one element."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from model import Model, sample

__all__ = [
    "Case",
    "Growth",
    "Index",
    "built",
    "cases",
    "chunk_shapes",
    "dtypes",
    "fancy_selections",
    "faulty_selections",
    "growths",
    "orders",
    "selections",
    "shapes",
    "sides",
]

#: Extents of an axis, simplest first: 0 is a special case, not the simplest one.
_SIDES = [1, 2, 3, 4, 5, 7, 0]

dtypes = st.sampled_from(
    [
        np.dtype(spec)
        for spec in [
            "i4",
            "u1",
            ">f8",
            "?",
            ">u2",
            "c8",
            "f2",
            "S3",
            "U2",
            "M8[s]",
            "V5",
            "g",
            [("x", "u1"), ("y", ">f4", (2,))],
        ]
    ]
)
sides = st.sampled_from(["end", "start"])
orders = st.sampled_from(["C", "F", "Z", "H"])


def shapes(min_ndim: int = 0, max_ndim: int = 4):
    # Rank 1 is the simplest, so that failures shrink to an array with an axis to grow.
    ranks = sorted(range(min_ndim, max_ndim + 1), key=lambda k: (k == 0, k))
    return st.sampled_from(ranks).flatmap(
        lambda k: st.tuples(*[st.sampled_from(_SIDES if k < 4 else _SIDES[:3])] * k)
    )


def chunk_shapes(ndim: int):
    return st.tuples(*[st.sampled_from([4, 3, 2, 1, 9])] * ndim)


class Index:
    """An integer through `__index__` alone."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@dataclass(frozen=True)
class Growth:
    """One growth: `extend` leaves the fill value, `append` brings data.

    A negative number shrinks instead.
    """

    axis: int
    by: int
    seed: int | None = None
    side: str = "end"

    def apply(self, array, model) -> None:
        if self.by < 0:
            by = min(-self.by, model.shape[self.axis])
            array.shrink(self.axis, by, self.side)
            model.shrink(self.axis, by, self.side)
            return
        if self.seed is None:
            array.extend(self.axis, self.by, self.side)
            model.extend(self.axis, self.by, self.side)
            return
        shape = list(model.shape)
        shape[self.axis] = self.by
        data = sample(model.dtype, tuple(shape), self.seed)
        array.append(data, self.axis, self.side)
        model.append(data, self.axis, self.side)


def growths(ndim: int, max_size: int = 6, cuts: bool = True):
    """Draw histories of growth, in elements, and (cuts) of shrinking."""
    if ndim == 0:
        return st.just([])
    return st.lists(
        st.builds(
            Growth,
            axis=st.integers(0, ndim - 1),
            by=st.sampled_from([1, 2, 3, 5, 0, *([-1, -3] if cuts else [])]),
            seed=st.none() | st.integers(0, 9),
            side=sides,
        ),
        max_size=max_size,
    )


@dataclass(frozen=True)
class Case:
    """Everything that determines an array and its contents."""

    shape: tuple[int, ...]
    dtype: np.dtype
    chunks: tuple[int, ...]
    order: str
    sparse: bool
    filled: bool
    history: list[Growth]


@st.composite
def cases(draw, dtypes=dtypes, orders=orders, min_ndim=0, max_ndim=4, cuts=True) -> Case:
    shape = draw(shapes(min_ndim, max_ndim))
    return Case(
        shape=shape,
        dtype=draw(dtypes),
        chunks=draw(chunk_shapes(len(shape))),
        order=draw(orders),
        sparse=draw(st.booleans()),
        filled=draw(st.booleans()),
        history=draw(growths(len(shape), 6 if len(shape) < 4 else 3, cuts)),
    )


@contextlib.contextmanager
def built(factory, case: Case):
    """Build the array of a case and its model, grown and filled."""
    fill = sample(case.dtype, (), seed=77)[()] if case.filled else None
    model = Model(case.shape, case.dtype, case.chunks, fill)
    options = {} if fill is None else {"fill_value": fill}
    with factory.array(
        case.shape,
        case.dtype,
        chunks=case.chunks,
        order=case.order,
        sparse=case.sparse,
        **options,
    ) as array:
        model.data = sample(case.dtype, case.shape, seed=5)
        array[...] = model.data
        for growth in case.history:
            growth.apply(array, model)
        yield array, model


def _slices(n: int):
    limits = st.none() | st.integers(-n - 2, n + 2)
    steps = st.none() | st.sampled_from([1, 2, 3, -1, -2, -3, 10**20, -(2**63)])
    return st.builds(slice, limits, limits, steps)


@st.composite
def selections(draw, shape):
    """Draw basic selections; an integer for an empty axis is out of bounds, as in NumPy."""
    count = draw(st.integers(0, len(shape)))
    ellipsis = draw(st.none() | st.integers(0, count))
    items = []
    for position in range(count):
        # Items after an ellipsis belong to the last axes.
        late = ellipsis is not None and position >= ellipsis
        n = shape[len(shape) - count + position if late else position]
        integers = st.integers(-n, n - 1) if n else st.just(0)
        items.append(draw(_slices(n) | integers))
    if ellipsis is not None:
        items.insert(ellipsis, Ellipsis)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        items.insert(draw(st.integers(0, len(items))), None)
    if len(items) == 1 and draw(st.booleans()):
        return items[0]
    return tuple(items)


@st.composite
def faulty_selections(draw, shape):
    """Draw selections that NumPy mostly refuses: replace or add one item of a good one."""
    selection = draw(selections(shape))
    items = list(selection) if isinstance(selection, tuple) else [selection]
    far = max(shape, default=0)
    bad = draw(
        st.sampled_from(
            [
                far,
                -far - 1,
                2**40,
                -(2**63),
                slice(None, None, 0),
                slice(0.5, None),
                slice(None, "1"),
                slice(None, None, 1.0),
                1.0,
                b"x",
                2j,
                object,
                Ellipsis,
                0,
                slice(None),
            ]
        )
    )
    if items and draw(st.booleans()):
        items[draw(st.integers(0, len(items) - 1))] = bad
    else:
        items.insert(draw(st.integers(0, len(items))), bad)
    return tuple(items)


def index_arrays(n: int, shape=None):
    """Draw integers for an axis, as array, list or other dtype; any sign, repeated, unsorted."""
    shapes = st.sampled_from([(2,), (1,), (3,), (0,), (2, 1), (2, 3), (1, 2)])
    integers = st.integers(-n, n - 1) if n else st.just(0)

    @st.composite
    def arrays(draw):
        sides = shape if shape is not None else draw(shapes)
        size = int(np.prod(sides))
        if not n and size:
            sides, size = (0,), 0
        values = draw(st.lists(integers, min_size=size, max_size=size))
        array = np.array(values, draw(st.sampled_from(["i8", "i8", "i1", ">i4"]))).reshape(sides)
        return array.tolist() if draw(st.booleans()) and size else array

    return arrays()


def masks(shape):
    """Draw boolean arrays of all densities."""
    return st.builds(
        lambda share, seed: np.random.default_rng(seed).random(shape) < share,
        st.sampled_from([0.5, 0.1, 0.9, 0.0, 1.0]),
        st.integers(0, 99),
    )


@st.composite
def fancy_selections(draw, shape):
    """Draw index expressions of all kinds, mixed; mostly valid ones."""
    items = []
    axis = 0
    joined = draw(st.none() | st.sampled_from([(2,), (1,), (2, 3), (3, 1), (0,)]))
    count = draw(st.integers(0, len(shape)))
    late = draw(st.booleans())  # begins with an ellipsis
    if late:
        axis = len(shape) - count
    stop = axis + count
    while axis < stop:
        n = shape[axis]
        kinds = ["array", "slice", "mask", "integer", "array"]
        kind = draw(st.sampled_from(kinds))
        if kind == "array":
            items.append(draw(index_arrays(n, joined)))
        elif kind == "slice":
            items.append(draw(_slices(n)))
        elif kind == "integer":
            integers = st.integers(-n, n - 1) if n else st.just(0)
            items.append(draw(integers | integers.map(np.int16) | integers.map(np.array)))
        else:
            rank = draw(st.integers(1, stop - axis))
            items.append(draw(masks(shape[axis : axis + rank])))
            axis += rank - 1
        axis += 1
    if late:
        items.insert(0, Ellipsis)
    elif draw(st.booleans()):
        items.append(Ellipsis)
    for extra in draw(st.sampled_from([[], [], [], [None], [True], [False], [np.True_, None]])):
        items.insert(draw(st.integers(0, len(items))), extra)
    if len(items) == 1 and draw(st.booleans()):
        return items[0]
    return tuple(items)
