"""Append xarray data to existing arrays, or write to a region of them.

All checks come before the first write.
"""

from __future__ import annotations

import errno
import operator
import os
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.array import creation
from extarray.array.array import ExtArray
from extarray.array.group import commit
from extarray.array.growth import text_length
from extarray.array.widening import check_widening, widen
from extarray.common.errors import ArgumentError, MissingError, ShapeError, VariableError
from extarray.common.limits import limits
from extarray.format.missing import marker_of
from extarray.format.suffixes import file_names, without_suffix
from extarray.interop.xarray_coding import boxes
from extarray.interop.xarray_encode import codings, decoded
from extarray.interop.xarray_fit import (
    aligned,
    check_attrs,
    check_extents,
    check_known,
    check_labels,
    check_names,
    joined,
)
from extarray.interop.xarray_store import (
    DATASET,
    ArrayStore,
    FolderStore,
    arrays_in,
    fixed_attrs,
)
from extarray.interop.xarray_tasks import (
    BEING_FILLED,
    Part,
    is_late,
    new_token,
    runs_elsewhere,
    write_later,
    write_now,
)
from extarray.interop.xarray_texts import has_missing, new_marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from extarray.interop.xarray_coding import Coding
    from extarray.interop.xarray_options import Options

__all__ = ["coords_form", "metadata_of", "update_array", "update_dataset"]


def update_array(name: Any, variables: dict[Any, Any], path: Path, options: Options) -> Any:
    """Append a variable to an array, or write to a region of it; the other variables label it."""
    stem = path.with_name(without_suffix(path.name))
    if not (path.exists() or metadata_of(stem).exists()):
        raise _nothing_there("array", path, options)
    if options.region is None:
        return _append_array(name, variables, path, options)
    with ArrayStore(path) as store:
        (entry,) = store.entries
        # Keep the name of the stored array.
        variables[entry.name] = variables.pop(name)
        delayed = _write_region(variables, store, f"'{path}'", options)
    os.utime(metadata_of(Path(entry.path)))
    return delayed


def update_dataset(variables: dict[Any, Any], folder: Path, options: Options) -> Any:
    """Append variables to the arrays of a folder, or write to a region of them."""
    if not (arrays_in(folder) or (folder / DATASET).exists()):
        raise _nothing_there("dataset", folder, options)
    if options.region is None:
        delayed = _append_dataset(variables, folder, options)
    else:
        with FolderStore(folder) as store:
            check_known(store, "write")
            delayed = _write_region(variables, store, f"'{folder}'", options)
    # dask identifies tasks by the modification time of the opened file.
    os.utime(folder)
    return delayed


def _nothing_there(what: str, path: Path, options: Options) -> MissingError:
    aim = "write a region of" if options.region is not None else "append to"
    along = "" if options.append_dim is None else f" along {options.append_dim!r}"
    option = "append_dim" if options.region is None else "region"
    return MissingError(
        errno.ENOENT,
        f"no {what} to {aim}{along}; write its first part without {option}",
        os.fspath(path),
    )


def metadata_of(path: Path) -> Path:
    """Return the file that makes a pair of files exist."""
    return Path(file_names(path)[0])


def coords_form(name: Any, variable: Any, origin: list[int]) -> dict[str, Any]:
    """Convert a coordinate to the form of the attribute ``"coords"``."""
    if variable.size > limits.coordinate_elements:
        raise ArgumentError(
            f"coordinate {name!r} has {variable.size} elements, too many for attributes; write a "
            "folder: array.to_dataset().extarray.to_extarray(folder)"
        )
    form = {"dims": list(variable.dims), "origin": origin, "data": variable.to_numpy()}
    return {**form, "attrs": fixed_attrs(variable.attrs)} if variable.attrs else form


# -- appends -------------------------------------------------------------------------------------


