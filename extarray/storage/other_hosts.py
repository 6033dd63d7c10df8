"""Views of a file that another host writes to, where clients of its file system keep copies.

A host's system keeps pages and the length of a file; its client may keep them again, and whole
small files.  Any of these copies can hide for a while, or for ever, what another host has brought
to the server.  GlusterFS 10, as measured: old pages for ever once this host has written to the
file, too, since its own write hides the change of the time by which the system would notice; an old
length, and old content of a file of less than 64 KiB, for a second.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, TypeVar

from extarray.common.errors import NotVisibleError, PartnerError, StorageError, TruncatedError
from extarray.common.limits import limits
from extarray.common.system import GONE, open_file
from extarray.common.waiting import attempts, end_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from extarray.storage.filesystem import File

__all__ = ["in_time", "see_newest"]

_Seen = TypeVar("_Seen")

# Clients may keep the content of smaller files with their names.
_SMALL = 1 << 16
# Errors that an old name may cause; MPI-IO has EIO for a file that is no longer there.
_OLD = {*GONE, errno.EIO}


def see_newest(file: File, writable: bool, length: int, path: object) -> None:
    """Drop this host's copies of a file, and wait until it sees at least `length` bytes.

    The other hosts must have synchronized the file before.

    Parameters
    ----------
    file : File
    writable : bool
        Whether the file is open for writing.
    length : int
    path : object
        The array's path, for messages.

    Raises
    ------
    NotVisibleError
        The length has not come within ``limits.visibility_patience`` seconds.
    """
    if not _has_asked(file, writable) and file.length < _SMALL:
        _list_folder(file)
    file.forget()
    if file.length >= length:
        return
    for _ in attempts(end_of(limits.visibility_patience)):
        if not _has_asked(file, writable):
            _list_folder(file)
        if (size := file.length) >= length:
            break
    else:
        raise NotVisibleError(
            errno.ETIMEDOUT,
            f"'{path}.xta' has {size} bytes on this host after {limits.visibility_patience:g} s, "
            f"fewer than the {length} of its last growth: the growth is not yet visible here, or "
            "another program has truncated the file; open it again",
            f"{path}.xta",
        )
    file.forget()  # also the page that ended at the old length


def _has_asked(file: File, writable: bool) -> bool:
    """Make the client ask for the length, and drop small content, by a request; tell if it did.

    Reserving bytes that are there changes nothing, and the client cannot answer by itself.
    """
    return writable and not file.reserve(0, 1)


def _list_folder(file: File) -> None:
    """Make the client take the length, and the age of small content, from a listing."""
    with contextlib.suppress(OSError):
        os.listdir(os.path.dirname(file.name))
        os.close(open_file(file.name, os.O_RDONLY))  # NFS asks when a name is opened


def in_time(look: Callable[[], _Seen]) -> _Seen:
    """Look at files that another host has just made or changed, until this host sees that.

    Parameters
    ----------
    look : callable
        Called again after an error that an old name or length may cause, for
        ``limits.visibility_patience`` seconds.
    """
    error: Exception
    for _ in attempts(end_of(limits.visibility_patience)):
        try:
            return look()
        except (PartnerError, TruncatedError) as old:
            error = old
        except StorageError as failure:
            if failure.errno not in _OLD:
                raise
            error = failure
    raise error
