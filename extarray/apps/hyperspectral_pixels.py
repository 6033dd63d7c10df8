"""Scenes in their owners' forms, read box by box; which of their pixels have data.

A scene is an ExtArray or a view of one, an array, `numpy.ma` included, an xarray DataArray, or an
SPy image.  Each has its own way to mark pixels without data.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray import ArgumentError, AxisError, ShapeError

__all__ = ["Raster", "within"]

#: Names of a band axis, in lower case.
_BANDS = ("band", "bands", "wavelength", "wavelengths")

#: Attributes that name values for missing data: of netCDF, GeoTIFF, ENVI and FITS.
_NODATA = ("_FillValue", "missing_value", "nodata", "data ignore value", "BLANK")


class Raster:
    """A scene of three axes, read box by box, with the bands last.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Real numbers.
    band_axis : int or str, optional
        The axis of the bands, or its name.  Default: the only axis with a usual name, else the
        last.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out.  False: no value stands for missing data, whatever the scene
        says.
    covers : bool
        The mask may be larger than the scene.

    Attributes
    ----------
    array : object
        The scene as given.
    rows, columns, bands : int
    """

    def __init__(
        self, a: Any, band_axis: Any = None, mask: Any = None, covers: bool = False
    ) -> None:
        array = a if hasattr(a, "shape") and hasattr(a, "dtype") else np.asanyarray(a)
        if len(array.shape) != 3:
            raise ShapeError(
                f"a scene must have three axes (rows, columns, bands), not shape {array.shape}"
            )
        dtype: np.dtype[Any] = np.dtype(array.dtype)  # SPy gives a string
        if dtype.kind not in "biuf":
            raise ArgumentError(f"a scene must have real numbers, not {dtype}")
        self.array = array
        self.band_axis = _band_axis(array, band_axis)
        spatial = [int(n) for axis, n in enumerate(array.shape) if axis != self.band_axis]
        bands = int(array.shape[self.band_axis])
        self._place = slice(0, spatial[0]), slice(0, spatial[1]), slice(0, bands)
        trusts_all = mask is False or mask is np.False_
        self._mask = None if mask is None or trusts_all else _mask(mask, spatial, covers)
        self._nodata = [] if trusts_all else _nodata_of(array, dtype)
        # SPy images seek and read in one file object.
        self._lock = threading.Lock() if _is_spy(array) else contextlib.nullcontext()
        # A transformed image has data only where its source has.
        below = getattr(array, "image", None) if _is_spy(array) and not trusts_all else None
        self._below = None if below is None else Raster(below)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self._place[0].stop - self._place[0].start)

    @property
    def columns(self) -> int:
        """The number of columns."""
        return int(self._place[1].stop - self._place[1].start)

    @property
    def bands(self) -> int:
        """The number of bands."""
        return int(self._place[2].stop - self._place[2].start)

    def part(self, rows: slice, columns: slice, bands: slice) -> Raster:
        """Return a part of the scene, which reads nothing else."""
        part = copy.copy(self)
        box = self._place
        part._place = within(box[0], rows), within(box[1], columns), within(box[2], bands)
        return part

    def kept(self) -> Raster:
        """Return the scene as one that keeps in memory all boxes that it reads."""
        return _Kept(self)

    def read(self, rows: slice, columns: slice) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Read a box of pixels.

        Returns
        -------
        values : ndarray, (rows, columns, bands)
        missing : ndarray of bool, (rows, columns), or None
            Pixels that the mask or the scene marks as missing.
        """
        place = within(self._place[0], rows), within(self._place[1], columns)
        key = list(place)
        key.insert(self.band_axis, self._place[2])
        with self._lock:
            found = np.asanyarray(self.array[tuple(key)])
        values = np.moveaxis(found, self.band_axis, -1)
        missing: list[Any] = []
        if isinstance(values, np.ma.MaskedArray):
            if np.ma.getmask(values) is not np.ma.nomask:
                missing.append(np.ma.getmaskarray(values).any(axis=-1))
            values = values.data
        missing += [(values == value).any(axis=-1) for value in self._nodata]
        if self._below is not None:
            missing.append(self._below.read(*place)[1])
        if self._mask is not None:
            missing.append(np.asarray(self._mask[place], dtype=bool))
        said = [one for one in missing if one is not None]
        return np.asarray(values), np.logical_or.reduce(said) if said else None


