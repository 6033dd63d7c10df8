"""Run the experiments of the papers again, and leave pages with plots and verdicts.

``python -m benchmarks.papers --scale small`` runs all of them.  Given names of experiments, it runs
only these, and keeps the others that the pages already have.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

# One thread each for NumPy and every library that reads the environment; set before their import.
for variable in ("OMP", "OPENBLAS", "MKL", "BLOSC", "NUMEXPR", "EXTARRAY"):
    os.environ[f"{variable}_NUM_THREADS"] = "1"

from ..compare import file_system, processor
from ..sizes import Unsupported
from . import EXPERIMENTS
from .harness import GIB, NOISE, SCALES, Report, Work
from .page import INDEX, RESULTS, load, rejudged, short, write

NOT_MEASURED = "Not measured: "


def measure(experiment: ModuleType, options: argparse.Namespace, parent: Path) -> Report:
    """Run an experiment in a folder that is removed afterwards."""
    disk = None if options.disk is None else options.disk * GIB
    with tempfile.TemporaryDirectory(prefix="extarray-papers-", dir=parent) as folder:
        work = Work(options.scale, Path(folder), options.data, disk)
        report: Report = experiment.run(work)
    return replace(report, notes=[*report.notes, *work.notes])


def machine(folder: Path) -> str:
    """Return the facts of this machine on which figures depend."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return (
        f"{os.cpu_count()} cores of {processor()}, {memory:.0f} GiB of memory, "
        f"{file_system(folder)}, Python {sys.version.split()[0]}"
    )


def described(reports: Mapping[str, Report], figures: str) -> list[str]:
    """Return the head of the first page; `figures` is the link to those of all pages."""
    scales, machines = (
        dict.fromkeys(getattr(report, name) for report in reports.values())
        for name in ("scale", "machine")
    )
    loads = [report.load for report in reports.values()]
    minutes = sum(report.seconds for report in reports.values()) / 60
    what = (
        "`python -m benchmarks.papers` repeats the experiments of the works on extendible arrays, "
        f"judges their claims by the figures, and writes these pages ([all figures]({figures}))."
    )
    where = (
        f"Measured at scale {', '.join(scales)} on {'; '.join(machines)}, in {minutes:.0f} "
        f"minutes, at a load of {min(loads):.1f} to {max(loads):.1f}. Candidates take turns, and "
        "the least time of each counts; trust neither absolute times nor the second digit of a "
        "ratio. Unless it is said, the page cache is warm, nothing calls fsync or compresses, and "
        f"each has one thread. A comparison decides if it is {NOISE:.0%} clear of "
        "its bound; a claim about programs or numbers of processes that are not here is not "
        "measured."
    )
    head = ["# The papers' experiments, run again", "", what, "", where]
    left = [
        short(name)
        for name, report in reports.items()
        if any(note.startswith(NOT_MEASURED) for note in report.notes)
    ]
    if left:
        head += ["", f"Not measured, for reasons that stand there: {'; '.join(left)}."]
    return head


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, show progress, write the page; return 1 if an experiment failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    add = parser.add_argument
    add("only", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)} (default: all)")
    add("--scale", choices=SCALES, default="small", help="sizes (default: %(default)s)")
    add(
        "--folder", type=Path, help="where files go while measuring (default: the temporary folder)"
    )
    add("--disk", type=float, metavar="GIB", help="room for files (default: what is free)")
    add("--data", type=Path, help="folder of scenes, as for benchmarks.hyperspectral")
    add("--pages", type=Path, default=Path("papers"), help="their folder (default: %(default)s)")
    add("--pictures", type=Path, help="their folder (default: pictures in that of the pages)")
    add(
        "--draw",
        action="store_true",
        help="measure nothing: judge and write from the figures",
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.only) - set(EXPERIMENTS))
    if unknown:
        parser.error(
            f"no such experiment: {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}"
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that files are removed
    parent = options.folder or Path(tempfile.gettempdir())
    pages = options.pages.resolve()
    pictures = (options.pictures or pages / "pictures").resolve()
    figures = Path(os.path.relpath(pictures / RESULTS, pages)).as_posix()
    names = [name for name in EXPERIMENTS if not options.only or name in options.only]
    reports = load(pictures) if options.only or options.draw else {}
    if options.draw:
        reports = {name: rejudged(name, report) for name, report in reports.items()}
        write(pages, pictures, described(reports, figures), reports)
        return 0
    drawn: set[str] = set()
    failed, here = False, machine(parent)
    for number, name in enumerate(names, 1):
        experiment = importlib.import_module(f"{__package__}.{name}")
        print(f"[{number:2}/{len(names)}] {experiment.TITLE} ... ", end="", flush=True)
        start, busy = time.monotonic(), os.getloadavg()[0]
        try:
            report = rejudged(name, measure(experiment, options, parent))
        except Unsupported as error:
            report = Report(notes=[f"{NOT_MEASURED}{error}."])
            print(f"not measured: {error}; ", end="")
        except Exception as error:
            traceback.print_exc()
            report = Report(notes=[f"It failed: {error}"])
            failed = True
        took = time.monotonic() - start
        reports[name] = replace(report, scale=options.scale, seconds=took, load=busy, machine=here)
        print(f"{reports[name].seconds:.1f} s", flush=True)
        write(pages, pictures, described(reports, figures), reports, drawn - {name})
        drawn.update(reports)
    print(f"{pages / INDEX} ({sum(reports[name].seconds for name in names) / 60:.1f} minutes)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
