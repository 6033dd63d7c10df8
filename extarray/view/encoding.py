"""Encode elements of any data type as numbers that the page can colour.

Small integers and booleans go unchanged.  All others go as float32 differences from a base that is
chosen for each picture, so that two dates of a day, or two integers near 2**60, stay distinct.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray.common.errors import ArgumentError
from extarray.formats import Packing

__all__ = ["PARTS", "Choice", "Encoded", "choices_of", "encode", "keys_of", "pack"]

#: The parts of a complex number that can be shown.
PARTS = ("magnitude", "phase", "real", "imaginary")

#: NaN with its own payload, in float32: marks elements with the fill value.
_FILL_BITS = 0x7FC0F111
_LEAST = np.iinfo(np.int64).min
_MOST_CHOICES = 256
_AS_THEY_ARE = {"|b1": "u1", "|u1": "u1", "|i1": "i1", "<u2": "u2", "<i2": "i2"}
_UNITS_OF_DAYS = ("Y", "M", "W")  # units of dates without a fixed number of seconds, and weeks


class Choice(NamedTuple):
    """A part of an element to show: the whole element, a field, or the value of a packed number.

    Attributes
    ----------
    steps : tuple
        Path from the element to the value: names of fields, and indices into sub-arrays.
    dtype : dtype
        Data type of the value.
    packing : Packing, optional
        The packing of the number, which is unpacked.
    name : str
        A label; empty: the steps.
    """

    steps: tuple[str | tuple[int, ...], ...]
    dtype: np.dtype[Any]
    packing: Packing | None = None
    name: str = ""

    @property
    def label(self) -> str:
        """The field in words: ``position.x``, ``spectrum[0, 1]``."""
        label = self.name
        for step in self.steps:
            if isinstance(step, str):
                label += f".{step}" if label else step
            else:
                label += f"[{', '.join(map(str, step))}]"
        return label

    @property
    def kind(self) -> str:
        """The kind of the values, which tells the page how to treat them."""
        kinds = {"b": "bool", "c": "complex", "M": "datetime", "m": "timedelta"}
        kinds |= dict.fromkeys("SUV", "text")
        if self.dtype.isbuiltin == 2:  # a number type of another package
            return "number"
        return kinds.get(self.dtype.kind, "number")

    @property
    def unit(self) -> str:
        """The unit of encoded dates and durations; else empty."""
        if self.dtype.kind not in "mM":
            return ""
        unit = np.datetime_data(_timed(self.dtype))
        return f"{unit[1]} {unit[0]}"

    def read(self, array: Any, selection: tuple[Any, ...]) -> NDArray[Any]:
        """Read the values of a selection of integers and slices; of a record, only the field."""
        if self.packing is not None:
            box = tuple(s if isinstance(s, slice) else slice(s, s + 1) for s in selection)
            with np.errstate(all="ignore"):
                values = self.packing.unpack(np.asarray(array[box]), box)
            kept = tuple(slice(None) if isinstance(s, slice) else 0 for s in selection)
            return np.asarray(values[kept])
        if not self.steps:
            return np.asarray(array[selection])
        values = np.asarray(array.get_basic_selection(selection, fields=self.steps[0]))
        return _inside(values, self.steps[1:])

    def value(self, array: Any, place: Sequence[int]) -> Any:
        """Read the value of one element."""
        if self.packing is not None:
            return self.read(array, tuple(place))[()]
        return self.of(array[tuple(place)])

    def of(self, element: Any) -> Any:
        """Return this part of an element."""
        return _inside(np.asarray(element), self.steps)[()]

    def fill_of(self, fill: Any) -> Any:
        """Return this part of the fill value; NaN: packed numbers that are missing."""
        if self.packing is not None:
            return self.packing.fill(fill, np.asarray(fill).dtype)
        return self.of(fill)


def _inside(values: Any, steps: tuple[str | tuple[int, ...], ...]) -> NDArray[Any]:
    """Return a part of each element."""
    for step in steps:
        values = values[step] if isinstance(step, str) else values[(..., *step)]
    return np.asarray(values)


def choices_of(dtype: np.dtype[Any], packing: Packing | None = None) -> list[Choice]:
    """Return the choices for elements of a data type, up to a limit.

    Packed numbers can be shown as values, and as they are stored.

    Examples
    --------
    >>> [c.label for c in choices_of(np.dtype([("t", "f4"), ("p", [("x", "i2")]), ("v", "f8", 2)]))]
    ['t', 'p.x', 'v[0]', 'v[1]']
    """
    if packing is not None:
        return [Choice((), packing.values, packing), Choice((), dtype, name="stored")]
    found: list[Choice] = []
    _collect(dtype, (), found)
    return found


def _collect(
    dtype: np.dtype[Any], steps: tuple[str | tuple[int, ...], ...], found: list[Choice]
) -> None:
    """Append a choice for each number, text or date in a part of an element."""
    if len(found) >= _MOST_CHOICES:
        return
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        for index in np.ndindex(*shape):
            if len(found) >= _MOST_CHOICES:
                return
            _collect(base, (*steps, index), found)
    elif dtype.names:
        assert dtype.fields is not None
        for name in dtype.names:
            _collect(dtype.fields[name][0], (*steps, name), found)
    else:
        found.append(Choice(steps, dtype))


class Encoded(NamedTuple):
    """Values as the page gets them: ``value = base + scale * x``.

    Attributes
    ----------
    code : str
        ``"u1"``, ``"i1"``, ``"u2"``, ``"i2"`` or ``"f4"``.
    base, scale : float
    fill : float or None
        The encoded fill value; None: no value can be told from others.
    data : ndarray
    exact : int
        The base of integers and dates, which a float64 may round; 0: none.
    """

    code: str
    base: float
    scale: float
    fill: float | None
    data: NDArray[Any]
    exact: int = 0

    def facts(self) -> dict[str, Any]:
        """Return the facts that the page needs to decode."""
        facts = {"code": self.code, "base": self.base, "scale": self.scale, "fill": self.fill}
        return {**facts, "exact": str(self.exact) if self.exact else None}


def encode(values: NDArray[Any], part: str = PARTS[0], fill: Any = None) -> Encoded:
    """Encode values.

    Parameters
    ----------
    values : ndarray
        Numbers, booleans, dates, durations, or texts, which become numbers in the same order.
    part : str
        The part of complex numbers to show, one of `PARTS`.
    fill : scalar, optional
        The fill value; in float32, elements that equal it become a NaN with a payload.

    Examples
    --------
    >>> encode(np.array([2**60, 2**60 + 3])).data
    array([0., 3.], dtype=float32)
    """
    native = values.dtype.newbyteorder("=")
    if values.dtype.isbuiltin != 2 and (code := _AS_THEY_ARE.get(native.str)):
        data = np.ascontiguousarray(values, native).view(code)
        return Encoded(code, 0.0, 1.0, None if fill is None else float(fill), data)
    is_fill = None
    with np.errstate(all="ignore"):
        if fill is not None and fill == fill and not (is_fill := np.asarray(values == fill)).any():
            is_fill = None
        numbers = _numbers(values, part)
        low, high = _bounds(numbers if is_fill is None else numbers[~is_fill])
        largest = max(abs(low), abs(high))
        base, scale = type(low)(0), 1.0
        # Near zero float32 tells numbers apart; far from it, their differences from the least do.
        is_near = high - low < 1e-2 * largest
        # Dates are told apart by their differences, however far from each other they are.
        if (is_near and (numbers.dtype.kind == "f" or largest > 1 << 24)) or (
            values.dtype.kind == "M" and high - low < 1 << 63
        ):
            base = low
        elif numbers.dtype == np.float64 and largest and not 1e-30 < largest < 1e38:
            scale = largest
        data = np.empty(numbers.shape, np.float32)
        if base:
            differences = numbers - numbers.dtype.type(base)
            np.copyto(data, differences, casting="unsafe")
        elif scale != 1.0:
            np.divide(numbers, scale, out=data, casting="unsafe")
        else:
            np.copyto(data, numbers, casting="unsafe")
        if values.dtype.kind in "mM":
            data[np.isnat(values)] = np.nan
        encoded_fill = None
        if is_fill is not None:
            number = _numbers(np.asarray([fill], values.dtype), part)[0].item()
            encoded_fill = (number - base) / scale
            data.view(np.uint32)[is_fill] = _FILL_BITS
    exact = base if isinstance(base, int) else 0
    return Encoded("f4", float(base), float(scale), _finite(encoded_fill), data, exact)


def keys_of(values: NDArray[Any], part: str = PARTS[0], fill: Any = None) -> NDArray[np.float64]:
    """Return numbers by which values are compared; NaN where there is no value.

    Parameters
    ----------
    values, part
        As for `encode`.
    fill : scalar, optional
        The fill value, which is no value unless it is zero.

    Examples
    --------
    >>> keys_of(np.array([3, -9, 4]), fill=np.int64(-9))
    array([ 3., nan,  4.])
    """
    with np.errstate(all="ignore"):
        keys = _numbers(values, part).astype(np.float64)
        if values.dtype.kind in "mM":
            keys[np.isnat(values)] = np.nan
        if fill is not None and fill == fill and fill != np.zeros((), values.dtype)[()]:
            keys[np.asarray(values == fill)] = np.nan
    return keys


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def _bounds(numbers: NDArray[Any]) -> tuple[Any, Any]:
    """Return the least and the greatest finite number, as Python's; 0 and 0 if there is none."""
    if numbers.dtype == np.float32:
        return 0.0, 1.0  # sent unchanged
    if numbers.dtype.kind in "iu":
        if numbers.dtype == np.int64 and numbers.size and numbers.min() == _LEAST:
            numbers = numbers[numbers != _LEAST]  # NaT, or the least integer
        return (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    if numbers.size:
        low, high = float(np.fmin.reduce(numbers, None)), float(np.fmax.reduce(numbers, None))
        if np.isfinite(low) and np.isfinite(high):
            return low, high
        numbers = numbers[np.isfinite(numbers)]
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)


