"""Calls of the operating system: open files, and blocks that Ctrl-C does not interrupt."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from extarray.common import system
from extarray.common.system import uninterrupted
from extarray.storage.filesystem import File

# -- open files ----------------------------------------------------------------------------------


def test_programs_that_are_started_inherit_no_open_file(tmp_path):
    """Python asks the system for that in each `os.open`, whatever the flags."""
    opened = [
        system.lock_folder(str(tmp_path)),
        system.open_place(str(tmp_path)),
        system.open_nameless(str(tmp_path), 0o600),
    ]
    file = File.open(str(tmp_path / "a"), os.O_RDWR | os.O_CREAT | system.NO_WAIT)
    with file as fd:
        for each in [fd, *opened]:
            assert each is None or not os.get_inheritable(each)
    file.close()
    for each in opened:
        if each is not None:
            os.close(each)


# -- Ctrl-C --------------------------------------------------------------------------------------


@pytest.fixture
def handler():
    """Set what Ctrl-C does, for the time of a test."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda function: signal.signal(signal.SIGINT, function)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_the_end_of_a_block(handler):
    handler(signal.default_int_handler)
    steps = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 -- the block is what is tested
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            steps.append("went on")
        steps.append("not reached")
    assert steps == ["went on"]
    with uninterrupted():
        pass


def test_ctrl_c_then_does_what_the_program_has_set(handler):
    came = []
    handler(lambda number, frame: came.append(number))
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        assert came == []
    assert came == [signal.SIGINT]
    handler(signal.SIG_IGN)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ctrl_c_is_not_lost_where_the_block_fails(handler):
    came = []
    handler(lambda number, frame: came.append(number))
    with pytest.raises(ValueError, match="failed"), uninterrupted():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        raise ValueError("failed")
    assert came == [signal.SIGINT]


def test_other_threads_have_no_signals_to_hold_back():
    ran = []

    def work():
        with uninterrupted():
            ran.append(threading.current_thread())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ran == [thread]
