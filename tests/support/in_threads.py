"""Tests that run in several threads at a time, by pytest-run-parallel.

Each thread has its own files; state of the process is shared.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types

__all__ = ["of_folders", "together", "with_own_folder"]


def of_folders(item) -> set[str]:
    """Return the fixtures of a test with files in its folder, including the folder."""
    found, more = set(), {"tmp_path"}
    definitions = item._fixtureinfo.name2fixturedefs if hasattr(item, "_fixtureinfo") else {}
    while more > found:
        found = more
        more = found | {
            name for name, (*_, last) in definitions.items() if found & set(last.argnames)
        }
    return found & set(getattr(item, "fixturenames", ()))


def with_own_folder(item):
    """Wrap a test so that each thread makes its files anew.

    pytest makes a fixture only once, on the main thread.
    """
    test, definitions, names = item.obj, item._fixtureinfo.name2fixturedefs, of_folders(item)
    parameters = item.callspec.params if hasattr(item, "callspec") else {}

    @contextlib.contextmanager
    def anew(given):
        if threading.current_thread() is threading.main_thread():
            yield {}  # a test that is not thread-safe
            return
        # A test that asks for the folder has received one for this thread.
        folder = given.get("tmp_path")
        if folder is None:
            folder = item.funcargs["tmp_path"] / f"thread_{threading.get_ident()}"
            folder.mkdir()
        made = {"tmp_path": folder}
        with contextlib.ExitStack() as ends:

            def make(name, asked_by=None):
                if name == "request":
                    return types.SimpleNamespace(param=parameters.get(asked_by))
                if name not in names:
                    return item.funcargs[name]
                if name not in made:
                    definition = definitions[name][-1]
                    value = definition.func(**{arg: make(arg, name) for arg in definition.argnames})
                    if inspect.isgenerator(value):
                        ends.callback(next, value, None)
                        value = next(value)
                    made[name] = value
                return made[name]

            yield {name: make(name) for name in names.intersection(given)}

    def run(*args, **kwargs):
        with anew(kwargs) as own:
            test(*args, **{**kwargs, **own})

    # The plugin searches a test and its globals for things that are not thread-safe.
    run = types.FunctionType(run.__code__, test.__globals__, None, None, run.__closure__)
    return functools.wraps(test)(run)


def together(make):
    """Let threads share a context of the whole process; the last one to leave ends it."""
    lock = threading.Lock()
    users, made = 0, None

    @contextlib.contextmanager
    def shared():
        nonlocal users, made
        with lock:
            if users == 0:
                made = make()
                made.__enter__()
            users += 1
        try:
            yield
        finally:
            with lock:
                users -= 1
                if users == 0:
                    made.__exit__(None, None, None)

    return shared
