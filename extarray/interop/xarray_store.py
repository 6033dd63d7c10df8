"""Stored arrays as xarray variables: one array with its coordinates, or a folder of arrays.

A single array has its coordinates in the attribute ``"coords"``.  In a folder, each pair of files
is a variable or coordinate, and ``dataset.json`` has the attributes of the dataset.  `coords`
explains how labels are found after growth or shrinking at the start.  Attributes follow the CF
conventions, which xarray decodes; numbers, dates and texts are stored unchanged unless the
conventions ask for an encoding.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.array import creation
from extarray.array.array import ExtArray
from extarray.array.encodings import compressed_as
from extarray.array.folders import Group, open_group
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    MissingError,
)
from extarray.common.extras import require
from extarray.common.on_error import OnError
from extarray.fetched.paths import NOT_THERE, RemotePath
from extarray.format.attrs import encode_attrs
from extarray.format.labels import (
    CHARACTERS,
    DATASET_ORIGIN,
    SPLIT,
    UNLIMITED,
    axis_names,
    coordinate_form,
    coordinate_values,
    first_labels,
    known_origin,
    known_split,
)
from extarray.format.suffixes import METADATA
from extarray.format.values import to_json
from extarray.interop.xarray_lazy import LazyArray
from extarray.interop.xarray_split import split_variables
from extarray.interop.xarray_tasks import BEING_FILLED
from extarray.maintenance.group_files import write_whole

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
    "fixed_attrs",
    "groups_in",
    "is_group",
    "of_dtype",
    "read_dataset_attrs",
    "write_dataset_attrs",
]

xr: Any = require("xarray", "xarray", "the xarray backend")
indexing: Any = require("xarray.core.indexing", "xarray")
strings: Any = require("xarray.coding.strings", "xarray")

#: File with the attributes of the dataset in a folder.
DATASET = "dataset.json"
#: Attributes of an array that do not belong to the variable.
RESERVED = ("dims", "name", "coords", DATASET_ORIGIN, BEING_FILLED)
# Attributes that name other variables.
_NAMING = ("coordinates", "bounds")


class Entry(NamedTuple):
    """An array at the time when it was opened."""

    path: str
    manager: Any
    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    attrs: dict[str, Any]
    coords: dict[str, Any]  # the attribute
    origin: tuple[int, ...]
    dataset_origin: tuple[int, ...] | None
    unlimited: frozenset[str]  # dimensions that could grow in the original file
    is_text: bool  # whether single bytes are characters of texts along the last axis
    compressed: dict[str, Any]  # options of `create`
    splits: dict[str, dict[str, int]]  # axes that stand for several

    @classmethod
    def open(cls, path: str | os.PathLike[str] | RemotePath, prefix: str = "") -> Entry:
        """Open an array; unnamed axes get the default names of xarray, with a prefix."""
        manager = xr.backends.CachingFileManager(
            creation.open,
            path if isinstance(path, RemotePath) else os.fspath(path),
            mode="r",
            kwargs={"verify": config.verify},  # also used where the dataset is unpickled
        )
        with OnError(manager.close):
            a = manager.acquire()
            attrs = a.attrs.asdict()
            name, dims, coords = a.path.name, a.dims, {}
            if dims is not None:
                del attrs["dims"]
            if isinstance(attrs.get("name"), str):
                name = attrs.pop("name")
            if isinstance(attrs.get("coords"), dict):
                coords = attrs.pop("coords")
            attrs.pop(BEING_FILLED, None)
            dataset_origin = known_origin(attrs.get(DATASET_ORIGIN), a.ndim)
            if dataset_origin is not None:
                del attrs[DATASET_ORIGIN]
            splits = known_split(attrs.get(SPLIT), dims)
            named = dims or tuple(f"{prefix}dim_{j}" for j in range(a.ndim))
            own_names = dims or axis_names(None, a.ndim)
            unlimited = attrs.pop(UNLIMITED) if isinstance(attrs.get(UNLIMITED), list) else []
            is_text = a.dtype == "S1" and attrs.pop(CHARACTERS, None) in own_names[-1:]
            return cls(
                path=str(a.path),
                manager=manager,
                name=name,
                dims=named,
                shape=a.shape,
                dtype=a.dtype,
                chunks=a.chunks,
                attrs=_known_attrs(attrs),
                coords=coords,
                origin=a.origin,
                dataset_origin=dataset_origin,
                unlimited=frozenset(d for d in unlimited if d in named),
                is_text=is_text,
                compressed=compressed_as(a),
                splits=splits,
            )

    @property
    def sizes(self) -> dict[str, int]:
        """Extent of each dimension."""
        return dict(zip(self.dims, self.shape, strict=True))

    def shift(self, dim: str) -> int:
        """Return by how much indices along a dimension exceed those in the dataset."""
        j = self.dims.index(dim)
        return self.origin[j] - (self.dataset_origin[j] if self.dataset_origin else 0)

    def variable(self, starts: Mapping[str, int], sizes: Mapping[str, int]) -> Any:
        """Return a part of the array, beginning at `starts`, as a lazy variable."""
        shape = tuple(sizes[d] for d in self.dims)
        first = tuple(starts[d] - n for d, n in zip(self.dims, self.origin, strict=True))
        data = LazyArray(self.manager, first, shape, _known_dtype(self.dtype))
        attrs = dict(self.attrs)
        # The conventions require the dtype of the array; that of texts may be too short, and bytes
        # are compared when they have been decoded.
        if "_FillValue" in attrs and not (self.dtype.kind == "U" or "_Encoding" in attrs):
            attrs["_FillValue"] = of_dtype(attrs["_FillValue"], self.dtype, attrs["_FillValue"])
        encoding = {
            "source": self.path,
            "chunks": self.chunks,
            **self.compressed,
            "preferred_chunks": {
                d: min(c, max(1, n)) for d, c, n in zip(self.dims, self.chunks, shape, strict=True)
            },
        }
        return xr.Variable(self.dims, indexing.LazilyIndexedArray(data), attrs, encoding)

    def coordinates(
        self, starts: Mapping[str, int], sizes: Mapping[str, int]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the coordinates in the attribute ``"coords"`` that label all of these elements."""
        origin = dict(zip(self.dims, self.origin, strict=True))
        for name, form in self.coords.items():
            where = f"coordinate {name!r} of '{self.path}'"
            form = coordinate_form(name, form)
            variable = coordinate(form, where)
            firsts = first_labels(form, origin)
            labels = {}
            for d, first in zip(variable.dims, firsts, strict=True):
                if d not in origin:
                    if d not in sizes:
                        continue
                    _warn(f"{where} labels {d!r}, which is an axis of other arrays; it is left out")
                    break
                if first is None:
                    _warn(
                        f"{where} does not say which elements of {d!r} it labels, as its 'origin' "
                        "is invalid; it is left out.  Set it again, without 'origin'"
                    )
                    break
                n, there = sizes[d], variable.sizes[d]
                low = first + starts[d] if n else 0
                if low < 0:
                    _warn(
                        f"{where} has no values for the first {min(-low, n)} of {n} elements; it "
                        "is left out"
                    )
                    break
                if low + n != there:
                    what = f"{where} has {max(0, there - low)} values for {n} elements; "
                    if low + n > there:
                        _warn(f"{what}it is left out")
                        break
                    _warn(f"{what}the surplus is ignored")
                labels[d] = slice(low, low + n)
            else:
                yield name, variable.isel(labels)


