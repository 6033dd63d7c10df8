"""Several MPI ranks open one array; importing extarray needs no MPI."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import extarray as xa

RANK = """
import sys
import numpy as np
from mpi4py import MPI
import extarray as xa

comm = MPI.COMM_WORLD
with xa.open(sys.argv[1]) as array:
    # Zones of whole chunks, BLOCK over axis 0.
    rows = np.array_split(np.arange(array.grid[0]), comm.size)[comm.rank] * array.chunks[0]
    mine = array[rows[0] : rows[-1] + array.chunks[0]]
    parts = comm.gather(mine)
    # Every rank computes every address from the same history.
    addresses = comm.allgather(array.axial.address((array.grid[0] - 1, array.grid[1] - 1)))
assert len(set(addresses)) == 1, addresses
if comm.rank == 0:
    np.save(sys.argv[2], np.concatenate(parts))
    print(comm.size, "ranks")
"""


def test_ranks_read_their_parts(mpiexec, script, path, tmp_path):
    expected = np.arange(11 * 7, dtype="i4").reshape(11, 7)
    with xa.create(path, shape=(3, 7), dtype="i4", chunks=(2, 3)) as array:
        array[...] = expected[:3]
        array.append(expected[3:])
    output = tmp_path / "gathered.npy"
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py", "-c", RANK, path, output],
        stdin=subprocess.DEVNULL,  # the launcher would forward it, and may wait for it
        capture_output=True,
        text=True,
        env=script.environment,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "2 ranks"
    assert np.load(output).tolist() == expected.tolist()


def test_nothing_needs_mpi(script):
    loaded = script(
        "import sys\n"
        "sys.modules['mpi4py'] = None\n"
        "import extarray as xa\n"
        "xa.zeros((2, 2)).extend(0, 3)\n"
        "print('mpi4py.MPI' in sys.modules)\n"
    )
    assert loaded.strip() == "False"
