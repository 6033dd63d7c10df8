"""Values that are put or added to elements: cast, multiplied and broadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.errors import CastingError, DTypeError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["as_elements", "scaled", "spread"]

# Which kinds of numbers may be factors of elements of a kind.
_FACTORS = {"i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}


def as_elements(values: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values as elements, cast as NumPy's assignment casts.

    Parameters
    ----------
    values : array_like
    dtype : dtype

    Returns
    -------
    ndarray
        `values` where they are elements already.
    """
    if isinstance(values, np.ndarray) and values.dtype == dtype:
        return values
    cast = np.empty(np.shape(values), dtype)
    cast[...] = values
    return cast


def scaled(values: ArrayLike, alpha: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values as elements, times a factor.

    Parameters
    ----------
    values : array_like
    alpha : scalar
        Of the kind of the elements, or a simpler one.  For integers it is taken as one of theirs,
        so that -1 subtracts from unsigned ones too.
    dtype : dtype

    Returns
    -------
    ndarray

    Raises
    ------
    DTypeError
        A TypeError: elements of this type are not added.
    CastingError
        A TypeError: `alpha` is of another kind, or no scalar.

    Examples
    --------
    >>> scaled([1, 2], -1, np.dtype("u1"))
    array([255, 254], dtype=uint8)
    """
    if dtype.kind not in _FACTORS:
        raise DTypeError(f"elements of {dtype} are not added; use integers, floats or complex")
    elements = as_elements(values, dtype)
    if type(alpha) is int and alpha == 1:
        return elements
    factor = np.asarray(alpha)
    if factor.ndim or factor.dtype.kind not in _FACTORS[dtype.kind]:
        raise CastingError(
            f"alpha {alpha!r} is no factor of elements of {dtype}; multiply the values instead"
        )
    product: NDArray[Any] = elements * factor.astype(dtype)
    return product


def spread(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Values, broadcast to the shape of what they are written to.

    Parameters
    ----------
    values : ndarray
        It may have more axes in front, of one element each.
    shape : tuple of int

    Returns
    -------
    ndarray
        A view.

    Raises
    ------
    ShapeError
        A ValueError: they do not fit.

    Examples
    --------
    >>> spread(np.array([[1, 2]]), (2,))
    array([1, 2])
    """
    if values.shape == shape:
        return values
    given = values
    while given.ndim > len(shape) and given.shape[0] == 1:
        given = given[0]
    try:
        return np.broadcast_to(given, shape)
    except ValueError:
        raise ShapeError(
            f"values of shape {values.shape} do not fit a selection of shape {shape}"
        ) from None
