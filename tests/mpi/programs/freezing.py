"""Ranks that freeze together when they close an array: PATH."""

from __future__ import annotations

import errno
import sys
from itertools import chain

import numpy as np
from mpi4py import MPI
from patches import patch

import extarray as xa
from extarray.array import freezing
from extarray.mpi import freezing as together

comm = MPI.COMM_WORLD
path = sys.argv[1]
ROWS, COLUMNS, CHUNKS = 48, 128, (4, 32)
rng = np.random.default_rng(7)
values = rng.integers(0, 9, (ROWS, COLUMNS), "i4")
values[8:24] = 5  # the fill value, in some chunks
encoded, failed = [], []


def words():
    """Return the words of all chunks, of a reader that rank 0 opens."""
    found = None
    comm.Barrier()
    if not comm.rank:
        with xa.open(path) as array:
            assert np.array_equal(array[...], values)
            assert xa.check(path).ok
            found = array._store.now.frozen.entries(np.arange(array.axial.size)).tolist()
    return comm.bcast(found)


def written():
    """Create the array, write all elements and let it grow, without closing it."""
    options = {"chunks": CHUNKS, "compression": "zlib", "freeze": "close", "fill_value": 5}
    array = xa.create(path, (ROWS - 16, COLUMNS - 32), "i4", comm=comm, overwrite=True, **options)
    array.write_zone(values[array.zone()])
    array.append(values[ROWS - 16 : -8, : COLUMNS - 32])
    array.append(values[:-8, COLUMNS - 32 :], axis=1)
    array.extend(0, 8)
    array.write_zone(values[array.zone()])
    return array


def noted(data, name, header, codec, addresses):
    encoded.extend(addresses.tolist())
    return encode_chunks(data, name, header, codec, addresses)


def failing(error, ranks):
    """Return a function that fails on some ranks, in the second round."""
    calls = []

    def call(*arguments):
        calls.append(arguments)
        if comm.rank in ranks and len(calls) == 2:
            failed.append(comm.rank)
            raise error
        return write_blobs(*arguments)

    return call


encode_chunks, write_blobs = together.encode_chunks, together.write_blobs
patch.setattr(freezing, "_MOST", 7)
patch.setattr(together, "encode_chunks", noted)

written().close()
serial = words()
assert all(serial) and serial.count(1) > 8
shares = comm.allgather(encoded)
if comm.size > 1:  # each chunk once, by ranks of equal shares
    assert sorted(chain(*shares)) == list(range(len(serial)))
    assert max(map(len, shares)) - min(map(len, shares)) <= len(serial) // comm.size // 4 + 1

# One process leaves the same log.
if not comm.rank:
    with xa.open(path, "r+") as array:
        array.thaw()
        array.repack()
        array.freeze()
assert words() == serial

# A rank that fails: nothing hangs, nothing is lost, and rank 0 freezes what is left.
last = comm.size - 1
full = xa.StorageError(errno.ENOSPC, "No space left on device", path)
for ranks in ({last}, {0}, set(range(comm.size))):
    patch.setattr(together, "write_blobs", failing(full, ranks))
    written().close()
    assert words() == serial
    assert comm.size == 1 or set(chain(*comm.allgather(failed))) == ranks
    failed.clear()
patch.setattr(together, "write_blobs", write_blobs)


def missing(*arguments):
    if comm.rank == last:
        raise xa.MissingExtraError("no library of this codec")
    return encode_chunks(*arguments)


patch.setattr(together, "encode_chunks", missing)
written().close()
assert words() == serial

# Other processes that may write elements keep all of them from freezing.
patch.setattr(together, "encode_chunks", encode_chunks)
array = written()
beside = None if comm.rank else xa.open(path, "r+", share="elements")
array.close()
assert not any(words())
if beside is not None:
    beside.close()

# What is left is frozen when they come again.
with xa.open(path, "r+", comm=comm) as array:
    assert np.array_equal(array[...], values)
assert words() == serial
