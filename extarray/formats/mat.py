"""MATLAB: matrices in .mat files, of version 5 by a reader of our own, of 7.3 through h5py.

SciPy has the whole matrix in memory, and takes no other way; a file of version 7.3 is one of HDF5.
The module has more than 600 lines, since these are two formats with one name.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import struct
import zlib
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from extarray.common.arguments import check_choice, check_flag
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExistsError,
    FormatError,
    LimitError,
)
from extarray.common.extras import require
from extarray.formats.description import Description
from extarray.formats.files import (
    beside,
    file_name,
    flat_file,
    mapped,
    of_library,
    part_of,
    unknown_part,
)
from extarray.formats.template import from_template
from extarray.formats.transfer import Format, Sink, Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from typing import Unpack

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.formats.template import Into, Out
    from extarray.grid.tiles import Box

__all__ = ["MAT", "from_mat", "to_mat"]

_TITLE = "MATLAB .mat"
#: Types in which numbers are stored.
_STORED = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
_MATRIX, _COMPRESSED, _UINT32, _INT32, _INT8 = 14, 15, 6, 5, 1
#: Classes of matrices of numbers, and of all others.
_CLASSES = {
    6: "f8",
    7: "f4",
    8: "i1",
    9: "u1",
    10: "i2",
    11: "u2",
    12: "i4",
    13: "u4",
    14: "i8",
    15: "u8",
}
_OTHERS = {
    1: "cells",
    2: "a struct",
    3: "an object",
    4: "text",
    5: "a sparse matrix",
    16: "a function",
    17: "an object",
}
#: Names of classes by their dtypes.
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
_COMPLEX, _LOGICAL = 0x800, 0x200
#: Bytes of elements in a file of version 5 at most.
_MOST = (1 << 32) - (1 << 12)
_HEAD = b"MATLAB 5.0 MAT-file, written by extarray"
_USERBLOCK = 512


@from_template("h5py, which reads files of version 7.3,")
def from_mat(
    file: str | PathLike[str],
    variable: str | None = None,
    *,
    mat_dtype: bool = False,
    **options: Unpack[Into],
) -> ExtArray:
    """Make an array of a matrix in a .mat file of MATLAB, in bounded memory.

    Parameters
    ----------
    variable : str, optional
        Its name; None: the file has one only.
    mat_dtype : bool
        Give elements the type that the matrix has in MATLAB.  False: that in which the file has
        them, since MATLAB stores numbers that are whole and small as integers (version 5), as
        `scipy.io.loadmat` does.

    Returns
    -------
    ExtArray
        With the axes as MATLAB has them.  Logical values are truth values.

    Raises
    ------
    VariableError
        A KeyError: no variable of this name; the message has those that there are.
    DTypeError
        A TypeError: text, cells, a struct, a sparse matrix.

    Notes
    -----
    Files of version 4 are refused: MATLAB has not written them by default since 1996.

    Examples
    --------
    >>> import os, tempfile, numpy as np, scipy.io, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.mat")
    >>> scipy.io.savemat(name, {"level": np.array([[1, 2], [3, 4]], "i2")}, do_compression=True)
    >>> xa.from_mat(name, "level")[...]
    array([[1, 2],
           [3, 4]], dtype=int16)
    """
    return MAT.load(file, variable, mat_dtype=mat_dtype, **options)


@from_template("h5py, which writes files of version 7.3,")
def to_mat(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    variable: str,
    *,
    version: Literal["5", "7.3"] | None = None,
    **options: Unpack[Out],
) -> None:
    """Write an array as a matrix into a .mat file of MATLAB, beside those that are in it.

    Parameters
    ----------
    variable : str
        Its name: a letter, and letters, digits and "_", 63 at most.
    version : {"5", "7.3"}, optional
        Of a new file.  None: "5", or "7.3" for more than 4 GiB.
    overwrite : bool
        Replace a variable that has this name.

    Raises
    ------
    DTypeError
        A TypeError: MATLAB has no such elements.
    LimitError
        An OverflowError: more than 4 GiB for version 5.

    Notes
    -----
    The file has its name when it is complete.  MATLAB has no arrays of less than 2 axes: a vector
    becomes a row.

    Examples
    --------
    >>> import os, tempfile, scipy.io, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.mat")
    >>> xa.to_mat(xa.from_array([[1.0, 2.0], [3.0, 4.0]]), name, "level")
    >>> scipy.io.loadmat(name)["level"]
    array([[1., 2.],
           [3., 4.]])
    """
    MAT.save(a, file, variable, version=version, **options)


# -- version 5 -----------------------------------------------------------------------------------


class _Matrix(NamedTuple):
    """A matrix in a file of version 5.

    `start` and `stop` bound its element in the file, with the tag; `kind` is the class of the
    matrix, and `flags` says more of it.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    flags: int
    start: int
    stop: int
    is_compressed: bool


