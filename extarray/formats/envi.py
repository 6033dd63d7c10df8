"""ENVI: raw elements beside a text header, as common for hyperspectral images."""

from __future__ import annotations

import contextlib
import math
import os
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.common.arguments import check_choice, check_flag
from extarray.common.calls import public
from extarray.common.errors import DTypeError, FormatError, MissingError, ShapeError
from extarray.common.hints import hint
from extarray.common.system import remove, replace
from extarray.format.missing import as_element
from extarray.format.places import OF_IMAGE, PER_BAND, plane
from extarray.formats.description import Coordinate, Description, Packing
from extarray.formats.elements import flat_file, mapped
from extarray.formats.files import beside, check_free, file_name, of_library
from extarray.formats.transfer import Format, Sink, Source, inverse
from extarray.storage.filesystem import random_name, replaced_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported

__all__ = ["ENVI", "from_envi", "to_envi"]

_TITLE = "ENVI"
_DIMS = ("y", "x", "band")
#: Axes of an array (line, sample, band), from the slowest in the file to the fastest.
_AXES = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}
_DTYPES = {
    1: "u1",
    2: "i2",
    3: "i4",
    4: "f4",
    5: "f8",
    6: "c8",
    9: "c16",
    12: "u2",
    13: "u4",
    14: "i8",
    15: "u8",
}
#: Header entries that an array implies itself.
_STRUCTURE = frozenset(
    ["samples", "lines", "bands", "header offset", "data type", "interleave", "byte order"]
)
#: Lists with an entry for each band, which become coordinates.
_PER_BAND = {"wavelength": "wavelength", "fwhm": "fwhm", "band names": "band_name", "bbl": "bbl"}
_NAMES = "band names"
_UNITS = "wavelength units"
_IGNORE = "data ignore value"
_SCALE = "reflectance scale factor"
#: The last line of a list: a comment may follow the brace.
_LAST_LINE = re.compile(r"\}\s*(;.*)?$")
_SUFFIXES = (".img", ".dat", ".raw", ".bin", ".bsq", ".bil", ".bip", ".sli")


