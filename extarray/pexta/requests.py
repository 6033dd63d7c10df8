"""Requests that all ranks wait for together.

A transfer consists of moves of each rank, made at once or one after the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from extarray import ExtArrayError
from extarray.common.on_error import OnError
from extarray.mpi.global_array import (
    add_transfer,
    drop_transfer,
    show_to_all,
    zones_in_memory,
)
from extarray.mpi.zones import extents
from extarray.pexta.sections import Section, Slabs, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.mpi import GlobalArray
    from extarray.mpi.requests import Request as RankRequest
    from extarray.mpi.runtime import Agreement
    from extarray.pexta.diskarrays import DiskArray
    from extarray.pexta.session import Session

__all__ = ["Moves", "Part", "Request", "Together", "Transfer"]


class _Move(NamedTuple):
    """A move that one rank makes at once."""

    disk: Box  # in the disk array
    block: NDArray[Any]  # elements, with the axes of the disk array
    # Copies to make between the global array and parts of the block; none if the block is memory of
    # the global array.
    parts: list[tuple[Box, NDArray[Any]]]


class Moves:
    """The moves of this rank between two sections with the same number of elements.

    All ranks make equally many moves.  If both sections have one shape, each rank moves the
    elements of its own zones of the global array, in place.  Otherwise ranks take turns at parts of
    the disk's section, and reach their elements in the global array by one-sided access.  A rank
    buffers at most `most` elements.
    """

    def __init__(self, memory: Section, disk: Section, g_a: GlobalArray, most: int) -> None:
        self._memory, self._disk, self._g_a = memory, disk, g_a
        self._is_direct = memory.shape == disk.shape
        self._zones, self._most_zones = zones_in_memory(g_a) if self._is_direct else ([], 0)
        share = -(-math.prod(disk.shape) // g_a.comm.size)
        self._slabs = Slabs(disk.shape, max(1, min(most, share)))

    def __len__(self) -> int:
        return self._most_zones if self._is_direct else -(-len(self._slabs) // self._g_a.comm.size)

    def __getitem__(self, number: int) -> _Move:
        """Return a move of this rank; an empty one after its last."""
        return self._in_place(number) if self._is_direct else self._buffered(number)

    def _in_place(self, number: int) -> _Move:
        memory, disk, g_a = self._memory, self._disk, self._g_a
        zone, place = (
            self._zones[number] if number < len(self._zones) else 2 * [(slice(0, 0),) * g_a.ndim]
        )
        box = memory.within(zone)
        local = tuple(
            slice(s.start - z.start + p.start, s.stop - z.start + p.start)
            if s.start < s.stop
            else slice(0)
            for s, z, p in zip(memory.of_array(box), zone, place, strict=True)
        )
        block = disk.turned(memory.turned(g_a.access()[local]))
        return _Move(disk.of_array(box), block, [])

    def _buffered(self, number: int) -> _Move:
        memory, disk, comm = self._memory, self._disk, self._g_a.comm
        mine = number * comm.size + comm.rank
        if mine < len(self._slabs):
            box, first = self._slabs[mine]
        else:
            box, first = (slice(0, 0),) * len(disk.low), 0
        shape = extents(box)
        flat = np.empty(math.prod(shape), self._g_a.dtype)
        parts, at = [], 0
        for run in runs(memory.shape, first, first + flat.size):
            part = flat[at : at + math.prod(extents(run))].reshape(extents(run))
            parts.append((memory.of_array(run), memory.turned(part)))
            at += part.size
        return _Move(disk.of_array(box), disk.turned(flat.reshape(shape)), parts)


class Part(NamedTuple):
    """A part of a transfer: two sections, and which of them the other one becomes equal to."""

    memory: Section
    disk: Section
    write: bool


class Work(Protocol):
    """The work of a request: each rank's part, and the part that all do together."""

    def advance(self, waits: bool) -> bool:
        """Do this rank's part, all of it or without waiting; tell whether it is done."""

    def meet(self) -> bool:
        """Do the common part; tell whether the work is over on all ranks."""


