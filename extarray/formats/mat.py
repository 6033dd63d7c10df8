"""MATLAB matrices in .mat files: version 5 through SciPy, version 7.3 through h5py.

SciPy holds a whole matrix in memory; files of version 7.3 are HDF5, and are copied piece by piece.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import struct
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.common.arguments import check_choice, check_flag
from extarray.common.calls import public
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExistsError,
    FormatError,
    LimitError,
)
from extarray.common.extras import require
from extarray.common.hints import hint
from extarray.formats.description import Description
from extarray.formats.elements import part_of
from extarray.formats.files import (
    append_range,
    beside,
    file_name,
    of_library,
    successor,
    target_name,
    unknown_part,
    written,
)
from extarray.formats.transfer import Format, Sink, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

__all__ = ["MAT", "from_mat", "to_mat"]

_TITLE = "MATLAB .mat"
#: Descriptions of classes without numbers.
_OTHERS = {
    "cell": "cells",
    "struct": "a struct",
    "object": "an object",
    "char": "text",
    "sparse": "a sparse matrix",
    "function": "a function",
    "opaque": "an object",
}
#: Class names by dtype.
_NAMES = {
    "f8": "double",
    "f4": "single",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
}
#: Dtypes by class name.
_DTYPES = {name: np.dtype(kind) for kind, name in _NAMES.items()} | {"logical": np.dtype(bool)}
#: Largest variable in a file of version 5, in bytes.
_MOST = (1 << 32) - (1 << 12)
#: Bytes before the first variable, and SciPy's name for the data of MATLAB objects.
_HEAD, _WORKSPACE = 128, "__function_workspace__"
_USERBLOCK = 512


@public
def from_mat(
    file: str | PathLike[str],
    variable: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    mat_dtype: bool = False,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> ExtArray:
    """Make an array of a matrix in a MATLAB .mat file.

    Parameters
    ----------
    file : str or PathLike
    variable : str, optional
        Name of the matrix.  None: the only one in the file.
    path : str, PathLike, or None
        Name of the new pair of files.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    mat_dtype : bool
        Give elements the type that the matrix has in MATLAB.  False: the type that they have in the
        file, as `scipy.io.loadmat` does: in version 5 MATLAB stores small whole numbers as
        integers.
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
        With the axes in MATLAB's order.  Logical values become booleans.

    Raises
    ------
    VariableError
        A KeyError: no variable of this name; the message names those in the file.
    DTypeError
        A TypeError: text, cells, a struct, a sparse matrix.
    FormatError
        A ValueError: the file is damaged, or of another format.
    MissingExtraError
        An ImportError: SciPy, or h5py for a file of version 7.3, is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Notes
    -----
    Files of version 7.3 are read in bounded memory.  For version 5, where a variable has at most 4
    GiB, SciPy holds the whole matrix in memory.  Files of version 4 are refused: MATLAB has not
    written them by default since 1996.

    Examples
    --------
    >>> import os, tempfile, numpy as np, scipy.io, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.mat")
    >>> scipy.io.savemat(name, {"level": np.array([[1, 2], [3, 4]], "i2")}, do_compression=True)
    >>> xa.from_mat(name, "level")[...]
    array([[1, 2],
           [3, 4]], dtype=int16)
    """
    return MAT.load(
        file,
        variable,
        mat_dtype=mat_dtype,
        path=path,
        chunks=chunks,
        overwrite=overwrite,
        sparse=sparse,
        compression=compression,
        significant_bits=significant_bits,
        progress=progress,
        max_result=max_result,
    )


def to_mat(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    variable: str,
    *,
    selection: Any = None,
    version: Literal["5", "7.3"] | None = None,
    overwrite: bool = False,
    progress: Reported = True,
) -> None:
    """Add an array as a matrix to a MATLAB .mat file.

    Parameters
    ----------
    a : ExtArray or LazyView
    file : str or PathLike
    variable : str
        Name of the matrix: a letter, and letters, digits and "_", 63 at most.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    version : {"5", "7.3"}, optional
        Version of a new file.  None: "5", or "7.3" for more than 4 GiB.
    overwrite : bool
        Replace a variable that has this name.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.

    Raises
    ------
    DTypeError
        A TypeError: MATLAB does not support the dtype.
    LimitError
        An OverflowError: more than 4 GiB for version 5.
    FormatError
        A ValueError: a file of version 5 to which nothing can be added, as it is damaged, has the
        other byte order, or has MATLAB objects after a variable that is replaced.
    ExistsError
        A FileExistsError: the name is taken.
    MissingExtraError
        An ImportError: SciPy, or h5py for a file of version 7.3, is not installed.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    The file appears when it is complete.  MATLAB arrays have at least 2 axes: a vector becomes a
    row.  Version 7.3 is written in bounded memory; for version 5, SciPy holds the matrix in memory
    twice.

    Examples
    --------
    >>> import os, tempfile, scipy.io, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.mat")
    >>> xa.to_mat(xa.from_array([[1.0, 2.0], [3.0, 4.0]]), name, "level")
    >>> scipy.io.loadmat(name)["level"]
    array([[1., 2.],
           [3., 4.]])
    """
    MAT.save(
        a,
        file,
        variable,
        version=version,
        selection=selection,
        overwrite=overwrite,
        progress=progress,
    )


# -- version 5 -----------------------------------------------------------------------------------


def _variables(where: str) -> list[tuple[str, str]]:
    """Return names and classes of the variables in a file of version 5."""
    io: Any = require("scipy.io", "mat", f"{_TITLE}, version 5,")
    with open(where, "rb") as stream:
        head = stream.read(_HEAD)
    if head[126:] not in (b"IM", b"MI") or not any(head[:4]):
        raise FormatError("it is not a MATLAB file of version 5 or 7.3")
    return [(name, said) for name, _, said in io.whosmat(where, appendmat=False)]


def _chosen(where: str, name: Any, names: list[str]) -> str:
    """Return the name of an existing variable: the given one, or the only one."""
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        raise unknown_part(where, name, "a variable", names)
    return str(name)


@contextlib.contextmanager
def _source_5(where: str, name: Any, mat_dtype: bool) -> Iterator[Source]:
    """Read a matrix of a file of version 5 with SciPy."""
    io: Any = require("scipy.io", "mat", f"{_TITLE}, version 5,")
    with of_library(where, _TITLE):
        there = _variables(where)
        name = _chosen(where, name, [each for each, _ in there])
        said = next(said for each, said in there if each == name)
        if said not in _DTYPES:
            raise _no_numbers(name, _OTHERS.get(said, "something unknown"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy returns a text for a damaged matrix
            values = io.loadmat(where, appendmat=False, variable_names=[name])[name]
        if hasattr(values, "tocsc"):  # a logical matrix
            raise _no_numbers(name, _OTHERS["sparse"])
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biufc":
            raise FormatError(f"the matrix {name!r} is damaged: {values}")
        kind = _DTYPES[said] if mat_dtype or said == "logical" else values.dtype
        if values.dtype.kind == "c":
            kind = np.result_type(kind, np.complex64)
        values = values.astype(kind, copy=False)
    axes = tuple(reversed(range(values.ndim)))
    given = Description(values.shape, values.dtype)
    yield Source(given, partial(part_of, values), mapped=True, sequential=axes)


def _no_numbers(name: str, what: str) -> DTypeError:
    return DTypeError(
        f"the variable {name!r} is {what}, not a matrix of numbers; save the numbers in it as a "
        "separate variable"
    )


@contextlib.contextmanager
def _sink_5(
    where: str, name: str, given: Description, kind: np.dtype[Any], overwrite: bool
) -> Iterator[Sink]:
    """Collect a matrix, and let SciPy append it to a copy of a file of version 5."""
    io: Any = require("scipy.io", "mat", f"{_TITLE}, version 5,")
    if given.nbytes > _MOST:
        raise LimitError(
            f"{given.nbytes} bytes exceed the limit for a variable in version 5; give version='7.3'"
        )
    values = np.empty(given.shape, kind, "F")

    def put(box: Box, part: NDArray[Any]) -> None:
        values[box] = part

    with contextlib.ExitStack() as stack:
        kept: list[tuple[int, int]] = []
        if os.path.lexists(where):
            fresh = stack.enter_context(successor(where, _TITLE)).name
            with of_library(where, _TITLE):
                kept = _kept(where, name, overwrite)
        else:
            fresh = stack.enter_context(beside(where, overwrite))
        yield Sink(put, parallel=True, lost=given.said())
        with of_library(where, _TITLE), open(fresh, "r+b") as target:
            for low, high in kept:
                append_range(where, target.fileno(), low, high)
            target.seek(0, os.SEEK_END)
            io.savemat(target, {name: values.reshape(_two(given.shape), order="F")})


def _kept(where: str, name: str, overwrite: bool) -> list[tuple[int, int]]:
    """Return the byte ranges of a file without a variable, or refuse to add the variable."""
    names = [each for each, _ in _variables(where)]
    _refuse(where, name, names, overwrite)
    with open(where, "rb") as stream:
        order = {b"IM": "<", b"MI": ">"}[stream.read(_HEAD)[126:]]
        if order != {"little": "<", "big": ">"}[sys.byteorder]:
            raise FormatError(
                "it has non-native byte order, which SciPy cannot write; write to another file"
            )
        parts, size = [(0, _HEAD)], os.fstat(stream.fileno()).st_size
        while (place := parts[-1][1]) < size:
            stream.seek(place)
            _, nbytes = struct.unpack(f"{order}II", stream.read(8))
            parts.append((place, place + 8 + nbytes))
    if name in names and _WORKSPACE in names[names.index(name) :]:
        raise FormatError(
            f"MATLAB objects after {name!r} depend on their place in the file, which would "
            "change; write to another file"
        )
    return [part for part, each in zip(parts, [None, *names], strict=True) if each != name]


# -- version 7.3 ---------------------------------------------------------------------------------


def _is_hdf5(where: str) -> bool:
    """Tell whether a file is HDF5."""
    with open(where, "rb") as stream:
        head = stream.read(_USERBLOCK + 8)
    return head[_USERBLOCK:] == b"\x89HDF\r\n\x1a\n" or head[:8] == b"\x89HDF\r\n\x1a\n"


def _said_class(dataset: Any) -> str:
    """Return MATLAB's class of a variable."""
    found = dataset.attrs.get("MATLAB_class", b"")
    return found.decode() if isinstance(found, bytes) else str(found)


