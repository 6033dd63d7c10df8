"""Contiguous elements: ``.npy`` files, several of them in a ``.npz``, and raw files."""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import shutil
import struct
import zipfile
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.array.creation import filled
from extarray.common.arguments import as_int, check_choice, check_flag
from extarray.common.calls import public
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExistsError,
    FormatError,
    ShapeError,
)
from extarray.format.dtypes import check_dtype
from extarray.formats.description import Description
from extarray.formats.elements import flat_file, mapped, part_of
from extarray.formats.files import (
    beside,
    file_name,
    of_library,
    successor,
    target_name,
    unknown_part,
)
from extarray.formats.transfer import Format, Sink, Source
from extarray.grid.chunking import check_shape
from extarray.streaming.derived import flat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import DTypeLike, NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

    Shape = SupportsIndex | Sequence[SupportsIndex]

__all__ = [
    "NPY",
    "NPZ",
    "RAW",
    "from_npy",
    "from_npz",
    "from_raw",
    "fromfile",
    "to_npy",
    "to_npz",
    "to_raw",
]

_TITLE = "NumPy .npy"
#: Longest header in characters, since NumPy evaluates it as a Python literal.
_MAX_HEADER = 1 << 20


@public
def from_npy(
    file: str | PathLike[str],
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> ExtArray:
    """Make an array of a ``.npy`` file, as `numpy.load` reads it, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
    path : str, PathLike, or None
        Name of the new pair of files.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
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
    ExtArray

    Raises
    ------
    DTypeError
        A TypeError: the file has Python objects.
    FormatError
        A ValueError: the file is damaged, or of another format.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "image.npy")
    >>> np.save(name, [[1, 2, 3], [4, 5, 6]])
    >>> a = xa.from_npy(name)
    >>> a.extend(axis=0, by=1)
    >>> a[...]
    array([[1, 2, 3],
           [4, 5, 6],
           [0, 0, 0]])
    """
    return NPY.load(
        file,
        path=path,
        chunks=chunks,
        overwrite=overwrite,
        sparse=sparse,
        compression=compression,
        significant_bits=significant_bits,
        progress=progress,
        max_result=max_result,
    )


def to_npy(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    *,
    selection: Any = None,
    order: Literal["C", "F"] = "C",
    overwrite: bool = False,
    progress: Reported = True,
) -> None:
    """Write an array into a ``.npy`` file, as `numpy.save` does, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
    file : str or PathLike
        Exact name; no suffix is added.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    order : {"C", "F"}
        Order of the elements in the file: the last axis runs fastest, or the first.
    overwrite : bool
        Replace an existing file.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.

    Raises
    ------
    ExistsError
        A FileExistsError: the name is taken.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold the attributes, axis names, coordinates or fill value of the array.

    Notes
    -----
    The file appears when it is complete.

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "column.npy")
    >>> xa.to_npy(xa.from_array([[1, 2], [3, 4]]), name, selection=np.s_[:, 1])
    >>> np.load(name)
    array([2, 4])
    """
    NPY.save(a, file, order=order, selection=selection, overwrite=overwrite, progress=progress)


@contextlib.contextmanager
def _source(file: Any, name: Any = None) -> Iterator[Source]:
    """Map a file for reading."""
    where = file_name(file, _TITLE)
    with of_library(where, _TITLE):
        with open(where, "rb") as stream:
            shape, order, dtype = read_header(stream)
            start = stream.tell()
        elements = mapped(where, dtype, shape, start, order)
    yield Source(Description(shape, dtype), lambda box: part_of(elements, box), mapped=True)


@contextlib.contextmanager
def _sink(
    file: Any, name: Any, given: Description, *, overwrite: bool = False, order: Any = "C"
) -> Iterator[Sink]:
    """Create a file with a header followed by the elements."""
    head = header_bytes(given, check_choice(order, "order", ("C", "F")))
    with _flat_sink(_TITLE, file, given, overwrite, order, head) as sink:
        sink.lost = losses(given)
        yield sink


@contextlib.contextmanager
def _flat_sink(
    title: str, file: Any, given: Description, overwrite: bool, order: Any, head: bytes = b""
) -> Iterator[Sink]:
    """Create a file with a header followed by elements in a given order."""
    where = target_name(file, title)
    with flat_file(where, title, check_flag(overwrite, "overwrite"), given.nbytes, head) as write:
        axes = tuple(range(given.ndim))[:: -1 if order == "F" else 1]
        itemsize = given.dtype.itemsize
        yield Sink(
            lambda box, values, first: write(values, first * itemsize),
            sequential=axes,
            parallel=True,
        )


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Read the header of a file; return shape, order and dtype of the elements after it.

    Raises
    ------
    ValueError
        Not a header.
    DTypeError
        A TypeError: the elements are Python objects.
    """
    version = np.lib.format.read_magic(stream)
    if version == (3, 0):
        (length,) = struct.unpack("<I", stream.read(4))
        if length > _MAX_HEADER:
            raise FormatError(f"a header of {length} characters")
        # Version 3 differs from version 2 by names outside Latin-1, for which escapes are
        # equivalent in Python.
        text = stream.read(length).decode().encode("unicode_escape").replace(b"\\n", b"\n")
        stream = io.BytesIO(struct.pack("<I", len(text)) + text)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise FormatError(f"version {version} is not supported")
    shape, is_fortran, dtype = read(stream, max_header_size=_MAX_HEADER)
    if dtype.hasobject:
        raise DTypeError(
            "the file has Python objects, which have no fixed size; load it with numpy.load(..., "
            "allow_pickle=True) if you trust its source"
        )
    return shape, "F" if is_fortran else "C", dtype


def header_bytes(given: Description, order: str) -> bytes:
    """Return the header for the described elements."""
    described = {
        "descr": np.lib.format.dtype_to_descr(given.dtype),
        "fortran_order": order == "F" and given.ndim > 1,
        "shape": given.shape,
    }
    stream = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(stream, described)
        return stream.getvalue()
    except ValueError:  # longer than 65535 characters, or not Latin-1
        text = (repr(described) + "\n").encode()
    return np.lib.format.magic(3, 0) + struct.pack("<I", len(text)) + text


def losses(given: Description) -> list[str]:
    """Describe what such a file cannot hold."""
    lost = given.said()
    if np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(given.dtype)) != given.dtype:
        lost.append(f"the data type {given.dtype}, but elements of the same size")
    return lost


def _code(file: str, name: Any) -> list[str]:
    """Return lines of Python that map a file."""
    return ["import numpy as np", "", f'a = np.load({file!r}, mmap_mode="r")']


NPY = Format("npy", _TITLE, (".npy",), _source, _sink, code=_code)


# -- .npz ------------------------------------------------------------------------------------------

_NPZ = "NumPy .npz"


@public
def from_npz(
    file: str | PathLike[str],
    name: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> ExtArray:
    """Make an array of one array in a ``.npz`` file, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
    name : str, optional
        Name of the array in the file.  None: the only one.
    path : str, PathLike, or None
        Name of the new pair of files.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
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
    ExtArray

    Raises
    ------
    VariableError
        A KeyError: no array of this name; the message names those in the file.
    DTypeError
    FormatError
        A ValueError: the file is damaged, or of another format.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.npz")
    >>> np.savez(name, red=[1, 2], green=[3, 4])
    >>> xa.from_npz(name, "green")[...]
    array([3, 4])
    """
    return NPZ.load(
        file,
        name,
        path=path,
        chunks=chunks,
        overwrite=overwrite,
        sparse=sparse,
        compression=compression,
        significant_bits=significant_bits,
        progress=progress,
        max_result=max_result,
    )


def to_npz(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    name: str = "arr_0",
    *,
    selection: Any = None,
    compressed: bool = False,
    overwrite: bool = False,
    progress: Reported = True,
) -> None:
    """Add an array to a ``.npz`` file, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
    file : str or PathLike
        Exact name; no suffix is added.
    name : str
        Name of the array in the file.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    compressed : bool
        Compress the elements, as `numpy.savez_compressed` does.
    overwrite : bool
        Replace an array of this name in the file.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.

    Raises
    ------
    ExistsError
        A FileExistsError: the file has an array of this name.
    FormatError
        A ValueError: an existing file of this name is not a ``.npz``.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold the attributes, axis names, coordinates or fill value of the array.

    Notes
    -----
    The file is copied, and replaced when the copy is complete.

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.npz")
    >>> xa.to_npz(xa.from_array([1, 2]), name, "red")
    >>> xa.to_npz(xa.from_array([3, 4]), name, "green")
    >>> np.load(name)["red"]
    array([1, 2])
    """
    NPZ.save(
        a,
        file,
        name,
        compressed=compressed,
        selection=selection,
        overwrite=overwrite,
        progress=progress,
    )


def _names(file: Any) -> list[str]:
    """Return the names of the arrays in a file."""
    where = file_name(file, _NPZ)
    with of_library(where, _NPZ), zipfile.ZipFile(where) as archive:
        return [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]


@contextlib.contextmanager
def _npz_source(file: Any, name: Any = None) -> Iterator[Source]:
    """Open an array in a file; its bytes can only be read sequentially."""
    where = file_name(file, _NPZ)
    names = _names(where)
    if name is None and len(names) == 1:
        (name,) = names
    if name is None or name not in names:
        raise unknown_part(where, name, "an array", names)
    with contextlib.ExitStack() as stack:
        with of_library(where, _NPZ):
            archive = stack.enter_context(zipfile.ZipFile(where))
            stream = stack.enter_context(archive.open(f"{name}.npy"))
            shape, order, dtype = read_header(stream)
            if 0 in shape:
                _end(stream)
        left = math.prod(shape)
        member: Any = stream

        def read(box: Box) -> NDArray[Any]:
            nonlocal left
            extents = [b.stop - b.start for b in box]
            size = math.prod(extents)
            values = np.empty(size, dtype)
            view = memoryview(values.view(np.uint8)).cast("B")
            done = 0
            while done < len(view):
                count = member.readinto(view[done:])
                if not count:
                    raise FormatError(f"the array {name!r} is truncated")
                done += count
            left -= size
            if not left:
                _end(stream)
            return values.reshape(extents, order=order)

        axes = tuple(range(len(shape)))[:: -1 if order == "F" else 1]
        yield Source(Description(shape, dtype), read, sequential=axes)


def _end(stream: Any) -> None:
    """Read a member to its end, where its checksum is compared."""
    if stream.read(1):
        raise FormatError("it has more bytes than the array")


@contextlib.contextmanager
def _npz_sink(
    file: Any,
    name: Any,
    given: Description,
    *,
    overwrite: bool = False,
    compressed: bool = False,
) -> Iterator[Sink]:
    """Add an array to a copy of the file, which then replaces the file."""
    where = target_name(file, _NPZ)
    if name is None:
        name = "arr_0"
    if not isinstance(name, str):
        raise ArgumentTypeError(f"the name of the array must be a str, not {name!r}")
    method = zipfile.ZIP_DEFLATED if check_flag(compressed, "compressed") else zipfile.ZIP_STORED
    check_flag(overwrite, "overwrite")
    there = os.path.exists(where)
    is_in = there and name in _names(where)
    if is_in and not overwrite:
        raise ExistsError(
            errno.EEXIST, f"it already has an array {name!r}; replace it with overwrite=True", where
        )
    with contextlib.ExitStack() as outer, contextlib.ExitStack() as stack:
        if there:
            new = outer.enter_context(successor(where, _NPZ))
            fresh = new.name
            if not is_in:
                new.copy()
        else:
            fresh = outer.enter_context(beside(where, False))
        with of_library(where, _NPZ):
            # Given a name, zipfile would overwrite a file that it cannot open.
            file = stack.enter_context(open(fresh, "r+b"))
            mode: Literal["a", "w"] = "a" if there and not is_in else "w"
            archive = stack.enter_context(zipfile.ZipFile(file, mode, method))
            if is_in:
                _copy_others(where, archive, f"{name}.npy")
            stream = stack.enter_context(archive.open(f"{name}.npy", "w", force_zip64=True))
            stream.write(header_bytes(given, "C"))

        def write(box: Box, values: NDArray[Any]) -> None:
            with of_library(where, _NPZ):
                stream.write(memoryview(values.reshape(-1).view(np.uint8)))

        try:
            yield Sink(write, sequential=tuple(range(given.ndim)), lost=losses(given))
        except BaseException:
            with contextlib.suppress(Exception):  # told already
                stack.close()
            raise
        with of_library(where, _NPZ):
            stack.close()


def _copy_others(where: str, archive: zipfile.ZipFile, leave_out: str) -> None:
    """Copy all members of a file except one."""
    with zipfile.ZipFile(where) as old:
        for info in old.infolist():
            if info.filename != leave_out:
                with old.open(info) as source, archive.open(info, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, 1 << 20)


NPZ = Format("npz", _NPZ, (".npz",), _npz_source, _npz_sink, part="an array", names=_names)


# -- raw files ------------------------------------------------------------------------------------

_RAW = "raw elements"


@public
def from_raw(
    file: str | PathLike[str],
    shape: Shape,
    dtype: DTypeLike,
    offset: int = 0,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    order: Literal["C", "F"] = "C",
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> ExtArray:
    """Make an array of the elements of a raw file, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
    shape : int or sequence of int
        Shape of the array.  One extent may be -1, and follows from the file size.
    dtype : dtype_like
        Data type of the elements in the file; ``">i2"``, for example, is big-endian.
    offset : int
        Bytes before the first element.
    path : str, PathLike, or None
        Name of the new pair of files.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    order : {"C", "F"}
        Order of the elements in the file: the last axis runs fastest, or the first.
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
    ExtArray

    Raises
    ------
    FormatError
        A ValueError: the file is too short.
    ShapeError, DTypeError
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    See Also
    --------
    fromfile : like `numpy.fromfile`, also for text and open files.

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
        sparse=sparse,
        compression=compression,
        significant_bits=significant_bits,
        progress=progress,
        max_result=max_result,
    )


