"""Count the instructions that a call takes, which needs no quiet machine.

``python -m benchmarks.instructions`` counts those of the calls that programs make most, under
Valgrind's callgrind, for the extarray that Python imports; ``--json`` keeps the counts, and
``--against`` compares them with counts kept before::

    python -m benchmarks.instructions --json before.json
    python -m benchmarks.instructions --against before.json --most 3

The exit status is 1 if a call takes more than ``--most`` percent more instructions than before.
Instructions say nothing about waits for memory or disk: a change that touches other bytes needs
``compare.py --beside``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import extarray as xa
from extarray.storage import names

#: The part of the program that speaks to callgrind: write the counts since the last mark.
MARK = """
#include <valgrind/callgrind.h>
void mark(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
"""
#: Each loop runs so often; the least counts are those without garbage and growing tables.
ROUNDS = 3
#: A count is said to have changed from this share on: allocation scatters by less.
NOISE = 0.002

Loop = Callable[[int], None]


def loops(folder: Path) -> dict[str, tuple[Loop, int]]:
    """Return loops of calls by name, each with how often it runs its call to be counted.

    They run in this order.
    """
    found: dict[str, tuple[Loop, int]] = {}
    # Now and then, by the clock, creating an array looks for what was left over: not counted.
    names._next_looks[os.path.abspath(folder)] = math.inf

    def count(name: str, n: int) -> Callable[[Callable[[], object]], None]:
        def keep(call: Callable[[], object]) -> None:
            def loop(times: int) -> None:
                for _ in range(times):
                    call()

            found[name] = (loop, n)

        return keep

    rows = np.array([3, 50, 7, 33])
    frame, box = np.ones((1, 64)), np.ones((37, 45))
    mask = np.arange(64 * 64).reshape(64, 64) % 3 == 0
    for engine in ("mmap", "pread", "memory"):
        path = None if engine == "memory" else folder / engine
        options = {} if path is None else {"engine": engine}
        a = xa.create(path, (64, 64), "f8", chunks=(16, 16), **options)
        a[...] = 1.0
        count(f"{engine}: read an element", 1000)(lambda a=a: a[5, 7])
        count(f"{engine}: write an element", 1000)(lambda a=a: a.__setitem__((5, 7), 2.0))
        count(f"{engine}: read a box", 100)(lambda a=a: a[3:40, 5:50])
        count(f"{engine}: write a box", 100)(lambda a=a: a.__setitem__(np.s_[3:40, 5:50], box))
        count(f"{engine}: read every 3rd element", 100)(lambda a=a: a[::3, ::3])
        count(f"{engine}: read 4 rows of a list", 30)(lambda a=a: a[rows])
        count(f"{engine}: write 4 rows of a list", 30)(lambda a=a: a.__setitem__(rows, 1.0))
        count(f"{engine}: read by a mask", 30)(lambda a=a: a[mask])
        count(f"{engine}: add up", 30)(lambda a=a: a.sum())
        name = path and folder / f"{engine} grows"
        b = xa.create(name, (0, 64), "f8", chunks=(16, 16), **options)
        count(f"{engine}: append a row", 64)(lambda b=b: b.append(frame))
        count(f"{engine}: extend", 16)(lambda b=b: b.extend(1, 16))
        if path is None:
            continue
        count(f"{engine}: open to read", 100)(lambda p=path, o=options: xa.open(p, **o).close())
        c = xa.create(folder / f"{engine} closed", (64, 64), "f8", chunks=(16, 16), **options)
        c.close()
        count(f"{engine}: open to write", 100)(
            lambda p=c.path, o=options: xa.open(p, "r+", **o).close()
        )
        number = iter(range(10**6))
        count(f"{engine}: create", 50)(
            lambda p=path, o=options, number=number: xa.create(
                f"{p} {next(number)}", (64, 64), "f8", chunks=(16, 16), **o
            ).close()
        )
    return found


def run(folder: Path) -> None:
    """Run all loops, with a mark before and after each: the process to be counted."""
    mark = ctypes.CDLL(str(folder / "mark.so")).mark
    for name, (loop, n) in loops(folder).items():
        loop(max(3, n // 10))
        gc.collect()
        gc.disable()
        for times in (n, 2 * n) * ROUNDS:
            mark(b"")
            loop(times)
            mark(f"{name}={times}".encode())
        gc.enable()


def counted() -> dict[str, float]:
    """Return the instructions that each call takes.

    Each loop runs once and twice its number of calls: the difference has no cost of the loop's
    beginning and end.
    """
    program = shutil.which("valgrind")
    if program is None:
        raise SystemExit("valgrind is not installed; it is a package of the system")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mark.c").write_text(MARK)
        compiler = ["cc", "-O1", "-shared", "-fPIC", "-o", folder / "mark.so", folder / "mark.c"]
        subprocess.run(compiler, check=True)
        command = [
            program, "--tool=callgrind", f"--callgrind-out-file={folder / 'out'}", sys.executable,
            "-m", "benchmarks.instructions", "--run", name,
        ]  # fmt: skip
        # Hashes of texts decide how often dictionaries are searched.
        env = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1800)
        if done.returncode:
            raise SystemExit(done.stderr)
        least: dict[str, dict[int, int]] = {}
        for file in folder.glob("out.*"):
            text = file.read_text()
            mark = re.search(r"^desc: Trigger: Client Request: (.+)=(\d+)$", text, re.MULTILINE)
            if mark:
                total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
                assert total, text
                times, count = int(mark[2]), int(total[1])
                known = least.setdefault(mark[1], {})
                known[times] = min(count, known.get(times, count))
    counts = {}
    for name, known in sorted(least.items()):
        (n, once), (_, twice) = sorted(known.items())
        counts[name] = (twice - once) / n
    return counts


def compare(now: dict[str, float], before: dict[str, float], most: float) -> bool:
    """Print a table of counts; return whether a call takes over `most` percent more than before."""
    print("| a call | instructions | before | change |\n| --- | ---: | ---: | ---: |")
    worse = []
    for name, count in now.items():
        if name not in before:
            print(f"| {name} | {count:.0f} | – | new |")
            continue
        change = count / before[name] - 1
        if change > most / 100:
            worse.append(name)
        said = f"{100 * change:+.1f} %" if abs(change) > NOISE else "none"
        print(f"| {name} | {count:.0f} | {before[name]:.0f} | {said} |")
    for name in worse:
        print(f"more than {most:g} % more instructions: {name}")
    return bool(worse)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--against", type=Path, help="compare with the counts in this file")
    parser.add_argument("--most", type=float, default=3.0, help="percent")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run)
        return 0
    now = counted()
    if options.json:
        options.json.write_text(json.dumps(now, indent=1))
    before = json.loads(options.against.read_text()) if options.against else {}
    return int(compare(now, before, options.most))


if __name__ == "__main__":
    sys.exit(main())
