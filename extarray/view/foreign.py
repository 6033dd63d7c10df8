"""Files of other formats on show: opened in place, and read piece by piece.

The formats' own readers read them, so each format that can be imported can be looked at.  A file is
opened anew when its date or size changes: so growth shows, and a file that is written again.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import itertools
import math
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import extarray
from extarray.array.coordinates import Coordinate, attached
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ClosedError,
    ExtArrayError,
    FormatError,
    MissingError,
)
from extarray.common.formatting import format_bytes
from extarray.common.limits import limits
from extarray.formats.description import Description
from extarray.formats.elements import part_of
from extarray.formats.files import of_library, without_lock
from extarray.formats.registry import file_formats, format_of
from extarray.formats.transfer import Format, Source, runs
from extarray.formats.whole import WholeSource
from extarray.storage.filesystem import File
from extarray.view import packed
from extarray.view.encoding import Choice, choices_of

__all__ = ["ForeignExhibit", "ForeignFile", "foreign_file"]

_PAGE = 4096  # bytes
_PIECE = 1 << 18  # bytes of a piece of elements that the file does not store in pieces
_MOST_PIECE = 1 << 25  # bytes of a piece to read at once
_DENSE = 8  # times the wanted bytes that a read may bring
_BATCH = 1 << 24  # bytes to gather at once
_STALE = 2.0  # seconds for which pieces of a folder count as fresh
_SHARE = 20  # times as long as an opening took, a file that changes is left alone
_ZARR = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
_MOST_LISTED = 10_000  # arrays
_PATIENCE = 1.0  # seconds to look at arrays for the list
#: Libraries that are not safe for threads are called by one at a time, for each format.
_LOCKS: dict[str, Any] = {}


def foreign_file(text: str) -> ForeignFile | None:
    """Return the file of another format that a path names; None: it names none.

    Parameters
    ----------
    text : str
        A file, or ``FILE:/NAME``, an array or a group in it.

    Raises
    ------
    ArgumentError
        A ValueError: the file exists, and no format has its suffix.
    """
    file, within = text, ""
    if not os.path.exists(text):
        before, colon, behind = text.rpartition(":")
        if not colon or not os.path.exists(before):
            return None
        file, within = before, behind.strip("/")
    if not os.path.isdir(file):
        return ForeignFile(file, format_of(file), within)
    found = None
    with contextlib.suppress(ArgumentError):
        found = format_of(file.rstrip("/\\"))
    if any(os.path.exists(os.path.join(file, name)) for name in _ZARR):
        found = found or file_formats()["zarr"]
    return None if found is None else ForeignFile(file, found, within)


@contextlib.contextmanager
def _unlocked() -> Iterator[None]:
    """Open files without locks, which would keep writers out."""
    token = without_lock.set(True)
    try:
        yield
    finally:
        without_lock.reset(token)


class _Kept:
    """Pieces that were read a moment ago, of all files together; the least recently used leave."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[tuple[Any, tuple[int, ...]], NDArray[Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, owner: object, index: tuple[int, ...]) -> NDArray[Any] | None:
        """Return a piece, or None."""
        with self._lock:
            found = self._pieces.get((owner, index))
            if found is not None:
                self._pieces.move_to_end((owner, index))
            return found

    def put(self, owner: object, index: tuple[int, ...], values: NDArray[Any]) -> None:
        """Keep a piece, while there is memory."""
        with self._lock:
            self._pieces[owner, index] = values
            self._bytes += values.nbytes
            while self._bytes > config.max_memory // 2 and len(self._pieces) > 1:
                self._bytes -= self._pieces.popitem(last=False)[1].nbytes

    def forget(self, owner: object) -> None:
        """Forget the pieces of an array."""
        with self._lock:
            for key in [key for key in self._pieces if key[0] is owner]:
                self._bytes -= self._pieces.pop(key).nbytes


_KEPT = _Kept()


