"""A process that has imported what others need, and forks to run their programs.

Starting an interpreter and importing NumPy and the package takes longer than most test programs.
`python nursery.py DESCRIPTOR` takes orders at an inherited socket until its standard input ends.
An order is a connection.  It passes the standard descriptors for the program, and names the program
to run; the answer is the process id and, at the end, the exit status.  forked.py gives orders, and
`python nursery.py PATH MODULE ARGUMENT ...` gives one: it runs a module with its own standard
descriptors.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys

__all__ = ["Order"]


class Order:
    """An ordered process, as its client sees it."""

    def __init__(self, path: str, descriptors: list[int], **what):
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(path)
        text = json.dumps(what).encode()
        socket.send_fds(self._connection, [len(text).to_bytes(8, "little")], descriptors)
        self._connection.sendall(text)
        self._answer = b""
        self.pid = self._number()

    def status(self, timeout: float | None = None) -> int | None:
        """Return the exit status, below 0 for a signal, or None while the process runs."""
        status = self._number(timeout)
        if status is not None:
            self._connection.close()
        return status

    def _number(self, timeout: float | None = None) -> int | None:
        while b"\n" not in self._answer:
            if not select.select([self._connection], [], [], timeout)[0]:
                return None
            data = self._connection.recv(64)
            if not data:
                raise RuntimeError("the process that is forked has ended")
            self._answer += data
        number, _, self._answer = self._answer.partition(b"\n")
        return int(number)


def serve(listener: socket.socket) -> dict:
    """Fork for each order; return in the children, with the order."""
    import gc
    import importlib

    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listener, woken], [], [])
        if 0 in ready:
            listener.close()
            sys.exit()
        if woken in ready:
            os.read(woken, 4096)
            report(children)
        if listener not in ready:
            continue
        connection, _ = listener.accept()
        try:
            order, descriptors = received(connection)
        except (OSError, ValueError):  # the client ended before giving its order
            connection.close()
            continue
        for name in order["imports"]:
            # A failing import must fail only in the program that wants it.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.freeze()  # otherwise a child's garbage collection would copy all pages
        pid = os.fork()
        if pid:
            children[pid] = connection
            tell(connection, pid)
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (listener, connection, *children.values()):
            one.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        for descriptor in (woken, wake, *descriptors):
            os.close(descriptor)
        return order


def tell(connection: socket.socket, number: int) -> None:
    """Send a number, even if nobody waits for it any longer."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(b"%d\n" % number)


def report(children: dict[int, socket.socket]) -> None:
    """Tell waiting clients which children have ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        with children.pop(pid) as connection:
            tell(connection, os.waitstatus_to_exitcode(status))


def received(connection: socket.socket) -> tuple[dict, list[int]]:
    """Return an order, and the descriptors that came with it."""
    length, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as file:
        return json.loads(file.read(int.from_bytes(length, "little"))), descriptors


def obey(order: dict) -> None:
    """Run an order as a fresh interpreter would."""
    import runpy
    import types
    import warnings

    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["-c", *order["arguments"]]
    if "module" in order:
        # Use the filters of an interpreter without -W.
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
        return
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(order["code"], "<string>", "exec"), vars(sys.modules["__main__"]))


def call(path: str, module: str, arguments: list[str]) -> int:
    """Run a module in a forked process with this process's standard descriptors."""
    what = {"module": module, "arguments": arguments, "imports": []}
    return Order(path, [0, 1, 2], cwd=os.getcwd(), environment=dict(os.environ), **what).status()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(call(sys.argv[1], sys.argv[2], sys.argv[3:]))
    import extarray  # noqa: F401

    obey(serve(socket.socket(fileno=int(sys.argv[1]))))