class _Growth(NamedTuple):
    """Elements to append to an array, where those of an unfinished append may already be.

    Attributes
    ----------
    array : ExtArray
    axis : int
    edge : int
        Index after the last valid element, or of the first one at the start.
    source
        The variable.
    attrs : mapping
        Attributes that the array gets with its elements.
    """

    array: ExtArray
    axis: int
    edge: int
    source: Any
    side: Any
    attrs: Mapping[str, Any] = MappingProxyType({})

    @property
    def width(self) -> int:
        """Characters of the elements in their stored form, if they are texts."""
        dtype = self.source.dtype
        return 0 if dtype.kind not in "US" or is_late(self.source) else text_length(dtype)

    @property
    def by(self) -> int:
        """Number of elements that the axis gains."""
        return int(self.source.shape[self.axis]) - self._there

    @property
    def _there(self) -> int:
        """Number of existing elements that are not valid."""
        room = self.edge if self.side == "start" else self.array.shape[self.axis] - self.edge
        return int(min(room, self.source.shape[self.axis]))

    def append(self) -> None:
        """Write the elements."""
        a, axis, there, by = self.array, self.axis, self._there, self.by
        first = self.edge - there if self.side == "start" else self.edge
        begin = by if self.side == "start" else 0  # existing elements come last in the source
        before = (slice(None),) * axis
        for place in a.iter_chunks((*before, slice(first, first + there))):
            own = slice(place[axis].start - first + begin, place[axis].stop - first + begin)
            a[place] = self.source[(*place[:axis], own, *place[axis + 1 :])]
        if by:
            rest = slice(None, by) if self.side == "start" else slice(there, None)
            source = self.source.isel({self.source.dims[axis]: rest}) if there else self.source
            a.append(source, axis, self.side)

    def extend(self) -> Part:
        """Make room for elements that tasks will write."""
        first = self.edge - self._there if self.side == "start" else self.edge
        n = self.source.shape[self.axis]
        self.array.extend(self.axis, self.by, self.side)
        place = [slice(0, extent) for extent in self.array.shape]
        place[self.axis] = slice(first, first + n)
        return Part(self.array, tuple(place), self.source)


def _append(
    growths: list[_Growth], attrs: Mapping[str, Any], late: bool, token: str | None
) -> list[Part]:
    """Grow arrays in one commit, set the attributes of the first, and return parts for tasks."""
    parts = []
    with commit([growth.array for growth in growths]):
        if attrs:
            growths[0].array.attrs.update(attrs)
        for growth in growths:
            if growth.attrs:
                growth.array.attrs.update(growth.attrs)
            if late and is_late(growth.source):
                parts.append(growth.extend()._replace(token=token))
                if token is not None:
                    growth.array.attrs[BEING_FILLED] = token
            else:
                growth.append()
    return parts


def _fill(
    parts: list[Part], growths: list[_Growth], gains: list[int], attrs: Mapping[str, Any]
) -> None:
    """Let dask workers fill the new elements; on an error, restore the arrays."""
    arrays = [growth.array for growth in growths]
    try:
        write_now(parts)
        with commit(arrays):
            _end(parts)
    except BaseException:
        # Invalidate the token, so that tasks which have not begun do not write.
        with commit(arrays):
            _end(parts)
            for growth, by in zip(growths, gains, strict=True):
                growth.array.shrink(growth.axis, by, growth.side)
            # At the origin at which they were read, since labels without an origin refer to it.
            growths[0].array.attrs.update(attrs)
        raise


def _end(parts: list[Part]) -> None:
    for part in parts:
        part.array.attrs.pop(BEING_FILLED, None)


def _grow(
    growths: list[_Growth],
    options: Options,
    after: Mapping[str, Any],
    before: Mapping[str, Any],
) -> list[Part]:
    """Append to arrays, change attributes of the first, and return parts that are written later."""
    late = not options.compute or runs_elsewhere(growth.source for growth in growths)
    gains = [growth.by for growth in growths]
    # Wider arrays have the elements that they had, so each may get its new files by itself.
    longer = [
        growth
        for growth in growths
        if options.casting is None
        and growth.width
        and growth.width > text_length(growth.array.dtype)
    ]
    for growth in longer:
        check_widening(growth.array, growth.width)
    for growth in longer:
        widen(growth.array, growth.width)
    parts = _append(growths, after, late, new_token() if options.compute else None)
    if options.compute and parts:
        _fill(parts, growths, gains, before)
    return parts


def _check_splits(
    store: ArrayStore | FolderStore, dims: Iterable[str], what: str, where: str
) -> None:
    """Refuse dimensions that xarray sees in the place of an axis, and name the way by that axis."""
    there = {d for entry in store.entries for d in entry.dims}
    for axis, lengths in (item for entry in store.entries for item in entry.splits.items()):
        for dim in dims:
            if dim in lengths and dim not in there:
                option = "region={%r: slice(...)}" if what == "write" else "append_dim=%r"
                parts = ", ".join(map(repr, lengths))
                raise ArgumentError(
                    f"cannot {what} along {dim!r}: {where} has {parts} as one axis {axis!r} (its "
                    f"attribute 'split'); drop the coordinates along these, put them together by "
                    f"x.stack({axis}=[{parts}], create_index=False), and give {option % axis}"
                )


