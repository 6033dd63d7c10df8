"""Ends of the variables of netCDF files in the classic formats, from the header of the file.

The netCDF library reads elements behind the end of such a file as zeros.  So a file that was cut
off has to be noticed here.  The header is that of the "NetCDF Classic Format Specification"
(CDF-1, CDF-2 and CDF-5).
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from extarray.common.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

__all__ = ["check_ends", "ends_of"]

# Bytes of an element, by the number of its type.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}


def ends_of(path: str) -> dict[str, int]:
    """Return where the last element of each variable ends; nothing for files of other formats."""
    try:
        with open(path, "rb") as file:
            return _Header(file).ends()
    except (OSError, ValueError, LookupError):  # the library tells what is wrong
        return {}


def check_ends(path: str, ends: dict[str, int], names: Iterable[str]) -> None:
    """Raise FormatError if a file ends before the elements of some variables do."""
    size = os.stat(path).st_size
    for name in names:
        if ends.get(name, 0) > size:
            raise FormatError(
                f"'{path}' has {size} bytes, but the elements of the variable {name!r} end at "
                f"byte {ends[name]}: the file was cut off, or its writer is still at work"
            )


class _Header:
    """The header of a file; ValueError: there is none."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._length = os.fstat(file.fileno()).st_size
        magic = self._bytes(4)
        if magic not in (b"CDF\1", b"CDF\2", b"CDF\5"):
            raise ValueError(magic)
        # Bytes of a count, and of an offset in the file.
        self._count = 8 if magic == b"CDF\5" else 4
        self._offset = 4 if magic == b"CDF\1" else 8

    def ends(self) -> dict[str, int]:
        """Return where variables end."""
        n_records = self._number(self._count)
        if n_records == (1 << 8 * self._count) - 1:
            raise ValueError("the number of records follows from the length of the file")
        lengths = [self._length_of_dimension() for _ in range(self._items())]
        self._skip_attributes()
        found = [self._variable(lengths) for _ in range(self._items())]
        steps = [n_bytes for _, _, n_bytes, has_records in found if has_records]
        # A single variable with records is not padded.
        step = steps[0] if len(steps) == 1 else sum(n + -n % 4 for n in steps)
        ends = {}
        for name, begin, n_bytes, has_records in found:
            if n_bytes and (n_records or not has_records):
                ends[name] = begin + n_bytes + has_records * (n_records - 1) * step
        return ends

    def _variable(self, lengths: list[int]) -> tuple[str, int, int, bool]:
        """Read a variable: its name, offset, bytes (of a record), and whether it has records."""
        name = self._name()
        shape = [lengths[self._number(self._count)] for _ in range(self._number(self._count))]
        self._skip_attributes()
        size = _SIZES[self._number(4)]
        self._number(self._count)  # the same product, with padding, as far as it has room
        begin = self._number(self._offset)
        has_records = shape[:1] == [0]  # the length of the dimension of records
        return name, begin, math.prod(shape[has_records:]) * size, has_records

    def _length_of_dimension(self) -> int:
        self._name()
        return self._number(self._count)

    def _skip_attributes(self) -> None:
        for _ in range(self._items()):
            self._name()
            size = _SIZES[self._number(4)]
            n_bytes = self._number(self._count) * size
            self._bytes(n_bytes + -n_bytes % 4)

    def _items(self) -> int:
        """Read the head of a list, and return how many items it has."""
        self._number(4)  # their kind
        return self._number(self._count)

    def _name(self) -> str:
        n_bytes = self._number(self._count)
        return self._bytes(n_bytes + -n_bytes % 4)[:n_bytes].decode()

    def _number(self, n_bytes: int) -> int:
        return int.from_bytes(self._bytes(n_bytes), "big")

    def _bytes(self, n: int) -> bytes:
        if n > self._length:
            raise ValueError(n)
        data = self._file.read(n)
        if len(data) < n:
            raise ValueError(n)
        return data
