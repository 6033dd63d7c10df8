"""Chunk shapes that `advise_chunks` gives for HDF5, beside all shapes of a sweep, through h5py.

Every pattern of requests runs on datasets in each shape.  The advised shape should be among the
fastest.  Tests compare the numbers of chunks that HDF5 reads and writes with those of the model.

    python -m benchmarks.hdf5_chunks [--folder FOLDER] [--edge 192] [--requests 12]
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import extarray as xa

CACHE = 1 << 20
ITEM = 4

#: Patterns: what is read or appended, and how often.
PATTERNS = {
    "rows": [((1, 1, None), 1)],
    "planes across axis 0": [(("plane", 0), 1)],
    "planes across each axis": [(("plane", 0), 1), (("plane", 1), 1), (("plane", 2), 1)],
    "boxes of 20³": [((20, 20, 20), 1)],
    "series, planes": [((None, 1, 1), 7), (("plane", 0), 3)],
    "growth by frames": [(("append", 0), 1)],
    "growth by frames, series": [(("append", 0), 5), ((None, 1, 1), 5)],
    "growth by frames, boxes": [(("append", 0), 1), ((20, 20, 20), 3)],
}


def extents(request, shape):
    """Return the extents of a request to read."""
    if request[0] == "plane":
        return tuple(1 if j == request[1] else n for j, n in enumerate(shape))
    return tuple(n if r is None else r for r, n in zip(request, shape, strict=True))


def boxes(request, shape, count):
    """Return random places of a request."""
    random = np.random.default_rng(0)
    sizes = extents(request, shape)
    for _ in range(count):
        first = [int(random.integers(0, n - r + 1)) for n, r in zip(shape, sizes, strict=True)]
        yield tuple(slice(a, a + r) for a, r in zip(first, sizes, strict=True))


def time_reads(path, request, shape, count):
    """Return the median time of a request."""
    import h5py

    times = []
    with h5py.File(path, "r", rdcc_nbytes=CACHE, rdcc_nslots=521) as file:
        dataset = file["d"]
        dataset[0, 0, 0]
        for box in boxes(request, shape, count):
            start = time.perf_counter()
            dataset[box]
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def time_appends(path, axis, shape, chunks):
    """Return the mean time of an append of one index."""
    import h5py

    steps = min(shape[axis], 4 * chunks[axis])
    empty = tuple(0 if j == axis else n for j, n in enumerate(shape))
    index = [slice(None)] * len(shape)
    frame = np.ones([n for j, n in enumerate(shape) if j != axis], f"f{ITEM}")
    with h5py.File(path, "w", rdcc_nbytes=CACHE, rdcc_nslots=521) as file:
        dataset = file.create_dataset(
            "d", empty, f"f{ITEM}", chunks=chunks, maxshape=(None,) * len(shape)
        )
        start = time.perf_counter()
        for i in range(steps):
            dataset.resize(i + 1, axis)
            index[axis] = i
            dataset[tuple(index)] = frame
        file.flush()
        return (time.perf_counter() - start) / steps


def sweep(shape):
    """Return shapes of 4 KiB to the size of the cache: powers of four, and whole axes."""
    lengths = [sorted({*[4**i for i in range(5) if 4**i < n], n}) for n in shape]
    for chunks in itertools.product(*lengths):
        if 4096 <= math.prod(chunks) * ITEM <= CACHE:
            yield chunks


def main(words=None):
    """Print how the advised shape stands among those of the sweep."""
    import h5py

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", help="where the files go (default: a temporary one)")
    parser.add_argument(
        "--edge", type=int, default=192, help="of the array, of (edge/2, edge, edge)"
    )
    parser.add_argument("--requests", type=int, default=12, help="of each kind")
    given = parser.parse_args(words)
    shape = (given.edge // 2, given.edge, given.edge)
    data = np.random.default_rng(0).integers(0, 99, shape).astype(f"f{ITEM}")
    advice = {
        name: xa.advise_chunks(shape, f"f{ITEM}", access, store="hdf5", chunk_cache=CACHE)
        for name, access in PATTERNS.items()
    }
    times: dict[tuple[int, ...], dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "a.h5"
        for chunks in {*map(tuple, advice.values()), *sweep(shape)}:
            with h5py.File(path, "w") as file:
                file.create_dataset("d", data=data, chunks=chunks, maxshape=(None,) * 3)
            requests = {request for access in PATTERNS.values() for request, _ in access}
            single = {
                request: time_reads(path, request, shape, given.requests)
                if request[0] != "append"
                else min(
                    time_appends(Path(folder) / "b.h5", request[1], shape, chunks) for _ in range(3)
                )
                for request in requests
            }
            times[chunks] = {
                name: sum(w * single[r] for r, w in access) / sum(w for _, w in access)
                for name, access in PATTERNS.items()
            }
    print("pattern | advised | its time, ms | best of the sweep | its time, ms | ratio | rank")
    for name, best in advice.items():
        ranked = sorted(times, key=lambda chunks: times[chunks][name])
        ours, least = times[tuple(best)][name], times[ranked[0]][name]
        print(
            f"{name} | {tuple(best)} | {ours * 1e3:.3f} | {ranked[0]} | {least * 1e3:.3f} | "
            f"{ours / least:.2f} | {ranked.index(tuple(best)) + 1} of {len(ranked)}"
        )


if __name__ == "__main__":
    main()
