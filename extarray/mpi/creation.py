"""Arrays that ranks create, open and rechunk together: rank 0 does the work, others follow.

When an array is rechunked, each rank takes whole target chunks of each template, so that no two
ranks write to one chunk.  Every rank has its own memory, so a template grows with the number of
ranks if the array is large enough: each rank then has the template of a single process.  A template
that spans an axis cannot grow along it, and is divided instead.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from extarray.array.creation import open as open_array
from extarray.array.life import fresh_store
from extarray.array.writers import Alone
from extarray.common.arguments import check_choice
from extarray.common.choices import ENGINES
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.dtypes import encode_dtype
from extarray.format.suffixes import file_names
from extarray.maintenance.execute import Mover
from extarray.maintenance.rechunk_files import check_free, remove_pair
from extarray.mpi.array import ParallelArray
from extarray.mpi.file_views import FileViews
from extarray.mpi.host_memory import is_one_host, shared_bytes
from extarray.mpi.replica import ReplicaStore, pair_of
from extarray.mpi.runtime import (
    Agreement,
    check_comm,
    default_hints,
    is_agreed,
    make_info,
    stage_bytes,
)
from extarray.mpi.zones import factorizations
from extarray.storage.file_store import FileStore
from extarray.storage.filesystem import resolve_path
from extarray.storage.lock import can_thaw
from extarray.storage.other_hosts import in_time
from extarray.storage.reading import PairReader
from extarray.streaming.blocks import hold
from extarray.streaming.mapped_pages import Passing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from extarray._core._axial import Axial
    from extarray.array.facts import Writers
    from extarray.common.progress import Progress
    from extarray.format.header import Header
    from extarray.grid.rechunk_axis import Axis
    from extarray.maintenance.rechunk_pass import Pass
    from extarray.maintenance.transform import Transformation
    from extarray.mpi.array import ParallelArray


__all__ = ["Part", "create_together", "open_together", "rechunk_together", "shared_templates"]

# Most chunks that get a mark of their own, for the other ranks of the host: see `Trust`.
_MOST_MARKS = 1 << 20

# Result of `extarray.create`'s checks: path, shape, header, attributes, engine, overwrite,
# durability, and growth policy.
_Checked = tuple[Any, tuple[int, ...], "Header", str, str, bool, str, int]


def create_together(
    comm: Any, info: Mapping[str, Any] | None, check: Callable[[], _Checked]
) -> ParallelArray:
    """Create an array; collective.  `check` returns the arguments, `info` has hints for MPI-IO."""

    def plan() -> _Making:
        path, shape, header, attrs, engine, overwrite, durability, growth = check()
        if path is None:
            raise ArgumentError(
                "an array under a communicator needs files; give a path, or leave out comm"
            )
        place = resolve_path(path)
        words = (
            f"create '{place}' of shape {shape} and dtype {encode_dtype(header.dtype)} in "
            f"chunks of {header.chunks}, order {header.order}, fill value {header.fill!r}, "
            f"sparse {header.sparse}, checksum {header.checksum}, "
            f"compression {header.encoding if header.has_blobs else None}, overwrite {overwrite}, "
            f"attributes {attrs}, durability {durability}, growth policy {growth}"
        )

        def make(own: str) -> tuple[FileStore, Axial]:
            made = fresh_store(
                place, shape, header, attrs, own, overwrite, durability, growth, hidden=True
            )
            return cast("tuple[FileStore, Axial]", made)

        return _Making(place, engine, words, make, Alone())

    return _joined(comm, info, plan)


def open_together(
    comm: Any,
    info: Mapping[str, Any] | None,
    check: Callable[[], tuple[Path, str, float | None, str, str, str, bool | None]],
    writers: Callable[[], Writers] = Alone,
) -> ParallelArray:
    """Open an array, with hints for MPI-IO; collective.

    `check` returns checked arguments: path, mode, timeout, engine, durability, verification, and
    whether to recover.  `writers` returns the policy of this writer, the ranks together.
    """

    def plan() -> _Making:
        place, mode, timeout, engine, durability, verify, recover = check()
        policy = writers()
        words = (
            f"open '{place}' with mode {mode!r}, durability {durability}, verify {verify!r}, "
            f"recover {recover}, writers {type(policy).__name__}"
        )

        def make(own: str) -> tuple[FileStore, Axial]:
            return policy.open(place, mode, timeout, own, durability, verify, recover)

        return _Making(place, engine, words, make, policy)

    return _joined(comm, info, plan)


class _Making(NamedTuple):
    """A plan to make or open: path, engine, a text for ranks to compare, and rank 0's call."""

    path: Path
    engine: str
    words: str
    make: Callable[[str], tuple[FileStore, Axial]]  # given the engine of this rank
    writers: Writers  # the policy of rank 0, which commits


