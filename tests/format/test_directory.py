"""Optional blocks of ``.xmd``: created on first use, and found by the directory."""

from __future__ import annotations

import os
from pathlib import Path

import places
import pytest
from fuzz_pairs import MEMBERS as MEMBERS_OF_IMAGE
from fuzz_pairs import WRITERS as WRITERS_OF_IMAGE
from fuzz_pairs import Image

import extarray as xa
from extarray.format.groups import decode_members
from extarray.storage.group_member import GroupShare

GROUP, WRITERS = 0, 1
LENGTHS = [3 * 4096, 4096]


def metadata(path):
    return Path(f"{path}.xmd")


def block_of(path, number):
    """Return the offset and bytes of a block, which must exist."""
    xmd = metadata(path).read_bytes()
    at = places.optional_block(xmd, number)
    assert at
    return at, xmd[at : at + LENGTHS[number]]


def together(folder):
    """Make two arrays that have changed together; the first lists the others."""
    paths = [folder / name for name in "ab"]
    with xa.create(paths[0], (1,), chunks=1) as a, xa.create(paths[1], (1,), chunks=1) as b:
        before = [metadata(path).read_bytes() for path in paths]
        with xa.commit([a, b]):
            a.extend(0, 1)
            b.extend(0, 1)
    return paths, before


def use(path, number):
    """Make an array use a block, and close it."""
    if number == WRITERS:
        xa.open(path, "r+", share=True).close()
    else:
        beside = xa.create(path.with_name("beside"), (1,), overwrite=True)
        with xa.open(path, "r+") as array, beside, xa.commit([array, beside]):
            array.attrs["n"] = beside.attrs["n"] = 1


@pytest.mark.parametrize("number", [GROUP, WRITERS])
def test_blocks_come_with_their_first_use(path, number):
    with xa.create(path, (2, 3), chunks=1, checksum=number == GROUP) as array:
        for n in range(5):
            array.attrs["n"] = n
        array.flush()
        with xa.commit([array]):
            array.extend(0, 1)
    before = metadata(path).stat().st_size
    assert not any(metadata(path).read_bytes()[places.DIRECTORY :][:1024])
    use(path, number)
    at, _ = block_of(path, number)
    assert at >= before
    for _ in range(2):  # the second use finds the block
        use(path, number)
        assert block_of(path, number)[0] == at
    assert xa.check(path).ok


def test_a_block_stays_where_it_is_in_older_states(tmp_path):
    """After a power cut, the state that counts may be older than the block."""
    paths, before = together(tmp_path)
    for path, old in zip(paths, before, strict=True):
        xmd = metadata(path).read_bytes()
        at, block = block_of(path, GROUP)
        changed = old[: places.DIRECTORY] + xmd[places.DIRECTORY : places.COPY]
        metadata(path).write_bytes(changed + xmd[places.COPY :])
        with xa.open(path, "r+") as array:
            assert array.shape == (1,)
            for n in range(3):
                array.attrs["text"] = f"{n}" * 5000
            array.extend(0, 3)
        members = block_of(path, GROUP)[1][:4096]
        assert (places.optional_block(metadata(path).read_bytes(), GROUP), members) == (
            at,
            block[:4096],
        )
        assert xa.check(path).ok
    assert len(decode_members(block_of(paths[0], GROUP)[1][:4096])) == 1


def test_space_of_a_commit_that_was_taken_back_is_not_that_of_a_block(tmp_path, monkeypatch):
    """The array returns to a state older than the block; the block stays in place."""
    paths = [tmp_path / name for name in "ab"]
    with xa.create(paths[0], (1,), chunks=1) as a, xa.create(paths[1], (1,), chunks=1) as b:
        prepare = GroupShare.prepare

        def fail(*args):
            prepare(*args)
            raise OSError(5, "no")

        with monkeypatch.context() as patch:
            patch.setattr(GroupShare, "prepare", fail)
            with pytest.raises(OSError, match="no"), xa.commit([a, b]):  # noqa: PT012
                a.extend(0, 1)
                b.attrs["text"] = "x" * 5000
        for array in (a, b):
            at, _ = block_of(array.path, GROUP)
            for n in range(3):
                array.attrs["text"] = f"{n}" * 9000
            assert array._store.now.state.attrs_offset >= at + LENGTHS[GROUP]
        assert len(decode_members(block_of(a.path, GROUP)[1][:4096])) == 1
    assert [xa.check(path).ok for path in paths] == [True, True]