def _are_texts(name: str, variables: Mapping[Any, Any]) -> bool:
    """Tell whether a variable's last dimension holds nothing but characters, as xarray requires."""
    dim = variables[name].dims[-1]
    sharing = [v for v in variables.values() if dim in v.dims]
    return dim not in variables and all(v.dtype.kind == "S" and v.dims[-1] == dim for v in sharing)


def _warn(message: str) -> None:
    # The stack level of the caller of xarray differs between functions.
    warnings.warn(message, UserWarning, stacklevel=2)


def _known_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that xarray uses for one of an array, with time units s, ms, us or ns."""
    # Years and months can be converted to seconds for dates, but not for differences.
    coarse = {"M": ("Y", "M", "W", "D", "h", "m"), "m": ("W", "D", "h", "m")}.get(dtype.kind)
    if coarse is not None and np.datetime_data(dtype)[0] in coarse:
        return np.dtype(f"{dtype.kind}8[s]")
    return dtype


def of_dtype(value: Any, dtype: np.dtype[Any], default: Any) -> Any:
    """Return a value as a scalar of a dtype, or the default if that fails."""
    item = np.zeros((), dtype)
    try:
        item[()] = value
    except (TypeError, ValueError, OverflowError):
        return default
    return item[()]


def coordinate(form: Mapping[str, Any], where: str) -> Any:
    """Return the variable for a form of `coordinate_form`."""
    try:
        x = coordinate_values(form)
        return xr.Variable(form["dims"], x, _known_attrs(form.get("attrs", {})))
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise ArgumentError(f"{where} is not valid ({error!r}): {form!r:.200}") from None


def _known_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with arrays and scalars in place of their forms in older files.

    Older files stored a scalar, often that of `_FillValue`, as ``{"dtype": "<f4", "data": 0.5}``.
    """
    return {name: _known_value(value) for name, value in attrs.items()}


