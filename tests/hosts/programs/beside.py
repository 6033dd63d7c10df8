"""Ranks write rows of an array while a program outside writes others: PATH ROUNDS.

Print READY when the array is open.  Ranks of both hosts and the program share chunks.
"""

from __future__ import annotations

import sys

from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
path, rounds = sys.argv[1], int(sys.argv[2])
with xa.create(path, (40, 30), "i4", chunks=(16, 8), comm=comm) as a:
    a.flush()
    if not comm.rank:
        print("READY", flush=True)
    for k in range(1, rounds + 1):
        a.write(slice(comm.rank, None, 5), k * (comm.rank + 1))  # every fifth row is the program's
    while True:  # until the program has written its last round, too
        found = a.read()
        if comm.bcast(bool((found[4::5] == 5 * rounds).all())):
            break
    for i in range(5):
        assert (found[i::5] == rounds * (i + 1)).all(), (i, found[i::5])
