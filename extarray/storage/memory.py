"""An array in memory: the store of arrays without files."""

from __future__ import annotations

import mmap
from dataclasses import replace
from functools import partial
from operator import lt
from typing import TYPE_CHECKING

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import record_at, replay_log
from extarray._core._mapping import Region, Users
from extarray.common.threads import run_in_shares
from extarray.grid.bounds import Bounds
from extarray.storage.pending import Freed, Held, without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from extarray.format.header import Header

__all__ = ["MemoryStore"]


class MemoryStore:
    """An array in anonymous memory.

    Attributes
    ----------
    growth : int
        The growth policy.
    unclean : bool
        Elements of the grid outside the bounds may hold something other than the fill value: the
        bounds have moved in, or an append failed.
    """

    files = None
    path = None
    mode = "r+"
    is_forked = False
    engine = "memory"
    hollow = False
    cuts = None
    cuts_known = 0
    durability = None
    is_durable = False
    shared = False
    sums = None
    trust = None
    verify = "never"
    given_back_together = mmap.PAGESIZE

    def __init__(
        self, header: Header, shape: tuple[int, ...], axial: Axial, attrs: str, growth: int
    ) -> None:
        self.header = header
        self.attrs = attrs
        self.growth = growth
        self.state = Bounds(shape, (0,) * header.ndim, axial.grid)
        self.unclean = False
        self.held: Held | None = None
        data_bytes = axial.size * header.chunk_bytes
        self.region: Region | None = Region.memory(data_bytes)
        self.users = Users()
        self.freed = Freed(self.users)
        self._has_fill = any(header.fill)  # not only zeros
        self._used = 0
        self._shown = 0  # bytes that the array lost again, and of which views may be left
        self.reserve(0, data_bytes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Bounds that are committed."""
        return self.state.shape

    @property
    def offset(self) -> tuple[int, ...]:
        """Elements of the grid before the bounds."""
        return self.state.offset

    @property
    def grid(self) -> tuple[int, ...]:
        """Grid that is committed, in chunks."""
        return self.state.grid

    @property
    def group(self) -> MemoryShare:
        """The share of this store in a commit of several arrays."""
        return MemoryShare(self)

    def take_back(self) -> None:
        """Restore zeros where the grid had grown."""
        size = self.header.chunk_bytes
        for extent in self.grid:
            size *= extent
        self._shown = max(self._shown, self._used)
        self.release(size)

    def reserve(self, old: int, new: int, runs: Iterable[tuple[int, int]] | None = None) -> None:
        """Make room for chunks: from `old` bytes to `new` bytes, all of them the fill value.

        Where `runs` of bytes are given, only those get it, and zeros are left between them.
        """
        assert self.region is not None
        self.region.commit(new)
        self._used = new
        if self._has_fill:
            fill = self.header.fill
            # The system clears pages as they are touched, which takes longer than filling them.
            for run in ((old, new),) if runs is None else runs:
                run_in_shares(partial(self.region.fill, fill), *run, len(fill))
        elif old < self._shown:
            self.region.fill(b"\0", old, min(new, self._shown))

    def release(self, old: int) -> None:
        """Undo `reserve`: what follows `old` bytes is zero again."""
        if self.region is not None and self._used > old:
            self.region.discard(old, self._used)
            self._used = old

    def commit(self, bounds: Bounds, axial: Axial, data_bytes: int, cuts: bool) -> None:
        """Make new bounds count; memory has no reader but this process."""
        # In one step, for a process that is forked meanwhile.
        self.state = bounds

    def as_committed(self, axial: Axial) -> Axial:
        """Return the axial vectors without what is not committed.

        For a forked child: a thread of the parent was about to change the bounds.

        Raises
        ------
        CorruptError
            They have another number of axes: it was about to add one.
        """
        records = [record_at(axial, n) for n in range(axial.segments)]
        # The grid before a growth that counts is smaller than the one that counts.
        known = [r for n, r in enumerate(records) if not n or any(map(lt, r[2], self.grid))]
        axes, sides, grids = zip(*known, strict=True)
        found = replay_log(
            Axial,
            np.array(axes, np.uint8),
            np.array(sides, np.uint8),
            np.array(grids, np.int64).reshape(len(known), -1 if axial.grid else 0),
            self.grid,
        )
        self.unclean = True
        self.release(found.size * self.header.chunk_bytes)
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
        self.header = replace(self.header, chunks=chunks)
        self.state, self.attrs = Bounds(shape, offset, axial.grid), attrs

    def renew(self, start: int, stop: int, clean: bool) -> None:
        """Make bytes that do not count ready to be used again; if `clean`, with the fill value."""
        if not clean:  # memory comes when it is touched
            return
        assert self.region is not None
        if self._has_fill:
            run_in_shares(
                partial(self.region.fill, self.header.fill), start, stop, len(self.header.fill)
            )
        else:
            self.region.discard(start, stop)

    def keep(self, start: int, stop: int) -> None:
        """Do not give back bytes that a growth uses again."""
        self.freed.keep(start, stop)
        if self.held is not None:
            self.held.freed = without(self.held.freed, start, stop)

    def give_back(self, start: int, stop: int) -> None:
        """Leave it to `punch`, later, to give back the memory of bytes that no longer count."""
        if self.held is not None:
            self.held.freed.append((start, stop))
        else:
            self.freed.add(start, stop)

    def punch(self, runs: list[tuple[int, int]]) -> None:
        """Give memory back to the system: it is zero from then on."""
        for start, stop in runs:
            if self.region is not None:
                self.region.discard(start, stop)

    def set_growth(self, growth: int) -> None:
        """Keep the growth policy."""
        self.growth = growth

    def set_attrs(self, attrs: str) -> None:
        """Keep the attributes (a JSON text)."""
        self.attrs = attrs

    def close(self) -> None:
        """Let go of the memory; views keep it alive."""
        self.region = None


class MemoryShare:
    """The share of an array in memory in a commit of several; see `GroupShare`.

    Parameters
    ----------
    store : MemoryStore
    """

    changed = None  # nothing has to count on a disk

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def hold(self) -> None:
        """Keep what `roll_back` needs."""
        store = self._store
        store.held = Held((store.state, store.attrs, store.unclean))

    def roll_back(self) -> bool:
        """Go back to before `hold`; return whether the grid has grown since."""
        store = self._store
        held, store.held = store.held, None
        assert held is not None
        now = store.state
        store.state, store.attrs, was_unclean = held.before
        store.unclean = store.unclean or was_unclean or now != store.state
        return now.grid != store.grid

    def take_back(self, abandon: Callable[[int], None]) -> None:
        """Restore zeros where the grid had grown; views keep their memory."""
        self._store.take_back()

    def forget(self) -> bool:
        """Keep what was done, in a forked child; return False: the array is not to go back."""
        self.finish()
        return False

    def finish(self) -> None:
        """Drop what `roll_back` needs, and give back what was freed."""
        store = self._store
        held, store.held = store.held, None
        assert held is not None
        for start, stop in held.freed:
            store.give_back(start, stop)
