"""Checksums: the cost of verifying chunks before reads, copies, and partial writes.

Other libraries have nothing like it.  ``python -m benchmarks.suites.bench_checksums`` prints the
table.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import extarray as xa
from extarray.format._crc import crc32c

#: Side of a cube of float32, and of its chunks.
SIDE, CHUNK = 320, 32
VERIFICATIONS = ("never", "write", "read")


@contextmanager
def stored(side: int = SIDE, chunk: int = CHUNK) -> Iterator[str]:
    """Yield the path of a cube with checksums, which is in the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        with xa.create(path, (side,) * 3, "f4", chunks=chunk, checksum=True) as array:
            for plane in range(side):
                array[plane] = plane
        yield path


def read(array: xa.ExtArray, out: np.ndarray) -> None:
    array.read(out=out)


def copy(array: xa.ExtArray, out: np.ndarray) -> None:
    array.copy()


def write_plane(array: xa.ExtArray, out: np.ndarray) -> None:
    array[:, :, 5] = 7  # a part of each chunk that it meets


def write_all(array: xa.ExtArray, out: np.ndarray) -> None:
    array[...] = out


#: The actions of a session, and whether each also runs once before, so that checksums are known.
ACTIONS: dict[str, tuple[Callable[[xa.ExtArray, np.ndarray], None], bool]] = {
    "read all": (read, False),
    "read all, again": (read, True),
    "copy to memory": (copy, False),
    "write a plane": (write_plane, False),
    "write a plane, again": (write_plane, True),
    "overwrite all": (write_all, False),
}


def seconds(path: str, action: str, verify: str, n: int = 5) -> float:
    """Return the least time of an action in a few sessions; closing is not counted."""
    act, is_second = ACTIONS[action]
    times = []
    for _ in range(n):
        with xa.open(path, "r+", verify=verify) as array:
            out = np.zeros(array.shape, "f4")
            if is_second:
                act(array, out)
            else:
                array.flush()
            start = time.perf_counter()
            act(array, out)
            times.append(time.perf_counter() - start)
    return min(times)


def element(path: str, verify: str, n: int = 20_000) -> float:
    """Return the seconds of a read of one element, when its chunk is known."""
    with xa.open(path, verify=verify) as array:
        places = np.random.default_rng(1).integers(0, array.shape[0], (n, 3)).tolist()
        keys = [tuple(place) for place in places]
        for key in keys:
            array[key]
        start = time.perf_counter()
        for key in keys:
            array[key]
        return (time.perf_counter() - start) / n


def speed(nbytes: int = 1 << 26) -> float:
    """Return the bytes of memory that one thread sums in a second."""
    data = np.ones(nbytes, np.uint8)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        crc32c(data)
        times.append(time.perf_counter() - start)
    return nbytes / min(times)


class Verifying:
    """asv: actions with each kind of verification."""

    params = (list(ACTIONS), list(VERIFICATIONS))
    param_names = ("action", "verify")
    side = SIDE

    def setup(self, action: str, verify: str) -> None:
        self.place = stored(self.side)
        self.path = self.place.__enter__()

    def teardown(self, action: str, verify: str) -> None:
        self.place.__exit__(None, None, None)

    def track_time(self, action: str, verify: str) -> float:
        """Return the milliseconds that an action takes."""
        return 1e3 * seconds(self.path, action, verify)


Verifying.track_time.unit = "ms"


def table(side: int = SIDE, chunk: int = CHUNK) -> str:
    """Return the table, as Markdown."""
    columns = " | ".join(f'`"{verify}"`' for verify in VERIFICATIONS)
    rows = [f"| {side}³ float32, chunks of {chunk}³ | {columns} |", "| --- | --- | --- | --- |"]
    with stored(side, chunk) as path:
        for action in ACTIONS:
            times = [seconds(path, action, verify) for verify in VERIFICATIONS]
            rows.append(f"| {action} | {' | '.join(f'{1e3 * t:.1f} ms' for t in times)} |")
        times = [element(path, verify) for verify in VERIFICATIONS]
        rows.append(f"| an element, again | {' | '.join(f'{1e9 * t:.0f} ns' for t in times)} |")
    rows.append("")
    rows.append(f"CRC-32C, one thread: {speed() / 1e9:.1f} GB/s")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
