"""Products of arrays, and norms of vectors and matrices.

Each of NumPy's products is a contraction: every axis of an operand has a label, and labels that the
result lacks are summed over.  BLAS multiplies panels of the operands, and the products are summed
in the result.  Norms are reductions of absolute values.
"""

from __future__ import annotations

import itertools
import math
import string
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from extarray.common.errors import ArgumentError, ShapeError
from extarray.common.formatting import shape_text
from extarray.numpy_api import reductions  # noqa: F401 -- has the forms that are called
from extarray.numpy_api.registry import call, streams
from extarray.streaming.blocks import Source, run
from extarray.streaming.derived import Computed, flat, widened
from extarray.streaming.elementwise import elementwise, part_of
from extarray.streaming.operands import (
    as_array,
    chunks_of,
    hollow,
    separate,
    step_bytes,
    store,
    target_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

    Labels = Sequence[str]

__all__: list[str] = []

# -- the one product -----------------------------------------------------------------------------


class _Contraction:
    """Sum of products of two operands, over the labels that the result lacks."""

    def __init__(
        self, a: Any, a_labels: Labels, b: Any, b_labels: Labels, labels: Labels, dtype: Any
    ) -> None:
        self.a, self.b = a, b
        self._a_labels, self._b_labels, self._labels = a_labels, b_labels, labels
        self._dtype = np.dtype(dtype).newbyteorder("=")
        self._extents: dict[str, int] = {}
        for own, x in ((a_labels, a), (b_labels, b)):
            for label, n in zip(own, x.shape, strict=True):
                if self._extents.get(label, 1) != n != 1:
                    if self._extents.get(label, 1) != 1:
                        raise ShapeError(
                            f"shapes {a.shape} and {b.shape} not aligned: an axis of length "
                            f"{self._extents[label]} meets one of length {n}"
                        )
                    self._extents[label] = n
                self._extents.setdefault(label, n)
        in_a, in_b = set(a_labels), set(b_labels)
        self._batch = [x for x in labels if x in in_a and x in in_b]
        self._of_a = [x for x in labels if x not in in_b]
        self._of_b = [x for x in labels if x not in in_a]
        self._summed = [x for x in self._extents if x not in labels]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        return tuple(self._extents[label] for label in self._labels)

    def into(self, target: Any) -> None:
        """Compute the product box by box of the result."""
        # As NumPy does, sum half precision in single precision.
        kind = np.dtype(np.float32) if self._dtype == np.float16 else self._dtype
        block = self._block(target, kind.itemsize)
        inner = [self._pieces(label, block) for label in self._summed]

        def work(_: int, box: Box) -> None:
            place = dict(zip(self._labels, box, strict=True))
            total = np.zeros([s.stop - s.start for s in box], kind)
            for pieces in itertools.product(*inner):
                place.update(zip(self._summed, pieces, strict=True))
                total += self._product(
                    self._part(self.a, self._a_labels, place).astype(kind, copy=False),
                    self._part(self.b, self._b_labels, place).astype(kind, copy=False),
                )
            store(target, box, total)

        boxes = itertools.product(*[self._pieces(label, block) for label in self._labels])
        run(work, boxes, math.prod(self._extents.values()) * kind.itemsize)

    def _block(self, target: Any, itemsize: int) -> dict[str, int]:
        """Return extents of panels of operands and result that fit into memory.

        They are nearly cubes: the longer the sides, the less often each operand is read.
        """
        block = dict(self._extents)
        groups = [g for g in (self._labels, self._a_labels, self._b_labels) if g]
        limit = max(1, step_bytes(8) // itemsize)
        while groups:
            largest = max(groups, key=lambda g: math.prod(block[x] for x in g))
            if math.prod(block[x] for x in largest) <= limit:
                break
            side = max(largest, key=lambda x: block[x])
            block[side] = -(-block[side] // 2)
        for own, x in ((self._labels, target), (self._b_labels, self.b), (self._a_labels, self.a)):
            for label, chunk in zip(own, chunks_of(x), strict=True):
                if isinstance(x, Source) and chunk < block[label] < self._extents[label]:
                    block[label] = block[label] // chunk * chunk
        return block

    def _pieces(self, label: str, block: Mapping[str, int]) -> list[slice]:
        n, step = self._extents[label], max(1, block[label])
        return [slice(low, min(low + step, n)) for low in range(0, n, step)]

    def _part(self, x: Any, labels: Labels, place: Mapping[str, slice]) -> NDArray[Any]:
        part: NDArray[Any] = part_of(x, tuple(place[label] for label in labels))
        return part

    def _product(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        """Return the product of two panels, computed as one of matrices."""
        left = self._arrange(a, self._a_labels, self._of_a, self._b_labels)
        right = self._arrange(b, self._b_labels, self._of_b, self._a_labels)
        n = len(self._batch)
        free_a = left.shape[n : n + len(self._of_a)]
        free_b = right.shape[n : n + len(self._of_b)]
        lanes = math.prod(left.shape[n + len(self._of_a) :])
        matrices = np.matmul(
            left.reshape(*left.shape[:n], math.prod(free_a), lanes),
            right.reshape(*right.shape[:n], math.prod(free_b), lanes).swapaxes(-1, -2),
        )
        result: NDArray[Any] = matrices.reshape((*matrices.shape[:n], *free_a, *free_b))
        order = [*self._batch, *self._of_a, *self._of_b]
        return result.transpose([order.index(label) for label in self._labels])

    def _arrange(
        self, x: NDArray[Any], labels: Labels, free: Labels, others: Labels
    ) -> NDArray[Any]:
        """Order a panel's axes: batch axes, free axes, summed axes; sum over the panel's own."""
        alone = [
            j for j, label in enumerate(labels) if label in self._summed and label not in others
        ]
        if alone:
            x = x.sum(tuple(alone), dtype=x.dtype)
            labels = [label for j, label in enumerate(labels) if j not in alone]
        both = [label for label in self._summed if label in labels and label in others]
        # An axis of length 1 that meets a longer one: NumPy broadcasts it later.
        return x.transpose([labels.index(label) for label in (*self._batch, *free, *both)])


def _contract(
    function: Callable[..., Any],
    a: Any,
    a_labels: Labels,
    b: Any,
    b_labels: Labels,
    labels: Labels,
    out: Any = None,
    exact: bool = False,
) -> Any:
    """Compute a product; if `exact`, `out` must have the dtype and shape of the result."""
    # NumPy chooses the dtype, and raises its errors.
    dtype = np.asarray(function(np.zeros(1, a.dtype), np.zeros(1, b.dtype))).dtype
    # All products use matmul, which does not accept time differences.  Products of objects may be
    # Python numbers.
    if dtype.kind in "mO" or a.dtype.hasobject or b.dtype.hasobject:
        return NotImplemented
    a, b = separate(a, out), separate(b, out)
    work = _Contraction(a, a_labels, b, b_labels, labels, dtype)
    if exact and out is not None and (out.dtype != dtype or out.shape != work.shape):
        raise ArgumentError(
            "output array is not acceptable (must have the right datatype, number of dimensions, "
            "and be a C-Array)"
        )
    target = target_for(out, work.shape, dtype, function.__name__)
    work.into(target)
    return target if out is not None or work.shape else target[()]


def _labels(n: int, start: int = 0) -> list[str]:
    return [f"{start + i}" for i in range(n)]


# -- products of NumPy ---------------------------------------------------------------------------


def _aligned(a: Any, j: int, b: Any, k: int) -> None:
    """Raise NumPy's error for axes of different lengths."""
    if a.shape[j] != b.shape[k]:
        j, k = j % len(a.shape), k % len(b.shape)
        raise ShapeError(
            f"shapes {shape_text(a.shape)} and {shape_text(b.shape)} not aligned: "
            f"{a.shape[j]} (dim {j}) != {b.shape[k]} (dim {k})"
        )


@streams(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Streamed form: sum over the last axis of `a` and the last but one of `b`."""
    a, b = as_array(a), as_array(b)
    if not a.shape or not b.shape:
        return NotImplemented if out is not None else np.multiply(a, b)
    k = max(0, len(b.shape) - 2)
    _aligned(a, -1, b, k)
    of_a = _labels(len(a.shape) - 1)
    of_b = _labels(len(b.shape) - 1, len(of_a))
    labels = [*of_a, *of_b]
    return _contract(np.dot, a, [*of_a, "sum"], b, [*of_b[:k], "sum", *of_b[k:]], labels, out, True)


@streams(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Streamed form: sum over the last axes."""
    a, b = as_array(a), as_array(b)
    if not a.shape or not b.shape:
        return np.multiply(a, b)
    _aligned(a, -1, b, -1)
    of_a = _labels(len(a.shape) - 1)
    of_b = _labels(len(b.shape) - 1, len(of_a))
    return _contract(np.inner, a, [*of_a, "sum"], b, [*of_b, "sum"], [*of_a, *of_b])


@streams(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """Streamed form: sum over all elements, those of `a` conjugated."""
    a, b = as_array(a), as_array(b)
    if a.shape != b.shape:
        a, b = flat(a), flat(b)
        _aligned(a, 0, b, 0)
    every = _labels(len(a.shape))
    return _contract(np.vdot, _conjugated(a), every, b, every, [])


def _conjugated(x: Any) -> Any:
    return Computed(np.conj, x, dtype=x.dtype) if x.dtype.kind == "c" else x


@streams(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Streamed form: multiply each element of `a` with each of `b`."""
    a, b = flat(as_array(a)), flat(as_array(b))
    options = {} if out is None else {"out": np.empty((0, 0), out.dtype)}
    dtype = np.outer(hollow(a), hollow(b), **options).dtype
    target = target_for(out, (a.shape[0], b.shape[0]), dtype, "outer", "unsafe")
    a, b = separate(a, out), separate(b, out)
    return elementwise(np.multiply, [widened(a, (1,)), widened(b, (0,))], target)


@streams(np.matmul, np.linalg.matmul)
def matmul(x1: Any, x2: Any, /, out: Any = None, **options: Any) -> Any:
    """Streamed form: multiply matrices, or stacks of matrices."""
    a, b = as_array(x1), as_array(x2)
    if options or not a.shape or not b.shape:
        return NotImplemented
    if a.shape[-1] != b.shape[max(0, len(b.shape) - 2)] or (
        out is not None and not isinstance(out, (Source, np.ndarray))
    ):
        return NotImplemented  # NumPy raises
    depth = max(len(a.shape), len(b.shape)) - 2
    batch = _labels(max(0, depth))
    rows, columns = len(a.shape) > 1, len(b.shape) > 1
    a_labels = [*_last(batch, len(a.shape) - 2), *(["row"] if rows else []), "sum"]
    b_labels = [*_last(batch, len(b.shape) - 2), "sum", *(["column"] if columns else [])]
    labels = [*batch, *(["row"] if rows else []), *(["column"] if columns else [])]
    return _contract(np.matmul, a, a_labels, b, b_labels, labels, out)


def _last(labels: list[str], n: int) -> list[str]:
    return labels[len(labels) - n :] if n > 0 else []


@streams(np.vecdot, np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, out: Any = None, axis: Any = -1, **options: Any) -> Any:
    """Streamed form: sum over one axis, the elements of the first array conjugated."""
    a, b = as_array(x1), as_array(x2)
    if options or not a.shape or not b.shape or axis != -1 or a.shape[-1] != b.shape[-1]:
        return NotImplemented
    batch = _labels(max(len(a.shape), len(b.shape)) - 1)
    a_labels, b_labels = ([*_last(batch, len(x.shape) - 1), "sum"] for x in (a, b))
    return _contract(np.vecdot, _conjugated(a), a_labels, b, b_labels, batch, out)


@streams(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Streamed form: sum over pairs of axes."""
    a, b = as_array(a), as_array(b)
    if isinstance(axes, (list, tuple, np.ndarray)):
        of_a, of_b = ([x] if np.ndim(x) == 0 else list(x) for x in axes)
    else:
        of_a, of_b = list(range(-axes, 0)), list(range(axes))
    try:
        of_a = [normalize_axis_index(j, len(a.shape)) for j in of_a]
        of_b = [normalize_axis_index(j, len(b.shape)) for j in of_b]
    except np.exceptions.AxisError:
        return NotImplemented  # NumPy raises
    if len(of_a) != len(of_b) or any(
        a.shape[j] != b.shape[k] for j, k in zip(of_a, of_b, strict=True)
    ):
        raise ShapeError("shape-mismatch for sum")
    if len(set(of_a)) < len(of_a) or len(set(of_b)) < len(of_b):
        return NotImplemented
    a_labels = _labels(len(a.shape))
    b_labels = _labels(len(b.shape), len(a.shape))
    for j, k in zip(of_a, of_b, strict=True):
        b_labels[k] = a_labels[j]
    labels = [x for x in a_labels if x not in b_labels] + [x for x in b_labels if x not in a_labels]
    result = _contract(np.dot, a, a_labels, b, b_labels, labels)
    # A product without axes is an array, too.
    return result if result is NotImplemented else np.asarray(result)


@streams(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Any:
    """Streamed form: sum products of one or two operands; NumPy does more."""
    subscripts, *given = operands
    if options or len(given) not in (1, 2) or not isinstance(subscripts, str):
        return NotImplemented
    arrays = [as_array(x) for x in given]
    # Let NumPy raise its errors, and tell its dtype, which depends on that of the output.
    into: dict[str, Any] = {"out": hollow(out)} if isinstance(out, (Source, np.ndarray)) else {}
    sample = np.einsum(subscripts, *[hollow(x) for x in arrays], **into)
    parsed = _parse(subscripts, [len(x.shape) for x in arrays])
    if parsed is None or any(x.dtype.kind not in "?biufc" for x in arrays):
        return NotImplemented
    inputs, labels = parsed
    if len(arrays) == 1:  # multiply by one
        arrays.append(np.ones((), arrays[0].dtype))
        inputs.append([])

    def einsum(a: Any, b: Any) -> Any:
        return np.empty(0, sample.dtype)

    return _contract(einsum, arrays[0], inputs[0], arrays[1], inputs[1], labels, out)


def _parse(subscripts: str, ndims: Sequence[int]) -> tuple[list[list[str]], list[str]] | None:
    """Return the labels of operands and result; None if one of them repeats a label."""
    text, arrow, result = subscripts.replace(" ", "").partition("->")
    inputs = []
    most = 0
    for term, ndim in zip(text.split(","), ndims, strict=True):
        before, dots, after = term.partition("...")
        n = ndim - len(before) - len(after) if dots else 0
        most = max(most, n)
        # Numbered from the end, as broadcasting aligns them.
        inputs.append([*before, *[f"{j}" for j in range(-n, 0)], *after])
    ellipsis = [f"{j}" for j in range(-most, 0)]
    if arrow:
        before, dots, after = result.partition("...")
        labels = [*before, *(ellipsis if dots else []), *after]
    else:
        letters = [x for labels in inputs for x in labels if x in string.ascii_letters]
        labels = [*ellipsis, *sorted(x for x in letters if letters.count(x) == 1)]
    if any(len(set(own)) < len(own) for own in (*inputs, labels)):
        return None
    return inputs, labels


# -- norms ---------------------------------------------------------------------------------------


@streams(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Streamed form: any norm but those of matrices that need singular values."""
    if not isinstance(x, Source) or not x.shape or 0 in x.shape or x.dtype.kind not in "?biufc":
        return NotImplemented
    ndim = len(x.shape)
    if axis is None:
        plain = ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1)
        if plain or ndim == 1:
            return _vector(x, 2 if plain else ord, None, keepdims)
        axes = tuple(range(ndim))
    else:
        axes = axis if isinstance(axis, tuple) else (axis,)
    try:
        axes = tuple(normalize_axis_index(j, ndim) for j in axes)
    except (np.exceptions.AxisError, TypeError):
        return NotImplemented  # NumPy raises
    if len(axes) == 1:
        return _vector(x, 2 if ord is None else ord, axes[0], keepdims)
    if len(axes) == 2 and axes[0] != axes[1]:
        return _matrix(x, ord, axes, keepdims)
    return NotImplemented


def _vector(x: Any, order: Any, axis: Any, keepdims: bool) -> Any:
    options = {"keepdims": keepdims}
    if isinstance(order, str):
        return NotImplemented  # NumPy raises
    if order == np.inf:
        return call(np.max, _sizes(x), axis, **options)
    if order == -np.inf:
        return call(np.min, _sizes(x), axis, **options)
    if order == 0:
        kind = _kind(x)
        return _sum(lambda part: (part != 0).astype(kind), x, axis, options)
    if order == 1:
        return call(np.sum, _sizes(x), axis, **options)
    if order == 2:
        return np.sqrt(_sum(_squares, x, axis, options))
    powers = _sum(lambda part: np.abs(_inexact(part)) ** order, x, axis, options)
    return powers ** np.reciprocal(order, dtype=powers.dtype)


def _matrix(x: Any, order: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    if order in (None, "fro", "f"):
        return np.sqrt(_sum(_squares, x, axes, {"keepdims": keepdims}))
    # Sum columns or rows, then take the greatest or the least sum.
    ways: dict[Any, tuple[int, Callable[..., Any]]] = {
        1: (0, np.max),
        -1: (0, np.min),
        np.inf: (1, np.max),
        -np.inf: (1, np.min),
    }
    if isinstance(order, str) or order not in ways:
        return NotImplemented
    first, choose = ways[order]
    sums = call(np.sum, _sizes(x), axes[first], keepdims=True)
    result = choose(sums, axes[1 - first], keepdims=True)
    return result if keepdims else np.squeeze(result, axes)[()]


def _kind(x: Any) -> np.dtype[Any]:
    """Return the dtype of a norm."""
    return np.linalg.norm(np.zeros(1, x.dtype)).dtype


def _inexact(part: NDArray[Any]) -> NDArray[Any]:
    return part if part.dtype.kind in "fc" else part.astype(float)


def _squares(part: NDArray[Any]) -> NDArray[Any]:
    part = _inexact(part)
    squares: NDArray[Any]
    squares = part.real**2 + part.imag**2 if part.dtype.kind == "c" else part * part
    return squares


def _sizes(x: Any) -> Computed:
    """Return the absolute values."""
    return Computed(lambda part: np.abs(_inexact(part)), x, dtype=_kind(x))


def _sum(function: Callable[..., Any], x: Any, axis: Any, options: dict[str, Any]) -> Any:
    return call(np.sum, Computed(function, x, dtype=_kind(x)), axis, **options)


@streams(np.linalg.vector_norm)
def vector_norm(
    x: Any,
    /,
    *,
    axis: Any = None,
    keepdims: bool = False,
    ord: Any = 2,
) -> Any:
    """Streamed form: a norm of vectors."""
    if isinstance(axis, tuple) or not isinstance(x, Source) or (axis is None and keepdims):
        return NotImplemented
    return norm(flat(x), ord, 0) if axis is None else norm(x, ord, axis, keepdims)


@streams(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Streamed form: a norm of matrices."""
    return norm(x, ord, (-2, -1), keepdims)
