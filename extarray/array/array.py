"""The array: everything that users can do with it, and the functions that do it.

Each public method has its docstring here, and one line that calls the function of this room, or of
one below, that does the work.  `NumpyMixin` adds the methods of an ndarray, `ArrayCore` brackets
and transfers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from extarray._core._array import ArrayCore
from extarray._core._state import verify_reads
from extarray.array import facts, life
from extarray.array.writers import Alone, Elements
from extarray.common.arguments import NOT_GIVEN, as_axis, check_progress
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.common.lazy import LazyImports, LazyModule
from extarray.common.on_error import OnError
from extarray.format.attrs import Attributes, decode_attrs
from extarray.numpy_api import dlpack
from extarray.numpy_api.methods import NumpyMixin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from extarray._core._axial import Axial
    from extarray.array import copies, growth, h5py_compat
    from extarray.array.facts import Writers
    from extarray.array.resizing import Side
    from extarray.codecs.codec import Codec
    from extarray.common.arguments import Reported
    from extarray.common.choices import Order
    from extarray.common.formatting import Info
    from extarray.format import labels
    from extarray.format.header import Header
    from extarray.grid.policy import GrowthPolicy
    from extarray.grid.tiles import Box
    from extarray.selection import access_log, execution, selections
    from extarray.selection.fields import Fields
    from extarray.selection.query import Query
    from extarray.selection.selections import Accessor, Lazy
    from extarray.storage.file_store import FileStore
    from extarray.storage.memory import MemoryStore
    from extarray.streaming import dask
    from extarray.streaming.blocks import Line
else:
    access_log = LazyModule("extarray.selection.access_log")
    copies = LazyModule("extarray.array.copies")
    dask = LazyModule("extarray.streaming.dask")
    execution = LazyModule("extarray.selection.execution")
    growth = LazyModule("extarray.array.growth")
    h5py_compat = LazyModule("extarray.array.h5py_compat")
    labels = LazyModule("extarray.format.labels")
    selections = LazyModule("extarray.selection.selections")

__all__ = ["ExtArray"]

_later = LazyImports(
    {
        "extarray.array.compression": "repack set_compression",
        "extarray.array.freezing": "freeze thaw",
        "extarray.array.lazy": "everything",
        "extarray.array.widening": "widened_for",
        "extarray.grid.policy": "decode_policy",
    }
)


class ExtArray(ArrayCore, NumpyMixin):
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
    Indexing returns copies.  Threads may share an array for all of its operations; a call sees the
    bounds of the moment at which it begins.  After a fork the child has the array open for reading
    only.

    An array in files is pickled as its absolute path.  If it is open for writing, the unpickled
    array can be written to, too, as with ``open(..., share="elements")``; otherwise it is open for
    reading.  An array in memory is pickled with its elements, and unpickled like a `copy`.
    ``copy.copy`` and ``copy.deepcopy`` are `copy`, as for NumPy's arrays.

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

    __slots__ = ("__weakref__", "_filling", "_handle", "_store", "_writers")

    _store: FileStore | MemoryStore
    _writers: Writers
    _handle: str  # unique: another array on the same files has another one
    _filling: bool  # an append is running, which may run any code

    # -- making --------------------------------------------------------------------------------

    def __init__(self) -> None:
        raise ArgumentTypeError(
            "cannot instantiate ExtArray directly; use extarray.create, open, zeros, ones, full, "
            "empty or from_array"
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
        growth: int = 0,  # `EXACT`, of a module that is imported later
        hidden: bool = False,
        like: tuple[str, str] | None = None,
    ) -> Self:
        """Make a fresh array, in the files of `path` or (None) in memory.

        Its files have the permissions of the files `like`, or of those that they replace.  If
        `hidden`, the files get their names when `life.publish` is called.
        """
        store, axial = life.fresh_store(
            path, shape, header, attrs, engine, overwrite, durability, growth, hidden, like
        )
        return cls._from_store(store, axial, Alone())

    @classmethod
    def _open(
        cls,
        path: Path,
        mode: str,
        timeout: float | None,
        engine: str,
        durability: str = "flush",
        verify: str | None = None,
        recover: bool | None = None,
        writers: Writers | None = None,
    ) -> Self:
        """Open a pair of files, shared by a policy of writers; None: this is the sole writer."""
        writers = writers or Alone()
        store, axial = writers.open(path, mode, timeout, engine, durability, verify, recover)
        self = cls._from_store(store, axial, writers)
        if store.unvouched is not None:
            with OnError(self.close):  # where warnings are errors
                facts.warn_if_unvouched(self)
        return self

    @classmethod
    def _from_store(cls, store: FileStore | MemoryStore, axial: Axial, writers: Writers) -> Self:
        self = cls.__new__(cls)
        life.start(self, store, axial, writers)
        return self

    # -- life ----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Bring everything to the disk: all calls that returned before survive a power cut.

        Raises
        ------
        ClosedError, StorageError
        ArgumentError
            Inside a block of `extarray.commit`.

        Notes
        -----
        If the array keeps checksums of chunks, this brings them up to date, and reads once all
        chunks written since the last time.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 2)).flush()
        """
        self._writers.flush(self)

    @property
    def compression(self) -> Codec | None:
        """Codec of the chunks that are frozen from now on; None: they stay as they are.

        It can be set, to whatever `create` takes as ``compression``.  Chunks that are frozen
        already stay so, and are read and thawed whatever the codec is now; `thaw` and `freeze`
        bring them to it.  The time to freeze chunks stays the same (`create`, ``freeze``).

        Raises
        ------
        ArgumentError
            A ValueError, on setting: there is no such codec; the array is in memory; or it was
            created without compression, and has views that may be written to.
        ChecksumError
            On setting, where the array was created without compression: a chunk is damaged.
        ReadOnlyError, ClosedError, StorageError
            On setting.  Nothing has changed.

        Notes
        -----
        Setting makes a fresh metadata file, as `add_axis` does.

        An array that was created without compression gets new files: all of its chunks are
        compressed at once, and from then on as for ``freeze="behind"``.  Its bounds, indices and
        history stay.  Readers that have the old files open keep them, and `refresh` tells them;
        other threads must not write meanwhile.

        Examples
        --------
        >>> import numpy as np
        >>> import extarray as xa
        >>> with xa.create("recoded", (0, 4), chunks=(2, 4), compression="zlib") as a:
        ...     a.append(np.ones((4, 4)))
        ...     a.compression = "zlib:9:shuffle"
        ...     a.compression
        Codec('zlib', level=9, filter='shuffle')
        """
        return facts.compression(self)

    @compression.setter
    def compression(self, compression: Any) -> None:
        self._check("change the compression of")
        _later.set_compression(self, compression)

    def freeze(self) -> int:
        """Compress all chunks that have elements and are not compressed yet.

        Returns
        -------
        int
            Number of chunks that were frozen.

        Raises
        ------
        ArgumentError
            A ValueError: `compression` is None, writers share the array (``share=True``), or it is
            inside a block of `extarray.commit`.
        ReadOnlyError, ClosedError, StorageError

        Examples
        --------
        >>> import numpy as np
        >>> import extarray as xa
        >>> with xa.create("tides", (0, 4), chunks=(2, 4), compression="zlib") as a:
        ...     a.append(np.ones((5, 4)))
        ...     a.freeze()
        3
        """
        self._check("freeze chunks of")
        with self._writers.committing:  # so that a block of another thread has ended
            life.check_not_held(self, "freeze chunks of")
            return _later.freeze(facts.freezable(self))  # type: ignore[no-any-return]

    def thaw(self) -> None:
        """Store all chunks uncompressed again, at the places that their addresses give.

        Raises
        ------
        ArgumentError
            A ValueError: the array was created without `compression`.
        ReadOnlyError, ClosedError, StorageError
            Also where the disk has no room for all of them; some may be thawed then.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.create("thawed", 6, chunks=2, compression="zlib", freeze="never") as a:
        ...     a[...] = 1
        ...     a.freeze()
        ...     a.thaw()
        ...     a.freeze()
        3
        3
        """
        self._check("thaw chunks of")
        _later.thaw(facts.freezable(self))

    def close(self) -> None:
        """Let go of the files and of the writer's lock.  Views of chunks stay valid.

        Raises
        ------
        ArgumentError
            Inside a block of `extarray.commit`.
        TruncatedError
            A ValueError: another program has truncated the writer's file.  The array is closed.

        Notes
        -----
        Closing twice is allowed.  Every other process sees written data at once; `flush` first if
        they have to survive a power cut.  An array with checksums is flushed if anything was
        written; writes through views from then on make checksums wrong.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2))
        >>> a.close()
        >>> a.closed
        True
        """
        self._writers.close(self)

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

    # -- facts ---------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """Path of the pair of files, without suffix; None for a memory-resident array.

        That of an array on a server or in a bucket is no `pathlib.Path`, but has a name and a
        parent like one; as a text it is the URL, without anything secret.
        """
        return self._store.now.path

    @property
    def mode(self) -> str:
        """The mode: "r" or "r+"."""
        return self._store.now.mode

    @property
    def durability(self) -> str | None:
        """The way of data to the disk: "flush", "steady" or "commit", see `create`; None in memory.

        Examples
        --------
        >>> import tempfile, extarray as xa
        >>> with xa.create(f"{tempfile.mkdtemp()}/scene", (2, 3), durability="commit") as a:
        ...     a.durability
        'commit'
        """
        return self._store.durability

    @property
    def fill_value(self) -> Any:
        """Value of elements that were never written: a NumPy scalar.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.ones((2, 2)).fill_value
        np.float64(1.0)
        """
        return facts.fill_value(self)

    @property
    def fillvalue(self) -> Any:
        """The same as `fill_value`: h5py's name for it.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.ones((2, 2)).fillvalue
        np.float64(1.0)
        """
        return facts.fill_value(self)

    @property
    def nchunks(self) -> int:
        """Number of chunks that hold elements, as zarr counts them.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((4, 3), chunks=(2, 2))
        >>> a.nchunks
        4
        >>> a.shrink(0, 3, side="start")
        >>> a.nchunks
        2
        """
        return h5py_compat.count_chunks(self)

    @property
    def attrs(self) -> Attributes:
        """Attributes: a mutable mapping of names to small values, kept with the array.

        Values are None, numbers, texts, bytes, dates and times, NumPy's scalars and arrays, and
        lists, tuples and dicts of these; they come back with their types; see `Attributes`.

        Attributes that place elements on the earth or in the sky, such as a ``transform`` or the
        world coordinate system of FITS, refer to present indices: after growth or shrinking at the
        start, they give the place of the new index 0.  Set them with the same meaning.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2))
        >>> a.attrs["unit"] = "mm"
        >>> a.attrs["unit"]
        'mm'
        >>> a.attrs["transform"] = [10, 0, 500, 0, -10, 900]
        >>> a.extend(axis=1, by=20, side="start")
        >>> a.attrs["transform"]
        [10, 0, 300, 0, -10, 900]
        """
        return Attributes(self._load_attrs, self._save_attrs)

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the axes, or None where they have none.

        Assign a sequence of texts, one for each axis, or None.  The names are kept as the attribute
        ``"dims"``.  They may stand for the axes wherever an axis is an argument, but not in
        indices.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, (4, 3), dims=("y", "x"))
        >>> a.dims
        ('y', 'x')
        >>> a.dims = ["line", "sample"]
        >>> a.attrs["dims"]
        ['line', 'sample']
        >>> a.extend("line", 2)
        >>> a.sum(axis="sample").shape
        (6,)
        """
        self._check()
        return labels.known_dims(decode_attrs(self._store.now.attrs).get("dims"), self.ndim)

    @dims.setter
    def dims(self, dims: Sequence[str] | None) -> None:
        facts.set_dims(self, dims)

    def info(self) -> Info:
        """Return facts of the array: layout, growth, and the space it takes.

        Returns
        -------
        Info
            A dict; ``print`` shows it as a table, with long attributes cut.  ``offset`` is the
            number of elements that the grid has before the bounds, ``records`` the number of
            records of each axis, ``utilisation`` the share of allocated elements inside the bounds.
            An array on a server or in a bucket has ``requests`` and ``fetched_bytes``, those made
            and received so far.  A compressed one has ``compression``, ``stored_bytes``, those that
            its chunks take on the disk, and ``ratio``, the bytes of its elements divided by those;
            one that `pack` has written, ``chunk_order``; one that grows, ``freeze`` and
            ``frozen_chunks``, their number.  Its ``file_bytes``, the length of ``.xta``, has holes
            in it.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((4, 3), chunks=(2, 2))
        >>> a.extend(1, 3)
        >>> a.info()["segments"], a.info()["records"]
        (2, (1, 1))
        """
        return facts.info(self)

    @property
    def maxshape(self) -> tuple[None, ...]:
        """None for each axis: h5py's mark of an axis that grows without limit.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 3)).maxshape
        (None, None)
        """
        return (None,) * self.ndim

    def __repr__(self) -> str:
        return facts.text(self)

    def _repr_html_(self) -> str:
        """Show the array in a notebook: a table, its grid of chunks, and how it grew."""
        return facts.html(self)

    @property
    def plot(self) -> facts.Pictures:
        """Pictures by matplotlib: of the elements, and of how they are stored.

        ``a.plot()`` draws the elements; the methods are `growth`, `slice`, `layout`, `zones` and
        `plan`.  See `extarray.plot.Plots`.  They need the extra ``[plot]``.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((4, 3), chunks=(2, 2))
        >>> figure = a.plot()
        >>> figure = a.plot.growth(names=("y", "x"))
        """
        return facts.pictures(self)

    # -- indexing, beside the brackets ---------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        return life.rows(self)

    @property
    def oindex(self) -> Accessor:
        """Orthogonal indexing: arrays and masks act on their axes one by one.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        >>> a.oindex[[0, 2], [True, False, True]]
        array([[0, 2],
               [6, 8]])
        """
        return selections.oindex(self)

    @property
    def vindex(self) -> Accessor:
        """Pointwise indexing: an index for each axis, broadcast together, or a mask.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        >>> a.vindex[[0, 2], [1, 2]]
        array([1, 8])
        """
        return selections.vindex(self)

    @property
    def blocks(self) -> Accessor:
        """Indexing by chunk: integers and slices that count chunks, not elements.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, shape=(4, 4), dtype="i4", chunks=(2, 3))
        >>> a.blocks[1, 0] = 7
        >>> a[...]
        array([[0, 0, 0, 0],
               [0, 0, 0, 0],
               [7, 7, 7, 0],
               [7, 7, 7, 0]], dtype=int32)
        """
        return selections.blocks(self)

    def get_basic_selection(
        self, selection: Any = ..., *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read by integers and slices.

        Parameters
        ----------
        selection : index expression
            Integers, slices, Ellipsis, newaxis.
        out : ndarray, optional
            Array to read into.
        fields : str or list of str, optional
            Fields of each record to read.

        Returns
        -------
        ndarray or scalar

        Raises
        ------
        BoundsError, SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).get_basic_selection((slice(None), 1))
        array([2, 5])
        """
        return selections.get_basic_selection(self, selection, out=out, fields=fields)

    def set_basic_selection(self, selection: Any, value: Any, *, fields: Fields = None) -> None:
        """Write by integers and slices.

        Parameters
        ----------
        selection : index expression
            As for `get_basic_selection`.
        value : array_like
            Broadcast to the selection.
        fields : str or list of str, optional
            Fields of each record to write.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.set_basic_selection((0, slice(1, None)), 5)
        >>> a[0]
        array([0, 5, 5], dtype=int32)
        """
        selections.set_basic_selection(self, selection, value, fields=fields)

    def get_orthogonal_selection(
        self, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read by an index for each axis that acts on this axis alone: ``oindex``.

        Parameters
        ----------
        selection : index expression
            Integers, slices, Ellipsis; arrays of integers, and masks, of one axis.
        out : ndarray, optional
            Array to read into.
        fields : str or list of str, optional
            Fields of each record to read.

        Returns
        -------
        ndarray or scalar

        Raises
        ------
        BoundsError, SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).get_orthogonal_selection(([1, 0], [0, 2]))
        array([[4, 6],
               [1, 3]])
        """
        return selections.get_orthogonal_selection(self, selection, out=out, fields=fields)

    def set_orthogonal_selection(
        self, selection: Any, value: Any, *, fields: Fields = None
    ) -> None:
        """Write by an index for each axis that acts on this axis alone: ``oindex``.

        Parameters
        ----------
        selection : index expression
            As for `get_orthogonal_selection`.
        value : array_like
            Broadcast to the selection.
        fields : str or list of str, optional
            Fields of each record to write.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.set_orthogonal_selection(([0, 1], [0, 2]), [[1, 2], [3, 4]])
        >>> a[...]
        array([[1, 0, 2],
               [3, 0, 4]], dtype=int32)
        """
        selections.set_orthogonal_selection(self, selection, value, fields=fields)

    def get_coordinate_selection(
        self, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read points by their coordinates: ``vindex``.

        Parameters
        ----------
        selection : tuple of array_like of int
            An index for each axis, broadcast together.
        out : ndarray, optional
            Array to read into.
        fields : str or list of str, optional
            Fields of each record to read.

        Returns
        -------
        ndarray or scalar

        Raises
        ------
        BoundsError, SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).get_coordinate_selection(([1, 0], [0, 2]))
        array([4, 3])
        """
        return selections.get_coordinate_selection(self, selection, out=out, fields=fields)

    def set_coordinate_selection(
        self, selection: Any, value: Any, *, fields: Fields = None
    ) -> None:
        """Write points by their coordinates: ``vindex``.

        Parameters
        ----------
        selection : tuple of array_like of int
            As for `get_coordinate_selection`.
        value : array_like
            Broadcast to the points; if a point occurs twice, its last value stays.
        fields : str or list of str, optional
            Fields of each record to write.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.set_coordinate_selection(([1, 0], [0, 2]), [7, 8])
        >>> a[...]
        array([[0, 0, 8],
               [7, 0, 0]], dtype=int32)
        """
        selections.set_coordinate_selection(self, selection, value, fields=fields)

    def get_mask_selection(
        self, mask: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read the elements where a mask is true: ``vindex``.

        Parameters
        ----------
        mask : array_like of bool
            With the array's shape; may be an extarray.
        out : ndarray, optional
            Array to read into.
        fields : str or list of str, optional
            Fields of each record to read.

        Returns
        -------
        ndarray
            1-d, in C order.

        Raises
        ------
        SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> a.get_mask_selection([[True, False, False], [False, True, True]])
        array([1, 5, 6])
        """
        return selections.get_mask_selection(self, mask, out=out, fields=fields)

    def set_mask_selection(self, mask: Any, value: Any, *, fields: Fields = None) -> None:
        """Write the elements where a mask is true: ``vindex``.

        Parameters
        ----------
        mask : array_like of bool
            With the array's shape; may be an extarray.
        value : array_like
            One value, or as many as there are true elements.
        fields : str or list of str, optional
            Fields of each record to write.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.set_mask_selection([[True, False, False], [False, True, True]], [1, 2, 3])
        >>> a[...]
        array([[1, 0, 0],
               [0, 2, 3]], dtype=int32)
        """
        selections.set_mask_selection(self, mask, value, fields=fields)

    def get_block_selection(
        self, selection: Any, *, out: NDArray[Any] | None = None, fields: Fields = None
    ) -> Any:
        """Read whole chunks by their indices: ``blocks``.

        Parameters
        ----------
        selection : index expression
            Integers, slices of step 1, Ellipsis, in chunks.  An integer keeps its axis.
        out : ndarray, optional
            Array to read into.
        fields : str or list of str, optional
            Fields of each record to read.

        Returns
        -------
        ndarray
            Clipped to the bounds.

        Raises
        ------
        BoundsError, SelectionError, FieldError

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]], chunks=(1, 2))
        >>> a.get_block_selection((slice(None), 1))
        array([[3],
               [6]])
        """
        return selections.get_block_selection(self, selection, out=out, fields=fields)

    def set_block_selection(self, selection: Any, value: Any, *, fields: Fields = None) -> None:
        """Write whole chunks by their indices: ``blocks``.

        Parameters
        ----------
        selection : index expression
            As for `get_block_selection`.
        value : array_like
            Broadcast to the selection.
        fields : str or list of str, optional
            Fields of each record to write.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, shape=(2, 3), dtype="i4", chunks=(1, 2))
        >>> a.set_block_selection((0, 0), 9)
        >>> a[0]
        array([9, 9, 0], dtype=int32)
        """
        selections.set_block_selection(self, selection, value, fields=fields)

    def read_direct(self, dest: NDArray[Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """Read into a part of a NumPy array: ``dest[dest_sel] = a[source_sel]``.

        Parameters
        ----------
        dest : ndarray
            Array to write to, of any dtype and strides.
        source_sel : index expression, optional
            Selection to read; None: everything.
        dest_sel : index expression, optional
            Selection of `dest`, broadcast as in an assignment; None: everything.

        Raises
        ------
        ArgumentTypeError
            A TypeError: `dest` is no NumPy array.
        BoundsError, SelectionError, ShapeError, ClosedError

        Notes
        -----
        No copy is made in between if `dest_sel` is basic, shapes agree, and the cast is of the
        ``same_kind``.

        Examples
        --------
        >>> import extarray as xa
        >>> import numpy as np
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> dest = np.zeros((2, 4))
        >>> a.read_direct(dest, np.s_[:, 1:], np.s_[:, :2])
        >>> dest
        array([[2., 3., 0., 0.],
               [5., 6., 0., 0.]])
        """
        h5py_compat.read_direct(self, dest, source_sel, dest_sel)

    def write_direct(self, source: ArrayLike, source_sel: Any = None, dest_sel: Any = None) -> None:
        """Write a part of an array: ``a[dest_sel] = source[source_sel]``.

        Parameters
        ----------
        source : array_like
        source_sel : index expression, optional
            Selection of `source`, broadcast as in an assignment; None: everything.
        dest_sel : index expression, optional
            Selection to write to; None: everything.

        Raises
        ------
        BoundsError, SelectionError, ShapeError, ReadOnlyError, ClosedError, StorageError
            As for `write`.

        Examples
        --------
        >>> import extarray as xa
        >>> import numpy as np
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.write_direct(np.arange(10), np.s_[4:6], np.s_[:, 0])
        >>> a[...]
        array([[4, 0, 0],
               [5, 0, 0]], dtype=int32)
        """
        h5py_compat.write_direct(self, source, source_sel, dest_sel)

    def iter_chunks(
        self, sel: Any = None, order: Literal["address", "grid"] = "address"
    ) -> Iterator[tuple[slice, ...]]:
        """Iterate over the chunks that meet a selection, as h5py does: yield their slices.

        Parameters
        ----------
        sel : int, slice, Ellipsis, or tuple of them, optional
            A box of elements: slices have a step of 1.  None: all of them.
        order : {"address", "grid"}
            By address (place in the file), or by index in row-major order.

        Yields
        ------
        selection : tuple of slice
            The part of the selection that lies in a chunk; a slice for each axis.

        Raises
        ------
        BoundsError, SelectionError
            IndexErrors: the selection is impossible, or no box.
        ShapeError
            A ValueError: the array has gained an axis meanwhile.
        ClosedError

        See Also
        --------
        chunk_views : the chunks themselves, without a copy

        Notes
        -----
        The grid is that at the beginning of the iteration.  Meanwhile the array must not grow or
        shrink at a start, which shifts the indices.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2), chunks=(2, 1))
        >>> a.extend(0, 2)
        >>> for part in a.iter_chunks():
        ...     a[part] += part[0].start
        >>> for part in a.iter_chunks((slice(1, 4), 0)):
        ...     a[part] = 5
        >>> a[...]
        array([[0., 0.],
               [5., 0.],
               [5., 2.],
               [5., 2.]])
        """
        return h5py_compat.iter_chunks(self, sel, order)

    def chunk_views(
        self, order: Literal["address", "grid"] = "address"
    ) -> Iterator[tuple[tuple[int, ...], NDArray[Any]]]:
        """Iterate over the chunks that hold elements: views of them, without a copy.

        Parameters
        ----------
        order : {"address", "grid"}
            By address (place in the file), or by index in row-major order.

        Yields
        ------
        index : tuple of int
            A chunk index.
        view : ndarray
            The view that `chunk` returns for it.

        Raises
        ------
        ShapeError
            A ValueError: the array has gained an axis meanwhile.
        ClosedError

        Notes
        -----
        As for `iter_chunks`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2), chunks=(2, 1))
        >>> a.extend(0, 2)
        >>> for index, view in a.chunk_views():
        ...     view[:] = index[0]
        >>> a[:, 1]
        array([0., 0., 1., 1.])
        """
        return h5py_compat.chunk_views(self, order)

    def record_access(self) -> AbstractContextManager[access_log.AccessLog]:
        """Sample the reads of the array, for `extarray.advise_chunks`.

        Yields
        ------
        AccessLog
            A log of the reads of all threads in the block, by brackets, `read` and views.

        Notes
        -----
        At most 4096 selections are kept, chosen at random from all reads.  An operation that goes
        through the whole array adds the parts that it reads.  Outside such blocks nothing is
        logged, and reading costs nothing more.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((365, 64, 64), "u2", chunks=(1, 64, 64))
        >>> with a.record_access() as log:
        ...     for i in range(0, 64, 8):
        ...         series = a[:, i, i]
        >>> xa.advise_chunks(a.shape, a.dtype, access=log, block_bytes="64 KiB")
        (365, 1, 4)
        """
        return access_log.record_access(self)

    # -- growth --------------------------------------------------------------------------------

    def extend(self, axis: SupportsIndex | str, by: SupportsIndex, side: Side = "end") -> None:
        """Grow an axis; the new elements have the fill value.

        Parameters
        ----------
        axis : int or str
            In [-ndim, ndim), or its name in `dims`.
        by : int
            Elements, at least 0.
        side : {"end", "start"}
            Place of the new elements: after the last index, or before index 0, which shifts the
            indices of all others.

        Raises
        ------
        AxisError, ArgumentError, ArgumentTypeError, LimitError
            No such axis, negative, no int, beyond 2**63.
        ReadOnlyError, ClosedError
        StorageError, ReserveError
            No room (an OSError; a MemoryError in memory).  The array is as before.

        Notes
        -----
        The cost does not depend on the size of the array: nothing moves, at either side.  Growth
        inside the last (or first) chunk of the axis only changes the bounds.  Growth into a part
        cut off before restores the fill value there.  This is one commit; readers see it at their
        next `refresh`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3))
        >>> a.extend(axis=1, by=4)
        >>> a.shape
        (2, 7)
        >>> a[0] = 1
        >>> a.extend(0, 1, side="start")
        >>> a[:, 0], a.origin
        (array([0., 1., 0.]), (1, 0))
        """
        growth.extend(self, axis, by, side)

    def append(
        self,
        data: ArrayLike,
        axis: SupportsIndex | str = 0,
        side: Side = "end",
        *,
        widen: bool = False,
    ) -> None:
        """Grow an axis by data.

        Parameters
        ----------
        data : array_like
            With as many axes as the array, and its extents on all but `axis`; cast by the rule
            ``same_kind``; masked elements get the fill value.  Objects with ``shape``, ``dtype``
            and slicing (h5py, zarr, dask, ...) are read in blocks of at most ``config.max_memory``
            bytes.
        axis : int or str
            In [-ndim, ndim), or its name in `dims`.
        side : {"end", "start"}
            Place of the data: after the last index, or before index 0.
        widen : bool
            Widen an array of texts that meets a longer one; see Notes.

        Raises
        ------
        ShapeError
            A ValueError: the shape of `data` does not fit.
        CastingError
            A TypeError: `data` cannot be cast, or has texts that are too long; or with `widen` the
            chunks would take more than 64 MiB, which is left to `rechunk`.
        ArgumentError
            A ValueError: others share the array, or it is in a block of `commit`, and must be
            widened.
        ReadOnlyError, ClosedError, AxisError, LimitError, StorageError, ReserveError
            As for `extend`.

        Notes
        -----
        The elements are written first, and the bounds committed last: no reader and no crash ever
        sees half an append.

        To widen the array, a fresh pair of files with its elements, history and attributes replaces
        its files in one step; the append follows, as a second one.  Those who have the array open
        for reading keep what they have, and are told by `refresh` that it was replaced, as after
        `rechunk` in place; ``refresh(on_replaced="reopen")`` shows them the wider array.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2], [3, 4]])
        >>> a.append([[5], [6]], axis=1)
        >>> a.append([[7, 8, 9]], side="start")
        >>> a[...]
        array([[7, 8, 9],
               [1, 2, 5],
               [3, 4, 6]])
        >>> labels = xa.from_array(["ab"])
        >>> labels.append(["cdef"], widen=True)
        >>> labels[...]
        array(['ab', 'cdef'], dtype='<U4')
        """
        if widen is not False:
            data = _later.widened_for(self, data, axis, widen)
        self._writers.append(self, data, axis, side)

    def resize(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        axis: SupportsIndex | str | None = None,
    ) -> None:
        """Grow or shrink several axes at their ends as one commit, or one axis.

        Parameters
        ----------
        shape : int or sequence of int
            New extent of each axis.
        axis : int or str, optional
            The only axis to resize, in [-ndim, ndim) or its name; `shape` is its extent, as in
            h5py.

        Raises
        ------
        ShapeError
            A ValueError: wrong number of axes.
        AxisError, ReadOnlyError, ClosedError, LimitError, StorageError, ReserveError
            As for `extend`.

        Notes
        -----
        Axes grow in the order 0 ... k - 1.  Elements cut off are lost, see `shrink`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3))
        >>> a.resize((4, 1))
        >>> a.resize(6, axis=0)
        >>> a.shape
        (6, 1)
        """
        growth.resize(self, shape, axis)

    def shrink(self, axis: SupportsIndex | str, by: SupportsIndex, side: Side = "end") -> None:
        """Cut elements off an axis.

        Parameters
        ----------
        axis : int or str
            In [-ndim, ndim), or its name in `dims`.
        by : int
            Elements, in [0, extent].
        side : {"end", "start"}
            End to cut: the last elements, or the first, which shifts the indices of the others.

        Raises
        ------
        AxisError, ArgumentError, ArgumentTypeError
            No such axis, more elements than the axis has, no int.
        ReadOnlyError, ClosedError, StorageError

        Notes
        -----
        Elements cut off are lost: after a growth their place holds the fill value.  Chunks outside
        the new bounds give their disk space back if the file system can punch holes; the file keeps
        its length, and the chunks keep their addresses.  A reader that has not refreshed finds old
        elements or the fill value there.  (If that is not zero, each of its reads checks whether
        something was cut off meanwhile; views of `chunk` cannot.)

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([1, 2, 3, 4])
        >>> a.shrink(0, 1)
        >>> a.shrink(0, 1, side="start")
        >>> a[...]
        array([2, 3])
        """
        growth.shrink(self, axis, by, side)

    def reserve(self, shape: SupportsIndex | Sequence[SupportsIndex]) -> None:
        """Make room for growth: enlarge the grid to hold a shape, and leave the bounds.

        Parameters
        ----------
        shape : int or sequence of int
            Extent of each axis up to which later growth at the ends adds no segment.  An extent
            below the present one leaves the axis as it is.

        Raises
        ------
        ShapeError
            A ValueError: wrong number of axes.
        ReadOnlyError, ClosedError, LimitError, StorageError, ReserveError
            As for `extend`.

        Notes
        -----
        An array that grows by small steps along several axes in turn has a segment for each step.
        Room for many steps at once saves segments, and takes disk space (in a sparse array only if
        the fill value is not zero).

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2), chunks=(1, 1))
        >>> a.reserve((50, 40))
        >>> for _ in range(30):
        ...     a.extend(0, 1)
        ...     a.extend(1, 1)
        >>> a.shape, a.grid, a.info()["segments"]
        ((32, 32), (50, 40), 2)
        """
        growth.reserve(self, shape)

    def add_axis(
        self, position: SupportsIndex = 0, name: str | None = None, chunk: SupportsIndex = 1
    ) -> None:
        """Add an axis of extent 1, which can grow like any other; nothing moves.

        Parameters
        ----------
        position : int
            Position of the new axis, in [-(ndim + 1), ndim], as for `numpy.expand_dims`.
        name : str, optional
            Name of the new axis, if the axes have names (`dims`); None: the first of ``dim_0``,
            ``dim_1``, ... that no other axis has, counted from its position.
        chunk : int
            Elements of a chunk along the new axis.  More than 1 is possible if at most one chunk is
            allocated and the new axis varies slowly in it.

        Raises
        ------
        AxisError
            No such position.
        ShapeError, ChunksError, ArgumentError, ArgumentTypeError, LimitError
            32 axes already, an impossible `chunk`, another axis's name, no int, 2**63 bytes.
        ReadOnlyError, ClosedError
        StorageError, ReserveError
            No room, a failure of the disk, or a hard link to ``.xmd``, whose name would keep the
            old metadata.  The array is as before.

        Warns
        -----
        LossyWarning
            Axes without names: attributes about the last two of them, such as a ``transform``, can
            no longer locate elements, and are removed.

        Notes
        -----
        One commit, which writes the metadata anew: O(segments), and a wait for the disk (`flush`).
        Readers have the new axis from their next `refresh` on, and all else as before.

        Views (`lazy`, `T`), iterators and `follow` made for fewer axes cannot be used any more, and
        raise `ShapeError`, as do transfers that other threads were about to begin.  Get `axial`
        anew.

        Examples
        --------
        >>> import extarray as xa
        >>> cube = xa.create(None, (2, 3, 4), dims=("z", "y", "x"))
        >>> cube[1, 2, 3] = 5
        >>> cube.add_axis(name="time")
        >>> cube.shape, cube.dims, cube[0, 1, 2, 3]
        ((1, 2, 3, 4), ('time', 'z', 'y', 'x'), np.float64(5.0))
        >>> cube.extend(0, 9)
        >>> cube.extend(0, 1, side="start")
        >>> cube.shape, cube[1, 1, 2, 3]
        ((11, 2, 3, 4), np.float64(5.0))
        """
        growth.add_axis(self, position, name, chunk)

    @property
    def growth(self) -> GrowthPolicy:
        """The growth policy: how much growth allocates ahead.

        Assignment is one commit, and moves nothing.  One of:

        ``"exact"``
            Nothing ahead: growth allocates the chunks that it needs.  The default.
        ``("linear", theta)``
            An axis that needs chunks gains at least `theta` of them.
        ``("exponential", factor)``
            An axis that needs chunks gets at least `factor` times as many, rounded up, or as many
            as it needs.  The factor is above 1, and has at most three decimals.
        ``"doubling"``
            The axes take turns: until there is room, the axis with the fewest chunks (the first of
            equal ones) is doubled, to a power of two.  So the grid stays a cube, up to a factor of
            two.  For arrays that grow about equally along all axes.
        ``"cubical"``
            The other axes follow, in their order, until the grid is a cube again: all axes get as
            many chunks as the bounds need along the longest.  An axis without elements does not
            follow, and rows of chunks that the bounds have left do not count.  For arrays that must
            be cubes at any time: a long and thin one takes the room of a cube of its length.

        Notes
        -----
        Growth allocates ahead at the side that grows; this takes disk space (none in a sparse
        array).  Without enough room growth allocates only what it needs: a policy never makes
        growth fail.  `reserve` allocates exactly its shape.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, (1, 1), chunks=1, growth=("linear", 16))
        >>> for _ in range(30):
        ...     a.extend(0, 1)
        ...     a.extend(1, 1)
        >>> a.shape, a.grid, a.info()["segments"]
        ((31, 31), (33, 33), 4)
        >>> a.growth = "exact"
        """
        return _later.decode_policy(self._store.now.growth).growth  # type: ignore[no-any-return]

    @growth.setter
    def growth(self, growth: GrowthPolicy) -> None:
        self._set_policy(growth)

    # -- views ---------------------------------------------------------------------------------

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
        return selections.Lazy(_later.everything(self))

    # -- copies, in other places and dtypes ----------------------------------------------------

    def copy(
        self,
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
    ) -> Self:
        """Copy into a fresh array: one segment, no history.

        Parameters
        ----------
        path : str or PathLike, optional
            Path of the new pair of files; None: in memory.
        chunks : int or sequence of int, optional
            Chunk shape; None: the present one.
        order : {"C", "F", "A", "K", "Z", "H"}
            Order of the elements in a chunk, as for `create`; "K" and "A": the present one.
        checksum : bool, optional
            Keep checksums, as for `create`; None: as this array does, in files.
        sparse : bool, optional
            Leave holes where there are only zeros, as for `create`; None: as this array does.
        compression : str, int, Codec or None
            A codec, as for `create`; all chunks are frozen, unless the array's `freeze` is "never".
            None: not compressed.  Default: as this array, in files.
        significant_bits : int, optional
            Round floats of the copy, as for `from_array`; None: copy them as they are.
        resume : bool, optional
            Keep the work if this call is interrupted, and continue that of an earlier call with the
            same arguments, if the array has not changed since; otherwise begin anew.  Messages on
            stderr tell of both.  None: if the array is on a server or in a bucket.
        progress : bool or callable
            Show how far the work has come, on a terminal or in a notebook; or a function, which is
            called with the bytes that are done, and with those in all.

        Returns
        -------
        ExtArray
            Open in mode "r+", with the same dtype, fill value, attributes and growth policy.

        Raises
        ------
        ArgumentError
            A ValueError: no such order; `path` is an order, as `numpy.ndarray.copy` takes first; or
            checksums of an array in memory.
        ExistsError, ChunksError, StorageError, ReserveError

        Notes
        -----
        At most ``config.max_memory`` bytes are in memory at a time, unless a chunk of each array is
        larger; see `extarray.rechunk`, which can do more, and where it keeps its work.

        For `dask.array.from_array` this returns a view of the whole: tasks read it late, by indices
        with their present meaning.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.ones((4, 3), chunks=(2, 2))
        >>> a.copy(chunks=(4, 1)).chunks
        (4, 1)
        """
        if path is None and chunks is None and dask.builds_graph():  # inspects the caller
            return self.lazy[...]  # type: ignore[no-any-return]
        return copies.copy(  # type: ignore[no-any-return]
            self,
            path,
            chunks,
            order=order,
            checksum=checksum,
            sparse=sparse,
            compression=compression,
            significant_bits=significant_bits,
            resume=resume,
            progress=progress,
        )

    def rechunk(
        self,
        chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
        path: Any = None,
        *,
        axes: Sequence[SupportsIndex | str] | None = None,
        order: Order | None = None,
        dtype: DTypeLike | None = None,
        sparse: bool | None = None,
        compression: Any = NOT_GIVEN,
        max_memory: int | str = "256 MiB",
        workers: int | None = None,
        in_place: bool = False,
        resume: bool = False,
        verify: bool = False,
        progress: Reported = True,
    ) -> ExtArray:
        """Copy into an array with other chunks, axes in another order, or another dtype.

        Parameters
        ----------
        chunks : int or sequence of int, optional
            Chunk shape, by axes of the new array; None: the present one.
        path : str or PathLike, optional
            Path of the new pair of files; None: in memory, unless `in_place`.
        axes, order, dtype, sparse, compression, max_memory, workers, resume, verify, progress
            As for `extarray.rechunk`.
        in_place : bool
            Replace the pair of files of this array at the end, and close this array; the returned
            array has the path.

        Returns
        -------
        ExtArray
            Open in mode "r+", with the attributes, the names of axes, and the fill value.

        Raises
        ------
        ArgumentError, ExistsError, LockedError, AxisError, ChunksError, DTypeError, StorageError
            As `extarray.rechunk`.

        Notes
        -----
        This reads and writes at once, unlike dask's method of this name.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array(["ab", "abcd"])
        >>> a = a.rechunk(dtype="U9")
        >>> a.append(["abcdefghi"])
        >>> a[...]
        array(['ab', 'abcd', 'abcdefghi'], dtype='<U9')
        """
        return copies.rechunked(  # type: ignore[no-any-return]
            self,
            path,
            chunks=chunks,
            axes=axes,
            order=order,
            dtype=dtype,
            sparse=sparse,
            compression=compression,
            max_memory=max_memory,
            workers=workers,
            in_place=in_place,
            resume=resume,
            verify=verify,
            progress=progress,
        )

    def repack(
        self,
        path: Any = None,
        *,
        checksum: bool | None = None,
        sparse: bool | None = None,
        compression: Any = NOT_GIVEN,
        progress: Reported = True,
    ) -> Self:
        """Write the elements inside the bounds into a fresh array, or tidy up compressed chunks.

        Parameters
        ----------
        path : str or PathLike, optional
            Path of the new pair of files.  Without it, the file of the frozen chunks of this array
            (see `create`, ``compression``) is replaced by one that lacks what thaws and rewritten
            chunks have left there.
        checksum, sparse : bool, optional
        compression : str, int, Codec or None
            As for `copy`; only with a path.
        progress : bool or callable
            As for `copy`.

        Returns
        -------
        ExtArray
            Open in mode "r+": one segment, a file no longer than needed, and no holes except for
            zeros of a sparse array.  Indices count from its own start: `origin` is zeros.  Without
            a path, this array.

        Raises
        ------
        ArgumentError
            A ValueError: no path, and the array has no compression.
        ChecksumError
            A frozen chunk is damaged.  Nothing has changed.
        ExistsError, StorageError, ReadOnlyError, ClosedError

        Notes
        -----
        Without a path, blobs are copied as they are, in bounded memory; for a while, the disk has
        both files.  Those who have the array open for reading go on, and other threads of this
        process may read and write meanwhile.

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
            if checksum is not None or sparse is not None or compression is not NOT_GIVEN:
                raise ArgumentError(
                    "checksum, sparse and compression are for a fresh array; give its path"
                )
            self._check("repack")
            _later.repack(facts.freezable(self), check_progress(progress))
            return self
        return copies.repack(  # type: ignore[no-any-return]
            self,
            path,
            checksum=checksum,
            sparse=sparse,
            compression=compression,
            progress=progress,
        )

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return copies.reduced(self)

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
    ) -> Self:
        return copies.reopened(  # type: ignore[no-any-return]
            cls, path, uuid, engine, durability, names, verify, sequence, Elements
        )

    @classmethod
    def _restore(cls, header: Header, attrs: str, elements: NDArray[Any], growth: int) -> Self:
        """Make a pickled array in memory: one segment, no history."""
        return copies.restored(cls, header, attrs, elements, growth)  # type: ignore[no-any-return]

    @classmethod
    def _plain_kind(cls) -> type[Self]:
        """Return the class of copies, which one process has alone."""
        return cls

    def astype(
        self,
        dtype: DTypeLike,
        order: Literal["C", "F", "A", "K"] | None = None,
        casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "unsafe",
        subok: bool = True,
        copy: bool | None = None,
    ) -> Any:
        """Return the elements in another dtype: read late, as h5py does, or an ndarray.

        Parameters
        ----------
        dtype : dtype_like
        order : {"C", "F", "A", "K"}, optional
            Memory order of an ndarray.
        casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        subok : bool
            As NumPy's; there is no subclass to pass on.
        copy : bool, optional
            True and False give the same: an ndarray is always a copy.

        Returns
        -------
        AsType or ndarray
            Without `order` and `copy`, which concern memory: an object with brackets, operators and
            all of NumPy's functions, which reads and casts elements box by box when these need
            them.  With one of them: an ndarray.

        Raises
        ------
        CastingError
            A TypeError: the casting rule forbids it.
        ResultError
            A MemoryError: an ndarray larger than ``config.max_result``.

        Notes
        -----
        The late object shows the array as it is when it is read, not as it was when `astype` was
        called.  It cannot be written to: ``x = a.astype(float); x += 1`` makes `x` an ndarray, and
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
        return copies.astype(self, dtype, order, casting, copy)

    # -- following a writer --------------------------------------------------------------------

    def refresh(self, on_replaced: Literal["raise", "reopen"] = "raise") -> bool:
        """Take up what a writer has committed since the array was opened or refreshed.

        Parameters
        ----------
        on_replaced : {"raise", "reopen"}
            For a reader whose files were replaced, as by ``create(..., overwrite=True)``: raise
            `ReplacedError`, or become the array that has the path now, with its shape and dtype.

        Returns
        -------
        bool
            Whether anything was new.  In mode "r+" nothing can be, unless other writers share the
            array, or this one writes only elements.

        Raises
        ------
        ReplacedError
            A FileNotFoundError: other files, or none, have the path by now, and nobody writes to
            the open ones, which can still be read.
        ClosedError, CorruptError, TruncatedError, ArgumentError

        Notes
        -----
        This reads only what is new, takes no lock, and never blocks a writer.  (One of several
        writers takes the lock of commits meanwhile.)  If the array has gained an axis since
        (`add_axis`), it has one more here, too.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 2)).refresh()
        False
        """
        return self._writers.refresh(self, on_replaced)

    @property
    def replaced(self) -> bool:
        """True if the files were replaced, removed or moved, so that nothing new can come.

        While a writer has the files open, something new can come, whatever their name.

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
        return life.is_replaced(self)

    def follow(
        self,
        axis: SupportsIndex | str = 0,
        timeout: float | None = None,
        on_replaced: Literal["raise", "reopen"] = "raise",
    ) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
        """Iterate over elements that arrive at an axis, as they arrive.

        Parameters
        ----------
        axis : int or str
            In [-ndim, ndim), or its name in `dims`.
        timeout : float, optional
            Seconds without news after which the iteration ends; None: it never ends.
        on_replaced : {"raise", "reopen"}
            As for `refresh`: raise `ReplacedError`, or go on with the array that has the path now,
            from its first element; if none has it, wait for one.

        Yields
        ------
        selection : tuple of slice
            Indices of the new elements, in the array as it is then.
        data : ndarray
            ``a[selection]``; at most ``config.max_memory`` bytes at a time.

        Raises
        ------
        AxisError, ArgumentError, ArgumentTypeError, ClosedError, CorruptError
        ShapeError
            The array has gained an axis, or its successor has a different number: begin anew.
        ReplacedError
            A FileNotFoundError: its files were replaced, removed or moved, so that nothing more can
            arrive.

        Notes
        -----
        Elements that exist when `follow` is called are not yielded: read them first, and nothing is
        missed.  An array open for reading refreshes itself before each look; a writer sees appends
        by its other threads.  Growth at the start of the axis is yielded, too.  Each append is seen
        whole; a selection may join several.  Elements cut off before they were seen are not
        yielded, nor are those that replace seen elements cut off between two looks.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, (0, 2), "i4")
        >>> news = a.follow(timeout=0)
        >>> a.append([[1, 2]])
        >>> for selection, data in news:
        ...     print(selection, data)
        (slice(0, 1, None), slice(0, 2, None)) [[1 2]]
        """
        return growth.follow(self, axis, timeout, on_replaced)

    # -- other libraries -----------------------------------------------------------------------

    def to_dask(self, chunks: Any = None) -> Any:
        """Return a dask array whose tasks read this array.

        Parameters
        ----------
        chunks : int, tuple, str or dict, optional
            As for `dask.array.from_array`; None: groups of whole chunks, of about the bytes in
            dask's setting ``array.chunk-size``, by default 128 MiB.

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
        Only the tasks read.  Tasks in other processes open the files there.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.ones((100, 100), chunks=10)
        >>> x = a.to_dask(chunks=(50, 100))  # doctest: +SKIP
        >>> x.sum().compute()  # doctest: +SKIP
        np.float64(10000.0)
        """
        self._check()
        return dask.to_dask(self.lazy[...], chunks)

    # ``dask.array.asarray`` looks for this name.
    to_dask_array = to_dask

    def as_zarr_store(
        self,
        name: str | None = None,
        *,
        follow: bool = True,
        encoded: bool = False,
        ome: Any = False,
    ) -> Any:
        """Return a store of Zarr that shows the array in place: read-only, and without a copy.

        Parameters
        ----------
        name : str, optional
            Name of the array in a group that the store then has, as xarray needs it.  None: the
            store is the array.
        follow : bool
            Refresh the array whenever its metadata are read, as they are when it is opened through
            the store.  False: the store shows the state that this array has taken up.
        encoded : bool
            Hand out the chunks of a compressed array in its codec, which the metadata then name,
            so copies through zarr keep it.  Zarr has "zstd" and "zlib", without a filter or with
            "shuffle", which also stands in for "auto"; with any other codec, and for False, the
            store hands out elements, which readers in this process get sooner.
        ome : bool or Pyramid
            Show the array as an image of OME-Zarr 0.5: a group with metadata about axes, places of
            pixels and names of channels, in which "0" is the array, and "1" and so on are the
            levels of its pyramid: of the given one, or (True) of the one beside the array, if there
            is one (`pyramid`).

        Returns
        -------
        extarray.interop.zarr_store.ZarrStore
            A ``zarr.abc.store.Store`` of format 3, for ``zarr.open_array``, ``xarray.open_zarr``,
            ``dask.array.from_zarr`` and other readers of Zarr.

        Raises
        ------
        ArgumentError
            A ValueError: chunks in the order "Z" or "H"; bounds that start within a chunk; axes
            that no image of OME-Zarr has, or in another order than t, c, z, y and x.
        DTypeError
            A TypeError: Zarr has no such dtype.
        MissingExtraError
            zarr is not installed.
        ClosedError

        Warns
        -----
        LossyWarning
            Attributes without a JSON form are left out.  With `ome`, so are coordinates other than
            steps along an axis and names of channels.

        Notes
        -----
        A key becomes an address, in O(k), and the chunk is read there.  A key never changes its
        meaning: after growth at an end, open the array through the store again; after growth or
        cuts at a start, which shift indices, the metadata are refused: make a new store.

        Examples
        --------
        >>> import extarray as xa, zarr
        >>> a = xa.create(None, (2, 3), "i4", chunks=(2, 2), dims=("time", "x"))
        >>> store = a.as_zarr_store()
        >>> a.append([[1, 2, 3]])
        >>> z = zarr.open_array(store, mode="r")
        >>> z.shape, z[2].tolist()
        ((3, 3), [1, 2, 3])
        """
        self._check()
        return facts.zarr_store(self, name, follow, encoded, ome)

    def to_kerchunk(
        self,
        name: str | None = None,
        *,
        zarr_format: Literal[2, 3] = 2,
        url: str | None = None,
    ) -> Any:
        """Return the places of the chunks, for readers of Zarr through kerchunk's references.

        Parameters
        ----------
        name : str, optional
            Name of the array in a group, as for `as_zarr_store`.
        zarr_format : {2, 3}
            Version of the keys and the metadata.
        url : str, optional
            Address at which others find the packed file, or the pair of files, with or without
            ``.xta``: ``"https://host/scene.xap"``, ``"s3://bucket/live"``.  The references name it
            in place of the local path, or of the URL at which the array was opened.

        Returns
        -------
        dict
            Version 1 of the references, ready for JSON: ``{"version": 1, "refs": {...}}``.  Each
            chunk is ``[file, first byte, bytes]``, with the absolute path of ``.xta``, of ``.xtz``
            for frozen chunks, or of the packed file, or the URL, without user and password.
            Chunks of the fill value that a packed file leaves out have no reference, or their bytes
            in its place, as have compressed chunks of one other value.

        Raises
        ------
        ArgumentError
            A ValueError: an array in memory; one opened at a URL with a query, which may be a
            signature, or in a store without a URL, unless `url` is given; compressed chunks that
            Zarr does not decode; chunks that are yet to be compressed; and as `as_zarr_store`.
        DTypeError, MissingExtraError, ClosedError

        Notes
        -----
        O(chunks).  The references stay right, but lack chunks of later growth.  Those to frozen
        chunks show their elements as they are now.  With ``freeze="never"``, references to raw
        chunks are possible, and wrong once these are frozen after all.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create("scene", (2, 2), "i4", chunks=(2, 1))
        >>> a.to_kerchunk()["refs"]["0.1"]  # doctest: +ELLIPSIS
        ['/...scene.xta', 8, 8]
        >>> a.close()
        """
        self._check()
        return facts.zarr_references(self, name, zarr_format, url)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """Return a name for dask's graphs that changes whenever the elements may have changed."""
        return copies.token(self)

    __array_namespace__ = dlpack.namespace
    device = property(dlpack.device)
    to_device = dlpack.to_device

    # -- for operations that go through the array part by part ---------------------------------

    # Streaming calls these.  They act for this process only, even where `read` and `write` are
    # collective.
    _fetch = ArrayCore.read  # type: ignore[assignment]
    _put = ArrayCore.write

    def _held(self) -> Self:
        """Return the array as it is now, whatever happens to its bounds; see `life.held`.

        `_released` returns the array that may outlive the call.
        """
        return life.held(self)  # type: ignore[no-any-return]

    def _verified(self) -> Self:
        held = self._held()
        verify_reads(held)
        return held

    def _released(self) -> Self:
        original: Self | None = self._original
        return self if original is None else original

    def _holes(self) -> Callable[[Box], bool] | None:
        return facts.holes(self)

    _leaves_holes = property(facts.leaves_holes)

    @property
    def _lines(self) -> tuple[Line, ...]:
        return tuple([(0, 1, n, j) for j, n in enumerate(self.shape)])

    @property
    def _extract(self) -> list[Any]:
        """Return, as JSON values, which of all elements ever stored the array has."""
        return [-n for n in self.origin]

    def _read_query(
        self, query: Query, out: NDArray[Any] | None = None, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]:
        return execution.read_query(self, query, out, order)

    def _write_query(self, query: Query, value: Any) -> None:
        execution.write_query(self, query, value)

    # -- for the modules of this room ----------------------------------------------------------

    @property
    def _identity(self) -> bytes:
        """The uuid, which tells the elements from those of other arrays."""
        return self._store.now.header.uuid

    # Assigned as methods: growth by a few chunks is so quick that one more call would show.
    _check = facts.check
    _check_sole = facts.check_sole

    def _axis(self, axis: SupportsIndex | str) -> int:
        """Return the number of an axis, counted from 0; a text is its name."""
        return as_axis(axis, self.ndim, self)

    def _load_attrs(self) -> str:
        self._check()
        # Needs no lock: attributes tell the origin for which they hold, and adapt to any other.
        return labels.attrs_now(self._store.now.attrs, self.origin)

    _save_attrs = facts.save_attrs
    _set_policy = facts.set_policy

    def _place_elements(self) -> None:
        life.place_elements(self)

    def _attach_store(self) -> None:
        life.attach_store(self)

    def _flush(self, last: bool = False) -> None:
        life.flush_store(self, last)
