"""Power cuts: which of all writes may be left on a disk, and what opens then.

`python tests/support/power.py RUNS [SEED]` records random calls, in a process that preload.py
watches, and replays the record many times.  Everything written to a file before its last
synchronization is surely on disk.  After that, each sector may have any of its later contents:
writes get lost, reordered, and torn between sectors of 512 bytes.  The length and the holes of a
file are those of one moment since then, as are the names in a folder: file systems journal these.
"""

from __future__ import annotations

import collections
import copy
import os
import random
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from preload import Control, events, mark
from workload import Twin, create, draw

import extarray as xa
from extarray.format.constants import SEAL_MAGIC

SECTOR = 512
CALLS = 30
CUTS = 60  # moments per run
OUTCOMES = 2  # per moment


class File:
    """The content of a file on disk, and all its later versions."""

    def __init__(self):
        self.versions = [b""]
        self.holes: list[tuple[int, int, int]] = []  # number of the version, first and last byte

    @property
    def now(self) -> bytes:
        return self.versions[-1]

    def sync(self) -> None:
        self.versions, self.holes = [self.now], []

    def put(self, offset: int, data: bytes) -> None:
        before = self.now.ljust(offset, b"\0")
        self.versions.append(before[:offset] + data + before[offset + len(data) :])

    def truncate(self, length: int) -> None:
        self.versions.append(self.now[:length].ljust(length, b"\0"))

    def punch(self, offset: int, length: int) -> None:
        stop = min(offset + length, len(self.now))
        self.holes.append((len(self.versions), offset, stop))
        self.put(offset, bytes(max(0, stop - offset)))

    def cut(self, rng) -> bytes:
        """Return a content that a power cut may leave."""
        moment = rng.randrange(len(self.versions))
        usual = rng.choices(range(len(self.versions)), k=2) if rng.random() < 0.5 else None
        size = len(self.versions[moment])
        sectors = []
        for low in range(0, size, SECTOR):
            first, last = 0, len(self.versions) - 1
            for number, start, stop in self.holes:
                if start <= low and low + SECTOR <= stop:
                    first, last = (number, last) if number <= moment else (first, number - 1)
            if usual is None:
                number = rng.randint(first, last)
            else:  # mostly early versions, or mostly late ones
                number = min(max(rng.choice(usual), first), last)
            sectors.append(self.versions[number][low : low + SECTOR].ljust(SECTOR, b"\0"))
        return b"".join(sectors)[:size]


class Disk:
    """Files of one folder, and their names."""

    def __init__(self):
        self.files: dict[int, File] = {}  # by inode
        self.names: dict[str, File] = {}
        self.durable_names: list[dict[str, File]] = [{}]  # the durable ones, and all later ones

    def take(self, event) -> None:
        """Apply a recorded event."""
        if event.name == "create":
            self.files[event.inode] = self.names[event.data[:-1].decode()] = File()
        elif event.name in ("rename", "link", "unlink"):
            old, *new = event.data[:-1].decode().split("\0")
            file = self.names[old] if event.name == "link" else self.names.pop(old)
            for name in new:
                self.names[name] = file
        elif event.name == "sync" and event.inode not in self.files:
            self.durable_names.clear()
        else:
            file = self.files[event.inode]
            if event.name == "sync":
                file.sync()
            elif event.name == "pwrite":
                file.put(event.offset, event.data)
            elif event.name == "truncate":
                file.truncate(event.length)
            elif event.name == "allocate":
                file.put(max(len(file.now), event.offset + event.length), b"")
            else:
                assert event.name == "punch", event
                file.punch(event.offset, event.length)
        self.durable_names.append(dict(self.names))

    def cut(self, rng, folder: Path) -> None:
        """Fill a folder with what a power cut may leave."""
        for name, file in rng.choice(self.durable_names).items():
            (folder / Path(name).name).write_bytes(file.cut(rng))


class Expected:
    """The states that may be found: the last one that must survive, and later ones."""

    def __init__(self):
        self.past: list[Twin] = []
        self.states: list[Twin] = []

    def flushed(self) -> None:
        """Note that all finished calls are on disk."""
        self.past += self.states[:-1]
        self.states = self.states[-1:]

    def problem(self, array) -> str | None:
        facts = (array.shape, array.origin, dict(array.attrs))
        same = [number for number, state in enumerate(self.states) if facts == facts_of(state)]
        if not same:
            return f"{facts} is none of {[facts_of(state) for state in self.states]}"
        found = array[...]
        right = np.zeros(found.shape, bool)
        axes = self.states[same[-1]].inserted
        for state in self.states:
            values, inside = placed(state, array, axes)
            right |= inside & (values == found)
        if same[-1] > 0:
            # New elements may be there without their values: their place holds zeros or the fill
            # value, its former content, or the seal.
            since = self.states[: same[-1] + 1]
            new = ~np.all([placed(state, array, axes)[1] for state in since], axis=0)
            seal = np.frombuffer(SEAL_MAGIC + array._store.now.header.uuid, "i4")
            right |= new & np.isin(found, [array.fill_value, 0, *seal])
            for state in self.past:
                values, inside = placed(state, array, axes)
                right |= new & inside & (values == found)
        return None if right.all() else f"{found.tolist()} at {np.argwhere(~right).tolist()}"


def facts_of(state):
    return state.shape, tuple(map(sum, zip(state.zero, state.origin, strict=True))), state.attrs


