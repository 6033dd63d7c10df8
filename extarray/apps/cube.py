"""A table as a cube: totals by several keys, on axes that grow with the keys (MOLAP)."""

from __future__ import annotations

import errno
import itertools
import math
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

import extarray as xa
from extarray.apps.cube_columns import (
    Column,
    Fresh,
    Labels,
    check_cell_type,
    check_label_type,
    combined,
    group_labels,
    is_single,
    numbers,
    totals_of,
    wide_enough,
)
from extarray.common.extras import require

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Cube", "Totals"]

Array = NDArray[Any]
Agg = Literal["sum", "mean", "count", "min", "max"]

# Arrays beside the sums, and how each is reduced; min and max mean nothing if the count is 0.
_KEPT = {"count": np.add, "min": np.minimum, "max": np.maximum}
_NEEDS = {
    "sum": (),
    "count": ("count",),
    "mean": ("count",),
    "min": ("count", "min"),
    "max": ("count", "max"),
}
_SUMS = {kind: np.dtype(f"{kind}{16 if kind == 'c' else 8}") for kind in "iufc"}
_PARTIAL = 2**26  # bytes of totals by labels that are grouped in memory at a time
_LOOKS = 100


class Totals(NamedTuple):
    """Totals by the labels of some axes.

    Attributes
    ----------
    labels : dict of {str: ndarray}
        For each axis of `values`, in order.
    values : ndarray
    """

    labels: dict[str, Array]
    values: Array

    def to_pandas(self) -> Any:
        """Return the totals as a pandas object.

        Returns
        -------
        DataFrame or Series
            A DataFrame of rows and columns for two axes, else a Series indexed by the labels.

        Examples
        --------
        >>> import numpy as np
        >>> totals = Totals({"store": np.array(["Lyon"])}, np.array([7]))
        >>> totals.to_pandas()["Lyon"].item()
        7
        """
        pandas = require("pandas", "apps", "a table of totals")
        index = [pandas.Index(labels, name=name) for name, labels in self.labels.items()]
        if len(index) == 2:
            return pandas.DataFrame(self.values, *index)
        if len(index) > 2:
            index = [pandas.MultiIndex.from_product(index)]
        return pandas.Series(self.values.reshape(-1), *index)


