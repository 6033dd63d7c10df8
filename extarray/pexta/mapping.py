"""Map, extend and write back HDF5 datasets and netCDF variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import extarray
from extarray.common.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from extarray import MappedArray

__all__ = ["hdfmap", "hdfwrite", "netcdfmap", "netcdfwrite"]


def hdfmap(dathdl: Any) -> MappedArray:
    """Map an HDF5 dataset into an array that can be extended.

    Parameters
    ----------
    dathdl : h5py.Dataset
        In an open file.  It need not be chunked.

    Returns
    -------
    MappedArray
        In memory, with the dataset's attributes.

    Examples
    --------
    >>> import os, tempfile, h5py
    >>> from extarray import pexta
    >>> f = h5py.File(os.path.join(tempfile.mkdtemp(), "scene.h5"), "w")
    >>> level = f.create_dataset("level", data=[[1, 2], [3, 4]], maxshape=(None, None))
    >>> xta_hdf = pexta.hdfmap(level)
    >>> xta_hdf.extend(axis=1, by=1)
    >>> level = pexta.hdfwrite(xta_hdf, level)
    >>> level.shape
    (2, 3)
    """
    return extarray.map_hdf5(dathdl, progress=False)


def hdfwrite(xta_hdf: MappedArray, dathdl: Any, replace: bool = False) -> Any:
    """Write a mapped array back into its dataset.

    Parameters
    ----------
    xta_hdf : MappedArray
    dathdl : h5py.Dataset
        The dataset that the array was mapped from.
    replace : bool
        If the dataset cannot grow, make a new one, even if hard links and references keep the old
        one.

    Returns
    -------
    h5py.Dataset
        The same dataset, or the new one in its place if it could not grow.

    Raises
    ------
    ArgumentError
        A ValueError: it is another dataset; it has changed its shape since; or it must be replaced,
        and something keeps the old one.

    Examples
    --------
    >>> import os, tempfile, h5py
    >>> from extarray import pexta
    >>> f = h5py.File(os.path.join(tempfile.mkdtemp(), "scene.h5"), "w")
    >>> f["level"] = [[1, 2], [3, 4]]
    >>> xta_hdf = pexta.hdfmap(f["level"])
    >>> xta_hdf.append([[5, 6]])
    >>> pexta.hdfwrite(xta_hdf, f["level"])[:].tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    dataset = _bound(xta_hdf)
    if dataset != dathdl:
        raise ArgumentError(f"the array was mapped from {dataset!r}, not from {dathdl!r}")
    xta_hdf.write_back(replace=replace, progress=False)
    return xta_hdf.dataset


def netcdfmap(data: Any, ncid: Any, varid: Any) -> MappedArray:
    """Map a netCDF variable into an array that can be extended.

    Parameters
    ----------
    data : array_like or None
        Values that were read from the variable; None: they are read now.
    ncid : netCDF4.Dataset or netCDF4.Group
        An open dataset or group.
    varid : int, str or netCDF4.Variable
        The variable, its number or its name.

    Returns
    -------
    MappedArray
        In memory, with the variable's attributes and the names of its dimensions.

    Examples
    --------
    >>> import os, tempfile, netCDF4
    >>> from extarray import pexta
    >>> d = netCDF4.Dataset(os.path.join(tempfile.mkdtemp(), "rain.nc"), "w")
    >>> _ = d.createDimension("time"), d.createDimension("x", 2)
    >>> rain = d.createVariable("rain", "i4", ("time", "x"))
    >>> rain[:2] = [[1, 2], [3, 4]]
    >>> xta_ncdf = pexta.netcdfmap(None, d, 0)
    >>> xta_ncdf.append([[5, 6]])
    >>> rain = pexta.netcdfwrite(xta_ncdf, rain)
    >>> rain[2].tolist()
    [5, 6]
    """
    mapped = extarray.map_netcdf(_variable(ncid, varid), progress=False)
    if data is not None:
        mapped[...] = data
    return mapped


def netcdfwrite(handle: MappedArray, varid: Any, replace: bool = False) -> Any:
    """Write a mapped array back into its variable.

    Parameters
    ----------
    handle : MappedArray
    varid : int, str or netCDF4.Variable
        The variable that the array was mapped from.
    replace : bool
        If a fixed dimension has grown, rewrite the file: the open dataset is closed, and another is
        opened.

    Returns
    -------
    netCDF4.Variable
        The same variable, or that of the new file, whose dataset ``group()`` returns.

    Raises
    ------
    ArgumentError
        A ValueError: it is another variable; or the file must be rewritten, without `replace`.

    Examples
    --------
    >>> import os, tempfile, netCDF4
    >>> from extarray import pexta
    >>> d = netCDF4.Dataset(os.path.join(tempfile.mkdtemp(), "rain.nc"), "w")
    >>> _ = d.createDimension("x", 2)
    >>> d.createVariable("rain", "i4", ("x",))[:] = [1, 2]
    >>> xta_ncdf = pexta.netcdfmap([5, 6], d, "rain")
    >>> pexta.netcdfwrite(xta_ncdf, "rain")[:].tolist()
    [5, 6]
    >>> xta_ncdf.append([7])
    >>> rain = pexta.netcdfwrite(xta_ncdf, "rain", replace=True)
    >>> rain[:].tolist(), d.isopen()
    ([5, 6, 7], False)
    """
    variable = _bound(handle)
    asked = _variable(variable.group(), varid)
    if (asked.group(), asked.name) != (variable.group(), variable.name):
        raise ArgumentError(f"the array was mapped from {variable.name!r}, not from {asked.name!r}")
    handle.write_back(replace=replace, progress=False)
    return handle.dataset


def _bound(array: Any) -> Any:
    """Return the dataset that a mapped array is bound to."""
    if not isinstance(array, extarray.MappedArray):
        raise ArgumentTypeError(f"a {type(array).__name__} is not a mapped array")
    return array.dataset


def _variable(ncid: Any, varid: Any) -> Any:
    """Return a netCDF variable by its number or name."""
    if isinstance(varid, str):
        name = varid
    elif isinstance(varid, int):
        names = list(ncid.variables)
        if not 0 <= varid < len(names):
            raise ArgumentError(f"no variable {varid}; the variables are {len(names)}")
        name = names[varid]
    else:
        return varid
    if name not in ncid.variables:
        raise ArgumentError(f"no variable {name!r}; the variables are {list(ncid.variables)}")
    return ncid.variables[name]
