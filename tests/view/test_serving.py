"""``extarray view`` as a process: its address, its socket, its end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from viewing import Server, until

import extarray as xa
from extarray import cli

pytest.importorskip("tornado", reason="the server is Tornado (extra 'view')")

from tornado.websocket import websocket_connect

from extarray.view import serve

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def array(path):
    xa.zeros((3, 4), path=path, chunks=2).close()
    return path


def run(*args):
    return subprocess.run(
        [sys.executable, "-m", "extarray", "view", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def ask(url, what):
    parts = urlsplit(url)
    token = parts.fragment.removeprefix("token=")
    request = urllib.request.Request(
        f"http://{parts.netloc}/api/{what}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def request(url, what):
    """Return a request with the token."""
    token = urlsplit(url).fragment.removeprefix("token=")
    return (
        f"GET /api/{what} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


def connect(url):
    return socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=30)


def send(connection, data):
    """Send if the server still listens."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)


def is_closed(connection):
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


async def follow(url, name="scene"):
    """Open the WebSocket of a page that shows an array, and knows nothing of it yet."""
    parts = urlsplit(url)
    protocols = ["extarray-view", parts.fragment.removeprefix("token=")]
    socket = await websocket_connect(f"ws://{parts.netloc}/api/news", subprotocols=protocols)
    await socket.write_message(
        json.dumps({"arrays": [{"name": name, "revision": 0}], "tree": None})
    )
    return socket


async def until_closed(socket):
    """Read a WebSocket to its end; return its close code."""
    while await socket.read_message() is not None:
        pass
    socket.close()  # Tornado warns unless the client closes, too
    return socket.close_code


def test_an_address_with_a_token_and_an_end_by_ctrl_c(array):
    with Server(array, "--no-browser") as server, Server(array, "--no-browser") as other:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]{40,}", server.url)
        assert urlsplit(server.url).fragment != urlsplit(other.url).fragment
        assert b"scene" in ask(server.url, "arrays")


def test_the_arrays_of_a_packed_group(tmp_path):
    with xa.open_group(tmp_path / "group", "w") as g:
        g["north/level"] = [1, 2]
        g.create("wind", (2, 3))
        xa.pack(g, tmp_path / "group.xap")
    with Server(tmp_path / "group.xap", "--no-browser") as server:
        listed = ask(server.url, "arrays")
        assert b"north/level" in listed and b"wind" in listed
        assert b'"dtype"' in ask(server.url, "array?name=north/level")
        for name in ("../group/wind", "group.xap/wind", "level"):
            with pytest.raises(urllib.error.HTTPError, match="404") as found:
                ask(server.url, f"array?name={name}")
            found.value.close()
    with Server(tmp_path / "group.xap" / "north", "--no-browser") as server:
        assert b'"level"' in ask(server.url, "arrays")


def test_ctrl_c_while_pages_wait_for_news(array):
    async def wait_for_end(server):
        sockets = [await follow(server.url) for _ in range(7)]
        for one in sockets:
            assert json.loads(await one.read_message())["name"] == "scene"
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, server.end) == (0, "")
        for one in sockets:
            assert await until_closed(one) == 1001

    with Server(array, "--no-browser") as server:
        asyncio.run(wait_for_end(server))


def test_more_pages_wait_for_news_than_a_browser_has_connections(array):
    async def run(server):
        sockets = [await follow(server.url) for _ in range(7)]
        for one in sockets:
            assert json.loads(await one.read_message())["shape"] == [3, 4]
        with xa.open(array, mode="r+") as a:
            a.extend(0, 2)
        for one in sockets:
            while json.loads(await one.read_message())["shape"] != [5, 4]:
                pass
            one.close()
            await until_closed(one)

    with Server(array, "--no-browser") as server:
        asyncio.run(run(server))


def test_strangers_shut_nobody_out(array):
    # Open more connections than the server may have descriptors; each begins a request.
    with Server(array, "--no-browser", descriptors=64) as server, contextlib.ExitStack() as stack:
        own = stack.enter_context(connect(server.url))
        own.sendall(request(server.url, "arrays"))
        assert b"scene" in own.recv(1 << 16)
        strangers = [stack.enter_context(connect(server.url)) for _ in range(339)]
        for stranger in strangers:
            send(stranger, b"GET / HTTP/1.1\r\n")
        assert b"scene" in ask(server.url, "arrays")
        # The oldest strangers are displaced; a connection that has shown the token is not.
        assert until(lambda: is_closed(strangers[0]))
        own.sendall(request(server.url, "array?name=scene"))
        assert b'"dtype"' in own.recv(1 << 16)
        more = [stack.enter_context(connect(server.url)) for _ in range(50)]
        assert b"scene" in ask(server.url, "arrays")
        assert len(more) == 50
    # `Server` checks that nothing was logged.


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process, and its list")
def test_where_descriptors_run_out_strangers_go(array):
    resource = pytest.importorskip("resource")
    # Other things than connections may need descriptors, too.
    with Server(array, "--no-browser") as server, contextlib.ExitStack() as stack:
        assert b"scene" in ask(server.url, "arrays")
        used = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used + 10, hard))
        strangers = [stack.enter_context(connect(server.url)) for _ in range(60)]
        for stranger in strangers:
            send(stranger, b"GET / HTTP/1.1\r\n")
        for _ in range(5):
            assert b"scene" in ask(server.url, "arrays")
        assert until(lambda: is_closed(strangers[0]))


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=["nothing", "headers", "body", "the next request"],
)
def test_requests_that_never_end_are_given_up(array, begin):
    with Server(array, "--no-browser", patience=0.5) as server, connect(server.url) as slow:
        slow.sendall(begin)

        def has_ended():
            # A byte now and then does not extend the time.
            send(slow, b"a")
            return is_closed(slow)

        until(has_ended)
        assert b"scene" in ask(server.url, "arrays")


