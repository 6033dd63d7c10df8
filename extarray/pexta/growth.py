"""Growth of disk arrays, along one axis or several, here or by a writer outside."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

from extarray import ArgumentError, ArgumentTypeError, ShapeError
from extarray._core._history import record_at
from extarray.array.resizing import count
from extarray.common.arguments import as_axis, as_ints
from extarray.mpi.array import extend_in_order
from extarray.mpi.replica import is_behind
from extarray.pexta.diskarrays import Mode, check_open
from extarray.pexta.requests import Request, Together
from extarray.pexta.session import current

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from extarray.mpi import ParallelArray
    from extarray.pexta.diskarrays import DiskArray
    from extarray.pexta.session import Session

__all__ = ["extend", "is_older", "place_of_older", "refresh", "take_up_growth"]


def extend(
    d_a: DiskArray,
    edims: Sequence[SupportsIndex] | SupportsIndex | str,
    odims: Sequence[SupportsIndex] | SupportsIndex,
) -> Request:
    """Begin to grow axes of an array at their ends, in one commit; collective.

    Parameters
    ----------
    d_a : DiskArray
        In mode `W` or `RW`.
    edims : sequence of int
        Indices to add to each axis, at least 0; new elements are zero (in general: have the fill
        value).
    odims : sequence of int
        For each axis its place in the sequence in which the axes grow, from 0; negative: the axis
        does not grow, whatever `edims` says.

    Returns
    -------
    Request
        For `wait` or `probe`, which carry out the growth, as does the next routine that transfers
        elements of the array, copies, grows or closes it.

    Raises
    ------
    ArgumentError, ShapeError, ReadOnlyError, ClosedError, StorageError
        On all ranks, if one has a reason.  `wait` may raise a LimitError or a StorageError; the
        array then stays as it was.

    Notes
    -----
    Growth moves nothing in the file, so its cost depends only on the added elements.  Segments
    follow each other in the file in the order of `odims`, unless the file has a growth policy.
    Transfers under way go on.  Until the array has grown, `inquire` and `distribution` return its
    old bounds.

    The thesis leaves open whether `odims` is indexed by axes or by steps; here, by axes.

    If both are ints, `edims` is an axis, which may count from the end (or be a name), and `odims`
    the indices to add to it: the axis grows at once, and the request is over.

    References
    ----------
    [nimako2014]_

    Examples
    --------
    Axis 2 by 2, then axis 0 by 3:

    >>> request = pexta.extend(d_a, (3, 0, 2), (1, -1, 0))  # doctest: +SKIP
    >>> pexta.wait(request)  # doctest: +SKIP
    >>> pexta.extend(d_a, 1, 20)  # doctest: +SKIP
    """
    session = current()
    session.end_growth(d_a)
    with session.agreement.step() as step:
        array = check_open(d_a, "extend", Mode.W, Mode.RW)
        axes, by = _as_growths(edims, odims, array)
        _check_room(session, array, by)
        step.arguments = f"extend {d_a.filename!r} by {by}, axes {axes} in turn"
        is_single = _is_one(edims)
    growth = Request(session, d_a, Together(_grow(session, d_a, axes, by)))
    if is_single:
        growth.wait()
    return growth


def refresh(d_a: DiskArray) -> bool:
    """Follow the commits of a writer outside; collective.

    Parameters
    ----------
    d_a : DiskArray
        In any mode; in mode `W` or `RW`, unless they `share`, the ranks are the one writer
        themselves.

    Returns
    -------
    bool
        Whether there was news; the same on all ranks.

    Raises
    ------
    ReplacedError
        A FileNotFoundError: the files were replaced or removed, so no news can come.
    ClosedError, FormatError, StorageError
        On all ranks, if one has a reason.

    Notes
    -----
    `read` and its like need no refresh; `inquire` and `distribution`, called by one rank alone,
    return the bounds of the last refresh or transfer.

    Examples
    --------
    >>> pexta.refresh(d_a)  # doctest: +SKIP
    True
    """
    session = current()
    session.end_growth(d_a)
    with session.agreement.step() as step:
        array = check_open(d_a, "refresh")
        step.arguments = f"refresh {d_a.filename!r}"
    return array.refresh()


def take_up_growth(d_a: Any) -> None:
    """Bring an array to its newest bounds before a transfer; collective.

    Carries out pending growth, and follows the writers outside, if there can be any.
    """
    session = current()
    session.end_growth(d_a)
    if getattr(d_a, "mode", None) is not Mode.R and not getattr(d_a, "share", False):
        return
    with session.agreement.step() as step:
        array = check_open(d_a, "transfer")
        step.arguments = f"transfer {d_a.filename!r}"
        step.numbers[0] = int(is_behind(array))
    if step.numbers[0]:
        array.refresh()


def is_older(d_a: DiskArray, dims: tuple[int, ...]) -> bool:
    """Tell whether an array has had these bounds, and larger ones since.

    Bounds between those at `open` and the present ones count, and those that the growths on record
    have passed through, to the chunk.
    """
    array, (first, _) = d_a.array, d_a._first
    now = array.shape
    if dims == now or len(dims) != len(now) or any(map(operator.gt, dims, now)):
        return False
    if len(first) == len(dims) and all(map(operator.le, first, dims)):
        return True
    axial, chunks = array.axial, array.chunks
    # Chunks along each axis; one more if the grid began before index 0.
    least = [-(-n // c) for n, c in zip(dims, chunks, strict=True)]
    most = [n + bool(grown) for n, grown in zip(least, array.origin, strict=True)]
    after = axial.grid
    for number in reversed(range(axial.segments)):
        _, _, before = record_at(axial, number)
        if all(
            a <= most[j] and n <= z
            for j, (a, n, z) in enumerate(zip(before, least, after, strict=True))
        ):
            return True
        after = before
    return False


def place_of_older(d_a: DiskArray, dims: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the present index of the first element of older bounds.

    None where the array has grown at the start of an axis, perhaps after it had these bounds.
    """
    (first, before), array = d_a._first, d_a.array
    if len(first) != array.ndim:  # it has gained an axis, and nothing is known of its bounds before
        first, before = array.shape, array.origin
    places = []
    for n, m, then, now, z in zip(dims, first, before, array.origin, array.shape, strict=True):
        if n == z or now == 0 or (now == then and n >= m):
            places.append(0)  # there was no growth at this start since
        elif n >= m and z - m == now - then:
            places.append(z - n)  # there was no growth at the end
        elif n == m:
            places.append(now - then)
        else:
            return None
    return tuple(places)


