"""Files of other formats: written beside and renamed, and read with errors of the family."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import threading
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np

from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    ExtArrayError,
    FormatError,
    ReserveError,
    VariableError,
    storage_error,
)
from extarray.storage.filesystem import File, create_beside, family, fresh_name, publish, real_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

__all__ = [
    "Pieces",
    "beside",
    "check_free",
    "check_shape_is",
    "copy_range",
    "file_name",
    "flat_file",
    "mapped",
    "memory_of",
    "of_library",
    "part_of",
    "read_all",
    "unknown_part",
    "write_all",
]


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
def of_library(file: Any, title: str, part: str = "") -> Iterator[None]:
    """Turn the errors of a library, for a file that it cannot read or write, into the family's.

    Parameters
    ----------
    file : object
        What the user gave.
    title : str
        Of the format.
    part : str
        Name of the array in the file, if it is one of several.

    Raises
    ------
    FormatError
        A ValueError: the file is damaged, or no such file.
    StorageError
        An OSError that the system gave, such as a MissingError.
    """
    which = f"{part!r} of {file!r}" if part else repr(file)
    try:
        yield
    except ExtArrayError:
        raise
    except OSError as error:
        if error.errno is None or error.errno < 0:  # netCDF's own numbers
            raise FormatError(f"{which} cannot be used as {title}: {error}") from error
        raise storage_error(error, f"{title}: cannot use '{{}}'", file) from error
    except MemoryError as error:
        raise ReserveError(f"{which} asks for more memory than there is: {error}") from error
    except (Warning, NameError):  # of ours
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise FormatError(f"{which} cannot be used as {title}: {text}") from error


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


def check_shape_is(found: tuple[int, ...], old: tuple[int, ...]) -> None:
    """Refuse to change an array of a file that has not the shape that it had."""
    if found != old:
        raise ArgumentError(
            f"the dataset has the shape {found} now, and had {old} when it was mapped or written "
            "back; map it again"
        )


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


class Pieces:
    """A file that threads read pieces of, each into memory of its own that it uses again.

    Fresh memory would cost more than what it takes, and so would pages that are mapped and touched
    once.

    Parameters
    ----------
    where : str
    """

    def __init__(self, where: str) -> None:
        self._where, self._own = where, threading.local()
        self._file = File.open(where, os.O_RDONLY)

    def read(self, places: Sequence[int] | NDArray[np.int64], nbytes: int) -> NDArray[np.uint8]:
        """Read pieces, one behind the other, into memory that the thread's next call takes again.

        Parameters
        ----------
        places : sequence of int
            First byte of each.
        nbytes : int
            Of each.

        Raises
        ------
        FormatError
            A ValueError: the file ends before one of them.
        """
        runs = np.ascontiguousarray(places, np.int64)
        target = memory_of(self._own, len(runs) * nbytes)
        if self._file.read_runs(target, runs, nbytes) < len(target):
            raise FormatError(f"{self._where!r} became shorter while it was read")
        return target


def memory_of(own: threading.local, nbytes: int) -> NDArray[np.uint8]:
    """Return memory of this thread, the same in each call."""
    memory: NDArray[np.uint8] | None = getattr(own, "memory", None)
    if memory is None or len(memory) < nbytes:
        memory = own.memory = np.empty(nbytes, np.uint8)
    return memory[:nbytes]


def mapped(
    where: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    start: int,
    order: Literal["C", "F"] = "C",
) -> NDArray[Any]:
    """Map the elements of a file that lie one behind the other; a copy of none, where it has none.

    Raises
    ------
    FormatError
        A ValueError: the file is shorter than that.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    has = os.stat(where).st_size - start
    if has < nbytes:
        raise FormatError(
            f"{where!r} has {max(0, has)} bytes of elements; {shape} elements of {dtype} are "
            f"{nbytes}"
        )
    if not nbytes:
        return np.empty(shape, dtype)
    found = np.memmap(where, dtype, "r", start, shape, order)
    return found.view(np.ndarray)  # views of which cost less


def part_of(elements: Any, box: Box) -> NDArray[Any]:
    """Return the elements of a box as an array, those without axes too."""
    place: tuple[Any, ...] = (*box, ...)
    part: NDArray[Any] = elements[place]
    return part


@contextlib.contextmanager
def flat_file(
    where: str,
    title: str,
    overwrite: bool,
    nbytes: int,
    head: bytes = b"",
    tail: bytes = b"",
    kept: Sequence[tuple[int, int]] = (),
) -> Iterator[Callable[..., None]]:
    """Give what writes elements into a file that has its name at the end.

    All of it has its space before the first element is written; and calls cost less than stores
    to a mapped file, whose pages the system would clear first.  What is given takes values, and how
    many bytes come before them; several threads may call it.

    Parameters
    ----------
    where, title : str
    overwrite : bool
    nbytes : int
        Of the elements.
    head, tail : bytes
        Before the elements, and behind them.
    kept : sequence of (int, int)
        Ranges of bytes of the file that is there: copies of them come before all else.
    """
    with beside(where, overwrite) as fresh:
        with of_library(where, title):
            fd = os.open(fresh, os.O_WRONLY | os.O_CLOEXEC)
        try:
            with of_library(where, title):
                for low, high in kept:
                    copy_range(where, fd, low, high)
                place = sum(high - low for low, high in kept) + len(head)
                if hasattr(os, "posix_fallocate") and nbytes:
                    os.posix_fallocate(fd, 0, place + nbytes + len(tail))
                write_all(fd, head, place - len(head))

            def write(values: NDArray[Any], offset: int) -> None:
                write_all(fd, memoryview(values.ravel(order="K").view(np.uint8)), place + offset)

            yield write
            with of_library(where, title):
                write_all(fd, tail, place + nbytes)
        finally:
            os.close(fd)


def read_all(fd: int, target: NDArray[Any]) -> bool:
    """Fill an array with the first bytes of a file; tell whether there are so many."""
    view, place = memoryview(target.reshape(-1).view(np.uint8)), 0
    while place < len(view):
        done = os.preadv(fd, [view[place:]], place)
        if not done:
            return False
        place += done
    return True


def write_all(fd: int, data: bytes | memoryview, place: int) -> None:
    """Write all bytes: one call writes 2 GiB at most."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, place)
        view, place = view[done:], place + done


def copy_range(where: str, fd: int, low: int, high: int) -> None:
    """Copy a range of bytes of a file to the end of another."""
    with open(where, "rb") as stream, open(fd, "ab", closefd=False) as target:
        stream.seek(low)
        while low < high:
            data = stream.read(min(1 << 20, high - low))
            if not data:
                raise FormatError(f"{where!r} ends too early")
            target.write(data)
            low += len(data)
