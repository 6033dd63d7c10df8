"""All streamed forms: to import this module is to register them."""

from __future__ import annotations

from extarray.protocols import (
    choosing,
    comparing,
    joining,
    moments,
    pointwise,
    reductions,
)

__all__ = ["choosing", "comparing", "joining", "moments", "pointwise", "reductions"]
