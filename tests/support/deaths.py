"""Processes that died while working on a hostile file: whose fault was it?"""

from __future__ import annotations

import os
import re

__all__ = ["TIME", "in_ours"]

#: Seconds for one case.
TIME = 30

# Modules whose innermost frame may be a call of a C library.
_CALLING = ("geotiff.py", "hdf5.py", "hdf5_parts.py", "netcdf.py", "netcdf_parts.py")


def in_ours(stack: str) -> bool:
    """Tell from `faulthandler` output whether the package, not a library, was running."""
    # With several threads: the running one if marked, else the main one, which comes last.
    head = "Current thread" if "Current thread" in stack else "(most recent call first)"
    frames = re.findall(r'File "(.*)", line', stack.rpartition(head)[2].partition("\n\n")[0])
    return (
        bool(frames)
        and "/extarray/" in frames[0].replace(os.sep, "/")
        and not frames[0].endswith(_CALLING)
    )
