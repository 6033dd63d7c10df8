"""dask: arrays of tasks that read an array late."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from extarray.extras import require

__all__ = ["builds_graph", "to_dask"]


def to_dask(array: Any, chunks: Any = None) -> Any:
    """Dask array of an array, whose elements the tasks read.

    Parameters
    ----------
    array : ExtArray or AsType
    chunks : int, tuple, str or dict, optional
        As for `dask.array.from_array`; None: groups of whole chunks, of about the bytes that dask's
        setting ``array.chunk-size`` says, by default 128 MiB.

    Returns
    -------
    dask.array.Array

    Raises
    ------
    MissingExtraError
        Dask is not installed.
    """
    dask_array = require("dask.array", "dask", "to_dask")
    return dask_array.from_array(
        array,
        chunks="auto" if chunks is None else chunks,
        # The path goes with each task, so that none waits for one that has the array alone;
        # elements in memory go to other processes once.
        inline_array=getattr(array, "path", None) is not None,
        meta=np.empty((0,) * array.ndim, array.dtype),
    )


def builds_graph() -> bool:
    """Whether the caller of the caller is dask, which asks for a copy while it builds a graph.

    ``dask.array.from_array`` copies arrays that have NumPy's protocols, lest they change.  A
    graph has to hold an array of ours itself, which may be larger than memory, as it holds
    datasets of h5py and zarr.

    Returns
    -------
    bool
    """
    caller = sys._getframe(2)
    module = str(caller.f_globals.get("__name__"))
    return caller.f_code.co_name == "from_array" and module.startswith("dask.array.")
