"""Elements encoded for the page decode to NumPy's values."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

pytest.importorskip("tornado", reason="the server is Tornado (extra 'view')")

from extarray.common.formatting import text_of
from extarray.formats import Packing
from extarray.view.encoding import PARTS, choices_of, encode, pack

RNG = np.random.default_rng(0)
FILL = 0x7FC0F111


def decode(encoded):
    return encoded.base + encoded.scale * encoded.data.astype(np.float64)


@pytest.mark.parametrize(
    "values",
    [
        np.array([[True, False], [False, True]]),
        np.array([-128, 0, 127], "i1"),
        np.array([0, 65535], ">u2"),
        np.array([-7, 7], "<i2"),
        RNG.integers(-(2**30), 2**30, 50, dtype="i4"),
        RNG.integers(0, 2**63, 50, dtype="u8") * 2,
        RNG.standard_normal(50).astype("f2"),
        RNG.standard_normal(50).astype(">f4"),
        RNG.standard_normal(50),
        RNG.standard_normal(50) * 1e300,
        RNG.standard_normal(50) * 1e-200,
        RNG.standard_normal(50).astype(np.longdouble),
    ],
    ids=lambda x: f"{x.dtype.str} {np.abs(x).max():.0g}" if x.dtype.kind == "f" else x.dtype.str,
)
def test_numbers_come_back(values):
    got = decode(encode(values))
    assert got.shape == values.shape
    np.testing.assert_allclose(got, values.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize("start", [2**60, -(2**60), 0])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_large_integers_that_are_near_each_other_stay_apart(start, dtype):
    if start < 0 and dtype == "u8":
        start = 2**63
    encoded = encode(np.arange(start, start + 50, dtype=dtype))
    assert (np.diff(encoded.data) == 1).all()
    assert encoded.base == pytest.approx(start)


def test_large_floats_that_are_near_each_other_stay_apart():
    values = 1e9 + np.arange(50) / 8
    assert (np.diff(encode(values).data) == 0.125).all()


def test_dates_are_seconds_of_their_unit_and_nat_is_nan():
    values = np.array(["2024-05-01T00:00", "NaT", "2024-05-01T00:07"], "M8[s]")
    encoded = encode(values)
    assert np.isnan(encoded.data).tolist() == [False, True, False]
    assert encoded.data[2] - encoded.data[0] == 420
    assert encoded.base + float(encoded.data[0]) == values[0].astype(np.int64)


def test_months_are_counted_in_days():
    (choice,) = choices_of(np.dtype("M8[M]"))
    assert (choice.kind, choice.unit) == ("datetime", "1 D")
    encoded = encode(np.array(["1970-01", "1970-03"], "M8[M]"))
    assert decode(encoded).tolist() == [0, 59]


@pytest.mark.parametrize(
    ("part", "function"), [*zip(PARTS, [np.abs, np.angle, np.real, np.imag], strict=True)]
)
def test_parts_of_complex_numbers(part, function):
    values = RNG.standard_normal(40) + 1j * RNG.standard_normal(40)
    np.testing.assert_allclose(decode(encode(values, part)), function(values), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["S4", "U4", "<U4", ">U4"])
def test_texts_keep_their_order(dtype):
    texts = ["", "a", "ab", "b", "zz"]
    if dtype != "S4":
        texts += ["é", "Ω"]
    values = np.array(texts, dtype)
    assert (np.diff(decode(encode(values))) > 0).all()


def test_not_a_number_and_infinite_stay_so():
    got = encode(np.array([np.nan, np.inf, -np.inf, 1e9, 1e9 + 1])).data
    assert np.isnan(got[0]) and got[1] == np.inf and got[2] == -np.inf
    assert got[4] - got[3] == 1


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "c8"])
def test_the_fill_value_is_marked(dtype):
    values = np.array([1, -9999, 3, -9999], dtype)
    encoded = encode(values, "real", values.dtype.type(-9999))
    assert (encoded.data.view("u4") == FILL).tolist() == [False, True, False, True]
    assert encoded.base + encoded.scale * encoded.fill == -9999
    np.testing.assert_array_equal(decode(encoded)[::2], [1, 3])


def test_all_may_be_the_fill_value():
    encoded = encode(np.zeros((2, 3)), fill=0.0)
    assert (encoded.data.view("u4") == FILL).all()
    assert encoded.fill == 0


def test_the_fill_value_of_small_integers_is_a_number_of_theirs():
    encoded = encode(np.array([1, 0, 3], "i2"), fill=np.int16(0))
    assert (encoded.code, encoded.fill) == ("i2", 0.0)


def test_fields_are_found_and_read():
    dtype = np.dtype([("t", "f4"), ("p", [("x", "i2"), ("v", "f8", (2, 2))])])
    values = np.zeros((3, 4), dtype)
    values["p"]["v"][..., 1, 0] = 5
    labels = {choice.label: choice for choice in choices_of(dtype)}
    assert list(labels) == ["t", "p.x", "p.v[0, 0]", "p.v[0, 1]", "p.v[1, 0]", "p.v[1, 1]"]
    assert labels["p.v[1, 0]"].of(values[0, 0]) == 5


def test_fields_are_bounded():
    assert len(choices_of(np.dtype([("v", "f4", (1000, 1000))]))) == 256


def test_an_answer_is_facts_and_blocks():
    body = pack({"a": "é"}, np.arange(3, dtype="u2"), np.arange(2.0))
    (length,) = struct.unpack_from("<I", body)
    assert json.loads(body[4 : 4 + length]) == {"a": "é"}
    at = 4 + length
    assert at % 8 == 0
    assert np.frombuffer(body, "u2", 3, at).tolist() == [0, 1, 2]
    assert np.frombuffer(body, "f8", 2, at + 8).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (np.complex64(1 + 2j), "(1+2j)"),
        (np.bytes_(b"ab"), "b'ab'"),
        (np.str_("é"), "'é'"),
        (np.datetime64("NaT"), "NaT"),
        (np.void(b"\x01"), "b'\\x01'"),
    ],
)
def test_texts_of_values(value, text):
    assert text_of(value) == text


def test_long_texts_are_cut():
    assert len(text_of(np.str_("x" * 1000))) == 200


@pytest.mark.parametrize(
    "values",
    [
        np.array([2**64 - 1, 2**64 - 40], "u8"),
        np.array([-(2**62), -(2**62) + 5]),
        np.array(["2024-05-01T00:00:00.000000001", "2024-05-01T00:00:00.000000900"], "M8[ns]"),
        np.array(["0800-01-01", "3000-01-01", "NaT"], "M8[D]"),
    ],
)
def test_the_base_of_large_integers_and_dates_is_exact(values):
    encoded = encode(values)
    known = values[~np.isnat(values)] if values.dtype.kind == "M" else values
    least = int(known.astype("i8" if values.dtype.kind == "M" else values.dtype).min())
    assert encoded.facts()["exact"] == str(least)
    differences = [int(v) - least for v in known.astype("i8" if known.dtype.kind == "M" else "O")]
    np.testing.assert_array_equal(encoded.data[: len(known)], differences)


def test_small_integers_and_floats_have_no_exact_base():
    for values in (np.arange(5), np.array([1e9, 1e9 + 1]), np.arange(5, dtype="u1")):
        assert encode(values).facts()["exact"] is None


def test_packing_may_depend_on_the_place():
    stored = np.arange(24, dtype="i2").reshape(2, 3, 4)
    scale = np.array([0.5, 2]).reshape(2, 1, 1)
    packing = Packing(scale, 1.0, (np.int16(5),), np.dtype("f4"))
    value, _ = choices_of(stored.dtype, packing)
    wanted = (stored * scale + 1).astype("f4")
    wanted[stored == 5] = np.nan
    for index in [(1, slice(0, 3, 2), slice(1, 3)), (slice(1, 2), 0, 3), (0, 1, 1)]:
        np.testing.assert_array_equal(value.read(stored, index), wanted[index])