@public
def from_envi(
    file: str | PathLike[str],
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    mask_and_scale: bool = False,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> ExtArray:
    """Make an array of an image of ENVI, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
        The header, ``scene.hdr``, or the file with the elements beside it.
    path : str, PathLike, or None
        Name of the new pair of files.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    mask_and_scale : bool
        Divide by the header's ``reflectance scale factor``; elements that are its ``data ignore
        value`` become NaN.  False: take elements as they are.
    overwrite : bool
        Replace an existing pair of files.
    sparse : bool, optional
        Leave holes in place of zeros, as for `create`.  None: do so if parts of the file were never
        written.
    compression : str, int, Codec or None
        Codec of the new array, as for `create`; all chunks are frozen at the end.
    significant_bits : int, optional
        Round floats to so many bits of the mantissa, as for `from_array`.  None: take them as they
        are.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    max_result : int or str, optional
        Largest array, in bytes or as ``"2 TiB"``, that a file of less than a thousandth of its size
        may make; holes hardly count.  None: ``config.max_result``.

    Returns
    -------
    ExtArray
        With the axes ``y``, ``x`` and ``band``, whatever the order in the file.  Wavelengths, their
        widths (``fwhm``), band names (``band_name``) and the list of bad bands (``bbl``) become
        coordinates along the bands.  The ``data ignore value`` is the fill value, or stays an
        attribute if it is zero or not an element.  The rest of the header becomes attributes, as
        text.

    Raises
    ------
    DTypeError
        A TypeError: the header has an unknown element type.
    FormatError
        A ValueError: the file is damaged, or of another format.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Examples
    --------
    >>> import os, tempfile, numpy as np, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.hdr")
    >>> coords = {"wavelength": {"dims": ["band"], "data": [450.0, 550.0, 650.0]}}
    >>> scene = xa.from_array(
    ...     np.arange(6, dtype="u2").reshape(1, 2, 3),
    ...     dims=("y", "x", "band"),
    ...     attrs={"coords": coords},
    ... )
    >>> xa.to_envi(scene, name)
    >>> a = xa.from_envi(name)
    >>> a[0], a.attrs["coords"]["wavelength"]["data"]
    (array([[0, 1, 2],
           [3, 4, 5]], dtype=uint16), array([450., 550., 650.]))
    """
    return ENVI.load(
        file,
        path=path,
        chunks=chunks,
        mask_and_scale=mask_and_scale,
        overwrite=overwrite,
        sparse=sparse,
        compression=compression,
        significant_bits=significant_bits,
        progress=progress,
        max_result=max_result,
    )


def to_envi(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    *,
    selection: Any = None,
    interleave: Literal["bsq", "bil", "bip"] = "bsq",
    overwrite: bool = False,
    progress: Reported = True,
) -> None:
    """Write an array as an image of ENVI, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
        With 3 axes: lines, samples and bands; or with 2, for an image of one band.
    file : str or PathLike
        The header, ``scene.hdr``; the elements go to ``scene.img`` beside it.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    interleave : {"bsq", "bil", "bip"}
        Order of the elements in the file: by band, by line, or by pixel.
    overwrite : bool
        Replace the two files.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.

    Raises
    ------
    DTypeError
        A TypeError: ENVI does not support the dtype.
    ShapeError
        A ValueError: the array has another number of axes.
    ExistsError
        A FileExistsError: the name is taken.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    The files take their names when they are complete, the header last.  A header has texts and
    lists of texts, and no escape for a brace: a ``LossyWarning`` names each attribute of another
    form, which is left out.

    Examples
    --------
    >>> import os, tempfile, numpy as np, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.hdr")
    >>> xa.to_envi(xa.from_array(np.arange(6, dtype="i2").reshape(1, 2, 3)), name)
    >>> np.fromfile(name[:-4] + ".img", "i2")
    array([0, 3, 1, 4, 2, 5], dtype=int16)
    """
    ENVI.save(
        a, file, interleave=interleave, selection=selection, overwrite=overwrite, progress=progress
    )


def _pair(where: str) -> tuple[str, str]:
    """Return the names of the header and of the element file."""
    stem, suffix = os.path.splitext(where)
    if suffix.lower() == ".hdr":
        header = where
        for each in (stem, *(stem + s for s in _SUFFIXES), *(stem + s.upper() for s in _SUFFIXES)):
            if os.path.isfile(each):
                return header, each
        if not os.path.exists(where):
            os.stat(where)  # raises the error of the system
        raise MissingError(f"no file of elements next to {where!r}, such as {stem!r}")
    os.stat(where)
    for each in (where + ".hdr", stem + ".hdr", where + ".HDR", stem + ".HDR"):
        if os.path.isfile(each):
            return each, where
    raise FormatError(f"no header next to {where!r}: {stem + '.hdr'!r} is missing")


# -- reading -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _source(file: Any, name: Any = None) -> Iterator[Source]:
    """Map a file for reading."""
    where = file_name(file, _TITLE)
    with of_library(where, _TITLE):
        header, elements = _pair(where)
        with open(header, encoding="utf-8", errors="surrogateescape") as stream:
            said = _parsed(stream.read(1 << 26))
        source = _source_of(said, elements)
    yield source


def _parsed(text: str) -> dict[str, Any]:
    """Return the entries of a header by lower-case key: a text, or a list of texts."""
    if not text.startswith("ENVI"):
        raise FormatError("the header does not begin with 'ENVI'")
    result: dict[str, Any] = {}
    lines = iter(text.split("\n")[1:])
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals or line.lstrip().startswith(";"):
            continue
        key, value = key.strip().lower(), value.strip()
        result[key] = _braced(key, value, lines) if value.startswith("{") else value
    return result


def _braced(key: str, value: str, lines: Iterator[str]) -> str | list[str]:
    """Return a description, or a list, that begins with a brace and may span lines."""
    # A comment begins a line; only among numbers, where no other reader allows it, may it follow
    # them.
    behind = key in _PER_BAND and key != _NAMES
    rows, row, end = [], value[1:], None
    while end is None:
        row = row.partition(";")[0] if behind else row.strip()
        if not row.startswith(";"):
            end = _LAST_LINE.search(row)
            rows.append(row[: end.start()] if end else row)
        if end is None:
            row = next(lines, "}")
    inner = "\n".join(rows).strip()
    if key == "description":
        return inner
    return [v.strip() for v in inner.split(",")] if inner else []


def _number(said: dict[str, Any], key: str, default: int | None = None) -> int:
    """Return a number from a header."""
    if key not in said and default is not None:
        return default
    try:
        value = int(said[key])
    except KeyError:
        raise FormatError(f"the header has no entry {key!r}") from None
    except (TypeError, ValueError):
        raise FormatError(
            f"the header has {key!r} = {said[key]!r}, which is not a number"
        ) from None
    if value < 0:
        raise FormatError(f"the header has {key!r} = {value}")
    return value


def _source_of(said: dict[str, Any], elements: str) -> Source:
    """Return the elements of a file as a source."""
    extents = tuple(_number(said, key) for key in ("lines", "samples", "bands"))
    code = _number(said, "data type")
    if code not in _DTYPES:
        raise DTypeError(f"the data type {code} is not supported; use one of {sorted(_DTYPES)}")
    if _number(said, "file compression", 0):
        raise FormatError("the elements are compressed; save the image without compression")
    axes = _AXES.get(str(said.get("interleave", "bsq")).lower())
    if axes is None:
        raise FormatError(f"the interleave {said['interleave']!r} is not one of bsq, bil, bip")
    order = ">" if _number(said, "byte order", 0) else "<"
    dtype = np.dtype(order + _DTYPES[code])
    stored = mapped(
        elements, dtype, tuple(extents[j] for j in axes), _number(said, "header offset", 0)
    )
    values = stored.transpose(inverse(axes))
    attrs = {key: value for key, value in said.items() if key not in _STRUCTURE}
    given = Description(extents, dtype, attrs=attrs, dims=_DIMS)
    lost: list[str] = []
    _read_bands(given, lost)
    missing: tuple[Any, ...] = ()
    ignored = None
    with contextlib.suppress(KeyError, InvalidOperation, TypeError, ValueError):
        ignored = as_element(Decimal(attrs[_IGNORE]), dtype)
    if ignored is not None:
        given.fill_value, missing = ignored, (ignored,)
        if given.fills:  # a fill value of zero does not mean "missing"
            del attrs[_IGNORE]
    scale = 1.0
    with contextlib.suppress(KeyError, TypeError, ValueError, ZeroDivisionError):
        scale = 1 / float(attrs[_SCALE])
    if missing or scale != 1:
        small = dtype.itemsize <= 2 or dtype.str[1:] == "f4"
        if dtype.kind in "iuf":
            kind = np.dtype(np.float32 if small else np.float64)
            said_so = (_SCALE, _IGNORE) if missing else (_SCALE,)
            given.packing = Packing(scale, 0.0, missing, kind, said_so)
    return Source(given, lambda box: values[box], mapped=True, lost=lost)


def _read_bands(given: Description, lost: list[str]) -> None:
    """Move the coordinates along the bands out of the attributes."""
    for key, name in _PER_BAND.items():
        each = given.attrs.get(key)
        if not isinstance(each, list) or len(each) != given.shape[2]:
            continue
        if key == _NAMES:
            values = np.array(each, str)
        else:
            try:
                values = np.array([float(v) for v in each])
            except ValueError:
                continue
        del given.attrs[key]
        notes = {}
        units = given.attrs.get(_UNITS)
        if key in ("wavelength", "fwhm") and isinstance(units, str):
            notes["units"] = units
        given.coords[name] = Coordinate(("band",), values, notes)


# -- writing -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sink(
    file: Any, name: Any, given: Description, *, overwrite: bool = False, interleave: Any = "bsq"
) -> Iterator[Sink]:
    """Create the element file, and the header."""
    where = file_name(file, _TITLE)
    stem, suffix = os.path.splitext(where)
    if suffix.lower() != ".hdr":
        stem, where = where, where + ".hdr"
    check_choice(interleave, "interleave", tuple(_AXES))
    check_flag(overwrite, "overwrite")
    if given.ndim not in (2, 3):
        raise ShapeError(
            f"ENVI images have 2 or 3 axes, but the array has {given.ndim}; select fewer"
        )
    elements = stem if suffix.lower() != ".hdr" else stem + ".img"
    check_free(elements, overwrite)
    lost: list[str] = []
    text = _header(given, interleave, lost)
    with _header_away(where, elements) as take_away, beside(where, overwrite) as fresh:
        with of_library(where, _TITLE), open(fresh, "wb") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
        with flat_file(elements, _TITLE, overwrite, given.nbytes) as write:
            axes = tuple(j for j in _AXES[interleave] if j < given.ndim)
            itemsize = given.dtype.itemsize
            yield Sink(
                lambda box, values, first: write(values, first * itemsize),
                sequential=axes,
                parallel=True,
                lost=lost,
            )
            with of_library(where, _TITLE):
                take_away()


