"""Series of pages in TIFF files, read through tifffile: pages, strips and tiles, in any thread."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import check_flag
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExtArrayError,
    FormatError,
)
from extarray.common.extras import missing, require
from extarray.format.archive import check_member_name
from extarray.formats.description import Description
from extarray.formats.elements import mapped, part_of
from extarray.formats.files import file_name, of_library, unknown_part
from extarray.formats.tiff_parts import TITLE, facts_of, names_of_axes
from extarray.formats.transfer import Source
from extarray.storage.filesystem import File

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

__all__ = ["codec_error", "names_of_series", "source_of_series"]

#: Bytes of a chunk for pages that are stored in one piece, and of strips to decode at once.
_PAGE_BYTES, _STRIP_BYTES = 1 << 23, 1 << 20
#: Compressions that have tables for all segments of a page.
_JPEG = frozenset([6, 7, 34892, 33007])
#: Words in the errors that tifffile logs about files that it cannot read as they were written.
_DAMAGE = ("corrupted", "invalid page", "offset", "missing", "incorrect", "truncated")


class _Heard(logging.Handler):
    """Hears what tifffile logs in this thread instead of raising an error."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._thread = threading.get_ident()
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        if record.thread == self._thread:
            kept = self.errors if record.levelno >= logging.ERROR else self.warnings
            kept.append(" ".join(record.getMessage().split()))

    def __enter__(self) -> Self:
        logging.getLogger("tifffile").addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger("tifffile").removeHandler(self)

    def check(self, where: str, lost: list[str]) -> None:
        """Raise the error of a damaged file; add other messages to what is lost."""
        for each in self.errors:
            if any(word in each for word in _DAMAGE):
                raise FormatError(f"{where!r} is damaged, or not complete: {each}")
        lost.extend(f"facts of which tifffile says: {each}" for each in self.errors)
        said = (each for each in self.warnings if "zeroed" in each or "failed" in each)
        lost.extend(f"all planes; tifffile says: {each}" for each in said)


@contextlib.contextmanager
def _opened(file: Any, lost: list[str]) -> Iterator[tuple[Any, str]]:
    """Yield an open file of tifffile whose series are known, and its name."""
    tifffile: Any = require("tifffile", "tiff", TITLE)
    where = file_name(file, TITLE)
    with contextlib.ExitStack() as stack:
        with of_library(where, TITLE), _Heard() as heard:
            os.stat(where)  # raises the error of the system
            tiff = stack.enter_context(tifffile.TiffFile(where))
            if not tiff.series:
                raise FormatError(f"{where!r} has no images")
            heard.check(where, lost)
        yield tiff, where


def _labels(tiff: Any) -> list[str]:
    """Return the names of the series of a file, or the numbers of unnamed ones."""
    names = [each.name for each in tiff.series]
    return [
        name if names.count(name) == 1 and _is_member_name(name) else str(j)
        for j, name in enumerate(names)
    ]


def _is_member_name(name: str) -> bool:
    """Tell whether an array in a group may have a name."""
    return bool(name) and "/" not in name and check_member_name(f"{name}/") is None


def names_of_series(file: Any) -> list[str]:
    """Return the names of the series in a file."""
    with _opened(file, []) as (tiff, where), of_library(where, TITLE):
        return _labels(tiff)


@contextlib.contextmanager
def source_of_series(
    file: Any, name: Any = None, *, level: int = 0, squeeze: bool = True
) -> Iterator[Source]:
    """Open a series for reading."""
    check_flag(squeeze, "squeeze")
    lost: list[str] = []
    with contextlib.ExitStack() as stack:
        tiff, where = stack.enter_context(_opened(file, lost))
        with of_library(where, TITLE), _Heard() as heard:
            number = _number(tiff, where, name)
            source = _source_of(tiff, where, number, level, squeeze, lost, stack)
            heard.check(where, lost)
        yield source


def _number(tiff: Any, where: str, name: Any) -> int:
    """Return the number of a series."""
    labels = _labels(tiff)
    if name is None and len(labels) == 1:
        return 0
    numbers: dict[Any, int] = {str(j): j for j in range(len(labels))}
    numbers |= {label: j for j, label in enumerate(labels)} | {j: j for j in range(len(labels))}
    if isinstance(name, bool) or name not in numbers:
        raise unknown_part(where, name, "a series", labels)
    return numbers[name]