def to_raw(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    *,
    selection: Any = None,
    order: Literal["C", "F"] = "C",
    overwrite: bool = False,
    progress: Reported = True,
) -> None:
    """Write only the elements of an array into a file, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
    file : str or PathLike
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    order : {"C", "F"}
        Order of the elements in the file: the last axis runs fastest, or the first.
    overwrite : bool
        Replace an existing file.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.

    Raises
    ------
    ExistsError
        A FileExistsError: the name is taken.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The array has attributes, axis names, coordinates or a fill value. (Shape and dtype are
        always lost.)

    Examples
    --------
    >>> import os, tempfile, numpy as np, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "image.raw")
    >>> xa.to_raw(xa.from_array([[1, 2], [3, 4]]), name, order="F")
    >>> np.fromfile(name, int)
    array([1, 3, 2, 4])
    """
    RAW.save(a, file, order=order, selection=selection, overwrite=overwrite, progress=progress)


@contextlib.contextmanager
def _raw_source(
    file: Any, name: Any = None, *, shape: Any, dtype: Any, offset: Any = 0, order: Any = "C"
) -> Iterator[Source]:
    """Map a file for reading."""
    where = file_name(file, _RAW)
    kind, start = check_dtype(dtype), as_int(offset, "offset")
    check_choice(order, "order", ("C", "F"))
    if start < 0:
        raise ArgumentError(
            f"offset {start} is not valid; give the number of bytes before the elements"
        )
    with of_library(where, _RAW):
        extents = _extents(shape, os.stat(where).st_size - start, kind.itemsize)
        elements = mapped(where, kind, extents, start, order)
    yield Source(Description(extents, kind), lambda box: part_of(elements, box), mapped=True)


