"""Requests through fsspec: file systems that the user gives, and schemes that obstore lacks.

fsspec has no conditional reads, so each range is followed by a question whether the object is
still the same; web servers are asked through fsspec's session, which can have conditions.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from extarray.common.errors import ArgumentError, MissingExtraError
from extarray.common.extras import require
from extarray.remote.answers import PIECE, Answer, Failure, Request, failure_of
from extarray.remote.background import in_thread
from extarray.remote.options import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FileSystemBackend", "backend_of", "make_filesystem"]

_PURPOSE = "reading this URL"

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})$")


def make_filesystem(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the object's path there."""
    fsspec_core = require("fsspec.core", "fsspec", _PURPOSE)
    scheme = re.split(r"://|::", url, maxsplit=1)[0]
    try:
        fs, path = fsspec_core.url_to_fs(url, **options)
    except ImportError as error:
        name = error.name or "a package"  # errors of fsspec itself have no name
        raise MissingExtraError(
            f"fsspec needs {name} for {scheme} URLs: {redacted(str(error))}"
        ) from None
    except (TypeError, ValueError) as error:
        if isinstance(error, ValueError) and "Protocol not known" in str(error):
            text = f"neither obstore nor fsspec reads {scheme} URLs"
        else:  # its text may quote an option
            text = f"fsspec does not take these storage_options for {scheme} URLs"
        error_type = ArgumentError(text)
    else:
        return fs, str(path)
    raise error_type


def backend_of(fs: Any) -> FileSystemBackend:
    """Return the requests to a file system, in the way that suits it best."""
    protocols = fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)
    if set(protocols) & {"http", "https"} and hasattr(fs, "set_session"):
        return _WebBackend(fs)
    return FileSystemBackend(fs)


class FileSystemBackend:
    """Requests to any file system of fsspec, each in a thread."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    async def get(self, request: Request) -> Answer:
        """Make one request, and ask whether the object is still the same."""
        failure: Failure
        try:
            # Its pieces cannot be timed one by one.
            size = max(-request.start, request.stop - request.start)
            async with asyncio.timeout(request.timeout * (3 + size // PIECE)):
                return await in_thread(partial(self._get, request))
        except Failure as error:
            failure = error
        except Exception as error:  # noqa: BLE001 -- file systems raise errors of many kinds
            failure = _failure(error)
        raise failure

    def _get(self, request: Request) -> Answer:
        start, stop = request.start, request.stop
        if start < 0:
            size, tag, _ = self._facts(request)
            if tag is not None and tag == request.none_match:
                raise Failure("unmodified", "the object is as it was")
            start, stop = max(0, size + start), size
        data = self._fs.cat_file(request.path, start=start, end=stop) if stop > start else b""
        now_size, now_tag, modified = self._facts(request)
        if request.start < 0 and (size, tag) != (now_size, now_tag):
            raise Failure("again", "the object changed while it was opened")
        if request.match is not None and now_tag != request.match:
            raise Failure("replaced", "the object has another tag")
        if len(data) != min(stop, now_size) - start:
            raise Failure("again", f"{len(data)} of {stop - start} bytes came")
        return Answer(data, start, now_size, now_tag, modified)

    def _facts(self, request: Request) -> tuple[int, str | None, float]:
        self._fs.invalidate_cache(request.path)  # of listings, which may be old
        info = self._fs.info(request.path)
        size = info.get("size")
        if info.get("type") == "directory" or not isinstance(size, int):
            raise Failure("missing", "it is no object with a size")
        return size, _tag_of(info), _modified(info)


class _WebBackend(FileSystemBackend):
    """Requests to web servers, through fsspec's session of aiohttp."""

    async def get(self, request: Request) -> Answer:
        """Make one request, and ask whether the object is still the same."""
        failure: Failure
        task = asyncio.run_coroutine_threadsafe(self._ask(request), self._fs.loop)
        try:
            return await asyncio.wrap_future(task)
        except Failure as error:
            failure = error
        except Exception as error:  # noqa: BLE001 -- aiohttp raises errors of many kinds
            # aiohttp gives what it cannot parse a status of its own, 400.
            is_torn = type(error).__name__ == "ClientResponseError"
            failure = Failure("again", "the answer is not HTTP") if is_torn else _failure(error)
        raise failure

    async def _ask(self, request: Request) -> Answer:
        session = await self._fs.set_session()
        settings = dict(self._fs.kwargs)
        headers = {**settings.pop("headers", {}), "Accept-Encoding": "identity"}
        headers["Range"] = f"bytes={request.start}"
        if request.start >= 0:
            headers["Range"] += f"-{request.stop - 1}"
        if request.match is not None and request.match.startswith('"'):
            headers["If-Match"] = request.match
        if request.none_match is not None and request.none_match.startswith(('"', "W/")):
            headers["If-None-Match"] = request.none_match
        url = self._fs.encode_url(request.path)
        async with asyncio.timeout(request.timeout):
            answer = await session.get(url, headers=headers, **settings)
        async with answer:
            _check_redirects(answer)
            _check_status(answer)
            match = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
            if match is None:
                raise Failure("again", "the server did not say which range it sent")
            low, last, size = map(int, match.groups())
            start, stop = (
                (max(0, size + request.start), size)
                if request.start < 0
                else (request.start, min(request.stop, size))
            )
            if (low, last + 1) != (start, stop):
                raise Failure("again", "the server sent another range")
            if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise Failure("again", "the server compressed the answer, unasked")
            data = bytearray()
            is_over = False
            while not is_over and len(data) <= stop - start:
                whole = min(len(data) + PIECE, stop - start + 1)
                async with asyncio.timeout(request.timeout):
                    while len(data) < whole and not is_over:
                        piece = await answer.content.read(whole - len(data))
                        is_over = not piece
                        data += piece
            if len(data) > stop - start:
                raise Failure("again", f"the body is longer than its {stop - start} bytes")
            if len(data) != stop - start:
                raise Failure("again", f"the body ended after {len(data)} of {stop - start} bytes")
            tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            date = answer.headers.get("Last-Modified", "")
            return Answer(data, start, size, tag, _seconds_of(date))


