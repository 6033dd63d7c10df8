"""Arrays inside xarray objects: loaded and stored here, otherwise as dask tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.creation import zeros
from extarray.common.extras import require
from extarray.interop.xarray_coding import boxes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ExtArrayManager"]

compat: Any = require("xarray.namedarray.parallelcompat", "xarray", "the xarray backend")


def _dask() -> Any:
    require("dask.array", "dask", "xarray's chunks")
    return compat.list_chunkmanagers()["dask"]


def _by_dask(name: str) -> Any:
    """Return a method that applies the method of dask's manager to tasks of the arrays."""

    def method(self: ExtArrayManager, *args: Any, **kwargs: Any) -> Any:
        """Apply the function as dask does, to tasks of the arrays."""
        tasks = {key: self._as_tasks(value) for key, value in kwargs.items()}
        return getattr(_dask(), name)(*map(self._as_tasks, args), **tasks)

    method.__name__ = name
    return method


class ExtArrayManager(compat.ChunkManagerEntrypoint):  # type: ignore[misc]
    """The chunk manager "extarray", by which xarray handles arrays and their lazy views.

    xarray finds it automatically: ``xr.DataArray(a)`` can be loaded, computed and written to files.

    Examples
    --------
    >>> import extarray as xa
    >>> from extarray.interop.xarray_chunks import ExtArrayManager
    >>> manager = ExtArrayManager()
    >>> manager.chunks(xa.zeros((2, 3), chunks=2))
    ((2,), (2, 1))
    """

    def __init__(self) -> None:
        self.array_cls = (ExtArray, type(zeros(1).lazy[:]))

    def chunks(self, data: Any) -> tuple[tuple[int, ...], ...]:
        """Return the extents of the chunks along each axis."""
        return tuple(
            tuple(min(step, n - start) for start in range(0, n, step)) or (0,)
            for n, step in zip(data.shape, data.chunks, strict=True)
        )

    def compute(self, *data: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the elements of arrays, and anything else unchanged."""
        return tuple(np.asarray(x) if self.is_chunked_array(x) else x for x in data)

    def persist(self, *data: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the elements in memory."""
        return self.compute(*data)

    def store(
        self,
        sources: Any,
        targets: Any,
        *,
        compute: bool = True,
        regions: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write arrays block by block to targets that take slices: here, or later by dask."""
        if not isinstance(sources, (list, tuple)):
            sources, targets = [sources], [targets]
        pairs = list(zip(sources, targets, regions or [None] * len(sources), strict=True))

        def write() -> None:
            for source, target, region in pairs:
                _write(source, target, region)

        if compute:
            write()
            return None
        return require("dask", "dask").delayed(write, pure=False)()

    @property
    def array_api(self) -> Any:
        """Functions of dask that create arrays."""
        return _dask().array_api

    def _as_tasks(self, x: Any) -> Any:
        return x.to_dask() if self.is_chunked_array(x) else x

    normalize_chunks = _by_dask("normalize_chunks")
    from_array = _by_dask("from_array")
    rechunk = _by_dask("rechunk")
    unify_chunks = _by_dask("unify_chunks")
    apply_gufunc = _by_dask("apply_gufunc")
    map_blocks = _by_dask("map_blocks")
    blockwise = _by_dask("blockwise")
    reduction = _by_dask("reduction")
    scan = _by_dask("scan")
    shuffle = _by_dask("shuffle")


def _write(source: Any, target: Any, region: tuple[slice, ...] | None) -> None:
    """Write elements block by block to a target or a region of it."""
    if source.ndim == 0:
        target[...] = source[...]
        return
    starts = [0] * source.ndim if region is None else [s.start or 0 for s in region]
    for place in boxes(source):
        own = zip(place, starts, strict=True)
        target[tuple(slice(s.start + n, s.stop + n) for s, n in own)] = source[place]
