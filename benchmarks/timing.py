"""Timing: candidates in their own processes, measured in turn, so that noise hits all alike."""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import signal
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

from . import peers
from .model import Case, Operation
from .sizes import NUMPY, Scale, Unsupported
from .workspace import Workspace

#: Seconds to wait for a candidate's answer.
PATIENCE = 180.0
#: Bytes in a block of `ru_inblock`.
BLOCK = 512


@dataclass(frozen=True)
class Effort:
    """The length of a measurement: rounds and seconds for each candidate and case.

    In each round a candidate runs for `turn` seconds, at least once.  It is done after `rounds`
    rounds that took `least` seconds, and in any case after `most`.
    """

    rounds: int = 5
    turn: float = 0.02
    least: float = 0.1
    most: float = 0.5


@dataclass(frozen=True)
class Timing:
    """Times of one case and candidate, in seconds for an elementary operation.

    `reference` is NumPy's median, measured in turn with this one; `disk_reads` is in bytes.
    """

    samples: int
    median: float
    minimum: float
    quartiles: tuple[float, float]
    disk_reads: int
    reference: float | None = None

    @classmethod
    def of(cls, times: Sequence[float], per: int, disk_reads: int) -> Timing:
        low, median, high = (float(q) / per for q in np.percentile(times, (25, 50, 75)))
        return cls(len(times), median, min(times) / per, (low, high), disk_reads)

    @property
    def relative(self) -> float:
        """The median over NumPy's, or in seconds without a reference."""
        return self.median / (self.reference or 1.0)

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles, relative to the median."""
        low, high = self.quartiles
        return (high - low) / 2 / self.median


@dataclass(frozen=True)
class Failure:
    """The reason for a missing time: `expected` if the library cannot do it, else an error."""

    text: str
    expected: bool


Outcome = Timing | Failure


def burst(operation: Operation, seconds: float) -> list[float]:
    """Return the times of single runs, at least one, until `seconds` of wall clock are over."""
    times = []
    clock = time.perf_counter
    deadline = clock() + seconds
    enabled = gc.isenabled()
    gc.disable()
    try:
        while not times or clock() < deadline:
            operation.before()
            start = clock()
            operation.run()
            times.append(clock() - start)
            operation.after()
    finally:
        if enabled:
            gc.enable()
    return times


class Candidate:
    """One candidate in this process; a case is known by its number in `cases`."""

    def __init__(
        self,
        name: str,
        parent: Path,
        scale: Scale,
        cases: Sequence[Case],
        source: np.ndarray | None = None,
        checkout: Path | None = None,
    ) -> None:
        self._name = name
        self._checkout = checkout
        self._place = (parent, scale, source)
        self._cases = cases
        self._workspace: Workspace | None = None
        self.operation: Operation | None = None

    def load(self) -> str:
        """Import the library and return its settings."""
        peer = peers.load(self._name, self._checkout)
        self._workspace = Workspace(peer, *self._place)
        return peer.settings

    def prepare(self, number: int) -> None:
        """Prepare a case, and check that the candidate fulfils it."""
        case = self._cases[number]
        self._workspace.peer.set_threads(case.threads)
        self.operation = case.prepare(self._workspace)
        self.operation.before()
        self.operation.check()
        self.operation.after()

    def burst(self, seconds: float) -> tuple[list[float], int]:
        """Return times, and the number of bytes read from disk meanwhile."""
        blocks = getrusage(RUSAGE_SELF).ru_inblock
        times = burst(self.operation, seconds)
        return times, (getrusage(RUSAGE_SELF).ru_inblock - blocks) * BLOCK

    def finish(self) -> None:
        """Leave the case."""
        self.operation = None
        self._workspace.close_new()
        self._workspace.peer.set_threads(1)

    def close(self) -> None:
        if self._workspace is not None:
            self._workspace.close()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method; return a `Failure` if it raises."""
        try:
            return getattr(self, method)(*arguments)
        except (Unsupported, MemoryError) as error:
            return Failure(str(error), expected=True)
        except Exception:
            return Failure(traceback.format_exc(), expected=False)


class Worker:
    """A candidate in its own process, called in the same way.

    The process is a fork, so that all share the source's pages, and none is slowed down by
    another's threads or memory.
    """

    def __init__(self, candidate: Candidate) -> None:
        context = mp.get_context("fork")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(candidate, other), daemon=True)
        self._process.start()
        other.close()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the candidate; return a `Failure` if it raises or does not answer."""
        try:
            self._connection.send((method, *arguments))
            if self._connection.poll(PATIENCE):
                return self._connection.recv()
            self._process.kill()
            return Failure(f"no answer in {PATIENCE:g} s", expected=False)
        except (EOFError, OSError):
            return Failure("the process ended", expected=False)

    def close(self) -> None:
        """End the process at once; the caller, who knows the folder, removes its files."""
        self._process.kill()
        self._process.join()
        self._connection.close()


def _serve(candidate: Candidate, connection: Connection) -> None:
    # A signal from the terminal is for the parent, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The other workers hold the parent's end of the pipe, too, so its death causes no end of file.
    parent = os.getppid()
    while os.getppid() == parent:
        if connection.poll(1.0):
            connection.send(candidate.ask(*connection.recv()))


@dataclass
class _Record:
    """The progress of a candidate in one case."""

    times: list[float] = field(default_factory=list)
    disk_reads: int = 0
    rounds: int = 0
    seconds: float = 0.0
    failure: Failure | None = None

    def done(self, effort: Effort) -> bool:
        if self.failure is not None or self.rounds == 0:
            return self.failure is not None
        enough = self.rounds >= effort.rounds and self.seconds >= effort.least
        return enough or self.seconds >= effort.most


def measure(
    candidates: Mapping[str, Candidate | Worker], number: int, per: int, effort: Effort
) -> dict[str, Outcome]:
    """Measure a case with all candidates in turn; NumPy goes on until the last one is done."""
    records = {name: _Record() for name in candidates}
    for name, candidate in candidates.items():
        records[name].failure = candidate.ask("prepare", number)
    while waited_for := [n for n, r in records.items() if not r.done(effort)]:
        for name, record in records.items():
            if name in waited_for or (name == NUMPY and record.failure is None):
                _take_turn(candidates[name], record, effort.turn)
    for candidate in candidates.values():
        candidate.ask("finish")
    outcomes = {
        name: record.failure or Timing.of(record.times, per, record.disk_reads)
        for name, record in records.items()
    }
    numpy_time = getattr(outcomes.get(NUMPY), "median", None)
    return {
        name: replace(outcome, reference=numpy_time) if isinstance(outcome, Timing) else outcome
        for name, outcome in outcomes.items()
    }


def _take_turn(candidate: Candidate | Worker, record: _Record, seconds: float) -> None:
    start = time.monotonic()
    answer = candidate.ask("burst", seconds)
    record.seconds += time.monotonic() - start
    record.rounds += 1
    if isinstance(answer, Failure):
        record.failure = answer
    else:
        times, disk_reads = answer
        record.times += times
        record.disk_reads += disk_reads
