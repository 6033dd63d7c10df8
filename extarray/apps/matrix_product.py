"""Multiply matrices larger than memory, whose factors grow."""

from __future__ import annotations

import hashlib
import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

import extarray as xa
from extarray.apps.bands import communicator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from extarray.mpi import GlobalArray, GlobalSection, ParallelArray, Request

__all__ = ["multiply"]

_DONE = "product of"

#: Side of the square tiles of a factor that are digested one by one: 2 MiB of float64.
_TILE = 512


def multiply(product: xa.ExtArray, left: xa.ExtArray, right: xa.ExtArray) -> None:
    """Bring a product up to date with its factors: ``product = left @ right``.

    Results of an earlier call are kept if the factors have only grown at their ends since: new rows
    of `left` are new rows of the product, new columns of `right` new columns, and along the summed
    axis new terms are added.  If the factors have changed in another way, everything is computed
    again.

    Parameters
    ----------
    product : ExtArray
        Of two axes and any shape, open for writing.  It grows to the shape of the product.  Its
        attribute ``"product of"`` records the extents of the factors in it, and their digests.
    left, right : ExtArray
        Matrices of shapes (m, k) and (k, n).

    Raises
    ------
    ShapeError
        The factors have no product.
    ArgumentError
        The product is one of its factors.

    Notes
    -----
    Each call reads the factors once, for the digests: only they reveal every changed element and
    growth at the start.  A product that was resized or has grown at the start is computed again,
    too.  Elements that others have changed in the product stay.

    If all three were opened with the same ``comm=``, the call is collective.  It makes the product
    tile by tile in a `GlobalArray`: each rank reads its zones of the next panels from the files
    while all of them multiply the ones before, and `GlobalArray.matmul` fetches blocks of other
    ranks one-sided while it multiplies (SRUMMA).  Each rank uses about ``config.max_memory``.

    A call that raises leaves elements in any state; the next one computes all of them.

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
        raise xa.ShapeError(f"shapes {left.shape} and {right.shape} cannot be multiplied")
    if product is left or product is right:
        raise xa.ArgumentError("the product cannot be written to one of its factors")
    (m, k), n = left.shape, right.shape[1]
    rows, inner, columns, *made_of = _done(product, m, k, n)
    old_left, new_left = _digests(left, [(rows, inner), (m, k)])
    old_right, new_right = _digests(right, [(inner, columns), (k, n)])
    if made_of != [old_left, old_right]:
        rows = inner = columns = 0
    if (rows, inner, columns) == (m, k, n):
        return
    product.attrs[_DONE] = {}  # until the end of the call
    product.resize((m, n))
    if not k:  # a sum without terms
        size, rank = _place(product)
        product.write(slice(m * rank // size, m * (rank + 1) // size), 0)
    add = _add if communicator(product) is None else _add_together
    for part in (
        (slice(0, rows), slice(inner, k), slice(0, columns)),
        (slice(rows, m), slice(0, k), slice(0, n)),
        (slice(0, rows), slice(0, k), slice(columns, n)),
    ):
        if all(some.start < some.stop for some in part):
            add(product, left, right, *part)
    product.attrs[_DONE] = {
        "extents": [m, k, n],
        "origin": list(product.origin),
        "left": new_left,
        "right": new_right,
    }


def _place(array: xa.ExtArray) -> tuple[int, int]:
    """Return the number of ranks that have an array open together, and this rank."""
    comm = communicator(array)
    return (1, 0) if comm is None else (comm.size, comm.rank)


def _done(product: xa.ExtArray, m: int, k: int, n: int) -> tuple[int, int, int, str, str]:
    """Return how many rows, terms and columns a product has, and the digests of its factors.

    All are 0 or empty if the factors have shrunk, or the product's bounds were changed otherwise.
    """
    nothing = 0, 0, 0, "", ""
    note = product.attrs.get(_DONE)
    if not isinstance(note, dict) or set(note) != {"extents", "origin", "left", "right"}:
        return nothing
    rows, inner, columns = note["extents"]
    if (rows, columns) != product.shape or list(product.origin) != note["origin"]:
        return nothing
    if rows > m or inner > k or columns > n:
        return nothing
    return rows, inner, columns, note["left"], note["right"]


def _digests(factor: Any, shapes: Sequence[tuple[int, int]]) -> list[str]:
    """Return digests of boxes at the origin of a factor, which is read once; collective.

    The tiles, and so the digests, depend only on the shape.
    """
    tiles = [*itertools.product(*(_cut(slice(0, n), _TILE) for n in factor.shape))]
    comm = communicator(factor)
    size, rank = _place(factor)
    mine = tiles[len(tiles) * rank // size : len(tiles) * (rank + 1) // size]

    def of_tile(tile: tuple[slice, slice]) -> list[bytes]:
        values = factor[tile]
        known: dict[tuple[int, ...], bytes] = {}
        digests = []
        for height, width in shapes:
            part = values[: max(0, height - tile[0].start), : max(0, width - tile[1].start)]
            if part.shape not in known:
                flat = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
                known[part.shape] = hashlib.blake2b(flat, digest_size=16).digest()
            digests.append(known[part.shape] if part.size else b"")
        return digests

    with ThreadPoolExecutor(1 if comm is not None else xa.config.threads) as pool:
        found = [*pool.map(of_tile, mine)]
    if comm is not None:
        found = [*itertools.chain(*comm.allgather(found))]
    wholes = [
        hashlib.blake2b(f"{factor.dtype.str} {shape}".encode(), digest_size=16) for shape in shapes
    ]
    for digests in found:
        for whole, digest in zip(wholes, digests, strict=True):
            whole.update(digest)
    return [whole.hexdigest() for whole in wholes]


def _add(product: Any, left: Any, right: Any, rows: slice, inner: slice, columns: slice) -> None:
    """Add terms of the sum to a part of the product; the first terms replace its old content."""
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
    """Do the same on all ranks, tile by tile; collective."""
    from extarray.mpi import GlobalArray

    # All ranks' memory holds a tile and four panels, each a quarter of a tile.
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
    """A part of a factor in the memory of all ranks; each reads its own zone of it."""

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
        """Wait until all ranks have read the part; collective."""
        self.array.access()[self.here] = self.request.wait()
        self.array.sync()
        return self.array.section(tuple(slice(0, _extent(some)) for some in self.box))


def _fetch(panels: tuple[_Panel, _Panel], tile: tuple[slice, slice], step: slice) -> None:
    panels[0].fetch((tile[0], step))
    panels[1].fetch((step, tile[1]))


def _own(array: GlobalArray, box: tuple[slice, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return this rank's part of a box at a global array's origin, in `access` and in files."""
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
