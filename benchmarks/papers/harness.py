"""Reports of experiments, and the timing of candidates: in turn, each by its least time."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from ..sizes import Unsupported

Holds = Literal["yes", "in part", "no", "undecided", "not measured"]
Sizes = TypeVar("Sizes")
SCALES = ("tiny", "small", "full")
GIB = 2**30

#: A ratio decides whether it is above or below a bound if it is clear of the bound by this share.
NOISE = 0.1


@dataclass(frozen=True)
class Chart:
    """Lines over a common axis, drawn as a plot and written as a table; None is a gap."""

    title: str
    x: str
    xs: Sequence[Any]
    unit: str
    lines: Mapping[str, Sequence[float | None]]
    log: bool = True

    def ratio(self, name: str, other: str) -> np.ndarray:
        """Return one line over another, at places where both have a value."""
        pairs = zip(self.lines[name], self.lines[other], strict=True)
        return np.array([a / b for a, b in pairs if a is not None and b is not None])

    def has(self, *names: str) -> bool:
        return all(name in self.lines for name in names)


@dataclass(frozen=True)
class Verdict:
    """Does a claim of the papers, given by number, hold today?  With the figures that decide."""

    claim: int
    holds: Holds
    why: str


@dataclass(frozen=True)
class Report:
    """The findings of an experiment, with its scale, running time, load and machine.

    `facts` are what the verdicts need beside the charts; pages do not show them.
    """

    charts: Sequence[Chart] = ()
    verdicts: Sequence[Verdict] = ()
    notes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    scale: str = ""
    seconds: float = 0.0
    load: float = 0.0
    machine: str = ""


@dataclass
class Work:
    """The scale of a run, its folders for files and data, and notes on missing measurements.

    `disk` is the bytes that the files may take at the same time; None: all that are free.
    """

    scale: str
    folder: Path
    data: Path | None = None
    disk: float | None = None
    notes: list[str] = field(default_factory=list)
    _made: int = 0

    def choose(self, sizes: Mapping[str, Sizes]) -> Sizes:
        """Return the sizes of this scale."""
        return sizes[self.scale]

    @property
    def rounds(self) -> int:
        return 1 if self.scale == "tiny" else 3

    def new(self) -> Path:
        """Make an empty folder."""
        self._made += 1
        path = self.folder / str(self._made)
        path.mkdir()
        return path

    def clear(self) -> None:
        """Remove the folders made so far, once their files are no longer needed."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def need(self, disk: float = 0.0, memory: float = 0.0) -> None:
        """Refuse an experiment that needs more bytes than there is room for."""
        free = float(shutil.disk_usage(self.folder).free)
        room = free if self.disk is None else min(free, self.disk)
        for what, taken, there in (("disk", disk, room), ("memory", memory, free_memory())):
            if taken > there:
                raise Unsupported(
                    f"at this scale it takes {taken / GIB:.1f} GiB of {what}, and there are "
                    f"{there / GIB:.1f}"
                )

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def least(self, runs: Mapping[str, Callable[[], Any]], rounds: int = 0) -> dict[str, Any]:
        """Return the least seconds of each candidate; candidates take turns.

        A run returns its own seconds, one number or several, so that its preparation is not timed.
        A candidate that cannot do it is left out, and noted.
        """
        found: dict[str, Any] = {}
        left = dict(runs)
        for _ in range(rounds or self.rounds):
            for name, run in list(left.items()):
                try:
                    seconds = np.asarray(run(), float)
                except (Unsupported, ImportError) as error:
                    self.note(f"{name} takes no part: {error}")
                    del left[name]
                    continue
                found[name] = np.minimum(found[name], seconds) if name in found else seconds
        return {name: found[name] for name in runs if name in found}


def free_memory() -> float:
    """Return the bytes that the system can give to programs, or all its memory if unknown."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def nbytes_of(shape: Sequence[int], chunks: int | Sequence[int]) -> float:
    """Return the bytes of float64 in whole chunks."""
    sides = [chunks] * len(shape) if isinstance(chunks, int) else chunks
    return 8.0 * math.prod(-(-n // c) * c for n, c in zip(shape, sides, strict=True))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def each(calls: Iterable[Callable[[], object]]) -> float:
    """Return the seconds of calls, one after the other."""
    start = time.perf_counter()
    for call in calls:
        call()
    return time.perf_counter() - start


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng([20140506, seed])


def drop(folder: Path) -> bool:
    """Make the system forget the unmapped files of a folder; tell whether it can."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.rglob("*"):
        with suppress(IsADirectoryError, PermissionError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
    return True


def columns(found: Sequence[Mapping[str, Any]], part: Any = ...) -> dict[str, list[float | None]]:
    """Return lines of a chart, from the results at each place of its axis."""
    names = list(dict.fromkeys(name for one in found for name in one))
    return {
        name: [float(np.sum(np.asarray(one[name])[part])) if name in one else None for one in found]
        for name in names
    }


def span(values: Iterable[float], digits: int = 2) -> str:
    """Return the least and the greatest of some ratios, in words."""
    low, high = min(values := list(values)), max(values)
    low, high = (f"{x:#.{digits}g}".rstrip(".") if x < 100 else f"{x:,.0f}" for x in (low, high))
    return low if low == high else f"{low} to {high}"


def below(values: float | Sequence[float] | np.ndarray, bound: float = 1) -> list[bool | None]:
    """Tell of each ratio whether it is below a bound; None: nearer to it than the noise."""
    return [
        None if bound / (1 + NOISE) <= value <= bound * (1 + NOISE) else bool(value < bound)
        for value in np.atleast_1d(np.asarray(values, float))
    ]


def above(values: float | Sequence[float] | np.ndarray, bound: float = 1) -> list[bool | None]:
    """Tell of each ratio whether it is above a bound; None: nearer to it than the noise."""
    return [None if found is None else not found for found in below(values, bound)]


def every(found: Sequence[bool | None]) -> bool | None:
    """Tell whether all ratios of a comparison hold; None: the noise decides."""
    return False if False in found else None if None in found else True


def unmeasured(claim: int, lacking: str, why: str) -> Verdict:
    """Return the verdict on a claim about what is not here, with the figures of what is."""
    return Verdict(claim, "not measured", f"{lacking} {why}")


def verdict(claim: int, holds: bool | Sequence[bool | None], why: str) -> Verdict:
    """Return a verdict: yes if all hold, no if none does, undecided if the noise is larger."""
    found = {holds} if isinstance(holds, bool | np.bool_) else set(holds)
    if found == {None}:
        return Verdict(claim, "undecided", why)
    word: Holds = "yes" if found == {True} else "no" if True not in found else "in part"
    return Verdict(claim, word, why)
