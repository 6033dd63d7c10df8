"""Append the elements of a file, and extend all arrays that share the axis."""

from __future__ import annotations

import contextlib
import math
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.cli._command import argument, array_path, command, wrong_calls
from extarray.cli.change import AXIS, SIDE, TIMEOUT, opened_for_writing
from extarray.cli.exchange import Found, found_in
from extarray.cli.look import opened
from extarray.common.arguments import as_axis
from extarray.common.errors import (
    CastingError,
    FormatError,
    MissingError,
    ShapeError,
    VariableError,
)
from extarray.common.extras import require
from extarray.common.progress import Progress
from extarray.format.archive import ATTRS_NAME
from extarray.format.labels import axis_names
from extarray.format.missing import missing_elements
from extarray.format.places import PER_BAND, Line, Move
from extarray.format.suffixes import METADATA
from extarray.formats.description import are_labels, described

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from numpy.typing import NDArray

    from extarray.formats.description import Coordinate

__all__ = ["append"]

#: Attributes that change the meaning of stored numbers.
_MEANINGS = (
    "units",
    "calendar",
    "scale_factor",
    "add_offset",
    "_FillValue",
    "missing_value",
    "_Unsigned",
)
#: Attributes of GeoTIFF, ENVI and FITS that do the same; extarray does not convert these.
_FOREIGN = (
    "scales",
    "offsets",
    "data gain values",
    "data offset values",
    "data reflectance gain values",
    "data reflectance offset values",
    "reflectance scale factor",
    "BSCALE",
    "BZERO",
)


@command(
    "append",
    "append the elements of a file along an axis",
    array_path(),
    argument("data", "DATA"),
    AXIS,
    SIDE,
    TIMEOUT,
    details="DATA is a file in any format that `extarray import` reads, FILE:/NAME to choose one "
    "of several arrays in it, another extarray array, or - to read a .npy file from standard "
    "input.  Labels of the axis, and other arrays of the group with this axis, are extended "
    "by the arrays of the same names in DATA.  Data whose units, packing or georeference do "
    "not match the array are refused.  Readers see either all of the new data or none.",
)
def append(path: str, data: str, axis: int | str, side: Any, timeout: float) -> None:
    """Append the elements of a file."""
    with found_in(data) as found, contextlib.ExitStack() as stack:
        with opened(path) as a, wrong_calls():
            target = _Target.of(a, axis)
            _check_foreign(target, found, side)
        others = _others(target)
        if others or target.labels or _unlike(found, target) is not None:
            if find_spec("xarray") is not None:
                with wrong_calls():
                    _append_by_xarray(target, found, data, side, timeout)
                return
            pairs = _alike(target, others, found, data, stack)
        else:
            _check_labels(target, found)
            pairs = [(target, found)]
        arrays = [stack.enter_context(opened_for_writing(str(t.path), timeout)) for t, _ in pairs]
        stack.enter_context(wrong_calls())
        if len(arrays) > 1:
            import extarray as xa

            stack.enter_context(xa.commit(arrays))
        for a, (part, item) in zip(arrays, pairs, strict=True):
            with _Counted(item.values, a.dtype) as counted:
                a.append(counted, part.axis, side)


# -- the arrays that grow ------------------------------------------------------------------------


