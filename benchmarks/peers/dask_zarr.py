"""dask's arrays over the files of zarr."""

from .dask_arrays import BLOCK, Dask
from .zarr_local import Zarr


class DaskZarr(Dask, Zarr):
    settings = f"dask.array over zarr, blocks of {BLOCK}"
