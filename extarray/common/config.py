"""Settings of the process, and of one thread for a while.

``config.threads = 1`` sets a value for the whole process.  ``with config.set(threads=1):`` sets it
until the end of the block, only in this thread or asynchronous task.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from extarray.common.arguments import as_int, check_choice, check_progress, parse_bytes
from extarray.common.choices import ENGINES, VERIFICATIONS
from extarray.common.errors import ArgumentError
from extarray.common.system import cores, physical_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Config", "config"]


def _threads(value: Any) -> int:
    number = as_int(value, "threads")
    if number < 1:
        raise ArgumentError(f"threads must be at least 1, not {number}")
    return number


def _max_memory(value: Any) -> int:
    number = parse_bytes(value)
    if number < 1:
        raise ArgumentError("max_memory must be at least 1 byte")
    return number


def _mapped_memory(value: Any) -> int | None:
    if value is None:
        return None
    number = parse_bytes(value)
    if number < 1:
        raise ArgumentError("mapped_memory must be at least 1 byte, or None for no limit")
    return number


def _chunk_cache(value: Any) -> int:
    number = parse_bytes(value)
    if number < 1:
        raise ArgumentError("chunk_cache must be at least 1 byte; chunks in use always stay")
    return number


def _half_of_memory() -> int:
    """Return half of the physical memory, in bytes."""
    found = physical_bytes()
    return 4 * 1024**3 if found is None else found // 2


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "threads": _threads,
    "max_memory": _max_memory,
    "mapped_memory": _mapped_memory,
    "warn_result": parse_bytes,
    "max_result": parse_bytes,
    "engine": partial(check_choice, name="engine", choices=ENGINES),
    "verify": partial(check_choice, name="verify", choices=VERIFICATIONS),
    "progress": check_progress,
    "chunk_cache": _chunk_cache,
    "disk_cache": parse_bytes,
}


def _from_environment() -> dict[str, Any]:
    values: dict[str, Any] = {
        "threads": cores(),
        "max_memory": 256 * 1024**2,
        "mapped_memory": None,
        "warn_result": 1024**3,
        "max_result": _half_of_memory(),
        "engine": "auto",
        "verify": "write",
        "progress": False,
        "chunk_cache": 64 * 1024**2,
        "disk_cache": 4 * 1024**3,
    }
    for name, variable, convert in (
        ("threads", "EXTARRAY_NUM_THREADS", int),
        ("max_memory", "EXTARRAY_MAX_MEMORY", str),
        ("mapped_memory", "EXTARRAY_MAPPED_MEMORY", str),
        ("warn_result", "EXTARRAY_WARN_RESULT", str),
        ("max_result", "EXTARRAY_MAX_RESULT", str),
        ("engine", "EXTARRAY_ENGINE", str),
        ("verify", "EXTARRAY_VERIFY", str),
        ("chunk_cache", "EXTARRAY_CHUNK_CACHE", str),
        ("disk_cache", "EXTARRAY_DISK_CACHE", str),
    ):
        text = os.environ.get(variable)
        if text:
            try:
                values[name] = _CHECKS[name](convert(text))
            except ValueError as error:
                raise ArgumentError(f"environment variable {variable}={text!r}: {error}") from None
    return values


class _Override:
    """The result of `Config.set`, which restores the settings at the end of a with block."""

    def __init__(self, config: Config, before: Mapping[str, Any]) -> None:
        self._config = config
        self._before = before

    def __enter__(self) -> Config:
        return self._config

    def __exit__(self, *error: object) -> None:
        _overrides.set(self._before)


_overrides: ContextVar[Mapping[str, Any]] = ContextVar(
    "extarray_config", default=MappingProxyType({})
)


class Config:
    """Settings; the only instance is ``extarray.config``.

    Attributes
    ----------
    threads : int
        Threads of a large transfer.  Default: the number of cores that this process may use, or
        the environment variable ``EXTARRAY_NUM_THREADS``.
    max_memory : int
        Bytes of temporary memory of an operation that works block by block; strings such as
        ``"256 MiB"`` are accepted.  Default: 256 MiB, or ``EXTARRAY_MAX_MEMORY``.  This limits the
        process's own memory; mapped pages of files belong to the system, see `mapped_memory`.
    mapped_memory : int or None
        Bytes that an operation goes through, block by block, before it takes mapped pages of files
        out of the resident set of the process; about this many bytes stay resident.  The system
        may reclaim such pages at any time, but a cluster's scheduler may count them.  None: pages
        stay, which is faster if they are used again.  Default: None, or
        ``EXTARRAY_MAPPED_MEMORY``.
    warn_result : int
        Bytes above which a function's result in memory gives a `ResultWarning`.  Default:
        1 GiB, or ``EXTARRAY_WARN_RESULT``.
    max_result : int
        Bytes above which such a result is refused with a `ResultError`, as is an import from a
        file that holds less than a thousandth of the size it claims.  Explicit reads have no
        limit.  Default: half of the physical memory, or ``EXTARRAY_MAX_RESULT``.
    engine : {"auto", "mmap", "pread"}
        How to read and write files if ``create`` or ``open`` gets "auto".  Default: "auto" (by the
        type of the file system), or ``EXTARRAY_ENGINE``.
    verify : {"never", "write", "read"}
        Which chunks to compare with their checksums, once a session, unless ``open`` says
        otherwise: none; "write": chunks that are copied to another array, or written to in part;
        "read": also chunks that are read.  Default: "write", or ``EXTARRAY_VERIFY``.
    progress : bool or callable
        Whether operations that work block by block, and have no argument `progress`, show their
        progress on a terminal or in a notebook.  A function is called instead, on any thread, with
        the bytes done and the total.  An operation in several passes starts again with each.
        Default: False.
    chunk_cache : int
        Bytes of chunks that stay in memory once they were fetched or decoded, for each array on a
        server, in a bucket, or with frozen chunks; the ones used least recently leave.  It counts
        where the array is opened, and closing the array gives the memory back.  Chunks that are
        asked for ahead take up to half of `max_memory` besides.  Default: 64 MiB, or
        ``EXTARRAY_CHUNK_CACHE``.
    disk_cache : int
        Bytes of chunks that stay in a folder (``cache=`` of `open`), of all arrays in it together;
        those used longest ago are removed.  Default: 4 GiB, or ``EXTARRAY_DISK_CACHE``.

    Examples
    --------
    >>> import extarray as xa
    >>> with xa.config.set(threads=1):
    ...     xa.config.threads
    1
    """

    __slots__ = ("_fault", "_values")

    _values: dict[str, Any]
    _fault: str  # error in the environment, in which case there are no values

    def __init__(self) -> None:
        values, fault = {}, ""
        try:
            values = _from_environment()
        except ArgumentError as error:
            # Raised when a setting is read: a failed import could not be handled.
            fault = str(error)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_fault", fault)

    def __getattr__(self, name: str) -> Any:
        overrides = _overrides.get()
        if name in overrides:
            return overrides[name]
        try:
            return self._values[name]
        except KeyError:
            if name in _CHECKS:
                raise ArgumentError(self._fault) from None
            self._refuse(name, AttributeError)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _CHECKS:
            self._refuse(name, AttributeError)
        self._values[name] = _CHECKS[name](value)

    def __dir__(self) -> list[str]:
        return ["set", *_CHECKS]

    def set(self, **values: Any) -> _Override:
        """Set values in this thread; as a context manager, until the end of the block.

        Parameters
        ----------
        **values
            Names and values of settings.

        Returns
        -------
        context manager

        Raises
        ------
        ArgumentError, ArgumentTypeError
            An unknown name, or an invalid value; nothing is set.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.config.set(max_memory="1 GiB"):
        ...     xa.config.max_memory
        1073741824
        """
        for name in values:
            if name not in _CHECKS:
                self._refuse(name, ArgumentError)
        before = _overrides.get()
        checked = {name: _CHECKS[name](value) for name, value in values.items()}
        _overrides.set(MappingProxyType({**before, **checked}))
        return _Override(self, before)

    def _refuse(self, name: str, kind: type[Exception]) -> NoReturn:
        raise kind(f"no setting {name!r}; the settings are {', '.join(_CHECKS)}")

    def __repr__(self) -> str:
        return f"<config: {', '.join(f'{name}={getattr(self, name)!r}' for name in _CHECKS)}>"


config = Config()
