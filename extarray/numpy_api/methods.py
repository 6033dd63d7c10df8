"""What an array of ours has of an ndarray: operators, protocols, methods.

Each method that has a function in NumPy calls it, and the protocols bring it to the streamed form:
there is one way.
"""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from extarray.common.errors import ArgumentError
from extarray.numpy_api import catalogue  # noqa: F401 -- registers the streamed forms
from extarray.numpy_api.files import tofile
from extarray.numpy_api.iteration import FlatElements
from extarray.numpy_api.pointwise import set_parts
from extarray.numpy_api.reductions import reduce
from extarray.numpy_api.sorting import change_lanes
from extarray.numpy_api.ufuncs import apply
from extarray.streaming.blocks import Source
from extarray.streaming.derived import Computed
from extarray.streaming.elementwise import as_operand, assigning, elementwise, shape_of
from extarray.streaming.functions import dispatch, fall_back
from extarray.streaming.meta_arrays import empty, shadow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = ["NumpyMixin"]


def _method(function: Callable[..., Any], call: str, result: str) -> Callable[..., Any]:
    """Method that calls a function of NumPy with the array as the first argument.

    `call` and `result` are an example, on an array of two rows: 1, 2, 3 and 4, 5, 6.
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
    # NumPy's method leaves real numbers as they are; the ufunc makes int8 of truth values.
    if x.dtype.kind in "biuf" and not (args or options):
        return np.real(x)
    return np.conjugate(x, *args, **options)


_conjugate.__name__ = "conjugate"


#: Operators by name, and what Python calls of the right operand.
_OPERATORS = {
    **{name: f"__r{name}__" for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv")},
    **{name: f"__r{name}__" for name in ("mod", "divmod", "pow", "lshift", "rshift")},
    **{name: f"__r{name}__" for name in ("and", "or", "xor")},
    "lt": "__gt__",
    "le": "__ge__",
    "gt": "__lt__",
    "ge": "__le__",
    "eq": "__eq__",
    "ne": "__ne__",
}


def _operator(name: str) -> Callable[[Any, Any], Any]:
    function: Callable[[Any, Any], Any]
    function = divmod if name == "divmod" else getattr(operator, f"__{name}__")
    return function


def _of_left(name: str) -> Callable[..., Any]:
    """A binary operator of the left operand."""
    by_ufunc, function = getattr(NDArrayOperatorsMixin, f"__{name}__"), _operator(name)

    def method(self: NumpyMixin, other: Any) -> Any:
        if _decides(other, name):
            return fall_back(function, (self, other), {})
        return by_ufunc(self, other)

    return _named(method, f"__{name}__")


def _of_right(name: str) -> Callable[..., Any]:
    """A binary operator of the right operand."""
    by_ufunc, function = getattr(NDArrayOperatorsMixin, f"__r{name}__"), _operator(name)

    def method(self: NumpyMixin, other: Any) -> Any:
        if _decides(other, name):
            return fall_back(function, (other, self), {})
        return by_ufunc(self, other)

    return _named(method, f"__r{name}__")


def _in_place(name: str) -> Callable[..., Any]:
    """An operator in place: as NumPy's, it leaves to others those that had no protocol alone."""
    by_ufunc = getattr(NDArrayOperatorsMixin, f"__i{name}__")

    def method(self: NumpyMixin, other: Any) -> Any:
        return NotImplemented if _has_priority(other) else by_ufunc(self, other)

    return _named(method, f"__i{name}__")


def _named(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__ = name
    method.__qualname__ = f"NumpyMixin.{name}"
    return method


def _decides(other: Any, name: str) -> bool:
    """Whether NumPy leaves an operator to the other operand, which then needs NumPy's array.

    It does so for a class without the protocol and with a priority, as sparse matrices; Python does
    so for a subclass of ndarray with an operator of its own, as ``np.matrix``.
    """
    kind = type(other)
    if kind is np.ndarray or isinstance(other, Source):
        return False
    if issubclass(kind, np.ndarray):
        own = _OPERATORS[name]
        return getattr(kind, own) is not getattr(np.ndarray, own)
    return _has_priority(other)


def _has_priority(other: Any) -> bool:
    """Whether an operand has no ``__array_ufunc__``, and a priority above that of arrays."""
    if hasattr(other, "__array_ufunc__"):
        return False
    priority: float = getattr(other, "__array_priority__", 0.0)
    return priority > 0.0


class _Held:
    """Arrays as they are when a call begins, in the place of those of a user.

    A call that goes through an array part by part sees one state of it, also while other threads
    move its bounds.
    """

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[Source, Any]] = {}

    def exchange(self, value: Any) -> Any:
        """Return the same arguments, with held arrays in the place of those of the user."""
        if isinstance(value, Source):
            pair = self._pairs.get(id(value))
            if pair is None:
                pair = self._pairs[id(value)] = value, value._held()
            return pair[1]
        kind = type(value)
        if kind is dict:
            return {key: self.exchange(item) for key, item in value.items()}
        if kind is list or kind is tuple:
            return kind(map(self.exchange, value))
        return value

    def restore(self, result: Any) -> Any:
        """Return a result, with the arrays of the user in the place of those that were held."""
        if isinstance(result, Source):
            for given, held in self._pairs.values():
                if result is held:
                    return given
            return result._released()
        elif type(result) is tuple or type(result) is list:
            return type(result)(map(self.restore, result))
        return result


