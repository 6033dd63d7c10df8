"""Show arrays: ``info``, ``show``, ``dump``, ``history`` and ``follow``."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from typing import Any

import numpy as np

from extarray.cli._alone import print_info
from extarray.cli._command import (
    JSON,
    argument,
    array_path,
    axis_of,
    click,
    command,
    flag,
    option,
    wrong_calls,
)
from extarray.cli._output import plain, print_json, print_table
from extarray.common.formatting import format_bytes
from extarray.common.lazy import LazyImports
from extarray.common.limits import limits
from extarray.common.terminal import print_text, printable
from extarray.storage.filesystem import has_files

__all__ = [
    "HISTORY",
    "dump",
    "follow",
    "history",
    "history_rows",
    "info",
    "is_folder",
    "is_group",
    "opened",
    "opened_group",
    "show",
]

_later = LazyImports(
    {
        "extarray.cli._selection": "parse_selection",
        "extarray.grid.growth_map": "axis_titles segments",
        "extarray.maintenance.group_index": "names_in_group",
    }
)

#: Elements that NumPy prints at both ends of a long axis, and the size up to which it prints all.
_EDGE, _MOST = 3, 1000

HISTORY = ("segment", "axis", "by", "first index", "start address", "chunks")


def is_folder(path: str) -> bool:
    """Tell whether a path names a folder but no array."""
    return os.path.isdir(path) and not has_files(path)


def is_group(path: str) -> bool:
    """Tell whether a path names a folder, or a group in a packed file or elsewhere."""
    return is_folder(path) or (not has_files(path) and _later.names_in_group(path) is not None)


def opened_group(path: str, mode: str = "r", timeout: float = 0.0) -> Any:
    """Open a folder, or a packed file, as a group."""
    import extarray as xa

    with wrong_calls():
        return xa.open_group(path, mode, timeout=timeout)


def opened(path: str) -> Any:
    """Open an array for reading."""
    import extarray as xa

    with wrong_calls():
        return xa.open(path, mode="r")


@command(
    "info",
    "print shape, data type, chunks, growth, sizes and attributes of an array",
    array_path(),
    JSON,
)
def info(path: str, as_json: bool) -> None:
    """Print the table of `ExtArray.info`."""
    with wrong_calls():
        print_info(path, as_json)


# -- elements ------------------------------------------------------------------------------------


@command(
    "show",
    "print elements of an array as NumPy does",
    array_path(),
    argument("selection", "[SELECTION]", required=False, default="..."),
    flag("--all everything", "print all elements, without summarizing"),
    JSON,
    details="SELECTION, such as '[3:10, :, 5]', consists of integers, slices, ..., lists of "
    "integers, and field names.  A large selection is summarized, and only its edges are "
    "read.",
    context_settings={"ignore_unknown_options": True},  # allow indices such as -1
)
def show(path: str, selection: str, everything: bool, as_json: bool) -> None:
    """Print a selection."""
    index = _later.parse_selection(selection)
    with opened(path) as a:
        if as_json:
            print_json(a[index])
            return
        view = a.lazy[index]
        if everything or view.size <= _MOST:
            text = np.array2string(np.asarray(a[index]), threshold=np.iinfo(np.intp).max)
        else:
            text = np.array2string(_edges(view), threshold=0, edgeitems=_EDGE)
    print_text(text)


def _edges(view: Any) -> Any:
    """Return the edges of a view with one element between them, which is not printed."""
    places = [
        np.arange(n) if n <= 2 * _EDGE else np.r_[0 : _EDGE + 1, n - _EDGE : n] for n in view.shape
    ]
    return view[np.ix_(*places)]


@command(
    "dump",
    "print an array as text, in the layout of ncdump",
    array_path(),
    flag("--header", "leave out the elements"),
    details="Prints axes, data type, attributes and elements.",
)
def dump(path: str, header: bool) -> None:
    """Print the header, and the elements in bounded memory."""
    with opened(path) as a:
        name = printable(a.path.name)
        names = [title.replace(" ", "_") for title in _later.axis_titles(a.dims, a.ndim)]
        print_text(f"extarray {name} {{")
        if names:
            print_text("dimensions:")
        for title, n in zip(names, a.shape, strict=True):
            print_text(f"    {title} = {n} ;")
        print_text(f"variables:\n    {a.dtype} {name}({', '.join(names)}) ;")
        for key, value in a.attrs.asdict().items():
            if key != "dims":
                print_text(f"        {name}:{_word(key)} = {_literal(value)} ;")
        for key, fact in (
            ("_chunks", list(a.chunks)),
            ("_fill_value", a.fill_value),
            ("_order", a.order),
        ):
            print_text(f"        {name}:{key} = {_literal(fact)} ;")
        if not header:
            print_text(f"data:\n    {name} =")
            _print_elements(a)
        print_text("}")


def _print_elements(a: Any) -> None:
    """Print all elements, one line for each row along the last axis or for a part of a long row."""
    from extarray.formats.transfer import runs

    end = ""
    for box in runs(a.shape, a.itemsize, limits.printed_bytes):
        values = a[(*box, ...)]
        rows = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
        for row in rows:
            print_text(f"{end}        {', '.join(map(_literal, row))}", end="")
            end = ",\n"
    print_text(" ;")


def _literal(value: Any) -> str:
    """Return a value as a constant; several are separated by commas."""
    value = plain(value)
    if isinstance(value, list) and value and not any(isinstance(v, (list, dict)) for v in value):
        return ", ".join(map(json.dumps, value))
    return json.dumps(value)


def _word(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


# -- growth --------------------------------------------------------------------------------------


@command("history", "print how an array grew, one line for each segment", array_path(), JSON)
def history(path: str, as_json: bool) -> None:
    """Print the segments in order of their addresses."""
    with opened(path) as a:
        found, names = _later.segments(a), _later.axis_titles(a.dims, a.ndim)
        if as_json:
            print_json([one._asdict() for one in found])
            return
        rows = history_rows(found, names)
        nbytes = [format_bytes(one.size * a.chunk_bytes) for one in found]
    sizes = [(*row, size) for row, size in zip(rows, nbytes, strict=True)]
    print_table((*HISTORY, "bytes"), sizes, left=(1,))


def history_rows(found: Any, names: Any) -> list[tuple[str, ...]]:
    """Return the rows of a table of segments with the head `HISTORY`."""
    return [
        (
            str(number),
            names[one.axis],
            *map(str, (one.by, one.start_index, one.start_address, one.size)),
        )
        for number, one in enumerate(found)
    ]


@command(
    "follow",
    "print new elements as another process appends them",
    array_path(),
    option("--axis", "AXIS", "number or name of the axis (default: 0)", type=axis_of, default="0"),
    option(
        "--timeout",
        "SECONDS",
        "stop if nothing arrives for this long (default: never)",
        type=click.FloatRange(min=0),
    ),
    option("--count", "N", "stop after this many arrivals", type=click.IntRange(min=1)),
    JSON,
    details="Prints the selection and the elements of each arrival; with --json, one line for "
    "each.  Press Ctrl-C to stop.",
)
def follow(
    path: str, axis: int | str, timeout: float | None, count: int | None, as_json: bool
) -> None:
    """Print arrivals until Ctrl-C, which is the usual end."""
    with contextlib.suppress(KeyboardInterrupt), opened(path) as a:
        with wrong_calls():
            news = a.follow(axis, timeout)
        for selection, data in itertools.islice(news, count):
            if as_json:
                print_json({"selection": selection, "data": data})
            else:
                parts = ", ".join(f"{part.start}:{part.stop}" for part in selection)
                print_text(f"[{parts}]\n{data}")
