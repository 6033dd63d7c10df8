"""The program of each rank of a candidate of benchmarks/onesided.py: patches of an array in memory.

``python -m mpi4py patches.py CANDIDATE FOLDER MASTER``, on two ranks.  Rank 0 gets, puts and
accumulates in the zone of rank 1.
"""

from __future__ import annotations

import importlib
import sys
import time

import numpy as np
from mpi4py import MPI
from orders import serve

OPERATIONS = "get", "put", "accumulate"


class Program:
    """The orders, by name."""

    def __init__(self, name, folder):
        self.candidate = importlib.import_module(name).Candidate(MPI.COMM_WORLD)

    def describe(self):
        return self.candidate.description

    def make(self, rows, columns):
        """Make an array in which each of two ranks has so many rows."""
        self.candidate.make(rows, columns)

    def measure(self, rows, columns, seconds):
        """Return the times of each operation on the first rows and columns of rank 1's, by way."""
        if MPI.COMM_WORLD.rank:
            return None
        self._check(rows, columns)
        values = np.ones((rows, columns))
        times = {}
        for operation in OPERATIONS:
            times[operation] = in_turn(self.candidate.calls(operation, values), seconds)
        return times

    def _check(self, rows, columns):
        """Check that gets return put and accumulated values."""
        values, found = np.random.default_rng(1).random((rows, columns)), np.empty((rows, columns))
        for way in self.candidate.calls("get", found):
            for operation in ("put", "accumulate"):
                self.candidate.calls(operation, values)[way]()
            self.candidate.calls("get", found)[way]()
            assert np.array_equal(found, 2 * values), f"wrong elements: {way}"

    def remove(self):
        self.candidate.remove()


def in_turn(calls, seconds):
    """Return the times of calls that take turns, by name."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds
    while min(map(len, times.values())) < 5 or time.perf_counter() < end:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    serve(Program, *sys.argv[1:])
