"""A dense TileDB array without filters."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import tiledb

from ..sizes import Layout, Unsupported
from .base import Peer

CONTEXT = tiledb.Ctx(
    {
        "sm.compute_concurrency_level": "1",
        "sm.io_concurrency_level": "1",
        "sm.mem.tile_upper_memory_limit": str(2**32),
        "sm.memory_budget": str(2**33),
    }
)
#: Extent of each axis of an array that grows: TileDB's domain is fixed, its current domain moves.
ROOM = 2**30


def current_domain(domain: tiledb.Domain, shape: tuple[int, ...]) -> tiledb.CurrentDomain:
    box = tiledb.NDRectangle(CONTEXT, domain)
    for axis, extent in enumerate(shape):
        box.set_range(f"axis{axis}", 0, extent - 1)
    current = tiledb.CurrentDomain(CONTEXT)
    current.set_ndrectangle(box)
    return current


class Brackets:
    """One array open for reading and for writing, with the bounds that TileDB does not show.

    A reader sees the fragments of the time when it opened: it reopens after a write.
    """

    def __init__(self, uri: str, shape: tuple[int, ...]) -> None:
        self.uri = uri
        self.shape = shape
        self.writer: tiledb.Array | None = None
        self.reader: tiledb.Array | None = None

    def open_writer(self) -> None:
        self.writer = tiledb.open(self.uri, "w", ctx=CONTEXT)

    def open_reader(self) -> None:
        self.reader = tiledb.open(self.uri, "r", ctx=CONTEXT)

    def bounded(self, selection: Any) -> tuple[Any, ...]:
        """Fill in the bounds, because TileDB's own are those of the domain."""
        if selection is Ellipsis:
            selection = (slice(None),) * len(self.shape)
        return tuple(
            slice(*item.indices(extent)) if isinstance(item, slice) else item
            for item, extent in zip(selection, self.shape, strict=True)
        )

    def __getitem__(self, selection: Any) -> Any:
        if self.reader is None:
            self.open_reader()
        return self.reader[self.bounded(selection)]

    def __setitem__(self, selection: Any, values: Any) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        bounds = self.bounded(selection)
        if any(isinstance(item, slice) and item.step != 1 for item in bounds):
            raise Unsupported("writes with steps")
        self.writer[bounds] = values

    def close(self) -> None:
        for handle in (self.reader, self.writer):
            if handle is not None:
                handle.close()
        self.reader = self.writer = None


class TileDB(Peer):
    settings = "dense, no filters, row-major, one compute and one I/O thread, 4 GiB of memory"

    def __init__(self, array: Brackets) -> None:
        self.array = array
        self.written = 0

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> TileDB:
        axes = [
            tiledb.Dim(
                f"axis{axis}",
                domain=(0, (ROOM if layout.growable else extent) - 1),
                tile=chunk if layout.growable else min(chunk, extent),
                dtype="int64",
                ctx=CONTEXT,
            )
            for axis, (extent, chunk) in enumerate(zip(layout.shape, layout.chunks, strict=True))
        ]
        domain = tiledb.Domain(*axes, ctx=CONTEXT)
        schema = tiledb.ArraySchema(
            domain,
            [tiledb.Attr("", dtype=layout.dtype, filters=tiledb.FilterList([]), ctx=CONTEXT)],
            ctx=CONTEXT,
        )
        if layout.growable:
            schema.set_current_domain(current_domain(domain, layout.shape))
        array = Brackets(os.fspath(folder / "array.tiledb"), layout.shape)
        tiledb.Array.create(array.uri, schema, ctx=CONTEXT)
        array.open_writer()
        return cls(array)

    @classmethod
    def open(cls, folder: Path) -> TileDB:
        array = Brackets(os.fspath(folder / "array.tiledb"), ())
        array.open_reader()
        array.shape = tuple(array.reader.shape)
        return cls(array)

    def pick(self, selection: Any) -> np.ndarray:
        # Points are ranges of one cell each, and each range costs as much as a box.
        raise Unsupported("selections by arrays")

    def put(self, selection: Any, values: np.ndarray) -> None:
        raise Unsupported("selections by arrays")

    def close(self) -> None:
        self.array.close()

    def tidy(self) -> None:
        """Keep the first fragment, which holds the whole array, and delete later ones."""
        now = int(time.time() * 1000) + 1
        if self.written:
            self.array.close()
            tiledb.Array.delete_fragments(self.array.uri, self.written, now, ctx=CONTEXT)
            self.array.open_writer()
        else:
            self.written = now
        time.sleep(0.002)  # TileDB tells fragments apart by the millisecond

    def grow(self, axis: int, by: int) -> None:
        shape = list(self.array.shape)
        shape[axis] += by
        evolution = tiledb.ArraySchemaEvolution(CONTEXT)
        domain = self.array.writer.schema.domain
        evolution.expand_current_domain(current_domain(domain, tuple(shape)))
        evolution.array_evolve(self.array.uri)
        self.array.shape = tuple(shape)

    def append(self, data: np.ndarray, axis: int) -> None:
        start = self.array.shape[axis]
        self.grow(axis, data.shape[axis])
        # A writer knows the bounds of the time when it opened.
        self.array.writer.close()
        self.array.open_writer()
        selection = [slice(None)] * data.ndim
        selection[axis] = slice(start, start + data.shape[axis])
        self.write(tuple(selection), data)