class Request:
    """A transfer or a growth that has begun, for `wait` and `probe`.

    A transfer also ends in the next collective call of its global array, such as ``g_a.sync()``.

    Parameters
    ----------
    session : Session
        Lists the request until the work is over.
    handle : DiskArray
        The array of the transfer or the growth.
    work : Work
        The work to do.
    g_a : GlobalArray, optional
        Other side of a transfer; None: a growth.
    """

    def __init__(
        self, session: Session, handle: DiskArray, work: Work, g_a: GlobalArray | None = None
    ) -> None:
        self.handle, self.g_a = handle, g_a
        self._session, self._work = session, work
        self._is_over = False
        self._number = session.count_request()
        session.pending.append(self)
        if g_a is not None:
            add_transfer(g_a, self.wait)

    @property
    def grows(self) -> bool:
        """True if the array grows."""
        return self.g_a is None

    def advance(self) -> bool:
        """Go on as far as this rank can alone; tell whether its part is done."""
        return self._is_over or self._work.advance(waits=False)

    def wait(self) -> None:
        """Wait for all ranks."""
        if not self._is_over:
            self._work.advance(waits=True)
            self._meet()

    def probe(self) -> bool:
        """Tell whether the work is over on all ranks."""
        if not self._is_over:
            self._work.advance(waits=False)
            self._meet()
        return self._is_over

    def __str__(self) -> str:
        kind = "growth" if self.grows else "transfer"
        return f"a {kind} that is over" if self._is_over else f"{kind} {self._number}"

    def _meet(self) -> None:
        with OnError(self._end):
            is_over = self._work.meet()
        if is_over:
            self._end()

    def _end(self) -> None:
        self._session.pending.remove(self)
        self._is_over = True
        if self.g_a is not None:
            drop_transfer(self.g_a, self.wait)


class Together:
    """Work that all ranks do in one common call, and none alone."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def advance(self, waits: bool) -> bool:
        """Leave all work to `meet`."""
        return False

    def meet(self) -> bool:
        """Make the call."""
        self._call()
        return True


class Transfer:
    """A transfer as moves of each rank, one under way at a time, part after part.

    A rank buffers at most `most` elements.
    """

    def __init__(
        self,
        agreement: Agreement,
        handle: DiskArray,
        g_a: GlobalArray,
        parts: Sequence[Part],
        most: int,
    ) -> None:
        self._agreement, self._handle, self._g_a = agreement, handle, g_a
        self._moves = self._made(parts, most)
        self._under_way: tuple[_Move, bool, RankRequest] | None = None
        self._error: Exception | None = None

    def _made(self, parts: Sequence[Part], most: int) -> Iterator[tuple[_Move, bool]]:
        """Make the moves of this rank, each with whether it writes."""
        for memory, disk, write in parts:
            moves = Moves(memory, disk, self._g_a, most)
            for number in range(len(moves)):
                yield moves[number], write

    def run(self) -> None:
        """Make the whole transfer together with the other ranks."""
        for move, write in self._moves:
            if write:
                _load(move, self._g_a)
                self._handle.array.write(move.disk, move.block)
            else:
                self._handle.array.read(move.disk, move.block)
                _store(move, self._g_a)
        show_to_all(self._g_a)

    def advance(self, waits: bool) -> bool:
        """Make moves of this rank, one after another; tell whether all are done."""
        try:
            while self._error is None:
                if self._under_way is not None:
                    move, write, request = self._under_way
                    if not (waits or request.test()):
                        return False
                    self._under_way = None
                    request.wait()
                    if not write:
                        _store(move, self._g_a)
                found = next(self._moves, None)
                if found is None:
                    return True
                self._begin(*found)
        except (ExtArrayError, MemoryError) as error:
            self._error = error  # `meet` tells the other ranks
        return True

    def _begin(self, move: _Move, write: bool) -> None:
        array = self._handle.array
        if write:
            _load(move, self._g_a)
            self._under_way = move, write, array.iwrite(move.disk, move.block)
        else:
            self._under_way = move, write, array.iread(move.disk, move.block)

    def meet(self) -> bool:
        """End the transfer if all ranks have made their moves."""
        with self._agreement.step() as step:
            step.numbers[0] = int(self._under_way is not None)
            if self._error is not None:
                raise self._error
        if step.numbers[0]:
            return False
        show_to_all(self._g_a)
        return True


def _load(move: _Move, g_a: GlobalArray) -> None:
    for selection, part in move.parts:
        part[...] = g_a.get(selection)


def _store(move: _Move, g_a: GlobalArray) -> None:
    for selection, part in move.parts:
        g_a.put(selection, part)
