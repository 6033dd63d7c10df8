"""The error family: every error that extarray raises on purpose is an `ExtArrayError`.

Each class also derives from the built-in that fits, so code written for NumPy, h5py or plain files
still catches it.  A message says what was asked, what is possible, and what to do.
"""

from __future__ import annotations

from typing import Any

from numpy.exceptions import AxisError as _NumPyAxisError

__all__ = [
    "AccessError",
    "ArgumentError",
    "ArgumentTypeError",
    "AxisError",
    "BoundsError",
    "CastingError",
    "ChecksumError",
    "ChunksError",
    "ClosedError",
    "CorruptError",
    "DTypeError",
    "ExistsError",
    "ExtArrayError",
    "FieldError",
    "FormatError",
    "LimitError",
    "LockedError",
    "LossyWarning",
    "MissingError",
    "MissingExtraError",
    "NotVisibleError",
    "PartnerError",
    "ReadOnlyError",
    "RecoveryWarning",
    "RemoteError",
    "ReplacedError",
    "ReserveError",
    "ResultError",
    "ResultWarning",
    "SelectionError",
    "ShapeError",
    "StaleWarning",
    "StorageError",
    "TruncatedError",
    "VariableError",
    "VersionError",
]


class ExtArrayError(Exception):
    """Root of the family."""


class ArgumentError(ExtArrayError, ValueError):
    """An argument has a value that is not possible."""


class ArgumentTypeError(ExtArrayError, TypeError):
    """An argument has a type that is not possible."""


class ShapeError(ArgumentError):
    """A shape, or the shape of given data, does not fit."""


class ChunksError(ArgumentError):
    """A chunk shape is not possible."""


class DTypeError(ArgumentTypeError):
    """A data type has no fixed size in bytes, or cannot be stored."""


class CastingError(ArgumentTypeError):
    """Data cannot be cast as the casting rule asks."""


class BoundsError(ExtArrayError, IndexError):
    """An index lies outside the bounds, or there are too many indices."""


class SelectionError(ExtArrayError, IndexError):
    """An object between the brackets is no index that is supported."""


class FieldError(ExtArrayError, ValueError, KeyError):
    """A structured dtype has no field of this name (NumPy raises a ValueError or a KeyError)."""

    __str__ = ExtArrayError.__str__


class VariableError(ArgumentError, KeyError):
    """A dataset or group has no member of this name (xarray and h5py raise a KeyError)."""

    __str__ = ExtArrayError.__str__


class AxisError(ExtArrayError, _NumPyAxisError):
    """An axis does not exist (a ValueError and an IndexError, like NumPy's)."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Otherwise tblib, in dask's workers, would not call __init__, which sets the message.
        return type(self), self.args


class LimitError(ExtArrayError, OverflowError):
    """A bound, an address or a size exceeds 63 bits, or a sum the bits that hold it."""


class ReserveError(ExtArrayError, MemoryError):
    """A memory-resident array cannot grow: no memory, or no address space."""


class ResultError(ExtArrayError, MemoryError):
    """A result would exceed ``config.max_result``: in memory, or from a small file."""


class ClosedError(ExtArrayError, ValueError):
    """The array is closed."""


class ReadOnlyError(ExtArrayError, ValueError):
    """A change was asked of an array that is open for reading."""


class FormatError(ExtArrayError, ValueError):
    """The files are not a pair that this version can read."""


class VersionError(FormatError):
    """The files were written in a newer format, or with a codec that is not known here."""


class CorruptError(FormatError):
    """A part of the metadata is damaged, or a chunk (`ChecksumError`)."""


class ChecksumError(CorruptError):
    """A chunk does not match its checksum, or does not decode.

    Attributes
    ----------
    filename : str
        The file that has the chunk, ``.xta``.
    chunk : int
        Address of the chunk.
    box : tuple of slice
        Part of the array in the chunk: its elements inside the bounds, perhaps none.
    start, stop : int
        Bytes of the chunk in the file: start ... stop - 1.
    """

    filename: str
    chunk: int
    box: tuple[slice, ...]
    start: int
    stop: int


class TruncatedError(FormatError):
    """A file is shorter than the metadata says."""


class PartnerError(FormatError):
    """The two files do not belong together."""


class StorageError(ExtArrayError, OSError):
    """The file system refused (no space, file too large, input/output error, ...).

    Attributes
    ----------
    errno : int
    filename : str or None
        The file, or the array's path without suffix.
    """

    def __str__(self) -> str:
        if self.filename is not None and f"'{self.filename}'" in str(self.strerror):
            return f"[Errno {self.errno}] {self.strerror}"  # the text already names the file
        return super().__str__()


class AccessError(StorageError, PermissionError):
    """The file system does not permit it."""


class LockedError(StorageError, BlockingIOError):
    """Another writer has the array open."""


class NotVisibleError(StorageError, TimeoutError):
    """The newest state, committed on another host, is not visible on this one."""


class ExistsError(StorageError, FileExistsError):
    """The files exist."""


class MissingError(StorageError, FileNotFoundError):
    """A file of the pair does not exist."""


class ReplacedError(MissingError):
    """The files of an open array were replaced, removed or moved, so it gets no more updates."""


class RemoteError(StorageError, ConnectionError):
    """A web server, a bucket, or the way there failed, again and again.

    Attributes
    ----------
    filename : str
        The URL, without user, password and query.
    start, stop : int or None
        Bytes of the object that were asked for: start ... stop - 1.
    """

    start: int | None = None
    stop: int | None = None


class RecoveryWarning(ExtArrayError, UserWarning):  # noqa: N818 -- Python says Warning
    """Files are not whole, as after a loss of power: elements, or the newest state, may be lost."""


class StaleWarning(ExtArrayError, UserWarning):  # noqa: N818
    """Elements that another host writes may stay invisible on this one."""


class LossyWarning(ExtArrayError, UserWarning):  # noqa: N818
    """A file of another format cannot hold everything that an array has, or vice versa."""


class ResultWarning(ExtArrayError, UserWarning):  # noqa: N818
    """A result in memory is larger than ``config.warn_result``."""


def storage_error(error: OSError, what: str, path: object) -> StorageError:
    """Return the family's error for an error of the operating system.

    Parameters
    ----------
    error : OSError
    what : str
        The request, and what to do; ``{}`` stands for the path.
    path : str or PathLike

    Returns
    -------
    StorageError
        With the errno of `error`, and derived from the built-in class that fits.  Its `filename`
        is that of `error`, or the path if `error` has none, as for an open file.
    """
    kinds: dict[type[OSError], type[StorageError]] = {
        PermissionError: AccessError,
        FileExistsError: ExistsError,
        FileNotFoundError: MissingError,
    }
    kind = kinds.get(type(error), StorageError)
    what = what.replace("{}", str(path), 1)
    name = str(path) if error.filename is None else error.filename
    return kind(error.errno, f"{what}: {error.strerror or error}", name)


class MissingExtraError(ExtArrayError, ImportError):
    """An optional package is not installed.

    Attributes
    ----------
    extra : str or None
        The extra of extarray that installs it, such as "plot".
    """

    extra: str | None = None


# Tracebacks and pickles name the module that programs import them from.
for _name in __all__:
    globals()[_name].__module__ = "extarray.errors"
