"""The requests of a publisher over many growths, and what they cost.

``python -m benchmarks.publishing_scale`` runs the code that publishes on chunks of four bytes, and
takes them for larger ones wherever their size decides: objects are merged, and heads divided, as
they would be.  `counted` applies the same rules to numbers alone, for more growths than one waits
for.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from .apart import load, markdown

#: Bytes that a chunk of four bytes takes in a published object.
_TINY = 64 + 8 + 4


class Memory:
    """Objects in memory; stands in for `extarray.remote.writing.Writing`.

    Parameters
    ----------
    keeps : bool
        Keep the objects with chunks; else their sizes alone.
    """

    place = SimpleNamespace(url="memory:")

    def __init__(self, keeps: bool = True) -> None:
        from extarray.remote.writing import Requests

        self.requests = Requests()
        self.objects: dict[str, bytes | int] = {}
        self.chunk_bytes = self.page_bytes = self.head_bytes = self.pages = 0
        self._keeps, self._version = keeps, 0

    def read(self, name: str) -> Any:
        from extarray.remote.writing import Whole

        self.requests.gets += 1
        data = self.objects.get(name)
        return data if data is None else Whole(bytes(data), {"version": self._version})

    def read_part(self, name: str, start: int, n_bytes: int) -> bytes:
        self.requests.gets += 1
        return self.objects[name][start : start + n_bytes]

    def put(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        from extarray.errors import FormatError
        from extarray.format.published import decode_frame

        size = sum(len(part) for part in parts)
        self.requests.puts += 1
        self.requests.sent += size
        data = b"".join(parts) if self._keeps or len(parts) == 1 else b""
        try:
            decode_frame(data)
        except FormatError:
            self.chunk_bytes += size
            self.objects[name] = data if self._keeps else size
        else:
            self.pages += 1
            self.page_bytes += size
            self.objects[name] = data

    def begin_put(self, name: str, parts: Sequence[bytes | memoryview]) -> Future[dict[str, Any]]:
        self.put(name, parts)
        done: Future[dict[str, Any]] = Future()
        done.set_result({})
        return done

    def replace(self, name: str, data: bytes, mark: dict[str, Any]) -> dict[str, Any]:
        from extarray.remote.writing import LostRace

        if mark.get("version", 0) != self._version:
            raise LostRace
        self._version += 1
        self.requests.puts += 1
        self.requests.sent += len(data)
        self.head_bytes += len(data)
        self.objects[name] = data
        return {"version": self._version}


def publisher(array: Any, memory: Memory) -> Any:
    """Return a publisher of an array to memory, which has published its present state."""
    from extarray.array.publishing import _origin_of
    from extarray.maintenance.publishing import Publisher

    found = Publisher(memory, _origin_of(array), None)
    found.load()
    found.update()
    return found


@dataclass(frozen=True)
class State:
    """Figures after a number of growths; those of bytes and requests are sums."""

    growths: int
    chunks: int
    puts: int
    gets: int
    chunks_sent: int
    head_bytes: int
    page_bytes: int
    objects: int
    last_head: int
    open_requests: int
    open_bytes: int
    seconds: float
    milliseconds: float  # of the last hundredth, a growth
    memory: int


def simulate(counts: Sequence[int], chunks: int, chunk_bytes: int) -> list[State]:
    """Publish growths of a number of chunks each; return the states after these counts of them."""
    import extarray as xa
    from extarray.maintenance import publishing

    before = publishing._MERGED, publishing._OBJECT
    publishing._MERGED, publishing._OBJECT = (n * _TINY // (chunk_bytes + _TINY) for n in before)
    memory, states = Memory(keeps=False), []
    array = xa.create(None, (chunks,), "f4", chunks=(1,))
    array[...] = 1
    try:
        by = publisher(array, memory)
        sent = chunks
        start = time.perf_counter()
        marks: dict[int, float] = {}
        for n in range(1, max(counts) + 1):
            array.append(np.full(chunks, n + 1, "f4"), axis=0)
            by.update()
            sent += int(by.known.members[""].found.entries["count"][-1])
            marks[n] = time.perf_counter()
            if n not in counts:
                marks.pop(n - max(10, n // 100) - 1, None)
                continue
            known = by.known
            entries = known.members[""].found.entries
            pages = [page.row["size"] for page in known.members[""].pages]
            head = len(memory.objects["head"])
            last = max(10, n // 100)
            states.append(
                State(
                    n,
                    len(array),
                    memory.requests.puts,
                    memory.requests.gets,
                    sent,
                    memory.head_bytes,
                    memory.page_bytes,
                    len(np.unique(entries["uuid"])),
                    head,
                    1 + len(pages),
                    head + int(sum(pages)),
                    marks[n] - start,
                    (marks[n] - marks.get(n - last, start)) / last * 1e3,
                    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
                )
            )
    finally:
        publishing._MERGED, publishing._OBJECT = before
    return states


# -- numbers alone ---------------------------------------------------------------------------------


def counted(counts: Sequence[int], chunks: int, chunk_bytes: int) -> list[State]:
    """Return what `simulate` would, by the rules of `maintenance.publishing`, in numbers.

    A growth has a number of chunks, all of them whole, along one axis.  Seconds and memory are 0.
    """
    from extarray.maintenance.publishing import (
        _FAN_OUT,
        _FULL_GRAVES,
        _FULL_HEAD,
        _MERGED,
        _OBJECT,
    )

    assert chunks * chunk_bytes < _OBJECT, "a growth is an object"
    blob = -(-(32 + chunk_bytes) // 64) * 64

    def size_of(n: int) -> int:
        return -(-(64 + 12 * n) // 64) * 64 + n * blob

    head = list[list[int]]()  # chunks of the entries in the head; 0: an entry that was replaced
    pages, graves = list[_Listed](), list[_Listed]()
    retired = 0
    puts = chunks_sent = head_bytes = page_bytes = 0
    states = []
    for growth in range(max(counts) + 1):
        new = chunks
        total = chunks * growth
        mean = size_of(total) // total + 1 if growth else 0
        # The last entries, of the head and then of the pages.
        lists = [*(page.entries for page in pages), head]
        small = (
            (some, i)
            for some in reversed(lists)
            for i in reversed(range(len(some)))
            if some[i][0] and size_of(some[i][0]) < _MERGED
        )
        kept = [*itertools.islice(small, _LAST)][::-1]
        while len(kept) >= _FAN_OUT - 1:
            last = kept[1 - _FAN_OUT :]
            sizes = [some[i][0] for some, i in last]
            if max(sizes) > new or (new + sum(sizes)) * mean > _MERGED:
                break
            new += sum(sizes)
            for some, i in last:
                some[i][0] = 0
            del kept[1 - _FAN_OUT :]
        retired += sum(not n[0] for n in head)  # a page goes on naming its objects
        head = [n for n in head if n[0]] + [[new]]
        puts += 1
        chunks_sent += new
        if _HEAD_BASE + 56 * len(head) > _FULL_HEAD:
            taken = _taken(pages, _PAGE_BASE + 56 * len(head))
            every = [n for page in taken for n in page.entries] + head
            retired += len(taken) + sum(not n[0] for n in every)
            entries, head = [n for n in every if n[0]], []
            pages.append(_Listed(_PAGE_BASE + 56 * len(entries), entries))
            page_bytes += pages[-1].size
            puts += 1
        if 24 * retired > _FULL_GRAVES:
            taken = _taken(graves, 24 * retired)
            size = 96 + 24 * retired + sum(grave.size - 96 for grave in taken)
            graves.append(_Listed(size, []))
            page_bytes += size
            puts += 1
            retired = len(taken)
        lines = 32 * (len(pages) + len(graves))
        n_head = _HEAD_BASE + 56 * len(head) + 24 * retired + lines + 16 * (lines > 0)
        n_head += 16 * (retired > 0)
        head_bytes += n_head
        puts += 1
        if growth in counts:
            objects = len(head) + sum(len(page.entries) for page in pages)
            states.append(
                State(
                    growth,
                    total + chunks,
                    puts,
                    1,  # there is no head yet
                    chunks_sent,
                    head_bytes,
                    page_bytes,
                    objects,
                    n_head,
                    1 + len(pages),
                    n_head + sum(page.size for page in pages),
                    0.0,
                    0.0,
                    0,
                )
            )
    return states


#: Bytes of the head and of a page of an array of one axis without their lists.
_HEAD_BASE, _PAGE_BASE = 392, 128
#: Entries that a growth looks at from the end.
_LAST = 60


class _Listed:
    """A page: its bytes, and the numbers of chunks of its entries."""

    def __init__(self, size: int, entries: list[list[int]]) -> None:
        self.size, self.entries = size, entries


def _taken(pages: list[_Listed], length: int) -> list[_Listed]:
    from extarray.maintenance.publishing import _SHORT_PAGES

    taken: list[_Listed] = []
    while pages:
        size = pages[-1].size
        if length + size > _SHORT_PAGES and size > length:
            break
        taken.insert(0, pages.pop())
        length += size
    return taken


def table(states: Sequence[State]) -> str:
    """Return states as Markdown."""
    rows = [
        [
            f"{s.growths:,}",
            f"{s.chunks:,}",
            f"{s.puts / s.growths:.3f}",
            f"{s.gets:,}",
            f"{s.chunks_sent / s.chunks:.2f}",
            f"{(s.head_bytes + s.page_bytes) / s.growths / 1e3:.1f}",
            f"{s.objects:,}",
            str(s.open_requests),
            f"{s.open_bytes / 1e6:.2f}",
            f"{s.milliseconds:.1f}" if s.seconds else "–",
            f"{s.memory / 1e6:.0f}" if s.seconds else "–",
        ]
        for s in states
    ]
    head = ["growths", "chunks", "PUTs a growth", "GETs in all", "times each chunk is sent"]
    head += ["kB of heads and pages a growth", "objects", "requests to open", "MB to open"]
    head += ["ms a growth", "MB of memory"]
    return f"{markdown(head, rows)}\n"


# -- costs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Requests that write and that read: of a growth, of a reader that takes it up and reads it.

    `everything` are those that read all of it once.
    """

    puts: float
    gets: float
    news: float
    everything: float


