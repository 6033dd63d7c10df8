"""``.npy`` and ``.npz``: arrays of NumPy, one a file or several in a ZIP file."""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import shutil
import struct
import zipfile
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.common.arguments import check_choice, check_flag
from extarray.common.errors import ArgumentTypeError, DTypeError, ExistsError, FormatError
from extarray.formats.description import Description
from extarray.formats.files import beside, file_name, of_library, reserve_bytes, unknown_part
from extarray.formats.transfer import Format, Sink, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.grid.tiles import Box

__all__ = [
    "NPY",
    "NPZ",
    "from_npy",
    "from_npz",
    "header_bytes",
    "losses",
    "mapped",
    "read_header",
    "to_npy",
    "to_npz",
]

_TITLE = "NumPy .npy"
#: Characters of a header at most: NumPy evaluates them as a literal of Python.
_MAX_HEADER = 1 << 20


def from_npy(
    file: str | PathLike[str],
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> ExtArray:
    """Make an array of a ``.npy`` file, as `numpy.load` reads it, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
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
        A ValueError: no such file, or one that is damaged.
    DTypeError
        A TypeError: the file has Python objects.
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
    return NPY.load(file, path=path, chunks=chunks, overwrite=overwrite, progress=progress)


def to_npy(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    *,
    selection: Any = None,
    order: Literal["C", "F"] = "C",
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Write an array into a ``.npy`` file, as `numpy.save` does, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
    file : str or PathLike
        The name as it is: no suffix is added.
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
        The array has what such a file cannot hold: attributes, names of axes, coordinates, a fill
        value.

    Notes
    -----
    The file has its name when it is complete.

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "column.npy")
    >>> xa.to_npy(xa.from_array([[1, 2], [3, 4]]), name, selection=np.s_[:, 1])
    >>> np.load(name)
    array([2, 4])
    """
    NPY.save(a, file, selection=selection, order=order, overwrite=overwrite, progress=progress)


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
    """Make a file: all of it has its space before the first element is stored."""
    where = file_name(file, _TITLE)
    head = header_bytes(given, check_choice(order, "order", ("C", "F")))
    with beside(where, check_flag(overwrite, "overwrite")) as fresh:
        with of_library(where, _TITLE):
            with open(fresh, "wb") as stream:
                stream.write(head)
            reserve_bytes(fresh, len(head) + given.nbytes)
            elements = mapped(fresh, given.dtype, given.shape, len(head), order, "r+")
        yield Sink(elements=elements, lost=losses(given))


def mapped(
    where: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    start: int,
    order: Literal["C", "F"],
    mode: Literal["r", "r+"] = "r",
) -> NDArray[Any]:
    """Map the elements of a file that lie one behind the other; a copy of none, where it has none.

    Raises
    ------
    FormatError
        A ValueError: the file is shorter than that.
    """
    nbytes = dtype.itemsize
    for n in shape:
        nbytes *= n
    has = os.stat(where).st_size - start
    if has < nbytes:
        raise FormatError(
            f"{where!r} has {max(0, has)} bytes of elements; {shape} elements of {dtype} are "
            f"{nbytes}"
        )
    if not nbytes:
        return np.empty(shape, dtype)
    return np.memmap(where, dtype, mode, start, shape, order)


def part_of(elements: Any, box: Box) -> NDArray[Any]:
    """Return the elements of a box as an array, those without axes too."""
    place: tuple[Any, ...] = (*box, ...)
    part: NDArray[Any] = elements[place]
    return part


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Read the header of a file; return shape, order and dtype of the elements behind it.

    Raises
    ------
    ValueError
        It is none.
    DTypeError
        A TypeError: the elements are Python objects.
    """
    version = np.lib.format.read_magic(stream)
    if version == (3, 0):
        (length,) = struct.unpack("<I", stream.read(4))
        if length > _MAX_HEADER:
            raise FormatError(f"a header of {length} characters")
        # As version 2, but for names outside of Latin-1: to Python these are the same as escapes.
        text = stream.read(length).decode().encode("unicode_escape").replace(b"\\n", b"\n")
        stream = io.BytesIO(struct.pack("<I", len(text)) + text)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise FormatError(f"version {version} is not known")
    shape, is_fortran, dtype = read(stream, max_header_size=_MAX_HEADER)
    if dtype.hasobject:
        raise DTypeError(
            "the file has Python objects, which are no elements of fixed size; load it with "
            "numpy.load(..., allow_pickle=True) if it comes from somebody you trust"
        )
    return shape, "F" if is_fortran else "C", dtype


def header_bytes(given: Description, order: str) -> bytes:
    """Return the header of a file with such elements."""
    described = {
        "descr": np.lib.format.dtype_to_descr(given.dtype),
        "fortran_order": order == "F" and given.ndim > 1,
        "shape": given.shape,
    }
    stream = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(stream, described)
        return stream.getvalue()
    except ValueError:  # more than 65535 characters, or some outside of Latin-1
        text = (repr(described) + "\n").encode()
    return np.lib.format.magic(3, 0) + struct.pack("<I", len(text)) + text


def losses(given: Description) -> list[str]:
    """Return what such a file cannot hold, in words."""
    lost = given.said()
    if np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(given.dtype)) != given.dtype:
        lost.append(f"the data type {given.dtype}, but elements of as many bytes")
    return lost


NPY = Format("npy", _TITLE, (".npy",), _source, _sink)


# -- .npz ------------------------------------------------------------------------------------------

_NPZ = "NumPy .npz"


def from_npz(
    file: str | PathLike[str],
    name: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> ExtArray:
    """Make an array of one in a ``.npz`` file, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
    name : str, optional
        Of the array in the file; None: it has one only.
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
    VariableError
        A KeyError: no array of this name; the message has those that there are.
    FormatError
        A ValueError: no such file, or one that is damaged.
    DTypeError, MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.npz")
    >>> np.savez(name, red=[1, 2], green=[3, 4])
    >>> xa.from_npz(name, "green")[...]
    array([3, 4])
    """
    return NPZ.load(file, name, path=path, chunks=chunks, overwrite=overwrite, progress=progress)


def to_npz(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    name: str = "arr_0",
    *,
    selection: Any = None,
    compressed: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Write an array into a ``.npz`` file, beside the arrays that are in it, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
    file : str or PathLike
        The name as it is: no suffix is added.
    name : str
        Of the array in the file.
    selection : index expression, optional
        What is written; None: all.
    compressed : bool
        As `numpy.savez_compressed`.
    overwrite : bool
        Replace an array that has this name in the file.
    progress : bool
        Show a line that tells how far the work has come, if stderr is a terminal.

    Raises
    ------
    ExistsError
        A FileExistsError: the file has an array of this name.
    FormatError
        A ValueError: there is another file of this name, no ``.npz``.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The array has what such a file cannot hold: attributes, names of axes, coordinates, a fill
        value.

    Notes
    -----
    The file is copied, and replaced when the copy has the array as well.

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
        selection=selection,
        compressed=compressed,
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
    """Open an array in a file: its bytes come one behind the other."""
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
                    raise FormatError(f"the array {name!r} ends too early")
                done += count
            left -= size
            if not left:
                _end(stream)
            return values.reshape(extents, order=order)

        yield Source(Description(shape, dtype), read, sequential=order)


def _end(stream: Any) -> None:
    """Read the end of a member, where its checksum is compared."""
    if stream.read(1):
        raise FormatError("there are more bytes than the array has")


@contextlib.contextmanager
def _npz_sink(
    file: Any,
    name: Any,
    given: Description,
    *,
    overwrite: bool = False,
    compressed: bool = False,
) -> Iterator[Sink]:
    """Add an array to a copy of a file, which replaces it."""
    where = file_name(file, _NPZ)
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
            errno.EEXIST, f"it has an array {name!r}; overwrite=True replaces it", where
        )
    with beside(where, there) as fresh, contextlib.ExitStack() as stack:
        with of_library(where, _NPZ):
            if there and not is_in:
                shutil.copyfile(where, fresh)
            archive = stack.enter_context(
                zipfile.ZipFile(fresh, "a" if there and not is_in else "w", method)
            )
            if is_in:
                _copy_others(where, archive, f"{name}.npy")
            stream = stack.enter_context(archive.open(f"{name}.npy", "w", force_zip64=True))
            stream.write(header_bytes(given, "C"))

        def write(box: Box, values: NDArray[Any]) -> None:
            stream.write(memoryview(np.ascontiguousarray(values).reshape(-1).view(np.uint8)))

        yield Sink(write, sequential="C", lost=losses(given))
        with of_library(where, _NPZ):
            stack.close()


def _copy_others(where: str, archive: zipfile.ZipFile, leave_out: str) -> None:
    """Copy the members of a file, but one."""
    with zipfile.ZipFile(where) as old:
        for info in old.infolist():
            if info.filename != leave_out:
                with old.open(info) as source, archive.open(info, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, 1 << 20)


NPZ = Format("npz", _NPZ, (".npz",), _npz_source, _npz_sink, part="an array", names=_names)
