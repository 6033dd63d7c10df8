"""Global arrays: elements in the memory of all ranks, which each reads and writes one-sided."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from extarray.chunking import check_chunks, check_shape
from extarray.errors import (
    BoundsError,
    ClosedError,
    DTypeError,
    ReserveError,
    SelectionError,
    ShapeError,
)
from extarray.indexing.brackets import as_query
from extarray.indexing.factors import Progression
from extarray.metadata import check_dtype
from extarray.mpi.agreement import Agreement, is_agreed
from extarray.mpi.library import check_comm, library
from extarray.mpi.zones import Distribution, Zones, extents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from extarray.mpi.array import ParallelArray
    from extarray.mpi.zones import Zone

__all__ = ["GlobalArray"]

# Kinds of dtypes that MPI may have a type for.
_NUMBERS = "iufc"
# Where windows live that the ranks of a host share.
_SHARED_MEMORY = "/dev/shm"


class _Piece(NamedTuple):
    """What a selection has in the zone of one rank."""

    rank: int
    remote: tuple[slice, ...]  # in that rank's zone, forwards
    local: tuple[slice, ...]  # in the result, whose axes are those of the array


class GlobalArray:
    """Array in the memory of the ranks of a communicator.

    Made by `GlobalArray.create` and `GlobalArray.from_array`.

    Parameters
    ----------
    agreement : Agreement
    zones : Zones
    dtype : dtype

    Attributes
    ----------
    comm : mpi4py.MPI.Intracomm
        A duplicate of the communicator that was given.
    shape : tuple of int
    dtype : dtype
    chunks : tuple of int
        Zones are cut between chunks.

    Notes
    -----
    `get`, `put`, `accumulate` and `read_inc` are one-sided: any rank calls them alone, for any part
    of the array.  So are `access` and `distribution`, which need no other rank.  All else is
    collective.

    What a rank puts or accumulates, its own later `get` sees at once, and all ranks after `sync`.
    What it writes to `access`, others see after `sync`.  Several ranks may accumulate to the same
    elements at the same time; of several that put to one element, any may be the last.

    Examples
    --------
    >>> with GlobalArray.create((10, 12), "i8", MPI.COMM_WORLD) as g:  # doctest: +SKIP
    ...     g.accumulate((slice(0, 2), 3), g.comm.rank)
    ...     g.sync()
    ...     task = g.read_inc((9, 11))
    """

    # Whether ranks of one host load from and store to each other's memory.
    _shares = True

    def __init__(self, agreement: Agreement, zones: Zones, dtype: np.dtype[Any]) -> None:
        MPI = library()
        self._agreement = agreement
        self._zones = zones
        self.comm = agreement.comm
        self.shape, self.chunks = zones.high, zones.chunks
        self.dtype = dtype
        rank = self.comm.rank
        nbytes = math.prod(extents(zones.of(rank)[0])) * dtype.itemsize
        host = self.comm.Split_type(MPI.COMM_TYPE_SHARED)
        together = host.allreduce(nbytes)
        is_alone = host.size < self.comm.size
        host.Free()
        with agreement.step() as step:
            _check_shared_memory(together)
            step.numbers[0] = int(is_alone or not self._shares)
        if step.numbers[0]:
            self._window = MPI.Win.Allocate(nbytes, 1, comm=self.comm)
            self._memory = {rank: self._view(self._window.tomemory(), rank)}
        else:
            self._window = MPI.Win.Allocate_shared(nbytes, 1, comm=self.comm)
            self._memory = {
                r: self._view(self._window.Shared_query(r)[0], r) for r in range(self.comm.size)
            }
        # One epoch for the life of the array: a lock for each call would cost more than the call.
        self._window.Lock_all()
        self._is_open = True
        self.access()[...] = np.zeros((), dtype)
        self.sync()

    def _view(self, memory: Any, rank: int) -> NDArray[Any]:
        """The memory of a rank as an array."""
        shape = extents(self._zones.of(rank)[0])
        if math.prod(shape) == 0:
            return np.empty(shape, self.dtype)
        return np.frombuffer(memory, self.dtype, math.prod(shape)).reshape(shape)

    # -- made and ended by all ranks -----------------------------------------------------------

    @classmethod
    def create(
        cls,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: DTypeLike,
        comm: Any,
        chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
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
        process_grid : sequence of int, optional
            Ranks along each axis; None: the zones are as near to cubes as possible.

        Returns
        -------
        GlobalArray

        Raises
        ------
        ShapeError, ChunksError, DTypeError, ReserveError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g = GlobalArray.create((10, 12), float, MPI.COMM_WORLD)  # doctest: +SKIP
        """
        agreement = Agreement(check_comm(comm).Dup())
        try:
            with agreement.step() as step:
                bounds, kind, n = check_shape(shape), check_dtype(dtype), agreement.comm.size
                block = Distribution.of("block", 1, process_grid, len(bounds), n)
                zero = (0,) * len(bounds)
                chunk = (1,) * len(bounds)
                if chunks is not None:
                    chunk = check_chunks(chunks, bounds, kind.itemsize)
                step.arguments = f"create a global array of {bounds}, {kind}, {chunk}, {block}"
            return cls(agreement, Zones(block, zero, bounds, zero, chunk, n), kind)
        except BaseException:
            agreement.comm.Free()
            raise

    @classmethod
    def from_array(cls, a: ParallelArray) -> Self:
        """Array with the elements of one in files, and its chunks; collective.

        Parameters
        ----------
        a : ParallelArray

        Returns
        -------
        GlobalArray

        Examples
        --------
        >>> g = GlobalArray.from_array(a)  # doctest: +SKIP
        """
        new = cls.create(a.shape, a.dtype, a.comm, a.chunks)
        a.read(new.distribution(), out=new.access())
        new.sync()
        return new

    def to_array(self, a: ParallelArray) -> None:
        """Write the elements to an array in files; collective.

        Parameters
        ----------
        a : ParallelArray
            Of the same shape.

        Raises
        ------
        ShapeError, ReadOnlyError, StorageError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g.to_array(a)  # doctest: +SKIP
        """
        self.sync()
        if a.shape != self.shape:
            raise ShapeError(f"cannot write {self.shape} elements to an array of shape {a.shape}")
        a.write(self.distribution(), self.access())

    def fill(self, value: Any) -> None:
        """Set all elements; collective.

        Parameters
        ----------
        value : scalar
            The same on all ranks.

        Examples
        --------
        >>> g.fill(1)  # doctest: +SKIP
        """
        self._check()
        with self._agreement.step() as step:
            item = np.zeros((), self.dtype)
            item[()] = value
            step.arguments = f"fill with {item.tobytes()!r}"
        self._set(lambda zone: item)

    def zero(self) -> None:
        """Set all elements to zero; collective.

        Examples
        --------
        >>> g.zero()  # doctest: +SKIP
        """
        self._set(lambda zone: np.zeros((), self.dtype))

    def scale(self, factor: Any) -> None:
        """Multiply all elements; collective.

        Parameters
        ----------
        factor : scalar

        Examples
        --------
        >>> g.scale(0.5)  # doctest: +SKIP
        """
        self._set(lambda zone: self.access() * factor)

    def add(self, alpha: Any, a: GlobalArray, beta: Any, b: GlobalArray) -> None:
        """Become ``alpha * a + beta * b``; collective.

        Parameters
        ----------
        alpha, beta : scalar
        a, b : GlobalArray
            Of the same shape, however they are distributed; also this array itself.

        Raises
        ------
        ShapeError

        Examples
        --------
        >>> g.add(1, g, -1, h)  # doctest: +SKIP
        """
        self._check_shape(a.shape)
        self._check_shape(b.shape)
        self._set(lambda zone: alpha * a.get(zone) + beta * b.get(zone))

    def dot(self, b: GlobalArray) -> Any:
        """Sum of the products of the elements of two arrays; collective.

        Parameters
        ----------
        b : GlobalArray
            Of the same shape, however it is distributed.

        Returns
        -------
        scalar
            The same on all ranks.

        Raises
        ------
        ShapeError

        Examples
        --------
        >>> g.dot(g)  # doctest: +SKIP
        """
        self._check_shape(b.shape)
        self.sync()
        products = self.access() * b.get(self.distribution())
        total = self.comm.allreduce(products.sum(dtype=products.dtype))
        self.sync()
        return total

    def transpose(self, a: GlobalArray) -> None:
        """Become the transpose of another array; collective.

        Parameters
        ----------
        a : GlobalArray

        Raises
        ------
        ShapeError

        Examples
        --------
        >>> g.transpose(h)  # doctest: +SKIP
        """
        self._check_shape(a.shape[::-1])
        self._set(lambda zone: a.get(zone[::-1]).T)

    def copy_to(self, b: GlobalArray) -> None:
        """Copy all elements to another array; collective.

        Parameters
        ----------
        b : GlobalArray
            Of the same shape, however it is distributed.

        Raises
        ------
        ShapeError

        Examples
        --------
        >>> g.copy_to(h)  # doctest: +SKIP
        """
        b._check_shape(self.shape)
        b._set(self.get)

    def duplicate(self) -> Self:
        """Array of the same elements and zones; collective.

        Returns
        -------
        GlobalArray

        Examples
        --------
        >>> h = g.duplicate()  # doctest: +SKIP
        """
        grid = self._zones.process_grid
        new = self.create(self.shape, self.dtype, self.comm, self.chunks, grid)
        self.copy_to(new)
        return new

    def _set(self, values: Callable[[Zone], Any]) -> None:
        """Give each zone new values, which are made of what all have written."""
        self.sync()
        new = values(self.distribution())
        self.comm.Barrier()  # what is read may be this very array
        self.access()[...] = new
        self.sync()

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        self._check()
        if shape != self.shape:
            raise ShapeError(f"shapes {self.shape} and {shape} do not fit")

    def sync(self) -> None:
        """Have all ranks see what all have written; collective.

        Examples
        --------
        >>> g.sync()  # doctest: +SKIP
        """
        self._check()
        self._window.Flush_all()
        self._window.Sync()
        self.comm.Barrier()
        self._window.Sync()

    def destroy(self) -> None:
        """Give the memory back; collective.  What `access` gave must not be used any more.

        Examples
        --------
        >>> g.destroy()  # doctest: +SKIP
        """
        if not self._is_open:
            return
        self._is_open = False
        self._memory = {}
        self._window.Unlock_all()
        self._window.Free()
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
        if error is None or is_agreed(error):
            self.destroy()

    def _check(self) -> None:
        if not self._is_open:
            raise ClosedError("the global array was destroyed; create another one")

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
        BoundsError

        Examples
        --------
        >>> g.distribution(1)  # doctest: +SKIP
        (slice(0, 5, None), slice(6, 12, None))
        """
        r = self.comm.rank if rank is None else operator.index(rank)
        if not 0 <= r < self.comm.size:
            raise BoundsError(f"there is no rank {r}: ranks are 0 ... {self.comm.size - 1}")
        return self._zones.of(r)[0]

    def access(self) -> NDArray[Any]:
        """The zone of this rank, without a copy.

        Returns
        -------
        ndarray
            Writable, in C order; others see changes after `sync`.

        Examples
        --------
        >>> g.access()[...] += 1  # doctest: +SKIP
        """
        self._check()
        return self._memory[self.comm.rank]

    def get(self, selection: Any = ...) -> NDArray[Any]:
        """Read a selection, one-sided.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them

        Returns
        -------
        ndarray
            A copy.

        Raises
        ------
        BoundsError, SelectionError

        Examples
        --------
        >>> g.get((slice(None), 0))  # doctest: +SKIP
        """
        box = self._box(selection)
        block = np.empty(box.extents, self.dtype)
        for piece in self._pieces(box):
            memory = self._memory.get(piece.rank)
            if memory is not None:
                block[piece.local] = memory[piece.remote]
                continue
            part = np.empty(block[piece.local].shape, self.dtype)
            with self._target(piece, library().BYTE, self.dtype.itemsize) as target:
                self._window.Get([part, part.nbytes, library().BYTE], piece.rank, target)
                self._window.Flush(piece.rank)
            block[piece.local] = part
        return block[box.flips].reshape(box.shape)

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
        box = self._box(selection)
        block = self._block(box, values)
        for piece in self._pieces(box):
            memory = self._memory.get(piece.rank)
            if memory is not None:
                memory[piece.remote] = block[piece.local]
                continue
            part = np.ascontiguousarray(block[piece.local])
            with self._target(piece, library().BYTE, self.dtype.itemsize) as target:
                self._window.Put([part, part.nbytes, library().BYTE], piece.rank, target)
                self._window.Flush(piece.rank)

    def accumulate(self, selection: Any, values: ArrayLike, alpha: Any = 1) -> None:
        """Add to a selection, one-sided: ``g[selection] += alpha * values``, element by element.

        Parameters
        ----------
        selection : int, slice, Ellipsis, None, or a tuple of them
        values : array_like
            Broadcast to the selection, and cast as NumPy's assignment does.
        alpha : scalar

        Raises
        ------
        BoundsError, SelectionError, ShapeError
        DTypeError
            A TypeError: MPI does not add elements of this type.

        Notes
        -----
        No two additions to an element are lost, whoever makes them.

        Examples
        --------
        >>> g.accumulate(..., 1, alpha=0.5)  # doctest: +SKIP
        """
        number = self._number()
        box = self._box(selection)
        block = self._block(box, np.multiply(alpha, values))
        for piece in self._pieces(box):
            part = np.ascontiguousarray(block[piece.local])
            with self._target(piece, number, self.dtype.itemsize) as target:
                origin = [part, part.size, number]
                self._window.Accumulate(origin, piece.rank, target, library().SUM)
                self._window.Flush(piece.rank)

    def read_inc(self, index: Any, inc: Any = 1) -> Any:
        """Add to one element, and get what it was: one step for all ranks.

        Parameters
        ----------
        index : sequence of int
        inc : scalar

        Returns
        -------
        scalar
            The element before.

        Raises
        ------
        BoundsError, SelectionError, DTypeError

        Examples
        --------
        >>> task = g.read_inc((0, 0))  # doctest: +SKIP
        """
        number = self._number()
        box = self._box(index)
        if box.shape:
            raise SelectionError(f"{index!r} selects no single element; give an integer an axis")
        (piece,) = self._pieces(box)
        added, old = np.array(inc).astype(self.dtype), np.empty((), self.dtype)
        window = self._window
        place = self._place(piece)
        window.Fetch_and_op([added, 1, number], [old, 1, number], piece.rank, place, library().SUM)
        window.Flush(piece.rank)
        return old[()]

    # -- selections ----------------------------------------------------------------------------

    def _box(self, selection: Any) -> _Box:
        """A selection of integers and slices."""
        self._check()
        query = as_query(selection, self.shape, self.dtype)
        if not query.is_box:
            raise SelectionError("integers and slices select a part of a global array, no arrays")
        ranges, flips = [], []
        for factor in query.factors:
            assert isinstance(factor, Progression)
            last = factor.start + (factor.count - 1) * factor.step
            first = factor.start if factor.step > 0 else last
            ranges.append(range(first, first + factor.count * abs(factor.step), abs(factor.step)))
            flips.append(slice(None, None, 1 if factor.step > 0 else -1))
        return _Box(query.shape, ranges, tuple(flips))

    def _block(self, box: _Box, values: Any) -> NDArray[Any]:
        """Values with one axis for each of the array, forwards."""
        given = np.empty(box.shape, self.dtype)
        try:
            given[...] = values
        except ValueError as error:
            raise ShapeError(str(error)) from None
        return given.reshape(box.extents)[box.flips]

    def _pieces(self, box: _Box) -> Iterator[_Piece]:
        """The parts of a box in the zones of all ranks."""
        for rank in range(self.comm.size):
            remote, local = [], []
            for some, zone in zip(box.ranges, self._zones.of(rank)[0], strict=True):
                # Places in the range: the first at the start of the zone or behind it, and so on.
                first, last = (
                    min(max(-((some.start - edge) // some.step), 0), len(some))
                    for edge in (zone.start, zone.stop)
                )
                start = some.start + first * some.step - zone.start
                remote.append(slice(start, start + (last - first) * some.step, some.step))
                local.append(slice(first, last))
            if all(cut.start < cut.stop for cut in local):
                yield _Piece(rank, tuple(remote), tuple(local))

    def _strides(self, rank: int) -> list[int]:
        """Bytes from one index of a rank's zone to the next."""
        shape = extents(self._zones.of(rank)[0])
        return [self.dtype.itemsize * math.prod(shape[j + 1 :]) for j in range(len(shape))]

    def _place(self, piece: _Piece) -> int:
        """Bytes of the window before the first element of a piece."""
        pairs = zip(piece.remote, self._strides(piece.rank), strict=True)
        return sum(cut.start * stride for cut, stride in pairs)

    @contextlib.contextmanager
    def _target(self, piece: _Piece, base: Any, itemsize: int) -> Iterator[tuple[int, int, Any]]:
        """A piece as RMA calls name it: place, count, and a type that strides."""
        made = [base.Create_contiguous(itemsize // base.Get_size())]
        for local, cut, stride in reversed(
            [*zip(piece.local, piece.remote, self._strides(piece.rank), strict=True)]
        ):
            made.append(made[-1].Create_hvector(local.stop - local.start, 1, cut.step * stride))
        made[-1].Commit()
        try:
            yield self._place(piece), 1, made[-1]
        finally:
            for datatype in made:
                datatype.Free()

    def _number(self) -> Any:
        """MPI's type of the elements, which it can add."""
        found = None
        if self.dtype.kind in _NUMBERS and self.dtype.isnative:
            with contextlib.suppress(ValueError):
                found = library().Datatype.fromcode(self.dtype.char)
        if found is None or found == library().DATATYPE_NULL:
            raise DTypeError(
                f"MPI does not add elements of {self.dtype}; use native integers, floats or complex"
            )
        return found


class _Box(NamedTuple):
    """A box of elements, with steps.

    Attributes
    ----------
    shape : tuple of int
        Of the result.
    ranges : list of range
        Along each axis of the array, with positive steps.
    flips : tuple of slice
        Between the order of the ranges and that of the result.
    """

    shape: tuple[int, ...]
    ranges: list[range]
    flips: tuple[slice, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements along each axis of the array."""
        return tuple(map(len, self.ranges))


def _check_shared_memory(nbytes: int) -> None:
    """Raise where windows of a host would not fit: they would be given, and fail when touched."""
    try:
        found = os.statvfs(_SHARED_MEMORY)
    except OSError:  # not on this system
        return
    free = found.f_bavail * found.f_frsize
    if nbytes > free:
        raise ReserveError(
            f"global arrays need {nbytes} bytes more in {_SHARED_MEMORY} on this host, which has "
            f"{free}: enlarge it (containers: --shm-size), or use more hosts"
        )
