"""From xarray to files: everything is checked, and then it is written.

A `Variable` of xarray is sliced like any array, so `from_array` and `ExtArray.append` read it block
by block: what dask computes, or another file holds, is never in memory as a whole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import extarray as xa
from extarray.common.arguments import check_choice
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    MissingError,
    ShapeError,
    VariableError,
    storage_error,
)
from extarray.common.extras import require
from extarray.format.labels import DATASET_ORIGIN
from extarray.interop.xarray_encode import (
    CASTINGS,
    as_dtype,
    encode_like,
    encode_variables,
    with_encoding,
)
from extarray.interop.xarray_store import (
    DATASET,
    RESERVED,
    ArrayStore,
    FolderStore,
    arrays_in,
    fixed_attrs,
    of_dtype,
    write_dataset_attrs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["write_array", "write_dataset"]

xr: Any = require("xarray", "xarray", "the xarray backend")
conventions: Any = require("xarray.conventions", "xarray")
common: Any = require("xarray.backends.common", "xarray")

#: Elements of a coordinate that attributes hold: each commit of them writes all.
MOST_COORDS = 1 << 16

# -- what is to be made --------------------------------------------------------------------------


class New(NamedTuple):
    """An array to be made."""

    path: Path
    variable: Any
    attrs: dict[str, Any]
    chunks: Any

    @classmethod
    def plan(
        cls, path: Path, variable: Any, chunks: Any, checked: bool, extra: Mapping[str, Any]
    ) -> New:
        """Check everything that can be checked before anything is written."""
        attrs = _array_attrs(variable, extra, f"'{path}'")
        # None of them stands for no missing value.
        unknown = set(variable.encoding) - {"chunks", "source", "preferred_chunks", "_FillValue"}
        if checked and unknown:
            raise ArgumentError(
                f"unexpected encoding for '{path}': {sorted(unknown)}; possible are those of the "
                "CF conventions, and 'chunks'"
            )
        new = cls(path, variable, attrs, _chunk_shape(variable, chunks))
        xa.create(
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
        """The value that growth leaves behind: it means "missing"."""
        dtype = self.variable.dtype
        missing = self.variable.attrs.get("_FillValue", "NaT" if dtype.kind in "mM" else 0)
        return of_dtype(missing, dtype, 0)

    def write(self, overwrite: bool) -> None:
        """Make the array."""
        xa.from_array(
            self.variable,
            self.path,
            self.chunks,
            fill_value=self.fill_value,
            overwrite=overwrite,
            attrs=self.attrs,
            dims=self.variable.dims,
        ).close()


def _array_attrs(variable: Any, extra: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the attributes of an array: the variable's, and those with a meaning of their own."""
    for key in RESERVED:
        if key in variable.attrs:
            raise ArgumentError(
                f"attribute {key!r} of the variable for {where} has a meaning of its own for "
                "arrays; rename it"
            )
    return {**fixed_attrs(variable.attrs), **extra}


def _chunk_shape(variable: Any, chunks: Any) -> Any:
    """Return the chunk shape for a variable: of the argument, or of the encoding, or None."""
    if chunks is None:
        found = variable.encoding.get("chunks")
        return found if found is not None and len(found) == variable.ndim else None
    if isinstance(chunks, Mapping):
        return tuple(chunks.get(d, max(1, n)) for d, n in variable.sizes.items())
    return chunks


def _check_chunks(chunks: Any, dims: Iterable[Any]) -> None:
    """Refuse names of dimensions that are not there."""
    if isinstance(chunks, Mapping):
        unknown = sorted(map(str, set(chunks) - set(dims)))
        if unknown:
            raise ArgumentError(f"chunks names dimensions that are not there: {unknown}")


def _check_mode(
    mode: str,
    modes: tuple[str, ...],
    append_dim: Any,
    casting: str | None,
    timeout: Any,
    **others: Any,
) -> None:
    """Refuse options that are not possible, alone or together."""
    check_choice(mode, "mode", modes)
    if casting is not None:
        check_choice(casting, "casting", CASTINGS)
        if append_dim is None:
            raise ArgumentError(
                "casting is a rule for appending, and needs append_dim; a new array gets the dtype "
                "of the variable, or that of encoding={name: {'dtype': ...}}"
            )
    if timeout != 0 and append_dim is None:
        raise ArgumentError(
            "timeout is how long an append waits for other writers, and needs append_dim"
        )
    if append_dim is not None:
        given = [name for name, value in others.items() if value is not None]
        if mode != modes[0]:
            given.append("mode")
        if given:
            raise ArgumentError(
                f"{' and '.join(given)} cannot be given together with append_dim: the arrays are "
                "there"
            )


