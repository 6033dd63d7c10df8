"""What an array of ours has of an ndarray: operators, protocols, methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from extarray.errors import ArgumentError
from extarray.protocols.blocks import Source
import extarray.protocols.catalogue  # noqa: F401 -- registers the streamed forms
from extarray.protocols.functions import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import DTypeLike, NDArray

__all__ = ["NumpyMixin"]


class NumpyMixin(Source):
    """NumPy's protocols on what can be read and written box by box."""

    __slots__ = ()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ArgumentError(
                "an ExtArray cannot become a NumPy array without a copy; use copy=None, or the "
                "views that chunk() gives"
            )
        result = self.read()
        return result if dtype is None else result.astype(dtype, copy=False)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        return dispatch(function, types, args, kwargs)
