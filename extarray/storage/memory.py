"""An array in memory: the store of arrays without files."""

from __future__ import annotations

import math
import mmap
from functools import lru_cache, partial
from operator import lt
from typing import TYPE_CHECKING

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import record_at, replay_log
from extarray._core._mapping import Region
from extarray.common.threads import run_in_shares
from extarray.grid.bounds import Bounds
from extarray.grid.chunking import place_of
from extarray.storage.store import Held, Present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from extarray.format.header import Header

__all__ = ["MemoryStore"]

_FILL_BYTES = 1 << 16  # fits a cache while it is repeated


@lru_cache(maxsize=8)
def _repeated(fill: bytes) -> bytes:
    """Return a fill value repeated to a block, for copying."""
    return fill * (_FILL_BYTES // len(fill))


class MemoryStore:
    """The store of an array in anonymous memory.

    Attributes
    ----------
    now : Present
    """

    files = commits = None
    durability = None

    def __init__(
        self, header: Header, shape: tuple[int, ...], axial: Axial, attrs: str, growth: int
    ) -> None:
        self.now = now = Present("r+", "memory", mmap.PAGESIZE)
        now.header = header
        now.attrs = attrs
        now.growth = growth
        now.state = Bounds(shape, (0,) * header.ndim, axial.grid)
        data_bytes = place_of(axial.size, header.chunk_bytes)
        now.region = Region.memory(data_bytes)
        self._has_fill = any(header.fill)  # other than zeros
        self._used = 0
        self._shown = 0  # bytes that the array lost again, but views may still show
        self.reserve(0, data_bytes)

    @property
    def group(self) -> MemoryShare:
        """The share of this store in a commit of several arrays."""
        return MemoryShare(self)

    def take_back(self) -> None:
        """Restore zeros where the grid had grown."""
        pair = self.now
        size = place_of(math.prod(pair.state.grid), pair.header.chunk_bytes)
        self._shown = max(self._shown, self._used)
        self.release(size)

    def reserve(self, old: int, new: int, runs: Iterable[tuple[int, int]] | None = None) -> None:
        """Make room for chunks of the fill value: from `old` bytes to `new` bytes.

        If `runs` of bytes are given, only those are filled, and the rest stays zero.
        """
        pair = self.now
        assert pair.region is not None
        pair.region.commit(new)
        self._used = new
        if self._has_fill:
            # The system clears pages as they are touched, which takes longer than filling them.
            for run in ((old, new),) if runs is None else runs:
                self._fill(*run)
        elif old < self._shown:
            pair.region.fill(_repeated(b"\0"), old, min(new, self._shown))

    def _fill(self, start: int, stop: int) -> None:
        """Fill bytes with the fill value, with as many threads as pay off."""
        fill, region = self.now.header.fill, self.now.region
        assert region is not None
        source = _repeated(fill) if len(fill) < _FILL_BYTES else fill
        run_in_shares(partial(region.fill, source), start, stop, len(fill))

    def release(self, old: int) -> None:
        """Undo `reserve`: bytes from `old` on are zero again."""
        pair = self.now
        if pair.region is not None and self._used > old:
            pair.region.discard(old, self._used)
            self._used = old

    def commit(self, bounds: Bounds, axial: Axial, data_bytes: int, cuts: bool) -> None:
        """Make new bounds count; memory has no reader but this process."""
        # One assignment, in case the process is forked meanwhile.
        self.now.state = bounds

    def as_committed(self, axial: Axial) -> Axial:
        """Return the axial vectors without uncommitted growth.

        A forked child needs this if a thread of the parent was about to change the bounds.

        Raises
        ------
        CorruptError
            Their number of axes differs: the parent was about to add one.
        """
        pair = self.now
        records = [record_at(axial, n) for n in range(axial.segments)]
        # The grid before a committed growth is smaller than the committed grid.
        known = [r for n, r in enumerate(records) if not n or any(map(lt, r[2], pair.state.grid))]
        axes, sides, grids = zip(*known, strict=True)
        found = replay_log(
            Axial,
            np.array(axes, np.uint8),
            np.array(sides, np.uint8),
            np.array(grids, np.int64).reshape(len(known), -1 if axial.grid else 0),
            pair.state.grid,
        )
        pair.unclean = True
        self.release(place_of(found.size, pair.header.chunk_bytes))
        return found

    def add_axis(
        self,
        chunks: tuple[int, ...],
        axial: Axial,
        shape: tuple[int, ...],
        offset: tuple[int, ...],
        attrs: str,
    ) -> None:
        """Add an axis."""
        pair = self.now
        pair.header = pair.header._replace(chunks=chunks)
        pair.state, pair.attrs = Bounds(shape, offset, axial.grid), attrs

    def renew(self, start: int, stop: int, clean: bool) -> None:
        """Prepare unused bytes for new use; if `clean`, with the fill value."""
        pair = self.now
        if not clean:  # touching them allocates memory
            return
        assert pair.region is not None
        if self._has_fill:
            self._fill(start, stop)
        else:
            pair.region.discard(start, stop)

    def punch(self, runs: list[tuple[int, int]]) -> None:
        """Return memory to the system; it reads as zeros afterwards."""
        pair = self.now
        for start, stop in runs:
            if pair.region is not None:
                pair.region.discard(start, stop)

    def set_growth(self, growth: int) -> None:
        """Keep the growth policy."""
        self.now.growth = growth

    def set_attrs(self, attrs: str) -> None:
        """Keep the attributes (a JSON text)."""
        self.now.attrs = attrs

    def close(self) -> None:
        """Drop the memory; views keep it alive."""
        self.now.region = None


class MemoryShare:
    """The share of an array in memory in a commit of several; see `GroupShare`."""

    changed = None  # memory has nothing to commit to a disk

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def hold(self) -> None:
        """Save the state for `roll_back`."""
        now = self._store.now
        now.held = Held((now.state, now.attrs, now.unclean))

    def roll_back(self) -> bool:
        """Go back to before `hold`; return whether the grid has grown since."""
        now = self._store.now
        held, now.held = now.held, None
        assert held is not None
        reached = now.state
        now.state, now.attrs, was_unclean = held.before
        now.unclean = now.unclean or was_unclean or reached != now.state
        return reached.grid != now.state.grid

    def take_back(self, abandon: Callable[[int], None]) -> None:
        """Restore zeros where the grid had grown; views keep their memory."""
        self._store.take_back()

    def forget(self) -> bool:
        """Keep the changes, in a forked child; return False: the array does not go back."""
        self.finish()
        return False

    def finish(self) -> None:
        """Drop the saved state, and free what was cut off."""
        now = self._store.now
        held, now.held = now.held, None
        assert held is not None
        for start, stop in held.freed:
            now.give_back(start, stop)
