"""dask's arrays over the files of h5py and of zarr: what people compute with out of core."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np

from .base import Peer
from .hdf5 import H5pyCache
from .zarr_local import Zarr

#: Bytes of a block of dask's: of 2 to 256 MiB none was clearly faster.
BLOCK = "64 MiB"


class _Dask(Peer):
    """Computes with dask; a subclass says whose files.

    No lock: h5py has its own, and no two blocks have a chunk in common.
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


class DaskH5py(_Dask, H5pyCache):
    settings = f"dask.array over h5py-cache, blocks of {BLOCK}"


class DaskZarr(_Dask, Zarr):
    settings = f"dask.array over zarr, blocks of {BLOCK}"
