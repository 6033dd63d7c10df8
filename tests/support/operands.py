"""Operands of NumPy's functions: the same values in NumPy's arrays and in ours."""

from __future__ import annotations

import contextlib

import numpy as np
from streaming import assert_close, outcome, small_boxes

__all__ = ["check", "check_out"]


def _ours(factory, stack: contextlib.ExitStack, x, layout: int):
    """Return our array with the values of NumPy's; a seed chooses chunks, order and history.

    Seed 0 gives the simplest one, with all elements in the first segment.
    """
    x = np.asarray(x)
    rng = np.random.default_rng(layout)
    chunks = [int(rng.integers(1, 5)) for _ in x.shape]
    start = [int(rng.integers(0, n + 1)) for n in x.shape] if layout else x.shape
    a = stack.enter_context(factory.array(start, x.dtype, chunks=chunks, order="CFZH"[layout % 4]))
    for j in rng.permutation([j for j in range(x.ndim) for _ in range(3)]):
        a.extend(int(j), int(rng.integers(0, x.shape[j] - a.shape[j] + 1)))
    a.resize(x.shape)
    a[...] = x
    return a


def check(factory, call, *arrays, layout: int = 1) -> None:
    """Require equal results of a function for our arrays, all or one of them, and NumPy's.

    Little memory forces many boxes, on several threads.  Errors must have the same kind, warnings
    the same words, and changes of operands must agree.
    """
    inner = [x.copy() for x in arrays]
    expected, warned = outcome(lambda: call(*inner))
    one = layout % len(arrays)
    for way in {tuple(i == one for i in range(len(arrays))), (True,) * len(arrays)}:
        with contextlib.ExitStack() as stack:
            given = [
                _ours(factory, stack, x, layout + i) if own else x.copy()
                for i, (x, own) in enumerate(zip(arrays, way, strict=True))
            ]
            with small_boxes():
                got, our_warnings = outcome(lambda given=given: call(*given))
            if isinstance(expected, Exception):
                assert isinstance(got, type(expected)), f"{got!r} for {expected!r}"
                continue
            if isinstance(got, Exception):
                raise AssertionError(f"NumPy gives {expected!r}") from got
            assert our_warnings == warned
            assert_close(got, expected, arrays[0])
            for x, changed in zip(given, inner, strict=True):
                assert_close(x[...], changed[...], arrays[0])


def check_out(factory, call, *arrays, layout: int = 1) -> None:
    """Require that a function fills our ``out=`` like NumPy's, whatever its operands are."""
    expected = np.full_like(np.asarray(call(*arrays)), 1)
    call(*arrays, out=expected)
    for own in (True, False):
        with contextlib.ExitStack() as stack:
            out = _ours(factory, stack, np.full_like(expected, 1), layout + 7)
            given = [
                _ours(factory, stack, x, layout + i) if own else x for i, x in enumerate(arrays)
            ]
            with small_boxes():
                assert call(*given, out=out) is out
            assert_close(out[...], expected, arrays[0])
