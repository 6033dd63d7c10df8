"""Random calls, alternately by ranks and by an outside program, with NumPy: PATH ENGINE SEED.

ENGINE "serial" does the same in one process, without a communicator.
"""

from __future__ import annotations

import random
import sys
import uuid

import numpy as np
from mpicalls import Together, local_of
from patches import patch
from workload import Twin, create, draw

import extarray as xa
import extarray.array.creation

PHASES, CALLS = 6, 8
#: Calls that leave existing elements unchanged, so that others may read them meanwhile.
GROWTH = ("extend", "append", "reserve", "attrs")

path, engine, seed = sys.argv[1:]
is_serial = engine == "serial"
# Two runs must leave the same bytes.
patch.setattr(extarray.array.creation, "new_uuid", lambda: uuid.UUID(int=int(seed)).bytes)
rng = random.Random(seed)
options = {}
own = random.Random(seed)
if not is_serial:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    options = {"comm": comm, "engine": engine}
    own = random.Random(f"{seed} {comm.rank}")


def box(shape, random):
    """Return slices and integers, with steps of both signs."""
    key = []
    for n in shape:
        low, high = sorted(random.choices(range(n + 1), k=2))
        choices = [slice(low, high), slice(None, None, random.choice([2, -1, -3]))]
        key.append(random.choice([*choices, random.randrange(n)] if n else choices))
    return tuple(key)


def check(array, twin):
    """Require the same elements together, alone, in zones and by another reader."""
    key = box(twin.shape, own)
    if is_serial:
        assert np.array_equal(array[key], twin.data[key])
        return
    assert np.array_equal(array.read(key), twin.data[key]), key
    assert np.array_equal(array.read(key, collective=False), twin.data[key]), key
    assert np.array_equal(array[key], twin.data[key]), key
    array.distribute(["block", "block_cyclic"][len(twin.attrs) % 2])
    assert np.array_equal(array.read_zone(), local_of(twin.data, array.zone()))
    with xa.open(path) as reader:
        assert reader.shape == twin.shape and np.array_equal(reader[key], twin.data[key])
    comm.Barrier()  # all read before anyone writes


def write_zones(array, twin):
    """Write all elements, each rank its own."""
    twin.data += 1
    if is_serial:
        array[...] = twin.data
    elif twin.data.size % 2:
        array.write_zone(local_of(twin.data, array.zone()))
    else:
        array.iwrite_zone(local_of(twin.data, array.zone())).wait()
        comm.Barrier()


def by_ranks(twin):
    """Change the array by the ranks."""
    with xa.open(path, "r+", **options) as array:
        together = array if is_serial else Together(array)
        for _ in range(CALLS):
            call = draw(rng, twin)
            before, request = twin.data.copy(), None
            if call.method in GROWTH and not is_serial:
                key = box(twin.shape, own)
                request = array.iread(key)  # continues while the array grows
            call.on(together)
            call.on(twin)
            if request is not None:
                assert np.array_equal(request.wait(), before[key])
            elif not is_serial:
                assert array.refresh() is False  # nobody else writes
            check(array, twin)
            if rng.random() < 0.3:
                write_zones(array, twin)


def from_outside(twin):
    """Change the array by a program without a communicator; the ranks follow."""
    with xa.open(path, **options) as array:
        is_writer = is_serial or comm.rank == 0
        writer = xa.open(path, "r+") if is_writer else None
        known = array.shape
        for _ in range(CALLS):
            # A cut may take elements that nobody knows of yet.
            call = draw(rng, twin)
            if writer is not None:
                call.on(writer)
            call.on(twin)
            if rng.random() < 0.6:
                if not is_serial:
                    comm.Barrier()
                array.refresh()
                known = twin.shape
                check(array, twin)
            assert array.shape == known
        if writer is not None:
            writer.close()


array = create(path, random.Random(seed), checksum=False, overwrite=True, **options)
twin = Twin(array)
array.close()
for _ in range(PHASES // 2):
    by_ranks(twin)
    from_outside(twin)
