"""Arrays on a web server: refused under a communicator, and read by each rank."""

import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
X = np.arange(600.0).reshape(20, 30)
for url in sys.argv[1:]:
    for given in (comm, MPI.COMM_SELF):
        for options in ({}, {"mode": "r+"}, {"share": True, "mode": "r+"}):
            try:
                xa.open(url, comm=given, **options)
            except xa.errors.ReadOnlyError:
                told = "without comm" if options else ""
            except xa.ArgumentError as error:
                told = str(error)
            else:
                told = ""
            assert "without comm" in told
    with xa.open(url) as a:
        rows = slice(comm.rank * 10, comm.rank * 10 + 10)
        assert (a[rows] == X[rows]).all()
        total = comm.allreduce(float(a[rows].sum()))
        assert total == X.sum()
