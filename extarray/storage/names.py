"""The names of the files of an array: taken, found, changed and given up; left-overs.

The metadata are named first, in one atomic step, which creates the pair.  Until each file of data,
``.xta`` and perhaps ``.xtz``, has its name, openers find it under a fresh one, derived from the
array's uuid.  All jobs that make, replace, move or remove a pair keep this order, so that each is
done as a whole or not at all (I14).

A packed file is like a folder to readers of its members, whose paths extend its own.
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
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from extarray.common.errors import (
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    PartnerError,
    StorageError,
)
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports, LazyModule
from extarray.common.on_error import OnError
from extarray.common.system import NO_WAIT, remove, replace
from extarray.format.suffixes import (
    BLOBS,
    DATA,
    FILES,
    METADATA,
    PAIR,
    blobs_name,
    file_names,
    is_of_pair,
    without_suffix,
)
from extarray.storage import lock
from extarray.storage.filesystem import (
    File,
    create_beside,
    family,
    fresh_name,
    link,
    publish,
    random_name,
    real_name,
    replaced_name,
    sync_folders,
)
from extarray.storage.pair import header_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from extarray.format import archive
    from extarray.format.archive import Member
    from extarray.format.header import Header
    from extarray.storage.report import Problem

    Done = Callable[[int], object]
else:
    archive = LazyModule("extarray.format.archive")

__all__ = [
    "MAPPABLE",
    "Packed",
    "PackedNames",
    "Publication",
    "is_pass",
    "left_files",
    "left_overs",
    "log_beside",
    "making_file",
    "move_pair",
    "open_data",
    "open_log",
    "remove_left_files",
    "remove_left_of",
    "remove_left_of_passes",
    "remove_left_overs",
    "remove_log",
    "remove_pair",
    "remove_seldom",
    "stem_of",
    "sum_of",
    "told_of_file",
    "what_is_missing",
    "what_is_there",
]

# Most arrays have no frozen chunks and no left-overs.
_later = LazyImports(
    {
        "extarray.format.blobs": "FILE_HEAD_BYTES",
        "extarray.format.frozen": "is_log log_uuid",
        "extarray.storage.report": "Problem",
    }
)

_MOST_NAMES = 5  # arrays of a folder that a message lists
_MOST_LOOKED_AT = 1000  # entries of a folder among which a message looks for a name

# Alignment at which chunks of a packed file can be mapped.
MAPPABLE = 4096
# The last packed files examined, by identity and time: their members, and the names of those
# already compared with their checksums.
_known: dict[tuple[int, ...], tuple[list[Member], set[str]]] = {}
_MOST_KNOWN = 16
_PIECE = 1 << 22

# Seconds: a younger file may not have its lock yet.
_IN_THE_MAKING = 60.0
# Seconds: longest pause between writes of a file in the making that no lock announces.
_LONGEST_PAUSE = 86400.0
# Seconds that another job may take to name its files.
_LONGEST_NAMING = 10.0
_FRESH = r"(?s)(.+)\.([0-9a-f]{12})\.new"
_EITHER = "|".join(map(re.escape, FILES))
_PASS = rf"(?s)(.+)\.rechunk-[0-9]+({_EITHER})"
# A look at a large folder may be slow: the next one waits this many times as long.
_PATIENCE = 100
_next_looks: dict[str, float] = {}


class Publication:
    """The naming of the files of a new pair: metadata first, then data, as everywhere.

    Attributes
    ----------
    fresh : tuple of str
        Unique names under which the files are made.
    names : sequence of str
    overwrite : bool
    uuid : bytes
        The array's uuid.
    old : File
        The replaced metadata, locked; a closed file if there are none.
    old_header : Header or None
        Their header, if it is whole, which locates the note of the lock's holder.
    claimed : set of str
        Fresh names that other jobs may use, too.
    """

    def __init__(
        self, fresh: tuple[str, ...], names: Sequence[str], overwrite: bool, uuid: bytes
    ) -> None:
        self.fresh, self.names, self.overwrite, self.uuid = fresh, names, overwrite, uuid
        self.old = File()
        self.old_header: Header | None = None
        self.claimed: set[str] = set()

    @property
    def replaces(self) -> bool:
        """True if another pair loses its names."""
        return not self.old.closed

    def publish(self, path: Path) -> None:
        """Give the files their names; `path` is for messages."""
        for number, name in enumerate(self.names):
            found = fresh_name(name, self.uuid)
            if number and self.fresh[number] != found:
                self._claim(number, found)
        publish(self.fresh[0], self.names[0], self.overwrite)
        if self.replaces:
            with family("'{}' is replaced, but may not be on the disk", path):
                sync_folders(self.names)
        for fresh, name in zip(self.fresh[1:], self.names[1:], strict=True):
            try:
                publish(fresh, name, self.overwrite)
            except OSError:
                if not self.replaces:
                    raise
        if self.old_header is not None and self.old_header.uuid != self.uuid:
            # The replaced pair may never have got its data named: they would stay for ever.
            for name in (self.names[1], blobs_name(self.names[0])):
                with contextlib.suppress(OSError):
                    remove(fresh_name(name, self.old_header.uuid))
        if self.replaces and len(self.names) == len(PAIR):
            remove_log(self.names[0])

    def _claim(self, number: int, found: str) -> None:
        """Give a file of data the fresh name by which openers find it.

        Another job may have given it to other data of the same array, such as an older copy.
        """
        end = time.monotonic() + _LONGEST_NAMING
        while True:
            try:
                publish(self.fresh[number], found, False)
            except FileExistsError:
                if os.path.lexists(self.names[0]) and not self.overwrite:
                    raise FileExistsError(
                        errno.EEXIST, os.strerror(errno.EEXIST), self.names[0]
                    ) from None
                if not _remove_abandoned(found, of_same=True):
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.001)
            else:
                self.claimed.add(found)
                self.fresh = (*self.fresh[:number], found, *self.fresh[number + 1 :])
                return

    def withdraw(self, metadata: File, *data: File) -> None:
        """Remove the files unless they have replaced another pair."""
        if self.replaces and not metadata.closed and metadata.is_at(self.names[0]):
            for fresh, name in zip(self.fresh[1:], self.names[1:], strict=True):
                with contextlib.suppress(OSError):
                    replace(fresh, name)
        else:
            files = metadata, *data
            # The lock of the metadata covers the fresh data, so these go first.
            for file, name, is_own in (
                *((f, n, False) for f, n in zip(files, self.names, strict=False)),
                *(
                    (f, n, n not in self.claimed)
                    for f, n in zip(data, self.fresh[1:], strict=False)
                ),
                (metadata, self.fresh[0], True),
            ):
                if is_own or (not file.closed and file.is_at(name)):
                    with contextlib.suppress(OSError):
                        remove(name)
        self.release()

    def release(self, alone: bool = False) -> None:
        """Drop the lock of the replaced metadata; see `FileCore.close` for `alone`."""
        if self.old.closed:
            return
        if self.old_header is not None and not alone:
            with contextlib.suppress(OSError):
                lock.note_holder(self.old, self.old_header, False)
        with contextlib.suppress(OSError):  # harmless: the file is on disk, or replaced
            self.old.close(alone)


def open_data(names: Sequence[str], uuid: bytes, flags: int) -> File:
    """Open a file of data, even if its creator or mover was stopped before naming it.

    `names` are those of the metadata and of this file.  If the `os.open` flags permit writing,
    finish the naming.
    """
    metadata, name = names
    fresh = fresh_name(real_name(name), uuid)
    if not os.access(fresh, os.F_OK):
        return File.open(name, flags)
    try:
        file = File.open(fresh, flags)
    except FileNotFoundError:  # its creator has just named it
        return File.open(name, flags)
    if flags & os.O_RDWR:
        with contextlib.suppress(OSError):
            replace(_moving_at(fresh), real_name(name))
        # Its creator may have stopped between link and unlink.
        for other in (fresh, fresh_name(real_name(metadata), uuid)):
            if file.is_at(name):
                with contextlib.suppress(OSError):
                    remove(other)
    return file


def open_log(names: Sequence[str], array: bytes, uuid: bytes, flags: int) -> File:
    """Open the file of frozen chunks that has a uuid, even if nobody has named it yet.

    `names` begin with that of the metadata; a third one is the log's, else its usual name counts.
    `array` is the array's uuid.  If the `os.open` flags permit writing, which takes the writer's
    lock, finish the naming; or remove the log in the making of a repack that was stopped before its
    metadata counted.

    Raises
    ------
    PartnerError
        The name belongs to another log, or to no log.
    """
    name = names[2] if len(names) > 2 else blobs_name(names[0])
    fresh = fresh_name(real_name(name), array)
    with _opened(fresh, os.O_RDONLY) as early:
        is_other = early is not None and not _is_log(early, uuid)
    file = File.open(name, flags) if is_other else open_data((names[0], name), array, flags)
    with OnError(file.close):
        if not _is_log(file, uuid):
            raise PartnerError(
                f"'{name}' is not the partner of '{names[0]}': it is another file of frozen "
                "chunks, or damaged; put the files of one array in the same folder"
            )
    if is_other and flags & os.O_RDWR:
        with contextlib.suppress(OSError):
            remove(fresh)
    return file


def _is_log(file: File, uuid: bytes) -> bool:
    """Tell whether a file is the log with a uuid."""
    head = file.read(_later.FILE_HEAD_BYTES, 0)
    return bool(_later.is_log(head) and _later.log_uuid(head) == uuid)


def move_pair(
    files: Sequence[File],
    before: Sequence[str],
    names: Sequence[str],
    uuid: bytes,
    overwrite: bool,
) -> None:
    """Give an open pair other names; with `overwrite`, take them from another pair.

    Each sequence begins with the metadata, and goes on with one or more files of data.  Renaming
    the metadata moves the pair atomically.  Around this step the data have the fresh names of both
    places.  So an interruption leaves the pair whole under its old names or its
    new ones, and removing one fresh name as a left-over never removes the last one.  On an
    error the pair has its old names.

    Raises
    ------
    StorageError
        The file system has neither hard nor symbolic links.
    """
    metadata = files[0]
    for name in names:
        if os.path.lexists(name) and not overwrite:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if overwrite:
            _check_regular(name)
    moves = [
        _Move(data, old, new, fresh_name(old, uuid), fresh_name(new, uuid))
        for data, old, new in zip(files[1:], before[1:], names[1:], strict=True)
    ]
    for data, old, _, here, there in moves:
        if not data.is_at(old):  # an interrupted job has left them unnamed
            replace(_found(data, here), old)
        for name in (here, there):
            _free(name, data)
    try:
        for _, old, _, here, there in moves:
            _give_fresh_names(old, here, there)
        _rename(metadata, before[0], names[0], overwrite)
        if overwrite:
            sync_folders(names)
        for data, _, new, here, there in moves:
            _rename(data, _found(data, there, here), new, overwrite)
    except BaseException:
        if not (overwrite and metadata.is_at(names[0])):
            if metadata.is_at(names[0]):
                replace(names[0], before[0])
            for data, old, new, here, there in moves:
                if not data.is_at(old):
                    replace(_found(data, here, there, new), old)
                _leave(data, old, (here, there) if overwrite else (here, there, new))
            raise
        # The other pair is replaced; the next writer finishes the naming.
    else:
        for data, _, new, here, there in moves:
            _leave(data, new, (here, there))
        if overwrite and len(files) == len(PAIR):
            remove_log(names[0])


class _Move(NamedTuple):
    """A file of data that gets another name, and its fresh names at both places."""

    data: File
    old: str
    new: str
    here: str
    there: str


def _check_regular(name: str) -> None:
    """Refuse to replace anything but a regular file or a link, which is replaced itself."""
    if not os.path.islink(name):
        replaced_name(name)


def _give_fresh_names(name: str, here: str, there: str) -> None:
    """Replace the data's name, in a pair that moves, by the fresh names of both places."""
    try:
        link(name, there)
    except FileExistsError:
        raise
    except OSError:  # no usable hard links here
        moving = _moving(there)
        try:
            for fresh in (there, here):
                os.symlink(moving, fresh)
        except OSError as error:
            raise StorageError(
                errno.ENOTSUP,
                "the file system does not support hard links, without which a crash could lose "
                "the data; copy the array, and then remove this one",
                name,
            ) from error
        replace(name, moving)
    else:
        publish(name, here, False)


