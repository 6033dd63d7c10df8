"""Making and opening arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from math import prod
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.encodings import encoded, rounding_of
from extarray.array.life import let_go, publish
from extarray.array.writers import Alone, Elements, Shared
from extarray.common.arguments import (
    NOT_GIVEN,
    check_choice,
    check_durability,
    check_flag,
    check_progress,
)
from extarray.common.calls import public
from extarray.common.choices import ENGINES, VERIFICATIONS
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    CastingError,
    MissingError,
)
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports, LazyModule, Upward
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.format.attrs import decode_attrs, encode_attrs
from extarray.format.dtypes import check_dtype, clear_open_bytes
from extarray.format.header import Header, new_uuid
from extarray.format.suffixes import METADATA
from extarray.grid.chunking import check_chunks, check_shape, choose_chunks
from extarray.grid.order import check_order
from extarray.grid.tiles import tiles
from extarray.streaming.blocks import Source, leaves_holes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, DTypeLike

    from extarray.array import h5py_compat
    from extarray.array.facts import Writers
    from extarray.common.arguments import Reported
    from extarray.common.choices import Order
    from extarray.format import labels
    from extarray.grid.policy import GrowthPolicy

    Shape = SupportsIndex | Sequence[SupportsIndex]
    Engine = Literal["auto", "mmap", "pread", "mpi-io"]
    Durability = Literal["flush", "steady", "commit"]
    Verify = Literal["never", "write", "read"]
    # Path, shape, header, attributes, engine, overwrite, durability, growth policy.
    _Checked = tuple[Any, tuple[int, ...], Header, str, str, bool, str, int]
else:
    h5py_compat = LazyModule("extarray.array.h5py_compat")
    labels = LazyModule("extarray.format.labels")

__all__ = [
    "create",
    "empty",
    "fill_bytes",
    "filled",
    "from_array",
    "full",
    "ones",
    "open",
    "zeros",
]


_later = LazyImports(
    {
        "extarray.array.filling": "writer",
        "extarray.array.freezing": "freeze_at_end",
        "extarray.array.growth": "as_source write_source",
        "extarray.array.lazy": "LazyView",
        "extarray.array.together": "together",
        "extarray.common.progress": "Progress",
        "extarray.maintenance.transform": "fill",
        "extarray.fetched.paths": "as_path check_options refuse_writing",
        "extarray.grid.policy": "encode_policy",
        "extarray.storage.filesystem": "leaves_holes resolve_path",
        "extarray.streaming.holes": "write_fresh",
    }
)


_upward = Upward({"extarray.formats.registry": "format_of"})

#: Keywords of `open` that are given to `create`, and vice versa: what to do.
_OF_OPEN = {
    "mode": "it makes an array, and with overwrite=True replaces one; extarray.open opens an array "
    "that exists"
}
_OF_CREATE = dict.fromkeys(
    (
        "shape", "dtype", "chunks", "fill_value", "order", "sparse", "overwrite", "attrs", "dims",
        "split", "growth", "checksum", "compression", "freeze", "like",
    ),
    "an array that exists keeps its own; extarray.create makes a new one with it",
)  # fmt: skip


@public(others=_OF_OPEN)
def create(
    path: str | PathLike[str] | None,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    chunks: Shape | None = None,
    fill_value: Any = NOT_GIVEN,
    order: Order | str = NOT_GIVEN,
    sparse: bool = NOT_GIVEN,
    overwrite: bool = False,
    attrs: Mapping[str, Any] | None = None,
    dims: Sequence[str] | None = None,
    split: Mapping[str, Mapping[str, int]] | None = None,
    engine: Engine | str = "auto",
    durability: Durability | str = "flush",
    growth: GrowthPolicy = NOT_GIVEN,
    checksum: bool = NOT_GIVEN,
    compression: Any = NOT_GIVEN,
    freeze: Literal["behind", "close", "never"] | str = NOT_GIVEN,
    like: Any = None,
    comm: Any = None,
    info: Mapping[str, Any] | None = None,
) -> ExtArray:
    """Create an array, on disk or in memory.

    Parameters
    ----------
    path : str, PathLike, or None
        Path of the pair of files ``path.xmd`` and ``path.xta``.  None: in memory.
    shape : int or sequence of int
        Elements along each axis; 0 is the normal start of an axis that grows.
    dtype : dtype_like
        Any NumPy type of fixed size, either byte order; default float64.
    chunks : int or sequence of int, optional
        Elements of a chunk along each axis; None: about 512 KiB, balanced over the axes, or, where
        one axis has length 0, good for appends along it; at most four times the size of a small
        array.
    fill_value : scalar
        Value of elements that were never written.  Default 0, which costs nothing at growth; for
        texts and records it means zero bytes, as in ``np.zeros``.
    order : {"C", "F", "Z", "H"}
        Order of the elements in a chunk: row-major (the default), column-major, Morton, Hilbert.
    sparse : bool
        False: growth reserves disk space, so that a full disk shows there.  True: growth leaves
        holes, and a full disk shows at a write; only a fill value of zero leaves holes, any other
        is written.  Default False; True on Btrfs, ZFS and bcachefs, where reserved space is not
        compressed, and does not keep a write from finding the disk full.
    overwrite : bool
        Replace an existing pair.  Arrays that have it open keep the old one.
    attrs : mapping, optional
        Attributes, see `ExtArray.attrs`.
    dims : sequence of str, optional
        Names of the axes, the attribute ``"dims"``.
    split : mapping, optional
        For the name of an axis, names and lengths of the axes that it stands for, such as
        ``{"frame": {"t": -1, "c": 3, "z": 5}}``; the attribute ``"split"``.  ``a.lazy.split()`` and
        xarray show these axes.  A chunk is then one element along that axis, by default.
    engine : {"auto", "mmap", "pread", "mpi-io"}
        How the file is read and written; "auto" decides by the type of the file system; with `comm`
        it is "mpi-io" on file systems of several hosts, between ranks of several hosts, and where
        there are hints (`info`).
    durability : {"flush", "steady", "commit"}
        The state that survives a loss of power: at least that of the last `ExtArray.flush`; or,
        with "commit", all calls that returned, this one included.  Each call that changes anything
        then waits for the disk; writes through a view of a chunk still need a `flush`.  "steady",
        for recorders, promises as much as "flush", but elements go to the disk in the background
        all the time: memory stays free for when the disk is slow, and `flush` is short.  Linux
        alone has it.
    growth : {"exact", ("linear", theta), ("exponential", factor), "doubling", "cubical"}
        How much growth allocates ahead, see `ExtArray.growth`; default "exact": nothing.
    checksum : bool
        Keep a checksum of each chunk (default False): `check` finds damaged elements by them, and
        copies refuse damaged chunks (see `open`, ``verify``).  `flush` and `close` then read again
        the chunks that were written, and writing single elements takes longer.
    compression : str, int, Codec or None
        A codec for chunks that growth leaves behind, see `pack` for its forms; None, the default:
        all stay as they are.  Such chunks are *frozen*: they lie compressed in a third file,
        ``path.xtz``.  The chunks at the front stay raw, so growth costs what it does without
        compression.  The first writes to a frozen chunk compress it anew; further ones *thaw*
        it.
    freeze : {"behind", "close", "never"}
        When chunks are frozen, with `compression`: in the background, once all of their elements
        lie inside the bounds (the default); only by `close`; or only by `ExtArray.freeze`.
    like : array, optional
        Sets the options that are not given: an array of extarray, a view of one, a dataset of h5py
        or zarr, or any other array; see Notes.
    comm : mpi4py.MPI.Intracomm, optional
        Processes that make the array together; all call, with the same arguments.
    info : mapping, optional
        Hints for MPI-IO, with `comm`.

    Returns
    -------
    ExtArray
        Open in mode "r+"; with `comm` an `extarray.mpi.ParallelArray`.

    Raises
    ------
    ExistsError
        A FileExistsError: the pair exists.
    ShapeError, ChunksError, ArgumentError
        ValueErrors.
    DTypeError, CastingError, ArgumentTypeError
        TypeErrors: of the dtype, of the fill value, of any other argument.
    LimitError
        An OverflowError: more than 2**63 - 1 bytes.
    StorageError, ReserveError
        An OSError or a MemoryError: no room.

    Notes
    -----
    `like` sets `shape`, `dtype`, `chunks`, `fill_value`, `order`, `sparse`, `attrs`, `dims`,
    `growth` and (in files) `checksum`, `compression` and `freeze`, where it has them and they are
    not given here; it gives no elements.  Properties that do not fit are left out: chunks and names
    where the number of axes differs, coordinates where the shape differs, a fill value that the
    dtype cannot hold exactly, a codec of h5py or zarr that extarray does not have.
    This is not the ``like=`` of NumPy's functions, which chooses the library.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.create(None, shape=(0, 217, 204), dtype="u2", chunks=64)
    >>> a.append(np.ones((3, 217, 204), "u2"))
    >>> a.shape, a.grid
    ((3, 217, 204), (1, 4, 4))
    >>> b = xa.create(None, like=a, dtype="f4")
    >>> b.shape, b.dtype, b.chunks
    ((3, 217, 204), dtype('float32'), (64, 64, 64))
    """

    def check() -> _Checked:
        options = _options(
            like,
            shape,
            dtype,
            path,
            chunks=chunks,
            fill_value=fill_value,
            order=order,
            sparse=sparse,
            attrs=attrs,
            dims=dims,
            growth=growth,
            checksum=checksum,
            compression=compression,
            freeze=freeze,
            split=NOT_GIVEN if split is None else split,
        )
        if freeze is not NOT_GIVEN and options.get("compression") is None:
            raise ArgumentError(
                f"freeze={freeze!r} says when chunks are compressed; give compression, too, or "
                "leave it out"
            )
        return _checked(path, overwrite=overwrite, engine=engine, durability=durability, **options)

    if comm is not None:
        made: ExtArray = _later.together.create_together(comm, info, check)
        return made
    _check_alone(engine, info)
    return ExtArray._create(*check())


def _options(like: Any, shape: Any, dtype: Any, path: Any, **given: Any) -> dict[str, Any]:
    """Return the options of `create`: those that are given, and else those of `like`."""
    if shape is None and like is None:
        raise ArgumentTypeError("give a shape, or a model array with like=")
    found: dict[str, Any] = {"shape": shape, "dtype": float if dtype is None else dtype}
    if like is not None:
        extents = None if shape is None else check_shape(shape)
        found = h5py_compat.options_like(
            like, extents, None if dtype is None else check_dtype(dtype)
        )
        if path is None:
            for name in ("checksum", "compression", "freeze"):
                found.pop(name, None)
    return {**found, **_given(**given)}


def _given(chunks: Any, attrs: Any, dims: Any, **others: Any) -> dict[str, Any]:
    """Return the options that are given; for some, None means not given."""
    some = {"chunks": chunks, "attrs": attrs, "dims": dims}
    return {
        **{name: value for name, value in some.items() if value is not None},
        **{name: value for name, value in others.items() if value is not NOT_GIVEN},
    }


def _checked(
    path: Any,
    shape: Any,
    dtype: Any,
    chunks: Any = None,
    fill_value: Any = 0,
    order: str = "C",
    sparse: bool = NOT_GIVEN,
    overwrite: bool = False,
    attrs: Mapping[str, Any] | None = None,
    dims: Sequence[str] | None = None,
    engine: str = "auto",
    durability: str = "flush",
    growth: Any = "exact",
    checksum: bool = False,
    compression: Any = None,
    freeze: str = "behind",
    split: Any = None,
) -> _Checked:
    kind = check_dtype(dtype)
    extents = check_shape(shape)
    names = None if dims is None else labels.check_dims(dims, len(extents))
    if split is not None:
        split = labels.check_split(split, names)
        if chunks is None:
            axes = [j for j, name in enumerate(names or ()) if name in split]
            chunks = _chunks_of_frames(extents, kind.itemsize, axes)
    chunk = check_chunks(chunks, extents, kind.itemsize)
    check_order(order)
    check_durability(durability)
    overwrite = check_flag(overwrite, "overwrite")
    checksum = check_flag(checksum, "checksum")
    if checksum and path is None:
        raise ArgumentError("checksum=True needs files; give a path, or leave it out")
    text = encode_attrs(attrs)
    if names is not None:
        text = encode_attrs({**decode_attrs(text), "dims": names})
    if split is not None:
        text = encode_attrs({**decode_attrs(text), labels.SPLIT: split})
    if sparse is NOT_GIVEN:
        holes = path is not None and _later.leaves_holes(_later.resolve_path(path))
    else:
        holes = check_flag(sparse, "sparse")
    header = Header(
        uuid=new_uuid(),
        dtype=kind,
        chunks=chunk,
        order=str(order),
        fill=fill_bytes(fill_value, kind),
        sparse=holes,
        checksum=checksum,
    )
    header = encoded(header, compression, freeze, path)
    return path, extents, header, text, engine, overwrite, durability, _later.encode_policy(growth)


def _chunks_of_frames(shape: tuple[int, ...], itemsize: int, axes: list[int]) -> list[int]:
    """Choose chunks of one element along some axes: each frame is appended alone, and read so."""
    others = [j for j in range(len(shape)) if j not in axes]
    chunks = [1] * len(shape)
    inner = choose_chunks(tuple(shape[j] for j in others), itemsize) if others else ()
    for j, n in zip(others, inner, strict=True):
        chunks[j] = n
    return chunks


@contextlib.contextmanager
def filled(
    path: Any, shape: Any, dtype: Any, kind: type[ExtArray] = ExtArray, **options: Any
) -> Iterator[ExtArray]:
    """Make an array for a block that fills it; the array gets its name when the block ends.

    If the block fails, or the process is killed in it, the files that had the name keep it.  The
    array stays open after the block; if it is compressed, its chunks are frozen by then.

    Parameters
    ----------
    path, shape, dtype, **options
        As for `create`.
    kind : type
        Class of the array.
    """
    new = kind._create(*_checked(path, shape, dtype, **options), hidden=True)
    with OnError(let_go, new):
        yield new
        if new._store.now.frozen is not None:
            _later.freeze_at_end(new)
    publish(new)


def _check_alone(engine: str, info: Mapping[str, Any] | None) -> None:
    """Refuse options that only arrays of several processes have."""
    if info is not None or engine == "mpi-io":
        raise ArgumentError(
            "info= and engine='mpi-io' are for MPI-IO; give a communicator with comm="
        )
    check_choice(engine, "engine", ENGINES)


def fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    """Return the bytes of a fill value in a dtype.

    Parameters
    ----------
    value : scalar
    dtype : dtype
    """
    item = np.zeros(1, dtype)
    if isinstance(value, int) and value == 0:
        return item.tobytes()  # zero bytes, also for texts and records: a fresh file holds them
    try:
        item[0] = value
    except (TypeError, ValueError, OverflowError) as error:
        raise CastingError(f"fill_value {value!r} cannot be stored as {dtype}: {error}") from None
    clear_open_bytes(item)  # else zero would not be free (I8)
    return item.tobytes()


@public(others=_OF_CREATE)
def open(
    path: str | PathLike[str],
    mode: Literal["r", "r+"] | str = "r",
    *,
    timeout: float | None = 0,
    engine: Engine | str = "auto",
    durability: Durability | str = "flush",
    share: bool | Literal["elements"] = False,
    verify: Verify | str | None = None,
    recover: bool | None = None,
    comm: Any = None,
    info: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | PathLike[str] | None = None,
) -> ExtArray:
    """Open a pair of files, or a packed one, on a disk, on a web server or in a bucket.

    Parameters
    ----------
    path : str, PathLike, or tuple
        With or without a trailing ``.xmd`` or ``.xta``; or the path of a packed file.  Also a URL:
        ``https``, ``s3``, ``gs``, ``az``, or another scheme that fsspec reads; or a tuple of a
        store of obstore, or a file system of fsspec, and a path in it; see Notes.
    mode : {"r", "r+"}
        For reading, without a lock; or for reading and writing, as the one writer.
    timeout : float or None
        Seconds to wait for the writer's lock, and with `share` for one of its 63 places; None:
        forever.  Another writer's commit under way gets at least 5 seconds to end.  Not for a URL,
        whose `storage_options` have a ``timeout`` of their own.
    engine : {"auto", "mmap", "pread", "mpi-io"}
        How the file is read and written; "auto" decides by the type of the file system; with `comm`
        it is "mpi-io" on file systems of several hosts, between ranks of several hosts, and where
        there are hints (`info`).
    durability : {"flush", "steady", "commit"}
        As for `create`; without effect in mode "r".
    share : bool or "elements"
        In mode "r+", True: be one of several writers on this host, which all share the array.
        "elements": be one of any number of processes, on any number of hosts, that write elements
        inside the bounds and nothing else, without a lock, also beside a writer; see Notes.  With
        `comm` the ranks share as one of those writers.
    verify : {"never", "write", "read"}, optional
        Chunks to compare with their checksums, if they have any, each once: "never" none; "write"
        those that are copied to another array, or written in part; "read" also those that are
        read.  A `ChecksumError` names the damaged chunk.  In a packed file the metadata are
        compared with their sum, too, unless "never"; and with "read", `open` reads all chunks of an
        array without checksums of its own, once a process, to compare them.  None:
        ``config.verify``, which is "write".
    recover : bool, optional
        Whether a newest state that is not whole may be given up for the newest one that is, with a
        `RecoveryWarning`.  None: on the file systems of one host, where only a power failure or
        damage leaves such a state; not where several hosts share the files, nor at a URL, since
        this host may just not see all of them yet.
    comm : mpi4py.MPI.Intracomm, optional
        Processes that open the array together, as one writer; all call, with the same arguments.
        Not for a URL, at which each rank opens the array by itself.
    info : mapping, optional
        Hints for MPI-IO, with `comm`.
    storage_options : mapping, optional
        For a URL: credentials and settings, as fsspec, pandas and xarray name them (``anon``,
        ``key``, ``secret``, ``endpoint_url``, ``headers``, ``account_name``, ...) or as obstore
        does.
    cache : str or PathLike, optional
        For a URL: a folder in which chunks stay between programs, which may share it.

    Returns
    -------
    ExtArray
        Also a context manager, which closes it; with `comm` an `extarray.mpi.ParallelArray`.

    Raises
    ------
    MissingError
        A FileNotFoundError: a file of the pair is missing.
    LockedError
        A BlockingIOError: another writer has it open, and one of the two does not share it.
    FormatError
        A ValueError: VersionError (a newer format), CorruptError (damaged), TruncatedError (cut
        off), PartnerError (two files that do not belong together).
    NotVisibleError
        A TimeoutError: the newest state is not visible on this host, after some seconds of waiting.
    MissingExtraError
        An ImportError: the library that compresses what a writer leaves behind is not installed.
    ArgumentError
        A ValueError: another mode, engine or durability, or a reader that asks to share.
    AccessError, StorageError
        OSErrors; also where the system has no locks with which writers can share.

    Notes
    -----
    Writers that share an array may write different elements at the same time, in one chunk too.
    Growth, shrinking, attributes and `flush` begin with the newest state, as if `refresh` was
    called before; between them each writer has its own view of the bounds.  Appends at one side of
    one axis go on at the same time, and are committed in the order in which they began.  No chunk
    is compressed while writers share an array; the next writer that has it alone does that.

    With ``share="elements"`` a process asks nothing of others and tells them nothing.  Elements
    that it assigns are seen at once by all that have the array open, on other hosts from their next
    `refresh` on; `refresh` takes up growth, too, `flush` brings elements to the disk, and growth,
    cuts and attributes raise `ReadOnlyError`.  The engine is "pread", and views of chunks are
    read-only.  The first write puts the checksums of chunks in doubt; beside a writer that keeps
    checksums, `open` raises `LockedError`.

    An array on a web server or in a bucket is read like any other, and cannot be written to.
    Opening a packed file takes one request, a pair or a published array (see `publish`) two.
    Chunks are fetched when they are first needed, neighbours in one request, compared with their
    checksums unless `verify` is "never", and stay in memory (``config.chunk_cache``).  A pair or a
    published array may have a writer elsewhere: `refresh` and `follow` take up its commits, whole,
    and chunks that may have changed are fetched again.  The extra ``[remote]`` installs what this
    needs.

    Examples
    --------
    >>> import tempfile, extarray as xa
    >>> folder = tempfile.mkdtemp()
    >>> xa.zeros((4, 3), path=f"{folder}/scene").close()
    >>> with xa.open(f"{folder}/scene") as a:
    ...     a.shape
    (4, 3)
    >>> one = xa.open(f"{folder}/scene", "r+", share=True)
    >>> two = xa.open(f"{folder}/scene", "r+", share=True)
    >>> one.append(np.ones((2, 3)))
    >>> two.append(np.full((2, 3), 2))
    >>> two[:, 0]
    array([0., 0., 0., 0., 1., 1., 2., 2.])
    >>> one.close(), two.close()
    (None, None)
    """

    def check() -> tuple[Any, str, float | None, str, str, str, bool | None]:
        if mode not in ("r", "r+"):
            raise ArgumentError(
                f"mode {mode!r} is not valid; use 'r' to read or 'r+' to change an array that "
                "exists, or extarray.create for a new one (overwrite=True replaces one)"
            )
        check_durability(durability)
        if share != "elements":
            check_flag(share, "share")
        elif engine == "mmap":
            raise ArgumentError(
                "share='elements' cannot use a memory map, since other processes may release "
                "space; leave out engine, or give engine='pread'"
            )
        if share and mode != "r+":
            raise ArgumentError(
                f"share={share!r} is for writers; open with mode='r+', or without share"
            )
        asked = config.verify if verify is None else check_choice(verify, "verify", VERIFICATIONS)
        if recover is not None:
            check_flag(recover, "recover")
        place = _later.as_path(path, storage_options, cache)
        if not isinstance(place, Path):
            if mode != "r":
                raise _later.refuse_writing(place)
            if comm is not None:
                raise ArgumentError(
                    f"the ranks of a communicator open files together, and '{place}' is none: open "
                    "it without comm in each rank"
                )
            _later.check_options(place, timeout)
        return place, mode, timeout, engine, durability, asked, recover

    def writers() -> Writers:
        return Elements() if share == "elements" else Shared() if share else Alone()

    if comm is not None:
        opened: ExtArray = _later.together.open_together(comm, info, check, writers)
        return opened
    _check_alone(engine, info)
    asked = check()
    try:
        return ExtArray._open(*asked, writers())
    except MissingError as error:
        advice = _advice_on_file(asked[0])
        if advice is None:
            raise
        what = f"cannot open '{asked[0]}': {advice}"
        raise MissingError(error.errno, what, str(asked[0])) from None


def _advice_on_file(path: Any) -> str | None:
    """Say how to make an array of a file of another format; None if it is none."""
    is_there = isinstance(path, Path) and (
        path.is_file()
        or (path.suffix == ".zarr" and path.is_dir() and not any(path.glob(f"*{METADATA}")))
    )
    if not is_there:
        return None
    try:
        found = _upward.format_of(path)
    except ArgumentError:
        return None
    load = f"extarray.file_formats()[{found.name!r}].load"
    if found.source.__module__.startswith("extarray.formats."):
        load = f"extarray.from_{found.name}"
    how = hint(f"{load}({str(path)!r})", f"extarray import '{path}' PATH")
    return f"its suffix is of another format, {found.title}; {how} makes an array of it"


@public
def zeros(
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: Shape | None = None,
    order: Order | str = NOT_GIVEN,
    checksum: bool = NOT_GIVEN,
    compression: Any = NOT_GIVEN,
    like: Any = None,
) -> ExtArray:
    """Make an array of zeros.

    Parameters
    ----------
    shape, dtype, chunks, order, checksum, compression, like
        As for `create`.
    path : str, PathLike, or None
        Path of the pair of files; None: in memory.

    Returns
    -------
    ExtArray

    Examples
    --------
    >>> import extarray as xa
    >>> xa.zeros((2, 3), "i4")[...]
    array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    return create(
        path,
        shape,
        dtype,
        chunks=chunks,
        fill_value=0,
        order=order,
        checksum=checksum,
        compression=compression,
        like=like,
    )


