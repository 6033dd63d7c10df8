"""Pairs with frozen chunks on a web server, while a writer freezes and thaws them."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from served import Files, needs_obstore, served

import extarray as xa
from extarray.common.limits import limits
from extarray.errors import (
    ChecksumError,
    MissingError,
    NotVisibleError,
    PartnerError,
    RecoveryWarning,
    ReplacedError,
)
from extarray.fetched import metadata

pytestmark = needs_obstore

X = np.add.outer(np.arange(1, 97), 1000 * np.arange(80)).astype("i4")
# Of a page each, which can become a hole.
CHUNKS = (32, 32)
FILES = (".xmd", ".xta", ".xtz")


def make(path, x=X, **options):
    given = {"chunks": CHUNKS, "compression": "zlib", "freeze": "never", **options}
    a = xa.create(path, x.shape, x.dtype, **given)
    a[...] = x
    return a


def asked(web):
    """Return how many requests were made for each file, and forget them."""
    names = [request.path.rpartition(".")[2] for request in web.requests]
    web.forget()
    return {name: names.count(name) for name in names}


def let_tables_be_long():
    """Let tables of frozen chunks come in pieces."""
    patch = pytest.MonkeyPatch()
    patch.setattr(metadata, "TAIL_BYTES", 1 << 14)
    patch.setattr(metadata, "_TABLE_BYTES", 0)
    patch.setattr(metadata, "_PIECE", 4)
    return patch


@pytest.fixture(params=["content", "time", "pieces"])
def web(request, tmp_path):
    """Serve the test's folder; the tags of one server tell seconds only."""
    in_pieces = request.param == "pieces"
    patch = let_tables_be_long() if in_pieces else pytest.MonkeyPatch()
    tags_by = "time" if request.param == "time" else "content"
    with served(tmp_path, tags_by=tags_by, in_pieces=in_pieces) as server:
        yield server
    patch.undo()


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


# -- reading ---------------------------------------------------------------------------------------


def test_one_request_for_each_file_opens(web, tmp_path, engine):
    with make(tmp_path / "a", attrs={"unit": "K"}) as a:
        a.freeze()
    for name in ("a", "a.xmd", "a.xta"):
        web.forget()
        with xa.open(web.url(name), engine=engine) as a:
            requests = asked(web)
            # The start, and what is left but for the table.
            assert requests.pop("xmd") == (2 if web.in_pieces else 1)
            assert requests == {"xta": 1, "xtz": 1}
            assert a.attrs["unit"] == "K"
            np.testing.assert_array_equal(a[...], X)
            requests = asked(web)
            # Pieces of the table, and then once more the rest.
            assert requests.pop("xmd", 0) == (3 if web.in_pieces else 0)
            assert requests == {"xtz": 1}
            assert not a.refresh()
            np.testing.assert_array_equal(a[...], X)
            assert "xtz" not in asked(web)


def test_freezes_thaws_and_growth_are_followed(web, tmp_path, engine):
    with make(tmp_path / "a") as writer, xa.open(web.url("a"), engine=engine) as a:
        np.testing.assert_array_equal(a[...], X)
        writer.freeze()
        np.testing.assert_array_equal(a[...], X)
        writer.flush()  # makes holes
        np.testing.assert_array_equal(a[...], X)
        a.refresh()
        asked(web)
        np.testing.assert_array_equal(a[...], X)
        writer[40, 50:60] = -1
        writer.append(X[:10] + 5)
        x = np.vstack([X, X[:10] + 5])
        x[40, 50:60] = -1
        assert a.refresh()
        np.testing.assert_array_equal(a[...], x)
        writer.freeze()
        writer.flush()
        writer.extend(1, 3, "start")
        assert a.refresh()
        np.testing.assert_array_equal(a[:, 3:], x)
        np.testing.assert_array_equal(a[:, :3], 0)
        writer.thaw()
        a.refresh()
        np.testing.assert_array_equal(a[:, 3:], x)


