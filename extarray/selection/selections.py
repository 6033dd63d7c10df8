"""The methods by which zarr's arrays are read and written, one pair for each kind of index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from extarray.common.errors import SelectionError
from extarray.selection.brackets import as_query
from extarray.selection.orthogonal import block_query, orthogonal_query
from extarray.selection.pointwise import coordinate_query, mask_query

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from extarray.selection.fields import Fields
    from extarray.selection.query import Query

__all__ = ["Selections"]


class Selections:
    """zarr's methods, for a class that reads and writes fields of what a query selects."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def _frame(self) -> Any: ...  # Frame, or Bounds of a view
        @property
        def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
        @property
        def chunks(self) -> tuple[int, ...]: ...  # noqa: D102
        @property
        def _lead(self) -> tuple[int, ...]: ...
        def _read_fields(
            self,
            query: Query,
            fields: Fields,
            out: NDArray[Any] | None = None,
            order: Literal["C", "F"] = "C",
        ) -> NDArray[Any]: ...
        def _write_fields(self, query: Query, fields: Fields, value: Any) -> None: ...

    def _get(self, query: Query, out: NDArray[Any] | None, fields: Fields) -> Any:
        """Read a query; a scalar where it is one element."""
        result = self._read_fields(query, fields, out)
        return result if out is not None else result[()]

    def _query(self, make: Callable[..., Query], key: Any, *args: Any, frame: Any = None) -> Query:
        """A query on what the array is now, whatever it has become when the query is run."""
        frame = self._frame if frame is None else frame
        return make(key, frame.shape, *args).on(frame)

    def _blocks(self, selection: Any) -> Query:
        return self._query(block_query, selection, self.chunks, self._lead)

    def _basic(self, selection: Any) -> Query:
        query = self._query(as_query, selection, self.dtype)
        if query.kind != "basic":
            raise SelectionError(
                f"{selection!r} is no basic index: it takes integers, slices and `...`; use the "
                "brackets, oindex or vindex"
            )
        return query

    def get_basic_selection(
        self, selection: Any = ..., *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read by integers and slices.

        Parameters
        ----------
        selection : index expression
            Integers, slices, Ellipsis, newaxis.
        out : ndarray, optional
            Where to read to.
        fields : str or list of str, optional
            What to read of each record.

        Returns
        -------
        ndarray or scalar

        Raises
        ------
        BoundsError, SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).get_basic_selection((slice(None), 1))
        array([2, 5])
        """
        return self._get(self._basic(selection), out, fields)

    def set_basic_selection(self, selection: Any, value: Any, *, fields: Fields = None) -> None:
        """Write by integers and slices.

        Parameters
        ----------
        selection : index expression
            As for `get_basic_selection`.
        value : array_like
            Broadcast to the selection.
        fields : str or list of str, optional
            What to write of each record.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.set_basic_selection((0, slice(1, None)), 5)
        >>> a[0]
        array([0, 5, 5], dtype=int32)
        """
        self._write_fields(self._basic(selection), fields, value)

    def get_orthogonal_selection(
        self, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read by an index for each axis, that acts on this axis alone: ``oindex``.

        Parameters
        ----------
        selection : index expression
            Integers, slices, Ellipsis; arrays of integers, and masks, of one axis.
        out : ndarray, optional
            Where to read to.
        fields : str or list of str, optional
            What to read of each record.

        Returns
        -------
        ndarray or scalar

        Raises
        ------
        BoundsError, SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).get_orthogonal_selection(([1, 0], [0, 2]))
        array([[4, 6],
               [1, 3]])
        """
        return self._get(self._query(orthogonal_query, selection), out, fields)

    def set_orthogonal_selection(
        self, selection: Any, value: Any, *, fields: Fields = None
    ) -> None:
        """Write by an index for each axis, that acts on this axis alone: ``oindex``.

        Parameters
        ----------
        selection : index expression
            As for `get_orthogonal_selection`.
        value : array_like
            Broadcast to the selection.
        fields : str or list of str, optional
            What to write of each record.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.set_orthogonal_selection(([0, 1], [0, 2]), [[1, 2], [3, 4]])
        >>> a[...]
        array([[1, 0, 2],
               [3, 0, 4]], dtype=int32)
        """
        self._write_fields(self._query(orthogonal_query, selection), fields, value)

    def get_coordinate_selection(
        self, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read points by their coordinates: ``vindex``.

        Parameters
        ----------
        selection : tuple of array_like of int
            For each axis, broadcast together.
        out : ndarray, optional
            Where to read to.
        fields : str or list of str, optional
            What to read of each record.

        Returns
        -------
        ndarray or scalar

        Raises
        ------
        BoundsError, SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).get_coordinate_selection(([1, 0], [0, 2]))
        array([4, 3])
        """
        return self._get(self._query(coordinate_query, selection), out, fields)

    def set_coordinate_selection(
        self, selection: Any, value: Any, *, fields: Fields = None
    ) -> None:
        """Write points by their coordinates: ``vindex``.

        Parameters
        ----------
        selection : tuple of array_like of int
            As for `get_coordinate_selection`.
        value : array_like
            Broadcast to the points; the last of those for one element stays.
        fields : str or list of str, optional
            What to write of each record.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.set_coordinate_selection(([1, 0], [0, 2]), [7, 8])
        >>> a[...]
        array([[0, 0, 8],
               [7, 0, 0]], dtype=int32)
        """
        self._write_fields(self._query(coordinate_query, selection), fields, value)

    def get_mask_selection(
        self, mask: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read the elements where a mask is true: ``vindex``.

        Parameters
        ----------
        mask : array_like of bool
            Of the array's shape; may be an extarray.
        out : ndarray, optional
            Where to read to.
        fields : str or list of str, optional
            What to read of each record.

        Returns
        -------
        ndarray
            Of one axis, in C order.

        Raises
        ------
        SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> a.get_mask_selection([[True, False, False], [False, True, True]])
        array([1, 5, 6])
        """
        return self._get(self._query(mask_query, mask), out, fields)

    def set_mask_selection(self, mask: Any, value: Any, *, fields: Fields = None) -> None:
        """Write the elements where a mask is true: ``vindex``.

        Parameters
        ----------
        mask : array_like of bool
            Of the array's shape; may be an extarray.
        value : array_like
            One value, or as many as there are true elements.
        fields : str or list of str, optional
            What to write of each record.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.set_mask_selection([[True, False, False], [False, True, True]], [1, 2, 3])
        >>> a[...]
        array([[1, 0, 0],
               [0, 2, 3]], dtype=int32)
        """
        self._write_fields(self._query(mask_query, mask), fields, value)

    def get_block_selection(
        self, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read whole chunks by their indices: ``blocks``.

        Parameters
        ----------
        selection : index expression
            Integers, slices of step 1, Ellipsis, in chunks.  An integer keeps its axis.
        out : ndarray, optional
            Where to read to.
        fields : str or list of str, optional
            What to read of each record.

        Returns
        -------
        ndarray
            Clipped to the bounds.

        Raises
        ------
        BoundsError, SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]], chunks=(1, 2))
        >>> a.get_block_selection((slice(None), 1))
        array([[3],
               [6]])
        """
        return self._get(self._blocks(selection), out, fields)

    def set_block_selection(self, selection: Any, value: Any, *, fields: Fields = None) -> None:
        """Write whole chunks by their indices: ``blocks``.

        Parameters
        ----------
        selection : index expression
            As for `get_block_selection`.
        value : array_like
            Broadcast to the selection.
        fields : str or list of str, optional
            What to write of each record.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, shape=(2, 3), dtype="i4", chunks=(1, 2))
        >>> a.set_block_selection((0, 0), 9)
        >>> a[0]
        array([9, 9, 0], dtype=int32)
        """
        self._write_fields(self._blocks(selection), fields, value)
