"""A longer text type for an array of texts: fresh files of the same history replace its files.

An array of labels is small, but its width is that of its longest label so far.  Chunks keep their
addresses, so the bounds, the history and the order of elements stay; only the bytes are wider.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import numpy as np

from extarray._core._transfers import note_written
from extarray.array.facts import check_sole
from extarray.array.freezing import notice
from extarray.array.growth import length_of, source_for, text_length, wider_dtype
from extarray.array.life import check_not_held, take_store
from extarray.array.resizing import filling_error
from extarray.common.arguments import check_flag
from extarray.common.errors import ArgumentError, CastingError, StorageError
from extarray.common.formatting import format_bytes
from extarray.common.hints import hint
from extarray.common.limits import limits
from extarray.format.dtypes import clear_open_bytes
from extarray.grid.chunking import place_of
from extarray.storage.lock import begin_freezing, end_freezing
from extarray.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from extarray.array.life import Living
    from extarray.format.header import Header

__all__ = ["check_widening", "widen", "widened_for"]


def widened_for(array: Living, data: ArrayLike, axis: SupportsIndex | str, widens: Any) -> Any:
    """Make an array wide enough for texts to append, if `widens`; return them as a source."""
    if not check_flag(widens, "widen"):
        return data
    j = array._axis(axis)
    own = array.dtype
    values = source_for(array, data)
    kinds = own.kind + values.dtype.kind
    if kinds in ("UU", "SS", "US"):
        array._check("append to")
        length = text_length(values)
        if length > text_length(own):
            length_of(array, values, j, wider_dtype(own, length))
            widen(array, length)
    return values


def check_widening(array: Living, length: int) -> None:
    """Raise if an array of texts is too large to be widened in one step."""
    size = array.axial.size * array._store.now.header.chunk_bytes
    size = size // array.dtype.itemsize * wider_dtype(array.dtype, length).itemsize
    if size > limits.widened_bytes:
        how = "" if array.path is None else ", in_place=True"
        wider = wider_dtype(array.dtype, length).str
        raise CastingError(
            f"cannot append strings of {length} characters to {array._name()}: wider chunks would "
            f"take {format_bytes(size)}, and an append widens at most "
            f"{format_bytes(limits.widened_bytes)}; widen it first, in bounded memory, with "
            + hint(
                f"a = a.rechunk(dtype={wider!r}{how})",
                f"extarray rechunk PATH --in-place --dtype '{wider}'",
            )
        )


def widen(array: Living, length: int) -> None:
    """Give an array of texts a width in characters, in one step; it stays what it is otherwise.

    Those who have it open for reading keep the files that are replaced.
    """
    what = "widen"
    with array._writers.resizing:
        array._check(what)
        check_not_held(array, what)
        check_sole(array, f"{what} {array._name()}")
        if array._filling:
            raise filling_error(array, what)
        if length <= text_length(array.dtype):
            return
        check_widening(array, length)
        if cast("Any", array)._changes is None:
            raise ArgumentError(
                f"cannot widen {array._name()}: views of its chunks may write to what it replaces; "
                "append before you take views, or to a copy"
            )
        header = _wider(array._store.now.header, wider_dtype(array.dtype, length))
        if array._store.files is None:
            _widen_in_memory(array, header)
        else:
            _widen_files(array, header)


def _wider(header: Header, dtype: np.dtype[Any]) -> Header:
    fill = np.frombuffer(header.fill, header.dtype).astype(dtype)
    clear_open_bytes(fill)
    blobs = {"version": header.version, "blobs": header.blobs} if header.has_blobs else {}
    return header.renewed(dtype=dtype, fill=fill.tobytes(), **blobs)


def _widen_in_memory(array: Any, header: Header) -> None:
    now, axial = array._store.now, array.axial
    store = MemoryStore(header, array.shape, axial, now.attrs, now.growth)
    store.now.state = now.state
    region = store.now.region
    assert region is not None
    for low, high in _steps(0, axial.size, header.chunk_bytes):
        old, new = now.header.chunk_bytes, header.chunk_bytes
        some = now.region.copied(place_of(low, old), place_of(high, old))
        wide = _cast(some, now.header, header)
        region.fill(wide, place_of(low, new), place_of(high, new))
    take_store(array, store)


def _widen_files(array: Living, header: Header) -> None:
    """Replace the files of an array by wider ones."""
    what = f"cannot widen {array._name()}"
    files, core = array._store.files, cast("Any", array)
    assert files is not None
    files.group.conclude_members()
    if files.now.sums is not None:
        core._verify_all()  # new sums would hide damage (I11)
        array._flush()
    before, data = core._changes, files.now.data
    try:
        if not begin_freezing(data):
            raise ArgumentError(
                f"{what}: others write elements to the files that it replaces; let them close it "
                "first"
            )
        store = type(files).make_successor(files, array.axial, header, "cannot widen '{}'")
        try:
            _write_wider(array, store, header)
            if core._changes != before:
                raise StorageError(
                    errno.EBUSY, f"{what}: another thread has written to it meanwhile; try again"
                )
            store.take_names()
            _take_wider(array, store)
        except BaseException:
            if array._store is not store:
                if store.making is None and store.now.has_name:  # interrupted when it was done
                    _take_wider(array, store)
                else:
                    store.close()
            raise
    finally:
        if not data.closed:
            end_freezing(data)
    if header.has_blobs:
        notice(array)


def _write_wider(array: Living, store: Any, header: Header) -> None:
    """Write the elements of an array to wider files."""
    now: Any = array._store.now
    size = header.chunk_bytes
    end = now.state.data_bytes
    keeps_holes = header.sparse and not any(header.fill)
    for start, stop in now.written(end) if keeps_holes else [(0, end)]:
        first, last = start // now.header.chunk_bytes, -(-stop // now.header.chunk_bytes)
        for low, high in _steps(first, last, size):
            place, behind = (place_of(q, now.header.chunk_bytes) for q in (low, high))
            some = bytearray(behind - place)
            now.read_into(memoryview(some), place)
            store.now.data.write(_cast(some, now.header, header), place_of(low, size))


def _take_wider(array: Living, store: Any) -> None:
    """Go on with wider files, whose chunks have no sums yet."""
    take_store(array, store)
    if store.now.sums is not None:
        core: Any = array
        note_written(core, np.arange(array.axial.size))
        array._flush()


def _steps(first: int, last: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield runs of chunks of bounded size."""
    step = max(1, limits.rechunk_step_bytes // size)
    for low in range(first, last, step):
        yield low, min(last, low + step)


def _cast(data: bytes | bytearray, old: Header, new: Header) -> bytes:
    """Return elements in the bytes of a wider dtype."""
    return np.frombuffer(data, old.dtype).astype(new.dtype).tobytes()
