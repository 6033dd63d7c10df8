"""Disk I/O: write global arrays, or sections of them, to disk arrays, and read them back."""

from __future__ import annotations

import math
import operator
import sys
from typing import TYPE_CHECKING, Any, SupportsIndex

from extarray import ArgumentTypeError, DTypeError, ShapeError
from extarray.common.terminal import print_text
from extarray.grid.bounds import outside
from extarray.mpi.access import label
from extarray.mpi.global_array import enlarge, show_to_all
from extarray.pexta.diskarrays import Mode, check_global, check_open
from extarray.pexta.growth import is_older, place_of_older, take_up_growth
from extarray.pexta.requests import Part, Request, Together, Transfer
from extarray.pexta.sections import Section
from extarray.pexta.session import current

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def write(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Write a global array to a disk array; collective.

    Parameters
    ----------
    g_a : GlobalArray
        Leave it as it is, on all ranks, until the call ends.
    d_a : DiskArray
        Of the same dtype, in mode `W` or `RW`, and of the same shape or one that it has grown to.

    Returns
    -------
    Request
        Over already; `wait` and `probe` take it all the same.

    Raises
    ------
    ShapeError, DTypeError, ReadOnlyError, ReserveError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Notes
    -----
    A global array that has an earlier shape of the disk array, see `read`, grows to the present one
    first.  Then its old elements are written to their places in the file, and last its new ones are
    read from there: nothing on the disk is overwritten but those old elements.  So the two are
    equal after the call.  If the read fails, the old elements are on the disk all the same.  If
    there is no memory for the growth, nothing is written, and `write_section` still writes the old
    elements.

    Where the disk array has grown at the start of an axis, the place of the old elements is known
    only if it was open then, and did not grow at the end of that axis too; otherwise a ShapeError
    is raised.  Elements that were cut off (``d_a.array.shrink``) are not allowed for: write
    sections then.

    Examples
    --------
    >>> pexta.write(g_a, d_a)  # doctest: +SKIP
    """
    return _whole(g_a, d_a, write=True, waits=True)


def read(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Read a global array from a disk array; collective.

    Parameters
    ----------
    g_a : GlobalArray
        Leave it alone, on all ranks, until the call ends.
    d_a : DiskArray
        Of the same dtype, in mode `R` or `RW`, and of the same shape or one that it has grown to.

    Returns
    -------
    Request
        Over already; `wait` and `probe` take it all the same.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError, ReserveError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Notes
    -----
    The disk array first takes up what writers outside have grown, in mode `R` or with `share`.  A
    global array that has an earlier shape of it then grows to the present one, by zeros, before all
    elements are read.  If the read fails, the old elements are still in it, or have been read.

    An earlier shape lies between the one at `open` and the present one, along every axis; or the
    growths on record in the file have passed through it, to the chunk.  A global array with any
    other shape is refused, and so is a larger one.

    Growth moves elements to their new ranks.  Arrays that `access` gave before keep what they had,
    and their memory, but no longer show the global array.

    Examples
    --------
    >>> pexta.read(g_a, d_a)  # doctest: +SKIP
    """
    return _whole(g_a, d_a, write=False, waits=True)


def iwrite(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Begin to write a global array to a disk array; collective.

    Parameters
    ----------
    g_a, d_a
        As for `write`; leave `g_a` as it is until the request is over.  It grows at once.

    Returns
    -------
    Request
        For `wait` or `probe`; the next collective call of `g_a`, such as ``g_a.sync()``, ends it,
        too.

    Raises
    ------
    ShapeError, DTypeError, ReadOnlyError, ClosedError, StorageError
        As for `write`.

    Examples
    --------
    >>> request = pexta.iwrite(g_a, d_a)  # doctest: +SKIP
    >>> pexta.wait(request)  # doctest: +SKIP
    """
    return _whole(g_a, d_a, write=True, waits=False)


def iread(g_a: GlobalArray, d_a: DiskArray) -> Request:
    """Begin to read a global array from a disk array; collective.

    Parameters
    ----------
    g_a, d_a
        As for `read`; leave `g_a` alone until the request is over.  It grows at once.

    Returns
    -------
    Request
        For `wait` or `probe`; the next collective call of `g_a`, such as ``g_a.sync()``, ends it,
        too.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError, ClosedError, StorageError
        As for `read`.

    Examples
    --------
    >>> request = pexta.iread(g_a, d_a)  # doctest: +SKIP
    >>> pexta.wait(request)  # doctest: +SKIP
    """
    return _whole(g_a, d_a, write=False, waits=False)


def write_section(
    transp: bool, g_a: GlobalArray, glo: Ints, ghi: Ints, d_a: DiskArray, dlo: Ints, dhi: Ints
) -> Request:
    """Write a section of a global array to a section of a disk array; collective.

    Parameters
    ----------
    transp : bool
        Write the transpose: the axes of the section in memory in reverse.
    g_a : GlobalArray
        Leave it as it is, on all ranks, until the call ends.
    glo, ghi : sequence of int
        First and last index of the section in memory along each axis; both belong to it.
    d_a : DiskArray
        Of the same dtype, in mode `W` or `RW`.  It may have another number of axes.
    dlo, dhi : sequence of int
        First and last index of the section on the disk.  It has as many elements as the one in
        memory; elements of sections of different shapes correspond in C order.

    Returns
    -------
    Request
        Over already; `wait` and `probe` take it all the same.

    Raises
    ------
    BoundsError, ShapeError, DTypeError, ReadOnlyError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Notes
    -----
    ``d[dlo ... dhi] = np.reshape(g[glo ... ghi], ...)``, of the transpose if `transp`.

    The disk array first takes up what writers outside have grown, as for `read`.

    Examples
    --------
    >>> pexta.write_section(True, g_a, (0, 0), (9, 4), d_a, (0, 0), (4, 9))  # doctest: +SKIP
    """
    return _sections(transp, g_a, glo, ghi, d_a, dlo, dhi, write=True, waits=True)


def read_section(
    transp: bool, g_a: GlobalArray, glo: Ints, ghi: Ints, d_a: DiskArray, dlo: Ints, dhi: Ints
) -> Request:
    """Read a section of a global array from a section of a disk array; collective.

    Parameters
    ----------
    transp : bool
        Read the transpose: the axes of the section on the disk in reverse.
    g_a : GlobalArray
        Leave it alone, on all ranks, until the call ends.
    glo, ghi : sequence of int
        As for `write_section`.
    d_a : DiskArray
        Of the same dtype, in mode `R` or `RW`.  It may have another number of axes.
    dlo, dhi : sequence of int
        As for `write_section`.

    Returns
    -------
    Request
        Over already; `wait` and `probe` take it all the same.

    Raises
    ------
    BoundsError, ShapeError, DTypeError, ArgumentError, ClosedError, StorageError
        On all ranks, where one has a reason.

    Notes
    -----
    ``g[glo ... ghi] = np.reshape(d[dlo ... dhi], ...)``, of the transpose if `transp`.

    The disk array first takes up what writers outside have grown, as for `read`.

    Examples
    --------
    >>> pexta.read_section(True, g_a, (0, 0), (9, 4), d_a, (0, 0), (4, 9))  # doctest: +SKIP
    """
    return _sections(transp, g_a, glo, ghi, d_a, dlo, dhi, write=False, waits=True)


def iwrite_section(
    transp: bool, g_a: GlobalArray, glo: Ints, ghi: Ints, d_a: DiskArray, dlo: Ints, dhi: Ints
) -> Request:
    """Begin to write a section of a global array to one of a disk array; collective.

    Parameters
    ----------
    transp, g_a, glo, ghi, d_a, dlo, dhi
        As for `write_section`; leave `g_a` as it is until the request is over.

    Returns
    -------
    Request
        As from `iwrite`.

    Raises
    ------
    BoundsError, ShapeError, DTypeError, ReadOnlyError, ClosedError, StorageError
        As for `write_section`.

    Examples
    --------
    >>> request = pexta.iwrite_section(  # doctest: +SKIP
    ...     True, g_a, (0, 0), (9, 4), d_a, (0, 0), (4, 9)
    ... )
    >>> pexta.wait(request)  # doctest: +SKIP
    """
    return _sections(transp, g_a, glo, ghi, d_a, dlo, dhi, write=True, waits=False)


def iread_section(
    transp: bool, g_a: GlobalArray, glo: Ints, ghi: Ints, d_a: DiskArray, dlo: Ints, dhi: Ints
) -> Request:
    """Begin to read a section of a global array from one of a disk array; collective.

    Parameters
    ----------
    transp, g_a, glo, ghi, d_a, dlo, dhi
        As for `read_section`; leave `g_a` alone until the request is over.

    Returns
    -------
    Request
        As from `iread`.

    Raises
    ------
    BoundsError, ShapeError, DTypeError, ArgumentError, ClosedError, StorageError
        As for `read_section`.

    Examples
    --------
    >>> request = pexta.iread_section(  # doctest: +SKIP
    ...     True, g_a, (0, 0), (9, 4), d_a, (0, 0), (4, 9)
    ... )
    >>> pexta.wait(request)  # doctest: +SKIP
    """
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
    take_up_growth(d_a)
    with current().agreement.step() as step:
        array = _check(g_a, d_a, write)
        zeros, shape, old = (0,) * array.ndim, array.shape, g_a.shape
        place: tuple[int, ...] | None = zeros
        if old != shape:
            if not is_older(d_a, old):
                raise ShapeError(
                    f"{old} elements in memory, but {shape} in '{d_a.filename}'; use sections "
                    "with the same number of elements"
                )
            place = place_of_older(d_a, old)
            if place is None and write:
                raise ShapeError(
                    f"'{d_a.filename}' has grown from {old} to {shape}, at a start too, so the "
                    "place of older elements is unknown; use write_section"
                )
        step.arguments = _in_words(g_a, d_a, write)
    place = place or zeros
    if old != shape:
        enlarge(g_a, shape, place)
    whole = Section(zeros, shape)
    if not write or old == shape:
        parts = [Part(whole, whole, write)]
    else:
        # The rest of the global array is new: it has nothing to write.
        end = tuple(map(operator.add, place, old))
        own, rest = Section(place, end), outside(zeros, shape, place, end)
        parts = [Part(own, own, True)]
        parts += [Part(one, one, False) for one in (Section(*corners) for corners in rest)]
    return _begun(g_a, d_a, parts, waits)


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
    take_up_growth(d_a)
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
    return _begun(g_a, d_a, [Part(memory, disk, write)], waits)


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


def _in_words(g_a: GlobalArray, d_a: DiskArray, write: bool) -> str:
    way = ("write to", "from") if write else ("read", "into")
    return f"{way[0]} '{d_a.filename}' {way[1]} {label(g_a)}"


def _begun(g_a: GlobalArray, d_a: DiskArray, parts: Sequence[Part], waits: bool) -> Request:
    """Begin a transfer; if it `waits`, all ranks make it together."""
    session = current()
    if session.debug:
        for memory, disk, write in parts:
            print_text(
                f"pexta, rank {session.comm.rank}: {_in_words(g_a, d_a, write)}: {memory} in "
                f"memory, {disk} on the disk",
                stream=sys.stderr,
            )
    show_to_all(g_a)  # include puts of other ranks; other transfers of this array go on
    most = session.buffer_bytes // g_a.dtype.itemsize
    transfer = Transfer(session.agreement, d_a, g_a, parts, most)
    if waits:
        request = Request(session, d_a, Together(transfer.run), g_a)
        request.wait()
    else:
        request = Request(session, d_a, transfer, g_a)
        request.advance()
    return request
