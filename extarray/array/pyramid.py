"""Pyramids: smaller and smaller copies of an array that grow with it.

Each level is an array of its own.  One of its elements stands for two of the level above along each
axis that is halved, counted from index 0 when the array was made; at the ends of the array it may
stand for one.  An axis that stands for several (`split`) can be halved along one of these: the
level has fewer frames, and the same split with a smaller length.

The note of a level, its attribute ``"pyramid"``, says for which elements of the array it is right.
`Pyramid.update` computes the others: those behind the present end of the level are written before
they count, as those of any append.  So readers never see an element that is not computed, and an
update that is killed has changed nothing, or made some steps; the next one goes on.
"""

from __future__ import annotations

import errno
import math
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.array import creation
from extarray.array.array import ExtArray
from extarray.array.folders import replace_group
from extarray.array.growth import grow, shrink
from extarray.common.arguments import as_axis, as_int, check_choice, check_flag
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    ClosedError,
    ExistsError,
    MissingError,
    ReadOnlyError,
)
from extarray.common.system import replace
from extarray.format.images import kind_of
from extarray.format.labels import SPLIT, known_split
from extarray.format.missing import MISSING, missing_elements
from extarray.grid.bounds import beside
from extarray.grid.tiles import tiles
from extarray.maintenance.group_files import making_folder
from extarray.streaming.blocks import box_bytes, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from typing import Literal, Self, SupportsIndex

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

__all__ = ["PYRAMID", "SHARED", "Pyramid", "halved", "level_count", "pyramid", "pyramid_beside"]

#: Attribute of a level with its note.
PYRAMID = "pyramid"
#: Suffix of the folder with the levels of an array.
_SUFFIX = ".pyramid"
#: Extent up to which an image needs no smaller level.
_SMALL = 256
#: Least extent of a chunk along an axis that is halved, as the axis may grow.
_LEAST_CHUNK = 64
#: Bytes that a level grows by at once.
_STEP_BYTES = 1 << 26
#: Attributes that say how elements are to be read, which levels share with their array: those that
#: mark missing ones, and those of packed numbers, whose means are packed in the same way.
SHARED = (*MISSING, "scale_factor", "add_offset")

#: Places of elements: the first of each pair, and the second, or again the first.
Pairs = tuple["NDArray[np.intp]", "NDArray[np.intp]"]


# -- elements ------------------------------------------------------------------------------------


def halved(
    values: NDArray[Any],
    axes: Sequence[int],
    how: str = "mean",
    missing: Sequence[Any] = (),
    pairs: Sequence[Pairs] | None = None,
) -> NDArray[Any]:
    """Return one element for each pair along axes: its mean, or its first one.

    Integers are rounded to the nearest, halves to even ones.  NaN and missing elements do not
    count; where there are no others, the result is missing.  A mean of others that is equal to a
    missing element becomes the next larger value.  Integers of 64 bits, which no float
    holds exactly, and what is no number, are those of the first of a pair.

    Parameters
    ----------
    values : ndarray
    axes : sequence of int
    how : {"mean", "nearest"}
    missing : sequence of scalar
        Elements that are missing, besides NaN.
    pairs : sequence of Pairs, optional
        The pairs along each axis; None: each two elements, and a last one alone.

    Examples
    --------
    >>> halved(np.array([[1, 2, 9], [3, 4, 9]], "u1"), (0, 1))
    array([[2, 9]], dtype=uint8)
    """
    dtype = values.dtype
    if pairs is None:
        starts = [np.arange(0, values.shape[axis], 2) for axis in axes]
        pairs = [
            (first, np.minimum(first + 1, values.shape[axis] - 1))
            for first, axis in zip(starts, axes, strict=True)
        ]
    if how == "nearest" or dtype.kind not in "iufc" or (dtype.kind in "iu" and dtype.itemsize == 8):
        for axis, (first, _) in zip(axes, pairs, strict=True):
            values = _taken(values, axis, first)
        return values
    wide = np.result_type(dtype, np.float32 if dtype.itemsize < 4 else np.float64)
    is_lost = _lost(values, missing)
    sums = values.astype(wide)
    if is_lost is None:
        for axis, (first, second) in zip(axes, pairs, strict=True):
            sums = _taken(sums, axis, first) + _taken(sums, axis, second)
            sums /= 2
        means = sums
    else:
        sums[is_lost] = 0
        counts = (~is_lost).astype(np.float32)
        for axis, (first, second) in zip(axes, pairs, strict=True):
            is_pair = (first != second).reshape([-1] + [1] * (values.ndim - 1 - axis))
            sums = _taken(sums, axis, first) + _taken(sums, axis, second) * is_pair
            counts = _taken(counts, axis, first) + _taken(counts, axis, second) * is_pair
        means = sums / np.maximum(counts, 1)
        nothing = np.nan if dtype.kind in "fc" and not missing else missing[0]
    if dtype.kind in "iu":
        means = np.rint(means)
    result = means.astype(dtype)
    if missing:
        _set_apart(result, missing)
    if is_lost is not None:
        result[counts == 0] = nothing
    return result


