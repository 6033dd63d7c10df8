"""The elements elsewhere: in copies, pickles, other dtypes and dask's graphs."""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

import errno
import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, SupportsIndex

import numpy as np

from extarray.array.encodings import encoded_like, rounding_of
from extarray.array.facts import Stored
from extarray.common.arguments import NOT_GIVEN, check_flag, check_progress
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    CastingError,
    MissingError,
    ReadOnlyError,
    StorageError,
)
from extarray.common.lazy import LazyImports, Upward
from extarray.common.on_error import OnError
from extarray.format.attrs import decode_attrs
from extarray.format.header import encode_header
from extarray.format.labels import attrs_of_whole
from extarray.grid.chunking import check_chunks
from extarray.grid.order import check_order
from extarray.grid.tiles import Grain, tiles
from extarray.numpy_api.methods import NumpyMixin
from extarray.streaming.blocks import Source, box_bytes, leaves_holes, load, run
from extarray.streaming.dask import builds_graph
from extarray.streaming.limits import check_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TypeGuard

    from numpy.typing import DTypeLike, NDArray

    from extarray.codecs.rounding import Rounding
    from extarray.common.arguments import Reported
    from extarray.common.choices import Order
    from extarray.format.header import Header
    from extarray.grid.tiles import Box
    from extarray.storage.store import Reader
    from extarray.streaming.blocks import Line
    from extarray.streaming.holes import Write

__all__ = [
    "AsType",
    "Copied",
    "Late",
    "Made",
    "astype",
    "copy",
    "elements_of",
    "is_sparse",
    "rechunked",
    "reduced",
    "reopened",
    "repack",
    "restored",
    "token",
]

_later = LazyImports(
    {
        "extarray.array.filling": "writer",
        "extarray.array.freezing": "freeze_at_end",
        "extarray.maintenance.transform": "Transformation passes_between",
        "extarray.storage.filesystem": "leaves_holes resolve_path",
        "hashlib": "sha256",
        "pathlib": "Path",
        "uuid": "uuid4",
    }
)


class Copied(Stored, Protocol):
    """An array whose elements are read, and whose class makes other arrays."""

    @property
    def _changes(self) -> int | None: ...
    @property
    def fill_value(self) -> Any: ...
    def read(self) -> NDArray[Any]: ...
    def copy(
        self,
        path: Any,
        *,
        checksum: bool | None = None,
        sparse: bool | None = None,
        compression: Any = NOT_GIVEN,
        significant_bits: int | None = None,
        progress: Reported = True,
    ) -> Any: ...
    def _verified(self) -> Any: ...
    @classmethod
    def _plain_kind(cls) -> type[Any]: ...
    @classmethod
    def _reopen(
        cls,
        path: str,
        uuid: bytes,
        engine: str,
        durability: str | None = None,
        names: tuple[str, str] | None = None,
        verify: str | None = None,
        sequence: float = 0,
    ) -> Any: ...
    @classmethod
    def _restore(cls, header: Header, attrs: str, elements: NDArray[Any], growth: int) -> Any: ...


# Orders of `numpy.ndarray.copy`, in the place where `copy` takes a path.
_NUMPY_ORDERS = ("C", "F", "A", "K")


def copy(
    array: Copied,
    path: Any = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    order: Order | Literal["A", "K"] = "K",
    checksum: bool | None = None,
    sparse: bool | None = None,
    compression: Any = NOT_GIVEN,
    significant_bits: int | None = None,
    resume: bool | None = None,
    progress: Reported = True,
) -> Any:
    """Copy into a fresh array of one segment; see `ExtArray.copy`."""
    array._check()
    progress = check_progress(progress)
    if isinstance(path, str) and path in _NUMPY_ORDERS:
        raise ArgumentError(
            f"copy({path!r}): the first argument is a path; use order={path!r} for an order, or "
            f'path="./{path}" for files of this name'
        )
    if checksum and path is None:
        raise ArgumentError("checksum=True needs files; give a path")
    old = array._store.now.header
    if checksum is None:
        checksum = old.checksum and path is not None
    source = array._verified()  # held, as other threads may move the bounds
    shape = source.shape
    header = old.renewed(
        chunks=old.chunks if chunks is None else check_chunks(chunks, shape, array.itemsize),
        order=old.order if order in ("A", "K") else check_order(order),
        checksum=bool(checksum),
        sparse=is_sparse(old.sparse, sparse, path),
    )
    header = encoded_like(header, old, compression, path)
    passes = _later.passes_between(source, shape, header.chunks, header.dtype, None, path is None)
    made, attrs = Made(array._plain_kind()), _attrs_of_copy(array)
    rounding = rounding_of(significant_bits, array.dtype, array.fill_value, decode_attrs(attrs))
    options = {"growth": array._store.now.growth, "what": "copy", "rounding": rounding}
    files: Reader | None = array._store.files
    if resume is None:
        resume = bool(files is not None and files.traffic)
    elements, memory = elements_of(source), config.max_memory
    if check_flag(resume, "resume"):
        elements += _versions(files, header, significant_bits)
    work = _later.Transformation(
        made, source, elements, shape, header, attrs, passes, memory, progress, **options
    )
    if path is None:
        return work.in_memory()
    place = _later.resolve_path(path)
    if resume and work.has_moved(place):
        return made.open(place, "r+")
    return work.on_disk(place, resume=resume, keep=resume)