def _steadily(call: Callable[..., Any], *args: Any) -> Any:
    """Call what goes through arrays part by part, with arrays that nobody changes meanwhile."""
    held = _Held()
    return held.restore(call(*map(held.exchange, args)))


class NumpyMixin(NDArrayOperatorsMixin, Source):
    """NumPy's protocols on what can be read and written box by box."""

    __slots__ = ()

    # -- protocols ---------------------------------------------------------------------------

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ArgumentError(
                "an ExtArray cannot become a NumPy array without a copy; use copy=None, or the "
                "views that chunk() gives"
            )
        result = self._fetch()
        return result if dtype is None else result.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out", ())
        if not isinstance(out, tuple):  # Numba's ufuncs hand on what they were given
            kwargs["out"] = out = (out,)
        return _steadily(apply, ufunc, method, inputs, kwargs)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        return _steadily(dispatch, function, types, args, dict(kwargs))

    # -- operators ---------------------------------------------------------------------------

    __add__, __radd__ = _of_left("add"), _of_right("add")
    __sub__, __rsub__ = _of_left("sub"), _of_right("sub")
    __mul__, __rmul__ = _of_left("mul"), _of_right("mul")
    __matmul__, __rmatmul__ = _of_left("matmul"), _of_right("matmul")
    __truediv__, __rtruediv__ = _of_left("truediv"), _of_right("truediv")
    __floordiv__, __rfloordiv__ = _of_left("floordiv"), _of_right("floordiv")
    __mod__, __rmod__ = _of_left("mod"), _of_right("mod")
    __divmod__, __rdivmod__ = _of_left("divmod"), _of_right("divmod")
    __pow__, __rpow__ = _of_left("pow"), _of_right("pow")
    __lshift__, __rlshift__ = _of_left("lshift"), _of_right("lshift")
    __rshift__, __rrshift__ = _of_left("rshift"), _of_right("rshift")
    __and__, __rand__ = _of_left("and"), _of_right("and")
    __xor__, __rxor__ = _of_left("xor"), _of_right("xor")
    __or__, __ror__ = _of_left("or"), _of_right("or")

    __iadd__ = _in_place("add")
    __isub__ = _in_place("sub")
    __imul__ = _in_place("mul")
    __imatmul__ = _in_place("matmul")
    __itruediv__ = _in_place("truediv")
    __ifloordiv__ = _in_place("floordiv")
    __imod__ = _in_place("mod")
    __ipow__ = _in_place("pow")
    __ilshift__ = _in_place("lshift")
    __irshift__ = _in_place("rshift")
    __iand__ = _in_place("and")
    __ixor__ = _in_place("xor")
    __ior__ = _in_place("or")

    __lt__ = _of_left("lt")
    __le__ = _of_left("le")
    __gt__ = _of_left("gt")
    __ge__ = _of_left("ge")

    __hash__ = None  # type: ignore[assignment]  # == is elementwise

    def __eq__(self, other: object) -> Any:
        return _compare(np.equal, operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return _compare(np.not_equal, operator.ne, self, other)

    def __contains__(self, value: object) -> bool:
        equal = Computed(operator.eq, self, value, dtype=bool)
        found = reduce(np.logical_or, equal, axis=None)
        return bool(equal._fetch().any() if found is NotImplemented else found)

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
        # As NumPy: the element of an array without axes; else the array, without a format.
        return super().__format__(spec) if self.shape else format(self._fetch(), spec)

    def _lone(self) -> NDArray[Any]:
        """The only element, as an array; where there are more, NumPy refuses what it is for."""
        return self._fetch() if self.size <= 1 else shadow(self)

    # -- methods -----------------------------------------------------------------------------

    all = _method(np.all, "all()", "np.True_")
    any = _method(np.any, "any(axis=0)", "array([ True,  True,  True])")
    argmax = _method(np.argmax, "argmax()", "np.int64(5)")
    argmin = _method(np.argmin, "argmin(axis=1)", "array([0, 0])")
    argpartition = _method(
        np.argpartition, "argpartition(1)", "array([[0, 1, 2],\n       [0, 1, 2]])"
    )
    argsort = _method(np.argsort, "argsort()", "array([[0, 1, 2],\n       [0, 1, 2]])")
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
        """As `numpy.ndarray.clip`; by the function `numpy.clip`, to which both bounds are given.

        Parameters
        ----------
        min, max : array_like, optional
        out : ndarray or ExtArray, optional
        **options
            Of ufuncs.

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
        self._put(..., one)

    def item(self, *args: Any) -> Any:
        """As `numpy.ndarray.item`: one element, as Python's number.

        Parameters
        ----------
        *args : int or tuple of int
            Its index, or its place in C order; none for the only element.

        Returns
        -------
        scalar

        Examples
        --------
        >>> import extarray as xa
        >>> xa.from_array([[1, 2, 3], [4, 5, 6]]).item(1, 2)
        6
        """
        shadow(self).item(*args)  # raises what NumPy raises
        if len(args) == 1 and not isinstance(args[0], tuple):
            index = np.unravel_index(operator.index(args[0]) % self.size, self.shape)
            args = tuple([int(i) for i in index])
        elif args and isinstance(args[0], tuple):
            (args,) = args
        return self._fetch(args).item() if args else self._fetch().item()

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
        change_lanes(np.partition, self, axis, kth=kth, kind=kind, order=order)

    def sort(
        self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None
    ) -> None:
        """As `numpy.ndarray.sort`: in place, by whole lanes.

        Parameters
        ----------
        axis : int
        kind : {"quicksort", "heapsort", "mergesort", "stable"}, optional
        order : str or list of str, optional
        stable : bool, optional

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[3, 1, 2], [6, 5, 4]])
        >>> a.sort()
        >>> a[...]
        array([[1, 2, 3],
               [4, 5, 6]])
        """
        change_lanes(np.sort, self, axis, kind=kind, order=order, stable=stable)

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """As `numpy.ndarray.tofile`: the elements in C order, piece by piece.

        Parameters
        ----------
        fid : str, PathLike or file
            An open file has to be one of the operating system.
        sep : str
            Between elements that are written as text; "": in binary.
        format : str
            Of an element as text, for ``%``.

        Examples
        --------
        >>> import os, tempfile, extarray as xa
        >>> path = os.path.join(tempfile.mkdtemp(), "x.bin")
        >>> xa.ones((2, 3), "i4").tofile(path)
        >>> np.fromfile(path, "i4")
        array([1, 1, 1, 1, 1, 1], dtype=int32)
        """
        tofile(self, fid, sep, format)

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
        return self._fetch().tobytes(order)

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
        return self._fetch().tolist()

    def to_numpy(self) -> NDArray[Any]:
        """All elements, as ``a[...]``; the name by which Matplotlib and others ask for them.

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
        return self._fetch()

    def transpose(self, *axes: Any) -> Any:
        """As `numpy.ndarray.transpose`; by the function `numpy.transpose`.

        Parameters
        ----------
        *axes : int, or one tuple of int, or None

        Returns
        -------
        LazyView
            Writes go to the array.  Of an array that is read in another dtype: an ndarray.

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
        """The elements in C order, to iterate over and to index; ``a.flat = x`` sets all.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> a.flat[4]
        np.int64(5)
        """
        return FlatElements(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        FlatElements(self)[...] = values

    @property
    def T(self) -> Any:  # noqa: N802 -- NumPy's name
        """The array with its axes reversed: a view, as `transpose` gives it."""
        return np.transpose(self)

    @property
    def mT(self) -> Any:  # noqa: N802 -- NumPy's name
        """The array with its last two axes exchanged: a view, as `transpose` gives it."""
        return np.matrix_transpose(self)

    @property
    def real(self) -> NDArray[Any]:
        """Real parts, a copy; what is assigned goes to the array."""
        return np.real(self)

    @real.setter
    def real(self, values: ArrayLike) -> None:
        set_parts(self, "real", values)

    @property
    def imag(self) -> NDArray[Any]:
        """Imaginary parts, a copy; what is assigned goes to the array."""
        return np.imag(self)

    @imag.setter
    def imag(self, values: ArrayLike) -> None:
        set_parts(self, "imag", values)


def _compare(ufunc: np.ufunc, function: Callable[..., Any], a: NumpyMixin, other: Any) -> Any:
    """Comparison by a ufunc; by Python's operator where the ufunc does not know the dtypes."""
    if getattr(other, "__array_ufunc__", ufunc) is None:
        return NotImplemented
    if _decides(other, function.__name__):
        return fall_back(function, (a, other), {})
    if not a.shape and not shape_of(as_operand(other)):  # NumPy's way differs by dtype
        return function(a._fetch(), other._fetch() if isinstance(other, Source) else other)
    if a.dtype.kind == "V":
        function(empty(a), empty(as_operand(other)))  # NumPy's refusal
    try:
        return ufunc(a, other)
    except TypeError:
        return elementwise(assigning(function), [a, other], dtype=bool, name=ufunc.__name__)
