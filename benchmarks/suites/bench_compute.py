"""Computing out of core: reductions, in place, and from one array into another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.model import Case, Group, Operation, Target
from benchmarks.sizes import DASK, MEMMAP, NUMPY, OURS, Layout, Scale
from benchmarks.workspace import Workspace

from .common import FASTER_THAN_PEERS, Suite

#: At least 0.7 of the speed of NumPy, which has one thread; with two threads, above it.
NEAR_NUMPY = Target(1 / 0.7, NUMPY)
ABOVE_NUMPY = Target(1.0, NUMPY)


def close(run: Callable[[], object], expected: Callable[[], object]) -> Operation:
    """Return an operation whose result is checked once, up to rounding."""
    return Operation(run, check=lambda: np.testing.assert_allclose(run(), expected(), rtol=1e-12))


def total(chunk: int) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)
        return close(cube.total, workspace.source.sum)

    return prepare


def mean(chunk: int, axis: int) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)
        return close(lambda: cube.mean(axis), lambda: workspace.source.mean(axis))

    return prepare


def add_one(chunk: int) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        array = workspace.new(Layout(workspace.source.shape, (chunk,) * 3))
        array.write(..., workspace.source)

        def check() -> None:
            array.add_one()
            part = (slice(1, chunk + 2), 1, 2)
            np.testing.assert_array_equal(array.read(part), workspace.source[part] + 1)

        return Operation(array.add_one, after=array.tidy, check=check)

    return prepare


def square_roots(chunk: int) -> Callable[[Workspace], Operation]:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)
        out = workspace.new(Layout(workspace.source.shape, (chunk,) * 3))

        def run() -> None:
            cube.square_roots(out)

        def check() -> None:
            run()
            part = (slice(1, chunk + 2), 1, 2)
            np.testing.assert_array_equal(out.read(part), np.sqrt(workspace.source[part]))

        return Operation(run, after=out.tidy, check=check)

    return prepare


def compute(scale: Scale) -> Group:
    chunk = scale.chunks[0]
    one = [
        Case(f"{name}, 1 thread", prepare, targets=(NEAR_NUMPY, FASTER_THAN_PEERS))
        for name, prepare in (
            ("a.sum()", total(chunk)),
            *((f"a.mean(axis={axis})", mean(chunk, axis)) for axis in range(3)),
            ("a += 1", add_one(chunk)),
            ("np.sqrt(a, out=b)", square_roots(chunk)),
        )
    ]
    two = [
        replace(
            case,
            name=case.name.replace("1 thread", "2 threads"),
            threads=2,
            targets=(ABOVE_NUMPY, FASTER_THAN_PEERS),
        )
        for case in one
    ]
    return Group(
        "compute",
        "Computing with a cube, warm page cache; NumPy with one thread in all rows",
        tuple(case for pair in zip(one, two, strict=True) for case in pair),
        disk=2 * scale.cube_bytes,
        candidates=(NUMPY, MEMMAP, *OURS, *DASK),
    )


class Compute(Suite):
    group = staticmethod(compute)
