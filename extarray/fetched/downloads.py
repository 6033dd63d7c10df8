"""Copies of the files of an array elsewhere, to check them."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
from typing import IO, TYPE_CHECKING

from extarray.common.config import config
from extarray.common.errors import FormatError
from extarray.fetched.packs import TAIL_BYTES
from extarray.fetched.paths import NOT_THERE
from extarray.format.archive import decode_directory
from extarray.format.blobs import FILE_HEAD_BYTES
from extarray.format.constants import SEAL_BYTES
from extarray.format.suffixes import BLOBS, DATA, METADATA
from extarray.remote.objects import RemoteObject
from extarray.storage.filesystem import File
from extarray.storage.names import PackedNames
from extarray.storage.pair import header_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.fetched.paths import RemotePath
    from extarray.format.archive import Member

__all__ = ["download"]

_PIECE = 1 << 26
# Bytes at the start of a packed file that tell it apart from others.
_FIRST = 4
# Most bytes of the header of a member, with its name and more.
_HEADER = (1 << 17) + 32


def download(path: RemotePath, folder: str, data: bool) -> tuple[str, tuple[str, str]]:
    """Copy an array or a packed file into a folder; of chunks, without `data`, only their length.

    Return the path of the copy, and two texts: the copy's name in messages, and the URL that takes
    its place.  Files that do not exist are left out, unless none does.
    """
    packed = path.packed()
    if packed is not None:
        file, inner = packed
        name = os.path.join(folder, file.name)
        _copy_packed(file, name, inner, data)
        return os.path.join(name, inner) if inner else name, (name, str(file))
    name = os.path.join(folder, path.name)
    missing = None
    for suffix, n_first in ((METADATA, None), (DATA, 0), (BLOBS, FILE_HEAD_BYTES)):
        if suffix == BLOBS and not _has_blobs(name + METADATA):
            break
        try:
            found, _ = RemoteObject.read_tail(path.object(suffix), SEAL_BYTES)
        except NOT_THERE as error:
            if missing is not None:
                with contextlib.suppress(*NOT_THERE):
                    _copy_packed(path, name, "", data)
                    break
                raise missing from None
            missing = error
        else:
            n_bytes = found.size if data or n_first is None else min(n_first, found.size)
            with _sparse(name + suffix, found) as copy:
                _copy(found, copy, [(0, n_bytes)])
    return name, (name, str(path))


def _has_blobs(name: str) -> bool:
    """Tell whether metadata that were copied belong to an array that may have frozen chunks."""
    if not os.path.exists(name):
        return False
    with (
        contextlib.suppress(FormatError),
        contextlib.closing(File.open(name, os.O_RDONLY)) as file,
    ):
        return header_at(file, 0)[0].has_blobs
    return False


def _copy_packed(path: RemotePath, name: str, inner: str, data: bool) -> None:
    """Copy a packed file; without `data`, what lies in it but for the chunks.

    `inner` is the path of the array or group that is asked for; the chunks of others are left out.
    """
    found, _ = RemoteObject.read_tail(path.object(), TAIL_BYTES)
    with _sparse(name, found) as copy:

        def read(length: int, offset: int) -> bytes:
            part = found.read(offset, max(0, min(length, found.size - offset)))
            copy.seek(offset)
            copy.write(part)
            return bytes(part)

        names = PackedNames()
        try:
            members = decode_directory(read, found.size)
            names.take_members(path, members)
        except FormatError:  # to be found in the copy
            return
        ranges = [(0, min(_FIRST, found.size))]
        ranges += [(m.offset, min(m.start, m.offset + _HEADER)) for m in members]
        ranges += [(m.start, m.start + m.size) for m in _asked(names, inner, data)]
        _copy(found, copy, ranges)


def _asked(names: PackedNames, inner: str, data: bool) -> Iterator[Member]:
    """Yield the members to be compared with their checksums."""

    def is_asked(name: str) -> bool:
        return inner in ("", name) or name.startswith(f"{inner}/")

    for name, (metadata, chunks) in names.arrays.items():
        if is_asked(name):
            yield metadata
            if data:
                yield chunks
                if name in names.blobs:
                    yield names.blobs[name]
    for name, attrs in names.groups.items():
        if attrs is not None and is_asked(name):
            yield attrs


@contextlib.contextmanager
def _sparse(name: str, found: RemoteObject) -> Iterator[IO[bytes]]:
    """Make a file as long as an object, with its last bytes."""
    with open(name, "xb") as copy:
        copy.truncate(found.size)
        copy.seek(found.size - len(found.tail))
        copy.write(found.tail)
        yield copy


def _copy(found: RemoteObject, copy: IO[bytes], ranges: list[tuple[int, int]]) -> None:
    """Copy ranges of bytes, within bounded memory."""
    pieces = [
        (at, min(_PIECE, stop - at)) for start, stop in ranges for at in range(start, stop, _PIECE)
    ]
    while pieces:
        # As many at a time as memory may hold, at least one.
        total = list(itertools.accumulate(size for _, size in pieces))
        n = max(1, bisect.bisect_right(total, config.max_memory))
        starts, sizes = zip(*pieces[:n], strict=True)
        del pieces[:n]
        for parts in found.start(starts, sizes).arrivals(range(n)):
            for number, part in parts:
                copy.seek(starts[number])
                copy.write(part)
