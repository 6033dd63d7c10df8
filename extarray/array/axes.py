"""An axis more: an array of k axes becomes one entry of an array of k + 1.

Nothing moves.  A chunk that exists has index 0 along the new axis, and keeps its bytes and its
address; so a chunk can have more than one element along that axis only where this leaves every
element in its place (`_stays`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex, TypeVar

import numpy as np

from extarray.array.base import StoredArray
from extarray.common.arguments import as_int
from extarray.common.errors import (
    ArgumentError,
    AxisError,
    ChunksError,
    LimitError,
    ReserveError,
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

    from extarray._core._axial import Axial

__all__ = ["AxesMixin", "places_of"]

_T = TypeVar("_T")


class AxesMixin(StoredArray):
    """An array that gains axes."""

    __slots__ = ()

    _filling: bool

    if TYPE_CHECKING:

        def _attach_store(self) -> None: ...

        def _check_free(self, what: str) -> None: ...

        def _flush(self) -> None: ...

    def _take_layout(self, axial: Axial, places: NDArray[np.int64] | None = None) -> None:
        """Have the axes, the chunks and the bounds that the store has.

        `places` are those of the elements of a chunk, if they are known already.
        """
        store = self._store
        header = store.header
        if places is None and axial.size:
            places = places_of(header.chunks, header.order)
        axial._own()
        self._setup(
            axial, header.dtype, header.chunks, header.order, places, store.shape, store.offset
        )

    def add_axis(
        self, position: SupportsIndex = 0, name: str | None = None, chunk: SupportsIndex = 1
    ) -> None:
        """Add an axis of extent 1, which can grow as any other; nothing moves.

        Parameters
        ----------
        position : int
            Where the new axis comes, in [-(ndim + 1), ndim], as for `numpy.expand_dims`.
        name : str, optional
            Name of the new axis, where the axes have names (`dims`); None: the first of ``dim_0``,
            ``dim_1``, ... that no other axis has, from its position on.
        chunk : int
            Elements of a chunk along the new axis.  More than 1 is possible where at most one chunk
            is allocated and the new axis varies slowest in it.

        Raises
        ------
        AxisError
            No such position.
        ShapeError, ChunksError, ArgumentError, ArgumentTypeError, LimitError
            32 axes already, `chunk` not possible, a name that is another axis's, no int, 2**63
            bytes.
        ReadOnlyError, ClosedError
        StorageError, ReserveError
            No room, a failure of the disk, or a hard link to ``.xmd``, under whose name the old
            metadata would stay.  The array is as before.

        Notes
        -----
        One commit, and the metadata are written anew: O(segments), and a wait for the disk
        (`flush`).  Readers have the new axis from their next `refresh` on, all else as before.

        What was made for the array of fewer axes is of no use any more, and says so in a
        `ShapeError`: views (`lazy`, `T`), iterators, `follow`, and what other threads were about to
        read or write.  Take `axial` anew.

        Examples
        --------
        >>> import extarray as xa
        >>> cube = xa.create(None, (2, 3, 4), dims=("z", "y", "x"))
        >>> cube[1, 2, 3] = 5
        >>> cube.add_axis(name="time")
        >>> cube.shape, cube.dims, cube[0, 1, 2, 3]
        ((1, 2, 3, 4), ('time', 'z', 'y', 'x'), np.float64(5.0))
        >>> cube.extend(0, 9)
        >>> cube.extend(0, 1, side="start")
        >>> cube.shape, cube[1, 1, 2, 3]
        ((11, 2, 3, 4), np.float64(5.0))
        """
        at, extent = as_int(position, "position"), as_int(chunk, "chunk")
        with self._growth:
            self._check("add an axis to")
            self._check_free("add an axis to")
            if self._store.shared:
                raise ArgumentError(
                    f"cannot add an axis to {self._name()} while writers share it; open it alone"
                )
            if self._filling:
                raise ArgumentError(
                    f"cannot add an axis to {self._name()} in the midst of an append to it"
                )
            ndim, store = self.ndim, self._store
            if not -(ndim + 1) <= at <= ndim:
                raise AxisError(at, ndim + 1)
            at %= ndim + 1
            if ndim == MAX_NDIM:
                raise ShapeError(
                    f"cannot add an axis to {self._name()}: it has {ndim}, and no array has more"
                )
            chunks = _inserted(self.chunks, at, extent)
            self._check_chunk(at, extent)
            attrs = self._wider_attrs(at, name)
            axial = self.axial._with_axis(at)
            old = self.axial.size * self.chunk_bytes
            new = old * extent
            if max(new, self.chunk_bytes * extent) >= LIMIT:
                raise LimitError(
                    f"chunks of {chunks} elements of {self.dtype} have 2**63 bytes or nearly; "
                    "give a smaller chunk"
                )
            # All that may fail comes before the commit.
            places = places_of(chunks, self.order) if old else None
            shape, offset = _inserted(self.shape, at, 1), _inserted(store.offset, at, 0)
            if new > old and old:
                self._verify_all()  # its sum is made anew, of more elements
            try:
                if new > old:
                    store.reserve(old, new)
                    if store.region is not self._region:
                        self._attach_store()
                if store.sums is not None:
                    self._flush()  # the sums go with the chunks
                store.add_axis(chunks, axial, shape, offset, attrs)
            finally:
                if store.header.chunks == chunks:  # also where it was interrupted when all was done
                    self._take_layout(axial, places)
                    if store.sums is not None:
                        self._attach_store()
                        if new > old or store.sums.lost:
                            self._note_written(np.arange(axial.size))
                elif new > old:
                    store.release(old)

    def _check_chunk(self, at: int, extent: int) -> None:
        """Refuse an extent of chunks along a new axis that would move elements."""
        if extent < 1:
            raise ChunksError(f"chunk must be at least 1, not {extent}")
        n = self.axial.size
        if extent == 1 or n == 0:
            return
        what = f"cannot add an axis at {at} with chunks of {extent} elements to {self._name()}"
        if n > 1:
            raise ChunksError(
                f"{what}: its {n} chunks stay where they are, so that each must be one of the new "
                "chunks; use chunk=1, or write a copy with other chunks"
            )
        if not _stays(self.chunks, at, extent, self.order):
            raise ChunksError(
                f"{what}: elements of its chunk {self.chunks} in order {self.order!r} would move; "
                "use chunk=1, or a position where the new axis varies slowest in the chunk"
            )

    def _wider_attrs(self, at: int, name: str | None) -> str:
        """The attributes, with a name more in ``dims`` where the axes have names."""
        values = with_new_axis(decode_attrs(self._store.attrs), self.dims, self.ndim, at)
        dims = () if self.ndim == 0 and name is not None else self.dims
        if dims is None:
            if name is None:
                return encode_attrs(values)
            raise ArgumentError(
                f"cannot name the new axis {name!r}: the axes of {self._name()} have no names; set "
                "its dims first"
            )
        return encode_attrs({**values, "dims": wider_dims(dims, at, name)})


def places_of(chunks: tuple[int, ...], order: str) -> NDArray[np.int64] | None:
    """Where the elements of a chunk are.

    Parameters
    ----------
    chunks : tuple of int
    order : {"C", "F", "Z", "H"}

    Returns
    -------
    ndarray of int64 or None
        Of a chunk's size; None for the orders with strides.

    Raises
    ------
    ReserveError
        A MemoryError.
    """
    if order not in "ZH":
        return None
    try:
        return positions(chunks, order)
    except MemoryError as error:
        raise ReserveError(
            f"no memory for the order {order!r} of chunks {chunks}: {error}"
        ) from None


def _inserted(values: tuple[_T, ...], at: int, value: _T) -> tuple[_T, ...]:
    return (*values[:at], value, *values[at:])


def _stays(chunks: tuple[int, ...], at: int, extent: int, order: str) -> bool:
    """Whether the elements of a chunk are in its first places, in sequence, after it has grown."""
    if order in "CF":
        slower = chunks[:at] if order == "C" else chunks[at:]
        return all(n == 1 for n in slower)
    wider = _inserted(chunks, at, extent)
    first = positions(wider, order).reshape(wider).take(0, axis=at)
    return np.array_equal(first.ravel(), positions(chunks, order))
