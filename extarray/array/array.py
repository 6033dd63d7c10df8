"""The array: NumPy's behaviour on a store of chunks."""

from __future__ import annotations

import contextlib
import errno
import functools
import operator
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np

from extarray._core._array import ArrayCore
from extarray._core._axial import Axial
from extarray.array import view_functions  # noqa: F401 -- registers what gives views
from extarray.array.access_log import AccessMixin
from extarray.array.axes import AxesMixin, places_of
from extarray.array.copies import CopiesMixin
from extarray.array.display import SeeingMixin
from extarray.array.follow import LiveMixin
from extarray.array.growth import Extendible
from extarray.array.h5py_compat import HabitsMixin
from extarray.array.lazy import Lazy, everything
from extarray.array.resizing import give_back_freed
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExtArrayError,
    LimitError,
    MissingError,
    ReplacedError,
)
from extarray.common.forks import in_children
from extarray.format.constants import LIMIT
from extarray.grid.chunking import grid_of
from extarray.grid.policy import EXACT
from extarray.numpy_api.dlpack import StandardMixin
from extarray.numpy_api.methods import NumpyMixin
from extarray.selection.indexable import Indexable
from extarray.selection.transfers import read_query, write_query
from extarray.storage.file_store import FileStore
from extarray.storage.filesystem import resolve_path
from extarray.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from extarray.format.header import Header
    from extarray.selection.query import Query
    from extarray.streaming.blocks import Line

__all__ = ["ExtArray"]


@functools.cache
def _slots(cls: type) -> tuple[str, ...]:
    """Names of what an array has beside what the core has of it."""
    own = (getattr(kind, "__slots__", ()) for kind in cls.__mro__)
    return tuple(name for names in own for name in names if name != "__weakref__")


