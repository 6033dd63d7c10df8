"""Functions whose signature or result the standard defines differently from NumPy.

The standard describes the parameters; the docstrings describe only differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from extarray.array import creation
from extarray.array.array import ExtArray
from extarray.array_api.results import as_arrays
from extarray.common.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    Array = Any  # ExtArray, or anything that NumPy makes an array of
    Shape = int | Sequence[int]

__all__ = [
    "__array_namespace_info__",
    "argsort",
    "asarray",
    "astype",
    "broadcast_arrays",
    "clip",
    "empty",
    "empty_like",
    "finfo",
    "from_dlpack",
    "full",
    "full_like",
    "iinfo",
    "meshgrid",
    "ones",
    "ones_like",
    "sort",
    "zeros",
    "zeros_like",
]

#: Most axes of an array.
_MAX_NDIM = 32


def _check_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ArgumentError(f"device {device!r} is not supported; use 'cpu'")


# -- creation ------------------------------------------------------------------------------------


def asarray(
    obj: Any, /, *, dtype: DTypeLike | None = None, device: Any = None, copy: bool | None = None
) -> ExtArray:
    """Make an array of ours, in memory, of any object; return one of ours as it is.

    Parameters
    ----------
    obj : array_like
    dtype : dtype, optional
    device : "cpu", optional
    copy : bool, optional
        False: raise an error if elements would have to be copied.
    """
    _check_device(device)
    if isinstance(obj, ExtArray) and not copy and dtype in (None, obj.dtype):
        return obj
    if copy is False:
        raise ArgumentError(
            "an extarray array has its own storage, so elements must be copied; use copy=None"
        )
    if isinstance(obj, ExtArray):
        return astype(obj, obj.dtype if dtype is None else dtype)
    if isinstance(obj, (list, tuple)):
        obj = _plain(obj)
    return creation.from_array(np.asarray(obj, dtype))


def _plain(value: Any) -> Any:
    """Replace our arrays in nested lists by NumPy's."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return np.asarray(value) if isinstance(value, ExtArray) else value


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> ExtArray:
    """Copy the elements of another library's array.

    Parameters
    ----------
    x : object
        Has the method ``__dlpack__``.
    device : "cpu", optional
    copy : bool, optional
        False is an error, unless `x` is an array of ours.
    """
    _check_device(device)
    if isinstance(x, ExtArray) or copy is False:
        return asarray(x, copy=copy)
    return creation.from_array(np.from_dlpack(x))


def empty(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> ExtArray:
    """Create an array whose elements are to be set."""
    return zeros(shape, dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> ExtArray:
    """Create an array of zeros."""
    _check_device(device)
    return creation.zeros(shape, float if dtype is None else dtype)


def ones(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> ExtArray:
    """Create an array of ones."""
    return full(shape, 1, dtype=float if dtype is None else dtype, device=device)


def full(
    shape: Shape, fill_value: Any, *, dtype: DTypeLike | None = None, device: Any = None
) -> ExtArray:
    """Create an array of one value."""
    _check_device(device)
    return creation.full(shape, fill_value, dtype)


def empty_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> ExtArray:
    """Create an array with the shape of another, whose elements are to be set."""
    return zeros_like(x, dtype=dtype, device=device)


def zeros_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> ExtArray:
    """Create an array of zeros with the shape of another."""
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype, device=device)


def ones_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> ExtArray:
    """Create an array of ones with the shape of another."""
    return full_like(x, 1, dtype=dtype, device=device)


def full_like(
    x: Array, /, fill_value: Any, *, dtype: DTypeLike | None = None, device: Any = None
) -> ExtArray:
    """Create an array of one value with the shape of another."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


def meshgrid(*arrays: Array, indexing: Literal["xy", "ij"] = "xy") -> list[ExtArray]:
    """Make coordinate matrices, as `numpy.meshgrid` does."""
    return list(as_arrays(np.meshgrid(*arrays, indexing=indexing)))


def broadcast_arrays(*arrays: Array) -> list[ExtArray]:
    """Copy arrays to one shape, that of `numpy.broadcast_arrays`."""
    return list(as_arrays(np.broadcast_arrays(*arrays)))


# -- data types ----------------------------------------------------------------------------------


def astype(x: Array, dtype: DTypeLike, /, *, copy: bool = True, device: Any = None) -> ExtArray:
    """Copy an array to another dtype; elements are cast block by block.

    Parameters
    ----------
    x : ExtArray
    dtype : dtype
    copy : bool
        False: return `x` itself if it has the dtype.
    device : "cpu", optional
    """
    _check_device(device)
    if not copy and x.dtype == dtype and isinstance(x, ExtArray):
        return x
    new = creation.create(None, x.shape, dtype)
    new[...] = x
    return new


class Finfo(NamedTuple):
    """Limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


class Iinfo(NamedTuple):
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def _dtype_of(x: Any) -> np.dtype[Any]:
    return np.dtype(x.dtype if isinstance(x, (ExtArray, np.ndarray, np.generic)) else x)


def finfo(type: Any, /) -> Finfo:  # noqa: A002 -- the standard's name
    """Return the limits of a floating-point dtype, or of the parts of a complex dtype."""
    found = np.finfo(_dtype_of(type))
    return Finfo(
        found.bits,
        float(found.eps),
        float(found.max),
        float(found.min),
        float(found.smallest_normal),
        found.dtype,
    )


def iinfo(type: Any, /) -> Iinfo:  # noqa: A002 -- the standard's name
    """Return the limits of an integer dtype."""
    found = np.iinfo(_dtype_of(type))
    return Iinfo(found.bits, found.max, found.min, found.dtype)


# -- elements ------------------------------------------------------------------------------------


def clip(x: Array, /, min: Any = None, max: Any = None) -> ExtArray:  # noqa: A002
    """Limit elements to a range."""
    result: ExtArray = as_arrays(np.clip(x, min, max))
    return result


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ExtArray:
    """Sort elements."""
    result = np.sort(x, axis=axis, stable=stable)
    found: ExtArray = as_arrays(np.flip(result, axis) if descending else result)
    return found


def argsort(
    x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> ExtArray:
    """Return the indices that sort elements.

    Parameters
    ----------
    x : ExtArray
    axis : int
    descending : bool
    stable : bool
        Equal elements keep their order.
    """
    if descending:
        # Reverse twice, so that equal elements keep their order.
        backwards = np.argsort(np.flip(x, axis), axis=axis, stable=stable)
        result = x.shape[axis] - 1 - np.flip(backwards, axis)
    else:
        result = np.argsort(x, axis=axis, stable=stable)
    found: ExtArray = as_arrays(result)
    return found


# -- capabilities of the namespace ---------------------------------------------------------------


class Info:
    """The inspection functions of the standard: dtypes, devices, capabilities."""

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities that some libraries lack."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": _MAX_NDIM,
        }

    def default_device(self) -> str:
        """Return the device of new arrays."""
        return "cpu"

    def devices(self) -> list[str]:
        """Return the available devices."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Return the dtypes of new arrays, which are NumPy's."""
        _check_device(device)
        return dict(np.__array_namespace_info__().default_dtypes())

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """Return the dtypes of a kind, which are NumPy's."""
        _check_device(device)
        return dict(np.__array_namespace_info__().dtypes(kind=kind))


def __array_namespace_info__() -> Info:  # noqa: N807 -- the standard's name
    """Return the inspection functions of the namespace."""
    return Info()
