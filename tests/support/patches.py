"""What a program under mpiexec changes outside of itself: its ranks undo it when it has ended."""

from __future__ import annotations

import pytest

__all__ = ["patch"]

patch = pytest.MonkeyPatch()
