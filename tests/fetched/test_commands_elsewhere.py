"""Commands whose path is a URL, and checks of what lies there."""

from __future__ import annotations

import json
import os
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from served import needs_obstore, served

import extarray as xa
from extarray import cli
from extarray.errors import AccessError, MissingError, ReadOnlyError

pytestmark = [needs_obstore]

X = np.arange(60.0).reshape(3, 4, 5)


@pytest.fixture
def run(capsys):
    """Return a function that runs a command here; it returns the status and the output."""
    pytest.importorskip("click")

    def run(*words):
        status = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def done(run):
    """Return a function that runs a command, which must succeed; it returns the output."""

    def done(*words):
        found = run(*words)
        assert (found.status, found.err) == (0, "")
        return found.out

    return done


@pytest.fixture
def folder(tmp_path):
    with xa.from_array(X, tmp_path / "a", 2, dims=["t", "y", "x"], checksum=True) as a:
        xa.pack(a, tmp_path / "a.xap")
    with xa.open_group(tmp_path / "g", "w") as g:
        g["u"] = X
        g["below/v"] = X[0]
        xa.pack(g, tmp_path / "g.xap")
    return tmp_path


@pytest.fixture
def web(folder):
    with served(folder) as server:
        yield server


@pytest.mark.parametrize("name", ["a", "a.xap"])
def test_commands_that_look(web, done, name):
    url = web.url(name)
    facts = json.loads(done("info", url, "--json"))
    assert facts["shape"] == [3, 4, 5]
    assert facts["requests"] > 0
    assert "requests" in done("info", url)
    assert json.loads(done("show", url, "[1, 2]", "--json")) == X[1, 2].tolist()
    assert "(3, 4, 5)" in done("dump", url) or "t = 3" in done("dump", url)
    assert json.loads(done("history", url, "--json"))
    assert "t=3" in done("ls", url)
    assert "t=3" in done("tree", url)


@pytest.mark.parametrize("name", ["g", "g.xap"])
def test_commands_that_list(web, done, folder, name):
    done("index", folder / "g")
    listed = json.loads(done("ls", web.url(name), "--json"))
    assert [(entry["name"], entry["kind"]) for entry in listed] == [
        ("below", "folder"),
        ("u", "array"),
    ]
    assert "v  " in done("tree", web.url(name))
    done("pack", web.url(name), folder / "again.xap")
    with xa.open_group(folder / "again.xap") as g:
        np.testing.assert_array_equal(g["below/v"], X[0])


def test_commands_that_copy(web, done, folder):
    done("copy", web.url("a.xap"), folder / "copy")
    done("export", web.url("g/u"), folder / "b.npy")
    np.testing.assert_array_equal(np.load(folder / "b.npy"), X)
    with xa.open(folder / "copy") as a:
        np.testing.assert_array_equal(a[...], X)
        assert a.dims == ("t", "y", "x")
    with xa.create(folder / "c", (0, 4, 5)) as a:
        pass
    done("append", folder / "c", web.url("a"))
    with xa.open(folder / "c") as a:
        np.testing.assert_array_equal(a[...], X)


def test_commands_that_draw(web, done, folder):
    pytest.importorskip("matplotlib")
    done("plot", web.url("a.xap"), "--output", folder / "picture.png")
    assert (folder / "picture.png").stat().st_size > 1000


def test_commands_that_write_say_so(web, run):
    for words in (
        ("extend", web.url("a"), "--axis", "t", "--by", 1),
        ("shrink", web.url("a"), "--axis", "t", "--by", 1),
        ("check", web.url("a"), "--repair"),
    ):
        found = run(*words)
        assert found.status != 0
        assert "can only be read" in found.err


def test_what_writes_elsewhere_says_so(web, folder):
    with xa.open(folder / "a") as a, xa.open_group(folder / "g") as g:
        for act in (
            lambda: xa.pack(a, web.url("b.xap")),
            lambda: xa.pack(g, web.url("b.xap")),
            lambda: xa.unpack(web.url("a.xap"), folder / "b"),
            lambda: xa.unpack(folder / "a.xap", web.url("b")),
            lambda: xa.index_group(web.url("g")),
            lambda: xa.create(web.url("b"), (3,)),
        ):
            with pytest.raises(ReadOnlyError):
                act()


@pytest.mark.parametrize("name", ["a", "a.xap", "g.xap", "g.xap/below/v"])
def test_checks(web, done, name):
    for data in (False, True):
        report = xa.check(web.url(name), data=data)
        assert report.ok, str(report)
        assert "extarray-check" not in str(report)
    assert "no errors" in done("check", web.url(name)) or done("check", web.url(name))


@pytest.fixture
def large(tmp_path):
    """Serve packed files whose chunks have 2 MiB; yield the server and the metadata's places."""
    x = np.arange(1 << 18, dtype="f8").reshape(64, -1)
    with xa.open_group(tmp_path / "g", "w") as g:
        for name in ("u", "below/v"):
            g.create(name, x.shape, chunks=(8, 4096), attrs={"n": 1})[...] = x
        g.attrs["title"] = "all"
        xa.pack(g, tmp_path / "g.xap")
        xa.pack(g["u"], tmp_path / "h.xap", order="hilbert")
        xa.pack(g["u"], tmp_path / "odd")
    with (
        zipfile.ZipFile(tmp_path / "g.xap") as old,
        zipfile.ZipFile(tmp_path / "zipped.xap", "w") as new,
    ):
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    with served(tmp_path) as web:
        yield web


