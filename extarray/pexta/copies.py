"""Copies of disk arrays for other requests: chunks of another shape, or the transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

import extarray as xa
from extarray.pexta.diskarrays import NAME, Mode, check_mode, check_name, check_open, open
from extarray.pexta.hints import chunks_for
from extarray.pexta.session import current
from extarray.storage.filesystem import resolve_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from extarray.pexta.diskarrays import DiskArray

__all__ = ["copy"]


def copy(
    d_a: DiskArray,
    name: str,
    filename: str | PathLike[str],
    mode: Mode | int,
    reqdims: Sequence[SupportsIndex],
    *,
    transp: bool = False,
) -> DiskArray:
    """Copy a disk array into a new one that is laid out for other requests; collective.

    Parameters
    ----------
    d_a : DiskArray
        In mode `R` or `RW`.
    name, filename, mode
        Of the new array, as for `create`.
    reqdims : sequence of int
        Of the new array, as for `create`; where nothing is specified, chunks stay as they are.
    transp : bool
        Whether to copy the transpose, the axes in reverse.

    Returns
    -------
    DiskArray
        The new one.

    Raises
    ------
    ArgumentError
        A ValueError: the `max_memory` of `init` is too little for a chunk of each.
    ExistsError, ReadOnlyError, ChunksError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Notes
    -----
    By `extarray.rechunk`; each rank has the `max_memory` of `init` for it at most.  Transfers of
    the array that are under way come to their end before.

    References
    ----------
    [krishnamoorthy]_

    Examples
    --------
    >>> d_b = pexta.copy(d_a, "B", "b", pexta.RW, (20, 20, 2))  # doctest: +SKIP
    """
    session = current()
    session.end_growth(d_a)
    with session.agreement.step() as step:
        array = check_open(d_a, "copy", Mode.R, Mode.RW)
        session.check_handles()
        permitted = check_mode(mode)
        check_name(name)
        axes = tuple(range(array.ndim))[:: -1 if transp else 1]
        shape = tuple(array.shape[j] for j in axes)
        chunks = chunks_for(reqdims, shape, array.itemsize)
        session.check_room(array.nbytes)
        step.arguments = (
            f"copy {d_a.filename!r} to '{resolve_path(filename)}' in mode {permitted}, as {name!r}"
        )
    session.finish(d_a)
    if d_a.mode is not Mode.R:
        array.flush()  # what a rank has written, the others read
    new = xa.rechunk(
        array,
        filename,
        chunks=chunks,
        axes=axes,
        max_memory=session.buffer_bytes,
        progress=False,
        comm=session.comm,
    )
    with new:
        new.attrs[NAME] = name
    return open(filename, permitted)
