"""An array's share in a commit of several, on the disk.

One of the arrays, the coordinator, decides.  Each of the others first writes its next state to a
place of its own, marked as pending, with the number of the group commit and the place of the
coordinator, and has it on the disk.  Then the coordinator writes its next superblock, with that
number in it: this one write makes all of it count.  At last the others commit their states as any
other.  Whoever meets a pending state that is newer than all others looks at the coordinator.

The coordinator remembers one decision.  Before it forgets it, it sees to it that all who took part
have the state on the disk as a commit of their own.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from extarray.common.errors import FormatError, StorageError
from extarray.format.constants import BLOCK, FLUSHED_SLOTS, LIVE_SLOTS, PENDING_SLOTS
from extarray.format.directory import BlockKind, pending_offset
from extarray.format.groups import Pending, decode_members, encode_members, encode_pending
from extarray.format.superblock import NO_GROUP, Superblock, encode_superblock, superblock_bytes
from extarray.storage.filesystem import family
from extarray.storage.pending import Held
from extarray.storage.space import Allocator

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Self

    from extarray._core._axial import Axial

__all__ = ["Member"]


class Member(Allocator):
    """A pair of files, and its share in a commit of several arrays.

    Parameters
    ----------
    path : Path
    """

    if TYPE_CHECKING:

        @classmethod
        def open(  # noqa: D102
            cls, path: Path, mode: str, timeout: float | None, engine: str, durability: str
        ) -> tuple[Self, Axial]: ...
        def close(self) -> None: ...  # noqa: D102

    # -- in the block ----------------------------------------------------------------------------

    def hold(self) -> None:
        """From now on commits change what this process sees, and no superblock."""
        self.begin_append()
        self.settle()  # what was cut before is nothing to roll back
        self.held = Held((self.state, self.attrs, self._extents, self.unclean))

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        assert self.held is not None
        state, attrs, *_ = self.held.before
        return self.state is not state or self.attrs != attrs

    def roll_back(self) -> bool:
        """Go back to before the block; returns whether the file has grown since.

        Its space is given back by `take_back`, when nobody uses it any more.
        """
        held, self.held = self.held, None
        assert held is not None
        grown: bool = self.state.data_bytes > held.before[0].data_bytes
        # What was appended may lie in chunks that there were.
        self.unclean |= self.state is not held.before[0]
        self.state, self.attrs, self._extents, was_unclean = held.before
        self.unclean |= was_unclean
        if held.slot is not None and self.mode == "r+":  # not in a forked child
            self._durable.pop(held.slot, None)
            with contextlib.suppress(OSError):  # without its decision it counts for nothing
                self._clear(held.slot)
        for region in held.outgrown:
            region.abandon(self.state.data_bytes)
        return grown

    def take_back(self) -> None:
        """Give back the space of a growth that was rolled back, and that no view shows."""
        self.release(self.state.data_bytes)
        self.region = self._region_of(self.state.data_bytes)

    def _outcome(self) -> Superblock:
        """The state to which the block has come; its attributes are written."""
        assert self.held is not None
        before, attrs, *_ = self.held.before
        state = self.state if self.attrs == attrs else self._with_attrs(self.attrs)
        return state._replace(sequence=before.sequence + 1)

    # -- the commit ------------------------------------------------------------------------------

    def list_members(self, others: Sequence[Member]) -> None:
        """As the coordinator: note who takes part, and let go of those of the group before.

        Raises
        ------
        StorageError
        ArgumentError
            Too many.
        """
        members = [
            (other.header.uuid, os.fsencode(os.path.relpath(other.place, self.folder)))
            for other in others
        ]
        data = encode_members(members)
        with family("cannot commit '{}' with others", self.path):
            offset = self._have_block(BlockKind.GROUP)
            if self._metadata.read(BLOCK, offset).startswith(data):
                return
            self.conclude_members({uuid for uuid, _ in members})
            self._metadata.write(data, offset)
            self._metadata.datasync()

    def conclude_members(self, known: Collection[bytes] = ()) -> None:
        """See to it that who took part in the last group needs its decision no more.

        `known` are the uuids of those that may go on needing it.

        Raises
        ------
        StorageError, FormatError
            One of them is there, and cannot be asked or mended: it may need the decision.
        """
        group = self._blocks().get(BlockKind.GROUP)
        if group is None:
            return
        for uuid, path in decode_members(self._metadata.read(BLOCK, group)):
            if uuid not in known:
                place = self._place_of(path)
                what = (
                    f"'{place}' may not know yet that it has changed together with '{self.path}', "
                    "which is about to forget; open that one for writing first, or remove it"
                )
                try:
                    self._conclude(place, uuid)
                except StorageError as error:
                    reason = f"{what} ({error.strerror})"
                    raise type(error)(error.errno, reason, error.filename) from error
                except FormatError as error:
                    raise type(error)(f"{what} ({error})") from error

    def _conclude(self, place: str, uuid: bytes) -> None:
        """See to it that a member of the last group needs its decision no more."""
        with self.probe(place, uuid) as member:
            if member.fault is not None:
                raise member.fault
            if member._metadata.closed:  # moved or removed: it cannot find the decision either
                return
            # It is to have a commit of its own, and the copy that other commits do not touch.
            done = min(
                max((block.sequence for _, block in member._superblocks(slots)), default=-1)
                for slots in (LIVE_SLOTS, FLUSHED_SLOTS)
            )
            if any(
                pending.group == self.state.group and pending.state.sequence > done
                for _, pending in member._pendings()
            ):
                type(self).open(Path(place), "r+", 0, "auto", "flush")[0].close()
            else:
                member._metadata.datasync()

    def prepare(self, group: bytes, coordinator: Member) -> None:
        """Write the state that the group is to make count, and have it on the disk."""
        assert self.held is not None
        path = os.path.relpath(coordinator.place, self.folder)
        with family("cannot commit '{}' with others", self.path):
            group_block = self._have_block(BlockKind.GROUP)
            state = self._outcome()
            data = encode_pending(Pending(state, group, coordinator.header.uuid, os.fsencode(path)))
            self._secure_data(state)
            self.held.slot = slot = self._older(PENDING_SLOTS)
            self._durable[slot] = self.held.outcome = state
            self._metadata.write(data, pending_offset(group_block, slot))
            self._metadata.datasync()
        self._unsettled = False

    def decide(self, group: bytes) -> None:
        """Make the state count, and with it those of the group."""
        assert self.held is not None
        with family("cannot commit '{}'", self.path):
            state = self._outcome()._replace(group=group)
            if group != self.state.group or self.is_durable:
                self._secure_data(state)
            self.held.outcome = state
            try:
                self._write_live(state)
            except OSError:
                if not self.decided:
                    raise
        self._unsettled = True

    @property
    def decided(self) -> bool:
        """Whether the decision is in the file, whatever has interrupted its writing."""
        held = self.held
        if held is None or held.outcome is None or held.slot is not None:
            return False
        with contextlib.suppress(OSError):
            return [block for _, block in self._superblocks(LIVE_SLOTS)][:1] == [held.outcome]
        return False

    def secure(self) -> None:
        """Have the decision on the disk, where commits do not touch it."""
        assert self.held is not None and self.held.outcome is not None
        with family("'{}' and the others have changed; the disk may not have it yet", self.path):
            self._write_durable(self._older(FLUSHED_SLOTS), self.held.outcome)
            self._metadata.datasync()
        self._unsettled = False

    def keep_cut(self) -> None:
        """Keep what was cut off: the disk may not have the decision."""
        assert self.held is not None
        self.held.freed.clear()
        self._unsettled = True

    def finish(self) -> None:
        """Have the state as any other, when it counts."""
        held, self.held = self.held, None
        assert held is not None
        if held.outcome is not None:
            self.state = held.outcome
        if held.slot is not None:
            # If this fails, the state still counts, by the decision.
            try:
                self._write_live(self.state)
                self._write_durable(self._older(FLUSHED_SLOTS), self.state)
            except OSError:
                held.freed.clear()  # readers look at the live states
        with contextlib.suppress(OSError):
            if held.freed:
                self.settle()
            for start, stop in held.freed:
                self.give_back(start, stop)

    def _write_live(self, state: Superblock) -> None:
        offset = self.header.superblock_offset(LIVE_SLOTS[state.sequence % 2])
        self._metadata.write(encode_superblock(state), offset)

    def _secure_data(self, state: Superblock) -> None:
        """Have ``.xta`` on the disk in the length that a state needs."""
        if state.data_bytes > self._safe_bytes or self.is_durable:
            self._data.datasync()
            self._safe_bytes = state.data_bytes

    # -- pending states that are found -----------------------------------------------------------

    def _resolve_pendings(self, slot: int) -> None:
        """As a writer that begins with the state of a slot: whatever was pending is not any more.

        The caller commits the state, where it was.
        """
        last = -1
        for place, pending in self._pendings():
            if pending.state.sequence > self.state.sequence:
                self._clear(place)  # never to come back
                self._metadata.datasync()
                continue
            self._durable[place] = pending.state
            last = max(last, pending.state.sequence)
            if place == slot:
                # What follows from the decision must not be on the disk before it.
                with self.probe(self.coordinator_of(pending), pending.coordinator) as coordinator:
                    if coordinator.fault is not None:
                        raise coordinator.fault
                    if not coordinator._metadata.closed:
                        coordinator._metadata.datasync()
        # States and decisions of groups are to be where commits do not touch them.
        spared = [block for place, block in self._durable.items() if place not in PENDING_SLOTS]
        known = {NO_GROUP, *(block.group for block in spared)}
        if self.state.group not in known or all(block.sequence < last for block in spared):
            self._write_durable(self._older(FLUSHED_SLOTS), self.state)
            self._metadata.datasync()

    def _clear(self, slot: int) -> None:
        group = self._blocks().get(BlockKind.GROUP)
        if group is not None:
            size = superblock_bytes(self.header.ndim)
            self._metadata.write(bytes(size), pending_offset(group, slot))
