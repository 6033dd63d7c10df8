"""Windows: memory of all ranks, which each of them reads and writes by itself.

Ranks of one host share memory: they load from and store to each other's at once, as NumPy does.
The memory of ranks on other hosts, and every addition, which has to be atomic, goes through MPI:
the runs of a patch are described by a type of MPI, and its values lie in one run.

A transfer that somebody may ask about has requests of MPI.  The others have none: to flush a window
is one message to and fro, and to wait for a request before it would be another.
"""

from __future__ import annotations

import contextlib
import math
import os
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.errors import DTypeError, ReserveError
from extarray.mpi.requests import WindowRequest
from extarray.mpi.runtime import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from extarray.mpi.patches import Patch, ZoneLayout
    from extarray.mpi.runtime import Agreement


__all__ = ["Window", "accumulate", "add", "fetch_and_add", "get", "number_of", "put"]

# Where memory lives that the ranks of a host share.
_SHARED_MEMORY = "/dev/shm"


class Window:
    """The memory of a global array, on all ranks; made and freed by all together.

    `rma` is the window of MPI, with displacements in bytes.  `near` has the memory of the ranks
    that this one loads from and stores to: its own, and where it can be had that of the others of
    its host.  Elements are zeros at first.
    """

    def __init__(self, agreement: Agreement, layout: ZoneLayout) -> None:
        MPI = library()
        comm = self._comm = agreement.comm
        self.layout = layout
        nbytes = math.prod(layout.extents(comm.rank)) * layout.dtype.itemsize
        neighbours, together = _host_of(comm, nbytes)
        with agreement.step() as step:
            _check_shared_memory(together)
            step.numbers[0] = int(len(neighbours) < comm.size)
        # Ranks need not lie one behind the other: each has whole pages, near to its processor.
        info = MPI.Info.Create({"alloc_shared_noncontig": "true"})
        allocate = MPI.Win.Allocate if step.numbers[0] else MPI.Win.Allocate_shared
        self.rma = allocate(nbytes, 1, info, comm)
        info.Free()
        self.own = self._seen(self.rma.tomemory(), comm.rank)
        self.near = {comm.rank: self.own}
        # What Allocate gave may be shared or not, and before MPI 4.1 it cannot be asked.
        with contextlib.suppress(MPI.Exception):
            for rank in neighbours:
                memory, _ = self.rma.Shared_query(rank)
                if rank != comm.rank and memory.nbytes:
                    self.near[rank] = self._seen(memory, rank)
        # One epoch for the life of the window: a lock for each call would cost more than the call.
        self.rma.Lock_all()
        self.own[...] = np.zeros((), layout.dtype)
        self.sync()

    def _seen(self, memory: Any, rank: int) -> NDArray[Any]:
        """Return the memory of a rank as an array."""
        extents, dtype = self.layout.extents(rank), self.layout.dtype
        n = math.prod(extents)
        if not n:
            return np.empty(extents, dtype)
        return np.frombuffer(memory, dtype, n).reshape(extents)

    @cached_property
    def number(self) -> Any:
        """MPI's type of elements, by which they are added; see `number_of`."""
        return number_of(self.layout.dtype)

    def sync(self) -> None:
        """Show all ranks what all have written; collective."""
        self.publish()
        self._comm.Barrier()
        self.refresh()

    def publish(self) -> None:
        """Publish what this rank has written to those that `refresh` after a barrier."""
        self.rma.Flush_all()
        self.rma.Sync()

    def refresh(self) -> None:
        """Take up what others had published before a barrier."""
        self.rma.Sync()

    def free(self) -> None:
        """Give the memory back; collective.  Arrays that showed it must not be used any more."""
        self.near = {}
        self.rma.Unlock_all()
        self.rma.Free()


def _host_of(comm: Any, nbytes: int) -> tuple[list[int], int]:
    """Return the ranks on this host, and the bytes that all of them need; collective."""
    MPI = library()
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    together = host.allreduce(nbytes)
    ours, all_ranks = host.Get_group(), comm.Get_group()
    ranks = list(ours.Translate_ranks(None, all_ranks))
    for made in (ours, all_ranks, host):
        made.Free()
    return ranks, together


