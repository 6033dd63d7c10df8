"""Cumulative sums and products: accumulations of a ufunc, of an axis or of all elements."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.numpy_api.accumulations import accumulate
from extarray.streaming.derived import Computed, flat
from extarray.streaming.functions import streams
from extarray.streaming.operands import as_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__: list[str] = []


def _stream_cumulative(
    function: Callable[..., Any], ufunc: np.ufunc, past_nan: bool = False
) -> None:
    """Register a cumulative sum or product."""

    def filled(part: NDArray[Any]) -> NDArray[Any]:
        return np.where(np.isnan(part), part.dtype.type(ufunc.identity), part)

    @streams(function)
    def form(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        a = as_array(a)
        if past_nan and a.dtype.kind in "fc":
            a = Computed(filled, a, dtype=a.dtype)
        return (
            accumulate(ufunc, flat(a), 0, dtype, (out,))
            if axis is None
            else accumulate(ufunc, a, operator.index(axis), dtype, (out,))
        )


_stream_cumulative(np.cumsum, np.add)
_stream_cumulative(np.cumprod, np.multiply)
_stream_cumulative(np.nancumsum, np.add, past_nan=True)
_stream_cumulative(np.nancumprod, np.multiply, past_nan=True)


def _stream_of_standard(function: Callable[..., Any], ufunc: np.ufunc) -> None:
    """Register a cumulative sum or product of the array API standard."""

    @streams(function)
    def form(
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: bool = False,
    ) -> Any:
        x = as_array(x)
        if include_initial or (axis is None and len(x.shape) != 1):
            return NotImplemented
        return accumulate(ufunc, x, 0 if axis is None else axis, dtype, (out,))


if hasattr(np, "cumulative_sum"):  # new in NumPy 2.1
    _stream_of_standard(np.cumulative_sum, np.add)
    _stream_of_standard(np.cumulative_prod, np.multiply)
