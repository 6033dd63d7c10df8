"""Computations whose arrays grow from stage to stage, with the storage exchanged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..peers.base import Peer
from .candidates import FILE, HDF5, HDF5_CACHE, NETCDF, OURS, ZARR
from .harness import Chart, Report, Work, above, columns, verdict

#: The stores of the arrays: a file that is rewritten at each growth stands for DRA.
NAMES = (OURS, FILE, HDF5, HDF5_CACHE, NETCDF, ZARR)
PARTS = ("growth", "reading and writing", "computing")


class Storage:
    """A candidate's array as the applications see it; records the time of each kind of work."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.ndim = len(peer.shape)
        self.growth = self.transfer = 0.0
        self.attrs: dict[str, Any] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return self.peer.shape

    def __getitem__(self, key: Any) -> np.ndarray:
        start = time.perf_counter()
        # A copy, as all other arrays return one.
        values = np.array(self.peer.array[key])
        self.transfer += time.perf_counter() - start
        return values

    def write(self, key: Any, values: Any) -> None:
        start = time.perf_counter()
        self.peer.array[key] = values
        self.transfer += time.perf_counter() - start

    def extend(self, axis: int, by: int) -> None:
        if by:
            start = time.perf_counter()
            self.peer.grow(axis, by)
            self.growth += time.perf_counter() - start

    def append(self, values: np.ndarray, axis: int) -> None:
        old = self.shape[axis]
        self.extend(axis, values.shape[axis])
        if values.size:
            self.write((slice(None),) * axis + (slice(old, None),), values)


def increments(start: int, stop: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield growths of 1 to 100, like the outside program's, up to a bound."""
    while start < stop:
        by = min(int(rng.integers(1, 101)), stop - start)
        yield by
        start += by


def timed(arrays: Sequence[Storage], stages: Iterator[object]) -> np.ndarray:
    """Return seconds of each stage: growing, reading and writing, computing."""
    rows, before = [], np.zeros(3)
    begin = time.perf_counter()
    for _ in stages:
        total = time.perf_counter() - begin
        parts = np.array([sum(a.growth for a in arrays), sum(a.transfer for a in arrays), total])
        parts[2] -= parts[0] + parts[1]
        rows.append(parts - before)
        before = parts
    return np.array(rows)


def report(
    work: Work,
    x: str,
    sizes: Sequence[int],
    runs: Mapping[str, Callable[[], np.ndarray]],
    what: str,
    checked: str,
) -> Report:
    """Chart whole stages and the storage alone, and judge claim 16; `checked` tells how."""
    found = work.least(runs, 1 if work.scale == "tiny" else 2)
    by_stage = [{name: times[i] for name, times in found.items()} for i in range(len(sizes))]
    every = Chart("a stage", x, list(sizes), "seconds", columns(by_stage))
    storage = Chart(
        "growth and transfers alone", x, list(sizes), "seconds", columns(by_stage, slice(0, 2))
    )
    parts = Chart(
        "where the time goes, all stages",
        "",
        list(PARTS),
        "seconds",
        {name: times.sum(0).tolist() for name, times in found.items()},
    )
    rivals = [name for name in found if name not in (OURS, *MORE)]
    whole = {name: found[name].sum() / found[OURS].sum() for name in rivals}
    alone = {name: found[name][:, :2].sum() / found[OURS][:, :2].sum() for name in rivals}
    share = 100 * found[OURS][:, :2].sum() / found[OURS].sum()
    told = "; ".join(f"{name} {whole[name]:.2f} ({alone[name]:.1f})" for name in rivals)
    why = (
        f"Times as long as with extarray, in all (growth and transfers alone): {told}. With "
        f"extarray these take {share:.0f} % of the time of {what}. {checked}"
    )
    more = [
        f"{name} takes {found[name].sum() / found[OURS].sum():.2f} of that."
        for name in MORE
        if name in found
    ]
    held = above(list(whole.values()))
    return Report([every, storage, parts], [verdict(16, held, " ".join([why, *more]))])


#: Not an exchange of the storage, but another algorithm.
INCREMENTAL = "extarray.apps, what is new alone"
MORE = (INCREMENTAL,)
