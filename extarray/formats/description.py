"""Descriptions of elements: shape, dtype, attributes, axis names, coordinates."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.h5py_compat import attrs_of_view
from extarray.array.lazy import LazyView, everything
from extarray.common.errors import ArgumentTypeError, ExtArrayError, FormatError
from extarray.format.attrs import encode_attrs
from extarray.format.labels import (
    DATASET_ORIGIN,
    UNLIMITED,
    axis_names,
    coordinate_form,
    coordinate_values,
    first_labels,
    known_dims,
)
from extarray.format.missing import missing_elements
from extarray.streaming.blocks import hold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box


__all__ = [
    "PACKING_ATTRS",
    "Coordinate",
    "Description",
    "Packing",
    "are_labels",
    "attrs_for",
    "described",
    "many_labels",
    "of_coordinate",
    "other_packing",
]

#: Most elements of a coordinate in attributes, since every commit of attributes rewrites it.
MOST_LABELS = 1 << 16
# Most bytes of such a coordinate, since strings may be wide.
_MOST_LABEL_BYTES = 1 << 26


#: Attributes of the CF conventions for packed numbers.
PACKING_ATTRS = ("scale_factor", "add_offset", "_FillValue", "missing_value")
#: Attributes of GeoTIFF, FITS and ENVI for packed numbers, with their neutral values.
_OTHER_PACKING = {
    "scales": 1.0,
    "offsets": 0.0,
    "BSCALE": 1.0,
    "BZERO": 0.0,
    "reflectance scale factor": 1.0,
    "data gain values": 1.0,
    "data offset values": 0.0,
}
#: Attribute for integers of the other sign, in files that lack their type, and its values.
UNSIGNED = "_Unsigned"
_OTHER_SIGN = {"i": "true", "u": "false"}
#: Attributes that limit values: those of packed numbers, unless they have a wider type.
_LIMITS = {"valid_min": "valid_max", "valid_max": "valid_min", "valid_range": "valid_range"}


def other_packing(attrs: Mapping[str, Any]) -> list[str]:
    """Describe the packing that readers of the CF conventions do not know.

    They read the stored numbers, although the file has the attribute.

    Examples
    --------
    >>> other_packing({"scales": [0.5, 0.5], "offsets": [0.0, 0.0], "units": "K"})
    ["the packing by attribute 'scales': unpack it first with mask_and_scale=True"]
    """
    found = []
    for name, neutral in _OTHER_PACKING.items():
        with contextlib.suppress(TypeError, ValueError):
            if name in attrs and (np.asarray(attrs[name], np.float64) != neutral).any():
                found.append(name)
    advice = "unpack it first with mask_and_scale=True"
    return [f"the packing by attribute {name!r}: {advice}" for name in found]


@dataclass(frozen=True)
class Packing:
    """Packing of numbers: value = stored * scale + offset, except for missing values.

    Parameters
    ----------
    scale, offset : float or ndarray
        Of all elements, or arrays with the number of axes that the elements have, of length 1 along
        those axes on which nothing depends.
    missing : tuple of scalar
        Stored values that mark missing ones; they become NaN.
    dtype : dtype, optional
        Of the values; None: float32 for float32 and integers of at most 2 bytes, else float64.
    attrs : tuple of str
        Names of the packing attributes, which unpacked values do not have.
    stored : dtype, optional
        Dtype in which elements are read, if it differs from theirs: integers of the other sign.
    """

    scale: float | NDArray[Any] = 1.0
    offset: float | NDArray[Any] = 0.0
    missing: tuple[Any, ...] = ()
    dtype: np.dtype[Any] | None = None
    attrs: tuple[str, ...] = PACKING_ATTRS
    stored: np.dtype[Any] | None = None

    @classmethod
    def of_attrs(cls, attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> Packing | None:
        """Return the packing that attributes of the CF conventions declare, or None.

        Parameters
        ----------
        attrs : mapping
        dtype : dtype
            Stored dtype.

        Raises
        ------
        FormatError
            A ValueError: a scale or an offset is not a number.
        """
        other = _of_other_sign(attrs.get(UNSIGNED), dtype)
        is_packed = any(name in attrs for name in PACKING_ATTRS)
        if dtype.kind not in "iuf" or not (is_packed or other):
            return None
        if not is_packed:
            return cls(dtype=other, attrs=(UNSIGNED,), stored=other)
        numbers = {}
        for name, default in (("scale_factor", 1.0), ("add_offset", 0.0)):
            value = np.asarray(attrs.get(name, default))
            if value.size != 1 or value.dtype.kind not in "iuf":
                raise FormatError(f"the attribute {name!r} is {attrs[name]!r}, not a number")
            numbers[name] = value.reshape(())[()]
        missing: list[Any] = []
        for name in ("_FillValue", "missing_value"):
            for value in np.ravel(attrs.get(name, ())):
                if isinstance(value, np.integer) and other is not None:
                    value = value.astype(other)
                if isinstance(value, np.number) and value not in missing:
                    missing.append(value)
        wide = any(
            np.asarray(attrs[n]).dtype == np.float64 and dtype.kind != "f" and dtype.itemsize > 2
            for n in ("scale_factor", "add_offset")
            if n in attrs
        )
        small = dtype.itemsize <= 2 or dtype == np.float32
        kind = np.dtype(np.float32 if small and not wide else np.float64)
        return cls(
            float(numbers["scale_factor"]),
            float(numbers["add_offset"]),
            tuple(missing),
            kind,
            PACKING_ATTRS if other is None else (*PACKING_ATTRS, UNSIGNED),
            other,
        )

    @property
    def values(self) -> np.dtype[Any]:
        """Dtype of the values."""
        return np.dtype(np.float64) if self.dtype is None else self.dtype

    def unpack(self, stored: NDArray[Any], box: Box | None = None) -> NDArray[Any]:
        """Unpack stored elements; those of a box, if the scale depends on the place."""
        if self.stored is not None:
            stored = stored.view(self.stored)
        result = self._scaled(stored, box)
        for value in self.missing:
            if value == value:  # NaN is already NaN
                result[stored == value] = np.nan
        return result

    def _scaled(self, numbers: NDArray[Any], box: Box | None = None) -> NDArray[Any]:
        """Scale numbers without missing values."""
        result = numbers.astype(self.values)
        if np.any(self.scale != 1.0):
            result *= _part(self.scale, box)
        if np.any(self.offset != 0.0):
            result += _part(self.offset, box)
        return result

    def fill(self, stored: Any, dtype: np.dtype[Any]) -> Any:
        """Return the value of elements that were never written: NaN if values can be NaN."""
        if self.values.kind == "f":
            return np.nan
        return self.unpack(np.asarray([stored], dtype))[0]

    def unpacked_attrs(self, attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
        """Return the attributes of the unpacked values.

        Limits of stored numbers are unpacked, too.
        """
        kept = {name: value for name, value in attrs.items() if name not in self.attrs}
        if isinstance(self.scale, np.ndarray) or isinstance(self.offset, np.ndarray):
            return kept  # limits of all elements have no single scale
        if self.scale == 1.0 and self.offset == 0.0 and self.stored is None:
            return kept
        unpacked = {}
        for name in _LIMITS.keys() & kept.keys():
            limits = np.asarray(kept[name])
            if self._are_stored(limits, kept[name], dtype):
                del kept[name]
                limits = self._scaled(limits if self.stored is None else limits.astype(self.stored))
                is_turned = self.scale < 0
                unpacked[_LIMITS[name] if is_turned else name] = (
                    np.flip(limits) if is_turned else limits
                )[()]
        return kept | unpacked

    def _are_stored(self, limits: NDArray[Any], said: Any, dtype: np.dtype[Any]) -> bool:
        """Tell whether limits apply to stored numbers; those of values have a wider type."""
        if limits.dtype.kind == "f" and isinstance(said, (np.ndarray, np.generic)):
            return dtype.kind == "f" and limits.itemsize <= dtype.itemsize
        return limits.dtype.kind in ("iuf" if dtype.kind == "f" else "iu")


def _part(numbers: float | NDArray[Any], box: Box | None) -> float | NDArray[Any]:
    """Return the numbers of the elements of a box."""
    if box is None or not isinstance(numbers, np.ndarray):
        return numbers
    part: NDArray[Any] = numbers[
        tuple(s if n > 1 else slice(None) for s, n in zip(box, numbers.shape, strict=True))
    ]
    return part


def _of_other_sign(said: Any, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of integers of the other sign if an attribute asks for it."""
    text = said.decode("latin-1") if isinstance(said, bytes) else said
    if not isinstance(text, str) or text.lower() != _OTHER_SIGN.get(dtype.kind):
        return None
    kind = "u" if dtype.kind == "i" else "i"
    return np.dtype(f"{kind}{dtype.itemsize}").newbyteorder(dtype.byteorder)


