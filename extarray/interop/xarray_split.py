"""Axes that stand for several, shown to xarray as these: frames as time points and channels.

The attribute ``"split"`` of an array names them.  Variables along the same dimension are split with
it, so that values for each frame become values for each time point, channel and slice.
"""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.split import filled_up, lengths_of, spread
from extarray.common.extras import require
from extarray.interop.xarray_lazy import LazyArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["split_variables"]

xr: Any = require("xarray", "xarray", "the xarray backend")
indexing: Any = require("xarray.core.indexing", "xarray")

Splits = dict[str, dict[str, int]]


class _SplitArray(LazyArray):
    """Elements of an array with axes split, read on demand.

    Parameters
    ----------
    whole : LazyArray
    splits : tuple of (int, dict)
        Axis, and lengths by name, of each split in turn.
    shape : tuple of int
    """

    __slots__ = ("_splits", "_whole")

    def __init__(
        self,
        whole: LazyArray,
        splits: tuple[tuple[int, dict[str, int]], ...],
        shape: tuple[int, ...],
    ) -> None:
        super().__init__(whole._manager, whole._first, shape, whole.dtype)
        self._whole, self._splits = whole, splits

    @contextmanager
    def _array(self) -> Iterator[tuple[Any, tuple[int, ...]]]:
        """Yield a view with the axes split, and the place of its index 0."""
        with self._whole._array() as (a, lows):
            box = tuple(slice(low, low + n) for low, n in zip(lows, self._whole.shape, strict=True))
            view = a.lazy[box]
            for axis, lengths in self._splits:
                view = view.lazy.split(axis, **lengths)
            yield view, (0,) * len(self.shape)


def split_variables(variables: Mapping[Any, Any], splits: Splits) -> dict[Any, Any]:
    """Return variables with the dimensions split that `splits` names, in all that have them.

    Labels along a new dimension that are too few are left out, with a warning; the surplus is
    ignored.
    """
    found = {}
    for name, variable in variables.items():
        try:
            found[name] = _split(variable, splits)
        except ValueError as error:
            warnings.warn(f"variable {name!r} is left out: {error}", UserWarning, stacklevel=2)
    new = {name for lengths in splits.values() for name in lengths}
    sizes = {d: n for d, n in _sizes(variables, found).items() if d in new}
    for name, variable in list(found.items()):
        if variable is not variables[name]:
            continue
        fewer = [d for d in variable.dims if variable.sizes[d] < sizes.get(d, 0)]
        if fewer:
            warnings.warn(
                f"variable {name!r} has {variable.sizes[fewer[0]]} values for "
                f"{sizes[fewer[0]]} elements of {fewer[0]!r}; it is left out",
                UserWarning,
                stacklevel=2,
            )
            del found[name]
        elif any(variable.sizes[d] > sizes.get(d, math.inf) for d in variable.dims):
            parts = {d: slice(sizes[d]) for d in variable.dims if d in sizes}
            found[name] = variable.isel(parts)
    return found


def _sizes(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> dict[str, int]:
    """Return the extents of dimensions of the variables that were split."""
    split = [variable for name, variable in after.items() if variable is not before[name]]
    return {d: n for variable in split for d, n in variable.sizes.items()}


def _split(variable: Any, splits: Splits) -> Any:
    """Return a variable with its dimensions split; itself, if none is."""
    own = {axis: lengths for axis, lengths in splits.items() if axis in variable.dims}
    if not own:
        return variable
    data = getattr(variable, "_data")  # noqa: B009 -- xarray's own name; `data` would read all
    dims, shape = list(variable.dims), list(variable.shape)
    chunks = list(variable.encoding.get("chunks", ()))
    steps = []
    for axis, lengths in own.items():
        j = dims.index(axis)
        steps.append((j, lengths))
        extents = lengths_of(shape[j], lengths, False, f"axis {axis!r}")
        if chunks:
            chunks[j : j + 1] = spread(chunks[j], extents)
        dims[j : j + 1] = lengths
        shape[j : j + 1] = extents
    encoding = dict(variable.encoding)
    if chunks:
        encoding["chunks"] = tuple(chunks)
        encoding["preferred_chunks"] = {
            d: min(c, max(1, n)) for d, c, n in zip(dims, chunks, shape, strict=True)
        }
    lazy = data.array if isinstance(data, indexing.LazilyIndexedArray) else None
    if isinstance(lazy, LazyArray):
        whole = _SplitArray(lazy, tuple(steps), tuple(shape))
        values: Any = indexing.LazilyIndexedArray(whole)
    else:
        values = np.asarray(variable.values)
        for j, lengths in steps:
            extents = lengths_of(values.shape[j], lengths, False, f"axis {j}")
            values = filled_up(values, j, extents)
    return xr.Variable(dims, values, variable.attrs, encoding)
