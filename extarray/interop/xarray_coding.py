"""Encode values as arrays store them, decode them by xarray, and compare, before a commit.

An encoding can change values silently: xarray writes dates in another unit than the array declares,
integers wrap around, a missing value becomes a number if no marker exists.  So each block is
encoded as the array stores it, decoded as `xarray.open_dataset` will do it, and compared with the
given values.  Values that would read differently are refused before a commit publishes them (I13).
"""

from __future__ import annotations

import operator
import threading
import warnings
from contextlib import contextmanager, nullcontext
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.growth import text_length, wider_dtype
from extarray.common.config import config
from extarray.common.errors import CastingError
from extarray.common.extras import require
from extarray.common.hints import hint
from extarray.format.missing import marker_of
from extarray.interop.xarray_store import of_dtype
from extarray.interop.xarray_tasks import is_late
from extarray.interop.xarray_texts import without_missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["Coded", "Coding", "boxes", "has_coding", "recorded_warnings"]

xr: Any = require("xarray", "xarray", "the xarray backend")
conventions: Any = require("xarray.conventions", "xarray")
strings: Any = require("xarray.coding.strings", "xarray")
duck_arrays: Any = require("xarray.core.duck_array_ops", "xarray")

#: Attributes that turn dates and time differences into numbers.
_OF_TIMES = ("units", "calendar", "_FillValue", "missing_value", "scale_factor", "add_offset")
#: Attributes that define how values are stored.
_ATTRS = (*_OF_TIMES, "_Unsigned", "dtype", "_Encoding")
#: Units of time differences.
_SPANS = ("days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds")
#: Calendars whose dates `numpy.datetime64` can represent.
_STANDARD = ("standard", "gregorian", "proleptic_gregorian")

#: Elements that are encoded and compared at a time; several such arrays fit into the caches.
_PIECE = 1 << 16

