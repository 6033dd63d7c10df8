"""The standard's extension for Fourier transforms: NumPy's functions, returning our arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array_api.functions import astype
from extarray.array_api.results import as_arrays, wrap_all

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from extarray.array.array import ExtArray

__all__ = [  # noqa: F822 -- most are set below
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Any = None
) -> ExtArray:
    """Return the frequencies of a transform."""
    return _of_dtype(np.fft.fftfreq(n, d, device=device), dtype)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Any = None
) -> ExtArray:
    """Return the frequencies of a transform of real numbers."""
    return _of_dtype(np.fft.rfftfreq(n, d, device=device), dtype)


def _of_dtype(result: Any, dtype: DTypeLike | None) -> ExtArray:
    if dtype is not None:
        return astype(result, dtype)
    found: ExtArray = as_arrays(result)
    return found


wrap_all(np.fft, __all__, globals())
