"""Keep the statistics and endmembers of a growing scene up to date without rereading it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from extarray import ArgumentError, ClosedError, ShapeError
from extarray.apps.hyperspectral_blocks import Block, Floats, Ints, Spectra, cut, memory_of
from extarray.apps.hyperspectral_components import Moments, moments_of_block, principal
from extarray.apps.hyperspectral_endmembers import (
    enlarge,
    projected,
    vertices_to_begin_with,
)
from extarray.apps.hyperspectral_pixels import Raster, within

__all__ = ["Growing"]

#: Pixels kept until their scores are known take this part of the memory: 1 / _KEPT.
_KEPT = 4

#: Search the whole scene for endmembers again when it has this many times the pixels.
_AGAIN = 1.25

#: Attributes that a failed update restores.
_STATE = (
    "shape",
    "endmembers",
    "positions",
    "volume",
    "_moments",
    "_origin",
    "_basis",
    "_searched",
)


class Growing:
    """Statistics and endmembers of a scene that grows by swaths and bands.

    An update reads only the data that have arrived since the last one, once, so its cost does not
    depend on the size of the scene.  Of earlier data it rereads only the spectra of new endmembers.

    Parameters
    ----------
    a : ExtArray or array
        Scene of three axes, which may still be empty.  It grows at the ends of its axes.
    p : int
        Number of endmembers, from 2.
    tolerance : float
        Directions with a smaller share of the variance are dropped.
    band_axis : int or str, optional
        The axis of the bands, or its name; see `pct`.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out; see `pct`.  It is at least as large as the scene, and may be
        an ExtArray that grows before the scene does.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work, and call all methods together.  Default: those that have `a` open
        together.
    max_memory : int or str, optional
        Bytes of temporary memory per rank.

    Attributes
    ----------
    shape : tuple of int
        Rows, columns and bands analysed so far.
    count : int
        Pixels that have data.
    mean, covariance : ndarray, (bands,) and (bands, bands)
        Statistics of these pixels; see Notes.
    endmembers, positions : ndarray, (p, bands) and (p, 2)
        As from `nfindr`, see Notes; empty while the pixels span too few dimensions.
    volume : float
        Volume of the endmembers' simplex.

    Notes
    -----
    Swaths, rows or columns, cost no accuracy: moments merge exactly.  The covariance of a new band
    with old ones comes from the scores, hence without the parts below `tolerance`: usually noise,
    which is uncorrelated.

    No newly arrived pixel would enlarge the simplex in the place of a single endmember.  Earlier
    pixels are searched again, by their scores, after bands have arrived or the scene has grown by a
    quarter, so that all these searches together cost a few times as much as one.

    A pixel without data on arrival stays left out.  A pixel without data in a later band is left
    out from then on, and the spectra of its block are read again to remove it.

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
        band_axis: int | str | None = None,
        mask: Any = None,
        comm: Any = None,
        max_memory: int | str | None = None,
    ) -> None:
        if p < 2:
            raise ArgumentError(f"the number of endmembers must be at least 2, not {p}")
        if not 0 <= tolerance < 1:
            raise ArgumentError(f"the tolerance must be a fraction from 0 to 1, not {tolerance}")
        self._a, self._p, self._tolerance = a, p, tolerance
        self._band_axis, self._mask = band_axis, mask
        self._comm = getattr(a, "comm", None) if comm is None else comm
        self._memory = memory_of(max_memory)
        self._start = getattr(a, "origin", None)
        self.shape = (0, 0, 0)
        self._moments = Moments.of(np.empty((0, 0)))
        # A pixel x is about origin + scores @ basis.  Scores of a pixel without data are NaN in at
        # least one column: the first row of the basis is zero, so that one exists.
        self._origin = np.empty(0)
        self._basis = np.empty((1, 0))
        self._scores: Any = None
        self._closed = False
        self.endmembers = np.empty((0, 0))
        self.positions: Ints = np.empty((0, 2), dtype=np.int64)
        self.volume = 0.0
        self._searched = 0, 0  # pixels and directions at the last search of the whole scene
        self.update()

    @property
    def count(self) -> int:
        """Analysed pixels that have data."""
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
        """Yield the analysis itself after each update that brings news.

        Parameters
        ----------
        timeout : float, optional
            Seconds without news until the iteration ends; None: never.
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
        """Return rank 0's answer on all ranks."""
        return mine if self._comm is None else bool(self._comm.bcast(mine))

    def update(self) -> bool:
        """Analyse the data that have arrived; return whether there were any.

        Raises
        ------
        ShapeError
            The scene has become smaller, or grown at the start of an axis: begin a new analysis.
            Or the mask has not grown with it.
        ClosedError
            The analysis is closed.
        StorageError
            A read or write failed.  A later update tries again.
        """
        if self._closed:
            raise ClosedError("the analysis is closed; begin a new one")
        for array in (self._a, self._mask):
            if hasattr(array, "refresh"):
                array.refresh()
        raster = Raster(self._a, self._band_axis, self._mask, covers=True)
        shape = rows, columns, bands = raster.rows, raster.columns, raster.bands
        if getattr(self._a, "origin", None) != self._start or any(
            new < old for new, old in zip(shape, self.shape, strict=True)
        ):
            raise ShapeError(
                f"the scene changed from shape {self.shape} to {shape} other than by growing at "
                "the ends of its axes; begin a new analysis"
            )
        if shape == self.shape or not rows * columns * bands:
            return False
        if self.shape == (0, 0, 0):
            self._step(raster, slice(0, rows), slice(0, columns), bands)
            return True
        old_rows, old_columns, old_bands = self.shape
        if bands > old_bands:
            self._step(raster, slice(0, old_rows), slice(0, old_columns), bands)
        if rows > old_rows:
            self._step(raster, slice(old_rows, rows), slice(0, old_columns), bands)
        if columns > old_columns:
            self._step(raster, slice(0, rows), slice(old_columns, columns), bands)
        return True

    def _step(self, raster: Raster, rows: slice, columns: slice, bands: int) -> None:
        """Analyse a swath, or new bands of all pixels, completely or not at all."""
        before = {name: self.__dict__[name] for name in _STATE}
        extents = None if self._scores is None else self._scores.shape
        old_bands = self.shape[2]
        try:
            if self._scores is None:
                self._origin, self._basis = np.zeros(bands), np.zeros((1, bands))
            if 0 < old_bands < bands:
                self._add_bands(raster.part(rows, columns, slice(0, bands)), old_bands)
            else:
                self._add_pixels(raster.part(rows, columns, slice(0, bands)), rows, columns)
            self.shape = rows.stop, columns.stop, bands
            self._seek(raster, rows, columns, old_bands < bands)
        except BaseException:
            self.__dict__.update(before)
            if self._scores is not None and extents is not None:
                self._scores.resize(extents)
            elif self._scores is not None:
                self._scores.close()
                self._scores = None
            raise

    def _pieces(self, window: Raster) -> Iterator[tuple[tuple[slice, slice], Spectra]]:
        """Cut a part of the scene into pieces that are read once, and kept while in use.

        Yield each piece's place in the part, and the piece.  Pieces do not depend on the ranks, so
        results do not either.
        """
        for block in cut(window.rows, window.columns, window.bands, self._memory // _KEPT):
            part = window.part(block.rows, block.columns, slice(0, window.bands)).kept()
            memory = self._memory - self._memory // _KEPT
            yield (block.rows, block.columns), Spectra(part, comm=self._comm, max_memory=memory)

    # -- pixels ----------------------------------------------------------------------------------

    def _add_pixels(self, window: Raster, rows: slice, columns: slice) -> None:
        for place, piece in self._pieces(window):
            part = piece.fold(partial(moments_of_block, piece), Moments.merge)
            if not self.count:
                self._origin = part.mean
            self._moments = self._moments.merge(part)
            if part.count:
                # Directions in which these pixels differ and earlier ones did not.
                step = part.mean - self._origin
                spread = part.scatter / part.count + np.outer(step, step)
                least = self._tolerance * float(np.trace(self.covariance))
                find = partial(_directions, spread, self._basis, least)
                self._basis = np.vstack([self._basis, piece.once(find)])
            inverse = piece.once(partial(np.linalg.pinv, self._basis))
            score = partial(_scores, self._origin, inverse)
            n = len(self._basis)
            at = within(rows, place[0]), within(columns, place[1])
            self._write(piece, at, slice(0, n), partial(piece.spread, score, n, float, np.nan))

    def _write(
        self,
        piece: Spectra,
        at: tuple[slice, slice],
        depth: slice,
        work: Callable[[Block], Floats],
    ) -> None:
        """Grow the scores, and store the results of each block of a piece."""
        shape = at[0].stop, at[1].stop, depth.stop
        if self._scores is None:
            path = piece.temporary_path()
            self._scores = piece.create(path, shape)
            piece.remove_with(self._scores, path)
        for axis, (extent, new) in enumerate(zip(self._scores.shape, shape, strict=True)):
            if new > extent:
                self._scores.extend(axis=axis, by=new - extent)

        def write(run: Iterator[tuple[int, Block]]) -> None:
            for _, block in run:
                values = work(block)
                rows, columns = within(at[0], block.rows), within(at[1], block.columns)
                high = rows.stop - rows.start
                self._scores[rows, columns, depth] = values.reshape(high, -1, values.shape[1])

        piece.together(partial(piece.by_threads, write))

    # -- bands -----------------------------------------------------------------------------------

    def _add_bands(self, window: Raster, old: int) -> None:
        """Analyse new bands of known pixels, by regression on the scores."""
        rows, columns = slice(0, window.rows), slice(0, window.columns)
        older = Spectra(window.part(rows, columns, slice(0, old)), comm=self._comm)
        new, k = window.bands - old, len(self._basis)
        left, joint = self._moments, Moments.of(np.empty((0, k + new)))
        origin, slopes, more = np.zeros(new), np.zeros((k, new)), np.empty((0, new))
        for at, piece in self._pieces(window.part(rows, columns, slice(old, window.bands))):
            part, lost = piece.fold(
                partial(self._joint, piece, at, older, k),
                lambda one, other: (one[0].merge(other[0]), one[1].merge(other[1])),
            )
            left = left.without(lost)
            if not joint.count and part.count:
                among = partial(np.linalg.pinv, part.scatter[:k, :k], hermitian=True)
                slopes = piece.once(among) @ part.scatter[:k, k:]
                origin = part.mean[k:] - part.mean[:k] @ slopes
            joint = joint.merge(part)
            if lost.count and more.any(axis=1).all():
                more = np.vstack([more, np.zeros((1, new))])  # a column for their NaN
            if part.count:
                # The residuals of the regression have their own directions.
                residual = np.vstack([-slopes, np.eye(new)])
                step = part.mean @ residual - origin
                spread = residual.T @ part.scatter @ residual / part.count + np.outer(step, step)
                variance = np.trace(left.covariance) + np.trace(joint.covariance[k:, k:])
                find = partial(_directions, spread, more, self._tolerance * float(variance))
                more = np.vstack([more, piece.once(find)])
            if len(more):
                work = partial(self._residual, piece, at, origin, slopes, more)
                self._write(piece, at, slice(k, k + len(more)), work)
        across, own = joint.scatter[:k, k:], joint.scatter[k:, k:]
        together = self._basis.T @ across
        self._moments = Moments(
            left.count,
            np.concatenate([left.mean, joint.mean[k:]]),
            np.block([[left.scatter, together], [together.T, own]]),
        )
        self._origin = np.concatenate([self._origin, origin])
        self._basis = np.block([[self._basis, slopes], [np.zeros((len(more), old)), more]])

    def _scored(self, at: tuple[slice, slice], block: Block, k: int) -> Floats:
        """Return the scores of a block of a piece in k directions."""
        rows, columns = within(at[0], block.rows), within(at[1], block.columns)
        found: Floats = self._scores[rows, columns, :k].reshape(-1, k)
        return found

    def _joint(
        self, piece: Spectra, at: tuple[slice, slice], older: Spectra, k: int, block: Block
    ) -> tuple[Moments, Moments]:
        """Return the joint moments of scores and new bands, and the moments of lost pixels.

        Lost pixels have data in the old bands and none in the new ones.
        """
        x, numbers = piece.read(block)
        scores = self._scored(at, block, k)
        had: Any = np.isfinite(scores).all(axis=1)
        places = numbers - block.first
        both = had[places]
        joint = Moments.of(np.hstack([scores[places[both]], x[both]]))
        had[places] = False
        lost = np.empty((0, older.bands))
        if had.any():
            rows, columns = within(at[0], block.rows), within(at[1], block.columns)
            lost = older.box(rows, columns)[0].reshape(-1, older.bands)[had]
        return joint, Moments.of(lost)

    def _residual(
        self,
        piece: Spectra,
        at: tuple[slice, slice],
        origin: Floats,
        slopes: Floats,
        more: Floats,
        block: Block,
    ) -> Floats:
        """Return the scores in new directions; NaN for pixels without data in any band."""
        x, numbers = piece.read(block)
        places = numbers - block.first
        values = np.full((block.pixels, len(more)), np.nan)
        fitted = self._scored(at, block, len(slopes))[places] @ slopes
        values[places] = (x - origin - fitted) @ more.T
        return values

    # -- endmembers ------------------------------------------------------------------------------

    def _seek(self, raster: Raster, rows: slice, columns: slice, new_bands: bool) -> None:
        """Find the simplex of the pixels, from those of a swath or of the whole scene."""
        n, directions = self.count, int(self._basis.any(axis=1).sum())
        if self._p - 1 > directions or self._p > n:
            self._take(raster, np.empty((0, 2), dtype=np.int64), 0.0)
            return
        scores = Raster(self._scores)
        view = Spectra(scores, comm=self._comm, max_memory=self._memory)
        _, axes = view.once(lambda: principal(self.covariance, self._p - 1))
        turn, offset = axes @ self._basis.T, axes @ (self.mean - self._origin)
        known = [self._scores[row, column] @ turn.T - offset for row, column in self.positions]
        vertices = np.array(known) if known else np.empty((0, self._p - 1))
        # Drop all if an endmember has lost its data, or they span no volume in these components.
        if not (np.isfinite(vertices).all() and _have_volume(vertices)):
            vertices = vertices[:0]
        grown = n >= _AGAIN * self._searched[0] or (not known and directions > self._searched[1])
        if new_bands or grown or len(vertices) < len(known):
            self._searched = n, directions
            self._seek_all(raster, projected(view, turn, offset), vertices)
        elif len(vertices):
            part = scores.part(rows, columns, slice(0, scores.bands))
            swath = Spectra(part, comm=self._comm, max_memory=self._memory)
            pixels = np.full(self._p, -1, dtype=np.int64)
            reduced = projected(swath, turn, offset)
            volume = enlarge(reduced, pixels, vertices)
            found = reduced.positions(pixels) + [rows.start, columns.start]
            self._take(raster, np.where(pixels[:, None] < 0, self.positions, found), volume)

    def _seek_all(self, raster: Raster, reduced: Spectra, vertices: Floats) -> None:
        """Search from new vertices and from the old ones; keep the larger simplex."""
        try:
            pixels = vertices_to_begin_with(reduced, self._p)
        except ArgumentError:  # still too few dimensions
            there = len(vertices)
            self._take(raster, self.positions[:there], self.volume if there else 0.0)
            return
        volume = enlarge(reduced, pixels)
        if len(vertices):
            others = self.positions @ np.array([reduced.columns, 1])
            other = enlarge(reduced, others)
            if other > volume:
                volume, pixels = other, others
        self._take(raster, reduced.positions(pixels), volume)

    def _take(self, raster: Raster, positions: Ints, volume: float) -> None:
        """Set the endmembers, reading the spectra of new ones."""
        known = dict(zip(map(tuple, self.positions.tolist()), self.endmembers, strict=True))
        whole = Spectra(raster, comm=self._comm, max_memory=self._memory)
        members = np.empty((len(positions), raster.bands))
        for k, place in enumerate(map(tuple, positions.tolist())):
            old = known.get(place)
            if old is None or len(old) != raster.bands:
                members[k] = whole.at([place[0] * whole.columns + place[1]])[0]
            else:
                members[k] = old
        self.positions, self.endmembers, self.volume = positions, members, volume

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove the scores; results stay; collective."""
        if self._scores is not None:
            self._scores.close()
            self._scores = None
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _directions(spread: Floats, known: Floats, least: float) -> Floats:
    """Return directions, in rows, in which the pixels' variance exceeds a limit.

    They are orthogonal to the known directions.
    """
    outside = np.eye(len(spread)) - np.linalg.pinv(known) @ known
    values, vectors = principal(outside @ spread @ outside, len(spread))
    chosen: Floats = vectors[
        values > max(least, len(values) * np.finfo(float).eps * np.trace(spread))
    ]
    return chosen


def _have_volume(vertices: Floats) -> bool:
    """Tell whether vertices, (p, p - 1), span a simplex; True if there are none."""
    sides = vertices[1:] - vertices[:1]
    return bool(np.linalg.matrix_rank(sides) == len(sides)) if len(sides) else True


def _scores(origin: Floats, inverse: NDArray[Any], x: Floats) -> Floats:
    found: Floats = (x - origin) @ inverse
    return found