def _known_value(value: Any) -> Any:
    if isinstance(value, dict) and {"dtype", "data"} <= value.keys() <= {"dtype", "data", "shape"}:
        with suppress(AttributeError, OverflowError, TypeError, ValueError):
            return coordinate_values(value)[()]
    return value


class _Store(xr.backends.AbstractDataStore):  # type: ignore[misc]
    """Arrays opened for reading.

    Attributes
    ----------
    entries : list of Entry
    decodes_text : bool
        Whether to join characters, and decode byte strings with a known encoding.
    shows_splits : bool
        Whether axes that stand for several are shown as these.
    """

    entries: list[Entry]
    decodes_text = False
    shows_splits = False

    @property
    def splits(self) -> dict[str, dict[str, int]]:
        """Lengths by name of the axes that stand in the place of others, where they are shown."""
        found: dict[str, dict[str, int]] = {}
        for entry in self.entries if self.shows_splits else ():
            for axis, lengths in entry.splits.items():
                if [*found.setdefault(axis, lengths).items()] != [*lengths.items()]:
                    raise ArgumentError(
                        f"'{entry.path}' splits {axis!r} into {lengths}, and another array of its "
                        f"folder into {found[axis]}; give both the same attribute 'split'"
                    )
        return found

    def load(self) -> tuple[Mapping[Any, Any], Mapping[Any, Any]]:
        """Return variables and attributes."""
        variables, attrs = super().load()
        splits = self.splits
        if splits:
            for entry in self.entries:
                if entry.splits and entry.name in variables:
                    variables[entry.name].attrs.pop(SPLIT, None)
            variables = split_variables(variables, splits)
        if self.decodes_text:
            joined = {e.name for e in self.entries if e.is_text and _are_texts(e.name, variables)}
            join, decode = strings.CharacterArrayCoder().decode, strings.EncodedStringCoder().decode
            variables = {n: join(v, n) if n in joined else v for n, v in variables.items()}
            variables = {n: decode(v, n) for n, v in variables.items()}
        return variables, attrs

    @property
    def coordinate_names(self) -> set[str]:
        """Names of the coordinates in attributes; some of them may also be arrays."""
        return {name for entry in self.entries for name in entry.coords}

    def get_encoding(self) -> dict[str, Any]:
        """Return xarray's encoding of files: which dimensions may grow."""
        names = {d for entry in self.entries for d in entry.unlimited}
        for axis, lengths in self.splits.items():
            if axis in names:
                names.remove(axis)
                names.update(d for d, n in lengths.items() if n == -1)
        return {UNLIMITED: names} if names else {}

    def close(self) -> None:
        """Close the arrays; later reads open them again."""
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
        Path of the pair of files.
    """

    def __init__(self, path: str | os.PathLike[str] | RemotePath) -> None:
        self.entries = [Entry.open(path)]

    @property
    def coords(self) -> set[str]:
        """Names of the variables that are coordinates."""
        return self.coordinate_names

    def starts(self, entry: Entry) -> dict[str, int]:
        """Return the index in the array at which each dimension begins."""
        return dict.fromkeys(entry.dims, 0)

    def get_variables(self) -> dict[str, Any]:
        """Return the array and its coordinates, undecoded."""
        (entry,) = self.entries
        starts = self.starts(entry)
        variables = {entry.name: entry.variable(starts, entry.sizes)}
        for name, variable in entry.coordinates(starts, entry.sizes):
            if name in variables:
                raise ArgumentError(
                    f"'{entry.path}' has the same name as its coordinate {name!r}; set another as "
                    "attribute 'name'"
                )
            variables[name] = variable
        return variables

    def get_attrs(self) -> dict[str, Any]:
        """Return no attributes: all belong to the array."""
        return {}


class FolderStore(_Store):
    """A folder of arrays, each a variable; without arrays only if `is_empty`.

    Notes
    -----
    If the arrays disagree about the extent of a dimension, because some grew alone, only the
    elements that all have are used, with a warning.  The attribute ``"dataset_origin"`` aligns them
    after growth or shrinking at the start.  Without it, elements are aligned by their indices, and
    get no coordinates.

    Attributes
    ----------
    sizes : dict
        Extents of the dimensions.
    lows : dict
        Where they begin, relative to the beginning of the arrays when they were combined; without
        dimensions for which that is unknown.
    coords : set of str
        Names of the coordinates that are only attributes.
    """

    sizes: dict[str, int]
    lows: dict[str, int]
    coords: set[str]

    def __init__(self, folder: str | os.PathLike[str] | RemotePath, is_empty: bool = False) -> None:
        self.folder = folder if isinstance(folder, RemotePath) else Path(folder)
        self.entries = []
        paths = arrays_in(self.folder)
        is_empty |= isinstance(self.folder, Path) and (self.folder / DATASET).exists()
        if not (paths or is_empty):
            raise MissingError(errno.ENOENT, "no arrays in this folder", str(folder))
        with OnError(self.close):
            for path in paths:
                self.entries.append(Entry.open(path, f"{path.stem}_"))
            self.sizes, self.lows = {}, {}
            for d in sorted({d for entry in self.entries for d in entry.dims}):
                self._agree(d)
        names = {entry.name for entry in self.entries}
        self.coords = self.coordinate_names - names

    def _agree(self, dim: str) -> None:
        """Find the elements along a dimension that all arrays have."""
        entries = [entry for entry in self.entries if dim in entry.dims]
        shifts = {entry.shift(dim) for entry in entries}
        extents = {entry.sizes[dim] for entry in entries}
        self.sizes[dim] = min(extents)
        if len(shifts) > 1 and any(entry.dataset_origin is None for entry in entries):
            _warn(
                f"the arrays of '{self.folder}' have grown or shrunk at the start of {dim!r} by "
                f"different amounts, and not all have the attribute '{DATASET_ORIGIN}', which "
                f"aligns them: its coordinates are left out, and the first {self.sizes[dim]} "
                "elements of each are used"
            )
            return
        low = self.lows[dim] = -min(shifts)
        if len(shifts) > 1:
            high = min(entry.sizes[dim] - entry.shift(dim) for entry in entries)
            self.sizes[dim] = max(0, high - low)
            _warn(
                f"the arrays of '{self.folder}' disagree about where {dim!r} begins; the "
                f"{self.sizes[dim]} elements that all have are used"
            )
        elif len(extents) > 1:
            _warn(
                f"the arrays of '{self.folder}' disagree about the extent of {dim!r}; the "
                f"smallest, {self.sizes[dim]}, is used"
            )

    def starts(self, entry: Entry) -> dict[str, int]:
        """Return the index in an array at which each dimension begins."""
        return {d: self.lows[d] + entry.shift(d) if d in self.lows else 0 for d in entry.dims}

    def get_variables(self) -> dict[str, Any]:
        """Return the arrays, undecoded."""
        variables: dict[str, Any] = {}
        for entry in self.entries:
            if entry.name in variables:
                raise ArgumentError(
                    f"two arrays of '{self.folder}' have the name {entry.name!r}; change the "
                    "attribute 'name' of one"
                )
            variables[entry.name] = entry.variable(self.starts(entry), self.sizes)
        for entry in self.entries:
            for name, variable in entry.coordinates(self.starts(entry), self.sizes):
                if name in self.coords and not variables.setdefault(name, variable).identical(
                    variable
                ):
                    raise ArgumentError(
                        f"coordinate {name!r} of '{entry.path}' differs from that of the other "
                        "arrays"
                    )
        unknown = self.unknown
        if unknown:
            names = {*unknown, *self.coords, *self._listed(variables)}
            for name in names & set(variables):
                if unknown & set(variables[name].dims):
                    del variables[name]
        return variables

    @property
    def unknown(self) -> set[str]:
        """Dimensions along which the arrays cannot be aligned."""
        return set(self.sizes) - set(self.lows)

    def _listed(self, variables: Mapping[str, Any]) -> set[str]:
        """Return the names of the coordinates that attributes list, by the CF conventions."""
        attrs = [self.get_attrs(), *(v.attrs for v in variables.values())]
        texts = [each[key] for each in attrs for key in _NAMING if isinstance(each.get(key), str)]
        return set(" ".join(texts).split())

    def get_attrs(self) -> dict[str, Any]:
        """Return the attributes of the dataset."""
        return read_dataset_attrs(self.folder)


def arrays_in(folder: Any) -> list[Any]:
    """Return the sorted paths of the arrays in a folder or packed group."""
    if isinstance(folder, Path) and folder.is_dir():
        return sorted(path.with_suffix("") for path in folder.glob(f"*{METADATA}"))
    with suppress(MissingError), open_group(folder) as group:
        return [folder / name for name, _ in group.arrays()]
    return []


def is_group(path: Any) -> bool:
    """Tell whether a path names a group, in a folder or packed, and not a single array."""
    if isinstance(path, str) and os.path.isdir(path):
        return True
    try:
        group = open_group(path)
    except NOT_THERE:
        return False
    with group:
        inside = list(group.walk())
        if len(inside) != 1 or not isinstance(inside[0][1], ExtArray):
            return True
        with suppress(*NOT_THERE), creation.open(path):
            return False
    return True


def groups_in(path: Any) -> list[str]:
    """Return the paths of a group and of all groups below it."""
    with open_group(path) as group:
        return ["", *(name for name, item in group.walk() if isinstance(item, Group))]


def read_dataset_attrs(folder: Any) -> dict[str, Any]:
    """Return the attributes of a dataset; none if ``dataset.json`` is missing."""
    with open_group(folder) as group:
        return _known_attrs(group.attrs.asdict())


def fixed_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with lists instead of arrays of objects or texts of any length.

    Raises ArgumentTypeError for a value that cannot be an attribute.
    """
    attrs = {
        name: value.tolist()
        if isinstance(value, np.ndarray) and value.dtype.kind in ("O", "T")
        else value
        for name, value in attrs.items()
    }
    encode_attrs(attrs)
    return attrs


def write_dataset_attrs(folder: Path, attrs: Mapping[str, Any]) -> None:
    """Replace the attributes of a dataset atomically."""
    form = {name: to_json(value, repr(name)) for name, value in attrs.items()}
    text = json.dumps({"attrs": form}, ensure_ascii=False, allow_nan=False, indent=1)
    write_whole(folder / DATASET, f"{text}\n".encode())
