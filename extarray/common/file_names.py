"""Names that a system allows for files."""

from __future__ import annotations

import re

__all__ = ["problem_on_windows"]

# Devices have these names, in every folder, whatever follows a dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\.|$)", re.I)
_CHARACTERS = re.compile(r'[<>:"|?*\x00-\x1f]')


def problem_on_windows(name: str) -> str | None:
    """Return why Windows has no file or folder of a name, without folders; None if it has.

    Examples
    --------
    >>> problem_on_windows("nul.xmd"), problem_on_windows("annul.xmd")
    ('Windows has a device of this name', None)
    """
    if _DEVICES.match(name):
        return "Windows has a device of this name"
    found = _CHARACTERS.search(name)
    if found:
        return f"Windows has no names with {found[0]!r}"
    if name.endswith((" ", ".")):
        return "Windows leaves out a space or a dot at the end of a name"
    return None