class Cube:
    """Sums of a quantity by several keys, such as items, stores and days.

    A cube is a group in files: the array ``cells``, and an array of labels for each axis.  A label
    that a table brings for the first time makes its axis longer; nothing moves, and earlier sums
    stay where they are.  If `create` was told to keep them, arrays ``count``, ``min`` and ``max``
    of the rows in each cell stand beside ``cells``.

    Made by `Cube.create` and `Cube.open`.  Threads that use the same cube take turns.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "sales")
    >>> cube = Cube.create(path, {"item": "U8", "store": "U8", "day": "M8[D]"}, "i8")
    >>> cube.add(
    ...     {"item": ["tea", "tea"], "store": ["Lyon", "Bonn"],
    ...      "day": ["2024-01-31", "2024-02-01"], "sold": [3, 4]}, "sold")
    >>> cube.shape
    (1, 2, 2)
    >>> cube.roll_up(day=lambda days: days.astype("M8[M]")).values
    array([3, 4])
    >>> cube.slice(store="Bonn").values
    array([[0, 4]])
    >>> cube.close()
    """

    def __init__(self, group: xa.Group) -> None:
        self.group = group
        self._lock = threading.RLock()
        self._labels: dict[str, Labels] = {}
        self._arrays: dict[str, xa.ExtArray] = {}
        axes = self._array("cells").dims
        if axes is None or not all(name in group for name in axes):
            raise xa.ArgumentError(
                f"'{group.path}' is a group, but not a cube: its axes have no labels"
            )
        for name in (*axes, *_KEPT):
            if name in group:
                self._array(name)
        self._kept = [name for name in _KEPT if name in group and name not in axes]

    def _array(self, name: str) -> xa.ExtArray:
        """Return an array of the cube, and keep it open."""
        array = self._arrays.get(name)
        if array is None:
            found = self.group[name]
            if not isinstance(found, xa.ExtArray):
                raise xa.ArgumentError(
                    f"'{self.group.path}' is not a cube: it has no array {name!r}"
                )
            array = self._arrays[name] = found
        return array

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        axes: Mapping[str, DTypeLike],
        dtype: DTypeLike = float,
        chunks: Any = None,
        aggs: Collection[Agg] = (),
    ) -> Self:
        """Create an empty cube.

        Parameters
        ----------
        path : path_like
            A new folder.
        axes : dict of {str: dtype_like}
            Names of the axes, and the types of their labels, such as ``"U16"`` and ``"M8[D]"``.
        dtype : dtype_like
            Type of the sums.  It becomes wider when a sum needs it; see `add`.
        chunks : int or sequence of int, optional
            Chunk shape of the cells; None: as `extarray.create` chooses, with equal extents.
        aggs : collection of {"sum", "mean", "count", "min", "max"}
            Aggregates of rows that `roll_up` can return.  Sums are always kept; the others do not
            follow from sums, and need one or two more arrays as large as the cells.

        Returns
        -------
        Cube

        Raises
        ------
        DTypeError, ArgumentError, ChunksError
            Labels or sums cannot have the type, or axes cannot have the name.
        ExistsError
            A FileExistsError: `path` exists.
        """
        names = list(axes)
        taken = {"cells", "where", "agg", *_KEPT} & {*names}
        if not names:
            raise xa.ArgumentError("a cube needs at least one axis")
        if taken:
            raise xa.ArgumentError(f"an axis cannot have the name {' or '.join(sorted(taken))}")
        unknown = {aggs} if isinstance(aggs, str) else {*aggs} - {*_NEEDS}
        if unknown:
            raise xa.ArgumentError(
                f"aggs has unknown names {sorted(unknown)}; use a list of some of {[*_NEEDS]}"
            )
        kinds = {name: check_label_type(kind, name) for name, kind in axes.items()}
        kind = check_cell_type(dtype)
        if kind.kind == "c" and {*aggs} & {"min", "max"}:
            raise xa.DTypeError("complex numbers have no min and max; keep their mean and count")
        kept = {"cells": kind}
        for name in dict.fromkeys(itertools.chain(*(_NEEDS[agg] for agg in aggs))):
            kept[name] = np.dtype(np.int64) if name == "count" else kind
        group = xa.open_group(path, "w-")
        try:
            for name, kind in kept.items():
                shape = (0,) * len(names)
                attrs = {"bits": 0} if name == "cells" else {}
                group.create(name, shape, kind, chunks=chunks, dims=names, attrs=attrs)
            for name, kind in kinds.items():
                group.create(name, 0, kind, chunks=1024, dims=[name])
            return cls(group)
        except BaseException:
            group.close()
            shutil.rmtree(group.path)
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: str = "r") -> Self:
        """Open a cube.

        Parameters
        ----------
        path : path_like
        mode : {"r", "r+"}

        Returns
        -------
        Cube
        """
        group = xa.open_group(path, mode)
        try:
            return cls(group)
        except BaseException:
            group.close()
            raise

    def close(self) -> None:
        """Close the arrays of the cube."""
        self.group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def cells(self) -> xa.ExtArray:
        """The array of sums."""
        return self._array("cells")

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes."""
        names = self.cells.dims
        assert names is not None
        return names

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels of each axis."""
        return self.cells.shape

    def labels(self, axis: str) -> Array:
        """Return the labels of an axis, in order of arrival.

        Parameters
        ----------
        axis : str

        Returns
        -------
        ndarray
            The label of rows without a label is NaN or NaT, or None among objects.
        """
        self._check_axes([axis])
        known = self._known(axis)
        return known.shown(np.arange(len(known.values)))

    def _check_axes(self, names: Collection[str]) -> None:
        unknown = {*names} - {*self.axes}
        if unknown:
            raise xa.VariableError(f"no axis {sorted(unknown)}; there are {self.axes}")

    def _known(self, axis: str) -> Labels:
        """Return the labels that the axis' array has now."""
        with self._lock:
            array, known = self._array(axis), self._labels.get(axis)
            if known is None or known.values.dtype != array.dtype:
                known = self._labels[axis] = Labels(np.empty(0, array.dtype), None)
            have = len(known.values)
            if have < array.shape[0]:
                known.extend(array[have:], array.attrs.get("missing"))
            return known

    def refresh(self) -> bool:
        """Follow a writer's additions since the cube was opened or refreshed.

        Returns
        -------
        bool
            Whether there was news.  New sums in existing cells are visible without it.

        Raises
        ------
        ReplacedError, MissingError
            FileNotFoundErrors: the cube was removed or moved.
        ClosedError, StorageError

        Notes
        -----
        Each `add` becomes visible as a whole, labels and cells.  This holds also if the writer has
        widened cells or labels, which replaces their files.
        """
        with self._lock:
            arrays = list(self._arrays.values())
            if self.group.mode != "r":
                return False
            is_new = False
            for _ in range(_LOOKS):
                for array in arrays:
                    if array.replaced:
                        is_new |= array.refresh(on_replaced="reopen")
                        self._labels.clear()
                try:
                    is_new |= xa.refresh(arrays)
                except xa.ReplacedError:  # replaced since the check above
                    continue
                if self._is_even():
                    return is_new
            raise xa.StorageError(errno.EAGAIN, "the cube keeps changing while it is refreshed")

    def _is_even(self) -> bool:
        """Tell whether all arrays have the same labels."""
        shape = tuple(self._array(name).shape[0] for name in self.axes)
        return all(self._array(name).shape == shape for name in ("cells", *self._kept))

    # -- rows ------------------------------------------------------------------------------------

    def add(self, table: Mapping[str, Any], quantity: str, dropna: bool = True) -> None:
        """Add the rows of a table; several rows may fall into one cell.

        Parameters
        ----------
        table : mapping of columns
            Such as a DataFrame: a column for each axis, and one of quantities to sum.
        quantity : str
            Name of the column of quantities.
        dropna : bool
            Leave out rows without a label: None, NaN, NaT, pandas' NA, or masked.  If False, they
            are summed under a label of their own.

        Raises
        ------
        DTypeError, ArgumentTypeError
            TypeErrors: labels of another kind than the axis has, or finer dates; no numbers.
        LimitError
            An OverflowError: no type holds a sum.
        ShapeError
            Columns of different lengths.
        ReadOnlyError, StorageError

        Notes
        -----
        Axes grow by the new labels of the table, sorted, all in one commit.  After an error the
        whole cube is as before, except that cells and labels may have become wider.  A process
        killed meanwhile leaves no new label, but may leave some of the new sums in existing cells.

        Missing quantities add nothing, but their rows' labels come to the axes, as in pandas'
        ``groupby``.

        No value is stored as another value.  Text longer than the axis' type makes its labels
        wider.  A sum that the cells cannot hold makes them wider: integers get more bits, and
        become float64 for fractions; whole numbers stay exact, or are refused.  Wider cells are
        written to new files with the same chunks, which then replace the old ones; a reader's
        `refresh` opens them.
        """
        with self._lock:
            if self.group.mode != "r+":
                raise xa.ReadOnlyError("the cube is open for reading; open it with mode='r+'")
            load = self._load(table, quantity, dropna)
            if load is not None:
                self._store(load)

    def _load(self, table: Mapping[str, Any], quantity: str, dropna: bool) -> _Load | None:
        """Work out the changes that a table's rows make; None: no change."""
        columns = {name: Column.of(table[name], name) for name in self.axes}
        amounts = Column.of(table[quantity], quantity)
        lengths = {name: len(column.values) for name, column in columns.items()}
        lengths[quantity] = len(amounts.values)
        if len({*lengths.values()}) > 1:
            raise xa.ShapeError(f"the columns differ in length: {lengths}")
        if dropna:
            rows = ~np.logical_or.reduce([column.missing for column in columns.values()])
            columns = {name: column.at(rows) for name, column in columns.items()}
            amounts = amounts.at(rows)
        if not len(amounts.values):
            return None
        fresh = {name: Fresh.of(self._known(name), columns[name], name) for name in self.axes}
        shape = tuple(
            n + len(some.labels) for n, some in zip(self.shape, fresh.values(), strict=True)
        )
        if math.prod(shape) >= 2**63:
            raise xa.LimitError(f"a cube of shape {shape} has 2**63 cells or more")
        flat = np.ravel_multi_index([some.places for some in fresh.values()], shape)
        cells, codes = np.unique(flat[~amounts.missing], return_inverse=True)
        places = np.unravel_index(cells, shape)
        inside = np.logical_and.reduce([at < n for at, n in zip(places, self.shape, strict=True)])
        old = {name: self._read(name, places, inside) for name in ("cells", *self._kept)}
        values = numbers(amounts, self.cells.dtype, quantity)
        if values.dtype.kind == "c" and {"min", "max"} & old.keys():
            raise xa.DTypeError(f"column {quantity!r} is complex, and has no min and max")
        new = {}
        for name, op in {"cells": np.add, **{name: _KEPT[name] for name in self._kept}}.items():
            is_count = name == "count"
            some = totals_of(
                op, np.ones(len(values), "i8") if is_count else values, codes, len(cells)
            )
            new[name] = combined(op, old[name], some)
            if name in ("min", "max"):
                new[name] = np.where(old["count"] == 0, some, new[name])
            kind = wide_enough(
                old[name].dtype, new[name], values.dtype.kind in "iO", partial(self._ends, name)
            )
            new[name] = new[name].astype(kind)
        return _Load(fresh, places, inside, old, new)

    def _read(self, name: str, places: tuple[Array, ...], inside: Array) -> Array:
        """Return existing cells, and 0 for new ones."""
        array = self._array(name)
        found = np.zeros(len(inside), array.dtype)
        if inside.any():
            found[inside] = array[tuple(at[inside] for at in places)]
        return found

    def _ends(self, name: str) -> Array:
        """Return the least and the greatest of all cells."""
        return _ends_of(self._array(name))

    def _store(self, load: _Load) -> None:
        """Store the changes of a table's rows, all or none."""
        for name, values in (*load.new.items(), *((n, f.labels) for n, f in load.fresh.items())):
            self._widen(name, values.dtype)
        bits = self._bits()
        if bits is not None and load.new["cells"].dtype.kind in "iu":
            bits = max([bits, *(int(x).bit_length() for x in _ends_of(load.new["cells"]))])
        before = self._moment()
        try:
            with xa.commit(self._arrays.values()):
                for axis, (name, fresh) in enumerate(load.fresh.items()):
                    if len(fresh.labels):
                        for other in load.new:
                            self._array(other).extend(axis, len(fresh.labels))
                        self._array(name).append(fresh.labels)
                        if fresh.missing is not None:
                            self._array(name).attrs["missing"] = fresh.missing
                if bits != self._bits():
                    self.cells.attrs["bits"] = bits
                for name, values in load.new.items():
                    self._array(name)[load.places] = values
        except BaseException:
            if self._moment() == before:  # the commit did not take effect
                at = tuple(place[load.inside] for place in load.places)
                for name, values in load.old.items():
                    self._array(name)[at] = values[load.inside]
            raise

    def _moment(self) -> tuple[Any, ...]:
        """Return values that change with each commit of rows."""
        return self.shape, self._bits()

    def _bits(self) -> int | None:
        """Return an upper bound on the bits of the sums, without sign; None: unknown."""
        bits: int | None = self.cells.attrs.get("bits")
        return bits

    def _widen(self, name: str, kind: np.dtype[Any]) -> None:
        """Rewrite an array with another type, in place of the old one."""
        array = self._array(name)
        if array.dtype != kind:
            del self._arrays[name]
            array.rechunk(dtype=kind, in_place=True, progress=False).close()
            self._array(name)

    # -- totals ----------------------------------------------------------------------------------

    def roll_up(
        self,
        *axes: str,
        where: Mapping[str, Any] | None = None,
        agg: Agg = "sum",
        **groups: Callable[[Array], Any],
    ) -> Totals:
        """Sum over axes, and over groups of labels.

        Parameters
        ----------
        *axes : str
            Axes to keep as they are.
        where : dict of {str: label, list of labels, slice or callable}, optional
            Which labels of an axis to sum.  Slices include both ends, as in pandas' ``loc``, and a
            date that is a month or a year counts as a whole: ``slice("2024-01", "2024-02")`` is
            both months.  A callable takes the labels, and returns a bool for each.  None and NaN
            are the label of rows without a label.
        agg : {"sum", "mean", "count", "min", "max"}
            Aggregate of the rows, not of the cells.  All but "sum" only if `create` was told to
            keep them.
        **groups : callable
            For axes to keep with coarser labels: takes the labels, and returns those of their
            groups, such as ``day=lambda days: days.astype("M8[M]")``.  All other axes are summed.

        Returns
        -------
        Totals
            Axes are in the order in which they were named, labels of groups are sorted.  The label
            of rows without a label is NaN or NaT, or None among objects, and is its own group.
            Sums have 64 bits, or are complex.  Without rows, "sum" and "count" are 0; "mean", "min"
            and "max" are NaN, or None among integers beyond 2**53.

        Raises
        ------
        VariableError
            A KeyError: no such axis or label.
        ArgumentError
            The cube does not keep the arrays that `agg` needs.
        LimitError
            An OverflowError: a sum of integers beyond 64 bits.

        Notes
        -----
        Reads only the chunks that `where` needs, in bounded memory.
        """
        with self._lock:
            return self._roll_up(axes, where or {}, agg, groups)

    def slice(self, *, agg: Agg = "sum", **where: Any) -> Totals:
        """Return the cells at some labels, given as for `where` of `roll_up`.

        Parameters
        ----------
        agg : {"sum", "mean", "count", "min", "max"}
            As for `roll_up`.
        **where
            Labels of each axis.  A single label drops its axis; any other selection keeps it.

        Returns
        -------
        Totals
        """
        single = {name for name, some in where.items() if is_single(some)}
        kept = [name for name in self.axes if name not in single]
        return self.roll_up(*kept, where=where, agg=agg)

    def _roll_up(
        self,
        axes: Sequence[str],
        where: Mapping[str, Any],
        agg: str,
        groups: Mapping[str, Callable[[Array], Any]],
    ) -> Totals:
        self._check_axes({*axes, *groups, *where})
        if {*axes} & {*groups}:
            raise xa.ArgumentError(
                f"{sorted({*axes} & {*groups})}: an axis can be either kept or grouped"
            )
        if agg not in _NEEDS:
            raise xa.ArgumentError(f"agg must be one of {[*_NEEDS]}, not {agg!r}")
        if not {*_NEEDS[agg]} <= {*self._kept}:
            raise xa.ArgumentError(
                f"the cube does not store what {agg!r} of rows needs, and it cannot be derived "
                f"from cell sums; create the cube with aggs=[{agg!r}]"
            )
        if not self._is_even():
            raise xa.ArgumentError(
                "arrays of the cube were refreshed separately; use refresh() of the cube"
            )
        labels: dict[str, Array] = {}
        codes: dict[int, Array] = {}
        chosen = []
        for name in self.axes:
            known = self._known(name)
            everything = np.arange(len(known.values))
            chosen.append(known.find(where[name], name) if name in where else everything)
        for name in (*axes, *groups):
            axis, known = self.axes.index(name), self._known(name)
            places = chosen[axis]
            labels[name] = known.shown(places)
            if name in groups:
                own = Column(known.values[places], places == known.places.get(None, -1))
                labels[name], codes[axis] = group_labels(groups[name], own, name)
        kept = [axis for axis, name in enumerate(self.axes) if name in labels]
        plan = _Plan(chosen, codes, {axis: len(labels[self.axes[axis]]) for axis in kept})
        asked = [kept.index(self.axes.index(name)) for name in labels]
        return Totals(labels, self._values(agg, plan).transpose(asked))

    def _values(self, agg: str, plan: _Plan) -> Array:
        if agg == "sum":
            return self._sums(plan)
        counts = plan.total(self._array("count"), np.add, np.dtype(np.int64))
        if agg == "count":
            return counts
        if agg == "mean":
            with np.errstate(divide="ignore", invalid="ignore"):
                means: Array = np.asarray(np.true_divide(self._sums(plan), counts))
            return means
        array, op = self._array(agg), _KEPT[agg]
        kind = array.dtype.newbyteorder("=")
        return _with_gaps(plan.total(array, op, kind, self._array("count")), counts == 0)

    def _sums(self, plan: _Plan) -> Array:
        kind = self.cells.dtype
        totals = plan.total(self.cells, np.add, _SUMS[kind.kind])
        if kind.kind not in "iu":
            return totals
        bits = 8 * kind.itemsize
        if (known := self._bits()) is not None:
            bits = min(bits, known)
        if plan.cells << bits >= 2**63:
            # A wrapped sum is off by 2**64, far more than a sum of floats can be.
            floats = plan.total(self.cells, np.add, np.dtype(float))
            if (np.abs(floats - totals.astype(float)) > 2.0**62).any():
                raise xa.LimitError(
                    f"a sum of about {np.abs(floats).max():.4g} exceeds 64 bits; sum over fewer "
                    "labels"
                )
        return totals


