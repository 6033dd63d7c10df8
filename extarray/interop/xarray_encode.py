"""Encode variables by the CF conventions, or like the stored ones."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from extarray.array.growth import wider_dtype
from extarray.common.errors import ArgumentError, VariableError
from extarray.common.extras import require
from extarray.format.missing import marks_missing
from extarray.interop.xarray_coding import Coded, Coding, has_coding, recorded_warnings
from extarray.interop.xarray_texts import as_texts, marked

__all__ = ["codings", "decoded", "encode_variables", "with_encoding"]

conventions: Any = require("xarray.conventions", "xarray", "the xarray backend")
common: Any = require("xarray.backends.common", "xarray")
core: Any = require("xarray.core.common", "xarray")
strings: Any = require("xarray.coding.strings", "xarray")
xr: Any = require("xarray", "xarray")

#: Characters of a text that stands for a missing one.
_LONGEST_MARK = 1000
#: Encodings that make xarray turn dates and booleans into numbers.
_PACKING = {"units", "calendar", "_FillValue", "missing_value", "scale_factor", "add_offset"}


def encode_variables(variables: Mapping[Any, Any]) -> dict[Any, Any]:
    """Encode variables by the CF conventions, in dtypes that arrays support.

    Dates, time differences and booleans keep their dtype unless the encoding asks for numbers, by
    units for example.  Numbers in a coarse unit would lose precision in later appends.

    Raises
    ------
    CastingError
        A TypeError: the encoding cannot represent the times.  Numbers are checked when they are
        read.
    ArgumentError
        A ValueError: xarray refuses an encoding.
    """
    bounds = {v.attrs.get("bounds") for v in variables.values() if "units" in v.encoding}
    kept = {
        name: _keep(v) for name, v in variables.items() if _stays(v) and name not in bounds - {None}
    }
    others = {name: v for name, v in variables.items() if name not in kept}
    marks: dict[Any, dict[str, Any]] = {}
    with recorded_warnings() as log:
        full = {}
        for name, variable in others.items():
            if variable.dtype.kind == "T":
                others[name] = variable.copy(data=variable.to_numpy().astype(object))
            is_time = _is_time(variable)
            full[name], marks[name] = (variable, {}) if is_time else marked(others[name], name)
        try:
            # The encoding of numbers does not depend on their values, so xarray need not read them.
            coded, _ = conventions.cf_encoder({n: _hollow(v) for n, v in full.items()}, {})
        except (OverflowError, ValueError) as error:
            notes = getattr(error, "__notes__", [])
            raise ArgumentError(" ".join([str(error), *notes])) from error
    coded = {name: _marking(_of_fixed_size(v, name), marks[name]) for name, v in coded.items()}
    said = _attrs_of_coding(coded)
    for name, variable in others.items():
        # Attributes that a variable already had describe the given values, not the encoding.
        asked = {key: value for key, value in said[name].items() if key not in variable.attrs}
        coding = Coding(name, coded[name].dtype, asked, is_new=True)
        coded[name] = _checked(variable, coded[name], coding)
    for entry in log:
        warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
    return {name: kept[name] if name in kept else coded[name] for name in variables}


def _hollow(variable: Any) -> Any:
    """Return a numeric variable without its elements, any other unchanged."""
    if variable.dtype.kind not in "biufc":
        return variable
    is_packed = {"scale_factor", "add_offset"} & set(variable.encoding)
    # xarray would divide integers in their own dtype, and fail.
    dtype = np.float64 if is_packed and variable.dtype.kind in "biu" else variable.dtype
    nothing = np.zeros((0,) * variable.ndim, dtype)
    return xr.Variable(variable.dims, nothing, variable.attrs, variable.encoding)


def _checked(given: Any, coded: Any, coding: Coding) -> Any:
    """Return an encoded variable whose values are compared with the given ones."""
    is_time = _is_time(given)
    if not is_time and given.dtype.kind not in "biufc" and not coding.marks_texts:
        return coded
    new = coding.of_variable(given)
    if isinstance(new, Coded):
        if is_time:  # times are few: check them at once
            new = xr.Variable(new.dims, new.to_numpy())
    else:
        new = new.to_base_variable().copy(deep=False)
    new.attrs, new.encoding = coded.attrs, coded.encoding
    return new


def _marking(variable: Any, marks: Mapping[str, Any]) -> Any:
    """Give an encoded variable the attributes that name its missing texts, and room for these."""
    if not marks:
        return variable
    variable = variable.copy(deep=False)
    variable.attrs.update(marks)
    if marks_missing(variable.attrs, variable.dtype) is None:
        mark = marks_missing(variable.attrs, np.dtype((variable.dtype.type, _LONGEST_MARK)))
        if mark is None:
            raise ArgumentError(
                f"{next(iter(marks.values()))!r} cannot stand for missing elements of "
                f"{variable.dtype}"
            )
        variable = variable.copy(data=variable.data.astype(wider_dtype(variable.dtype, len(mark))))
    return variable


def _is_time(variable: Any) -> bool:
    """Tell whether a variable has dates or time differences, including those of cftime."""
    kind = variable.dtype.kind
    return kind in "mM" or (kind == "O" and bool(core.contains_cftime_datetimes(variable)))


def _stays(variable: Any) -> bool:
    """Tell whether xarray would encode a variable that arrays can store unchanged."""
    kind = variable.dtype.kind
    dtype = variable.encoding.get("dtype") or variable.dtype
    return (
        kind in "mMb"
        and np.dtype(dtype).kind == kind
        and not _packing(variable.encoding)
        and not _packing(variable.attrs)
    )


def _packing(encoding: Mapping[str, Any]) -> set[str]:
    return {key for key in _PACKING if encoding.get(key) is not None}


def _keep(variable: Any) -> Any:
    """Return a variable that is stored unchanged, with the attributes of its encoding."""
    variable = variable.copy(deep=False)
    encoding = {key: value for key, value in variable.encoding.items() if key != "dtype"}
    for key in conventions.CF_RELATED_DATA:
        if key in encoding:
            variable.attrs.setdefault(key, encoding.pop(key))
    variable.encoding = encoding
    return variable


def _of_fixed_size(variable: Any, name: Any) -> Any:
    """Convert texts and byte strings of a variable to a fixed size."""
    variable = common.ensure_dtype_not_object(variable, name)
    variable = strings.EncodedStringCoder(allows_unicode=True).encode(variable, name)
    variable = strings.ensure_fixed_length_bytes(variable)
    if strings.check_vlen_dtype(variable.dtype) is str:
        variable = variable.copy(data=np.asarray(variable.data).astype(str))
    if variable.dtype.kind in "SU":
        variable.encoding = {k: v for k, v in variable.encoding.items() if k != "dtype"}
    return variable


def with_encoding(variables: dict[Any, Any], encoding: Mapping[Any, Any] | None) -> set[Any]:
    """Set the encodings given by a user, and return their names."""
    given = dict(encoding or {})
    unknown = sorted(map(repr, set(given) - set(variables)))
    if unknown:
        raise VariableError(f"encoding names unknown variables: {', '.join(unknown)}")
    for name, each in given.items():
        variables[name].encoding = each
    return set(given)


def _attrs_of_coding(variables: Mapping[Any, Any]) -> dict[Any, dict[str, Any]]:
    """Return the attributes of variables; those of bounds get the unit of their times."""
    said = {name: dict(variable.attrs) for name, variable in variables.items()}
    for variable in variables.values():
        units, bounds = variable.attrs.get("units"), variable.attrs.get("bounds")
        if isinstance(units, str) and "since" in units and isinstance(bounds, str):
            for key in {"units", "calendar"} & set(variable.attrs):
                said.get(bounds, {}).setdefault(key, variable.attrs[key])
    return said


def codings(
    stored: Mapping[Any, Any], dtypes: Mapping[Any, np.dtype[Any]], casting: str | None
) -> dict[Any, Coding]:
    """Return the coding of each variable.

    Parameters
    ----------
    stored : mapping
        The variables, undecoded.
    dtypes : mapping
        Dtypes of the arrays of some variables; those of xarray may differ.
    casting : str, optional
        Allowed losses.
    """
    return {
        name: Coding(name, dtypes.get(name, stored[name].dtype), attrs, casting)
        for name, attrs in _attrs_of_coding(stored).items()
    }


def decoded(variables: Mapping[Any, Any], stored: Mapping[Any, Any]) -> dict[Any, Any]:
    """Decode variables that are to be written, to dtypes that arrays support.

    They may come from a dataset that was opened without decoding.  Their own encoding is dropped,
    since that of the array in `stored` applies.  Texts some of which are missing stay objects.
    """
    if any(has_coding(variable.attrs) for variable in variables.values()):
        variables, _, _ = conventions.decode_cf_variables(
            variables, {}, concat_characters=False, decode_coords=False
        )
    values = {}
    for name, variable in variables.items():
        conventions.ensure_not_multiindex(variable, name=name)
        values[name] = variable.copy(deep=False)
        values[name].encoding = {}
        if variable.dtype.kind not in "biufcmM" and not _is_time(variable):
            is_text = name in stored and stored[name].dtype.kind in "US"
            values[name], gaps = as_texts(values[name], name, is_text)
            if not gaps.any():
                values[name] = _of_fixed_size(values[name], name)
    return values
