"""The event loop in the background, and the bounds on what waits in it.

The thread that wants something waits for a future, which signals interrupt; a call into a library
that waits by itself would not see Ctrl-C.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from extarray.common.errors import ClosedError
from extarray.common.system import after_fork_in_child

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

__all__ = ["Gate", "in_thread", "submit"]

_T = TypeVar("_T")

# Seconds that the process, at its end, gives cancelled requests to close their connections.
_PATIENCE_AT_EXIT = 1.0


class _Loop:
    """An event loop, and the thread that runs it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="extarray-remote", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def end(self) -> None:
        """Cancel everything, and wait until no thread of a library runs Python any more."""
        asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        self.thread.join(_PATIENCE_AT_EXIT)
        _settle()

    async def _end(self) -> None:
        rest = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=_PATIENCE_AT_EXIT / 2)
        self.loop.stop()


def _settle() -> None:
    """Wait until foreign threads have left Python, for some time at most.

    obstore's threads put results into the loop.  One of them that has not come back from there
    when Python ends is ended in the middle of Rust code, which aborts the process.
    """
    end = time.monotonic() + _PATIENCE_AT_EXIT
    quiet = 0
    while quiet < 3 and time.monotonic() < end:
        time.sleep(0.002)  # lets them have the GIL
        known = {thread.ident for thread in threading.enumerate()}
        quiet = 0 if sys._current_frames().keys() - known else quiet + 1


_loop: _Loop | None = None
_lock = threading.Lock()
_is_over = False


def _forget() -> None:
    """Begin anew in a forked child, which has no thread that runs the loop."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


def _end() -> None:
    global _is_over
    with _lock:
        _is_over = True
    if _loop is not None:
        _loop.end()


after_fork_in_child(_forget)
atexit.register(_end)


def submit(work: Coroutine[Any, Any, _T]) -> Future[_T]:
    """Begin a coroutine in the background; cancelling the future ends it."""
    global _loop
    with _lock:
        if _is_over:
            work.close()
            raise ClosedError("Python ends: nothing more can be read from servers")
        if _loop is None:
            _loop = _Loop()
    return asyncio.run_coroutine_threadsafe(work, _loop.loop)


async def in_thread(call: Callable[[], _T]) -> _T:
    """Make a call that blocks, in a thread of its own, which the end of the process never awaits.

    The threads of `asyncio.to_thread` are joined when Python ends, however slow their servers are.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def end(value: _T | None, error: Exception | None) -> None:
        if future.done():  # whoever waited was cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value = failure = None
        try:
            value = call()
        except Exception as error:  # noqa: BLE001 -- raised by the coroutine that waits
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(end, value, failure)

    threading.Thread(target=work, name="extarray-remote-call", daemon=True).start()
    return await future


class Gate:
    """Bounds on requests under way, and on the bytes that they bring.

    Used in the event loop only.  A caller is never kept from its first request by the bytes of
    others.
    """

    def __init__(self) -> None:
        self._requests = 0
        self._bytes = 0
        self._waiting: list[_Waiter] = []

    async def enter(self, size: int, most_requests: int, most_bytes: int, is_first: bool) -> None:
        """Wait until another request, of `size` bytes, fits; `is_first` of a caller's bytes."""
        waiter = _Waiter(size, most_requests, most_bytes, is_first)
        if self._lets_in(waiter):
            return
        self._waiting.append(waiter)
        try:
            await waiter.future
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:  # let in at the same moment
                self.leave(size)
            raise

    def leave(self, size: int) -> None:
        """Note that a request has ended."""
        self._requests -= 1
        self._bytes -= size
        self._wake()

    def _lets_in(self, waiter: _Waiter) -> bool:
        fits = self._requests < waiter.most_requests and (
            waiter.is_first or self._bytes + waiter.size <= waiter.most_bytes
        )
        if fits:
            self._requests += 1
            self._bytes += waiter.size
        return fits

    def _wake(self) -> None:
        for waiter in list(self._waiting):
            if self._lets_in(waiter):
                self._waiting.remove(waiter)
                if waiter.future.done():  # cancelled, and not yet told so
                    self._requests -= 1
                    self._bytes -= waiter.size
                else:
                    waiter.future.set_result(None)


class _Waiter:
    """A request that waits at a gate."""

    __slots__ = ("future", "is_first", "most_bytes", "most_requests", "size")

    def __init__(self, size: int, most_requests: int, most_bytes: int, is_first: bool) -> None:
        self.size = size
        self.most_requests = most_requests
        self.most_bytes = most_bytes
        self.is_first = is_first
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
