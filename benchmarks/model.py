"""The model of a benchmark: operations, cases, targets, groups.  No timing and no library here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .workspace import Workspace


def nothing() -> None:
    """Do nothing: the default before and after a timed run."""


@dataclass(frozen=True)
class Operation:
    """One timed action: `run`, with untimed `before` and `after` around each run.

    `check` runs once, and raises if the candidate does not fulfil the case.
    """

    run: Callable[[], object]
    before: Callable[[], object] = nothing
    after: Callable[[], object] = nothing
    check: Callable[[], object] = nothing


@dataclass(frozen=True)
class Target:
    """A limit of our time: `limit` times that of `of`.

    `of` names a candidate, `PEERS`, `SECONDS`, or (with `same_candidate`) another case whose time
    with the same candidate is the reference, to express flatness.
    """

    limit: float
    of: str
    same_candidate: bool = False


@dataclass(frozen=True)
class Case:
    """One row of a table: its preparation, and our targets.

    `per` is the number of elementary operations in one run; times are divided by it.
    """

    name: str
    prepare: Callable[[Workspace], Operation]
    targets: tuple[Target, ...] = ()
    per: int = 1
    threads: int = 1


@dataclass(frozen=True)
class Group:
    """One table.  `disk` is a candidate's peak need, in bytes; `absolute` tables show times.

    If `candidates` is empty, every library but dask takes part.  A turn takes at least `turn`
    seconds: a processor that has slept needs some time to become fast.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    disk: int = 0
    absolute: bool = False
    candidates: tuple[str, ...] = ()
    turn: float = 0.0
