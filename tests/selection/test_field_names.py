"""Names of fields among other entries of an index: equal to NumPy in two steps, and to h5py."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa

DTYPE = np.dtype([("v", "f4"), ("w", "i4", (2,)), ("n", "S3")])

INDICES = [
    ("v", slice(2, 5)),
    (slice(2, 5), "v"),
    (2, "v", 1),
    (2, 1, "n"),
    (0, 3, ["v", "n"]),
    ("w", 1),
    (["w", "v"], 1),
    ("n", "v", slice(None), 0),
    (slice(None, None, -2), "n", "v"),
    ([0, 2], "v", 1),
    ("v", ..., 0),
    ("n", np.arange(24).reshape(6, 4) % 3 == 0),
    ("v", None, 0),
]


def parts(index):
    """Return the names in an index as NumPy accepts them, and the rest of it."""
    names = [item for item in index if isinstance(item, str)]
    lists = [item for item in index if isinstance(item, list) and isinstance(item[0], str)]
    rest = tuple(item for item in index if not any(item is name for name in [*names, *lists]))
    return (lists[0] if lists else names[0] if len(names) == 1 else names), rest


@pytest.fixture
def both():
    model = np.zeros((6, 4), DTYPE)
    model["v"] = np.arange(24).reshape(6, 4)
    model["w"] = np.arange(48).reshape(6, 4, 2)
    model["n"] = b"abc"
    return xa.from_array(model, chunks=2), model


@pytest.mark.parametrize("index", INDICES, ids=map(repr, INDICES))
class TestNamesAmongOtherParts:
    def test_reads(self, both, index):
        array, model = both
        names, rest = parts(index)
        expected = model[names][rest]
        for source in (array, array.lazy[...]):
            found = source[index]
            assert type(found) is type(expected)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)

    def test_writes_no_other_field(self, both, index):
        array, model = both
        names, rest = parts(index)
        values = np.zeros_like(model[names][rest])
        array[index] = values
        model[names][rest] = values
        np.testing.assert_array_equal(array[...], model)


def test_as_h5py_reads(both, tmp_path):
    h5py = pytest.importorskip("h5py")
    array, model = both
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", data=model)
        for index in [("v", np.s_[2:5]), (np.s_[2:5], "v"), ("v", 2, 1), ("n", "v", 0)]:
            theirs = dataset[index]
            np.testing.assert_array_equal(array[index], theirs)
            assert type(array[index]) is type(theirs)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (("q", 0), xa.FieldError, "no field of name q"),
        (("v", "q", 0), xa.FieldError, "no field of name q"),
        (("v", 9), xa.BoundsError, "out of bounds for axis 0 with size 6"),
        (("v", 0, 0, 0), xa.BoundsError, "too many indices"),
        (("v", "v"), xa.ArgumentError, "v"),
    ],
)
def test_what_is_refused(both, index, error, message):
    array, _ = both
    with pytest.raises(error, match=message):
        array[index]
    with pytest.raises(error, match=message):
        array[index] = 0


def test_names_of_an_array_without_fields_are_refused_as_before():
    with pytest.raises(IndexError, match="only integers, slices"):
        xa.zeros((2, 2))["v", 0]
