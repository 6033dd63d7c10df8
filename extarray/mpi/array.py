"""Arrays of several processes: one array, a communicator, and each rank's part in both."""

from __future__ import annotations

import contextvars
import math
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, cast

import numpy as np

from extarray.array import ExtArray
from extarray.bounds import count, is_start, moved
from extarray.chunking import check_shape
from extarray.errors import (
    ArgumentError,
    BoundsError,
    CastingError,
    ShapeError,
    StorageError,
)
from extarray.growth import as_source
from extarray.mpi import additions, direct, transfers
from extarray.mpi.agreement import Agreement, agreed, is_agreed, portable, received
from extarray.mpi.fileviews import FileViews, Rounds
from extarray.mpi.replica import Growth, News, ReplicaStore, growth_since, news_since
from extarray.mpi.requests import ThreadRequest
from extarray.mpi.runtime import library
from extarray.mpi.zones import Distribution, Zones
from extarray.policy import encode_policy
from extarray.stored import as_int

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from numpy.typing import ArrayLike, NDArray

    from extarray.bounds import Side
    from extarray.mpi.agreement import Step
    from extarray.mpi.requests import Request
    from extarray.mpi.transfers import Transfer
    from extarray.mpi.zones import Zone
    from extarray.policy import Growth as Policy
    from extarray.store import FileStore

__all__ = ["ParallelArray"]


class _Allocation(NamedTuple):
    """What a growth has made room for, before its data are written and it is committed."""

    growth: Growth
    data_bytes: int


class _Outcome(NamedTuple):
    """How a change went on rank 0, and what is committed then."""

    news: News
    error: bytes | None


