"""The examples in docstrings of all modules, Python and compiled, run and give their results.

pytest collects no doctests from compiled modules, so this uses `doctest` itself.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import types

import pytest

import extarray as xa

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

OF_ANOTHER_SYSTEM = f"extarray.common.system_{'posix' if sys.platform == 'win32' else 'windows'}"
NAMES = sorted(
    name
    for name in ["extarray", *(m.name for m in pkgutil.walk_packages(xa.__path__, "extarray."))]
    if not name.endswith("__main__") and name != OF_ANOTHER_SYSTEM
)


#: Libraries that examples use, and that the extra "test" lacks.
OPTIONAL = ("napari", "obstore")


class Finder(doctest.DocTestFinder):
    """Finds what doctest passes over: compiled properties, and functions with a decorator."""

    def _from_module(self, module, obj):
        return super()._from_module(module, inspect.unwrap(obj) if inspect.isfunction(obj) else obj)

    def find(self, obj, *args, **kwargs):
        tests = super().find(obj, *args, **kwargs)
        if not inspect.ismodule(obj):
            return tests
        for class_name, cls in sorted(vars(obj).items()):
            if not inspect.isclass(cls) or cls.__module__ != obj.__name__:
                continue
            for name, member in sorted(vars(cls).items()):
                if isinstance(member, types.GetSetDescriptorType):
                    full = f"{obj.__name__}.{class_name}.{name}"
                    globs = {**vars(obj), "__name__": "__main__"}
                    test = self._parser.get_doctest(member.__doc__ or "", globs, full, None, None)
                    tests += [test] if test.examples else []
        return tests


def is_run(test: doctest.DocTest) -> bool:
    """Tell whether the libraries of an example are there; some are no requirement of the tests."""
    source = "".join(example.source for example in test.examples)
    return all(importlib.util.find_spec(name) or f"from {name}" not in source for name in OPTIONAL)


def run(module) -> doctest.TestResults:
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for test in filter(is_run, Finder(exclude_empty=True).find(module, module.__name__)):
        runner.run(test)
    return runner.summarize(verbose=False)


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_a_module(name, tmp_path, monkeypatch):
    # Examples make files by bare names.
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except xa.MissingExtraError as error:
        pytest.skip(str(error))
    assert run(module).failed == 0


def test_examples_are_found_in_compiled_modules():
    """Without this, the test above would pass if it found no example."""
    compiled = [n for n in NAMES if not importlib.util.find_spec(n).origin.endswith(".py")]
    assert compiled
    tests = [t for n in compiled for t in Finder().find(importlib.import_module(n), n)]
    assert any(t.examples for t in tests)
    # Functions, methods and properties.
    assert any(t.name.endswith("crc32c") and t.examples for t in tests)
    assert any(t.name.endswith("Axial.address") and t.examples for t in tests)


def test_examples_of_decorated_functions_are_found():
    creation = importlib.import_module("extarray.array.creation")
    found = {t.name.rpartition(".")[2]: t for t in Finder().find(creation, creation.__name__)}
    assert found["create"].examples and found["open"].examples


def test_a_wrong_example_fails(capsys):
    module = types.ModuleType("wrong", "\n>>> 1 + 1\n3\n")
    assert run(module).failed == 1
    assert "Expected:\n    3\nGot:\n    2\n" in capsys.readouterr().out
