"""Global arrays: elements in the memory of all ranks, which each reads and writes one-sided."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np

from extarray.bounds import count, is_start
from extarray.chunking import check_chunks, check_shape
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    BoundsError,
    CastingError,
    ClosedError,
    ReadOnlyError,
    SelectionError,
    ShapeError,
)
from extarray.metadata import check_dtype
from extarray.mpi import onesided
from extarray.mpi.agreement import Agreement, is_agreed
from extarray.mpi.array import ParallelArray
from extarray.mpi.collectives import Collectives
from extarray.mpi.ghosts import as_ghosts, ghost_boxes
from extarray.mpi.mutexes import Mutexes
from extarray.mpi.patches import Box, Layout, as_points, numbers
from extarray.mpi.runtime import check_comm
from extarray.mpi.values import as_elements, as_item, scaled, spread
from extarray.mpi.windows import Window
from extarray.mpi.zones import Distribution, Zones
from extarray.stored import as_int

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from extarray.bounds import Side
    from extarray.mpi.requests import Request
    from extarray.mpi.zones import Zone

__all__ = ["GlobalArray"]


class GlobalArray(Collectives):
    """Array in the memory of the ranks of a communicator.

    Made by `GlobalArray.create` and `GlobalArray.from_array`.

    Parameters
    ----------
    agreement : Agreement
    zones : Zones
    dtype : dtype
    ghosts : tuple of int

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

    def __init__(
        self,
        agreement: Agreement,
        zones: Zones,
        dtype: np.dtype[Any],
        ghosts: tuple[int, ...],
    ) -> None:
        self._agreement = agreement
        self.comm = agreement.comm
        self.dtype, self.ghosts = dtype, ghosts
        self._window = Window(agreement, Layout(zones, dtype, ghosts))
        self._is_open = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self._window.layout.shape

    @property
    def chunks(self) -> tuple[int, ...]:
        """Extents of chunks, between which zones are cut."""
        return self._window.layout.zones.chunks

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, of all ranks."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, of all ranks."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        what = f"extarray.mpi.GlobalArray: shape {self.shape}, {self.dtype}"
        if not self._is_open:
            return f"<{what}, destroyed>"
        zone = ", ".join(f"{s.start}:{s.stop}" for s in self.distribution())
        return f"<{what}, zone ({zone}), rank {self.comm.rank} of {self.comm.size}>"

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        # NumPy would make an array of one object.
        raise ArgumentTypeError(
            "a global array is no NumPy array, as its elements are on all ranks: get() "
            "copies a selection, access() is the zone of this rank"
        )

    # -- made and ended by all ranks -----------------------------------------------------------

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
        """Array of zeros; collective.

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
        n = check_comm(comm).size

        def plan() -> tuple[Zones, np.dtype[Any], tuple[int, ...]]:
            bounds, kind = check_shape(shape), check_dtype(dtype)
            if not bounds:
                raise ArgumentError("a global array has at least one axis; for one element give 1")
            block = Distribution.of("block", 1, process_grid, len(bounds), n)
            zero, chunk = (0,) * len(bounds), (1,) * len(bounds)
            if chunks is not None:
                chunk = check_chunks(chunks, bounds, kind.itemsize)
            return Zones(block, zero, bounds, zero, chunk, n), kind, as_ghosts(ghosts, len(bounds))

        return cls._made(comm, plan)

    @classmethod
    def _made(
        cls, comm: Any, plan: Callable[[], tuple[Zones, np.dtype[Any], tuple[int, ...]]]
    ) -> Self:
        """Array of zones, a dtype and ghosts, which each rank finds out alone."""
        agreement = Agreement(comm.Dup())
        try:
            with agreement.step() as step:
                zones, dtype, ghosts = plan()
                step.arguments = (
                    f"create a global array of shape {zones.high} and dtype {dtype}, in chunks of "
                    f"{zones.chunks} from {zones.offset}, {zones.distribution}, ghosts {ghosts}"
                )
            return cls(agreement, zones, dtype, ghosts)
        except BaseException:
            agreement.comm.Free()
            raise

    @classmethod
    def from_array(
        cls, a: ParallelArray, ghosts: SupportsIndex | Sequence[SupportsIndex] | None = None
    ) -> Self:
        """Array with the elements of one in files, and its chunks and zones; collective.

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
            A TypeError: `a` has no communicator.
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
        new.sync()
        return new

    def duplicate(self) -> Self:
        """Array of the same elements, zones and ghosts; collective.

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
        self._check()
        with self._agreement.step() as step:
            j, n, first = self._axis(axis), count(by), is_start(side)
            old = self._window.layout.zones
            shape = check_shape(_shifted(self.shape, j, n))
            step.arguments = f"extend a global array along axis {j} by {n} at the {side}"
        # Chunks begin with the elements with which they began.
        offset = _shifted(old.offset, j, -n % old.chunks[j] if first else 0)
        zones = Zones(old.distribution, old.low, shape, offset, old.chunks, self.comm.size)
        self.sync()
        window = Window(self._agreement, Layout(zones, self.dtype, self.ghosts))
        shift = [n if first and k == j else 0 for k in range(len(shape))]
        self._pull(window, shift)
        self.sync()  # nobody reads the old one any more
        self._window.free()
        self._window = window
        self.sync()

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
        """Mutexes for the ranks of this array; collective.

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

    def sync(self) -> None:
        """Have all ranks see what all have written; collective.

        Examples
        --------
        >>> g.sync()  # doctest: +SKIP
        """
        self._check()
        self._window.sync()

    def update_ghosts(self, wrap: bool = True) -> None:
        """Have the ghosts of all ranks show what their owners have written; collective.

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
        self._check()
        with self._agreement.step() as step:
            step.arguments = f"update ghosts, wrap {bool(wrap)}"
        self.sync()
        layout, own = self._window.layout, self._window.own
        zone = layout.zone(self.comm.rank)
        boxes = ghost_boxes(zone, self.shape, self.ghosts, bool(wrap))
        # Straight to where they belong: nobody reads from there.
        for request in [self._read(self._box(box), own[place]) for box, place in boxes]:
            request.wait()
        self.sync()

    def destroy(self) -> None:
        """Give the memory back; collective.  What `access` gave must not be used any more.

        Examples
        --------
        >>> g.destroy()  # doctest: +SKIP
        """
        if not self._is_open:
            return
        self._is_open = False
        self._window.free()
        self.comm.Free()

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A rank that leaves by an error of its own waits for nobody.
        if self._is_open and (error is None or is_agreed(error, self.comm)):
            self.destroy()

    def _check(self) -> None:
        if not self._is_open:
            raise ClosedError("the global array was destroyed; create another one")

    def _axis(self, axis: SupportsIndex) -> int:
        """Number of an axis, counted from 0."""
        j, ndim = as_int(axis, "axis"), len(self.shape)
        if not -ndim <= j < ndim:
            raise AxisError(j, ndim)
        return j % ndim

    # -- of one rank alone ---------------------------------------------------------------------

    def distribution(self, rank: SupportsIndex | None = None) -> Zone:
        """Zone of a rank.

        Parameters
        ----------
        rank : int, optional
            In [0, comm.size); None: this rank.

        Returns
        -------
        tuple of slice

        Raises
        ------
        BoundsError, ClosedError

        Examples
        --------
        >>> g.distribution(1)  # doctest: +SKIP
        (slice(0, 5, None), slice(6, 12, None))
        """
        self._check()
        r = self.comm.rank if rank is None else as_int(rank, "rank")
        if not 0 <= r < self.comm.size:
            raise BoundsError(f"there is no rank {r}: ranks are 0 ... {self.comm.size - 1}")
        return self._window.layout.zone(r)

    def access(self, ghosts: bool = False) -> NDArray[Any]:
        """The zone of this rank, without a copy.

        Parameters
        ----------
        ghosts : bool
            With the ghosts around it.  A rank without elements has none.

        Returns
        -------
        ndarray
            Writable; others see changes of the zone after `sync`.

        Examples
        --------
        >>> g.access()[...] += 1  # doctest: +SKIP
        """
        self._check()
        own = self._window.own
        return own if ghosts else own[self._window.layout.inside(self.comm.rank)]

    def get(self, selection: Any = ..., out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read a selection, one-sided.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them
        out : ndarray, optional
            Where to read to, also a part of `access`; None: a new array.

        Returns
        -------
        ndarray
            A copy; `out` where it was given.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, CastingError

        Examples
        --------
        >>> g.get((slice(None), 0))  # doctest: +SKIP
        """
        result = self._get(selection, out).wait()
        assert result is not None
        return result

    def iget(self, selection: Any = ..., out: NDArray[Any] | None = None) -> Request:
        """Begin to read a selection, one-sided.

        Parameters
        ----------
        selection, out
            As for `get`.

        Returns
        -------
        Request
            Its ``wait()`` gives the array.

        Notes
        -----
        What lies in memory that this rank shares is copied at once.

        Examples
        --------
        >>> request = g.iget((slice(None), 0))  # doctest: +SKIP
        >>> request.wait().shape  # doctest: +SKIP
        (10,)
        """
        return self._get(selection, out, testable=True)

    def _get(self, selection: Any, out: NDArray[Any] | None, testable: bool = False) -> Request:
        box = self._box(selection)
        if out is None:
            return self._read(box, np.empty(box.shape, self.dtype), testable)
        result = self._as_out(out, box.shape)
        if np.may_share_memory(result, self._window.own):  # of what is still to be read
            return self._read(box, np.empty(box.shape, self.dtype), testable, into=result)
        return self._read(box, result, testable)

    def _read(
        self,
        box: Box,
        values: NDArray[Any],
        testable: bool = False,
        into: NDArray[Any] | None = None,
    ) -> Request:
        """Begin to read a box to an array, and in the end to another one where it is given."""

        def result() -> NDArray[Any]:
            if into is None:
                return values
            into[...] = values
            return into

        patches = self._window.layout.patches(box)
        return onesided.get(self._window, patches, box.view(values), result, testable)

    def put(self, selection: Any, values: ArrayLike) -> None:
        """Write to a selection, one-sided.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them
        values : array_like
            Broadcast to the selection, and cast as NumPy's assignment does.

        Raises
        ------
        BoundsError, SelectionError, ShapeError

        Examples
        --------
        >>> g.put((slice(0, 2), 3), 5)  # doctest: +SKIP
        """
        self._put(selection, values).wait()

    def iput(self, selection: Any, values: ArrayLike) -> Request:
        """Begin to write to a selection, one-sided.

        Parameters
        ----------
        selection, values
            As for `put`.  Values that are an array must stay as they are until ``wait()``.

        Returns
        -------
        Request

        Examples
        --------
        >>> g.iput((slice(0, 2), 3), 5).wait()  # doctest: +SKIP
        """
        return self._put(selection, values, testable=True)

    def _put(self, selection: Any, values: ArrayLike, testable: bool = False) -> Request:
        box = self._box(selection)
        block = box.view(self._values(as_elements(values, self.dtype), box.shape))
        return onesided.put(self._window, self._window.layout.patches(box), block, testable)

    def accumulate(self, selection: Any, values: ArrayLike, alpha: Any = 1) -> None:
        """Add to a selection, one-sided: ``g[selection] += alpha * values``, element by element.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them
        values : array_like
            Broadcast to the selection, and cast by the rule "same_kind", as ``+=`` does.
        alpha : scalar
            Of the kind of the elements, or a simpler one: an integer for integers.

        Raises
        ------
        BoundsError, SelectionError, ShapeError
        DTypeError
            A TypeError: MPI does not add elements of this type.
        CastingError
            A TypeError: values or `alpha` do not fit the elements.

        Notes
        -----
        No two additions to an element are lost, whoever makes them.  Integers wrap around.

        Examples
        --------
        >>> g.accumulate(..., 1, alpha=0.5)  # doctest: +SKIP
        """
        self._accumulate(selection, values, alpha).wait()

    def iaccumulate(self, selection: Any, values: ArrayLike, alpha: Any = 1) -> Request:
        """Begin to add to a selection, one-sided.

        Parameters
        ----------
        selection, values, alpha
            As for `accumulate`.  Values that are an array must stay as they are until ``wait()``.

        Returns
        -------
        Request

        Examples
        --------
        >>> g.iaccumulate(..., 1, alpha=0.5).wait()  # doctest: +SKIP
        """
        return self._accumulate(selection, values, alpha, testable=True)

    def _accumulate(
        self, selection: Any, values: ArrayLike, alpha: Any, testable: bool = False
    ) -> Request:
        box = self._box(selection)
        block = box.view(self._values(scaled(values, alpha, self.dtype), box.shape))
        return onesided.accumulate(self._window, self._window.layout.patches(box), block, testable)

    def gather(self, indices: ArrayLike) -> NDArray[Any]:
        """Read a list of elements, one-sided.

        Parameters
        ----------
        indices : (n, k) array_like of int
            An index of each of the k axes, for each element.

        Returns
        -------
        (n,) ndarray

        Raises
        ------
        BoundsError, SelectionError, ShapeError

        Examples
        --------
        >>> g.gather([(0, 0), (9, 11), (9, -1)])  # doctest: +SKIP
        array([1., 2., 2.])
        """
        self._check()
        points = as_points(indices, self.shape)
        values = np.empty(len(points), self.dtype)
        patches = self._window.layout.points(points)
        onesided.get(self._window, patches, values, lambda: values).wait()
        return values

    def scatter(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Write a list of elements, one-sided.

        Parameters
        ----------
        indices : (n, k) array_like of int
            As for `gather`; of values for one element, the last is written.
        values : array_like
            Broadcast to (n,), and cast as NumPy's assignment does.

        Raises
        ------
        BoundsError, SelectionError, ShapeError

        Examples
        --------
        >>> g.scatter([(0, 0), (9, 11)], [1, 2])  # doctest: +SKIP
        """
        self._check()
        points = as_points(indices, self.shape)
        given = self._values(as_elements(values, self.dtype), (len(points),))
        # MPI writes an element once in a call.
        _, back = np.unique(numbers(points, self.shape)[::-1], return_index=True)
        last = len(points) - 1 - back
        patches = self._window.layout.points(points[last])
        onesided.put(self._window, patches, given[last]).wait()

    def scatter_acc(self, indices: ArrayLike, values: ArrayLike, alpha: Any = 1) -> None:
        """Add to a list of elements, one-sided.

        Parameters
        ----------
        indices : (n, k) array_like of int
            As for `gather`; all values for one element are added.
        values : array_like
            Broadcast to (n,), and cast by the rule "same_kind".
        alpha : scalar
            As for `accumulate`.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, DTypeError, CastingError

        Examples
        --------
        >>> g.scatter_acc([(0, 0), (0, 0)], [1, 2])  # doctest: +SKIP
        """
        self._check()
        points = as_points(indices, self.shape)
        given = self._values(scaled(values, alpha, self.dtype), (len(points),))
        # MPI adds to an element once in a call.
        _, first, places = np.unique(
            numbers(points, self.shape), return_index=True, return_inverse=True
        )
        sums = np.zeros(len(first), self.dtype)
        np.add.at(sums, places, given)
        patches = self._window.layout.points(points[first])
        onesided.accumulate(self._window, patches, sums).wait()

    def read_inc(self, index: Any, inc: Any = 1) -> Any:
        """Add to one element, and get what it was: one step for all ranks.

        Parameters
        ----------
        index : sequence of int
        inc : scalar
            Of the kind of the elements, or a simpler one, and in their range.

        Returns
        -------
        scalar
            The element before; sums of integers wrap around.

        Raises
        ------
        BoundsError, SelectionError, DTypeError
        ShapeError, CastingError, LimitError
            `inc` is no scalar, of another kind, or out of range.

        Examples
        --------
        >>> task = g.read_inc((0, 0))  # doctest: +SKIP
        """
        box = self._box(index)
        if box.shape:
            raise SelectionError(f"{index!r} selects no single element; give an integer an axis")
        (patch,) = self._window.layout.patches(box)
        onesided.number_of(self.dtype)
        return onesided.fetch_and_add(self._window, patch, as_item(inc, self.dtype, "inc"))[()]

    # -- arguments -----------------------------------------------------------------------------

    def _box(self, selection: Any) -> Box:
        self._check()
        return Box.of(selection, self.shape, self.dtype)

    def _as_out(self, out: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Where to read to, checked."""
        if not isinstance(out, np.ndarray):
            raise ArgumentTypeError(f"out must be a NumPy array, not {type(out).__name__}")
        if out.shape != shape:
            raise ShapeError(f"out has shape {out.shape}, the selection {shape}")
        if not out.flags.writeable:
            raise ReadOnlyError("out is read-only; give a writable array")
        if not np.can_cast(self.dtype, out.dtype, "same_kind"):
            raise CastingError(
                f"cannot cast {self.dtype} to out's {out.dtype} by the rule 'same_kind'; give an "
                "out of another dtype, or get and then use astype"
            )
        return out

    def _values(self, given: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Elements for a selection of a shape, apart from those that they are written to."""
        apart = given.copy() if np.may_share_memory(given, self._window.own) else given
        return spread(apart, shape)


def _shifted(numbers: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    """Numbers for each axis, with more for one of them."""
    return (*numbers[:axis], numbers[axis] + by, *numbers[axis + 1 :])
