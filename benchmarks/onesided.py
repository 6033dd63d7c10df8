"""One-sided access to global arrays, beside hand-written MPI windows and Global Arrays.

    python benchmarks/onesided.py

Rank 0 of two gets, puts and accumulates patches in the zone of rank 1.  Hand-written means: a
window, a type made in advance, one call, and a flush; values lie in one run.  Global Arrays ("GA")
are Debian's, with their own MPI, and left out if not found.  All take turns.

Each time is the lower quartile, as other programs may have interrupted half of the calls or more;
each ratio compares two such times.  With ``MPIR_CVAR_NOLOCAL=1`` MPICH treats the ranks as on two
hosts: everything then goes through MPI.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

if __name__ == "__main__" and not __package__:
    # Run as a file: an installed extarray wins over an unbuilt one in the same place.
    sys.path[0:1] = []
    sys.path.append(os.fspath(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.launching import Worker, in_turn, started
from benchmarks.report import duration

#: Larger patches count as large, with this limit of our time over the hand-written one's.
LARGE = 1 << 21
TARGET = 1.3
#: Modules of ranks/: ours and hand-written windows, and Global Arrays.
WINDOWS, GA = "windows", "ga"


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
    ga: float | None

    @property
    def ratio(self) -> float:
        return self.ours / self.by_hand


def patches(rows: int, columns: int) -> Iterator[Patch]:
    """Yield patches of several sizes of a zone: whole rows, half rows, and a few columns."""
    n = rows
    while n >= 1:
        yield Patch("whole rows", n, columns)
        yield Patch("half rows", n, columns // 2)
        if n > 8:
            yield Patch("8 columns", n, 8)
        n //= 16


def compare(
    workers: dict[str, Worker], patch: Patch, rounds: int, seconds: float
) -> Iterator[Result]:
    """Yield the results of all operations on a patch."""
    size = {"rows": patch.rows, "columns": patch.columns}
    found = in_turn(workers, rounds, "measure", **size, seconds=seconds / rounds)
    if WINDOWS not in found:
        return
    times: dict[tuple[str, str], list[float]] = {}
    for measured in (one for several in found.values() for one in several):
        for operation, taken in measured.items():
            for who, some in taken.items():
                times.setdefault((operation, who), []).extend(some)
    quartiles = {key: float(np.percentile(taken, 25)) for key, taken in times.items()}
    for operation in dict.fromkeys(operation for operation, _ in quartiles):
        ours, by_hand = (quartiles[operation, who] for who in ("ours", "by hand"))
        yield Result(
            patch.name, patch.nbytes, operation, ours, by_hand, quartiles.get((operation, GA))
        )


def heading() -> str:
    return (
        f"{'patch':12}{'KiB':>8}  {'operation':12}{'ours':>10}{'by hand':>10}{'GA':>10}"
        f"{'ours / by hand':>16}{'ours / GA':>11}"
    )


def line(r: Result) -> str:
    """Return a result as text."""
    miss = "  MISS" if r.nbytes >= LARGE and r.ratio > TARGET else ""
    ga, to_ga = ("–", "–") if r.ga is None else (duration(r.ga), f"{r.ours / r.ga:.2f}")
    return (
        f"{r.patch:12}{r.nbytes / 1024:8.1f}  {r.operation:12}{duration(r.ours):>10}"
        f"{duration(r.by_hand):>10}{ga:>10}{r.ratio:16.2f}{to_ga:>11}{miss}"
    )


def summary(results: Sequence[Result]) -> str:
    large = [r.ratio for r in results if r.nbytes >= LARGE]
    held = sum(ratio <= TARGET for ratio in large)
    return f"{held} of {len(large)} large patches take at most {TARGET} of the time by hand"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if ours failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--rows", type=int, default=4096, help="rows of a zone (default: %(default)s)")
    add("--columns", type=int, default=1024, help="elements of a row (default: %(default)s)")
    add("--seconds", type=float, default=0.5, help="for each operation (default: %(default)s)")
    add("--rounds", type=int, default=3, help="turns of the programs (default: %(default)s)")
    add("--quick", action="store_true", help="tiny sizes, once: only to see that all cases run")
    add("--peers", nargs="*", choices=(GA,), default=(GA,), help="beside ours")
    add("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.columns, options.seconds, options.rounds = 32, 16, 0.0, 1
    results = []
    with ExitStack() as stack:
        folder = tempfile.mkdtemp(prefix="extarray-bench-")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        workers = started((WINDOWS, *options.peers), 2, Path(folder), stack, "patches.py")
        in_turn(workers, 1, "make", rows=options.rows, columns=options.columns)
        print(heading())
        for patch in patches(options.rows, options.columns):
            if WINDOWS not in workers:
                return 1
            for result in compare(workers, patch, options.rounds, options.seconds):
                print(line(result), flush=True)
                results.append(result)
        in_turn(workers, 1, "remove")
    print(f"\n{summary(results)}")
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
