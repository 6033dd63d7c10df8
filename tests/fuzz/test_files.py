"""Hostile files of other formats, read in processes with limits, raise errors of the family.

A small, fixed part of the cases that `tests/support/fuzz_files.py` can run without end.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import signal
import sys
import warnings

import deaths
import fuzz
import fuzz_files
import numpy as np
import pytest
from systems import IS_POSIX

import extarray as xa

pytestmark = pytest.mark.thread_unsafe(reason="libraries read files that crash them")


def there(name):
    """Skip where a format's library is not installed."""
    needs = fuzz_files.FORMATS[name].needs
    if needs:
        pytest.importorskip(needs)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", fuzz_files.FORMATS)
def test_files(name):
    """A crash of a library ends one child process, not the run."""
    there(name)
    children = fuzz_files.Children(name, seed=1)
    children.run(0, 150)
    assert children.findings == []
    assert children.counts.total() == 150
    assert children.counts[f"{name}: read"] > 5
    assert sum(n for what, n in children.counts.items() if what.endswith("Error")) > 20


@pytest.mark.slow
@pytest.mark.process
def test_corpus():
    """Inputs that reached new code when the fuzzer ran with all formats."""
    if not all(importlib.util.find_spec(f.needs) for f in fuzz_files.FORMATS.values() if f.needs):
        pytest.skip("the libraries of some formats are not installed")
    corpus = fuzz.read_corpus("files")
    assert len(corpus) > 50
    children = fuzz_files.Children("all", inputs=corpus)
    children.run(0, len(corpus))
    assert children.findings == []
    assert children.counts.total() == len(corpus)


@pytest.mark.parametrize("name", ["npy", "npz", "envi", "packed"])
def test_good_files_are_read(name, tmp_path):
    """Otherwise, changed files would test only refusals."""
    for seed in fuzz_files.seeds([name]):
        for job in fuzz_files.FORMATS[name].jobs:
            place = tmp_path / seed.name
            for part, content in seed.files.items():
                file = place / part if part else place
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            made = tmp_path / f"{job.__name__} {seed.name}"
            made.mkdir()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                job(place, made)


def test_the_bytes_of_a_case_are_always_the_same():
    one, other = (fuzz_files.seeds(["npy", "npz", "packed"]) for _ in range(2))
    assert one == other
    data = fuzz_files.bytes_of(1, 2)
    assert data == fuzz_files.bytes_of(1, 2) == random.Random("1/2").randbytes(64)
    changed = [fuzz_files.changed(fuzz_files.Dice(data), one[0].files) for _ in range(2)]
    assert changed[0] == changed[1] != one[0].files


def test_whose_fault_it_is():
    frame = '  File "/a/extarray/formats/flat.py", line 1 in f\n'
    ours = f"Current thread 0x1 (most recent call first):\n{frame}"
    theirs = ours.replace("/a/extarray/formats/flat.py", "/a/h5py/dims.py")
    assert deaths.in_ours(ours)
    assert not deaths.in_ours(theirs)
    assert not deaths.in_ours(ours.replace("flat", "hdf5"))  # this frame calls the library in C
    waiting = f"Thread 0x2 (most recent call first):\n{frame}\n"
    assert not deaths.in_ours(waiting + theirs.replace("Current thread", "Thread"))


def test_a_process_that_ends_is_no_end(monkeypatch):
    """The children end at every case with an even number, as if a library had crashed."""
    monkeypatch.setattr(fuzz_files, "COMMAND", [sys.executable, "-c", CRASHING])
    children = fuzz_files.Children("npy", seed=1)
    children.run(0, 7)
    # On Windows a signal is the status with which it ends a process.
    name = "SIGSEGV" if IS_POSIX else int(signal.SIGSEGV)
    assert children.counts == {"npy: read": 3, f"ended by {name}": 4}
    assert children.findings == []


CRASHING = """
import os, signal, sys
first, count = (int(sys.argv[sys.argv.index(f"--{name}") + 1]) for name in ("first", "count"))
for n in range(first, first + count):
    print("begun", n, "", flush=True)
    if n % 2 == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    print("done", n, "npy: read", flush=True)
"""


# -- faults found earlier --------------------------------------------------------------------------


def test_a_damaged_root_group_of_hdf5(tmp_path):
    """The reader asks for the group's attributes and identity before anything else."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        f["x"] = np.arange(3)
        f.attrs["title"] = "a"
    good = (tmp_path / "a.h5").read_bytes()
    for at in range(48, 200):
        bad = bytearray(good)
        bad[at] ^= 0xFF
        (tmp_path / "a.h5").write_bytes(bad)
        with warnings.catch_warnings(), contextlib.suppress(xa.FormatError):
            warnings.simplefilter("ignore")
            xa.from_hdf5(tmp_path / "a.h5", path=tmp_path / "made", overwrite=True).close()


def test_an_empty_dataset_takes_nothing_back(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = h5py.Empty("f4")
    with pytest.warns(xa.LossyWarning, match="empty, without a shape"):
        m = xa.map_hdf5(tmp_path / "a.h5", "x")
    m.append([1.5])
    with pytest.raises(xa.ArgumentError, match="'/x' is empty, without a shape"):
        m.write_back()
