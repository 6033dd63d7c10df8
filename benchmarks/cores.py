"""Two threads beside one: which operations gain from a second core as a plain copy does?

    python -m benchmarks.cores [--mib 128] [--rounds 9] [--folder DIR] [--only WORD]

Each operation runs with ``config.threads`` of one and of two, in turn; the least time of each
counts.  A plain copy, NumPy's of one array in memory to another, by one thread and by two with half
each, runs in the same rounds.  The gain is the time of one thread over that of two, and `share` is
the gain over that of the copy: 1 is as much.  Pages are in the cache; nothing waits for the disk.

Other programs on the machine hide the gain, but hardly change the last column, which is counted in
processor time: the part of an operation on 16 threads that the calling thread does beyond its 16th.
Other threads have no part in it.  On two idle cores an operation takes that part, and half of the
rest.  Operations of less than 128 MiB have fewer than 16 threads: there the column is too large.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa

CHUNKS = (64, 64, 64)
#: The folder of files that operations make; it is empty before each.
MADE = "made"

Operation = Callable[[], object]


class Plain:
    """A copy by NumPy, from memory to memory."""

    def __init__(self, nbytes: int) -> None:
        self.source, self.target = np.ones(nbytes, "u1"), np.zeros(nbytes, "u1")
        self.pool = ThreadPoolExecutor(2)

    def copy(self, threads: int) -> None:
        """Copy in equal parts."""
        edges = np.linspace(0, self.source.size, threads + 1).astype(int).tolist()
        parts = [slice(*edges[i : i + 2]) for i in range(threads)]
        if threads == 1:
            np.copyto(self.target, self.source)
            return
        list(self.pool.map(lambda part: np.copyto(self.target[part], self.source[part]), parts))


def operations(folder: Path, mib: int, stack: ExitStack) -> Iterator[tuple[str, Operation]]:
    """Yield the operations by name, on an array of about so many MiB."""
    side = 64 * max(1, round((mib << 17) ** (1 / 3) / 64))
    shape = (side,) * 3
    x = np.random.default_rng(0).random(shape)
    out, single = np.zeros_like(x), np.zeros(shape, "f4")
    made = folder / MADE
    a = stack.enter_context(xa.create(folder / "a", shape, "f8", chunks=CHUNKS))
    b = stack.enter_context(xa.create(folder / "b", shape, "f8", chunks=CHUNKS))
    sums = stack.enter_context(
        xa.create(folder / "sums", shape, "f8", chunks=CHUNKS, checksum=True)
    )
    packed = stack.enter_context(
        xa.create(folder / "zstd", shape, "f4", chunks=CHUNKS, compression="zstd")
    )
    calls = stack.enter_context(xa.create(folder / "calls", shape, "f8", chunks=CHUNKS))
    for each in (a, b, sums, packed, calls):
        each[...] = np.round(x, 2)
    packed.flush()
    calls.close()
    calls = stack.enter_context(xa.open(folder / "calls", engine="pread"))
    mask = x > 0.5
    few = x > 0.99
    rows = np.random.default_rng(1).permutation(side)
    part = (slice(3, side - 3), slice(5, side - 5), slice(None))
    inner = out[part]
    chosen = x[mask]

    yield "everything read", lambda: a.read(out=out)
    yield "everything read, `pread`", lambda: calls.read(out=out)
    yield "everything written", lambda: a.write(..., x)
    yield "slab read", lambda: a.read(part, out=inner)
    yield "slab written", lambda: a.write(part, inner)
    yield "every second element of each axis read", lambda: a[::2, ::2, ::2]
    yield "rows read in any order", lambda: a[rows]
    yield "rows written in any order", lambda: a.__setitem__(rows, x)
    yield "half of all, by a mask, read", lambda: a[mask]
    yield "half of all, by a mask, written", lambda: a.__setitem__(mask, chosen)
    yield "a hundredth, by a mask, read", lambda: a[few]
    yield "`a[mask] = 0`", lambda: a.__setitem__(mask, 0.0)
    yield "other type read (f8 as f4)", lambda: a.read(out=single)
    yield "sum", lambda: a.sum()
    yield "sum along axis 0", lambda: a.sum(axis=0)
    yield "mean along axis 2", lambda: a.mean(axis=2)
    yield "standard deviation", lambda: a.std()
    yield "largest", lambda: a.max()
    yield "`np.add(a, b, out=b)`", lambda: np.add(a, b, out=b)
    yield "`np.sqrt(a, out=b)`", lambda: np.sqrt(a, out=b)
    yield "a new file by `pwrite` alone", lambda: new_file(made / "f", x)
    yield "rechunk", lambda: xa.rechunk(a, made / "r", chunks=(8, 64, 128)).close()
    yield "copy", lambda: a.copy(made / "c").close()
    yield "pack", lambda: xa.pack(a, made / "p.xtp", progress=False)
    yield "checksums compared", lambda: xa.check(folder / "sums", data=True)
    yield "written with checksums", lambda: sums.write(..., x)
    yield "zstd decoded", lambda: packed.read(out=single)
    yield "zstd encoded", lambda: recompressed(made / "z", single)
    formats = {
        "npy": (xa.to_npy, xa.from_npy, "cube.npy", None),
        "HDF5": (xa.to_hdf5, xa.from_hdf5, "cube.h5", "h5py"),
        "Zarr": (xa.to_zarr, xa.from_zarr, "cube.zarr", "zarr"),
    }
    for name, (save, load, file, needs) in formats.items():
        if needs is not None and find_spec(needs) is None:
            continue
        names = [folder / file, *(() if name == "npy" else ("cube",))]
        save(a, *names, progress=False)
        yield f"{name}: import", partial(imported, load, names, made / "i")
        yield f"{name}: export", partial(exported, save, a, [made / file, *names[1:]])


def imported(load: Callable[..., Any], names: list[Any], path: Path) -> None:
    load(*names, path=path, progress=False).close()


def exported(save: Callable[..., Any], array: xa.ExtArray, names: list[Any]) -> None:
    save(array, *names, progress=False)


def new_file(path: Path, values: np.ndarray) -> None:
    """Write the bytes of values to a new file, in equal parts, with no extarray: a reference."""
    data, n = memoryview(values).cast("B"), xa.config.threads
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.posix_fallocate(file, 0, len(data))
        edges = np.linspace(0, len(data), n + 1).astype(int).tolist()
        with ThreadPoolExecutor(n) as pool:
            list(pool.map(lambda i, j: os.pwrite(file, data[i:j], i), edges[:-1], edges[1:]))
    finally:
        os.close(file)


def recompressed(path: Path, values: np.ndarray) -> None:
    """Write values into a compressed array."""
    with xa.create(path, values.shape, "f4", chunks=CHUNKS, compression="zstd") as array:
        array[...] = values


def empty(folder: Path) -> None:
    """Make a folder, or remove all that it has: to free the memory of files takes time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def seconds(work: Operation) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alone(work: Operation) -> float:
    """Return the part of the processor time that only the calling thread can spend."""
    many = 16
    with xa.config.set(threads=many):
        caller, everybody = time.thread_time(), time.process_time()
        work()
        caller, everybody = time.thread_time() - caller, time.process_time() - everybody
    return max(0.0, (caller / everybody - 1 / many) / (1 - 1 / many))