# In most builds of Python, warning filters belong to the process, not to a thread.
_filters = threading.Lock()


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Collect the warnings of a block instead of showing them."""
    with _filters, warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        yield log


def boxes(variable: Any) -> Iterator[tuple[slice, ...]]:
    """Yield boxes that cover an array, each within the memory limit."""
    room = max(1, config.max_memory // 4 // max(1, variable.dtype.itemsize))
    steps = list(variable.shape)
    for axis, n in enumerate(variable.shape):
        steps[axis] = max(1, min(n, room // max(1, prod(steps[axis + 1 :]))))
    ranges = [range(0, n, step) for n, step in zip(variable.shape, steps, strict=True)]
    for starts in product(*ranges):
        ends = map(min, map(operator.add, starts, steps), variable.shape)
        yield tuple(map(slice, starts, ends))


def _is_date_unit(units: Any) -> bool:
    return isinstance(units, str) and "since" in units


def has_coding(attrs: Mapping[str, Any]) -> bool:
    """Tell whether attributes declare that stored elements are not the values themselves."""
    given = {key for key in _ATTRS if attrs.get(key) is not None}
    return bool(given - {"units", "calendar"}) or _is_date_unit(attrs.get("units"))


class Coding:
    """Defines how an array stores the values of a variable.

    Parameters
    ----------
    name : str
        Name of the variable, for messages.
    dtype : dtype
        Dtype of the array.
    attrs : mapping
        Attributes of the array.  Those of the CF conventions, such as ``"units"`` and
        ``"scale_factor"``, define how values are stored.
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}, optional
        Allowed losses; None: none within a kind of dtype.
    is_new : bool
        Whether the array is being created.  As its dtype was requested, floating-point values may
        be rounded to it.
    """

    def __init__(
        self,
        name: Any,
        dtype: np.dtype[Any],
        attrs: Mapping[str, Any],
        casting: str | None = None,
        is_new: bool = False,
    ) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.casting = casting
        self.is_new = is_new
        self._attrs = {key: attrs[key] for key in _ATTRS if attrs.get(key) is not None}
        units = self._attrs.get("units")
        self._has_dates = _is_date_unit(units)
        self._may_have_spans = isinstance(units, str) and units in _SPANS
        self._is_packed = "scale_factor" in self._attrs or "add_offset" in self._attrs
        self._fill = self._attrs.get("_FillValue", self._attrs.get("missing_value"))
        if self._fill is not None and np.size(self._fill):
            self._fill = np.ravel(self._fill)[0]
        # None: not determined yet.
        self._decoding_warns = True if self._has_dates or self._may_have_spans else None

    # -- variables ---------------------------------------------------------------------------

    def of_variable(self, variable: Any) -> Any:
        """Return a variable as the array stores it, or the variable itself if nothing can change.

        Elements are encoded and compared when they are read, or by the tasks of dask.

        Raises
        ------
        CastingError
            A TypeError: the dtypes are incompatible.
        """
        self._check_rule(variable.dtype)
        if self._keeps_all(variable.dtype):
            return variable
        if is_late(variable):
            data = variable.data.map_blocks(
                _encoded_block,
                self,
                dtype=self.dtype,
                meta=np.empty((0,) * variable.ndim, self.dtype),
            )
            return xr.Variable(variable.dims, data)
        return Coded(self, variable)

    def differs(self, variable: Any, stored: Any) -> bool:
        """Tell whether the values of a variable differ from those of a stored, undecoded one."""
        if variable.shape != stored.shape:
            return True
        values, raw = variable.to_numpy(), stored.to_numpy()
        decoded = self._decoded(raw, values.dtype.kind == "m")
        return bool(self._differing(values, decoded, raw).any())

    def decoded(self, stored: Any, like: Any) -> Any:
        """Decode a stored variable, to time differences if `like` has some."""
        return xr.Variable(stored.dims, self._decoded(stored.to_numpy(), like.dtype.kind == "m"))

    # -- dtypes ------------------------------------------------------------------------------

    def widened(self, variable: Any) -> Coding:
        """Return the coding of an array that is wide enough for the texts of a variable.

        A casting rule applies to the present width.  The results of dask are not computed for it.
        """
        kinds = variable.dtype.kind, self.dtype.kind
        if self.casting is not None or kinds[1] not in "US" or is_late(variable):
            return self
        if kinds[0] != kinds[1] and not self._recodes(variable.dtype):
            return self
        length = 0
        for box in boxes(variable):
            length = max(length, text_length(self._as_texts(variable[box].to_numpy())))
        if length <= text_length(self.dtype):
            return self
        dtype = wider_dtype(self.dtype, length)
        return Coding(self.name, dtype, self._attrs, self.casting, self.is_new)

    def is_plain(self, given: np.dtype[Any]) -> bool:
        """Tell whether values of a dtype are stored unchanged."""
        return not (self._recodes(given) or self._decodes(given.kind == "m"))

    def _recodes(self, given: np.dtype[Any]) -> bool:
        """Tell whether values of a dtype are changed by a unit, a scale or a text encoding."""
        kind = given.kind
        if kind in "biuf":
            has_gaps = kind == "f" and self._fill is not None and self.dtype.kind in "iu"
            return self._is_packed or has_gaps
        if kind in "OU" and "_Encoding" in self._attrs:
            return self.dtype.kind == "S"
        if kind == "O" and self.dtype.kind in "US":
            return True  # some may be missing
        return self._has_times(kind) and self.dtype.kind not in "Mm"

    def _has_times(self, kind: str) -> bool:
        """Tell whether stored numbers represent dates, or time differences, of a kind."""
        return self._has_dates if kind in "MO" else kind == "m" and self._may_have_spans

    def _decodes(self, spans: bool) -> bool:
        """Tell whether xarray reads anything but the stored values."""
        keys = set(self._attrs) - {"units", "calendar"}
        if self.dtype.kind in "fc" and self._fill is not None and self._fill != self._fill:
            keys -= {"_FillValue", "missing_value"}  # NaN is missing anyway
        return bool(keys) or self._has_dates or (spans and self._may_have_spans)

    def _check_rule(self, given: np.dtype[Any]) -> None:
        """Refuse dtypes that the casting rule does not allow."""
        if self.is_new or self._recodes(given):
            return  # the dtype was requested, and values are compared
        rule: Any = "same_kind" if self.casting is None else self.casting
        if not np.can_cast(given, self.dtype, rule):
            by = "" if self.casting is None else f" under the rule {self.casting!r}"
            raise CastingError(
                f"cannot write {self.name!r}: {given} cannot be cast to {self._how}{by}; "
                + self._way_out(given)
            )

    def _keeps_all(self, given: np.dtype[Any]) -> bool:
        """Tell whether every value of a dtype is stored and read unchanged, or as requested."""
        if self._recodes(given):
            return False
        if self.is_new:
            return given == self.dtype and not self._decodes(given.kind == "m")
        if self.casting == "unsafe":
            return bool(np.can_cast(given, self.dtype, "same_kind"))
        if self._decodes(given.kind == "m"):
            return False
        if self.casting == "same_kind" or given == self.dtype:
            return True
        # NumPy's "safe" casts round integers, let dates overflow, and turn numbers into texts.
        kinds = (given.kind, self.dtype.kind)
        is_like = kinds[0] == kinds[1] and kinds[0] not in "Mm"
        return (is_like or kinds in (("u", "i"), ("f", "c"))) and np.can_cast(given, self.dtype)

    # -- blocks ------------------------------------------------------------------------------

    def encoded(self, values: NDArray[Any], place: tuple[int, ...]) -> NDArray[Any]:
        """Encode values, and check that each reads back unchanged.

        Parameters
        ----------
        values : ndarray
            A block of the variable.
        place : tuple of int
            Its first index, for messages.

        Raises
        ------
        CastingError
            A TypeError: a value would read back differently.
        """
        flat, raw = values.reshape(-1), np.empty(values.size, self.dtype)
        for low in range(0, values.size, _PIECE):
            piece = slice(low, low + _PIECE)
            wrong = self._encode(flat[piece], raw[piece])
            if wrong is not None:
                first, read = wrong
                inside = map(int, np.unravel_index(low + first, values.shape))
                raise CastingError(
                    f"cannot write {self.name!r}: its values of {values.dtype} cannot be stored "
                    f"as {self._how} without loss: {_shown(flat[low + first])} at index "
                    f"{tuple(map(operator.add, place, inside))} would become {_shown(read)}; "
                    + self._way_out(values.dtype)
                )
        return raw.reshape(values.shape)

    def _encode(self, values: NDArray[Any], raw: NDArray[Any]) -> tuple[int, Any] | None:
        """Encode values; return index and decoded value of the first one that changes."""
        is_lost = self.casting == "same_kind" and self.is_plain(values.dtype)
        try:
            raw[...] = self._encoded(values)
            if self.casting == "unsafe" or is_lost:
                return None
            decoded = self._decoded(raw, values.dtype.kind == "m")
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise CastingError(
                f"cannot write {self.name!r}: its values of {values.dtype} cannot be stored as "
                f"{self._how}: {error}; {self._way_out(values.dtype)}"
            ) from error
        differing = self._differing(values, decoded, raw)
        if not differing.any():
            return None
        first = int(np.argmax(differing))
        return first, decoded[first]

    def _encoded(self, values: NDArray[Any]) -> NDArray[Any]:
        kind = values.dtype.kind
        if self._recodes(values.dtype):
            if self.dtype.kind in "US":
                return self._as_texts(values).astype(self.dtype)
            if kind in "MmO":
                return self._encoded_times(values)
        if kind in "biuf" and self.dtype.kind in "biuf":
            return self._encoded_numbers(values)
        with np.errstate(all="ignore"):
            return values.astype(self.dtype)

    @property
    def marks_texts(self) -> bool:
        """True if a text stands for those that are missing."""
        return self.dtype.kind in "US" and marker_of(self._attrs) is not None

    def _as_texts(self, values: NDArray[Any]) -> NDArray[Any]:
        """Encode texts, missing ones too, in a dtype that holds all of them."""
        if values.dtype.kind == "O":
            values = without_missing(values, marker_of(self._attrs))
        if values.dtype.kind == "U" and self.dtype.kind == "S" and "_Encoding" in self._attrs:
            return np.asarray(np.char.encode(values, self._attrs["_Encoding"]))
        return values

    def _encoded_numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Encode numbers: (value - offset) / scale, rounded for integers."""
        dtype = self._read_dtype
        x: Any = values
        with np.errstate(all="ignore"):
            if self._is_packed:
                x = values.astype(np.float64)
                x -= self._number("add_offset", 0)
                x /= self._number("scale_factor", 1)
            if x.dtype.kind == "f" and dtype.kind in "iu" and self._recodes(values.dtype):
                x = np.rint(x)
            raw: NDArray[Any] = x.astype(dtype).view(self.dtype)
        if self._fill is not None and values.dtype.kind == "f":
            fill = of_dtype(self._fill, self.dtype, None)
            if fill is None:  # of the dtype in which it is read
                fill = np.asarray(of_dtype(self._fill, dtype, 0)).view(self.dtype)[()]
            raw[np.isnan(values)] = fill
        return raw

    @property
    def _read_dtype(self) -> np.dtype[Any]:
        """Dtype in which stored integers are read, according to ``"_Unsigned"``."""
        told = (self.dtype.kind, self._attrs.get("_Unsigned"))
        kind = "u" if told == ("i", "true") else "i" if told == ("u", "false") else None
        return self.dtype if kind is None else np.dtype(f"{kind}{self.dtype.itemsize}")

    def _number(self, key: str, default: float) -> np.float64:
        return np.float64(np.ravel(self._attrs.get(key, default))[0])

    def _encoded_times(self, values: NDArray[Any]) -> NDArray[Any]:
        """Encode dates or time differences as numbers in the stored unit."""
        encoding = {key: self._attrs[key] for key in _OF_TIMES if key in self._attrs}
        if "_FillValue" in encoding:
            encoding.pop("missing_value", None)  # xarray refuses two different ones
        if values.dtype.kind == "m":
            encoding.pop("calendar", None)

        def encode(dtype: Any) -> tuple[NDArray[Any], bool]:
            given = {**encoding, "dtype": np.dtype(dtype)}
            variable = xr.Variable(("element",), values, None, given)
            with np.errstate(all="ignore"), recorded_warnings() as log:
                raw = conventions.encode_cf_variable(variable, name=self.name).to_numpy()
            return raw, any(issubclass(entry.category, UserWarning) for entry in log)

        raw, in_other_unit = encode(self.dtype)
        if in_other_unit:
            with np.errstate(all="ignore"):
                raw = np.floor(encode(np.float64)[0]).astype(self.dtype)
        return raw

    def _decoded(self, raw: NDArray[Any], spans: bool) -> NDArray[Any]:
        """Decode values as xarray does; with `spans`, to time differences that only units declare.

        Without `spans`, that depends on the version of xarray.
        """
        if not self._decodes(spans):
            return raw
        if self._decoding_warns is None:
            with recorded_warnings() as log:
                self._decoded_by_xarray(np.zeros(0, self.dtype), spans)
            self._decoding_warns = bool(log)
        with recorded_warnings() if self._decoding_warns else nullcontext():
            return self._decoded_by_xarray(raw, spans)

    def _decoded_by_xarray(self, raw: NDArray[Any], spans: bool) -> NDArray[Any]:
        # Copy, because some xarray decoders modify their input.
        variable = xr.Variable(("element",), raw.flatten(), dict(self._attrs))
        with np.errstate(all="ignore"):
            # Texts first: their marker is one of them.
            variable = strings.EncodedStringCoder().decode(variable, name=self.name)
            variable = conventions.decode_cf_variable(
                self.name,
                variable,
                concat_characters=False,
                decode_timedelta=True if spans else None,
            )
            return np.asarray(variable.to_numpy()).reshape(raw.shape)

    # -- comparisons -------------------------------------------------------------------------

    def _differing(
        self, values: NDArray[Any], decoded: NDArray[Any], raw: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Return where values read back differently; all missing values are equal."""
        kinds = {values.dtype.kind, decoded.dtype.kind}
        if kinds in ({"M"}, {"m"}):
            same = _same_instants(values, decoded)
            if self.casting == "same_kind" and raw.dtype.kind == "f":
                same |= True  # accept the next representable number
        elif self._has_dates and kinds <= set("MO"):
            same = _same_dates(values, decoded)
        elif kinds <= set("OU") or kinds <= set("OS"):
            same = _texts(values) == _texts(decoded)
        elif kinds <= set("biufc"):
            same = self._same_numbers(values, decoded, raw)
        else:
            return np.ones(values.shape, bool)
        gaps = duck_arrays.isnull(decoded)
        return np.asarray(~np.where(duck_arrays.isnull(values), gaps, same & ~gaps))

    def _same_numbers(
        self, values: NDArray[Any], decoded: NDArray[Any], raw: NDArray[Any]
    ) -> NDArray[np.bool_]:
        if self._is_packed:
            return self._within_half_a_step(values, decoded, raw)
        if self.is_new and values.dtype.kind == "f" and raw.dtype.kind == "f":
            with np.errstate(all="ignore"):
                rounded = values.astype(raw.dtype)
            keeps_finite = np.isinf(rounded) == np.isinf(values)
            return np.asarray(_same_numbers(rounded, decoded) & keeps_finite)
        return _same_numbers(values, decoded)

    def _within_half_a_step(
        self, values: NDArray[Any], decoded: NDArray[Any], raw: NDArray[Any]
    ) -> NDArray[np.bool_]:
        with np.errstate(all="ignore"):
            x, y = values.astype(np.float64, copy=False), decoded.astype(np.float64, copy=False)
            away = x - y
            np.abs(away, out=away)
            room: Any = abs(self._number("scale_factor", 1)) * (0.5 + 1e-9)
            if raw.dtype.kind == "f":
                room = room * np.spacing(np.abs(raw)).astype(np.float64)
            near = away <= room
            if not near.all():
                # The decoder rounds a product and a sum to its own dtype.
                size = np.abs(y) + abs(self._number("add_offset", 0))
                near = (away <= room + size * (2 * np.finfo(decoded.dtype).eps)) | (x == y)
            return np.asarray(near)

    # -- messages ----------------------------------------------------------------------------

    @property
    def _how(self) -> str:
        """Dtype and attributes in a few words."""
        hidden = () if self._has_dates or self._may_have_spans else ("units", "calendar")
        said = [f"{key}={value!s}" for key, value in self._attrs.items() if key not in hidden]
        return (
            f"{self.dtype} ({', '.join(said)})" if said and self._decodes(True) else f"{self.dtype}"
        )

    def _way_out(self, given: np.dtype[Any]) -> str:
        """Return advice for values of a dtype that do not fit."""
        return hint(self._way_out_by_python(given), "convert the values first")

    def _way_out_by_python(self, given: np.dtype[Any]) -> str:
        if self.is_new:
            return f"give another encoding={{{self.name!r}: {{...}}}}"
        if self._has_times(given.kind):
            return (
                "rewrite the stored times first, in an encoding that can represent all: with "
                f"mode='a' ('w' for a single array) and encoding={{{self.name!r}: {{'units': "
                "'seconds since ...', 'dtype': 'int64'}}"
            )
        if given.kind == "O" and self.dtype.kind in "US" and not self.marks_texts:
            return (
                "no text of the array stands for a missing one; choose one that it does not have, "
                "'\\uffff' for example, and set its attribute 'missing_value' to it"
            )
        if self.marks_texts:
            return (
                f"{marker_of(self._attrs)!r} stands for a missing text; write the array anew with "
                f"another one, by encoding={{{self.name!r}: {{'missing_value': ...}}}}"
            )
        if self._has_dates:
            return "give dates, or numbers with the attributes 'units' and 'calendar'"
        if not self.is_plain(given):
            return (
                "rewrite the stored values first, in a packing that can represent all: with "
                f"mode='a' ('w' for a single array) and encoding={{{self.name!r}: {{...}}}}; or "
                "give casting='unsafe' to round them to this packing"
            )
        rule = "same_kind" if np.can_cast(given, self.dtype, "same_kind") else "unsafe"
        return (
            f"give casting={rule!r} to accept the loss, or change the dtype with rechunk(dtype=...)"
        )


class Coded:
    """A variable in its stored form; elements are encoded and compared when read.

    Attributes
    ----------
    dims, shape, ndim, size, sizes
        Those of the variable.
    dtype : dtype
        Dtype of the array.
    attrs, encoding : dict
        Those of an array that is to be created.
    """

    def __init__(self, coding: Coding, variable: Any, place: tuple[int, ...] | None = None) -> None:
        self._coding = coding
        self._variable = variable
        self._place = (0,) * variable.ndim if place is None else place
        self.dims, self.shape, self.ndim = variable.dims, variable.shape, variable.ndim
        self.size, self.sizes = variable.size, variable.sizes
        self.dtype = coding.dtype
        self.attrs: dict[str, Any] = {}
        self.encoding: dict[str, Any] = {}

    def __getitem__(self, key: tuple[slice, ...]) -> NDArray[Any]:
        """Return the elements of a box, encoded."""
        starts = (s.indices(n)[0] for s, n in zip(key, self.shape, strict=False))
        place = map(operator.add, self._place, (*starts, *(0,) * (self.ndim - len(key))))
        return self._coding.encoded(self._variable[key].to_numpy(), tuple(place))

    def isel(self, indexers: Mapping[Any, slice]) -> Coded:
        """Return a part of the variable, by slices of dimensions."""
        starts = (indexers.get(d, slice(None)).indices(n)[0] for d, n in self.sizes.items())
        place = tuple(map(operator.add, self._place, starts))
        return Coded(self._coding, self._variable.isel(indexers), place)

    def to_numpy(self) -> NDArray[Any]:
        """Return all elements, encoded."""
        return self[(slice(None),) * self.ndim]


def _encoded_block(
    values: NDArray[Any], coding: Coding, block_info: Mapping[Any, Any] | None = None
) -> NDArray[Any]:
    """Encode a block of a dask array."""
    place = (0,) * values.ndim
    if block_info is not None:
        place = tuple(low for low, _ in block_info[0]["array-location"])
    return coding.encoded(np.asarray(values), place)


def _shown(value: Any) -> str:
    """Format a value for a message; dates of cftime with their calendar."""
    calendar = getattr(value, "calendar", None)
    return f"{value}" if calendar is None else f"{value} ({calendar})"


# -- comparisons of arrays -----------------------------------------------------------------------


def _same_instants(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Compare dates or time differences of any units without overflow."""
    try:
        fine = np.promote_types(a.dtype, b.dtype)
    except TypeError:  # days against years
        return np.zeros(a.shape, bool)
    finer, coarser = (a, b) if a.dtype == fine else (b, a)
    cut = finer.astype(coarser.dtype)
    return np.asarray((cut == coarser) & (cut.astype(finer.dtype) == finer))


def _same_dates(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Compare dates, some of which are cftime objects."""
    pairs = zip(_dates(a), _dates(b), strict=True)
    return np.array([x == y for x, y in pairs], bool).reshape(a.shape)


def _dates(x: NDArray[Any]) -> list[Any]:
    """Return calendars and components of dates."""
    if x.dtype.kind == "M":
        cut = x.astype("M8[us]")
        exact = _same_instants(x, cut)
        dates: NDArray[Any] = cut.astype(object)
        dates[~exact] = None
        x = dates
    return [_parts(date) for date in x.ravel().tolist()]


def _parts(date: Any) -> Any:
    if not hasattr(date, "microsecond"):
        return object()  # missing, or not representable: equal to nothing
    calendar = getattr(date, "calendar", "standard")
    return (
        "standard" if calendar in _STANDARD else calendar,
        (date.year, date.month, date.day),
        (date.hour, date.minute, date.second, date.microsecond),
    )


def _texts(x: NDArray[Any]) -> NDArray[Any]:
    """Return texts or byte strings as objects, with empty ones for missing."""
    if x.dtype.kind != "O":
        return x.astype(object)
    missing = duck_arrays.isnull(x)
    some = x[~missing]
    return np.where(missing, some.flat[0][:0] if some.size else "", x)


def _same_numbers(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Compare numbers of any dtypes without rounding."""
    kinds = (a.dtype.kind, b.dtype.kind)
    if "c" in kinds:
        same = _same_numbers(a.real, b.real) & _same_numbers(a.imag, b.imag)
    elif kinds[0] in "biu" and kinds[1] == "f":
        same = _same_as_integers(b, a)
    elif kinds[0] == "f" and kinds[1] in "biu":
        same = _same_as_integers(a, b)
    else:
        with np.errstate(all="ignore"):
            same = (a == b) & (a.astype(b.dtype) == b) & (b.astype(a.dtype) == a)
            same &= (a < 0) == (b < 0)
    return np.asarray(same | (_is_nan(a) & _is_nan(b)))


def _same_as_integers(x: NDArray[Any], n: NDArray[Any]) -> NDArray[np.bool_]:
    if n.dtype.kind == "b":
        n = n.astype("u1")
    # Casts beyond the range of the integers are undefined.  Limits of integers, powers of two or 0,
    # are exact as floats.
    info = np.iinfo(n.dtype)
    with np.errstate(all="ignore"):
        inside = (x >= float(info.min)) & (x < float(info.max + 1)) & (x == np.trunc(x))
        return np.asarray(inside & (np.where(inside, x, 0).astype(n.dtype) == n))


def _is_nan(x: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnan(x) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)
