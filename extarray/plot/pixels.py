"""An image each of whose pixels shows the extreme of its cells, at any size and zoom.

matplotlib shows one of the cells that share a pixel, and so hides the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.common.errors import ArgumentTypeError
from extarray.common.extras import require
from extarray.streaming.extremes import extremes_of_groups

__all__ = ["ExtremeImage", "add_image"]

_image: Any = require("matplotlib.image", "plot", "a picture")
_transforms: Any = require("matplotlib.transforms", "plot", "a picture")


def add_image(
    ax: Any, x: NDArray[np.float64], y: NDArray[np.float64], cells: NDArray[Any], **options: Any
) -> Any:
    """Add an image to axes.

    Parameters
    ----------
    ax : matplotlib Axes
    x, y : ndarray
        The edges of columns and rows, rising or falling, one more than there are cells.
    cells : ndarray
    **options
        As for ``Axes.imshow``.
    """
    values = {name: options.pop(name) for name in ("vmin", "vmax") if name in options}
    try:
        drawn = ExtremeImage(ax, x, y, **options)
    except AttributeError as error:  # matplotlib's, with the name of the class
        if (text := str(error).partition("unexpected keyword argument ")[2]) == "":
            raise
        raise ArgumentTypeError(f"a picture has no argument {text}, nor has Axes.imshow") from None
    drawn.set_data(cells)
    if drawn.get_clip_path() is None:
        drawn.set_clip_path(ax.patch)
    if values:
        drawn.norm.vmin, drawn.norm.vmax = values.get("vmin"), values.get("vmax")
    drawn._scale_norm(None, None, None)
    ax.add_image(drawn)
    drawn.set_extent((x[0], x[-1], y[-1], y[0]))
    return drawn


class ExtremeImage(_image.AxesImage):  # type: ignore[misc]
    """An image of cells, even or uneven, whose pixels show extremes.

    Parameters
    ----------
    ax, x, y, **options
        As for `add_image`.
    """

    def __init__(
        self, ax: Any, x: NDArray[np.float64], y: NDArray[np.float64], **options: Any
    ) -> None:
        super().__init__(ax, **{"interpolation": "nearest", "origin": "upper", **options})
        self._edges = (np.asarray(y), np.asarray(x))

    def make_image(
        self, renderer: Any, magnification: float = 1.0, unsampled: bool = False
    ) -> tuple[Any, float, float, Any]:
        """Return the pixels of the axes, and where they begin."""
        if unsampled or self.get_interpolation() != "nearest":
            found: tuple[Any, float, float, Any] = super().make_image(
                renderer, magnification, unsampled
            )
            return found
        left, bottom, right, top = self.axes.bbox.extents
        left, bottom = np.floor(left), np.floor(bottom)
        size = [
            max(1, round((np.ceil(n) - m) * magnification))
            for n, m in ((top, bottom), (right, left))
        ]
        middle = ((bottom + top) / 2, (left + right) / 2)
        shown = [
            self._shown(axis, (bottom, left)[axis], size[axis], magnification, middle)
            for axis in (0, 1)
        ]
        cells = np.ma.filled(self._A.astype(np.float64), np.nan)
        for axis, (groups, _, _) in enumerate(shown):
            edges = self._edges[axis]
            cells = np.flip(cells, axis) if edges[0] > edges[-1] else cells
            cells = extremes_of_groups(cells, groups, axis)
        (_, rows, in_rows), (_, columns, in_columns) = shown
        colours = self.to_rgba(np.ma.masked_invalid(cells), alpha=self.get_alpha(), bytes=True)
        pixels = colours[rows[:, None], columns]
        pixels[~np.logical_and.outer(in_rows, in_columns)] = 0
        return pixels, left, bottom, _transforms.IdentityTransform()

    def _shown(
        self, axis: int, first: float, n: int, magnification: float, middle: tuple[float, float]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the cells that share pixels, and which of these groups each pixel shows.

        A cell belongs to the pixel in which it begins; a pixel in which none begins shows the one
        that reaches into it.
        """
        edges = self._edges[axis]
        edges = edges[::-1] if edges[0] > edges[-1] else edges
        points = np.empty((n + 1, 2))
        points[:, 1 - axis] = first + np.arange(n + 1) / magnification
        points[:, axis] = middle[1 - axis]
        borders = self.axes.transData.inverted().transform(points)[:, 1 - axis]
        falls = borders[0] > borders[-1]
        borders = borders[::-1] if falls else borders
        count = len(edges) - 1
        starts = np.searchsorted(edges[:-1], borders, side="left")
        low, high = starts[:-1].copy(), starts[1:]
        low[0] = max(0, low[0] - 1)  # the cell that reaches into the first pixel
        begins = low < high
        begins[0] = True
        groups = np.minimum(low[begins], count - 1)
        group = np.cumsum(begins) - 1
        middles = (borders[:-1] + borders[1:]) / 2
        # A narrow image may lie in a part of a pixel.
        inside = ((middles >= edges[0]) & (middles < edges[-1])) | (
            (low < high) & (borders[1:] > edges[0]) & (borders[:-1] < edges[-1])
        )
        if falls:
            group, inside = group[::-1], inside[::-1]
        stops = np.append(groups[1:], np.clip(high[-1], groups[-1] + 1, count))
        return np.stack([groups, stops], 1), group, inside

    def get_cursor_data(self, event: Any) -> Any:
        """Return the element below the cursor."""
        place = []
        for edges, at, n in zip(
            self._edges, (event.ydata, event.xdata), self._A.shape, strict=True
        ):
            turn = edges[0] > edges[-1]
            i = int(np.searchsorted(edges[::-1] if turn else edges, at, side="right")) - 1
            place.append(n - 1 - i if turn else i)
        if any(not 0 <= i < n for i, n in zip(place, self._A.shape, strict=True)):
            return None
        return self._A[tuple(place)]
