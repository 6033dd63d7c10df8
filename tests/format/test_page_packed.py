"""Packed files and groups: the package and a reader written from the pages accept the same."""

import contextlib
import json
import os
import subprocess
import zipfile
from shutil import which

import format_reader
import fuzz_packed
import fuzz_pairs
import numpy as np
import pytest
from dice import Dice
from fuzz_packed import TEXT, changed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import extarray as xa
from extarray.storage import names

pytestmark = pytest.mark.thread_unsafe  # examples write to the same file

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    found = fuzz_packed.images(tmp_path_factory.mktemp("images"))
    return lambda: found  # a function, so that Hypothesis does not print the bytes


def seen_by_the_pages(image):
    """Return the reader's arrays, groups, and the array packed alone, if any; None: refused."""
    try:
        packed = format_reader.parse_packed(image)
    except ValueError:
        return None
    arrays, groups = {}, {}
    for name in {**packed.groups, **packed.arrays}:
        parents = name.split("/")[:-1]
        if any("/".join(parents[: n + 1]) in packed.arrays for n in range(len(parents))):
            continue  # an array of the same name hides the group
        with contextlib.suppress(ValueError):
            if name in packed.arrays:
                arrays[name] = None
                values, attrs = format_reader.read_packed(packed.arrays[name])
                arrays[name] = values.dtype.str, values.tolist(), attrs
            else:
                groups[name] = None
                groups[name] = format_reader.parse_group_attrs(
                    packed.groups[name] and format_reader.compared(packed.groups[name])
                )
    return arrays, groups, packed.alone


def seen_by_the_package(path):
    try:
        group = xa.open_group(path)
    except (xa.FormatError, FileNotFoundError):
        return None
    arrays, groups, members = {}, {}, [""]
    while members:
        key = members.pop()
        inner = group[key] if key else group
        groups[key] = None
        with contextlib.suppress(xa.FormatError):
            groups[key] = dict(inner.attrs)
        members += [f"{key}/{name}".lstrip("/") for name, _ in inner.groups()]
        for name, kind in inner._session.place.entries(key):
            if kind == "array":
                name = f"{key}/{name}".lstrip("/")
                arrays[name] = None
                with contextlib.suppress(xa.FormatError), xa.open(path / name) as a:
                    arrays[name] = a.dtype.str, a[...].tolist(), dict(a.attrs)
    alone = None
    with contextlib.suppress(FileNotFoundError):
        with contextlib.suppress(xa.FormatError):
            xa.open(path).close()
        (alone,) = arrays
    return arrays, groups, alone


def check_both(path, image):
    path.write_bytes(image)
    expected, found = seen_by_the_pages(image), seen_by_the_package(path)
    assert found == expected
    return expected


def test_what_is_packed_is_seen_by_both(images, tmp_path):
    seen = [check_both(tmp_path / "p.xap", image) for image in images()]
    assert [None if each is None else sorted(each[0]) for each in seen] == [
        ["a"], ["a", "n/b"], ["a"], ["a", "n/b"], ["a"], [], ["n/b"], ["a", "n/b"], ["a", "n/b"],
        ["a"],
    ]  # fmt: skip
    assert [each[2] for each in seen] == ["a", None, "a", *[None] * 6, "a"]
    attrs = {"": {"title": "of all"}, "n": {}, "n/e": {}, "m": {"n": None}}
    assert seen[1][1] == seen[7][1] == attrs
    assert seen[6][1] == {"": {"a": 1}, "n": {}}
    assert all(each[0].get("a", 1) and each[0].get("n/b", 1) for each in seen)


@pytest.mark.slow
@given(data=st.binary(min_size=30, max_size=60))
@settings(QUICK, max_examples=400)
def test_the_reader_and_the_package_take_the_same_packed_files(images, tmp_path_factory, data):
    dice = Dice(data)
    path = tmp_path_factory.getbasetemp() / "changed.xap"
    check_both(path, changed(dice.pick(images()), dice))


# ---------------------------------------------------------------------------------------- sums


def bytes_of_members(image):
    """Return where the bytes of members are, by name."""
    members = format_reader.members_of(image)
    return {name: (image.index(data), len(data)) for name, (data, _) in members.items() if data}