@contextlib.contextmanager
def _header_away(where: str, elements: str) -> Iterator[Callable[[], None]]:
    """Yield a function that hides a header before its elements are replaced.

    If the process is killed before the new header takes the name, there is no header, so no reader
    combines the old one with the new elements.  The old header returns if the block fails while the
    old elements exist.
    """
    aside, real = "", where
    before = os.stat(elements) if os.path.exists(elements) else None

    def take_away() -> None:
        nonlocal aside, real
        if os.path.exists(where):
            real = replaced_name(where)
            aside = random_name(real)
            replace(real, aside)

    try:
        yield take_away
    except BaseException:
        with contextlib.suppress(OSError):
            if before is None or os.path.samestat(before, os.stat(elements)):
                replace(aside, real)
        raise
    finally:
        with contextlib.suppress(OSError):
            remove(aside)


def _header(given: Description, interleave: str, lost: list[str]) -> str:
    """Return the header of an image."""
    codes = {kind: code for code, kind in _DTYPES.items()}
    plain = given.dtype.names is None and given.dtype.isbuiltin != 2
    code = codes.get(given.dtype.str[1:]) if plain else None
    if code is None:
        raise DTypeError(
            f"ENVI does not support elements of {given.dtype}; convert them to one of "
            f"{', '.join(sorted(codes))} {hint('with a.astype', 'with extarray rechunk --dtype')}"
        )
    lines, samples, bands = (*given.shape, 1)[:3]
    said: dict[str, Any] = {
        "samples": samples,
        "lines": lines,
        "bands": bands,
        "header offset": 0,
        "file type": "ENVI Standard",
        "data type": code,
        "interleave": interleave,
        "byte order": int(given.dtype.newbyteorder("<") != given.dtype),
    }
    if given.fills:
        if given.dtype.kind == "c":
            lost.append(f"the fill value {given.fill_value!r}")
        else:
            said[_IGNORE] = np.asarray(given.fill_value, given.dtype)[()].item()
    elif _IGNORE not in given.attrs and given.missing is not None:
        said[_IGNORE] = given.missing.item()
    _put_bands(said, given, lost)
    if given.dims is not None and given.dims != _DIMS[: given.ndim]:
        lost.append(f"the names of the axes {given.dims}")
    is_image = plane(given.names, last=False) == (0, 1)
    for key, value in given.attrs.items():
        if key in OF_IMAGE and not is_image:
            lost.append(f"attribute {key!r}, since the axes are {given.dims}, not {_DIMS}")
        elif key == "default bands" and _has_no(value, bands):
            lost.append(f"attribute {key!r}, since some of these bands are left out")
        elif key in PER_BAND and isinstance(value, (list, tuple)):
            _put_entries(said, key, value, given, lost)
        else:
            _put(said, key, value, lost)
    rows = ["ENVI"]
    for key, value in said.items():
        if isinstance(value, list):
            value = "{" + ", ".join(value) + "}"
        elif key == "description":
            value = "{" + value + "}"
        rows.append(f"{key} = {value}")
    return "\n".join(rows) + "\n"


