"""Files of the elements on show: npy and CSV.

They have all elements of the part of the plane that the page shows, in the order of their indices,
whatever the picture leaves out or flips.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.array.coordinates import Coordinate, short_texts
from extarray.common.errors import ArgumentError
from extarray.common.formatting import format_bytes, text_of
from extarray.common.limits import limits

__all__ = ["Axis", "check_size", "csv_of", "npy_of", "plain_texts"]

#: Name and coordinate of an axis, and the indices along it.
Axis = tuple[str, Coordinate | None, Sequence[int]]


def check_size(shape: Sequence[int], dtype: np.dtype[Any], kind: str) -> None:
    """Refuse a file that is too large for the page.

    Raises
    ------
    ArgumentError
    """
    count = math.prod(shape)
    size = count * dtype.itemsize
    told = " × ".join(f"{n:,}" for n in shape)
    advice = "zoom in, or read them in Python"
    if kind == "csv" and count > limits.saved_elements:
        raise ArgumentError(
            f"{told} elements are on show; the page saves up to {limits.saved_elements:,} as CSV; "
            f"{advice}"
        )
    if size > limits.saved_bytes:
        raise ArgumentError(
            f"{told} elements of {format_bytes(size)} are on show; the page saves up to "
            f"{format_bytes(limits.saved_bytes)}; {advice}"
        )


def plain_texts(values: Iterable[Any]) -> list[str]:
    r"""Return values as texts in full; words without quotes, but for bytes that are no words.

    Examples
    --------
    >>> plain_texts(np.array(["one", "two"])), plain_texts(np.array([0.1, 2], "f4"))
    (['one', 'two'], ['0.1', '2.0'])
    >>> plain_texts(np.array([b"one", b"\xff"]))
    ['one', "b'\\xff'"]
    """
    return [_plain(value) for value in values]


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        return text if text.isascii() and text.isprintable() else repr(bytes(value))
    return text_of(value)


def npy_of(values: NDArray[Any]) -> bytes:
    """Return an npy file."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


def csv_of(values: NDArray[Any], axes: Sequence[Axis]) -> bytes:
    r"""Return a CSV file in UTF-8, with the coordinates of the elements, or else their indices.

    Two axes are rows and columns.  One axis, and the axis of channels of three, runs down: a line
    has the coordinates of an element, and its values.

    Examples
    --------
    >>> csv_of(np.array([[1, 2], [3, 4]]), [("y", None, range(2)), ("x", None, [5, 6])])
    b'y,5,6\n0,1,2\n1,3,4\n'
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    labels = [_labels(axis) for axis in axes]
    if len(axes) == 2:
        writer.writerow([axes[0][0], *labels[1]])
        for label, line in zip(labels[0], values, strict=True):
            writer.writerow([label, *plain_texts(line)])
    elif len(axes) == 1:
        writer.writerow([axes[0][0], "value"])
        writer.writerows(zip(labels[0], plain_texts(values), strict=True))
    else:
        last = [f"{axes[2][0]} {label}" for label in labels[2]]
        writer.writerow([axes[0][0], axes[1][0], *last])
        for first, line in zip(labels[0], values, strict=True):
            for second, cell in zip(labels[1], line, strict=True):
                writer.writerow([first, second, *plain_texts(cell)])
    return file.getvalue().encode()


def _labels(axis: Axis) -> list[str]:
    """Return the coordinates of elements as texts in full; the indices if one has none."""
    _, coordinate, indices = axis
    found = None if coordinate is None else coordinate.at(np.asarray(indices, np.int64))
    if found is None:
        return [str(i) for i in indices]
    return short_texts(found) if found.dtype.kind == "M" else plain_texts(found)