def _moving(fresh: str) -> str:
    """Return the name of data while symbolic links have their fresh names; nobody removes it."""
    return f"{fresh.removesuffix('.new')}.moving"


def _moving_at(fresh: str) -> str:
    """Return the target of a fresh name that is a link of `_give_fresh_names`, else the name."""
    with contextlib.suppress(OSError):
        if (target := os.readlink(fresh)).endswith(".moving"):
            return target
    return fresh


def _found(data: File, *names: str) -> str:
    """Return the first given name that leads to the data, or the last one."""
    return _moving_at(next((name for name in names if data.is_at(name)), names[-1]))


def _free(name: str, data: File) -> None:
    """Free a fresh name left by an interrupted move of the same data, or by another job."""
    if data.is_at(name) or _moving_at(name) != name:
        remove(name)
    elif os.path.lexists(name):
        _remove_abandoned(name, of_same=True)


def _leave(data: File, name: str, others: Sequence[str]) -> None:
    """Remove the other names of data that have their final name."""
    if data.is_at(name):
        for other in others:
            if data.is_at(other) or _moving_at(other) != other:
                _discard(other)


def _discard(name: str) -> None:
    """Remove a harmless name; try twice, in case of a passing error."""
    for _ in range(2):
        with contextlib.suppress(OSError):
            remove(name)
            return


