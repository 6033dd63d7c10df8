"""Columns of a table: labels and quantities, and types of cells and axes that keep their values.

Everything here is NumPy in memory; `cube` has the arrays.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import warnings
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

import extarray as xa

__all__ = [
    "Column",
    "Fresh",
    "Labels",
    "check_cell_type",
    "check_label_type",
    "combined",
    "group_labels",
    "is_single",
    "numbers",
    "totals_of",
    "wide_enough",
]

Array = NDArray[Any]

_INTEGERS = [np.dtype(f"{kind}{size}") for size in (1, 2, 4, 8) for kind in "iu"]
_FLOAT, _COMPLEX = np.dtype("f8"), np.dtype("c16")
_WHOLE = (int, np.integer, np.bool_)
_REAL = (*_WHOLE, float, np.floating)
_EXACT = 2**53  # float64 holds all smaller whole numbers


class Column(NamedTuple):
    """Entries of a column, and which are missing: None, NaN, NaT, pandas' NA, or masked."""

    values: Array
    missing: Array

    @classmethod
    def of(cls, entries: Any, name: str) -> Column:
        """Take an array, a Series, or a list as objects: NumPy turns NaN beside text into text."""
        if hasattr(entries, "dtype") or hasattr(entries, "__array__"):
            values = np.asarray(entries)
            if values.dtype.kind == "T":
                values = values.astype(object)
        else:
            values = _objects(entries)
        if values.ndim != 1:
            raise xa.ShapeError(
                f"column {name!r} has shape {values.shape}; give one entry for each row"
            )
        if values.dtype.kind in "fc":
            missing = np.isnan(values)
        elif values.dtype.kind in "Mm":
            missing = np.isnat(values)
        elif values.dtype.kind == "O":
            missing = np.array([_is_missing(entry) for entry in values.tolist()], bool)
        else:
            missing = np.zeros(len(values), bool)
        if isinstance(entries, np.ma.MaskedArray):
            missing = missing | np.ma.getmaskarray(entries)
        return cls(values, missing)

    def at(self, rows: Array) -> Column:
        """Return some of the rows."""
        return Column(self.values[rows], self.missing[rows])

    def present(self) -> Array:
        """Return the entries that are not missing."""
        return self.values[~self.missing]


def _objects(entries: Any) -> Array:
    entries = list(entries)
    values = np.empty(len(entries), object)
    for i, entry in enumerate(entries):  # one by one: entries may be sequences
        values[i] = entry
    return values


def _is_missing(entry: Any) -> bool:
    # If a program has pandas' NA, it has imported pandas.
    if entry is None or entry is getattr(sys.modules.get("pandas"), "NA", None):
        return True
    unequal = entry != entry  # NaN and NaT
    return isinstance(unequal, (bool, np.bool_)) and bool(unequal)


def _by_label(column: Column, name: str) -> tuple[Array, Array]:
    """Return the distinct labels of a column, and each row's index into them; missing: -1."""
    codes = np.full(len(column.values), -1, np.intp)
    present = column.present()
    if present.dtype.kind != "O":
        labels, codes[~column.missing] = np.unique(present, return_inverse=True)
        return labels, codes
    found: dict[Any, int] = {}
    try:
        codes[~column.missing] = [found.setdefault(x, len(found)) for x in present.tolist()]
    except TypeError as error:
        raise xa.DTypeError(
            f"column {name!r} has an entry that cannot be a label: {error}"
        ) from None
    return _objects(found), codes


def group_labels(groups: Any, own: Column, name: str) -> tuple[Array, Array]:
    """Return the sorted labels of groups, a missing one last, and the group of each label.

    `groups` is a user's function of the labels that are not missing.
    """
    present = own.present()
    column = Column.of(groups(present), name)
    if len(column.values) != len(present):
        raise xa.ShapeError(
            f"the function for axis {name!r} returned {len(column.values)} groups for "
            f"{len(present)} labels; it must return one for each"
        )
    labels, codes = _by_label(column, name)
    if labels.dtype.kind == "O":
        with contextlib.suppress(TypeError):  # else keep the order of the axis
            order = sorted(range(len(labels)), key=labels.__getitem__)
            ranks = np.full(len(order) + 1, -1)
            ranks[order] = np.arange(len(order))
            labels, codes = labels[order], ranks[codes]
        if len({type(label) for label in labels}) == 1:  # as if the function had returned an array
            typed = np.array(labels.tolist())
            labels = typed if typed.ndim == 1 and typed.tolist() == labels.tolist() else labels
    found = np.full(len(own.values), -1)
    found[~own.missing] = codes
    if (found < 0).any():
        found[found < 0] = len(labels)
        labels = _with_missing(labels)
    return labels, found


