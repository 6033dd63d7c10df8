"""Arrays that are mapped from a dataset of another format, extended, and written back."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.array import ExtArray
from extarray.common.arguments import check_flag
from extarray.common.errors import ArgumentError, ClosedError, LossyWarning
from extarray.common.progress import Progress
from extarray.format.values import to_json
from extarray.formats import hdf5, hdf5_parts, netcdf, netcdf_parts
from extarray.formats.files import of_library
from extarray.formats.npy import part_of
from extarray.formats.transfer import load
from extarray.grid.chunking import check_chunks, product
from extarray.streaming.blocks import hold
from extarray.streaming.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.formats.transfer import Source
    from extarray.grid.tiles import Box

__all__ = ["MappedArray", "map_hdf5", "map_netcdf"]

#: Bytes of a part of a dataset that is compared, and written back, as a whole.
_PART_BYTES = 1 << 20


class MappedArray(ExtArray):
    """An array that is bound to a dataset of another format: made by `map_hdf5` or `map_netcdf`.

    It is used as any other array is, and extended on any axis; `write_back` brings its elements,
    bounds and attributes to the dataset.  Copies of it are plain arrays, and so is what
    `extarray.open` gives of its files.

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

    def write_back(self, *, progress: bool = True) -> int:
        """Write what has changed back into the dataset.

        Parameters
        ----------
        progress : bool
            Show a line that tells how far the work has come, if stderr is a terminal.

        Returns
        -------
        int
            Bytes of elements that were written.

        Raises
        ------
        ArgumentError
            A ValueError: the dataset has changed its shape or dtype since, or cannot grow.
        VariableError
            A KeyError: the dataset is gone.
        StorageError, FormatError, ClosedError

        Notes
        -----
        Parts of about 1 MiB are compared with what was read, by a hash, and written where they
        differ.  If the array has moved at the start of an axis, all parts are.

        A dataset of HDF5 is resized where its ``maxshape`` allows that; else it is made anew
        in the file, with its filters and attributes, and takes its name when it is complete.
        A variable of netCDF grows along unlimited dimensions.

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
        return self._binding.write_back(self, check_flag(progress, "progress"))


def map_hdf5(
    dataset: Any,
    name: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> MappedArray:
    """Map a dataset of HDF5 into an array, which is extended and written back.

    Parameters
    ----------
    dataset : h5py.Dataset, str, PathLike, h5py.File or h5py.Group
        What is open has to be open, for writing, when it is written back; a file that is given by
        its name is opened for that.
    name : str, optional
        Of the dataset, where `dataset` is a file or a group.
    path : str, PathLike, or None
        Of the pair of files for the elements meanwhile; None: in memory.
    chunks : int or sequence of int, optional
        None: those of the dataset, unless they have less than 4 KiB; else as for `create`.
    overwrite : bool
        Replace an existing pair.
    progress : bool
        Show a line that tells how far the work has come, if stderr is a terminal.

    Returns
    -------
    MappedArray
        An `ExtArray` with a method `write_back`.

    Raises
    ------
    VariableError, DTypeError, FormatError, MissingExtraError, MissingError, ExistsError
        As for `from_hdf5`.

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
    binding = _HDF5(dataset, name)
    return _mapped(binding, path, chunks, overwrite, progress)


