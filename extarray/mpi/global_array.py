"""Global arrays: elements in the memory of all ranks; how they are made, grow and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, SupportsIndex

import numpy as np

from extarray.array.resizing import count, is_start
from extarray.common.arguments import as_axis
from extarray.common.errors import ArgumentError, ArgumentTypeError, ShapeError
from extarray.format.dtypes import check_dtype
from extarray.grid.chunking import check_chunks, check_shape
from extarray.mpi.array import ParallelArray
from extarray.mpi.collectives import Collectives
from extarray.mpi.mutexes import Mutexes
from extarray.mpi.patches import ZoneLayout, as_ghosts, ghost_boxes
from extarray.mpi.requests import check_same_kind
from extarray.mpi.runtime import Agreement, is_agreed, leave_together
from extarray.mpi.windows import Window
from extarray.mpi.zones import Distribution, Zones

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from numpy.typing import DTypeLike

    from extarray.array.resizing import Side
    from extarray.mpi.zones import Blocks, Zone

__all__ = [
    "GlobalArray",
    "add_transfer",
    "distributed_as",
    "drop_transfer",
    "enlarge",
    "show_to_all",
    "zones_in_memory",
]


class GlobalArray(Collectives):
    """An array in the memory of the ranks of a communicator.

    Made by `GlobalArray.create` and `GlobalArray.from_array`.

    Attributes
    ----------
    comm : mpi4py.MPI.Intracomm
        A duplicate of the communicator that was given.
    dtype : dtype
    ghosts : tuple of int
        Elements that each rank copies from around its zone, at both ends of each axis.

    Notes
    -----
    `get`, `put`, `accumulate`, `gather`, `scatter`, `scatter_acc` and `read_inc` are one-sided: any
    rank calls them alone, for any part of the array.  `access`, `distribution`, `locate`,
    `locate_region`, `section` and `T` need no other rank either.  All other methods are collective.

    A rank's own `get` sees its puts and accumulations at once; all ranks see them after `sync`.
    Others see changes made through `access` after `sync`.  Several ranks may accumulate to the same
    elements at the same time; if several put to one element, any of them may be the last.

    `iget`, `iput` and `iaccumulate` begin the work of `get`, `put` and `accumulate`, and return a
    `Request`; the rules of visibility hold from its ``wait`` on.  Wait for every request before the
    next collective call.

    Examples
    --------
    >>> with GlobalArray.create((10, 12), "i8", MPI.COMM_WORLD) as g:  # doctest: +SKIP
    ...     g.accumulate((slice(0, 2), 3), g.comm.rank)
    ...     g.sync()
    ...     task = g.read_inc((9, 11))
    """

    _last: ClassVar[int] = 0  # number of the newest array of this process

    @classmethod
    def create(
        cls,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: DTypeLike,
        comm: Any,
        chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
        ghosts: SupportsIndex | Sequence[SupportsIndex] | None = None,
        *,
        process_grid: Sequence[SupportsIndex] | None = None,
        kind: Literal["block", "block_cyclic", "irregular"] = "block",
        block: Blocks = 1,
    ) -> Self:
        """Create an array of zeros; collective.

        Parameters
        ----------
        shape : int or sequence of int
            At least one axis.
        dtype : dtype_like
        comm : mpi4py.MPI.Intracomm
        chunks : int or sequence of int, optional
            Zones are cut between chunks; None: anywhere.  Irregular zones are cut as `block` says.
        ghosts : int or sequence of int, optional
            Elements around its zone that each rank has copies of, at both ends of each axis; see
            `update_ghosts`.  None: none.
        process_grid : sequence of int, optional
            Ranks along each axis; None: chosen so that zones are as near to cubes as possible.
        kind, block
            As for `distribute`.

        Returns
        -------
        GlobalArray

        Raises
        ------
        ArgumentError, ShapeError, ChunksError, DTypeError, ReserveError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> g = GlobalArray.create((10, 12), float, MPI.COMM_WORLD)  # doctest: +SKIP
        >>> g = GlobalArray.create(
        ...     (50, 40), float, MPI.COMM_WORLD, kind="irregular", block=[[0, 10, 30], [0, 25]]
        ... )  # doctest: +SKIP
        """

        def plan() -> tuple[Zones, np.dtype[Any], tuple[int, ...]]:
            bounds, elements = check_shape(shape), check_dtype(dtype)
            if not bounds:
                raise ArgumentError(
                    "a global array needs at least one axis; for a single element, give shape 1"
                )
            distribution = Distribution.of(kind, block, process_grid, len(bounds), comm.size)
            zero, chunk = (0,) * len(bounds), (1,) * len(bounds)
            if chunks is not None:
                chunk = check_chunks(chunks, bounds, elements.itemsize)
            zones = Zones(distribution, zero, bounds, zero, chunk, comm.size)
            return zones, elements, as_ghosts(ghosts, len(bounds))

        return cls._made(comm, plan)

    @classmethod
    def _made(
        cls, comm: Any, plan: Callable[[], tuple[Zones, np.dtype[Any], tuple[int, ...]]]
    ) -> Self:
        """Make an array from the zones, dtype and ghosts that each rank plans alone."""
        with Agreement.on_duplicate(comm) as agreement:
            with agreement.step() as step:
                zones, dtype, ghosts = plan()
                layout = ZoneLayout(zones, dtype, ghosts)
                step.arguments = (
                    f"create a global array of shape {zones.high} and dtype {dtype}, in chunks of "
                    f"{zones.chunks} from {zones.offset}, {zones.distribution}, ghosts {ghosts}"
                )
                step.numbers[0] = GlobalArray._last + 1
            # The step gave all ranks the same number, which no other array of theirs has.
            GlobalArray._last = number = step.numbers[0]
            return cls(agreement, layout, number)

    @classmethod
    def from_array(
        cls, a: ParallelArray, ghosts: SupportsIndex | Sequence[SupportsIndex] | None = None
    ) -> Self:
        """Create an array with the elements, chunks and zones of an array in files; collective.

        Parameters
        ----------
        a : ParallelArray
            If it is distributed by "block_cyclic" and `ghosts` are given, zones are cut as by
            `create`.
        ghosts : int or sequence of int, optional
            As for `create`.

        Returns
        -------
        GlobalArray

        Raises
        ------
        ArgumentTypeError
            A TypeError, on this rank alone: `a` has no communicator to tell the others.
        ClosedError, ReserveError, StorageError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> g = GlobalArray.from_array(a)  # doctest: +SKIP
        """

        def plan() -> tuple[Zones, np.dtype[Any], tuple[int, ...]]:
            zones, widths = a._zones(), as_ghosts(ghosts, a.ndim)
            if zones.distribution.is_dealt and any(widths):
                block = Distribution("block", (1,) * a.ndim, None)
                zones = Zones(block, zones.low, a.shape, zones.offset, a.chunks, a.comm.size)
            return zones, a.dtype, widths

        if not isinstance(a, ParallelArray):
            raise ArgumentTypeError(
                f"a must be an array opened with comm=, not {type(a).__name__}; otherwise create "
                "a GlobalArray and put the elements"
            )
        a._check()
        new = cls._made(a.comm, plan)
        try:
            a._read_boxes(new._window.layout.blocks(a.comm.rank), new.access())
        except BaseException as error:
            if is_agreed(error, new.comm):
                new.destroy()
            raise
        new._window.sync()
        return new

    def to_array(self, a: ParallelArray) -> None:
        """Write the elements to an array in files; collective.

        Parameters
        ----------
        a : ParallelArray
            On the same ranks and of the same shape; elements are cast by the rule "same_kind".

        Raises
        ------
        ArgumentError, ArgumentTypeError, ShapeError, CastingError
        ReadOnlyError, ClosedError, StorageError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> g.to_array(a)  # doctest: +SKIP
        """
        with self._start("write to files") as step:
            if not isinstance(a, ParallelArray):
                raise ArgumentTypeError(
                    f"a must be an array opened with comm=, not {type(a).__name__}"
                )
            a._check("write to")
            # Each rank writes its own zone: a rank missing from `a.comm` would leave a hole.
            if not self._has_ranks_of(a.comm):
                raise ArgumentError(
                    f"'{a.path}' is open on other ranks than the global array; open it with the "
                    "same communicator"
                )
            step.arguments = f"write to '{a.path}'"
            if a.shape != self.shape:
                raise ShapeError(
                    f"cannot write {self.shape} elements to an array of shape {a.shape}"
                )
            check_same_kind(self.dtype, a.dtype)
        a._write_boxes(self._window.layout.blocks(self.comm.rank), self.access())

    def duplicate(self) -> Self:
        """Create an array of the same elements, zones and ghosts; collective.

        Returns
        -------
        GlobalArray

        Examples
        --------
        >>> h = g.duplicate()  # doctest: +SKIP
        """
        self._check()
        new = self._made(self.comm, lambda: (self._window.layout.zones, self.dtype, self.ghosts))
        self.copy_to(new)
        return new

    def extend(self, axis: SupportsIndex, by: SupportsIndex, side: Side = "end") -> None:
        """Grow an axis by zeros; collective.

        Parameters
        ----------
        axis : int
        by : int
            Elements, at least 0.
        side : {"end", "start"}

        Raises
        ------
        AxisError, ArgumentError, ReserveError
            On all ranks, if one has a reason; the array stays as it was.

        Notes
        -----
        Zones are cut anew, and elements move to their new ranks: for a while there is memory for
        both the old and the new array, and on as long as a rank keeps an array that `access`
        returned before, which no longer shows the elements.  The cuts of irregular zones stay with
        their elements.

        Examples
        --------
        >>> g.extend(axis=0, by=10)  # doctest: +SKIP
        """
        with self._start("extend") as step:
            j, n, first = as_axis(axis, self.ndim), count(by), is_start(side)
            shape = check_shape(_shifted(self.shape, j, n))
            step.arguments = f"extend a global array along axis {j} by {n} at the {side}"
        self._grow(shape, [n if first and k == j else 0 for k in range(len(shape))])

    def distribute(
        self,
        kind: Literal["block", "block_cyclic", "irregular"] = "block",
        block: Blocks = 1,
        process_grid: Sequence[SupportsIndex] | None = None,
    ) -> None:
        """Cut the array into other zones; collective.

        Parameters
        ----------
        kind, block, process_grid
            As for `ParallelArray.distribute`.  Without `chunks`, the blocks of "block_cyclic" count
            elements.

        Raises
        ------
        ArgumentError, ArgumentTypeError, ShapeError, ReserveError
            On all ranks, if one has a reason; the array stays as it was.

        Notes
        -----
        Elements move to their new ranks, as in `extend`.  An array with ghosts has one zone per
        rank, so it refuses "block_cyclic".  Each rank keeps a table of the blocks of each axis, and
        transfers go block by block: give "block_cyclic" blocks of many elements.

        Examples
        --------
        >>> g.distribute("irregular", [[0, 10, 30], [0, 25]])  # doctest: +SKIP
        """
        with self._start("distribute") as step:
            old = self._window.layout.zones
            chosen = Distribution.of(kind, block, process_grid, self.ndim, self.comm.size)
            zones = Zones(chosen, old.low, old.high, old.offset, old.chunks, self.comm.size)
            ZoneLayout(zones, self.dtype, self.ghosts)
            step.arguments = f"distribute a global array by {chosen}"
        self._move(zones, [0] * self.ndim)

    def _grow(self, shape: tuple[int, ...], shift: list[int]) -> None:
        """Take a larger shape, in which index `shift` is the present index 0; collective."""
        old = self._window.layout.zones
        # Keep each chunk's first element: growth at the start shifts the grid.
        offset = [b + -n % c for b, n, c in zip(old.offset, shift, old.chunks, strict=True)]
        distribution = old.distribution.moved(shift)
        zones = Zones(distribution, old.low, shape, offset, old.chunks, self.comm.size)
        self._move(zones, shift)

    def _move(self, zones: Zones, shift: list[int]) -> None:
        """Move the elements to other zones, shifted by `shift` along each axis; collective."""
        window = Window(self._agreement, ZoneLayout(zones, self.dtype, self.ghosts))
        self._pull(window, shift)
        self._left.append(self._window)
        self._window = window
        self._free_left()
        self._window.sync()

    def _free_left(self) -> None:
        """Free the windows that no rank's arrays show any more; collective.

        Using an array after its memory is gone would end the process.
        """
        left, self._left = self._left, []
        for window in left:
            with self._agreement.step() as step:  # after it all ranks have read the window
                step.numbers[0] = int(window.is_seen)
            if step.numbers[0]:
                self._left.append(window)
            else:
                window.free()

    def _pull(self, window: Window, shift: list[int]) -> None:
        """Fill this rank's zones in `window` with elements of this array."""
        rank, layout = self.comm.rank, window.layout
        memory = window.own[layout.inside(rank)]
        for zone, place in layout.blocks(rank):
            # Leave out the elements that growth has added.
            inner = [
                slice(max(s.start, by), min(s.stop, by + n))
                for s, by, n in zip(zone, shift, self.shape, strict=True)
            ]
            if all(s.start < s.stop for s in inner):
                source = tuple(map(_moved, inner, (-by for by in shift)))
                by = (p.start - z.start for p, z in zip(place, zone, strict=True))
                self.get(source, memory[tuple(map(_moved, inner, by))])

    def create_mutexes(self, count: SupportsIndex) -> Mutexes:
        """Create mutexes for the ranks of this array; collective.

        Parameters
        ----------
        count : int
            Number of mutexes, at least 1.

        Returns
        -------
        Mutexes
            With ``lock(number)``, ``unlock(number)`` and ``held(number)``.

        Examples
        --------
        >>> mutexes = g.create_mutexes(1)  # doctest: +SKIP
        """
        self._check()
        return Mutexes.create(count, self.comm)

    def update_ghosts(self, wrap: bool = True) -> None:
        """Update the ghosts of all ranks from what their owners have written; collective.

        Parameters
        ----------
        wrap : bool
            Whether the array continues at its other end: ghosts beyond its bounds then show
            elements of the other side.  False: those ghosts stay as they are, zeros at first; a
            program keeps its boundary values there.

        Notes
        -----
        Corners are among the ghosts.  Other ranks do not see what a rank writes to its ghosts.

        Examples
        --------
        >>> g = GlobalArray.create((10, 12), float, MPI.COMM_WORLD, ghosts=1)  # doctest: +SKIP
        >>> g.update_ghosts()  # doctest: +SKIP
        >>> g.access(ghosts=True).shape  # doctest: +SKIP
        (7, 8)
        """
        with self._start("update ghosts") as step:
            goes_on = bool(wrap)
            step.arguments = f"update ghosts, wrap {goes_on}"
        layout, own = self._window.layout, self._window.own
        if any(self.ghosts):
            (zone,) = layout.zones.of(self.comm.rank)
            boxes = ghost_boxes(zone, self.shape, self.ghosts, goes_on)
            # Read straight into the ghosts: no other rank reads from there.
            for request in [self._read(self._plan(box), own[place]) for box, place in boxes]:
                request.wait()
        self._window.sync()

    def destroy(self) -> None:
        """Free the memory; collective.  Do not use arrays that `access` returned any more.

        Examples
        --------
        >>> g.destroy()  # doctest: +SKIP
        """
        if not self._is_open:
            return
        with self._agreement.step() as step:
            step.arguments = "destroy"
        self._end_transfers()
        self._is_open = False
        for window in (*self._left, self._window):
            window.free()
        self.comm.Free()

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # A rank that leaves by its own error does not wait for the others.
        if self._is_open and (error is None or is_agreed(error, self.comm)):
            leave_together(self.destroy, error, self.comm)