def _with_missing(labels: Array) -> Array:
    """Append the missing label, as NaN or NaT if the type has one, else as None."""
    if labels.dtype.kind in "fMm":
        return np.concatenate([labels, _stand_in(labels.dtype)])
    return np.concatenate([labels.astype(object), _objects([None])])


# -- labels of an axis ---------------------------------------------------------------------------


def check_label_type(dtype: DTypeLike, name: str) -> np.dtype[Any]:
    """Return the type of an axis' labels; raise if labels cannot have it."""
    kind: Any = np.dtype(dtype)
    if kind.kind in "US" and not kind.itemsize:
        kind = np.dtype(f"{kind.kind}1")  # it widens later
    is_generic = kind.kind in "Mm" and np.datetime_data(kind)[0] == "generic"
    if kind.kind not in "USMmiufb" or is_generic or (kind.kind == "f" and kind.itemsize > 8):
        raise xa.DTypeError(
            f"axis {name!r} cannot have labels of {kind}; use text such as 'U16', dates with a "
            "unit such as 'M8[D]', integers or float64"
        )
    found: np.dtype[Any] = kind
    return found


class Labels:
    """Labels of an axis in the order of their places, as stored.

    The axis may have one label for rows without a label; its key in `places` is None.  It is stored
    as NaN or NaT if the type has one; otherwise an attribute notes its place.
    """

    def __init__(self, values: Array, missing: int | None) -> None:
        self.values = values[:0]
        self.places: dict[Any, int] = {}
        self.extend(values, missing)

    def extend(self, values: Array, missing: int | None) -> None:
        """Append labels; `missing` is the place of the missing label."""
        start = len(self.values)
        self.values = np.concatenate([self.values, values]).astype(values.dtype, copy=False)
        keys = values.tolist()
        if missing is not None and missing >= start:
            keys[missing - start] = None
        self.places.update({key: place for place, key in enumerate(keys, start)})

    def present(self) -> Array:
        """Return the places of all labels but the missing one."""
        places = np.arange(len(self.values))
        return np.delete(places, self.places[None]) if None in self.places else places

    def shown(self, places: Array) -> Array:
        """Return the labels at some places, the missing one as NaN, NaT or None."""
        labels = self.values[places]
        if None in self.places and labels.dtype.kind not in "fMm":
            labels = labels.astype(object)
            labels[places == self.places[None]] = None
        return labels

    def fitted(self, labels: Array, name: str) -> Array:
        """Return labels in the type of the axis, or in a wider type that keeps their values.

        Raises
        ------
        DTypeError
            They are of another kind, or no type holds them together with those of the axis.
        """
        dtype, given = self.values.dtype, labels.tolist()
        if dtype.kind in "US":
            return _as_text(given, dtype, name)
        if dtype.kind in "Mm":
            return _as_dates(labels, dtype, name)
        is_bool = dtype.kind == "b"
        _check_kind(given, (bool, np.bool_) if is_bool else _REAL, dtype, name)
        old = self.values[self.present()].tolist()
        for kind in [dtype] if is_bool else _ladder(dtype, _FLOAT):
            result = _exactly(given, kind)
            if result is not None and (kind == dtype or _exactly(old, kind) is not None):
                return result
        raise xa.DTypeError(
            f"axis {name!r} has labels of {dtype}; no type can also hold {given[:3]}"
        )

    def find(self, some: Any, name: str) -> Array:
        """Return the places of labels, in increasing order.

        `some` is a label, several labels, a slice that includes both ends, or a function that
        returns a bool for each label.
        """
        if callable(some) or isinstance(some, slice):
            places = self.present()
            labels = self.values[places]
            within = self._within(some, labels, name) if isinstance(some, slice) else some(labels)
            within = np.asarray(within)
            if within.dtype != bool or within.shape != labels.shape:
                raise xa.ArgumentError(
                    f"the function for axis {name!r} must return a bool for each of the "
                    f"{len(labels)} labels, not {within.dtype} of shape {within.shape}"
                )
            return places[within]
        if is_single(some):
            some = [some[()] if isinstance(some, np.ndarray) else some]
        column = Column.of(list(some) if isinstance(some, AbstractSet) else some, name)
        present = column.present()
        if self.values.dtype.kind == "M":
            for unit in {date.dtype for date in _dates(present, self.values.dtype, name)}:
                if _is_coarser(unit, self.values.dtype):
                    raise xa.ArgumentError(
                        f"axis {name!r} has labels of {self.values.dtype}, and {some!r} spans "
                        "several of them; use slice('2024-01', '2024-01') for all of January"
                    )
        wanted = [*([None] * bool(column.missing.any())), *self.fitted(present, name).tolist()]
        for key in wanted:
            if key not in self.places:
                raise xa.VariableError(f"axis {name!r} has no label {key!r}")
        return np.array(sorted({self.places[key] for key in wanted}), np.intp)

    def _within(self, some: slice, labels: Array, name: str) -> Array:
        """Tell which labels lie in a slice that includes both ends, as pandas' ``loc`` does."""
        if some.step is not None:
            raise xa.ArgumentError(
                f"a slice of labels cannot have a step; axis {name!r} was given {some}"
            )
        within = np.ones(len(labels), bool)
        for end, is_stop in ((some.start, False), (some.stop, True)):
            if end is None:
                continue
            if labels.dtype.kind == "M":
                bound = _dates(_objects([end]), labels.dtype, name)[0]
                # The whole last month counts.
                is_coarser = _is_coarser(bound.dtype, labels.dtype)
                coarse = labels.astype(bound.dtype) if is_coarser else labels
            else:
                bound, coarse = self.fitted(_objects([end]), name)[0], labels
            within &= coarse <= bound if is_stop else coarse >= bound
        return within


