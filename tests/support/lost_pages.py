"""A power cut that loses pages of the three files of an array."""

from __future__ import annotations

from extarray.storage.filesystem import File

__all__ = ["Disk"]


def mixed(old, new, rng):
    """Return a file some of whose pages are as they were at the last synchronization."""
    length = max(len(old), len(new))
    old, out = old.ljust(length, b"\0"), bytearray(new.ljust(length, b"\0"))
    for at in range(0, length, 4096):
        if rng.random() < 0.5:
            out[at : at + 4096] = old[at : at + 4096]
    return bytes(out)


class Disk:
    """The three files of an array as of their last synchronizations."""

    def __init__(self, path, monkeypatch):
        self.path, self.synced = path, {}
        datasync, reached = File.datasync, self.note

        def note(file):
            datasync(file)
            reached(file)

        monkeypatch.setattr(File, "datasync", note)

    def note(self, file):
        suffix = file.name[-4:]
        if suffix in (".xmd", ".xta", ".xtz"):
            self.synced[suffix] = self.now(suffix)

    def now(self, suffix):
        with open(f"{self.path}{suffix}", "rb") as file:
            return file.read()

    def cut(self, rng, target):
        for suffix, old in self.synced.items():
            with open(f"{target}{suffix}", "wb") as file:
                file.write(mixed(old, self.now(suffix), rng))