def placed(state, array, axes):
    """Return a state's elements at their places in an array with other bounds, and a mask of them.

    `axes` are the positions of axes that the array has gained.  A state with more axes contributes
    nothing: adding an axis brings all earlier elements to the disk.
    """
    values = np.zeros(array.shape, "i4")
    inside = np.zeros(array.shape, bool)
    if len(state.inserted) > len(axes):
        return values, inside
    data, origin = state.data, list(facts_of(state)[1])
    for position in axes[len(state.inserted) :]:
        data = np.expand_dims(data, position)
        origin.insert(position, 0)
    ours, theirs = [], []
    for n, m, a, b in zip(array.shape, data.shape, array.origin, origin, strict=True):
        low, high = max(-a, -b), min(n - a, m - b)
        ours.append(slice(low + a, max(low, high) + a))
        theirs.append(slice(low + b, max(low, high) + b))
    values[tuple(ours)] = data[tuple(theirs)]
    inside[tuple(ours)] = True
    return values, inside


def record(path: Path, rng, control: Control, durability: str):
    """Make random calls; return them, the first state, and the record."""
    calls = []
    with tempfile.TemporaryFile() as log:
        fd = log.fileno()
        os.set_blocking(fd, True)
        control.record(fd)
        if rng.random() < 0.5:
            array = create(path, rng, engine="pread", durability=durability)
        else:  # the durable writer is not the creator
            create(path, rng, engine="pread").close()
            array = xa.open(path, "r+", engine="pread", durability=durability)
        first = twin = Twin(array)
        if durability == "flush":
            array.flush()
        mark(fd, "ready")
        first = copy.deepcopy(twin)
        for _ in range(CALLS):
            if rng.random() < 0.1:
                array.close()
                array = xa.open(path, "r+", engine="pread", durability=durability)
            call = draw(rng, twin)
            calls.append(call)
            mark(fd, "begun")
            call.on(array)
            mark(fd, "returned")
            call.on(twin)
        array.close()
        control.record(-1)
        log.seek(0)
        return calls, first, list(events(log.read()))


def replay(calls, first, recorded, durability, rng, folder: Path):
    """Cut the power at random moments; return how often an older state opened."""
    disk, expected = Disk(), Expected()
    moments = set(rng.choices(range(len(recorded)), k=CUTS))
    calls = iter(calls)
    call, recoveries, outcomes, is_ready = None, 0, 0, False
    for number, event in enumerate(recorded):
        if event.name != "mark":
            disk.take(event)
        elif event.data == b"ready":
            is_ready = True
            expected.states = [copy.deepcopy(first)]
        elif event.data == b"begun":
            call = next(calls)
            after = copy.deepcopy(expected.states[-1])
            call.on(after)
            expected.states.append(after)
        elif durability == "commit" or call.method == "flush":
            expected.flushed()
        if number in moments and is_ready:
            for _ in range(OUTCOMES):
                disk.cut(rng, folder)
                outcomes += 1
                recoveries += look(folder / "a", expected, f"after event {number}, {call}")
                for file in folder.iterdir():
                    file.unlink()
    return outcomes, recoveries


def look(path: Path, expected: Expected, where: str) -> bool:
    """Open what is left, read it, and write on; return whether it was an older state."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", xa.errors.RecoveryWarning)
        with xa.open(path) as array:
            wrong = expected.problem(array)
            assert wrong is None, f"{where}: {wrong}"
            values = array[...]
        with xa.open(path, "r+") as array:
            assert np.array_equal(array[...], values), f"{where}: a writer sees another state"
            rows, *others, columns = array.shape
            array.extend(0, 3)
            array.extend(-1, 2, "start")
            assert np.array_equal(array[:rows, ..., 2:], values), where
            assert (array[rows:] == array.fill_value).all(), f"{where}: what was lost comes back"
            assert (array[..., :2] == array.fill_value).all(), f"{where}: what was lost comes back"
    with xa.open(path) as array:  # whole again, so without a warning
        assert array.shape == (rows + 3, *others, columns + 2), where
    return bool(caught)


def run(runs: int, seed: int, folder: Path) -> collections.Counter[str]:
    """Record and replay; return the number of outcomes."""
    control = Control()
    counts: collections.Counter[str] = collections.Counter()
    for number in range(runs):
        rng = random.Random(f"{seed} {number}")
        durability = rng.choice(["flush", "commit"])
        calls, first, recorded = record(folder / "a", rng, control, durability)
        with tempfile.TemporaryDirectory() as place:
            try:
                outcomes, recoveries = replay(calls, first, recorded, durability, rng, Path(place))
            except Exception as error:
                raise AssertionError(
                    f"seed {seed}, run {number}, {durability}: {error!r}"
                ) from error
        counts["losses of power"] += outcomes
        counts[f'with durability="{durability}"'] += outcomes
        counts["with a RecoveryWarning"] += recoveries
        for file in folder.iterdir():
            file.unlink()
    return counts


def main(arguments: list[str]) -> None:
    runs = int(arguments[0])
    seed = int(arguments[1]) if len(arguments) > 1 else 0
    with tempfile.TemporaryDirectory(dir=os.environ["PRELOAD_FOLDER"]) as inner:
        for name, count in run(runs, seed, Path(inner)).items():
            print(f"{count:8d} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
