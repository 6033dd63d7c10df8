"""Transfers through MPI-IO: a file view of the runs of a job, and a staging buffer.

The file type of a view lists the runs of bytes in increasing order.  Through the view the file
looks like one run, which a staging buffer takes piece by piece.  (A scattering memory type would
need no buffer, but is several times slower.)  Views and pieces stay far below 2 GiB, beyond which
some MPI libraries cannot count.
"""

from __future__ import annotations

import errno
import itertools
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import PartnerError, StorageError, TruncatedError
from extarray.common.limits import limits
from extarray.mpi.runtime import library, loses_errors, make_info, storage_error_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from extarray.mpi.file_parts import FileParts, Job
    from extarray.storage.filesystem import File

__all__ = ["FileViews", "Rounds"]


# The edges of a view without parts.
_NOTHING = [0]


class Rounds:
    """A job (None: nothing to move), cut into views, these into pieces; and the staging buffer.

    A piece has at most `stage` bytes, unless a single part has more.
    """

    def __init__(self, job: Job | None = None, stage: int = 0) -> None:
        self.job = job
        self.views = [] if job is None else list(_views(job.parts, stage))
        self.n_views = len(self.views)
        # The most pieces of any view.
        self.n_pieces = max((len(edges) - 1 for edges in self.views), default=0)
        self._ends = np.zeros(1, np.int64)
        if job is not None:
            self._ends = np.append(self._ends, job.parts.nbytes.cumsum())
        pieces = [self.nbytes(*piece) for edges in self.views for piece in pairwise(edges)]
        self.buffer = np.empty(max(pieces, default=0), np.uint8)

    def nbytes(self, first: int, stop: int) -> int:
        """Return the bytes of some parts."""
        return int(self._ends[stop] - self._ends[first])

    def move(self, first: int, stop: int) -> None:
        """Move parts between memory and the buffer."""
        if self.job is not None and first < stop:
            self.job.move(first, stop, self.buffer)

    def finish(self) -> None:
        """Finish the job, after all transfers."""
        if self.job is not None and self.job.finish is not None:
            self.job.finish()

    def runs(self, edges: list[int]) -> tuple[list[int], list[int]]:
        """Return lengths and displacements of the runs of a view."""
        if self.job is None or len(edges) == 1:
            return [], []
        return self.job.parts.runs(edges[0], edges[-1])


def _views(parts: FileParts, stage: int) -> Iterator[list[int]]:
    ends, run_ends = parts.nbytes.cumsum(), parts.n_runs.cumsum()
    first, n = 0, len(ends)
    while first < n:
        view = _behind(ends, first, limits.view_bytes)
        view = max(first + 1, min(view, _behind(run_ends, first, limits.view_runs)))
        edges = [first]
        while edges[-1] < view:
            edges.append(min(view, max(edges[-1] + 1, _behind(ends, edges[-1], stage))))
        yield edges
        first = view


def _behind(ends: NDArray[np.int64], first: int, most: int) -> int:
    """Return the end of the parts from `first` on that have at most `most` together."""
    before = int(ends[first - 1]) if first else 0
    return int(np.searchsorted(ends, before + most, "right"))


