"""One pass of a layout transformation: its chunks, templates, steps and memory.

The array is cut into *templates* of whole target chunks.  Within a template, each source chunk is
read once and each target chunk written once; source chunks across the edge of two templates are
read for both.  A template is swept in steps of a few *max-blocks* (the larger chunk along each
axis), holding the elements of target chunks that are still incomplete.  Their number depends on the
order in which the axes are swept, the *traversal*.  An *lcm-block* is a template whose edges cut no
chunk.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from extarray.common.errors import ArgumentError
from extarray.grid.rechunk_axis import Axis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Index", "Pass", "Task", "check_memory", "elements_held", "least_memory"]

Index: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """Chunks to change into others, by one pass or several."""

    shape: Index  # by axes of the target; each extent is at least 1
    source_chunks: Index
    target_chunks: Index
    lead: Index  # elements of each axis's first source chunk that lie before index 0
    itemsize: int
    cast_itemsize: int | None = None  # if the target has another dtype

    @property
    def element_bytes(self) -> int:
        """Bytes of memory for an element; a cast one is in memory twice."""
        return self.itemsize + (self.cast_itemsize or 0)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The task, axis by axis."""
        return tuple(map(Axis, self.shape, self.source_chunks, self.target_chunks, self.lead))

    def in_one_step(self, template: Index) -> Pass:
        """Return the pass that handles each template in one step."""
        return Pass(self, template, (0,) * len(self.shape), ())


@dataclass(frozen=True)
class Pass:
    """One reading and writing of the whole array.

    Parameters
    ----------
    task : Task
    template : tuple of int
        Elements of a template along each axis.
    blocks : tuple of int
        Max-blocks of a step along each axis; 0 means that one step covers the template.
    traversal : tuple of int
        The axes that are swept in several steps, fastest first.
    """

    task: Task
    template: Index
    blocks: Index
    traversal: Index

    @property
    def shape(self) -> Index:
        """Elements along each axis of the target."""
        return self.task.shape

    @property
    def source_chunks(self) -> Index:
        """Shape of the chunks that are read."""
        return self.task.source_chunks

    @property
    def target_chunks(self) -> Index:
        """Shape of the chunks that are written."""
        return self.task.target_chunks

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The task, axis by axis."""
        return self.task.axes

    @cached_property
    def bytes_read(self) -> int:
        """Bytes read, in whole chunks."""
        pairs = zip(self.axes, self.template, strict=True)
        return self.task.itemsize * math.prod(axis.elements_read(n) for axis, n in pairs)

    @property
    def bytes_written(self) -> int:
        """Bytes written: each target chunk once."""
        return (self.task.cast_itemsize or self.task.itemsize) * math.prod(self.shape)

    @cached_property
    def memory(self) -> int:
        """Most bytes that one thread holds in memory."""
        k = range(len(self.shape))
        swept = [j for j in self.traversal if self.blocks[j]]
        elements = elements_held(
            [self.room(j) for j in k],
            [self.fresh(j) for j in k],
            [axis.unused for axis in self.axes],
            [min(n, axis.extent) for n, axis in zip(self.template, self.axes, strict=True)],
            swept,
        )
        if any(
            not blocks and not axis.is_aligned(n)
            for axis, n, blocks in zip(self.axes, self.template, self.blocks, strict=True)
        ):
            # A chunk that is read for a part of it needs room as a whole.
            elements += math.prod(self.source_chunks)
        return elements * self.task.element_bytes

    @cached_property
    def n_templates(self) -> int:
        """Number of templates."""
        pairs = zip(self.axes, self.template, strict=True)
        return math.prod(axis.count(n) for axis, n in pairs)

    def templates(self) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield the bounds of each template along each axis, in C order."""
        windows = [axis.windows(n) for axis, n in zip(self.axes, self.template, strict=True)]
        return itertools.product(*windows)

    def room(self, j: int) -> int:
        """Return the most elements along an axis that a step holds and reads."""
        axis, blocks = self.axes[j], self.blocks[j]
        return axis.room(blocks) if blocks else min(self.template[j], axis.extent)

    def fresh(self, j: int) -> int:
        """Return the most elements along an axis that a step reads."""
        axis, blocks = self.axes[j], self.blocks[j]
        return axis.fresh(blocks) if blocks else min(self.template[j], axis.extent)


def elements_held(
    room: Sequence[int],
    fresh: Sequence[int],
    unused: Sequence[int],
    template: Sequence[int],
    swept: Sequence[int],
) -> int:
    """Return the most elements in memory at a time: those of a step, and those held.

    The fastest swept axis holds elements beside those that a step reads; each other swept axis
    holds them throughout the sweep of the faster axes.  Along each axis, a step holds and reads
    `room`, reads `fresh`, and `unused` elements are held between two steps.
    """
    extents = list(fresh)
    if not swept:
        return math.prod(extents)
    extents[swept[0]] = room[swept[0]]
    total = math.prod(extents)
    held = list(fresh)
    held[swept[0]] = template[swept[0]]
    for j in swept[1:]:
        held[j] = unused[j]
        total += math.prod(held)
        held[j] = template[j]
    return total


def least_memory(
    source: Index, target: Index, itemsize: int, cast_itemsize: int | None = None
) -> int:
    """Return the least memory that can change chunks: one source chunk and one target chunk.

    Examples
    --------
    >>> least_memory((32, 9), (5, 16), 8)
    2944
    """
    return (math.prod(source) + math.prod(target)) * (itemsize + (cast_itemsize or 0))


def check_memory(task: Task, budget: int, tables: tuple[int, int] = (0, 0)) -> Task:
    """Refuse a memory budget, in bytes, that is too small.

    Return the task with chunks clipped to the array.  `tables` are the bytes of the order tables
    (`table_bytes`) of source and target.
    """
    extents = map(int.__add__, task.shape, task.lead)
    source = tuple(map(min, extents, task.source_chunks))
    target = tuple(map(min, task.target_chunks, task.shape))
    least = least_memory(source, target, task.itemsize, task.cast_itemsize)
    # Making the target while the source is open takes up to three times its table.
    least = max(least + sum(tables), tables[0] + 3 * tables[1])
    if budget < least:
        besides = ", with the tables of their orders," if any(tables) else ""
        raise ArgumentError(
            f"max_memory of {budget} bytes is too small to change chunks of {source} into chunks "
            f"of {target}: one of each{besides} needs {least} bytes; give max_memory={least} or "
            "more"
        )
    return replace(task, source_chunks=source, target_chunks=target)
