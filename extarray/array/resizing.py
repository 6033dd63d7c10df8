"""A change of bounds, carried out step by step or taken back whole.

The steps: room for new chunks; what lies in old chunks, renewed; the elements of an append; the log
and the superblock; the bounds as readers of this process see them; and last, when all of it counts,
what the change has cut off is given back.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import operator
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from extarray._core._history import grow_by, mark_of, roll_back
from extarray._core._transfers import note_written
from extarray.common.arguments import as_int
from extarray.common.config import config
from extarray.common.errors import ArgumentError, LimitError, ReserveError, StorageError
from extarray.format.constants import LIMIT
from extarray.grid.address_runs import address_runs, count_runs, runs_between, runs_together
from extarray.grid.bounds import Bounds, Change, outside, to_box
from extarray.grid.policy import EXACT, decode_policy
from extarray.grid.tiles import tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray._core._mapping import Region
    from extarray.array.facts import Writers
    from extarray.grid.bounds import Index
    from extarray.storage.store import Store

    Corners = tuple[Index, Index]  # of a box: the first indices, and those behind the last
    Runs = tuple[NDArray[np.int64], NDArray[np.int64]]  # the last is not one of a run

__all__ = [
    "Resizable",
    "Side",
    "carry_out",
    "count",
    "filling_error",
    "give_back_freed",
    "give_back_outside",
    "is_start",
    "renew",
]

Side = Literal["end", "start"]

# Chunks on either side of what is cut off.
LOOKED_AT = 1 << 12
# More chunks than so many are gone through piece by piece, or not one by one at all.
MANY = 1 << 16


class Resizable(Protocol):
    """An array whose bounds move, as far as that concerns its store and its core."""

    _filling: bool

    _writers: Writers

    @property
    def _store(self) -> Store: ...
    @property
    def axial(self) -> Axial: ...  # noqa: D102
    @property
    def shape(self) -> Index: ...  # noqa: D102
    @property
    def grid(self) -> Index: ...  # noqa: D102
    @property
    def chunks(self) -> Index: ...  # noqa: D102
    @property
    def ndim(self) -> int: ...  # noqa: D102
    @property
    def itemsize(self) -> int: ...  # noqa: D102
    @property
    def path(self) -> Path | None: ...  # noqa: D102
    @property
    def chunk_bytes(self) -> int: ...  # noqa: D102
    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
    @property
    def fill_value(self) -> Any: ...  # noqa: D102
    @property
    def _grid_bytes(self) -> int: ...
    @property
    def _region(self) -> Region | None: ...
    def _axis(self, axis: SupportsIndex | str) -> int: ...
    def _name(self) -> str: ...
    def _check(self, what: str | None = None) -> None: ...
    def _attach_store(self) -> None: ...
    def _place_elements(self) -> None: ...
    def _set_bounds(self, shape: Sequence[int], offset: Sequence[int]) -> None: ...
    def _forget_touched(self) -> None: ...
    def _read_box(self, start: Sequence[int], stop: Sequence[int]) -> NDArray[Any]: ...
    def _write_box(
        self, start: Sequence[int], stop: Sequence[int], values: NDArray[Any]
    ) -> None: ...


# -- arguments -----------------------------------------------------------------------------------


def is_start(side: str) -> bool:
    """Tell whether a side is the start of an axis."""
    if side not in ("end", "start"):
        raise ArgumentError(f"side {side!r} is not valid; use 'end' or 'start'")
    return side == "start"


def count(by: SupportsIndex) -> int:
    """Return a number of elements, of an argument."""
    n = as_int(by, "by")
    if n < 0:
        raise ArgumentError(f"by must be at least 0, not {n}; use extend to grow, shrink to cut")
    return n


def filling_error(array: Resizable, what: str = "change the bounds of") -> ArgumentError:
    """Return the error for a change by what reads the data that are being appended."""
    return ArgumentError(f"cannot {what} {array._name()} during an append to it")


# -- the transaction -----------------------------------------------------------------------------


def carry_out(
    array: Resizable,
    change: Change,
    fill: Callable[[], None] | None = None,
    exactly: bool = False,
) -> None:
    """Give an array new bounds; on an error nothing has changed.

    `fill` writes the elements of the only part that is new.  `exactly`: the growth policy allocates
    nothing ahead.
    """
    if array._filling:  # by what reads the data that are being appended
        raise filling_error(array)
    store, axial = array._store, array.axial
    now = store.now
    was_unclean = now.unclean
    mark = mark_of(axial) if change.steps else None
    old = size = array._grid_bytes
    is_append = False
    try:
        if mark is not None:
            change, size = _make_room(array, change, mark, old, exactly)
        if was_unclean:
            renew(array, change, clean=fill is None)
        if fill is not None:
            is_append = True
            if store.commits is not None:
                store.commits.begin_append()
            now.unclean = array._filling = True
            fill()  # I5: before the commit
        now.unclean = change.cuts or (was_unclean and not change.fills)
        store.commit(change.after, axial, size, change.cuts)
        _publish(array, change)
    except BaseException:
        state, after = now.state, change.after
        if (state.shape, state.offset, state.grid) == (after.shape, after.offset, axial.grid):
            _publish(array, change)  # interrupted when all was done
        else:
            now.unclean = was_unclean or is_append
            if mark is not None:
                _take_back_room(array, mark, old)
        raise
    finally:
        array._filling = False
    if change.cuts:
        # The bounds count by now: space that cannot be given back stays taken.
        with contextlib.suppress(StorageError):
            _give_back(array, change)


def _publish(array: Resizable, change: Change) -> None:
    """Show new bounds, which count: nobody takes up what they cut off from now on."""
    if change.cuts:
        array._store.now.users.turn()
    array._set_bounds(change.after.shape, change.after.offset)


# -- room ----------------------------------------------------------------------------------------


def _make_room(
    array: Resizable, change: Change, mark: Any, old: int, exactly: bool
) -> tuple[Change, int]:
    """Grow the grid, further than need be where that is possible, and get it its room.

    Returns the change as it is then, and the bytes of the grid.
    """
    store, size = array._store, array.chunk_bytes
    now = store.now
    new = math.prod(change.after.grid) * size
    if new >= LIMIT:
        raise LimitError(
            f"cannot grow to {change.after.shape}: its chunks would take {new} bytes, too close "
            "to 2**63"
        )
    if new and not old:
        array._place_elements()
    ahead = None
    if not exactly and now.growth != EXACT:
        ahead = _make_room_ahead(array, change, mark, old)
    if ahead is None:
        _take(array, change, old, new)
    if now.region is not array._region:
        array._attach_store()
    return (change, new) if ahead is None else (ahead, array._grid_bytes)


def _make_room_ahead(array: Resizable, change: Change, mark: Any, old: int) -> Change | None:
    """Grow the grid as the policy says, if there is room for that; returns the change then."""
    ahead = change.ahead(decode_policy(array._store.now.growth), LIMIT)
    if ahead is None or (new := math.prod(ahead.after.grid) * array.chunk_bytes) >= LIMIT:
        return None
    try:
        _take(array, ahead, old, new)
    except (LimitError, StorageError, ReserveError):
        roll_back(array.axial, mark)
        return None
    return ahead


def _take(array: Resizable, change: Change, old: int, new: int) -> None:
    """Grow the grid by the steps of a change, from `old` to `new` bytes."""
    grow_by(array.axial, change.steps)
    if new > old:
        store, runs = array._store, None
        now = store.now
        if now.unclean or change.cuts:
            runs = _runs_needed(array, change, (new - old) // array.chunk_bytes)
        store.reserve(old, new, runs)
        if runs is not None and now.sums is not None and any(now.header.fill):
            _note_bytes(array, old, new)  # some are holes, which hold no fill value


def _take_back_room(array: Resizable, mark: Any, old: int) -> None:
    """Restore the grid to its state at a mark, of `old` bytes."""
    tried = array._grid_bytes
    roll_back(array.axial, mark)
    if LIMIT > tried > old:
        array._store.release(old)
        array._forget_touched()


def _runs_needed(
    array: Resizable, change: Change, n_chunks: int
) -> Iterator[tuple[int, int]] | None:
    """Yield runs of bytes that need room, of `n_chunks` that the grid has gained; None: of all.

    Where bounds have moved in, now or before, the grid has chunks that no growth to come need ever
    reach, as beside a window that rolls along two axes, or behind an axis that was long as long as
    another had no elements: those get no room.  Should they be reached, `renew` makes them ready.
    """
    if _grows_by_holes(array):
        return None
    boxes = list(change.chunks_gained())
    wanted = sum(_volume(*box) for box in boxes)
    n_runs = sum(count_runs(array.axial, *box) for box in boxes)
    # Or it is not worth the many calls.
    if n_runs > MANY or 4 * wanted >= 3 * n_chunks:
        return None
    return _in_bytes(array, _addresses(array, boxes))


def _grows_by_holes(array: Resizable) -> bool:
    """Tell whether new chunks need nothing, as zeros are free (I8).

    There may be far more chunks than anybody could go through.
    """
    header = array._store.now.header
    return header.sparse and not any(header.fill)


# -- what a change makes new in chunks that there were -------------------------------------------


def renew(array: Resizable, change: Change, clean: bool) -> None:
    """Make ready what the old grid has of the new parts: space, and, if `clean`, the fill value."""
    store = array._store
    now = store.now
    held = now.held
    if held is not None and not held.cut.isdisjoint(change.sides(outwards=True)):
        raise ArgumentError(
            f"cannot grow {array._name()} where it was cut in this block of extarray.commit, "
            "since the block may still be undone; grow it after the block"
        )
    if store.commits is not None:
        store.commits.begin_renewal()
    array._forget_touched()
    parts = list(change.old_chunks_of_new_parts())
    if not parts:
        return
    known = change.chunks_known
    # What the block has cut off lies in chunks that the bounds reach, unless nothing is left.
    needs_none = held is None or all(change.before.shape)
    for start, stop in parts:
        # What chunks hold that the bounds do not reach as yet is of no use: it is not read.
        boxes = outside(*change.chunks_of(start, stop), *known)
        if _grows_by_holes(array):
            # Between may lie what the block has cut off, and what other writers append.
            far = now.others is None and (held is None or not held.cut)
            pieces = _addresses_around(array, boxes, known, far)
        else:
            pieces = _addresses(array, boxes)
        for run in _in_bytes(array, pieces):
            now.keep(*run)
            if clean and needs_none and now.sums is not None:
                _note_bytes(array, *run)
            store.renew(*run, clean and needs_none)
        if clean:
            inner = change.elements_of(*known) if needs_none else (start, stop)
            _restore_fill(array, tuple(map(max, start, inner[0])), tuple(map(min, stop, inner[1])))


# -- what a change has cut off -------------------------------------------------------------------


def _give_back(array: Resizable, change: Change) -> None:
    """Let the store give back what a change has cut off, or leave that to its last writer."""
    others = array._store.now.others
    if others is None:
        _give_back_chunks(array, change)
    else:  # writers that do not know of the cut may store to these chunks
        array._forget_touched()
        others.note_seen()


def _give_back_chunks(array: Resizable, change: Change) -> None:
    """Let the store give back the chunks that hold none of the new bounds."""
    store = array._store
    now = store.now
    if now.held is not None:
        now.held.cut |= change.sides(outwards=False)
    needed = change.chunks_needed
    boxes = list(change.chunks_cut())
    if boxes:
        if store.commits is not None:
            store.commits.settle()
        array._forget_touched()
        start = stop = 0
        for run in _in_bytes(array, _addresses_with_pages(array, boxes, needed)):
            if not start <= run[0] <= run[1] <= stop:  # or it was around the one before
                start, stop = _with_unneeded(array, *run, needed)
                if now.sums is not None:
                    _note_bytes(array, start, stop)
                now.give_back(start, stop)
        give_back_freed(array)


def give_back_outside(array: Resizable, low: Index, high: Index) -> None:
    """Let the store give back all chunks that hold nothing of a box, in elements of the grid."""
    whole = tuple(map(operator.mul, array.grid, array.chunks))
    bounds = Bounds(whole, (0,) * array.ndim, array.grid)
    _give_back_chunks(array, to_box(bounds, array.chunks, low, high, LIMIT))


def _addresses(array: Resizable, boxes: Iterable[Corners]) -> Iterator[Runs]:
    """Yield runs of addresses, many at a time, that boxes of chunks take."""
    return itertools.chain.from_iterable(runs_together(array.axial, *box) for box in boxes)


def _addresses_around(
    array: Resizable, boxes: Iterable[Corners], needed: Corners, far: bool = True
) -> Iterator[Runs]:
    """Yield runs of addresses, many at a time, of boxes of chunks that are not needed.

    Where they have many, others that are not needed come with them, for far fewer runs: if
    `far`, and few are needed, all up to the next of those; or else what lies beside each box.
    """
    axial, boxes = array.axial, list(boxes)
    if sum(_volume(*box) for box in boxes) > MANY and far and _volume(*needed) <= MANY:
        first = tuple(map(min, zip(*(first for first, _ in boxes), strict=True)))
        last = tuple(map(max, zip(*(last for _, last in boxes), strict=True)))
        yield runs_between(axial, first, last, address_runs(axial, *needed))
        return
    for box in boxes:
        if _volume(*box) > MANY:
            wide = _widened(array, box, needed)
            box = min(wide, box, key=lambda one: count_runs(axial, *one))
        yield from runs_together(axial, *box)


def _widened(array: Resizable, box: Corners, needed: Corners) -> Corners:
    """A box around one of which no chunk is needed, with all indices of every axis but one."""
    (first, last), k = box, array.ndim
    apart = (j for j in range(k) if last[j] <= needed[0][j] or needed[1][j] <= first[j])
    axis = next(apart, None)
    return (
        tuple(first[j] if j == axis else 0 for j in range(k)),
        tuple(last[j] if j == axis else n for j, n in enumerate(array.axial.grid)),
    )


def _addresses_with_pages(
    array: Resizable, boxes: Iterable[Corners], needed: Corners
) -> Iterator[Runs]:
    """Runs of addresses around boxes of chunks, but those too small for a page.

    Those lie between chunks that are needed, and may be very many.
    """
    size, end = array.chunk_bytes, array.axial.size
    for firsts, lasts in _addresses_around(array, boxes, needed):
        if size < mmap.PAGESIZE:
            small = (lasts - firsts) * size < mmap.PAGESIZE
            for at, inside in ((firsts - 1, firsts > 0), (lasts, lasts < end)):
                small &= inside
                small[small] = _are_in(array, needed, at[small])
            firsts, lasts = firsts[~small], lasts[~small]
        yield firsts, lasts


def give_back_freed(array: Resizable) -> None:
    """Let the store give back what was cut off and nobody uses any more."""
    store = array._store
    now = store.now
    if now.freed.ready:
        if store.commits is not None:
            store.commits.begin_cut()
        runs = now.freed.take()
        if now.sums is not None:  # what was noted before may have been flushed since
            for run in runs:
                _note_bytes(array, *run)
        store.punch(runs)


def _with_unneeded(array: Resizable, start: int, stop: int, needed: Corners) -> tuple[int, int]:
    """Bytes to give back, and what is around them, up to the next chunk that is needed.

    The system gives back whole pages, and in the cache of a file it may have made many out of a
    hole in which one was written.  So the last chunk that is cut off of a piece of them gives
    back all of it.
    """
    size, piece = array.chunk_bytes, array._store.now.given_back_together
    low = max(start - start % piece, start - LOOKED_AT * size)
    high = min(stop + -stop % piece, stop + LOOKED_AT * size, array.axial.size * size)
    # Mostly something is needed near by, or nothing at all.
    first, at, n = low // size, start // size, 8
    while at > first:
        at, before = max(first, at - n), at
        found = _those_in(array, needed, at, before)
        if found.size:
            low = (int(found[-1]) + 1) * size
            break
        n *= 4
    last, at, n = -(-high // size), stop // size, 8
    while at < last:
        before, at = at, min(last, at + n)
        found = _those_in(array, needed, before, at)
        if found.size:
            high = int(found[0]) * size
            break
        n *= 4
    return low, high


def _those_in(array: Resizable, box: Corners, first: int, stop: int) -> NDArray[np.int64]:
    """Return those of the chunks first ... stop - 1 that lie in a box."""
    addresses = np.arange(first, stop)
    return addresses[_are_in(array, box, addresses)]


def _are_in(array: Resizable, box: Corners, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which chunks lie in a box."""
    indices = array.axial.indices(addresses)
    inside: NDArray[np.bool_] = np.all((indices >= box[0]) & (indices < box[1]), axis=1)
    return inside