def _check_shared_memory(nbytes: int) -> None:
    """Raise where windows of a host would not fit: they would be given, and fail when touched."""
    try:
        found = os.statvfs(_SHARED_MEMORY)
    except OSError:  # not on this system
        return
    free = found.f_bavail * found.f_frsize
    if nbytes > free:
        raise ReserveError(
            f"global arrays need {nbytes} more bytes in {_SHARED_MEMORY} on this host, which has "
            f"{free} left; enlarge it (containers: --shm-size), or use more hosts"
        )


# A request of a transfer that is over, and gives nothing.
_OVER = WindowRequest([], None)

# Kinds of dtypes that MPI may have a type for.
_NUMBERS = "iufc"
# Half floats: where MPI has a type for them, it may add their bits as those of integers.
_UNTRUSTED = "e"


def get(
    window: Window,
    patches: Iterable[Patch],
    values: NDArray[Any],
    result: Callable[[], NDArray[Any]],
    testable: bool = False,
) -> WindowRequest:
    """Begin to read patches to an array; the request gives the result in the end.

    If `testable`, `test` will tell of the request; if not, it is waited for.
    """
    far, staged = [], []
    for patch in patches:
        near = window.near.get(patch.rank)
        if near is not None:
            values[patch.local] = near[patch.remote]
            continue
        part = values[patch.local]
        is_view = isinstance(patch.local, tuple) and part.dtype == window.layout.dtype
        if not (is_view and part.flags.c_contiguous):
            part = np.empty(part.shape, window.layout.dtype)
            staged.append((patch.local, part))
        far.append((patch, part))
    requests = _start_all(window.rma.Rget if testable else window.rma.Get, window, far)

    def finish() -> NDArray[Any]:
        if not testable:
            _flush(window, far)
        for local, part in staged:
            values[local] = part
        return result()

    return WindowRequest(requests, finish)


def put(
    window: Window, patches: Iterable[Patch], values: NDArray[Any], testable: bool = False
) -> WindowRequest:
    """Write patches, from an array of the window's dtype; if `testable`, begin to."""
    far = []
    for patch in patches:
        near = window.near.get(patch.rank)
        if near is None:
            far.append((patch, values[patch.local]))
        else:
            near[patch.remote] = values[patch.local]
    return _send(window.rma.Rput if testable else window.rma.Put, window, far, testable)


def accumulate(
    window: Window, patches: Iterable[Patch], values: NDArray[Any], testable: bool = False
) -> WindowRequest:
    """Add to patches; each addition to an element is one step for all; if `testable`, begin to."""
    call = window.rma.Raccumulate if testable else window.rma.Accumulate
    parts = [(patch, values[patch.local]) for patch in patches]
    return _send(call, window, parts, testable, window.number)


def add(window: Window, patch: Patch, values: NDArray[Any]) -> None:
    """Do `accumulate` for one patch, of values in C order."""
    _start(window.rma.Accumulate, window, patch, values, window.number)
    window.rma.Flush(patch.rank)


def _send(
    call: Callable[..., Any],
    window: Window,
    parts: list[tuple[Patch, NDArray[Any]]],
    testable: bool,
    number: Any = None,
) -> WindowRequest:
    """Let MPI move parts to where they belong; what is not testable is over at once."""
    parts = [
        each if each[1].flags.c_contiguous else (each[0], np.ascontiguousarray(each[1]))
        for each in parts
    ]
    if not testable:
        for patch, part in parts:
            _start(call, window, patch, part, number)
        _flush(window, parts)
        return _OVER
    requests = _start_all(call, window, parts, number)
    return WindowRequest(requests, lambda: _flush(window, parts))


def fetch_and_add(window: Window, patch: Patch, added: NDArray[Any]) -> NDArray[Any]:
    """Add to one element, and return its old value: one step for all ranks."""
    number = window.number
    old = np.empty((), window.layout.dtype)
    place = window.layout.runs(patch).place
    origin, result = [added, 1, number], [old, 1, number]
    window.rma.Fetch_and_op(origin, result, patch.rank, place, library().SUM)
    window.rma.Flush(patch.rank)
    return old


