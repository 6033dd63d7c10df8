"""How an array is shown: its facts, a line of text, and a picture for notebooks."""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from extarray.array.base import Stored
from extarray.common.formatting import SIZES_OF_FILES, Info
from extarray.common.lazy import LazyImports
from extarray.storage.memory import MemoryStore

if TYPE_CHECKING:
    from extarray.format.attrs import Attributes
    from extarray.grid.policy import Growth

__all__ = ["Shown", "html", "info", "text"]

_later = LazyImports({"html": "escape", "extarray.array.html": "describe"})


class Shown(Stored, Protocol):
    """An array with all that is shown of one."""

    @property
    def fill_value(self) -> Any: ...
    @property
    def growth(self) -> Growth: ...
    @property
    def attrs(self) -> Attributes: ...
    def info(self) -> Info: ...


def info(array: Shown) -> Info:
    """Return facts of an array; see `ExtArray.info`."""
    array._check()
    store, axial = array._store, array.axial
    logical = array.nbytes
    allocated = axial.size * array.chunk_bytes
    facts = Info(
        path=None if array.path is None else str(array.path),
        shape=array.shape,
        origin=array.origin,
        dims=array.dims,
        dtype=array.dtype,
        chunks=array.chunks,
        grid=array.grid,
        offset=store.offset,
        order=array.order,
        fill_value=array.fill_value,
        engine=store.engine,
        mode=array.mode,
        segments=axial.segments,
        records=tuple(len(axial.records(j)[0]) for j in range(array.ndim)),
        growth=array.growth,
        logical_bytes=logical,
        allocated_bytes=allocated,
        utilisation=logical / allocated if allocated else 1.0,
    )
    if not isinstance(store, MemoryStore):
        facts.update(
            sparse=store.header.sparse,
            checksum=store.header.checksum,
            uuid=store.header.uuid.hex(),
            file_bytes=store.file_bytes,
            disk_bytes=store.disk_bytes,
            metadata_bytes=store.metadata_bytes,
        )
    else:
        facts.update(dict.fromkeys(SIZES_OF_FILES, 0))
    facts["attrs"] = array.attrs.asdict()
    return facts


def text(array: Shown) -> str:
    """Return a line of text that shows an array."""
    where = "in memory" if array.path is None else f"'{array.path}', mode '{array.mode}'"
    if array.closed:
        return f"<extarray.ExtArray: {where}, closed>"
    return (
        f"<extarray.ExtArray: shape {array.shape}, {array.dtype}, chunks {array.chunks}, {where}>"
    )


def html(array: Shown) -> str:
    """Return what shows an array in a notebook: a table, its chunks, and how it grew."""
    if array.closed:
        return f"<code>{_later.escape(repr(array))}</code>"
    shown: str = _later.describe(array.info(), array.axial.segments, array.axial._growth)
    return shown
