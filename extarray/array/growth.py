"""Growth and shrinking: from arguments to a plan that a transaction carries out; and new axes.

`extend` and its like check their arguments, let `grid.bounds` make the plan, which touches nothing,
and pass it to `resizing`: the store makes room and commits, then the core shows the bounds.
`follow` is the other side: it waits for elements that arrive while others grow an array.
"""

from __future__ import annotations

import contextlib
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeVar

import numpy as np

from extarray._core._history import with_axis
from extarray._core._transfers import note_written
from extarray.array.facts import Stored, check_sole, tell_lost
from extarray.array.life import Living, attach_store, check_not_held, places_of, take_layout
from extarray.array.resizing import (
    Side,
    carry_out,
    count,
    filling_error,
    is_start,
)
from extarray.common.arguments import as_int
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    AxisError,
    CastingError,
    ChunksError,
    LimitError,
    ReplacedError,
    ShapeError,
)
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports, LazyModule
from extarray.format.attrs import decode_attrs, encode_attrs
from extarray.format.constants import LIMIT
from extarray.grid.bounds import along_axis, beside, to_box
from extarray.grid.chunking import MAX_NDIM, check_shape, grain, place_of
from extarray.grid.order import has_strides, positions, slow_to_fast
from extarray.grid.tiles import tiles
from extarray.streaming.blocks import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from extarray.array.facts import Resizable
    from extarray.common import masked_arrays
    from extarray.format import labels, missing
    from extarray.grid.bounds import Index
else:
    labels = LazyModule("extarray.format.labels")
    masked_arrays = LazyModule("extarray.common.masked_arrays")
    missing = LazyModule("extarray.format.missing")

__all__ = [
    "Followed",
    "Widened",
    "add_axis",
    "append",
    "as_source",
    "check_kind",
    "extend",
    "follow",
    "grow",
    "length_of",
    "reserve",
    "resize",
    "shrink",
    "source_for",
    "text_length",
    "wider_dtype",
    "write_source",
]

_later = LazyImports({"extarray.storage.lock": "check_timeout"})

_T = TypeVar("_T")

# Kinds of lists' elements, and the kinds of dtypes to which they may be converted.
_TAKEN = {**dict.fromkeys("biu", "biufc"), **dict.fromkeys("US", "USmM"), "O": "mM"}
# Seconds between two looks: short after news, longer while nothing arrives; and longest where a
# look is a request to a server.
_SHORTEST, _LONGEST, _LONGEST_ELSEWHERE = 0.0005, 0.05, 1.0


def extend(array: Resizable, axis: SupportsIndex | str, by: SupportsIndex, side: Side) -> None:
    """Grow an axis by elements of the fill value; see `ExtArray.extend`."""
    j = array._axis(axis)
    n = count(by)
    first = is_start(side)
    with array._writers.resizing:
        array._check("extend")
        if n:  # what `grow` does, without the cost of one more call in each growth
            carry_out(array, along_axis(array._store.now.state, array.chunks, j, n, first, LIMIT))


def append(array: Resizable, data: ArrayLike, axis: SupportsIndex | str, side: Side) -> None:
    """Grow an axis by data; see `ExtArray.append`."""
    # Convert first: a conversion may run any code, even code that closes this array.
    j = array._axis(axis)
    first = is_start(side)
    values = source_for(array, data)
    with array._writers.resizing:
        array._check("append to")
        by = length_of(array, values, j)
        box = beside(array.shape, j, by, first)
        grow(array, j, by, first, partial(write_source, array, values, *box))


def resize(
    array: Resizable,
    shape: SupportsIndex | Sequence[SupportsIndex],
    axis: SupportsIndex | str | None,
    order: Sequence[int] | None = None,
) -> None:
    """Give several axes new ends as one commit, or one axis; see `ExtArray.resize`.

    The grid grows along the axes in `order`, a permutation of all of them; by default 0 ... k - 1.
    """
    new = check_shape(shape)
    j = None if axis is None else array._axis(axis)
    if j is not None and len(new) != 1:
        raise ShapeError(f"cannot resize axis {j} to {new}; give a single extent")
    with array._writers.resizing:
        array._check("resize")
        old = array.shape
        if j is not None:
            new = (*old[:j], *new, *old[j + 1 :])
        if len(new) != len(old):
            raise ShapeError(f"cannot resize {old} to {new}: the array has {len(old)} axes")
        if new != old:
            zeros = (0,) * len(old)
            state, chunks = array._store.now.state, array.chunks
            carry_out(array, to_box(state, chunks, zeros, new, LIMIT, order=order))


