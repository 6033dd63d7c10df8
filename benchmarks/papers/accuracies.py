"""The tables of `benchmarks.hyperspectral`: scenes of known layouts and real ones, by name."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
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


def judge(report: Report) -> list[Verdict]:
    """Judge claim 22 by the scenes of a report; without them, by its own scene."""
    found = {name: sections(f"## {text}")[name] for name, text in report.facts["scenes"].items()}
    best, said = [], []
    for name, section in found.items():
        angles = {method: section.value(method, 3) for method in METHODS}
        right = pixels(section)
        best.append(right or {method: -angle for method, angle in angles.items()})
        told = ", ".join(f"{method} {value:.0f} %" for method, value in right.items())
        said.append(f"{name}: {told}")
    if not found:
        right = dict(zip(METHODS, report.charts[0].lines["pixels"], strict=True))
        best.append(right)
        said.append(f"none: {', '.join(f'{m} {value:.0f} %' for m, value in right.items())}")
    held = [x for one in best for x in (one["AMEE"] > one["PPI"], one["PPI"] > one["N-FINDR"])]
    if len(best) == 1:
        return [verdict(22, held, f"Pixels right in the layout of {said[0]}.")]
    firsts = sum(one["AMEE"] == max(one.values()) for one in best)
    why = f"AMEE is first on {firsts} of {len(best)} scenes; without labels, angles decide."
    return [verdict(22, held, why)]


def pixels(section: Section) -> dict[str, float]:
    """Return the right pixels of each method, %; empty if no pixel is labelled."""
    return {
        method: section.value(method, 0) for method in METHODS if section.rows[method][0] != "–"
    }


def added(work: Work, report: Report, names: Iterable[str]) -> Report:
    """Return a report with the tables of scenes as facts, if there are data."""
    if work.data is None:
        work.note("With --data the scene's own layout counts as well.")
        return replace(report, facts={"scenes": {}})
    found = printed(work.data, work.scale == "full")
    return replace(report, facts={"scenes": {name: found[name].text for name in names}})
