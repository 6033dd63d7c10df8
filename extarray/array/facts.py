"""Facts of an array: what its store says, whether it may be used, and how it is shown."""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex

import numpy as np

from extarray.array.encodings import encoding_of
from extarray.common.errors import (
    ArgumentError,
    ClosedError,
    LossyWarning,
    ReadOnlyError,
    RecoveryWarning,
)
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports, LazyModule, Upward
from extarray.format.attrs import decode_attrs, encode_attrs
from extarray.grid.chunking import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from threading import RLock

    from numpy.typing import ArrayLike, NDArray

    from extarray._core._axial import Axial
    from extarray._core._mapping import Region
    from extarray._core._state import Frame
    from extarray.codecs.codec import Codec
    from extarray.common import formatting
    from extarray.common.formatting import Info
    from extarray.format import labels
    from extarray.format.attrs import Attributes
    from extarray.grid.policy import GrowthPolicy
    from extarray.storage.file_store import FileStore
    from extarray.storage.memory import MemoryStore
    from extarray.storage.store import Reader, Store
else:
    formatting = LazyModule("extarray.common.formatting")
    labels = LazyModule("extarray.format.labels")

__all__ = [
    "Pictures",
    "Resizable",
    "Shown",
    "Stored",
    "Writers",
    "check",
    "check_sole",
    "compression",
    "fill_value",
    "freezable",
    "holes",
    "html",
    "html_of_view",
    "info",
    "leaves_holes",
    "pictures",
    "save_attrs",
    "set_dims",
    "set_policy",
    "tell_lost",
    "text",
    "warn_if_unvouched",
    "zarr_references",
    "zarr_store",
]

_later = LazyImports(
    {
        "html": "escape",
        "extarray.codecs.codec": "Codec",
        "extarray.common.terminal": "printable",
        "extarray.grid.address_runs": "runs_together",
        "extarray.grid.html": "describe describe_view",
        "extarray.grid.policy": "encode_policy",
        "extarray.streaming.warnings": "warn",
    }
)


class Writers(Protocol):
    """A policy: how the writers of an array share it.

    An array gets its policy when it is opened.  For a sole writer the three locks are one.

    Attributes
    ----------
    resizing : context manager
        Held by changes of the bounds.
    committing : context manager
        Held by commits that leave the bounds.
    steady : RLock
        Held by those who need bounds that stay.
    """

    @property
    def resizing(self) -> AbstractContextManager[Any]: ...
    @property
    def committing(self) -> AbstractContextManager[Any]: ...
    @property
    def steady(self) -> RLock: ...
    def open(
        self,
        path: Path,
        mode: str,
        timeout: float | None,
        engine: str,
        durability: str,
        verify: str | None,
        recover: bool | None = None,
    ) -> tuple[FileStore, Axial]:
        """Open a pair of files, as a store that its writers share by this policy."""

    def serve(self, array: Any) -> None:
        """Serve as the policy of an open array."""

    def make_locks(self) -> None:
        """Make fresh locks: in a forked child, a thread of the parent may have held them."""

    def is_still(self) -> bool:
        """Take the locks of the array if no other thread holds one; tell whether it did."""

    def append(self, array: Any, data: ArrayLike, axis: SupportsIndex | str, side: Any) -> None:
        """Grow an axis by data."""

    def refresh(self, array: Any, on_replaced: Literal["raise", "reopen"]) -> bool:
        """Take up what others have committed; return whether anything was new."""

    def flush(self, array: Any) -> None:
        """Bring everything to the disk."""

    def close(self, array: Any) -> None:
        """Let go of the files, and of the writer's locks."""


