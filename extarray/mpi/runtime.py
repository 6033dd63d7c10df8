"""The MPI library: loaded when a communicator is given, and not before."""

from __future__ import annotations

import errno
from functools import cache
from typing import TYPE_CHECKING, Any, SupportsIndex

from extarray.common.arguments import as_int
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    BoundsError,
    MissingExtraError,
    StorageError,
)
from extarray.common.extras import require
from extarray.storage.engine import is_remote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from extarray._core._file import FileCore

__all__ = [
    "check_comm",
    "check_rank",
    "default_hints",
    "library",
    "loses_errors",
    "make_info",
    "stage_bytes",
    "storage_error_of",
]

# Older ones abort in file views with the large counts of mpi4py 4.
_LEAST_MPICH = (5, 0, 0)

# Two-phase writing and data sieving read what lies between the bytes of a rank, and write it back:
# that could undo what others write there meanwhile (I9).
_EXACT_WRITES = {"romio_cb_write": "disable", "romio_ds_write": "disable"}
# On one host they cost several times what they save, for reading too.
_PLAIN_READS = {"romio_cb_read": "disable", "romio_ds_read": "disable"}


@cache
def library() -> Any:
    """The module ``mpi4py.MPI``.

    Returns
    -------
    module

    Raises
    ------
    MissingExtraError
        mpi4py is not installed, or finds no MPI library that it can use.
    """
    try:
        MPI = require("mpi4py.MPI", "mpi", "a communicator")
    except RuntimeError as error:  # what mpi4py raises where there is no library
        raise MissingExtraError(
            f'mpi4py finds no MPI library; install one with: pip install "extarray[mpi]" ({error})'
        ) from None
    vendor, version = MPI.get_vendor()
    if vendor == "MPICH" and version < _LEAST_MPICH:
        raise MissingExtraError(
            f"MPICH {'.'.join(map(str, version))} has file views that abort; install MPICH 5 or "
            'newer with: pip install "extarray[mpi]"'
        )
    return MPI


def loses_errors() -> bool:
    """Whether the collective calls for files of the MPI library are of no use where one fails.

    Returns
    -------
    bool

    Notes
    -----
    In Open MPI 5 some ranks transfer for the others, and what goes wrong there is printed and
    forgotten; and when one rank cannot open a file, the others wait for it for ever.
    """
    return bool(library().get_vendor()[0] == "Open MPI")


def check_comm(comm: Any) -> Any:
    """A communicator.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm

    Returns
    -------
    mpi4py.MPI.Intracomm

    Raises
    ------
    ArgumentTypeError, MissingExtraError
    ArgumentError
        A ValueError: this process is none of its ranks.
    """
    MPI = library()
    if isinstance(comm, MPI.Comm) and comm == MPI.COMM_NULL:
        raise ArgumentError(
            "this process is no rank of the communicator: comm is MPI.COMM_NULL; leave the call to "
            "its ranks"
        )
    if not isinstance(comm, MPI.Intracomm):
        raise ArgumentTypeError(
            f"comm must be a communicator of mpi4py, as MPI.COMM_WORLD, not {type(comm).__name__}"
        )
    return comm


def check_rank(rank: SupportsIndex | None, comm: Any) -> int:
    """A rank of a communicator.

    Parameters
    ----------
    rank : int or None
        None: this one.
    comm : mpi4py.MPI.Intracomm

    Returns
    -------
    int

    Raises
    ------
    ArgumentTypeError
    BoundsError
        An IndexError: there is none of this number.
    """
    r = comm.rank if rank is None else as_int(rank, "rank")
    if not 0 <= r < comm.size:
        raise BoundsError(f"there is no rank {r}: ranks are 0 ... {comm.size - 1}")
    return int(r)


def default_hints(file: FileCore) -> dict[str, str]:
    """Hints for MPI-IO, by the file system.

    Parameters
    ----------
    file : FileCore

    Returns
    -------
    dict
    """
    return _EXACT_WRITES if is_remote(file) else {**_EXACT_WRITES, **_PLAIN_READS}


def stage_bytes(file: FileCore) -> int:
    """Size of the staging buffer, by the file system.

    Parameters
    ----------
    file : FileCore

    Returns
    -------
    int

    Notes
    -----
    In the page cache pieces of the size of a processor's cache are fastest, and leave small folios,
    without which every small write costs several times more.  File systems of several hosts want
    larger requests.
    """
    return 1 << 24 if is_remote(file) else 1 << 18


def make_info(hints: Mapping[str, Any]) -> Any:
    """Info object of MPI.  The caller frees it.

    Parameters
    ----------
    hints : mapping
        Names and values; values become texts.

    Returns
    -------
    mpi4py.MPI.Info

    Raises
    ------
    ArgumentError
        A ValueError: MPI does not take one of them.
    """
    MPI = library()
    info = MPI.Info.Create()
    for name, value in hints.items():
        try:
            info.Set(str(name), str(value))
        except MPI.Exception as error:
            info.Free()
            raise ArgumentError(
                f"MPI takes no hint {name!r} of this value: {error.Get_error_string()}"
            ) from None
    return info


def storage_error_of(error: Any, what: str) -> StorageError:
    """The family's error for one of MPI-IO.

    Parameters
    ----------
    error : mpi4py.MPI.Exception
    what : str
        What was asked.

    Returns
    -------
    StorageError
    """
    MPI = library()
    numbers = {
        MPI.ERR_NO_SPACE: errno.ENOSPC,
        MPI.ERR_QUOTA: errno.EDQUOT,
        MPI.ERR_ACCESS: errno.EACCES,
        MPI.ERR_READ_ONLY: errno.EROFS,
        MPI.ERR_NO_SUCH_FILE: errno.ENOENT,
    }
    number = numbers.get(error.Get_error_class(), errno.EIO)
    return StorageError(number, f"{what}: {error.Get_error_string()}")