def _versions(files: Reader | None, header: Header, significant_bits: int | None) -> list[Any]:
    """Return, as JSON values, the version of an array and all about the form of its copy."""
    form = encode_header(header._replace(uuid=bytes(len(header.uuid))))
    version = None if files is None else [str(part) for part in files.generation]
    return [version, _later.sha256(form).hexdigest(), significant_bits]


def is_sparse(source: bool, asked: bool | None, path: Any) -> bool:
    """Tell whether growth of a copy leaves holes: as asked, or as for the source.

    Unless asked, it also does where reserving space is pointless (`leaves_holes`).
    """
    if asked is not None:
        return check_flag(asked, "sparse")
    return source or (path is not None and _later.leaves_holes(_later.resolve_path(path)))


# `rechunk` opens arrays by path, so it lives in a higher module.
_upward = Upward({"extarray.array.rechunk": "rechunk"})


def rechunked(array: Copied, path: Any, **options: Any) -> Any:
    """Copy into an array with another layout; see `ExtArray.rechunk`."""
    return _upward.rechunk(array, path, **options)


class Made:
    """A class of arrays, as `Transformation` makes and opens them."""

    __slots__ = ("_kind",)

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def create(
        self,
        path: Path | None,
        shape: tuple[int, ...],
        header: Header,
        attrs: str,
        growth: int,
        like: tuple[str, str] | None = None,
    ) -> Any:
        """Make an array, perhaps with the permissions of other files."""
        return self._kind._create(path, shape, header, attrs, growth=growth, like=like)

    def open(self, path: Path, mode: str) -> Any:
        """Open an array without waiting for its writer."""
        return self._kind._open(path, mode, 0, "auto")

    def writer(self, array: Any, rounding: Rounding | None) -> Write:
        """Return the function that writes boxes to an array, which freezes whole chunks."""
        return _later.writer(array, rounding)  # type: ignore[no-any-return]

    def complete(self, array: Any) -> None:
        """Freeze chunks of an array that has all of its elements, if it is compressed."""
        if array._store.now.frozen is not None:
            _later.freeze_at_end(array)

    def store(self, array: Any) -> Any:
        """Return the store of an array."""
        return array._store


def elements_of(source: Any) -> list[Any]:
    """Return, as JSON values, the identity, elements and order of axes of an array or view."""
    return [source._identity.hex(), *source._extract]


def repack(
    array: Copied,
    path: Any,
    *,
    checksum: bool | None = None,
    sparse: bool | None = None,
    compression: Any = NOT_GIVEN,
    progress: Reported = True,
) -> Any:
    """Write the elements into a fresh array in files; see `ExtArray.repack`."""
    if path is None:
        raise ArgumentTypeError("repack needs a path; copy() makes an array in memory")
    return array.copy(
        path, checksum=checksum, sparse=sparse, compression=compression, progress=progress
    )


def reduced(array: Copied) -> tuple[Any, ...]:
    """Return the pickle of an array: a path, or the elements."""
    array._check()
    files: Reader | None = array._store.files
    now = array._store.now
    if files is not None:
        return files.reduced(array._reopen)
    return array._restore, (now.header, _attrs_of_copy(array), array.read(), now.growth)


def _attrs_of_copy(array: Copied) -> str:
    """Return the attributes, adapted to an array that never moved at the start."""
    with array._writers.steady:
        return attrs_of_whole(array._store.now.attrs, array.dims, array.origin)


