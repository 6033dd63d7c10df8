"""Changes that a program under mpiexec makes outside of itself; its ranks undo them at its end."""

from __future__ import annotations

import pytest

__all__ = ["patch"]

patch = pytest.MonkeyPatch()
