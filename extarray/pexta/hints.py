"""Hints: how a typical request's shape and the number of I/O processes are used here."""

from __future__ import annotations

import math
from typing import Any

from extarray import ArgumentError, ChunksError
from extarray.common.arguments import as_int, as_ints
from extarray.grid.chunking import TARGET_BYTES

__all__ = ["UNSPECIFIED", "chunks_for", "io_hints"]

# The published routines' "does not matter".
UNSPECIFIED = -1


def chunks_for(reqdims: Any, dims: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """Return the chunk shape for a typical request; None if nothing is specified.

    `reqdims` has the request's elements along each axis, or -1 for unspecified.  They may exceed
    `dims`, the extents of the array, as it may grow.

    A chunk is a request, so that an aligned request is one run of bytes in the file.  Along
    unspecified axes it spans the array.  While it has more than 512 KiB, its longest axis is
    halved, unspecified axes first; a request is then a few whole chunks.

    Examples
    --------
    >>> chunks_for((1, 20, 20), (60, 60, 60), 8), chunks_for((1000, -1), (4000, 4000), 8)
    ((1, 20, 20), (1000, 63))
    >>> chunks_for((600, 800), (4000, 4000), 8)
    (300, 200)
    """
    wanted = as_ints(reqdims, "reqdims")
    if len(wanted) != len(dims) or any(n < 1 and n != UNSPECIFIED for n in wanted):
        raise ChunksError(
            f"reqdims {reqdims} are not valid for {len(dims)} axes: give the elements of a "
            f"typical request along each, or {UNSPECIFIED} where it does not matter"
        )
    free = [j for j, n in enumerate(wanted) if n == UNSPECIFIED]
    if len(free) == len(wanted):
        return None
    chunk = [max(d, 1) if n == UNSPECIFIED else n for n, d in zip(wanted, dims, strict=True)]
    for axes in (free, range(len(chunk))):
        while math.prod(chunk) * itemsize > TARGET_BYTES and any(chunk[j] > 1 for j in axes):
            longest = max(axes, key=chunk.__getitem__)
            chunk[longest] = -(-chunk[longest] // 2)
    return tuple(chunk)


def io_hints(numfiles: Any, numioprocs: Any) -> dict[str, str]:
    """Return hints for MPI-IO that let some processes read for all.

    Numbers below 1 are the default: one file, and each process reads for itself.  Each process
    always writes for itself: one that wrote for others would write back bytes between theirs, which
    others may have changed.

    Examples
    --------
    >>> io_hints(1, 2), io_hints(-1, -1)
    ({'cb_nodes': '2', 'romio_cb_read': 'enable'}, {})
    """
    if as_int(numfiles, "numfiles") > 1:
        raise ArgumentError(
            f"an array is stored in one pair of files, not in {numfiles}; give 1 or -1, and let "
            "the file system stripe the files"
        )
    n = as_int(numioprocs, "numioprocs")
    return {} if n < 1 else {"cb_nodes": str(n), "romio_cb_read": "enable"}
