"""In forked children, locks of the parent's threads are free, and no change is half done."""

from __future__ import annotations

import pytest
from systems import needs_fork

pytestmark = needs_fork

#: A thread of the parent stops in the middle of a call, and the process forks meanwhile.  A child
#: that hangs is killed.
STOP = """
import os, signal, sys, threading
import numpy as np
import extarray as xa

def stop_in(call, place, name, before):
    "Fork where a thread that makes a call comes to a method; returns whether this is the child."
    *parts, name = name.split(".")
    for part in parts:
        place = getattr(place, part)
    real, there, on = getattr(place, name), threading.Event(), threading.Event()
    def stop():
        if not there.is_set():
            there.set()
            on.wait()
    def stopping(*args, **options):
        if before:
            stop()
        result = real(*args, **options)
        if not before:
            stop()
        return result
    setattr(place, name, stopping)
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert there.wait(60)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(30)
        return True
    assert os.waitpid(child, 0)[1] == 0, "the child has failed, or waited for ever"
    on.set()
    thread.join()
    return False

def end():
    os._exit(0)

path, engine = sys.argv[1], sys.argv[2]
first = np.arange(12, dtype="i4").reshape(4, 3)
new = np.full((4, 3), 50, "i4")
"""

IN_MEMORY = """
fill = int(sys.argv[3])
a = xa.create(None, (4, 3), "i4", chunks=(2, 2), fill_value=fill)
a[...] = first
a.extend(1, 2, side="start")
before = a[...]
call = eval(sys.argv[4])
if stop_in(call, a._store, sys.argv[5], sys.argv[6] == "before"):
    if sys.argv[7] == "before":
        assert a.shape == before.shape and (a[...] == before).all(), a[...]
    shape, values = a.shape, a[...]
    a.refresh(), a.flush()
    a.extend(0, 5)
    a.extend(1, 3, side="start")
    assert a.shape == (shape[0] + 5, shape[1] + 3)
    assert (a[:shape[0], 3:] == values).all(), a[...]
    assert (a[shape[0]:] == fill).all() and (a[:, :3] == fill).all(), a[...]
    a.append(np.full((1, a.shape[1]), 8, "i4"))
    assert (a[-1] == 8).all()
    addresses = a.axial.addresses(np.indices(a.grid).reshape(2, -1).T)
    assert sorted(addresses) == list(range(a.axial.size))
    a.close()
    end()
assert a.shape != before.shape
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "fill, call, method, when",
    [
        (9, "lambda: a.append(np.full((9, 5), 50))", "reserve", "before"),
        (9, "lambda: a.append(np.full((9, 5), 50))", "commit", "before"),
        (0, "lambda: a.append(np.full((9, 5), 50), side='start')", "commit", "before"),
        (0, "lambda: a.resize((9, 9))", "reserve", "behind"),
        (9, "lambda: a.shrink(0, 3)", "commit", "before"),
        (9, "lambda: a.add_axis()", "add_axis", "before"),
    ],
)
def test_a_change_in_memory(forked, path, fill, call, method, when):
    """The child sees the array as before."""
    forked(STOP + IN_MEMORY, path, "mmap", fill, call, method, when, "before")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "call",
    [
        "lambda: a.append(np.full((9, 5), 50))",
        "lambda: a.extend(0, 4, side='start')",
        "lambda: a.shrink(0, 3)",
    ],
)
def test_a_change_in_memory_that_is_committed(forked, path, call):
    """The child sees the commit, though it is not shown yet."""
    forked(STOP + IN_MEMORY, path, "mmap", 9, call, "commit", "behind", "behind")


AXIS_IN_MEMORY = """
a = xa.from_array(first)
if stop_in(lambda: a.add_axis(), a._store, "add_axis", False):
    assert a.closed  # what it was is not known
    a.close()
    end()
assert a.shape == (1, 4, 3)
"""


def test_an_axis_in_memory_that_is_half_added(forked, path):
    forked(STOP + AXIS_IN_MEMORY, path, "mmap")


READER = """
w = xa.create(path, (4, 3), "i4", chunks=(2, 2), engine=engine, fill_value=9)
w[...] = first
r = xa.open(path, engine=engine)
w.append(new, side="start")
w.extend(1, 1)
w.attrs["a"] = 1
if stop_in(r.refresh, r._store, sys.argv[3], sys.argv[4] == "before"):
    r.refresh()
    assert r.shape == (8, 4) and (r[:4, :3] == new).all() and (r[4:, :3] == first).all()
    assert dict(r.attrs) == {"a": 1}
    r.close()
    end()
w.append(np.ones((1, 4), "i4"))
r.refresh()
assert r.shape == (9, 4)
r.close()
w.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, when",
    [
        ("following.refresh", "before"),
        ("following.replay", "behind"),
        ("following.adopt", "behind"),
    ],
)
def test_a_reader_that_refreshes(forked, path, engine, method, when):
    forked(STOP + READER, path, engine, method, when)


