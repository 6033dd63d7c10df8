"""NumPy's rules for the index between brackets: basic, advanced, and both mixed.

Integers and slices act on each axis independently.  Arrays of indices and masks broadcast together
to one list of points.  Its dimensions replace the arrays if these are neighbours; otherwise they
come first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from extarray._core._lists import in_bounds
from extarray.selection.entries import is_array, n_axes, numpys_error, parse, refusal
from extarray.selection.factors import Points, Progression, in_order
from extarray.selection.masks import of_mask
from extarray.selection.query import Kind, Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray

    from extarray.selection.factors import Factor

    Shape: TypeAlias = tuple[int, ...]
    Indices: TypeAlias = NDArray[np.intp]
    # Indices or booleans; masks may be arrays of ours.
    _Array: TypeAlias = Any

__all__ = ["as_query"]

_MAX_NDIM = 64  # NumPy's limit
_MANY = 60  # from here on, NumPy may refuse to join so many arrays


def as_query(key: Any, shape: Shape, dtype: DTypeLike) -> Query:
    """Make the query of any index but names of fields, by NumPy's rules.

    Errors are NumPy's, in our family; `dtype`, that of the array, only affects them.

    Examples
    --------
    >>> as_query(([0, 2], slice(None), 1), (3, 4, 5), np.dtype("f8")).shape
    (2, 4)
    >>> as_query((0, slice(None), [1, 2]), (3, 4, 5), np.dtype("f8")).shape
    (2, 4)
    """
    items = parse(key)
    missing, ellipses, advanced = len(shape), 0, False
    for item in items:
        if isinstance(item, (int, slice)):
            missing -= 1
        elif item is ...:
            ellipses += 1
        elif item is NotImplemented:
            raise refusal(key, shape, dtype)
        elif item is not None:
            advanced = True
            missing -= n_axes(item)
    if missing < 0 or ellipses > 1:
        raise refusal(key, shape, dtype)
    if not ellipses:
        items.append(...)
    parts = _Parts(shape)
    dims: list[int] = []  # extents of the result's dimensions, without those of the arrays
    place: int | None = None  # where the dimensions of the arrays go
    apart = False  # whether something stands between two arrays
    for item in items:
        if advanced and (isinstance(item, int) or is_array(item)):
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
    # NumPy accepts out-of-bounds indices if they are joined with empty arrays, and its limit on
    # joined arrays is 62 or a few more: ask NumPy in these cases.
    is_doubtful = not parts.fit or len(items) > _MANY
    if is_doubtful and (error := numpys_error(key, shape, dtype)) is not None:
        raise error
    place = place or 0
    joined = parts.join(place)
    if joined is None or len(dims) + len(joined) > _MAX_NDIM:
        raise refusal(key, shape, dtype)
    kind: Kind = "advanced" if advanced else "basic"
    if advanced and missing == 0 and not ellipses and len(items) == 2 and parts.is_masked:
        kind = "mask"
    return parts.query(place, joined, (*dims[:place], *joined, *dims[place:]), kind)


class _Parts:
    """The factors of an index, axis by axis; arrays are gathered, then joined into factors."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.axis = 0
        self.fit = True
        self.progressions: list[Progression] = []
        self.factors: list[Factor] = []
        self._arrays: list[tuple[int, _Array]] = []

    def add_slice(self, item: slice, dim: int) -> int:
        """Select an axis by a slice; return its extent in the result."""
        part = Progression.of_slice(self.axis, item, self.shape[self.axis], dim)
        self.progressions.append(part)
        self.axis += 1
        return part.count

    def add_integer(self, item: int) -> None:
        """Select an axis by an integer."""
        n = self.shape[self.axis]
        self.fit = self.fit and -n <= item < n
        self.progressions.append(Progression.of_integer(self.axis, item, n))
        self.axis += 1

    def add_array(self, item: _Array) -> None:
        """Select an axis by an array of indices, or as many axes as a mask has."""
        axes = self.shape[self.axis : self.axis + n_axes(item)]
        if item.dtype.kind == "b":
            self.fit = self.fit and tuple(item.shape) == axes
        else:
            self.fit = self.fit and in_bounds(item, axes[0])
        self._arrays.append((self.axis, item))
        self.axis += len(axes)

    def join(self, place: int) -> Shape | None:
        """Join the arrays to factors; return their dimensions, or None if they do not fit."""
        if self.is_masked:
            axis, mask = self._arrays[0]
            if mask.ndim > 0:
                factor = of_mask(axis, mask, place)
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
        if len(shapes) == 1:
            joined = shapes[0]
        else:
            try:
                joined = np.broadcast_shapes(*shapes)
            except (ValueError, RuntimeError):  # RuntimeError: more than 32 dimensions
                return None
        if 0 not in joined:
            self.factors += _independent(listed, joined, place)
        return joined

    @property
    def is_masked(self) -> bool:
        """True if a mask is the only array."""
        return len(self._arrays) == 1 and self._arrays[0][1].dtype.kind == "b"

    def query(self, place: int, joined: Shape, shape: Shape, kind: Kind) -> Query:
        """Make the query, with the dimensions of the arrays inserted at `place`."""
        for part in self.progressions:
            if part.dim >= place:
                part.dim += len(joined)
        self.factors += self.progressions
        return Query(self.shape, shape, in_order(self.factors), kind=kind)


def _independent(listed: list[tuple[int, Indices]], joined: Shape, place: int) -> Iterator[Points]:
    """Separate arrays, which broadcast to a shape, that vary along different dimensions.

    So ``np.ix_`` yields one list for each axis, instead of all points of the product.
    """
    if listed and 1 not in joined and all(index.shape == joined for _, index in listed):
        # One list, or several of one length, as most programs give them: they all vary together.
        axes, indices = zip(*listed, strict=True)
        yield Points(axes, indices, tuple(range(place, place + len(joined))))
        return
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
