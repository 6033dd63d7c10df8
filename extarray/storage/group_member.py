"""An array's share in a commit of several, on the disk.

One of the arrays, the coordinator, decides.  Each of the others first writes its next state to a
place of its own, marked as pending, with the number of the group commit and the place of the
coordinator, and brings it to the disk.  Then the coordinator writes its next superblock, with that
number in it: this one write makes all of it count.  Finally the others commit their states like any
other.  Whoever meets a pending state that is newer than all others looks at the coordinator.

The coordinator remembers one decision.  Before it forgets this, it makes sure that all who took
part have the state on the disk as a commit of their own.
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

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from extarray.storage.space import Allocator

__all__ = ["GroupShare"]


class GroupShare:
    """The share of a pair of files in a commit of several arrays.

    Parameters
    ----------
    store : Allocator
        The pair of files; ``store.held`` keeps what the share has to remember.
    open_again : callable
        Opens a pair of files for writing and closes it, which takes up what was decided about it.
    """

    def __init__(self, store: Allocator, open_again: Callable[[Path], None]) -> None:
        self._store = store
        self._open_again = open_again

    # -- in the block ----------------------------------------------------------------------------

    def hold(self) -> None:
        """Begin the block: from now on commits change what this process sees, but no superblock."""
        store = self._store
        store.begin_append()
        store.settle()  # what was cut before is not to be rolled back
        store.held = Held((store.state, store.attrs, store._extents, store.unclean))

    @property
    def changed(self) -> GroupShare | None:
        """The share itself if there is anything to commit, else None."""
        store = self._store
        assert store.held is not None
        state, attrs, *_ = store.held.before
        return self if store.state is not state or store.attrs != attrs else None

    def roll_back(self) -> bool:
        """Go back to before the block; return whether the file has grown since.

        The new space is given back by `take_back`, when nobody uses it any more.
        """
        store = self._store
        held, store.held = store.held, None
        assert held is not None
        grown: bool = store.state.data_bytes > held.before[0].data_bytes
        # What was appended may lie in chunks that were there before.
        store.unclean |= store.state is not held.before[0]
        store.state, store.attrs, store._extents, was_unclean = held.before
        store.unclean |= was_unclean
        if held.slot is not None and store.mode == "r+":  # not in a forked child
            store._durable.pop(held.slot, None)
            with contextlib.suppress(OSError):  # without its decision it counts for nothing
                self._clear(held.slot)
        for region in held.outgrown:
            region.abandon(store.state.data_bytes)
        return grown

    def take_back(self, abandon: Callable[[int], None]) -> None:
        """Give back the space of a growth that was rolled back, and that no view shows.

        `abandon` makes the array give up what lies beyond so many bytes.
        """
        store = self._store
        abandon(store.state.data_bytes)
        store.release(store.state.data_bytes)
        store.region = store._region_of(store.state.data_bytes)

    def forget(self) -> bool:
        """Go back to before the block, in a forked child: it goes on in the parent alone.

        Return whether the array is to go back, too.
        """
        self.roll_back()
        return True

    def _outcome(self) -> Superblock:
        """Return the state that the block has reached, with its attributes written."""
        store = self._store
        assert store.held is not None
        before, attrs, *_ = store.held.before
        state = store.state if store.attrs == attrs else store._with_attrs(store.attrs)
        return state._replace(sequence=before.sequence + 1)

    # -- the commit ------------------------------------------------------------------------------

    def list_members(self, others: Sequence[GroupShare]) -> None:
        """Note, as the coordinator, who takes part, and let go of those of the group before.

        Raises
        ------
        StorageError
        ArgumentError
            Too many.
        """
        store = self._store
        members = [
            (
                other._store.header.uuid,
                os.fsencode(os.path.relpath(other._store.place, store.folder)),
            )
            for other in others
        ]
        data = encode_members(members)
        with family("cannot commit '{}' with others", store.path):
            offset = store._have_block(BlockKind.GROUP)
            if store._metadata.read(BLOCK, offset).startswith(data):
                return
            self.conclude_members({uuid for uuid, _ in members})
            store._metadata.write(data, offset)
            store._metadata.datasync()

    def conclude_members(self, known: Collection[bytes] = ()) -> None:
        """Make sure that no member of the last group needs its decision any more.

        `known` are the uuids of members that may go on needing it.

        Raises
        ------
        StorageError, FormatError
            One of them is there, and cannot be asked or mended: it may need the decision.
        """
        store = self._store
        group = store._blocks().get(BlockKind.GROUP)
        if group is None:
            return
        for uuid, path in decode_members(store._metadata.read(BLOCK, group)):
            if uuid not in known:
                place = store._place_of(path)
                what = (
                    f"'{place}' may not know yet that it has changed together with '{store.path}', "
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
        """Make sure that a member of the last group does not need its decision any more."""
        with self._store.probe(place, uuid) as member:
            if member.fault is not None:
                raise member.fault
            if member._metadata.closed:  # moved or removed: it cannot find the decision either
                return
            # It must have a commit of its own, and the copy that other commits do not touch.
            done = min(
                max((block.sequence for _, block in member._superblocks(slots)), default=-1)
                for slots in (LIVE_SLOTS, FLUSHED_SLOTS)
            )
            if any(
                pending.group == self._store.state.group and pending.state.sequence > done
                for _, pending in member._pendings()
            ):
                self._open_again(Path(place))
            else:
                member._metadata.datasync()

    def prepare(self, group: bytes, coordinator: GroupShare) -> None:
        """Write the state that the group is to make count, and bring it to the disk."""
        store = self._store
        assert store.held is not None
        path = os.path.relpath(coordinator._store.place, store.folder)
        with family("cannot commit '{}' with others", store.path):
            group_block = store._have_block(BlockKind.GROUP)
            state = self._outcome()
            data = encode_pending(
                Pending(state, group, coordinator._store.header.uuid, os.fsencode(path))
            )
            self._secure_data(state)
            store.held.slot = slot = store._older(PENDING_SLOTS)
            store._durable[slot] = store.held.outcome = state
            store._metadata.write(data, pending_offset(group_block, slot))
            store._metadata.datasync()
        store._unsettled = False

    def decide(self, group: bytes) -> None:
        """Make the state count, and with it those of the group."""
        store = self._store
        assert store.held is not None
        with family("cannot commit '{}'", store.path):
            state = self._outcome()._replace(group=group)
            if group != store.state.group or store.is_durable:
                self._secure_data(state)
            store.held.outcome = state
            try:
                self._write_live(state)
            except OSError:
                if not self.decided:
                    raise
        store._unsettled = True

    def decide_alone(self) -> None:
        """Make the state count, as the only array that has changed."""
        self.decide(self._store.state.group)
        if self._store.is_durable:
            self.secure()

    @property
    def decided(self) -> bool:
        """True if the decision is in the file, whatever has interrupted its writing."""
        held = self._store.held
        if held is None or held.outcome is None or held.slot is not None:
            return False
        with contextlib.suppress(OSError):
            return [block for _, block in self._store._superblocks(LIVE_SLOTS)][:1] == [
                held.outcome
            ]
        return False

    def secure(self) -> None:
        """Bring the decision to the disk, where commits do not touch it."""
        store = self._store
        assert store.held is not None and store.held.outcome is not None
        with family("'{}' and the others have changed; the disk may not have it yet", store.path):
            store._write_durable(store._older(FLUSHED_SLOTS), store.held.outcome)
            store._metadata.datasync()
        store._unsettled = False

    def keep_cut(self) -> None:
        """Keep what was cut off: the disk may not have the decision."""
        store = self._store
        assert store.held is not None
        store.held.freed.clear()
        store._unsettled = True

    def finish(self) -> None:
        """Make the state one like any other, once it counts."""
        store = self._store
        held, store.held = store.held, None
        assert held is not None
        if held.outcome is not None:
            store.state = held.outcome
        if held.slot is not None:
            # If this fails, the state still counts, by the decision.
            try:
                self._write_live(store.state)
                store._write_durable(store._older(FLUSHED_SLOTS), store.state)
            except OSError:
                held.freed.clear()  # readers look at the live states
        with contextlib.suppress(OSError):
            if held.freed:
                store.settle()
            for start, stop in held.freed:
                store.give_back(start, stop)

    def _write_live(self, state: Superblock) -> None:
        offset = self._store.header.superblock_offset(LIVE_SLOTS[state.sequence % 2])
        self._store._metadata.write(encode_superblock(state), offset)

    def _secure_data(self, state: Superblock) -> None:
        """Bring ``.xta`` to the disk in the length that a state needs."""
        store = self._store
        if state.data_bytes > store._safe_bytes or store.is_durable:
            store._data.datasync()
            store._safe_bytes = state.data_bytes

    # -- pending states that are found -----------------------------------------------------------

    def resolve_pendings(self, slot: int) -> None:
        """Leave nothing pending, as a writer that begins with the state of a slot.

        If that state was pending, the caller commits it.
        """
        store = self._store
        last = -1
        for place, pending in store._pendings():
            if pending.state.sequence > store.state.sequence:
                self._clear(place)  # never to come back
                store._metadata.datasync()
                continue
            store._durable[place] = pending.state
            last = max(last, pending.state.sequence)
            if place == slot:
                # What follows from the decision must not be on the disk before it.
                with store.probe(store.coordinator_of(pending), pending.coordinator) as coordinator:
                    if coordinator.fault is not None:
                        raise coordinator.fault
                    if not coordinator._metadata.closed:
                        coordinator._metadata.datasync()
        # States and decisions of groups must be where commits do not touch them.
        spared = [block for place, block in store._durable.items() if place not in PENDING_SLOTS]
        known = {NO_GROUP, *(block.group for block in spared)}
        if store.state.group not in known or all(block.sequence < last for block in spared):
            store._write_durable(store._older(FLUSHED_SLOTS), store.state)
            store._metadata.datasync()

    def _clear(self, slot: int) -> None:
        store = self._store
        group = store._blocks().get(BlockKind.GROUP)
        if group is not None:
            size = superblock_bytes(store.header.ndim)
            store._metadata.write(bytes(size), pending_offset(group, slot))
