"""The candidates: one adapter per library, at its best settings.

A library is imported only when its candidate is loaded; the others work without it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ..sizes import MEMMAP, NUMPY, OTHERS, OURS
from .base import Peer

#: Name of a candidate: (packages, module in this folder, class).
CANDIDATES = {
    NUMPY: ("numpy", "numpy_arrays", "InMemory"),
    MEMMAP: ("numpy", "numpy_arrays", "Mapped"),
    "extarray-mmap": ("extarray", "ours", "MmapEngine"),
    "extarray-pread": ("extarray", "ours", "PreadEngine"),
    "h5py": ("h5py", "hdf5", "H5pyDefault"),
    "h5py-cache": ("h5py", "hdf5", "H5pyCache"),
    "zarr": ("zarr", "zarr_local", "Zarr"),
    "zarr-zarrs": ("zarr zarrs", "zarr_zarrs", "ZarrWithZarrs"),
    "tensorstore": ("tensorstore", "tensorstore_zarr", "TensorStore"),
    "tiledb": ("tiledb", "tiledb_dense", "TileDB"),
    "blosc2": ("blosc2", "blosc2_frame", "Blosc2"),
    "dask-h5py": ("dask h5py", "dask_hdf5", "DaskH5py"),
    "dask-zarr": ("dask zarr", "dask_zarr", "DaskZarr"),
    OTHERS[0]: ("extarray", "ours", "MmapEngine"),
    OTHERS[1]: ("extarray", "ours", "PreadEngine"),
}
#: The libraries to compare with.
LIBRARIES = tuple(n for n in CANDIDATES if n not in (NUMPY, MEMMAP, *OURS, *OTHERS))


def installed(name: str) -> bool:
    """Tell whether the candidate's packages are installed, without importing them."""
    return all(find_spec(package) is not None for package in CANDIDATES[name][0].split())


def library_version(name: str) -> str:
    try:
        return version(CANDIDATES[name][0].split()[0])
    except PackageNotFoundError:
        return "not installed but found"


def load(name: str, checkout: Path | None = None) -> type[Peer]:
    """Import the candidate's library, from a built checkout if given; return its adapter."""
    _, module, class_name = CANDIDATES[name]
    if checkout is not None:
        sys.path.insert(0, str(checkout))
    adapter = import_module(f"{__name__}.{module}")
    if checkout is not None and not Path(adapter.xa.__file__).is_relative_to(checkout):
        raise ImportError(f"{adapter.xa.__file__} is not in {checkout}: import no extarray before")
    return getattr(adapter, class_name)
