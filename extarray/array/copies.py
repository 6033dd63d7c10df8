"""The elements elsewhere: copies, pickles, other dtypes, and dask's graphs."""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex
from uuid import uuid4

from extarray.array.base import Stored
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError, MissingError
from extarray.format.labels import attrs_of_whole
from extarray.grid.chunking import check_chunks
from extarray.grid.order import check_order
from extarray.maintenance.transform import Transformation, passes_between
from extarray.storage.file_store import FileStore
from extarray.storage.filesystem import resolve_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from extarray.format.header import Header

__all__ = ["Copied", "copy", "reduced", "reopened", "repack", "restored", "token"]


class Copied(Stored, Protocol):
    """An array whose elements are read, and whose class makes others."""

    @property
    def _changes(self) -> int | None: ...
    def read(self) -> NDArray[Any]: ...
    def copy(self, path: Any, *, checksum: bool | None = None) -> Any: ...
    def _verified(self) -> Any: ...
    @classmethod
    def _plain_kind(cls) -> type[Any]: ...
    @classmethod
    def _reopen(cls, path: str, uuid: bytes, engine: str) -> Any: ...
    @classmethod
    def _restore(cls, header: Header, attrs: str, elements: NDArray[Any], growth: int) -> Any: ...


# What `numpy.ndarray.copy` takes where `copy` takes a path.
_NUMPY_ORDERS = ("C", "F", "A", "K")


def copy(
    array: Copied,
    path: Any = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    order: Literal["C", "F", "A", "K", "Z", "H"] = "K",
    checksum: bool | None = None,
) -> Any:
    """Copy into a fresh, dense array; see `ExtArray.copy`."""
    array._check()
    if isinstance(path, str) and path in _NUMPY_ORDERS:
        raise ArgumentError(
            f"copy({path!r}): the first argument is a path; use order={path!r} for an order, "
            f'path="./{path}" for files of this name'
        )
    if checksum and path is None:
        raise ArgumentError("checksums are kept in files; give a path too")
    header = array._store.header
    if checksum is None:
        checksum = header.checksum and path is not None
    source = array._verified()  # other threads may move the bounds
    shape = source.shape
    header = replace(
        header,
        uuid=uuid4().bytes,
        chunks=header.chunks if chunks is None else check_chunks(chunks, shape, array.itemsize),
        order=header.order if order in ("A", "K") else check_order(order),
        checksum=bool(checksum),
        work=b"",
    )
    passes = passes_between(source, shape, header.chunks, header.dtype, None, path is None)
    kind, attrs, growth = array._plain_kind(), _attrs_of_copy(array), array._store.growth
    work = Transformation(
        kind, source, shape, header, attrs, passes, config.max_memory, growth=growth
    )
    return work.in_memory() if path is None else work.on_disk(resolve_path(path))


def repack(array: Copied, path: Any, *, checksum: bool | None = None) -> Any:
    """Write the elements into a fresh, dense array in files; see `ExtArray.repack`."""
    if path is None:
        raise ArgumentTypeError("repack needs a path; copy() makes an array in memory")
    return array.copy(path, checksum=checksum)


def reduced(array: Copied) -> tuple[Any, ...]:
    """Return what pickles an array: a path, or the elements."""
    array._check()
    store = array._store
    if isinstance(store, FileStore):
        return array._reopen, (store.absolute, store.header.uuid, store.engine)
    return array._restore, (store.header, _attrs_of_copy(array), array.read(), store.growth)


def _attrs_of_copy(array: Copied) -> str:
    """Return the attributes, as they are right for an array that never moved at the start."""
    with array._steady:
        return attrs_of_whole(array._store.attrs, array.dims, array.origin)


def reopened(kind: Any, path: str, uuid: bytes, engine: str) -> Any:
    """Open an array in files that was pickled, for reading."""
    array = kind._open(Path(path), "r", 0, engine)
    if array._store.header.uuid != uuid:
        array.close()
        raise MissingError(
            errno.ENOENT,
            "the array that was pickled is gone: another one has taken its place; pickle that one",
            path,
        )
    return array


def restored(kind: Any, header: Header, attrs: str, elements: NDArray[Any], growth: int) -> Any:
    """Make an array in memory that was pickled: one segment, no history."""
    header = replace(header, uuid=uuid4().bytes, work=b"")
    array = kind._create(None, elements.shape, header, attrs, growth=growth)
    array[...] = elements
    return array


def token(array: Copied) -> tuple[Any, ...]:
    """Return what names the elements in dask's graphs: it changes when they may have changed."""
    array._check()
    store = array._store
    if isinstance(store, FileStore) and store.mode == "r":
        return ("extarray", store.header.uuid.hex(), *store.generation)
    changes = array._changes
    return ("extarray", array._handle, uuid4().hex if changes is None else changes)
