"""A camera for minutes: frames come at a share of the disk's speed; which appends are late?

``python -m benchmarks.paced --minutes 3 --pace 0.8`` measures how fast the disk takes data in the
long run, then lets each candidate append frames at 0.8 of that speed, one at a time.  It prints
percentiles of the time of an append, how far the recorder fell behind the camera, the most dirty
memory of the machine, and how long it took to bring everything to the disk afterwards.

A candidate writes at most ``--gib``, which ends a run early on a fast disk.  On a disk of its own,
root can have it slower, and slower still for a while (cgroup v1)::

    truncate -s 10G disk.img; mkfs.ext4 disk.img; mount -o loop disk.img /mnt/disk
    python -m benchmarks.paced --folder /mnt/disk --speed 200 --pause 13 20 5 \\
        --limit /sys/fs/cgroup/blkio/blkio.throttle.write_bps_device
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import acquisition
from .acquisition import FRAME, SHAPES, Job, Plain, Sink, ours
from .apart import Missing, apart, load, markdown, versions

MIB = 1 << 20
#: Bytes with which the disk's speed is measured, a few times.
SAMPLE, SAMPLES = 512 * MIB, 3
#: Seconds between two rounds of writing back, as in extarray.
PERIOD = 0.2
#: The flag of sync_file_range(2) that begins to write dirty pages.
WRITE = 2


@dataclass(frozen=True)
class Disk:
    """A disk that may be slowed down through a file of a cgroup.

    `speed` and `paused_speed` are in MiB/s; the pause begins after `start` seconds and takes
    `seconds`.
    """

    speed: float
    limit: str | None = None
    start: float = 0
    seconds: float = 0
    paused_speed: float = 0

    def set_speed(self, folder: str, speed: float) -> None:
        """Limit the speed; 0 lifts the limit."""
        if self.limit is not None:
            device = os.stat(folder).st_dev
            text = f"{os.major(device)}:{os.minor(device)} {round(speed * MIB)}"
            Path(self.limit).write_text(text)

    def pause(self, folder: str, is_over: threading.Event) -> None:
        """Be slow for a while."""
        if not is_over.wait(self.start):
            self.set_speed(folder, self.paused_speed)
            is_over.wait(self.seconds)
            self.set_speed(folder, self.speed)


@dataclass(frozen=True)
class Paced:
    """Seconds of each append; the most by which one ended late; then bytes and seconds of the end.

    `dirty` is the most memory that waited for disks, in bytes; `rest` the seconds from the last
    append until everything is on the disk.
    """

    appends: np.ndarray
    late: float
    dirty: int
    rest: float

    def at(self, percent: float) -> str:
        """Return a percentile, in milliseconds."""
        return f"{np.percentile(self.appends, percent) * 1e3:.1f}"


class WrittenBack(Plain):
    """pwrite to a plain file, which another thread writes back all the time."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.write = ctypes.CDLL(None).sync_file_range
        self.write.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.write_back)
        self.thread.start()

    def write_back(self) -> None:
        while not self.is_over.wait(PERIOD):
            self.write(self.fd, 0, 0, WRITE)

    def close(self) -> None:
        self.is_over.set()
        self.thread.join()
        super().close()


class HDF5Frames(acquisition.HDF5):
    """h5py with one chunk per frame."""

    @property
    def grid(self) -> tuple[int, int, int]:
        return (1, *self.job.frame)


SINKS: dict[str, Callable[[Job], Sink]] = {
    "pwrite to a plain file": Plain,
    "pwrite, written back": WrittenBack,
    "extarray": ours(),
    "extarray, steady": ours(durability="steady"),
    "extarray, a chunk a frame": ours(FRAME),
    "extarray, a chunk a frame, steady": ours(FRAME, durability="steady"),
    "extarray, pread": ours(engine="pread"),
    "extarray, pread, steady": ours(engine="pread", durability="steady"),
    "h5py": acquisition.HDF5,
    "h5py, a chunk a frame": HDF5Frames,
    "acquire-zarr": acquisition.AcquireZarr,
}


def measure(folder: str) -> float:
    """Return the MiB that the disk takes in a second."""
    block, path, found = np.random.default_rng(0).bytes(8 * MIB), os.path.join(folder, "speed"), []
    for _ in range(SAMPLES):
        with open(path, "wb", buffering=0) as file:
            begun = time.perf_counter()
            for _ in range(0, SAMPLE, len(block)):
                file.write(block)
            os.fsync(file.fileno())
            found.append(SAMPLE / MIB / (time.perf_counter() - begun))
        os.remove(path)
    return statistics.median(found)


