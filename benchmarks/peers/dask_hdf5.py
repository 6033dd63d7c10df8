"""dask's arrays over the files of h5py."""

from .dask_arrays import BLOCK, Dask
from .hdf5 import H5pyCache


class DaskH5py(Dask, H5pyCache):
    settings = f"dask.array over h5py-cache, blocks of {BLOCK}"
