"""The session between `init` and `terminate`, which all ranks call together."""

from __future__ import annotations

import errno
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

from extarray import ArgumentError, ArgumentTypeError, ClosedError, StorageError, config
from extarray.mpi.runtime import Agreement, library
from extarray.pexta.hints import UNSPECIFIED, io_hints

if TYPE_CHECKING:
    from extarray.mpi import ParallelArray

__all__ = ["Session", "current", "flick", "init", "set_debug", "set_default_config", "terminate"]


class _Handle(Protocol):
    """An open array, as the session sees it."""

    @property
    def array(self) -> ParallelArray: ...


class _Pending(Protocol):
    """A transfer under way or a growth to be made, as the session sees it."""

    @property
    def handle(self) -> _Handle: ...
    @property
    def grows(self) -> bool: ...

    def advance(self) -> bool: ...

    def wait(self) -> None: ...


@dataclass(eq=False)
class Session:
    """A session: a communicator, the limits of `init`, and open arrays and requests."""

    agreement: Agreement
    max_arrays: int
    max_array_size: int
    total_disk_space: int
    max_memory: int
    arrays: list[_Handle] = field(default_factory=list, init=False)
    # Requests under way; on all ranks in the order in which they began.
    pending: list[_Pending] = field(default_factory=list, init=False)
    n_requests: int = field(default=0, init=False)
    debug: bool = field(default=False, init=False)
    default_config: tuple[int, int] = field(default=(UNSPECIFIED, UNSPECIFIED), init=False)

    @property
    def comm(self) -> Any:
        """The agreement's communicator."""
        return self.agreement.comm

    @property
    def buffer_bytes(self) -> int:
        """Bytes that a rank may buffer."""
        return config.max_memory if self.max_memory == UNSPECIFIED else self.max_memory

    def count_request(self) -> int:
        """Return the number of a new request, the same on all ranks."""
        self.n_requests += 1
        return self.n_requests

    def check_handles(self) -> None:
        """Raise a StorageError with errno EMFILE if one more array would be too many."""
        n = self.max_arrays
        if n != UNSPECIFIED and len(self._open()) >= n:
            raise StorageError(
                errno.EMFILE, f"{n} arrays are open, the maximum given to init; close one"
            )

    def check_room(self, nbytes: int, instead_of: int = 0) -> None:
        """Raise a StorageError with errno EFBIG or EDQUOT if an array would be too large.

        The array would have `nbytes` bytes of elements; an open one has `instead_of` bytes now.
        """
        n = self.max_array_size
        if n != UNSPECIFIED and nbytes > n:
            raise StorageError(
                errno.EFBIG,
                f"the array would have {nbytes} bytes, but init allows max_array_size={n}",
            )
        total = sum(handle.array.nbytes for handle in self._open()) - instead_of + nbytes
        n = self.total_disk_space
        if n != UNSPECIFIED and total > n:
            raise StorageError(
                errno.EDQUOT,
                f"the open arrays would have {total} bytes in total, but init allows "
                f"total_disk_space={n}",
            )

    def _open(self) -> list[_Handle]:
        """Return the handles of arrays that are still open: `array.close` may have closed some."""
        return [handle for handle in self.arrays if not handle.array.closed]

    def finish(self, handle: _Handle) -> None:
        """Wait for the requests of an array; collective."""
        for request in [request for request in self.pending if request.handle is handle]:
            request.wait()

    def end_growth(self, handle: _Handle) -> None:
        """Carry out an array's pending growths; collective, as all ranks know of them."""
        growths = [
            request for request in self.pending if request.handle is handle and request.grows
        ]
        for growth in growths:
            with self.agreement.step() as step:
                step.arguments = f"make {growth}"
            growth.wait()


_session: Session | None = None


def current() -> Session:
    """Return the session; raise a ClosedError if none has begun."""
    if _session is None:
        raise ClosedError("no session has begun; call extarray.pexta.init on all ranks first")
    return _session


def init(
    max_arrays: float = -1,
    max_array_size: float = -1,
    total_disk_space: float = -1,
    max_memory: float = -1,
    *,
    comm: Any = None,
) -> None:
    """Begin a session; collective.

    Parameters
    ----------
    max_arrays : float
        Most arrays open at the same time.
    max_array_size : float
        Most bytes of an array.
    total_disk_space : float
        Most bytes of all open arrays together.
    max_memory : float
        Bytes that a rank may buffer if a transfer changes the shape of a section.
    comm : mpi4py.MPI.Intracomm, optional
        The ranks; None: ``MPI.COMM_WORLD``.

    Raises
    ------
    ArgumentError
        A ValueError: a session has begun already, or a limit is no positive number.

    Notes
    -----
    -1 means "no limit"; for `max_memory` it means ``config.max_memory``.

    Examples
    --------
    >>> pexta.init(10, 1e8, 1e10, 1e6)  # doctest: +SKIP
    """
    global _session
    if _session is not None:
        raise ArgumentError("a session has already begun; call terminate first")
    given = library().COMM_WORLD if comm is None else comm
    with Agreement.on_duplicate(given) as agreement, agreement.step() as step:
        limits = [
            _limit(max_arrays, "max_arrays"),
            _limit(max_array_size, "max_array_size"),
            _limit(total_disk_space, "total_disk_space"),
            _limit(max_memory, "max_memory"),
        ]
        step.arguments = f"init {limits}"
    _session = Session(agreement, *limits)


def _limit(value: float, name: str) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name} must be a number, not {value!r}") from None
    if number != UNSPECIFIED and not 1 <= number < math.inf:
        raise ArgumentError(f"{name} {value} is not valid; give a number from 1, or -1")
    return int(number)


def terminate() -> None:
    """End the session, and close all open arrays; collective.

    Notes
    -----
    Transfers under way end first.

    Examples
    --------
    >>> pexta.terminate()  # doctest: +SKIP
    """
    global _session
    session = current()
    with session.agreement.step() as step:
        step.arguments = "terminate"
    while session.pending:
        session.pending[0].wait()
    while session.arrays:
        session.arrays.pop().array.close()
    session.comm.Free()
    _session = None


def flick() -> None:
    """Advance the transfers under way a little; other ranks take no part.

    Notes
    -----
    A transfer that keeps the shape advances by itself.  One that changes the shape moves parts, as
    large as `init` allows: the next part begins when `flick`, `probe` or `wait` finds the last one
    done.

    Examples
    --------
    >>> pexta.flick()  # doctest: +SKIP
    """
    for request in current().pending:
        request.advance()


def set_debug(flag: bool) -> None:
    """Choose whether each rank reports its transfers on its standard error.

    Parameters
    ----------
    flag : bool

    Examples
    --------
    >>> pexta.set_debug(True)  # doctest: +SKIP
    """
    current().debug = bool(flag)


def set_default_config(numfiles: SupportsIndex, numioprocs: SupportsIndex) -> None:
    """Choose how many files arrays have, and how many processes read; collective.

    Parameters
    ----------
    numfiles, numioprocs : int
        As for `create_config`, for arrays created or opened from now on.

    Raises
    ------
    ArgumentError

    Examples
    --------
    >>> pexta.set_default_config(1, 2)  # doctest: +SKIP
    """
    session = current()
    with session.agreement.step() as step:
        step.arguments = f"set the default configuration {io_hints(numfiles, numioprocs)}"
    session.default_config = int(numfiles), int(numioprocs)
