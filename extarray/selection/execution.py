"""Execution of queries, in parts that fit into memory, each moved by one call of the core.

The tables of a part, and its block if elements are cast, fit in half of ``config.max_memory``.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from extarray._core._array import check_depth
from extarray.common.config import config
from extarray.common.errors import ArgumentTypeError, ShapeError
from extarray.common.formatting import shape_text
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.selection.masks import Mask
from extarray.streaming.blocks import Source, hold, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.selection.query import Query

__all__ = ["Target", "check_values", "read_query", "write_query"]

# Most bytes of the tables of a mask on a mapped array, so that they stay in the cache.  On others,
# larger tables save system calls: each chunk is read once for all of its true places.
_CACHED = 1 << 22


class Target(Protocol):
    """An array or view that queries run on."""

    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
    @property
    def chunks(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def _is_mapped(self) -> bool: ...
    def _check_out(
        self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None: ...
    def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any: ...
    def _overlaps(self, values: NDArray[Any]) -> bool: ...
    def _move(self, query: Query, values: NDArray[Any], write: bool) -> None: ...


@dataclass(slots=True)
class _Late:
    """A box of one of our arrays, not read until it is needed."""

    source: Source
    box: Box
    dropped: int = 0  # number of dropped leading axes, all of length 1

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.stop - part.start for part in self.box[self.dropped :])

    @property
    def ndim(self) -> int:
        return len(self.box) - self.dropped

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    def __getitem__(self, key: tuple[slice, ...] | Literal[0]) -> _Late:
        if key == 0:
            return replace(self, dropped=self.dropped + 1)
        box = list(self.box)
        for d, piece in enumerate(key, self.dropped):
            if piece != slice(None):
                start = box[d].start
                box[d] = slice(start + piece.start, start + piece.stop)
        return replace(self, box=tuple(box))

    def read(self) -> NDArray[Any]:
        return load(self.source, self.box).reshape(self.shape)


def _elements(values: NDArray[Any] | _Late) -> NDArray[Any]:
    return values.read() if isinstance(values, _Late) else values


def _block_bytes(values: NDArray[Any] | _Late, dtype: np.dtype[Any]) -> int:
    """Return the bytes per element of the cast block, and of the elements read before the cast."""
    return dtype.itemsize + (values.dtype.itemsize if isinstance(values, _Late) else 0)


def read_query(
    array: Target, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
) -> NDArray[Any]:
    """Read the selection of a query into a new array, or into `out` by the rule ``same_kind``."""
    dtype = array.dtype if query.field is None else query.field.dtype
    if out is None:
        out = np.empty(query.shape, dtype, order)
        target = out
    else:
        array._check_out(out, (*query.shape, *dtype.shape), dtype.base)
        target = np.empty_like(out) if array._overlaps(out) else out
    inner = target.dtype == dtype.base and _is_contiguous(target, len(dtype.shape))
    _run(array, query, target, write=False, direct=inner)
    if target is not out:
        out[...] = target
    return out


def write_query(array: Target, query: Query, value: Any) -> None:
    """Write to the selection of a query, with the casts and broadcasting of NumPy's assignment."""
    dtype = array.dtype if query.field is None else query.field.dtype
    inner = dtype.shape
    shape = (*query.shape, *inner)
    values = array._as_values(value, dtype.base)
    if isinstance(values, Source):
        values = hold(values, verified=True)
        values = _Late(values, tuple(slice(0, n) for n in values.shape))
    if query.kind == "basic" and values.ndim > len(shape):
        check_depth(value, values.shape, len(shape))
    check_values(query, values.shape, shape)
    while values.ndim > len(shape):
        values = values[0]  # as NumPy does, drop leading axes of length 1
    if query.size == 0:
        return
    factors = tuple(factor.apart(array) for factor in query.factors)
    if factors != query.factors:
        query = replace(query, factors=factors)
    direct = values.dtype == dtype.base and isinstance(values, np.ndarray)
    if not direct and values.size * _block_bytes(values, dtype.base) <= config.max_memory // 2:
        block = np.empty(values.shape, dtype.base)
        block[...] = _elements(values)
        values, direct = block, True
    if direct and inner:
        outer = values.shape[: max(0, values.ndim - len(inner))]
        values = np.ascontiguousarray(np.broadcast_to(values, (*outer, *inner)))
    if isinstance(values, np.ndarray):
        values = np.broadcast_to(values, shape)
    _run(array, query, values, write=True, direct=direct)


