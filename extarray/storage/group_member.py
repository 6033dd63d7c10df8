"""An array's share in a commit of several, on disk.

One of the arrays, the coordinator, decides.  Each other array first writes its next state to a
separate place, marked as pending, with the number of the group commit and the place of the
coordinator, and brings it to the disk.  Then the coordinator writes its next superblock with that
number: this one write makes the whole group count (I2).  Finally the others commit their states
like any other.  A reader that meets a pending state newer than all others asks the coordinator.

The coordinator remembers one decision.  Before it forgets that, it makes sure that all members have
the state on disk as a commit of their own.
"""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from extarray.common.errors import FormatError, StorageError
from extarray.format.blocks import BlockKind, pending_offset
from extarray.format.constants import BLOCK, FLUSHED_SLOTS, LIVE_SLOTS, PENDING_SLOTS
from extarray.format.groups import Pending, decode_members, encode_members, encode_pending
from extarray.format.superblock import NO_GROUP, Superblock, encode_superblock, superblock_bytes
from extarray.storage.filesystem import family
from extarray.storage.store import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from extarray.storage.commits import Committer
    from extarray.storage.filesystem import File
    from extarray.storage.pair import Pair
    from extarray.storage.space import Allocator
    from extarray.storage.states import StateReader

__all__ = ["GroupShare"]


