"""Compression of a new array: as asked for, or that of the array whose elements it takes.

And rounding, which makes elements compress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import NOT_GIVEN, check_choice
from extarray.common.choices import FREEZES
from extarray.common.errors import ArgumentError, MissingExtraError
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from extarray.codecs.codec import Codec
    from extarray.codecs.rounding import Rounding
    from extarray.format.header import Header

__all__ = [
    "check_encoding",
    "check_writable",
    "compressed_as",
    "encoded",
    "encoded_like",
    "encoding_of",
    "rounding_of",
]

_later = LazyImports(
    {
        "extarray.codecs.codec": "ENTRY_POINTS Codec",
        "extarray.codecs.libraries": "check_present",
        "extarray.codecs.rounding": "Rounding check_bits",
        "extarray.format.missing": "missing_elements",
    }
)


def encoding_of(header: Header) -> dict[str, Any]:
    """Return the options of `create` that an array was compressed with; empty if it is not."""
    note = header.encoding
    if note:
        return {"compression": note["codec"], "freeze": note.get("freeze", FREEZES[0])}
    return {} if header.compression is None else {"compression": header.compression}


def compressed_as(array: Any) -> dict[str, Any]:
    """Return the options of `create` that an open array was compressed with."""
    return encoding_of(array._store.now.header)


def check_encoding(path: Any, compression: Any = None, freeze: Any = FREEZES[0]) -> Codec | None:
    """Return the codec for an array at `path`; None: it is not to be compressed.

    Raises
    ------
    ArgumentError
        A ValueError: there is no such codec, or the array is in memory.
    MissingExtraError
        An ImportError: the library of the codec is not installed.
    """
    codec: Codec | None = _later.Codec.parse(compression)
    check_choice(freeze, "freeze", FREEZES)
    if codec is not None:
        if path is None:
            raise ArgumentError("compression needs files; give a path, or leave it out")
        _later.check_present(codec)
    return codec


def check_writable(header: Header, path: Any) -> None:
    """Raise MissingExtraError if nobody could compress the chunks that a writer leaves behind.

    They would stay raw without a word.  With ``freeze="never"``, the call that compresses raises.
    """
    if not header.has_blobs:
        return
    note = header.encoding
    name, what = note.get("codec"), f"cannot open '{path}' for writing"
    if name is None or note.get("freeze") == "never":
        return
    otherwise = hint(
        "; or open it with share=True, and let a later writer compress what this one leaves", ""
    )
    try:
        _later.check_present(_later.Codec.parse(name))
    except MissingExtraError as error:
        told = MissingExtraError(f"{what}: {error}{otherwise}")
        told.name, told.extra = error.name, error.extra
        raise told from None
    except ArgumentError:
        raise MissingExtraError(
            f"{what}: no installed package registers its codec {name!r} as an entry point of "
            f"{_later.ENTRY_POINTS!r}; install the one that does{otherwise}"
        ) from None


def encoded(header: Header, compression: Any, freeze: Any, path: Any) -> Header:
    """Return the header of an array at `path` that is compressed as asked.

    Raises
    ------
    ArgumentError, MissingExtraError
        As `check_encoding`.
    """
    codec = check_encoding(path, compression, freeze)
    if codec is None:
        return header
    return header.freezing({"codec": str(codec), "freeze": str(freeze)})


def encoded_like(header: Header, source: Header, compression: Any, path: Any) -> Header:
    """Return the header of a copy, which is compressed as its source unless asked otherwise.

    A copy in memory is not compressed.
    """
    options = {"compression": None, "freeze": FREEZES[0]}
    if path is not None:
        options |= encoding_of(source)
    if compression is not NOT_GIVEN:
        options["compression"] = compression
    return encoded(header, **options, path=path)


def rounding_of(
    bits: Any, dtype: np.dtype[Any], fill: Any, attrs: Mapping[str, Any]
) -> Rounding | None:
    """Return the rounding of elements that come into a new array; None if no bits are given.

    The fill value, and elements that attributes declare as missing, stay as they are.

    Raises
    ------
    ArgumentError, DTypeError
        Elements have no mantissa of so many bits.
    """
    if bits is None:
        return None
    kept = (np.asarray(fill, dtype)[()], *_later.missing_elements(attrs, dtype))
    found: Rounding = _later.Rounding(dtype, _later.check_bits(bits, dtype), kept)
    return found
