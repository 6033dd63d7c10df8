"""Print tables and JSON on any terminal."""

from __future__ import annotations

import datetime as dt
import importlib.util
import itertools
import json
import math
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import LimitError
from extarray.common.extras import require
from extarray.common.lazy import LazyModule
from extarray.common.terminal import print_text, printable

if TYPE_CHECKING:
    import shutil
else:
    shutil = LazyModule("shutil")

__all__ = ["folded", "plain", "print_json", "print_table", "table"]

# Characters to which a column is narrowed before its words are broken further.
_LEAST_COLUMN = 8


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    try:
        text = json.dumps(plain(value), allow_nan=False)
    except RecursionError:
        raise LimitError("the output is nested too deeply for JSON") from None
    print_text(text.replace("\x7f", "\\u007f"))  # the one control character that json leaves


def plain(value: Any) -> Any:
    """Convert a value to types that JSON has.

    NaN and infinities become the strings "NaN", "Infinity" and "-Infinity"; complex numbers become
    pairs, records lists, and bytes and dates strings.

    Examples
    --------
    >>> plain({"shape": (2, 3), "dtype": np.dtype("u2"), "fill": np.float32("nan")})
    {'shape': [2, 3], 'dtype': 'uint16', 'fill': 'NaN'}
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (np.datetime64, np.timedelta64, np.dtype, os.PathLike, dt.date)):
        return str(value)  # before integers, since NumPy counts timedelta64 as one
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if math.isfinite(number):
            return number
        return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, slice):
        return [value.start, value.stop] if value.step is None else list(value.indices(1 << 62))
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "Mm":
            return value.astype(str).tolist()
        if value.dtype.kind in "biuSU":
            return plain(value.tolist())
        return [plain(item) for item in value] if value.ndim else plain(value[()])
    if isinstance(value, (complex, np.complexfloating)):
        return [plain(float(value.real)), plain(float(value.imag))]
    if isinstance(value, np.void) and value.dtype.names:
        return [plain(value[name]) for name in value.dtype.names]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (bytes, np.void)):
        return bytes(value).decode("ascii", "backslashreplace")
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[Any]], left: Sequence[int] = ()
) -> None:
    """Print columns aligned to the right, or left if in `left`; coloured if rich is installed.

    On a terminal, and where COLUMNS is set, cells take several lines if the rows are too long.
    """
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        head, *texts = folded([head, *texts], shutil.get_terminal_size().columns or 80)
    if not (sys.stdout.isatty() and importlib.util.find_spec("rich") is not None):
        print_text(table([head, *texts], left))
        return
    tables: Any = require("rich.table", "cli", "tables")
    styled: Any = require("rich.text", "cli", "tables")
    made = tables.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold cyan")
    for number, name in enumerate(head):
        made.add_column(name, justify="left" if number in left else "right", overflow="fold")
    for row in texts:
        made.add_row(*(styled.Text(cell) for cell in row))
    consoles: Any = require("rich.console", "cli", "tables")
    consoles.Console(file=sys.stdout, highlight=False).print(made)


def folded(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    r"""Return rows whose cells have line feeds where columns must be narrower to fit a width.

    The widest columns are folded first, between words, and only then within words.

    Examples
    --------
    >>> folded([("name", "shape"), ("scene", "y=4, x=9")], 12)
    [['name', 'shape'], ['scene', 'y=4,\nx=9']]
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(word) for cell in column for word in cell.split(" ")) for column in columns]
    room = width - 2 * (len(columns) - 1)
    for least in (words, [min(n, _LEAST_COLUMN) for n in words]):
        while sum(widths) > room and any(n > m for n, m in zip(widths, least, strict=True)):
            widest = max((j for j, n in enumerate(widths) if n > least[j]), key=lambda j: widths[j])
            widths[widest] -= 1
    return [
        ["\n".join(textwrap.wrap(cell, n)) or "" for cell, n in zip(row, widths, strict=True)]
        for row in rows
    ]


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (), indent: str = "") -> str:
    """Return rows as text, with each column as wide as its widest line.

    Examples
    --------
    >>> print(table([("axis", "by"), ("y", "12")], left=(0,)))
    axis  by
    y     12
    """
    split = [[cell.split("\n") for cell in row] for row in rows]
    columns = zip(*split, strict=True)
    widths = [max(len(line) for cell in column for line in cell) for column in columns]
    lines = []
    for row in split:
        for parts in itertools.zip_longest(*row, fillvalue=""):
            cells = (
                value.ljust(width) if column in left else value.rjust(width)
                for column, (value, width) in enumerate(zip(parts, widths, strict=True))
            )
            lines.append(f"{indent}{'  '.join(cells)}".rstrip())
    return "\n".join(lines)