def _source_of(
    tiff: Any,
    where: str,
    number: int,
    level: int,
    squeeze: bool,
    lost: list[str],
    stack: contextlib.ExitStack,
) -> Source:
    """Return a source for a series, which is open until the stack is closed."""
    levels = tiff.series[number].levels
    if isinstance(level, bool) or not isinstance(level, (int, np.integer)):
        raise ArgumentTypeError(f"the level must be an int, not {level!r}")
    if not 0 <= level < len(levels):
        shapes = ", ".join(str(each.shape) for each in levels)
        raise ArgumentError(f"{where!r} has {len(levels)} levels, of shapes {shapes}, not {level}")
    series = levels[level]
    if hasattr(series, "get_axes"):  # tifffile before 2026.5
        kept = None if squeeze else False
        axes, sizes = series.get_axes(kept), series.get_shape(kept)
    else:
        series = series if squeeze else tiff.series(squeeze=False)[number].levels[level]
        axes, sizes = series.axes, series.shape
    shape = tuple(map(int, sizes))
    page = series.keyframe
    if axes.endswith("S") and shape[-1] == 1 and "S" not in page.axes:  # implied by OME and ImageJ
        axes, shape = axes[:-1], shape[:-1]
    if page.dtype is None:
        raise DTypeError(
            f"{where!r} has elements of {page.bitspersample} bits and format {page.sampleformat}, "
            "which no array has"
        )
    dims = names_of_axes(axes)
    facts = facts_of(tiff, number, dims, shape, lost)
    given = Description(
        shape, np.dtype(series.dtype), attrs=facts.attrs, dims=dims, coords=facts.coords
    )
    if not getattr(series, "transform", None):
        stored = given.dtype.newbyteorder(tiff.byteorder)
        place = None if series.is_multifile else series.dataoffset
        if place is not None:
            given.chunks = _chunks_of_pages(page, shape)
            elements = mapped(where, stored, shape, place)
            plain = partial(part_of, elements)
            if stored == given.dtype:
                return Source(given, plain, mapped=True, lost=lost)

            def convert(values: NDArray[Any]) -> NDArray[Any]:
                return values.astype(given.dtype)

            return Source(
                given,
                lambda box: convert(plain(box)),
                parallel=True,
                lost=lost,
                plain=plain,
                convert=convert,
            )
        if shape[len(shape) - len(page.shape) :] == tuple(page.shape):
            pages = stack.enter_context(contextlib.closing(_Pages(series, where)))
            return _source_of_pages(pages, given, lost)
    if given.nbytes > config.max_memory // 2:
        raise FormatError(
            f"{where!r} has {given.nbytes} bytes of elements that do not lie in pages as its axes "
            "do, too many for config.max_memory"
        )
    whole = series.asarray().reshape(shape)
    return Source(given, lambda box: part_of(whole, box), parallel=True, lost=lost)


