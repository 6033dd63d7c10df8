"""Create arrays; change their extent, elements and attributes; repack them."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from extarray.cli._command import (
    COMPRESSION,
    JSON,
    OVERWRITE,
    WrongCall,
    argument,
    array_path,
    axis_of,
    choice,
    click,
    codec_of,
    command,
    flag,
    integers,
    option,
    several,
    usage_error,
    wrong_calls,
)
from extarray.cli._output import plain, print_json
from extarray.cli._selection import parse_selection, parse_value, value_for
from extarray.cli.exchange import elements_in
from extarray.cli.look import is_folder, is_group, opened, opened_group
from extarray.common.choices import ORDERS
from extarray.common.errors import CastingError, DTypeError, ShapeError, VariableError
from extarray.common.formatting import format_bytes
from extarray.common.terminal import print_text, printable

__all__ = [
    "AXIS",
    "SIDE",
    "TIMEOUT",
    "attrs",
    "create",
    "extend",
    "opened_for_writing",
    "repack",
    "set_",
    "shrink",
]

SIDE = choice("--side", ("end", "start"), "end of the axis to change (default: end)", default="end")
AXIS = option(
    "--axis", "AXIS", "number or name of the axis (default: 0)", type=axis_of, default="0"
)
TIMEOUT = option(
    "--timeout",
    "SECONDS",
    "wait at most this long for another writer (default: do not wait)",
    type=click.FloatRange(min=0),
    default=0.0,
)


def opened_for_writing(path: str, timeout: float) -> Any:
    """Open an array as its writer."""
    import extarray as xa

    with wrong_calls():
        return xa.open(path, "r+", timeout=timeout)


@command(
    "create",
    "create an array filled with one value",
    array_path(),
    option("--shape", "N,...", "elements along each axis", type=integers, required=True),
    option("--dtype", "TYPE", "data type of the elements (default: f8)", default="f8"),
    option("--chunks", "N,...", "chunk shape: one number, or one for each axis", type=integers),
    option("--fill", "VALUE", "fill value (default: 0)"),
    option("--dims", "NAME,...", "names of the axes", type=lambda text: text.split(",")),
    choice("--order", ORDERS, "order of the elements in a chunk", default="C"),
    flag("--sparse", "leave holes when growing, which take no disk space"),
    flag("--checksum", "keep a checksum of each chunk"),
    COMPRESSION,
    OVERWRITE,
)
def create(path: str, shape: tuple[int, ...], chunks: tuple[int, ...] | None, **given: Any) -> None:
    """Create an array."""
    import extarray as xa

    with wrong_calls(CastingError, DTypeError, ShapeError):  # no file is read
        dtype = _dtype(given["dtype"])
        fill = given["fill"]
        # Leave out sparse=False: the default depends on the file system.
        holes: dict[str, Any] = {"sparse": True} if given["sparse"] else {}
        xa.create(
            path,
            shape,
            dtype,
            chunks=chunks[0] if chunks is not None and len(chunks) == 1 else chunks,
            fill_value=0 if fill is None else value_for(fill, dtype)[()],
            order=given["order"],
            checksum=given["checksum"],
            dims=given["dims"],
            overwrite=given["overwrite"],
            **codec_of(given["compression"]),
            **holes,
        ).close()


def _dtype(text: str) -> np.dtype[Any]:
    """Parse a data type; records are written ``name:type``, separated by commas."""
    try:
        if ":" in text:
            return np.dtype([_field(part) for part in text.split(",")])
        return np.dtype(text)
    except (TypeError, ValueError) as error:
        raise WrongCall(f"--dtype {text!r} is not a NumPy data type: {error}") from None


def _field(text: str) -> tuple[str, str]:
    name, _, kind = text.partition(":")
    return name, kind


# -- growth --------------------------------------------------------------------------------------


@command(
    "extend",
    "extend an axis with elements of the fill value",
    array_path(),
    AXIS,
    option("--by", "N", "number of elements", type=int, required=True),
    SIDE,
    TIMEOUT,
    details="If PATH is a folder, all arrays in it and below that have an axis of this name grow "
    "together, in one commit.",
)
def extend(path: str, axis: int | str, by: int, side: Any, timeout: float) -> None:
    """Extend an array, or the arrays of a group."""
    if is_folder(path):
        if not isinstance(axis, str):
            raise usage_error("arrays in a folder grow along a named axis; give its name")
        with opened_group(path, "r+", timeout) as group, wrong_calls():
            group.extend(axis, by, side)
        return
    with opened_for_writing(path, timeout) as a, wrong_calls():
        a.extend(axis, by, side)


@command(
    "shrink",
    "remove elements from the end or the start of an axis",
    array_path(),
    AXIS,
    option("--by", "N", "number of elements", type=int, required=True),
    SIDE,
    TIMEOUT,
    details="The removed elements are lost.",
)
def shrink(path: str, axis: int | str, by: int, side: Any, timeout: float) -> None:
    """Shrink an array."""
    with opened_for_writing(path, timeout) as a, wrong_calls():
        a.shrink(axis, by, side)


# -- elements and attributes ---------------------------------------------------------------------


@command(
    "set",
    "set elements of an array to a value",
    array_path(),
    argument("selection", "SELECTION"),
    argument("value", "VALUE"),
    TIMEOUT,
    details="VALUE is a number, a string, a list such as '[1, 2]', or - to read a .npy file from "
    "standard input.  It is broadcast over the selection as in NumPy.",
    context_settings={"ignore_unknown_options": True},  # allow values such as -5
)
def set_(path: str, selection: str, value: str, timeout: float) -> None:
    """Assign to a selection."""
    index = parse_selection(selection)
    values: Any = None
    if value == "-":
        with elements_in(value) as found:
            values = found[...]
    with opened_for_writing(path, timeout) as a, wrong_calls():
        a[index] = value_for(value, a.lazy[index].dtype) if values is None else values


@command(
    "attrs",
    "print, set or delete attributes of an array or a folder",
    array_path(),
    several("names", "[NAME[=VALUE]]..."),
    option("--delete", "NAME", "delete an attribute; may be repeated", multiple=True),
    TIMEOUT,
    JSON,
    details="Without names, all attributes are printed.  NAME=VALUE sets an attribute: VALUE is "
    "read as JSON if possible, and else as a string.",
)
def attrs(
    path: str, names: tuple[str, ...], delete: tuple[str, ...], timeout: float, as_json: bool
) -> None:
    """Print or change attributes."""
    changes = {
        name: parse_value(value)
        for name, found, value in (text.partition("=") for text in names)
        if found
    }
    if len(changes) not in (0, len(names)) or (delete and len(changes) < len(names)):
        raise usage_error(
            "cannot print attributes and change them in one call; give either names, or "
            "NAME=VALUE and --delete"
        )
    if changes or delete:
        with (
            (
                opened_group(path, "r+", timeout)
                if is_folder(path)
                else opened_for_writing(path, timeout)
            ) as a,
            wrong_calls(),
        ):
            _change(a.attrs, changes, delete)
        return
    with opened_group(path) if is_group(path) else opened(path) as a:
        known = a.attrs.asdict()
    missing = [name for name in names if name not in known]
    if missing:
        there = ", ".join(known) or "none"
        raise VariableError(f"no attribute {missing[0]!r}; the attributes are: {there}")
    shown = {name: known[name] for name in names or known}
    if as_json:
        print_json(shown)
    elif len(names) == 1:
        print_text(_text(shown[names[0]]))
    else:
        for name, value in shown.items():
            print_text(f"{printable(name)}={_text(value)}")


def _change(attributes: Any, changes: dict[str, Any], delete: tuple[str, ...]) -> None:
    missing = [name for name in delete if name not in attributes]
    if missing:
        there = ", ".join(attributes) or "none"
        raise VariableError(f"no attribute {missing[0]!r} to delete; the attributes are: {there}")
    if changes:
        attributes.update(changes)  # in one commit
    for name in delete:
        del attributes[name]


def _text(value: Any) -> str:
    """Return a value in the syntax of the command."""
    value = plain(value)
    if isinstance(value, str) and value.isprintable() and parse_value(value) == value:
        return value
    return json.dumps(value)


# -- compressed chunks ---------------------------------------------------------------------------


@command(
    "repack",
    "drop what rewriting has left in the file of compressed chunks",
    array_path(),
    TIMEOUT,
    details="Those who have the array open for reading read on.  For a while, the disk has both "
    "files, the old one and the new one.",
)
def repack(path: str, timeout: float) -> None:
    """Repack an array in place; print the sizes of its file."""
    with opened_for_writing(path, timeout) as a, wrong_calls():
        before = _log_bytes(a)
        a.repack()
        print_text(f"{format_bytes(before)} before, {format_bytes(_log_bytes(a))} now")


def _log_bytes(array: Any) -> int:
    """Return the bytes of the file of compressed chunks, or 0."""
    try:
        return os.path.getsize(f"{array.path}.xtz")
    except FileNotFoundError:
        return 0
