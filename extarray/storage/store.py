"""The store of an array as the array knows it: the protocol `Store`, and its present.

The store never looks at elements, and the array never at files.
"""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from extarray._core._mapping import Users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray._core._file import Sieve
    from extarray._core._mapping import Counter, Region
    from extarray._core._supply import Supply, Trust
    from extarray.format.groups import Pending
    from extarray.format.header import Header
    from extarray.format.superblock import Superblock
    from extarray.grid.bounds import Bounds
    from extarray.storage.checksums import Sums

__all__ = [
    "Commits",
    "Freed",
    "Held",
    "Others",
    "Present",
    "Provider",
    "Reader",
    "Share",
    "Store",
    "without",
]


@dataclass
class Held:
    """The record that a store keeps while its changes wait for a commit of several arrays.

    Attributes
    ----------
    before : object
        What the store goes back to if there is no commit.
    cut : set of (int, str)
        Axes and sides that were cut: elements there are needed until the cut counts.
    freed : list of (int, int)
        Bytes to give back when it does.
    outgrown : list of Region
        Regions that the file has outgrown: views may show it through them.
    outcome : Superblock or None
        The state that is to count.
    slot : int or None
        Where that state is pending.
    durable : bool
        It is on the disk.
    """

    before: Any
    cut: set[tuple[int, str]] = field(default_factory=set)
    freed: list[tuple[int, int]] = field(default_factory=list)
    outgrown: list[Region] = field(default_factory=list)
    outcome: Superblock | None = None
    slot: int | None = None
    durable: bool = False


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
    """Runs of bytes outside the bounds, until nobody uses them any more.

    Parameters
    ----------
    users : Users
        Those who may still look at them: transfers of other threads, and views of chunks.
    """

    def __init__(self, users: Users) -> None:
        self._users = users
        self._runs: list[tuple[int, int, int]] = []  # epoch of which nobody may be left; bytes

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
        """Remove the bytes that a growth uses again."""
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
        """Remove the runs that nobody uses any more, and return them."""
        taken = [run for run in self._runs if not self._users.are_left(run[0])]
        self._runs = [run for run in self._runs if run not in taken]
        return [(start, stop) for _, start, stop in taken]


class Others(Protocol):
    """The other writers of a pair of files, as those parts see them that commit and cut."""

    @property
    def unsettled(self) -> bool:
        """True if a cut, whoever made it, may not be on the disk."""

    def note_cut(self, sequence: int) -> None:
        """Note that elements are cut off by the commit of this number."""

    def note_settled(self) -> None:
        """Note that the last cut is on the disk."""

    def note_seen(self) -> None:
        """Note that this writer uses only the present bounds, if that is so."""