@pytest.mark.parametrize("number", [GROUP, WRITERS])
def test_a_file_that_ends_before_a_block_does(path, number):
    """A truncated block does not count; the next writer that needs one makes another."""
    xa.create(path, (2,), chunks=1).close()
    image = Image.of((metadata(path).read_bytes(), b""))
    at = image.block(WRITERS_OF_IMAGE if number == WRITERS else MEMBERS_OF_IMAGE)
    metadata(path).write_bytes(image.xmd[:-1])
    assert [p.kind for p in xa.check(path).problems if p.severity == "error"] == ["directory"]
    with xa.open(path) as array:
        assert array.shape == (2,)
    use(path, number)
    assert block_of(path, number)[0] >= at
    assert xa.check(path).ok


@pytest.mark.parametrize("number", [GROUP, WRITERS])
@pytest.mark.parametrize("place", ["header", "log", "attributes", "far"])
def test_a_block_in_the_place_of_something_else(path, number, place):
    """Writers do not write there, but make another block."""
    with xa.create(path, (2,), chunks=1, attrs={"unit": "mm", "text": "x" * 40_000}) as array:
        state = array._store.now.state
    image = Image.of((metadata(path).read_bytes(), Path(f"{path}.xta").read_bytes()))
    at = {"header": 0, "log": image.log, "attributes": state.attrs_offset, "far": 2**62 - 4096}
    image.put(image.entry(number) + 4, "I", number)
    image.put(image.entry(number) + 8, "Q", at[place])
    image.mend_entry(number)
    metadata(path).write_bytes(image.xmd)
    use(path, number)
    assert block_of(path, number)[0] >= len(image.xmd) // 512 * 512
    with xa.open(path) as array:
        assert (array.shape, array.attrs["unit"]) == ((2,), "mm")
    assert metadata(path).stat().st_blocks * 512 < 1 << 19


@pytest.mark.parametrize("number", [GROUP, WRITERS])
def test_a_damaged_entry(path, number):
    """The entry is cleared."""
    xa.create(path, (2,), chunks=1).close()
    use(path, number)
    xmd = bytearray(metadata(path).read_bytes())
    for byte in (1, 10):
        xmd[places.DIRECTORY + 16 * number + byte] ^= 9
    metadata(path).write_bytes(xmd)
    assert [p.kind for p in xa.check(path).problems] == ["directory"]
    report = xa.check(path, repair=True)
    if number == GROUP:  # a state that others have decided may wait there
        assert "needs force" in report.refused[0]
        assert metadata(path).read_bytes() == xmd
        report = xa.check(path, repair=True, force=True)
    assert report.ok, str(report)
    assert places.optional_block(metadata(path).read_bytes(), number) == 0
    assert xa.check(path).ok
    use(path, number)


def test_the_list_of_members_comes_with_a_new_axis(tmp_path):
    paths, _ = together(tmp_path)
    _, block = block_of(paths[0], GROUP)
    with xa.open(paths[0], "r+") as array:
        array.add_axis()
        array.attrs["text"] = "x" * 5000
    assert block_of(paths[0], GROUP)[1][:4096] == block[:4096]
    assert os.path.getsize(metadata(paths[0])) < 1 << 16
    assert xa.check(paths[0]).ok


def test_the_header_is_written_once(path):
    """No change of the array rewrites the header."""
    with xa.create(path, (4, 4), "i2", chunks=2, fill_value=3) as array:
        array[...] = 1
        before = metadata(path).read_bytes()[:4096]
    with xa.open(path, "r+") as array, xa.open(path) as reader:
        array.extend(0, 4)
        array.shrink(0, 6)  # makes holes
        array.attrs["n"] = 1
        array.flush()
        assert reader.refresh()
        assert metadata(path).read_bytes()[:4096] == before
    use(path, WRITERS)
    assert metadata(path).read_bytes()[:4096] == before
    cuts = metadata(path).read_bytes()[places.COUNTERS :][:8]
    assert int.from_bytes(cuts, "little") > 0
