"""The growth map, as the page draws it: rectangles, lines, colours and texts, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.array.facts import frozen_among
from extarray.grid.growth_map import (
    grid_bounds,
    plane_at,
    segment_colours,
    segment_numbers,
    segment_words,
    segments,
    text_colour,
)

__all__ = ["growth_map"]


def growth_map(
    array: Any,
    names: Sequence[str],
    chunk: Sequence[int],
    rows: tuple[int, range] | None,
    columns: tuple[int, range],
) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return the growth map of a plane of chunks.

    Parameters
    ----------
    array : ExtArray
    names : sequence of str
        Names of all axes.
    chunk, rows, columns
        As for `plane_at`.

    Returns
    -------
    facts : dict
        The chunk indices of the cells, the segments that the plane shows, and the rectangles
        outside the bounds.  ``facts["blocks"]`` has the names, types and lengths of the blocks.
    blocks : list of ndarray
        The address of each chunk, its segment, as a place in ``facts["segments"]``, and whether
        its label is inside the bounds; where labels stand along both axes; rectangles of one
        segment; lines between cells of the same segment (thin) and of different ones (heavy); if
        chunks of the array can be frozen, whether each chunk is.  A rectangle or line is top,
        bottom, left and right, in cells.
    """
    history = segments(array)
    plane = plane_at(
        array.axial,
        chunk,
        rows,
        columns,
        names,
        classes=partial(segment_numbers, history),
        bounds=grid_bounds(array),
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
    frozen = frozen_among(array, plane.addresses)
    if frozen is not None:
        blocks["frozen"] = frozen.astype("u1")
    facts = {
        "rows": None if rows is None else [plane.rows.start, plane.rows.step],
        "columns": [plane.columns.start, plane.columns.step],
        "shape": list(plane.classes.shape),
        "count": len(history),
        "outside": plane.outside,
        "segments": [
            {
                "number": number,
                "axis": history[number].axis,
                "by": history[number].by,
                "size": history[number].size,
                "start": history[number].start_address,
                "colour": _css(colours[number]),
                "ink": text_colour(colours[number]),
                "text": segment_words(history, number, names),
            }
            for number in shown.tolist()
        ],
        "blocks": [[name, block.dtype.str[1:], block.size] for name, block in blocks.items()],
    }
    return facts, list(blocks.values())


def _css(colour: NDArray[np.float64]) -> str:
    """Return a colour as CSS has it."""
    return "rgb({} {} {})".format(*(round(255 * part) for part in colour.tolist()))
