"""Molecular dynamics of Lennard-Jones particles, whose matrix of forces grows as they join."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

import extarray as xa
from extarray.apps.bands import bands, communicator, share

__all__ = ["System", "pair_forces"]

Floats = NDArray[np.float64]

#: Attribute of a matrix of forces that stores a system's state.
_STATE = "particles"

#: Square of a distance at which forces overflow floats, or nearly so.
_SAME = 1e-40


def pair_forces(
    positions: Floats, some: slice = slice(None), box: float | None = None, cutoff: float = math.inf
) -> tuple[Floats, Floats]:
    """Return the forces of all particles on some of them, and the energies of these pairs.

    Parameters
    ----------
    positions : ndarray
        Of shape (n, axes), in units of sigma.
    some : slice
        The particles on which forces act.
    box : float, optional
        Side of the periodic cell; the nearest image counts.  None: open space.
    cutoff : float
        Distance beyond which particles do not see each other, at most half a side of the cell.  The
        potential is shifted to be zero there.

    Returns
    -------
    forces : ndarray
        Of shape (some, n, axes): of particle j on particle i, in units of epsilon / sigma.
    energies : ndarray
        Of shape (some, n), in units of epsilon.

    Raises
    ------
    ArgumentError
        The cutoff is more than half a side of the cell, so that a particle sees two images of
        another; two particles are at the same place; or a position is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> forces, energies = pair_forces(np.array([[0.0], [2.0 ** (1 / 6)]]))
    >>> bool(abs(forces).max() < 1e-12), float(energies[0, 1].round(12))
    (True, -1.0)
    """
    _check_cell(box, cutoff)
    apart, squares = _apart(positions, some, box)
    inverse = np.where(squares < cutoff**2, 1 / squares, 0.0) ** 3
    shift = cutoff**-6
    energies = np.where(inverse > 0, 4 * (inverse**2 - inverse - shift**2 + shift), 0.0)
    strengths = 24 * (2 * inverse**2 - inverse) / squares
    return strengths[..., None] * apart, energies


def _check_cell(box: float | None, cutoff: float) -> None:
    """Refuse an impossible cell or cutoff, and a cutoff too large for the cell."""
    if not cutoff > 0:
        raise xa.ArgumentError(f"cutoff must be a positive distance, not {cutoff}")
    if box is None:
        return
    if not 0 < box < math.inf:
        raise xa.ArgumentError(f"the side of the cell must be a positive finite length, not {box}")
    if cutoff > box / 2:
        raise xa.ArgumentError(
            f"cutoff {cutoff} is too large for a cell of side {box}, since a particle would see "
            f"two images of another; give a cutoff of at most {box / 2}, or a larger cell"
        )


def _apart(positions: Floats, some: slice, box: float | None) -> tuple[Floats, Floats]:
    """Return the displacements from all particles to some, and the squared distances.

    A particle is infinitely far from itself.
    """
    if not np.isfinite(positions).all():
        bad = int((~np.isfinite(positions).all(axis=1)).argmax())
        raise xa.ArgumentError(
            f"the position of particle {bad} is not finite: {positions[bad].tolist()}"
        )
    apart = positions[some, None] - positions
    if box is not None:
        apart -= box * np.round(apart / box)
    squares = np.einsum("ijk,ijk->ij", apart, apart)
    rows = np.arange(len(positions))[some]
    squares[np.arange(len(rows)), rows] = math.inf  # no force on itself
    for i, j in np.argwhere(squares < _SAME)[:1].tolist():
        raise xa.ArgumentError(
            f"particles {rows[i]} and {j} are at the same place, {positions[j].tolist()}, where "
            "the force between them is infinite: move one of them"
        )
    return apart, squares


class System:
    """Particles that attract and repel each other, and the matrix of the forces between them.

    Parameters
    ----------
    forces : ExtArray
        Of shape (n, n, axes): without particles, or the matrix of an earlier system, which this one
        continues.  It grows when particles are added; element (i, j) is the force of particle j on
        particle i.  If it was opened with ``comm=``, the ranks share its rows, and all methods are
        collective.
    box, cutoff : float, optional
        As for `pair_forces`.  Default: those of the earlier system, else open space and infinity.
    positions : array_like, optional
        Positions of the particles of the matrix, (n, axes).  Default: those of the earlier system.
    velocities : array_like
        Velocities at these positions, or one for all.

    Attributes
    ----------
    box, cutoff : float or None, and float
    positions, velocities : ndarray
        Of shape (n, axes), on every rank.
    potential : float
        Energy of all pairs.

    Raises
    ------
    ShapeError
        The matrix does not have such a shape, or positions do not fit its particles.
    ArgumentError
        The matrix has particles, and neither positions nor an earlier system give their places; the
        earlier system had another cell or cutoff; or as for `pair_forces`.

    Notes
    -----
    `add` and `run` end by storing positions and velocities in the matrix's attribute
    ``"particles"``.  After an interrupted run, another system continues from there.

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
        self,
        forces: xa.ExtArray,
        box: float | None = None,
        cutoff: float | None = None,
        *,
        positions: ArrayLike | None = None,
        velocities: ArrayLike = 0.0,
    ) -> None:
        if forces.ndim != 3 or forces.shape[0] != forces.shape[1] or not forces.shape[2]:
            raise xa.ShapeError(
                "a matrix of forces must have shape (n, n, axes), such as (0, 0, 3), not "
                f"{forces.shape}"
            )
        self.forces = forces
        self.positions = self.velocities = np.zeros((0, forces.shape[2]))
        self.potential = 0.0
        self._totals = self.positions
        self.box, self.cutoff = box, math.inf if cutoff is None else cutoff
        known = forces.attrs.get(_STATE)
        if known is not None:
            self.positions = np.array(known["positions"], float)
            self.velocities = np.array(known["velocities"], float)
            self.box = known["box"]
            self.cutoff = math.inf if known["cutoff"] is None else known["cutoff"]
            for name, value in (("box", box), ("cutoff", cutoff)):
                if value is not None and value != getattr(self, name):
                    raise xa.ArgumentError(
                        f"the system of this matrix has {name}={getattr(self, name)}, not "
                        f"{value}; leave out {name} to continue with it, or begin with another "
                        "matrix"
                    )
        if positions is not None:
            self.positions, self.velocities = self._particles(positions, velocities)
        if self.positions.shape != forces.shape[1:]:
            raise xa.ArgumentError(
                f"the matrix has forces of {forces.shape[0]} particles, but the positions of "
                f"{len(self.positions)} are known; give positions=, begin with a matrix of shape "
                f"(0, 0, {forces.shape[2]}), or continue with one made by a System"
            )
        _check_cell(self.box, self.cutoff)
        share(forces, 0)
        if len(self.positions):
            self._update()
        if positions is not None:
            self._note()

    def add(self, positions: ArrayLike, velocities: ArrayLike = 0.0) -> None:
        """Add particles: both axes of the matrix grow by their number.

        Parameters
        ----------
        positions : array_like
            Of shape (number, axes).
        velocities : array_like
            Of the same shape, or one for all.

        Raises
        ------
        ShapeError, ArgumentError
            No particle is added: for example, one is at the place of another; see `pair_forces`.
        """
        new, speeds = self._particles(positions, velocities)
        n, together = len(self.positions), np.concatenate([self.positions, new])
        step = max(1, xa.config.max_memory // (6 * 8 * max(1, together.size)))
        for start in range(n, len(together), step):
            _apart(together, slice(start, start + step), self.box)
        self.positions = together
        self.velocities = np.concatenate([self.velocities, speeds])
        for axis in (0, 1):
            self.forces.extend(axis, len(new))
        self._update()
        self._note()

    def run(self, steps: int, by: float) -> None:
        """Move all particles by velocity Verlet.

        Parameters
        ----------
        steps : int
        by : float
            Time of a step.

        Raises
        ------
        ArgumentError
            A step would put particles at impossible places, as a step that is too long does; it
            moves none.
        """
        for _ in range(steps):
            before = self.positions, self.velocities
            with np.errstate(over="ignore", invalid="ignore"):  # `_update` refuses them
                self.velocities = self.velocities + by / 2 * self._totals
                self.positions = self.positions + by * self.velocities
            try:
                self._update()
            except xa.ArgumentError:
                self.positions, self.velocities = before
                self._update()
                self._note()
                raise
            self.velocities = self.velocities + by / 2 * self._totals
        self._note()

    @property
    def energy(self) -> float:
        """Kinetic and potential energy, which is conserved."""
        return float((self.velocities**2).sum() / 2 + self.potential)

    def _update(self) -> None:
        """Compute the matrix, and from it the force on each particle."""
        self._totals = np.zeros_like(self.positions)
        potential = 0.0
        comm = communicator(self.forces)
        for rows in bands(self.forces, 0, 6 * 8 * self.positions.size):
            error = None
            try:
                forces, energies = pair_forces(self.positions, rows, self.box, self.cutoff)
            except xa.ArgumentError as e:
                error = e
            if comm is not None:  # all rows of a rank are one band
                error = next((e for e in comm.allgather(error) if e is not None), None)
            if error is not None:
                raise error
            self.forces.write(rows, forces)
            self._totals[rows] = forces.sum(1)
            potential += energies.sum() / 2
        if comm is not None:
            self._totals, potential = comm.allreduce(self._totals), comm.allreduce(potential)
        self.potential = float(potential)

    def _particles(self, positions: ArrayLike, velocities: ArrayLike) -> tuple[Floats, Floats]:
        """Check positions and velocities of particles, and return them as arrays of one shape."""
        places, speeds = np.array(positions, float), np.asarray(velocities, float)
        axes = self.forces.shape[2]
        if places.ndim != 2 or places.shape[1] != axes:
            raise xa.ShapeError(f"positions must have shape (number, {axes}), not {places.shape}")
        try:
            speeds = np.broadcast_to(speeds, places.shape)
        except ValueError:
            raise xa.ShapeError(
                f"velocities must have the shape of the positions, {places.shape}, or be one for "
                f"all, not {speeds.shape}"
            ) from None
        if not np.isfinite(speeds).all():
            raise xa.ArgumentError("velocities must be finite numbers")
        return places, speeds

    def _note(self) -> None:
        """Store the state that a later system needs, beside the matrix."""
        self.forces.attrs[_STATE] = {
            "positions": self.positions,
            "velocities": self.velocities,
            "box": self.box,
            "cutoff": None if self.cutoff == math.inf else self.cutoff,
        }
