"""Change chunks on disk, beside a plain copy, dask and rechunker.

``python -m benchmarks.rechunk --bytes "2 GiB"`` prints a table.  Candidates take turns, each in its
own process and on its own files; the least time of some rounds counts, and the greatest peak of
anonymous memory (on Linux; mapped files do not count).  Data are uncompressed, the page cache is
warm, and fsync is never called.

rechunker needs an older zarr than dask: ``--rechunker-python`` names the Python of an environment
that has it.  Candidates whose packages are missing are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from extarray.common.arguments import parse_bytes
from extarray.common.formatting import format_bytes

from .rechunkers import RECHUNKERS, UNABLE
from .report import duration

CHILD = Path(__file__).resolve().parent / "rechunkers.py"
PLAIN, OURS, PANGEO = "plain copy", "extarray", "rechunker"
PATIENCE = 1800.0


@dataclass(frozen=True)
class Case:
    """A float64 array, its chunks, and its new chunks and axes."""

    name: str
    shape: tuple[int, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return 8 * math.prod(self.shape)


@dataclass(frozen=True)
class Outcome:
    """Elapsed seconds, busy seconds of processors, and bytes of memory."""

    seconds: float
    busy: float
    peak: int


def cases(nbytes: int) -> Iterator[Case]:
    """Yield the cases, of `nbytes` bytes at most (at least 0.5 MB), in hundreds of chunks."""
    side = 1 << max(8, int(math.log2(nbytes / 8) / 2))
    cube = max(32, int((nbytes / 8) ** (1 / 3)) // 32 * 32)
    # The smallest template from whole rows to whole columns would be the whole array.
    long, thin, square = min(side, 4096), side // 256, side // 32
    sheet = (side, side)
    yield Case("rows to columns", sheet, (thin, long), (long, thin), (0, 1))
    yield Case("squares, transposed", sheet, (square,) * 2, (square,) * 2, (1, 0))
    yield Case("squares to cubes", (cube,) * 3, (1, cube // 2, cube // 2), (32,) * 3, (0, 1, 2))


def run(
    candidate: str, python: str, case: Case, memory: int, parent: Path | None
) -> Outcome | None:
    """Run the case in a process; return None if it cannot."""
    with tempfile.TemporaryDirectory(prefix="extarray-bench-", dir=parent) as folder:
        job = {**asdict(case), "memory": memory, "folder": folder, "candidate": candidate}
        done = subprocess.run(
            [python, str(CHILD), json.dumps(job)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    if done.returncode == UNABLE:
        return None
    if done.returncode:
        raise RuntimeError(f"{candidate} failed in '{case.name}':\n{done.stderr}")
    return Outcome(**json.loads(done.stdout))


def measure(
    case: Case, memory: int, pythons: Mapping[str, str], rounds: int, parent: Path | None
) -> dict[str, Outcome | None]:
    """Return the best time and the worst memory of each candidate; they take turns."""
    found: dict[str, list[Outcome]] = {name: [] for name in pythons}
    for _ in range(rounds):
        for name, python in pythons.items():
            outcome = run(name, python, case, memory, parent)
            found[name] += [outcome] if outcome else []
    return {name: best(some) if some else None for name, some in found.items()}


def best(outcomes: Sequence[Outcome]) -> Outcome:
    seconds, busy, peaks = zip(*map(astuple, outcomes), strict=True)
    return Outcome(min(seconds), min(busy), max(peaks))


def table(results: Mapping[Case, Mapping[str, Outcome | None]]) -> str:
    """Return times, also over those of the plain copy and of ours, and memory, as Markdown."""
    lines = [
        "| case | candidate | time | of a plain copy | of extarray | processor time | memory |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case, outcomes in results.items():
        plain, ours = (outcomes[name].seconds for name in (PLAIN, OURS))
        for name, outcome in outcomes.items():
            cells = [f"{case.name}, {format_bytes(case.nbytes)}", name]
            if outcome is None:
                cells += ["–"] * 5
            else:
                cells += [
                    duration(outcome.seconds),
                    f"{outcome.seconds / plain:.2f}",
                    f"{outcome.seconds / ours:.2f}",
                    duration(outcome.busy),
                    format_bytes(outcome.peak),
                ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bytes", default="256 MiB", help="of the array (default: 256 MiB)")
    parser.add_argument("--memory", default="256 MiB", help="that may be used (default: 256 MiB)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files go (default: temporary)")
    parser.add_argument("--only", metavar="CASE", help="as rows, squares, cubes")
    parser.add_argument("--rechunker-python", default=sys.executable)
    options = parser.parse_args()
    memory = parse_bytes(options.memory)
    every = list(cases(parse_bytes(options.bytes)))
    chosen = [case for case in every if (options.only or "") in case.name]
    if not chosen:
        names = ", ".join(case.name for case in every)
        parser.error(f"--only {options.only!r} is in no name of a case: {names}")
    pythons = {**dict.fromkeys(RECHUNKERS, sys.executable), PANGEO: options.rechunker_python}
    print(
        table(
            {
                case: measure(case, memory, pythons, options.rounds, options.folder)
                for case in chosen
            }
        )
    )


if __name__ == "__main__":
    main()
