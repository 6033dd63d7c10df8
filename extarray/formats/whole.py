"""Whole files: `load_whole` makes a group of one, and `save_whole` writes a group to one.

A format with groups, such as HDF5, provides a `WholeSource` and a `WholeSink`.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extarray.array.array import ExtArray
from extarray.array.folders import Group, open_group, replace_group
from extarray.common import system
from extarray.common.arguments import check_flag
from extarray.common.errors import (
    ArgumentError,
    DTypeError,
    ExistsError,
    LossyWarning,
)
from extarray.format.archive import check_member_name
from extarray.format.labels import mapping_now
from extarray.formats.description import Coordinate
from extarray.formats.files import Claims, allowed, of_library
from extarray.formats.transfer import line_of, load, save
from extarray.maintenance.group_files import making_folder
from extarray.storage.filesystem import family
from extarray.streaming.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from extarray.formats.description import Description
    from extarray.formats.transfer import Sink, Source

__all__ = [
    "WholeSink",
    "WholeSource",
    "load_whole",
    "of_group",
    "save_whole",
]


@dataclass
class WholeSource:
    """An open file with everything that a group needs from it.

    Attributes
    ----------
    groups : dict
        Attributes of each group by path; the path of the root is "".
    names : list of str
        Paths of the arrays.
    source : callable
        Takes such a path, and returns a context manager that yields the `Source`.
    lost : list of str
        Descriptions of what the groups cannot keep, for the warning.
    """

    groups: Mapping[str, Mapping[str, Any]]
    names: list[str]
    source: Callable[[str], AbstractContextManager[Source]]
    lost: list[str]


@dataclass
class WholeSink:
    """A new file, which takes its name when it is complete.

    Attributes
    ----------
    sink : callable
        Takes a path and a `Description`, and returns a context manager that yields the `Sink`.
    put_attrs : callable
        Creates a group with attributes; returns descriptions of those that are lost.
    attaches : bool
        Whether labels are attached to the arrays that have the axis; otherwise names suffice.
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
    significant_bits: int | None = None,
    max_result: int | str | None = None,
    **options: Any,
) -> Group:
    """Make a group of a whole file; its folder appears when it is complete.

    Arrays of unsupported kinds are left out, with a `LossyWarning`.  `options` are those of `load`.
    """
    if chunks is not None:
        raise ArgumentError("chunks apply to a single array; name it, or leave out chunks")
    if significant_bits is not None:
        raise ArgumentError(
            "significant_bits would round all arrays of the file, coordinates too; name a single "
            "array, or leave it out"
        )
    check_flag(overwrite, "overwrite")
    target = Path(os.path.abspath(os.fsdecode(path)))
    if overwrite and target.is_dir():
        open_group(target, "r").close()
    elif os.path.lexists(target):
        raise ExistsError(
            errno.EEXIST, "it already exists; replace it with overwrite=True", os.fspath(target)
        )
    claims = Claims(file)
    with family("cannot make the folder '{}'", target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    publish = replace_group if overwrite else system.replace
    with (
        allowed(max_result),
        making_folder(os.fspath(target), publish) as fresh,
        whole as source,
        open_group(fresh, "r+") as group,
    ):
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
            guard = partial(of_library, file, title, name)
            what = line_of("from", title, file, name)
            try:
                with source.source(name) as each:
                    array = load(
                        each,
                        Path(fresh, name),
                        guard=guard,
                        what=what,
                        file=file,
                        claims=claims,
                        **options,
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
    return open_group(path, "r+")


def of_group(name: str, lost: list[str]) -> list[str]:
    """Add the name of a group to descriptions of its losses.

    Examples
    --------
    >>> of_group("run", ["attribute 'x'"]), of_group("", ["attribute 'x'"])
    (["attribute 'x' of the group 'run'"], ["attribute 'x' of the file"])
    """
    return [f"{each} of {f'the group {name!r}' if name else 'the file'}" for each in lost]


def _drop_labels(name: str, array: ExtArray, group: Group) -> None:
    """Remove labels from the attributes of an array if they are arrays of its group.

    As in netCDF, arrays of an enclosing group count, too.
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
    """Tell whether the group of a member, or one around it, has another member."""
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
    """Write a group to a new file.  `options` are those of `save`."""
    if options.pop("selection", None) is not None:
        raise ArgumentError("a group is written whole; leave out selection, or name an array")
    guard = partial(of_library, file, title)
    items = dict(group.walk())
    arrays = {name: item for name, item in items.items() if isinstance(item, ExtArray)}
    labelling = {
        _beside(name, label) for name, a in arrays.items() for label in a.attrs.get("coords", ())
    }

    def order(name: str) -> tuple[int, bool, bool]:
        # Write labels before the arrays that refer to them.
        return name.count("/"), not _is_label(name, arrays), name not in labelling

    with whole as sink:
        lost = of_group("", sink.put_attrs("", group.attrs))
        for name, item in items.items():
            if isinstance(item, Group):
                lost += of_group(name, sink.put_attrs(name, item.attrs))
        for name in sorted(arrays, key=order):
            labels = _labels(name, arrays) if sink.attaches else {}

            def make(
                given: Description, name: str = name, labels: dict[str, Coordinate] = labels
            ) -> AbstractContextManager[Sink]:
                coords = {k: v for k, v in given.coords.items() if k != name.rpartition("/")[2]}
                attrs = _placed(name, arrays, given.attrs, lost)
                return sink.sink(name, replace(given, attrs=attrs, coords={**coords, **labels}))

            what = line_of("to", title, file, name)
            save(arrays[name], make, guard=guard, what=what, **options)
        if lost:
            warn(f"to {title}: the file does not have {'; '.join(lost)}", LossyWarning)


def _placed(
    name: str, arrays: Mapping[str, ExtArray], attrs: dict[str, Any], lost: list[str]
) -> dict[str, Any]:
    """Return the attributes of an array, adapted to the arrays whose grid mapping it is.

    The indices of these have shifted if they have grown or shrunk at the start.
    """
    if arrays[name].ndim or "GeoTransform" not in attrs:
        return attrs
    forms = [
        mapping_now(attrs, each.dims, each.origin)
        for other, each in arrays.items()
        if _grid_mapping(other, each, arrays) == name
    ]
    if any(form != forms[0] for form in forms):
        lost.append(
            f"attribute 'GeoTransform' of {name!r}, as the arrays begin at different places"
        )
        return {key: value for key, value in attrs.items() if key != "GeoTransform"}
    return forms[0] if forms else attrs


def _grid_mapping(name: str, array: ExtArray, arrays: Mapping[str, ExtArray]) -> str | None:
    """Return the path of an array's grid mapping, in its group or one around it."""
    said = array.attrs.get("grid_mapping")
    if not isinstance(said, str) or not said:
        return None
    mapping, outer = said.split()[0].rstrip(":"), name
    while outer:
        outer = outer.rpartition("/")[0]
        path = f"{outer}/{mapping}" if outer else mapping
        if path in arrays:
            return path
    return None


def _beside(name: str, other: str) -> str:
    """Return the path of another member in the same group."""
    outer, slash, _ = name.rpartition("/")
    return f"{outer}{slash}{other}"


def _is_label(name: str, arrays: Mapping[str, ExtArray]) -> bool:
    """Tell whether an array labels the axis of its own name."""
    return arrays[name].dims == (name.rpartition("/")[2],)


def _labels(name: str, arrays: Mapping[str, ExtArray]) -> dict[str, Coordinate]:
    """Return the labels of an array's axes that are arrays of its group."""
    array, found = arrays[name], {}
    for dim, extent in zip(array.dims or (), array.shape, strict=False):
        label = _beside(name, dim)
        if label == name or label not in arrays or not _is_label(label, arrays):
            continue
        if arrays[label].shape == (extent,):
            found[dim] = Coordinate((dim,), arrays[label][...], {})
    return found
