"""zarr-python 3 on a local directory, uncompressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype

from ..sizes import Layout
from .base import Peer

zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1})


class Zarr(Peer):
    settings = "zarr format 3, LocalStore, uncompressed, one worker"

    def __init__(self, array: zarr.Array) -> None:
        self.array = array

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> Zarr:
        # Write empty chunks, too: looking for them costs time.
        return cls(
            zarr.create_array(
                zarr.storage.LocalStore(folder / "array.zarr"),
                shape=layout.shape,
                chunks=layout.chunks,
                dtype=layout.dtype,
                compressors=None,
                filters=None,
                config={"write_empty_chunks": True},
            )
        )

    @classmethod
    def open(cls, folder: Path) -> Zarr:
        return cls(zarr.open_array(zarr.storage.LocalStore(folder / "array.zarr"), mode="r"))

    def read_into(self, selection: Any, out: np.ndarray) -> np.ndarray:
        buffer = default_buffer_prototype().nd_buffer.from_numpy_array(out)
        self.array.get_basic_selection(selection, out=buffer)
        return out

    def _brackets(self, selection: Any) -> Any:
        """Return the brackets that suit a selection: orthogonal for rows, else vectorized."""
        is_rows = isinstance(selection, np.ndarray) and selection.dtype != bool
        return self.array.oindex if is_rows else self.array.vindex

    def pick(self, selection: Any) -> np.ndarray:
        return self._brackets(selection)[selection]

    def put(self, selection: Any, values: np.ndarray) -> None:
        self._brackets(selection)[selection] = values

    def grow(self, axis: int, by: int) -> None:
        shape = list(self.array.shape)
        shape[axis] += by
        self.array.resize(tuple(shape))
