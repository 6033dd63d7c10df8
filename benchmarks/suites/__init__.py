"""The cases, one module per idea; each is an asv suite, and compare.py collects all of them.

`GROUPS` are functions from the sizes to a table of cases, in the order of the report.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "suites":
    # asv imports only this folder; the root provides the rest.  Last on the path, so that an
    # installed extarray wins over an unbuilt one in the same place.
    sys.path.append(os.fspath(Path(__file__).resolve().parents[2]))

from .bench_axial import axial
from .bench_box import box
from .bench_compute import compute
from .bench_fancy import fancy
from .bench_growth import append, growth, reopen
from .bench_layout import layout
from .bench_scalar import scalar
from .bench_slab import create, slab, threads

GROUPS = (scalar, slab, box, fancy, create, append, growth, reopen, axial, threads, compute, layout)
