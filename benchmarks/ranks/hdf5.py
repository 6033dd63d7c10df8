"""Parallel HDF5, through h5py."""

from __future__ import annotations

import os

import h5py
from boxes import extents
from mpi4py import MPI

# Two-phase buffering costs several times what it saves if all ranks are on one host.
HINTS = {f"romio_{kind}": "disable" for kind in ("cb_read", "cb_write", "ds_read", "ds_write")}


class Array:
    knows_places = True

    def __init__(self, file, data):
        self.data = data
        self.close = file.close
        self.together = h5py.h5p.create(h5py.h5p.DATASET_XFER)
        self.together.set_dxpl_mpio(h5py.h5fd.MPIO_COLLECTIVE)

    def _spaces(self, box):
        """Return the spaces of a transfer; brackets would leave out ranks that move nothing."""
        counts = extents(box)
        memory, file = h5py.h5s.create_simple(counts), self.data.id.get_space()
        if all(counts):
            file.select_hyperslab(tuple(s.start for s in box), counts)
        else:
            file.select_none()
        return memory, file

    def write(self, box, local):
        self.data.id.write(*self._spaces(box), local, dxpl=self.together)

    def read(self, box, out):
        self.data.id.read(*self._spaces(box), out, dxpl=self.together)

    def grow(self, axis, by, box, local):
        self.data.resize(self.data.shape[axis] + by, axis)
        self.write(box, local)


class Candidate:
    def __init__(self, comm):
        if not h5py.get_config().mpi:
            raise ImportError("h5py is not built for MPI")
        self.comm = comm
        library = MPI.Get_library_version().splitlines()[0].split(",")[0].rstrip("\0")
        self.description = f"h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}, {library}"
        self.info = MPI.Info.Create()
        for name, value in HINTS.items():
            self.info.Set(name, value)

    def create(self, path, shape, chunks):
        file = h5py.File(path, "w", driver="mpio", comm=self.comm, info=self.info, libver="latest")
        data = file.create_dataset(
            "a", shape, "f8", chunks=tuple(chunks), maxshape=(None,) * 3, fillvalue=None
        )
        return Array(file, data)

    def remove(self, path):
        if self.comm.rank == 0:
            os.unlink(path)
        self.comm.Barrier()
