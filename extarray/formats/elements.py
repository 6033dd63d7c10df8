"""Elements inside files: read in pieces, mapped, and written one after another."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.common.errors import FormatError
from extarray.common.system import allocate, open_file
from extarray.formats.files import append_range, beside, of_library, successor, write_all
from extarray.storage.filesystem import File

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

__all__ = [
    "Pieces",
    "flat_file",
    "mapped",
    "memory_of",
    "part_of",
]


class Pieces:
    """A file that threads read in pieces, each thread into memory that it reuses.

    Fresh memory would cost more than the reads, and so would mapped pages that are touched once.

    Parameters
    ----------
    where : str
    """

    def __init__(self, where: str) -> None:
        self._where, self._own = where, threading.local()
        self._file = File.open(where, os.O_RDONLY)

    def read(self, places: Sequence[int] | NDArray[np.int64], nbytes: int) -> NDArray[np.uint8]:
        """Read pieces, one after another, into memory that the thread's next call reuses.

        Parameters
        ----------
        places : sequence of int
            First byte of each piece.
        nbytes : int
            Bytes of each piece.

        Raises
        ------
        FormatError
            A ValueError: the file ends before the end of a piece.
        """
        runs = np.ascontiguousarray(places, np.int64)
        target = memory_of(self._own, len(runs) * nbytes)
        if self._file.read_runs(target, runs, nbytes) < len(target):
            raise FormatError(f"{self._where!r} was truncated while it was read")
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
    """Map contiguous elements of a file; return a new array if there are none.

    Raises
    ------
    FormatError
        A ValueError: the file is too short.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    has = os.stat(where).st_size - start
    if has < nbytes:
        raise FormatError(
            f"{where!r} has {max(0, has)} bytes of elements, but {shape} elements of {dtype} need "
            f"{nbytes}"
        )
    if not nbytes:
        return np.empty(shape, dtype)
    found = np.memmap(where, dtype, "r", start, shape, order)
    return found.view(np.ndarray)  # cheaper views


def part_of(elements: Any, box: Box) -> NDArray[Any]:
    """Return the elements of a box as an array, even for arrays without axes."""
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
    """Yield a function that writes elements to a file, which takes its name at the end.

    All space is allocated before the first element is written.  The function makes system calls,
    which cost less than stores to a mapped file, whose pages the system would clear first.  It
    takes values and the number of element bytes before them; several threads may call it.

    Parameters
    ----------
    where, title : str
    overwrite : bool
    nbytes : int
        Bytes of the elements.
    head, tail : bytes
        Written before the elements, and after them.
    kept : sequence of (int, int)
        Byte ranges of the existing file, copied to the start of the new one.
    """
    with contextlib.ExitStack() as stack:
        if kept:
            fresh = stack.enter_context(successor(where, title)).name
        else:
            fresh = stack.enter_context(beside(where, overwrite))
        with of_library(where, title):
            fd = open_file(fresh, os.O_WRONLY)
        try:
            with of_library(where, title):
                for low, high in kept:
                    append_range(where, fd, low, high)
                place = sum(high - low for low, high in kept) + len(head)
                if nbytes:
                    allocate(fd, place + nbytes + len(tail))
                write_all(fd, head, place - len(head))

            def write(values: NDArray[Any], offset: int) -> None:
                write_all(fd, memoryview(values.ravel(order="K").view(np.uint8)), place + offset)

            yield write
            with of_library(where, title):
                write_all(fd, tail, place + nbytes)
        finally:
            os.close(fd)
