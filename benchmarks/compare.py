"""Measure extarray and its peers in turn, in one run, and print tables of ratios to NumPy.

Run ``python benchmarks/compare.py --help`` for the options; README.md explains the output.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

# One thread each for NumPy and every library that reads the environment; set before their import.
for variable in ("OMP", "OPENBLAS", "MKL", "BLOSC", "NUMEXPR", "EXTARRAY"):
    os.environ[f"{variable}_NUM_THREADS"] = "1"
os.environ["BLOSC_NTHREADS"] = "1"

if __name__ == "__main__" and not __package__:
    # Run as a file: the package is this file's folder.  It goes last on the path, so that an
    # installed extarray wins over an unbuilt one in the same place.
    sys.path[0:1] = []
    sys.path.append(os.fspath(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.model import Group
from benchmarks.peers import LIBRARIES, installed, library_version
from benchmarks.report import Results, beside, markdown, table, verdicts
from benchmarks.sizes import DASK, MEMMAP, NUMPY, OTHERS, OURS, SCALES, Scale
from benchmarks.suites import GROUPS
from benchmarks.timing import Candidate, Effort, Failure, Outcome, Worker, measure
from benchmarks.workspace import make_source

QUICK = Effort(rounds=1, turn=0.0, least=0.0, most=0.1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a candidate failed unexpectedly, else 0."""
    options = parse(arguments)
    scale = SCALES[options.scale]
    groups = [group(scale) for group in GROUPS]
    groups = [group for group in groups if not options.only or group.name in options.only]
    groups = [named(group, options.case) for group in groups]
    groups = [group for group in groups if group.cases]
    if not groups:
        sys.exit(f"no case has a name with {' or '.join(options.case)}")
    if options.quick:
        groups = [without_targets(group) for group in groups]
    others = OTHERS if options.beside else ()
    names = [n for n in (NUMPY, MEMMAP, *OURS, *others, *options.peers) if installed(n)]
    effort = QUICK if options.quick else Effort(least=options.least, most=options.most)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that files are removed
    results: dict[str, Results] = {}
    with tempfile.TemporaryDirectory(prefix="extarray-bench-", dir=options.folder) as name:
        folder = Path(name)
        head = {**machine(folder, scale), "candidates": describe(names, folder, options.beside)}
        print_head(head)
        source = make_source(scale)
        for group in groups:
            everyone = [n for n in names if n not in DASK]
            wanted = set(group.candidates or everyone)
            wanted.update(OTHERS[n] for n in range(len(others)) if OURS[n] in wanted)
            taking_part = [n for n in names if n in wanted]
            results[group.name] = run(group, taking_part, folder, scale, source, effort, options)
            print("", table(group, results[group.name]), sep="\n", flush=True)
            store(head, groups, results, scale, options)  # partial results, in case of an early end
    if options.beside:
        print("", beside(results), sep="\n")
    judged = [v for group in groups for v in verdicts(group, results[group.name])]
    print(f"\n{sum(v.held for v in judged)} of {len(judged)} comparisons with a target hold")
    failed = any(isinstance(o, Failure) and not o.expected for o in outcomes(results))
    return int(failed)


def store(
    head: Mapping[str, Any],
    groups: Sequence[Group],
    results: Mapping[str, Results],
    scale: Scale,
    options: argparse.Namespace,
) -> None:
    """Write the groups that have results to the requested files."""
    if options.markdown:
        settings = [f"- {name}: {text}" for name, text in head["candidates"].items()]
        there = [group for group in groups if group.name in results]
        sections = [markdown(group, results[group.name]) for group in there]
        options.markdown.write_text("\n".join([*settings, "", *sections]), encoding="utf-8")
    if options.json:
        options.json.write_text(
            json.dumps({**head, "scale": asdict(scale), "results": plain(results)}, indent=1)
        )


def named(group: Group, texts: Sequence[str] | None) -> Group:
    """Return the cases whose names contain one of the texts; without texts, all."""
    cases = (case for case in group.cases if not texts or any(text in case.name for text in texts))
    return replace(group, cases=tuple(cases))