class FileViews:
    """A file opened through MPI-IO by the ranks of a communicator together.

    `file` is the same file, as this rank has opened it itself.  A new file may have a hidden name
    until it takes its own.
    """

    def __init__(
        self,
        comm: Any,
        path: str,
        file: File,
        writable: bool,
        hints: Mapping[str, Any],
        hidden: str | None = None,
    ) -> None:
        MPI = library()
        self._path, self._opened, self._own = path, hidden or path, file
        # A view is a state of the file, so transfers run one at a time.
        self._lock = threading.Lock()
        self._is_own = loses_errors()
        if self._is_own:
            comm = MPI.COMM_SELF  # other ranks must not wait if this one fails
        info = make_info(hints)
        mode = MPI.MODE_RDWR if writable else MPI.MODE_RDONLY
        try:
            self._file = MPI.File.Open(comm, self._opened, mode, info)
        except MPI.Exception as error:
            raise storage_error_of(error, f"cannot open '{path}' through MPI-IO") from error
        finally:
            info.Free()

    def check(self) -> None:
        """Raise a PartnerError if MPI's file is not the file that is open already.

        MPI opens by name, and the name may have passed to another pair of files.
        """
        if not self._own.is_at(self._opened):
            raise PartnerError(f"'{self._path}' was overwritten since it was opened; open it again")

    def transfer(
        self, rounds: Rounds, write: bool, n_views: int, n_pieces: int
    ) -> Exception | None:
        """Carry out a job together with the other ranks; return the error on this rank, or None.

        The other ranks have their own jobs or none; `n_views` and `n_pieces` are the largest of all
        ranks.  After an error this rank still takes part in all rounds: the others wait for it in
        each of them.
        """
        if self._is_own:
            try:
                self.transfer_alone(rounds, write)
            except (StorageError, TruncatedError, MemoryError) as error:
                return error
            return None
        with self._lock:
            failure = None
            views = itertools.chain(rounds.views, itertools.repeat(_NOTHING))
            for edges in itertools.islice(views, n_views):
                shown = edges if failure is None else _NOTHING
                failure = self._show(rounds, shown, write, n_pieces) or failure
        return failure

    def transfer_alone(self, rounds: Rounds, write: bool) -> None:
        """Carry out a job on this rank alone."""
        with self._lock:
            for edges in rounds.views:
                failure = self._show(rounds, edges, write, None)
                if failure is not None:
                    raise failure

    def _show(
        self, rounds: Rounds, edges: list[int], write: bool, n_pieces: int | None
    ) -> Exception | None:
        """Move the parts of one view; return the error, or None.

        `n_pieces` is the number of calls that all ranks make together; None: this rank is alone.
        """
        MPI, file = library(), self._file
        if n_pieces is None:
            call = file.Write_at if write else file.Read_at
        else:
            call = file.Write_at_all if write else file.Read_at_all
        failure: Exception | None = None
        try:
            lengths, places = rounds.runs(edges)
        except MemoryError as error:
            failure, lengths, places = error, [], []
        file_type = MPI.BYTE.Create_hindexed(lengths, places).Commit()
        pieces = [*pairwise(edges)]
        pieces += [(0, 0)] * ((n_pieces or 0) - len(pieces))
        status, done = MPI.Status(), 0
        try:
            file.Set_view(0, MPI.BYTE, file_type)
            for first, stop in pieces:
                n = 0 if failure else rounds.nbytes(first, stop)
                try:
                    if write and n:
                        rounds.move(first, stop)
                    call(done, [rounds.buffer, n, MPI.BYTE], status)
                    moved = status.Get_elements(MPI.BYTE) if n else 0
                    if moved != n:
                        why = f"{self._what(write)}: only {moved} of {n} bytes were transferred"
                        failure = StorageError(errno.EIO, why)
                    elif n and not write:
                        rounds.move(first, stop)
                except MPI.Exception as error:
                    failure = storage_error_of(error, self._what(write))
                done += n
            if lengths and not write:
                failure = self._cut_off(places[-1] + lengths[-1]) or failure
        finally:
            file_type.Free()
        return failure

    def _cut_off(self, end: int) -> Exception | None:
        """Return an error if the file ends before the last byte that was read.

        ROMIO reports a full read, and leaves the buffer as it was.  It may have opened the file on
        some ranks only (hint ``romio_no_indep_rw``), so ask the system.
        """
        try:
            size = self._own.length
        except OSError as error:
            return StorageError(error.errno or errno.EIO, f"{self._what(False)}: {error.strerror}")
        if size >= end:
            return None
        return TruncatedError(
            f"{self._what(False)} up to byte {end}: it has {size} bytes, as another program has "
            "truncated it; restore it from a copy"
        )

    def _what(self, write: bool) -> str:
        return f"cannot {'write to' if write else 'read'} '{self._path}'"

    def sync(self) -> StorageError | None:
        """Show all ranks, on every host, what all have written; return the error on this rank.

        Collective.
        """
        try:
            self._file.Sync()
        except library().Exception as error:
            return storage_error_of(error, f"cannot flush '{self._path}'")
        return None

    def close(self) -> None:
        """Close the file, even after errors on this rank; collective."""
        try:
            self._file.Close()
        except library().Exception as error:
            raise storage_error_of(error, f"cannot close '{self._path}'") from error
