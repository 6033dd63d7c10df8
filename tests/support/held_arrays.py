"""Global arrays and files of the programs that ranks run for PEXTA; all ranks call."""

from __future__ import annotations

from pathlib import Path

from extarray.mpi import GlobalArray

__all__ = ["holding", "remove"]


def holding(comm, values, **options):
    """Return a global array that holds values."""
    g = GlobalArray.create(values.shape, values.dtype, comm, **options)
    g.access()[...] = values[g.distribution()]
    g.sync()
    return g


def remove(comm, place):
    """Remove a pair of files."""
    comm.Barrier()
    if comm.rank == 0:
        for suffix in (".xmd", ".xta"):
            Path(f"{place}{suffix}").unlink()
