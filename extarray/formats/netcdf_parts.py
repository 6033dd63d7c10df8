"""Parts of netCDF files through netCDF4: data types, attributes, dimensions, coordinates."""

from __future__ import annotations

import contextlib
import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.config import config
from extarray.common.errors import ArgumentError, DTypeError, FormatError
from extarray.common.extras import require
from extarray.format.dtypes import decode_dtype, encode_dtype
from extarray.format.labels import axis_names
from extarray.formats.description import (
    Coordinate,
    Description,
    are_labels,
    many_labels,
    of_coordinate,
)
from extarray.formats.hdf5_parts import DTYPE_NOTE, ENUM
from extarray.formats.transfer import boxes_of, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from extarray.formats.files import Room
    from extarray.grid.tiles import Box

__all__ = [
    "Dim",
    "Growth",
    "Stored",
    "as_it_is",
    "attrs_that_fit",
    "copy_group",
    "dimension",
    "fill_for",
    "fill_value",
    "having",
    "labels_beside",
    "make",
    "make_dims",
    "name_in_hdf5",
    "path_of",
    "read_attrs",
    "read_coords",
    "restored",
    "room_for",
    "stored_as",
    "unknown_names",
]

#: Names of time units in the CF conventions.
_UNITS = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
_PLAIN = ("S1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
_CLASSIC = ("S1", "i1", "i2", "i4", "f4", "f8")
#: CF attributes that name a variable with cell limits, and those that name independent variables.
_LIMITS = ("bounds", "climatology")
_BESIDE = ("ancillary_variables", "cell_measures", "formula_terms")


class Stored(NamedTuple):
    """The netCDF form of elements.

    Attributes
    ----------
    dtype : dtype
        Dtype of the variable.
    inner : tuple of int
        Extents of additional last axes.
    encode : callable or None
        Converts elements of an array to those of the file; None: they are equal.
    attrs : dict
        Attributes of the variable for this form: the note `DTYPE_NOTE`, units of dates.
    """

    dtype: np.dtype[Any]
    inner: tuple[int, ...] = ()
    encode: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    attrs: dict[str, Any] = {}  # noqa: RUF012 -- read only


def stored_as(dtype: np.dtype[Any], model: str) -> Stored:
    """Return the netCDF form of elements of a dtype.

    Parameters
    ----------
    dtype : dtype
    model : str
        Model of the file: "NETCDF4", "NETCDF3_CLASSIC", ...

    Raises
    ------
    DTypeError
        A TypeError: netCDF does not support the dtype.
    """
    note = {DTYPE_NOTE: json.dumps(encode_dtype(dtype))}
    known = _PLAIN if model in ("NETCDF4", "NETCDF3_64BIT_DATA") else _CLASSIC
    kind = dtype.kind
    if dtype.names is None and dtype.isbuiltin != 2:
        if dtype.str[1:] in known:
            if model == "NETCDF4" or dtype.isnative:
                return Stored(dtype)
            native = dtype.newbyteorder("=")  # the library swaps bytes
            return Stored(native, (), lambda x: x.astype(native), note)
        if kind == "S":
            n = dtype.itemsize
            return Stored(np.dtype("S1"), (n,), lambda x: _bytes_of(x, n).view("S1"), note)
        if kind == "U":
            n = dtype.itemsize
            return Stored(
                np.dtype("S1"),
                (n,),
                lambda x: _bytes_of(np.char.encode(x, "utf-8").astype(f"S{n}"), n).view("S1"),
                {**note, "_Encoding": "utf-8"},
            )
        if kind == "b":
            said = {**note, "dtype": "bool"}  # for xarray
            return Stored(np.dtype("i1"), (), lambda x: x.view("i1"), said)
        if dtype.str[1:] == "f2":
            return Stored(np.dtype("f4"), (), lambda x: x.astype("f4"), note)
        if kind == "c" and dtype.itemsize <= 16:
            part = np.dtype(f"f{dtype.itemsize // 2}")
            whole = dtype.newbyteorder("=")
            return Stored(part, (2,), lambda x: _parts(x.astype(whole), part), note)
        if kind in "Mm" and "i8" in known:
            return Stored(np.dtype("i8"), (), lambda x: _numbers(x), {**note, **_time_attrs(dtype)})
    if dtype.names is not None and model == "NETCDF4":
        _check_fields(dtype)
        return Stored(dtype)
    other = "" if model == "NETCDF4" else "; format='NETCDF4' supports more types"
    raise DTypeError(f"netCDF does not support elements of {dtype} in a {model} file{other}")


def _check_fields(dtype: np.dtype[Any]) -> None:
    """Refuse records with fields that netCDF does not support.

    Raises
    ------
    DTypeError
        A TypeError.
    """
    for name, entry in dtype.fields.items():  # type: ignore[union-attr]
        base = entry[0].base
        if base.names is not None and not entry[0].shape:
            _check_fields(base)
        elif base.str[1:] not in _PLAIN or not base.isnative:
            raise DTypeError(
                f"the field {name!r} has type {entry[0]}, which netCDF does not support in a "
                "record; use numbers in native byte order, and arrays of 'S1' for text"
            )


def labels_as(values: NDArray[Any], model: str) -> Stored:
    """Return the netCDF form of labels: as `stored_as`, but strings if the model has them.

    In netCDF 3, integers are stored in smaller types if these can hold them.

    Raises
    ------
    DTypeError
        A TypeError: netCDF does not support the dtype.
    """
    if values.dtype.kind == "U" and model == "NETCDF4":
        longest = max(map(len, values.ravel().tolist()), default=1)
        is_said = values.dtype == np.dtype(f"U{max(1, longest)}")
        note = {} if is_said else {DTYPE_NOTE: json.dumps(encode_dtype(values.dtype))}
        return Stored(np.dtype(object), (), lambda x: x.astype(object), note)
    kind = np.dtype(np.int32)
    is_wide = values.dtype.kind in "iu" and values.dtype.str[1:] not in _CLASSIC
    if model.startswith("NETCDF3") and is_wide and np.array_equal(values.astype(kind), values):
        note = {DTYPE_NOTE: json.dumps(encode_dtype(values.dtype))}
        return Stored(kind, (), lambda x: x.astype(kind), note)
    return stored_as(values.dtype, model)


def _bytes_of(x: NDArray[Any], n: int) -> NDArray[Any]:
    """Return the bytes of texts, with an additional axis."""
    return np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8).reshape(*x.shape, n)