def map_netcdf(
    file: Any,
    variable: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> MappedArray:
    """Map a variable of netCDF into an array, which is extended and written back.

    Parameters
    ----------
    file : netCDF4.Variable, str, PathLike, netCDF4.Dataset or netCDF4.Group
        What is open has to be open, for writing, when it is written back; a file that is given by
        its name is opened for that.
    variable : str, optional
        Its name, where `file` is a file or a group.
    path : str, PathLike, or None
        Of the pair of files for the elements meanwhile; None: in memory.
    chunks : int or sequence of int, optional
        None: those of the variable, unless they have less than 4 KiB; else as for `create`.
    overwrite : bool
        Replace an existing pair.
    progress : bool
        Show a line that tells how far the work has come, if stderr is a terminal.

    Returns
    -------
    MappedArray
        An `ExtArray` with a method `write_back`.

    Raises
    ------
    VariableError, DTypeError, FormatError, MissingExtraError, MissingError, ExistsError
        As for `from_netcdf`.

    Notes
    -----
    Only along an unlimited dimension is a longer array written back: other dimensions have their
    length for all time, and belong to other variables as well.  `to_netcdf` writes into another
    file.

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
    binding = _NetCDF(file, variable)
    return _mapped(binding, path, chunks, overwrite, progress)


def _mapped(
    binding: _Binding, path: Any, chunks: Any, overwrite: bool, progress: bool
) -> MappedArray:
    """Load the dataset of a binding, and bind the array to it."""
    with binding.reading() as source:
        binding.take(source)
        m: Any = load(
            source,
            path,
            chunks,
            overwrite=overwrite,
            progress=progress,
            guard=binding.guard,
            what=f"map {binding.title}",
            kind=MappedArray,
        )
    m._binding = binding
    binding.know(m)
    return m  # type: ignore[no-any-return]


class _Binding:
    """Knowledge of a mapped array about its dataset.

    Parameters
    ----------
    file, name : object
        As the user gave them.
    """

    title = ""

    def __init__(self, file: Any, name: Any) -> None:
        self.file = os.path.abspath(os.fsdecode(file)) if _is_path(file) else file
        self.name = name
        self._hashes: dict[tuple[int, ...], bytes] = {}

    def guard(self) -> AbstractContextManager[None]:
        """Return the context of a call of the library."""
        return of_library(self.file, self.title)

    def reading(self) -> AbstractContextManager[Source]:
        """Return the context that has the dataset as a source."""
        raise NotImplementedError

    def writing(self) -> AbstractContextManager[Any]:
        """Return the context that has the dataset, and takes it back to its state if need be."""
        raise NotImplementedError

    def resized(self, dataset: Any, shape: tuple[int, ...]) -> AbstractContextManager[Any]:
        """Return the context that has a dataset of another shape."""
        raise NotImplementedError

    def encoded(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return elements as the dataset has them."""
        raise NotImplementedError

    def put(self, dataset: Any, box: Box, values: NDArray[Any]) -> None:
        """Write elements."""
        raise NotImplementedError

    def put_attrs(self, dataset: Any, new: dict[str, Any], gone: list[str]) -> list[str]:
        """Write attributes; return what of them cannot be written, in words."""
        raise NotImplementedError

    # -- what was read ---------------------------------------------------------------------------

    def take(self, source: Source) -> None:
        """Note what the dataset is, and from now on the hashes of what is read."""
        given = source.description
        self.shape, self.dtype = given.shape, given.dtype
        theirs = given.chunks or check_chunks(None, given.shape, given.dtype.itemsize)
        self.part = self._part(theirs, given.dtype.itemsize)

    def _part(self, chunks: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Return the extents of the parts that are compared: whole chunks of the dataset."""
        part = [max(1, c) for c in chunks]
        size = itemsize
        for c in part:
            size *= c
        for j in reversed(range(len(part))):
            more = max(1, min(_PART_BYTES // size, -(-max(1, self.shape[j]) // part[j])))
            part[j] *= more
            size *= more
        return tuple(part)

    def know(self, m: MappedArray) -> None:
        """Note what the array has, as the dataset has it too."""
        self.shape, self.origin = m.shape, m.origin
        self.attrs = _forms(_own_attrs(m))
        self._hashes = {
            tuple(b.start for b in box): self._hash(part_of(m, box)) for box in self._parts(m.shape)
        }

    def _parts(self, shape: tuple[int, ...]) -> Iterator[Box]:
        cuts = [range(0, n, p) for n, p in zip(shape, self.part, strict=True)]
        for place in product(*cuts):
            yield tuple(
                slice(a, min(a + p, n)) for a, p, n in zip(place, self.part, shape, strict=True)
            )

    def _hash(self, values: NDArray[Any]) -> bytes:
        """Return what tells elements from others, with their shape."""
        found = hashlib.blake2b(repr(values.shape).encode(), digest_size=16)
        found.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
        return found.digest()

    # -- writing back ----------------------------------------------------------------------------

    def write_back(self, m: MappedArray, progress: bool) -> int:
        """Write what has changed."""
        held = hold(m, verified=True)
        moved = m.origin != self.origin
        written = 0
        with self.writing() as found:
            if self._shape_of(found) != self.shape:
                raise ArgumentError(
                    f"the dataset has the shape {self._shape_of(found)} now, and had {self.shape} "
                    "when it was mapped or written back; map it again"
                )
            with self.resized(found, held.shape) as (dataset, is_fresh):
                hashes = {}
                with Progress(max(1, held.nbytes), f"to {self.title}", progress) as line:
                    for box in self._parts(held.shape):
                        values = held.read((*box, ...))
                        start = tuple(b.start for b in box)
                        hashes[start] = self._hash(values)
                        if moved or is_fresh or self._hashes.get(start) != hashes[start]:
                            with self.guard():
                                self.put(dataset, box, self.encoded(values))
                            written += values.nbytes
                        line.add(values.nbytes)
                values = _own_attrs(m)
                attrs = _forms(values)
                new = {k: values[k] for k, form in attrs.items() if self.attrs.get(k) != form}
                with self.guard():
                    lost = self.put_attrs(dataset, new, [k for k in self.attrs if k not in attrs])
        if lost:
            warn(f"to {self.title}: the file does not have {'; '.join(lost)}", LossyWarning)
        self.shape, self.origin, self.attrs, self._hashes = held.shape, m.origin, attrs, hashes
        return written

    def _shape_of(self, dataset: Any) -> tuple[int, ...]:
        return tuple(dataset.shape[: len(self.shape)])


def _own_attrs(m: MappedArray) -> dict[str, Any]:
    """Return the attributes that a dataset has as well."""
    return {k: v for k, v in m.attrs.items() if k not in ("dims", "coords")}


def _forms(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return what tells attributes from others: NumPy's arrays have no such comparison."""
    return {k: to_json(v, k) for k, v in attrs.items()}


def _is_path(file: Any) -> bool:
    return isinstance(file, (str, bytes, os.PathLike))


class _HDF5(_Binding):
    """Binding to a dataset of HDF5."""

    title = "HDF5"

    def reading(self) -> AbstractContextManager[Source]:
        return hdf5.HDF5.source(self.file, self.name)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Any]:
        with hdf5.opened(self.file, "r+") as group:
            dataset = hdf5.find(group, self.name, self.file)
            if dataset.file.mode == "r":
                raise ArgumentError(
                    f"{dataset.file.filename!r} is open for reading; open it with mode 'r+'"
                )
            yield dataset
            with self.guard():
                dataset.file.flush()

    @contextlib.contextmanager
    def resized(self, dataset: Any, shape: tuple[int, ...]) -> Iterator[tuple[Any, bool]]:
        if tuple(dataset.shape) == shape:
            yield dataset, False
            return
        most = dataset.maxshape
        if dataset.chunks is not None and all(
            m is None or n <= m for n, m in zip(shape, most, strict=True)
        ):
            with self.guard():
                dataset.resize(shape)
            yield dataset, False
            return
        with hdf5.made_like(dataset, shape) as fresh:
            yield fresh, True
            with self.guard():
                hdf5.take_place(fresh, dataset)
        if not _is_path(self.file):
            self.file = fresh if self.name is None else self.file

    def encoded(self, values: NDArray[Any]) -> NDArray[Any]:
        return hdf5_parts.encoded(values)

    def put(self, dataset: Any, box: Box, values: NDArray[Any]) -> None:
        dataset[box] = values

    def put_attrs(self, dataset: Any, new: dict[str, Any], gone: list[str]) -> list[str]:
        lost: list[str] = []
        hdf5_parts.put_attrs(dataset, new, gone, lost)
        return lost


class _NetCDF(_Binding):
    """Binding to a variable of netCDF."""

    title = "netCDF"

    def reading(self) -> AbstractContextManager[Source]:
        return netcdf.NETCDF.source(self.file, self.name)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Any]:
        with netcdf.opened(self.file, "r+") as dataset:
            variable = netcdf.find(dataset, self.name, self.file)
            with netcdf_parts.as_it_is(variable):
                yield variable
            with self.guard():
                netcdf.root_of(variable).sync()

    @contextlib.contextmanager
    def resized(self, dataset: Any, shape: tuple[int, ...]) -> Iterator[tuple[Any, bool]]:
        for n, old, name in zip(shape, dataset.shape, dataset.dimensions, strict=False):
            there = netcdf_parts.dimension(dataset.group(), name)
            if n < old or (n > old and not there.isunlimited()):
                what = "is limited" if n > old else "does not get shorter"
                raise ArgumentError(
                    f"the dimension {name!r} of {old} elements {what}, the array has {n}: "
                    "extarray.to_netcdf writes it into another file"
                )
        yield dataset, False

    def encoded(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def put(self, dataset: Any, box: Box, values: NDArray[Any]) -> None:
        netcdf.put_elements(dataset, box, values)

    def put_attrs(self, dataset: Any, new: dict[str, Any], gone: list[str]) -> list[str]:
        lost: list[str] = []
        netcdf.put_attrs(dataset, new, gone, lost)
        return lost
