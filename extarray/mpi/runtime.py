"""The MPI library, loaded when a communicator is given; steps that all ranks take, or none.

Work of one rank may fail on that rank alone.  At the end of a step one reduction tells all ranks
whether any has failed; if so, all raise, and none waits for a rank that has left.  The same
reduction compares arguments, and finds the largest of some numbers.
"""

from __future__ import annotations

import errno
import pickle
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from extarray.common import system
from extarray.common.arguments import as_int
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    BoundsError,
    ExtArrayError,
    MissingExtraError,
    StorageError,
)
from extarray.common.extras import command_for, require
from extarray.common.on_error import OnError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self

    from extarray._core._file import FileCore


__all__ = [
    "Agreement",
    "Step",
    "agreed",
    "check_comm",
    "check_rank",
    "default_hints",
    "is_agreed",
    "leave_together",
    "library",
    "loses_errors",
    "make_info",
    "portable",
    "received",
    "stage_bytes",
    "storage_error_of",
]

# Older versions abort in file views with mpi4py 4's large counts.
_LEAST_MPICH = (5, 0, 0)

# Two-phase writing and data sieving read the gaps between a rank's bytes and write them back, which
# could undo writes of others there (I9).
_EXACT_WRITES = {"romio_cb_write": "disable", "romio_ds_write": "disable"}
# On one host they cost several times what they save, in reads too.
_PLAIN_READS = {"romio_cb_read": "disable", "romio_ds_read": "disable"}


@cache
def library() -> Any:
    """Import ``mpi4py.MPI``; raise a MissingExtraError if there is no usable one."""
    if not system.RUNS_MPI:
        raise MissingExtraError(
            "arrays under a communicator do not exist on this system (Windows); leave out comm, "
            "open the array with share=True in each process, or use WSL"
        )
    try:
        MPI = require("mpi4py.MPI", "mpi", "a communicator")
    except RuntimeError as error:  # mpi4py found no library
        raise MissingExtraError(
            f"mpi4py cannot find an MPI library ({error}); install one with: {command_for('mpich')}"
        ) from None
    vendor, version = MPI.get_vendor()
    if vendor == "MPICH" and version < _LEAST_MPICH:
        raise MissingExtraError(
            f"file views abort in MPICH {'.'.join(map(str, version))}; install MPICH 5 or newer "
            f"with: {command_for('mpich')}"
        )
    return MPI


def loses_errors() -> bool:
    """Tell whether a failure ruins the library's collective calls for files.

    In Open MPI 5 some ranks transfer for others, and errors there are printed and forgotten; and if
    one rank cannot open a file, the others wait for it for ever.
    """
    return bool(library().get_vendor()[0] == "Open MPI")


def check_comm(comm: Any) -> Any:
    """Check a communicator, of which this process must be a rank, and return it."""
    MPI = library()
    if isinstance(comm, MPI.Comm) and comm == MPI.COMM_NULL:
        raise ArgumentError(
            "this process is not a rank of the communicator (comm is MPI.COMM_NULL); call this "
            "only on its ranks"
        )
    if not isinstance(comm, MPI.Intracomm):
        raise ArgumentTypeError(
            f"comm must be an mpi4py communicator such as MPI.COMM_WORLD, not {type(comm).__name__}"
        )
    return comm


def check_rank(rank: SupportsIndex | None, comm: Any) -> int:
    """Check a rank of a communicator and return it; None: this rank."""
    r = comm.rank if rank is None else as_int(rank, "rank")
    if not 0 <= r < comm.size:
        raise BoundsError(f"no rank {r}; the ranks are 0 to {comm.size - 1}")
    return int(r)


def default_hints(file: FileCore) -> dict[str, str]:
    """Return the hints for MPI-IO that suit the file system."""
    return _EXACT_WRITES if file.is_networked else {**_EXACT_WRITES, **_PLAIN_READS}


