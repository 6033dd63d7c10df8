"""Copies of whole arrays with other chunks, axes, order or dtype, in bounded memory."""

from __future__ import annotations

import contextlib
import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.copies import Made, elements_of, is_sparse
from extarray.array.creation import open as open_array
from extarray.array.encodings import encoded_like
from extarray.array.facts import tell_lost
from extarray.array.h5py_compat import attrs_of_view
from extarray.array.lazy import LazyView
from extarray.array.life import check_not_held
from extarray.array.together import together
from extarray.codecs.codec import Codec
from extarray.common.arguments import NOT_GIVEN, as_axis, check_progress, parse_bytes
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.attrs import encode_attrs
from extarray.format.dtypes import check_dtype, clear_open_bytes
from extarray.format.labels import known_dims
from extarray.grid.chunking import check_chunks, check_shape
from extarray.grid.order import check_order, table_bytes
from extarray.maintenance.rechunk_pass import Task
from extarray.maintenance.rechunk_plan import plan_passes
from extarray.maintenance.rechunk_report import RechunkPlan
from extarray.maintenance.transform import Transformation, passes_between
from extarray.storage.filesystem import resolve_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from pathlib import Path

    from numpy.typing import DTypeLike

    from extarray.common.arguments import Reported
    from extarray.common.choices import Order
    from extarray.format.header import Header
    from extarray.storage.store import Reader

    Shape = SupportsIndex | Sequence[SupportsIndex]

__all__ = ["rechunk", "rechunk_plan"]


