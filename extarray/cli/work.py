"""Long work: rechunk, recommend chunk shapes, benchmark."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from extarray.cli._command import (
    COMPRESSION,
    JSON,
    SPARSE,
    argument,
    array_path,
    axis_of,
    choice,
    click,
    codec_of,
    command,
    flag,
    integers,
    names,
    option,
    usage_error,
    wrong_calls,
)
from extarray.cli._output import print_json, print_table
from extarray.cli.look import opened
from extarray.common.arguments import as_axis, parse_bytes
from extarray.common.choices import ORDERS
from extarray.common.errors import DTypeError, MissingError
from extarray.common.formatting import format_bytes
from extarray.common.terminal import print_text

__all__ = ["advise", "bench", "rechunk"]


@command(
    "rechunk",
    "copy an array with another chunk shape, axis order or data type",
    array_path("source", "SRC"),
    array_path("target", "[DST]", required=False),
    option("--chunks", "N,...", "chunk shape of the new array", type=integers),
    option("--axes", "AXIS,...", "order of the new axes, as axes of SRC", type=names),
    choice("--order", ORDERS, "order of the elements in a chunk"),
    option("--dtype", "TYPE", "data type of the new array"),
    SPARSE,
    COMPRESSION,
    option(
        "--max-memory",
        "BYTES",
        "memory limit, such as '1 GiB' (default: 256 MiB)",
        default="256 MiB",
    ),
    option("--workers", "N", "maximum number of threads", type=click.IntRange(min=1)),
    flag("--in-place", "replace SRC when the copy is complete"),
    flag("--resume", "continue an interrupted call"),
    flag("--verify", "compare both arrays at the end"),
    flag("--plan", "print the plan without executing it"),
    details="DST appears when it is complete.  If interrupted, the work done so far is kept next "
    "to it, and --resume continues from there.",
)
def rechunk(
    source: str,
    target: str | None,
    chunks: tuple[int, ...] | None,
    sparse: bool | None,
    compression: str | None,
    plan: bool,
    workers: int | None,
    in_place: bool,
    resume: bool,
    verify: bool,
    **given: Any,
) -> None:
    """Rechunk an array, or print the plan."""
    import extarray as xa

    shape = chunks[0] if chunks is not None and len(chunks) == 1 else chunks
    with wrong_calls(DTypeError):
        if plan:
            print_text(repr(xa.rechunk_plan(source, chunks=shape, **given)))
            return
        if in_place == (target is not None):
            raise usage_error("give either DST or --in-place")
        try:
            xa.rechunk(
                source,
                target,
                chunks=shape,
                sparse=sparse,
                workers=workers,
                in_place=in_place,
                resume=resume,
                verify=verify,
                **codec_of(compression),
                **given,
            ).close()
        except KeyboardInterrupt:
            print_text(
                "the work done so far is kept; --resume continues from there", stream=sys.stderr
            )
            raise


# -- advice --------------------------------------------------------------------------------------


def _request(text: str) -> tuple[Any, float]:
    """Parse a request: comma-separated extents or ``:``, and an optional ``*WEIGHT``."""
    extents, _, weight = text.partition("*")
    try:
        parts = [None if part.strip() == ":" else int(part) for part in extents.split(",")]
        return tuple(parts), float(weight or 1)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a request; give comma-separated extents, ':' for a whole axis, and "
            "an optional '*WEIGHT', as in '1,:,:*10'"
        ) from None


@command(
    "advise",
    "recommend a chunk shape for given reads",
    array_path(),
    option(
        "--read",
        "N,...[*WEIGHT]",
        "extents of one read, ':' for a whole axis, and its relative frequency; may be repeated "
        "(default: a plane across each axis, equally often)",
        type=_request,
        multiple=True,
    ),
    option(
        "--grow", "AXIS", "an axis that will grow; may be repeated", type=axis_of, multiple=True
    ),
    option(
        "--block-bytes",
        "BYTES",
        "maximum size of a chunk (default: 256 KiB; for HDF5 its chunk cache, 1 MiB)",
    ),
    choice(
        "--measure",
        ("chunks", "bytes", "pages", "work"),
        "cost to minimize (default: chunks; for HDF5 work)",
    ),
    choice("--store", ("extarray", "hdf5"), "where the chunks will lie", default="extarray"),
    JSON,
)
def advise(
    path: str,
    read: Any,
    grow: tuple[Any, ...],
    block_bytes: str | None,
    measure: str | None,
    store: str,
    as_json: bool,
) -> None:
    """Print the advice for the array as it is now."""
    import extarray as xa

    with opened(path) as a, wrong_calls():
        axes = [as_axis(name, a.ndim, a) for name in grow]
        access = read or [(("plane", j), 1) for j in range(a.ndim)]
        advice = xa.advise_chunks(a.shape, a.dtype, access, axes, block_bytes, measure, store=store)
        present = a.chunks
    if as_json:
        print_json(
            {
                "chunks": tuple(advice),
                "cost": advice.cost,
                "alternatives": [one._asdict() for one in advice.alternatives],
                "present": present,
                "explanation": advice.explanation,
            }
        )
    else:
        print_text(f"{advice.explanation}\npresent chunks: {present}")


# -- benchmark -----------------------------------------------------------------------------------


@command(
    "bench",
    "measure the speed of reads, writes and appends in a folder",
    argument("folder", "[FOLDER]", required=False, default="."),
    option("--size", "BYTES", "size of the array (default: 64 MiB)", default="64 MiB"),
    option(
        "--repeat",
        "N",
        "runs of each test, of which the best counts (default: 3)",
        type=click.IntRange(min=1),
        default=3,
    ),
    JSON,
    details="FOLDER is the present one by default.  Each result is compared with a NumPy memory "
    "map of a fixed-size file.  The files are read from the page cache, and removed at the end.",
)
def bench(folder: str, size: str, repeat: int, as_json: bool) -> None:
    """Measure in a temporary folder."""
    if not os.path.isdir(folder):
        raise MissingError(errno.ENOENT, "no such folder", folder)
    with wrong_calls():
        side = max(8, round((parse_bytes(size) / 4) ** (1 / 3)))
    with tempfile.TemporaryDirectory(prefix="extarray-bench-", dir=folder) as place:
        rows = _measure(place, side, repeat)
    if as_json:
        print_json(
            [dict(zip(("what", "bytes", "extarray", "numpy"), row, strict=True)) for row in rows]
        )
        return
    print_table(
        ("", "bytes", "extarray", "per second", "memory map", "ratio"),
        [
            (
                what,
                format_bytes(nbytes),
                f"{ours * 1e3:.3g} ms",
                format_bytes(int(nbytes / ours)) if nbytes else "",
                "" if theirs is None else f"{theirs * 1e3:.3g} ms",
                "" if theirs is None else f"{theirs / ours:.2f}",
            )
            for what, nbytes, ours, theirs in rows
        ],
        left=(0,),
    )
    print_text("ratio: time of the memory map / time of extarray; above 1, extarray is faster")


def _measure(place: str, side: int, repeat: int) -> list[tuple[str, int, float, float | None]]:
    """Return each operation with its bytes, our best time and that of a memory map in seconds."""
    import extarray as xa

    def best(action: Callable[..., Any], *given: Any) -> float:
        times = []
        for _ in range(repeat):
            begun = time.perf_counter()
            action(*given)
            times.append(time.perf_counter() - begun)
        return max(min(times), 1e-9)

    data = np.random.default_rng(0).random((side,) * 3, np.float32)
    flat: Any = np.memmap(os.path.join(place, "flat"), np.float32, "w+", shape=data.shape)
    with xa.create(os.path.join(place, "array"), data.shape, np.float32) as a:
        ours, theirs = (best(x.__setitem__, ..., data) for x in (a, flat))
        rows: list[tuple[str, int, float, float | None]] = [
            ("write all", data.nbytes, ours, theirs)
        ]
        reads: list[tuple[str, Any]] = [("read all", ...)]
        for j in range(3):
            plane = (*[slice(None)] * j, side // 2)
            reads.append((f"read a plane across axis {j}", plane))
        reads.append(("read an element", (side // 2,) * 3))
        for what, index in reads:
            ours, theirs = best(a.__getitem__, index), best(_copied, flat, index)
            rows.append((what, data[index].nbytes, ours, theirs))
        for j in range(3):
            extents = [*a.shape[:j], 1, *a.shape[j + 1 :]]
            added = np.zeros(extents, np.float32)
            rows.append(
                (f"append a plane at axis {j}", added.nbytes, best(a.append, added, j), None)
            )
    return rows


def _copied(flat: Any, index: Any) -> Any:
    return np.array(flat[index])
