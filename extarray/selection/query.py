"""A query: the outer product of factors, and the shape of what they select.

Nothing is read or written here but masks that are arrays of ours, which are counted box by box.
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
    """The bounds of a view, in which indices do not shift.

    Attributes
    ----------
    shape : tuple of int
    origin : None
    """

    shape: Shape
    origin: None = None


class Field(NamedTuple):
    """A field of a structured dtype: what is moved of each element.

    Attributes
    ----------
    dtype : dtype
        Of the field.
    offset : int
        Bytes of an element before it.
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
        What is selected of each element; None: all of it.
    kind : {"basic", "mask", "advanced"}
        What NumPy calls the index; "mask" is one of the array's shape and nothing else.
    origin : tuple of int, optional
        That of the array when it had these extents: its indices may have shifted since.  None: they
        have not.
    frame : Frame, optional
        The array as it was then.  None: a query on what the array is when it is run.
    """

    extents: Shape
    shape: Shape
    factors: tuple[Factor, ...]
    field: Field | None = None
    kind: Kind = "basic"
    origin: Shape | None = None
    frame: Frame | None = None

    def on(self, frame: Frame | Bounds) -> Query:
        """Return the query as one on what an array, or a view, was when its indices were given.

        The query keeps the frame of an array as it is: it is to be run at once.
        """
        whole = frame if isinstance(frame, Frame) else None
        # Several times faster than `replace`.
        return Query(
            self.extents, self.shape, self.factors, self.field, self.kind, frame.origin, whole
        )

    def ready(self) -> Query:
        """Return the query with copies of its masks: all that the core needs to carry it out."""
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
        """True where every axis has an integer or a slice."""
        return all(isinstance(factor, Progression) for factor in self.factors)

    def table_bytes(self, chunks: Shape) -> int:
        """Return the memory that the factors take when they are made ready."""
        return sum(factor.table_bytes(chunks) for factor in self.factors)

    def share(self, chunks: Shape) -> float:
        """Return how much of the query the core can list at once; 1 or more: all of it."""
        return min((factor.share(chunks) for factor in self.factors), default=math.inf)

    def split(
        self, share: float, chunks: Shape, by_tables: bool
    ) -> Iterator[tuple[tuple[slice, ...], Query]]:
        """Yield queries that follow each other, each with the part of the result that it selects.

        Each is a share of this one, in (0, 1); it may have to be more.  The parts meet between
        chunks where that is possible: in the factor whose tables are largest (`by_tables`), else
        in the first dimension of the result.  Nothing comes out where the query cannot be split.
        """
        number: int | None
        if by_tables:
            sizes = [factor.table_bytes(chunks) for factor in self.factors]
            number = sizes.index(max(sizes))
            if not self.factors[number].can_be_split:
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
        """Give a value, one element of the array, to what is selected outside a box.

        `inner` has the low and high index of the box on each axis of the array.  The result may
        have dimensions of one element behind its own.
        """
        value = fill
        if self.field is not None:
            value = np.ndarray((), self.field.dtype, fill.tobytes(), self.field.offset)
        behind = values.ndim - len(self.shape)
        for factor in self.factors:
            outside = factor.outside(inner, self.extents)
            if not outside.any():
                continue
            # The dimensions of a factor, in the order of the result, and 1 for all others.
            turned = outside.transpose(sorted(range(outside.ndim), key=factor.dims.__getitem__))
            shape = [1] * len(self.shape)
            for dim, n in zip(sorted(factor.dims), turned.shape, strict=True):
                shape[dim] = n
            where = np.broadcast_to(turned.reshape(*shape, *(1,) * behind), values.shape)
            values[where] = np.broadcast_to(value, values.shape)[where]
