"""Tasks of layout transformations, and memory in place of their arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from extarray.maintenance.rechunk_pass import Task, least_memory

__all__ = ["Counted", "tasks"]


@st.composite
def tasks(draw, longest):
    """Draw a task, and memory for it; `longest` limits the axes of tasks with one, two, three."""
    k = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(1, longest[k - 1])) for _ in range(k))
    source = tuple(draw(st.integers(1, 9)) for _ in range(k))
    target = tuple(draw(st.integers(1, 9)) for _ in range(k))
    lead = tuple(draw(st.integers(0, c - 1)) for c in source)
    budget = draw(st.integers(1, 8)) * least_memory(source, target, 2)
    return Task(shape, source, target, lead, 2), budget


class Counted:
    """Memory that is read and written in boxes, and counts the writes of each element."""

    def __init__(self, values):
        self.values, self.dtype = values, values.dtype
        self.times = np.zeros(values.shape, int)

    def _fetch(self, box, out):
        out[...] = self.values[box]

    def _put(self, box, values):
        self.values[box] = values
        self.times[box] += 1