def _check_info(info: Mapping[str, Any] | None) -> dict[str, str]:
    """Return hints as texts, in the order of their names."""
    if info is None:
        return {}
    try:
        hints = {str(name): str(value) for name, value in sorted(dict(info).items())}
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"info must be a mapping of names to values, not {info!r}"
        ) from None
    make_info(hints).Free()
    return hints


def _joined(
    comm: Any, info: Mapping[str, Any] | None, plan: Callable[[], _Making]
) -> ParallelArray:
    """Return the array of all ranks; each makes a plan.

    A new pair of files takes its names only after all ranks have opened it: a failure replaces
    nothing.
    """
    with Agreement.on_duplicate(comm) as agreement:
        with agreement.step() as step:
            making = plan()
            hints = _check_info(info)
            check_choice(making.engine, "engine", (*ENGINES, "mpi-io"))
            step.arguments = f"{making.words}, engine {making.engine}, info {hints}"
        return _made(agreement, making, hints)


def _made(agreement: Agreement, making: _Making, hints: dict[str, str]) -> ParallelArray:
    """Make or open an array whose arguments all ranks have agreed on."""
    comm, engine = agreement.comm, making.engine
    own, through_mpi = engine, engine == "mpi-io"
    near = is_one_host(agreement)
    if engine in ("auto", "mpi-io"):
        # Ranks of one host share its page cache; mappings on several hosts would not.
        own = "auto" if near else "pread"
        through_mpi = through_mpi or own == "pread" or bool(hints)
    writer: FileStore | None = None
    replica: ReplicaStore | None = None
    store: PairReader | None = None
    views = None
    try:
        with agreement.step():
            pair, is_cached = None, False
            if not comm.rank:
                writer, axial = making.make(own)
                store, pair = writer, pair_of(writer, axial)
                _check_sums(writer)
                if engine == "auto":
                    through_mpi = through_mpi or store.now.data.is_networked
                if store.now.header.has_blobs:
                    _check_frozen(store, comm.size, engine, near)
                    through_mpi = False
                if own == "mmap" and not near and store.now.data.is_networked:
                    raise ArgumentError(
                        "engine 'mmap' cannot serve ranks on several hosts, where a mapping does "
                        "not show the writes of others; use 'auto', 'mpi-io' or 'pread'"
                    )
                # Readers may have an outside writer on another host.
                is_cached = store.now.data.keeps_copies and (not near or store.now.mode == "r")
        pair, through_mpi, is_cached = comm.bcast((pair, through_mpi, is_cached))
        with agreement.step():
            if writer is None:

                def follow() -> ReplicaStore:
                    return ReplicaStore(making.path, pair, own)

                store = replica = in_time(follow) if is_cached else follow()
                axial = replica.axial
        assert store is not None
        file = store.now.data
        hints = {**default_hints(file), **hints}
        with agreement.step():
            if through_mpi:
                name, writable = file_names(pair.path)[1], pair.mode == "r+"
                views = FileViews(comm, name, file, writable, hints, pair.hidden and pair.hidden[1])
        if pair.n_stored is not None and pair.mode == "r+" and not pair.elements_only:
            n_bytes = min(pair.n_stored, _MOST_MARKS) + 1
            assert store.now.trust is not None
            store.now.trust.join(shared_bytes(agreement, n_bytes) if near else None)
        with agreement.step():
            if views is not None:
                views.check()
            stage = stage_bytes(file)
            array = ParallelArray._join(
                store,
                axial,
                replica,
                agreement,
                hints,
                views,
                stage,
                making.writers,
                is_cached,
            )
        array._see_writes()
        if pair.hidden is not None:
            with agreement.step():
                if writer is not None:
                    writer.take_names()
                else:
                    now = store.now
                    for file, final in zip(now.files, now.names_of_files(now.names), strict=True):
                        file.name = final
        if array._is_shared and pair.is_durable:
            array.refresh()  # rank 0 has flushed, and so may have taken up commits of others
    except BaseException as error:
        if views is not None and is_agreed(error, comm):
            views.close()
        if store is not None:
            store.close()
        raise
    return array


