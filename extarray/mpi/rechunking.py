"""Layout transformations by several processes, which share each template."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import TYPE_CHECKING, Any, cast

from extarray.array.array import ExtArray
from extarray.common.config import config
from extarray.maintenance.execute import Mover
from extarray.maintenance.rechunk_files import check_free, remove_pair
from extarray.mpi.agreement import Agreement
from extarray.mpi.opening import create_together, open_together
from extarray.mpi.runtime import check_comm
from extarray.mpi.sharing import shared_templates
from extarray.streaming.mapped_pages import Passing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from extarray.common.progress import Progress
    from extarray.maintenance.rechunk_pass import Pass
    from extarray.maintenance.transform import Transformation
    from extarray.mpi.array import ParallelArray
    from extarray.storage.file_store import FileStore

__all__ = ["rechunk_together"]


def rechunk_together(
    comm: Any, resume: bool, prepare: Callable[[], tuple[Path, Transformation]]
) -> ParallelArray:
    """Bring the elements of an array into another layout; collective.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
    resume : bool
        Go on where an earlier call was interrupted, if one was.
    prepare : callable
        Gives the path of the target, and what is to be done.

    Returns
    -------
    ParallelArray
        Open in mode "r+".
    """
    agreement = Agreement(check_comm(comm).Dup())
    try:
        with agreement.step() as step:
            path, work = prepare()
            work.ranks = agreement.comm.size
            work.progress = work.progress and not agreement.comm.rank
            step.arguments = (
                f"rechunk the elements {work.what} of shape {work.shape} to "
                f"'{path}' of dtype {work.header.dtype}, order {work.header.order}, attributes "
                f"{work.attrs}, verify {work.verify}, resume {resume}, by {work.passes}"
            )
        return _Shared(agreement, work).on_disk(path, resume)
    finally:
        agreement.comm.Free()


class _Shared:
    """A transformation that ranks share.

    Parameters
    ----------
    agreement : Agreement
    work : Transformation
    """

    def __init__(self, agreement: Agreement, work: Transformation) -> None:
        self._agreement, self._comm = agreement, agreement.comm
        self._work = work

    def on_disk(self, path: Path, resume: bool) -> ParallelArray:
        """The target, in files that appear when they are complete."""
        work, places = self._work, self._work.paths(path)
        found = None
        with self._agreement.step():
            if not self._comm.rank:
                found = self._look(path, places, resume)
        first, is_begun = self._comm.bcast(found)
        with work.told() as progress:
            progress.skip(sum(p.bytes_written for p in work.passes[:first]))
            for i in range(first, len(places)):
                self._pass(i, places, is_begun and i == first, progress, path)
        return open_together(
            self._comm, None, lambda: (path, "r+", 0.0, "auto", "flush", config.verify)
        )

    def _look(self, path: Path, places: list[Path], resume: bool) -> tuple[int, bool]:
        """The pass to go on with, and whether it has begun."""
        if resume and self._work.is_done(path):
            return len(places), False
        check_free(path)
        first, new = self._work.beginning(places, path, resume)
        if new is not None:
            new.close()
        return first, new is not None

    def _pass(
        self, i: int, places: list[Path], is_begun: bool, progress: Progress, path: Path
    ) -> None:
        """Make one pass; behind the last, give the target its name."""
        work, is_last = self._work, i + 1 == len(places)
        with contextlib.ExitStack() as stack:
            source = work.source
            with self._agreement.step():
                if i:
                    source = stack.enter_context(ExtArray._open(places[i - 1], "r", 0, "auto"))
            new = stack.enter_context(self._target(i, places[i], is_begun))
            if work.passes:
                self._move(i, work.passes[i], source, new, progress)
            if is_last:
                if work.verify:
                    new._sync_together()
                with self._agreement.step():
                    work.check(new, self._comm.rank)
                with self._agreement.step():
                    if not self._comm.rank:
                        store = _files_of(new)
                        store.set_attrs(work.attrs)
                        store.move(path, overwrite=False)
        with self._agreement.step():
            if not self._comm.rank:
                for place in places[:i]:
                    remove_pair(place)

    def _target(self, i: int, place: Path, is_begun: bool) -> ParallelArray:
        """The array that a pass writes."""
        work = self._work
        if is_begun:
            return open_together(
                self._comm, None, lambda: (place, "r+", 0.0, "auto", "flush", config.verify)
            )
        return create_together(
            self._comm,
            None,
            lambda: (
                place,
                work.shape,
                work.header_of(i),
                work.first_notes(i),
                "auto",
                False,
                "flush",
                work.growth,
            ),
        )

    def _move(self, i: int, p: Pass, source: Any, new: ParallelArray, progress: Progress) -> None:
        """Move the templates of a pass that are not done yet, each rank its part."""
        rank = self._comm.rank
        journal = None if rank else self._work.journal(i, _files_of(new))
        mover = Mover(p, source._verified(), new, source.dtype)
        templates = shared_templates(p, self._work.ranks)
        done = self._comm.bcast(0 if journal is None else journal.done)
        passing = Passing()
        try:
            for n, parts in enumerate(templates, 1):
                size = sum(math.prod(b - a for a, b in part) for part in parts)
                if n <= done:
                    progress.skip(size * new.itemsize)
                    continue
                with self._agreement.step() as step:
                    # Fewer parts than ranks where there are no axes.
                    for part in itertools.islice(parts, rank, rank + 1):
                        if all(a < b for a, b in part):
                            for _ in mover.move(part):
                                pass
                            passing.add(2 * new.itemsize * math.prod(b - a for a, b in part))
                    step.numbers[0] = journal is not None and journal.is_due
                progress.add(size * new.itemsize)
                if journal is not None:
                    journal.done = n
                if step.numbers[0]:
                    self._save(new, None if journal is None else journal.save)
        except BaseException:
            if journal is not None:
                journal.save_quietly()
            raise
        if i + 1 < len(self._work.passes):
            self._save(new, None if journal is None else journal.finish)

    def _save(self, new: ParallelArray, note: Callable[[], None] | None) -> None:
        """Bring what all ranks have written to the disk, and note it on rank 0."""
        new._sync_together()
        with self._agreement.step():
            if note is not None:
                note()


def _files_of(new: ParallelArray) -> FileStore:
    """The store of rank 0."""
    return cast("FileStore", new._store)
