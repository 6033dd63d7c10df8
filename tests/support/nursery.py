"""A process that has imported what others need, and is forked to run their programs.

To start an interpreter and import NumPy and the package takes longer than most programs of tests.
`python nursery.py DESCRIPTOR` takes orders at a socket that it has inherited, until its standard
input ends.  An order is a connection.  It brings the descriptors that become the standard ones, and
says what to run; the answer is the process id, and at last the exit status.  forked.py gives
orders, and `python nursery.py PATH MODULE ARGUMENT ...` gives one: it runs a module with its own
standard descriptors.
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
    """A process that was ordered, as the one that ordered it sees it."""

    def __init__(self, path: str, descriptors: list[int], **what):
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(path)
        text = json.dumps(what).encode()
        socket.send_fds(self._connection, [len(text).to_bytes(8, "little")], descriptors)
        self._connection.sendall(text)
        self._answer = b""
        self.pid = self._number()

    def status(self, timeout: float | None = None) -> int | None:
        """Exit status, below 0 for a signal; None if the process goes on."""
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
        except (OSError, ValueError):  # who ordered has ended before saying what
            connection.close()
            continue
        for name in order["imports"]:
            # What cannot be imported fails in the program that wants it, and in no other.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.freeze()  # else collections in a child would copy all pages with objects
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
    """Send a number; perhaps nobody waits for it any longer."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(b"%d\n" % number)


def report(children: dict[int, socket.socket]) -> None:
    """Tell those who wait for children that have ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        with children.pop(pid) as connection:
            tell(connection, os.waitstatus_to_exitcode(status))


def received(connection: socket.socket) -> tuple[dict, list[int]]:
    """An order, and the descriptors that came with it."""
    length, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as file:
        return json.loads(file.read(int.from_bytes(length, "little"))), descriptors


def obey(order: dict) -> None:
    """Run what an order says, as the interpreter does that is started for it."""
    import runpy
    import types
    import warnings

    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["-c", *order["arguments"]]
    if "module" in order:
        # As where -W is not given.
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
        return
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(order["code"], "<string>", "exec"), vars(sys.modules["__main__"]))


def call(path: str, module: str, arguments: list[str]) -> int:
    """Run a module in a forked process that has the standard descriptors of this one."""
    what = {"module": module, "arguments": arguments, "imports": []}
    return Order(path, [0, 1, 2], cwd=os.getcwd(), environment=dict(os.environ), **what).status()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(call(sys.argv[1], sys.argv[2], sys.argv[3:]))
    import extarray  # noqa: F401

    obey(serve(socket.socket(fileno=int(sys.argv[1]))))
