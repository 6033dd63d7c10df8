"""A change of bounds, carried out step by step or taken back whole.

The steps: reserve room for new chunks; renew the new parts of old chunks; write the elements of an
append; write the log and the superblock; show the bounds to readers in this process; and last,
when the change counts, give back the space of the parts that it cut off.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import operator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray._core._history import grow_by, mark_of, roll_back
from extarray._core._transfers import note_written
from extarray.common.arguments import as_int
from extarray.common.config import config
from extarray.common.errors import ArgumentError, LimitError, ReserveError, StorageError
from extarray.common.lazy import LazyImports, LazyModule
from extarray.format.constants import LIMIT
from extarray.grid.bounds import Bounds, Change, outside, to_box
from extarray.grid.chunking import chunks_before, place_of
from extarray.grid.tiles import tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.facts import Resizable
    from extarray.grid import address_runs
    from extarray.grid.bounds import Index

    Corners = tuple[Index, Index]  # of a box: its first indices, and those after its last
    Runs = tuple[NDArray[np.int64], NDArray[np.int64]]  # starts and stops of runs
else:
    address_runs = LazyModule("extarray.grid.address_runs")

__all__ = [
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

# Chunks to search on either side of a run that is cut off.
LOOKED_AT = 1 << 12
# More chunks than this are processed in pieces, or not one by one at all.
MANY = 1 << 16


_later = LazyImports({"extarray.array.freezing": "notice", "extarray.grid.policy": "decode_policy"})


# -- arguments -----------------------------------------------------------------------------------


def is_start(side: str) -> bool:
    """Tell whether a side is the start of an axis; refuse anything but a side."""
    if side not in ("end", "start"):
        raise ArgumentError(f"side {side!r} is not valid; use 'end' or 'start'")
    return side == "start"


def count(by: SupportsIndex) -> int:
    """Return an argument that counts elements."""
    n = as_int(by, "by")
    if n < 0:
        raise ArgumentError(f"by must be at least 0, not {n}; use extend to grow, shrink to cut")
    return n


def filling_error(array: Resizable, what: str = "change the bounds of") -> ArgumentError:
    """Return the error for a change of bounds by code that runs during an append."""
    return ArgumentError(f"cannot {what} {array._name()} during an append to it")


# -- the transaction -----------------------------------------------------------------------------


def carry_out(
    array: Resizable,
    change: Change,
    fill: Callable[[], None] | None = None,
    exactly: bool = False,
) -> None:
    """Give an array new bounds; on an error nothing has changed.

    `fill` writes the elements of the only new part.  With `exactly` the growth policy allocates
    nothing ahead.
    """
    if array._filling:  # the call comes from code that an append runs
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
            _publish(array, change)  # interrupted after the commit
        else:
            now.unclean = was_unclean or is_append
            if mark is not None:
                _take_back_room(array, mark, old)
        raise
    finally:
        array._filling = False
    if now.frozen is not None and not change.cuts:
        _later.notice(array)
    if change.cuts:
        # The bounds count already: space that cannot be given back stays taken.
        with contextlib.suppress(StorageError):
            _give_back(array, change)


def _publish(array: Resizable, change: Change) -> None:
    """Show committed bounds; from now on no new user can reach the parts that they cut off."""
    if change.cuts:
        array._store.now.users.turn()
    array._set_bounds(change.after.shape, change.after.offset)


# -- room ----------------------------------------------------------------------------------------


def _make_room(
    array: Resizable, change: Change, mark: Any, old: int, exactly: bool
) -> tuple[Change, int]:
    """Grow the grid, ahead as the policy says if possible, and reserve its room.

    Return the change as carried out, and the bytes of the grid.
    """
    store = array._store
    now = store.now
    new = place_of(math.prod(change.after.grid), array.chunk_bytes)
    if new >= LIMIT:
        raise LimitError(
            f"cannot grow to {change.after.shape}: its chunks would take {new} bytes, too close "
            "to 2**63"
        )
    if new and not old:
        array._place_elements()
    ahead = None
    if not exactly and now.growth:  # 0 is "exact"
        ahead = _make_room_ahead(array, change, mark, old)
    if ahead is None:
        _take(array, change, old, new)
    if now.region is not array._region:
        array._attach_store()
    return (change, new) if ahead is None else (ahead, array._grid_bytes)


def _make_room_ahead(array: Resizable, change: Change, mark: Any, old: int) -> Change | None:
    """Grow the grid as the policy says, if there is room; return the change, or None."""
    ahead = change.ahead(_later.decode_policy(array._store.now.growth), LIMIT)
    if ahead is None:
        return None
    new = place_of(math.prod(ahead.after.grid), array.chunk_bytes)
    if new >= LIMIT:
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
            runs = _runs_needed(array, change, chunks_before(new - old, array.chunk_bytes))
        store.reserve(old, new, runs)
        if runs is not None and now.sums is not None and any(now.header.fill):
            _note_bytes(array, old, new)  # chunks without room are holes, not the fill value


def _take_back_room(array: Resizable, mark: Any, old: int) -> None:
    """Restore the grid to its state at a mark, when it had `old` bytes."""
    tried = array._grid_bytes
    roll_back(array.axial, mark)
    if LIMIT > tried > old:
        array._store.release(old)
        array._forget_touched()


def _runs_needed(
    array: Resizable, change: Change, n_chunks: int
) -> Iterator[tuple[int, int]] | None:
    """Yield the runs of bytes that need room, of `n_chunks` new chunks; None: all need it.

    If bounds have moved in, now or before, the grid has chunks that later growth may never
    reach: beside a window that rolls along two axes, or behind an axis that was long while another
    had no elements.  Those get no room; if growth does reach them, `renew` makes them ready.
    """
    if _grows_by_holes(array):
        return None
    boxes = list(change.chunks_gained())
    wanted = sum(_volume(*box) for box in boxes)
    n_runs = sum(address_runs.count_runs(array.axial, *box) for box in boxes)
    # Many calls would cost more than they save.
    if n_runs > MANY or 4 * wanted >= 3 * n_chunks:
        return None
    return _in_bytes(array, _addresses(array, boxes))


def _grows_by_holes(array: Resizable) -> bool:
    """Tell whether new chunks need no work, as zeros are free (I8).

    There may be far too many to go through.
    """
    header = array._store.now.header
    return header.sparse and not any(header.fill)


# -- new parts of old chunks ---------------------------------------------------------------------


def renew(array: Resizable, change: Change, clean: bool) -> None:
    """Make ready the new parts that lie in old chunks: space, and the fill value if `clean`."""
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
    # The block's cuts lie in chunks that the bounds still reach, unless the bounds are empty.
    needs_none = held is None or all(change.before.shape)
    for start, stop in parts:
        # Chunks that the bounds do not reach yet hold nothing useful: they are not read.
        boxes = outside(*change.chunks_of(start, stop), *known)
        if _grows_by_holes(array):
            # Parts that the block has cut off, or other writers append, may lie in between.
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


# -- parts that a change cuts off ----------------------------------------------------------------


def _give_back(array: Resizable, change: Change) -> None:
    """Let the store give back the parts cut off; of several writers, the last to learn does it."""
    others = array._store.now.others
    if others is None:
        _give_back_chunks(array, change)
    else:  # writers that do not know of the cut yet may store to these chunks
        array._forget_touched()
        others.note_seen()


def _give_back_chunks(array: Resizable, change: Change) -> None:
    """Let the store give back the chunks with no element inside the new bounds."""
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
            if not start <= run[0] <= run[1] <= stop:  # not inside the previous run
                start, stop = _with_unneeded(array, *run, needed)
                if now.sums is not None:
                    _note_bytes(array, start, stop)
                now.give_back(start, stop)
        give_back_freed(array)


def give_back_outside(array: Resizable, low: Index, high: Index) -> None:
    """Let the store give back all chunks with no element of a box, in elements of the grid."""
    whole = tuple(map(operator.mul, array.grid, array.chunks))
    bounds = Bounds(whole, (0,) * array.ndim, array.grid)
    _give_back_chunks(array, to_box(bounds, array.chunks, low, high, LIMIT))


def _addresses(array: Resizable, boxes: Iterable[Corners]) -> Iterator[Runs]:
    """Yield runs of addresses that boxes of chunks take, in batches."""
    return itertools.chain.from_iterable(
        address_runs.runs_together(array.axial, *box) for box in boxes
    )


def _addresses_around(
    array: Resizable, boxes: Iterable[Corners], needed: Corners, far: bool = True
) -> Iterator[Runs]:
    """Yield runs of addresses, in batches, that cover boxes of unneeded chunks.

    Large boxes are widened by other unneeded chunks, for far fewer runs: if `far`, and few chunks
    are needed, up to the next needed ones; otherwise by the chunks beside each box.
    """
    axial, boxes = array.axial, list(boxes)
    if sum(_volume(*box) for box in boxes) > MANY and far and _volume(*needed) <= MANY:
        first = tuple(map(min, zip(*(first for first, _ in boxes), strict=True)))
        last = tuple(map(max, zip(*(last for _, last in boxes), strict=True)))
        yield address_runs.runs_between(
            axial, first, last, address_runs.address_runs(axial, *needed)
        )
        return
    for box in boxes:
        if _volume(*box) > MANY:
            wide = _widened(array, box, needed)
            box = min(wide, box, key=lambda one: address_runs.count_runs(axial, *one))
        yield from address_runs.runs_together(axial, *box)


def _widened(array: Resizable, box: Corners, needed: Corners) -> Corners:
    """Return a box around one, with no needed chunk and all indices of every axis but one."""
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
    """Yield runs of addresses around boxes of chunks, but for those smaller than a page.

    Those lie between needed chunks, and may be very many.
    """
    size, end = array.chunk_bytes, array.axial.size
    for firsts, lasts in _addresses_around(array, boxes, needed):
        if size < mmap.PAGESIZE:
            small = place_of(lasts - firsts, size) < mmap.PAGESIZE
            for at, inside in ((firsts - 1, firsts > 0), (lasts, lasts < end)):
                small &= inside
                small[small] = _are_in(array, needed, at[small])
            firsts, lasts = firsts[~small], lasts[~small]
        yield firsts, lasts


def give_back_freed(array: Resizable) -> None:
    """Let the store give back the parts cut off that nobody uses any more."""
    store = array._store
    now = store.now
    if now.freed.ready:
        if store.commits is not None:
            store.commits.begin_cut()
        runs = now.freed.take()
        if now.sums is not None:  # a flush may have settled earlier notes
            for run in runs:
                _note_bytes(array, *run)
        store.punch(runs)


def _with_unneeded(array: Resizable, start: int, stop: int, needed: Corners) -> tuple[int, int]:
    """Return the bytes to give back around a run, up to the next needed chunk on either side.

    The system frees whole pages, and writing one page of a hole in a cached file may have allocated
    many.  So the last chunk of a piece that is cut off gives back the whole piece.
    """
    size, piece = array.chunk_bytes, array._store.now.given_back_together
    far = place_of(LOOKED_AT, size)
    low = max(start - start % piece, start - far)
    high = min(stop + -stop % piece, stop + far, place_of(array.axial.size, size))
    # Search in growing steps: mostly a needed chunk is near, or there is none.
    first, at, n = chunks_before(low, size), chunks_before(start, size), 8
    while at > first:
        at, before = max(first, at - n), at
        found = _those_in(array, needed, at, before)
        if found.size:
            low = place_of(int(found[-1]) + 1, size)
            break
        n *= 4
    last, at, n = chunks_before(high + size - 1, size), chunks_before(stop, size), 8
    while at < last:
        before, at = at, min(last, at + n)
        found = _those_in(array, needed, before, at)
        if found.size:
            high = place_of(int(found[0]), size)
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
    """Note as written the chunks that hold bytes start ... stop - 1 of the file."""
    size = array.chunk_bytes
    first, last = chunks_before(start, size), chunks_before(stop + size - 1, size)
    core: Any = array
    sums = array._store.now.sums
    assert sums is not None
    if not any(array._store.now.header.fill):  # beyond the table are holes, whose sums stay right
        last = min(last, sums.reach)
    for low in range(first, last, MANY):
        note_written(core, np.arange(low, min(last, low + MANY)))


def _in_bytes(array: Resizable, pieces: Iterable[Runs]) -> Iterator[tuple[int, int]]:
    """Yield runs of addresses as runs of bytes, one by one."""
    size = array.chunk_bytes
    for firsts, lasts in pieces:
        places = (place_of(ends, size).tolist() for ends in (firsts, lasts))
        yield from zip(*places, strict=True)


def _restore_fill(array: Resizable, start: Index, stop: Index) -> None:
    """Restore the fill value in a box of allocated elements, which may be empty."""
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
        # Elements that differ have disk space; there may be none left for the holes around them.
        for row in np.argwhere(differ.any(axis=-1)):
            places = np.flatnonzero(differ[tuple(row)])
            for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
                first = [*(row + low[:-1]), low[-1] + run[0]]
                last = [*(row + low[:-1] + 1), low[-1] + run[-1] + 1]
                array._write_box(first, last, fill)


def _volume(start: Index, stop: Index) -> int:
    """Count the chunks in a box."""
    return math.prod(map(operator.sub, stop, start))
