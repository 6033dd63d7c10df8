"""Interrupt calls (Ctrl-C) at random moments, and check the array afterwards.

`python tests/support/interrupts.py NUMBER [SEED]` makes that many interrupts.
"""

from __future__ import annotations

import collections
import copy
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from workload import Twin, create, draw, problem

import extarray as xa

CALLS = 150  # for one array


class Interrupter:
    """Raises KeyboardInterrupt during a call."""

    def __init__(self, rng):
        self.rng = rng
        self.armed = False
        self.longest = collections.defaultdict(lambda: 1e-4)  # seconds, by method
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, number, frame):
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def __call__(self, call, array) -> bool:
        """Make a call; return whether it was interrupted."""
        began = time.perf_counter()
        try:
            self.armed = True
            signal.setitimer(signal.ITIMER_REAL, self.rng.random() * self.longest[call.method])
            call.on(array)
            self.armed = False
        except KeyboardInterrupt:
            self.longest[call.method] *= 1.05
            return True
        finally:
            self.armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        # Aim at interrupting about every second call.
        took = time.perf_counter() - began
        self.longest[call.method] += 0.1 * (2 * took - self.longest[call.method])
        return False


def run(interrupts: int, seed: int, folder: Path) -> collections.Counter[str]:
    """Interrupt calls; return the number of interrupts by kind of call."""
    rng = random.Random(seed)
    interrupter = Interrupter(rng)
    counts: collections.Counter[str] = collections.Counter()
    number = 0
    while counts["interrupted"] < interrupts:
        number += 1
        path = folder / f"a{number}"
        array = create(path, rng)
        twin = Twin(array)
        for step in range(CALLS):
            call = draw(rng, twin)
            after = copy.deepcopy(twin)
            call.on(after)
            interrupted = interrupter(call, array)
            counts["interrupted"] += interrupted
            counts[f"in {call.method}"] += interrupted
            states = [after]
            if interrupted:
                states = [twin] if call.assigns else [twin, after]
            wrong = problem(array, states, after if call.assigns else None)
            where = f"seed {seed}, array {number}, step {step}, {call}, {array!r}"
            assert wrong is None, f"{where}, interrupted: {interrupted}\n{wrong}"
            twin = Twin(array) if interrupted else after
            if interrupted:
                with xa.open(path) as reader:
                    wrong = problem(reader, [twin])
                assert wrong is None, f"{where}: a reader sees another state\n{wrong}"
            if rng.random() < 0.05:
                array.close()
                array = xa.open(path, "r+", engine=rng.choice(["mmap", "pread"]))
                wrong = problem(array, [twin])
                assert wrong is None, f"{where}, after close\n{wrong}"
        array.close()
        for file in folder.iterdir():
            file.unlink()
    return counts


def main(arguments: list[str]) -> None:
    interrupts = int(arguments[0])
    seed = int(arguments[1]) if len(arguments) > 1 else 0
    with tempfile.TemporaryDirectory() as folder:
        for name, count in run(interrupts, seed, Path(folder)).items():
            print(f"{count:8d} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
