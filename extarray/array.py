"""The array: NumPy's behaviour on a store of chunks."""

from __future__ import annotations

import operator
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex
from uuid import uuid4

import numpy as np

from extarray._core._array import ArrayCore
from extarray._core._axial import Axial
from extarray.chunking import blocks, check_shape, grain, grid_of
from extarray.config import config
from extarray.copies import CopiesMixin
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    CastingError,
    LimitError,
    ShapeError,
)
from extarray.habits import HabitsMixin
from extarray.indexing.indexable import Indexable
from extarray.indexing.transfers import read_query, write_query
from extarray.lazy import Lazy, everything
from extarray.order import positions
from extarray.protocols.mixin import NumpyMixin
from extarray.protocols.standard import StandardMixin
from extarray.seeing import SeeingMixin
from extarray.store import FileStore, MemoryStore, resolve_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    from extarray.indexing.query import Query
    from extarray.metadata import Header
    from extarray.protocols.blocks import Line

__all__ = ["LIMIT", "ExtArray", "as_source"]

# Bytes of all chunks; file offsets are signed, and a little follows the last chunk.
LIMIT = 2**63 - 4096


class ExtArray(Indexable, CopiesMixin, HabitsMixin, SeeingMixin, NumpyMixin, StandardMixin):
    """Dense N-d array, on disk or in memory, that grows along any axis without moving data.

    Made by `extarray.create`, `extarray.open`, `extarray.zeros` and their like.

    Attributes
    ----------
    axial : Axial
        The mapping between chunk indices and addresses.
    dtype : dtype
    order : {"C", "F", "Z", "H"}
        Order of the elements in a chunk.

    Notes
    -----
    Indexing returns copies.  Threads may share an array for reading, also while one of them grows
    it; after a fork the child has it open for reading only.

    An array in files is pickled as its absolute path, and unpickled it is open for reading only:
    there is one writer.  An array in memory is pickled with its elements, and unpickled it is as
    `copy` makes it.  ``copy.copy`` and ``copy.deepcopy`` are `copy`, as for NumPy's arrays.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.zeros((2, 3))
    >>> a[0] = [1, 2, 3]
    >>> a.extend(axis=1, by=2)
    >>> a[...]
    array([[1., 2., 3., 0., 0.],
           [0., 0., 0., 0., 0.]])
    """

    __slots__ = ("_filling",)

    _filling: bool  # by an append, which may run any code

    def __init__(self) -> None:
        raise ArgumentTypeError(
            "arrays are made by extarray.create, open, zeros, ones, full, empty or from_array"
        )

    @classmethod
    def _create(
        cls,
        path: Any,
        shape: tuple[int, ...],
        header: Header,
        attrs: str,
        engine: str = "auto",
        overwrite: bool = False,
    ) -> Self:
        """Fresh array, in the files of `path` or (None) in memory."""
        axial = Axial(grid_of(shape, header.chunks))
        if axial.size * header.chunk_bytes >= LIMIT:
            raise LimitError(
                f"an array of shape {shape} in chunks of {header.chunks} elements of "
                f"{header.dtype} has 2**63 bytes or more"
            )
        store: FileStore | MemoryStore
        if path is None:
            store = MemoryStore(header, shape, axial, attrs)
        else:
            store = FileStore.create(
                resolve_path(path), header, axial, shape, attrs, engine, overwrite
            )
        return cls._from_store(store, axial, shape)

    @classmethod
    def _open(cls, path: Path, mode: str, timeout: float | None, engine: str) -> Self:
        """Array of a pair of files."""
        store, axial = FileStore.open(path, mode, timeout, engine)
        return cls._from_store(store, axial, store.shape)

    @classmethod
    def _from_store(
        cls, store: FileStore | MemoryStore, axial: Axial, shape: tuple[int, ...]
    ) -> Self:
        """Array on an open store."""
        self = cls.__new__(cls)
        header = store.header
        places = positions(header.chunks, header.order) if header.order in "ZH" else None
        self._store = store
        # Growth is one step for the threads of this process too.
        self._growth = threading.RLock()
        self._handle = uuid4().hex
        self._filling = False
        axial._own()
        self._setup(axial, header.dtype, header.chunks, header.order, places, shape)
        self._attach_store()
        if isinstance(store, FileStore) and store.mode == "r+":
            store.on_fork(self._after_fork)
        return self

    def _after_fork(self) -> None:
        """In a forked child: read only, and no lock that a thread of the parent held."""
        self._growth = threading.RLock()
        self._filling = False
        self._attach_store()

    def _attach_store(self) -> None:
        """Use the store's region, as the store may be used now."""
        store = self._store
        self._attach(store.region, store.mode == "r+", store.header.sparse, store.hollow)

    def _read_selected(
        self, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]:
        return read_query(self, query, out, order)

    def _write_selected(self, query: Query, value: Any) -> None:
        write_query(self, query, value)

    def _write_late(self, selection: Any, value: Any) -> None:
        # A view of the selection knows what it has in common with other views, and streams.
        self.lazy[selection] = value

    @property
    def _layout(self) -> tuple[Line, ...]:
        return tuple([(0, 1, n, j) for j, n in enumerate(self.shape)])

    @property
    def lazy(self) -> Lazy:
        """Views, which read late and write through: ``a.lazy[...]`` reads nothing.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> v = a.lazy[:, 1:].T
        >>> v[...]
        array([[2, 5],
               [3, 6]])
        >>> v[0] = 0
        >>> a[...]
        array([[1, 0, 3],
               [4, 0, 6]])
        """
        self._check()
        return Lazy(everything(self))

    # -- growth ------------------------------------------------------------------------------

    def extend(self, axis: SupportsIndex, by: SupportsIndex) -> None:
        """Grow an axis; the new elements have the fill value.

        Parameters
        ----------
        axis : int
            In [-ndim, ndim).
        by : int
            Elements, at least 0.

        Raises
        ------
        AxisError, ArgumentError, ArgumentTypeError, LimitError
            No such axis, negative, no int, beyond 2**63.
        ReadOnlyError, ClosedError
        StorageError, ReserveError
            No room (an OSError; a MemoryError in memory).  The array is as before.

        Notes
        -----
        The cost does not depend on the size of the array: nothing moves.  A growth inside the
        last chunk of the axis only changes the bounds.  One commit; readers see it at their next
        `refresh`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3))
        >>> a.extend(axis=1, by=4)
        >>> a.shape
        (2, 7)
        """
        j = self._axis(axis)
        n = _count(by)
        with self._growth:
            self._check("extend")
            shape = list(self.shape)
            shape[j] += n
            self._grow(tuple(shape))

    def resize(
        self, shape: SupportsIndex | Sequence[SupportsIndex], axis: SupportsIndex | None = None
    ) -> None:
        """Grow several axes as one commit, axis 0 first; or one axis.

        Parameters
        ----------
        shape : int or sequence of int
            New extent of each axis, at least the present one.
        axis : int, optional
            The axis, in [-ndim, ndim), that `shape` is the new extent of; as in h5py.

        Raises
        ------
        ShapeError
            A ValueError: wrong number of axes, or an axis would shrink.
        AxisError, ReadOnlyError, ClosedError, LimitError, StorageError, ReserveError
            As for `extend`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3))
        >>> a.resize((4, 5))
        >>> a.resize(6, axis=0)
        >>> a.shape
        (6, 5)
        """
        new = check_shape(shape)
        j = None if axis is None else self._axis(axis)
        if j is not None and len(new) != 1:
            raise ShapeError(f"cannot resize axis {j} to {new}: give one extent")
        with self._growth:
            self._check("resize")
            old = self.shape
            if j is not None:
                new = (*old[:j], *new, *old[j + 1 :])
            if len(new) != len(old):
                raise ShapeError(f"cannot resize {old} to {new}: the array has {len(old)} axes")
            if any(n < o for n, o in zip(new, old, strict=True)):
                raise ShapeError(
                    f"cannot resize {old} to {new}: an array only grows; copy a slice to get a "
                    "smaller one"
                )
            self._grow(new)

    def append(self, data: ArrayLike, axis: SupportsIndex = 0) -> None:
        """Grow an axis by data.

        Parameters
        ----------
        data : array_like
            Of the array's rank, and of its extents on all other axes; cast by the rule
            ``same_kind``.  Objects with ``shape``, ``dtype`` and slicing (h5py, zarr, dask, ...)
            are read in blocks of at most ``config.max_memory`` bytes.
        axis : int
            In [-ndim, ndim).

        Raises
        ------
        ShapeError
            A ValueError: the shape of `data` does not fit.
        CastingError
            A TypeError: `data` cannot be cast.
        ReadOnlyError, ClosedError, AxisError, LimitError, StorageError, ReserveError
            As for `extend`.

        Notes
        -----
        The elements are written first, and the bounds committed last: no reader and no crash ever
        sees half an append.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2], [3, 4]])
        >>> a.append([[5], [6]], axis=1)
        >>> a[...]
        array([[1, 2, 5],
               [3, 4, 6]])
        """
        # Conversions may run any code, also code that closes this array: they come first.
        j = self._axis(axis)
        values = as_source(data)
        with self._growth:
            self._check("append to")
            shape = self.shape
            given = tuple(values.shape)
            wanted = (*shape[:j], "n", *shape[j + 1 :])
            text = f"({', '.join(map(str, wanted))}{',' if self.ndim == 1 else ''})"
            if len(given) != self.ndim or any(
                n != m for i, (n, m) in enumerate(zip(given, shape, strict=True)) if i != j
            ):
                raise ShapeError(
                    f"cannot append data of shape {given} along axis {j} of an array of "
                    f"shape {shape}: {text} is needed"
                )
            if not np.can_cast(values.dtype, self.dtype, "same_kind"):
                raise CastingError(
                    f"cannot append {values.dtype} to an array of {self.dtype} by the rule "
                    "'same_kind'; cast it first, with astype"
                )
            start = tuple(shape[i] if i == j else 0 for i in range(self.ndim))
            self._grow((*shape[:j], shape[j] + given[j], *shape[j + 1 :]), start, values)

    def _axis(self, axis: SupportsIndex) -> int:
        j = _integer(axis, "axis")
        if not -self.ndim <= j < self.ndim:
            raise AxisError(j, self.ndim)
        return j % self.ndim

    def _grow(
        self,
        shape: tuple[int, ...],
        start: tuple[int, ...] | None = None,
        values: Any = None,
    ) -> None:
        """Grow to a shape: room, then data, then the commit; on an error nothing has changed."""
        axial, store, chunks = self.axial, self._store, self.chunks
        grown = [j for j, n in enumerate(self.shape) if shape[j] > n]
        if not grown:
            return
        if self._filling:  # by what reads the data that are being appended
            raise ArgumentError(f"cannot grow {self._name()} in the midst of an append to it")
        for j in grown:
            if shape[j] >= LIMIT:
                raise LimitError(f"cannot grow to {shape}: an extent exceeds 2**63 - 1, or nearly")
            if j in store.unclean:
                self._clean(j)
                store.unclean.discard(j)
        mark = axial._mark()
        old = new = axial.size * self.chunk_bytes
        try:
            for j in grown:
                more = -(-shape[j] // chunks[j]) - axial.grid[j]
                if more > 0:
                    axial._grow(j, more)
            new = axial.size * self.chunk_bytes
            if new > old:
                if new >= LIMIT:
                    raise LimitError(
                        f"cannot grow to {shape}: its chunks would have {new} bytes, 2**63 or "
                        "nearly"
                    )
                store.reserve(old, new)
                if store.region is not self._region:
                    self._attach_store()
            if values is not None and start is not None:
                store.begin_append()
                store.unclean.update(grown)
                self._filling = True
                self._fill_box(start, shape, values)
            store.commit(shape, axial, new)
            store.unclean.difference_update(grown)
        except BaseException:
            if store.shape == shape:  # interrupted when all was done
                self._set_bounds(shape)
                raise
            axial._rollback(mark)
            if LIMIT > new > old:
                store.release(old)
                self._forget_touched()
            raise
        finally:
            self._filling = False
        self._set_bounds(shape)

    def _fill_box(self, start: tuple[int, ...], stop: tuple[int, ...], values: Any) -> None:
        """Write what `as_source` gives to a box; what is no array in memory goes block by block."""
        if isinstance(values, np.ndarray):
            self._write_box(start, stop, values)
            return
        extents = [high - low for low, high in zip(start, stop, strict=True)]
        # Half: a block is there while the next one is read, and while it is cast.
        limit = config.max_memory // 2
        for part in blocks(extents, grain(values, self.chunks), self.itemsize, limit):
            block = np.asarray(values[part])
            wanted = tuple(s.stop - s.start for s in part)
            if block.shape != wanted:
                raise ShapeError(f"the data gave shape {block.shape} for a block of {wanted}")
            low = [n + s.start for n, s in zip(start, part, strict=True)]
            high = [n + s.stop for n, s in zip(start, part, strict=True)]
            self._write_box(low, high, block)

    def _clean(self, axis: int) -> None:
        """Give the fill value back to elements behind the bounds of an axis.

        An append that failed, or was killed, may have written there, in chunks that the bounds cut.
        """
        shape, chunks, grid = self.shape, self.chunks, self.grid
        if shape[axis] % chunks[axis] == 0:
            return
        fill = np.frombuffer(self._store.header.fill, self.dtype).reshape(())
        edge = shape[axis] // chunks[axis]
        layer = (*grid[:axis], grid[axis] - edge, *grid[axis + 1 :])
        for place in np.ndindex(*layer):
            index = (*place[:axis], place[axis] + edge, *place[axis + 1 :])
            low = [i * c for i, c in zip(index, chunks, strict=True)]
            high = [n + c for n, c in zip(low, chunks, strict=True)]
            low[axis] = max(low[axis], shape[axis])
            self._restore_fill(low, high, fill)

    def _restore_fill(self, low: list[int], high: list[int], fill: NDArray[Any]) -> None:
        """Give the fill value back to a box of allocated elements.

        Only elements that differ are written: they have disk space, while holes of a sparse file
        around them may have none left.
        """
        block = self._read_box(low, high)
        found = block.reshape(-1).view(np.uint8).reshape(block.size, -1)
        differ = (found != np.frombuffer(fill.tobytes(), np.uint8)).any(axis=1)
        differ = differ.reshape(block.shape)
        for row in np.argwhere(differ.any(axis=-1)):
            places = np.flatnonzero(differ[tuple(row)])
            for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
                first = [*(row + low[:-1]), low[-1] + run[0]]
                stop = [*(row + low[:-1] + 1), low[-1] + run[-1] + 1]
                self._write_box(first, stop, fill)

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        self._check()
        return (self[i] for i in range(self.shape[0]))

    # -- life --------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Take up what a writer has committed since the array was opened or refreshed.

        Returns
        -------
        bool
            Whether anything was new.  In mode "r+" nothing can be.

        Raises
        ------
        ClosedError, CorruptError, TruncatedError

        Notes
        -----
        Reads only what is new, takes no lock, and never blocks a writer.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 2)).refresh()
        False
        """
        with self._growth:
            self._check()
            shape = self._store.refresh(self.axial)
            if shape is None:
                return False
            if self._store.region is not self._region:
                self._attach_store()
            self._set_bounds(shape)
            return True

    def flush(self) -> None:
        """Bring everything to the disk: what returned before survives a power cut.

        Raises
        ------
        ClosedError, StorageError

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 2)).flush()
        """
        with self._growth:
            self._check()
            self._store.flush()

    def close(self) -> None:
        """Let go of the files and of the writer's lock.  Views of chunks stay valid.

        Notes
        -----
        Closing twice is allowed.  Data that were written are seen by every other process at once;
        `flush` first where they have to survive a power cut.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2))
        >>> a.close()
        >>> a.closed
        True
        """
        with self._growth:
            self._attach(None, False, False, False)
            self._store.close()

    def _discard(self) -> None:
        """Close an array that could not be filled, and remove its files."""
        self.close()
        self._store.remove()

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def as_source(x: Any) -> Any:
    """What elements are read from: `x` itself where it can be sliced, else an array of it.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    ndarray, ArrayCore, or any object with ``shape``, ``dtype`` and slicing
    """
    if isinstance(x, ArrayCore):
        return x
    if isinstance(x, (np.ndarray, np.generic)) or not all(
        hasattr(x, name) for name in ("shape", "dtype", "__getitem__")
    ):
        return np.asarray(x)  # no matrix, no mask
    return x


def _count(by: SupportsIndex) -> int:
    """Elements to grow by."""
    n = _integer(by, "by")
    if n < 0:
        raise ArgumentError(f"by must be at least 0, not {n}: extend only grows")
    return n


def _integer(value: SupportsIndex, name: str) -> int:
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"{name} must be an int, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name} must be an int, not {value!r}") from None
