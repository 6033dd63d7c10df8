"""A table as a cube: totals by several keys, on axes that grow with the keys (MOLAP)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

import extarray as xa
from extarray.common.extras import require

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Cube", "Totals"]

Array = NDArray[Any]
_Part = slice  # which `Cube.slice` hides


class Totals(NamedTuple):
    """Totals by the labels of some axes.

    Attributes
    ----------
    labels : dict of {str: ndarray}
        Of each axis, in the order of the axes of `values`.
    values : ndarray
    """

    labels: dict[str, Array]
    values: Array

    def to_pandas(self) -> Any:
        """Return the totals as pandas has them.

        Returns
        -------
        DataFrame or Series
            Of two axes a table of rows and columns; else a Series with an index of the labels.

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
    that a table brings for the first time makes its axis longer; nothing moves, and what was added
    before stays where it is.

    Made by `Cube.create` and `Cube.open`.

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
        self.cells = self._array("cells")
        self._places: dict[str, dict[Any, int]] = {
            name: {label: place for place, label in enumerate(self.labels(name).tolist())}
            for name in self.axes
        }

    def _array(self, name: str) -> xa.ExtArray:
        array = self.group[name]
        assert isinstance(array, xa.ExtArray)
        return array

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        axes: Mapping[str, DTypeLike],
        dtype: DTypeLike = float,
        chunks: Any = 32,
    ) -> Self:
        """Create an empty cube.

        Parameters
        ----------
        path : path_like
            Of a new folder.
        axes : dict of {str: dtype_like}
            Names of the axes, and the types of their labels, such as ``"U16"`` and ``"M8[D]"``.
        dtype : dtype_like
            Of the sums.
        chunks : int or sequence of int
            Of the cells.

        Returns
        -------
        Cube
        """
        group = xa.open_group(path, "w-")
        names = list(axes)
        group.create("cells", (0,) * len(names), dtype, chunks=chunks, dims=names)
        for name, kind in axes.items():
            group.create(name, 0, kind, chunks=1024, dims=[name])
        return cls(group)

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
        return cls(xa.open_group(path, mode))

    def close(self) -> None:
        """Close the arrays of the cube."""
        self.group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

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
        """Return the labels of an axis, in the order in which they came.

        Parameters
        ----------
        axis : str

        Returns
        -------
        ndarray
        """
        return self._array(axis).read()

    def add(self, table: Mapping[str, Any], quantity: str) -> None:
        """Add the rows of a table, of which several may meet in a cell.

        Parameters
        ----------
        table : mapping of columns
            Such as a DataFrame: a column for each axis, and one with what is summed.
        quantity : str
            Name of the latter.

        Notes
        -----
        Axes grow by the new labels of the table, in their own order, all by one commit.  The sums
        come after: a reader meets the labels before what belongs to them.
        """
        values = np.asarray(table[quantity])
        if not len(values):
            return
        columns = {
            name: np.asarray(table[name]).astype(self._array(name).dtype) for name in self.axes
        }
        self._grow(columns)
        codes = [self._codes(name, column) for name, column in columns.items()]
        cells, rows = np.unique(np.ravel_multi_index(codes, self.shape), return_inverse=True)
        sums = np.zeros(len(cells), self.cells.dtype)
        np.add.at(sums, rows, values)
        places = np.unravel_index(cells, self.shape)
        self.cells[places] = self.cells[places] + sums

    def _grow(self, columns: Mapping[str, Array]) -> None:
        """Make the axes longer by the labels that are new."""
        new = {
            name: [label for label in np.unique(column).tolist() if label not in self._places[name]]
            for name, column in columns.items()
        }
        if not any(new.values()):
            return
        with xa.commit([self.cells, *map(self._array, new)]):
            for axis, (name, labels) in enumerate(new.items()):
                if labels:
                    self.cells.extend(axis, len(labels))
                    self._array(name).append(np.array(labels, columns[name].dtype))
        for name, labels in new.items():
            places = self._places[name]
            places |= {label: at for at, label in enumerate(labels, len(places))}

    def _codes(self, axis: str, column: Array) -> Array:
        """Return the place of each label of a column."""
        labels, rows = np.unique(column, return_inverse=True)
        places = self._places[axis]
        found: Array = np.array([places[label] for label in labels.tolist()], np.intp)[rows]
        return found

    def roll_up(
        self,
        *axes: str,
        where: Mapping[str, Any] | None = None,
        **groups: Callable[[Array], Array],
    ) -> Totals:
        """Sum over axes, and over groups of labels.

        Parameters
        ----------
        *axes : str
            Axes that stay as they are.
        where : dict of {str: label, list of labels or callable}, optional
            What is summed of an axis; a callable takes its labels, and returns which are meant.
        **groups : callable
            By axes that stay with coarser labels: it takes the labels, and returns those of their
            groups, such as ``day=lambda days: days.astype("M8[M]")``.  All other axes are summed.

        Returns
        -------
        Totals
            With the axes in the order in which they were named.  Labels of groups are sorted.

        Raises
        ------
        KeyError
            No such axis or label.

        Notes
        -----
        The cells are read chunk by chunk.
        """
        chosen = {name: self._chosen(name, (where or {}).get(name)) for name in self.axes}
        unknown = {*axes, *groups, *(where or {})} - {*self.axes}
        if unknown:
            raise KeyError(f"no axis {sorted(unknown)}; there are {self.axes}")
        labels: dict[str, Array] = {}
        codes: dict[str, Array] = {}
        for name in (*axes, *groups):
            own = self.labels(name)[chosen[name]]
            labels[name], codes[name] = own, np.arange(len(own))
            if name in groups:
                labels[name], codes[name] = np.unique(groups[name](own), return_inverse=True)
        kept = [name for name in self.axes if name in labels]
        totals = np.zeros([len(labels[name]) for name in kept], self.cells.dtype)
        summed = tuple(j for j, name in enumerate(self.axes) if name not in labels)
        for block, inside in self._blocks(chosen):
            places = [codes[name][inside[name]] for name in kept]
            np.add.at(totals, np.ix_(*places), block.sum(summed))
        return Totals(labels, totals.transpose([kept.index(name) for name in labels]))

    def slice(self, **where: Any) -> Totals:
        """Return the cells at some labels, as `where` of `roll_up` has them.

        Parameters
        ----------
        **where
            By axis.  One label takes the axis away; a list of labels or a callable keeps it.

        Returns
        -------
        Totals
        """
        single = {name for name, some in where.items() if _is_label(some)}
        return self.roll_up(*(name for name in self.axes if name not in single), where=where)

    def _chosen(self, axis: str, some: Any) -> Array:
        """Return the places of labels on an axis, in increasing order."""
        if some is None:
            return np.arange(len(self._places[axis]))
        if callable(some):
            return np.flatnonzero(some(self.labels(axis)))
        wanted = np.atleast_1d(np.asarray(some, self._array(axis).dtype)).tolist()
        missing = [label for label in wanted if label not in self._places[axis]]
        if missing:
            raise KeyError(f"axis '{axis}' has no label {missing[0]!r}")
        return np.array(sorted({self._places[axis][label] for label in wanted}), np.intp)

    def _blocks(self, chosen: Mapping[str, Array]) -> Iterator[tuple[Array, dict[str, _Part]]]:
        """Yield chosen cells, chunk by chunk, and which of the chosen places they have."""
        for part in self.cells.iter_chunks():
            inside = {
                name: _Part(*np.searchsorted(chosen[name], (some.start, some.stop)).tolist())
                for name, some in zip(self.axes, part, strict=True)
            }
            if all(some.start < some.stop for some in inside.values()):
                places = [
                    chosen[name][inside[name]] - some.start
                    for name, some in zip(self.axes, part, strict=True)
                ]
                yield self.cells[part][np.ix_(*places)], inside


def _is_label(some: Any) -> bool:
    return not callable(some) and np.ndim(some) == 0
