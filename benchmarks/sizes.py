"""Names of candidates, sizes of cases, and arrays to create; all other modules use this one."""

from __future__ import annotations

from dataclasses import dataclass

NUMPY = "numpy"
MEMMAP = "memmap"
OURS = ("extarray-mmap", "extarray-pread")
#: The engines of another checkout, in the same order.
OTHERS = ("other-mmap", "other-pread")
#: These read through the libraries below them; they take part only if a group names them.
DASK = ("dask-h5py", "dask-zarr")
#: In a target: the fastest of all libraries other than NumPy and extarray.
PEERS = "peers"
#: In a target: the limit is a time in seconds for one elementary operation.
SECONDS = "seconds"


class Unsupported(NotImplementedError):
    """A candidate cannot do a case: its cell stays empty, and asv skips it."""


@dataclass(frozen=True)
class Scale:
    """Sizes of all cases.

    The cube is a float64 array of `side` elements along each axis; `chunks` are the chunk sides,
    the one that has the targets first.  The rest: repetitions of short operations, points at random
    places, appended planes and the side they start from, growths, bytes of the large array,
    segments at open, records of the mapping, addresses in one call, and elements of a slab that is
    worth two threads.
    """

    side: int
    chunks: tuple[int, ...]
    boxes: tuple[int, ...] = (10, 16, 32)
    repetitions: int = 100
    points: int = 10**6
    planes: int = 1000
    append_start: int = 32
    append_chunk: int = 32
    growths: int = 10**6
    large: int = 10**12
    segments: int = 10**4
    records: int = 1000
    addresses: int = 10**6
    slab: int = 8 * 2**20

    @property
    def cube_bytes(self) -> int:
        return 8 * self.side**3


@dataclass(frozen=True)
class Layout:
    """An array to create: `growable` ones grow on every axis, `sparse` ones reserve no space."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str = "f8"
    growable: bool = False
    sparse: bool = False


SCALES = {
    "full": Scale(side=512, chunks=(64, 32, 16), append_start=135),
    "medium": Scale(side=320, chunks=(64, 32), planes=600, growths=2 * 10**5),
    "small": Scale(side=192, chunks=(64, 32, 16)),
    "quick": Scale(
        side=16,
        chunks=(8, 4),
        boxes=(3, 5),
        repetitions=5,
        points=300,
        planes=9,
        append_start=4,
        append_chunk=4,
        growths=20,
        large=10**7,
        segments=20,
        records=10,
        addresses=100,
        slab=1000,
    ),
}
