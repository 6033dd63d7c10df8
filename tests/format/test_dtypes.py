"""Every dtype of fixed size goes to disk and back, bit for bit; others are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from compare import assert_same
from model import sample

import extarray as xa
from extarray.format.dtypes import decode_dtype

_KINDS = "?bBhHiIlLqQefdgFDG"
# Of two C types of one size, the first has NumPy's name for the file's type.
SIMPLE = list({np.dtype(char).str: np.dtype(char) for char in reversed(_KINDS)}.values())
SWAPPED = [dtype.newbyteorder("S") for dtype in SIMPLE if dtype.itemsize > 1]
TIMES = [
    np.dtype(spec)
    for spec in [
        "M8[ns]",
        "m8[D]",
        "M8[25s]",
        ">M8[us]",
        ">m8[7h]",
        "M8[Y]",
        "m8",
        "M8[as]",
        "m8[W]",
    ]
]
TEXTS = [np.dtype(spec) for spec in ["S1", "S7", "U1", "U5", ">U3", "V1", "V13"]]
STRUCTURED = [
    np.dtype([("x", "i4"), ("y", "f8")]),
    np.dtype([("x", "u1"), ("y", ">f8"), ("z", "S3")], align=True),
    np.dtype([("p", "f4", (3,)), ("q", "i2", (2, 2))]),
    np.dtype([("outer", [("inner", "<U2"), ("deep", [("z", "M8[ms]", (2,))])]), ("b", "?")]),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "u2"], "offsets": [4, 0], "itemsize": 16}),
    np.dtype([(("a title", "name"), "i4"), ("ünicode", "u1")]),
    np.dtype([("v", "V3"), ("g", "g")]),
    np.dtype((">f8", [("high", ">u4"), ("low", ">u4")])),
]
ALL = [*SIMPLE, *SWAPPED, *TIMES, *TEXTS, *STRUCTURED]


def name(dtype) -> str:
    return str(dtype)[:40]


def assert_round_trip(factory, dtype):
    values = sample(dtype, (3, 4))
    with factory.array((3, 4), dtype, chunks=(2, 3)) as array:
        array[...] = values
        array.extend(0, 2)
        expected = np.zeros((5, 4), dtype)
        expected[:3] = values
        if factory.on_disk:
            array.close()
            again = factory.open(array)
        else:
            again = array
        with again:
            assert again.dtype == dtype
            assert again.dtype.isalignedstruct == dtype.isalignedstruct
            assert again.dtype.fields == dtype.fields
            assert again.itemsize == dtype.itemsize
            assert_same(again[...], expected)
            assert_same(again[2, 1], expected[2, 1])
            assert_same(again[::-2, 1:], expected[::-2, 1:])
            assert_same(again.fill_value, np.zeros((), dtype)[()])


@pytest.mark.parametrize("dtype", ALL, ids=name)
def test_round_trip(factory, dtype):
    assert_round_trip(factory, dtype)


@pytest.mark.parametrize("dtype", ALL, ids=name)
def test_fill_values(factory, dtype):
    fill = sample(dtype, (), 3)[()]
    with factory.array((2, 1), dtype, chunks=(2, 2), fill_value=fill) as array:
        array.extend(1, 3)
        expected = np.empty((2, 4), dtype)
        expected[...] = fill
        assert_same(array[...], expected)
        assert_same(array.fill_value, expected[0, 0])
        if factory.on_disk:
            array.close()
            with factory.open(array, mode="r+") as again:
                assert_same(again.fill_value, expected[0, 0])
                again.extend(0, 1)
                assert_same(again[2], expected[0])


@pytest.mark.parametrize("dtype", ALL, ids=name)
def test_scalars_in_and_out(memory, dtype):
    values = sample(dtype, (3,))
    with memory.array((3,), dtype, chunks=2) as array:
        for i, value in enumerate(values):
            array[i] = value
        assert_same(array[...], values)
        for i in range(3):
            assert_same(array[i], values[i])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant == 52, reason="a long double is a double here")
def test_a_long_double_of_another_machine_is_refused(path, monkeypatch):
    """The bytes of such a long double mean something else, though NumPy's name is the same."""
    with xa.create(path, (2,), [("z", "G")], fill_value=(1.5,)) as array:
        assert array[0]["z"] == 1.5
    there = 64 if np.finfo(np.longdouble).nmant == 112 else 113
    monkeypatch.setattr("extarray.format.dtypes._long_digits", lambda: there)
    with pytest.raises(xa.FormatError, match=f"{there} binary digits here"):
        xa.open(path)


def test_a_record_that_is_aligned_elsewhere():
    """Another machine may align 8 bytes by 4; only the flag in the dtype depends on it."""
    text = '{"fields":[{"name":"a","type":"<f8","offset":4}],"itemsize":12,"aligned":true}'
    dtype = decode_dtype(json.loads(text))
    assert dtype == np.dtype({"names": ["a"], "formats": ["<f8"], "offsets": [4], "itemsize": 12})
    assert not dtype.isalignedstruct


ML_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("kind", ML_DTYPES)
def test_ml_dtypes(factory, kind):
    ml_dtypes = pytest.importorskip("ml_dtypes", exc_type=ImportError)
    dtype = np.dtype(getattr(ml_dtypes, kind))
    with factory.array((3,), dtype, chunks=2, fill_value=dtype.type(1.5)) as array:
        array[:2] = expected = np.abs(sample("f4", (2,))).astype(dtype)
        array.extend(0, 1)
        if factory.on_disk:
            array.close()
            array = factory.open(array)
        with array:
            assert array.dtype == dtype
            assert_same(array[:2], expected)
            assert_same(array[3], np.array(1.5).astype(dtype)[()])
            assert_same(array[...].astype("f4"), np.asarray(array[...], "f4"))