class GroupShare:
    """The share of a pair of files in a commit of several arrays.

    Parameters
    ----------
    pair : Pair
        Its `held` is the memory of the share.
    states : StateReader
    commits : Committer
    space : Allocator
    open_again : callable
        Opens a pair of files for writing and closes it, which applies the decision about it.
    """

    def __init__(
        self,
        pair: Pair,
        states: StateReader,
        commits: Committer,
        space: Allocator,
        open_again: Callable[[Path], None],
    ) -> None:
        self.pair = pair
        self._states = states
        self._commits = commits
        self._space = space
        self._open_again = open_again
        # Members listed in the block, and its offset, each with the file.
        self._listed: tuple[File, bytes] | None = None
        self._known_block: tuple[File, int] | None = None

    # -- in the block ----------------------------------------------------------------------------

    def hold(self) -> None:
        """Begin the block: commits now change the view of this process, but no superblock."""
        pair = self.pair
        self._commits.begin_append()
        self._commits.settle()  # earlier cuts are not to be rolled back
        pair.held = Held((pair.state, pair.attrs, pair.extents, pair.unclean))

    @property
    def changed(self) -> GroupShare | None:
        """The share itself if there is anything to commit, else None."""
        pair = self.pair
        assert pair.held is not None
        state, attrs, *_ = pair.held.before
        return self if pair.state is not state or pair.attrs != attrs else None

    def roll_back(self) -> bool:
        """Go back to before the block; return whether the file has grown since.

        `take_back` frees the new space, when nobody uses it any more.
        """
        pair = self.pair
        held, pair.held = pair.held, None
        assert held is not None
        grown: bool = pair.state.data_bytes > held.before[0].data_bytes
        # Appended elements may lie in chunks that existed before.
        pair.unclean |= pair.state is not held.before[0]
        pair.state, pair.attrs, pair.extents, was_unclean = held.before
        pair.unclean |= was_unclean
        if held.slot is not None and pair.mode == "r+":  # not in a forked child
            self._commits.durable.pop(held.slot, None)
            with contextlib.suppress(OSError):  # without its decision it counts for nothing
                self._clear(held.slot)
        for region in held.outgrown:
            region.abandon(pair.state.data_bytes)
        return grown

    def take_back(self, abandon: Callable[[int], None]) -> None:
        """Free the space of a growth that was rolled back, and that no view shows.

        `abandon` makes the array give up everything beyond a number of bytes.
        """
        pair = self.pair
        abandon(pair.state.data_bytes)
        self._space.release(pair.state.data_bytes)
        pair.map(pair.state.data_bytes)

    def forget(self) -> bool:
        """Go back to before the block, in a forked child: the block continues only in the parent.

        Return whether the array is to go back, too.
        """
        self.roll_back()
        return True

    def _outcome(self) -> Superblock:
        """Write the attributes of the block; return the state it has reached."""
        pair = self.pair
        assert pair.held is not None
        before, attrs, *_ = pair.held.before
        state = pair.state if pair.attrs == attrs else self._commits.with_attrs(pair.attrs)
        return state._replace(sequence=before.sequence + 1)

    # -- the commit ------------------------------------------------------------------------------

    def list_members(self, others: Sequence[GroupShare]) -> None:
        """Note the members, as the coordinator, and release those of the group before.

        Raises
        ------
        StorageError
        ArgumentError
            Too many members.
        """
        pair = self.pair
        members = [
            (
                other.pair.header.uuid,
                os.fsencode(_relative(other.pair.real_path, pair.folder)),
            )
            for other in others
        ]
        data = encode_members(members)
        with family("cannot commit '{}' with others", pair.path):
            offset = self._block()
            if (pair.metadata, data) == self._listed and pair.others is None:
                return
            if pair.metadata.read(BLOCK, offset).startswith(data):
                self._listed = pair.metadata, data
                return
            self.conclude_members({uuid for uuid, _ in members})
            pair.metadata.write(data, offset)
            pair.metadata.datasync()
            self._listed = pair.metadata, data

    def _block(self) -> int:
        """Return the offset of the block for group commits, which is fixed within a file."""
        file = self.pair.metadata
        if self._known_block is None or self._known_block[0] is not file:
            self._known_block = file, self._commits.ensure_block(BlockKind.GROUP)
        return self._known_block[1]

    def conclude_members(self, known: Collection[bytes] = ()) -> None:
        """Make sure that no member of the last group needs its decision any more.

        Members with uuids in `known` may go on needing it.

        Raises
        ------
        StorageError, FormatError
            A member exists, but cannot be asked or mended: it may need the decision.
        """
        pair = self.pair
        group = pair.blocks().get(BlockKind.GROUP)
        if group is None:
            return
        for uuid, path in decode_members(pair.metadata.read(BLOCK, group)):
            if uuid not in known:
                place = pair.path_of(path)
                what = (
                    f"'{place}' may not have completed its last commit with '{pair.path}', which "
                    "is about to discard the decision; open the former for writing first, or "
                    "remove it"
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
        with self._states.probe(place, uuid) as member:
            if member.fault is not None:
                raise member.fault
            if member.pair.metadata.closed:  # moved or removed: it cannot find the decision either
                return
            # The member must have a commit of its own, on disk.
            done = max((block.sequence for _, block in member.superblocks(LIVE_SLOTS)), default=-1)
            if any(
                pending.group == self.pair.state.group and pending.state.sequence > done
                for _, pending in member.pendings()
            ):
                self._open_again(Path(place))
            else:
                member.pair.metadata.datasync()

    def prepare(self, group: bytes, coordinator: GroupShare, durable: bool) -> None:
        """Write the pending state; if `durable`, bring it to the disk."""
        pair = self.pair
        assert pair.held is not None
        path = _relative(coordinator.pair.real_path, pair.folder)
        with family("cannot commit '{}' with others", pair.path):
            group_block = self._block()
            state = self._outcome()
            data = encode_pending(
                Pending(state, group, coordinator.pair.header.uuid, os.fsencode(path))
            )
            self._bring_data(state, durable)
            pair.held.slot = slot = self._commits.older(PENDING_SLOTS)
            self._commits.durable[slot] = pair.held.outcome = state
            pair.metadata.write(data, pending_offset(group_block, slot))
            if durable:
                pair.metadata.datasync()
        self._commits.unsettled = not durable and bool(pair.held.cut)
        pair.held.durable = durable

    def decide(self, group: bytes, durable: bool) -> None:
        """Make this state count, and thereby the whole group."""
        pair = self.pair
        assert pair.held is not None
        with family("cannot commit '{}'", pair.path):
            state = self._outcome()._replace(group=group)
            self._bring_data(state, durable)
            pair.held.outcome = state
            try:
                self._write_live(state)
            except OSError:
                if not self.decided:
                    raise
        self._commits.unsettled |= bool(pair.held.cut)

    def decide_alone(self) -> None:
        """Commit the state of the only array that has changed."""
        self.decide(self.pair.state.group, self.pair.is_durable)
        if self.pair.is_durable:
            self.secure()

    @property
    def decided(self) -> bool:
        """True if the decision is in the file, whatever interrupted its writing."""
        held = self.pair.held
        if held is None or held.outcome is None or held.slot is not None:
            return False
        with contextlib.suppress(OSError):
            return [block for _, block in self._states.superblocks(LIVE_SLOTS)][:1] == [
                held.outcome
            ]
        return False

    def secure(self) -> None:
        """Bring the decision to the disk, where commits do not touch it."""
        pair = self.pair
        assert pair.held is not None and pair.held.outcome is not None
        with family("the commit of '{}' and the others may not be on the disk yet", pair.path):
            self._commits.write_durable(self._commits.older(FLUSHED_SLOTS), pair.held.outcome)
            pair.metadata.datasync()
        self._commits.unsettled = False

    def keep_cut(self) -> None:
        """Keep the elements cut off: the decision may not be on disk."""
        pair = self.pair
        assert pair.held is not None
        pair.held.freed.clear()
        self._commits.unsettled = True

    def finish(self) -> None:
        """Commit the state like any other, once it counts."""
        pair = self.pair
        held, pair.held = pair.held, None
        assert held is not None
        if held.outcome is not None:
            pair.state = held.outcome
        if held.slot is not None:
            # On failure the state still counts, through the decision.
            try:
                self._write_live(pair.state)
                if held.durable:
                    self._commits.write_durable(self._commits.older(FLUSHED_SLOTS), pair.state)
            except OSError:
                held.freed.clear()  # readers look at the live states
        with contextlib.suppress(OSError):
            if held.freed:
                self._commits.settle()
            for start, stop in held.freed:
                pair.give_back(start, stop)

    def _write_live(self, state: Superblock) -> None:
        offset = self.pair.header.superblock_offset(LIVE_SLOTS[state.sequence % 2])
        self.pair.metadata.write(encode_superblock(state), offset)

    def _bring_data(self, state: Superblock, durable: bool) -> None:
        """Bring ``.xta`` to the disk, in the length that a state needs, if the state is `durable`.

        Do so anyway where hosts keep copies: elements are there before the state that shows them.
        """
        pair = self.pair
        is_lacking = state.data_bytes > self._commits.safe_bytes or pair.is_durable
        if pair.data.keeps_copies or (durable and is_lacking):
            self._commits.sync_data()

    # -- pending states found on opening -----------------------------------------------------------

    def resolve_pendings(self, slot: int) -> None:
        """Settle all pending states, as a writer that begins with the state of a slot.

        If that state was pending, the caller commits it.
        """
        pair = self.pair
        last = -1
        for place, pending in self._states.pendings():
            if pending.state.sequence > pair.state.sequence:
                self._clear(place)  # so that it never comes back
                pair.metadata.datasync()
                continue
            self._commits.durable[place] = pending.state
            last = max(last, pending.state.sequence)
            if place == slot:
                # Consequences of the decision must not be on disk before it.
                with self._states.probe(
                    self._states.coordinator_of(pending), pending.coordinator
                ) as coordinator:
                    if coordinator.fault is not None:
                        raise coordinator.fault
                    if not coordinator.pair.metadata.closed:
                        coordinator.pair.metadata.datasync()
        # Keep group states and decisions where commits do not touch them.
        spared = [
            block for place, block in self._commits.durable.items() if place not in PENDING_SLOTS
        ]
        known = {NO_GROUP, *(block.group for block in spared)}
        if pair.state.group not in known or all(block.sequence < last for block in spared):
            self._commits.write_durable(self._commits.older(FLUSHED_SLOTS), pair.state)
            pair.metadata.datasync()

    def _clear(self, slot: int) -> None:
        pair = self.pair
        group = pair.blocks().get(BlockKind.GROUP)
        if group is not None:
            size = superblock_bytes(pair.header.ndim)
            pair.metadata.write(bytes(size), pending_offset(group, slot))


@functools.lru_cache(maxsize=256)
def _relative(path: str, folder: str) -> str:
    """Return an absolute path in the form relative to a folder, as the format has paths."""
    # Only an absolute path names another drive of Windows.
    with contextlib.suppress(ValueError):
        path = os.path.relpath(path, folder)
    return path.replace(os.sep, "/")
