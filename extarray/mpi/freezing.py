"""Freezing by the ranks of one host: each encodes its part of a round, and writes it to the log.

Rank 0, which has the writer's lock, freezes as a single process does, and keeps the order of steps
(I15): it takes chunks in rounds, gives their blobs room in the log, and stores their words.  A
round is cut into a part for each rank, in the order of addresses, so the log has the bytes of a
freeze by one process.  No rank writes elements meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.array.freezing import encode_chunks, freeze
from extarray.common.errors import PartnerError
from extarray.common.on_error import OnError
from extarray.format.blobs import FILL
from extarray.mpi.runtime import agreed, is_agreed, portable, received
from extarray.storage.filesystem import File, family
from extarray.storage.frozen import bytes_in_log, write_blobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from extarray.array.facts import Stored
    from extarray.mpi.runtime import Agreement
    from extarray.storage.pair import Pair
    from extarray.storage.store import Frozen

__all__ = ["Hand", "freeze_together"]


class _Round(NamedTuple):
    """The raw chunks that all ranks encode next."""

    addresses: NDArray[np.int64]


class _End(NamedTuple):
    """The end of a freeze: the number of chunks, or an error of rank 0."""

    n_frozen: int
    error: bytes | None


class Hand:
    """The hand of a rank in a freeze; made before the rank closes its part of the array.

    Parameters
    ----------
    agreement : Agreement
    pair : Pair
        The files, still open.
    """

    def __init__(self, agreement: Agreement, pair: Pair) -> None:
        self._agreement = agreement
        self.number = agreement.comm.size
        table: Any = pair.frozen
        self._path, self._header = pair.path, pair.header
        self._codec, self._uuid = table.codec, table.uuid
        self._own = contextlib.ExitStack()  # files of its own
        if agreement.comm.rank == 0:
            self._data, self._log = pair.data, table.log
            return
        # The locks of a writer of elements go with its own descriptors, which are closed first.
        with OnError(self.close):
            self._data = self._again(pair.data, os.O_RDONLY)
            self._log = self._again(table.log, os.O_RDWR)

    def _again(self, file: File, flags: int) -> File:
        """Open a file once more by its name."""
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
        with agreement.step():
            if frozen is not None:
                at = frozen.claim(sum(sizes))
        with contextlib.ExitStack() as stack:
            if frozen is not None:
                stack.enter_context(OnError(frozen.disclaim, at, sum(sizes)))
            at = agreement.tell(at) + sum(sizes[: comm.rank])
            words = np.full(len(mine), FILL, np.uint64)
            kept = [number for number, one in enumerate(encoded) if one is not None]
            with agreement.step(), family("cannot write to '{}'", f"{self._path}.xtz"):
                words[kept] = write_blobs(self._log, self._uuid, mine[kept], blobs, at)
            found = comm.gather(words)
        return None if found is None else np.concatenate(found)


def freeze_together(array: Stored, hand: Hand, agreement: Agreement) -> int:
    """Freeze all raw chunks with the hands of all ranks; return their number; collective.

    No other rank may write to the array any more.  An error on one rank is raised on all, and
    chunks that were frozen before it stay so.
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
        n_frozen = freeze(array, hand)
    except BaseException as error:
        if not is_agreed(error, comm):  # the others wait for the next round
            agreement.tell(_End(0, portable(agreed(error, comm))))
        raise
    agreement.tell(_End(n_frozen, None))
    return n_frozen
