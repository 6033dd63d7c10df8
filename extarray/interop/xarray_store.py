"""What is stored, as xarray's variables: one array with its coordinates, or a folder of arrays.

One array has its coordinates in the attribute ``"coords"``.  In a folder each pair of files is a
variable, coordinates included, and ``dataset.json`` has the attributes of the dataset.  Attributes
are those of the CF conventions, which xarray decodes; numbers, dates and texts are stored as they
are where the conventions ask for nothing else.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import extarray as xa
from extarray.errors import (
    ArgumentError,
    FormatError,
    MissingError,
    storage_error,
)
from extarray.extras import require
from extarray.interop.values import decode, decode_array, encode, encode_array
from extarray.interop.xarray_lazy import LazyArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

__all__ = [
    "DATASET",
    "RESERVED",
    "ArrayStore",
    "Entry",
    "FolderStore",
    "arrays_in",
    "coordinate",
    "coordinate_form",
    "of_dtype",
    "read_dataset_attrs",
    "write_dataset_attrs",
]

xr: Any = require("xarray", "xarray", "the xarray backend")
indexing: Any = require("xarray.core.indexing", "xarray")
strings: Any = require("xarray.coding.strings", "xarray")

#: The file of a folder with the attributes of the dataset.
DATASET = "dataset.json"
#: Attributes of an array that are not those of the variable.
RESERVED = ("dims", "name", "coords")


class Entry(NamedTuple):
    """An array as it was when it was opened."""

    path: str
    manager: Any
    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    attrs: dict[str, Any]
    coords: dict[str, Any]  # JSON forms

    @classmethod
    def open(cls, path: str | os.PathLike[str], prefix: str = "") -> Entry:
        """Open an array; axes without names get those of xarray, after a prefix."""
        manager = xr.backends.CachingFileManager(xa.open, os.fspath(path), mode="r")
        try:
            a = manager.acquire()
            attrs = a.attrs.asdict()
            name, dims, coords = a.path.name, a.dims, {}
            if dims is not None:
                del attrs["dims"]
            if isinstance(attrs.get("name"), str):
                name = attrs.pop("name")
            if isinstance(attrs.get("coords"), dict):
                coords = attrs.pop("coords")
            return cls(
                path=os.fspath(a.path),
                manager=manager,
                name=name,
                dims=dims or tuple(f"{prefix}dim_{j}" for j in range(a.ndim)),
                shape=a.shape,
                dtype=a.dtype,
                chunks=a.chunks,
                attrs=decode(attrs),
                coords=coords,
            )
        except BaseException:
            manager.close()
            raise

    @property
    def sizes(self) -> dict[str, int]:
        """Extent of each dimension."""
        return dict(zip(self.dims, self.shape, strict=True))

    def variable(self, sizes: Mapping[str, int]) -> Any:
        """The array as a lazy variable, with the extents that `sizes` gives."""
        shape = tuple(sizes[d] for d in self.dims)
        data = LazyArray(self.manager, shape, _known_dtype(self.dtype))
        attrs = dict(self.attrs)
        if "_FillValue" in attrs:  # of the array's dtype, say the conventions
            attrs["_FillValue"] = of_dtype(attrs["_FillValue"], self.dtype, attrs["_FillValue"])
        encoding = {
            "source": self.path,
            "chunks": self.chunks,
            "preferred_chunks": {
                d: min(c, max(1, n)) for d, c, n in zip(self.dims, self.chunks, shape, strict=True)
            },
        }
        return xr.Variable(self.dims, indexing.LazilyIndexedArray(data), attrs, encoding)

    def coordinates(self, sizes: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
        """Yield the names and variables of the coordinates in the attribute ``"coords"``."""
        for name, form in self.coords.items():
            variable = coordinate(form, f"coordinate {name!r} of '{self.path}'")
            key = {}
            for d, n in variable.sizes.items():
                wanted = sizes.get(d, n)
                if n != wanted:
                    _warn(
                        f"coordinate {name!r} of '{self.path}' has {n} values for {wanted} "
                        f"elements: " + ("it is left out" if n < wanted else "the first ones count")
                    )
                    key[d] = slice(wanted)
            if all(n >= sizes.get(d, n) for d, n in variable.sizes.items()):
                yield name, variable.isel(key)


def _warn(message: str) -> None:
    # The level of who calls xarray is not known: it differs from function to function.
    warnings.warn(message, UserWarning, stacklevel=2)


def _known_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that xarray has for one of an array: its times are of s, ms, us or ns."""
    # Years and months have seconds where they are dates, and none where they are differences.
    coarse = {"M": ("Y", "M", "W", "D", "h", "m"), "m": ("W", "D", "h", "m")}.get(dtype.kind)
    if coarse is not None and np.datetime_data(dtype)[0] in coarse:
        return np.dtype(f"{dtype.kind}8[s]")
    return dtype


def of_dtype(value: Any, dtype: np.dtype[Any], default: Any) -> Any:
    """Scalar of a dtype, or the default where a value cannot be one."""
    item = np.zeros((), dtype)
    try:
        item[()] = value
    except (TypeError, ValueError, OverflowError):
        return default
    return item[()]


