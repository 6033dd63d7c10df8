"""Arrays of every kind that have grown on all sides and been cut."""

from __future__ import annotations

import numpy as np

import extarray as xa

__all__ = ["KINDS", "RECORD", "grown"]

RECORD = np.dtype([("a", "<i4"), ("b", "<f8", 2)])
KINDS = {
    "C": {},
    "F": {"order": "F"},
    "Z": {"order": "Z", "chunks": (4, 4)},
    "H": {"order": "H", "chunks": (4, 4)},
    "sparse": {"sparse": True, "chunks": 64},
    "checksums": {"checksum": True},
    "records": {"dtype": RECORD},
    "fill value": {"fill_value": 7},
    "big-endian": {"dtype": ">i2"},
    "grows ahead": {"growth": "doubling"},
}


def grown(path, **options):
    """Make an array that has grown on all sides and been cut."""
    a = xa.create(path, (5, 4), **{"dtype": "i4", "chunks": (2, 3), **options})
    rng = np.random.default_rng(1)

    def fill():
        raw = rng.integers(0, 100, a.shape)
        if a.dtype == RECORD:
            a[...] = np.rec.fromarrays([raw, np.stack([raw, raw], -1)], dtype=RECORD)
        else:
            a[...] = raw.astype(a.dtype)

    fill()
    a.extend(1, 5)
    a.extend(0, 3, "start")
    a.extend(1, 2, "start")
    fill()
    a.shrink(0, 2)
    a.shrink(1, 1, side="start")
    a.extend(1, 2)
    a.attrs["unit"] = "mm"
    return a
