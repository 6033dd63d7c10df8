"""Flow in a lid-driven cavity by the lattice Boltzmann method (D2Q9), on a grid that grows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import extarray as xa
from extarray.apps.bands import bands, share

__all__ = ["Cavity"]

Floats = NDArray[np.float64]

#: Steps along rows and columns of the nine populations, and their weights.
STEPS = np.array([(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, -1), (-1, 1)])
WEIGHTS = np.array([4 / 9, *[1 / 9] * 4, *[1 / 36] * 4])
#: For each population, the one in the opposite direction.
BACK = [0, 3, 4, 1, 2, 7, 8, 5, 6]


class Cavity:
    """A cavity full of fluid at rest, whose lid, above row 0, begins to move along the rows.

    Parameters
    ----------
    now, after : ExtArray
        Populations at this step and at the next: float64 of shape (9, 0, 0) and the same chunks.
        If they were opened with the same ``comm=``, the ranks share the rows, and all methods are
        collective.
    viscosity : float
        In lattice units: squared nodes per step.
    lid : float
        Speed of the lid, in nodes per step; well below 0.58, the speed of sound.

    Attributes
    ----------
    now : ExtArray
        Populations after the collisions of the last step.

    Notes
    -----
    Collisions relax all populations at one rate (BGK).  Walls lie half-way between the outermost
    nodes and those beyond, and throw populations back; the lid gives them momentum [1]_.  The
    Reynolds number is ``lid * columns / viscosity``.

    References
    ----------
    .. [1] A. J. C. Ladd, "Numerical simulations of particulate suspensions via a discretized
       Boltzmann equation. Part 1", Journal of Fluid Mechanics 271 (1994) 285-309.

    Examples
    --------
    >>> import extarray as xa
    >>> cavity = Cavity(xa.zeros((9, 0, 0)), xa.zeros((9, 0, 0)), viscosity=0.1, lid=0.1)
    >>> cavity.grow(8, 8)
    >>> cavity.run(50)
    >>> cavity.grow(2, 0)
    >>> cavity.run(50)
    >>> density, velocity = cavity.fields()
    >>> velocity.shape, bool(velocity[1, 0, 4] > 0)
    ((2, 10, 8), True)
    """

    def __init__(self, now: xa.ExtArray, after: xa.ExtArray, viscosity: float, lid: float) -> None:
        self.now, self._after = now, after
        self.lid = lid
        self.rate = 1 / (3 * viscosity + 0.5)
        for array in (now, after):
            share(array, 1)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of nodes."""
        return self.now.shape[1], self.now.shape[2]

    def grow(self, rows: int, columns: int) -> None:
        """Move the bottom and the right wall outwards; fluid at rest fills the new nodes.

        Parameters
        ----------
        rows, columns : int
            Numbers of new nodes.
        """
        for axis, by in ((1, rows), (2, columns)):
            for array in (self.now, self._after):
                shape = list(array.shape)
                shape[axis] = by
                if 0 in shape[1:]:
                    array.extend(axis, by)
                else:
                    array.append(np.broadcast_to(WEIGHTS[:, None, None], shape), axis)

    def run(self, steps: int) -> None:
        """Advance the flow by some steps.

        Parameters
        ----------
        steps : int
        """
        for _ in range(steps):
            for rows in bands(self.now, 1, 8 * 9 * 6 * self.now.shape[2]):
                self._after.write((slice(None), rows), self._collided(self._arriving(rows)))
            self.now, self._after = self._after, self.now

    def fields(self) -> tuple[Floats, Floats]:
        """Return the density and the velocity at all nodes, in memory.

        Returns
        -------
        density : ndarray
            Of shape (rows, columns).
        velocity : ndarray
            Of shape (2, rows, columns): along rows (downwards) and along columns, in nodes per
            step.
        """
        return _moments(self.now[...])

    def _arriving(self, rows: slice) -> Floats:
        """Return the populations that reach the nodes of some rows from their neighbours."""
        height = self.now.shape[1]
        first, last = max(rows.start - 1, 0), min(rows.stop + 1, height)
        around = self.now[:, first:last]
        inside = slice(rows.start - first, rows.stop - first)
        here = around[:, inside]
        arriving: Floats = np.empty_like(here)
        for i, (down, right) in enumerate(STEPS):
            arriving[i] = np.roll(around[i], (down, right), (0, 1))[inside]
            # Walls throw back the populations that hit them.
            if down > 0 and rows.start == 0:
                arriving[i, :1] = here[BACK[i], :1] + 6 * WEIGHTS[i] * right * self.lid
            if down < 0 and rows.stop == height:
                arriving[i, -1:] = here[BACK[i], -1:]
            if right:
                wall = 0 if right > 0 else -1
                arriving[i, :, wall] = here[BACK[i], :, wall]
        return arriving

    def _collided(self, populations: Floats) -> Floats:
        """Return populations relaxed towards the equilibrium of their density and velocity."""
        density, velocity = _moments(populations)
        along = 3 * np.tensordot(STEPS, velocity, 1)
        square = 1.5 * (velocity**2).sum(0)
        equilibrium = WEIGHTS[:, None, None] * density * (1 + along + along**2 / 2 - square)
        relaxed: Floats = populations + self.rate * (equilibrium - populations)
        return relaxed


def _moments(populations: Floats) -> tuple[Floats, Floats]:
    """Return the density and the velocity of populations."""
    density: Floats = populations.sum(0)
    return density, np.tensordot(STEPS.T, populations, 1) / density
