"""The arrays that the cases of one candidate work on, and their folder."""

from __future__ import annotations

import shutil
import tempfile
from functools import cached_property
from pathlib import Path

import numpy as np

from .peers.base import Peer
from .sizes import Layout, Scale


def make_source(scale: Scale) -> np.ndarray:
    """Return the values of the cube: all different, none zero (no library may skip a chunk)."""
    return np.arange(1.0, scale.side**3 + 1).reshape((scale.side,) * 3)


class Workspace:
    """Arrays of one candidate in one folder: at most one with the source, and one other.

    Parameters
    ----------
    peer : type of Peer
        The candidate.
    parent : Path
        Where to create the folder of the arrays; `close` removes only that folder.
    scale : Scale
        Sizes of the cases.
    source : ndarray, optional
        Values of the cube, if the caller has them already.
    """

    def __init__(
        self, peer: type[Peer], parent: Path, scale: Scale, source: np.ndarray | None = None
    ) -> None:
        self.peer = peer
        self.folder = Path(tempfile.mkdtemp(prefix="extarray-bench-", dir=parent))
        self.scale = scale
        if source is not None:
            self.source = source
        self._cube: tuple[tuple[int, ...], Peer] | None = None
        self._other: Peer | None = None

    @cached_property
    def source(self) -> np.ndarray:
        return make_source(self.scale)

    def cube(self, chunk: int) -> Peer:
        """Return the cube in chunks of `chunk` elements along each axis, filled with the source."""
        return self._filled(self.source, (chunk,) * 3)

    @cached_property
    def sheet_source(self) -> np.ndarray:
        """The values of the cube, as a table with eight times the cube's side as rows."""
        return self.source.reshape(8 * self.scale.side, -1)

    def sheet(self, chunk: int) -> Peer:
        """Return the table in square chunks that are as large as the cube's of `chunk`."""
        return self._filled(self.sheet_source, (round(chunk**1.5),) * 2)

    def _filled(self, source: np.ndarray, chunks: tuple[int, ...]) -> Peer:
        if self._cube is None or self._cube[0] != chunks:
            self.drop_cube()
            array = self.peer.create(self._empty("cube"), Layout(source.shape, chunks))
            self._cube = chunks, array
            array.write(..., source)
            array.tidy()
            part = (slice(chunks[0] // 2, chunks[0] + 3), *(slice(1, 5) for _ in chunks[1:]))
            np.testing.assert_array_equal(array.read(part), source[part])
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

    @property
    def other(self) -> Peer:
        """The array that `new` made."""
        assert self._other is not None
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

    def target(self) -> Path:
        """Return an empty folder for an operation's output; its earlier content is removed."""
        return self._empty("target")

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
