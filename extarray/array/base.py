"""What an array is, by what its store says: place, mode, attributes; and whether it may be used."""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

import numpy as np

from extarray._core._array import ArrayCore
from extarray.common.arguments import as_axis
from extarray.common.errors import (
    ArgumentError,
    ClosedError,
)
from extarray.format.attrs import Attributes, decode_attrs, encode_attrs
from extarray.format.dims import check_dims, known_dims
from extarray.grid.policy import Growth, decode_policy, encode_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from threading import RLock

    from extarray._core._axial import Axial
    from extarray.storage.file_store import FileStore
    from extarray.storage.memory import MemoryStore

__all__ = ["Stored", "StoredArray"]


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


class StoredArray(ArrayCore):
    """Array of the core that has a store; the base of what is done with one."""

    __slots__ = ("__weakref__", "_commits", "_growth", "_handle", "_steady", "_store")

    _store: FileStore | MemoryStore
    # Growth, and what reads before it writes, is one step for threads: three times the same lock,
    # unless other writers share the array.
    _growth: AbstractContextManager[Any]  # for changes of the bounds
    _commits: AbstractContextManager[Any]  # for commits that leave the bounds
    _steady: RLock  # to see bounds that stay
    _handle: str  # no other array has it, not even one on the same files

    def _check(self, what: str | None = None) -> None:
        """Raise where the array is closed, or `what` would change a read-only one."""
        if self.closed:
            raise ClosedError(f"{self._name()} is closed; open it again with extarray.open")
        if what is not None and self.mode != "r+":
            raise self._read_only(what)

    def _check_sole(self, what: str) -> None:
        """Raise where `what` is not possible because this process is not the only one that writes.

        `what` has the array's name in it.
        """
        if self._store.shared and self.mode == "r+":  # not in a forked child, which reads
            raise ArgumentError(f"cannot {what} while writers share it; open it alone")

    def _axis(self, axis: SupportsIndex) -> int:
        """Number of an axis, counted from 0."""
        return as_axis(axis, self.ndim)

    @property
    def path(self) -> Path | None:
        """Path of the pair of files, without suffix; None for a memory-resident array."""
        return self._store.path

    @property
    def mode(self) -> str:
        """The mode: "r" or "r+"."""
        return self._store.mode

    @property
    def durability(self) -> str | None:
        """What is on the disk when: "flush" or "commit", see `create`; None in memory.

        Examples
        --------
        >>> import tempfile, extarray as xa
        >>> with xa.create(f"{tempfile.mkdtemp()}/scene", (2, 3), durability="commit") as a:
        ...     a.durability
        'commit'
        """
        return self._store.durability

    @property
    def fill_value(self) -> Any:
        """Value of elements that were never written: a NumPy scalar.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.ones((2, 2)).fill_value
        np.float64(1.0)
        """
        header = self._store.header
        return np.frombuffer(header.fill, header.dtype)[0]

    @property
    def attrs(self) -> Attributes:
        """Attributes: a mutable mapping of JSON values, kept with the array.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2))
        >>> a.attrs["unit"] = "mm"
        >>> a.attrs["unit"]
        'mm'
        """
        return Attributes(self._load_attrs, self._save_attrs)

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the axes, or None where they have none.

        Assignment takes a sequence of texts, one an axis, or None.  The names are kept as the
        attribute ``"dims"``, and are no part of indexing.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, (4, 3), dims=("y", "x"))
        >>> a.dims
        ('y', 'x')
        >>> a.dims = ["line", "sample"]
        >>> a.attrs["dims"]
        ['line', 'sample']
        """
        return known_dims(self.attrs.get("dims"), self.ndim)

    @dims.setter
    def dims(self, dims: Sequence[str] | None) -> None:
        def change() -> str | None:
            values = decode_attrs(self._load_attrs())
            if dims is not None:
                values["dims"] = check_dims(dims, self.ndim)
            elif "dims" in values:
                del values["dims"]
            else:
                return None
            return encode_attrs(values)

        self._save_attrs(change)

    @property
    def growth(self) -> Growth:
        """What growth allocates ahead: the growth policy.

        Assignment is one commit, and moves nothing.  One of:

        ``"exact"``
            Nothing: growth allocates the chunks that it needs.  The default.
        ``("linear", theta)``
            An axis that needs chunks gains at least `theta` of them.
        ``("exponential", factor)``
            An axis that needs chunks has at least `factor` times as many then, rounded up.  The
            factor is above 1, and has three decimals at most.
        ``"cubical"``
            The axes take turns: until there is room, the one with the fewest chunks is doubled (of
            equal ones the first), to a power of two.  So the grid stays a cube, but for a factor of
            two.  For arrays that grow about equally along all axes.

        Notes
        -----
        What is allocated ahead is at the side that grows, and takes disk space (none in a sparse
        array).  Where there is no room for it, growth allocates what it needs and no more: a policy
        makes no growth fail.  `reserve` allocates what it is asked for.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, (1, 1), chunks=1, growth=("linear", 16))
        >>> for _ in range(30):
        ...     a.extend(0, 1)
        ...     a.extend(1, 1)
        >>> a.shape, a.grid, a.info()["segments"]
        ((31, 31), (33, 33), 4)
        >>> a.growth = "exact"
        """
        return decode_policy(self._store.growth).growth

    @growth.setter
    def growth(self, growth: Growth) -> None:
        self._set_policy(growth)

    def _set_policy(self, growth: Growth) -> None:
        value = encode_policy(growth)
        with self._growth:
            self._check("change the growth policy of")
            self._store.set_growth(value)

    @property
    def _origin(self) -> bytes:
        """What tells the elements from those of other arrays."""
        return self._store.header.uuid

    def _load_attrs(self) -> str:
        self._check()
        return self._store.attrs

    def _save_attrs(self, change: Callable[[], str | None]) -> None:
        # Threads lose none of each other's changes.
        with self._commits:
            attrs = change()
            if attrs is not None:
                self._check("change the attributes of")
                self._store.set_attrs(attrs)
