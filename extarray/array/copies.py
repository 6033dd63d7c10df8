"""The elements elsewhere: copies, pickles, other dtypes, and dask's graphs."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex
from uuid import uuid4

from extarray.array.base import StoredArray
from extarray.array.casting import astype
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError, MissingError
from extarray.format.labels import attrs_of_whole
from extarray.grid.chunking import check_chunks
from extarray.grid.order import check_order
from extarray.maintenance.transform import Transformation, passes_between
from extarray.storage.file_store import FileStore
from extarray.storage.filesystem import resolve_path
from extarray.streaming.blocks import Source
from extarray.streaming.dask import builds_graph, to_dask

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from numpy.typing import DTypeLike, NDArray

    from extarray.format.header import Header

__all__ = ["CopiesMixin"]

# What `numpy.ndarray.copy` takes where `copy` takes a path.
_NUMPY_ORDERS = ("C", "F", "A", "K")


class CopiesMixin(StoredArray, Source):
    """Ways of the elements to another array, process, dtype or library."""

    __slots__ = ()

    if TYPE_CHECKING:

        @classmethod
        def _create(
            cls,
            path: Any,
            shape: tuple[int, ...],
            header: Header,
            attrs: str,
            *,
            growth: int,
        ) -> Self: ...
        @classmethod
        def _open(cls, path: Path, mode: str, timeout: float | None, engine: str) -> Self: ...
        def _discard(self) -> None: ...
        @property
        def lazy(self) -> Any: ...  # noqa: D102
        def close(self) -> None: ...  # noqa: D102

    def copy(
        self,
        path: Any = None,
        chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
        *,
        order: Literal["C", "F", "A", "K", "Z", "H"] = "K",
        checksum: bool | None = None,
    ) -> Self:
        """Copy into a fresh, dense array: one segment, no history.

        Parameters
        ----------
        path : str or PathLike, optional
            Of the new pair of files; None: in memory.
        chunks : int or sequence of int, optional
            Chunk shape; None: the present one.
        order : {"C", "F", "A", "K", "Z", "H"}
            Of the elements in a chunk, as for `create`; "K" and "A": the present one.
        checksum : bool, optional
            Keep checksums, as for `create`; None: as this array does, in files.

        Returns
        -------
        ExtArray
            Open in mode "r+", with the same dtype, fill value, attributes and growth
            policy.

        Raises
        ------
        ArgumentError
            A ValueError: no such order; or `path` is an order, which `numpy.ndarray.copy` takes
            first; or checksums of an array in memory.
        ExistsError, ChunksError, StorageError, ReserveError

        Notes
        -----
        At most ``config.max_memory`` bytes are in memory at a time, where a chunk of each array is
        not larger; see `extarray.rechunk`, which can do more.

        Called by `dask.array.from_array` it gives a view of the whole: tasks read it late, by
        indices that mean what they mean now.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.ones((4, 3), chunks=(2, 2))
        >>> a.copy(chunks=(4, 1)).chunks
        (4, 1)
        """
        self._check()
        if path is None and chunks is None and builds_graph():
            return self.lazy[...]  # type: ignore[no-any-return]
        if isinstance(path, str) and path in _NUMPY_ORDERS:
            raise ArgumentError(
                f"copy({path!r}): the first argument is a path; use order={path!r} for an order, "
                f'path="./{path}" for files of this name'
            )
        if checksum and path is None:
            raise ArgumentError("checksums are kept in files; give a path too")
        header = self._store.header
        if checksum is None:
            checksum = header.checksum and path is not None
        source = self._verified()  # other threads may move the bounds
        shape = source.shape
        header = replace(
            header,
            uuid=uuid4().bytes,
            chunks=header.chunks if chunks is None else check_chunks(chunks, shape, self.itemsize),
            order=header.order if order in ("A", "K") else check_order(order),
            checksum=bool(checksum),
            work=b"",
        )
        passes = passes_between(source, shape, header.chunks, header.dtype, None, path is None)
        kind, attrs, growth = self._plain_kind(), self._attrs_of_copy(), self._store.growth
        work = Transformation(
            kind, source, shape, header, attrs, passes, config.max_memory, growth=growth
        )
        new: Self = work.in_memory() if path is None else work.on_disk(resolve_path(path))
        return new

    @classmethod
    def _plain_kind(cls) -> type[Self]:
        """The class of copies, which nobody shares."""
        return cls

    def repack(self, path: Any, *, checksum: bool | None = None) -> Self:
        """Write the elements inside the bounds into a fresh, dense array.

        Parameters
        ----------
        path : str or PathLike
            Of the new pair of files.
        checksum : bool, optional
            As for `copy`.

        Returns
        -------
        ExtArray
            Open in mode "r+": one segment, no holes, the file as long as it has to be.  Indices
            count from its own start: `origin` is zeros.

        Raises
        ------
        ExistsError, StorageError, ClosedError

        Examples
        --------
        >>> import os, tempfile, extarray as xa
        >>> a = xa.zeros((1000, 4), chunks=(10, 4))
        >>> a.shrink(0, 990)
        >>> b = a.repack(os.path.join(tempfile.mkdtemp(), "small"))
        >>> a.grid, b.grid
        ((100, 1), (1, 1))
        >>> b.close()
        """
        if path is None:
            raise ArgumentTypeError("repack needs a path; copy() makes an array in memory")
        return self.copy(path, checksum=checksum)

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        store = self._store
        if isinstance(store, FileStore):
            return self._reopen, (store.absolute, store.header.uuid, store.engine)
        return self._restore, (store.header, self._attrs_of_copy(), self.read(), store.growth)

    def _attrs_of_copy(self) -> str:
        """The attributes, as they are right for an array that never moved at the start."""
        with self._steady:
            return attrs_of_whole(self._store.attrs, self.dims, self.origin)

    @classmethod
    def _reopen(cls, path: str, uuid: bytes, engine: str) -> Self:
        """Array in files that was pickled, open for reading."""
        array = cls._open(Path(path), "r", 0, engine)
        if array._store.header.uuid != uuid:
            array.close()
            raise MissingError(
                errno.ENOENT,
                "the array that was pickled is gone: another one has taken its place; pickle that "
                "one",
                path,
            )
        return array

    @classmethod
    def _restore(cls, header: Header, attrs: str, elements: NDArray[Any], growth: int) -> Self:
        """Array in memory that was pickled: one segment, no history."""
        header = replace(header, uuid=uuid4().bytes, work=b"")
        array = cls._create(None, elements.shape, header, attrs, growth=growth)
        array[...] = elements
        return array

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
        return to_dask(self.lazy[...], chunks)

    # The name by which ``dask.array.asarray`` finds it.
    to_dask_array = to_dask

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """What names the elements in dask's graphs: it changes when they may have changed."""
        self._check()
        store = self._store
        if isinstance(store, FileStore) and store.mode == "r":
            return ("extarray", store.header.uuid.hex(), *store.generation)
        changes = self._changes
        return ("extarray", self._handle, uuid4().hex if changes is None else changes)
