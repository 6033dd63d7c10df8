"""Streaming: an operation runs over boxes of elements, each in memory for a moment."""

from __future__ import annotations

import contextlib
import math
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from extarray.common.config import config
from extarray.common.lazy import LazyImports, LazyModule
from extarray.common.limits import limits
from extarray.grid.tiles import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from typing import Protocol

    import numpy as np
    from numpy.typing import NDArray

    from extarray.common import threads
    from extarray.grid.tiles import Box
    from extarray.streaming import mapped_pages, warnings

    class ElementAccess(Protocol):
        """The elements of a source; each class of sources reaches them in its own way."""

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
            """The uuid of the array whose stored elements these are."""

        def read(self, selection: Any = ...) -> NDArray[Any]:
            """Copy a selection."""

        def write(self, selection: Any, values: Any) -> None:
            """Write to a selection."""

        def _peek(self, box: Box, writable: bool = False) -> NDArray[Any] | None:
            """Return a view of a box that lies in one mapped chunk; else None."""

else:
    # At runtime the protocol would add two classes below every array.
    ElementAccess = object
    mapped_pages = LazyModule("extarray.streaming.mapped_pages")
    threads = LazyModule("extarray.common.threads")
    warnings = LazyModule("extarray.streaming.warnings")

__all__ = [
    "Line",
    "Source",
    "announced",
    "axis_names",
    "box_bytes",
    "comes_late",
    "hold",
    "holes_of",
    "lead_of",
    "leaves_holes",
    "load",
    "own_box",
    "read_elements",
    "read_exactly",
    "release",
    "run",
    "view_of",
    "write_elements",
    "write_exactly",
]

_Item = TypeVar("_Item")

#: Part of an axis of a stored array that a source shows: start, step and number of indices, and the
#: axis of the source that shows them in this order.  Instead of the axis, None means another order,
#: and -1 a single index without an axis.
Line = tuple[int, int, int, "int | None"]


_later = LazyImports({"extarray.common.progress": "Progress"})


class Source(ElementAccess):
    """An operand of streamed operations: the base class of arrays, views and computed operands."""

    __slots__ = ()

    # Streaming calls these.  They act for this process only, even where `read` and `write` are
    # collective.

    def _fetch(self, selection: Any = ..., **options: Any) -> NDArray[Any]:
        """Copy a selection."""
        return self.read(selection, **options)

    def _put(self, selection: Any, values: Any) -> None:
        """Write to a selection."""
        self.write(selection, values)

    def _held(self) -> Any:
        """Return the array with its present bounds, whatever happens to them while it is read."""
        return self

    def _verified(self) -> Any:
        """Return `_held`, but with chunks verified before they are read: for copies."""
        return self._held()

    def _released(self) -> Any:
        """Return a held array, or a result made of it, in a form that may outlive the call."""
        return self

    # Chunks that come from elsewhere can be on their way before they are read.

    @property
    def _comes_late(self) -> bool:
        """True if calling `_ahead` saves time."""
        return False

    def _ahead(self, boxes: Sequence[Box]) -> None:
        """Announce that boxes will be read soon, so that their chunks are fetched together."""

    # In some arrays, unwritten elements take no space, and need not be read.

    def _holes(self) -> Callable[[Box], bool] | None:
        """Return a function that tells, without reading, if a box is all zero bytes, or None."""
        return None

    @property
    def _leaves_holes(self) -> bool:
        """True if zeros take no space until somebody writes them."""
        return False

    # A selection made part by part has an entry for each axis that the array had at the start.

    def _check_axes(self, ndim: int) -> None:
        """Raise if the source has gained axes beyond `ndim`, as only arrays can."""

    def _read_exact(self, key: tuple[Any, ...]) -> NDArray[Any]:
        """Copy a selection that has an entry for each axis, as of when it was made."""
        return self._fetch(key)

    def _write_exact(self, key: tuple[Any, ...], values: Any) -> None:
        """Write to such a selection."""
        self._put(key, values)

    def _check_target(self) -> None:
        """Raise if some elements cannot be written to, before any is written."""

    @property
    def _lines(self) -> tuple[Line, ...] | None:
        """The places of the elements in the stored array, axis by axis; None if unknown."""
        return None

    @property
    def _lead(self) -> tuple[int, ...]:
        """Elements of each axis's first chunk that lie before index 0."""
        return (0,) * len(self.shape)

    @property
    def _axis_names(self) -> tuple[str, ...] | None:
        """Names of the axes, or None."""
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
    """Return the most bytes a box may have, to keep the work within ``config.max_memory``.

    Parameters
    ----------
    kept : int
        Arrays of the size of a box that all threads together keep for longer.  In addition, each
        thread has a box and up to three temporary arrays of its size.
    """
    share: int = config.max_memory // (4 * config.threads + kept)
    return max(1, min(BLOCK_BYTES, share))


