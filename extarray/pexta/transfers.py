"""Transfers between global arrays and disk arrays: of all elements, or of sections."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, SupportsIndex

from extarray import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from extarray.mpi import GlobalArray
from extarray.mpi.access import label
from extarray.mpi.runtime import library
from extarray.pexta.diskarrays import Mode, check_open
from extarray.pexta.requests import Plan, Request
from extarray.pexta.sections import Section
from extarray.pexta.session import current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray.mpi import ParallelArray
    from extarray.pexta.diskarrays import DiskArray
    from extarray.pexta.session import Session

__all__ = [
    "REQ_INVALID",
    "iread",
    "iread_section",
    "iwrite",
    "iwrite_section",
    "probe",
    "read",
    "read_section",
    "wait",
    "write",
    "write_section",
]

# What DRA takes for a request that does not exist, which is over.
REQ_INVALID = -333


def write(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Write a global array to a disk array; collective.

    Parameters
    ----------
    g_a : GlobalArray
    d_a : DiskArray
        Of the same shape and dtype, in mode `W` or `RW`.

    Returns
    -------
    Request
        It is over; `wait` and `probe` take it all the same.

    Raises
    ------
    ShapeError, DTypeError, ReadOnlyError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Examples
    --------
    >>> pexta.wait(pexta.write(g_a, d_a))  # doctest: +SKIP
    """
    return _run(_whole(g_a, d_a, True))