class Fresh(NamedTuple):
    """New labels that a column brings to an axis, and the places of its rows there.

    `missing` is the place of the missing label if it is new.
    """

    labels: Array
    places: Array
    missing: int | None

    @classmethod
    def of(cls, known: Labels, column: Column, name: str) -> Fresh:
        """Compare a column with the axis' labels `known`, which do not change."""
        labels, codes = _by_label(column, name)
        fitted = known.fitted(labels, name)
        keys = fitted.tolist()
        new = np.unique(fitted[np.array([key not in known.places for key in keys], bool)])
        start, missing = len(known.values), None
        places = {key: at for at, key in enumerate(new.tolist(), start)}
        if column.missing.any() and None not in known.places:
            places[None] = missing = start + len(new)
            new = np.concatenate([new, _stand_in(new.dtype)])
        # A missing label's code, -1, selects the last entry.
        table = [
            places[key] if key in places else known.places.get(key, -1) for key in [*keys, None]
        ]
        return cls(new.astype(fitted.dtype, copy=False), np.array(table)[codes], missing)


def _stand_in(dtype: np.dtype[Any]) -> Array:
    """Return the stored form of the missing label."""
    if dtype.kind == "f":
        return np.array([np.nan], dtype)
    return np.array(["NaT"], dtype) if dtype.kind in "Mm" else np.zeros(1, dtype)


def is_single(some: Any) -> bool:
    """Tell whether a selection of labels is one label."""
    return not (callable(some) or isinstance(some, (slice, AbstractSet))) and np.ndim(some) == 0


def _check_kind(given: list[Any], allowed: Any, dtype: np.dtype[Any], name: str) -> None:
    for label in given:
        if not isinstance(label, allowed):
            raise xa.DTypeError(
                f"axis {name!r} has labels of {dtype}, and cannot hold {label!r} of type "
                f"{type(label).__name__}; convert the column first, for example with astype"
            )


def _as_text(given: list[Any], dtype: np.dtype[Any], name: str) -> Array:
    _check_kind(given, str if dtype.kind == "U" else (str, bytes), dtype, name)
    try:
        result = np.array(given, dtype.kind) if given else np.empty(0, dtype)
    except UnicodeEncodeError as error:
        raise xa.DTypeError(f"axis {name!r} has labels of bytes: {error}; use 'U'") from None
    for label, stored in zip(given, result.tolist(), strict=True):
        if stored != (label.encode() if dtype.kind == "S" and isinstance(label, str) else label):
            raise xa.DTypeError(f"axis {name!r} cannot hold {label!r}: NumPy drops trailing NULs")
    return result.astype(dtype) if result.itemsize <= dtype.itemsize else result


