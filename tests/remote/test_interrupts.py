"""Ctrl-C ends a read at once; forked processes; hostile servers and memory."""

from __future__ import annotations

import signal
import time

import pytest
from web_server import Fault, WebServer

pytest.importorskip("obstore")

DATA = bytes(range(256)) * 4000

WAYS = {
    "open": "RemoteObject.read_tail(location, 10)",
    "read": "found.read(0, 10)",
    "ranges": "found.read_ranges(range(0, 900_000, 30_000), [10] * 30)",
    "arrivals": "print(*found.start([0, 500_000], [10, 10]).arrivals([1]))",
    "ahead": "found.start([0], [10]).result()",
    "refreshed": "found.refreshed()",
}


@pytest.fixture
def web():
    with WebServer({"x": DATA}) as server:
        yield server


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("library", ["obstore", "fsspec"])
@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_a_read_at_once(web, script, way, library):
    """The server would answer after a minute, and the process does not wait for it at its end."""
    if library == "fsspec":
        pytest.importorskip("aiohttp")
    web.faults.extend([Fault("none"), *[Fault("slow", 200)] * 100])
    process = script.start(
        f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from extarray.remote.objects import Location, RemoteObject
target = sys.argv[1]
if {library!r} == "fsspec":
    import fsspec
    target = (fsspec.filesystem("http"), target)
location = Location.of(target, {{"timeout": 100, "coalesce": 0}})
found, _ = RemoteObject.read_tail(location, 10)
print("begun", flush=True)
try:
    {WAYS[way]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
""",
        web.url("x"),
    )
    with process:
        assert process.stdout.readline() == "begun\n"
        until(lambda: len(web.requests) >= 2)
        process.send_signal(signal.SIGINT)
        # The server goes on to wait: the read has not ended by itself, nor does the end of Python
        # wait for it.
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(100) == 0
        assert process.stdout.read() == ""


def until(condition):
    end = time.monotonic() + 250
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.process
def test_a_forked_child_reads_by_fsspec_or_is_told(web, script):
    script(
        """
import os, sys
from extarray.errors import RemoteError
from extarray.remote.objects import Location, RemoteObject

location = Location.of(sys.argv[1])
found, _ = RemoteObject.read_tail(location, 10)
assert found.read(0, 3) == bytes(range(3))
try:
    import aiohttp
except ImportError:
    aiohttp = None

def child(expect_error):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            try:
                ok = found.read(0, 3) == bytes(range(3)) and not expect_error
            except RemoteError as error:
                ok = expect_error and "spawn" in str(error)
                print(error)
            status = 0 if ok else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, in newer Pythons
child(aiohttp is None)
sys.modules["fsspec"] = sys.modules["fsspec.core"] = None
child(True)
assert found.read(5, 3) == bytes(range(5, 8))
""",
        web.url("x"),
    )


@pytest.mark.slow
@pytest.mark.process
def test_a_process_that_forks_before_it_reads(web, script):
    script(
        """
import os, sys
from extarray.remote.objects import Location, RemoteObject
location = Location.of(sys.argv[1])
pid = os.fork()
found, _ = RemoteObject.read_tail(location, 10)
assert found.read(0, 3) == bytes(range(3))
if pid:
    assert os.waitpid(pid, 0)[1] == 0
""",
        web.url("x"),
    )


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("library", ["obstore", "fsspec"])
@pytest.mark.parametrize("fault", ["endless", "giant", "head_bomb", "encoded"])
def test_a_hostile_server_takes_no_memory(web, script, fault, library):
    if library == "fsspec":
        pytest.importorskip("aiohttp")
    web.objects["x"] = bytes(1 << 24)  # compresses well
    web.faults.extend([Fault("none"), *[Fault(fault)] * 9])
    used = script(
        f"""
import resource, sys
from extarray.common.limits import limits
from extarray.errors import RemoteError
from extarray.remote.objects import Location, RemoteObject
limits.remote_pause = 0.001
target = sys.argv[1]
if {library!r} == "fsspec":
    import fsspec
    target = (fsspec.filesystem("http"), target)
found, _ = RemoteObject.read_tail(Location.of(target, {{"retries": 2}}), 10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    found.read(1000, 2_000_000)
except RemoteError as error:
    print(error, file=sys.stderr)
else:
    raise AssertionError("read")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""",
        web.url("x"),
    )
    assert int(used) < 64 << 10  # KiB; the server was ready to send 1 GiB
