"""Elements as they lie in files: read in pieces, mapped, and written one after another."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.common.errors import FormatError
from extarray.common.system import ALONE, allocate
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
            f"{where!r} has {max(0, has)} bytes of elements, but {shape} elements of {dtype} need "
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
    with contextlib.ExitStack() as stack:
        if kept:
            fresh = stack.enter_context(successor(where, title)).name
        else:
            fresh = stack.enter_context(beside(where, overwrite))
        with of_library(where, title):
            fd = os.open(fresh, os.O_WRONLY | ALONE)
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
