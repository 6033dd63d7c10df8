"""The selection methods of zarr's arrays, a pair to read and write for each kind of index.

Each function is the body of the method of its name, in arrays and views.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

from extarray.common.errors import SelectionError
from extarray.selection.axis_factors import is_orthogonal
from extarray.selection.brackets import as_query
from extarray.selection.fields import split_names
from extarray.selection.indexable import query_on, read_fields, write_fields
from extarray.selection.orthogonal import block_query, orthogonal_query
from extarray.selection.pointwise import coordinate_query, mask_query, pointwise_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from extarray.selection.fields import Fields
    from extarray.selection.indexable import Indexable
    from extarray.selection.query import Query

__all__ = [
    "Accessor",
    "Lazy",
    "Viewable",
    "blocks",
    "get_basic_selection",
    "get_block_selection",
    "get_coordinate_selection",
    "get_mask_selection",
    "get_orthogonal_selection",
    "oindex",
    "set_basic_selection",
    "set_block_selection",
    "set_coordinate_selection",
    "set_mask_selection",
    "set_orthogonal_selection",
    "vindex",
]


class Accessor:
    """Brackets with rules of their own: ``a.oindex``, ``a.vindex``, ``a.blocks``.

    Parameters
    ----------
    get, set : callable
        Called by reading and assignment, with the key (and the value).
    """

    __slots__ = ("_get", "_set")

    def __init__(self, get: Callable[[Any], Any], set: Callable[[Any, Any], None]) -> None:  # noqa: A002
        self._get = get
        self._set = set

    def __getitem__(self, key: Any) -> Any:
        return self._get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._set(key, value)


class Viewable(Protocol):
    """An array that views can be taken of."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
    def _bounds(self) -> tuple[int, ...]: ...
    def _select(self, query: Query) -> Any: ...
    def _of_fields(self, fields: str | Sequence[str]) -> Any: ...
    def _split(self, axis: Any, lengths: Mapping[str, Any], complete: bool) -> Any: ...


class Lazy:
    """Brackets that return a view without reading: ``a.lazy``; iteration gives views of rows.

    Parameters
    ----------
    view : LazyView
        The view to index.
    """

    __slots__ = ("_view",)

    def __init__(self, view: Viewable) -> None:
        self._view = view

    def __getitem__(self, key: Any) -> Any:
        view = self._view
        if key is ...:
            view._bounds()  # raises as `_select` does
            return view
        rest, fields = split_names(key, view.dtype)
        found = self._get(as_query(rest, view.shape, view.dtype), key)
        return found if fields is None else found._of_fields(fields)

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key].write(..., value)

    def __len__(self) -> int:
        if not self._view.shape:
            raise TypeError("len() of unsized object")
        return self._view.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self._view.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self._view.shape[0]))

    @property
    def oindex(self) -> Accessor:
        """Views by an index for each axis; arrays and masks act on each axis independently.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        >>> a.lazy.oindex[[0, 2], [True, False, True]].T[...]
        array([[0, 6],
               [2, 8]])
        """

        def get(key: Any) -> Any:
            return self._get(orthogonal_query(key, self._view.shape), key)

        def set(key: Any, value: Any) -> None:  # noqa: A001
            get(key).write(..., value)

        return Accessor(get, set)

    def split(
        self,
        axis: SupportsIndex | str | None = None,
        /,
        *,
        complete: bool = False,
        **lengths: SupportsIndex,
    ) -> Any:
        """Return a view in which one axis is several: frames as time points, channels and slices.

        Index ``(t, c, z)`` of axes of lengths T, C and Z is index ``(t * C + c) * Z + z`` of the
        axis that is split: the last of them runs fastest.

        Parameters
        ----------
        axis : int or str, optional
            The axis to split.  None: as the attribute ``"split"`` says, which belongs to the array.
        complete : bool
            True: the view ends with the last block that is whole along the axis of length -1.
            False (the default): it ends with the newest element, and elements of its block that
            have not come read as the fill value; they cannot be written to.
        **lengths : int
            Name and length of each new axis, in order.  One length may be -1, for as many as there
            are.

        Returns
        -------
        LazyView

        Raises
        ------
        ArgumentError
            A ValueError: the lengths, or their names, are impossible; or the array has no attribute
            ``"split"``.
        AxisError
            A ValueError: there is no such axis.

        Notes
        -----
        Like any view, this one keeps its bounds: take a new one for elements that come later.  Its
        axes have names if those of the array have.

        Examples
        --------
        >>> import numpy as np
        >>> import extarray as xa
        >>> a = xa.create(None, (0, 2, 2), "u2", dims=("frame", "y", "x"))
        >>> for i in range(8):
        ...     a.append(np.full((1, 2, 2), i, "u2"))
        >>> v = a.lazy.split("frame", t=-1, c=3)
        >>> v.shape, v.dims
        ((3, 3, 2, 2), ('t', 'c', 'y', 'x'))
        >>> v[:, :, 0, 0]
        array([[0, 1, 2],
               [3, 4, 5],
               [6, 7, 0]], dtype=uint16)
        >>> a.lazy.split("frame", t=-1, c=3, complete=True).shape
        (2, 3, 2, 2)
        """
        return self._view._split(axis, lengths, complete)

    def _get(self, query: Query, key: Any) -> Any:
        if not is_orthogonal(query):
            raise SelectionError(
                f"{key!r} selects points, which cannot be a view; a view takes integers, slices, "
                "and arrays along one axis each (lazy.oindex); read points with a[...] or "
                "a.vindex"
            )
        return self._view._select(query)