def _dates(labels: Array, dtype: np.dtype[Any], name: str) -> list[Any]:
    """Return dates or durations as NumPy scalars, each in its own unit."""
    if labels.dtype.kind == dtype.kind:
        return list(labels)
    kinds: tuple[type, ...] = (str, dt.date, np.datetime64)
    if dtype.kind == "m":
        kinds = (dt.timedelta, np.timedelta64)
    given = labels.tolist()
    _check_kind(given, kinds, dtype, name)
    make: Any = np.datetime64 if dtype.kind == "M" else np.timedelta64
    of_pandas = "to_datetime64" if dtype.kind == "M" else "to_timedelta64"
    result = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy only warns of a time zone
        for label in given:
            try:
                if getattr(label, "tzinfo", None) is not None:
                    raise ValueError(
                        "it has a time zone; remove it first, for example with tz_localize(None)"
                    )
                date = getattr(label, of_pandas, lambda label=label: make(label))()
                if np.isnat(date):
                    raise ValueError("it is not a date; use None for missing dates")
            except (ValueError, Warning) as error:
                raise xa.DTypeError(f"axis {name!r} cannot hold {label!r}: {error}") from None
            result.append(date)
    return result


def _as_dates(labels: Array, dtype: np.dtype[Any], name: str) -> Array:
    dates = labels
    if labels.dtype.kind != dtype.kind:
        found = _dates(labels, dtype, name)
        dates = np.array(found) if found else np.empty(0, dtype)
    result = dates.astype(dtype)
    changed = dates[dates != result.astype(dates.dtype)]
    if len(changed):
        raise xa.DTypeError(
            f"axis {name!r} has labels of {dtype}, which are too coarse for {changed[0]}; round "
            "the column first, for example with dt.floor('D'), or give the axis another unit"
        )
    return result


def _is_coarser(unit: np.dtype[Any], other: np.dtype[Any]) -> bool:
    return unit != other and np.promote_types(unit, other) == other


def _exactly(given: list[Any], kind: np.dtype[Any]) -> Array | None:
    """Return numbers in a type, or None if it changes their values."""
    try:
        with np.errstate(over="ignore"):
            result = np.array(given, kind)
    except OverflowError:
        return None
    return result if result.tolist() == given else None


# -- quantities ----------------------------------------------------------------------------------


