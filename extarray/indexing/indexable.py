"""Every kind of index: queries read and written, and the ways to ask for them.

`extarray.indexing.queries` turns what stands between the brackets into a query.  Here a query is
run on an array, in parts whose tables, and whose blocks of another dtype, fit in half of
``config.max_memory``; the compiled core moves a part.  `Indexable` gives an array ``oindex``,
``vindex``, ``blocks``, names of fields, and the selection methods of zarr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from extarray.config import config
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    FieldError,
    SelectionError,
    ShapeError,
)
from extarray.indexing.queries import (
    Field,
    Mask,
    Query,
    as_query,
    block_query,
    coordinate_query,
    mask_query,
    orthogonal_query,
    pointwise_query,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray._core._array import ArrayCore

__all__ = ["Accessor", "Indexable", "read_query", "write_query"]

Fields: TypeAlias = str | Sequence[str] | None

# Tables of a mask on an array that is mapped: they stay in the cache.  Elsewhere, larger ones save
# system calls, because each chunk is read once for all of its true places.
_CACHED = 1 << 22


# -- queries -------------------------------------------------------------------------------------


def read_query(
    array: ArrayCore, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
) -> NDArray[Any]:
    """Read what a query selects.

    Parameters
    ----------
    array : ArrayCore
    query : Query
    out : ndarray, optional
        Where to read to; elements are cast by the rule ``same_kind``.
    order : {"C", "F"}
        Memory order of a new result.

    Returns
    -------
    ndarray
    """
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


def write_query(array: ArrayCore, query: Query, value: Any) -> None:
    """Write to what a query selects.

    Parameters
    ----------
    array : ArrayCore
    query : Query
    value : array_like
        Broadcast to the query's shape, and cast as NumPy's assignment casts.

    Raises
    ------
    ShapeError
        A ValueError: `value` cannot be broadcast.
    """
    dtype = array.dtype if query.field is None else query.field.dtype
    inner = dtype.shape
    shape = (*query.shape, *inner)
    values = array._as_values(value, dtype.base)
    _check_values(query, values.shape, shape)
    while values.ndim > len(shape):
        values = values[0]  # NumPy, too, lets leading axes of length 1 go
    if query.size == 0:
        return
    direct = values.dtype == dtype.base and isinstance(values, np.ndarray)
    if not direct and values.size * dtype.base.itemsize <= config.max_memory // 2:
        block = np.empty(values.shape, dtype.base)
        block[...] = values[...]
        values, direct = block, True
    if direct and inner:
        outer = values.shape[: max(0, values.ndim - len(inner))]
        values = np.ascontiguousarray(np.broadcast_to(values, (*outer, *inner)))
    if isinstance(values, np.ndarray):
        values = np.broadcast_to(values, shape)
    _run(array, query, values, write=True, direct=direct)


def _run(array: ArrayCore, query: Query, values: Any, write: bool, direct: bool) -> None:
    """Move a query, in parts that memory has room for; through blocks where not `direct`."""
    if query.size == 0:
        return
    dtype = array.dtype if query.field is None else query.field.dtype
    tables = query.table_bytes(array.chunks)
    blocks = 0 if direct else query.size * dtype.itemsize
    share = config.max_memory // 2 / max(tables + blocks, 1)
    if array._is_mapped and any(isinstance(factor, Mask) for factor in query.factors):
        share = min(share, _CACHED / tables)
    if share < 1:
        is_cut = False
        for part, piece in query.cut(share, array.chunks, tables > blocks):
            is_cut = True
            _run(array, piece, _cut(values, part, query, len(dtype.shape)), write, direct)
        if is_cut:
            return
    if direct:
        array._move(query, values, write)
        return
    block = np.empty((*query.shape, *dtype.shape), dtype.base)
    if write:
        block[...] = values[...]
        array._move(query, block, True)
    else:
        array._move(query, block, False)
        np.copyto(values, block, casting="same_kind")


def _cut(values: Any, part: tuple[slice, ...], query: Query, n_inner: int) -> Any:
    """The part of values, which broadcast to a query, that belongs to a part of it."""
    missing = len(query.shape) - (values.ndim - n_inner)
    own = tuple(
        slice(None) if n == 1 else cut
        for n, cut in zip(values.shape, part[max(missing, 0) :], strict=False)
    )
    return values[own]


def _is_contiguous(array: NDArray[Any], n_inner: int) -> bool:
    """Whether the last axes, those of one element, lie in memory without gaps."""
    expected = array.itemsize
    for n, stride in zip(array.shape[: -n_inner - 1 : -1], array.strides[::-1], strict=False):
        if n > 1 and stride != expected:
            return False
        expected *= n
    return True


def _check_values(query: Query, given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raise where values of a shape cannot be assigned, in NumPy's words."""
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
            f"could not broadcast input array from shape {_text(given)} into shape {_text(shape)}"
        )
    raise ShapeError(
        f"shape mismatch: value array of shape {_text(given)} could not be broadcast to indexing "
        f"result of shape {_text(shape)}"
    )