@cache
def number_of(dtype: np.dtype[Any]) -> Any:
    """Return MPI's type of elements; raise a DTypeError where there is none that it can add."""
    MPI = library()
    found = MPI.DATATYPE_NULL
    if dtype.kind in _NUMBERS and dtype.isnative and dtype.char not in _UNTRUSTED:
        with contextlib.suppress(ValueError):
            found = MPI.Datatype.fromcode(dtype.char)
    if found == MPI.DATATYPE_NULL:
        raise DTypeError(
            f"MPI cannot add elements of {dtype}; use native integers, complex numbers, or floats "
            "of at least 4 bytes"
        )
    return found


@cache
def _words_of(itemsize: int) -> tuple[Any, int]:
    """Return the largest words that elements consist of, as MPI's type, and how many.

    Types of bytes take twice as long.
    """
    MPI = library()
    nbytes = math.gcd(itemsize, 8)
    words = {8: MPI.INT64_T, 4: MPI.INT32_T, 2: MPI.INT16_T, 1: MPI.BYTE}
    return words[nbytes], itemsize // nbytes


def _start_all(
    call: Callable[..., Any],
    window: Window,
    parts: list[tuple[Patch, NDArray[Any]]],
    number: Any = None,
) -> list[Any]:
    """Let MPI begin to move parts, each in one run; return its requests, if the call has any.

    `number` is the type of the elements; None: they are moved as they are.
    """
    begun = [_start(call, window, patch, part, number) for patch, part in parts]
    return [request for request in begun if request is not None]


def _start(
    call: Callable[..., Any], window: Window, patch: Patch, part: NDArray[Any], number: Any
) -> Any:
    is_number = number is not None
    way = patch.ways.get(is_number)
    if way is None:
        way = patch.ways[is_number] = _way(window.layout, patch, part.size, number)
    return call([part, way.size, way.base], patch.rank, way.target)


class _Way(NamedTuple):
    """The types, counts and place by which MPI is told of a patch.

    Attributes
    ----------
    base : MPI.Datatype
        Of the values.
    size : int
        How many of those the values are.
    target : tuple
        Place, count, and type in the memory of the rank.
    kept : _Committed or None
        What that type lives in.
    """

    base: Any
    size: int
    target: tuple[int, int, Any]
    kept: _Committed | None


def _way(layout: ZoneLayout, patch: Patch, size: int, number: Any) -> _Way:
    """Return how a patch of so many elements is told to MPI, as `_start_all` is."""
    base, unit = _words_of(layout.dtype.itemsize) if number is None else (number, 1)
    if isinstance(patch.local, tuple):
        place, length, loops = layout.runs(patch)
        if not loops:
            return _Way(base, size * unit, (place, length * unit, base), None)
        kept = _strided(layout.dtype, number is not None, length * unit, tuple(loops))
    else:
        place = 0
        kept = _Committed([base.Create_hindexed_block(unit, layout.displacements(patch))])
    return _Way(base, size * unit, (place, 1, kept.datatype), kept)


class _Committed:
    """A type of MPI that can be used, until this object goes: MPI keeps what it needs longer.

    It is the last of those `made`, each of which consists of the one before.
    """

    __slots__ = ("_is_finalized", "datatype")

    def __init__(self, made: list[Any]) -> None:
        self._is_finalized = library().Is_finalized
        *parts, self.datatype = made
        self.datatype.Commit()
        for part in parts:
            part.Free()

    def __del__(self) -> None:
        if not self._is_finalized():
            self.datatype.Free()


# To make one takes longer than to move some kilobytes, and patches of one form are many.
@lru_cache(maxsize=256)
def _strided(
    dtype: np.dtype[Any], is_number: bool, length: int, loops: tuple[tuple[int, int], ...]
) -> _Committed:
    """Return the type of runs of so many words, or numbers, in loops as of `Runs`."""
    base = number_of(dtype) if is_number else _words_of(dtype.itemsize)[0]
    made = [base.Create_hvector(loops[-1][0], length, loops[-1][1])]
    for n, distance in reversed(loops[:-1]):
        made.append(made[-1].Create_hvector(n, 1, distance))
    return _Committed(made)


def _flush(window: Window, parts: list[tuple[Patch, NDArray[Any]]]) -> None:
    """Wait until parts have arrived, which have to live until then."""
    if len(parts) == 1:
        window.rma.Flush(parts[0][0].rank)
        return
    for rank in {patch.rank for patch, _ in parts}:
        window.rma.Flush(rank)
