"""The streaming copier: from a `Source` into an array, and from an array into a `Sink`.

A `Format` creates them.  Elements are copied box by box, within ``config.max_memory``.  A box
consists of whole pieces of the file, which may be compressed, and also of whole chunks of the array
if memory allows.  While the library of the format reads or writes a box in the calling thread,
another thread writes or reads one of the array.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.creation import fill_bytes, filled
from extarray.array.encodings import rounding_of
from extarray.array.filling import writer
from extarray.common.arguments import NOT_GIVEN, check_flag, check_progress
from extarray.common.config import config
from extarray.common.errors import ArgumentError, LossyWarning
from extarray.common.progress import Progress
from extarray.common.system import disk_bytes
from extarray.common.threads import ThreadPool
from extarray.format.dtypes import check_dtype
from extarray.formats.description import attrs_for, described
from extarray.formats.elements import part_of
from extarray.formats.files import Claims, allowed, of_library
from extarray.formats.undecoded import give_back, left_of, take_over
from extarray.grid.chunking import check_chunks, check_shape, product
from extarray.grid.tiles import tiles
from extarray.streaming.mapped_pages import Passing
from extarray.streaming.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from extarray.common.arguments import Reported
    from extarray.formats.description import Description
    from extarray.formats.undecoded import Payloads
    from extarray.grid.tiles import Box

__all__ = [
    "Edit",
    "Format",
    "Sink",
    "Source",
    "boxes_of",
    "cut",
    "has_likeness",
    "inverse",
    "is_all",
    "line_of",
    "load",
    "runs",
    "save",
]

#: Target size of a box in bytes, large enough to make the cost of a library call negligible.
_STEP_BYTES = 1 << 22
#: Target size of a box of a mapped file, which is not copied twice.
_MAPPED_BYTES = 1 << 26
#: Size of a cache line in bytes.
_LINE_BYTES = 64
#: Chunks with fewer bytes are not adopted, since an array would have too many.
_LEAST_CHUNK = 1 << 12


@dataclass
class Source:
    """Elements of a file in another format, with their description.

    Parameters
    ----------
    description : Description
        Its `chunks` are the preferred pieces for reading.
    read : callable
        Returns the elements of a box (a tuple of slices, one for each axis) as an array of its
        shape, which later calls do not change; if `parallel`, not before the next call in the same
        thread.
    mapped : bool
        Whether `read` returns views of a mapped file at no cost.
    parallel : bool
        Whether several threads may call `read` at the same time; always true for `mapped`.
    single : bool
        Whether boxes should be single pieces: `read` returns views of pieces, and copies other
        boxes.
    piece : tuple of int, optional
        Extents of larger boxes from the first element on; `read` does not copy across their
        borders.
    sequential : tuple of int, optional
        Axes from the slowest to the fastest, if boxes must be read sequentially, each a run of
        elements in this order.  None: any order.
    lost : list of str
        Descriptions of what an array cannot hold.
    sparse : bool
        Whether the file has holes, which were never written.
    is_hole : callable, optional
        Tells, in any thread, whether a box lies in holes, whose elements are all equal.
    stored : callable, optional
        Returns the stored bytes of the elements, compressed or sparse, or None if unknown.  None:
        the size of the given file.
    payloads : Payloads, optional
        The pieces as a codec has encoded them, which an array may take over.
    plain : callable, optional
        Returns a view of a mapped file for a box, in the data type of the file, if `read` converts;
        `convert` makes elements of a copy.
    convert : callable, optional
    """

    description: Description
    read: Callable[[Box], NDArray[Any]]
    mapped: bool = False
    parallel: bool = False
    single: bool = False
    piece: tuple[int, ...] | None = None
    sequential: tuple[int, ...] | None = None
    lost: list[str] = field(default_factory=list)
    sparse: bool = False
    is_hole: Callable[[Box], bool] | None = None
    stored: Callable[[], int | None] | None = None
    payloads: Payloads | None = None
    plain: Callable[[Box], NDArray[Any]] | None = None
    convert: Callable[[NDArray[Any]], NDArray[Any]] | None = None


@dataclass
class Sink:
    """A file in another format that receives elements.

    Parameters
    ----------
    write : callable
        Takes a box and its elements in the described dtype: contiguous, in C order or that of
        `sequential`.  Their memory is reused after the call.
    chunks : tuple of int, optional
        Preferred pieces for writing.
    single : bool
        Whether boxes should be single pieces.
    sequential : tuple of int, optional
        As for `Source`.
    parallel : bool
        Whether several threads may call `write` at the same time, for boxes in any order.  With
        `sequential`, it takes a third argument: the number of elements before the box.
    lost : list of str
        Descriptions of what the file cannot hold.
    payloads : Payloads, optional
        Takes pieces that a codec has encoded already, as the file would.
    """

    write: Callable[..., object]
    chunks: tuple[int, ...] | None = None
    single: bool = False
    sequential: tuple[int, ...] | None = None
    parallel: bool = False
    lost: list[str] = field(default_factory=list)
    payloads: Payloads | None = None


@dataclass
class Edit:
    """An array in an existing file, open for changes that a mapped array writes back.

    Parameters
    ----------
    write : callable
        Takes a box and its elements.
    put_attrs : callable
        ``put_attrs(new, gone, lost)`` sets attributes and removes others by name; `lost` collects
        descriptions of what cannot be set.
    reserve : callable, optional
        ``reserve(nbytes)`` allocates the space for all elements before the first is written in
        place.  None: a copy is changed, and replaces the file if the block succeeds.
    is_fresh : bool
        Whether it was recreated, and has no elements yet.
    file : object, optional
        Its new place; None: unchanged.
    said : list of str
        Descriptions of changes in the file other than elements and attributes.
    lost : list of str
        Descriptions of what the file cannot hold.
    """

    write: Callable[[Box, NDArray[Any]], object]
    put_attrs: Callable[[dict[str, Any], list[str], list[str]], object]
    reserve: Callable[[int], object] | None = None
    is_fresh: bool = False
    file: Any = None
    said: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


# -- boxes --------------------------------------------------------------------------------------


def boxes_of(
    shape: tuple[int, ...],
    first: tuple[int, ...],
    second: tuple[int, ...],
    itemsize: int,
    limit: int,
) -> Iterator[Box]:
    """Yield boxes that tile a shape: whole chunks of the first kind, and of the second if possible.

    Parameters
    ----------
    shape : tuple of int
    first, second : tuple of int
        Extents of the chunks of both kinds.
    itemsize : int
    limit : int
        Maximum bytes of a box.

    Examples
    --------
    >>> [box for box, in boxes_of((12,), (2,), (3,), 1, 100)]
    [slice(0, 12, None)]
    >>> [box for box, in boxes_of((12,), (2,), (3,), 1, 7)]
    [slice(0, 6, None), slice(6, 12, None)]
    >>> [box for box, in boxes_of((5,), (2,), (3,), 1, 3)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    block = [max(1, min(c, n)) for c, n in zip(first, shape, strict=True)]
    size = math.prod(block) * itemsize
    for j in reversed(range(len(shape))):
        both = min(math.lcm(first[j], second[j]), max(1, shape[j]))
        if both > block[j] and size // block[j] * both <= limit:
            size = size // block[j] * both
            block[j] = both
    return tiles(shape, block, itemsize, limit=limit, split=size > limit)


def runs(
    shape: tuple[int, ...], itemsize: int, limit: int, axes: tuple[int, ...] | None = None
) -> Iterator[Box]:
    """Yield consecutive boxes that tile a shape, each a run of elements in an order of axes.

    Parameters
    ----------
    shape : tuple of int
    itemsize, limit : int
        Bytes of an element, and maximum bytes of a box.
    axes : tuple of int, optional
        From the slowest to the fastest; None: C order.

    Examples
    --------
    >>> list(runs((2, 4), 1, 2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 4, None))]
    >>> list(runs((2, 4), 1, 4, (1, 0)))
    [(slice(0, 2, None), slice(0, 2, None)), (slice(0, 2, None), slice(2, 4, None))]
    """
    if axes is not None:
        place = inverse(axes)
        for box in runs(tuple(shape[j] for j in axes), itemsize, limit):
            yield tuple(box[j] for j in place)
        return
    # Each box has the axes after j whole, a part of axis j, and one index of those before it.
    size, j = itemsize, len(shape)
    while j > 0 and size * shape[j - 1] <= limit:
        j -= 1
        size *= shape[j]
    if 0 in shape:
        return
    whole = tuple(slice(0, n) for n in shape[j:])
    if j == 0:
        yield whole
        return
    step = max(1, limit // size)
    for outer_index in np.ndindex(*shape[: j - 1]):
        outer = tuple(slice(i, i + 1) for i in outer_index)
        for low in range(0, shape[j - 1], step):
            yield (*outer, slice(low, min(low + step, shape[j - 1])), *whole)


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the inverse of an order of axes.

    Examples
    --------
    >>> inverse((2, 0, 1))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _boxes(
    shape: tuple[int, ...], ours: tuple[int, ...], itemsize: int, end: Source | Sink
) -> Iterator[Box]:
    """Yield the boxes of a transfer from or to a file, within the memory limit."""
    theirs = end.description.chunks if isinstance(end, Source) else end.chunks
    is_mapped = isinstance(end, Source) and end.mapped
    most = max(1, config.max_memory // 4)
    limit = _MAPPED_BYTES if is_mapped else min(_STEP_BYTES, most)
    if end.sequential is not None:
        # A run across the array's own order touches one cache line of each row, and again for every
        # run along the row: let a box have whole cache lines.
        across = math.prod(n for j, n in enumerate(shape) if j != end.sequential[0]) * _LINE_BYTES
        if end.sequential[:1] == (len(shape) - 1,):
            limit = max(limit, min(across, most))
        return runs(shape, itemsize, limit, end.sequential)
    if theirs is None:
        return boxes_of(shape, ours, ours, itemsize, limit)
    theirs = tuple(max(1, c) for c in theirs)
    piece = math.prod(min(c, n) for c, n in zip(theirs, shape, strict=True)) * itemsize
    if end.single and piece <= max(limit, most):
        return tiles(shape, theirs, itemsize, limit=piece)
    # Reading a piece twice would decompress it twice, so prefer more memory.
    return boxes_of(shape, theirs, ours, itemsize, max(limit, min(piece, most)))


def _steps(boxes: Iterable[Box], itemsize: int) -> Iterator[tuple[list[Box], int]]:
    """Yield groups of boxes worth a call of a thread, and the number of elements before them."""
    some: list[Box] = []
    first = stop = 0
    for box in boxes:
        some.append(box)
        stop += math.prod(b.stop - b.start for b in box)
        if (stop - first) * itemsize >= _STEP_BYTES:
            yield some, first
            some, first = [], stop
    if some:
        yield some, first


def cut(box: Box, piece: tuple[int, ...]) -> Iterator[Box]:
    """Yield the parts of a box in single pieces."""
    return product(
        *(
            [slice(max(low, b.start), min(low + n, b.stop)) for low in range(first, b.stop, n)]
            for b, n in zip(box, piece, strict=True)
            for first in (b.start // n * n,)
        )
    )


def has_likeness(values: NDArray[Any], chunks: tuple[int, ...], value: NDArray[Any]) -> bool:
    """Tell whether a chunk equals a value but has other bytes: other NaNs, or signed complex zeros.

    Libraries that omit chunks of the fill value would omit such a chunk.

    Examples
    --------
    >>> x = np.array([0x7FF0000000000002] * 2, "u8").view("f8")
    >>> has_likeness(x, (2,), np.array(np.nan)), has_likeness(x, (2,), np.array(0.0))
    (True, False)
    """
    if value.dtype.kind != "c" and (value.dtype.kind != "f" or value == value):
        return False
    parts = (part_of(values, box) for box in tiles(values.shape, chunks, 1, limit=1, split=False))
    return any(_equals(part, value) and not is_all(part, value) for part in parts)


def _equals(elements: NDArray[Any], value: NDArray[Any]) -> bool:
    """Tell whether all elements equal a value; NaNs equal each other."""
    if value == value:
        return elements.flat[0] == value and bool((elements == value).all())
    return elements.flat[0] != elements.flat[0] and bool((elements != elements).all())


def is_all(elements: NDArray[Any], value: NDArray[Any]) -> bool:
    """Tell whether all elements have the bytes of a value."""
    own = value.tobytes()
    first = elements[(slice(0, 1),) * elements.ndim]
    return first.tobytes() == own and elements.tobytes() == own * elements.size


def _threads(given: Description, most: int) -> int:
    """Return how many threads help the calling thread with a transfer."""
    if config.threads == 1 or given.nbytes <= _STEP_BYTES:
        return 0
    bounded: int = max(1, config.max_memory // (4 * _STEP_BYTES))
    return min(most, bounded)


# -- into an array -------------------------------------------------------------------------------


def load(
    source: Source,
    path: Any = None,
    chunks: Any = None,
    *,
    mask_and_scale: bool = False,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    guard: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
    what: str = "import",
    file: Any = None,
    kind: type[ExtArray] = ExtArray,
    claims: Claims | None = None,
) -> ExtArray:
    """Make an array of the elements of a source.

    Parameters
    ----------
    source : Source
    path : str, PathLike or None
        Path of the pair of files; None: in memory.
    chunks : int or sequence of int, optional
        None: those of the source, unless they are very small; otherwise as for `create`.
    mask_and_scale : bool
        Unpack packed numbers, with NaN for missing ones.
    overwrite : bool
    sparse : bool, optional
        Leave holes for zeros; None: if the file or the source has holes.
    compression : str, int, Codec or None
        As for `create`.
    significant_bits : int, optional
        As for `from_array`.
    progress : bool or callable
    guard : callable
        Returns a context manager for each read, which translates errors of the source's library.
    what : str
        Description for progress and warnings; see `line_of`.
    file : optional
        The file as given by the user, such as a path.
    kind : type
        Class of the array.
    claims : Claims, optional
        Claims of the file, whose declared size is not to be trusted.

    Returns
    -------
    ExtArray

    Raises
    ------
    ExistsError, DTypeError, ChunksError, StorageError, ReserveError
        As for `create`.
    ResultError
        A MemoryError: the array would be far larger than the file, and larger than the settings
        allow.

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file.
    """
    given = source.description
    shape, stored = check_shape(given.shape), check_dtype(given.dtype)
    progress = check_progress(progress)
    lost = source.lost
    packing = given.packing if check_flag(mask_and_scale, "mask_and_scale") else None
    dtype, fill, attrs = stored, given.fill_value, attrs_for(given, lost)
    if packing is not None:
        dtype, fill = packing.values, packing.fill(given.fill_value, stored)
        attrs = packing.unpacked_attrs(attrs, stored)
    theirs = None if given.chunks is None else tuple(given.chunks)
    is_large = theirs is not None and math.prod(theirs) * dtype.itemsize >= _LEAST_CHUNK
    if chunks is None and is_large:
        chunks = theirs
    extents = check_chunks(chunks, shape, dtype.itemsize)
    itemsize = stored.itemsize + (dtype.itemsize if packing is not None else 0)
    holes = _sparse(source, sparse, file)

    def get(box: Box) -> NDArray[Any]:
        with guard():
            values = source.read(box)
            return values if packing is None else packing.unpack(values, box)

    left = _Left(source.is_hole, get, dtype, fill_bytes(fill, dtype))
    if claims is not None and not source.mapped:
        size = math.prod(shape) * dtype.itemsize

        def made() -> int:
            boxes = _boxes(shape, extents, itemsize, source)
            return left.made(boxes, size) if holes is True else size

        claims.add(size, source.stored, made)
    with filled(
        path,
        shape,
        dtype,
        kind,
        chunks=extents,
        fill_value=fill,
        overwrite=check_flag(overwrite, "overwrite"),
        sparse=holes,
        compression=compression,
        attrs=attrs,
        dims=given.dims,
    ) as new:
        _tell(lost, f"{what}: the array does not have ")
        if packing is not None and source.mapped:  # unpacked elements are in memory
            source = replace(source, mapped=False, parallel=True)
        passing = Passing()

        write = writer(new, rounding_of(significant_bits, dtype, new.fill_value, attrs))

        def put(box: Box, values: NDArray[Any]) -> int:
            write(new, box, values)
            return stored.itemsize * math.prod(values.shape)

        def move(box: Box) -> int:
            return _size(box) * stored.itemsize if left.holds(box) else put(box, get(box))

        piece = source.piece
        if piece is not None and any(
            p % c and p < n for p, c, n in zip(piece, extents, shape, strict=True)
        ):
            piece = None  # chunks would be written in parts

        def both(boxes: Iterable[Box]) -> int:
            parts = boxes if piece is None else itertools.chain(*(cut(b, piece) for b in boxes))
            return sum(map(move, parts))

        def count(ended: list[int]) -> None:
            for nbytes in ended:
                line.add(nbytes)
                passing.add(nbytes)

        is_free = source.mapped or source.parallel
        pool = ThreadPool(_threads(given, config.threads if is_free or source.single else 1))
        with Progress(max(1, given.nbytes), what, progress) as line, pool:
            boxes = _boxes(shape, extents, itemsize, source)
            if source.payloads is not None and packing is None and significant_bits is None:
                done = take_over(new, source.payloads, left.holds, guard, line.add)
                boxes = boxes if done is None else left_of(boxes, extents, done)
            if is_free:
                for some, _ in _steps(boxes, itemsize):
                    count(pool.call(partial(both, some)))
            else:
                for box in boxes:
                    if left.holds(box):
                        count([_size(box) * stored.itemsize])
                    else:
                        count(pool.call(partial(put, box, get(box))))
            count(pool.rest())
    return new


def _sparse(source: Source, asked: bool | None, file: Any) -> Any:
    """Return the option `sparse` of `create` for the array of a source."""
    if asked is not None:
        return check_flag(asked, "sparse")
    has_holes = source.sparse
    if source.mapped and isinstance(file, (str, os.PathLike)):
        with contextlib.suppress(OSError):
            about = os.stat(file)
            has_holes = has_holes or disk_bytes(about, os.fspath(file)) < about.st_size
    return has_holes or NOT_GIVEN


class _Left:
    """Finds holes of a source whose elements a new array already has.

    Parameters
    ----------
    is_hole : callable or None
        As in `Source`.
    get : callable
        Returns the elements of a box in the form of the array.
    dtype : dtype
    fill : bytes
        The fill value of the array.
    """

    def __init__(
        self,
        is_hole: Callable[[Box], bool] | None,
        get: Callable[[Box], NDArray[Any]],
        dtype: np.dtype[Any],
        fill: bytes,
    ) -> None:
        self._is_hole, self._get, self._dtype, self._fill = is_hole, get, dtype, fill
        self._is_known: bool | None = None  # whether the array already has these elements

    def holds(self, box: Box) -> bool:
        """Tell whether a box need not be copied."""
        if self._is_known is False or self._is_hole is None or not self._is_hole(box):
            return False
        if self._is_known is None:
            one = self._get(tuple(slice(s.start, s.start + 1) for s in box))
            with np.errstate(all="ignore"):
                self._is_known = one.astype(self._dtype).tobytes() == self._fill
        return self._is_known

    def made(self, boxes: Iterable[Box], nbytes: int) -> int:
        """Return the bytes that a sparse array takes; holes count a little, for their time.

        Parameters
        ----------
        boxes : iterable
            Boxes of all elements, as they would be copied.
        nbytes : int
            Bytes of all elements.
        """
        # Other fill values are written, and take space.
        if any(self._fill) or _of_hole(nbytes) > config.max_result:
            return nbytes
        sizes = ((_size(box) * self._dtype.itemsize, self.holds(box)) for box in boxes)
        return sum(_of_hole(size) if is_left else size for size, is_left in sizes)


def _of_hole(nbytes: int) -> int:
    """Return how many bytes are copied in the time that it takes to skip a hole."""
    return nbytes >> 10


def _size(box: Box) -> int:
    """Return the number of elements of a box."""
    size: int = math.prod(s.stop - s.start for s in box)
    return size


# -- out of an array -----------------------------------------------------------------------------


def save(
    a: Any,
    open_sink: Callable[[Description], AbstractContextManager[Sink]],
    selection: Any = None,
    *,
    progress: Reported = True,
    guard: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
    what: str = "export",
) -> None:
    """Write an array or a selection of it to a sink.

    Parameters
    ----------
    a : ExtArray or LazyView
    open_sink : callable
        Takes the description, and returns a context manager that yields the sink.  The file is
        published if the block succeeds, and removed if it fails.
    selection : index expression, optional
    progress : bool or callable
    guard : callable
        Returns a context manager for each write, which translates errors of the sink's library.
    what : str

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array.
    """
    progress = check_progress(progress)
    lost: list[str] = []
    view, given = described(a, selection, lost)
    itemsize = given.dtype.itemsize
    with open_sink(given) as sink:
        _tell([*lost, *sink.lost], f"{what}: the file does not have ")
        told = len(sink.lost)
        boxes = _boxes(given.shape, tuple(view.chunks), itemsize, sink)
        passing = Passing()
        spare: list[NDArray[Any]] = []  # reused, since fresh memory costs more than the copy

        def take(box: Box) -> tuple[Any, ...]:
            extents = tuple(b.stop - b.start for b in box)
            size = math.prod(extents)
            try:
                buffer = spare.pop()
            except IndexError:
                buffer = np.empty(0, given.dtype)
            if size > len(buffer):
                buffer = np.empty(size, given.dtype)
            values = _shaped(buffer[:size], extents, sink.sequential)
            view.read((*box, ...), out=values)
            return box, values, buffer

        def put(box: Box, values: NDArray[Any], buffer: NDArray[Any], *place: int) -> int:
            with guard():
                sink.write(box, values, *place)
            spare.append(buffer)
            return values.nbytes

        def both(boxes: list[Box], first: int) -> int:
            start = first
            for box in boxes:
                place = [] if sink.sequential is None else [first]
                first += put(*take(box), *place) // itemsize
            return (first - start) * itemsize

        def count(ended: list[Any]) -> None:
            for each in ended:
                nbytes = each if sink.parallel else put(*each)
                line.add(nbytes)
                passing.add(nbytes)

        pool = ThreadPool(_threads(given, config.threads if sink.parallel else 1))
        with Progress(max(1, given.nbytes), what, progress) as line, pool:
            if sink.payloads is not None and selection is None and isinstance(a, ExtArray):
                done = give_back(a, given, sink.payloads, guard, line.add)
                boxes = boxes if done is None else left_of(boxes, a.chunks, done)
            if sink.parallel:
                for some, first in _steps(boxes, itemsize):
                    count(pool.call(partial(both, some, first)))
            else:
                for box in boxes:
                    count(pool.call(partial(take, box)))
            count(pool.rest())
    _tell(sink.lost[told:], f"{what}: the file does not have ")  # noticed during the write


def _shaped(
    elements: NDArray[Any], extents: tuple[int, ...], axes: tuple[int, ...] | None
) -> NDArray[Any]:
    """Return a view of contiguous elements in an order of axes."""
    if axes is None:
        return elements.reshape(extents)
    return elements.reshape([extents[j] for j in axes]).transpose(inverse(axes))


def line_of(way: str, title: str, file: Any, name: Any = None) -> str:
    """Describe a transfer and its array.

    Parameters
    ----------
    way : str
        "from", or "to".
    title : str
        Title of the format.
    file, name : object
        As given by the user; without a name, the file is named.

    Examples
    --------
    >>> line_of("from", "HDF5", "scene.h5", "run/level"), line_of("to", ".npy", "level.npy")
    ("from HDF5, 'run/level'", "to .npy, 'level.npy'")
    """
    if name is None or name == "":
        name = getattr(file, "name", None)  # name of an open dataset
        with contextlib.suppress(TypeError):
            name = os.fsdecode(file)
    return f"{way} {title}" if name is None else f"{way} {title}, {name!r}"


def _tell(lost: list[str], words: str) -> None:
    """Warn of all losses at once (I13)."""
    if lost:
        warn(words + "; ".join(lost), LossyWarning)


# -- formats ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Format:
    """A file format, with the functions that read and write its arrays.

    Parameters
    ----------
    name : str
        Identifier, such as ``"hdf5"``.
    title : str
        Title for messages, such as ``"HDF5"``.
    suffixes : tuple of str
        Suffixes of its files, with the dot, in lower case.
    source : callable
        ``source(file, name, **options)`` returns a context manager that yields the `Source` of the
        named array in the file.
    sink : callable, optional
        ``sink(file, name, description, overwrite=..., **options)`` returns a context manager that
        yields the `Sink`; None: the format can only be read.
    part : str
        What a name refers to, such as ``"a dataset"``; empty: a file has a single unnamed array.
    extra : str, optional
        The extra of extarray that installs the library of the format; None if it needs none.
    names : callable, optional
        ``names(file)`` returns the names of the arrays in a file.
    edit : callable, optional
        ``edit(file, name, old, new, moved, replace)`` returns a context manager that yields the
        `Edit` of the named array, and refuses one whose shape is not `old`.  The array has the
        shape `new` if the block succeeds, and is unchanged if it fails.  `moved` is the shift of
        the first element along each axis.  If something in the file, or the user, would keep the
        old version, an array is only recreated with `replace`.  None: arrays cannot be changed.
    load_group : callable, optional
        ``load_group(file, None, path=..., mask_and_scale=..., overwrite=..., **options)`` makes a
        group of a whole file, in the folder `path`.  None: the format has no groups.
    save_group : callable, optional
        ``save_group(group, file, None, overwrite=..., **options)`` writes a group to a file.
    view : callable, optional
        ``view(a)`` returns the view of an array that is written.  None: the array.
    suits : callable, optional
        ``suits(file, attrs)`` tells whether a file with a suffix that other formats share is of
        this one, or is to be for an array with these attributes, if they are not None.  None: all
        are.
    outline : callable, optional
        ``outline(file)`` returns a context manager that yields the `WholeSource` of the file: its
        groups with their attributes, and its arrays.  None: a file has no groups.
    code : callable, optional
        ``code(file, name)`` returns lines of Python that open an array of numbers as ``a`` with the
        library of the format, without reading it.  None: the library does not do that.

    Examples
    --------
    >>> import extarray as xa
    >>> xa.file_formats()["npy"].suffixes
    ('.npy',)
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    source: Callable[..., AbstractContextManager[Source]] = field(repr=False)
    sink: Callable[..., AbstractContextManager[Sink]] | None = field(default=None, repr=False)
    part: str = ""
    extra: str | None = None
    names: Callable[[Any], list[str]] | None = field(default=None, repr=False)
    edit: Callable[..., AbstractContextManager[Edit]] | None = field(default=None, repr=False)
    load_group: Callable[..., Any] | None = field(default=None, repr=False)
    save_group: Callable[..., Any] | None = field(default=None, repr=False)
    suits: Callable[[Any, Mapping[str, Any] | None], bool] | None = field(default=None, repr=False)
    view: Callable[[Any], Any] | None = field(default=None, repr=False)
    outline: Callable[[Any], AbstractContextManager[Any]] | None = field(default=None, repr=False)
    code: Callable[[str, Any], list[str]] | None = field(default=None, repr=False)

    def load(
        self,
        file: Any,
        name: Any = None,
        *,
        path: Any = None,
        chunks: Any = None,
        mask_and_scale: bool = False,
        overwrite: bool = False,
        sparse: bool | None = None,
        compression: Any = None,
        significant_bits: int | None = None,
        progress: Reported = True,
        max_result: int | str | None = None,
        **options: Any,
    ) -> ExtArray:
        """Make an array of one array in a file.

        Parameters
        ----------
        file : str or PathLike
            For some formats, also an object that their library opens.
        name : str, optional
            Name of the array in the file.
        path : str, PathLike or None
            Path of the pair of files; None: in memory.
        chunks : int or sequence of int, optional
            None: those of the file, unless they are very small; otherwise as for `create`.
        mask_and_scale : bool
            Unpack packed numbers, with NaN for missing ones.
        overwrite : bool
            Replace an existing pair.
        sparse : bool, optional
            Leave holes for zeros, as for `create`; None: if parts of the file were never written.
        compression : str, int, Codec or None
            Codec of the new array, as for `create`; all chunks are frozen at the end.
        significant_bits : int, optional
            Round floats to so many bits of the mantissa, as for `from_array`.  None: take them as
            they are.
        progress : bool or callable
            Show progress on a terminal or in a notebook; or a function that is called with the
            bytes done and the total bytes.
        max_result : int or str, optional
            Most bytes of the array, however small the file is; None: ``config.max_result``.
        **options
            Options of the format.

        Returns
        -------
        ExtArray
        """
        guard = partial(of_library, file, self.title)
        with allowed(max_result), self.source(file, name, **options) as source:
            return load(
                source,
                path,
                chunks,
                mask_and_scale=mask_and_scale,
                overwrite=overwrite,
                sparse=sparse,
                compression=compression,
                significant_bits=significant_bits,
                progress=progress,
                guard=guard,
                what=line_of("from", self.title, file, name),
                file=file,
                claims=Claims(file),
            )

    def save(
        self,
        a: Any,
        file: Any,
        name: Any = None,
        *,
        selection: Any = None,
        overwrite: bool = False,
        progress: Reported = True,
        **options: Any,
    ) -> None:
        """Write an array or a selection of it to a file.

        Parameters
        ----------
        a : ExtArray or LazyView
        file : str or PathLike
        name : str, optional
            Name of the array in the file.
        selection : index expression, optional
            Selection to write; None: everything.
        overwrite : bool
            Replace the existing file, or the array in it if it can have several.
        progress : bool or callable
            Show progress on a terminal or in a notebook; or a function that is called with the
            bytes done and the total bytes.
        **options
            Options of the format.
        """
        if self.sink is None:
            raise ArgumentError(f"{self.title} can only be read, not written")
        a = a if self.view is None else self.view(a)
        guard = partial(of_library, file, self.title)
        sink = partial(self.sink, file, name, overwrite=overwrite, **options)
        what = line_of("to", self.title, file, name)
        save(a, sink, selection, progress=progress, guard=guard, what=what)