@dataclass(frozen=True)
class Prices:
    """Dollars a request, and a gigabyte and month; S3 Standard, us-east-1, list price of 2025."""

    put: float = 0.005e-3
    get: float = 0.0004e-3
    month: float = 0.023


#: Bytes that one request of ours reads at most.
_AT_A_TIME = 8 << 20


def work(last: State, chunks: int, chunk_bytes: int) -> dict[str, Work]:
    """Return the requests of each library; of the others as `benchmarks.publishing` counts them.

    Each object of ours is read by one request for its table and some for its chunks.
    """
    n, growths = last.chunks, last.growths
    size = chunks * chunk_bytes
    ours = last.objects * (1 + math.ceil(n / last.objects * chunk_bytes / _AT_A_TIME))
    return {
        "extarray": Work(last.puts / growths, 0, 2 + math.ceil(size / _AT_A_TIME), ours),
        "zarr": Work(chunks + 1, 0, 1 + chunks, 1 + n),
        # A growth is a shard, written and read as a whole: nothing larger is cheaper.
        "zarr, shards": Work(2, 0, 2, 1 + n / chunks),
        "icechunk": Work(chunks + 5, 3, 3 + chunks, 6 + n),
    }


def costs(last: State, chunks: int, chunk_bytes: int, readers: int, prices: Prices) -> str:
    """Return requests and dollars as Markdown."""
    rows = []
    for name, one in work(last, chunks, chunk_bytes).items():
        writing = last.growths * (one.puts * prices.put + one.gets * prices.get)
        following = last.growths * readers * one.news * prices.get
        rows.append(
            [
                name,
                f"{one.puts:.3g} + {one.gets:.3g}",
                f"{writing:,.2f}",
                f"{one.news:.3g}",
                f"{following:,.0f}",
                f"{one.everything:,.0f}",
                f"{one.everything * prices.get:,.2f}",
            ]
        )
    head = ["", "PUTs + GETs a growth", "$ to publish", "GETs to take up a growth and read it"]
    head += [f"$, {readers:,} readers", "GETs to read everything", "$ each time"]
    stored = last.chunks * chunk_bytes / 1e9
    return (
        f"{last.growths:,} growths of {chunks} chunks of {chunk_bytes / 1024:g} KiB; {stored:,.0f} "
        f"GB, $ {stored * prices.month:,.2f} a month:\n\n{markdown(head, rows)}\n"
    )


def main(arguments: list[str] | None = None) -> None:
    """Run, count, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m benchmarks.publishing_scale"
    )
    parser.add_argument("--run", type=int, default=1_000, help="growths that are published")
    parser.add_argument("--growths", type=int, default=100_000, help="growths that are counted")
    parser.add_argument("--chunks", type=int, default=100, help="of a growth")
    parser.add_argument("--readers", type=int, default=1_000)
    parser.add_argument("--kib", type=float, nargs="+", default=[4, 64], help="of a chunk")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(arguments)
    some, many = (
        sorted({n, *(10**i for i in range(1, 9) if 10**i < n)})
        for n in (options.run, options.growths)
    )
    print(f"Growths of {options.chunks} chunks; {load()}\n", flush=True)
    figures = {}
    for kib in options.kib:
        size = int(kib * 1024)
        ran = simulate(some, options.chunks, size)
        states = counted(many, options.chunks, size)
        print(f"## Chunks of {kib:g} KiB\n\nPublished:\n\n{table(ran)}", flush=True)
        print(f"Counted:\n\n{table(states)}", flush=True)
        print(costs(states[-1], options.chunks, size, options.readers, Prices()), flush=True)
        figures[str(size)] = [asdict(state) for state in (*ran, *states)]
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