def _is_one(value: Any) -> bool:
    return isinstance(value, str) or not hasattr(value, "__len__")


def _as_growths(edims: Any, odims: Any, array: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the growing axes, in their order, and the growth of each axis of an array.

    >>> import extarray as xa
    >>> a = xa.zeros((4, 3, 2))
    >>> _as_growths((3, 0, 2), (1, -1, 0), a), _as_growths(-1, 4, a)
    (((2, 0), (3, 0, 2)), ((2,), (0, 0, 4)))
    """
    ndim, are_single = array.ndim, (_is_one(edims), _is_one(odims))
    if all(are_single):
        axis, n = as_axis(edims, ndim, array), count(odims)
        return (axis,), tuple(n if j == axis else 0 for j in range(ndim))
    if any(are_single):
        raise ArgumentTypeError(
            f"edims {edims!r} and odims {odims!r} do not match: give the growth of each axis and "
            "its place in the sequence, or a single axis and its growth"
        )
    extents, places = as_ints(edims, "edims"), as_ints(odims, "odims")
    if not len(extents) == len(places) == ndim:
        raise ShapeError(
            f"edims {extents} and odims {places} do not match an array with {ndim} axes; give a "
            "number for each axis in both"
        )
    axes = sorted((j for j in range(ndim) if places[j] >= 0), key=places.__getitem__)
    if [places[j] for j in axes] != list(range(len(axes))):
        raise ArgumentError(
            f"odims {places} is not a valid sequence; number the growing axes 0, 1, ..., and give "
            "-1 for the others"
        )
    if any(extents[j] < 0 for j in axes):
        raise ArgumentError(f"edims {extents} has negative numbers; arrays can only grow")
    return tuple(axes), tuple(n if j in axes else 0 for j, n in enumerate(extents))


def _check_room(session: Session, array: ParallelArray, by: tuple[int, ...]) -> None:
    shape = map(sum, zip(array.shape, by, strict=True))
    session.check_room(math.prod(shape) * array.itemsize, array.nbytes)


def _grow(
    session: Session, d_a: DiskArray, axes: tuple[int, ...], by: tuple[int, ...]
) -> Callable[[], None]:
    """Return the collective call that makes a growth of some axes, in their order."""
    order = (*axes, *(j for j in range(len(by)) if j not in axes))

    def grow() -> None:
        array = d_a.array
        with session.agreement.step():
            check_open(d_a, "extend")
            _check_room(session, array, by)
        extend_in_order(array, by, order)

    return grow
