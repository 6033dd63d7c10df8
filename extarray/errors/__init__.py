"""The error family below `ExtArrayError`, for programs that catch errors."""

from extarray.common.errors import *  # noqa: F403
from extarray.common.errors import __all__ as __all__
