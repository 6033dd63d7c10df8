"""Disk I/O: write global arrays, or sections of them, to disk arrays, and read them back."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from extarray import ArgumentTypeError, DTypeError, ShapeError
from extarray.common.terminal import print_text
from extarray.mpi.access import label
from extarray.mpi.global_array import enlarge
from extarray.pexta.diskarrays import Mode, check_global, check_open
from extarray.pexta.growth import take_up_growth
from extarray.pexta.requests import Moves, Request, Together, Transfer
from extarray.pexta.sections import Section
from extarray.pexta.session import current

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from extarray.mpi import GlobalArray, ParallelArray
    from extarray.pexta.diskarrays import DiskArray

    Ints = Sequence[SupportsIndex]

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

# DRA's value for a request that does not exist; it counts as over.
REQ_INVALID = -333

_Routine = TypeVar("_Routine", bound="Callable[..., Request]")

_DETAILS = """

Parameters
----------
{transp}g_a : GlobalArray
    {care}
d_a : DiskArray
    Of the same {same}, in mode {mode} or `RW`.
{corners}
Returns
-------
Request
    {returned}

Raises
------
{errors}, ClosedError, StorageError
    On all ranks, where one has a reason.
{notes}
Examples
--------
>>> request = pexta.{name}({arguments})  # doctest: +SKIP
>>> pexta.wait(request)  # doctest: +SKIP
"""

_TRANSP = """transp : bool
    Whether to {} the transpose, the axes in reverse.
"""
_CORNERS = """glo, ghi : sequence of int
    First and last index of the section in memory along each axis; both belong to it.
dlo, dhi : sequence of int
    Those of the section on the disk.  As many elements; in another shape, they correspond in C
    order.
"""
_NOTES = """
Notes
-----
``{} = np.reshape({}, ...)``, of the transpose if `transp`.  The two
arrays may also have different numbers of axes.
"""
_FOLLOWS = """
Notes
-----
In mode `R`, what a writer outside has grown is taken up first.  Where the disk array has grown
since it was opened, here or outside, a global array of the bounds that it had meanwhile grows to
those of now: elements move to their new ranks, and what `access` gave before must not be used any
more.
"""
_TAKES_UP = """
In mode `R`, what a writer outside has grown is taken up first.
"""


def _described(routine: _Routine) -> _Routine:
    """Complete a routine's docstring: the eight routines differ in a few words."""
    name = routine.__name__
    begins, writes, has_sections = name[0] == "i", "write" in name, name.endswith("_section")
    stay = "stay as it is" if writes else "be left alone"
    end = "the request is over" if begins else "the call ends"
    details = _DETAILS.format(
        name=name,
        transp=_TRANSP.format("write" if writes else "read") if has_sections else "",
        care=f"It must {stay} on all ranks until {end}.",
        same="dtype" if has_sections else "shape and dtype",
        mode="`W`" if writes else "`R`",
        corners=_CORNERS if has_sections else "",
        returned="For `wait` or `probe`."
        if begins
        else "It is over; `wait` and `probe` take it all the same.",
        errors=("BoundsError, " if has_sections else "")
        + f"ShapeError, DTypeError, {'ReadOnlyError' if writes else 'ArgumentError'}",
        notes=_notes_of(writes, has_sections),
        arguments="True, g_a, (0, 0), (9, 4), d_a, (0, 0), (4, 9)" if has_sections else "g_a, d_a",
    )
    routine.__doc__ = f"{routine.__doc__}{details}"
    return routine


def _notes_of(writes: bool, has_sections: bool) -> str:
    if not has_sections:
        return "" if writes else _FOLLOWS
    sides = ("d[dlo ... dhi]", "g[glo ... ghi]")
    return _NOTES.format(*sides[:: 1 if writes else -1]) + ("" if writes else _TAKES_UP)


