"""Read planes of an array, with at most as many elements as the screen has pixels, in bounded time.

A plane larger than the screen is read in steps: every nth element along each axis.  In a large
array each of these lies in another page of the file, so reading millions of them can take long
unless they are in memory, which nobody can know beforehand.  Reading therefore goes from coarse to
fine: a coarse picture first, then the finest one that the remaining time allows.  The page asks for
a finer one while it shows the coarse one.  At last, if the plane is not too large, all of its
elements are read, and each pixel shows the extreme of its own: nothing hides between the steps.

Elements are read by calls (``pread``), not through a mapping: a mapping reads ahead, often
megabytes, around each element that is not in memory, and fills memory with zeros for a sparse file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray.common.errors import ArgumentError, BoundsError
from extarray.common.limits import limits
from extarray.streaming.extremes import ends, extreme_places
from extarray.view.encoding import Choice

__all__ = [
    "Abandoned",
    "Line",
    "Plane",
    "Span",
    "can_be_whole",
    "check_span",
    "read_box",
    "read_each",
    "read_extremes",
    "read_line_ends",
    "read_plane",
]

_BAND_SECONDS = 0.03  # between two checks of the clock and of whether the picture is still wanted
_PAGE = 4096  # bytes
_AT_ONCE = 1 << 22  # elements to reduce at once
_PART = 1 << 16  # elements of a line to read at once: each may lie in a page of its own


class Abandoned(Exception):  # noqa: N818 -- nothing went wrong
    """The picture is no longer wanted."""


class _Late(Exception):  # noqa: N818 -- the coarser picture is shown
    """The time for a finer picture is over."""


class Span(NamedTuple):
    """A part of an axis in at most `pixels` steps."""

    axis: int
    start: int
    stop: int
    pixels: int

    def step(self, level: int) -> int:
        """Return the elements in a step, which doubles with each level."""
        return -(-max(1, self.stop - self.start) // self.pixels) << level

    def in_full(self) -> Span:
        """Return the same part in steps of one element."""
        return self._replace(pixels=max(1, self.stop - self.start))

    def count(self, level: int) -> int:
        """Return the number of elements to read."""
        return len(range(self.start, self.stop, self.step(level)))


class Plane(NamedTuple):
    """Elements of a plane.

    Attributes
    ----------
    values : ndarray, shape (rows, columns)
        One row if only one axis is shown.
    level : int
        0: the finest that the screen can show.
    steps : tuple of int
        Distance in elements between neighbouring values, along rows and columns.
    is_whole : bool
        Whether no element is left out: each value stands for itself, or is the extreme of its cell.
    fineness : int
        The level to ask for if another plane is to be as fine.
    """

    values: NDArray[Any]
    level: int
    steps: tuple[int, int]
    is_whole: bool
    fineness: int = 0


class Line(NamedTuple):
    """Elements along an axis: the least and the greatest of each step, and their places."""

    values: NDArray[Any]
    places: NDArray[np.int64]


def read_plane(
    array: Any,
    at: Sequence[int],
    rows: Span | None,
    columns: Span,
    choice: Choice,
    *,
    level: int | None = None,
    seconds: float = 0.1,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Plane:
    """Read a plane, as fine as time allows.

    Parameters
    ----------
    array : ExtArray or LazyView
    at : sequence of int
        An index for each axis; those along `rows` and `columns` are ignored.
    rows, columns : Span
        The parts of axes to show; `rows` may be None.
    choice : Choice
    level : int, optional
        Read at least this fine, however long it takes.  Default: a fast level.
    seconds : float
        Time after which no finer level is tried.
    is_wanted : callable
        Called between bands.

    Raises
    ------
    BoundsError
        The array has become smaller.
    Abandoned
    """

    def count(level: int) -> int:
        return columns.count(level) * (1 if rows is None else rows.count(level))

    # At the coarsest level each axis has one element.
    extents = [span.stop - span.start for span in (rows, columns) if span is not None]
    levels = range(max(1, *extents).bit_length() + 1)
    size = choice.dtype.itemsize
    finest = next((k for k in levels if count(k) * size <= limits.plane_bytes), levels[-1])
    first = getattr(array, "coarsest", limits.coarsest_elements)
    coarsest = next((k for k in levels if count(k) <= first), levels[-1])
    now = max(finest, coarsest if level is None else min(level, coarsest))
    end = time.perf_counter() + seconds
    plane: Plane | None = None
    reader = _Reader(array, at, rows, columns, choice, is_wanted)
    while True:
        try:
            values = reader.read(now, None if plane is None else end)
        except _Late:
            assert plane is not None
            return plane
        steps = (1 if rows is None else rows.step(now), columns.step(now))
        plane = Plane(values, now - finest, steps, max(steps) == 1, now)
        left = end - time.perf_counter()
        finer = range(finest, now)
        found = next((k for k in finer if count(k) / reader.in_page(k) * reader.rate <= left), None)
        if found is None:
            return plane
        now = found


def can_be_whole(array: Any, rows: Span | None, columns: Span, choice: Choice) -> bool:
    """Tell whether all elements of a part may be read, which takes a second or so."""
    fine = [None if span is None else span.in_full() for span in (rows, columns)]
    assert fine[1] is not None
    reader = _Reader(array, (), fine[0], fine[1], choice, lambda: True)
    count = fine[1].count(0) * (1 if fine[0] is None else fine[0].count(0))
    is_small = count * choice.dtype.itemsize <= limits.plane_bytes
    most = getattr(array, "pieces_at_most", limits.whole_pages)
    return is_small and count / reader.in_page(0) <= most


def read_extremes(
    array: Any,
    at: Sequence[int],
    rows: Span | None,
    columns: Span,
    choice: Choice,
    keys: Callable[[NDArray[Any]], NDArray[np.float64]],
    is_wanted: Callable[[], bool] = lambda: True,
    others: Sequence[Sequence[int]] = (),
) -> Plane:
    """Read all elements of a plane, and return the extreme of each cell.

    Parameters
    ----------
    array, at, rows, columns, choice, is_wanted
        As for `read_plane`.
    keys : callable
        Returns the numbers by which elements are compared.
    others : sequence of sequence of int
        Places of further planes, such as the green and the blue of a picture.  Then there is an
        axis of planes before the rows; the elements of a cell are all from one place, where the sum
        of their numbers is the extreme, so that no colour appears that the picture does not have.

    Raises
    ------
    BoundsError, Abandoned
        As for `read_plane`.
    """
    steps = (1 if rows is None else rows.step(0), columns.step(0))
    fine = None if rows is None else rows.in_full()
    readers = [
        _Reader(array, place, fine, columns.in_full(), choice, is_wanted) for place in (at, *others)
    ]
    height = 1 if rows is None else rows.stop - rows.start
    width = columns.stop - columns.start
    values = np.empty((len(readers), -(-height // steps[0]), columns.count(0)), choice.dtype)
    # Bands of rows, or parts of the only row.
    down = max(1, _AT_ONCE // (max(1, width) * steps[0])) * steps[0]
    across = width if rows is not None else max(1, _AT_ONCE // steps[1]) * steps[1]
    for row in range(0, height if width else 0, down):
        for column in range(0, width, across):
            if not is_wanted():
                raise Abandoned
            size = (min(down, height - row), min(across, width - column))
            parts = [np.empty(size, choice.dtype) for _ in readers]
            for reader, part in zip(readers, parts, strict=True):
                reader.read_band(part, 0, row, column)
            numbers = keys(parts[0])
            for part in parts[1:]:
                numbers += keys(part)
            places = extreme_places(numbers, steps)
            i, j = row // steps[0], column // steps[1]
            for plane, part in zip(values, parts, strict=True):
                found = part[places]
                plane[i : i + len(found), j : j + found.shape[1]] = found
    return Plane(values if others else values[0], 0, steps, True)


def read_each(places: Sequence[Sequence[int]], read: Callable[[Any, int | None], Plane]) -> Plane:
    """Read planes at several places, all as fine as the first; one axis more if they are several.

    `read` is called with a place, and with the level of the first plane, or None.
    """
    planes: list[Plane] = []
    for place in places:
        planes.append(read(place, planes[0].fineness if planes else None))
    if len(planes) == 1:
        return planes[0]
    return planes[0]._replace(values=np.stack([plane.values for plane in planes]))


def read_box(
    array: Any,
    at: Sequence[int],
    rows: Span | None,
    columns: Span,
    choice: Choice,
    is_wanted: Callable[[], bool] = lambda: True,
) -> NDArray[Any]:
    """Read all elements of a part of a plane; see `read_plane`."""
    fine = None if rows is None else rows.in_full()
    return _Reader(array, at, fine, columns.in_full(), choice, is_wanted).read(0, None)


def read_line_ends(
    array: Any,
    at: Sequence[int],
    columns: Span,
    choice: Choice,
    keys: Callable[[NDArray[Any]], NDArray[np.float64]],
    is_wanted: Callable[[], bool] = lambda: True,
) -> Line:
    """Read all elements along an axis, and return the ends of each step; see `read_extremes`."""
    step, n = columns.step(0), columns.stop - columns.start
    reader = _Reader(array, at, None, columns.in_full(), choice, is_wanted)
    band = max(1, _PART // step) * step
    values, places = [np.empty(0, choice.dtype)], [np.empty(0, np.int64)]
    for start in range(0, n, band):
        if not is_wanted():
            raise Abandoned
        part = np.empty((1, min(band, n - start)), choice.dtype)
        reader.read_band(part, 0, 0, start)
        found, _ = ends(keys(part[0]), step)
        values.append(part[0][found])
        places.append(found + start)
    return Line(np.concatenate(values), np.concatenate(places))


class _Reader:
    """Reads the levels of a plane in bands: of rows, of parts of one, or of columns."""

    def __init__(
        self,
        array: Any,
        at: Sequence[int],
        rows: Span | None,
        columns: Span,
        choice: Choice,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._array = array
        self._order = getattr(array, "base", array).order
        self._least = getattr(array, "coarsest", limits.coarsest_elements)
        self._at = [int(i) for i in at]
        self._rows = rows
        self._columns = columns
        self._choice = choice
        self._is_wanted = is_wanted
        self.rate = 1e-4  # seconds per page: a guess for pages on the disk, until one is read

    def in_page(self, level: int) -> int:
        """Return about how many elements of a level lie in a page of the file, or in a piece."""
        if hasattr(self._array, "in_piece"):  # a file of another format
            spans = [span for span in (self._rows, self._columns) if span is not None]
            steps = [span.step(level) for span in spans]
            return int(self._array.in_piece([span.axis for span in spans], steps))
        last = self._array.ndim - 1
        for span in (self._rows, self._columns):
            if span is not None and span.axis == last and self._order == "C":
                run = min(_PAGE // self._array.itemsize, self._array.chunks[last])
                return int(max(1, min(run // span.step(level), span.count(level))))
        return 1

    def read(self, level: int, end: float | None) -> NDArray[Any]:
        """Read a level; raise `_Late` if the time is over before."""
        height = 1 if self._rows is None else self._rows.count(level)
        width = self._columns.count(level)
        values = np.empty((height, width), self._choice.dtype)
        in_page = self.in_page(level)
        row = column = 0
        while row < height and width:
            clock = time.perf_counter()
            if not self._is_wanted():
                raise Abandoned
            if end is not None and clock > end:
                raise _Late
            pages = min(limits.band_pages, int(_BAND_SECONDS / max(self.rate, 1e-9)))
            most = max(self._least, pages * in_page)
            down = max(1, min(height - row, most // width)) if column == 0 else 1
            across = min(width - column, most) if down == 1 else width
            self.read_band(values[row : row + down, column : column + across], level, row, column)
            self.rate = (time.perf_counter() - clock) * in_page / (down * across)
            column += across
            if column == width:
                row, column = row + down, 0
        return values

    def read_band(self, target: NDArray[Any], level: int, row: int, column: int) -> None:
        """Fill `target` with elements of a level, starting at a row and a column."""

        def piece(span: Span, first: int, n: int) -> slice:
            step = span.step(level)
            start = span.start + first * step
            return slice(start, start + (n - 1) * step + 1, step)

        selection: list[Any] = list(self._at)
        selection[self._columns.axis] = piece(self._columns, column, target.shape[1])
        is_turned = False
        if self._rows is not None:
            selection[self._rows.axis] = piece(self._rows, row, target.shape[0])
            is_turned = self._rows.axis > self._columns.axis
        band = self._choice.read(self._array, tuple(selection))
        band = band.T if is_turned else band.reshape(-1, band.shape[-1])
        if band.shape != target.shape:
            raise BoundsError("the array has shrunk in the meantime; refresh")
        target[...] = band


def check_span(span: Span, shape: Sequence[int]) -> None:
    """Refuse a span that is no part of an axis.

    Raises
    ------
    ArgumentError
    BoundsError
    """
    if not 0 <= span.axis < len(shape):
        raise ArgumentError(f"the array has no axis {span.axis}; it has {len(shape)} axes")
    if not 0 <= span.start <= span.stop <= shape[span.axis]:
        raise BoundsError(
            f"elements {span.start} to {span.stop} are out of bounds for axis {span.axis} with "
            f"size {shape[span.axis]}"
        )
    if not 1 <= span.pixels <= 1 << 14:
        raise ArgumentError(f"cannot draw {span.pixels} pixels; give 1 to {1 << 14}")
