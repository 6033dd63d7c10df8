"""Updates of a pair of files to later commits of a writer.

A hole holds zeros.  If those are not the fill value, readers that still know elements since cut off
must not see the zeros.  So the file counts its *cuts*: the number grows after the bounds are
committed and before chunks become holes.  After reading elements, a reader checks the number and,
if it has grown, the present bounds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from extarray._core._history import mark_of, replay_more, roll_back, starts_after
from extarray._core._mapping import Counter
from extarray.common.errors import (
    CorruptError,
    FormatError,
    ShapeError,
    StorageError,
    TruncatedError,
)
from extarray.common.system import GONE
from extarray.format.constants import CELL, LIVE_SLOTS
from extarray.format.groups import Pending
from extarray.format.superblock import Superblock, superblock_bytes
from extarray.storage.filesystem import File, family
from extarray.storage.lock import is_held
from extarray.storage.pair import PASSED_ON, Pair
from extarray.storage.states import ATTEMPTS, Log, StateReader, looks, read_records

if TYPE_CHECKING:
    from extarray._core._axial import Axial

__all__ = ["Follower", "Update"]


class Update(NamedTuple):
    """The part of a newer state that the present one lacks.

    Attributes
    ----------
    state : Superblock
    log : tuple of ndarray or None
        The new records; None if other axial vectors have them.
    extents : list of int
        Extents of the growth log.
    attrs : str
    cuts : int
        A lower bound of the number of cuts.
    """

    state: Superblock
    log: Log | None
    extents: list[int]
    attrs: str
    cuts: int


class Follower:
    """Update a pair of files to newer states."""

    def __init__(self, pair: Pair, states: StateReader) -> None:
        self.pair = pair
        self.states = states

    # -- updates ---------------------------------------------------------------------------------

    def refresh(self, axial: Axial) -> Axial | None:
        """Adopt later commits; return the axial vectors, or None if nothing is new.

        Take no lock, and read only the superblocks and new records (I3, I4).  If the array has
        gained an axis, the metadata are another file and the axial vectors are new; otherwise those
        given have grown.
        """
        if not self.pair.follows:
            return None
        try:
            return self.take_up(axial)
        except StorageError as error:
            if error.errno in GONE and self.pair.metadata.keeps_copies:
                return None  # as on one host, where files that were replaced stay as they are
            raise

    def take_up(self, axial: Axial) -> Axial | None:
        """Do what `refresh` does, in any mode."""
        pair = self.pair
        problem: Exception = CorruptError(f"'{pair.path}.xmd': no superblock is intact")
        with family("cannot refresh '{}'", pair.path):
            for _ in looks(pair.metadata):
                cuts = self.number_of_cuts()
                decided = self.states.decided_states(pair.state.sequence)
                blocks = self.states.superblocks(LIVE_SLOTS)
                if not blocks:
                    continue
                state = blocks[0][1]
                if decided and decided[0][1].sequence > state.sequence:
                    state = decided[0][1]
                try:
                    if state.superseded and not pair.has_name:
                        return self._follow_name()
                    if state.sequence <= pair.state.sequence:
                        self._forget_elements()
                        return None
                    update = self.read_update(state, axial, cuts)
                    break
                except FormatError as error:
                    problem = error
            else:
                if isinstance(problem, TruncatedError) and pair.metadata.keeps_copies:
                    raise self.states.not_visible(state, None) from problem
                raise problem
        self._forget_elements()
        if pair.follows and pair.frozen is not None:
            pair.frozen.refresh()  # what fails here leaves the present state
        self.replay(update, axial)
        self.adopt(update)
        return axial

    def _forget_elements(self) -> None:
        """Let the next reads ask the server for elements that other hosts may have written."""
        if self.pair.data.keeps_copies:
            self.pair.data.forget()
            if self.pair.frozen is not None:
                self.pair.frozen.forget_copies()

    def as_committed(self, axial: Axial) -> Axial:
        """Adopt the newest state, whatever is known; return its axial vectors.

        A forked child needs this if a thread of the parent was about to adopt or commit a state.

        Raises
        ------
        StorageError, FormatError
        """
        pair = self.pair
        pair.held = None  # another thread's block does not count here
        with family("cannot read '{}'", pair.path):
            for _ in range(ATTEMPTS):  # the parent may be at work
                pair.read_header()
                cuts = pair.read_cuts()
                found = self.states.newest_state()
                problem = self.states.check_data(found.state)
                if problem is None:
                    break
            if problem is not None:
                raise problem
        pair.watch_cuts()
        self.adopt(Update(found.state, None, found.extents, found.attrs, cuts))
        return found.axial

    def read_update(self, state: Superblock, axial: Axial, cuts: int) -> Update:
        """Read the new parts of a superblock's state; raise FormatError if it is not whole.

        `cuts` is the number of cuts before the superblock was read.
        """
        pair = self.pair
        try:
            log, extents = self._read_records(axial, state)
            # Attributes may be long, and are seldom new.
            same = _location_of_attrs(state) == _location_of_attrs(pair.state)
            attrs = pair.attrs if same else self.states.read_attrs(state)
        except FormatError as error:
            raise type(error)(f"'{pair.path}.xmd': {error}") from None
        problem = self.states.check_data(state)
        if problem is not None:
            raise problem
        return Update(state, log, extents, attrs, cuts)

    def _read_records(self, axial: Axial, state: Superblock) -> tuple[Log, list[int]]:
        """Read the growth log that axial vectors lack; return its records and extents."""
        pair = self.pair
        first, stop = axial.segments, state.n_segments
        return read_records(pair.metadata, pair.header, pair.extents, first, stop)

    def replay(self, update: Update, axial: Axial) -> None:
        """Grow the axial vectors by an update; on an error, restore them."""
        assert update.log is not None
        mark = mark_of(axial)
        try:
            replay_more(axial, *update.log, update.state.grid)
            self.states.check_state(update.state, update.extents)
        except CorruptError as error:
            roll_back(axial, mark)
            raise CorruptError(f"'{self.pair.path}.xmd': {error}") from None

    def adopt(self, update: Update) -> None:
        """Switch to a newer state."""
        pair = self.pair
        pair.cover(update.state.data_bytes)
        pair.state = update.state
        pair.attrs = update.attrs
        pair.unclean = update.state.unclean
        pair.extents = update.extents
        if pair.follows:
            pair.cuts_known = update.cuts
            if pair.frozen is not None:
                pair.frozen.refresh()

    def _follow_name(self) -> Axial | None:
        """Adopt the successor ``.xmd``; return None if it is another array's.

        Raises
        ------
        CorruptError
            The file does not fit, perhaps because a writer is at work on it.
        """
        if not self.pair.follows:
            return None  # this process is the only writer
        pair, other = self.pair, Pair(Path(self.pair.absolute))
        states = StateReader(other)
        try:
            other.open_metadata(os.O_RDONLY if pair.mode == "r" else os.O_RDWR)
            other.data = pair.data
            if not _succeeds(other, pair):
                return None  # an open array stays open
            cuts = other.read_cuts()
            found = states.live_state()
            problem = states.check_data(found.state)
            if problem is not None:
                raise CorruptError(str(problem))
            table = None if pair.frozen is None else pair.frozen.table_in(other)
            pair.cover(found.state.data_bytes)
            # One atomic step, as other threads may be using the old file.
            pair.metadata, other.metadata = other.metadata, pair.metadata
            pair.header = other.header
            pair.watch_cuts()
            if table is not None:
                pair.frozen, pair.blobs = table, table.log
            self.adopt(Update(found.state, None, found.extents, found.attrs, cuts))
            return found.axial
        finally:
            other.data = File()
            other.close()

    @property
    def replaced(self) -> bool:
        """True if the name is gone or leads to another array, and nobody writes to these files."""
        pair = self.pair
        if pair.has_name or is_held(pair.metadata):
            return False
        other = Pair(Path(pair.absolute))
        try:
            other.open_metadata()
            return other.header.uuid != pair.header.uuid  # the same uuid: a successor
        except (FileNotFoundError, NotADirectoryError, FormatError):
            return True
        except OSError:  # nobody can tell
            return False
        finally:
            other.close()

    def look(self) -> tuple[int, bytes, bytes]:
        """Read the number of cuts, the two newest states and the pending ones."""
        pair = self.pair
        live = superblock_bytes(pair.header.ndim) + CELL
        with family("cannot read '{}'", f"{pair.path}.xmd"):
            return (
                self.number_of_cuts(),
                pair.metadata.read(live, pair.header.superblock_offset(LIVE_SLOTS[0])),
                self.states.pending_bytes(),
            )

    def parse(self, seen: tuple[int, bytes, bytes]) -> tuple[Superblock, list[Pending]]:
        """Return the newest state of a look, and the newer pending ones, newest first."""
        live = self.states.decode_superblocks(seen[1], LIVE_SLOTS)
        if not live:
            raise CorruptError(f"'{self.pair.path}.xmd': no superblock is intact")
        newest = live[0][1]
        pendings = [pending for _, pending in self.states.decode_pendings(seen[2])]
        return newest, [p for p in pendings if p.state.sequence > newest.sequence]

    # -- cuts ------------------------------------------------------------------------------------

    def number_of_cuts(self) -> int:
        """Return how many times chunks have become holes, if readers must know."""
        pair = self.pair
        return 0 if pair.cuts is None else pair.read_cuts()

    def inner_box(self, axial: Axial) -> tuple[int, tuple[list[int], list[int]]]:
        """Return the number of cuts and the bounds after them, relative to the original index 0.

        `axial` holds the known growth; newer records are read, but not adopted.
        """
        pair = self.pair
        with family("cannot read '{}'", pair.path):
            for _ in range(ATTEMPTS):
                number = pair.read_count()
                blocks = self.states.superblocks(LIVE_SLOTS)
                try:
                    if blocks:
                        state = blocks[0][1]
                        if state.superseded and not pair.has_name:
                            number = self._watch_successor(state)
                        log, _ = self._read_records(axial, state)
                        break
                except CorruptError:
                    continue
            else:
                raise CorruptError(f"'{pair.path}.xmd': no superblock is intact")
        starts = starts_after(axial, *log, state.grid)
        zero = [n * c - b for n, c, b in zip(starts, pair.header.chunks, state.offset, strict=True)]
        low = [-n for n in zero]
        return number, (low, [a + n for a, n in zip(low, state.shape, strict=True)])

    def _watch_successor(self, state: Superblock) -> int:
        """Watch the ``.xmd`` that replaced `state`; return its number of cuts.

        Later cuts cannot be described without its axes.
        """
        pair = self.pair
        assert pair.cuts is not None
        number = pair.read_cuts()  # the final number here, from which the next file went on
        for _ in range(ATTEMPTS):
            cuts = self._cuts_of_successor()
            if cuts is None:
                break
            found = cuts.value
            if found == number:
                pair.cuts = cuts
                return number
            if not found & PASSED_ON:
                raise ShapeError(
                    f"'{pair.path}' has gained an axis, or changed its compression, and then lost "
                    "elements; refresh to read it"
                )
            # The successor has just been replaced, too.
        found = pair.cuts.value
        if found != number and pair.data.first_hole() < state.data_bytes:
            raise ShapeError(
                f"'{pair.path}' has gained an axis, or changed its compression, was then replaced "
                "or moved, and has lost elements; open it again"
            )
        return found

    def _cuts_of_successor(self) -> Counter | None:
        """Return the counter of the ``.xmd`` that has the name, if it is a successor, else None."""
        pair, other = self.pair, Pair(Path(self.pair.absolute))
        try:
            other.open_metadata()
            if not _succeeds(other, pair):
                return None
            with other.metadata as fd:
                return Counter.file(fd, other.header.cuts_offset, pair.engine == "mmap")
        except (FileNotFoundError, NotADirectoryError):
            return None
        finally:
            other.close()


def _succeeds(other: Pair, pair: Pair) -> bool:
    """Tell whether the metadata that have the name may be later ones of the same array.

    They have more axes, or another way to freeze chunks, or another log of frozen chunks.
    """
    one, two = other.header, pair.header
    is_later = one.ndim > two.ndim or (one.ndim == two.ndim and one.has_blobs)
    return one.uuid == two.uuid and is_later and not other.metadata.is_same(pair.metadata)


def _location_of_attrs(state: Superblock) -> tuple[int, int, int]:
    return state.attrs_offset, state.attrs_bytes, state.attrs_crc
