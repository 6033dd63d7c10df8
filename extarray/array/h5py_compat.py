"""What users of h5py's datasets are used to, where NumPy has no word for it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from extarray._core._array import ArrayCore
from extarray.array.base import StoredArray
from extarray.common.errors import ArgumentError, ArgumentTypeError, ShapeError
from extarray.grid.address_runs import chunk_indices, region
from extarray.grid.chunking import grid_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

__all__ = ["HabitsMixin"]


class HabitsMixin(StoredArray):
    """Transfers between parts of arrays, the chunks of a selection, and limits of growth."""

    __slots__ = ()

    @property
    def maxshape(self) -> tuple[None, ...]:
        """None for each axis, as h5py calls an axis that grows without limit.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 3)).maxshape
        (None, None)
        """
        return (None,) * self.ndim

    def read_direct(self, dest: NDArray[Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """Read into a part of a NumPy array: ``dest[dest_sel] = a[source_sel]``.

        Parameters
        ----------
        dest : ndarray
            Written to; of any dtype and strides.
        source_sel : index expression, optional
            What is read; None: everything.
        dest_sel : index expression, optional
            Where in `dest` it goes, broadcast as in an assignment; None: everywhere.

        Raises
        ------
        ArgumentTypeError
            A TypeError: `dest` is no NumPy array.
        BoundsError, SelectionError, ShapeError, ClosedError

        Notes
        -----
        Where `dest_sel` is basic, shapes agree, and the cast is of the ``same_kind``, no copy is
        made in between.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> dest = np.zeros((2, 4))
        >>> a.read_direct(dest, np.s_[:, 1:], np.s_[:, :2])
        >>> dest
        array([[2., 3., 0., 0.],
               [5., 6., 0., 0.]])
        """
        if not isinstance(dest, np.ndarray):
            raise ArgumentTypeError(f"dest must be a NumPy array, not {type(dest).__name__}")
        source = ... if source_sel is None else source_sel
        place = ... if dest_sel is None else dest_sel
        target: Any = dest[place]
        # An advanced index gives a copy, integers alone a scalar: nothing to read into.
        is_view = isinstance(target, np.ndarray) and np.may_share_memory(target, dest)
        if is_view and np.can_cast(self.dtype, target.dtype, "same_kind"):
            try:
                ArrayCore.read(self, source, out=target)  # of this process alone
            except ShapeError:  # nothing was read: to be broadcast, if possible
                pass
            else:
                return
        dest[place] = ArrayCore.read(self, source)

    def write_direct(self, source: ArrayLike, source_sel: Any = None, dest_sel: Any = None) -> None:
        """Write a part of an array: ``a[dest_sel] = source[source_sel]``.

        Parameters
        ----------
        source : array_like
        source_sel : index expression, optional
            What is written, broadcast as in an assignment; None: everything.
        dest_sel : index expression, optional
            Where it goes; None: everywhere.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, ReadOnlyError, ClosedError, StorageError
            As for `write`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.write_direct(np.arange(10), np.s_[4:6], np.s_[:, 0])
        >>> a[...]
        array([[4, 0, 0],
               [5, 0, 0]], dtype=int32)
        """
        values: Any = source
        if source_sel is not None:
            if not isinstance(source, (np.ndarray, ArrayCore)):
                values = np.asarray(source)
            values = values[source_sel]
        ArrayCore.write(self, ... if dest_sel is None else dest_sel, values)

    @overload
    def iter_chunks(
        self, sel: None = None, order: Literal["address", "grid"] = "address"
    ) -> Iterator[tuple[tuple[int, ...], NDArray[Any]]]: ...
    @overload
    def iter_chunks(
        self, sel: Any, order: Literal["address", "grid"] = "address"
    ) -> Iterator[tuple[slice, ...]]: ...
    def iter_chunks(
        self, sel: Any = None, order: Literal["address", "grid"] = "address"
    ) -> Iterator[Any]:
        """Iterate over the chunks that hold elements, or over those that meet a selection.

        Parameters
        ----------
        sel : int, slice, Ellipsis, or tuple of them, optional
            A box of elements: slices have a step of 1.
        order : {"address", "grid"}
            Order of the addresses (of the file), or row-major order of the indices.

        Yields
        ------
        index, view : tuple of int, ndarray
            Without a selection: a chunk index, and what `chunk` returns for it.
        selection : tuple of slice
            With one, as in h5py: the part of the selection that lies in a chunk.

        Raises
        ------
        BoundsError, SelectionError
            IndexErrors: the selection is not possible, or no box.
        ShapeError
            A ValueError: the array has gained an axis meanwhile.
        ClosedError

        Notes
        -----
        The grid is that of the beginning of the iteration.  The array must not grow or shrink at a
        start meanwhile, which shifts the indices.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2), chunks=(2, 1))
        >>> a.extend(0, 2)
        >>> [index for index, view in a.iter_chunks()]
        [(0, 0), (0, 1), (1, 0), (1, 1)]
        >>> for part in a.iter_chunks((slice(1, 4), 0)):
        ...     a[part] = 5
        >>> a[:, 0]
        array([0., 5., 5., 5.])
        """
        if order not in ("address", "grid"):
            raise ArgumentError(f"order {order!r} is not possible; use 'address' or 'grid'")
        self._check()
        shape, chunks, offset = self.shape, self.chunks, self._store.offset
        if sel is None:
            # Those that the bounds need.
            first = tuple(map(operator.floordiv, offset, chunks))
            last = grid_of(tuple(map(operator.add, offset, shape)), chunks)
            indices = chunk_indices(self.axial, first, last if self.size else first, order)
            return (
                (index, self.chunk(index)) for index in self._while_axes_stay(indices, len(shape))
            )
        start, stop = (tuple(map(operator.add, edge, offset)) for edge in region(sel, shape))
        first = tuple(map(operator.floordiv, start, chunks))
        # An empty selection meets no chunk.
        last = first if any(map(operator.eq, start, stop)) else grid_of(stop, chunks)
        return (
            # With the step that h5py gives.
            tuple(
                slice(max(i * c, low) - b, min((i + 1) * c, high) - b, 1)
                for i, c, b, low, high in zip(index, chunks, offset, start, stop, strict=True)
            )
            for index in self._while_axes_stay(
                chunk_indices(self.axial, first, last, order), len(shape)
            )
        )

    def _while_axes_stay(
        self, indices: Iterator[tuple[int, ...]], ndim: int
    ) -> Iterator[tuple[int, ...]]:
        """The same indices, as long as the array has `ndim` axes."""
        for index in indices:
            self._check_axes(ndim)
            yield index
