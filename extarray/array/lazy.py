"""Views that read late and write through: ``a.lazy[...]`` and ``a.T``.

A view is an array and a query on it, whose factors lie on one axis each: an integer or a slice
(`Progression`), or a list of indices (`Points`).  A selection from a view is a query on its own
axes; both together are a query on the array, which runs it, so elements move in only one way.  A
dimension that no factor fills is new, or repeats the elements.  The query of a view of records may
also name a field, or some fields.

The class is the public face of views.  Its `Placement` knows where a view lies in its array.  Where
an axis is split into several, a `Split` takes the place of the array.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray._core._array import ArrayCore, check_destination
from extarray.array.copies import Late
from extarray.array.facts import html_of_view
from extarray.array.split import Split, lengths_of, stored_split
from extarray.common.arguments import as_axis, check_flag
from extarray.common.errors import (
    ArgumentError,
    BoundsError,
    ExtArrayError,
    MissingError,
    ReadOnlyError,
)
from extarray.format.labels import check_dims
from extarray.numpy_api import dlpack
from extarray.selection import selections
from extarray.selection.axis_factors import (
    are_same,
    fingerprint,
    is_orthogonal,
    line_of,
)
from extarray.selection.brackets import as_query
from extarray.selection.execution import check_values, read_query, write_query
from extarray.selection.factors import Points, Progression
from extarray.selection.fields import dtype_of_fields, field_of, has_gaps
from extarray.selection.indexable import read_index, write_fields, write_index
from extarray.selection.placement import Placement, index_of_element
from extarray.selection.query import Bounds, Field, Query
from extarray.streaming.blocks import Source, write_exactly
from extarray.streaming.dask import builds_graph, to_dask
from extarray.streaming.elementwise import apart, stream
from extarray.streaming.limits import check_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.selection.axis_factors import AxisFactor
    from extarray.streaming.blocks import Line

__all__ = ["LazyView", "everything"]


class LazyView(Late):
    """Part of an array, its axes in any order, that reads late and writes through.

    Made by `ExtArray.lazy`, and where NumPy makes a view of a whole ndarray, transposed or with
    more or fewer axes: by ``a.T``, ``np.moveaxis(a, 0, 1)``, ``np.squeeze(a)`` and their like.  It
    has no elements of its own: brackets, operators and NumPy's functions read the array when they
    need elements, and assignment changes the array.

    Parameters
    ----------
    array : ExtArray
    factors : tuple
        The selection along each axis of the array.
    shape : tuple of int
    field : Field, optional
        Part of each record that the view shows; None: whole elements.

    Attributes
    ----------
    base : ExtArray
        The array.
    dtype : dtype
    shape, chunks : tuple of int
        Extents of the view, and of the parts in which it is best read.

    Notes
    -----
    The bounds are those at the time when the view was made: a view does not grow.  It shows the
    same elements after the array has grown or shrunk at a start.  Once the array has gained an
    axis, the view raises `ShapeError`: take a new one.

    For an array of records, names of fields give views of fields: ``a.lazy["v"]``.

    A view in which an element of the array occurs more than once is read-only: one of
    ``np.broadcast_to``, or of repeated indices.

    A view is pickled with its array, by the array's rules.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
    >>> v = a.lazy[:, ::-1].T
    >>> v[...]
    array([[3, 6],
           [2, 5],
           [1, 4]])
    >>> v[0] = 0
    >>> v += 10
    >>> a[...]
    array([[11, 12, 10],
           [14, 15, 10]])
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_field",
        "_held_of",
        "_place",
        "_repeats",
        "_rows",
        "_shape",
    )

    _array: Any  # ExtArray, which stands above
    _field: Field | None
    _place: Placement  # replaced as a whole, as other threads may be using it
    _shape: tuple[int, ...]
    _repeats: bool
    _held_of: LazyView | None  # the view of which this is a held copy
    _rows: Split | None  # where integers for its first axes may select a row of the array

    def __init__(
        self,
        array: Any,
        factors: Iterable[AxisFactor],
        shape: Sequence[int],
        field: Field | None = None,
    ) -> None:
        self._array = array
        self._field = field
        self._shape = tuple(shape)
        self._held_of = None
        self._rows = None
        self._place = Placement.of(tuple(factors), array.origin, array._identity, self._shape)
        array._check_axes(len(self._place.factors))
        self._repeats = self._place.repeats()

    @property
    def _now(self) -> Placement:
        """The view's place, as the indices of the array are now."""
        zero, place = self._array.origin, self._place
        if self._array._identity != place.uuid:
            raise MissingError(
                errno.ENOENT,
                "the array was replaced after the view was made; make a new view",
                str(self._array.path),
            )
        if zero != place.zero:
            self._array._check_axes(len(place.factors))
            # Growth at a start has shifted the indices; the view shows the same elements.
            self._place = place = place.moved(zero)
        return place

    @property
    def _factors(self) -> tuple[AxisFactor, ...]:
        """The factors by axis of the array, as its indices are now."""
        return self._now.factors

    @property
    def _shown(self) -> dict[int, AxisFactor]:
        return self._now.shown

    def _held(self) -> LazyView:
        """Return the view on the array held as it is now; see `ExtArray._held`."""
        if self._held_of is not None:
            return self
        held: LazyView = LazyView.__new__(LazyView)
        held._array = self._array._held()
        held._shape, held._repeats = self._shape, self._repeats
        held._place, held._field = self._place, self._field
        held._held_of = self
        held._rows = None
        return held

    def _verified(self) -> LazyView:
        held = self._held()
        held._array._verified()
        return held

    def _released(self) -> LazyView:
        if self._held_of is not None:
            return self._held_of
        array = self._array._released()
        if array is self._array:
            return self
        place = self._now
        return _restored(array, place.factors, self._shape, place.zero, self._field)

    # -- properties --------------------------------------------------------------------------

    @property
    def base(self) -> Any:
        """The array."""
        array = self._array
        return array.base if isinstance(array, Split) else array

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, in elements."""
        return self._shape

    @property
    def _frame(self) -> Bounds:
        return Bounds(self._shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        dtype: np.dtype[Any] = self._array.dtype if self._field is None else self._field.dtype
        return dtype

    @property
    def fill_value(self) -> Any:
        """Value of elements that were never written: the array's, or its part in the field."""
        value = self._array.fill_value
        if self._field is None:
            return value
        return np.asarray(value, self._array.dtype).getfield(*self._field)[()]

    @property
    def chunks(self) -> tuple[int, ...]:
        """Extents of the parts in which the elements are best read: those of a chunk."""
        return self._now.chunks(self._array.chunks)

    @property
    def _lead(self) -> tuple[int, ...]:
        return self._now.lead(self._array.chunks, self._array._lead)

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the axes, as the array has them; None if it has none, or if an axis is new."""
        names = self._array.dims
        self._bounds()
        if names is None or len(self._shown) < self.ndim:
            return None
        return tuple(names[self._shown[d].axes[0]] for d in range(self.ndim))

    @property
    def _identity(self) -> bytes:
        origin: bytes = self._array._identity
        return origin

    @property
    def _lines(self) -> tuple[Line, ...] | None:
        if isinstance(self._array, Split):
            return None  # its axes are not those of the stored array
        return self._own_lines

    @property
    def _own_lines(self) -> tuple[Line, ...]:
        return tuple(line_of(factor) for factor in self._factors)

    @property
    def _handle(self) -> Any:
        return self._array._handle, self._shape, repr(self._extract)

    @property
    def _is_whole(self) -> bool:
        """True unless the view may show elements that have not come."""
        return not isinstance(self._array, Split) or self._array.is_whole

    @property
    def _leaves_holes(self) -> bool:
        sparse: bool = self._array._leaves_holes
        return sparse

    def _holes(self) -> Callable[[Box], bool] | None:
        is_hole, lines = self._array._holes(), self._own_lines
        if is_hole is None:
            return None

        def is_hole_of_view(box: Box) -> bool:
            around = _box_around(lines, box)
            return around is None or bool(is_hole(around))

        return is_hole_of_view

    @property
    def _comes_late(self) -> bool:
        late: bool = self._array._comes_late
        return late

    def _ahead(self, boxes: Sequence[Box]) -> None:
        around = [_box_around(self._own_lines, box) for box in boxes]
        self._array._ahead([box for box in around if box is not None])

    @property
    def _extract(self) -> list[Any]:
        """Return, as JSON values, which of all elements ever stored the view shows."""
        place = self._now
        extract: list[Any] = list(map(fingerprint, place.factors, place.zero))
        if self._field is not None:
            extract.append([str(self._field.dtype), self._field.offset])
        return extract

    @property
    def _is_mapped(self) -> bool:
        mapped: bool = self._array._is_mapped
        return mapped

    def __repr__(self) -> str:
        what = "" if self._field is None else f", dtype {self.dtype},"
        return f"<extarray.LazyView: shape {self.shape}{what} of {self._array!r}>"

    def _repr_html_(self) -> str:
        """Show the view in a notebook: a table, with its index in the array."""
        try:
            return html_of_view(self, self._array, ", ".join(map(_index_text, self._factors)))
        except ExtArrayError:  # the array is closed, or no longer has the elements
            from html import escape  # which imports all names of characters

            return f"<code>{escape(repr(self))}</code>"

    def __reduce__(self) -> tuple[Any, ...]:
        # In memory the copy has no history; in files it is the array at unpickling time.
        zero = None if self._array.path is None else self._array.origin
        return _restored, (self._array, self._factors, self._shape, zero, self._field)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        parts = [
            (part.axes, part.indices, part.dims) if isinstance(part, Points) else line_of(part)
            for part in self._factors
        ]
        of_record = None if self._field is None else (str(self.dtype), self._field.offset)
        array = self._array.__dask_tokenize__()
        return ("extarray.array.lazy", array, parts, self._shape, of_record)

    # -- views of the view -------------------------------------------------------------------

    @property
    def lazy(self) -> selections.Lazy:
        """Views of this view, which are views of the array.

        Examples
        --------
        >>> import extarray as xa
        >>> v = xa.from_array(range(10)).lazy[2:]
        >>> v.lazy[::3][...]
        array([2, 5, 8])
        """
        return selections.Lazy(self)

    def _select(self, query: Query) -> LazyView:
        """Return the view of a query's selection; `is_orthogonal` must hold for the query."""
        self._bounds()
        return LazyView(self._array, self._now.selected(query), query.shape, self._field)

    def _split(
        self, axis: SupportsIndex | str | None, lengths: Mapping[str, Any], complete: bool
    ) -> LazyView:
        """Return the view with an axis split; see `selections.Lazy.split`."""
        self._bounds()
        complete = check_flag(complete, "complete")
        if axis is None:
            if lengths:
                raise ArgumentError(
                    f"split({', '.join(lengths)}=...) names no axis; name it first, as in "
                    'a.lazy.split("frame", t=-1, c=3)'
                )
            view = self
            for name, stored in stored_split(self).items():
                view = view._split(name, stored, complete and -1 in stored.values())
            return view
        j = as_axis(axis, self.ndim, self)
        called = f"axis {axis!r}"
        n = self._shape[j]
        found = lengths_of(n, lengths, complete, called)
        names = tuple(lengths)
        dims = self.dims
        if dims is not None:
            check_dims((*dims[:j], *names, *dims[j + 1 :]), self.ndim - 1 + len(names))
        view = self
        shown = prod(found)
        if shown < n:
            view = self.lazy[(slice(None),) * j + (slice(shown),)]
        split = Split(view, j, found, names)
        whole = everything(split)
        if j == 0 and view._field is None and isinstance(view._array, ArrayCore):
            whole._rows = split
        return whole

    def _of_fields(self, fields: str | Sequence[str]) -> LazyView:
        """Return the view of one field of each record, or of records of some fields."""
        if isinstance(fields, str):
            found = field_of(self.dtype, fields)
            if found.dtype.subdtype is not None:
                raise ArgumentError(
                    f"cannot make a view of field {fields!r}, which is an array of shape "
                    f"{found.dtype.shape} in each record; read and write it with a[{fields!r}]"
                )
        else:
            found = Field(dtype_of_fields(self.dtype, fields), 0)
        return LazyView(self._array, self._factors, self._shape, self._of_record(found))

    def _of_record(self, field: Field | None) -> Field | None:
        """Return the place of a field of the view in the array's elements; None: all of them."""
        own = self._field
        if own is None or field is None:
            return own if field is None else field
        return Field(field.dtype, own.offset + field.offset)

    def _arrange(self, dims: Sequence[int | None], shape: Sequence[int]) -> LazyView:
        """Return a view whose axes are these axes of this view; None: a new one."""
        return LazyView(self._array, self._now.arranged(dims), shape, self._field)

    # -- reading and writing -----------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        if self._rows is not None:
            row = self._rows.row(key)
            if row is not None:
                return row
        held = self._held()
        place = held._locate(key)
        if place is None:
            return held.read(key)
        element = held._array[place]
        return element if self._field is None else element.getfield(*self._field)

    def __delitem__(self, key: Any) -> None:
        raise ArgumentError("cannot delete array elements")

    def read(
        self,
        selection: Any = ...,
        out: NDArray[Any] | None = None,
        order: Literal["C", "F"] = "C",
    ) -> NDArray[Any]:
        """Read a selection: as `ExtArray.read`.

        Parameters
        ----------
        selection : index expression
        out : ndarray, optional
        order : {"C", "F"}

        Returns
        -------
        ndarray

        Raises
        ------
        BoundsError
            An IndexError: a part of the selection is impossible; or the array no longer has the
            elements of the view.
        SelectionError, ShapeError, CastingError, ClosedError

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2], [3, 4]]).lazy[...].T.read(0)
        array([1, 3])
        """
        check_destination(out, order)
        if self._rows is not None and order == "C":
            row = self._rows.row(selection, out)
            if row is not None:
                return row
        return read_index(self._held(), selection, out, order)

    def write(self, selection: Any, values: Any) -> None:
        """Write to a selection, and so to the array: as `ExtArray.write`.

        Parameters
        ----------
        selection : index expression
        values : array_like

        Raises
        ------
        BoundsError, SelectionError, ShapeError, ClosedError, StorageError
            As for `read` and `ExtArray.write`.
        ReadOnlyError
            The array is read-only, or the view has an element more than once.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3))
        >>> a.lazy[:, 1:].write(0, [5, 6])
        >>> a[0]
        array([0., 5., 6.])
        """
        self._check("write to")
        if self._repeats:
            raise ReadOnlyError(
                "cannot write to a view that has an element more than once; write to the array, "
                "or to a view without broadcasting or repeated indices"
            )
        held = self._held()
        place = None if self._field is not None else held._locate(selection)
        if place is not None:
            write_exactly(held._array, place, values)
            return
        write_index(held, selection, values)

    # The brackets of other rules, and zarr's methods, as those of the array.
    oindex = property(selections.oindex)
    vindex = property(selections.vindex)
    blocks = property(selections.blocks)
    get_basic_selection = selections.get_basic_selection
    set_basic_selection = selections.set_basic_selection
    get_orthogonal_selection = selections.get_orthogonal_selection
    set_orthogonal_selection = selections.set_orthogonal_selection
    get_coordinate_selection = selections.get_coordinate_selection
    set_coordinate_selection = selections.set_coordinate_selection
    get_mask_selection = selections.get_mask_selection
    set_mask_selection = selections.set_mask_selection
    get_block_selection = selections.get_block_selection
    set_block_selection = selections.set_block_selection

    def _read_query(
        self, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]:
        return read_query(self._held(), query, out, order)

    def _check_written(self, query: Query) -> None:
        """Raise if a query selects elements that have not come; see `Split`."""
        if not self._is_whole:
            self._array.check_written(self._now.on_array(query.ready()))

    def _check_target(self) -> None:
        if not self._is_whole:
            self._check_written(as_query(..., self._shape, self._array.dtype))

    def _write_query(self, query: Query, value: Any) -> None:
        self._check_written(query)
        if (
            query.field is None
            and self._is_in_parts
            and not (isinstance(value, Source) and self._is_same(value))
        ):
            write_fields(self, query, self.dtype.names, value)  # writes around the gaps
            return
        held = self._held()
        if isinstance(value, Source):
            target = held._select(query) if is_orthogonal(query) else held
            if query.field is None and target._is_same(value):
                return  # ends ``a.lazy[...] += 1``
            value = apart(value._verified(), [target])
            is_whole = query.is_box and query.field is None  # elements are written once
            if isinstance(value, Source) and is_whole and value.ndim <= target.ndim:
                check_values(query, value.shape, query.shape)
                stream(_assign, [value], [target])
                return
        write_query(held, query, value)

    def _check_out(self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._array._check_out(out, shape, dtype)

    def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any:
        # Our arrays that share elements with this one are copies already.
        return value if isinstance(value, Source) else self._array._as_values(value, dtype)

    def _overlaps(self, values: NDArray[Any]) -> bool:
        overlaps: bool = self._array._overlaps(values)
        return overlaps

    @property
    def _is_in_parts(self) -> bool:
        """True if the array's elements have bytes between those of the view's."""
        return self._field is not None and has_gaps(self._field.dtype)

    def _is_same(self, other: Source) -> bool:
        """Tell whether another array shows the same elements at the same places."""
        return (
            isinstance(other, LazyView)
            and other._field == self._field
            and other._array._handle == self._array._handle
            and other._shape == self._shape
            and all(map(are_same, self._factors, other._factors))
        )

    def _move(self, query: Query, values: NDArray[Any], write: bool) -> None:
        """Move a query's selection to an array of its shape, or (write) from it."""
        self._check_bounds()
        if self._field is not None:
            query = replace(query, field=self._of_record(query.field))
        self._now.move(self._array, query, values, write)

    def _peek(self, box: Box, writable: bool = False) -> NDArray[Any] | None:
        """Return a view of a box of elements that lies in one chunk, or None."""
        if self._held_of is None:
            return self._held()._peek(box, writable)
        self._check_bounds()
        if writable and (self._repeats or self._is_in_parts):
            return None
        view = self._now.peek(self._array, box, writable)
        if view is not None and self._field is not None:
            view = view.getfield(*self._field)
        if view is None or not self._repeats:
            return view
        return np.broadcast_to(view, [part.stop - part.start for part in box])

    def _locate(self, key: Any) -> tuple[int, ...] | None:
        """Return the index of an element in the array; None if `key` selects no single element."""
        indices = index_of_element(key, self._shape)
        if indices is None:
            return None
        self._check_bounds()
        return self._now.element(indices)

    def _check(self, what: str | None = None) -> None:
        """Raise if the array is closed, or if `what` would change a read-only one."""
        self._array._check(what)

    def _check_bounds(self) -> None:
        """Raise if the array no longer has all elements of the view."""
        needed = self._now.needed
        shape = self._bounds()
        if any(low < 0 or n < high for n, (low, high) in zip(shape, needed, strict=True)):
            raise BoundsError(
                f"the array now has shape {shape}, and some elements of the view are gone; make a "
                "new view"
            )

    def _bounds(self) -> tuple[int, ...]:
        """Return the shape of the array; raise if it has gained an axis since the view was made."""
        shape: tuple[int, ...] = self._array.shape
        self._array._check_axes(len(self._place.factors))  # after the look: ndim only grows
        return shape

    # -- whole views -------------------------------------------------------------------------

    def copy(self, order: Literal["C", "F", "A", "K"] = "C") -> Any:
        """Copy all elements, as `numpy.ndarray.copy`.

        Parameters
        ----------
        order : {"C", "F", "A", "K"}

        Returns
        -------
        ndarray

        Raises
        ------
        ArgumentError
            A ValueError: `order` is a path, as `extarray.rechunk` takes.
        ResultError
            A MemoryError: the copy is larger than ``config.max_result``.

        Notes
        -----
        For `dask.array.from_array` this returns the view itself, so that tasks read it late.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([1, 2, 3]).lazy[1:].copy()
        array([2, 3])
        """
        if builds_graph():
            return self
        given: Any = order
        if isinstance(given, os.PathLike) or (isinstance(given, str) and len(given) > 1):
            raise ArgumentError(
                f"copy({order!r}): the copy of a view is in memory, and the argument is an order: "
                "'C', 'F', 'A' or 'K'; use extarray.rechunk(view, path) to write files"
            )
        check_result(self.nbytes, "the result of copy", "extarray.from_array with a path")
        return np.asarray(self.read(), order=order)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.copy()

    # -- other libraries ---------------------------------------------------------------------

    __array_namespace__ = dlpack.namespace
    device = property(dlpack.device)
    to_device = dlpack.to_device

    def to_dask(self, chunks: Any = None) -> Any:
        """Return a dask array whose tasks read this view: as `ExtArray.to_dask`.

        Parameters
        ----------
        chunks : int, tuple, str or dict, optional

        Returns
        -------
        dask.array.Array

        Raises
        ------
        MissingExtraError
            Dask is not installed.
        ClosedError

        Examples
        --------
        >>> import extarray as xa
        >>> v = xa.ones((100, 100), chunks=10).lazy[:50].T
        >>> v.to_dask().sum().compute()  # doctest: +SKIP
        np.float64(5000.0)
        """
        self._check()
        return to_dask(self, chunks)

    # ``dask.array.asarray`` looks for this name.
    to_dask_array = to_dask


def everything(array: Any) -> LazyView:
    """Return a view of a whole array.

    Parameters
    ----------
    array : ExtArray

    Returns
    -------
    LazyView
    """
    factors = (Progression(j, 0, 1, n, j) for j, n in enumerate(array.shape))
    return LazyView(array, factors, array.shape)


def _index_text(factor: AxisFactor) -> str:
    """Return a view's part of an axis, as an index in brackets."""
    if not isinstance(factor, Progression):
        return f"{factor.count} indices"
    if factor.dim < 0:
        return str(factor.start)
    stop = factor.start + factor.count * factor.step
    step = "" if factor.step == 1 else f":{factor.step}"
    return f"{factor.start}:{stop if stop >= 0 else ''}{step}"


def _box_around(lines: Sequence[Line], box: Box) -> Box | None:
    """Return the box of an array that has a box of a view of it; None if that has no elements."""
    around = []
    for start, step, count, dim in lines:
        part = slice(0, count) if dim is None or dim < 0 else box[dim]
        if part.start >= part.stop:
            return None
        ends = start + step * part.start, start + step * (part.stop - 1)
        around.append(slice(min(ends), max(ends) + 1))
    return tuple(around)


def _restored(
    array: Any,
    factors: tuple[AxisFactor, ...],
    shape: tuple[int, ...],
    zero: tuple[int, ...] | None,
    field: Field | None = None,
) -> LazyView:
    """Make a pickled view of an array whose origin was `zero`."""
    view = LazyView(array, factors, shape, field)
    if zero is not None:
        view._place = Placement.of(factors, zero, array._identity, shape)
    return view


def _assign(part: NDArray[Any], out: tuple[NDArray[Any]]) -> None:
    np.copyto(out[0], part, casting="unsafe")
