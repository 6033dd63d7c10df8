"""Operations of all ranks on global arrays as wholes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, ArgumentTypeError, ShapeError
from extarray.mpi.access import OneSidedAccess, label
from extarray.mpi.array import ParallelArray
from extarray.mpi.requests import as_item, check_same_kind
from extarray.mpi.runtime import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from extarray.mpi.runtime import Step
    from extarray.mpi.zones import Zone

__all__ = ["Collectives"]


class Collectives(OneSidedAccess):
    """The part of `GlobalArray` that all ranks call together, for all elements.

    Each rank makes the new elements of its zone from what all have written before.  A step in which
    arguments are checked is the barrier behind which it is read, a second one that before new
    elements are written, as they may be those of the very array that others read.
    """

    def sync(self) -> None:
        """Show all ranks what all have written; collective.

        Raises
        ------
        ArgumentError
            A ValueError, on all ranks: some of them ask for something else.

        Examples
        --------
        >>> g.sync()  # doctest: +SKIP
        """
        with self._start("sync"):
            pass

    def to_array(self, a: ParallelArray) -> None:
        """Write the elements to an array in files; collective.

        Parameters
        ----------
        a : ParallelArray
            Of the same ranks and of the same shape; elements are cast by the rule "same_kind".

        Raises
        ------
        ArgumentError, ArgumentTypeError, ShapeError, CastingError
        ReadOnlyError, ClosedError, StorageError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g.to_array(a)  # doctest: +SKIP
        """
        with self._start("write to files") as step:
            if not isinstance(a, ParallelArray):
                raise ArgumentTypeError(
                    f"a must be an array that was opened with comm=, not {type(a).__name__}"
                )
            a._check("write to")
            # Each rank writes its zone, and nobody else does.
            if not self._has_ranks_of(a.comm):
                raise ArgumentError(
                    f"'{a.path}' is open on other ranks than those of the global array; open it "
                    "with the communicator by which that was created"
                )
            step.arguments = f"write to '{a.path}'"
            if a.shape != self.shape:
                raise ShapeError(
                    f"cannot write {self.shape} elements to an array of shape {a.shape}"
                )
            check_same_kind(self.dtype, a.dtype)
        a.write(self.distribution(), self.access())

    def fill(self, value: Any) -> None:
        """Set all elements; collective.

        Parameters
        ----------
        value : scalar
            The same on all ranks; of the kind of the elements, or a simpler one, and in range.

        Raises
        ------
        ShapeError, CastingError, LimitError, ArgumentError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g.fill(1)  # doctest: +SKIP
        """
        with self._start("fill") as step:
            item = as_item(value, self.dtype, "value")
            step.arguments = f"fill with {item[()]!r}"
        self._become(item)

    def zero(self) -> None:
        """Set all elements to zero; collective.

        Examples
        --------
        >>> g.zero()  # doctest: +SKIP
        """
        with self._start("zero"):
            zero = np.zeros((), self.dtype)
        self._become(zero)

    def scale(self, factor: Any) -> None:
        """Multiply all elements; collective.

        Parameters
        ----------
        factor : scalar
            The same on all ranks.  Products are cast to elements by the rule "same_kind".

        Raises
        ------
        ShapeError, CastingError, ArgumentError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g.scale(0.5)  # doctest: +SKIP
        """
        with self._start("scale") as step:
            step.arguments = f"scale by {_words(factor, 'factor')}"
        self._set(lambda zone: self.access() * factor)

    def add(self, alpha: Any, a: Collectives, beta: Any, b: Collectives) -> None:
        """Become ``alpha * a + beta * b``; collective.

        Parameters
        ----------
        alpha, beta : scalar
            The same on all ranks.
        a, b : GlobalArray
            Of the same ranks and shape, however they are distributed; also this array itself.

        Raises
        ------
        ShapeError, CastingError, ArgumentError, ArgumentTypeError
            On all ranks, where one has a reason.

        Notes
        -----
        Sums are cast to elements by the rule "same_kind".

        Examples
        --------
        >>> g.add(1, g, -1, h)  # doctest: +SKIP
        """
        with self._start("add", a, b) as step:
            self._check_shape(a.shape)
            self._check_shape(b.shape)
            factors = f"{_words(alpha, 'alpha')} and {_words(beta, 'beta')}"
            step.arguments = f"{step.arguments} times {factors}"
        self._set(lambda zone: alpha * a.get(zone) + beta * b.get(zone))

    def dot(self, b: Collectives) -> Any:
        """Return the sum of the products of the elements of two arrays; collective.

        Parameters
        ----------
        b : GlobalArray
            Of the same ranks and shape, however it is distributed.

        Returns
        -------
        scalar
            The same on all ranks; of integers it is one of 64 bits.

        Raises
        ------
        ShapeError, ArgumentError, ArgumentTypeError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g.dot(g)  # doctest: +SKIP
        """
        with self._start("dot", b):
            self._check_shape(b.shape)
        with self._agreement.step():
            dtype = np.result_type(self.dtype, b.dtype)
            dtype = {"i": np.dtype("i8"), "u": np.dtype("u8")}.get(dtype.kind, dtype)
            products = np.multiply(self.access(), b.get(self.distribution()), dtype=dtype)
        total = self.comm.allreduce(products.sum(dtype=dtype))
        self._window.sync()
        return total

    def transpose(self, a: Collectives) -> None:
        """Become the transpose of another array; collective.

        Parameters
        ----------
        a : GlobalArray
            Of the same ranks; its elements are cast by the rule "same_kind".

        Raises
        ------
        ShapeError, CastingError, ArgumentError, ArgumentTypeError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g.transpose(h)  # doctest: +SKIP
        """
        with self._start("transpose", a):
            self._check_shape(a.shape[::-1])
        self._set(lambda zone: a.get(zone[::-1]).T)

    def copy_to(self, b: Collectives) -> None:
        """Copy all elements to another array; collective.

        Parameters
        ----------
        b : GlobalArray
            Of the same ranks and shape, however it is distributed; elements are cast by the rule
            "same_kind".

        Raises
        ------
        ShapeError, CastingError, ArgumentError, ArgumentTypeError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g.copy_to(h)  # doctest: +SKIP
        """
        with self._start("copy to", b):
            b._check_shape(self.shape)
        b._set(self.get)

    @contextmanager
    def _start(self, name: str, *others: Collectives) -> Iterator[Step]:
        """Begin a step that checks arguments; behind it all ranks see what all have written.

        That is to this array and to others, which inside are global arrays that are there.
        """
        self._check()
        with self._agreement.step() as step:
            for other in others:
                if not isinstance(other, Collectives):
                    raise ArgumentTypeError(f"a GlobalArray is needed, not {type(other).__name__}")
                other._check()
                if not self._has_ranks_of(other.comm):
                    raise ArgumentError(
                        "the global arrays have different ranks; create them with the same "
                        "communicator"
                    )
            for array in (self, *others):
                array._window.publish()
            step.arguments = " ".join([name, *map(label, others)])
            yield step
        for array in (self, *others):
            array._window.refresh()

    def _set(self, values: Callable[[Zone], Any]) -> None:
        """Give each zone new values, which are made of what all have written."""
        with self._agreement.step():
            new = values(self.distribution())
            check_same_kind(new.dtype, self.dtype)
        self._become(new)

    def _become(self, new: NDArray[Any]) -> None:
        """Write the new elements of each zone, which nobody reads any more."""
        self.access()[...] = new
        self._window.sync()

    def _has_ranks_of(self, comm: Any) -> bool:
        MPI = library()
        return bool(MPI.Comm.Compare(comm, self.comm) != MPI.UNEQUAL)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if shape != self.shape:
            raise ShapeError(f"shapes {self.shape} and {shape} do not fit")


def _words(scalar: Any, name: str) -> str:
    """Return the words by which ranks compare a scalar; raise where it is none."""
    given = np.asarray(scalar)
    if given.ndim:
        raise ShapeError(f"{name} has shape {given.shape}; give a scalar")
    return repr(given[()])
