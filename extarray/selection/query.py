"""A query: the outer product of factors, and the shape of the result.

The module reads no elements, except to count masks that are arrays of ours, box by box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from extarray._core._state import Frame
from extarray.selection.factors import Factor, Progression, split_extent
from extarray.selection.masks import Mask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Shape: TypeAlias = tuple[int, ...]

__all__ = ["Bounds", "Field", "Kind", "Query"]

Kind: TypeAlias = Literal["basic", "mask", "advanced"]


class Bounds(NamedTuple):
    """The bounds of a view, whose indices do not shift.

    Attributes
    ----------
    shape : tuple of int
    origin : None
    """

    shape: Shape
    origin: None = None


class Field(NamedTuple):
    """A field of a structured dtype, the part of each element that moves.

    Attributes
    ----------
    dtype : dtype
        Dtype of the field.
    offset : int
        Byte offset in an element.
    """

    dtype: np.dtype[Any]
    offset: int


@dataclass(slots=True, eq=False)
class Query:
    """A selection of an array, and the shape of the result.

    Attributes
    ----------
    extents : tuple of int
        Shape of the array.
    shape : tuple of int
        Shape of the result, without the axes of a field.
    factors : tuple
        One or more for each axis of the array, in the order of their first axes.
    field : Field, optional
        Selected part of each element; None: all of it.
    kind : {"basic", "mask", "advanced"}
        NumPy's name for the index; "mask" is one mask of the array's shape alone.
    origin : tuple of int, optional
        Origin of the array when it had these extents: indices may have shifted since.  None: they
        have not.
    frame : Frame, optional
        State of the array at that time.  None: the query takes the state when it runs.
    """

    extents: Shape
    shape: Shape
    factors: tuple[Factor, ...]
    field: Field | None = None
    kind: Kind = "basic"
    origin: Shape | None = None
    frame: Frame | None = None

    def on(self, frame: Frame | Bounds) -> Query:
        """Bind the query to the state of an array or view when its indices were given.

        The query keeps an array's frame as it is, so run it at once.
        """
        whole = frame if isinstance(frame, Frame) else None
        # Several times faster than `replace`.
        return Query(
            self.extents, self.shape, self.factors, self.field, self.kind, frame.origin, whole
        )

    def ready(self) -> Query:
        """Return the query with copies of its masks, as the core needs it."""
        for i, factor in enumerate(self.factors):
            if isinstance(factor, Mask) and (ready := factor.ready()) is not factor:
                factors = (*self.factors[:i], ready, *self.factors[i + 1 :])
                return replace(self, factors=factors).ready()
        return self

    @property
    def size(self) -> int:
        """Number of elements selected."""
        return math.prod(self.shape)

    @property
    def is_box(self) -> bool:
        """True if every axis has an integer or a slice."""
        return all(isinstance(factor, Progression) for factor in self.factors)

    def table_bytes(self, chunks: Shape) -> int:
        """Return the memory that the factors take once they are ready."""
        total = 0
        for factor in self.factors:  # a generator would take longer than what it sums
            total += factor.table_bytes(chunks)
        return total

    def share(self, chunks: Shape) -> float:
        """Return which share of the query the core can list at once; 1 or more: all."""
        least = math.inf
        for factor in self.factors:
            least = min(least, factor.share(chunks))
        return least

    def split(
        self, share: float, chunks: Shape, by_tables: bool
    ) -> Iterator[tuple[tuple[slice, ...], Query]]:
        """Yield consecutive queries, each with the part of the result that it selects.

        Each is a share in (0, 1) of this query, or the next larger possible.  Where possible, parts
        meet between chunks.  The cut goes through the factor with the largest tables (`by_tables`),
        else the first dimension of the result.  A query that cannot be split yields nothing.
        """
        number: int | None
        if by_tables:
            sizes = [factor.table_bytes(chunks) for factor in self.factors]
            number = sizes.index(max(sizes))
            if not self.factors[number].can_be_split:
                return
            # The first one, so that of several values for one element the last is written last.
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
        if number is None:  # a dimension that repeats elements
            pieces = ((None, n) for _, n in split_extent(self.shape[dim], share, 1))
        else:
            pieces = self.factors[number].split(dim, share, chunks)
        for factor, extent in pieces:
            if number is not None and factor is not None:
                factors[number] = factor
            shape = (*self.shape[:dim], extent, *self.shape[dim + 1 :])
            yield (
                (*before, slice(start, start + extent)),
                replace(self, shape=shape, factors=tuple(factors)),
            )
            start += extent

    def fill_outside(
        self, inner: Sequence[tuple[int, int]], values: NDArray[Any], fill: NDArray[Any]
    ) -> None:
        """Give a value, one element of the array, to selected elements outside a box.

        `inner` has the low and high index of the box on each axis of the array.  Dimensions of an
        element may follow those of the result.
        """
        value = fill
        if self.field is not None:
            value = np.ndarray((), self.field.dtype, fill.tobytes(), self.field.offset)
        behind = values.ndim - len(self.shape)
        for factor in self.factors:
            outside = factor.outside(inner, self.extents)
            if not outside.any():
                continue
            # Put the factor's dimensions in the result's order, with 1 for all others.
            turned = outside.transpose(sorted(range(outside.ndim), key=factor.dims.__getitem__))
            shape = [1] * len(self.shape)
            for dim, n in zip(sorted(factor.dims), turned.shape, strict=True):
                shape[dim] = n
            where = np.broadcast_to(turned.reshape(*shape, *(1,) * behind), values.shape)
            values[where] = np.broadcast_to(value, values.shape)[where]
