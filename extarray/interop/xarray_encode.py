"""Variables as they are stored: encoded by the CF conventions, or like those that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from operator import add
from typing import Any

import numpy as np

from extarray.common.config import config
from extarray.common.errors import CastingError, VariableError
from extarray.common.extras import require

__all__ = ["as_dtype", "boxes", "encode_like", "encode_variables", "with_encoding"]

conventions: Any = require("xarray.conventions", "xarray", "the xarray backend")
common: Any = require("xarray.backends.common", "xarray")
strings: Any = require("xarray.coding.strings", "xarray")

#: Encodings that make xarray turn dates and truth values into numbers.
_PACKING = {"units", "calendar", "_FillValue", "missing_value", "scale_factor", "add_offset"}


def encode_variables(variables: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the variables as they are stored: by the CF conventions, of dtypes that arrays have.

    Dates, time differences and truth values stay what they are, unless the encoding asks for
    numbers: with units, for example.  Appending to numbers of a unit that is too coarse would lose
    what is finer.
    """
    bounds = {v.attrs.get("bounds") for v in variables.values() if "units" in v.encoding}
    kept = {
        name: _keep(v) for name, v in variables.items() if _stays(v) and name not in bounds - {None}
    }
    coded, _ = conventions.cf_encoder({n: v for n, v in variables.items() if n not in kept}, {})
    coded = {name: _of_fixed_size(v, name) for name, v in coded.items()}
    return {name: kept[name] if name in kept else coded[name] for name in variables}


def _stays(variable: Any) -> bool:
    """Tell whether xarray would encode a variable that arrays hold as it is."""
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
    """Return a variable that is stored as it is, with the attributes that its encoding has."""
    variable = variable.copy(deep=False)
    encoding = {key: value for key, value in variable.encoding.items() if key != "dtype"}
    for key in conventions.CF_RELATED_DATA:
        if key in encoding:
            variable.attrs.setdefault(key, encoding.pop(key))
    variable.encoding = encoding
    return variable


def _of_fixed_size(variable: Any, name: Any) -> Any:
    """Return a variable whose texts and byte strings have a fixed size."""
    variable = common.ensure_dtype_not_object(variable, name)
    variable = strings.EncodedStringCoder(allows_unicode=True).encode(variable, name)
    variable = strings.ensure_fixed_length_bytes(variable)
    if strings.check_vlen_dtype(variable.dtype) is str:
        variable = variable.copy(data=np.asarray(variable.data).astype(str))
    if variable.dtype.kind in "SU":
        variable.encoding = {k: v for k, v in variable.encoding.items() if k != "dtype"}
    return variable


def with_encoding(variables: dict[Any, Any], encoding: Mapping[Any, Any] | None) -> set[Any]:
    """Set the encodings that a user gives; returns the names."""
    given = dict(encoding or {})
    unknown = sorted(map(repr, set(given) - set(variables)))
    if unknown:
        raise VariableError(f"encoding names variables that are not there: {', '.join(unknown)}")
    for name, each in given.items():
        variables[name].encoding = each
    return set(given)


def encode_like(variables: Mapping[Any, Any], stored: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the variables encoded as those with the same names are."""
    decoded, _, _ = conventions.decode_cf_variables(dict(stored), {}, concat_characters=False)
    alike = {}
    for name, variable in variables.items():
        encoding = dict(decoded[name].encoding)
        packing = _packing(encoding)
        if stored[name].dtype.kind not in "iu":
            packing -= {"_FillValue", "missing_value"}
        if not packing:
            # Nothing asks for a cast: where one loses something, `as_dtype` says so.
            encoding.pop("dtype", None)
            if variable.dtype.kind in "biu":
                # Integers miss nothing, and may not have what says so: NaN.
                encoding.pop("_FillValue", None)
                encoding.pop("missing_value", None)
        alike[name] = variable.copy(deep=False)
        alike[name].encoding = encoding
    return encode_variables(alike)


def as_dtype(
    name: Any, new: Any, dtype: np.dtype[Any], casting: str | None, late: bool = False
) -> Any:
    """Return a variable for an array of a dtype; the rule None allows what keeps every value.

    Whether it does is looked at here; if `late`, each of the variable's tasks looks at its own.
    """
    if np.can_cast(new.dtype, dtype, casting or "safe"):  # type: ignore[arg-type]
        if late:
            return new.copy(data=_by_tasks(_cast, new.data, dtype))
        return _Cast(new, dtype) if casting == "unsafe" else new
    if casting is not None or not np.can_cast(new.dtype, dtype, "same_kind"):
        raise CastingError(
            f"cannot write {name!r}: {new.dtype} to an array of {dtype}"
            f"{'' if casting is None else f' by the rule {casting!r}'}; "
            + _way_out(new.dtype, dtype)
        )
    if late:
        return new.copy(data=_by_tasks(_cast_exactly, new.data, dtype, name))
    for place in boxes(new):
        _cast_exactly(new[place].to_numpy(), dtype, name)
    return new


def _by_tasks(cast: Any, data: Any, dtype: np.dtype[Any], *args: Any) -> Any:
    meta = np.empty((0,) * data.ndim, dtype)
    return data.map_blocks(cast, dtype, *args, dtype=dtype, meta=meta)


def _cast(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype)


def _cast_exactly(
    values: np.ndarray[Any, Any], dtype: np.dtype[Any], name: Any
) -> np.ndarray[Any, Any]:
    """Return values in a dtype that holds each of them."""
    cast = _cast(values, dtype)
    back = _cast(cast, values.dtype)
    missing = values.dtype.kind in "mMfc"
    if not (
        np.array_equal(cast, values, equal_nan=missing)
        and np.array_equal(back, values, equal_nan=missing)
    ):
        raise CastingError(
            f"cannot write {name!r}: its values of {values.dtype} do not fit into {dtype} without "
            "loss; " + _way_out(values.dtype, dtype)
        )
    return cast


def _way_out(have: np.dtype[Any], dtype: np.dtype[Any]) -> str:
    rule = "same_kind" if np.can_cast(have, dtype, "same_kind") else "unsafe"
    return f"give casting={rule!r} to lose what the dtype cannot hold, or rechunk(dtype=...) it"


def boxes(variable: Any) -> Iterator[tuple[slice, ...]]:
    """Yield boxes that together are all of an array, each within the memory."""
    room = max(1, config.max_memory // 4 // max(1, variable.dtype.itemsize))
    steps = list(variable.shape)
    for axis, n in enumerate(variable.shape):
        steps[axis] = max(1, min(n, room // max(1, prod(steps[axis + 1 :]))))
    ranges = [range(0, n, step) for n, step in zip(variable.shape, steps, strict=True)]
    for starts in product(*ranges):
        ends = map(min, map(add, starts, steps), variable.shape)
        yield tuple(map(slice, starts, ends))


class _Cast:
    """A variable whose elements are cast when they are read."""

    def __init__(self, variable: Any, dtype: np.dtype[Any]) -> None:
        self._variable = variable
        self.shape = variable.shape
        self.ndim = variable.ndim
        self.dtype = dtype

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        """Return the elements of a box."""
        return _cast(self._variable[key].to_numpy(), self.dtype)