def _seconds_of(date: str) -> float:
    """Return the seconds since 1970 of a date in a header; 0 if it is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _check_redirects(answer: Any) -> None:
    for earlier in answer.history:
        if earlier.url.scheme != answer.url.scheme:
            raise Failure("never", "the server redirects to another scheme")


def _check_status(answer: Any) -> None:
    if answer.status != 206:
        after = answer.headers.get("Retry-After", "")
        seconds = float(after) if re.fullmatch(r"\d{1,6}", after) else None
        raise failure_of(answer.status, f"the server answered {answer.status}", seconds)


def _tag_of(info: Mapping[str, Any]) -> str | None:
    """Return what changes with an object, out of what its file system knows."""
    for name in ("ETag", "etag", "generation", "version_id", "md5Hash", "content_md5"):
        if info.get(name):
            return str(info[name])
    for name in _TIMES:
        if info.get(name):
            return f"modified {info[name]}"
    return None


def _modified(info: Mapping[str, Any]) -> float:
    """Return when an object was changed last, in seconds, as far as its file system knows; or 0."""
    for name in _TIMES:
        found = info.get(name)
        if isinstance(found, datetime):
            return found.timestamp()
        if isinstance(found, (int, float)) and found > 0:
            return float(found)
    return 0.0


def _failure(error: Exception) -> Failure:
    """Return an error of a file system as a failure, without its text."""
    status = getattr(error, "status", None)
    name = type(error).__name__
    if isinstance(error, FileNotFoundError):
        return Failure("missing", "the object is not there")
    if isinstance(error, PermissionError):
        return Failure("denied", "access is denied")
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        return Failure("missing", "it is a folder")
    if isinstance(error, TimeoutError):
        return Failure("again", "the server did not answer in time")
    if isinstance(status, int) and status >= 300:
        return failure_of(status, f"the server answered {status}")
    if "DNS" in name or "gai" in name:
        return Failure("again", "the host's name was not found")
    if "Certificate" in name:
        return Failure("never", "the server's certificate is not trusted")
    if isinstance(error, (OSError, EOFError)) or name.startswith(("Client", "Server")):
        return Failure("again", f"the connection failed ({name})")
    return Failure("never", f"its file system raised {name}")
