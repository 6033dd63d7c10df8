"""Large selections: reads and writes of slabs, creation of a file, two threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.model import Case, Group, Operation, Target
from benchmarks.sizes import NUMPY, OURS, PEERS, Layout, Scale
from benchmarks.workspace import Workspace

from .common import FASTER_THAN_MEMMAP, FASTER_THAN_PEERS, Suite, reading

#: At least 0.8 of NumPy's speed.
NEAR_NUMPY = Target(1.25, NUMPY)
ABOVE_NUMPY = Target(1.0, NUMPY)
#: Limit of a slab's time in small chunks over that in large ones: beyond is a cliff.
CLIFF = 2.0

Prepare = Callable[[Workspace], Operation]
Action = Callable[[int, Any], Prepare]


def read(chunk: int, selection: Any, order: str = "C") -> Prepare:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)
        return reading(lambda: cube.read(selection, order), lambda: workspace.source[selection])

    return prepare


def read_fortran(chunk: int, selection: Any) -> Prepare:
    return read(chunk, selection, "F")


def read_into(chunk: int, selection: Any) -> Prepare:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)
        out = workspace.warm(workspace.source[selection].shape)
        return reading(lambda: cube.read_into(selection, out), lambda: workspace.source[selection])

    return prepare


def write(chunk: int, selection: Any) -> Prepare:
    def prepare(workspace: Workspace) -> Operation:
        cube = workspace.cube(chunk)
        values = np.ascontiguousarray(workspace.source[selection])
        return Operation(lambda: cube.write(selection, values), after=cube.tidy)

    return prepare


def slab(scale: Scale) -> Group:
    middle = scale.side // 2 + 1
    whole = (slice(None),) * 3
    box = (slice(scale.side // 5 + 3, 7 * scale.side // 10 + 3),) * 3
    planes = [(*whole[:axis], middle, *whole[axis + 1 :]) for axis in range(3)]
    plans: list[tuple[str, Action, Any, Target]] = [
        ("read all", read, whole, NEAR_NUMPY),
        ("read all into out", read_into, whole, ABOVE_NUMPY),
        ("read all in F order", read_fortran, whole, NEAR_NUMPY),
        ("read unaligned box", read, box, NEAR_NUMPY),
        ("read unaligned box into out", read_into, box, NEAR_NUMPY),
        ("read box in F order", read_fortran, box, NEAR_NUMPY),
        ("read [::4, ::4, ::4]", read, (slice(None, None, 4),) * 3, NEAR_NUMPY),
        # C order serves the last axis badly: one element of each row.
        *(
            (f"read plane across axis {axis}", read, plane, NEAR_NUMPY if axis < 2 else ABOVE_NUMPY)
            for axis, plane in enumerate(planes)
        ),
        ("write all", write, whole, NEAR_NUMPY),
        ("write unaligned box", write, box, NEAR_NUMPY),
        ("write [::4, ::4, ::4]", write, (slice(None, None, 4),) * 3, NEAR_NUMPY),
        *(
            (f"write plane across axis {axis}", write, plane, NEAR_NUMPY)
            for axis, plane in enumerate(planes)
        ),
    ]
    return Group(
        "slab",
        "Slabs of a cube, warm page cache",
        tuple(
            Case(
                f"{name}, {chunk}³",
                action(chunk, selection),
                targets=(target, FASTER_THAN_MEMMAP, FASTER_THAN_PEERS)
                if chunk == scale.chunks[0]
                else (Target(CLIFF, f"{name}, {scale.chunks[0]}³", same_candidate=True),),
            )
            for chunk in scale.chunks
            for name, action, selection, target in plans
        ),
        disk=scale.cube_bytes,
    )


def create(scale: Scale) -> Group:
    def first_write(chunk: int) -> Prepare:
        def prepare(workspace: Workspace) -> Operation:
            workspace.drop_cube()
            layout = Layout(workspace.source.shape, (chunk,) * 3)

            def run() -> None:
                workspace.new(layout).write(..., workspace.source)
                workspace.close_new()

            return Operation(run, before=workspace.drop, after=workspace.drop)

        return prepare

    return Group(
        "create",
        "First write of a fresh file: create, write all, close",
        tuple(
            Case(f"create, {chunk}³", first_write(chunk), targets=(Target(1 / 1.2, PEERS),))
            for chunk in scale.chunks
        ),
        disk=scale.cube_bytes,
    )


def threads(scale: Scale) -> Group:
    chunk = scale.chunks[0]
    planes = -(-scale.slab // scale.side**2)
    part = slice(1, planes + 1)
    halves = (slice(1, planes // 2 + 1), slice(planes // 2 + 1, planes + 1))

    def read_halves(workspace: Workspace) -> Operation:
        """Read with two threads of the caller, one of ours each: they meet only in the GIL."""
        cube = workspace.cube(chunk)
        out = workspace.warm(workspace.source[part].shape)
        pool = ThreadPoolExecutor(2)
        outs = (out[: planes // 2], out[planes // 2 :])

        def run() -> np.ndarray:
            list(pool.map(cube.read_into, halves, outs))
            return out

        return reading(run, lambda: workspace.source[part])

    def both(name: str, action: Prepare) -> tuple[Case, Case]:
        one = Case(f"{name}, 1 thread", action)
        target = Target(1 / 1.5, one.name, same_candidate=True)
        return one, replace(one, name=f"{name}, 2 threads", threads=2, targets=(target,))

    cases = (
        *both("read slab into out", read_into(chunk, part)),
        *both("read slab in F order", read_fortran(chunk, part)),
        *both("write slab", write(chunk, part)),
    )
    callers = Case(
        "read slab into out, 2 callers",
        read_halves,
        targets=(Target(1 / 1.5, cases[0].name, same_candidate=True),),
    )
    return Group(
        "threads",
        f"Slab of {planes * scale.side**2 * 8 / 2**20:.0f} MiB with two threads",
        (*cases, callers),
        disk=scale.cube_bytes,
        absolute=True,
        candidates=(NUMPY, *OURS),
        turn=0.3,
    )


class Slab(Suite):
    group = staticmethod(slab)


class Create(Suite):
    group = staticmethod(create)


class Threads(Suite):
    group = staticmethod(threads)
