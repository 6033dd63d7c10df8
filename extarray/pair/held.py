"""What a store keeps while its changes wait for a commit of several arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extarray._core._mapping import Region
    from extarray.metadata.superblock import Superblock

__all__ = ["Held", "without"]


@dataclass
class Held:
    """What a store keeps while its changes wait for a commit of several arrays.

    Attributes
    ----------
    before : object
        What it goes back to if there is none.
    cut : set of (int, str)
        Axes and sides that were cut: elements there are needed until the cut counts.
    freed : list of (int, int)
        Bytes to give back when it does.
    outgrown : list of Region
        Those that the file has outgrown: views may show it through them.
    outcome : Superblock or None
        The state that is to count.
    slot : int or None
        Where it is pending.
    """

    before: Any
    cut: set[tuple[int, str]] = field(default_factory=set)
    freed: list[tuple[int, int]] = field(default_factory=list)
    outgrown: list[Region] = field(default_factory=list)
    outcome: Superblock | None = None
    slot: int | None = None


def without(runs: list[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    """What runs of bytes have outside another one.

    Parameters
    ----------
    runs : list of (int, int)
    start, stop : int

    Returns
    -------
    list of (int, int)

    Examples
    --------
    >>> without([(0, 10), (20, 30)], 4, 25)
    [(0, 4), (25, 30)]
    """
    return [
        (a, b)
        for first, last in runs
        for a, b in ((first, min(last, start)), (max(first, stop), last))
        if a < b
    ]
