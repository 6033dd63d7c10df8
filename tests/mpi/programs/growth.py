"""Random growth, zones and reads compared with the model: PATH ENGINE SEED STEPS.

ENGINE "serial" makes the same changes in one process, without a communicator.
"""

from __future__ import annotations

import sys
import uuid

import numpy as np
from model import Model
from mpicalls import local_of, parts_of
from patches import patch

import extarray as xa
import extarray.array.creation

path, engine, seed, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
# Two runs must leave the same bytes.
patch.setattr(extarray.array.creation, "new_uuid", lambda: uuid.UUID(int=seed).bytes)
rng = np.random.default_rng(seed)
shape, chunks = (3, 0, 4), (2, 3, 3)
options = {"chunks": chunks, "overwrite": True, "sparse": bool(seed % 2), "order": "CFZH"[seed % 4]}
options["fill_value"] = seed % 3

if engine == "serial":
    comm = None
    a = xa.create(path, shape, "i8", **options)
else:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    a = xa.create(path, shape, "i8", comm=comm, engine=engine, **options)
model = Model(shape, "i8", chunks, seed % 3)


def extents(zone):
    return [s.stop - s.start for s in zone]


def write_all(values):
    if comm is None:
        a[...] = values
    else:
        a.write_zone(local_of(values, a.zone()))
        assert sum(np.prod(extents(z)) for r in range(comm.size) for z in parts_of(a.zone(r))) == (
            values.size
        )


def append(data, axis, side, by_zones):
    if comm is None or not by_zones:
        a.append(data, axis, side)
        return
    n = data.shape[axis]
    zone = a.zone_of_growth(axis, n, side)
    # Zones refer to the grown array: shift them to the data.
    shift = 0 if side == "start" else a.shape[axis]

    def moved(z):
        z = list(z)
        z[axis] = slice(z[axis].start - shift, z[axis].stop - shift)
        return tuple(z)

    zone = [moved(z) for z in zone] if isinstance(zone, list) else moved(zone)
    a.append_zone(local_of(data, zone), axis, n, side)


for step in range(steps):
    axis, by = int(rng.integers(3)), int(rng.integers(0, 5))
    side = str(rng.choice(["end", "end", "start"]))
    kind = int(rng.integers(8))
    if kind == 0:
        a.extend(axis, by, side)
        model.extend(axis, by, side)
    elif kind <= 3:
        added = [by if j == axis else n for j, n in enumerate(model.shape)]
        data = rng.integers(1, 10**9, added)
        append(data, axis, side, kind == 2)
        model.append(data, axis, side)
    elif kind == 4:
        by = min(by, model.shape[axis])
        a.shrink(axis, by, side)
        model.shrink(axis, by, side)
    elif kind == 5:
        new = [max(0, n + int(rng.integers(-2, 3))) for n in model.shape]
        a.resize(new)
        model.resize(new)
    elif kind == 6:
        room = [n + int(rng.integers(0, 4)) for n in model.shape]
        a.reserve(room)
        model.reserve(room)
        a.attrs["step"] = step
    else:
        model.data[...] = rng.integers(1, 10**9, model.shape)
        write_all(model.data)
    if comm is not None:
        a.distribute(["block", "block_cyclic"][step % 2], 1 + step % 2)
        assert (a.shape, a.grid) == (model.shape, model.grid), (step, kind)
        assert np.array_equal(a.read(), model.data), (step, kind)
        assert np.array_equal(a[...], model.data)
        comm.Barrier()
a.growth = "cubical"
a.add_axis(1)
a.append(np.full_like(a[...], 1), axis=1)
a.append(np.full_like(a[...], 2), axis=2, side="start")
a.close()
