"""One interface to all structures, compiled ones and the package's own."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import replay_log

from .build import build

#: The C files, with descriptions.
COMPILED = {
    "axial_vectors": "axial vectors, binary search",
    "auxiliary_array": "auxiliary array",
    "red_black_tree": "leaf-linked red-black tree",
    "o2_tree": "O2-Tree",
}

_Ints = np.ctypeslib.ndpointer(np.int64, flags="C_CONTIGUOUS")
_Axes = np.ctypeslib.ndpointer(np.int32, flags="C_CONTIGUOUS")
#: Results and parameters of the functions of a library.
_SIGNATURES = {
    "new": (ctypes.c_void_p, (ctypes.c_int, _Ints)),
    "free": (None, (ctypes.c_void_p,)),
    "grow": (ctypes.c_int, (ctypes.c_void_p, _Axes, _Ints, ctypes.c_size_t)),
    "addresses": (ctypes.c_size_t, (ctypes.c_void_p, _Ints, ctypes.c_size_t, _Ints)),
    "indices": (ctypes.c_size_t, (ctypes.c_void_p, _Ints, ctypes.c_size_t, _Ints)),
    "starts": (ctypes.c_size_t, (ctypes.c_void_p, ctypes.c_int, _Ints)),
    "bytes": (ctypes.c_size_t, (ctypes.c_void_p,)),
    "depth": (ctypes.c_int, (ctypes.c_void_p,)),
}


class Structure(Protocol):
    """The mapping of a grid that has grown at the ends of its axes."""

    nbytes: int

    def addresses(self, indices: np.ndarray) -> np.ndarray:
        """Return the addresses of (n, k) chunk indices."""

    def indices(self, addresses: np.ndarray) -> np.ndarray:
        """Return the chunk indices of n addresses."""


class Library:
    """The functions of a compiled structure."""

    def __init__(self, name: str, folder: Path) -> None:
        library = ctypes.CDLL(str(build(name, folder)))
        for function, (result, parameters) in _SIGNATURES.items():
            found = getattr(library, f"mapping_{function}")
            found.restype, found.argtypes = result, parameters
            setattr(self, function, found)

    def grown(self, grid: Sequence[int], axes: np.ndarray, by: np.ndarray) -> Compiled:
        """Return the structure of a grid that grows along axes, one after the other."""
        return Compiled(self, grid, axes, by)


class Compiled:
    """A compiled structure."""

    def __init__(
        self, library: Library, grid: Sequence[int], axes: np.ndarray, by: np.ndarray
    ) -> None:
        self._library = library
        self._ndim = len(grid)
        self._mapping = library.new(self._ndim, np.array(grid, np.int64))
        axes, by = axes.astype(np.int32), by.astype(np.int64)
        if not self._mapping or library.grow(self._mapping, axes, by, len(axes)):
            raise MemoryError(f"no memory for {len(axes)} growths")

    def __del__(self) -> None:
        self._library.free(self._mapping)

    def addresses(self, indices: np.ndarray) -> np.ndarray:
        out = np.empty(len(indices), np.int64)
        return self._all(self._library.addresses(self._mapping, indices, len(indices), out), out)

    def indices(self, addresses: np.ndarray) -> np.ndarray:
        out = np.empty((len(addresses), self._ndim), np.int64)
        return self._all(self._library.indices(self._mapping, addresses, len(addresses), out), out)

    @staticmethod
    def _all(n: int, out: np.ndarray) -> np.ndarray:
        if n < len(out):
            raise IndexError(f"number {n} is out of bounds")
        return out

    def starts(self, axis: int, most: int) -> np.ndarray:
        """Return the start indices of an axis's records, at most `most`."""
        out = np.empty(most, np.int64)
        return out[: self._library.starts(self._mapping, axis, out)]

    @property
    def nbytes(self) -> int:
        """Bytes of records and of their index."""
        return int(self._library.bytes(self._mapping))

    @property
    def depth(self) -> int:
        """Nodes on the longest path to a record."""
        return int(self._library.depth(self._mapping))


class Tables:
    """The package's own structure: a table per axis, from chunk index to segment."""

    def __init__(self, grid: Sequence[int], axes: np.ndarray, by: np.ndarray) -> None:
        k = len(grid)
        after = grid + np.cumsum(np.eye(k, dtype=np.int64)[axes] * by[:, None], axis=0)
        grids = np.concatenate([[grid], after])
        # Consecutive growths of an axis are one segment; the initial one has grown axis 0.
        begins = np.flatnonzero(np.diff(axes, prepend=0))
        grown = np.bincount(axes[begins], minlength=k)
        log = np.concatenate([[[0, *grid[1:]]], grids[begins]])
        owners = np.concatenate([[0], axes[begins]]).astype(np.uint8)
        axial = replay_log(Axial, owners, np.zeros_like(owners), log, grids[-1].tolist())
        self.addresses = axial.addresses
        self.indices = axial.indices
        # As `_axial.pxd` declares them: start addresses, records, their places in axial vectors,
        # and tables.
        records = len(owners) * (8 + (8 + 8 + 4 + 4 + 8 * k) + 4)
        self.nbytes = records + 4 * int(grids[-1][grown > 0].sum())
