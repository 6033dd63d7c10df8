"""Parallel input and output: all ranks, or one alone, move selections and zones."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from extarray._core._transfers import (
    drop_taken,
    note_shown,
    quiet_number,
    return_taken,
    take_written,
)
from extarray.array import together
from extarray.array.resizing import give_back_freed
from extarray.common.errors import (
    ChecksumError,
    ExtArrayError,
    StorageError,
    TruncatedError,
)
from extarray.common.on_error import OnError
from extarray.format.suffixes import file_names
from extarray.grid.chunking import chunks_before
from extarray.mpi.file_views import FileViews, Rounds
from extarray.mpi.rank_io import OwnIO, ThroughMPI, Transfer, accumulate
from extarray.mpi.requests import ThreadRequest
from extarray.mpi.runtime import library
from extarray.mpi.zones import ZonedArray
from extarray.storage.checksums import SUMS_AT_ONCE
from extarray.storage.filesystem import family
from extarray.storage.other_hosts import in_time

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

    from extarray.mpi.file_parts import Job
    from extarray.mpi.rank_io import RankIO
    from extarray.mpi.requests import Request
    from extarray.mpi.zones import Zone
    from extarray.storage.checksums import Sums
    from extarray.storage.reading import PairReader

__all__ = ["ParallelIO", "hints_of"]

_Out = TypeVar("_Out", bound="NDArray[Any]")


class ParallelIO(ZonedArray):
    """The part of `ParallelArray` that reads and writes."""

    __slots__ = (
        "_adding",
        "_alone",
        "_hints",
        "_is_cached",
        "_opening",
        "_stage",
        "_views",
        "_worker",
    )

    _adding: threading.Lock  # held by a thread that adds to elements
    _alone: FileViews | None  # this rank's own, opened on first use
    _hints: Mapping[str, Any]
    _is_cached: bool  # another host may have written what copies of this host hide
    _opening: threading.Lock  # held by a thread that opens `_alone`
    _stage: int  # size of the staging buffer
    _views: FileViews | None  # shared by all ranks; None without MPI-IO
    _worker: ThreadPoolExecutor | None

    @overload
    def read(
        self,
        selection: Any = ...,
        out: None = None,
        order: Literal["C", "F"] = "C",
        collective: bool = True,
    ) -> NDArray[Any]: ...
    @overload
    def read(
        self,
        selection: Any,
        out: _Out,
        order: Literal["C", "F"] = "C",
        collective: bool = True,
    ) -> _Out: ...
    @overload
    def read(
        self,
        selection: Any = ...,
        *,
        out: _Out,
        order: Literal["C", "F"] = "C",
        collective: bool = True,
    ) -> _Out: ...
    def read(
        self,
        selection: Any = ...,
        out: NDArray[Any] | None = None,
        order: Literal["C", "F"] = "C",
        collective: bool = True,
    ) -> Any:
        """Read a selection; collective.

        Parameters
        ----------
        selection, out, order
            As for `ExtArray.read`; each rank has its own.  A rank that needs no elements gives an
            empty selection such as ``slice(0)``.
        collective : bool
            False: this rank reads alone.

        Returns
        -------
        ndarray

        Raises
        ------
        BoundsError, SelectionError, ShapeError, CastingError, ClosedError, StorageError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> a.read((slice(None), a.comm.rank))  # doctest: +SKIP
        array([0., 0.])
        """
        return self._transfer("read", lambda: self._reading(selection, out, order), collective)

    def write(self, selection: Any, values: Any, collective: bool = True) -> None:
        """Write to a selection; collective.

        Parameters
        ----------
        selection, values
            As for `ExtArray.write`; each rank has its own.  If two ranks write to one element,
            either may be the last.
        collective : bool
            False: this rank writes alone.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, ReadOnlyError, ClosedError, StorageError
            On all ranks, if one has a reason.

        Notes
        -----
        Only the bytes of the selected elements are written.

        Examples
        --------
        >>> a.write((slice(None), a.comm.rank), a.comm.rank)  # doctest: +SKIP
        """
        self._transfer("write", lambda: self._io.writing(selection, values), collective)

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
            Memory order of a new result; ignored for "block_cyclic".
        out : ndarray, optional
            Array to read into.
        collective : bool
            False: this rank reads alone.

        Returns
        -------
        ndarray
            Of the zone's shape; for "block_cyclic" 1-D, the zones one after the other, each in C
            order.

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
            Shaped as from `read_zone`; unless "block_cyclic", anything that broadcasts to it.
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
            Has the kind of the elements or a simpler kind: an integer for integers.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, ReadOnlyError, ClosedError, StorageError
        DTypeError
            A TypeError: elements of this type are not added.
        CastingError
            A TypeError: `values` or `alpha` do not fit the elements.

        Notes
        -----
        No addition to an element is lost, whichever ranks add; but a `write` to it at the same time
        may be.  File locks on parts of ``.xta`` guard some chunks at a time; for several hosts the
        file system has to support locks across hosts.  An error may leave an addition half done.

        Examples
        --------
        >>> a.accumulate((slice(0, 2), 3), 1, alpha=0.5)  # doctest: +SKIP
        """
        self._check("accumulate to")
        accumulate(self, selection, values, alpha)

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
            As for `write`.  Do not change an array of values before ``wait()``.

        Returns
        -------
        Request

        Examples
        --------
        >>> a.iwrite(a.zone(), 1).wait()  # doctest: +SKIP
        """
        self._check("write to")
        return self._begin(lambda: self._io.writing(selection, values))

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
            As for `write_zone`.  Do not change it before ``wait()``.

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
    def _io(self) -> RankIO:
        return OwnIO(self) if self._views is None else ThroughMPI(self, self._stage)

    def _reading(
        self, selection: Any, out: NDArray[Any] | None, order: Literal["C", "F"]
    ) -> Transfer:
        return self._unless_cut(lambda io: io.reading(selection, out, order))

    def _reading_zone(self, order: Literal["C", "F"], out: NDArray[Any] | None) -> Transfer:
        zones = self._zones()
        if not zones.distribution.is_dealt:
            return self._reading(zones.of(self.comm.rank)[0], out, order)
        ranges = zones.ranges(self.comm.rank)
        return self._unless_cut(lambda io: io.reading_zones(ranges, out))

    def _read_boxes(self, parts: Iterable[tuple[Zone, Zone]], out: NDArray[Any]) -> None:
        """Read boxes into parts of an array; collective."""
        boxes = list(parts)

        def read(io: RankIO) -> Transfer:
            transfers = [io.reading(box, out[place], "C") for box, place in boxes]
            jobs = itertools.chain.from_iterable(one.jobs for one in transfers)
            return Transfer(jobs, False, lambda: [one.finish() for one in transfers])

        self._transfer("read", lambda: self._unless_cut(read), True)

    def _write_boxes(self, parts: Iterable[tuple[Zone, Zone]], values: NDArray[Any]) -> None:
        """Write parts of an array to boxes; collective."""
        boxes = list(parts)

        def write() -> Transfer:
            transfers = [self._io.writing(box, values[place]) for box, place in boxes]
            jobs = itertools.chain.from_iterable(one.jobs for one in transfers)
            return Transfer(jobs, True, lambda: [one.finish() for one in transfers])

        self._transfer("write", write, True)

    def _unless_cut(self, plan: Callable[[RankIO], Transfer]) -> Transfer:
        """Plan a read that runs again if a writer outside cuts elements off meanwhile.

        MPI-IO does not know of holes that lack the fill value; this rank's own engine does.
        """
        transfer, store = plan(self._io), self._pair
        cuts = store.now.cuts
        if self._views is None or cuts is None or not store.now.follows:
            return transfer

        def finish() -> Any:
            result = transfer.finish()
            return result if cuts.value == store.now.cuts_known else plan(OwnIO(self)).finish()

        return replace(transfer, finish=finish)

    def _writing_zone(self, local: Any) -> Transfer:
        zones = self._zones()
        if not zones.distribution.is_dealt:
            zone = zones.of(self.comm.rank)[0]
            return self._io.writing(zone, local)
        return self._io.writing_zones(zones.ranges(self.comm.rank), local)

    def _transfer(self, what: str, plan: Callable[[], Transfer], collective: bool) -> Any:
        """Carry out this rank's planned transfer, together with the others or alone."""
        verb = "write to" if what == "write" else None
        if not collective:
            self._check(verb)
            return self._carry_out(plan())
        self._check()
        if what == "read" and self._pair.now.sends_writes:
            plan = self._newest(plan)
        result = self._transfer_together(what, verb, plan)
        if what != "read":
            if self._pair.now.is_durable:
                self._sync_together()
            else:
                self._see_writes()
        return result

    def _newest(self, plan: Callable[[], Transfer]) -> Callable[[], Transfer]:
        """Let a read see what ranks on other hosts wrote before."""

        def planned() -> Transfer:
            self._drop_copies()
            return plan()

        return planned

    def _transfer_together(self, what: str, verb: str | None, plan: Callable[[], Transfer]) -> Any:
        """Carry out this rank's planned transfer, together with the others."""
        if self._views is None:
            with self._agreement.step() as step:
                step.arguments = what
                self._check(verb)
                transfer = plan()
                if what != "write":
                    # A failed read has changed nothing: other ranks need not wait to learn of it.
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
            with contextlib.ExitStack() as writing:
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
                    writing.enter_context(self._noted(job))
                    rounds = Rounds(job, self._stage)
                    step.numbers = [job is not None, rounds.n_views, rounds.n_pieces]
                more, n_views, n_pieces = step.numbers
                if not more:
                    return result
                failure = views.transfer(rounds, what != "read", n_views, n_pieces)

    def _carry_out(self, transfer: Transfer) -> Any:
        """Carry out a transfer alone."""
        if self._pair.now.sends_writes and not transfer.write:
            self._drop_copies()
        for job in transfer.jobs:
            with self._noted(job):
                rounds = Rounds(job, self._stage)
                self._own_views().transfer_alone(rounds, transfer.write)
                rounds.finish()
        result = transfer.finish()
        if transfer.write and (self._pair.now.is_durable or self._pair.now.sends_writes):
            self._sync_alone()
            self._pair.commits.sync_elements()
        return result

    def _sync_together(self) -> None:
        """Bring the writes of all ranks, on every host, to the disk."""
        if self._pair.now.mode == "r":
            return
        failure = None if self._views is None else self._views.sync()
        with self._agreement.step():
            if failure is not None:
                raise failure
            self._sync_alone()
            self._pair.commits.sync_elements()
        self._see_writes(is_sent=True)

    def _see_writes(self, is_sent: bool = False) -> None:
        """Let every rank see what the other hosts wrote, if their systems keep copies; collective.

        `is_sent`: the writes of all ranks are on the server already.
        """
        if not self._is_cached:
            return
        if not is_sent:
            failure, views = None, self._views
            if views is not None and self._pair.now.mode == "r+":
                failure = views.sync()
            with self._agreement.step():
                if failure is not None:
                    raise failure
                self._send_writes()
        with self._agreement.step():
            self._drop_copies()

    def _send_writes(self) -> None:
        """Send this rank's writes to the server, if other hosts could miss them."""
        now = self._pair.now
        if self._is_cached and now.mode == "r+":
            self._sync_alone()
            with family("cannot flush elements of '{}'", self.path):
                now.data.datasync()

    def _sync_alone(self) -> None:
        """Send what MPI-IO wrote for this rank alone: MooseFS keeps writes apart by open file."""
        if self._is_cached and self._alone is not None:
            failure = self._alone.sync()
            if failure is not None:
                raise failure

    def _drop_copies(self) -> None:
        """Drop the copies of this host that may hide other hosts' writes."""
        if self._is_cached:
            self._pair.drop_copies()

    # -- checksums ---------------------------------------------------------------------------

    def _flush_together(self, last: bool = False) -> None:
        """Bring checksums up to date, then the metadata to the disk; collective.

        The writes of all ranks must be on the disk before.  Raise ChecksumError if ranks have
        written to parts of a chunk that was damaged before: it gets no new checksum, and all stay
        in doubt.
        """
        store = self._pair
        sums = store.now.sums
        with self._agreement.step() as step:
            step.numbers[0] = int(sums is not None and not sums.are_settled)
        is_due, quiet, damaged = step.numbers[0], None, None
        if sums is not None and is_due:
            with self._agreement.step():
                note_shown(self, last)
            quiet = quiet_number(self)
            damaged = self._renew_together(store, sums)
        with self._agreement.step():
            # Other ranks hold no metadata; writers of elements leave them to others.
            if self.comm.rank == 0 and not store.now.elements_only:
                store.commits.flush()
        if damaged is not None:
            with self._agreement.step():
                raise together.damage_of(self, damaged)
        if sums is not None and is_due:
            self._settle_together(sums, quiet)

    def _renew_together(self, store: PairReader, sums: Sums) -> int | None:
        """Let rank 0 write the checksums of the chunks that any rank has written to.

        Each rank sums the chunks that it wrote; several that wrote one chunk get the same sum.
        Return the first chunk that was damaged before ranks wrote to parts of it, or None.
        """
        n_chunks = chunks_before(store.now.state.data_bytes, store.now.header.chunk_bytes)
        return_taken(self)  # by a call that failed
        first, damaged = 0, None
        while True:
            found = None
            with self._agreement.step() as step:
                addresses = take_written(self, first, SUMS_AT_ONCE)
                known = addresses[addresses < n_chunks]  # a failed growth may leave others
                unclear = together.unknown_to(self, known)
                step.numbers = [len(addresses), len(unclear), int(sums.inherited or sums.lost)]
                with family("cannot compute checksums of '{}'", self.path):
                    found = known, sums.entries(store.now.data, known)
            n_written, n_unclear, stay_in_doubt = step.numbers
            if not n_written:
                return damaged
            if len(addresses):
                first = int(addresses[-1]) + 1
            if n_unclear and not stay_in_doubt:
                wrong = self._known_to_none(unclear)
                if len(wrong):
                    damaged = int(wrong[0]) if damaged is None else min(damaged, int(wrong[0]))
                    is_right = ~np.isin(known, wrong)
                    found = known[is_right], found[1][is_right]
                    addresses = addresses[~np.isin(addresses, wrong)]  # the rest stays taken
            parts = self.comm.gather(found)
            with self._agreement.step():
                for part in parts or ():
                    store.chunk_sums.put_sums(*part)
            drop_taken(self, addresses)

    def _known_to_none(self, unclear: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the unclear chunks of all ranks that no rank knows, in rising order; collective.

        Whoever is first to write to a chunk knows it, as nobody has changed it: it matches its
        checksum, or is overwritten whole.  So these chunks were damaged before.
        """
        asked = np.unique(np.concatenate(self.comm.allgather(unclear)))
        mine = np.isin(asked, together.unknown_to(self, asked), invert=True)
        anybodys = np.empty_like(mine)
        self.comm.Allreduce(mine, anybodys, library().LOR)
        together.know(self, asked[anybodys])
        return asked[~anybodys]

    def _settle_together(self, sums: Sums, quiet: int | None) -> None:
        """Declare checksums right, unless a rank has written since `quiet`."""
        with sums._lock:  # new writes wait now
            before, sums.in_doubt = sums.in_doubt, False
            try:
                with self._agreement.step() as step:
                    step.numbers[0] = int(
                        quiet is None or quiet_number(self) != quiet or sums.inherited or sums.lost
                    )
                if step.numbers[0]:
                    sums.in_doubt = before
                    return
                with self._agreement.step():
                    if not self.comm.rank:
                        with family("cannot write the checksums of '{}'", self.path):
                            sums.note(False)
                            sums.file.datasync()
            except BaseException:
                sums.unsettled = True  # so that writes note doubt again
                raise
            sums.unsettled = False

    def _flush_last(self) -> ChecksumError | None:
        """Bring checksums up to date before the array is closed; errors leave them in doubt.

        Return the error for a chunk that is damaged.
        """
        if not self._pair.now.header.checksum or self._pair.now.mode != "r+":
            return None
        try:
            with self._agreement.step():
                give_back_freed(self)
            self._sync_together()
            self._flush_together(last=True)
        except ChecksumError as error:
            return error
        except (ExtArrayError, OSError):
            pass
        return None

    @contextlib.contextmanager
    def _noted(self, job: Job | None) -> Iterator[None]:
        """Bring the chunks that a job reads here, or note and verify those that it writes to."""
        now = self._pair.now
        header = now.header
        if job is None or not (header.checksum or now.supply is not None):
            yield
            return
        offsets, size = job.parts.offsets, header.chunk_bytes
        addresses, places = np.unique(chunks_before(offsets, size), return_inverse=True)
        if not job.write:
            with together.provided(self, addresses):
                yield
            return
        written = np.zeros(len(addresses), np.int64)
        np.add.at(written, places.reshape(-1), job.parts.nbytes)
        with together.noted(self, addresses, written >= size):
            yield

    def _own_views(self) -> FileViews:
        """Return the file, opened through MPI-IO for this rank alone."""
        if self._alone is None:
            with self._opening:
                if self._alone is None:
                    opened = self._opened_alone
                    self._alone = in_time(opened) if self._is_cached else opened()
        return self._alone

    def _opened_alone(self) -> FileViews:
        now = self._pair.now
        name, writable = file_names(now.absolute)[1], now.mode == "r+"
        views = FileViews(library().COMM_SELF, name, now.data, writable, self._hints)
        with OnError(views.close):
            views.check()
        return views

    def _begin(self, plan: Callable[[], Transfer]) -> Request:
        """Let a thread carry out a transfer."""
        transfer = plan()
        transfer.check()
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
        """Wait for the transfers under way."""
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = None


def hints_of(array: ParallelIO) -> Mapping[str, Any]:
    """Return an array's hints for MPI-IO."""
    return array._hints


def _done(call: Callable[[], Any]) -> Future[Any]:
    """Make a call at once, and return its outcome as a future."""
    future: Future[Any] = Future()
    try:
        future.set_result(call())
    except (StorageError, TruncatedError) as error:
        future.set_exception(error)
    return future
