"""Modules that are imported when one of their names is first used."""

from __future__ import annotations

import pickle
import sys
import threading

import pytest

from extarray.common.lazy import LazyImports, LazyModule

SOURCE = """
import time
time.sleep(0.01)
imports = globals().get("imports", 0) + 1

def call():
    return imports
"""


@pytest.fixture
def name(tmp_path, monkeypatch):
    """Return the name of a module that takes a moment to import."""
    (tmp_path / "taken_late.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "taken_late"
    sys.modules.pop("taken_late", None)


def test_a_module_is_imported_by_the_first_use_of_a_name(name):
    late = LazyModule(name)
    assert late.__name__ == name
    assert name not in sys.modules
    assert late.call() == 1
    assert vars(late) is vars(sys.modules[name])


def test_names_that_change_in_the_module_change_in_its_place(name, monkeypatch):
    late = LazyModule(name)
    late.call()
    monkeypatch.setattr(f"{name}.call", lambda: "another")
    assert late.call() == "another"


@pytest.mark.parametrize("is_used", [False, True])
def test_it_is_pickled_as_a_name(name, is_used):
    late = LazyModule(name)
    if is_used:
        late.call()
    text = pickle.dumps(late)
    assert len(text) < 200
    assert pickle.loads(text).call() == 1


def test_a_name_that_a_module_lacks(name):
    late = LazyModule(name)
    for _ in range(2):
        with pytest.raises(AttributeError, match=r"module 'taken_late' has no attribute 'colour'"):
            _ = late.colour


def test_a_module_that_is_missing_is_looked_for_again(tmp_path, monkeypatch):
    late = LazyModule("taken_late")
    with pytest.raises(ModuleNotFoundError):
        _ = late.call
    (tmp_path / "taken_late.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert late.call() == 1
    finally:
        del sys.modules["taken_late"]


@pytest.mark.parametrize(
    "make", [LazyModule, lambda name: LazyImports({name: "call imports"})], ids=["module", "names"]
)
def test_threads_may_use_a_name_first_at_the_same_time(name, make):
    late = make(name)
    start, found = threading.Barrier(8), []

    def use():
        start.wait()
        found.append((late.call(), late.imports))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(1, 1)] * 8
