"""An answer to a request, and a failure of one, as every library below gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

__all__ = [
    "PIECE",
    "Answer",
    "Backend",
    "Failure",
    "FailureKind",
    "Listed",
    "Mark",
    "Request",
    "WritingBackend",
    "failure_of",
]

#: Bytes of an answer that have to come within the timeout.
PIECE = 128 << 10

#: Kinds of failures: the object is missing, was replaced, or is as it was; access is denied; the
#: server sends the whole object instead of a range; another attempt may succeed ("again"), perhaps
#: later ("busy"); no attempt can ("never").
FailureKind: TypeAlias = Literal[
    "missing", "replaced", "unmodified", "denied", "whole", "again", "busy", "never"
]

#: What tells a store one version of an object from others; empty: that there is none.
Mark: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """A range of one object, and the conditions under which it is wanted.

    Attributes
    ----------
    path : str
        The object, as its backend names it.
    start : int
        First byte; if negative, the last ``-start`` bytes are wanted, or all if there are fewer.
    stop : int
        Byte after the last; 0 if `start` is negative.
    match, none_match : str or None
        Tag that the object must have, or must not have.
    timeout : float
        Seconds within which the next piece of the answer has to come.
    """

    path: str
    start: int
    stop: int = 0
    match: str | None = None
    none_match: str | None = None
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes from `start` on, of an object that has `size` bytes and, if the server tells, a tag.

    `modified` is the time of the object's last change, in seconds, or 0.
    """

    data: bytes | bytearray
    start: int
    size: int
    tag: str | None
    modified: float = 0.0


class Failure(Exception):  # noqa: N818 -- an answer as well, which never reaches users
    """A request that failed; `reason` is free of anything secret.

    Parameters
    ----------
    kind : str
        One of `FailureKind`.
    reason : str
    after : float or None
        Seconds after which the server wants to be asked again.
    """

    def __init__(self, kind: FailureKind, reason: str, after: float | None = None) -> None:
        super().__init__(kind, reason)
        self.kind: FailureKind = kind
        self.reason = reason
        self.after = after


def failure_of(status: int, said: str, after: float | None = None) -> Failure:
    """Return the failure that a status of HTTP other than 206 means; `said` tells users of it.

    Examples
    --------
    >>> failure_of(503, "the server answered 503").kind
    'again'
    """
    kinds: dict[int, FailureKind] = {
        200: "whole",
        304: "unmodified",
        401: "denied",
        403: "denied",
        404: "missing",
        408: "again",
        409: "again",  # another conditional write at the same moment
        410: "missing",
        412: "replaced",
        416: "again",
        425: "again",
        429: "busy",
    }
    if status == 200:
        said = "the server does not send ranges of bytes"
    elif 300 < status < 400:
        said += ", a redirection that is not followed"
    return Failure(kinds.get(status, "again" if status >= 500 else "never"), said, after)


class Listed(NamedTuple):
    """An object in a folder.

    Attributes
    ----------
    name : str
        Its name in the folder.
    size : int
    modified : float
        Seconds since 1970 at which it was written, by the clock of the server.
    """

    name: str
    size: int
    modified: float


class Backend(Protocol):
    """A library that makes requests; its methods run in the event loop of `background`."""

    async def get(self, request: Request) -> Answer:
        """Make one request; raise `Failure` if its answer is anything but the range."""
        ...


class WritingBackend(Backend, Protocol):
    """A library that also writes.

    Attributes
    ----------
    why_not_writable : str
        The reason if it cannot replace an object under a condition, or "".
    """

    why_not_writable: str

    async def whole(self, path: str, seconds: float) -> tuple[bytes, Mark]:
        """Read an object as a whole."""
        ...

    async def put(self, path: str, data: bytes, mark: Mark | None, seconds: float) -> Mark:
        """Write an object; with a mark, only in place of that version.

        Otherwise the `Failure` is "replaced".
        """
        ...

    async def listed(self, path: str, seconds: float) -> list[Listed]:
        """Return the objects in a folder."""
        ...

    async def remove(self, paths: list[str], seconds: float) -> None:
        """Remove objects, as far as they exist."""
        ...