@public
def empty(
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: Shape | None = None,
    order: Order | str = NOT_GIVEN,
    checksum: bool = NOT_GIVEN,
    compression: Any = NOT_GIVEN,
    like: Any = None,
) -> ExtArray:
    """Make an array whose elements the user will set: until then zero, or `like`'s fill value.

    Parameters
    ----------
    shape, dtype, path, chunks, order, checksum, compression, like
        As for `zeros`.

    Returns
    -------
    ExtArray

    Examples
    --------
    >>> import extarray as xa
    >>> xa.empty((2, 3)).shape
    (2, 3)
    """
    return create(
        path,
        shape,
        dtype,
        chunks=chunks,
        order=order,
        checksum=checksum,
        compression=compression,
        like=like,
    )


@public
def ones(
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: Shape | None = None,
    order: Order | str = NOT_GIVEN,
    checksum: bool = NOT_GIVEN,
    compression: Any = NOT_GIVEN,
    like: Any = None,
) -> ExtArray:
    """Make an array of ones; growth goes on with ones.

    Parameters
    ----------
    shape, dtype, path, chunks, order, checksum, compression, like
        As for `zeros`.

    Returns
    -------
    ExtArray

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.ones((1, 2))
    >>> a.extend(0, 1)
    >>> a[...]
    array([[1., 1.],
           [1., 1.]])
    """
    return create(
        path,
        shape,
        dtype,
        chunks=chunks,
        fill_value=1,
        order=order,
        checksum=checksum,
        compression=compression,
        like=like,
    )