class _Bytes:
    """Bytes of an element one behind the other, decompressed where need be."""

    def __init__(self, stream: IO[bytes], nbytes: int, is_compressed: bool) -> None:
        self._stream, self._left = stream, nbytes
        self._inflate = zlib.decompressobj() if is_compressed else None

    def read(self, n: int) -> bytes:
        """Read n bytes, no less."""
        parts: list[bytes] = []
        while n:
            part = self._some(min(n, 1 << 20))
            if not part:
                raise FormatError("the matrix ends too early")
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def _some(self, n: int) -> bytes:
        if self._inflate is None:
            part = self._stream.read(min(n, self._left))
            self._left -= len(part)
            return part
        while True:
            data = self._inflate.unconsumed_tail
            if not data:
                data = self._stream.read(min(1 << 16, self._left))
                self._left -= len(data)
            part = self._inflate.decompress(data, n)
            if part or self._inflate.eof or not data:
                return part

    def skip(self, n: int) -> None:
        """Pass over n bytes."""
        if self._inflate is None:
            self._stream.seek(min(n, self._left), os.SEEK_CUR)
            self._left -= min(n, self._left)
            return
        while n:
            n -= len(self.read(min(n, 1 << 20)))


def _order_of(stream: IO[bytes]) -> Literal["<", ">"]:
    """Read the header of a file; return the order of its bytes."""
    head = stream.read(128)
    orders: dict[bytes, Literal["<", ">"]] = {b"IM": "<", b"MI": ">"}
    if len(head) < 128 or head[126:] not in orders or not any(head[:4]):
        raise FormatError("it is no file of MATLAB's version 5 or 7.3")
    return orders[head[126:]]


def _tag(data: _Bytes, order: str) -> tuple[int, int, bytes | None]:
    """Read the tag of a part: type, bytes, and the bytes themselves where the tag has them."""
    kind, nbytes = struct.unpack(order + "II", head := data.read(8))
    if kind >> 16:
        if kind >> 16 > 4:
            raise FormatError("a damaged tag")
        return kind & 0xFFFF, kind >> 16, head[4 : 4 + (kind >> 16)]
    return kind, nbytes, None


def _part(data: _Bytes, order: str, wanted: int) -> bytes:
    """Read a small part of a certain type."""
    kind, nbytes, small = _tag(data, order)
    if kind != wanted or nbytes > 1 << 16:
        raise FormatError("a damaged header of a matrix")
    if small is not None:
        return small
    return data.read(nbytes + -nbytes % 8)[:nbytes]


def _begun(stream: IO[bytes], order: str, start: int) -> tuple[_Matrix | None, _Bytes, int]:
    """Read the header of the element at a place; return it, the bytes behind it, and the end."""
    stream.seek(start)
    head = stream.read(8)
    if len(head) < 8:
        raise FormatError("the file ends too early")
    kind, nbytes = struct.unpack(order + "II", head)
    stop = start + 8 + nbytes
    data = _Bytes(stream, nbytes, kind == _COMPRESSED)
    if kind == _COMPRESSED:
        inner, _ = struct.unpack(order + "II", data.read(8))
    else:
        inner = kind
    if inner != _MATRIX:
        return None, data, stop
    flags, _ = struct.unpack(order + "II", _part(data, order, _UINT32)[:8].ljust(8, b"\0"))
    extents = np.frombuffer(_part(data, order, _INT32), order + "i4").tolist()
    name = _part(data, order, _INT8).decode("utf-8", "replace")
    if min(extents, default=-1) < 0:
        raise FormatError(f"the matrix {name!r} has the shape {tuple(extents)}")
    found = _Matrix(name, tuple(extents), flags & 0xFF, flags, start, stop, kind == _COMPRESSED)
    return found, data, stop