def stage_bytes(file: FileCore) -> int:
    """Return the size of the staging buffer in bytes that suits the file system.

    In the page cache, pieces as large as a processor's cache are fastest.  They also leave small
    folios; with large ones every small write costs several times more.  File systems of several
    hosts want larger requests.
    """
    return 1 << 24 if file.is_networked else 1 << 18


def make_info(hints: Mapping[str, Any]) -> Any:
    """Make an MPI info object, which the caller frees; values become text."""
    MPI = library()
    info = MPI.Info.Create()
    for name, value in hints.items():
        try:
            info.Set(str(name), str(value))
        except MPI.Exception as error:
            info.Free()
            raise ArgumentError(
                f"MPI does not accept this value for hint {name!r}: {error.Get_error_string()}"
            ) from None
    return info


def storage_error_of(error: Any, what: str) -> StorageError:
    """Return the family's error for an MPI-IO error; `what` is the request in words."""
    MPI = library()
    numbers = {
        MPI.ERR_NO_SPACE: errno.ENOSPC,
        MPI.ERR_QUOTA: errno.EDQUOT,
        MPI.ERR_ACCESS: errno.EACCES,
        MPI.ERR_READ_ONLY: errno.EROFS,
        MPI.ERR_NO_SUCH_FILE: errno.ENOENT,
    }
    number = numbers.get(error.Get_error_class(), errno.EIO)
    return StorageError(number, f"{what}: {error.Get_error_string()}")


# Count of numbers that a step maximizes.
_NUMBERS = 3
# Layout of a message that `tell` sends in one call: its length, then so many bytes.
_SHORT = 1016
_HEAD = 8
# Attribute of an agreed error: the processes that raise it together.
_MARK = "_extarray_agreed"