def rechunk(
    src: ExtArray | LazyView | str | PathLike[str],
    path: str | PathLike[str] | None = None,
    *,
    chunks: Shape | None = None,
    axes: Sequence[SupportsIndex | str] | None = None,
    order: Order | str | None = None,
    dtype: DTypeLike | None = None,
    sparse: bool | None = None,
    compression: Any = NOT_GIVEN,
    max_memory: int | str = "256 MiB",
    workers: int | None = None,
    in_place: bool = False,
    resume: bool = False,
    verify: bool = False,
    progress: Reported = True,
    comm: Any = None,
) -> ExtArray:
    """Copy an array into one with other chunks, axes in another order, or another order in a chunk.

    Parameters
    ----------
    src : ExtArray, LazyView, str or PathLike
        An array, a view of one, or the path of one.
    path : str, PathLike, or None
        Path of the new pair of files; None: in memory.
    chunks : int or sequence of int, optional
        Chunk shape, by axes of the new array; None: the present one.
    axes : sequence of int or str, optional
        For each new axis, the axis of `src` that it is, by number or name, as for
        `numpy.transpose`; None: all stay.
    order : {"C", "F", "Z", "H"}, optional
        Order of the elements in a chunk, as for `create`; None: the present one.
    dtype : dtype_like, optional
        Elements are cast as by ``astype``; None: the present one.
    sparse : bool, optional
        Leave holes where there are only zeros, as for `create`; None: as `src` does.
    compression : str, int, Codec or None
        A codec, as for `create`; all chunks are frozen, unless `freeze` of `src` is "never".  None:
        not compressed.  Default: as `src`, in files.
    max_memory : int or str
        Bytes of memory at most, or a text such as ``"256 MiB"``; at least one source and one target
        chunk.  With `comm`, a limit for each rank.  An array in order "Z" or "H" takes 8 bytes of
        it for each element of a chunk, and the new one up to 24 while it is created.  In addition,
        each thread stages up to 3 MiB.  This is the process's own memory; `config.mapped_memory`
        bounds the mapped parts of files.
    workers : int, optional
        Threads at most; None: ``config.threads``.  Each has its own buffers, so `max_memory` also
        limits how many threads work.
    in_place : bool
        Replace the pair of files of `src` at the end; give no `path`.
    resume : bool
        Continue an earlier, interrupted call with the same arguments; if there was none, start.  If
        that call was complete, nothing is left to do; in place, too, as the array records how it
        was made.  Messages on stderr tell of both.
    verify : bool
        At the end read both arrays, and compare checksums box by box.
    progress : bool or callable
        Show how far the work has come, on a terminal or in a notebook, and say on stderr when work
        is resumed; or a function, which is called with the bytes that are done, and with those in
        all.  With `comm` only rank 0 reports.
    comm : mpi4py.MPI.Intracomm, optional
        The ranks of this communicator share the work; collective.  All give the same arguments, a
        `path`, and a `src` in files, which each reads by itself.

    Returns
    -------
    ExtArray
        Open in mode "r+": one segment, no history; with the attributes, the names of axes, and the
        fill value of `src`.  Attributes that label elements or place them on the earth or in the
        sky are adapted to the elements of a view.  With `comm` an `extarray.mpi.ParallelArray`.

    Raises
    ------
    ArgumentError
        A ValueError: `max_memory` is too small (the message names the least), no such order, or
        arguments that exclude each other.
    ExistsError
        A FileExistsError: `path` exists.
    LockedError
        A BlockingIOError: in place, while another writer has `src` open; or another process works
        on `path`.
    AxisError, ChunksError, DTypeError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        Attributes that cannot locate the elements of a view; the new array lacks them.

    Notes
    -----
    Whole chunks are read and written, each once where memory allows; `rechunk_plan` shows the work
    in advance.  Several passes need a second copy on the disk for a while.

    The target gets its name when it is complete.  The work of an interrupted call stays beside it
    as ``path.rechunk-1`` and so on: the next call with ``resume=True`` continues it, any other
    starts afresh.  The source must not change meanwhile.

    In place the source is closed at the end.  Readers that have it open keep the old one.

    With `comm` each rank gets a part of whole new chunks of each template, as even as possible; the
    elements lie where a single process puts them.

    References
    ----------
    [krishnamoorthy]_

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> path = os.path.join(tempfile.mkdtemp(), "cube")
    >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]], dims=("y", "x"))
    >>> with xa.rechunk(a, path, chunks=(3, 1), axes=(1, 0)) as b:
    ...     print(b.chunks, b.dims)
    ...     b[...]
    (3, 1) ('x', 'y')
    array([[1, 4],
           [2, 5],
           [3, 6]])
    >>> with xa.rechunk(path, chunks=(1, 2), in_place=True) as b:
    ...     b.chunks
    (1, 2)
    """
    check_progress(progress)
    with contextlib.ExitStack() as stack:

        def limits() -> int:
            if workers is not None:
                stack.enter_context(config.set(threads=workers))
            return parse_bytes(max_memory)

        if comm is not None:

            def prepare() -> tuple[Path, Transformation]:
                if path is None or in_place:
                    raise ArgumentError(
                        "under a communicator, rechunk writes new files; give a path, and leave "
                        "out in_place"
                    )
                budget, array = limits(), _readable(src, stack)
                codec = None if compression is NOT_GIVEN else compression
                if codec is not None:
                    raise ArgumentError("arrays under a communicator cannot be compressed yet")
                work = _work(
                    array, path, chunks, axes, order, dtype, sparse, codec, budget, progress, verify
                )
                return resolve_path(path), work

            made: ExtArray = together.rechunk_together(comm, resume, prepare)
            return made
        budget = limits()
        if in_place:
            if path is not None:
                raise ArgumentError("in_place=True replaces the source; leave out the path")
            array: Any = _writable(src)
            path = _path_of(array)
            opened = stack.enter_context(contextlib.ExitStack())
            if array is not src:
                opened.enter_context(array)
            # Keep other threads from growing an array that is about to be replaced.
            stack.enter_context(array._writers.resizing)
        else:
            array = _readable(src, stack)
        work = _work(
            array,
            path,
            chunks,
            axes,
            order,
            dtype,
            sparse,
            compression,
            budget,
            progress,
            verify,
            in_place,
        )
        new: ExtArray
        if path is None:
            new = work.in_memory()
            return new
        if in_place:
            # Conclude a commit of several arrays that this one may have decided.
            array._store.group.conclude_members()
        place = resolve_path(path)
        if resume and in_place and _has_done(array, work):
            work.finish(place)
            opened.pop_all()
            return array  # type: ignore[no-any-return]
        if resume and not in_place and work.is_done(place):
            return open_array(place, "r+")
        new = work.on_disk(place, overwrite=in_place, resume=resume, keep=True)
        if in_place:
            array.close()
        return new


def _readable(src: Any, stack: contextlib.ExitStack) -> ExtArray | LazyView:
    """Return the source; the stack closes it if it was given as a path."""
    if isinstance(src, (ExtArray, LazyView)):
        return src
    if not isinstance(src, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"src must be an extarray array or its path, not {type(src).__name__}; use "
            "extarray.from_array with chunks= for other arrays"
        )
    return stack.enter_context(open_array(src))


def _work(
    array: ExtArray | LazyView,
    path: Any,
    chunks: Any,
    axes: Any,
    order: Any,
    dtype: Any,
    sparse: bool | None,
    compression: Any,
    budget: int,
    progress: Reported,
    verify: bool,
    in_place: bool = False,
) -> Transformation:
    lost: list[str] = []
    source, header, attrs = _wanted(array, chunks, axes, order, dtype, lost, compression, in_place)
    tell_lost("rechunk", lost)
    header = header._replace(sparse=is_sparse(header.sparse, sparse, path))
    old = _base(array)._store.now.header
    header = encoded_like(header, old, compression, path)
    shape = source.shape  # of this moment: another thread may grow the array
    tables = _tables(array, header)
    passes = passes_between(
        source, shape, header.chunks, header.dtype, budget, path is None, tables=tables
    )
    growth, memory = _base(array)._store.now.growth, budget - sum(tables)
    made, elements = Made(ExtArray), elements_of(source)
    return Transformation(
        made, source, elements, shape, header, attrs, passes, memory, progress, verify, growth
    )


