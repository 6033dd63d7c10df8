from collections.abc import Iterable, Sequence
from typing import Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

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
    # For the array that owns the vectors, and its store.
    def _own(self) -> None: ...
    def _grow(
        self, steps: Iterable[tuple[SupportsIndex, SupportsIndex, Literal["end", "start"]]]
    ) -> None: ...
    def _mark(self) -> _Mark: ...
    def _rollback(self, mark: _Mark) -> None: ...
    def _record(self, segment: int) -> tuple[int, int, tuple[int, ...]]: ...
    def _with_axis(self, position: int) -> Self: ...
    def _growth(self, segment: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]: ...
    @classmethod
    def _replay(
        cls,
        axes: NDArray[np.uint8],
        sides: NDArray[np.uint8],
        grids: NDArray[np.int64],
        grid: Sequence[int],
    ) -> Self: ...
    def _replay_more(
        self,
        axes: NDArray[np.uint8],
        sides: NDArray[np.uint8],
        grids: NDArray[np.int64],
        grid: Sequence[int],
    ) -> None: ...
    def _starts_after(
        self,
        axes: NDArray[np.uint8],
        sides: NDArray[np.uint8],
        grids: NDArray[np.int64],
        grid: Sequence[int],
    ) -> list[int]: ...
