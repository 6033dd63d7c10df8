"""Members of the array API standard beyond NumPy's protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from extarray.common.errors import ArgumentError
from extarray.common.lazy import Upward
from extarray.streaming.blocks import read_elements, view_of

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from extarray.streaming.blocks import Source

__all__ = ["CPU", "device", "namespace", "to_device", "to_dlpack"]

#: Device of all arrays, as DLPack has it: a type, and a number.
CPU = (1, 0)

_A = TypeVar("_A", bound="Source")

_upward = Upward({"extarray.array_api": "__array_api_version__"})


def to_dlpack(
    array: Source,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """Export the elements by DLPack; ``copy=False`` needs them all in one chunk."""
    elements = _view(array) if copy is False else read_elements(array)
    return elements.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)


def _view(array: Source) -> NDArray[Any]:
    """Return a view of all elements."""
    if array.size == 0:
        return read_elements(array)
    everything = tuple(slice(0, n) for n in array.shape)
    view = view_of(array, everything, True)
    if view is None:
        view = view_of(array, everything)
    if view is None:
        raise BufferError(
            "elements in several chunks, or elements that are cast when read, must be copied; "
            "chunk() gives views"
        )
    return view


# -- members of the classes of arrays ------------------------------------------------------------


def namespace(array: Source, *, api_version: str | None = None) -> ModuleType:
    """Return the array API namespace; raise if `api_version` is newer than ours."""
    found = _upward.module("__array_api_version__")
    newest: str = found.__array_api_version__
    if api_version is not None and api_version > newest:
        raise ArgumentError(
            f"version {api_version!r} of the array API standard is not supported; the newest "
            f"is {newest!r}"
        )
    return found


def device(array: Source) -> str:
    """Return the device of the elements, as the array API standard names it: "cpu"."""
    return "cpu"


def to_device(array: _A, device: str, /, *, stream: Any = None) -> _A:
    """Return the array itself, as elements cannot move to another device.

    Parameters
    ----------
    device : "cpu"
    stream : None

    Returns
    -------
    ExtArray or LazyView

    Raises
    ------
    ArgumentError
        A ValueError: another device, or a stream.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.zeros(3)
    >>> a.to_device("cpu") is a
    True
    """
    if device != "cpu" or stream is not None:
        raise ArgumentError(
            f"device {device!r} with stream {stream!r} is not supported; use 'cpu' with None"
        )
    return array
