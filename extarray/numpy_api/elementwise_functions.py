"""Functions that treat each element alone, and comparisons of all elements: box by box."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, ArgumentTypeError, ShapeError
from extarray.common.formatting import shape_text
from extarray.format.missing import plain_texts
from extarray.numpy_api.indexing import nonzero
from extarray.numpy_api.registry import streams
from extarray.streaming.blocks import Source
from extarray.streaming.elementwise import (
    as_mask,
    as_operand,
    assigning,
    elementwise,
    fits,
    part_of,
    run_over,
    shape_of,
    stream,
)
from extarray.streaming.meta_arrays import empty
from extarray.streaming.operands import as_array, in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box


__all__ = ["set_parts"]


def _apply(
    function: Callable[..., Any],
    operands: Sequence[Any],
    out: Any = None,
    fill: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Apply a function elementwise; `fill` is the variant that fills ``out=``."""
    operands = [as_operand(x) for x in operands]
    if fill is None:
        fill = assigning(function)
    # Empty samples tell the dtype of the result, and raise NumPy's errors.
    samples = [empty(x) for x in operands]
    if out is None:
        return elementwise(fill, operands, dtype=function(*samples).dtype, name=name)
    if not isinstance(out, (Source, np.ndarray)):
        raise ArgumentTypeError("return arrays must be of ArrayType")
    fill(*samples, out=np.empty(0, out.dtype))
    shape = np.broadcast_shapes(out.shape, *map(shape_of, operands))
    if shape != out.shape:
        raise ShapeError(
            f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast "
            f"shape {shape}"
        )
    return elementwise(fill, operands, out, name=name)


def _check_fits(shape: tuple[int, ...], into: tuple[int, ...]) -> None:
    if not fits(shape, into):
        raise ShapeError(
            f"could not broadcast input array from shape {shape_text(shape)} into shape "
            f"{shape_text(into)}"
        )


