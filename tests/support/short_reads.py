"""Reads that fall short: what waits for a decision, or for another writer, is read all the same.

`python tests/support/short_reads.py` goes through images of files that writers have left at each of
their writes, in a process that preload.py watches.  Each image is read again and again: the first
call to the system does half of its work, then the second, and so on, until none is left.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from preload import FAULTS, Control

import extarray as xa
from extarray.storage.filesystem import File

__all__ = ["main"]

Image = dict[str, bytes]
NAMES = "abc"
ENGINES = ("mmap", "pread")


def image_of(folder: Path) -> Image:
    """The bytes of all files of a folder."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def put(image: Image, folder: Path) -> None:
    """Have these files in a folder; those that are there keep their inodes."""
    folder.mkdir(exist_ok=True)
    for name, content in image.items():
        (folder / name).write_bytes(content)


def clear(folder: Path) -> None:
    if folder.exists():
        for file in folder.iterdir():
            file.unlink()


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[list[Image]]:
    """Images of a folder after each write of a block, each once."""
    images: list[Image] = []
    real = File.write

    def write(file, data, offset):
        real(file, data, offset)
        image = image_of(folder)
        if image not in images[-1:]:
            images.append(image)

    File.write = write
    try:
        yield images
    finally:
        File.write = real


def facts(array: xa.ExtArray):
    """What an array is, comparable."""
    return array.shape, dict(array.attrs), array[...].tolist()


def with_short_calls(control: Control, prepare: Callable, act: Callable) -> tuple[object, int]:
    """What an action gives, the same with each of its calls cut short; and how many were."""
    expected = act(prepare())
    for number in itertools.count(1):
        prepared = prepare()
        with control.fault(number, FAULTS["half"]) as fired:
            got = act(prepared)
        assert got == expected, f"call {number}, {control.name}: {got}, not {expected}"
        if not fired():
            return expected, number - 1
    raise AssertionError


def groups(folder: Path) -> list[Image]:
    """Images of a commit of several arrays, the second one of its coordinator."""
    arrays = [xa.create(folder / name, (1, 2), "i4", chunks=(2, 2)) for name in NAMES]
    commits = []
    for step in (1, 2):
        with recorded(folder) as images, xa.commit(arrays):
            for array in arrays:
                array.append(np.full((2, 2), step, "i4"))
                array.attrs["step"] = "x" * 700 * step
        commits.append(images)
    for array in arrays:
        array.close()
    return commits[-1]


def read_groups(control: Control, folder: Path) -> None:
    """Open and refresh arrays whose states are pending."""
    made, place = folder / "made", folder / "found"
    made.mkdir()
    images = groups(made)
    before = images[0]
    outcomes = set()
    for (number, image), mode in itertools.product(enumerate(images), ("r", "r+")):

        def prepare(image: Image = image) -> None:
            clear(place)
            put(image, place)

        def opened(_, mode: str = mode, engine: str = ENGINES[number % 2]):
            found = []
            for name in reversed(NAMES):  # those that wait first
                with xa.open(place / name, mode, engine=engine) as array:
                    found.append(facts(array))
            return found

        found, n_calls = with_short_calls(control, prepare, opened)
        outcomes.add(str(found))
        assert n_calls > 30, n_calls
    assert len(outcomes) == 2, "all of the commit, or nothing"
    for image in images[1:]:

        def prepare_readers(image: Image = image):
            clear(place)
            put(before, place)
            readers = [xa.open(place / name, engine="pread") for name in reversed(NAMES)]
            put(image, place)
            return readers

        def refreshed(readers):
            xa.refresh(readers)
            try:
                return [facts(reader) for reader in readers]
            finally:
                for reader in readers:
                    reader.close()

        found, _ = with_short_calls(control, prepare_readers, refreshed)
        assert str(found) in outcomes


def appends(folder: Path) -> list[Image]:
    """Images of an append of one of several writers, another of whom has appended before."""
    xa.create(folder / "a", (2, 3), "i4", chunks=(2, 3), fill_value=7).close()
    with (
        xa.open(folder / "a", "r+", share=True) as first,
        xa.open(folder / "a", "r+", share=True) as second,
    ):
        first.append(np.ones((3, 3), "i4"))
        with recorded(folder) as images:
            second.append(np.full((3, 3), 2, "i4"))
    return images


def read_appends(control: Control, folder: Path) -> None:
    """Open what writers that share an array have left, to read it, alone, and among others."""
    made, place = folder / "shared", folder / "left"
    made.mkdir()
    images = appends(made)
    for image, options in itertools.product(
        images, ({}, {"mode": "r+"}, {"mode": "r+", "share": True})
    ):

        def prepare(image: Image = image) -> None:
            clear(place)
            put(image, place)

        def opened(_, options=options):
            with xa.open(place / "a", engine="pread", **options) as array:
                found = facts(array)
                if array.mode == "r+":
                    array.append(np.full((1, 3), 3, "i4"))
            with xa.open(place / "a") as array:
                return found, facts(array)

        with_short_calls(control, prepare, opened)


def main() -> None:
    """Read all images; what is wrong ends it."""
    control = Control()
    folder = Path(os.environ["PRELOAD_FOLDER"])
    read_groups(control, folder)
    read_appends(control, folder)


if __name__ == "__main__":
    sys.exit(main())
