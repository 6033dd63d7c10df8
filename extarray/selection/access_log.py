"""Recorded reads of an array: a sample of selections, from which chunk shapes are advised."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from extarray.common.forks import in_children
from extarray.common.lazy import LazyImports
from extarray.selection.factors import Progression

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["AccessLog", "Readable", "record_access"]

_later = LazyImports({"random": "Random"})


class Readable(Protocol):
    """An array that reports its reads to a log."""

    def _check(self) -> None: ...
    def _listen(self, log: Any) -> Any: ...


#: Selections to keep.  More would not change the advice.
_SAMPLE = 4096


class AccessLog:
    """A sample of reads, made by `ExtArray.record_access`.

    Attributes
    ----------
    count : int
        Number of selections read, including those that the sample lacks.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.zeros((100, 20))
    >>> with a.record_access() as log:
    ...     for i in range(3):
    ...         row = a[i]
    >>> log.access, log.count
    ([((1, 20), 3)], 3)
    """

    def __init__(self) -> None:
        self.count = 0
        self._sample: list[tuple[tuple[int, ...], int]] = []
        self._random = _later.Random(0)
        self._renew_lock()
        in_children(self, AccessLog._renew_lock)

    def _renew_lock(self) -> None:
        """Make a new lock: a child process could inherit a locked one."""
        self._noting = threading.Lock()

    @property
    def access(self) -> list[tuple[tuple[int, ...], int]]:
        """Extents of requests and their numbers, the most frequent first, for `advise_chunks`."""
        total: Counter[tuple[int, ...]] = Counter()
        for extents, weight in self._sample:
            total[extents] += weight
        return total.most_common()

    def __repr__(self) -> str:
        return f"<extarray.AccessLog: {self.count} selections, {len(self.access)} kinds>"

    # Called by reads.

    def note(self, extents: tuple[int, ...], weight: int = 1) -> None:
        """Note a request that spans `extents` elements, for `weight` such requests."""
        with self._noting:
            self.count += 1
            if len(self._sample) < _SAMPLE:
                self._sample.append((extents, weight))
                return
            # Reservoir sampling: every selection stays with the same probability.
            place = self._random.randrange(self.count)
            if place < _SAMPLE:
                self._sample[place] = (extents, weight)

    def note_query(self, query: Any, shape: tuple[int, ...]) -> None:
        """Note a request by masks or arrays of indices as that many single points."""
        extents = list(shape)
        weight = 1
        for factor in query.factors:
            if isinstance(factor, Progression):
                extents[factor.axis] = (factor.count - 1) * abs(factor.step) + 1
                continue
            for axis in factor.axes:
                extents[axis] = 1
            weight *= factor.count
        if weight and 0 not in extents:
            self.note(tuple(extents), weight)


class _Logs(tuple[AccessLog, ...]):
    """The logs of all blocks, on any thread, that record an array; `note` logs a read in each."""

    __slots__ = ()

    def note(self, extents: tuple[int, ...]) -> None:
        for log in self:
            log.note(extents)

    def note_query(self, query: Any, shape: tuple[int, ...]) -> None:
        for log in self:
            log.note_query(query, shape)


#: Blocks on several threads begin and end one at a time.
_turn = threading.Lock()


@contextlib.contextmanager
def record_access(array: Readable) -> Iterator[AccessLog]:
    """Sample the reads of an array in a block; see `ExtArray.record_access`."""
    array._check()
    log = AccessLog()
    with _turn:
        array._listen(_Logs((*(array._listen(None) or ()), log)))
    try:
        yield log
    finally:
        with _turn:
            array._listen(_Logs(o for o in array._listen(None) if o is not log) or None)
