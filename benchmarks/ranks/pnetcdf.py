"""PnetCDF, through ctypes.  Axis 0 may grow; growing the others rewrites the file."""

from __future__ import annotations

import ctypes
import ctypes.util
import os

import numpy as np
from boxes import box_of, extents
from mpi4py import MPI

CLOBBER_CDF5, DOUBLE, UNLIMITED = 0x20, 6, 0
HINTS = {f"romio_{kind}": "disable" for kind in ("cb_read", "cb_write", "ds_read", "ds_write")}

name = ctypes.util.find_library("pnetcdf")
if name is None:
    raise ImportError("there is no libpnetcdf")
library = ctypes.CDLL(name)
library.ncmpi_strerror.restype = library.ncmpi_inq_libvers.restype = ctypes.c_char_p

if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p):
    Handle = ctypes.c_void_p  # Open MPI
else:
    Handle = ctypes.c_int  # MPICH


def handle(what):
    return Handle.from_address(MPI._addressof(what))


def offsets(numbers):
    return (ctypes.c_longlong * len(numbers))(*numbers)


def call(function, *arguments):
    status = getattr(library, f"ncmpi_{function}")(*arguments)
    if status:
        raise OSError(f"{function}: {library.ncmpi_strerror(status).decode()}")


class Array:
    knows_places = True

    def __init__(self, comm, info, path, shape):
        self.comm, self.info, self.path, self.shape = comm, info, path, list(shape)
        file, variable = ctypes.c_int(), ctypes.c_int()
        call("create", handle(comm), path.encode(), CLOBBER_CDF5, handle(info), ctypes.byref(file))
        axes = (ctypes.c_int * 3)()
        for j, n in enumerate((UNLIMITED, *shape[1:])):
            axis = ctypes.c_int()
            call("def_dim", file, b"xyz"[j : j + 1], ctypes.c_longlong(n), ctypes.byref(axis))
            axes[j] = axis.value
        call("def_var", file, b"a", DOUBLE, 3, axes, ctypes.byref(variable))
        call("enddef", file)
        self.file, self.variable = file, variable

    def _transfer(self, function, box, local):
        start, count = offsets([s.start for s in box]), offsets(extents(box))
        data = ctypes.c_void_p(local.ctypes.data)
        call(function, self.file, self.variable, start, count, data)

    def write(self, box, local):
        self._transfer("put_vara_double_all", box, local)

    def read(self, box, out):
        self._transfer("get_vara_double_all", box, out)

    def grow(self, axis, by, box, local):
        if axis:
            old = self.shape
            kept = box_of(self.comm, (0, 0, 0), old, (1, 1, 1))
            held = np.empty(extents(kept))
            self.read(kept, held)
            self.close()
            shape = [n + by * (j == axis) for j, n in enumerate(old)]
            self.__init__(self.comm, self.info, self.path, shape)
            self.write(kept, held)
        else:
            self.shape[0] += by
        self.write(box, local)

    def close(self):
        call("close", self.file)


class Candidate:
    def __init__(self, comm):
        self.comm = comm
        mpi = MPI.Get_library_version().splitlines()[0].split(",")[0].rstrip("\0")
        version = library.ncmpi_inq_libvers().decode().split(" of ")[0]
        self.description = f"PnetCDF {version}, {mpi}"
        self.info = MPI.Info.Create()
        for name, value in HINTS.items():
            self.info.Set(name, value)

    def create(self, path, shape, chunks):
        return Array(self.comm, self.info, path, shape)

    def remove(self, path):
        if self.comm.rank == 0:
            os.unlink(path)
        self.comm.Barrier()
