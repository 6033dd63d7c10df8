"""h5py, with HDF5's default chunk cache and with one as large as the data."""

from __future__ import annotations

from math import ceil, prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..sizes import Layout
from .base import Peer


class H5pyDefault(Peer):
    settings = "libver='latest', default chunk cache (8 MiB), no file locking"
    replays = True

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.array = file.get("array")

    @classmethod
    def cache(cls, layout: Layout) -> dict[str, int]:
        """Return the settings of the chunk cache."""
        return {}

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> H5pyDefault:
        file = h5py.File(
            folder / "array.h5", "w", libver="latest", locking=False, **cls.cache(layout)
        )
        # A fixed shape has a simpler, faster chunk index.
        maxshape = (None,) * len(layout.shape) if layout.growable else None
        file.create_dataset(
            "array", layout.shape, layout.dtype, chunks=layout.chunks, maxshape=maxshape
        )
        return cls(file)

    @classmethod
    def open(cls, folder: Path) -> H5pyDefault:
        return cls(h5py.File(folder / "array.h5", "r", libver="latest", locking=False))

    def close(self) -> None:
        self.file.close()

    def read_into(self, selection: Any, out: np.ndarray) -> np.ndarray:
        self.array.read_direct(out, selection)
        return out

    def pick(self, selection: Any) -> np.ndarray:
        if isinstance(selection, tuple):
            values = np.empty(len(selection[0]), self.array.dtype)
            self.array.id.read(*self._points(selection), values)
            return values
        if selection.dtype == bool:
            return self.array[selection]
        # HDF5 requires increasing rows.
        order = np.argsort(selection)
        rows = np.empty((len(order), *self.array.shape[1:]), self.array.dtype)
        rows[order] = self.array[selection[order]]
        return rows

    def put(self, selection: Any, values: np.ndarray) -> None:
        if isinstance(selection, tuple):
            self.array.id.write(*self._points(selection), values)
        elif selection.dtype == bool:
            self.array[selection] = values
        else:
            order = np.argsort(selection)
            self.array[selection[order]] = values[order]

    def _points(self, indices: tuple[np.ndarray, ...]) -> tuple[h5py.h5s.SpaceID, ...]:
        """Return spaces of points, in memory and in the file: only low-level HDF5 takes points."""
        memory = h5py.h5s.create_simple((len(indices[0]),))
        file = self.array.id.get_space()
        file.select_elements(np.stack(indices, axis=1))
        return memory, file

    def grow(self, axis: int, by: int) -> None:
        self.array.resize(self.array.shape[axis] + by, axis)


class H5pyCache(H5pyDefault):
    settings = "as h5py, rdcc_nbytes=2 GiB (more than the data), one hash slot a chunk"

    @classmethod
    def cache(cls, layout: Layout) -> dict[str, int]:
        grid = (ceil(n / c) for n, c in zip(layout.shape, layout.chunks, strict=True))
        # HDF5 hashes a chunk by its indices, side by side in bits: none collide with this many
        # slots.
        slots = prod(1 << (n - 1).bit_length() for n in grid)
        return {"rdcc_nbytes": 2**31 - 1, "rdcc_nslots": min(max(slots, 10_000), 10**6) + 1}
