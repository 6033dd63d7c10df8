"""Shared by the suites: selections, operations, the usual targets, and the asv side of a group."""

from __future__ import annotations

import atexit
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from math import nan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.model import Group, Operation, Target
from benchmarks.sizes import MEMMAP, NUMPY, OURS, PEERS, SCALES, Scale
from benchmarks.timing import Candidate, Effort, Failure, measure

#: "Several times faster than the best peer".
SEVERAL = 3
FASTER_THAN_PEERS = Target(1 / SEVERAL, PEERS)
FASTER_THAN_MEMMAP = Target(1.0, MEMMAP)


def generator() -> np.random.Generator:
    """Return the random numbers of a case: always the same."""
    return np.random.default_rng(20240229)


def reading(run: Callable[[], Any], expected: Callable[[], Any]) -> Operation:
    """Return an operation whose result is checked once."""
    return Operation(run, check=lambda: np.testing.assert_array_equal(run(), expected()))


def repeated(action: Callable[..., object], *arguments: list[Any]) -> Callable[[], None]:
    """Return a function that calls `action` for each set of arguments."""
    calls = list(zip(*arguments, strict=True))

    def run() -> None:
        for call in calls:
            action(*call)

    return run


class Suite(ABC):
    """asv: times of our engines beside NumPy's, and the ratio, measured in turn.

    The arrays live as long as the process, because asv prepares anew before each sample.
    """

    scale: ClassVar[Scale] = SCALES["small"]
    effort: ClassVar[Effort] = Effort(least=0.2, most=2.0)
    param_names = ("case", "candidate")
    number = 1
    warmup_time = 0.0
    timeout = 300.0
    operation: Operation | None = None

    @staticmethod
    @abstractmethod
    def group(scale: Scale) -> Group:
        """Return the cases."""

    def __init_subclass__(cls) -> None:
        cls.cases = cls.group(cls.scale).cases
        cls.names = [case.name for case in cls.cases]
        cls.params = (cls.names, [NUMPY, *OURS])
        cls.candidates: dict[str, Candidate] = {}

    @classmethod
    def candidate(cls, name: str) -> Candidate:
        if name not in cls.candidates:
            folder = Path(tempfile.gettempdir())
            cls.candidates[name] = Candidate(name, folder, cls.scale, cls.cases)
            atexit.register(cls.candidates[name].close)
            cls.candidates[name].load()
        return cls.candidates[name]

    def setup(self, case: str, candidate: str) -> None:
        chosen = self.candidate(candidate)
        chosen.prepare(self.names.index(case))
        self.operation = chosen.operation
        self.operation.before()

    def teardown(self, case: str, candidate: str) -> None:
        # asv also comes here after `setup` said that the candidate cannot do it.
        if self.operation is not None:
            self.operation.after()
            self.candidate(candidate).finish()

    def time_case(self, case: str, candidate: str) -> None:
        self.operation.run()

    def track_ratio(self, case: str, candidate: str) -> float:
        """Return the candidate's time over NumPy's, nan if NumPy has nothing like it."""
        both = {name: self.candidate(name) for name in (NUMPY, candidate)}
        number = self.names.index(case)
        outcomes = measure(both, number, self.cases[number].per, self.effort)
        ours = outcomes[candidate]
        if isinstance(ours, Failure):
            raise RuntimeError(ours.text)
        return ours.relative if ours.reference else nan

    track_ratio.unit = "ratio"