def read(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Read a global array from a disk array; collective.

    Parameters
    ----------
    g_a, d_a
        As for `write`; the disk array in mode `R` or `RW`.

    Returns
    -------
    Request
        It is over; `wait` and `probe` take it all the same.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Examples
    --------
    >>> pexta.wait(pexta.read(g_a, d_a))  # doctest: +SKIP
    """
    return _run(_whole(g_a, d_a, False))


def iwrite(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Begin to write a global array to a disk array; collective.

    Parameters
    ----------
    g_a, d_a
        As for `write`.  The global array must stay as it is until the request is over.

    Returns
    -------
    Request
        For `wait` or `probe`.

    Examples
    --------
    >>> request = pexta.iwrite(g_a, d_a)  # doctest: +SKIP
    >>> pexta.wait(request)  # doctest: +SKIP
    """
    return _begin(_whole(g_a, d_a, True))


def iread(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Begin to read a global array from a disk array; collective.

    Parameters
    ----------
    g_a, d_a
        As for `read`.  The global array must be left alone until the request is over.

    Returns
    -------
    Request
        For `wait` or `probe`.

    Examples
    --------
    >>> request = pexta.iread(g_a, d_a)  # doctest: +SKIP
    >>> pexta.wait(request)  # doctest: +SKIP
    """
    return _begin(_whole(g_a, d_a, False))


def write_section(
    transp: bool,
    g_a: GlobalArray,
    glo: Sequence[SupportsIndex],
    ghi: Sequence[SupportsIndex],
    d_a: DiskArray,
    dlo: Sequence[SupportsIndex],
    dhi: Sequence[SupportsIndex],
) -> Request:
    """Write a section of a global array to a section of a disk array; collective.

    Parameters
    ----------
    transp : bool
        Whether to write the transpose, the axes in reverse.
    g_a : GlobalArray
    glo, ghi : sequence of int
        First and last index of its section along each axis; both belong to it.
    d_a : DiskArray
        Of the same dtype, in mode `W` or `RW`.
    dlo, dhi : sequence of int
        As many elements; in another shape, they correspond in C order.

    Returns
    -------
    Request
        It is over; `wait` and `probe` take it all the same.

    Raises
    ------
    BoundsError, ShapeError, DTypeError, ReadOnlyError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Notes
    -----
    ``d[dlo ... dhi] = np.reshape(g[glo ... ghi], ...)``, of the transpose if `transp`.  The two
    arrays may also have different numbers of axes.

    Examples
    --------
    >>> pexta.write_section(False, g_a, (0, 0), (9, 9), d_a, (50, 0), (59, 9))  # doctest: +SKIP
    """
    return _run(_sections(transp, g_a, glo, ghi, d_a, dlo, dhi, True))


def read_section(
    transp: bool,
    g_a: GlobalArray,
    glo: Sequence[SupportsIndex],
    ghi: Sequence[SupportsIndex],
    d_a: DiskArray,
    dlo: Sequence[SupportsIndex],
    dhi: Sequence[SupportsIndex],
) -> Request:
    """Read a section of a global array from a section of a disk array; collective.

    Parameters
    ----------
    transp : bool
        Whether to read the transpose, the axes in reverse.
    g_a, glo, ghi, dlo, dhi
        As for `write_section`.
    d_a : DiskArray
        Of the same dtype, in mode `R` or `RW`.

    Returns
    -------
    Request
        It is over; `wait` and `probe` take it all the same.

    Raises
    ------
    BoundsError, ShapeError, DTypeError, ArgumentError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Notes
    -----
    ``g[glo ... ghi] = np.reshape(d[dlo ... dhi], ...)``, of the transpose if `transp`.

    Examples
    --------
    >>> pexta.read_section(True, g_a, (0, 0), (9, 4), d_a, (0, 0), (4, 9))  # doctest: +SKIP
    """
    return _run(_sections(transp, g_a, glo, ghi, d_a, dlo, dhi, False))


def iwrite_section(
    transp: bool,
    g_a: GlobalArray,
    glo: Sequence[SupportsIndex],
    ghi: Sequence[SupportsIndex],
    d_a: DiskArray,
    dlo: Sequence[SupportsIndex],
    dhi: Sequence[SupportsIndex],
) -> Request:
    """Begin to write a section of a global array to one of a disk array; collective.

    Parameters
    ----------
    transp, g_a, glo, ghi, d_a, dlo, dhi
        As for `write_section`.  The global array must stay as it is until the request is over.

    Returns
    -------
    Request
        For `wait` or `probe`.

    Examples
    --------
    >>> request = pexta.iwrite_section(
    ...     False, g_a, (0, 0), (9, 9), d_a, (50, 0), (59, 9)
    ... )  # doctest: +SKIP
    """
    return _begin(_sections(transp, g_a, glo, ghi, d_a, dlo, dhi, True))


def iread_section(
    transp: bool,
    g_a: GlobalArray,
    glo: Sequence[SupportsIndex],
    ghi: Sequence[SupportsIndex],
    d_a: DiskArray,
    dlo: Sequence[SupportsIndex],
    dhi: Sequence[SupportsIndex],
) -> Request:
    """Begin to read a section of a global array from one of a disk array; collective.

    Parameters
    ----------
    transp, g_a, glo, ghi, d_a, dlo, dhi
        As for `read_section`.  The global array must be left alone until the request is over.

    Returns
    -------
    Request
        For `wait` or `probe`.

    Examples
    --------
    >>> request = pexta.iread_section(
    ...     True, g_a, (0, 0), (9, 4), d_a, (0, 0), (4, 9)
    ... )  # doctest: +SKIP
    """
    return _begin(_sections(transp, g_a, glo, ghi, d_a, dlo, dhi, False))


def wait(request: Request | int) -> None:
    """Wait until a transfer is over on all ranks; collective.

    Parameters
    ----------
    request : Request or REQ_INVALID

    Raises
    ------
    StorageError
        An OSError, on all ranks: the transfer failed on one.
    ArgumentError
        A ValueError: the ranks mean different transfers.

    Notes
    -----
    Then all ranks see what was read, in the global array, and what was written, on the disk.

    Examples
    --------
    >>> pexta.wait(request)  # doctest: +SKIP
    """
    found = _agreed_on(request, "wait for")
    if found is not None:
        found.wait()


def probe(request: Request | int) -> bool:
    """Tell whether a transfer is over on all ranks; collective.

    Parameters
    ----------
    request : Request or REQ_INVALID

    Returns
    -------
    bool
        The same on all ranks; where it is True, nobody needs to `wait`.

    Raises
    ------
    StorageError
        An OSError, on all ranks: the transfer failed on one.
    ArgumentError
        A ValueError: the ranks mean different transfers.

    Examples
    --------
    >>> while not pexta.probe(request):  # doctest: +SKIP
    ...     compute()
    """
    found = _agreed_on(request, "ask about")
    return True if found is None else found.probe()


def _agreed_on(request: Request | int, what: str) -> Request | None:
    """Return the request that all ranks mean; None: REQ_INVALID."""
    with current().agreement.step() as step:
        if not isinstance(request, Request) and request != REQ_INVALID:
            raise ArgumentTypeError(
                f"a request is needed, as iread and its like give it, not {request!r}"
            )
        found = request if isinstance(request, Request) else None
        step.arguments = f"{what} {'REQ_INVALID' if found is None else found}"
    return found


def _run(request: Request) -> Request:
    request.run()
    return request


def _begin(request: Request) -> Request:
    request.begin()
    return request


def _whole(g_a: GlobalArray, d_a: DiskArray, write: bool) -> Request:
    """Plan the transfer of all elements, checked by all ranks."""
    session = current()
    with session.agreement.step() as step:
        array = _check(session, g_a, d_a, write)
        if g_a.shape != array.shape:
            raise ShapeError(
                f"{g_a.shape} elements in memory and {array.shape} in '{d_a.filename}'; use "
                "sections of the same number of elements"
            )
        step.arguments = _in_words(g_a, d_a, write)
        both = Section((0,) * array.ndim, array.shape)
    return _planned(session, g_a, both, d_a, both, write)


def _sections(
    transp: bool,
    g_a: GlobalArray,
    glo: Any,
    ghi: Any,
    d_a: DiskArray,
    dlo: Any,
    dhi: Any,
    write: bool,
) -> Request:
    """Plan the transfer of sections, checked by all ranks."""
    session = current()
    with session.agreement.step() as step:
        array, turns = _check(session, g_a, d_a, write), bool(transp)
        # What is transposed is the source.
        memory = Section.checked(glo, ghi, g_a.shape, "the global array", turns and write)
        disk = Section.checked(dlo, dhi, array.shape, f"'{d_a.filename}'", turns and not write)
        n, n_disk = math.prod(memory.shape), math.prod(disk.shape)
        if n != n_disk:
            raise ShapeError(
                f"sections of {n} elements in memory and {n_disk} in '{d_a.filename}'; give "
                "sections of the same number of elements"
            )
        step.arguments = f"{_in_words(g_a, d_a, write)}: {memory} in memory, {disk} on the disk"
    return _planned(session, g_a, memory, d_a, disk, write)


def _check(session: Session, g_a: Any, d_a: Any, write: bool) -> ParallelArray:
    """Return the array of a handle, if a transfer is possible."""
    if not isinstance(g_a, GlobalArray):
        raise ArgumentTypeError(f"a GlobalArray is needed, not a {type(g_a).__name__}")
    verb, mode = ("write to", Mode.W) if write else ("read", Mode.R)
    array = check_open(d_a, verb, mode, Mode.RW)
    if g_a.dtype != array.dtype:
        raise DTypeError(
            f"elements of {g_a.dtype} in memory and of {array.dtype} in '{d_a.filename}'; "
            "transfers cast nothing, use a global array of the same dtype"
        )
    MPI = library()
    if MPI.Comm.Compare(g_a.comm, session.comm) not in (MPI.IDENT, MPI.CONGRUENT):
        raise ArgumentError(
            "the global array is of other ranks than the session; give init the communicator by "
            "which it was created"
        )
    return array


def _in_words(g_a: GlobalArray, d_a: DiskArray, write: bool) -> str:
    way = ("write to", "from") if write else ("read", "into")
    return f"{way[0]} '{d_a.filename}' {way[1]} {label(g_a)}"


def _planned(
    session: Session,
    g_a: GlobalArray,
    memory: Section,
    d_a: DiskArray,
    disk: Section,
    write: bool,
) -> Request:
    if session.debug:
        print(
            f"pexta, rank {session.comm.rank}: {_in_words(g_a, d_a, write)}: {memory} in memory, "
            f"{disk} on the disk",
            file=sys.stderr,
            flush=True,
        )
    g_a.sync()  # what others have put belongs to it
    plan = Plan(memory, disk, g_a, session.buffer_bytes // g_a.dtype.itemsize)
    return Request(session, d_a, g_a, plan, write)