@_described
def write(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Write a global array to a disk array; collective."""
    return _whole(g_a, d_a, write=True, waits=True)


@_described
def read(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Read a global array from a disk array; collective."""
    return _whole(g_a, d_a, write=False, waits=True)


@_described
def iwrite(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Begin to write a global array to a disk array; collective."""
    return _whole(g_a, d_a, write=True, waits=False)


@_described
def iread(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Begin to read a global array from a disk array; collective."""
    return _whole(g_a, d_a, write=False, waits=False)


@_described
def write_section(
    transp: bool, g_a: GlobalArray, glo: Ints, ghi: Ints, d_a: DiskArray, dlo: Ints, dhi: Ints
) -> Request:
    """Write a section of a global array to a section of a disk array; collective."""
    return _sections(transp, g_a, glo, ghi, d_a, dlo, dhi, write=True, waits=True)


@_described
def read_section(
    transp: bool, g_a: GlobalArray, glo: Ints, ghi: Ints, d_a: DiskArray, dlo: Ints, dhi: Ints
) -> Request:
    """Read a section of a global array from a section of a disk array; collective."""
    return _sections(transp, g_a, glo, ghi, d_a, dlo, dhi, write=False, waits=True)


@_described
def iwrite_section(
    transp: bool, g_a: GlobalArray, glo: Ints, ghi: Ints, d_a: DiskArray, dlo: Ints, dhi: Ints
) -> Request:
    """Begin to write a section of a global array to one of a disk array; collective."""
    return _sections(transp, g_a, glo, ghi, d_a, dlo, dhi, write=True, waits=False)


@_described
def iread_section(
    transp: bool, g_a: GlobalArray, glo: Ints, ghi: Ints, d_a: DiskArray, dlo: Ints, dhi: Ints
) -> Request:
    """Begin to read a section of a global array from one of a disk array; collective."""
    return _sections(transp, g_a, glo, ghi, d_a, dlo, dhi, write=False, waits=False)


def wait(request: Request | int) -> None:
    """Wait until a transfer or a growth is over on all ranks; collective.

    Parameters
    ----------
    request : Request or REQ_INVALID

    Raises
    ------
    StorageError
        An OSError, on all ranks: the transfer or the growth failed on one.
    ArgumentError
        A ValueError: the ranks name different requests.

    Notes
    -----
    After the call all ranks see read elements in the global array, and written ones on the disk.

    Examples
    --------
    >>> pexta.wait(request)  # doctest: +SKIP
    """
    found = _agreed_on(request, "wait for")
    if found is not None:
        found.wait()


def probe(request: Request | int) -> bool:
    """Tell whether a transfer or a growth is over on all ranks; collective.

    Parameters
    ----------
    request : Request or REQ_INVALID

    Returns
    -------
    bool
        The same on all ranks; after True no rank needs to `wait`.

    Raises
    ------
    StorageError
        An OSError, on all ranks: the transfer or the growth failed on one.
    ArgumentError
        A ValueError: the ranks name different requests.

    Notes
    -----
    A growth takes place when all ranks ask about it.

    Examples
    --------
    >>> while not pexta.probe(request):  # doctest: +SKIP
    ...     compute()
    """
    found = _agreed_on(request, "ask about")
    return True if found is None else found.probe()


def _agreed_on(request: Request | int, what: str) -> Request | None:
    """Return the request that all ranks name; None: REQ_INVALID."""
    with current().agreement.step() as step:
        if not isinstance(request, Request) and request != REQ_INVALID:
            raise ArgumentTypeError(
                f"a request as returned by iread and similar calls is needed, not {request!r}"
            )
        found = request if isinstance(request, Request) else None
        step.arguments = f"{what} {'REQ_INVALID' if found is None else found}"
    return found


def _whole(g_a: GlobalArray, d_a: DiskArray, *, write: bool, waits: bool) -> Request:
    """Begin the transfer of all elements, after all ranks have checked it."""
    take_up_growth(d_a, not write)
    with current().agreement.step() as step:
        array = _check(g_a, d_a, write)
        follows = not write and d_a.has_grown_from(g_a.shape)
        if g_a.shape != array.shape and not follows:
            raise ShapeError(
                f"{g_a.shape} elements in memory, but {array.shape} in '{d_a.filename}'; use "
                "sections with the same number of elements"
            )
        step.arguments = _in_words(g_a, d_a, write)
        both = Section((0,) * array.ndim, array.shape)
    if follows:
        _finish(g_a)
        enlarge(g_a, array.shape)
    return _begun(g_a, both, d_a, both, write, waits)


def _sections(
    transp: bool,
    g_a: GlobalArray,
    glo: Any,
    ghi: Any,
    d_a: DiskArray,
    dlo: Any,
    dhi: Any,
    *,
    write: bool,
    waits: bool,
) -> Request:
    """Begin the transfer of sections, after all ranks have checked it."""
    take_up_growth(d_a, not write)
    with current().agreement.step() as step:
        array, turns = _check(g_a, d_a, write), bool(transp)
        # The source is the side to transpose.
        memory = Section.checked(glo, ghi, g_a.shape, "the global array", turns and write)
        disk = Section.checked(dlo, dhi, array.shape, f"'{d_a.filename}'", turns and not write)
        n, n_disk = math.prod(memory.shape), math.prod(disk.shape)
        if n != n_disk:
            raise ShapeError(
                f"the sections have {n} elements in memory, but {n_disk} in '{d_a.filename}'; "
                "give sections with the same number of elements"
            )
        step.arguments = f"{_in_words(g_a, d_a, write)}: {memory} in memory, {disk} on the disk"
    return _begun(g_a, memory, d_a, disk, write, waits)


def _check(g_a: Any, d_a: Any, write: bool) -> ParallelArray:
    """Return the array of a handle, if the transfer is possible."""
    check_global(g_a)
    verb, mode = ("write to", Mode.W) if write else ("read", Mode.R)
    array = check_open(d_a, verb, mode, Mode.RW)
    if g_a.dtype != array.dtype:
        raise DTypeError(
            f"elements have dtype {g_a.dtype} in memory, but {array.dtype} in '{d_a.filename}'; "
            "transfers do not cast, so use a global array of the same dtype"
        )
    return array


def _finish(g_a: GlobalArray) -> None:
    """Wait for the transfers of a global array whose memory is about to change; collective."""
    for request in [request for request in current().pending if request.g_a is g_a]:
        request.wait()


def _in_words(g_a: GlobalArray, d_a: DiskArray, write: bool) -> str:
    way = ("write to", "from") if write else ("read", "into")
    return f"{way[0]} '{d_a.filename}' {way[1]} {label(g_a)}"


def _begun(
    g_a: GlobalArray, memory: Section, d_a: DiskArray, disk: Section, write: bool, waits: bool
) -> Request:
    """Begin a transfer; if it `waits`, all ranks make it together."""
    session = current()
    if session.debug:
        print_text(
            f"pexta, rank {session.comm.rank}: {_in_words(g_a, d_a, write)}: {memory} in memory, "
            f"{disk} on the disk",
            stream=sys.stderr,
        )
    g_a.sync()  # include puts of other ranks
    moves = Moves(memory, disk, g_a, session.buffer_bytes // g_a.dtype.itemsize)
    transfer = Transfer(session.agreement, d_a, g_a, moves, write)
    if waits:
        request = Request(session, d_a, Together(transfer.run), g_a)
        request.wait()
    else:
        request = Request(session, d_a, transfer, g_a)
        request.advance()
    return request
