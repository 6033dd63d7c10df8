"""Chunks on their way to the shadow file: each is written there as soon as it has come."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest

from extarray.errors import RemoteError
from extarray.fetched.chunks import Arrived, Chunks, Version
from extarray.fetched.shadow import shadow_of

SIZE = 5000
VERSION = Version(0, True)


def chunk(address):
    return bytes([address]) * SIZE


class Slow:
    """An origin whose chunks come one by one, from the last one on; it notes the calls."""

    def __init__(self, shadow):
        self.shadow, self.version = shadow, VERSION
        self.calls, self.here = [], []
        self.error = None

    def fetch(self, addresses):
        self.calls.append(("fetch", addresses.tolist()))
        yield from self.begun(addresses.tolist(), range(len(addresses)), None)

    def n_threads(self, n_chunks):
        return 1

    def start(self, addresses):
        self.calls.append(("start", addresses.tolist()))
        return Handle(self, addresses.tolist())

    def begun(self, addresses, wanted, error):
        for number in sorted(wanted, reverse=True):
            if error is not None and number == 0:
                raise error
            yield Arrived([(number, chunk(addresses[number]))], VERSION)
            address = addresses[number]
            self.here.append(self.shadow.read(SIZE, address * SIZE) == chunk(address))


class Handle:
    def __init__(self, origin, addresses):
        self.origin, self.addresses = origin, addresses

    def arrivals(self, wanted):
        return self.origin.begun(self.addresses, wanted, self.origin.error)

    def cancel(self):
        self.origin.calls.append("cancel")


@pytest.fixture
def origin():
    shadow = shadow_of("shadow")
    shadow.length = 9 * SIZE
    yield Slow(shadow)
    shadow.close()


def provided(origin, chunks, addresses):
    chunks.provide(np.array(addresses))
    return all(origin.shadow.read(SIZE, q * SIZE) == chunk(q) for q in addresses)


def test_chunks_are_written_as_they_come(origin):
    chunks = Chunks(origin.shadow, SIZE, origin)
    assert provided(origin, chunks, [2, 3, 5])
    chunks.ahead(np.array([1, 6, 7, 8]))
    assert provided(origin, chunks, [4, 6, 8])
    assert provided(origin, chunks, [1])
    assert origin.calls == [
        ("fetch", [2, 3, 5]),
        ("start", [1, 6, 7, 8]),
        ("fetch", [4]),
    ]
    assert origin.here == [True] * 7


@pytest.mark.parametrize("error", [RemoteError(5, "reset"), CancelledError()])
def test_chunks_that_do_not_come_are_fetched_anew(origin, error):
    """Chunks that had come by then are kept; all others are asked for again."""
    origin.error = error
    chunks = Chunks(origin.shadow, SIZE, origin)
    chunks.ahead(np.array([1, 2, 3]))
    assert provided(origin, chunks, [1, 2])
    assert origin.calls[1:] == [("fetch", [1])]
    assert provided(origin, chunks, [3])
    assert origin.calls[2:] == [("fetch", [3])]


def test_chunks_are_announced_within_memory(origin):
    chunks = Chunks(origin.shadow, SIZE, origin)
    chunks.bytes_ahead = 2 * SIZE
    chunks.ahead(np.array([1, 2, 3]))
    chunks.ahead(np.array([2, 3]))
    assert origin.calls == [("start", [1, 2])]


def test_threads_share_what_is_on_its_way(origin):
    chunks = Chunks(origin.shadow, SIZE, origin)
    chunks.ahead(np.arange(8))
    right = []

    def work(first):
        right.append(provided(origin, chunks, list(range(first, 8, 4))))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 4
    assert origin.calls == [("start", list(range(8)))]