class _Kept(Raster):
    """A scene that keeps all boxes that it reads in memory."""

    def __init__(self, raster: Raster) -> None:
        self.__dict__.update(raster.__dict__)
        self._boxes: dict[tuple[int, int], tuple[NDArray[Any], NDArray[np.bool_] | None]] = {}

    def read(self, rows: slice, columns: slice) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Read a box of pixels, or return it if it was read before."""
        key = rows.start, columns.start
        if key not in self._boxes:
            self._boxes[key] = super().read(rows, columns)
        return self._boxes[key]


def within(whole: slice, part: slice) -> slice:
    """Return a part of a slice as a slice of the whole sequence."""
    return slice(whole.start + part.start, whole.start + part.stop)


def _is_spy(array: Any) -> bool:
    """Tell whether an image is SPy's, without importing SPy."""
    return any(kind.__module__.split(".")[0] == "spectral" for kind in type(array).__mro__)


def _band_axis(array: Any, given: Any) -> int:
    dims = getattr(array, "dims", None)
    named = isinstance(dims, tuple) and all(isinstance(name, str) for name in dims)
    names: tuple[str, ...] = dims if named and dims is not None else ()
    if given is None:
        found = [axis for axis, name in enumerate(names) if name.lower() in _BANDS]
        return found[0] if len(found) == 1 else 2
    if isinstance(given, str):
        if given not in names:
            raise AxisError(f"no axis is named {given!r}; the axes are {names or 'unnamed'}")
        return names.index(given)
    if not -3 <= given < 3:
        raise AxisError(given, 3)
    return int(given) % 3


def _mask(mask: Any, spatial: list[int], covers: bool) -> Any:
    """Return a mask that can be read in boxes; refuse one that does not fit the scene's pixels."""
    found = mask if hasattr(mask, "shape") and hasattr(mask, "dtype") else np.asarray(mask)
    shape = tuple(int(n) for n in found.shape)
    fits = len(shape) == 2 and (
        all(n >= extent for n, extent in zip(shape, spatial, strict=True))
        if covers
        else shape == tuple(spatial)
    )
    if not fits:
        raise ShapeError(
            f"a mask must have the rows and columns of the scene, {tuple(spatial)}, not shape "
            f"{shape}"
        )
    if np.dtype(found.dtype).kind not in "biu":
        raise ArgumentError(f"a mask must be boolean (True leaves a pixel out), not {found.dtype}")
    return found


# -- values for missing data -----------------------------------------------------------------------


def _nodata_of(array: Any, dtype: np.dtype[Any]) -> list[Any]:
    """Return a scene's values for missing data, as elements of its dtype; without NaN."""
    if _is_spy(array):
        return _nodata_of_spy(array, dtype)
    attrs = getattr(array, "attrs", None)
    if attrs is None:  # a view of an array with attributes
        attrs = getattr(getattr(array, "base", None), "attrs", None)
    given = [] if attrs is None else [attrs[name] for name in _NODATA if name in attrs]
    # Imports store such a value as the fill value.  Zero is every array's default.
    fill = getattr(array, "fill_value", None)
    if _has_origin(array) and fill != 0:
        given.append(fill)
    return _elements(given, dtype)


def _has_origin(array: Any) -> bool:
    """Tell an ExtArray or a view of one from other packages' arrays with a `fill_value`."""
    return hasattr(array, "origin") or hasattr(getattr(array, "base", None), "origin")


def _nodata_of_spy(image: Any, dtype: np.dtype[Any]) -> list[Any]:
    """Return the value that an image's header says to ignore, in the units that SPy reads."""
    metadata = getattr(image, "metadata", None) or {}
    found = _elements([metadata.get("data ignore value", ())], dtype)
    while hasattr(image, "parent"):  # a part has the units of the whole
        image = image.parent
    if hasattr(image, "scale_factor"):
        scale = float(image.scale_factor)
        return found if scale == 1 else [value / scale for value in found]
    # A loaded image is in these units, or as stored.
    (scale,) = [*_numbers([metadata.get("reflectance scale factor", 1)])][:1] or [1]
    return [*found, *(dtype.type(value / scale) for value in found if scale not in (0, 1))]


def _elements(given: Iterable[Any], dtype: np.dtype[Any]) -> list[Any]:
    """Return values of attributes as distinct elements of a dtype, without NaN."""
    found: list[Any] = []
    for value in _numbers(given):
        element = _element(value, dtype)
        if element is not None and element == element and element not in found:
            found.append(element)
    return found


def _numbers(given: Iterable[Any]) -> Iterable[Any]:
    """Yield the numbers among values of attributes, which may be texts and arrays."""
    for value in given:
        for one in np.asarray(value).reshape(-1).tolist():
            if isinstance(one, (int, float)):
                yield one
            elif isinstance(one, str):
                with contextlib.suppress(ValueError):
                    yield int(one) if one.strip().lstrip("+-").isdigit() else float(one)


def _element(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number as an element of a dtype, or None if no element equals it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return dtype.type(value)
    if value != value or value in (np.inf, -np.inf) or int(value) != value:
        return None
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.iinfo(np.uint8)
    return dtype.type(int(value)) if limits.min <= value <= limits.max else None
