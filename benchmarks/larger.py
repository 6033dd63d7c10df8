"""Work on data larger than memory, beside dask on zarr and loops over h5py.

``python -m benchmarks.larger`` runs each candidate in its own process, in a control group whose
memory, page cache included, is a third of the data.  It prints the seconds, the bytes that the disk
delivered, and how much of a file in use stays in memory meanwhile: one pass through data should not
push out pages that others need.  Creating the group needs root.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .apart import Missing, apart, load, markdown, versions
from .cold import Data, delivered, forget, open_hdf5, open_ours, write_hdf5, write_ours, write_zarr

PACKAGES = ("extarray", "numpy", "h5py", "zarr", "dask")
#: Size of the data over that of the memory.
TIMES = 3
#: Paths of control groups: version 2, or the memory controller of version 1.
GROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
)


# -- memory ----------------------------------------------------------------------------------------


@contextmanager
def group(limit: int) -> Iterator[Path]:
    """Make a control group whose processes have `limit` bytes of memory; yield its folder."""
    for root, name in GROUPS:
        folder = root / f"extarray-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / name).exists():  # this hierarchy controls memory
                (folder / name).write_text(str(limit))
                yield folder
                return
        finally:
            folder.rmdir()
    raise SystemExit("no control group can be made: run this as root, where the system has them")


def resident(path: str) -> int:
    """Return the bytes of a file that are in memory."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as pages:
        seen = (ctypes.c_ubyte * -(-len(pages) // mmap.PAGESIZE))()
        start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        if ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(pages)), seen):
            raise OSError("mincore failed")
        return sum(page & 1 for page in seen) * mmap.PAGESIZE


# -- the work --------------------------------------------------------------------------------------


def sum_ours(data: Data, path: str, made: str) -> float:
    with open_ours(path) as a:
        return float(a.sum())


def sum_hdf5(data: Data, path: str, made: str) -> float:
    with open_hdf5(path) as a:
        return sum(float(a[i : i + data.chunk].sum()) for i in range(0, data.side, data.chunk))


def sum_dask(data: Data, path: str, made: str) -> float:
    return float(_dask(path).sum().compute())


def planes_ours(data: Data, path: str, made: str) -> float:
    with open_ours(path) as a:
        return sum(float(a[:, :, k].sum()) for k in _places(data))


def planes_hdf5(data: Data, path: str, made: str) -> float:
    with open_hdf5(path) as a:
        return sum(float(a[:, :, k].sum()) for k in _places(data))


def planes_dask(data: Data, path: str, made: str) -> float:
    a = _dask(path)
    return sum(float(a[:, :, k].sum().compute()) for k in _places(data))


def median_ours(data: Data, path: str, made: str) -> float:
    with open_ours(path) as a:
        return float(np.asarray(np.median(a, axis=0)).sum())


def median_hdf5(data: Data, path: str, made: str) -> float:
    found = 0.0
    with open_hdf5(path) as a:
        for i in range(0, data.side, data.chunk):
            for j in range(0, data.side, data.chunk):
                part = a[:, i : i + data.chunk, j : j + data.chunk]
                found += float(np.median(part, axis=0).sum())
    return found


def median_dask(data: Data, path: str, made: str) -> float:
    import dask.array as da

    a = _dask(path).rechunk((data.side, data.chunk, data.chunk))
    return float(da.median(a, axis=0).sum().compute())


def rechunk_ours(data: Data, path: str, made: str) -> float:
    import extarray as xa

    with open_ours(path) as a, xa.rechunk(a, made, chunks=_pencils(data), progress=False) as b:
        return float(b[0, 0, 0])


def rechunk_hdf5(data: Data, path: str, made: str) -> float:
    import h5py

    c, n = data.chunk, data.side
    with open_hdf5(path) as a, h5py.File(made, "w", libver="latest") as file:
        b = file.create_dataset("a", data.shape, np.float64, chunks=_pencils(data))
        for i in range(0, n, c):
            for j in range(0, n, c):
                b[i : i + c, j : j + c] = a[i : i + c, j : j + c]
        return float(b[0, 0, 0])


def rechunk_dask(data: Data, path: str, made: str) -> float:
    import zarr

    _dask(path).rechunk(_pencils(data)).to_zarr(made, compressors=None)
    return float(zarr.open_array(made, mode="r")[0, 0, 0])


def _dask(path: str) -> Any:
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=os.cpu_count())
    return da.from_zarr(path)