def _matrices(stream: IO[bytes]) -> tuple[Literal["<", ">"], list[_Matrix]]:
    """Return the order of bytes of a file, and its matrices."""
    order = _order_of(stream)
    size = os.fstat(stream.fileno()).st_size
    found: list[_Matrix] = []
    place = 128
    while place + 8 <= size:
        each, _, place = _begun(stream, order, place)
        if each is not None:
            found.append(each)
    return order, found


def _chosen(where: str, name: Any, names: list[str]) -> str:
    """Return the name of a variable that is there."""
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        raise unknown_part(where, name, "a variable", names)
    return str(name)


@contextlib.contextmanager
def _source_5(where: str, name: Any, mat_dtype: bool) -> Iterator[Source]:
    """Open a matrix in a file of version 5: its numbers come one behind the other."""
    with contextlib.ExitStack() as stack:
        with of_library(where, _TITLE):
            stream = stack.enter_context(open(where, "rb"))
            order, there = _matrices(stream)
            name = _chosen(where, name, [m.name for m in there])
            matrix = next(m for m in there if m.name == name)
            if matrix.kind not in _CLASSES:
                raise _no_numbers(name, _OTHERS.get(matrix.kind, "something unknown"))
            parts = [stream]
            if matrix.flags & _COMPLEX:
                parts.append(stack.enter_context(open(where, "rb")))
            readers = [_Numbers(part, order, matrix, j) for j, part in enumerate(parts)]
        kind = np.dtype(order + _CLASSES[matrix.kind])
        if not mat_dtype:
            kind = readers[0].dtype
        if len(parts) > 1:
            kind = np.result_type(kind, np.complex64).newbyteorder(order)
        elif matrix.flags & _LOGICAL:
            kind = np.dtype(bool)

        def read(box: Box) -> NDArray[Any]:
            extents = [b.stop - b.start for b in box]
            values = np.empty(math.prod(extents), kind)
            if len(readers) > 1:
                values.real, values.imag = (r.next(values.size) for r in readers)
            else:
                values[:] = readers[0].next(values.size)
            return values.reshape(extents, order="F")

        axes = tuple(reversed(range(len(matrix.shape))))
        given, place = Description(matrix.shape, kind), readers[0].place
        if len(parts) > 1 or place is None or kind != readers[0].dtype:
            yield Source(given, read, sequential=axes)
            return
        with of_library(where, _TITLE):
            elements = mapped(where, kind, matrix.shape, place, "F")
        yield Source(given, partial(part_of, elements), mapped=True, sequential=axes)


class _Numbers:
    """Numbers of a matrix, one behind the other: the real parts, or the imaginary ones."""

    def __init__(self, stream: IO[bytes], order: str, matrix: _Matrix, part: int) -> None:
        _, self._data, _ = _begun(stream, order, matrix.start)
        for j in range(part + 1):
            kind, nbytes, small = _tag(self._data, order)
            if kind not in _STORED or nbytes < math.prod(matrix.shape) * int(_STORED[kind][1]):
                raise FormatError(f"the matrix {matrix.name!r} has fewer elements than its shape")
            if j < part and small is None:
                self._data.skip(nbytes + -nbytes % 8)
        self.dtype, self._small = np.dtype(order + _STORED[kind]), small
        is_open = small is None and not matrix.is_compressed
        #: First byte in the file; None: they do not lie there as they are.
        self.place = stream.tell() if is_open else None

    def next(self, n: int) -> NDArray[Any]:
        """Return the next n numbers, in the type in which they are stored."""
        nbytes = n * self.dtype.itemsize
        if self._small is not None:
            data, self._small = self._small[:nbytes], self._small[nbytes:]
        else:
            data = self._data.read(nbytes)
        return np.frombuffer(data, self.dtype, n)


