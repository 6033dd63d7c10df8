"""Threads that make calls while the owner's thread goes on."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from extarray.common.config import config
from extarray.common.threads import ThreadPool


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_all_calls_are_made_and_give_what_they_give(threads):
    found = []
    with ThreadPool(threads) as pool:
        for n in range(20):
            found += pool.call(partial(pow, n, 2))
            assert len(found) >= n + 1 - max(1, threads)
        found += pool.rest()
    assert sorted(found) == [n * n for n in range(20)]
    assert threads > 1 or found == [n * n for n in range(20)]


def test_one_call_goes_on_while_the_next_is_made_ready():
    ready, is_seen = threading.Event(), []
    with ThreadPool(1) as pool:
        pool.call(lambda: is_seen.append(ready.wait(60)))
        ready.set()  # reached before the call has ended
        pool.rest()
    assert is_seen == [True]


def test_calls_see_the_settings_of_the_owner():
    with config.set(threads=3), ThreadPool(1) as pool:
        pool.call(lambda: config.threads)
        assert pool.rest() == [3]


@pytest.mark.thread_unsafe  # counts all threads of the process
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_what_fails_is_raised_and_all_threads_end(threads):
    before = threading.active_count()

    def fail():
        raise OSError("no space")

    def use():
        with ThreadPool(threads) as pool:
            pool.call(fail)
            pool.rest()

    with pytest.raises(OSError, match="no space"):
        use()
    assert threading.active_count() == before


def test_what_has_not_begun_is_left_out_where_the_block_fails():
    go_on, made = threading.Event(), []

    def use():
        with ThreadPool(1) as pool:
            pool.call(go_on.wait)
            pool._calls.put(partial(made.append, 1))  # queued behind it
            threading.Timer(0.05, go_on.set).start()
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert made == []


def test_a_system_without_threads(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with ThreadPool(2) as pool:
        assert pool.call(partial(pow, 3, 2)) == [9] and pool.rest() == []
