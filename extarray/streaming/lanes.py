"""Functions along an axis, box by box; each box has the axis whole.

A box holds as many lanes (1-D slices along the axis) as memory allows, at least one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from extarray.common.config import config
from extarray.grid.tiles import tiles
from extarray.streaming.blocks import run
from extarray.streaming.elementwise import part_of
from extarray.streaming.limits import check_result
from extarray.streaming.operands import chunks_of, step_bytes, store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

__all__ = ["lane_bytes", "lanes", "map_lanes"]


def lane_bytes(x: Any, axes: Collection[int]) -> int:
    """Return the bytes of a part that has some axes whole and one index of each other."""
    size: int = math.prod(x.shape[j] for j in axes) * x.dtype.itemsize
    return size


def lanes(x: Any, axes: Collection[int], name: str, parts: int = 4) -> Iterator[Box]:
    """Yield boxes in which some axes are whole, if the limits allow a single lane in memory.

    The function `name` holds `parts` arrays of the size of a box.
    """
    if parts * lane_bytes(x, axes) > config.max_memory:
        what = "the array" if len(axes) == len(x.shape) else "each lane along the axis"
        check_result(
            parts * lane_bytes(x, axes), f"{name} needs {what} whole: it", "parts of the array"
        )
    return tiles(x.shape, chunks_of(x), x.dtype.itemsize, axes, step_bytes(parts))


def map_lanes(
    function: Callable[[NDArray[Any]], Any], x: Any, axis: int, target: Any, name: str
) -> None:
    """Fill an array with a function of the lanes of another.

    The function gets boxes of whole lanes, on several threads, and returns lanes of the target's
    length.  The target may be `x`, but must not share elements with it otherwise.
    """
    whole = slice(0, target.shape[axis])

    def work(_: int, box: Box) -> None:
        result = function(part_of(x, box))
        store(target, (*box[:axis], whole, *box[axis + 1 :]), result)

    # The result of a box, and the memory NumPy needs for it, may exceed the box.
    bigger = max(math.prod(target.shape) * target.dtype.itemsize, 1)
    own = max(math.prod(x.shape) * x.dtype.itemsize, 1)
    run(work, lanes(x, (axis,), name, 4 * max(1, -(-bigger // own))), own + bigger, (x,))
