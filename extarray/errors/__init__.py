"""The errors of `extarray`, for programs that catch them: one family, below `ExtArrayError`."""

from extarray.common.errors import *  # noqa: F403
from extarray.common.errors import __all__ as __all__
