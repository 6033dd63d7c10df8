"""Files of other formats: read into arrays and written from them, chunk by chunk.

A format is a module with a `Format` in it, which `registry` finds by its name and by the suffixes
of its files.  A package of somebody else adds one by an entry point of the group
"extarray.formats".  One of ours needs a module with a `Format` (at least name, title, suffixes and
`source`; `sink` to write, `names` for several arrays, `edit` to be mapped), which is entered in
`registry._ours`; functions ``from_...`` and ``to_...``, named in ``extarray/__init__``, whose
common parameters are those of the other formats (``tests/formats/test_signatures.py``); and an
extra in ``pyproject.toml``, if it needs a library.

From the top down; each module uses some of those below it, and none above:

``registry``
    Look up formats by name and by suffix.
``mapped``
    Arrays that are mapped from a dataset of another format, extended, and written back.
``hdf5``
    HDF5 datasets, through h5py.
``netcdf``
    netCDF 3 and 4: variables with their dimensions and coordinates, through netCDF4.
``zarr``
    Zarr 2 and 3: arrays in stores, through zarr-python.
``geotiff``
    GeoTIFF: rasters of bands, with their georeferencing, through rasterio.
``mat``
    MATLAB matrices in .mat files: version 5 through SciPy, version 7.3 through h5py.
``fits``
    FITS images with the cards of their headers, through astropy.
``envi``
    ENVI: raw elements beside a header of text, as the hyperspectral world has them.
``netcdf_parts``
    Parts of netCDF files through netCDF4: data types, attributes, dimensions, coordinates.
``hdf5_parts``
    Parts of HDF5 files through h5py: data types, attributes, scales, places of elements.
``flat``
    Elements one behind the other: ``.npy``, several such files in a ``.npz``, and raw files.
``whole``
    Whole files: a group is made of one, or written into one.
``transfer``
    The streaming copier between arrays and a `Source` or `Sink`; and `Format`, which creates
    these.
``description``
    Descriptions of elements: shape, dtype, attributes, names of axes, coordinates.
``elements``
    Elements as they lie in files: read in pieces, mapped, and written one after another.
``files``
    Files of other formats: written beside and renamed, and read with errors of the family.

May use: array, and the rooms below it.
"""

from extarray.formats.description import Coordinate, Description, Packing
from extarray.formats.transfer import Edit, Format, Sink, Source

__all__ = ["Coordinate", "Description", "Edit", "Format", "Packing", "Sink", "Source"]
