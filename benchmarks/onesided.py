"""One-sided access to global arrays, beside the same patches through MPI's windows by hand.

    mpiexec -n 2 python -m mpi4py benchmarks/onesided.py

Rank 0 gets, puts and accumulates patches in the zone of rank 1.  By hand means: a window, the type
of the patch made before, one call, and a flush; values lie in one run.  The two take turns.  Each
time is the lower quartile, as half of all calls or more may have been interrupted where other
programs run; each ratio is that of two such times.  ``MPIR_CVAR_NOLOCAL=1`` has MPICH take the
ranks for those of two hosts: then everything goes through MPI.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    # Run as a file: an installed extarray is preferred to an unbuilt one in the same place.
    sys.path[0:1] = []
    sys.path.append(os.fspath(Path(__file__).resolve().parents[1]))

import numpy as np
from mpi4py import MPI

from benchmarks.report import duration
from extarray.mpi import GlobalArray

#: From this size on a patch is large, and takes at most so many times as long as by hand.
LARGE = 1 << 21
TARGET = 1.3


@dataclass(frozen=True)
class Patch:
    """A box of elements of a zone."""

    name: str
    rows: int
    columns: int

    @property
    def nbytes(self) -> int:
        return 8 * self.rows * self.columns


@dataclass(frozen=True)
class Result:
    """Times of one operation on one patch, in seconds."""

    patch: str
    nbytes: int
    operation: str
    ours: float
    by_hand: float

    @property
    def ratio(self) -> float:
        return self.ours / self.by_hand


def patches(rows: int, columns: int) -> Iterator[Patch]:
    """Patches of several sizes of a zone: whole rows, half rows, and a few columns."""
    n = rows
    while n >= 1:
        yield Patch("whole rows", n, columns)
        yield Patch("half rows", n, columns // 2)
        if n > 8:
            yield Patch("8 columns", n, 8)
        n //= 16


def in_turn(calls: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Lower quartiles of the times of calls that take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while len(times[0]) < 5 or time.perf_counter() < end:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [float(np.percentile(taken, 25)) for taken in times]


def measure(comm: Any, rows: int, columns: int, seconds: float) -> list[Result]:
    """Compare all operations on all patches; rank 0 has the results."""
    results = []
    window = MPI.Win.Allocate(8 * rows * columns, 1, comm=comm)
    with GlobalArray.create((2 * rows, columns), "f8", comm, process_grid=(2, 1)) as g:
        np.frombuffer(window.tomemory(), "f8")[:] = 0
        window.Lock_all()
        comm.Barrier()
        if comm.rank == 0:
            for patch in patches(rows, columns):
                results += compare(g, window, rows, columns, patch, seconds)
        comm.Barrier()
        window.Unlock_all()
    window.Free()
    return results


def compare(
    g: GlobalArray, window: Any, rows: int, columns: int, patch: Patch, seconds: float
) -> Iterator[Result]:
    """Compare all operations on a patch."""
    values, found, by_hand = (np.ones((patch.rows, patch.columns)) for _ in range(3))
    selection = (slice(rows, rows + patch.rows), slice(0, patch.columns))
    box = MPI.DOUBLE.Create_vector(patch.rows, patch.columns, columns).Commit()
    target = (0, 1, box)

    def completed(call: Callable[..., None], buffer: np.ndarray) -> Callable[[], None]:
        def run() -> None:
            call(buffer, 1, target)
            window.Flush(1)

        return run

    pairs = {
        "get": (lambda: g.get(selection, found), completed(window.Get, by_hand)),
        "put": (lambda: g.put(selection, values), completed(window.Put, values)),
        "accumulate": (
            lambda: g.accumulate(selection, values),
            completed(window.Accumulate, values),
        ),
    }
    for operation, calls in pairs.items():
        ours, theirs = in_turn(calls, seconds)
        yield Result(patch.name, patch.nbytes, operation, ours, theirs)
    box.Free()


def table(results: Sequence[Result]) -> str:
    """The results as text."""
    lines = [f"{'patch':12}{'KiB':>8}  {'operation':12}{'ours':>10}{'by hand':>10}{'ratio':>7}"]
    for r in results:
        miss = "  MISS" if r.nbytes >= LARGE and r.ratio > TARGET else ""
        lines.append(
            f"{r.patch:12}{r.nbytes / 1024:8.1f}  {r.operation:12}{duration(r.ours):>10}"
            f"{duration(r.by_hand):>10}{r.ratio:7.2f}{miss}"
        )
    large = [r.ratio for r in results if r.nbytes >= LARGE]
    held = sum(ratio <= TARGET for ratio in large)
    lines.append(
        f"\n{held} of {len(large)} large patches take at most {TARGET} of the time by hand"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--rows", type=int, default=4096, help="rows of a zone (default: %(default)s)")
    add("--columns", type=int, default=1024, help="elements of a row (default: %(default)s)")
    add("--seconds", type=float, default=0.5, help="for each operation (default: %(default)s)")
    add("--quick", action="store_true", help="tiny sizes, once: only to see that all cases run")
    add("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.columns, options.seconds = 32, 16, 0.0
    comm = MPI.COMM_WORLD
    if comm.size != 2:
        raise SystemExit("this is for two ranks: mpiexec -n 2")
    results = measure(comm, options.rows, options.columns, options.seconds)
    if comm.rank == 0:
        print(MPI.Get_library_version().split("\n")[0], *MPI.get_vendor())
        print(table(results))
        if options.json:
            options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))


if __name__ == "__main__":
    main()
