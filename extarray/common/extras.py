"""Optional packages: imported where they are used, all through one function.

The core needs NumPy alone.  What lies beside it names the extra that installs what is missing.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from extarray.common.errors import MissingExtraError

__all__ = ["missing", "require"]


def missing(package: str, extra: str, purpose: str = "this") -> MissingExtraError:
    """Return the error for a package that is not installed, ready to raise.

    Parameters
    ----------
    package : str
        Name of the package that is missing.
    extra : str
        The extra of extarray that installs it.
    purpose : str
        What needs the package: the first words of the message.

    Returns
    -------
    MissingExtraError
        It is also an ImportError, with the package in its attribute `name`.
    """
    error = MissingExtraError(
        f"{purpose} needs '{package}'; install it with: pip install \"extarray[{extra}]\""
    )
    error.name = package
    return error


def require(module: str, extra: str, purpose: str = "this") -> ModuleType:
    """Import an optional module, or say which extra installs it.

    Parameters
    ----------
    module : str
        Name of the module, with dots where it lies in a package: ``"matplotlib.figure"``.
    extra : str
        The extra of extarray that installs it: ``"plot"``.
    purpose : str
        What needs the module: the first words of the message.

    Returns
    -------
    module
        The module itself, not the package that it lies in.

    Raises
    ------
    MissingExtraError
        The package is not installed.  An installed package that fails to import raises what it
        raises: installing it again would not help.

    Examples
    --------
    >>> require("json", "plot").dumps([1, 2])
    '[1, 2]'
    >>> require("no_such_package.part", "plot", "the growth map")
    Traceback (most recent call last):
    ...
    extarray.errors.MissingExtraError: the growth map needs 'no_such_package'; install it with: \
pip install "extarray[plot]"
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise missing(package, extra, purpose) from None
    return importlib.import_module(module)
