"""The choice between the two engines, by the type of the file system."""

from __future__ import annotations

from extarray._core._mapping import filesystem
from extarray.config import check_engine, config

__all__ = ["choose_engine", "is_fuse", "is_remote", "maps_no_holes"]

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

# Pages of memory are the space there: a load from a hole takes one.
_IN_MEMORY = {0x01021994: "tmpfs", 0x858458F6: "ramfs"}


def maps_no_holes(fd: int) -> bool:
    """Whether a load from a hole, through a mapping, needs space and may find none (a SIGBUS).

    Parameters
    ----------
    fd : int
        Open descriptor of the file.

    Returns
    -------
    bool
    """
    return filesystem(fd) in _IN_MEMORY


def is_remote(fd: int) -> bool:
    """Whether a file lies on a file system that other hosts may share.

    Parameters
    ----------
    fd : int
        Open descriptor of the file.

    Returns
    -------
    bool
    """
    return filesystem(fd) in _REMOTE


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
    return filesystem(fd) == _FUSE


def choose_engine(asked: str, fd: int, writable: bool) -> str:
    """Engine for a file.

    Parameters
    ----------
    asked : {"auto", "mmap", "pread"}
        "auto" follows ``config.engine``; where that is "auto" too, the file system decides.
    fd : int
        Open descriptor of the file.
    writable : bool

    Returns
    -------
    {"mmap", "pread"}

    Raises
    ------
    ArgumentError
    """
    check_engine(asked)
    if asked == "auto":
        asked = config.engine
    if asked != "auto":
        return asked
    kind = filesystem(fd)
    return "pread" if kind in _REMOTE or (writable and kind in _COPY_ON_WRITE) else "mmap"
