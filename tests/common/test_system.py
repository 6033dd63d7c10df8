"""Calls of the operating system: blocks that Ctrl-C does not interrupt."""

from __future__ import annotations

import signal
import threading

import pytest

from extarray.common.system import uninterrupted


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
