"""A scene that grows: its statistics and endmembers, kept up without reading it again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import numpy as np

from extarray import ArgumentError, AxisError, ClosedError, ShapeError
from extarray.apps.hyperspectral_blocks import Block, Floats, Spectra
from extarray.apps.hyperspectral_components import Moments, moments, principal
from extarray.apps.hyperspectral_endmembers import (
    enlarge,
    projected,
    vertices_to_begin_with,
)

__all__ = ["Growing"]


class Growing:
    """Statistics and endmembers of a scene that grows by swaths and bands.

    Pixels that arrive are read in the update that takes them up, for their moments and for their
    scores in the few directions that tell pixels apart; new bands of pixels that are there, alone.
    Nothing that was seen is read again but the spectra of the endmembers.

    Parameters
    ----------
    a : ExtArray or array
        Scene of three axes, which may be empty as yet.  It grows at the ends of its axes.
    p : int
        Number of endmembers, from 2.
    tolerance : float
        Directions with a smaller share of the variance are not kept.
    band_axis : int
        The axis of the bands.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work, and call all methods together.  Default: those that have `a` open
        together.
    max_memory : int or str, optional
        Bytes of temporary memory a rank.

    Attributes
    ----------
    shape : tuple of int
        Rows, columns and bands that were taken up.
    count : int
        Pixels.
    mean, covariance : ndarray, (bands,) and (bands, bands)
        Of all pixels; see Notes.
    endmembers, positions : ndarray, (p, bands) and (p, 2)
        As of `nfindr`; none as long as the pixels span too few dimensions.
    volume : float
        Of the simplex of the endmembers.

    Notes
    -----
    Swaths, rows or columns, cost no accuracy: moments merge exactly.  How a new band varies
    together with the old ones is known from the scores, hence without what is below `tolerance`:
    noise, as a rule, which varies with nothing.

    The scores are an ExtArray in a temporary file, which grows along all axes with the scene;
    `close`, or the end of a with block, removes it.

    Examples
    --------
    >>> import numpy as np
    >>> import extarray as xa
    >>> from extarray.apps import hyperspectral
    >>> rng = np.random.default_rng(0)
    >>> scene = rng.dirichlet([1, 1, 1], (40, 30)) @ rng.random((3, 12))
    >>> a = xa.from_array(scene[:10])
    >>> with hyperspectral.Growing(a, 3) as live:
    ...     a.append(scene[10:])
    ...     live.update(), live.count
    (True, 1200)
    >>> bool(np.allclose(live.covariance, np.cov(scene.reshape(-1, 12).T)))
    True
    """

    def __init__(
        self,
        a: Any,
        p: int,
        *,
        tolerance: float = 1e-5,
        band_axis: int = -1,
        comm: Any = None,
        max_memory: int | str | None = None,
    ) -> None:
        if p < 2:
            raise ArgumentError(f"the number of endmembers must be at least 2, not {p}")
        if not 0 <= tolerance < 1:
            raise ArgumentError(f"a tolerance is a share from 0 to 1, not {tolerance}")
        if len(a.shape) != 3:
            raise ShapeError(f"a scene has three axes, not the shape {a.shape}")
        self._a, self._p, self._tolerance = a, p, tolerance
        if not -3 <= band_axis < 3:
            raise AxisError(band_axis, 3)
        self._axis = band_axis % 3
        self._comm = getattr(a, "comm", None) if comm is None else comm
        self._memory = max_memory
        self._start = getattr(a, "origin", None)
        self.shape = (0, 0, 0)
        self._moments = Moments.of(np.empty((0, 0)))
        self._origin = np.empty(0)  # of the scores: x is about origin + scores @ basis
        self._basis = np.empty((0, 0))
        self._scores: Any = None
        self._closed = False
        self.endmembers = np.empty((0, 0))
        self.positions = np.empty((0, 2), dtype=np.int64)
        self.volume = 0.0
        self.update()

    @property
    def count(self) -> int:
        """Pixels that were taken up."""
        return self._moments.count

    @property
    def mean(self) -> Floats:
        """Mean spectrum."""
        return self._moments.mean

    @property
    def covariance(self) -> Floats:
        """Covariance of the bands."""
        return self._moments.covariance

    def follow(self, timeout: float | None = None, interval: float = 0.1) -> Iterator[Growing]:
        """Iterate over what arrives: the analysis itself, each time that it has taken something up.

        Parameters
        ----------
        timeout : float, optional
            Seconds without news after which the iteration ends; None: it goes on for ever.
        interval : float
            Seconds between looks.

        Yields
        ------
        Growing
        """
        last = time.monotonic()
        while True:
            if self.update():
                yield self
                last = time.monotonic()
            elif timeout is not None and self._over(time.monotonic() - last >= timeout):
                return
            else:
                time.sleep(interval)

    def _over(self, mine: bool) -> bool:
        """Tell all ranks alike whether the time is over."""
        return mine if self._comm is None else bool(self._comm.bcast(mine))

    def update(self) -> bool:
        """Take up what has been appended; return whether there was something.

        Raises
        ------
        ShapeError
            The scene has become smaller, or grown at the start of an axis: begin anew.
        ClosedError
            The analysis is closed.
        ArgumentError
            What arrived has values that are no finite numbers; an update takes it up when they are.
        """
        if self._closed:
            raise ClosedError("the analysis is closed; begin a new one")
        if hasattr(self._a, "refresh"):
            self._a.refresh()
        extents = list(self._a.shape)
        bands = extents.pop(self._axis)
        rows, columns = extents
        if getattr(self._a, "origin", None) != self._start or any(
            new < old for new, old in zip((rows, columns, bands), self.shape, strict=True)
        ):
            raise ShapeError(
                f"the scene of the shape {self.shape} has become {rows, columns, bands}, and "
                "not at the ends of its axes: begin a new analysis"
            )
        if (rows, columns, bands) == self.shape or not rows * columns * bands:
            return False
        old_rows, old_columns, old_bands = self.shape
        # Each step is noted: if the next one cannot be taken, nothing is taken up twice later.
        if not self.count:
            self._add_pixels(slice(0, rows), slice(0, columns), bands)
            self.shape = rows, columns, bands
        if bands > self.shape[2]:
            self._add_bands(old_bands, bands)
            self.shape = old_rows, old_columns, bands
        if rows > self.shape[0]:
            self._add_pixels(slice(old_rows, rows), slice(0, old_columns), bands)
            self.shape = rows, old_columns, bands
        if columns > self.shape[1]:
            self._add_pixels(slice(0, rows), slice(old_columns, columns), bands)
            self.shape = rows, columns, bands
        self._find()
        return True

    def _window(self, rows: slice, columns: slice, bands: slice) -> Spectra:
        """Return a part of the scene, of which nothing else is read."""
        key = [rows, columns]
        key.insert(self._axis, bands)
        part = self._a.lazy[tuple(key)] if hasattr(self._a, "lazy") else self._a[tuple(key)]
        return Spectra(part, self._axis, self._comm, self._memory)

    # -- pixels ----------------------------------------------------------------------------------

    def _add_pixels(self, rows: slice, columns: slice, bands: int) -> None:
        window = self._window(rows, columns, slice(0, bands))
        part = moments(window)
        if not self.count:
            self._origin, self._basis = part.mean, np.empty((0, bands))
        self._moments = self._moments.merge(part) if self.count else part
        # The directions in which these pixels differ and those before did not.
        step = part.mean - self._origin
        spread = part.scatter / part.count + np.outer(step, step)
        if len(self._basis):
            outside = np.eye(bands) - np.linalg.pinv(self._basis) @ self._basis
            spread = outside @ spread @ outside
        self._basis = np.vstack([self._basis, window.once(lambda: self._directions(spread))])
        inverse = np.linalg.pinv(self._basis)
        self._write(
            window,
            rows,
            columns,
            0,
            lambda block: (window.read(block) - self._origin) @ inverse,
        )

    def _directions(self, spread: Floats) -> Floats:
        """Return the directions that have more than the least share of the variance, in rows."""
        values, vectors = principal(spread, len(spread))
        least = self._tolerance * np.trace(self._moments.covariance)
        kept = values > max(least, len(values) * np.finfo(float).eps * np.trace(spread))
        kept[0] |= not len(self._basis)  # one at least
        chosen: Floats = vectors[kept]
        return chosen

    def _write(self, window: Spectra, rows: slice, columns: slice, first: int, work: Any) -> None:
        """Let the scores grow, and put there what each block gives, from a direction on."""
        shape = rows.stop, columns.stop, len(self._basis)
        if self._scores is None:
            path = window.temporary_path()
            self._scores = window.create(path, shape)
            window.remove_with(self._scores, path)
        for axis, (extent, new) in enumerate(zip(self._scores.shape, shape, strict=True)):
            if new > extent:
                self._scores.extend(axis=axis, by=new - extent)

        def write(run: Iterator[tuple[int, Block]]) -> None:
            for _, block in run:
                high = block.rows.stop - block.rows.start
                key = self._place(block, rows, columns)
                self._scores[(*key, slice(first, None))] = work(block).reshape(
                    high, -1, shape[2] - first
                )

        window.together(partial(window.by_threads, write))
        self._scores.flush()

    @staticmethod
    def _place(block: Block, rows: slice, columns: slice) -> tuple[slice, slice]:
        """Return where in the scene a block of a window lies."""
        return (
            slice(rows.start + block.rows.start, rows.start + block.rows.stop),
            slice(columns.start + block.columns.start, columns.start + block.columns.stop),
        )

    # -- bands -----------------------------------------------------------------------------------

    def _add_bands(self, old: int, new: int) -> None:
        """Take up new bands of the pixels that are there: by regression on the scores."""
        rows, columns = slice(0, self.shape[0]), slice(0, self.shape[1])
        window = self._window(rows, columns, slice(old, new))
        k = len(self._basis)

        def scores(block: Block) -> Floats:
            found: Floats = self._scores[block.rows, block.columns, :k].reshape(-1, k)
            return found

        joint = window.fold(
            lambda block: Moments.of(np.hstack([scores(block), window.read(block)])), Moments.merge
        )
        among, across, own = joint.scatter[:k, :k], joint.scatter[:k, k:], joint.scatter[k:, k:]
        slopes = np.linalg.pinv(among, hermitian=True) @ across
        origin = joint.mean[k:] - joint.mean[:k] @ slopes
        together = self._basis.T @ across
        before = self._moments
        self._moments = Moments(
            before.count,
            np.concatenate([before.mean, joint.mean[k:]]),
            np.block([[before.scatter, together], [together.T, own]]),
        )
        left = (own - across.T @ slopes) / joint.count
        more = window.once(lambda: self._directions(left))
        self._origin = np.concatenate([self._origin, origin])
        self._basis = np.block([[self._basis, slopes], [np.zeros((len(more), old)), more]])
        if len(more):
            self._write(
                window,
                rows,
                columns,
                k,
                lambda block: (window.read(block) - origin - scores(block) @ slopes) @ more.T,
            )

    # -- endmembers ------------------------------------------------------------------------------

    def _find(self) -> None:
        """Find the simplex anew, and from the one there was; the larger one counts."""
        rows, columns, bands = self.shape
        if self._p - 1 > min(bands, len(self._basis)) or self._p > self.count:
            return
        scores = Spectra(self._scores, comm=self._comm, max_memory=self._memory)
        _, directions = scores.once(lambda: principal(self.covariance, self._p - 1))
        reduced = projected(
            scores, directions @ self._basis.T, directions @ (self.mean - self._origin)
        )
        try:
            pixels = vertices_to_begin_with(reduced, self._p)
        except ArgumentError:  # too few dimensions as yet
            return
        self.volume = enlarge(reduced, pixels)
        if len(self.positions):
            others = self.positions @ np.array([columns, 1])
            volume = enlarge(reduced, others)
            if volume > self.volume:
                self.volume, pixels = volume, others
        whole = self._window(slice(0, rows), slice(0, columns), slice(0, bands))
        self.positions = whole.positions(pixels)
        self.endmembers = whole.at(pixels)

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove the scores; what was found stays.  Of all ranks together."""
        if self._scores is not None:
            self._scores.close()
            self._scores = None
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
