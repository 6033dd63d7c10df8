"""What all ranks do with global arrays as wholes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.errors import ShapeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.mpi.agreement import Agreement
    from extarray.mpi.array import ParallelArray
    from extarray.mpi.zones import Zone

__all__ = ["Collectives"]


class Collectives:
    """Part of `GlobalArray`: what all ranks call together, for all elements.

    Each rank makes the new elements of its zone from what all have written before.
    """

    if TYPE_CHECKING:
        comm: Any
        dtype: np.dtype[Any]
        _agreement: Agreement

        @property
        def shape(self) -> tuple[int, ...]:
            """Elements along each axis."""

        def access(self) -> NDArray[Any]:
            """The zone of this rank."""

        def distribution(self) -> Zone:
            """Where that zone is."""

        def get(self, selection: Any = ...) -> NDArray[Any]:
            """Elements of any zones."""

        def sync(self) -> None:
            """Have all ranks see what all have written."""

        def _check(self) -> None: ...

    def to_array(self, a: ParallelArray) -> None:
        """Write the elements to an array in files; collective.

        Parameters
        ----------
        a : ParallelArray
            Of the same shape.

        Raises
        ------
        ShapeError, ReadOnlyError, StorageError
            On all ranks, where one has a reason.

        Examples
        --------
        >>> g.to_array(a)  # doctest: +SKIP
        """
        self.sync()
        if a.shape != self.shape:
            raise ShapeError(f"cannot write {self.shape} elements to an array of shape {a.shape}")
        a.write(self.distribution(), self.access())

    def fill(self, value: Any) -> None:
        """Set all elements; collective.

        Parameters
        ----------
        value : scalar
            The same on all ranks.

        Examples
        --------
        >>> g.fill(1)  # doctest: +SKIP
        """
        self._check()
        with self._agreement.step() as step:
            item = np.zeros((), self.dtype)
            item[()] = value
            step.arguments = f"fill with {item.tobytes()!r}"
        self._set(lambda zone: item)

    def zero(self) -> None:
        """Set all elements to zero; collective.

        Examples
        --------
        >>> g.zero()  # doctest: +SKIP
        """
        self._set(lambda zone: np.zeros((), self.dtype))

    def scale(self, factor: Any) -> None:
        """Multiply all elements; collective.

        Parameters
        ----------
        factor : scalar

        Examples
        --------
        >>> g.scale(0.5)  # doctest: +SKIP
        """
        self._set(lambda zone: self.access() * factor)

    def add(self, alpha: Any, a: Collectives, beta: Any, b: Collectives) -> None:
        """Become ``alpha * a + beta * b``; collective.

        Parameters
        ----------
        alpha, beta : scalar
        a, b : GlobalArray
            Of the same shape, however they are distributed; also this array itself.

        Raises
        ------
        ShapeError

        Examples
        --------
        >>> g.add(1, g, -1, h)  # doctest: +SKIP
        """
        self._check_shape(a.shape)
        self._check_shape(b.shape)
        self._set(lambda zone: alpha * a.get(zone) + beta * b.get(zone))

    def dot(self, b: Collectives) -> Any:
        """Sum of the products of the elements of two arrays; collective.

        Parameters
        ----------
        b : GlobalArray
            Of the same shape, however it is distributed.

        Returns
        -------
        scalar
            The same on all ranks.

        Raises
        ------
        ShapeError

        Examples
        --------
        >>> g.dot(g)  # doctest: +SKIP
        """
        self._check_shape(b.shape)
        self.sync()
        with self._agreement.step():
            products = self.access() * b.get(self.distribution())
        total = self.comm.allreduce(products.sum(dtype=products.dtype))
        self.sync()
        return total

    def transpose(self, a: Collectives) -> None:
        """Become the transpose of another array; collective.

        Parameters
        ----------
        a : GlobalArray

        Raises
        ------
        ShapeError

        Examples
        --------
        >>> g.transpose(h)  # doctest: +SKIP
        """
        self._check_shape(a.shape[::-1])
        self._set(lambda zone: a.get(zone[::-1]).T)

    def copy_to(self, b: Collectives) -> None:
        """Copy all elements to another array; collective.

        Parameters
        ----------
        b : GlobalArray
            Of the same shape, however it is distributed.

        Raises
        ------
        ShapeError

        Examples
        --------
        >>> g.copy_to(h)  # doctest: +SKIP
        """
        b._check_shape(self.shape)
        b._set(self.get)

    def _set(self, values: Callable[[Zone], Any]) -> None:
        """Give each zone new values, which are made of what all have written."""
        self.sync()
        with self._agreement.step():  # also: nobody reads any more, as it may be of this very array
            new = values(self.distribution())
        self.access()[...] = new
        self.sync()

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        self._check()
        if shape != self.shape:
            raise ShapeError(f"shapes {self.shape} and {shape} do not fit")
