"""Global arrays: elements in the memory of all ranks; how they are made, grow and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

import numpy as np

from extarray.array.resizing import count, is_start
from extarray.common.arguments import as_axis
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.dtypes import check_dtype
from extarray.grid.chunking import check_chunks, check_shape
from extarray.mpi.array import ParallelArray
from extarray.mpi.collectives import Collectives
from extarray.mpi.mutexes import Mutexes
from extarray.mpi.patches import ZoneLayout, as_ghosts, ghost_boxes
from extarray.mpi.runtime import Agreement, is_agreed, leave_together
from extarray.mpi.windows import Window
from extarray.mpi.zones import Distribution, Zones

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from numpy.typing import DTypeLike

    from extarray.array.resizing import Side

__all__ = ["GlobalArray", "enlarge"]


class GlobalArray(Collectives):
    """An array in the memory of the ranks of a communicator.

    Made by `GlobalArray.create` and `GlobalArray.from_array`.

    Attributes
    ----------
    comm : mpi4py.MPI.Intracomm
        A duplicate of the communicator that was given.
    dtype : dtype
    ghosts : tuple of int
        Elements around the zone of each rank that it has copies of, at both ends of each axis.

    Notes
    -----
    `get`, `put`, `accumulate`, `gather`, `scatter`, `scatter_acc` and `read_inc` are one-sided: any
    rank calls them alone, for any part of the array.  So are `access` and `distribution`, which
    need no other rank.  All else is collective.

    What a rank puts or accumulates, its own later `get` sees at once, and all ranks after `sync`.
    What it writes to `access`, others see after `sync`.  Several ranks may accumulate to the same
    elements at the same time; of several that put to one element, any may be the last.

    `iget`, `iput` and `iaccumulate` begin what `get`, `put` and `accumulate` do, and give a
    `Request`; what is said of visibility holds from its ``wait`` on.  Every request has to be
    waited for before the next collective call.

    Examples
    --------
    >>> with GlobalArray.create((10, 12), "i8", MPI.COMM_WORLD) as g:  # doctest: +SKIP
    ...     g.accumulate((slice(0, 2), 3), g.comm.rank)
    ...     g.sync()
    ...     task = g.read_inc((9, 11))
    """

    _last: ClassVar[int] = 0  # number of the last one that this process has made

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
    ) -> Self:
        """Create an array of zeros; collective.

        Parameters
        ----------
        shape : int or sequence of int
            At least one axis.
        dtype : dtype_like
        comm : mpi4py.MPI.Intracomm
        chunks : int or sequence of int, optional
            Between which zones are cut; None: anywhere.
        ghosts : int or sequence of int, optional
            Elements around its zone of which each rank has copies, at both ends of each axis, see
            `update_ghosts`; None: none.
        process_grid : sequence of int, optional
            Ranks along each axis; None: the zones are as near to cubes as possible.

        Returns
        -------
        GlobalArray

        Raises
        ------
        ArgumentError, ShapeError, ChunksError, DTypeError, ReserveError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g = GlobalArray.create((10, 12), float, MPI.COMM_WORLD)  # doctest: +SKIP
        """

        def plan() -> tuple[Zones, np.dtype[Any], tuple[int, ...]]:
            bounds, kind = check_shape(shape), check_dtype(dtype)
            if not bounds:
                raise ArgumentError("a global array has at least one axis; for one element give 1")
            block = Distribution.of("block", 1, process_grid, len(bounds), comm.size)
            zero, chunk = (0,) * len(bounds), (1,) * len(bounds)
            if chunks is not None:
                chunk = check_chunks(chunks, bounds, kind.itemsize)
            zones = Zones(block, zero, bounds, zero, chunk, comm.size)
            return zones, kind, as_ghosts(ghosts, len(bounds))

        return cls._made(comm, plan)

    @classmethod
    def _made(
        cls, comm: Any, plan: Callable[[], tuple[Zones, np.dtype[Any], tuple[int, ...]]]
    ) -> Self:
        """Make an array of zones, a dtype and ghosts, which each rank finds out alone."""
        with Agreement.on_duplicate(comm) as agreement:
            with agreement.step() as step:
                zones, dtype, ghosts = plan()
                step.arguments = (
                    f"create a global array of shape {zones.high} and dtype {dtype}, in chunks of "
                    f"{zones.chunks} from {zones.offset}, {zones.distribution}, ghosts {ghosts}"
                )
                step.numbers[0] = GlobalArray._last + 1
            # The same on all of its ranks, of which none has another array of this number.
            GlobalArray._last = number = step.numbers[0]
            return cls(agreement, zones, dtype, ghosts, number)

    @classmethod
    def from_array(
        cls, a: ParallelArray, ghosts: SupportsIndex | Sequence[SupportsIndex] | None = None
    ) -> Self:
        """Create an array with the elements, chunks and zones of one in files; collective.

        Parameters
        ----------
        a : ParallelArray
            If it is distributed otherwise than by "block", zones are as `create` cuts them.
        ghosts : int or sequence of int, optional
            As for `create`.

        Returns
        -------
        GlobalArray

        Raises
        ------
        ArgumentTypeError
            A TypeError, on this rank alone: `a` has no communicator, by which others could learn.
        ClosedError, ReserveError, StorageError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g = GlobalArray.from_array(a)  # doctest: +SKIP
        """

        def plan() -> tuple[Zones, np.dtype[Any], tuple[int, ...]]:
            zones = a._zones()
            if zones.distribution.kind != "block":
                block = Distribution("block", (1,) * a.ndim, None)
                zones = Zones(block, zones.low, a.shape, zones.offset, a.chunks, a.comm.size)
            return zones, a.dtype, as_ghosts(ghosts, a.ndim)

        if not isinstance(a, ParallelArray):
            raise ArgumentTypeError(
                f"a must be an array that was opened with comm=, not {type(a).__name__}; for "
                "another one, create a GlobalArray and put its elements"
            )
        a._check()
        new = cls._made(a.comm, plan)
        try:
            a.read(new.distribution(), out=new.access())
        except BaseException as error:
            if is_agreed(error, new.comm):
                new.destroy()
            raise
        new._window.sync()
        return new

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
            On all ranks, where one has a reason; the array is as before.

        Notes
        -----
        The zones are cut anew, and elements move to their new ranks: for a while there is memory
        for both the old and the new array.  What `access` gave before must not be used any more.

        Examples
        --------
        >>> g.extend(axis=0, by=10)  # doctest: +SKIP
        """
        with self._start("extend") as step:
            j, n, first = as_axis(axis, self.ndim), count(by), is_start(side)
            old = self._window.layout.zones
            shape = check_shape(_shifted(self.shape, j, n))
            step.arguments = f"extend a global array along axis {j} by {n} at the {side}"
        # Chunks begin with the elements with which they began.
        offset = _shifted(old.offset, j, -n % old.chunks[j] if first else 0)
        zones = Zones(old.distribution, old.low, shape, offset, old.chunks, self.comm.size)
        self._move(zones, [n if first and k == j else 0 for k in range(len(shape))])

    def _move(self, zones: Zones, shift: list[int]) -> None:
        """Move the elements to other zones, `shift` further along each axis; collective."""
        window = Window(self._agreement, ZoneLayout(zones, self.dtype, self.ghosts))
        self._pull(window, shift)
        self._window.sync()  # nobody reads the old one any more
        self._window.free()
        self._window = window
        self._window.sync()

    def _pull(self, window: Window, shift: list[int]) -> None:
        """Read the elements of this rank's zone in another window that this array has."""
        zone = window.layout.zone(self.comm.rank)
        inner = [
            slice(max(s.start, by), min(s.stop, by + n))
            for s, by, n in zip(zone, shift, self.shape, strict=True)
        ]
        if all(s.start < s.stop for s in inner):
            source = tuple(
                slice(s.start - by, s.stop - by) for s, by in zip(inner, shift, strict=True)
            )
            place = tuple(
                slice(s.start - z.start + w, s.stop - z.start + w)
                for s, z, w in zip(inner, zone, self.ghosts, strict=True)
            )
            self.get(source, window.own[place])

    def create_mutexes(self, count: SupportsIndex) -> Mutexes:
        """Create mutexes for the ranks of this array; collective.

        Parameters
        ----------
        count : int
            How many, at least 1.

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
        """Update the ghosts of all ranks by what their owners have written; collective.

        Parameters
        ----------
        wrap : bool
            Whether the array goes on at its other end: ghosts beyond its bounds then show elements
            of the other side.  False: those stay as they are, zeros at first; a program keeps its
            boundary values there.

        Notes
        -----
        Corners are among the ghosts.  Others do not see what a rank writes to its ghosts.

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
        zone = layout.zone(self.comm.rank)
        boxes = ghost_boxes(zone, self.shape, self.ghosts, goes_on)
        # Straight to where they belong: nobody reads from there.
        for request in [self._read(self._box(box), own[place]) for box, place in boxes]:
            request.wait()
        self._window.sync()

    def destroy(self) -> None:
        """Give the memory back; collective.  What `access` gave must not be used any more.

        Examples
        --------
        >>> g.destroy()  # doctest: +SKIP
        """
        if not self._is_open:
            return
        with self._agreement.step() as step:
            step.arguments = "destroy"
        self._is_open = False
        self._window.free()
        self.comm.Free()

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # A rank that leaves by an error of its own waits for nobody.
        if self._is_open and (error is None or is_agreed(error, self.comm)):
            leave_together(self.destroy, error, self.comm)


def enlarge(g: GlobalArray, shape: tuple[int, ...]) -> None:
    """Grow the axes of a global array at their ends, to a shape, by zeros; collective.

    Parameters
    ----------
    g : GlobalArray
    shape : tuple of int
        New extents, in elements.
    """
    with g._start("enlarge") as step:
        old = g._window.layout.zones
        step.arguments = f"enlarge a global array to {shape}"
    zones = Zones(old.distribution, old.low, shape, old.offset, old.chunks, g.comm.size)
    g._move(zones, [0] * len(shape))


def _shifted(numbers: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    """Add to the number of one axis."""
    return (*numbers[:axis], numbers[axis] + by, *numbers[axis + 1 :])
