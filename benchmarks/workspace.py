"""The arrays that the cases of one candidate work on, and their folder."""

from __future__ import annotations

import shutil
import tempfile
from functools import cached_property
from pathlib import Path

import numpy as np

from .model import Layout, Scale
from .peers.base import Peer


def make_source(scale: Scale) -> np.ndarray:
    """Return the values of the cube: all different, none zero (no library may skip a chunk)."""
    return np.arange(1.0, scale.side**3 + 1).reshape((scale.side,) * 3)


class Workspace:
    """Arrays of one candidate in one folder; at most one cube and one other array at a time.

    Parameters
    ----------
    peer : type of Peer
        The candidate.
    parent : Path
        Where to make the folder of the arrays; `close` removes that folder, and nothing else.
    scale : Scale
        Sizes of the cases.
    source : ndarray, optional
        Values of the cube, where the caller has them already.
    """

    def __init__(
        self, peer: type[Peer], parent: Path, scale: Scale, source: np.ndarray | None = None
    ) -> None:
        self.peer = peer
        self.folder = Path(tempfile.mkdtemp(prefix="extarray-bench-", dir=parent))
        self.scale = scale
        if source is not None:
            self.source = source
        self._cube: tuple[int, Peer] | None = None
        self._other: Peer | None = None

    @cached_property
    def source(self) -> np.ndarray:
        return make_source(self.scale)

    def cube(self, chunk: int) -> Peer:
        """Return the cube in chunks of `chunk` elements an axis, holding the source."""
        if self._cube is None or self._cube[0] != chunk:
            self.drop_cube()
            cube = self.peer.create(self._empty("cube"), Layout(self.source.shape, (chunk,) * 3))
            self._cube = chunk, cube
            cube.write(..., self.source)
            cube.tidy()
            part = (slice(chunk // 2, chunk + 3), slice(1, 5), slice(2, 9))
            np.testing.assert_array_equal(cube.read(part), self.source[part])
        return self._cube[1]

    def drop_cube(self) -> None:
        if self._cube is not None:
            self._cube[1].close()
            self._cube = None
            self._empty("cube")

    def new(self, layout: Layout) -> Peer:
        """Return a fresh array; the one before it is removed."""
        self.drop()
        self._other = self.peer.create(self._empty("other"), layout)
        return self._other

    def open(self) -> Peer:
        """Open the array that `new` made and `close_new` closed, for reading."""
        return self.peer.open(self.folder / "other")

    def close_new(self) -> None:
        if self._other is not None:
            self._other.close()
            self._other = None

    def drop(self) -> None:
        """Remove the array that `new` made."""
        self.close_new()
        self._empty("other")

    def warm(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array to read into, its pages in use already."""
        return np.full(shape, -1.0)

    def close(self) -> None:
        self.close_new()
        self.drop_cube()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _empty(self, name: str) -> Path:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder
