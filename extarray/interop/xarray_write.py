"""Write xarray objects to new files, after all checks have passed.

`from_array` and `ExtArray.append` slice a `Variable` block by block, so the result of dask or the
content of another file is never in memory as a whole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.array.creation import create, filled
from extarray.array.encodings import check_encoding, rounding_of
from extarray.array.filling import writer
from extarray.array.folders import changed_group, open_group, replace_group
from extarray.array.growth import write_source
from extarray.common import system
from extarray.common.arguments import check_choice
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    ShapeError,
)
from extarray.common.extras import require
from extarray.format.labels import DATASET_ORIGIN
from extarray.format.missing import marks_missing
from extarray.format.suffixes import METADATA, PAIR
from extarray.interop.xarray_encode import encode_variables, with_encoding
from extarray.interop.xarray_options import Options
from extarray.interop.xarray_store import (
    DATASET,
    RESERVED,
    FolderStore,
    arrays_in,
    fixed_attrs,
    of_dtype,
    write_dataset_attrs,
)
from extarray.interop.xarray_tasks import Part, is_late, runs_elsewhere, write_later, write_now
from extarray.interop.xarray_update import coords_form, update_array, update_dataset
from extarray.maintenance.group_files import making_folder
from extarray.storage.filesystem import family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from extarray.codecs.rounding import Rounding

__all__ = ["write_array", "write_dataset", "write_tree"]

xr: Any = require("xarray", "xarray", "the xarray backend")
conventions: Any = require("xarray.conventions", "xarray")
common: Any = require("xarray.backends.common", "xarray")

# -- plans of new arrays -------------------------------------------------------------------------


#: Encodings of a variable that are no conventions, and those that say how its array is compressed.
_LAYOUT = {"chunks", "source", "preferred_chunks", "_FillValue"}
_COMPRESSION = {"compression", "freeze", "significant_bits"}
#: Encodings of other engines that give the one of this name another meaning.
_OF_OTHERS = {"compression_opts", "complevel", "zlib"}


class New(NamedTuple):
    """An array to be created."""

    path: Path
    variable: Any
    attrs: dict[str, Any]
    chunks: Any
    compressed: dict[str, Any]  # options of `create`
    rounding: Rounding | None = None

    @classmethod
    def plan(
        cls, path: Path, variable: Any, chunks: Any, checked: bool, extra: Mapping[str, Any]
    ) -> New:
        """Make all checks that are possible before writing."""
        attrs = _array_attrs(variable, extra, f"'{path}'")
        # A fill value of None marks no missing value.
        unknown = set(variable.encoding) - _LAYOUT - _COMPRESSION
        if checked and unknown:
            raise ArgumentError(
                f"unexpected encoding for '{path}': {sorted(unknown)}; use those of the CF "
                "conventions, 'chunks', 'compression', 'freeze' or 'significant_bits'"
            )
        asked = {key: variable.encoding[key] for key in _COMPRESSION & set(variable.encoding)}
        if not checked and _OF_OTHERS & set(variable.encoding):
            asked = {}
        bits = asked.pop("significant_bits", None)
        new = cls(path, variable, attrs, _chunk_shape(variable, chunks), asked)
        new = new._replace(rounding=rounding_of(bits, variable.dtype, new.fill_value, attrs))
        check_encoding(path, **asked)
        create(
            None,
            (0,) * variable.ndim,
            variable.dtype,
            chunks=new.chunks,
            attrs=attrs,
            dims=variable.dims,
            fill_value=new.fill_value,
        ).close()
        return new

    @property
    def fill_value(self) -> Any:
        """Value of new elements after growth: the missing value, zero, or an empty text."""
        dtype = self.variable.dtype
        if dtype.kind in "US":
            mark = marks_missing(self.variable.attrs, dtype)
            return 0 if mark is None else mark
        if "_FillValue" in self.variable.attrs:
            return of_dtype(self.variable.attrs["_FillValue"], dtype, 0)
        return np.array("NaT", dtype)[()] if dtype.kind in "mM" else 0

    @contextmanager
    def being_filled(self, overwrite: bool) -> Iterator[Part]:
        """Create the array for a block that fills it; it appears at the end of the block.

        If the block fails, the array that would be replaced stays.
        """
        place = tuple(slice(0, n) for n in self.variable.shape)
        with filled(
            path=self.path,
            shape=self.variable.shape,
            dtype=self.variable.dtype,
            chunks=self.chunks,
            fill_value=self.fill_value,
            overwrite=overwrite,
            attrs=self.attrs,
            dims=self.variable.dims,
            **self.compressed,
        ) as array:
            yield Part(array, place, self.variable, rounding=self.rounding)
        array.close()


def _array_attrs(variable: Any, extra: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the attributes of an array: those of the variable, and the reserved ones."""
    for key in RESERVED:
        if key in variable.attrs:
            raise ArgumentError(
                f"attribute {key!r} of the variable for {where} is reserved for arrays; rename it"
            )
    return {**fixed_attrs(variable.attrs), **extra}


def _chunk_shape(variable: Any, chunks: Any) -> Any:
    """Return the chunk shape of a variable: by argument, by encoding, or None."""
    if chunks is None:
        found = variable.encoding.get("chunks")
        return found if found is not None and len(found) == variable.ndim else None
    if isinstance(chunks, Mapping):
        return tuple(chunks.get(d, max(1, n)) for d, n in variable.sizes.items())
    return chunks


def _check_chunks(chunks: Any, dims: Iterable[Any]) -> None:
    """Refuse unknown names of dimensions."""
    if isinstance(chunks, Mapping):
        unknown = sorted(map(str, set(chunks) - set(dims)))
        if unknown:
            raise ArgumentError(f"chunks names unknown dimensions: {unknown}")


# -- one array -----------------------------------------------------------------------------------


def write_array(array: Any, path: str | os.PathLike[str], options: Options) -> Any:
    """Write a DataArray; see `ExtArrayDataArray.to_extarray`."""
    variables = {name: c.variable.copy(deep=False) for name, c in array.coords.items()}
    if array.name in variables and not variables.pop(array.name).equals(array.variable):
        raise ArgumentError(
            f"the array has the same name as its coordinate {array.name!r}; rename one of them"
        )
    for name in variables:
        check_name(name)
    variables[array.name] = array.variable.copy(deep=False)
    if options.updates:
        return update_array(array.name, variables, Path(path), options)
    _check_chunks(options.chunks, array.dims)
    given = with_encoding(variables, options.encoding)
    variables = encode_variables(variables)
    main = variables.pop(array.name)
    extra: dict[str, Any] = {}
    if variables:
        extra["coords"] = {
            name: coords_form(name, c, [0] * c.ndim) for name, c in variables.items()
        }
    target = Path(path)
    if array.name is not None and array.name != target.name.removesuffix(METADATA):
        check_name(array.name)
        extra["name"] = array.name
    new = New.plan(target, main, options.chunks, array.name in given, extra)
    parts = _make([new], options.mode == "w", options.compute)
    return None if options.compute else write_later(parts)


def _make(new: list[New], overwrite: bool, compute: bool) -> list[Part]:
    """Create arrays, and return the parts that tasks write later."""
    elsewhere = compute and runs_elsewhere(array.variable for array in new)
    by_workers = [array for array in new if elsewhere and is_late(array.variable)]
    later = []
    with ExitStack() as filling:
        write_now([filling.enter_context(array.being_filled(overwrite)) for array in by_workers])
    for array in new:
        if elsewhere and is_late(array.variable):
            continue
        # Values may still be refused, so replace nothing before all are written.
        with array.being_filled(overwrite) as part:
            if compute or not is_late(array.variable):
                _write(part)
            else:
                later.append(part)
    return later


def _write(part: Part) -> None:
    """Write the elements of a variable to a new array, block by block."""
    array = part.array
    write = writer(array, part.rounding)
    write_source(array, part.variable, (0,) * array.ndim, array.shape, write=write)


# -- a folder of arrays --------------------------------------------------------------------------


def write_dataset(dataset: Any, folder: str | os.PathLike[str], options: Options) -> Any:
    """Write a Dataset; see `ExtArrayDataset.to_extarray`."""
    target = Path(folder)
    mode, chunks = options.mode, options.chunks
    variables, attrs = conventions.encode_dataset_coordinates(dataset)
    variables = {_name_of(name): v for name, v in variables.items()}
    if options.updates:
        return update_dataset(variables, target, options)
    _check_chunks(chunks, dataset.dims)
    there, lows = _what_is_there(target, mode, variables)
    places = _places(target, mode, variables, there)
    form = fixed_attrs(attrs)
    if mode == "a" and (target / DATASET).exists():
        with FolderStore(target) as store:
            form = {**store.get_attrs(), **form}
    new = _planned(variables, places, lows, chunks, options.encoding)
    gone = {path.name for path in there.values()}
    if mode == "a":
        gone &= {array.path.name for array in new}
    with changed_group(target, gone) as fresh:
        parts = _write_members(Path(fresh), new, form, options.compute)
    return None if options.compute else write_later(parts, target)


def _planned(
    variables: dict[str, Any],
    places: Mapping[Any, Path],
    lows: Mapping[Any, int | None],
    chunks: Any,
    encoding: Mapping[Any, Any] | None,
) -> list[New]:
    """Check variables, and return the arrays to be created."""
    given = with_encoding(variables, {_name_of(n): e for n, e in (encoding or {}).items()})
    new = []
    for name, variable in encode_variables(variables).items():
        place = places[name]
        extra: dict[str, Any] = {} if place.name == name else {"name": name}
        begin = [lows.get(d, 0) for d in variable.dims]
        if None not in begin:
            extra[DATASET_ORIGIN] = begin
        new.append(New.plan(place, variable, chunks, name in given, extra))
    return new


