"""Optional packages, all imported through one function where they are used.

The core needs NumPy alone.  An error for a missing package names the extra that installs it, by a
command that works in a clone, as long as no package index has extarray.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from extarray.common.errors import MissingExtraError

__all__ = ["command_for", "missing", "require"]


def command_for(extra: str) -> str:
    """Return the command that installs an extra of extarray, and where to run it.

    >>> command_for("plot")
    'pip install ".[plot]", in a clone of extarray'
    """
    return f'pip install ".[{extra}]", in a clone of extarray'


def missing(package: str, extra: str, purpose: str = "this") -> MissingExtraError:
    """Return the error for a package that is not installed, ready to raise; `name` is the package.

    `extra` is the extra of extarray that installs it; `purpose`, which needs it, begins the
    message.
    """
    error = MissingExtraError(f"{purpose} needs '{package}'; install it with: {command_for(extra)}")
    error.name = package
    return error


def require(module: str, extra: str, purpose: str = "this") -> ModuleType:
    """Import an optional module, or say which extra installs it; see `missing`.

    An installed package that fails to import raises its own error: installing it again would not
    help.

    Examples
    --------
    >>> require("json", "plot").dumps([1, 2])
    '[1, 2]'
    >>> require("no_such_package.part", "plot", "the growth map")
    Traceback (most recent call last):
    ...
    extarray.errors.MissingExtraError: the growth map needs 'no_such_package'; install it with: \
pip install ".[plot]", in a clone of extarray
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise missing(package, extra, purpose) from None
    return importlib.import_module(module)
