"""dask: task graphs that read an array late, and operations that mix dask's arrays with ours.

Dask's arrays refuse unknown arrays, but accept any tasks.  So if an operand is dask's, ours become
tasks, too.  Results are then late, unless they go to an array of ours.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import CastingError
from extarray.common.extras import require
from extarray.streaming.blocks import Source
from extarray.streaming.elementwise import apart
from extarray.streaming.limits import check_result
from extarray.streaming.operands import exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["builds_graph", "call_late", "computed", "has_late", "is_known", "late_type", "to_dask"]


def to_dask(array: Any, chunks: Any = None) -> Any:
    """Make a dask array whose tasks read the elements of an array.

    `chunks` is as for `dask.array.from_array`.  None makes groups of whole chunks, of about the
    bytes in dask's setting ``array.chunk-size``, by default 128 MiB.
    """
    dask_array = require("dask.array", "dask", "to_dask")
    return dask_array.from_array(
        array,
        chunks="auto" if chunks is None else chunks,
        # Each task carries the path of a file, so that no task waits for another that holds the
        # array.  Elements in memory go to other processes only once.
        inline_array=getattr(getattr(array, "base", None), "path", None) is not None,
        meta=np.empty((0,) * array.ndim, array.dtype),
    )


def builds_graph() -> bool:
    """Tell whether the caller's caller is dask, which asks for a copy while it builds a graph.

    ``dask.array.from_array`` copies arrays with NumPy's protocols.  But the graph must hold our
    array itself, which may be larger than memory, as it holds datasets of h5py and zarr.
    """
    caller = sys._getframe(2)
    module = str(caller.f_globals.get("__name__"))
    return caller.f_code.co_name == "from_array" and module.startswith("dask.array.")


# -- mixed operands ------------------------------------------------------------------------------


def late_type() -> type | tuple[()]:
    """Return dask's type of arrays, for `isinstance`; () unless dask has been imported."""
    kind: type | tuple[()] = getattr(sys.modules.get("dask.array"), "Array", ())
    return kind


def has_late(values: Iterable[Any]) -> bool:
    """Tell whether an argument is one of dask's arrays."""
    kind = late_type()
    return kind != () and any(isinstance(value, kind) for value in values)


def is_known(function: Callable[..., Any]) -> bool:
    """Tell whether dask has its own version of a function of NumPy."""
    found: Any = require("dask.array", "dask")
    for name in (*function.__module__.split(".")[1:], function.__name__):
        found = getattr(found, name, function)
    return found is not function


def computed(name: str, value: Any) -> Any:
    """Return the arguments with NumPy arrays in place of dask's, if the limits allow it."""

    def compute(array: Any) -> Any:
        check_result(
            array.nbytes, f"{name} works on whole arrays: computing one of dask's", "parts of it"
        )
        return array.compute()

    return exchange(value, late_type(), compute)


def call_late(
    function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], where: Any = True
) -> Any:
    """Call a function with dask arrays in place of ours; ``out=`` of ours is filled and returned.

    The function is NumPy's, or a method of a ufunc; all or none of ``out`` is ours.  Each task
    computes and writes its part of the result, where `where` holds.  Operands that share elements
    with ``out`` at other places are copied first, as always.
    """
    out = kwargs.get("out")
    outs = out if isinstance(out, tuple) else (out,)
    ours = [x for x in outs if isinstance(x, Source)]
    if not ours:
        return function(*_late(args), **_late(kwargs))
    options = {name: x for name, x in kwargs.items() if name not in ("out", "casting")}
    args, options, where = (
        exchange(x, Source, lambda source: apart(source, ours)) for x in (args, options, where)
    )
    results = function(*_late(args), **_late(options))
    results = results if isinstance(results, tuple) else (results,)
    rule = kwargs.get("casting", "same_kind")
    fitted = [
        _fitted(result, target, rule, _late(where))
        for result, target in zip(results, ours, strict=True)
    ]
    require("dask.array", "dask").store(fitted, ours, lock=False)
    return out if isinstance(out, tuple) and len(out) > 1 else ours[0]


def _fitted(result: Any, target: Any, rule: Any, where: Any) -> Any:
    """Return a result with the dtype and shape of the array that it goes to."""
    if not np.can_cast(result.dtype, target.dtype, rule):
        raise CastingError(
            f"Cannot cast output from {result.dtype!r} to {target.dtype!r} with casting rule "
            f"{rule!r}"
        )
    da = require("dask.array", "dask")
    result = da.broadcast_to(result.astype(target.dtype), target.shape)
    return result if where is True else da.where(where, result, _late(target))


def _late(value: Any) -> Any:
    return exchange(value, Source, _graph_of)


def _graph_of(source: Any) -> Any:
    source = source._released()  # tasks outlive the call, and raise if the array gains an axis
    own = getattr(source, "to_dask", None)
    return to_dask(source) if own is None else own()
