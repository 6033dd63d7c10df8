"""URLs, and stores and file systems of other libraries: tell them from paths of this machine.

Every path that is opened comes through here, so that this module imports nothing that takes time.
"""

from __future__ import annotations

import re
import sys
from typing import Any

__all__ = ["OF_SCHEME", "URL", "is_filesystem", "is_store", "is_url", "parts_of"]

#: The beginning of a URL.  A scheme of one letter would be a drive.
URL = r"([A-Za-z][A-Za-z0-9+.-]+)(://|::(?=.*://))"

#: Schemes that obstore reads, and those that mean the same.
OF_SCHEME = {
    "http": "http",
    "https": "https",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
}


def is_store(value: Any) -> bool:
    """Tell whether a value is a store of obstore."""
    return type(value).__module__.partition(".")[0] == "obstore"


def is_filesystem(value: Any) -> bool:
    """Tell whether a value is a file system of fsspec, which need not be a subclass of ours."""
    return all(callable(getattr(value, name, None)) for name in ("cat_file", "info", "ukey"))


def parts_of(value: Any) -> tuple[Any, str] | None:
    """Return (file system, path) of what fsspec or universal_pathlib gives for one object."""
    fs = getattr(value, "fs", None)
    path = getattr(value, "root", None) if hasattr(value, "getitems") else None
    path = path if path is not None else getattr(value, "path", None)
    if fs is None or not isinstance(path, str) or not is_filesystem(fs):
        return None
    return fs, path


def is_url(path: Any) -> bool:
    r"""Tell whether a path is a URL, or an object in a store or file system; imports nothing.

    Examples
    --------
    >>> is_url("s3://bucket/scene.xap"), is_url("/data/scene.xap"), is_url("C:\\scene.xap")
    (True, False, False)
    """
    if isinstance(path, str):
        return "://" in path and re.match(URL, path) is not None
    if isinstance(path, tuple):
        return len(path) == 2 and (is_store(path[0]) or is_filesystem(path[0]))
    locations = sys.modules.get("extarray.remote.locations")
    if locations is not None and isinstance(path, locations.Location):
        return True
    return parts_of(path) is not None