def _places(data: Data) -> list[int]:
    return [k * data.side // 16 for k in range(16)]


def _pencils(data: Data) -> tuple[int, int, int]:
    """Return chunks with as many bytes that are long along the last axis."""
    c = data.chunk
    return (c // 4, c // 4, min(data.side, 16 * c))


@dataclass(frozen=True)
class Candidate:
    """A library's ways to write the cube and to work on it."""

    write: Callable[[Data, str], None]
    work: dict[str, Callable[[Data, str, str], float]]


WORK = ("sum", "median along axis 0", "16 planes across axis 2", "rechunk")
CANDIDATES = {
    "extarray": Candidate(
        write_ours,
        dict(zip(WORK, (sum_ours, median_ours, planes_ours, rechunk_ours), strict=True)),
    ),
    "h5py": Candidate(
        write_hdf5,
        dict(zip(WORK, (sum_hdf5, median_hdf5, planes_hdf5, rechunk_hdf5), strict=True)),
    ),
    "dask on zarr": Candidate(
        write_zarr,
        dict(zip(WORK, (sum_dask, median_dask, planes_dask, rechunk_dask), strict=True)),
    ),
}


@dataclass(frozen=True)
class Result:
    """The cost of a candidate's work, and its result."""

    seconds: float
    delivered: int
    kept: float  # share of the file in use that stayed in memory
    value: float


def written(name: str, data: Data) -> bool:
    CANDIDATES[name].write(data, path_of(name, data))
    return True


def measured(name: str, data: Data, work: str, cgroup: str, used: str) -> Result:
    """Work in a control group, beside a file in use; nothing else is in the cache."""
    call = CANDIDATES[name].work[work]
    with tempfile.TemporaryDirectory(dir=data.folder) as made:
        forget(data.folder, data.own)
        (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(3):
            Path(used).read_bytes()
        before, start = delivered(), time.perf_counter()
        value = call(data, path_of(name, data), os.path.join(made, "new"))
        seconds = time.perf_counter() - start
        return Result(seconds, delivered() - before, resident(used) / os.path.getsize(used), value)


def path_of(name: str, data: Data) -> str:
    return os.path.join(data.folder, name.replace(" ", "-"))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.larger")
    parser.add_argument("--memory", type=int, default=2048, help="MiB of the group")
    parser.add_argument("--chunk", type=int, default=64, help="elements along each axis of a chunk")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--only", nargs="+", help="candidates whose names have one of these")
    parser.add_argument("--work", nargs="+", help="work whose name has one of these")
    parser.add_argument("--folder", help="where the files go: on a disk, and not in memory")
    options = parser.parse_args(arguments)
    side = round((TIMES * (options.memory << 20) / 8) ** (1 / 3) / options.chunk) * options.chunk
    chosen = [n for n in CANDIDATES if not options.only or any(s in n for s in options.only)]
    works = [w for w in WORK if not options.work or any(s in w for s in options.work)]
    absent: dict[str, str] = {}
    found: dict[str, dict[str, list[Result]]] = {work: {} for work in works}
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        group(options.memory << 20) as cgroup,
    ):
        needed = 8 * side**3 * 3 // 2  # the data, and the result of rechunk, finished or not
        if shutil.disk_usage(folder).free < 2 * needed:
            raise SystemExit(f"{2 * needed >> 20} MiB of disk are needed in {folder}")
        data = Data(side, options.chunk, folder, own=True)
        used = os.path.join(folder, "used")
        Path(used).write_bytes(bytes(options.memory << 18))
        for name in chosen:
            print(f"{name}: writes {8 * side**3 >> 20} MiB", flush=True)
            if isinstance(outcome := apart(written, name, data), Missing):
                absent[name] = outcome.text
                continue
            for work in works:
                for _ in range(options.rounds):
                    outcome = apart(measured, name, data, work, str(cgroup), used)
                    if isinstance(outcome, Missing):
                        absent[f"{name}, {work}"] = outcome.text
                        break
                    found[work].setdefault(name, []).append(outcome)
            path = path_of(name, data)
            for place in (path, path + ".xmd", path + ".xta"):
                shutil.rmtree(place) if os.path.isdir(place) else Path(place).unlink(True)
    print(
        f"\n{side}³ float64 in chunks of {options.chunk}³, {8 * side**3 >> 20} MiB, in "
        f"{options.memory} MiB of memory; {load()}; {versions(*PACKAGES)}\n"
    )
    for work, results in found.items():
        values = [r.value for some in results.values() for r in some]
        if values and not np.allclose(values, values[0], rtol=1e-9):
            absent[work] = f"the candidates do not agree: {sorted(set(values))}"
    head = ["", *(name for name in chosen if name not in absent)]
    for title, show in (
        ("Seconds", lambda r: f"{middle(r, 'seconds'):.2f}"),
        ("MiB delivered", lambda r: f"{middle(r, 'delivered') / 2**20:.0f}"),
        ("Share of the file in use that stays", lambda r: f"{middle(r, 'kept'):.2f}"),
    ):
        rows = [
            [work, *(show(some[n]) if n in some else "–" for n in head[1:])]
            for work, some in found.items()
        ]
        print(f"{title}:\n\n{markdown(head, rows)}\n")
    for name, text in absent.items():
        print(f"- {name}: {text}")


def middle(results: list[Result], name: str) -> float:
    return float(np.median([getattr(result, name) for result in results]))


if __name__ == "__main__":
    main()
