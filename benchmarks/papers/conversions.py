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
from .harness import Chart, Report, Verdict, Work, below, seconds, span, verdict

SIDES = {"tiny": 64, "small": 2048, "full": 65_536}
ROOT = Path(__file__).resolve().parents[2]
KINDS = ("skewed", "conversion", "aligned")
#: The memory of a rank, as a part of the array.
SHARES = {"an eighth": 8, "half": 2}
SQUARES = "square chunks, never converted"


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


def break_even(chart: Chart) -> str | None:
    """Return the block from which on one read takes longer than conversion and aligned read."""
    skewed, conversion, aligned = (np.asarray(chart.lines[kind]) for kind in KINDS)
    pays = skewed > conversion + aligned
    for number, block in enumerate(chart.xs):
        if pays[number:].all():
            return block
    return None


def report(work: Work, side: int, ranks: Sequence[int], with_squares: bool = False) -> Report:
    """Tables 2 to 4: a chart for each number of ranks and memory, and verdicts on the claims."""
    work.need(2 * 8 * side**2)
    work.note(f"Here: {side} x {side} doubles.")
    found = {
        f"{n} rank{'s' * (n > 1)}, {words} in memory": measure(
            work.scale, work.folder.parent, n, side, part
        )
        for n in ranks
        for words, part in SHARES.items()
    }
    charts = [chart(rows, title) for title, rows in found.items()]
    if with_squares:
        square = squares(work, side, [row.shape for row in next(iter(found.values()))])
        charts[0].lines[SQUARES] = square
    return Report(charts)


def judge(report: Report) -> list[Verdict]:
    """Judge claims 18 and 19."""
    spread = [_spread(chart.lines["conversion"]) for chart in report.charts]
    aligned = [_spread(chart.lines["aligned"]) for chart in report.charts]
    skew = [max(line) / line[0] for line in (chart.lines["skewed"] for chart in report.charts)]
    pays = {chart.title: break_even(chart) for chart in report.charts}
    said = "; ".join(f"from {block} on ({title})" for title, block in pays.items() if block)
    if said and not all(pays.values()):
        said += "; for no other"
    why = (
        f"One read repays its conversion {said or 'for no block'}. The most skewed read takes "
        f"{span(skew)} times as long as the nearest; aligned ones differ {span(aligned)}-fold."
    )
    if report.charts[0].has(SQUARES):
        never = _spread(report.charts[0].lines[SQUARES])
        why += f" From square chunks, never converted, reads differ {never:.1f}-fold."
    return [
        verdict(
            18,
            below(spread, 1.6),
            f"Conversions differ {span(spread)}-fold between blocks, with an eighth or half of "
            "the array in the memory of a rank.",
        ),
        verdict(19, [block is not None for block in pays.values()], why),
    ]


def _spread(values: Iterable[float]) -> float:
    values = list(values)
    return max(values) / min(values)
