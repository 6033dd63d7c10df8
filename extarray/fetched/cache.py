"""Chunks that stay on the disk between programs: one sparse file for each version of an array.

Beside it lies a table with an entry for each chunk: its checksum, and when it was last used.  A
chunk is written before its entry, and is right only if it matches the entry.  So nobody waits:
programs that share a folder, a program that is killed, and a chunk that another program removes
meanwhile lead to a fetch at worst.  Only the removal of old chunks is left to one program.

The name of the files tells address and version of the original, so an old version is never read;
it is removed when there is no room.  Where checksums of the present chunks are known, one pair of
files serves all versions.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.config import config
from extarray.common.errors import ClosedError
from extarray.common.system import EXCLUSIVE, NO_FOLLOW, disk_bytes, lock_whole, remove
from extarray.format._crc import crc32c
from extarray.storage.filesystem import File, family

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["DiskCache"]

_CHUNKS, _TABLE, _LOCK = ".chunks", ".table", "lock"
_ENTRY = np.dtype([("crc", "<u4"), ("used", "<u4")])  # used: seconds, or 0 without a chunk
# Seconds until a new use is noted.
_FRESH = 60
# Share of the bound that is written between two looks at the whole folder, and that then stays.
_LOOKS, _STAYS = 16, 0.75


class DiskCache:
    """The chunks of one version of an array, in a folder that other arrays and programs share.

    Parameters
    ----------
    folder : str
        It is made if it is missing.
    version : sequence of str
        What tells the version of the array from any other.
    chunk_bytes : int
    number : int
        Of the version, for those who have the array open.
    sums : callable, optional
        Returns the checksums that chunks have now, by their addresses: the chunks may be of other
        versions.

    Raises
    ------
    StorageError
        The folder cannot be used.
    """

    def __init__(
        self,
        folder: str,
        version: Sequence[object],
        chunk_bytes: int,
        number: int = 0,
        sums: Callable[[Any], Any] | None = None,
    ) -> None:
        self.number, self._sums = number, sums
        self._folder, self._size = folder, chunk_bytes
        self._name = hashlib.sha256("\n".join(map(str, version)).encode()).hexdigest()[:40]
        # Bytes to write until the next look at the folder.  The first look comes at once, since
        # many programs may each write little.
        self._unseen = 0
        with family("cannot use the cache '{}'", folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._chunks = self._open(_CHUNKS)
            try:
                self._table = self._open(_TABLE)
            except BaseException:
                self._chunks.close()
                raise
            os.utime(self._table.name)  # the folder's files that were used longest ago go first

    def _open(self, suffix: str) -> File:
        name = os.path.join(self._folder, self._name + suffix)
        return File.open(name, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o600)

    def _entries(self, addresses: Any) -> Any:
        """Return the entries of chunks, in rising order of their addresses."""
        found = np.zeros(len(addresses), _ENTRY)
        size = _ENTRY.itemsize
        # Runs of neighbours are read together.
        ends = np.flatnonzero(np.diff(addresses) != 1) + 1
        for part in np.split(np.arange(len(addresses)), ends):
            if len(part):
                data = self._table.read(len(part) * size, int(addresses[part[0]]) * size)
                some = np.frombuffer(data[: len(data) // size * size], _ENTRY)
                found[part[: len(some)]] = some
        here = np.flatnonzero(found["used"])
        if self._sums is not None and len(here):
            found["used"][here[found["crc"][here] != self._sums(addresses[here])]] = 0
        return found

    def has(self, addresses: Any) -> Any:
        """Return which chunks seem to be here, as an array of bool."""
        with contextlib.suppress(OSError, ClosedError):
            return self._entries(addresses)["used"] > 0
        return np.zeros(len(addresses), bool)

    def get(self, addresses: Any) -> dict[int, bytes]:
        """Return the chunks that are here, by address."""
        found: dict[int, bytes] = {}
        with contextlib.suppress(OSError, ClosedError):
            entries, now = self._entries(addresses), int(time.time())
            for address, (crc, used) in zip(addresses.tolist(), entries.tolist(), strict=True):
                if not used:
                    continue
                chunk = self._chunks.read(self._size, address * self._size)
                if len(chunk) == self._size and crc32c(chunk) == crc:
                    found[address] = chunk
                    if now - used > _FRESH:
                        self._note(address, crc, now)
        return found

    def _note(self, address: int, crc: int, used: int) -> None:
        entry = np.array((crc, used), _ENTRY).tobytes()
        self._table.write(entry, address * _ENTRY.itemsize)

    def put(self, chunks: Sequence[tuple[int, Any]]) -> None:
        """Keep chunks, with their addresses, as far as the disk has room."""
        now = int(time.time())
        with contextlib.suppress(OSError, ClosedError):
            for address, chunk in chunks:
                self._chunks.write(chunk, address * self._size)
                self._note(address, crc32c(chunk), now)
                self._unseen -= self._size
            if self._unseen < 0:
                self._unseen = config.disk_cache // _LOOKS
                self._make_room(config.disk_cache)

    def _make_room(self, bound: int) -> None:
        """Remove what was used longest ago, if the folder has more bytes than it may have."""
        lock = File.open(os.path.join(self._folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        with contextlib.closing(lock):
            try:
                with lock as fd:
                    lock_whole(fd, EXCLUSIVE)
            except (BlockingIOError, PermissionError):
                return  # another program is at it
            sizes, used = {}, {}
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    stem, suffix = os.path.splitext(entry.name)
                    with contextlib.suppress(FileNotFoundError):
                        if suffix == _CHUNKS:
                            about = entry.stat(follow_symlinks=False)
                            sizes[stem] = disk_bytes(about, entry.path)
                        elif suffix == _TABLE:
                            used[stem] = entry.stat(follow_symlinks=False).st_mtime
            total = sum(sizes.values())
            if total <= bound:
                return
            for stem in sorted(sizes, key=lambda stem: used.get(stem, 0.0)):
                if stem != self._name:
                    for suffix in (_TABLE, _CHUNKS):
                        with contextlib.suppress(FileNotFoundError):
                            remove(os.path.join(self._folder, stem + suffix))
                    total -= sizes[stem]
                if total <= bound * _STAYS:
                    return
            self._remove(total - int(bound * _STAYS))

    def _remove(self, n_bytes: int) -> None:
        """Remove the chunks of this array that were used longest ago."""
        size = _ENTRY.itemsize
        data = self._table.read(self._table.length // size * size, 0)
        used = np.frombuffer(data, _ENTRY)["used"]
        present = np.flatnonzero(used)
        gone = present[np.argsort(used[present], kind="stable")][: -(-n_bytes // self._size)]
        for address in np.sort(gone).tolist():
            self._table.write(bytes(size), address * size)
            self._chunks.punch(address * self._size, self._size)

    def close(self) -> None:
        """Close the files, which stay."""
        self._chunks.close()
        self._table.close()