def test_what_cannot_be_understood_is_not_logged(array):
    form = b"Content-Type: multipart/form-data; boundary=x\r\n\r\n12"
    requests = [
        b"\x00\xff\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: [\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://[\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /api/news HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\r\n",
        b"GET /api/arrays HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: \xff\xfe\r\n\r\n",
        b"GET " + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n" + form,
    ]
    with Server(array, "--no-browser", patience=0.5) as server:
        for text in requests:
            with connect(server.url) as stranger:
                send(stranger, text)
                until(functools.partial(is_closed, stranger))
    # `Server` checks that nothing was logged.


def test_a_fault_that_comes_again_and_again_fills_no_log(array):
    code = """
import asyncio, logging, sys
from extarray.view import serve
def fail_and_end(line):
    loop = asyncio.get_running_loop()
    for name in ("tornado.general", "tornado.application", "asyncio"):
        for i in range(1000):
            logging.getLogger(name).error("fault %d", i)
    if "Ctrl-C" in line:
        import signal
        signal.raise_signal(signal.SIGINT)
serve(sys.argv[1], browser=False, say=fail_and_end)
logging.getLogger("asyncio").error("afterwards")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(array)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert lines[0] == "fault 0"
    assert lines[-1] == "afterwards"
    assert "further messages are suppressed" in lines
    assert len(lines) < 100


def test_a_signal_to_terminate_ends_it_too(array):
    server = Server(array, "--no-browser")
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's list of sockets")
def test_nobody_outside_the_machine_can_connect(array):
    with Server(array, "--no-browser") as server:
        port = urlsplit(server.url).port
        listening = [
            line.split()[1]
            for table in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
            if line.split()[3] == "0A" and int(line.split()[1].split(":")[1], 16) == port
        ]
        assert listening == [f"0100007F:{port:04X}"]


def test_a_port_can_be_chosen_and_may_be_in_use(array):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = run(array, "--no-browser", "--port", port)
        assert done.returncode == 1
        assert done.stdout == ""
        assert re.fullmatch(rf"extarray view: .*port {port} .*\n", done.stderr)
    with Server(array, "--no-browser", "--port", str(port)) as server:
        assert urlsplit(server.url).port == port


def test_the_browser_gets_a_file_that_nobody_else_can_read(array, tmp_path):
    # A program's arguments are public, and the address has the token.
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.new\nmv {seen}.new {seen}\n')
    browser.chmod(0o700)
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    with Server(array, environment=environment) as server:
        until(seen.exists)
        url = seen.read_text().strip()
        assert "token" not in url
        file = Path(urlsplit(url).path)
        assert server.url in file.read_text()
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not file.exists()


@pytest.mark.parametrize("prepare", [lambda p: None, Path.mkdir], ids=["nothing", "empty folder"])
def test_where_no_array_is(path, prepare, capsys):
    prepare(path)
    assert cli.main(["view", str(path), "--no-browser"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("extarray view: ")
    assert captured.err.count("\n") == 1


def test_a_port_that_is_none(array, capsys):
    assert cli.main(["view", str(array), "--no-browser", "--port", "70000"]) == 2
    assert "70000" in capsys.readouterr().err


def test_the_log_moves_no_cursor(monkeypatch, capsys):
    """Libraries log texts that anybody may send."""
    from extarray.view import serving

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with serving.logged():
        logging.getLogger("tornado.application").error("GET /%s", "\x9b2J\x1b[2J\ue000")
    assert capsys.readouterr().err == "GET /\\x9b2J\\x1b[2J\ue000\n"
    assert not logging.getLogger("tornado").handlers


def test_notebooks_and_threads_are_told_to_start_a_process(tmp_path):
    xa.zeros((2, 3), path=tmp_path / "a").close()

    async def in_a_notebook():
        serve(tmp_path / "a", browser=False)

    with pytest.raises(xa.ArgumentError, match=r"event loop.*'view', PATH"):
        asyncio.run(in_a_notebook())
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(serve, tmp_path / "a", browser=False).exception()
    assert isinstance(error, xa.ArgumentError)
    assert "main thread" in str(error)
