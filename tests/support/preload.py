"""Libraries that stand between a process and the system: the Python side of preload.c.

`python tests/support/preload.py SCRIPT [ARGUMENT ...]` runs a script in a process whose files in a
temporary folder are watched.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = [
    "FAULTS",
    "KILLS",
    "LOOK",
    "NOTHING_DONE",
    "NOT_ZEROED",
    "NO_SPACE",
    "WAIT",
    "Control",
    "Event",
    "TogetherError",
    "build",
    "environment",
    "events",
    "mark",
    "preloaded",
]

#: Faults that a call can survive.
FAULTS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "half": 1000}
#: When the process is killed, relative to the call.
KILLS = {"before": 1001, "half": 1002, "after": 1003}
#: The call transfers no bytes, without an error.
NOTHING_DONE = 1004
#: A call for space waits until it is released; other calls do not count.
WAIT = 1005
#: All calls for space or holes fail, as if missing, while this is armed.
NO_SPACE = 1006
#: Calls that zero a range only reserve it, as GlusterFS's client does, while this is armed.
NOT_ZEROED = 1007
#: Each call waits before and behind its work until `looks` goes on, while this is armed.
LOOK = 1008

_CONTROL = np.dtype(
    [(name, "i8") for name in ("countdown", "fault", "fired", "quick", "log", "released")]
    + [("name", "S24")]
)
_RECORD = np.dtype(
    [("name", "S16"), ("inode", "u8"), ("offset", "i8"), ("length", "i8"), ("bytes", "i8")]
)


def build(folder: Path, name: str = "preload") -> Path | None:
    """Compile a library; return None if that is impossible."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not sys.platform.startswith("linux") or compiler is None:
        return None
    library = folder / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    core = Path(__file__).resolve().parents[2] / "extarray" / "_core"
    command = [compiler, "-O1", "-shared", "-fPIC", f"-I{core}", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    return library


def preloaded(*libraries: Path) -> dict[str, str]:
    """Return the environment of a process that loads libraries after those of this process."""
    found = [os.environ.get("LD_PRELOAD"), *map(str, libraries)]
    return {"LD_PRELOAD": ":".join(filter(None, found))}


def environment(library: Path, folder: Path, control: Path) -> dict[str, str]:
    """Return the environment of a process whose calls on files in a folder are watched."""
    page = np.zeros(1, _CONTROL)
    page["log"] = -1
    control.write_bytes(page.tobytes().ljust(4096, b"\0"))
    return {
        **preloaded(library),
        "PRELOAD_FOLDER": str(folder),
        "PRELOAD_CONTROL": str(control),
    }


class Control:
    """The control page of the watched process, which makes this object; its children share it."""

    def __init__(self):
        with open(os.environ["PRELOAD_CONTROL"], "r+b") as file:
            self._page = np.frombuffer(mmap.mmap(file.fileno(), 4096), _CONTROL, count=1)[0:1]
        self._page["log"] = -1
        self._page["quick"] = 1  # the disk itself is not under test

    @property
    def name(self) -> str:
        """The call that met the last fault."""
        return self._page["name"][0].decode()

    @property
    def fired(self) -> bool:
        """Whether there was a fault since `fault` last armed one."""
        return bool(self._page["fired"][0])

    @fired.setter
    def fired(self, value: bool) -> None:
        self._page["fired"] = value

    @contextmanager
    def fault(self, number: int, fault: int):
        """Give call `number`, counted from 1, a fault; yield a function that tells if it came."""
        self.fired = False
        self._page["released"] = 0
        self.arm(number, fault)
        try:
            yield lambda: self.fired
        finally:
            self._page["countdown"] = 0

    def arm(self, number: int, fault: int) -> None:
        self._page["fault"] = fault
        self._page["countdown"] = number

    def release(self) -> None:
        """Let the waiting call continue."""
        self._page["released"] = 1

    def looks(self, pid: int, state: Callable[[], object]) -> Iterator[tuple[str, object]]:
        """Yield name and state before and behind each call of a child, which meets `LOOK`."""
        seen = 0
        while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            fired = int(self._page["fired"][0])
            if fired == seen:
                time.sleep(0.00005)
                continue
            if fired != seen + 1:
                raise TogetherError
            seen = fired
            # The looks of this process must not wait for themselves.
            self._page["countdown"] = 0
            yield self.name, state()
            self._page["countdown"] = 1
            self.release()

    def record(self, log: int) -> None:
        """Record calls that change files to a descriptor (-1: stop)."""
        self._page["log"] = log


class TogetherError(Exception):
    """Several threads call the system, in an order that changes."""


@dataclass
class Event:
    """A call that changed a file, or a test's own mark (`name` is "mark")."""

    name: str
    inode: int
    offset: int
    length: int
    data: bytes


def mark(log: int, text: str) -> None:
    """Add a mark to the record."""
    data = text.encode()
    record = np.zeros(1, _RECORD)
    record["name"], record["bytes"] = b"mark", len(data)
    os.write(log, record.tobytes() + data)


def events(log: bytes):
    """Yield the recorded events."""
    at = 0
    while at < len(log):
        record = np.frombuffer(log, _RECORD, count=1, offset=at)[0]
        at += _RECORD.itemsize
        size = int(record["bytes"])
        name, inode = record["name"].decode(), int(record["inode"])
        yield Event(name, inode, int(record["offset"]), int(record["length"]), log[at : at + size])
        at += size


def main(command: list[str]) -> int:
    """Run a script in a watched process; return its exit status."""
    with tempfile.TemporaryDirectory() as place:
        library = build(Path(place))
        if library is None:
            sys.exit("needs a C compiler, and Linux")
        folder = Path(place, "watched")
        folder.mkdir()
        watch = environment(library, folder, Path(place, "control"))
        return subprocess.run(
            [sys.executable, *command], env={**os.environ, **watch}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
