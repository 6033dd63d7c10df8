"""Every kind of index for an array: between the brackets, ``oindex``, ``vindex`` and ``blocks``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.selection.brackets import as_query
from extarray.selection.fields import dtype_of_fields, field_of, names_of
from extarray.selection.pointwise import pointwise_query
from extarray.selection.selections import Selections
from extarray.selection.transfers import check_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.selection.fields import Fields
    from extarray.selection.query import Query

__all__ = ["Accessor", "Indexable"]


class Accessor:
    """Brackets with rules of their own: ``a.oindex``, ``a.vindex``, ``a.blocks``.

    Parameters
    ----------
    get, set : callable
        What reading and assignment call, with the key (and the value).
    """

    __slots__ = ("_get", "_set")

    def __init__(self, get: Callable[[Any], Any], set: Callable[[Any, Any], None]) -> None:  # noqa: A002
        self._get = get
        self._set = set

    def __getitem__(self, key: Any) -> Any:
        return self._get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._set(key, value)


class Indexable(Selections):
    """Kinds of index beside integers and slices, for a class with shape, dtype and chunks.

    The class says how a query is read and written.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def _check_out(
            self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
        ) -> None: ...
        def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any: ...
        def _read_selected(
            self, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
        ) -> NDArray[Any]: ...
        def _write_selected(self, query: Query, value: Any) -> None: ...

    def _read_query(
        self,
        key: Any,
        out: NDArray[Any] | None = None,
        order: Literal["C", "F"] = "C",
        frame: Any = None,
    ) -> NDArray[Any]:
        """Read by an index of any kind, given for a frame (None: the present one)."""
        fields = names_of(key, self.dtype)
        query = self._query(as_query, key if fields is None else ..., self.dtype, frame=frame)
        return self._read_fields(query, fields, out, order)

    def _write_query(self, key: Any, value: Any, frame: Any = None) -> None:
        """Write by an index of any kind, given for a frame (None: the present one)."""
        fields = names_of(key, self.dtype)
        query = self._query(as_query, key if fields is None else ..., self.dtype, frame=frame)
        self._write_fields(query, fields, value)

    def _read_fields(
        self,
        query: Query,
        fields: Fields,
        out: NDArray[Any] | None = None,
        order: Literal["C", "F"] = "C",
    ) -> NDArray[Any]:
        """Read what a query selects of some fields."""
        if isinstance(fields, str):
            query = replace(query, field=field_of(self.dtype, fields))
        elif fields:
            dtype = dtype_of_fields(self.dtype, fields)
            if out is not None:
                self._check_out(out, query.shape, dtype)
            records: NDArray[Any] = self._read_selected(query, None, order)[list(fields)]
            if out is None:
                return records
            out[...] = records
            return out
        return self._read_selected(query, out, order)

    def _write_fields(self, query: Query, fields: Fields, value: Any) -> None:
        """Write some fields of what a query selects, and no other byte."""
        if not fields:
            self._write_selected(query, value)
            return
        if isinstance(fields, str):
            self._write_selected(replace(query, field=field_of(self.dtype, fields)), value)
            return
        dtype = dtype_of_fields(self.dtype, fields)
        value = self._as_values(value, dtype)
        check_values(query, value.shape, query.shape)
        records = np.empty(value.shape, dtype)
        records[...] = value[...]
        for name in fields:
            self._write_selected(replace(query, field=field_of(self.dtype, name)), records[name])

    @property
    def oindex(self) -> Accessor:
        """Orthogonal indexing: arrays and masks act on their axes one by one.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        >>> a.oindex[[0, 2], [True, False, True]]
        array([[0, 2],
               [6, 8]])
        """
        return Accessor(self.get_orthogonal_selection, self.set_orthogonal_selection)

    @property
    def vindex(self) -> Accessor:
        """Pointwise indexing: an index for each axis, broadcast together, or a mask.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        >>> a.vindex[[0, 2], [1, 2]]
        array([1, 8])
        """

        def get(key: Any) -> Any:
            return self._get(self._query(pointwise_query, key), None, None)

        def set(key: Any, value: Any) -> None:  # noqa: A001
            self._write_fields(self._query(pointwise_query, key), None, value)

        return Accessor(get, set)

    @property
    def blocks(self) -> Accessor:
        """Indexing by chunk: integers and slices that count chunks, not elements.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, shape=(4, 4), dtype="i4", chunks=(2, 3))
        >>> a.blocks[1, 0] = 7
        >>> a[...]
        array([[0, 0, 0, 0],
               [0, 0, 0, 0],
               [7, 7, 7, 0],
               [7, 7, 7, 0]], dtype=int32)
        """
        return Accessor(self.get_block_selection, self.set_block_selection)
