"""Making and opening arrays of several processes: rank 0 does, and the others follow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from extarray.array.array import ExtArray
from extarray.common.arguments import check_choice
from extarray.common.config import ENGINES
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.dtypes import encode_dtype
from extarray.mpi.agreement import Agreement, is_agreed
from extarray.mpi.array import ParallelArray
from extarray.mpi.fileviews import FileViews
from extarray.mpi.replica import ReplicaStore, pair_of
from extarray.mpi.runtime import default_hints, library, make_info, stage_bytes
from extarray.storage.engine import is_remote
from extarray.storage.filesystem import resolve_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from extarray.format.header import Header
    from extarray.storage.file_store import FileStore

__all__ = ["create_together", "open_together"]

# What `extarray.create` gives: path, shape, header, attributes, engine, overwrite, durability, and
# the growth policy.
_Checked = tuple[Any, tuple[int, ...], "Header", str, str, bool, str, int]


def create_together(
    comm: Any, info: Mapping[str, Any] | None, check: Callable[[], _Checked]
) -> ParallelArray:
    """Create an array; collective.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
    info : mapping or None
        Hints for MPI-IO.
    check : callable
        Gives the arguments, checked.

    Returns
    -------
    ParallelArray
        Open in mode "r+".
    """
    with Agreement.on_duplicate(comm) as agreement:
        with agreement.step() as step:
            path, shape, header, attrs, engine, overwrite, durability, growth = check()
            if path is None:
                raise ArgumentError(
                    "an array under a communicator lies in files; give a path, or leave comm away"
                )
            place, hints = resolve_path(path), _check_info(info)
            check_choice(engine, "engine", (*ENGINES, "mpi-io"))
            step.arguments = (
                f"create '{place}' of shape {shape} and dtype {encode_dtype(header.dtype)} in "
                f"chunks of {header.chunks}, order {header.order}, fill value {header.fill!r}, "
                f"sparse {header.sparse}, checksum {header.checksum}, overwrite {overwrite}, "
                f"attributes {attrs}, engine {engine}, durability {durability}, "
                f"growth policy {growth}, info {hints}"
            )
        return _joined(
            agreement,
            place,
            engine,
            hints,
            lambda engine: ExtArray._create(
                place, shape, header, attrs, engine, overwrite, durability, growth, hidden=True
            ),
        )


def open_together(
    comm: Any,
    info: Mapping[str, Any] | None,
    check: Callable[[], tuple[Path, str, float | None, str, str, str]],
) -> ParallelArray:
    """Open an array; collective.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
    info : mapping or None
        Hints for MPI-IO.
    check : callable
        Gives path, mode, timeout, engine, durability, and what is verified, checked.

    Returns
    -------
    ParallelArray
    """
    with Agreement.on_duplicate(comm) as agreement:
        with agreement.step() as step:
            place, mode, timeout, engine, durability, verify = check()
            hints = _check_info(info)
            check_choice(engine, "engine", (*ENGINES, "mpi-io"))
            step.arguments = (
                f"open '{place}' with mode {mode!r}, engine {engine}, durability {durability}, "
                f"verify {verify!r}, info {hints}"
            )
        return _joined(
            agreement,
            place,
            engine,
            hints,
            lambda engine: ExtArray._open(place, mode, timeout, engine, durability, verify),
        )


def _check_info(info: Mapping[str, Any] | None) -> dict[str, str]:
    """Hints as texts, in the order of their names."""
    if info is None:
        return {}
    try:
        hints = {str(name): str(value) for name, value in sorted(dict(info).items())}
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"info must be a mapping of names and values, not {info!r}"
        ) from None
    make_info(hints).Free()
    return hints


def _joined(
    agreement: Agreement,
    path: Path,
    engine: str,
    hints: dict[str, str],
    make: Callable[[str], ExtArray],
) -> ParallelArray:
    """The array of all ranks, which `make` makes or opens on rank 0 by an engine.

    A new pair of files takes its names when all ranks have it open: what cannot be had together
    replaces nothing.
    """
    comm = agreement.comm
    own, through_mpi = engine, engine == "mpi-io"
    if engine in ("auto", "mpi-io"):
        # Ranks of one host share its page cache; a mapping on another host would not.
        own = "auto" if _is_one_host(agreement) else "pread"
        through_mpi = through_mpi or own == "pread" or bool(hints)
    array = views = None
    try:
        with agreement.step():
            pair = None
            if not comm.rank:
                array = make(own)
                pair = pair_of(cast("FileStore", array._store), array.axial)
                if engine == "auto":
                    through_mpi = through_mpi or is_remote(cast("FileStore", array._store)._data)
        pair, through_mpi = comm.bcast((pair, through_mpi))
        with agreement.step():
            if array is None:
                store = ReplicaStore(path, pair, own)
                array = ExtArray._from_store(store, store.axial)
        file = cast("FileStore", array._store)._data
        hints = {**default_hints(file), **hints}
        with agreement.step():
            if through_mpi:
                name, writable = f"{pair.path}.xta", pair.mode == "r+"
                views = FileViews(comm, name, writable, hints, pair.hidden)
        with agreement.step():
            if views is not None:
                views.check(file)
        if pair.hidden is not None:
            with agreement.step():
                if not comm.rank:
                    array._publish()
    except BaseException as error:
        if views is not None and is_agreed(error, comm):
            views.close()
        if array is not None:
            array.close()
        raise
    return ParallelArray._join(array, agreement, hints, views, stage_bytes(file))


def _is_one_host(agreement: Agreement) -> bool:
    """Whether all ranks are on one host."""
    comm = agreement.comm
    host = comm.Split_type(library().COMM_TYPE_SHARED)
    with agreement.step() as step:
        step.numbers[0] = int(host.size < comm.size)
    host.Free()
    return not step.numbers[0]
