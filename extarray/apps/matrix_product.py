"""Products of matrices larger than memory, whose factors grow."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import extarray as xa
from extarray.apps.bands import communicator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.mpi import GlobalArray, GlobalSection, ParallelArray, Request

__all__ = ["multiply"]

_DONE = "product of"


def multiply(product: xa.ExtArray, left: xa.ExtArray, right: xa.ExtArray) -> None:
    """Bring a product up to date with its factors: ``product = left @ right``.

    What was computed by an earlier call is kept where the factors have grown at their ends since:
    new rows of `left` are new rows of the product, new columns of `right` new columns, and along
    the axis of the sum the new terms are added.

    Parameters
    ----------
    product : ExtArray
        Of two axes and any shape, open for writing.  It grows to the shape of the product.  Its
        attribute ``"product of"`` tells how much of the factors is in it.
    left, right : ExtArray
        Matrices of shapes (m, k) and (k, n).  What is in them is not changed between two calls.

    Raises
    ------
    ShapeError
        The factors have no product.

    Notes
    -----
    If all three were opened with the same ``comm=``, the call is collective.  The product is then
    made tile by tile in a `GlobalArray`: each rank reads its zones of the next panels from the
    files while all of them multiply the ones before, and `GlobalArray.matmul` fetches blocks of
    other ranks one-sided while it multiplies (SRUMMA).  Each rank uses about
    ``config.max_memory``.

    A call that ends by an error leaves elements in any state; the next one computes all of them.

    Examples
    --------
    >>> import extarray as xa
    >>> left, right = xa.ones((2, 3)), xa.ones((3, 4))
    >>> product = xa.zeros((0, 0))
    >>> multiply(product, left, right)
    >>> left.extend(axis=0, by=1)
    >>> multiply(product, left, right)
    >>> product[:, 0]
    array([3., 3., 3.])
    """
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise xa.ShapeError(f"shapes {left.shape} and {right.shape} have no product")
    (m, k), n = left.shape, right.shape[1]
    done = tuple(product.attrs.get(_DONE, (0, 0, 0)))
    if any(old > new for old, new in zip(done, (m, k, n), strict=True)):
        done = (0, 0, 0)
    if done == (m, k, n):
        return
    rows, inner, columns = done
    product.attrs[_DONE] = [0, 0, 0]  # until all is done
    product.resize((m, n))
    add = _add if communicator(product) is None else _add_together
    for part in (
        (slice(0, rows), slice(inner, k), slice(0, columns)),
        (slice(rows, m), slice(0, k), slice(0, n)),
        (slice(0, rows), slice(0, k), slice(columns, n)),
    ):
        if all(some.start < some.stop for some in part):
            add(product, left, right, *part)
    product.attrs[_DONE] = [m, k, n]


def _add(product: Any, left: Any, right: Any, rows: slice, inner: slice, columns: slice) -> None:
    """Add terms of the sum to a part of the product, whose first terms replace what was there."""
    factors = left.lazy[rows, inner], right.lazy[inner, columns]
    if inner.start == 0:
        np.matmul(*factors, out=product.lazy[rows, columns])
        return
    some = max(1, xa.config.max_memory // (2 * right.dtype.itemsize * _extent(columns)))
    for band in _cut(rows, some):
        product[band, columns] += np.matmul(left.lazy[band, inner], factors[1])


def _add_together(
    product: Any, left: Any, right: Any, rows: slice, inner: slice, columns: slice
) -> None:
    """Do the same by all ranks, tile by tile; collective."""
    from extarray.mpi import GlobalArray

    # A tile and four panels, each a quarter of it, are in the memory of all ranks.
    elements = xa.config.max_memory * product.comm.size // (2 * product.dtype.itemsize)
    side = max(1, math.isqrt(elements))
    height, width = min(side, _extent(rows)), min(side, _extent(columns))
    depth = min(max(1, side // 4), _extent(inner))
    steps = list(_cut(inner, depth))
    panels = [(_Panel(left, (height, depth)), _Panel(right, (depth, width))) for _ in range(2)]
    with GlobalArray.create((height, width), product.dtype, product.comm) as total:
        for tile in itertools.product(_cut(rows, side), _cut(columns, side)):
            here, there = _own(total, tile)
            total.access()[here] = product[there] if inner.start else 0
            section = total.section(tuple(slice(0, _extent(some)) for some in tile))
            _fetch(panels[0], tile, steps[0])
            for number in range(len(steps)):
                a, b = (panel.ready() for panel in panels[number % 2])
                if number + 1 < len(steps):
                    _fetch(panels[(number + 1) % 2], tile, steps[number + 1])
                section.matmul(a, b, beta=1)
            product.write(there, total.access()[here])
    for panel in itertools.chain(*panels):
        panel.array.destroy()


class _Panel:
    """A part of a factor in the memory of all ranks, each of which reads its own zone of it."""

    def __init__(self, factor: ParallelArray, shape: tuple[int, int]) -> None:
        from extarray.mpi import GlobalArray

        self.factor = factor
        self.array = GlobalArray.create(shape, factor.dtype, factor.comm)
        self.request: Request

    def fetch(self, box: tuple[slice, slice]) -> None:
        """Begin to read a part of the factor."""
        self.box = box
        self.here, there = _own(self.array, box)
        self.request = self.factor.iread(there)

    def ready(self) -> GlobalSection:
        """Wait until all ranks have it; collective."""
        self.array.access()[self.here] = self.request.wait()
        self.array.sync()
        return self.array.section(tuple(slice(0, _extent(some)) for some in self.box))


def _fetch(panels: tuple[_Panel, _Panel], tile: tuple[slice, slice], step: slice) -> None:
    panels[0].fetch((tile[0], step))
    panels[1].fetch((step, tile[1]))


def _own(array: GlobalArray, box: tuple[slice, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return this rank's part of a box that lies at the origin of a global array.

    First its places in `access`, then in the files.
    """
    here, there = [], []
    for zone, some in zip(array.distribution(), box, strict=True):
        start, stop = (min(end, _extent(some)) for end in (zone.start, zone.stop))
        here.append(slice(0, stop - start))
        there.append(slice(some.start + start, some.start + stop))
    return tuple(here), tuple(there)


def _extent(some: slice) -> int:
    return int(some.stop - some.start)


def _cut(some: slice, step: int) -> Iterator[slice]:
    """Cut indices into slices of at most `step`."""
    for start in range(some.start, some.stop, step):
        yield slice(start, min(start + step, some.stop))