def distributed_as(g: GlobalArray, chunks: Sequence[int]) -> tuple[Any, Any, Any]:
    """Return the arguments of `ParallelArray.distribute` that distribute an array like `g`.

    Parameters
    ----------
    g : GlobalArray
    chunks : sequence of int
        Chunk shape of the array to distribute.  Dealt blocks are rounded to whole chunks, as near
        as possible to the blocks of `g`.

    Returns
    -------
    kind, block, process_grid
    """
    g._check()
    zones = g._window.layout.zones
    distribution = zones.distribution
    if distribution.kind == "irregular":
        return distribution.kind, [(0, *some) for some in distribution.edges], None
    blocks = [
        max(1, round(n * own / chunk))
        for n, own, chunk in zip(distribution.block, zones.chunks, chunks, strict=True)
    ]
    return distribution.kind, blocks, zones.process_grid


def zones_in_memory(g: GlobalArray) -> tuple[list[tuple[Zone, Zone]], int]:
    """Return this rank's zones, each with its place in `access`, and the most zones a rank has.

    Parameters
    ----------
    g : GlobalArray

    Returns
    -------
    list of tuple, int
    """
    g._check()
    layout = g._window.layout
    # Blocks are dealt to rank 0 first, so it has the most.
    most = sum(1 for _ in layout.blocks(0)) if layout.zones.distribution.is_dealt else 1
    return list(layout.blocks(g.comm.rank)), most


