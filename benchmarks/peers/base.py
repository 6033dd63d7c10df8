"""The common interface of all candidates, in terms of ``array[...]``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..sizes import Layout, Unsupported


class Computing:
    """Computes like NumPy: `array` has its methods, and NumPy's functions take it."""

    array: Any

    def total(self) -> float:
        return self.array.sum()

    def mean(self, axis: int) -> np.ndarray:
        return self.array.mean(axis=axis)

    def add_one(self) -> None:
        self.array += 1

    def square_roots(self, out: Peer) -> None:
        np.sqrt(self.array, out=out.array)


class Peer:
    """One open array of a library; a subclass overrides methods that its library does better.

    `array` takes NumPy's brackets and returns and accepts NumPy values.  `settings` describes the
    library's setup for the head of the report.  `replays` is true if the history of growth leaves
    traces in the file: the setup then grows step by step, else at once.
    """

    settings: ClassVar[str]
    replays: ClassVar[bool] = False
    array: Any

    @classmethod
    def create(cls, folder: Path, layout: Layout) -> Peer:
        """Create an array of zeros in the empty `folder` and return it, open for writing."""
        raise NotImplementedError

    @classmethod
    def open(cls, folder: Path) -> Peer:
        """Open the array in `folder` for reading."""
        raise Unsupported("open")

    @classmethod
    def set_threads(cls, count: int) -> None:
        """Use `count` threads from now on."""
        if count != 1:
            raise Unsupported("threads")

    def close(self) -> None:
        self.array = None

    def tidy(self) -> None:
        """Undo, untimed, the traces of repeated writing of the same elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def read(self, selection: Any, order: str = "C") -> np.ndarray:
        """Return a copy of the selection in the given order of elements."""
        return np.asarray(self.array[selection], order=order)

    def read_into(self, selection: Any, out: np.ndarray) -> np.ndarray:
        """Read the selection into `out`."""
        out[...] = self.array[selection]
        return out

    def write(self, selection: Any, values: Any) -> None:
        self.array[selection] = values

    def pick(self, selection: Any) -> np.ndarray:
        """Read the elements of a mask, an array of rows, or a tuple of arrays (points)."""
        return np.asarray(self.array[selection])

    def put(self, selection: Any, values: np.ndarray) -> None:
        """Write the elements of a mask, an array of rows, or a tuple of arrays (points)."""
        self.array[selection] = values

    def grow(self, axis: int, by: int) -> None:
        """Make the array longer by `by` elements along `axis`."""
        raise Unsupported("growth")

    def append(self, data: np.ndarray, axis: int) -> None:
        """Grow along `axis` by the extent of `data`, and write it there."""
        start = self.shape[axis]
        self.grow(axis, data.shape[axis])
        selection = [slice(None)] * len(self.shape)
        selection[axis] = slice(start, None)
        self.write(tuple(selection), data)

    def total(self) -> float:
        """Return the sum of all elements."""
        raise Unsupported("computing")

    def mean(self, axis: int) -> np.ndarray:
        """Return the means along an axis."""
        raise Unsupported("computing")

    def add_one(self) -> None:
        """Add 1 to each element, in place."""
        raise Unsupported("computing")

    def square_roots(self, out: Peer) -> None:
        """Write the square roots of all elements to another array of the same library."""
        raise Unsupported("computing")

    def convert(self, folder: Path, chunks: tuple[int, ...], axes: tuple[int, ...]) -> None:
        """Write the array into the empty `folder`, in other chunks, with its axes permuted."""
        raise Unsupported("conversion")

    def duplicate(self, folder: Path) -> None:
        """Write the bytes of the array into the empty `folder`, unchanged."""
        raise Unsupported("conversion")

    def addresses(self, indices: np.ndarray) -> np.ndarray:
        """Map rows of `indices`, in chunks, to positions in the file."""
        raise Unsupported("addresses")

    def indices(self, addresses: np.ndarray) -> np.ndarray:
        """Map positions in the file to rows of indices, in chunks."""
        raise Unsupported("indices")
