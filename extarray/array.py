"""The array: NumPy's behaviour on a store of chunks."""

from __future__ import annotations

import errno
import operator
import threading
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload
from uuid import uuid4

import numpy as np

from extarray._core._array import ArrayCore
from extarray._core._axial import Axial
from extarray.attrs import Attributes
from extarray.casting import astype
from extarray.chunking import blocks, check_chunks, check_shape, grain, grid_of
from extarray.config import config
from extarray.dims import check_dims, known_dims
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    CastingError,
    ClosedError,
    LimitError,
    MissingError,
    ReadOnlyError,
    ShapeError,
)
from extarray.html import describe
from extarray.indexing.indexable import Indexable
from extarray.indexing.transfers import read_query, write_query
from extarray.info import Info
from extarray.order import positions
from extarray.protocols.dask import builds_graph, to_dask
from extarray.protocols.mixin import NumpyMixin
from extarray.protocols.standard import StandardMixin
from extarray.store import FileStore, MemoryStore, resolve_path
from extarray.walk import chunk_indices, region, segment_boxes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from extarray.indexing.query import Query
    from extarray.metadata import Header

__all__ = ["LIMIT", "ExtArray", "as_source"]

# Bytes of all chunks; file offsets are signed, and a little follows the last chunk.
LIMIT = 2**63 - 4096


