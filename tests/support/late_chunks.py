"""Arrays whose chunks come late: from a dict, from compressed blobs, or from a server.

The array reads a local pair of files with the right length and seal, but without chunks.  Evicted
chunks are overwritten by bytes that no test stores, which exposes later reads.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import shutil
import threading
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

import extarray as xa
from extarray._core._supply import Supply
from extarray.array.life import attach_store

SEAL_BYTES = 32
GONE = b"\xee"


def blobs(path, chunk_bytes, n_chunks):
    """Return the chunks of a pair of files, by address."""
    data = Path(f"{path}.xta").read_bytes()
    return {q: data[q * chunk_bytes : (q + 1) * chunk_bytes] for q in range(n_chunks)}


class FromDict:
    """Chunks that are in a dict."""

    def __init__(self, path, chunk_bytes, n_chunks):
        self.chunks = blobs(path, chunk_bytes, n_chunks)

    def fetch(self, addresses):
        return {q: self.chunks[q] for q in addresses}

    def close(self):
        pass


class FromBlobs(FromDict):
    """Compressed chunks: a file of blobs, and a table of their places by address."""

    def __init__(self, path, chunk_bytes, n_chunks):
        packed = [zlib.compress(b, 1) for b in blobs(path, chunk_bytes, n_chunks).values()]
        ends = np.cumsum([len(b) for b in packed]).tolist()
        self.places = [(end - len(b), len(b)) for b, end in zip(packed, ends, strict=True)]
        self.log = b"".join(packed)

    def fetch(self, addresses):
        return {
            q: zlib.decompress(self.log[at : at + n])
            for q, (at, n) in ((q, self.places[q]) for q in addresses)
        }


class _Ranges(http.server.BaseHTTPRequestHandler):
    """Serves ranges of one file."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = self.server.body[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class FromServer:
    """Chunks from a server on this machine, with one request for neighbours."""

    def __init__(self, path, chunk_bytes, n_chunks):
        self.chunk_bytes = chunk_bytes
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Ranges)
        self.server.daemon_threads = True
        self.server.body = Path(f"{path}.xta").read_bytes()
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.thread.start()

    def fetch(self, addresses):
        found, addresses = {}, np.asarray(addresses)
        connection = http.client.HTTPConnection(*self.server.server_address)
        with contextlib.closing(connection):
            for run in np.split(addresses, np.flatnonzero(np.diff(addresses) > 1) + 1):
                first, stop = int(run[0]) * self.chunk_bytes, (int(run[-1]) + 1) * self.chunk_bytes
                connection.request("GET", "/", headers={"Range": f"bytes={first}-{stop - 1}"})
                body = connection.getresponse().read()
                for i, q in enumerate(run.tolist()):
                    found[q] = body[i * self.chunk_bytes : (i + 1) * self.chunk_bytes]
        return found

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


ORIGINS = {"dict": FromDict, "blobs": FromBlobs, "server": FromServer}


class Local:
    """A provider that writes chunks to a sparse local file.

    Attributes
    ----------
    asked : Counter
        Number of requests for each chunk.
    here : set
        Chunks present now.
    foretold : set
        Chunks announced by `ahead`.
    changed : set
        Chunks that may be requested while they are present.
    """

    def __init__(self, name, origin, chunk_bytes):
        self.fd = os.open(name, os.O_RDWR)
        self.origin, self.chunk_bytes = origin, chunk_bytes
        self.asked, self.here, self.foretold = Counter(), set(), set()
        self.changed = set()
        self.n_evicted = 0
        self.most = 0
        self.lock = threading.Lock()

    def provide(self, addresses):
        wanted = addresses.tolist()
        assert wanted == sorted(set(wanted)) and wanted
        with self.lock:
            assert self.here.isdisjoint({*wanted} - self.changed)  # requested once while present
        for q, chunk in self.origin.fetch(wanted).items():
            assert len(chunk) == self.chunk_bytes
            os.pwrite(self.fd, chunk, q * self.chunk_bytes)
        with self.lock:
            self.asked.update(wanted)
            self.here.update(wanted)
            self.most = max(self.most, len(self.here))

    def ahead(self, addresses):
        with self.lock:  # another thread may have brought some meanwhile
            self.foretold.update(addresses.tolist())

    def evict(self, addresses):
        with self.lock:
            assert self.here.issuperset(addresses.tolist())
            self.here.difference_update(addresses.tolist())
            self.n_evicted += len(addresses)
        for q in addresses.tolist():
            os.pwrite(self.fd, GONE * self.chunk_bytes, q * self.chunk_bytes)

    def close(self):
        os.close(self.fd)
        self.origin.close()


def hollow_copy(path, to):
    """Copy a pair of files; replace its chunks by bytes that nobody stored."""
    shutil.copyfile(f"{path}.xmd", f"{to}.xmd")
    data = Path(f"{path}.xta").read_bytes()
    Path(f"{to}.xta").write_bytes(GONE * (len(data) - SEAL_BYTES) + data[-SEAL_BYTES:])


@contextlib.contextmanager
def late(path, to, kind="dict", chunks_at_once=None, **options):
    """Open the array of a pair of files with late chunks; yield it and its provider."""
    hollow_copy(path, to)
    array = xa.open(to, **options)
    size = array.chunk_bytes
    provider = Local(f"{to}.xta", ORIGINS[kind](path, size, array.axial.size), size)
    now = array._store.now
    bound = None if chunks_at_once is None else chunks_at_once * size
    now.supply = Supply(provider, size, bound, now.trust)
    attach_store(array)
    try:
        yield array, provider
    finally:
        array.close()
        provider.close()