def _set_apart(means: NDArray[Any], missing: Sequence[Any]) -> None:
    """Let means that are equal to a missing element have the next larger value."""
    for element in missing:
        is_taken = means == element
        if is_taken.any():
            # At least one element is larger than its mean, and not missing: this loop ends there.
            other = element
            while other in missing:
                is_int = means.dtype.kind in "iu"
                other = other + 1 if is_int else np.nextafter(other, means.dtype.type(np.inf))
            means[is_taken] = other


def _lost(values: NDArray[Any], missing: Sequence[Any]) -> NDArray[np.bool_] | None:
    """Return which elements are missing; None: none are."""
    is_lost = np.isnan(values) if values.dtype.kind in "fc" else np.zeros(values.shape, bool)
    for element in missing:
        is_lost |= values == element
    return is_lost if is_lost.any() else None


def _taken(values: NDArray[Any], axis: int, index: NDArray[np.intp]) -> NDArray[Any]:
    """Return elements along an axis, without a copy where they have one distance."""
    n = len(index)
    step = int(index[1] - index[0]) if n > 1 else 1
    if n and step > 0 and index[-1] - index[0] == step * (n - 1) and (np.diff(index) == step).all():
        place = slice(int(index[0]), int(index[-1]) + 1, step)
        return values[(slice(None),) * axis + (place,)]
    return values.take(index, axis)


def level_count(extents: Sequence[int]) -> int:
    """Return how many levels lead from extents to a small picture.

    Parameters
    ----------
    extents : sequence of int

    Examples
    --------
    >>> level_count((2048, 1000)), level_count((200, 256))
    (3, 0)
    """
    return max(0, math.ceil(math.log2(max([1, *extents]) / _SMALL)))


# -- axes of a level -----------------------------------------------------------------------------

# Places along an axis are counted from index 0 at the time when the array was made, so that growth
# at the start leaves them as they are.


class _Whole:
    """An axis that stays as it is."""

    is_halved = False

    def cover(self, low: int, high: int) -> tuple[int, int]:
        """Return the range of the level for a range of the array."""
        return low, high

    def right(self, now: tuple[int, int], done: tuple[int, int]) -> tuple[int, int]:
        """Return the range of the level that is right, if it was made when the array had `done`."""
        return max(now[0], done[0]), min(now[1], done[1])

    def done(self, low: int, high: int, now: tuple[int, int]) -> tuple[int, int]:
        """Return a range of the array for which a range of the level is right."""
        return low, high

    def pairs(self, low: int, high: int, there: tuple[int, int]) -> Pairs:
        """Return the places, in the range of the next larger level, of a range of the level."""
        places = np.arange(low, high)
        return places, places


