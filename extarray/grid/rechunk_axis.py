"""One axis of a layout transformation: how source chunks, target chunks and steps lie along it.

All numbers count elements along the axis.  Source chunks begin at ``-lead``, target chunks at 0.
Elements that have been read for an incomplete target chunk are *held*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Axis", "Step"]


class Step(NamedTuple):
    """One step along an axis: reads ``read ... end - 1``, writes ``written ... complete - 1``."""

    written: int  # earlier steps have written everything before it
    read: int  # earlier steps have read everything before it; elements from `written` on are held
    complete: int  # target chunks before it are complete once this step has read
    end: int  # where reading ends; elements from `complete` on are held for the next step


@dataclass(frozen=True)
class Axis:
    """Chunks along one axis, before and after.

    Examples
    --------
    >>> axis = Axis(144, 9, 16)
    >>> axis.block, axis.unused, axis.period
    (16, 8, 144)
    >>> [tuple(step) for step in axis.steps(0, 48, 1)]
    [(0, 0, 16, 18), (16, 18, 32, 36), (32, 36, 48, 48)]
    """

    extent: int  # elements, at least 1
    source: int  # extents of the chunks
    target: int
    lead: int = 0  # elements of the first source chunk that lie before index 0

    @cached_property
    def block(self) -> int:
        """Extent of a max-block: the larger chunk."""
        return max(self.source, self.target)

    @cached_property
    def is_short(self) -> bool:
        """Tell whether one block covers the whole axis."""
        return self.source >= self.extent + self.lead or self.target >= self.extent

    @cached_property
    def unused(self) -> int:
        """Most elements held between two steps."""
        if self.is_short:
            return 0
        common = math.gcd(self.source, self.target)
        return min(self.source, self.target) - common + -self.lead % common

    @cached_property
    def period(self) -> int:
        """Extent of an lcm-block, after which the chunks lie as at its start."""
        return math.lcm(self.source, self.target)

    @cached_property
    def shift(self) -> int:
        """Elements before index 0 where templates begin, to fit the source chunks."""
        fits = not self.unused and self.source > self.target and not self.is_short
        return self.lead if fits else 0

    @cached_property
    def least(self) -> int:
        """The smallest template: a max-block, in whole target chunks."""
        if self.is_short:
            return self.extent
        whole = -(-self.block // self.target) * self.target
        return min(whole, self.extent + self.shift)

    def count(self, template: int) -> int:
        """Return the number of templates."""
        return -(-(self.extent + self.shift % template) // template)

    def reaches_all(self, template: int) -> bool:
        """Tell whether one template covers the whole axis."""
        return template >= self.extent + self.shift

    def is_aligned(self, template: int) -> bool:
        """Tell whether no source chunk crosses the edge of a template."""
        if self.reaches_all(template):
            return True
        return template % self.source == 0 and (self.lead - self.shift) % self.source == 0

    def elements_read(self, template: int) -> int:
        """Return the number of elements read if every template reads all chunks it meets.

        The templates on both sides of an edge read the chunks across it.

        Examples
        --------
        >>> axis = Axis(144, 9, 16)
        >>> axis.elements_read(144), axis.elements_read(16)
        (144, 216)
        """
        # Edges of templates are at ``i * template - shift`` for i = 1 ... n.
        n = self.count(template) - 1
        if n <= 0:
            return self.extent
        shift = self.shift % template
        offset = self.lead - shift  # an edge at 0 (mod source) is between two chunks
        inside = n - _count(template, offset, self.source, n)
        total = self.extent + inside * self.source
        # The first and the last chunk have fewer elements inside the bounds.
        first = self.source - self.lead
        if first < self.extent:
            cut = min(n, (first - 1 + shift) // template)
            total -= cut * (self.source - first)
        start = (self.extent + self.lead - 1) // self.source * self.source - self.lead
        last = self.extent - max(start, 0)
        if start > 0:
            cut = n - min(n, (start + shift) // template)
        else:
            cut = n  # one chunk covers the whole axis
        return total - cut * (self.source - last)

    def elements_met(self, start: int, stop: int) -> int:
        """Return the number of elements of the source chunks that a part of the axis meets.

        Examples
        --------
        >>> Axis(144, 9, 16).elements_met(16, 32)
        27
        """
        if start == stop:
            return 0
        low = (start + self.lead) // self.source * self.source - self.lead
        high = -(-(stop + self.lead) // self.source) * self.source - self.lead
        return min(high, self.extent) - max(low, 0)

    def windows(self, template: int) -> list[tuple[int, int]]:
        """Return where templates begin and end.

        Examples
        --------
        >>> Axis(40, 9, 16).windows(32)
        [(0, 32), (32, 40)]
        """
        starts = range(-(self.shift % template), self.extent, template)
        return [(max(0, n), min(n + template, self.extent)) for n in starts]

    def room(self, blocks: int) -> int:
        """Return the most elements held and read in a step of this many max-blocks."""
        return blocks * self.block + self.unused

    def fresh(self, blocks: int) -> int:
        """Return the most elements read in a step of this many max-blocks."""
        return blocks * self.source if self.source >= self.target else self.room(blocks)

    def steps(self, start: int, stop: int, blocks: int) -> Iterator[Step]:
        """Yield the steps through a template, each of `blocks` max-blocks; 0: a single step."""
        room = self.room(blocks) if blocks else stop - start
        fresh = self.fresh(blocks) if blocks else stop - start
        written = read = start
        while written < stop:
            end = min(written + room, read + fresh)
            if end >= stop:
                end = complete = stop
            else:
                end = (end + self.lead) // self.source * self.source - self.lead
                complete = end // self.target * self.target
            yield Step(written, read, complete, end)
            written, read = complete, end


def _count(step: int, offset: int, modulus: int, n: int) -> int:
    """Count the i in 1 ... n for which `modulus` divides ``i * step + offset``."""
    common = math.gcd(step, modulus)
    if offset % common:
        return 0
    every = modulus // common
    first = -offset // common * pow(step // common, -1, every) % every if every > 1 else 0
    first = first or every
    return 0 if first > n else (n - first) // every + 1
