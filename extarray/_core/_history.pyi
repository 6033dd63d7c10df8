from collections.abc import Iterable, Sequence
from typing import Literal, Self, SupportsIndex, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_H = TypeVar("_H", bound=History)
_Mark: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...]]

@disjoint_base
class History:
    def __new__(cls, grid: Iterable[SupportsIndex]) -> Self: ...
    @property
    def grid(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def segments(self) -> int: ...
    def _grid_after(self, segment: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]: ...

# For the array that owns the vectors, and its store.
def claim(self: History) -> None: ...
def grow_by(
    self: History,
    steps: Iterable[tuple[SupportsIndex, SupportsIndex, Literal["end", "start"]]],
) -> None: ...
def mark_of(self: History) -> _Mark: ...
def roll_back(self: History, mark: _Mark) -> None: ...
def record_at(self: History, segment: int) -> tuple[int, int, tuple[int, ...]]: ...
def records_from(
    self: History, first: SupportsIndex
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]: ...
def with_axis(self: _H, position: int) -> _H: ...
def replay_log(
    kind: type[_H],
    axes: NDArray[np.uint8],
    sides: NDArray[np.uint8],
    grids: NDArray[np.int64],
    grid: Sequence[int],
) -> _H: ...
def replay_more(
    self: History,
    axes: NDArray[np.uint8],
    sides: NDArray[np.uint8],
    grids: NDArray[np.int64],
    grid: Sequence[int],
) -> None: ...
def starts_after(
    self: History,
    axes: NDArray[np.uint8],
    sides: NDArray[np.uint8],
    grids: NDArray[np.int64],
    grid: Sequence[int],
) -> list[int]: ...
