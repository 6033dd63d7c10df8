"""Dense N-d arrays, on disk and in memory, that grow along any axis without moving data.

`create`, `open`, `zeros`, `ones`, `full`, `empty` and `from_array` give an `ExtArray`, which works
like a NumPy array, and grows by `extend`, `append` and `resize`.  `config` has the settings,
`check` checks files, `rechunk` makes arrays with other chunks.  All errors belong to the family
`ExtArrayError`.

>>> import extarray as xa
>>> a = xa.zeros((2, 3))
>>> a.extend(axis=1, by=2)
>>> a.shape
(2, 5)
"""

import sys
from typing import TYPE_CHECKING, Any

if sys.byteorder != "little":
    raise ImportError(
        "extarray does not support big-endian machines such as this one: it is untested there, "
        "and might write files that others cannot read; docs/format says how to read existing "
        "files",
        name=__name__,
    )

from extarray import errors

try:
    from extarray._core._axial import Axial
except ModuleNotFoundError as error:
    if error.name != "extarray._core._axial":
        raise
    raise ImportError(
        f"the extarray in {__path__[0]!r} is source code that is not built, and hides the one that "
        "is installed, if any: start Python in another folder, or build this one, with "
        "'pip install -e .'",
        name=error.name,
    ) from None
from extarray.array.array import ExtArray
from extarray.array.creation import create, empty, from_array, full, ones, open, zeros
from extarray.common.config import config
from extarray.common.errors import *  # noqa: F403
from extarray.common.errors import __all__ as _error_names
from extarray.common.lazy import LazyImports

if TYPE_CHECKING:
    from extarray.array.folders import Group, open_group, pack
    from extarray.array.group import close_all, commit, refresh
    from extarray.array.publishing import Publication, publish
    from extarray.array.pyramid import Pyramid, pyramid
    from extarray.array.rechunk import rechunk, rechunk_plan
    from extarray.codecs.codec import Codec
    from extarray.formats.envi import from_envi, to_envi
    from extarray.formats.fits import from_fits, to_fits
    from extarray.formats.flat import (
        from_npy,
        from_npz,
        from_raw,
        fromfile,
        to_npy,
        to_npz,
        to_raw,
    )
    from extarray.formats.geotiff import from_geotiff, to_geotiff
    from extarray.formats.hdf5 import from_hdf5, to_hdf5
    from extarray.formats.mapped import MappedArray, map_hdf5, map_netcdf
    from extarray.formats.mat import from_mat, to_mat
    from extarray.formats.netcdf import from_netcdf, to_netcdf
    from extarray.formats.ome_zarr import from_ome_zarr, to_ome_zarr
    from extarray.formats.registry import file_formats
    from extarray.formats.tables import from_csv
    from extarray.formats.tiff import from_tiff, to_tiff
    from extarray.formats.zarr import from_zarr, to_zarr
    from extarray.maintenance.advice import advise_chunks
    from extarray.maintenance.check import check
    from extarray.maintenance.group_index import index_group
    from extarray.maintenance.packing import unpack
    from extarray.numpy_api.c_order import ndenumerate
    from extarray.storage.report import Problem, Report

_later = LazyImports(
    {
        "extarray.array.folders": "Group open_group pack",
        "extarray.array.group": "close_all commit refresh",
        "extarray.array.publishing": "Publication publish",
        "extarray.array.pyramid": "Pyramid pyramid",
        "extarray.array.rechunk": "rechunk rechunk_plan",
        "extarray.codecs.codec": "Codec",
        "extarray.formats.envi": "from_envi to_envi",
        "extarray.formats.fits": "from_fits to_fits",
        "extarray.formats.flat": "from_npy from_npz from_raw fromfile to_npy to_npz to_raw",
        "extarray.formats.geotiff": "from_geotiff to_geotiff",
        "extarray.formats.hdf5": "from_hdf5 to_hdf5",
        "extarray.formats.mapped": "MappedArray map_hdf5 map_netcdf",
        "extarray.formats.mat": "from_mat to_mat",
        "extarray.formats.netcdf": "from_netcdf to_netcdf",
        "extarray.formats.ome_zarr": "from_ome_zarr to_ome_zarr",
        "extarray.formats.registry": "file_formats",
        "extarray.formats.tables": "from_csv",
        "extarray.formats.tiff": "from_tiff to_tiff",
        "extarray.formats.zarr": "from_zarr to_zarr",
        "extarray.maintenance.advice": "advise_chunks",
        "extarray.maintenance.check": "check",
        "extarray.maintenance.group_index": "index_group",
        "extarray.maintenance.packing": "unpack",
        "extarray.numpy_api.c_order": "ndenumerate",
        "extarray.storage.report": "Problem Report",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _later:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_later, name)
    return value


__version__ = "0.1.0"

__all__ = [
    "Axial",
    "Codec",
    "ExtArray",
    "Group",
    "MappedArray",
    "Problem",
    "Publication",
    "Pyramid",
    "Report",
    "advise_chunks",
    "check",
    "close_all",
    "commit",
    "config",
    "create",
    "empty",
    "errors",
    "file_formats",
    "from_array",
    "from_csv",
    "from_envi",
    "from_fits",
    "from_geotiff",
    "from_hdf5",
    "from_mat",
    "from_netcdf",
    "from_npy",
    "from_npz",
    "from_ome_zarr",
    "from_raw",
    "from_tiff",
    "from_zarr",
    "fromfile",
    "full",
    "index_group",
    "map_hdf5",
    "map_netcdf",
    "ndenumerate",
    "ones",
    "open",
    "open_group",
    "pack",
    "publish",
    "pyramid",
    "rechunk",
    "rechunk_plan",
    "refresh",
    "to_envi",
    "to_fits",
    "to_geotiff",
    "to_hdf5",
    "to_mat",
    "to_netcdf",
    "to_npy",
    "to_npz",
    "to_ome_zarr",
    "to_raw",
    "to_tiff",
    "to_zarr",
    "unpack",
    "zeros",
]
__all__ += _error_names


def __dir__() -> list[str]:
    # Only names to import: the modules below belong to the package.
    return [*__all__, "__version__"]