def enlarge(g: GlobalArray, shape: tuple[int, ...], place: tuple[int, ...]) -> None:
    """Grow the axes of a global array to a shape, by zeros; collective.

    Parameters
    ----------
    g : GlobalArray
    shape : tuple of int
        New extents, in elements.
    place : tuple of int
        New index of the element that has index 0 along each axis now.
    """
    with g._start("enlarge") as step:
        step.arguments = f"enlarge a global array to {shape}, from {place}"
    g._grow(shape, list(place))


def show_to_all(g: GlobalArray) -> None:
    """Show all ranks what all have written; transfers of files go on; collective.

    Parameters
    ----------
    g : GlobalArray
    """
    g._check()
    g._window.sync()


def add_transfer(g: GlobalArray, end: Callable[[], None]) -> None:
    """Note that a transfer between a global array and a file is under way; collective.

    Parameters
    ----------
    g : GlobalArray
    end : callable
        Ends the transfer, and calls `drop_transfer`; collective.  The array's next collective call
        calls it on all ranks.
    """
    g._under_way.append(end)


def drop_transfer(g: GlobalArray, end: Callable[[], None]) -> None:
    """Note that a transfer is over; collective.

    Parameters
    ----------
    g : GlobalArray
    end : callable
        As given to `add_transfer`.
    """
    g._under_way.remove(end)


def _moved(some: slice, by: int) -> slice:
    return slice(some.start + by, some.stop + by)


def _shifted(numbers: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    """Add to the number of one axis."""
    return (*numbers[:axis], numbers[axis] + by, *numbers[axis + 1 :])