def _check_frozen(store: PairReader, n_ranks: int, engine: str, near: bool) -> None:
    """Refuse frozen chunks where ranks or MPI-IO would take them for raw ones."""
    path = store.now.path
    if n_ranks > 1 and store.now.frozen is None:
        raise ArgumentError(
            f"ranks cannot read '{path}' together: it is packed, and its chunks may be compressed; "
            "open it on each rank without comm, or unpack it"
        )
    is_apart = not near or store.now.data.is_networked or not can_thaw(store.now.data)
    if n_ranks > 1 and store.now.mode == "r+" and is_apart:
        raise ArgumentError(
            f"ranks cannot write '{path}' together: its chunks may be compressed, and here ranks "
            "cannot agree on who decompresses one; use one host and a local file system, or make a "
            "copy without compression"
        )
    if engine == "mpi-io":
        raise ArgumentError(
            f"engine 'mpi-io' cannot read or write '{path}', whose chunks may be compressed; leave "
            "out engine"
        )


def _check_sums(store: FileStore) -> None:
    """Refuse checksums where ranks write elements beside a writer that maintains the sums."""
    if store.now.elements_only and store.now.header.checksum:
        raise ArgumentError(
            f"ranks cannot open '{store.now.path}' with share='elements', because it has "
            "checksums; open it without share, or copy it with checksum=False"
        )


#: A part's range along each axis.
Part = tuple[tuple[int, int], ...]


class _Division(NamedTuple):
    """The templates along one axis, divided among some ranks."""

    parts: list[list[tuple[int, int]]]  # for each template one part per rank, in order
    # Sum over all templates of the largest part's elements: the work of the slowest rank.
    read: int
    written: int


def shared_templates(p: Pass, n_ranks: int) -> Iterator[list[Part]]:
    """Yield the templates of a pass, each as a list of parts, one per rank, in the order of ranks.

    The process grid along the axes minimizes the work of the busiest rank: the elements that it
    reads and writes in all templates together.  Two ranks both read a source chunk that their
    common edge divides.  Parts may be empty.

    Examples
    --------
    The example of [krishnamoorthy]_ on two ranks, divided between source chunks:

    >>> from extarray.maintenance.rechunk_pass import Task
    >>> from extarray.maintenance.rechunk_plan import swept_pass
    >>> p = swept_pass(Task((320, 288), (32, 9), (5, 16), (0, 0), 1), 1344)
    >>> p.template, next(shared_templates(p, 2))
    ((160, 144), [((0, 160), (0, 144)), ((160, 320), (0, 144))])
    """
    axes = list(zip(p.axes, p.template, strict=True))
    divisions = [
        {n: _divide(axis, template, n) for n in range(1, n_ranks + 1) if n_ranks % n == 0}
        for axis, template in axes
    ]

    def cost(grid: tuple[int, ...]) -> int:
        chosen = [division[n] for division, n in zip(divisions, grid, strict=True)]
        return math.prod(each.read for each in chosen) + math.prod(each.written for each in chosen)

    # Without axes there is one element; the first rank takes it.
    best = min(factorizations(n_ranks, len(axes)), key=cost) if axes else ()
    windows = [division[n].parts for division, n in zip(divisions, best, strict=True)]
    for template in itertools.product(*windows):
        yield list(itertools.product(*template))


