"""All streamed forms: to import this module is to register them."""

from __future__ import annotations

from extarray.numpy_api import (
    along,
    choosing,
    comparing,
    cumulative,
    describing,
    files,
    fourier,
    histograms,
    joining,
    linalg,
    moments,
    norms,
    pointwise,
    quantiles,
    reductions,
    sorting,
    statistics,
)

__all__ = [
    "along",
    "choosing",
    "comparing",
    "cumulative",
    "describing",
    "files",
    "fourier",
    "histograms",
    "joining",
    "linalg",
    "moments",
    "norms",
    "pointwise",
    "quantiles",
    "reductions",
    "sorting",
    "statistics",
]
