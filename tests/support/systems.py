"""Marks of tests that need something of the system, and the reasons to skip them elsewhere."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import signal
import sys
import tempfile
import types
import uuid
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
from extarray._core._mapping import MappedWords
from extarray.common import system
from extarray.errors import ExtArrayError
from extarray.storage.filesystem import File

__all__ = [
    "GUESSED_ENGINE",
    "HAS_LONG_DOUBLES",
    "IS_POSIX",
    "IS_ROOT",
    "NO_SUCH_FILE",
    "cut_file",
    "disk_bytes",
    "lacking",
    "lacking_elsewhere",
    "needs_advice",
    "needs_any_names",
    "needs_blocks",
    "needs_boot_id",
    "needs_exchange",
    "needs_forgotten_locks",
    "needs_fork",
    "needs_holes",
    "needs_huge_mappings",
    "needs_links",
    "needs_locks_of_makers",
    "needs_modes",
    "needs_posix",
    "needs_proc",
    "needs_removed_working_folders",
    "needs_replaced_open_files",
    "needs_reports_of_holes",
    "needs_signals",
    "needs_small_holes",
    "needs_space_for_holes",
    "replaces_open_files",
    "reports_holes",
    "reserves_holes",
    "skip_if_mapped_files_stay",
]

IS_POSIX = os.name == "posix"
#: Whether a long double is more than a double.
HAS_LONG_DOUBLES = np.dtype("g").itemsize > 8
#: Whether this user may do everything.
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

try:
    os.stat(os.path.join(tempfile.gettempdir(), f"extarray-{uuid.uuid4()}"))
except FileNotFoundError as error:
    #: The system's own words for a missing file.
    NO_SUCH_FILE = str(error.strerror)

#: How xarray is told the engine of a folder: it guesses, but on Windows its guess opens the folder
#: as a file, and fails.
GUESSED_ENGINE = None if IS_POSIX else "extarray"


def needs_posix(what: str) -> pytest.MarkDecorator:
    """Return a mark for a test that needs a call, a file or a rule of POSIX."""
    return pytest.mark.skipif(not IS_POSIX, reason=f"Windows has no {what}")


_TESTS = Path(__file__).parents[1]
_NO_REPLACING_MAPPED = "Windows lets nobody replace a file that is mapped"
_NO_REPLACING = "an open file cannot be replaced here (no POSIX rename)"

_MISSING_CALL = re.compile(r"AttributeError: module '(os|signal)' has no attribute '(\w+)'\s*$")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(resource|fcntl)'\s*$")


def lacking(error: BaseException) -> str | None:
    """Return what the system lacks if a test ended by an error for want of it; None if it did not.

    This is the right to replace an open file, or a call of POSIX that the test itself makes: one by
    the package is a fault.
    """
    if isinstance(error, BaseExceptionGroup):
        reasons = [lacking(each) for each in error.exceptions]
        return reasons[0] if all(reasons) else None
    causes = [error]
    while (cause := _cause_of(causes[-1])) is not None:
        causes.append(cause)
    return next(filter(None, map(_lacking, causes)), None)


def _cause_of(error: BaseException) -> BaseException | None:
    if isinstance(error, pytest.fail.Exception):  # a warning or an error that did not come
        return error.__cause__ or error.__context__
    return error.__cause__


def _lacking(error: BaseException) -> str | None:
    if isinstance(error, ExtArrayError) and (reason := _refused(str(error))):
        return reason
    if not IS_POSIX and isinstance(error, OSError) and str(error.filename).startswith("/proc/"):
        return "Windows has no /proc"
    if not IS_POSIX and isinstance(error, AttributeError):
        whose = "os.stat_result" if isinstance(error.obj, os.stat_result) else None
        if error.obj in (os, signal):
            assert isinstance(error.obj, types.ModuleType)
            whose = error.obj.__name__
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        is_ours = place is not None and _TESTS in Path(place.tb_frame.f_code.co_filename).parents
        if whose is not None and is_ours:
            return f"Windows has no {whose}.{error.name}"
    return None


def _refused(said: str) -> str | None:
    """Return what the system lacks if the package said so."""
    if not system.FREES_FOLDERS and "a file in it is open" in said:
        return "Windows renames no folder in which a file is open"
    if "be renamed to" in said:
        return None if replaces_open_files() else _NO_REPLACING
    if not system.MAPS_FREELY and "does not let mapped files be replaced" in said:
        return _NO_REPLACING_MAPPED
    return None


def lacking_elsewhere(said: str) -> str | None:
    """Return what the system lacks if a program of a test ended for want of it, by what it said."""
    if reason := _refused(said):
        return reason
    if IS_POSIX or not said.rpartition('  File "')[2].startswith("<string>"):
        return None
    if found := _MISSING_CALL.search(said) or _MISSING_MODULE.search(said):
        return f"Windows has no {'.'.join(found.groups())}"
    return None


needs_fork = needs_posix("fork")
needs_blocks = needs_posix("number of blocks in the result of os.stat")
needs_signals = needs_posix("signal that ends a process at once (SIGKILL)")
needs_removed_working_folders = needs_posix("working folder that is removed")
needs_any_names = needs_posix("names of files with any character")
needs_exchange = needs_posix("exchange of the names of two folders in one step")
needs_modes = needs_posix("modes and owners of files")
needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
needs_advice = pytest.mark.skipif(
    not hasattr(os, "posix_fadvise"), reason="this system takes no advice about an open file"
)


def cut_file(name: str, length: int, *arrays: xa.ExtArray) -> None:
    """Cut a file as another program.

    Skip the test where a mapped file is not cut (Windows), and close its arrays.
    """
    try:
        os.truncate(name, length)
    except OSError:
        if system.MAPS_FREELY:
            raise
    if not system.MAPS_FREELY and os.path.getsize(name) != length:
        for array in arrays:
            array.close()
        pytest.skip("Windows lets nobody cut a file that is mapped")


def skip_if_mapped_files_stay(engine: str) -> None:
    """Skip a test that replaces or removes files which an engine has mapped, where nobody may."""
    if engine == "mmap" and not system.MAPS_FREELY:
        pytest.skip(_NO_REPLACING_MAPPED)


@functools.cache
def replaces_open_files() -> bool:
    """Tell whether a file can be replaced while it is open, as everywhere but on some Windows."""
    if IS_POSIX:
        return True
    with tempfile.TemporaryDirectory() as folder:
        one, other = os.path.join(folder, "one"), os.path.join(folder, "other")
        Path(other).touch()
        file = File.open(one, os.O_RDWR | os.O_CREAT)
        try:
            system.replace(other, one)
        except OSError:
            return False
        finally:
            file.close()
    return True


def makes_holes(size: int) -> bool:
    """Tell whether bytes that are there become holes of a size; POSIX file systems are trusted."""
    if IS_POSIX:
        return True
    with tempfile.TemporaryDirectory() as folder:
        file = File.open(os.path.join(folder, "a"), os.O_RDWR | os.O_CREAT)
        try:
            file.write(b"x" * (1 << 17), 0)
            before = file.disk_bytes()
            return file.punch(0, size) == 0 and file.disk_bytes() < before
        finally:
            file.close()


def maps_huge_files() -> bool:
    """Tell whether a file is mapped that is larger than the machine's memory; Wine maps none."""
    if IS_POSIX:
        return True
    with tempfile.TemporaryDirectory() as folder:
        file = File.open(os.path.join(folder, "a"), os.O_RDWR | os.O_CREAT)
        try:
            file.truncate(1 << 36)
            with file as fd:
                MappedWords(fd, 0, 1 << 33, True)
        except OSError:
            return False
        finally:
            file.close()
    return True


