"""Members of the array API standard beyond NumPy's protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from extarray.common.errors import ArgumentError
from extarray.streaming.blocks import read_elements, view_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

    from extarray.streaming.blocks import Source

__all__ = ["CPU", "device", "namespace", "provide", "to_device", "to_dlpack"]

#: Device of all arrays, as DLPack has it: a type, and a number.
CPU = (1, 0)

_A = TypeVar("_A", bound="Source")

_load: list[Callable[[], ModuleType]] = []


def provide(load: Callable[[], ModuleType]) -> None:
    """Set the function that imports the namespace of the array API standard; it stands above."""
    _load[:] = [load]


def to_dlpack(
    array: Source,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """Give the elements by DLPack: not to copy them, one chunk has to hold them."""
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
    """Return the namespace of the array API standard; no newer version of it than there is."""
    found = _load[0]()
    if api_version is not None and api_version > found.__array_api_version__:
        raise ArgumentError(
            f"version {api_version!r} of the array API standard is not supported; the newest "
            f"is {found.__array_api_version__!r}"
        )
    return found


def device(array: Source) -> str:
    """Return the place of the elements, in the words of the array API standard: "cpu"."""
    return "cpu"


def to_device(array: _A, device: str, /, *, stream: Any = None) -> _A:
    """Return the array itself: elements stay where they are.

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