class _Load(NamedTuple):
    """Rows of a table: new labels, the places of changed cells, and their old and new values.

    `inside` tells for each cell whether it exists yet.
    """

    fresh: dict[str, Fresh]
    places: tuple[Array, ...]
    inside: Array
    old: dict[str, Array]
    new: dict[str, Array]


class _Plan:
    """A roll-up: chosen places on each axis, the axes to keep, and their groups.

    `codes` has the groups of chosen places for grouped axes; `sizes` has the number of labels of
    each axis to keep.
    """

    def __init__(self, chosen: list[Array], codes: dict[int, Array], sizes: dict[int, int]) -> None:
        self.chosen, self.codes, self.sizes = chosen, codes, sizes
        self.cells = math.prod(map(len, chosen))

    def total(
        self, array: xa.ExtArray, op: Any, kind: np.dtype[Any], counts: xa.ExtArray | None = None
    ) -> Array:
        """Reduce an array; if `counts` is given, only its nonzero cells count."""
        first = 0 if counts is None else _last_resort(op, kind)
        totals = np.full([*self.sizes.values()], first, kind)
        summed = tuple(axis for axis in range(array.ndim) if axis not in self.sizes)
        for box in self._boxes(array.chunks, kind.itemsize):
            places = [some[part] for some, part in zip(self.chosen, box, strict=True)]
            options: dict[str, Any] = {}
            if counts is not None:
                options = {"initial": first, "where": _some_of(counts, places).astype(bool)}
            part = op.reduce(_some_of(array, places), axis=summed, dtype=kind, **options)
            groups = []
            for i, axis in enumerate(self.sizes):
                codes = self.codes.get(axis)
                if codes is None:
                    groups.append(np.arange(self.sizes[axis]))
                    continue
                order = np.argsort(codes[box[axis]], kind="stable")
                found, starts = np.unique(codes[box[axis]][order], return_index=True)
                part = op.reduceat(np.take(part, order, axis=i), starts, axis=i)
                groups.append(found)
            if not self.codes:
                return np.asarray(part)
            totals[np.ix_(*groups)] = op(totals[np.ix_(*groups)], part)
        return totals

    def _boxes(self, chunks: tuple[int, ...], itemsize: int) -> Iterator[tuple[slice, ...]]:
        """Cut the chosen places along grouped axes, if they are too many at a time."""
        steps = [len(places) for places in self.chosen]
        if not all(steps):
            return
        for axis in self.codes:
            nbytes = itemsize * math.prod(steps[kept] for kept in self.sizes)
            if nbytes > _PARTIAL:
                n = steps[axis] * _PARTIAL // nbytes // chunks[axis]
                steps[axis] = min(steps[axis], max(1, n) * chunks[axis])
        yield from itertools.product(
            *(
                [slice(start, start + step) for start in range(0, len(places), step)]
                for places, step in zip(self.chosen, steps, strict=True)
            )
        )


