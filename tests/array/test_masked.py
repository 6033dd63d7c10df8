"""Masked arrays as values: masked elements become the fill value."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa

VALUES = np.ma.masked_equal(np.array([[1.0, -9999.0, 3.0], [4.0, 5.0, -9999.0]]), -9999.0)


class Blocks:
    """A source of dtype int that gives masked floats, as scaled variables do."""

    shape = VALUES.shape
    dtype = np.dtype("i2")

    def __getitem__(self, key):
        return VALUES[key] * 1.5


@pytest.fixture(params=["disk", "memory"])
def array(request, path):
    kept = path if request.param == "disk" else None
    with xa.create(kept, (2, 3), "f4", chunks=(2, 2), fill_value=np.nan) as array:
        array[...] = 7
        yield array


@pytest.mark.parametrize(
    "key",
    [..., np.s_[::-1, ::-1], ([[0], [1]], [0, 1, 2]), np.ones((2, 3), bool)],
    ids=["box", "reversed", "points", "mask"],
)
def test_assignment(array, key):
    values = VALUES.ravel() if isinstance(key, np.ndarray) else VALUES
    array[key] = values
    expected = np.zeros((2, 3), "f4")
    expected[key] = values.filled(np.nan)
    np.testing.assert_array_equal(array[...], expected)


def test_single_elements(array):
    array[0, 0] = np.ma.masked
    array[0, 1] = VALUES[0, 2]
    array[1] = VALUES[1]
    array[0, 2] = np.ma.array(8.0, mask=False)
    np.testing.assert_array_equal(array[...], np.array([[np.nan, 3, 8], [4, 5, np.nan]], "f4"))


def test_append(array):
    array.append(VALUES)
    array.append(VALUES.astype("i2"))
    np.testing.assert_array_equal(array[2:], np.tile(VALUES.filled(np.nan), (2, 1)).astype("f4"))
    with pytest.raises(xa.CastingError, match="same_kind"):
        array.append(VALUES.astype("c16"))


def test_from_array(path):
    with xa.from_array(VALUES, path, fill_value=np.nan) as array:
        np.testing.assert_array_equal(array[...], VALUES.filled(np.nan))
    np.testing.assert_array_equal(xa.from_array(VALUES)[...], VALUES.filled(0))


def test_blocks_of_another_dtype(array):
    found = xa.from_array(Blocks(), fill_value=-1)
    assert found.dtype == "f8"
    np.testing.assert_array_equal(found[...], (VALUES * 1.5).filled(-1))
    array.append(Blocks())
    np.testing.assert_array_equal(array[2:], (VALUES * 1.5).filled(np.nan).astype("f4"))


def test_nothing_masked(array):
    array[...] = np.ma.array(np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(array[...], np.arange(6).reshape(2, 3))


def test_records_are_not_masked_in_part():
    array = xa.create(None, (2,), [("a", "i4"), ("b", "f8")])
    values = np.ma.array([(1, 2.0), (3, 4.0)], array.dtype)
    array[...] = values
    values.mask[0] = (True, False)
    for write in (array.__setitem__, array.write):
        with pytest.raises(xa.ArgumentError, match="filled"):
            write(..., values)
    with pytest.raises(xa.ArgumentError, match="filled"):
        array["b"] = np.ma.masked_equal([1.0, 2.0], 1.0)
    array["b"] = np.ma.array([8.0, 9.0])
    assert array[...].tolist() == [(1, 8.0), (3, 9.0)]


class Labels:
    """A source of masked texts, read block by block."""

    def __init__(self, labels):
        self.labels, self.shape, self.dtype = labels, labels.shape, labels.dtype

    def __getitem__(self, key):
        return self.labels[key]


@pytest.mark.parametrize("source", [np.ma.asarray, Labels])
@pytest.mark.parametrize("code", ["U", "S"])
def test_appended_texts_are_not_cut_unless_they_are_masked(source, code):
    array = xa.create(None, (1,), f"{code}4", fill_value="none")
    labels = np.ma.array(["longer", "b", "band"], f"{code}9")
    labels[0] = np.ma.masked
    array.append(source(labels))
    assert array[...].tolist() == np.array(["none", "none", "b", "band"], f"{code}4").tolist()
    array.append(source(labels.astype(f"{code}1")[:2]))
    assert array[4:].tolist() == np.array(["none", "b"], f"{code}4").tolist()
    labels.mask = [False, True, False]
    with pytest.raises(xa.CastingError, match="strings of 6 characters"):
        array.append(source(labels))
    assert array.shape == (6,)
