"""A pass of a layout transformation: its chunks, templates and steps, and the memory it takes.

The array is cut into *templates* of whole target chunks.  In a template every source chunk is read
once, and every target chunk written once; a source chunk across the edge of two templates is read
by both.  A template is swept in steps of a few *max-blocks* (the larger chunk along each axis), and
what was read for target chunks that are not complete yet is held.  How much that is depends on the
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
    """Chunks to be changed into others, by one pass or several."""

    shape: Index  # by axes of the target; each extent is at least 1
    source_chunks: Index
    target_chunks: Index
    lead: Index  # elements of the first source chunk of each axis that lie before index 0
    itemsize: int
    cast_itemsize: int | None = None  # where the target has another dtype

    @property
    def element_bytes(self) -> int:
        """Bytes of memory for an element: what is cast is in memory twice."""
        return self.itemsize + (self.cast_itemsize or 0)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The task, axis by axis."""
        return tuple(map(Axis, self.shape, self.source_chunks, self.target_chunks, self.lead))

    def in_one_step(self, template: Index) -> Pass:
        """Return the pass that has all of each template in one step."""
        return Pass(self, template, (0,) * len(self.shape), ())


@dataclass(frozen=True)
class Pass:
    """One reading and writing of the whole array.

    Parameters
    ----------
    task : Task
    template : tuple of int
        Elements of a template.
    blocks : tuple of int
        Max-blocks of a step along each axis; 0: one step has the whole template.
    traversal : tuple of int
        The axes that are swept in several steps, the first one fastest.
    """

    task: Task
    template: Index
    blocks: Index
    traversal: Index

    @property
    def shape(self) -> Index:
        """Elements, by axes of the target."""
        return self.task.shape

    @property
    def source_chunks(self) -> Index:
        """Elements of a chunk that is read."""
        return self.task.source_chunks

    @property
    def target_chunks(self) -> Index:
        """Elements of a chunk that is written."""
        return self.task.target_chunks

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The task, axis by axis."""
        return self.task.axes

    @cached_property
    def bytes_read(self) -> int:
        """Bytes that are read, in whole chunks."""
        pairs = zip(self.axes, self.template, strict=True)
        return self.task.itemsize * math.prod(axis.elements_read(n) for axis, n in pairs)

    @property
    def bytes_written(self) -> int:
        """Bytes that are written: each target chunk is written once."""
        return (self.task.cast_itemsize or self.task.itemsize) * math.prod(self.shape)

    @cached_property
    def memory(self) -> int:
        """Bytes that a thread has in memory at a time, at most."""
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
            # Of a chunk that is read for the sake of a part, there must be room for the whole.
            elements += math.prod(self.source_chunks)
        return elements * self.task.element_bytes

    @cached_property
    def n_templates(self) -> int:
        """Number of templates."""
        pairs = zip(self.axes, self.template, strict=True)
        return math.prod(axis.count(n) for axis, n in pairs)

    def templates(self) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield where each template begins and ends along each axis, in C order."""
        windows = [axis.windows(n) for axis, n in zip(self.axes, self.template, strict=True)]
        return itertools.product(*windows)

    def room(self, j: int) -> int:
        """Return the most elements along an axis that are held and read in a step."""
        axis, blocks = self.axes[j], self.blocks[j]
        return axis.room(blocks) if blocks else min(self.template[j], axis.extent)

    def fresh(self, j: int) -> int:
        """Return the most elements along an axis that are read in a step."""
        axis, blocks = self.axes[j], self.blocks[j]
        return axis.fresh(blocks) if blocks else min(self.template[j], axis.extent)


def elements_held(
    room: Sequence[int],
    fresh: Sequence[int],
    unused: Sequence[int],
    template: Sequence[int],
    swept: Sequence[int],
) -> int:
    """Return the elements in memory at a time, at most: those of a step, and the held ones.

    The fastest axis, the first that is swept, holds its elements beside those that are read.  Any
    other holds them for all of the sweep along the faster axes.  Along each axis, `room` is held
    and read in a step, `fresh` is read, and `unused` is held between two.
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
    """Return the least memory in which chunks can be changed: one source and one target chunk.

    Examples
    --------
    >>> least_memory((32, 9), (5, 16), 8)
    2944
    """
    return (math.prod(source) + math.prod(target)) * (itemsize + (cast_itemsize or 0))


def check_memory(task: Task, budget: int, tables: tuple[int, int] = (0, 0)) -> Task:
    """Refuse a budget in bytes that is too little.

    Returns the task, with chunks as far as there are elements for them.  The tables are those of an
    order (`table_bytes`) that the source has, and the target gets.
    """
    extents = map(int.__add__, task.shape, task.lead)
    source = tuple(map(min, extents, task.source_chunks))
    target = tuple(map(min, task.target_chunks, task.shape))
    least = least_memory(source, target, task.itemsize, task.cast_itemsize)
    # The target is made while the source is open, and takes up to three times its table for that.
    least = max(least + sum(tables), tables[0] + 3 * tables[1])
    if budget < least:
        besides = ", with the tables of their orders," if any(tables) else ""
        raise ArgumentError(
            f"max_memory of {budget} bytes is too small to change chunks of {source} into chunks "
            f"of {target}: one of each{besides} needs {least} bytes; give max_memory={least} or "
            "more"
        )
    return replace(task, source_chunks=source, target_chunks=target)
