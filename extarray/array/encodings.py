"""Compression of a new array: as asked for, or that of the array whose elements it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from extarray.codecs.codec import Codec
from extarray.codecs.libraries import check_present
from extarray.common.arguments import NOT_GIVEN, check_choice
from extarray.common.choices import FREEZES
from extarray.common.errors import ArgumentError

if TYPE_CHECKING:
    from extarray.format.header import Header

__all__ = ["encoded", "encoded_like", "encoding_of"]


def encoding_of(header: Header) -> dict[str, Any]:
    """Return the options of `create` that an array was compressed with; empty if it is not."""
    note = header.encoding
    if note:
        return {"compression": note["codec"], "freeze": note.get("freeze", FREEZES[0])}
    return {} if header.compression is None else {"compression": header.compression}


def encoded(header: Header, compression: Any, freeze: Any, path: Any) -> Header:
    """Return the header of an array at `path` that is compressed as asked.

    Raises
    ------
    ArgumentError
        A ValueError: there is no such codec; the array is in memory, or keeps checksums.
    MissingExtraError
        An ImportError: the library of the codec is not installed.
    """
    codec = Codec.parse(compression)
    check_choice(freeze, "freeze", FREEZES)
    if codec is None:
        return header
    if path is None:
        raise ArgumentError("compression needs files; give a path, or leave it out")
    if header.checksum:
        raise ArgumentError(
            "compressed arrays cannot keep checksums of chunks yet: each frozen chunk has one of "
            "its own; give checksum=False or compression=None"
        )
    check_present(codec)
    return header.freezing({"codec": str(codec), "freeze": str(freeze)})


def encoded_like(
    header: Header, source: Header, compression: Any, freeze: Any, path: Any
) -> Header:
    """Return the header of a copy, which is compressed as its source unless asked otherwise.

    A copy in memory is not compressed.
    """
    given = {"compression": compression, "freeze": freeze}
    kept = {} if path is None else encoding_of(source)
    asked = {key: value for key, value in given.items() if value is not NOT_GIVEN}
    options = {"compression": None, "freeze": FREEZES[0], **kept, **asked}
    return encoded(header, **options, path=path)
