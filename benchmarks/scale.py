"""Scale: histories of up to 10⁶ segments, and the shares of 10⁴ ranks in 10⁸ chunks.

``python -m benchmarks.scale`` prints the tables of docs/explanation/scale.md.  Ranks are few and
real where messages and requests are counted, and 10⁴ and simulated where zones are planned, by the
same code.  Arrays are sparse and hold one byte a chunk, so they take little of the disk.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa

from .apart import Missing, apart, load, markdown, versions

SEGMENTS = [10**3, 10**4, 10**5, 10**6]
RANKS = [2, 4]
SIDE = 16  # of boxes, in chunks
#: Ranks whose zones are planned, of which so many are looked at.
MANY_RANKS, SAMPLED = 10**4, 40
CHUNK_BYTES = 1 << 20
RUNS = [10**3, 10**4, 10**5, 10**6]
PROGRAM = Path(__file__).resolve().parent / "ranks" / "calls.py"
MARK = "/between-calls-"


def least(function: Callable[[], object], rounds: int = 15) -> float:
    """Return the least processor time of several calls, in seconds; others may use the machine."""
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        function()
        found.append(time.thread_time() - start)
    return min(found)


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# -- histories -----------------------------------------------------------------------------------

#: Ways to make each growth begin a segment: the first grid, and the sides that grow in turn.
WAYS = {
    "two axes in turn": ((1, 1), [(0, "end"), (1, "end")]),
    "both sides of an axis in turn": ((1, 100), [(0, "start"), (0, "end")]),
}


def written(way: str, segments: int, path: str, **options: Any) -> None:
    """Make an array with a history."""
    grid, sides = WAYS[way]
    options |= {"chunks": 1, "sparse": True, "growth": "exact"}
    with xa.create(path, grid, "u1", **options) as array:
        array.extend(*(sides[0][0], 1, sides[0][1]))
        while array.axial.segments < segments:
            for axis, side in sides:
                array.extend(axis, 1, side)


def history(path: str, folder: str) -> dict[str, float]:
    """Measure an array with a history, in a process of its own."""
    with xa.create(os.path.join(folder, "small"), (2, 2), "u1", chunks=1, overwrite=True) as small:
        small[0, 0]  # loads modules
    before = resident()
    array = xa.open(path)
    held = resident() - before
    axial = array.axial
    rng = np.random.default_rng(1)
    chunks = rng.integers(0, axial.grid, (10**5, 2))
    addresses = axial.addresses(chunks)
    if (axial.indices(addresses) != chunks).any():
        raise AssertionError("the inverse differs")
    some = [tuple(chunk) for chunk in chunks[:1000].tolist()]
    corners = rng.integers(0, [n - SIDE + 1 for n in axial.grid], (20, 2))
    boxes = [tuple(slice(i, i + SIDE) for i in corner) for corner in corners.tolist()]
    found = {
        "segments": axial.segments,
        "chunks": axial.size,
        "log": os.path.getsize(f"{path}.xmd"),
        "held": held,
        "F*": least(lambda: axial.addresses(chunks)) / len(chunks),
        "inverse": least(lambda: axial.indices(addresses)) / len(chunks),
        "element": least(lambda: [array[chunk] for chunk in some]) / len(some),
        "box": least(lambda: [array[box] for box in boxes]) / len(boxes),
    }
    array.close()
    found["open"] = least(lambda: xa.open(path).close())
    return found


def table_of_histories(segments: list[int], folder: str) -> dict[str, Any]:
    """Print what a history costs one process."""
    found: dict[str, Any] = {}
    for way in WAYS:
        rows = []
        for n in segments:
            path = os.path.join(folder, "history")
            written(way, n, path)
            one = apart(history, path, folder)
            remove(path)
            if isinstance(one, Missing):
                raise RuntimeError(one.text)
            found[f"{way}, {n}"] = one
            number = one["segments"]
            rows.append(
                [
                    f"{number:,}",
                    f"{one['chunks']:.2g}",
                    f"{one['log'] / 1e6:.2f}",
                    f"{1e3 * one['open']:.2f}",
                    f"{1e9 * one['open'] / number:.0f}",
                    f"{one['held'] / 1e6:.1f}",
                    *(f"{1e9 * one[name]:.0f}" for name in ("F*", "inverse", "element")),
                    f"{1e6 * one['box']:.1f}",
                ]
            )
        print(f"\n{way[0].upper()}{way[1:]}\n")
        head = ["segments", "chunks", ".xmd, MB", "open, ms", "ns a segment", "memory, MB"]
        head += ["F*, ns", "inverse, ns", "an element, ns", "a box, µs"]
        print(markdown(head, rows), flush=True)
    return found


def remove(path: str) -> None:
    for suffix in ("xmd", "xta"):
        with suppress(FileNotFoundError):
            os.remove(f"{path}.{suffix}")


# -- messages ------------------------------------------------------------------------------------


def ran(ranks: int, folder: str, path: str, trace: bool = False) -> dict[str, Any] | Missing:
    """Run the program of several ranks on an array, and return its figures."""
    launcher = Path(sysconfig.get_path("scripts"), "mpiexec")
    if not launcher.exists():
        return Missing("mpiexec is not installed beside Python")
    results = os.path.join(folder, "results.json")
    program = [sys.executable, "-m", "mpi4py", os.fspath(PROGRAM), path, results]
    if trace:
        watch = "exec strace -f -y -e trace=%file,%desc,fcntl -o"
        program = ["sh", "-c", f'{watch} "$0/trace-$PMI_RANK" "$@"', folder, *program]
    # MPICH takes the ranks for those of several hosts: they share no memory, and use MPI-IO.
    environment = {**os.environ, "MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    done = subprocess.run(
        [launcher, "-n", str(ranks), *program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        return Missing((done.stdout + done.stderr).strip().splitlines()[-1])
    return json.loads(Path(results).read_text())  # type: ignore[no-any-return]


CALLS = ("open", "extend", "append_zone", "close")


def told(call: dict[str, float] | None) -> str:
    """Return the number of messages, and their bytes, of a call that was made or left out."""
    return "–" if call is None else f"{call['calls']:.0f}; {call['bytes']:,.0f}"


def table_of_messages(segments: list[int], ranks: list[int], folder: str) -> dict[str, Any]:
    """Print the messages that open and grow an array with a history."""
    found, rows = {}, []
    for n in segments:
        path = os.path.join(folder, "shared")
        written("two axes in turn", n, path)
        for size in ranks:
            one = ran(size, folder, path)
            if isinstance(one, Missing):
                print(f"\nNo ranks: {one.text}")
                return {}
            found[f"{n}, {size}"] = one
            calls, (first, *others) = one["calls"], one["memory"]
            rows.append(
                [
                    f"{one['segments']:,}",
                    str(size),
                    *(told(calls.get(name)) for name in CALLS),
                    "; ".join(f"{nbytes / 1e6:.1f}" for nbytes in first),
                    "; ".join(f"{max(some) / 1e6:.1f}" for some in zip(*others, strict=True)),
                ]
            )
        remove(path)
    print("\nMessages of rank 0\n")
    head = ["segments", "ranks", *(f"{name}: calls; bytes" for name in CALLS)]
    head += ["memory of rank 0, MB: held; most", "of another rank"]
    print(markdown(head, rows), flush=True)
    return found


# -- requests ------------------------------------------------------------------------------------

#: System calls that file systems answer, by what they ask of the servers.
KINDS = {
    "names": "open openat stat lstat newfstatat access faccessat faccessat2 readlink readlinkat "
    "statfs rename renameat2 unlink unlinkat",
    "closes": "close",
    "attributes, locks": "fstat fstatfs fcntl ioctl flock lseek ftruncate fallocate",
    "data": "pread64 pwrite64 preadv pwritev read write",
    "syncs": "fsync fdatasync",
}
_KIND_OF = {call: kind for kind, calls in KINDS.items() for call in calls.split()}
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(")


def requests(lines: Iterator[str], name: str) -> tuple[int, dict[str, Counter[str]]]:
    """Count the requests of a trace: those for names before the first mark, and by call and kind.

    After the first mark only files whose path contains `name` count.
    """
    found: dict[str, Counter[str]] = {}
    start, here = 0, None
    for line in lines:
        match = _CALL.match(line)
        if match is None:
            continue
        call = match[1]
        if MARK in line:
            here = found.setdefault(line.split(MARK)[1].split('"')[0], Counter())
            continue
        kind = _KIND_OF.get(call)
        if kind == "names" and "AT_EMPTY_PATH" in line:
            kind = "attributes, locks"
        if here is None:
            start += kind == "names"
        elif kind is not None and name in line and "F_DUPFD" not in line:
            here[kind] += 1
    return start, found


def table_of_requests(folder: str) -> dict[str, Any]:
    """Print the requests of ranks to the file system."""
    if shutil.which("strace") is None:
        print("\nNo requests: strace is not installed")
        return {}
    rows, found = [], {}
    for checksum in (False, True):
        path = os.path.join(folder, f"traced-{checksum}")
        written("two axes in turn", 200, path, checksum=checksum)
        one = ran(3, folder, path, trace=True)
        if isinstance(one, Missing):
            print(f"\nNo requests: {one.text}")
            return {}
        counted = []
        for rank in (0, 2):
            with open(os.path.join(folder, f"trace-{rank}"), errors="replace") as lines:
                counted.append(requests(lines, f"/traced-{checksum}.x"))
        (_, first), (start, other) = counted
        found[str(checksum)] = {"start": start, "first": first, "other": other}
        for call in ["append_zone", "flush"] if checksum else one["calls"]:
            pairs = [(first[call][kind], other[call][kind]) for kind in KINDS]
            name = f"{call}, with checksums" if checksum else call
            rows.append([name, *(f"{a}; {b}" for a, b in pairs)])
    print("\nRequests of rank 0; of another rank\n")
    print(markdown(["call", *KINDS], rows))
    print(f"\nBefore the first call Python looks up {start:,} names on each rank.", flush=True)
    return found


# -- views ---------------------------------------------------------------------------------------


def growing(grid: tuple[int, ...], sides: list[tuple[int, str]], chunks: int) -> Any:
    """Return axial vectors that grow by one chunk in turn until they have so many chunks."""
    from extarray._core._axial import Axial

    axial = Axial(grid)
    while axial.size < chunks:
        for axis, side in sides:
            axial.grow(axis, 1, side)
    return axial


def shares(chunks: int) -> dict[str, Any]:
    """Return histories that lead to about so many chunks."""
    side = round(chunks ** (1 / 3))
    ends = [(axis, "end") for axis in range(3)]
    across = min(100, side)
    return {
        "a cube, made at once": growing((side,) * 3, ends, 0),
        "a cube, its axes in turn": growing((4, 4, 4), ends, chunks),
        "a square, its axes in turn": growing((1, 1), ends[:2], chunks),
        "a band, both its sides in turn": growing((1, across), [(0, "start"), (0, "end")], chunks),
    }


def planned(axial: Any, zones: Any, rank: int) -> tuple[int, int, int]:
    """Plan the read of a rank's zone; return its chunks, its runs, and the most runs of a view."""
    from extarray.mpi.file_parts import FileLayout, box_jobs
    from extarray.mpi.file_views import Rounds

    ndim = axial.ndim
    layout = FileLayout(axial, (1,) * ndim, (0,) * ndim, "C", CHUNK_BYTES, 1 << 24)
    ranges = [[range(some[0].start, some[0].stop)] for some in zones.ranges(rank)]
    # An element stands for a chunk; its memory is reserved, and never touched.
    values = np.empty([len(some[0]) for some in ranges], f"V{CHUNK_BYTES}")
    runs = []
    for job in box_jobs(layout, ranges, values, False):
        rounds = Rounds(job, layout.stage)
        runs += [len(rounds.runs(edges)[0]) for edges in rounds.views]
    return values.size, sum(runs), max(runs, default=0)


