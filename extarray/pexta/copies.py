"""Copies of disk arrays for other requests: other chunks, or the axes in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

import extarray as xa
from extarray import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from extarray.common.arguments import as_ints
from extarray.grid.tiles import tiles
from extarray.mpi.zones import extents
from extarray.pexta.diskarrays import (
    NAME,
    DiskArray,
    Mode,
    check_mode,
    check_name,
    check_open,
    open,
)
from extarray.pexta.hints import chunks_for
from extarray.pexta.session import current
from extarray.storage.filesystem import resolve_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from extarray.mpi import ParallelArray
    from extarray.pexta.session import Session

__all__ = ["copy"]


def copy(
    d_a: DiskArray,
    name: str | DiskArray,
    filename: str | PathLike[str] | None = None,
    mode: Mode | int | None = None,
    reqdims: Sequence[SupportsIndex] | None = None,
    *,
    transp: bool | Sequence[SupportsIndex] = False,
) -> DiskArray:
    """Copy a disk array into a new or another one, laid out for other requests; collective.

    Parameters
    ----------
    d_a : DiskArray
        In mode `R` or `RW`.
    name : str or DiskArray
        Name of the new array, as for `create`; or an array in mode `W` or `RW`, with the dtype and
        bounds of the copy, whose elements are replaced.  Give no other argument but `transp` with
        such an array.
    filename, mode
        File name and mode of the new array, as for `create`.
    reqdims : sequence of int
        A typical request, as for `create`; if nothing is specified, the chunk shape stays.
    transp : bool or sequence of int
        Whether to copy the transpose, the axes in reverse; or the axes in another order, as for
        `numpy.transpose`: axis j of the copy is axis ``transp[j]`` of `d_a`.

    Returns
    -------
    DiskArray
        The new array, or the array given as `name`.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        A ValueError or a TypeError: this is no order of axes, or the `max_memory` of `init` is too
        small for a chunk of each array.
    ExistsError, ReadOnlyError, ChunksError, ShapeError, DTypeError, ClosedError, StorageError
        On all ranks, if one has a reason.

    Notes
    -----
    `extarray.rechunk` makes a new array.  In another array each rank writes its zone, and a copy
    that fails may have replaced some elements.  Each rank uses at most the `max_memory` of `init`.
    Transfers of the arrays that are under way end first.

    References
    ----------
    [krishnamoorthy]_

    Examples
    --------
    >>> d_b = pexta.copy(d_a, "B", "b", pexta.RW, (20, 20, 2))  # doctest: +SKIP
    >>> d_c = pexta.copy(d_a, d_c, transp=(2, 0, 1))  # doctest: +SKIP
    """
    session = current()
    session.end_growth(d_a)
    if isinstance(name, DiskArray):
        session.end_growth(name)
        _copy_into(session, d_a, name, transp, (filename, mode, reqdims))
        return name
    return _copy_to_files(session, d_a, name, filename, mode, reqdims, transp)


def _copy_to_files(
    session: Session, d_a: DiskArray, name: str, filename: Any, mode: Any, reqdims: Any, transp: Any
) -> DiskArray:
    """Copy a disk array into new files."""
    with session.agreement.step() as step:
        array = check_open(d_a, "copy", Mode.R, Mode.RW)
        session.check_handles()
        if filename is None or mode is None or reqdims is None:
            raise ArgumentTypeError(
                "a new array needs a file name, a mode and reqdims; to copy into an existing "
                "one, give its handle instead of the name"
            )
        permitted = check_mode(mode)
        check_name(name)
        axes = _as_axes(transp, array.ndim)
        shape = tuple(array.shape[j] for j in axes)
        chunks = chunks_for(reqdims, shape, array.itemsize)
        session.check_room(array.nbytes)
        step.arguments = (
            f"copy {d_a.filename!r} to '{resolve_path(filename)}' in mode {permitted}, as "
            f"{name!r}, axes {axes}"
        )
    session.finish(d_a)
    if d_a.mode is not Mode.R:
        array.flush()  # let ranks read what others have written
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


def _copy_into(
    session: Session, d_a: DiskArray, d_b: DiskArray, transp: Any, others: tuple[Any, ...]
) -> None:
    """Copy a disk array into another one; each rank writes its zone."""
    with session.agreement.step() as step:
        source = check_open(d_a, "copy", Mode.R, Mode.RW)
        target = check_open(d_b, "copy to", Mode.W, Mode.RW)
        if others != (None, None, None):
            raise ArgumentTypeError(
                f"'{d_b.filename}' already has a file, a mode and chunks; give only transp"
            )
        axes = _as_axes(transp, source.ndim)
        shape = tuple(source.shape[j] for j in axes)
        if shape != target.shape:
            raise ShapeError(
                f"a copy of shape {shape} does not fit into '{d_b.filename}' of shape "
                f"{target.shape}; extend it, or copy into new files"
            )
        if source.dtype != target.dtype:
            raise DTypeError(
                f"'{d_a.filename}' has elements of {source.dtype}, but '{d_b.filename}' of "
                f"{target.dtype}; copies do not cast"
            )
        if d_a._path.resolve() == d_b._path.resolve():
            raise ArgumentError(
                f"'{d_a.filename}' and '{d_b.filename}' are the same files; copy into other files"
            )
        step.arguments = f"copy {d_a.filename!r} into {d_b.filename!r}, axes {axes}"
    session.finish(d_a)
    session.finish(d_b)
    if d_a.mode is not Mode.R:
        source.flush()
    with session.agreement.step():
        _move_zones(source, target, axes, session.buffer_bytes)
    target.flush()


def _move_zones(
    source: ParallelArray, target: ParallelArray, axes: tuple[int, ...], most: int
) -> None:
    """Write a source's part in this rank's zones of a target, in blocks of bounded size."""
    zones = target.zone() if target.ndim else [()]
    for zone in zones if isinstance(zones, list) else [zones]:
        low = [s.start for s in zone]
        for part in tiles(extents(zone), target.chunks, target.itemsize, limit=most // 2):
            box = [slice(s.start + a, s.stop + a) for s, a in zip(part, low, strict=True)]
            place = tuple(box[axes.index(j)] for j in range(len(axes)))
            block = source.read(place, collective=False)
            target.write(tuple(box), block.transpose(axes), collective=False)


def _as_axes(transp: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of an array in their order in a copy.

    >>> _as_axes(True, 3), _as_axes(False, 2), _as_axes([2, 0, -2], 3)
    ((2, 1, 0), (0, 1), (2, 0, 1))
    """
    if isinstance(transp, (bool, np.bool_)):
        return tuple(range(ndim))[:: -1 if transp else 1]
    if not hasattr(transp, "__len__") or isinstance(transp, (str, bytes)):
        raise ArgumentTypeError(
            f"transp must be a bool, or the axes in their new order, not {transp!r}"
        )
    given = as_ints(transp, "transp")
    axes = tuple(j + ndim if j < 0 else j for j in given)
    if sorted(axes) != list(range(ndim)):
        raise ArgumentError(
            f"transp {given} is not an order of {ndim} axes; give each axis once, as for "
            "numpy.transpose"
        )
    return axes
