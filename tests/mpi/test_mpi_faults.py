"""Faults on several ranks: failing system calls, and killed programs.

The number of seeds is small; EXTARRAY_TEST_MPI_SEEDS raises it.
"""

from __future__ import annotations

import copy
import os
import random
import warnings
from pathlib import Path

import numpy as np
import preload
import pytest
from mpirun import Launcher
from power import Disk
from workload import Twin, draw, problem

import extarray as xa
from extarray.errors import RecoveryWarning

pytestmark = pytest.mark.slow

CALLS = 20
SEEDS = range(int(os.environ.get("EXTARRAY_TEST_MPI_SEEDS", 1)))


@pytest.fixture
def watched(shim, tmp_path):
    """Return a folder whose files are watched; the record lies beside it."""
    folder = tmp_path / "watched"
    folder.mkdir()
    return folder


@pytest.fixture
def run(mpiexec, script, shim, patience, watched):
    """Run scripts of tests/mpi whose calls on files of the folder are watched."""
    watch = preload.environment(shim, watched, watched.with_name("control"))
    watch |= preload.preloaded(shim, *patience)
    # Treat ranks as separate hosts: stores to a mapping would not be recorded.
    alone = {"MPIR_CVAR_NOLOCAL": "1"}
    return Launcher(mpiexec, {**script.environment, **watch, **alone})


class History:
    """The content of the files after each recorded event, and the states they must show."""

    def __init__(self, folder: Path, seed):
        self.disk = Disk()
        self.state: Twin | None = None
        self.after: Twin | None = None  # after the call in progress
        self.call = None
        self._folder = folder
        self._rng = random.Random(f"{seed} calls")

    def take(self, event) -> None:
        if event.name != "mark":
            self.disk.take(event)
            if event.inode in self.disk.files:
                self.disk.files[event.inode].sync()  # only the last content matters
        elif event.data == b"ready":
            self.leave()
            with warnings.catch_warnings():
                # These are copies of the files, for which the test itself vouches.
                warnings.simplefilter("ignore", RecoveryWarning)
                with xa.open(self._folder / "a") as array:
                    self.state = Twin(array)
        elif event.data == b"begun":
            self.call = draw(self._rng, self.state)
            self.after = copy.deepcopy(self.state)
            self.call.on(self.after)
        else:
            self.state, self.after = self.after, None

    def leave(self) -> None:
        """Write the present content of the files to the folder."""
        for file in self._folder.iterdir():
            file.unlink()
        for name, file in self.disk.names.items():
            (self._folder / Path(name).name).write_bytes(file.now)

    def problem(self, array) -> str | None:
        """Return what is wrong with an array opened from those files."""
        if self.after is None:
            return problem(array, [self.state])
        if self.call.assigns:
            return problem(array, [self.state], self.after)
        return problem(array, [self.state, self.after])


def check(history, path):
    """Reopen the array: it is as before or after the call in progress, and usable."""
    where = f"in {history.call}" if history.after is not None else f"after {history.call}"
    # The lock is free once the last rank has ended.
    with xa.open(path, "r+", timeout=60) as array:
        wrong = history.problem(array)
        assert wrong is None, f"{where}: {wrong}"
        values, (rows, *_) = array[...], array.shape
        array.extend(0, 3)
        array.extend(array.ndim - 1, 2, "start")
        assert np.array_equal(array[:rows, ..., 2:], values), where
        new = (array[rows:], array[..., :2])
        assert all((part == array.fill_value).all() for part in new), f"{where}: old elements"


def halves(event):
    """Yield an event's half, as a kill may leave it, and the whole event."""
    if event.name == "pwrite" and len(event.data) >= 16:
        half = len(event.data) // 16 * 8  # the system never stops within an element
        yield preload.Event(event.name, event.inode, event.offset, half, event.data[:half])
    yield event


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("ranks", "engine"), [(2, "mpi-io"), (3, "pread")])
def test_killed_at_any_moment(run, watched, tmp_path, ranks, engine, seed):
    """Killing all ranks leaves a prefix of their changes to the files."""
    if engine == "mpi-io" and not run.is_mpich:
        pytest.skip("Open MPI writes by calls that are not watched")
    run(ranks, "calls.py", seed, CALLS, engine, 0, 0)
    left = tmp_path / "left"
    left.mkdir()
    history = History(left, seed)
    n = 0
    for recorded in preload.events(watched.with_name("watched.log").read_bytes()):
        for event in halves(recorded):
            history.take(event)
            if history.state is not None and event.name != "mark":
                history.leave()
                check(history, left / "a")
                n += 1
    assert n > 3 * CALLS
    # The record is complete.
    history.leave()
    for file in watched.iterdir():
        assert file.read_bytes() == (left / file.name).read_bytes()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("ranks", "engine", "at", "how"),
    [(2, "mpi-io", 40, "half"), (3, "mpi-io", 170, "after"), (2, "pread", 90, "before")],
)
def test_a_rank_is_killed(run, watched, tmp_path, ranks, engine, at, how, seed):
    """The launcher ends the other ranks."""
    status, text = run.status(ranks, "calls.py", seed, 200, engine, at, preload.KILLS[how])
    for name in watched.with_name("watched.shared").read_text().split():
        Path(name).unlink(missing_ok=True)
    assert status != 0, text
    left = tmp_path / "left"
    left.mkdir()
    history = History(left, seed)
    for event in preload.events(watched.with_name("watched.log").read_bytes()):
        history.take(event)
    # The running system vouches for all elements of these files, whichever rank wrote them.
    assert not [each for each in xa.check(watched / "a").problems if each.severity != "note"]
    check(history, watched / "a")


@pytest.mark.parametrize(("ranks", "engine"), [(2, "mpi-io"), (3, "pread")])
def test_each_call_to_the_system_fails_once(run, ranks, engine):
    cases = ["append", "append into a cut", "extend", "box", "shrink", "attributes", "open for r+"]
    found = run(ranks, "failing.py", engine, *cases)
    assert int(found.split()[0]) > 50


@pytest.mark.parametrize(("ranks", "engine"), [(1, "mpi-io"), (2, "mpi-io"), (2, "mmap")])
def test_what_cannot_be_made_replaces_nothing(run, ranks, engine):
    found = run(ranks, "failing.py", engine, "create over another")
    assert int(found.split()[0]) > 20
