"""Names of the axes."""

from __future__ import annotations

import pytest

import extarray as xa


def test_dims_are_an_attribute(factory):
    with factory.array((4, 3), dims=("y", "x"), attrs={"unit": "mm"}) as a:
        assert a.dims == ("y", "x")
        assert dict(a.attrs) == {"unit": "mm", "dims": ["y", "x"]}
        assert a.copy().dims == ("y", "x")
        a.dims = ["line", "sample"]
        assert a.dims == ("line", "sample")
        a.dims = None
        a.dims = None
        assert a.dims is None
        assert dict(a.attrs) == {"unit": "mm"}


def test_dims_are_kept_with_the_files(path):
    xa.create(path, (4,), dims=["t"]).close()
    with xa.open(path) as a:
        assert a.dims == ("t",)
        with pytest.raises(xa.ReadOnlyError):
            a.dims = ("time",)
    with xa.from_array([[1, 2]], dims=("y", "x")) as b:
        assert b.dims == ("y", "x")


def test_an_array_of_rank_zero_has_no_names_to_give():
    assert xa.create(None, (), dims=()).dims == ()
    assert xa.create(None, ()).dims is None


@pytest.mark.parametrize(
    "value", [None, "yx", 3, ["y"], ["y", "y"], ["y", 1], [["y"], "x"], {"y": 1}, []]
)
def test_what_does_not_fit_is_no_dims(value):
    a = xa.create(None, (4, 3), attrs={"dims": value})
    assert a.dims is None
    assert a.attrs["dims"] == value


@pytest.mark.parametrize(
    ("dims", "error", "words"),
    [
        ("yx", xa.ArgumentTypeError, "not the string 'yx'"),
        (3, xa.ArgumentTypeError, "not a int"),
        (("y", 1), xa.ArgumentTypeError, "the name 1 in dims"),
        (("y", "y"), xa.ArgumentError, "duplicate names"),
        (("y",), xa.ArgumentError, "1 names for 2 axes"),
    ],
)
def test_impossible_dims(dims, error, words):
    a = xa.create(None, (4, 3), dims=("y", "x"))
    with pytest.raises(error, match=words):
        a.dims = dims
    assert a.dims == ("y", "x")
    with pytest.raises(error, match=words):
        xa.create(None, (4, 3), dims=dims)
