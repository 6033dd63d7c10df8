"""Names of the files of an array: a stem, and a suffix."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "BLOBS",
    "DATA",
    "FILES",
    "METADATA",
    "PACKED",
    "PAIR",
    "all_names",
    "blobs_name",
    "file_names",
    "is_of_pair",
    "split_name",
    "without_suffix",
]

METADATA, DATA = ".xmd", ".xta"
PAIR = (METADATA, DATA)
# Chunks in blobs: of a packed array, or frozen ones of an array that grows.
BLOBS = ".xtz"
FILES = (*PAIR, BLOBS)
# The usual ending of a packed file, which may have any.
PACKED = ".xap"


def file_names(path: str | Path) -> tuple[str, str]:
    """Return the names of the metadata and of the data, for a path without suffix."""
    return f"{path}{METADATA}", f"{path}{DATA}"


def all_names(path: str | Path) -> tuple[str, str, str]:
    """Return the names of all files that an array may have, for a path without suffix."""
    return (*file_names(path), f"{path}{BLOBS}")


def blobs_name(metadata: str) -> str:
    """Return the name of the file of blobs beside metadata, which may have a temporary name.

    Examples
    --------
    >>> blobs_name("scene.xmd"), blobs_name("scene.xmd.0123456789ab.new")
    ('scene.xtz', 'scene.xtz.0123456789ab.new')
    """
    folder, name = os.path.split(metadata)
    stem, suffix, rest = name.rpartition(METADATA)
    return os.path.join(folder, f"{stem}{BLOBS}{rest}" if suffix else f"{name}{BLOBS}")


def split_name(name: str) -> tuple[str, str]:
    """Return stem and suffix of a file of a pair; the suffix of any other file is empty.

    Examples
    --------
    >>> split_name("scene.xta"), split_name("run.2024"), split_name(".xmd")
    (('scene', '.xta'), ('run.2024', ''), ('.xmd', ''))
    """
    if not name.endswith(PAIR) or os.path.basename(name[:-4]) in ("", os.curdir, os.pardir):
        return name, ""
    return name[:-4], name[-4:]


def without_suffix(name: str) -> str:
    """Return the name without the suffix of a pair, if it has one.

    Examples
    --------
    >>> without_suffix("scene.xta"), without_suffix("run.2024")
    ('scene', 'run.2024')
    """
    return split_name(name)[0]


def is_of_pair(name: str) -> bool:
    """Tell whether a file can belong to an array, by its name.

    Examples
    --------
    >>> is_of_pair("scene.xmd"), is_of_pair(".xmd"), is_of_pair("scene.xap"), is_of_pair("a.xtz")
    (True, False, False, True)
    """
    stem = name.removesuffix(BLOBS)
    return split_name(name if stem == name else stem + DATA)[1] != ""
