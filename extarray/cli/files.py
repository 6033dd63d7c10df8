"""List, copy, move, remove and pack arrays and folders of them."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from extarray.cli._command import (
    BITS,
    COMPRESSION,
    JSON,
    OVERWRITE,
    SPARSE,
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
    wrong_calls,
)
from extarray.cli._output import print_json, print_table
from extarray.cli.look import is_folder, is_group, opened, opened_group
from extarray.common.choices import ORDERS
from extarray.common.errors import ExtArrayError, MissingError
from extarray.common.formatting import format_bytes, format_disk, format_tree
from extarray.common.system import uninterrupted
from extarray.common.terminal import print_text
from extarray.fetched.paths import NOT_THERE
from extarray.format.suffixes import split_name
from extarray.maintenance.group_files import is_in_the_making
from extarray.maintenance.rechunk_files import remove_pair
from extarray.remote.urls import is_url
from extarray.storage.file_store import FileStore
from extarray.storage.filesystem import has_files, resolve_path
from extarray.storage.filesystem import is_folder as is_folder_entry

__all__ = ["copy", "index", "ls", "mv", "pack", "rm", "tree", "unpack"]


# -- folders -------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """An array or a folder in a folder; if an array cannot be opened, only its error."""

    name: str
    path: str
    is_folder: bool
    facts: Any = None
    error: str | None = None

    def told(self) -> dict[str, Any]:
        """Convert the entry for JSON."""
        if self.is_folder:
            return {"name": self.name, "kind": "folder"}
        if self.error is not None:
            return {"name": self.name, "kind": "array", "error": self.error}
        keys = ["shape", "dtype", "chunks", "dims", "segments", "logical_bytes", "disk_bytes"]
        keys += [key for key in ("compression", "ratio", "frozen_chunks") if key in self.facts]
        return {"name": self.name, "kind": "array", **{key: self.facts[key] for key in keys}}


def _entries(folder: str) -> list[_Entry]:
    """Return the arrays and folders in a folder, sorted by name."""
    stems, folders = set(), []
    with os.scandir(folder) as found:
        for entry in found:
            stem, suffix = split_name(entry.name)
            if is_folder_entry(entry):
                if not is_in_the_making(entry.name):
                    folders.append(entry.name)
            elif suffix:
                stems.add(stem)
    entries = [_Entry(name, os.path.join(folder, name), True) for name in folders]
    entries += [_array(stem, os.path.join(folder, stem)) for stem in stems]
    return sorted(entries)


def _array(name: str, path: str) -> _Entry:
    try:
        with opened(path) as a:
            return _Entry(name, path, False, a.info())
    except (ExtArrayError, OSError, WrongCall) as error:
        return _Entry(name, path, False, None, " ".join(str(error).split()))


def _listed(path: str) -> list[_Entry]:
    """Return the entries of a folder or packed group, or of one array."""
    if is_folder(path):
        return _entries(path)
    try:
        with opened(path) as a:
            return [_Entry(a.path.name, path, False, a.info())]
    except ExtArrayError as error:
        if not (os.path.isfile(path) or (is_url(path) and isinstance(error, NOT_THERE))):
            raise
    with opened_group(path) as group:
        return _packed(group)


def _packed(group: Any) -> list[_Entry]:
    """Return the entries of a group in a packed file."""
    found = [_Entry(name, "", True) for name, _ in group.groups()]
    found += [_Entry(name, "", False, a.info()) for name, a in group.arrays()]
    return sorted(found, key=lambda entry: entry.name)


_HEAD = ("name", "shape", "dtype", "chunks", "segments", "elements", "on disk")


def _row(entry: _Entry) -> tuple[str, ...]:
    if entry.is_folder:
        return (f"{entry.name}/", *[""] * 6)
    if entry.error is not None:
        return (entry.name, f"damaged or unreadable: {entry.error}", *[""] * 5)
    facts = entry.facts
    names = facts["dims"] or [None] * len(facts["shape"])
    parts = zip(names, facts["shape"], strict=True)
    shape = ", ".join(str(n) if name is None else f"{name}={n}" for name, n in parts)
    return (
        entry.name,
        shape or "()",
        str(facts["dtype"]),
        ", ".join(map(str, facts["chunks"])),
        str(facts["segments"]),
        format_bytes(facts["logical_bytes"]),
        format_disk(facts),
    )


@command(
    "ls",
    "list the arrays of a folder",
    array_path(metavar="[PATH]", required=False, default="."),
    JSON,
    details="PATH is the present folder by default.\n\nExit status: 1 if an array in the folder "
    "cannot be opened.",
)
def ls(path: str, as_json: bool) -> int:
    """List a folder, or one array."""
    entries = _listed(path)
    if as_json:
        print_json([entry.told() for entry in entries])
    elif entries:
        print_table(_HEAD, [_row(entry) for entry in entries], left=(0, 1, 2, 3))
    return int(any(entry.error is not None for entry in entries))


@command(
    "tree",
    "list the arrays of a folder and its subfolders as a tree",
    array_path(metavar="[PATH]", required=False, default="."),
    JSON,
    details="PATH is the present folder by default.  Folders without arrays are left out.  Links "
    "to folders are not followed.",
)
def tree(path: str, as_json: bool) -> int:
    """Draw the tree of a folder."""
    rows = _without_empty_folders(_rows(path))
    if as_json:
        print_json(_nested(rows))
    else:
        told = [(depth, _row(entry)) for depth, entry in rows]
        text = format_tree(
            path, [(depth, row[0], "  ".join(filter(None, row[1:3]))) for depth, row in told]
        )
        try:
            "├└│─".encode(sys.stdout.encoding or "utf-8")
        except UnicodeEncodeError:
            text = text.translate(str.maketrans("├└│─", "|`|-"))
        print_text(text)
    return int(any(entry.error is not None for _, entry in rows))


def _rows(path: str) -> Iterator[tuple[int, _Entry]]:
    """Yield the entries of a tree with their depths, each folder before its members."""
    entries = _listed(path)
    if any(entry.is_folder and not entry.path for entry in entries):
        with opened_group(path) as group:
            for key, item in group.walk():
                is_array = hasattr(item, "info")
                name = key.rpartition("/")[2]
                yield (
                    key.count("/"),
                    _Entry(name, "", not is_array, item.info() if is_array else None),
                )
        return
    left = [(0, entry) for entry in reversed(entries)]
    while left:
        depth, entry = left.pop()
        yield depth, entry
        if entry.is_folder and not os.path.islink(entry.path):
            with contextlib.suppress(FileNotFoundError):  # removed in the meantime
                left += [(depth + 1, inner) for inner in reversed(_entries(entry.path))]


def _without_empty_folders(rows: Iterable[tuple[int, _Entry]]) -> list[tuple[int, _Entry]]:
    """Return the rows of a tree without folders that have no arrays below."""
    found: list[tuple[int, _Entry]] = []
    for depth, entry in reversed(list(rows)):
        if not entry.is_folder or (found and found[-1][0] > depth):
            found.append((depth, entry))
    return found[::-1]


def _nested(rows: list[tuple[int, _Entry]]) -> list[dict[str, Any]]:
    """Convert a tree for JSON."""
    top: list[dict[str, Any]] = []
    lists = [top]  # the open list at each depth
    for depth, entry in rows:
        told = entry.told()
        lists[depth + 1 :] = []
        lists[depth].append(told)
        if entry.is_folder:
            told["entries"] = []
            lists.append(told["entries"])
    return top


# -- pairs ---------------------------------------------------------------------------------------


@command(
    "copy",
    "copy an array to a new one, without its growth history",
    array_path("source", "SRC"),
    array_path("target", "DST"),
    option("--chunks", "N,...", "chunk shape (default: as SRC)", type=integers),
    choice("--order", ORDERS, "order of the elements in a chunk"),
    flag("--checksum", "keep a checksum of each chunk (default: as SRC does)"),
    SPARSE,
    COMPRESSION,
    BITS,
    click.Option(
        ["--resume/--no-resume"],
        default=None,
        help="keep the work if interrupted, and continue earlier work, if SRC has not changed "
        "(default: if SRC is a URL)",
    ),
    details="DST appears when the copy is complete.  It may be an existing folder.",
)
def copy(
    source: str,
    target: str,
    chunks: tuple[int, ...] | None,
    order: str | None,
    checksum: bool,
    sparse: bool | None,
    compression: str | None,
    significant_bits: int | None,
    resume: bool | None,
) -> None:
    """Copy an array."""
    with opened(source) as a, wrong_calls():
        shape: Any = chunks[0] if chunks is not None and len(chunks) == 1 else chunks
        path = _target(a, target)
        a.copy(
            path,
            shape,
            order=order or "K",
            checksum=checksum or None,
            sparse=sparse,
            significant_bits=significant_bits,
            resume=resume,
            **codec_of(compression),
        ).close()


def _target(a: Any, target: str) -> str:
    """Return the path of the target; in a folder, the array keeps its name."""
    if is_folder(target):
        return os.path.join(target, a.path.name)
    return target


@contextlib.contextmanager
def _owned(path: str) -> Iterator[Any]:
    """Yield the store of an array, locked against other writers, and defer Ctrl-C."""
    with wrong_calls():
        resolved = resolve_path(path)
    store, _ = FileStore.open(resolved, "r+", 0.0, "auto", "flush")
    with contextlib.closing(store), uninterrupted():
        yield store


@command(
    "mv",
    "rename an array, or move it to another folder",
    array_path("source", "SRC"),
    array_path("target", "DST"),
    OVERWRITE,
    details="Both places must be on the same file system, as nothing is copied.  Refused while "
    "another process writes to the array.",
)
def mv(source: str, target: str, overwrite: bool) -> None:
    """Rename both files of an array."""
    with opened(source) as a:
        path = resolve_path(_target(a, target))
    with contextlib.ExitStack() as stack:
        replaced = None
        if overwrite and has_files(path):
            replaced = stack.enter_context(_owned(str(path)))  # lock the array that is replaced
        stack.enter_context(_owned(source)).move(path, overwrite, replaced)


@command(
    "pack",
    "write an array, or a folder of arrays, to one file that is read in place",
    array_path("source", "SRC"),
    argument("target", "FILE"),
    option(
        "--order",
        "ORDER",
        "order of the chunks: address (default), hilbert, morton, or the number or name of an axis",
        type=axis_of,
        default="address",
    ),
    COMPRESSION,
    OVERWRITE,
    details="FILE is an uncompressed ZIP file, usually with the suffix .xap, which appears when it "
    "is complete; - writes to standard output.  Chunks along a curve (hilbert, morton) need fewer "
    "requests where FILE is read from a server.",
)
def pack(
    source: str, target: str, order: str | int, compression: str | None, overwrite: bool
) -> None:
    """Pack an array or a group."""
    import extarray as xa

    how: Any = {"order": order, **codec_of(compression)}
    with opened_group(source) if is_group(source) else opened(source) as whole, wrong_calls():
        if target != "-":
            xa.pack(whole, target, overwrite=overwrite, **how)
            return
        with tempfile.TemporaryDirectory(prefix="extarray-pack-") as folder:
            xa.pack(whole, os.path.join(folder, "packed.xap"), **how)
            with open(os.path.join(folder, "packed.xap"), "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)


@command(
    "index",
    "write an index of a folder of arrays, for readers on a web server or in a bucket",
    array_path("folder", "FOLDER"),
    details="The index, extarray-index.json, lists the arrays and groups in FOLDER and below, as "
    "servers do not.  Groups keep it up to date.",
)
def index(folder: str) -> None:
    """Write the index of a group."""
    import extarray as xa

    with wrong_calls():
        xa.index_group(folder)


@command(
    "unpack",
    "extract an array, or a folder of arrays, from a packed file",
    argument("source", "FILE"),
    array_path("target", "DST"),
    flag("--overwrite", "replace an existing array; a folder is never replaced"),
    details="If FILE is -, standard input is read.",
)
def unpack(source: str, target: str, overwrite: bool) -> None:
    """Unpack a file and verify its checksums."""
    import extarray as xa

    with contextlib.ExitStack() as stack, wrong_calls():
        if source == "-":
            folder = tempfile.TemporaryDirectory(prefix="extarray-unpack-")
            source = os.path.join(stack.enter_context(folder), "standard input")
            with open(source, "xb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        xa.unpack(source, target, overwrite=overwrite)


@command(
    "rm",
    "remove arrays, with both of their files",
    several("paths", "PATH...", required=True),
    flag("--force", "also remove arrays that cannot be opened"),
    details="Arrays that another process writes to are not removed, nor is anything that is not an "
    "array.",
)
def rm(paths: tuple[str, ...], force: bool) -> None:
    """Remove pairs of files."""
    for path in paths:
        try:
            with _owned(path) as store:
                store.remove()
        except BlockingIOError:
            raise
        except (ExtArrayError, OSError):
            resolved = resolve_path(path)
            if not force or (os.path.isdir(path) and not has_files(resolved)):
                raise
            if not has_files(resolved):
                raise MissingError(errno.ENOENT, "no such array", path) from None
            with uninterrupted():
                remove_pair(Path(resolved))
