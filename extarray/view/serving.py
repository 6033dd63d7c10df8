"""Run the server: its socket, the browser, Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import html
import logging
import os
import secrets
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from extarray.common.errors import ArgumentError, storage_error
from extarray.common.extras import require
from extarray.common.limits import limits
from extarray.common.system import call_at_end
from extarray.common.terminal import print_text, printable
from extarray.view.exhibits import Gallery
from extarray.view.handlers import Site, make_app

__all__ = ["logged", "serve"]

_ADDRESS = "127.0.0.1"
_QUEUE = 1024  # connections waiting to be accepted; further ones wait for seconds
_LOGGERS = ("tornado.access", "tornado.application", "tornado.general", "asyncio")
_MOST_MESSAGES = 20  # per minute


def serve(
    *paths: str | os.PathLike[str],
    port: int = 0,
    browser: bool = True,
    say: Callable[[str], object] = print_text,
) -> None:
    """Show arrays in the browser, until Ctrl-C.

    Parameters
    ----------
    *paths : path
        Each an array, with or without ``.xmd``; a folder, with all arrays in it and its subfolders;
        a packed file; or a file of another format, or ``FILE:/NAME``, an array or a group in it.
    port : int
        Port of the loopback interface; 0: a free one.
    browser : bool
        Whether to open the page in the user's browser.
    say : callable
        Called with the address of the page, as a line of text.

    Raises
    ------
    MissingExtraError
        Tornado is not installed.
    MissingError
        There is no array.
    StorageError
        An OSError: the port is in use.
    ArgumentError
        A ValueError: no such port; or the caller is not the main thread, or runs an event loop, as
        notebooks do.

    Notes
    -----
    Only this machine can connect, and only with the token from the address.  Arrays are open for
    reading; writes of others appear as they happen.

    HDF5's lock would keep writers out of the files on show, so they are read without it; in other
    threads of the program, open them with ``h5py.File(..., locking=False)``.  If the program has
    loaded netCDF4 before, that keeps its lock, unless ``HDF5_USE_FILE_LOCKING`` says otherwise.
    """
    if not 0 <= port < 1 << 16:
        raise ArgumentError(
            f"port {port} is out of range; give 1 to {(1 << 16) - 1}, or 0 for any free port"
        )
    _check_caller()
    with _without_locks():
        gallery = Gallery(*paths)
        try:
            asyncio.run(_serve(gallery, port, browser, say))
        finally:
            gallery.close()


def _check_caller() -> None:
    """Refuse a caller in which Ctrl-C could not end the server."""
    is_main = threading.current_thread() is threading.main_thread()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if is_main:
            return
    where = "inside an event loop, as in a notebook" if is_main else "outside the main thread"
    raise ArgumentError(
        f"serve() cannot run {where}; start a process: "
        "subprocess.Popen([sys.executable, '-m', 'extarray', 'view', PATH])"
    )


@contextlib.contextmanager
def _without_locks() -> Iterator[None]:
    """Keep libraries of HDF5 that are loaded meanwhile from locking files."""
    name = "HDF5_USE_FILE_LOCKING"
    if name in os.environ:
        yield
        return
    os.environ[name] = "FALSE"
    try:
        yield
    finally:
        os.environ.pop(name, None)


async def _serve(gallery: Gallery, port: int, browser: bool, say: Callable[[str], object]) -> None:
    """Answer until a signal ends the server."""
    httpserver = require("tornado.httpserver", "view", "extarray view")
    netutil = require("tornado.netutil", "view", "extarray view")
    try:
        sockets: list[Any] = netutil.bind_sockets(port, _ADDRESS, backlog=_QUEUE)
    except OSError as error:
        raise storage_error(
            error,
            f"cannot listen on port {{}} of {_ADDRESS}; give another, or 0 for any free port",
            port,
        ) from None
    site = Site(gallery, secrets.token_urlsafe(32))
    server = httpserver.HTTPServer(
        make_app(site),
        max_header_size=1 << 14,
        max_body_size=1 << 10,
        idle_connection_timeout=limits.request_patience,
        body_timeout=limits.request_patience,
    )
    accepting = [
        asyncio.create_task(site.connections.accept(one, server.handle_stream)) for one in sockets
    ]
    address = f"http://{_ADDRESS}:{sockets[0].getsockname()[1]}/#token={site.token}"
    with (
        logged(),
        _short_log(),
        call_at_end(asyncio.get_running_loop(), site.ends.set),
        _redirection(address) as redirection,
    ):
        say(printable(f"serving {gallery.title} at {address}"))
        say("Press Ctrl-C to stop.")
        sys.stdout.flush()
        if browser:
            # Some browsers stay in the foreground until their window closes.
            opening = threading.Thread(
                target=webbrowser.open, args=(redirection.as_uri(),), daemon=True
            )
            opening.start()
        await site.ends.wait()
        for task in accepting:
            task.cancel()
        await asyncio.wait({*accepting, *site.following}, timeout=1.0)
        for one in sockets:
            one.close()
        await asyncio.wait([asyncio.ensure_future(server.close_all_connections())], timeout=1.0)
        site.close()


class _Log(logging.Handler):
    """Prints libraries' messages on stderr; names and addresses in them may be anyone's."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr may be anything
            print_text(self.format(record), stream=sys.stderr)


@contextlib.contextmanager
def logged() -> Iterator[None]:
    """Print warnings and errors of Tornado and asyncio, unless the program logs them itself."""
    loggers = [logging.getLogger(name) for name in ("tornado", "asyncio")]
    handled = [logger for logger in loggers if not logger.hasHandlers()]
    log = _Log(logging.WARNING)
    for logger in handled:
        logger.addHandler(log)
    try:
        yield
    finally:
        for logger in handled:
            logger.removeHandler(log)


class _Short(logging.Filter):
    """Passes a limited number of messages per minute, and notes once that more were left out.

    A repeated error must not fill a disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self._minute = self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._count = minute, 0
        self._count += 1
        if self._count == _MOST_MESSAGES:
            record.msg, record.args, record.exc_info = "further messages are suppressed", (), None
        return self._count <= _MOST_MESSAGES


@contextlib.contextmanager
def _short_log() -> Iterator[None]:
    """Limit the messages of Tornado and asyncio."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    short = _Short()
    for logger in loggers:
        logger.addFilter(short)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(short)


@contextlib.contextmanager
def _redirection(address: str) -> Iterator[Path]:
    """Yield a file, readable only by the user, that leads a browser to an address.

    All users of a machine can see a program's arguments, and the address has the token.
    """
    with tempfile.TemporaryDirectory(prefix="extarray-view-") as folder:
        file = Path(folder) / "open.html"
        text = html.escape(address, quote=True)
        file.write_text(
            '<!DOCTYPE html><meta charset="utf-8"><title>extarray</title>'
            f'<meta http-equiv="refresh" content="0; url={text}">'
            f'<a href="{text}">extarray view</a>',
            encoding="utf-8",
        )
        yield file
