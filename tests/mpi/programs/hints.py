"""Hints for MPI-IO that change who opens, reads and writes the file: PATH."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
gather = {"romio_cb_read": "enable", "romio_cb_write": "enable", "cb_nodes": 1}
for info in ({"romio_no_indep_rw": "true"}, {"romio_no_indep_rw": "true", **gather}):
    model = np.arange(700.0).reshape(70, 10)
    options = {"chunks": (2, 3), "comm": comm, "overwrite": True, "info": info}
    with xa.create(sys.argv[1], model.shape, **options) as a:
        a.write_zone(model[a.zone()])
        a.append(-model[:3])
        model = np.concatenate([model, -model[:3]])
        assert np.array_equal(a.read(), model)
        assert np.array_equal(a.read_zone(), model[a.zone()])
        assert np.array_equal(a.read(np.s_[5, ::-1], collective=False), model[5, ::-1])
        comm.Barrier()
