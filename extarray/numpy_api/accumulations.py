"""``ufunc.accumulate`` and ``ufunc.reduceat``: along one axis, box after box, with a carry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.grid.chunking import product
from extarray.numpy_api.reductions import ASSOCIATIVE, all_axes, can_stream, loop_dtype
from extarray.streaming.blocks import Source, box_bytes, cuts, run
from extarray.streaming.elementwise import apart, meet, new_result, part_of
from extarray.streaming.meta_arrays import shadow, single
from extarray.streaming.operands import chunks_of, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from extarray.streaming.blocks import Box

__all__ = ["accumulate", "reduceat"]


def accumulate(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: tuple[Any, ...] = (None,)
) -> Any:
    """Streamed form of ``ufunc.accumulate``.

    Parameters
    ----------
    ufunc : ufunc
    x, axis, dtype, out
        As NumPy hands them to ``__array_ufunc__``.

    Returns
    -------
    ndarray or Source
        Element for element as NumPy's: each box begins with what the one before it ended with.
        NotImplemented where the ufunc is not associative, or makes objects.
    """
    (given,) = out
    if ufunc not in ASSOCIATIVE or not can_stream(x):
        return NotImplemented
    with np.errstate(all="ignore"):  # NumPy's errors
        ufunc.accumulate(single(x), axis, dtype, single(given))
    dtype = loop_dtype(ufunc, x, dtype, given)
    if dtype.hasobject:
        return NotImplemented
    if given is not None and given.shape != x.shape:
        ufunc.accumulate(shadow(x), axis, None, shadow(given))
        return NotImplemented  # NumPy takes an output of more axes
    (along,) = all_axes(axis, x.ndim)
    target = new_result(x.shape, dtype, "accumulate") if given is None else given
    operand = apart(x, (target,))

    def lane(boxes: Iterator[Box]) -> None:
        carry = None
        for box in boxes:
            block = part_of(operand, box).astype(dtype)
            if carry is not None:
                first = block[_at(along, slice(0, 1))]
                ufunc(carry, first, out=first)
            ufunc.accumulate(block, along, out=block)
            carry = block[_at(along, slice(-1, None))].copy()
            store(target, box, block)

    _run_lanes(lane, x, along, max(x.dtype.itemsize, dtype.itemsize))
    return target


def reduceat(
    ufunc: np.ufunc,
    x: Any,
    indices: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: tuple[Any, ...] = (None,),
) -> Any:
    """Streamed form of ``ufunc.reduceat``.

    Parameters
    ----------
    ufunc : ufunc
    x, indices, axis, dtype, out
        As NumPy hands them to ``__array_ufunc__``.

    Returns
    -------
    ndarray or Source
        NotImplemented where the ufunc is not associative, or makes objects, or the indices do not
        increase.
    """
    (given,) = out
    firsts = np.asarray(indices)
    if (
        ufunc not in ASSOCIATIVE
        or not can_stream(x)
        or firsts.ndim != 1
        or firsts.dtype.kind not in "iu"
        or (np.diff(firsts) <= 0).any()
    ):
        return NotImplemented
    with np.errstate(all="ignore"):  # NumPy's errors
        ufunc.reduceat(single(x), [0], axis, dtype, single(given))
    dtype = loop_dtype(ufunc, x, dtype, given)
    if dtype.hasobject:
        return NotImplemented
    (along,) = all_axes(axis, x.ndim)
    shape = tuple(firsts.size if j == along else n for j, n in enumerate(x.shape))
    misfit = given is not None and given.shape != shape
    if misfit or (firsts.size and not 0 <= firsts[0] <= firsts[-1] < x.shape[along]):
        ufunc.reduceat(shadow(x), firsts, axis, None, shadow(given))
        raise AssertionError(f"NumPy takes the indices {indices!r} and out {given!r} for {x!r}")
    # Of dates, a dtype as an argument cannot have the unit; they stay what they are.
    chosen = None if dtype.kind in "mM" else dtype
    aside = given is None or isinstance(given, Source) or meet(x, given)
    target = new_result(shape, dtype, "reduceat") if aside else given

    def lane(boxes: Iterator[Box]) -> None:
        for box in boxes:
            low, high = box[along].start, box[along].stop
            # Sections that begin in this box, and the one that goes on from before, if any.
            begin, end = np.searchsorted(firsts, [low, high])
            goes_on = begin > 0 and (begin == end or firsts[begin] > low)
            starts = firsts[begin:end] - low
            if goes_on:
                starts = np.concatenate([[0], starts])
            if not starts.size:
                continue
            found = ufunc.reduceat(part_of(x, box), starts, along, chosen)
            place = target[tuple(slice(None) if j == along else s for j, s in enumerate(box))]
            if goes_on:
                before = place[_at(along, slice(begin - 1, begin))]
                ufunc(before, found[_at(along, slice(0, 1))], out=before)
                found = found[_at(along, slice(1, None))]
            place[_at(along, slice(begin, end))] = found

    _run_lanes(lane, x, along, max(x.dtype.itemsize, dtype.itemsize))
    if given is None or not aside:
        return target
    given[...] = target
    return given


def _at(axis: int, piece: slice) -> tuple[slice, ...]:
    """Index of a piece of an axis."""
    return (*[slice(None)] * axis, piece)


def _run_lanes(work: Callable[[Iterator[Box]], None], x: Any, axis: int, itemsize: int) -> None:
    """Call a function with the boxes of each lane, one after the other along the axis."""
    pieces = cuts(x.shape, chunks_of(x), itemsize, limit=box_bytes())
    others = [(slice(0, 1),) if j == axis else piece for j, piece in enumerate(pieces)]

    def lane(_: int, box: Box) -> None:
        work((*box[:axis], piece, *box[axis + 1 :]) for piece in pieces[axis])

    run(lane, product(*others), math.prod(x.shape) * itemsize)
