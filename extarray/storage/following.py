"""A pair of files as a reader has it: a state, and how it takes up what a writer commits later.

A hole holds zeros.  Where that is not the fill value, readers that still know what has been cut off
must not see the zeros.  So the file has a number of *cuts*, which grows after the bounds are
committed and before chunks become holes.  Whoever has read elements looks at this number and, where
it has grown, at the bounds as they are now.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from extarray._core._history import mark_of, replay_more, roll_back, starts_after
from extarray._core._mapping import Counter, Region
from extarray.common.errors import CorruptError, FormatError, ShapeError
from extarray.format.constants import CELL, LIVE_SLOTS
from extarray.format.groups import Pending
from extarray.format.superblock import Superblock, superblock_bytes
from extarray.storage.filesystem import File, family
from extarray.storage.lock import is_held
from extarray.storage.states import ATTEMPTS, PASSED_ON, Log, StateReader, read_records

if TYPE_CHECKING:
    from pathlib import Path

    from extarray._core._axial import Axial

__all__ = ["Follower", "News"]


class News(NamedTuple):
    """The part of a newer state that the present one lacks, as read.

    Attributes
    ----------
    state : Superblock
    log : tuple of ndarray or None
        Of the records that are new; None: other axial vectors have them.
    extents : list of int
        Of the growth log.
    attrs : str
    cuts : int
        How many there were, at least.
    """

    state: Superblock
    log: Log | None
    extents: list[int]
    attrs: str
    cuts: int


class Follower(StateReader):
    """A pair of files that is open in a state.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    mode : {"r", "r+"}
    is_forked : bool
        The writer is the process that this one was forked from.
    engine : {"mmap", "pread"}
    state : Superblock
    attrs : str
    region : Region or None
    hollow : bool
        A load from a hole, through the mapping, may find no space.
    unclean : bool
        Elements of the grid outside the bounds may hold something other than the fill value, and
        chunks there may have no disk space: the bounds have moved in, an append failed, or the last
        writer died.
    cuts : Counter or None
        How many times another process has turned chunks into holes; None where no other does, or
        where holes hold the fill value anyway.
    cuts_known : int
        How many there were, at least, before the state that is known.
    """

    state: Superblock
    attrs: str
    is_forked = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.mode = "r"
        self.engine = "mmap"
        self.region: Region | None = None
        self.hollow = False
        self.unclean = False
        self.cuts: Counter | None = None
        self.cuts_known = 0
        self._extents: list[int] = []

    @property
    def shape(self) -> tuple[int, ...]:
        """Bounds that are committed."""
        return self.state.shape

    @property
    def grid(self) -> tuple[int, ...]:
        """Grid that is committed, in chunks."""
        return self.state.grid

    @property
    def offset(self) -> tuple[int, ...]:
        """Elements of the grid before the bounds."""
        return self.state.offset

    @property
    def growth(self) -> int:
        """The growth policy that is committed."""
        return self.state.growth

    @property
    def generation(self) -> tuple[int, int]:
        """Number of the commit, and time of the last change of the elements, in nanoseconds.

        The system may be late with the time while a writer stores through a mapping.
        """
        return self.state.sequence, self._data.stat().st_mtime_ns

    @property
    def metadata_bytes(self) -> int:
        """Bytes of ``.xmd``."""
        return self._metadata.length

    @property
    def file_bytes(self) -> int:
        """Bytes of ``.xta``, holes included."""
        return self._data.length

    @property
    def disk_bytes(self) -> int:
        """Bytes that ``.xta`` takes on the disk."""
        return 512 * self._data.stat().st_blocks

    def _map(self, length: int, writable: bool, mapped: bool) -> Region:
        """Map ``.xta``; return its region."""
        with family("cannot map '{}'", f"{self.path}.xta"), self._data as fd:
            return Region.file(fd, length, writable, mapped)

    def _close_files(self) -> None:
        self.region = self.cuts = None
        super()._close_files()

    # -- what is new -----------------------------------------------------------------------------

    def refresh(self, axial: Axial) -> Axial | None:
        """Take up what was committed since; return the axial vectors, or None if nothing is new.

        This reads the superblocks and the records that are new.  Where the array has gained an
        axis, the metadata are another file and the axial vectors are new; otherwise those given
        have grown.
        """
        return self._take_up(axial) if self.mode == "r" else None

    def _take_up(self, axial: Axial) -> Axial | None:
        """Do what `refresh` does, in any mode."""
        problem: Exception = CorruptError(f"'{self.path}.xmd': no superblock is whole")
        with family("cannot refresh '{}'", self.path):
            for _ in range(ATTEMPTS):
                cuts = self.number_of_cuts()
                decided = self._decided_states(self.state.sequence)
                blocks = self._superblocks(LIVE_SLOTS)
                if not blocks:
                    continue
                state = blocks[0][1]
                if decided and decided[0][1].sequence > state.sequence:
                    state = decided[0][1]
                try:
                    if state.superseded and not self._metadata.is_at(self._names[0]):
                        return self._follow_name()
                    if state.sequence <= self.state.sequence:
                        return None
                    news = self.read_news(state, axial, cuts)
                    break
                except FormatError as error:
                    problem = error
            else:
                raise problem
        self.replay(news, axial)
        self.adopt(news)
        return axial

    def as_committed(self, axial: Axial) -> Axial:
        """Take up the newest state, whatever is known; return its axial vectors.

        For a forked child: a thread of the parent was about to take up or to commit another one.

        Raises
        ------
        StorageError, FormatError
        """
        with family("cannot read '{}'", self.path):
            for _ in range(ATTEMPTS):  # the parent may be at work
                self._read_header()
                cuts = self._read_cuts()
                found = self._read_state()
                problem = self._check_data(found.state)
                if problem is None:
                    break
            if problem is not None:
                raise problem
        self._count_cuts(False)
        self.adopt(News(found.state, None, found.extents, found.attrs, cuts))
        return found.axial

    def read_news(self, state: Superblock, axial: Axial, cuts: int) -> News:
        """Read what is new in a superblock's state; raise FormatError where it is not whole.

        `cuts` is how many there were before the superblock was read.
        """
        try:
            log, extents = self._read_records(axial, state)
            # They may be long, and are seldom new.
            same = _place_of_attrs(state) == _place_of_attrs(self.state)
            attrs = self.attrs if same else self._read_attrs(state)
        except FormatError as error:
            raise type(error)(f"'{self.path}.xmd': {error}") from None
        problem = self._check_data(state)
        if problem is not None:
            raise problem
        return News(state, log, extents, attrs, cuts)

    def _read_records(self, axial: Axial, state: Superblock) -> tuple[Log, list[int]]:
        """Read what axial vectors lack of a state's growth log; return it and the log's extents."""
        first, stop = axial.segments, state.n_segments
        return read_records(self._metadata, self.header, self._extents, first, stop)

    def replay(self, news: News, axial: Axial) -> None:
        """Grow the axial vectors as the news tell; on an error they are as before."""
        assert news.log is not None
        mark = mark_of(axial)
        try:
            replay_more(axial, *news.log, news.state.grid)
            self._check_state(news.state, news.extents)
        except CorruptError as error:
            roll_back(axial, mark)
            raise CorruptError(f"'{self.path}.xmd': {error}") from None

    def adopt(self, news: News) -> None:
        """Go on in a newer state."""
        assert self.region is not None
        if not self.region.holds(news.state.data_bytes):
            self.region = self._map(news.state.data_bytes, self.mode == "r+", True)
        self.state = news.state
        self.attrs = news.attrs
        self.unclean = news.state.unclean
        self._extents = news.extents
        if self.mode == "r":
            self.cuts_known = news.cuts

    def _follow_name(self) -> Axial | None:
        """Take up the ``.xmd`` that has the name now, and a new axis; None if another array's.

        Raises
        ------
        CorruptError
            It does not fit; perhaps because a writer is at work on it.
        """
        if self.mode == "r+":
            return None  # nobody else has the array alone
        other = StateReader(Path(self.absolute))
        try:
            other._open_metadata()
            other._data = self._data
            if other.header.uuid != self.header.uuid or other.header.ndim <= self.header.ndim:
                return None  # whoever has an array open keeps it
            cuts = other._read_cuts()
            found = other._live_state()
            problem = other._check_data(found.state)
            if problem is not None:
                raise CorruptError(str(problem))
            assert self.region is not None
            if not self.region.holds(found.state.data_bytes):
                self.region = self._map(found.state.data_bytes, False, True)
            # In one step, as other threads may be using the old one.
            self._metadata, other._metadata = other._metadata, self._metadata
            self.header = other.header
            self._count_cuts(False)
            self.adopt(News(found.state, None, found.extents, found.attrs, cuts))
            return found.axial
        finally:
            other._data = File()
            other._close_files()

    @property
    def replaced(self) -> bool:
        """True if something else has the name, or nothing, and nobody writes to these files."""
        if self._metadata.is_at(self._names[0]) or is_held(self._metadata):
            return False
        other = StateReader(Path(self.absolute))
        try:
            other._open_metadata()
            return other.header.uuid != self.header.uuid  # or it has gained an axis
        except (FileNotFoundError, NotADirectoryError, FormatError):
            return True
        except OSError:  # nobody can tell
            return False
        finally:
            other._close_files()

    def look(self) -> tuple[int, bytes, bytes]:
        """Read what commits write: the number of cuts, the two newest states, those pending."""
        live = superblock_bytes(self.header.ndim) + CELL
        with family("cannot read '{}'", f"{self.path}.xmd"):
            return (
                self.number_of_cuts(),
                self._metadata.read(live, self.header.superblock_offset(LIVE_SLOTS[0])),
                self._pending_bytes(),
            )

    def parse(self, seen: tuple[int, bytes, bytes]) -> tuple[Superblock, list[Pending]]:
        """Return the newest state of a look, and the pending ones that are newer, newest first."""
        live = self._decode_superblocks(seen[1], LIVE_SLOTS)
        if not live:
            raise CorruptError(f"'{self.path}.xmd': no superblock is whole")
        newest = live[0][1]
        pendings = [pending for _, pending in self._decode_pendings(seen[2])]
        return newest, [p for p in pendings if p.state.sequence > newest.sequence]

    # -- cuts ------------------------------------------------------------------------------------

    def _count_cuts(self, writable: bool) -> None:
        """Set up the counter of cuts where holes do not hold the fill value."""
        if any(self.header.fill):
            if writable:
                self.cuts, self.cuts_known = None, 0  # it cuts by itself, and waits for its threads
            else:
                place = self.header.cuts_offset
                with self._metadata as fd:
                    self.cuts = Counter.file(fd, place, self.engine == "mmap")

    def number_of_cuts(self) -> int:
        """Return how many times chunks have become holes, where readers must know."""
        return 0 if self.cuts is None else self._read_cuts()

    def inner_box(self, axial: Axial) -> tuple[int, tuple[list[int], list[int]]]:
        """Return the number of cuts, and the bounds after them, from where index 0 was at first.

        `axial` is what is known of the growth; what is new is read, but not taken up.
        """
        with family("cannot read '{}'", self.path):
            for _ in range(ATTEMPTS):
                number = self._read_count()
                blocks = self._superblocks(LIVE_SLOTS)
                try:
                    if blocks:
                        state = blocks[0][1]
                        if state.superseded and not self._metadata.is_at(self._names[0]):
                            number = self._watch_successor(state)
                        log, _ = self._read_records(axial, state)
                        break
                except CorruptError:
                    continue
            else:
                raise CorruptError(f"'{self.path}.xmd': no superblock is whole")
        starts = starts_after(axial, *log, state.grid)
        zero = [n * c - b for n, c, b in zip(starts, self.header.chunks, state.offset, strict=True)]
        low = [-n for n in zero]
        return number, (low, [a + n for a, n in zip(low, state.shape, strict=True)])

    def _watch_successor(self, state: Superblock) -> int:
        """Return the number of cuts of an array with more axes than `state`, from where it is now.

        What has been cut off since cannot be told without the axes.
        """
        assert self.cuts is not None
        number = self._read_cuts()  # the last one here, with which the next file began
        for _ in range(ATTEMPTS):
            cuts = self._cuts_of_successor()
            if cuts is None:
                break
            found = cuts.value
            if found == number:
                self.cuts = cuts
                return number
            if not found & PASSED_ON:
                raise ShapeError(
                    f"'{self.path}' has gained an axis, and elements have been cut off since; "
                    "refresh to read it"
                )
            # It has just been replaced, too.
        found = self.cuts.value
        if found != number and self._data.first_hole() < state.data_bytes:
            raise ShapeError(
                f"'{self.path}' has gained an axis and was replaced or moved then, and elements "
                "have been cut off; open it again"
            )
        return found

    def _cuts_of_successor(self) -> Counter | None:
        """Return the counter of the ``.xmd`` that has the name, if that has more axes, or None."""
        other = StateReader(Path(self.absolute))
        try:
            other._open_metadata()
            if other.header.uuid != self.header.uuid or other.header.ndim <= self.header.ndim:
                return None
            with other._metadata as fd:
                return Counter.file(fd, other.header.cuts_offset, self.engine == "mmap")
        except (FileNotFoundError, NotADirectoryError):
            return None
        finally:
            other._close_files()


def _place_of_attrs(state: Superblock) -> tuple[int, int, int]:
    return state.attrs_offset, state.attrs_bytes, state.attrs_crc