def _fitting(
    variables: Mapping[Any, Any],
    stored: Mapping[Any, Any],
    dtypes: Mapping[Any, np.dtype[Any]],
    sizes: Mapping[str, int],
    dim: str,
    options: Options,
) -> tuple[dict[Any, Any], dict[Any, Coding], dict[Any, dict[str, Any]]]:
    """Return the checked, undecoded variables to append, the coding of all, and new attributes.

    The first text that is missing gives an array a marker.
    """
    values = decoded(variables, stored)
    marks = {
        name: new_marker(name, stored[name], boxes(stored[name]))
        for name, new in values.items()
        if dim in new.dims and has_missing(new) and marker_of(stored[name].attrs) is None
    }
    marks = {name: mark for name, mark in marks.items() if mark}
    for name, mark in marks.items():
        stored[name].attrs.update(mark)
    how = codings(stored, dtypes, options.casting)
    given = {}
    for name, new in values.items():
        check_attrs(name, new.attrs, stored[name].attrs, options.combine_attrs)
        if dim in new.dims:
            how[name] = how[name].widened(new)
        given[name] = aligned(name, new, stored[name], sizes, [dim], how[name])
    if options.verify_integrity and dim in given:
        check_labels(dim, given[dim], stored[dim], how[dim])
    return given, how, marks


def _append_array(name: Any, variables: dict[Any, Any], path: Path, options: Options) -> Any:
    dim = options.append_dim
    assert dim is not None
    with creation.open(path, "r+", timeout=options.timeout) as a, ArrayStore(path) as store:
        (entry,) = store.entries
        stored = store.get_variables()
        # Keep the name of the stored array.
        variables[entry.name] = variables.pop(name)
        _check_splits(store, [dim], "append", f"'{path}'")
        check_names(set(variables), stored, dim, f"'{path}'")
        if dim not in entry.dims:
            raise ArgumentError(f"cannot append along {dim!r}: '{path}' has axes {entry.dims}")
        sizes = {d: n for d, n in entry.sizes.items() if d != dim}
        given, how, marks = _fitting(variables, stored, {entry.name: a.dtype}, sizes, dim, options)
        main = how[entry.name].of_variable(given.pop(entry.name))
        grown = {}
        origin = dict(zip(entry.dims, entry.origin, strict=True))
        at_start = options.side == "start"
        if at_start:
            origin[dim] += main.shape[entry.dims.index(dim)]
        for n, new in given.items():
            if dim in new.dims:
                both = joined(n, stored[n], new, how[n], dim, at_start)
                grown[n] = coords_form(n, both, [origin.get(d, 0) for d in both.dims])
        axis = entry.dims.index(dim)
        edge = 0 if at_start else a.shape[axis]
        growth = _Growth(a, axis, edge, main, options.side, marks.get(entry.name, {}))
        after = {"coords": {**entry.coords, **grown}} if grown else {}
        before = {"coords": entry.coords} if grown else {}
        parts = _grow([growth], options, after, before)
    return None if options.compute else write_later(parts)


def _append_dataset(variables: dict[Any, Any], folder: Path, options: Options) -> Any:
    dim = options.append_dim
    assert dim is not None
    with ExitStack() as stack:
        # Lock all arrays before looking at any.
        arrays = {
            os.fspath(path): stack.enter_context(creation.open(path, "r+", timeout=options.timeout))
            for path in arrays_in(folder)
        }
        store = stack.enter_context(FolderStore(folder))
        check_known(store, "append")
        stored = store.get_variables()
        _check_splits(store, [dim], "append", f"'{folder}'")
        check_names(set(variables), stored, dim, f"'{folder}'")
        dtypes = {entry.name: entry.dtype for entry in store.entries}
        sizes = {d: n for d, n in store.sizes.items() if d != dim}
        given, how, marks = _fitting(variables, stored, dtypes, sizes, dim, options)
        for name in store.coords:
            if name in stored and dim in stored[name].dims:
                raise ArgumentError(
                    f"cannot append {name!r}: it is stored as an attribute; store it as an array "
                    "of the folder"
                )
        growths = []
        growing = [entry for entry in store.entries if dim in entry.dims]
        for entry in growing:
            new = how[entry.name].of_variable(given[entry.name])
            check_extents(entry, store, dim)
            edge = store.starts(entry)[dim]
            if options.side == "end":
                edge += store.sizes[dim]
            axis = entry.dims.index(dim)
            mark = marks.get(entry.name, {})
            growths.append(_Growth(arrays[entry.path], axis, edge, new, options.side, mark))
        parts = _grow(growths, options, {}, {})
    return None if options.compute else write_later(parts)


# -- regions -------------------------------------------------------------------------------------


