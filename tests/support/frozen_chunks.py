"""Arrays whose chunks may be frozen: made, read and written below the array's own calls."""

from __future__ import annotations

import contextlib
import itertools
import zlib
from pathlib import Path

import numpy as np

import extarray as xa
from extarray._core._transfers import return_changed
from extarray.array.freezing import freeze_chosen
from extarray.codecs.codec import CodecId
from extarray.codecs.payloads import Encoded
from extarray.format.header import VERSION
from extarray.storage import frozen
from extarray.storage.file_store import FileStore

__all__ = [
    "CHUNKS", "ENCODING", "all_addresses", "append", "create", "elements", "encoded", "freeze",
    "freezing",
    "make", "opened", "put", "put_chunk", "table",
]  # fmt: skip

ENCODING = {"codec": "zlib:1", "freeze": "never"}
CHUNKS = (4, 5)


def encoded(codec, chunk, itemsize) -> Encoded:
    """Encode a chunk, even one that gains nothing or is constant."""
    return Encoded(CodecId.ZLIB, 0, 0, zlib.compress(chunk, 1))


@contextlib.contextmanager
def freezing():
    """Let the chunks of new arrays be frozen."""
    before = FileStore.__dict__["create"]

    def make(cls, path, header, *rest, **options):
        if header.version == VERSION:
            header = header.freezing(ENCODING)
        return before.__func__(cls, path, header, *rest, **options)

    FileStore.create = classmethod(make)
    try:
        yield
    finally:
        FileStore.create = before


def freeze(array, addresses) -> None:
    """Freeze those of some chunks that are raw, whether or not they were written."""
    return_changed(array, addresses)
    freeze_chosen(array, addresses)


def create(path, shape, dtype="i4", **options):
    with freezing():
        return xa.create(path, shape, dtype, **{"chunks": CHUNKS, **options})


def make(path, values, *, is_frozen=True, **options) -> None:
    """Make an array, all frozen and flushed, and close it."""
    values = np.asarray(values)
    with create(path, values.shape, values.dtype, **options) as array:
        array[...] = values
        if is_frozen:
            freeze(array, all_addresses(array))
        array.flush()


def table(array) -> frozen.FrozenTable:
    return array._store.now.frozen


def all_addresses(array):
    return np.arange(array.axial.size)


def elements(array):
    """Return all elements, whichever chunks are frozen."""
    chunks, offset = array.chunks, array._store.now.state.offset
    whole = np.empty([n * c for n, c in zip(array.grid, chunks, strict=True)], array.dtype)
    chunk = np.empty(chunks, array.dtype)
    for index in itertools.product(*map(range, array.grid)):
        table(array).read_into(memoryview(chunk).cast("B"), array.axial.address(index))
        whole[tuple(slice(i * c, i * c + c) for i, c in zip(index, chunks, strict=True))] = chunk
    return whole[tuple(slice(o, o + n) for o, n in zip(offset, array.shape, strict=True))]


def opened(path: Path):
    """Return the elements of an array, or None if there is none."""
    try:
        with xa.open(path) as array:
            found = array[...]
            assert table(array) is None or np.array_equal(elements(array), found)
            return found
    except xa.errors.MissingError as error:
        if Path(f"{path}.xmd").exists():
            raise AssertionError(str(error)) from error
        return None


def put(array, key, values) -> None:
    """Store to a box, after a thaw of the chunks that it meets."""
    offset = array._store.now.state.offset
    spans = [
        range(((k.start or 0) + o) // c, -(-((n if k.stop is None else k.stop) + o) // c))
        for k, n, o, c in zip(key, array.shape, offset, array.chunks, strict=True)
    ]
    indices = np.array(list(itertools.product(*spans)), np.int64).reshape(-1, array.ndim)
    if len(indices):
        table(array).thaw(array.axial.addresses(indices))
    array[key] = values


def append(array, values) -> None:
    """Append along axis 0, after a thaw of the chunks at the end."""
    last = array.grid[0] - 1
    indices = [(last, *rest) for rest in itertools.product(*map(range, array.grid[1:]))]
    if indices:
        table(array).thaw(array.axial.addresses(np.array(indices, np.int64)))
    array.append(values)


def put_chunk(array, index, values) -> None:
    """Write a whole chunk straight to the log."""
    address = array.axial.address(index)
    one = encoded(ENCODING, np.ascontiguousarray(values, array.dtype), array.dtype.itemsize)
    table(array).store_live([address], table(array).append([address], [one]))