def _base(array: ExtArray | LazyView) -> ExtArray:
    base: ExtArray = array.base if isinstance(array, LazyView) else array
    return base


def _tables(array: ExtArray | LazyView, header: Header) -> tuple[int, int]:
    """Return the bytes that the order tables of source and target take."""
    base = _base(array)
    return table_bytes(base.chunks, base.order), table_bytes(header.chunks, header.order)


def _path_of(array: ExtArray) -> str:
    """Return the real path of an array's files, links followed, which are to be replaced."""
    files = array._store.files
    assert files is not None
    stems = files.real_stems("cannot replace '{}'")
    if len(stems) > 1:
        raise ArgumentError(
            f"cannot replace '{array.path}': its two files are links to files with different "
            "names; give a path for a new array"
        )
    return stems.pop()


def _writable(src: Any) -> ExtArray:
    """Return the source with its writer's lock held."""
    if isinstance(src, LazyView):
        raise ArgumentTypeError(
            "cannot replace a view in place; give its array, with chunks and axes"
        )
    if isinstance(src, ExtArray):
        src._check()
        if src.path is None:
            raise ArgumentError("an array in memory has no files to replace; leave out in_place")
        src._check_sole(f"replace {src._name()}")
        check_not_held(src, "replace")
        if src.mode == "r+":
            return src
        files: Reader | None = src._store.files
        assert files is not None
        array = open_array(files.absolute, "r+", verify=files.now.verify)
        src.close()
        return array
    return open_array(src, "r+")


def _wanted(
    array: ExtArray | LazyView,
    chunks: Any,
    axes: Any,
    order: Any,
    dtype: Any,
    lost: list[str],
    compression: Any = NOT_GIVEN,
    in_place: bool = False,
) -> tuple[Any, Header, str]:
    """Return the source, its axes in the target's order, and the target's header and attributes.

    `lost` gets, in words, the attributes that cannot locate the elements.
    """
    base = _base(array)
    base._check()
    source: Any = (
        array if axes is None else np.transpose(array, _permutation(axes, array.ndim, array))
    )
    kind = source.dtype if dtype is None else check_dtype(dtype)
    old = base._store.now.header
    extents = source.chunks if chunks is None else check_chunks(chunks, source.shape, kind.itemsize)
    header = old.renewed(
        dtype=kind,
        chunks=extents,
        order=old.order if order is None else check_order(order),
        fill=_cast_fill(source.fill_value, source.dtype, kind),
        work=_record(array, chunks, axes, order, dtype, compression, in_place),
    )
    values = attrs_of_view(base, source, lost)
    if known_dims(values.get("dims"), base.ndim) is not None:
        if source.dims is None:
            del values["dims"]
        else:
            values["dims"] = list(source.dims)
    return source, header, encode_attrs(values)


def _record(
    array: ExtArray | LazyView,
    chunks: Any,
    axes: Any,
    order: Any,
    dtype: Any,
    compression: Any,
    in_place: bool,
) -> bytes:
    """Return the note of how the new array is made: the uuid of the old one, and the arguments.

    In place the old array is gone when a later call resumes, so the arguments alone must tell.
    """
    given = {
        "chunks": None if chunks is None else np.broadcast_to(chunks, array.ndim).tolist(),
        "axes": None if axes is None else _permutation(axes, array.ndim, array),
        "order": None if order is None else check_order(order),
        "dtype": None if dtype is None else str(check_dtype(dtype)),
        "elements": None if in_place else [array.shape, array._extract],
    }
    if compression is not NOT_GIVEN:
        given["compression"] = None if compression is None else str(Codec.parse(compression))
    return array._identity + sha256(json.dumps(given).encode()).digest()[:16]


def _has_done(array: ExtArray, work: Transformation) -> bool:
    """Tell whether an array already in place was made with the same arguments."""
    return array._store.now.header.work[16:] == work.header.work[16:]


def _cast_fill(value: Any, dtype: np.dtype[Any], kind: np.dtype[Any]) -> bytes:
    """Return the fill value in another dtype; zero if it has no value there: '' is no number."""
    fill = np.zeros(1, kind)  # also clears the padding between fields of a record
    with contextlib.suppress(ValueError):
        fill[...] = np.asarray(value, dtype)
    clear_open_bytes(fill)
    return fill.tobytes()


