"""Which chunks are present: who asks for them, who keeps them, and which leave."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from extarray._core._supply import Supply, Trust


class Provider:
    """Notes what it is asked for."""

    def __init__(self):
        self.calls = []

    def provide(self, addresses):
        self.calls.append(("provide", addresses.tolist()))

    def evict(self, addresses):
        self.calls.append(("evict", addresses.tolist()))

    def ahead(self, addresses):
        self.calls.append(("ahead", addresses.tolist()))

    def taken(self):
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def provider():
    return Provider()


def chunks(*addresses):
    return np.array(addresses, np.int64)


def test_what_is_present_is_not_asked_for(provider):
    supply = Supply(provider, 8)
    supply.use(chunks(3, 5))
    assert provider.taken() == [("provide", [3, 5])]
    supply.use(chunks(3, 4, 5))
    assert provider.taken() == [("provide", [4])]
    supply.use(chunks(3, 4, 5))
    supply.use(chunks())
    assert provider.taken() == []
    assert supply.present.tolist() == [3, 4, 5]


def test_the_least_recently_used_leave_first(provider):
    supply = Supply(provider, 8, 3 * 8)
    for address in (7, 1, 4, 7, 9):
        supply.use(chunks(address))
    assert provider.taken()[-2:] == [("evict", [1]), ("provide", [9])]
    supply.use(chunks(1, 2))
    assert provider.taken() == [("evict", [4, 7]), ("provide", [1, 2])]
    assert supply.present.tolist() == [1, 2, 9]


def test_what_is_in_use_stays_beyond_the_bound(provider):
    supply = Supply(provider, 8, 2 * 8)
    first, second = supply.use(chunks(1, 2)), supply.use(chunks(2, 3))
    assert supply.use(chunks(4)) is not None
    assert provider.taken() == [("provide", [1, 2]), ("provide", [3]), ("provide", [4])]
    del first
    supply.use(chunks(5))
    assert provider.taken() == [("evict", [1, 4]), ("provide", [5])]
    del second
    gc.collect()
    supply.use(chunks(6))
    assert supply.present.tolist() == [3, 6]


@pytest.mark.invariant("I16")
def test_presence_is_exact_for_any_address(provider):
    """Sets of chunks for which a missing entry does no harm end at 2**39; this one does not."""
    supply = Supply(provider, 1)
    far = chunks(2**39, 2**50, 2**62)
    supply.use(far)
    supply.use(far)
    assert provider.taken() == [("provide", far.tolist())]


def test_only_what_is_missing_is_announced(provider):
    supply = Supply(provider, 8, 3 * 8)
    used = supply.use(chunks(1))
    provider.taken()
    supply.ahead(chunks(1))
    supply.ahead(chunks(1, 2, 3, 4))
    assert provider.taken() == [("ahead", [2, 3, 4])]
    assert supply.present.tolist() == [1]
    del used


def test_what_has_changed_comes_anew(provider):
    trust = Trust(100)
    supply = Supply(provider, 8, None, trust)
    used = supply.use(chunks(1, 2))
    supply.use(chunks(3, 4))
    provider.taken()
    supply.renew(chunks(2, 3, 5))
    assert provider.taken() == [("evict", [3]), ("provide", [2])]
    assert supply.present.tolist() == [1, 2, 4]
    del used
    supply.renew(chunks(1, 2))
    assert provider.taken() == [("evict", [1, 2])]
    supply.use(chunks(1, 3, 4))
    assert provider.taken() == [("provide", [1, 3])]


def test_what_changes_on_its_way_comes_anew_after_it_has_come(provider, monkeypatch):
    supply = Supply(provider, 8)
    begun, go_on, own = threading.Event(), threading.Event(), provider.provide

    def slow(addresses):
        begun.set()
        assert go_on.wait(30)
        own(addresses)

    monkeypatch.setattr(provider, "provide", slow)
    threads = [threading.Thread(target=supply.use, args=[chunks(1)])]
    threads[0].start()
    assert begun.wait(30)
    threads.append(threading.Thread(target=supply.renew, args=[chunks(1)]))
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    first, second = provider.taken()
    assert first == ("provide", [1])
    assert second in [("evict", [1]), ("provide", [1])]  # as its first use has ended or not


@pytest.mark.parametrize("name", ["provide", "evict"])
def test_what_fails_leaves_nothing_in_use(provider, name, monkeypatch):
    supply = Supply(provider, 8, 2 * 8)
    supply.use(chunks(1, 2))

    def fail(addresses):
        raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(provider, name, fail)
        with pytest.raises(OSError, match="no more"):
            supply.use(chunks(2, 3))
    assert set(supply.present) <= {2}
    provider.taken()
    supply.use(chunks(2, 3))
    supply.use(chunks(4, 5))
    assert supply.present.tolist() == [4, 5]


def test_one_thread_asks_while_others_wait(provider, monkeypatch):
    supply = Supply(provider, 8)
    begun, go_on, own = threading.Event(), threading.Event(), provider.provide

    def slow(addresses):
        begun.set()
        assert go_on.wait(30)
        own(addresses)

    monkeypatch.setattr(provider, "provide", slow)
    threads = [threading.Thread(target=supply.use, args=[chunks(1, 2)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    go_on.set()
    for thread in threads:
        thread.join()
    assert provider.taken() == [("provide", [1, 2])]


def test_threads_that_need_each_others_chunks_do_not_wait_for_ever():
    class Slow(Provider):
        def provide(self, addresses):
            at_once.wait()
            super().provide(addresses)

    at_once = threading.Barrier(2, timeout=30)
    provider = Slow()
    supply = Supply(provider, 8)
    wanted = chunks(1, 2), chunks(2, 3)  # both want chunk 2; one asks for it
    threads = [threading.Thread(target=supply.use, args=[some]) for some in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert supply.present.tolist() == [1, 2, 3]
    assert sorted(q for _, asked in provider.taken() for q in asked) == [1, 2, 3]
