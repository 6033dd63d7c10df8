"""Objects as they were when they were opened, and reading of many ranges at once."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import random
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from extarray.common.config import config
from extarray.common.errors import (
    AccessError,
    BoundsError,
    MissingError,
    RemoteError,
    ReplacedError,
    StorageError,
)
from extarray.common.limits import limits
from extarray.common.system import after_fork_in_child
from extarray.remote.answers import Answer, Failure, Request
from extarray.remote.background import Gate, submit
from extarray.remote.locations import Location
from extarray.remote.ranges import Planned, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from typing import Self

__all__ = ["Counts", "Location", "Reading", "RemoteObject", "pause_of"]

_T = TypeVar("_T")

_log = logging.getLogger("extarray.remote")

# Most bytes that are read beyond those wanted, where the caller does not say: whole chunks for
# an element, a box or everything.
_WASTE = 1.3

_gate = Gate()


def _renew() -> None:
    """Forget the requests of the parent process."""
    global _gate
    _gate = Gate()


after_fork_in_child(_renew)


@dataclass(slots=True)
class Counts:
    """Requests made for an object so far, attempts that failed among them, and bytes received."""

    requests: int = 0
    retries: int = 0
    bytes: int = 0


class RemoteObject:
    """One object as it was when it was opened; each later read fails if it was replaced.

    Made by `read_head` and `read_tail`.  Safe to use in several threads.

    Attributes
    ----------
    location : Location
    size : int
    tag : str or None
        ETag, or else the time of the last change, or None if the server tells neither; then only
        another size shows that the object was replaced.
    modified : float
        Seconds since 1970 at which the object was changed last; 0 if the server does not tell.
    tail : bytes
        The last bytes, which came when the object was opened, and are not asked for again.
    counts : Counts
        Of this object, and of those that `refreshed` made from it.
    """

    __slots__ = ("_asked", "counts", "location", "modified", "size", "tag", "tail")

    def __init__(
        self,
        location: Location,
        size: int,
        tag: str | None,
        tail: bytes = b"",
        asked: int = 0,
        counts: Counts | None = None,
        modified: float = 0.0,
    ) -> None:
        self.location = location
        self.size = size
        self.tag = tag
        self.modified = modified
        self.tail = tail
        self._asked = asked
        self.counts = Counts() if counts is None else counts

    @classmethod
    def read_head(
        cls, location: Location, size: int, counts: Counts | None = None
    ) -> tuple[RemoteObject, bytes]:
        """Open an object by one request, for its first bytes; otherwise as `read_tail`.

        The object has no `tail`, unless these bytes are all of it.
        """
        counts = Counts() if counts is None else counts
        answer = _wait(_open_at_start(location, size, counts))
        head = bytes(answer.data)
        tail = head if len(head) == answer.size else b""
        found = cls(location, answer.size, answer.tag, tail, 0, counts, answer.modified)
        return found, head

    def any_version(self) -> RemoteObject:
        """Return the object as whatever version there is at the time of each read."""
        return _AnyVersion(self.location, self.size, None, counts=self.counts)

    @classmethod
    def read_tail(
        cls, location: Location, size: int, counts: Counts | None = None
    ) -> tuple[RemoteObject, bytes]:
        """Open an object by one request, for its last bytes.

        Parameters
        ----------
        location : Location
        size : int
            Most bytes to read; of a smaller object all of it.
        counts : Counts, optional
            What counts the requests; by default a new one.

        Returns
        -------
        object : RemoteObject
        tail : bytes

        Raises
        ------
        MissingError, AccessError, RemoteError
        """
        counts = Counts() if counts is None else counts
        answer = _wait(_open(location, size, None, counts))
        return cls._of(location, answer, size, counts)

    @classmethod
    def _of(
        cls, location: Location, answer: Answer, asked: int, counts: Counts
    ) -> tuple[RemoteObject, bytes]:
        tail = bytes(answer.data)
        found = cls(location, answer.size, answer.tag, tail, asked, counts, answer.modified)
        return found, tail

    def __repr__(self) -> str:
        return f"<RemoteObject {self.location.url}, {self.size} bytes, tag {self.tag}>"

    def __reduce__(self) -> tuple[Callable[..., RemoteObject], tuple[Any, ...]]:
        place = self.location, self.size, self.tag, self.tail, self._asked
        return RemoteObject, (*place, None, self.modified)

    def refreshed(self) -> RemoteObject | None:
        """Return the object as it is now, or None if it is still the same; one request.

        The new object's `tail` has as many bytes as were asked for when this one was opened.
        """
        asked = self._asked or 1
        try:
            answer = _wait(_open(self.location, asked, self.tag, self.counts))
        except _Unmodified:
            return None
        if (answer.tag, answer.size) == (self.tag, self.size) and (
            self.tag is not None or answer.data == self.tail
        ):
            return None
        return RemoteObject._of(self.location, answer, asked, self.counts)[0]

    def read(self, offset: int, size: int) -> memoryview:
        """Read bytes: exactly as many as asked for.

        Parameters
        ----------
        offset, size : int

        Returns
        -------
        memoryview

        Raises
        ------
        BoundsError
            The object has fewer bytes.
        ReplacedError
            It is another object by now, or there is none any more.
        AccessError, RemoteError
        """
        return self.read_ranges([offset], [size])[0]

    def read_ranges(
        self, offsets: Sequence[int], sizes: Sequence[int], *, waste: float = _WASTE
    ) -> list[memoryview]:
        """Read many ranges of bytes in few requests, at the same time.

        Parameters
        ----------
        offsets, sizes : sequences of int
            Of each range, in any order.
        waste : float
            Gaps between ranges are read where that saves requests, as long as all bytes read are
            at most this many times the bytes wanted.

        Returns
        -------
        list of memoryview
            In the order of `offsets`.

        Raises
        ------
        BoundsError, ReplacedError, AccessError, RemoteError
            As for `read`.
        """
        return self.start(offsets, sizes, waste=waste).result()

    def start(
        self,
        offsets: Sequence[int],
        sizes: Sequence[int],
        *,
        waste: float = _WASTE,
    ) -> Reading:
        """Begin to read ranges of bytes, and return at once.

        Parameters
        ----------
        offsets, sizes, waste
            As for `read_ranges`.

        Returns
        -------
        Reading
            Its `arrivals` yields ranges as they come; its `result` waits for all of them.
        """
        ready, requests = self._planned(offsets, sizes, waste)
        arrived = _Arrived(ready, sizes)
        future = submit(self._fetch(requests, arrived.put)) if requests else None
        return Reading(arrived, len(sizes), future)

    def _planned(
        self,
        offsets: Sequence[int],
        sizes: Sequence[int],
        waste: float,
    ) -> tuple[list[tuple[int, memoryview]], list[Planned]]:
        """Return the ranges that are here, by index, and requests for the others."""
        begin = [int(n) for n in offsets]
        length = [int(n) for n in sizes]
        here = self.size - len(self.tail)
        ready, away = [], []
        view = memoryview(self.tail)
        for index, (offset, size) in enumerate(zip(begin, length, strict=True)):
            if not 0 <= offset <= offset + size <= self.size:
                raise BoundsError(
                    f"bytes {offset} to {offset + size} of {self.location.url}, which has "
                    f"{self.size}"
                )
            if size == 0:
                ready.append((index, view[:0]))
            elif offset >= here:
                ready.append((index, view[offset - here : offset - here + size]))
            else:
                away.append(index)
        requests = plan(
            [begin[i] for i in away],
            [length[i] for i in away],
            self.location.policy.coalesce,
            waste,
        )
        return ready, [
            p._replace(parts=[part._replace(number=away[part.number]) for part in p.parts])
            for p in requests
        ]

    async def _fetch(
        self, requests: list[Planned], arrive: Callable[[Planned, memoryview], object]
    ) -> None:
        """Make requests at the same time."""
        memory = min(config.max_memory, 1 << 62)
        coming = iter(requests)
        is_first = True

        async def work() -> None:
            nonlocal is_first
            for planned in coming:
                size = planned.stop - planned.start
                first, is_first = is_first, False
                await _gate.enter(size, self.location.policy.concurrency, memory, first)
                try:
                    answer = await self._get(planned.start, planned.stop)
                    arrive(planned, memoryview(answer.data).toreadonly())
                finally:
                    _gate.leave(size)

        async with _TaskGroup() as group:
            for _ in range(min(len(requests), self.location.policy.concurrency)):
                group.create_task(work())

    async def _get(self, start: int, stop: int) -> Answer:
        """Read one range of the object that was opened."""
        request = Request(
            self.location.path,
            start,
            stop,
            match=self.tag,
            timeout=self.location.policy.timeout,
        )
        answer = await _attempts(self.location, request, self.counts, is_open=True)
        if answer.size != self.size or (
            self.tag is not None and answer.tag is not None and answer.tag != self.tag
        ):
            raise _replaced(self.location)
        return answer


class _AnyVersion(RemoteObject):
    """An object whose versions are not told apart."""

    __slots__ = ()

    async def _get(self, start: int, stop: int) -> Answer:
        request = Request(self.location.path, start, stop, timeout=self.location.policy.timeout)
        return await _attempts(self.location, request, self.counts, is_open=True)


class Reading:
    """Ranges of bytes on their way.  Several threads may wait for different ones."""

    def __init__(self, arrived: _Arrived, count: int, future: Future[None] | None) -> None:
        self._arrived = arrived
        self._count = count
        self._future = future
        if future is not None:
            future.add_done_callback(arrived.end)

    def cancel(self) -> None:
        """End the requests; what has not come never will."""
        if self._future is not None:
            self._future.cancel()

    def __del__(self) -> None:
        self.cancel()

    def arrivals(self, wanted: Iterable[int]) -> Iterator[list[tuple[int, memoryview]]]:
        """Yield ranges, by number, as soon as they have come; each range comes once.

        An interrupt ends the requests.

        Raises
        ------
        ReplacedError, AccessError, RemoteError
        CancelledError
            The requests were ended before all of `wanted` had come, or another call has taken some.
        """
        left = set(wanted)
        try:
            while left:
                found = self._arrived.take(left)
                if not found:
                    if self._future is not None:
                        self._future.result()
                    raise CancelledError("these ranges have been taken already")
                left.difference_update(number for number, _ in found)
                yield found
        except BaseException:
            self.cancel()
            raise

    def result(self) -> list[memoryview]:
        """Wait for all ranges, and return them in their order; call this once."""
        found = dict(itertools.chain.from_iterable(self.arrivals(range(self._count))))
        return [found[number] for number in range(self._count)]


class _Arrived:
    """Ranges that have come, and those who wait for others."""

    def __init__(self, ready: list[tuple[int, memoryview]], sizes: Sequence[int]) -> None:
        self._ready = dict(ready)
        self._pending = _Pending(sizes)
        self._answers: list[tuple[Planned, memoryview]] = []
        self._changed = threading.Condition()
        self._is_over = False

    def put(self, planned: Planned, data: memoryview) -> None:
        """Take the answer to a request; called in the event loop."""
        with self._changed:
            self._answers.append((planned, data))
            self._changed.notify_all()

    def end(self, _: object) -> None:
        """Note that no more answers come."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def take(self, wanted: set[int]) -> list[tuple[int, memoryview]]:
        """Wait for any of some ranges; return those that have come, none if none ever will."""
        with self._changed:
            while True:
                while self._answers:
                    self._ready.update(self._pending.take(*self._answers.pop()))
                found = wanted & self._ready.keys()
                if found or self._is_over:
                    return [(number, self._ready.pop(number)) for number in sorted(found)]
                self._changed.wait()


