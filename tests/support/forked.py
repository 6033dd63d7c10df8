"""Python processes forked from one that has already imported what they need (nursery.py).

Programs that test startup, imports, or settings read at import need a fresh interpreter instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Self

import nursery

__all__ = ["Child", "Nursery"]


class Child:
    """A forked process with pipes to and from it, like `subprocess.Popen`."""

    def __init__(self, order: nursery.Order, stdin=None, stdout=None):
        self._order = order
        self.pid = order.pid
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._order.status(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._order.status(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in (self.stdout, self.stdin):
            with contextlib.suppress(BrokenPipeError):
                file.close()
        self.wait()


def written(file) -> str:
    """Return what another process has written to a file."""
    file.seek(0)
    return file.read()


def read_terminal(terminal) -> Iterator[bytes]:
    """Yield the output on a terminal until no process has it open any more."""
    with contextlib.suppress(OSError):  # how Linux ends a terminal
        while piece := terminal.read(1 << 16):
            yield piece


class Nursery:
    """Starts the process that forks, perhaps by another command, and gives it orders."""

    def __init__(self, environment: dict[str, str], prefix: Sequence[str] = ()):
        self._folder = tempfile.TemporaryDirectory(prefix="extarray-")
        self.path = os.path.join(self._folder.name, "orders")
        self._environment = environment
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen(64)
            self._process = subprocess.Popen(
                [
                    *prefix,
                    sys.executable,
                    *("-W", "error", nursery.__file__, str(listener.fileno())),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=environment,
                pass_fds=[listener.fileno()],
            )

    def _order(
        self, descriptors, code: str, args, imports=(), cwd=None, environment=()
    ) -> nursery.Order:
        return nursery.Order(
            self.path,
            descriptors,
            code=code,
            arguments=list(map(str, args)),
            imports=list(imports),
            cwd=os.fspath(cwd or os.getcwd()),
            environment={**self._environment, **dict(environment)},
        )

    def start(self, code: str, *args) -> Child:
        """Start code in a process, with pipes to and from it."""
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        try:
            order = self._order([theirs_in, theirs_out, 2], code, args)
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return Child(order, open(ours_in, "w"), open(ours_out))

    def run(self, code: str, *args, text="", timeout=250, **options) -> tuple[int, str, str]:
        """Run code to its end; return its exit status, output and errors.

        Modules in `imports` are imported before the fork, for later orders too.
        """
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)]
            given, *printed = files
            given.write(text)
            given.seek(0)
            order = self._order([file.fileno() for file in files], code, args, **options)
            child = Child(order)
            try:
                child.wait(timeout)
            except subprocess.TimeoutExpired as error:
                child.kill()
                child.wait()
                error.add_note("".join(map(written, printed)))
                raise
            return child.returncode, *map(written, printed)

    def run_in_terminal(self, code: str, *args, timeout=250, **options) -> tuple[int, str]:
        """Run code to its end on a terminal; return its exit status and the terminal's output."""
        ours, theirs = os.openpty()
        try:
            child = Child(self._order([theirs] * 3, code, args, **options))
        finally:
            os.close(theirs)
        shown = []
        with open(ours, "rb", buffering=0) as terminal:
            # A terminal that nobody reads blocks the process once it is full.
            reader = threading.Thread(target=lambda: shown.extend(read_terminal(terminal)))
            reader.start()
            try:
                child.wait(timeout)
            except subprocess.TimeoutExpired as error:
                child.kill()
                child.wait()
                error.add_note(b"".join(shown).decode(errors="replace"))
                raise
            finally:
                reader.join(timeout)  # until all processes have closed the terminal
        return child.returncode, b"".join(shown).decode(errors="replace")

    def __call__(self, code: str, *args, **options) -> str:
        """Return the output of code, which must succeed."""
        status, out, err = self.run(code, *args, **options)
        assert status == 0, f"exit status {status}\n{out}{err}"
        return out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=250)
        self._folder.cleanup()
