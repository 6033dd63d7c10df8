"""Windows: memory of all ranks, which each rank reads and writes alone.

Ranks of one host share memory: NumPy copies to and from it directly.  The memory of other hosts
goes through MPI, as an MPI type for the runs of a patch and one contiguous run of values.  So does
every addition, which has to be atomic.

Only testable transfers have MPI requests.  The others flush the window: that takes one message to
and fro, and waiting for a request first would take another.
"""

from __future__ import annotations

import contextlib
import math
import sys
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.errors import DTypeError, ReserveError
from extarray.common.system import SHARED_MEMORY, free_bytes
from extarray.mpi.requests import WindowRequest
from extarray.mpi.runtime import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from extarray.mpi.patches import Patch, ZoneLayout
    from extarray.mpi.runtime import Agreement


__all__ = ["Window", "accumulate", "add", "fetch_and_add", "get", "number_of", "put"]


class Window:
    """The memory of a global array, on all ranks; creating and freeing it are collective.

    `rma` is the MPI window, with displacements in bytes.  `near` maps ranks to the memory that this
    rank copies to and from directly: its own, and if available that of other ranks of its host.
    Elements are zeros at first.
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
        # The ranks' parts need not be contiguous: each gets whole pages near its processor.
        info = MPI.Info.Create({"alloc_shared_noncontig": "true"})
        allocate = MPI.Win.Allocate if step.numbers[0] else MPI.Win.Allocate_shared
        self.rma = allocate(nbytes, 1, info, comm)
        info.Free()
        self.own = self._seen(self.rma.tomemory(), comm.rank)
        self.near = {comm.rank: self.own}
        # Memory from Allocate may be shared or not; before MPI 4.1 only trying tells.
        with contextlib.suppress(MPI.Exception):
            for rank in neighbours:
                memory, _ = self.rma.Shared_query(rank)
                if rank != comm.rank and memory.nbytes:
                    self.near[rank] = self._seen(memory, rank)
        # One epoch for the life of the window: locking in each call would cost more than the call.
        self.rma.Lock_all()
        self.own[...] = np.zeros((), layout.dtype)
        self._references = self._count_references()
        self.sync()

    def _seen(self, memory: Any, rank: int) -> NDArray[Any]:
        """Return a rank's memory as an array."""
        extents, dtype = self.layout.extents(rank), self.layout.dtype
        n = math.prod(extents)
        if not n:
            return np.empty(extents, dtype)
        return np.frombuffer(memory, dtype, n).reshape(extents)

    @cached_property
    def number(self) -> Any:
        """MPI's type of elements for additions; see `number_of`."""
        return number_of(self.layout.dtype)

    def sync(self) -> None:
        """Show all ranks what all have written; collective."""
        self.publish()
        self._comm.Barrier()
        self.refresh()

    def publish(self) -> None:
        """Publish what this rank has written to ranks that `refresh` after a barrier."""
        self.rma.Flush_all()
        self.rma.Sync()

    def refresh(self) -> None:
        """See what other ranks published before a barrier."""
        self.rma.Sync()

    @property
    def is_seen(self) -> bool:
        """True if arrays besides `own` and `near` show this rank's memory."""
        return self._count_references() > self._references

    def _count_references(self) -> int:
        # NumPy makes the first array on the memory the base of all arrays that show parts of it.
        first = self.own.base
        return 0 if first is None else sys.getrefcount(first)  # None: no elements

    def free(self) -> None:
        """Free the memory; collective.  Arrays that show it must not be used any more."""
        self.near = {}
        self.rma.Unlock_all()
        self.rma.Free()


def _host_of(comm: Any, nbytes: int) -> tuple[list[int], int]:
    """Return the ranks on this host, and the bytes that they need in total; collective."""
    MPI = library()
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    together = host.allreduce(nbytes)
    ours, all_ranks = host.Get_group(), comm.Get_group()
    ranks = list(ours.Translate_ranks(None, all_ranks))
    for made in (ours, all_ranks, host):
        made.Free()
    return ranks, together


