"""A web server in a process of its own, that waits before each answer, and counts.

It sends files of a folder, whole or in ranges, over connections that stay open.  The first part of
a path only makes addresses differ: ``/1/a/b`` and ``/2/a/b`` are one file.
"""

from __future__ import annotations

import asyncio
import multiprocessing as mp
import re
import socket
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")
_PIECE = 1 << 18


@dataclass(frozen=True)
class Line:
    """A way to the server: seconds before each answer, and bytes a second of all answers."""

    latency: float
    bandwidth: float = 0.0  # 0: as fast as the loopback interface is

    def __str__(self) -> str:
        told = f"{self.latency * 1e3:g} ms a request"
        return told + (f", {self.bandwidth / 1e6:g} MB/s" if self.bandwidth else "")


@dataclass
class Count:
    """Requests, bytes of the bodies sent, and most requests at a time, since the last count."""

    requests: int = 0
    nbytes: int = 0
    most: int = 0


class Web:
    """A running server; it ends with the block.

    Parameters
    ----------
    folder : str
        The files to send.
    line : Line
    """

    def __init__(self, folder: str, line: Line) -> None:
        # Spawned: a fork would hold the pipes to the candidates.
        context = mp.get_context("spawn")
        self._pipe, there = context.Pipe()
        # Bound here, so that connections wait until the other process accepts them.
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._process = context.Process(
            target=_serve, args=(folder, self._socket, there), daemon=True
        )
        self._process.start()
        there.close()
        self.use(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._socket.close()

    def use(self, line: Line) -> None:
        """Answer as if over this line from now on."""
        self._pipe.send(asdict(line))
        self._pipe.recv()

    def counted(self) -> Count:
        """Return the count since the last call."""
        self._pipe.send(None)
        return self._pipe.recv()


def _serve(folder: str, listening: socket.socket, pipe: Connection) -> None:
    asyncio.run(_Server(Path(folder), pipe).run(listening))


class _Server:
    def __init__(self, folder: Path, pipe: Connection) -> None:
        self._folder, self._pipe = folder, pipe
        self._line = Line(0.0)
        self._count = Count()
        self._now = 0
        self._free = 0.0  # when the line has passed on all bytes

    async def run(self, listening: socket.socket) -> None:
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._told)
        async with await asyncio.start_server(self._connected, sock=listening):
            await self._ended.wait()

    def _told(self) -> None:
        try:
            message = self._pipe.recv()
        except EOFError:  # the parent died
            self._ended.set()
            return
        answer = self._count
        self._count = Count(most=self._now)
        if message is not None:
            self._line = Line(**message)
        self._pipe.send(answer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Else small answers wait for the client's delayed acknowledgement of their head: asyncio
        # leaves sockets alone that do not name their protocol.
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self._count.requests += 1
                self._now += 1
                self._count.most = max(self._count.most, self._now)
                try:
                    await asyncio.sleep(self._line.latency)
                    await self._answer(head, writer)
                finally:
                    self._now -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        request, *lines = head.split("\r\n")
        method, target, _ = request.split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        path = self._folder.joinpath(*unquote(urlsplit(target).path).split("/")[2:])
        if not path.is_file() or self._folder not in path.resolve().parents:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        size = path.stat().st_size
        low, high, status = 0, size, "200 OK"
        match = _RANGE.match(headers.get("range", ""))
        given: dict[str, Any] = {"Accept-Ranges": "bytes"}
        if match and any(match.groups()):
            first, last = match.groups()
            if first:
                low, high = int(first), min(size, int(last) + 1 if last else size)
            else:
                low = max(0, size - int(last))
            status = "206 Partial Content"
            given["Content-Range"] = f"bytes {low}-{high - 1}/{size}"
            if low >= high:
                low = high = 0
                status = "416 Range Not Satisfiable"
                given["Content-Range"] = f"bytes */{size}"
        given["Content-Length"] = high - low
        given["Content-Type"] = "application/octet-stream"
        given["ETag"] = f'"{path.stat().st_mtime_ns:x}"'
        given["Last-Modified"] = "Mon, 01 Jan 2024 00:00:00 GMT"
        told = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        writer.write(f"HTTP/1.1 {status}\r\n{told}\r\n".encode())
        if method != "HEAD":
            with path.open("rb") as file:
                file.seek(low)
                while low < high:
                    piece = file.read(min(_PIECE, high - low))
                    low += len(piece)
                    await self._pay(len(piece))
                    writer.write(piece)
                    self._count.nbytes += len(piece)
                    await writer.drain()
        await writer.drain()

    async def _pay(self, size: int) -> None:
        """Wait until the line has passed on so many bytes, of all answers."""
        if self._line.bandwidth:
            now = time.monotonic()
            self._free = max(self._free, now) + size / self._line.bandwidth
            await asyncio.sleep(self._free - now)
