"""An array and its store: whether it may be used, what can be changed, and what the core takes."""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

import numpy as np

from extarray.common.errors import (
    ArgumentError,
    ClosedError,
    ReadOnlyError,
    ReserveError,
)
from extarray.format.attrs import decode_attrs, encode_attrs
from extarray.format.dims import check_dims
from extarray.grid.order import positions
from extarray.grid.policy import Growth, encode_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from threading import RLock

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray._core._mapping import Counter, Region, Users
    from extarray._core._state import Trust
    from extarray.storage.file_store import FileStore
    from extarray.storage.memory import MemoryStore

__all__ = [
    "Attachable",
    "Stored",
    "attach_store",
    "check",
    "check_sole",
    "place_elements",
    "places_of",
    "save_attrs",
    "set_dims",
    "set_policy",
    "show_store",
    "take_layout",
    "watch_cuts",
]


class Stored(Protocol):
    """An array with a store, as the functions of this room see it.

    What a module needs beside this, it says in a protocol of its own.
    """

    _store: FileStore | MemoryStore
    _growth: AbstractContextManager[Any]  # for changes of the bounds
    _commits: AbstractContextManager[Any]  # for commits that leave the bounds
    _steady: RLock  # to see bounds that stay
    _handle: str  # no other array has it, not even one on the same files
    _filling: bool  # by an append, which may run any code

    @property
    def axial(self) -> Axial: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def order(self) -> str: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def chunk_bytes(self) -> int: ...
    @property
    def grid(self) -> tuple[int, ...]: ...
    @property
    def origin(self) -> tuple[int, ...]: ...
    @property
    def dims(self) -> tuple[str, ...] | None: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def mode(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def _name(self) -> str: ...
    def _check(self, what: str | None = None) -> None: ...
    def _check_axes(self, ndim: int) -> None: ...
    def _axis(self, axis: SupportsIndex) -> int: ...
    def _read_only(self, what: str) -> ReadOnlyError: ...
    def _load_attrs(self) -> str: ...
    def _save_attrs(self, change: Callable[[], str | None]) -> None: ...


class Attachable(Stored, Protocol):
    """An array that is set up, and told how its store may be used, as the core takes it."""

    @property
    def _region(self) -> Region | None: ...
    @property
    def _has_places(self) -> bool: ...
    def _setup(
        self,
        axial: Axial,
        dtype: np.dtype[Any],
        chunks: tuple[int, ...],
        order: str,
        places: NDArray[np.int64] | None,
        shape: Sequence[int],
        offset: Sequence[int],
    ) -> None: ...
    def _attach(
        self,
        region: Region | None,
        writable: bool,
        sparse: bool,
        hollow: bool,
        durable: bool,
        sums: Any = None,
        users: Users | None = None,
        trust: Trust | None = None,
        verifies: bool = False,
    ) -> None: ...
    def _set_places(self, table: NDArray[np.int64]) -> None: ...
    def _set_bounds(self, shape: Sequence[int], offset: Sequence[int]) -> None: ...
    def _watch(self, cuts: Counter | None, known: int, fill: Any) -> None: ...
    def _know_cuts(self, known: int, inner: tuple[Sequence[int], Sequence[int]] | None) -> None: ...


# -- whether it may be used ----------------------------------------------------------------------


def check(array: Attachable, what: str | None = None) -> None:
    """Raise where an array is closed, or `what` would change a read-only one."""
    if array.closed:
        raise ClosedError(f"{array._name()} is closed; open it again with extarray.open")
    if what is not None and array.mode != "r+":
        raise array._read_only(what)


def check_sole(array: Stored, what: str) -> None:
    """Raise where `what` is not possible because this process is not the only one that writes.

    `what` has the array's name in it.
    """
    if array._store.shared and array.mode == "r+":  # not in a forked child, which reads
        raise ArgumentError(f"cannot {what} while writers share it; open it alone")


# -- what can be changed of it -------------------------------------------------------------------


def set_dims(array: Stored, dims: Sequence[str] | None) -> None:
    """Name the axes, or take their names away."""

    def change() -> str | None:
        values = decode_attrs(array._load_attrs())
        if dims is not None:
            values["dims"] = check_dims(dims, array.ndim)
        elif "dims" in values:
            del values["dims"]
        else:
            return None
        return encode_attrs(values)

    array._save_attrs(change)


def set_policy(array: Stored, growth: Growth) -> None:
    """Take a growth policy: one commit."""
    value = encode_policy(growth)
    with array._growth:
        array._check("change the growth policy of")
        array._store.set_growth(value)


def save_attrs(array: Stored, change: Callable[[], str | None]) -> None:
    """Commit the attributes that `change` gives; None: they stay."""
    # Threads lose none of each other's changes.
    with array._commits:
        attrs = change()
        if attrs is not None:
            array._check("change the attributes of")
            array._store.set_attrs(attrs)


# -- the core, as the store says -----------------------------------------------------------------


def take_layout(array: Attachable, axial: Axial, places: NDArray[np.int64] | None = None) -> None:
    """Take the axes, the chunks and the bounds that the store has.

    `places` are those of the elements of a chunk, if they are known already.
    """
    store = array._store
    header = store.header
    if places is None and axial.size:
        places = places_of(header.chunks, header.order)
    axial._own()
    array._setup(
        axial, header.dtype, header.chunks, header.order, places, store.shape, store.offset
    )


def places_of(chunks: tuple[int, ...], order: str) -> NDArray[np.int64] | None:
    """Return where the elements of a chunk are.

    Parameters
    ----------
    chunks : tuple of int
    order : {"C", "F", "Z", "H"}

    Returns
    -------
    ndarray of int64 or None
        Of a chunk's size; None for the orders with strides.

    Raises
    ------
    ReserveError
        A MemoryError.
    """
    if order not in "ZH":
        return None
    try:
        return positions(chunks, order)
    except MemoryError as error:
        raise ReserveError(
            f"no memory for the order {order!r} of chunks {chunks}: {error}"
        ) from None


def place_elements(array: Attachable) -> None:
    """Work out where elements stand in a chunk; the table is of a chunk's size.

    Not before there is a chunk: a file of nothing but promises would cost memory.
    """
    places = places_of(array.chunks, array.order)
    if places is not None:
        array._set_places(places)


def attach_store(array: Attachable) -> None:
    """Use the store's region, as the store may be used now."""
    store = array._store
    writable, sparse = store.mode == "r+", store.header.sparse
    array._attach(
        store.region,
        writable,
        sparse,
        store.hollow,
        store.is_durable,
        store.sums,
        store.users,
        store.trust,
        store.verify == "read",
    )


def watch_cuts(array: Attachable) -> None:
    """Watch the store's counter of cuts, if it has one."""
    store = array._store
    if store.cuts is not None:
        fill = np.frombuffer(store.header.fill, array.dtype).reshape(())
        array._watch(store.cuts, store.cuts_known, fill)


def show_store(array: Attachable, axial: Axial) -> None:
    """Show the region and the bounds that the store has; other axial vectors: axes, too."""
    store = array._store
    if store.region is not array._region:
        attach_store(array)
    if axial is array.axial:
        array._set_bounds(store.shape, store.offset)
        array._know_cuts(store.cuts_known, None)
        if axial.size and not array._has_places:
            place_elements(array)
    else:
        take_layout(array, axial)
        watch_cuts(array)
