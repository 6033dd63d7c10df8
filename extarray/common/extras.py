"""Optional packages, all imported through one function where they are used.

The core needs NumPy alone.  An error for a missing package has the command that installs this
package, and not extarray again with an extra, which would compile it anew.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from extarray.common.errors import MissingExtraError

__all__ = ["command_for", "missing", "require"]


# Packages that are of use with others alone, by names of modules.
_TOGETHER = {"mpi4py": ("mpi4py", "mpich"), "backports": ("backports.zstd",)}


def command_for(*packages: str) -> str:
    """Return the command that installs packages.

    >>> command_for("mpi4py", "mpich")
    'pip install mpi4py mpich'
    """
    return f"pip install {' '.join(packages)}"


def missing(package: str, extra: str, purpose: str = "this") -> MissingExtraError:
    """Return the error for a package that is not installed, ready to raise.

    `purpose`, which needs it, begins the message.  `package` and `extra`, the extra of extarray
    that installs it, become attributes of the error, `name` and `extra`.
    """
    how = command_for(*_TOGETHER.get(package.partition(".")[0], (package,)))
    error = MissingExtraError(f"{purpose} needs '{package}'; install it with: {how}")
    error.name = package
    error.extra = extra
    return error


def require(module: str, extra: str, purpose: str = "this") -> ModuleType:
    """Import an optional module, or say how to install it; see `missing`.

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
pip install no_such_package
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise missing(package, extra, purpose) from None
    return importlib.import_module(module)
