"""Scenes as images: colour composites, and the stretch of contrast."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.common.errors import ArgumentError, ShapeError
from extarray.plot.figures import finished, on_axes

__all__ = ["composite", "stretch"]


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
        Given axes are returned in its place.

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
    figure, drawn = on_axes(ax, (5.0, 5.2), path=path)
    drawn.imshow(image, interpolation="nearest")
    drawn.set_xlabel("column")
    drawn.set_ylabel("row")
    return finished(figure, drawn, title, path, dpi, ax)