class ForeignFile:
    """A file of another format, with one array or with several in groups.

    Parameters
    ----------
    file : str
    form : Format
    within : str
        The only array or group in the file to show; empty: all.
    """

    def __init__(self, file: str, form: Format, within: str = "") -> None:
        self.file, self.form, self.within = file, form, within
        self.title = f"{file}:/{within}" if within else file
        asked = list(inspect.signature(form.source).parameters.values())[2:]
        needed = [each.name for each in asked if each.default is each.empty]
        if needed:
            raise ArgumentError(
                f"{file!r} does not say {' and '.join(needed)}; make an array of it with "
                "`extarray import -o`, or with Python"
            )
        self.lock = _LOCKS.setdefault(form.name, threading.RLock())
        self.generation = 0
        self._opened: set[_Opened] = set()
        self._parts: dict[str, Any] = {}  # names on show -> names in the file
        self._groups: dict[str, Mapping[str, Any]] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self.is_cut = False  # whether there are more arrays than are listed
        self._known: Any = None
        self._next = 0.0
        self.check()
        is_alone = self.form.outline is None or self.within in self._parts.values()
        self.is_folder = not (is_alone and len(self._parts) == 1)

    # -- the arrays and groups in the file --

    def names(self) -> list[str]:
        """Return the names of the arrays."""
        return list(self._parts)

    def groups(self) -> dict[str, Mapping[str, Any]]:
        """Return the attributes of the groups by name; the name of the file itself is empty."""
        return self._groups

    def check(self) -> None:
        """Look at the file; read again which arrays it has if it has changed.

        Raises
        ------
        MissingError
            There is no such file; arrays that are open still have their elements.
        """
        with self.lock:
            clock, is_first = time.monotonic(), self._known is None
            if clock < self._next:
                return
            now = self._facts()
            if now == self._known:
                self._next = time.monotonic() + _SHARE * (time.monotonic() - clock)
                return
            # Libraries share what they know about a file among those who have it open.
            for each in list(self._opened):
                each.close()
            self.generation += 1
            self._known = "unknown"  # until it can be read
            try:
                self._look()
                self._known = now
            finally:
                took = 0.0 if is_first else time.monotonic() - clock  # the first loads libraries
                self._next = time.monotonic() + _SHARE * took

    def _facts(self) -> tuple[Any, ...]:
        """Return facts that change with the file; of a folder, with its metadata."""
        try:
            about = os.stat(self.file)
        except OSError as error:
            raise MissingError(
                errno.ENOENT,
                "the file was deleted or moved; the page shows the elements it had",
                self.file,
            ) from error
        places = [self.file]
        if os.path.isdir(self.file):
            inner = {*self._groups, *(str(part) for part in self._parts.values())}
            folders = [self.file, *(os.path.join(self.file, name) for name in sorted(inner))]
            places = [os.path.join(folder, name) for folder in folders for name in ("", *_ZARR)]
        found: list[Any] = [about.st_ino]
        for place in places:
            try:
                about = os.stat(place)
            except OSError:
                continue
            found.append((place, about.st_mtime_ns, about.st_ino))
            if not os.path.isdir(place):
                found.append(about.st_size)
        return tuple(found)

    def _look(self) -> None:
        """Read which arrays and groups the file has."""
        self._groups, self._entries = {}, {}
        names: list[str] | None = None
        if self.form.outline is not None:
            with _unlocked(), self.form.outline(self.file) as outline:
                names, groups = outline.names, outline.groups
                self._groups = {name: dict(attrs) for name, attrs in groups.items()}
                self._describe(outline)
        elif self.form.names is not None:
            with _unlocked():
                names = self.form.names(self.file)
        if names is None:
            self._parts = {os.path.basename(self.file.rstrip("/\\")): None}
            return
        if self.within:
            prefix = f"{self.within}/"
            self._groups = {n: a for n, a in self._groups.items() if f"{n}/".startswith(prefix)}
            some = [name for name in names if name == self.within or name.startswith(prefix)]
            if not some and self.within not in self._groups:
                there = ", ".join(map(repr, names[:20])) or "no arrays"
                raise MissingError(
                    errno.ENOENT, f"no {self.within!r} in this file; it has {there}", self.file
                )
            names = some
        if os.path.isdir(self.file):
            names = [name for name in names if self._is_inside(name)]
        self.is_cut = len(names) > _MOST_LISTED
        names = names[:_MOST_LISTED]
        alone = os.path.basename(self.file.rstrip("/\\"))
        if self.form.outline is None and len(names) == 1 and not self.within:
            self._parts = {alone: names[0]}  # its name is often but a number
        else:
            self._parts = {name or alone: name for name in names}

    def _describe(self, outline: WholeSource) -> None:
        """Look at the arrays of an open file, as long as that does not take long."""
        end = time.monotonic() + _PATIENCE
        for name in outline.names[:_MOST_LISTED]:
            if time.monotonic() > end:
                break
            try:
                with outline.source(name) as source:
                    given = source.description
                    entry = {"shape": list(given.shape), "dtype": str(given.dtype)}
            except (ExtArrayError, OSError) as error:
                entry = {"error": " ".join(str(error).split())}
            self._entries[name] = entry

    def entry(self, name: str) -> dict[str, Any] | None:
        """Return shape and data type of an array, or an error; None: open it to see them."""
        if self.form.outline is None:
            return None
        return self._entries.get(self._parts[name], {})

    def _is_inside(self, name: str) -> bool:
        """Tell whether an array in a folder stays in it after resolving links."""
        root = os.path.realpath(self.file)
        found = os.path.realpath(os.path.join(self.file, name))
        return found == root or found.startswith(os.path.join(root, ""))

    # -- one array --

    def key(self, name: str) -> Any:
        """Return what changes when shape and data type of an array may."""
        return self.generation

    def exhibit(self, name: str) -> ForeignExhibit:
        """Open an array."""
        return ForeignExhibit(self, name)

    def open(self, name: str) -> _Opened:
        """Open the elements of an array."""
        with self.lock:
            if name not in self._parts:
                raise MissingError(errno.ENOENT, "no array of this name in the file", name)
            opened = _Opened(self, self._parts[name])
            self._opened = {each for each in self._opened if not each.is_closed}
            self._opened.add(opened)
            return opened

    def code(self, name: str, dtype: np.dtype[Any], unpacked: bool) -> list[str]:
        """Return lines of Python that open an array as ``a``; see `ForeignExhibit.code`."""
        file, part = os.path.abspath(self.file), self._parts.get(name)
        if self.form.code is not None and dtype.kind in "biufc" and not unpacked:
            return self.form.code(file, part)
        form, arguments = self.form.name, repr(file) + (f", {part!r}" if part else "")
        arguments += ", mask_and_scale=True" if unpacked else ""
        function = f"from_{form.replace('-', '_')}"
        if hasattr(extarray, function):
            return ["import extarray as xa", "", f"a = xa.{function}({arguments})"]
        return ["import extarray as xa", "", f"a = xa.file_formats()[{form!r}].load({arguments})"]

    def close(self) -> None:
        """Close all arrays of the file."""
        with self.lock:
            for each in self._opened:
                each.close()
            self._opened.clear()