def dirty_bytes() -> int:
    """Return the bytes of memory that wait for disks; 0 where the system does not say."""
    if not os.path.exists("/proc/meminfo"):
        return 0
    found = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(found[name].split()[0]) << 10 for name in ("Dirty", "Writeback"))


def record(name: str, job: Job, rate: float, disk: Disk) -> Paced:
    """Append the frames of a job at a rate, in MiB/s."""
    os.makedirs(job.folder)
    frames = job.frames()
    sink = SINKS[name](job)
    is_over, dirty = threading.Event(), [0]

    def watch() -> None:
        while not is_over.wait(0.25):
            dirty[0] = max(dirty[0], dirty_bytes())

    threads = [threading.Thread(target=watch)]
    if disk.seconds:
        threads.append(threading.Thread(target=disk.pause, args=(job.folder, is_over)))
    for thread in threads:
        thread.start()
    period = job.nbytes / job.n / MIB / rate
    appends, late = np.empty(job.n), 0.0
    clock = time.perf_counter
    try:
        begun = clock()
        for i in range(job.n):
            due = begun + i * period
            if (now := clock()) < due:
                time.sleep(due - now)
            start = clock()
            sink.append(i, frames[i % len(frames)])
            end = clock()
            appends[i] = end - start
            late = max(late, end - due)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    end = clock()
    sink.close()
    for place, _, names in os.walk(job.folder):
        for one in names:
            fd = os.open(os.path.join(place, one), os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
    result = Paced(appends, late, dirty[0], clock() - end)
    for i in (0, job.n // 2, job.n - 1):
        if not np.array_equal(sink.read(i), frames[i % len(frames)]):
            raise AssertionError(f"frame {i} is not what was written")
    return result


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.paced")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--pace", type=float, default=0.8, help="share of the disk's speed")
    parser.add_argument("--speed", type=float, help="MiB/s of the disk, if it is known or limited")
    parser.add_argument("--gib", type=float, default=6, help="most that a candidate writes")
    parser.add_argument("--mib", type=int, choices=SHAPES, default=2, help="size of a frame")
    parser.add_argument("--limit", help="a cgroup's blkio.throttle.write_bps_device, for --speed")
    parser.add_argument(
        "--pause", type=float, nargs=3, default=[0, 0, 0], metavar=("AFTER", "SECONDS", "MIB"),
        help="be slower for a while, with --limit",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=SINKS, default=[*SINKS])
    parser.add_argument("--folder", help="where the files go; a fresh one in the temporary folder")
    parser.add_argument("--json", help="write all latencies, in seconds, to this file")
    options = parser.parse_args(arguments)
    folder = tempfile.mkdtemp(dir=options.folder)
    found: dict[str, list[Paced | Missing]] = {name: [] for name in options.only}
    disk = Disk(options.speed or measure(folder), options.limit, *options.pause)
    rate = disk.speed * options.pace
    seconds = min(options.minutes * 60, options.gib * 1024 / rate)
    frame = SHAPES[options.mib]
    job = Job(max(1, int(seconds * rate / options.mib)), frame, os.path.join(folder, "job"))
    print(f"{load()}; {versions('extarray', 'numpy', 'h5py', 'zarr', 'acquire-zarr')}\n")
    try:
        disk.set_speed(folder, disk.speed)
        for _ in range(options.rounds):
            for name in options.only:
                patience = 600 + 4 * seconds
                one = apart(record, name, job, rate, disk, patience=patience)
                found[name].append(one)
                shutil.rmtree(job.folder, ignore_errors=True)
    finally:
        disk.set_speed(folder, 0)
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{job.n} frames of {frame} uint16 in {seconds:.0f} s, {rate:.0f} MiB/s: {options.pace:g} "
        f"of the disk's {disk.speed:.0f} MiB/s\n\n{report(found)}"
    )
    if options.json:
        stored = {
            name: [vars(r) if isinstance(r, Missing) else r.appends.tolist() for r in rounds]
            for name, rounds in found.items()
        }
        Path(options.json).write_text(json.dumps(stored))


def report(found: dict[str, list[Paced | Missing]]) -> str:
    """Return a table: a row for each round of each candidate."""
    head = ["", "median ms", "99 %", "99.9 %", "longest", "late by ms", "dirty MiB", "to the disk"]
    rows = []
    for name, rounds in found.items():
        for one in rounds:
            if isinstance(one, Missing):
                rows.append([name, one.text, *[""] * 6])
                continue
            figures = [one.at(percent) for percent in (50, 99, 99.9, 100)]
            rest = f"{one.late * 1e3:.0f}", f"{one.dirty / MIB:.0f}", f"{one.rest:.1f} s"
            rows.append([name, *figures, *rest])
    return markdown(head, rows)


if __name__ == "__main__":
    main()
