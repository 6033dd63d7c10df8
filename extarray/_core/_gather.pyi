import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from extarray._core._axial import Axial

@disjoint_base
class Plan:
    def __init__(self, axial: Axial) -> None: ...
    def add_progression(
        self, axis: int, start: int, step: int, count: int, user_step: int
    ) -> None: ...
    def add_points(
        self,
        axes: tuple[int, ...],
        indices: tuple[NDArray[np.intp], ...],
        user_steps: tuple[int, ...],
    ) -> None: ...
    def add_places(
        self,
        axis: int,
        origin: tuple[int, ...],
        extents: tuple[int, ...],
        places: NDArray[np.int64],
        user_step: int,
    ) -> None: ...
    def add_mask(
        self,
        axis: int,
        origin: tuple[int, ...],
        mask: NDArray[np.bool_],
        count: int,
        user_step: int,
    ) -> None: ...
