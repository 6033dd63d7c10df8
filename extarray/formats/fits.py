"""FITS images with the cards of their headers, through astropy."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import check_flag
from extarray.common.calls import public
from extarray.common.errors import ArgumentTypeError, DTypeError, ExistsError, FormatError
from extarray.common.extras import require
from extarray.common.hints import hint
from extarray.format.missing import as_element
from extarray.formats.description import Description, Packing
from extarray.formats.elements import flat_file, mapped, part_of
from extarray.formats.files import check_free, file_name, of_library, target_name, unknown_part
from extarray.formats.transfer import Format, Sink, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

__all__ = ["FITS", "from_fits", "to_fits"]

_TITLE = "FITS"
#: Size of the blocks of a file, in bytes.
_BLOCK = 2880
#: Attribute with the comments of cards, by keyword.
_COMMENTS = "card_comments"
_DTYPES = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
#: Cards that an array implies itself, or that concern only one file.
_STRUCTURE = frozenset(
    ["SIMPLE", "XTENSION", "BITPIX", "NAXIS", "EXTEND", "PCOUNT", "GCOUNT", "GROUPS", "END"]
    + ["CHECKSUM", "DATASUM"]
)
_PACKING = ("BSCALE", "BZERO", "BLANK")


@public
def from_fits(
    file: str | PathLike[str],
    hdu: int | str | None = None,
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
    """Make an array of an image in a FITS file, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
    hdu : int or str, optional
        Number of the image, from 0, or its name, the ``EXTNAME``.  None: the first with elements.
    path : str, PathLike, or None
        Name of the new pair of files.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    mask_and_scale : bool
        Unpack numbers by ``BSCALE`` and ``BZERO``; ``BLANK`` becomes NaN.  False: take elements
        and cards as they are.
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
        Its elements are big-endian, as in the file.  Unsigned integers, which FITS stores as signed
        ones with a ``BZERO``, are unsigned.  The cards of the header, including the world
        coordinate system, become attributes, and their comments ``card_comments``.  ``BLANK`` is
        also the fill value.  For unsigned integers it is given as an element: ``BLANK - 32768`` in
        the file becomes ``BLANK``.

    Raises
    ------
    VariableError
        A KeyError: no such image; the message names those in the file.
    FormatError
        A ValueError: the file is damaged, or of another format.
    MissingExtraError
        An ImportError: astropy is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Notes
    -----
    Compressed images are read tile by tile.

    Examples
    --------
    >>> import os, tempfile, numpy as np, extarray as xa
    >>> from astropy.io import fits
    >>> name = os.path.join(tempfile.mkdtemp(), "image.fits")
    >>> image = fits.PrimaryHDU(np.array([[1, 2], [3, 4]], "f4"))
    >>> image.header["CTYPE1"] = "RA---TAN"
    >>> image.writeto(name)
    >>> a = xa.from_fits(name)
    >>> a[...], a.attrs["CTYPE1"]
    (array([[1., 2.],
           [3., 4.]], dtype='>f4'), 'RA---TAN')
    """
    return FITS.load(
        file,
        hdu,
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


def to_fits(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    name: str | None = None,
    *,
    selection: Any = None,
    overwrite: bool = False,
    progress: Reported = True,
) -> None:
    """Write an array as an image into a FITS file, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
    file : str or PathLike
    name : str, optional
        ``EXTNAME`` of an extension, which is appended to the file.  None: the image is the only one
        in the file.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    overwrite : bool
        Replace an existing file, or the extension of this name.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.

    Raises
    ------
    DTypeError
        A TypeError: FITS only supports integers, and floats of 4 and 8 bytes.
    ExistsError
        A FileExistsError: the name is taken.
    MissingExtraError
        An ImportError: astropy is not installed.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    Attributes become cards, with the comments in ``card_comments``.  The file appears when it is
    complete.  Its elements are always big-endian.

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> from astropy.io import fits
    >>> name = os.path.join(tempfile.mkdtemp(), "image.fits")
    >>> a = xa.from_array([[1, 2], [3, 4]], attrs={"OBJECT": "M 13"})
    >>> xa.to_fits(a, name)
    >>> fits.getdata(name)[0].tolist(), fits.getheader(name)["OBJECT"]
    ([1, 2], 'M 13')
    """
    FITS.save(a, file, name, selection=selection, overwrite=overwrite, progress=progress)


@contextlib.contextmanager
def _opened(where: str) -> Iterator[Any]:
    """Open the list of HDUs in a file, without scaling."""
    fits: Any = require("astropy.io.fits", "fits", _TITLE)
    with of_library(where, _TITLE):
        os.stat(where)  # raises the error of the system
        there = fits.open(where, memmap=False, do_not_scale_image_data=True, uint=False)
        len(there)  # reads all headers
    try:
        yield there
    finally:
        there.close()


def _images(there: Any) -> dict[int, str]:
    """Return numbers and names of HDUs with elements; repeated names are empty."""
    result: dict[int, str] = {}
    for j, each in enumerate(there):
        if each.is_image and len(each.shape or ()):
            name = each.header.get("EXTNAME", "")
            result[j] = name if isinstance(name, str) and name not in result.values() else ""
    return result


def _names(file: Any) -> list[str]:
    """Return the names of the images in a file, or the numbers of unnamed ones."""
    with _opened(file_name(file, _TITLE)) as there, of_library(file, _TITLE):
        return [name or str(j) for j, name in _images(there).items()]


# -- reading -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _source(file: Any, name: Any = None) -> Iterator[Source]:
    """Open an image for reading."""
    where = file_name(file, _TITLE)
    with _opened(where) as there:
        with of_library(where, _TITLE):
            images = _images(there)
            known: dict[Any, int] = {each: j for j, each in images.items()}
            known |= {str(j): j for j in images} | {j: j for j in images}
            if name is None and images:
                name = next(iter(images))
            wanted = name.upper() if isinstance(name, str) and name not in known else name
            if wanted not in known or wanted == "":
                raise unknown_part(
                    where, name, "an image", [each or str(j) for j, each in images.items()]
                )
            source = _source_of(there[known[wanted]], where)
        yield source


def _source_of(image: Any, where: str) -> Source:
    """Return a source for an image of astropy."""
    lost: list[str] = []
    header = image.header
    attrs = _read_cards(header, lost)
    shape = tuple(image.shape)
    stored: np.dtype[Any] = np.dtype(_DTYPES[header["BITPIX"]])
    kind = _unsigned(stored, attrs)
    blank: Any = attrs.get("BLANK")
    is_blank = isinstance(blank, int) and as_element(blank, stored) is not None
    if kind is not None:
        for each in ("BZERO", "BSCALE"):  # the dtype implies them
            attrs.pop(each, None)
            attrs.get(_COMMENTS, {}).pop(each, None)
        if not attrs.get(_COMMENTS, True):
            del attrs[_COMMENTS]
        if is_blank:
            blank = attrs["BLANK"] = blank + _zero_of(kind)
    given = Description(shape, kind or stored, attrs=attrs)
    if is_blank:
        given.fill_value = blank
    if any(name in attrs for name in _PACKING):
        small = stored.itemsize <= 2 or stored == np.dtype(">f4")
        given.packing = Packing(
            float(attrs.get("BSCALE", 1)),
            float(attrs.get("BZERO", 0)),
            (blank,) if is_blank else (),
            np.dtype(np.float32 if small else np.float64),
            _PACKING,
        )
    pieces = getattr(image, "tile_shape", None)
    if pieces is None and _is_plain(where):
        elements = mapped(where, stored, shape, image.fileinfo()["datLoc"])
        plain = partial(part_of, elements)
        if kind is None:
            return Source(given, plain, mapped=True, lost=lost)
        convert = partial(_turned, kind=kind)
        return Source(
            given,
            lambda box: convert(plain(box)),
            mapped=True,
            lost=lost,
            plain=plain,
            convert=convert,
        )
    if pieces is not None:
        given.chunks = tuple(int(n) for n in pieces)

    def read(box: Box) -> NDArray[Any]:
        return _turned(np.asarray(image.section[box]).astype(stored, copy=False), kind)

    return Source(given, read, lost=lost)


def _is_plain(where: str) -> bool:
    """Tell whether a file is not compressed as a whole."""
    with open(where, "rb") as stream:
        return stream.read(6) == b"SIMPLE"


def _zero_of(kind: np.dtype[Any]) -> int:
    """Return the ``BZERO`` of integers that FITS stores with the other sign."""
    return -128 if kind.kind == "i" else 1 << (8 * kind.itemsize - 1)


def _unsigned(stored: np.dtype[Any], attrs: dict[str, Any]) -> np.dtype[Any] | None:
    """Return the dtype of integers that are stored with the other sign, or None."""
    zero = attrs.get("BZERO")
    if zero is None or attrs.get("BSCALE", 1) != 1 or stored.kind not in "iu":
        return None
    kind = np.dtype("i1" if stored.kind == "u" else stored.str.replace("i", "u"))
    return kind if zero == _zero_of(kind) else None


def _turned(values: NDArray[Any], kind: np.dtype[Any] | None) -> NDArray[Any]:
    """Flip the sign bit of integers, to or from the stored form."""
    if kind is None:
        return values
    bits = np.dtype(kind.str.replace("i", "u"))
    result = np.asarray(values).view(bits) ^ bits.type(1 << (8 * bits.itemsize - 1))
    turned: NDArray[Any] = result.astype(bits, copy=False).view(kind)
    return turned


def _read_cards(header: Any, lost: list[str]) -> dict[str, Any]:
    """Convert the cards of a header to attributes."""
    fits: Any = require("astropy.io.fits", "fits", _TITLE)
    attrs: dict[str, Any] = {}
    comments: dict[str, str] = {}
    for card in header.cards:
        try:
            name, value, comment = card.keyword, card.value, card.comment
        except (fits.VerifyError, ValueError, TypeError, KeyError) as error:
            lost.append(f"a card ({error})")
            continue
        if name in _STRUCTURE or (name.startswith("NAXIS") and name[5:].isdigit()):
            continue
        if name in ("COMMENT", "HISTORY"):
            attrs.setdefault(name, []).append(str(value))
        elif name == "":
            if str(value).strip():
                lost.append(f"the text {str(value)!r} without a keyword")
        elif name in attrs:
            lost.append(f"attribute {name!r}, which occurs more than once")
        else:
            attrs[name] = value if isinstance(value, (bool, int, float, complex, str)) else None
            if comment:
                comments[name] = comment
    if comments:
        attrs[_COMMENTS] = comments
    return attrs


# -- writing -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sink(file: Any, name: Any, given: Description, *, overwrite: bool = False) -> Iterator[Sink]:
    """Create a file, or a copy of one with an additional extension."""
    require("astropy.io.fits", "fits", _TITLE)
    where = target_name(file, _TITLE)
    check_flag(overwrite, "overwrite")
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise ArgumentTypeError(f"the name of the image must be a str, not {name!r}")
    stored = _stored_as(given.dtype)
    lost: list[str] = []
    kept: list[tuple[int, int]] = []
    head = b""
    if name is None:
        check_free(where, overwrite)
    elif os.path.lexists(where):
        kept = _others(where, name, overwrite)
        overwrite = True
    else:
        head = _primary()
    with of_library(where, _TITLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # truncated comments are reported in `lost`
        head += _head(given, stored, name, lost)
    tail = b"\0" * (-given.nbytes % _BLOCK)
    turn = np.dtype(stored.str.replace("u", "i")) if stored.kind == "u" else stored
    is_turned = _is_turned(stored)
    with flat_file(where, _TITLE, overwrite, given.nbytes, head, tail, kept) as write:

        def put(box: Box, values: NDArray[Any], first: int) -> None:
            # in place, since the values are not kept
            if values.dtype == stored.newbyteorder("=") != stored:
                values = values.byteswap(inplace=True).view(stored)
            values = values.astype(stored, copy=False)
            write(_turned(values, turn) if is_turned else values, first * stored.itemsize)

        yield Sink(put, sequential=tuple(range(given.ndim)), parallel=True, lost=lost)


def _stored_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype in the byte order of FITS.

    Raises
    ------
    DTypeError
        A TypeError: FITS does not support the dtype.
    """
    if (
        dtype.names is None
        and dtype.isbuiltin != 2
        and dtype.str[1:] in (*("u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"),)
    ):
        return dtype.newbyteorder(">")
    raise DTypeError(
        f"FITS does not support elements of {dtype}; convert them to integers or floats of 4 or 8 "
        f"bytes {hint('with a.astype', 'with extarray rechunk --dtype')}"
    )


