"""The names of the two files: taken, found, changed, and given up; and names left over.

The metadata get their name first.  Until the data have theirs, whoever opens the pair finds them
under a fresh one, which the array's uuid tells.

A packed file is a folder to those who open what is in it: its members have paths behind its own.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import stat
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from extarray.common.errors import CorruptError, FormatError, MissingError, PartnerError
from extarray.format.archive import ATTRS_NAME, MAGIC, Member, crc_of_zeros, decode_archive
from extarray.storage import lock
from extarray.storage.filesystem import (
    File,
    family,
    fresh_name,
    publish,
    real_name,
    sync_folders,
)
from extarray.storage.report import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from extarray.format.header import Header

    Done = Callable[[int], object]

__all__ = [
    "MAPPABLE",
    "Packed",
    "Publication",
    "left_overs",
    "move_pair",
    "open_data",
    "remove_left_overs",
    "remove_pair",
    "remove_seldom",
    "sum_of",
    "what_is_there",
]

_MOST_NAMES = 5  # of the arrays of a folder, in a message

# Chunks of a packed file are mapped where they begin at a multiple of this.
MAPPABLE = 4096
# The last packed files that were looked at, as they were then: their members, and the names of
# those that were compared with their sums.
_known: dict[tuple[int, ...], tuple[list[Member], set[str]]] = {}
_MOST_KNOWN = 16
_PIECE = 1 << 22

# Seconds: a file that has no lock yet is younger.
_IN_THE_MAKING = 60.0
# A look at a folder of many files may take long: the next one waits this many times as long.
_PATIENCE = 100
_next_looks: dict[str, float] = {}


@dataclass
class Publication:
    """The naming of the files of a new pair: of metadata and data, in this order as everywhere.

    Attributes
    ----------
    fresh : tuple of str
        Names under which the files are made.
    names : sequence of str
    overwrite : bool
    old : File
        The metadata that are replaced, locked; a closed file if there are none.
    old_header : Header or None
        Their header, if it is whole: they have the note of who holds the lock.
    """

    fresh: tuple[str, str]
    names: Sequence[str]
    overwrite: bool
    old: File = field(default_factory=File)
    old_header: Header | None = None

    @property
    def replaces(self) -> bool:
        """True if another pair loses its names."""
        return not self.old.closed

    def publish(self, path: Path) -> None:
        """Give the files their names; `path` is for messages."""
        publish(self.fresh[0], self.names[0], self.overwrite)
        if self.replaces:
            with family("'{}' is replaced, but may not be on the disk", path):
                sync_folders(self.names)
        try:
            publish(self.fresh[1], self.names[1], self.overwrite)
        except OSError:
            if not self.replaces:
                raise

    def withdraw(self, metadata: File, data: File) -> None:
        """Remove the files unless they have replaced another pair."""
        if self.replaces and not metadata.closed and metadata.is_at(self.names[0]):
            with contextlib.suppress(OSError):
                os.replace(self.fresh[1], self.names[1])
        else:
            made = zip((metadata, data), self.names, strict=True)
            named = [name for file, name in made if not file.closed and file.is_at(name)]
            for name in (*named, *self.fresh):
                with contextlib.suppress(OSError):
                    os.unlink(name)
        self.release()

    def release(self, alone: bool = False) -> None:
        """Drop the lock of what was replaced; `alone`, see `FileCore.close`."""
        if self.old_header is not None and not alone:
            with contextlib.suppress(OSError):
                lock.note_holder(self.old, self.old_header, False)
        with contextlib.suppress(OSError):  # nothing is lost: it is on the disk, or replaced
            self.old.close(alone)


def open_data(names: Sequence[str], uuid: bytes, flags: int) -> File:
    """Open ``.xta``, even where its creator did not get to give it its name.

    Whoever may write, by the flags for `os.open`, gives it the name.
    """
    metadata, name = names
    fresh = fresh_name(real_name(name), uuid)
    if not os.access(fresh, os.F_OK):
        return File.open(name, flags)
    try:
        file = File.open(fresh, flags)
    except FileNotFoundError:  # by now it has its name
        return File.open(name, flags)
    if flags & os.O_RDWR:
        with contextlib.suppress(OSError):
            os.replace(fresh, real_name(name))
        # What a creator leaves there between its link and its unlink.
        for other in (fresh, fresh_name(real_name(metadata), uuid)):
            if file.is_at(name):
                with contextlib.suppress(OSError):
                    os.unlink(other)
    return file


def move_pair(
    files: tuple[File, File],
    before: Sequence[str],
    names: Sequence[str],
    uuid: bytes,
    overwrite: bool,
) -> None:
    """Give an open pair other names, in the steps in which a new one takes its first.

    With `overwrite` it takes them from another pair.  On an error it has its old names.
    """
    metadata, data = files
    fresh = fresh_name(names[1], uuid)
    # It is found under this name as soon as the metadata have theirs.
    os.rename(before[1], fresh)
    try:
        _rename(metadata, before[0], names[0], overwrite)
        if overwrite:
            sync_folders(names)
        _rename(data, fresh, names[1], overwrite)
    except BaseException:
        if not (overwrite and metadata.is_at(names[0])):
            if metadata.is_at(names[0]):
                os.rename(names[0], before[0])
            os.rename(fresh, before[1])
            raise
        # It has replaced the other one; the next writer does what is left.


def _rename(file: File, name: str, other: str, overwrite: bool) -> None:
    """Give an open file another name."""
    try:
        publish(name, other, overwrite)
    except OSError:
        if not file.is_at(other):
            raise
        with contextlib.suppress(OSError):  # it has both
            os.unlink(name)


def remove_pair(names: Sequence[str], uuid: bytes) -> None:
    """Remove the files; the metadata first, so that nothing is left that opens."""
    metadata, data = map(real_name, names)
    for name in (metadata, data, fresh_name(data, uuid)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def what_is_there(path: Path) -> str:
    """Say what a path is that is not that of an array, and what to do with it."""
    names = sorted(file.stem for file in path.glob("*.xmd"))
    if not names:
        return (
            "it is there, but is no array, which is two files with the endings .xmd and .xta; "
            "extarray.from_array copies other arrays into one"
        )
    some = ", ".join(map(repr, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "")
    return (
        f"it is a folder, with the array{'s' if len(names) > 1 else ''} {some}; open one, as "
        f"{os.fspath(path / names[0])!r}, or all by extarray.open_group({os.fspath(path)!r})"
    )


# -- what interrupted work has left beside an array ----------------------------------------------


def left_overs(names: tuple[str, str], header: Header | None) -> list[Problem]:
    """Find the files that creations, and `rechunk`, have left beside a pair.

    Whatever was made as a part of the header's array is not left over.
    """
    what = "left by a creation that was interrupted, or is under way"
    remedy = "the next open for writing, or extarray check --repair, removes it"
    found = [
        Problem("left over", what, name, None, "warning", f"{remedy}, if nobody is at work")
        for name in _unnamed(names, header)
    ]
    what = "left by a rechunk that was interrupted, or is under way"
    remedy = "the same rechunk with resume=True goes on with it; without, it starts afresh"
    return found + [
        Problem("left over", what, name, None, "warning", remedy) for name in _unfinished(names)
    ]


def _unnamed(names: tuple[str, str], header: Header | None) -> list[str]:
    """Return the files that were to take the names of a pair."""
    found = _beside(names, r"\.(xmd|xta)\.[0-9a-f]{12}\.new")
    if header is not None:
        # The array's own data may have that name still.
        own = f".xta.{header.uuid.hex()[:12]}.new"
        found = [name for name in found if not name.endswith(own) and not _is_file(name, names[0])]
    return found


def _unfinished(names: tuple[str, str]) -> list[str]:
    """Return the files of passes of a `rechunk` to the names of a pair."""
    return _beside(names, r"\.rechunk-[0-9]+\.(xmd|xta)(\.[0-9a-f]{12}\.new)?")


def _beside(names: tuple[str, str], ending: str) -> list[str]:
    """Return the files in the folder of a pair whose names are its stem and an ending."""
    folder, metadata = os.path.split(os.path.abspath(names[0]))
    pattern = re.compile(re.escape(metadata.removesuffix(".xmd")) + ending)
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found += [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    return sorted(found)


def _is_file(name: str, other: str) -> bool:
    """Tell whether two names are of one file."""
    with contextlib.suppress(OSError):
        return os.path.samefile(name, other)
    return False


def remove_left_overs(names: tuple[str, str], header: Header | None) -> list[str]:
    """Remove what creations have left that nobody is at work on; return what was done."""
    done = []
    # The data before the metadata, whose lock tells of both.
    for name in reversed(_unnamed(names, header)):
        with contextlib.suppress(OSError):
            stem, identifier, _ = name.rsplit(".", 2)
            metadata = f"{stem.removesuffix('.xta').removesuffix('.xmd')}.xmd.{identifier}.new"
            with _opened(metadata) as file:
                if _is_abandoned(name, file):
                    os.unlink(name)
                    done.append(f"{name} was removed")
    return done


def remove_seldom(names: tuple[str, str], header: Header) -> None:
    """Remove what creations have left, unless that was tried in the same folder not long ago."""
    folder = os.path.dirname(os.path.abspath(names[0]))
    begun = time.monotonic()
    if begun >= _next_looks.get(folder, begun):
        remove_left_overs(names, header)
        ended = time.monotonic()
        if len(_next_looks) > 1000:
            _next_looks.clear()
        _next_looks[folder] = ended + _PATIENCE * (ended - begun)


def _is_abandoned(name: str, metadata: File | None) -> bool:
    """Tell whether nobody is at work on a file any more, by the lock of the metadata beside it."""
    if metadata is not None and lock.is_held(metadata):
        return False
    # Metadata are locked before anything is written to them.
    if metadata is not None and lock.can_tell() and metadata.stat().st_size:
        return True
    about = os.stat(name)
    # Complete data may have got this name a moment ago, before the metadata that has another.
    changed = about.st_mtime if metadata is not None else max(about.st_mtime, about.st_ctime)
    return time.time() - changed >= _IN_THE_MAKING


@contextlib.contextmanager
def _opened(name: str) -> Iterator[File | None]:
    """Open a file for the length of a block; None where there is none."""
    try:
        file = File.open(name, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        file.close()


# -- packed files --------------------------------------------------------------------------------


class Packed:
    """A packed file that is open, with the names of what is in it.

    Parameters
    ----------
    path : Path
        Of the file.
    file : File

    Attributes
    ----------
    name : str
        The absolute path.
    arrays : dict
        For each array, by its path in the file, ``.xmd`` and ``.xta``.
    groups : dict
        For each group, by its path in the file ("": all of it), its attributes or None.
    alone : str or None
        The array that is packed, where it is one and no group.

    Raises
    ------
    FormatError
        It is no packed file, or damaged.
    """

    def __init__(self, path: Path, file: File) -> None:
        self.path = path
        self.file = file
        self.name = os.path.abspath(path)
        about = file.stat()
        key = about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
        found = _known.get(key)
        if found is None:
            try:
                found = decode_archive(file.read, about.st_size), set()
            except FormatError as error:
                raise type(error)(f"'{path}': {error}") from None
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = found
        members, self._compared = found
        files = {member.name: member for member in members}
        self.arrays: dict[str, tuple[Member, Member]] = {}
        self.groups: dict[str, Member | None] = {"": files.get(ATTRS_NAME)}
        for member in members:
            stem, suffix = member.name[:-4], member.name[-4:]
            if suffix in (".xmd", ".xta"):
                partner = files.get(stem + (".xta" if suffix == ".xmd" else ".xmd"))
                if partner is None:
                    raise PartnerError(f"'{path}': the partner of '{member.name}' is missing in it")
                if suffix == ".xmd":
                    self.arrays[stem] = member, partner
            folder = os.path.dirname(member.name)
            while folder and folder not in self.groups:
                self.groups[folder] = files.get(f"{folder}/{ATTRS_NAME}")
                folder = os.path.dirname(folder)
        only = list(self.arrays)
        is_alone = len(only) == 1 and "/" not in only[0] and not any(self.groups.values())
        self.alone = only[0] if is_alone else None

    @classmethod
    @contextlib.contextmanager
    def find(cls, path: Path) -> Iterator[Self | None]:
        """Open the packed file that a path leads to, or through; None where there is none."""
        place, file = path, None
        while not os.path.lexists(place) and place != place.parent:
            place = place.parent
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISREG(os.stat(place).st_mode):
                file = File.open(os.fspath(place), os.O_RDONLY | os.O_NONBLOCK)
        try:
            is_packed = file is not None and file.read(len(MAGIC), 0) == MAGIC
            yield cls(place, file) if file is not None and is_packed else None
        finally:
            if file is not None:
                file.close()

    def inner(self, path: Path) -> str:
        """Return the path in the file of a path through it."""
        inner = path.relative_to(self.path).as_posix()
        return "" if inner == "." else inner

    def open_pair(self, path: Path, verify: str) -> tuple[str, File, File]:
        """Open the files of an array, as parts of this one; a path of all: of the only one.

        Return its path in the file, ``.xmd`` and ``.xta``.  The former is compared with its sum,
        unless `verify` is "never".
        """
        inner = self.inner(path) or self.alone
        pair = None if inner is None else self.arrays.get(inner)
        if inner is None or pair is None:
            names = ", ".join(map(repr, sorted(self.arrays)[:_MOST_NAMES]))
            what = f"it is a packed group, with {len(self.arrays)} arrays"
            if self.arrays:
                what += f", such as {names}: open one as '{self.path}/{min(self.arrays)}', or all "
                what += f"by extarray.open_group('{self.path}')"
            if inner:
                what = f"there is no array {inner!r} in '{self.path}': {what}"
            raise MissingError(errno.ENOENT, what, os.fspath(path))
        opened: list[File] = []
        try:
            for member in pair:
                opened.append(
                    File.open(self.name, os.O_RDONLY, start=member.start, size=member.size)
                )
                if not opened[-1].is_same(self.file):
                    raise MissingError(errno.ENOENT, "it is being replaced; try again", self.name)
            if verify != "never":
                self._compare(pair[0], opened[0])
        except BaseException:
            for file in opened:
                file.close()
            raise
        metadata, data = opened
        return inner, metadata, data

    def read(self, member: Member) -> bytes:
        """Read a member whole, and compare it with its sum."""
        data = self.file.read(member.size, member.start)
        self._check(member, zlib.crc32(data) if len(data) == member.size else None)
        return data

    def compare_data(self, inner: str, data: File) -> None:
        """Compare the open ``.xta`` of an array with its sum, which reads all of it."""
        self._compare(self.arrays[inner][1], data)

    def _compare(self, member: Member, part: File) -> None:
        """Compare a member, which is open as a part of the file, with its sum; once a process."""
        if member.name not in self._compared:
            self._check(member, sum_of(part, member.size))
            self._compared.add(member.name)

    def copy(
        self,
        member: Member,
        use: Callable[[int, memoryview], object] | None = None,
        done: Done | None = None,
    ) -> None:
        """Give the bytes of a member, as `sum_of` does, and compare them with its sum."""
        part = File.open(self.name, os.O_RDONLY, start=member.start, size=member.size)
        with contextlib.closing(part):
            self._check(member, sum_of(part, member.size, use, done))

    def _check(self, member: Member, crc: int | None) -> None:
        if crc != member.crc:
            raise CorruptError(
                f"'{self.path}': '{member.name}' in it is damaged: it does not fit its sum (CRC-32)"
            )


def sum_of(
    part: File,
    size: int,
    use: Callable[[int, memoryview], object] | None = None,
    done: Done | None = None,
) -> int | None:
    """Return the CRC-32 of the first bytes of a file; None where it has fewer.

    Holes are not read.  `use` is called with each piece that is none, and where it begins; `done`
    with the number of bytes that were passed since the last time.
    """
    crc = at = 0
    piece = memoryview(bytearray(min(_PIECE, size)))
    for first, last in itertools.chain(part.written(size), [(size, size)]):
        crc = crc_of_zeros(first - at, crc)
        if done is not None:
            done(first - at)
        at = first
        while at < last:
            some = piece[: min(_PIECE, last - at)]
            if part.read_into(some, at) < len(some):
                return None
            crc = zlib.crc32(some, crc)
            if use is not None:
                use(at, some)
            at += len(some)
            if done is not None:
                done(len(some))
    return crc