WRITER = """
options = {"fill_value": 9, "checksum": True}
w = xa.create(path, (4, 3), "i4", chunks=(2, 2), engine=engine, **options)
w[...] = first
w.flush()
w[0, 0] = 0
call = eval(sys.argv[3])
if stop_in(call, w._store, sys.argv[4], sys.argv[5] == "before"):
    assert (w.shape == (4, 3)) == (sys.argv[6] == "before"), w.shape
    assert w.shape != (4, 3) or (w[...] == first).all()
    try:
        w.extend(0, 1)
    except xa.ReadOnlyError as error:
        assert "forked" in str(error), error
    w.refresh()
    w.flush()
    w.close()
    end()
assert w.shape != (4, 3)
shape = w.shape
w.close()
assert xa.check(path).ok, xa.check(path)
assert xa.open(path).shape == shape
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "call, method, when, then",
    [
        ("lambda: w.append(np.full((9, 3), 50))", "reserve", "behind", "before"),
        ("lambda: w.append(np.full((9, 3), 50), side='start')", "commit", "before", "before"),
        ("lambda: w.append(np.full((9, 3), 50), side='start')", "commit", "behind", "behind"),
        ("lambda: w.add_axis()", "add_axis", "before", "before"),
        ("lambda: w.add_axis()", "add_axis", "behind", "behind"),
    ],
)
def test_a_writer(forked, path, engine, call, method, when, then):
    """The child sees the array as committed, and may only read."""
    forked(STOP + WRITER, path, engine, call, method, when, then)


SHARED = """
xa.create(path, (0, 3), "i4", chunks=(4, 2)).close()
w = xa.open(path, "r+", share=True, engine=engine)
# A lone writer takes a turn for what is not in memory.
data = xa.from_array(first) if sys.argv[3].startswith("writers") else first
if stop_in(lambda: w.append(data), w._store, sys.argv[3], True):
    assert w.mode == "r" and w.shape[0] in (0, 4)
    w.refresh()
    with xa.open(path) as r:
        r.refresh()
    w.close()
    end()
w.append(new)
w.close()
with xa.open(path) as r:
    assert (r[...] == np.concatenate([first, new])).all()
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "method", ["commits.begin_append", "writers.begin_turn", "commit", "writers.end_turn"]
)
def test_one_of_several_writers(forked, path, method):
    forked(STOP + SHARED, path, "mmap", method)


BLOCK = """
from extarray.array import group
a = xa.create(path, (4, 3), "i4", chunks=(2, 2), engine=engine)
m = xa.from_array(first)
def change():
    with xa.commit([a, m]):
        a.append(new)
        m.append(new)
if stop_in(change, group, "_decide", True):
    assert a.shape == (4, 3) and not a[...].any()
    assert (m[:4] == first).all()
    m.extend(0, 1)
    m.flush(), m.close()  # it is in no block
    with xa.commit([xa.from_array(first)]):
        pass
    a.refresh()
    a.close()
    end()
assert a.shape == m.shape == (8, 3)
a.close()
assert xa.open(path).shape == (8, 3)
"""


@pytest.mark.slow
def test_a_commit_of_several(forked, path):
    forked(STOP + BLOCK, path, "mmap")


OWN = """
class Source:
    shape, dtype = (40, 3), np.dtype("i4")
    child = None
    def __getitem__(self, key):
        if self.child is None:
            self.child = os.fork()
        return np.full((40, 3), 50, "i4")[key]

a = xa.create(path, (4, 3), "i4", chunks=(2, 2), engine=engine)
source = Source()
if sys.argv[3] == "memory":
    a = xa.from_array(first)
try:
    a.append(source)
except xa.ReadOnlyError:
    assert source.child == 0 and a.mode == "r" and a.shape == (4, 3)
    a.close()
    end()
if source.child == 0:
    assert a.path is None and (a[4:] == 50).all() and (a[:4] == first).all()
    end()
assert os.waitpid(source.child, 0)[1] == 0
assert a.shape == (44, 3) and (a[4:] == 50).all()
a.close()
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_what_is_appended_forks(forked, path, kind):
    """The child cannot continue an append to a file, and leaves its space alone."""
    forked(STOP + OWN, path, "mmap", kind)


TOLD = """
a = xa.create(path, (4, 3), "i4", engine=engine)
child = os.fork()
if child == 0:
    for act in (lambda: a.__setitem__((0, 0), 1), lambda: a.extend(0, 1)):
        try:
            act()
        except xa.ReadOnlyError as error:
            assert "this process was forked from its writer" in str(error)
        else:
            os._exit(1)
    end()
assert os.waitpid(child, 0)[1] == 0
a.close()
"""


@pytest.mark.slow
def test_a_child_is_told_who_writes(forked, path):
    forked(STOP + TOLD, path, "mmap")
