"""An axis more: an array of k axes becomes one entry of an array of k + 1.

Nothing moves.  A chunk that exists has index 0 along the new axis, and keeps its bytes and its
address; so a chunk can have more than one element along that axis only where this leaves every
element in its place (`_stays`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, SupportsIndex, TypeVar

import numpy as np

from extarray.array.base import attach_store, places_of, take_layout
from extarray.array.life import Living, check_free
from extarray.common.arguments import as_int
from extarray.common.errors import (
    ArgumentError,
    AxisError,
    ChunksError,
    LimitError,
    ShapeError,
)
from extarray.format.attrs import decode_attrs, encode_attrs
from extarray.format.constants import LIMIT
from extarray.format.dims import wider_dims
from extarray.format.labels import with_new_axis
from extarray.grid.chunking import MAX_NDIM
from extarray.grid.order import positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Widened", "add_axis"]


class Widened(Living, Protocol):
    """An array that gains an axis."""

    def _verify_all(self) -> None: ...
    def _note_written(self, addresses: NDArray[np.int64]) -> None: ...


_T = TypeVar("_T")


def add_axis(
    array: Widened, position: SupportsIndex = 0, name: str | None = None, chunk: SupportsIndex = 1
) -> None:
    """Add an axis of extent 1; see `ExtArray.add_axis`."""
    at, extent = as_int(position, "position"), as_int(chunk, "chunk")
    with array._growth:
        array._check("add an axis to")
        check_free(array, "add an axis to")
        if array._store.shared:
            raise ArgumentError(
                f"cannot add an axis to {array._name()} while writers share it; open it alone"
            )
        if array._filling:
            raise ArgumentError(
                f"cannot add an axis to {array._name()} in the midst of an append to it"
            )
        ndim, store = array.ndim, array._store
        if not -(ndim + 1) <= at <= ndim:
            raise AxisError(at, ndim + 1)
        at %= ndim + 1
        if ndim == MAX_NDIM:
            raise ShapeError(
                f"cannot add an axis to {array._name()}: it has {ndim}, and no array has more"
            )
        chunks = _inserted(array.chunks, at, extent)
        _check_chunk(array, at, extent)
        attrs = _wider_attrs(array, at, name)
        axial = array.axial._with_axis(at)
        old = array.axial.size * array.chunk_bytes
        new = old * extent
        if max(new, array.chunk_bytes * extent) >= LIMIT:
            raise LimitError(
                f"chunks of {chunks} elements of {array.dtype} have 2**63 bytes or nearly; "
                "give a smaller chunk"
            )
        # All that may fail comes before the commit.
        places = places_of(chunks, array.order) if old else None
        shape, offset = _inserted(array.shape, at, 1), _inserted(store.offset, at, 0)
        if new > old and old:
            array._verify_all()  # its sum is made anew, of more elements
        try:
            if new > old:
                store.reserve(old, new)
                if store.region is not array._region:
                    attach_store(array)
            if store.sums is not None:
                array._flush()  # the sums go with the chunks
            store.add_axis(chunks, axial, shape, offset, attrs)
        finally:
            if store.header.chunks == chunks:  # also where it was interrupted when all was done
                take_layout(array, axial, places)
                if store.sums is not None:
                    attach_store(array)
                    if new > old or store.sums.lost:
                        array._note_written(np.arange(axial.size))
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
            f"{what}: its {n} chunks stay where they are, so that each must be one of the new "
            "chunks; use chunk=1, or write a copy with other chunks"
        )
    if not _stays(array.chunks, at, extent, array.order):
        raise ChunksError(
            f"{what}: elements of its chunk {array.chunks} in order {array.order!r} would move; "
            "use chunk=1, or a position where the new axis varies slowest in the chunk"
        )


def _wider_attrs(array: Widened, at: int, name: str | None) -> str:
    """Return the attributes, with a name more in ``dims`` where the axes have names."""
    values = with_new_axis(decode_attrs(array._store.attrs), array.dims, array.ndim, at)
    dims = () if array.ndim == 0 and name is not None else array.dims
    if dims is None:
        if name is None:
            return encode_attrs(values)
        raise ArgumentError(
            f"cannot name the new axis {name!r}: the axes of {array._name()} have no names; set "
            "its dims first"
        )
    return encode_attrs({**values, "dims": wider_dims(dims, at, name)})


def _inserted(values: tuple[_T, ...], at: int, value: _T) -> tuple[_T, ...]:
    return (*values[:at], value, *values[at:])


def _stays(chunks: tuple[int, ...], at: int, extent: int, order: str) -> bool:
    """Tell whether a chunk that has grown has the elements in its first places, in sequence."""
    if order in "CF":
        slower = chunks[:at] if order == "C" else chunks[at:]
        return all(n == 1 for n in slower)
    wider = _inserted(chunks, at, extent)
    first = positions(wider, order).reshape(wider).take(0, axis=at)
    return np.array_equal(first.ravel(), positions(chunks, order))