def _run(array: Target, query: Query, values: Any, write: bool, direct: bool) -> None:
    """Move a query in parts that fit into memory; through blocks unless `direct`."""
    if query.size == 0:
        return
    dtype = array.dtype if query.field is None else query.field.dtype
    chunks = array.chunks if query.frame is None else query.frame.chunks
    tables = query.table_bytes(chunks)
    blocks = 0 if direct else query.size * _block_bytes(values, dtype)
    share = min(config.max_memory // 2 / max(tables + blocks, 1), query.share(chunks))
    threads = 1
    if array._is_mapped and any(isinstance(factor, Mask) for factor in query.factors):
        cached = _CACHED / tables
        if cached < share:
            share = cached
            threads = _worth_threads(query, dtype.itemsize, share, chunks, _CACHED + share * blocks)
    if share < 1:
        parts = query.split(share, chunks, tables > blocks or threads > 1)

        def move(part: tuple[slice, ...], piece: Query) -> None:
            own = _part_of(values, part, query, len(dtype.shape))
            _run(array, piece, own, write, direct)

        if _run_parts(move, parts, threads):
            return
    query = query.ready()
    if direct:
        array._move(query, values, write)
        return
    block = np.empty((*query.shape, *dtype.shape), dtype.base)
    if write:
        block[...] = _elements(values)
        array._move(query, block, True)
    else:
        array._move(query, block, False)
        np.copyto(values, block, casting="same_kind")


def _worth_threads(
    query: Query, itemsize: int, share: float, chunks: tuple[int, ...], part_bytes: float
) -> int:
    """Return how many threads a query is worth that is cut into shares of itself."""
    size = query.size * itemsize
    if size < 2 * limits.share_bytes:
        return 1
    # The core divides large parts among threads.  Parts of a mask have no element in common;
    # those of a list may, and then the last value has to stay.
    largest = max(query.factors, key=lambda factor: factor.table_bytes(chunks))
    if size * share >= 2 * limits.share_bytes or not isinstance(largest, Mask):
        return 1
    room = int(config.max_memory // 2 / part_bytes)
    most: int = config.threads
    return max(1, min(most, room, size // limits.share_bytes))


def _run_parts(
    move: Callable[[tuple[slice, ...], Query], None],
    parts: Iterator[tuple[tuple[slice, ...], Query]],
    threads: int,
) -> bool:
    """Move the parts of a query, on several threads; return whether there are any."""
    is_over = n_parts = 0
    if threads == 1:
        for part in parts:
            move(*part)
            n_parts += 1
        return n_parts > 0
    taking = threading.Lock()

    def work() -> None:
        nonlocal n_parts
        while not is_over:
            with taking:
                taken = next(parts, None)
                n_parts += taken is not None
            if taken is None:
                return
            move(*taken)

    def stop() -> None:
        nonlocal is_over
        is_over = 1

    run_together([work] * threads, stop)
    return n_parts > 0


def _part_of(values: Any, part: tuple[slice, ...], query: Query, n_inner: int) -> Any:
    """Return the part of values, which broadcast to a query, that belongs to a part of it."""
    missing = len(query.shape) - (values.ndim - n_inner)
    own = tuple(
        slice(None) if n == 1 else piece
        for n, piece in zip(values.shape, part[max(missing, 0) :], strict=False)
    )
    return values[own]


def _is_contiguous(array: NDArray[Any], n_inner: int) -> bool:
    """Tell whether the last `n_inner` axes, those of one element, lie in memory without gaps."""
    if not n_inner:
        return True
    expected = array.itemsize
    for n, stride in zip(array.shape[: -n_inner - 1 : -1], array.strides[::-1], strict=False):
        if n > 1 and stride != expected:
            return False
        expected *= n
    return True


def check_values(query: Query, given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raise NumPy's error if values of the shape `given` cannot be assigned.

    `shape` is the query's, followed by that of an element.  The error is a ShapeError, or an
    ArgumentTypeError if the index is a mask and the values have several axes.
    """
    if query.kind == "mask":
        if len(given) > 1:
            raise ArgumentTypeError(
                "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, "
                f"input has {len(given)} dimensions"
            )
        if given not in ((), (1,), shape):
            raise ShapeError(
                f"NumPy boolean array indexing assignment cannot assign {given[0]} input values to "
                f"the {shape[0]} output values where the mask is true"
            )
        return
    extra = max(0, len(given) - len(shape))
    pairs = zip(given[extra:][::-1], shape[::-1], strict=False)
    if all(n == 1 for n in given[:extra]) and all(n in (1, m) for n, m in pairs):
        return
    if query.kind == "basic":
        while len(given) > len(shape) and given[0] == 1:
            given = given[1:]
        raise ShapeError(
            f"could not broadcast input array from shape {shape_text(given)} into shape "
            f"{shape_text(shape)}"
        )
    raise ShapeError(
        f"shape mismatch: value array of shape {shape_text(given)} could not be broadcast to "
        f"indexing result of shape {shape_text(shape)}"
    )
