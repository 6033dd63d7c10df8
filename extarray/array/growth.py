"""Growth and shrinking: arguments to a plan, which a transaction carries out.

`extend` and its like check what they are given, have the plan made (`grid.bounds`), which touches
nothing, and hand it on (`resizing`): the store makes room and commits, then the core shows the
bounds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from extarray.array.resizing import (
    Side,
    carry_out,
    count,
    is_start,
)
from extarray.common.config import config
from extarray.common.errors import ArgumentError, CastingError, ShapeError
from extarray.common.masked_arrays import unmasked
from extarray.format.constants import LIMIT
from extarray.grid.bounds import along_axis, beside, to_box
from extarray.grid.chunking import check_shape, grain
from extarray.grid.tiles import tiles
from extarray.streaming.blocks import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from extarray.array.resizing import Resizable
    from extarray.grid.bounds import Index

__all__ = [
    "append",
    "as_source",
    "extend",
    "grow",
    "length_of",
    "reserve",
    "resize",
    "shrink",
    "write_values",
]

# Kinds of types that elements of lists become, by their kinds.
_TAKEN = {**dict.fromkeys("biu", "biufc"), **dict.fromkeys("US", "USmM"), "O": "mM"}


def extend(array: Resizable, axis: SupportsIndex, by: SupportsIndex, side: Side) -> None:
    """Grow an axis by elements of the fill value; see `ExtArray.extend`."""
    j = array._axis(axis)
    n = count(by)
    first = is_start(side)
    with array._growth:
        array._check("extend")
        if n:
            carry_out(array, along_axis(array._store.state, array.chunks, j, n, first, LIMIT))


def append(array: Resizable, data: ArrayLike, axis: SupportsIndex, side: Side) -> None:
    """Grow an axis by data; see `ExtArray.append`."""
    # Conversions may run any code, also code that closes this array: they come first.
    j = array._axis(axis)
    first = is_start(side)
    values = as_source(data, array.dtype, lambda: array.fill_value)
    with array._growth:
        array._check("append to")
        by = length_of(array, values, j)
        box = beside(array.shape, j, by, first)
        grow(array, j, by, first, partial(write_values, array, values, *box))


def resize(
    array: Resizable,
    shape: SupportsIndex | Sequence[SupportsIndex],
    axis: SupportsIndex | None,
) -> None:
    """Give several axes new ends as one commit, or one axis; see `ExtArray.resize`."""
    new = check_shape(shape)
    j = None if axis is None else array._axis(axis)
    if j is not None and len(new) != 1:
        raise ShapeError(f"cannot resize axis {j} to {new}: give one extent")
    with array._growth:
        array._check("resize")
        old = array.shape
        if j is not None:
            new = (*old[:j], *new, *old[j + 1 :])
        if len(new) != len(old):
            raise ShapeError(f"cannot resize {old} to {new}: the array has {len(old)} axes")
        if new != old:
            zeros = (0,) * len(old)
            carry_out(array, to_box(array._store.state, array.chunks, zeros, new, LIMIT))


def shrink(array: Resizable, axis: SupportsIndex, by: SupportsIndex, side: Side) -> None:
    """Cut elements off an axis; see `ExtArray.shrink`."""
    j = array._axis(axis)
    n = count(by)
    first = is_start(side)
    with array._growth:
        array._check("shrink")
        if n > array.shape[j]:
            raise ArgumentError(
                f"cannot cut {n} elements off axis {j}: it has {array.shape[j]} of them"
            )
        grow(array, j, -n, first)


def reserve(array: Resizable, shape: SupportsIndex | Sequence[SupportsIndex]) -> None:
    """Have the grid hold a shape; see `ExtArray.reserve`."""
    new = check_shape(shape)
    with array._growth:
        array._check("reserve room for")
        old = array.shape
        if len(new) != len(old):
            raise ShapeError(f"cannot reserve {new}: the array has {len(old)} axes")
        zeros = (0,) * len(old)
        room = tuple(map(max, new, old))
        change = to_box(array._store.state, array.chunks, zeros, old, LIMIT, (zeros, room))
        carry_out(array, change, exactly=True)


def grow(
    array: Resizable,
    axis: int,
    by: int,
    at_start: bool,
    fill: Callable[[], None] | None = None,
) -> None:
    """Grow one axis, or (negative) cut it; the caller holds the lock of growth.

    Parameters
    ----------
    array : Resizable
    axis, by : int
    at_start : bool
    fill : callable, optional
        Writes the new elements; none: they have the fill value.
    """
    if by:
        change = along_axis(array._store.state, array.chunks, axis, by, at_start, LIMIT)
        carry_out(array, change, fill)


# -- the elements of an append -------------------------------------------------------------------


def length_of(array: Resizable, values: Any, axis: int) -> int:
    """Return the extent along an axis of what can be appended there.

    Parameters
    ----------
    array : Resizable
    values : object
        As `as_source` gives it.
    axis : int

    Returns
    -------
    int

    Raises
    ------
    ShapeError, CastingError
    """
    shape = array.shape
    given = tuple(values.shape)
    if len(given) != len(shape) or any(
        n != m for i, (n, m) in enumerate(zip(given, shape, strict=True)) if i != axis
    ):
        wanted = (*shape[:axis], "n", *shape[axis + 1 :])
        text = f"({', '.join(map(str, wanted))}{',' if array.ndim == 1 else ''})"
        raise ShapeError(
            f"cannot append data of shape {given} along axis {axis} of an array of shape {shape}: "
            f"{text} is needed"
        )
    _check_kind(array, values.dtype)
    return int(given[axis])


def _check_kind(array: Resizable, dtype: np.dtype[Any]) -> None:
    if not np.can_cast(dtype, array.dtype, "same_kind"):
        raise CastingError(
            f"cannot append {dtype} to an array of {array.dtype} by the rule 'same_kind'; cast it "
            "first, with astype"
        )


def write_values(array: Resizable, values: Any, start: Index, stop: Index) -> None:
    """Write values to a box; what is no array in memory goes block by block.

    Parameters
    ----------
    array : Resizable
    values : object
        As `as_source` gives it.
    start, stop : tuple of int
        The box.
    """
    if isinstance(values, np.ndarray):
        array._write_box(start, stop, values)
        return
    extents = [high - low for low, high in zip(start, stop, strict=True)]
    # Half: a block is there while the next one is read, and while it is cast.
    limit = config.max_memory // 2
    own = grain(values, array.chunks)
    for part in tiles(extents, own, array.itemsize, limit=limit, split=False):
        block = values[part]
        if not isinstance(block, np.ndarray):
            block = np.asarray(block)
        wanted = tuple(s.stop - s.start for s in part)
        if block.shape != wanted:
            raise ShapeError(f"the data gave shape {block.shape} for a block of {wanted}")
        _check_kind(array, block.dtype)
        block = unmasked(block, array.dtype, array.fill_value)
        low = [n + s.start for n, s in zip(start, part, strict=True)]
        high = [n + s.stop for n, s in zip(start, part, strict=True)]
        array._write_box(low, high, block)


def as_source(
    x: Any, dtype: np.dtype[Any] | None = None, fill: Callable[[], Any] = lambda: 0
) -> Any:
    """Return what elements are read from: `x` where it can be sliced, else an array of it.

    Parameters
    ----------
    x : array_like
    dtype : numpy.dtype, optional
        What lists and numbers of Python, which have none, are to be, as they are for an assignment:
        integers any number, texts a text or a date.  Other kinds are not converted.
    fill : callable
        Gives the value of what is masked, a scalar of this dtype, or of that of `x`.

    Returns
    -------
    ndarray, Source, or any object with ``shape``, ``dtype`` and slicing
    """
    if isinstance(x, Source):
        return x._verified()
    if isinstance(x, np.ma.MaskedArray):
        to = x.dtype if dtype is None else dtype
        # What cannot be cast is refused as it is.
        return unmasked(x, to, fill()) if np.can_cast(x.dtype, to, "same_kind") else np.asarray(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x)  # no matrix
    if isinstance(getattr(x, "dtype", None), np.dtype) and all(
        hasattr(x, name) for name in ("shape", "__getitem__")
    ):
        return x
    if dtype is None or hasattr(x, "__array__"):
        return np.asarray(x)
    if dtype.names is None:
        values = np.asarray(x)
        taken = dtype.kind in _TAKEN.get(values.dtype.kind, "")
        if values.ndim == 0 or (values.size and not taken):
            return values
    return np.asarray(x, dtype)