class ExtArray(
    Indexable,
    Extendible,
    AccessMixin,
    AxesMixin,
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
    Indexing returns copies.  Threads may share an array for all that it can do; a call sees the
    bounds of the moment at which it begins.  After a fork the child has it open for reading only.

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
        durability: str = "flush",
        growth: int = EXACT,
        hidden: bool = False,
    ) -> Self:
        """Fresh array, in the files of `path` or (None) in memory.

        Where it is `hidden`, the files have their names when `_publish` is called.
        """
        axial = Axial(grid_of(shape, header.chunks))
        longest = max(map(operator.mul, axial.grid, header.chunks), default=0)
        if max(longest, axial.size * header.chunk_bytes) >= LIMIT:
            raise LimitError(
                f"an array of shape {shape} in chunks of {header.chunks} elements of "
                f"{header.dtype} has 2**63 bytes or more, or an axis so long"
            )
        store: FileStore | MemoryStore
        if path is None:
            store = MemoryStore(header, shape, axial, attrs, growth)
        else:
            store = FileStore.create(
                resolve_path(path),
                header,
                axial,
                shape,
                attrs,
                engine,
                overwrite,
                durability,
                growth,
                hidden,
            )
        return cls._from_store(store, axial)

    @classmethod
    def _open(
        cls,
        path: Path,
        mode: str,
        timeout: float | None,
        engine: str,
        durability: str = "flush",
        verify: str | None = None,
    ) -> Self:
        """Array of a pair of files."""
        store, axial = FileStore.open(path, mode, timeout, engine, durability, verify)
        return cls._from_store(store, axial)

    @classmethod
    def _from_store(cls, store: FileStore | MemoryStore, axial: Axial) -> Self:
        """Array on an open store."""
        self = cls.__new__(cls)
        self._store = store
        self._make_locks()
        self._handle = uuid4().hex
        self._filling = False
        self._take_layout(axial)
        self._attach_store()
        self._watch_cuts()
        in_children(self, type(self)._after_fork)
        return self

    def _make_locks(self) -> None:
        self._growth = self._commits = self._steady = threading.RLock()

    def _is_still(self) -> bool:
        """Whether no other thread holds a lock of the array."""
        return self._steady.acquire(blocking=False)

    def _after_fork(self) -> None:
        """In a forked child: no lock that a thread of the parent held, and nothing half done.

        Where it has files, it is open for reading.  If what counts cannot be told it is closed.
        """
        still = self._is_still()
        self._make_locks()
        if not still or self.mode == "r":
            self._filling = False
        if self.closed:
            return
        try:
            if not still:
                self._take_layout(self._store.as_committed(self.axial))
            self._attach_store()
            self._watch_cuts()
        except (OSError, ExtArrayError):
            with contextlib.suppress(OSError):
                self._let_go()

    def _watch_cuts(self) -> None:
        """Watch the store's counter of cuts, if it has one."""
        store = self._store
        if store.cuts is not None:
            fill = np.frombuffer(store.header.fill, self.dtype).reshape(())
            self._watch(store.cuts, store.cuts_known, fill)

    def _look_at_cuts(self) -> None:
        store = self._store
        assert isinstance(store, FileStore)
        with self._growth:  # or a refresh comes in between
            self._check()
            number, inner = store.inner_box(self.axial)
            self._watch_cuts()  # another counter, perhaps
            self._know_cuts(number, inner)

    def _place_elements(self) -> None:
        """Work out where elements stand in a chunk; the table is of a chunk's size.

        Not before there is a chunk: a file of nothing but promises would cost memory.
        """
        places = places_of(self.chunks, self.order)
        if places is not None:
            self._set_places(places)

    def _attach_store(self) -> None:
        """Use the store's region, as the store may be used now."""
        store = self._store
        writable, sparse = store.mode == "r+", store.header.sparse
        self._attach(
            store.region,
            writable,
            sparse,
            store.hollow,
            store.is_durable,
            store.sums,
            store.users,
            store.trust,
            store.verify == "read",
        )

    def _read_selected(
        self, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]:
        return read_query(self, query, out, order)

    def _write_selected(self, query: Query, value: Any) -> None:
        write_query(self, query, value)

    def _write_late(self, selection: Any, value: Any) -> None:
        # A view of the selection knows what it has in common with other views, and streams.
        self.lazy[selection] = value

    def _held(self) -> Self:
        """Return the array as it is now, whatever becomes of its bounds: to go through its parts.

        The array that is given back shows the same elements, under the same indices, as long as
        it lives, and keeps what is cut off meanwhile from being given back.  It is for the length
        of one call; `_released` gives what may outlive it.
        """
        if self._original is not None:
            return self
        self._check()
        cls = type(self)
        # Not that of a user's class, which may take arguments.
        held = ExtArray.__new__(cls)
        held._hold(self)
        for name in _slots(cls):
            if hasattr(self, name):
                setattr(held, name, getattr(self, name))
        return held

    def _verified(self) -> Self:
        held = self._held()
        held._verify_reads()
        return held

    def _released(self) -> Self:
        original: Self | None = self._original
        return self if original is None else original

    @property
    def _layout(self) -> tuple[Line, ...]:
        return tuple([(0, 1, n, j) for j, n in enumerate(self.shape)])

    @property
    def _extract(self) -> list[Any]:
        """What it has of the elements that were ever stored, as JSON values."""
        return [-n for n in self.origin]

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
        return self._rows(self.ndim, self.shape[0])

    def _rows(self, ndim: int, extent: int) -> Iterator[Any]:
        for i in range(extent):
            row = self[i]
            self._check_axes(ndim)
            yield row

    # -- life --------------------------------------------------------------------------------

    def refresh(self, on_replaced: Literal["raise", "reopen"] = "raise") -> bool:
        """Take up what a writer has committed since the array was opened or refreshed.

        Parameters
        ----------
        on_replaced : {"raise", "reopen"}
            For a reader whose files were replaced, as by ``create(..., overwrite=True)``: raise
            `ReplacedError`; or become the array that has the path now, of whatever shape and dtype.

        Returns
        -------
        bool
            Whether anything was new.  In mode "r+" nothing can be, unless other writers share the
            array.

        Raises
        ------
        ReplacedError
            A FileNotFoundError: other files have the path by now, or none, and nobody writes to
            those that are open here, which can still be read.
        ClosedError, CorruptError, TruncatedError, ArgumentError

        Notes
        -----
        Reads only what is new, takes no lock, and never blocks a writer.  (One of several writers
        takes the lock of commits for the time.)  The array may have gained an axis since
        (`add_axis`): then it has one more here, too.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 2)).refresh()
        False
        """
        if on_replaced not in ("raise", "reopen"):
            raise ArgumentError(
                f"on_replaced {on_replaced!r} is not possible; use 'raise' or 'reopen'"
            )
        with self._steady:
            self._check()
            axial = self._store.refresh(self.axial)
            if axial is not None:
                self._show_store(axial)
            reopen = on_replaced == "reopen"
            if self.mode == "r" and (axial is None or reopen) and self._store.replaced:
                if not reopen:
                    raise self._replaced_error()
                self._become_successor()
                return True
            return axial is not None

    def _replaced_error(self) -> ReplacedError:
        return ReplacedError(
            errno.ENOENT,
            f"nothing new can come to {self._name()}: its files were replaced, removed or moved "
            "since it was opened, and nobody writes to them; open it again, or refresh with "
            "on_replaced='reopen'",
            str(self.path),
        )

    def _become_successor(self) -> None:
        """Be the array that has the path now, in place of the one whose files were replaced."""
        before = self._store
        assert isinstance(before, FileStore)
        try:
            store, axial = FileStore.open(
                before.path, "r", 0, before.engine, "flush", before.verify
            )
        except MissingError:
            raise self._replaced_error() from None
        self._store = store
        self._attach(None, False, False, False, False)
        self._take_layout(axial)
        self._attach_store()
        self._watch_cuts()
        before.close()

    @property
    def replaced(self) -> bool:
        """Whether the files were replaced, removed or moved, so that nothing new can come.

        As long as a writer has them open, something can, whatever name they have.

        Examples
        --------
        >>> import tempfile, extarray as xa
        >>> path = f"{tempfile.mkdtemp()}/scene"
        >>> xa.zeros((2, 3), path=path).close()
        >>> reader = xa.open(path)
        >>> reader.replaced
        False
        >>> xa.create(path, (5,), "i4", overwrite=True).close()
        >>> reader.replaced
        True
        >>> reader.refresh(on_replaced="reopen"), reader.shape, reader.dtype
        (True, (5,), dtype('int32'))
        >>> reader.close()
        """
        self._check()
        return self._store.replaced

    def _show_store(self, axial: Axial) -> None:
        """Have the region and the bounds that the store has; other axial vectors: axes, too."""
        if self._store.region is not self._region:
            self._attach_store()
        if axial is self.axial:
            self._set_bounds(self._store.shape, self._store.offset)
            self._know_cuts(self._store.cuts_known, None)
            if axial.size and not self._has_places:
                self._place_elements()
        else:
            self._take_layout(axial)
            self._watch_cuts()

    def flush(self) -> None:
        """Bring everything to the disk: what returned before survives a power cut.

        Raises
        ------
        ClosedError, StorageError
        ArgumentError
            Inside a block of `extarray.commit`.

        Notes
        -----
        Checksums of chunks, where the array has them, are brought up to date: what was written
        since the last time is read once.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 2)).flush()
        """
        with self._commits:
            self._check()
            self._check_free("flush")
            self._flush()

    def _flush(self, last: bool = False) -> None:
        """Bring everything to the disk, and before that the checksums up to date."""
        store = self._store
        if isinstance(store, MemoryStore) or store.sums is None or not store.sums.in_doubt:
            store.flush()
            return
        self._note_shown(last)
        quiet = store.renew_sums(self)
        store.flush()
        store.sums.settle(self, quiet)

    def close(self) -> None:
        """Let go of the files and of the writer's lock.  Views of chunks stay valid.

        Raises
        ------
        ArgumentError
            Inside a block of `extarray.commit`.
        TruncatedError
            A ValueError: another program has cut the file of a writer off.  It is closed.

        Notes
        -----
        Closing twice is allowed.  Data that were written are seen by every other process at once;
        `flush` first where they have to survive a power cut.  An array with checksums is flushed,
        where anything was written; what is written through views from then on fits no checksum.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2))
        >>> a.close()
        >>> a.closed
        True
        """
        with self._growth:
            self._check_free("close")
            sums = self._store.sums
            try:
                if not self.closed and self._store.mode == "r+":
                    with contextlib.suppress(OSError):
                        give_back_freed(self)
                if not self.closed and sums is not None and sums.in_doubt:
                    # What fails leaves them in doubt, which costs nothing but certainty.
                    with contextlib.suppress(OSError):
                        self._flush(last=True)
            finally:
                self._let_go()

    def _let_go(self) -> None:
        self._attach(None, False, False, False, False)
        self._store.close()

    def _check_free(self, what: str) -> None:
        """Raise in the midst of a commit of several arrays."""
        if self._store.held is not None:
            raise ArgumentError(
                f"cannot {what} {self._name()} inside a block of extarray.commit; do it behind"
            )

    def _publish(self) -> None:
        """Give the files of a hidden array their names; on an error it is closed, and they go."""
        if isinstance(self._store, FileStore):
            try:
                self._store.take_names()
            except BaseException:
                self._let_go()
                raise

    def _discard(self) -> None:
        """Close an array that could not be shared, and remove its files."""
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
