"""The store of an array as the array knows it: protocols, and the present state.

The store never looks at elements, and the array never at files.
"""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from extarray._core._mapping import Users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from threading import Lock

    import numpy as np
    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray._core._file import Sieve
    from extarray._core._frozen import Frozen as FrozenCore
    from extarray._core._mapping import Counter, Region
    from extarray._core._supply import Supply, Trust
    from extarray.codecs.codec import Codec
    from extarray.codecs.payloads import Encoded
    from extarray.common.errors import ChecksumError
    from extarray.format.groups import Pending
    from extarray.format.header import Header
    from extarray.format.superblock import Superblock
    from extarray.grid.bounds import Bounds
    from extarray.storage.checksums import Sums
    from extarray.storage.filesystem import File

__all__ = [
    "Commits",
    "Decoded",
    "Freed",
    "Frozen",
    "Held",
    "Others",
    "Present",
    "Provider",
    "Reader",
    "Share",
    "Store",
    "without",
]


class Held:
    """The record that a store keeps while its changes wait for a commit of several arrays.

    Attributes
    ----------
    before : object
        State to return to without a commit.
    cut : set of (int, str)
        Axes and sides that were cut; elements there are needed until the cut counts.
    freed : list of (int, int)
        Bytes to free once it counts.
    outgrown : list of Region
        Regions that the file has outgrown, but views may still show.
    outcome : Superblock or None
        The state to commit.
    slot : int or None
        Slot in which that state is pending.
    durable : bool
        That state is on disk.
    """

    def __init__(self, before: Any) -> None:
        self.before = before
        self.cut: set[tuple[int, str]] = set()
        self.freed: list[tuple[int, int]] = []
        self.outgrown: list[Region] = []
        self.outcome: Superblock | None = None
        self.slot: int | None = None
        self.durable = False


