"""Memory of the ranks of one host, which lives as long as any rank uses it.

A window of MPI would have to be freed by all ranks together, while threads may still look at it.
So the memory is an unlinked file, in a folder that is memory itself where the system has one.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.system import SHARED_MEMORY, remove
from extarray.mpi.runtime import library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from extarray.mpi.runtime import Agreement

__all__ = ["is_one_host", "shared_bytes"]

# Random bytes at the start of the file, by which ranks tell it from another of the same name.
_TOKEN = 16


def is_one_host(agreement: Agreement) -> bool:
    """Tell whether all ranks are on one host; collective."""
    comm = agreement.comm
    host = comm.Split_type(library().COMM_TYPE_SHARED)
    with agreement.step() as step:
        step.numbers[0] = int(host.size < comm.size)
    host.Free()
    return not step.numbers[0]


def shared_bytes(agreement: Agreement, n: int) -> NDArray[np.uint8] | None:
    """Return zeroed bytes that all ranks, on one host, share; None if they cannot; collective.

    Parameters
    ----------
    agreement : Agreement
    n : int
        Number of bytes, at least 1.
    """
    comm = agreement.comm
    if comm.size == 1:
        return np.zeros(n, np.uint8)
    name, token = None, b""
    try:
        with agreement.step(), contextlib.suppress(OSError):
            if not comm.rank:
                folder = SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else None
                fd, name = tempfile.mkstemp(prefix="extarray-", dir=folder)
                token = os.urandom(_TOKEN)
                with open(fd, "wb") as file:
                    file.write(token + bytes(n))  # takes the space now: stores must not fail later
        place, token = comm.bcast((name, token))
        memory = None
        with agreement.step() as step:
            with contextlib.suppress(OSError):
                memory = _mapped(place, token, n)
            step.numbers[0] = int(memory is None)
    finally:
        if name is not None:
            remove(name)
    return None if step.numbers[0] else memory


def _mapped(name: str | None, token: bytes, n: int) -> NDArray[np.uint8] | None:
    """Map the file that rank 0 has made; None if it is another one."""
    if name is None or len(token) != _TOKEN:
        return None
    with open(name, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if size != _TOKEN + n:
            return None
        memory: Any = mmap.mmap(file.fileno(), size)
    found = np.frombuffer(memory, np.uint8)
    return found[_TOKEN:] if found[:_TOKEN].tobytes() == token else None