@contextlib.contextmanager
def _source_73(where: str, name: Any, mat_dtype: bool) -> Iterator[Source]:
    """Open a matrix in a file of version 7.3, which stores it with reversed axes."""
    h5py: Any = require("h5py", "mat", f"{_TITLE}, version 7.3,")
    with contextlib.ExitStack() as stack:
        with of_library(where, _TITLE):
            file = stack.enter_context(h5py.File(where, "r"))
            name = _chosen(where, name, _names_73(file))
            dataset = file[name]
            said = _said_class(dataset)
            if "MATLAB_sparse" in dataset.attrs and isinstance(dataset, h5py.Group):
                raise _no_numbers(name, "a sparse matrix")
            if not isinstance(dataset, h5py.Dataset) or said not in _DTYPES:
                is_plain = not said and isinstance(dataset, h5py.Dataset)
                words = f"of MATLAB class {said!r}" if said else "a struct"
                raise _no_numbers(name, "without a MATLAB class" if is_plain else words)
            kind = dataset.dtype
            if kind.names == ("real", "imag"):
                kind = np.result_type(kind["real"], np.complex64)
            elif kind.kind not in "iuf":
                raise _no_numbers(name, f"of {kind}")
            elif said == "logical":
                kind = np.dtype(bool)
            is_empty = "MATLAB_empty" in dataset.attrs
            if is_empty or (mat_dtype and kind.kind != "c"):
                kind = _DTYPES[said]  # the elements of an empty one are its extents
            elif mat_dtype:
                kind = np.result_type(_DTYPES[said], np.complex64)
            shape = tuple(map(int, dataset[()])) if is_empty else dataset.shape[::-1]
            chunks = None if dataset.chunks is None else dataset.chunks[::-1]

        def read(box: Box) -> NDArray[Any]:
            values = dataset[box[::-1]]
            if values.dtype.names:
                parts = values
                values = np.empty(parts.shape, kind)
                values.real, values.imag = parts["real"], parts["imag"]
            return np.asarray(values).astype(kind, copy=False).T

        yield Source(Description(shape, kind, chunks), read)


