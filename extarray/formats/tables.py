"""CSV: tables in text files, whose rows become records, or whose columns become arrays."""

from __future__ import annotations

import contextlib
import csv
import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import check_flag
from extarray.common.calls import public
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError, FormatError
from extarray.formats.description import Description
from extarray.formats.files import file_name, of_library, unknown_part
from extarray.formats.transfer import Format, Source
from extarray.formats.whole import WholeSource, load_whole

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

__all__ = ["CSV", "from_csv"]

_TITLE = "CSV"
#: Entries of columns of numbers and dates that stand for a missing one.
_MISSING = frozenset(["", "NA", "N/A", "NaN", "nan", "null", "NULL"])
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# A number with zeros in front, such as a postal code, is a name.
_WHOLE = re.compile(r" *[+-]?(0|[1-9][0-9]*) *")
_REAL = re.compile(r" *[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)? *")
_INFINITE = re.compile(r" *[+-]?(inf|Inf|INF|infinity|Infinity) *")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?Z?)?"
)
#: Whole numbers that a float holds, as it must where some are missing.
_EXACT = 2**53
#: Years all of which nanoseconds since 1970 reach.
_NANOSECONDS = 1678, 2261
#: Characters of a number, so that Python's conversion takes no time.
_LONGEST = 400
#: Rows whose entries are looked at, or converted, together.
_ROWS = 1 << 13


