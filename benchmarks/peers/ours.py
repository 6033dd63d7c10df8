"""extarray, with either of its engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import extarray as xa

from ..sizes import Layout
from .base import Computing, Peer


class MmapEngine(Computing, Peer):
    settings = "engine='mmap', one thread"
    replays = True
    engine: ClassVar[str] = "mmap"

    def __init__(self, array: xa.ExtArray) -> None:
        self.array = array

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> MmapEngine:
        return cls(
            xa.create(
                folder / "array",
                shape=layout.shape,
                dtype=layout.dtype,
                chunks=layout.chunks,
                sparse=layout.sparse,
                engine=cls.engine,
            )
        )

    @classmethod
    def open(cls, folder: Path) -> MmapEngine:
        return cls(xa.open(folder / "array", engine=cls.engine))

    @classmethod
    def set_threads(cls, count: int) -> None:
        xa.config.threads = count

    def close(self) -> None:
        self.array.close()

    def read(self, selection: Any, order: str = "C") -> np.ndarray:
        return self.array.read(selection, order=order)

    def read_into(self, selection: Any, out: np.ndarray) -> np.ndarray:
        return self.array.read(selection, out=out)

    def grow(self, axis: int, by: int) -> None:
        self.array.extend(axis, by)

    def append(self, data: np.ndarray, axis: int) -> None:
        self.array.append(data, axis=axis)

    def convert(self, folder: Path, chunks: tuple[int, ...], axes: tuple[int, ...]) -> None:
        with xa.config.set(engine=self.engine):
            xa.rechunk(self.array, folder / "array", chunks=chunks, axes=axes).close()

    def duplicate(self, folder: Path) -> None:
        piece = memoryview(bytearray(1 << 20))
        with (
            open(f"{self.array.path}.xta", "rb", buffering=0) as source,
            open(folder / "copy", "wb", buffering=0) as target,
        ):
            while n := source.readinto(piece):
                target.write(piece[:n])

    def addresses(self, indices: np.ndarray) -> np.ndarray:
        return self.array.axial.addresses(indices)

    def indices(self, addresses: np.ndarray) -> np.ndarray:
        return self.array.axial.indices(addresses)


class PreadEngine(MmapEngine):
    settings = "engine='pread', one thread"
    engine = "pread"
