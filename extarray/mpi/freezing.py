"""Freezing by the ranks of one host: each encodes its part of a round, and writes it to the log.

Rank 0, which has the writer's lock, freezes as a single process does, and keeps the order of steps
(I15): it takes chunks in rounds, gives their blobs room in the log, and stores their words.  A
round is cut into a part for each rank, in the order of addresses, so the log has the bytes of a
freeze by one process.  No other rank writes elements meanwhile: it has closed its part, or holds
its writes off.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray._core._transfers import hold_writes, return_changed, shown_chunks, take_changed
from extarray.array.facts import store_of
from extarray.array.freezing import encode_chunks, freeze
from extarray.common.errors import ExtArrayError, LockedError, PartnerError
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.common.waiting import attempts, end_of
from extarray.format.blobs import FILL
from extarray.mpi.runtime import agreed, is_agreed, portable, received
from extarray.storage import lock
from extarray.storage.filesystem import File, family
from extarray.storage.frozen_blobs import bytes_in_log, write_blobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from extarray.array.facts import Stored
    from extarray.mpi.runtime import Agreement
    from extarray.storage.frozen import FrozenTable
    from extarray.storage.pair import Pair
    from extarray.storage.store import Frozen

__all__ = ["Hand", "freeze_closed", "freeze_open"]


class _Round(NamedTuple):
    """The raw chunks that all ranks encode next."""

    addresses: NDArray[np.int64]


class _End(NamedTuple):
    """The end of a freeze: the number of chunks, or an error of rank 0."""

    n_frozen: int
    error: bytes | None


class Hand:
    """The hand of a rank in a freeze.

    Parameters
    ----------
    agreement : Agreement
    pair : Pair
        The files.
    """

    def __init__(self, agreement: Agreement, pair: Pair) -> None:
        self._agreement = agreement
        self.number = agreement.comm.size
        self._path, self._header = pair.path, pair.header
        table: Any = pair.frozen
        self._codec, self._uuid = table.codec, table.uuid
        self._data, self._log = pair.data, table.log
        self._own = contextlib.ExitStack()  # files of its own

    def open(self) -> None:
        """Let a rank other than rank 0 open the files once more.

        Those that it has are closed before chunks are frozen: its lock as a writer of
        elements goes with them.
        """
        if self._agreement.comm.rank:
            self._data = self._again(self._data, os.O_RDONLY)
            self._log = self._again(self._log, os.O_RDWR)

    def _again(self, file: File, flags: int) -> File:
        with family("cannot open '{}'", file.name):
            found = File.open(file.name, flags)
        self._own.callback(found.close)
        if not found.is_same(file):
            raise PartnerError(
                f"'{file.name}' was replaced while ranks have it open; close the array, and open "
                "it again"
            )
        return found

    def close(self) -> None:
        """Close what this rank has opened for the freeze."""
        self._own.close()

    def append(
        self, array: Stored, frozen: Frozen, addresses: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Append blobs of raw chunks to the log with the others, on rank 0; return their words."""
        if not len(addresses):
            return np.zeros(0, np.uint64)
        self._agreement.tell(_Round(addresses))
        found = self.take_part(addresses, frozen)
        assert found is not None
        return found

    def take_part(
        self, addresses: NDArray[np.int64], frozen: Frozen | None = None
    ) -> NDArray[np.uint64] | None:
        """Encode and write this rank's part of a round; collective.

        Rank 0, with the table, gets the words of all.  On an error the log is as before.
        """
        agreement, comm = self._agreement, self._agreement.comm
        mine = np.array_split(addresses, comm.size)[comm.rank]
        with agreement.step():
            encoded = encode_chunks(self._data, self._path, self._header, self._codec, mine)
            blobs = [one for one in encoded if one is not None]
            size = bytes_in_log(blobs)
        sizes, at = comm.allgather(size), 0
        with contextlib.ExitStack() as stack:
            with agreement.step():
                if frozen is not None:
                    at = frozen.claim(sum(sizes))
                    stack.enter_context(OnError(frozen.disclaim, at, sum(sizes)))
            first = at
            at = agreement.tell(at) + sum(sizes[: comm.rank])
            words = np.full(len(mine), FILL, np.uint64)
            kept = [number for number, one in enumerate(encoded) if one is not None]
            with agreement.step(), family("cannot write to '{}'", f"{self._path}.xtz"):
                words[kept] = write_blobs(self._log, self._uuid, mine[kept], blobs, at)
            found = comm.gather(words)
        if frozen is not None:
            frozen.keep_claim(first)
        return None if found is None else np.concatenate(found)


