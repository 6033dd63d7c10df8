"""Growing arrays with accesses in between, as in sections 3.5 and 6.4 of the thesis."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..peers.base import Peer
from .candidates import IN_MEMORY, OURS_MEMORY, fill, make, places, side
from .harness import Chart, Work, columns, generator, nbytes_of

#: The thesis's first bounds and numbers of growths, by number of axes; each growth is by the first
#: bound.
THESIS = {2: (1976, 15), 3: (142, 7), 4: (44, 4)}
#: First bounds at each scale; the thesis's own end near 10^9 elements.
STARTS = {
    "tiny": {2: 40, 3: 12, 4: 6},
    "small": {2: 494, 3: 71, 4: 26},
    "full": {k: start for k, (start, _) in THESIS.items()},
}
ACCESSES = {"tiny": 40, "small": 400, "full": 1000}


@dataclass(frozen=True)
class History:
    """Bounds at the start, and growths along random axes, each followed by accesses."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    by: int
    keys: tuple[tuple[tuple[int, ...], ...], ...]

    @classmethod
    def of(cls, work: Work, ndim: int) -> History:
        start, growths = work.choose(STARTS)[ndim], THESIS[ndim][1]
        rng = generator(ndim)
        # The thesis chooses axes at random; shuffled turns keep the final size in bounds.
        axes = rng.permutation(np.resize(np.arange(ndim), growths))
        bounds = [start] * ndim
        keys = []
        for axis in axes:
            bounds[axis] += start
            keys.append(tuple(places(bounds, work.choose(ACCESSES) // growths, rng)))
        return cls((start,) * ndim, tuple(axes.tolist()), start, tuple(keys))

    @property
    def final(self) -> tuple[int, ...]:
        return tuple(n + self.by * self.axes.count(j) for j, n in enumerate(self.shape))


def live(array: Peer, history: History) -> tuple[float, float]:
    """Run a history; return seconds of all growths, and of all accesses, half of them writes."""
    growing = accessing = 0.0
    clock = time.perf_counter
    for axis, keys in zip(history.axes, history.keys, strict=True):
        start = clock()
        array.grow(axis, history.by)
        middle = clock()
        elements = array.array
        for number, key in enumerate(keys):
            if number % 2:
                elements[key] = 1.0
            else:
                elements[key]
        accessing += clock() - middle
        growing += middle - start
    return growing, accessing


def living(
    work: Work, name: str, history: History, chunk: int | None = None
) -> Callable[[], object]:
    """Return a candidate's run, from a filled array at the first bounds on."""

    def run() -> tuple[float, float]:
        folder = work.new()
        array = make(name, folder, history.shape, chunk)
        fill(array, history.shape, generator())
        try:
            times = live(array, history)
            assert array.shape == history.final, f"{name} has {array.shape}"
            written = [key for keys in history.keys for key in keys[1::2]]
            assert all(array.array[key] == 1.0 for key in written[-20:]), name
        finally:
            array.close()
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        return times

    return run


def compare(work: Work, names: Sequence[str], ranks: Sequence[int] = (2, 3, 4)) -> list[Chart]:
    """Chart growth with accesses in between by number of axes: all, and the accesses alone."""
    found = []
    # Candidates that reorganise have the old array and the new one for a while.
    most = 2 * max(nbytes_of(History.of(work, ndim).final, side(ndim)) for ndim in ranks)
    files = [name for name in names if name not in IN_MEMORY]
    work.need(most * bool(files), most * (len(files) < len(names)))
    for ndim in ranks:
        history = History.of(work, ndim)
        found.append(work.least({name: living(work, name, history) for name in names}))
    sizes = (np.prod(History.of(work, ndim).final, dtype=float) for ndim in ranks)
    work.note(f"Here: up to {', '.join(f'{n:,.0f}' for n in sizes)} elements.")
    return [
        Chart(title, "axes", list(ranks), "seconds", columns(found, part))
        for title, part in (("growth and accesses", ...), ("growth", 0), ("accesses", 1))
    ]


def sides(work: Work, extents: Sequence[int]) -> Chart:
    """Chart the same history with chunks of several sides."""
    lines: dict[str, list[float | None]] = {}
    for ndim in (2, 3):
        history = History.of(work, ndim)
        found = work.least({str(n): living(work, OURS_MEMORY, history, n) for n in extents})
        lines[f"{ndim} axes"] = [float(found[str(n)].sum()) for n in extents]
    return Chart("growth and accesses", "side of a chunk", list(extents), "seconds", lines)
