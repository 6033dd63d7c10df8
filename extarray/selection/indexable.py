"""Reads and writes of arrays and views by an index of any kind.

`write_index` makes a query of an index, `write_fields` one for each field that is named, and the
array carries it out by `_write_query`.  Reading has the same three steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from extarray.selection.brackets import as_query
from extarray.selection.execution import check_values
from extarray.selection.fields import dtype_of_fields, field_of, split_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.selection.fields import Fields
    from extarray.selection.query import Query

__all__ = ["Indexable", "query_on", "read_fields", "read_index", "write_fields", "write_index"]


class Indexable(Protocol):
    """An array, or a view of one, that carries out queries."""

    @property
    def _frame(self) -> Any: ...  # Frame, or Bounds of a view
    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
    @property
    def chunks(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def _lead(self) -> tuple[int, ...]: ...
    def _check_out(
        self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None: ...
    def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any: ...
    def _read_query(
        self, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]: ...
    def _write_query(self, query: Query, value: Any) -> None: ...


def query_on(
    array: Indexable, make: Callable[..., Query], key: Any, *args: Any, frame: Any = None
) -> Query:
    """Make a query on the present state of an array, however it changes before the query runs.

    ``make(key, shape, *args)`` makes the query.  `frame` is the state that the index was given for,
    by default the present one.
    """
    frame = array._frame if frame is None else frame
    return make(key, frame.shape, *args).on(frame)


def read_index(
    array: Indexable,
    key: Any,
    out: NDArray[Any] | None = None,
    order: Literal["C", "F"] = "C",
    frame: Any = None,
) -> NDArray[Any]:
    """Read by an index of any kind, given for `frame`, by default the present state."""
    query, fields = _query_of(array, key, frame)
    result = read_fields(array, query, fields, out, order)
    # A field of one record is a scalar, if brackets without the name give one.
    is_scalar = fields is not None and out is None and not result.ndim
    return result[()] if is_scalar and isinstance(key, tuple) and ... not in key else result


def write_index(array: Indexable, key: Any, value: Any, frame: Any = None) -> None:
    """Write by an index of any kind, given for `frame`, by default the present state."""
    write_fields(array, *_query_of(array, key, frame), value)


def _query_of(array: Indexable, key: Any, frame: Any) -> tuple[Query, Fields]:
    """Make the query of an index, and return the fields that it names."""
    rest, fields = split_names(key, array.dtype)
    return query_on(array, as_query, rest, array.dtype, frame=frame), fields


def read_fields(
    array: Indexable,
    query: Query,
    fields: Fields,
    out: NDArray[Any] | None = None,
    order: Literal["C", "F"] = "C",
) -> NDArray[Any]:
    """Read some fields of a query's selection; None: whole elements."""
    if isinstance(fields, str):
        query = replace(query, field=field_of(array.dtype, fields))
    elif fields:
        dtype = dtype_of_fields(array.dtype, fields)
        if out is not None:
            array._check_out(out, query.shape, dtype)
        records: NDArray[Any] = array._read_query(query, None, order)[list(fields)]
        if out is None:
            return records
        out[...] = records
        return out
    return array._read_query(query, out, order)


def write_fields(array: Indexable, query: Query, fields: Fields, value: Any) -> None:
    """Write some fields of a query's selection and no other byte; None: whole elements."""
    if not fields:
        array._write_query(query, value)
        return
    if isinstance(fields, str):
        array._write_query(replace(query, field=field_of(array.dtype, fields)), value)
        return
    dtype = dtype_of_fields(array.dtype, fields)
    value = array._as_values(value, dtype)
    check_values(query, value.shape, query.shape)
    records = np.empty(value.shape, dtype)
    records[...] = value[...]
    for name in fields:
        array._write_query(replace(query, field=field_of(array.dtype, name)), records[name])