# -- what is to be appended ----------------------------------------------------------------------


def _aligned(name: Any, new: Any, stored: Any, dim: str) -> Any:
    """Return an encoded variable with the dimensions in the order of the stored one."""
    if set(new.dims) != set(stored.dims):
        raise ShapeError(
            f"cannot append {name!r}: it has the dimensions {new.dims}, the array {stored.dims}"
        )
    new = new.transpose(*stored.dims)
    for d, n in stored.sizes.items():
        if d != dim and new.sizes[d] != n:
            raise ShapeError(
                f"cannot append {name!r} along {dim!r}: {new.sizes[d]} elements along {d!r}, the "
                f"array has {n}"
            )
    if dim not in stored.dims and not new.equals(stored):
        raise ArgumentError(f"{name!r} differs from what is stored; it has no dimension {dim!r}")
    return new


def _check_names(new: set[Any], stored: Mapping[Any, Any], dim: str, where: str) -> None:
    """Refuse variables that are new, and the lack of one that grows."""
    if not any(dim in variable.dims for variable in stored.values()):
        raise ArgumentError(f"cannot append along {dim!r}: {where} has no such dimension")
    for name in sorted(map(str, new - set(stored))):
        raise VariableError(f"cannot append {name!r}: it is not in {where}")
    for name, variable in stored.items():
        if dim in variable.dims and name not in new:
            raise VariableError(f"cannot append along {dim!r}: {name!r} is in {where}, not given")


def _nothing_there(what: str, path: Path, dim: str) -> MissingError:
    return MissingError(
        errno.ENOENT,
        f"there is no {what} to append to along {dim!r}; write the first part of it without "
        "append_dim",
        os.fspath(path),
    )


def _append(a: xa.ExtArray, source: Any, axis: int, start: int) -> None:
    """Append from an index on, where elements of an append that did not end may be."""
    there = min(a.shape[axis] - start, source.shape[axis])
    before = (slice(None),) * axis
    for place in a.iter_chunks((*before, slice(start, start + there))):
        own = slice(place[axis].start - start, place[axis].stop - start)
        a[place] = source[(*place[:axis], own, *place[axis + 1 :])]
    if there < source.shape[axis]:
        a.append(source[(*before, slice(there, None))] if there else source, axis)


# -- one array -----------------------------------------------------------------------------------


def write_array(
    array: Any,
    path: str | os.PathLike[str],
    mode: str,
    append_dim: str | None,
    chunks: Any,
    encoding: Mapping[Any, Any] | None,
    casting: str | None,
    timeout: float | None,
) -> None:
    """Write a DataArray; `ExtArrayDataArray.to_extarray` says how."""
    _check_mode(mode, ("w-", "w"), append_dim, casting, timeout, chunks=chunks, encoding=encoding)
    variables = {name: c.variable.copy(deep=False) for name, c in array.coords.items()}
    if array.name in variables and not variables.pop(array.name).equals(array.variable):
        raise ArgumentError(
            f"the array has the name of its coordinate {array.name!r}: rename one of them"
        )
    for name in variables:
        check_name(name)
    variables[array.name] = array.variable.copy(deep=False)
    if append_dim is not None:
        _append_array(array.name, variables, Path(path), append_dim, casting, timeout)
        return
    _check_chunks(chunks, array.dims)
    given = with_encoding(variables, encoding)
    variables = encode_variables(variables)
    main = variables.pop(array.name)
    extra: dict[str, Any] = {}
    if variables:
        extra["coords"] = {
            name: _coords_form(name, c, [0] * c.ndim) for name, c in variables.items()
        }
    target = Path(path)
    if array.name is not None and array.name != target.name.removesuffix(".xmd"):
        check_name(array.name)
        extra["name"] = array.name
    New.plan(target, main, chunks, array.name in given, extra).write(mode == "w")


def _coords_form(name: Any, variable: Any, origin: list[int]) -> dict[str, Any]:
    if variable.size > MOST_COORDS:
        raise ArgumentError(
            f"coordinate {name!r} has {variable.size} elements, too many for attributes; write a "
            "folder: array.to_dataset().extarray.to_extarray(folder)"
        )
    form = {"dims": list(variable.dims), "origin": origin, "data": variable.to_numpy()}
    return {**form, "attrs": fixed_attrs(variable.attrs)} if variable.attrs else form


