"""Facts as text: sizes, attributes, fill values, and a dict that prints as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "SIZES_OF_FILES",
    "Info",
    "format_attrs",
    "format_bytes",
    "format_disk",
    "format_fill",
    "format_tree",
    "shape_text",
    "text_of",
]

# Nonzero only after growth at the start; otherwise they get no line.
_SHIFTS = ("origin", "offset")

#: Facts that an array in memory lacks.
SIZES_OF_FILES = ("file_bytes", "disk_bytes", "metadata_bytes")

# Most attributes, and characters of one, that a table shows.
_MOST_ATTRS = 20
_LONGEST_ATTR = 60

# Most characters of an element.
_MOST_TEXT = 200

# Most values in an element of a record type that a table shows.
_MOST_PARTS = 100


def format_fill(value: Any) -> str:
    """Return a fill value as text; of a long record, only its size.

    Examples
    --------
    >>> import numpy as np
    >>> format_fill(np.float64(0.5))
    '0.5'
    >>> format_fill(np.zeros((), [("image", "u1", (512, 512))])[()])
    '(a record of 256.0 KiB)'
    """
    dtype = np.asarray(value).dtype
    if _parts(dtype) > _MOST_PARTS:
        return f"(a record of {format_bytes(dtype.itemsize)})"
    try:
        return str(value)
    except ValueError:  # NumPy does not print a date without a unit
        return f"({dtype})"


def _parts(dtype: Any) -> int:
    """Return the number of values in an element; an extent of 0 counts as 1, as in printing."""
    if dtype.subdtype is not None:
        base, extents = dtype.subdtype
        n: int = math.prod(max(1, n) for n in extents)
        return n * _parts(base)
    return sum(_parts(dtype[name]) for name in dtype.names) if dtype.names else 1


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as NumPy prints it in its messages.

    Examples
    --------
    >>> shape_text((2, 3)), shape_text((4,))
    ('(2,3)', '(4,)')
    """
    return str(shape).replace(" ", "")


def format_bytes(n: int) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> format_bytes(5_242_880)
    '5.0 MiB'
    """
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1024 or unit == "PiB":
            break
        size /= 1024
    return f"{n} B" if unit == "B" else f"{size:.1f} {unit}"


def format_disk(facts: Mapping[str, Any]) -> str:
    """Return the bytes that an array takes on the disk, and how it is compressed, as text.

    `facts` is a result of `ExtArray.info`.

    Examples
    --------
    >>> format_disk({"disk_bytes": 3 << 20})
    '3.0 MiB'
    >>> format_disk({"disk_bytes": 3 << 20, "compression": "zstd", "ratio": 1.954})
    '3.0 MiB, zstd, ratio 1.95'
    >>> facts = {"disk_bytes": 3 << 20, "compression": "zstd", "ratio": 1.954}
    >>> format_disk({**facts, "frozen_chunks": 40, "grid": (6, 8)})
    '3.0 MiB, zstd, ratio 1.95, 40 of 48 chunks frozen'
    """
    parts = [format_bytes(facts["disk_bytes"])]
    codec, frozen = facts.get("compression"), facts.get("frozen_chunks")
    if codec is not None:
        parts.append(printable(codec))
    if codec is not None or frozen:
        parts.append(f"ratio {facts['ratio']:.2f}")
    if frozen is not None:
        parts.append(f"{frozen} of {math.prod(facts['grid'])} chunks frozen")
    return ", ".join(parts)


def format_attrs(facts: Mapping[str, Any]) -> list[str]:
    """Return names and values of attributes, one a line, without ``"dims"`` if it is shown anyway.

    `facts` is a result of `ExtArray.info`.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.create(None, (2,), dims=["x"], attrs={"unit": "mm", "gain": [1.5] * 50})
    >>> for line in format_attrs(a.info()):
    ...     print(line)
    unit: 'mm'
    gain: [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, ...
    """
    attrs = {
        name: value
        for name, value in facts["attrs"].items()
        if name != "dims" or facts["dims"] is None
    }
    lines = []
    for name, value in list(attrs.items())[:_MOST_ATTRS]:
        shown = " ".join(part.strip() for part in repr(value).splitlines())  # arrays take several
        line = printable(f"{name}: {shown}")
        lines.append(line if len(line) <= _LONGEST_ATTR else f"{line[: _LONGEST_ATTR - 3]}...")
    if len(attrs) > _MOST_ATTRS:
        lines.append(f"... and {len(attrs) - _MOST_ATTRS} more")
    return lines


# On the file of raw chunks where others are frozen, in lines of a table that fits 80 columns.
_HOLES = (
    "the .xta file is long and hollow: `extarray copy`,",
    "`extarray pack`, `cp` of GNU and `tar -S` keep its holes;",
    "other programs may fill them",
)


class Info(dict[str, Any]):
    """Facts of an array; ``str()`` of it is a table.

    Examples
    --------
    >>> import extarray as xa
    >>> print(xa.zeros((4, 3), "i2", chunks=(2, 2)).info())
    path             (in memory)
    shape            (4, 3)
    dtype            int16
    chunks           (2, 2)
    grid             (2, 2)
    order            C
    fill value       0
    engine           memory
    mode             r+
    segments         1
    records          (1, 0)
    logical bytes    24 B
    allocated bytes  32 B
    utilisation      75.0 %
    """

    def __str__(self) -> str:
        rows: list[tuple[str, str]] = []
        for key, value in self.items():
            if key in SIZES_OF_FILES and self["path"] is None:
                continue
            if key.endswith("_bytes"):
                text = format_bytes(value)
            elif key == "utilisation":
                text = f"{100 * value:.1f} %"
            elif key == "ratio":
                text = f"{value:.2f}"
            elif (key in _SHIFTS and not any(value)) or (key == "growth" and value == "exact"):
                continue
            elif value is None:
                if key != "path":
                    continue
                text = "(in memory)"
            elif key == "attrs":
                rows += zip(["attrs", *[""] * len(value)], format_attrs(self), strict=False)
                continue
            elif key == "fill_value":
                text = format_fill(value)
            else:
                text = printable(str(value))
            rows.append((key.replace("_", " "), text))
        if self.get("frozen_chunks") and self["path"] is not None:
            rows += zip(("note", "", ""), _HOLES, strict=True)
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def format_tree(head: str, rows: Sequence[tuple[int, str, str]]) -> str:
    """Return a tree as text: a head, and rows of (depth, name, facts).

    Examples
    --------
    >>> print(format_tree("all", [(0, "a", ""), (1, "b", "(3,)"), (0, "c", "(4,)")]))
    all
    ├── a
    │   └── b  (3,)
    └── c  (4,)
    """
    lines = []
    open_depths: set[int] = set()  # depths with more rows below
    for depth, name, facts in reversed(rows):
        open_depths = {d for d in open_depths if d <= depth}
        stem = "".join("│   " if d in open_depths else "    " for d in range(depth))
        row = printable(f"{name}  {facts}".rstrip())
        lines.append(f"{stem}{'├' if depth in open_depths else '└'}── {row}")
        open_depths.add(depth)
    return "\n".join([printable(head), *reversed(lines)])


def text_of(value: Any) -> str:
    """Return a value as readable text.

    Examples
    --------
    >>> import numpy as np
    >>> text_of(np.float32(0.1)), text_of(np.datetime64("2024-05-01")), text_of(np.bool_(True))
    ('0.1', '2024-05-01', 'True')
    """
    if isinstance(value, bytes):
        text = repr(bytes(value))
    elif isinstance(value, np.str_):
        text = repr(str(value))
    else:
        text = str(value)
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
