"""Arrays of several processes: one array, a communicator, and each rank's part in both."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Literal, cast

from extarray.array.array import ExtArray
from extarray.common.errors import ArgumentError
from extarray.mpi.agreement import is_agreed, leave_together
from extarray.mpi.changes import CollectiveChanges
from extarray.mpi.replica import ReplicaStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from extarray.mpi.agreement import Agreement
    from extarray.mpi.fileviews import FileViews
    from extarray.storage.file_store import FileStore

__all__ = ["ParallelArray"]


class ParallelArray(CollectiveChanges):
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

    __slots__ = ()

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
        if array._store.sums is not None:
            array._store.sums.alone = False
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

    def refresh(self, on_replaced: Literal["raise", "reopen"] = "raise") -> bool:
        """Take up what a writer outside has committed; collective.

        Parameters
        ----------
        on_replaced : {"raise"}
            Under a communicator there is no other way: open the array again, on all ranks.

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
            if on_replaced != "raise":
                raise ArgumentError(
                    "an array under a communicator cannot become its successor; open it again"
                )
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
        What a rank wrote before, every rank on every host sees after.  Where chunks have checksums,
        each rank makes those of the chunks that it wrote to, and rank 0 writes them.

        Examples
        --------
        >>> a.flush()  # doctest: +SKIP
        """
        with self._step_of_change() as step:
            step.arguments = "flush"
        self._sync_together()
        self._flush_together()

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

        Raises
        ------
        TruncatedError
            A ValueError, on all ranks: another program has cut the file of a writer off.  It is
            closed.

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
        try:
            self._flush_last()
            with self._agreement.step(), contextlib.ExitStack() as parts:
                parts.callback(ExtArray.close, self)
                for views in (self._alone, self._views):
                    if views is not None:
                        parts.callback(views.close)
            # Now the lock is free.
        finally:
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
            leave_together(self.close, error, self.comm)
        else:
            # The others are elsewhere; they learn of it when this rank ends.
            self._drain()
            ExtArray.close(self)
