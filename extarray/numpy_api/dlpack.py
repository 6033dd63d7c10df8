"""What the array API standard wants of an array, beyond NumPy's protocols."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from extarray.common.errors import ArgumentError
from extarray.streaming.blocks import Source

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

__all__ = ["DlpackMixin", "StandardMixin"]


class DlpackMixin(Source):
    """DLPack."""

    __slots__ = ()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        # A copy, unless a view is asked for: then one chunk has to hold everything.
        elements = self._view() if copy is False else self._fetch()
        return elements.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def _view(self) -> NDArray[Any]:
        """View of all elements."""
        if self.size == 0:
            return self._fetch()
        everything = tuple(slice(0, n) for n in self.shape)
        view = self._peek(everything, True)
        if view is None:
            view = self._peek(everything)
        if view is None:
            raise BufferError(
                "elements in several chunks, or cast as they are read, have to be copied; chunk() "
                "gives views"
            )
        return view

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU


class StandardMixin(DlpackMixin):
    """Namespace and device, and DLPack."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        # The namespace stands above the array.
        namespace = importlib.import_module("extarray.array_api")
        if api_version is not None and api_version > namespace.__array_api_version__:
            raise ArgumentError(
                f"version {api_version!r} of the array API standard is not supported; the newest "
                f"is {namespace.__array_api_version__!r}"
            )
        return namespace

    @property
    def device(self) -> str:
        """Where the elements are, in the words of the array API standard: "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """Return the array itself: elements stay where they are.

        Parameters
        ----------
        device : "cpu"
        stream : None

        Returns
        -------
        ExtArray

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
            raise ArgumentError(f"device {device!r}, stream {stream!r}: there is 'cpu', and None")
        return self
