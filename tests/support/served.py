"""A folder behind a web server, as it is at the time of each request; and whether that can be."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
from pathlib import Path

import pytest
from web_server import WebServer

needs_obstore = pytest.mark.skipif(
    importlib.util.find_spec("obstore") is None, reason="obstore is not installed"
)


class Files(dict):
    """The files of a folder, by name."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __getitem__(self, name):
        try:
            return (self.folder / name).read_bytes()
        except OSError:
            raise KeyError(name) from None

    def __setitem__(self, name, data):
        (self.folder / name).write_bytes(data)

    def __contains__(self, name):
        return (self.folder / name).is_file()


class FolderServer(WebServer):
    """A server of a folder; `tags_by` "time" gives tags that tell seconds, as nginx does.

    Large files have such tags anyway.
    """

    tags_by = "content"

    def tag(self, name):
        about = (self.objects.folder / name).stat()
        if self.tags_by == "content" and about.st_size < 1 << 20:
            return super().tag(name)
        text = f"{int(about.st_mtime)}-{about.st_size}"
        return '"' + hashlib.md5(text.encode()).hexdigest() + '"'


@contextlib.contextmanager
def served(folder, **settings):
    """Serve a folder."""
    with FolderServer(Files(folder)) as server:
        for name, value in settings.items():
            setattr(server, name, value)
        yield server
