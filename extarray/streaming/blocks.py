"""Streaming: an operation runs over boxes of elements, each in memory for a moment."""

from __future__ import annotations

import contextlib
import math
import threading
from typing import TYPE_CHECKING, Any

from extarray.common.config import config
from extarray.common.lazy import LazyImports
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.grid.tiles import BLOCK_BYTES
from extarray.streaming.mapped_pages import Passing
from extarray.streaming.warnings import SaidOnce

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Protocol

    import numpy as np
    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

    class ElementAccess(Protocol):
        """The elements of a source, which each class of sources reaches in its own way."""

        @property
        def shape(self) -> tuple[int, ...]:
            """Extents, in elements."""

        @property
        def dtype(self) -> np.dtype[Any]:
            """Data type of the elements."""

        @property
        def chunks(self) -> tuple[int, ...]:
            """Extents of a chunk, in elements."""

        @property
        def _identity(self) -> bytes:
            """The uuid, which tells the stored elements from those of other arrays."""

        def read(self, selection: Any = ...) -> NDArray[Any]:
            """Copy of a selection."""

        def write(self, selection: Any, values: Any) -> None:
            """Write to a selection."""

        def _peek(self, box: Box, writable: bool = False) -> NDArray[Any] | None:
            """View of a box that lies in one mapped chunk; else None."""

else:
    # For type checkers alone: at runtime it would be two classes more below every array.
    ElementAccess = object

__all__ = [
    "Line",
    "Source",
    "axis_names",
    "box_bytes",
    "hold",
    "holes_of",
    "lead_of",
    "leaves_holes",
    "load",
    "read_elements",
    "read_exactly",
    "release",
    "run",
    "view_of",
    "write_elements",
    "write_exactly",
]

#: What is shown of an axis of a stored array: start, step and number of indices, and the axis that
#: shows them in this order; None: in another one, -1: no axis, but one index.
Line = tuple[int, int, int, "int | None"]


_later = LazyImports({"extarray.common.progress": "Progress"})


class Source(ElementAccess):
    """An operand of streamed operations; the base of all that can be one.

    An `ExtArray` is one, and a view of one.
    """

    __slots__ = ()

    # What streaming calls is of this process alone, also where `read` and `write` are of several.

    def _fetch(self, selection: Any = ..., **options: Any) -> NDArray[Any]:
        """Copy of a selection."""
        return self.read(selection, **options)

    def _put(self, selection: Any, values: Any) -> None:
        """Write to a selection."""
        self.write(selection, values)

    def _held(self) -> Any:
        """Return the array as it is now, whatever becomes of its bounds, to go through it."""
        return self

    def _verified(self) -> Any:
        """Return the same, of which chunks are verified before they are read: for copies."""
        return self._held()

    def _released(self) -> Any:
        """Return what may outlive a call, of what was made of arrays as they were."""
        return self

    # What nobody has written takes no space in some arrays, and need not be read.

    def _holes(self) -> Callable[[Box], bool] | None:
        """Return what tells whether a box has zero bytes alone, without reading; None: nothing."""
        return None

    @property
    def _leaves_holes(self) -> bool:
        """True if zeros take no space as long as nobody writes them."""
        return False

    # And who goes through an array part by part selects on each axis that it had when this began.

    def _check_axes(self, ndim: int) -> None:
        """Raise where there are other axes than `ndim` by now: arrays gain axes, and only they."""

    def _read_exact(self, key: tuple[Any, ...]) -> NDArray[Any]:
        """Copy of a selection that has an entry for each axis, as there were when it was made."""
        return self._fetch(key)

    def _write_exact(self, key: tuple[Any, ...], values: Any) -> None:
        """Write to such a selection."""
        self._put(key, values)

    @property
    def _lines(self) -> tuple[Line, ...] | None:
        """The places of the elements in the stored array, axis by axis; None: not known."""
        return None

    @property
    def _lead(self) -> tuple[int, ...]:
        """Elements of the first chunk of each axis that lie before index 0."""
        return (0,) * len(self.shape)

    @property
    def _axis_names(self) -> tuple[str, ...] | None:
        """The names of the axes, to be found by them."""
        names: tuple[str, ...] | None = getattr(self, "dims", None)
        return names

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def box_bytes(kept: int = 0) -> int:
    """Return the most bytes of a box for which ``config.max_memory`` holds what is needed.

    Parameters
    ----------
    kept : int
        Arrays of the size of a box that are kept for longer, by all threads together.  Beside
        them each thread has a box, and up to three temporary arrays of its size.
    """
    share: int = config.max_memory // (4 * config.threads + kept)
    return max(1, min(BLOCK_BYTES, share))


