"""Copies of the files of an array elsewhere, to check them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from extarray.fetched.paths import NOT_THERE
from extarray.format.constants import SEAL_BYTES
from extarray.format.suffixes import DATA, METADATA
from extarray.remote.objects import RemoteObject

if TYPE_CHECKING:
    from extarray.fetched.paths import RemotePath

__all__ = ["download"]

_PIECE = 1 << 26


def download(path: RemotePath, folder: str, data: bool) -> tuple[str, tuple[str, str]]:
    """Copy an array or a packed file into a folder; of chunks, without `data`, only their length.

    Return the path of the copy, and two texts: the copy's name in messages, and the URL that takes
    its place.  Files that do not exist are left out, unless none does.
    """
    packed = path.packed()
    if packed is not None:
        file, inner = packed
        name = os.path.join(folder, file.name)
        _copy(RemoteObject.read_tail(file.object(), 1)[0], name, True)
        return os.path.join(name, inner) if inner else name, (name, str(file))
    name = os.path.join(folder, path.name)
    missing = None
    for suffix, is_whole in ((METADATA, True), (DATA, data)):
        try:
            found, _ = RemoteObject.read_tail(path.object(suffix), SEAL_BYTES)
        except NOT_THERE as error:
            if missing is not None:
                with contextlib.suppress(*NOT_THERE):
                    found, _ = RemoteObject.read_tail(path.object(), 1)
                    _copy(found, name, True)
                    break
                raise missing from None
            missing = error
        else:
            _copy(found, name + suffix, is_whole)
    return name, (name, str(path))


def _copy(found: RemoteObject, name: str, is_whole: bool) -> None:
    """Copy an object, or only its length and its last bytes."""
    with open(name, "xb") as file:
        file.truncate(found.size)
        first = 0 if is_whole else found.size - len(found.tail)
        for at in range(first, found.size, _PIECE):
            file.seek(at)
            file.write(found.read(at, min(_PIECE, found.size - at)))