def test_chunks_that_are_not_read_yet_may_freeze_thaw_and_be_overwritten(web, tmp_path):
    with make(tmp_path / "a") as writer:
        for step in range(8):
            with xa.open(web.url("a")) as a:
                np.testing.assert_array_equal(a[:32, :32], X[:32, :32])
                writer.freeze()
                if step % 2:
                    writer.flush()
                np.testing.assert_array_equal(a[32:64], X[32:64])
                if step % 4 > 1:
                    writer.thaw()
                np.testing.assert_array_equal(a[...], X)
            writer.thaw()


def test_frozen_chunks_are_not_fetched_again(web, tmp_path, monkeypatch):
    monkeypatch.setattr("extarray.fetched.origins._SECONDS_OF_TAGS", 0)
    with make(tmp_path / "a") as writer:
        writer.freeze()
        writer.flush()
        with xa.open(web.url("a")) as a:
            np.testing.assert_array_equal(a[...], X)
            writer.append(X[:32])
            for value in range(limits.rewrites + 1):  # the last write thaws the chunk
                writer[0, 0] = value
            assert a.refresh()
            asked(web)
            found = a[...]
            assert "xtz" not in asked(web)
            np.testing.assert_array_equal(found[1:], np.vstack([X, X[:32]])[1:])
            assert found[0, 0] == limits.rewrites


def test_whole_chunks_written_to_the_log_show_after_refresh(web, tmp_path):
    with make(tmp_path / "a") as writer:
        writer.freeze()
        writer.flush()
        with xa.open(web.url("a")) as a:
            np.testing.assert_array_equal(a[...], X)
            table = writer._store.now.frozen
            address = writer.axial.address((1, 1))
            from extarray.codecs.payloads import encode

            chunk = np.full(CHUNKS, 8, "i4")
            blob = table.append([address], [encode(table.codec, memoryview(chunk).cast("B"), 4)])
            table.store_live([address], blob)
            a.refresh()
            x = X.copy()
            x[32:64, 32:64] = 8
            np.testing.assert_array_equal(a[...], x)


def test_logs_repacked_in_place_are_taken_up(web, tmp_path):
    """Words that lead to a chunk in the old log and in the new one may be the same."""
    x = X.copy()
    with make(tmp_path / "a", x) as writer:
        writer.freeze()
        writer.flush()
        with xa.open(web.url("a")) as a:
            np.testing.assert_array_equal(a[:32], x[:32])
            before = a._store.origin.look(np.arange(9))[1]
            x[:, :32] += 1
            writer[:, :32] = x[:, :32]
            writer.freeze()
            writer.flush()
            writer.repack()
            np.testing.assert_array_equal(a[32:], x[32:])
            a.refresh()
            assert (a._store.origin.look(np.arange(9))[1] == before).any()
            np.testing.assert_array_equal(a[...], x)


def test_other_codecs_are_taken_up(web, tmp_path):
    x = X.copy()
    with make(tmp_path / "a") as writer:
        writer.freeze()
        with xa.open(web.url("a")) as a:
            for codec in ("zlib:shuffle", None, "zlib"):
                writer.compression = codec
                x[:32] += 1
                writer[:32] = x[:32]
                if codec is not None:
                    writer.freeze()
                writer.flush()
                a.refresh()
                np.testing.assert_array_equal(a[...], x)


def test_chunks_of_the_fill_value_have_no_blob(web, tmp_path):
    x = X.copy()
    x[32:64] = 9
    with make(tmp_path / "a", x, fill_value=9) as a:
        a.freeze()
    with xa.open(web.url("a")) as a:
        np.testing.assert_array_equal(a[...], x)


