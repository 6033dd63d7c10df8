"""Workers on two hosts fill one array that the client extends: HERE THERE_RUN PATH."""

from __future__ import annotations

import os
import subprocess
import sys

import dask.array as da
import numpy as np
import xarray as xr
from distributed import Client, LocalCluster

import extarray as xa
import extarray.interop.xarray


def network():
    return os.readlink("/proc/self/ns/net")


def fill(array, rows, value):
    array[rows] = value
    return network()


def main(here, there_run, path):
    cluster = LocalCluster(
        host=here, n_workers=1, threads_per_worker=1, dashboard_address=None, protocol="tcp"
    )
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
    options = ["--no-nanny", "--no-dashboard", "--nthreads", "1"]
    with cluster, Client(cluster) as client:
        other = subprocess.Popen([*there_run.split(), *worker, *options])
        try:
            client.wait_for_workers(2, timeout=250)
            write(client, path)
        finally:
            other.terminate()
            other.wait()


def write(client, path):
    hosts = client.run(network)
    assert len(set(hosts.values())) == 2, "not on two hosts"
    with xa.create(path, (0, 40), "i4", chunks=(7, 9)) as array:
        for n in range(3):
            # The client extends; both hosts fill, even within one chunk.
            array.extend(0, 20)
            tasks = [
                client.submit(
                    fill, array, slice(20 * n + i, 20 * n + 20, 2), i + 1, workers=[w], pure=False
                )
                for i, w in enumerate(hosts)
            ]
            assert set(client.gather(tasks)) == set(hosts.values())
            array.flush()
        assert (array[...] == np.tile([[1], [2]], (30, 1))).all()
        blocks = da.random.default_rng(1).integers(0, 9, (60, 40), chunks=(11, 13)).astype("i4")
        da.store(blocks, array, lock=False)
        assert (array[...] == blocks.compute()).all()
    assert xa.check(path, data=True).ok

    values = np.arange(600.0).reshape(30, 20)
    scene = xr.DataArray(da.from_array(values, chunks=(4, 20)) + 1, dims=("y", "x"))
    scene.extarray.to_extarray(f"{path}-scene")
    scene.extarray.to_extarray(f"{path}-scene", append_dim="y", side="start")
    with xa.open(f"{path}-scene") as array:
        assert (array[...] == np.tile(values + 1, (2, 1))).all()


if __name__ == "__main__":
    main(*sys.argv[1:])
