"""Requests through obstore.

obstore checks that an answer has the range that was asked for, and never decodes bodies.  Its own
attempts are turned off for stores made here: after a body that ended early it would go on without
the condition, and nobody could count its requests.

obstore's threads do not live on in a forked child, where its calls would wait for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from extarray.common.extras import require
from extarray.remote.answers import PIECE, Answer, Failure, Listed, Request, failure_of
from extarray.remote.options import Policy, for_obstore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from extarray.remote.answers import Mark

__all__ = ["StoreBackend", "UrlBackend", "stayed_in_parent"]

_PURPOSE = "reading from a web server or a bucket"

# Characters that obstore leaves in paths, and others encode.
_UNCODED = frozenset("!$&'()*+,:;=@[]^|")
# Bytes of a body that are taken at a time: fewer cost the event loop more than the copy.
_STEP = 1 << 20

# Stores of web servers and of whole URLs, by URL and options, the one used last at the end.  Making
# one takes milliseconds, and objects of one server share its connections.  Only the thread of the
# event loop uses them.
_stores: dict[tuple[str, str], Any] = {}
_MOST_STORES = 16

# Classes of stores without conditional writes.
_UNCONDITIONAL = ("HTTPStore", "LocalStore")
# Objects to remove at a time.
_AT_ONCE = 1000

_first_user = 0  # the process that began to use obstore's threads


class StoreBackend:
    """Requests to a store of obstore."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def _store_for(self, path: str) -> tuple[Any, str]:
        return self._store, path

    async def get(self, request: Request) -> Answer:
        """Make one request; raise `Failure` if its answer is anything but the range."""
        _check_process()
        obstore = require("obstore", "remote", _PURPOSE)
        store, path = self._store_for(request.path)
        options: dict[str, Any] = {
            "range": (
                {"suffix": -request.start} if request.start < 0 else (request.start, request.stop)
            )
        }
        # A weak tag never matches in If-Match.
        if request.match is not None and _is_strong(request.match):
            options["if_match"] = request.match
        if request.none_match is not None and _is_tag(request.none_match):
            options["if_none_match"] = request.none_match
        failure: Failure
        try:
            async with asyncio.timeout(request.timeout):
                result = await obstore.get_async(store, path, options=options)
            meta = result.meta
            start, stop = result.range
            encoding = dict(result.attributes).get("Content-Encoding", "identity")
            if encoding.lower() not in {"identity", "aws-chunked", ""}:
                failure = Failure("again", "the server compressed the answer, unasked")
            else:
                data = await _body(result, stop - start, request.timeout)
                modified = meta["last_modified"].timestamp()
                return Answer(data, start, int(meta["size"]), _tag_of(meta), modified)
        except Exception as error:  # noqa: BLE001 -- obstore raises errors of several kinds
            failure = _failure(error)
        # Outside of the handler: no error of obstore, which quotes URLs, stays in a traceback.
        raise failure

    # -- writing -------------------------------------------------------------------------------

    @property
    def why_not_writable(self) -> str:
        """The reason if objects cannot be replaced under a condition, or ""."""
        name = type(self._store).__name__
        if name in _UNCONDITIONAL:
            return (
                f"obstore's {name} cannot replace an object under a condition; give a bucket of "
                "S3, Google or Azure, or a server like them"
            )
        return ""

    async def whole(self, path: str, seconds: float) -> tuple[bytes, Mark]:
        """Read an object as a whole."""

        async def ask(obstore: Any, store: Any, path: str) -> tuple[bytes, Mark]:
            result = await obstore.get_async(store, path)
            start, stop = result.range
            data = await _body(result, stop - start, seconds)
            return data, _mark_of(result.meta)

        found: tuple[bytes, Mark] = await self._asked(ask, path, seconds)
        return found

    async def put(self, path: str, data: bytes, mark: Mark | None, seconds: float) -> Mark:
        """Write an object; with a mark, only in place of that version."""
        mode: Any = "overwrite" if mark is None else mark or "create"

        async def ask(obstore: Any, store: Any, path: str) -> Mark:
            result = await obstore.put_async(store, path, data, mode=mode, use_multipart=False)
            return _mark_of(result)

        seconds *= 1 + len(data) // PIECE
        found: Mark = await self._asked(ask, path, seconds)
        return found

    async def listed(self, path: str, seconds: float) -> list[Listed]:
        """Return the objects in a folder."""

        async def ask(obstore: Any, store: Any, path: str) -> list[Listed]:
            stream = obstore.list(store, path)
            found: list[Listed] = []
            while True:
                async with asyncio.timeout(seconds):
                    batch = await anext(stream, None)
                if batch is None:
                    return found
                for meta in batch:
                    name = meta["path"].rpartition("/")[2]
                    time = meta["last_modified"].timestamp()
                    found.append(Listed(name, int(meta["size"]), time))

        found: list[Listed] = await self._asked(ask, path, None)
        return found

    async def remove(self, paths: list[str], seconds: float) -> None:
        """Remove objects, as far as they exist."""

        async def ask(obstore: Any, store: Any, path: str) -> None:
            for first in range(0, len(paths), _AT_ONCE):
                some = paths[first : first + _AT_ONCE]
                async with asyncio.timeout(2 * seconds):
                    try:
                        await obstore.delete_async(store, some)
                    except FileNotFoundError:  # one of them, in a store that tells
                        for one in some:
                            with contextlib.suppress(FileNotFoundError):
                                await obstore.delete_async(store, one)

        await self._asked(ask, paths[0], None)

    async def _asked(
        self, ask: Callable[..., Coroutine[Any, Any, Any]], path: str, seconds: float | None
    ) -> Any:
        """Make a request; raise `Failure` for errors of obstore."""
        _check_process()
        obstore = require("obstore", "remote", _PURPOSE)
        store, path = self._store_for(path)
        failure: Failure
        try:
            async with asyncio.timeout(seconds):
                return await ask(obstore, store, path)
        except Exception as error:  # noqa: BLE001 -- obstore raises errors of several kinds
            failure = _failure(error)
        raise failure


