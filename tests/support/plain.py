"""The computations of `extarray.apps` in plain Python, element by element."""

from __future__ import annotations

import itertools
import math

import numpy as np


def lennard_jones(positions, box=None, cutoff=math.inf):
    """Return the forces of each particle on each other, and the energy of all pairs."""
    n, axes = positions.shape
    forces, energy = np.zeros((n, n, axes)), 0.0
    for i, j in itertools.combinations(range(n), 2):
        apart = positions[i] - positions[j]
        if box is not None:
            apart = (apart + box / 2) % box - box / 2
        r = math.sqrt(sum(apart**2))
        if r < cutoff:
            forces[i, j] = (48 * r**-13 - 24 * r**-7) * apart / r
            forces[j, i] = -forces[i, j]
            energy += 4 * (r**-12 - r**-6) - 4 * (cutoff**-12 - cutoff**-6)
    return forces, energy


#: Velocities (right, down) of the nine populations: along the axes first, then the diagonals.
VELOCITIES = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]


def weight(x, y):
    return [4 / 9, 1 / 9, 1 / 36][abs(x) + abs(y)]


def cavity_step(populations, viscosity, lid):
    """Make a step of a lid-driven cavity: each population moves, may hit a wall, and collides."""
    _, rows, columns = populations.shape
    arrived = np.empty_like(populations)
    for (i, (x, y)), row, column in itertools.product(
        enumerate(VELOCITIES), range(rows), range(columns)
    ):
        to_row, to_column = row + y, column + x
        if 0 <= to_row < rows and 0 <= to_column < columns:
            arrived[i, to_row, to_column] = populations[i, row, column]
        else:
            back = VELOCITIES.index((-x, -y))
            # In the upper corners the side wall counts, which is at rest.
            at_lid = to_row < 0 and 0 <= to_column < columns
            push = -6 * weight(x, y) * x * lid if at_lid else 0.0
            arrived[back, row, column] = populations[i, row, column] + push
    density = arrived.sum(0)
    x, y = (np.array(some) for some in zip(*VELOCITIES, strict=True))
    u, v = (np.einsum("i,irc->rc", some, arrived) / density for some in (x, y))
    collided = np.empty_like(arrived)
    for i, (x, y) in enumerate(VELOCITIES):
        cu = x * u + y * v
        equilibrium = weight(x, y) * density * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (u**2 + v**2))
        collided[i] = arrived[i] + (equilibrium - arrived[i]) / (3 * viscosity + 0.5)
    return collided
