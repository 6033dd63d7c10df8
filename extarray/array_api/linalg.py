"""The standard's extension for linear algebra: NumPy's functions, returning our arrays."""

from __future__ import annotations

import numpy as np

from extarray.array_api.results import wrap_all

__all__ = [  # noqa: F822 -- set below
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

wrap_all(np.linalg, __all__, globals())