def _note_bytes(array: Resizable, start: int, stop: int) -> None:
    """Note as written the chunks in which bytes start ... stop - 1 of the file lie."""
    first, last = start // array.chunk_bytes, -(-stop // array.chunk_bytes)
    core: Any = array
    sums = array._store.now.sums
    assert sums is not None
    if not any(array._store.now.header.fill):  # beyond the table are holes: their sums stay right
        last = min(last, sums.reach)
    for low in range(first, last, MANY):
        note_written(core, np.arange(low, min(last, low + MANY)))


def _in_bytes(array: Resizable, pieces: Iterable[Runs]) -> Iterator[tuple[int, int]]:
    """Yield the runs of bytes, one by one, of runs of addresses."""
    size = array.chunk_bytes
    for firsts, lasts in pieces:
        yield from zip((firsts * size).tolist(), (lasts * size).tolist(), strict=True)


def _restore_fill(array: Resizable, start: Index, stop: Index) -> None:
    """Give the fill value back to a box of allocated elements, which may be empty."""
    if not all(map(operator.lt, start, stop)):
        return
    fill = np.frombuffer(array._store.now.header.fill, array.dtype).reshape(())
    wanted = np.frombuffer(array._store.now.header.fill, np.uint8)
    extents = [high - low for low, high in zip(start, stop, strict=True)]
    limit = config.max_memory // 4
    for part in tiles(extents, array.chunks, array.itemsize, limit=limit, split=False):
        low = [n + s.start for n, s in zip(start, part, strict=True)]
        high = [n + s.stop for n, s in zip(start, part, strict=True)]
        block = array._read_box(low, high)
        found = block.reshape(-1).view(np.uint8).reshape(block.size, -1)
        differ = (found != wanted).any(axis=1).reshape(block.shape)
        if not differ.any():
            continue
        if not array._store.now.header.sparse:
            array._write_box(low, high, fill)
            continue
        # Elements that differ have disk space; holes around them may have none left.
        for row in np.argwhere(differ.any(axis=-1)):
            places = np.flatnonzero(differ[tuple(row)])
            for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
                first = [*(row + low[:-1]), low[-1] + run[0]]
                last = [*(row + low[:-1] + 1), low[-1] + run[-1] + 1]
                array._write_box(first, last, fill)


def _volume(start: Index, stop: Index) -> int:
    """Count the chunks in a box."""
    return math.prod(map(operator.sub, stop, start))
