from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

@disjoint_base
class Parts:
    def __init__(
        self,
        offsets: NDArray[np.int64],
        pieces: NDArray[np.int32],
        counts: NDArray[np.int64],
        positions: NDArray[np.int64],
        strides: Sequence[int],
        axes: Sequence[int],
        itemsize: int,
        gaps: bool,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def nbytes(self) -> NDArray[np.int64]: ...
    @property
    def n_runs(self) -> NDArray[np.int64]: ...
    def runs(self, first: int, stop: int) -> tuple[list[int], list[int]]: ...
    def move(
        self,
        first: int,
        stop: int,
        buffer: NDArray[np.uint8],
        values: NDArray[Any],
        write: bool,
        stream: bool,
    ) -> None: ...