@public
def full(
    shape: Shape | None = None,
    fill_value: Any = NOT_GIVEN,
    dtype: DTypeLike | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: Shape | None = None,
    order: Order | str = NOT_GIVEN,
    checksum: bool = NOT_GIVEN,
    compression: Any = NOT_GIVEN,
    like: Any = None,
) -> ExtArray:
    """Make an array of one value, the fill value; growth goes on with it.

    Parameters
    ----------
    shape, path, chunks, order, checksum, compression, like
        As for `zeros`.
    fill_value : scalar
    dtype : dtype_like, optional
        None: that of `like`, or of ``np.array(fill_value)``.

    Returns
    -------
    ExtArray

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.full((1, 2), 7)
    >>> a.extend(0, 1)
    >>> a[...]
    array([[7, 7],
           [7, 7]])
    """
    if fill_value is NOT_GIVEN:
        raise ArgumentTypeError("no fill value; give fill_value=")
    if dtype is None and like is None:
        dtype = np.array(fill_value).dtype
    return create(
        path,
        shape,
        dtype,
        chunks=chunks,
        order=order,
        fill_value=fill_value,
        checksum=checksum,
        compression=compression,
        like=like,
    )


@public
def from_array(
    x: ArrayLike,
    path: str | PathLike[str] | None = None,
    chunks: Shape | None = None,
    *,
    fill_value: Any = None,
    overwrite: bool = False,
    attrs: Mapping[str, Any] | None = None,
    dims: Sequence[str] | None = None,
    checksum: bool = NOT_GIVEN,
    sparse: bool | None = None,
    compression: Any = NOT_GIVEN,
    freeze: Literal["behind", "close", "never"] | str = NOT_GIVEN,
    significant_bits: int | None = None,
    like: Any = None,
    progress: Reported = True,
) -> ExtArray:
    """Make an array with the shape, the dtype and the elements of another.

    Parameters
    ----------
    x : array_like
        Also any object with ``shape``, ``dtype`` and slicing (h5py, zarr, netCDF4, dask, ...),
        which is read in blocks of at most ``config.max_memory`` bytes.  Masked elements get the
        fill value.
    path : str, PathLike, or None
        Path of the pair of files; None: in memory.
    chunks : int or sequence of int, optional
    fill_value : scalar, optional
    attrs : mapping, optional
    dims : sequence of str, optional
        As for `create`; None: those of a dataset of h5py or zarr, as far as extarray can hold them:
        chunks of at most ``config.max_memory`` bytes, attributes that are no references, the labels
        or scales of all axes.
    overwrite, checksum
        As for `create`.
    sparse : bool, optional
        Leave holes where there are only zeros, as for `create`; None: as `like` does, or as `x`, if
        `x` is an array of extarray, or a dataset of h5py or zarr with chunks never written.
    compression : str, int, Codec or None
        As for `create`, but all chunks are frozen at once.  Default: that of `like`, or None.
    freeze : {"behind", "close", "never"}
        As for `create`; with "never" chunks are not frozen at once either.
    significant_bits : int, optional
        Round floats to so many bits of the mantissa, 1 to 23 of float32 or to 52 of float64, so
        that they compress better; see Notes.  None: take them as they are.
    like : array, optional
        As for `create`, except for the shape, which is that of `x`.  Values are cast to its dtype
        by the rule ``same_kind``.
    progress : bool or callable
        Show how far the work has come, on a terminal or in a notebook; or a function, which is
        called with the bytes that are done, and with those in all.  An array in memory is written
        at once, without a bar; for a function in steps of 64 MiB.

    Returns
    -------
    ExtArray

    Notes
    -----
    The files get their names once they hold all elements: if reading `x` fails, or the process is
    killed meanwhile, an array that was to be overwritten is still there.

    With `compression`, chunks are frozen as soon as they are whole.  The space of all elements is
    reserved in the beginning nevertheless, unless the array is `sparse`.

    `significant_bits` loses what it rounds away, once: elements that are written later are stored
    as they are.  The relative error is at most ``2**-(significant_bits + 1)``: about 0.4 % for 7
    bits, 0.0005 % for 17.  NaN, infinities, the fill value, and elements that attributes declare as
    missing (``"_FillValue"``, ``"missing_value"``, ``"nodata"``) stay.  Complex numbers are rounded
    in both parts.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.from_array([[1, 2], [3, 4]])
    >>> a.append([[5, 6]])
    >>> a[...]
    array([[1, 2],
           [3, 4],
           [5, 6]])
    """
    if isinstance(x, Mapping):
        raise ArgumentTypeError(
            f"cannot make an array from a {type(x).__name__}: give one of its members"
        )
    if isinstance(x, (str, bytes, PathLike)) and not isinstance(x, (np.str_, np.bytes_)):
        raise ArgumentTypeError(
            f"cannot make an array from the string {x!r}: open a file with its library first; for "
            "text, give np.array of it"
        )
    given = {
        "chunks": chunks,
        "fill_value": NOT_GIVEN if fill_value is None else fill_value,
        "attrs": attrs,
        "dims": dims,
        "checksum": checksum,
        "sparse": NOT_GIVEN if sparse is None else sparse,
        "compression": compression,
        "freeze": freeze,
    }
    shape = np.shape(x) if like is not None else None
    options = {} if like is None else _options(like, shape, None, path, **given)
    fill = options.get("fill_value", fill_value)
    source = _later.as_source(
        x, None, lambda: np.zeros(1, np.asarray(x).dtype)[0] if fill is None else fill
    )
    dtype = h5py_compat.dtype_as_read(source)
    if like is None:
        options = {
            "shape": tuple(source.shape),
            "dtype": dtype,
            **h5py_compat.options_of(source, dtype),
        }
        options |= _given(**given)
        if "sparse" not in options and h5py_compat.is_sparse(source):
            options["sparse"] = True
    elif not np.can_cast(dtype, options["dtype"], "same_kind"):
        raise CastingError(
            f"cannot cast elements of {dtype} to {options['dtype']} under the rule 'same_kind'; "
            "cast them first with astype"
        )
    if progress is not True:
        check_progress(progress)
    is_ours = isinstance(source, (ExtArray, _later.LazyView))
    is_assigned = isinstance(source, (np.ndarray, Source)) and not is_ours
    with filled(path, overwrite=overwrite, **options) as new:
        rounding = rounding_of(significant_bits, new.dtype, new.fill_value, new.attrs)

        write = _later.writer(new, rounding)
        is_plain = write is _later.write_fresh and not callable(progress) and not leaves_holes(new)
        if is_assigned and is_plain:
            new[...] = source  # faster than in steps
            return new
        with _later.Progress(max(1, new.nbytes), "copy", progress) as line:
            if is_ours:
                _later.fill(new, source, line.add, write)
            elif is_assigned:
                for box in tiles(new.shape, new.chunks, new.itemsize, limit=limits.progress_bytes):
                    write(new, box, source[box])
                    line.add(prod(s.stop - s.start for s in box) * new.itemsize)
            else:
                _later.write_source(new, source, (0,) * new.ndim, new.shape, line.add, write)
    return new