class Present:
    """An array as its store has it at present; the store's parts and the array share it.

    Attributes
    ----------
    path : Path or None
        Without suffix; None: in memory.
    header : Header
    mode : {"r", "r+"}
    engine : {"mmap", "pread", "memory"}
    is_durable : bool
        Changes are on the disk when a call returns.
    is_forked : bool
        The writer is the process that this one was forked from.
    state : Bounds
        What is committed; of files, the superblock.
    attrs : str
        The attributes, a JSON text.
    unclean : bool
        Elements of the grid outside the bounds may hold something other than the fill value, and
        chunks there may have no disk space: the bounds have moved in, an append failed, or the last
        writer died.
    region : Region or None
    hollow : bool
        A load from a hole, through the mapping, may find no space.
    held : Held or None
        The changes that wait for a commit of several arrays.
    users : Users
        Those who may still look at what was cut off: transfers of other threads, and views.
    freed : Freed
        Bytes to give back when none of them is left.
    given_back_together : int
        Bytes whose pages the system may keep together.
    sums : Sums or None
        Checksums of the chunks, where a writer has to keep any.
    trust : Trust or None
        Which chunks are known to be right, where others can be verified.
    verify : {"never", "write", "read"}
        Before which operations they are verified.
    supply : Supply or None
        Where chunks come from elsewhere: those that are present, and what brings the others.  The
        region and the supply belong to one process; a store gives its forked child new ones.
    sieve : Sieve or None
        Leave to write back what lies between elements, where there is one writer and no rank.
    cuts : Counter or None
        How many times another process has turned chunks into holes; None where no other does, or
        where holes hold the fill value anyway.
    cuts_known : int
        How many there were, at least, before the state that is known.
    others : Others or None
        The other writers of files that are shared.
    elements_only : bool
        In mode "r+": this process writes elements inside the bounds, and others commit.
    handed_out : bool
        The array was pickled where it may be written to: whoever has it there may write, too.
    """

    header: Header
    state: Bounds | Superblock
    attrs: str
    growth: int
    path: Path | None = None
    is_durable = is_forked = unclean = hollow = False
    elements_only = handed_out = False
    region: Region | None = None
    held: Held | None = None
    sums: Sums | None = None
    trust: Trust | None = None
    supply: Supply | None = None
    verify = "never"
    sieve: Sieve | None = None
    cuts: Counter | None = None
    cuts_known = 0
    others: Others | None = None

    def __init__(self, mode: str, engine: str, given_back_together: int) -> None:
        self.mode = mode
        self.engine = engine
        self.given_back_together = given_back_together
        self.users = Users()
        self.freed = Freed(self.users)

    @property
    def follows(self) -> bool:
        """True if the commits are those of other processes."""
        return self.mode == "r" or self.elements_only

    def written(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the runs of the first `stop` bytes of chunks beside which there are zeros alone."""
        if stop:
            yield 0, stop

    def read_into(self, target: memoryview, offset: int) -> int:
        """Read bytes of chunks from an offset on; return how many there were."""
        assert self.region is not None
        target[:] = self.region.copied(offset, offset + len(target))
        return len(target)

    def keep(self, start: int, stop: int) -> None:
        """Do not give back bytes that a growth uses again."""
        self.freed.keep(start, stop)
        if self.held is not None:
            self.held.freed = without(self.held.freed, start, stop)

    def give_back(self, start: int, stop: int) -> None:
        """Leave it to `Store.punch`, later, to give back the space of bytes that no longer count.

        As long as somebody may look at them they stay as they are: a load or store in a hole may
        find no space.
        """
        if self.held is not None:
            self.held.freed.append((start, stop))
        else:
            self.freed.add(start, stop)


class Provider(Protocol):
    """Where chunks of an array come from, that is open for reading.

    The core asks for chunks before it reads them, by their addresses: sorted, each once.  The three
    methods may be called by several threads at a time, but never for one chunk.
    """

    def provide(self, addresses: NDArray[np.int64]) -> None:
        """Have chunks here: when this returns, their bytes lie at their places in the region."""

    def ahead(self, addresses: NDArray[np.int64]) -> None:
        """Begin to bring chunks that `provide` may be asked for soon, and return at once."""

    def evict(self, addresses: NDArray[np.int64]) -> None:
        """Give back the space of chunks: nobody uses them before `provide` was asked again."""


class Reader(Protocol):
    """The place of an array that is more than memory, as its readers know it.

    Pairs of files, packed ones, and the replicas of ranks are such places, and so are arrays whose
    chunks come from elsewhere.  What there is at present is `now`: the state, the attributes, the
    region, and where chunks come from.
    """

    @property
    def now(self) -> Present: ...
    @property
    def absolute(self) -> str: ...  # path by which any program of this host finds the array
    @property
    def unvouched(self) -> Any: ...  # elements that nothing tells to be the writer's, or None
    def has_holes(self) -> bool: ...
    def all_holes(self, starts: list[int], stops: list[int]) -> bool: ...  # of bytes of chunks

    # What is new, which is taken up or only asked for.  `refresh` returns the axial vectors, or
    # None if nothing is new; `as_committed` goes to the newest state in a forked child.
    @property
    def sequence(self) -> int: ...  # number of the commit that is taken up
    def refresh(self, axial: Axial) -> Axial | None: ...
    def as_committed(self, axial: Axial) -> Axial: ...
    def inner_box(self, axial: Axial) -> tuple[int, tuple[list[int], list[int]]]: ...
    @property
    def replaced(self) -> bool: ...

    # What is new in several arrays at one moment: looks that are compared, and the steps by which
    # it is taken up.  States may depend on another array, the coordinator of a commit.
    def look(self) -> tuple[int, bytes, bytes]: ...  # the number of cuts comes first
    def parse(self, seen: tuple[int, bytes, bytes]) -> tuple[Superblock, list[Pending]]: ...
    def read_update(self, state: Superblock, axial: Axial, cuts: int) -> Any: ...
    def replay(self, update: Any, axial: Axial) -> None: ...
    def adopt(self, update: Any) -> None: ...
    def was_superseded(self) -> bool: ...
    def coordinator_of(self, pending: Pending) -> str: ...
    def probe(self, place: str, uuid: bytes) -> AbstractContextManager[Any]: ...

    # Which of some chunks do not match their checksums; None: nobody can tell.
    def unfit_chunks(self, addresses: NDArray[np.int64]) -> NDArray[np.int64] | None: ...

    # A name of the elements, which changes when they may have changed; and sizes.
    @property
    def generation(self) -> tuple[int, int]: ...
    @property
    def metadata_bytes(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def disk_bytes(self) -> int: ...

    # The pickle of the array: what opens it again, which for a pair of files is the function given.
    def reduced(self, reopen: Callable[..., Any]) -> tuple[Any, ...]: ...
    def warn_if_writer(self) -> None: ...
    def close(self) -> None: ...


class Commits(Protocol):
    """The steps before a change, or after a write, that a store in files needs, and no other."""

    def sync_elements(self) -> None: ...
    def begin_append(self) -> None: ...
    def begin_renewal(self) -> None: ...
    def begin_cut(self) -> None: ...
    def settle(self) -> None: ...


class Share(Protocol):
    """A store's share in a commit of several arrays."""

    @property
    def changed(self) -> Any: ...  # the share where something has to count on a disk, or None
    def hold(self) -> None: ...
    def roll_back(self) -> bool: ...
    def take_back(self, abandon: Callable[[int], None]) -> None: ...
    def forget(self) -> bool: ...
    def finish(self) -> None: ...


class Store(Protocol):
    """The place of an array: files or memory.

    A change of the bounds takes room (`reserve`, or `release` takes it back), makes what was cut
    off ready again (`renew`), and counts with `commit`.
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
