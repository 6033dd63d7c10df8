"""Molecular dynamics of Lennard-Jones particles, whose matrix of forces grows as they join."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

import extarray as xa
from extarray.apps.bands import bands, communicator, share

__all__ = ["System", "pair_forces"]

Floats = NDArray[np.float64]


def pair_forces(
    positions: Floats, some: slice = slice(None), box: float | None = None, cutoff: float = math.inf
) -> tuple[Floats, Floats]:
    """Return the forces of all particles on some of them, and the energies of these pairs.

    Parameters
    ----------
    positions : ndarray
        Of shape (n, axes), in units of sigma.
    some : slice
        On which particles.
    box : float, optional
        Side of the periodic cell, of which the nearest image counts; None: open space.
    cutoff : float
        Distance from which on particles do not see each other.  The potential is shifted to be
        zero there.

    Returns
    -------
    forces : ndarray
        Of shape (some, n, axes): that of particle j on particle i, in units of epsilon / sigma.
    energies : ndarray
        Of shape (some, n), in units of epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> forces, energies = pair_forces(np.array([[0.0], [2.0 ** (1 / 6)]]))
    >>> bool(abs(forces).max() < 1e-12), float(energies[0, 1].round(12))
    (True, -1.0)
    """
    apart = positions[some, None] - positions
    if box is not None:
        apart -= box * np.round(apart / box)
    squares = np.einsum("ijk,ijk->ij", apart, apart)
    rows = np.arange(len(positions))[some]
    squares[np.arange(len(rows)), rows] = math.inf  # nobody pushes itself
    inverse = np.where(squares < cutoff**2, 1 / squares, 0.0) ** 3
    shift = cutoff**-6
    energies = np.where(inverse > 0, 4 * (inverse**2 - inverse - shift**2 + shift), 0.0)
    strengths = 24 * (2 * inverse**2 - inverse) / squares
    return strengths[..., None] * apart, energies


class System:
    """Particles that attract and repel each other, and the matrix of the forces between them.

    Parameters
    ----------
    forces : ExtArray
        Of shape (n, n, axes), where n may be 0.  It grows when particles are added; element
        (i, j) is the force of particle j on particle i.  If it was opened with ``comm=``, the
        ranks share its rows, and all methods are collective.
    box, cutoff
        As for `pair_forces`.

    Attributes
    ----------
    positions, velocities : ndarray
        Of shape (n, axes), on every rank.
    potential : float
        Energy of all pairs.

    Notes
    -----
    Units are those of the potential: its depth, the diameter of a particle and its mass are 1.
    Rows of the matrix are computed a few at a time, in ``config.max_memory``; with a communicator,
    all rows of a rank at once.

    Examples
    --------
    >>> import extarray as xa
    >>> system = System(xa.zeros((0, 0, 3)))
    >>> system.add([[0, 0, 0], [1.2, 0, 0]])
    >>> energy = system.energy
    >>> system.run(100, 0.001)
    >>> bool(abs(system.energy - energy) < 1e-5)
    True
    >>> system.add([[0, 1.2, 0]])
    >>> system.forces.shape
    (3, 3, 3)
    """

    def __init__(
        self, forces: xa.ExtArray, box: float | None = None, cutoff: float = math.inf
    ) -> None:
        self.forces = forces
        self.box, self.cutoff = box, cutoff
        self.positions = self.velocities = np.zeros((0, forces.shape[2]))
        self.potential = 0.0
        self._totals = self.positions
        share(forces, 0)

    def add(self, positions: ArrayLike, velocities: ArrayLike = 0.0) -> None:
        """Add particles: both axes of the matrix grow by their number.

        Parameters
        ----------
        positions : array_like
            Of shape (number, axes).
        velocities : array_like
            Of the same shape, or one for all.
        """
        new = np.asarray(positions, float)
        self.positions = np.concatenate([self.positions, new])
        self.velocities = np.concatenate([self.velocities, np.broadcast_to(velocities, new.shape)])
        for axis in (0, 1):
            self.forces.extend(axis, len(self.positions) - self.forces.shape[axis])
        self._update()

    def run(self, steps: int, by: float) -> None:
        """Move all particles by velocity Verlet.

        Parameters
        ----------
        steps : int
        by : float
            Time of a step.
        """
        for _ in range(steps):
            self.velocities = self.velocities + by / 2 * self._totals
            self.positions = self.positions + by * self.velocities
            self._update()
            self.velocities = self.velocities + by / 2 * self._totals

    @property
    def energy(self) -> float:
        """Energy of motion and of all pairs, which stays the same."""
        return float((self.velocities**2).sum() / 2 + self.potential)

    def _update(self) -> None:
        """Compute the matrix, and from it the force on each particle."""
        self._totals = np.zeros_like(self.positions)
        potential = 0.0
        for rows in bands(self.forces, 0, 6 * 8 * self.positions.size):
            forces, energies = pair_forces(self.positions, rows, self.box, self.cutoff)
            self.forces.write(rows, forces)
            self._totals[rows] = forces.sum(1)
            potential += energies.sum() / 2
        comm = communicator(self.forces)
        if comm is not None:
            self._totals, potential = comm.allreduce(self._totals), comm.allreduce(potential)
        self.potential = float(potential)