def _names_73(file: Any) -> list[str]:
    """Return the names of the variables; names that begin with "#" belong to MATLAB."""
    return [name for name in file if not name.startswith("#")]


@contextlib.contextmanager
def _sink_73(
    where: str, name: str, given: Description, kind: np.dtype[Any], overwrite: bool
) -> Iterator[Sink]:
    """Add a matrix to a copy of a file of version 7.3, which then replaces the file."""
    h5py: Any = require("h5py", "mat", f"{_TITLE}, version 7.3,")
    part = np.dtype(f"f{kind.itemsize // 2}") if kind.kind == "c" else kind
    stored = np.dtype("u1") if kind.kind == "b" else part
    pair = np.dtype([("real", stored), ("imag", stored)])
    shape = _two(given.shape)
    with contextlib.ExitStack() as stack:
        there = os.path.lexists(where)
        if there:
            fresh = stack.enter_context(successor(where, _TITLE)).name
            with of_library(where, _TITLE):
                old = stack.enter_context(h5py.File(where, "r"))
                _refuse(where, name, _names_73(old), overwrite)
        else:
            fresh = stack.enter_context(beside(where, overwrite))
        stack.enter_context(_headed(fresh, where))
        file, room = stack.enter_context(
            written(
                fresh,
                where,
                _TITLE,
                lambda: h5py.File(fresh, "w", userblock_size=_USERBLOCK),
                lambda file: file.flush(),
                lambda file: file.id.get_filesize(),
            )
        )
        with of_library(where, _TITLE):
            if there:
                room.need(os.path.getsize(where))
                for each in old:
                    if each != name:
                        old.copy(each, file)
            settings: dict[str, Any] = {}
            if 0 not in shape and given.chunks is not None:
                own = [max(1, min(c, n)) for c, n in zip(given.chunks, given.shape, strict=True)]
                settings["chunks"] = ((1,) * (2 - len(own)) + tuple(own))[::-1]
            elements = pair if kind.kind == "c" else stored
            if 0 in shape:
                dataset = file.create_dataset(name, data=np.array(shape, "u8"))
                dataset.attrs["MATLAB_empty"] = np.uint8(1)
            else:
                dataset = file.create_dataset(name, shape[::-1], elements, **settings)
            said = "logical" if kind.kind == "b" else _NAMES[stored.str[1:]]
            dataset.attrs["MATLAB_class"] = np.bytes_(said)
            if kind.kind == "b":
                dataset.attrs["MATLAB_int_decode"] = np.int32(1)

        def put(box: Box, values: NDArray[Any]) -> None:
            place = (slice(0, 1),) * (2 - len(box)) + box
            values = values.reshape([b.stop - b.start for b in place]).T
            if kind.kind == "c":
                parts = np.empty(values.shape, pair)
                parts["real"], parts["imag"] = values.real, values.imag
                values = parts
            dataset[place[::-1]] = values

        chunks = None if dataset.chunks is None else dataset.chunks[::-1][max(0, 2 - given.ndim) :]
        room.need(math.prod(shape) * elements.itemsize)
        yield Sink(put, chunks=chunks if given.ndim else None, lost=given.said())


