"""Look up formats by name and by suffix."""

from __future__ import annotations

import functools
import os
import warnings
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from extarray.common.errors import ArgumentError
from extarray.common.lazy import LazyImports
from extarray.formats.transfer import Format

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GROUP", "file_formats", "format_of", "formats_of"]

#: Entry point group by which packages add formats; each entry point names a `Format`.
GROUP = "extarray.formats"

_ours = LazyImports(
    {
        "extarray.formats.envi": "ENVI",
        "extarray.formats.fits": "FITS",
        "extarray.formats.flat": "NPY NPZ RAW",
        "extarray.formats.geotiff": "GEOTIFF",
        "extarray.formats.hdf5": "HDF5",
        "extarray.formats.mat": "MAT",
        "extarray.formats.netcdf": "NETCDF",
        "extarray.formats.ome_zarr": "OME_ZARR",
        "extarray.formats.tables": "CSV",
        "extarray.formats.tiff": "TIFF",
        "extarray.formats.zarr": "ZARR",
    }
)


@functools.cache
def file_formats() -> Mapping[str, Format]:
    """Return the formats that arrays are read from and written to, by name.

    Returns
    -------
    mapping of str to Format
        Built-in formats, and those of other packages with an entry point in the group
        ``"extarray.formats"``.  Looked up once per process.

    Warns
    -----
    RuntimeWarning
        An entry point does not yield a `Format`, or its name is taken.

    Examples
    --------
    >>> import extarray as xa
    >>> "npy" in xa.file_formats()
    True
    >>> xa.file_formats()["npz"].title
    'NumPy .npz'
    """
    found: dict[str, Format] = {}
    for name in _ours:
        each: Format = getattr(_ours, name)
        found[each.name] = each
    for point in entry_points(group=GROUP):
        problem = _taken_up(found, point)
        if problem:
            warnings.warn(
                f"the format {point.name!r} of {point.value!r} is ignored: {problem}",
                RuntimeWarning,
                stacklevel=2,
            )
    return MappingProxyType(found)


def _taken_up(found: dict[str, Format], point: Any) -> str:
    """Register the format of an entry point; return a description of the problem, if any."""
    try:
        each = point.load()
    except Exception as error:  # noqa: BLE001 -- a foreign module may raise anything
        return f"{type(error).__name__}: {error}"
    if not isinstance(each, Format):
        return f"it is a {type(each).__name__}, not an extarray.formats.Format"
    if each.name in found:
        return "another format has this name"
    found[each.name] = each
    return ""


def format_of(file: Any, attrs: Mapping[str, Any] | None = None) -> Format:
    """Return the format of a file, by the suffix of its name.

    Formats that share a suffix are told apart by what the file has, or is to have.

    Parameters
    ----------
    file : str or PathLike
    attrs : mapping, optional
        Attributes of the array to be written.  None: the file is to be read.

    Returns
    -------
    Format

    Raises
    ------
    ArgumentError
        A ValueError: no format has this suffix; the message lists the suffixes.

    Examples
    --------
    >>> format_of("scene.NPY").name
    'npy'
    """
    possible = formats_of(file)
    return next((f for f in possible if f.suits is None or f.suits(file, attrs)), possible[0])


def formats_of(file: Any) -> list[Format]:
    """Return the formats whose files have the suffix of a name; see `format_of`.

    Examples
    --------
    >>> [each.name for each in formats_of("scene.tif")]
    ['geotiff', 'tiff']
    """
    name = os.path.basename(os.fsdecode(file)).lower()
    there: dict[str, list[Format]] = {}
    for each in file_formats().values():
        for suffix in each.suffixes:
            there.setdefault(suffix, []).append(each)
    for suffix in sorted(there, key=len, reverse=True):  # ".nc.gz" before ".gz"
        if name.endswith(suffix):
            return there[suffix]
    raise ArgumentError(
        f"cannot infer a format from the name {os.fsdecode(file)!r}; the suffixes are "
        f"{', '.join(sorted(there))}"
    )