def shrink(array: Resizable, axis: SupportsIndex | str, by: SupportsIndex, side: Side) -> None:
    """Cut elements off an axis; see `ExtArray.shrink`."""
    j = array._axis(axis)
    n = count(by)
    first = is_start(side)
    with array._writers.resizing:
        array._check("shrink")
        if n > array.shape[j]:
            raise ArgumentError(
                f"cannot remove {n} elements from axis {j}: it has {array.shape[j]}"
            )
        grow(array, j, -n, first)


def reserve(array: Resizable, shape: SupportsIndex | Sequence[SupportsIndex]) -> None:
    """Make the grid large enough for a shape; see `ExtArray.reserve`."""
    new = check_shape(shape)
    with array._writers.resizing:
        array._check("reserve room for")
        old = array.shape
        if len(new) != len(old):
            raise ShapeError(f"cannot reserve {new}: the array has {len(old)} axes")
        zeros = (0,) * len(old)
        room = tuple(map(max, new, old))
        change = to_box(array._store.now.state, array.chunks, zeros, old, LIMIT, (zeros, room))
        carry_out(array, change, exactly=True)


def grow(
    array: Resizable,
    axis: int,
    by: int,
    at_start: bool,
    fill: Callable[[], None] | None = None,
) -> None:
    """Grow one axis, or cut it if `by` is negative; the caller holds the lock for resizing.

    `fill` writes the new elements; without it they have the fill value.
    """
    if by:
        change = along_axis(array._store.now.state, array.chunks, axis, by, at_start, LIMIT)
        carry_out(array, change, fill)


# -- the elements of an append -------------------------------------------------------------------


def length_of(array: Resizable, values: Any, axis: int, dtype: np.dtype[Any] | None = None) -> int:
    """Return the extent of `as_source`'s result along an axis; raise if it does not fit there.

    `dtype` is the one that the array is about to get, if it is another.
    """
    shape = array.shape
    given = tuple(values.shape)
    if len(given) != len(shape) or (*given[:axis], *given[axis + 1 :]) != (
        *shape[:axis],
        *shape[axis + 1 :],
    ):
        wanted = (*shape[:axis], "n", *shape[axis + 1 :])
        text = f"({', '.join(map(str, wanted))}{',' if array.ndim == 1 else ''})"
        raise ShapeError(
            f"cannot append data of shape {given} along axis {axis} of an array of shape {shape}: "
            f"{text} is needed"
        )
    check_kind(array, values, dtype)
    return int(given[axis])


def check_kind(array: Resizable, values: Any, dtype: np.dtype[Any] | None = None) -> None:
    """Raise if values are of another kind than the elements, or texts that are too long.

    A source that is read block by block tells only its dtype; each block of texts is checked as it
    comes.
    """
    own, given = array.dtype if dtype is None else dtype, values.dtype
    if not np.can_cast(given, own, "same_kind"):
        raise CastingError(
            f"cannot cast data of {given} to {own} under the rule 'same_kind'; cast them first "
            + hint("with astype", "with extarray rechunk --dtype")
        )
    if not (own.kind in "US" and given.kind in "US" and isinstance(values, np.ndarray)):
        return
    longest = text_length(values)
    if longest > text_length(own):
        wider = wider_dtype(own, longest).str
        place = "" if array.path is None else ", in_place=True"
        how = hint(
            f"append them with widen=True, widen the array first with a = a.rechunk(dtype={wider!r}"
            f"{place}), or truncate them with astype({own.str!r})",
            f"widen the array first with extarray rechunk PATH --in-place --dtype '{wider}'",
        )
        raise CastingError(
            f"cannot append strings of {longest} characters to an array of {own.str} without "
            f"truncating them; {how}"
        )