class UrlBackend(StoreBackend):
    """Requests to URLs: of one bucket, or of one web server.

    Parameters
    ----------
    scheme : {"http", "https", "s3", "gs", "az"}
    root : str
        The bucket, ``container`` or ``host:port``.
    options : Mapping
        Those of the user, without ours.
    policy : Policy
    userinfo, query : str
        Parts of a web server's URL.
    """

    def __init__(
        self,
        scheme: str,
        root: str,
        options: Mapping[str, Any],
        policy: Policy,
        userinfo: str = "",
        query: str = "",
    ) -> None:
        self._class = require("obstore.store", "remote", _PURPOSE)
        self._scheme = scheme
        self._root = root
        self._query = query
        self._config, self._client = for_obstore(scheme, options, policy, userinfo)
        self._how = repr(sorted(self._client.items(), key=str))
        self._bucket = None if scheme in {"http", "https"} else self._made_bucket()

    @property
    def why_not_writable(self) -> str:
        """The reason if objects cannot be replaced under a condition, or ""."""
        if self._bucket is not None:
            return ""
        return "a web server has no conditional writes; give a bucket: s3://, gs:// or az://"

    def _made_bucket(self) -> Any:
        classes = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}
        container, _, account = self._root.partition("@")
        config = dict(self._config)
        if self._scheme == "az" and account:  # abfs://container@account.dfs.core.windows.net
            config.setdefault("account_name", account.partition(".")[0])
        return getattr(self._class, classes[self._scheme])(
            container,
            client_options=self._client,
            retry_config={"max_retries": 0},
            **config,
        )

    def _store_for(self, path: str) -> tuple[Any, str]:
        if self._bucket is not None:
            return self._bucket, path
        # The store of a whole URL keeps its path and query as they are; that of a server, whose
        # connections its objects share, encodes the path by itself, and has no query.
        url = f"{self._scheme}://{self._root}/"
        rest = path.lstrip("/")
        name = None if self._query else _name_of(rest)
        if name is None:
            url, name = f"{url}{rest}{self._query}", ""
        key = url, self._how
        store = _stores.pop(key, None)
        if store is None:
            store = self._class.HTTPStore.from_url(
                url, client_options=self._client, retry_config={"max_retries": 0}
            )
        _stores[key] = store  # the last one used last
        while len(_stores) > _MOST_STORES:
            _stores.pop(next(iter(_stores)), None)
        return store, name


def _name_of(path: str) -> str | None:
    """Return the name that obstore encodes to a path of a URL; None if there is none."""
    name = unquote(path)
    is_encoded = quote(name, safe="/") == path and _UNCODED.isdisjoint(name) and name.isprintable()
    has_parts = all(part not in {"", ".", ".."} for part in name.split("/"))
    return name if is_encoded and has_parts else None


def stayed_in_parent() -> bool:
    """Tell whether this process was forked after obstore had started its threads."""
    return _first_user not in {0, os.getpid()}