def _write_region(
    variables: dict[Any, Any], store: ArrayStore | FolderStore, where: str, options: Options
) -> Any:
    """Write variables to a region of existing ones; return a delayed object for later writes."""
    stored = store.get_variables()
    _check_splits(store, [*options.region] if options.region != "auto" else [], "write", where)
    for name in sorted(map(str, set(variables) - set(stored))):
        raise VariableError(f"cannot write {name!r} to a region: {where} does not have it")
    variables = decoded(variables, stored)
    how = codings(stored, {entry.name: entry.dtype for entry in store.entries}, options.casting)
    region, known = _region(options.region, variables, stored, how, where)
    places = {entry.name: entry for entry in store.entries}
    given = {}
    for name, new in variables.items():
        if name in known:
            continue
        check_attrs(name, new.attrs, stored[name].attrs, options.combine_attrs)
        part = stored[name].isel({d: region[d] for d in stored[name].dims if d in region})
        free = list(region) if name in places else []
        new = aligned(name, new, part, part.sizes, free, how[name])
        if set(free) & set(new.dims):
            given[name] = new
    encoded = {name: how[name].of_variable(new) for name, new in given.items()}
    elsewhere = runs_elsewhere(encoded.values())
    with ExitStack() as stack:
        now: list[Part] = []
        later: list[Part] = []
        for name, new in encoded.items():
            entry = places[name]
            starts = store.starts(entry)
            place = tuple(
                slice(starts[d] + low, starts[d] + low + n)
                for d, n, low in zip(
                    entry.dims,
                    new.shape,
                    (region[d].start if d in region else 0 for d in entry.dims),
                    strict=True,
                )
            )
            late = is_late(new) and (not options.compute or elsewhere)
            if new is not given[name] and not late:
                for box in boxes(new):  # check all before any is written
                    np.asarray(new[box])
            a = stack.enter_context(creation.open(entry.path, "r+", share="elements"))
            (later if late else now).append(Part(a, place, new))
        for part in now:
            _write(part)
        if options.compute:
            write_now(later)
    return None if options.compute else write_later(later)


def _write(part: Part) -> None:
    """Write elements block by block."""
    a, place, new = part.array, part.place, part.variable
    firsts = [s.start for s in place]
    for box in boxes(new):
        own = (slice(s.start + n, s.stop + n) for s, n in zip(box, firsts, strict=True))
        a[tuple(own)] = new[box]


def _region(
    asked: Any,
    variables: Mapping[Any, Any],
    stored: Mapping[Any, Any],
    how: Mapping[Any, Coding],
    where: str,
) -> tuple[dict[str, slice], set[Any]]:
    """Return the indices of a region by dimension, and the coordinates that located it."""
    extents = {d: n for variable in stored.values() for d, n in variable.sizes.items()}
    own = {d: n for variable in variables.values() for d, n in variable.sizes.items()}
    if asked == "auto":
        asked = {d: "auto" for d in own if d in variables and d in stored}
        if not asked:
            raise ArgumentError(
                "region='auto' requires dimension coordinates in both the given and the stored "
                "data; give a dict of slices"
            )
    region, known = {}, set()
    for d, place in asked.items():
        if d not in own:
            raise ArgumentError(
                f"region names {d!r}, which is not a dimension of the given data: {tuple(own)}"
            )
        if d not in extents:
            raise ArgumentError(f"region names {d!r}, which is not a dimension of {where}")
        if place == "auto":
            region[d] = _found(d, variables, stored, how, where)
            known.add(d)
        else:
            start, stop, _ = _indices(place, d).indices(extents[d])
            region[d] = slice(start, max(start, stop))
        if (n := region[d].stop - region[d].start) != own[d]:
            raise ShapeError(
                f"the region selects {n} of {extents[d]} elements along {d!r}, but the given data "
                f"have {own[d]}"
            )
    return region, known


def _indices(place: slice, dim: str) -> slice:
    try:
        ends = [None if i is None else operator.index(i) for i in (place.start, place.stop)]
    except TypeError:
        raise ArgumentError(
            f"region along {dim!r} must be a slice of indices, not of labels: {place!r}; use "
            "'auto' to match labels"
        ) from None
    return slice(*ends)


def _found(
    dim: str,
    variables: Mapping[Any, Any],
    stored: Mapping[Any, Any],
    how: Mapping[Any, Coding],
    where: str,
) -> slice:
    """Return the slice of the stored labels that equal the given ones."""
    if dim not in variables or dim not in stored:
        missing = "the given data" if dim not in variables else where
        raise ArgumentError(
            f"region along {dim!r} is 'auto', but {missing} has no coordinate of this name; give "
            "a slice"
        )
    labels = how[dim].decoded(stored[dim], variables[dim]).to_index()
    new = variables[dim].to_index()
    if not labels.is_unique:
        raise ArgumentError(f"labels along {dim!r} occur more than once in {where}; give a slice")
    at = labels.get_indexer(new)
    if (at < 0).any():
        raise ArgumentError(
            f"no label {new[at < 0][0]!r} along {dim!r} in {where}; use append_dim to append it"
        )
    start = int(at[0]) if at.size else 0
    if at.tolist() != list(range(start, start + at.size)):
        raise ArgumentError(
            f"labels along {dim!r} are not contiguous in {where}; write them in several calls"
        )
    return slice(start, start + at.size)