def _append_array(
    name: Any,
    variables: dict[Any, Any],
    path: Path,
    dim: str,
    casting: str | None,
    timeout: float | None,
) -> None:
    stem = path.with_name(path.name.removesuffix(".xmd").removesuffix(".xta"))
    if not (path.exists() or _metadata(stem).exists()):
        raise _nothing_there("array", path, dim)
    with xa.open(path, "r+", timeout=timeout) as a, ArrayStore(path) as store:
        (entry,) = store.entries
        stored = store.get_variables()
        # The array is the one of the file, whatever name it was given.
        variables[entry.name] = variables.pop(name)
        _check_names(set(variables), stored, dim, f"'{path}'")
        if dim not in entry.dims:
            raise ArgumentError(f"cannot append along {dim!r}: '{path}' has the axes {entry.dims}")
        encoded = {
            n: _aligned(n, v, stored[n], dim) for n, v in encode_like(variables, stored).items()
        }
        main = encoded.pop(entry.name)
        main = as_dtype(entry.name, main, a.dtype, casting)
        grown = {}
        origin = dict(zip(entry.dims, entry.origin, strict=True))
        for n, new in encoded.items():
            if dim in new.dims:
                both = xr.Variable.concat([stored[n], new], dim).transpose(*stored[n].dims)
                grown[n] = _coords_form(n, both, [origin.get(d, 0) for d in both.dims])
        with xa.commit([a]):
            if grown:
                a.attrs["coords"] = {**entry.coords, **grown}
            a.append(main, entry.dims.index(dim))


# -- a folder of arrays --------------------------------------------------------------------------


def write_dataset(
    dataset: Any,
    folder: str | os.PathLike[str],
    mode: str,
    append_dim: str | None,
    chunks: Any,
    encoding: Mapping[Any, Any] | None,
    casting: str | None,
    timeout: float | None,
) -> None:
    """Write a Dataset; `ExtArrayDataset.to_extarray` says how."""
    _check_mode(
        mode, ("w-", "w", "a"), append_dim, casting, timeout, chunks=chunks, encoding=encoding
    )
    target = Path(folder)
    variables, attrs = conventions.encode_dataset_coordinates(dataset)
    variables = {_name_of(name): v for name, v in variables.items()}
    if append_dim is not None:
        _append_dataset(variables, target, append_dim, casting, timeout)
        return
    _check_chunks(chunks, dataset.dims)
    given = with_encoding(variables, {_name_of(n): e for n, e in (encoding or {}).items()})
    form = fixed_attrs(attrs)
    there, lows = _what_is_there(target, mode, variables)
    places = _places(target, mode, variables, there)
    new = []
    for name, variable in encode_variables(variables).items():
        place = places[name]
        extra: dict[str, Any] = {} if place.name == name else {"name": name}
        begin = [lows.get(d, 0) for d in variable.dims]
        if None not in begin:
            extra[DATASET_ORIGIN] = begin
        new.append(New.plan(place, variable, chunks, name in given, extra))
    _write_folder(target, new, mode, there)
    if mode == "a" and (target / DATASET).exists():
        with FolderStore(target) as store:
            form = {**store.get_attrs(), **form}
    write_dataset_attrs(target, form)


def _name_of(name: Any) -> str:
    """Name that a variable is stored under; xarray has one for a variable without a name."""
    if name is None:
        return str(common.NONE_VAR_NAME)
    check_name(name)
    return str(name)


def check_name(name: Any) -> None:
    """Refuse what cannot be the name of a variable and of its files."""
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"{name!r} is no name for a variable: it has to be a string or None"
        )
    if not name:
        raise ArgumentError(
            f"{name!r} is no name for a variable: a string must be length 1 or more"
        )
    if "/" in name or "\0" in name or name.endswith((".xmd", ".xta")):
        raise ArgumentError(
            f"{name!r} cannot be the name of a file: a variable has no '/' in its name, nor '.xmd' "
            "or '.xta' at its end"
        )