def _rename(file: File, name: str, other: str, overwrite: bool) -> None:
    """Rename an open file; succeed if it has the new name, despite an error."""
    try:
        publish(name, other, overwrite)
    except OSError:
        if not file.is_at(other):
            raise
        _discard(name)  # the file has both names


def remove_pair(names: Sequence[str], uuid: bytes) -> None:
    """Remove the files; without its metadata the array is gone and its names are free.

    Rename the data to their fresh names first: an interruption then leaves ordinary left-overs.
    """
    metadata, *others = map(real_name, names)
    left = []
    for data in others:
        fresh = fresh_name(data, uuid)
        left.append(fresh)
        if os.path.lexists(fresh):
            left.append(data)
        else:
            with contextlib.suppress(FileNotFoundError):
                replace(data, fresh)
    for name in (metadata, *left):
        with contextlib.suppress(FileNotFoundError):
            remove(name)


@contextlib.contextmanager
def making_file(name: str, overwrite: bool) -> Iterator[File]:
    """Make a file for the length of a block; rename it at the end, unless the block raises.

    The file takes the permissions of the one it replaces, and a lock that tells of the work.
    First remove what earlier calls for the name have left.

    Yields
    ------
    File
        Empty, open for reading and writing; its `name` is a fresh one.

    Raises
    ------
    OSError
        From the system; ExistsError if the name is taken, or belongs to no regular file.
    """
    if overwrite:
        name = replaced_name(name)
    elif os.path.lexists(name):
        raise ExistsError(errno.EEXIST, "it already exists", name)
    remove_left_of(name)
    fresh = random_name(name)
    file = create_beside(fresh, name)
    try:
        if lock.can_tell() and not lock.meets_whole_locks(file):  # libraries may want those
            lock.claim(file, is_made=True)
        yield file
        publish(fresh, name, overwrite)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(fresh)
        raise
    finally:
        file.close()


