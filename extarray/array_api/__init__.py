"""The array API standard: its functions on arrays of ours.

``a.__array_namespace__()`` is this module.  Its functions are NumPy's, so they stream where NumPy's
functions stream; the arrays they create or return are ours, in memory.  Operators (``a + b``) and
brackets give NumPy arrays here as everywhere, and all functions accept these.

The version of the standard is that of the installed NumPy.  Libraries also find NumPy's other
functions here, which the standard lacks; those are not listed, and give NumPy arrays.

>>> import extarray as xa
>>> a = xa.from_array([[1.0, 2.0], [3.0, 4.0]])
>>> xp = a.__array_namespace__()
>>> xp.mean(a, axis=0)
<extarray.ExtArray: shape (2,), float64, chunks (2,), in memory>
>>> xp.mean(a, axis=0)[...]
array([2., 3.])

Its modules, from the top down; each uses only modules below it:

``fft``
    The standard's extension for Fourier transforms: NumPy's functions, returning our arrays.
``linalg``
    The standard's extension for linear algebra: NumPy's functions, returning our arrays.
``functions``
    Functions whose signature or result the standard defines differently from NumPy.
``results``
    Results of NumPy's functions, as arrays of the namespace.

May use: array, and the rooms below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from extarray.array_api import fft as fft
from extarray.array_api import linalg as linalg
from extarray.array_api.functions import *  # noqa: F403
from extarray.array_api.functions import __all__ as _own
from extarray.array_api.results import wrap_all

#: Version of the standard.
__array_api_version__: str = np.__array_api_version__

_CONSTANTS = ["e", "inf", "nan", "newaxis", "pi"]
_DTYPES = [
    *["bool", "complex64", "complex128", "float32", "float64"],
    *["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
]
_FUNCTIONS = [
    *["abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "asin", "asinh"],
    *["atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift"],
    *["bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_to", "can_cast", "ceil"],
    *["concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod"],
    *["cumulative_sum", "diff", "divide", "equal", "exp", "expand_dims", "expm1", "eye", "flip"],
    *["floor", "floor_divide", "greater", "greater_equal", "hypot", "imag", "isdtype", "isfinite"],
    *["isinf", "isnan", "less", "less_equal", "linspace", "log", "log10", "log1p", "log2"],
    *["logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul"],
    *["matrix_transpose", "max", "maximum", "mean", "min", "minimum", "moveaxis", "multiply"],
    *["negative", "nextafter", "nonzero", "not_equal", "permute_dims", "positive", "pow", "prod"],
    *["real", "reciprocal", "remainder", "repeat", "reshape", "result_type", "roll", "round"],
    *["searchsorted", "sign", "signbit", "sin", "sinh", "sqrt", "square", "squeeze", "stack"],
    *["std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile"],
    *["tril", "triu", "trunc", "unique_all", "unique_counts", "unique_inverse"],
    *["unique_values", "unstack", "var", "vecdot", "where"],
]

globals().update({name: getattr(np, name) for name in (*_CONSTANTS, *_DTYPES)})
wrap_all(np, _FUNCTIONS, globals())

_names = [*_own, *_CONSTANTS, *_DTYPES, *_FUNCTIONS, "__array_api_version__", "fft", "linalg"]
__all__ = sorted(name for name in _names if name in globals())


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__name__"]


def __getattr__(name: str) -> Any:
    # Other libraries look here for NumPy's functions that the standard lacks, such as xarray for
    # ``pad``.  They accept our arrays as they are.
    if name in np.__all__:
        return getattr(np, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