def test_cut_elements_hold_the_fill_value_or_what_they_held(web, tmp_path):
    with make(tmp_path / "a", fill_value=-1) as writer:
        writer.freeze()
        writer.flush()
        with xa.open(web.url("a")) as a:
            np.testing.assert_array_equal(a[:8], X[:8])
            writer.shrink(0, 64)
            writer.flush()
            found = a[...]
            np.testing.assert_array_equal(found[:32], X[:32])
            assert ((found[32:] == -1) | (found[32:] == X[32:])).all()
            assert a.refresh()
            np.testing.assert_array_equal(a[...], X[:32])
            writer.extend(0, 20)
            assert a.refresh()
            np.testing.assert_array_equal(a[32:], np.full((20, 80), -1))


@pytest.mark.parametrize("chunk", [1, 3])
def test_a_new_axis_is_taken_up(web, tmp_path, chunk):
    x = X if chunk == 1 else X[:20, :20]
    with make(tmp_path / "a", x) as writer:
        writer.freeze()
        with xa.open(web.url("a")) as a:
            if chunk == 1:
                np.testing.assert_array_equal(a[:10], x[:10])
            writer.add_axis(chunk=chunk)
            writer.append(x[None] + 1)
            writer.freeze()
            writer.flush()
            if chunk == 1:
                np.testing.assert_array_equal(a[...], x)
            assert a.refresh()
            np.testing.assert_array_equal(a[...], np.stack([x, x + 1]))


def test_another_array_is_not_taken_up(web, tmp_path):
    with make(tmp_path / "a") as writer:
        writer.freeze()
    with xa.open(web.url("a")) as a:
        np.testing.assert_array_equal(a[:4], X[:4])
        with make(tmp_path / "a", X + 1, overwrite=True) as writer:
            writer.freeze()
        with pytest.raises(ReplacedError):
            a[40:]
        assert a.refresh(on_replaced="reopen")
        np.testing.assert_array_equal(a[...], X + 1)


def test_files_that_are_missing_or_foreign_are_told(web, tmp_path):
    for name in ("a", "b"):
        with make(tmp_path / name) as a:
            a.freeze()
    os.rename(tmp_path / "a.xtz", tmp_path / "kept")
    with pytest.raises(MissingError, match="file of frozen chunks is missing"):
        xa.open(web.url("a"))
    shutil.copy(tmp_path / "b.xtz", tmp_path / "a.xtz")
    with pytest.raises(PartnerError, match="another file of frozen chunks"):
        xa.open(web.url("a"))


def test_a_log_that_another_file_has_replaced_is_told(web, tmp_path):
    for name in ("a", "b"):
        with make(tmp_path / name) as a:
            a.freeze()
    with xa.open(web.url("a")) as a:
        shutil.copy(tmp_path / "b.xtz", tmp_path / "a.xtz")
        with pytest.raises(ChecksumError, match="blob of chunk"):
            a[...]
        os.unlink(tmp_path / "a.xtz")
        with pytest.raises(NotVisibleError, match="has no blob"):
            a[...]


def test_metadata_from_a_packed_file_are_refused(web, tmp_path):
    with make(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "a.xap", compression="zlib")
    from extarray.storage.names import Packed

    with Packed.find(tmp_path / "a.xap") as packed:
        _, metadata, _ = packed.open_pair(tmp_path / "a.xap", "never")
        (tmp_path / "b.xmd").write_bytes(metadata.read(metadata.length, 0))
    with pytest.raises(xa.errors.VersionError, match="comes from a packed file"):
        xa.open(web.url("b"))


# -- what users do with them ----------------------------------------------------------------------


def test_pickles_and_copies(web, tmp_path):
    with make(tmp_path / "a") as writer:
        writer.freeze()
        writer.append(X[:5])
        x = np.vstack([X, X[:5]])
        with xa.open(web.url("a")) as a:
            with pickle.loads(pickle.dumps(a)) as b:
                np.testing.assert_array_equal(b[...], x)
            with a.copy(tmp_path / "b") as b:
                np.testing.assert_array_equal(b[...], x)
            xa.pack(a, tmp_path / "p.xap", compression="zlib")
            with xa.open(tmp_path / "p.xap") as b:
                np.testing.assert_array_equal(b[...], x)


