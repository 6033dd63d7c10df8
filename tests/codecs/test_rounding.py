"""Rounding of mantissas: errors, ties, and what is no number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from extarray.codecs.rounding import Rounding, check_bits, has_mantissa, round_mantissas
from extarray.errors import ArgumentError, ArgumentTypeError, DTypeError

DTYPES = ["<f4", ">f4", "<f8", ">f8", "f2", "c8", "c16"]


@given(st.sampled_from(DTYPES), st.integers(1, 52), st.data())
def test_the_nearest_number_with_few_bits(kind, bits, data):
    dtype = np.dtype(kind)
    real = np.empty(0, dtype).real.dtype
    bits = min(bits, np.finfo(dtype).nmant)
    x = data.draw(hnp.arrays(dtype, hnp.array_shapes(max_dims=2, max_side=6)))
    x = np.ascontiguousarray(x)
    found = x.copy()
    round_mantissas(found, bits)
    x, found = x.reshape(-1).view(real), found.reshape(-1).view(real)
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(x.astype("f8"))
        wanted = np.ldexp(np.rint(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)
    tiny, most = np.finfo(real).tiny, np.finfo(real).max
    is_normal = (np.abs(x) >= tiny) & (np.abs(wanted) <= most)
    np.testing.assert_array_equal(found[is_normal], wanted[is_normal].astype(real))
    rest = ~is_normal
    special = rest & ((x == 0) | ~np.isfinite(x))
    assert found[special].tobytes() == x[special].tobytes()
    assert np.isfinite(found[np.isfinite(x)]).all()


def test_elements_that_stay_keep_their_sign():
    x = np.array([-0.0, 0.0, 1.1, -1.1])
    found = Rounding(x.dtype, 3, (0.0,))(x)
    assert found.tobytes() == np.array([-0.0, 0.0, 1.125, -1.125]).tobytes()


def test_ties_go_to_the_even_neighbour():
    x = np.array([1 + 1 / 4, 1 + 3 / 4, -1 - 1 / 4], "f4")
    round_mantissas(x, 1)
    assert x.tolist() == [1.0, 2.0, -1.0]


def test_the_largest_numbers_stay_finite():
    x = np.array([np.finfo("f4").max, -np.finfo("f4").max], "f4")
    round_mantissas(x, 3)
    assert x.tolist() == [float.fromhex("0x1.ep127"), -float.fromhex("0x1.ep127")]


def test_all_bits_change_nothing():
    x = np.array([1.1, np.pi])
    found = x.copy()
    round_mantissas(found, 52)
    np.testing.assert_array_equal(found, x)


def test_numbers_of_bits():
    assert [has_mantissa(np.dtype(d)) for d in ("f2", "f8", "c8", "i4", "g", "U3")] == [
        True,
        True,
        True,
        False,
        np.finfo("g").nmant == 52,
        False,
    ]
    for bits in (0, 24, -1):
        with pytest.raises(ArgumentError, match="1 to 23"):
            check_bits(bits, np.dtype("f4"))
    with pytest.raises(ArgumentTypeError):
        check_bits(2.5)
    with pytest.raises(DTypeError, match="int16"):
        check_bits(3, np.dtype("i2"))