@pytest.mark.parametrize("checksum", [False, True])
def test_damage_of_any_byte_of_a_member_is_seen(tmp_path, checksum):
    rng = np.random.default_rng(3)
    with xa.create(tmp_path / "a", (40, 30), "u1", chunks=(7, 8), checksum=checksum) as a:
        a[...] = rng.integers(0, 256, a.shape)
        a.extend(0, 5, "start")
        a.attrs["unit"] = "mm"
        xa.pack(a, tmp_path / "a.xap")
    image = (tmp_path / "a.xap").read_bytes()
    for name, (start, size) in bytes_of_members(image).items():
        for at in {*rng.integers(start, start + size, 60).tolist(), start, start + size - 1}:
            broken = bytearray(image)
            broken[at] ^= 1 << rng.integers(8)
            path = tmp_path / f"{at}.xap"
            path.write_bytes(broken)
            in_seal = name == "a.xta" and at >= start + size - 32
            seen = xa.PartnerError if in_seal and checksum else xa.CorruptError
            with pytest.raises(seen), xa.open(path, verify="read") as b:
                b[...]
            if name == "a.xmd":
                with pytest.raises(xa.CorruptError, match="'a.xmd' in it is damaged"):
                    xa.open(path)
            elif not in_seal:
                xa.open(path, verify="never").close()
            with pytest.raises(xa.CorruptError):
                xa.unpack(path, tmp_path / "b")
            path.unlink()


def test_never_compares_nothing(tmp_path):
    with xa.create(tmp_path / "a", 3, "u1", attrs={"unit": "mm"}) as a:
        xa.pack(a, tmp_path / "a.xap")
    image = bytearray((tmp_path / "a.xap").read_bytes())
    start, size = bytes_of_members(bytes(image))["a.xmd"]
    image[start + size - 40] ^= 1  # an unused byte
    (tmp_path / "a.xap").write_bytes(image)
    with pytest.raises(xa.CorruptError):
        xa.open(tmp_path / "a.xap")
    with xa.open(tmp_path / "a.xap", verify="never") as a:
        assert a.attrs["unit"] == "mm"


def test_a_member_is_compared_once(tmp_path, monkeypatch):
    xa.pack(xa.ones(3), tmp_path / "a.xap")
    read = []
    original = names.sum_of
    monkeypatch.setattr(names, "sum_of", lambda *args: read.append(args[1]) or original(*args))
    for verify in (None, "write", "read", "read", "never"):
        xa.open(tmp_path / "a.xap", verify=verify).close()
    assert len(read) == 2 and read[1] == 3 * 8 + 32
    xa.pack(xa.zeros(3), tmp_path / "a.xap", overwrite=True)
    xa.open(tmp_path / "a.xap").close()
    assert len(read) == 3


def test_a_table_of_sums_in_doubt_is_no_table(tmp_path):
    """With sums in doubt, the whole chunk file is compared."""
    with xa.create(tmp_path / "a", (3, 4), "<i4", chunks=(2, 2), checksum=True) as a:
        a[...] = 1
        with xa.open(tmp_path / "a") as reader:
            xa.pack(reader, tmp_path / "a.xap")
    image = bytearray((tmp_path / "a.xap").read_bytes())
    image[bytes_of_members(bytes(image))["a.xta"][0]] ^= 1
    (tmp_path / "a.xap").write_bytes(image)
    xa.open(tmp_path / "a.xap").close()
    with pytest.raises(xa.CorruptError, match="'a.xta' in it is damaged"):
        xa.open(tmp_path / "a.xap", verify="read")


def test_damaged_attributes_of_a_group(images, tmp_path):
    image = bytearray(images()[1])
    image[image.index(b"of all")] ^= 1
    (tmp_path / "g.xap").write_bytes(image)
    with xa.open_group(tmp_path / "g.xap") as g:
        assert g["a"].shape == (4, 7)
        with pytest.raises(xa.CorruptError, match="dataset.json"):
            dict(g.attrs)
    with pytest.raises(xa.CorruptError, match="dataset.json"):
        xa.unpack(tmp_path / "g.xap", tmp_path / "g")
    assert os.listdir(tmp_path) == ["g.xap"]


def test_a_packed_array_asks_no_other_array(tmp_path):
    """A state that is pending beside its coordinator does not count in a packed file."""
    xmd, xta = fuzz_pairs.seeds_together(tmp_path)[4]  # its writer died after the decision
    for suffix, content in ((".xmd", xmd), (".xta", xta)):
        (tmp_path / f"member{suffix}").write_bytes(content)
    with xa.open(tmp_path / "member") as member:
        assert member.shape == (6, 4)
    image = fuzz_packed.zipped([("member.xmd", xmd), ("member.xta", xta)])
    assert check_both(tmp_path / "p.xap", image)[0] == {"member": None}  # no other state is left


# ----------------------------------------------------------------------- members that others add


