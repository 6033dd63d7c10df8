"""Files of other formats: written beside and renamed, and read with errors of the family."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
import threading
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np

from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    ExtArrayError,
    FormatError,
    ReserveError,
    ResultError,
    VariableError,
    storage_error,
)
from extarray.common.formatting import format_bytes
from extarray.storage.filesystem import File, create_beside, family, fresh_name, publish, real_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

__all__ = [
    "Claims",
    "Pieces",
    "allowed",
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

#: Times the bytes of a file that arrays made of it may take, beyond ``config.max_result``: no file
#: of data that were measured or computed is compressed so well.
_MOST_TIMES = 1000


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
        raise FormatError(f"{which} cannot be used as {title}: {_words_of(error)}") from error


def _words_of(error: BaseException) -> str:
    """Return the words of an error; of one that others have caused, those of the first."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def allowed(max_result: int | str | None) -> AbstractContextManager[object]:
    """Make the context in which ``config.max_result`` is what a user gives; None: as it is."""
    if max_result is None:
        return contextlib.nullcontext()
    return config.set(max_result=max_result)


class Claims:
    """The bytes that arrays made of one file take, against those that the file has.

    A file of a few bytes can say that its arrays are of any size: it may be sparse, compressed, or
    damaged.

    Parameters
    ----------
    file : object
        What the user gave.
    """

    def __init__(self, file: Any) -> None:
        self._file, self._total = file, 0

    def add(self, nbytes: int, stored: Callable[[], int | None] | None = None) -> None:
        """Count an array in; refuse what is beyond the limit, and beyond all proportion.

        Parameters
        ----------
        nbytes : int
            That the array takes, or at least so many.
        stored : callable, optional
            Tells the bytes in files that its elements come from, or None, where nobody knows; by
            default they are those of the file.

        Raises
        ------
        ResultError
            A MemoryError.
        """
        self._total += nbytes
        if self._total <= config.max_result:
            return
        has = _bytes_of(self._file) if stored is None else stored()
        if has is None or self._total <= _MOST_TIMES * has:
            return
        raise ResultError(
            f"{self._file!r} would become {format_bytes(self._total)}, more than "
            f"config.max_result ({format_bytes(config.max_result)}), and has {format_bytes(has)} "
            "of data; if it is to be trusted, give max_result=, the bytes that it may become"
        )


def _bytes_of(file: Any) -> int | None:
    """Return the bytes of a file, or of all files in a folder; None for anything else."""
    try:
        name = os.fsdecode(file)
        about = os.stat(name)
    except (TypeError, ValueError, OSError):
        return None
    if not stat.S_ISDIR(about.st_mode):
        return about.st_size
    return sum(
        os.lstat(os.path.join(folder, each)).st_size
        for folder, _, names in os.walk(name)
        for each in names
    )


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