def table_of_views(chunks: int, ranks: int) -> dict[str, Any]:
    """Print the file views of the zones of many ranks."""
    from extarray.mpi.zones import Distribution, Zones

    found, rows = {}, []
    for name, axial in shares(chunks).items():
        ndim = axial.ndim
        start = time.thread_time()
        block = Distribution.of("block", 1, None, ndim, ranks)
        zones = Zones(block, (0,) * ndim, axial.grid, (0,) * ndim, (1,) * ndim, ranks)
        cutting = time.thread_time() - start
        cells = sum(
            math.prod(some[0].stop - some[0].start for some in zones.ranges(rank))
            for rank in range(ranks)
        )
        if cells != axial.size:
            raise AssertionError(f"zones have {cells} of {axial.size} chunks")
        each, seconds = [], []
        for rank in np.linspace(0, ranks - 1, min(ranks, SAMPLED)).astype(int).tolist():
            start = time.thread_time()
            each.append(planned(axial, zones, rank))
            seconds.append(time.thread_time() - start)
        runs = [n for _, n, _ in each]
        found[name] = {"segments": axial.segments, "chunks": axial.size, "each": each}
        rows.append(
            [
                name,
                f"{axial.segments:,}",
                f"{axial.size:.3g}",
                " × ".join(map(str, zones.process_grid)),
                f"{statistics.median(n for n, _, _ in each):,.0f}",
                f"{min(runs):,} / {statistics.median(runs):,.0f} / {max(runs):,}",
                f"{max(most for _, _, most in each):,}",
                f"{1e3 * cutting:.1f}",
                f"{1e3 * statistics.median(seconds):.1f}",
            ]
        )
    print(f"\nZones of {ranks:,} ranks, chunks of {CHUNK_BYTES >> 20} MiB\n")
    head = ["history", "segments", "chunks", "process grid", "chunks a rank"]
    head += ["runs a rank, least / median / most", "most runs of a view"]
    print(markdown([*head, "cutting, ms", "planning a rank, ms"], rows), flush=True)
    return found