class _Halved(_Whole):
    """An axis of which one element of the level stands for several.

    Parameters
    ----------
    factor : int
        For how many; 2 for the next larger level.
    """

    is_halved = True

    def __init__(self, factor: int) -> None:
        self._factor = factor

    def cover(self, low: int, high: int) -> tuple[int, int]:
        first = low // self._factor
        return first, -(-high // self._factor) if high > low else first

    def right(self, now: tuple[int, int], done: tuple[int, int]) -> tuple[int, int]:
        f, low, high = self._factor, max(now[0], done[0]), min(now[1], done[1])
        return (
            low // f if now[0] == done[0] else -(-low // f),
            -(-high // f) if now[1] == done[1] else high // f,
        )

    def done(self, low: int, high: int, now: tuple[int, int]) -> tuple[int, int]:
        return max(self._factor * low, now[0]), min(self._factor * high, now[1])

    def pairs(self, low: int, high: int, there: tuple[int, int]) -> Pairs:
        first = 2 * np.arange(low, high)
        return np.maximum(first, there[0]), np.minimum(first + 1, there[1] - 1)


class _Frames(_Whole):
    """An axis that stands for several, along one of which one frame stands for several.

    Parameters
    ----------
    lengths : sequence of int
        Lengths of these axes; that of the first does not matter.
    halved : int
        The one that is halved.
    factor : int
        As for `_Halved`.
    """

    is_halved = True

    def __init__(self, lengths: Sequence[int], halved: int, factor: int) -> None:
        self._lengths, self._halved, self._factor = list(lengths), halved, factor
        self._fewer = [-(-n // factor) if j == halved else n for j, n in enumerate(lengths)]

    def _ends(self, numbers: NDArray[np.intp]) -> Pairs:
        """Return the first and the last frame of frames of the level; both only increase."""
        places, rest = [], numbers
        for n in reversed(self._fewer[1:]):
            places.append(rest % n)
            rest = rest // n
        places.append(rest)
        places.reverse()
        ends = []
        for late in (0, self._factor - 1):
            flat = np.zeros_like(numbers)
            for j, (place, n) in enumerate(zip(places, self._lengths, strict=True)):
                own = place
                if j == self._halved:
                    own = self._factor * place + late
                    own = np.minimum(own, n - 1) if j else own
                flat = flat * (n if j else 1) + own
            ends.append(flat)
        return ends[0], ends[1]

    def _before(self, n: int, which: int) -> int:
        """Return how many frames of the level have their first or last frame among `n`."""
        low, high = 0, max(n, 0)
        while low < high:
            middle = (low + high) // 2
            if self._ends(np.array([middle]))[which][0] < n:
                low = middle + 1
            else:
                high = middle
        return low

    def cover(self, low: int, high: int) -> tuple[int, int]:
        return 0, self._before(high, 0)

    def right(self, now: tuple[int, int], done: tuple[int, int]) -> tuple[int, int]:
        return 0, self._before(min(now[1], done[1]), 0 if now[1] == done[1] else 1)

    def done(self, low: int, high: int, now: tuple[int, int]) -> tuple[int, int]:
        if high <= 0:
            return 0, 0
        return 0, min(int(self._ends(np.array([high - 1]))[1][0]) + 1, now[1])

    def pairs(self, low: int, high: int, there: tuple[int, int]) -> Pairs:
        first, second = self._ends(np.arange(low, high))
        return first, np.where(second < there[1], second, first)


class _Plan(NamedTuple):
    """The axes of an array, as a level has them.

    Attributes
    ----------
    lines : list of _Whole
        For each axis of the array.
    names : list
        Names, or numbers, of the axes that are halved.
    split : dict
        The split of the level, for `create`.
    """

    lines: list[_Whole]
    names: list[str | int]
    split: dict[str, dict[str, int]]


def _plan(array: ExtArray, axes: Any, factor: int = 2) -> _Plan:
    """Return how elements along axes, which may be those of a split, make one of a level."""
    dims, split = array.dims, known_split(array.attrs.get(SPLIT), array.dims)
    inner = {name: axis for axis, lengths in split.items() for name in lengths}
    if axes is None:
        names = [*(dims or ()), *inner]
        chosen: list[Any] = [n for n in names if n.lower() in ("y", "x") and n not in split]
        if not chosen:
            chosen = [n for n in names if kind_of(n) == "space" and n not in split]
        if not chosen and array.ndim >= 2:
            chosen = [array.ndim - 2, array.ndim - 1]
    else:
        chosen = [axes] if isinstance(axes, str) or not np.iterable(axes) else list(axes)
    lines: list[_Whole] = [_Whole() for _ in range(array.ndim)]
    new_split = {axis: dict(lengths) for axis, lengths in split.items()}
    found: list[str | int] = []
    for name in chosen:
        if isinstance(name, str) and name in inner:
            assert dims is not None
            lengths = split[inner[name]]
            j, numbers, place = dims.index(inner[name]), [*lengths.values()], [*lengths].index(name)
            if -1 in numbers[1:] or isinstance(lines[j], _Frames):
                raise ArgumentError(
                    f"axis {name!r} cannot be halved: of the axes for which {inner[name]!r} stands "
                    "one can be, if no length but the first is -1"
                )
            lines[j] = _Frames(numbers, place, factor)
            if lengths[name] != -1:
                new_split[inner[name]][name] = -(-lengths[name] // factor)
            found.append(name)
            continue
        j = as_axis(name, array.ndim, array)
        if dims is not None and dims[j] in split:
            raise ArgumentError(
                f"axis {dims[j]!r} stands for {', '.join(split[dims[j]])}: name the one of these "
                "that is to be halved"
            )
        lines[j] = _Halved(factor)
        found.append(j if dims is None else dims[j])
    if not found:
        raise ArgumentError("a pyramid halves one axis at least; name it with axes=...")
    if len(set(found)) < len(found):
        raise ArgumentError(f"axes names each axis once, not {axes!r}")
    return _Plan(lines, found, new_split)


# -- the pyramid ---------------------------------------------------------------------------------


class Pyramid:
    """Smaller levels of an array, which grow with it.

    Made by `pyramid`.  Also a context manager, which closes the levels.

    Parameters
    ----------
    array : ExtArray
    levels : sequence of ExtArray
        The smaller levels, from the largest to the smallest.

    Attributes
    ----------
    array : ExtArray
        The array, which is level 0.
    levels : tuple of ExtArray
    axes : tuple of str or int
        The axes that are halved from level to level.
    how : {"mean", "nearest"}

    Examples
    --------
    >>> import numpy as np
    >>> import extarray as xa
    >>> a = xa.from_array(np.arange(16.0).reshape(4, 4))
    >>> with xa.pyramid(a, levels=2) as p:
    ...     p.levels[0][...], p.levels[1].shape
    (array([[ 2.5,  4.5],
           [10.5, 12.5]]), (1, 1))
    """

    def __init__(self, array: ExtArray, levels: Sequence[ExtArray]) -> None:
        self.array, self.levels = array, tuple(levels)
        note = self.levels[0].attrs[PYRAMID]
        self.axes, self.how = tuple(note["axes"]), str(note["how"])
        self._lock = threading.RLock()
        self._is_closed = False

    def __repr__(self) -> str:
        shapes = ", ".join(str(level.shape) for level in self.levels)
        return f"<extarray.Pyramid: levels {shapes} of {self.array!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the levels, but not the array."""
        with self._lock:
            self._is_closed = True
            for level in self.levels:
                level.close()

    def refresh(self) -> bool:
        """Take up growth of the array and of the levels, as far as they are open for reading.

        Returns
        -------
        bool
            Whether anything was new.
        """
        news = [array.refresh() for array in (self.array, *self.levels)]
        return any(news)

    def update(self, *, whole: bool = False) -> bool:
        """Compute what is new since the last update, from level to level.

        Parameters
        ----------
        whole : bool
            Compute all elements anew: after elements have changed, or after parts were cut off and
            have grown again, neither of which a level knows.

        Returns
        -------
        bool
            Whether anything was new.

        Raises
        ------
        ReadOnlyError
            A PermissionError: the levels are open for reading.
        ArgumentError
            A ValueError: an axis that stands for several has grown at its start, or one that is
            halved has another name.
        StorageError, ClosedError

        Notes
        -----
        Growth along any axis, at its end or its start, is taken up, and cuts are, too.  Elements
        at an edge of the array that stand for one element, and now for two, are computed again in
        place.  All others appear when they are computed.  If the process is killed, the next update
        goes on.

        Examples
        --------
        >>> import numpy as np, extarray as xa
        >>> a = xa.create(None, (0, 4, 4), dims=("t", "y", "x"))
        >>> p = xa.pyramid(a, levels=1)
        >>> a.append(np.ones((3, 4, 4)))
        >>> p.update(), p.levels[0].shape
        (True, (3, 2, 2))
        """
        with self._lock:
            if self._is_closed:
                raise ClosedError("the pyramid is closed")
            check_flag(whole, "whole")
            for level in self.levels:
                if level.mode == "r":
                    raise ReadOnlyError(
                        "the pyramid is open for reading; open it with mode='r+' to update it"
                    )
            self.array.refresh()
            self._check_names()
            array, is_new = self.array._held(), False
            for number, level in enumerate(self.levels, start=1):
                source = array if number == 1 else self.levels[number - 2]
                is_new |= _Update(self, array, source, level, number).run(whole)
            return is_new

    def _check_names(self) -> None:
        """Raise if axes that are halved have other names than when the levels were made."""
        try:
            _plan(self.array, self.axes)
        except (AxisError, ArgumentTypeError) as error:
            raise ArgumentError(
                f"the pyramid halves the axes {', '.join(map(str, self.axes))}, and {self.array!r} "
                f"has {self.array.dims}: give them their names again, or make the pyramid anew "
                "with overwrite=True"
            ) from error


class _Update:
    """An update of a level.

    Parameters
    ----------
    pyramid : Pyramid
    array : ExtArray
        The array, held as it is now.
    source : ExtArray
        The next larger level, which is up to date.
    level : ExtArray
    number : int
        Of the level, from 1.
    """

    def __init__(
        self, pyramid: Pyramid, array: ExtArray, source: ExtArray, level: ExtArray, number: int
    ) -> None:
        self._level, self._source, self._how = level, source, pyramid.how
        self._note = dict(level.attrs[PYRAMID])
        self._zero = list(self._note["zero"])
        self._missing = missing_elements(array.attrs, array.dtype)
        self._lines = _plan(pyramid.array, pyramid.axes, 1 << number).lines
        self._steps = _plan(source if number > 1 else pyramid.array, pyramid.axes).lines
        self._now = _range_of(array)
        if number == 1:
            self._origin: Sequence[int] = array.origin
            self._above = self._now
        else:
            zero = source.attrs[PYRAMID]["zero"]
            self._origin = [o - z for o, z in zip(source.origin, zero, strict=True)]
            self._above = _range_of(source, zero)
        for j, line in enumerate(self._lines):
            if isinstance(line, _Frames) and self._now[j][0]:
                raise ArgumentError(
                    f"axis {j} of {array!r} stands for several, and has grown or shrunk at its "
                    "start, which moves all of its frames; a pyramid cannot follow that"
                )

    def run(self, whole: bool) -> bool:
        """Bring the level up to date; tell whether there was anything to do."""
        done: list[tuple[int, int]] = [(low, high) for low, high in self._note["done"]]
        wanted = [line.cover(*now) for line, now in zip(self._lines, self._now, strict=True)]
        if whole:
            done[0] = (self._now[0][0], self._now[0][0])  # the product of all ranges is empty
        elif done == self._now and wanted == self._there():
            return False
        self._cut(wanted)
        level = self._level
        # Axis by axis.  The level is right in the product of the ranges `right`.
        for j, line in enumerate(self._lines):
            low, high = line.right(self._now[j], done[j])
            there = self._there()[j]
            low, high = max(low, there[0]), min(high, there[1])
            if low >= high:
                low = high = there[0]
            for start, stop in ((there[0], low), (high, there[1])):
                self._rewrite(j, start, stop)
            while self._there()[j][1] < wanted[j][1]:
                start = self._there()[j][1]
                step = self._rows(j)
                stop = min(wanted[j][1], start + step - (start - self._zero[j]) % level.chunks[j])
                self._grow(j, stop - start, at_start=False)
                self._tell(done, j, line.done(*self._there()[j], self._now[j]))
            while self._there()[j][0] > wanted[j][0]:
                stop = self._there()[j][0]
                start = max(wanted[j][0], stop - self._rows(j))
                self._grow(j, stop - start, at_start=True)
                self._tell(done, j, line.done(*self._there()[j], self._now[j]))
            self._tell(done, j, self._now[j])
        return True

    def _there(self) -> list[tuple[int, int]]:
        """Return the range of the level along each axis."""
        return _range_of(self._level, self._zero)

    def _tell(self, done: list[tuple[int, int]], axis: int, reached: tuple[int, int]) -> None:
        """Note for which elements of the source the level is right."""
        done[axis] = reached
        if [tuple(pair) for pair in self._note["done"]] != done:
            self._note = {**self._note, "done": [list(pair) for pair in done]}
            self._level.attrs[PYRAMID] = self._note

    def _cut(self, wanted: list[tuple[int, int]]) -> None:
        """Cut off elements of the level whose sources were cut off."""
        for j, (low, high) in enumerate(wanted):
            there = self._there()[j]
            if high < there[1]:
                shrink(self._level, j, min(there[1] - high, self._level.shape[j]), "end")
            there = self._there()[j]
            if low > there[0]:
                shrink(self._level, j, min(low - there[0], self._level.shape[j]), "start")
            there = self._there()[j]
            if there[0] == there[1] != low:  # nothing is left: go on at another place
                self._zero[j] += low - there[0]
                self._note = {**self._note, "zero": self._zero}
                self._level.attrs[PYRAMID] = self._note

    def _rows(self, axis: int) -> int:
        """Return how many places along an axis to add at once: whole chunks, of some megabytes."""
        level = self._level
        row = math.prod(n for j, n in enumerate(level.shape) if j != axis) * level.itemsize
        chunk = level.chunks[axis]
        return max(chunk, _STEP_BYTES // max(1, row) // chunk * chunk)

    def _grow(self, axis: int, by: int, at_start: bool) -> None:
        """Add places along an axis; their elements are written before they count (I5)."""
        level = self._level
        with level._writers.resizing:
            level._check("append to")
            low, high = beside(level.shape, axis, by, at_start)
            place = list(level.origin)
            grow(level, axis, by, at_start, partial(self._fill, low, high, place))

    def _rewrite(self, axis: int, start: int, stop: int) -> None:
        """Compute a range of places along an axis anew, in place."""
        if start >= stop:
            return
        level = self._level
        low, high = [0] * level.ndim, list(level.shape)
        low[axis] = start - self._zero[axis] + level.origin[axis]
        high[axis] = stop - self._zero[axis] + level.origin[axis]
        self._fill(low, high, list(level.origin))

    def _fill(self, low: Sequence[int], high: Sequence[int], origin: Sequence[int]) -> None:
        """Compute a box of the level, given in its indices, and write it."""
        level = self._level
        extents = [b - a for a, b in zip(low, high, strict=True)]

        def work(_: int, part: Box) -> None:
            starts = [a + s.start for a, s in zip(low, part, strict=True)]
            stops = [a + s.stop for a, s in zip(low, part, strict=True)]
            places = [
                (a - o + z, b - o + z)
                for a, b, o, z in zip(starts, stops, origin, self._zero, strict=True)
            ]
            level._write_box(starts, stops, self._values(places))

        limit = max(1, box_bytes() >> sum(step.is_halved for step in self._steps))
        boxes = tiles(extents, level.chunks, level.itemsize, limit=limit)
        run(work, boxes, math.prod(extents) * level.itemsize)

    def _values(self, places: Sequence[tuple[int, int]]) -> NDArray[Any]:
        """Compute a box of the level."""
        box, axes, pairs = [], [], []
        for j, (step, (low, high)) in enumerate(zip(self._steps, places, strict=True)):
            first, second = step.pairs(low, high, self._above[j])
            start, stop = int(first.min()), int(second.max()) + 1
            box.append(slice(start + self._origin[j], stop + self._origin[j]))
            if step.is_halved:
                axes.append(j)
                pairs.append((first - start, second - start))
        values = self._source.read(tuple(box))
        return np.ascontiguousarray(halved(values, axes, self._how, self._missing, pairs))


def _range_of(array: ExtArray, zero: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """Return the range of places along each axis; `zero` is that of index 0 at the beginning."""
    zeros = [0] * array.ndim if zero is None else zero
    return [(z - o, z - o + n) for z, o, n in zip(zeros, array.origin, array.shape, strict=True)]


# -- making and opening --------------------------------------------------------------------------


def pyramid(
    a: ExtArray,
    path: str | PathLike[str] | None = None,
    *,
    levels: SupportsIndex | None = None,
    axes: SupportsIndex | str | Sequence[SupportsIndex | str] | None = None,
    how: Literal["mean", "nearest"] | str | None = None,
    mode: Literal["a", "r", "r+"] | str = "a",
    overwrite: bool = False,
) -> Pyramid:
    """Make or open smaller levels of an array, each with half of the elements along some axes.

    Parameters
    ----------
    a : ExtArray
        The array, which may grow on.  Open for reading is enough.
    path : str or PathLike, optional
        Folder of the levels, a group with arrays "1", "2" and so on.  None: the path of the array,
        with ``.pyramid``; for an array in memory, the levels are in memory.
    levels : int, optional
        Number of smaller levels, at least 1.  None: until an image has at most 256 rows and
        columns.
    axes : int or str, or a sequence of these, optional
        Axes that are halved, also some of those for which one stands (``split``).  None: y and x,
        or else the last two.
    how : {"mean", "nearest"}, optional
        "mean", the default, takes the mean of elements, without those that are missing; integers
        are rounded to the nearest, halves to even ones.  "nearest" takes the first, as labels and
        masks need it.
    mode : {"a", "r", "r+"}
        "a" makes the levels if they are not there, and updates them; "r+" opens those that are
        there to be updated; "r" opens them for reading.
    overwrite : bool
        Make the levels anew.

    Returns
    -------
    Pyramid

    Raises
    ------
    ArgumentError
        A ValueError: the levels that are there are of another array, or of other `levels`, `axes`
        or `how`.
    ExistsError
        A FileExistsError: the path is taken by something else.
    MissingError
        A FileNotFoundError: there are no levels, and the mode is "r" or "r+".
    LockedError
        A BlockingIOError: another process updates the levels.
    AxisError, StorageError

    Notes
    -----
    NaN, and what attributes such as ``_FillValue`` declare as missing, does not count in means;
    where there is nothing else, the element is missing.  A mean that is equal to a missing element,
    such as that of -1 and 1 where 0 is missing, becomes the next larger value.  Truth values,
    integers of 64 bits, texts and dates are taken as with "nearest".

    `Pyramid.update` computes what has grown since.  Where one process records and another one
    looks, either of them, or a third, can update the levels: they have a writer of their own.

    Examples
    --------
    >>> import numpy as np
    >>> import extarray as xa
    >>> a = xa.create("slide", (600, 800), "u1")
    >>> p = xa.pyramid(a)
    >>> p.levels[-1].shape
    (150, 200)
    >>> a.append(np.ones((600, 100), "u1"), axis=1)
    >>> p.update(), p.levels[0].shape
    (True, (300, 450))
    >>> p.close(), a.close()
    (None, None)
    """
    if not isinstance(a, ExtArray):
        raise ArgumentTypeError(
            f"a pyramid is of an array, not of a {type(a).__name__}; copy a view first"
        )
    check_choice(mode, "mode", ("a", "r", "r+"))
    if how is not None:
        check_choice(how, "how", ("mean", "nearest"))
    if check_flag(overwrite, "overwrite") and mode != "a":
        raise ArgumentError("overwrite=True makes the levels anew, which mode='a' does")
    count = None if levels is None else as_int(levels, "levels")
    if count is not None and count < 1:
        raise ArgumentError(f"levels is a number of smaller levels, at least 1, not {count}")
    folder = _folder(a, path)
    if folder is None:
        if mode != "a":
            raise ArgumentError("an array in memory has no levels to open; make them with mode='a'")
        return _updated(Pyramid(a, _made(a, None, count, axes, how)))
    if overwrite or (mode == "a" and not os.path.lexists(folder)):
        publish = replace_group if overwrite else replace
        if overwrite and os.path.lexists(folder) and not _is_pyramid(folder):
            raise ExistsError(errno.EEXIST, "it is no pyramid, so it is not replaced", folder)
        with making_folder(folder, publish) as fresh:
            for level in _made(a, fresh, count, axes, how):
                level.close()
    elif not os.path.lexists(folder):
        raise MissingError(errno.ENOENT, "there is no pyramid; make one with mode='a'", folder)
    found = _opened(a, folder, "r" if mode == "r" else "r+")
    try:
        _check_same(found, folder, count, axes, how)
        return found if mode != "a" else _updated(found)
    except BaseException:
        found.close()
        raise


def _is_pyramid(folder: str) -> bool:
    """Tell whether a folder has the levels of a pyramid."""
    return os.path.isdir(folder) and os.path.exists(os.path.join(folder, "1.xmd"))


def _folder(a: ExtArray, path: Any) -> str | None:
    """Return the folder of an array's levels; None: they are in memory."""
    if path is not None:
        return os.path.abspath(os.fsdecode(path))
    if a.path is None:
        return None
    if not os.path.exists(f"{a.path}.xmd"):
        raise ArgumentError(
            f"{a.path} is not in files of its own on a disk; give the path of a folder for its "
            "levels"
        )
    return os.path.abspath(a.path) + _SUFFIX


def _updated(found: Pyramid) -> Pyramid:
    found.update()
    return found


def _made(
    a: ExtArray, folder: str | None, count: int | None, axes: Any, how: str | None
) -> list[ExtArray]:
    """Make the levels of an array, without elements."""
    method = how or "mean"
    made: list[ExtArray] = []
    marks = {name: a.attrs[name] for name in SHARED if name in a.attrs}
    now = _range_of(a)
    if count is None:
        lines = _plan(a, axes).lines
        count = max(1, level_count([n for n, x in zip(a.shape, lines, strict=True) if x.is_halved]))
    try:
        for number in range(1, count + 1):
            plan = _plan(a, axes, 1 << number)
            cover = [line.cover(*each) for line, each in zip(plan.lines, now, strict=True)]
            shape = [high - low for low, high in cover]
            chunks = [
                max(1, min(c, max(n, _LEAST_CHUNK))) if line.is_halved else c
                for c, n, line in zip(a.chunks, shape, plan.lines, strict=True)
            ]
            note = {
                "of": a._identity.hex(),
                "level": number,
                "axes": plan.names,
                "how": method,
                "zero": [low for low, _ in cover],
                # Nothing, as the level begins with nothing along its first axis.
                "done": [[low, high if j else low] for j, (low, high) in enumerate(now)],
            }
            shape[0] = 0
            level = creation.create(
                None if folder is None else os.path.join(folder, str(number)),
                shape,
                like=a,
                chunks=chunks,
                attrs={**marks, PYRAMID: note},
                dims=a.dims,
                split=plan.split or None,
            )
            made.append(level)
    except BaseException:
        for level in made:
            level.close()
        raise
    return made


def _opened(a: ExtArray, folder: str, mode: str) -> Pyramid:
    """Open the levels of an array."""
    levels: list[ExtArray] = []
    try:
        while not levels or os.path.exists(os.path.join(folder, f"{len(levels) + 1}.xmd")):
            level = creation.open(os.path.join(folder, str(len(levels) + 1)), mode)
            levels.append(level)
            note = level.attrs.get(PYRAMID)
            if not isinstance(note, dict) or note.get("of") != a._identity.hex():
                raise ArgumentError(
                    f"{folder!r} has no levels of {a!r}, but of another array, such as one that it "
                    "has replaced; make them anew with overwrite=True"
                )
        return Pyramid(a, levels)
    except BaseException:
        for level in levels:
            level.close()
        raise


def _check_same(found: Pyramid, folder: str, count: int | None, axes: Any, how: str | None) -> None:
    """Refuse arguments that are not those of the levels that are there."""
    there = {"levels": len(found.levels), "axes": list(found.axes), "how": found.how}
    asked = {
        "levels": count,
        "axes": None if axes is None else _plan(found.array, axes).names,
        "how": how,
    }
    other = [name for name, value in asked.items() if value not in (None, there[name])]
    if other:
        raise ArgumentError(
            f"the pyramid in {folder!r} has {', '.join(f'{n}={there[n]!r}' for n in other)}; leave "
            "that out, or make it anew with overwrite=True"
        )


def pyramid_beside(a: ExtArray) -> Pyramid | None:
    """Open the pyramid beside an array for reading; None: there is none of it.

    Parameters
    ----------
    a : ExtArray
    """
    try:
        folder = _folder(a, None)
        return None if folder is None or not _is_pyramid(folder) else _opened(a, folder, "r")
    except (ArgumentError, MissingError):
        return None
