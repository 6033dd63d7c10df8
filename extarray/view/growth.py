"""The growth map, as the page draws it: rectangles, lines, colours and texts, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.array.facts import frozen_among
from extarray.format.labels import SPLIT, known_split
from extarray.grid.growth_map import (
    Segment,
    grid_bounds,
    plane_at,
    segment_colours,
    segment_numbers,
    segment_words,
    segments,
    text_colour,
)

__all__ = ["SplitCells", "growth_map", "names_of"]

#: Facts of cells whose elements have not come.
_NO_SEGMENT = {"number": -1, "colour": "rgb(255 255 255 / 0)", "ink": "#1a1a1a", "text": ""}


def growth_map(
    array: Any,
    names: Sequence[str],
    chunk: Sequence[int],
    rows: tuple[int, range] | None,
    columns: tuple[int, range],
    split: SplitCells | None = None,
) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return the growth map of a plane of chunks.

    Parameters
    ----------
    array : ExtArray
    names : sequence of str
        Names of all axes, those that a split makes included.
    chunk, rows, columns
        As for `plane_at`.
    split : SplitCells, optional
        The cells of a view with more axes, in place of the chunks.

    Returns
    -------
    facts : dict
        The chunk indices of the cells, the segments that the plane shows, and the rectangles
        outside the bounds.  ``facts["blocks"]`` has the names, types and lengths of the blocks.
    blocks : list of ndarray
        The address of each chunk (-1: none, since its elements have not come), its segment, as a
        place in ``facts["segments"]``, and whether its label is inside the bounds; where labels
        stand along both axes; rectangles of one segment; lines between cells of the same segment
        (thin) and of different ones (heavy); if chunks of the array can be frozen, whether each
        chunk is.  A rectangle or line is top, bottom, left and right, in cells.
    """
    history = segments(array)
    plane = plane_at(
        array.axial if split is None else split,
        chunk,
        rows,
        columns,
        names,
        classes=partial(segment_numbers, history),
        bounds=grid_bounds(array) if split is None else None,
    )
    shown, places = np.unique(plane.classes, return_inverse=True)
    colours = segment_colours(history)
    y, x, are_inside = plane.labels()
    blocks: dict[str, NDArray[Any]] = {
        "addresses": plane.addresses.astype("<f8"),
        "owners": places.astype("<u4"),
        "inside": are_inside.astype("u1"),
        "y": y.astype("<f8"),
        "x": x.astype("<f8"),
        "rectangles": plane.rectangles.astype("<u4"),
        "thin": plane.lines(heavy=False).astype("<u4"),
        "heavy": plane.lines(heavy=True).astype("<u4"),
    }
    frozen = frozen_among(array, np.maximum(plane.addresses, 0))
    if frozen is not None:
        blocks["frozen"] = (frozen & (plane.addresses >= 0)).astype("u1")
    facts = {
        "rows": None if rows is None else [plane.rows.start, plane.rows.step],
        "columns": [plane.columns.start, plane.columns.step],
        "shape": list(plane.classes.shape),
        "count": len(history),
        "outside": plane.outside,
        "segments": [
            _segment(array, history, number, colours) if number >= 0 else _NO_SEGMENT
            for number in shown.tolist()
        ],
        "blocks": [[name, block.dtype.str[1:], block.size] for name, block in blocks.items()],
    }
    return facts, list(blocks.values())


def _segment(
    array: Any, history: Sequence[Segment], number: int, colours: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the facts of a segment."""
    return {
        "number": number,
        "axis": history[number].axis,
        "by": history[number].by,
        "size": history[number].size,
        "start": history[number].start_address,
        "colour": _css(colours[number]),
        "ink": text_colour(colours[number]),
        "text": segment_words(history, number, names_of(array)),
    }


def names_of(array: Any) -> Sequence[str]:
    """Return the names of an array's axes, or numbers in their place."""
    return array.dims or [f"axis {j}" for j in range(array.ndim)]


class SplitCells:
    """The parts of chunks that are the cells of a view in which axes of an array are split.

    Parameters
    ----------
    array : ExtArray
        Its attribute ``"split"`` describes the view.
    view : LazyView
    """

    def __init__(self, array: Any, view: Any) -> None:
        splits = known_split(array.attrs.get(SPLIT), array.dims)
        self._axial, self._chunks, self._shape = array.axial, array.chunks, array.shape
        self._offset = array.info()["offset"]
        self._cell, self._extents = np.array(view.chunks, np.int64), view.shape
        self._counts = [len(splits.get(name, [name])) for name in array.dims]
        self.grid = tuple(-(-n // c) for n, c in zip(view.shape, view.chunks, strict=True))

    def addresses(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the address of the chunk that has the first element of each cell; -1: none."""
        first = cells * self._cell
        chunks = np.empty((len(cells), len(self._shape)), np.int64)
        is_there = np.ones(len(cells), bool)
        axis = 0
        for j, count in enumerate(self._counts):
            index = np.zeros(len(cells), np.int64)
            for _ in range(count):
                index = index * self._extents[axis] + first[:, axis]
                axis += 1
            is_there &= index < self._shape[j]
            index = np.minimum(index, self._shape[j] - 1)
            chunks[:, j] = (index + self._offset[j]) // self._chunks[j]
        return np.where(is_there, self._axial.addresses(chunks), -1)


def _css(colour: NDArray[np.float64]) -> str:
    """Return a colour as CSS has it."""
    return "rgb({} {} {})".format(*(round(255 * part) for part in colour.tolist()))
