"""The array: NumPy's behaviour on a store of chunks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from extarray._core._array import ArrayCore
from extarray._core._axial import Axial
from extarray.chunking import grid_of
from extarray.copies import CopiesMixin
from extarray.errors import (
    ArgumentTypeError,
    LimitError,
)
from extarray.filesystem import resolve_path
from extarray.growth import LIMIT, Extendible
from extarray.habits import HabitsMixin
from extarray.indexing.indexable import Indexable
from extarray.indexing.transfers import read_query, write_query
from extarray.lazy import Lazy, everything
from extarray.live import LiveMixin
from extarray.memory import MemoryStore
from extarray.order import positions
from extarray.protocols.mixin import NumpyMixin
from extarray.protocols.standard import StandardMixin
from extarray.seeing import SeeingMixin
from extarray.store import FileStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from extarray.indexing.query import Query
    from extarray.metadata import Header
    from extarray.protocols.blocks import Line

__all__ = ["ExtArray"]


class ExtArray(
    Indexable,
    Extendible,
    LiveMixin,
    CopiesMixin,
    HabitsMixin,
    SeeingMixin,
    NumpyMixin,
    StandardMixin,
):
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

    _fetch = ArrayCore.read  # type: ignore[assignment]
    _put = ArrayCore.write

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
