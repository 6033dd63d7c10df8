"""Arrays of several processes: one array, a communicator, and each rank's part in both.

All ranks change the metadata together: rank 0 commits, and the others follow.
"""

from __future__ import annotations

import contextlib
import math
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex

import numpy as np

from extarray._core._history import mark_of, roll_back
from extarray.array import facts, life, together
from extarray.array.array import ExtArray
from extarray.array.freezing import has_left
from extarray.array.growth import check_kind, length_of, source_for
from extarray.array.resizing import count, give_back_freed, is_start
from extarray.array.writers import Alone, Shared
from extarray.common.arguments import as_axis, as_int
from extarray.common.errors import ArgumentError, ExtArrayError, ShapeError
from extarray.grid.chunking import check_shape, place_of
from extarray.grid.policy import encode_policy
from extarray.mpi.freezing import Hand, freeze_closed, freeze_open
from extarray.mpi.parallel_io import ParallelIO
from extarray.mpi.rank_io import extents_together
from extarray.mpi.replica import (
    NewSegments,
    ReplicaStore,
    StateUpdate,
    segments_since,
    update_since,
)
from extarray.mpi.runtime import agreed, is_agreed, leave_together, portable, received
from extarray.mpi.zones import shifted
from extarray.storage.other_hosts import in_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from extarray._core._axial import Axial
    from extarray.array.facts import Writers
    from extarray.array.resizing import Side
    from extarray.grid.policy import GrowthPolicy
    from extarray.mpi.file_views import FileViews
    from extarray.mpi.rank_io import Transfer
    from extarray.mpi.runtime import Agreement, Step
    from extarray.storage.reading import PairReader


__all__ = ["ParallelArray", "extend_in_order"]


class _Allocation(NamedTuple):
    """The room of a growth, before its elements are written and it is committed."""

    segments: NewSegments
    data_bytes: int


class _Outcome(NamedTuple):
    """The outcome of a change on rank 0, and the state committed after it."""

    update: StateUpdate
    error: bytes | None


