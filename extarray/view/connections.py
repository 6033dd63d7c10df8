"""The open connections, as many as the process has room for, whoever makes them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from extarray.common.extras import require
from extarray.common.system import most_open_files

__all__ = ["Connections"]

iostream: Any = require("tornado.iostream", "view", "extarray view")

_MOST = 256
_LEAST = 16
_OTHERS = 48  # descriptors for arrays and the interpreter
_READ_BYTES = 1 << 20  # input that the server buffers for a connection
_PAUSE = 0.1  # seconds until a descriptor may be free


class Connections:
    """The open streams of Tornado.

    A new connection without room displaces the oldest stranger, a connection that has not shown the
    token.  So strangers cannot keep others out: a browser shows the token as soon as it is
    connected, and keeps its place from then on.

    Parameters
    ----------
    most : int, optional
        Most connections at a time; default: half of the descriptors that the process can spare, at
        most 256.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = _room() if most is None else most
        self._strangers: dict[Any, None] = {}  # oldest first
        self._known: set[Any] = set()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def admit(self, stream: Any) -> bool:
        """Tell whether there is room for a new stream, and close it if not."""
        self._strangers = {one: None for one in self._strangers if not one.closed()}
        self._known = {one for one in self._known if not one.closed()}
        if len(self) >= self.most and not self._displace():
            stream.close()
            return False
        self._strangers[stream] = None
        return True

    def trust(self, stream: Any) -> None:
        """Keep a stream that has shown the token."""
        if stream in self._strangers:
            del self._strangers[stream]
            self._known.add(stream)

    async def accept(self, listening: socket.socket, handle: Callable[[Any, Any], object]) -> None:
        """Accept connections until cancelled.

        Parameters
        ----------
        listening : socket
            Non-blocking.
        handle : callable
            Called with the stream and the address of each admitted connection.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError:
                # No descriptor is free.  The connection stays in the queue, so the socket stays
                # readable: without a pause this loop would take a whole core.
                await asyncio.sleep(0 if self._displace() else _PAUSE)
                continue
            stream = iostream.IOStream(connection, max_buffer_size=_READ_BYTES)
            if self.admit(stream):
                handle(stream, address)
            # The queue may never be empty: let admitted connections run before the next.
            await asyncio.sleep(0)

    def _displace(self) -> bool:
        """Close the oldest stranger; tell whether there was one."""
        for stream in self._strangers:
            if not stream.closed():
                stream.close()
                del self._strangers[stream]
                return True
        return False


def _room() -> int:
    """Return how many connections the limit on descriptors allows."""
    limit = most_open_files()
    if limit is None:
        return _MOST
    return max(_LEAST, min(_MOST, (limit - _OTHERS) // 2))
