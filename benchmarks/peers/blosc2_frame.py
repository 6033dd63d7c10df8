"""Blosc2: one contiguous frame without compression, memory-mapped."""

from __future__ import annotations

import os
from math import ceil, prod
from pathlib import Path
from typing import Any

import blosc2
import numpy as np

from ..sizes import Layout, Unsupported
from .base import Peer

#: Creating and growing larger arrays takes minutes: chunks are added one by one, to a copied list.
MOST_CHUNKS = 50_000


def check_chunks(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    if prod(ceil(n / c) for n, c in zip(shape, chunks, strict=True)) > MOST_CHUNKS:
        raise Unsupported("so many chunks")


class Brackets:
    """An NDArray that accepts values in any layout."""

    def __init__(self, array: blosc2.NDArray) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __getitem__(self, selection: Any) -> np.ndarray:
        return self.array[selection]

    def __setitem__(self, selection: Any, values: Any) -> None:
        self.array[selection] = np.ascontiguousarray(values)


class Blosc2(Peer):
    settings = "clevel=0, no filters, contiguous frame, mmap_mode, one thread"

    def __init__(self, array: blosc2.NDArray) -> None:
        self.array = Brackets(array)

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> Blosc2:
        check_chunks(layout.shape, layout.chunks)
        return cls(
            blosc2.zeros(
                layout.shape,
                dtype=layout.dtype,
                chunks=layout.chunks,
                urlpath=os.fspath(folder / "array.b2nd"),
                mmap_mode="w+",
                contiguous=True,
                cparams=blosc2.CParams(clevel=0, filters=[], nthreads=1),
                dparams=blosc2.DParams(nthreads=1),
            )
        )

    @classmethod
    def open(cls, folder: Path) -> Blosc2:
        return cls(blosc2.open(os.fspath(folder / "array.b2nd"), mode="r", mmap_mode="r"))

    def grow(self, axis: int, by: int) -> None:
        shape = list(self.array.shape)
        shape[axis] += by
        check_chunks(tuple(shape), self.array.array.chunks)
        self.array.array.resize(tuple(shape))

    def pick(self, selection: Any) -> np.ndarray:
        if isinstance(selection, np.ndarray) and selection.dtype == bool:
            # They come in another order from arrays of more than a few chunks.
            raise Unsupported("the elements of a mask, in C order")
        return super().pick(selection)

    def put(self, selection: Any, values: np.ndarray) -> None:
        # Rows and masks are written in Python steps, points not at all.
        raise Unsupported("writes to selections by arrays")
