"""Example files of the file format: one archive for each version, which later releases test.

  python tests/support/format_files.py

makes ``data/format-MAJOR.MINOR.zip`` for the version that the package writes, once, and
``data/blobs-MAJOR.MINOR.zip`` for that of packed arrays with chunks in another order, and
``data/codecs-MAJOR.MINOR.zip`` for compressed ones.  Files of a released version never change, so
an existing archive is left alone.  The content of arrays is stated here in NumPy's terms alone.
Add entries when the format learns something new; remove none.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa
from extarray.format.header import BLOBS_VERSION, VERSION

DATA = Path(__file__).parent / "data"
RECORD = np.dtype([("name", "S4"), ("at", "<f8", (2,)), ("ok", "?")])


@dataclass
class Example:
    """An array of an archive: its content, and how it was made."""

    values: np.ndarray
    attrs: dict[str, Any] = field(default_factory=dict)
    dims: tuple[str, ...] | None = None
    how: dict[str, Any] = field(default_factory=dict)


def _cube(dtype: str) -> np.ndarray:
    return np.arange(3 * 5 * 4, dtype=dtype).reshape(3, 5, 4)


def _grown() -> np.ndarray:
    """Return the content after `_grow`: 7 at the start, the middle, the fill value 9, the ends."""
    values = np.full((6, 7), 9, "<i4")
    values[1:4, 1:5] = np.arange(12).reshape(3, 4)
    values[0] = 7
    values[4:, 2] = [-1, -2]
    return values


def _grow(path: Path, example: Example) -> None:
    how = {"attrs": example.attrs, "dims": example.dims, **example.how}
    a = xa.create(path, (3, 4), "<i4", fill_value=9, **how)
    a[...] = np.arange(12).reshape(3, 4)
    a.extend(1, 4)
    a.extend(0, 1, side="start")
    a.extend(1, 1, side="start")
    a[0] = 7
    a.extend(0, 4)
    a[4:6, 2] = [-1, -2]
    a.shrink(0, 2)
    a.shrink(1, 2)
    a.close()


TYPES = {
    "big-endian": np.array([[1.5, -np.inf], [np.nan, 2.0**-1074]], ">f8"),
    "bool": np.array([True, False, True]),
    "complex": np.array([1 + 2j, -0.0j, np.nan], "<c8"),
    "dates": np.array(["1970-01-01", "2026-11-24", "NaT"], "<M8[s]"),
    "half": np.array([65504, 2.0**-24, -1], "<f2"),
    "records": np.array([(b"left", [1.0, -2.0], True), (b"", [np.inf, 0.0], False)], RECORD),
    "text": np.array([["", "ä"], ["日本", "\U0001f600x"]], "<U3"),
    "unsigned": np.array([0, 2**64 - 1], "<u8"),
}
EXAMPLES = {
    "grown": Example(
        _grown(),
        {"unit": "mm", "range": [0, 2.5], "when": np.datetime64("2026-11-24"), "ä": None},
        ("y", "x"),
        {"chunks": (2, 3)},
    ),
    **{
        f"order-{order}": Example(_cube("<u2"), how={"order": order, "chunks": (2, 2, 4)})
        for order in "CFZH"
    },
    "sums": Example(_cube("<f4"), how={"checksum": True, "chunks": (2, 3, 2)}),
    "doubling": Example(_cube("<i2"), how={"growth": "doubling", "chunks": (1, 2, 2)}),
    "sparse": Example(np.eye(40, dtype="|u1"), how={"sparse": True, "chunks": (8, 8)}),
    "scalar": Example(np.array(42, "<i8")),
    "empty": Example(np.zeros((0, 3), "<f8"), {"note": "nothing yet"}),
    **{f"type-{name}": Example(values) for name, values in TYPES.items()},
}
#: Arrays of a group, extended by one commit; their axis "time" has 3 entries.
GROUP = {
    "time": np.array([10, 20, 30], "<i8"),
    "masts/wind": np.arange(6, dtype="<f4").reshape(3, 2),
}
#: Orders in which the grown array is packed in format 3.
BLOBS = ("hilbert", "morton", "x")
#: Codecs by which an array with chunks of several parts is packed in format 3.
CODECS = ("zstd:shuffle", "zstd:bitshuffle", "lz4", "zlib:shuffle", "zstd")
#: Content that compresses: chunks of (300, 500) of smooth values, one value, and the fill value.
COMPRESSED = np.add.outer(np.arange(600) // 30, np.arange(1000) // 70).astype("<f4")
COMPRESSED[:300, 500:] = 7
COMPRESSED[300:, :500] = -1
#: Content left by a killed writer: the state is not sealed, and `.xta` may be longer.
UNSEALED = np.arange(10, dtype="<i4").reshape(5, 2)


def make(folder: Path) -> None:
    for name, example in EXAMPLES.items():
        if name == "grown":
            _grow(folder / name, example)
            continue
        values = example.values
        a = xa.create(folder / name, values.shape, values.dtype, attrs=example.attrs, **example.how)
        a[...] = values
        a.close()
    with xa.open_group(folder / "group", "w") as g:
        g.attrs["title"] = "two arrays"
        g.create("time", 0, "<i8", chunks=4, dims=["time"])
        g.create("masts/wind", (0, 2), "<f4", chunks=(2, 2), dims=["time", "mast"])
        g.extend("time", 3)
        for name, values in GROUP.items():
            g[name][...] = values
    with xa.open_group(folder / "group") as g:
        xa.pack(g, folder / "packed.xap")
    a = xa.create(folder / "alive", (0, 2), "<i4", chunks=(2, 2))
    a.append(UNSEALED)
    a.flush()
    for suffix in (".xmd", ".xta"):
        shutil.copyfile(folder / f"alive{suffix}", folder / f"unsealed{suffix}")
    a.close()
    for suffix in (".xmd", ".xta"):
        (folder / f"alive{suffix}").unlink()


def make_blobs(folder: Path) -> None:
    _grow(folder / "grown", EXAMPLES["grown"])
    with xa.open(folder / "grown") as a:
        for order in BLOBS:
            xa.pack(a, folder / f"{order}.xap", order=order)
    for suffix in (".xmd", ".xta"):
        (folder / f"grown{suffix}").unlink()


def make_codecs(folder: Path) -> None:
    with xa.create(folder / "a", (600, 500), "<f4", chunks=(300, 500), fill_value=-1) as a:
        a.extend(1, 500)
        a[...] = COMPRESSED
        for codec in CODECS:
            xa.pack(a, folder / f"{codec.replace(':', '-')}.xap", compression=codec)
    for suffix in (".xmd", ".xta"):
        (folder / f"a{suffix}").unlink()


def _archive(archive: Path, make: Callable[[Path], None]) -> str | None:
    """Make an archive of files, unless it is there; then say so."""
    if archive.exists():
        return f"{archive} is there: files of a version never change"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        # Metadata are mostly zeros.
        with zipfile.ZipFile(archive, "x", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for file in sorted(p for p in folder.rglob("*") if p.is_file()):
                out.write(file, file.relative_to(folder).as_posix())
    print(f"{archive}: {archive.stat().st_size} bytes")
    return None


def main() -> str | None:
    """Make the archives of the versions that the package writes."""
    version = f"{BLOBS_VERSION[0]}.{BLOBS_VERSION[1]}"
    blobs = _archive(DATA / f"blobs-{version}.zip", make_blobs)
    codecs = _archive(DATA / f"codecs-{version}.zip", make_codecs)
    return _archive(DATA / f"format-{VERSION[0]}.{VERSION[1]}.zip", make) or blobs or codecs


if __name__ == "__main__":
    sys.exit(main())
