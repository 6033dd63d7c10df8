"""Runs of bytes that cuts have freed, and changes that wait for a commit of several arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extarray._core._mapping import Region, Users
    from extarray.format.superblock import Superblock

__all__ = ["Freed", "Held", "without"]


@dataclass
class Held:
    """The record that a store keeps while its changes wait for a commit of several arrays.

    Attributes
    ----------
    before : object
        What the store goes back to if there is no commit.
    cut : set of (int, str)
        Axes and sides that were cut: elements there are needed until the cut counts.
    freed : list of (int, int)
        Bytes to give back when it does.
    outgrown : list of Region
        Regions that the file has outgrown: views may show it through them.
    outcome : Superblock or None
        The state that is to count.
    slot : int or None
        Where that state is pending.
    """

    before: Any
    cut: set[tuple[int, str]] = field(default_factory=set)
    freed: list[tuple[int, int]] = field(default_factory=list)
    outgrown: list[Region] = field(default_factory=list)
    outcome: Superblock | None = None
    slot: int | None = None


def without(runs: list[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    """Return the parts of runs of bytes that lie outside another run.

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


class Freed:
    """Runs of bytes outside the bounds, until nobody uses them any more.

    Parameters
    ----------
    users : Users
        Those who may still look at them: transfers of other threads, and views of chunks.
    """

    def __init__(self, users: Users) -> None:
        self._users = users
        self._runs: list[tuple[int, int, int]] = []  # epoch of which nobody may be left; bytes

    def add(self, start: int, stop: int) -> None:
        """Add a run that lies outside the bounds of the present epoch."""
        epoch = self._users.ended
        if self._runs:
            number, first, last = self._runs[-1]
            if number == epoch and start <= last and first <= stop:
                self._runs[-1] = epoch, min(start, first), max(stop, last)
                return
        self._runs.append((epoch, start, stop))

    def keep(self, start: int, stop: int) -> None:
        """Remove the bytes that a growth uses again."""
        self._runs = [
            (epoch, *run)
            for epoch, first, last in self._runs
            for run in without([(first, last)], start, stop)
        ]

    @property
    def ready(self) -> bool:
        """True if there are runs that nobody uses any more."""
        return any(not self._users.are_left(epoch) for epoch, _, _ in self._runs)

    def take(self) -> list[tuple[int, int]]:
        """Remove the runs that nobody uses any more, and return them."""
        taken = [run for run in self._runs if not self._users.are_left(run[0])]
        self._runs = [run for run in self._runs if run not in taken]
        return [(start, stop) for _, start, stop in taken]
