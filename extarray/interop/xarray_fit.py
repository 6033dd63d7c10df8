"""Check xarray data against existing arrays: names, extents, labels and attributes.

`xarray_coding` compares values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, ShapeError, VariableError
from extarray.common.extras import require
from extarray.common.hints import hint
from extarray.interop.xarray_coding import Coding, boxes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from extarray.interop.xarray_store import Entry, FolderStore

__all__ = [
    "aligned",
    "check_attrs",
    "check_extents",
    "check_known",
    "check_labels",
    "check_names",
    "joined",
]

xr: Any = require("xarray", "xarray", "the xarray backend")
duck_arrays: Any = require("xarray.core.duck_array_ops", "xarray")

#: Attributes that change the meaning of numbers.
_MEANINGS = ("units", "positive", "flag_values", "flag_masks", "flag_meanings")


def check_names(new: set[Any], stored: Mapping[Any, Any], dim: str, where: str) -> None:
    """Refuse unknown variables, and missing ones that have to grow."""
    if not any(dim in variable.dims for variable in stored.values()):
        raise ArgumentError(f"cannot append along {dim!r}: {where} has no such dimension")
    for name in sorted(map(str, new - set(stored))):
        raise VariableError(f"cannot append {name!r}: it is not in {where}")
    for name, variable in stored.items():
        if dim in variable.dims and name not in new:
            raise VariableError(f"cannot append along {dim!r}: {name!r} is in {where}, not given")


def check_known(store: FolderStore, what: str) -> None:
    """Refuse a folder whose arrays cannot be aligned with each other."""
    if store.unknown:
        raise ArgumentError(
            f"cannot {what} to '{store.folder}': it does not record where its arrays begin along "
            f"{', '.join(map(repr, sorted(store.unknown)))}; write the dataset again, into "
            "another folder"
        )


def check_extents(entry: Entry, store: FolderStore, dim: str) -> None:
    """Refuse to append to an array that has grown alone along another dimension."""
    for d, start in store.starts(entry).items():
        n, own = store.sizes[d], entry.sizes[d]
        if start + n > own if d == dim else n != own:
            raise ShapeError(
                f"cannot append {entry.name!r} along {dim!r}: it has {own} elements along {d!r}, "
                f"but the other arrays have {n}"
            )


def check_attrs(
    name: Any, new: Mapping[str, Any], stored: Mapping[str, Any], combine: str | None
) -> None:
    """Refuse numbers whose attributes give them another meaning than the stored ones have."""
    if combine == "override":
        return
    for key in _MEANINGS:
        if key in new and key in stored and not _equal(new[key], stored[key]):
            raise ArgumentError(
                f"cannot write {name!r}: its attribute {key!r} is {new[key]!r}, but that of the "
                f"array is {stored[key]!r}; convert the values"
                + hint(", or give combine_attrs='override' to write them unchanged", " first")
            )


def _equal(a: Any, b: Any) -> bool:
    return a is b or bool(np.array_equal(np.asarray(a), np.asarray(b)))


def check_labels(dim: str, new: Any, stored: Any, coding: Coding) -> None:
    """Refuse labels of a dimension that already exist, or are given twice.

    Parameters
    ----------
    dim : str
    new : Variable
        Appended labels, decoded.
    stored : Variable
        Existing labels, undecoded.
    coding : Coding
        Coding of the labels.
    """
    if new.dims != (dim,):
        return
    labels = new.to_numpy()
    raw = labels if coding.is_plain(labels.dtype) else coding.of_variable(new).to_numpy()
    known = ~duck_arrays.isnull(labels)
    labels, raw = labels[known], raw[known]
    is_first = np.zeros(raw.shape, bool)
    is_first[np.unique(raw, return_index=True)[1]] = True
    if not is_first.all():
        raise _repeated(dim, labels[~is_first][0], "is given twice")
    for box in boxes(stored):
        there = stored[box].to_numpy()
        there = there[np.isin(there, raw)]
        if there.size:
            raise _repeated(dim, labels[np.isin(raw, there)][0], "already exists")


def _repeated(dim: str, label: Any, how: str) -> ArgumentError:
    return ArgumentError(
        f"cannot append along {dim!r}: the label {label} {how}; leave it out"
        + hint(
            ", overwrite it with region='auto', or give verify_integrity=False to append it again",
            "",
        )
    )


def aligned(
    name: Any,
    new: Any,
    stored: Any,
    sizes: Mapping[str, int],
    free: Collection[str],
    coding: Coding,
) -> Any:
    """Transpose a variable to the order of dimensions of the stored one, and check it.

    `sizes` has its extents; the variable may differ from the stored one only along the dimensions
    `free`.
    """
    if set(new.dims) != set(stored.dims):
        raise ShapeError(
            f"cannot write {name!r}: it has dimensions {new.dims}, but the array has {stored.dims}"
        )
    new = new.transpose(*stored.dims)
    for d in stored.dims:
        if d in sizes and new.sizes[d] != sizes[d]:
            where = "the array has" if sizes[d] == stored.sizes[d] else "the region has"
            raise ShapeError(
                f"cannot write {name!r}: {new.sizes[d]} elements along {d!r}, {where} {sizes[d]}"
            )
    if not set(free) & set(stored.dims) and coding.differs(new, stored):
        why = f"has no dimension {' or '.join(map(repr, free))}" if free else "is an attribute"
        raise ArgumentError(f"{name!r} differs from the stored one; it {why}")
    return new


def joined(name: Any, stored: Any, new: Any, coding: Coding, dim: str, at_start: bool) -> Any:
    """Append values to a coordinate that is stored as an attribute.

    Values without coding get a dtype that holds all of them.
    """
    if coding.is_plain(new.dtype):
        dtype = xr.Variable.concat([stored, new], dim).dtype
        both = Coding(name, dtype, {})
        parts = [both.of_variable(stored), both.of_variable(new)]
    else:
        parts = [stored, coding.of_variable(new)]
    values = [part.to_numpy() for part in (parts[::-1] if at_start else parts)]
    return xr.Variable(stored.dims, np.concatenate(values, stored.dims.index(dim)), stored.attrs)