def reopened(
    kind: Any,
    path: Any,
    uuid: bytes,
    engine: str,
    durability: str | None,
    names: tuple[str, str] | None,
    verify: str | None,
    sequence: float,
    beside: Callable[..., Any],
) -> Any:
    """Open a pickled array in files; for writing, by the policy `beside`, if a durability is given.

    If its files can only be read, open it for reading.  An array pickled while it was being made
    has other `names` until it is whole.  Verify chunks as the pickled array did; None, in older
    pickles: as ``config.verify`` says.  The array has at least the bounds of commit `sequence`.
    """
    # A path elsewhere is pickled as it is.
    place, array = (_later.Path(path) if isinstance(path, str) else path), None
    if names is not None:
        with suppress(MissingError):
            making = beside(told=True, names=names)
            return kind._open(place, "r+", 0, "auto", durability, verify, writers=making)
    if durability is not None:
        try:
            array = kind._open(
                place, "r+", 0, "auto", durability, verify, writers=beside(told=True)
            )
        except StorageError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
    if array is None:
        array = kind._open(place, "r", 0, engine, verify=verify)
    if array._store.now.header.uuid != uuid:
        array.close()
        raise MissingError(
            errno.ENOENT,
            "the pickled array no longer exists: another array has replaced it; pickle that one",
            str(path),
        )
    with OnError(array.close):
        array._store.wait_for(sequence, array.refresh)
    return array


def restored(kind: Any, header: Header, attrs: str, elements: NDArray[Any], growth: int) -> Any:
    """Make a pickled array in memory: one segment, no history."""
    header = header.renewed()
    array = kind._create(None, elements.shape, header, attrs, growth=growth)
    array[...] = elements
    return array


def token(array: Copied) -> tuple[Any, ...]:
    """Return a name for dask's graphs that changes whenever the elements may have changed."""
    array._check()
    files: Reader | None = array._store.files
    if files is not None and files.now.mode == "r":
        return ("extarray", files.now.header.uuid.hex(), *files.generation)
    changes = array._changes
    name = ("extarray", array._handle, _later.uuid4().hex if changes is None else changes)
    if files is not None and (files.now.handed_out or files.now.elements_only):
        return (*name, *files.generation)  # others may have written, too
    return name


# -- another dtype, without a copy ---------------------------------------------------------------


def astype(
    source: Source, dtype: DTypeLike, order: Any, casting: Any, copy: bool | None
) -> AsType | NDArray[Any]:
    """Return the elements in another dtype: read late, unless an argument concerns memory."""
    late = AsType(source, dtype, casting)
    if order is None and copy is None:
        return late
    check_result(
        late.nbytes, "the result of astype", "astype without 'order' and 'copy', which is lazy"
    )
    return np.asarray(late, order=order)


def _is_box(key: Any, shape: tuple[int, ...]) -> TypeGuard[Box]:
    """Tell whether a key is a box of elements, as streaming functions ask for."""
    return (
        isinstance(key, tuple)
        and len(key) == len(shape)
        and all(
            isinstance(part, slice)
            and type(part.start) is type(part.stop) is int
            and part.step is None
            and 0 <= part.start <= part.stop <= n
            for part, n in zip(key, shape, strict=True)
        )
    )


class Late(NumpyMixin):
    """Elements of an array that are read late: the base of `AsType` and `LazyView`."""

    __slots__ = ()

    @property
    def itemsize(self) -> int:
        """Bytes of an element as it is read."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the elements as they are read, each as often as it occurs."""
        return self.size * self.itemsize

    def astype(
        self,
        dtype: DTypeLike,
        order: Literal["C", "F", "A", "K"] | None = None,
        casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "unsafe",
        subok: bool = True,
        copy: bool | None = None,
    ) -> AsType | NDArray[Any]:
        """Return the elements, as they are read here, in another dtype: as `ExtArray.astype`.

        Parameters
        ----------
        dtype, order, casting, subok, copy

        Returns
        -------
        AsType or ndarray

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([1, 2, 3]).lazy[1:].astype("f4")[0]
        np.float32(2.0)
        """
        self._check()
        return astype(self, dtype, order, casting, copy)

    def _check(self, what: str | None = None) -> None:
        """Raise if nothing can be read, or if `what` would change what is read-only."""

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        elements: Any = self
        return (elements[i] for i in range(self.shape[0]))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.write(key, value)


def _in_memory(operate: Callable[..., Any]) -> Callable[..., Any]:
    """Make an in-place operator on the elements as they are read; it returns an ndarray."""

    def method(self: AsType, other: Any) -> Any:
        return operate(self.copy(), other)

    return method


