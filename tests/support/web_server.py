"""An HTTP server on the loopback interface that counts requests and fails as it is told."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")

#: Bytes of an endless body that the server is ready to send: it ends, in case nobody ends it.
_ENDLESS = 1 << 30


@dataclass
class Request:
    """A request as it came: with the bytes of its answer's body, once they are sent."""

    method: str
    path: str
    headers: dict[str, str]
    arrived: float
    status: int = 0
    sent: int = 0

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass
class Fault:
    """Something that goes wrong with one request; `kind` names a method of the handler."""

    kind: str
    value: object = None


@dataclass
class WebServer:
    """Objects by name, as a web server has them.

    `fail(kind, value, times)` makes the next requests fail; `latency` is in seconds, and
    `bandwidth` in bytes a second for all connections together, if it is given.  `certificate` names
    the files of a certificate and its key, for https.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    latency: float = 0.0
    bandwidth: float | None = None
    has_suffix: bool = True
    has_tags: bool = True
    has_dates: bool = False
    may_list: bool = True  # of a bucket: otherwise it denies that an object is missing
    date: str = "Thu, 26 Nov 2026 22:00:00 GMT"
    requests: list[Request] = field(default_factory=list)
    faults: deque[Fault] = field(default_factory=deque)
    most_at_once: int = 0
    certificate: tuple[str, str] | None = None

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._now = 0
        self._tags: dict[str, tuple[bytes, str]] = {}
        self._free = 0.0
        self._open: set[socket.socket] = set()
        self.ended = threading.Event()
        outer = self

        class Handler(_Handler):
            web = outer

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def process_request(self, request, client_address):
                """Remember the connection: clients keep it open for further requests."""
                outer._open.add(request)
                super().process_request(request, client_address)

            def shutdown_request(self, request):
                """Forget the connection."""
                outer._open.discard(request)
                super().shutdown_request(request)

            def handle_error(self, request, client_address):
                """Say nothing of clients that leave."""

        self._server = Server(("127.0.0.1", 0), Handler)
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *error) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        # A thread waits at each connection for a minute, and keeps the objects in memory.
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def url(self, name: str = "") -> str:
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}/{name}"

    def fail(self, kind: str, value: object = None, times: int = 1) -> None:
        self.faults.extend([Fault(kind, value)] * times)

    def forget(self) -> None:
        """Begin to count anew."""
        self.requests.clear()
        self.most_at_once = 0

    @property
    def sent(self) -> int:
        return sum(request.sent for request in self.requests)

    def tag(self, name: str) -> str:
        data = self.objects[name]
        known, tag = self._tags.get(name, (None, ""))
        if known is not data:
            tag = '"' + hashlib.md5(data).hexdigest() + '"'
            self._tags[name] = data, tag
        return tag

    # -- for the handler -------------------------------------------------------------------------

    def begin(self, request: Request) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            return self.faults.popleft() if self.faults else None

    def end(self) -> None:
        with self._lock:
            self._now -= 1

    def pause(self, seconds: float) -> None:
        """Wait, unless the server ends."""
        if seconds > 0:
            self.ended.wait(seconds)

    def pay(self, size: int) -> None:
        """Wait until the line has passed on so many bytes."""
        if self.bandwidth:
            with self._lock:
                self._free = max(self._free, time.monotonic()) + size / self.bandwidth
                wait = self._free - time.monotonic()
            self.pause(wait)


class _Handler(BaseHTTPRequestHandler):
    web: WebServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def log_message(self, *args) -> None:
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.request_now = Request(self.command, self.path, headers, time.monotonic())
        fault = self.web.begin(self.request_now)
        try:
            self.web.pause(self.web.latency)
            if fault is None:
                self.answer()
            else:
                getattr(self, "fault_" + fault.kind)(fault.value)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self.web.end()

    do_HEAD = do_GET  # noqa: N815 -- the name that http.server calls

    def do_PUT(self) -> None:
        """Keep an object, as a bucket does."""
        self.request_now = Request(self.command, self.path, {}, time.monotonic())
        name = self.name()
        self.web.objects[name] = self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(200, b"", {"ETag": self.web.tag(name)})

    def name(self) -> str:
        return urllib.parse.unquote(urllib.parse.urlsplit(self.path).path.lstrip("/"))

    def answer(self, **changes) -> None:
        """Answer as a good server does, but for `changes`."""
        web, headers = self.web, self.request_now.headers
        name = self.name()
        if name not in web.objects:
            self.reply(404 if web.may_list else 403, b"no such object")
            return
        data, tag = web.objects[name], web.tag(name)
        given = {"Accept-Ranges": "bytes"}
        if web.has_tags:
            given["ETag"] = tag
        if web.has_dates:
            given["Last-Modified"] = web.date
        given |= changes.get("headers", {})
        wanted = headers.get("if-match")
        if wanted is not None and wanted not in {"*", tag}:
            self.reply(412, b"", given)
            return
        if web.has_tags and tag in headers.get("if-none-match", ""):
            self.reply(304, b"", given)
            return
        low, high, status = 0, len(data), 200
        match = _RANGE.match(headers.get("range", ""))
        if match and "ignore_range" not in changes:
            first, last = match.groups()
            if not first:
                if not web.has_suffix:
                    self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                    return
                low = max(0, len(data) - int(last))
            else:
                low, high = int(first), min(len(data), int(last) + 1 if last else len(data))
            if low >= len(data):
                self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
            low += changes.get("shift", 0)
            high += changes.get("shift", 0)
            status = 206
            given["Content-Range"] = changes.get(
                "content_range", f"bytes {low}-{high - 1}/{len(data)}"
            )
        body = changes.get("body", lambda part: part)(data[low:high])
        self.reply(status, body, given, cut=changes.get("cut"))

    def reply(self, status: int, body: bytes, headers=None, cut: int | None = None) -> None:
        """Send an answer; of its body only `cut` bytes, after which the connection ends."""
        self.request_now.status = status
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 304 and not any(n.lower() == "content-length" for n in headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        for at in range(0, len(body) if cut is None else cut, 1 << 16):
            part = body[at : at + (1 << 16) if cut is None else min(cut, at + (1 << 16))]
            self.web.pay(len(part))
            self.wfile.write(part)
            self.request_now.sent += len(part)
        if cut is not None:
            self.close_connection = True

    # -- faults ----------------------------------------------------------------------------------

    def fault_none(self, value) -> None:
        self.answer()

    def fault_status(self, value) -> None:
        status, headers = value if isinstance(value, tuple) else (value, {})
        self.reply(status, b"<Error>not now</Error>", headers)

    def fault_reset(self, value) -> None:
        """Reset the connection instead of an answer."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def fault_short(self, value) -> None:
        """End the connection after so many bytes of the body."""
        self.answer(cut=value)

    def fault_short_body(self, value) -> None:
        """Send fewer bytes than the range has, and say so."""
        self.answer(body=lambda part: part[:-1])

    def fault_long_body(self, value) -> None:
        self.answer(body=lambda part: part + b"x")

    def fault_whole(self, value) -> None:
        """Answer 200 to a range."""
        self.answer(ignore_range=True)

    def fault_shift(self, value) -> None:
        """Send another range, and say so."""
        self.answer(shift=value)

    def fault_content_range(self, value) -> None:
        self.answer(content_range=value)

    def fault_headers(self, value) -> None:
        self.answer(headers=value)

    def fault_encoded(self, value) -> None:
        """Compress, though nobody asked for it."""
        import gzip

        self.answer(body=gzip.compress, headers={"Content-Encoding": "gzip"})

    def fault_chunked(self, value) -> None:
        """Send the right head, and a body of chunks that is `value` bytes too long or short."""
        self._endless(lambda sent, wanted: sent >= wanted + value)

    def fault_endless(self, value) -> None:
        """Send a body that does not end."""
        self._endless(lambda sent, wanted: sent >= _ENDLESS)

    def _endless(self, is_over) -> None:
        name = self.name()
        size = len(self.web.objects[name])
        first, last = _RANGE.match(self.request_now.headers["range"]).groups()
        low = int(first) if first else max(0, size - int(last))
        high = min(size, int(last) + 1) if first else size
        self.request_now.status = 206
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {low}-{high - 1}/{size}")
        self.send_header("ETag", self.web.tag(name))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not is_over(self.request_now.sent, high - low) and not self.web.ended.is_set():
            part = b"z" * 1000
            if not is_over(self.request_now.sent + 1000, high - low):
                part = b"z" * 1000
            else:
                part = b"z"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            self.request_now.sent += len(part)
        self.wfile.write(b"0\r\n\r\n")

    def fault_giant(self, value) -> None:
        """Announce more bytes than there is memory."""
        self.answer(headers={"Content-Length": str(1 << 50)}, cut=1)

    def fault_slow(self, value) -> None:
        """Wait so many seconds before the answer."""
        self.web.pause(value)
        self.answer()

    def fault_trickle(self, value) -> None:
        """Send a byte of the body, wait so many seconds, and so on."""
        web, pace = self.web, value
        write = self.wfile.write

        def slowly(data):
            if data.startswith(b"HTTP/"):
                write(data)
                return
            for byte in memoryview(data).tobytes():
                if web.ended.is_set():
                    break
                write(bytes([byte]))
                web.pause(pace)

        self.wfile.write = slowly
        try:
            self.answer()
        finally:
            self.wfile.write = write
            self.close_connection = True

    def fault_redirect(self, value) -> None:
        self.reply(302, b"", {"Location": value})

    def fault_garbage(self, value) -> None:
        """Answer with bytes that are no HTTP."""
        self.wfile.write(b"\0\xff\r\n" * 100)
        self.close_connection = True

    def fault_head_bomb(self, value) -> None:
        """Send headers that do not end."""
        self.wfile.write(b"HTTP/1.1 206 Partial Content\r\n")
        line = b"X-More: " + b"a" * 8000 + b"\r\n"
        while not self.web.ended.is_set() and self.request_now.sent < _ENDLESS:
            self.wfile.write(line)
            self.request_now.sent += len(line)