class Agreement:
    """The agreement of the ranks of a communicator, step by step."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self._largest = library().MAX
        self._all = np.empty(3 + _NUMBERS, np.int64)
        self._message = bytearray(_HEAD + _SHORT)

    @classmethod
    @contextmanager
    def on_duplicate(cls, comm: Any) -> Iterator[Self]:
        """Duplicate a communicator for an agreement of its ranks; free it if the block fails."""
        self = cls(check_comm(comm).Dup())
        with OnError(self.comm.Free):
            yield self

    def step(self) -> Step:
        """Begin a step of all ranks, for a with statement."""
        return Step(self)

    def tell(self, message: Any = None) -> Any:
        """Send a picklable object of rank 0 to all ranks; collective.

        A short message, such as news of a growth, takes one call of MPI, so that a rank that shares
        its processor waits only once.  (``comm.bcast`` sends the length first.)
        """
        comm, room = self.comm, self._message
        if comm.size == 1:
            return message
        if not comm.rank:
            data = pickle.dumps(message)
            first = len(data).to_bytes(_HEAD, "little") + data[:_SHORT]
            room[: len(first)] = first
            comm.Bcast(room)
            if len(data) > _SHORT:
                comm.Bcast(data[_SHORT:])
            return message
        comm.Bcast(room)
        n = int.from_bytes(room[:_HEAD], "little")
        data = bytes(room[_HEAD : _HEAD + n])
        if n > _SHORT:
            rest = bytearray(n - _SHORT)
            comm.Bcast(rest)
            data += rest
        return pickle.loads(data)

    def settle(
        self, arguments: str | None, error: BaseException | None, numbers: list[int]
    ) -> list[int]:
        """End a step, in which `error` occurred here; return the largest numbers of all ranks.

        Raise the rank's own error; without one, the error of the first rank that has one, or an
        ArgumentError if the ranks' arguments differ.
        """
        comm = self.comm
        mark = 0 if arguments is None else _digest(arguments)
        mine = np.array(
            [0 if error is None else comm.size - comm.rank, mark, -mark, *numbers], np.int64
        )
        comm.Allreduce(mine, self._all, self._largest)
        first, most, least, *largest = self._all.tolist()
        if first:
            raise self._spread(error, comm.size - first)
        if most != -least:
            raise agreed(self._difference(arguments), comm)
        return largest

    def _spread(self, error: BaseException | None, rank: int) -> BaseException:
        """Return this rank's own error; if it has none, the other rank's."""
        message = portable(error) if error is not None and self.comm.rank == rank else None
        message = self.comm.bcast(message, rank)
        if error is None:
            return received(message, rank, self.comm)
        return agreed(error, self.comm)

    def _difference(self, arguments: str | None) -> ArgumentError:
        """Return the error that says how the ranks differ."""
        given = self.comm.allgather(arguments)
        other = next(rank for rank, text in enumerate(given) if text != given[0])
        return ArgumentError(
            f"the ranks disagree: rank 0 asks to {given[0]}, rank {other} to {given[other]}; give "
            "the same arguments on all ranks"
        )


class Step:
    """A step that a rank takes alone, in a with statement, before all go on together.

    Inside the block, set `arguments` to a text that must be the same on all ranks, and `numbers`;
    after the block, `numbers` are the largest of all ranks.
    """

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self.arguments: str | None = None
        self.numbers = [0] * _NUMBERS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.numbers = self._agreement.settle(self.arguments, error, self.numbers)


def is_agreed(error: BaseException | None, comm: Any) -> bool:
    """Tell whether all ranks of a communicator have raised an error together.

    They may have done so through another communicator that includes them all: all of its ranks can
    then close an array of either.
    """
    return hasattr(error, _MARK) and _is_of(error, _processes(comm))


def _is_of(error: BaseException | None, processes: frozenset[int]) -> bool:
    """Tell whether an error was raised by at least these processes together."""
    together = getattr(error, _MARK, None)
    # Processes spawned later look alike (UNDEFINED): with any of them the answer is no.
    return together is not None and (library().UNDEFINED not in processes and processes <= together)


def agreed(error: BaseException, comm: Any) -> BaseException:
    """Mark an error as raised by all ranks of a communicator."""
    setattr(error, _MARK, _processes(comm))
    return error


def leave_together(close: Callable[[], None], error: BaseException | None, comm: Any) -> None:
    """Close something at the end of a with statement that all ranks leave, now or later.

    `close` is collective, and does nothing after it has succeeded; `error` is the error by which
    all leave.  If other ranks still make calls inside the statement, the first mismatch with
    `close` is raised in the end, unless there is `error`.
    """
    first, processes = error, _processes(comm)  # `close` may free the communicator and then raise
    while True:
        try:
            close()
            break
        except BaseException as problem:
            # A rank inside the statement raises the mismatch with this `close` too: go on.
            if not _is_of(problem, processes):
                raise
            first = first or problem
    if first is not error and first is not None:
        raise first


def _processes(comm: Any) -> frozenset[int]:
    """Return a communicator's processes: their ranks among all that were started together."""
    MPI = library()
    some, everyone = comm.Get_group(), MPI.COMM_WORLD.Get_group()
    try:
        ranks = some.Translate_ranks(None, everyone)
    finally:
        some.Free()
        everyone.Free()
    return frozenset(ranks)


def received(data: bytes, rank: int, comm: Any) -> BaseException:
    """Return another rank's error, made from the bytes of `portable`."""
    error: BaseException = pickle.loads(data)
    error.__notes__ = [f"raised on rank {rank}"]
    return agreed(error, comm)


def _digest(text: str) -> int:
    """Return a number that two texts hardly ever share."""
    data = text.encode(errors="surrogatepass")  # file names need not be UTF-8
    return int.from_bytes(blake2b(data, digest_size=7).digest(), "little")


def portable(error: BaseException) -> bytes:
    """Return an error as bytes; one that cannot be pickled keeps only its words."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # noqa: BLE001 -- pickling runs the error's own code
        return pickle.dumps(ExtArrayError(f"{type(error).__name__}: {error}"))
    return data
