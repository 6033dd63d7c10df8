"""Warnings that point at the user's line, each given once."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["SaidOnce", "warn"]

#: Beginning of NumPy's message for each kind of error that `numpy.errstate` knows.
_WORDS = {
    "divide": "divide by zero",
    "over": "overflow",
    "under": "underflow",
    "invalid": "invalid value",
}

#: Packages whose frames stand between the user's line and the warning.
_WITHIN = ("extarray", "numpy")


def warn(text: str, category: type[Warning]) -> None:
    """Warn, and name the first line outside of this package and NumPy that led here."""
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _WITHIN:
            break
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


class SaidOnce:
    """Context that gives each warning of NumPy's floating-point errors once, at its end.

    NumPy warns once for a whole array; so must an operation on many boxes, on any threads.  Other
    actions of `numpy.errstate` are unchanged.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     with SaidOnce():
    ...         results = [np.log(np.zeros(1)) for _ in range(3)]
    >>> [str(warning.message) for warning in caught]
    ['divide by zero encountered in log']
    """

    __slots__ = ("_kept", "_state", "_texts", "_users")

    def __enter__(self) -> None:
        kinds = [kind for kind, action in np.geterr().items() if action == "warn"]
        self._state = None
        if not kinds:
            return
        self._kept = tuple([_WORDS[kind] for kind in kinds])
        self._texts: set[str] = set()
        self._users: Any = np.geterrcall()
        # Only the action "log" of errstate gets the whole message.
        self._state = np.errstate(call=self, **dict.fromkeys(kinds, "log"))  # type: ignore[arg-type]
        self._state.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        state, self._state = self._state, None  # break the cycle between the two
        if state is None:
            return
        state.__exit__(kind, error, trace)
        if error is None:
            for text in sorted(self._texts):
                warn(text, RuntimeWarning)

    def write(self, message: str) -> None:
        """Keep a message that becomes a warning; pass all others to the user's own log."""
        text = message.removeprefix("Warning: ").rstrip()
        if text.startswith(self._kept):
            self._texts.add(text)
        else:
            self._users.write(message)

    def __call__(self, kind: str, flags: int) -> None:
        """Pass the error on to the user's own function."""
        self._users(kind, flags)