def _is_turned(stored: np.dtype[Any]) -> bool:
    """Tell whether FITS stores such integers with the other sign."""
    return (stored.kind == "u" and stored.itemsize > 1) or stored.str[1:] == "i1"


def _others(where: str, name: str, overwrite: bool) -> list[tuple[int, int]]:
    """Return the byte ranges of a file without an extension, or refuse its name."""
    with _opened(where) as there, of_library(where, _TITLE):
        if not _is_plain(where):
            raise FormatError("it is compressed as a whole")
        kept, found = [], False
        for j, each in enumerate(there):
            info = each.fileinfo()
            if j and str(each.header.get("EXTNAME", "")).upper() == name.upper():
                found = True
            else:
                kept.append((info["hdrLoc"], info["datLoc"] + info["datSpan"]))
    if found and not overwrite:
        raise ExistsError(
            errno.EEXIST,
            f"it already has an extension {name!r}; replace it with overwrite=True",
            where,
        )
    return kept


def _primary() -> bytes:
    """Return the beginning of a file that only has extensions."""
    fits: Any = require("astropy.io.fits", "fits", _TITLE)
    head = fits.Header([("SIMPLE", True), ("BITPIX", 8), ("NAXIS", 0), ("EXTEND", True)])
    return bytes(head.tostring(), "ascii")


