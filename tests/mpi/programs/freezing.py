"""Ranks that freeze together, when they close an array and before: PATH."""

from __future__ import annotations

import errno
import sys
import threading
from itertools import chain

import numpy as np
from mpi4py import MPI
from mpierrors import raises
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


def words(is_closed=True):
    """Return the words of all chunks, of a reader that rank 0 opens."""
    found = None
    comm.Barrier()
    if not comm.rank:
        with xa.open(path) as array:
            assert np.array_equal(array[...], values)
            assert not is_closed or xa.check(path).ok
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

# A call while the array is open; what ranks write after it is raw again.
patch.setattr(together, "encode_chunks", encode_chunks)
with written() as array:
    assert array.freeze() == len(serial) and array.freeze() == 0
    assert words(False) == serial
    assert np.array_equal(array[...], values)
    comm.Barrier()
    array[comm.rank * 4] = 1  # a row of chunks
    values[: comm.size * 4 : 4] = 1
    comm.Barrier()
    assert words(False).count(0) == (comm.size > 1) * comm.size * COLUMNS // CHUNKS[1]
    array.extend(0, 4)
    values = np.pad(values, ((0, 4), (0, 0)), constant_values=5)
    shown = array.chunk((0, 0)) if comm.rank == last else None
    comm.Barrier()
    assert array.freeze() > 0
    found = words(False)
    assert found.count(0) == 1 and found[0] == 0
    if shown is not None:
        shown[1] = 3  # through the view
        shown = None
    values[1, : CHUNKS[1]] = 3
    words(False)

    # A rank that fails raises on all.
    for ranks in ({last}, {0}):
        array.thaw()
        comm.Barrier()
        patch.setattr(together, "write_blobs", failing(full, ranks))
        if comm.size > 1:
            with raises(xa.StorageError, "No space left"):
                array.freeze()
        words(False)
    patch.setattr(together, "write_blobs", write_blobs)
    patch.setattr(together, "encode_chunks", missing)
    if comm.size > 1:
        with raises(xa.MissingExtraError, "no library"):
            array.freeze()
    patch.setattr(together, "encode_chunks", encode_chunks)
    words(False)

    # A write of a thread, on any rank, that comes when its chunks were read, is not lost.
    array.thaw()
    comm.Barrier()
    begun, ended = threading.Event(), threading.Event()

    def racing(*arguments):
        found = encode_chunks(*arguments)
        begun.set()
        ended.wait(0.1)  # on ranks whose writes wait for the end of the freeze, in vain
        return found

    def write():
        begun.wait()
        array[4 * comm.rank + 1] = 77
        ended.set()

    patch.setattr(together, "encode_chunks", racing)
    thread = threading.Thread(target=write)
    thread.start()
    array.freeze()
    begun.set()
    thread.join()
    patch.setattr(together, "encode_chunks", encode_chunks)
    values[1 : 4 * comm.size : 4] = 77
    comm.Barrier()
    assert np.array_equal(array[...], values)
    words(False)

    # Processes outside that may write elements.
    beside = None if comm.rank else xa.open(path, "r+", share="elements")
    comm.Barrier()
    with raises(xa.LockedError, "share='elements'"):
        array.freeze()
    if beside is not None:
        beside.close()
    array.freeze()
assert words().count(0) == (comm.size == 1)  # the chunk that this process has had a view of
values = values[:ROWS]
values[...] = rng.integers(0, 9, values.shape, "i4")
values[8:24] = 5

# Other processes that may write elements keep all of them from freezing.
array = written()
beside = None if comm.rank else xa.open(path, "r+", share="elements")
array.close()
assert not any(words())
if beside is not None:
    beside.close()

# The thread in the background keeps off chunks that other ranks show, and every claim ends.
array, threads, finish = written(), [], freezing._finish_rounds
table = array._store.now.frozen


def finishing(*arguments):
    found = finish(*arguments)
    if threading.current_thread() is threading.main_thread():
        threads.append(threading.Thread(target=freezing._freeze_behind, args=(array,)))
        threads[-1].start()
    return found


if not comm.rank:
    patch.setattr(freezing, "_finish_rounds", finishing)
shown = array.chunk((0, 0)) if comm.rank == last else None
comm.Barrier()
assert array.freeze() == len(serial) - 1 or comm.size == 1
for thread in threads:
    thread.join()
assert comm.rank or threads
patch.setattr(freezing, "_finish_rounds", finish)
comm.Barrier()
if shown is not None:
    shown[1] = 3
    shown = None
values[1, : CHUNKS[1]] = 3
assert words(False).count(0) == 1
assert comm.rank or (not table._claims and table.snapshot()[2] == table.end)
array.close()

# An error before the first round is raised on all.
hands = together.Hand.__init__


def clumsy(self, *arguments):
    hands(self, *arguments)
    if comm.rank == last:
        raise full


patch.setattr(together.Hand, "__init__", clumsy)
array = written()
if comm.size > 1:
    with raises(xa.StorageError, "No space left"):
        array.freeze()
array.close()
patch.setattr(together.Hand, "__init__", hands)
assert all(words())

# What is left is frozen when they come again.
with xa.open(path, "r+", comm=comm) as array:
    assert np.array_equal(array[...], values)
assert all(words())
