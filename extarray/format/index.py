"""The index of a group: a file that lists its arrays and groups, for readers that cannot list.

It is JSON, ``{"extarray index": 1, "crc32c": n, "content": {...}}``, where the checksum is that of
the content with sorted keys, without blanks, and all but ASCII escaped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from extarray.common.errors import CorruptError, FormatError, VersionError
from extarray.format._crc import crc32c
from extarray.format.archive import check_member_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["INDEX_NAME", "Index", "decode_index", "encode_index"]

#: The file's name in the group's folder.
INDEX_NAME = "extarray-index.json"

_KEY, _VERSION = "extarray index", 1


class Index(NamedTuple):
    """The arrays of a group and below, and the attributes files of its groups, by name.

    The group's own name is ""; a group without attributes has None.
    """

    arrays: list[str]
    groups: dict[str, bytes | None]


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def encode_index(arrays: Iterable[str], groups: Mapping[str, bytes | None]) -> bytes:
    """Return the bytes of an index.

    Examples
    --------
    >>> decode_index(encode_index(["wind", "north/level"], {"": None, "north": None})).arrays
    ['north/level', 'wind']
    """
    content = {
        "arrays": sorted(arrays),
        "groups": {
            name: None if data is None else data.decode("utf-8", "surrogateescape")
            for name, data in groups.items()
        },
    }
    form = {_KEY: _VERSION, "crc32c": crc32c(_canonical(content)), "content": content}
    return json.dumps(form, sort_keys=True, indent=1).encode() + b"\n"


def decode_index(data: bytes) -> Index:
    """Return what an index lists; raise FormatError if it is none, CorruptError if damaged."""
    try:
        form = json.loads(data)
        number, crc, content = form[_KEY], form["crc32c"], form["content"]
        if number != _VERSION:
            raise VersionError(
                f"the index has version {number!r}, and this extarray reads {_VERSION}: install a "
                "newer one"
            )
        if crc != crc32c(_canonical(content)):
            raise CorruptError("the index is damaged: it does not match its checksum")
        arrays, groups = content["arrays"], content["groups"]
        names = [*arrays, *(f"{name}/" for name in groups if name)]
        if not all(isinstance(name, str) for name in arrays):
            raise FormatError("the index is damaged: a name is no text")
        for name in names:
            problem = check_member_name(name if name.endswith("/") else f"{name}/")
            if problem is not None:
                raise CorruptError(f"the index is damaged: the name {name!r}: {problem}")
        return Index(
            arrays,
            {
                name: None if text is None else text.encode("utf-8", "surrogateescape")
                for name, text in groups.items()
            },
        )
    except FormatError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(f"it is no index of a group: {type(error).__name__}") from None
