"""Elements on their way into TIFF files, which tifffile lays out: in place, or piece by piece."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import os
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.creation import create
from extarray.array.pyramid import halved
from extarray.common.config import config
from extarray.common.errors import ArgumentError, FormatError
from extarray.common.system import allocate, open_file
from extarray.formats.files import of_library, write_all
from extarray.formats.tiff_parts import TITLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from extarray.formats.description import Description
    from extarray.formats.tiff_parts import Layout
    from extarray.grid.tiles import Box

__all__ = ["flat", "piecewise"]


@contextlib.contextmanager
def flat(
    tifffile: Any, fresh: str, where: str, given: Description, settings: Any, arguments: Any
) -> Iterator[Callable[..., None]]:
    """Yield a function that writes elements, which lie one after another, from any thread."""
    stored = arguments["dtype"]
    with of_library(where, TITLE):
        with tifffile.TiffWriter(fresh, **settings) as writer:
            place, _ = writer.write(None, returnoffset=True, **arguments)
        fd = open_file(fresh, os.O_WRONLY)
    try:
        with of_library(where, TITLE):
            allocate(fd, max(os.fstat(fd).st_size, place + given.nbytes))

        def write(box: Box, values: NDArray[Any], first: int) -> None:
            kept = values.astype(stored, copy=False).ravel(order="K")
            write_all(fd, memoryview(kept.view(np.uint8)), place + first * stored.itemsize)

        yield write
    finally:
        os.close(fd)


class _Piecewise:
    """Pages or tiles, in their order in the file, on their way to tifffile, which asks for them.

    tifffile writes in a thread of its own, and gets one piece after another from `__call__`.

    Parameters
    ----------
    work : callable
        Takes an iterator of pieces, and writes them.
    piece : tuple of int
        Shape of a piece, along all axes of a page.
    shape : tuple of int
        Its shape without axes of which it has one element.
    layout : Layout
    dtype : dtype
    levels : _Levels, optional
        Smaller levels of the image, which get each piece, too.
    """

    def __init__(
        self,
        work: Callable[[Iterator[Any]], object],
        piece: tuple[int, ...],
        shape: tuple[int, ...],
        layout: Layout,
        dtype: np.dtype[Any],
        levels: _Levels | None = None,
    ) -> None:
        self.piece, self._shape, self._dtype = piece, shape, dtype
        self._axes, self._levels = layout.order[: len(layout.axes)], levels
        self._turn = threading.Condition()
        self._next: NDArray[Any] | None = None
        self._is_over = self._is_done = False
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run, work), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Iterator[Any]], object]) -> None:
        try:
            work(self._pieces())
        except BaseException as error:  # noqa: BLE001 -- raised in the thread of the caller
            self._error = error
        finally:
            with self._turn:
                self._is_done = True
                self._turn.notify_all()

    def _pieces(self) -> Iterator[NDArray[Any]]:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._next is not None or self._is_over)
                piece, self._next = self._next, None
                self._turn.notify_all()
            if piece is None:
                return
            yield piece

    def __call__(self, box: Box, values: NDArray[Any]) -> None:
        """Hand on a piece; return once the one before it is taken."""
        place = tuple(box[axis] for axis in self._axes)
        own = values.reshape([s.stop - s.start for s in place])
        piece = _padded(own, self._shape, self._dtype)
        if self._levels is not None:
            self._levels.put(0, place, own)
        with self._turn:
            self._turn.wait_for(lambda: self._next is None or self._is_done)
            if self._is_done:
                self._raise()
            self._next = piece
            self._turn.notify_all()

    def _raise(self) -> None:
        error, self._error = self._error, None
        raise error or FormatError("tifffile ended before the last element")

    def finish(self) -> None:
        """Wait until the file is complete."""
        self.stop()
        if self._error is not None:
            self._raise()

    def stop(self) -> None:
        """Let tifffile end after the pieces that it has, and wait for that."""
        with self._turn:
            self._is_over = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._is_done)
        self._thread.join()


@contextlib.contextmanager
def piecewise(
    tifffile: Any,
    fresh: str,
    where: str,
    layout: Layout,
    settings: Any,
    arguments: Any,
    n_levels: int = 0,
) -> Iterator[_Piecewise]:
    """Yield a function that takes pages or tiles, one after another.

    `n_levels` is the number of smaller levels of a pyramid; it needs tiles.
    """
    stored = arguments["dtype"]
    piece = shape = layout.page
    if arguments.get("tile"):
        tile = tuple(map(int, arguments["tile"]))
        contig = layout.page[-1:] if layout.samples == "contig" else ()
        piece = shape = (*tile, *contig)
        if layout.samples == "separate":
            piece = (1, *tile)
    limits = {
        "maxworkers": max(1, config.threads),
        "buffersize": max(1 << 16, config.max_memory // 16),
    }

    with contextlib.ExitStack() as stack:
        levels = None
        if n_levels:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="extarray-"))
            made = _Levels(folder, layout, piece, shape, stored, n_levels)
            levels = stack.enter_context(contextlib.closing(made))

        def work(pieces: Iterator[Any]) -> None:
            with tifffile.TiffWriter(fresh, **settings) as writer:
                given = {**limits, **arguments}
                if levels is None:
                    writer.write(pieces, **given)
                    return
                writer.write(pieces, subifds=n_levels, **given)
                given["metadata"] = None
                for level, array in enumerate(levels.arrays):
                    given["shape"] = array.shape
                    writer.write(levels.pieces(level), subfiletype=1, **given)

        feed = _Piecewise(work, piece, shape, layout, stored, levels)
        try:
            yield feed
            with of_library(where, TITLE):
                feed.finish()
        except BaseException:
            feed.stop()
            raise


# -- pyramids ------------------------------------------------------------------------------------


class _Levels:
    """Smaller and smaller levels of an image, in temporary arrays on the disk.

    Parameters
    ----------
    folder : str
    layout : Layout
    piece, shape : tuple of int
        As for `_Piecewise`, of tiles.
    dtype : dtype
    n : int
        Number of levels.
    """

    def __init__(
        self,
        folder: str,
        layout: Layout,
        piece: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        n: int,
    ) -> None:
        self._axes = layout.axes.index("Y"), layout.axes.index("X")
        self._shape, self._dtype = shape, dtype
        self._chunks = (1,) * len(layout.lead) + piece
        extents = list(layout.shape)
        if max(extents[axis] for axis in self._axes) >> n == 0:
            raise ArgumentError(f"pages of {layout.page} do not have {n} levels")
        self.arrays: list[Any] = []
        for level in range(n):
            for axis in self._axes:
                extents[axis] = -(-extents[axis] // 2)
            name = os.path.join(folder, str(level))
            self.arrays.append(create(name, tuple(extents), dtype, chunks=self._chunks))

    def put(self, level: int, box: Box, values: NDArray[Any]) -> None:
        """Store the elements of a box of the level above, halved."""
        place = list(box)
        for axis in self._axes:
            place[axis] = slice(box[axis].start // 2, -(-box[axis].stop // 2))
        self.arrays[level][tuple(place)] = halved(values, self._axes)

    def pieces(self, level: int) -> Iterator[NDArray[Any]]:
        """Yield the tiles of a level, and store the next level meanwhile."""
        array = self.arrays[level]
        ranges = (range(0, n, c) for n, c in zip(array.shape, self._chunks, strict=True))
        for first in itertools.product(*ranges):
            box = tuple(
                slice(low, min(low + c, n))
                for low, c, n in zip(first, self._chunks, array.shape, strict=True)
            )
            values = array[box]
            if level + 1 < len(self.arrays):
                self.put(level + 1, box, values)
            yield _padded(values, self._shape, self._dtype)

    def close(self) -> None:
        """Close the arrays."""
        for array in self.arrays:
            array.close()


def _padded(values: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a new array with elements, which have leading axes of 1, and zeros behind them."""
    piece = np.zeros(shape, dtype)
    extents = values.shape[values.ndim - len(shape) :]
    piece[tuple(slice(0, n) for n in extents)] = values.reshape(extents)
    return piece
