"""Reads of an array: a sample of selections, from which chunk shapes are advised."""

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
    """An array that tells a log what is read of it."""

    def _check(self) -> None: ...
    def _listen(self, log: Any) -> Any: ...


#: Selections that are kept.  More would not change an advice.
_SAMPLE = 4096


class AccessLog:
    """A sample of what was read: made by `ExtArray.record_access`.

    Attributes
    ----------
    count : int
        Selections that were read, also those that are not in the sample.

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
        """Take a lock that no other thread holds."""
        self._noting = threading.Lock()

    @property
    def access(self) -> list[tuple[tuple[int, ...], int]]:
        """Extents of requests and how often they were made, the most frequent first.

        An `extarray.advise_chunks` takes them, or the log itself.
        """
        total: Counter[tuple[int, ...]] = Counter()
        for extents, weight in self._sample:
            total[extents] += weight
        return total.most_common()

    def __repr__(self) -> str:
        return f"<extarray.AccessLog: {self.count} selections, {len(self.access)} kinds>"

    # Called while reading.

    def note(self, extents: tuple[int, ...], weight: int = 1) -> None:
        """Note a request by its elements along each axis, from the first to the last.

        Its weight is the number of such requests that it stands for.
        """
        with self._noting:
            self.count += 1
            if len(self._sample) < _SAMPLE:
                self._sample.append((extents, weight))
                return
            # Each of all selections stays with the same probability.
            place = self._random.randrange(self.count)
            if place < _SAMPLE:
                self._sample[place] = (extents, weight)

    def note_query(self, query: Any, shape: tuple[int, ...]) -> None:
        """Note a request by masks or arrays of indices: as many single points."""
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
    """The logs of all blocks that an array is in, of any thread: each is told."""

    __slots__ = ()

    def note(self, extents: tuple[int, ...]) -> None:
        for log in self:
            log.note(extents)

    def note_query(self, query: Any, shape: tuple[int, ...]) -> None:
        for log in self:
            log.note_query(query, shape)


#: Blocks of several threads begin and end one at a time.
_turn = threading.Lock()


@contextlib.contextmanager
def record_access(array: Readable) -> Iterator[AccessLog]:
    """Sample what is read of an array in a block; see `ExtArray.record_access`."""
    array._check()
    log = AccessLog()
    with _turn:
        array._listen(_Logs((*(array._listen(None) or ()), log)))
    try:
        yield log
    finally:
        with _turn:
            array._listen(_Logs(o for o in array._listen(None) if o is not log) or None)
