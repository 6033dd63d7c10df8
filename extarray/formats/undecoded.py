"""Chunks that files of other formats and arrays hand to each other as a codec has encoded them.

A file and an array agree if their chunks have the same shape, data type and order, and the same
codec and filter; the level does not matter, as only an encoder needs it.  Then the payload of a
chunk moves as it is.  Whatever does not agree, or does not decode, is left to the usual way, by
elements, which reads it or raises the error of the file's library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.codecs.payloads import Encoded, adopt
from extarray.common.config import config
from extarray.common.errors import CorruptError
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.format.blobs import FILL
from extarray.grid.chunking import grid_of
from extarray.storage.blobs import Blobs
from extarray.storage.frozen import FrozenTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from extarray.codecs.codec import Codec
    from extarray.formats.description import Description
    from extarray.grid.tiles import Box

    Index = tuple[int, ...]

__all__ = ["Payloads", "give_back", "left_of", "take_over"]

# Bytes of payloads to hold at a time.
_AT_ONCE = 1 << 22
# Most chunks to go through one by one: with more, nearly all are holes.
_MOST = 1 << 27


@dataclass(frozen=True)
class Payloads:
    """The chunks of a file as a codec has encoded them, each as one frame.

    Parameters
    ----------
    codec : Codec
        Its filter is known; its level does not matter.
    chunks : tuple of int
        Extents of a chunk.  Those at the edge are whole, too.
    get : callable, optional
        Takes the index of a chunk in the grid, and returns its payload; None: it has none, or is
        encoded otherwise.
    put : callable, optional
        Takes the index of a chunk and its payload.
    """

    codec: Codec
    chunks: tuple[int, ...]
    get: Callable[[Index], bytes | None] | None = None
    put: Callable[[Index, bytes], object] | None = None


def left_of(
    boxes: Iterable[Box], chunks: tuple[int, ...], done: NDArray[np.bool_]
) -> Iterator[Box]:
    """Yield the parts of boxes that lie in chunks which are not done.

    Parameters
    ----------
    boxes : iterable of tuple of slice
    chunks : tuple of int
    done : ndarray of bool
        By the index of a chunk in the grid.

    Examples
    --------
    >>> list(left_of([(slice(0, 5),)], (2,), np.array([False, True, False])))
    [(slice(0, 2, None),), (slice(4, 5, None),)]
    """
    for box in boxes:
        first = [b.start // c for b, c in zip(box, chunks, strict=True)]
        stop = [-(-b.stop // c) for b, c in zip(box, chunks, strict=True)]
        here = done[tuple(map(slice, first, stop))]
        if not here.any():
            yield box
            continue
        for index in (np.argwhere(~here) + first).tolist():
            yield tuple(
                slice(max(w.start, b.start), min(w.stop, b.stop))
                for w, b in zip(_box_of(index, chunks), box, strict=True)
            )


def _box_of(index: Sequence[int], chunks: tuple[int, ...]) -> Box:
    return tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))


# -- into an array ---------------------------------------------------------------------------------


def take_over(
    array: Any,
    given: Payloads,
    is_fill: Callable[[Box], bool],
    guard: Callable[[], AbstractContextManager[Any]],
    count: Callable[[int], object],
) -> NDArray[np.bool_] | None:
    """Freeze chunks of a new array with the payloads of a file; None: the two do not agree.

    Each payload is decoded once, and never encoded: one that is damaged must not look right.

    Parameters
    ----------
    array : ExtArray
        With the shape and data type of the file, and none of its elements.
    given : Payloads
    is_fill : callable
        Tells whether a box is known to have the fill value of the array everywhere.
    guard : callable
        Returns a context manager for each read.
    count : callable
        Takes bytes of elements that are done.

    Returns
    -------
    ndarray of bool
        Which chunks are done, by their index in the grid.
    """
    frozen = array._store.now.frozen
    asked = None if frozen is None else frozen.codec
    if (
        asked is None
        or given.get is None
        or frozen.policy == "never"
        or asked.name != given.codec.name
        or (asked.filter != "auto" and not _are_alike(asked, given.codec, array.itemsize))
        or array.chunks != given.chunks
        or array.order != "C"
        or math.prod(grid_of(array.shape, given.chunks)) > _MOST
    ):
        return None
    return _Taking(array, frozen, given, is_fill, guard, count).run()


def _are_alike(one: Codec, other: Codec, itemsize: int) -> bool:
    """Tell whether codecs of one name have the same filter; byte shuffle moves no single bytes."""
    filters = {codec.filter for codec in (one, other)}
    return len(filters) == 1 or (itemsize == 1 and filters == {None, "shuffle"})


class _Taking:
    """Takes chunks over, in rounds of bounded memory."""

    def __init__(
        self,
        array: Any,
        frozen: Any,
        given: Payloads,
        is_fill: Callable[[Box], bool],
        guard: Callable[[], AbstractContextManager[Any]],
        count: Callable[[int], object],
    ) -> None:
        self._array, self._frozen, self._given = array, frozen, given
        self._is_fill, self._guard, self._count = is_fill, guard, count
        self._fill = array._store.now.header.fill
        self.done = np.zeros(grid_of(array.shape, given.chunks), bool)

    def run(self) -> NDArray[np.bool_]:
        """Take over all chunks that are right; see `take_over`."""
        most = min(limits.unfrozen_bytes, max(1, config.max_memory // 4)) // self._array.chunk_bytes
        found: list[tuple[Index, bytes | None]] = []
        held = 0
        for index in np.ndindex(self.done.shape):
            with self._guard():
                payload = self._given.get(index)  # type: ignore[misc]
            if payload is None and not self._is_fill(self._inside(index)):
                continue
            found.append((index, payload))
            held += len(payload or b"")
            if held >= _AT_ONCE or len(found) >= most:
                self._store(found)
                found, held = [], 0
        self._store(found)
        return self.done

    def _inside(self, index: Index) -> Box:
        """Return the elements of a chunk inside the bounds."""
        return tuple(
            slice(b.start, min(b.stop, n))
            for b, n in zip(_box_of(index, self._given.chunks), self._array.shape, strict=True)
        )

    def _store(self, found: list[tuple[Index, bytes | None]]) -> None:
        """Freeze the chunks whose payloads are right."""
        if not found:
            return
        array, size = self._array, self._array.chunk_bytes
        words: list[Encoded | int | None] = [FILL] * len(found)
        n_threads = max(1, min(config.threads, len(found) * size // limits.coded_bytes))

        def check(first: int) -> None:
            room = memoryview(np.empty(size, np.uint8))
            for n in range(first, len(found), n_threads):
                index, payload = found[n]
                if payload is not None:
                    words[n] = self._checked(index, payload, room)

        run_together([partial(check, first) for first in range(n_threads)])
        kept = [n for n, word in enumerate(words) if word is not None]
        if not kept:
            return
        indices = np.array([found[n][0] for n in kept], np.int64).reshape(len(kept), array.ndim)
        addresses = np.asarray(array.axial.addresses(indices))
        entries = np.full(len(kept), FILL, np.uint64)
        blobs = [i for i, n in enumerate(kept) if words[n] != FILL]
        entries[blobs] = self._frozen.append(addresses[blobs], [words[kept[i]] for i in blobs])
        self._frozen.store_live(addresses, entries)
        for n in kept:
            index = found[n][0]
            self.done[index] = True
            box = self._inside(index)
            self._count(int(np.prod([b.stop - b.start for b in box])) * array.itemsize)
        if self._frozen.bytes_to_free >= limits.unfreed_bytes:
            array.flush()

    def _checked(self, index: Index, payload: bytes, room: memoryview) -> Encoded | int | None:
        """Return what freezes a chunk: a payload, or `FILL`; None: its elements are to be read."""
        itemsize = self._array.itemsize
        try:
            found = adopt(self._given.codec, payload, room, itemsize)
        except CorruptError:
            return None
        if not self._is_clean(index, room):
            return None
        is_constant = len(found.payload) == itemsize
        return FILL if is_constant and found.payload == self._fill else found

    def _is_clean(self, index: Index, room: memoryview) -> bool:
        """Tell whether elements of a chunk outside the bounds, which growth shows, are the fill."""
        whole, inside = _box_of(index, self._given.chunks), self._inside(index)
        if whole == inside:
            return True
        kind = np.dtype((np.void, self._array.itemsize))
        outside = np.ones(self._given.chunks, bool)
        outside[tuple(slice(0, b.stop - b.start) for b in inside)] = False
        chunk = np.frombuffer(room, kind).reshape(self._given.chunks)
        return bool((chunk[outside] == np.frombuffer(self._fill, kind)).all())


# -- out of an array -------------------------------------------------------------------------------


def give_back(
    array: Any,
    given: Description,
    wanted: Payloads,
    guard: Callable[[], AbstractContextManager[Any]],
    count: Callable[[int], object],
) -> NDArray[np.bool_] | None:
    """Write the payloads of whole chunks of an array to a new file; None: they do not agree.

    Chunks at the edge are left: what they have outside the bounds may not be the fill value.

    Parameters
    ----------
    array : ExtArray
    given : Description
        Of all elements of the array.
    wanted : Payloads
    guard : callable
        Returns a context manager for each write.
    count : callable
        Takes bytes of elements that are done.

    Returns
    -------
    ndarray of bool
        Which chunks are done, by their index in the grid.

    Raises
    ------
    ChecksumError
        A blob is damaged.
    """
    now = array._store.now
    blobs: Any = now.frozen or getattr(array._store, "blobs", None)
    state, chunks = now.state, array.chunks
    if (
        not isinstance(blobs, (FrozenTable, Blobs))
        or wanted.put is None
        or chunks != wanted.chunks
        or array.dtype != given.dtype
        or array.order != "C"
        or tuple(state.shape) != given.shape
        or any(n % c for n, c in zip(state.offset, chunks, strict=True))
    ):
        return None
    agreed = wanted.codec.id, wanted.codec.filter_id, 0
    done = np.zeros(grid_of(given.shape, chunks), bool)
    first = np.array(state.offset, np.int64) // np.array(chunks)
    for index in np.ndindex(*(n // c for n, c in zip(given.shape, chunks, strict=True))):
        address = int(array.axial.addresses((first + index).reshape(1, -1))[0])
        found = blobs.payload(address)
        if found is None or (found.codec, found.filter, found.blocks) != agreed:
            continue
        with guard():
            wanted.put(index, bytes(found.payload))
        done[index] = True
        count(array.chunk_bytes)
    return done