class _Opened:
    """The elements of an array in a file, open for reading; indexed by integers and slices.

    Attributes
    ----------
    shape, dtype, ndim, itemsize, dims, attrs, fill_value
        As of an array.
    chunks : tuple of int
        The pieces in which the elements are read.
    """

    order = "C"

    def __init__(self, file: ForeignFile, part: Any) -> None:
        self._file, self._stack = file, contextlib.ExitStack()
        self.is_closed = False
        where, title = file.file, file.form.title
        with contextlib.ExitStack() as stack:
            with _unlocked():
                source: Source = stack.enter_context(file.form.source(where, part))
            given: Description = source.description
            self.shape, self.dtype = tuple(given.shape), np.dtype(given.dtype)
            self.ndim, self.itemsize = len(self.shape), self.dtype.itemsize
            self.nbytes = math.prod(self.shape) * self.itemsize
            self.dims, self.coords, self.attrs = given.dims, given.coords, dict(given.attrs)
            self.fill_value = np.asarray(given.fill_value, self.dtype)[()]
            self.packing = packed.needed(given.packing, self.fill_value)
            self.origin = (0,) * self.ndim
            self.stored = source.stored
            if source.sequential is not None:
                with of_library(where, title):
                    self._whole: NDArray[Any] | None = self._read_all(source)
                stack.close()
            else:
                self._whole = None
            self._source = source
            self._stack = stack.pop_all()
        self._safe: _Gatherer | None = None
        self.is_mapped = source.mapped or source.plain is not None
        self._view = source.plain or source.read  # of a mapped file
        pieces = given.chunks
        if self._whole is not None or self.is_mapped:
            pieces = None
        self._since = time.monotonic()
        self._fastest = -1  # the axis along which elements of a mapped file lie close together
        if self.is_mapped and self.ndim and self.nbytes:
            first = self._view(tuple(slice(0, min(2, n)) for n in self.shape))
            self._fastest = min(range(self.ndim), key=lambda axis: first.strides[axis])
            self._gatherer(first)  # by its name the file may be another later
        self.chunks = self._pieces(pieces)
        self._stored_chunks = given.chunks or self.shape
        self.is_folder = os.path.isdir(where)  # not a file
        #: Files of a store that are there as long as the array is; else its folder.
        inner = os.path.join(where, str(part or ""))
        metadata = [os.path.join(inner, each) for each in _ZARR]
        self._proofs = [each for each in metadata if os.path.exists(each)] or [where]
        self._size = None if self.is_folder else os.stat(where).st_size

    def _read_all(self, source: Source) -> NDArray[Any]:
        """Read elements that can only be read one after another."""
        if self.nbytes > limits.plane_bytes:
            raise FormatError(
                f"these elements can only be read from the first to the last, and take "
                f"{format_bytes(self.nbytes)}; make an array of them with `extarray import`"
            )
        whole = np.empty(self.shape, self.dtype)
        for box in runs(self.shape, self.itemsize, 1 << 22, source.sequential):
            whole[box] = source.read(box)
        return whole

    def _pieces(self, chunks: Sequence[int] | None) -> tuple[int, ...]:
        """Return the shape of the pieces in which elements are read."""
        given = self.shape if chunks is None else chunks
        pieces = [max(1, min(c, n)) for c, n in zip(given, self.shape, strict=True)]
        most = _PIECE if chunks is None else _MOST_PIECE
        for axis in range(self.ndim):
            while pieces[axis] > 1 and math.prod(pieces) * self.itemsize > most:
                pieces[axis] = -(-pieces[axis] // 2)
        if chunks is not None:
            # Small chunks are read several at a time, along the rows.
            for axis in reversed(range(self.ndim)):
                while (
                    pieces[axis] < self.shape[axis] and math.prod(pieces) * self.itemsize < 1 << 14
                ):
                    pieces[axis] = min(2 * pieces[axis], self.shape[axis])
        return tuple(pieces)

    # -- how much work it is, for `planes` --

    @property
    def pieces_at_most(self) -> int:
        """The number of pieces that may be read for a picture of all elements."""
        if self.is_mapped:
            return limits.whole_pages
        return max(1, 4 * limits.plane_bytes // max(1, math.prod(self.chunks) * self.itemsize))

    @property
    def coarsest(self) -> int:
        """The number of elements of the first, coarsest picture: each may lie in another piece."""
        if self.is_mapped or self._whole is not None:
            return limits.coarsest_elements
        piece = max(1, math.prod(self.chunks) * self.itemsize)
        return max(16, min(limits.coarsest_elements, (1 << 25) // piece))

    def in_piece(self, axes: Sequence[int], steps: Sequence[int]) -> int:
        """Return about how many elements of a plane in steps lie in a piece."""
        if self._whole is not None:
            return 1 << 12
        if self.is_mapped:
            run = max(1, _PAGE // self.itemsize)
            pairs = zip(axes, steps, strict=True)
            return next((max(1, run // step) for axis, step in pairs if axis == self._fastest), 1)
        return math.prod(
            max(1, self.chunks[axis] // step) for axis, step in zip(axes, steps, strict=True)
        )

    # -- reading --

    def __getitem__(self, selection: Any) -> NDArray[Any]:
        """Read a selection of integers and slices with positive steps, or of one list of places."""
        items = selection if isinstance(selection, tuple) else (selection,)
        if len(items) == 1 and isinstance(items[0], (np.ndarray, list)):
            return np.stack([self[int(i)] for i in items[0]])
        items += (slice(None),) * (self.ndim - len(items))
        ranges = []
        for item, n in zip(items, self.shape, strict=True):
            chosen = range(n)[item] if isinstance(item, slice) else range(n)[item : item + 1]
            if not isinstance(item, slice) and not len(chosen):
                raise IndexError(item)
            ranges.append(chosen)
        found = self._read(ranges)
        kept: Any = [slice(None) if isinstance(item, slice) else 0 for item in items]
        return np.asarray(found[(*kept, ...)])

    def get_basic_selection(self, selection: Any, fields: Any) -> NDArray[Any]:
        """Read a field of a selection."""
        found: NDArray[Any] = self[selection][fields]
        return found

    def _read(self, ranges: Sequence[range]) -> NDArray[Any]:
        shape = tuple(map(len, ranges))
        out = np.empty(shape, self.dtype)
        if 0 in shape:
            return out
        steps = tuple(slice(r.start, r[-1] + 1, r.step) for r in ranges)
        if self._whole is not None:
            out[...] = part_of(self._whole, steps)
            return out
        if self.is_mapped:
            box = tuple(slice(s.start, s.stop) for s in steps)
            with self._use():
                every = tuple(slice(None, None, s.step) for s in steps)
                self._copy(part_of(self._view(box), every), out)
            return out
        touched = [self._touched(r, c) for r, c in zip(ranges, self.chunks, strict=True)]
        if self.is_folder:
            self._forget_stale()
        for places in itertools.product(*touched):
            index = tuple(place[0] for place in places)
            target = tuple(place[1] for place in places)
            within = tuple(place[2] for place in places)
            out[target] = part_of(self._piece(index), within)
        return out

    @staticmethod
    def _touched(chosen: range, extent: int) -> list[tuple[int, slice, slice]]:
        """Return the pieces along an axis that have chosen elements, with places there and here."""
        found = []
        first = 0
        while first < len(chosen):
            piece = chosen[first] // extent
            end = (piece + 1) * extent
            count = len(range(chosen[first], min(end, chosen.stop), chosen.step))
            start = chosen[first] - piece * extent
            stop = chosen[first + count - 1] - piece * extent + 1
            found.append((piece, slice(first, first + count), slice(start, stop, chosen.step)))
            first += count
        return found

    def _piece(self, index: tuple[int, ...]) -> NDArray[Any]:
        """Return the elements of a piece, from the file or as they were read a moment ago."""
        with self._use():
            known = _KEPT.get(self, index)
            if known is not None:
                return known
            box = tuple(
                slice(i * c, min((i + 1) * c, n))
                for i, c, n in zip(index, self.chunks, self.shape, strict=True)
            )
            self._check_length()
            with of_library(self._file.file, self._file.form.title):
                values = np.array(self._source.read(box))
            if self.is_folder:
                self._check_folder()
            _KEPT.put(self, index, values)
            return values

    def _copy(self, part: NDArray[Any], out: NDArray[Any]) -> None:
        """Copy elements of a mapped file by calls: a load behind its end would end the process."""
        found, convert = self._gatherer(part), self._source.convert
        if found is None:
            self._check_length()
            out[...] = part if convert is None else convert(part)
            return
        gatherer, base = found
        place = base.offset + _address(part) - _address(base)
        target = out if part.dtype == out.dtype else np.empty(out.shape, part.dtype)
        with of_library(self._file.file, self._file.form.title):
            gatherer.gather(part, place, target)
        if convert is not None:
            out[...] = convert(target)

    def _gatherer(self, part: NDArray[Any]) -> tuple[_Gatherer, Any] | None:
        """Return the reader of a mapped file, and the mapping; None: elements are in memory."""
        base: Any = part
        while base is not None and not isinstance(base, np.memmap):
            base = getattr(base, "base", None)
        is_converted = part.dtype != self.dtype and self._source.convert is None
        if base is None or is_converted or base.filename is None:
            return None
        where = os.fspath(base.filename)
        if self._safe is None or self._safe.where != where:
            if self._safe is not None:
                self._safe.close()
            self._safe = _Gatherer(where)
        return self._safe, base

    def _check_length(self) -> None:
        """Refuse a file that has become shorter, whose elements may be gone."""
        if self._size is None:
            return
        with contextlib.suppress(FileNotFoundError):  # a deleted file is open, and has its elements
            if os.stat(self._file.file).st_size < self._size:
                raise ClosedError(f"the file {self._file.file!r} has become shorter")

    def _check_folder(self) -> None:
        """Refuse a store that is gone, whose pieces would be read as if never written."""
        if not any(map(os.path.exists, self._proofs)):
            raise MissingError(errno.ENOENT, "the array was deleted or moved", self._file.file)

    def _forget_stale(self) -> None:
        """Forget pieces of a folder whose files may have been written in the meantime."""
        with self._file.lock:
            if time.monotonic() - self._since > _STALE:
                _KEPT.forget(self)
                self._since = time.monotonic()

    @contextlib.contextmanager
    def _use(self) -> Iterator[None]:
        with self._file.lock:
            if self.is_closed:
                raise ClosedError("the file has changed; refresh")
            yield

    def close(self) -> None:
        """Close the file."""
        with self._file.lock:
            self.is_closed = True
            _KEPT.forget(self)
            if self._safe is not None:
                self._safe.close()
                self._safe = None
            with contextlib.suppress(ExtArrayError, OSError):
                self._stack.close()

    # -- facts --

    def info(self) -> dict[str, Any]:
        """Return facts, as an array does."""
        zeros = (0,) * self.ndim
        pieces = zip(self.shape, self._stored_chunks, strict=True)
        grid = tuple(-(-n // max(1, c)) for n, c in pieces)
        return {
            "shape": self.shape,
            "dims": self.dims,
            "dtype": self.dtype,
            "chunks": self._stored_chunks,
            "grid": grid,
            "offset": zeros,
            "origin": zeros,
            "fill_value": self.fill_value,
            "logical_bytes": self.nbytes,
            "segments": 0,
            "order": "C",
            "attrs": self.attrs,
        }

    def disk(self) -> str:
        """Return the bytes that the elements take in the file, as text."""
        with self._use():
            found = None
            with contextlib.suppress(ExtArrayError, OSError):
                if self.stored is not None:
                    found = self.stored()
                elif len(self._file.names()) == 1 and not self.is_folder:
                    found = os.stat(self._file.file).st_size
                    if self.is_mapped and found < self.nbytes:
                        found = self.nbytes  # the file is a header; its elements lie beside it
        return "" if found is None else format_bytes(found)


class _Gatherer:
    """Reads elements of a file by calls, which fail where a load from a mapping would kill."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._file = File.open(where, os.O_RDONLY)

    def gather(self, part: NDArray[Any], place: int, out: NDArray[Any]) -> None:
        """Read the elements of a view of the mapped file, whose first lies at a place."""
        order = sorted(range(part.ndim), key=lambda axis: part.strides[axis])
        inner: list[int] = []
        span = wanted = part.itemsize
        for axis in order:
            longer = span + part.strides[axis] * (part.shape[axis] - 1)
            if longer > _BATCH or longer > max(512, _DENSE * wanted * part.shape[axis]):
                break
            inner.append(axis)
            span, wanted = longer, wanted * part.shape[axis]
        outer = [axis for axis in order if axis not in inner][::-1]
        inner.reverse()
        turned = out.transpose(*outer, *inner) if part.ndim else out
        starts = np.zeros([part.shape[axis] for axis in outer], np.int64) + place
        for j, axis in enumerate(outer):
            shape = [-1 if k == j else 1 for k in range(len(outer))]
            starts += (np.arange(part.shape[axis]) * part.strides[axis]).reshape(shape)
        starts = starts.reshape(-1)
        block = [part.shape[axis] for axis in inner]
        flat = np.empty((min(len(starts), max(1, _BATCH // span)), *block), part.dtype)
        rows = turned.reshape(-1, *block) if turned.flags.c_contiguous else None
        result = np.empty((len(starts), *block), part.dtype) if rows is None else rows
        for first in range(0, len(starts), len(flat)):
            some = starts[first : first + len(flat)]
            data = np.empty(len(some) * span, np.uint8)
            if self._file.read_runs(data, np.ascontiguousarray(some), span) < len(data):
                raise ClosedError("the file has become shorter")
            strides = [span, *(part.strides[axis] for axis in inner)]
            result[first : first + len(some)] = np.ndarray(
                (len(some), *block), part.dtype, data, 0, strides
            )
        if rows is None:
            turned[...] = result.reshape(turned.shape)

    def close(self) -> None:
        self._file.close()


def _address(array: NDArray[Any]) -> int:
    """Return the address of the first element."""
    address: int = array.__array_interface__["data"][0]
    return address


class ForeignExhibit:
    """An array of a file of another format, on show.

    Parameters
    ----------
    file : ForeignFile
    name : str
    """

    has_growth = False

    def __init__(self, file: ForeignFile, name: str) -> None:
        self._file, self._name = file, name
        self._generation = file.generation
        self.array: Any = file.open(name)
        self.revision = secrets.randbits(48)
        #: Elements of a file change with its date; chunks in a folder change unseen.
        self.is_still = not self.array.is_folder

    def refresh(self) -> int:
        """Open the file anew if it has changed; return the revision.

        Raises
        ------
        MissingError
            There is no such file, or no such array in it.
        """
        with self._file.lock:
            self._file.check()
            if self._generation != self._file.generation or self.array.is_closed:
                self.array.close()
                self.array = self._file.open(self._name)
                self._generation = self._file.generation
                self.revision += 1
            return self.revision

    @property
    def shown(self) -> Any:
        """The array."""
        return self.array

    def close(self) -> None:
        """Close the array."""
        self.array.close()

    def choices(self) -> list[Choice]:
        """Return the parts of an element that can be shown."""
        return choices_of(self.array.dtype, self.array.packing)

    def attrs(self) -> dict[str, Any]:
        """Return the attributes."""
        return dict(self.array.attrs)

    def disk(self, info: Mapping[str, Any]) -> str:
        """Return the bytes that the array takes on the disk, as text."""
        text: str = self.array.disk()
        return text

    def code(self, unpacked: bool = False) -> list[str]:
        """Return lines of Python that open the array as ``a``, or that make it of the values."""
        return self._file.code(self._name, self.array.dtype, unpacked)

    def coordinate(self, dim: str) -> Coordinate | None:
        """Return the coordinate along an axis that the file attaches to the array."""
        found = self.array.coords.get(dim)
        if found is None:
            several = self.array.coords.values()
            found = next((each for each in several if each.dims == (dim,)), None)
        if found is None or found.dims != (dim,) or found.values.ndim != 1:
            return None
        return attached(dim, packed.unpacked(found.values, found.attrs), found.attrs)
