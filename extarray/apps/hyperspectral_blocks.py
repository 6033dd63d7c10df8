"""A scene as blocks of whole spectra, shared by ranks or threads; sums do not depend on them.

The blocks are runs of pixels in row order, cut by the shape of the scene and the memory alone.
Each rank works on a run of blocks: its zone, cut along rows, with whole spectra.  A process without
ranks shares them among its threads in the same way.  Results of blocks are merged in a binary tree
that depends only on the blocks; each rank or thread computes parts of the tree, so the result has
the same bits on any number of them.

The thread that has a block computes its products.  BLAS would share these small products among
threads of its own, so it gets one thread while ours are at work.

The spectra of a block leave out pixels without data, as the scene or a mask says, and pixels with a
number that is not finite in any band.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import math
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

import extarray as xa
from extarray import ArgumentError, ExtArrayError, ShapeError
from extarray.apps.hyperspectral_pixels import Raster
from extarray.common.extras import require

__all__ = [
    "Block",
    "Floats",
    "Ints",
    "Spectra",
    "as_spectra",
    "batches",
    "cut",
    "memory_of",
    "no_data",
    "remove_temporary",
    "spectra_given",
    "with_endmembers",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T")

#: Bytes of a block as float64: the block and its results should stay in the caches.
_BLOCK = 4 * 2**20

#: A block takes at most 1 / _PARTS of the memory; with its results it takes _WORK blocks.
_PARTS = 16
_WORK = 6


class Block(NamedTuple):
    """A box of pixels: whole rows, or a part of one row."""

    rows: slice
    columns: slice
    first: int  # the number of its first pixel, counted along rows

    @property
    def pixels(self) -> int:
        """The number of its pixels."""
        high, wide = self.rows.stop - self.rows.start, self.columns.stop - self.columns.start
        return int(high * wide)


def memory_of(max_memory: int | str | None) -> int:
    """Return bytes, given as a number or such as "256 MiB"; None: `xa.config.max_memory`."""
    if max_memory is None:
        return int(xa.config.max_memory)
    with xa.config.set(max_memory=max_memory):
        return int(xa.config.max_memory)


class Spectra:
    """The pixels of a scene with their spectra, block by block.

    Parameters
    ----------
    a : Raster, or what it takes
        Scene of three axes, real numbers.  Ranks see the same one.
    band_axis : int or str, optional
        The axis of the bands; the two others are rows and columns, in their order.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work.  Default: those that have `a` open together.
    max_memory : int or str, optional
        Bytes of temporary memory per rank.
    block_bytes : int
        Bytes of a block as float64, if `max_memory` allows it.
    work_bytes : int, optional
        Bytes for the work on a block.  Default: a few times those of a block.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out.

    Attributes
    ----------
    rows, columns, bands, pixels : int
        Extents; `pixels` is rows times columns.
    threads : int
        Threads that work on blocks at the same time: one per rank, else as many as the settings and
        the memory allow.
    """

    def __init__(
        self,
        a: Any,
        band_axis: int | str | None = None,
        comm: Any = None,
        max_memory: int | str | None = None,
        block_bytes: int = _BLOCK,
        work_bytes: int | None = None,
        mask: Any = None,
    ) -> None:
        self.raster = a if isinstance(a, Raster) else Raster(a, band_axis, mask)
        self.rows, self.columns, self.bands = (
            self.raster.rows,
            self.raster.columns,
            self.raster.bands,
        )
        self.pixels = self.rows * self.columns
        array = self.raster.array
        if not self.pixels * self.bands:
            raise ShapeError(f"a scene of shape {tuple(array.shape)} has no pixels")
        self.comm = getattr(array, "comm", None) if comm is None else comm
        self.rank: int = 0 if self.comm is None else self.comm.rank
        self.size: int = 1 if self.comm is None else self.comm.size
        self.memory = memory_of(max_memory)
        self.moments: Any = None  # kept after the first use
        self._own = threading.local()  # each thread's buffers
        block_bytes = min(block_bytes, self.memory // _PARTS)
        self.blocks = cut(self.rows, self.columns, self.bands, block_bytes)
        at_once = self.memory // max(1, work_bytes or _WORK * block_bytes)
        crew = min(xa.config.threads, at_once, len(self.blocks))
        self.threads: int = 1 if self.comm is not None else max(1, crew)

    def share(self) -> list[Block]:
        """Return the blocks of this rank: its zone."""
        n = len(self.blocks)
        return self.blocks[n * self.rank // self.size : n * (self.rank + 1) // self.size]

    def by_threads(self, call: Callable[[Iterator[tuple[int, Block]]], T]) -> list[T]:
        """Call for a run of this rank's numbered blocks on each thread; return the results.

        After a failure the other runs end early.
        """
        n, crew = len(self.blocks), self.size * self.threads
        edges = [n * (self.rank * self.threads + k) // crew for k in range(self.threads + 1)]
        failed = threading.Event()

        def numbered(start: int, stop: int) -> Iterator[tuple[int, Block]]:
            for number in range(start, stop):
                if failed.is_set():
                    return
                yield number, self.blocks[number]

        def work(k: int) -> T:
            try:
                return call(numbered(edges[k], edges[k + 1]))
            except BaseException:
                failed.set()
                raise

        if self.threads == 1:
            with _BLAS:
                return [work(0)]
        with _BLAS, ThreadPoolExecutor(self.threads) as pool:
            runs = [pool.submit(copy_context().run, work, k) for k in range(self.threads)]
            try:
                return [run.result() for run in runs]
            except BaseException:  # an interrupt, too
                failed.set()
                raise

    # -- reading ---------------------------------------------------------------------------------

    def box(self, rows: slice, columns: slice) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Read a box of pixels.

        Returns
        -------
        data : ndarray, (rows, columns, bands)
            Zero for pixels without data.  The caller may change it; it is valid until the same
            thread reads the next box.  Fresh memory for each box would take as long as much of the
            computation.
        missing : ndarray of bool, (rows, columns), or None
            Pixels without data; None: all have data.
        """
        found, missing = self.raster.read(rows, columns)
        data = self.buffer("box", found.shape)
        data[...] = found
        # The sum of squares tells quickly, but may also overflow.
        flat = data.reshape(-1)
        if found.dtype.kind == "f" and not math.isfinite(np.vdot(flat, flat)):
            finite: Any = np.isfinite(data).all(axis=2)
            missing = ~finite if missing is None else missing | ~finite
        if missing is None or not missing.any():
            return data, None
        data[missing] = 0
        return data, missing

    def buffer(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Return memory for a purpose; the same thread gets the same memory again."""
        size = math.prod(shape)
        buffers: dict[str, Floats] = self._own.__dict__
        if name not in buffers or buffers[name].size < size:
            buffers[name] = np.empty(size)
        return buffers[name][:size].reshape(shape)

    def read(self, block: Block) -> tuple[Floats, Ints]:
        """Read the spectra of a block's pixels that have data, and the numbers of these pixels.

        Shapes (n, bands) and (n,); n may be 0.
        """
        data, missing = self.box(block.rows, block.columns)
        x = data.reshape(-1, self.bands)
        if missing is None:
            return x, np.arange(block.first, block.first + len(x))
        there = np.flatnonzero(~missing)
        return x[there], there + block.first

    def at(self, pixels: Sequence[int] | Ints) -> Floats:
        """Read the spectra of single pixels, given by their numbers: (len(pixels), bands)."""
        spectra = np.empty((len(pixels), self.bands))
        for k, (row, column) in enumerate(self.positions(pixels).tolist()):
            spectra[k] = self.box(slice(row, row + 1), slice(column, column + 1))[0][0, 0]
        return spectra

    def with_data(self, ranks: Ints) -> Ints:
        """Return the numbers of pixels, given their ranks among pixels with data, in one pass."""

        def count(block: Block) -> list[int]:
            return [len(self.read(block)[1])]

        counts = self.fold(count, lambda one, other: one + other)
        ends = np.cumsum(counts)
        numbers = np.empty(len(ranks), dtype=np.int64)
        for k in np.unique(np.searchsorted(ends, ranks, side="right")).tolist():
            here = (ranks >= ends[k] - counts[k]) & (ranks < ends[k])
            numbers[here] = self.read(self.blocks[k])[1][ranks[here] - ends[k] + counts[k]]
        return numbers

    def positions(self, pixels: Sequence[int] | Ints) -> Ints:
        """Return the row and the column of pixels: (len(pixels), 2)."""
        return np.stack(np.divmod(np.asarray(pixels, dtype=np.int64), self.columns), axis=1)

    # -- results of all blocks -------------------------------------------------------------------

    def fold(self, work: Callable[[Block], T], merge: Callable[[T, T], T]) -> T:
        """Merge the results of all blocks; every rank gets the total.

        `merge` joins the results of two neighbouring parts, the earlier one first.
        """

        def trees(run: Iterator[tuple[int, Block]]) -> list[tuple[int, int, T]]:
            nodes: list[tuple[int, int, T]] = []
            for number, block in run:
                _push(nodes, (0, number, work(block)), merge)
            return nodes

        def mine() -> list[tuple[int, int, T]]:
            return [*itertools.chain(*self.by_threads(trees))]

        nodes: list[tuple[int, int, T]] = []
        for node in itertools.chain(*self.together(mine)):
            _push(nodes, node, merge)
        _, _, result = nodes.pop()
        while nodes:  # trees of falling height are left
            result = merge(nodes.pop()[2], result)
        return result

    def image(
        self,
        work: Callable[[Block], NDArray[Any]],
        depth: int | None,
        dtype: Any = np.float64,
        path: str | Path | None = None,
    ) -> Any:
        """Put the results of blocks, (pixels, depth) or (pixels,), into an image of the scene.

        The image is an ndarray on every rank; an ExtArray at `path`, or in a temporary file if it
        takes more than half of the memory.
        """
        tail = () if depth is None else (depth,)
        shape = (self.rows, self.columns, *tail)
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        if path is None and nbytes <= self.memory // 2:
            values = np.empty((self.pixels, *tail), dtype)

            def fill(run: Iterator[tuple[int, Block]]) -> None:
                for _, block in run:
                    values[block.first : block.first + block.pixels] = work(block)

            self.together(partial(self.by_threads, fill))
            self._exchange(values)
            return values.reshape(shape)
        name = self.temporary_path() if path is None else path
        image = self.create(name, shape, dtype)

        def write(run: Iterator[tuple[int, Block]]) -> None:
            for _, block in run:
                values = work(block)
                high = block.rows.stop - block.rows.start
                image[block.rows, block.columns] = values.reshape(high, -1, *tail)

        self.together(partial(self.by_threads, write))
        image.flush()
        if path is None:  # open for reading, it need not be closed
            image.close()
            options = {} if self.comm is None else {"comm": self.comm}
            image = xa.open(name, "r", **options)
            self.remove_with(image, Path(name))
        return image

    def map(
        self,
        call: Callable[[Floats], NDArray[Any]],
        depth: int | None,
        dtype: Any = np.float64,
        path: str | Path | None = None,
        fill: float = math.nan,
    ) -> Any:
        """Put the results of spectra, (n, depth) or (n,), into an image of the scene.

        Pixels without data get the fill value.
        """
        return self.image(partial(self.spread, call, depth, dtype, fill), depth, dtype, path)

    def spread(
        self,
        call: Callable[[Floats], NDArray[Any]],
        depth: int | None,
        dtype: Any,
        fill: float,
        block: Block,
    ) -> NDArray[Any]:
        """Return the results of a block's spectra, with the fill value for pixels without data."""
        x, numbers = self.read(block)
        if len(x) == block.pixels:
            return call(x)
        values = np.full((block.pixels, *(() if depth is None else (depth,))), fill, dtype)
        if len(x):
            values[numbers - block.first] = call(x)
        return values

    def _exchange(self, values: NDArray[Any]) -> None:
        """Broadcast the pixels of each rank's zone into the same place on all ranks.

        Sent as objects, they would be in memory four times: alone, pickled, unpickled and joined.
        """
        if self.comm is None or self.size == 1:
            return
        n = len(self.blocks)
        firsts = [*(block.first for block in self.blocks), self.pixels]
        edges = [firsts[n * rank // self.size] for rank in range(self.size + 1)]
        for rank, (first, stop) in enumerate(itertools.pairwise(edges)):
            if first < stop:
                self.comm.Bcast(values[first:stop], root=rank)

    def create(self, path: str | Path, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
        """Create an array on all ranks, in chunks of whole spectra of about 1 MiB."""
        wide = min(shape[1], 4096)
        row = wide * np.dtype(dtype).itemsize * math.prod(shape[2:])
        chunks = (min(shape[0], max(1, 2**20 // row)), wide, *shape[2:])
        options = {} if self.comm is None else {"comm": self.comm}
        return xa.create(path, shape, dtype, chunks=chunks, **options)

    def temporary_path(self) -> Path:
        """Return a path in a new folder, with ranks beside the scene's files, which all reach."""
        beside = getattr(self.raster.array, "path", None) if self.size > 1 else None
        near = None if beside is None else Path(beside).parent
        return Path(self.once(lambda: tempfile.mkdtemp(prefix="extarray-", dir=near)), "image")

    def remove_with(self, owner: object, path: Path) -> None:
        """Remove the folder of a temporary path when its owner on rank 0 is deleted.

        Other ranks can still use files that they have open.
        """
        if self.rank == 0:
            weakref.finalize(owner, _remove, path.parent)

    def together(self, call: Callable[[], T]) -> list[T]:
        """Return the results of all ranks' calls, in order; all ranks raise the error of one."""
        if self.comm is None or self.size == 1:
            return [call()]
        result: T | None = None
        error: Exception | None = None
        try:
            result = call()
        except (ExtArrayError, ArithmeticError, MemoryError, OSError, ValueError) as e:
            error = e
        pairs: list[Any] = self.comm.allgather((result, error))
        for _, found in pairs:
            if found is not None:
                raise found
        return [one for one, _ in pairs]

    def once(self, call: Callable[[], T]) -> T:
        """Return rank 0's result: ranks on different processors might round differently."""
        with _BLAS:
            if self.comm is None or self.size == 1:
                return call()
            found: Any = self.together(lambda: call() if self.rank == 0 else None)[0]
            return cast("T", found)


class _OneThread:
    """Limits BLAS to one thread while any thread of ours is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


#: Folders of temporary files to remove.
_temporary: set[Path] = set()


def _remove(folder: Path) -> None:
    """Remove a folder of temporary files, now or, if the system keeps it, later.

    The owner of the files still has them open.  Not all file systems of Windows remove open files,
    and none removes those that are mapped.
    """
    _temporary.add(folder)
    remove_temporary()


@atexit.register
def remove_temporary() -> None:
    """Remove the folders of temporary files that nobody uses any more."""
    for folder in [*_temporary]:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            _temporary.discard(folder)


@functools.cache
def _libraries() -> Any:
    """Return the controller of this process's BLAS."""
    return require("threadpoolctl", "apps", "hyperspectral analysis").ThreadpoolController()


_BLAS = _OneThread()


def as_spectra(
    a: Any,
    band_axis: int | str | None,
    comm: Any,
    max_memory: int | str | None,
    mask: Any = None,
    block_bytes: int = _BLOCK,
) -> Spectra:
    """Return a scene as `Spectra`, unless it is one already."""
    if isinstance(a, Spectra):
        return a
    return Spectra(a, band_axis, comm, max_memory, block_bytes, mask=mask)


def with_endmembers(
    a: Any,
    endmembers: ArrayLike,
    band_axis: int | str | None,
    comm: Any,
    max_memory: int | str | None,
    mask: Any,
    block_bytes: int = _BLOCK,
) -> tuple[Spectra, Floats]:
    """Return a scene as `Spectra`, and the spectra of its endmembers."""
    spectra = as_spectra(a, band_axis, comm, max_memory, mask, block_bytes)
    return spectra, spectra_given(endmembers, spectra.bands, "endmembers")


def no_data() -> ArgumentError:
    """Return the error for a scene without pixels."""
    return ArgumentError(
        "no pixel of the scene has data in all bands; leave out bands without any data, or "
        "accept every finite number as data with mask=False"
    )


def cut(rows: int, columns: int, bands: int, nbytes: int) -> list[Block]:
    """Cut a scene into blocks of whole rows, or of parts of rows if a row is too large."""
    fits = max(1, nbytes // (8 * bands))
    high = max(1, fits // columns)
    wide = -(-columns // -(-columns // fits))  # even parts
    return [
        Block(
            slice(row, min(row + high, rows)),
            slice(column, min(column + wide, columns)),
            row * columns + column,
        )
        for row in range(0, rows, high)
        for column in range(0, columns, wide)
    ]


def _push(
    nodes: list[tuple[int, int, T]], node: tuple[int, int, T], merge: Callable[[T, T], T]
) -> None:
    """Append a node (height, number, value) to those on its left, and merge siblings."""
    height, number, value = node
    while number % 2 and nodes and nodes[-1][:2] == (height, number - 1):
        value = merge(nodes.pop()[2], value)
        height, number = height + 1, number // 2
    nodes.append((height, number, value))


def batches(n: int, size: int) -> Iterator[slice]:
    """Cut ``range(n)`` into slices of a size."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def spectra_given(values: ArrayLike, bands: int, what: str) -> Floats:
    """Return spectra as float64; refuse all but finite numbers of shape (n, bands), n > 0."""
    given = np.asarray(values)
    if given.dtype.kind not in "biuf":
        raise ArgumentError(f"{what} must be real numbers, not {given.dtype}")
    x = np.ascontiguousarray(given, dtype=np.float64)
    if x.ndim != 2 or not len(x) or x.shape[1] != bands:
        raise ArgumentError(f"{what} must have shape (n, {bands}) for this scene, not {x.shape}")
    if not np.isfinite(x).all():
        raise ArgumentError(f"{what} must be finite numbers")
    return x
