"""The connections that are open: as many as the process has room for, whoever makes them."""

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
_OTHERS = 48  # descriptors of arrays and of the interpreter
_READ_BYTES = 1 << 20  # that a connection may have sent before the server looks at them
_PAUSE = 0.1  # seconds until a descriptor may be free


class Connections:
    """Streams of Tornado that are open.

    A new connection that finds no room displaces the oldest stranger, which is a connection that
    has not shown the token.  So strangers that hold connections shut nobody out: a browser shows
    the token as soon as it is connected, and keeps its place from then on.

    Parameters
    ----------
    most : int, optional
        Connections at a time; by default as many as half of the descriptors that the process can
        spare, and 256 at most.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = _room() if most is None else most
        self._strangers: dict[Any, None] = {}  # the oldest first
        self._known: set[Any] = set()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def admit(self, stream: Any) -> bool:
        """Tell whether there is room for a new stream, which is closed if there is none."""
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
            Does not block.
        handle : callable
            Is given the stream and the address of each connection that is admitted.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError:
                # There is no descriptor.  The connection stays in the queue, so the socket is
                # readable all the time: without a pause this loop would take a whole core.
                await asyncio.sleep(0 if self._displace() else _PAUSE)
                continue
            stream = iostream.IOStream(connection, max_buffer_size=_READ_BYTES)
            if self.admit(stream):
                handle(stream, address)
            # The queue may never be empty: those admitted have their turn before the next.
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
    """Return how many connections the limit on descriptors leaves room for."""
    limit = most_open_files()
    if limit is None:
        return _MOST
    return max(_LEAST, min(_MOST, (limit - _OTHERS) // 2))
