"""Raw files: elements and nothing else."""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING, Any, Literal

from extarray.common.arguments import as_int, check_choice, check_flag
from extarray.common.errors import ArgumentError, ShapeError
from extarray.format.dtypes import check_dtype
from extarray.formats.description import Description
from extarray.formats.files import beside, file_name, of_library, reserve_bytes
from extarray.formats.npy import mapped, part_of
from extarray.formats.transfer import Format, Sink, Source
from extarray.grid.chunking import check_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import DTypeLike

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView

    Shape = SupportsIndex | Sequence[SupportsIndex]

__all__ = ["RAW", "from_raw", "to_raw"]

_TITLE = "raw elements"


def from_raw(
    file: str | PathLike[str],
    shape: Shape,
    dtype: DTypeLike,
    offset: int = 0,
    *,
    order: Literal["C", "F"] = "C",
    path: str | PathLike[str] | None = None,
    chunks: Shape | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> ExtArray:
    """Make an array of the elements of a raw file, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
    shape : int or sequence of int
        One extent may be -1: whatever the file has.
    dtype : dtype_like
        Of the elements in the file; ``">i2"``, say, are big-endian.
    offset : int
        Bytes before the first element.
    order : {"C", "F"}
        Of the elements in the file: the last axis runs fastest, or the first.
    path : str, PathLike, or None
        Of the pair of files; None: in memory.
    chunks : int or sequence of int, optional
        As for `create`.
    overwrite : bool
        Replace an existing pair.
    progress : bool
        Show a line that tells how far the work has come, if stderr is a terminal.

    Returns
    -------
    ExtArray

    Raises
    ------
    FormatError
        A ValueError: the file is too short.
    ShapeError, DTypeError, MissingError, ExistsError, ChunksError, StorageError, ReserveError

    See Also
    --------
    fromfile : as `numpy.fromfile`, also for text and open files.

    Examples
    --------
    >>> import os, tempfile, numpy as np, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "image.raw")
    >>> np.arange(6, dtype=">u2").tofile(name)
    >>> xa.from_raw(name, (-1, 3), ">u2")[...]
    array([[0, 1, 2],
           [3, 4, 5]], dtype='>u2')
    """
    return RAW.load(
        file,
        shape=shape,
        dtype=dtype,
        offset=offset,
        order=order,
        path=path,
        chunks=chunks,
        overwrite=overwrite,
        progress=progress,
    )


def to_raw(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    *,
    selection: Any = None,
    order: Literal["C", "F"] = "C",
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Write the elements of an array into a file, and nothing else, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
    file : str or PathLike
    selection : index expression, optional
        What is written; None: all.
    order : {"C", "F"}
        Of the elements in the file.
    overwrite : bool
        Replace an existing file.
    progress : bool
        Show a line that tells how far the work has come, if stderr is a terminal.

    Raises
    ------
    ExistsError
        A FileExistsError: the file exists.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The array has attributes, names of axes, coordinates or a fill value.  (That a raw file has
        no shape and no dtype goes without saying.)

    Examples
    --------
    >>> import os, tempfile, numpy as np, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "image.raw")
    >>> xa.to_raw(xa.from_array([[1, 2], [3, 4]]), name, order="F")
    >>> np.fromfile(name, int)
    array([1, 3, 2, 4])
    """
    RAW.save(a, file, selection=selection, order=order, overwrite=overwrite, progress=progress)


@contextlib.contextmanager
def _source(
    file: Any, name: Any = None, *, shape: Any, dtype: Any, offset: Any = 0, order: Any = "C"
) -> Iterator[Source]:
    """Map a file for reading."""
    where = file_name(file, _TITLE)
    kind, start = check_dtype(dtype), as_int(offset, "offset")
    check_choice(order, "order", ("C", "F"))
    if start < 0:
        raise ArgumentError(f"offset {start} is not possible; give the bytes before the elements")
    with of_library(where, _TITLE):
        extents = _extents(shape, os.stat(where).st_size - start, kind.itemsize)
        elements = mapped(where, kind, extents, start, order)
    yield Source(Description(extents, kind), lambda box: part_of(elements, box), mapped=True)


def _extents(shape: Any, nbytes: int, itemsize: int) -> tuple[int, ...]:
    """Return a shape, with the extent that is -1 found by the size of the file."""
    try:
        given = tuple(shape)
    except TypeError:
        given = (shape,)
    places = [j for j, n in enumerate(given) if n == -1]
    if not places:
        return check_shape(given)
    if len(places) > 1:
        raise ShapeError(f"the shape {given} has more than one extent -1")
    (j,) = places
    others = check_shape(given[:j] + given[j + 1 :])
    row = math.prod(others) * itemsize
    if not row or nbytes < 0 or nbytes % row:
        raise ShapeError(
            f"{nbytes} bytes are no whole number of parts of {row} bytes, as the shape {given} has "
            "them; give the extents"
        )
    return (*others[:j], nbytes // row, *others[j:])


@contextlib.contextmanager
def _sink(
    file: Any, name: Any, given: Description, *, overwrite: bool = False, order: Any = "C"
) -> Iterator[Sink]:
    """Make a file: all of it has its space before the first element is stored."""
    where = file_name(file, _TITLE)
    check_choice(order, "order", ("C", "F"))
    with beside(where, check_flag(overwrite, "overwrite")) as fresh:
        with of_library(where, _TITLE):
            reserve_bytes(fresh, given.nbytes)
            elements = mapped(fresh, given.dtype, given.shape, 0, order, "r+")
        yield Sink(elements=elements, lost=given.said())


RAW = Format("raw", _TITLE, (".raw", ".bin", ".dat"), _source, _sink)