def _divide(axis: Axis, template: int, n_ranks: int) -> _Division:
    """Return the best division of the templates along an axis into one part per rank."""
    units = [axis.target]
    if axis.reaches_all(template) or template % axis.period == 0:
        units.append(axis.period)  # divides no source chunk
    larger = template if axis.reaches_all(template) else n_ranks * template
    return min(
        (_divide_by(axis, larger, n_ranks, unit) for unit in units),
        key=lambda each: each.read + each.written,
    )


def _divide_by(axis: Axis, template: int, n_ranks: int, unit: int) -> _Division:
    """Cut templates between units into parts as even as whole units allow."""
    parts = []
    read = written = 0
    for start, stop in axis.windows(template):
        first = start or -(axis.shift % template)  # the first template may begin before index 0
        count = -(-(stop - first) // unit)
        edges = [first + unit * (count * i // n_ranks) for i in range(n_ranks + 1)]
        edges = [min(max(edge, start), stop) for edge in edges]
        parts.append(list(itertools.pairwise(edges)))
        read += max(axis.elements_met(*part) for part in parts[-1])
        written += max(b - a for a, b in parts[-1])
    return _Division(parts, read, written)


def rechunk_together(
    comm: Any, resume: bool, prepare: Callable[[], tuple[Path, Transformation]]
) -> ParallelArray:
    """Rechunk an array; collective.

    `prepare` returns the path of the target and the work to do.  If `resume`, continue where an
    earlier call was interrupted.  The array is returned open in mode "r+".
    """
    agreement = Agreement(check_comm(comm).Dup())
    try:
        with agreement.step() as step:
            path, work = prepare()
            work.ranks = agreement.comm.size
            work.progress = work.progress and not agreement.comm.rank
            step.arguments = (
                f"rechunk the elements {work.elements} of shape {work.shape} to "
                f"'{path}' of dtype {work.header.dtype}, order {work.header.order}, "
                f"sparse {work.header.sparse}, attributes "
                f"{work.attrs}, verify {work.verify}, resume {resume}, by {work.passes}"
            )
        return _Shared(agreement, work).on_disk(path, resume)
    finally:
        agreement.comm.Free()


class _Shared:
    """A layout transformation that ranks share."""

    def __init__(self, agreement: Agreement, work: Transformation) -> None:
        self._agreement, self._comm = agreement, agreement.comm
        self._work = work

    def on_disk(self, path: Path, resume: bool) -> ParallelArray:
        """Make the target, in files that appear when they are complete."""
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
            self._comm, None, lambda: (path, "r+", 0.0, "auto", "flush", config.verify, None)
        )

    def _look(self, path: Path, places: list[Path], resume: bool) -> tuple[int, bool]:
        """Return the pass to continue with, and whether it has begun."""
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
        """Make one pass; after the last, give the target its name."""
        work, is_last = self._work, i + 1 == len(places)
        with contextlib.ExitStack() as stack:
            source = work.source
            with self._agreement.step():
                if i:
                    source = stack.enter_context(open_array(places[i - 1]))
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
        """Create or open the array that a pass writes."""
        work = self._work
        if is_begun:
            return open_together(
                self._comm, None, lambda: (place, "r+", 0.0, "auto", "flush", config.verify, None)
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
        """Move the unfinished templates of a pass, each rank its part."""
        rank = self._comm.rank
        journal = None if rank else self._work.journal(i, _files_of(new))
        mover = Mover(p, hold(source, verified=True), new)
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
                    # An array without axes has fewer parts than ranks.
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
        """Bring the writes of all ranks to the disk, then let rank 0 note it."""
        new._sync_together()
        with self._agreement.step():
            if note is not None:
                note()


def _files_of(new: ParallelArray) -> FileStore:
    """Return the store of rank 0."""
    return cast("FileStore", new._pair)
