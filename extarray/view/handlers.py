"""Answers of the server: who gets them, and with which headers.

A request for data has to show the token.  A request that names a host other than this machine is
refused in any case, so that no page of another site can reach the server through a name that it
points here (DNS rebinding).  Requests from pages of other origins are refused, too.  The page's own
files are public and need no token; they are a fixed set, and no part of a request is used as a
path.
"""

from __future__ import annotations

import asyncio
import gzip
import hmac
import json
import re
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import resources
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import numpy as np

from extarray.array.coordinates import Coordinate
from extarray.common.errors import (
    ArgumentError,
    BoundsError,
    ClosedError,
    ExtArrayError,
    MissingError,
)
from extarray.common.extras import require
from extarray.common.formatting import text_of
from extarray.common.limits import limits
from extarray.view.connections import Connections
from extarray.view.encoding import PARTS, Choice, encode, keys_of, pack
from extarray.view.exhibits import Gallery
from extarray.view.files import Axis, check_size, csv_of, npy_of, plain_texts
from extarray.view.foreign import ForeignExhibit
from extarray.view.growth import SplitCells, growth_map, names_of
from extarray.view.places import Exhibit
from extarray.view.planes import (
    Abandoned,
    Plane,
    Span,
    can_be_whole,
    check_span,
    read_box,
    read_each,
    read_extremes,
    read_line_ends,
    read_plane,
)

__all__ = ["Site", "make_app"]

web: Any = require("tornado.web", "view", "extarray view")
websocket: Any = require("tornado.websocket", "view", "extarray view")

T = TypeVar("T")
_Exhibit: TypeAlias = Exhibit | ForeignExhibit

_HOSTS = {"127.0.0.1", "localhost", "::1"}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_STATUS = {MissingError: 404, BoundsError: 409, ClosedError: 409, ArgumentError: 400}
_PROTOCOL = "extarray-view"  # the WebSocket's
_MOST_ASKED = 1 << 14  # bytes of a message, whose array name may be as long as a path
_PING = 20.0  # seconds between two pings of a WebSocket
_MOST_FOLLOWED = 2  # arrays that a page shows
_LOOK = 0.1  # seconds between two looks for news
_LOOK_AGAIN = 1.0  # the same after a look that failed
_NUMBER = re.compile(r"^\[Errno \d+\] ")
_MOST_CHANNELS = 8
_MOST_TEXTS = 1 << 13  # in a table
_MOST_CELLS = 1 << 18  # of a growth map
_LONGEST = 10_000.0  # milliseconds that a page may allow for a picture