def _parts(x: NDArray[Any], part: np.dtype[Any]) -> NDArray[Any]:
    """Return the parts of complex numbers, with an additional axis."""
    return np.ascontiguousarray(x).reshape(*x.shape, 1).view(part)


def _numbers(x: NDArray[Any]) -> NDArray[Any]:
    """Convert dates or time differences, including NaT, to numbers."""
    native = np.ascontiguousarray(x).astype(x.dtype.newbyteorder("="))
    return native.view(np.int64)


def _time_attrs(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the CF attributes for dates or time differences, if there are any."""
    unit, count = np.datetime_data(dtype)
    if count != 1 or unit not in _UNITS:
        return {}
    if dtype.kind == "m":
        return {"units": _UNITS[unit]}
    return {"units": f"{_UNITS[unit]} since 1970-01-01", "calendar": "proleptic_gregorian"}


def restored(
    dtype: np.dtype[Any], ndim: int, shape: tuple[int, ...], attrs: dict[str, Any]
) -> tuple[np.dtype[Any], int, Callable[[NDArray[Any]], NDArray[Any]] | None]:
    """Return the array's dtype for a variable, the number of remaining axes, and the conversion.

    Parameters
    ----------
    dtype : dtype
        Dtype of the variable.
    ndim : int
    shape : tuple of int
    attrs : dict
        Attributes of the variable; those that only describe the dtype are removed.
    """
    nothing = dtype, ndim, None
    note = attrs.get(DTYPE_NOTE)
    if not isinstance(note, str):
        return nothing
    try:
        wanted = decode_dtype(json.loads(note))
        if wanted.kind in "iuf" and wanted.char not in "gG" and dtype.kind in "if":
            del attrs[DTYPE_NOTE]
            return wanted, ndim, lambda x: x.astype(wanted)
        if wanted.kind == "U" and dtype.kind == "O":
            del attrs[DTYPE_NOTE]
            return wanted, ndim, lambda x: x.astype(wanted)
        stored = stored_as(wanted, "NETCDF4" if dtype.str[1:] == "i8" else "NETCDF3_CLASSIC")
    except (FormatError, DTypeError, ValueError, TypeError, RecursionError):
        return nothing
    outer = ndim - len(stored.inner)
    if stored.dtype != dtype or outer < 0 or shape[outer:] != stored.inner:
        return nothing
    for name, value in stored.attrs.items():
        if attrs.get(name) == value:
            del attrs[name]
    kind, n = wanted.kind, wanted.itemsize

    def decode(x: NDArray[Any]) -> NDArray[Any]:
        flat = np.ascontiguousarray(x)
        if kind == "S":
            return flat.view(f"S{n}").reshape(flat.shape[:-1])
        if kind == "U":
            text = flat.view(f"S{n}").reshape(flat.shape[:-1])
            return np.char.decode(text, "utf-8").astype(wanted)
        if kind == "c":
            whole = flat.view(wanted.newbyteorder("=")).reshape(flat.shape[:-1])
            return whole.astype(wanted)
        if kind == "b":
            return flat.view("?")
        if kind in "Mm":
            return flat.view(wanted.newbyteorder("=")).astype(wanted)
        return flat.astype(wanted)

    return wanted, outer, decode


def variable_type(dataset: Any, stored: Stored, attrs: dict[str, Any], name: str) -> Any:
    """Return the type for `createVariable`; user-defined types are created in the dataset."""
    if stored.dtype.names is not None:
        return _compound_type(dataset, stored.dtype, name)
    if stored.dtype.kind == "O":
        return str
    names = attrs.get(ENUM)
    if (
        stored.dtype.kind in "iu"
        and dataset.data_model == "NETCDF4"
        and isinstance(names, dict)
        and names
        and all(type(v) is int for v in names.values())
    ):
        return dataset.createEnumType(stored.dtype, f"{name}_t", attrs.pop(ENUM))
    return stored.dtype


def _compound_type(dataset: Any, dtype: np.dtype[Any], name: str) -> Any:
    """Create a record type, after the types of nested records."""
    for field, entry in dtype.fields.items():  # type: ignore[union-attr]
        if entry[0].base.names is not None:
            _compound_type(dataset, entry[0].base, f"{name}_{field}")
    return dataset.createCompoundType(dtype, f"{name}_t")


def read_attrs(variable: Any, lost: list[str]) -> dict[str, Any]:
    """Return the attributes of a variable."""
    result: dict[str, Any] = {}
    for name in variable.ncattrs():
        try:
            result[name] = variable.getncattr(name)
        except (KeyError, ValueError, RuntimeError, AttributeError, TypeError) as error:
            lost.append(f"attribute {name!r} ({error})")
    return result


def _attr(value: Any, model: str) -> Any:
    """Convert an attribute to a form that netCDF4 accepts.

    Raises
    ------
    TypeError
        netCDF4 does not support it.
    """
    if isinstance(value, (str, np.str_)):
        return str(value)
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(v, str) for v in value) and model == "NETCDF4":
            return list(value)
        value = np.array(value)
    array = np.asarray(value)
    known = _PLAIN[1:] if model in ("NETCDF4", "NETCDF3_64BIT_DATA") else _CLASSIC[1:]
    if array.dtype.str[1:] in known and array.ndim <= 1 and array.size:
        return array
    if array.dtype.kind in "iu" and array.ndim <= 1 and array.size:
        small = array.astype(np.int32)
        if np.array_equal(small, array):
            return small
    raise TypeError(
        f"a {model} file cannot hold an attribute of {array.dtype} with {array.ndim} axes"
    )


def attrs_that_fit(attrs: Mapping[str, Any], model: str, lost: list[str]) -> dict[str, Any]:
    """Return the attributes that netCDF4 accepts; the others are lost."""
    result = {}
    for name, value in attrs.items():
        try:
            result[name] = _attr(value, model)
        except (TypeError, ValueError, OverflowError) as error:
            lost.append(f"attribute {name!r} ({error})")
    return result


@contextlib.contextmanager
def as_it_is(variable: Any, chartostring: bool = False) -> Iterator[None]:
    """Let a variable return stored elements in a block, and then restore its settings."""
    before = variable.mask, variable.scale, variable.chartostring
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(chartostring)
    cache = _without_cache(variable)
    try:
        yield
    finally:
        if cache is not None:
            with contextlib.suppress(RuntimeError):  # after a failed write
                variable.set_var_chunk_cache(*cache)
        variable.set_auto_mask(before[0])
        variable.set_auto_scale(before[1])
        variable.set_auto_chartostring(before[2])


def name_in_hdf5(name: str, dims: tuple[str, ...], group: Any) -> str:
    """Return the name of the HDF5 dataset that has the elements of a variable.

    A dimension of its group that has its name, but is not its first one, takes the name itself.
    """
    return f"_nc4_non_coord_{name}" if name in group.dimensions and dims[:1] != (name,) else name


def _without_cache(variable: Any) -> Any:
    """Shrink the chunk cache, since chunks are read and written whole; return the old setting."""
    if not isinstance(variable.chunking(), list):
        return None
    if name_in_hdf5(variable.name, variable.dimensions, variable.group()) != variable.name:
        return None  # netCDF-C opens the dimension in its place then, and reads no more
    before = variable.get_var_chunk_cache()
    variable.set_var_chunk_cache(size=1 << 20, nelems=11)  # 0 would mean the default
    return before


def fill_value(attrs: dict[str, Any], kind: np.dtype[Any]) -> Any:
    """Return the value of elements that were never written."""
    if "_FillValue" not in attrs or kind.names is not None:
        return 0
    try:
        value = np.asarray(attrs["_FillValue"]).reshape(-1)[0]
        if kind.kind in "iu" and not np.can_cast(value.dtype, kind, "same_kind"):
            return 0  # for example NaN for integers
        return value.astype(kind)
    except (TypeError, ValueError, IndexError):
        return 0


def dimension(group: Any, name: str) -> Any:
    """Return a dimension that a group sees: its own, or that of an enclosing group."""
    while group is not None:
        if name in group.dimensions:
            return group.dimensions[name]
        group = group.parent
    return None


def _variable(group: Any, name: str) -> Any:
    """Return a variable that a group sees: its own, or that of an enclosing group."""
    while group is not None:
        if name in group.variables:
            return group.variables[name]
        group = group.parent
    return None


def _named_by(attrs: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """Return the names of variables in attributes of the CF conventions.

    In ``"area: cells"``, the name follows the colon; in ``"crs: x y"``, which maps axes, it
    precedes the colon.

    Examples
    --------
    >>> _named_by({"bounds": "time_bnds", "cell_measures": "area: cells"}, ["bounds"])
    ['time_bnds']
    >>> _named_by({"grid_mapping": "crs: x y"}, ["grid_mapping"])
    ['crs']
    """
    found = []
    for key in keys:
        text = attrs.get(key)
        words = text.split() if isinstance(text, str) else []
        if key == "grid_mapping" and any(w.endswith(":") for w in words):
            words = [w[:-1] for w in words if w.endswith(":")]
        found += [w for w in words if not w.endswith(":")]
    return found


def read_coords(
    variable: Any,
    dims: tuple[str, ...],
    attrs: dict[str, Any],
    lost: list[str],
) -> dict[str, Coordinate]:
    """Remove the attributes that name coordinates, and return these.

    They include the grid mapping, and the bounds of coordinates.
    """
    coords: dict[str, Coordinate] = {}
    left_out: set[str] = set()
    named = attrs.get("coordinates")
    others = named.split() if isinstance(named, str) else []
    named_here = [*dims, *others, *_named_by(attrs, ["grid_mapping"])]
    wanted = [(name, False) for name in named_here]  # True: may have dimensions of its own
    wanted += [(name, True) for name in _named_by(attrs, _LIMITS)]
    for name, is_free in wanted:  # the list grows during the loop
        found = _variable(variable.group(), name)
        if found is None or name in coords or name in left_out or name == variable.name:
            continue
        own: tuple[str, ...] = tuple(found.dimensions)
        if name in dims and (own[:1] != (name,) or not set(own[1:]).isdisjoint(dims)):
            continue  # a variable that happens to have the name of a dimension labels nothing
        itemsize = 1 if found.dtype is str else np.dtype(found.dtype).itemsize
        # The last dimension of characters spans one text.
        n = math.prod(found.shape[: -1 if found.dtype == "S1" and found.ndim else None])
        if many := many_labels(n, math.prod(found.shape) * itemsize):
            lost.append(f"coordinate {name!r} ({many})")
            left_out.add(name)
            continue
        with as_it_is(found, chartostring=True):
            told: list[str] = []
            notes = read_attrs(found, told)
            lost += of_coordinate(name, told)
            _, outer, decode = restored(
                np.dtype("O" if found.dtype is str else found.dtype),
                len(own),
                tuple(found.shape),
                notes,
            )
            if decode is not None:
                found.set_auto_chartostring(False)
                own = own[:outer]
            values = np.asarray(found[...])
        if decode is not None:
            values = decode(values)
        elif values.dtype.kind == "O":
            values = values.astype(str)
        elif (
            values.dtype == "S1" and values.size and own and own[-1] not in dims
        ):  # texts as characters, by CF
            values = np.ascontiguousarray(values).view(f"S{values.shape[-1]}")[..., 0]
        own = own[: values.ndim]
        if not is_free and not set(own) <= set(dims):
            lost.append(f"coordinate {name!r}, which has other dimensions")
            continue
        coords[name] = Coordinate(own, values, notes)
        wanted += [(limits, True) for limits in _named_by(notes, _LIMITS)]
    if others and all(name in coords or name in left_out for name in others):
        del attrs["coordinates"]
    for key in _BESIDE:
        lost.extend(
            f"the variable {name!r}, which {key!r} names"
            for each in (attrs, *(c.attrs for c in coords.values()))
            for name in _named_by(each, [key])
            if name not in {*coords, *left_out} and _variable(variable.group(), name) is not None
        )
    return coords


def unknown_names(variable: Any) -> list[str]:
    """Describe the coordinates that an attribute names but that do not exist."""
    attrs = {key: variable.getncattr(key) for key in variable.ncattrs() if key == "coordinates"}
    names = _named_by(attrs, ["coordinates"])
    return [f"coordinate {name!r}" for name in names if _variable(variable.group(), name) is None]


def fill_for(given: Description, stored: Any, attrs: dict[str, Any], lost: list[str]) -> Any:
    """Return the fill value of a new variable, or None for the default."""
    own = attrs.pop("_FillValue", None)
    if stored.dtype.names is not None or stored.encode is not None:
        if given.fills:
            lost.append(f"the fill value {given.fill_value!r}")
        return None
    if own is not None:
        value = np.asarray(own)
        if value.size == 1 and np.can_cast(value.dtype, stored.dtype, "same_kind"):
            return value.reshape(())[()]
        lost.append("attribute '_FillValue', which is not an element")
    return given.fill_value if given.fills else given.missing


def make(
    group: Any,
    name: str,
    stored: Any,
    dims: tuple[str, ...],
    attrs: dict[str, Any],
    fill: Any,
    settings: dict[str, Any],
    lost: list[str],
) -> Any:
    """Create a variable with its attributes."""
    for n in stored.inner:
        inner = f"_{name}_{n}"
        if inner not in group.dimensions:
            group.createDimension(inner, n)
        dims = (*dims, inner)
    kind = variable_type(group, stored, attrs, name)
    order = {">": "big", "<": "little"}.get(stored.dtype.byteorder, "native")
    if stored.dtype.names is None and group.data_model == "NETCDF4":
        settings.setdefault("endian", order)
    try:
        variable = group.createVariable(name, kind, dims, fill_value=fill, **settings)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"netCDF4 cannot create such a variable: {error}") from error
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    _without_cache(variable)
    wanted = attrs_that_fit({**stored.attrs, **attrs, **_note(stored)}, group.data_model, lost)
    for key, value in wanted.items():
        try:
            variable.setncattr(key, value)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            lost.append(f"attribute {key!r} ({error})")
    return variable


def _note(stored: Any) -> dict[str, Any]:
    return {DTYPE_NOTE: stored.attrs[DTYPE_NOTE]} if DTYPE_NOTE in stored.attrs else {}


def make_dims(
    group: Any, name: str, given: Description, growing: tuple[str, ...]
) -> tuple[str, ...]:
    """Create the dimensions of a variable, or use existing ones."""
    dims = list(axis_names(given.dims, given.ndim))
    for j, (d, n) in enumerate(zip(dims, given.shape, strict=True)):
        there = dimension(group, d)
        if there is not None and given.dims is None and len(there) != n:
            d = dims[j] = f"{name}_{d}"
            there = dimension(group, d)
        if there is None:
            if n == 0 and d not in growing and not group.data_model.startswith("NETCDF4"):
                raise ArgumentError(f"netCDF 3 has no dimensions of length 0; make {d!r} unlimited")
            group.createDimension(d, None if d in growing or n == 0 else n)
        elif len(there) != n and not (there.isunlimited() and len(there) <= n):
            raise ArgumentError(
                f"the dimension {d!r} has {len(there)} elements in the file, but {n} in the "
                "array; rename it (a.dims), or write to another file"
            )
    return tuple(dims)


def labels_beside(group: Any, own: str, given: Description, lost: list[str]) -> list[str]:
    """Create the coordinates of a variable; return the names of those that are not dimensions."""
    model, extra = group.data_model, []
    named = set(_named_by(given.attrs, [*_LIMITS, "grid_mapping"]))
    named.update(n for each in given.coords.values() for n in _named_by(each.attrs, _LIMITS))
    for name, each in given.coords.items():
        values = each.values
        there = _variable(group, name)
        if name == own or "/" in name:
            lost.append(f"coordinate {name!r}, which has the same name as the variable")
            continue
        try:
            stored = labels_as(values, model)
        except DTypeError as error:
            lost.append(f"coordinate {name!r} ({error})")
            continue
        if there is None:
            if not _has_dims(group, each):
                lost.append(f"coordinate {name!r}, one axis of which has other labels in the file")
                continue
            notes = dict(each.attrs)
            told: list[str] = []
            labels = Description(values.shape, values.dtype, attrs=notes)
            fill = fill_for(labels, stored, notes, told)
            variable = make(group, name, stored, each.dims, notes, fill, {}, told)
            lost += of_coordinate(name, told)
            inner = (slice(None),) * (values.ndim + len(stored.inner))
            variable[inner or ...] = values if stored.encode is None else stored.encode(values)
        elif there.dimensions[: values.ndim] != each.dims or not _has(there, values, stored):
            lost.append(f"coordinate {name!r}, since the file has another object of this name")
            continue
        if each.dims != (name,) and name not in named:
            extra.append(name)
    return extra


def _has_dims(group: Any, each: Coordinate) -> bool:
    """Tell whether a coordinate fits the existing dimensions; create its own."""
    for d, n in zip(each.dims, each.values.shape, strict=True):
        there = dimension(group, d)
        if there is None:
            group.createDimension(d, n)
        elif len(there) != n and not (there.isunlimited() and len(there) <= n):
            return False
    return True


def _has(variable: Any, values: NDArray[Any], stored: Any) -> bool:
    """Tell whether a variable has the given labels."""
    with as_it_is(variable):
        found = np.asarray(variable[...])
    wanted = values if stored.encode is None else stored.encode(values)
    return are_labels(found, wanted)


# -- files that are recreated with other dimensions ------------------------------------------------

#: Path of a group, and name of a dimension in it.
Dim = tuple[str, str]


class Growth(NamedTuple):
    """Growth of a dimension.

    Attributes
    ----------
    extent : int
        New extent.
    moved : int
        Shift of all elements due to new ones before them.
    sharing : list of str
        Paths of the other variables with this dimension.
    needs_file : bool
        Whether netCDF needs a new file for it.
    """

    extent: int
    moved: int
    sharing: list[str]
    needs_file: bool

    def said(self, dim: str) -> str:
        """Describe the growth."""
        text = f"the dimension {dim!r} has {self.extent} elements"
        if self.moved:
            text += f", {self.moved} of them before the former first element"
        if self.sharing:
            names = ", ".join(map(repr, self.sharing))
            text += f"; {names} have fill values in the new ones"
        return text


def path_of(variable: Any) -> str:
    """Return the path of a variable."""
    return f"{variable.group().path}/{variable.name}".lstrip("/")


def having(group: Any, dim: Dim) -> list[str]:
    """Return the paths of all variables with a dimension, in a group and below."""
    found = [
        path_of(variable)
        for variable in group.variables.values()
        if dim[1] in variable.dimensions and dimension(group, dim[1]).group().path == dim[0]
    ]
    return found + [name for inner in group.groups.values() for name in having(inner, dim)]


def copy_group(old: Any, new: Any, growth: Mapping[Dim, Growth], without: str, room: Room) -> None:
    """Copy a group to an empty one in another file with larger dimensions.

    Parameters
    ----------
    old, new : netCDF4.Dataset or netCDF4.Group
    growth : mapping
    without : str
        Path of the variable whose elements are not copied.
    room : Room
        Space of the other file.

    Raises
    ------
    ArgumentError
        A ValueError: netCDF4 cannot recreate something in the file.
    """
    for name, dim in old.dimensions.items():
        grown = growth.get((old.path, name))
        extent = len(dim) if grown is None else grown.extent
        new.createDimension(name, None if dim.isunlimited() else extent)
    for name, kind in old.cmptypes.items():
        new.createCompoundType(kind.dtype, name)
    for name, kind in old.vltypes.items():
        new.createVLType(kind.dtype, name)
    for name, kind in old.enumtypes.items():
        new.createEnumType(kind.dtype, name, kind.enum_dict)
    _copy_all_attrs(old, new)
    for variable in old.variables.values():
        if not new.data_model.startswith("NETCDF4"):  # which writes fill values at once
            room.need(math.prod(variable.shape) * variable.dtype.itemsize)
        with as_it_is(variable):
            made = _made_like(variable, new)
            _copy_all_attrs(variable, made)
            if path_of(variable) != without:
                found = [dimension(old, d) for d in variable.dimensions]
                keys = [(dim.group().path, dim.name) for dim in found]
                moved = [growth[key].moved if key in growth else 0 for key in keys]
                _copy_elements(variable, made, moved, room)
    for name, inner in old.groups.items():
        copy_group(inner, new.createGroup(name), growth, without, room)


def room_for(variable: Any, room: Room) -> Callable[[Box], None]:
    """Return a function that allocates space for a box of a variable before it is written.

    Contiguous elements get their space at once.
    """
    shape, pieces = tuple(variable.shape), variable.chunking()
    itemsize = np.dtype("O" if variable.dtype is str else variable.dtype).itemsize
    if not isinstance(pieces, list):
        record = _record_bytes(variable)
        if record:
            return lambda box: room.need((box[0].stop - box[0].start) * record)
        room.need(math.prod(shape) * itemsize)
        return lambda box: None
    nbytes = math.prod(pieces) * itemsize

    def need(box: Box) -> None:
        extents = zip(box, pieces, strict=False)
        parts = math.prod(-(-b.stop // c) - b.start // c for b, c in extents)
        inner = zip(shape[len(box) :], pieces[len(box) :], strict=True)
        parts *= math.prod(-(-n // c) for n, c in inner)
        room.need(parts * nbytes, parts)

    return need


def _record_bytes(variable: Any) -> int:
    """Return the bytes of a netCDF 3 record of all variables, or 0."""
    group = variable.group()
    first = variable.dimensions[:1]
    if (
        group.data_model.startswith("NETCDF4")
        or not first
        or not group.dimensions[first[0]].isunlimited()
    ):
        return 0
    return sum(
        -(-math.prod(each.shape[1:]) * each.dtype.itemsize // 4) * 4
        for each in group.variables.values()
        if each.dimensions[:1] == first
    )


def _copy_all_attrs(old: Any, new: Any) -> None:
    """Copy attributes except the fill value, which a variable already has."""
    lost: list[str] = []
    attrs = read_attrs(old, lost)
    if lost:
        raise ArgumentError(f"the file cannot be recreated: {old.name!r} has the {lost[0]}")
    attrs.pop("_FillValue", None)
    new.setncatts(attrs)


def _made_like(variable: Any, group: Any) -> Any:
    """Create an equal variable in a group of another file, with the dimensions there."""
    nc: Any = require("netCDF4", "netcdf", "netCDF")
    kind: Any = str if variable.dtype is str else variable.datatype
    fill: Any = None
    for table, own in (
        ("cmptypes", nc.CompoundType),
        ("vltypes", nc.VLType),
        ("enumtypes", nc.EnumType),
    ):
        if isinstance(kind, own):
            kind = _seen_by(group, table, kind.name)
    if "_FillValue" in variable.ncattrs():
        fill = variable.getncattr("_FillValue")
    elif isinstance(kind, np.dtype) and variable.get_fill_value() is None:
        fill = False
    settings: dict[str, Any] = {}
    if group.data_model.startswith("NETCDF4"):
        if variable.quantization() is not None:
            raise ArgumentError(
                f"the file cannot be recreated: the variable {variable.name!r} is quantized"
            )
        if isinstance(kind, np.dtype):
            settings["endian"] = variable.endian()
        extents = [dimension(group, d) for d in variable.dimensions]
        pieces = variable.chunking()
        if isinstance(pieces, list):
            settings["chunksizes"] = [
                c if d.isunlimited() else max(1, min(c, len(d)))
                for c, d in zip(pieces, extents, strict=True)
            ]
        elif variable.dimensions:
            settings["contiguous"] = True
        settings |= _filters(variable.filters() or {})
    made = group.createVariable(
        variable.name, kind, variable.dimensions, fill_value=fill, **settings
    )
    made.set_auto_maskandscale(False)
    made.set_auto_chartostring(False)
    _without_cache(made)
    return made


def _seen_by(group: Any, table: str, name: str) -> Any:
    """Return a user-defined type that a group sees."""
    while name not in getattr(group, table):
        group = group.parent
    return getattr(group, table)[name]


def _filters(said: dict[str, Any]) -> dict[str, Any]:
    """Convert the result of `filters` to arguments of `createVariable`."""
    settings = {name: said[name] for name in ("shuffle", "fletcher32") if said.get(name)}
    for name in ("zlib", "zstd", "bzip2"):
        if said.get(name):
            settings |= {"compression": name, "complevel": said["complevel"]}
    if said.get("szip"):
        szip = said["szip"]
        settings |= {"compression": "szip", "szip_coding": szip["coding"]}
        settings["szip_pixels_per_block"] = szip["pixels_per_block"]
    if said.get("blosc"):
        blosc = said["blosc"]
        settings |= {"compression": blosc["compressor"], "complevel": said["complevel"]}
        settings["blosc_shuffle"] = blosc["shuffle"]
    return settings


def _copy_elements(old: Any, new: Any, moved: Sequence[int], room: Room) -> None:
    """Copy the elements of a variable to shifted places, in bounded memory."""
    shape, pieces, limit = tuple(old.shape), old.chunking(), max(1, config.max_memory // 4)
    itemsize = np.dtype("O" if old.dtype is str else old.dtype).itemsize
    if isinstance(pieces, list):  # a chunk would be decompressed for each part
        boxes = boxes_of(shape, tuple(pieces), tuple(pieces), itemsize, limit)
    else:
        boxes = runs(shape, itemsize, limit)
    need = room_for(new, room)
    for box in boxes:
        place = tuple(slice(b.start + n, b.stop + n) for b, n in zip(box, moved, strict=True))
        need(place)
        values = old[box or ...]
        if np.ndim(values) and values.dtype.kind == "O":  # texts, or sequences
            room.need(sum(getattr(v, "nbytes", 4 * len(v)) for v in values.flat))
        new[place or ...] = values