def _extents(shape: Any, nbytes: int, itemsize: int) -> tuple[int, ...]:
    """Return a shape in which an extent of -1 is replaced according to the file size."""
    try:
        given = tuple(shape)
    except TypeError:
        given = (shape,)
    places = [j for j, n in enumerate(given) if n == -1]
    if not places:
        return check_shape(given)
    if len(places) > 1:
        raise ShapeError(f"the shape {given} has more than one -1")
    (j,) = places
    others = check_shape(given[:j] + given[j + 1 :])
    row = math.prod(others) * itemsize
    if not row or nbytes < 0 or nbytes % row:
        raise ShapeError(
            f"{nbytes} bytes are not a multiple of {row} bytes, as the shape {given} requires; "
            "give all extents"
        )
    return (*others[:j], nbytes // row, *others[j:])


@contextlib.contextmanager
def _raw_sink(
    file: Any, name: Any, given: Description, *, overwrite: bool = False, order: Any = "C"
) -> Iterator[Sink]:
    """Create a file with nothing but elements."""
    check_choice(order, "order", ("C", "F"))
    with _flat_sink(_RAW, file, given, overwrite, order) as sink:
        sink.lost = given.said()
        yield sink


RAW = Format("raw", _RAW, (".raw", ".bin", ".dat"), _raw_source, _raw_sink)


# -- as numpy.fromfile ---------------------------------------------------------------------------


@public
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
    compression: Any = None,
) -> ExtArray:
    """Make an array of the elements of a raw file, like `numpy.fromfile` in bounded memory.

    Parameters
    ----------
    file : str, PathLike or file
        An open file is read from its current position, and must have a file descriptor.
    dtype : dtype_like
        Dtype of the elements in the file; default float64.
    count : int
        Number of elements; -1: as many as `shape` has, or to the end of the file.
    sep : str
        Separator of elements that are text; "": the file is binary.
    offset : int
        Bytes to skip in a binary file.
    shape : int or sequence of int, optional
        Shape of the elements in C order.  The first extent may be -1, and follows from the file.
        None: one axis with all elements.
    path : str, PathLike, or None
        Path of the pair of files; None: in memory.
    chunks : int or sequence of int, optional
    compression : str, int, Codec or None
        As for `create`.

    Returns
    -------
    ExtArray

    Raises
    ------
    ShapeError
        A ValueError: too few elements for the shape, or `count` contradicts it.
    ExistsError, ChunksError, StorageError, ReserveError
        As for `create`.

    Notes
    -----
    At most ``config.max_memory`` bytes, or one row, are in memory at a time.

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
    grows, extents = _extents_of_file(shape)
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
        new = stack.enter_context(
            filled(path, extents, kind, chunks=chunks, compression=compression)
        )
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


def _extents_of_file(shape: Shape | None) -> tuple[bool, tuple[int, ...]]:
    """Return whether the first extent follows from the file, and the shape to begin with."""
    if shape is None:
        return True, (0,)
    given: Any = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if given and given[0] == -1:
        return True, (0, *check_shape(given[1:]))
    return False, check_shape(given)