# The operations on operands, for the functions of NumPy and for selections.


def axis_names(source: Source) -> tuple[str, ...] | None:
    """Return the names of the axes, also of what is read in another dtype; None: it has none."""
    return source._axis_names


def read_elements(source: Source, selection: Any = ..., **options: Any) -> NDArray[Any]:
    """Copy a selection; the options are those of `ExtArray.read`."""
    return source._fetch(selection, **options)


def write_elements(source: Source, selection: Any, values: Any) -> None:
    """Write to a selection."""
    source._put(selection, values)


def read_exactly(source: Source, key: tuple[Any, ...]) -> NDArray[Any]:
    """Copy a selection with an entry for each axis that there was when it was made."""
    return source._read_exact(key)


def write_exactly(source: Source, key: tuple[Any, ...], values: Any) -> None:
    """Write to such a selection."""
    source._write_exact(key, values)


def hold(source: Source, verified: bool = False) -> Any:
    """Return an array as it is now, to go through it; `verified`: chunks are verified if read."""
    return source._verified() if verified else source._held()


def lead_of(source: Source) -> tuple[int, ...]:
    """Return the elements of the first chunk of each axis that lie before index 0."""
    return source._lead


def holes_of(source: ElementAccess) -> Callable[[Box], bool] | None:
    """Return what tells whether a box of an array has zero bytes alone, without reading it.

    It may be wrong in saying that there is more.  None: there are no such boxes, or nobody knows.
    """
    return source._holes() if isinstance(source, Source) else None


def leaves_holes(target: ElementAccess) -> bool:
    """Tell whether zeros take no space in an array as long as nobody writes them."""
    return isinstance(target, Source) and target._leaves_holes


def release(source: Source) -> Any:
    """Return what may outlive a call, of what was made of arrays as they were."""
    return source._released()


def view_of(source: Source, box: Box, writable: bool = False) -> NDArray[Any] | None:
    """Return a view of a box of elements that lies in one mapped chunk; else None."""
    return source._peek(box, writable)


def load(source: Source, box: Box) -> NDArray[Any]:
    """Read a box, not to be written to: without a copy where it lies in one mapped chunk."""
    view = source._peek(box)
    return source._read_exact(box) if view is None else view


def run(work: Callable[[int, Box], object], boxes: Iterable[Box], nbytes: int) -> None:
    """Call ``work(i, box)`` for every box, on as many threads as the bytes of all boxes are worth.

    The calls come on any thread, in no certain order.  The threads see the settings and the
    ``np.errstate`` of the caller; what NumPy warns of is said once.  The first exception ends the
    work and is raised here.
    """
    n_threads = max(1, min(config.threads, nbytes // limits.streamed_bytes))
    with SaidOnce():
        if config.progress is False:
            _run(work, boxes, n_threads)
            return
        with contextlib.closing(_reported(boxes, nbytes)) as told:
            _run(work, told, n_threads)


def _run(work: Callable[[int, Box], object], boxes: Iterable[Box], n_threads: int) -> None:
    """Call ``work(i, box)`` for every box on so many threads."""
    if n_threads > 1:
        _share(work, boxes, n_threads)
        return
    passing = Passing()
    for i, box in enumerate(boxes):
        work(i, box)
        passing.add(_about_bytes(box))


def _share(work: Callable[[int, Box], object], boxes: Iterable[Box], n_threads: int) -> None:
    """Call ``work(i, box)`` for every box on several threads; this one is one of them."""
    numbered = enumerate(boxes)
    lock = threading.Lock()
    stopped = threading.Event()

    def share() -> None:
        passing = Passing(n_threads)
        while not stopped.is_set():
            with lock:
                task = next(numbered, None)
            if task is None:
                return
            work(*task)
            passing.add(_about_bytes(task[1]))

    run_together([share] * n_threads, stopped.set)


def _reported(boxes: Iterable[Box], nbytes: int) -> Generator[Box, None, None]:
    """Yield the boxes, and tell of their share of all bytes once the next one is asked for."""
    every = list(boxes)
    with _later.Progress(nbytes, "compute", config.progress) as progress:
        for number, box in enumerate(every, start=1):
            yield box
            progress.add(nbytes * number // len(every) - progress.done)


def _about_bytes(box: Box) -> int:
    """Return about how many bytes of arrays the work on a box has gone through."""
    elements: int = math.prod(part.stop - part.start for part in box)
    return max(BLOCK_BYTES, 8 * elements)
