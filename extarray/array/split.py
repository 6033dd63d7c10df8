"""An axis split into several: frames of a recording become time points, channels and slices.

A `Split` stands for the array below a `LazyView`, and shows the elements of another view.  Index
(t, c, z) of the axes of a split is index ``(t * C + c) * Z + z`` of the axis that is split.  A
query on the new axes becomes one on that axis: a progression where the indices form one, else a
list.  Only the core reads and writes elements.

The last block along the first axis may not be whole yet: indices behind the end of the axis read as
the fill value, and are refused for writing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import as_int
from extarray.common.config import config
from extarray.common.errors import ArgumentError, BoundsError
from extarray.format.labels import SPLIT, coordinate_form, coordinate_values, known_split
from extarray.selection.axis_factors import true_points
from extarray.selection.factors import POINT_BYTES, Points, Progression, in_order, share_of_list
from extarray.selection.masks import MaskFactor
from extarray.streaming.blocks import hold, lead_of, release, view_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.selection.factors import Factor
    from extarray.selection.query import Query

__all__ = ["Split", "attrs_of_split", "filled_up", "lengths_of", "spread", "stored_split"]

# Bytes that an index in a list takes while it is computed, besides the core's tables.
_INDEX_BYTES = 24


def lengths_of(
    extent: int, lengths: Mapping[str, Any], complete: bool, axis: str
) -> tuple[int, ...]:
    """Return the lengths of the axes into which an axis is split, with that of -1 computed.

    Parameters
    ----------
    extent : int
        Length of the axis.
    lengths : mapping
        The lengths by name; one may be -1.
    complete : bool
        Whether a last block that is not whole is left out.
    axis : str
        The axis, for messages.

    Examples
    --------
    >>> lengths_of(100, {"t": -1, "c": 3, "z": 5}, False, "axis 0")
    (7, 3, 5)
    >>> lengths_of(100, {"t": -1, "c": 3, "z": 5}, True, "axis 0")
    (6, 3, 5)
    """
    if not lengths:
        raise ArgumentError(
            f"cannot split {axis} without lengths; give one for each new axis, such as "
            "t=-1, c=3, z=5"
        )
    found = [as_int(n, f"the length of {name!r}") for name, n in lengths.items()]
    open_ones = [i for i, n in enumerate(found) if n == -1]
    if any(n < 1 for n in found if n != -1) or len(open_ones) > 1:
        raise ArgumentError(
            f"cannot split {axis} into {_text(lengths)}: lengths are 1 or more, and one may be -1, "
            "for as many as there are"
        )
    if open_ones:
        block = math.prod(n for n in found if n != -1)
        found[open_ones[0]] = extent // block if complete else -(-extent // block)
    elif complete:
        raise ArgumentError(
            f"complete=True leaves out a last block along a length of -1, and {_text(lengths)} "
            "has none"
        )
    elif math.prod(found) < extent:
        raise ArgumentError(
            f"cannot split {axis}, of length {extent}, into {_text(lengths)}, which has room for "
            f"{math.prod(found)}; give -1 for one of the lengths"
        )
    return tuple(found)


def spread(chunk: int, lengths: Sequence[int]) -> tuple[int, ...]:
    """Return the extents along new axes of the parts that a chunk's extent of their axis makes.

    Examples
    --------
    >>> spread(1, (7, 3, 5)), spread(30, (7, 3, 5))
    ((1, 1, 1), (2, 3, 5))
    """
    parts = []
    for n in reversed(lengths):
        parts.append(max(1, min(n, chunk)))
        chunk //= max(n, 1)
    return tuple(reversed(parts))


def filled_up(labels: NDArray[Any], axis: int, lengths: Sequence[int]) -> NDArray[Any]:
    """Split an axis of labels; those of elements that have not come are missing.

    Examples
    --------
    >>> filled_up(np.arange(5.0), 0, (2, 3))
    array([[ 0.,  1.,  2.],
           [ 3.,  4., nan]])
    """
    late = math.prod(lengths) - labels.shape[axis]
    before, behind = labels.shape[:axis], labels.shape[axis + 1 :]
    if late:
        kind = labels.dtype.kind
        if kind in "biu":
            whole, labels = labels, labels.astype("f8")
            if (labels.astype(whole.dtype) != whole).any():
                raise ValueError("a float does not hold its labels, as it must beside missing ones")
        missing: Any = {"M": "NaT", "m": "NaT", "U": "", "S": b"", "T": ""}.get(kind, np.nan)
        fill = np.full((*before, late, *behind), missing, labels.dtype)
        labels = np.concatenate([labels, fill], axis)
    return labels.reshape(*before, *lengths, *behind)


def attrs_of_split(split: Split, values: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    """Return the attributes of a split, from those of the view whose axis it splits.

    Labels along the axis become labels along the new ones.  `lost` gets, in words, coordinates that
    are left out.
    """
    names, new_names = split.names
    found = {name: value for name, value in values.items() if name != SPLIT}
    rest = known_split(values.get(SPLIT), names)
    if rest and names is not None:
        rest.pop(names[split.axis], None)
        if rest:
            found[SPLIT] = rest
    elif SPLIT in values:
        found[SPLIT] = values[SPLIT]
    forms = values.get("coords")
    if not isinstance(forms, dict):
        return found
    coords = {}
    for name, form in forms.items():
        try:
            coords[name] = _split_labels(split, coordinate_form(name, form), names, new_names)
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
            lost.append(f"coordinate {name!r}, which does not label each element of the split axis")
    found["coords"] = coords
    return found


def _split_labels(
    split: Split,
    form: dict[str, Any],
    names: tuple[str, ...] | None,
    new_names: tuple[str, ...],
) -> dict[str, Any]:
    """Return a coordinate of a view as one of its split."""
    if names is None:
        if form["dims"]:
            raise ValueError("names of axes that have none change with their numbers")
        return form
    axis = names[split.axis]
    if axis not in form["dims"]:
        return form
    labels, j = coordinate_values(form), form["dims"].index(axis)
    if labels.shape[j] < split.extent:
        raise ValueError("it has too few labels")
    labels = labels[(slice(None),) * j + (slice(split.extent),)]
    kept = {name: value for name, value in form.items() if name not in ("dtype", "shape")}
    dims = [*form["dims"][:j], *new_names, *form["dims"][j + 1 :]]
    data = filled_up(labels, j, split.lengths)
    return {**kept, "dims": dims, "data": data, "origin": [0] * len(dims)}


def stored_split(view: Any) -> dict[str, dict[str, int]]:
    """Return the splits, by axis, that the attribute ``"split"`` of a view's array names."""
    base = view.base
    found = known_split(base.attrs.get(SPLIT), base.dims)
    if not found:
        raise ArgumentError(
            "the array has no split of its own, in its attribute 'split'; give an axis and "
            'lengths, as in a.lazy.split("frame", t=-1, c=3, z=5)'
        )
    return found


