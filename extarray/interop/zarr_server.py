"""A store of Zarr on a port of this machine, for programs that read Zarr from an address."""

from __future__ import annotations

import contextlib
import http.server
import re
import secrets
import socket
import threading
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from extarray.common.errors import ArgumentError, ExtArrayError, storage_error

if TYPE_CHECKING:
    from typing import Self

__all__ = ["ZarrServer"]

_ADDRESS = "127.0.0.1"
#: Seconds between two looks of the server at whether it is to end.
_LOOK = 0.05


class _Values(Protocol):
    """A store, as far as it is served."""

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """Return a value as a buffer of Zarr, or None."""


class ZarrServer:
    """Serves a store on a port of this machine; a context manager.

    Made by `ZarrStore.serve`.

    Parameters
    ----------
    store : ZarrStore
    name : str
        Last part of the address.
    port : int
        0: a free one.

    Attributes
    ----------
    url : str
        Address of the store.

    Notes
    -----
    Programs on other machines cannot connect.  The address has a random part, without which nothing
    is served, so other users of the machine, and pages in the browser, do not find the arrays.
    Viewers in the browser may read from it.
    """

    def __init__(self, store: _Values, name: str, port: int = 0) -> None:
        if not 0 <= port < 1 << 16:
            raise ArgumentError(
                f"port {port} is out of range; give 1 to {(1 << 16) - 1}, or 0 for any free port"
            )
        root = f"/{secrets.token_urlsafe(16)}/{quote(name)}/"
        handler = type("Handler", (_Handler,), {"store": store, "root": root})
        try:
            self._server = _Server((_ADDRESS, port), handler)
        except OSError as error:
            raise storage_error(
                error,
                f"cannot listen on port {{}} of {_ADDRESS}; give another, or 0 for any free port",
                port,
            ) from None
        self.url = f"http://{_ADDRESS}:{self._server.server_port}{root.rstrip('/')}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK,), daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"<extarray.interop.zarr_server.ZarrServer: {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; closing twice is allowed."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.hang_up()


class _Server(http.server.ThreadingHTTPServer):
    """A server that ends its connections, which clients keep for more requests."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._connections: set[Any] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection in a thread."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End all connections."""
        for connection in self._connections.copy():
            with contextlib.suppress(OSError):  # it has ended
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for values and ranges of them."""

    protocol_version = "HTTP/1.1"
    store: _Values
    root: str

    def handle(self) -> None:
        """Answer requests until either side ends the connection."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        """Send a value, or a range of it."""
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        """Send the size of a value."""
        self._answer(has_body=False)

    def do_OPTIONS(self) -> None:
        """Let pages of other origins ask for ranges."""
        self._send(204, b"", True)

    def _answer(self, has_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        root = unquote(self.root)
        if not path.startswith(root):
            self._send(404, b"", has_body)
            return
        try:
            found = self.store.get_sync(path[len(root) :])
        except ExtArrayError as error:
            self._send(500, str(error).encode(), has_body)
            return
        if found is None:
            self._send(404, b"", has_body)
            return
        data = memoryview(found.as_numpy_array()).cast("B")
        part = _part_of(self.headers.get("Range"), len(data))
        if part is None:
            self._send(200, data, has_body)
        elif part.start >= part.stop:
            self._send(416, b"", has_body, f"bytes */{len(data)}")
        else:
            place = f"bytes {part.start}-{part.stop - 1}/{len(data)}"
            self._send(206, data[part], has_body, place)

    def _send(
        self, status: int, body: bytes | memoryview, has_body: bool, place: str | None = None
    ) -> None:
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Cache-Control", "no-store")  # it grows
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Allow-Headers", "Range")
            self.send_header("Access-Control-Expose-Headers", "Content-Range, Content-Length")
            if place is not None:
                self.send_header("Content-Range", place)
            self.end_headers()
            if has_body:
                self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def _part_of(said: str | None, size: int) -> slice | None:
    """Return the bytes that a header ``Range`` asks for; None: all of them.

    Examples
    --------
    >>> _part_of("bytes=2-4", 9), _part_of("bytes=-2", 9), _part_of("bytes=2-4,7-8", 9)
    (slice(2, 5, None), slice(7, 9, None), None)
    """
    found = re.fullmatch(r"bytes=(\d{0,19})-(\d{0,19})", said or "")
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        return slice(max(0, size - int(last)), size)
    return slice(int(first), min(size, int(last) + 1) if last else size)
