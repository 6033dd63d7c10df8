"""Arrays that zarr reads through `as_zarr_store`, beside the same chunks in zarr's own folder.

The targets: opening, and reading all, a slab, a column and single chunks, take no longer than
through `zarr.storage.LocalStore`, warm.  `python -m benchmarks.suites.bench_zarr_store` measures
and prints the table.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import extarray as xa

SIDE = 2048
CHUNKS = (512, 64)  # 2 MiB and 32 KiB of float64
ENGINES = ("mmap", "pread")
ACTIONS: dict[str, Callable[[Any, int], Any]] = {
    "all": lambda z, c: z[...],
    "slab": lambda z, c: z[c : 2 * c],
    "column": lambda z, c: z[:, 7],
    "chunk": lambda z, c: z[c : 2 * c, c : 2 * c],
}


@contextlib.contextmanager
def stored(side: int = SIDE, chunk: int = CHUNKS[0]) -> Iterator[tuple[str, str]]:
    """Yield paths of an array grown along both axes, also at the start, and of its zarr copy."""
    import zarr

    with tempfile.TemporaryDirectory() as folder:
        path, local = os.path.join(folder, "a"), os.path.join(folder, "a.zarr")
        half = side // 2
        with xa.create(path, (half, half), chunks=chunk) as array:
            for axis in (1, 0):
                array.extend(axis, side - half, "start" if axis else "end")
            array[...] = np.random.default_rng(1).random((side, side))
            other = zarr.create_array(
                local, shape=array.shape, chunks=array.chunks, dtype="f8", compressors=None
            )
            other[...] = array[...]
        yield path, local


def seconds(
    paths: tuple[str, str], action: str, engine: str, chunk: int, n: int = 20
) -> list[float]:
    """Return the median seconds of an action on the folder, and on the array, in turn."""
    import zarr

    with xa.open(paths[0], engine=engine) as array:
        stores = (zarr.storage.LocalStore(paths[1], read_only=True), array.as_zarr_store())
        opened = [zarr.open_array(store, mode="r") for store in stores]
        times: list[list[float]] = [[], []]
        for turn in range(n + 1):
            for j in (0, 1) if turn % 2 else (1, 0):
                start = time.perf_counter()
                if action == "open":
                    zarr.open_array(stores[j], mode="r")
                else:
                    ACTIONS[action](opened[j], chunk)
                if turn:  # the first one maps the pages
                    times[j].append(time.perf_counter() - start)
    return [float(np.median(each)) for each in times]


class ZarrStore:
    """asv: the time through the array's store over that through zarr's own."""

    params = (["open", *ACTIONS], list(ENGINES), list(CHUNKS))
    param_names = ("action", "engine", "chunk")

    def setup(self, action: str, engine: str, chunk: int) -> None:
        self.place = stored(chunk=chunk)
        self.paths = self.place.__enter__()

    def teardown(self, action: str, engine: str, chunk: int) -> None:
        self.place.__exit__(None, None, None)

    def track_ratio(self, action: str, engine: str, chunk: int) -> float:
        """Return the time over zarr's own."""
        local, ours = seconds(self.paths, action, engine, chunk)
        return ours / local


ZarrStore.track_ratio.unit = "of the time of LocalStore"


def table(side: int = SIDE, chunks: tuple[int, ...] = CHUNKS, n: int = 20) -> str:
    """Return the table, as Markdown."""
    rows = [f"| {side}² float64 | chunks | engine | LocalStore | as_zarr_store | ratio |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for chunk in chunks:
        with stored(side, chunk) as paths:
            for action in ("open", *ACTIONS):
                for engine in ENGINES:
                    local, ours = seconds(paths, action, engine, chunk, n)
                    times = f"{1e3 * local:.2f} ms | {1e3 * ours:.2f} ms"
                    rows.append(
                        f"| {action} | {chunk}² | `{engine}` | {times} | {ours / local:.2f} |"
                    )
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
