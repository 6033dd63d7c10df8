"""The tables of `benchmarks.hyperspectral`: scenes of known layouts and real ones, by name."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .harness import Report, Verdict, Work, verdict

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("PPI", "N-FINDR", "AMEE")


class Section(NamedTuple):
    """Printed results of a scene: the text, and the first table by its methods."""

    text: str
    rows: dict[str, list[str]]

    def value(self, method: str, column: int) -> float:
        return float(self.rows[method][column].rstrip("°"))


def sections(text: str) -> dict[str, Section]:
    """Cut printed results into scenes, by name."""
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        rows = {}
        for line in re.findall(r"^\|(.+)\|$", body.partition("\n\n|class")[0], re.MULTILINE):
            method, *cells = line.split("|")
            if method in METHODS:
                rows.setdefault(method, cells)
        name = title.partition(":")[0]
        found[name] = Section(f"{title}:\n\n{body.strip()}", rows)
    return found


@functools.cache
def printed(data: Path, full: bool) -> dict[str, Section]:
    """Run the benchmark on the scenes of a folder."""
    program = f"import sys; sys.path.append({str(ROOT)!r}); "
    program += "from benchmarks.hyperspectral import main; main()"
    command = [sys.executable, "-c", program, "--only", "accuracy", "--data", str(data)]
    command += ["--scale", "full" if full else "small"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return sections(done.stdout)


def judged(found: dict[str, Section], names: Iterable[str]) -> Verdict:
    """Return the verdict on claim 22 from some scenes."""
    said, held = [], []
    for name in names:
        section = found[name]
        angles = {method: section.value(method, 3) for method in METHODS}
        right = {
            method: section.value(method, 0)
            for method in METHODS
            if section.rows[method][0] != "–"  # no pixel is labelled
        }
        best = right or {method: -angle for method, angle in angles.items()}
        held += [best["AMEE"] > best["PPI"], best["PPI"] > best["N-FINDR"]]
        told = ", ".join(f"{method} {value:.1f}" for method, value in right.items())
        degrees = ", ".join(f"{method} {value:.1f}" for method, value in angles.items())
        said.append(f"{name}: {f'{told} % of the pixels right, ' * bool(told)}angles of {degrees}°")
    return verdict(22, held, "; ".join(said) + ".")


def added(work: Work, report: Report, name: str) -> Report:
    """Return a report with the tables of a scene, if it has data, and the verdict from them."""
    if work.data is None:
        work.note("With --data the tables of the scene's own layout stand here as well.")
        return report
    found = printed(work.data, work.scale == "full")
    kept = [one for one in report.verdicts if one.claim != 22]
    return Report(report.charts, [*kept, judged(found, [name])], [*report.notes, found[name].text])
