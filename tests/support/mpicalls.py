"""The calls of `workload`, made collectively: each rank has a part of the data."""

from __future__ import annotations

import numpy as np

__all__ = ["Together", "local_of", "parts_of"]


def parts_of(zone) -> list[tuple[slice, ...]]:
    """Return the zones of either kind of distribution as a list."""
    return zone if isinstance(zone, list) else [zone]


def local_of(whole, zone):
    """Return a rank's part of an ndarray, as `write_zone` takes it."""
    if isinstance(zone, list):
        return np.concatenate([np.empty(0, whole.dtype), *(whole[part].ravel() for part in zone)])
    return whole[zone]


class Together:
    """A shared array as a target of `Call.on`, with the same calls on all ranks."""

    def __init__(self, array):
        self.array = array
        self._turn = 0  # equal on all ranks

    def __getattr__(self, name):
        return getattr(self.array, name)

    def __getitem__(self, key):
        return self.array[key]

    def append(self, data, axis, side="end") -> None:
        """Alternate between data that all ranks have, and parts of both kinds."""
        array = self.array
        self._turn += 1
        if self._turn % 3 == 0:
            array.append(data, axis, side)
            return
        array.distribute(["block", "block_cyclic"][self._turn % 3 - 1])
        n = data.shape[axis]
        zone = array.zone_of_growth(axis, n, side)
        # Zones refer to the array after the growth, of which `data` is a part.
        shift = 0 if side == "start" else array.shape[axis]
        parts = []
        for part in parts_of(zone):
            low, high = part[axis].start - shift, part[axis].stop - shift
            parts.append((*part[:axis], slice(low, high), *part[axis + 1 :]))
        mine = parts if isinstance(zone, list) else parts[0]
        array.append_zone(local_of(data, mine), axis, n, side)

    def write(self, selection, values) -> None:
        """Deal rows of boxes out to the ranks in turn; let one rank write anything else."""
        array, comm = self.array, self.array.comm
        self._turn += 1
        rows = selection[0] if isinstance(selection, tuple) else None
        if isinstance(rows, slice):
            dealt = slice(rows.start + comm.rank, rows.stop, comm.size)
            array.write((dealt, *selection[1:]), values[comm.rank :: comm.size])
        elif comm.rank == self._turn % comm.size:
            array.write(selection, values)
        else:
            array.write(slice(0), 0)
