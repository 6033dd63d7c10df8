"""Read across chunks, change them, and read along them, as `benchmarks.accesses` does."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import extarray as xa

from .. import accesses
from ..sizes import Unsupported
from .harness import Chart, Report, Work, below, seconds, span, verdict

SIDES = {"tiny": 64, "small": 2048, "full": 65_536}
ROOT = Path(__file__).resolve().parents[2]
KINDS = ("skewed", "conversion", "aligned")
#: The memory of a rank, as a part of the array.
SHARES = {"an eighth": 8, "half": 2}


@functools.cache
def measure(scale: str, parent: Path, ranks: int, side: int, part: int) -> list[accesses.Row]:
    """Return the rows of a square on some ranks with a part of it in memory; tables share them."""
    mpiexec = Path(sysconfig.get_path("scripts"), "mpiexec")
    if not mpiexec.exists():
        raise Unsupported("MPI is not installed")
    program = (
        f"import sys; sys.path.append({str(ROOT)!r}); from benchmarks.accesses import main; main()"
    )
    command = [mpiexec, "-n", ranks, sys.executable, "-m", "mpi4py", "-c", program]
    with tempfile.TemporaryDirectory(prefix="extarray-papers-", dir=parent) as folder:
        found = Path(folder) / "rows.json"
        options = {"--side": side, "--memory": max(2**16, 8 * side * side // part), "--json": found}
        options |= {"--rounds": 1 if scale == "tiny" else 2, "--folder": folder}
        arguments = [str(part) for pair in options.items() for part in pair]
        done = subprocess.run(
            [*map(str, command), *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        rows = json.loads(found.read_text())
    return [accesses.Row(tuple(row[0]), *row[1:]) for row in rows]


def chart(rows: list[accesses.Row], title: str) -> Chart:
    lines = {kind: [getattr(row, kind) for row in rows] for kind in KINDS}
    names = [f"{row.shape[0]} x {row.shape[1]}" for row in rows]
    return Chart(title, "block", names, "seconds", lines)


def squares(work: Work, side: int, shapes: list[tuple[int, int]]) -> list[float]:
    """Return the seconds to read all in blocks of each shape from square chunks, in one process."""
    path = work.new() / "a"
    chunk = 1 << ((side * side // 2 ** max(side.bit_length() - 1, 1)).bit_length() // 2)
    with xa.create(path, (side, side), "f8", chunks=(chunk, chunk)) as array:
        for start in range(0, side, chunk):
            array[start : start + chunk] = np.float64(start)
    alone = SimpleNamespace(rank=0, size=1)
    runs = {str(s): partial(seconds, partial(accesses.read_all, path, s, alone)) for s in shapes}
    found = work.least(runs)
    return [float(found[str(shape)]) for shape in shapes]


def break_even(rows: list[accesses.Row]) -> str:
    """Return from which block on one read takes longer than conversion and aligned read."""
    for number, row in enumerate(rows):
        if all(r.skewed > r.conversion + r.aligned for r in rows[number:]):
            return f"from {row.shape[0]} x {row.shape[1]} on"
    return "for no block"


def report(work: Work, side: int, ranks: Sequence[int], with_squares: bool = False) -> Report:
    """Tables 2 to 4: a chart for each number of ranks and memory, and verdicts on the claims."""
    work.need(2 * 8 * side**2)
    found = {
        f"{n} rank{'s' * (n > 1)}, {words} in memory": measure(
            work.scale, work.folder.parent, n, side, part
        )
        for n in ranks
        for words, part in SHARES.items()
    }
    charts = [chart(rows, title) for title, rows in found.items()]
    spread = [_spread(row.conversion for row in rows) for rows in found.values()]
    aligned = [_spread(row.aligned for row in rows) for rows in found.values()]
    said = "; ".join(f"{break_even(rows)} with {title}" for title, rows in found.items())
    pays = [break_even(rows) != "for no block" for rows in found.values()]
    skew = [max(row.skewed for row in rows) / rows[0].skewed for rows in found.values()]
    why = (
        f"One read repays its conversion {said}. The most skewed read takes {span(skew)} times as "
        f"long as the nearest, aligned ones differ {span(aligned)}-fold."
    )
    if with_squares:
        square = squares(work, side, [row.shape for row in next(iter(found.values()))])
        charts[0].lines["square chunks, never converted"] = square
        why += (
            " From square chunks, never converted, reads of all blocks differ "
            f"{_spread(square):.1f}-fold."
        )
    return Report(
        charts,
        [
            verdict(
                18,
                below(spread, 1.6),
                f"Conversions differ {span(spread)}-fold between blocks, with an eighth or half "
                "of the array in the memory of each rank.",
            ),
            verdict(19, pays, why),
        ],
    )


def _spread(values: Iterable[float]) -> float:
    values = list(values)
    return max(values) / min(values)
