"""Elements in C order, read and written piece by piece: iteration, ``flat``, files."""

from __future__ import annotations

import contextlib
import operator
import os
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, BoundsError, SelectionError
from extarray.grid.chunking import product
from extarray.numpy_api.indexing import cycled, gather, pieces, place_bytes, scatter
from extarray.numpy_api.registry import streams
from extarray.streaming.blocks import Source, read_elements, write_elements
from extarray.streaming.derived import flat
from extarray.streaming.elementwise import part_of
from extarray.streaming.limits import check_result
from extarray.streaming.meta_arrays import shadow
from extarray.streaming.operands import converted, in_memory, step_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import ArrayLike, NDArray


__all__ = ["FlatElements", "ndenumerate", "tofile"]


def ndenumerate(a: Source) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Iterate over the elements in C order, with their indices.

    ``np.ndenumerate`` yields the same, but reads the whole array first.

    Parameters
    ----------
    a : ExtArray

    Yields
    ------
    index : tuple of int
    element : scalar

    Notes
    -----
    At most ``config.max_memory`` bytes are in memory at a time.

    Examples
    --------
    >>> import extarray as xa
    >>> for index, element in xa.ndenumerate(xa.from_array([[1, 2], [3, 4]])):
    ...     print(index, element)
    (0, 0) 1
    (0, 1) 2
    (1, 0) 3
    (1, 1) 4
    """
    return zip(product(*map(range, a.shape)), FlatElements(a), strict=False)


class FlatElements:
    """The elements of an array in C order, like `numpy.flatiter`: the array's ``flat``.

    Iteration reads piece by piece; indexing reads only the selected elements.

    Parameters
    ----------
    base : ExtArray

    Attributes
    ----------
    base : ExtArray

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
    >>> a.flat[2:5]
    array([3, 4, 5])
    >>> a.flat[[0, -1]] = 0
    >>> [int(x) for x in a.flat]
    [0, 2, 3, 4, 5, 0]
    """

    __slots__ = ("base",)

    def __init__(self, base: Any) -> None:
        self.base = base

    def __len__(self) -> int:
        size: int = flat(self.base).shape[0]
        return size

    def __iter__(self) -> Iterator[Any]:
        elements = flat(self.base)
        for piece in pieces(elements):
            yield from part_of(elements, (piece,))

    def __getitem__(self, key: Any) -> Any:
        places = self._places(key)
        if not isinstance(places, range):
            return np.take(self.base, places)
        if places.step != 1:
            return gather(self.base, places)
        check_result(
            len(places) * self.base.dtype.itemsize, "the result of flat", "fewer elements at a time"
        )
        return read_elements(flat(self.base), (slice(places.start, places.start + len(places)),))

    def __setitem__(self, key: Any, values: ArrayLike) -> None:
        if isinstance(key, tuple) and not key:
            raise SelectionError("Assigning to a flat iterator with a 0-D index is not supported.")
        places = self._places(key)
        dtype = self.base.dtype
        values = in_memory(values, "flat")
        if isinstance(places, int):
            one = np.empty(1, dtype)
            one.flat[0] = values  # refuses what NumPy refuses
            scatter(self.base, range(places, places + 1), one)
            return
        new = np.ravel(converted(values, dtype))
        if not isinstance(places, range) or places.step != 1 or not len(new):
            scatter(self.base, places, new)
            return
        elements = flat(self.base)
        step = max(1, step_bytes() // (dtype.itemsize + place_bytes(elements)))
        for low in range(0, len(places), step):
            some = places[low : low + step]
            write_elements(
                elements,
                (slice(some.start, some.stop),),
                cycled(new, low, low + len(some)).astype(dtype),
            )

    def _places(self, key: Any) -> range | NDArray[np.intp] | int:
        """Return the places in C order, each in [0, size); a range for a slice."""
        n = len(self)
        if isinstance(key, tuple) and len(key) == 1:
            (key,) = key
        if key is Ellipsis or (isinstance(key, tuple) and not key):
            return range(n)
        if isinstance(key, slice):
            return range(*key.indices(n))
        if not isinstance(key, (bool, np.bool_)):
            with suppress(TypeError):
                key = operator.index(key)
        if type(key) is int:
            if not -n <= key < n:
                raise BoundsError(f"index {key} is out of bounds for size {n}")
            return key % n
        chosen = np.asarray(key)
        if isinstance(key, Source):
            key = chosen
        if chosen.dtype.kind == "b":
            is_usual = chosen.shape == (n,) and not isinstance(key, list)
        else:
            is_usual = chosen.dtype.kind in "iu" or not chosen.size
        if not is_usual or isinstance(key, tuple):
            # NumPy refuses this, or accepts it with a warning, depending on its version.
            try:
                shadow(self.base).flat[key]
            except IndexError as error:
                raise SelectionError(str(error)) from None
        if chosen.dtype.kind == "b":
            return np.flatnonzero(chosen)
        places = chosen.astype(np.intp)
        wrong = places[(places < -n) | (places >= n)]
        if wrong.size:
            raise BoundsError(f"index {wrong[0]} is out of bounds for size {n}")
        return np.where(places < 0, places + n, places)

    def copy(self) -> NDArray[Any]:
        """Return a copy of the elements.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import extarray as xa
        >>> xa.ones((2, 2)).flat.copy()
        array([1., 1., 1., 1.])
        """
        elements: NDArray[Any] = read_elements(self.base).reshape(-1)
        return elements

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.copy(), dtype)


def tofile(a: Source, fid: Any, sep: str = "", format: str = "%s") -> None:
    """Write the elements of an array to a file in C order: the method ``tofile``."""
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
    """Open the file to write to; a path gets the suffix."""
    if hasattr(file, "write"):
        return contextlib.nullcontext(file)
    path = os.fspath(file)
    return open(path if path.endswith(suffix) else path + suffix, "wb")


@streams(np.save)
def save(file: Any, arr: Any, allow_pickle: bool = True, **options: Any) -> Any:
    """Streamed form: write an array to a file of the format .npy."""
    if not isinstance(arr, Source) or options:
        return NotImplemented
    with _opened(file, ".npy") as opened:
        _write_npy(opened, arr)
    return None


def _save_all(
    file: Any, args: tuple[Any, ...], named: dict[str, Any], compression: int, allow_pickle: bool
) -> None:
    """Write arrays to an archive, each as a member in the format .npy."""
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
    """Streamed form: write arrays to an archive of the format .npz."""
    _save_all(file, args, kwds, zipfile.ZIP_STORED, allow_pickle)


@streams(np.savez_compressed)
def savez_compressed(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Streamed form: write arrays to a compressed archive of the format .npz."""
    _save_all(file, args, kwds, zipfile.ZIP_DEFLATED, allow_pickle)
