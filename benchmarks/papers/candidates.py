"""The stores of the experiments' arrays: the adapters of `benchmarks.peers`, and three more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa

from .. import peers
from ..peers.base import Peer
from ..peers.numpy_arrays import InMemory, Mapped
from ..peers.ours import MmapEngine
from ..sizes import Layout, Unsupported

#: Elements of a chunk: the thesis's 32 x 32 x 32, which it uses in 2 to 7 dimensions.
CHUNK = 32**3

OURS = "extarray"
ELEMENTS = "extarray, chunks of 1"
OURS_MEMORY = "extarray, memory"
ELEMENTS_MEMORY = "extarray, memory, chunks of 1"
MEMORY = "conventional, memory"
FILE = "conventional, file"
HDF5 = "HDF5"
HDF5_CACHE = "HDF5, large cache"
NETCDF = "netCDF-4"
ZARR = "zarr"
IN_MEMORY = (OURS_MEMORY, ELEMENTS_MEMORY, MEMORY)


class Reallocated(InMemory):
    """A C-ordered array in memory that is copied into a larger one when it grows."""

    def grow(self, axis: int, by: int) -> None:
        shape = list(self.array.shape)
        shape[axis] += by
        larger = np.zeros(shape, self.array.dtype)
        larger[tuple(map(slice, self.array.shape))] = self.array
        self.array = larger


class Rewritten(Mapped):
    """A C-ordered file that is rewritten when another axis than the first grows."""

    def __init__(self, array: np.memmap, path: Path) -> None:
        super().__init__(array)
        self.path = path

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> Rewritten:
        path = folder / "array.raw"
        return cls(np.memmap(path, layout.dtype, "w+", shape=layout.shape), path)

    def grow(self, axis: int, by: int) -> None:
        shape, dtype = list(self.array.shape), self.array.dtype
        shape[axis] += by
        if axis == 0:  # at the end of the file
            self.array.flush()
            with open(self.path, "r+b") as file:
                file.truncate(dtype.itemsize * int(np.prod(shape)))
            self.array = np.memmap(self.path, dtype, "r+", shape=tuple(shape))
            return
        fresh = self.path.with_suffix(".new")
        larger = np.memmap(fresh, dtype, "w+", shape=tuple(shape))
        larger[tuple(map(slice, self.array.shape))] = self.array
        fresh.replace(self.path)
        self.array = larger


class Resident(MmapEngine):
    """Our array in memory, which grows in place."""

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> Resident:
        return cls(xa.zeros(layout.shape, layout.dtype, chunks=layout.chunks))


class NetCDF(Peer):
    """A variable whose dimensions are all unlimited, uncompressed."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.array = file["array"]

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> NetCDF:
        import netCDF4

        file = netCDF4.Dataset(folder / "array.nc", "w")
        names = [f"axis{j}" for j in range(len(layout.shape))]
        for name, extent in zip(names, layout.shape, strict=True):
            file.createDimension(name, None if layout.growable else extent)
        array = file.createVariable(
            "array", layout.dtype, names, chunksizes=layout.chunks, fill_value=0.0
        )
        array.set_auto_mask(False)
        if layout.growable:
            cls.reach(array, layout.shape)
        return cls(file)

    @staticmethod
    def reach(array: Any, shape: Sequence[int]) -> None:
        """Grow: writing an element extends an unlimited dimension to it."""
        array[tuple(n - 1 for n in shape)] = 0.0

    def grow(self, axis: int, by: int) -> None:
        shape = list(self.array.shape)
        shape[axis] += by
        self.reach(self.array, shape)

    def close(self) -> None:
        self.file.close()


#: Adapters defined here, and the names of the others.
_OWN = {
    MEMORY: Reallocated,
    FILE: Rewritten,
    NETCDF: NetCDF,
    OURS_MEMORY: Resident,
    ELEMENTS_MEMORY: Resident,
}
_PEERS = {
    OURS: "extarray-mmap",
    ELEMENTS: "extarray-mmap",
    HDF5: "h5py",
    HDF5_CACHE: "h5py-cache",
    ZARR: "zarr",
}


def side(ndim: int) -> int:
    """Return the side of a chunk: 32, or less if it would have more than 32^3 elements."""
    return min(32, round(CHUNK ** (1 / ndim)))


def make(
    name: str,
    folder: Path,
    shape: Sequence[int],
    chunks: int | Sequence[int] | None = None,
    growable: bool = True,
) -> Peer:
    """Create a candidate's array of float64 zeros in an empty folder."""
    if name in _OWN:
        adapter: type[Peer] = _OWN[name]
    elif peers.installed(_PEERS[name]):
        adapter = peers.load(_PEERS[name])
    else:
        raise Unsupported("it is not installed")
    if name in (ELEMENTS, ELEMENTS_MEMORY):
        chunks = 1
    elif chunks is None:
        chunks = side(len(shape))
    extents = np.broadcast_to(chunks, len(shape)).tolist()
    if not growable:  # HDF5 allows no chunk larger than a fixed array
        extents = np.minimum(extents, shape).tolist()
    layout = Layout(tuple(shape), tuple(extents), growable=growable)
    return adapter.create(folder, layout)


def fill(array: Peer, shape: Sequence[int], rng: np.random.Generator) -> None:
    """Write random whole numbers from 1 to 100, some planes at a time."""
    rows = max(1, 2**21 // int(np.prod(shape[1:], dtype=int)))
    for start in range(0, shape[0], rows):
        part = slice(start, min(start + rows, shape[0]))
        size = (part.stop - part.start, *shape[1:])
        array.write((part, *[slice(None)] * (len(shape) - 1)), rng.integers(1, 101, size))


def places(bounds: Sequence[int], n: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Return indices of elements at random places."""
    return list(map(tuple, rng.integers(0, bounds, (n, len(bounds))).tolist()))


def get_each(array: Peer, keys: Iterable[Any]) -> None:
    elements = array.array
    for key in keys:
        elements[key]
