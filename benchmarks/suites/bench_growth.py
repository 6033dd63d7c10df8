"""Growth: appending planes, growing without data, and opening grown arrays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np

from benchmarks.model import Case, Group, Operation, Target
from benchmarks.peers.base import Peer
from benchmarks.sizes import PEERS, SECONDS, Layout, Scale
from benchmarks.workspace import Workspace

from .common import Suite

Prepare = Callable[[Workspace], Operation]

#: Ratio up to which a call's time in another state still counts as flat.
FLAT = 1.5


def append(scale: Scale) -> Group:
    timed = min(30, scale.planes // 3)
    done = scale.planes - timed

    def shape_after(planes: int) -> tuple[int, ...]:
        return tuple(scale.append_start + (planes + 2 - axis) // 3 for axis in range(3))

    def plane(step: int) -> tuple[np.ndarray, int]:
        """Return the data that step number `step` appends, and the axis."""
        axis = step % 3
        shape = list(shape_after(step))
        shape[axis] = 1
        return np.full(shape, 2.0 + step), axis

    def appending(first: int, start: int) -> Prepare:
        """Append planes from number `first` on, to an array that begins with `start` planes."""

        def prepare(workspace: Workspace) -> Operation:
            planes = [plane(step) for step in range(first, first + timed)]
            at_once = start if workspace.peer.replays else first
            layout = Layout(shape_after(at_once), (scale.append_chunk,) * 3, growable=True)
            built: list[Peer] = []

            def build() -> None:
                built[:] = [workspace.new(layout)]
                built[0].write(..., np.ones(layout.shape))
                for step in range(at_once, first):
                    built[0].append(*plane(step))

            def run() -> None:
                for data, axis in planes:
                    built[0].append(data, axis)

            def check() -> None:
                run()
                data, axis = planes[-1]
                last = [slice(None)] * 3
                extent = built[0].shape[axis]
                last[axis] = slice(extent - 1, extent)
                np.testing.assert_array_equal(built[0].read(tuple(last)), data)

            return Operation(run, before=build, check=check)

        return prepare

    def storing(workspace: Workspace) -> Operation:
        """Store the last planes where they would be appended, in an array that has the room."""
        planes = [plane(step) for step in range(done, scale.planes)]
        array = workspace.new(Layout(shape_after(scale.planes), (scale.append_chunk,) * 3))
        array.write(..., np.ones(array.shape))
        places = []
        for step, (_, axis) in enumerate(planes, done):
            first = [0, 0, 0]
            first[axis] = shape_after(step)[axis]
            last = shape_after(step + 1)
            places.append(tuple(map(slice, first, last)))

        def run() -> None:
            for place, (data, _) in zip(places, planes, strict=True):
                array.write(place, data)

        def check() -> None:
            run()
            np.testing.assert_array_equal(array.read(places[-1]), planes[-1][0])

        return Operation(run, check=check)

    alone = Case(f"planes from {done} on, no history", appending(done, done), per=timed)
    side = -(-(scale.append_start + scale.planes // 3 + 1) // scale.append_chunk)
    return Group(
        "append",
        f"One plane appended to axis 0, 1, 2 in turn, {scale.append_start}³ elements at first",
        (
            Case("planes from 0 on", appending(0, 0), per=timed),
            alone,
            Case(
                f"planes from {done} on",
                appending(done, 0),
                (Target(1 / 10, PEERS), Target(FLAT, alone.name, same_candidate=True)),
                per=timed,
            ),
            # A lower bound for appends: the same stores, into NumPy's array too.
            Case(f"planes from {done} on, stored into what there is", storing, per=timed),
        ),
        # Doubled, so that fewer take part at a time, and their writes stay below the amount at
        # which the system begins to write to the disk while others are timed.
        disk=2 * 8 * (side * scale.append_chunk) ** 3,
        absolute=True,
    )


def growth(scale: Scale) -> Group:
    chunk = 16
    layers = 2  # each of 4 × 4 chunks of 32 KiB: the small array has 1 MiB
    layer_bytes = 16 * 8 * chunk**3

    def growing(first_layers: int, past: int = 0) -> Prepare:
        """Grow an array by 16 chunks, over and over, after `past` such growths."""

        def prepare(workspace: Workspace) -> Operation:
            layout = Layout(
                (first_layers * chunk, 4 * chunk, 4 * chunk),
                (chunk,) * 3,
                growable=True,
                sparse=True,
            )
            array = workspace.new(layout)
            if workspace.peer.replays:
                for _ in range(past):
                    array.grow(0, chunk)
            elif past:
                array.grow(0, past * chunk)
            return Operation(lambda: array.grow(0, chunk))

        return prepare

    def alternating(workspace: Workspace) -> Operation:
        array = segmented(workspace, scale.segments)
        axes = count()
        return Operation(lambda: array.grow(next(axes) % 2, SEGMENT_CHUNK))

    name = "grow, 1 MiB of array"
    fast = Target(5e-6, SECONDS)
    flat = Target(FLAT, name, same_candidate=True)
    faster = Target(1.0, PEERS)
    return Group(
        "growth",
        "One growth by 16 chunks, sparse, without data",
        (
            Case(name, growing(layers), (fast, faster)),
            Case(
                f"grow, {scale.large:.0e} bytes of array",
                growing(scale.large // layer_bytes),
                (fast, flat, faster),
            ),
            Case(
                f"grow, after {scale.growths:.0e} growths",
                growing(layers, scale.growths),
                (fast, flat, faster),
            ),
            Case(
                f"grow other axis, after {scale.segments:.0e} segments",
                alternating,
                (fast, flat, faster),
            ),
        ),
        absolute=True,
    )


#: Side of the 2-D chunks of an array of many segments: 512 bytes.
SEGMENT_CHUNK = 8


def segmented(workspace: Workspace, segments: int) -> Peer:
    """Return a sparse 2-D array that grew along axis 1 and 0 in turn, with one element written."""
    steps = range(segments - 1)
    shape = (SEGMENT_CHUNK,) * 2
    if not workspace.peer.replays:
        shape = (SEGMENT_CHUNK * (1 + len(steps) // 2), SEGMENT_CHUNK * (1 + (len(steps) + 1) // 2))
    layout = Layout(shape, (SEGMENT_CHUNK,) * 2, growable=True, sparse=True)
    array = workspace.new(layout)
    if workspace.peer.replays:
        for step in steps:
            array.grow(1 - step % 2, SEGMENT_CHUNK)
    array.write((slice(0, 1), slice(0, 1)), 7.0)
    return array


def reopen(scale: Scale) -> Group:
    def opening(segments: int) -> Prepare:
        def prepare(workspace: Workspace) -> Operation:
            segmented(workspace, segments)
            workspace.close_new()
            opened: list[Peer] = []

            def run() -> object:
                opened.append(workspace.open())
                return opened[-1].array[0, 0]

            def check() -> None:
                assert run() == 7.0

            def close() -> None:
                while opened:
                    opened.pop().close()

            return Operation(run, after=close, check=check)

        return prepare

    fast = Target(0.25e-3, SECONDS)
    return Group(
        "reopen",
        "open() and a first read, one element",
        tuple(
            Case(f"after {segments} segments", opening(segments), (fast, Target(1.0, PEERS)))
            for segments in (1, scale.segments)
        ),
        absolute=True,
    )


class Append(Suite):
    group = staticmethod(append)


class Growth(Suite):
    group = staticmethod(growth)


class Reopen(Suite):
    group = staticmethod(reopen)