class Stored(Protocol):
    """An array with a store, as the functions of this room see it.

    A module that needs more states it in a protocol of its own.
    """

    _writers: Writers
    _handle: str  # unique: another array on the same files has another one
    _filling: bool  # an append is running, which may run any code

    @property
    def _store(self) -> FileStore | MemoryStore: ...
    @property
    def axial(self) -> Axial: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def order(self) -> str: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def chunk_bytes(self) -> int: ...
    @property
    def grid(self) -> tuple[int, ...]: ...
    @property
    def origin(self) -> tuple[int, ...]: ...
    @property
    def dims(self) -> tuple[str, ...] | None: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def mode(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def _name(self) -> str: ...
    def _check(self, what: str | None = None) -> None: ...
    def _check_axes(self, ndim: int) -> None: ...
    def _axis(self, axis: SupportsIndex | str) -> int: ...
    def _read_only(self, what: str) -> ReadOnlyError: ...
    def _load_attrs(self) -> str: ...
    def _save_attrs(self, change: Callable[[], str | None]) -> None: ...


class Resizable(Protocol):
    """An array whose bounds move, as its store and its core see it."""

    _filling: bool

    _writers: Writers

    @property
    def _store(self) -> Store: ...
    @property
    def axial(self) -> Axial: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def grid(self) -> tuple[int, ...]: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def chunk_bytes(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def fill_value(self) -> Any: ...
    @property
    def attrs(self) -> Any: ...
    @property
    def _grid_bytes(self) -> int: ...
    @property
    def _region(self) -> Region | None: ...
    def _axis(self, axis: SupportsIndex | str) -> int: ...
    def _name(self) -> str: ...
    def _check(self, what: str | None = None) -> None: ...
    def _attach_store(self) -> None: ...
    def _place_elements(self) -> None: ...
    def _set_bounds(self, shape: Sequence[int], offset: Sequence[int]) -> None: ...
    def _forget_touched(self) -> None: ...
    def _read_box(self, start: Sequence[int], stop: Sequence[int]) -> NDArray[Any]: ...
    def _write_box(
        self, start: Sequence[int], stop: Sequence[int], values: NDArray[Any]
    ) -> None: ...


def compression(array: Stored) -> Codec | None:
    """Return the codec of chunks that are frozen from now on; see `ExtArray.compression`."""
    header = array._store.now.header
    codec: Codec | None
    codec = _later.Codec.parse(header.encoding.get("codec", header.compression))
    return codec


def freezable(array: Any) -> Any:
    """Return an array whose chunks may be frozen, or raise."""
    if array._store.now.frozen is None:
        check(array)
        how = "copy it to files"
        if array.path is not None:
            shell = "extarray copy --compression makes a compressed copy"
            how = hint("set its attribute compression", shell)
        raise ArgumentError(
            f"{array._name()} has no compression, so none of its chunks is ever frozen; {how}"
        )
    return array


def fill_value(array: Stored) -> Any:
    """Return the value of elements that were never written; see `ExtArray.fill_value`."""
    header = array._store.now.header
    return np.frombuffer(header.fill, header.dtype)[0]


def leaves_holes(array: Stored) -> bool:
    """Tell whether growth takes no space: chunks are holes until they are written."""
    header = array._store.now.header
    return header.sparse and not any(header.fill)


class Framed(Stored, Protocol):
    """An array with a frame, which shows one moment."""

    @property
    def _frame(self) -> Frame: ...
    def _read_box(self, start: Sequence[int], stop: Sequence[int]) -> NDArray[Any]: ...


def holes(array: Framed) -> Callable[[Box], bool] | None:
    """Return a function that tells whether a box of elements lies in holes alone.

    None where there are no holes, where chunks come from elsewhere, or where they are compared with
    their checksums: a hole in place of elements is damage.
    """
    files: Reader | None = array._store.files
    if files is None:
        return None
    now = files.now
    if any(now.header.fill) or (now.header.checksum and now.verify != "never"):
        return None
    if not files.has_holes():
        return None
    axial, offset, chunks = array.axial, array._frame.offset, array.chunks

    def is_hole(box: Box) -> bool:
        places = list(zip(box, offset, chunks, strict=True))
        first = tuple((s.start + b) // c for s, b, c in places)
        stop = tuple(-(-(s.stop + b) // c) for s, b, c in places)
        return all(
            files.all_holes(starts, stops)
            for starts, stops in _later.runs_together(axial, first, stop)
        )

    return is_hole


# Paths of arrays for which this process has warned of unvouched elements.
_told: set[str] = set()
# At most this many chunks are looked at, and this many bytes of each.
_LOOKED_AT, _LOOKED_AT_BYTES = 64, 1 << 20


def warn_if_unvouched(array: Framed) -> None:
    """Warn, once a process and path, of elements that nothing vouches for.

    In a copy, warn only where the newest of them look unwritten: files that were copied in the
    right order, ``.xmd`` first, have them.
    """
    files: Reader | None = array._store.files
    unvouched = None if files is None else files.unvouched
    if files is None or unvouched is None or files.absolute in _told:
        return
    if not unvouched.is_copy:
        why = "the system went down since"
        what = "they were not flushed, and may be zeros, or older values"
    elif _are_empty(array, unvouched.newest):
        why = "these files are a copy of those that it wrote"
        what = "the newest chunks are empty, as if .xta had been copied before .xmd"
    else:
        return
    _told.add(files.absolute)
    warnings.warn(
        f"{array._name()} was not closed by its writer, and {why}: the elements {unvouched} are "
        f"not verified; {what}.  Compare them with their source, or copy the array again with "
        "extarray copy; "
        + hint("opening it with mode='r+'", "the next command that changes it")
        + " marks it as complete",
        RecoveryWarning,
        stacklevel=4,
    )


def _are_empty(array: Framed, boxes: Sequence[Box]) -> bool:
    """Tell whether, in some boxes, a chunk has only zero bytes or the fill value.

    Only some chunks are looked at if there are many, and only the end of large ones.
    """
    fill = np.frombuffer(array._store.now.header.fill, np.uint8)
    for box in boxes:
        places = zip(box, array._frame.offset, array.chunks, strict=True)
        edges = [
            [s.start, *range(s.start + c - (s.start + b) % c, s.stop, c), s.stop]
            for s, b, c in places
        ]
        shape = [len(e) - 1 for e in edges]
        n = math.prod(shape)
        for number in range(0, n, max(1, n // _LOOKED_AT)):
            at = np.unravel_index(number, shape)
            low, high = ([e[i + k] for e, i in zip(edges, at, strict=True)] for k in (0, 1))
            room = max(1, _LOOKED_AT_BYTES // fill.size)
            for j in reversed(range(len(low))):
                low[j] = max(low[j], high[j] - room)
                room = max(1, room // (high[j] - low[j]))
            raw = array._read_box(low, high).reshape(-1).view(np.uint8).reshape(-1, fill.size)
            if not raw.any() or (raw == fill).all():
                return True
    return False


# -- permission to use it ------------------------------------------------------------------------


# Messages name so the calls that writers of elements may make.
_TO_ELEMENTS = ("write to", "accumulate to")


def check(array: Stored, what: str | None = None) -> None:
    """Raise if an array is closed, or if `what` would change a read-only one."""
    if array.closed:
        raise ClosedError(f"{array._name()} is closed; open it again with extarray.open")
    if what is not None:
        now = array._store.now
        if now.mode != "r+" or (now.elements_only and what not in _TO_ELEMENTS):
            raise array._read_only(what)


def check_sole(array: Stored, what: str) -> None:
    """Raise if `what` is impossible because this process is not the only writer.

    `what` contains the array's name.
    """
    now = array._store.now
    if now.elements_only:
        raise ReadOnlyError(
            f"cannot {what}: it was opened with share='elements', which only writes elements "
            "within the bounds; open it with mode='r+', without share"
        )
    if now.others is not None:
        raise ArgumentError(f"cannot {what} while writers share it; open it alone")


# -- facts that can be changed -------------------------------------------------------------------


def set_dims(array: Stored, dims: Sequence[str] | None) -> None:
    """Name the axes, or remove their names."""

    def change() -> str | None:
        values = decode_attrs(array._load_attrs())
        if dims is not None:
            values["dims"] = labels.check_dims(dims, array.ndim)
        elif "dims" in values:
            del values["dims"]
        else:
            return None
        return encode_attrs(values)

    array._save_attrs(change)


def set_policy(array: Stored, growth: GrowthPolicy) -> None:
    """Set a growth policy, in one commit."""
    value = _later.encode_policy(growth)
    with array._writers.resizing:
        array._check("change the growth policy of")
        array._store.set_growth(value)


def save_attrs(array: Stored, change: Callable[[], str | None]) -> None:
    """Commit the attributes that `change` returns; None: leave them."""
    # The lock keeps threads from losing each other's changes.
    with array._writers.committing:
        attrs = change()
        if attrs is not None:
            array._check("change the attributes of")
            array._store.set_attrs(labels.attrs_at(attrs, array.origin))


def tell_lost(what: str, lost: list[str]) -> None:
    """Warn, in one warning, of everything that a new array cannot hold."""
    if lost:
        _later.warn(f"{what}: the array does not have {'; '.join(lost)}", LossyWarning)


# -- display -------------------------------------------------------------------------------------


class Shown(Stored, Protocol):
    """An array with everything that is shown of one."""

    @property
    def fill_value(self) -> Any: ...
    @property
    def growth(self) -> GrowthPolicy: ...
    @property
    def attrs(self) -> Attributes: ...
    def info(self) -> Info: ...


def info(array: Shown) -> Info:
    """Return facts of an array; see `ExtArray.info`."""
    array._check()
    store, axial = array._store, array.axial
    now = store.now
    logical = array.nbytes
    allocated = place_of(axial.size, array.chunk_bytes)
    facts = formatting.Info(
        path=None if array.path is None else str(array.path),
        shape=array.shape,
        origin=array.origin,
        dims=array.dims,
        dtype=array.dtype,
        chunks=array.chunks,
        grid=array.grid,
        offset=now.state.offset,
        order=array.order,
        fill_value=array.fill_value,
        engine=now.engine,
        mode=array.mode,
        segments=axial.segments,
        records=tuple(len(axial.records(j)[0]) for j in range(array.ndim)),
        growth=array.growth,
        logical_bytes=logical,
        allocated_bytes=allocated,
        utilisation=logical / allocated if allocated else 1.0,
    )
    files: Reader | None = store.files
    if files is not None:
        facts.update(
            sparse=files.now.header.sparse,
            checksum=files.now.header.checksum,
            uuid=files.now.header.uuid.hex(),
            file_bytes=files.file_bytes,
            disk_bytes=files.disk_bytes,
            metadata_bytes=files.metadata_bytes,
        )
        facts.update(files.traffic)
        header = files.now.header
        if header.has_blobs:
            frozen, stored = files.now.frozen, files.file_bytes
            facts["compression"] = encoding_of(header).get("compression")
            if frozen is None:
                facts["chunk_order"] = header.chunk_order
            else:
                stored = files.disk_bytes
                facts["freeze"] = frozen.policy
                facts["frozen_chunks"] = frozen.count(axial.size)
            facts.update(stored_bytes=stored, ratio=logical / stored if stored else 1.0)
    else:
        facts.update(dict.fromkeys(formatting.SIZES_OF_FILES, 0))
    facts["attrs"] = array.attrs.asdict()
    return facts


def frozen_among(array: Any, addresses: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Tell which of some chunks are frozen; None: none of this array ever is."""
    store = getattr(array, "_store", None)
    frozen = None if store is None else store.now.frozen
    if frozen is None:
        return None
    found: NDArray[np.bool_] = frozen.entries(addresses.reshape(-1)) != 0
    return found.reshape(addresses.shape)


def store_of(array: Stored) -> Any:
    """Return the store of an array that has files, which may be on a server or in a bucket."""
    return array._store.files


def text(array: Shown) -> str:
    """Return a line of text that shows an array."""
    where = "in memory" if array.path is None else f"'{array.path}', mode '{array.mode}'"
    if array.closed:
        return f"<extarray.ExtArray: {where}, closed>"
    codec = encoding_of(array._store.now.header).get("compression")
    return (
        f"<extarray.ExtArray: shape {array.shape}, {array.dtype}, chunks {array.chunks}, "
        f"{'' if codec is None else f'{_later.printable(codec)}, '}{where}>"
    )


class Grown(Protocol):
    """Axial vectors that tell how they grew."""

    @property
    def segments(self) -> int: ...
    def _grid_after(self, segment: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]: ...


def html(array: Shown) -> str:
    """Return an array as HTML for a notebook: a table, its chunks, and how it grew."""
    if array.closed:
        return f"<code>{_later.escape(repr(array))}</code>"
    axial: Grown = array.axial
    shown: str = _later.describe(array.info(), axial.segments, axial._grid_after)
    return shown


def html_of_view(view: Any, array: Shown, index: str) -> str:
    """Return a view as HTML for a notebook: a table; `index` selects the view in the array."""
    facts = {name: getattr(view, name) for name in ("shape", "chunks", "dtype", "dims")}
    facts.update(bytes=view.nbytes, index=index)
    shown: str = _later.describe_view(facts, array.info())
    return shown


Box = tuple[slice, ...]


class Pictures(Protocol):
    """The pictures of an array; `extarray.plot.Plots` says what they show."""

    def __call__(self, ax: Any = None, **options: Any) -> Any: ...
    def growth(self, ax: Any = None, **options: Any) -> Any: ...
    def slice(self, ax: Any = None, **options: Any) -> Any: ...
    def layout(self, selection: Any = None, ax: Any = None, **options: Any) -> Any: ...
    def zones(
        self,
        n: int,
        ax: Any = None,
        *,
        kind: str = "block",
        block: Any = 1,
        process_grid: Sequence[int] | None = None,
        **options: Any,
    ) -> Any: ...
    def boxes(
        self,
        n: int,
        kind: str = "block",
        block: Any = 1,
        process_grid: Sequence[int] | None = None,
    ) -> Sequence[Sequence[Box]]: ...
    def plan(self, plan: Any, ax: Any = None, **options: Any) -> Any: ...


_upward = Upward(
    {
        "extarray.interop.kerchunk": "references",
        "extarray.interop.zarr_store": "ZarrStore",
        "extarray.plot.accessor": "Plots",
    }
)


def pictures(array: Shown) -> Pictures:
    """Return the pictures of an array."""
    made: Pictures = _upward.Plots(array)
    return made


def zarr_store(source: Any, name: str | None, follow: bool, encoded: bool, ome: Any = False) -> Any:
    """Return a `ZarrStore` of an array or a group."""
    return _upward.ZarrStore(source, name, follow, encoded, ome)


def zarr_references(source: Any, name: str | None, zarr_format: int, url: str | None) -> Any:
    """Return references to the chunks of an array or a group; see `ExtArray.to_kerchunk`."""
    return _upward.references(source, name, zarr_format, url)
