"""Selections by arrays: rows in any order, masks, points anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.model import Case, Group, Operation, Target
from benchmarks.peers.base import Peer
from benchmarks.sizes import NUMPY, Scale
from benchmarks.workspace import Workspace

from .common import Suite, generator, reading

TARGETS = (Target(2, NUMPY), Target(1 / 20, "h5py"), Target(1 / 5, "zarr"))

Shape = tuple[int, ...]
#: Returns an array of a workspace and its values.
Open = Callable[[Workspace], tuple[Peer, np.ndarray]]


def fancy(scale: Scale) -> Group:
    side, chunk = scale.side, scale.chunks[0]
    arrays: list[tuple[str, Shape, Open]] = [
        (f"{chunk}³", (side,) * 3, cube(chunk)),
        (f"{round(chunk**1.5)}²", (8 * side, side**2 // 8), sheet(chunk)),
    ]
    few = {"half the rows, any order": rows, "mask, 1% true": mask(0.01)}
    selections = few | {
        "mask, a tenth true": mask(0.1),
        f"{scale.points:,} points": points(scale.points),
    }
    return Group(
        "fancy",
        "Selections by arrays, warm page cache",
        tuple(
            Case(f"{action.__name__} {name}, {chunks}", action(array, select(shape)), TARGETS)
            for (chunks, shape, array), chosen in zip(arrays, (selections, few), strict=True)
            for action in (read, write)
            for name, select in chosen.items()
        ),
        disk=scale.cube_bytes,
    )


def cube(chunk: int) -> Open:
    return lambda workspace: (workspace.cube(chunk), workspace.source)


def sheet(chunk: int) -> Open:
    return lambda workspace: (workspace.sheet(chunk), workspace.sheet_source)


# A selection is made when needed: masks are large.
def rows(shape: Shape) -> Callable[[], np.ndarray]:
    return lambda: generator().permutation(shape[0])[: shape[0] // 2]


def mask(share: float) -> Callable[[Shape], Callable[[], np.ndarray]]:
    return lambda shape: lambda: generator().random(shape) < share


def points(count: int) -> Callable[[Shape], Callable[[], tuple[np.ndarray, ...]]]:
    # One generator for all axes: with one each, the points would lie on the diagonal.
    return lambda shape: lambda: tuple(generator().integers(0, shape, (count, len(shape))).T.copy())


def read(array: Open, select: Callable[[], Any]) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        candidate, values = array(workspace)
        selection = select()
        return reading(lambda: candidate.pick(selection), lambda: values[selection])

    return prepare


def write(array: Open, select: Callable[[], Any]) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        candidate, source = array(workspace)
        selection = select()
        values = source[selection]

        def check() -> None:
            np.testing.assert_array_equal(candidate.pick(selection), values)

        return Operation(
            lambda: candidate.put(selection, values), after=candidate.tidy, check=check
        )

    return prepare


class Fancy(Suite):
    group = staticmethod(fancy)