def log_beside(metadata: str) -> list[str]:
    """Return the name of the ``.xtz`` beside metadata, if a file with blobs has it."""
    name = blobs_name(real_name(metadata))
    with contextlib.suppress(OSError), _opened(name, os.O_RDONLY) as file:
        if file is not None and _later.is_log(file.read(_later.FILE_HEAD_BYTES, 0)):
            return [name]
    return []


def remove_log(metadata: str) -> None:
    """Remove the ``.xtz`` of an array whose metadata others have replaced, which have none."""
    for name in log_beside(metadata):
        with contextlib.suppress(OSError):
            remove(name)


def what_is_missing(path: Path) -> str:
    """Say why there is no array at a path where nothing is, and what to do."""
    metadata, data = file_names(path)
    try:
        with os.scandir(path.parent) as entries:
            some = [entry.name for entry in itertools.islice(entries, _MOST_LOOKED_AT)]
    except OSError:
        return f"there is no folder {os.fspath(path.parent)!r} for '{metadata}'"
    if os.path.basename(data) in some:
        return f"there is no file '{metadata}', and '{data}' alone is no array"
    import difflib  # for mistakes alone: every program that opens an array would wait for it

    stems = [name.removesuffix(METADATA) for name in some if name.endswith(METADATA)]
    close = difflib.get_close_matches(path.name, stems, 1)
    if close:
        advice = f"did you mean {os.fspath(path.parent / close[0])!r}?"
    else:
        advice = hint(
            "extarray.create makes an array",
            "extarray create makes an array, extarray ls lists what is there",
        )
    return f"there is no file '{metadata}'; {advice}"


