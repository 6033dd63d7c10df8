"""Processes that ended, or were ended, at work on a hostile file: whose fault it is."""

from __future__ import annotations

import os
import re

__all__ = ["TIME", "in_ours"]

#: Seconds of one case.
TIME = 30

# Modules whose innermost frame is a call of a library in C.
_CALLING = ("geotiff.py", "hdf5.py", "hdf5_parts.py", "netcdf.py", "netcdf_parts.py")


def in_ours(stack: str) -> bool:
    """Tell by what `faulthandler` has written whether the package was at work, and no library."""
    # Of several threads the one that was at work, or else the main one, which comes last.
    head = "Current thread" if "Current thread" in stack else "(most recent call first)"
    frames = re.findall(r'File "(.*)", line', stack.rpartition(head)[2].partition("\n\n")[0])
    return (
        bool(frames)
        and f"{os.sep}extarray{os.sep}" in frames[0]
        and not frames[0].endswith(_CALLING)
    )