@public
def from_csv(
    file: str | PathLike[str],
    column: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    as_group: bool = False,
    delimiter: str | None = None,
    header: bool = True,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> Any:
    r"""Make an array of records of a table in a CSV file, or a group of its columns.

    The file is read twice, in bounded memory: once to find types that hold every entry of a column
    exactly, decimals as closely as floats do, then for the entries.  For a group, it is read again
    for columns that do not fit into half of ``config.max_memory`` together with those before them.

    Parameters
    ----------
    file : str or PathLike
        Text in UTF-8; quotes and doubled quotes as in RFC 4180.
    column : str, optional
        Name of a column, which alone becomes the array.  None: all of them, as fields of records.
    path : str, PathLike, or None
        Name of the new pair of files, or folder.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    as_group : bool
        Make a group with an array for each column, in the folder `path`, as xarray wants them.
    delimiter : str, optional
        Character between entries.  None: a tab in files with the suffix ``.tsv``, else a comma.
    header : bool
        The first row has the names of the columns.  False: they are ``"column_0"``, and so on.
    overwrite : bool
        Replace an existing pair of files.
    sparse : bool, optional
        Leave holes in place of zeros, as for `create`.  None: do so if parts of the file were never
        written.
    compression : str, int, Codec or None
        Codec of the new array, as for `create`; all chunks are frozen at the end.
    significant_bits : int, optional
        Round floats to so many bits of the mantissa, as for `from_array`.  None: take them as they
        are.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    max_result : int or str, optional
        Largest array, in bytes or as ``"2 TiB"``, that a file of less than a thousandth of its size
        may make; holes hardly count.  None: ``config.max_result``.

    Returns
    -------
    ExtArray or Group
        The axis is named ``"row"``.

    Raises
    ------
    FormatError
        A ValueError: a row has more or fewer entries than the first, or the file is not UTF-8.
    VariableError
        A KeyError: no column of this name; the message names those in the file.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Notes
    -----
    A column has the first of these types that takes all its entries:

    - bool: ``true`` and ``false``, none missing;
    - int64 or uint64: whole numbers; float64 if some are missing, which become NaN;
    - float64: numbers, and ``inf``;
    - datetime64 in days, seconds or parts of them: dates of ISO 8601, in UTC if they have a ``Z``;
      missing ones become NaT;
    - text as long as the longest entry.  An empty entry is an empty text.

    An empty line is an empty entry if there is one column, and else left out.

    An entry of a number or a date is missing if it is empty, ``NA``, ``N/A``, ``NaN`` or ``null``.
    Numbers with zeros in front, such as ``007``, stay text, as do whole numbers above 2**53 beside
    missing ones or fractions.

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "sales.csv")
    >>> with open(name, "w") as f:
    ...     _ = f.write("day,shop,amount\n2024-05-01,Graz,3\n2024-05-02,Bern,\n")
    >>> sales = xa.from_csv(name)
    >>> sales["amount"], sales["day"]
    (array([ 3., nan]), array(['2024-05-01', '2024-05-02'], dtype='datetime64[D]'))
    >>> sales.append(np.array([("2024-05-03", "Wien", 4)], sales.dtype))
    >>> sales[-1]["shop"]
    np.str_('Wien')
    """
    options: dict[str, Any] = {"delimiter": delimiter, "header": header}
    shared: dict[str, Any] = {
        "chunks": chunks,
        "overwrite": overwrite,
        "sparse": sparse,
        "compression": compression,
        "significant_bits": significant_bits,
        "progress": progress,
        "max_result": max_result,
    }
    if not check_flag(as_group, "as_group"):
        return CSV.load(file, column, path=path, **options, **shared)
    if column is not None or path is None:
        raise ArgumentError("a group has all columns, in a folder: give path, and no column")
    return load_whole(_TITLE, file, _whole(file, **options), path=path, **shared)


# -- types of columns ----------------------------------------------------------------------------


@dataclass
class _Column:
    """The types that take all entries of a column, as far as these have been read."""

    name: str
    are_truths: bool = True
    are_whole: bool = True
    are_real: bool = True
    are_dates: bool = True
    some_are_missing: bool = False
    low: int = 0
    high: int = 0
    digits: int = -1  # of the seconds of dates; -1: no time of day
    years: tuple[int, int] = (9999, 0)
    longest: int = 0

    def take(self, entries: Sequence[str]) -> None:
        """Take more entries into account."""
        self.longest = max(self.longest, *map(len, entries))
        self.are_truths = self.are_truths and all(entry in _TRUTHS for entry in entries)
        if self.are_real or self.are_dates:
            there = [entry for entry in entries if entry not in _MISSING]
            self.some_are_missing |= len(there) < len(entries)
            if there:
                self.are_whole = self.are_whole and self._are_whole(there)
                is_exact = max(-self.low, self.high) <= _EXACT  # whole ones of earlier entries
                self.are_real = self.are_whole or (self.are_real and is_exact and _are_real(there))
                self.are_dates = self.are_dates and self._are_dates(there)

    def _are_whole(self, entries: Sequence[str]) -> bool:
        if not all(len(e) <= _LONGEST and _WHOLE.fullmatch(e) for e in entries):
            return False
        numbers = [*map(int, entries), self.low, self.high]
        self.low, self.high = min(numbers), max(numbers)
        return True

    def _are_dates(self, entries: Sequence[str]) -> bool:
        for entry in entries:
            found = _DATE.fullmatch(entry)
            if found is None:
                return False
            digits = len(found[3]) - 1 if found[3] else 0 if found[1] else -1
            self.digits = max(self.digits, digits)
        years = [int(entry[:4]) for entry in entries]
        self.years = min(self.years[0], *years), max(self.years[1], *years)
        try:
            _dates(entries, "s")
        except ValueError:  # no such day
            return False
        return True

    @property
    def dtype(self) -> np.dtype[Any]:
        """The first type that takes all entries."""
        if self.longest and self.are_truths:
            return np.dtype("?")
        if self.are_whole and not self.some_are_missing:
            if -(2**63) <= self.low and self.high < 2**63:
                return np.dtype("i8")
            return np.dtype("u8") if 0 <= self.low and self.high < 2**64 else self._text
        if self.are_whole:
            return np.dtype("f8") if max(-self.low, self.high) <= _EXACT else self._text
        if self.are_real:
            return np.dtype("f8")
        if self.are_dates:
            unit = "D" if self.digits < 0 else ("s", "ms", "us", "ns")[-(-self.digits // 3)]
            first, last = _NANOSECONDS
            if unit != "ns" or (first <= self.years[0] and self.years[1] <= last):
                return np.dtype(f"M8[{unit}]")
        return self._text

    @property
    def _text(self) -> np.dtype[Any]:
        return np.dtype(f"U{max(1, self.longest)}")


def _are_real(entries: Sequence[str]) -> bool:
    """Tell whether entries are numbers that floats take, whole ones exactly."""
    for entry in entries:
        if len(entry) > _LONGEST:
            return False
        if _WHOLE.fullmatch(entry):
            if abs(int(entry)) > _EXACT:
                return False
        elif _REAL.fullmatch(entry):
            value, (digits, _, power) = float(entry), entry.lower().partition("e")
            if math.isinf(value) or (value == 0 and digits.strip(" +-0.")):
                return False
            if abs(value) >= _EXACT and not power and int(digits.partition(".")[0]) != value:
                return False
        elif not _INFINITE.fullmatch(entry):
            return False
    return True


def _dates(entries: Sequence[str], unit: str) -> NDArray[Any]:
    there = ["NaT" if entry in _MISSING else entry.removesuffix("Z") for entry in entries]
    return np.array(there, f"M8[{unit}]")


def _converted(entries: Sequence[str], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return entries of a column as elements of its type."""
    if dtype.kind == "b":
        return np.array([_TRUTHS[entry] for entry in entries])
    if dtype.kind in "iu":
        return np.array(list(map(int, entries)), dtype)
    if dtype.kind == "f":
        return np.array([math.nan if e in _MISSING else float(e) for e in entries])
    if dtype.kind == "M":
        return _dates(entries, np.datetime_data(dtype)[0])
    return np.array(entries, dtype)


# -- the file ------------------------------------------------------------------------------------


class _Table:
    """The rows of a file, and the types of its columns."""

    def __init__(self, where: str, delimiter: Any, header: Any) -> None:
        if delimiter is None:
            delimiter = "\t" if where.lower().endswith(".tsv") else ","
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"':
            raise ArgumentTypeError(f"delimiter must be a character, not {delimiter!r}")
        self.where, self._delimiter = where, delimiter
        self._has_header = check_flag(header, "header")

    def names(self) -> list[str]:
        """Return the names of the columns."""
        with contextlib.closing(self._lines()) as lines:
            first = next(lines, [])
        if not self._has_header:
            return [f"column_{i}" for i in range(len(first))]
        names = [name or f"column_{i}" for i, name in enumerate(first)]
        for name in names:
            if names.count(name) > 1:
                raise FormatError(
                    f"'{self.where}': its first row has the name {name!r} twice; if it has no "
                    "names, give header=False"
                )
        return names

    def survey(self) -> tuple[dict[str, np.dtype[Any]], int]:
        """Return the types of the columns by name, and the number of rows."""
        columns, n = [_Column(name) for name in self.names()], 0
        for rows in self.rows():
            n += len(rows)
            for column, entries in zip(columns, zip(*rows, strict=True), strict=True):
                column.take(entries)
        return {column.name: column.dtype for column in columns}, n

    def rows(self) -> Generator[list[list[str]]]:
        """Yield the rows, some at a time."""
        with contextlib.closing(self._lines()) as lines:
            if self._has_header:
                next(lines, None)
            while some := list(itertools.islice(lines, _ROWS)):
                yield some

    def _lines(self) -> Generator[list[str]]:
        """Yield the rows, the first with the names included; all have as many entries."""
        with open(self.where, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(_without_zeros(file), delimiter=self._delimiter, strict=True)
            width = 0
            for row in reader:
                if not row:  # an empty line
                    if width != 1:
                        continue
                    row = [""]
                width = width or len(row)
                if len(row) != width:
                    raise FormatError(
                        f"'{self.where}', line {reader.line_num}: {len(row)} entries, where the "
                        f"first row has {width}"
                    )
                yield row


def _without_zeros(lines: Iterable[str]) -> Iterator[str]:
    """Refuse zero characters, which elements of text lose at their end."""
    for line in lines:
        if "\0" in line:
            raise FormatError("it has zero characters: it is not text, or is in UTF-16")
        yield line


@contextlib.contextmanager
def _entries(
    table: _Table, types: Mapping[str, np.dtype[Any]], n: int, name: str | None
) -> Iterator[Source]:
    """Open a column, or all of them as fields of records."""
    names = list(types)
    dtype = np.dtype(list(types.items())) if name is None else types[name]
    with contextlib.closing(table.rows()) as rows:
        left: list[list[str]] = []

        def read(box: Box) -> NDArray[Any]:
            values = np.empty(box[0].stop - box[0].start, dtype)
            done = 0
            while done < len(values):
                some = left or next(rows, [])
                if not some:
                    raise FormatError(f"{table.where!r} has lost rows since they were counted")
                taken = some[: len(values) - done]
                left[:] = some[len(taken) :]
                here = values[done : done + len(taken)]
                if name is None:
                    for field, entries in zip(names, zip(*taken, strict=True), strict=True):
                        here[field] = _converted(entries, types[field])
                else:
                    which = names.index(name)
                    here[...] = _converted([row[which] for row in taken], dtype)
                done += len(taken)
            return values

        given = Description((n,), dtype, dims=("row",))
        yield Source(given, read, sequential=(0,))


class _Columns:
    """The columns of a table one after the other, as many read at once as memory is allowed for.

    Parameters
    ----------
    table : _Table
    types : mapping
        Types of the columns by name.
    n : int
        Rows.
    """

    def __init__(self, table: _Table, types: Mapping[str, np.dtype[Any]], n: int) -> None:
        self._table, self._types, self._n = table, types, n
        self._left = list(types)
        self._held: dict[str, NDArray[Any]] = {}

    @contextlib.contextmanager
    def source(self, name: str) -> Iterator[Source]:
        """Open a column, each once."""
        if name not in self._held:
            with of_library(self._table.where, _TITLE):
                self._held = self._read(name)
        self._left.remove(name)
        values = self._held.pop(name, None)
        if values is None:  # larger than memory
            with _entries(self._table, self._types, self._n, name) as source:
                yield source
            return
        given = Description((self._n,), values.dtype, dims=("row",))
        yield Source(given, lambda box: values[box], parallel=True)

    def _read(self, first: str) -> dict[str, NDArray[Any]]:
        """Read a column and those after it, as far as they fit into memory."""
        names = list(self._types)
        held, room = {}, config.max_memory // 2
        for name in [first, *(each for each in self._left if each != first)]:
            room -= self._n * self._types[name].itemsize
            if room < 0:
                break
            held[name] = np.empty(self._n, self._types[name])
        done = 0
        for rows in self._table.rows() if held else ():
            if done + len(rows) > self._n:
                raise FormatError(f"{self._table.where!r} has gained rows since they were counted")
            columns = list(zip(*rows, strict=True))
            for name, values in held.items():
                entries = columns[names.index(name)]
                values[done : done + len(rows)] = _converted(entries, values.dtype)
            done += len(rows)
        if held and done < self._n:
            raise FormatError(f"{self._table.where!r} has lost rows since they were counted")
        return held


@contextlib.contextmanager
def _source(
    file: Any, name: Any = None, *, delimiter: Any = None, header: Any = True
) -> Iterator[Source]:
    """Open a table."""
    where = file_name(file, _TITLE)
    table = _Table(where, delimiter, header)
    with of_library(where, _TITLE):
        types, n = table.survey()
    if not types:
        raise FormatError(f"'{where}' has no rows")
    if name is not None and name not in types:
        raise unknown_part(where, name, "a column", types)
    with _entries(table, types, n, name) as source:
        yield source


@contextlib.contextmanager
def _whole(file: Any, *, delimiter: Any, header: Any) -> Iterator[WholeSource]:
    """Open a file for a group of its columns."""
    where = file_name(file, _TITLE)
    table = _Table(where, delimiter, header)
    with of_library(where, _TITLE):
        types, n = table.survey()
    yield WholeSource({"": {}}, list(types), _Columns(table, types, n).source, [])


def _load_group(file: Any, column: Any = None, **options: Any) -> Any:
    options.pop("mask_and_scale", None)  # entries are never packed
    return from_csv(file, column, as_group=True, **options)


CSV = Format(
    "csv",
    _TITLE,
    (".csv", ".tsv"),
    _source,
    part="a column",
    load_group=_load_group,
)
