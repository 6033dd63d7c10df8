"""Common parts of the tests of streaming operations: small boxes, and comparison with NumPy."""

from __future__ import annotations

import contextlib
import sys
import warnings
from contextvars import ContextVar
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from in_threads import together

import extarray as xa
from extarray.array.lazy import LazyView
from extarray.common.limits import limits

__all__ = ["assert_close", "compared", "masks", "numbers", "outcome", "small_boxes", "some_nans"]

#: Dtypes that reductions stream.
numbers = st.sampled_from(
    [np.dtype(d) for d in ["f8", "i4", "u1", "?", "f4", "f2", "c8", ">f8", "i8", "g", ">i2"]]
)

#: Warnings of single operations, whose number depends on the boxes.
_OF_OPERATIONS = ("invalid value", "divide by zero", "overflow", "underflow")


if getattr(sys.flags, "context_aware_warnings", False):

    @contextlib.contextmanager
    def _warnings_of_a_call():
        """Collect warnings given meanwhile in this thread and in those that it starts."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught

else:
    #: The recipient of warnings: threads start with a copy of the context.
    _told: ContextVar[list] = ContextVar("told")

    @together
    @contextlib.contextmanager
    def _telling():
        """Pass each warning to the call that gives it; without a recipient it is an error."""

        def tell(message, *args, **kwargs):
            caught = _told.get(None)
            if caught is None:
                raise message
            caught.append(warnings.WarningMessage(message, *args, **kwargs))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = tell
            yield

    @contextlib.contextmanager
    def _warnings_of_a_call():
        """Collect warnings given meanwhile, although filters belong to the process."""
        caught = []
        token = _told.set(caught)
        try:
            with _telling():
                yield caught
        finally:
            _told.reset(token)


_streaming_all = together(lambda: mock.patch.object(limits, "streamed_bytes", 1))


@contextlib.contextmanager
def small_boxes(nbytes: int = 64, threads: int = 2):
    """Use boxes of a few elements, on several threads."""
    with _streaming_all(), xa.config.set(max_memory=nbytes * 4 * threads, threads=threads):
        yield


def outcome(call):
    """Return the result of a call, or its error, and its warnings."""
    with _warnings_of_a_call() as caught, np.errstate(all="ignore"):
        try:
            result = call()
        except Exception as error:
            result = error
    texts = {str(warning.message).rstrip(".") for warning in caught}  # newer NumPys omit it
    return result, {text for text in texts if not text.startswith(_OF_OPERATIONS)}


def compared(ours, numpys, data=None, exact: bool = False) -> None:
    """Require equal results and warnings, or equal errors.

    Results may differ by rounding, relative to the result and to `data`, its operand.
    """
    expected, warned = outcome(numpys)
    with small_boxes():
        got, our_warnings = outcome(ours)
    if isinstance(expected, Exception):
        assert isinstance(got, type(expected)), f"{got!r} for {expected!r}"
        assert str(got) == str(expected)
        return
    if isinstance(got, Exception):
        raise got
    assert our_warnings == warned
    assert_close(got, expected, data, exact)


def assert_close(got, expected, data=None, exact: bool = False) -> None:
    """Require the same type, dtype and shape, and the same values up to rounding.

    A lazy view counts as NumPy's view.
    """
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_close(one, other, data, exact)
        return
    if isinstance(got, LazyView):
        assert expected.base is not None
        got = got[...] if got.ndim else got.read()
    assert type(got) is type(expected)
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert got == expected
        return
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if exact or expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    arrays = [np.asarray(x) for x in (expected, data) if x is not None]
    # Means and roots of integers are computed in double precision, whatever they are stored in.
    kinds = [x.dtype if x.dtype.kind in "fc" else np.dtype("f8") for x in arrays]
    eps = max(float(np.finfo(kind).eps) for kind in kinds)
    sizes = [np.max(np.abs(x[np.isfinite(x)]), initial=0) for x in arrays]
    np.testing.assert_allclose(
        got, expected, rtol=200 * eps, atol=200 * eps * min(float(max(sizes)), 1e4)
    )


def some_nans(data: np.ndarray, seed: int = 3) -> np.ndarray:
    """Copy an array, with NaNs here and there, and in whole rows."""
    data = data.copy()
    if data.dtype.kind in "fc":
        rng = np.random.default_rng(seed)
        data[rng.random(data.shape) < 0.3] = np.nan
        if data.ndim and len(data):
            data[0] = np.nan
    return data


@st.composite
def masks(draw, shape):
    """Draw masks that broadcast to a shape; True means no mask."""
    own = tuple(draw(st.sampled_from([n, 1])) for n in shape[draw(st.integers(0, len(shape))) :])
    seed = draw(st.none() | st.integers(0, 3))
    if seed is None:
        return True
    return np.random.default_rng(seed).random(own) < 0.6


@st.composite
def axes(draw, ndim):
    """Draw None, an axis, or several axes."""
    if ndim == 0:
        return draw(st.sampled_from([None, ()]))
    one = st.integers(-ndim, ndim - 1)
    several = st.lists(st.integers(0, ndim - 1), unique=True, max_size=ndim).map(tuple)
    return draw(st.none() | one | several)
