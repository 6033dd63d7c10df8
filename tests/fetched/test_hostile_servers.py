"""Servers that send anything: an error of the family, or elements, in bounded time and memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import needs_obstore
from web_server import WebServer

import extarray as xa
from extarray.errors import ExtArrayError, ResultError

pytestmark = needs_obstore

X = np.arange(3000.0).reshape(10, 20, 15)


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    with xa.create(folder / "a", (2, 20, 15), chunks=(4, 8, 8), checksum=True) as a:
        a[...] = X[:2]
        a.append(X[2:])
        a.attrs["unit"] = "K"
        xa.pack(a, folder / "a.xap")
        xa.pack(a, folder / "b.xap", order="hilbert")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def looked_at(url):
    """Open and read what a URL leads to; return it, or None if it was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with xa.open(url, storage_options={"retries": 0}) as a:
                a.info()
                a.refresh()
                if a.nbytes < 1 << 24:
                    return a[...]
        except ExtArrayError:
            return None


CHANGES = st.lists(
    st.tuples(st.integers(0, 1 << 30), st.binary(min_size=1, max_size=9)), max_size=4
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.xap", "b.xap", "a.xmd", "a.xta"])
@given(CHANGES, st.integers(0, 200))
def test_changed_bytes(objects, name, changes, cut):
    content = bytearray(objects[name])
    for place, junk in changes:
        # Mostly in the metadata, at the end of packed files.
        at = -1 - place % min(len(content), 1 << 14) if place % 3 else place % len(content)
        at %= len(content)
        content[at : at + len(junk)] = junk[: len(content) - at]
    if cut < 20:
        del content[len(content) - cut * 97 :]
    with WebServer({**objects, name: bytes(content)}) as web:
        found = looked_at(web.url(name))
        if found is not None and name != "a.xap" and found.shape == X.shape:
            assert found.dtype != X.dtype or found.size == X.size


@pytest.mark.parametrize("name", ["a.xap", "a"])
@pytest.mark.parametrize("size", [1 << 40, (1 << 63) - 1])
def test_sizes_that_cannot_be(objects, name, size):
    """A server that claims to have more than there is memory."""
    with WebServer(dict(objects)) as web:
        for _ in range(4):
            web.fail("content_range", f"bytes 0-100/{size}")
        assert looked_at(web.url(name)) is None


def test_metadata_larger_than_memory(objects):
    with (
        WebServer({**objects, "a.xmd": objects["a.xmd"] + bytes(1 << 17)}) as web,
        xa.config.set(max_result=1 << 16),
        pytest.raises(ResultError, match="max_result"),
    ):
        xa.open(web.url("a"))


def test_objects_that_are_something_else(objects):
    page = b"<html>Sign in first</html>"
    for content in (b"", page, page * 9000, bytes(1 << 17)):
        names = ("a.xap", "a.xmd", "a.xta", "a", "g/extarray-index.json")
        with WebServer(dict.fromkeys(names, content)) as web:
            for name in ("a.xap", "a"):
                assert looked_at(web.url(name)) is None
            with pytest.raises(ExtArrayError):
                xa.open_group(web.url("g"))