def _chunks_of_pages(page: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return chunks of one page each; None if pages are large, or not parts of the shape."""
    n = len(page.shape)
    if page.nbytes > _PAGE_BYTES or tuple(page.shape) != shape[len(shape) - n :]:
        return None
    return (1,) * (len(shape) - n) + tuple(page.shape)


def _source_of_pages(pages: _Pages, given: Description, lost: list[str]) -> Source:
    """Return a source that reads pages, or their strips and tiles."""
    given.chunks = pages.chunks(given.shape)
    n = len(pages.lead(given.shape))
    without = sum(page is None for page in pages.pages)
    if without:
        lost.append(f"{without} of its {len(pages.pages)} planes, which no file has: they are zero")

    def numbers(box: Box) -> Iterator[tuple[tuple[int, ...], int]]:
        """Return the pages of a box: their places in it, and their numbers."""
        lead = given.shape[:n]
        for index in itertools.product(*(range(s.start, s.stop) for s in box[:n])):
            place = tuple(j - s.start for j, s in zip(index, box[:n], strict=True))
            yield place, int(np.ravel_multi_index(index, lead)) if n else 0

    def read(box: Box) -> NDArray[Any]:
        values = np.empty([s.stop - s.start for s in box], given.dtype)
        for place, number in numbers(box):
            pages.read(number, box[n:], values[place])
        return values

    def is_hole(box: Box) -> bool:
        return all(pages.is_hole(number, box[n:]) for _, number in numbers(box))

    is_sparse = pages.is_sparse

    return Source(
        given,
        read,
        parallel=True,
        lost=lost,
        sparse=is_sparse,
        is_hole=is_hole if is_sparse else None,
        stored=pages.stored,
    )


class _Segments:
    """The strips or tiles of pages that are stored alike.

    Parameters
    ----------
    key : tifffile.TiffPage
    where : str
        Name of the file, for errors.
    """

    def __init__(self, key: Any, where: str) -> None:
        self.key, self.is_final = key, bool(key.is_final)
        if not self.is_final:
            _check_decoder(key, where)
        # Places of the axes of a page among those of tifffile's segments: samples in planes, depth,
        # rows, columns, samples of pixels.
        known = {"Z": 1, "Y": 2, "X": 3, "S": 0 if key.axes.startswith("S") else 4}
        self.axes = [known[letter] for letter in key.axes]
        depth, rows, columns = key.shaped[1:4]
        tiles = (
            (max(1, key.tiledepth), key.tilelength, key.tilewidth)
            if key.is_tiled
            else (1, min(key.rowsperstrip, rows), columns)
        )
        self.extents = (1, *tiles, key.shaped[4])
        whole = (key.shaped[0], depth, rows, columns)
        self._grid = [-(-n // c) for n, c in zip(whole, self.extents[:4], strict=True)]

    def whole(self, box: Box) -> list[slice]:
        """Return a box of a page among the axes of segments."""
        result = [slice(0, 1)] * 5
        for axis, part in zip(self.axes, box, strict=True):
            result[axis] = part
        return result

    def of_box(self, whole: Sequence[slice]) -> Iterator[int]:
        """Yield the numbers of the segments of a box, whose axes are those of segments."""
        runs = [
            range(s.start // c, -(-s.stop // c))
            for s, c in zip(whole[:4], self.extents[:4], strict=True)
        ]
        for index in itertools.product(*runs):
            yield int(np.ravel_multi_index(index, self._grid))


class _Pages:
    """Pages of a series, whose parts any thread may read.

    Parameters
    ----------
    series : tifffile.TiffPageSeries
    where : str
    """

    def __init__(self, series: Any, where: str) -> None:
        self._where, self.pages = where, list(series)
        self._dtype, self._shape = np.dtype(series.dtype), tuple(series.keyframe.shape)
        wanted = math.prod(series.shape) // max(1, math.prod(self._shape))
        if len(self.pages) != wanted:
            raise FormatError(f"{where!r} has {len(self.pages)} pages, but its axes need {wanted}")
        self._first = _Segments(series.keyframe, where)
        self._kinds = {id(series.keyframe): self._first}
        for page in self.pages:  # files of one series may be compressed differently
            if page is not None and id(page.keyframe) not in self._kinds:
                self._kinds[id(page.keyframe)] = _Segments(page.keyframe, where)
        self._own = series.parent
        self._paths = sorted({self._path(page) for page in self.pages if page is not None})
        self._file = File.open(where, os.O_RDONLY) if self._paths == [where] else None

    def _path(self, page: Any) -> str:
        """Return the path of the file of a page."""
        is_own = page.parent is self._own
        return self._where if is_own else os.fspath(page.parent.filehandle.path)

    def lead(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of the axes that count pages."""
        return shape[: len(shape) - len(self._shape)]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    @property
    def is_sparse(self) -> bool:
        """True if no file has some of the pages, strips or tiles, which are zero then."""
        return any(
            page is None or (0 in page.databytecounts and not page.keyframe.nodata)
            for page in self.pages
        )

    def is_hole(self, number: int, box: Box) -> bool:
        """Tell whether no file has any of a box of a page."""
        page = self.pages[number]
        if page is None:
            return True
        kind = self._kinds[id(page.keyframe)]
        counts = page.databytecounts
        if kind.is_final or kind.key.nodata or 0 not in counts:
            return False
        segments = kind.of_box(kind.whole(box))
        return all(number < len(counts) and not counts[number] for number in segments)

    def stored(self) -> int:
        """Return the bytes of all files."""
        return sum(os.stat(path).st_size for path in self._paths)

    def chunks(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the chunks of a series: tiles, strips, or pages."""
        first = self._first
        if first.is_final:
            return _chunks_of_pages(first.key, shape)
        extents = list(first.extents)
        if not first.key.is_tiled:
            strip = math.prod(extents) * self._dtype.itemsize
            rows = extents[2] * max(1, _STRIP_BYTES // max(1, strip))
            extents[2] = min(rows, first.key.shaped[2])
        return (1,) * len(self.lead(shape)) + tuple(extents[axis] for axis in first.axes)

    def read(self, number: int, box: Box, out: NDArray[Any]) -> None:
        """Read a box of a page."""
        page = self.pages[number]
        if page is None:
            out[...] = 0
            return
        kind = self._kinds[id(page.keyframe)]
        if not kind.is_final:
            self._decode(page, kind, box, out)
            return
        place = page.dataoffsets[0] if len(page.dataoffsets) else 0
        if not place:
            out[...] = kind.key.nodata
            return
        stored = self._dtype.newbyteorder(page.parent.byteorder)
        out[...] = mapped(self._path(page), stored, self._shape, place)[box]

    def _decode(self, page: Any, kind: _Segments, box: Box, out: NDArray[Any]) -> None:
        """Decode the strips or tiles of a box of a page."""
        whole = kind.whole(box)
        target = out.reshape([s.stop - s.start for s in whole])
        for number in kind.of_box(whole):
            segment, first, extents = self._segment_of(page, kind.key, number)
            both = [
                slice(max(s.start, low), min(s.stop, low + n))
                for s, low, n in zip(whole, first, (1, *extents), strict=True)
            ]
            if any(s.start >= s.stop for s in both):
                continue
            inner = tuple(
                slice(s.start - w.start, s.stop - w.start) for s, w in zip(both, whole, strict=True)
            )
            if segment is None:
                target[inner] = kind.key.nodata
            else:
                own = (slice(s.start - n, s.stop - n) for s, n in zip(both, first, strict=True))
                target[inner] = segment[tuple(own)[1:]]

    def _segment_of(self, page: Any, key: Any, number: int) -> tuple[Any, Any, Any]:
        """Return a decoded strip or tile, its place, and its shape."""
        if number >= len(page.dataoffsets) or number >= len(page.databytecounts):
            raise FormatError(f"{self._path(page)!r} has no strip or tile {number} of a page")
        place, size = page.dataoffsets[number], page.databytecounts[number]
        data = self._bytes(page, place, size) if place and size else None
        tables = (
            {"jpegtables": page.jpegtables, "jpegheader": key.jpegheader}
            if key.compression in _JPEG
            else {}
        )
        found: tuple[Any, Any, Any] = key.decode(data, number, **tables)
        return found

    def _bytes(self, page: Any, place: int, size: int) -> bytes:
        """Return bytes of the file of a page."""
        file = self._file or File.open(self._path(page), os.O_RDONLY)
        try:
            data = file.read(size, place)
        finally:
            if file is not self._file:
                file.close()
        if len(data) < size:
            raise FormatError(
                f"{self._path(page)!r} ends within its elements: it has {len(data)} of {size} "
                f"bytes at {place}"
            )
        return bytes(data)


def _check_decoder(page: Any, where: str) -> None:
    """Refuse pages that no installed library decodes."""
    try:
        page.decode(None, 0)
    except (ValueError, NotImplementedError) as error:
        raise codec_error(error) or FormatError(f"{where!r} is not decoded: {error}") from error


def codec_error(error: BaseException) -> ExtArrayError | None:
    """Return the error for a missing package that tifffile asks for in a message."""
    return missing("imagecodecs", "tiff", str(error)) if "imagecodecs" in str(error) else None
