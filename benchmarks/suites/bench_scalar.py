"""One element by its indices: the cost of the call itself."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.model import Case, Group, Operation, Target
from benchmarks.sizes import NUMPY, Scale
from benchmarks.workspace import Workspace

from .common import FASTER_THAN_PEERS, Suite, generator

Index = tuple[int, int, int]


def scalar(scale: Scale) -> Group:
    count = scale.repetitions
    middle = (scale.side // 2 + 1,) * 3
    everywhere = generator().integers(0, scale.side, (count, 3)).tolist()
    places = {
        "one place": [middle] * count,
        "random places": [tuple(index) for index in everywhere],
    }
    chunk = scale.chunks[0]
    return Group(
        "scalar",
        "One element, a[i, j, k]",
        tuple(
            Case(
                f"{action.__name__}, {place}",
                action(chunk, indices),
                targets=(Target(2, NUMPY), FASTER_THAN_PEERS),
                per=count,
            )
            for action in (get, put)
            for place, indices in places.items()
        ),
        disk=scale.cube_bytes,
    )


def get(chunk: int, indices: list[Index]) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        array = workspace.cube(chunk).array

        def run() -> None:
            for index in indices:
                array[index]

        def check() -> None:
            assert all(array[index] == workspace.source[index] for index in indices)

        return Operation(run, check=check)

    return prepare


def put(chunk: int, indices: list[Index]) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)
        array = cube.array
        values = [workspace.source[index].item() for index in indices]
        pairs = list(zip(indices, values, strict=True))

        def run() -> None:
            for index, value in pairs:
                array[index] = value

        return Operation(run, after=cube.tidy)

    return prepare


class Scalar(Suite):
    group = staticmethod(scalar)