def test_copies_are_checked(web, tmp_path):
    with make(tmp_path / "a") as a:
        a.freeze()
        at = a._store.now.frozen.place_of_blob(a.axial.address((1, 2)))
    for data in (False, True):
        assert {p.severity for p in xa.check(web.url("a"), data=data).problems} <= {"note"}
    with open(tmp_path / "a.xtz", "r+b") as file:
        file.seek(at + 40)
        file.write(b"????")
    asked(web)
    assert xa.check(web.url("a"), data=False).ok
    assert all(request.sent < 1 << 16 for request in web.requests)
    (problem,) = xa.check(web.url("a"), data=True).problems
    assert problem.file == web.url("a.xtz")
    assert problem.boxes == ((slice(32, 64), slice(64, 80)),)
    os.unlink(tmp_path / "a.xtz")
    assert [p.kind for p in xa.check(web.url("a")).problems] == ["file"]


def test_little_memory(web, tmp_path):
    with make(tmp_path / "a") as a:
        a.freeze()
        a.append(X[:40])
    x = np.vstack([X, X[:40]])
    with xa.config.set(max_memory=8192, chunk_cache=8192), xa.open(web.url("a")) as a:
        np.testing.assert_array_equal(a[...], x)
        assert a.sum() == x.sum()


def test_chunks_stay_on_the_disk_while_nobody_writes(web, tmp_path):
    with make(tmp_path / "a") as a:
        a.freeze()
        a.append(X[:40])
    x = np.vstack([X, X[:40]])
    for n_requests in (True, False):
        with xa.open(web.url("a"), cache=tmp_path / "cache") as a:
            asked(web)
            np.testing.assert_array_equal(a[...], x)
            assert bool(asked(web)) == n_requests
    with xa.open(tmp_path / "a", "r+") as a:
        a[:32] = 3
        a.freeze()
    x[:32] = 3
    with xa.open(web.url("a"), cache=tmp_path / "cache") as a:
        np.testing.assert_array_equal(a[...], x)


def test_groups_with_an_index(web, tmp_path):
    with xa.open_group(tmp_path / "g", "w"):
        pass
    with make(tmp_path / "g" / "live") as a:
        a.freeze()
    xa.index_group(tmp_path / "g")
    with xa.open_group(web.url("g")) as g:
        assert list(g) == ["live"]
        np.testing.assert_array_equal(g["live"][...], X)


@pytest.mark.slow
def test_a_forked_child_reads_or_is_refused(tmp_path):
    with make(tmp_path / "a") as a:
        a.freeze()
    program = """
import os, sys, numpy as np, extarray as xa
a = xa.open(sys.argv[1])
x = np.load(sys.argv[2])
assert (a[:8] == x[:8]).all()
child = os.fork()
if not child:
    status = 1
    try:
        status = int(not (a[:40] == x[:40]).all())
    except xa.ExtArrayError as error:  # without fsspec
        status = int("forked" not in str(error))
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
assert (a[...] == x).all()
"""
    np.save(tmp_path / "x.npy", X)
    with served(tmp_path) as web:
        subprocess.run(
            [sys.executable, "-c", program, web.url("a"), tmp_path / "x.npy"],
            check=True,
            timeout=60,
        )


# -- blobs that are late, damaged or lost ----------------------------------------------------------


class _Late(Files):
    """A folder whose server shows an older ``.xtz`` a few times."""

    older, left = b"", 0

    def __getitem__(self, name):
        if name.endswith(".xtz") and self.left:
            self.left -= 1
            return self.older
        return super().__getitem__(name)


@pytest.mark.parametrize("tail", [b"", bytes(1 << 16)])
def test_blobs_that_come_late_are_awaited(tmp_path, tail):
    with make(tmp_path / "a") as writer, served(tmp_path) as web:
        web.objects = files = _Late(tmp_path)
        with xa.open(web.url("a")) as a:
            files.older = (tmp_path / "a.xtz").read_bytes() + tail
            writer.freeze()
            writer.flush()
            a.refresh()
            files.left = 3
            np.testing.assert_array_equal(a[...], X)
            assert not files.left