def _head(given: Description, stored: np.dtype[Any], name: str | None, lost: list[str]) -> bytes:
    """Return the header of an image."""
    fits: Any = require("astropy.io.fits", "fits", _TITLE)
    head = fits.Header()
    head["SIMPLE" if name is None else "XTENSION"] = True if name is None else "IMAGE"
    head["BITPIX"] = 8 * stored.itemsize * (-1 if stored.kind == "f" else 1)
    head["NAXIS"] = given.ndim
    for j, n in enumerate(reversed(given.shape), 1):
        head[f"NAXIS{j}"] = n
    if name is not None:
        head["PCOUNT"], head["GCOUNT"], head["EXTNAME"] = 0, 1, name
    attrs = dict(given.attrs)
    comments = attrs.pop(_COMMENTS, {})
    zero = 0
    if _is_turned(stored):
        zero = _zero_of(stored)
        head["BSCALE"], head["BZERO"] = 1, zero
        for each in {"BSCALE", "BZERO"} & set(attrs):
            del attrs[each]
            lost.append(f"attribute {each!r}, which such elements already imply")
    if stored.kind in "iu" and given.fills:
        attrs.setdefault("BLANK", int(given.fill_value))
    elif stored.kind in "iu" and given.missing is not None:
        attrs.setdefault("BLANK", int(given.missing))
    blank = attrs.get("BLANK")
    if given.fills and not (isinstance(blank, (int, np.integer)) and blank == given.fill_value):
        lost.append(f"the fill value {given.fill_value!r}")
    if zero and blank is not None:
        whole = isinstance(blank, (int, np.integer)) and as_element(blank, stored) is not None
        if whole:
            attrs["BLANK"] = int(blank) - zero
        else:
            del attrs["BLANK"]
            lost.append("attribute 'BLANK', which is not an element")
    for key, value in attrs.items():
        if key == "EXTNAME" and name is not None:
            continue
        _put_card(head, key, value, comments.get(key) if isinstance(comments, dict) else None, lost)
    if given.dims is not None:
        lost.append(f"the names of the axes {given.dims}")
    lost.extend(f"coordinate {each!r}" for each in given.coords)
    return bytes(head.tostring(), "ascii")


