"""Trust in a file system to clear ranges of files as asked: by its type, or by a trial.

A file system may accept a call that clears a range and not clear it.  GlusterFS's client takes
zeroing for mere allocation: the server keeps the old bytes, and since the system zeroes the ends of
the range in its cache, they come back when it drops the page.  So only local file systems are
trusted untried.  On any other, a trial on the mount decides, once in a process.
"""

from __future__ import annotations

import contextlib
import errno
import os
from mmap import PAGESIZE
from typing import TYPE_CHECKING

from extarray._core._file import FileCore
from extarray.common.system import open_file, remove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["clears"]

# Magic numbers of statfs(2) of file systems whose bytes no other system answers for.  An overlay is
# not among them, since anything may lie below it.
_LOCAL = {
    0xEF53: "ext2, ext3, ext4",
    0x58465342: "XFS",
    0x9123683E: "Btrfs",
    0x2FC12FC1: "ZFS",
    0xCA451A4E: "bcachefs",
    0xF2F52010: "F2FS",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
}

# A trial makes a file of so many bytes and asks for a range in it that begins and ends inside a
# page.  Punching clears whole pages alone.
_SIZE = 8 * PAGESIZE
_ASKED = slice(PAGESIZE // 2, _SIZE - PAGESIZE // 2)
_CLEARED = {"zero": _ASKED, "punch": slice(PAGESIZE, _SIZE - PAGESIZE)}

# Findings by device, type of file system, and name of the call.
_found: dict[tuple[int, int, str], bool] = {}


def clears(
    file: FileCore, call: Callable[[FileCore, int, int], int], new_name: Callable[[str], str]
) -> bool:
    """Tell whether a call is known to clear ranges on the file system of a file.

    Parameters
    ----------
    file : FileCore
        The file; a trial makes another beside its name.
    call : callable
        ``FileCore.zero`` or ``FileCore.punch``.
    new_name : callable
        Returns a temporary name beside a name.
    """
    kind = file.file_system
    if kind in _LOCAL:
        return True
    with file as fd:
        device = os.fstat(fd).st_dev
    key = device, kind, call.__name__
    if key not in _found:
        try:
            with _trial_file(new_name(os.path.realpath(file.name)), device) as files:
                found = _passes(call, *files)
        except OSError:  # maybe for want of permission or space, which the next call may have
            return False
        _found[key] = found
    return _found[key]


@contextlib.contextmanager
def _trial_file(name: str, device: int) -> Iterator[tuple[FileCore, FileCore]]:
    """Make a file on a device, open it twice, and remove its name."""
    with contextlib.ExitStack() as stack:

        def opened(flags: int) -> FileCore:
            file = FileCore(open_file(name, flags, 0o600), name)
            stack.callback(file.close)
            return file

        one = opened(os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            other = opened(os.O_RDONLY)
        finally:
            remove(name)
        with one as fd:
            if os.fstat(fd).st_dev != device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
        yield one, other


def _passes(call: Callable[[FileCore, int, int], int], one: FileCore, other: FileCore) -> bool:
    """Tell whether a call clears a range and nothing else, each time, for both descriptors.

    Try it while the writes before are under way, after they have arrived, and after a read.
    """

    def holds(expected: bytes | bytearray) -> bool:
        return all(file.read(_SIZE, 0) == expected for file in (one, other))

    for number in (1, 2, 3):
        expected = bytearray([number]) * _SIZE
        one.write(expected, 0)
        if number == 2:
            one.datasync()
        elif number == 3:
            other.read(_SIZE, 0)
        cleared = _CLEARED[call.__name__]
        expected[cleared] = bytes(cleared.stop - cleared.start)
        if call(one, _ASKED.start, _ASKED.stop - _ASKED.start) or not holds(expected):
            return False
        one.datasync()
        one.forget()
        if not holds(expected):
            return False
    return True
