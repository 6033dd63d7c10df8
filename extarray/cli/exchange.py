"""Import and export other formats, chosen by suffix; pipes."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from extarray.cli._command import (
    BITS,
    COMPRESSION,
    OVERWRITE,
    SPARSE,
    WrongCall,
    argument,
    array_path,
    codec_of,
    command,
    flag,
    integers,
    option,
    usage_error,
    wrong_calls,
)
from extarray.cli._selection import parse_selection, parse_value
from extarray.cli.look import is_group, opened, opened_group
from extarray.common.errors import ArgumentError, ExtArrayError, FormatError, VariableError
from extarray.common.limits import limits
from extarray.common.terminal import print_text
from extarray.format.suffixes import PAIR
from extarray.formats.description import Description, described
from extarray.formats.files import Claims, check_free, of_library
from extarray.formats.registry import file_formats, format_of, formats_of
from extarray.formats.transfer import Format, Source, load, runs
from extarray.maintenance.group_files import discard_tree
from extarray.remote.urls import is_url
from extarray.storage.filesystem import has_files

__all__ = ["Found", "convert", "elements_in", "export", "found_in", "import_"]

_STDIN = "standard input"

_FORMAT = option("--format format_name", "NAME", "file format (default: by suffix)")
_OPTIONS = option(
    "-o --option options",
    "NAME=VALUE",
    "option of the format, such as compression=gzip for hdf5, or shape=4,3; may be repeated",
    multiple=True,
)


# -- choice of the file, and of the array in it --------------------------------------------------


def _located(
    text: str, name: str | None, attrs: Mapping[str, Any] | None = None
) -> tuple[Format, str, str | None]:
    """Split ``FILE`` or ``FILE:/NAME`` into format, file and name.

    `attrs` are those of an array that is to be written.
    """
    file, part = text, None
    before, colon, behind = text.rpartition(":")
    if colon and not os.path.exists(text):
        with contextlib.suppress(ArgumentError):
            if name is not None or format_of(before).part:
                file, part = before, behind.lstrip("/") or None
    with wrong_calls():
        if name is None:
            return format_of(file, attrs), file, part
    known = file_formats()
    if name not in known:
        raise WrongCall(f"unknown format {name!r}; the formats are: {', '.join(sorted(known))}")
    return known[name], file, part


def _only_part(found: Format, file: str, part: str | None) -> str | None:
    """Return the given name of an array in a file, or that of the only one."""
    if part is not None or found.names is None or not os.path.exists(file):
        return part
    names = found.names(file)
    return names[0] if len(names) == 1 else None


def _tell_choice(found: Format, file: str, name: str | None) -> None:
    """Say that contents of a file decide how it is read, and what else is possible."""
    if name is None and found.suits is not None and os.path.exists(file):
        others = [each.name for each in formats_of(file) if each is not found]
        if others:
            print_text(
                f"extarray import: {file!r} has tags of {found.title}, and is read so; "
                f"--format {' or '.join(others)} reads it otherwise",
                stream=sys.stderr,
            )


def _settings(options: tuple[str, ...]) -> dict[str, Any]:
    """Parse options of a format."""
    settings = {}
    for text in options:
        name, found, value = text.partition("=")
        if not found or not name.isidentifier():
            raise WrongCall(f"--option takes NAME=VALUE, not {text!r}")
        settings[name] = (
            integers(value) if re.fullmatch(r"\d+(,\d+)+", value) else parse_value(value)
        )
    return settings


# -- from files and pipes ------------------------------------------------------------------------


class Found(NamedTuple):
    """Elements of a file, of another array, or of standard input, with their description.

    Attributes
    ----------
    values
        An object with shape, dtype and slicing, of which any box can be read.
    description : Description
    beside : callable
        Takes the name of a neighbouring array, and returns a context manager that opens it.
    """

    values: Any
    description: Description
    beside: Callable[[str], AbstractContextManager[Found]]


@contextlib.contextmanager
def found_in(text: str) -> Iterator[Found]:
    """Open the elements of a file, another array, or standard input."""
    if has_files(text) or text.endswith(PAIR) or is_url(text):
        with opened(text) as a:
            view, description = described(a, None, [])
            yield Found(view, description, lambda name: found_in(str(a.path.with_name(name))))
        return
    if text == "-":
        source = _piped()
        with _spooled(source, _STDIN) as values:
            yield Found(values, source.description, _nothing_beside)
        return
    found, file, part = _located(text, None)
    with _found_in_file(found, file, _only_part(found, file, part)) as item:
        yield item


@contextlib.contextmanager
def _found_in_file(found: Format, file: str, part: str | None) -> Iterator[Found]:
    def beside(name: str) -> AbstractContextManager[Found]:
        if part is None:
            return _nothing_beside(name)
        return _found_in_file(found, file, f"{part.rpartition('/')[0]}/{name}".lstrip("/"))

    with found.source(file, part) as source:
        if source.sequential is None:
            if not source.mapped:
                Claims(file).add(source.description.nbytes, source.stored)
            yield Found(_Boxes(source, file, found.title), source.description, beside)
        else:
            with _spooled(source, found.title, Claims(file)) as values:
                yield Found(values, source.description, beside)


def _nothing_beside(name: str) -> AbstractContextManager[Found]:
    raise VariableError(f"no array or group named {name!r}")


@contextlib.contextmanager
def elements_in(text: str) -> Iterator[Any]:
    """Open elements of which any box can be read."""
    with found_in(text) as found:
        yield found.values


class _Boxes:
    """Reads elements of a file box by box."""

    def __init__(self, source: Source, file: str, title: str) -> None:
        self.shape = tuple(source.description.shape)
        self.dtype = np.dtype(source.description.dtype)
        self.ndim = len(self.shape)
        self._read, self._file, self._title = source.read, file, title

    def __getitem__(self, box: tuple[slice, ...]) -> Any:
        with of_library(self._file, self._title):
            return self._read(box)


@contextlib.contextmanager
def _spooled(source: Source, title: str, claims: Claims | None = None) -> Iterator[Any]:
    """Yield a temporary array with the elements of a sequential source."""
    with (
        tempfile.TemporaryDirectory(prefix="extarray-") as folder,
        load(
            source, os.path.join(folder, "elements"), what=f"from {title}", claims=claims
        ) as values,
    ):
        yield values


def _piped() -> Source:
    """Return the ``.npy`` file on standard input as a source."""
    if sys.stdin is None:
        raise WrongCall(f"{_STDIN} is closed")
    stream = sys.stdin.buffer
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version if version < (3, 0) else (2, 0)]
        shape, is_fortran, dtype = read_header(stream)
    except (ValueError, KeyError, EOFError) as error:
        raise FormatError(f"{_STDIN} is not a .npy file: {error}") from None
    if dtype.hasobject:
        raise FormatError(f"{_STDIN} has Python objects, which arrays cannot store")
    order: Any = "F" if is_fortran else "C"

    def read(box: tuple[slice, ...]) -> Any:
        extents = [part.stop - part.start for part in box]
        nbytes = math.prod(extents) * dtype.itemsize
        got = stream.read(nbytes)
        if len(got) < nbytes:
            raise FormatError(
                f"{_STDIN} is truncated: at least {nbytes - len(got)} bytes are missing"
            )
        return np.frombuffer(got, dtype).reshape(extents, order=order)

    axes = tuple(range(len(shape)))
    return Source(
        Description(tuple(shape), dtype), read, sequential=axes[::-1] if is_fortran else axes
    )


@command(
    "import",
    "convert a file of another format to an array",
    argument("source", "SRC"),
    array_path(),
    option("--chunks", "N,...", "chunk shape (default: that of the file)", type=integers),
    flag("--all everything", "import all arrays of the file; PATH becomes a folder (a group)"),
    flag("--mask-and-scale", "apply scale factor and offset, with NaN for missing values"),
    SPARSE,
    COMPRESSION,
    BITS,
    option(
        "--max-result",
        "BYTES",
        "largest result from a file more than a thousand times smaller (default: half of memory)",
    ),
    _FORMAT,
    _OPTIONS,
    OVERWRITE,
    details="SRC is a file, whose suffix gives its format; FILE:/NAME to choose one of several "
    "arrays in it; or - to read a .npy file from standard input.",
)
def import_(
    source: str,
    path: str,
    chunks: tuple[int, ...] | None,
    everything: bool,
    mask_and_scale: bool,
    sparse: bool | None,
    compression: str | None,
    significant_bits: int | None,
    max_result: str | None,
    format_name: str | None,
    options: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Make an array from a file or a pipe."""
    shape: Any = chunks[0] if chunks is not None and len(chunks) == 1 else chunks
    settings = _settings(options)
    # Formats of other packages may lack arguments: pass those that are given.
    stored = codec_of(compression)
    if significant_bits is not None:
        stored["significant_bits"] = significant_bits
    if max_result is not None:
        settings["max_result"] = max_result
    if everything:
        if source == "-" or chunks is not None:
            raise usage_error(
                "--all takes a file, and its arrays keep their chunks; leave out - and --chunks"
            )
        found, file, part = _located(source, format_name)
        if sparse is not None:
            settings["sparse"] = sparse
        with wrong_calls(), _known_options(found):
            _whole(found, found.load_group)(
                file,
                part,
                path=path,
                mask_and_scale=mask_and_scale,
                overwrite=overwrite,
                **(settings | stored),
            ).close()
        return
    if source == "-":
        if format_name not in (None, "npy") or settings or mask_and_scale:
            raise usage_error(f"{_STDIN} is read as .npy, which takes no --option")
        with wrong_calls():
            load(
                _piped(),
                path,
                shape,
                overwrite=overwrite,
                sparse=sparse,
                what=f"from {_STDIN}",
                **stored,
            ).close()
        return
    found, file, part = _located(source, format_name)
    _tell_choice(found, file, format_name)
    part = _only_part(found, file, part)
    with wrong_calls(), _known_options(found):
        found.load(
            file,
            part,
            path=path,
            chunks=shape,
            mask_and_scale=mask_and_scale,
            overwrite=overwrite,
            sparse=sparse,
            **(settings | stored),
        ).close()


