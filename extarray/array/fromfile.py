"""Arrays from raw files, which have elements and nothing else."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from extarray.array.creation import filled
from extarray.common.config import config
from extarray.common.errors import ShapeError
from extarray.format.dtypes import check_dtype
from extarray.grid.chunking import check_shape
from extarray.streaming.derived import flat

if TYPE_CHECKING:
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import DTypeLike

    from extarray.array.array import ExtArray

    Shape = SupportsIndex | Sequence[SupportsIndex]

__all__ = ["fromfile"]


def fromfile(
    file: str | PathLike[str] | IO[Any],
    dtype: DTypeLike = float,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
    *,
    shape: Shape | None = None,
    path: str | PathLike[str] | None = None,
    chunks: Shape | None = None,
) -> ExtArray:
    """Make an array of the elements of a raw file, as `numpy.fromfile`, piece by piece.

    Parameters
    ----------
    file : str, PathLike or file
        An open file is read from where it stands, and has to be one of the operating system.
    dtype : dtype_like
        Of the elements in the file; default float64.
    count : int
        Elements; -1: as many as `shape` has, or to the end of the file.
    sep : str
        What separates elements that are text; "": the file is binary.
    offset : int
        Bytes to pass over in a binary file.
    shape : int or sequence of int, optional
        The file has the elements in C order.  The first extent may be -1: whatever the file has.
        None: one axis, of whatever the file has.
    path : str, PathLike, or None
        Of the pair of files; None: in memory.
    chunks : int or sequence of int, optional
        As for `create`.

    Returns
    -------
    ExtArray

    Raises
    ------
    ShapeError
        A ValueError: the elements are too few for the shape, or `count` is another one.
    ExistsError, ChunksError, StorageError, ReserveError
        As for `create`.

    Notes
    -----
    At most ``config.max_memory`` bytes are in memory at a time, where a row is not larger.

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> raw = os.path.join(tempfile.mkdtemp(), "image.raw")
    >>> np.arange(6, dtype="u2").tofile(raw)
    >>> xa.fromfile(raw, "u2", shape=(-1, 3))[...]
    array([[0, 1, 2],
           [3, 4, 5]], dtype=uint16)
    """
    kind = check_dtype(dtype)
    grows, extents = _extents(shape)
    row = math.prod(extents[1:]) if grows else 1
    if not grows:
        total = math.prod(extents)
        if count not in (-1, total):
            raise ShapeError(f"cannot read {count} elements into an array of shape {extents}")
        count = total
    if row == 0 or (grows and count > 0 and count % row):
        raise ShapeError(f"cannot read {count} elements as rows of shape {extents[1:]}")
    step = max(1, config.max_memory // (4 * kind.itemsize * row)) * row
    done = 0
    with contextlib.ExitStack() as stack:
        new = stack.enter_context(filled(path, extents, kind, chunks=chunks))
        elements = flat(new)
        source: Any = file
        if not hasattr(file, "read"):
            source = stack.enter_context(open(os.fspath(file), "rb"))
        while done != count:
            ask = step if count < 0 else min(step, count - done)
            block = np.fromfile(source, kind, ask, sep, 0 if done else offset)
            if grows:
                if len(block) % row:
                    raise ShapeError(f"the file ends inside a row of shape {extents[1:]}")
                new.append(block.reshape(-1, *extents[1:]))
            else:
                elements.write((slice(done, done + len(block)),), block)
            done += len(block)
            if len(block) < ask:
                break
        if done < count and not grows:
            raise ShapeError(f"the file has {done} elements; the shape {extents} needs {count}")
    return new


def _extents(shape: Shape | None) -> tuple[bool, tuple[int, ...]]:
    """Tell whether the first axis has what the file has, and with which shape to begin."""
    if shape is None:
        return True, (0,)
    given: Any = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if given and given[0] == -1:
        return True, (0, *check_shape(given[1:]))
    return False, check_shape(given)
