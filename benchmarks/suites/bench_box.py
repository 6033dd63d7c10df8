"""Small boxes at random, unaligned places: between one element and a slab."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.model import Case, Group, Operation, Target
from benchmarks.sizes import NUMPY, Scale
from benchmarks.workspace import Workspace

from .common import FASTER_THAN_PEERS, Suite, generator

Slices = tuple[slice, slice, slice]


def box(scale: Scale) -> Group:
    return Group(
        "box",
        "Small boxes at random places, warm page cache",
        tuple(
            Case(
                f"{action.__name__} {side}³ boxes, {chunk}³",
                action(chunk, random_boxes(scale, side)),
                targets=(Target(2, NUMPY), FASTER_THAN_PEERS),
                per=scale.repetitions,
            )
            for chunk in scale.chunks
            for action in (read, write)
            for side in scale.boxes
        ),
        disk=scale.cube_bytes,
    )


def random_boxes(scale: Scale, side: int) -> list[Slices]:
    corners = generator().integers(0, scale.side - side, (scale.repetitions, 3)).tolist()
    return [tuple(slice(start, start + side) for start in corner) for corner in corners]


def read(chunk: int, boxes: list[Slices]) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)

        def run() -> None:
            for selection in boxes:
                cube.read(selection)

        def check() -> None:
            for selection in boxes:
                np.testing.assert_array_equal(cube.read(selection), workspace.source[selection])

        return Operation(run, check=check)

    return prepare


def write(chunk: int, boxes: list[Slices]) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)
        parts = [(selection, workspace.source[selection].copy()) for selection in boxes]

        def run() -> None:
            for selection, values in parts:
                cube.write(selection, values)

        return Operation(run, after=cube.tidy)

    return prepare


class Box(Suite):
    group = staticmethod(box)