def _put_bands(said: dict[str, Any], given: Description, lost: list[str]) -> None:
    """Add the coordinates along the bands to the entries of a header."""
    own = () if given.dims is None else given.dims[2:]
    there = {key: given.coords[name] for key, name in _PER_BAND.items() if name in given.coords}
    there = {key: each for key, each in there.items() if own and each.dims == own}
    lost.extend(
        f"coordinate {name!r}" for name in given.coords if name not in map(_PER_BAND.get, there)
    )
    units = given.attrs.get(_UNITS)
    for key, each in there.items():
        name, kind = _PER_BAND[key], each.values.dtype
        if key == _NAMES:
            texts = each.values.tolist() if kind.kind == "U" else []
        else:
            is_number = kind.kind in "biu" or kind.char in "efd"
            whole = name == "bbl"  # its flags are read as integers
            texts = [_number_text(v, whole) for v in each.values.tolist()] if is_number else []
        if name == "bbl" and "nan" in texts:
            lost.append(f"coordinate {name!r}, since some bands have no entry")
            continue
        if len(texts) != given.shape[2] or not _is_list(texts):
            lost.append(f"coordinate {name!r}, whose values a header cannot hold")
            continue
        said[key] = texts
        own_units = each.attrs.get("units")
        if key == "wavelength" and isinstance(own_units, str) and _is_text(own_units):
            said[_UNITS] = units = own_units
        lost.extend(
            f"attribute {k!r} of the coordinate {name!r}"
            for k, v in each.attrs.items()
            if not (k == "units" and isinstance(v, str) and v == units)
        )


