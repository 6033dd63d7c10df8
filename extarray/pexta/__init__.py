"""PEXTA: the interface of Global Arrays' disk resident arrays, over our files.

The routines of DRA and PEXTA have their published names, without the prefix, and take their
arguments in the published order; they return results instead of storing them through pointers, and
raise an error of the family instead of returning a status.  From the top down:

``disk_io``
    Disk I/O: write global arrays in memory to disk arrays, and read them back.
``mapping``
    Map, extend and write back HDF5 datasets and netCDF variables.
``growth``
    Grow arrays on the disk.
``requests``
    Transfers as moves of each rank, made at once or bit by bit; requests to wait for.
``copies``
    Copy disk arrays into layouts for other requests.
``diskarrays``
    Create and open arrays on the disk.
``session``
    The session between `init` and `terminate`.
``hints``, ``sections``
    Chunk shapes for requests; which element goes where: pure functions.

May use: the face, mpi, and the rooms below them.
"""

from extarray.pexta.copies import copy
from extarray.pexta.disk_io import (
    REQ_INVALID,
    iread,
    iread_section,
    iwrite,
    iwrite_section,
    probe,
    read,
    read_section,
    wait,
    write,
    write_section,
)
from extarray.pexta.diskarrays import (
    C_DBL,
    C_DCPL,
    C_FLOAT,
    C_INT,
    C_LONG,
    C_LONGLONG,
    C_SCPL,
    RW,
    DiskArray,
    Inquiry,
    Mode,
    R,
    W,
    close,
    create,
    create_config,
    delete,
    distribution,
    inquire,
    open,
    print_internals,
)
from extarray.pexta.growth import extend, refresh
from extarray.pexta.mapping import hdfmap, hdfwrite, netcdfmap, netcdfwrite
from extarray.pexta.requests import Request
from extarray.pexta.session import flick, init, set_debug, set_default_config, terminate

__all__ = [
    "C_DBL",
    "C_DCPL",
    "C_FLOAT",
    "C_INT",
    "C_LONG",
    "C_LONGLONG",
    "C_SCPL",
    "REQ_INVALID",
    "RW",
    "DiskArray",
    "Inquiry",
    "Mode",
    "R",
    "Request",
    "W",
    "close",
    "copy",
    "create",
    "create_config",
    "delete",
    "distribution",
    "extend",
    "flick",
    "hdfmap",
    "hdfwrite",
    "init",
    "inquire",
    "iread",
    "iread_section",
    "iwrite",
    "iwrite_section",
    "netcdfmap",
    "netcdfwrite",
    "open",
    "print_internals",
    "probe",
    "read",
    "read_section",
    "refresh",
    "set_debug",
    "set_default_config",
    "terminate",
    "wait",
    "write",
    "write_section",
]
