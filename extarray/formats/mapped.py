"""Arrays that are mapped from a dataset of another format, extended, and written back."""

from __future__ import annotations

import hashlib
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.array import ExtArray
from extarray.common.arguments import check_flag, check_progress
from extarray.common.calls import public
from extarray.common.errors import ClosedError, LossyWarning
from extarray.common.progress import Progress
from extarray.format.values import to_json
from extarray.formats.elements import part_of
from extarray.formats.files import Claims, allowed, check_shape_is, of_library
from extarray.formats.hdf5 import HDF5
from extarray.formats.netcdf import NETCDF
from extarray.formats.transfer import line_of, load
from extarray.grid.chunking import check_chunks, product
from extarray.streaming.blocks import hold
from extarray.streaming.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.common.arguments import Reported
    from extarray.formats.description import Description
    from extarray.formats.transfer import Format
    from extarray.grid.tiles import Box

__all__ = ["MappedArray", "map_hdf5", "map_netcdf"]

#: Size of the parts of a dataset that are compared and written back as a whole, in bytes.
_PART_BYTES = 1 << 20


class MappedArray(ExtArray):
    """An array bound to a dataset of another format, created by `map_hdf5` or `map_netcdf`.

    It can be used and extended like any other array; `write_back` writes its elements, bounds and
    attributes to the dataset.  Copies of it are plain arrays, and `extarray.open` of its files
    returns a plain array.

    Examples
    --------
    >>> import os, tempfile, h5py, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.h5")
    >>> xa.to_hdf5(xa.zeros((2, 3)), name, "level")
    >>> m = xa.map_hdf5(name, "level")
    >>> m[0, 0] = 5
    >>> m.write_back()
    48
    >>> type(m).__name__, type(m.copy()).__name__
    ('MappedArray', 'ExtArray')
    """

    __slots__ = ("_binding",)

    _binding: _Binding

    @classmethod
    def _plain_kind(cls) -> type[ExtArray]:  # type: ignore[override]
        return ExtArray

    @property
    def dataset(self) -> Any:
        """The dataset or file that the array is bound to, as it was given.

        If a dataset, or the file of a variable, was recreated to grow, the new one.
        """
        return self._binding.file

    @property
    def report(self) -> tuple[str, ...]:
        """Changes of the last `write_back` other than elements and attributes.

        Each entry describes a change of the file: a dataset that was resized or recreated, or a
        netCDF dimension that grew, with the variables that share it.

        Examples
        --------
        >>> import os, tempfile, h5py, extarray as xa
        >>> f = h5py.File(os.path.join(tempfile.mkdtemp(), "scene.h5"), "w")
        >>> f["level"] = [1, 2]
        >>> m = xa.map_hdf5(f, "level")
        >>> m.append([3])
        >>> _ = m.write_back()
        >>> m.report
        ("recreated '/level' to grow from (2,) to (3,)",)
        """
        return self._binding.report

    def write_back(self, *, replace: bool = False, progress: Reported = True) -> int:
        """Write changes back to the dataset.

        Parameters
        ----------
        replace : bool
            If the dataset must be recreated, do so even if others keep the old one: hard links,
            object and region references, files of a virtual or external dataset; and close a netCDF
            file that was given open (`dataset` has it open again).  False: refuse, and name them.
        progress : bool or callable
            Show progress on a terminal or in a notebook; or a function that is called with the
            bytes done and the total bytes.

        Returns
        -------
        int
            Bytes of written elements.

        Raises
        ------
        ArgumentError
            A ValueError: the dataset has changed its shape or dtype in the meantime, or cannot
            grow; or it must be recreated, and something keeps the old one.
        VariableError
            A KeyError: the dataset is gone.
        StorageError, FormatError, ClosedError

        Notes
        -----
        Parts of about 1 MiB are compared by hash with the elements that were read, and written if
        they differ.  If the array has moved at the start of an axis, all parts are written.

        A file that was given by name is copied, and the changed copy replaces it in one step, so
        the file is never half written.  This takes the time and the space of a copy, unless the
        file system has reflinks (as Btrfs and XFS do).  A file that was given open, or that this
        process has open with h5py, changes in place.  That is fast for files of any size, and the
        space is allocated first, so a full disk leaves the file unchanged; but if the process is
        killed, the file may be damaged, as with any program that writes HDF5.  Elements of a
        virtual or external dataset also change in place.

        An HDF5 dataset is resized if its ``maxshape`` allows that; otherwise it is recreated in the
        file, with its filters and attributes, and renamed when it is complete.  The whole file is
        searched for references to it.

        A netCDF variable grows along unlimited dimensions in its file.  If another dimension grows,
        or a shared one grows at its start, the whole file is recreated, and renamed when it is
        complete.  Other variables with the dimension get fill values in the new places.

        Examples
        --------
        >>> import os, tempfile, h5py, extarray as xa
        >>> name = os.path.join(tempfile.mkdtemp(), "scene.h5")
        >>> with h5py.File(name, "w") as f:
        ...     f["level"] = [[1, 2], [3, 4]]
        >>> m = xa.map_hdf5(name, "level")
        >>> m.append([[5, 6]])
        >>> m.write_back()
        48
        >>> with h5py.File(name) as f:
        ...     f["level"][:, 0].tolist()
        [1, 3, 5]
        """
        if self.closed:
            raise ClosedError("the mapped array is closed; map the dataset again")
        check_flag(replace, "replace")
        return self._binding.write_back(self, replace, check_progress(progress))


