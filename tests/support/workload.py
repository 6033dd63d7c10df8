"""Random calls on an array, and their results in NumPy.

Tests stop a process during such calls.  `draw` gives the same calls for the same numbers and the
same state, so the process that examines what is left knows them too.  A new kind of call is a
function here, and a row of `KINDS`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from model import Model

import extarray as xa

__all__ = ["KINDS", "Call", "Twin", "create", "draw", "problem"]


@dataclass(frozen=True)
class Call:
    """A call of a method, on an array or on its twin.

    An interrupted assignment to elements may be done in part; other calls are done or not.
    """

    method: str
    arguments: tuple[Any, ...]

    @property
    def assigns(self) -> bool:
        return self.method == "write"

    def on(self, target: Any) -> None:
        if self.method == "attrs":
            target.attrs.update(*self.arguments)
        else:
            getattr(target, self.method)(*self.arguments)


class Twin(Model):
    """The NumPy model of an array, and its attributes."""

    def __init__(self, array):
        super().__init__(array.shape, array.dtype, array.chunks, array.fill_value)
        self.zero = array.origin
        self.data[...] = array[...]
        self.attrs = dict(array.attrs)
        self.inserted: list[int] = []  # positions of axes added since

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def write(self, selection, values) -> None:
        self.data[selection] = values

    def add_axis(self, position) -> None:
        super().add_axis(position)
        self.zero = (*self.zero[:position], 0, *self.zero[position:])
        self.inserted = [*self.inserted, position]

    def flush(self) -> None:
        """Do nothing."""


def problem(found, states, assigned=None) -> str | None:
    """Return what is wrong with an array that must be in one of some states.

    Single elements may also come from the state `assigned`.
    """
    facts = (found.shape, found.origin, dict(found.attrs))
    values = found[...]
    for state in states:
        origin = tuple(map(sum, zip(state.zero, state.origin, strict=True)))
        if facts != (state.shape, origin, state.attrs):
            continue
        right = values == state.data
        if assigned is not None:
            right |= values == assigned.data
        if right.all():
            return None
    described = [(state.shape, state.origin, state.attrs, state.data.tolist()) for state in states]
    return f"found {facts}\n{values.tolist()}\npossible are\n" + "\n".join(map(str, described))


# -- kinds of calls ------------------------------------------------------------------------------


def _side(rng):
    return rng.choice(["end", "start"])


def _values(rng, shape):
    """Return values that no other call writes, other than the fill value."""
    first = rng.randrange(1, 2**30)
    return np.arange(first, first + int(np.prod(shape)), dtype="i4").reshape(shape)


def _extend(rng, twin):
    return Call("extend", (rng.randrange(twin.ndim), rng.choice([0, 1, 2, 5]), _side(rng)))


def _append(rng, twin):
    axis = rng.randrange(twin.ndim)
    shape = [n if j != axis else rng.choice([1, 2, 6]) for j, n in enumerate(twin.shape)]
    return Call("append", (_values(rng, shape), axis, _side(rng)))


def _shrink(rng, twin):
    axis = rng.randrange(twin.ndim)
    by = min(twin.shape[axis], rng.choice([1, 2, 4, 7]))
    return Call("shrink", (axis, by, _side(rng)))


def _resize(rng, twin):
    return Call("resize", (tuple(max(1, n + rng.choice([-3, 0, 1, 4])) for n in twin.shape),))


def _reserve(rng, twin):
    return Call("reserve", (tuple(n + rng.choice([0, 3, 6]) for n in twin.shape),))


def _add_axis(rng, twin):
    if twin.ndim >= MOST_AXES:
        return _extend(rng, twin)
    return Call("add_axis", (rng.randint(0, twin.ndim),))


def _write(rng, twin):
    kind = rng.choice(["box", "element", "list", "mask"] if twin.data.size else ["box"])
    if kind == "element":
        selection = tuple(rng.randrange(n) for n in twin.shape)
    elif kind == "list":
        selection = (rng.sample(range(twin.shape[0]), rng.randint(1, twin.shape[0])),)
    elif kind == "mask":
        selection = np.array([rng.random() < 0.5 for _ in range(twin.data.size)], bool)
        selection = selection.reshape(twin.shape)
    else:
        starts = [rng.randint(0, n) for n in twin.shape]
        selection = tuple(
            slice(a, rng.randint(a, n)) for a, n in zip(starts, twin.shape, strict=True)
        )
    return Call("write", (selection, _values(rng, np.shape(twin.data[selection]))))


def _attrs(rng, twin):
    value = rng.choice([rng.randrange(10**6), "x" * rng.randrange(3000)])
    return Call("attrs", ({rng.choice("abc"): value},))


def _flush(rng, twin):
    return Call("flush", ())


#: The function that draws each kind of call, and its weight.
KINDS = {
    "extend": (_extend, 4),
    "append": (_append, 6),
    "shrink": (_shrink, 5),
    "resize": (_resize, 2),
    "reserve": (_reserve, 1),
    "add_axis": (_add_axis, 0.4),
    "write": (_write, 6),
    "attrs": (_attrs, 3),
    "flush": (_flush, 1),
}
LARGEST = 600
MOST_AXES = 4


def draw(rng: random.Random, twin: Twin, kinds=tuple(KINDS)) -> Call:
    if twin.data.size > LARGEST and "shrink" in kinds:
        return _shrink(rng, twin)
    if min(twin.shape) == 0 and "resize" in kinds:
        return _resize(rng, twin)
    kind = rng.choices(kinds, [KINDS[name][1] for name in kinds])[0]
    return KINDS[kind][0](rng, twin)


def create(path, rng: random.Random, **options):
    options = {
        "shape": (rng.randint(1, 6), rng.randint(1, 6)),
        "dtype": "i4",
        "chunks": (rng.randint(1, 4), rng.randint(1, 4)),
        "fill_value": rng.choice([0, 0, -1]),
        "order": rng.choice("CCFZ"),
        "sparse": rng.random() < 0.4,
        "engine": rng.choice(["mmap", "pread"]),
        "growth": rng.choice(["exact", "exact", ("linear", 3), "doubling", "cubical"]),
        "checksum": rng.random() < 0.2,
        **options,
    }
    return xa.create(path, **options)
