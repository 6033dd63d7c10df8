"""The checks that both processes of the demo make.

Every failed check raises `CheckError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.apps.scenes import Mosaic
from extarray.common.errors import ExtArrayError

__all__ = ["CheckError", "Checker", "grid_addresses"]


class CheckError(ExtArrayError):
    """A check of the demo failed."""


class Checker:
    """Compares an array with the scene, and remembers addresses that must not change.

    The scene has the shape (rows, columns, bands); `rng` chooses the boxes of `random_box`.
    """

    def __init__(self, scene: NDArray[Any], rng: np.random.Generator) -> None:
        self.elements = 0
        self.boxes = 0
        self._scene = scene
        self._rng = rng
        self._addresses = np.empty((0,) * scene.ndim, dtype=np.int64)

    def box(self, a: Any, mosaic: Mosaic, box: tuple[slice, ...]) -> None:
        """Compare a box of the array with the scene, bit by bit."""
        got, want = a[box], mosaic.expected(self._scene, box)
        if got.shape != want.shape or got.dtype != want.dtype:
            raise CheckError(
                f"box {_text(box)}: got {got.dtype} of shape {got.shape}, "
                f"expected {want.dtype} of shape {want.shape}"
            )
        wrong = (_bytes(got) != _bytes(want)).any(axis=-1)
        if wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), got.shape)
            raise CheckError(
                f"box {_text(box)}: {int(wrong.sum())} of {wrong.size} elements differ from the "
                f"scene; the first is at {tuple(map(int, at))} in the box: got {got[at]}, "
                f"expected {want[at]}"
            )
        self.elements += got.size
        self.boxes += 1

    def random_box(self, a: Any, mosaic: Mosaic) -> None:
        """Compare a random box with steps of 1 to 3."""
        box = []
        for extent in a.shape:
            start = int(self._rng.integers(0, extent))
            stop = int(self._rng.integers(start + 1, extent + 1))
            box.append(slice(start, stop, int(self._rng.integers(1, 4))))
        self.box(a, mosaic, tuple(box))

    def addresses(self, a: Any) -> None:
        """Check that no chunk has moved since the last call, and that no two share an address."""
        now, before = grid_addresses(a.axial), self._addresses
        if any(n < b for n, b in zip(now.shape, before.shape, strict=True)):
            raise CheckError(f"the grid shrank from {before.shape} to {now.shape}")
        moved = now[tuple(slice(n) for n in before.shape)] != before
        if moved.any():
            at = tuple(int(i) for i in np.argwhere(moved)[0])
            raise CheckError(
                f"{int(moved.sum())} chunks moved; the first is at {at}: address {before[at]} "
                f"became {now[at]}"
            )
        if not np.array_equal(np.sort(now, axis=None), np.arange(now.size)):
            raise CheckError(
                f"the chunks of the grid {now.shape} do not have the addresses 0 to {now.size - 1}"
            )
        self._addresses = now


def grid_addresses(axial: Any) -> NDArray[np.int64]:
    """Return the address of every chunk, in the shape of the grid."""
    grid = tuple(int(n) for n in axial.grid)
    indices = np.indices(grid, dtype=np.int64).reshape(len(grid), -1).T
    addresses: NDArray[np.int64] = np.asarray(axial.addresses(np.ascontiguousarray(indices)))
    return addresses.reshape(grid)


def _bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of each element, so that NaN equals itself and 0.0 differs from -0.0."""
    flat = np.ascontiguousarray(values).reshape(-1, 1)
    return flat.view(np.uint8)


def _text(box: Sequence[slice]) -> str:
    steps = ("" if part.step in (None, 1) else f":{part.step}" for part in box)
    ends = (f"{part.start}:{part.stop}" for part in box)
    return "[" + ", ".join(end + step for end, step in zip(ends, steps, strict=True)) + "]"
