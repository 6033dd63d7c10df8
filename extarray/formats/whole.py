"""Whole files: groups are made of them, and written to them."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from extarray.array.array import ExtArray
from extarray.array.folders import Group, open_group
from extarray.common.arguments import check_flag
from extarray.common.errors import (
    ArgumentError,
    DTypeError,
    ExistsError,
    LossyWarning,
    storage_error,
)
from extarray.format.archive import check_member_name
from extarray.formats.description import Coordinate
from extarray.formats.files import of_library
from extarray.formats.transfer import load, save
from extarray.streaming.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from extarray.formats.description import Description
    from extarray.formats.transfer import Sink, Source

__all__ = ["WholeSink", "WholeSource", "load_whole", "save_whole"]


@dataclass
class WholeSource:
    """A file that is open, with all that a group takes from it.

    Attributes
    ----------
    groups : dict
        The attributes of each group, by its path; that of all is "".
    names : list of str
        Paths of the arrays.
    source : callable
        Given such a path, makes the context that has the `Source`.
    lost : list of str
        For the warning: what of the groups cannot be kept.
    """

    groups: Mapping[str, Mapping[str, Any]]
    names: list[str]
    source: Callable[[str], AbstractContextManager[Source]]
    lost: list[str]


@dataclass
class WholeSink:
    """A file in the making, which takes its name when it is whole.

    Attributes
    ----------
    sink : callable
        Given a path and a `Description`, makes the context that has the `Sink`.
    put_attrs : callable
        Makes a group of a path, with attributes; returns what of them is lost.
    attaches : bool
        Labels of an axis are attached to the arrays that have it; else names are enough.
    """

    sink: Callable[[str, Description], AbstractContextManager[Sink]]
    put_attrs: Callable[[str, Mapping[str, Any]], list[str]]
    attaches: bool = False


def load_whole(
    title: str,
    file: Any,
    whole: AbstractContextManager[WholeSource],
    path: Any,
    *,
    overwrite: bool = False,
    chunks: Any = None,
    **options: Any,
) -> Group:
    """Make a group of all that is in a file; its folder has its name when it is complete.

    Arrays of kinds that no array has are left out, with a `LossyWarning`.  `options` are those of
    `load`.
    """
    if chunks is not None:
        raise ArgumentError("chunks are those of one array: name it, or leave chunks out")
    check_flag(overwrite, "overwrite")
    target = Path(os.path.abspath(os.fsdecode(path)))
    if overwrite and target.is_dir():
        open_group(target, "r").close()
    elif os.path.lexists(target):
        raise ExistsError(
            errno.EEXIST, "it exists; overwrite=True replaces a group", os.fspath(target)
        )
    guard = partial(of_library, file, title)
    fresh = target.with_name(f"{target.name}.{uuid4().hex[:12]}.new")
    try:
        with whole as source, open_group(fresh, "w-") as group:
            lost = list(source.lost)
            for name, attrs in source.groups.items():
                inner = group.require_group(name) if name else group
                inner.attrs.update(attrs)
            for name in source.names:
                problem = check_member_name(f"{name}/")
                if problem is not None:
                    raise ArgumentError(f"{name!r} cannot be the name of an array: {problem}")
                outer = name.rpartition("/")[0]
                if outer:
                    group.require_group(outer)
                try:
                    with source.source(name) as each:
                        array = load(
                            each, fresh / name, guard=guard, what=f"from {title}", **options
                        )
                except DTypeError as error:
                    lost.append(f"{name!r} ({error})")
                else:
                    array.close()
            for name, item in group.walk():
                if isinstance(item, ExtArray):
                    _drop_labels(name, item, group)
            if lost:
                warn(f"from {title}: the group does not have {'; '.join(lost)}", LossyWarning)
        if target.is_dir():
            open_group(target, "w").close()
        try:
            os.rename(fresh, target)
        except OSError as error:
            raise storage_error(error, "cannot make the folder '{}'", target) from error
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return open_group(path, "r+")


def _drop_labels(name: str, array: ExtArray, group: Group) -> None:
    """Leave out of the attributes of an array the labels of axes that are arrays beside it.

    Or in a group around that of the array, as netCDF has them.
    """
    coords = array.attrs.get("coords")
    if isinstance(coords, dict):
        own = name.rpartition("/")[2]
        dims = array.dims or ()
        left = {
            k: v
            for k, v in coords.items()
            if not (k == own or (k in dims and _is_around(name, k, group)))
        }
        if len(left) < len(coords):
            if left:
                array.attrs["coords"] = left
            else:
                del array.attrs["coords"]


def _is_around(name: str, other: str, group: Group) -> bool:
    """Tell whether a member has another one beside it, or a group around it has."""
    outer = name
    while outer:
        outer = outer.rpartition("/")[0]
        if (f"{outer}/{other}" if outer else other) in group:
            return True
    return False


def save_whole(
    title: str,
    group: Group,
    file: Any,
    whole: AbstractContextManager[WholeSink],
    **options: Any,
) -> None:
    """Write a group into a fresh file.  `options` are those of `save`."""
    if options.pop("selection", None) is not None:
        raise ArgumentError("a group is written whole: leave selection out, or name an array")
    guard = partial(of_library, file, title)
    items = dict(group.walk())
    arrays = {name: item for name, item in items.items() if isinstance(item, ExtArray)}
    labelling = {
        _beside(name, label) for name, a in arrays.items() for label in a.attrs.get("coords", ())
    }

    def order(name: str) -> tuple[int, bool, bool]:
        # What labels others comes first: they find it there.
        return name.count("/"), not _is_label(name, arrays), name not in labelling

    with whole as sink:
        lost = sink.put_attrs("", group.attrs)
        for name, item in items.items():
            if isinstance(item, Group):
                lost += sink.put_attrs(name, item.attrs)
        for name in sorted(arrays, key=order):
            labels = _labels(name, arrays) if sink.attaches else {}

            def make(
                given: Description, name: str = name, labels: dict[str, Coordinate] = labels
            ) -> AbstractContextManager[Sink]:
                coords = {k: v for k, v in given.coords.items() if k != name.rpartition("/")[2]}
                return sink.sink(name, replace(given, coords={**coords, **labels}))

            save(arrays[name], make, guard=guard, what=f"to {title}", **options)
        if lost:
            warn(f"to {title}: the file does not have {'; '.join(lost)}", LossyWarning)


def _beside(name: str, other: str) -> str:
    """Return the path of another member of the group that a member is in."""
    outer, slash, _ = name.rpartition("/")
    return f"{outer}{slash}{other}"


def _is_label(name: str, arrays: Mapping[str, ExtArray]) -> bool:
    """Tell whether an array labels the axis that has its name."""
    return arrays[name].dims == (name.rpartition("/")[2],)


def _labels(name: str, arrays: Mapping[str, ExtArray]) -> dict[str, Coordinate]:
    """Return the labels of the axes of an array that are arrays of its group."""
    array, found = arrays[name], {}
    for dim, extent in zip(array.dims or (), array.shape, strict=False):
        label = _beside(name, dim)
        if label == name or label not in arrays or not _is_label(label, arrays):
            continue
        if arrays[label].shape == (extent,):
            found[dim] = Coordinate((dim,), arrays[label][...], {})
    return found
