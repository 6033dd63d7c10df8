"""Every interleaving of two publishers, a cleaner and readers, in a model of ``published.md``.

The model has the steps that are requests, and nothing in between.  The answer to a conditional put
may be lost.  Every state counts, so those are among them in which somebody has died and does no
further step.  Objects are numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Head(NamedTuple):
    """A head: its number, the random bytes of its commit, objects it names, and retired ones."""

    number: int
    token: object
    named: frozenset[int]
    retired: frozenset[int]


class Publisher(NamedTuple):
    """A publisher: where it is, the head that it knows, and what it has put."""

    at: str = "read"
    head: Head | None = None
    mine: int | None = None
    left: int = 1  # commits to make
    answers: int = 1  # that may be lost


class Cleaner(NamedTuple):
    """A cleaner: where it is, what it has listed, and what it removes."""

    at: str = "list"
    listed: frozenset[int] = frozenset()
    head: Head | None = None
    victims: frozenset[int] = frozenset()


class State(NamedTuple):
    """All that there is: the head, objects, those that were ever named, and who is at work."""

    head: Head
    objects: frozenset[int]
    read: frozenset[int]  # by readers of any head
    fresh: int
    publishers: tuple[Publisher, ...]
    cleaner: Cleaner


def begin(commits):
    head = Head(1, None, frozenset({0}), frozenset())
    publishers = tuple(Publisher(left=n) for n in commits)
    return State(head, frozenset({0}), frozenset({0}), 1, publishers, Cleaner())


def committed(p):
    return Publisher("read" if p.left > 1 else "end", left=p.left - 1, answers=p.answers)


def publisher_steps(s, i, reuses):
    """Yield the states after a step of a publisher."""
    p = s.publishers[i]

    def moved(new, **changes):
        publishers = (*s.publishers[:i], new, *s.publishers[i + 1 :])
        return s._replace(publishers=publishers, **changes)

    if p.at == "read":
        yield moved(p._replace(at="put", head=s.head))
    elif p.at == "put":
        if reuses and p.mine is not None:
            yield moved(p._replace(at="replace"))
        else:
            put = {"objects": s.objects | {s.fresh}, "fresh": s.fresh + 1}
            yield moved(p._replace(at="replace", mine=s.fresh), **put)
    elif p.at == "replace":
        if s.head != p.head:
            yield moved(p._replace(at="look"))
            return
        # One commit adds an object to those named, the next takes all of them over.
        stay = p.head.named if p.left % 2 == 0 else frozenset()
        head = Head(
            p.head.number + 1,
            ("published", i, p.mine),
            stay | {p.mine},
            p.head.retired | (p.head.named - stay),
        )
        after = {"head": head, "read": s.read | head.named}
        yield moved(committed(p), **after)
        if p.answers:
            yield moved(p._replace(at="look", answers=p.answers - 1), **after)
    elif p.at == "look":
        if s.head.token == ("published", i, p.mine):
            yield moved(committed(p))
        else:
            yield moved(p._replace(at="put", head=s.head))


def cleaner_steps(s, waits, fences):
    """Yield the states after a step of the cleaner; `waits` for readers of old heads."""
    c = s.cleaner
    if c.at == "list":
        yield s._replace(cleaner=Cleaner("read", s.objects))
    elif c.at == "read":
        due = frozenset() if waits else s.head.retired
        victims = c.listed - s.head.named - (s.head.retired - due)
        at = "replace" if fences else "remove"
        yield s._replace(cleaner=c._replace(at=at, head=s.head, victims=victims))
    elif c.at == "replace":
        if s.head != c.head:
            yield s._replace(cleaner=Cleaner("list"))
            return
        retired = s.head.retired if waits else frozenset()
        head = s.head._replace(number=s.head.number + 1, token="cleaned", retired=retired)
        yield s._replace(head=head, cleaner=c._replace(at="remove"))
    elif c.at == "remove":
        if not c.victims:
            yield s._replace(cleaner=Cleaner("end"))
        for victim in sorted(c.victims)[:1]:
            left = c._replace(victims=c.victims - {victim})
            yield s._replace(objects=s.objects - {victim}, cleaner=left)


def search(waits, reuses=False, fences=True, commits=(2, 1)):
    """Return the number of states, and the first one in which a reader misses an object."""
    first = begin(commits)
    seen, left = {first}, [first]
    while left:
        s = left.pop()
        needed = s.read if waits else s.head.named
        if not needed <= s.objects:
            return len(seen), s
        steps = [new for i in range(len(s.publishers)) for new in publisher_steps(s, i, reuses)]
        for new in (*steps, *cleaner_steps(s, waits, fences)):
            if new not in seen:
                seen.add(new)
                left.append(new)
    return len(seen), None


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("commits", [(1, 1), pytest.param((2, 1), marks=pytest.mark.slow)])
def test_no_order_of_requests_loses_an_object(waits, commits):
    n_states, found = search(waits, commits=commits)
    assert found is None
    assert n_states > 10_000


@pytest.mark.parametrize("careless", [{"reuses": True}, {"fences": False}])
def test_what_the_rules_forbid_loses_objects(careless):
    _, found = search(False, **careless, commits=(2,))
    assert found is not None
