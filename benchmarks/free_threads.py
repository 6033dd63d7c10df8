"""Readers of one array in two threads: how much more do they read together than one thread?

    python benchmarks/free_threads.py [--rounds N] [--seconds S]

With the GIL the figure is about 1 on any machine: one thread waits for the other.  Without it, two
otherwise idle cores reach up to 2; additions of small numbers show how close the machine comes.
NumPy's own array is measured beside ours, to show the interpreter's limit: it counts references to
an object that both threads read.  So both are also read through one object per thread, with the
same elements.  One thread and two take turns; a row has the best round of each.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import extarray as xa

__all__ = ["main"]

#: Calls between two looks at the clock.
CALLS = 200

Work = Callable[[Any], None]


def elements(array: Any) -> None:
    for i in range(CALLS):
        array[i, 77]


def boxes(array: Any) -> None:
    for i in range(CALLS):
        array[i : i + 8, 70:78]


def additions(number: int) -> None:
    for i in range(CALLS):
        i + number


WORKS: list[tuple[str, Work]] = [("elements", elements), ("boxes of 8 x 8", boxes)]


def rates(objects: Sequence[Any], work: Work, threads: int, seconds: float) -> float:
    """Return the calls per second of threads together, each with its own object."""
    done = [0] * threads
    start = threading.Barrier(threads + 1)
    end = threading.Event()

    def run(number: int) -> None:
        n, own = 0, objects[number]
        start.wait()
        while not end.is_set():
            work(own)
            n += CALLS
        done[number] = n

    crew = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in crew:
        thread.start()
    start.wait()
    began = time.perf_counter()
    time.sleep(seconds)
    end.set()
    for thread in crew:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    options = parser.parse_args(arguments)
    enabled = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, the GIL is {'on' if enabled else 'off'}")
    print("calls a microsecond: one thread, two; two over one")
    source = np.arange(512.0 * 512).reshape(512, 512)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "array"
        xa.from_array(source, path, chunks=(64, 64)).close()
        with xa.open(path) as one, xa.open(path) as other:
            kinds = [
                ("extarray", [one, one]),
                ("extarray, two objects", [one, other]),
                ("NumPy", [source, source]),
                ("NumPy, two views", [source[:], source[:]]),
            ]
            measured = [(name, work, *kind) for name, work in WORKS for kind in kinds]
            for row in [("additions", additions, "Python", [1, 2]), *measured]:
                print_row(*row, options)


def print_row(name: str, work: Work, kind: str, objects: Sequence[Any], options: Any) -> None:
    best = {1: 0.0, 2: 0.0}
    for _ in range(options.rounds):
        for threads in best:
            rate = rates(objects, work, threads, options.seconds)
            best[threads] = max(best[threads], rate)
    one, two = best[1] / 1e6, best[2] / 1e6
    print(f"{name:15} {kind:21} {one:8.3f} {two:8.3f} {two / one:6.2f}", flush=True)


if __name__ == "__main__":
    main()
