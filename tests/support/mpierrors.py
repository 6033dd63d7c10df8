"""Errors that all ranks raise together."""

from __future__ import annotations

import contextlib

import pytest

__all__ = ["raises"]


@contextlib.contextmanager
def raises(kind, words="", when=True):
    """Require such an error from the block on this rank, as on all, unless `when` is false."""
    if not when:
        yield
        return
    with pytest.raises(kind) as caught:
        yield
    assert words in str(caught.value), caught.value
