"""Files of other formats: read into arrays and written from them, chunk by chunk.

A format is a module with a `Format`, which `registry` finds by name and by suffix.  Other packages
add one with an entry point in the group "extarray.formats".  A built-in one needs a module with a
`Format` (at least name, title, suffixes and `source`; `sink` to write, `names` for several arrays,
`edit` for mapped arrays, `outline` and `code` for the viewer) that is listed in `registry._ours`;
functions ``from_...`` and ``to_...``, exported by ``extarray/__init__``, that share the common
parameters of the other formats (``tests/formats/test_signatures.py``); and an extra in
``pyproject.toml``, if it needs a library.

From the top down; each module uses only modules below it:

``registry``
    Look up formats by name and by suffix.
``mapped``
    Arrays that are mapped from a dataset of another format, extended, and written back.
``hdf5``
    HDF5 datasets, through h5py.
``netcdf``
    netCDF 3 and 4: variables with their dimensions and coordinates, through netCDF4.
``ome_zarr``
    OME-Zarr: images with axes, places of pixels, channels and levels, in Zarr stores.
``zarr``
    Zarr 2 and 3: arrays in stores, through zarr-python.
``geotiff``
    GeoTIFF: rasters of bands, with their georeferencing, through rasterio.
``tiff``
    TIFF: OME-TIFF, ImageJ stacks, and pages of any other kind, through tifffile.
``mat``
    MATLAB matrices in .mat files: version 5 through SciPy, version 7.3 through h5py.
``fits``
    FITS images with the cards of their headers, through astropy.
``envi``
    ENVI: raw elements beside a text header, as common for hyperspectral images.
``tables``
    CSV: tables in text files, whose rows become records, or whose columns become arrays.
``tiff_pieces``
    Elements on their way into TIFF files: in place, or piece by piece; pyramids.
``tiff_pages``
    Series of pages in TIFF files, read through tifffile: pages, strips and tiles.
``tiff_parts``
    Facts of TIFF files, through tifffile: axes, lengths and units, channels, attributes.
``netcdf_parts``
    Parts of netCDF files through netCDF4: data types, attributes, dimensions, coordinates.
``netcdf_classic``
    Ends of variables in files of the classic formats, to notice those that were cut off.
``hdf5_parts``
    Parts of HDF5 files through h5py: data types, attributes, scales, places of elements.
``flat``
    Contiguous elements: ``.npy`` files, several of them in a ``.npz``, and raw files.
``whole``
    Whole files: made into a group, or written from one.
``transfer``
    The streaming copier between arrays and a `Source` or `Sink`; and `Format`, which creates
    these.
``undecoded``
    Chunks that files and arrays hand to each other as a codec has encoded them.
``description``
    Descriptions of elements: shape, dtype, attributes, axis names, coordinates.
``elements``
    Elements inside files: read in pieces, mapped, and written one after another.
``files``
    Files of other formats: written beside and renamed, and read with errors of the family.

May use: array, and the rooms below it.
"""

from extarray.formats.description import Coordinate, Description, Packing
from extarray.formats.transfer import Edit, Format, Sink, Source

__all__ = ["Coordinate", "Description", "Edit", "Format", "Packing", "Sink", "Source"]