def check_cell_type(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type of cells; raise if sums cannot have it."""
    kind = np.dtype(dtype)
    if kind.kind not in "iufc" or kind.itemsize > (16 if kind.kind == "c" else 8):
        raise xa.DTypeError(f"cells cannot have dtype {kind}; use integers, float64 or complex128")
    return kind


def numbers(column: Column, cells: np.dtype[Any], name: str) -> Array:
    """Return the quantities that are not missing, in a type for the cells.

    Whole numbers become int64, or Python ints beyond it; others become float64 or complex128.  For
    integer cells, floats count as whole numbers if all of them are.
    """
    values = column.present()
    if values.dtype.kind == "O":
        given = values.tolist()
        for kinds, kind in (
            (_WHOLE, None),
            (_REAL, _FLOAT),
            ((*_REAL, complex, np.complexfloating), _COMPLEX),
        ):
            if not all(isinstance(x, kinds) for x in given):
                continue
            if kind is None:
                return _whole(_objects(map(int, given)))
            result = np.array(given, kind)
            if result.tolist() != given:
                raise xa.LimitError(f"column {name!r} mixes fractions with integers beyond 2**53")
            values = result
            break
    if values.dtype.kind in "biu":
        return _whole(values)
    if values.dtype.kind not in "fc":
        raise xa.DTypeError(
            f"column {name!r} cannot be summed: it has dtype {column.values.dtype}, which is not "
            "numeric; convert it first, for example with astype(float)"
        )
    values = values.astype(_COMPLEX if values.dtype.kind == "c" else _FLOAT)
    is_exact = values.dtype == _FLOAT and bool((np.abs(values) < _EXACT).all())
    if cells.kind in "iu" and is_exact and (values == np.trunc(values)).all():
        return values.astype(np.int64)
    return values


def _whole(values: Array) -> Array:
    """Return whole numbers as int64, or as Python ints if int64 does not hold them."""
    if values.dtype.kind == "b" or np.can_cast(values.dtype, np.int64):
        return values.astype(np.int64)
    limits = np.iinfo(np.int64)
    if len(values) and not (limits.min <= values.min() and values.max() <= limits.max):
        return values.astype(object)
    return values.astype(np.int64)


def _largest(values: Array) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0


def _is_whole(values: Array) -> bool:
    return values.dtype.kind in "iuO"


def totals_of(op: np.ufunc, values: Array, codes: Array, n: int) -> Array:
    """Reduce quantities by code, whole numbers exactly; unused codes get a meaningless 0."""
    if op is not np.add:
        order = np.argsort(codes, kind="stable")
        found, starts = np.unique(codes[order], return_index=True)
        totals = np.zeros(n, values.dtype)
        if len(found):
            totals[found] = op.reduceat(values[order], starts)
        return totals
    if _is_whole(values) and len(values):
        most = int(np.bincount(codes).max())
        values = values if _largest(values) * most < 2**63 else values.astype(object)
    totals = np.zeros(n, values.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(totals, codes, values)
    if not _is_whole(values):
        infinite = np.zeros(n, bool)
        infinite[codes[~np.isfinite(values)]] = True
        _check_finite(totals, infinite)
    return totals


def combined(op: np.ufunc, old: Array, new: Array) -> Array:
    """Return op of old and new values of cells, whole numbers exactly."""
    if not (_is_whole(old) and _is_whole(new)):
        for some in (old, new):
            if _is_whole(some) and _largest(some) >= _EXACT:
                raise xa.LimitError(
                    f"integers as large as {_largest(some)} have no exact sum with fractions"
                )
        kind = _COMPLEX if "c" in (old.dtype.kind, new.dtype.kind) else _FLOAT
        old, new = old.astype(kind), new.astype(kind)
        with np.errstate(over="ignore", invalid="ignore"):
            result: Array = op(old, new)
        _check_finite(result, ~(np.isfinite(old) & np.isfinite(new)))
        return result
    old, new = _whole(old), _whole(new)
    if object in (old.dtype, new.dtype) or _largest(old) + _largest(new) >= 2**63:
        old, new = old.astype(object), new.astype(object)
    return op(old, new)  # type: ignore[no-any-return]


def _check_finite(totals: Array, infinite: Array) -> None:
    if not (np.isfinite(totals) | infinite).all():
        raise xa.LimitError("the sum of a cell is beyond float64, though its quantities are finite")


def wide_enough(
    dtype: np.dtype[Any],
    totals: Array,
    is_whole: bool,
    ends: Callable[[], Array],
) -> np.dtype[Any]:
    """Return the first type that holds new totals, beside cells of a type.

    Parameters
    ----------
    dtype : dtype
        Type of the cells.
    totals : ndarray
    is_whole : bool
        Whether new values are whole numbers, which have to stay exact.
    ends : callable
        Returns the least and the greatest cell.

    Raises
    ------
    LimitError
        An OverflowError: no type holds them.
    """
    for kind in _ladder(dtype, _FLOAT, _COMPLEX):
        if not _holds(kind, totals, is_whole):
            continue
        # NumPy's can_cast claims that float64 holds int64.
        is_safe = np.can_cast(dtype, kind) and not (dtype.itemsize == 8 and dtype.kind in "iu")
        if kind == dtype or is_safe or _holds(kind, ends(), dtype.kind in "iu"):
            return kind
    raise xa.LimitError(
        f"cells of {dtype} cannot hold new totals from {totals.min()} to {totals.max()}: whole "
        "numbers are exact, up to 64 bits in integers and to 2**53 beside fractions"
    )


def _holds(kind: np.dtype[Any], totals: Array, is_whole: bool) -> bool:
    if not len(totals):
        return True
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return _is_whole(totals) and limits.min <= totals.min() and totals.max() <= limits.max
    if totals.dtype.kind == "c" and kind.kind != "c":
        return False
    # A sum at the limit may have been rounded to it.
    limit = 2 ** (np.finfo(kind).nmant + 1)
    if _is_whole(totals):
        return not is_whole or _largest(totals) < limit
    if is_whole and not (np.abs(totals) < limit).all():
        return False
    with np.errstate(over="ignore"):
        return bool((np.isfinite(totals.astype(kind)) == np.isfinite(totals)).all())


def _ladder(dtype: np.dtype[Any], *last: np.dtype[Any]) -> list[np.dtype[Any]]:
    """Return types to try in order: the present one, wider ones of its kind, others."""
    integers = [k for k in _INTEGERS if k.itemsize >= dtype.itemsize and dtype.kind in "iu"]
    integers.sort(key=lambda kind: kind.kind != dtype.kind)
    return list(dict.fromkeys([dtype, *integers, *last]))
