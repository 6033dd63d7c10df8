"""Chunks: their shapes, given or chosen, and the places of their bytes."""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeVar, overload

from extarray.common.arguments import as_ints
from extarray.common.errors import ChunksError, LimitError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "check_chunks",
    "check_shape",
    "choose_chunks",
    "chunks_before",
    "elements_of_chunk",
    "grain",
    "grid_of",
    "place_of",
    "product",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

MAX_NDIM = 32
# Large enough to make system calls and page faults cheap beside the bytes; small enough that a
# scalar or a thin slice does not drag in megabytes.
TARGET_BYTES = 512 * 1024
# Bytes of one appended box that a chunk holds.  Each axis is cut into equal parts if some cut is
# within `_NEAR` of the best; axes longer than `_MOST_PARTS` are not searched.
_APPENDED_BYTES = 64 * 1024
_NEAR, _MOST_PARTS = 1.5, 1 << 12
# A small array has no chunk larger than `_FEW` times its own size, or `_LEAST_BYTES` if that is
# more.
_FEW, _LEAST_BYTES = 4, 1024
# Most elements of all factors of a product to hold together; beyond, one factor after the other.
_HELD = 1 << 12


@overload
def place_of(address: int, chunk_bytes: int) -> int: ...
@overload
def place_of(address: NDArray[np.int64], chunk_bytes: int) -> NDArray[np.int64]: ...
def place_of(address: Any, chunk_bytes: int) -> Any:
    """Return where a chunk begins among the bytes of all, or an array of such places.

    Chunks whose addresses follow each other do so there, too; so `n` chunks have ``place_of(n)``
    bytes.  `_core/_copy` has the same function for the kernels, and no other line makes a place of
    an address.

    Examples
    --------
    >>> place_of(3, 1 << 16)
    196608
    """
    return address * chunk_bytes


@overload
def chunks_before(place: int, chunk_bytes: int) -> int: ...
@overload
def chunks_before(place: NDArray[np.int64], chunk_bytes: int) -> NDArray[np.int64]: ...
def chunks_before(place: Any, chunk_bytes: int) -> Any:
    """Return the number of chunks that end at or before a place: the address of the chunk in it.

    Examples
    --------
    >>> chunks_before(196608, 1 << 16), chunks_before(196607, 1 << 16)
    (3, 2)
    """
    return place // chunk_bytes


def elements_of_chunk(
    index: Sequence[int], chunks: Sequence[int], offset: Sequence[int], shape: Sequence[int]
) -> tuple[slice, ...]:
    """Return the box of the elements of a chunk inside the bounds; it may be empty.

    `offset` is the number of elements of the grid before the bounds; `shape`, the bounds' extents.

    Examples
    --------
    >>> elements_of_chunk((1, 0), (2, 3), (1, 0), (4, 2))
    (slice(1, 3, None), slice(0, 2, None))
    """
    box = []
    for i, c, before, n in zip(index, chunks, offset, shape, strict=True):
        start = min(max(i * c - before, 0), n)
        box.append(slice(start, min(max((i + 1) * c - before, start), n)))
    return tuple(box)