def view(runs: int, path: str) -> tuple[float, float]:
    """Return the seconds and the bytes that a file view of so many runs takes."""
    from mpi4py import MPI

    lengths, places = [1] * runs, list(range(0, 3 * runs, 3))
    file = MPI.File.Open(MPI.COMM_SELF, path, MPI.MODE_RDWR | MPI.MODE_CREATE)
    before, start = resident(), time.thread_time()
    kind = MPI.BYTE.Create_hindexed(lengths, places).Commit()
    file.Set_view(0, MPI.BYTE, kind)
    seconds = time.thread_time() - start
    taken = resident() - before
    kind.Free()
    file.Close()
    return seconds, taken


def table_of_types(runs: list[int], folder: str) -> dict[str, Any]:
    """Print what MPI takes for a file view."""
    path, found, rows = os.path.join(folder, "view"), {}, []
    for n in runs:
        one = apart(view, n, path)
        if isinstance(one, Missing):
            print(f"\nNo views: {one.text}")
            return {}
        found[str(n)] = one
        rows.append([f"{n:,}", f"{1e3 * one[0]:.2f}", f"{one[1] / n:.0f}"])
    print("\nA file view in MPI\n")
    print(markdown(["runs", "ms", "bytes a run"], rows), flush=True)
    return found


