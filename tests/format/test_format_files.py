"""Every release opens, checks and extends files of each version of the format."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import blob_reader
import format_files
import format_reader
import numpy as np
import pytest
from format_files import DATA, EXAMPLES, GROUP, UNSEALED

import extarray as xa
from extarray.format.header import BLOBS_VERSION, VERSION

ROOT = Path(__file__).parents[2]
ARCHIVES = sorted(DATA.glob("format-*.zip"))


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.stem)
def stored(request, tmp_path_factory):
    """The unpacked files of a version; do not change them."""
    folder = tmp_path_factory.mktemp("stored")
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(folder)
    return folder


def names(archive):
    with zipfile.ZipFile(archive) as found:
        return {n.removesuffix(".xmd") for n in found.namelist() if n.endswith(".xmd")}


def same(found, expected):
    found = np.asarray(found)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def whole(path, **how):
    """Tell whether `check` finds only notes."""
    return {problem.severity for problem in xa.check(path, **how).problems} <= {"note"}


def attrs_of(array):
    """Return the attributes without the names of the axes."""
    return {key: value for key, value in array.attrs.items() if key != "dims"}


def test_the_version_that_is_written_has_files():
    """A version released without files could never be tested again."""
    pages = (ROOT / "docs" / "format" / "index.md").read_text()
    version = re.search(r"specify format (\d+\.\d+)", pages)[1]
    assert version == f"{VERSION[0]}.{VERSION[1]}"
    promised = (ROOT / "docs" / "stability.md").read_text()
    assert version in re.findall(r"(?m)^\| \d\S* \| (\S+) \|", promised)
    assert ARCHIVES[-1].stem == f"format-{version}"
    assert set(EXAMPLES) | {f"group/{n}" for n in GROUP} | {"unsealed"} == names(ARCHIVES[-1])


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_an_array_is_what_it_was(stored, name, engine):
    if not (stored / f"{name}.xmd").exists():
        pytest.skip("this version has no such array")
    example = EXAMPLES[name]
    with xa.open(stored / name, engine=engine) as a:
        same(a[...], example.values)
        assert attrs_of(a) == example.attrs
        assert a.dims == example.dims
        if a.ndim and a.size:
            last = tuple(n - 1 for n in a.shape)
            assert a[last] == example.values[last] or example.values[last] != example.values[last]
    assert whole(stored / name, data=True)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_pages_tell_the_same(stored, name):
    if not (stored / f"{name}.xmd").exists():
        pytest.skip("this version has no such array")
    same(format_reader.read(stored / name)[0], EXAMPLES[name].values)


@pytest.mark.parametrize("name", [n for n in EXAMPLES if EXAMPLES[n].values.ndim])
def test_an_array_grows_on(stored, name, tmp_path):
    if not (stored / f"{name}.xmd").exists():
        pytest.skip("this version has no such array")
    for suffix in (".xmd", ".xta"):
        shutil.copyfile(stored / f"{name}{suffix}", tmp_path / f"a{suffix}")
    values = EXAMPLES[name].values
    more = np.concatenate([values[:1], values, values[-1:]], dtype=values.dtype)
    with xa.open(tmp_path / "a", "r+") as a:
        a.append(values[-1:])
        a.append(values[:1], side="start")
        a.attrs["since"] = 1
    with xa.open(tmp_path / "a") as a:
        same(a[...], more)
        assert attrs_of(a) == {**EXAMPLES[name].attrs, "since": 1}
    same(format_reader.read(tmp_path / "a")[0], more)
    assert whole(tmp_path / "a", data=True)


@pytest.mark.parametrize("name", ["group", "packed.xap"])
def test_a_group_is_what_it_was(stored, name):
    with xa.open_group(stored / name) as g:
        assert dict(g.attrs) == {"title": "two arrays"}
        for key, values in GROUP.items():
            same(g[key][...], values)
            assert g[key].dims[0] == "time"


@pytest.mark.parametrize("order", format_files.BLOBS)
@pytest.mark.parametrize("archive", sorted(DATA.glob("blobs-*.zip")), ids=lambda path: path.stem)
def test_an_array_in_another_order_is_what_it_was(archive, order, tmp_path):
    with zipfile.ZipFile(archive) as found:
        path = found.extract(f"{order}.xap", tmp_path)
    example = EXAMPLES["grown"]
    for engine in ("mmap", "pread"):
        with xa.open(path, engine=engine) as a:
            same(a[...], example.values)
            assert attrs_of(a) == example.attrs
    same(blob_reader.read_packed(Path(path).read_bytes())[0], example.values)
    assert whole(path, data=True)
    xa.unpack(path, tmp_path / "b")
    with xa.open(tmp_path / "b", "r+") as a:
        a.append(example.values[:1])
        same(a[...], np.concatenate([example.values, example.values[:1]]))


@pytest.mark.parametrize("codec", format_files.CODECS)
@pytest.mark.parametrize("archive", sorted(DATA.glob("codecs-*.zip")), ids=lambda path: path.stem)
def test_a_compressed_array_is_what_it_was(archive, codec, tmp_path):
    with zipfile.ZipFile(archive) as found:
        path = found.extract(f"{codec.replace(':', '-')}.xap", tmp_path)
    for engine in ("mmap", "pread"):
        with xa.open(path, engine=engine) as a:
            same(a[...], format_files.COMPRESSED)
            assert a.info()["compression"] == codec
    if "bit" not in codec:  # the reader goes bit by bit
        same(blob_reader.read_packed(Path(path).read_bytes())[0], format_files.COMPRESSED)
    assert whole(path, data=True)
    xa.unpack(path, tmp_path / "b")
    with xa.open(tmp_path / "b", "r+") as a:
        a.append(format_files.COMPRESSED[:1])
        same(a[:600], format_files.COMPRESSED)


def test_an_array_whose_writer_died(stored, tmp_path):
    for suffix in (".xmd", ".xta"):
        shutil.copyfile(stored / f"unsealed{suffix}", tmp_path / f"a{suffix}")
    with xa.open(tmp_path / "a") as a:
        same(a[...], UNSEALED)
    with xa.open(tmp_path / "a", "r+") as a:
        a.append(UNSEALED)
        same(a[...], np.concatenate([UNSEALED, UNSEALED]))
    assert whole(tmp_path / "a")


def test_what_was_released_is_left_alone(capsys):
    assert ARCHIVES[-1].stem == f"format-{VERSION[0]}.{VERSION[1]}"
    archives = [*ARCHIVES, *sorted(DATA.glob("blobs-*.zip"))]
    assert archives[-1].stem == f"blobs-{BLOBS_VERSION[0]}.{BLOBS_VERSION[1]}"
    archives += sorted(DATA.glob("codecs-*.zip"))
    assert archives[-1].stem == f"codecs-{BLOBS_VERSION[0]}.{BLOBS_VERSION[1]}"
    before = [p.read_bytes() for p in archives]
    assert "never change" in format_files.main()
    assert [p.read_bytes() for p in archives] == before