# The operations on operands, for NumPy's functions and for selections.


def axis_names(source: Source) -> tuple[str, ...] | None:
    """Return the names of the axes, also for a source read in another dtype; None if unnamed."""
    return source._axis_names


def read_elements(source: Source, selection: Any = ..., **options: Any) -> NDArray[Any]:
    """Copy a selection; the options are those of `ExtArray.read`."""
    return source._fetch(selection, **options)


def write_elements(source: Source, selection: Any, values: Any) -> None:
    """Write to a selection."""
    source._put(selection, values)


def read_exactly(source: Source, key: tuple[Any, ...]) -> NDArray[Any]:
    """Copy a selection with an entry for each axis that existed when it was made."""
    return source._read_exact(key)


def write_exactly(source: Source, key: tuple[Any, ...], values: Any) -> None:
    """Write to such a selection."""
    source._write_exact(key, values)


def hold(source: Source, verified: bool = False) -> Any:
    """Return an array with its present bounds; if `verified`, chunks are verified when read."""
    return source._verified() if verified else source._held()


def lead_of(source: Source) -> tuple[int, ...]:
    """Return how many elements of each axis's first chunk lie before index 0."""
    return source._lead


def comes_late(source: ElementAccess) -> bool:
    """Tell whether chunks of a source come from elsewhere, and are only then in its file."""
    return isinstance(source, Source) and source._comes_late


def holes_of(source: ElementAccess) -> Callable[[Box], bool] | None:
    """Return a function that tells, without reading, if a box is all zero bytes, or None.

    The function may miss such a box, but never reports another.
    """
    return source._holes() if isinstance(source, Source) else None


def leaves_holes(target: ElementAccess) -> bool:
    """Tell whether zeros take no space in an array until somebody writes them."""
    return isinstance(target, Source) and target._leaves_holes


def release(source: Source) -> Any:
    """Return a held array, or a result made of it, in a form that may outlive the call."""
    return source._released()


def view_of(source: Source, box: Box, writable: bool = False) -> NDArray[Any] | None:
    """Return a view of a box that lies in one mapped chunk; else None."""
    return source._peek(box, writable)


def load(source: Source, box: Box) -> NDArray[Any]:
    """Read a box, without a copy if it lies in one mapped chunk; do not write to it."""
    view = source._peek(box)
    return source._read_exact(box) if view is None else view


def own_box(shape: tuple[int, ...], box: Box) -> Box:
    """Return the part of an operand that meets a box of the shape it is broadcast to.

    Examples
    --------
    >>> own_box((1, 3), (slice(4, 6), slice(1, 3)))
    (slice(0, 1, None), slice(1, 3, None))
    """
    own = box[len(box) - len(shape) :]
    if 1 in shape:
        return tuple([slice(0, 1) if n == 1 else s for n, s in zip(shape, own, strict=True)])
    return own


