"""Compression of an array that exists: its codec changed, and its log repacked in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._transfers import note_written
from extarray.array.facts import check_sole
from extarray.array.freezing import notice
from extarray.array.life import attach_store, check_not_held
from extarray.array.resizing import filling_error
from extarray.codecs.codec import Codec
from extarray.common.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from extarray.array.life import Living
    from extarray.common.arguments import Reported

__all__ = ["repack", "set_compression"]


def set_compression(array: Living, compression: Any) -> None:
    """Freeze chunks by another codec from now on, or none; see `ExtArray.compression`."""
    what = "change the compression of"
    codec = Codec.parse(compression)
    with array._writers.resizing:
        _check_alone(array, what)
        header = array._store.now.header
        if array.path is None:
            raise ArgumentError("an array in memory has no compression; copy it to files")
        if array._store.now.frozen is None:
            raise ArgumentError(
                f"cannot change the compression of {array._name()}: it was created without; copy "
                "it with extarray.create(path, like=array, compression='zstd')"
            )
        encoding = {**header.encoding, "codec": None if codec is None else str(codec)}
        if encoding != header.encoding:
            files: Any = array._store
            _with_other_metadata(array, lambda: files.recode(array.axial, encoding))
    if codec is not None:
        notice(array)


def repack(array: Living, progress: Reported) -> None:
    """Drop what nobody needs in the log of frozen chunks; see `ExtArray.repack`."""
    with array._writers.resizing:
        _check_alone(array, "repack")
        files: Any = array._store
        _with_other_metadata(array, lambda: files.repack(array.axial, progress))


def _check_alone(array: Living, what: str) -> None:
    """Raise unless this thread may replace the metadata of the array."""
    array._check(what)
    check_not_held(array, what)
    check_sole(array, f"{what} {array._name()}")
    if array._filling:
        raise filling_error(array, what)


def _with_other_metadata(array: Living, change: Callable[[], object]) -> None:
    """Replace the metadata of an array, and show the core their table."""
    now = array._store.now
    if now.sums is not None:
        array._flush()  # the new metadata copy the sums
    try:
        change()
    finally:
        attach_store(array)
        if now.sums is not None and now.sums.lost:
            core: Any = array
            note_written(core, np.arange(array.axial.size))
