"""Short reads: states that wait for a decision, or for another writer, are read all the same.

`python tests/support/short_reads.py` goes through images of files after each write of their
writers, in a process that preload.py watches.  Each image is read repeatedly: the first system call
does half of its work, then the second, and so on, until none is left.
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
    """Return the bytes of all files in a folder."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def put(image: Image, folder: Path) -> None:
    """Write these files to a folder; existing ones keep their inodes."""
    folder.mkdir(exist_ok=True)
    for name, content in image.items():
        (folder / name).write_bytes(content)


def clear(folder: Path) -> None:
    if folder.exists():
        for file in folder.iterdir():
            file.unlink()


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[list[Image]]:
    """Collect distinct images of a folder after each write of a block."""
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
    """Return comparable facts about an array."""
    return array.shape, dict(array.attrs), array[...].tolist()


def with_short_calls(control: Control, prepare: Callable, act: Callable) -> tuple[object, int]:
    """Repeat an action with each of its calls cut short; return its result and the number."""
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
    """Return images of a commit of several arrays, the second by this coordinator."""
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
            for name in reversed(NAMES):  # pending ones first
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
    """Return images of an append by one of two sharing writers, after an append by the other."""
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
    """Open what sharing writers have left: for reading, alone, and shared."""
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
    """Read all images; an error ends the process."""
    control = Control()
    folder = Path(os.environ["PRELOAD_FOLDER"])
    read_groups(control, folder)
    read_appends(control, folder)


if __name__ == "__main__":
    sys.exit(main())