def coordinate(form: Any, where: str) -> Any:
    """Variable of the JSON form of a coordinate."""
    try:
        x = decode_array(form)
        return xr.Variable(form.get("dims", []), x, decode(form.get("attrs", {})))
    except (ArgumentError, AttributeError, TypeError, ValueError) as error:
        raise ArgumentError(f"{where} is none: {error}") from None


def coordinate_form(variable: Any) -> dict[str, Any]:
    """JSON form of a coordinate: of its encoded variable."""
    form = {"dims": list(variable.dims), **encode_array(variable.to_numpy())}
    return {**form, "attrs": encode(variable.attrs)} if variable.attrs else form


class _Store(xr.backends.AbstractDataStore):  # type: ignore[misc]
    """Arrays that are open for reading.

    Attributes
    ----------
    entries : list of Entry
    decodes_text : bool
        Whether byte strings with a known encoding are given as texts.
    """

    entries: list[Entry]
    decodes_text = False

    def load(self) -> tuple[Mapping[Any, Any], Mapping[Any, Any]]:
        """Return variables and attributes."""
        variables, attrs = super().load()
        if self.decodes_text:
            decode_text = strings.EncodedStringCoder().decode
            variables = {name: decode_text(v, name) for name, v in variables.items()}
        return variables, attrs

    def close(self) -> None:
        """Close the arrays; what is read afterwards opens them again."""
        for entry in self.entries:
            entry.manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class ArrayStore(_Store):
    """One array with its coordinates.

    Parameters
    ----------
    path : str or PathLike
        Of the pair of files.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.entries = [Entry.open(path)]

    @property
    def coords(self) -> set[str]:
        """Names of the variables that are coordinates."""
        return set(self.entries[0].coords)

    def get_variables(self) -> dict[str, Any]:
        """Return the array and its coordinates, not decoded."""
        (entry,) = self.entries
        variables = {entry.name: entry.variable(entry.sizes)}
        for name, variable in entry.coordinates(entry.sizes):
            if name in variables:
                raise ArgumentError(
                    f"'{entry.path}' has the name of its coordinate {name!r}; give it another, as "
                    "the attribute 'name'"
                )
            variables[name] = variable
        return variables

    def get_attrs(self) -> dict[str, Any]:
        """Return no attributes: all are those of the array."""
        return {}


class FolderStore(_Store):
    """A folder of arrays, each a variable.

    Parameters
    ----------
    folder : str or PathLike

    Notes
    -----
    The arrays of a dataset grow one after another.  Where they disagree about the extent of a
    dimension, the smallest counts, and a warning says so: it is the last on which all agreed.
    """

    coords: set[str]

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.entries = []
        paths = arrays_in(self.folder)
        if not paths and not (self.folder / DATASET).exists():
            raise MissingError(errno.ENOENT, "no arrays are in the folder", os.fspath(folder))
        try:
            for path in paths:
                self.entries.append(Entry.open(path, f"{path.stem}_"))
            self.sizes = self._agree()
        except BaseException:
            self.close()
            raise
        names = {entry.name for entry in self.entries}
        self.coords = {name for entry in self.entries for name in entry.coords} - names

    def _agree(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        differ = set()
        for entry in self.entries:
            for d, n in entry.sizes.items():
                if sizes.setdefault(d, n) != n:
                    differ.add(d)
                    sizes[d] = min(n, sizes[d])
        for d in sorted(differ):
            _warn(
                f"the arrays of '{self.folder}' disagree about the extent of {d!r}: the smallest, "
                f"{sizes[d]}, counts"
            )
        return sizes

    def get_variables(self) -> dict[str, Any]:
        """Return the arrays, not decoded."""
        variables: dict[str, Any] = {}
        for entry in self.entries:
            if entry.name in variables:
                raise ArgumentError(
                    f"two arrays of '{self.folder}' have the name {entry.name!r}; change the "
                    "attribute 'name' of one"
                )
            variables[entry.name] = entry.variable(self.sizes)
        for entry in self.entries:
            for name, variable in entry.coordinates(self.sizes):
                if name in self.coords and not variables.setdefault(name, variable).identical(
                    variable
                ):
                    raise ArgumentError(
                        f"coordinate {name!r} of '{entry.path}' is not that of the other arrays"
                    )
        return variables

    def get_attrs(self) -> dict[str, Any]:
        """Return the attributes of the dataset."""
        return read_dataset_attrs(self.folder)


def arrays_in(folder: Path) -> list[Path]:
    """Paths of the arrays of a folder, sorted."""
    return sorted(path.with_suffix("") for path in folder.glob("*.xmd"))


def read_dataset_attrs(folder: Path) -> dict[str, Any]:
    """Attributes of a dataset; none where ``dataset.json`` is not there."""
    file = folder / DATASET
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        attrs: dict[str, Any] = decode(json.loads(text)["attrs"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"'{file}' does not hold the attributes of a dataset: {error}") from None
    return attrs


def write_dataset_attrs(folder: Path, attrs: Mapping[str, Any]) -> None:
    """Replace the attributes of a dataset, in one step."""
    text = json.dumps({"attrs": encode(dict(attrs))}, ensure_ascii=False, allow_nan=False, indent=1)
    temporary = folder / f"{DATASET}.{os.getpid()}.new"
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, folder / DATASET)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise storage_error(error, "cannot write '{}'", folder / DATASET) from error