class Coordinate(NamedTuple):
    """Labels of elements along one or several axes.

    Attributes
    ----------
    dims : tuple of str
        Names of the axes.
    values : ndarray
    attrs : dict
    """

    dims: tuple[str, ...]
    values: NDArray[Any]
    attrs: dict[str, Any]


def are_labels(found: NDArray[Any], wanted: NDArray[Any]) -> bool:
    """Tell whether labels are equal; missing ones (NaN) equal each other."""
    holds_nan = wanted.dtype.kind in "fcmM" and found.dtype.kind in "fcmM"
    return np.array_equal(found, wanted, equal_nan=holds_nan)


def of_coordinate(name: str, lost: list[str]) -> list[str]:
    """Add the name of a coordinate to descriptions of its losses.

    Examples
    --------
    >>> of_coordinate("time", ["attribute 'x'"])
    ["attribute 'x' of the coordinate 'time'"]
    """
    return [f"{each} of the coordinate {name!r}" for each in lost]


@dataclass
class Description:
    """Description of the elements of an array.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype
    chunks : tuple of int, optional
        Chunk shape, or None for unchunked elements.
    fill_value : scalar
        Value of elements that were never written.
    attrs : dict
        By name: NumPy scalars and arrays, texts, byte strings, lists and dicts.
    dims : tuple of str, optional
        Names of the axes.
    coords : dict of Coordinate
        By name.
    unlimited : tuple of str
        Names of the axes that may grow in a file; all axes of an array may.
    packing : Packing, optional
        Packing of the numbers, if they are packed.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None = None
    fill_value: Any = 0
    attrs: dict[str, Any] = field(default_factory=dict)
    dims: tuple[str, ...] | None = None
    coords: dict[str, Coordinate] = field(default_factory=dict)
    unlimited: tuple[str, ...] = ()
    packing: Packing | None = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes that attributes use: `dims`, or the default names of xarray."""
        return axis_names(self.dims, self.ndim)

    def entries(self, value: Any, axis: int) -> list[Any]:
        """Return the entries of an attribute for each band, None for bands without one.

        Parameters
        ----------
        value : sequence or str
            A text applies to all bands.
        axis : int
            Axis of the bands in the file; an array with two axes has one band.

        Raises
        ------
        ValueError
            The attribute is about another axis, or has another number of entries.
        """
        has_axis = self.ndim == 3
        n = self.shape[axis] if has_axis else 1
        if isinstance(value, str):
            return [value] * n
        is_named = has_axis and self.names[axis] == "band"
        if not is_named and ("band" in self.names or len(value) != n):
            raise ValueError(f"it does not have one entry for each of {n} bands")
        return [*value, *[None] * (n - len(value))][:n]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return size

    @property
    def fills(self) -> bool:
        """True if the fill value differs from zero or an empty text."""
        if isinstance(self.fill_value, int) and self.fill_value == 0:  # also for texts
            return False
        value = np.asarray(self.fill_value, self.dtype)
        if value.dtype.char in "gG":  # some of their bytes hold nothing, or anything
            return bool(value != 0 or np.signbit(value.real) or np.signbit(value.imag))
        return bool(value.tobytes().strip(b"\0"))

    @property
    def missing(self) -> Any:
        """Element that marks missing values, by an attribute of any format, or None.

        A zero counts too, although a fill value of zero declares nothing as missing.
        """
        return next(iter(missing_elements(self.attrs, self.dtype)), None)

    def said(self) -> list[str]:
        """Describe what a format loses that stores only elements and their dtype."""
        lost = [f"attribute {name!r}" for name in self.attrs]
        if self.dims is not None:
            lost.append(f"the names of the axes {self.dims}")
        lost += [f"coordinate {name!r}" for name in self.coords]
        if self.fills:
            lost.append(f"the fill value {self.fill_value!r}")
        return lost


