"""Read along the chunks and across them, and measure the cost of converting the chunks in between.

``mpiexec -n 2 python -m mpi4py -m benchmarks.accesses --side 8192`` prints the table of two ranks.

A square of float64 lies in chunks that are rows.  A program reads all of it in boxes of one of 11
shapes, from rows to columns, which the ranks share.  The boxes meet the chunks *skewed*; after
`extarray.rechunk` to chunks of their shape they are *aligned*.  The conversion pays after the
number of readings that save its cost.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import extarray as xa

SHAPES = 11
#: Conversions of an array before the next shape; the least time counts.  A virtual machine takes
#: several times as long if its host has to return memory that it had taken back.
CONVERSIONS = 2
Shape = tuple[int, int]


class Row(NamedTuple):
    """Seconds for one shape of access."""

    shape: Shape
    skewed: float
    conversion: float
    aligned: float

    @property
    def break_even(self) -> float:
        """The number of readings from which on the conversion pays."""
        saved = self.skewed - self.aligned
        return math.ceil(self.conversion / saved) if saved > 0 else math.inf


def shapes(side: int) -> Iterator[Shape]:
    """Return boxes of equal size, from rows to columns; fewer than 11 if `side` is below 1024."""
    n = min(SHAPES, side.bit_length())
    thin = side >> n - 1
    return ((thin << i, side >> i) for i in range(n))


def timed(comm: Any, run: Callable[[], object]) -> float:
    """Time a run that all ranks begin together, until the last is done."""
    comm.Barrier()
    start = time.perf_counter()
    run()
    comm.Barrier()
    return comm.bcast(time.perf_counter() - start)


def read_all(path: Path, shape: Shape, comm: Any) -> None:
    """Read an array in boxes; each rank reads its share of neighbouring boxes."""
    out = np.empty(shape)
    with xa.open(path) as array:
        starts = itertools.product(*map(range, (0, 0), array.shape, shape))
        boxes = [tuple(map(slice, start, np.add(start, shape))) for start in starts]
        for box in np.array_split(np.arange(len(boxes)), comm.size)[comm.rank]:
            array.read(boxes[box], out=out)


def convert(source: Path, target: Path, shape: Shape, memory: str, comm: Any) -> float:
    """Return the time to give an array chunks of another shape; collective."""
    if not comm.rank:
        for suffix in (".xmd", ".xta"):
            Path(f"{target}{suffix}").unlink(missing_ok=True)
    options = {"comm": comm, "max_memory": memory, "progress": False}
    return timed(comm, lambda: xa.rechunk(source, target, chunks=shape, **options).close())


def sweep(comm: Any, folder: Path, side: int, memory: str) -> Iterator[Row]:
    """Measure each shape; collective."""
    source, target = folder / "source", folder / "target"
    for shape in shapes(side):
        skewed = timed(comm, partial(read_all, source, shape, comm))
        times = [convert(source, target, shape, memory, comm) for _ in range(CONVERSIONS)]
        aligned = timed(comm, partial(read_all, target, shape, comm))
        yield Row(shape, skewed, min(times), aligned)


def rows(comm: Any, folder: Path, side: int, memory: str, rounds: int) -> list[Row]:
    """Return the least times of some sweeps; collective."""
    first, *_ = shapes(side)
    if not comm.rank:
        with xa.create(folder / "source", (side, side), "f8", chunks=first) as array:
            for start in range(0, side, first[0]):
                array[start : start + first[0]] = start
    sweeps = [list(sweep(comm, folder, side, memory)) for _ in range(rounds)]
    return [
        Row(same[0].shape, *map(min, zip(*(row[1:] for row in same), strict=True)))
        for same in zip(*sweeps, strict=True)
    ]


def table(measured: list[Row], side: int, ranks: int) -> str:
    lines = [
        f"**{side}² float64, {ranks} rank{'s' * (ranks > 1)}: milliseconds**",
        "",
        "| access | skewed | conversion | aligned | pays from |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in measured:
        times = " | ".join(f"{1e3 * seconds:.3g}" for seconds in row[1:])
        pays = f"{row.break_even} readings" if row.break_even < math.inf else "–"
        lines.append(f"| {row.shape[0]} × {row.shape[1]} | {times} | {pays} |")
    return "\n".join(lines)


def main() -> None:
    from mpi4py import MPI

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--side", type=int, default=2048, help="a power of two (default: 2048)")
    parser.add_argument("--memory", default="256 MiB", help="of a rank (default: 256 MiB)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where files go (default: the temporary one)")
    parser.add_argument("--json", type=Path, help="write the figures, in seconds, to this file")
    options = parser.parse_args()
    if options.side < 1 or options.side & (options.side - 1):
        parser.error("--side must be a power of two")
    comm = MPI.COMM_WORLD
    with tempfile.TemporaryDirectory(prefix="extarray-bench-", dir=options.folder) as own:
        folder = Path(comm.bcast(own))
        measured = rows(comm, folder, options.side, options.memory, options.rounds)
        if not comm.rank:
            print(table(measured, options.side, comm.size))
            if options.json:
                options.json.write_text(json.dumps(measured))
        comm.Barrier()


if __name__ == "__main__":
    main()