def _no_numbers(name: str, what: str) -> DTypeError:
    return DTypeError(
        f"the variable {name!r} is {what}, and no matrix of numbers: save what is in it as a "
        "variable of its own"
    )


@contextlib.contextmanager
def _sink_5(
    where: str, name: str, given: Description, kind: np.dtype[Any], overwrite: bool
) -> Iterator[Sink]:
    """Add a matrix to a copy of a file of version 5."""
    kept: list[tuple[int, int]] = []
    order: Literal["<", ">"] = "<"
    head = _HEAD.ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    if os.path.lexists(where):
        with of_library(where, _TITLE), open(where, "rb") as stream:
            order, there = _matrices(stream)
        head = b""
        kept = [(0, 128)] + [(m.start, m.stop) for m in there if m.name != name]
        _refuse(where, name, [m.name for m in there], overwrite)
    part = np.dtype(f"f{kind.itemsize // 2}") if kind.kind == "c" else kind
    stored = np.dtype("u1") if kind.kind == "b" else part.newbyteorder(order)
    size = math.prod(given.shape)
    nbytes = size * stored.itemsize
    pad = -nbytes % 8
    is_complex = kind.kind == "c"
    flags = next(c for c, k in _CLASSES.items() if k == stored.str[1:])
    flags |= (_COMPLEX if is_complex else 0) | (_LOGICAL if kind.kind == "b" else 0)
    shape = _two(given.shape)
    code = next(c for c, k in _STORED.items() if k == stored.str[1:])

    def small(what: int, data: bytes) -> bytes:
        return struct.pack(order + "II", what, len(data)) + data + b"\0" * (-len(data) % 8)

    said = small(_UINT32, struct.pack(order + "II", flags, 0))
    said += small(_INT32, np.array(shape, order + "i4").tobytes()) + small(_INT8, name.encode())
    whole = len(said) + (8 + nbytes + pad) * (2 if is_complex else 1)
    if whole > _MOST:
        raise LimitError(
            f"{whole} bytes are more than a file of version 5 holds in a variable; give "
            "version='7.3'"
        )
    tag = struct.pack(order + "II", code, nbytes)
    head += struct.pack(order + "II", _MATRIX, whole) + said + tag
    total = nbytes + (pad + 8 + nbytes if is_complex else 0)
    with flat_file(where, _TITLE, bool(kept) or overwrite, total, head, b"\0" * pad, kept) as write:
        imaginary = nbytes + pad + 8
        if is_complex:
            write(np.frombuffer(b"\0" * pad + tag, np.uint8), nbytes)

        def put(box: Box, values: NDArray[Any], first: int) -> None:
            flat = values.ravel(order="K")
            if is_complex:
                write(flat.imag.astype(stored), imaginary + first * stored.itemsize)
                flat = flat.real
            write(flat.astype(stored, copy=False), first * stored.itemsize)

        axes = tuple(reversed(range(given.ndim)))
        yield Sink(put, sequential=axes, parallel=True, lost=given.said())


# -- version 7.3 ---------------------------------------------------------------------------------


def _is_hdf5(where: str) -> bool:
    """Tell whether a file is one of HDF5."""
    with open(where, "rb") as stream:
        head = stream.read(_USERBLOCK + 8)
    return head[_USERBLOCK:] == b"\x89HDF\r\n\x1a\n" or head[:8] == b"\x89HDF\r\n\x1a\n"


def _said_class(dataset: Any) -> str:
    """Return the class of a variable, as MATLAB says it."""
    found = dataset.attrs.get("MATLAB_class", b"")
    return found.decode() if isinstance(found, bytes) else str(found)