def _permutation(axes: Any, ndim: int, array: Any = None) -> tuple[int, ...]:
    """Return, for each new axis, the old one that it is; axes of an array may go by name."""
    if isinstance(axes, str):
        raise ArgumentTypeError(f"axes must be a sequence of axes, not the string {axes!r}")
    try:
        given = tuple(axes)
    except TypeError:
        raise ArgumentTypeError(f"axes must be a sequence of ints, not {axes!r}") from None
    result = tuple(as_axis(axis, ndim, array) for axis in given)
    if sorted(result) != list(range(ndim)):
        raise ArgumentError(f"axes {axes!r} must name each of the {ndim} axes once")
    return result


def rechunk_plan(
    src: ExtArray | LazyView | str | PathLike[str] | Shape,
    *,
    chunks: Shape | None = None,
    source_chunks: Shape | None = None,
    axes: Sequence[SupportsIndex | str] | None = None,
    order: Order | str | None = None,
    dtype: DTypeLike | None = None,
    max_memory: int | str = "256 MiB",
) -> RechunkPlan:
    """Plan the passes of `rechunk` into files; into memory it takes one.

    Parameters
    ----------
    src : ExtArray, LazyView, str, PathLike, int or sequence of int
        An array, a view of one, or the path of one; or the shape of an array with chunks of
        `source_chunks`.
    chunks : int or sequence of int, optional
        Chunk shape, by axes of the new array; None: the present one.
    source_chunks : int or sequence of int, optional
        Present chunk shape, if `src` is a shape; None: the one that `create` would choose.
    axes : sequence of int, optional
        As for `rechunk`.
    order : {"C", "F", "Z", "H"}, optional
        As for `rechunk`.
    dtype : dtype_like, optional
        As for `rechunk`; if `src` is a shape, that of both arrays, by default float64.
    max_memory : int or str
        As for `rechunk`.

    Returns
    -------
    RechunkPlan
        It prints as a table; notebooks show a picture, too.

    Raises
    ------
    ArgumentError
        A ValueError: `max_memory` is too small; the message names the least.
    AxisError, ChunksError, ShapeError

    Examples
    --------
    >>> import extarray as xa
    >>> plan = xa.rechunk_plan((8192, 8192), source_chunks=(16, 4096), chunks=(4096, 16))
    >>> len(plan.passes), plan.bytes_read == plan.bytes_written == 8192 * 8192 * 8
    (1, True)
    >>> xa.rechunk_plan((8192, 8192), source_chunks=(16, 4096), chunks=(4096, 16),
    ...                 max_memory="32 MiB")
    rechunk (8192, 8192) from (16, 4096) to (4096, 16)
    pass  chunks                    template     swept  read       written    memory
    1     (16, 4096) -> (256, 256)  (256, 4096)  no     512.0 MiB  512.0 MiB  8.0 MiB
    2     (256, 256) -> (4096, 16)  (4096, 256)  no     512.0 MiB  512.0 MiB  8.0 MiB
    reads 2.00 times the array, writes 2.00 times, in 8.0 MiB of memory
    """
    budget = parse_bytes(max_memory)
    with contextlib.ExitStack() as stack:
        if isinstance(src, (ExtArray, LazyView)) or hasattr(src, "__fspath__") or _is_text(src):
            if source_chunks is not None:
                raise ArgumentError("source_chunks are for a shape; an array has its own chunks")
            array: Any = src
            if not isinstance(src, (ExtArray, LazyView)):
                array = stack.enter_context(open_array(src))  # type: ignore[arg-type]
            source, header, _ = _wanted(array, chunks, axes, order, dtype, [])
            extents, tables = source.shape, _tables(array, header)
            passes = passes_between(
                source, extents, header.chunks, header.dtype, budget, tables=tables
            )
            return RechunkPlan(extents, tuple(passes), sum(tables))
    stored = "C" if order is None else check_order(order)
    shape = check_shape(src)  # type: ignore[arg-type]
    itemsize = check_dtype(float if dtype is None else dtype).itemsize
    old = check_chunks(source_chunks, shape, itemsize)
    if axes is not None:
        turned = _permutation(axes, len(shape))
        shape, old = (tuple(values[j] for j in turned) for values in (shape, old))
    new = old if chunks is None else check_chunks(chunks, shape, itemsize)
    if 0 in shape:
        return RechunkPlan(shape, ())
    tables = 0, table_bytes(new, stored)
    task = Task(shape, old, new, (0,) * len(shape), itemsize)
    return RechunkPlan(shape, tuple(plan_passes(task, budget, tables=tables)), sum(tables))


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, bytes))
