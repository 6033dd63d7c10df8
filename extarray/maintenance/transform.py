"""A whole transformation: run its passes in turn and publish the last."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from extarray.common.config import config
from extarray.common.errors import (
    ExistsError,
    FormatError,
    LockedError,
    MissingError,
    StorageError,
)
from extarray.common.on_error import OnError
from extarray.common.progress import Progress, say
from extarray.common.system import remove
from extarray.format._crc import crc32c
from extarray.format.suffixes import file_names
from extarray.grid.policy import EXACT
from extarray.grid.tiles import tiles
from extarray.maintenance.journal import Journal, first_notes, has_notes
from extarray.maintenance.rechunk_files import (
    check_free,
    finish_move,
    moved_data,
    pass_path,
    remove_pair,
)
from extarray.maintenance.rechunk_pass import Pass, Task, check_memory, least_memory
from extarray.maintenance.rechunk_plan import MOST_PASSES, plan_passes
from extarray.maintenance.workers import Crew
from extarray.storage.filesystem import absolute_names, family, fresh_name, has_files
from extarray.storage.names import remove_left_of_passes
from extarray.streaming.blocks import hold, lead_of, read_elements
from extarray.streaming.holes import write_fresh
from extarray.streaming.mapped_pages import Passing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from extarray.codecs.rounding import Rounding
    from extarray.common.arguments import Reported
    from extarray.format.header import Header
    from extarray.storage.file_store import FileStore
    from extarray.streaming.holes import Write

__all__ = [
    "Arrays",
    "Transformation",
    "fill",
    "passes_between",
]


class Arrays(Protocol):
    """The operations on arrays and their files that a transformation needs."""

    def create(
        self,
        path: Path | None,
        shape: tuple[int, ...],
        header: Header,
        attrs: str,
        growth: int,
        like: tuple[str, str] | None = None,
    ) -> Any:
        """Create an array, in memory without a path; its files take the permissions of `like`."""

    def open(self, path: Path, mode: str) -> Any:
        """Open an array, without waiting for its writer."""

    def writer(self, array: Any, rounding: Rounding | None) -> Write:
        """Return the function that writes boxes to the target, in place of `write_fresh`."""

    def complete(self, array: Any) -> None:
        """Put an array that has all of its elements into its final form."""

    def store(self, array: Any) -> FileStore:
        """Return the store of an array."""


def passes_between(
    source: Any,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: np.dtype[Any],
    budget: int | None,
    in_memory: bool = False,
    most: int = MOST_PASSES,
    tables: tuple[int, int] = (0, 0),
) -> list[Pass]:
    """Return the passes from an array to chunks of another shape; none if it has no elements.

    `shape` is a parameter since `source` may grow meanwhile; its axes are in target order.  The
    default budget, in bytes, is ``config.max_memory``, or the least possible if that is more.  A
    target in memory has no chunks that must be written whole.  `tables` goes to `plan_passes`,
    which refuses a budget that is too small.
    """
    if not math.prod(shape):
        return []
    cast = None if dtype == source.dtype else dtype.itemsize
    itemsize = source.dtype.itemsize
    if budget is None:
        budget = max(config.max_memory, least_memory(source.chunks, chunks, itemsize, cast))
    task = Task(shape, source.chunks, chunks, lead_of(source), itemsize, cast)
    if in_memory:
        check_memory(task, budget, tables)
        task, most = replace(task, target_chunks=(1,) * len(shape)), 1
    return plan_passes(task, budget, most, tables)


def fill(new: Any, source: Any, tell: Callable[[int], None], write: Write = write_fresh) -> None:
    """Copy the elements of an array or view into a fresh array of its shape, in one pass.

    `tell` is called with the bytes moved since its last call.
    """
    in_memory, source = new.path is None, hold(source, verified=True)
    for p in passes_between(source, new.shape, new.chunks, new.dtype, None, in_memory, most=1):
        crew = Crew(p, source, new, config.max_memory, write)
        crew.move(p.templates(), lambda moved: tell(moved * new.itemsize))


@dataclass
class Transformation:
    """The work of bringing an array into another layout."""

    arrays: Arrays
    source: Any  # an array or a view, with its axes in the order of the target
    elements: list[Any]  # identity of the elements and their order of axes, as JSON values
    shape: tuple[int, ...]  # for which the passes were planned
    header: Header  # of the target, like `attrs`
    attrs: str
    passes: Sequence[Pass]
    memory: int  # bytes for all threads
    progress: Reported = False  # as `Progress` takes it; True also shows messages
    verify: bool = False  # read both arrays again and compare them
    growth: int = EXACT  # growth policy of the target, encoded
    ranks: int = 1  # processes that share the work
    what: str = "rechunk"  # label of the progress line
    like: tuple[str, str] | None = None  # files whose permissions those of the passes take
    rounding: Rounding | None = None  # of the elements that come into the target

    def in_memory(self) -> Any:
        """Make the target in memory."""
        header = self.header._replace(checksum=False)  # checksums exist only in files
        new = self.arrays.create(None, self.shape, header, self.attrs, self.growth)
        with OnError(new.close), self.told() as progress:
            for p in self.passes:
                self._move(p, self.source, new, progress, write=self._writer(new))
            self.check(new)
        return new

    def on_disk(
        self, path: Path, overwrite: bool = False, resume: bool = False, keep: bool = False
    ) -> Any:
        """Make the target in files that appear when they are complete.

        `overwrite` replaces an existing array, which is refused otherwise.  `resume` continues an
        interrupted call; `keep` keeps the partial work, under other names, if this call is
        interrupted.
        """
        if not overwrite:
            check_free(path)
        else:
            self.like = absolute_names(path)
        paths = self.paths(path)
        first, new = self.beginning(paths, path, resume)
        try:
            new = self._pass_by_pass(paths, first, new)
            with OnError(new.close):
                self.arrays.complete(new)
                self.check(new)
                store = self.arrays.store(new)
                store.set_attrs(self.attrs)
                if overwrite:
                    # The replaced array will be gone, so its successor must be on disk.
                    new.flush()
                store.move(path, overwrite)
        except BaseException:
            if not keep:
                for one in paths:
                    remove_pair(one)
            raise
        for one in paths[:-1]:
            remove_pair(one)
        return new

    def finish(self, path: Path) -> None:
        """Remove what earlier work left beside a complete target; report that it is complete."""
        with self.arrays.open(path, "r") as found:
            uuid = self.arrays.store(found).now.header.uuid
        for i in range(MOST_PASSES):
            one = pass_path(path, i)
            with contextlib.suppress(FileNotFoundError), family("cannot finish '{}'", path):
                remove(fresh_name(file_names(one)[1], uuid))  # the target has the data
            with contextlib.suppress(ExistsError, LockedError):
                self._clear([one], path)
        remove_left_of_passes(file_names(path))
        if self.progress is True:
            say(f"{self.what} has nothing left to do: '{path}' is complete")

    def paths(self, path: Path) -> list[Path]:
        """Return the paths that passes write to: at least one, even if there is no pass."""
        return [pass_path(path, i) for i in range(max(1, len(self.passes)))]

    def _pass_by_pass(self, paths: list[Path], first: int, new: Any) -> Any:
        """Make the array of the last pass, complete; continue with `new`, if given."""
        with self.told() as progress:
            progress.skip(sum(p.bytes_written for p in self.passes[:first]))
            for i in range(first, len(paths)):
                with contextlib.ExitStack() as stack:
                    source = self.source
                    if i:
                        source = self.arrays.open(paths[i - 1], "r")
                        stack.enter_context(source)
                    if i > 1:  # the array before the source is used up; free its space first
                        remove_pair(paths[i - 2])
                    if new is None:
                        new = self._begin(paths, i)
                    with OnError(new.close):
                        self._carry_out(i, source, new, progress)
                if i + 1 < len(paths):
                    new.close()
                    new = None
        return new

    # -- passes ------------------------------------------------------------------------------

    def told(self) -> Progress:
        """Return the progress line of the work."""
        total = sum(p.bytes_written for p in self.passes)
        return Progress(total, self.what, self.progress)

    def is_done(self, path: Path) -> bool:
        """Tell whether an earlier call has done the work; if so, publish and report it."""
        if self.has_moved(path):
            return True
        done = self._is_finished(path)
        if done:
            self.finish(path)
        return done

    def has_moved(self, path: Path) -> bool:
        """Give a complete target its name if a call was interrupted when it did so."""
        found = finish_move(path)
        if found:
            self.finish(path)
        return found

    def _is_finished(self, path: Path) -> bool:
        """Tell whether a path has the product of this work."""
        try:
            with self.arrays.open(path, "r") as found:
                return self.arrays.store(found).now.header.work == self.header.work != b""
        except (MissingError, FormatError):
            return False

    def journal(self, i: int, store: FileStore) -> Journal:
        """Return the notes of a pass, in the store of the array that it writes."""
        return Journal(store, self._job(i))

    def first_notes(self, i: int) -> str:
        """Return the initial attributes of the array that a pass writes."""
        return first_notes(self._job(i))

    def _job(self, i: int) -> dict[str, Any]:
        """Return the identity of a pass as a JSON value."""
        job = {
            "source": self.elements,
            "pass": i,
            "passes": [
                [p.shape, p.source_chunks, p.target_chunks, p.task.lead, p.template, p.blocks]
                for p in self.passes
            ],
            "dtype": str(self.header.dtype),
            "order": self.header.order,
            "ranks": self.ranks,
        }
        same: dict[str, Any] = json.loads(json.dumps(job))  # turns tuples into lists
        return same

    def header_of(self, i: int) -> Header:
        """Return the header of the array that a pass writes."""
        if i + 1 >= len(self.passes):
            return self.header
        dtype = self.source.dtype
        return self.header.renewed(
            dtype=dtype,
            chunks=self.passes[i].target_chunks,
            order="C",
            fill=bytes(dtype.itemsize),
            checksum=False,
        )

    def _begin(self, paths: list[Path], i: int) -> Any:
        header, notes = self.header_of(i), self.first_notes(i)
        return self.arrays.create(paths[i], self.shape, header, notes, self.growth, self.like)

    def beginning(self, paths: list[Path], path: Path, resume: bool) -> tuple[int, Any]:
        """Find the pass to begin with; remove what earlier work has left from there on.

        Also return its array, open for writing, if `resume` finds one that the same work began.
        Raise LockedError if someone is at that work, and ExistsError if an array has the name of a
        pass but was not made by one.
        """
        first, new = (self._left(paths) if resume else None) or (0, None)
        if new is None:
            is_other = resume and not first and any(map(has_files, paths))
            if self.progress is True and is_other:
                say(
                    f"{self.what} begins anew: earlier work on '{path}' had another source, "
                    "another state of it, or other arguments"
                )
            self._clear(paths[first:], path)
            for i in range(len(paths), MOST_PASSES):  # left by work in more passes
                with contextlib.suppress(ExistsError, LockedError):
                    self._clear([pass_path(path, i)], path)
            remove_left_of_passes(file_names(path))
        if self.progress is True and (new is not None or first):
            say(f"{self.what} continues the earlier work on '{path}'")
        return first, new

    def _clear(self, paths: list[Path], path: Path) -> None:
        for one in filter(has_files, paths):
            with (
                contextlib.suppress(MissingError, FormatError),
                self.arrays.open(one, "r+") as found,
            ):
                if not self._has_made(self.arrays.store(found)):
                    raise ExistsError(
                        errno.EEXIST,
                        f"{self.what} to '{path}' would need the name of this array for a "
                        "temporary file; give another path",
                        str(one),
                    )
            with contextlib.suppress(FileNotFoundError), family("cannot begin '{}'", path):
                remove(moved_data(file_names(one)[0], path))
            remove_pair(one)

    def _has_made(self, store: FileStore) -> bool:
        """Tell whether a pass made an array: it has notes until it is complete."""
        header = store.now.header._replace(uuid=self.header.uuid)
        is_same = header.facts == self.header.facts and store.now.attrs == self.attrs
        return has_notes(store) or is_same

    def _left(self, paths: list[Path]) -> tuple[int, Any] | None:
        """Return the pass to continue, and its array, left by earlier work of the same kind."""
        for i in reversed(range(len(paths))):
            try:
                found = self.arrays.open(paths[i], "r+")
            except MissingError:
                continue
            journal = self.journal(i, self.arrays.store(found))
            if journal.is_of_this and not journal.is_complete:
                return i, found
            found.close()
            if journal.is_complete:
                return i + 1, None
        return None

    def _carry_out(self, i: int, source: Any, new: Any, progress: Progress) -> None:
        if not self.passes:
            return
        p = self.passes[i]
        write = self._writer(new) if i + 1 == len(self.passes) else write_fresh
        journal = self.journal(i, self.arrays.store(new))
        with OnError(journal.save_quietly):
            self._move(p, source, new, progress, journal, write)
        if i + 1 < len(self.passes):
            journal.finish()

    def _writer(self, new: Any) -> Write:
        return self.arrays.writer(new, self.rounding)

    def _move(
        self,
        p: Pass,
        source: Any,
        new: Any,
        progress: Progress,
        journal: Journal | None = None,
        write: Write = write_fresh,
    ) -> None:
        itemsize = new.dtype.itemsize
        crew = Crew(p, hold(source, verified=True), new, self.memory, write)
        templates = p.templates()
        first = 0 if journal is None else journal.done
        for template in itertools.islice(templates, first):
            progress.skip(itemsize * math.prod(b - a for a, b in template))

        def tell(elements: int) -> None:
            progress.add(elements * itemsize)
            if journal is not None:
                journal.note(first + crew.done)

        crew.move(templates, tell)

    def check(self, new: Any, rank: int = 0) -> None:
        """Compare a rank's part with the source, if asked; raise StorageError if they differ."""
        if not self.verify:
            return
        limit = max((p.memory for p in self.passes), default=0) // 4
        grain = tuple(max(1, min(c, n)) for c, n in zip(new.chunks, new.shape, strict=True))
        boxes = tiles(new.shape, grain, new.itemsize, limit=limit, split=False)
        passing = Passing()
        for box in itertools.islice(boxes, rank, None, self.ranks):
            passing.add(2 * limit)
            wanted = read_elements(self.source, box).astype(new.dtype, copy=False)
            if not _agree(wanted, read_elements(new, box)):
                where = ", ".join(f"{s.start}:{s.stop}" for s in box)
                raise StorageError(
                    errno.EIO,
                    f"elements written to [{where}] read back differently; the disk may be "
                    "damaged, or the source has changed in the meantime",
                    None if new.path is None else str(new.path),
                )


def _agree(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Compare all significant bytes; casts leave padding undefined."""
    if one.dtype.names is not None:
        return all(_agree(one[name], other[name]) for name in one.dtype.names)
    if one.dtype.char in "gG":  # long doubles: 10 significant bytes of 16
        return np.array_equal(one, other, equal_nan=True)
    return _checksum(one) == _checksum(other)


def _checksum(values: NDArray[Any]) -> int:
    return crc32c(np.ascontiguousarray(values).reshape(-1).view(np.uint8))