def without_targets(group: Group) -> Group:
    """Return the same cases without targets: tiny sizes promise nothing."""
    return replace(group, cases=tuple(replace(case, targets=()) for case in group.cases))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--scale", choices=SCALES, default="medium", help="sizes (default: %(default)s)")
    add("--quick", action="store_true", help="tiny sizes, once: only to see that all cases run")
    names = [group(SCALES["quick"]).name for group in GROUPS]
    add("--only", action="append", choices=names, help="this group; may be repeated")
    add("--case", action="append", metavar="TEXT", help="cases so named; may be repeated")
    add("--peers", nargs="*", choices=LIBRARIES, default=LIBRARIES, help="default: all installed")
    add("--beside", type=built_checkout, metavar="CHECKOUT", help="our engines there, too")
    add(
        "--least",
        type=float,
        default=Effort.least,
        help="seconds a case and candidate (%(default)s)",
    )
    add("--most", type=float, default=Effort.most, help="seconds after which to stop (%(default)s)")
    add("--folder", type=Path, help="where to put files (default: the temporary folder)")
    add("--disk", type=float, default=4.0, help="GiB of files at a time (%(default)s)")
    add("--markdown", type=Path, metavar="FILE", help="write the tables to FILE, for the docs")
    add("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale = "quick"
    return options


def built_checkout(text: str) -> Path:
    """Return the folder of another checkout, whose core must be compiled."""
    folder = Path(text).resolve()
    if not list(folder.glob("extarray/_core/*.so")):
        raise argparse.ArgumentTypeError(f"{text} has no extarray that is built in place")
    return folder


def run(
    group: Group,
    names: Sequence[str],
    folder: Path,
    scale: Scale,
    source: np.ndarray,
    effort: Effort,
    options: argparse.Namespace,
) -> dict[str, dict[str, Outcome]]:
    """Measure a group, with as many candidates at a time as the disk space allows.

    NumPy takes part each time: it is the reference, and has no file.
    """
    space = min(options.disk * 2**30, 0.8 * shutil.disk_usage(folder).free)
    if group.disk > space:
        sys.exit(f"group {group.name} needs {group.disk / 2**30:.2g} GiB of disk space")
    at_a_time = int(space // group.disk) if group.disk else len(names)
    if group.turn > effort.turn > 0:
        turns = effort.rounds * group.turn
        least, most = max(effort.least, turns), max(effort.most, turns)
        effort = replace(effort, turn=group.turn, least=least, most=most)
    results: dict[str, dict[str, Outcome]] = {case.name: {} for case in group.cases}
    started = time.monotonic()
    others = [name for name in names if name != NUMPY]
    for first in range(0, len(others), at_a_time):
        with tempfile.TemporaryDirectory(dir=folder) as place, ExitStack() as stack:
            workers = {}
            for name in (NUMPY, *others[first : first + at_a_time]):
                checkout = options.beside if name in OTHERS else None
                candidate = Candidate(name, Path(place), scale, group.cases, source, checkout)
                workers[name] = Worker(candidate)
                stack.callback(workers[name].close)
                workers[name].ask("load")
            for number, case in enumerate(group.cases):
                seconds = time.monotonic() - started
                print(f"{group.name}, {seconds:.0f} s: {case.name}", file=sys.stderr, flush=True)
                measured = measure(workers, number, case.per, effort)
                # NumPy's own time is the first batch's; ratios use each batch's.
                results[case.name] = measured | results[case.name]
    return results


def machine(folder: Path, scale: Scale) -> dict[str, Any]:
    """Return the facts on which figures depend."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "processor": f"{processor()}, {os.cpu_count()} cores, {memory / 2**30:.0f} GiB of memory",
        "load": f"{os.getloadavg()[0]:.1f} processes running at the start",
        "file system": file_system(folder),
        "cache": "files in the page cache (warm), no fsync, no cache dropped",
        "scale": scale,
    }


def processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds `folder`."""
    with suppress(OSError):
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
        inside = [m for m in mounts if folder.resolve().is_relative_to(m[0])]
        return max(inside, key=lambda mount: len(mount[0]))[1]
    return "unknown"


def describe(names: Sequence[str], folder: Path, checkout: Path | None) -> dict[str, str]:
    """Return version and settings of the candidates; each is loaded in its own process."""
    described = {}
    for name in names:
        other = checkout if name in OTHERS else None
        worker = Worker(Candidate(name, folder, SCALES["quick"], (), checkout=other))
        settings = worker.ask("load")
        worker.close()
        text = settings.text if isinstance(settings, Failure) else settings
        described[name] = f"{f'of {other}' if other else library_version(name)}, {text}"
    return described


def print_head(head: Mapping[str, Any]) -> None:
    for key, value in head.items():
        if key == "candidates":
            print("candidates:", *(f"  {k}: {v}" for k, v in value.items()), sep="\n")
        else:
            print(f"{key}: {value}")


def outcomes(results: Mapping[str, Results]) -> Iterator[Outcome]:
    return (o for group in results.values() for row in group.values() for o in row.values())


def plain(results: Mapping[str, Results]) -> dict[str, object]:
    """Return the results in a form for JSON."""
    return {
        group: {
            case: {name: asdict(outcome) for name, outcome in row.items()}
            for case, row in rows.items()
        }
        for group, rows in results.items()
    }


if __name__ == "__main__":
    sys.exit(main())
