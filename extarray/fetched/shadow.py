"""Files without a name that hold what came from elsewhere, at the places of the original."""

from __future__ import annotations

import os
from typing import Any

from extarray.common.on_error import OnError
from extarray.common.system import open_memory
from extarray.storage.filesystem import File

__all__ = ["Shadow", "shadow_of"]


class Shadow(File):
    """A private sparse file with the places of a file elsewhere.

    Attributes
    ----------
    length : int
        Bytes of the original.  The file itself is at least as long, and never shrinks: somebody
        may still look at chunks that the original has lost.
    last : bytes
        The last bytes of the original, which are not written over such chunks.
    """

    __slots__ = ("_length", "_room", "last")

    def __init__(self, fd: int, name: str, *_: Any) -> None:
        super().__init__(fd, name)
        self._length = self._room = 0
        self.last = b""

    @property
    def length(self) -> int:
        """Bytes of the original."""
        return self._length

    @length.setter
    def length(self, length: int) -> None:
        if length > self._room:
            self.truncate(length)
            self._room = length
        self._length = length

    def read(self, length: int, offset: int) -> bytes:
        """Read up to `length` bytes."""
        if self.last and length == len(self.last) and offset == self._length - length:
            return self.last
        return super().read(length, offset)


def shadow_of(name: str, content: bytes = b"") -> Shadow:
    """Make a shadow file with a content."""
    fd = open_memory()
    with OnError(os.close, fd):
        file = Shadow(fd, name)
    file.length = len(content)
    file.write(content, 0)
    return file