class AsType(Late):
    """An array that is read in another dtype; it has no elements of its own.

    Brackets, NumPy's functions and operators read and cast elements when they need them, so changes
    of the array show.  It cannot be written to.  ``x += 1`` makes `x` a NumPy array.

    Parameters
    ----------
    source : Source
        The array.
    dtype : dtype_like
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}

    Attributes
    ----------
    dtype : dtype

    Raises
    ------
    CastingError
        A TypeError: the casting rule forbids it.

    Examples
    --------
    >>> import extarray as xa
    >>> late = xa.from_array([[1, 2], [3, 4]]).astype("f4")
    >>> late[0]
    array([1., 2.], dtype=float32)
    >>> late.sum(), (late + 1).dtype
    (np.float32(10.0), dtype('float32'))
    """

    __slots__ = ("_dtype", "_source")

    def __init__(self, source: Source, dtype: DTypeLike, casting: Any = "unsafe") -> None:
        # NumPy finds the length of texts, or the unit of dates, where none is given.
        to = np.empty(0, source.dtype).astype(dtype).dtype
        if not np.can_cast(source.dtype, to, casting):
            raise CastingError(
                f"Cannot cast array data from {source.dtype!r} to {to!r} according to the rule "
                f"{casting!r}"
            )
        self._source = source
        self._dtype = to

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements as they are read."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the array."""
        return self._source.shape

    @property
    def chunks(self) -> tuple[int, ...]:
        """Extents of a chunk."""
        return self._source.chunks

    @property
    def _identity(self) -> bytes:
        return self._source._identity

    @property
    def _lead(self) -> tuple[int, ...]:
        return self._source._lead

    @property
    def _lines(self) -> tuple[Line, ...] | None:
        return self._source._lines

    @property
    def _axis_names(self) -> tuple[str, ...] | None:
        return self._source._axis_names

    def _held(self) -> AsType:
        held = self._source._held()
        return self if held is self._source else AsType(held, self._dtype)

    @property
    def _leaves_holes(self) -> bool:
        return leaves_holes(self._source)

    @property
    def _comes_late(self) -> bool:
        return self._source._comes_late

    def _ahead(self, boxes: Sequence[Box]) -> None:
        self._source._ahead(boxes)

    def _verified(self) -> AsType:
        return AsType(self._source._verified(), self._dtype)

    def _released(self) -> AsType:
        released = self._source._released()
        return self if released is self._source else AsType(released, self._dtype)

    def _peek(self, box: Box, writable: bool = False) -> None:
        return None

    def read(self, selection: Any = ...) -> NDArray[Any]:
        """Read a selection, and cast it.

        Parameters
        ----------
        selection : index expression

        Returns
        -------
        ndarray
        """
        source: Any = self._source._held()
        whole = tuple(slice(0, n) for n in source.shape) if selection is ... else selection
        if not _is_box(whole, source.shape):
            found: NDArray[Any] = source._fetch(selection)
            return found.astype(self._dtype, copy=False)
        result = np.empty([part.stop - part.start for part in whole], self._dtype)

        def fill(_: int, box: Box) -> None:
            part = tuple(
                slice(first.start + part.start, first.start + part.stop)
                for first, part in zip(whole, box, strict=True)
            )
            # An assignment would store a 0-d array in an object as it is.
            place: tuple[Any, ...] = (*box, ...)
            np.copyto(result[place], load(source, part), casting="unsafe")

        widest = max(self.itemsize, source.dtype.itemsize)
        lead = tuple(
            (part.start + b) % c
            for part, b, c in zip(whole, source._lead, source.chunks, strict=True)
        )
        boxes = tiles(result.shape, Grain(source.chunks, lead), widest, limit=box_bytes())
        run(fill, boxes, result.size * widest)
        return result

    def write(self, selection: Any, values: Any) -> NoReturn:
        """Refuse to write: raise `ReadOnlyError`."""
        raise ReadOnlyError(
            "the lazy result of astype is read-only; write to the array itself, or use "
            "astype(..., copy=True), which gives a NumPy array"
        )

    def copy(self, order: Any = "C") -> Any:
        """Copy all elements into a NumPy array, as ``np.copy``."""
        return self if builds_graph() else self.astype(self._dtype, order)

    def __getitem__(self, key: Any) -> Any:
        if key is ... or isinstance(key, (str, list)):  # a list may name fields, as a text does
            return self.read()[key]
        if self.shape and _is_box(key, self.shape):
            return self.read(key)
        source: Any = self._source
        return source[key].astype(self._dtype)

    def __repr__(self) -> str:
        return f"<extarray.AsType: {self._dtype} of {self._source!r}>"

    __iadd__ = _in_memory(operator.iadd)
    __isub__ = _in_memory(operator.isub)
    __imul__ = _in_memory(operator.imul)
    __imatmul__ = _in_memory(operator.imatmul)
    __itruediv__ = _in_memory(operator.itruediv)
    __ifloordiv__ = _in_memory(operator.ifloordiv)
    __imod__ = _in_memory(operator.imod)
    __ipow__ = _in_memory(operator.ipow)
    __ilshift__ = _in_memory(operator.ilshift)
    __irshift__ = _in_memory(operator.irshift)
    __iand__ = _in_memory(operator.iand)
    __ior__ = _in_memory(operator.ior)
    __ixor__ = _in_memory(operator.ixor)
