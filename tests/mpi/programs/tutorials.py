"""ga4py's tutorials on a smaller scale."""

from __future__ import annotations

import math

import numpy as np
from mpi4py import MPI

from extarray.mpi import GlobalArray

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
rng = np.random.default_rng(3)


def create(shape, dtype="f8", **options):
    return GlobalArray.create(shape, dtype, comm, **options)


# transp1D: each rank reverses its elements, and puts them to the other end; unequal zones.
n = 19 * size + size // 2
with create(n, "i4") as g_a, create(n, "i4") as g_b:
    if rank == 0:
        g_a.put(..., np.arange(n))
    g_a.sync()
    (own,) = g_a.distribution()
    g_b.put(slice(n - own.stop, n - own.start), g_a.get(own)[::-1])
    g_b.sync()
    assert np.array_equal(g_b.get(), g_a.get()[::-1])
    g_b.sync()

# matrix: each rank gets the rows and columns that its block of the product needs.
n = 37
a, b = rng.random((n, n)) * 29, rng.random((n, n)) * 37
with create((n, n)) as g_a, create((n, n)) as g_b, create((n, n)) as g_c:
    if rank == 0:
        g_a.put(..., a)
        g_b.put(..., b)
    g_a.sync()
    g_b.sync()
    rows, columns = g_c.distribution()
    g_c.put((rows, columns), g_a.get(rows) @ g_b.get((slice(None), columns)))
    g_c.sync()
    assert np.allclose(g_c.get(), a @ b)
    g_c.sync()

# access: the sum of each rank's elements.
with create((3, 4, 5, 6)) as g_a:
    if rank == 0:
        g_a.put(..., np.arange(360).reshape(g_a.shape))
    g_a.sync()
    assert comm.allreduce(g_a.access().sum()) == 360 * 359 / 2
    g_a.sync()

# copy: between arrays with different distributions.
with (
    create((10, 20, 30), process_grid=(size, 1, 1)) as g_a,
    create((10, 20, 30), process_grid=(1, size, 1)) as g_b,
):
    g_a.fill(6)
    g_a.copy_to(g_b)
    assert (g_b.access() == 6).all()
    assert size == 1 or g_a.distribution() != g_b.distribution()
    g_b.sync()

# pi: each rank adds its part.
intervals = 1000
with create(1) as g_pi:
    middles = (np.arange(rank, intervals, size) + 0.5) / intervals
    g_pi.accumulate(0, (4 / (1 + middles**2)).sum() / intervals)
    g_pi.sync()
    assert math.isclose(g_pi.get(0), math.pi, rel_tol=1e-6)
    g_pi.sync()

# readinc: a product of matrices in tasks, each for the first rank to ask.
step, n = 8, 24
tasks = [
    (slice(i, i + step), slice(j, j + step), slice(k, k + step))
    for i in range(0, n, step)
    for j in range(0, n, step)
    for k in range(0, n, step)
]
a, b = rng.random((2, n, n))
with (
    create((n, n)) as g_a,
    create((n, n)) as g_b,
    create((n, n)) as g_c,
    create(1, "i8") as g_counter,
):
    if rank == 0:
        g_a.put(..., a)
        g_b.put(..., b)
    g_a.sync()
    g_b.sync()
    while (task := int(g_counter.read_inc(0))) < len(tasks):
        i, j, k = tasks[task]
        g_c.accumulate((i, j), g_a.get((i, k)) @ g_b.get((k, j)))
    g_c.sync()
    assert np.allclose(g_c.get(), a @ b)
    g_c.sync()

# groups: two halves of the ranks work separately.
half = comm.Split(rank < size // 2)
with GlobalArray.create((3, 4, 5), "f8", half) as g_a:
    g_a.fill(half.size)
    assert g_a.dot(g_a) == 60 * half.size**2
half.Free()

# ufunc: NumPy's functions on each rank's own elements.
values = rng.random((3, 4, 5))
with create((3, 4, 5)) as g_a:
    own = g_a.access()
    own[...] = values[g_a.distribution()]
    np.sin(own, out=own)
    g_a.sync()
    assert np.allclose(g_a.get(), np.sin(values))
    g_a.sync()