def _text(shape: tuple[int, ...]) -> str:
    """A shape as NumPy prints it in its messages."""
    return f"({','.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# -- fields --------------------------------------------------------------------------------------


def _names(key: Any, dtype: np.dtype[Any]) -> Fields:
    """The key, where it is the name of a field or a list of names."""
    if dtype.names is None:
        return None
    if isinstance(key, str):
        return key
    if isinstance(key, list) and key and all(isinstance(name, str) for name in key):
        return key
    return None


def _field(dtype: np.dtype[Any], name: str) -> Field:
    """A field of a structured dtype."""
    if dtype.fields is None or name not in dtype.fields:
        raise FieldError(f"no field of name {name}")
    inner, offset = dtype.fields[name][:2]
    return Field(inner, offset)


def _dtype_of_fields(dtype: np.dtype[Any], names: Sequence[str]) -> np.dtype[Any]:
    """The dtype that NumPy gives to some fields, where they are in the whole element."""
    for name in names:
        _field(dtype, name)
    try:
        return np.empty((), dtype)[list(names)].dtype
    except ValueError as error:
        raise ArgumentError(str(error)) from None


# -- arrays --------------------------------------------------------------------------------------


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


class Indexable:
    """Kinds of index beside integers and slices, for a class with shape, dtype and chunks.

    The class says how a query is read and written.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]: ...  # noqa: D102
        @property
        def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
        @property
        def chunks(self) -> tuple[int, ...]: ...  # noqa: D102
        def _check_out(
            self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
        ) -> None: ...
        def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any: ...
        def _read_selected(
            self, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
        ) -> NDArray[Any]: ...
        def _write_selected(self, query: Query, value: Any) -> None: ...

    def _read_query(
        self, key: Any, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]:
        """Read by an index of any kind."""
        fields = _names(key, self.dtype)
        query = as_query(key if fields is None else ..., self.shape, self.dtype)
        return self._read_fields(query, fields, out, order)

    def _write_query(self, key: Any, value: Any) -> None:
        """Write by an index of any kind."""
        fields = _names(key, self.dtype)
        query = as_query(key if fields is None else ..., self.shape, self.dtype)
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
            query = replace(query, field=_field(self.dtype, fields))
        elif fields is not None:
            dtype = _dtype_of_fields(self.dtype, fields)
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
        if fields is None:
            self._write_selected(query, value)
            return
        if isinstance(fields, str):
            self._write_selected(replace(query, field=_field(self.dtype, fields)), value)
            return
        dtype = _dtype_of_fields(self.dtype, fields)
        value = self._as_values(value, dtype)
        _check_values(query, value.shape, query.shape)
        records = np.empty(value.shape, dtype)
        records[...] = value[...]
        for name in fields:
            self._write_selected(replace(query, field=_field(self.dtype, name)), records[name])

    # -- zarr's ways to index ----------------------------------------------------------------

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
            return self._get(pointwise_query(key, self.shape), None, None)

        def set(key: Any, value: Any) -> None:  # noqa: A001
            self._write_fields(pointwise_query(key, self.shape), None, value)

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

    def _get(self, query: Query, out: NDArray[Any] | None, fields: Fields) -> Any:
        """Read a query; a scalar where it is one element."""
        result = self._read_fields(query, fields, out)
        return result if out is not None else result[()]

    def _basic(self, selection: Any) -> Query:
        query = as_query(selection, self.shape, self.dtype)
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
        return self._get(orthogonal_query(selection, self.shape), out, fields)

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
        self._write_fields(orthogonal_query(selection, self.shape), fields, value)

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
        return self._get(coordinate_query(selection, self.shape), out, fields)

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
        self._write_fields(coordinate_query(selection, self.shape), fields, value)

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
        return self._get(mask_query(mask, self.shape), out, fields)

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
        self._write_fields(mask_query(mask, self.shape), fields, value)

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
        return self._get(block_query(selection, self.shape, self.chunks), out, fields)

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
        self._write_fields(block_query(selection, self.shape, self.chunks), fields, value)
