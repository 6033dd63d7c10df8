"""Compression of an array that exists: its codec changed, and its log repacked in place."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from extarray._core._transfers import note_written
from extarray.array.facts import check_sole
from extarray.array.freezing import append_blobs, chunks_at_once, notice
from extarray.array.life import attach_store, check_not_held, take_store
from extarray.array.resizing import filling_error
from extarray.codecs.codec import Codec
from extarray.common.errors import ArgumentError, StorageError
from extarray.grid.chunking import chunks_before
from extarray.storage.filesystem import family
from extarray.storage.lock import begin_freezing, end_freezing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from extarray.array.life import Living
    from extarray.common.arguments import Reported
    from extarray.storage.pair import Pair

__all__ = ["repack", "set_compression"]


def set_compression(array: Living, compression: Any) -> None:
    """Freeze chunks by another codec from now on, or none; see `ExtArray.compression`."""
    what = "change the compression of"
    codec = Codec.parse(compression)
    with array._writers.resizing:
        _check_alone(array, what)
        header = array._store.now.header
        if array._store.now.frozen is None:
            if codec is not None:
                with family("cannot change the compression of '{}'", array.path):
                    _make_freezable(array, codec)
            return
        encoding = {**header.encoding, "codec": None if codec is None else str(codec)}
        if encoding != header.encoding:
            files: Any = array._store
            _with_other_metadata(array, lambda: files.recode(array.axial, encoding))
    if codec is not None:
        notice(array)


def repack(array: Living, progress: Reported) -> None:
    """Drop what nobody needs in the log of frozen chunks; see `ExtArray.repack`."""
    with array._writers.resizing:
        _check_alone(array, "repack")
        files: Any = array._store
        _with_other_metadata(array, lambda: files.repack(array.axial, progress))


def _make_freezable(array: Living, codec: Codec) -> None:
    """Replace the files of an array by others with all chunks frozen.

    Readers that have the old ones open know no number of freezes, so holes in their file would
    give them zeros: they keep it.
    """
    what = f"cannot change the compression of {array._name()}"
    files, core = array._store.files, cast("Any", array)
    if files is None:
        raise ArgumentError(f"{what}: it is in memory; copy it to files")
    if core._changes is None:
        raise ArgumentError(
            f"{what}: views of its chunks may write to the files that it replaces; open it again, "
            "and set it first"
        )
    files.group.conclude_members()
    if files.now.sums is not None:
        core._verify_all()  # blobs would hide damage (I11)
        array._flush()  # the new files copy the sums
    before = core._changes
    data = files.now.data
    try:
        if not begin_freezing(data):
            raise ArgumentError(
                f"{what}: others write elements to the files that it replaces; let them close it "
                "first"
            )
        encoding = {"codec": str(codec), "freeze": "behind"}
        header = files.now.header.renewed(work=files.now.header.work).freezing(encoding)
        store = type(files).make_successor(
            files, array.axial, header, "cannot change the compression of '{}'", hollow=True
        )
        try:
            now = store.now
            assert now.frozen is not None
            step = chunks_at_once(array)
            for first, stop in _stored_runs(files.now):
                for low in range(first, stop, step):
                    some = np.arange(low, min(stop, low + step))
                    # No name holds the table: an error that comes later would keep it mapped.
                    now.frozen.store_live(some, append_blobs(array, now.frozen, some), is_hole=True)
            if core._changes != before:
                raise StorageError(
                    errno.EBUSY, f"{what}: another thread has written to it meanwhile; try again"
                )
            store.take_names()
            take_store(array, store)
            if store.now.sums is not None:
                array._flush()  # they are right
        except BaseException:
            if array._store is not store:
                if store.making is None and store.now.has_name:  # interrupted when it was done
                    take_store(array, store)
                else:
                    store.close()
            raise
    finally:
        if not data.closed:
            end_freezing(data)


def _stored_runs(now: Pair) -> Iterator[tuple[int, int]]:
    """Yield runs of addresses of chunks, without those that may stay holes at their raw places."""
    size, end = now.header.chunk_bytes, now.state.data_bytes
    keeps_holes = now.header.sparse and not any(now.header.fill)
    stop = 0
    for low, high in now.written(end) if keeps_holes else [(0, end)]:
        first = max(stop, chunks_before(low, size))
        stop = chunks_before(high + size - 1, size)
        yield first, stop


def _check_alone(array: Living, what: str) -> None:
    """Raise unless this thread may replace the metadata of the array."""
    array._check(what)
    check_not_held(array, what)
    check_sole(array, f"{what} {array._name()}")
    if array._filling:
        raise filling_error(array, what)


def _with_other_metadata(array: Living, change: Callable[[], object]) -> None:
    """Replace the metadata of an array, and show the core their table."""
    now = array._store.now
    if now.sums is not None:
        array._flush()  # the new metadata copy the sums
    try:
        change()
    finally:
        attach_store(array)
        if now.sums is not None and now.sums.lost:
            core: Any = array
            note_written(core, np.arange(array.axial.size))
