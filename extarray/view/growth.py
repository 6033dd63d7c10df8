"""The growth map: the chunks of a plane, and the growths that added them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray.grid.drawing import segment_colours, segments

__all__ = ["GrowthMap", "growth_map"]


class GrowthMap(NamedTuple):
    """Chunks of a plane of the grid.

    Attributes
    ----------
    facts : dict
        Facts for the page: the chunks, and their segments.
    addresses : (rows, columns) array of float64
        The place of each chunk in the file, in chunks.
    owners : (rows, columns) array of uint32
        The segment of each chunk, as an index into ``facts["segments"]``.
    """

    facts: dict[str, Any]
    addresses: NDArray[np.float64]
    owners: NDArray[np.uint32]


def growth_map(
    array: Any,
    names: Sequence[str],
    chunk: Sequence[int],
    rows: tuple[int, range] | None,
    columns: tuple[int, range],
) -> GrowthMap:
    """Return the growth map of a plane's chunks.

    Parameters
    ----------
    array : ExtArray
    names : sequence of str
        Names of the axes.
    chunk : sequence of int
        A chunk index for each axis; those along `rows` and `columns` are ignored.
    rows, columns : (int, range)
        An axis, and the chunk indices along it; `rows` may be None.
    """
    axial = array.axial
    down = range(1) if rows is None else rows[1]
    across = columns[1]
    indices = np.empty((len(down), len(across), len(chunk)), np.int64)
    indices[...] = list(chunk)
    if rows is not None:
        indices[..., rows[0]] = np.asarray(down, np.int64)[:, None]
    indices[..., columns[0]] = np.asarray(across, np.int64)
    addresses = np.asarray(axial.addresses(indices.reshape(-1, len(chunk)))).reshape(
        len(down), len(across)
    )
    history = segments(axial)
    starts = np.array([segment.start_address for segment in history], np.int64)
    owners = np.searchsorted(starts, addresses, side="right") - 1
    colours = segment_colours(history)
    shown, places = np.unique(owners, return_inverse=True)
    facts = {
        "rows": None if rows is None else [down.start, down.step],
        "columns": [across.start, across.step],
        "shape": list(addresses.shape),
        "count": len(history),
        "segments": [
            {
                "number": int(number),
                "axis": history[number].axis,
                "by": history[number].by,
                "size": history[number].size,
                "start": history[number].start_address,
                "colour": [round(255 * float(part)) for part in colours[number]],
                "text": "first segment"
                if number == 0
                else f"{names[history[number].axis]} +{history[number].by:,}",
            }
            for number in shown.tolist()
        ],
    }
    return GrowthMap(
        facts, addresses.astype(np.float64), places.reshape(addresses.shape).astype(np.uint32)
    )
