"""NumPy itself: the array in memory that is the reference, and np.memmap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from ..sizes import Layout, Unsupported
from .base import Computing, Peer


class InMemory(Computing, Peer):
    settings = "C-ordered ndarray in memory; growth by np.concatenate"

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> InMemory:
        if layout.sparse:
            raise Unsupported("sparse")
        return cls(np.zeros(layout.shape, layout.dtype))

    @classmethod
    def set_threads(cls, count: int) -> None:
        """Do nothing: NumPy's loops have one thread."""

    def read(self, selection: Any, order: str = "C") -> np.ndarray:
        # A slice of an ndarray is a view, but a read has to copy.
        return np.array(self.array[selection], order=order)

    def read_into(self, selection: Any, out: np.ndarray) -> np.ndarray:
        np.copyto(out, self.array[selection])
        return out

    def pick(self, selection: Any) -> np.ndarray:
        return self.array[selection]

    def convert(self, folder: Path, chunks: tuple[int, ...], axes: tuple[int, ...]) -> None:
        # An array in memory has no chunks: only the copy remains.
        self.array.transpose(axes).copy()

    def duplicate(self, folder: Path) -> None:
        self.array.copy()

    def append(self, data: np.ndarray, axis: int) -> None:
        self.array = np.concatenate((self.array, data), axis)

    def addresses(self, indices: np.ndarray) -> np.ndarray:
        return np.ravel_multi_index(tuple(indices.T), self.shape)

    def indices(self, addresses: np.ndarray) -> np.ndarray:
        return np.stack(np.unravel_index(addresses, self.shape), axis=1)


class Mapped(InMemory):
    settings = ".npy file through np.memmap; cannot grow"

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> Mapped:
        if layout.growable:
            raise Unsupported("growth")
        return cls(open_memmap(folder / "array.npy", "w+", layout.dtype, layout.shape))

    @classmethod
    def open(cls, folder: Path) -> Mapped:
        return cls(open_memmap(folder / "array.npy", "r"))

    append = Peer.append
    convert = Peer.convert
    duplicate = Peer.duplicate
    addresses = Peer.addresses
    indices = Peer.indices