def _check_process() -> None:
    """Refuse to wait for threads that only the parent process has."""
    global _first_user
    if _first_user == 0:
        _first_user = os.getpid()
    if stayed_in_parent():
        raise Failure(
            "never",
            "this process was forked from one that had begun to read remotely, and obstore's "
            "threads stayed there; start processes by 'spawn' or 'forkserver', or install fsspec "
            "with its package for these URLs",
        )


async def _body(result: Any, size: int, seconds: float) -> bytes:
    """Return the body of an answer, of exactly `size` bytes, and take in hardly any more.

    Every `PIECE` bytes have to come within some seconds: a server that sends byte by byte would
    keep a timeout that begins anew with each read waiting for ever.
    """
    step = min(max(size, 1), _STEP)
    seconds *= max(1.0, step / PIECE)  # the client's read_timeout ends a pause sooner
    stream = result.stream(min_chunk_size=step)
    pieces: list[bytes] = []
    come = 0
    while come <= size:
        async with asyncio.timeout(seconds):
            piece = await anext(stream, None)
        if piece is None:
            break
        pieces.append(piece)
        come += len(piece)
    if come > size:
        raise Failure("again", f"the body is longer than its {size} bytes")
    if come != size:
        raise Failure("again", f"the body ended after {come} of {size} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _mark_of(meta: Mapping[str, Any]) -> Mark:
    """Return what replaces this very version of an object."""
    return {key: str(meta[key]) for key in ("e_tag", "version") if meta.get(key) is not None}


def _is_strong(tag: str) -> bool:
    return tag.startswith('"')


def _is_tag(tag: str) -> bool:
    return tag.startswith(('"', "W/"))


def _tag_of(meta: Mapping[str, Any]) -> str | None:
    """Return the ETag of an object, or else when it was modified, or None."""
    tag = meta["e_tag"]
    if tag:
        # Some servers leave the quotes out, without which no condition can match.
        return tag if _is_tag(tag) else f'"{tag}"'
    modified = meta["last_modified"]
    return f"modified {modified.isoformat()}" if modified.timestamp() else None


_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z.]{1,60})</Code>")

#: Words of obstore's messages, and what they mean.
_REASONS = (
    ("dns error", "the host's name was not found"),
    ("TimedOut", "the server did not answer in time"),
    ("kind: Timeout", "the server did not answer in time"),
    ("MissingLastModified", "the answer has no date"),
    ("MissingEtag", "the answer has no tag"),
    ("UnexpectedRange", "the server sent another range"),
    ("ContentRange", "the server did not say which range it sent"),
    ("InvalidRange", "the server has fewer bytes than it said before"),
    ("ConnectionRefused", "the server refused the connection"),
    ("ConnectionReset", "the server reset the connection"),
    ("IncompleteBody", "the body ended early"),
    ("IncompleteMessage", "the connection ended before the answer"),
    ("kind: Connect", "no connection to the server"),
    ("Parse(", "the answer is not HTTP"),
)


def _failure(error: Exception) -> Failure:
    """Return an error of obstore as a failure, without its text, which quotes URLs and answers."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, TimeoutError):
        return Failure("again", "the server did not answer in time")
    text = str(error)
    status = _STATUS.search(text)
    code = _CODE.search(text)
    said = f"the server answered {status[1]}" if status else "no answer of the server"
    if code:
        said += f" ({code[1]})"
    if type(error).__name__ == "AlreadyExistsError":
        return Failure("replaced", "the object is there already")
    if status:
        return failure_of(int(status[1]), said)
    if isinstance(error, FileNotFoundError):
        return Failure("missing", said)
    name = type(error).__name__
    # An answer without a range, or a suffix for Azure.
    if name == "NotSupportedError" or "NotPartial" in text:
        return Failure("whole", "the server does not send ranges of bytes")
    if name == "NotModifiedError":
        return Failure("unmodified", "the object is as it was")
    if name == "PreconditionError":
        return Failure("replaced", "the object has another tag")
    if name in {"PermissionDeniedError", "UnauthenticatedError"}:
        return Failure("denied", said)
    if "certificate" in text.lower():
        return Failure("never", "the server's certificate is not trusted")
    if "BadScheme" in text or "scheme is not allowed" in text:
        return Failure("never", "the server redirects to another scheme")
    if "kind: Redirect" in text or "TooManyRedirects" in text:
        return Failure("never", "the server redirects for ever")
    for word, reason in _REASONS:
        if word in text:
            return Failure("again", reason)
    if name == "GenericError":
        return Failure("again", "the connection failed")
    return Failure("never", f"obstore raised {name}")
