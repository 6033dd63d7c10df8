"""Disk arrays: create, open, inspect, close and delete them."""

from __future__ import annotations

import enum
import math
from os import PathLike, fsdecode
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, cast

import numpy as np

import extarray as xa
from extarray import ArgumentError, ArgumentTypeError, ClosedError, ReadOnlyError, ShapeError
from extarray.common.arguments import as_int
from extarray.common.formatting import Info
from extarray.common.on_error import OnError
from extarray.common.terminal import print_text
from extarray.format.attrs import encode_attrs
from extarray.format.dtypes import check_dtype
from extarray.grid.chunking import check_shape
from extarray.mpi import GlobalArray
from extarray.mpi.global_array import distributed_as
from extarray.mpi.parallel_io import hints_of
from extarray.mpi.runtime import library
from extarray.pexta.hints import chunks_for, io_hints
from extarray.pexta.session import Session, current
from extarray.storage.filesystem import absolute_names, family, resolve_path
from extarray.storage.names import log_beside, remove_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from extarray.mpi import ParallelArray

    Ints = Sequence[SupportsIndex]

__all__ = [
    "C_DBL",
    "C_DCPL",
    "C_FLOAT",
    "C_INT",
    "C_LONG",
    "C_LONGLONG",
    "C_SCPL",
    "NAME",
    "RW",
    "DiskArray",
    "Inquiry",
    "Mode",
    "R",
    "W",
    "check_global",
    "check_mode",
    "check_name",
    "check_open",
    "close",
    "create",
    "create_config",
    "delete",
    "distribution",
    "inquire",
    "open",
    "print_internals",
]

# The types of Global Arrays; any other dtype works, too.
C_INT = np.dtype("i")
C_LONG = np.dtype("l")
C_LONGLONG = np.dtype("q")
C_FLOAT = np.dtype("f")
C_DBL = np.dtype("d")
C_SCPL = np.dtype("F")
C_DCPL = np.dtype("D")


class Mode(enum.IntEnum):
    """The mode of a disk array, with DRA's numbers: how its elements may be used."""

    RW = -1
    W = -2
    R = -3

    def __str__(self) -> str:
        return self.name


R, W, RW = Mode.R, Mode.W, Mode.RW

#: The attribute that holds an array's name.
NAME = "name"


class DiskArray:
    """A handle to an array in files, from `create` or `open`.

    Attributes
    ----------
    array : ParallelArray
        For zones, any selection, attributes, and all else that this interface lacks.
    name : str
        A name in words.
    filename : str
        Name of the pair of files, as given.
    mode : Mode
    share : bool or "elements"
        As given to `open`.
    """

    __slots__ = ("_first", "_path", "array", "filename", "mode", "name", "share")

    def __init__(
        self,
        array: ParallelArray,
        name: str,
        filename: str,
        mode: Mode,
        share: bool | Literal["elements"],
    ) -> None:
        self._path = resolve_path(filename).absolute()  # stays valid after chdir
        self._first = array.shape, array.origin  # when it was opened
        self.array = array
        self.name = name
        self.filename = filename
        self.mode = mode
        self.share = share

    def __repr__(self) -> str:
        return f"<DiskArray {self.name!r} in '{self.filename}', mode {self.mode}>"


class Inquiry(NamedTuple):
    """The answer of `inquire`.

    Attributes
    ----------
    type : dtype
    ndim : int
    dims : tuple of int
    name, filename : str
    """

    type: np.dtype[Any]
    ndim: int
    dims: tuple[int, ...]
    name: str
    filename: str


def create(
    type: DTypeLike,
    ndim: SupportsIndex,
    dims: Ints,
    name: str,
    filename: str | PathLike[str],
    mode: Mode | int,
    reqdims: Ints,
    g_a: GlobalArray | None = None,
    *,
    overwrite: bool = False,
) -> DiskArray:
    """Create an array of zeros in files; collective.

    Parameters
    ----------
    type : dtype_like
        `C_INT`, `C_DBL` and so on, or any other dtype.
    ndim : int
    dims : sequence of int
        Elements along each axis.
    name : str
        A name in words.
    filename : str or PathLike
        Name of the pair of files.
    mode : {RW, W, R}
        How elements may be used until the array is closed.
    reqdims : sequence of int
        Elements of a typical request along each axis; they decide the chunk shape, even if the
        array is smaller so far.  -1: unspecified.
    g_a : GlobalArray, optional
        With as many axes, and on the session's ranks.  Until the array is closed, it is distributed
        like `g_a`, with the same process grid, and cut between chunks, or, if `g_a` is irregular,
        at the same places.  None: zones are as near to cubes of chunks as possible.
    overwrite : bool
        Replace an array with this file name.

    Returns
    -------
    DiskArray

    Raises
    ------
    ExistsError
        A FileExistsError.
    ShapeError, ChunksError, ArgumentError, DTypeError, LimitError, StorageError
        On all ranks, if one has a reason.

    Notes
    -----
    A chunk is a typical request; a request of more than 512 KiB becomes several chunks.  Along
    unspecified axes a chunk is as long as fits; if all axes are unspecified, `extarray.create`
    chooses.

    The zones equal those of `g_a` if `g_a` was created with the same bounds and chunks.  They
    follow the bounds when the array grows.

    Examples
    --------
    >>> d_a = pexta.create(
    ...     pexta.C_DBL, 3, (60, 60, 60), "A", "a", pexta.RW, (2, 20, 20)
    ... )  # doctest: +SKIP
    """
    config = current().default_config
    return create_config(
        type, ndim, dims, name, filename, mode, reqdims, *config, g_a, overwrite=overwrite
    )