@pytest.mark.parametrize(
    ("name", "most"),
    [("g.xap", 0), ("g.xap/u", 1), ("g.xap/below", 1), ("h.xap", 1), ("odd", 1), ("zipped.xap", 0)],
)
def test_a_check_brings_what_it_compares(large, tmp_path, name, most):
    report = xa.check(large.url(name))
    assert report.ok, str(report)
    assert large.sent < 1 << 18
    large.forget()
    report = xa.check(large.url(name), data=True)
    assert report.ok, str(report)
    if most:  # the chunks of one array, of those of two
        assert 1 << 21 < large.sent < (1 << 21) + (1 << 18)
    local, _, inner = name.partition("/")
    with zipfile.ZipFile(tmp_path / local) as file:
        asked = [i for i in file.infolist() if i.filename.startswith(inner)]
        metadata = next(i for i in asked if i.filename.endswith(".xmd"))
    with open(tmp_path / local, "r+b") as file:
        file.seek(metadata.header_offset + 200)  # in the header, or in the metadata
        file.seek(file.tell() + len(metadata.filename) + metadata.file_size // 2)
        file.write(b"oops")
    found = xa.check(large.url(name)).problems
    assert [p.kind for p in found] == [p.kind for p in xa.check(tmp_path / name).problems] != []
    assert found[0].file == large.url(local)


def test_checks_find_damage(web, folder, run):
    with open(folder / "a.xta", "r+b") as file:
        file.write(b"oops")
    assert xa.check(web.url("a")).ok
    report = xa.check(web.url("a"), data=True)
    assert not report.ok
    assert report.problems[0].kind == "chunk"
    assert report.problems[0].file == web.url("a.xta")
    assert str(report.path) == web.url("a")
    content = bytearray((folder / "a.xap").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "a.xap").write_bytes(content)
    found = run("check", web.url("a.xap"), "--data")
    assert found.status == 1
    assert web.url("a.xap") in found.out
    with pytest.raises(ReadOnlyError):
        xa.check(web.url("a"), repair=True)
    with pytest.raises(MissingError):
        xa.check(web.url("nothing"))
    os.unlink(folder / "a.xta")
    assert [p.kind for p in xa.check(web.url("a")).problems] == ["file"]


@pytest.mark.slow
def test_the_page_shows_what_is_elsewhere(web, folder):
    pytest.importorskip("tornado")
    from extarray.view.exhibits import Gallery

    xa.index_group(folder / "g")
    for name in ("g", "g.xap"):
        gallery = Gallery(web.url(name))
        assert gallery.names() == ["below/v", "u"]
        with gallery.exhibit("u") as exhibit:
            np.testing.assert_array_equal(exhibit.array, X)
        gallery.close()
    gallery = Gallery(web.url("a.xap"))
    assert gallery.tree()["arrays"][0]["shape"] == [3, 4, 5]
    gallery.close()


# -- a bucket that may not be listed ---------------------------------------------------------------


@pytest.fixture
def closed(folder):
    """Serve a folder like a bucket that denies access to what is missing."""
    with xa.open(folder / "a") as a:
        xa.pack(a, folder / "odd")
    xa.index_group(folder / "g")
    with served(folder, may_list=False) as server:
        yield server


def test_a_bucket_that_may_not_be_listed(closed, folder, run, done):
    for name in ("a", "a.xap", "odd", "g/u"):
        with xa.open(closed.url(name)) as a:
            np.testing.assert_array_equal(a[...], X)
        assert xa.check(closed.url(name)).ok
        done("export", closed.url(name), folder / f"{name.replace('/', '_')}.h5")
        assert "float64" in done("ls", closed.url(name))
    for name in ("g", "g.xap", "g/below"):
        with xa.open_group(closed.url(name)) as g:
            np.testing.assert_array_equal(g["v" if "below" in name else "below/v"], X[0])
        done("pack", closed.url(name), folder / f"{name.replace('/', '_')}_again.xap")
    for call in (xa.open, xa.open_group, xa.check):
        with pytest.raises(AccessError, match="may not be listed"):
            call(closed.url("nothing"))
    found = run("ls", closed.url("nothing"))
    assert found.status == 1
    assert "no access" in found.err


def test_datasets_in_a_bucket_that_may_not_be_listed(closed):
    xr = pytest.importorskip("xarray")
    for name, variable in (("a", "a"), ("g", "u"), ("g.xap", "u")):
        with xr.open_dataset(closed.url(name), engine="extarray") as ds:
            np.testing.assert_array_equal(ds[variable], X)


def test_a_list_of_a_damaged_array_says_so(web, folder, run):
    (folder / "a.xmd").write_bytes(b"oops")
    found = run("ls", web.url("a"))
    assert found.status == 1
    assert "a.xmd" in found.err
    assert "index" not in found.err


def test_an_empty_group_is_named_without_secrets(tmp_path):
    pytest.importorskip("tornado")
    from extarray.view.exhibits import Gallery

    with xa.open_group(tmp_path / "g", "w") as g:
        g.attrs["n"] = 1
        xa.pack(g, tmp_path / "g.xap")
    with served(tmp_path) as web, pytest.raises(MissingError) as error:
        Gallery(web.url("g.xap?signature=hidden"))
    assert "hidden" not in str(error.value)
