"""Ranks read chunks from elsewhere, each through its own provider: PATH ENGINE."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from late_chunks import FromDict, Local, hollow_copy
from mpi4py import MPI

import extarray as xa
from extarray._core._supply import Supply
from extarray.array.life import attach_store

comm = MPI.COMM_WORLD
path, engine = Path(sys.argv[1]), sys.argv[2]
x = np.arange(63 * 5).reshape(9, 7, 5)
late = path.with_name(f"{path.name}-late")
if not comm.rank:
    with xa.from_array(x[:6], path, chunks=(2, 3, 2)) as a:
        a.append(x[6:], axis=0)
    hollow_copy(path, late)
comm.Barrier()
with xa.open(late, comm=comm, engine=engine) as array:
    size = array.chunk_bytes
    provider = Local(f"{late}.xta", FromDict(path, size, array.axial.size), size)
    now = array._store.now
    # Never evict: the ranks share one file, and none knows what another reads.
    now.supply = Supply(provider, size, None, now.trust)
    attach_store(array)
    part = array.zone()
    assert np.array_equal(array.read_zone(), x[part])
    assert provider.asked.total() <= array.axial.size
    assert np.array_equal(array.read(np.s_[1:8, ::-2, 3]), x[1:8, ::-2, 3])
    assert np.array_equal(array.read((comm.rank, slice(None)), collective=False), x[comm.rank])
    assert np.array_equal(array.read([8, 0, 3]), x[[8, 0, 3]])
    assert np.array_equal(array[2:5], x[2:5])
    assert set(provider.asked.values()) <= {1}
    comm.Barrier()
provider.close()
comm.Barrier()
if not comm.rank:
    for name in (path, late):
        for suffix in (".xmd", ".xta"):
            Path(f"{name}{suffix}").unlink()