class ParallelArray(ParallelIO):
    """An array that the ranks of a communicator have open together.

    Made by `extarray.create` and `extarray.open` with ``comm=``.

    Attributes
    ----------
    comm : mpi4py.MPI.Intracomm
        A duplicate of the communicator that was given.

    Notes
    -----
    All ranks must make these calls together: growth (`extend`, `append`, `append_zone`, `resize`,
    `shrink`, `reserve`, `add_axis`), changes of `attrs`, `dims` and `growth`, `distribute`,
    `refresh`, `flush`, `freeze`, `close`; and `read`, `write`, `read_zone` and `write_zone`, unless
    ``collective=False``.  An error on one rank is raised on all.  Changes wait for transfers that
    any rank has begun.  All other calls act on one rank alone: brackets, operators (``a += 1`` adds
    once for each rank that runs it), `accumulate`, NumPy's functions, views, copies.

    Run programs with ``mpiexec -n 4 python -m mpi4py program.py``: without ``-m mpi4py`` a rank
    that ends with its own error leaves the others waiting.

    Examples
    --------
    >>> with xa.create("scene", (10, 12), comm=MPI.COMM_WORLD) as a:  # doctest: +SKIP
    ...     a.write_zone(a.comm.rank)
    ...     a.append(np.ones((2, 12)))
    ...     a.read((slice(None), 0))
    """

    __slots__ = ("_is_shared", "_replica", "_saving", "_told")

    _is_shared: bool  # whether writers outside commit, too
    _replica: ReplicaStore | None  # the store of a rank that does not commit
    _saving: threading.Lock  # held by a thread that changes attributes
    _told: tuple[int, str]  # number of segments and attributes that rank 0 has told the others

    @classmethod
    def _join(
        cls,
        store: PairReader,
        axial: Axial,
        replica: ReplicaStore | None,
        agreement: Agreement,
        hints: Mapping[str, Any],
        views: FileViews | None,
        stage: int,
        writers: Writers,
        is_cached: bool,
    ) -> ParallelArray:
        """Make the array of all ranks from each rank's store, and the writers' policy."""
        if store.now.sums is not None:
            store.now.sums.alone = False
        store.now.sieve = None  # other ranks write, too
        self = cls.__new__(cls)
        self._replica = replica
        self._told = axial.segments, store.now.attrs
        self._is_shared = isinstance(writers, Shared)
        store.now.sends_writes = is_cached and store.now.mode == "r+"
        # Rank 0 alone commits, and so has to do with other writers.
        life.start(self, store, axial, writers if replica is None else Alone())
        self.comm = agreement.comm
        self._adding = threading.Lock()
        self._agreement = agreement
        self._alone = None
        self._distribution = self._first_distribution()
        self._latest_zones = None
        self._hints = hints
        self._is_cached = is_cached
        self._opening = threading.Lock()
        self._pair = store
        self._saving = threading.Lock()
        self._stage = stage
        self._views = views
        self._worker = None
        return self

    # Copies and unpickled arrays belong to one process.

    @classmethod
    def _plain_kind(cls) -> type[Any]:
        return ExtArray

    @classmethod
    def _reopen(cls, *pickled: Any) -> Any:
        return ExtArray._reopen(*pickled)

    def _check_sole(self, what: str) -> None:
        raise ArgumentError(
            f"cannot {what} under a communicator; open it without comm, on one rank"
        )

    def _check_unshared(self, what: str, instead: str) -> None:
        """Raise if writers outside may commit between the steps of a change."""
        if self._is_shared:
            raise ArgumentError(
                f"cannot {what} '{self.path}' under a communicator while writers share it; "
                f"{instead}"
            )

    def extend(self, axis: SupportsIndex | str, by: SupportsIndex, side: Side = "end") -> None:
        """Grow an axis; collective, see `ExtArray.extend`.

        Parameters
        ----------
        axis, by, side
            As for `ExtArray.extend`; the same on all ranks.

        Examples
        --------
        >>> a.extend(axis=1, by=4)  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            j, n = as_axis(axis, self.ndim, self), count(by)
            is_start(side)
            self._check("extend")
            step.arguments = f"extend axis {j} by {n} at the {side}"
        self._change(lambda: ExtArray.extend(self, j, n, side))

    def append(
        self,
        data: ArrayLike,
        axis: SupportsIndex | str = 0,
        side: Side = "end",
        *,
        widen: bool = False,
    ) -> None:
        """Grow an axis by data that all ranks have; collective, see `ExtArray.append`.

        Parameters
        ----------
        data, axis, side
            As for `ExtArray.append`; the same on all ranks, each of which writes a part.  Ranks
            compare the shape of the data, but not the values.
        widen : bool
            Only False: one process alone can widen an array of texts.

        Examples
        --------
        >>> a.append(np.ones((2, 12)))  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            if widen:
                raise ArgumentError(
                    "ranks cannot widen an array together; open it in one process, without comm, "
                    "and append with widen=True there"
                )
            j, first = as_axis(axis, self.ndim, self), is_start(side)
            values = source_for(self, data)
            self._check("append to")
            self._check_unshared("append to", "extend it, then write to the new part")
            n = length_of(self, values, j)
            step.arguments = f"append data of shape {tuple(values.shape)} along axis {j}, {side}"
        zones = self._zones_of_growth(j, n, first).of(self.comm.rank)
        shift = n if first else -self.shape[j]

        def fill() -> Transfer:
            places = [(zone, shifted(zone, j, shift)) for zone in zones]
            return self._io.filling(places, values)

        self._grow_by(j, n, first, fill)

    def append_zone(
        self,
        local: ArrayLike,
        axis: SupportsIndex | str,
        by: SupportsIndex,
        side: Side = "end",
    ) -> None:
        """Grow an axis by data, each rank giving its part; collective.

        Parameters
        ----------
        local : array_like
            The elements of ``zone_of_growth(axis, by, side)``: of its shape, or for "block_cyclic"
            1-D, the zones one after the other.
        axis, by, side
            As for `extend`; the same on all ranks.

        Raises
        ------
        ShapeError, CastingError, AxisError, ReadOnlyError, ClosedError, LimitError, StorageError
            On all ranks, if one has a reason; the array stays as it was.

        Notes
        -----
        One commit of the bounds follows after all data are written.

        Examples
        --------
        >>> part = a.zone_of_growth(axis=0, by=8)  # doctest: +SKIP
        >>> local = np.ones([s.stop - s.start for s in part])  # doctest: +SKIP
        >>> a.append_zone(local, axis=0, by=8)  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            j, n, first = as_axis(axis, self.ndim, self), count(by), is_start(side)
            self._check("append to")
            self._check_unshared("append to", "extend it, then write to the new part")
            zones = self._zones_of_growth(j, n, first)
            ranges = zones.ranges(self.comm.rank)
            values = self._as_local(local, ranges, zones.distribution.is_dealt)
            step.arguments = f"append zones along axis {j} by {n}, {side}"

        def fill() -> Transfer:
            if not zones.distribution.is_dealt:
                zone = zones.of(self.comm.rank)[0]
                whole = tuple(slice(0, s.stop - s.start) for s in zone)
                return self._io.filling([(zone, whole)], values)
            return self._io.writing_zones(ranges, values)

        self._grow_by(j, n, first, fill)

    def _as_local(self, local: Any, ranges: list[list[slice]], is_dealt: bool) -> NDArray[Any]:
        """Check this rank's part of an append."""
        values = np.asarray(local)
        extents = extents_together(ranges)
        wanted = (math.prod(extents),) if is_dealt else extents
        if values.shape != wanted:
            raise ShapeError(
                f"local data have shape {values.shape}, but the zone of this rank in the new part "
                f"has {wanted}; see zone_of_growth"
            )
        check_kind(self, values)
        return values

    def resize(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        axis: SupportsIndex | str | None = None,
    ) -> None:
        """Grow or shrink axes at their ends; collective, see `ExtArray.resize`.

        Parameters
        ----------
        shape, axis
            As for `ExtArray.resize`; the same on all ranks.

        Examples
        --------
        >>> a.resize((20, 12))  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            new = check_shape(shape)
            j = None if axis is None else as_axis(axis, self.ndim, self)
            self._check("resize")
            step.arguments = f"resize to {new}" + ("" if j is None else f" along axis {j}")
        self._change(lambda: ExtArray.resize(self, new, j))

    def shrink(self, axis: SupportsIndex | str, by: SupportsIndex, side: Side = "end") -> None:
        """Cut elements off an axis; collective, see `ExtArray.shrink`.

        Parameters
        ----------
        axis, by, side
            As for `ExtArray.shrink`; the same on all ranks.

        Examples
        --------
        >>> a.shrink(axis=0, by=2)  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            j, n = as_axis(axis, self.ndim, self), count(by)
            is_start(side)
            self._check("shrink")
            step.arguments = f"shrink axis {j} by {n} at the {side}"
        self._change(lambda: ExtArray.shrink(self, j, n, side))

    def reserve(self, shape: SupportsIndex | Sequence[SupportsIndex]) -> None:
        """Make room for growth; collective, see `ExtArray.reserve`.

        Parameters
        ----------
        shape : int or sequence of int
            As for `ExtArray.reserve`; the same on all ranks.

        Examples
        --------
        >>> a.reserve((100, 100))  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            new = check_shape(shape)
            self._check("reserve room for")
            step.arguments = f"reserve room for {new}"
        self._change(lambda: ExtArray.reserve(self, new))

    def add_axis(
        self, position: SupportsIndex = 0, name: str | None = None, chunk: SupportsIndex = 1
    ) -> None:
        """Add an axis of extent 1; collective, see `ExtArray.add_axis`.

        Parameters
        ----------
        position, name, chunk
            As for `ExtArray.add_axis`; the same on all ranks.

        Notes
        -----
        The zones become those of a new array, see `distribute`.

        Examples
        --------
        >>> a.add_axis(name="time")  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            at, extent = as_int(position, "position"), as_int(chunk, "chunk")
            self._check("add an axis to")
            self._check_unshared("add an axis to", "open it without share")
            step.arguments = f"add an axis at {at} with name {name!r} and chunks of {extent}"
        self._sync_together()  # the disk keeps no older state to fall back on
        self._flush_together()  # checksums move with their chunks
        self._change(lambda: ExtArray.add_axis(self, at, name, extent))

    def refresh(self, on_replaced: Literal["raise", "reopen"] = "raise") -> bool:
        """Follow the commits of a writer outside; collective.

        Parameters
        ----------
        on_replaced : {"raise"}
            The only choice under a communicator: after a replacement open the array again, on all
            ranks.

        Returns
        -------
        bool
            Whether there was news; the same on all ranks.

        Notes
        -----
        Rank 0 reads the news and sends it to the others.

        Examples
        --------
        >>> a.refresh()  # doctest: +SKIP
        False
        """
        with self._step_of_change() as step:
            if on_replaced != "raise":
                raise ArgumentError(
                    "an array under a communicator cannot be reopened in place; open it again"
                )
            step.arguments = "refresh"
        store = self._pair
        before, ndim = store.now.state.sequence, self.ndim
        self._change(self._take_up)
        if self.ndim != ndim:
            with self._agreement.step():
                if self._replica is not None:
                    self._replica.watch_file()
                    life.watch_cuts(self)
        return store.now.state.sequence != before

    def _take_up(self) -> None:
        """Follow the commits of a writer outside, on rank 0."""

        def look() -> None:
            self._drop_copies()
            ExtArray.refresh(self)

        if self._is_cached:
            in_time(look)
        else:
            look()

    def flush(self) -> None:
        """Bring the writes of all ranks to the disk; collective.

        Notes
        -----
        After the call every rank on every host sees all writes from before it.  If chunks have
        checksums, each rank sums the chunks that it wrote to, and rank 0 writes the sums.

        Examples
        --------
        >>> a.flush()  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            step.arguments = "flush"
        self._sync_together()
        if self._is_shared:
            self._change(lambda: ExtArray.flush(self))  # which takes up what others have committed
        else:
            self._flush_together()

    def freeze(self) -> int:
        """Compress all chunks, each rank a part; collective, see `ExtArray.freeze`.

        Returns
        -------
        int
            Number of chunks that were frozen; the same on all ranks.

        Raises
        ------
        ArgumentError, MissingExtraError, StorageError, ReadOnlyError, ClosedError
            On all ranks, if one has a reason; chunks that were frozen before stay so.
        LockedError
            An OSError: other processes have it open with ``share="elements"``.

        Notes
        -----
        Writes that other threads begin meanwhile wait for the end.  Chunks with writable views stay
        raw.  The space of the raw elements comes back when the array is closed.

        Examples
        --------
        >>> a.freeze()  # doctest: +SKIP
        20
        """
        with self._step_of_change() as step:
            self._check("freeze chunks of")
            facts.freezable(self)
            step.arguments = "freeze chunks"
        if self.comm.size == 1:
            return ExtArray.freeze(self)
        return freeze_open(self, self._agreement)

    def follow(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: ranks would see news at different times.

        Parameters
        ----------
        *args, **kwargs
            As for `ExtArray.follow`.

        Raises
        ------
        ArgumentError
            A ValueError.  Call `refresh` and `read`, or open the array without ``comm``.

        Examples
        --------
        >>> a.follow()  # doctest: +SKIP
        """
        raise ArgumentError(
            "follow works in a single process; under a communicator, call refresh and read on "
            "all ranks"
        )

    def close(self) -> None:
        """Close the files and release the writer's lock; collective.

        Raises
        ------
        TruncatedError
            A ValueError, on all ranks: another program has truncated the writer's file.  The array
            is closed.
        ChecksumError
            A ValueError, on all ranks: ranks of several hosts have written to parts of a damaged
            chunk.  The array is closed, and its checksums stay in doubt.

        Notes
        -----
        Closing twice is allowed.  If a rank leaves a with statement by its own error, it closes
        only its part and does not wait.  If it leaves in another way while other ranks are still
        inside, their next collective call raises that the ranks ask for different things, and this
        rank waits until they leave the statement, too.

        Examples
        --------
        >>> a.close()  # doctest: +SKIP
        """
        if self.closed:
            return
        self._drain()
        with self._agreement.step() as step:  # after this step no rank reads or writes
            step.arguments = "close"
        damage = None
        try:
            damage = self._flush_last()
            # Whoever closes last can make holes of what is frozen.
            is_in_turn = self._pair.now.frozen is not None
            is_last = is_in_turn and self._replica is None
            hand = self._hand_at_end() if is_in_turn else None
            with contextlib.ExitStack() as ends:
                if hand is not None:
                    ends.callback(hand.close)
                with self._agreement.step(), contextlib.ExitStack() as parts:
                    if not is_last:
                        parts.callback(ExtArray.close, self)
                    for views in (self._alone, self._views):
                        if views is not None:
                            parts.callback(views.close)
                    self._send_writes()  # a program on another host may open the array next
                if hand is not None:
                    freeze_closed(self, hand, self._agreement)  # rank 0 tries again what fails
                if is_in_turn:
                    with self._agreement.step():
                        if is_last:
                            ExtArray.close(self)
        finally:
            self.comm.Free()
        if damage is not None:
            raise damage

    def _hand_at_end(self) -> Hand | None:
        """Prepare to freeze what is left with all ranks; None: rank 0 closes it alone; collective.

        The locks of ranks go when they close their parts, so freezing comes later.
        """
        hand = None
        try:
            with self._agreement.step() as step:
                if self.comm.rank == 0 and self.comm.size > 1 and self.mode == "r+":
                    give_back_freed(self)  # rather than freeze it
                    step.numbers[0] = int(has_left(self))
            if step.numbers[0]:
                with self._agreement.step():
                    hand = Hand(self._agreement, self._pair.now)
                    hand.open()
        except (ExtArrayError, OSError, MemoryError):
            if hand is not None:
                hand.close()
            hand = None
        return hand

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.closed:
            return
        if error is None or is_agreed(error, self.comm):
            leave_together(self.close, error, self.comm)
        else:
            # The other ranks do not take part; they learn of it when this rank ends.
            self._drain()
            ExtArray.close(self)

    def _flush(self, last: bool = False) -> None:
        # Rank 0 alone has metadata to flush, and no rank renews checksums alone.
        if self._replica is None:
            ExtArray._flush(self, last)

    # -- changes -----------------------------------------------------------------------------------

    def _step_of_change(self) -> Step:
        """Begin a step before a change, after all transfers under way have ended.

        Transfers must find elements where their plans say, and a cut frees chunks.
        """
        self._check()
        self._drain()
        return self._agreement.step()

    def _set_policy(self, growth: GrowthPolicy) -> None:
        with self._step_of_change() as step:
            value = encode_policy(growth)
            self._check("change the growth policy of")
            step.arguments = f"set the growth policy {value}"
        self._change(lambda: ExtArray._set_policy(self, growth))

    def _save_attrs(self, change: Callable[[], str | None]) -> None:
        with self._saving:  # threads must not lose each other's changes
            with self._step_of_change() as step:
                attrs = change()
                if attrs is None:
                    step.arguments = "leave the attributes as they are"
                else:
                    self._check("change the attributes of")
                    step.arguments = f"set the attributes {attrs}"
            if attrs is not None:
                # Where writers share, the change is made to the newest attributes.
                final = change if self._pair.now.others else lambda: attrs
                self._change(lambda: ExtArray._save_attrs(self, final))

    def _grow_by(self, axis: int, by: int, at_start: bool, fill: Callable[[], Transfer]) -> None:
        """Grow an axis by elements that all ranks write together."""
        parts = partial(self._fill_parts, fill)
        self._change(lambda: together.grow_by(self, axis, by, at_start, parts), fill)

    def _change(
        self, change: Callable[[], object], fill: Callable[[], Transfer] | None = None
    ) -> None:
        """Let rank 0 change the metadata, and all ranks follow.

        `fill` plans this rank's part of the appended elements.
        """
        if self._replica is not None:
            self._follow(self._replica, fill)
        else:
            self._change_alone(change)
        self._see_writes()

    def _change_alone(self, change: Callable[[], object]) -> None:
        """Make a change on rank 0, and tell the others."""
        store, axial = self._pair, self.axial
        error = None
        try:
            change()
        except BaseException as problem:
            error = portable(agreed(problem, self.comm))
            raise
        finally:
            # After an error, too: an interrupt may have come after the commit.
            segments, attrs = self._told
            known = segments if self.axial is axial else 0  # other axes: all segments are new
            update = update_since(store, self.axial, known, attrs)
            self._told = self.axial.segments, store.now.attrs
            self._agreement.tell(_Outcome(update, error))
            self._follow_axes()

    def _follow(self, replica: ReplicaStore, fill: Callable[[], Transfer] | None) -> None:
        """Take part in a change that rank 0 makes, on another rank."""
        mark = mark_of(self.axial)
        message = self._agreement.tell()
        if isinstance(message, _Allocation):
            assert fill is not None
            try:
                self._fill_together(message, fill)
            finally:
                message = self._agreement.tell()
                self._take(replica, message.update, mark)
        else:
            self._take(replica, message.update, mark)
        if message.error is not None:
            raise received(message.error, 0, self.comm)

    def _take(self, replica: ReplicaStore, update: StateUpdate, mark: Any) -> None:
        """Adopt the state that rank 0 has committed."""
        roll_back(self.axial, mark)
        replica.take(update)
        together.show_state(self, replica.axial)
        self._follow_axes()

    def _follow_axes(self) -> None:
        """Return to the first distribution if the axes are new."""
        given = self._distribution
        if self.ndim != (0 if given is None else len(given.block)):
            self._distribution = self._first_distribution()

    def _fill_parts(self, fill: Callable[[], Transfer]) -> None:
        # Rank 0 in the middle of an append: room is made, nothing is committed.
        segments = segments_since(self.axial, self._told[0])
        allocation = _Allocation(segments, place_of(self.axial.size, self.chunk_bytes))
        self._agreement.tell(allocation)
        self._fill_together(allocation, fill)

    def _fill_together(self, allocation: _Allocation, fill: Callable[[], Transfer]) -> None:
        """Write the appended elements, each rank its part."""

        def plan() -> Transfer:
            if self._replica is not None:
                allocation.segments.replay(self.axial)
                self._replica.now.cover(allocation.data_bytes)
                together.take_room(self)
            return fill()

        self._transfer("append", plan, True)


def extend_in_order(array: ParallelArray, by: Sequence[int], order: Sequence[int]) -> None:
    """Move the ends of an array's axes in one commit; collective.

    Parameters
    ----------
    array : ParallelArray
    by : sequence of int
        Elements to add to each axis.
    order : sequence of int
        All axes, in the order in which the grid grows along them.
    """
    with array._step_of_change() as step:
        array._check("extend")
        step.arguments = f"extend by {by}, axes in order {order}"
    array._change(lambda: together.extend_in_order(array, by, order))