class ExtArray(Indexable, ArrayCore, NumpyMixin, StandardMixin):
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

    __slots__ = ("__weakref__", "_filling", "_growth", "_handle", "_store")

    _store: FileStore | MemoryStore
    _growth: threading.RLock
    _filling: bool
    _handle: str  # no other array has it, not even one on the same files

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
    ) -> ExtArray:
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
    def _open(cls, path: Path, mode: str, timeout: float | None, engine: str) -> ExtArray:
        """Array of a pair of files."""
        store, axial = FileStore.open(path, mode, timeout, engine)
        return cls._from_store(store, axial, store.shape)

    @classmethod
    def _from_store(
        cls, store: FileStore | MemoryStore, axial: Axial, shape: tuple[int, ...]
    ) -> ExtArray:
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

    def _name(self) -> str:
        return "the array" if self.path is None else f"'{self.path}'"

    def _read_selected(
        self, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]:
        return read_query(self, query, out, order)

    def _write_selected(self, query: Query, value: Any) -> None:
        write_query(self, query, value)

    def _check(self, what: str | None = None) -> None:
        """Raise where the array is closed, or `what` would change a read-only one."""
        if self.closed:
            raise ClosedError(f"{self._name()} is closed; open it again with extarray.open")
        if what is not None and self.mode != "r+":
            raise ReadOnlyError(
                f"cannot {what} {self._name()}: opened with mode 'r'; reopen with mode='r+'"
            )

    # -- what the array is -------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """Path of the pair of files, without suffix; None for a memory-resident array."""
        return self._store.path

    @property
    def mode(self) -> str:
        """The mode: "r" or "r+"."""
        return self._store.mode

    @property
    def fill_value(self) -> Any:
        """Value of elements that were never written: a NumPy scalar.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.ones((2, 2)).fill_value
        np.float64(1.0)
        """
        return np.frombuffer(self._store.header.fill, self.dtype)[0]

    @property
    def maxshape(self) -> tuple[None, ...]:
        """None for each axis, as h5py calls an axis that grows without limit.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 3)).maxshape
        (None, None)
        """
        return (None,) * self.ndim

    @property
    def attrs(self) -> Attributes:
        """Attributes: a mutable mapping of JSON values, kept with the array.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2))
        >>> a.attrs["unit"] = "mm"
        >>> a.attrs["unit"]
        'mm'
        """
        return Attributes(self._load_attrs, self._save_attrs, self._growth)

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the axes, or None where they have none.

        Assignment takes a sequence of texts, one an axis, or None.  The names are kept as the
        attribute ``"dims"``, and are no part of indexing.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, (4, 3), dims=("y", "x"))
        >>> a.dims
        ('y', 'x')
        >>> a.dims = ["line", "sample"]
        >>> a.attrs["dims"]
        ['line', 'sample']
        """
        return known_dims(self.attrs.get("dims"), self.ndim)

    @dims.setter
    def dims(self, dims: Sequence[str] | None) -> None:
        if dims is None:
            self.attrs.pop("dims", None)
        else:
            self.attrs["dims"] = check_dims(dims, self.ndim)

    @property
    def _origin(self) -> bytes:
        """What tells the elements from those of other arrays."""
        return self._store.header.uuid

    def _load_attrs(self) -> str:
        self._check()
        return self._store.attrs

    def _save_attrs(self, attrs: str) -> None:
        self._check("change the attributes of")
        self._store.set_attrs(attrs)

    def info(self) -> Info:
        """Facts of the array: layout, growth, and the space it takes.

        Returns
        -------
        Info
            A dict; ``print`` of it is a table.  ``records`` is the number of records of each axis,
            ``utilisation`` the share of the allocated elements that lie inside the bounds.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((4, 3), chunks=(2, 2))
        >>> a.extend(1, 3)
        >>> a.info()["segments"], a.info()["records"]
        (2, (1, 1))
        """
        self._check()
        store, axial = self._store, self.axial
        logical = self.nbytes
        allocated = axial.size * self.chunk_bytes
        facts = Info(
            path=None if self.path is None else str(self.path),
            shape=self.shape,
            dtype=self.dtype,
            chunks=self.chunks,
            grid=self.grid,
            order=self.order,
            fill_value=self.fill_value,
            engine=store.engine,
            mode=self.mode,
            segments=axial.segments,
            records=tuple(len(axial.records(j)[0]) for j in range(self.ndim)),
            logical_bytes=logical,
            allocated_bytes=allocated,
            utilisation=logical / allocated if allocated else 1.0,
        )
        if isinstance(store, FileStore):
            facts.update(
                sparse=store.header.sparse,
                uuid=store.header.uuid.hex(),
                file_bytes=store.file_bytes,
                disk_bytes=store.disk_bytes,
                metadata_bytes=store.metadata_bytes,
            )
        return facts

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """What names the elements in dask's graphs: it changes when they may have changed."""
        self._check()
        store = self._store
        if isinstance(store, FileStore) and store.mode == "r":
            return ("extarray", store.header.uuid.hex(), *store.generation)
        changes = self._changes
        return ("extarray", self._handle, uuid4().hex if changes is None else changes)

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else f"'{self.path}', mode '{self.mode}'"
        if self.closed:
            return f"<extarray.ExtArray: {where}, closed>"
        return (
            f"<extarray.ExtArray: shape {self.shape}, {self.dtype}, chunks {self.chunks}, {where}>"
        )

    def _repr_html_(self) -> str:
        """Show the array in a notebook: a table, its grid of chunks, and how it grew."""
        if self.closed:
            return f"<code>{escape(repr(self))}</code>"
        return describe(self.info(), [(axis, stop) for axis, _, stop in segment_boxes(self.axial)])

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
        if isinstance(values, (np.ndarray, ArrayCore)):
            self._write_box(start, stop, values)
            return
        extents = [high - low for low, high in zip(start, stop, strict=True)]
        for part in blocks(extents, grain(values, self.chunks), self.itemsize, config.max_memory):
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

    # -- as h5py moves elements --------------------------------------------------------------

    def read_direct(self, dest: NDArray[Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """Read into a part of a NumPy array: ``dest[dest_sel] = a[source_sel]``.

        Parameters
        ----------
        dest : ndarray
            Written to; of any dtype and strides.
        source_sel : index expression, optional
            What is read; None: everything.
        dest_sel : index expression, optional
            Where in `dest` it goes, broadcast as in an assignment; None: everywhere.

        Raises
        ------
        ArgumentTypeError
            A TypeError: `dest` is no NumPy array.
        BoundsError, SelectionError, ShapeError, ClosedError

        Notes
        -----
        Where `dest_sel` is basic, shapes agree, and the cast is of the ``same_kind``, no copy is
        made in between.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> dest = np.zeros((2, 4))
        >>> a.read_direct(dest, np.s_[:, 1:], np.s_[:, :2])
        >>> dest
        array([[2., 3., 0., 0.],
               [5., 6., 0., 0.]])
        """
        if not isinstance(dest, np.ndarray):
            raise ArgumentTypeError(f"dest must be a NumPy array, not {type(dest).__name__}")
        source = ... if source_sel is None else source_sel
        place = ... if dest_sel is None else dest_sel
        target: Any = dest[place]
        # An advanced index gives a copy, integers alone a scalar: nothing to read into.
        is_view = isinstance(target, np.ndarray) and np.may_share_memory(target, dest)
        if is_view and np.can_cast(self.dtype, target.dtype, "same_kind"):
            try:
                self.read(source, out=target)
            except ShapeError:  # nothing was read: to be broadcast, if possible
                pass
            else:
                return
        dest[place] = self.read(source)

    def write_direct(self, source: ArrayLike, source_sel: Any = None, dest_sel: Any = None) -> None:
        """Write a part of an array: ``a[dest_sel] = source[source_sel]``.

        Parameters
        ----------
        source : array_like
        source_sel : index expression, optional
            What is written, broadcast as in an assignment; None: everything.
        dest_sel : index expression, optional
            Where it goes; None: everywhere.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, ReadOnlyError, ClosedError, StorageError
            As for `write`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.write_direct(np.arange(10), np.s_[4:6], np.s_[:, 0])
        >>> a[...]
        array([[4, 0, 0],
               [5, 0, 0]], dtype=int32)
        """
        values: Any = source
        if source_sel is not None:
            if not isinstance(source, (np.ndarray, ArrayCore)):
                values = np.asarray(source)
            values = values[source_sel]
        self.write(... if dest_sel is None else dest_sel, values)

    # -- whole arrays ------------------------------------------------------------------------

    def astype(
        self,
        dtype: DTypeLike,
        order: Literal["C", "F", "A", "K"] | None = None,
        casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "unsafe",
        subok: bool = True,
        copy: bool | None = None,
    ) -> Any:
        """Elements in another dtype: read late, as from h5py's, or an ndarray, as NumPy's.

        Parameters
        ----------
        dtype : dtype_like
        order : {"C", "F", "A", "K"}, optional
            Memory order of an ndarray.
        casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        subok : bool
            As NumPy's; there is no subclass that could be passed on.
        copy : bool, optional
            True and False give the same: an ndarray is always a copy.

        Returns
        -------
        AsType or ndarray
            Without `order` and `copy`, which speak of memory: an object with brackets, operators,
            and all of NumPy's functions, which reads and casts what these need at the moment that
            they need it, box by box.  With one of them: an ndarray.

        Raises
        ------
        CastingError
            A TypeError: the rule does not allow it.
        ResultError
            A MemoryError: an ndarray larger than ``config.max_result``.

        Notes
        -----
        What reads late shows the array as it is then, not as it was when `astype` was called.  It
        cannot be written to: ``x = a.astype(float); x += 1`` makes `x` an ndarray, and
        ``a.astype(float, copy=True)`` is one.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2], [3, 4]])
        >>> a.astype("f4")[0]
        array([1., 2.], dtype=float32)
        >>> a.astype(float).sum(), a.astype(float, copy=True)
        (np.float64(10.0), array([[1., 2.],
               [3., 4.]]))
        """
        self._check()
        return astype(self, dtype, order, casting, copy)

    def to_dask(self, chunks: Any = None) -> Any:
        """Dask array whose tasks read this array.

        Parameters
        ----------
        chunks : int, tuple, str or dict, optional
            As for `dask.array.from_array`; None: groups of whole chunks, of about the bytes that
            dask's setting ``array.chunk-size`` says, by default 128 MiB.

        Returns
        -------
        dask.array.Array

        Raises
        ------
        MissingExtraError
            Dask is not installed.
        ClosedError

        Notes
        -----
        Nothing is read before the tasks run.  Tasks in other processes open the files there.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.ones((100, 100), chunks=10)
        >>> x = a.to_dask(chunks=(50, 100))  # doctest: +SKIP
        >>> x.sum().compute()  # doctest: +SKIP
        np.float64(10000.0)
        """
        self._check()
        return to_dask(self, chunks)

    # The name by which ``dask.array.asarray`` finds it.
    to_dask_array = to_dask

    @overload
    def iter_chunks(
        self, sel: None = None, order: Literal["address", "grid"] = "address"
    ) -> Iterator[tuple[tuple[int, ...], NDArray[Any]]]: ...
    @overload
    def iter_chunks(
        self, sel: Any, order: Literal["address", "grid"] = "address"
    ) -> Iterator[tuple[slice, ...]]: ...
    def iter_chunks(
        self, sel: Any = None, order: Literal["address", "grid"] = "address"
    ) -> Iterator[Any]:
        """Iterate over the chunks of the grid, or over those that meet a selection.

        Parameters
        ----------
        sel : int, slice, Ellipsis, or tuple of them, optional
            A box of elements: slices have a step of 1.
        order : {"address", "grid"}
            Order of the addresses (of the file), or row-major order of the indices.

        Yields
        ------
        index, view : tuple of int, ndarray
            Without a selection: a chunk index, and what `chunk` returns for it.
        selection : tuple of slice
            With one, as in h5py: the part of the selection that lies in a chunk.

        Raises
        ------
        BoundsError, SelectionError
            IndexErrors: the selection is not possible, or no box.
        ClosedError

        Notes
        -----
        The grid is that of the beginning of the iteration.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2), chunks=(2, 1))
        >>> a.extend(0, 2)
        >>> [index for index, view in a.iter_chunks()]
        [(0, 0), (0, 1), (1, 0), (1, 1)]
        >>> for part in a.iter_chunks((slice(1, 4), 0)):
        ...     a[part] = 5
        >>> a[:, 0]
        array([0., 5., 5., 5.])
        """
        if order not in ("address", "grid"):
            raise ArgumentError(f"order {order!r} is not possible; use 'address' or 'grid'")
        self._check()
        shape, chunks = self.shape, self.chunks
        if sel is None:
            grid = grid_of(shape, chunks)
            indices = chunk_indices(self.axial, (0,) * len(grid), grid, order)
            return ((index, self.chunk(index)) for index in indices)
        start, stop = region(sel, shape)
        first = tuple(n // c for n, c in zip(start, chunks, strict=True))
        # An empty selection meets no chunk.
        last = first if any(map(operator.eq, start, stop)) else grid_of(stop, chunks)
        return (
            # With the step that h5py gives.
            tuple(
                slice(max(i * c, low), min((i + 1) * c, high), 1)
                for i, c, low, high in zip(index, chunks, start, stop, strict=True)
            )
            for index in chunk_indices(self.axial, first, last, order)
        )

    def copy(
        self,
        path: Any = None,
        chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    ) -> ExtArray:
        """Copy into a fresh, dense array: one segment, no history.

        Parameters
        ----------
        path : str or PathLike, optional
            Of the new pair of files; None: in memory.
        chunks : int or sequence of int, optional
            Chunk shape; None: the present one.

        Returns
        -------
        ExtArray
            Open in mode "r+", with the same dtype, order, fill value and attributes.

        Raises
        ------
        ExistsError, ChunksError, StorageError, ReserveError

        Notes
        -----
        Called by `dask.array.from_array` it gives the array itself: tasks read it late.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.ones((4, 3), chunks=(2, 2))
        >>> a.copy(chunks=(4, 1)).chunks
        (4, 1)
        """
        self._check()
        if path is None and chunks is None and builds_graph():
            return self
        header = self._store.header
        shape = check_chunks(chunks, self.shape, self.itemsize) if chunks is not None else None
        new = ExtArray._create(
            path,
            self.shape,
            replace(header, uuid=uuid4().bytes, chunks=shape or header.chunks),
            self._store.attrs,
        )
        try:
            new[...] = self
        except BaseException:
            new._discard()
            raise
        return new

    def __copy__(self) -> ExtArray:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> ExtArray:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        store = self._store
        if isinstance(store, FileStore):
            return _reopen, (store.absolute, store.header.uuid, store.engine)
        return _restore, (store.header, store.attrs, self.read())

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


def _reopen(path: str, uuid: bytes, engine: str) -> ExtArray:
    """Array in files that was pickled, open for reading."""
    array = ExtArray._open(Path(path), "r", 0, engine)
    if array._store.header.uuid != uuid:
        array.close()
        raise MissingError(
            errno.ENOENT,
            "the array that was pickled is gone: another one has taken its place; pickle that one",
            path,
        )
    return array


def _restore(header: Header, attrs: str, elements: NDArray[Any]) -> ExtArray:
    """Array in memory that was pickled: one segment, no history."""
    header = replace(header, uuid=uuid4().bytes)
    array = ExtArray._create(None, elements.shape, header, attrs)
    array[...] = elements
    return array


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
