"""Comparison of extarray's results with NumPy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import extarray as xa
from extarray.format.constants import PLACE_BYTES

__all__ = ["assert_same", "assert_same_files", "assert_same_outcome", "same_values"]


def same_values(got, expected) -> bool:
    """Compare bit for bit, or by value if elements have padding."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype.names:
        return all(same_values(got[name], expected[name]) for name in got.dtype.names)
    if got.dtype.char in "gG":  # extended precision: 6 of 16 bytes are padding
        return np.array_equal(got, expected, equal_nan=True)
    return got.tobytes() == expected.tobytes()


def assert_same(got, expected) -> None:
    """Assert the same type (scalar or array), dtype, shape and values."""
    assert type(got) is type(expected)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert same_values(got, expected), f"got {got!r}, expected {expected!r}"


def _metadata(path) -> bytes:
    """Return the bytes of ``.xmd`` without the writer's place, which must be that of this pair."""
    with xa.open(path) as array:
        pair = array._store.now
        at, place = pair.header.place_offset, pair.place(pair.header.uuid)
    xmd = Path(f"{path}.xmd").read_bytes()
    assert xmd[at : at + PLACE_BYTES] == place, f"{path} says that its writer wrote elsewhere"
    return xmd[:at] + bytes(PLACE_BYTES) + xmd[at + PLACE_BYTES :]


def assert_same_files(one, other) -> None:
    """Assert that two arrays have the same bytes, apart from the notes that identify the files."""
    assert _metadata(one) == _metadata(other)
    assert Path(f"{one}.xta").read_bytes() == Path(f"{other}.xta").read_bytes()


def _outcome(call):
    try:
        return call(), None
    except Exception as error:
        return None, error


def assert_same_outcome(ours, numpys, words: bool = True) -> bool:
    """Assert equal results, or that both raise: a subclass of NumPy's class, with NumPy's words.

    Skip the words about values that cannot be converted: they vary between versions of NumPy.
    Return whether there was a result.
    """
    expected, numpy_error = _outcome(numpys)
    got, our_error = _outcome(ours)
    if numpy_error is None:
        if our_error is not None:
            raise AssertionError("NumPy accepts this") from our_error
        if expected is None:
            assert got is None
        else:
            assert_same(got, expected)
        return True
    assert our_error is not None, f"NumPy refuses this: {numpy_error!r}"
    assert isinstance(our_error, type(numpy_error)), f"{our_error!r} for {numpy_error!r}"
    if words or "could not broadcast" in str(numpy_error):
        assert str(our_error) == str(numpy_error)
    return False
