"""The output of the demo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from extarray.apps.scene_pictures import Unmixing
from extarray.apps.scenes import AXES, Arrival, Scene
from extarray.cli._checks import Checker
from extarray.cli._output import table
from extarray.common.formatting import format_bytes
from extarray.common.terminal import print_text

__all__ = [
    "Growth",
    "by",
    "print_checks",
    "print_history",
    "print_start",
    "print_storage",
    "print_times",
    "print_unmixing",
]


class Growth(NamedTuple):
    """Cost of one growth step."""

    axis: int
    nbytes: int  # of the new data
    ours: float  # seconds
    rewriting: float | None  # seconds; None once rewriting has used up its share of time


def print_start(
    scene: Scene, path: Path, chunks: Sequence[int], arrivals: Sequence[Arrival], seed: int
) -> None:
    """Print what is about to happen."""
    data = scene.data
    print_text(
        f"Scene    {scene.title}: {by(data.shape)} {data.dtype}, {format_bytes(data.nbytes)}"
    )
    if scene.credit:
        print_text(f"         {scene.credit}")
    nbytes = math.prod(chunks) * data.itemsize
    print_text(
        f"Array    {path}.xmd, {path}.xta: chunks of {by(chunks)}, {format_bytes(nbytes)} each"
    )
    counts = [sum(arrival.axis == axis for arrival in arrivals) for axis in range(3)]
    print_text(
        f"Arrivals {len(arrivals)} pieces in random order (seed {seed}): {counts[0]} swaths of "
        f"rows, {counts[1]} of columns, {counts[2]} blocks of bands"
    )


def print_checks(writer: Checker, report: dict[str, Any], states: int) -> None:
    """Print what each process has compared."""
    print_text("\nVerified against the scene")
    print_text(
        f"  writer: each piece, a random box after it, and everything at the end: {writer.boxes} "
        f"boxes, {writer.elements:,} elements"
    )
    print_text(
        f"  reader: saw {report['states']} of the {states} states while the array grew, and "
        f"compared all new data in each: {report['boxes']} boxes, {report['elements']:,} elements"
    )
    print_text("  no chunk ever moved; the closed file, reordered, equals the scene")


def print_history(a: Any) -> None:
    """Print the growth history, one line per segment."""
    from extarray.plot import segments

    print_text("\nGrowth history, in chunks: one segment for each uninterrupted growth of an axis")
    rows: list[tuple[str, ...]] = [
        ("segment", "axis", "by", "first index", "start address", "chunks")
    ]
    for number, one in enumerate(segments(a)):
        values = (one.by, one.start_index, one.start_address, one.size)
        rows.append((str(number), AXES[one.axis], *map(str, values)))
    print_text(table(rows, left=(1,), indent="  "))


def print_storage(info: dict[str, Any]) -> None:
    """Print the disk space of the array."""
    print_text("\nStorage")
    logical, allocated, metadata, files = (
        format_bytes(info[f"{name}_bytes"]) for name in ("logical", "allocated", "metadata", "file")
    )
    print_text(
        f"  {logical} of elements in {allocated} of chunks; utilisation "
        f"{100 * info['utilisation']:.1f} %"
    )
    print_text(f"  metadata {metadata}, both files {files}")


def print_unmixing(found: Unmixing) -> None:
    """Print how the materials of the scene were found."""
    ranks = "one process" if found.ranks == 1 else f"{found.ranks} ranks"
    print_text(
        f"Unmixed  by {ranks} in {found.seconds:.1f} s, in place: {len(found.endmembers)} "
        f"endmembers by N-FINDR (HySime estimate: {found.estimate}), abundances by constrained "
        f"least squares with a residual of {100 * found.error:.1f} %"
    )


def print_times(growths: Sequence[Growth]) -> None:
    """Print the time of growth by axis and in total, compared with rewriting."""
    print_text(
        "\nTime to grow, compared with rewriting a .npy file each time (same data, no fsync)"
    )
    rows = [("axis", "growths", "new data", "extarray", "rewriting", "ratio")]
    timed = [growth for growth in growths if growth.rewriting is not None]
    for axis, name in ((0, "rows"), (1, "columns"), (2, "bands"), (None, "all")):
        mine = [growth for growth in timed if axis is None or growth.axis == axis]
        if not mine:
            continue
        ours = sum(growth.ours for growth in mine)
        rewriting = sum(growth.rewriting or 0.0 for growth in mine)
        rows.append(
            (
                name,
                str(len(mine)),
                format_bytes(sum(growth.nbytes for growth in mine)),
                f"{ours * 1e3:.1f} ms",
                f"{rewriting * 1e3:.1f} ms",
                f"{rewriting / ours:.1f}",
            )
        )
    print_text(table(rows, left=(0,), indent="  "))
    if timed:
        # Besides the sums, since one interruption by other work can dominate those.
        ours = float(np.median([growth.ours for growth in timed]))
        rewriting = float(np.median([growth.rewriting or 0.0 for growth in timed]))
        print_text(f"  median growth: {ours * 1e3:.2f} ms, against {rewriting * 1e3:.2f} ms")
    if len(timed) < len(growths):
        print_text(
            f"  (rewriting was stopped after {len(timed)} of {len(growths)} growths: too slow)"
        )
    print_text("")


def by(values: Sequence[int], between: str = " x ") -> str:
    """Join numbers with a separator: ``145 x 145 x 200``."""
    return between.join(map(str, values))