def _whole(found: Format, function: Any) -> Any:
    """Return the function of a format that reads or writes whole files, or None."""
    if function is None:
        there = ", ".join(f.name for f in file_formats().values() if f.load_group is not None)
        raise WrongCall(f"{found.title} has no groups; these formats do: {there}")
    return function


@contextlib.contextmanager
def _known_options(found: Format) -> Iterator[None]:
    """Report a missing or unknown argument of a function as a wrong call."""
    try:
        yield
    except TypeError as error:
        unknown = re.search(r"(unexpected keyword|missing).* argument.*", str(error))
        if unknown is None or isinstance(error, ExtArrayError):
            raise
        raise WrongCall(f"{found.title}, --option: {unknown[0]}") from None


# -- to files and pipes --------------------------------------------------------------------------


@command(
    "export",
    "convert an array, a part of it, or a folder to a file of another format",
    array_path(),
    argument("target", "DST"),
    option("-s --selection", "SELECTION", "part to write, such as '[3:10, :, 5]'"),
    _FORMAT,
    _OPTIONS,
    OVERWRITE,
    details="DST is a file, whose suffix gives its format; FILE:/NAME to name the array in it "
    "(default: the array's own name); or - to write a .npy file to standard output.",
)
def export(
    path: str,
    target: str,
    selection: str | None,
    format_name: str | None,
    options: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Write an array to a file or a pipe."""
    index = None if selection is None else parse_selection(selection)
    if is_group(path):
        if target == "-" or index is not None:
            raise usage_error(
                "a folder is exported whole, to a file; leave out -s, and give a file name"
            )
        found, file, part = _located(target, format_name)
        with opened_group(path) as group, wrong_calls(), _known_options(found):
            _whole(found, found.save_group)(
                group, file, part, overwrite=overwrite, **_settings(options)
            )
        return
    with opened(path) as a, wrong_calls():
        if target == "-":
            if format_name not in (None, "npy") or options:
                raise usage_error("standard output is written as .npy, which takes no --option")
            _pour(a if index is None else a.lazy[index])
            return
        found, file, part = _located(target, format_name, a.attrs)
        if found.part and part is None:
            part = a.path.name
        with _known_options(found):
            found.save(a, file, part, selection=index, overwrite=overwrite, **_settings(options))


def _pour(view: Any) -> None:
    """Write an array to stdout as a ``.npy`` file, in bounded memory."""
    stream = sys.stdout.buffer
    np.lib.format.write_array_header_2_0(
        stream,
        {
            "descr": np.lib.format.dtype_to_descr(view.dtype),
            "fortran_order": False,
            "shape": tuple(view.shape),
        },
    )
    for box in runs(tuple(view.shape), view.dtype.itemsize, limits.printed_bytes):
        stream.write(view[(*box, ...)].tobytes())
    stream.flush()


# -- from files to files -------------------------------------------------------------------------


@command(
    "convert",
    "convert a file, an array or a folder from any format to any other",
    argument("source", "SRC"),
    argument("target", "DST"),
    option("--from source_format", "NAME", "file format of SRC (default: by suffix)"),
    option("--to target_format", "NAME", "file format of DST (default: by suffix)"),
    flag("--all everything", "convert all arrays of the file SRC"),
    flag("--mask-and-scale", "apply scale factor and offset, with NaN for missing values"),
    option(
        "-o --option options",
        "NAME=VALUE",
        "option of the format of DST, such as compression=gzip for hdf5; may be repeated",
        multiple=True,
    ),
    OVERWRITE,
    details="SRC and DST are files, whose suffixes give their formats; FILE:/NAME for one of "
    "several arrays; arrays or folders of them; or - for .npy files on standard input and output. "
    "Between two files, elements pass through a temporary array beside DST, which takes as much "
    "space as they take uncompressed.",
)
def convert(
    source: str,
    target: str,
    source_format: str | None,
    target_format: str | None,
    everything: bool,
    mask_and_scale: bool,
    options: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Import, export, or both."""

    def taken(path: str, options: tuple[str, ...] = (), overwrite: bool = False) -> None:
        import_.callback(
            source=source, path=path, chunks=None, everything=everything,
            mask_and_scale=mask_and_scale, sparse=None, compression=None, significant_bits=None,
            max_result=None, format_name=source_format, options=options, overwrite=overwrite,
        )  # fmt: skip

    def given(path: str, target: str) -> None:
        export.callback(
            path=path, target=target, selection=None, format_name=target_format, options=options,
            overwrite=overwrite,
        )  # fmt: skip

    if source_format is None and _is_ours(source):
        if everything or mask_and_scale:
            raise usage_error("--all and --mask-and-scale are about files of other formats")
        given(source, target)
        return
    if target_format is None and target != "-" and not _has_format(target):
        taken(target, options, overwrite)
        return
    file, part, found = target, None, None
    if target != "-":
        found, file, part = _located(target, target_format)
        if found.sink is None:
            raise WrongCall(f"{found.title} can only be read, not written")
        if everything:
            _whole(found, found.save_group)
        if everything or not found.part:
            check_free(file, overwrite)
    beside = None if target == "-" else os.path.dirname(os.path.abspath(file))
    name = os.path.basename(source.rpartition(":/")[2] or source).partition(".")[0]
    if found is not None and found.part and part is None and not everything:
        target = f"{file}:/{name}"
    folder = tempfile.mkdtemp(prefix=".extarray-", dir=beside)
    try:
        path = os.path.join(folder, "elements")
        taken(path)
        given(path, target)
    finally:
        discard_tree(folder)


def _is_ours(text: str) -> bool:
    """Tell whether a text names an array, or a folder of arrays; some formats are folders, too."""
    if has_files(text) or text.endswith(PAIR) or is_url(text):
        return True
    return is_group(text) and not (os.path.isdir(text) and _has_format(text))


def _has_format(text: str) -> bool:
    """Tell whether a file's suffix is that of another format."""
    with contextlib.suppress(ArgumentError):
        format_of(text.rpartition(":")[0] or text)
        return True
    with contextlib.suppress(ArgumentError):
        format_of(text)
        return True
    return False
