"""The settings: process-wide defaults, overrides in a context, and the environment."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest

import extarray as xa


@pytest.fixture(autouse=True)
def restored():
    """Restore the process-wide defaults that a test sets."""
    names = ("threads", "max_memory", "engine")
    before = {name: getattr(xa.config, name) for name in names}
    yield
    for name, value in before.items():
        setattr(xa.config, name, value)


def test_defaults(script):
    clean = {"EXTARRAY_NUM_THREADS": "", "EXTARRAY_ENGINE": "", "EXTARRAY_MAX_MEMORY": ""}
    text = script("import extarray as xa; print(xa.config.threads, xa.config.engine)", env=clean)
    threads, engine = text.split()
    assert 1 <= int(threads) <= (os.cpu_count() or 1)
    assert engine == "auto"


def test_environment(script):
    env = {
        "EXTARRAY_NUM_THREADS": "3",
        "EXTARRAY_ENGINE": "pread",
        "EXTARRAY_MAX_MEMORY": "256 MiB",
    }
    code = "import extarray as xa; c = xa.config; print(c.threads, c.engine, c.max_memory)"
    assert script(code, env=env).split() == ["3", "pread", str(2**28)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EXTARRAY_NUM_THREADS", "many"),
        ("EXTARRAY_NUM_THREADS", "0"),
        ("EXTARRAY_ENGINE", "hdf5"),
        ("EXTARRAY_MAX_MEMORY", "lots"),
    ],
)
def test_environment_that_cannot_be(script, name, value):
    code = (
        "try:\n"
        "    import extarray as xa\n"
        "    xa.config.threads, xa.config.engine, xa.config.max_memory\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    text = script(code, env={name: value})
    assert name in text
    assert value in text


def test_environment_that_cannot_be_does_not_keep_from_importing(script):
    code = (
        "import extarray as xa\n"
        "xa.config.engine = 'pread'\n"
        "print(xa.config.engine)\n"
        "try:\n"
        "    xa.config.threads\n"
        "except xa.ArgumentError as error:\n"
        "    print(error)\n"
        "print(hasattr(xa.config, 'no_such_setting'))\n"
    )
    lines = script(code, env={"EXTARRAY_ENGINE": "foo"}).splitlines()
    assert lines[0] == "pread"
    assert "EXTARRAY_ENGINE='foo'" in lines[1]
    assert lines[2] == "False"


def test_assignment_sets_the_default_of_the_process():
    xa.config.threads = 3
    assert xa.config.threads == 3
    seen = []
    thread = threading.Thread(target=lambda: seen.append(xa.config.threads))
    thread.start()
    thread.join()
    assert seen == [3]


def test_set_overrides_in_a_block():
    before = xa.config.threads
    with xa.config.set(threads=7, engine="pread"):
        assert xa.config.threads == 7
        assert xa.config.engine == "pread"
        with xa.config.set(threads=2):
            assert xa.config.threads == 2
            assert xa.config.engine == "pread"
        assert xa.config.threads == 7
    assert xa.config.threads == before
    assert xa.config.engine != "pread" or before == "pread"


def test_set_is_undone_after_an_error():
    before = xa.config.threads
    with pytest.raises(RuntimeError), xa.config.set(threads=before + 1):
        raise RuntimeError
    assert xa.config.threads == before


def test_overrides_stay_in_their_thread():
    """A thread started in the block has the overrides only if Python inherits contexts."""
    seen = []
    before = xa.config.threads

    def look():
        seen.append(xa.config.threads)

    waits, ends = threading.Event(), threading.Event()
    earlier = threading.Thread(target=lambda: (waits.set(), ends.wait(), look()))
    earlier.start()
    waits.wait()
    with xa.config.set(threads=before + 5):
        ends.set()
        earlier.join()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert xa.config.threads == before + 5
    is_handed_on = getattr(sys.flags, "thread_inherit_context", False)  # Python 3.14 and later
    assert seen == [before, before + 5 if is_handed_on else before]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("256 MiB", 2**28),
        ("1GiB", 2**30),
        ("2 KiB", 2048),
        ("10 MB", 10**7),
        (12345, 12345),
        (np.int64(12345), 12345),
        ("99", 99),
        ("1e9", 10**9),
        ("1.5e3 kB", 1500000),
    ],
)
def test_amounts_of_memory(text, number):
    with xa.config.set(max_memory=text):
        assert xa.config.max_memory == number


def test_numbers_of_threads_may_be_of_numpy():
    with xa.config.set(threads=np.int32(2)):
        assert type(xa.config.threads) is int
        assert xa.config.threads == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", 0),
        ("threads", -1),
        ("threads", 1.5),
        ("threads", "two"),
        ("threads", True),
        ("max_memory", 0),
        ("max_memory", -5),
        ("max_memory", "lots"),
        ("max_memory", "3 parsecs"),
        ("max_memory", "1e400"),
        ("max_memory", True),
        ("threads", np.True_),
        ("engine", "hdf5"),
        ("engine", 3),
    ],
)
def test_values_that_cannot_be(name, value):
    before = getattr(xa.config, name)
    with pytest.raises(xa.ExtArrayError, match=f"{name}|{value}"):
        setattr(xa.config, name, value)
    with pytest.raises(xa.ExtArrayError, match=f"{name}|{value}"):
        xa.config.set(**{name: value}).__enter__()
    assert getattr(xa.config, name) == before


def test_unknown_names():
    with pytest.raises(AttributeError, match="thread"):
        xa.config.thread = 3
    with pytest.raises(AttributeError, match="thread"):
        xa.config.thread  # noqa: B018
    with pytest.raises((AttributeError, TypeError, ValueError), match="thread"):
        xa.config.set(thread=3).__enter__()


def test_the_engine_of_new_arrays(path):
    for engine in ("pread", "mmap"):
        with xa.config.set(engine=engine):
            with xa.create(path, shape=(2,), overwrite=True) as array:
                assert array.info()["engine"] == engine
            with xa.open(path) as array:
                assert array.info()["engine"] == engine
    with xa.config.set(engine="pread"), xa.open(path, engine="mmap") as array:
        assert array.info()["engine"] == "mmap"


def test_its_text(capsys):
    with xa.config.set(threads=7):
        assert "threads" in repr(xa.config)
        assert "7" in repr(xa.config)
