"""Calls of public functions: keywords of other libraries, and tracebacks without our own frames."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from extarray.common.errors import ArgumentTypeError, ExtArrayError
from extarray.common.hints import hint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

__all__ = ["public"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_UNKNOWN = r"\w+\(\) got an unexpected keyword argument '(\w+)'"

#: Keywords of h5py, zarr, netCDF4 and NumPy, and ours, or why there is none.
_WORDS = {
    "attributes": "attrs=",
    "axis_names": "dims=",
    "complevel": "compression=, with the level, as in 'zlib:4'",
    "compression_opts": "compression=, with the level, as in 'zlib:4'",
    "compressor": "compression=",
    "compressors": "compression=",
    "data": "extarray.from_array(data, path)",
    "dimension_names": "dims=",
    "dimensions": "dims=",
    "filename": "path",
    "fillvalue": "fill_value=",
    "filters": "compression=, with the filter, as in 'zstd:shuffle'",
    "fletcher32": "checksum=True",
    "maxdims": None,
    "maxshape": None,
    "mmap_mode": "mode='r' or 'r+' of extarray.open, which maps files where it can",
    "name": "path",
    "shards": "chunks= alone: all chunks are in one file",
    "shuffle": "compression=, with the filter, as in 'zstd:shuffle'",
    "store": "path",
    "swmr": "extarray.open(path) beside a writer, and refresh()",
    "synchronizer": "share=True of extarray.open",
    "write_empty_chunks": "sparse=",
}


@overload
def public(function: Callable[_P, _R]) -> Callable[_P, _R]: ...
@overload
def public(*, others: Mapping[str, str]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def public(function: Any = None, *, others: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Decorate a public function: a mistake in a call is told in few lines.

    Parameters
    ----------
    function : callable
    others : mapping, optional
        For keywords that other functions of ours have: what to do instead.

    Notes
    -----
    Errors of the family lose the frames of this package, since their messages say all; they keep
    them if functions of others are among them, such as a callback of the user.  Other exceptions
    stay as they are.  A call that succeeds pays for one more call of a function.

    Examples
    --------
    >>> @public
    ... def make(path, *, fill_value=0):
    ...     return path
    >>> make("a")
    'a'
    >>> make("a", fillvalue=1)
    Traceback (most recent call last):
    ...
    extarray.errors.ArgumentTypeError: make() has no argument 'fillvalue'; use fill_value=
    """
    if function is None:
        return functools.partial(public, others=others)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ExtArrayError as error:
            if not _are_ours(error.__traceback__):
                raise
            if _adds_nothing(error.__cause__ or error.__context__, error):
                raise error.with_traceback(None) from None
            raise error.with_traceback(None)  # noqa: B904 -- the cause stays as it is
        except TypeError as error:
            told = _explained(function, error, others)
            if told is None:
                raise
            raise ArgumentTypeError(told) from None

    return call


def _are_ours(frames: TracebackType | None) -> bool:
    """Tell whether all frames are of this package, of the standard library or of NumPy."""
    frames = None if frames is None else frames.tb_next  # the first is that of `call`
    while frames is not None:
        module = frames.tb_frame.f_globals.get("__name__", "")
        room = module.partition(".")[0]
        if room not in ("extarray", "numpy") and room not in sys.stdlib_module_names:
            return False
        frames = frames.tb_next
    return True


def _adds_nothing(cause: BaseException | None, error: ExtArrayError) -> bool:
    """Tell whether the text of an error has that of its cause."""
    if cause is None:
        return False
    text = cause.strerror if isinstance(cause, OSError) else None
    return str(text or cause) in str(error)


def _explained(
    function: Callable[..., Any], error: TypeError, others: Mapping[str, str]
) -> str | None:
    """Return the message for a keyword that a function lacks; None for another mistake."""
    frames = error.__traceback__
    unknown = re.fullmatch(_UNKNOWN, str(error).partition(". Did you mean")[0])
    if unknown is None or frames is None or frames.tb_next is not None:
        return None
    word, known = unknown[1], inspect.signature(function).parameters
    text = hint(f"{function.__name__}() has no argument {word!r}", f"there is no option {word!r}")
    ours = _WORDS.get(word, "")
    if ours is None:
        return f"{text}: every axis grows without limit; leave it out"
    name = ours.partition("=")[0]
    other = others.get(word, others.get(name))
    if other is not None and name not in known:
        return f"{text}; {other}"
    if ours and (name in known or not name.isidentifier()):
        return f"{text}; use {ours}"
    import difflib  # for mistakes alone: every program would wait for it

    close = [] if ours else difflib.get_close_matches(word, known, 1)
    return f"{text}; use {close[0]}=" if close else f"{text}; it has {', '.join(known)}"
