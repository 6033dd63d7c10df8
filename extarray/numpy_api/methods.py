"""The operators, protocols and methods that arrays share with ndarray.

Each method that NumPy also has as a function calls that function, so the protocols lead it to the
one streamed form.
"""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from extarray.common.errors import ArgumentError
from extarray.common.lazy import LazyImports, LazyModule
from extarray.numpy_api import dlpack
from extarray.numpy_api.operators import binary, compare, contains, in_place, reflected
from extarray.streaming.blocks import Source, read_elements, write_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from extarray.numpy_api.c_order import FlatElements
    from extarray.streaming import meta_arrays
else:
    meta_arrays = LazyModule("extarray.streaming.meta_arrays")

__all__ = ["NumpyMixin"]

_later = LazyImports(
    {
        "extarray.numpy_api.c_order": "FlatElements tofile",
        "extarray.numpy_api.dispatch": "apply dispatch steadily",
        "extarray.numpy_api.elementwise_functions": "set_parts",
        "extarray.numpy_api.sorting": "change_lanes",
    }
)


def _method(function: Callable[..., Any], call: str, result: str) -> Callable[..., Any]:
    """Make a method that calls a function of NumPy with the array as the first argument.

    `call` and `result` are an example, on the array [[1, 2, 3], [4, 5, 6]].
    """
    name = call.partition("(")[0]

    def method(self: NumpyMixin, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # ufuncs had no signature before NumPy 2.3
        pass
    else:
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        method.__signature__ = inspect.Signature([own, *parameters[1:]])  # type: ignore[attr-defined]
    method.__name__ = name
    method.__qualname__ = f"NumpyMixin.{name}"
    shown = result.replace("\n", "\n    ")
    method.__doc__ = f"""As `numpy.ndarray.{name}`; by the function `numpy.{function.__name__}`.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
    >>> a.{call}
    {shown}
    """
    return method


def _conjugate(x: Any, *args: Any, **options: Any) -> Any:
    # NumPy's method returns real numbers unchanged; the ufunc turns truth values into int8.
    if x.dtype.kind in "biuf" and not (args or options):
        return np.real(x)
    return np.conjugate(x, *args, **options)


_conjugate.__name__ = "conjugate"


class NumpyMixin(Source):
    """NumPy's protocols for everything that is read and written box by box."""

    __slots__ = ()

    # -- protocols ---------------------------------------------------------------------------

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ArgumentError(
                "cannot convert an ExtArray to a NumPy array without a copy; use copy=None, or "
                "the views of chunk()"
            )
        result = read_elements(self)
        return result if dtype is None else result.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out", ())
        if not isinstance(out, tuple):  # Numba's ufuncs pass `out` on as they got it
            kwargs["out"] = out = (out,)
        return _later.steadily(_later.apply, ufunc, method, inputs, kwargs)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        return _later.steadily(_later.dispatch, function, types, args, dict(kwargs))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return dlpack.to_dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU

    # -- operators ---------------------------------------------------------------------------

    __add__, __radd__ = binary("add"), reflected("add")
    __sub__, __rsub__ = binary("sub"), reflected("sub")
    __mul__, __rmul__ = binary("mul"), reflected("mul")
    __matmul__, __rmatmul__ = binary("matmul"), reflected("matmul")
    __truediv__, __rtruediv__ = binary("truediv"), reflected("truediv")
    __floordiv__, __rfloordiv__ = binary("floordiv"), reflected("floordiv")
    __mod__, __rmod__ = binary("mod"), reflected("mod")
    __divmod__, __rdivmod__ = binary("divmod"), reflected("divmod")
    __pow__, __rpow__ = binary("pow"), reflected("pow")
    __lshift__, __rlshift__ = binary("lshift"), reflected("lshift")
    __rshift__, __rrshift__ = binary("rshift"), reflected("rshift")
    __and__, __rand__ = binary("and"), reflected("and")
    __xor__, __rxor__ = binary("xor"), reflected("xor")
    __or__, __ror__ = binary("or"), reflected("or")

    __iadd__ = in_place("add")
    __isub__ = in_place("sub")
    __imul__ = in_place("mul")
    __imatmul__ = in_place("matmul")
    __itruediv__ = in_place("truediv")
    __ifloordiv__ = in_place("floordiv")
    __imod__ = in_place("mod")
    __ipow__ = in_place("pow")
    __ilshift__ = in_place("lshift")
    __irshift__ = in_place("rshift")
    __iand__ = in_place("and")
    __ixor__ = in_place("xor")
    __ior__ = in_place("or")

    __lt__ = binary("lt")
    __le__ = binary("le")
    __gt__ = binary("gt")
    __ge__ = binary("ge")

    __neg__ = NDArrayOperatorsMixin.__neg__
    __pos__ = NDArrayOperatorsMixin.__pos__
    __abs__ = NDArrayOperatorsMixin.__abs__
    __invert__ = NDArrayOperatorsMixin.__invert__

    __hash__ = None  # type: ignore[assignment]  # == is elementwise

    def __eq__(self, other: object) -> Any:
        return compare(np.equal, operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return compare(np.not_equal, operator.ne, self, other)

    def __contains__(self, value: object) -> bool:
        return contains(self, value)

    def __bool__(self) -> bool:
        return bool(self._lone())

    def __int__(self) -> int:
        return int(self._lone())

    def __float__(self) -> float:
        return float(self._lone())

    def __complex__(self) -> complex:
        return complex(self._lone())

    def __index__(self) -> int:
        return operator.index(self._lone())

    def __format__(self, spec: str) -> str:
        # As NumPy: format the element of an array without axes, else the array without a format.
        return super().__format__(spec) if self.shape else format(read_elements(self), spec)

    def _lone(self) -> NDArray[Any]:
        """Return the only element, as an array; else a stand-in, which NumPy refuses."""
        return read_elements(self) if self.size <= 1 else meta_arrays.shadow(self)

    # -- methods -----------------------------------------------------------------------------

    all = _method(np.all, "all()", "np.True_")
    any = _method(np.any, "any(axis=0)", "array([ True,  True,  True])")
    argmax = _method(np.argmax, "argmax()", "np.int64(5)")
    argmin = _method(np.argmin, "argmin(axis=1)", "array([0, 0])")
    argpartition = _method(
        np.argpartition, "argpartition(1)", "array([[0, 1, 2],\n       [0, 1, 2]])"
    )
    conj = _method(_conjugate, "conj()", "array([[1, 2, 3],\n       [4, 5, 6]])")
    conjugate = _method(_conjugate, "conjugate()", "array([[1, 2, 3],\n       [4, 5, 6]])")
    cumprod = _method(np.cumprod, "cumprod(axis=0)", "array([[ 1,  2,  3],\n       [ 4, 10, 18]])")
    cumsum = _method(np.cumsum, "cumsum()", "array([ 1,  3,  6, 10, 15, 21])")
    diagonal = _method(np.diagonal, "diagonal()", "array([1, 5])")
    dot = _method(np.dot, "dot([1, 0, 1])", "array([ 4, 10])")
    max = _method(np.max, "max()", "np.int64(6)")
    mean = _method(np.mean, "mean(axis=0)", "array([2.5, 3.5, 4.5])")
    min = _method(np.min, "min(axis=1)", "array([1, 4])")
    nonzero = _method(
        np.nonzero, "nonzero()", "(array([0, 0, 0, 1, 1, 1]), array([0, 1, 2, 0, 1, 2]))"
    )
    prod = _method(np.prod, "prod()", "np.int64(720)")
    put = _method(np.put, "put([0], 1)", "")
    ravel = _method(np.ravel, "ravel()", "array([1, 2, 3, 4, 5, 6])")
    repeat = _method(np.repeat, "repeat(2, axis=0).shape", "(4, 3)")
    round = _method(np.round, "round(-1)", "array([[ 0,  0,  0],\n       [ 0,  0, 10]])")
    searchsorted = _method(np.searchsorted, "ravel().searchsorted(4)", "np.int64(3)")
    squeeze = _method(np.squeeze, "squeeze().shape", "(2, 3)")
    std = _method(np.std, "std(axis=1).round(3)", "array([0.816, 0.816])")
    sum = _method(np.sum, "sum(axis=0)", "array([5, 7, 9])")
    swapaxes = _method(np.swapaxes, "swapaxes(0, 1).shape", "(3, 2)")
    take = _method(np.take, "take([0, -1], axis=1)", "array([[1, 3],\n       [4, 6]])")
    trace = _method(np.trace, "trace()", "np.int64(6)")
    var = _method(np.var, "var()", "np.float64(2.9166666666666665)")

    def choose(self, *choices: Any, **options: Any) -> Any:
        """As `numpy.ndarray.choose`; by the function `numpy.choose`.

        Parameters
        ----------
        *choices : array_like, or one sequence of them
        **options
            ``out`` and ``mode``, as for `numpy.choose`.

        Returns
        -------
        ndarray or ExtArray

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([1, 0, 1]).choose([1, 2, 3], [10, 20, 30])
        array([10,  2, 30])
        """
        return np.choose(self, choices[0] if len(choices) == 1 else choices, **options)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Any:
        """As `numpy.ndarray.clip`; by the function `numpy.clip`, which gets both bounds.

        Parameters
        ----------
        min, max : array_like, optional
        out : ndarray or ExtArray, optional
        **options
            Options of ufuncs.

        Returns
        -------
        ndarray or ExtArray

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).clip(2, 4)
        array([[2, 2, 3],
               [4, 4, 4]])
        """
        return np.clip(self, min, max, out, **options)

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        """As `numpy.ndarray.compress`; by the function `numpy.compress`.

        Parameters
        ----------
        condition : array_like of bool
        axis : int, optional
        out : ndarray or ExtArray, optional

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).compress([True, False, True], axis=1)
        array([[1, 3],
               [4, 6]])
        """
        return np.compress(condition, self, axis, out)

    def flatten(self, order: Any = "C") -> NDArray[Any]:
        """As `numpy.ndarray.flatten`.

        Parameters
        ----------
        order : {"C", "F", "A", "K"}

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).flatten("F")
        array([1, 4, 2, 5, 3, 6])
        """
        return np.ravel(self, order)

    def fill(self, value: Any) -> None:
        """As `numpy.ndarray.fill`: ``a[...] = value``.

        Parameters
        ----------
        value : scalar

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros(3)
        >>> a.fill(7)
        >>> a[...]
        array([7., 7., 7.])
        """
        one = np.empty((), self.dtype)
        one.fill(value)  # refuses what NumPy refuses; a tuple may be a record
        write_elements(self, ..., one)

    def item(self, *args: Any) -> Any:
        """As `numpy.ndarray.item`: one element, as Python's number.

        Parameters
        ----------
        *args : int or tuple of int
            An index, or a place in C order; nothing for the only element.

        Returns
        -------
        scalar

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).item(1, 2)
        6
        """
        meta_arrays.shadow(self).item(*args)  # raises what NumPy raises
        if len(args) == 1 and not isinstance(args[0], tuple):
            index = np.unravel_index(operator.index(args[0]) % self.size, self.shape)
            args = tuple([int(i) for i in index])
        elif args and isinstance(args[0], tuple):
            (args,) = args
        return read_elements(self, args).item() if args else read_elements(self).item()

    def reshape(self, *shape: Any, **options: Any) -> NDArray[Any]:
        """As `numpy.ndarray.reshape`; by the function `numpy.reshape`.

        Parameters
        ----------
        *shape : int, or one tuple of int
        **options
            ``order`` and ``copy``, as for `numpy.reshape`.

        Returns
        -------
        ndarray
            A copy.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).reshape(3, -1)
        array([[1, 2],
               [3, 4],
               [5, 6]])
        """
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **options)

    def partition(
        self, kth: Any, axis: int = -1, kind: Any = "introselect", order: Any = None
    ) -> None:
        """As `numpy.ndarray.partition`: in place, by whole lanes.

        Parameters
        ----------
        kth : int or sequence of int
        axis : int
        kind : {"introselect"}
        order : str or list of str, optional

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([3, 1, 2])
        >>> a.partition(0)
        >>> a[0]
        np.int64(1)
        """
        _later.change_lanes(np.partition, self, axis, kth=kth, kind=kind, order=order)

    def argsort(
        self,
        axis: int | None = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: bool | None = None,
        **options: Any,
    ) -> Any:
        """As `numpy.ndarray.argsort`; by the function `numpy.argsort`.

        Parameters
        ----------
        axis : int, optional
        kind : {"quicksort", "heapsort", "mergesort", "stable"}, optional
        order : str or list of str, optional
        stable : bool, optional
        **options
            ``descending``, from NumPy 2.5 on.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[3, 1, 2], [6, 5, 4]]).argsort()
        array([[1, 2, 0],
               [2, 1, 0]])
        """
        return np.argsort(self, axis, kind, order, stable=stable, **options)

    def sort(
        self,
        axis: int = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: bool | None = None,
        **options: Any,
    ) -> None:
        """As `numpy.ndarray.sort`: in place, by whole lanes.

        Parameters
        ----------
        axis : int
        kind : {"quicksort", "heapsort", "mergesort", "stable"}, optional
        order : str or list of str, optional
        stable : bool, optional
        **options
            ``descending``, from NumPy 2.5 on.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[3, 1, 2], [6, 5, 4]])
        >>> a.sort()
        >>> a[...]
        array([[1, 2, 3],
               [4, 5, 6]])
        """
        _later.change_lanes(np.sort, self, axis, kind=kind, order=order, stable=stable, **options)

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """As `numpy.ndarray.tofile`: the elements in C order, piece by piece.

        Parameters
        ----------
        fid : str, PathLike or file
            An open file must be a real file of the operating system.
        sep : str
            Separator of elements written as text; "" writes binary.
        format : str
            Format of an element as text, for ``%``.

        Examples
        --------
        >>> import os, tempfile, extarray as xa
        >>> path = os.path.join(tempfile.mkdtemp(), "x.bin")
        >>> xa.ones((2, 3), "i4").tofile(path)
        >>> np.fromfile(path, "i4")
        array([1, 1, 1, 1, 1, 1], dtype=int32)
        """
        _later.tofile(self, fid, sep, format)

    def tobytes(self, order: Any = "C") -> bytes:
        r"""As `numpy.ndarray.tobytes`.

        Parameters
        ----------
        order : {"C", "F", "A"}

        Returns
        -------
        bytes

        Examples
        --------
        >>> import extarray as xa
        >>> xa.ones(3, "u1").tobytes()
        b'\x01\x01\x01'
        """
        return read_elements(self).tobytes(order)

    def tolist(self) -> Any:
        """As `numpy.ndarray.tolist`.

        Returns
        -------
        list or scalar
            A scalar for an array without axes.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.ones((2, 3), int).tolist()
        [[1, 1, 1], [1, 1, 1]]
        """
        return read_elements(self).tolist()

    def to_numpy(self) -> NDArray[Any]:
        """Read all elements, as ``a[...]`` does; Matplotlib and others look for this method.

        Returns
        -------
        ndarray
            A copy.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).to_numpy()
        array([[1, 2, 3],
               [4, 5, 6]])
        """
        return read_elements(self)

    def transpose(self, *axes: Any) -> Any:
        """As `numpy.ndarray.transpose`; by the function `numpy.transpose`.

        Parameters
        ----------
        *axes : int, or one tuple of int, or None

        Returns
        -------
        LazyView
            Writes go to the array.  An array that is read in another dtype gives an ndarray.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((2, 3, 4)).transpose(2, 0, 1).shape
        (4, 2, 3)
        """
        if not axes:
            return np.transpose(self)
        return np.transpose(self, axes[0] if len(axes) == 1 else axes)

    @property
    def flat(self) -> FlatElements:
        """The elements in C order, for iteration and indexing; ``a.flat = x`` sets all.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> a.flat[4]
        np.int64(5)
        """
        flat: FlatElements = _later.FlatElements(self)
        return flat

    @flat.setter
    def flat(self, values: Any) -> None:
        _later.FlatElements(self)[...] = values

    @property
    def T(self) -> Any:  # noqa: N802 -- NumPy's name
        """The array with its axes reversed: a view, as `transpose` returns it."""
        return np.transpose(self)

    @property
    def mT(self) -> Any:  # noqa: N802 -- NumPy's name
        """The array with its last two axes exchanged: a view, as `transpose` returns it."""
        return np.matrix_transpose(self)

    @property
    def real(self) -> NDArray[Any]:
        """A copy of the real parts; assignment writes to the array."""
        return np.real(self)

    @real.setter
    def real(self, values: ArrayLike) -> None:
        _later.set_parts(self, "real", values)

    @property
    def imag(self) -> NDArray[Any]:
        """A copy of the imaginary parts; assignment writes to the array."""
        return np.imag(self)

    @imag.setter
    def imag(self, values: ArrayLike) -> None:
        _later.set_parts(self, "imag", values)
