"""close_all closes all open arrays in files, and so does Python's exit."""

from __future__ import annotations

import gc
import subprocess

import format_reader
import numpy as np
import pytest

import extarray as xa
from extarray.array.life import open_in_files


@pytest.fixture(autouse=True)
def others_are_gone():
    """Collect arrays that other tests left in cycles: `close_all` would close them, too."""
    gc.collect()


@pytest.mark.slow
@pytest.mark.process
def test_close_all(script, tmp_path):
    script(
        f"""
import pickle, threading
import pytest
import extarray as xa
place = {str(tmp_path)!r}
xa.close_all()
writer = xa.create(place + "/a", (4, 3))
writer[...] = 7
reader, copy = xa.open(place + "/a"), pickle.loads(pickle.dumps(writer))
shared = [xa.create(place + "/s", 5), None]
shared[0].close()
shared = [xa.open(place + "/s", "r+", share=True) for _ in range(2)]
memory, view = xa.ones((2, 2)), writer.lazy[1:]
closed = xa.create(place + "/c", 2)
closed.close()
other = threading.Thread(target=xa.close_all)
other.start()
other.join()
for a in (writer, reader, copy, *shared):
    assert a.closed
    with pytest.raises(xa.ClosedError):
        a[0]
with pytest.raises(xa.ClosedError):
    view[0]
assert memory.sum() == 4 and not memory.closed
with xa.open(place + "/a", "r+") as a:  # the lock is free
    assert (a[...] == 7).all()
xa.close_all()

# One that cannot be closed keeps no other one open.
first, held, last = (xa.create(place + "/" + name, 2) for name in "xyz")
with xa.commit([held]):
    with pytest.raises(xa.ArgumentError, match="commit"):
        xa.close_all()
    assert first.closed and last.closed and not held.closed
    held.extend(0, 3)
assert held.shape == (5,)
xa.close_all()
assert held.closed
"""
    )


@pytest.mark.slow
@pytest.mark.process
def test_the_exit_closes(script, tmp_path):
    path = tmp_path / "a"
    xa.create(path, (4, 4), chunks=(2, 2), checksum=True).close()
    code = """
import sys, threading
import extarray as xa
a, b = xa.open(sys.argv[1], "r+"), xa.create(sys.argv[1] + "b", 3)
a[:3, 1:] = 5
reader = xa.open(sys.argv[1])
keep = [a]
keep.append(keep)  # nobody counts it down
begun = threading.Event()
def change():
    with xa.commit([b]):
        begun.set()
        threading.Event().wait()  # for ever
threading.Thread(target=change, daemon=True).start()
begun.wait()
"""
    done = subprocess.run(
        script.command(code, path),
        env=script.environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"ResourceWarning: '{path}' was not closed" in done.stderr
    assert format_reader.wrong_sums(path) == ([], False)
    with xa.open(path) as a:
        assert a.sum() == 45


@pytest.mark.parametrize("steps", [1, 8])
def test_in_a_progress_callback(tmp_path, steps):
    """An array under construction is open, too; closing it leaves no array."""
    xa.to_npy(xa.from_array(np.arange(64.0)), tmp_path / "file.npy")
    x = np.arange(64 * 64.0).reshape(64, 64)
    jobs = {
        "import": lambda p: xa.from_npy(tmp_path / "file.npy", path=tmp_path / "new", progress=p),
        "copy": lambda p: xa.from_array(x, chunks=8).copy(tmp_path / "new", progress=p),
        "rechunk": lambda p: xa.from_array(x, chunks=8).rechunk(
            (64, 1), tmp_path / "new", progress=p
        ),
    }
    for job in jobs.values():
        left = [steps]

        def end(done, total, left=left):
            left[0] -= 1
            if left[0] <= 0 or done == total:
                xa.close_all()

        with pytest.raises(xa.ClosedError, match="was closed (during|while)"):
            job(end)
        assert not (tmp_path / "new.xmd").exists()
        assert not open_in_files()
