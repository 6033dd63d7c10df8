"""Scales: the axes of a picture of elements, with coordinates, dates and texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.array.coordinates import Coordinate, short_texts
from extarray.common.extras import require
from extarray.common.terminal import printable

__all__ = ["Scale", "date_axis", "date_numbers", "with_unit"]

_MOST_TEXTS = 4096  # labels of an axis; more would not be read
_ALL_TICKS = 16  # labels of an axis, each of which has a tick
_MOST_LETTERS = 56  # of labels side by side; more are turned
_LONGEST = 24  # letters of a label
_FIRST_DATE, _LAST_DATE = np.datetime64("0001-01-03", "D"), np.datetime64("9999-12-28", "D")


class Scale:
    """An axis of a picture: where its elements are, and what stands beside it.

    Elements stand at their coordinates, if these are dates or numbers that rise or fall all along;
    else at their indices, with other coordinates as labels.

    Parameters
    ----------
    name : str
        Name of the axis of the array.
    n : int
        Length of the axis.
    coordinate : Coordinate, optional
    wanted : ndarray of int
        Indices of the elements in the picture, in ascending order.
    is_line : bool
        Whether elements may stand in any order.
    """

    def __init__(
        self,
        name: str,
        n: int,
        coordinate: Coordinate | None,
        wanted: NDArray[np.int64],
        is_line: bool = False,
    ) -> None:
        self.n = n
        self.label = printable(name)
        self.is_date = False
        self.texts: list[str] = []
        self._coordinate: Coordinate | None = None
        if coordinate is None or not n:
            return
        values = coordinate.at(wanted)
        numbers = None if values is None else _numbers(values)
        if numbers is not None and values is not None and (is_line or _is_monotonic(numbers)):
            self._coordinate = coordinate
            self.is_date = values.dtype.kind == "M"
            unit = "" if self.is_date else coordinate.units
            if values.dtype.kind == "m":
                unit = np.datetime_data(values.dtype)[0]
            self.label = printable(with_unit(coordinate.title or coordinate.name, unit))
        elif n <= _MOST_TEXTS:
            all_values = coordinate.at(np.arange(n))
            texts = coordinate.texts(range(n)) if all_values is None else short_texts(all_values)
            if any(texts):
                self.texts = [printable(_short(text)) for text in texts]
                self.label = printable(with_unit(coordinate.title or coordinate.name, ""))

    @property
    def has_coordinates(self) -> bool:
        """True if elements stand at their coordinates, and not at their indices."""
        return self._coordinate is not None

    @property
    def units(self) -> str:
        """The unit of the coordinates; empty if there are none."""
        return "" if self._coordinate is None else self._coordinate.units

    def places(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return where some elements stand, given by their indices in ascending order."""
        if self._coordinate is not None:
            values = self._coordinate.at(indices)
            numbers = None if values is None else _numbers(values)
            if numbers is not None:
                return numbers
        return np.asarray(indices, np.float64)

    def edges(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return where some elements begin; the length of the axis stands for its end."""
        if self._coordinate is None or self.n < 2:
            middle = self.places(np.zeros(1, np.int64))[0]
            return np.asarray(indices - 0.5 + middle, np.float64)
        # An element ends half way to the next, and the outer ones reach as far to both sides.
        after = np.clip(indices, 1, self.n - 1)
        low, high = self.places(after - 1), self.places(after)
        outer = np.where(indices == 0, low - high, np.where(indices == self.n, high - low, 0.0))
        return np.asarray((low + high) / 2 + outer)

    def finish(self, ax: Any, which: str) -> None:
        """Label the axis ``"x"`` or ``"y"`` of matplotlib's axes."""
        ticker: Any = require("matplotlib.ticker", "plot", "a picture")
        axis = getattr(ax, f"{which}axis")
        axis.set_label_text(self.label)
        if self.is_date:
            date_axis(axis)
        elif self._coordinate is None:
            axis.set_major_locator(
                ticker.MaxNLocator(nbins="auto", integer=True, steps=(1, 2, 5, 10))
            )
        if self.n == 1 and self._coordinate is None:
            axis.set_major_locator(ticker.FixedLocator([0]))
        if self.texts:
            if self.n <= _ALL_TICKS:
                axis.set_major_locator(ticker.FixedLocator(range(self.n)))
            axis.set_major_formatter(ticker.FuncFormatter(self._text_at))
            if which == "x" and sum(map(len, self.texts[:_ALL_TICKS])) > _MOST_LETTERS:
                axis.set_tick_params(rotation=40)
                for text in axis.get_ticklabels():
                    text.set(ha="right", rotation_mode="anchor")

    def _text_at(self, place: float, _: Any = None) -> str:
        index = round(place)
        is_there = index == place and 0 <= index < self.n
        return self.texts[index] if is_there else ""


def _numbers(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return coordinates as matplotlib's numbers; None if they are none."""
    if values.dtype.kind == "M":
        return date_numbers(values)
    if values.dtype.kind == "m":
        if np.isnat(values).any():
            return None
        return values.astype(np.int64).astype(np.float64)
    if values.dtype.kind not in "iuf":
        return None
    numbers = values.astype(np.float64)
    return numbers if np.isfinite(numbers).all() else None


def _is_monotonic(numbers: NDArray[np.float64]) -> bool:
    steps = np.diff(numbers)
    return bool((steps > 0).all() or (steps < 0).all())


def date_numbers(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return dates as matplotlib's numbers; None if its calendar does not reach some of them."""
    dates: Any = require("matplotlib.dates", "plot", "a picture")
    days = values.astype("M8[D]")
    days = days[~np.isnat(days)]
    if days.size < values.size or ((days < _FIRST_DATE) | (days > _LAST_DATE)).any():
        return None
    numbers: NDArray[np.float64] = np.asarray(dates.date2num(values), np.float64)
    return numbers


def date_axis(axis: Any) -> None:
    """Give an axis of matplotlib's date numbers dates."""
    dates: Any = require("matplotlib.dates", "plot", "a picture")
    locator = dates.AutoDateLocator(minticks=3, maxticks=8)
    axis.set_major_locator(locator)
    # Short dates have the year beside the axis, where an upright one has no room.
    is_level = axis.axis_name == "x"
    kind = dates.ConciseDateFormatter if is_level else dates.AutoDateFormatter
    axis.set_major_formatter(kind(locator))


def with_unit(name: str, unit: str) -> str:
    """Return a name with its unit.

    Examples
    --------
    >>> with_unit("depth", "m"), with_unit("depth", ""), with_unit("", "m")
    ('depth [m]', 'depth', '[m]')
    """
    return f"{name} [{unit}]".strip() if unit else name


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