def check_shape(shape: SupportsIndex | Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Return the shape as a tuple of ints, at most 32, each at least 0 and below 2**63.

    Examples
    --------
    >>> check_shape([4, 3])
    (4, 3)
    """
    extents = as_ints(shape, "shape")
    if len(extents) > MAX_NDIM:
        raise ShapeError(f"the shape has {len(extents)} axes; at most {MAX_NDIM} are supported")
    if any(n < 0 for n in extents):
        raise ShapeError(f"negative extent in the shape {extents}; give 0 or more")
    if any(n >= 2**63 for n in extents):
        raise LimitError(f"the shape {extents} has an extent above 2**63 - 1")
    return extents


def check_chunks(
    chunks: SupportsIndex | Sequence[SupportsIndex] | None, shape: tuple[int, ...], itemsize: int
) -> tuple[int, ...]:
    """Return the chunk shape as a tuple of ints; choose one for `shape` if `chunks` is None.

    Each extent is at least 1; one int serves all axes.

    Examples
    --------
    >>> check_chunks(64, (512, 217, 204), 2)
    (64, 64, 64)
    """
    if chunks is None:
        return choose_chunks(shape, itemsize)
    extents = as_ints(chunks, "chunks")
    if hasattr(chunks, "__index__") and getattr(chunks, "ndim", 0) == 0:
        extents *= len(shape)
    if len(extents) != len(shape):
        raise ChunksError(
            f"chunks {extents} has {len(extents)} entries for {len(shape)} axes; give one for "
            "each axis, or one int for all"
        )
    if any(n < 1 for n in extents):
        raise ChunksError(f"chunks {extents} has an extent below 1; give at least 1 for each axis")
    if math.prod(extents) * itemsize >= 2**63:
        raise LimitError(f"a chunk of {extents} elements has 2**63 bytes or more")
    return extents


def choose_chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Choose a chunk shape of about 512 KiB (256 KiB to 1 MiB), balanced over the axes.

    Notes
    -----
    All axes get the same extent, at most their own; the share that short axes leave goes to the
    others.  An axis of length 1 is expected to grow and counts as long, as do several axes of
    length 0.  Then each extent is evened out, so that the last chunk of an axis is nearly full.  If
    elements exceed the target, a chunk is one element.

    A single axis of length 0 is the one to append to, in boxes that span all other axes: a chunk
    holds one run of 64 KiB of each box, or all of a smaller one, and room for a second element
    along axes of length 1.

    A small array of known shape is one chunk, with room to grow along axes of length 1: up to four
    times its size, or 1 KiB.

    This is the default everywhere, but for callers that know more: an import takes the chunks of
    its file unless they are small (`formats.transfer`), an export those of the array
    (`formats.hdf5`), xarray those of ``encoding["chunks"]``, PEXTA those that suit its ``reqdims``
    (`pexta.hints`), and a `GlobalArray`, which has no chunks of its own, blocks of elements.

    Examples
    --------
    >>> choose_chunks((512, 217, 204), 2)
    (64, 55, 51)
    >>> choose_chunks((0, 765, 700), 2)
    (9, 153, 175)
    >>> choose_chunks((100,), 8), choose_chunks((1, 48), 8)
    ((100,), (4, 48))
    """
    if shape.count(0) == 1:
        return _for_appends(shape, shape.index(0), itemsize)
    wanted = max(1.0, TARGET_BYTES / itemsize)
    open_axes = list(range(len(shape)))
    elements = math.prod(shape)
    small = 0 < _FEW * elements * itemsize <= TARGET_BYTES
    if small:
        wanted = max(_FEW * elements, _LEAST_BYTES / itemsize)
    budget = wanted
    # Axes expected to grow have no length to respect.
    length = [n if n > 1 else math.inf for n in shape]
    side = 1.0
    chunks = [1] * len(shape)
    if small:  # do not divide its axes
        chunks = list(shape)
        open_axes = [j for j in open_axes if shape[j] == 1]
        wanted /= elements
    while open_axes:
        side = wanted ** (1 / len(open_axes))
        short = [j for j in open_axes if length[j] <= side]
        if not short:
            break
        for j in short:
            chunks[j] = int(length[j])
            wanted = max(1.0, wanted / chunks[j])
        open_axes = [j for j in open_axes if j not in short]
    for j in open_axes:
        extent = max(1, int(side + 1e-9))
        if length[j] < math.inf:
            extent = math.ceil(shape[j] / math.ceil(shape[j] / extent))
        chunks[j] = extent
    # Rounding down may have made the chunk much smaller: double some extents, last axes first.
    while math.prod(chunks) * 2 <= budget:
        room = [j for j in reversed(range(len(shape))) if chunks[j] < length[j]]
        if not room:
            break
        j = min(room, key=chunks.__getitem__)
        chunks[j] = int(min(2 * chunks[j], length[j]))
    return tuple(chunks)


def _for_appends(shape: tuple[int, ...], axis: int, itemsize: int) -> tuple[int, ...]:
    """Choose a chunk shape for appends along an axis, of one element or more at a time."""
    chunks = list(shape)
    wanted = max(1.0, _APPENDED_BYTES / itemsize)
    # Short axes first: the share that they leave goes to the others.
    others = sorted((j for j in range(len(shape)) if j != axis), key=shape.__getitem__)
    for i, j in enumerate(others):
        if shape[j] == 1:
            chunks[j] = 2 if wanted >= 2 else 1
        else:
            chunks[j] = _part_of(shape[j], max(1.0, wanted) ** (1 / (len(others) - i)))
            wanted /= chunks[j]
    chunks[axis] = max(1, TARGET_BYTES // (math.prod(chunks[j] for j in others) * itemsize))
    return tuple(chunks)


def _part_of(n: int, side: float) -> int:
    """Return the extent of parts of `n` elements, about `side`, and equal if possible.

    In a smaller chunk at the edge, rows would have gaps between them.
    """
    fewest, most = math.ceil(n / (side * _NEAR)), math.floor(n * _NEAR / side)
    counts = range(max(1, fewest), most + 1 if most <= _MOST_PARTS else 0)
    even = [n // k for k in counts if n % k == 0]
    if even:
        return min(even, key=lambda extent: abs(math.log(extent / side)))
    return n if n <= side else math.ceil(n / math.ceil(n / side))


def grid_of(shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """Return the number of chunks along each axis that hold a shape.

    Examples
    --------
    >>> grid_of((10, 12), (2, 5))
    (5, 3)
    """
    return tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))


def grain(source: Any, default: tuple[int, ...]) -> tuple[int, ...]:
    """Return the extents of the pieces in which to read an object, which are its chunks.

    Return `default` unless `chunks` has an int for each axis (h5py, zarr), or the extents of all
    chunks along each axis (dask).

    Examples
    --------
    >>> class Dask:
    ...     chunks = ((4, 4, 2), (3,))
    >>> grain(Dask(), (1, 1)), grain([], (1, 1))
    ((4, 3), (1, 1))
    """
    try:
        found = tuple(
            max(n, default=0) if isinstance(n, tuple) else operator.index(n) for n in source.chunks
        )
    except (AttributeError, TypeError):
        return default
    return found if len(found) == len(default) and all(n > 0 for n in found) else default


class _Counted(Protocol[_T_co]):
    """An iterable that knows its length."""

    def __iter__(self) -> Iterator[_T_co]: ...
    def __len__(self) -> int: ...


def product(*factors: _Counted[_T]) -> Iterator[tuple[_T, ...]]:
    """Yield what `itertools.product` yields, without holding factors, perhaps of 2**60 elements.

    Factors must have a length, and are iterated over repeatedly.

    Examples
    --------
    >>> next(product(range(2**60), "ab"))
    (0, 'a')
    """
    if sum(map(len, factors)) <= _HELD:
        return itertools.product(*factors)
    if not all(map(len, factors)):
        return iter(())
    first, *others = factors
    return ((one, *rest) for one in first for rest in product(*others))
