"""Dense N-d arrays, on disk and in memory, that grow along any axis without moving data.

>>> import extarray as xa
>>> a = xa.zeros((2, 3))
>>> a.extend(axis=1, by=2)
>>> a.shape
(2, 5)
"""

from extarray import errors
from extarray._core._axial import Axial
from extarray.advice import advise_chunks
from extarray.array import ExtArray
from extarray.checking import check
from extarray.config import config
from extarray.creation import create, empty, from_array, full, ones, open, zeros
from extarray.errors import *  # noqa: F403
from extarray.errors import __all__ as _error_names
from extarray.findings import Problem, Report
from extarray.group import commit, refresh
from extarray.protocols.iteration import ndenumerate
from extarray.rawfile import fromfile
from extarray.rechunking import rechunk, rechunk_plan

__version__ = "0.1.0"

__all__ = [
    "Axial",
    "ExtArray",
    "Problem",
    "Report",
    "advise_chunks",
    "check",
    "commit",
    "config",
    "create",
    "empty",
    "errors",
    "from_array",
    "fromfile",
    "full",
    "ndenumerate",
    "ones",
    "open",
    "rechunk",
    "rechunk_plan",
    "refresh",
    "zeros",
]
__all__ += _error_names
