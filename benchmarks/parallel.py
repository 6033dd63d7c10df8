"""Measure arrays of several MPI ranks beside their peers, in turn, in one run; print ratios.

Run ``python benchmarks/parallel.py --help`` for the options; README.md explains the output.  A
candidate is a program, ranks/program.py, on 1, 2 and 4 ranks, which sleeps until its turn.
Candidates that are not installed are named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    # Run as a file: an installed extarray wins over an unbuilt one in the same place.
    sys.path[0:1] = []
    sys.path.append(os.fspath(Path(__file__).resolve().parents[1]))

from benchmarks.launching import Worker, in_turn, started

OURS = ("ours", "ours_mpi_io", "ours_pread")
PLAIN = "plain"
#: These must rewrite the array when axes 1 and 2 grow.
REORGANISERS = ("conventional", "pnetcdf", "dra")
PEERS = ("hdf5", "pnetcdf", "dra")
CANDIDATES = (*OURS, PLAIN, "conventional", *PEERS)


@dataclass(frozen=True)
class Scale:
    """Sizes of the array, of the chunks, and of the growths (start, chunks, by)."""

    shape: tuple[int, int, int]
    chunks: tuple[int, ...]
    growths: tuple[tuple[tuple[int, int, int], int, int], ...]
    times: int = 16

    @property
    def nbytes(self) -> int:
        n, m, k = self.shape
        return 8 * n * m * k


SCALES = {
    "full": Scale((512, 512, 256), (64, 32), (((12, 12, 12), 12, 12), ((256, 256, 128), 32, 32))),
    "medium": Scale((256, 256, 256), (64, 32), (((12, 12, 12), 12, 12), ((128, 128, 128), 32, 32))),
    "quick": Scale((16, 16, 16), (8, 4), (((4, 4, 4), 4, 4),), 6),
}


#: Least seconds by name of the line, then of the candidate.
Table = dict[str, dict[str, float]]


def zones(workers: dict[str, Worker], scale: Scale, rounds: int) -> Iterator[tuple[str, Any]]:
    """Yield lines of reading and writing BLOCK zones."""
    for chunk in scale.chunks:
        first = in_turn(workers, rounds, "first", shape=scale.shape, chunks=(chunk,) * 3)
        yield f"first write, {chunk}³", first
        in_turn(workers, 1, "make", shape=scale.shape, chunks=(chunk,) * 3)
        in_turn(workers, 1, "write", aligned=True)
        for aligned in (True, False):
            kind = "aligned" if aligned else "unaligned"
            yield f"write, {chunk}³, {kind}", in_turn(workers, rounds, "write", aligned=aligned)
            in_turn(workers, 1, "read", aligned=aligned, check=True)
            found = in_turn(workers, rounds, "read", aligned=aligned, check=False)
            yield f"read, {chunk}³, {kind}", found
        in_turn(workers, 1, "remove")


def growths(workers: dict[str, Worker], scale: Scale, rounds: int) -> Iterator[tuple[str, Any]]:
    """Yield lines of growth: sums of all growths."""
    for shape, chunk, by in scale.growths:
        size = "x".join(map(str, shape))
        arguments = {"shape": shape, "chunks": (chunk,) * 3, "by": by, "times": scale.times}
        found = in_turn(workers, rounds, "grow", **arguments)
        yield f"{scale.times} growths from {size}", {n: list(map(sum, f)) for n, f in found.items()}


def report(title: str, lines: Iterator[tuple[str, Any]], table: Table) -> None:
    """Print lines as they arrive: our time, and the others' times over ours."""
    print(f"\n{title}")
    names = list(CANDIDATES)
    print(" " * 34 + "".join(f"{name:>13}" for name in names))
    for line, found in lines:
        best = table[line] = {name: min(seconds) for name, seconds in found.items()}
        ours = best.get("ours")
        cells = []
        for name in names:
            if name not in best:
                cells.append("–")
            elif name == "ours" or ours is None:
                cells.append(f"{1e3 * best[name]:.1f} ms")
            else:
                cells.append(f"{best[name] / ours:.2f}")
        print(f"{line:34}" + "".join(f"{cell:>13}" for cell in cells), flush=True)


def verdicts(table: Table) -> Iterator[tuple[bool, str]]:
    """Yield the expectation of our default engine on each line, and whether it holds."""
    for line, times in table.items():
        ours = times.get("ours")
        if ours is None:
            continue
        is_growth = "growths" in line
        ratios = {name: seconds / ours for name, seconds in times.items() if name not in OURS}
        for name in REORGANISERS:
            if is_growth and name in ratios:
                yield ratios[name] >= 10, f"{line}: {ratios[name]:.1f} times as fast as {name} (10)"
        rivals = [name for name in PEERS if name in ratios]
        if rivals:
            best = min(rivals, key=ratios.__getitem__)
            yield ratios[best] >= 1, f"{line}: {ratios[best]:.2f} times as fast as {best} (1)"
        if PLAIN in ratios and not is_growth:
            ratio = ratios[PLAIN]
            yield ratio >= 0.7, f"{line}: {ratio:.2f} of the speed of pread and pwrite (0.7)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if one of our engines failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--scale", choices=SCALES, default="medium", help="sizes (default: %(default)s)")
    add("--ranks", type=int, choices=(1, 2, 4), action="append", help="may be repeated")
    add("--only", choices=("zones", "growths"), help="leave the other lines out")
    add("--candidates", nargs="*", choices=CANDIDATES, default=CANDIDATES)
    add("--rounds", type=int, default=5, help="runs of each line (default: %(default)s)")
    add("--folder", type=Path, help="where files go (default: that of temporary files)")
    add("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that candidates end
    scale = SCALES[options.scale]
    tables: dict[int, Table] = {}
    failed = False
    print(f"{scale.shape} float64, {scale.nbytes >> 20} MiB, {os.cpu_count()} processors")
    for ranks in options.ranks or (1, 2, 4):
        with ExitStack() as stack:
            name = tempfile.mkdtemp(prefix="extarray-bench-", dir=options.folder)
            stack.callback(shutil.rmtree, name, ignore_errors=True)
            workers = started(options.candidates, ranks, Path(name), stack)
            table = tables[ranks] = {}
            if options.only != "growths":
                report(f"{ranks} ranks: zones", zones(workers, scale, options.rounds), table)
            if options.only != "zones":
                report(f"{ranks} ranks: growth", growths(workers, scale, options.rounds), table)
            failed = failed or any(
                ours in options.candidates and ours not in workers for ours in OURS
            )
    if options.scale != "quick":
        print("\nWhat is expected, and does not hold:")
        for ranks, table in tables.items():
            for holds, text in verdicts(table):
                if not holds:
                    print(f"  {ranks} ranks: {text}")
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