class _Pending:
    """Joins ranges that came in several requests."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = [int(n) for n in sizes]
        self._parts: dict[int, tuple[bytearray, int]] = {}

    def take(self, planned: Planned, data: memoryview) -> list[tuple[int, memoryview]]:
        """Return the ranges that are whole with the bytes of another request."""
        whole = []
        for index, offset, size, at in planned.parts:
            part = data[offset : offset + size]
            if size == self._sizes[index]:
                whole.append((index, part))
                continue
            if index not in self._parts:
                self._parts[index] = bytearray(self._sizes[index]), 0
            buffer, here = self._parts.pop(index)
            buffer[at : at + size] = part
            if here + size == len(buffer):
                whole.append((index, memoryview(buffer).toreadonly()))
            else:
                self._parts[index] = buffer, here + size
        return whole


# -- waiting -------------------------------------------------------------------------------------


def _wait(work: Coroutine[Any, Any, Answer]) -> Answer:
    return _result(submit(work))


def _result(future: Future[_T]) -> _T:
    """Wait for a future of the background, and cancel it if this thread is interrupted."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class _TaskGroup:
    """Tasks that end together; the first error is raised as it is, not in a group."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def create_task(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in self._tasks:
                task.cancel()
            # None of their errors is left unread.
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for task in done:
            task.result()


# -- attempts ------------------------------------------------------------------------------------


class _Unmodified(Exception):  # noqa: N818 -- an answer
    """The object is as it was."""


async def _open(location: Location, size: int, none_match: str | None, counts: Counts) -> Answer:
    """Ask for the last bytes of an object, in another way if the server cannot count from there."""
    path, timeout = location.path, location.policy.timeout
    suffix = Request(path, -size, none_match=none_match, timeout=timeout)
    try:
        return await _attempts(location, suffix, counts, only_once={"whole", "416"})
    except _NoSuffix:
        pass
    # Azure, and some web servers, know no suffixes.  The first byte tells the size; a presigned
    # URL would not allow HEAD.
    first = Request(path, 0, 1, none_match=none_match, timeout=timeout)
    try:
        found = await _attempts(location, first, counts, only_once={"416"})
    except _NoSuffix:  # there is no first byte
        return Answer(b"", 0, 0, None)
    start = max(0, found.size - size)
    rest = Request(path, start, found.size, match=found.tag, timeout=timeout)
    answer = await _attempts(location, rest, counts)
    if answer.size != found.size:
        raise _replaced(location)
    return answer


async def _open_at_start(location: Location, size: int, counts: Counts) -> Answer:
    """Ask for the first bytes of an object."""
    first = Request(location.path, 0, size, timeout=location.policy.timeout)
    try:
        return await _attempts(location, first, counts, only_once={"416"})
    except _NoSuffix:  # there is no first byte
        return Answer(b"", 0, 0, None)


class _NoSuffix(Exception):  # noqa: N818 -- a reason to ask in another way
    """The server does not answer requests of this kind."""


async def _attempts(
    location: Location,
    request: Request,
    counts: Counts,
    is_open: bool = False,
    only_once: frozenset[str] | set[str] = frozenset(),
) -> Answer:
    """Make a request until it succeeds, or until the failure is final."""
    policy = location.policy
    attempt = 0
    while True:
        attempt += 1
        counts.requests += 1
        began = time.monotonic()
        failure = None
        try:
            answer = await location.backend().get(request)
        except Failure as error:
            failure = error
        took = time.monotonic() - began
        if failure is None:
            counts.bytes += len(answer.data)
            _log.debug(
                "%s: %d bytes from %d of %d, in %.3f s",
                location.url,
                len(answer.data),
                answer.start,
                answer.size,
                took,
            )
            return answer
        _log.debug("%s: %s: %s, after %.3f s", location.url, _span(request), failure.reason, took)
        if failure.kind == "unmodified":
            raise _Unmodified
        if failure.kind in only_once or ("416" in only_once and "416" in failure.reason):
            raise _NoSuffix
        retries = policy.retries if failure.kind in {"again", "busy", "whole"} else 0
        if failure.kind == "whole" and not is_open:  # it has sent no range yet, and hardly will
            retries = min(1, retries)
        if attempt > retries:
            raise _error(location, request, failure, attempt, is_open)
        counts.retries += 1
        await asyncio.sleep(pause_of(failure, attempt))


def pause_of(failure: Failure, attempt: int) -> float:
    """Return the seconds before the next attempt: more each time, and of each client others."""
    is_busy = failure.kind == "busy"
    pause = limits.remote_pause_if_busy if is_busy else limits.remote_pause
    pause *= 2.0 ** (attempt - 1)
    if failure.after is not None:
        pause = max(pause, failure.after)
    # Clients that failed together do not come back together.
    return min(pause, limits.remote_pause_at_most) * random.uniform(1.0, 1.25)


def _span(request: Request) -> str:
    if request.start < 0:
        return f"the last {-request.start} bytes"
    return f"bytes {request.start} to {request.stop - 1}"


def _error(
    location: Location, request: Request, failure: Failure, attempts: int, is_open: bool
) -> StorageError:
    """Return the family's error for a failure that is final."""
    url = location.url
    if failure.kind == "replaced" or (failure.kind == "missing" and is_open):
        return _replaced(location)
    if failure.kind == "missing":
        return MissingError(errno.ENOENT, f"there is no object '{url}'", url)
    if failure.kind == "denied":
        hint = (
            "credentials are left out of pickles: give them in the environment, or open it anew"
            if location.is_incomplete
            else "check the credentials, in storage_options or in the environment, and the name: a "
            "bucket that may not be listed says the same where nothing is"
        )
        return AccessError(errno.EACCES, f"no access to '{url}': {failure.reason}; {hint}", url)
    times = f", {attempts} times" if attempts > 1 else ""
    hint = "; use a server that does, or download the file" if failure.kind == "whole" else ""
    error = RemoteError(
        errno.EIO, f"reading {_span(request)} of '{url}' failed{times}: {failure.reason}{hint}", url
    )
    error.start = request.start if request.start >= 0 else None
    error.stop = request.stop if request.start >= 0 else None
    return error


def _replaced(location: Location) -> ReplacedError:
    return ReplacedError(
        errno.ESTALE,
        f"'{location.url}' was replaced or removed after it was opened; open it again",
        location.url,
    )
