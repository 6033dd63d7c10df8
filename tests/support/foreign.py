"""Test suites of other libraries, run on our arrays; none of their code is kept here.

A module of tests is loaded from the installed library, its functions that make arrays are replaced,
and a module of this suite takes over its tests.  ``data/foreign-skips.txt`` lists tests that do not
apply, each below the reason: they must fail.
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

_PARAMETERS = type(pytest.param())
SKIPS = Path(__file__).resolve().parent / "data" / "foreign-skips.txt"


# -- modules of tests ----------------------------------------------------------------------------


def load(name: str, path: Path) -> ModuleType:
    """Load a module anew, so that changes to it affect nobody else."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def take_over(module: ModuleType) -> dict[str, object]:
    """Return the tests of a module, without its marks: our arrays may fail in other tests."""
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
    """Wrap a coroutine into a function, so that pytest needs no plugin."""

    @functools.wraps(coroutine)
    def test(*args, **kwargs):
        return asyncio.run(coroutine(*args, **kwargs))

    return test


def _expecting_nothing(mark):
    """Return a mark without expected failures of parameters."""
    if mark.name != "parametrize":
        return mark
    names, values, *rest = mark.args
    values = [
        value._replace(marks=()) if isinstance(value, _PARAMETERS) else value for value in values
    ]
    return getattr(pytest.mark, mark.name)(names, values, *rest, **mark.kwargs).mark


def reasons(suite: str) -> dict[str, str]:
    """Return the tests of a suite that do not apply, and why."""
    found = {}
    for block in SKIPS.read_text(encoding="utf-8").split("\n\n"):
        reason = " ".join(re.findall(r"^# ?(.*)", block, re.MULTILINE))
        for line in re.findall(r"^[^#\n].*", block, re.MULTILINE):
            library, _, test = line.partition("::")
            if library == suite:
                found[test] = reason
    return found


def expectations(suite: str, but: tuple[str, ...] = ()):
    """Return a fixture for a module of tests that requires the listed ones to fail, `but` some."""
    listed = reasons(suite)
    for name in but:
        del listed[name]

    @pytest.fixture(autouse=True)
    def listed_tests_fail(request):
        name = request.node.nodeid.partition("::")[2]
        reason = listed.get(name) or listed.get(name.partition("[")[0])
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    return listed_tests_fail


def on_values(check):
    """Wrap an assertion so that it compares the values of our arrays.

    NumPy's own iterates over its own arrays, but asks others whether everything is equal.
    """

    def checked(*args, **kwargs):
        return check(*(x[...] if isinstance(x, xa.ExtArray) else x for x in args), **kwargs)

    return checked


# -- arrays --------------------------------------------------------------------------------------


class Array(xa.ExtArray):
    """An array whose methods return arrays of this class, so that tests continue with them."""

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
    """Return an array in memory with the given values, grown and in several chunks."""
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
    """NumPy, except that functions which make arrays make ours."""

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
