"""Libraries of codecs: size, and MB/s to encode and to decode, on one thread and on two.

``python -m benchmarks.codecs`` measures all that are installed, on chunks of measured values that
are made here: noise on smooth curves, rounded, bytes shuffled.  `docs/explanation/codecs.md` says
which libraries extarray uses, and why.
"""

from __future__ import annotations

import argparse
import importlib
import threading
import time
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.codecs import _filters as filters

from .apart import load, markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TOTAL = 1 << 24


class Library(NamedTuple):
    """A candidate: functions that give a payload, and that write its bytes to a place."""

    name: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any, Any], object]


def libraries(size: int) -> Iterator[Library]:
    """Yield the candidates that are installed, for chunks of a size."""
    local = threading.local()

    def ours(name: str) -> Iterator[Library]:
        module = importlib.import_module(name)

        def decode(payload: Any, out: Any) -> None:
            out[:] = module.ZstdDecompressor().decompress(payload, size + 1)

        yield Library(name, lambda chunk: module.compress(chunk, 1), decode)

    def zstandard() -> Iterator[Library]:
        module = importlib.import_module("zstandard")

        def decode(payload: Any, out: Any) -> None:
            if not hasattr(local, "decoder"):
                local.decoder = module.ZstdDecompressor()
            out[:] = local.decoder.decompress(payload, max_output_size=size)

        yield Library("zstandard", lambda c: module.ZstdCompressor(level=1).compress(c), decode)

    def cramjam() -> Iterator[Library]:
        module = importlib.import_module("cramjam")
        yield Library(
            "cramjam, zstd",
            lambda chunk: bytes(module.zstd.compress(chunk, 1)),
            lambda payload, out: module.zstd.decompress_into(payload, out),
        )
        yield Library(
            "cramjam, LZ4",
            lambda chunk: bytes(module.lz4.compress_block(chunk, store_size=False)),
            lambda payload, out: module.lz4.decompress_block_into(payload, output=out),
        )

    def numcodecs() -> Iterator[Library]:
        for module, kind in (("zstd", "Zstd"), ("lz4", "LZ4")):
            codec = getattr(importlib.import_module(f"numcodecs.{module}"), kind)(1)
            yield Library(f"numcodecs, {kind}", codec.encode, codec.decode)

    def lz4() -> Iterator[Library]:
        module = importlib.import_module("lz4.block")

        def decode(payload: Any, out: Any) -> None:
            out[:] = module.decompress(payload, uncompressed_size=size)

        yield Library("lz4", lambda chunk: module.compress(chunk, store_size=False), decode)

    def of_python() -> Iterator[Library]:
        def decode(payload: Any, out: Any) -> None:
            out[:] = zlib.decompress(payload, bufsize=size)

        yield Library("zlib, level 1", lambda chunk: zlib.compress(chunk, 1), decode)

    some = (
        lambda: ours("compression.zstd"),
        lambda: ours("backports.zstd"),
        zstandard, cramjam, numcodecs, lz4, of_python,
    )  # fmt: skip
    for make in some:
        try:
            yield from make()
        except ImportError:
            continue


def chunks_of(size: int) -> list[memoryview]:
    """Return chunks, byte planes of float32."""
    n = TOTAL // 4
    rng = np.random.default_rng(0)
    x = 280 + 10 * np.sin(np.linspace(0, n / 3000, n)) + rng.normal(0, 0.05, n)
    found = []
    for chunk in x.astype("f4").round(2).view("u1").reshape(-1, size):
        out = memoryview(bytearray(size))
        filters.shuffle(out, chunk, 4)
        found.append(out)
    return found


def speed(call: Callable[[Any], object], items: Sequence[Any], threads: int, nbytes: int) -> float:
    """Return the MB/s of calls for all items, which threads share."""

    def work(part: Sequence[Any]) -> None:
        for item in part:
            call(item)

    start = time.perf_counter()
    others = [threading.Thread(target=work, args=[items[k::threads]]) for k in range(1, threads)]
    for other in others:
        other.start()
    work(items[::threads])
    for other in others:
        other.join()
    return nbytes / 1e6 / (time.perf_counter() - start)


def row(library: Library, chunks: Sequence[memoryview], rounds: int) -> list[str]:
    """Return what a library does, the best of some rounds."""
    payloads = [library.encode(chunk) for chunk in chunks]
    local = threading.local()

    def decode(payload: Any) -> None:
        if not hasattr(local, "out"):
            local.out = memoryview(np.empty(len(chunks[0]), np.uint8))
        library.decode(payload, local.out)

    for payload, chunk in zip(payloads, chunks, strict=True):
        decode(payload)
        assert local.out == chunk
    nbytes = sum(map(len, chunks))
    best = [
        max(speed(call, items, threads, nbytes) for _ in range(rounds))
        for call, items in ((library.encode, chunks), (decode, payloads))
        for threads in (1, 2)
    ]
    ratio = nbytes / sum(map(len, payloads))
    return [library.name, f"{ratio:.2f}", *(f"{mbs:,.0f}" for mbs in best)]


def filter_rows(size: int, rounds: int) -> list[list[str]]:
    """Return GB/s of our filters."""
    data, out = np.random.default_rng(0).integers(0, 256, size, "u1"), np.empty(size, "u1")
    rows = []
    for name in ("shuffle", "unshuffle", "bit_shuffle", "bit_unshuffle"):
        best = [
            max(
                speed(partial(getattr(filters, name), out, data), [itemsize] * 50, 1, 50 * size)
                for _ in range(rounds)
            )
            for itemsize in (1, 2, 4, 8, 16)
        ]
        rows.append([name, *(f"{mbs / 1e3:.1f}" for mbs in best)])
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.codecs")
    parser.add_argument("--size", type=int, nargs="+", default=[1 << 16, 1 << 18], help="of chunks")
    parser.add_argument("--rounds", type=int, default=5, help="the best counts")
    options = parser.parse_args(arguments)
    heads = ["", "ratio", "encode", "by two threads", "decode", "by two threads"]
    for size in options.size:
        rows = [row(one, chunks_of(size), options.rounds) for one in libraries(size)]
        print(f"Chunks of {size >> 10} KiB, MB/s; {load()}:\n\n{markdown(heads, rows)}\n")
    sizes = ["", "1 byte", "2", "4", "8", "16"]
    rows = filter_rows(1 << 16, options.rounds)
    print(f"Filters of 64 KiB by the size of an element, GB/s:\n\n{markdown(sizes, rows)}")


if __name__ == "__main__":
    main()