def _what_is_there(
    folder: Path, mode: str, variables: Mapping[Any, Any]
) -> tuple[dict[Any, Path], dict[Any, int | None]]:
    """Return the paths of the arrays of a folder by their names; check what the mode allows.

    Also where the dimensions begin that stay, None where that is not known.
    """
    there = list(arrays_in(folder))
    is_dataset = (folder / DATASET).exists()
    if mode == "w-" and (there or is_dataset):
        raise ExistsError(
            errno.EEXIST,
            "it has arrays; give mode='a' to add variables, append_dim= to append to them, or "
            "mode='w' to replace them",
            os.fspath(folder),
        )
    if mode == "w" and there and not is_dataset:
        raise ExistsError(
            errno.EEXIST,
            f"it has arrays but no {DATASET}, so it was not written as a dataset: not replaced",
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
    """Return the path of the array of each variable: what is added takes no other's place."""
    if mode != "a":
        return {name: folder / name for name in names}
    owners = {path: name for name, path in there.items()}
    places = {name: there.get(name, folder / name) for name in names}
    for name, path in places.items():
        owner = owners.get(path, name)
        if owner != name:
            raise ExistsError(
                errno.EEXIST, f"it is the variable {owner!r}; {name!r} cannot be there", str(path)
            )
    return places


def _write_folder(folder: Path, new: list[New], mode: str, there: Mapping[Any, Path]) -> None:
    """Make the arrays; on an error those that were not there before go again."""
    with ExitStack() as undo:
        if not folder.exists():
            undo.callback(_remove_folder, folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, "cannot make the folder '{}'", folder) from error
        kept = set(there.values())
        for array in new:
            # Not what this call wrote: "T" and "t" are one file on some file systems.
            may_replace = array.path in kept or not _metadata(array.path).exists()
            array.write(overwrite=mode != "w-" and may_replace)
            if array.path not in kept:
                undo.callback(_remove, array.path)
        undo.pop_all()
    if mode == "w":
        for path in kept - {array.path for array in new}:
            _remove(path)


def _metadata(path: Path) -> Path:
    """Return the file of a pair without which it is none."""
    return path.with_name(f"{path.name}.xmd")


def _remove(path: Path) -> None:
    """Remove a pair of files; the metadata first, so that nothing is left that opens."""
    _metadata(path).unlink(missing_ok=True)
    path.with_name(f"{path.name}.xta").unlink(missing_ok=True)


def _remove_folder(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _check_extents(entry: Any, store: FolderStore, dim: str) -> None:
    """Refuse to append to an array that has grown alone along another dimension."""
    for d, start in store.starts(entry).items():
        n, own = store.sizes[d], entry.sizes[d]
        if start + n > own if d == dim else n != own:
            raise ShapeError(
                f"cannot append {entry.name!r} along {dim!r}: its elements along {d!r} are not "
                f"those of the other arrays: it has {own}, and all have {n}"
            )


def _append_dataset(
    variables: dict[Any, Any],
    folder: Path,
    dim: str,
    casting: str | None,
    timeout: float | None,
) -> None:
    if not (arrays_in(folder) or (folder / DATASET).exists()):
        raise _nothing_there("dataset", folder, dim)
    with ExitStack() as stack:
        # The locks of all, before anything is looked at.
        arrays = {
            os.fspath(path): stack.enter_context(xa.open(path, "r+", timeout=timeout))
            for path in arrays_in(folder)
        }
        store = stack.enter_context(FolderStore(folder))
        if store.unknown:
            raise ArgumentError(
                f"cannot append to '{folder}': where its arrays begin along "
                f"{', '.join(map(repr, sorted(store.unknown)))} is not known; write the dataset "
                "anew, into another folder"
            )
        stored = store.get_variables()
        _check_names(set(variables), stored, dim, f"'{folder}'")
        encoded = {
            n: _aligned(n, v, stored[n], dim) for n, v in encode_like(variables, stored).items()
        }
        for name in store.coords:
            if name in stored and dim in stored[name].dims:
                raise ArgumentError(
                    f"cannot append {name!r}: it is an attribute; keep it as an array of the folder"
                )
        growing = [entry for entry in store.entries if dim in entry.dims]
        for entry in growing:
            new = encoded[entry.name]
            encoded[entry.name] = as_dtype(entry.name, new, entry.dtype, casting)
            _check_extents(entry, store, dim)
        with xa.commit([arrays[entry.path] for entry in growing]):
            for entry in growing:
                axis = entry.dims.index(dim)
                end = store.starts(entry)[dim] + store.sizes[dim]
                _append(arrays[entry.path], encoded[entry.name], axis, end)
        # xarray tells dask's tasks apart by the time of what is opened.
        os.utime(folder)
