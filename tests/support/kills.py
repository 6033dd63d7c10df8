"""Kill processes during random calls, or during `create`, and examine the files.

`python tests/support/kills.py NUMBER [SEED]` makes that many kills, at random moments.  If system
calls are watched (preload.py), half of the kills come before, during or after one of those; then
further kills meet each system call of `create`.
"""

from __future__ import annotations

import collections
import copy
import itertools
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from engines import ENGINES
from preload import KILLS, Control
from workload import KINDS, Twin, create, draw, problem

import extarray as xa

# Calls that sharing writers may make.
SHARED_KINDS = tuple(kind for kind in KINDS if kind != "add_axis")
CALLS = 60  # for one process
TOGETHER = 12  # successive processes with the same array


class Progress:
    """Numbers of calls that a process has begun and finished; they survive its death."""

    _FORMAT = struct.Struct("2q")

    def __init__(self):
        self._file = os.memfd_create("progress")

    def set(self, begun: int, returned: int) -> None:
        os.pwrite(self._file, self._FORMAT.pack(begun, returned), 0)

    def get(self) -> tuple[int, int]:
        return self._FORMAT.unpack(os.pread(self._file, self._FORMAT.size, 0))


def work(path, seed, options, kinds, progress, arm):
    """Open the array and make calls until killed."""
    rng = random.Random(seed)
    arm()
    array = xa.open(path, "r+", **options)
    twin = Twin(array)
    for number in range(CALLS):
        call = draw(rng, twin, kinds)
        progress.set(number + 1, number)
        call.on(array)
        progress.set(number + 1, number + 1)
        call.on(twin)
    array.close()


def possible(state, seed, kinds, begun, returned):
    """Return the possible states of the array, and the one being written, if any."""
    rng = random.Random(seed)
    state = copy.deepcopy(state)
    for _ in range(returned):
        draw(rng, state, kinds).on(state)
    if begun == returned:
        return None, [state], None
    call, after = draw(rng, state, kinds), copy.deepcopy(state)
    call.on(after)
    return call, [state] if call.assigns else [state, after], after if call.assigns else None


def one_process(function) -> int:
    """Run a function in a new process, which then ends."""
    pid = os.fork()
    if pid:
        return pid
    try:
        function()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def remove_all(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def run(kills: int, seed: int, folder: Path) -> collections.Counter[str]:
    """Kill processes; return the number of kills by the call in progress."""
    control = Control() if "PRELOAD_CONTROL" in os.environ else None
    rng = random.Random(seed)
    progress = Progress()
    counts: collections.Counter[str] = collections.Counter()
    number = 0
    while counts["killed"] < kills:
        if number % TOGETHER == 0:
            path = folder / f"a{number}"
            shared = rng.random() < 0.25
            create(path, rng, **({"checksum": False, "growth": "exact"} if shared else {})).close()
            kinds = SHARED_KINDS if shared else tuple(KINDS)
        number += 1
        with xa.open(path) as array:
            before = Twin(array)
        options = {"engine": rng.choice(ENGINES), "share": shared}
        child_seed = rng.random()
        progress.set(0, 0)
        exact = control is not None and rng.random() < 0.5
        at, how = rng.randint(1, 150), rng.choice(list(KILLS))

        def arm(exact=exact, at=at, how=how):
            if exact:
                control.arm(at, KILLS[how])

        given = path, child_seed, options, kinds, progress, arm
        pid = one_process(lambda given=given: work(*given))
        if not exact:
            time.sleep(rng.random() * 0.012)
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if control is not None:
            control.arm(0, 0)
        begun, returned = progress.get()
        call, states, assigned = possible(before, child_seed, kinds, begun, returned)
        assert os.WIFSIGNALED(status) or not os.WEXITSTATUS(status), (
            f"seed {seed}, process {number} has failed in {call}, {options}"
        )
        with xa.open(path) as array:
            wrong = problem(array, states, assigned)
        assert wrong is None, (
            f"seed {seed}, process {number}, {array!r}, killed in {call} "
            f"({how} {control.name if exact else 'at a random moment'}):\n{wrong}"
        )
        if os.WIFSIGNALED(status):
            counts["killed"] += 1
            counts["at a call to the system"] += exact
            counts["one of several writers"] += shared
            counts[f"in {call.method}" if call else "between calls"] += 1
        if number % TOGETHER == 0:
            remove_all(folder)
    remove_all(folder)
    return counts


def creations(folder: Path, overwrite: bool) -> collections.Counter[str]:
    """Kill `create` at each of its system calls; return the number of kills by the files left."""
    control = Control()
    counts: collections.Counter[str] = collections.Counter()
    path = folder / "a"
    new = {"shape": (4, 5), "dtype": "i4", "chunks": (2, 3), "overwrite": overwrite}

    def make(number, how):
        control.arm(number, KILLS[how])
        array = xa.create(path, **new)
        control.arm(0, 0)
        array.close()

    for how in KILLS:
        for number in itertools.count(1):
            if overwrite:
                with xa.create(path, (6,), "i4", chunks=2) as array:
                    array[...] = 7
            killed = os.waitpid(one_process(lambda n=number, h=how: make(n, h)), 0)[1]
            control.arm(0, 0)
            where = f"killed {how} {control.name}, call {number}"
            left = "nothing"
            try:
                with xa.open(path) as array:
                    left = "the new array" if array.shape == (4, 5) else "the old array"
                    assert (array[...] == (0 if array.ndim == 2 else 7)).all(), where
            except xa.errors.MissingError:
                assert not overwrite, where
            if left == "the new array":
                with xa.open(path, "r+") as array:
                    array.append(np.ones((3, 5), "i4"))
                    assert array[...].sum() == 15, where
                assert {"a.xmd", "a.xta"} == set(os.listdir(folder)), where
            else:
                xa.create(path, **new).close()
            with xa.open(path) as array:
                assert array.ndim == 2, where
            remove_all(folder)
            if not os.WIFSIGNALED(killed):
                break
            counts[f"create, leaves {left}"] += 1
    return counts


def main(arguments: list[str]) -> None:
    kills = int(arguments[0])
    seed = int(arguments[1]) if len(arguments) > 1 else 0
    folder = os.environ.get("PRELOAD_FOLDER")
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        counts = run(kills, seed, Path(inner))
        if folder is not None:
            counts += creations(Path(inner), overwrite=False)
            counts += creations(Path(inner), overwrite=True)
    for name, count in counts.items():
        print(f"{count:8d} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
