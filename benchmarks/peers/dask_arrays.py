"""dask's arrays over files of other libraries: a common way to compute out of core."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np

from .base import Peer

#: Bytes of a block of dask's: no size from 2 to 256 MiB was clearly faster.
BLOCK = "64 MiB"


class Dask(Peer):
    """Computes with dask; a subclass chooses the files.

    Needs no lock: h5py has its own, and no two blocks share a chunk.
    """

    @classmethod
    def set_threads(cls, count: int) -> None:
        scheduler = "synchronous" if count == 1 else "threads"
        dask.config.set(scheduler=scheduler, num_workers=count, **{"array.chunk-size": BLOCK})

    @property
    def _blocks(self) -> da.Array:
        # Without a name dask would read everything to make one.
        return da.from_array(self.array, chunks="auto", name=False, lock=False)

    def total(self) -> float:
        return self._blocks.sum().compute()

    def mean(self, axis: int) -> np.ndarray:
        return self._blocks.mean(axis=axis).compute()

    def add_one(self) -> None:
        da.store(self._blocks + 1, self.array, lock=False)

    def square_roots(self, out: Peer) -> None:
        da.store(da.sqrt(self._blocks), out.array, lock=False)
