"""The computations on growing arrays by several ranks: FOLDER, compared with plain NumPy."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI
from plain import cavity_step, lennard_jones

import extarray as xa
from extarray.apps.lattice_boltzmann import WEIGHTS, Cavity
from extarray.apps.lennard_jones import System
from extarray.apps.matrix_product import multiply

comm = MPI.COMM_WORLD
folder = Path(sys.argv[1])
rng = np.random.default_rng(5)


def create(name, shape, chunks):
    return xa.create(folder / name, shape, chunks=chunks, comm=comm)


# A product of factors that grow along all axes, in tiles smaller than the whole.
a, b = rng.random((70, 50)), rng.random((50, 60))
with (
    create("left", (30, 20), (8, 16)) as left,
    create("right", (20, 40), (16, 8)) as right,
    create("product", (0, 0), (16, 16)) as product,
    xa.config.set(max_memory=16 * 1000 // comm.size),
):
    for m, k, n in [(30, 20, 40), (30, 20, 40), (30, 45, 40), (70, 50, 60)]:
        left.resize((m, k))
        right.resize((k, n))
        left.write(..., a[:m, :k])
        right.write(..., b[:k, :n])
        multiply(product, left, right)
        np.testing.assert_allclose(product[...], a[:m, :k] @ b[:k, :n], rtol=1e-12)
        comm.Barrier()
    # All ranks see changes by one rank, and growth at an axis's start.
    if comm.rank == comm.size - 1:
        left[3, 4] = 9.0
    comm.Barrier()
    multiply(product, left, right)
    np.testing.assert_allclose(product[...], left[...] @ right[...], rtol=1e-12)
    comm.Barrier()
    right.extend(1, 2, side="start")
    right.write((slice(None), slice(0, 2)), 1.0)
    multiply(product, left, right)
    np.testing.assert_allclose(product[...], left[...] @ right[...], rtol=1e-12)
    comm.Barrier()
    left.resize((70, 0))
    right.resize((0, 62))
    multiply(product, left, right)
    assert product.shape == (70, 62) and not product[...].any()
    comm.Barrier()

# Particles join, and all ranks agree on them.
grid = 1.1 * np.stack(np.meshgrid(*[np.arange(3.0)] * 3), -1).reshape(-1, 3)
with create("forces", (0, 0, 3), (4, 8, 3)) as forces:
    system = System(forces)
    system.add(grid[:20], 0.1)
    system.run(3, 0.002)
    system.add(grid[20:])
    expected, potential = lennard_jones(system.positions)
    np.testing.assert_allclose(forces[...], expected, rtol=1e-9, atol=1e-9)
    assert abs(system.potential - potential) < 1e-9
    assert len({x.tobytes() for x in comm.allgather(system.positions)}) == 1
    # If one rank finds an error in its rows, all raise it; all go on with the matrix.
    with pytest.raises(xa.ArgumentError, match="same place"):
        system.add(system.positions[:1])
    system.positions[-1] = system.positions[0]
    with pytest.raises(xa.ArgumentError, match="same place"):
        system._update()
    again = System(forces)
    np.testing.assert_allclose(forces[...], expected, rtol=1e-9, atol=1e-9)
    assert abs(again.potential - potential) < 1e-9
    comm.Barrier()

# A cavity that grows between steps, at first with fewer chunks than ranks.
plain = np.zeros((9, 5, 6)) + WEIGHTS[:, None, None]
with create("now", (9, 0, 0), (9, 4, 4)) as now, create("after", (9, 0, 0), (9, 4, 4)) as after:
    cavity = Cavity(now, after, viscosity=0.05, lid=0.08)
    cavity.grow(5, 6)
    for rows, columns in [(0, 0), (9, 0), (3, 7)]:
        cavity.grow(rows, columns)
        larger = np.zeros((9, *cavity.shape)) + WEIGHTS[:, None, None]
        larger[:, : plain.shape[1], : plain.shape[2]] = plain
        plain = larger
        cavity.run(5)
        for _ in range(5):
            plain = cavity_step(plain, 0.05, 0.08)
        np.testing.assert_allclose(cavity.now[...], plain, rtol=1e-12)
        comm.Barrier()