def _number_text(value: Any, whole: bool) -> str:
    """Return a number as text; `whole`: without a zero fraction."""
    is_whole = whole and math.isfinite(value) and value == int(value)
    return str(int(value)) if is_whole else repr(value)


def _put_entries(
    said: dict[str, Any], key: str, value: Any, given: Description, lost: list[str]
) -> None:
    """Add a list with an entry for each band to the entries of a header."""
    try:
        entries = given.entries(value, 2)
    except ValueError as error:
        lost.append(f"attribute {key!r} ({error})")
        return
    if None in entries:
        lost.append(f"attribute {key!r}, since some bands have no entry")
    else:
        _put(said, key, entries, lost)


def _has_no(value: Any, bands: int) -> bool:
    """Tell whether a list numbers bands, from 1, that an image does not have."""
    try:
        return any(float(number) > bands for number in value)
    except (TypeError, ValueError):
        return False


def _is_text(value: Any) -> bool:
    """Tell whether a header can hold a text outside of a list."""
    return isinstance(value, str) and value == value.strip() and not re.search(r"[{}\n\r\0]", value)


def _is_list(value: Any) -> bool:
    """Tell whether a header can hold a list of texts."""
    return (
        isinstance(value, list)
        and value != [""]  # would be read as an empty list
        and all(_is_text(v) and "," not in v for v in value)
    )


def _put(said: dict[str, Any], key: str, value: Any, lost: list[str]) -> None:
    """Add an attribute to the entries of a header."""
    name = key.lower()
    there = said.get(name) if name != "file type" else None
    is_name = re.fullmatch(r"[^\s=;{}](?:[^=\n\r\0{}]*[^\s={}])?", key)
    form, but = value, ""
    if name == "description" and isinstance(value, str):
        rows = [row.strip() for row in value.strip().split("\n")]
        form = "\n".join(rows)
        but = ", except for spaces around its lines" if form != value else ""
        is_held = all(_is_text(row) and not row.startswith(";") for row in rows)
    elif isinstance(value, (bool, int, float, np.generic)):
        form = str(value)
        but = ", but as text"
        is_held = _is_text(form)
    else:
        is_held = _is_text(value) or (_is_list(value) and name != "description")
    if name in _STRUCTURE or not is_name or not (there is None or (is_held and str(there) == form)):
        lost.append(f"attribute {key!r}, which a header cannot hold")
    elif not is_held:
        lost.append(f"attribute {key!r}, whose type a header cannot hold")
    elif there is None:
        said[name] = form
        if but:
            lost.append(f"attribute {key!r}{but}")
        if name != key:
            lost.append(f"attribute {key!r}, which is named {name!r} in the file")


ENVI = Format("envi", _TITLE, (".hdr",), _source, _sink)
