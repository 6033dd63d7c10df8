"""What the modules of a store call, replaced in all of them."""

from __future__ import annotations

from extarray import store, sums
from extarray.pair import allocation, commits, following, growthlog, member, names, states

MODULES = (store, sums, allocation, commits, following, growthlog, member, names, states)


def replace(patch, name, function):
    """Have them call another function in the place of one that they import."""
    for module in MODULES:
        if hasattr(module, name):
            patch.setattr(module, name, function)