# -- of an array ---------------------------------------------------------------------------------


def described(a: Any, selection: Any, lost: list[str]) -> tuple[LazyView, Description]:
    """Return a view of the current elements of an array, and their description.

    Parameters
    ----------
    a : ExtArray or LazyView
    selection : index expression or None
        None: everything.
    lost : list of str
        Collects descriptions of what cannot be kept.

    Raises
    ------
    ArgumentTypeError
        A TypeError: `a` is not an extarray array.
    BoundsError, SelectionError
        IndexErrors of the selection.
    """
    if not isinstance(a, (ExtArray, LazyView)):
        raise ArgumentTypeError(
            f"only extarray arrays can be written to other formats, not a {type(a).__name__}; "
            "convert it with extarray.from_array"
        )
    base: Any = a.base if isinstance(a, LazyView) else a
    view: Any = a if isinstance(a, LazyView) else everything(a)
    if selection is not None:
        view = view.lazy[selection]
    view = hold(view, verified=True)
    values = attrs_of_view(base, view, lost)
    shape = tuple(view.shape)
    if known_dims(values.get("dims"), base.ndim) is not None:
        del values["dims"]
    values.pop(DATASET_ORIGIN, None)
    names = axis_names(view.dims, view.ndim)
    coords = {}
    if isinstance(values.get("coords"), dict):
        for name, form in values.pop("coords").items():
            extents = dict(zip(names, shape, strict=True))
            try:
                found = _coordinate(name, coordinate_form(name, form), extents, lost)
            except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
                lost.append(f"coordinate {name!r}, which does not say which elements it labels")
            else:
                if found is not None:
                    coords[name] = found
    unlimited: tuple[str, ...] = ()
    if view.dims is not None and isinstance(values.get(UNLIMITED), list):
        said = [name for name in values.pop(UNLIMITED) if isinstance(name, str)]
        unlimited = tuple(d for d in view.dims if d in said)
    fill = view.fill_value
    return view, Description(
        shape, view.dtype, tuple(view.chunks), fill, values, view.dims, coords, unlimited
    )


