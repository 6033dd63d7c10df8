"""Arrays published in a bucket: what readers see, how many requests it takes, races and deaths."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import needs_obstore

import extarray as xa
from extarray.common.limits import limits
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    RemoteError,
    ReplacedError,
    StorageError,
)
from extarray.maintenance import publishing
from extarray.remote.answers import Failure
from extarray.remote.obstores import StoreBackend
from extarray.remote.writing import Writing

pytestmark = needs_obstore

X = np.random.default_rng(3).normal(size=(40, 40, 40)).astype("f4")


@pytest.fixture
def place():
    from obstore.store import MemoryStore

    return MemoryStore(), "scene"


def spent(p, before):
    return {name: n - before[name] for name, n in p.requests.items() if n != before[name]}


def names(place):
    import obstore

    return {meta["path"] for batch in obstore.list(place[0]) for meta in batch}


def same(place, a):
    with xa.open(place) as b:
        np.testing.assert_array_equal(b[...], a[...])
        assert b.attrs == a.attrs


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("side", ["end", "start"])
def test_a_growth_takes_two_puts(place, tmp_path, axis, side):
    with xa.create(tmp_path / "a", (8, 8, 8), "f4", chunks=(4, 2, 2)) as a:
        a[...] = X[:8, :8, :8]
        p = xa.publish(a, place)
        for n in range(20):
            before = p.requests
            a.extend(axis, 4, side)
            part = [slice(None)] * 3
            part[axis] = slice(0, 4) if side == "start" else slice(-4, None)
            a[tuple(part)] = n
            assert p.update()
            assert {k: v for k, v in spent(p, before).items() if k != "sent"} == {"puts": 2}
        same(place, a)


def test_a_thin_growth_takes_a_tail(place):
    a = xa.create(None, (0, 8), "f4", chunks=(4, 4))
    p = xa.publish(a, place)
    puts = []
    for n in range(9):
        before = p.requests
        a.append(X[n : n + 1, :8, 0], axis=0)
        p.update()
        spending = spent(p, before)
        assert "gets" not in spending
        puts.append(spending["puts"])
    assert puts == [2] * 9  # the fourth completes its chunks
    before = p.requests
    a.append(X[:5, :8, 1], axis=0)  # completes chunks, and begins others
    p.update()
    assert spent(p, before)["puts"] == 2
    same(place, a)


def test_many_growths_make_few_objects(place):
    a = xa.create(None, (0, 4), "f4", chunks=(1, 4))
    p = xa.publish(a, place)
    n = 300
    before = p.requests
    for i in range(n):
        a.append(np.full((1, 4), i, "f4"), axis=0)
        p.update()
    assert spent(p, before)["puts"] <= 2.2 * n
    assert "gets" not in spent(p, before)
    with xa.open(place) as b:
        np.testing.assert_array_equal(b[:, 0], np.arange(n))
        assert b.info()["requests"] <= 40


def test_nothing_new_is_no_request_and_one_for_a_reader(place):
    a = xa.from_array(X[:8], chunks=(4, 8, 8))
    p = xa.publish(a, place)
    before = p.requests
    assert not p.update()
    assert spent(p, before) == {}
    with xa.open(place) as b:
        n = b.info()["requests"]
        assert not b.refresh()
        assert b.info()["requests"] == n + 1
        assert b.mode == "r"


@pytest.mark.parametrize("codec", [None, "zstd:1:shuffle"])
def test_readers_of_an_old_head_read_on(place, codec):
    if codec:
        pytest.importorskip("backports.zstd")
    a = xa.create(None, (5, 30, 30), "f4", chunks=(4, 8, 8), fill_value=2)
    a[...] = X[:5, :30, :30]
    p = xa.publish(a, place, compression=codec)
    with xa.open(place) as old, xa.open(place) as reader:
        _ = reader[1:3]
        was = a[...]
        for n in range(6):
            a.append(X[n : n + 3, :30, :30], axis=0)
            a.extend(2, 1, "start")
            a[:, :, 0] = n
            a.attrs["n"] = n
            p.update()
            a.resize((a.shape[0], 30, 30))
            p.update()
            assert reader.refresh()
            np.testing.assert_array_equal(reader[...], a[...])
            assert reader.attrs["n"] == n
        np.testing.assert_array_equal(old[...], was)
        assert p.clean() == 0
        assert p.clean(older_than=0) > 0
        np.testing.assert_array_equal(reader[...], a[...])
        same(place, a)
    assert len(names(place)) <= len(p._publisher.known.members[""].found.entries) + 1


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_changes_are_followed(data):
    from obstore.store import MemoryStore

    place = MemoryStore(), "a/b"
    shape = data.draw(st.tuples(*[st.integers(0, 5)] * 2))
    a = xa.create(None, shape, "i2", chunks=(2, 3), fill_value=data.draw(st.sampled_from([0, 7])))
    a[...] = 1
    p = xa.publish(a, place)
    seen = []
    for n in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["grow", "cut", "write", "clean", "again", "keep"]))
        if action == "grow":
            axis, by = data.draw(st.integers(0, 1)), data.draw(st.integers(1, 5))
            side = data.draw(st.sampled_from(["end", "start"]))
            a.extend(axis, by, side)
            part = [slice(None)] * 2
            part[axis] = slice(0, by) if side == "start" else slice(-by, None)
            a[tuple(part)] = n + 10
        elif action == "cut":
            a.resize(tuple(data.draw(st.integers(0, k)) for k in a.shape))
        elif action == "write" and a.size:
            a[data.draw(st.integers(0, a.shape[0] - 1))] = -n
            p.update(compare=True)
        elif action == "again":
            p = xa.publish(a, place)
        elif action == "clean":
            p.clean()
        elif action == "keep":
            p.update()
            seen.append((xa.open(place), a[...]))
        p.update()
        same(place, a)
    for reader, was in seen:
        np.testing.assert_array_equal(reader[...], was)
        reader.close()


def test_chunks_that_move_are_not_fetched_again(place):
    a = xa.create(None, (0, 4, 40), "f4", chunks=(1, 2, 40))
    p = xa.publish(a, place)
    with xa.open(place) as reader:
        for n in range(64):
            a.append(X[n % 40, None, :4] + n, axis=0)
            p.update()
            if n % 8 == 7:
                assert reader.refresh()
                before = reader.info()["fetched_bytes"]
                np.testing.assert_array_equal(reader[...], a[...])
                # The new ones alone, with some tables.
                assert reader.info()["fetched_bytes"] - before < 12 * a[:1].nbytes


def test_a_cache_serves_all_states(place, tmp_path):
    folder = tmp_path / "cache"
    a = xa.create(None, (0, 64), "f4", chunks=(2, 64))
    p = xa.publish(a, place)
    for n in range(1, 12):
        a.append(np.full((3, 64), n), axis=0)
        if n > 5:
            a[n - 5] = -n
        p.update(compare=n > 5)
        with xa.open(place, cache=folder) as b, xa.open(place, cache=folder) as old:
            before = b.info()["fetched_bytes"]
            np.testing.assert_array_equal(b[...], a[...])
            assert n < 6 or b.info()["fetched_bytes"] - before < a.nbytes / 2
            if n % 3 == 0:
                was = a[...]
                a[0] = n
                p.update(compare=True)
                assert b.refresh()
                np.testing.assert_array_equal(b[...], a[...])
                np.testing.assert_array_equal(old[...], was)
    assert len(list(folder.glob("*.chunks"))) == 1


def test_frozen_chunks_go_as_they_are(place, tmp_path, monkeypatch):
    pytest.importorskip("backports.zstd")
    with xa.create(tmp_path / "a", (0, 64, 64), "i4", chunks=(4, 64, 64), compression="zstd") as a:
        a.append(np.arange(8 * 64 * 64).reshape(8, 64, 64) // 100)
        a.freeze()
        encoded = []
        encode = publishing.encode
        monkeypatch.setattr(publishing, "encode", lambda *k: encoded.append(k) or encode(*k))
        p = xa.publish(a, place)
        assert not encoded
        assert p.requests["sent"] < a.nbytes / 4
        same(place, a)
        with xa.open(place) as b:
            assert b.compression == a.compression


def test_a_reader_publishes_what_a_writer_commits(place, tmp_path):
    with xa.create(tmp_path / "a", (0, 4), chunks=(2, 4)) as a, xa.open(tmp_path / "a") as r:
        p = xa.publish(r, place)
        a.append(np.ones((3, 4)), axis=0)
        assert p.update()
        same(place, a)
        a.add_axis(0)
        assert p.update()
        same(place, a)


def _pages(p):
    return list(p._publisher.known.all_pages().values())


@pytest.mark.slow
def test_long_attributes_and_lists_go_to_pages(place, monkeypatch):
    monkeypatch.setattr(publishing, "_FULL_HEAD", 2000)
    monkeypatch.setattr(publishing, "_SHORT_MEMBER", 1)
    monkeypatch.setattr(publishing, "_FULL_GRAVES", 1000)
    monkeypatch.setattr(publishing, "_SHORT_PAGES", 6000)
    monkeypatch.setattr(publishing, "_FAN_OUT", 1000)
    a = xa.create(None, (0, 2, 2), "u1", chunks=(1, 2, 2))
    p = xa.publish(a, place)
    a.attrs["text"] = "x" * 100_000
    p.update()
    for n in range(300):
        if n == 150:
            monkeypatch.setattr(publishing, "_FAN_OUT", 2)
        axis = n % 2 if n < 150 else 0
        a.extend(axis, a.chunks[axis])
        a[...] = n % 256
        p.update()
    pages = _pages(p)
    assert {bool(page.row["graves"]) for page in pages} == {True, False}
    assert len(pages) > 3
    with xa.open(place) as b:
        assert b.attrs["text"] == "x" * 100_000
        assert b.info()["requests"] == 2 + sum(not page.row["graves"] for page in pages)
    p.update(compare=True)
    same(place, a)
    q = xa.publish(a, place)
    assert q.clean(older_than=0) > 100
    assert not any(page.row["graves"] for page in _pages(q))
    a.extend(1, 1)
    q.update()
    same(place, a)


# -- several publishers, and their deaths ----------------------------------------------------------


def test_another_array_is_refused(place):
    xa.publish(xa.zeros((3, 3)), place)
    with pytest.raises(ReplacedError, match="another array"):
        xa.publish(xa.zeros((3, 3)), place)


def test_the_files_of_an_array_are_not_hidden(place):
    import obstore

    obstore.put(place[0], "scene.xmd", b"x")
    with pytest.raises(ExistsError, match="another place"):
        xa.publish(xa.zeros((3, 3)), place)
    assert names(place) == {"scene.xmd"}


def test_a_dead_publisher_leaves_garbage_and_the_next_takes_over(place, monkeypatch):
    a = xa.from_array(X[:6, :6, :6], chunks=(4, 4, 4))
    p = xa.publish(a, place)
    state = names(place)
    was = a[...]
    a.append(X[6:12, :6, :6], axis=0)
    replace = Writing.replace

    def die(*_):
        raise KeyboardInterrupt

    for _ in range(5):
        monkeypatch.setattr(Writing, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            p.update()
        with xa.open(place) as b:
            np.testing.assert_array_equal(b[...], was)
    assert len(names(place)) > len(state)
    monkeypatch.setattr(Writing, "replace", replace)
    q = xa.publish(a, place)
    same(place, a)
    assert q.clean(older_than=3600) == 0
    assert q.clean(older_than=0) >= 5
    same(place, a)


def test_an_answer_that_is_lost_makes_no_second_commit(place, monkeypatch):
    monkeypatch.setattr(limits, "remote_pause", 0.0)
    a = xa.from_array(X[:6, :6, :6], chunks=(4, 4, 4))
    p = xa.publish(a, place)
    put, failures = StoreBackend.put, []

    async def lossy(self, path, data, mark, seconds):
        found = await put(self, path, data, mark, seconds)
        if mark and not failures:
            failures.append(path)
            raise Failure("again", "the connection ended")
        return found

    monkeypatch.setattr(StoreBackend, "put", lossy)
    a.append(X[:2, :6, :6], axis=0)
    before = p._publisher.known.head.number
    assert p.update() and failures
    assert p._publisher.known.head.number == before + 1
    same(place, a)


@pytest.mark.parametrize("is_late", [False, True])
def test_requests_that_fail_are_made_again(place, monkeypatch, is_late):
    monkeypatch.setattr(limits, "remote_pause", 0.0)
    monkeypatch.setattr(limits, "remote_pause_if_busy", 0.0)
    a = xa.from_array(X[:6, :6, :6], chunks=(4, 4, 4))
    p = xa.publish(a, place)
    put, tries = StoreBackend.put, []

    async def faulty(self, path, data, mark, seconds):
        tries.append(path)
        if len(tries) % 3:
            if is_late:
                await put(self, path, data, mark, seconds)
            raise Failure("busy" if len(tries) % 2 else "again", "it is not available")
        return await put(self, path, data, mark, seconds)

    monkeypatch.setattr(StoreBackend, "put", faulty)
    for n in range(4):
        a.append(np.full((3, 6, 6), n), axis=0)
        assert p.update()
        same(place, a)

    async def dead(*_):
        raise Failure("again", "it is not available")

    monkeypatch.setattr(StoreBackend, "put", dead)
    was = a[...]
    a.append(X[:2, :6, :6], axis=0)
    with pytest.raises(RemoteError, match="not available"):
        p.update()
    monkeypatch.setattr(StoreBackend, "put", put)
    with xa.open(place) as b:
        np.testing.assert_array_equal(b[...], was)
    assert p.update()
    same(place, a)


def test_a_cleaner_makes_a_publisher_begin_anew(place, monkeypatch):
    a = xa.from_array(X[:6, :6, :6], chunks=(4, 4, 4))
    p = xa.publish(a, place)
    q = xa.publish(a, place)
    replace, cleaned = Writing.replace, []

    def slow(self, name, data, mark):
        if self is p._writing and not cleaned:
            cleaned.append(q.clean(older_than=0))
        return replace(self, name, data, mark)

    monkeypatch.setattr(Writing, "replace", slow)
    a.append(X[6:9, :6, :6], axis=0)
    before = p.requests
    assert p.update()
    assert cleaned[0] >= 1
    assert spent(p, before)["gets"] == 1
    same(place, a)


def test_publishers_that_race_lose_nothing(place, tmp_path):
    with xa.create(tmp_path / "a", (0, 6), "i8", chunks=(4, 4)) as a:
        xa.publish(a, place)
        problems = []
        over = threading.Event()

        def work():
            try:
                with xa.open(tmp_path / "a") as r:
                    p = xa.publish(r, place)
                    while not over.is_set():
                        p.update()
                    p.update()
            except Exception as error:
                problems.append(error)

        def look():
            try:
                with xa.open(place) as b:
                    while not over.is_set():
                        b.refresh()
                        found = b[...]
                        assert (found == np.arange(len(found))[:, None]).all()
            except Exception as error:
                problems.append(error)

        threads = [threading.Thread(target=t) for t in (work, work, look)]
        for thread in threads:
            thread.start()
        for n in range(60):
            a.append(np.full((1, 6), n), axis=0)
        over.set()
        for thread in threads:
            thread.join()
        assert not problems
        same(place, a)


def test_an_older_state_is_not_published(place, tmp_path):
    with xa.create(tmp_path / "a", (2, 4), chunks=(2, 4)) as a:
        a.flush()
        with xa.open(tmp_path / "a") as r:
            a.append(np.ones((3, 4)), axis=0)
            xa.publish(a, place)
            p = xa.publish(r, place)
            assert not p.update()
        same(place, a)


@pytest.mark.parametrize("share", [True, "elements"])
def test_writers_that_share_publish_what_all_commit(place, tmp_path, share):
    xa.create(tmp_path / "a", (0, 4), chunks=(2, 4)).close()
    with (
        xa.open(tmp_path / "a", "r+", share=True) as a,
        xa.open(tmp_path / "a", "r+", share=share) as b,
    ):
        p, q = xa.publish(a, place), xa.publish(b, place)
        for n in range(4):
            a.append(np.full((1, 4), n), axis=0)
            assert q.update() and not p.update()
            same(place, a)


def test_an_array_that_was_restored_is_told(place, tmp_path):
    with xa.create(tmp_path / "a", (2, 4), chunks=(2, 4)) as a:
        a[...] = 1
    for suffix in (".xmd", ".xta"):
        (tmp_path / f"kept{suffix}").write_bytes((tmp_path / f"a{suffix}").read_bytes())
    with xa.open(tmp_path / "a", "r+") as a:
        for n in range(5):
            a.append(np.full((1, 4), n), axis=0)
        xa.publish(a, place)
    for suffix in (".xmd", ".xta"):
        (tmp_path / f"a{suffix}").write_bytes((tmp_path / f"kept{suffix}").read_bytes())
    with xa.open(tmp_path / "a", "r+") as a:
        a.append(np.full((1, 4), 9), axis=0)
        with pytest.raises(StorageError, match="compare=True"):
            xa.publish(a, place)
        p = xa.publish(a, place, compare=True)
        same(place, a)
        a.append(np.full((2, 4), 8), axis=0)
        assert p.update()
        same(place, a)


# -- errors ----------------------------------------------------------------------------------------


def test_places_that_cannot_be(place, tmp_path):
    from obstore.store import LocalStore

    a = xa.zeros((2, 2))
    for wrong in (tmp_path / "a", "https://host/scene", "s3://bucket/a.xap", (LocalStore(), "a")):
        with pytest.raises(ArgumentError, match="publish"):
            xa.publish(a, wrong)
    with pytest.raises(ArgumentTypeError):
        xa.publish(np.zeros(3), place)
    p = xa.publish(a, place)
    with pytest.raises(ArgumentError):
        p.clean(older_than=-1)
    a.close()
    with pytest.raises(ClosedError):
        p.update()


def test_damage_is_told(place):
    import obstore

    a = xa.from_array(X[:6, :6, :6], chunks=(4, 4, 4))
    xa.publish(a, place)
    store, name = place
    head = bytes(obstore.get(store, f"{name}/head").bytes())
    (big,) = [n for n in names(place) if "/o/" in n]
    whole = bytearray(obstore.get(store, big).bytes())
    assert xa.check(place).ok and xa.check(place, data=True).ok
    for at in (70, len(whole) - 50):
        bad = bytearray(whole)
        bad[at] ^= 1
        obstore.put(store, big, bytes(bad))
        with xa.open(place) as b, pytest.raises(FormatError):
            b[...]
        assert xa.check(place).ok == (at > 70)  # the table, or a chunk
        (problem,) = xa.check(place, data=True).problems
        assert (
            problem.severity == "error" and "damaged" in problem.what
        ) or "checksum" in problem.what
    reader = xa.open(place)
    obstore.delete(store, big)
    assert not xa.check(place).ok
    with pytest.raises(ReplacedError, match="refresh"):
        reader[...]
    reader.close()
    for bad in (head[:-1], b"<html>", head[:50] + b"\0" + head[51:], head + bytes(1 << 17)):
        obstore.put(store, f"{name}/head", bad)
        assert not xa.check(place).ok
        for use in (lambda: xa.open(place), lambda: xa.publish(a, place)):
            with pytest.raises(FormatError, match="head"):
                use()
    obstore.delete(store, f"{name}/head")
    with pytest.raises(MissingError):
        xa.open(place)
    with pytest.raises((MissingError, CorruptError)):
        xa.open((store, f"{name}/o"))
