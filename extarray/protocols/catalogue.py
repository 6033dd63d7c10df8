"""All streamed forms: to import this module is to register them."""

from __future__ import annotations

from extarray.protocols import (
    choosing,
    comparing,
    joining,
    pointwise,
)

__all__ = ["choosing", "comparing", "joining", "pointwise"]
