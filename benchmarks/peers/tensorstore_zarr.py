"""TensorStore with its zarr driver, which is faster here than n5."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from ..sizes import Layout
from .base import Peer

CONTEXT = {
    "cache_pool": {"total_bytes_limit": 2**31},
    "data_copy_concurrency": {"limit": 1},
    "file_io_concurrency": {"limit": 1},
    "file_io_sync": False,
    "file_io_mode": {"mode": "memmap"},
}


class Brackets:
    """TensorStore's asynchronous indexing behind NumPy's brackets."""

    def __init__(self, store: ts.TensorStore) -> None:
        self.store = store

    @property
    def shape(self) -> tuple[int, ...]:
        return self.store.shape

    def __getitem__(self, selection: Any) -> np.ndarray:
        return self.store[selection].read().result()

    def __setitem__(self, selection: Any, values: Any) -> None:
        self.store[selection].write(values).result()


class TensorStore(Peer):
    settings = (
        "zarr3 driver, uncompressed, memmap, no fsync, 2 GiB cache, rechecked at open only, "
        "one copy and one I/O thread"
    )

    def __init__(self, store: ts.TensorStore) -> None:
        self.array = Brackets(store)

    @classmethod
    def spec(cls, folder: Path) -> dict[str, Any]:
        return {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": os.fspath(folder / "array.zarr")},
            "context": CONTEXT,
            "recheck_cached_data": "open",
            "recheck_cached_metadata": "open",
        }

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> TensorStore:
        grid = {"name": "regular", "configuration": {"chunk_shape": layout.chunks}}
        metadata = {
            "shape": layout.shape,
            "data_type": np.dtype(layout.dtype).name,
            "chunk_grid": grid,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        }
        return cls(ts.open({**cls.spec(folder), "metadata": metadata}, create=True).result())

    @classmethod
    def open(cls, folder: Path) -> TensorStore:
        return cls(ts.open(cls.spec(folder), read=True).result())

    def read(self, selection: Any, order: str = "C") -> np.ndarray:
        return self.array.store[selection].read(order=order).result()

    def read_into(self, selection: Any, out: np.ndarray) -> np.ndarray:
        ts.array(out, copy=False, write=True).write(self.array.store[selection]).result()
        return out

    def grow(self, axis: int, by: int) -> None:
        shape = list(self.array.shape)
        shape[axis] += by
        self.array.store = self.array.store.resize(exclusive_max=shape).result()
