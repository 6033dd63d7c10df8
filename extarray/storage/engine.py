"""The choice between the two engines, by the type of the file system."""

from __future__ import annotations

import struct

import numpy as np

from extarray._core._file import FileCore, file_system_of
from extarray.common.arguments import check_choice
from extarray.common.config import ENGINES, config

__all__ = ["choose_engine", "holes_take_space", "is_fuse", "is_remote", "shares_blocks"]

_FUSE = 0x65735546

# Numbers of statfs(2).  Mapping is slow there, or not coherent between hosts.
_REMOTE = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFE534D42: "SMB2",
    0xFF534D42: "CIFS",
    0x5346414F: "AFS",
    0x73757245: "Coda",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x00C36400: "Ceph",
    0x19830326: "BeeGFS",
    0xAAD7AAEA: "PanFS",
    0x20030528: "OrangeFS",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0x01021997: "9P",
    _FUSE: "FUSE",
    0x786F4256: "VirtualBox shared folder",
}
# A store to space that was reserved can still find the disk full, because every write moves the
# block: through a mapping that would be a SIGBUS.
_COPY_ON_WRITE = {0x9123683E: "Btrfs", 0x2FC12FC1: "ZFS", 0xCA451A4E: "bcachefs"}

# The same holds there for blocks that a file shares with its copies, and for no others.
_XFS = 0x58465342

# ioctl_fiemap(2): the request, an extent, how many are asked for at once, and flags of one.
_FIEMAP = 0xC020660B
_REQUEST = struct.Struct("=QQIIII")
_EXTENT = np.dtype(
    {
        "names": ["start", "length", "flags"],
        "formats": ["=u8", "=u8", "=u4"],
        "offsets": [0, 16, 40],
        "itemsize": 56,
    }
)
_EXTENTS = 256
_IS_LAST, _IS_SHARED = 0x1, 0x2000

# Pages of memory are the space there: a load from a hole takes one.
_IN_MEMORY = {0x01021994: "tmpfs", 0x858458F6: "ramfs"}


def holes_take_space(file: FileCore) -> bool:
    """Tell whether a load from a hole, through a mapping, takes space, and may find none.

    Parameters
    ----------
    file : FileCore

    Returns
    -------
    bool
    """
    return file.file_system in _IN_MEMORY


def is_remote(file: FileCore) -> bool:
    """Whether a file lies on a file system that other hosts may share.

    Parameters
    ----------
    file : FileCore

    Returns
    -------
    bool
    """
    return file.file_system in _REMOTE


def is_fuse(fd: int) -> bool:
    """Whether a file lies on a file system that a process makes (FUSE).

    Parameters
    ----------
    fd : int
        Open descriptor of the file, or of its place (``O_PATH``).

    Returns
    -------
    bool
    """
    return file_system_of(fd) == _FUSE


def shares_blocks(file: FileCore) -> bool:
    """Whether a file shares blocks with another one, as its file system tells.

    Parameters
    ----------
    file : FileCore

    Returns
    -------
    bool
        False where that is unknown.
    """
    import fcntl  # not on every system

    start = 0
    while True:
        request = bytearray(_REQUEST.size + _EXTENTS * _EXTENT.itemsize)
        _REQUEST.pack_into(request, 0, start, 2**64 - 1 - start, 0, 0, _EXTENTS, 0)
        try:
            with file as fd:
                fcntl.ioctl(fd, _FIEMAP, request)
        except OSError:
            return False
        found = _REQUEST.unpack_from(request)[3]
        extents = np.frombuffer(request, _EXTENT, found, _REQUEST.size)
        if np.any(extents["flags"] & _IS_SHARED):
            return True
        if not found or extents["flags"][-1] & _IS_LAST:
            return False
        start = int(extents["start"][-1] + extents["length"][-1])


def choose_engine(asked: str, file: FileCore, writable: bool) -> str:
    """Engine for a file.

    Parameters
    ----------
    asked : {"auto", "mmap", "pread"}
        "auto" follows ``config.engine``; where that is "auto" too, the file system decides.
    file : FileCore
    writable : bool

    Returns
    -------
    {"mmap", "pread"}

    Raises
    ------
    ArgumentError
    """
    check_choice(asked, "engine", ENGINES)
    if asked == "auto":
        asked = config.engine
    if asked != "auto":
        return asked
    kind = file.file_system
    if kind in _REMOTE or (writable and _moves_blocks(kind, file)):
        return "pread"
    return "mmap"


def _moves_blocks(kind: int, file: FileCore) -> bool:
    """Whether a store to space that was reserved may need other space."""
    return kind in _COPY_ON_WRITE or (kind == _XFS and shares_blocks(file))