def _coordinate(
    name: str, form: Mapping[str, Any], extents: Mapping[str, int], lost: list[str]
) -> Coordinate | None:
    """Return the labels of all elements, from the form that `coordinate_form` returns.

    Elements without a label get a missing value.  None: no element has a label, or the dtype has no
    missing value.
    """
    dims = tuple(form["dims"])
    values, attrs = coordinate_values(form), dict(form.get("attrs", {}))
    if values.ndim != len(dims):
        raise ValueError("its values have another number of axes")
    have = np.ones((), bool)  # which elements have a label
    firsts = first_labels(form, dict.fromkeys(dims, 0))
    for j, (d, first, n) in enumerate(zip(dims, firsts, values.shape, strict=True)):
        if first is None:
            raise IndexError("it has no labels")
        places = np.arange(first, first + extents.get(d, n))
        known = (places >= 0) & (places < n)
        if known.all():
            values = values[(slice(None),) * j + (slice(first, first + len(places)),)]
            have = have[..., None]
            continue
        if not known.any():
            return None
        values = values.take(places.clip(0, n - 1), j)
        have = have[..., None] & known
    if have.all():
        return Coordinate(dims, values, attrs)
    filled = _with_missing(values, have, attrs)
    if filled is None:
        lost.append(f"coordinate {name!r}, since not all elements have a label")
        return None
    if filled.dtype != values.dtype:
        lost.append(
            f"the integers of coordinate {name!r}, but as floats: not all elements have a label, "
            "and NaN marks those without"
        )
    return Coordinate(dims, filled, attrs)


