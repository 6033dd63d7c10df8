"""Reads over HTTP: requests, megabytes and seconds, beside other formats.

``python -m benchmarks.remote`` sends files from a local server that waits before each answer, and
counts; then from one whose line passes on a limited number of bytes a second, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .apart import Missing, apart, load, markdown, versions
from .remote_peers import FORMATS, HILBERT, MORTON, OURS, RIVALS, SHARDS, ZARR, Data
from .timing import Failure, Worker
from .web import Line, Web

PACKAGES = (
    "extarray", "numpy", "obstore", "zarr", "icechunk", "kerchunk", "h5py", "fsspec", "rasterio"
)  # fmt: skip
#: Grid, and chunks, of small data, which are read in a moment.
QUICK = {"chunks": (4, 5, 6), "grid": (6, 5, 3), "start": (2, 2, 1), "shard": (2, 2, 3)}

OPEN, ELEMENT, BOX, BOXES, SERIES, ALL, AGAIN = (
    "open", "an element", "a box of 16³", "5 boxes of 32³", "a series along axis 0", "everything",
    "5 boxes, again",
)  # fmt: skip

# Most bytes, in terms of whole chunks, of a packed file in an order that suits reading.
FEW, MOST, IN_SUM = 1.3, 2.6, 1.6
FASTER_AGAIN = 20


# -- reads -----------------------------------------------------------------------------------------


def reads(data: Data) -> dict[str, list[Any]]:
    """Return the names of reads, each with its selections; an empty list only opens the array."""
    # At the same share of each axis, whatever its length.
    at = lambda *shares: tuple(  # noqa: E731
        int(share * n) for share, n in zip(shares, data.shape, strict=True)
    )
    cut = lambda corner, by: tuple(slice(i, i + n) for i, n in zip(corner, by, strict=True))  # noqa: E731
    small = tuple(max(1, min(16, c)) for c in data.chunks)
    large = tuple(max(1, min(32, n // 2)) for n in data.shape)
    random = np.random.default_rng(0)
    corners = [
        [int(random.integers(0, n - b)) for n, b in zip(data.shape, large, strict=True)]
        for _ in range(5)
    ]
    i, j, k = at(0.44, 0.371, 0.214)
    boxes = [cut(corner, large) for corner in corners]
    return {
        OPEN: [],
        ELEMENT: [at(0.49, 0.74, 0.83)],
        BOX: [cut(at(0.44, 0.482, 0.139), small)],
        BOXES: boxes,
        "a plane across axis 0": [np.s_[i]],
        "a plane across axis 1": [np.s_[:, j]],
        "a plane across axis 2": [np.s_[:, :, k]],
        SERIES: [np.s_[:, j, k]],
        ALL: [np.s_[...]],
        AGAIN: boxes,
    }


def chunk_bytes(data: Data, selections: Iterable[Any]) -> int:
    """Return the bytes of all chunks that hold selected elements, each counted once."""
    touched = set()
    for selection in selections:
        given = () if selection is Ellipsis else np.index_exp[selection]
        given += (slice(None),) * (3 - len(given))
        spans = []
        for k, n, c in zip(given, data.shape, data.chunks, strict=True):
            low, high, _ = k.indices(n) if isinstance(k, slice) else (k, k + 1, 1)
            spans.append(range(low // c, (high - 1) // c + 1))
        touched.update(itertools.product(*spans))
    return len(touched) * math.prod(data.chunks) * 4


class Reader:
    """A candidate in its own process; see `timing.Worker`."""

    def __init__(self, name: str, data: Data) -> None:
        self._format, self._data = FORMATS[name], data
        self._file = name.replace(", ", "-")
        self._stack = ExitStack()
        self._array: Any = None
        self._url = self._read = ""

    def prepare(self, url: str, read: str) -> None:
        """Make ready for a read at a new URL; for one that is done again, do it."""
        self._url, self._read = f"{url}/{self._file}", read
        if read == AGAIN:
            self._array = self._opened()
            self._selected()

    def run(self) -> float:
        """Return the seconds of the read, which includes opening unless it is done again."""
        start = time.perf_counter()
        if self._read != AGAIN:
            self._array = self._opened()
        found = self._selected()
        seconds = time.perf_counter() - start
        truth = self._data.truth
        assert self._array.shape == truth.shape
        for selection, values in zip(reads(self._data)[self._read], found, strict=True):
            np.testing.assert_array_equal(values, truth[selection])
        return seconds

    def finish(self) -> None:
        """Close the array."""
        self._array = None
        self._stack.close()

    def _opened(self) -> Any:
        return self._stack.enter_context(self._format.open(self._url))

    def _selected(self) -> list[Any]:
        return [self._array[selection] for selection in reads(self._data)[self._read]]

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method; return a `Failure` if it raises."""
        try:
            return getattr(self, method)(*arguments)
        except ImportError as error:
            return Failure(f"not installed: {error.name or error}", expected=True)
        except Exception as error:
            self._stack = ExitStack()
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
            return Failure(text, expected=False)