class ParallelArray(ExtArray):
    """Array that the ranks of a communicator have open together.

    Made by `extarray.create` and `extarray.open` with ``comm=``.

    Attributes
    ----------
    comm : mpi4py.MPI.Intracomm
        A duplicate of the communicator that was given.

    Notes
    -----
    Collective, to be called by all ranks: growth (`extend`, `append`, `append_zone`, `resize`,
    `shrink`, `reserve`, `add_axis`), changes of `attrs`, `dims` and `growth`, `distribute`,
    `refresh`, `flush`, `close`; and `read`, `write`, `read_zone` and `write_zone`, unless
    ``collective=False``.  What one rank finds wrong, all raise.  Changes wait for transfers that
    any rank has begun.  Everything else is of one rank alone: brackets, operators (``a += 1`` adds
    once on each rank that runs it), `accumulate`, NumPy's functions, views, copies.

    Run programs with ``mpiexec -n 4 python -m mpi4py program.py``: without ``-m mpi4py`` a rank
    that ends by an error of its own leaves the others waiting.

    Examples
    --------
    >>> with xa.create("scene", (10, 12), comm=MPI.COMM_WORLD) as a:  # doctest: +SKIP
    ...     a.write_zone(a.comm.rank)
    ...     a.append(np.ones((2, 12)))
    ...     a.read((slice(None), 0))
    """

    __slots__ = (
        "_adding",
        "_agreement",
        "_alone",
        "_distribution",
        "_hints",
        "_known",
        "_stage",
        "_views",
        "_worker",
        "comm",
    )

    comm: Any
    _adding: threading.Lock  # held by the thread that adds to elements
    _agreement: Agreement
    _alone: FileViews | None  # of this rank, opened when it is first needed
    _distribution: Distribution | None  # None: no axes
    _hints: Mapping[str, Any]
    _known: int  # segments that all ranks know, while rank 0 changes the bounds
    _stage: int  # bytes that are staged at once
    _views: FileViews | None  # of all ranks; None where MPI-IO is not used
    _worker: ThreadPoolExecutor | None

    @classmethod
    def _join(
        cls,
        array: ExtArray,
        agreement: Agreement,
        hints: Mapping[str, Any],
        views: FileViews | None,
        stage: int,
    ) -> ParallelArray:
        """The array of all ranks, given that of each rank's store."""
        self = cls._from_store(array._store, array.axial)
        self.comm = agreement.comm
        self._adding = threading.Lock()
        self._agreement = agreement
        self._alone = None
        self._distribution = self._first_distribution()
        self._hints = hints
        self._known = 0
        self._stage = stage
        self._views = views
        self._worker = None
        return self

    # Copies and unpickled arrays are of one process.

    @classmethod
    def _create(cls, *args: Any, **options: Any) -> ExtArray:  # type: ignore[override]
        return ExtArray._create(*args, **options)

    @classmethod
    def _open(cls, *args: Any, **options: Any) -> ExtArray:  # type: ignore[override]
        return ExtArray._open(*args, **options)

    def _check_sole(self, what: str) -> None:
        raise ArgumentError(
            f"cannot {what} under a communicator; open it without comm, in one rank"
        )

    # -- zones -------------------------------------------------------------------------------

    def distribute(
        self,
        kind: Literal["block", "block_cyclic"] = "block",
        block: SupportsIndex | Sequence[SupportsIndex] = 1,
        process_grid: Sequence[SupportsIndex] | None = None,
    ) -> None:
        """Choose how the array is cut into zones; collective.

        Parameters
        ----------
        kind : {"block", "block_cyclic"}
            "block": one box a rank, as even as whole chunks allow, the larger ones first, as
            ``np.array_split`` cuts.  "block_cyclic": blocks of chunks, dealt out in turn.
        block : int or sequence of int
            Chunks of a block (along each axis), for "block_cyclic".
        process_grid : sequence of int, optional
            Ranks along each axis, row-major; None: the zones are as near to cubes of chunks as
            possible.

        Raises
        ------
        ArgumentError, ArgumentTypeError, ShapeError

        Notes
        -----
        An array begins with "block", and anew where it gains an axis.  Zones follow the bounds:
        what `zone` says is computed anew when the array has grown.

        Examples
        --------
        >>> a.distribute("block_cyclic", block=2)  # doctest: +SKIP
        """
        with self._agreement.step() as step:
            self._check()
            chosen = Distribution.of(kind, block, process_grid, self.ndim, self.comm.size)
            step.arguments = f"distribute {chosen}"
        self._distribution = chosen

    def zone(self, rank: SupportsIndex | None = None) -> Any:
        """Part of the array that belongs to a rank.

        Parameters
        ----------
        rank : int, optional
            In [0, comm.size); None: this rank.

        Returns
        -------
        tuple of slice, or list of tuple of slice
            For "block" one box, empty where there are no chunks for the rank; for "block_cyclic"
            all boxes, in increasing order.

        Raises
        ------
        BoundsError, ArgumentError

        Examples
        --------
        >>> a.zone(1)  # doctest: +SKIP
        (slice(0, 6, None), slice(6, 12, None))
        """
        return self._of_rank(self._zones(), rank)

    def owner(self, index: SupportsIndex | Sequence[SupportsIndex]) -> int:
        """Rank to whose zone an element belongs.

        Parameters
        ----------
        index : sequence of int
            An index of each axis.

        Returns
        -------
        int

        Raises
        ------
        BoundsError, ShapeError

        Examples
        --------
        >>> a.owner((7, 2))  # doctest: +SKIP
        2
        """
        given = index if isinstance(index, (tuple, list, np.ndarray)) else (index,)
        if len(given) != self.ndim:
            raise ShapeError(f"an index has {self.ndim} entries here, not {len(given)}")
        places = [as_int(i, "an index") for i in given]
        for j, (i, n) in enumerate(zip(places, self.shape, strict=True)):
            if not -n <= i < n:
                raise BoundsError(f"index {i} is out of bounds for axis {j} with size {n}")
        return self._zones().owner([i % n for i, n in zip(places, self.shape, strict=True)])

    def zone_of_growth(
        self,
        axis: SupportsIndex,
        by: SupportsIndex,
        side: Side = "end",
        rank: SupportsIndex | None = None,
    ) -> Any:
        """Part of a rank in what a growth adds, for `append_zone`.

        Parameters
        ----------
        axis, by, side
            As for `extend`.
        rank : int, optional
            In [0, comm.size); None: this rank.

        Returns
        -------
        tuple of slice, or list of tuple of slice
            As for `zone`, in the array as it will be.

        Notes
        -----
        The new part is cut like an array of its own, with a process grid that suits it, so that all
        ranks have something to write.

        Examples
        --------
        >>> a.zone_of_growth(axis=0, by=8)  # doctest: +SKIP
        (slice(10, 12, None), slice(0, 12, None))
        """
        j, n, first = self._axis(axis), count(by), is_start(side)
        parts = self._of_rank(self._zones_of_growth(j, n, first), rank)
        if not first:
            return parts
        # Indices count from the new start.
        if isinstance(parts, tuple):
            return _shifted(parts, j, n)
        return [_shifted(part, j, n) for part in parts]

    def _zones(self) -> Zones:
        """The zones of the array."""
        distribution = self._distributed()
        low, n = (0,) * self.ndim, self.comm.size
        return Zones(distribution, low, self.shape, self._store.offset, self.chunks, n)

    def _zones_of_growth(self, axis: int, by: int, at_start: bool) -> Zones:
        """The zones of what a growth adds, as elements are counted before it."""
        given = self._distributed()
        low, high = [0] * self.ndim, list(self.shape)
        low[axis], high[axis] = (-by, 0) if at_start else (high[axis], high[axis] + by)
        distribution = Distribution(given.kind, given.block, None)
        return Zones(distribution, low, high, self._store.offset, self.chunks, self.comm.size)

    def _first_distribution(self) -> Distribution | None:
        n = self.ndim
        return Distribution("block", (1,) * n, None) if n else None

    def _distributed(self) -> Distribution:
        self._check()
        if self._distribution is None:
            raise ArgumentError("an array without axes has no zones")
        return self._distribution

    def _of_rank(self, zones: Zones, rank: SupportsIndex | None) -> Any:
        r = self.comm.rank if rank is None else as_int(rank, "rank")
        if not 0 <= r < self.comm.size:
            raise BoundsError(f"there is no rank {r}: ranks are 0 ... {self.comm.size - 1}")
        parts = zones.of(r)
        return parts[0] if zones.distribution.kind == "block" else parts

    # -- reading and writing -----------------------------------------------------------------

    def read(  # type: ignore[override]
        self,
        selection: Any = ...,
        out: NDArray[Any] | None = None,
        order: Literal["C", "F"] = "C",
        collective: bool = True,
    ) -> NDArray[Any]:
        """Read a selection; collective.

        Parameters
        ----------
        selection, out, order
            As for `ExtArray.read`; each rank has its own.  A rank that needs nothing gives an empty
            selection, as ``slice(0)``.
        collective : bool
            False: this rank reads alone.

        Returns
        -------
        ndarray

        Raises
        ------
        BoundsError, SelectionError, ShapeError, CastingError, ClosedError, StorageError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> a.read((slice(None), a.comm.rank))  # doctest: +SKIP
        array([0., 0.])
        """
        result: NDArray[Any] = self._transfer(
            "read", lambda: self._reading(selection, out, order), collective
        )
        return result

    def write(self, selection: Any, values: Any, collective: bool = True) -> None:
        """Write to a selection; collective.

        Parameters
        ----------
        selection, values
            As for `ExtArray.write`; each rank has its own.  Where two ranks write to one element,
            either may be the last.
        collective : bool
            False: this rank writes alone.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, ReadOnlyError, ClosedError, StorageError
            On all ranks, where one has a reason.

        Notes
        -----
        The bytes of the selected elements are written and no others.

        Examples
        --------
        >>> a.write((slice(None), a.comm.rank), a.comm.rank)  # doctest: +SKIP
        """
        self._transfer("write", lambda: self._io.writing(self, selection, values), collective)

    def read_zone(
        self,
        order: Literal["C", "F"] = "C",
        out: NDArray[Any] | None = None,
        collective: bool = True,
    ) -> NDArray[Any]:
        """Read the zone of this rank; collective.

        Parameters
        ----------
        order : {"C", "F"}
            Memory order of a new result, for "block".
        out : ndarray, optional
            Where to read to.
        collective : bool
            False: this rank reads alone.

        Returns
        -------
        ndarray
            For "block" of the zone's shape; for "block_cyclic" 1-D, the zones one after the other,
            each in C order.

        Examples
        --------
        >>> a.read_zone().shape  # doctest: +SKIP
        (6, 6)
        """
        result: NDArray[Any] = self._transfer(
            "read", lambda: self._reading_zone(order, out), collective
        )
        return result

    def write_zone(self, local: ArrayLike, collective: bool = True) -> None:
        """Write the zone of this rank; collective.

        Parameters
        ----------
        local : array_like
            As `read_zone` gives it; for "block" also what broadcasts to it.
        collective : bool
            False: this rank writes alone.

        Examples
        --------
        >>> a.write_zone(a.read_zone() + 1)  # doctest: +SKIP
        """
        self._transfer("write", lambda: self._writing_zone(local), collective)

    def accumulate(self, selection: Any, values: ArrayLike, alpha: Any = 1) -> None:
        """Add to a selection, ``a[selection] += alpha * values``; this rank alone.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them
        values : array_like
            Broadcast to the selection, and cast by the rule ``same_kind``, as ``+=`` does.
        alpha : scalar
            Of the kind of the elements, or a simpler one: an integer for integers.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, ReadOnlyError, ClosedError, StorageError
        DTypeError
            A TypeError: elements of this type are not added.
        CastingError
            A TypeError: `values` or `alpha` do not fit the elements.

        Notes
        -----
        No two additions to an element are lost, whichever ranks make them; an addition and a
        `write` to the same element at the same time may be.  Meanwhile the chunks are locked, some
        of them at a time, by locks of the file system on parts of ``.xta``; on several hosts it has
        to keep locks for all of them.  An error may leave some elements added to and others not.

        Examples
        --------
        >>> a.accumulate((slice(0, 2), 3), 1, alpha=0.5)  # doctest: +SKIP
        """
        self._check("accumulate to")
        additions.accumulate(self, selection, values, alpha)

    def iread(
        self,
        selection: Any = ...,
        out: NDArray[Any] | None = None,
        order: Literal["C", "F"] = "C",
    ) -> Request:
        """Begin to read a selection; this rank alone.

        Parameters
        ----------
        selection, out, order
            As for `read`.

        Returns
        -------
        Request
            Its ``wait()`` gives the array.

        Examples
        --------
        >>> request = a.iread(a.zone())  # doctest: +SKIP
        >>> request.wait().shape  # doctest: +SKIP
        (6, 6)
        """
        self._check()
        return self._begin(lambda: self._reading(selection, out, order))

    def iwrite(self, selection: Any, values: Any) -> Request:
        """Begin to write to a selection; this rank alone.

        Parameters
        ----------
        selection, values
            As for `write`.  Values that are an array must stay as they are until ``wait()``.

        Returns
        -------
        Request

        Examples
        --------
        >>> a.iwrite(a.zone(), 1).wait()  # doctest: +SKIP
        """
        self._check("write to")
        return self._begin(lambda: self._io.writing(self, selection, values))

    def iread_zone(
        self, order: Literal["C", "F"] = "C", out: NDArray[Any] | None = None
    ) -> Request:
        """Begin to read the zone of this rank.

        Parameters
        ----------
        order, out
            As for `read_zone`.

        Returns
        -------
        Request
            Its ``wait()`` gives the array.

        Examples
        --------
        >>> a.iread_zone().wait().shape  # doctest: +SKIP
        (6, 6)
        """
        self._check()
        return self._begin(lambda: self._reading_zone(order, out))

    def iwrite_zone(self, local: ArrayLike) -> Request:
        """Begin to write the zone of this rank.

        Parameters
        ----------
        local : array_like
            As for `write_zone`.  It must stay as it is until ``wait()``.

        Returns
        -------
        Request

        Examples
        --------
        >>> a.iwrite_zone(a.read_zone()).wait()  # doctest: +SKIP
        """
        self._check("write to")
        return self._begin(lambda: self._writing_zone(local))

    @property
    def _io(self) -> Any:
        """What makes transfers: through MPI-IO, or by the engine of this rank."""
        return direct if self._views is None else transfers

    def _reading(
        self, selection: Any, out: NDArray[Any] | None, order: Literal["C", "F"]
    ) -> Transfer:
        return self._unless_cut(lambda io: io.reading(self, selection, out, order))

    def _reading_zone(self, order: Literal["C", "F"], out: NDArray[Any] | None) -> Transfer:
        zones = self._zones()
        if zones.distribution.kind == "block":
            return self._reading(zones.of(self.comm.rank)[0], out, order)
        ranges = zones.ranges(self.comm.rank)
        return self._unless_cut(lambda io: io.reading_zones(self, ranges, out))

    def _unless_cut(self, plan: Callable[[Any], Transfer]) -> Transfer:
        """What `plan` makes of reading, and makes anew where a writer outside cuts elements off.

        MPI-IO knows nothing of holes that do not hold the fill value; the engine of this rank does.
        """
        transfer, store = plan(self._io), self._store
        cuts = store.cuts
        if self._io is direct or cuts is None or store.mode == "r+":
            return transfer

        def finish() -> Any:
            result = transfer.finish()
            return result if cuts.value == store.cuts_known else plan(direct).finish()

        return replace(transfer, finish=finish)

    def _writing_zone(self, local: Any) -> Transfer:
        zones = self._zones()
        if zones.distribution.kind == "block":
            zone = zones.of(self.comm.rank)[0]
            return cast("Transfer", self._io.writing(self, zone, local))
        ranges = zones.ranges(self.comm.rank)
        return cast("Transfer", self._io.writing_zones(self, ranges, local))

    def _transfer(self, what: str, plan: Callable[[], Transfer], collective: bool) -> Any:
        """Carry out the transfer that this rank plans, together with the others or alone."""
        verb = "write to" if what == "write" else None
        if not collective:
            self._check(verb)
            return self._carry_out(plan())
        self._check()
        result = self._transfer_together(what, verb, plan)
        if what != "read" and self._store.is_durable:
            self._sync_together()
        return result

    def _transfer_together(self, what: str, verb: str | None, plan: Callable[[], Transfer]) -> Any:
        """Carry out the transfer that this rank plans, together with the others."""
        if self._views is None:
            with self._agreement.step() as step:
                step.arguments = what
                self._check(verb)
                transfer = plan()
                if what != "write":
                    # What fails has changed nothing that counts: the rest need not wait to know.
                    return transfer.finish()
            with self._agreement.step():
                result = transfer.finish()
        else:
            result = self._in_rounds(self._views, what, verb, plan)
        return result

    def _in_rounds(
        self, views: FileViews, what: str, verb: str | None, plan: Callable[[], Transfer]
    ) -> Any:
        """Carry out a transfer through MPI-IO, job by job, as long as any rank has one."""
        transfer, result, is_done = None, None, False
        failure, rounds = None, Rounds()
        while True:
            with self._agreement.step() as step:
                step.arguments = what
                if failure is not None:
                    raise failure
                if transfer is None:
                    self._check(verb)
                    transfer = plan()
                rounds.finish()
                job = next(transfer.jobs, None)
                if job is None and not is_done:
                    result, is_done = transfer.finish(), True
                rounds = Rounds(job, self._stage)
                step.numbers = [job is not None, rounds.n_views, rounds.n_pieces]
            more, n_views, n_pieces = step.numbers
            if not more:
                return result
            failure = views.transfer(rounds, what != "read", n_views, n_pieces)

    def _carry_out(self, transfer: Transfer) -> Any:
        """Carry out a transfer alone."""
        for job in transfer.jobs:
            rounds = Rounds(job, self._stage)
            self._own_views().transfer_alone(rounds, transfer.write)
            rounds.finish()
        result = transfer.finish()
        if transfer.write and self._store.is_durable:
            self._sync_elements()
        return result

    def _sync_together(self) -> None:
        """Have on the disk what all ranks have written, on every host."""
        if self._store.mode == "r":
            return
        failure = None if self._views is None else self._views.sync()
        with self._agreement.step():
            if failure is not None:
                raise failure
            self._sync_elements()

    def _own_views(self) -> FileViews:
        """The file, open through MPI-IO for this rank alone."""
        # A thread that has begun a transfer comes here while a change waits for it, with the lock.
        if self._alone is None:
            with self._growth:
                if self._alone is None:
                    store = cast("FileStore", self._store)
                    name, writable = f"{store.absolute}.xta", store.mode == "r+"
                    views = FileViews(library().COMM_SELF, name, writable, self._hints)
                    try:
                        views.check(store._data)
                    except BaseException:
                        views.close()
                        raise
                    self._alone = views
        return self._alone

    def _begin(self, plan: Callable[[], Transfer]) -> Request:
        """Have a thread carry out a transfer."""
        transfer = plan()
        if self._views is not None:
            self._own_views()
            MPI = library()
            if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
                return ThreadRequest(_done(lambda: self._carry_out(transfer)))
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "extarray-mpi")
        run = contextvars.copy_context().run
        return ThreadRequest(self._worker.submit(run, self._carry_out, transfer))

    def _drain(self) -> None:
        """Wait for the transfers that are under way."""
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = None

    # -- changes that all ranks make together --------------------------------------------------

    def _step_of_change(self) -> Step:
        """A step before a change, with which the transfers that any rank has begun are over.

        They shall find the elements where their plans say: a cut gives chunks back.
        """
        self._check()
        self._drain()
        return self._agreement.step()

    def extend(self, axis: SupportsIndex, by: SupportsIndex, side: Side = "end") -> None:
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
            j, n = self._axis(axis), count(by)
            is_start(side)
            self._check("extend")
            step.arguments = f"extend axis {j} by {n} at the {side}"
        self._change(lambda: ExtArray.extend(self, j, n, side))

    def append(self, data: ArrayLike, axis: SupportsIndex = 0, side: Side = "end") -> None:
        """Grow an axis by data that all ranks have; collective, see `ExtArray.append`.

        Parameters
        ----------
        data, axis, side
            As for `ExtArray.append`; the same on all ranks, of which each writes a part.  The shape
            of the data is compared, the values are not.

        Examples
        --------
        >>> a.append(np.ones((2, 12)))  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            j, first = self._axis(axis), is_start(side)
            values = as_source(data, self.dtype)
            self._check("append to")
            n = self._length_of(values, j)
            step.arguments = f"append data of shape {tuple(values.shape)} along axis {j}, {side}"
        zones = self._zones_of_growth(j, n, first).of(self.comm.rank)
        shift = n if first else -self.shape[j]

        def fill() -> Transfer:
            places = [(zone, _shifted(zone, j, shift)) for zone in zones]
            return cast("Transfer", self._io.filling(self, places, values))

        self._grow_by(j, n, first, fill)

    def append_zone(
        self,
        local: ArrayLike,
        axis: SupportsIndex,
        by: SupportsIndex,
        side: Side = "end",
    ) -> None:
        """Grow an axis by data of which each rank has a part; collective.

        Parameters
        ----------
        local : array_like
            The elements of ``zone_of_growth(axis, by, side)``: of its shape for "block", 1-D for
            "block_cyclic", the zones one after the other.
        axis, by, side
            As for `extend`; the same on all ranks.

        Raises
        ------
        ShapeError, CastingError, AxisError, ReadOnlyError, ClosedError, LimitError, StorageError
            On all ranks, where one has a reason; the array is as before.

        Notes
        -----
        The data are written first, and the bounds committed last, in one commit.

        Examples
        --------
        >>> part = a.zone_of_growth(axis=0, by=8)  # doctest: +SKIP
        >>> local = np.ones([s.stop - s.start for s in part])  # doctest: +SKIP
        >>> a.append_zone(local, axis=0, by=8)  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            j, n, first = self._axis(axis), count(by), is_start(side)
            self._check("append to")
            zones = self._zones_of_growth(j, n, first)
            ranges = zones.ranges(self.comm.rank)
            values = self._as_local(local, ranges, zones.distribution.kind)
            step.arguments = f"append zones along axis {j} by {n}, {side}"

        def fill() -> Transfer:
            if zones.distribution.kind == "block":
                zone = zones.of(self.comm.rank)[0]
                whole = tuple(slice(0, s.stop - s.start) for s in zone)
                return cast("Transfer", self._io.filling(self, [(zone, whole)], values))
            return cast("Transfer", self._io.writing_zones(self, ranges, values))

        self._grow_by(j, n, first, fill)

    def _as_local(self, local: Any, ranges: list[list[slice]], kind: str) -> NDArray[Any]:
        """The part of a rank in an append, checked."""
        values = np.asarray(local)
        extents = tuple(sum(r.stop - r.start for r in some) for some in ranges)
        wanted = extents if kind == "block" else (math.prod(extents),)
        if values.shape != wanted:
            raise ShapeError(
                f"local data of shape {values.shape} do not fit the zone of this rank in the new "
                f"part: {wanted} is needed, see zone_of_growth"
            )
        if not np.can_cast(values.dtype, self.dtype, "same_kind"):
            raise CastingError(
                f"cannot append {values.dtype} to an array of {self.dtype} by the rule "
                "'same_kind'; cast it first, with astype"
            )
        return values

    def resize(
        self, shape: SupportsIndex | Sequence[SupportsIndex], axis: SupportsIndex | None = None
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
            j = None if axis is None else self._axis(axis)
            self._check("resize")
            step.arguments = f"resize to {new}" + ("" if j is None else f" along axis {j}")
        self._change(lambda: ExtArray.resize(self, new, j))

    def shrink(self, axis: SupportsIndex, by: SupportsIndex, side: Side = "end") -> None:
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
            j, n = self._axis(axis), count(by)
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
        The zones are then those that an array begins with, see `distribute`.

        Examples
        --------
        >>> a.add_axis(name="time")  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            at, extent = as_int(position, "position"), as_int(chunk, "chunk")
            self._check("add an axis to")
            step.arguments = f"add an axis at {at} with name {name!r} and chunks of {extent}"
        self._sync_together()  # as far as the disk goes, there is no older state then
        self._change(lambda: ExtArray.add_axis(self, at, name, extent))

    def _set_policy(self, growth: Policy) -> None:
        with self._step_of_change() as step:
            value = encode_policy(growth)
            self._check("change the growth policy of")
            step.arguments = f"set the growth policy {value}"
        self._change(lambda: ExtArray._set_policy(self, growth))

    def _save_attrs(self, change: Callable[[], str | None]) -> None:
        with self._commits:
            with self._step_of_change() as step:
                attrs = change()
                self._check("change the attributes of")
                if attrs is None:
                    step.arguments = "leave the attributes as they are"
                else:
                    step.arguments = f"set the attributes {attrs}"
            if attrs is not None:
                self._change(lambda: ExtArray._save_attrs(self, lambda: attrs))

    def _grow_by(self, axis: int, by: int, at_start: bool, fill: Callable[[], Transfer]) -> None:
        """Grow an axis by what all ranks write together."""

        def change() -> None:
            with self._growth:
                self._rebound(*moved(self.shape, axis, by, at_start), fill)

        self._change(change, fill)

    def _change(
        self, change: Callable[[], object], fill: Callable[[], Transfer] | None = None
    ) -> None:
        """Have rank 0 make a change of the metadata, and all ranks take it up.

        `fill` plans the part of this rank in what the change appends.
        """
        if self.comm.rank:
            self._follow(fill)
            return
        store = cast("FileStore", self._store)
        axial, attrs = self.axial, store.attrs
        self._known = axial.segments
        error = None
        try:
            change()
        except BaseException as problem:
            error = portable(agreed(problem, self.comm))
            raise
        finally:
            # Also after an error: an interrupt may have come when all was done.
            known = self._known if self.axial is axial else 0  # other axes, all is new
            news = news_since(store, self.axial, known, attrs)
            self.comm.bcast(_Outcome(news, error))
            self._follow_axes()

    def _follow(self, fill: Callable[[], Transfer] | None) -> None:
        """What the other ranks do while rank 0 makes a change."""
        mark = self.axial._mark()
        message = self.comm.bcast(None)
        if isinstance(message, _Allocation):
            assert fill is not None
            try:
                self._fill_together(message, fill)
            finally:
                message = self.comm.bcast(None)
                self._take(message.news, mark)
        else:
            self._take(message.news, mark)
        if message.error is not None:
            raise received(message.error, 0, self.comm)

    def _take(self, news: News, mark: Any) -> None:
        """Take up what rank 0 has committed."""
        self.axial._rollback(mark)
        store = cast("ReplicaStore", self._store)
        store.take(news)
        self._show_store(store.axial)
        self._forget_touched()
        self._follow_axes()

    def _follow_axes(self) -> None:
        """Have zones of as many axes as there are."""
        given = self._distribution
        if self.ndim != (0 if given is None else len(given.block)):
            self._distribution = self._first_distribution()

    def _take_room(self) -> None:
        """Use the room that rank 0 has made for an append."""
        if self._store.region is not self._region:
            self._attach_store()
        if self.axial.size and not self._has_places:
            self._place_elements()
        self._forget_touched()

    def _fill_box(self, start: Any, stop: Any, values: Any) -> None:
        # On rank 0, in the middle of an append: room is made, and nothing is committed.
        growth = growth_since(self.axial, self._known)
        allocation = _Allocation(growth, self.axial.size * self.chunk_bytes)
        self.comm.bcast(allocation)
        self._fill_together(allocation, values)

    def _fill_together(self, allocation: _Allocation, fill: Callable[[], Transfer]) -> None:
        """Write what is appended, each rank its part."""

        def plan() -> Transfer:
            if self.comm.rank:
                allocation.growth.replay(self.axial)
                cast("ReplicaStore", self._store).cover(allocation.data_bytes)
                self._take_room()
            return fill()

        self._transfer("append", plan, True)

    # -- life ----------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Take up what a writer outside has committed; collective.

        Returns
        -------
        bool
            Whether anything was new: the same on all ranks.

        Notes
        -----
        Rank 0 reads what is new, and tells the others.

        Examples
        --------
        >>> a.refresh()  # doctest: +SKIP
        False
        """
        with self._step_of_change() as step:
            step.arguments = "refresh"
        store = cast("FileStore", self._store)
        before, ndim = store.state.sequence, self.ndim
        self._change(lambda: ExtArray.refresh(self))
        if self.ndim != ndim:
            with self._agreement.step():
                if isinstance(store, ReplicaStore):
                    store.watch_file()
                    self._watch_cuts()
        return store.state.sequence != before

    def flush(self) -> None:
        """Bring what all ranks have written to the disk; collective.

        Notes
        -----
        What a rank wrote before, every rank on every host sees after.

        Examples
        --------
        >>> a.flush()  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            step.arguments = "flush"
        self._sync_together()
        with self._agreement.step():
            if not self.comm.rank:
                ExtArray.flush(self)

    def follow(self, *args: Any, **kwargs: Any) -> Any:
        """Not possible: ranks would see news at different times.

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
            "follow is of one process; under a communicator call refresh and read, on all ranks"
        )

    def close(self) -> None:
        """Let go of the files and of the writer's lock; collective.

        Notes
        -----
        Closing twice is allowed.  A with statement that one rank leaves by an error of its own
        closes that rank's part alone, and waits for nobody.  One that it leaves while the others
        are still inside has them raise that the ranks ask for different things, and waits until
        they leave it, too.

        Examples
        --------
        >>> a.close()  # doctest: +SKIP
        """
        if self.closed:
            return
        self._drain()
        with self._agreement.step() as step:  # nobody reads or writes any more
            step.arguments = "close"
        if self._views is not None:
            self._views.close()
        if self._alone is not None:
            self._alone.close()
        ExtArray.close(self)
        self.comm.Barrier()  # the lock is free
        self.comm.Free()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.closed:
            return
        if error is None or is_agreed(error, self.comm):
            self._leave_together(error)
        else:
            # The others are elsewhere; they learn of it when this rank ends.
            self._drain()
            ExtArray.close(self)

    def _leave_together(self, error: BaseException | None) -> None:
        """Close the array at the end of a with statement that all ranks leave, now or later."""
        first = error
        while not self.closed:
            try:
                self.close()
            except BaseException as problem:
                # What the others ask for inside the statement, they raise as well.
                if not is_agreed(problem, self.comm):
                    raise
                first = first or problem
        if first is not error and first is not None:
            raise first


def _done(call: Callable[[], Any]) -> Future[Any]:
    """What a thread would give for a call, made at once."""
    future: Future[Any] = Future()
    try:
        future.set_result(call())
    except StorageError as error:
        future.set_exception(error)
    return future


def _shifted(zone: Zone, axis: int, by: int) -> Zone:
    """A box, moved along an axis."""
    moved = slice(zone[axis].start + by, zone[axis].stop + by)
    return (*zone[:axis], moved, *zone[axis + 1 :])
