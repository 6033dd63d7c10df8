"""What stands between the brackets, as a query: any kind of index, by the rules of NumPy or zarr.

A `Query` is the outer product of factors, each of which selects points on some axes of an array,
and says which dimensions of the result they become:

- `Progression`: an integer or a slice, on one axis;
- `Points`: arrays of indices, one for each of some axes, whose i-th elements are a point;
- `Mask`: the true places of an array of booleans that lies on some neighbouring axes.

Nothing is read or written here but masks that are arrays of ours, which are counted box by box.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from extarray.chunking import grid_of
from extarray.errors import ArgumentError, BoundsError, SelectionError
from extarray.protocols.blocks import Source, load, tiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Shape: TypeAlias = tuple[int, ...]
    Indices: TypeAlias = NDArray[np.intp]
    # Of indices or booleans; masks may be arrays of ours.
    _Array: TypeAlias = Any

__all__ = [
    "Factor",
    "Field",
    "Mask",
    "Points",
    "Progression",
    "Query",
    "as_query",
    "block_query",
    "coordinate_query",
    "in_order",
    "is_source",
    "mask_query",
    "orthogonal_query",
    "pointwise_query",
]

_MAX_NDIM = 64  # NumPy's limit
_MANY = 60  # so many items may be more arrays than NumPy joins

# Bytes of the tables of a query: for a point on its way into order, a true place of a mask, a row
# of a mask in a chunk, and a chunk.
_POINT_BYTES = 48
_TRUE_BYTES = 16
_ROW_BYTES = 8
_PART_BYTES = 64


class Field(NamedTuple):
    """A field of a structured dtype: what is moved of each element."""

    dtype: np.dtype[Any]
    offset: int


class _Plan(Protocol):
    """What factors are added to: the tables of the compiled core."""

    def add_progression(
        self, axis: int, start: int, step: int, count: int, user_step: int
    ) -> None: ...
    def add_points(
        self, axes: tuple[int, ...], indices: tuple[Indices, ...], user_steps: tuple[int, ...]
    ) -> None: ...
    def add_mask(
        self, axis: int, origin: tuple[int, ...], mask: NDArray[np.bool_], user_step: int
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Progression:
    """The indices `start`, `start + step`, ... of an axis; dimension `dim` of the result, or -1."""

    axis: int
    start: int
    step: int
    count: int
    dim: int

    @property
    def axes(self) -> Shape:
        """The axes of the array."""
        return (self.axis,)

    @property
    def dims(self) -> Shape:
        """The dimensions of the result."""
        return () if self.dim < 0 else (self.dim,)

    @property
    def can_be_cut(self) -> bool:
        """Whether there is more than one place to select from."""
        return self.count > 1

    def table_bytes(self, chunks: Shape) -> int:
        """Memory that the factor takes when it is made ready."""
        return _PART_BYTES * -(-self.count * abs(self.step) // chunks[self.axis])

    def cut(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Factors that follow each other along a dimension, and the extent of each."""
        for first, n in _cuts(self.count, share, 1):
            yield replace(self, start=self.start + first * self.step, count=n), n

    def add_to(self, plan: _Plan, strides: Shape) -> None:
        """Add the factor to the tables, for an array of the result with the given strides."""
        plan.add_progression(
            self.axis, self.start, self.step, self.count, strides[self.dim] if self.dim >= 0 else 0
        )


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Arrays of indices, of one shape; their dimensions are the dimensions `dims` of the result."""

    axes: Shape
    indices: tuple[Indices, ...]
    dims: Shape

    @property
    def can_be_cut(self) -> bool:
        """Whether there is more than one place to select from."""
        return self.indices[0].size > 1

    def table_bytes(self, chunks: Shape) -> int:
        """Memory that the factor takes when it is made ready."""
        return _POINT_BYTES * self.indices[0].size

    def cut(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Factors that follow each other along a dimension, and the extent of each."""
        along = self.dims.index(dim)
        for first, n in _cuts(self.indices[0].shape[along], share, 1):
            part = (*(slice(None),) * along, slice(first, first + n))
            yield replace(self, indices=tuple(index[part] for index in self.indices)), n

    def add_to(self, plan: _Plan, strides: Shape) -> None:
        """Add the factor to the tables, for an array of the result with the given strides."""
        plan.add_points(self.axes, self.indices, tuple(strides[d] for d in self.dims))


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """True places of `mask`, an array of booleans or a part (`box`) of one of ours.

    It lies on the axes from `axis` on, where its first element has the index `origin`; `count` of
    its elements are true.
    """

    axis: int
    origin: Shape
    mask: NDArray[np.bool_] | Source
    box: tuple[slice, ...]
    count: int
    dim: int

    @property
    def axes(self) -> Shape:
        """The axes of the array."""
        return tuple(range(self.axis, self.axis + len(self.origin)))

    @property
    def dims(self) -> Shape:
        """The dimensions of the result."""
        return (self.dim,)

    @property
    def can_be_cut(self) -> bool:
        """Whether there is more than one place to select from."""
        return any(part.stop - part.start > 1 for part in self.box)

    def table_bytes(self, chunks: Shape) -> int:
        """Memory that the factor takes when it is made ready."""
        extents: list[int] = [part.stop - part.start for part in self.box]
        grid = [-(-n // c) for n, c in zip(extents, chunks[self.axis :], strict=False)]
        rows = math.prod(extents[:-1]) * grid[-1]
        return _TRUE_BYTES * self.count + _ROW_BYTES * rows + _PART_BYTES * math.prod(grid)

    def cut(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Factors that follow each other along a dimension, and the extent of each."""
        # In C order: along the first axis that there is.
        along = next((j for j, part in enumerate(self.box) if part.stop - part.start > 1), 0)
        before, part, behind = self.box[:along], self.box[along], self.box[along + 1 :]
        for first, n in _cuts(part.stop - part.start, share, chunks[self.axis + along]):
            start = part.start + first
            box = (*before, slice(start, start + n), *behind)
            origin = list(self.origin)
            origin[along] += first
            count = count_true(self.mask, box)
            yield replace(self, box=box, count=count, origin=tuple(origin)), count

    def part(self) -> NDArray[np.bool_]:
        """The elements of the mask."""
        if isinstance(self.mask, np.ndarray):
            return self.mask[self.box]
        return load(self.mask, self.box)

    def add_to(self, plan: _Plan, strides: Shape) -> None:
        """Add the factor to the tables, for an array of the result with the given strides."""
        plan.add_mask(self.axis, self.origin, self.part(), strides[self.dim])


Kind: TypeAlias = Literal["basic", "mask", "advanced"]
Factor: TypeAlias = Progression | Points | Mask


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What is selected of an array, and the shape of the result.

    Attributes
    ----------
    extents : tuple of int
        Shape of the array.
    shape : tuple of int
        Shape of the result, without the axes of a field.
    factors : tuple
        One or more for each axis of the array, in the order of their first axes.
    field : Field, optional
        What is selected of each element; None: all of it.
    kind : {"basic", "mask", "advanced"}
        What NumPy calls the index; "mask" is one of the array's shape and nothing else.
    """

    extents: Shape
    shape: Shape
    factors: tuple[Factor, ...]
    field: Field | None = None
    kind: Kind = "basic"

    @property
    def size(self) -> int:
        """Number of elements selected."""
        return math.prod(self.shape)

    @property
    def is_box(self) -> bool:
        """Whether every axis has an integer or a slice."""
        return all(isinstance(factor, Progression) for factor in self.factors)

    def table_bytes(self, chunks: Shape) -> int:
        """Memory that the factors take when they are made ready."""
        return sum(factor.table_bytes(chunks) for factor in self.factors)

    def cut(
        self, share: float, chunks: Shape, by_tables: bool
    ) -> Iterator[tuple[tuple[slice, ...], Query]]:
        """Queries that follow each other, and the part of the result that each is.

        Parameters
        ----------
        share : float
            How much of this one each shall be, in (0, 1); it may have to be more.
        chunks : tuple of int
            Of the array: cuts lie between chunks where that is possible.
        by_tables : bool
            Whether to cut the factor whose tables are largest, and not the first dimension of the
            result.

        Yields
        ------
        part : tuple of slice
        query : Query
            Nothing comes out where it cannot be cut.
        """
        number: int | None
        if by_tables:
            sizes = [factor.table_bytes(chunks) for factor in self.factors]
            number = sizes.index(max(sizes))
            if not self.factors[number].can_be_cut:
                return
            # The first one, so that of values for one element the last is written last.
            dims = self.factors[number].dims
            dim = next((d for d in dims if self.shape[d] > 1), dims[0])
        else:
            long = next((d for d, n in enumerate(self.shape) if n > 1), None)
            if long is None:
                return
            dim = long
            found = (i for i, factor in enumerate(self.factors) if dim in factor.dims)
            number = next(found, None)
        factors = list(self.factors)
        before, start = (slice(None),) * dim, 0
        pieces: Iterator[tuple[Factor | None, int]]
        if number is None:  # a dimension that repeats what is there
            pieces = ((None, n) for _, n in _cuts(self.shape[dim], share, 1))
        else:
            pieces = self.factors[number].cut(dim, share, chunks)
        for factor, extent in pieces:
            if number is not None and factor is not None:
                factors[number] = factor
            shape = (*self.shape[:dim], extent, *self.shape[dim + 1 :])
            yield (
                (*before, slice(start, start + extent)),
                replace(self, shape=shape, factors=tuple(factors)),
            )
            start += extent


def _cuts(extent: int, share: float, unit: int) -> Iterator[tuple[int, int]]:
    """Start and length of pieces of an extent, of the given share, in whole units if they can."""
    n = max(1, int(extent * share))
    if n > unit:
        n -= n % unit
    for start in range(0, extent, n):
        yield start, min(n, extent - start)


def count_true(mask: NDArray[np.bool_] | Source, box: tuple[slice, ...]) -> int:
    """Number of true elements in a box of a mask.

    Parameters
    ----------
    mask : ndarray of bool or Source
    box : tuple of slice
        With start and stop.

    Returns
    -------
    int
    """
    if isinstance(mask, np.ndarray):
        return int(np.count_nonzero(mask[box]))
    shape = tuple(part.stop - part.start for part in box)
    total = 0
    for tile in tiles(shape, mask.chunks, 1):
        inner = tuple(
            slice(part.start + t.start, part.start + t.stop)
            for part, t in zip(box, tile, strict=True)
        )
        total += int(np.count_nonzero(load(mask, inner)))
    return total


# -- NumPy's rules -------------------------------------------------------------------------------


def as_query(key: Any, shape: Shape, dtype: np.dtype[Any]) -> Query:
    """The query of an index of any kind but names of fields, by NumPy's rules.

    Parameters
    ----------
    key : index expression
    shape : tuple of int
        Of the array.
    dtype : dtype
        Of the array; for NumPy's errors.

    Returns
    -------
    Query

    Raises
    ------
    BoundsError, SelectionError
        IndexErrors, in NumPy's words.

    Examples
    --------
    >>> as_query(([0, 2], slice(None), 1), (3, 4, 5), np.dtype("f8")).shape
    (2, 4)
    >>> as_query((0, slice(None), [1, 2]), (3, 4, 5), np.dtype("f8")).shape
    (2, 4)
    """
    items = [_item(item) for item in (key if isinstance(key, tuple) else (key,))]
    missing = len(shape) - sum(map(_n_axes, items))
    ellipses = sum(item is ... for item in items)
    if missing < 0 or ellipses > 1 or any(item is NotImplemented for item in items):
        raise _refusal(key, shape, dtype)
    if not ellipses:
        items.append(...)
    parts = _Parts(shape)
    advanced = any(map(_is_array, items))
    dims: list[int] = []  # extents of the result's dimensions, but for those of the arrays
    place: int | None = None  # where the dimensions of the arrays go
    apart = False  # whether something stands between two of them
    for item in items:
        if advanced and (isinstance(item, int) or _is_array(item)):
            if place is None:
                place = len(dims)
            elif apart:
                place = 0
        else:
            apart = place is not None
        if item is None:
            dims.append(1)
        elif item is ...:
            for _ in range(missing):
                dims.append(parts.add_slice(slice(None), len(dims)))
        elif isinstance(item, slice):
            dims.append(parts.add_slice(item, len(dims)))
        elif isinstance(item, int):
            parts.add_integer(item)
        else:
            parts.add_array(item)
    # NumPy lets indices beyond the bounds pass where arrays without elements are joined with them,
    # and joins 62 arrays or a few more.
    is_doubtful = not parts.fit or len(items) > _MANY
    if is_doubtful and (error := _numpys_error(key, shape, dtype)) is not None:
        raise error
    place = place or 0
    joined = parts.join(place)
    if joined is None or len(dims) + len(joined) > _MAX_NDIM:
        raise _refusal(key, shape, dtype)
    kind: Kind = "advanced" if advanced else "basic"
    if advanced and missing == 0 and not ellipses and len(items) == 2 and parts.is_masked:
        kind = "mask"
    return parts.query(place, joined, (*dims[:place], *joined, *dims[place:]), kind)


class _Parts:
    """The factors of an index, one axis after the other.

    Arrays are gathered first, and joined to one factor: that is what NumPy's rules come to.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.axis = 0
        self.fit = True
        self.progressions: list[Progression] = []
        self.factors: list[Factor] = []
        self._arrays: list[tuple[int, _Array]] = []

    def add_slice(self, item: slice, dim: int) -> int:
        """Take an axis by a slice; returns its extent in the result."""
        indices = range(*item.indices(self.shape[self.axis]))
        count = len(indices)
        # The step of a lone index may be larger than any number of the core.
        start, step = (indices.start, indices.step) if count > 1 else (max(indices.start, 0), 1)
        self.progressions.append(Progression(self.axis, start, step, count, dim))
        self.axis += 1
        return count

    def add_integer(self, item: int) -> None:
        """Take an axis by an integer."""
        n = self.shape[self.axis]
        self.fit = self.fit and -n <= item < n
        self.progressions.append(Progression(self.axis, item + n if item < 0 else item, 1, 1, -1))
        self.axis += 1

    def add_array(self, item: _Array) -> None:
        """Take an axis by an array of indices, or as many as a mask has."""
        axes = self.shape[self.axis : self.axis + _n_axes(item)]
        if item.dtype.kind == "b":
            self.fit = self.fit and tuple(item.shape) == axes
        else:
            self.fit = self.fit and _in_bounds(item, axes[0])
        self._arrays.append((self.axis, item))
        self.axis += len(axes)

    def join(self, place: int) -> Shape | None:
        """Join the arrays to a factor; returns their dimensions, None where they do not fit."""
        if self.is_masked:
            axis, mask = self._arrays[0]
            if mask.ndim > 0:
                factor = _mask(axis, mask, place)
                self.factors.append(factor)
                return (factor.count,)
        listed: list[tuple[int, Indices]] = []
        shapes: list[Shape] = []
        for axis, array in self._arrays:
            if array.ndim == 0:
                shapes.append((int(array),))
            elif array.dtype.kind == "b":
                listed += enumerate(np.nonzero(np.asarray(array)), axis)
            else:
                listed.append((axis, array))
        shapes += (index.shape for _, index in listed)
        try:
            joined = np.broadcast_shapes(*shapes)
        except (ValueError, RuntimeError):  # the latter beyond 32 dimensions
            return None
        if 0 not in joined:
            self.factors += _independent(listed, joined, place)
        return joined

    @property
    def is_masked(self) -> bool:
        """Whether a mask is the only array."""
        return len(self._arrays) == 1 and self._arrays[0][1].dtype.kind == "b"

    def query(self, place: int, joined: Shape, shape: Shape, kind: Kind) -> Query:
        """The query, with the dimensions of the arrays put in at `place`."""
        for part in self.progressions:
            dim = part.dim + len(joined) if part.dim >= place else part.dim
            self.factors.append(replace(part, dim=dim))
        return Query(self.shape, shape, in_order(self.factors), kind=kind)


def _independent(listed: list[tuple[int, Indices]], joined: Shape, place: int) -> Iterator[Points]:
    """Arrays that are broadcast to a shape, apart where they vary along different dimensions.

    What ``np.ix_`` makes is one list for each axis then, and not the points of the product.
    """
    groups: list[tuple[set[int], list[tuple[int, Indices]]]] = []
    for axis, index in listed:
        first = len(joined) - index.ndim
        along = {first + d for d, n in enumerate(index.shape) if n > 1}
        members = [(axis, np.broadcast_to(index, joined))]
        for group in [group for group in groups if group[0] & along]:
            groups.remove(group)
            along |= group[0]
            members += group[1]
        groups.append((along, members))
    for along, members in groups:
        members.sort(key=lambda member: member[0])
        part = (*(slice(None) if d in along else 0 for d in range(len(joined))), ...)
        yield Points(
            tuple(axis for axis, _ in members),
            tuple(index[part] for _, index in members),
            tuple(place + d for d in sorted(along)),
        )


def in_order(factors: Iterable[Factor]) -> tuple[Factor, ...]:
    """Factors in the order of their first axes, which is that of the loops over them.

    Parameters
    ----------
    factors : iterable of factor

    Returns
    -------
    tuple of factor
    """
    return tuple(sorted(factors, key=lambda factor: factor.axes[0]))


def _item(item: Any) -> Any:
    """One entry between the brackets, as one of the kinds that a query is made of.

    An int, a slice, None, Ellipsis, an array of intp, or one of booleans; NotImplemented for what
    is no index.
    """
    if item is None or item is ... or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if is_source(item):
        if item.dtype.kind == "b" and item.ndim > 0:
            return item
        item = np.asarray(item)
    if not isinstance(item, np.ndarray):
        if not isinstance(item, (list, tuple)):
            try:
                return operator.index(item)
            except TypeError:
                pass
        try:
            item = np.asarray(item)
        except ValueError:
            return NotImplemented
        if item.size == 0:
            item = item.astype(np.intp)
    if item.dtype.kind == "b":
        return item
    if item.dtype.kind not in "iu":
        return NotImplemented
    return int(item) if item.ndim == 0 else item.astype(np.intp, copy=False)


def is_source(item: Any) -> bool:
    """Whether an object is an array of ours, which is read box by box.

    Parameters
    ----------
    item : object

    Returns
    -------
    bool
    """
    return hasattr(type(item), "_peek")


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray) or is_source(item)


def _n_axes(item: Any) -> int:
    """How many axes of the array an entry takes, but for Ellipsis."""
    if item is None or item is ...:
        return 0
    if _is_array(item) and item.dtype.kind == "b":
        return int(item.ndim)
    return 1


def _in_bounds(indices: Indices, extent: int) -> bool:
    return not indices.size or bool(-extent <= indices.min() and indices.max() < extent)


def _mask(axis: int, mask: _Array, dim: int) -> Mask:
    box = tuple(slice(0, n) for n in mask.shape)
    return Mask(axis, (0,) * mask.ndim, mask, box, count_true(mask, box), dim)


def _numpys_error(key: Any, shape: Shape, dtype: np.dtype[Any]) -> Exception | None:
    """What NumPy raises for an index, in the family; None where it raises nothing."""
    empty = np.broadcast_to(np.empty((), dtype), shape)
    try:
        if isinstance(key, tuple):
            empty[tuple(map(_stand_in, key))]
        else:
            empty[_stand_in(key)]
    except IndexError as error:
        text = str(error)
        beyond = "out of bounds" in text or text.startswith(("too many indices", "number of dim"))
        return BoundsError(text) if beyond else SelectionError(text)
    except ValueError as error:  # lists of lists of different lengths
        return ArgumentError(str(error))
    return None


def _refusal(key: Any, shape: Shape, dtype: np.dtype[Any]) -> Exception:
    """The error for an index that is not possible."""
    return _numpys_error(key, shape, dtype) or SelectionError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
        "boolean arrays are valid indices"
    )


def _stand_in(item: Any) -> Any:
    """In place of a mask of ours, which need not be read to be refused, one of its shape."""
    if is_source(item) and item.dtype.kind == "b":
        return np.broadcast_to(np.False_, item.shape)
    return item


# -- the rules of zarr ---------------------------------------------------------------------------


def orthogonal_query(key: Any, shape: Shape) -> Query:
    """The query of an index whose arrays act on their axes one by one.

    Parameters
    ----------
    key : index expression
        Integers, slices, Ellipsis, and of one axis: arrays of indices, masks.
    shape : tuple of int
        Of the array.

    Returns
    -------
    Query

    Raises
    ------
    BoundsError, SelectionError
        IndexErrors.

    Examples
    --------
    >>> orthogonal_query(([0, 2], slice(None), [1, 2, 3]), (3, 4, 5)).shape
    (2, 4, 3)
    """
    items = [_item(item) for item in (key if isinstance(key, tuple) else (key,))]
    if sum(item is ... for item in items) > 1:
        raise SelectionError("an index can only have a single ellipsis ('...')")
    missing = len(shape) - sum(item is not ... for item in items)
    if missing < 0:
        raise BoundsError(
            f"too many indices for array: array is {len(shape)}-dimensional, but "
            f"{len(shape) - missing} were indexed"
        )
    if not any(item is ... for item in items):
        items.append(...)
    at = next(i for i, item in enumerate(items) if item is ...)
    items[at : at + 1] = [slice(None)] * missing
    parts = _Parts(shape)
    dims: list[int] = []
    factors: list[Factor] = []
    for axis, item in enumerate(items):
        if isinstance(item, slice):
            dims.append(parts.add_slice(item, len(dims)))
            continue
        if isinstance(item, int):
            _check_bounds(np.asarray([item]), axis, shape[axis])
            parts.add_integer(item)
            continue
        if not _is_array(item) or item.ndim != 1:
            raise SelectionError(
                f"{key!r} is no orthogonal index: each axis takes an integer, a slice, or an array "
                "of integers or booleans of one axis"
            )
        parts.axis += 1
        if item.dtype.kind == "b":
            if item.shape != (shape[axis],):
                raise SelectionError(
                    f"boolean index did not match indexed array along axis {axis}; size of axis is "
                    f"{shape[axis]} but size of corresponding boolean axis is {item.shape[0]}"
                )
            mask = _mask(axis, item, len(dims))
            factors.append(mask)
            dims.append(mask.count)
        else:
            _check_bounds(item, axis, shape[axis])
            factors.append(Points((axis,), (item,), (len(dims),)))
            dims.append(item.size)
    return Query(shape, tuple(dims), in_order([*factors, *parts.progressions]), kind="advanced")


def pointwise_query(key: Any, shape: Shape) -> Query:
    """The query of an index that selects points: by their coordinates, or by a mask.

    Parameters
    ----------
    key : index expression
        As for `coordinate_query` or `mask_query`.
    shape : tuple of int
        Of the array.

    Returns
    -------
    Query

    Raises
    ------
    BoundsError, SelectionError
        IndexErrors.

    Examples
    --------
    >>> pointwise_query(([0, 2], [1, 3]), (3, 4)).shape
    (2,)
    """
    items = key if isinstance(key, tuple) else (key,)
    if len(items) == 1:
        item = _item(items[0])
        if _is_array(item) and item.dtype.kind == "b":
            return mask_query(item, shape)
    return coordinate_query(key, shape)


def mask_query(mask: Any, shape: Shape) -> Query:
    """The query of the true places of a mask.

    Parameters
    ----------
    mask : array_like of bool
        Of the array's shape.
    shape : tuple of int

    Returns
    -------
    Query

    Raises
    ------
    SelectionError
        An IndexError.
    """
    if isinstance(mask, tuple) and len(mask) == 1:
        mask = mask[0]
    item = _item(mask)
    if not _is_array(item) or item.dtype.kind != "b" or item.shape != shape:
        raise SelectionError(f"{mask!r} is no mask of the array's shape, {shape}")
    if item.ndim == 0:
        return Query(shape, (int(item),), (), kind="mask")
    factor = _mask(0, item, 0)
    return Query(shape, (factor.count,), (factor,), kind="mask")


def coordinate_query(key: Any, shape: Shape) -> Query:
    """The query of points, by their coordinates.

    Parameters
    ----------
    key : tuple
        An integer or an array of indices for each axis, all of which are broadcast together.
    shape : tuple of int
        Of the array.

    Returns
    -------
    Query

    Raises
    ------
    BoundsError, SelectionError
        IndexErrors.
    """
    items = [_item(item) for item in (key if isinstance(key, tuple) else (key,))]
    points = [np.asarray(item) for item in items if isinstance(item, (int, np.ndarray))]
    if len(points) != len(items) or any(point.dtype.kind == "b" for point in points):
        raise SelectionError(
            f"{key!r} are no coordinates: each axis takes an integer or an array of integers"
        )
    if len(points) != len(shape):
        raise SelectionError(
            f"points of an array of {len(shape)} axes have as many coordinates, not {len(points)}"
        )
    for axis, point in enumerate(points):
        _check_bounds(point, axis, shape[axis])
    try:
        joined = np.broadcast_shapes(*(point.shape for point in points))
    except ValueError:
        text = " ".join(str(point.shape).replace(" ", "") for point in points)
        raise SelectionError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {text} "
        ) from None
    indices = tuple(np.broadcast_to(point.astype(np.intp), joined) for point in points)
    axes, dims = tuple(range(len(shape))), tuple(range(len(joined)))
    factors = (Points(axes, indices, dims),) if axes and 0 not in joined else ()
    return Query(shape, joined, factors, kind="advanced")


def block_query(key: Any, shape: Shape, chunks: Shape) -> Query:
    """The query of an index that counts chunks.

    Parameters
    ----------
    key : index expression
        Integers, slices of step 1, and Ellipsis, in chunks.
    shape, chunks : tuple of int
        Of the array.

    Returns
    -------
    Query
        Integers leave their axes: those of one chunk.

    Raises
    ------
    BoundsError, SelectionError
        IndexErrors.

    Examples
    --------
    >>> block_query((1, slice(0, 2)), (10, 10), (4, 3)).shape
    (4, 6)
    """
    grid = grid_of(shape, chunks)
    whole = orthogonal_query(key, grid)
    parts = _Parts(shape)
    for n, c, part in zip(shape, chunks, whole.factors, strict=True):
        if not isinstance(part, Progression) or (part.step != 1 and part.count > 1):
            raise SelectionError(
                f"{key!r} selects no blocks: each axis takes an integer or a slice of step 1, in "
                "chunks"
            )
        parts.add_slice(slice(part.start * c, min(n, (part.start + part.count) * c)), part.axis)
    return Query(shape, tuple(p.count for p in parts.progressions), tuple(parts.progressions))


def _check_bounds(indices: Indices, axis: int, extent: int) -> None:
    """Raise where an index lies outside the bounds, as NumPy does."""
    if not _in_bounds(indices, extent):
        wrong = indices[(indices < -extent) | (indices >= extent)].flat[0]
        raise BoundsError(f"index {wrong} is out of bounds for axis {axis} with size {extent}")