@pytest.mark.parametrize("program", ["zip", "zipfile"])
def test_a_readme_does_no_harm(tmp_path, program):
    if program == "zip" and which("zip") is None:
        pytest.skip("there is no zip")
    (tmp_path / "README").write_bytes(TEXT)
    with xa.open_group(tmp_path / "g", "w") as g:
        g["x"], g["n/y"] = [1, 2], [3]
        xa.pack(g["x"], tmp_path / "x.xap")
        xa.pack(g, tmp_path / "g.xap")
    for name in ("x.xap", "g.xap"):
        if program == "zip":
            subprocess.run(["zip", "-q", name, "README"], cwd=tmp_path, check=True)
        else:
            with zipfile.ZipFile(tmp_path / name, "a") as file:
                file.writestr("README", TEXT, zipfile.ZIP_DEFLATED)
                file.writestr("docs/README", b"stored")
        with zipfile.ZipFile(tmp_path / name) as file:
            assert file.read("README") == TEXT
        assert xa.check(tmp_path / name, data=True).ok
    with xa.open(tmp_path / "x.xap", engine="mmap") as x:
        assert x[...].tolist() == [1, 2]
    with xa.open_group(tmp_path / "g.xap") as g:
        assert [name for name, _ in g.walk()] == ["n", "n/y", "x"]
        assert g["n/y"][...].tolist() == [3]
    xa.unpack(tmp_path / "x.xap", tmp_path / "x")
    xa.unpack(tmp_path / "g.xap", tmp_path / "h")
    assert sorted(os.listdir(tmp_path / "h")) == ["dataset.json", "n", "x.xmd", "x.xta"]
    with xa.open(tmp_path / "x") as x:
        assert x[...].tolist() == [1, 2]


# --------------------------------------------------------------------------------------- folders

PARTS = ["a", "b", "ö", "c.xmd", "d.xta", "dataset.json", "back\\slash", ".xmd", "README"]
PARTS += ["e.0123456789ab.new", "e.0123456789AB.new", ".0123456789ab.new", "new\nline.new"]


def pages_of_folder(folder):
    """Return what the reader sees of a folder and below."""
    arrays, groups = format_reader.members_in(folder)
    try:
        attrs = format_reader.read_group_attrs(folder)
    except (ValueError, IsADirectoryError):
        attrs = None
    found = {"": attrs}
    for name in arrays:
        found[name] = dims = None
        with contextlib.suppress(ValueError, OSError):
            header, state, _ = format_reader.opened(folder / name)
            dims = format_reader.dims_of(state.attrs, len(header.chunk))
            found[name] = dims, tuple(state.bounds), format_reader.origin_of(header, state)
    return found | {
        f"{name}/{key}".rstrip("/"): value
        for name in groups
        for key, value in pages_of_folder(folder / name).items()
    }


def package_of_folder(group):
    try:
        found = {"": dict(group.attrs)}
    except (xa.FormatError, xa.StorageError):
        found = {"": None}
    for name, kind in group._session.place.entries(group.name[1:]):
        if kind == "group":
            inner = package_of_folder(group[name])
            found |= {f"{name}/{key}".rstrip("/"): value for key, value in inner.items()}
            continue
        found[name] = None
        with contextlib.suppress(xa.FormatError, OSError):
            a = group[name]
            found[name] = a.dims, a.shape, a.origin
    return found


DIMS = [["y", "x"], ("y", "x"), ["y"], ["y", "y"], "yx", {"y": 1, "x": 2}, [1, 2], None, ["", "ä"]]


@pytest.mark.slow
@given(data=st.data())
@settings(QUICK, max_examples=60)
def test_a_folder_is_the_group_of_the_page(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("folder")
    folders = [root]
    for _ in range(data.draw(st.integers(0, 10))):
        folder = data.draw(st.sampled_from(folders))
        path = folder / data.draw(st.sampled_from(PARTS))
        if os.path.lexists(path):
            continue
        kind = data.draw(st.sampled_from(["array", "array", "folder", "file", "attrs", "link"]))
        if kind == "array":
            path = folder / data.draw(st.sampled_from(["a", "b", "c.d", "ö"]))
            with contextlib.suppress(xa.ExtArrayError, OSError), xa.create(path, (2, 3), "u1") as a:
                a.attrs["dims"] = data.draw(st.sampled_from(DIMS))
                a.extend(0, data.draw(st.integers(0, 3)), "start")
        elif kind == "folder":
            path.mkdir()
            folders.append(path)
        elif kind == "file":
            path.write_bytes(b"text")
        elif kind == "link":
            path.symlink_to(data.draw(st.sampled_from(folders)), True)
        else:
            bom = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe"]))
            content = data.draw(st.sampled_from([
                {"attrs": {"n": [1, {"$type": "tuple", "items": []}]}}, {"attrs": []}, {}, [],
                {"attrs": {"x": float("nan")}}, {"attrs": {}, "b": float("nan")},
                {"attrs": {"x": "\ud800"}},
            ]))  # fmt: skip
            with contextlib.suppress(OSError):
                (folder / "dataset.json").write_bytes(bom + json.dumps(content).encode())
    with xa.open_group(root) as group:
        assert package_of_folder(group) == pages_of_folder(root)