def what_is_there(path: Path) -> str:
    """Describe a path that is no array, and say what to do with it."""
    names = sorted(file.stem for file in path.glob(f"*{METADATA}"))
    if not names:
        return (
            "it exists, but is not an array, which has two files with the suffixes .xmd "
            "and .xta; "
            + hint(
                "a function such as extarray.from_hdf5 or from_npy makes one of a file of another "
                "format, extarray.from_array of other arrays",
                "extarray import makes one of a file of another format",
            )
        )
    some = ", ".join(map(repr, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "")
    return (
        f"it is a folder, with the array{'s' if len(names) > 1 else ''} {some}; open one, such as "
        f"{os.fspath(path / names[0])!r}"
        + hint(f", or all with extarray.open_group({os.fspath(path)!r})", "")
    )


# -- left-overs ------------------------------------------------------------------------------------


def left_overs(names: tuple[str, str], header: Header | None) -> list[Problem]:
    """Find the files that interrupted jobs have left beside a pair.

    Files made as a part of the header's array are not left over.
    """
    return [told_of_file(name) for name in (*_unnamed(names, header), *_unfinished(names))]


def left_files(name: str | None = None, folder: str = "") -> list[str]:
    """Return unfinished files meant for a name, or for any name in a folder."""
    if name is not None:
        folder = os.path.dirname(os.path.abspath(name))
    stem = None if name is None else os.path.basename(name)
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder or os.curdir) as entries:
        for entry in entries:
            fresh = re.fullmatch(_FRESH, entry.name)
            is_one = fresh is not None and stem in (None, fresh[1])
            is_one |= stem is None and re.match(_PASS, entry.name) is not None
            if is_one and not entry.is_dir(follow_symlinks=False):
                found.append(entry.path)
    return sorted(found)


def is_pass(stem: str) -> bool:
    """Tell by the name of a pair, without suffix, whether a pass of `rechunk` makes it.

    Examples
    --------
    >>> is_pass("scene.rechunk-1"), is_pass("scene")
    (True, False)
    """
    return re.fullmatch(_PASS, stem + METADATA) is not None


def stem_of(name: str) -> str:
    """Return the path of the array beside which a file was left; any other file's without suffix.

    Examples
    --------
    >>> stem_of("scene.xta.0123456789ab.new"), stem_of("scene.rechunk-1.xmd")
    ('scene', 'scene')
    """
    folder, last = os.path.split(name)
    fresh = re.fullmatch(_FRESH, last)
    last = fresh[1] if fresh else last
    made = re.fullmatch(_PASS, last)
    last = made[1] if made else without_suffix(last)
    return os.path.join(folder, last)


def told_of_file(name: str) -> Problem:
    """Return a check's finding about an abandoned file."""
    if re.match(_PASS, os.path.basename(name)):
        what = "left by a rechunk that was interrupted or is still running"
        how = hint("resume=True", "--resume")
        remedy = f"the same rechunk with {how} continues it; any other removes it"
    else:
        what = "left by a job that was interrupted or is still running"
        remedy = (
            "the next call for this name, or extarray check --repair, removes it if no job is "
            "running"
        )
    found: Problem = _later.Problem("left over", what, name, None, "warning", remedy)
    return found


def _unnamed(names: tuple[str, str], header: Header | None) -> list[str]:
    """Return unfinished files meant for the names of a pair."""
    found = _beside(names, ".new", rf"({_EITHER})\.[0-9a-f]{{12}}\.new")
    if header is not None:
        # The array's own data may still have that name, unless it is a dangling link.
        own = tuple(f"{suffix}.{header.uuid.hex()[:12]}.new" for suffix in (DATA, BLOBS))
        found = [
            name
            for name in found
            if not (name.endswith(own) and os.path.exists(name)) and not _is_file(name, names[0])
        ]
        if not header.has_blobs:  # whoever replaced an array that had frozen chunks was stopped
            found += log_beside(names[0])
    return found