def test_ml_dtypes_whose_parts_have_names(path):
    ml_dtypes = pytest.importorskip("ml_dtypes", exc_type=ImportError)
    dtype = np.dtype((ml_dtypes.bfloat16, [("low", "u1"), ("high", "u1")]))
    xa.create(path, (2,), dtype).close()
    with xa.open(path) as array:
        assert array.dtype == dtype
        assert array.dtype.type is ml_dtypes.bfloat16


@pytest.mark.slow
@pytest.mark.parametrize("kind", ML_DTYPES)
def test_ml_dtypes_files_without_ml_dtypes(forked, path, kind):
    """Later users of the file get the dtype, or learn which package defines it."""
    ml_dtypes = pytest.importorskip("ml_dtypes", exc_type=ImportError)
    with xa.create(path, shape=(3,), dtype=getattr(ml_dtypes, kind)) as array:
        array[...] = 1
    forked(
        "import sys\n"
        "import extarray as xa\n"
        "assert 'ml_dtypes' not in sys.modules\n"
        "with xa.open(sys.argv[1]) as array:\n"
        "    assert array.dtype.name == sys.argv[2], array.dtype\n"
        "    assert array[0] == 1\n",
        path,
        kind,
    )
    text = forked(
        "import sys\n"
        "sys.modules['ml_dtypes'] = None\n"
        "import extarray as xa\n"
        "try:\n"
        "    xa.open(sys.argv[1])\n"
        "except xa.ExtArrayError as error:\n"
        "    print(type(error).__name__, error)\n",
        path,
    )
    assert text.startswith("MissingExtraError")
    assert "ml_dtypes" in text


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["'bfloat16'", "[('a', 'bfloat16'), ('b', 'i4')]"])
def test_ml_dtypes_by_name(forked, dtype):
    """The name works whether or not the package has been imported before."""
    pytest.importorskip("ml_dtypes", exc_type=ImportError)
    text = forked(
        "import sys\n"
        "import extarray as xa\n"
        "assert 'ml_dtypes' not in sys.modules\n"
        f"print(xa.zeros(2, {dtype}).dtype)\n"
    )
    assert "bfloat16" in text
    text = forked(
        "import sys\n"
        "sys.modules['ml_dtypes'] = None\n"
        "import extarray as xa\n"
        "try:\n"
        f"    xa.zeros(2, {dtype})\n"
        "except TypeError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    assert text.startswith("DTypeError")
    assert "pip install ml_dtypes" in text


@pytest.mark.parametrize(
    "spec",
    ["f4", "<f4", np.float32, np.dtype("f4"), "float32", float, int, bool, complex, "i8, f4"],
)
def test_whatever_numpy_takes_for_a_dtype(memory, spec):
    with memory.array((2,), spec) as array:
        assert array.dtype == np.dtype(spec)


def test_float_by_default(memory):
    with xa.create(None, shape=(2,)) as array:
        assert array.dtype == np.float64


REFUSED = {
    "object": ("O", TypeError),
    "field of objects": ([("x", "i4"), ("y", "O")], TypeError),
    "deep field of objects": ([("x", [("y", "O", (2,))])], TypeError),
    "StringDType": (np.dtypes.StringDType(), TypeError),
    "bytes of no length": ("S", TypeError),
    "text of no length": ("U0", TypeError),
    "void of no length": ("V", TypeError),
    "no fields": ([], TypeError),
    "date without a unit in the other byte order": (">M8", TypeError),
    "field of such differences": ([("x", "i4"), ("y", ">m8", (2,))], TypeError),
    "sub-array": (("f4", (2, 3)), ValueError),
    "sub-array of no length": (("f4", (0,)), ValueError),
}


@pytest.mark.parametrize(("spec", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(path, spec, error):
    for place in (None, path):
        with pytest.raises(error) as caught:
            xa.create(place, shape=(2,), dtype=spec)
        assert isinstance(caught.value, xa.ExtArrayError)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("spec", ["nonsense", 3.5, "f3", {"a": 1}])
def test_no_dtype_at_all(spec):
    with pytest.raises(TypeError):
        xa.create(None, shape=(2,), dtype=spec)


def test_nan_payloads_and_signs_survive(factory):
    bits = np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001, 0x8000000000000000], "u8")
    with factory.array((3,), "f8", chunks=2) as array:
        array[...] = bits.view("f8")
        assert array[...].view("u8").tolist() == bits.tolist()
        array[0] = bits.view("f8")[0]
        assert array[:1].view("u8").tolist() == bits[:1].tolist()


def test_a_negative_zero_is_a_fill_value_of_its_own(factory):
    with factory.array((2,), "f8", fill_value=-0.0) as array:
        array.extend(0, 2)
        assert np.signbit(array[...]).all()


@pytest.mark.parametrize(
    "dtype",
    ["1:2:0", "nonsense", "i5", "(2,", "{", "M8[parsec]", {"names": ["a"]}, ("i4", "x")]
    + [{"names": ["a"], "formats": ["1:2:0"]}, ("i4", (-1,))],
    ids=str,
)
def test_what_is_no_data_type_is_an_error_of_the_family(dtype):
    """NumPy raises TypeError, ValueError or SyntaxError."""
    with pytest.raises(xa.DTypeError, match="is not a data type"):
        xa.create(None, (2,), dtype)
