"""Texts of a StringDType that are missing, in arrays whose texts have a fixed length."""

import numpy as np
import pytest

import extarray as ea

NA = [None, float("nan")]


def texts(*items, na):
    return np.array(items, np.dtypes.StringDType(na_object=na))


def append(a, values):
    a.shrink(0, len(a))
    a.append(values)


def assign(a, values):
    a[...] = values


def scatter(a, values):
    a[[2, 1, 0]] = values[::-1]


def write_view(a, values):
    a.lazy[::-1][:] = values[::-1]


def copy(a, values):
    np.copyto(a, values)


WAYS = [append, assign, scatter, write_view, copy]


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("na", NA)
@pytest.mark.parametrize("dtype", ["U4", "S4"])
def test_the_declared_text_stands_for_missing_ones(write, na, dtype):
    a = ea.create(None, 3, dtype, attrs={"missing_value": "?"})
    write(a, texts("ab", na, "q", na=na))
    assert a[...].tolist() == np.array(["ab", "?", "q"], dtype).tolist()


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("na", NA)
@pytest.mark.parametrize("mark", [None, "too long", "ab"])
def test_missing_texts_without_a_text_of_their_own_are_refused(write, na, mark):
    a = ea.create(None, 3, "U4", attrs=None if mark is None else {"missing_value": mark})
    if write is append:
        a.shrink(0, 3)
    before = a[...].tolist()
    with pytest.raises(ea.ExtArrayError, match="missing") as error:
        write(a, texts("ab", na, "q", na=na))
    assert isinstance(error.value, TypeError)
    assert a[...].tolist() == before


def test_appended_texts_of_any_length_stay_whole():
    a = ea.zeros(0, "U4")
    with pytest.raises(ea.ExtArrayError, match="without truncating"):
        a.append(np.array(["longer"], np.dtypes.StringDType()))
    a.append(np.array(["longer"], np.dtypes.StringDType()), widen=True)
    assert a[...].tolist() == ["longer"]


def test_fields_have_no_text_for_missing_ones():
    a = ea.zeros(2, [("name", "U4"), ("mass", "f4")])
    with pytest.raises(ea.ExtArrayError, match="in a field of <U4; replace"):
        a["name"] = texts("ab", None, na=None)


def test_texts_outside_of_ascii_are_no_byte_strings():
    with pytest.raises(ea.ExtArrayError, match="ASCII"):
        ea.zeros(0, "S4").append(np.array(["\xe9"], np.dtypes.StringDType()))


@pytest.mark.parametrize("empty", ["", b""])
def test_masked_texts_become_empty_ones(empty):
    kind = type(empty)
    given = np.ma.masked_array(np.array(["ab", "cd"]).astype(kind), mask=[False, True])
    assert ea.from_array(given)[...].tolist() == np.array(["ab", ""]).astype(kind).tolist()
