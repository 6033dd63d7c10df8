"""An open pair of files: ``.xmd`` with the metadata, ``.xta`` with the chunks.

The parts of a file store share this pair; each keeps its other data to itself.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import numpy as np

from extarray._core._mapping import Counter, Region
from extarray.common.errors import FormatError, MissingError, TruncatedError, VersionError
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports
from extarray.common.on_error import OnError
from extarray.common.system import NO_WAIT, boot_id
from extarray.format.blocks import (
    DIRECTORY_BYTES,
    BlockKind,
    Place,
    decode_directory,
    decode_place,
    encode_place,
)
from extarray.format.constants import BLOCK, CUTS_BYTES, PLACE_BYTES, SEAL_BYTES
from extarray.format.header import (
    BLOBS_VERSION,
    MAGIC,
    VERSION,
    Header,
    decode_header,
    header_bytes_of,
)
from extarray.format.suffixes import DATA, METADATA, blobs_name
from extarray.grid.chunking import chunks_before, place_of
from extarray.storage.filesystem import (
    File,
    absolute_names,
    close_all,
    family,
    sync_folders,
)
from extarray.storage.store import Present

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from extarray.format.superblock import Superblock

__all__ = ["PASSED_ON", "Pair", "blobs_alone", "header_at"]

_later = LazyImports({"extarray.storage.checksums": "read_table"})

# Flag in the number of cuts of a replaced ``.xmd``: its successor continues the count.
PASSED_ON = 1 << 63

# The beginnings of readable headers.
_MAGICS = tuple(MAGIC + version[0].to_bytes(2, "little") for version in (VERSION, BLOBS_VERSION))


def header_at(file: File, offset: int) -> tuple[Header, bytes]:
    """Read the header of ``.xmd``, or its copy, at an offset; return it and its bytes."""
    data = file.read(BLOCK, offset)
    if len(data) == BLOCK and data.startswith(_MAGICS):
        # A dtype description of many fields makes a header of several blocks.
        wanted = header_bytes_of(data)
        if wanted > BLOCK:
            data = file.read(min(wanted, file.length), offset)
    return decode_header(data), data


def blobs_alone(name: str) -> VersionError:
    """Return the error for an ``.xmd`` outside of the packed file with the blobs of its array."""
    return VersionError(
        f"'{name}' comes from a packed file whose chunks are in another order, and is read in that "
        f"file alone; {hint('extarray.unpack', 'extarray unpack')} makes files that can grow"
    )


class Pair(Present):
    """An open pair of files, or its metadata alone, and its present state.

    Parameters
    ----------
    path : Path
        Without suffix.
    names : tuple of str, optional
        See below; by default those that the path tells.

    Attributes
    ----------
    names : tuple of str
        Absolute names of ``.xmd`` and ``.xta``, since the working directory may change.
    metadata, data : File
    blobs : File
        ``.xtz``: of an array with `frozen` chunks, or of a packed array with chunks in blobs, which
        `supply` brings to `data`, memory; otherwise a closed file.
    extents : list of int
        Extents of the growth log.
    names_given, names_found : bool
        Names that this store has given, or found, may not be on disk.
    packed_as : str
        For parts of a packed file, which are read-only, the absolute path through that file;
        `names` then holds its name twice.  Otherwise "".
    """

    path: Path
    state: Superblock
    names_given = names_found = False
    packed_as = ""
    _resolved: tuple[Sequence[str], str, str, str] | None = None

    def __init__(self, path: Path, names: tuple[str, str] | None = None) -> None:
        super().__init__("r", "mmap", 1 << 21)
        self.path = path
        self.metadata = File()
        self.data = File()
        self.blobs = File()
        self.names = absolute_names(path) if names is None else names
        self.extents: list[int] = []

    @property
    def growth(self) -> int:  # type: ignore[override]
        """The committed growth policy."""
        return self.state.growth

    # -- names -----------------------------------------------------------------------------------

    @property
    def files(self) -> tuple[File, ...]:
        """The open files of the pair, ``.xmd`` first; with frozen chunks there are three."""
        if self.packed_as or self.blobs.closed:
            return self.metadata, self.data
        return self.metadata, self.data, self.blobs

    def names_of_files(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of all `files` for names of ``.xmd`` and ``.xta``."""
        metadata, data = names[:2]
        return (metadata, data, blobs_name(metadata))[: len(self.files)]

    @property
    def absolute(self) -> str:
        """Absolute path of the pair, without suffix."""
        return self.packed_as or self.names[0].removesuffix(METADATA)

    @property
    def folder(self) -> str:
        """The folder that paths of other arrays start from, whatever name opened this one."""
        return self._real()[0]

    @property
    def real_path(self) -> str:
        """Path without suffix by which others find the pair, without symbolic links."""
        return self._real()[1]

    def _real(self) -> tuple[str, str]:
        """Return `folder` and `real_path`, resolving them again only if the files have moved."""
        found = self._resolved
        if (
            found is None
            or found[0] != self.names
            or self.metadata.closed
            or not self.metadata.is_at(found[1])
        ):
            metadata = os.path.realpath(self.names[0])
            found = self.names, metadata, os.path.dirname(metadata), self._real_path()
            self._resolved = found
        return found[2], found[3]

    def _real_path(self) -> str:
        (stem, suffix), *partner = (os.path.splitext(os.path.realpath(n)) for n in self.names)
        if suffix == METADATA and partner == [(stem, DATA)]:
            return stem
        # Links to files with unrelated names: only the links form a pair.
        folder, name = os.path.split(self.absolute)
        return os.path.join(os.path.realpath(folder), name)

    def path_of(self, path: bytes) -> str:
        """Return the path of another array that the metadata refer to."""
        return os.path.normpath(os.path.join(self.folder, os.fsdecode(path)))

    @property
    def has_name(self) -> bool:
        """True if the metadata's name leads to the open file."""
        return self.metadata.is_at(self.names[0])

    def own_name(self, what: str) -> str:
        """Return the real name of ``.xmd``; raise MissingError unless it is the open file."""
        if not self.has_name:
            raise MissingError(
                errno.ENOENT,
                f"{what.replace('{}', str(self.path), 1)}: its files have been moved or replaced "
                "since it was opened; open it again",
                self.names[0],
            )
        return os.path.realpath(self.names[0])

    def sync_names(self) -> None:
        """Bring the names of the files to the disk, if they may be new."""
        if self.names_given or self.names_found:
            sync_folders(self.names)
            self.names_given = self.names_found = False

    # -- metadata --------------------------------------------------------------------------------

    def open_metadata(self, flags: int = os.O_RDONLY) -> None:
        """Open ``.xmd`` alone."""
        self.metadata = File.open(self.names[0], flags | NO_WAIT)
        with OnError(self.metadata.close):
            self.read_header()

    def read_header(self) -> None:
        """Read the header."""
        self.header, _ = header_at(self.metadata, 0)

    def blocks(self) -> dict[BlockKind, int]:
        """Return the offsets of the optional blocks that exist."""
        data = self.metadata.read(DIRECTORY_BYTES, self.header.directory_offset)
        return self.decode_blocks(data)

    def decode_blocks(self, directory: bytes) -> dict[BlockKind, int]:
        """Return the offsets of the optional blocks; a packed pair has none that count."""
        if self.packed_as or not directory.strip(b"\0"):  # most arrays
            return {}
        return decode_directory(directory, self.header, self.metadata.length)

    def has_sums(self) -> bool:
        """Tell whether the header is whole, and its chunks have trusted checksums."""
        try:
            self.read_header()
        except FormatError:
            return False
        found = (
            _later.read_table(self.metadata, self.header, None) if self.header.checksum else None
        )
        return found is not None and not found[0]

    def read_cuts(self) -> int:
        """Return how many times chunks have become holes."""
        return self.read_count() & ~PASSED_ON

    def read_count(self) -> int:
        """Read the number of cuts, with the flag `PASSED_ON` of a replaced file."""
        data = self.metadata.read(CUTS_BYTES, self.header.cuts_offset)
        return int.from_bytes(data, "little")

    def write_count(self, number: int) -> None:
        """Write the number of cuts."""
        self.metadata.write(number.to_bytes(CUTS_BYTES, "little"), self.header.cuts_offset)

    def watch_cuts(self) -> None:
        """Watch the number of cuts, if holes do not hold the fill value."""
        if any(self.header.fill) and not self.packed_as:
            with self.metadata as fd:
                self.cuts = Counter.file(fd, self.header.cuts_offset, self.engine == "mmap")

    def place(self, uuid: bytes) -> bytes:
        """Encode which ``.xta`` the writer has, and the current boot of the system."""
        return encode_place(Place(boot_id(), *self.data.identity()), uuid)

    def told_place(self) -> Place | None:
        """Return the place that the last writer noted, or None."""
        data = self.metadata.read(PLACE_BYTES, self.header.place_offset)
        return decode_place(data, self.header.uuid)

    # -- data ------------------------------------------------------------------------------------

    @property
    def stored(self) -> File:
        """The file that holds the chunks: ``.xta``, or ``.xtz`` if they all are in blobs."""
        return self.data if self.blobs.closed or self.frozen is not None else self.blobs

    def written(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield runs of the first `stop` bytes of chunks; all other bytes are zero."""
        self.check_length()
        # A hole may just be a chunk that is not there yet, or frozen.
        if self.supply is not None or self.frozen is not None:
            return super().written(stop)
        return self.data.written(stop)

    def read_into(self, target: memoryview, offset: int) -> int:
        """Read bytes of chunks at an offset; return their number."""
        if self.frozen is not None:
            return self._read_mixed(target, offset)
        if self.supply is None:
            return self.data.read_into(target, offset)
        size, step, n_read = self.header.chunk_bytes, self.supply.share, 0
        end = offset + len(target)
        for low in range(chunks_before(offset, size), chunks_before(end + size - 1, size), step):
            start, stop = max(offset, place_of(low, size)), min(end, place_of(low + step, size))
            used = self.supply.use(np.arange(low, chunks_before(stop + size - 1, size)))
            n_read += self.data.read_into(target[start - offset : stop - offset], start)
            del used  # from here on, chunks may be evicted
        return n_read

    def _read_mixed(self, target: memoryview, offset: int) -> int:
        """Read bytes of chunks, raw or frozen, at an offset; return their number."""
        assert self.frozen is not None
        size, end = self.header.chunk_bytes, offset + len(target)
        room = memoryview(bytearray(size))
        for address in range(chunks_before(offset, size), chunks_before(end + size - 1, size)):
            first = place_of(address, size)
            start, stop = max(offset, first), min(end, first + size)
            part = target[start - offset : stop - offset]
            if len(part) == size:
                self.frozen.read_into(part, address, self.verify != "never")
            else:
                self.frozen.read_into(room, address, self.verify != "never")
                part[:] = room[start - first : stop - first]
        return len(target)

    def map(self, length: int) -> None:
        """Map `length` bytes of ``.xta``, by its engine."""
        with family("cannot map '{}'", f"{self.path}.xta"), self.data as fd:
            writable, mapped = self.mode == "r+", self.engine == "mmap"
            self.region = Region.file(fd, length, writable, mapped, self.data.start)

    def cover(self, length: int) -> None:
        """Map `length` bytes of ``.xta``, unless the region shows them."""
        if self.region is None or not self.region.shows_up_to(length):
            self.map(length)

    def check_length(self) -> None:
        """Raise if another program has truncated ``.xta``: lost elements must not read as zeros."""
        size = self.data.length
        least = self.state.data_bytes + (SEAL_BYTES if self.state.sealed else 0)
        if size < least:
            raise TruncatedError(
                f"'{self.path}.xta' has {size} bytes, but its metadata says {least}: another "
                "program has truncated it; restore it from a copy"
            )

    def unmap(self) -> None:
        """Let go of all mappings; each lasts until the last user lets go of it."""
        self.region = self.cuts = self.frozen = self.decoded = None

    def close(self) -> None:
        """Close the files without synchronizing them."""
        self.unmap()
        close_all(self.metadata, self.data, self.blobs)
