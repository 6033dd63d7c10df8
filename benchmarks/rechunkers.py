"""One candidate of `benchmarks.rechunk`, in this process: job and result are JSON texts.

A separate program, so that it can run in an environment with other versions of the libraries.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import re
import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

#: Exit status if the candidate's libraries are missing, or it cannot do the job.
UNABLE = 77
BUFFER = 8 << 20
#: Repetitions of the job in a process; the least time counts.
RUNS = 2


class Rechunker(ABC):
    """A library, with its own source array."""

    #: Modules to load before timing, by their attribute names.
    modules: ClassVar[dict[str, str]]

    def __init__(self, job: dict[str, Any]) -> None:
        for name, module in self.modules.items():
            setattr(self, name, importlib.import_module(module))
        self.shape, self.source = tuple(job["shape"]), tuple(job["source"])
        self.target, self.axes = tuple(job["target"]), tuple(job["axes"])
        self.memory = job["memory"]
        self.folder = job["folder"]
        array = self.create()
        rows = max(self.source[0], 2**22 // int(np.prod(self.shape[1:])))
        for start in range(0, self.shape[0], rows):
            stop = min(start + rows, self.shape[0])
            array[start:stop] = self.values(start, stop)
        self.array = array

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def values(self, start: int, stop: int) -> np.ndarray:
        """Return rows of the source; all elements differ."""
        row = int(np.prod(self.shape[1:]))
        return np.arange(start * row, stop * row, dtype="f8").reshape(-1, *self.shape[1:])

    @abstractmethod
    def create(self) -> Any:
        """Create the empty source."""

    @abstractmethod
    def run(self) -> None:
        """Create the target."""

    def ways(self) -> list[Callable[[], object]]:
        """Return ways to create the target; the fastest counts."""
        return [self.run]

    def clear(self) -> None:
        """Remove everything but the source, so that the next run reuses the memory of this one.

        A virtual machine may have returned unused memory to its host; getting it back takes several
        times as long as writing to it.
        """
        for name in os.listdir(self.folder):
            if not name.startswith("source"):
                path = self.path(name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    @abstractmethod
    def result(self) -> Any:
        """Open the target."""

    def check(self) -> None:
        """Compare some planes of the target with the source."""
        target = self.result()
        steps = [int(np.prod(self.shape[j + 1 :])) for j in self.axes]
        first, *extents = (self.shape[j] for j in self.axes)
        rest = sum(i * n for i, n in zip(np.ix_(*map(np.arange, extents)), steps[1:], strict=True))
        for i in (0, first // 3, first - 1):
            np.testing.assert_array_equal(target[i], i * steps[0] + rest)


class ExtArray(Rechunker):
    modules: ClassVar[dict[str, str]] = {"xa": "extarray"}

    def create(self) -> Any:
        return self.xa.create(self.path("source"), self.shape, "f8", chunks=self.source)

    def run(self) -> None:
        options = {"axes": self.axes, "max_memory": self.memory, "progress": False}
        self.xa.rechunk(self.array, self.path("target"), chunks=self.target, **options).close()

    def result(self) -> Any:
        return self.xa.open(self.path("target"))


class PlainCopy(ExtArray):
    """The bytes of the source in another file."""

    def ways(self) -> list[Callable[[], object]]:
        return [partial(shutil.copyfile, self.path("source.xta"), self.path("copy")), self.run]

    def run(self) -> None:
        buffer = bytearray(BUFFER)
        source, target = self.path("source.xta"), self.path("copied")
        with open(source, "rb", buffering=0) as old, open(target, "wb", buffering=0) as new:
            while n := old.readinto(buffer):
                new.write(memoryview(buffer)[:n])

    def check(self) -> None:
        """Check nothing: there is no target."""


class Dask(Rechunker):
    modules: ClassVar[dict[str, str]] = {"zarr": "zarr", "dask": "dask.array"}

    def create(self) -> Any:
        return self.zarr.create_array(
            self.path("source"), shape=self.shape, chunks=self.source, dtype="f8", compressors=None
        )

    def run(self) -> None:
        shape = [self.shape[j] for j in self.axes]
        target = self.zarr.create_array(
            self.path("target"), shape=shape, chunks=self.target, dtype="f8", compressors=None
        )
        source = self.dask.from_zarr(self.path("source")).transpose(self.axes)
        self.dask.store(source.rechunk(self.target), target, lock=False)

    def result(self) -> Any:
        return self.zarr.open(self.path("target"), mode="r")


class Pangeo(Rechunker):
    """The package rechunker."""

    modules: ClassVar[dict[str, str]] = {"rechunker": "rechunker", "zarr": "zarr"}

    def create(self) -> Any:
        if self.axes != tuple(range(len(self.shape))):
            sys.exit(UNABLE)
        return self.zarr.open(
            self.path("source"),
            mode="w",
            shape=self.shape,
            chunks=self.source,
            dtype="f8",
            compressor=None,
        )

    def run(self) -> None:
        plan = self.rechunker.rechunk(
            self.array,
            target_chunks=self.target,
            max_mem=self.memory,
            target_store=self.path("target"),
            temp_store=self.path("between"),
            target_options={"compressor": None},
            temp_options={"compressor": None},
        )
        plan.execute()

    def result(self) -> Any:
        return self.zarr.open(self.path("target"), mode="r")


RECHUNKERS = {"plain copy": PlainCopy, "extarray": ExtArray, "dask": Dask, "rechunker": Pangeo}


class Watch:
    """The peak of anonymous memory until it stops, in bytes above the start."""

    def __init__(self) -> None:
        self.before = self.peak = self.anonymous()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def stop(self) -> int:
        self.done.set()
        self.thread.join()
        return self.peak - self.before

    def watch(self) -> None:
        while not self.done.wait(0.005):
            self.peak = max(self.peak, self.anonymous())

    @staticmethod
    def anonymous() -> int:
        try:
            with open("/proc/self/status") as status:
                return 1024 * int(re.search(r"RssAnon:\s+(\d+)", status.read())[1])
        except FileNotFoundError:
            return 0


def give_back() -> None:
    """Return free memory to the system: its reuse would go unseen."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


def main() -> None:
    job = json.loads(sys.argv[1])
    try:
        one = RECHUNKERS[job["candidate"]](job)
    except ImportError:
        sys.exit(UNABLE)
    outcomes = []
    os.sync()  # or the source's write-back would run meanwhile
    for run in RUNS * one.ways():
        one.clear()
        give_back()
        watch = Watch()
        start, busy = time.perf_counter(), time.process_time()
        run()
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        outcomes.append({"seconds": seconds, "busy": busy, "peak": watch.stop()})
    one.check()
    print(json.dumps(min(outcomes, key=itemgetter("seconds"))))


if __name__ == "__main__":
    main()
