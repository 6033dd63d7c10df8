from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import (
    Any,
    Literal,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extarray._core._transfers import Transfers

_Out = TypeVar("_Out", bound=NDArray[Any])
# Integers, slices, ... and None; arrays, lists and masks; names of fields.
_Entry: TypeAlias = SupportsIndex | slice | EllipsisType | ArrayLike | None
_Selection: TypeAlias = _Entry | tuple[_Entry, ...]

class ArrayCore(Transfers):
    def __getitem__(self, key: _Selection, /) -> Any: ...

    # Values are whatever NumPy's assignment takes, which is more than ArrayLike: dates, say.
    def __setitem__(self, key: _Selection, value: Any, /) -> None: ...
    @overload
    def read(
        self, selection: _Selection = ..., out: None = None, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]: ...
    @overload
    def read(self, selection: _Selection, out: _Out, order: Literal["C", "F"] = "C") -> _Out: ...
    @overload
    def read(
        self, selection: _Selection = ..., *, out: _Out, order: Literal["C", "F"] = "C"
    ) -> _Out: ...
    def write(self, selection: _Selection, values: Any) -> None: ...
    def chunk(self, index: SupportsIndex | Iterable[SupportsIndex]) -> NDArray[Any]: ...

    # For the array class that derives from this one.
    def _check_out(
        self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None: ...
    def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any: ...
    def _overlaps(self, values: NDArray[Any]) -> bool: ...
    def _read_box(self, start: Sequence[int], stop: Sequence[int]) -> NDArray[Any]: ...
    def _write_box(
        self, start: Sequence[int], stop: Sequence[int], values: NDArray[Any]
    ) -> None: ...
    def _read_exact(self, key: tuple[Any, ...]) -> NDArray[Any]: ...
    def _write_exact(self, key: tuple[Any, ...], values: Any) -> None: ...
    def _peek(self, box: tuple[slice, ...], writable: bool = False) -> NDArray[Any] | None: ...

def is_of_a_chunk(values: NDArray[Any]) -> bool: ...