def _text(lengths: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={n}" for name, n in lengths.items())


@dataclass(slots=True)
class _Found:
    """A query on the view that is split, and what lies behind the end of its axis.

    Attributes
    ----------
    query : Query or None
        None: everything lies behind the end.
    values : ndarray
        The values of the query.
    missing : tuple of (ndarray, slice or ndarray)
        Each a view of values, and an index of those that have not come.
    """

    query: Query | None
    values: NDArray[Any]
    missing: tuple[tuple[NDArray[Any], Any], ...] = ()


class Split:
    """The elements of a view, one of whose axes is several: what a `LazyView` takes for an array.

    Parameters
    ----------
    view : LazyView
    axis : int
        The axis of the view that is split.
    lengths : tuple of int
        Lengths of the new axes.
    names : tuple of str
        Names of the new axes.
    """

    __slots__ = ("_axis", "_lengths", "_names", "_steps", "_view")

    def __init__(
        self, view: Any, axis: int, lengths: tuple[int, ...], names: tuple[str, ...]
    ) -> None:
        self._view, self._axis, self._lengths, self._names = view, axis, lengths, names
        self._steps = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]

    def __reduce__(self) -> tuple[Any, ...]:
        return Split, (self._view, self._axis, self._lengths, self._names)

    def __repr__(self) -> str:
        lengths = _text(dict(zip(self._names, self._lengths, strict=True)))
        return f"{self.base!r} with axis {self._axis} split into {lengths}"

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        parts = (self._axis, self._lengths, self._names)
        return ("extarray.array.split", self._view.__dask_tokenize__(), parts)

    def _on(self, view: Any) -> Split:
        return Split(view, self._axis, self._lengths, self._names)

    def _held(self) -> Split:
        return self._on(hold(self._view))

    def _verified(self) -> Split:
        return self._on(hold(self._view, verified=True))

    def _released(self) -> Split:
        view = release(self._view)
        return self if view is self._view else self._on(view)

    @property
    def view(self) -> Any:
        """The view whose axis is split."""
        return self._view

    @property
    def axis(self) -> int:
        """The axis of the view that is split."""
        return self._axis

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the new axes."""
        return self._lengths

    @property
    def names(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Names of the axes of the view, and those of the new axes."""
        return self._view.dims, self._names

    # -- facts -------------------------------------------------------------------------------------

    @property
    def base(self) -> Any:
        """The array that has the elements."""
        return self._view.base

    @property
    def path(self) -> Any:
        """Path of the array."""
        return self.base.path

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, in elements."""
        return self._spread(self._view.shape, self._lengths)

    @property
    def origin(self) -> tuple[int, ...]:
        """Zeros: the view follows its elements by itself."""
        return (0,) * len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        dtype: np.dtype[Any] = self._view.dtype
        return dtype

    @property
    def fill_value(self) -> Any:
        """Value of elements that have not come."""
        return self._view.fill_value

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the axes; None if others than the new ones have none."""
        names = self._view.dims
        return None if names is None else self._spread(names, self._names)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Extents of the parts in which the elements are best read: those of a chunk."""
        chunks = self._view.chunks
        return self._spread(chunks, spread(chunks[self._axis], self._lengths))

    @property
    def _lead(self) -> tuple[int, ...]:
        return self._spread(lead_of(self._view), (0,) * len(self._lengths))

    def _spread(self, items: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
        """Put items of the new axes in the place of that of the axis that is split."""
        return (*items[: self._axis], *new, *items[self._axis + 1 :])

    @property
    def extent(self) -> int:
        """Length of the axis that is split."""
        extent: int = self._view.shape[self._axis]
        return extent

    @property
    def is_whole(self) -> bool:
        """True if all elements have come."""
        return math.prod(self._lengths) <= self.extent and self._view._is_whole

    @property
    def _identity(self) -> bytes:
        origin: bytes = self._view._identity
        return origin

    @property
    def _handle(self) -> Any:
        return self._view._handle, self._axis, self._lengths

    @property
    def _extract(self) -> list[Any]:
        return [self._view._extract, self._axis, list(self._lengths)]

    @property
    def _is_mapped(self) -> bool:
        mapped: bool = self._view._is_mapped
        return mapped

    @property
    def _leaves_holes(self) -> bool:
        sparse: bool = self._view._leaves_holes
        return sparse

    def _holes(self) -> None:
        """Return None: boxes of the view are not told from others without reading."""

    @property
    def _comes_late(self) -> bool:
        late: bool = self._view._comes_late
        return late

    def _ahead(self, boxes: Sequence[Box]) -> None:
        first, last, around = self._axis, self._axis + len(self._lengths), []
        for box in boxes:
            if all(part.start < part.stop for part in box):
                low = self._flat([part.start for part in box[first:last]])
                high = self._flat([part.stop - 1 for part in box[first:last]])
                part = slice(low, min(high + 1, self.extent))
                if part.start < part.stop:
                    around.append((*box[:first], part, *box[last:]))
        self._view._ahead(around)

    def info(self) -> Any:
        """Return the facts of the array."""
        return self.base.info()

    def _check(self, what: str | None = None) -> None:
        self._view._check(what)

    def _check_axes(self, ndim: int) -> None:
        self._view._bounds()

    def _check_out(self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._view._check_out(out, shape, dtype)

    def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any:
        return self._view._as_values(value, dtype)

    def _overlaps(self, values: NDArray[Any]) -> bool:
        overlaps: bool = self._view._overlaps(values)
        return overlaps

    # -- rows, elements and boxes ------------------------------------------------------------------

    def _flat(self, indices: Sequence[int]) -> int:
        return sum(i * step for i, step in zip(indices, self._steps, strict=True))

    def row(self, key: Any, out: NDArray[Any] | None = None) -> NDArray[Any] | None:
        """Read the row of the array that an integer for each new axis selects: a frame, quickly.

        The split is that of the first axis of a view of an array.  None: the array is not as it was
        then, the row has not come, or `key` is another index; a query does the same.
        """
        lengths = self._lengths
        if type(key) is not tuple or len(key) != len(lengths):
            return None
        i = 0
        for item, n in zip(key, lengths, strict=True):
            if type(item) is not int or not -n <= item < n:
                return None
            i = i * n + (item + n if item < 0 else item)
        view = self._view
        array, shape = view._array, view.shape
        if i >= shape[0]:
            return None
        place, now = view._now, array.shape
        first, *others = place.factors
        if now[1:] != shape[1:] or any(
            not isinstance(f, Progression) or f.step != 1 or f.dim != f.axis for f in place.factors
        ):
            return None
        i += first.start
        if not 0 <= i < now[0] or any(f.start for f in others):
            return None
        row: NDArray[Any] = array.read(i, out=out)
        # Another thread may have let the array grow meanwhile.
        return row if array.origin == place.zero and row.shape == shape[1:] else None

    def _placed(self, key: tuple[int, ...]) -> tuple[int, ...]:
        """Return the index in the view of an element; it may lie behind the end of the axis."""
        first, last = self._axis, self._axis + len(self._lengths)
        return (*key[:first], self._flat(key[first:last]), *key[last:])

    def __getitem__(self, key: tuple[int, ...]) -> Any:
        place = self._placed(key)
        if place[self._axis] >= self.extent:
            return np.asarray(self.fill_value, self.dtype)[()]
        return self._view[place]

    def _write_exact(self, key: tuple[int, ...], values: Any) -> None:
        place = self._placed(key)
        self._refuse(place[self._axis])
        self._view.write(place, values)

    def _peek(self, box: Box, writable: bool = False) -> NDArray[Any] | None:
        first, last = self._axis, self._axis + len(self._lengths)
        parts = box[first:last]
        shape = [part.stop - part.start for part in parts]
        long = next((i for i, n in enumerate(shape) if n != 1), len(shape))
        if any(shape[i] != self._lengths[i] for i in range(long + 1, len(shape))):
            return None
        low = self._flat([part.start for part in parts])
        high = low + math.prod(shape)
        if not low < high <= self.extent:
            return None
        found = view_of(self._view, (*box[:first], slice(low, high), *box[last:]), writable)
        return None if found is None else found.reshape(self._spread(found.shape, tuple(shape)))

    # -- queries -----------------------------------------------------------------------------------

    def _move(self, query: Query, values: NDArray[Any], write: bool) -> None:
        """Move a query's selection to an array of its shape, or (write) from it."""
        for part, piece in self._pieces(query):
            place: Any = (*part, ...)  # the ellipsis gives a view even without axes
            found = self._on_view(piece, values[place], write)
            if found.query is not None:
                self._view._move(found.query, found.values, write)
            if found.missing:
                fill = np.asarray(self.fill_value, self.dtype)
                if query.field is not None:
                    fill = np.ndarray((), query.field.dtype, fill.tobytes(), query.field.offset)
                for block, where in found.missing:
                    block[where] = np.broadcast_to(fill, block.shape)[where]

    def check_written(self, query: Query) -> None:
        """Raise if a query selects elements that have not come; nothing is written yet."""
        if self.is_whole:
            return
        for _, piece in self._pieces(query):
            found = self._on_view(piece, np.broadcast_to(np.int8(), piece.shape), True)
            if found.query is not None:
                self._view._check_written(found.query)

    def _pieces(self, query: Query) -> Iterator[tuple[tuple[slice, ...], Query]]:
        """Yield the query in parts whose lists of indices fit in memory, each with its place."""
        if not query.size:
            return
        count = self._list_length(query)
        listed = count * (POINT_BYTES + _INDEX_BYTES)
        masks = [factor for factor in query.factors if isinstance(factor, MaskFactor)]
        listed += sum(m.count * (POINT_BYTES + _INDEX_BYTES * len(m.axes)) for m in masks)
        share = config.max_memory // 2 / max(listed, 1)
        if count:
            share = min(share, share_of_list(count, self._view.chunks))
        if share < 1:
            is_split = False
            for part, piece in query.split(share, self.chunks, by_tables=True):
                is_split = True
                for inner, smallest in self._pieces(piece):
                    yield _within(part, inner, piece.shape), smallest
            if is_split:
                return
        yield (), query

    def _list_length(self, query: Query) -> int:
        """Return the most indices of a list for the axis that is split; 0: none is needed."""
        dims: set[int] = set()
        for factor in self._of_split(query.factors):
            dims.update(factor.dims)
        extents = [query.shape[d] for d in dims if query.shape[d] > 1]
        return math.prod(extents) if len(extents) > 1 else 0

    def _of_split(self, factors: Sequence[Factor]) -> list[Factor]:
        """Return the factors that select on the new axes."""
        new = range(self._axis, self._axis + len(self._lengths))
        return [factor for factor in factors if any(axis in new for axis in factor.axes)]

    def _on_view(self, query: Query, values: NDArray[Any], write: bool) -> _Found:
        """Turn a query on the new axes, with its values, into one on the view."""
        factors = [true_points(f) if isinstance(f, MaskFactor) else f for f in query.factors]
        query = replace(query, factors=tuple(factors))
        own = self._of_split(factors)
        others = [self._renumbered(f) for f in factors if not any(f is one for one in own)]
        lines: list[Progression] = [f for f in own if isinstance(f, Progression)]
        if len(lines) == len(own):
            regular = self._regular(query, lines, values)
            if regular is not None:
                line, query, values = regular
                return self._cut(line, others, query, values, write)
        return self._listed(query, own, others, values, write)

    def _renumbered(self, factor: Any) -> Any:
        """Return a factor of other axes as one of the view."""
        more = len(self._lengths) - 1
        axes = tuple(axis if axis < self._axis else axis - more for axis in factor.axes)
        if isinstance(factor, Progression):
            return replace(factor, axis=axes[0])
        return replace(factor, axes=axes)

    def _regular(
        self, query: Query, lines: Sequence[Progression], values: NDArray[Any]
    ) -> tuple[Progression, Query, NDArray[Any]] | None:
        """Return one progression for several, with the query and values whose dimensions it joins.

        None: there is none, or the values do not lie so.
        """
        start = sum(f.start * self._steps[f.axis - self._axis] for f in lines)
        steps = {f.dim: f.step * self._steps[f.axis - self._axis] for f in lines if f.dim >= 0}
        dims = sorted(d for d in steps if query.shape[d] > 1)
        if not dims:
            # Dimensions of length 1 are as good as new ones.
            return Progression(self._axis, start, 1, 1, -1), query, values
        *outer, last = dims
        shape, strides = list(query.shape), list(values.strides)
        count, place = query.shape[last], last
        for d in reversed(outer):
            between = any(n > 1 for n in query.shape[d + 1 : place])
            if (
                between
                or steps[d] != count * steps[last]
                or strides[d] != count * values.strides[last]
            ):
                return None
            count *= query.shape[d]
            place = d
        if outer:
            for d in dims:
                shape[d] = 1
            shape[last] = count
            rest = values.shape[len(shape) :]
            values = np.lib.stride_tricks.as_strided(values, (*shape, *rest), strides)
        line = Progression(self._axis, start, steps[last], count, last)
        return line, replace(query, shape=tuple(shape)), values

    def _cut(
        self,
        line: Progression,
        others: list[Any],
        query: Query,
        values: NDArray[Any],
        write: bool,
    ) -> _Found:
        """Cut what lies behind the end of the axis off a progression."""
        ends = line.start, line.start + (line.count - 1) * line.step
        n, dim = self.extent, line.dim
        missing: tuple[tuple[NDArray[Any], Any], ...] = ()
        if max(ends) >= n:
            if write:
                self._refuse(max(ends))
            if min(ends) >= n:
                return _Found(None, values, ((values, ...),))
            ahead = (slice(None),) * dim
            if line.step > 0:
                came = -(-(n - line.start) // line.step)
                missing = ((values, (*ahead, slice(came, None))),)
                values = values[(*ahead, slice(None, came))]
                line = replace(line, count=came)
            else:
                late = (line.start - n) // -line.step + 1
                missing = ((values, (*ahead, slice(None, late))),)
                values = values[(*ahead, slice(late, None))]
                line = replace(line, start=line.start + late * line.step, count=line.count - late)
            shape = (*query.shape[:dim], line.count, *query.shape[dim + 1 :])
            query = replace(query, shape=shape)
        return _Found(self._query(query, [line, *others]), values, missing)

    def _listed(
        self,
        query: Query,
        own: Sequence[Any],
        others: list[Any],
        values: NDArray[Any],
        write: bool,
    ) -> _Found:
        """Give a list of indices to the axis that is split, and to axes that its points share."""
        dims = sorted({d for factor in own for d in factor.dims})
        shape = tuple(query.shape[d] for d in dims)
        flat = np.zeros(shape, np.intp)
        shared: dict[int, NDArray[np.intp]] = {}
        last = self._axis + len(self._lengths)
        for factor in own:
            if isinstance(factor, Progression):
                indices = [factor.start + factor.step * np.arange(factor.count)]
                if factor.dim < 0:
                    indices = [indices[0][0]]
            else:
                indices = list(factor.indices)
            for axis, index in zip(factor.axes, indices, strict=True):
                index = _laid_out(np.asarray(index), factor.dims, dims)
                if self._axis <= axis < last:
                    extent = self._lengths[axis - self._axis]
                    flat += _counted(index, extent, axis) * self._steps[axis - self._axis]
                else:
                    to = axis if axis < self._axis else axis - len(self._lengths) + 1
                    shared[to] = np.ascontiguousarray(np.broadcast_to(index, shape))
        missing: tuple[tuple[NDArray[Any], Any], ...] = ()
        n = self.extent
        late = flat >= n
        if late.any():
            if write:
                self._refuse(int(flat.max()))
            if late.all():
                return _Found(None, values, ((values, ...),))
            # A frame that has come stands for each that has not, whose place is filled afterwards.
            flat[late] = n - 1
            whole = [query.shape[d] if d in dims else 1 for d in range(len(query.shape))]
            inner = values.ndim - len(whole)
            where = np.broadcast_to(late.reshape(*whole, *(1,) * inner), values.shape)
            missing = ((values, where),)
        axes = sorted({self._axis, *shared})
        points = Points(
            tuple(axes),
            tuple(flat if axis == self._axis else shared[axis] for axis in axes),
            tuple(dims),
        )
        return _Found(self._query(query, [points, *others]), values, missing)

    def _query(self, query: Query, factors: list[Any]) -> Query:
        return replace(query, extents=self._view.shape, factors=in_order(factors), origin=None)

    def _refuse(self, index: int) -> None:
        """Raise if an index of the axis that is split lies behind its end."""
        if index >= self.extent:
            names = self._view.dims
            axis = self._axis if names is None else names[self._axis]
            raise BoundsError(
                f"cannot write to element {index} of axis {axis!r}, which has {self.extent}: the "
                "split shows it before it has come; append it to the array, or extend the axis, "
                "and make a new view"
            )


def _within(part: tuple[slice, ...], inner: tuple[slice, ...], shape: Any) -> tuple[slice, ...]:
    """Return the place of a part of a part."""
    found = []
    for d in range(max(len(part), len(inner))):
        outer = part[d] if d < len(part) else slice(None)
        own = inner[d] if d < len(inner) else slice(None)
        if own == slice(None):
            found.append(outer)
        else:
            start = 0 if outer == slice(None) else outer.start
            found.append(slice(start + own.start, start + own.stop))
    return tuple(found)


def _laid_out(index: NDArray[np.intp], own: Sequence[int], dims: Sequence[int]) -> NDArray[np.intp]:
    """Return an index whose dimensions are `own` with those of `dims`, for broadcasting."""
    turned = index.transpose(np.argsort(own)) if index.ndim else index
    extents = dict(zip(sorted(own), turned.shape, strict=True)) if index.ndim else {}
    return turned.reshape([extents.get(d, 1) for d in dims])


def _counted(index: NDArray[np.intp], extent: int, axis: int) -> NDArray[np.intp]:
    """Return indices counted from 0; raise for one out of bounds."""
    found = np.where(index < 0, index + extent, index)
    wrong = (found < 0) | (found >= extent)
    if wrong.any():
        raise BoundsError(
            f"index {index[wrong][0]} is out of bounds for axis {axis} with size {extent}"
        )
    return found
