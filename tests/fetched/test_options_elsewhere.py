"""Each option of `open` and `open_group` works at a URL, or is refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from served import needs_obstore, served

import extarray as xa
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    ChecksumError,
    NotVisibleError,
    ReadOnlyError,
    RecoveryWarning,
    TruncatedError,
)

pytestmark = needs_obstore

X = np.arange(60.0).reshape(3, 4, 5)


@pytest.fixture
def web(tmp_path):
    with xa.from_array(X, tmp_path / "a", 2, checksum=True) as a:
        xa.pack(a, tmp_path / "a.xap")
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("u", X.shape, chunks=2, checksum=True)[...] = X
        xa.pack(g, tmp_path / "g.xap")
    xa.index_group(tmp_path / "g")
    with served(tmp_path) as server:
        yield server


def opened(url, **options):
    """Open an array, or the array of a group."""
    if "/g" in url:
        return xa.open_group(url, **options)["u"]
    return xa.open(url, **options)


NAMES = ["a", "a.xap", "g", "g.xap"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        {"engine": "mmap"},
        {"engine": "pread"},
        {"verify": "never"},
        {"verify": "read"},
        {"timeout": 0},
        {"durability": "commit"},  # without effect in mode "r", as for files
        {"storage_options": {"timeout": 3}},
    ],
)
def test_options_that_work(web, name, options):
    with opened(web.url(name), **options) as a:
        np.testing.assert_array_equal(a[...], X)
        if "engine" in options:
            assert a.info()["engine"] == options["engine"]


@pytest.mark.parametrize("name", ["a", "g"])
def test_verify_says_whether_chunks_are_compared(web, tmp_path, name):
    path = tmp_path / ("a.xta" if name == "a" else "g/u.xta")
    with open(path, "r+b") as file:
        file.write(b"oops")
    with opened(web.url(name), verify="never") as a:
        assert a[2, 3, 4] == X[2, 3, 4]
        a[0]
    for verify in ("write", "read", None):
        with opened(web.url(name), verify=verify) as a, pytest.raises(ChecksumError):
            a[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"timeout": 5}, ArgumentError, "storage_options="),
        ({"timeout": None}, ArgumentError, "storage_options="),
        ({"timeout": "x"}, ArgumentTypeError, "timeout"),
        ({"engine": "mpi-io"}, ArgumentError, "mpi-io"),
        ({"durability": "x"}, ArgumentError, "durability"),
        ({"verify": "x"}, ArgumentError, "verify"),
        ({"mode": "r+"}, ReadOnlyError, "can only be read"),
        ({"mode": "q"}, ArgumentError, "mode"),
        ({"cache": ""}, ArgumentError, "cache"),
        ({"cache": True}, ArgumentTypeError, "cache"),
        ({"storage_options": 3}, ArgumentTypeError, "storage_options"),
        ({"storage_options": {"nope": 1}}, ArgumentError, "nope"),
    ],
)
def test_options_that_are_refused(web, name, options, error, text):
    with pytest.raises(error, match=text):
        opened(web.url(name), **options)
    assert not web.requests


@pytest.mark.parametrize("mode", ["a", "w", "w-"])
def test_a_group_elsewhere_is_not_made(web, mode):
    with pytest.raises(ReadOnlyError, match="can only be read"):
        xa.open_group(web.url("new"), mode)


@pytest.mark.parametrize("name", ["a", "a.xap"])
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"share": True}, ArgumentError),
        ({"share": "elements"}, ArgumentError),
        ({"share": True, "mode": "r+"}, ReadOnlyError),
        ({"share": "elements", "mode": "r+"}, ReadOnlyError),
        ({"info": {}}, ArgumentError),
        ({"recover": 3}, ArgumentTypeError),
    ],
)
def test_options_of_writers_are_refused(web, name, options, error):
    with pytest.raises(error):
        xa.open(web.url(name), **options)


# -- recover ---------------------------------------------------------------------------------------


def test_data_that_end_early_are_given_up_if_that_is_asked_for(tmp_path):
    """The newest state needs data that did not reach the disk before the power failed."""
    with xa.create(tmp_path / "a", (2, 4), chunks=(1, 4)) as a:
        a[...] = 1
        a.flush()
    with xa.open(tmp_path / "a", "r+") as a:
        a.append(np.full((60, 4), 2.0))
        lost = (tmp_path / "a.xmd").read_bytes()
    (tmp_path / "a.xmd").write_bytes(lost)
    data = (tmp_path / "a.xta").read_bytes()
    (tmp_path / "a.xta").write_bytes(data[:64])
    with served(tmp_path) as web:
        for recover in (None, False):
            with pytest.raises(TruncatedError):
                xa.open(web.url("a"), recover=recover)
        with pytest.warns(RecoveryWarning, match="newest complete state"):
            a = xa.open(web.url("a"), recover=True)
        np.testing.assert_array_equal(a[...], np.ones((2, 4)))
        a.close()


def test_a_torn_commit_is_refused_if_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("extarray.fetched.pairs._PAUSE", 0)
    with xa.create(tmp_path / "a", (0, 4), chunks=(1, 4)) as a:
        a.append(np.ones((1, 4)))
        before = (tmp_path / "a.xmd").read_bytes()
        a.extend(1, 4)
        after = (tmp_path / "a.xmd").read_bytes()
        middle = a._store.now.header.directory_offset
        # The superblock is there, and the record of the growth is not.
        torn = after[:middle] + before[middle:].ljust(len(after) - middle, b"\0")
        data = (tmp_path / "a.xta").read_bytes()
    (tmp_path / "a.xmd").write_bytes(torn)
    (tmp_path / "a.xta").write_bytes(data)
    with served(tmp_path) as web:
        with xa.open(web.url("a")) as a:
            assert a.shape == (1, 4)
        with pytest.raises(NotVisibleError, match="recover=True"):
            xa.open(web.url("a"), recover=False)