def run(
    work: Callable[[int, Box], object],
    boxes: Iterable[Box],
    nbytes: int,
    operands: Iterable[Any] = (),
) -> None:
    """Call ``work(i, box)`` for every box, on as many threads as `nbytes`, all bytes, justify.

    Calls come on any thread, in any order.  Threads see the caller's settings and ``np.errstate``;
    each warning of NumPy is given once.  The first exception ends the work and is raised here.

    `work` reads the `operands` at the box, or the part of them that is broadcast there: chunks of
    theirs that come from elsewhere are requested while earlier boxes are worked on.
    """
    n_threads = max(1, min(config.threads, nbytes // limits.streamed_bytes))
    late = [x for x in operands if comes_late(x)]
    if late:
        boxes = _ahead(boxes, late)
    with warnings.SaidOnce():
        if config.progress is False:
            _run(work, boxes, n_threads)
            return
        with contextlib.closing(_reported(boxes, nbytes)) as told:
            _run(work, told, n_threads)


def _ahead(boxes: Iterable[Box], operands: Sequence[Source]) -> Iterator[Box]:
    """Yield boxes, which the operands are told of before, many together.

    Two announcements fill two thirds of the memory for chunks that come from elsewhere.
    """
    itemsize = len(operands) * max(1, *(x.dtype.itemsize for x in operands))
    n_elements = min(config.chunk_cache, config.max_memory) // (3 * itemsize)

    def tell(some: list[Box]) -> None:
        for x in operands:
            x._ahead([own_box(x.shape, box) for box in some])

    coming = iter(boxes)
    return announced(iter(lambda: _boxes_of(coming, n_elements), []), tell)


def announced(
    batches: Iterable[list[_Item]], tell: Callable[[list[_Item]], object]
) -> Iterator[_Item]:
    """Yield the items of batches; `tell` is called with each batch before those of the last one.

    So what a batch needs can come while the one before it is used.
    """
    before: list[_Item] = []
    for batch in batches:
        tell(batch)
        yield from before
        before = batch
    yield from before


def _boxes_of(boxes: Iterator[Box], n_elements: int) -> list[Box]:
    """Take the next boxes that have about so many elements together, at least one."""
    some: list[Box] = []
    for box in boxes:
        some.append(box)
        n_elements -= math.prod(s.stop - s.start for s in box)
        if n_elements <= 0:
            break
    return some


def _run(work: Callable[[int, Box], object], boxes: Iterable[Box], n_threads: int) -> None:
    """Call ``work(i, box)`` for every box on `n_threads` threads."""
    if n_threads > 1:
        _share(work, boxes, n_threads)
        return
    passing = mapped_pages.Passing()
    for i, box in enumerate(boxes):
        work(i, box)
        passing.add(_about_bytes(box))


def _share(work: Callable[[int, Box], object], boxes: Iterable[Box], n_threads: int) -> None:
    """Call ``work(i, box)`` for every box on several threads, this one included."""
    numbered = enumerate(boxes)
    lock = threading.Lock()
    stopped = threading.Event()

    def share() -> None:
        passing = mapped_pages.Passing(n_threads)
        while not stopped.is_set():
            with lock:
                task = next(numbered, None)
            if task is None:
                return
            work(*task)
            passing.add(_about_bytes(task[1]))

    threads.run_together([share] * n_threads, stopped.set)


def _reported(boxes: Iterable[Box], nbytes: int) -> Generator[Box, None, None]:
    """Yield the boxes; report each one's share of all bytes when the next is asked for."""
    every = list(boxes)
    with _later.Progress(nbytes, "compute", config.progress) as progress:
        for number, box in enumerate(every, start=1):
            yield box
            progress.add(nbytes * number // len(every) - progress.done)


def _about_bytes(box: Box) -> int:
    """Estimate the bytes of arrays that the work on a box has gone through."""
    elements: int = math.prod(part.stop - part.start for part in box)
    return max(BLOCK_BYTES, 8 * elements)