def written(name: str, data: Data) -> bool:
    """Write the files that a candidate reads."""
    FORMATS[name].write(data, os.path.join(data.folder, name.replace(", ", "-")))
    return True


# -- measurements ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """One read: requests, megabytes that came, seconds, and most requests at a time."""

    requests: int
    megabytes: float
    seconds: float
    most: int


#: By the name of the read, then of the candidate.
Found = dict[str, dict[str, Cost]]


class Measurement:
    """Candidates in turn, each of which reads from the server while no other one does."""

    def __init__(self, web: Web, workers: Mapping[str, Worker]) -> None:
        self._web, self._workers = web, workers
        self._number = 0
        self.absent: dict[str, str] = {}

    def cost(self, name: str, read: str) -> Cost | None:
        """Measure a read once; a candidate that fails is left out from then on."""
        worker = self._workers[name]
        self._number += 1
        url = f"{self._web.url}/{self._number}"  # a new one, which no library knows
        outcome = worker.ask("prepare", url, read)
        if not isinstance(outcome, Failure):
            self._web.counted()
            outcome = worker.ask("run")
            count = self._web.counted()
            done = worker.ask("finish")
            outcome = done if isinstance(done, Failure) else outcome
        if isinstance(outcome, Failure):
            self.absent[name] = f"{read}: {outcome.text}"
            return None
        return Cost(count.requests, count.nbytes / 1e6, outcome, count.most)

    def all(self, names: list[str], names_of_reads: list[str], rounds: int) -> Found:
        """Return the least figures of all rounds."""
        found: Found = {}
        for _ in range(rounds):
            for read in names_of_reads:
                for name in names:
                    if name in self.absent or (cost := self.cost(name, read)) is None:
                        continue
                    before = found.setdefault(read, {}).setdefault(name, cost)
                    found[read][name] = Cost(*map(min, vars(before).values(), vars(cost).values()))
        return found


# -- tables ----------------------------------------------------------------------------------------


def tables(found: Found, names: list[str]) -> str:
    """Return the figures of a server as Markdown."""
    parts = []
    for title, told in (
        ("Requests", lambda cost: str(cost.requests)),
        ("Megabytes", lambda cost: f"{cost.megabytes:.3g}"),
        ("Milliseconds", lambda cost: f"{cost.seconds * 1e3:.3g}"),
    ):
        rows = [
            [read, *(told(costs[name]) if name in costs else "–" for name in names)]
            for read, costs in found.items()
        ]
        parts.append(f"{title}:\n\n{markdown(['', *names], rows)}\n")
    return "\n".join(parts)


@dataclass(frozen=True)
class Verdict:
    """A figure of ours, and the most that it should be."""

    figure: float
    limit: float
    whose: str = ""

    @property
    def held(self) -> bool:
        return self.figure <= self.limit

    def __str__(self) -> str:
        told = f"{self.figure:.3g} of {self.limit:.3g}"
        told += f" ({self.whose})" if self.whose else ""
        return told if self.held else f"**{told}**"


def verdicts(found: Found, name: str, data: Data) -> dict[str, dict[str, Verdict]]:
    """Compare a candidate of ours with the goals, by the name of the read and of the figure.

    Requests and seconds are limited by the least of the others, and bytes by those of whole chunks,
    unless these are compressed.  Bytes that opening takes are not counted.
    """
    judged: dict[str, dict[str, Verdict]] = {}
    opened = found.get(OPEN, {}).get(name)
    came = wanted = 0.0
    for read, costs in found.items():
        if name not in costs:
            continue
        mine, here = costs[name], judged.setdefault(read, {})
        others = {n: cost for n, cost in costs.items() if n in RIVALS}
        if others and read != AGAIN:
            least = min(others, key=lambda n: others[n].requests)
            here["requests"] = Verdict(mine.requests, others[least].requests, least)
            first = min(others, key=lambda n: others[n].seconds)
            here["milliseconds"] = Verdict(mine.seconds * 1e3, others[first].seconds * 1e3, first)
        elif zarr := [costs[n].seconds for n in (ZARR, SHARDS) if n in costs]:
            here["milliseconds"] = Verdict(
                mine.seconds * 1e3, min(zarr) * 1e3 / FASTER_AGAIN, f"zarr / {FASTER_AGAIN}"
            )
        if opened and read not in (OPEN, AGAIN) and not data.compress:
            whole = chunk_bytes(data, reads(data)[read]) / 1e6
            more = mine.megabytes - opened.megabytes
            limit = FEW if read in (ELEMENT, BOX, ALL) else MOST
            here["bytes / whole chunks"] = Verdict(round(more / whole, 3), limit)
            came, wanted = came + more, wanted + whole
    if wanted:
        judged["in sum"] = {"bytes / whole chunks": Verdict(round(came / wanted, 3), IN_SUM)}
    return judged


