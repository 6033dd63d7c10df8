"""A pass by several threads: each takes the next template and has its own buffers.

Templates share only the arrays, and no two write to one chunk, so threads need to agree only on who
takes which.  The system lets one thread at a time write to the file; meanwhile the others rearrange
their elements.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING

from extarray.common.config import config
from extarray.common.errors import StorageError
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.maintenance.execute import Mover
from extarray.streaming.holes import write_fresh
from extarray.streaming.mapped_pages import Passing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from extarray.maintenance.rechunk_pass import Pass
    from extarray.streaming.blocks import Source
    from extarray.streaming.holes import Write

    Template = tuple[tuple[int, int], ...]

__all__ = ["Crew"]


class Crew:
    """The threads that carry out a pass.

    Together their buffers stay within `memory`; each thread takes `Pass.memory`.
    """

    def __init__(
        self,
        p: Pass,
        source: Source,
        target: Source,
        memory: int,
        write: Write = write_fresh,
    ) -> None:
        self.done = 0  # leading templates that are all done
        most = min(memory // p.memory, p.n_templates, p.bytes_written // limits.share_bytes)
        n = max(1, min(config.threads, most))
        self._movers = [Mover(p, source, target, write) for _ in range(n)]
        self._lock = threading.Lock()
        self._ahead: set[int] = set()  # templates done beyond `done`
        self._elements = 0  # moved, but not yet reported
        # Shared by all threads: one may have much to do while another waits.
        self._passing = Passing()
        self._itemsize = 2 * source.dtype.itemsize  # both arrays
        self._is_stopped = False

    def move(self, templates: Iterable[Template], tell: Callable[[int], None]) -> None:
        """Move the elements of templates.

        This thread calls `tell` from time to time, with the elements moved since the last call.
        Once all threads have stopped, the first error is raised.
        """
        left = enumerate(templates)
        first, *others = self._movers
        helpers = [partial(self._help, mover, left) for mover in others]
        # Each transfer may use the threads that the crew leaves over.
        with config.set(threads=max(1, config.threads // len(self._movers))):
            try:
                run_together([partial(self._lead, first, left, tell), *helpers], self._stop)
            except BaseException:
                with contextlib.suppress(StorageError):  # the first error matters
                    tell(self._moved())
                raise
            tell(self._moved())

    def _lead(
        self, mover: Mover, left: Iterator[tuple[int, Template]], tell: Callable[[int], None]
    ) -> None:
        for _ in self._work(mover, left):
            tell(self._moved())

    def _help(self, mover: Mover, left: Iterator[tuple[int, Template]]) -> None:
        for _ in self._work(mover, left):
            pass

    def _stop(self) -> None:
        self._is_stopped = True

    def _work(self, mover: Mover, left: Iterator[tuple[int, Template]]) -> Iterator[None]:
        while True:
            with self._lock:
                taken = list(itertools.islice(left, 0 if self._is_stopped else 1))
            if not taken:
                return
            ((number, template),) = taken
            for elements in mover.move(template):
                with self._lock:
                    self._elements += elements
                    self._passing.add(elements * self._itemsize)
                if self._is_stopped:
                    return
                yield
            with self._lock:
                self._ahead.add(number)
                while self.done in self._ahead:
                    self._ahead.remove(self.done)
                    self.done += 1
            yield

    def _moved(self) -> int:
        """Return the number of elements moved since the last call."""
        with self._lock:
            elements, self._elements = self._elements, 0
        return elements