def create_config(
    type: DTypeLike,
    ndim: SupportsIndex,
    dims: Ints,
    name: str,
    filename: str | PathLike[str],
    mode: Mode | int,
    reqdims: Ints,
    numfiles: SupportsIndex,
    numioprocs: SupportsIndex,
    g_a: GlobalArray | None = None,
    *,
    overwrite: bool = False,
) -> DiskArray:
    """Create an array with its own configuration; collective.

    Parameters
    ----------
    type, ndim, dims, name, filename, mode, reqdims, g_a, overwrite
        As for `create`.
    numfiles : int
        1 or -1, with the same effect: an array lies in one pair of files.
    numioprocs : int
        Processes that read for all in collective reads through MPI-IO; -1: each reads for itself,
        which is faster on one host.

    Returns
    -------
    DiskArray

    Raises
    ------
    ArgumentError
        A ValueError: several files were asked for.

    Examples
    --------
    >>> d_a = pexta.create_config(
    ...     pexta.C_INT, 1, (100,), "A", "a", pexta.RW, (-1,), 1, 2
    ... )  # doctest: +SKIP
    """
    session = current()
    with session.agreement.step() as step:
        session.check_handles()
        shape, dtype, permitted = check_shape(dims), check_dtype(type), check_mode(mode)
        if as_int(ndim, "ndim") != len(shape):
            raise ShapeError(
                f"ndim {ndim} does not match dims {shape}; give one extent for each axis"
            )
        check_name(name)
        chunks = chunks_for(reqdims, shape, dtype.itemsize)
        session.check_room(math.prod(shape) * dtype.itemsize)
        info = io_hints(numfiles, numioprocs)
        zones = (
            None if g_a is None else distributed_as(_check_axes(g_a, len(shape)), (1,) * len(shape))
        )
        step.arguments = f"create '{resolve_path(filename)}' in mode {permitted}, zones {zones}"
    array = xa.create(
        filename,
        shape,
        dtype,
        chunks=chunks,
        overwrite=overwrite,
        attrs={NAME: name},
        comm=session.comm,
        info=info,
    )
    if g_a is not None:
        cast("ParallelArray", array).distribute(*distributed_as(g_a, array.chunks))
    return _opened(session, array, filename, permitted)


def _check_axes(g_a: Any, ndim: int) -> GlobalArray:
    """Check a global array whose zones a disk array is to take."""
    given = check_global(g_a)
    if given.ndim != ndim:
        raise ShapeError(
            f"a global array with {given.ndim} axes cannot set the zones of an array with {ndim}; "
            "give one with the same number"
        )
    return given


def open(
    filename: str | PathLike[str],
    mode: Mode | int,
    *,
    share: bool | Literal["elements"] = False,
) -> DiskArray:
    """Open an array in files; collective.

    Parameters
    ----------
    filename : str or PathLike
        Name of the pair of files, whichever program made it.
    mode : {R, W, RW}
        `R` takes no lock; with `W` or `RW` the ranks together are the one writer.
    share : bool or "elements"
        With `W` or `RW`, as for `extarray.open`.  True: the ranks together are one of several
        writers, all of which share, and may grow the array.  "elements": the ranks write elements,
        and one writer outside, who need not share, may grow the array.

    Returns
    -------
    DiskArray

    Raises
    ------
    MissingError, LockedError, FormatError, ArgumentError, StorageError
        On all ranks.

    Notes
    -----
    A transfer first takes up what others have grown; between transfers the bounds stay.

    Examples
    --------
    >>> d_a = pexta.open("a", pexta.R)  # doctest: +SKIP
    >>> d_b = pexta.open("b", pexta.RW, share=True)  # doctest: +SKIP
    """
    session = current()
    with session.agreement.step() as step:
        session.check_handles()
        permitted = check_mode(mode)
        step.arguments = f"open '{resolve_path(filename)}' in mode {permitted}, share {share!r}"
    access, info = "r" if permitted is Mode.R else "r+", io_hints(*session.default_config)
    array = xa.open(filename, access, share=share, comm=session.comm, info=info)
    with OnError(array.close), session.agreement.step():
        session.check_room(array.nbytes)
    return _opened(session, array, filename, permitted, share)


def _opened(
    session: Session,
    array: Any,
    filename: str | PathLike[str],
    mode: Mode,
    share: bool | Literal["elements"] = False,
) -> DiskArray:
    name = array.attrs.get(NAME)
    place = fsdecode(filename)
    handle = DiskArray(array, name if isinstance(name, str) else place, place, mode, share)
    session.arrays.append(handle)
    return handle


