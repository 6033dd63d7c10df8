"""The ranks' end of benchmarks/launching.py: wait for orders, and carry them out.

Orders are numbered files in a folder.  Waiting processes sleep, to leave the processors to the
candidate whose turn it is, and sleep longer the longer they have waited: some thirty processes that
look once a millisecond take half a processor.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from mpi4py import MPI

# Seconds between two looks for an order, at first and at most.
SHORTEST, LONGEST = 0.001, 0.02


def serve(make, name, folder, master):
    """Carry out orders as methods of ``make(name, folder)``, until the order to end."""
    comm = MPI.COMM_WORLD
    program = make(name, folder)
    number = 0
    while True:
        order = Path(folder, f"order-{number}")
        pause = SHORTEST
        while not order.exists():
            time.sleep(pause)
            pause = min(1.2 * pause, LONGEST)
            os.kill(int(master), 0)  # raises if the master has ended
        what, arguments = json.loads(order.read_text())
        if what == "end":
            return
        result = getattr(program, what)(**arguments)
        comm.Barrier()
        if comm.rank == 0:
            fresh = Path(folder, "fresh")
            fresh.write_text(json.dumps(result))
            fresh.rename(os.path.join(folder, f"result-{number}"))
        number += 1