def _unfinished(names: tuple[str, str]) -> list[str]:
    """Return the files of `rechunk` passes towards the names of a pair."""
    return _beside(names, ".rechunk-", rf"\.rechunk-[0-9]+({_EITHER})(\.[0-9a-f]{{12}}\.new)?")


def _beside(names: tuple[str, str], part: str, ending: str) -> list[str]:
    """Return the files in the folder of a pair whose names are its stem and an ending.

    `part` is in each such ending: without such a file, no pattern is compiled.
    """
    folder, metadata = os.path.split(os.path.abspath(names[0]))
    stem = metadata.removesuffix(METADATA)
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found += [
            entry.path
            for entry in entries
            if entry.name.startswith(stem)
            and part in entry.name
            and re.fullmatch(ending, entry.name[len(stem) :])
        ]
    return sorted(found)


def _is_file(name: str, other: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(name, other)
    return False


def remove_left_overs(names: tuple[str, str], header: Header | None) -> list[str]:
    """Remove abandoned files that nobody is working on; return a line for each."""
    return remove_left_files([*_unnamed(names, header), *_unfinished(names)])


def remove_left_of_passes(names: tuple[str, str]) -> list[str]:
    """Remove what passes of a `rechunk` to a pair were to publish; return what was done."""
    return remove_left_files(_unfinished(names))


def remove_left_files(names: Sequence[str]) -> list[str]:
    """Remove abandoned files that nobody is working on; return a line for each.

    Keep those of `rechunk` passes, which can resume from them.
    """
    # Data before metadata, whose lock covers both.
    some = [name for name in reversed(names) if not re.fullmatch(_PASS, os.path.basename(name))]
    return [f"{name} was removed" for name in some if _remove_abandoned(name)]


def remove_seldom(names: tuple[str, str], header: Header | None) -> None:
    """Remove left-overs, unless that was tried in the same folder not long ago."""
    _look_seldom(names[0], lambda: remove_left_overs(names, header))


def remove_left_of(name: str) -> None:
    """Remove files meant for a name, unless that was tried in the folder not long ago."""
    if not is_of_pair(name):  # those may belong to an array
        _look_seldom(name, lambda: remove_left_files(left_files(name)))


def _look_seldom(name: str, look: Callable[[], object]) -> None:
    """Look for left-overs beside a name, unless that was done in the folder not long ago."""
    folder = os.path.dirname(os.path.abspath(name))
    begun = time.monotonic()
    if begun >= _next_looks.get(folder, begun):
        look()
        ended = time.monotonic()
        if len(_next_looks) > 1000:
            _next_looks.clear()
        _next_looks[folder] = ended + _PATIENCE * (ended - begun)


def _remove_abandoned(name: str, of_same: bool = False) -> bool:
    """Remove a file that nobody is working on any more; tell whether it is gone.

    With `of_same`, its name is needed for other data of the same array.  Its maker has locked it
    then, unless it was moved there.
    """
    with contextlib.suppress(OSError):
        about = os.lstat(name)
        if stat.S_ISLNK(about.st_mode):  # left by a move, which has ended if the link dangles
            if time.time() - about.st_ctime >= _IN_THE_MAKING and not os.path.exists(name):
                remove(name)
                return True
        elif stat.S_ISREG(about.st_mode):
            # Once we hold the lock, nobody else gives the name to another file.
            with _opened(name, os.O_RDWR) as file:
                if file is None or not file.is_at(name):
                    return True
                if name.endswith(BLOBS):
                    return _remove_replaced(name)
                is_told = of_same and lock.can_tell() and about.st_nlink == 1
                is_left = not lock.is_held(file) if is_told else _is_abandoned(name, file)
                if is_left and lock.claim(file) and file.is_at(name):
                    remove(name)
                    return True
    return False


def _remove_replaced(name: str) -> bool:
    """Remove an ``.xtz`` whose array was replaced by one without; tell whether it is gone."""
    with _opened(name.removesuffix(BLOBS) + METADATA, os.O_RDONLY) as metadata:
        if metadata is not None and not header_at(metadata, 0)[0].has_blobs:
            remove(name)
            return True
    return False


def _is_abandoned(name: str, file: File) -> bool:
    """Tell by its lock, or that of its metadata, whether nobody needs a file or works on it.

    The metadata of an unfinished ``.xta`` have the same ending, beside it.
    """
    if lock.is_held(file):
        return False
    own, identifier, _ = name.rsplit(".", 2)
    stem, suffix = os.path.splitext(own)
    about = file.stat()
    if suffix in (DATA, BLOBS):
        if _may_belong(stem + METADATA, identifier):
            return False
        with _opened(f"{stem}{METADATA}.{identifier}.new", os.O_RDONLY) as metadata:
            if metadata is not None:
                return _is_unlocked(metadata, _IN_THE_MAKING)
        # Complete data may just have got this name, before their metadata, which has another.
        return time.time() - max(about.st_mtime, about.st_ctime) >= _IN_THE_MAKING
    is_told = suffix == METADATA or not lock.meets_whole_locks(file)
    return _is_unlocked(file, _IN_THE_MAKING if is_told else _LONGEST_PAUSE, is_told)


def _may_belong(metadata: str, identifier: str) -> bool:
    """Tell whether data with a fresh name may belong to an array, which then needs them."""
    with _opened(metadata, os.O_RDONLY) as file:
        if file is None:
            return False
        try:
            return header_at(file, 0)[0].uuid.hex().startswith(identifier)
        except FormatError:  # damaged: only a repair may find out
            return True


def _is_unlocked(file: File, age: float, is_told: bool = True) -> bool:
    """Tell whether a file is not locked, or old enough where locks tell nothing."""
    if lock.is_held(file):
        return False
    about = file.stat()
    # Files are locked before the first write.
    if is_told and lock.can_tell() and about.st_size:
        return True
    return time.time() - about.st_mtime >= age


@contextlib.contextmanager
def _opened(name: str, flags: int) -> Iterator[File | None]:
    """Open a file for the length of a block; yield None if it does not exist."""
    try:
        file = File.open(name, flags | NO_WAIT)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        file.close()


# -- packed files --------------------------------------------------------------------------------


class PackedNames:
    """The names of the members of a packed file, wherever it lies.

    Attributes
    ----------
    arrays : dict
        ``.xmd`` and ``.xta`` of each array, by its path in the file.
    blobs : dict
        ``.xtz`` of the arrays whose chunks are in blobs.
    groups : dict
        Attributes of each group, or None, by its path in the file ("" for the root).
    alone : str or None
        The packed array, if there is one and no group.
    """

    arrays: dict[str, tuple[Member, Member]]
    blobs: dict[str, Member]
    groups: dict[str, Member | None]
    alone: str | None

    def take_members(self, path: object, members: Sequence[Member]) -> None:
        """Take the members of the file with a path; raise PartnerError if a partner is missing."""
        files = {member.name: member for member in members}
        self.arrays = {}
        self.blobs = {}
        self.groups = {"": files.get(archive.ATTRS_NAME)}
        for member in members:
            stem, suffix = member.name[:-4], member.name[-4:]
            if suffix in PAIR:
                partner = files.get(stem + (DATA if suffix == METADATA else METADATA))
                if partner is None:
                    raise PartnerError(f"'{path}': the partner of '{member.name}' is missing in it")
                if suffix == METADATA:
                    self.arrays[stem] = member, partner
            elif suffix == BLOBS and stem + METADATA in files:
                self.blobs[stem] = member
            folder = os.path.dirname(member.name)
            while folder and folder not in self.groups:
                self.groups[folder] = files.get(f"{folder}/{archive.ATTRS_NAME}")
                folder = os.path.dirname(folder)
        only = list(self.arrays)
        is_alone = len(only) == 1 and "/" not in only[0] and not any(self.groups.values())
        self.alone = only[0] if is_alone else None

    def chosen(self, path: object, inner: str) -> tuple[str, tuple[Member, Member]]:
        """Return an array's path in the file, and its members; "" means the only array.

        Raise MissingError if there is no such array; `path` is that of the file.
        """
        name = inner or self.alone
        pair = None if name is None else self.arrays.get(name)
        if name is not None and pair is not None:
            return name, pair
        names = ", ".join(map(repr, sorted(self.arrays)[:_MOST_NAMES]))
        what = f"it is a packed group, with {len(self.arrays)} arrays"
        if self.arrays:
            what += f", such as {names}: open one as '{path}/{min(self.arrays)}'"
            what += hint(f", or all with extarray.open_group('{path}')", "")
        if inner:
            what = f"no array {inner!r} in '{path}': {what}"
        raise MissingError(errno.ENOENT, what, f"{path}/{inner}" if inner else str(path))


class Packed(PackedNames):
    """An open packed file and the names of its members.

    Parameters
    ----------
    path : Path
        Path of the file.
    file : File

    Attributes
    ----------
    name : str
        The absolute path.

    Raises
    ------
    FormatError
        The file is no packed file, or damaged.
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
                found = archive.decode_archive(file.read, about.st_size), set()
            except FormatError as error:
                raise type(error)(f"'{path}': {error}") from None
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = found
        members, self._compared = found
        self.take_members(path, members)

    @classmethod
    @contextlib.contextmanager
    def find(cls, path: Path) -> Iterator[Self | None]:
        """Open the packed file that a path leads to or through; yield None if there is none."""
        place, file = path, None
        while not os.path.lexists(place) and place != place.parent:
            place = place.parent
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISREG(os.stat(place).st_mode):
                file = File.open(os.fspath(place), os.O_RDONLY | NO_WAIT)
        try:
            is_packed = file is not None and file.read(len(archive.MAGIC), 0) == archive.MAGIC
            yield cls(place, file) if file is not None and is_packed else None
        finally:
            if file is not None:
                file.close()

    def inner(self, path: Path) -> str:
        """Return the part of a path that lies inside the file."""
        inner = path.relative_to(self.path).as_posix()
        return "" if inner == "." else inner

    def open_pair(self, path: Path, verify: str) -> tuple[str, File, File]:
        """Open the files of an array, as parts of this one; the root path means the only array.

        Return its path in the file, ``.xmd`` and ``.xta``.  Compare ``.xmd`` with its checksum,
        unless `verify` is "never".
        """
        inner, pair = self.chosen(self.path, self.inner(path))
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

    def members_of(self, name: str) -> tuple[Member, ...]:
        """Return the files of an array, ``.xmd`` first."""
        blobs = self.blobs.get(name)
        return self.arrays[name] if blobs is None else (*self.arrays[name], blobs)

    def open_blobs(self, inner: str) -> File:
        """Open the ``.xtz`` of an array; return a closed file if it has none."""
        member = self.blobs.get(inner)
        if member is None:
            return File()
        return File.open(self.name, os.O_RDONLY, start=member.start, size=member.size)

    def read(self, member: Member) -> bytes:
        """Read a whole member and compare it with its checksum."""
        data = self.file.read(member.size, member.start)
        self._check(member, zlib.crc32(data) if len(data) == member.size else None)
        return data

    def compare_data(self, inner: str, data: File) -> None:
        """Compare the open ``.xta`` of an array with its checksum, reading all of it."""
        self._compare(self.arrays[inner][1], data)

    def _compare(self, member: Member, part: File) -> None:
        """Compare a member, open as a part of the file, with its checksum; once per process."""
        if member.name not in self._compared:
            self._check(member, sum_of(part, member.size))
            self._compared.add(member.name)

    def copy(
        self,
        member: Member,
        use: Callable[[int, memoryview], object] | None = None,
        done: Done | None = None,
    ) -> None:
        """Pass on the bytes of a member, like `sum_of`, and compare them with its checksum."""
        part = File.open(self.name, os.O_RDONLY, start=member.start, size=member.size)
        with contextlib.closing(part):
            self._check(member, sum_of(part, member.size, use, done))

    def _check(self, member: Member, crc: int | None) -> None:
        if crc != member.crc:
            raise CorruptError(
                f"'{self.path}': '{member.name}' in it is damaged: it does not match its CRC-32"
            )


def sum_of(
    part: File,
    size: int,
    use: Callable[[int, memoryview], object] | None = None,
    done: Done | None = None,
) -> int | None:
    """Return the CRC-32 of the first `size` bytes of a file; None if it is shorter.

    Skip holes.  Call `use` with the offset and bytes of each other piece, and `done` with the
    number of bytes passed since its last call.
    """
    crc = at = 0
    piece = memoryview(bytearray(min(_PIECE, size)))
    for first, last in itertools.chain(part.written(size), [(size, size)]):
        crc = archive.crc_of_zeros(first - at, crc)
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
