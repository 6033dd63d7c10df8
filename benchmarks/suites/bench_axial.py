"""The mapping: addresses of chunk indices and back, many at a time."""

from __future__ import annotations

import numpy as np

from benchmarks.model import Case, Group, Operation, Target
from benchmarks.peers.base import Peer
from benchmarks.sizes import NUMPY, OURS, SECONDS, Layout, Scale
from benchmarks.workspace import Workspace

from .common import Suite, generator, reading


def axial(scale: Scale) -> Group:
    def grown(workspace: Workspace) -> tuple[Peer, np.ndarray]:
        """Return an array of `records` segments in chunks of one byte, and random indices."""
        axes = [(step + 1) % 3 for step in range(scale.records - 1)]
        shape = tuple(1 + axes.count(axis) for axis in range(3))
        replays = workspace.peer.replays
        array = workspace.new(
            Layout((1, 1, 1) if replays else shape, (1, 1, 1), dtype="u1", growable=True)
        )
        if replays:
            for axis in axes:
                array.grow(axis, 1)
        return array, generator().integers(0, shape, (scale.addresses, 3))

    def addresses(workspace: Workspace) -> Operation:
        array, indices = grown(workspace)
        return reading(
            lambda: array.addresses(indices),
            lambda: array.addresses(array.indices(array.addresses(indices))),
        )

    def indices(workspace: Workspace) -> Operation:
        array, indices = grown(workspace)
        addresses = array.addresses(indices)
        return reading(lambda: array.indices(addresses), lambda: indices)

    return Group(
        "axial",
        f"Mapping, {scale.records} segments of 3 axes, {scale.addresses} at a time, for one",
        (
            Case("addresses", addresses, (Target(1 / 50e6, SECONDS),), per=scale.addresses),
            Case("indices", indices, (Target(1 / 20e6, SECONDS),), per=scale.addresses),
        ),
        absolute=True,
        candidates=(NUMPY, OURS[0]),
    )


class Axial(Suite):
    group = staticmethod(axial)
