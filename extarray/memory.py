"""An array in memory: the store of arrays without files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extarray._core._mapping import Region

if TYPE_CHECKING:
    from extarray._core._axial import Axial
    from extarray.metadata import Header

__all__ = ["MemoryStore"]


class MemoryStore:
    """An array in anonymous memory.

    Attributes
    ----------
    unclean : bool
        Elements of the grid outside the bounds may hold something else than the fill value: the
        bounds have moved in, or an append failed.
    """

    path = None
    mode = "r+"
    engine = "memory"
    metadata_bytes = 0
    file_bytes = 0
    disk_bytes = 0
    hollow = False
    sums = None

    def __init__(self, header: Header, shape: tuple[int, ...], axial: Axial, attrs: str) -> None:
        self.header = header
        self.attrs = attrs
        self.shape = shape
        self.offset = (0,) * header.ndim
        self.grid = axial.grid
        self.unclean = False
        data_bytes = axial.size * header.chunk_bytes
        self.region: Region | None = Region.memory(data_bytes)
        self._used = 0
        self.reserve(0, data_bytes)

    def reserve(self, old: int, new: int) -> None:
        """Make room for chunks: from `old` bytes to `new` bytes, all of them the fill value."""
        assert self.region is not None
        self.region.commit(new)
        if any(self.header.fill):
            self.region.fill(self.header.fill, old, new)
        self._used = new

    def release(self, old: int) -> None:
        """Undo `reserve`: what follows `old` bytes is zero again."""
        if self.region is not None and self._used > old:
            self.region.fill(b"\0", old, self._used)

    def commit(
        self,
        shape: tuple[int, ...],
        offset: tuple[int, ...],
        axial: Axial,
        data_bytes: int,
        cuts: bool,
    ) -> None:
        """Make new bounds count; memory has no reader but this process."""
        self.shape = shape
        self.offset = offset
        self.grid = axial.grid

    def settle(self) -> None:
        """Nothing to do."""

    def reserve_again(self, start: int, stop: int) -> None:
        """Nothing to do: memory comes when it is touched."""

    def give_back(self, start: int, stop: int) -> None:
        """Let the system have the memory of bytes that no longer count: they are zero."""
        if self.region is not None:
            self.region.discard(start, stop)

    def begin_append(self) -> None:
        """Nothing to do."""

    def set_attrs(self, attrs: str) -> None:
        """Keep the attributes (a JSON text)."""
        self.attrs = attrs

    def refresh(self, axial: Axial) -> bool:
        """Return False: nobody else can have changed anything."""
        return False

    def flush(self) -> None:
        """Nothing to do."""

    def remove(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Let go of the memory; views keep it alive."""
        self.region = None