def get_basic_selection(
    array: Indexable,
    selection: Any = ...,
    *,
    out: NDArray[Any] | None = None,
    fields: Fields = None,
) -> Any:
    """Read by integers and slices."""
    return _get(array, _basic(array, selection), out, fields)


def set_basic_selection(
    array: Indexable, selection: Any, value: Any, *, fields: Fields = None
) -> None:
    """Write by integers and slices."""
    write_fields(array, _basic(array, selection), fields, value)


def get_orthogonal_selection(
    array: Indexable, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
) -> Any:
    """Read by an index for each axis, which acts on that axis alone: ``oindex``."""
    return _get(array, query_on(array, orthogonal_query, selection), out, fields)


def set_orthogonal_selection(
    array: Indexable, selection: Any, value: Any, *, fields: Fields = None
) -> None:
    """Write by an index for each axis, which acts on that axis alone: ``oindex``."""
    write_fields(array, query_on(array, orthogonal_query, selection), fields, value)


def get_coordinate_selection(
    array: Indexable, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
) -> Any:
    """Read points by their coordinates: ``vindex``."""
    return _get(array, query_on(array, coordinate_query, selection), out, fields)


def set_coordinate_selection(
    array: Indexable, selection: Any, value: Any, *, fields: Fields = None
) -> None:
    """Write points by their coordinates: ``vindex``."""
    write_fields(array, query_on(array, coordinate_query, selection), fields, value)


def get_mask_selection(
    array: Indexable, mask: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
) -> Any:
    """Read the elements where a mask is true: ``vindex``."""
    return _get(array, query_on(array, mask_query, mask), out, fields)


def set_mask_selection(array: Indexable, mask: Any, value: Any, *, fields: Fields = None) -> None:
    """Write the elements where a mask is true: ``vindex``."""
    write_fields(array, query_on(array, mask_query, mask), fields, value)


def get_block_selection(
    array: Indexable, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
) -> Any:
    """Read whole chunks by their indices: ``blocks``."""
    return _get(array, _blocks(array, selection), out, fields)


def set_block_selection(
    array: Indexable, selection: Any, value: Any, *, fields: Fields = None
) -> None:
    """Write whole chunks by their indices: ``blocks``."""
    write_fields(array, _blocks(array, selection), fields, value)


def oindex(array: Indexable) -> Accessor:
    """Return brackets for orthogonal indexing: arrays and masks act on each axis independently."""
    return Accessor(
        partial(get_orthogonal_selection, array), partial(set_orthogonal_selection, array)
    )


def vindex(array: Indexable) -> Accessor:
    """Return brackets for pointwise indexing: an index for each axis, or a mask."""

    def get(key: Any) -> Any:
        return _get(array, query_on(array, pointwise_query, key), None, None)

    def set(key: Any, value: Any) -> None:  # noqa: A001
        write_fields(array, query_on(array, pointwise_query, key), None, value)

    return Accessor(get, set)


def blocks(array: Indexable) -> Accessor:
    """Return brackets for indexing by chunk: integers and slices that count chunks."""
    return Accessor(partial(get_block_selection, array), partial(set_block_selection, array))


def _get(array: Indexable, query: Query, out: NDArray[Any] | None, fields: Fields) -> Any:
    """Read a query; a single element becomes a scalar."""
    result = read_fields(array, query, fields, out)
    return result if out is not None else result[()]


def _blocks(array: Indexable, selection: Any) -> Query:
    return query_on(array, block_query, selection, array.chunks, array._lead)


def _basic(array: Indexable, selection: Any) -> Query:
    query = query_on(array, as_query, selection, array.dtype)
    if query.kind != "basic":
        raise SelectionError(
            f"{selection!r} is not a basic index of integers, slices and `...`; use the brackets, "
            "oindex or vindex"
        )
    return query