def _with_missing(
    values: NDArray[Any], have: NDArray[np.bool_], attrs: Mapping[str, Any]
) -> NDArray[Any] | None:
    """Return values with a missing value where `have` is False; None if the dtype has none."""
    missing: Any = {"f": np.nan, "c": np.nan, "M": "NaT", "m": "NaT", "U": "", "S": b""}.get(
        values.dtype.kind
    )
    if values.dtype.kind in "iu":
        said = np.ravel(attrs.get("_FillValue", attrs.get("missing_value", ())))
        if said.size and np.can_cast(said.dtype, values.dtype, "same_kind"):
            missing = said[0]
        else:
            missing, exact = np.nan, values.astype(np.float64)
            if np.abs(exact).max(initial=0) > 1 << 53:
                return None
            values = exact
    if missing is None:
        return None
    return np.where(have, values, np.asarray(missing, values.dtype))


# -- for an array --------------------------------------------------------------------------------


def attrs_for(given: Description, lost: list[str]) -> dict[str, Any]:
    """Return the attributes of a new array, with the coordinates among them.

    Parameters
    ----------
    given : Description
        Description of the array in the file.
    lost : list of str
        Collects descriptions of what attributes cannot hold.
    """
    attrs: dict[str, Any] = {}
    for name, value in given.attrs.items():
        fixed = _fixed(value)
        try:
            encode_attrs({name: fixed})
        except ExtArrayError as error:
            lost.append(f"attribute {name!r} ({error})")
        else:
            attrs[name] = fixed
    for name in ("dims", "coords", DATASET_ORIGIN):
        if name in attrs and (name != "dims" or known_dims(attrs[name], given.ndim) is not None):
            lost.append(f"attribute {name!r}, which is reserved for arrays")
            del attrs[name]
    forms = {}
    for name, each in given.coords.items():
        many = many_labels(each.values.size, each.values.nbytes)
        if many:
            lost.append(f"coordinate {name!r} ({many})")
            continue
        form = {
            "dims": list(each.dims),
            "origin": [0] * each.values.ndim,
            "data": _fixed(each.values),
        }
        if each.attrs:
            form["attrs"] = {key: _fixed(value) for key, value in each.attrs.items()}
        try:
            encode_attrs({"coords": form})
        except ExtArrayError as error:
            lost.append(f"coordinate {name!r} ({error})")
        else:
            forms[name] = form
    if forms:
        attrs["coords"] = forms
    if given.unlimited:
        attrs.setdefault(UNLIMITED, list(given.unlimited))
    return attrs


def many_labels(n: int, nbytes: int) -> str:
    """Describe why a coordinate is too large to be read; empty if it is not."""
    if n <= MOST_LABELS and nbytes <= _MOST_LABEL_BYTES:
        return ""
    return f"{n} elements, too many for attributes; store it as an array"


def _fixed(value: Any) -> Any:
    """Return lists instead of arrays of objects or of variable-length texts."""
    return (
        value.tolist()
        if isinstance(value, np.ndarray) and value.dtype.kind in ("O", "T")
        else value
    )