def test_blobs_that_do_not_come_are_told(tmp_path):
    with make(tmp_path / "a") as writer, served(tmp_path) as web:
        web.objects = files = _Late(tmp_path)
        with xa.open(web.url("a")) as a:
            files.older, files.left = (tmp_path / "a.xtz").read_bytes(), 1 << 30
            writer.freeze()
            writer.flush()
            with pytest.raises(NotVisibleError, match=r"upload \.xtz before \.xmd"):
                a[...]
            files.left = 0
            np.testing.assert_array_equal(a[...], X)


def test_damaged_blobs_are_named_with_their_elements(web, tmp_path):
    with make(tmp_path / "a") as a:
        a.freeze()
        address = a.axial.address((1, 2))
        at = a._store.now.frozen.place_of_blob(address)
    with open(tmp_path / "a.xtz", "r+b") as file:
        file.seek(at + 40)
        file.write(b"????")
    for verify in ("read", "never"):
        with xa.open(web.url("a"), verify=verify) as a:
            np.testing.assert_array_equal(a[:32], X[:32])
            with pytest.raises(ChecksumError, match=r"chunk .* \[32:64, 64:80\]") as caught:
                a[...]
            assert caught.value.chunk == address


def _after_a_power_cut(folder, name, writer, lost):
    """Copy the files of an open array as a power cut may leave them: some blobs are lost."""
    table = writer._store.now.frozen
    for suffix in FILES:
        shutil.copy(f"{folder / 'a'}{suffix}", f"{folder / name}{suffix}")
    for address in lost:
        with open(f"{folder / name}.xtz", "r+b") as file:
            file.seek(table.place_of_blob(address))
            file.write(bytes(100))


def test_a_lost_blob_gives_way_to_the_last_flush(tmp_path):
    with make(tmp_path / "a") as writer, served(tmp_path) as web:
        writer.freeze()
        writer.flush()
        lost = [writer.axial.address(index) for index in [(1, 1), (2, 0)]]
        x = X.copy()
        x[0, 0] = x[33, 33] = x[65, 0] = 7
        writer[0, 0] = writer[33, 33] = writer[65, 0] = 7
        writer.freeze()
        writer._store.now.frozen.seal()
        _after_a_power_cut(tmp_path, "cut", writer, lost)
        x[33, 33], x[65, 0] = X[33, 33], X[65, 0]
        with xa.open(web.url("cut")) as a:
            with pytest.warns(RecoveryWarning, match="as of the last flush"):
                np.testing.assert_array_equal(a[...], x)
            web.forget()
            a.refresh()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                np.testing.assert_array_equal(a[...], x)


def test_a_lost_blob_gives_way_to_raw_elements(tmp_path):
    with make(tmp_path / "a") as writer, served(tmp_path) as web:
        writer.flush()
        writer.freeze()
        _after_a_power_cut(tmp_path, "cut", writer, range(9))
        with xa.open(web.url("cut")) as a, pytest.warns(RecoveryWarning):
            np.testing.assert_array_equal(a[...], X)


# -- a writer at work ------------------------------------------------------------------------------