def _some_of(array: xa.ExtArray, places: list[Array]) -> Any:
    """Return a lazy view of an array at increasing places of each axis."""
    if array.shape == tuple(map(len, places)):
        return array
    has_gaps = [some[-1] - some[0] + 1 != len(some) for some in places]
    return array.lazy.oindex[
        tuple(
            some if gaps else slice(int(some[0]), int(some[-1]) + 1)
            for some, gaps in zip(places, has_gaps, strict=True)
        )
    ]


def _last_resort(op: Any, kind: np.dtype[Any]) -> Any:
    """Return the neutral value of a minimum or a maximum."""
    if kind.kind == "f":
        return np.inf if op is np.minimum else -np.inf
    return np.iinfo(kind).max if op is np.minimum else np.iinfo(kind).min


def _ends_of(values: Any) -> Array:
    """Return the least and the greatest of values, if there are any."""
    return np.array([values.min(), values.max()] if values.size else [], values.dtype)


def _with_gaps(values: Array, empty: Array) -> Array:
    """Return values with NaN for empty cells; integers beyond 2**53 become objects with None."""
    if not empty.any():
        return values
    filled = np.where(empty, 0, values)
    gap: Any = np.nan
    if values.dtype.kind == "f":
        gap = values.dtype.type(gap)
    elif (np.abs(filled.astype(float)) > 2.0**53).any():
        gap, filled = None, filled.astype(object)
    found: Array = np.where(empty, gap, filled)
    return found