@functools.cache
def reports_holes() -> bool:
    """Tell whether the file system of temporary files makes holes and tells where they are."""
    with tempfile.TemporaryDirectory() as folder:
        file = File.open(os.path.join(folder, "a"), os.O_RDWR | os.O_CREAT)
        try:
            file.truncate(1 << 24)
            return file.disk_bytes() < 1 << 24 and file.all_holes([0], [1 << 24])
        finally:
            file.close()


def disk_bytes(name: str | Path) -> int:
    """Return the bytes that a file takes on the disk; skip the test where files have no holes."""
    if not reports_holes():
        pytest.skip("this file system does not tell holes")
    system.sync_file(str(name))
    return system.disk_bytes(os.stat(name), str(name))


@functools.cache
def reserves_holes() -> bool:
    """Tell whether a hole gets its space before anybody writes to it."""
    with tempfile.TemporaryDirectory() as folder:
        file = File.open(os.path.join(folder, "a"), os.O_RDWR | os.O_CREAT)
        try:
            file.truncate(1 << 20)
            return file.reserve(1 << 16, 1 << 16) == 0
        finally:
            file.close()


def forgets_locks() -> bool:
    """Tell whether the system forgets a file that is closed while others lock it; Wine does not."""
    return IS_POSIX or not hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")


@functools.cache
def makes_links() -> bool:
    """Tell whether this user may make symbolic links."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.symlink(folder, os.path.join(folder, "link"))
        except OSError:
            return False
        return os.path.islink(os.path.join(folder, "link"))


needs_replaced_open_files = pytest.mark.skipif(not replaces_open_files(), reason=_NO_REPLACING)
needs_holes = pytest.mark.skipif(
    not makes_holes(1 << 16), reason="this file system makes no holes of bytes that are there"
)
needs_huge_mappings = pytest.mark.skipif(
    not maps_huge_files(), reason="this system maps no file larger than the machine's memory"
)
needs_small_holes = pytest.mark.skipif(
    not makes_holes(1 << 12), reason="this file system makes no holes as small as a page"
)
needs_reports_of_holes = pytest.mark.skipif(
    not reports_holes(), reason="this file system does not tell holes"
)
needs_space_for_holes = pytest.mark.skipif(
    not reserves_holes(), reason="this file system cannot give a hole its space"
)
needs_forgotten_locks = pytest.mark.skipif(
    not forgets_locks(),
    reason="Wine keeps a file open for each time that it is closed while it is locked",
)
needs_links = pytest.mark.skipif(not makes_links(), reason="symbolic links cannot be made here")
needs_locks_of_makers = pytest.mark.skipif(
    not system.WHOLE_LOCKS_APART,
    reason="no lock tells at once whether a library writes a file of another format",
)
needs_boot_id = pytest.mark.skipif(
    system.boot_id() == bytes(16), reason="the system does not tell its runs apart"
)
