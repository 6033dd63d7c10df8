"""Make each system call fail once, on one of the ranks: ENGINE [CASE ...].

The array is in the folder that preload.py watches.  Then all ranks raise, or none; the array is as
before, and the ranks can continue with it.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import sys

import numpy as np
from faults import CASES, CHUNKS, FIRST
from mpi4py import MPI
from mpicalls import Together
from preload import FAULTS, Control
from workload import Call, Twin, problem

import extarray as xa

comm = MPI.COMM_WORLD
engine, *names = sys.argv[1:]
path = f"{os.environ['PRELOAD_FOLDER']}/a"
control = Control()


def attempt(function, number):
    """Call a function on all ranks with a fault; return whether it occurred, and the error."""
    error = None
    arming = control.fault(number, FAULTS["EIO"]) if comm.rank == 0 else contextlib.nullcontext()
    comm.Barrier()
    with arming:
        comm.Barrier()
        try:
            function()
        except Exception as caught:
            error = caught
        comm.Barrier()
    said = comm.allgather(None if error is None else (type(error), str(error)))
    assert len(set(said)) == 1, f"the ranks differ: {said}"
    if error is not None:
        assert isinstance(error, xa.StorageError), repr(error)
        assert error.errno == FAULTS["EIO"] and path in str(error), repr(error)
    return control.fired, error


def agree(array, states, assigned=None):
    """Require the array and a fresh reader to be in one of the states, on all ranks."""
    comm.Barrier()
    with xa.open(path) as reader:
        for one in (array, reader):
            wrong = problem(one, states, assigned)
            assert wrong is None, wrong
    comm.Barrier()


def make(case):
    """Make the array of a case, as it is before the call."""
    options = {"engine": engine, "comm": comm}
    array = xa.create(path, FIRST.shape, "i4", chunks=CHUNKS, overwrite=True, **options)
    together = Together(array)
    together.write((slice(0, 6), slice(0, 7)), FIRST)
    for call in case.before:
        call.on(together)
    if case.is_sealed:
        array.close()
        together = Together(xa.open(path, "r+", **options))
    return together


def call_once(case, number):
    """Run a case with one fault; return whether the fault occurred."""
    array = make(case)
    before = Twin(array.array)
    after = copy.deepcopy(before)
    case.call.on(after)
    fired, error = attempt(lambda: case.call.on(array), number)
    if error is None:
        agree(array, [after])
    else:
        agree(array, [before], after if case.call.assigns else None)
        case.call.on(array)
        for call in (Call("extend", (0, 4)), Call("extend", (1, 3)), Call("attrs", ({"b": 2},))):
            call.on(array)
            call.on(after)
        agree(array, [after])
    array.close()
    return fired


def opened(mode):
    """Return a function that opens with one fault."""

    def open_once(case, number):
        array = make(case)
        before = Twin(array.array)
        array.close()
        made = []
        options = {"engine": engine, "comm": comm}
        fired, error = attempt(lambda: made.append(xa.open(path, mode, **options)), number)
        if error is not None:
            made.append(xa.open(path, mode, **options))
        agree(made[0], [before])
        made[0].close()
        return fired

    return open_once


def replaced(case, number):
    """Replace an array by another, with one fault: a failed creation replaces nothing."""
    old = make(case)
    before = Twin(old.array)
    old.close()
    made = []

    def create():
        options = {"engine": engine, "comm": comm, "overwrite": True}
        made.append(xa.create(path, (5, 5), "i4", chunks=CHUNKS, **options))

    fired, error = attempt(create, number)
    if error is not None:
        # Open MPI leaves its file for testing locks, if it cannot open that.
        names = sorted(os.listdir(os.path.dirname(path)))
        left = [name for name in names if "locktest" not in name]
        assert left == ["a.xmd", "a.xta"], left
        with xa.open(path) as array:
            if "is replaced" not in str(error):
                assert problem(array, [before]) is None
        comm.Barrier()
        create()
    made[0].append(np.ones((1, 5), "i4"))
    made[0].close()
    with xa.open(path) as array:
        assert array.shape == (6, 5) and array[...].sum() == 5
    comm.Barrier()
    return fired


TASKS = [(case.name, case, call_once) for case in CASES]
TASKS += [(f"open for {mode}", CASES[0], opened(mode)) for mode in ("r", "r+")]
TASKS += [("create over another", CASES[0], replaced)]
found = 0
for name, case, task in TASKS:
    if names and name not in names:
        continue
    for number in itertools.count(1):
        try:
            if not task(case, number):
                break
        except Exception as error:
            raise AssertionError(f"{name}, call {number}, {control.name}") from error
        found += 1
if comm.rank == 0:
    print(found, "faults")
