"""How an array is shown: its facts, a line of text, and a picture for notebooks."""

from __future__ import annotations

from html import escape

from extarray.array.base import StoredArray
from extarray.array.html import describe
from extarray.common.formatting import SIZES_OF_FILES, Info
from extarray.storage.file_store import FileStore

__all__ = ["SeeingMixin"]


class SeeingMixin(StoredArray):
    """Facts of an array, and what Python and notebooks show of it."""

    __slots__ = ()

    def info(self) -> Info:
        """Facts of the array: layout, growth, and the space it takes.

        Returns
        -------
        Info
            A dict; ``print`` of it is a table, with attributes cut short.  ``offset`` is what the
            grid has before the bounds, in elements, ``records`` is the number of records of each
            axis, ``utilisation`` the share of the allocated elements that lie inside the bounds.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((4, 3), chunks=(2, 2))
        >>> a.extend(1, 3)
        >>> a.info()["segments"], a.info()["records"]
        (2, (1, 1))
        """
        self._check()
        store, axial = self._store, self.axial
        logical = self.nbytes
        allocated = axial.size * self.chunk_bytes
        facts = Info(
            path=None if self.path is None else str(self.path),
            shape=self.shape,
            origin=self.origin,
            dims=self.dims,
            dtype=self.dtype,
            chunks=self.chunks,
            grid=self.grid,
            offset=store.offset,
            order=self.order,
            fill_value=self.fill_value,
            engine=store.engine,
            mode=self.mode,
            segments=axial.segments,
            records=tuple(len(axial.records(j)[0]) for j in range(self.ndim)),
            growth=self.growth,
            logical_bytes=logical,
            allocated_bytes=allocated,
            utilisation=logical / allocated if allocated else 1.0,
        )
        if isinstance(store, FileStore):
            facts.update(
                sparse=store.header.sparse,
                checksum=store.header.checksum,
                uuid=store.header.uuid.hex(),
                file_bytes=store.file_bytes,
                disk_bytes=store.disk_bytes,
                metadata_bytes=store.metadata_bytes,
            )
        else:
            facts.update(dict.fromkeys(SIZES_OF_FILES, 0))
        facts["attrs"] = self.attrs.asdict()
        return facts

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else f"'{self.path}', mode '{self.mode}'"
        if self.closed:
            return f"<extarray.ExtArray: {where}, closed>"
        return (
            f"<extarray.ExtArray: shape {self.shape}, {self.dtype}, chunks {self.chunks}, {where}>"
        )

    def _repr_html_(self) -> str:
        """Show the array in a notebook: a table, its grid of chunks, and how it grew."""
        if self.closed:
            return f"<code>{escape(repr(self))}</code>"
        return describe(self.info(), self.axial.segments, self.axial._growth)