def main(words: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=128, help="of the array")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", help="where the files go (default: a temporary one)")
    parser.add_argument("--only", default="", help="operations whose names have this word")
    given = parser.parse_args(words)
    plain = Plain(given.mib << 20)
    print("| | one thread, ms | two, ms | gain | plain copy's | share | alone |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder, ExitStack() as stack:
        for name, work in operations(Path(folder), given.mib, stack):
            if given.only not in name:
                continue
            times: dict[tuple[str, int], list[float]] = {}
            for _ in range(given.rounds):
                for threads in (1, 2):
                    empty(Path(folder, MADE))
                    with xa.config.set(threads=threads):
                        times.setdefault(("ours", threads), []).append(seconds(work))
                    took = seconds(partial(plain.copy, threads))
                    times.setdefault(("plain", threads), []).append(took)
            serial = 1.0
            for _ in range(given.rounds):
                empty(Path(folder, MADE))
                serial = min(serial, alone(work))
            least = {key: min(found) for key, found in times.items()}
            gain, most = (least[who, 1] / least[who, 2] for who in ("ours", "plain"))
            print(
                f"| {name} | {1e3 * least['ours', 1]:.1f} | {1e3 * least['ours', 2]:.1f} | "
                f"{gain:.2f} | {most:.2f} | {gain / most:.2f} | {serial:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
