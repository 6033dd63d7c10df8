"""Windows: memory of all ranks, which each of them reads and writes by itself.

Ranks of one host share memory: they load from and store to each other's, as NumPy does, and only
what has to be atomic goes through MPI.  The memory of ranks on other hosts is reached by MPI alone.
"""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ReserveError
from extarray.mpi.runtime import library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from extarray.mpi.agreement import Agreement
    from extarray.mpi.patches import Layout

__all__ = ["Window"]

# Where memory lives that the ranks of a host share.
_SHARED_MEMORY = "/dev/shm"


class Window:
    """Memory for the elements of a global array, on all ranks; made and freed by all together.

    Parameters
    ----------
    agreement : Agreement
    layout : Layout

    Attributes
    ----------
    layout : Layout
    rma : mpi4py.MPI.Win
        For what goes through MPI; displacements are in bytes.
    near : dict of {int: ndarray}
        Memory of the ranks that this one loads from and stores to: its own, and where it can be had
        that of the others of its host.
    own : ndarray
        Memory of this rank; zeros at first.

    Raises
    ------
    ReserveError
        A MemoryError, on all ranks: a host has too little shared memory.
    """

    def __init__(self, agreement: Agreement, layout: Layout) -> None:
        MPI = library()
        comm = self._comm = agreement.comm
        self.layout = layout
        nbytes = math.prod(layout.extents(comm.rank)) * layout.dtype.itemsize
        neighbours, together = _host_of(comm, nbytes)
        with agreement.step() as step:
            _check_shared_memory(together)
            step.numbers[0] = int(len(neighbours) < comm.size)
        # Ranks need not lie one behind the other: each has whole pages, near to its processor.
        info = MPI.Info.Create({"alloc_shared_noncontig": "true"})
        allocate = MPI.Win.Allocate if step.numbers[0] else MPI.Win.Allocate_shared
        self.rma = allocate(nbytes, 1, info, comm)
        info.Free()
        self.own = self._seen(self.rma.tomemory(), comm.rank)
        self.near = {comm.rank: self.own}
        # What Allocate gave may be shared or not, and before MPI 4.1 it cannot be asked.
        with contextlib.suppress(MPI.Exception):
            for rank in neighbours:
                memory, _ = self.rma.Shared_query(rank)
                if rank != comm.rank and memory.nbytes:
                    self.near[rank] = self._seen(memory, rank)
        # One epoch for the life of the window: a lock for each call would cost more than the call.
        self.rma.Lock_all()
        self.own[...] = np.zeros((), layout.dtype)
        self.sync()

    def _seen(self, memory: Any, rank: int) -> NDArray[Any]:
        """The memory of a rank as an array."""
        extents, dtype = self.layout.extents(rank), self.layout.dtype
        n = math.prod(extents)
        if not n:
            return np.empty(extents, dtype)
        return np.frombuffer(memory, dtype, n).reshape(extents)

    def sync(self) -> None:
        """Have all ranks see what all have written; collective."""
        self.publish()
        self._comm.Barrier()
        self.refresh()

    def publish(self) -> None:
        """See that what this rank has written is there for those that `refresh` after a barrier."""
        self.rma.Flush_all()
        self.rma.Sync()

    def refresh(self) -> None:
        """Have this rank see what others had published before a barrier."""
        self.rma.Sync()

    def free(self) -> None:
        """Give the memory back; collective.  Arrays that showed it must not be used any more."""
        self.near = {}
        self.rma.Unlock_all()
        self.rma.Free()


def _host_of(comm: Any, nbytes: int) -> tuple[list[int], int]:
    """The ranks on this host, and the bytes that all of them need; collective."""
    MPI = library()
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    together = host.allreduce(nbytes)
    ours, all_ranks = host.Get_group(), comm.Get_group()
    ranks = list(ours.Translate_ranks(None, all_ranks))
    for made in (ours, all_ranks, host):
        made.Free()
    return ranks, together


def _check_shared_memory(nbytes: int) -> None:
    """Raise where windows of a host would not fit: they would be given, and fail when touched."""
    try:
        found = os.statvfs(_SHARED_MEMORY)
    except OSError:  # not on this system
        return
    free = found.f_bavail * found.f_frsize
    if nbytes > free:
        raise ReserveError(
            f"global arrays need {nbytes} bytes more in {_SHARED_MEMORY} on this host, which has "
            f"{free}: enlarge it (containers: --shm-size), or use more hosts"
        )
