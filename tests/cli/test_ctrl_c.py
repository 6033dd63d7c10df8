"""Ctrl-C in a console of Windows; elsewhere, tests send a signal."""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request

import console
import numpy as np
import pytest
from systems import IS_POSIX

import extarray as xa

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(IS_POSIX, reason="only Windows has consoles that make Ctrl-C an event"),
]


class InConsole:
    """A program of Python in a console of its own; a ``with`` block ends it in any case."""

    def __init__(self, *arguments):
        command = [sys.executable, console.__file__, sys.executable, "-W", "error", *arguments]
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self):
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return line

    def interrupt(self):
        """Press Ctrl-C; return the status, the rest of the output, and the errors."""
        out, errors = self.process.communicate("\n", timeout=60)
        return self.process.returncode, out, errors

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def test_it_ends_the_viewer(tmp_path):
    pytest.importorskip("tornado")
    xa.from_array(np.arange(12.0), tmp_path / "a").close()
    with InConsole("-m", "extarray", "view", tmp_path / "a", "--no-browser") as viewer:
        url = next(word for word in viewer.line().split() if word.startswith("http://"))
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.status == 200
        status, _, errors = viewer.interrupt()
    assert (status, errors) == (0, "")


def test_it_is_the_usual_end_of_following(tmp_path):
    with (
        xa.create(tmp_path / "a", (0, 2), "f8", chunks=(4, 2)) as a,
        InConsole("-m", "extarray", "follow", tmp_path / "a") as follower,
    ):
        lines = []
        reader = threading.Thread(target=lambda: lines.append(follower.line()))
        reader.start()
        while reader.is_alive():
            a.append(np.ones((1, 2)))  # the follower may not have begun yet
            a.flush()
            reader.join(0.1)
        assert lines[0].endswith(", 0:2]\n")
        status, _, errors = follower.interrupt()
    assert (status, errors) == (0, "")


def test_an_interrupted_writer_leaves_whole_rows(tmp_path):
    program = """
import sys
import numpy as np
import extarray as xa
with xa.create(sys.argv[1], (0, 1000), "i8", chunks=(4, 500)) as a:
    try:
        while True:
            a.append(np.full((1, 1000), len(a)))
            a.flush()
            if len(a) == 3:
                print("begun", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    with InConsole("-c", program, tmp_path / "a") as writer:
        assert writer.line() == "begun\n"
        assert writer.interrupt() == (0, "interrupted\n", "")
    with xa.open(tmp_path / "a") as a:
        assert len(a) >= 3
        np.testing.assert_array_equal(a[:, 0], np.arange(len(a)))
        np.testing.assert_array_equal(a[...], np.broadcast_to(a[:, :1], a.shape))
    assert not xa.check(tmp_path / "a", data=True).problems
