"""Functions that ask what an array is, and not what is in it: no element is read."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.streaming.blocks import Source
from extarray.streaming.elementwise import meet
from extarray.streaming.functions import streams
from extarray.streaming.limits import check_result
from extarray.streaming.meta_arrays import shadow
from extarray.streaming.operands import as_array

if TYPE_CHECKING:
    from collections.abc import Callable

__all__: list[str] = []


def _describes(function: Callable[..., Any]) -> None:
    """Register a function that NumPy may call with arrays that have shape and dtype alone."""

    @streams(function)
    def form(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_shadow, args), **{key: _shadow(x) for key, x in kwargs.items()})


def _shadow(x: Any) -> Any:
    """What stands for an array of ours; anything else as it is."""
    return shadow(x) if isinstance(x, Source) else x


for _function in (
    np.can_cast,
    np.common_type,
    np.einsum_path,
    np.iscomplexobj,
    np.isrealobj,
    np.ndim,
    np.result_type,
    np.shape,
    np.size,
):
    _describes(_function)


@streams(np.may_share_memory)
def may_share_memory(a: Any, b: Any, /, max_work: Any = 0) -> bool:
    """Streamed form: whether arrays may have elements in common."""
    return meet(as_array(a), as_array(b))


def _makes_like(function: Callable[..., Any], parameters: Callable[..., Any]) -> None:
    """Register a function that makes an array of the shape and the dtype of another."""
    signature = inspect.signature(parameters)

    @streams(function)
    def form(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        a = next(iter(given.arguments.values()))
        if not isinstance(a, Source):
            return NotImplemented  # the value is ours
        own = {name: given.arguments.get(name) for name in ("dtype", "shape")}
        dtype = a.dtype if own["dtype"] is None else np.dtype(own["dtype"])
        extents = a.shape if own["shape"] is None else np.atleast_1d(own["shape"]).tolist()
        check_result(
            math.prod(extents) * dtype.itemsize,
            f"the result of {function.__name__}",
            "extarray.create",
        )
        return function(shadow(a), *given.args[1:], **given.kwargs)


def _empty_like(
    prototype: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: Any = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> None:
    """What `numpy.empty_like` takes: compiled, it has no signature before NumPy 2.4."""


_makes_like(np.empty_like, _empty_like)
for _maker in (np.full_like, np.ones_like, np.zeros_like):
    _makes_like(_maker, _maker)
