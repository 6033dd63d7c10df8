"""Operands of NumPy's functions: the same values in NumPy's arrays and in ours."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
from compare import same_values
from hypothesis import strategies as st

import extarray as xa

__all__ = ["check", "layouts", "ours"]

#: Seeds of layouts; 0 is the simplest one.
layouts = st.integers(0, 40)


def ours(x, layout: int = 1) -> xa.ExtArray:
    """An array of ours with the values of one of NumPy's: chunks, order and history by a seed."""
    x = np.asarray(x)
    rng = np.random.default_rng(layout)
    chunks = [int(rng.integers(1, 5)) for _ in x.shape]
    order = "CFZH"[layout % 4]
    start = [int(rng.integers(0, n + 1)) for n in x.shape] if layout else x.shape
    a = xa.create(None, start, x.dtype, chunks=chunks, order=order)
    missing = [j for j, n in enumerate(x.shape) for _ in range(3)]
    rng.shuffle(missing)
    for j in missing:
        a.extend(j, int(rng.integers(0, x.shape[j] - a.shape[j] + 1)))
    a.resize(x.shape)
    if x.shape or x.size:
        a[...] = x
    return a


def _outcome(call, arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call(*arguments)
        except Exception as error:
            return error, set()
    return result, {w.category for w in caught}


def _compare(got, expected, close):
    if isinstance(expected, (tuple, list)):
        assert isinstance(got, type(expected)), (got, expected)
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            _compare(one, other, close)
        return
    if expected is None or isinstance(expected, (bool, int)):
        assert got is expected or got == expected
        return
    if not isinstance(got, xa.ExtArray):
        assert type(got) is type(expected), (type(got), type(expected))
    assert got.dtype == expected.dtype, (got.dtype, expected.dtype)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    got = np.asarray(got)
    if close:
        tolerance = (
            1e-2 if np.finfo(got.dtype).bits == 16 else 1e-5 if got.dtype in ("f4", "c8") else 1e-11
        )
        np.testing.assert_allclose(got, expected, tolerance, tolerance, equal_nan=True)
    elif got.dtype.kind in "fc":
        np.testing.assert_array_equal(got, expected)
    else:
        assert same_values(got, expected), (got, expected)


def check(call, *arrays, layout: int = 1, close: bool = False, memory: int | None = 4096):
    """A function gives the same for arrays of ours, all or some of them, as for NumPy's.

    It is called in so little memory that there are many boxes.  The same exceptions are raised;
    the same kinds of warnings given.
    """
    expected, warned = _outcome(call, [x.copy() for x in arrays])
    limited = xa.config.set(max_memory=memory) if memory else contextlib.nullcontext()
    ways = {tuple([True] * len(arrays))}
    if len(arrays) > 1:
        ways |= {tuple(i == layout % len(arrays) for i in range(len(arrays)))}
    for way in sorted(ways):
        given = [
            ours(x, layout + i) if own else x.copy()
            for i, (x, own) in enumerate(zip(arrays, way, strict=True))
        ]
        with limited:
            got, also = _outcome(call, given)
        if isinstance(expected, Exception):
            assert isinstance(got, type(expected)), f"{got!r} for {expected!r}"
            continue
        if isinstance(got, Exception):
            raise AssertionError(f"NumPy gives {expected!r}") from got
        _compare(got, expected, close and getattr(expected, "dtype", np.dtype(float)).kind in "fc")
        assert also == warned, (also, warned)