@public
def map_hdf5(
    dataset: Any,
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
) -> MappedArray:
    """Map an HDF5 dataset to an array that can be extended and written back.

    Parameters
    ----------
    dataset : h5py.Dataset, str, PathLike, h5py.File or h5py.Group
        An object of the library must be open for writing when the array is written back; a file
        given by its name is opened then.
    name : str, optional
        Name of the dataset, if `dataset` is a file or a group.
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
    MappedArray
        An `ExtArray` with a method `write_back`.

    Raises
    ------
    VariableError, DTypeError
        As for `from_hdf5`.
    FormatError
        A ValueError: the file is damaged, or of another format.
    MissingExtraError
        An ImportError: h5py is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Examples
    --------
    >>> import os, tempfile, h5py, extarray as xa
    >>> f = h5py.File(os.path.join(tempfile.mkdtemp(), "scene.h5"), "w")
    >>> level = f.create_dataset("level", data=[[1, 2], [3, 4]], maxshape=(None, None))
    >>> m = xa.map_hdf5(level)
    >>> m.extend(axis=1, by=1)
    >>> m[:, 2] = 9
    >>> m.write_back()
    16
    >>> level[...].tolist()
    [[1, 2, 9], [3, 4, 9]]
    """
    return _mapped(
        HDF5,
        dataset,
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


@public
def map_netcdf(
    file: Any,
    variable: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> MappedArray:
    """Map a netCDF variable to an array that can be extended and written back.

    Parameters
    ----------
    file : netCDF4.Variable, str, PathLike, netCDF4.Dataset or netCDF4.Group
        An object of the library must be open for writing when the array is written back; a file
        given by its name is opened then.
    variable : str, optional
        Name of the variable, if `file` is a file or a group.
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
    MappedArray
        An `ExtArray` with a method `write_back`.

    Raises
    ------
    VariableError, DTypeError
        As for `from_netcdf`.
    FormatError
        A ValueError: the file is damaged, or of another format.
    MissingExtraError
        An ImportError: netCDF4 is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Notes
    -----
    If a dimension that is not unlimited has grown, `write_back` recreates the file, which takes the
    time and the space of a copy: make dimensions that grow often unlimited (``to_netcdf(...,
    unlimited="time")``).

    Examples
    --------
    >>> import os, tempfile, netCDF4, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "rain.nc")
    >>> rain = xa.from_array([[1, 2], [3, 4]], dims=("time", "x"))
    >>> xa.to_netcdf(rain, name, "rain", unlimited="time")
    >>> m = xa.map_netcdf(name, "rain")
    >>> m.append([[5, 6]])
    >>> m.write_back()
    16
    >>> with netCDF4.Dataset(name) as d:
    ...     d["rain"].shape
    (3, 2)
    """
    return _mapped(
        NETCDF,
        file,
        variable,
        path=path,
        chunks=chunks,
        overwrite=overwrite,
        sparse=sparse,
        compression=compression,
        significant_bits=significant_bits,
        progress=progress,
        max_result=max_result,
    )


def _mapped(
    form: Format,
    file: Any,
    name: Any,
    path: Any = None,
    chunks: Any = None,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> MappedArray:
    """Load an array from a file, and bind it to its origin."""
    binding = _Binding(form, file, name)
    with allowed(max_result), form.source(binding.file, name) as source:
        m: Any = load(
            source,
            path,
            chunks,
            overwrite=overwrite,
            sparse=sparse,
            compression=compression,
            significant_bits=significant_bits,
            progress=progress,
            guard=binding.guard,
            what=line_of("map", form.title, file, name),
            kind=MappedArray,
            claims=Claims(binding.file),
        )
        binding.know(m, source.description)
    m._binding = binding
    return m  # type: ignore[no-any-return]


class _Binding:
    """The link of a mapped array to its origin.

    Parameters
    ----------
    form : Format
        A format that can change an array in a file.
    file, name : object
        As the user gave them.
    """

    def __init__(self, form: Format, file: Any, name: Any) -> None:
        assert form.edit is not None
        is_path = isinstance(file, (str, bytes, os.PathLike))
        self.form, self.edit = form, form.edit
        self.file = os.path.abspath(os.fsdecode(file)) if is_path else file
        self.name = name
        self.report: tuple[str, ...] = ()

    def guard(self) -> AbstractContextManager[None]:
        """Return the context of a call of the library."""
        return of_library(self.file, self.form.title)

    def know(self, m: MappedArray, given: Description) -> None:
        """Remember the elements and attributes that the array and its origin share."""
        self.shape, self.origin = m.shape, m.origin
        self.attrs = _forms(_own_attrs(m))
        theirs = given.chunks or check_chunks(None, given.shape, given.dtype.itemsize)
        self.part = self._part(theirs, given.dtype.itemsize)
        self._hashes = {
            tuple(b.start for b in box): _hash(part_of(m, box)) for box in self._parts(m.shape)
        }

    def _part(self, chunks: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Return the extents of compared parts: whole chunks of the origin."""
        part = [max(1, c) for c in chunks]
        size = itemsize * math.prod(part)
        for j in reversed(range(len(part))):
            more = max(1, min(_PART_BYTES // size, -(-max(1, self.shape[j]) // part[j])))
            part[j] *= more
            size *= more
        return tuple(part)

    def _parts(self, shape: tuple[int, ...]) -> Iterator[Box]:
        cuts = [range(0, n, p) for n, p in zip(shape, self.part, strict=True)]
        for place in product(*cuts):
            yield tuple(
                slice(a, min(a + p, n)) for a, p, n in zip(place, self.part, shape, strict=True)
            )

    def write_back(self, m: MappedArray, replace: bool, progress: Reported) -> int:
        """Write changes to the origin."""
        held = hold(m, verified=True)
        moved = tuple(n - o for n, o in zip(m.origin, self.origin, strict=True))
        values = _own_attrs(m)
        attrs = _forms(values)
        new = {k: values[k] for k, form in attrs.items() if self.attrs.get(k) != form}
        gone = [k for k in self.attrs if k not in attrs]
        lost: list[str] = []
        what = line_of("to", self.form.title, self.file, self.name)
        with Progress(max(1, 2 * held.nbytes), what, progress) as line:
            hashes, changed = {}, []
            for box in self._parts(held.shape):
                elements = held.read((*box, ...))
                start = tuple(b.start for b in box)
                hashes[start] = _hash(elements)
                if self._hashes.get(start) != hashes[start]:
                    changed.append(box)
                line.add(elements.nbytes)
            is_same = held.shape == self.shape and not (changed or any(moved) or new or gone)
            if is_same and isinstance(self.file, str):  # avoid a needless copy
                with self.form.source(self.file, self.name) as source:
                    check_shape_is(source.description.shape, self.shape)
                self.report = ()
                line.add(held.nbytes)
                return 0
            shapes = self.shape, held.shape
            with self.edit(self.file, self.name, *shapes, moved, replace) as edit:
                if edit.is_fresh or any(moved):
                    changed = list(self._parts(held.shape))
                written: int = sum(_size(box) for box in changed) * held.dtype.itemsize
                if edit.reserve is not None:
                    edit.reserve(written)
                line.add(held.nbytes - written)
                for box in changed:
                    elements = held.read((*box, ...))
                    # hash of the current elements
                    hashes[tuple(b.start for b in box)] = _hash(elements)
                    with self.guard():
                        edit.write(box, elements)
                    line.add(elements.nbytes)
                with self.guard():
                    edit.put_attrs(new, gone, lost)
        self.report = tuple(edit.said)
        if edit.file is not None:
            self.file = edit.file
        self.shape, self.origin, self.attrs, self._hashes = held.shape, m.origin, attrs, hashes
        lost = [*edit.lost, *lost]
        if lost:
            warn(f"{what}: the file does not have {'; '.join(lost)}", LossyWarning)
        return written


def _size(box: Box) -> int:
    return math.prod(b.stop - b.start for b in box)


def _hash(values: NDArray[Any]) -> bytes:
    """Return a hash of elements and their shape."""
    found = hashlib.blake2b(repr(values.shape).encode(), digest_size=16)
    found.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return found.digest()


def _own_attrs(m: MappedArray) -> dict[str, Any]:
    """Return the attributes that the origin has, too."""
    return {k: v for k, v in m.attrs.items() if k not in ("dims", "coords")}


def _forms(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return attributes in a form that can be compared, unlike NumPy arrays."""
    return {k: to_json(v, k) for k, v in attrs.items()}
