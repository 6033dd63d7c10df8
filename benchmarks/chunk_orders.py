"""Requests and bytes that reads of a packed file need, by the order of its chunks.

``python -m benchmarks.chunk_orders`` packs an array that grew on three axes in turn, and counts how
many requests to a server each read takes if chunks are fetched whole, and gaps up to a size are
read rather than skipped.  Nothing is timed.  `docs/format/blobs.md` has the table.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np

import extarray as xa

CHUNKS, START, STOP = (19, 27, 60), (95, 108, 180), (228, 270, 360)
ORDERS = ("address", "morton", "hilbert", 0, 2)
GAPS = (256 << 10, 512 << 10)


def grown(path):
    """Make the array: 16 segments, 720 chunks of 120 KiB, none of them empty."""
    a = xa.create(path, START, "f4", chunks=CHUNKS)
    axis = 0
    while a.shape != STOP:
        if (n := min(CHUNKS[axis], STOP[axis] - a.shape[axis])) > 0:
            a.extend(axis, n)
        axis = (axis + 1) % 3
    a[...] = 1
    return a


def reads():
    """Return boxes by the name of the read."""
    whole = [(0, n) for n in STOP]
    rng = np.random.default_rng(0)
    corners = [[int(rng.integers(0, n - 32)) for n in STOP] for _ in range(5)]
    found = {
        "box 16³": [[(100, 116), (130, 146), (50, 66)]],
        "5 boxes 32³": [[(x, x + 32) for x in corner] for corner in corners],
    }
    for axis, at in enumerate((100, 100, 77)):
        box = [*whole]
        box[axis] = (at, at + 1)
        found[f"plane {axis}"] = [box]
    for axis in range(3):
        found[f"series {axis}"] = [[whole[j] if j == axis else (99, 100) for j in range(3)]]
    return found


def places(path):
    """Return first byte and end of each chunk, by its index."""
    with xa.open(path) as a:
        refs = a.to_kerchunk()["refs"]
    found = {}
    for index in itertools.product(*[range(-(-n // c)) for n, c in zip(STOP, CHUNKS, strict=True)]):
        _, first, size = refs[".".join(map(str, index))]
        found[index] = first, first + size
    return found


def cost(where, boxes, gap):
    """Return the number of requests, and the bytes read in terms of those of the chunks."""
    requests = wanted = read = 0
    for box in boxes:
        spans = [
            range(low // c, (high - 1) // c + 1) for (low, high), c in zip(box, CHUNKS, strict=True)
        ]
        runs = sorted(where[index] for index in itertools.product(*spans))
        end = -gap - 1
        for first, stop in runs:
            if first - end > gap:
                requests += 1
                read += stop - first
            else:
                read += stop - end
            wanted += stop - first
            end = stop
    return requests, read / wanted


def planes(where, axis, gap):
    """Return the most requests that any plane across an axis takes."""
    box = [(0, n) for n in STOP]
    return max(
        cost(where, [[*box[:axis], (at, at + 1), *box[axis + 1 :]]], gap)[0]
        for at in range(0, STOP[axis], CHUNKS[axis])
    )


def main():
    names = reads()
    head = ["order", "gaps", *names, "worst planes"]
    print("|", " | ".join(head), "|\n|", " | ".join(["---"] * len(head)), "|")
    with tempfile.TemporaryDirectory() as folder, grown(Path(folder) / "a") as a:
        for order in ORDERS:
            path = Path(folder) / f"{order}.xap"
            xa.pack(a, path, order=order)
            where = places(path)
            for gap in GAPS:
                cells = [cost(where, boxes, gap) for boxes in names.values()]
                row = [f"{n} / {share:.2f}" for n, share in cells]
                worst = " / ".join(str(planes(where, axis, gap)) for axis in range(3))
                what = f"axis {order}" if isinstance(order, int) else order
                print("|", " | ".join([what, f"{gap >> 10} KiB", *row, worst]), "|")
            path.unlink()


if __name__ == "__main__":
    main()
