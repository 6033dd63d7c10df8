"""Record random calls until one system call meets a fault: SEED CALLS ENGINE AT FAULT.

AT 0 means no fault.  The array is "a" in the folder that preload.py watches.  Beside that folder
lie the record, and the names of shared memory that a kill leaves behind.
"""

from __future__ import annotations

import os
import random
import sys

from mpi4py import MPI
from mpicalls import Together
from mpirun import shared_memory
from preload import Control, mark
from workload import Twin, create, draw

comm = MPI.COMM_WORLD
seed, calls, engine = sys.argv[1], int(sys.argv[2]), sys.argv[3]
at, fault = int(sys.argv[4]), int(sys.argv[5])
folder = os.environ["PRELOAD_FOLDER"]

# The ranks share the page that holds the number of the record's descriptor.
LOG = 200
fd = os.open(f"{folder}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.dup2(fd, LOG)
control = Control()
with open(f"{folder}.shared", "a") as file:
    file.write("\n".join([*shared_memory(os.getpid()), ""]))
comm.Barrier()
control.record(LOG)
comm.Barrier()


def say(text):
    if comm.rank == 0:
        mark(LOG, text)


array = create(f"{folder}/a", random.Random(seed), engine=engine, checksum=False, comm=comm)
together, twin, rng = Together(array), Twin(array), random.Random(f"{seed} calls")
comm.Barrier()
say("ready")
if comm.rank == 0:
    control.arm(at, fault)
comm.Barrier()
for _ in range(calls):
    call = draw(rng, twin)
    say("begun")
    call.on(together)
    say("returned")
    call.on(twin)
array.close()
