"""Groups published in a bucket: one head for all arrays, so that readers see all at one length."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from served import needs_obstore

import extarray as xa
from extarray.errors import (
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    ReplacedError,
)
from extarray.maintenance import publishing
from extarray.remote.writing import Writing

pytestmark = needs_obstore


@pytest.fixture
def place():
    from obstore.store import MemoryStore

    return MemoryStore(), "runs/first"


@pytest.fixture
def group(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("time", 0, "i8", chunks=(4,), dims=["time"])
        g.create("air/wind", (0, 3), "f4", chunks=(4, 3), dims=["time", "x"], fill_value=np.nan)
        g.create("air/rain", (0, 3), "f4", chunks=(2, 2), dims=["time", "x"])
        g.attrs["title"] = "first"
        yield g


def grow(g, n):
    start = len(g["time"])
    g.extend("time", n)
    values = np.arange(start, start + n)
    g["time"][start:] = values
    for name in ("air/wind", "air/rain"):
        g[name][start:] = values[:, None]


def arrays(g):
    return {name: item for name, item in g.walk() if isinstance(item, xa.ExtArray)}


def same(reader, g):
    there, here = arrays(reader), arrays(g)
    assert there.keys() == here.keys()
    for name, a in here.items():
        np.testing.assert_array_equal(there[name][...], a[...])
        assert there[name].attrs == a.attrs
    groups = [[n for n, item in each.walk() if isinstance(item, xa.Group)] for each in (reader, g)]
    assert groups[0] == groups[1]
    assert dict(reader.attrs) == dict(g.attrs)


def spent(p, before):
    return {name: n - before[name] for name, n in p.requests.items() if n != before[name]}


def test_a_growth_of_all_arrays_takes_two_puts(place, group):
    p = xa.publish(group, place)
    assert "3 arrays" in repr(p)
    with xa.open_group(place) as reader:
        held = arrays(reader)
        for n in range(1, 8):
            grow(group, n)
            before = p.requests
            assert p.update()
            assert spent(p, before).keys() == {"puts", "sent"}
            assert spent(p, before)["puts"] == 2
            before, n_requests = p.requests, reader["time"].info()["requests"]
            assert not p.update()
            assert spent(p, before) == {}
            assert reader.refresh()
            assert {len(a) for a in held.values()} == {n * (n + 1) // 2}
            assert reader["time"].info()["requests"] == n_requests + 1
            assert not reader.refresh()
            with xa.open_group(place) as other:
                same(other, group)
        same(reader, group)
    assert xa.check(place, data=True).ok


def test_arrays_of_a_group_are_refreshed_together(place, group):
    p = xa.publish(group, place)
    with xa.open_group(place) as reader:
        time, wind = reader["time"], reader["air/wind"]
        grow(group, 3)
        p.update()
        assert time.refresh() and len(time) == 3 and len(wind) == 0
        assert xa.refresh([time, wind])
        assert len(time) == len(wind) == 3
        assert not xa.refresh([time, wind])
        grow(group, 3)
        p.update()
        rain = reader["air/rain"]  # from the head that is known
        assert len(rain) == 3


def test_members_come_and_go(place, group):
    grow(group, 2)
    p = xa.publish(group, place)
    reader = xa.open_group(place)
    old = reader["air/rain"]
    del group["air/rain"]
    group.create("new/one", (2, 2), "u1")[...] = 7
    group.create_group("new/empty").attrs["x"] = 1
    group.attrs["title"] = "second"
    assert p.update()
    assert reader.refresh()
    same(reader, group)
    assert reader["new/empty"].attrs["x"] == 1
    with pytest.raises(ReplacedError):
        old.refresh()
    group.create("air/rain", (5, 5), "i2", chunks=(2, 2))[...] = 3  # another array of this name
    assert p.update()
    assert reader.refresh()
    reader.close()
    with xa.open_group(place) as reader:
        same(reader, group)
    p.clean(older_than=0)
    with xa.open_group(place) as reader:
        same(reader, group)


def test_members_of_a_published_group_open_by_their_paths(place, group):
    grow(group, 5)
    xa.publish(group, place)
    store, name = place
    with xa.open((store, f"{name}/air/wind")) as wind:
        np.testing.assert_array_equal(wind[...], group["air/wind"][...])
        grow(group, 1)
        xa.publish(group, place)
        assert wind.refresh() and len(wind) == 6
    with xa.open_group((store, f"{name}/air")) as air:
        assert list(air) == ["rain", "wind"]
        assert len(air["rain"]) == 6
    with pytest.raises(MissingError, match="open_group"):
        xa.open(place)
    for wrong in ("none", "air/none", "air/wind/deep"):
        with pytest.raises(MissingError):
            xa.open((store, f"{name}/{wrong}"))
        with pytest.raises(MissingError):
            xa.open_group((store, f"{name}/{wrong}"))


@pytest.mark.slow
def test_many_arrays_go_to_pages(place, tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "_FULL_HEAD", 3600)
    monkeypatch.setattr(publishing, "_SHORT_MEMBER", 500)
    monkeypatch.setattr(publishing, "_SHORT_PAGES", 4000)
    names = [f"station {n:02}/level" for n in range(25)]
    with xa.open_group(tmp_path / "g", "w") as g:
        for name in names:
            g.create(name, 0, "i4", chunks=(2,), dims=["time"])
        p = xa.publish(g, place)
        reader = xa.open_group(place)
        for n in range(12):
            some = names if n % 4 == 0 else names[n::7]
            for name in some:
                g[name].append([n, n, n])
            assert p.update()
            assert reader.refresh()
            same(reader, g)
        assert len(p._publisher.known.pages) > 1
        q = xa.publish(g, place)
        assert q.clean(older_than=0) > 0
        g[names[3]].append([1])
        assert q.update()
        reader.close()
        with xa.open_group(place) as reader:
            same(reader, g)
        assert xa.check(place, data=True).ok


def test_overwritten_elements_and_dead_publishers(place, group, monkeypatch):
    grow(group, 5)
    p = xa.publish(group, place, compression="zlib:1")
    group["air/wind"][2, 1] = 99
    assert not p.update()
    replace = Writing.replace

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Writing, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        p.update(compare=True)
    monkeypatch.setattr(Writing, "replace", replace)
    q = xa.publish(group, place, compare=True)
    with xa.open_group(place) as reader:
        same(reader, group)
    assert q.clean(older_than=0) >= 1
    with xa.open_group(place) as reader:
        same(reader, group)


def test_a_path_is_enough(place, group, tmp_path):
    grow(group, 2)
    group.flush()
    p = xa.publish(tmp_path / "g", place)
    grow(group, 3)
    assert p.update()
    with xa.open_group(place) as reader:
        same(reader, group)
    q = xa.publish(str(tmp_path / "g" / "time"), (place[0], "time"))
    assert q.source.shape == (5,)
    with pytest.raises(MissingError):
        xa.publish(tmp_path / "none", (place[0], "none"))


def test_publishers_that_race_show_all_arrays_at_one_length(place, group, tmp_path):
    xa.publish(group, place)
    problems, over = [], threading.Event()

    def work():
        try:
            with xa.open_group(tmp_path / "g") as g:
                p = xa.publish(g, place)
                while not over.is_set():
                    p.update()
                p.update()
        except Exception as error:
            problems.append(error)

    def look():
        try:
            with xa.open_group(place) as reader:
                held = arrays(reader)
                while not over.is_set():
                    reader.refresh()
                    found = [a[..., 0] if a.ndim == 2 else a[...] for a in held.values()]
                    for some in found:
                        assert (some == np.arange(len(found[0]))).all()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=t) for t in (work, work, look)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        start = len(group["time"])
        with xa.commit(list(arrays(group).values())):
            group["time"].append([start])
            group["air/wind"].append([[start] * 3], axis=0)
            group["air/rain"].append([[start] * 3], axis=0)
    over.set()
    for thread in threads:
        thread.join()
    assert not problems
    with xa.open_group(place) as reader:
        same(reader, group)


# -- errors ----------------------------------------------------------------------------------------


def test_something_else_is_refused(place, group, tmp_path):
    import obstore

    p = xa.publish(group, place)
    a = xa.zeros((2, 2))
    with pytest.raises(ReplacedError, match="a group published"):
        xa.publish(a, place)
    with xa.open_group(tmp_path / "other", "w") as other:
        other.create("time", 3)
        with pytest.raises(ReplacedError, match="another group"):
            xa.publish(other, place)
        xa.publish(a, (place[0], "a"))
        with pytest.raises(ReplacedError, match="an array published"):
            xa.publish(other, (place[0], "a"))
        with pytest.raises(MissingError, match=r"extarray\.open"):
            xa.open_group((place[0], "a"))
        obstore.put(place[0], "b/extarray-index.json", b"x")
        with pytest.raises(ExistsError):
            xa.publish(other, (place[0], "b"))
        reader = xa.open_group(place)
        for path in [m["path"] for batch in obstore.list(place[0], place[1]) for m in batch]:
            obstore.delete(place[0], path)
        xa.publish(other, place)
        with pytest.raises(ReplacedError):
            reader.refresh()
        grow(group, 1)
        with pytest.raises(ReplacedError):
            p.update()


def test_damage_is_told(place, group):
    import obstore

    grow(group, 3)
    xa.publish(group, place)
    store, name = place
    head = bytes(obstore.get(store, f"{name}/head").bytes())
    (big,) = [m["path"] for b in obstore.list(store) for m in b if "/o/" in m["path"]]
    whole = bytes(obstore.get(store, big).bytes())
    bad = bytearray(whole)
    bad[-1] ^= 1
    obstore.put(store, big, bytes(bad))
    report = xa.check(place, data=True)
    assert [problem.file for problem in report.problems] == [f"{report.path}/time"]
    obstore.put(store, big, whole)
    for bad in (head[:-1], head[:90] + bytes([head[90] ^ 1]) + head[91:]):
        obstore.put(store, f"{name}/head", bad)
        assert not xa.check(place).ok
        with pytest.raises(FormatError, match="head"):
            xa.open_group(place)
        with pytest.raises((FormatError, CorruptError), match="head"):
            xa.publish(group, place)
