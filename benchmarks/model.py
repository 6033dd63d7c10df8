"""What a benchmark is: operations, cases, targets, groups. No timing and no library here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .workspace import Workspace


def nothing() -> None:
    """Do nothing: the default of what surrounds a timed run."""


@dataclass(frozen=True)
class Operation:
    """One timed action: `run`, with untimed `before` and `after` around each run.

    `check` runs once and raises if the candidate does not do what the case says.
    """

    run: Callable[[], object]
    before: Callable[[], object] = nothing
    after: Callable[[], object] = nothing
    check: Callable[[], object] = nothing


@dataclass(frozen=True)
class Target:
    """Our time is to be at most `limit` times that of `of`.

    `of` names a candidate, `PEERS`, `SECONDS`, or (with `same_candidate`) another case whose time
    with the same candidate is the reference: that is how flatness is said.
    """

    limit: float
    of: str
    same_candidate: bool = False


@dataclass(frozen=True)
class Case:
    """One row of a table: how to prepare it, and what is expected of us.

    `per` is the number of elementary operations in one run; times are divided by it.
    """

    name: str
    prepare: Callable[[Workspace], Operation]
    targets: tuple[Target, ...] = ()
    per: int = 1
    threads: int = 1


@dataclass(frozen=True)
class Group:
    """One table. `disk` is what a candidate needs at most, in bytes; `absolute` tables show times.

    `candidates` is empty where every library takes part, without dask.  A turn takes at
    least `turn` seconds: a processor that has slept needs some time until it is fast.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    disk: int = 0
    absolute: bool = False
    candidates: tuple[str, ...] = ()
    turn: float = 0.0