def check_mode(value: Any) -> Mode:
    """Check a mode, and return it."""
    try:
        return Mode(value)
    except ValueError:
        raise ArgumentError(f"mode {value!r} is not valid; use R, W or RW") from None


def check_name(name: Any) -> None:
    """Refuse a name that is no text, or that attributes cannot hold."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"name must be a str, not {name!r}")
    encode_attrs({NAME: name})


def check_open(d_a: Any, what: str, *modes: Mode) -> ParallelArray:
    """Return the array of a handle if its mode permits `what`, the request in words.

    `modes` are the permitting ones; none: all.
    """
    if not isinstance(d_a, DiskArray):
        raise ArgumentTypeError(
            f"a handle as returned by create and open is needed, not a {d_a.__class__.__name__}"
        )
    if d_a.array.closed:
        raise ClosedError(f"cannot {what} '{d_a.filename}': it was closed; open it again")
    if modes and d_a.mode not in modes:
        kind = ReadOnlyError if d_a.mode is Mode.R else ArgumentError
        raise kind(f"cannot {what} '{d_a.filename}': opened in mode {d_a.mode}; open it with RW")
    return d_a.array


def check_global(g_a: Any) -> GlobalArray:
    """Check a global array, whose ranks must be the session's, and return it."""
    if not isinstance(g_a, GlobalArray):
        raise ArgumentTypeError(f"a GlobalArray is needed, not a {g_a.__class__.__name__}")
    MPI = library()
    if MPI.Comm.Compare(g_a.comm, current().comm) not in (MPI.IDENT, MPI.CONGRUENT):
        raise ArgumentError(
            "the global array is on other ranks than the session; give init the communicator "
            "with which it was created"
        )
    return g_a


def close(d_a: DiskArray) -> None:
    """Close an array; its files stay; collective.

    Parameters
    ----------
    d_a : DiskArray
        Do not use it any more.

    Notes
    -----
    Transfers under way end first.

    Examples
    --------
    >>> pexta.close(d_a)  # doctest: +SKIP
    """
    session = current()
    with session.agreement.step() as step:
        check_open(d_a, "close")
        step.arguments = f"close {d_a.filename!r}"
    session.finish(d_a)
    session.arrays.remove(d_a)
    d_a.array.close()


def delete(d_a: DiskArray) -> None:
    """Close an array, and remove its files; collective.

    Parameters
    ----------
    d_a : DiskArray
        In any mode.  Do not use it any more.

    Raises
    ------
    LockedError
        A BlockingIOError: another program writes to the array; the files stay.

    Examples
    --------
    >>> pexta.delete(d_a)  # doctest: +SKIP
    """
    close(d_a)
    session, path = current(), d_a._path
    with session.agreement.step():
        if session.comm.rank == 0:
            # Become the one writer, so that no other is in the middle of a change.
            with xa.open(path, "r+") as last:
                uuid = bytes.fromhex(last.info()["uuid"])
            with family("cannot remove the files of '{}'", d_a.filename):
                names = absolute_names(path)
                remove_pair((*names, *log_beside(names[0])), uuid)


def inquire(d_a: DiskArray) -> Inquiry:
    """Return the properties of an array; other ranks take no part.

    Parameters
    ----------
    d_a : DiskArray

    Returns
    -------
    Inquiry
        A tuple: type, ndim, dims, name, filename.

    Examples
    --------
    >>> type, ndim, dims, name, filename = pexta.inquire(d_a)  # doctest: +SKIP
    """
    array = check_open(d_a, "inquire about")
    return Inquiry(array.dtype, array.ndim, array.shape, d_a.name, d_a.filename)


def distribution(d_a: DiskArray, rank: SupportsIndex) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a rank's zone of an array as a section; other ranks take no part.

    Parameters
    ----------
    d_a : DiskArray
    rank : int

    Returns
    -------
    lo, hi : tuple of int
        First and last index along each axis; ``hi < lo`` along an axis without elements.

    Raises
    ------
    BoundsError, ArgumentError

    Notes
    -----
    Chunks are never cut, so a rank may have no elements.

    Examples
    --------
    >>> lo, hi = pexta.distribution(d_a, 0)  # doctest: +SKIP
    """
    zone = check_open(d_a, "tell the zones of").zone(rank)
    if isinstance(zone, list):
        raise ArgumentError(
            f"the zones of '{d_a.filename}' are distributed cyclically, so no rank has a single "
            "section; see d_a.array.zone()"
        )
    box = cast("tuple[slice, ...]", zone)
    return tuple(s.start for s in box), tuple(s.stop - 1 for s in box)


def print_internals(d_a: DiskArray) -> None:
    """Print the facts about an array, on rank 0.

    Parameters
    ----------
    d_a : DiskArray

    Examples
    --------
    >>> pexta.print_internals(d_a)  # doctest: +SKIP
    """
    array, session = check_open(d_a, "print"), current()
    if session.comm.rank:
        return
    facts = Info(
        name=d_a.name,
        access=d_a.mode,
        ranks=session.comm.size,
        hints=hints_of(array),
        transfers_under_way=sum(request.handle is d_a for request in session.pending),
    )
    facts.update(array.info())
    print_text(str(facts))
