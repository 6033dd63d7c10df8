"""Writing the elements of an array to a file, piece by piece in C order."""

from __future__ import annotations

import contextlib
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError
from extarray.numpy_api.choosing import pieces
from extarray.streaming.blocks import Source
from extarray.streaming.derived import flat
from extarray.streaming.elementwise import part_of
from extarray.streaming.functions import streams

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["tofile"]


def tofile(a: Source, fid: Any, sep: str = "", format: str = "%s") -> None:
    """Write the elements of an array to a file, in C order: its method ``tofile``.

    Parameters
    ----------
    a : Source
    fid : str, PathLike or file
        An open file has to be one of the operating system.
    sep : str
        Between elements that are written as text; "": in binary.
    format : str
        Of an element as text, for ``%``.
    """
    elements = flat(a)
    opened: AbstractContextManager[Any] = (
        contextlib.nullcontext(fid) if hasattr(fid, "write") else open(os.fspath(fid), "wb")  # noqa: SIM115
    )
    with opened as file:
        for piece in pieces(elements):
            if sep and piece.start:
                np.frombuffer(sep.encode("latin1"), np.uint8).tofile(file)
            np.ascontiguousarray(part_of(elements, (piece,))).tofile(file, sep, format)


def _write_npy(file: Any, a: Source) -> None:
    """Write an array in NumPy's format."""
    facts = {
        "descr": np.lib.format.dtype_to_descr(a.dtype),
        "fortran_order": False,
        "shape": a.shape,
    }
    try:
        np.lib.format.write_array_header_1_0(file, facts)
    except ValueError:  # too long for the first version of the format
        np.lib.format.write_array_header_2_0(file, facts)
    elements = flat(a)
    for piece in pieces(elements):
        block = np.ascontiguousarray(part_of(elements, (piece,)))
        file.write(block.view(np.uint8).data if block.dtype.kind in "biufc?" else block.tobytes())


def _opened(file: Any, suffix: str) -> AbstractContextManager[Any]:
    """The file to write to: opened where it is a path, which gets its suffix."""
    if hasattr(file, "write"):
        return contextlib.nullcontext(file)
    path = os.fspath(file)
    return open(path if path.endswith(suffix) else path + suffix, "wb")


@streams(np.save)
def save(file: Any, arr: Any, allow_pickle: bool = True, **options: Any) -> Any:
    """Streamed form: an array to a file of the format .npy."""
    if not isinstance(arr, Source) or options:
        return NotImplemented
    with _opened(file, ".npy") as opened:
        _write_npy(opened, arr)
    return None


def _save_all(
    file: Any, args: tuple[Any, ...], named: dict[str, Any], compression: int, allow_pickle: bool
) -> None:
    """Write arrays to an archive, each as a file of the format .npy."""
    for i, x in enumerate(args):
        if f"arr_{i}" in named:
            raise ArgumentError(f"Cannot use un-named variables and keyword arr_{i}")
        named[f"arr_{i}"] = x
    with (
        _opened(file, ".npz") as opened,
        zipfile.ZipFile(opened, "w", compression, allowZip64=True) as archive,
    ):
        for name, x in named.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if isinstance(x, Source):
                    _write_npy(member, x)
                else:
                    np.lib.format.write_array(member, np.asanyarray(x), allow_pickle=allow_pickle)


@streams(np.savez)
def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Streamed form: arrays to an archive of the format .npz."""
    _save_all(file, args, kwds, zipfile.ZIP_STORED, allow_pickle)


@streams(np.savez_compressed)
def savez_compressed(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Streamed form: arrays to a compressed archive of the format .npz."""
    _save_all(file, args, kwds, zipfile.ZIP_DEFLATED, allow_pickle)