def without(runs: list[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    """Return the parts of runs of bytes that lie outside another run.

    Examples
    --------
    >>> without([(0, 10), (20, 30)], 4, 25)
    [(0, 4), (25, 30)]
    """
    return [
        (a, b)
        for first, last in runs
        for a, b in ((first, min(last, start)), (max(first, stop), last))
        if a < b
    ]


class Freed:
    """Runs of bytes outside the bounds, kept until nobody uses them any more.

    Parameters
    ----------
    users : Users
        Possible users of the bytes: transfers of other threads, and views of chunks.
    """

    def __init__(self, users: Users) -> None:
        self._users = users
        self._runs: list[tuple[int, int, int]] = []  # last epoch with users; first byte, end

    def add(self, start: int, stop: int) -> None:
        """Add a run that lies outside the bounds of the present epoch."""
        epoch = self._users.ended
        if self._runs:
            number, first, last = self._runs[-1]
            if number == epoch and start <= last and first <= stop:
                self._runs[-1] = epoch, min(start, first), max(stop, last)
                return
        self._runs.append((epoch, start, stop))

    def keep(self, start: int, stop: int) -> None:
        """Remove bytes that a growth uses again."""
        self._runs = [
            (epoch, *run)
            for epoch, first, last in self._runs
            for run in without([(first, last)], start, stop)
        ]

    @property
    def ready(self) -> bool:
        """True if there are runs that nobody uses any more."""
        return any(not self._users.are_left(epoch) for epoch, _, _ in self._runs)

    def take(self) -> list[tuple[int, int]]:
        """Remove and return the runs that nobody uses any more."""
        taken = [run for run in self._runs if not self._users.are_left(run[0])]
        self._runs = [run for run in self._runs if run not in taken]
        return [(start, stop) for _, start, stop in taken]


class Others(Protocol):
    """The other writers of a pair of files, as its commits and cuts need them."""

    @property
    def unsettled(self) -> bool:
        """True if a cut, by any writer, may not be on disk."""

    def note_cut(self, sequence: int) -> None:
        """Note that the commit of this number cuts elements off."""

    def note_settled(self) -> None:
        """Note that the last cut is on disk."""

    def note_seen(self) -> None:
        """Note that this writer uses only the present bounds, if so."""


class Frozen(Protocol):
    """The frozen chunks of a pair of files that grows; see `extarray.storage.frozen`.

    Word 0 means raw, at the chunk's place in the region; 1, the fill value everywhere; any other
    leads to a blob.
    """

    # For those who read and write: the words, by address, and the number that tells of holes.
    extents: list[memoryview]
    freezes: Counter
    encoding: Lock
    ranks_freeze: bool
    taking: Lock
    encoded: list[Any]
    may_freeze: bool
    forget: Callable[[NDArray[np.int64]], object] | None

    @property
    def reach(self) -> int: ...
    @property
    def number(self) -> int: ...
    def entries(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]: ...
    def are_raw(self, addresses: NDArray[np.int64]) -> NDArray[np.bool_]: ...
    def frozen(self, first: int, stop: int) -> NDArray[np.int64]: ...
    def count(self, stop: int) -> int: ...
    def read_into(self, target: memoryview, address: int, verify: bool = True) -> None: ...
    def decode(self, target: memoryview, address: int, word: int, verify: bool = True) -> None: ...
    def append(
        self, addresses: Sequence[int] | NDArray[np.int64], encoded: Sequence[Encoded]
    ) -> NDArray[np.uint64]: ...
    def store_live(
        self, addresses: NDArray[np.int64], words: NDArray[np.uint64], is_hole: bool = False
    ) -> None: ...
    def claim(self, n_bytes: int) -> int: ...
    def keep_claim(self, at: int) -> None: ...
    def disclaim(self, at: int, n_bytes: int) -> None: ...
    def place_of_blob(self, address: int) -> int: ...
    def payload(self, address: int) -> Encoded | None: ...
    def thaw(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def rewrite(
        self,
        addresses: NDArray[np.int64],
        chunks: Sequence[NDArray[np.uint8]],
        rests: Sequence[Any],
    ) -> bool: ...
    def let_go(self, first: int, stop: int) -> None: ...
    def announce(self, addresses: NDArray[np.int64]) -> None: ...
    @property
    def codec(self) -> Codec | None: ...
    @property
    def policy(self) -> str: ...
    @property
    def renewals(self) -> int: ...
    def note_renewal(self) -> None: ...
    @property
    def is_settled(self) -> bool: ...
    @property
    def bytes_to_free(self) -> int: ...
    @property
    def thawed(self) -> set[int]: ...
    def refresh(self) -> None: ...

    # For the parts of the store: room, flushes, other writers, other metadata.
    def block_bytes(self) -> bytes: ...
    def take_up(self) -> None: ...
    @property
    def regions(self) -> list[tuple[int, int]]: ...
    def make_room(self, n_chunks: int, commits: Room) -> None: ...
    def clear_from(self, first: int) -> None: ...
    def snapshot(self) -> Any: ...
    def sync(self, snapshot: Any) -> None: ...
    def settle(self) -> None: ...
    def punch(self) -> None: ...
    def seal(self) -> None: ...
    def used_bytes(self) -> int: ...
    def durable(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]: ...
    def put(self, addresses: NDArray[np.int64], words: NDArray[np.uint64]) -> None: ...
    def latest(self) -> Frozen: ...
    @property
    def log(self) -> File: ...
    def table_in(self, other: Any) -> Frozen | None: ...
    def forget_copies(self) -> None: ...
    def freezing(self) -> AbstractContextManager[bool]: ...
    def alone(self) -> AbstractContextManager[bool]: ...

    @property
    def is_mended(self) -> bool: ...
    def for_reader(self) -> Frozen: ...
    def successor(self, log: File | None = None) -> Frozen: ...
    def keeping_blobs(self) -> AbstractContextManager[None]: ...
    def hand_on(self) -> None: ...
    def take_back(self) -> None: ...
    def places_behind(self, end: int) -> list[int]: ...
    def block_for(self, array: bytes, places: list[int], log: Any = None) -> bytes: ...
    def copy_to(self, file: File, places: list[int], log: Any = None) -> None: ...


class Decoded(Protocol):
    """Frozen chunks as the core finds them; see `extarray.storage.decoded.FrozenChunks`."""

    @property
    def table(self) -> Frozen: ...
    @property
    def core(self) -> FrozenCore: ...
    def look(self) -> None: ...
    def told(self, error: ChecksumError) -> ChecksumError: ...


class Room(Protocol):
    """The end of the used part of ``.xmd``, as `Frozen.make_room` needs it."""

    blocks_end: int

    @property
    def free_from(self) -> int: ...


class Present:
    """The present state of an array, shared by the array and the parts of its store.

    Attributes
    ----------
    path : Path or None
        Without suffix; None in memory.
    header : Header
    mode : {"r", "r+"}
    engine : {"mmap", "pread", "memory"}
    is_durable : bool
        Changes are on disk when a call returns.
    is_steady : bool
        Elements go to the disk in the background all the time.
    sends_writes : bool
        Elements are on the file system's server when a call returns, as other hosts may read them.
    is_forked : bool
        The writer is the process from which this one was forked.
    state : Bounds
        The committed state; for files, the superblock.
    attrs : str
        The attributes, a JSON text.
    unclean : bool
        Elements of the grid outside the bounds may differ from the fill value, and chunks there may
        lack disk space: the bounds have moved in, an append failed, or the last writer died.
    region : Region or None
    hollow : bool
        A load from a hole, through the mapping, may find no space.
    held : Held or None
        The changes that wait for a commit of several arrays.
    users : Users
        Possible users of elements cut off: transfers of other threads, and views.
    freed : Freed
        Bytes to free once they have no users.
    given_back_together : int
        Bytes whose pages the system may keep together.
    sums : Sums or None
        Checksums of the chunks, if a writer has to keep any.
    trust : Trust or None
        The chunks known to be right, if others can be verified.
    verify : {"never", "write", "read"}
        The operations that verify chunks first.
    supply : Supply or None
        For chunks from elsewhere: which are present, and the provider of the others.  Region and
        supply belong to one process; a store gives its forked child new ones.
    decoded : Decoded or None
        What the core knows of frozen chunks, if there may be any.
    sieve : Sieve or None
        Permission to write back gaps between elements, for a lone writer that is not a rank.
    cuts : Counter or None
        Number of times that another process has turned chunks into holes; None if no other does, or
        if holes hold the fill value anyway.
    cuts_known : int
        A lower bound of that number before the known state.
    others : Others or None
        The other writers of shared files.
    elements_only : bool
        In mode "r+": this process writes elements inside the bounds, and others commit.
    handed_out : bool
        The array was pickled while writable, so unpickled copies may write, too.
    frozen : Frozen or None
        Frozen chunks of a pair of files that grows, if its header says that chunks may be frozen.
    why_read_only : str
        For what nobody can write to: the reason, and what to do instead.
    """

    header: Header
    state: Bounds | Superblock
    attrs: str
    growth: int
    path: Path | None = None
    is_durable = is_steady = sends_writes = is_forked = unclean = hollow = False
    elements_only = handed_out = False
    why_read_only = ""
    region: Region | None = None
    held: Held | None = None
    sums: Sums | None = None
    trust: Trust | None = None
    supply: Supply | None = None
    decoded: Decoded | None = None
    verify = "never"
    sieve: Sieve | None = None
    cuts: Counter | None = None
    cuts_known = 0
    others: Others | None = None
    frozen: Frozen | None = None

    def __init__(self, mode: str, engine: str, given_back_together: int) -> None:
        self.mode = mode
        self.engine = engine
        self.given_back_together = given_back_together
        self.users = Users()
        self.freed = Freed(self.users)

    @property
    def follows(self) -> bool:
        """True if other processes make the commits."""
        return self.mode == "r" or self.elements_only

    def written(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield runs of the first `stop` bytes of chunks; all other bytes are zero."""
        if stop:
            yield 0, stop

    def read_into(self, target: memoryview, offset: int) -> int:
        """Read bytes of chunks at an offset; return their number."""
        assert self.region is not None
        target[:] = self.region.copied(offset, offset + len(target))
        return len(target)

    def keep(self, start: int, stop: int) -> None:
        """Keep bytes that a growth uses again from being freed."""
        self.freed.keep(start, stop)
        if self.held is not None:
            self.held.freed = without(self.held.freed, start, stop)

    def give_back(self, start: int, stop: int) -> None:
        """Let `Store.punch` free the space of unused bytes later.

        They stay as they are while anyone may look at them: a load or store in a hole may find no
        space.
        """
        if self.held is not None:
            self.held.freed.append((start, stop))
        else:
            self.freed.add(start, stop)


class Provider(Protocol):
    """The source of the chunks of an array that is open for reading.

    The core asks for chunks by their addresses, sorted and distinct, before it reads them (I16).
    Several threads may call the methods at a time, but `provide` and `evict` never for one chunk.
    What they raise is passed on to whoever reads.
    """

    def provide(self, addresses: NDArray[np.int64]) -> None:
        """Bring chunks: on return, their bytes lie at their places in the region.

        Present ones are asked for only by `Supply.renew`, if they have changed and are in use.
        """

    def ahead(self, addresses: NDArray[np.int64]) -> None:
        """Begin to bring chunks that `provide` may be asked for soon, and return at once.

        This is a hint, and it may name more chunks than there is room for.  The chunks are not
        present before `provide` was asked for them, and are never evicted if that does not happen.
        Another thread may bring them meanwhile.
        """

    def evict(self, addresses: NDArray[np.int64]) -> None:
        """Free the space of chunks: nobody uses them before asking `provide` again."""


class Reader(Protocol):
    """The store of an array outside of memory, as its readers know it.

    Such stores are pairs of files, packed files, the replicas of ranks, and arrays with chunks
    from elsewhere.  `now` is the present: state, attributes, region, and the supply of chunks.
    """

    @property
    def now(self) -> Present: ...
    @property
    def absolute(self) -> str: ...  # path that leads any program of this host to the array
    @property
    def unvouched(self) -> Any: ...  # elements that nothing vouches for, or None
    def has_holes(self) -> bool: ...
    def all_holes(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> bool: ...

    # Updates, adopted or only asked for.  `refresh` returns the axial vectors, or None if nothing
    # is new; `as_committed` adopts the newest state in a forked child.
    @property
    def sequence(self) -> int: ...  # number of the adopted commit
    @property
    def durability(self) -> str: ...
    def refresh(self, axial: Axial) -> Axial | None: ...
    def as_committed(self, axial: Axial) -> Axial: ...
    def inner_box(self, axial: Axial) -> tuple[int, tuple[list[int], list[int]]]: ...
    @property
    def replaced(self) -> bool: ...

    # Updates of several arrays to one moment: compare looks, then adopt in steps.  States may
    # depend on another array, the coordinator of a commit.
    def look(self) -> tuple[int, bytes, bytes]: ...  # the number of cuts comes first
    def parse(self, seen: tuple[int, bytes, bytes]) -> tuple[Superblock, list[Pending]]: ...
    def read_update(self, state: Superblock, axial: Axial, cuts: int) -> Any: ...
    def replay(self, update: Any, axial: Axial) -> None: ...
    def adopt(self, update: Any) -> None: ...
    def was_superseded(self) -> bool: ...
    def coordinator_of(self, pending: Pending) -> str: ...
    def probe(self, place: str, uuid: bytes) -> AbstractContextManager[Any]: ...

    # Chunks that mismatch their checksums, and chunks of which nobody can tell.
    def unfit_chunks(
        self, addresses: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...

    # A version of the elements, which changes whenever they may have changed; and sizes.
    @property
    def generation(self) -> tuple[int, int]: ...
    @property
    def metadata_bytes(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def disk_bytes(self) -> int: ...
    @property
    def traffic(self) -> dict[str, int]: ...  # facts of arrays whose chunks come from elsewhere

    def drop_copies(self) -> None: ...

    # The pickle of the array: what opens it again, for a pair of files the given function.
    def reduced(self, reopen: Callable[..., Any]) -> tuple[Any, ...]: ...
    def warn_if_writer(self) -> None: ...
    def close(self) -> None: ...


class Commits(Protocol):
    """Steps before a change, or after a write, that only a store in files needs."""

    def sync_elements(self) -> None: ...
    def begin_append(self) -> None: ...
    def begin_renewal(self) -> None: ...
    def begin_cut(self) -> None: ...
    def settle(self) -> None: ...


class Share(Protocol):
    """A store's share in a commit of several arrays."""

    @property
    def changed(self) -> Any: ...  # the share if a disk needs a commit, or None
    def hold(self) -> None: ...
    def roll_back(self) -> bool: ...
    def take_back(self, abandon: Callable[[int], None]) -> None: ...
    def forget(self) -> bool: ...
    def finish(self) -> None: ...


class Store(Protocol):
    """The place of an array: files or memory.

    A change of the bounds takes room with `reserve` (undone by `release`), prepares cut parts for
    new use with `renew`, and counts with `commit`.
    """

    @property
    def now(self) -> Present: ...
    @property
    def commits(self) -> Commits | None: ...
    @property
    def group(self) -> Share: ...
    def reserve(
        self, old: int, new: int, runs: Iterable[tuple[int, int]] | None = None
    ) -> None: ...
    def release(self, old: int) -> None: ...
    def renew(self, start: int, stop: int, clean: bool) -> None: ...
    def punch(self, runs: list[tuple[int, int]]) -> None: ...
    def commit(self, bounds: Bounds, axial: Axial, data_bytes: int, cuts: bool) -> None: ...
    def set_attrs(self, attrs: str) -> None: ...
    def set_growth(self, growth: int) -> None: ...
    def add_axis(
        self,
        chunks: tuple[int, ...],
        axial: Axial,
        shape: tuple[int, ...],
        offset: tuple[int, ...],
        attrs: str,
    ) -> None: ...
    def as_committed(self, axial: Axial) -> Axial: ...
    def close(self) -> None: ...