@contextlib.contextmanager
def _source_73(where: str, name: Any, mat_dtype: bool) -> Iterator[Source]:
    """Open a matrix in a file of version 7.3, which has it with its axes turned round."""
    h5py: Any = require("h5py", "mat", f"{_TITLE}, version 7.3,")
    with contextlib.ExitStack() as stack:
        with of_library(where, _TITLE):
            file = stack.enter_context(h5py.File(where, "r"))
            name = _chosen(where, name, _names_73(file))
            dataset = file[name]
            said = _said_class(dataset)
            if "MATLAB_sparse" in dataset.attrs and isinstance(dataset, h5py.Group):
                raise _no_numbers(name, "a sparse matrix")
            if not isinstance(dataset, h5py.Dataset) or said not in {*_NAMES.values(), "logical"}:
                is_plain = not said and isinstance(dataset, h5py.Dataset)
                words = f"of MATLAB's class {said!r}" if said else "a struct"
                raise _no_numbers(name, "of no class of MATLAB's" if is_plain else words)
            kind = dataset.dtype
            if kind.names == ("real", "imag"):
                kind = np.result_type(kind["real"], np.complex64)
            elif kind.kind not in "iuf":
                raise _no_numbers(name, f"of {kind}")
            elif said == "logical":
                kind = np.dtype(bool)
            is_empty = "MATLAB_empty" in dataset.attrs
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
    """Return the names of the variables; what begins with "#" is MATLAB's own."""
    return [name for name in file if not name.startswith("#")]


@contextlib.contextmanager
def _sink_73(
    where: str, name: str, given: Description, kind: np.dtype[Any], overwrite: bool
) -> Iterator[Sink]:
    """Add a matrix to a file of version 7.3: to a copy of it, which replaces it."""
    h5py: Any = require("h5py", "mat", f"{_TITLE}, version 7.3,")
    there = os.path.lexists(where)
    if there:
        with of_library(where, _TITLE), h5py.File(where, "r") as old:
            _refuse(where, name, _names_73(old), overwrite)
    part = np.dtype(f"f{kind.itemsize // 2}") if kind.kind == "c" else kind
    stored = np.dtype("u1") if kind.kind == "b" else part
    pair = np.dtype([("real", stored), ("imag", stored)])
    shape = _two(given.shape)
    with beside(where, there or overwrite) as fresh, contextlib.ExitStack() as stack:
        with of_library(where, _TITLE):
            file = stack.enter_context(h5py.File(fresh, "w", userblock_size=_USERBLOCK))
            if there:
                with h5py.File(where, "r") as old:
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
        yield Sink(put, chunks=chunks if given.ndim else None, lost=given.said())
        with of_library(where, _TITLE):
            stack.close()
            head = b"MATLAB 7.3 MAT-file, written by extarray".ljust(124)
            with open(fresh, "r+b") as stream:
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
        with open(where, "rb") as stream:
            return [m.name for m in _matrices(stream)[1]]


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
    """Make a matrix."""
    where = file_name(file, _TITLE)
    check_flag(overwrite, "overwrite")
    if version is not None:
        check_choice(version, "version", ("5", "7.3"))
    if not isinstance(name, str):
        raise ArgumentTypeError(f"the name of the variable must be a str, not {name!r}")
    if not re.fullmatch(r"[A-Za-z]\w{0,62}", name, re.ASCII):
        raise ArgumentError(f"{name!r} is no name of a variable in MATLAB")
    kind = given.dtype.newbyteorder("=")
    known = {*_NAMES, "b1", "c8", "c16"}
    if kind.names is not None or kind.isbuiltin == 2 or kind.str[1:] not in known:
        raise DTypeError(
            f"MATLAB has no elements of {given.dtype}; it has integers, and real and complex "
            "numbers of single and double precision: a.astype makes them"
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
    """Return a shape of 2 axes or more."""
    return (1,) * (2 - len(shape)) + shape


def _refuse(where: str, name: str, there: list[str], overwrite: bool) -> None:
    """Refuse the name of a variable that is taken."""
    if name in there and not overwrite:
        raise ExistsError(
            errno.EEXIST, f"it has a variable {name!r}; overwrite=True replaces it", where
        )


MAT = Format("mat", _TITLE, (".mat",), _source, _sink, part="a variable", extra="mat", names=_names)