class _Target(NamedTuple):
    """An array that is appended to.

    Attributes
    ----------
    path : Path
    name : str
        Name as a variable.
    axis : int
    dims : tuple of str
        Names of the axes; the default names of xarray if the array has none.
    is_named : bool
        Whether the array has axis names.
    dtype : dtype
    attrs : dict
    coords : dict of Coordinate
        Those that are stored as attributes.
    missing : list of scalar
        Elements that mark missing values.
    shape : tuple of int
    """

    path: Path
    name: str
    axis: int
    dims: tuple[str, ...]
    is_named: bool
    dtype: np.dtype[Any]
    attrs: dict[str, Any]
    coords: dict[str, Coordinate]
    missing: list[Any]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, a: Any, axis: int | str) -> Self:
        """Describe an open array."""
        path, attrs, j = Path(a.path), a.attrs.asdict(), as_axis(axis, a.ndim, a)
        dims = axis_names(a.dims, a.ndim)
        given = described(a, None, [])[1]
        missing = missing_elements(attrs, a.dtype)
        missing += [given.fill_value] if given.fills else []
        name = attrs.get("name", path.name)
        return cls(
            path, name, j, dims, a.dims is not None, a.dtype, attrs, given.coords, missing, a.shape
        )

    @property
    def dim(self) -> str:
        """Name of the axis that grows."""
        return self.dims[self.axis]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of coordinates along the axis that are stored as attributes."""
        return tuple(name for name, each in self.coords.items() if self.dim in each.dims)

    @property
    def is_in_group(self) -> bool:
        """True if the folder is a group, or has labels of the axis.

        Arrays in other folders may be unrelated.
        """
        folder = self.path.parent
        is_one = (folder / ATTRS_NAME).exists() or (folder / f"{self.dim}{METADATA}").exists()
        return self.is_named and is_one


def _others(target: _Target) -> list[_Target]:
    """Return the other arrays of the group that have the axis."""
    found = []
    for file in sorted(target.path.parent.glob(f"*{METADATA}")) if target.is_in_group else ():
        if file.stem != target.path.name:
            with opened(str(file)) as a:
                if a.dims is not None and target.dim in a.dims:
                    found.append(_Target.of(a, target.dim))
    return found


@contextlib.contextmanager
def _beside(found: Found, name: str, data: str, dim: str) -> Iterator[Found]:
    """Open the array `name` next to the appended elements."""
    with contextlib.ExitStack() as stack:
        try:
            item = stack.enter_context(found.beside(name))
        except (FormatError, MissingError, VariableError) as error:
            raise VariableError(
                f"cannot append along {dim!r}: {name!r} also has this axis, but {data!r} has no "
                f"data for it ({error}); give a file that has both"
            ) from None
        yield item


# -- attributes that nothing converts ------------------------------------------------------------


def _check_foreign(target: _Target, found: Found, side: str) -> None:
    """Refuse elements whose GeoTIFF, ENVI or FITS attributes differ from those of the array."""
    given, stored = found.description, target.attrs
    for key in _FOREIGN:
        new, old = given.attrs.get(key), stored.get(key)
        if target.dim == "band" and key in PER_BAND:
            if new is not None:
                raise CastingError(
                    f"cannot append to {target.name!r}: {key!r} is {new!r} in the new data, one "
                    "entry for each band, and such entries cannot be appended; unpack the values "
                    "first"
                )
        elif not np.array_equal(np.asarray(new), np.asarray(old)):
            raise CastingError(
                f"cannot append to {target.name!r}: {key!r} is {new!r} in the new data, but "
                f"{old!r} in the array; convert the values first"
            )
    said = given.packing.missing if given.packing is not None else ()
    if any(key in given.attrs for key in ("_FillValue", "missing_value")):
        said = ()  # CF conventions: values are converted
    for element in said:
        if element == element and element not in target.missing:
            raise CastingError(
                f"cannot append to {target.name!r}: {element} marks missing elements in the new "
                "data, but is a value in the array; if no element of the array has this value, "
                f"declare it first: extarray attrs PATH nodata={element}"
            )
    _check_transform(target, found, side)


def _check_transform(target: _Target, found: Found, side: str) -> None:
    """Refuse elements whose georeference does not continue that of the array."""
    given, stored = found.description, target.attrs.get("transform")
    new = given.attrs.get("transform")
    if new is None or stored is None or given.ndim != len(target.dims):
        return
    axis = given.names.index(target.dim) if target.dim in given.names else target.axis
    firsts = [0] * given.ndim
    firsts[target.axis] = target.shape[target.axis] if side == "end" else -given.shape[axis]
    lines = [Line(first, 1, j) for j, first in enumerate(firsts)]
    there = Move(target.dims, lines, target.dims).attrs({"transform": stored}, []).get("transform")
    try:
        numbers, wanted = np.array(new, np.float64)[:6], np.array(there, np.float64)[:6]
    except (TypeError, ValueError):
        return  # another attribute of this name
    if numbers.shape != (6,) or wanted.shape != (6,):
        return
    far = max(given.shape)
    moved = np.abs(numbers - wanted) * [far, far, 1, far, far, 1]
    if moved.max() > np.abs(wanted[[0, 1, 3, 4]]).max() / 1000:  # in pixels, including the far end
        raise CastingError(
            f"cannot append to {target.name!r}: the new data do not adjoin the array: their "
            f"transform is {numbers.tolist()}, but {wanted.tolist()} is needed at this end"
        )


def _check_labels(target: _Target, found: Found) -> None:
    """Refuse elements whose labels along the other axes differ (I13)."""
    for name, label in found.description.coords.items():
        stored = target.coords.get(name)
        if stored is None or label.dims != stored.dims or target.dim in stored.dims:
            continue
        if not are_labels(label.values, stored.values):
            raise VariableError(
                f"cannot append to {target.name!r}: the coordinate {name!r} of the new data "
                "differs from that of the array"
            )


# -- without xarray ------------------------------------------------------------------------------


def _unlike(found: Found, target: _Target) -> str | None:
    """Describe how the meaning of numbers differs from the stored ones; None if it does not."""
    given, stored = found.description.attrs, target.attrs
    is_coded = False
    for key in _MEANINGS:
        new, old = given.get(key), stored.get(key)
        if new is None and old is None:
            continue
        if key == "units" and None in (new, old) and "since" not in f"{new} {old}":
            continue  # numbers that are the values themselves
        if target.dtype.kind in "fc" and all(x is None or np.all(x != x) for x in (new, old)):
            continue  # NaN is missing with or without an attribute
        is_coded = is_coded or key != "units"
        if not np.array_equal(np.asarray(new), np.asarray(old)):
            return f"{key!r} is {new!r} in the new data, but {old!r} in the array"
    dtype, dims = found.description.dtype, found.description.dims
    if is_coded and dtype != target.dtype:
        return f"the new data have dtype {dtype}, but the array has {target.dtype}"
    if dims is not None and dims != target.dims and set(dims) == set(target.dims):
        return f"the new data have axes {dims}, but the array has {target.dims}"
    return None


def _alike(
    target: _Target,
    others: list[_Target],
    found: Found,
    data: str,
    stack: contextlib.ExitStack,
) -> list[tuple[_Target, Found]]:
    """Return the arrays that grow with their new elements; refuse other meanings."""
    way_out = "; with xarray installed, they are converted (pip install xarray)"
    if target.labels:
        raise VariableError(
            f"cannot append along {target.dim!r}: the labels {target.labels} are attributes, "
            "which do not grow" + way_out
        )
    pairs = [(target, found)]
    pairs += [(t, stack.enter_context(_beside(found, t.name, data, t.dim))) for t in others]
    for part, item in pairs:
        unlike = _unlike(item, part)
        if unlike is not None:
            raise CastingError(f"cannot append to {part.name!r}: {unlike}{way_out}")
        _check_labels(part, item)
    return pairs


# -- by xarray -----------------------------------------------------------------------------------


def _append_by_xarray(target: _Target, found: Found, data: str, side: str, timeout: float) -> None:
    """Append to all arrays that share the axis, as `to_extarray` does."""
    xr: Any = require("xarray", "xarray", "labels and packed numbers")
    import extarray.interop.xarray  # noqa: F401 -- the accessors
    from extarray.interop.xarray_store import ArrayStore, FolderStore

    folder = target.path.parent
    with contextlib.ExitStack() as stack:
        store = FolderStore(folder) if target.is_in_group else ArrayStore(target.path)
        stack.enter_context(store)
        stored = store.get_variables()
        parts = {target.name: _variable(found, stored[target.name])}
        dims = parts[target.name].dims
        shown = dict(zip(found.description.dims or dims, dims, strict=True))
        for name, variable in stored.items():
            label = found.description.coords.get(name)
            if name == target.name:
                continue
            if label is not None:
                own = tuple(shown.get(d, d) for d in label.dims)
                parts[name] = xr.Variable(own, label.values, label.attrs)
            elif target.dim in variable.dims:
                item = stack.enter_context(_beside(found, name, data, target.dim))
                parts[name] = _variable(item, variable)
        try:
            dataset = xr.Dataset(parts)
        except ValueError as error:
            raise ShapeError(f"the arrays of {data!r} do not fit together: {error}") from error
        options = {"append_dim": target.dim, "side": side, "timeout": timeout}
        if target.is_in_group:
            dataset.extarray.to_extarray(folder, **options)
        else:
            array = dataset.set_coords(set(parts) - {target.name})[target.name]
            array.extarray.to_extarray(target.path, **options)


def _variable(found: Found, stored: Any) -> Any:
    """Return the found elements as a lazy, undecoded variable.

    If its axes are unnamed or named differently, they are matched with the stored ones by position.
    """
    xr: Any = require("xarray", "xarray")
    indexing: Any = require("xarray.core.indexing", "xarray")
    from extarray.interop.xarray_lazy import LazyBoxes
    from extarray.interop.xarray_store import RESERVED

    given = found.description
    if given.ndim != stored.ndim:
        raise ShapeError(
            f"cannot append data with {given.ndim} axes {given.shape} to an array with "
            f"{stored.ndim}"
        )
    dims = stored.dims
    if given.dims is not None and set(given.dims) == set(dims):
        dims = given.dims
    attrs = {key: value for key, value in given.attrs.items() if key not in RESERVED}
    return xr.Variable(dims, indexing.LazilyIndexedArray(LazyBoxes(found.values)), attrs)


class _Counted:
    """Elements that are read box by box with a progress report.

    A box is refused if the dtype of the array would change its elements.
    """

    def __init__(self, values: Any, dtype: np.dtype[Any]) -> None:
        self._values, self._target = values, dtype
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
        total = math.prod(self.shape) * self.dtype.itemsize
        self._progress = Progress(max(1, total), "append", True)

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.__exit__(*error)

    def __getitem__(self, box: Any) -> Any:
        values = self._values[box]
        self._progress.add(values.nbytes)
        if values.dtype != self._target and np.can_cast(values.dtype, self._target, "same_kind"):
            self._check_cast(np.asarray(values))
        return values

    def _check_cast(self, values: NDArray[Any]) -> None:
        with np.errstate(all="ignore"):
            stored = values.astype(self._target)
            same = stored.astype(values.dtype) == values
        if {values.dtype.kind, stored.dtype.kind} == {"i", "u"}:
            same &= (stored < 0) == (values < 0)  # beyond the largest integer
        elif values.dtype.kind in "fcmM":
            same |= values != values
        if not same.all():
            first = np.unravel_index(np.argmin(same), same.shape)
            raise CastingError(
                f"cannot append {values.dtype} to an array of {stored.dtype} without loss: "
                f"{values[first]} would become {stored[first]}; convert the values first"
            )
