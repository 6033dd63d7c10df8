"""Run every analysis of a scene on all ranks, and record the exact results: SCENE."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import extarray as xa
from extarray.apps import hyperspectral as hs

comm = MPI.COMM_WORLD
folder = Path(sys.argv[1]).parent
found = {}


def keep(name, result):
    """Note the digests of a result, which must be the same on all ranks."""
    values = list(vars(result).values()) if is_dataclass(result) else (result,)
    digests = [hashlib.sha256(np.ascontiguousarray(v).tobytes()).hexdigest()[:12] for v in values]
    for others in comm.allgather(digests):
        assert others == digests, (name, others, digests)
    found[name] = digests


with xa.open(sys.argv[1], "r", comm=comm) as a:
    # Blocks of a few rows, so that each rank has some; large results go to files.
    few = {"max_memory": 120_000}
    keep("pct", hs.pct(a, 3, **few))
    scene = hs.mnf(a, 13, **few)
    assert isinstance(scene.scores, xa.ExtArray)
    keep("mnf", scene)
    scene.scores.close()
    del scene
    keep("numbers", np.array([hs.hfc(a, **few), hs.hysime(a, **few)]))
    for name, one in {
        "atgp": hs.atgp(a, 4, **few),
        "vca": hs.vca(a, 4, seed=1, **few),
        "nfindr": hs.nfindr(a, 4, **few),
        "random": hs.nfindr(a, 4, seed=2, init="random", **few),
        "ppi": hs.ppi(a, 300, p=4, min_angle=0.05, **few),
        "amee": hs.amee(a, 4, (3, 5), **few),
    }.items():
        keep(name, one)
    hs.ppi(a, 20, seed=None)  # one rank draws for all
    members = hs.atgp(a, 4).endmembers
    for method in ("ucls", "scls", "nnls", "fcls"):
        keep(method, hs.abundances(a, members, method, **few))
    amounts = hs.abundances(a, members, path=folder / f"amounts-{comm.size}", **few)
    keep("path", amounts[...])
    amounts.close()
    keep("sam", hs.sam(a, members, **few))
    labels = hs.classify(a, members, **few)
    keep("labels", labels)
    keep("accuracy", np.array(hs.accuracy(labels, labels % 3, comm=comm).confusion))
    keep("an array on every rank", hs.pct(a[...], 3, comm=comm, **few))

    data = a[...]
    with xa.create(folder / f"growing-{comm.size}", (9, 23, 10), chunks=(8, 7, 5), comm=comm) as b:
        b.write(... if comm.rank == 0 else slice(0), data[:9, :, :10] if comm.rank == 0 else 0.0)
        with hs.Growing(b, 4, **few) as live:
            for shape, axis in (((31, 23, 10), 0), ((31, 23, 16), 2)):
                new = [slice(n) for n in shape]
                new[axis] = slice(b.shape[axis], None)
                b.append(data[tuple(new)], axis=axis)
                assert live.update()
            keep("growing", np.hstack([live.mean[:, None], live.covariance]))
            keep("its endmembers", np.hstack([live.positions, live.endmembers]))
            assert not list(live.follow(timeout=0))

    # Pixels without data are left out, whichever rank has them.
    holes = a[...]
    holes[3:9, 5:20, 2] = np.nan
    holes[-1, -1, -1] = np.inf
    mask = np.zeros(holes.shape[:2], bool)
    mask[20:] = True
    keep("pct of holes", hs.pct(holes, 3, comm=comm, mask=mask, **few))
    keep("mnf of holes", hs.mnf(holes, 3, comm=comm, mask=mask, **few))
    keep("random of holes", hs.nfindr(holes, 4, 2, init="random", comm=comm, mask=mask, **few))
    keep("ppi of holes", hs.ppi(holes, 300, p=4, comm=comm, mask=mask, **few))
    keep("amee of holes", hs.amee(holes, 4, (3, 5), comm=comm, mask=mask, **few))

    # An error found by one rank is raised by all.
    class Broken:
        """A scene whose last row cannot be read."""

        shape, dtype = a.shape, a.dtype

        def __getitem__(self, key):
            if key[0].stop == a.shape[0]:
                raise OSError("as a test")
            return holes[key]

    with pytest.raises(OSError, match="as a test"):
        hs.pct(Broken(), 2, comm=comm, **few)
    comm.Barrier()
    if comm.rank == 0:
        left = [name for name in os.listdir(folder) if name.startswith("extarray-")]
        assert not left, left
        print("\n".join(f"{name}: {' '.join(digests)}" for name, digests in found.items()))
