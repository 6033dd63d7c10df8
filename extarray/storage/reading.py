"""A pair of files as its readers know it: what the protocol `Reader` asks for.

Every store of a pair of files begins with this reader.  A writer's store adds making files and
taking room; a rank's store adds the updates that rank 0 sends.
"""

from __future__ import annotations

import contextlib
import errno
import warnings
from typing import TYPE_CHECKING, Any

from extarray.common.errors import FormatError, NotVisibleError
from extarray.common.lazy import LazyModule
from extarray.grid.chunking import place_of
from extarray.storage.commits import Committer, SumKeeper
from extarray.storage.following import Follower
from extarray.storage.states import StateReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.format.groups import Pending
    from extarray.format.superblock import Superblock
    from extarray.storage import other_hosts
    from extarray.storage.following import Update
    from extarray.storage.pair import Pair
    from extarray.storage.states import Unvouched
else:
    other_hosts = LazyModule("extarray.storage.other_hosts")

__all__ = ["PairReader"]


class PairReader:
    """The store of an array in a pair of files, without the parts that make and grow them.

    Parameters
    ----------
    pair : Pair
    states : StateReader, optional

    Attributes
    ----------
    now : Pair
        The present, as the array and all parts see it.
    states, following, commits, chunk_sums
        The parts.
    unvouched : Unvouched or None
        Elements open for reading that may differ from what the writer wrote.
    names_as_yet : tuple of str or None
        Temporary names of a new pair of files.
    """

    unvouched: Unvouched | None = None
    names_as_yet: tuple[str, ...] | None = None

    def __init__(self, pair: Pair, states: StateReader | None = None) -> None:
        self.now = pair
        self.states = states = states or StateReader(pair)
        self.following = Follower(pair, states)
        self.commits = commits = Committer(pair, states)
        self.chunk_sums = SumKeeper(pair, commits)

    @property
    def files(self) -> Self:
        """The store itself; it answers for everything that only stores with files have."""
        return self

    # -- updates ---------------------------------------------------------------------------------

    @property
    def sequence(self) -> int:
        """Number of the adopted commit."""
        return self.now.state.sequence

    def refresh(self, axial: Axial) -> Axial | None:
        """Adopt later commits; see `Follower.refresh`."""
        return self.following.refresh(axial)

    def as_committed(self, axial: Axial) -> Axial:
        """Adopt the newest state, whatever is known; see `Follower.as_committed`."""
        return self.following.as_committed(axial)

    def inner_box(self, axial: Axial) -> tuple[int, tuple[list[int], list[int]]]:
        """Return the number of cuts and the bounds after them; see `Follower.inner_box`."""
        return self.following.inner_box(axial)

    @property
    def replaced(self) -> bool:
        """True if the name is gone or leads to another array, and nobody writes to these files."""
        return self.following.replaced

    def look(self) -> tuple[int, bytes, bytes]:
        """Read the bytes that commits write; see `Follower.look`."""
        return self.following.look()

    def parse(self, seen: tuple[int, bytes, bytes]) -> tuple[Superblock, list[Pending]]:
        """Return the newest state of a look, and the newer pending ones."""
        return self.following.parse(seen)

    def read_update(self, state: Superblock, axial: Axial, cuts: int) -> Update:
        """Read the new parts of a superblock's state; see `Follower.read_update`."""
        return self.following.read_update(state, axial, cuts)

    def replay(self, update: Update, axial: Axial) -> None:
        """Grow the axial vectors by an update; on an error, restore them."""
        self.following.replay(update, axial)

    def adopt(self, update: Update) -> None:
        """Switch to a newer state."""
        self.following.adopt(update)

    def was_superseded(self) -> bool:
        """Tell whether another ``.xmd`` has replaced the metadata, as after `add_axis`."""
        return self.states.was_superseded()

    def coordinator_of(self, pending: Pending) -> str:
        """Return the path of the array that decides a pending state."""
        return self.states.coordinator_of(pending)

    def probe(self, place: str, uuid: bytes) -> AbstractContextManager[StateReader]:
        """Open the metadata of the array that coordinates a commit; see `StateReader.probe`."""
        return self.states.probe(place, uuid)

    # -- contents --------------------------------------------------------------------------------

    def unfit_chunks(
        self, addresses: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which chunks mismatch their checksums; see `SumKeeper.unfit_chunks`."""
        return self.chunk_sums.unfit_chunks(addresses)

    @property
    def absolute(self) -> str:
        """Absolute path of the pair, without suffix."""
        return self.now.absolute

    def drop_copies(self) -> None:
        """Let this host show what others have flushed, where it may keep older copies."""
        pair = self.now
        if pair.data.keeps_copies:
            if pair.follows and not pair.metadata.closed:
                other_hosts.see_newest(pair.metadata, pair.mode == "r+", 0, pair.path)
            other_hosts.see_newest(pair.data, pair.mode == "r+", pair.state.data_bytes, pair.path)

    def wait_for(self, sequence: float, refresh: Callable[[], object]) -> None:
        """Show what others have flushed; wait for a commit that another host may have made."""
        if not self.now.data.keeps_copies:
            return

        def look() -> None:
            self.drop_copies()
            if self.sequence >= sequence:
                return
            with contextlib.suppress(FormatError):  # not all of the commit is here
                refresh()
            if self.sequence < sequence:
                raise NotVisibleError(
                    errno.ESTALE,
                    f"commit {sequence} of '{self.now.path}' is not yet visible on this host, "
                    f"which sees commit {self.sequence}; try again later",
                    str(self.now.path),
                )

        other_hosts.in_time(look)

    def has_holes(self) -> bool:
        """Tell whether ``.xta`` has holes in place of chunks; they hold zeros."""
        return self.now.supply is None and self.now.data.has_holes()

    def all_holes(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> bool:
        """Tell whether the chunks in runs of addresses are all holes, and not frozen."""
        size, frozen = self.now.header.chunk_bytes, self.now.frozen
        if frozen is not None:
            runs = zip(starts.tolist(), stops.tolist(), strict=True)
            if any(frozen.frozen(*run).size for run in runs):
                return False
        places = (place_of(ends, size).tolist() for ends in (starts, stops))
        return self.now.data.all_holes(*places)

    @property
    def durability(self) -> str:
        """The durability: "flush", "steady" or "commit"."""
        if self.now.is_steady:
            return "steady"
        return "commit" if self.now.is_durable else "flush"

    @property
    def generation(self) -> tuple[int, int]:
        """Number of the commit, and time of the last change of elements, in nanoseconds.

        The system may update the time late while a writer stores through a mapping.
        """
        pair = self.now
        return pair.state.sequence, pair.stored.stat().st_mtime_ns

    @property
    def metadata_bytes(self) -> int:
        """Bytes of ``.xmd``."""
        return self.now.metadata.length

    @property
    def file_bytes(self) -> int:
        """Bytes of the file of the chunks, including holes."""
        return self.now.stored.length

    @property
    def disk_bytes(self) -> int:
        """Bytes that the chunks take on the disk, raw and in blobs."""
        data = self.now.stored
        blocks = data.disk_bytes()
        if self.now.frozen is not None:
            blocks += self.now.blobs.disk_bytes()
        return min(blocks, data.length) if self.now.packed_as else blocks

    @property
    def traffic(self) -> dict[str, int]:
        """Nothing: files are here."""
        return {}

    # -- ends ------------------------------------------------------------------------------------

    def reduced(self, reopen: Callable[..., Any]) -> tuple[Any, ...]:
        """Return the pickle of the array: a function that opens it again, and its arguments."""
        pair = self.now
        writes = pair.mode == "r+"
        if writes and not pair.elements_only:
            if pair.sums is not None:
                pair.sums.hand_out()
                if pair.trust is not None:
                    pair.trust.hand_out()
            pair.handed_out = True
        place = pair.absolute, pair.header.uuid, pair.engine
        durability = self.durability if writes else None
        state = pair.state if pair.held is None else pair.held.before[0]
        return reopen, (*place, durability, self.names_as_yet, pair.verify, state.sequence)

    def close(self) -> None:
        """Close the files."""
        self.now.close()

    def __del__(self) -> None:
        try:
            if not self.now.metadata.closed:
                self.warn_if_writer()
        finally:
            self._close_quietly()

    def warn_if_writer(self) -> None:
        """Warn of a writer that nobody has closed."""
        if not self.now.follows:
            warnings.warn(
                f"'{self.now.path}' was not closed; use close() or a with block",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def _close_quietly(self) -> None:
        # When Python ends, the names of modules may be gone, that of contextlib too.
        try:  # noqa: SIM105
            self.close()
        except Exception:  # noqa: BLE001
            pass
