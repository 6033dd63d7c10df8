"""The connections that the server keeps, and its behaviour without free descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os

import pytest

pytest.importorskip("tornado", reason="the server is Tornado (extra 'view')")

from extarray.view.connections import Connections


class Stream:
    """A connection that stays open until it is closed."""

    def __init__(self):
        self.is_closed = False

    def close(self):
        self.is_closed = True

    def closed(self):
        return self.is_closed


def still_open(streams):
    return [i for i, stream in enumerate(streams) if not stream.closed()]


def test_a_new_connection_displaces_the_oldest_stranger():
    connections = Connections(4)
    streams = [Stream() for _ in range(10)]
    for i, stream in enumerate(streams):
        assert connections.admit(stream)
        if i in (1, 3):
            connections.trust(stream)
    assert still_open(streams) == [1, 3, 8, 9]
    assert len(connections) == 4


def test_where_all_have_shown_the_token_none_is_displaced():
    connections = Connections(3)
    known = [Stream() for _ in range(3)]
    for stream in known:
        connections.admit(stream)
        connections.trust(stream)
    late = Stream()
    assert not connections.admit(late)
    assert late.closed() and still_open(known) == [0, 1, 2]
    known[1].close()
    assert connections.admit(Stream())
    assert still_open(known) == [0, 2]


def test_connections_that_have_ended_take_no_room():
    connections = Connections(3)
    first, second = Stream(), Stream()
    for stream in (first, second):
        connections.admit(stream)
    second.close()
    for _ in range(2):
        connections.admit(Stream())
    assert not first.closed()
    connections.trust(second)  # ignored: closed meanwhile
    connections.trust(Stream())  # ignored: never admitted
    assert len(connections) == 3


@pytest.mark.parametrize(
    ("limit", "most"),
    [(32, 16), (64, 16), (256, 104), (1024, 256), (None, 256)],
)
def test_there_is_room_for_half_of_the_descriptors(monkeypatch, limit, most):
    resource = pytest.importorskip("resource")
    limit = resource.RLIM_INFINITY if limit is None else limit
    monkeypatch.setattr(resource, "getrlimit", lambda number: (limit, limit))
    assert Connections().most == most


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED])
def test_accepting_rests_where_no_descriptor_is_left(monkeypatch, number):
    """The server closes one stranger per failure, and pauses when no stranger is left."""
    pauses = []

    async def rest(seconds):
        pauses.append(seconds)
        if len(pauses) == 5:
            raise asyncio.CancelledError

    async def fail(listening):
        raise OSError(number, os.strerror(number))

    async def run():
        connections = Connections(4)
        streams = [Stream() for _ in range(3)]
        for stream in streams:
            connections.admit(stream)
        connections.trust(streams[0])
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_accept", fail)
        monkeypatch.setattr(asyncio, "sleep", rest)
        with contextlib.suppress(asyncio.CancelledError):
            await connections.accept(None, None)
        return streams

    assert still_open(asyncio.run(run())) == [0]
    assert pauses[:2] == [0, 0]
    assert all(pause >= 0.05 for pause in pauses[2:])