# -- the program ---------------------------------------------------------------------------------

PARTS = ("histories", "messages", "requests", "views")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.scale")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--segments", type=float, default=1e6, help="of the longest history")
    parser.add_argument("--chunks", type=float, default=1e8, help="that ranks share")
    parser.add_argument("--many", type=int, default=MANY_RANKS, help="ranks that share chunks")
    parser.add_argument(
        "--ranks", type=int, nargs="+", default=RANKS, help="that exchange messages"
    )
    parser.add_argument("--folder", help="for files, which are removed in the end")
    parser.add_argument("--json", help="file for the figures")
    chosen = parser.parse_args(arguments)
    segments = [n for n in SEGMENTS if n <= chosen.segments] or [int(chosen.segments)]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        print(f"{versions('extarray', 'numpy', 'mpi4py', 'mpich')}; {load()}")
        if "histories" in chosen.only:
            found["histories"] = table_of_histories(segments, folder)
        if "messages" in chosen.only:
            found["messages"] = table_of_messages(segments, chosen.ranks, folder)
        if "requests" in chosen.only:
            found["requests"] = table_of_requests(folder)
        if "views" in chosen.only:
            found["views"] = table_of_views(int(chosen.chunks), chosen.many)
            found["types"] = table_of_types(RUNS, folder)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