def _numbers(values: NDArray[Any], part: str) -> NDArray[Any]:
    """Return real numbers in the order of the values."""
    dtype = values.dtype
    if dtype.isbuiltin == 2 or dtype == np.float16:
        return values.astype(np.float32)
    if dtype.kind == "c":
        if part == "magnitude":
            return np.asarray(np.abs(values))
        if part == "phase":
            return np.asarray(np.angle(values))
        if part not in PARTS:
            raise ArgumentError(
                f"a complex number has no part {part!r}; the parts are {', '.join(PARTS)}"
            )
        return np.asarray(values.real if part == "real" else values.imag)
    if dtype.kind in "mM":
        return values.astype(_timed(dtype)).astype(np.int64)
    if dtype.kind in "SV":
        return _first_letters(values, 1)
    if dtype.kind == "U":
        return _first_letters(values.astype(dtype.newbyteorder("<")), 4)
    if dtype.kind == "f" and dtype.itemsize > 8:
        return values.astype(np.float64)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _timed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which dates are counted: its unit has a fixed length."""
    unit, _ = np.datetime_data(dtype)
    if unit == "generic":
        return np.dtype(f"{dtype.kind}8[s]") if dtype.kind == "M" else np.dtype("m8")
    if dtype.kind == "M" and unit in _UNITS_OF_DAYS:
        return np.dtype("M8[D]")
    return dtype.newbyteorder("=")


def _first_letters(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Return a number for the first letters of each text, in alphabetical order."""
    count = min(6, values.dtype.itemsize // width)
    letters = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, -1, width)
    number = np.zeros(values.shape, np.float64)
    for place in range(count):
        code = letters[..., place, 0].astype(np.float64)
        if width == 4:  # most scripts have their letters below 2**16
            code += 256.0 * letters[..., place, 1]
        number = number * (256.0 ** min(width, 2)) + code
    return number


def pack(facts: dict[str, Any], *blocks: NDArray[Any]) -> bytes:
    r"""Pack an answer: the length of the facts, the facts in JSON, blocks of numbers.

    Each block begins at a multiple of 8 bytes.

    Examples
    --------
    >>> pack({"n": 1}, np.arange(2, dtype="u1"))
    b'\x0c\x00\x00\x00{"n":1}     \x00\x01'
    """
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(4 + len(text)) % 8)
    parts: list[Any] = [struct.pack("<I", len(text)), text]
    for number, block in enumerate(blocks):
        data = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
        parts += [data, b"\0" * (-data.size % 8 if number + 1 < len(blocks) else 0)]
    return b"".join(parts)