def _put_card(head: Any, key: str, value: Any, comment: Any, lost: list[str]) -> None:
    """Add an attribute to a header as a card."""
    fits: Any = require("astropy.io.fits", "fits", _TITLE)
    if isinstance(value, np.generic):
        value = value.item()
    upper = key.upper()
    try:
        if upper in ("COMMENT", "HISTORY") and isinstance(value, list):
            for line in value:
                head.add_comment(line) if upper == "COMMENT" else head.add_history(line)
            return
        if not isinstance(value, (bool, int, float, complex, str, type(None))):
            raise ValueError(f"a card cannot hold a {type(value).__name__}")
        if isinstance(value, (float, complex)) and not math.isfinite(abs(value)):
            raise ValueError("a card can only hold finite numbers")
        if upper in head or upper in _STRUCTURE or upper.startswith("NAXIS"):
            raise ValueError("the file has another card of this name")
        if not key.isascii() or not key.isprintable() or "=" in key:
            raise ValueError("its name is not valid for a card")
        plain = len(upper) <= 8 and upper.replace("-", "").replace("_", "").isalnum()
        name = upper if plain else f"HIERARCH {upper}"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            head[name] = (value, comment) if isinstance(comment, str) else value
            head.cards[-1].image  # noqa: B018 -- makes astropy check the value
        if said:
            lost.append(f"the end of the comment of {key!r}")
    except (fits.VerifyError, ValueError, TypeError, AttributeError) as error:
        if upper in head and head.cards and head.cards[-1].keyword == upper:
            del head[-1]
        lost.append(f"attribute {key!r} ({error})")
        return
    if key != upper:
        lost.append(f"attribute {key!r}, which is named {upper!r} in the file")


FITS = Format(
    "fits",
    _TITLE,
    (".fits", ".fit", ".fts", ".fits.gz", ".fits.fz"),
    _source,
    _sink,
    part="an image",
    extra="fits",
    names=_names,
)
