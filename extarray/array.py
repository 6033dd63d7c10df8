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
from extarray.chunking import check_chunks, grid_of
from extarray.dims import check_dims, known_dims
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    LimitError,
    MissingError,
    ReadOnlyError,
    ShapeError,
)
from extarray.growth import LIMIT, Extendible
from extarray.html import describe
from extarray.indexing.indexable import Indexable, read_query, write_query
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

    from extarray.indexing.queries import Query
    from extarray.metadata import Header

__all__ = ["ExtArray"]


class ExtArray(Indexable, Extendible, NumpyMixin, StandardMixin):
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
        self._setup(axial, header.dtype, header.chunks, header.order, places, shape, store.offset)
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
        return describe(self.info(), segment_boxes(self.axial))

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
            if not self._store.refresh(self.axial):
                return False
            if self._store.region is not self._region:
                self._attach_store()
            self._set_bounds(self._store.shape, self._store.offset)
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
