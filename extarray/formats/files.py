"""Files of other formats: written beside and renamed, and read with errors of the family."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from extarray.common.errors import (
    ArgumentTypeError,
    ExistsError,
    ExtArrayError,
    FormatError,
    ReserveError,
    VariableError,
    storage_error,
)
from extarray.storage.filesystem import create_beside, family, fresh_name, publish, real_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["beside", "check_free", "file_name", "of_library", "reserve_bytes", "unknown_part"]


def file_name(file: Any, title: str) -> str:
    """Return the name of a file that a user gives.

    Parameters
    ----------
    file : str or PathLike
    title : str
        Of the format.

    Raises
    ------
    ArgumentTypeError
        A TypeError: something else.
    """
    try:
        return os.fsdecode(file)
    except TypeError:
        raise ArgumentTypeError(
            f"{title}: the file must be given as a str or a path, not as a {type(file).__name__}"
        ) from None


@contextlib.contextmanager
def of_library(file: Any, title: str) -> Iterator[None]:
    """Turn the errors of a library, for a file that it cannot read or write, into the family's.

    Parameters
    ----------
    file : object
        What the user gave.
    title : str
        Of the format.

    Raises
    ------
    FormatError
        A ValueError: the file is damaged, or no such file.
    StorageError
        An OSError that the system gave, such as a MissingError.
    """
    try:
        yield
    except ExtArrayError:
        raise
    except OSError as error:
        if error.errno is None or error.errno < 0:  # netCDF's own numbers
            raise FormatError(f"{file!r} cannot be used as {title}: {error}") from error
        raise storage_error(error, f"{title}: cannot use '{{}}'", file) from error
    except MemoryError as error:
        raise ReserveError(f"{file!r} asks for more memory than there is: {error}") from error
    except (Warning, NameError):  # of ours
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise FormatError(f"{file!r} cannot be used as {title}: {text}") from error


def unknown_part(file: Any, asked: Any, kind: str, there: Iterable[str]) -> VariableError:
    """Return the error for a part of a file that is not there, or that has to be named.

    Parameters
    ----------
    file : object
    asked : object
        The name; None: none was given.
    kind : str
        Of such parts: "a dataset".
    there : iterable of str
    """
    names = list(there)
    shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    has = f"it has {shown}" if names else "it has none"
    if asked is None:
        return VariableError(f"{file!r} has more than one array; name {kind}: {has}")
    return VariableError(f"{file!r} has no {kind.partition(' ')[2]} {asked!r}; {has}")


def check_free(name: str, overwrite: bool) -> None:
    """Refuse a name that is taken, before any work."""
    if not overwrite and os.path.lexists(name):
        raise ExistsError(errno.EEXIST, "it exists; overwrite=True replaces it", name)


@contextlib.contextmanager
def beside(name: str, overwrite: bool) -> Iterator[str]:
    """Give the name of a fresh file, which takes its own name at the end of the block.

    Where the block fails, whatever had the name has it still, and nothing else is left.

    Parameters
    ----------
    name : str
        That the file will have.
    overwrite : bool
        Take the name from another file.

    Yields
    ------
    str
        Of an empty file in the same folder.

    Raises
    ------
    ExistsError
        A FileExistsError: the name is taken.
    StorageError
    """
    check_free(name, overwrite)
    if os.path.isdir(name):
        raise ExistsError(errno.EISDIR, "it is a folder, which no file replaces", name)
    real = real_name(name)
    fresh = fresh_name(real, uuid4().bytes)
    with family("cannot write '{}'", name):
        create_beside(fresh, real).close()
    try:
        yield fresh
        with family("cannot write '{}'", name):
            publish(fresh, real, overwrite)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def reserve_bytes(name: str, nbytes: int) -> None:
    """Let a file have so many bytes, with their disk space, so that a store to them cannot fail.

    Raises
    ------
    OSError
    """
    fd = os.open(name, os.O_RDWR | os.O_CLOEXEC)
    try:
        if hasattr(os, "posix_fallocate") and nbytes:
            os.posix_fallocate(fd, 0, nbytes)
        else:
            os.ftruncate(fd, nbytes)
    finally:
        os.close(fd)
