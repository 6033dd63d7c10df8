"""Writing of objects: new ones, and one that is replaced only if nobody else has replaced it.

A request whose answer is lost is made again.  That is harmless for an object that has its name
alone; of a conditional one, the answer to the second attempt may tell that the condition no longer
holds because the first has succeeded.  So whoever replaces an object must recognize its own.
"""

from __future__ import annotations

import asyncio
import errno
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from extarray.common.errors import (
    AccessError,
    ArgumentError,
    MissingError,
    RemoteError,
    StorageError,
)
from extarray.remote.answers import Failure
from extarray.remote.background import submit
from extarray.remote.objects import RemoteObject, pause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from concurrent.futures import Future

    from extarray.remote.answers import Listed, Mark
    from extarray.remote.locations import Location

__all__ = [
    "ABSENT",
    "LostRace",
    "Requests",
    "Whole",
    "Writing",
    "check_writable",
    "milliseconds",
]

_T = TypeVar("_T")

#: In place of a mark: there must be no object.
ABSENT: Mark = {}


class LostRace(Exception):  # noqa: N818 -- an answer
    """Somebody else has replaced the object, or an earlier attempt has."""


class Whole(NamedTuple):
    """An object that was read as a whole, and what it takes to replace this very version."""

    data: bytes
    mark: Mark


class Requests:
    """Numbers of requests, by their kind.

    Attributes
    ----------
    puts, gets, lists, deletes : int
        Failed attempts count, too.
    sent, received : int
        Bytes.
    """

    def __init__(self) -> None:
        self.puts = self.gets = self.lists = self.deletes = 0
        self.sent = self.received = 0


def check_writable(place: Location) -> None:
    """Raise ArgumentError where nobody can replace an object under a condition."""
    backend = place.backend()
    unknown = "fsspec cannot replace an object under a condition; install obstore"
    why = getattr(backend, "why_not_writable", unknown)
    if why:
        raise ArgumentError(f"cannot publish to '{place.url}': {why}")


class Writing:
    """Requests that write below a place, and what they count.

    Parameters
    ----------
    place : Location

    Attributes
    ----------
    requests : Requests
    """

    def __init__(self, place: Location) -> None:
        self.place = place
        self.requests = Requests()

    def read(self, name: str) -> Whole | None:
        """Read an object as a whole; None if there is none."""
        at = self.place.child(name)

        async def ask() -> Whole:
            self.requests.gets += 1
            data, mark = await at.backend().whole(at.path, at.policy.timeout)  # type: ignore[attr-defined]
            self.requests.received += len(data)
            return Whole(data, mark)

        try:
            return _result(submit(_attempts(at, "read", ask)))
        except MissingError:
            return None

    def read_part(self, name: str, start: int, n_bytes: int) -> bytes:
        """Read bytes of an object that never changes."""
        found = RemoteObject(self.place.child(name), start + n_bytes, None).any_version()
        data = bytes(found.read(start, n_bytes))
        self.requests.gets += found.counts.requests
        self.requests.received += n_bytes
        return data

    def begin_put(self, name: str, parts: Sequence[bytes | memoryview]) -> Future[Mark]:
        """Begin to write a new object under a name that nothing else has."""
        return submit(self._put(name, b"".join(parts), None))

    def put(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        """Write a new object under a name that nothing else has."""
        _result(self.begin_put(name, parts))

    def replace(self, name: str, data: bytes, mark: Mark) -> Mark:
        """Write an object in place of the version of a mark; `ABSENT`: if there is none.

        Raises
        ------
        LostRace
            There is another one.
        """
        found: Mark = _result(submit(self._put(name, data, mark)))
        return found

    async def _put(self, name: str, data: bytes, mark: Mark | None) -> Mark:
        at = self.place.child(name)

        async def ask() -> Mark:
            self.requests.puts += 1
            self.requests.sent += len(data)
            found: Mark = await at.backend().put(at.path, data, mark, at.policy.timeout)  # type: ignore[attr-defined]
            return found

        return await _attempts(at, "write", ask)

    def listed(self, folder: str) -> list[Listed]:
        """Return the objects in a folder below the place."""
        at = self.place.child(folder)

        async def ask() -> list[Listed]:
            self.requests.lists += 1
            found: list[Listed] = await at.backend().listed(at.path, at.policy.timeout)  # type: ignore[attr-defined]
            return found

        return _result(submit(_attempts(at, "list", ask)))

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects; those that do not exist are passed over."""
        places = [self.place.child(name) for name in names]
        if not places:
            return

        async def ask() -> None:
            self.requests.deletes += 1
            paths = [at.path for at in places]
            await places[0].backend().remove(paths, self.place.policy.timeout)  # type: ignore[attr-defined]

        _result(submit(_attempts(self.place, "remove", ask)))


def _result(future: Future[_T]) -> _T:
    """Wait for a future of the background, and cancel it if this thread is interrupted."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def _attempts(
    at: Location, what: str, ask: Callable[[], Coroutine[object, object, _T]]
) -> _T:
    """Make a request until it succeeds, or until the failure is final."""
    attempt = 0
    while True:
        attempt += 1
        failure = None
        try:
            return await ask()
        except Failure as error:
            failure = error
        if failure.kind == "replaced":
            raise LostRace
        if failure.kind not in {"again", "busy"} or attempt > at.policy.retries:
            raise _error(at, what, failure, attempt)
        await asyncio.sleep(pause_of(failure, attempt))


def _error(at: Location, what: str, failure: Failure, attempts: int) -> StorageError:
    url = at.url
    if failure.kind == "missing":
        return MissingError(errno.ENOENT, f"there is no object '{url}'", url)
    if failure.kind == "denied":
        return AccessError(
            errno.EACCES,
            f"no right to {what} '{url}': {failure.reason}; check the credentials, in "
            "storage_options or in the environment, and the name",
            url,
        )
    times = f", {attempts} times" if attempts > 1 else ""
    doing = {"write": "writing", "read": "reading", "list": "listing", "remove": "removing"}[what]
    return RemoteError(errno.EIO, f"{doing} '{url}' failed{times}: {failure.reason}", url)


def milliseconds() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
