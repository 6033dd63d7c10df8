"""``extarray view``: the server's time for a picture of a large array, and the bytes it reads.

``python -m benchmarks.suites.bench_view`` prints the table.  The arrays are sparse: they have 100
GB, and take the disk space of the written planes.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

import extarray as xa

#: Pixels along each side of the picture.
PIXELS = 2000
#: Milliseconds after which the page wants a picture, however coarse.
PATIENCE = 100


class Case(NamedTuple):
    """A plane of an array: the axes of its rows and columns, and the elements along each."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    rows: tuple[int, int]
    columns: tuple[int, int]
    is_written: bool = True


CUBE, SHEET = ((6000, 2048, 2048), (16, 128, 128)), ((160_000, 160_000), (512, 512))

CASES = {
    "a plane of a cube": Case(*CUBE, (1, PIXELS), (2, PIXELS)),
    "a plane of a cube, never written": Case(*CUBE, (1, PIXELS), (2, PIXELS), False),
    "a part of a sheet": Case(*SHEET, (0, PIXELS), (1, PIXELS)),
    "all of a sheet": Case(*SHEET, (0, SHEET[0][0]), (1, SHEET[0][1]), False),
    "a plane across the chunks of a cube": Case(*CUBE, (0, 1500), (1, PIXELS), False),
}


class Taken(NamedTuple):
    """Seconds until a picture arrives, and bytes that the server reads for a sharp one.

    `first` is for the first picture of a new server, which is coarse if a sharp one takes long;
    `again` is the least time for a neighbouring plane, and `sharp` the time for a sharp picture.
    `steps` are the elements per pixel in a sharp picture.
    """

    first: float
    again: float
    sharp: float
    nbytes: int
    steps: list[int]


def make(path: str, case: Case) -> None:
    """Make the float32 array of a case, with the planes to show."""
    options = {"sparse": True, "engine": "pread"}  # pages of a mapping would be held here
    with xa.create(path, case.shape, "f4", chunks=case.chunks, **options) as array:
        if case.is_written:
            for turn in range(4):
                box = [slice(place, place + 1) for place in place_of(case, turn)]
                for axis, n in (case.rows, case.columns):
                    box[axis] = slice(0, min(n, case.shape[axis]))
                shape = tuple(part.stop - part.start for part in box)
                array[tuple(box)] = np.random.default_rng(turn).random(shape, np.float32)


def place_of(case: Case, turn: int) -> list[int]:
    """Return the indices of the plane of a turn."""
    return [n // 2 + turn for n in case.shape]


@contextmanager
def served(path: str) -> Iterator[tuple[str, str, int]]:
    """Serve an array from another process: address, token, and the number of the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "extarray", "view", path, "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"(http://\S+/)#token=(\S+)", process.stdout.readline())
        assert found is not None
        yield found[1], found[2], process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def picture(
    address: str, token: str, case: Case, turn: int, **options: int
) -> tuple[float, list[int]]:
    """Ask for a picture as the page does; return seconds, and the step between its elements."""
    spans = {
        key: ",".join(map(str, (axis, 0, min(n, case.shape[axis]), PIXELS)))
        for key, (axis, n) in (("rows", case.rows), ("columns", case.columns))
    }
    at = ",".join(map(str, place_of(case, turn)))
    query = urllib.parse.urlencode({"name": "array", "at": at, "ms": PATIENCE, **spans, **options})
    request = urllib.request.Request(
        f"{address}api/plane?{query}", headers={"Authorization": f"Bearer {token}"}
    )
    begun = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        body = answer.read()
    taken = time.perf_counter() - begun
    (length,) = struct.unpack_from("<I", body)
    return taken, json.loads(body[4 : 4 + length])["steps"]


def read_by(process: int, name: str) -> int:
    """Return the bytes that a process has read, and the bytes of a file it has mapped (Linux)."""
    with open(f"/proc/{process}/io", encoding="utf-8") as lines:
        found = int(lines.readline().split()[1])
    is_of_file = False
    with open(f"/proc/{process}/smaps", encoding="utf-8") as lines:
        for line in lines:
            if re.match(r"[0-9a-f]+-", line):
                is_of_file = line.rstrip().endswith(name)
            elif is_of_file and line.startswith("Rss:"):
                found += int(line.split()[1]) << 10
    return found


def measure(case: Case, folder: str, turns: int = 12) -> Taken:
    """Measure a case in a folder, which has room for its planes."""
    path = os.path.join(folder, "array")
    make(path, case)
    with served(path) as (address, token, process):
        first, _ = picture(address, token, case, 0)
        before = read_by(process, "array.xta")
        _, steps = picture(address, token, case, 1, level=0)
        nbytes = read_by(process, "array.xta") - before
        again = [picture(address, token, case, n % 4)[0] for n in range(turns)]
        sharp = [picture(address, token, case, n % 4, level=0)[0] for n in range(turns)]
    return Taken(first, min(again), min(sharp), nbytes, steps)


def table(turns: int = 12) -> str:
    """Return the table, as Markdown."""
    rows = [
        f"| picture of {PIXELS} × {PIXELS} | bytes | every | first | again | sharp | read |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            taken = measure(case, folder, turns)
        size = f"{4e-9 * float(np.prod(case.shape, dtype=np.float64)):.0f} GB"
        times = " | ".join(f"{1e3 * each:.0f} ms" for each in taken[:3])
        steps = " × ".join(map(str, taken.steps))
        rows.append(f"| {name} | {size} | {steps} | {times} | {taken.nbytes >> 20} MiB |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
