"""Elements as images: planes of arrays, and colour composites of scenes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.common.arguments import as_axis
from extarray.common.errors import ArgumentError, BoundsError, ShapeError
from extarray.grid.growth_map import axis_titles
from extarray.plot.figures import finished, on_axes

__all__ = ["composite", "plane_of", "slice_image", "stretch"]

_MOST_PIXELS = 2000  # along an axis; larger planes are read with a step
_MOST_LINES = 200  # of chunks along an axis; more would cover the picture


def stretch(image: Any, percentiles: tuple[float, float] = (2.0, 98.0)) -> NDArray[np.float32]:
    """Stretch the contrast of each channel of an image to 0...1.

    Parameters
    ----------
    image : array_like, shape (rows, columns, channels)
        Real numbers; NaN is allowed and becomes 0.
    percentiles : (float, float)
        The percentiles of a channel, in 0...100, that become 0 and 1; values beyond are clipped.

    Returns
    -------
    ndarray of float32, shape as `image`
        A constant channel becomes 0.

    Examples
    --------
    >>> stretch([[[0], [5], [10]]], (0, 100)).ravel()
    array([0. , 0.5, 1. ], dtype=float32)
    """
    values = np.asarray(image, dtype=np.float64)
    if values.ndim != 3 or 0 in values.shape:
        raise ShapeError(
            f"an image must have shape (rows, columns, channels) without zeros, not {values.shape}"
        )
    values = np.where(np.isfinite(values), values, np.nan)
    flat = values.reshape(-1, values.shape[2])
    result = np.zeros(values.shape, dtype=np.float32)
    for channel in range(values.shape[2]):
        known = flat[:, channel][~np.isnan(flat[:, channel])]
        if known.size == 0:
            continue
        low, high = np.percentile(known, percentiles)
        if high > low:
            scaled = (values[..., channel] - low) / (high - low)
            result[..., channel] = np.nan_to_num(scaled, nan=0.0).clip(0.0, 1.0)
    return result


def composite(
    cube: Any,
    bands: Sequence[int],
    ax: Any = None,
    *,
    percentiles: tuple[float, float] = (2.0, 98.0),
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
) -> Any:
    """Draw a colour composite: three bands of a scene as red, green and blue.

    Parameters
    ----------
    cube : ExtArray or ndarray, shape (rows, columns, bands)
        Only the three bands are read.
    bands : sequence of three int
        The bands to show as red, green and blue.
    ax : matplotlib Axes, optional
        Axes to draw into; default: a new figure.
    percentiles : (float, float)
        As in `stretch`.
    title : str, optional
        Title of the axes.
    path : path, optional
        Save the figure there, in the format of the suffix.
    dpi : float
        Dots per inch in the file.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    MissingExtraError
        Matplotlib is not installed.
    ArgumentError
        `cube` does not have three axes, or `bands` are not three.
    """
    if len(cube.shape) != 3:
        raise ShapeError(f"a scene must have shape (rows, columns, bands), not {tuple(cube.shape)}")
    if len(bands) != 3:
        raise ArgumentError(f"a composite takes three bands, not {len(bands)}")
    image = stretch(
        np.stack([np.asarray(cube[:, :, band]) for band in bands], axis=-1), percentiles
    )
    figure, drawn = on_axes(ax, (5.0, 5.2))
    drawn.imshow(image, interpolation="nearest")
    drawn.set_xlabel("column")
    drawn.set_ylabel("row")
    return finished(figure, drawn, title, path, dpi)


def slice_image(
    a: Any,
    ax: Any = None,
    *,
    axes: Sequence[int | str] = (-2, -1),
    at: Mapping[int | str, int] | None = None,
    chunks: bool = False,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
    **options: Any,
) -> Any:
    """Draw a plane of elements as an image, or an array of one axis as a line.

    Parameters
    ----------
    a : ExtArray
        Its elements are real numbers, booleans, or complex numbers, shown by magnitude.
    ax : matplotlib Axes, optional
        Axes to draw into; default: a new figure, with a colour bar.
    axes : sequence of int or str
        The axes of the plane, by number or name: downward, and to the right.
    at : mapping of int or str to int, optional
        Index of each other axis, ``{axis: index}``; default 0.
    chunks : bool
        Whether thin lines show the ends of chunks.
    title : str, optional
        Default: the indices of the other axes.
    path : path, optional
        Save the figure there, in the format of the suffix.
    dpi : float
        Dots per inch in the file.
    **options
        Options of ``Axes.imshow``: ``cmap``, ``vmin``, ``vmax``; for a line, of ``Axes.plot``.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    MissingExtraError
        Matplotlib is not installed.
    ArgumentError
        Not a plane of the array, or its elements are not numbers.
    BoundsError
        An index in `at` is out of bounds.

    Notes
    -----
    Reads at most about 2000 x 2000 elements: along the axes of a larger plane, one in several.
    """
    line = a.ndim == 1
    shown, index = plane_of(a, (0,) if line else axes, at or {})
    if a.dtype.kind not in "biufc":
        raise ArgumentError(f"elements of {a.dtype} are not numbers; draw a view of one field")
    steps = [max(1, -(-a.shape[j] // _MOST_PIXELS)) for j in shown]
    key = list(index)
    for j, step in zip(shown, steps, strict=True):
        key[j] = slice(None, None, step)
    values = np.asarray(a[tuple(key)])
    if shown != sorted(shown):
        values = values.T
    values = np.abs(values) if values.dtype.kind == "c" else values
    titles = axis_titles(a.dims, a.ndim)
    held = [f"{titles[j]} = {i}" for j, i in enumerate(index) if j not in shown]
    figure, drawn = on_axes(ax, (6.4, 4.8))
    if line:
        drawn.plot(np.arange(len(values)) * steps[0], values, **{"linewidth": 1.0, **options})
        drawn.set_xlabel(titles[0])
        drawn.set_ylabel(_unit(a))
        drawn.margins(x=0)
    else:
        height, width = (a.shape[j] for j in shown)
        is_long = max(height, width) > 8 * min(height, width)
        options.setdefault("aspect", "auto" if is_long else "equal")
        image = drawn.imshow(
            values,
            interpolation="nearest",
            extent=(-0.5, width - 0.5, height - 0.5, -0.5),
            **options,
        )
        drawn.set_ylabel(titles[shown[0]])
        drawn.set_xlabel(titles[shown[1]])
        if ax is None:
            figure.colorbar(image, ax=drawn, label=_unit(a))
    if chunks:
        _draw_chunk_ends(a, drawn, shown)
    return finished(figure, drawn, ", ".join(held) if title is None else title, path, dpi)


def plane_of(
    a: Any, axes: Sequence[int | str], at: Mapping[int | str, int]
) -> tuple[list[int], list[Any]]:
    """Return the numbers of the axes of a plane, and the index of every other axis."""

    def number(axis: int | str) -> int:
        return as_axis(axis, a.ndim, a)

    shown = [number(axis) for axis in axes]
    if len(set(shown)) != len(shown) or len(shown) != min(2, a.ndim) or not shown:
        raise ArgumentError(f"axes {tuple(axes)!r} are not a plane of an array with {a.ndim} axes")
    index: list[Any] = [0] * a.ndim
    for axis, place in at.items():
        j = number(axis)
        if j in shown:
            raise ArgumentError(f"at fixes axis {axis!r}, which is an axis of the picture")
        if not -a.shape[j] <= place < a.shape[j]:
            raise BoundsError(f"index {place} is out of bounds for axis {j} with size {a.shape[j]}")
        index[j] = place % a.shape[j]
    return shown, index


def _unit(a: Any) -> str:
    """Return the name and unit of the elements, if attributes give them."""
    attrs = a.attrs.asdict()
    texts = [attrs.get("long_name", ""), attrs.get("units", attrs.get("unit", ""))]
    name, unit = (text if isinstance(text, str) else "" for text in texts)
    return f"{name} [{unit}]".strip() if unit else name


def _draw_chunk_ends(a: Any, ax: Any, shown: list[int]) -> None:
    """Draw a thin line at the end of each chunk inside the bounds."""
    offset = a.info()["offset"]
    for j, line in zip(reversed(shown), (ax.axvline, ax.axhline), strict=False):
        first = -offset[j] % a.chunks[j] or a.chunks[j]
        ends = range(first, a.shape[j], a.chunks[j])
        if len(ends) <= _MOST_LINES:
            for end in ends:
                line(end - 0.5, color="white", linewidth=0.6, alpha=0.8)