def goals(judged: Mapping[str, Mapping[str, Verdict]]) -> str:
    """Return verdicts as Markdown: what misses is bold."""
    heads = ["requests", "bytes / whole chunks", "milliseconds"]
    rows = [
        [read, *(str(here[head]) if head in here else "" for head in heads)]
        for read, here in judged.items()
    ]
    return markdown(["", *heads], rows)


def report(found: Found, names: list[str], data: Data) -> str:
    """Return tables, and how ours stand to the goals."""
    parts = [tables(found, names)]
    for name in names:
        if name not in OURS:
            continue
        judged = verdicts(found, name, data)
        missed = sum(not v.held for here in judged.values() for v in here.values())
        count = sum(map(len, judged.values()))
        kind = "" if name in (MORTON, HILBERT) else ", in an order that no goal is meant for"
        parts.append(
            f"Goals of {name}{kind}, figure of limit; {count - missed} of {count} reached:\n\n"
            f"{goals(judged)}\n"
        )
    return "\n".join(parts)


# -- the program -----------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print; return 1 if a candidate failed that is installed."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.remote")
    parser.add_argument("--latency", type=float, default=20.0, help="milliseconds a request")
    parser.add_argument("--bandwidth", type=float, default=25.0, help="MB/s of the second server")
    parser.add_argument("--rounds", type=int, default=3, help="the least figures count")
    parser.add_argument("--compress", action="store_true", help="by zstd, but for the pair")
    parser.add_argument("--only", nargs="+", help="candidates with these names")
    parser.add_argument("--case", nargs="+", help="reads whose names have one of these")
    parser.add_argument("--server", choices=["waits", "narrow"], nargs="+", help="one of the two")
    parser.add_argument("--folder", help="where the files go")
    parser.add_argument("--quick", action="store_true", help="tiny data: does all still run?")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(arguments)
    folder = tempfile.mkdtemp(prefix="extarray-bench-", dir=options.folder)
    data = Data(folder, **(QUICK if options.quick else {}), compress=options.compress)
    names = [name for name in FORMATS if not options.only or name in options.only]
    cases = [
        read
        for read in reads(data)
        if read == OPEN or not options.case or any(some in read for some in options.case)
    ]
    latency = options.latency / 1e3
    lines = {"waits": Line(latency), "narrow": Line(latency, options.bandwidth * 1e6)}
    absent: dict[str, str] = {}
    figures: dict[str, Any] = {}
    print(
        f"{' × '.join(map(str, data.shape))} float32, {math.prod(data.shape) * 4 / 1e6:.0f} MB, in "
        f"chunks of {' × '.join(map(str, data.chunks))}; "
        f"{'all by zstd but the pair' if data.compress else 'uncompressed'}; {load()}; "
        f"Python {sys.version.split()[0]}, {versions(*PACKAGES)}\n",
        flush=True,
    )
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        np.save(os.path.join(folder, "truth.npy"), data.make())
        for name in names:
            if isinstance(outcome := apart(written, name, data), Missing):
                absent[name] = outcome.text
        shown = [name for name in names if name not in absent]
        workers = {name: Worker(Reader(name, data)) for name in shown}
        for worker in workers.values():
            stack.callback(worker.close)
        web = stack.enter_context(Web(folder, Line(0.0)))
        measurement = Measurement(web, workers)
        for name in shown:  # the first read of a process loads modules
            measurement.cost(name, ELEMENT)
        for kind in options.server or lines:
            web.use(lines[kind])
            found = measurement.all(shown, cases, options.rounds)
            measured = [n for n in shown if n not in measurement.absent]
            print(f"## {lines[kind]}\n\n{report(found, measured, data)}", flush=True)
            figures[kind] = {
                read: {name: asdict(cost) for name, cost in costs.items()}
                for read, costs in found.items()
            }
        absent |= measurement.absent
    for name, text in absent.items():
        print(f"- {name}: {text}")
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))
    return int(any("not installed" not in text for text in absent.values()))


if __name__ == "__main__":
    sys.exit(main())