WRITER = """
import os, sys, time
import numpy as np
import extarray as xa
path, seed, stop, seen = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
rng = np.random.default_rng(seed)
chunks = (8, 8, 8)
def truth(low, high):
    i, j, k = np.ogrid[tuple(map(slice, low, high))]
    return (i * 3 + j * 5 + k * 7 + 1).astype("f8")
high = [16, 16, 16]
freeze = "behind" if seed % 2 else "never"
a = xa.create(path, high, "f8", chunks=chunks, compression="zlib", freeze=freeze)
a[...] = truth((0, 0, 0), high)
whole = truth((0, 0, 0), high)
print("ready", flush=True)
end = time.monotonic() + 240  # unless it is told to stop
n = grown = 0
while not os.path.exists(stop) and time.monotonic() < end:
    n += 1
    step = rng.integers(0, 8)
    if step < 2:
        # Readers may be so slow that all growth would be over before they look.
        if max(high) < 90 and grown < 8 * os.path.getsize(seen):
            grown += 1
            axis, by = int(rng.integers(0, 3)), int(rng.integers(1, 4))
            start = [0, 0, 0]
            start[axis] = high[axis]
            high[axis] += by
            new = truth(start, high)
            a.append(new, axis=axis)
            whole = np.concatenate([whole, new], axis)
    elif step < 4:
        low = [int(rng.integers(0, s)) for s in whole.shape]
        box = tuple(slice(i, i + int(rng.integers(1, 12))) for i in low)
        whole[box] += 1024 * 1024
        a[box] = whole[box]
    elif step == 4:
        a.thaw()
    elif step < 7:
        a.freeze()
        a.flush()
    else:
        a.flush()
a.close()
np.save(path + ".npy", whole)
print("end", n, flush=True)
"""


def base(low, high):
    i, j, k = np.ogrid[tuple(map(slice, low, high))]
    return (i * 3 + j * 5 + k * 7 + 1).astype("f8")


@pytest.mark.slow
@pytest.mark.parametrize("tags_by", ["content", "time"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("in_pieces", [False, True])
def test_states_are_whole(tmp_path, tags_by, seed, in_pieces):
    """A writer grows, overwrites, freezes, thaws and makes holes meanwhile, in another process."""
    patch = let_tables_be_long() if in_pieces else pytest.MonkeyPatch()
    try:
        read_beside_a_writer(tmp_path, tags_by, seed, 2.0)
    finally:
        patch.undo()


def read_beside_a_writer(tmp_path, tags_by, seed, seconds):
    """Read at least so long, and until enough was seen, however slow the machine."""
    stop, seen = tmp_path / "stop", tmp_path / "seen"
    seen.touch()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path / "a", str(seed), stop, seen],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout.readline() == "ready\n"

    def tell():
        with open(seen, "ab") as file:
            file.write(b".")

    def read(a, seed):
        rng = np.random.default_rng(seed)
        known = np.zeros((200, 200, 200), "f4")  # how often elements were overwritten, at least
        while writer.poll() is None:
            if rng.random() < 0.5:
                states.append(a.refresh())
                if states[-1]:
                    tell()
            for _ in range(3):
                low = [int(rng.integers(0, n)) for n in a.shape]
                high = [
                    min(n, i + int(rng.integers(1, 20))) for i, n in zip(low, a.shape, strict=True)
                ]
                box = tuple(map(slice, low, high))
                times, rest = np.divmod(a[box] - base(low, high), 1 << 20)
                assert not rest.any()
                assert (times >= 0).all()
                boxes.append(box)
            if seed == 1:  # alone
                a.refresh()
                times = (a[box] - base(low, high)) / (1 << 20)
                assert (times >= known[box]).all()
                known[box] = times

    states, boxes = [], []
    with served(tmp_path, tags_by=tags_by) as web, ThreadPoolExecutor(3) as pool:
        try:
            with xa.open(web.url("a")) as a, xa.open(web.url("a")) as b:
                tell()
                jobs = [pool.submit(read, a, 1), *(pool.submit(read, b, n) for n in (2, 3))]
                end = time.monotonic() + seconds
                while time.monotonic() < end or sum(states) <= 3 or len(boxes) <= 20:
                    if any(job.done() for job in jobs):
                        break
                    time.sleep(0.02)
                stop.touch()
                for job in jobs:
                    job.result()
                assert sum(states) > 3 and len(boxes) > 20
                for each in (a, b):
                    each.refresh()
                    np.testing.assert_array_equal(each[...], np.load(tmp_path / "a.npy"))
        finally:
            writer.kill()
            writer.communicate()