def _pointwise(function: Callable[..., Any], *names: str) -> None:
    """Register a streamed form of `function`; `names` are the parameters that are operands."""
    signature = inspect.signature(function)
    takes_out = "out" in signature.parameters
    # np.round rounds integers to tens, but not into out=.
    always_fills = takes_out and function not in (np.around, np.round)

    def form(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        out = given.pop("out", None)
        if isinstance(out, tuple):
            (out,) = out
        present = [name for name in names if given.get(name) is not None]
        operands = [given[name] for name in present]
        # Leave options of ufuncs, and scalar results, to NumPy.
        if given.get("kwargs") or not any(map(shape_of, map(as_operand, operands))):
            return NotImplemented
        for name in given:
            if name not in present:
                given[name] = in_memory(given[name], function.__name__)

        def call(*parts: Any, **options: Any) -> Any:
            own = signature.bind_partial()
            own.arguments = given | dict(zip(present, parts, strict=True))
            return function(*own.args, **own.kwargs, **options)

        fills = always_fills if out is None else takes_out
        return _apply(call, operands, out, call if fills else None, function.__name__)

    streams(function)(form)


for _function, _names in (
    (np.angle, "z"),
    (np.around, "a"),
    (np.clip, "a a_min a_max min max"),
    (np.digitize, "x"),
    (np.fix, "x"),
    (np.i0, "x"),
    (np.imag, "val"),
    (np.interp, "x"),
    (np.iscomplex, "x"),
    (np.isclose, "a b rtol atol"),
    (np.isneginf, "x"),
    (np.isposinf, "x"),
    (np.isreal, "x"),
    (np.real, "val"),
    (np.round, "a"),
    (np.sinc, "x"),
):
    _pointwise(_function, *_names.split())


@streams(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Streamed form: take elements from `x` or `y`."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ArgumentError("either both or neither of x and y should be given")
    operands = [condition, x, y]
    if not any(map(shape_of, map(as_operand, operands))):
        return NotImplemented
    return _apply(np.where, operands, name="where")


@streams(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Streamed form: for each element, take the choice of the first condition that holds."""
    if isinstance(condlist, Source) or isinstance(choicelist, Source) or not len(condlist):
        return NotImplemented
    n = len(condlist)
    operands = [*condlist, *choicelist, default]
    if len(choicelist) != n or not any(map(shape_of, map(as_operand, operands))):
        return NotImplemented

    def call(*parts: Any) -> Any:
        return np.select(parts[:n], parts[n : 2 * n], parts[-1])

    return _apply(call, operands, name="select")


@streams(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    """Streamed form: for each element, take the choice that its index names."""
    if isinstance(choices, (Source, np.ndarray)):
        return NotImplemented

    def call(index: Any, *parts: Any) -> Any:
        return np.choose(index, parts, mode=mode)

    operands = [a, *choices]
    if not any(map(shape_of, map(as_operand, operands))):
        return NotImplemented
    return _apply(call, operands, out, name="choose")


@streams(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Streamed form: replace NaNs and infinities; ``copy=False`` changes the array itself."""
    options = [nan, posinf, neginf]
    if not shape_of(as_operand(x)) or any(isinstance(option, Source) for option in options):
        return NotImplemented

    def call(part: NDArray[Any]) -> Any:
        return np.nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf)

    return _apply(call, [x], None if copy else x, name="nan_to_num")


@streams(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> Any:
    """Streamed form: assign where a mask holds."""
    if not isinstance(dst, (Source, np.ndarray)):
        raise ArgumentTypeError(
            f"copyto() argument 1 must be numpy.ndarray, not {type(dst).__name__}"
        )
    src = as_operand(src)
    if isinstance(src, np.ndarray):
        src = plain_texts(src, dst.dtype, getattr(dst, "attrs", {}))
    if len(shape_of(src)) > len(dst.shape):
        return NotImplemented
    mask = as_mask(where)
    np.copyto(np.empty(0, dst.dtype), empty(src), casting=casting, where=empty(mask))
    _check_fits(shape_of(src), dst.shape)
    _check_fits(shape_of(mask), dst.shape)

    def fill(part: Any, out: tuple[NDArray[Any]], where: Any = True) -> None:
        np.copyto(out[0], part, casting=casting, where=where)

    stream(fill, [src], (dst,), mask)
    return None


def set_parts(array: Any, name: str, values: Any) -> None:
    """Assign to the real or the imaginary parts of an array; the other parts stay."""
    values = as_operand(values)
    setattr(np.empty(0, array.dtype), name, empty(values))
    while len(shape_of(values)) > len(array.shape) and len(values) == 1:
        values = values[0]
    _check_fits(shape_of(values), array.shape)

    def fill(old: Any, new: Any, out: tuple[NDArray[Any]]) -> None:
        out[0][...] = old
        setattr(out[0], name, new)

    stream(fill, [array, values], (array,))


class _FoundError(Exception):
    """A box differs; ends the comparison."""


def _everywhere(holds: Callable[..., Any], operands: Sequence[Any]) -> bool:
    """Tell whether `holds` is true of every box of the operands."""
    operands = [as_operand(x) for x in operands]

    def work(_: int, box: Box) -> None:
        if not holds(*[part_of(x, box) for x in operands]):
            raise _FoundError

    try:
        run_over(work, np.broadcast_shapes(*map(shape_of, operands)), operands)
    except _FoundError:
        return False
    return True


@streams(np.allclose)
def allclose(
    a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False
) -> bool:
    """Streamed form: whether arrays are equal within a tolerance."""

    def holds(a: Any, b: Any, rtol: Any, atol: Any) -> bool:
        return np.allclose(a, b, rtol, atol, equal_nan)

    return _everywhere(holds, [a, b, rtol, atol])


@streams(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Streamed form: whether arrays have the same shape and elements."""
    try:
        a1, a2 = as_array(a1), as_array(a2)
    except Exception:  # noqa: BLE001 -- as NumPy: a non-array is not equal
        return False
    if a1.shape != a2.shape:
        return False
    return _everywhere(lambda x, y: np.array_equal(x, y, equal_nan), [a1, a2])


@streams(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> bool:
    """Streamed form: whether arrays are equal once they are broadcast."""
    try:
        a1, a2 = as_array(a1), as_array(a2)
        np.broadcast_shapes(a1.shape, a2.shape)
    except Exception:  # noqa: BLE001 -- as NumPy: arrays that cannot be compared are not equal
        return False
    return _everywhere(np.array_equiv, [a1, a2])
