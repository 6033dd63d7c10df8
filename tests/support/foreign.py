"""Test suites of other libraries, run on arrays of ours: nothing of theirs is kept here.

A module of tests is loaded from where the library is installed, the functions in it that make
arrays are replaced, and its tests are taken over by a module of this suite.  Tests that do not
apply are listed in ``data/foreign-skips.txt``, each below the reason: they have to fail.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import extarray as xa

SKIPS = Path(__file__).resolve().parent / "data" / "foreign-skips.txt"


# -- modules of tests ----------------------------------------------------------------------------


def load(name: str, path: Path) -> ModuleType:
    """The module of a file, loaded anew, so that changing it changes it for nobody else."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def take_over(module: ModuleType) -> dict[str, object]:
    """What pytest would find in a module: of ours, other tests may fail than its authors expect."""
    found = {}
    for name, value in vars(module).items():
        if name.startswith("Test") and inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.iscoroutinefunction):
                setattr(value, method, _waiting(function))
            found[name] = value
        elif name.startswith("test_") and inspect.isfunction(value):
            test = _waiting(value) if inspect.iscoroutinefunction(value) else value
            marks = [_expecting_nothing(mark) for mark in getattr(test, "pytestmark", [])]
            test.pytestmark = [mark for mark in marks if mark.name not in {"skip", "xfail"}]
            found[name] = test
    return found


def _waiting(coroutine):
    """A coroutine as a function, for which pytest needs no plugin."""

    @functools.wraps(coroutine)
    def test(*args, **kwargs):
        return asyncio.run(coroutine(*args, **kwargs))

    return test


def _expecting_nothing(mark):
    """A mark whose parameters are not expected to fail."""
    if mark.name != "parametrize":
        return mark
    names, values, *rest = mark.args
    values = [value._replace(marks=()) if hasattr(value, "marks") else value for value in values]
    return getattr(pytest.mark, mark.name)(names, values, *rest, **mark.kwargs).mark


def reasons(suite: str) -> dict[str, str]:
    """Tests of a suite that do not apply, and why."""
    found = {}
    for block in SKIPS.read_text(encoding="utf-8").split("\n\n"):
        reason = " ".join(re.findall(r"^# ?(.*)", block, re.MULTILINE))
        for line in re.findall(r"^[^#\n].*", block, re.MULTILINE):
            library, _, test = line.partition("::")
            if library == suite:
                found[test] = reason
    return found


def expectations(suite: str):
    """A fixture for a module of tests: those that are listed have to fail."""
    listed = reasons(suite)

    @pytest.fixture(autouse=True)
    def listed_tests_fail(request):
        name = request.node.nodeid.partition("::")[2]
        reason = listed.get(name) or listed.get(name.partition("[")[0])
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    return listed_tests_fail


def on_values(check):
    """An assertion that takes arrays of ours for their values.

    NumPy's own goes through the elements of its own arrays and asks others whether all is equal.
    """

    def checked(*args, **kwargs):
        return check(*(x[...] if isinstance(x, xa.ExtArray) else x for x in args), **kwargs)

    return checked


# -- arrays --------------------------------------------------------------------------------------


class Array(xa.ExtArray):
    """An array of ours whose methods give arrays of ours, so that tests go on with them."""

    __slots__ = ()

    @property
    def T(self):  # noqa: N802 (NumPy's name)
        return array_of(self[...].T)

    def astype(self, dtype):
        return array_of(self[...].astype(dtype))

    def copy(self, order="C"):
        return array_of(self[...].copy(order))

    def repeat(self, repeats, axis=None):
        return array_of(self[...].repeat(repeats, axis))

    def reshape(self, *shape):
        return array_of(self[...].reshape(*shape))


def array_of(values, chunks=None) -> Array:
    """An array of ours in memory with the given values; it grew, and has several chunks."""
    values = np.asarray(values)
    if chunks is None:
        chunks = [min(n, 2 + axis % 2) or 1 for axis, n in enumerate(values.shape)]
    start = [n // 2 for n in values.shape]
    array = xa.create(None, start, values.dtype, chunks=chunks, order="CFZH"[values.size % 4])
    for axis, n in reversed(list(enumerate(values.shape))):
        array.extend(axis, n - start[axis])
    array[...] = values
    array.__class__ = Array
    return array


class NumPy(ModuleType):
    """NumPy, but for functions that make arrays: they make arrays of ours."""

    def __init__(self):
        super().__init__("numpy")

    def __getattr__(self, name):
        return getattr(np, name)


def _making(name):
    function = getattr(np, name)

    def make(*args, **kwargs):
        return array_of(function(*args, **kwargs))

    return make


for _name in ("arange", "array", "empty", "full", "ones", "ones_like", "zeros", "zeros_like"):
    setattr(NumPy, _name, staticmethod(_making(_name)))