@contextlib.contextmanager
def _headed(fresh: str, where: str) -> Iterator[None]:
    """Give an HDF5 file MATLAB's header at the end of the block."""
    yield
    head = b"MATLAB 7.3 MAT-file, written by extarray".ljust(124)
    with of_library(where, _TITLE), open(fresh, "r+b") as stream:
        stream.write(head + struct.pack("<H", 0x0200) + b"IM")


# -- both ----------------------------------------------------------------------------------------


def _names(file: Any) -> list[str]:
    """Return the names of the variables in a file."""
    where = file_name(file, _TITLE)
    with of_library(where, _TITLE):
        if _is_hdf5(where):
            h5py: Any = require("h5py", "mat", f"{_TITLE}, version 7.3,")
            with h5py.File(where, "r") as there:
                return _names_73(there)
        return [name for name, _ in _variables(where)]


@contextlib.contextmanager
def _source(file: Any, name: Any = None, *, mat_dtype: bool = False) -> Iterator[Source]:
    """Open a matrix for reading."""
    where = file_name(file, _TITLE)
    check_flag(mat_dtype, "mat_dtype")
    with of_library(where, _TITLE):
        is_hdf5 = _is_hdf5(where)
    with (_source_73 if is_hdf5 else _source_5)(where, name, mat_dtype) as source:
        yield source


@contextlib.contextmanager
def _sink(
    file: Any,
    name: Any,
    given: Description,
    *,
    overwrite: bool = False,
    version: str | None = None,
) -> Iterator[Sink]:
    """Create a matrix."""
    where = target_name(file, _TITLE)
    check_flag(overwrite, "overwrite")
    if version is not None:
        check_choice(version, "version", ("5", "7.3"))
    if not isinstance(name, str):
        raise ArgumentTypeError(f"the name of the variable must be a str, not {name!r}")
    if not re.fullmatch(r"[A-Za-z]\w{0,62}", name, re.ASCII):
        raise ArgumentError(f"{name!r} is not a valid MATLAB variable name")
    kind = given.dtype.newbyteorder("=")
    known = {*_NAMES, "b1", "c8", "c16"}
    if kind.names is not None or kind.isbuiltin == 2 or kind.str[1:] not in known:
        raise DTypeError(
            f"MATLAB does not support elements of {given.dtype}; convert them to integers, or "
            "real or complex numbers of single or double precision, "
            + hint("with a.astype", "with extarray rechunk --dtype")
        )
    is_large = given.nbytes > _MOST - (1 << 16)
    if os.path.lexists(where):
        with of_library(where, _TITLE):
            found = "7.3" if _is_hdf5(where) else "5"
        if version not in (None, found):
            raise ArgumentError(f"{where!r} is a file of version {found}, not {version}")
        version = found
    version = version or ("7.3" if is_large else "5")
    with (_sink_73 if version == "7.3" else _sink_5)(where, name, given, kind, overwrite) as sink:
        yield sink


def _two(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with at least 2 axes."""
    return (1,) * (2 - len(shape)) + shape


def _refuse(where: str, name: str, there: list[str], overwrite: bool) -> None:
    """Refuse the name of an existing variable."""
    if name in there and not overwrite:
        raise ExistsError(
            errno.EEXIST,
            f"it already has a variable {name!r}; replace it with overwrite=True",
            where,
        )


MAT = Format("mat", _TITLE, (".mat",), _source, _sink, part="a variable", extra="mat", names=_names)