def freeze_closed(array: Stored, hand: Hand, agreement: Agreement) -> None:
    """Freeze all raw chunks with the hands of all ranks, of which rank 0 alone has the array open.

    Collective.  Chunks that cannot be frozen stay raw.
    """
    with contextlib.suppress(ExtArrayError, OSError, MemoryError):
        _freeze(array, hand, agreement, None)


def freeze_open(array: Any, agreement: Agreement) -> int:
    """Freeze all raw chunks with the hands of all ranks, and return their number; collective.

    Chunks stay raw that a rank shows by writable views.
    """
    comm, pair = agreement.comm, _pair_of(array)
    with contextlib.ExitStack() as ends:
        with agreement.step():
            hand = Hand(agreement, pair)
            ends.callback(hand.close)
            hand.open()
            if not comm.rank:
                # Keep its thread in the background from freezing chunks that other ranks show: it
                # finds itself alone as soon as they drop their locks.
                ends.enter_context(_table_of(pair).frozen_by_ranks())
        held = contextlib.ExitStack()
        try:
            with agreement.step():
                if comm.rank:
                    held.enter_context(_holding_writes(array))
            shown = comm.gather(shown_chunks(array))
            but = None if shown is None else np.concatenate(shown)
            return _freeze(array, hand, agreement, but)
        finally:
            with agreement.step():
                held.close()


def _pair_of(array: Any) -> Pair:
    pair: Pair = store_of(array).now
    return pair


def _table_of(pair: Pair) -> FrozenTable:
    table: Any = pair.frozen
    found: FrozenTable = table
    return found


@contextlib.contextmanager
def _holding_writes(array: Any) -> Iterator[None]:
    """Let threads of this rank begin no write, and drop its lock of a writer of elements."""
    pair, gate = _pair_of(array), threading.Lock()
    with gate:
        try:
            hold_writes(array, gate)
            for _ in attempts(end_of(limits.commit_patience)):
                if (taken := take_changed(array, 0, 1)) is not None:
                    return_changed(array, taken)
                    break
            else:
                raise LockedError(
                    errno.EAGAIN,
                    "a thread of a rank does not finish a write; freeze chunks when it has",
                    str(pair.path),
                )
            lock.end_elements(pair.data)
            try:
                yield
            finally:
                _begin_elements(pair)
        finally:
            hold_writes(array, None)


def _begin_elements(pair: Pair) -> None:
    """Take the lock of a writer of elements again.

    Nobody but the freezer of rank 0 may be in the way, which ends.
    """
    while True:
        with contextlib.suppress(LockedError):
            lock.begin_elements(pair.data, pair.path)
            return


def _freeze(array: Stored, hand: Hand, agreement: Agreement, but: NDArray[np.int64] | None) -> int:
    """Freeze all raw chunks, `but` some; collective.

    An error on one rank is raised on all; chunks of earlier rounds stay frozen.
    """
    comm = agreement.comm
    if comm.rank:
        while isinstance(message := agreement.tell(), _Round):
            hand.take_part(message.addresses)
        if message.error is not None:
            raise received(message.error, 0, comm)
        n_frozen: int = message.n_frozen
        return n_frozen
    try:
        n_frozen = freeze(array, hand, but)
    except BaseException as error:
        if not is_agreed(error, comm):  # the others wait for the next round
            agreement.tell(_End(0, portable(agreed(error, comm))))
        raise
    agreement.tell(_End(n_frozen, None))
    return n_frozen