def text_length(values: Any) -> int:
    """Return the most characters of texts in memory, or those that fit elements of a dtype.

    A source that is read block by block tells only its dtype.
    """
    if isinstance(values, np.ndarray):
        texts = values.compressed() if isinstance(values, np.ma.MaskedArray) else values
        return int(np.strings.str_len(texts).max(initial=0))
    dtype = values if isinstance(values, np.dtype) else values.dtype
    return int(dtype.itemsize // np.dtype((dtype.type, 1)).itemsize)


def wider_dtype(dtype: np.dtype[Any], length: int) -> np.dtype[Any]:
    """Return the dtype of longer texts, in the same byte order."""
    return np.dtype((dtype.type, length)).newbyteorder(dtype.byteorder)


def write_source(
    array: Resizable,
    values: Any,
    start: Index,
    stop: Index,
    tell: Callable[[int], object] = lambda nbytes: None,
    write: Callable[[Any, Any, NDArray[Any]], object] | None = None,
) -> None:
    """Write the result of `as_source` to a box; anything but an array in memory goes by blocks.

    `tell` is called with the bytes of each block after it is written.  `write`, if given, writes
    instead of the array's own function; it takes the array, a box and its elements.
    """
    if isinstance(values, np.ndarray):
        array._write_box(start, stop, values)
        return
    extents = [high - low for low, high in zip(start, stop, strict=True)]
    # Half of it: a block stays while the next one is read, and while it is cast.
    limit = config.max_memory // 2
    own = grain(values, array.chunks)
    for part in tiles(extents, own, array.itemsize, limit=limit, split=False):
        block = values[part]
        if not isinstance(block, np.ndarray):
            block = np.asarray(block)
        wanted = tuple(s.stop - s.start for s in part)
        if block.shape != wanted:
            raise ShapeError(f"the data returned shape {block.shape} for a block of shape {wanted}")
        if block.dtype.kind == "T":
            block = missing.plain_texts(block, array.dtype, array.attrs)
        check_kind(array, block)
        block = masked_arrays.unmasked(block, array.dtype, array.fill_value)
        low = [n + s.start for n, s in zip(start, part, strict=True)]
        high = [n + s.stop for n, s in zip(start, part, strict=True)]
        if write is None:
            array._write_box(low, high, block)
        else:
            write(array, tuple(map(slice, low, high)), block)
        tell(block.size * array.itemsize)


def as_source(
    x: Any, dtype: np.dtype[Any] | None = None, fill: Callable[[], Any] = lambda: 0
) -> Any:
    """Return `x` if slices can read its elements, else an array made of it.

    Parameters
    ----------
    x : array_like
    dtype : numpy.dtype, optional
        Dtype for lists and Python numbers, which have none, as in an assignment: integers become
        any number, texts a text or a date.  Other kinds are not converted.
    fill : callable
        Returns the value of masked elements: a scalar of this dtype, or of that of `x`.
    """
    if type(x) is np.ndarray:
        return x  # without loading NumPy's module of masked arrays
    if isinstance(x, Source):
        return x._verified()
    if isinstance(x, np.ma.MaskedArray):
        to = x.dtype if dtype is None else dtype
        if x.dtype.kind in "US" and to.kind in "US":
            to = np.promote_types(x.dtype, to)  # keeps texts whole, so that their length shows
        # Leave values that cannot be cast as they are: the caller refuses them.
        return (
            masked_arrays.unmasked(x, to, fill())
            if np.can_cast(x.dtype, to, "same_kind")
            else np.asarray(x)
        )
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
        if values.dtype.kind == dtype.kind and dtype.kind in "US":
            return values  # keeps texts whole, so that their length shows
    return np.asarray(x, dtype)


def source_for(array: Resizable, data: ArrayLike) -> Any:
    """Return data as a source of elements for an array."""
    own = array.dtype
    values = data if type(data) is np.ndarray else as_source(data, own, lambda: array.fill_value)
    if own.kind in "US" and type(values) is np.ndarray and values.dtype.kind == "T":
        return missing.plain_texts(values, own, array.attrs)
    return values


# -- new axes ------------------------------------------------------------------------------------
#
# No byte moves.  An existing chunk gets index 0 along the new axis, and keeps its bytes and its
# address.  So a chunk may have more than one element along that axis only if every element then
# stays in its place (`_stays`).


class Widened(Living, Protocol):
    """An array that gains an axis."""

    def _verify_all(self) -> None: ...


def add_axis(
    array: Widened, position: SupportsIndex = 0, name: str | None = None, chunk: SupportsIndex = 1
) -> None:
    """Add an axis of extent 1; see `ExtArray.add_axis`."""
    at, extent = as_int(position, "position"), as_int(chunk, "chunk")
    with array._writers.resizing:
        array._check("add an axis to")
        check_not_held(array, "add an axis to")
        check_sole(array, f"add an axis to {array._name()}")
        if array._filling:
            raise filling_error(array, "add an axis to")
        ndim, store = array.ndim, array._store
        if not -(ndim + 1) <= at <= ndim:
            raise AxisError(at, ndim + 1)
        at %= ndim + 1
        if ndim == MAX_NDIM:
            raise ShapeError(f"cannot add an axis to {array._name()}: it has the maximum of {ndim}")
        chunks = _inserted(array.chunks, at, extent)
        _check_chunk(array, at, extent)
        attrs = _wider_attrs(array, at, name)
        axial = with_axis(array.axial, at)
        old = place_of(array.axial.size, array.chunk_bytes)
        new = old * extent
        if max(new, array.chunk_bytes * extent) >= LIMIT:
            raise LimitError(
                f"chunks of {chunks} elements of {array.dtype} would take 2**63 bytes or more; "
                "give a smaller chunk"
            )
        # Everything that may fail comes before the commit.
        places = places_of(chunks, array.order) if old else None
        shape, offset = _inserted(array.shape, at, 1), _inserted(store.now.state.offset, at, 0)
        if new > old and old:
            array._verify_all()  # a chunk that grows gets a new checksum
        try:
            if new > old:
                store.reserve(old, new)
                if store.now.region is not array._region:
                    attach_store(array)
            if store.now.sums is not None:
                array._flush()  # the new metadata copy the sums of unchanged chunks
            store.add_axis(chunks, axial, shape, offset, attrs)
        finally:
            if store.now.header.chunks == chunks:  # also if interrupted after the commit
                take_layout(array, axial, places)
                if store.now.frozen is not None:
                    attach_store(array)  # the core still has the table of the old metadata
                if store.now.sums is not None:
                    attach_store(array)
                    if new > old or store.now.sums.lost:
                        core: Any = array
                        note_written(core, np.arange(axial.size))
            elif new > old:
                store.release(old)


def _check_chunk(array: Widened, at: int, extent: int) -> None:
    """Refuse an extent of chunks along a new axis that would move elements."""
    if extent < 1:
        raise ChunksError(f"chunk must be at least 1, not {extent}")
    n = array.axial.size
    if extent == 1 or n == 0:
        return
    what = f"cannot add an axis at {at} with chunks of {extent} elements to {array._name()}"
    if n > 1:
        raise ChunksError(
            f"{what}: its {n} chunks do not move, so each must become one new chunk; use chunk=1, "
            "or make a copy with other chunks"
        )
    if not _stays(array.chunks, at, extent, array.order):
        raise ChunksError(
            f"{what}: elements of a chunk {array.chunks} in order {array.order!r} would move; use "
            "chunk=1, or a position where the new axis varies slowest in the chunk"
        )


def _wider_attrs(array: Widened, at: int, name: str | None) -> str:
    """Return the attributes, with one more name in ``dims`` if the axes have names."""
    lost: list[str] = []
    stored = decode_attrs(array._store.now.attrs)
    values = labels.with_new_axis(stored, array.dims, array.ndim, at, lost)
    tell_lost("add_axis", lost)
    dims = () if array.ndim == 0 and name is not None else array.dims
    if dims is None:
        if name is None:
            return encode_attrs(values)
        raise ArgumentError(
            f"cannot name the new axis {name!r}: the axes of {array._name()} are unnamed; set "
            "dims first"
        )
    return encode_attrs({**values, "dims": labels.wider_dims(dims, at, name)})


def _inserted(values: tuple[_T, ...], at: int, value: _T) -> tuple[_T, ...]:
    return (*values[:at], value, *values[at:])


def _stays(chunks: tuple[int, ...], at: int, extent: int, order: str) -> bool:
    """Tell whether a grown chunk has the old elements in its first places, in sequence."""
    wider = _inserted(chunks, at, extent)
    if has_strides(order):
        axes = slow_to_fast(order, len(wider))
        return all(wider[axis] == 1 for axis in axes[: axes.index(at)])
    first = positions(wider, order).reshape(wider).take(0, axis=at)
    return np.array_equal(first.ravel(), positions(chunks, order))


# -- followed --------------------------------------------------------------------------------------


class Followed(Stored, Protocol):
    """An array that takes up the commits of its writer."""

    @property
    def _identity(self) -> bytes: ...
    @property
    def _comes_late(self) -> bool: ...
    def refresh(self, on_replaced: Literal["raise", "reopen"] = "raise") -> bool: ...  # noqa: D102
    def _read_exact(self, key: tuple[Any, ...]) -> NDArray[Any]: ...


def follow(
    array: Followed,
    axis: SupportsIndex | str = 0,
    timeout: float | None = None,
    on_replaced: Literal["raise", "reopen"] = "raise",
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Iterate over elements that arrive at an axis; see `ExtArray.follow`."""
    array._check()
    j = array._axis(axis)
    seconds = _later.check_timeout(timeout)
    ndim = array.ndim
    return _news(array, j, ndim, seconds, on_replaced, *_ends(array, j, ndim))


def _ends(array: Followed, axis: int, ndim: int) -> tuple[int, int]:
    """Return the bounds of one of `ndim` axes, counted from where index 0 was initially."""
    with array._writers.steady:
        array._check_axes(ndim)
        first = -array.origin[axis]
        return first, first + array.shape[axis]


def _news(
    array: Followed,
    axis: int,
    ndim: int,
    timeout: float | None,
    on_replaced: Literal["raise", "reopen"],
    low: int,
    high: int,
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Iterate over elements before `low` and from `high` on, as they arrive."""
    pause = _SHORTEST
    last = time.monotonic()
    while True:
        origin = array._identity
        try:
            array.refresh()
        except ReplacedError:  # all that had arrived before was yielded
            if on_replaced == "raise":
                raise
            with contextlib.suppress(ReplacedError):
                array.refresh(on_replaced)
        first, stop = _ends(array, axis, ndim)
        if array._identity != origin:
            low = high = first
        parts = [(first, min(low, stop)), (max(high, first), stop)]
        low, high = first, stop  # also if the axis has shrunk
        if any(a < b for a, b in parts):
            for a, b in parts:
                yield from _read_parts(array, axis, ndim, a, b)
            pause, last = _SHORTEST, time.monotonic()
            continue
        waited = time.monotonic() - last
        if timeout is not None and waited >= timeout:
            return
        time.sleep(pause if timeout is None else min(pause, timeout - waited))
        longest = _LONGEST_ELSEWHERE if array._comes_late else _LONGEST
        pause = min(2 * pause, longest)


def _read_parts(
    array: Followed, axis: int, ndim: int, low: int, high: int
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Read elements low ... high - 1 of an axis, in parts that fit in memory."""
    while True:
        with array._writers.steady:
            # Another thread may cut elements off or shift the indices between two parts.
            array._check_axes(ndim)
            zero, shape = array.origin[axis], array.shape
            low, high = max(low, -zero), min(high, shape[axis] - zero)
            if low >= high:
                return
            layer = array.itemsize * math.prod(shape) // max(1, shape[axis])
            stop = min(high, low + max(1, config.max_memory // max(1, layer)))
            selection = tuple(
                slice(low + zero, stop + zero) if i == axis else slice(0, n)
                for i, n in enumerate(shape)
            )
            values = array._read_exact(selection)
        yield selection, values
        low = stop