def _check_shared_memory(nbytes: int) -> None:
    """Raise if windows do not fit on a host: MPI would allocate them, and touching fail."""
    try:
        free = free_bytes(SHARED_MEMORY)
    except OSError:  # this system has no such folder
        return
    if nbytes > free:
        raise ReserveError(
            f"global arrays need {nbytes} more bytes in {SHARED_MEMORY} on this host, which has "
            f"{free} left; enlarge it (containers: --shm-size), or use more hosts"
        )


# The request of a finished transfer without a result.
_OVER = WindowRequest([], None)

# Kinds of dtypes for which MPI may have a type.
_NUMBERS = "iufc"
# Half floats: an MPI that has a type for them may add their bits as integers.
_UNTRUSTED = "e"


def get(
    window: Window,
    patches: Iterable[Patch],
    values: NDArray[Any],
    result: Callable[[], NDArray[Any]],
    testable: bool = False,
) -> WindowRequest:
    """Begin to read patches into an array; the request returns ``result()`` in the end.

    If `testable`, `test` reports the progress of the request; otherwise only wait for it.
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
    """Write patches from an array of the window's dtype; if `testable`, only begin to."""
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
    """Add to patches, atomically for each element; if `testable`, only begin to."""
    call = window.rma.Raccumulate if testable else window.rma.Accumulate
    parts = [(patch, values[patch.local]) for patch in patches]
    return _send(call, window, parts, testable, window.number)


def add(window: Window, patch: Patch, values: NDArray[Any]) -> None:
    """Accumulate one patch, from values in C order."""
    _start(window.rma.Accumulate, window, patch, values, window.number)
    window.rma.Flush(patch.rank)


def _send(
    call: Callable[..., Any],
    window: Window,
    parts: list[tuple[Patch, NDArray[Any]]],
    testable: bool,
    number: Any = None,
) -> WindowRequest:
    """Let MPI move parts to their ranks; wait for them unless `testable`."""
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
    """Add to one element and return its old value, atomically among all ranks."""
    number = window.number
    old = np.empty((), window.layout.dtype)
    place = window.layout.runs(patch).place
    origin, result = [added, 1, number], [old, 1, number]
    window.rma.Fetch_and_op(origin, result, patch.rank, place, library().SUM)
    window.rma.Flush(patch.rank)
    return old


@cache
def number_of(dtype: np.dtype[Any]) -> Any:
    """Return MPI's type of elements; raise a DTypeError if MPI has none that it can add."""
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
    """Return the largest words that elements consist of, as MPI's type, and their number.

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
    """Begin to move parts, each in one run, and return MPI's requests, if the call makes any.

    `number` is the type of the elements; None: they are moved as plain words.
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
    """The MPI types, counts and displacement that describe a patch.

    Attributes
    ----------
    base : MPI.Datatype
        Type of the values.
    size : int
        Number of values in units of `base`.
    target : tuple
        Displacement, count, and type in the memory of the rank.
    kept : _Committed or None
        Keeps the type of `target` alive.
    """

    base: Any
    size: int
    target: tuple[int, int, Any]
    kept: _Committed | None


def _way(layout: ZoneLayout, patch: Patch, size: int, number: Any) -> _Way:
    """Return how MPI sees a patch of `size` elements; `number` is as in `_start_all`."""
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
    """A committed MPI type, freed with this object: MPI keeps it for transfers under way.

    It is the last of `made`, each of which is built from the one before.
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


# Making a type takes longer than moving some kilobytes, and many patches have the same form.
@lru_cache(maxsize=256)
def _strided(
    dtype: np.dtype[Any], is_number: bool, length: int, loops: tuple[tuple[int, int], ...]
) -> _Committed:
    """Return the type of runs of `length` words, or numbers, in the loops of `Runs`."""
    base = number_of(dtype) if is_number else _words_of(dtype.itemsize)[0]
    made = [base.Create_hvector(loops[-1][0], length, loops[-1][1])]
    for n, distance in reversed(loops[:-1]):
        made.append(made[-1].Create_hvector(n, 1, distance))
    return _Committed(made)


def _flush(window: Window, parts: list[tuple[Patch, NDArray[Any]]]) -> None:
    """Wait until parts have arrived; they have to live until then."""
    if len(parts) == 1:
        window.rma.Flush(parts[0][0].rank)
        return
    for rank in {patch.rank for patch, _ in parts}:
        window.rma.Flush(rank)