def _write_members(
    folder: Path, new: list[New], attrs: Mapping[str, Any], compute: bool
) -> list[Part]:
    """Create the arrays and attributes of a dataset in a folder that has no name yet."""
    parts = _make([each._replace(path=folder / each.path.name) for each in new], False, compute)
    write_dataset_attrs(folder, attrs)
    return parts


def _name_of(name: Any) -> str:
    """Return the stored name of a variable; an unnamed one gets the default name of xarray."""
    if name is None:
        return str(common.NONE_VAR_NAME)
    check_name(name)
    return str(name)


def check_name(name: Any) -> None:
    """Refuse names that a variable or its files cannot have."""
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"{name!r} is not a valid variable name: it must be a string or None"
        )
    if not name:
        raise ArgumentError(
            f"{name!r} is not a valid variable name: a string must be length 1 or more"
        )
    if "/" in name or "\0" in name or name.endswith(PAIR):
        raise ArgumentError(
            f"{name!r} cannot be a file name: the name of a variable must not contain '/' or end "
            "in '.xmd' or '.xta'"
        )


def _what_is_there(
    folder: Path, mode: str, variables: Mapping[Any, Any]
) -> tuple[dict[Any, Path], dict[Any, int | None]]:
    """Return the existing arrays by name, as far as the mode allows them.

    Also returns where the kept dimensions begin, or None if that is unknown.
    """
    there = list(arrays_in(folder))
    is_dataset = (folder / DATASET).exists()
    if mode == "w-" and (there or is_dataset):
        raise ExistsError(
            errno.EEXIST,
            "it already has arrays; give mode='a' to add variables, append_dim= to append to "
            "them, or mode='w' to replace them",
            os.fspath(folder),
        )
    if mode == "w" and there and not is_dataset:
        raise ExistsError(
            errno.EEXIST,
            f"it has arrays but no {DATASET}, so it was not written as a dataset, and is not "
            "replaced",
            os.fspath(folder),
        )
    if not (there or is_dataset):
        return {}, {}
    with FolderStore(folder) as store:
        paths = {entry.name: Path(entry.path) for entry in store.entries}
        if mode == "w":
            return paths, {}
        for variable in variables.values():
            for d, n in variable.sizes.items():
                if store.sizes.get(d, n) != n:
                    raise ShapeError(
                        f"Unable to update size for existing dimension {d!r} ({n} != "
                        f"{store.sizes[d]}); to append, give append_dim"
                    )
        return paths, {d: store.lows.get(d) for d in store.sizes}


def _places(
    folder: Path, mode: str, names: Iterable[Any], there: Mapping[Any, Path]
) -> dict[Any, Path]:
    """Return the path of the array for each variable; a new one takes no existing path."""
    if mode != "a":
        return {name: folder / name for name in names}
    owners = {path: name for name, path in there.items()}
    places = {name: there.get(name, folder / name) for name in names}
    for name, path in places.items():
        owner = owners.get(path, name)
        if owner != name:
            raise ExistsError(
                errno.EEXIST,
                f"it is the variable {owner!r}, so it cannot also be {name!r}",
                str(path),
            )
    return places


# -- a tree --------------------------------------------------------------------------------------


def write_tree(
    tree: Any,
    folder: str | os.PathLike[str],
    mode: str,
    chunks: Any,
    encoding: Mapping[str, Any] | None,
) -> None:
    """Write a DataTree; see `ExtArrayDataTree.to_extarray`."""
    check_choice(mode, "mode", ("w-", "w"))
    target = Path(folder)
    if mode == "w-" and os.path.lexists(target):
        raise ExistsError(
            errno.EEXIST, "it already exists; give mode='w' to replace it", os.fspath(folder)
        )
    nodes = {f"/{node.relative_to(tree)}".removesuffix("."): node for node in tree.subtree}
    given = dict(encoding or {})
    unknown = sorted(set(given) - set(nodes))
    if unknown:
        raise ArgumentError(
            f"encoding names unknown groups: {unknown}; the groups are {sorted(nodes)}"
        )
    _check_chunks(chunks, {d for node in nodes.values() for d in node.dims})
    with family("cannot make the folder '{}'", target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    publish = replace_group if mode == "w" else system.replace
    with (
        making_folder(os.path.abspath(target), publish) as fresh,
        open_group(fresh, "r+") as group,
    ):
        for path, node in nodes.items():
            place = group.path if path == "/" else group.require_group(path[1:]).path
            dataset = node.to_dataset(inherit=False)
            own = chunks
            if isinstance(chunks, Mapping):
                own = {d: n for d, n in chunks.items() if d in dataset.dims}
            variables, attrs = conventions.encode_dataset_coordinates(dataset)
            variables = {_name_of(name): v for name, v in variables.items()}
            places = {name: place / name for name in variables}
            new = _planned(variables, places, {}, own, given.get(path))
            _write_members(place, new, fixed_attrs(attrs), True)