class Site:
    """The gallery, the token, the connections and the threads that the handlers share.

    Parameters
    ----------
    gallery : Gallery
    token : str
    """

    def __init__(self, gallery: Gallery, token: str) -> None:
        self.gallery = gallery
        self.token = token
        self.connections = Connections()
        self.following: set[asyncio.Task[None]] = set()
        # Slow work must not delay quick answers.
        self.pictures = ThreadPoolExecutor(2, "extarray-view-pictures")
        self.answers = ThreadPoolExecutor(4, "extarray-view-answers")
        self.ends = asyncio.Event()
        folder = resources.files("extarray.view") / "page"
        self.files = {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}

    async def has_ended(self, seconds: float) -> bool:
        """Wait for the end, at most so many seconds; tell whether it has come."""
        try:
            await asyncio.wait_for(self.ends.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Wait for reads under way, and close the arrays."""
        self.ends.set()
        for pool in (self.pictures, self.answers):
            pool.shutdown(cancel_futures=True)
        self.gallery.close()


def make_app(site: Site) -> Any:
    """Return the Tornado application that answers."""
    handlers = {
        "arrays": Arrays,
        "array": Array,
        "news": News,
        "plane": Picture,
        "profile": Profile,
        "value": Value,
        "labels": Labels,
        "coordinates": Coordinates,
        "texts": Texts,
        "box": Box,
        "growth": Growth,
    }
    return web.Application(
        [
            *[(rf"/api/{name}", handler, {"site": site}) for name, handler in handlers.items()],
            (r"/([a-z]*(?:\.[a-z]+)?)", File, {"site": site}),
        ],
        default_handler_class=Nothing,
        default_handler_args={"site": site},
        log_function=lambda handler: None,
        websocket_ping_interval=_PING,
        websocket_ping_timeout=_PING,
        websocket_max_message_size=_MOST_ASKED,
    )


class Handler(web.RequestHandler):  # type: ignore[misc]
    """The common part of all answers: access checks, arguments, errors."""

    needs_token = True

    def initialize(self, site: Site) -> None:
        self.site = site
        self.is_gone = False
        self.stream = self.request.connection.stream

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        if _host(f"//{self.request.host}") not in _HOSTS:
            raise web.HTTPError(403, reason="Not this machine")
        origin = self.request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != self.request.host:
            raise web.HTTPError(403, reason="Another page")
        if self.request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"} and (
            self.needs_token or self.request.headers.get("Sec-Fetch-Mode") != "navigate"
        ):
            raise web.HTTPError(403, reason="Another page")
        if self.needs_token:
            wanted = f"Bearer {self.site.token}"
            shown = self.authorization().encode("utf-8", "replace")
            if not hmac.compare_digest(shown, wanted.encode()):
                raise web.HTTPError(403, reason="No token")
            self.site.connections.trust(self.stream)

    def authorization(self) -> str:
        """Return the header that shows the token."""
        header: str = self.request.headers.get("Authorization", "")
        return header

    def is_wanted(self) -> bool:
        """Tell whether somebody waits for the answer."""
        # A connection that ends before its request is answered may tell the handler nothing.
        return not (self.is_gone or self.stream.closed() or self.site.ends.is_set())

    def compute_etag(self) -> None:
        return None

    def on_connection_close(self) -> None:
        self.is_gone = True
        super().on_connection_close()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        text = self._reason
        if isinstance(error, (ExtArrayError, OSError)):
            text = _fault(error)
        self.finish({"error": text})

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, web.HTTPError):
            super().log_exception(kind, error, trace)

    # -- arguments --

    def name(self) -> str:
        """Return the name of the requested array."""
        name: str = self.get_argument("name", strip=False)
        return name

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer argument."""
        text = self.get_argument(name, None)
        if text is None and default is not None:
            return default
        try:
            return int(text or "")
        except ValueError:
            raise web.HTTPError(400, reason=f"{name} is not an integer") from None

    def integers(self, name: str) -> list[int]:
        """Return an argument that is a list of integers, separated by commas."""
        text = self.get_argument(name, "")
        try:
            return [int(part) for part in text.split(",")] if text else []
        except ValueError:
            raise web.HTTPError(400, reason=f"{name} are not integers") from None

    def place(self, array: Any) -> list[int]:
        """Return the argument that has an index for each axis."""
        at = self.integers("at")
        if len(at) != array.ndim:
            raise BoundsError(f"{len(at)} indices for an array of {array.ndim} axes")
        for axis, (index, extent) in enumerate(zip(at, array.shape, strict=True)):
            if not 0 <= index < extent:
                raise BoundsError(
                    f"index {index} is out of bounds for axis {axis} with size {extent}"
                )
        return at

    def choice(self, exhibit: _Exhibit) -> Choice:
        """Return the requested field."""
        choices = exhibit.choices()
        number = self.integer("field", 0)
        if not 0 <= number < len(choices):
            raise ArgumentError(f"elements have no field {number}; they have {len(choices)} fields")
        return choices[number]

    def mixed(self, array: Any, shown: tuple[int, ...] = ()) -> list[list[int]]:
        """Return the place of each channel on show; empty if one plane is shown."""
        axis = self.integer("colours", -1)
        if axis == -1:
            return []
        at, channels = self.place(array), self.integers("channels")
        if not 0 <= axis < array.ndim or axis in shown:
            raise ArgumentError(f"axis {axis} cannot be shown as colours")
        if not 1 <= len(channels) <= _MOST_CHANNELS:
            raise ArgumentError(f"{len(channels)} channels; give 1 to {_MOST_CHANNELS}")
        for index in channels:
            if not 0 <= index < array.shape[axis]:
                raise BoundsError(
                    f"index {index} is out of bounds for axis {axis} with size {array.shape[axis]}"
                )
        return [[*at[:axis], index, *at[axis + 1 :]] for index in channels]

    def channel_names(self, coordinates: Sequence[Coordinate | None]) -> list[str]:
        """Return the coordinates of the channels on show; empty if they have none."""
        channels = self.integers("channels")
        coordinate = coordinates[self.integer("colours")]
        return [""] * len(channels) if coordinate is None else coordinate.texts(channels)

    def part(self) -> str:
        """Return the requested part of complex numbers."""
        part: str = self.get_argument("part", PARTS[0])
        return part

    def box_span(self, name: str, shape: tuple[int, ...]) -> Span | None:
        """Return a part of an axis in full: axis, start, stop."""
        numbers = self.integers(name)
        if not numbers:
            return None
        if len(numbers) != 3:
            raise web.HTTPError(400, reason=f"{name} must be axis, start and stop")
        span = Span(numbers[0], numbers[1], numbers[2], 1)
        check_span(span, shape)
        return span.in_full()

    def span(self, name: str, shape: tuple[int, ...]) -> Span:
        """Return a part of an axis: axis, start, stop, pixels."""
        numbers = self.integers(name)
        if len(numbers) != 4:
            raise web.HTTPError(400, reason=f"{name} must be axis, start, stop and pixels")
        span = Span(*numbers)
        check_span(span, shape)
        return span

    # -- answers --

    async def work(self, pool: ThreadPoolExecutor, function: Callable[[_Exhibit], T]) -> T:
        """Run a function of the requested array on a thread; map its errors to a status."""
        name = self.name()
        gallery = self.site.gallery

        def run() -> T:
            if not self.is_wanted():
                raise Abandoned
            with gallery.exhibit(name) as exhibit:
                return function(exhibit)

        return await self.on_thread(pool, run)

    async def on_thread(self, pool: ThreadPoolExecutor, function: Callable[[], T]) -> T:
        """Run a function on a thread; map its errors to a status."""
        try:
            return await asyncio.wrap_future(pool.submit(function))
        except (ExtArrayError, OSError) as error:
            status = next((n for kind, n in _STATUS.items() if isinstance(error, kind)), 422)
            self.set_status(status)
            self.write_error(status, exc_info=(type(error), error, None))
        except Abandoned:
            pass
        # Not in the handlers above: an error that knows those would keep what was read for long.
        raise web.Finish

    def send(self, body: bytes, seconds: float) -> None:
        """Answer with bytes, compressed if the page reports slow arrival."""
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Server-Timing", f"work;dur={1000 * seconds:.1f}")
        if self.get_argument("packed", "") and "gzip" in self.request.headers.get(
            "Accept-Encoding", ""
        ):
            body = gzip.compress(body, 1)
            self.set_header("Content-Encoding", "gzip")
        self.finish(body)


def _fault(error: Exception) -> str:
    """Return the message of an error in one line, without the number of the system."""
    return _NUMBER.sub("", " ".join(str(error).split()))


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class File(Handler):
    """A file of the page."""

    needs_token = False

    def get(self, name: str) -> None:
        name = name or "index.html"
        content = self.site.files.get(name)
        if content is None:
            raise web.HTTPError(404)
        self.set_header("Content-Type", _TYPES[name[name.rindex(".") :]])
        self.finish(content)


class Nothing(Handler):
    """A 404 answer."""

    needs_token = False

    def prepare(self) -> None:
        super().prepare()
        raise web.HTTPError(404)


class Arrays(Handler):
    """The list of arrays."""

    async def get(self) -> None:
        self.finish(await self.on_thread(self.site.answers, self.site.gallery.tree))


class Array(Handler):
    """The facts of an array."""

    async def get(self) -> None:
        def describe(exhibit: _Exhibit) -> dict[str, Any]:
            exhibit.refresh()
            return self.site.gallery.describe(self.name(), exhibit)

        self.finish(await self.work(self.site.answers, describe))


class _Followed(NamedTuple):
    """An array that a page shows, and the revision or error that the page knows."""

    name: str
    known: int | str | None


class News(Handler, websocket.WebSocketHandler):  # type: ignore[misc]
    """The facts of arrays as soon as they differ from those that the page knows.

    The page sends which arrays it shows, with their revisions, and the revision of the list of all
    arrays; the last message counts.
    """

    followed: tuple[_Followed, ...] = ()
    tree: int | None = None

    def authorization(self) -> str:
        # Scripts cannot set any other header of a WebSocket.
        offered = self.request.headers.get("Sec-WebSocket-Protocol", "").split(",")
        return f"Bearer {offered[1].strip()}" if len(offered) == 2 else ""

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return _PROTOCOL if _PROTOCOL in subprotocols else None

    def open(self) -> None:
        task = asyncio.create_task(self.follow())
        self.site.following.add(task)
        task.add_done_callback(self.has_followed)

    def has_followed(self, task: asyncio.Task[None]) -> None:
        """After an error of ours, end the connection: the page makes another."""
        self.site.following.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.log_exception(type(error), error, error.__traceback__)
            self.close(1011, "internal error")

    def on_message(self, message: str | bytes) -> None:
        try:
            told = json.loads(message)
            shown: Any = [_Followed(each["name"], each["revision"]) for each in told["arrays"]]
            tree: Any = told["tree"]
            fits = len(shown) <= _MOST_FOLLOWED and isinstance(tree, int | None)
            for each in shown:
                fits = fits and isinstance(each.name, str) and isinstance(each.known, int)
        except (ValueError, LookupError, TypeError, RecursionError):
            fits = False
        if fits:
            self.followed, self.tree = tuple(shown), tree
        else:
            self.close(1008, "give names and revisions")

    async def follow(self) -> None:
        """Send news until the page or the server ends."""
        pause, later = _LOOK, 0.0
        while not self.is_gone and not await self.site.has_ended(pause):
            followed, pause = self.followed, _LOOK
            for one in followed:
                try:
                    news = await asyncio.wrap_future(self.site.answers.submit(self.look, one))
                except (ExtArrayError, OSError) as error:
                    text, pause = _fault(error), _LOOK_AGAIN
                    news = None if text == one.known else {"name": one.name, "error": text}
                known = None if news is None else news.get("revision", news.get("error"))
                # The page may have moved on to another array.
                if news is None or self.followed is not followed:
                    continue
                followed = tuple(
                    _Followed(one.name, known) if each is one else each for each in followed
                )
                self.followed = followed
                if not await self.tell(news):
                    return
            if followed and self.tree is not None and time.monotonic() >= later:
                later = time.monotonic() + _LOOK_AGAIN
                known_tree = self.tree
                tree = await asyncio.wrap_future(
                    self.site.answers.submit(self.site.gallery.tree, known_tree)
                )
                if tree is not None and self.tree == known_tree:
                    self.tree = tree["tree"]
                    if not await self.tell(tree):
                        return
        self.close(1001, "the server is shutting down")

    async def tell(self, news: dict[str, Any]) -> bool:
        """Send news; return whether the page is still there.

        Returns when the page has received them: a slow page gets less news, not late news.
        """
        try:
            await self.write_message(news)
        except websocket.WebSocketClosedError:
            return False
        return True

    def look(self, followed: _Followed) -> dict[str, Any] | None:
        """Return the facts of an array, or None if they are known."""
        with self.site.gallery.exhibit(followed.name) as exhibit:
            if exhibit.refresh() == followed.known:
                return None
            return self.site.gallery.describe(followed.name, exhibit)


class Picture(Handler):
    """Elements of a plane."""

    async def get(self) -> None:
        clock = time.perf_counter()
        allowed = min(self.integer("ms", 100), _LONGEST) / 1000
        known = self.integer("have", -1)

        def read(exhibit: _Exhibit) -> bytes | None:
            array = exhibit.shown
            shape, at = array.shape, self.place(array)
            origin = getattr(array, "origin", (0,) * array.ndim)  # a view counts from 0
            columns = self.span("columns", shape)
            rows = self.span("rows", shape) if self.get_argument("rows", "") else None
            if rows is not None and rows.axis == columns.axis:
                raise ArgumentError("rows and columns are the same axis; give two axes")
            choice, part = self.choice(exhibit), self.part()
            fill = choice.fill_of(array.fill_value)
            level = self.integer("level", -1)
            mixed = self.mixed(array, (columns.axis, -1 if rows is None else rows.axis))
            keys = partial(keys_of, part=part, fill=fill)
            places = None
            is_whole = self.integer("whole", 0) and can_be_whole(array, rows, columns, choice)
            if is_whole and self.integer("ends", 0) and rows is None and not mixed:
                line = read_line_ends(array, at, columns, choice, keys, self.is_wanted)
                plane = Plane(line.values[None], 0, (1, columns.step(0)), True)
                places = line.places.astype("<f8")
            elif is_whole and self.integer("together", 0) and mixed:
                plane = read_extremes(
                    array, mixed[0], rows, columns, choice, keys, self.is_wanted, mixed[1:]
                )
            elif is_whole:
                plane = read_each(
                    mixed or [at],
                    lambda at, _: read_extremes(
                        array, at, rows, columns, choice, keys, self.is_wanted
                    ),
                )
            else:
                plane = read_each(
                    mixed or [at],
                    lambda at, first: read_plane(
                        array,
                        at,
                        rows,
                        columns,
                        choice,
                        level=first if first is not None else None if level < 0 else level,
                        seconds=allowed / max(1, len(mixed)) if first is None else 0.0,
                        is_wanted=self.is_wanted,
                    ),
                )
            encoded = encode(plane.values, part, fill)
            check = zlib.crc32(encoded.data.reshape(-1).view(np.uint8), plane.level)
            if check == known:
                return None
            data = encoded.data.reshape(-1)
            # Unwritten elements are all the same.
            is_constant = bool(
                data.size
                and places is None
                and (data.view(f"u{data.itemsize}") == data[:1].view(f"u{data.itemsize}")).all()
            )
            facts = {
                **encoded.facts(),
                "constant": is_constant,
                "shape": list(plane.values.shape[-2:]),
                "start": [0 if rows is None else rows.start, columns.start],
                "steps": list(plane.steps),
                "level": plane.level,
                "whole": plane.is_whole,
                "more": not plane.is_whole and can_be_whole(array, rows, columns, choice),
                "origin": list(origin),
                "check": check,
                "ms": round(1000 * (time.perf_counter() - clock), 2),
            }
            if mixed:
                facts["channels"] = self.integers("channels")
            if places is not None:
                return pack({**facts, "count": data.size}, data, places)
            return pack(facts, data[:1] if is_constant else data)

        body = await self.work(self.site.pictures, read)
        if body is None:
            self.set_status(204)
            self.finish()
        else:
            self.send(body, time.perf_counter() - clock)


class Profile(Handler):
    """Elements along an axis."""

    async def get(self) -> None:
        clock = time.perf_counter()

        def read(exhibit: _Exhibit) -> bytes:
            array = exhibit.shown
            shape, at = array.shape, self.place(array)
            axis = self.integer("axis")
            if not 0 <= axis < len(shape):
                raise ArgumentError(f"the array has no axis {axis}; it has {len(shape)} axes")
            span = Span(axis, 0, shape[axis], self.integer("pixels", 1024))
            check_span(span, shape)
            choice, part = self.choice(exhibit), self.part()
            fill = choice.fill_of(array.fill_value)
            facts = {"axis": axis, "whole": True, "more": False}
            if self.integer("whole", 0) and can_be_whole(array, None, span, choice):
                keys = partial(keys_of, part=part, fill=fill)
                line = read_line_ends(array, at, span, choice, keys, self.is_wanted)
                encoded = encode(line.values, part, fill)
                facts |= {**encoded.facts(), "step": span.step(0), "count": len(line.values)}
                return pack(facts, encoded.data, line.places.astype("<f8"))
            plane = read_plane(array, at, None, span, choice, seconds=0.3, is_wanted=self.is_wanted)
            encoded = encode(plane.values[0], part, fill)
            facts |= {**encoded.facts(), "step": plane.steps[1], "whole": plane.is_whole}
            facts["more"] = not plane.is_whole and can_be_whole(array, None, span, choice)
            return pack(facts, encoded.data)

        body = await self.work(self.site.pictures, read)
        self.send(body, time.perf_counter() - clock)


class Value(Handler):
    """The exact text of an element."""

    async def get(self) -> None:
        def read(exhibit: _Exhibit) -> dict[str, Any]:
            array = exhibit.shown
            at = self.place(array)
            choice = self.choice(exhibit)
            others = [text_of(choice.value(array, one)) for one in self.mixed(array)]
            coordinates = self.site.gallery.coordinates(self.name(), exhibit)
            return {
                "value": text_of(choice.value(array, at)),
                "labels": [
                    "" if c is None else c.texts([i])[0]
                    for c, i in zip(coordinates, at, strict=True)
                ],
                "record": text_of(array[tuple(at)]) if choice.steps or choice.packing else "",
                "values": others or None,
                "channels": self.channel_names(coordinates) if others else None,
            }

        self.finish(await self.work(self.site.answers, read))


class Labels(Handler):
    """The coordinates of some elements of an axis."""

    async def get(self) -> None:
        axis, indices = self.integer("axis"), self.integers("indices")

        def read(exhibit: _Exhibit) -> list[str]:
            coordinates = self.site.gallery.coordinates(self.name(), exhibit)
            if not 0 <= axis < len(coordinates):
                raise ArgumentError(f"the array has no axis {axis}; it has {len(coordinates)} axes")
            coordinate = coordinates[axis]
            return [""] * len(indices) if coordinate is None else coordinate.texts(indices)

        self.finish({"labels": await self.work(self.site.answers, read)})


class Coordinates(Handler):
    """Coordinates of a part of an axis, as numbers: all, or as many as ticks need."""

    async def get(self) -> None:
        axis, start, stop = (self.integer(name) for name in ("axis", "start", "stop"))
        clock = time.perf_counter()

        def read(exhibit: _Exhibit) -> bytes:
            coordinates = self.site.gallery.coordinates(self.name(), exhibit)
            span = Span(axis, start, stop, self.integer("most", 1024))
            check_span(span, exhibit.shown.shape)
            coordinate, step = coordinates[axis], span.step(0)
            places = np.arange(start, stop, step)
            if places.size and places[-1] != stop - 1:
                places = np.append(places, stop - 1)
            labels = None if coordinate is None else coordinate.at(places)
            facts: dict[str, Any] = {"step": step, "kind": "", "unit": ""}
            if labels is None or labels.dtype.kind not in "iufmM":
                labels = np.empty(0, "f4")
            else:
                told = Choice((), labels.dtype)
                facts |= {"kind": told.kind, "unit": told.unit}
            encoded = encode(labels)
            return pack({**facts, **encoded.facts()}, encoded.data)

        self.send(await self.work(self.site.answers, read), time.perf_counter() - clock)


class Texts(Handler):
    """Elements as texts, for a table."""

    async def get(self) -> None:
        def read(exhibit: _Exhibit) -> list[list[str]]:
            array = exhibit.shown
            at, choice = self.place(array), self.choice(exhibit)
            rows = self.box_span("rows", array.shape)
            columns = self.box_span("columns", array.shape)
            if rows is None:
                raise ArgumentError("give an axis as rows")
            count = rows.count(0) * (1 if columns is None else columns.count(0))
            if count > _MOST_TEXTS:
                raise ArgumentError(f"{count} elements; a table has up to {_MOST_TEXTS}")
            if count * choice.dtype.itemsize > limits.plane_bytes:
                raise ArgumentError("the texts are too long for a table; read them in Python")
            if columns is None:  # an array of one axis
                values = read_box(array, at, None, rows, choice, self.is_wanted).T
            else:
                values = read_box(array, at, rows, columns, choice, self.is_wanted)
            return [plain_texts(line) for line in values]

        self.finish({"texts": await self.work(self.site.answers, read)})


class Box(Handler):
    """All elements of the part of a plane on show, as a file."""

    async def get(self) -> None:
        kind = self.get_argument("format", "npy")
        if kind not in ("npy", "csv"):
            raise web.HTTPError(400, reason="the format is npy or csv")

        def read(exhibit: _Exhibit) -> bytes:
            array = exhibit.shown
            at, choice = self.place(array), self.choice(exhibit)
            columns = self.box_span("columns", array.shape)
            rows = self.box_span("rows", array.shape) if self.get_argument("rows", "") else None
            if columns is None or (rows is not None and rows.axis == columns.axis):
                raise ArgumentError("give two axes as rows and columns")
            mixed = self.mixed(array, (columns.axis, -1 if rows is None else rows.axis))
            shape = [columns.count(0)] if rows is None else [rows.count(0), columns.count(0)]
            shape += [len(mixed)] if mixed else []
            check_size(shape, choice.dtype, kind)
            planes = [
                read_box(array, place, rows, columns, choice, self.is_wanted)
                for place in mixed or [at]
            ]
            values = (np.stack(planes, axis=-1) if mixed else planes[0]).reshape(shape)
            if kind == "npy":
                return npy_of(values)
            coordinates = self.site.gallery.coordinates(self.name(), exhibit)
            names = names_of(exhibit.shown)
            axes: list[Axis] = [
                (names[span.axis], coordinates[span.axis], range(span.start, span.stop))
                for span in (rows, columns)
                if span is not None
            ]
            if mixed:
                axis, channels = self.integer("colours"), self.integers("channels")
                axes.append((names[axis], coordinates[axis], channels))
            return csv_of(values, axes)

        body = await self.work(self.site.pictures, read)
        self.set_header("Content-Type", "text/csv" if kind == "csv" else "application/octet-stream")
        self.finish(body)


class Growth(Handler):
    """The growth map of the plane on show."""

    async def get(self) -> None:
        clock = time.perf_counter()

        def read(exhibit: _Exhibit) -> bytes:
            if not exhibit.has_growth:
                raise ArgumentError("only arrays of extarray have a growth map")
            array, shown = exhibit.array, exhibit.shown
            split = None if shown is array else SplitCells(array, shown)
            grid = array.grid if split is None else split.grid
            chunk = self.integers("chunk")
            if len(chunk) != len(grid) or not all(
                0 <= i < n for i, n in zip(chunk, grid, strict=True)
            ):
                raise BoundsError(f"no chunk {chunk} in the grid {list(grid)}")
            columns = self.chunks("columns", grid)
            rows = self.chunks("rows", grid) if self.get_argument("rows", "") else None
            cells = len(columns[1]) * (1 if rows is None else len(rows[1]))
            if cells > _MOST_CELLS:
                raise ArgumentError(f"{cells} cells; a growth map has up to {_MOST_CELLS}")
            facts, blocks = growth_map(array, names_of(shown), chunk, rows, columns, split)
            return pack(facts, *blocks)

        self.send(await self.work(self.site.answers, read), time.perf_counter() - clock)

    def chunks(self, name: str, grid: tuple[int, ...]) -> tuple[int, range]:
        """Return chunk indices along an axis, from an argument: axis, start, stop, most."""
        numbers = self.integers(name)
        if len(numbers) != 4:
            raise web.HTTPError(400, reason=f"{name} must be axis, start, stop and a number")
        span = Span(*numbers)
        check_span(span, grid)
        step = span.step(0)
        return span.axis, range(span.start, span.stop, step)
