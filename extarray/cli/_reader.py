"""The second process of the demo, which reads the growing array.

The first process holds a `Reader`; `main` runs in the second.  They share only two paths and a
pipe: the second process prints one JSON object per line, ``{"event": "state", ...}`` for each shape
that it has seen and verified, and finally ``{"event": "done", ...}`` or ``{"event": "failed",
"message": ...}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, final

import numpy as np

from extarray.apps.scenes import Mosaic, load
from extarray.cli._checks import Checker, CheckError
from extarray.cli._output import print_json
from extarray.common.errors import ExtArrayError
from extarray.common.limits import limits
from extarray.common.system import has_parent

__all__ = ["Reader", "main"]

_IDLE = 0.001  # seconds to wait before looking for news again


@final
class Reader:
    """A reading process; use it as a context manager, which always ends the process.

    The process compares the array with the scene (`variable` as in `scenes.load`), in boxes that
    the seed chooses.  It gives up after `limit` seconds, and so do the methods that wait for it.
    """

    def __init__(
        self, array: Path, scene: Path, variable: str | None, seed: int, limit: float
    ) -> None:
        task = {
            "array": os.fspath(array),
            "scene": os.fspath(scene),
            "variable": variable,
            "seed": seed,
            "limit": limit,
            "parent": os.getpid(),
        }
        # Import the same modules as here: with -c, the working directory would come first, and it
        # may be a checkout that is not built.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from {__name__} import main; sys.exit(main({json.dumps(task)!r}))"
        )
        self._deadline = time.monotonic() + limit
        self._changed = threading.Condition()
        self._states = 0
        self._last: dict[str, Any] | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def wait_for_states(self, count: int) -> None:
        """Wait until the reader has seen `count` states of the array.

        Raises CheckError if the reader found a fault, died, or exceeded the limit.
        """
        with self._changed:
            self._wait(lambda: self._states >= count, f"{count} states of the array")
            if self._last is not None and self._states < count:
                raise CheckError(self._failure())

    def finish(self) -> dict[str, Any]:
        """Wait until the reader is done and return its report; raises as `wait_for_states` does."""
        with self._changed:
            self._wait(lambda: False, "the complete array")
            last = self._last
        if last is None or last["event"] != "done" or self._status() != 0:
            raise CheckError(self._failure())
        return last

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(limits.reader_patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._listener.join(limits.reader_patience)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _wait(self, reached: Any, what: str) -> None:
        """Wait until `reached()` or the last message of the reader.  The caller holds the lock."""
        left = self._deadline - time.monotonic()
        if not self._changed.wait_for(lambda: self._last is not None or reached(), max(left, 0.0)):
            raise CheckError(
                f"the reader (process {self.pid}) did not see {what} in time; it saw "
                f"{self._states} states"
            )

    def _listen(self) -> None:
        """Receive the lines of the reader until it closes the pipe."""
        assert self._process.stdout is not None
        last: dict[str, Any] = {"event": "gone", "message": "no output"}
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                event = None
            if not isinstance(event, dict):
                # Not a message but, say, a traceback, whose last line tells most.
                if last["event"] == "gone":
                    last["message"] = line.decode(errors="replace").strip()
            elif event["event"] == "state":
                with self._changed:
                    self._states = event["states"]
                    self._changed.notify_all()
            else:
                last = event
        with self._changed:
            self._last = last
            self._changed.notify_all()

    def _status(self) -> int | None:
        """Return the exit status; None if the process closed the pipe but does not exit."""
        try:
            return self._process.wait(limits.reader_patience)
        except subprocess.TimeoutExpired:
            return None

    def _failure(self) -> str:
        message = (self._last or {}).get("message", "no report")
        return f"the reader (process {self.pid}, exit status {self._status()}): {message}"


def main(task: str) -> int:
    """Run the reading process; `task` has the arguments of `Reader` in JSON."""
    try:
        _say(**_read_along(**json.loads(task)))
    except (ExtArrayError, OSError) as error:
        _say(event="failed", message=str(error))
        return 1
    return 0


def _say(**event: Any) -> None:
    print_json(event)


def _read_along(
    array: str, scene: str, variable: str | None, seed: int, limit: float, parent: int
) -> dict[str, Any]:
    """Follow the array from its first elements to the last; return the report."""
    import extarray as xa

    deadline = time.monotonic() + limit
    data = load(scene, variable).data
    checker = Checker(data, np.random.default_rng(seed))
    with xa.open(array, mode="r") as a:
        seen = (0,) * data.ndim
        states = 0
        # Growth must neither move this chunk nor change its content.
        view = a.chunk((0,) * data.ndim)
        kept = view.tobytes()  # bytes, so that NaN equals itself
        while True:
            if a.shape != seen:
                _check_state(a, seen, checker)
                seen = a.shape
                states += 1
                _say(event="state", states=states, shape=list(seen))
            if view.tobytes() != kept:
                raise CheckError("a view of chunk (0, 0, 0) changed while the array grew")
            if a.attrs.get("complete", False):
                break
            if not a.refresh():
                time.sleep(_IDLE)
            if not has_parent(parent):
                raise CheckError("the writer has exited")
            if time.monotonic() > deadline:
                raise CheckError(f"the array was not complete after {limit:g} s: shape {a.shape}")
        if a.shape != data.shape:
            raise CheckError(f"the complete array has the shape {a.shape}, not {data.shape}")
        checker.box(a, Mosaic(a.attrs["pieces"]), tuple(slice(0, n) for n in a.shape))
    return {
        "event": "done",
        "states": states,
        "boxes": checker.boxes,
        "elements": checker.elements,
        "shape": list(seen),
    }


def _check_state(a: Any, seen: tuple[int, ...], checker: Checker) -> None:
    """Compare everything new since `seen`, and one random box."""
    mosaic = Mosaic(a.attrs["pieces"])
    # The writer announces pieces before it appends them: the mosaic may be ahead of the array,
    # never behind.
    if any(n < m for n, m in zip(a.shape, seen, strict=True)):
        raise CheckError(f"the array shrank from {seen} to {a.shape}")
    if any(n < m for n, m in zip(mosaic.shape, a.shape, strict=True)):
        raise CheckError(f"the mosaic has shape {mosaic.shape}, but the array has shape {a.shape}")
    for axis, (start, stop) in enumerate(zip(seen, a.shape, strict=True)):
        if start < stop:
            # New elements along this axis, without those that an earlier axis has covered.
            box = [slice(0, n) for n in seen[:axis]] + [slice(start, stop)]
            box += [slice(0, n) for n in a.shape[axis + 1 :]]
            if all(part.stop > part.start for part in box):
                checker.box(a, mosaic, tuple(box))
    checker.random_box(a, mosaic)
    checker.addresses(a)
