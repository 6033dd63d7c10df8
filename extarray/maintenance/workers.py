"""A pass by several threads: each takes the next template, and has buffers of its own.

Templates have nothing in common but the arrays, and no two write to one chunk, so that threads need
not agree on anything but who takes which.  While one puts its chunks into the file, which the
system lets one do at a time, the others bring theirs into order.
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
from extarray.streaming.mapped_pages import Passing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from extarray.maintenance.rechunk_pass import Pass
    from extarray.streaming.blocks import Source

    Template = tuple[tuple[int, int], ...]

__all__ = ["Crew"]


class Crew:
    """The threads that carry out a pass.

    All their buffers together have the memory, and each what `Pass.memory` says.
    """

    def __init__(self, p: Pass, source: Source, target: Source, memory: int) -> None:
        self.done = 0  # templates, in their order, and all before them
        most = min(memory // p.memory, p.n_templates, p.bytes_written // limits.share_bytes)
        n = max(1, min(config.threads, most))
        self._movers = [Mover(p, source, target) for _ in range(n)]
        self._lock = threading.Lock()
        self._ahead: set[int] = set()  # what is done behind a template that is not
        self._elements = 0  # that were moved, and not told of
        # What all of them have passed: one may have much to do while another waits.
        self._passing = Passing()
        self._itemsize = 2 * source.dtype.itemsize  # of the source and of the target
        self._is_stopped = False

    def move(self, templates: Iterable[Template], tell: Callable[[int], None]) -> None:
        """Move the elements of templates.

        `tell` is called in this thread now and then, with the number of elements that were moved
        since.  The first error that a thread raised is raised when all have stopped.
        """
        left = enumerate(templates)
        first, *others = self._movers
        helpers = [partial(self._help, mover, left) for mover in others]
        # A transfer has as many threads as the crew leaves over.
        with config.set(threads=max(1, config.threads // len(self._movers))):
            try:
                run_together([partial(self._lead, first, left, tell), *helpers], self._stop)
            except BaseException:
                with contextlib.suppress(StorageError):  # the error before it is what counts
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
        """Move one template after the other, as long as there are any."""
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
        """Return the number of elements that were moved since this was asked."""
        with self._lock:
            elements, self._elements = self._elements, 0
        return elements
