"""What a communicator brings: arrays that its ranks make, open and relay together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from extarray.array.array import ExtArray

__all__ = ["Together", "provide", "together"]


class Together(NamedTuple):
    """Collective functions, which take the communicator first.

    Attributes
    ----------
    create, open, rechunk : callable
        What `extarray.create`, `extarray.open` and `extarray.rechunk` do under a communicator.
    """

    create: Callable[..., ExtArray]
    open: Callable[..., ExtArray]
    rechunk: Callable[..., ExtArray]


_load: list[Callable[[], Together]] = []


def provide(load: Callable[[], Together]) -> None:
    """Name what imports the collective functions, when a communicator is first given.

    Parameters
    ----------
    load : callable
    """
    _load[:] = [load]


def together() -> Together:
    """Import the collective functions.

    Returns
    -------
    Together

    Raises
    ------
    MissingExtraError
        MPI is not installed.
    """
    return _load[0]()
